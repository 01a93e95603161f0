//! What the tests of the command line need: the whole sandbox compared before and after, a user
//! without privileges, a small disk.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, lchown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Run, Sandbox, hash};

/// The user and group `nobody`.
const NOBODY: u32 = 65534;

impl Sandbox {
    /// Everything in the sandbox, git directories and their locks included, and what git says about
    /// `repo`: nothing of it may change when a command does nothing.
    pub(crate) fn everything(&self, repo: &Path) -> String {
        let mut rows = Vec::new();
        raw(&self.root, &self.root, &mut rows);
        rows.sort();
        let mut text = rows.join("\n") + "\n";
        let (code, root) = self.try_git(repo, &["rev-parse", "--show-toplevel"]);
        if code == 0 && Path::new(&root) == repo {
            text.push_str(&self.state(repo));
        }
        text
    }

    /// Runs something that must end with this outcome and code and change nothing at all; its report.
    #[track_caller]
    pub(crate) fn unchanged(&self, repo: &Path, outcome: &str, code: i32, run: impl FnOnce() -> Run) -> String {
        let before = self.everything(repo);
        let run = run().expect(outcome, code);
        let report = run.one_line_report();
        same(&self.everything(repo), &before, &report);
        report
    }

    /// Gives everything in the sandbox to a user without privileges. Where the tests run without
    /// privileges, it is that user's already.
    pub(crate) fn give_all_away(&self) {
        if is_root() {
            // The build directory need not be readable for everybody.
            // By a process of its own: while this one writes it, others that start here hold it open.
            let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_isofold")).arg(self.path("program")).status();
            assert!(copied.is_ok_and(|status| status.success()), "a copy of the program");
            // Git run by the tests looks at repositories that belong to somebody else now.
            fs::write(self.path("home/.gitconfig"), "[safe]\n\tdirectory = *\n").expect("a configuration");
            self.give_away(&self.root);
        }
    }

    /// From here on git and the program run as the user of [`Self::give_all_away`], who owns everything.
    pub(crate) fn lower(&self) {
        self.give_all_away();
        self.lowered.store(is_root(), Ordering::Relaxed);
    }

    /// Gives a file that the test wrote itself to whoever git and the program run as.
    pub(crate) fn settle_owner(&self, file: &Path) {
        if self.lowered.load(Ordering::Relaxed) {
            lchown(file, Some(NOBODY), Some(NOBODY)).expect("a new owner");
        }
    }

    /// Gives a file, or a directory and what is in it, to the user without privileges.
    pub(crate) fn give_away(&self, path: &Path) {
        assert!(path.starts_with(&self.root));
        lchown(path, Some(NOBODY), Some(NOBODY)).expect("a new owner");
        if fs::symlink_metadata(path).expect("a stat").is_dir() {
            for entry in fs::read_dir(path).expect("readable") {
                self.give_away(&entry.expect("an entry").path());
            }
        }
    }

    /// The program as the user of [`Self::give_all_away`].
    pub(crate) fn unprivileged(&self) -> Command {
        if !is_root() {
            return self.program();
        }
        let mut command = self.command("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(self.path("program"));
        command
    }

    /// Starts a command; its stdout is kept for [`Running::finish`].
    pub(crate) fn start<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Running {
        let mut command = self.program();
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(command.spawn().expect("isofold runs"))
    }

    /// Mounts a tmpfs of `kilobytes` at `name`; `None`, said on stderr, where that is not allowed.
    pub(crate) fn small_disk(&self, name: &str, kilobytes: u32) -> Option<SmallDisk> {
        let directory = self.path(name);
        fs::create_dir(&directory).expect("a mount point");
        let size = format!("size={kilobytes}k,mode=0777");
        let mounted = self.command("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&directory).output().ok();
        if mounted.is_some_and(|output| output.status.success()) {
            return Some(SmallDisk(directory));
        }
        skipped("a full disk needs the right to mount a tmpfs");
        None
    }
}

/// Says something beside the result of a test.
pub(crate) fn note(what: &str) {
    let _ = writeln!(std::io::stderr(), "{what}");
}

/// Says that a test could not run; fails it where the environment promises that all can.
#[track_caller]
pub(crate) fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "not tested: {why}");
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{why}");
}

/// Whether the tests run as root.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

/// A mounted tmpfs, unmounted with the value.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// The program, running.
pub(crate) struct Running(Child);

impl Running {
    /// Sends a signal, by its name without `SIG`.
    pub(crate) fn signal(&self, name: &str) {
        Self::signal_to(self.0.id(), name);
    }

    /// The same, to any program that a test started.
    pub(crate) fn signal_to(pid: u32, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
        assert!(sent.expect("kill runs").success(), "the program had ended before the signal");
    }

    pub(crate) fn finish(self) -> Run {
        Run::of(&self.0.wait_with_output().expect("an end"))
    }
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn wait_for(what: &str, mut so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !so() {
        assert!(since.elapsed() < Duration::from_secs(30), "{what} did not come");
        std::thread::sleep(Duration::from_millis(3));
    }
}

impl Run {
    pub(crate) fn of_command(command: &mut Command) -> Self {
        Self::of(&command.output().expect("isofold runs"))
    }

    /// The report, which has to be one line of text without control characters.
    #[track_caller]
    pub(crate) fn one_line_report(&self) -> String {
        let report = self.report();
        assert!(!report.is_empty(), "{self:?}");
        assert!(!report.contains(char::is_control), "{report:?}");
        report
    }

    /// The names of the fields of each line, in their order.
    pub(crate) fn fields(&self) -> Vec<Vec<String>> {
        let names = |line: &Value| line.as_object().expect("an object").keys().cloned().collect();
        self.lines().iter().map(names).collect()
    }

    /// The phases of the status lines.
    pub(crate) fn phases(&self) -> Vec<String> {
        let lines = self.lines();
        lines.iter().filter_map(|line| line["phase"].as_str().map(str::to_owned)).collect()
    }
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("the sandbox has a plain name")
}

/// Asserts that two long texts are equal; says only where they differ.
#[track_caller]
pub(crate) fn same(after: &str, before: &str, why: &str) {
    if after == before {
        return;
    }
    let mut difference = String::new();
    for line in before.lines().filter(|line| !after.lines().any(|other| other == *line)) {
        let _ = writeln!(difference, "- {line}");
    }
    for line in after.lines().filter(|line| !before.lines().any(|other| other == *line)) {
        let _ = writeln!(difference, "+ {line}");
    }
    panic!("something changed ({why}):\n{difference}");
}

/// Like `listing`, git directories included, without times.
fn raw(root: &Path, directory: &Path, rows: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display())) {
        let path = entry.expect("an entry").path();
        let meta = fs::symlink_metadata(&path).expect("a stat");
        let name = path.strip_prefix(root).expect("inside").as_os_str().as_bytes().escape_ascii();
        let content = if meta.is_symlink() {
            fs::read_link(&path).expect("a target").as_os_str().as_bytes().escape_ascii().to_string()
        } else if meta.is_file() {
            fs::read(&path).map_or_else(|e| e.to_string(), |bytes| hash(&bytes))
        } else {
            String::new()
        };
        rows.push(format!("{name} {:o} {content}", meta.mode()));
        if meta.is_dir() {
            raw(root, &path, rows);
        }
    }
}
