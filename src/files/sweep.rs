//! Emptying a directory with two workers: quick, and without a word. What it can't take away (no right,
//! somebody puts files there) it leaves for the removal that follows, which opens up and reports.

use std::convert::Infallible;
use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, unlinkat};

use super::queue::{WORKERS, work};
use super::walk::{entries, open_directory};

/// Entries of one directory that one worker takes at a time.
const CHUNK: usize = 256;

/// A directory whose entries are being taken away; with the last of them it goes itself.
struct Node {
    directory: OwnedFd,
    /// The directory above and the name there; none of the one that is emptied.
    above: Option<(Arc<Node>, CString)>,
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some((above, name)) = &self.above {
            let _ = unlinkat(&above.directory, name, AtFlags::REMOVEDIR);
        }
    }
}

enum Task {
    Directory(Arc<Node>, CString),
    Files(Arc<Node>, Vec<CString>),
}

/// Takes away what is in `directory`, other than `keep` at its top. Links are not followed.
pub(super) fn sweep(directory: &Path, keep: &CStr) {
    let Ok(name) = CString::new(directory.as_os_str().as_encoded_bytes()) else { return };
    let Ok(opened) = open_directory(rustix::fs::CWD, &name) else { return };
    let root = Arc::new(Node { directory: opened, above: None });
    let first = inside(&root, Some(keep));
    drop(root);
    let swept: Result<Vec<()>, Infallible> = work(first, WORKERS, |task, ()| {
        Ok(match task {
            Task::Directory(above, name) => match open_directory(&above.directory, &name) {
                Ok(directory) => inside(&Arc::new(Node { directory, above: Some((above, name)) }), None),
                Err(_) => Vec::new(),
            },
            Task::Files(of, names) => {
                for name in names {
                    let _ = unlinkat(&of.directory, &name, AtFlags::empty());
                }
                Vec::new()
            }
        })
    });
    debug_assert!(swept.is_ok(), "no task fails");
}

fn inside(node: &Arc<Node>, keep: Option<&CStr>) -> Vec<Task> {
    let mut tasks = Vec::new();
    let mut files = Vec::new();
    for entry in entries(&node.directory).unwrap_or_default() {
        if Some(entry.name.as_c_str()) == keep {
            continue;
        }
        if entry.kind == FileType::Directory {
            tasks.push(Task::Directory(node.clone(), entry.name));
            continue;
        }
        files.push(entry.name);
        if files.len() == CHUNK {
            tasks.push(Task::Files(node.clone(), std::mem::take(&mut files)));
        }
    }
    if !files.is_empty() {
        tasks.push(Task::Files(node.clone(), files));
    }
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn everything_goes_but_what_is_kept_and_what_links_lead_to() {
        let place = tempfile::tempdir().expect("a directory");
        let (root, outside) = (place.path().join("root"), place.path().join("outside"));
        for number in 0..700 {
            let directory = root.join(format!("d{}/e{}", number % 7, number % 3));
            fs::create_dir_all(&directory).expect("made");
            fs::write(directory.join(number.to_string()), "x").expect("written");
        }
        fs::create_dir(&outside).expect("made");
        fs::write(outside.join("kept"), "x").expect("written");
        std::os::unix::fs::symlink(&outside, root.join("d1/link")).expect("linked");
        fs::create_dir(root.join(".git")).expect("made");
        fs::create_dir(root.join("d2/.git")).expect("made");
        sweep(&root, c".git");
        let left: Vec<_> = fs::read_dir(&root).expect("readable").map(|e| e.expect("an entry").file_name()).collect();
        assert_eq!(left, [".git"]);
        assert!(outside.join("kept").exists());
    }
}
