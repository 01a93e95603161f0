//! Folds of clones (`--foreign-child`): their commits and files come, their configuration has no say.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::support::{Sandbox, lines, read, write};

/// A repository and a clone of it.
fn cloned(sandbox: &Sandbox) -> (PathBuf, PathBuf) {
    let parent = sandbox.repo("parent");
    let clone = clone(sandbox, &parent, "clone", &[]);
    (parent, clone)
}

fn clone(sandbox: &Sandbox, parent: &Path, name: &str, more: &[&str]) -> PathBuf {
    let clone = sandbox.path(name);
    let from = format!("file://{}", parent.display());
    let mut args = vec!["clone", "-q"];
    args.extend(more);
    args.extend([from.as_str(), clone.to_str().expect("UTF-8")]);
    sandbox.git(&sandbox.path(""), &args);
    sandbox.git(&clone, &["config", "user.name", "Clone"]);
    sandbox.git(&clone, &["config", "user.email", "clone@example.test"]);
    clone
}

/// Nothing of the fold is left but what it brought.
#[track_caller]
fn nothing_left(sandbox: &Sandbox, parent: &Path) {
    assert_eq!(sandbox.git(parent, &["for-each-ref", "refs/isofold/foreign"]), "");
    let left = fs::read_dir(parent.join(".git")).expect("readable").filter(|entry| {
        let name = entry.as_ref().expect("an entry").file_name();
        name.to_string_lossy().starts_with("isofold-")
    });
    assert_eq!(left.count(), 0);
}

#[test]
fn a_clone_is_folded_with_its_commits_and_its_loose_work() {
    let sandbox = Sandbox::new();
    let (parent, clone) = cloned(&sandbox);
    write(&clone, "a", lines(&[(3, "committed")]));
    sandbox.commit_all(&clone, "in the clone");
    write(&clone, "b", lines(&[(4, "loose")]));
    write(&clone, "new", "untracked\n");
    write(&clone, "ignored/x", "ignored\n");
    write(&parent, "b", lines(&[(15, "meanwhile")]));
    let before = sandbox.state(&clone);
    sandbox.unchanged(&parent, "failed", 3, || sandbox.try_fold(&parent, &clone, &[]));
    let report = sandbox.try_fold(&parent, &clone, &[]).report();
    assert!(report.contains("--foreign-child"), "{report}");
    sandbox.try_fold(&parent, &clone, &["--foreign-child", "--dry-run"]).expect("integrated", 0);
    let run = sandbox.try_fold(&parent, &clone, &["--foreign-child", "--subject", "Cloned"]).expect("integrated", 0);
    assert_eq!(run.last()["landing"], "merge");
    assert_eq!(read(&parent, "a"), Some(lines(&[(3, "committed")])));
    assert_eq!(read(&parent, "b"), Some(lines(&[(4, "loose"), (15, "meanwhile")])));
    assert_eq!(read(&parent, "new").as_deref(), Some("untracked\n"));
    let subjects = sandbox.git(&parent, &["log", "--format=%s"]);
    assert!(subjects.contains("in the clone") && subjects.contains("Cloned"), "{subjects}");
    sandbox.settled(&parent, "");
    assert_eq!(sandbox.state(&clone), before, "the clone is never written");
    nothing_left(&sandbox, &parent);
    // Again, without change and with some.
    let run = sandbox.try_fold(&parent, &clone, &["--foreign-child"]).expect("integrated", 0);
    assert_eq!(run.last()["landing"], "nothing");
    write(&clone, "b", lines(&[(4, "loose, and more")]));
    sandbox.try_fold(&parent, &clone, &["--foreign-child"]).expect("integrated", 0);
    assert_eq!(read(&parent, "b"), Some(lines(&[(4, "loose, and more"), (15, "meanwhile")])));
    sandbox.settled(&parent, "");
}

#[test]
fn nothing_that_a_clone_says_is_run_or_obeyed() {
    let sandbox = Sandbox::new();
    let (parent, clone) = cloned(&sandbox);
    let trap = sandbox.path("trap");
    fs::write(&trap, format!("#!/bin/sh\ntouch '{}'\ncat\n", sandbox.path("sprung").display())).expect("written");
    fs::set_permissions(&trap, fs::Permissions::from_mode(0o755)).expect("chmod");
    let trap = trap.to_str().expect("UTF-8").to_owned();
    for key in [
        "core.fsmonitor",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "core.sshCommand",
        "uploadpack.packObjectsHook",
        "diff.external",
        "merge.evil.driver",
        "gpg.program",
    ] {
        sandbox.git(&clone, &["config", key, &trap]);
    }
    sandbox.git(&clone, &["config", "core.autocrlf", "true"]);
    for hook in ["pre-commit", "post-index-change", "reference-transaction", "post-checkout"] {
        fs::create_dir_all(clone.join(".git/hooks")).expect("made");
        fs::copy(&trap, clone.join(".git/hooks").join(hook)).expect("copied");
    }
    write(&clone, ".gitattributes", "* filter=evil merge=evil diff=evil\n");
    write(&clone, "a", lines(&[(3, "edit")]));
    write(&clone, "crlf", "one\r\ntwo\r\n");
    sandbox.try_fold(&parent, &clone, &["--foreign-child"]).expect("integrated", 0);
    assert!(!sandbox.path("sprung").exists(), "something of the clone was run");
    assert_eq!(sandbox.git(&parent, &["cat-file", "-s", "HEAD:crlf"]), "10", "its autocrlf has no say");
    // A worktree whose `.git` was replaced by a repository of its own.
    let child = sandbox.isolate(&parent, "child");
    fs::remove_file(child.join(".git")).expect("removed");
    fs::rename(clone.join(".git"), child.join(".git")).expect("moved");
    sandbox.unchanged(&parent, "failed", 3, || sandbox.try_fold(&parent, &child, &[]));
    assert!(!sandbox.path("sprung").exists(), "something of the replaced .git was run");
}

#[test]
fn a_conflict_with_a_clone_changes_nothing() {
    let sandbox = Sandbox::new();
    let (parent, clone) = cloned(&sandbox);
    write(&clone, "a", lines(&[(3, "clone")]));
    sandbox.commit_all(&clone, "in the clone");
    write(&parent, "a", lines(&[(3, "parent")]));
    let files = |state: String| state.split("\nHEAD log").next().map(str::to_owned);
    let before = files(sandbox.state(&parent));
    sandbox.try_fold(&parent, &clone, &["--foreign-child"]).expect("conflict", 1);
    assert_eq!(files(sandbox.state(&parent)), before);
    assert_eq!(sandbox.git(&parent, &["for-each-ref"]).lines().count(), 1);
    nothing_left(&sandbox, &parent);
}

#[test]
fn clones_of_other_kinds_are_folded_or_refused_by_name() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    for n in 0..3 {
        write(&parent, "b", lines(&[(n, "later")]));
        sandbox.commit_all(&parent, "later");
    }
    // Shallow: what is cut off there is whole here.
    let shallow = clone(&sandbox, &parent, "shallow", &["--depth", "1"]);
    write(&shallow, "a", lines(&[(3, "shallow")]));
    sandbox.commit_all(&shallow, "in the shallow clone");
    sandbox.try_fold(&parent, &shallow, &["--foreign-child"]).expect("integrated", 0);
    assert_eq!(sandbox.git(&parent, &["fsck", "--no-progress", "--no-dangling"]), "");
    // A worktree of a clone, packed refs, a detached HEAD.
    let base = clone(&sandbox, &parent, "base", &[]);
    let linked = sandbox.path("linked");
    sandbox.git(&base, &["worktree", "add", "-q", "-b", "topic", linked.to_str().expect("UTF-8")]);
    write(&linked, "dir/c", "linked\n");
    sandbox.commit_all(&linked, "in a worktree of the clone");
    sandbox.git(&base, &["pack-refs", "--all"]);
    sandbox.try_fold(&parent, &linked, &["--foreign-child"]).expect("integrated", 0);
    assert_eq!(read(&parent, "dir/c").as_deref(), Some("linked\n"));
    sandbox.git(&linked, &["checkout", "-q", "--detach"]);
    write(&linked, "dir/d", "detached\n");
    sandbox.commit_all(&linked, "detached");
    sandbox.try_fold(&parent, &linked, &["--foreign-child"]).expect("integrated", 0);
    sandbox.settled(&parent, "");
    // Another repository altogether.
    let other = sandbox.empty_repo("other");
    write(&other, "x", "x\n");
    sandbox.commit_all(&other, "other");
    let report = sandbox.try_fold(&parent, &other, &["--foreign-child"]).expect("failed", 3).report();
    assert!(report.contains("no commit in common"), "{report}");
    // One that git itself would have to be asked about.
    let sha256 = sandbox.path("sha256");
    sandbox.git(&sandbox.path(""), &["init", "-q", "--object-format=sha256", sha256.to_str().expect("UTF-8")]);
    sandbox.git(&sha256, &["config", "user.name", "T"]);
    sandbox.git(&sha256, &["config", "user.email", "t@example.test"]);
    write(&sha256, "x", "x\n");
    sandbox.commit_all(&sha256, "other");
    let report = sandbox.try_fold(&parent, &sha256, &["--foreign-child"]).expect("failed", 3).report();
    assert!(report.contains("SHA-256"), "{report}");
    // A tree with a name that git refuses.
    let evil = clone(&sandbox, &parent, "evil", &[]);
    let blob = sandbox.git(&evil, &["rev-parse", "HEAD:a"]);
    let script = format!(
        "tree=$(printf '100644 blob {blob}\\t.git\\n' | git mktree --missing) && commit=$(git commit-tree -p HEAD -m evil $tree) && git update-ref HEAD $commit"
    );
    let made = sandbox.command("sh").current_dir(&evil).args(["-c", &script]).status().expect("sh runs");
    assert!(made.success());
    let report = sandbox.try_fold(&parent, &evil, &["--foreign-child"]).expect("failed", 3).report();
    assert!(report.contains("can't be read"), "{report}");
    nothing_left(&sandbox, &parent);
}
