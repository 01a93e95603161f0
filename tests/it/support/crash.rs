//! What the tests of crashes share: pairs that can be put back to their start, and everything that
//! tells an old Parent from a new one.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::host::{same, text};
use super::{Run, Sandbox, listing, write};

/// A kind of fold, or another job that lands the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    FastForward,
    Merge,
    TypeChanges,
    Deletes,
    LinkedWorktree,
    Detached,
    /// `session keep`: files and index, no commit.
    Keep,
    /// `patch land`: files alone.
    Land,
}

impl Scenario {
    pub(crate) const ALL: [Self; 8] = [
        Self::FastForward,
        Self::Merge,
        Self::TypeChanges,
        Self::Deletes,
        Self::LinkedWorktree,
        Self::Detached,
        Self::Keep,
        Self::Land,
    ];

    /// What the Parent is before it is isolated.
    fn start(self, s: &Sandbox, more: impl FnOnce(&Path)) -> PathBuf {
        let p = s.repo("parent");
        more(&p);
        write(&p, "f", "a file\n");
        write(&p, "d/one", "1\n");
        write(&p, "d/e/two", "2\n");
        write(&p, "bin/run", "#!/bin/sh\n");
        std::os::unix::fs::symlink("a", p.join("link")).expect("a link");
        s.commit_all(&p, "more");
        // Everything in one pack: objects that the sides share are no business of a test.
        s.git(&p, &["repack", "-adq"]);
        match self {
            Self::LinkedWorktree => {
                let linked = s.path("linked");
                s.git(&p, &["worktree", "add", "-q", "-b", "topic/long", linked.to_str().expect("UTF-8")]);
                linked
            }
            Self::Detached => {
                s.git(&p, &["checkout", "-q", "--detach"]);
                p
            }
            _ => p,
        }
    }

    /// What the two sides do.
    fn work(self, s: &Sandbox, p: &Path, c: &Path) {
        write(c, "a", "from the Child\n");
        write(c, "new/deep/file", "new\n");
        match self {
            Self::FastForward => s.commit_all(c, "in the Child"),
            Self::Merge | Self::LinkedWorktree | Self::Detached => {
                write(p, "b", "from the Parent\n");
                fs::remove_file(c.join("d/one")).expect("removed");
                write(c, "bin/run", "#!/bin/sh\nexit\n");
            }
            Self::TypeChanges => {
                fs::remove_file(c.join("f")).expect("removed");
                write(c, "f/below/it", "f is a directory\n");
                fs::remove_dir_all(c.join("d")).expect("removed");
                write(c, "d", "d is a file\n");
                fs::remove_file(c.join("link")).expect("removed");
                write(c, "link", "link is a file\n");
                fs::remove_file(c.join("bin/run")).expect("removed");
                std::os::unix::fs::symlink("../a", c.join("bin/run")).expect("a link");
                write(p, "b", "from the Parent\n");
            }
            Self::Keep | Self::Land => {
                for gone in ["d/one", "d/e/two", "f", "link"] {
                    fs::remove_file(c.join(gone)).expect("removed");
                }
                write(c, "f/below/it", "f is a directory\n");
                write(c, "bin/run", "#!/bin/sh\nexit\n");
                // The user's own, staged and not.
                write(p, "dir/c", "staged in the Parent\n");
                s.git(p, &["add", "dir/c"]);
                write(p, "b", "from the Parent\n");
            }
            Self::Deletes => {
                for gone in ["d/one", "d/e/two", "bin/run", "link", "f"] {
                    fs::remove_file(c.join(gone)).expect("removed");
                }
            }
        }
    }
}

/// A Parent and a Child that can be put back to where they began.
pub(crate) struct Stand {
    pub(crate) s: Sandbox,
    pub(crate) p: PathBuf,
    pub(crate) c: PathBuf,
    scenario: Scenario,
    places: Vec<PathBuf>,
}

impl Stand {
    pub(crate) fn of(scenario: Scenario) -> Self {
        Self::with(scenario, |_| {})
    }

    /// The same with more files.
    pub(crate) fn with(scenario: Scenario, more: impl FnOnce(&Path)) -> Self {
        Self::on(Sandbox::in_memory(), scenario, more)
    }

    /// The same in a given sandbox.
    pub(crate) fn on(s: Sandbox, scenario: Scenario, more: impl FnOnce(&Path)) -> Self {
        let p = scenario.start(&s, more);
        let at = |args: &[&str]| {
            let run = s.isofold([&["-C", text(&p)], args].concat());
            assert_eq!(run.code, 0, "{run:?}");
        };
        let c = if scenario == Scenario::Keep {
            at(&["session", "start", "--name", "one", "--prefix", "kept"]);
            p.join(".worktrees/kept-one")
        } else {
            s.isolate(&p, "child")
        };
        scenario.work(&s, &p, &c);
        if scenario == Scenario::Land {
            at(&["patch", "record", "--agent", "one", "--worktree", text(&c)]);
        }
        let mut places = vec![s.path("parent")];
        for place in [&p, &c] {
            if !places.iter().any(|known| place.starts_with(known)) {
                places.push(place.clone());
            }
        }
        for place in &places {
            copy(place, &kept(place));
        }
        Self { s, p, c, scenario, places }
    }

    /// Back to the start.
    pub(crate) fn reset(&self) {
        for place in &self.places {
            fs::remove_dir_all(place).expect("removed");
            copy(&kept(place), place);
        }
    }

    /// The program, with dates that make commits come out the same each time.
    pub(crate) fn program(&self) -> Command {
        let mut command = self.s.program();
        command.env("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z").env("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z");
        command
    }

    /// What lands.
    pub(crate) fn job(&self) -> Command {
        let args = match self.scenario {
            Scenario::Keep => ["session", "keep", "one"],
            Scenario::Land => ["patch", "land", "one"],
            _ => return self.fold(),
        };
        let mut command = self.program();
        command.arg("-C").arg(&self.p).args(args);
        command
    }

    pub(crate) fn fold(&self) -> Command {
        let mut command = self.program();
        command.args(["fold", "--id", "work", "--parent"]).arg(&self.p).arg("--child").arg(&self.c);
        command
    }

    pub(crate) fn recover(&self) -> Command {
        let mut command = self.program();
        command.args(["recover", "--parent"]).arg(&self.p);
        command
    }

    /// Runs a command that is killed at `point`; whether it got there.
    #[allow(clippy::unused_self, reason = "reads as what happens to the stand")]
    pub(crate) fn killed_at(&self, mut command: Command, point: &str) -> bool {
        let output = command.env("ISOFOLD_CRASH_AT", point).output().expect("isofold runs");
        let killed = output.status.signal() == Some(9);
        assert!(killed || output.status.success(), "{point}: {}", String::from_utf8_lossy(&output.stdout));
        killed
    }

    /// Recovers, which has to succeed.
    #[track_caller]
    pub(crate) fn recovered(&self) -> Run {
        let run = Run::of_command(&mut self.recover());
        assert!(run.code == 0 && (run.outcome() == "recovered" || run.outcome() == "nothing"), "{run:?}");
        run
    }

    /// Everything that tells the old state from the new: files with hashes, index, HEAD, refs, reflogs,
    /// status; and what must not be there: faults, locks, temporaries.
    pub(crate) fn state(&self) -> String {
        // What a session or a patch is kept in goes its own way.
        let theirs = |line: &&str| !line.starts_with(".worktrees") && !line.starts_with(".isofold");
        let mut text: String = listing(&self.p).lines().filter(theirs).map(without_time).collect();
        let git_dir = PathBuf::from(self.s.git(&self.p, &["rev-parse", "--absolute-git-dir"]));
        let common = self.s.path("parent/.git");
        let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
        let head = read(git_dir.join("HEAD"));
        let _ = writeln!(text, "HEAD {head}HEAD log {}", read(git_dir.join("logs/HEAD")));
        if let Some(branch) = head.trim().strip_prefix("ref: ") {
            let _ = writeln!(text, "branch log {}", read(common.join("logs").join(branch)));
        }
        let refs = self.s.git(&self.p, &["for-each-ref", "--format=%(objectname) %(refname)"]);
        // A base entry has a name of its own each time.
        let plain = |line: &str| line.split_once("refs/isofold/base/").map_or(line, |(id, _)| id).to_owned();
        let session = ["refs/heads/kept/", "refs/isofold/session/", "refs/isofold/base/"];
        let lands = |line: &&str| self.scenario != Scenario::Keep || !session.iter().any(|space| line.contains(space));
        let mut refs: Vec<String> = refs.lines().filter(lands).map(plain).collect();
        refs.sort();
        let _ = writeln!(text, "refs {refs:#?}");
        if self.scenario != Scenario::Keep {
            let bases = fs::read_dir(common.join("isofold/bases")).map_or(0, Iterator::count);
            let _ = writeln!(text, "bases {bases}");
        }
        text.push_str(&self.s.git(&self.p, &["ls-files", "-s"]));
        text.push_str(&self.s.git(&self.p, &["--no-optional-locks", "status", "--porcelain=v2"]));
        text.push_str(&self.s.try_git(&self.p, &["fsck", "--no-progress", "--no-dangling"]).1);
        for left in leftovers(&common).into_iter().chain(leftovers_in_work_tree(&self.p)) {
            let _ = writeln!(text, "\nleft over: {}", left.display());
        }
        text
    }

    /// What was killed is done again, and all new at the end; what has landed already lands once.
    #[track_caller]
    pub(crate) fn done_again(&self, new: &str) {
        if matches!(self.scenario, Scenario::Keep | Scenario::Land) {
            let run = Run::of_command(&mut self.job());
            assert_eq!(run.code, 0, "{run:?}");
            same(&self.state(), new, "done again");
            assert!(self.scenario == Scenario::Land || !self.c.exists(), "{run:?}");
        }
    }

    /// The user's own git goes on as ever.
    #[track_caller]
    pub(crate) fn user_can_commit(&self) {
        self.s.git(&self.p, &["add", "-A"]);
        self.s.git(&self.p, &["commit", "-q", "--allow-empty", "-m", "the user's"]);
        self.s.git(&self.p, &["pack-refs", "--all"]);
    }
}

fn without_time(row: &str) -> String {
    let words: Vec<&str> = row.split(' ').collect();
    // A name may have spaces; the time is the word that has a point and nine digits.
    let is_time = |word: &str| word.rsplit_once('.').is_some_and(|(_, digits)| digits.len() == 9);
    let rest: Vec<&str> = words.into_iter().filter(|word| !is_time(word)).collect();
    rest.join(" ") + "\n"
}

fn kept(place: &Path) -> PathBuf {
    let mut kept = place.as_os_str().to_owned();
    kept.push(".kept");
    PathBuf::from(kept)
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
    assert!(copied.success());
}

/// Locks, and files of ours that belong to no finished work, below a git directory.
pub(crate) fn leftovers(git_dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![git_dir.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("readable").map(|e| e.expect("an entry")) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let temporary = [".lock", ".keep"].iter().any(|end| name.ends_with(end))
                || ["isofold-", ".isofold-", "tmp_", ".tmp"].iter().any(|start| name.starts_with(start));
            if temporary || entry.path().ends_with("refs/isofold/fold") {
                found.push(entry.path());
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                directories.push(entry.path());
            }
        }
    }
    found
}

fn leftovers_in_work_tree(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).expect("readable").map(|e| e.expect("an entry").path());
    entries.filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(".isofold-"))).collect()
}
