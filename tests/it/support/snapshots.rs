//! Snapshots against real git, for the table and the fuzz tests.
//!
//! The library is asked in this process, so the process itself has to be hermetic: a test that uses
//! [`hermetic`] runs its work in another process of the same program.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use isofold::IsolationBackend;
use isofold::testing::{Taken, snapshot_tree};

use super::Sandbox;

/// Prints a line that belongs to a test's output: counts and seeds.
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        writeln!(std::io::stdout(), $($words)*).expect("printed");
    }};
}
pub(crate) use say;

const INSIDE: &str = "ISOFOLD_TEST_HERMETIC";

/// Runs `work` with a home of its own and no git variables but `more`; `plain` without the right to
/// pass over file modes, which root has. `name` is the full name of the test that calls this.
pub(crate) fn hermetic(name: &str, plain: bool, more: &[(&str, &str)], work: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        work();
        return;
    }
    let s = Sandbox::new();
    let program = std::env::current_exe().expect("this program");
    let mut command = if plain && rustix_is_root() {
        let mut command = s.command("setpriv");
        command.args(["--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all", "--"]).arg(program);
        command
    } else {
        s.command(program)
    };
    command.args(["--exact", name, "--nocapture", "--include-ignored"]).env(INSIDE, "1").stdin(Stdio::null());
    for (key, value) in more {
        command.env(key, value);
    }
    let output = command.output().expect("the tests run");
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("1 passed") && output.status.success(), "{text}");
    // What the work printed belongs to this test's output.
    say!("{text}");
}

fn rustix_is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

/// git in `directory`, with this process' environment.
pub(crate) fn git(directory: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(directory).args(args).stdin(Stdio::null());
    command
}

/// What git makes of `directory`: the tree of `git add -A --sparse`, less the paths named, through
/// a copy of the index that has its time; the error in git's words.
pub(crate) fn by_git(directory: &Path, less: &[&str]) -> Result<String, String> {
    let mut git_dir = directory.join(".git");
    if !git_dir.is_dir() {
        let output = git(directory, &["rev-parse", "--absolute-git-dir"]).output().expect("git runs");
        git_dir = String::from_utf8_lossy(&output.stdout).trim_end().into();
    }
    let copy = git_dir.join("copy-of-index");
    let _ = fs::remove_file(&copy);
    let index = git_dir.join("index");
    if let Ok(meta) = fs::metadata(&index) {
        fs::copy(&index, &copy).expect("copied");
        let file = fs::File::options().write(true).open(&copy).expect("opened");
        file.set_modified(meta.modified().expect("a time")).expect("set");
    }
    let mut add = git(directory, &["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"]);
    add.args(["add", "-A", "--sparse", "--", ":/"]);
    for path in less {
        add.arg(format!(":(top,exclude,literal){path}"));
    }
    let result = (|| {
        for mut command in [add, git(directory, &["write-tree"])] {
            let output = command.env("GIT_INDEX_FILE", &copy).output().expect("git runs");
            if !output.status.success() {
                return Err(String::from_utf8_lossy(&output.stderr).into_owned());
            }
            if command.get_args().any(|a| a == "write-tree") {
                return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
            }
        }
        unreachable!("write-tree was asked");
    })();
    let _ = fs::remove_file(&copy);
    result
}

/// Paths that git would add as a pointer to a repository: isofold leaves them out.
pub(crate) fn nested(directory: &Path) -> Vec<String> {
    let output = git(directory, &["ls-files", "-z", "-o", "--exclude-standard"]).output().expect("git runs");
    let paths = output.stdout.split(|b| *b == 0).filter_map(|path| path.strip_suffix(b"/"));
    paths.map(|path| String::from_utf8_lossy(path).into_owned()).collect()
}

/// Compares a snapshot with git's; what is different, in words.
pub(crate) fn compare(directory: &Path, less: &[&str]) -> Result<Taken, String> {
    let taken = snapshot_tree(directory, false);
    let wanted = by_git(directory, less);
    match (taken, wanted) {
        (Ok(taken), Ok(wanted)) if taken.tree == wanted => Ok(taken),
        (Ok(taken), Ok(wanted)) => {
            // Again, so that the objects can be looked at.
            let _ = snapshot_tree(directory, true);
            let diff = git(directory, &["diff-tree", "-r", &wanted, &taken.tree]).output().expect("git runs");
            let diff = String::from_utf8_lossy(&diff.stdout).into_owned();
            Err(format!("by git: {}; from git's tree to ours:\n{diff}", taken.by_git))
        }
        (Ok(taken), Err(words)) => Err(format!("git refuses, we do not (by git: {}): {words}", taken.by_git)),
        (Err(words), Ok(_)) => Err(format!("we refuse, git does not: {words}")),
        (Err(ours), Err(gits)) => Err(format!("refused: {ours} (git: {gits})")),
    }
}

/// The base of an isolation is taken by the walk that fills the Child; it has to be what git makes of
/// the Child too. `false` where there was no isolation: checked-out submodules, names that git refuses.
pub(crate) fn isolated(repo: &Path, child: &Path) -> Result<bool, String> {
    let strategy = isofold::Strategy::new();
    let request = isofold::IsolateRequest::new("of a snapshot", repo, child);
    let outcome = strategy.isolator().isolate(&request, &isofold::Control::new());
    if !matches!(outcome, isofold::IsolateOutcome::Isolated(_)) {
        return Ok(false);
    }
    let less = nested(child);
    let less: Vec<&str> = less.iter().map(String::as_str).chain([".isofold/new"]).collect();
    let notes = child.join(".isofold").is_file().then_some(".isofold");
    let less: Vec<&str> = less.into_iter().chain(notes).collect();
    let taken = match compare(child, &less) {
        Ok(taken) => taken,
        // Neither takes the Child as it stands, say with a repository where git was told not to look.
        Err(why) if why.starts_with("refused: ") => return Ok(false),
        Err(why) => return Err(format!("in the Child: {why}")),
    };
    let format = "--format=%(tree)";
    let base = git(child, &["for-each-ref", format, "refs/isofold/base"]).output().expect("git runs");
    let base = String::from_utf8_lossy(&base.stdout).trim_end().to_owned();
    if base == taken.tree {
        return Ok(true);
    }
    let _ = snapshot_tree(child, true);
    let diff = git(child, &["diff-tree", "-r", &base, &taken.tree]).output().expect("git runs");
    Err(format!("base {base}, Child {}: {}", taken.tree, String::from_utf8_lossy(&diff.stdout)))
}
