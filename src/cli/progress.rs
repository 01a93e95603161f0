//! One line on stderr that says how far the work is, where a person watches and it takes long. It is
//! gone when the work is done.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use isofold::{Control, Progress, Stage};

use super::output::size;

/// Work that is over sooner is not worth a line.
const PATIENCE: Duration = Duration::from_millis(500);
const PACE: Duration = Duration::from_millis(100);
/// Back to the start of the line, and erase it.
const ERASE: &str = "\r\x1b[K";

/// Runs `work` under the eyes of whoever sits at the terminal.
pub(crate) fn watched<T>(control: &Control, work: impl FnOnce() -> T) -> T {
    let _line = Line::start(control);
    work()
}

/// The line; dropping it takes it off the screen.
struct Line(Option<(Sender<()>, JoinHandle<()>)>);

impl Line {
    fn start(control: &Control) -> Self {
        if !std::io::stderr().is_terminal() || std::env::var_os("TERM").is_none_or(|t| t.is_empty() || t == "dumb") {
            return Self(None);
        }
        let progress = control.progress().clone();
        let (sender, receiver) = channel::<()>();
        let draw = move || {
            let mut wait = PATIENCE;
            let mut drawn = false;
            while receiver.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                wait = PACE;
                drawn = true;
                print(&format!("{ERASE}{}", cut(&text(&progress))));
            }
            if drawn {
                print(ERASE);
            }
        };
        // Without a thread there is no line, and that is all.
        Self(std::thread::Builder::new().spawn(draw).ok().map(|thread| (sender, thread)))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.0.take() {
            drop(sender);
            let _ = thread.join();
        }
    }
}

fn print(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

/// A longer line would wrap, and the part above could not be erased.
fn cut(text: &str) -> String {
    let columns = rustix::termios::tcgetwinsize(std::io::stderr()).map_or(0, |size| usize::from(size.ws_col));
    let columns = if columns == 0 { 80 } else { columns };
    text.chars().take(columns - 1).collect()
}

fn text(progress: &Progress) -> String {
    match progress.stage() {
        Stage::Filling => filling(progress.files(), progress.bytes_cloned(), progress.bytes_copied()),
        Stage::Snapshot => "looking for changes".to_owned(),
        Stage::Combining => "merging".to_owned(),
        Stage::Writing => "writing".to_owned(),
        Stage::Removing => "removing".to_owned(),
        Stage::Cloning => Some(progress.said()).filter(|said| !said.is_empty()).unwrap_or("cloning".to_owned()),
        _ => "preparing".to_owned(),
    }
}

fn filling(files: u64, cloned: u64, copied: u64) -> String {
    let how = match (cloned, copied) {
        (0, 0) => String::new(),
        (0, copied) => format!(", {} copied", size(copied)),
        (cloned, 0) => format!(", {} cloned", size(cloned)),
        (cloned, copied) => format!(", {} cloned, {} copied", size(cloned), size(copied)),
    };
    format!("filling: {files} files{how}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_methods() {
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(3 << 30), "3.0 GiB");
        assert_eq!(filling(2, 0, 2048), "filling: 2 files, 2.0 KiB copied");
        assert_eq!(filling(2, 2048, 10), "filling: 2 files, 2.0 KiB cloned, 10 B copied");
        assert_eq!(filling(0, 0, 0), "filling: 0 files");
    }
}
