//! Repositories in formats that this build does not read: every command says so by name, and touches
//! nothing. `docs/compatibility.md` has the list.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use isofold::testing::snapshot_tree;

use crate::support::host::{same, skipped, text};
use crate::support::{Run, Sandbox, write};

/// A repository of that format with a worktree, and loose work in both; `None` where git knows no such
/// format.
fn pair(sandbox: &Sandbox, format: &str) -> Option<(PathBuf, PathBuf)> {
    let parent = sandbox.path("all/parent");
    let child = sandbox.path("all/child");
    let (code, words) = sandbox.try_git(&sandbox.path(""), &["init", "-q", "-b", "main", format, text(&parent)]);
    if code != 0 {
        skipped(&format!("this git knows no {format}: {words}"));
        return None;
    }
    for (key, value) in [("user.name", "T"), ("user.email", "t@example.test")] {
        sandbox.git(&parent, &["config", key, value]);
    }
    write(&parent, "a", "one\n");
    sandbox.commit_all(&parent, "first");
    sandbox.git(&parent, &["worktree", "add", "-q", "-b", "side", text(&child)]);
    write(&parent, "a", "two\n");
    write(&child, "b", "new\n");
    Some((parent, child))
}

/// Every command that looks at a repository, from `parent`.
fn commands<'a>(parent: &'a str, child: &'a str, new: &'a str) -> Vec<Vec<&'a str>> {
    let host = |command| vec![command, "--id", "work", "--parent", parent, "--child", child];
    vec![
        vec!["isolate", "--id", "work", "--parent", parent, "--child", new],
        vec!["isolate", "--detach", "--parent", parent, "--child", new],
        host("fold"),
        vec!["fold", "--id", "work", "--parent", parent, "--child", child, "--dry-run"],
        vec!["fold", "--id", "work", "--parent", parent, "--child", child, "--foreign-child"],
        host("update"),
        vec!["remove", "--child", child, "--force"],
        vec!["capture", "--", "touch", "x"],
        vec!["capture", "--from-dirty", "--", "touch", "x"],
        vec!["patch", "record", "--agent", "one", "--worktree", child],
        vec!["patch", "list"],
        vec!["patch", "land", "one"],
        vec!["session", "start", "--name", "one"],
        vec!["session", "list"],
        vec!["session", "keep", "one"],
        vec!["session", "discard", "one", "--force"],
        vec!["saved", "list"],
        vec!["saved", "drop", "one"],
        vec!["recover"],
        vec!["prune", "--older-than", "0"],
        vec!["hook", "worktree-create"],
    ]
}

#[track_caller]
fn refused(format: &str, words: &[&str]) {
    let sandbox = Sandbox::new();
    let Some((parent, child)) = pair(&sandbox, format) else { return };
    let new = sandbox.path("all/new");
    write(&sandbox.path("home"), "event", "{\"name\":\"one\"}");
    let before = sandbox.everything(&sandbox.path("all"));
    let named = |said: &str, what: &str| {
        assert!(words.iter().all(|word| said.contains(word)), "{what}: {said}");
        same(&sandbox.everything(&sandbox.path("all")), &before, what);
    };
    for args in commands(text(&parent), text(&child), text(&new)) {
        let mut program = sandbox.program();
        program.args(&args).current_dir(&parent).stdin(Stdio::null());
        if args[0] == "hook" {
            program.stdin(fs::File::open(sandbox.path("home/event")).expect("an event"));
        }
        let run = Run::of(&program.output().expect("isofold runs"));
        assert!([1, 2, 3].contains(&run.code), "{args:?}: {run:?}");
        named(&(run.stdout.clone() + &run.stderr), &format!("{args:?}"));
    }
    for directory in [&parent, &child] {
        let why = snapshot_tree(directory, true).expect_err("no snapshot");
        named(&why, &format!("a snapshot of {}", directory.display()));
    }
}

#[test]
fn sha256() {
    refused("--object-format=sha256", &["SHA-256", "extensions.objectFormat"]);
}

#[test]
fn reftable() {
    refused("--ref-format=reftable", &["reftable", "extensions.refStorage", "git refs migrate"]);
}
