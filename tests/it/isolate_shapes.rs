//! Parents of every shape: isolated, edited, folded, removed; or refused by name. Each row runs as
//! whoever runs the tests and, where that is root, as a user without privileges too.

mod checkouts;
mod formats;
mod systems;
mod trees;

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::host::{is_root, note, same, text};
use crate::support::{Run, Sandbox, lines, listing, read, write};

/// What a row's Parent comes to.
enum Ends {
    /// Isolated, folded, removed; what `git status` says in the Parent after the fold.
    Folds(&'static str),
    /// Isolated and removed; the fold fails with these words.
    FoldFails(&'static [&'static str]),
    /// Not isolated: the outcome `failed`, with these words.
    Fails(&'static [&'static str]),
    /// Not isolated: the outcome `invalid-invocation`, with these words.
    Invalid(&'static [&'static str]),
}

/// One shape.
struct Row {
    name: &'static str,
    /// Makes the Parent in a sandbox.
    make: fn(&Sandbox) -> PathBuf,
    ends: Ends,
    /// How it ends without privileges, where that is different.
    unprivileged: Option<Ends>,
    /// A further look at the Child before it is edited.
    look: fn(&Sandbox, &Run, &Path, &Path),
    /// Lines of a status that are one side's alone: other worktrees, secrets, what is no file.
    not_shared: &'static [&'static str],
}

fn row(name: &'static str, ends: Ends, make: fn(&Sandbox) -> PathBuf) -> Row {
    Row { name, make, ends, unprivileged: None, look: |_, _, _, _| {}, not_shared: &[] }
}

impl Row {
    fn look(mut self, look: fn(&Sandbox, &Run, &Path, &Path)) -> Self {
        self.look = look;
        self
    }

    fn unprivileged(mut self, ends: Ends) -> Self {
        self.unprivileged = Some(ends);
        self
    }

    fn not_shared(mut self, lines: &'static [&'static str]) -> Self {
        self.not_shared = lines;
        self
    }
}

/// Runs all rows, each with and without privileges, and says which failed.
fn run_all(rows: &[Row]) {
    let mut failed = Vec::new();
    for row in rows {
        for lowered in if is_root() { &[false, true][..] } else { &[false] } {
            let name = format!("{}{}", row.name, if *lowered { " without privileges" } else { "" });
            let ran = std::panic::catch_unwind(|| run(row, &Sandbox::in_memory(), None, *lowered));
            if ran.is_err() {
                note(&format!("FAILED: {name}"));
                failed.push(name);
            }
        }
    }
    assert!(failed.is_empty(), "{} of {} rows: {failed:#?}", failed.len(), rows.len());
}

/// What git says about a directory; a repository that this git can't read has no status.
fn status(sandbox: &Sandbox, directory: &Path) -> (i32, String) {
    sandbox.try_git(directory, &["--no-optional-locks", "status", "--porcelain", "--untracked-files=all"])
}

/// One row in a sandbox, the Child there or elsewhere.
fn run(row: &Row, sandbox: &Sandbox, elsewhere: Option<&Path>, lowered: bool) {
    let parent = (row.make)(sandbox);
    if lowered {
        sandbox.lower();
    }
    let ends = row.unprivileged.as_ref().filter(|_| lowered).unwrap_or(&row.ends);
    let child = elsewhere.map_or_else(|| sandbox.path("the child"), |place| place.join("the child"));
    let before = (listing(&parent), status(sandbox, &parent));
    let bases = |at: &Path| sandbox.try_git(at, &["for-each-ref", "refs/isofold/base"]);
    let bases_before = bases(&parent);
    let untouched = |why: &str| {
        same(&listing(&parent), &before.0, why);
        assert_eq!(status(sandbox, &parent), before.1, "{why}");
    };
    let run = sandbox.try_isolate("shape", &parent, &child, &[]);
    let refused = |run: Run, outcome: &str, code: i32, words: &[&str]| {
        let report = run.expect(outcome, code).one_line_report();
        for word in words {
            assert!(report.contains(word), "{word:?} in {report}");
        }
        assert!(fs::symlink_metadata(&child).is_err(), "{report}");
        untouched(&report);
        note(&format!("{}: {report}", row.name));
    };
    match ends {
        Ends::Fails(words) => return refused(run, "failed", 1, words),
        Ends::Invalid(words) => return refused(run, "invalid-invocation", 2, words),
        Ends::Folds(_) | Ends::FoldFails(_) => {}
    }
    let run = run.expect("isolated", 0);
    untouched("isolated");
    let (code, theirs) = &before.1;
    assert_eq!(*code, 0, "{theirs}");
    let (_, ours) = status(sandbox, &child);
    let shared = |status: &str| -> Vec<String> {
        let lines = status.lines().filter(|line| !row.not_shared.iter().any(|other| line.starts_with(other)));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(shared(&ours), shared(theirs), "status of the Child");
    (row.look)(sandbox, &run, &parent, &child);

    write(&child, "new in the child", "new\n");
    if child.join("b").is_file() {
        write(&child, "b", lines(&[(3, "edited")]));
    }
    sandbox.settle_owner(&child.join("new in the child"));
    let folded = sandbox.try_fold(&parent, &child, &[]);
    match ends {
        Ends::FoldFails(words) => {
            let report = folded.expect("failed", 3).one_line_report();
            for word in *words {
                assert!(report.contains(word), "{word:?} in {report}");
            }
            untouched(&report);
        }
        Ends::Folds(left) => {
            folded.expect("integrated", 0);
            assert_eq!(read(&parent, "new in the child").as_deref(), Some("new\n"));
            if child.join("b").is_file() {
                assert_eq!(read(&parent, "b"), Some(lines(&[(3, "edited")])));
            }
            let (code, after) = status(sandbox, &parent);
            assert_eq!((code, after.as_str()), (0, *left), "status after the fold");
        }
        Ends::Fails(_) | Ends::Invalid(_) => unreachable!("returned above"),
    }
    let (code, report) = sandbox.try_git(&parent, &["fsck", "--no-progress", "--no-dangling"]);
    assert_eq!((code, report.replace("notice: HEAD points to an unborn branch (main)", "").as_str()), (0, ""), "fsck");
    let removed = sandbox.isofold(["remove", "--force", "--child", text(&child)]);
    assert_eq!((removed.code, removed.outcome().as_str()), (0, "removed"), "{removed:?}");
    assert!(fs::symlink_metadata(&child).is_err());
    let listed = sandbox.git(&parent, &["worktree", "list", "--porcelain"]);
    assert!(!listed.contains("the child"), "{listed}");
    assert_eq!(bases(&parent), bases_before);
}

/// The usual repository with loose work of every kind: modified, staged, untracked, ignored.
fn dirty(sandbox: &Sandbox, name: &str) -> PathBuf {
    let parent = sandbox.repo(name);
    loosen(sandbox, &parent);
    parent
}

fn loosen(sandbox: &Sandbox, parent: &Path) {
    write(parent, "a", lines(&[(1, "dirty")]));
    write(parent, "staged", "staged\n");
    sandbox.git(parent, &["add", "staged"]);
    write(parent, "untracked", "untracked\n");
    write(parent, "some.log", "ignored\n");
    write(parent, "ignored/deep/file", "ignored\n");
}

/// Every row has a name of its own, and there are enough of them.
#[test]
fn there_are_more_than_sixty_shapes() {
    let all = [formats::rows(), checkouts::rows(), trees::rows(), systems::rows()];
    let names: Vec<&str> = all.iter().flatten().map(|row| row.name).collect();
    let distinct: std::collections::BTreeSet<&&str> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
    assert!(names.len() >= 60, "{} shapes", names.len());
    note(&format!("{} shapes", names.len()));
}
