//! `isofold remove` through the program.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::host::{same, text};
use crate::support::{Run, Sandbox, lines, read, write};

fn remove(sandbox: &Sandbox, child: &Path, more: &[&str]) -> Run {
    let run = sandbox.isofold(["remove", "--child", text(child)].iter().chain(more));
    assert_eq!(run.lines().len(), 1, "{run:?}");
    assert_eq!(run.stderr, "");
    run
}

#[track_caller]
fn refused(sandbox: &Sandbox, repo: &Path, child: &Path, more: &[&str]) -> String {
    let report = sandbox.unchanged(repo, "refused", 1, || remove(sandbox, child, more));
    assert!(report.contains(text(child)), "{report}");
    report
}

fn pair(sandbox: &Sandbox) -> (PathBuf, PathBuf) {
    let parent = sandbox.repo("parent");
    let child = sandbox.isolate(&parent, "child");
    (parent, child)
}

/// The Child is gone with all that belonged to it; the Parent's files are what they were.
#[track_caller]
fn gone(sandbox: &Sandbox, parent: &Path, child: &Path) {
    assert!(fs::symlink_metadata(child).is_err());
    assert_eq!(sandbox.git(parent, &["worktree", "list"]).lines().count(), 1);
    assert!(!parent.join(".git/worktrees").exists());
    assert_eq!(sandbox.git(parent, &["for-each-ref", "refs/isofold/base"]), "");
    assert_eq!(sandbox.git(parent, &["status", "--porcelain"]), "");
    let bases = parent.join(".git/isofold/bases");
    assert_eq!(fs::read_dir(bases).map_or(0, Iterator::count), 0);
}

#[test]
fn a_child_without_loose_work_is_removed() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    write(&child, "kept.log", "ignored\n");
    let run = remove(&sandbox, &child, &[]).expect("removed", 0);
    assert_eq!(run.stdout, format!("{{\"outcome\":\"removed\",\"child\":\"{}\",\"saved\":[]}}\n", text(&child)));
    gone(&sandbox, &parent, &child);
    // The branch stays; the next removal finds nothing.
    assert_eq!(sandbox.git(&parent, &["rev-parse", "issue/child"]), sandbox.git(&parent, &["rev-parse", "main"]));
    let run = remove(&sandbox, &child, &[]).expect("already-gone", 0);
    assert_eq!(run.stdout, format!("{{\"outcome\":\"already-gone\",\"child\":\"{}\",\"saved\":[]}}\n", text(&child)));
    remove(&sandbox, &child, &["--force"]).expect("already-gone", 0);
}

#[test]
fn a_dirty_parent_is_no_loose_work_of_its_child() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    write(&parent, "a", lines(&[(0, "dirty")]));
    write(&parent, "new", "new\n");
    let child = sandbox.isolate(&parent, "child");
    remove(&sandbox, &child, &[]).expect("removed", 0);
    assert!(!child.exists());
    // Folded work is none either.
    let child = sandbox.isolate(&parent, "child");
    write(&child, "b", lines(&[(7, "work")]));
    sandbox.fold(&parent, &child);
    let run = remove(&sandbox, &child, &[]).expect("removed", 0);
    assert_eq!(run.last()["saved"], json!([]));
    gone(&sandbox, &parent, &child);
}

#[test]
fn loose_work_is_refused_and_saved_with_force() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    write(&child, "b", lines(&[(7, "work")]));
    write(&child, "new", "new\n");
    fs::remove_file(child.join("a")).expect("a file");
    let head = sandbox.git(&child, &["rev-parse", "HEAD"]);
    let report = refused(&sandbox, &parent, &child, &[]);
    for path in ["a", "b", "new", "--force"] {
        assert!(report.contains(path), "{report}");
    }
    let run = remove(&sandbox, &child, &["--force"]).expect("removed", 0);
    let saved = run.last()["saved"].as_array().expect("a list").clone();
    assert_eq!(saved.len(), 1);
    let name = saved[0].as_str().expect("a ref");
    assert!(name.starts_with("refs/isofold/saved/"), "{name}");
    let show = |path: &str| sandbox.git(&parent, &["show", &format!("{name}:{path}")]);
    assert_eq!(show("b") + "\n", lines(&[(7, "work")]));
    assert_eq!(show("new"), "new");
    assert_eq!(sandbox.git(&parent, &["ls-tree", "--name-only", name, "a"]), "");
    assert_eq!(sandbox.git(&parent, &["rev-parse", &format!("{name}^")]), head);
    gone(&sandbox, &parent, &child);
    sandbox.git(&parent, &["fsck", "--strict"]);
}

#[test]
fn staged_work_alone_is_loose_work() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    write(&child, "staged", "x\n");
    sandbox.git(&child, &["add", "staged"]);
    assert!(refused(&sandbox, &parent, &child, &[]).contains("staged"));
}

#[test]
fn commits_that_only_the_child_reaches_are_always_saved() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    for more in [&[][..], &["--force"]] {
        let child = sandbox.path("child");
        sandbox.try_isolate("w", &parent, &child, &["--detach"]).expect("isolated", 0);
        write(&child, "b", format!("work {more:?}\n"));
        sandbox.commit_all(&child, "work");
        let commit = sandbox.git(&child, &["rev-parse", "HEAD"]);
        let run = remove(&sandbox, &child, more).expect("removed", 0);
        let name = run.last()["saved"][0].as_str().expect("a ref").to_owned();
        assert_eq!(sandbox.git(&parent, &["rev-parse", &name]), commit);
        gone(&sandbox, &parent, &child);
    }
    // On a branch nothing becomes unreachable.
    let child = sandbox.isolate(&parent, "named");
    write(&child, "b", "work\n");
    sandbox.commit_all(&child, "work");
    let run = remove(&sandbox, &child, &[]).expect("removed", 0);
    assert_eq!(run.last()["saved"], json!([]));
    assert_eq!(sandbox.git(&parent, &["log", "-1", "--format=%s", "issue/named"]), "work");
}

#[test]
fn loose_work_on_detached_commits_saves_both() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let child = sandbox.path("child");
    sandbox.try_isolate("w", &parent, &child, &["--detach"]).expect("isolated", 0);
    write(&child, "b", "committed\n");
    sandbox.commit_all(&child, "work");
    let commit = sandbox.git(&child, &["rev-parse", "HEAD"]);
    write(&child, "a", "loose\n");
    let run = remove(&sandbox, &child, &["--force"]).expect("removed", 0);
    let name = run.last()["saved"][0].as_str().expect("a ref").to_owned();
    assert_eq!(sandbox.git(&parent, &["rev-parse", &format!("{name}^")]), commit);
    assert_eq!(sandbox.git(&parent, &["show", &format!("{name}:a")]), "loose");
}

#[test]
fn what_is_no_child_is_refused() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    let plain = sandbox.path("plain");
    write(&plain, "file", "x\n");
    fs::create_dir(sandbox.path("empty")).expect("a directory");
    let foreign = sandbox.repo("foreign");
    let foreign_linked = sandbox.path("foreign-linked");
    sandbox.git(&foreign, &["worktree", "add", "-q", "-b", "x", text(&foreign_linked)]);
    let with_file = |name: &str, git_file: &str| {
        write(&sandbox.path(name), "file", "x\n");
        write(&sandbox.path(name), ".git", git_file);
    };
    with_file("of-child", &read(&child, ".git").expect("a .git file"));
    with_file("of-foreign", &read(&foreign_linked, ".git").expect("a .git file"));
    with_file("of-main", &format!("gitdir: {}\n", text(&foreign.join(".git"))));
    with_file("lost", "gitdir: /no/such/worktrees/x\n");
    with_file("nonsense", "nonsense\n");
    write(&sandbox.path(""), "file", "x\n");
    symlink(&child, sandbox.path("link")).expect("a link");
    for name in ["plain", "empty", "parent", "of-child", "of-foreign", "of-main", "lost", "nonsense", "file", "link"] {
        for more in [&[][..], &["--force"]] {
            refused(&sandbox, &parent, &sandbox.path(name), more);
        }
    }
    refused(&sandbox, &parent, &child.join("dir"), &["--force"]);
    refused(&sandbox, &parent, &parent.join(".git"), &["--force"]);
    // A worktree that git made is one of its repository.
    remove(&sandbox, &foreign_linked, &[]).expect("removed", 0);
    assert_eq!(sandbox.git(&foreign, &["worktree", "list"]).lines().count(), 1);
}

#[test]
fn a_locked_child_is_refused_even_with_force() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    sandbox.git(&parent, &["worktree", "lock", "--reason", "in use", text(&child)]);
    for more in [&[][..], &["--force"]] {
        assert!(refused(&sandbox, &parent, &child, more).contains("in use"));
    }
    sandbox.git(&parent, &["worktree", "unlock", text(&child)]);
    remove(&sandbox, &child, &[]).expect("removed", 0);
}

#[test]
fn invalid_invocations_touch_nothing() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    for (args, words) in [
        (vec!["remove"], "--child"),
        (vec!["remove", "--child", ""], "--child"),
        (vec!["remove", "--child", "child"], "relative path"),
        (vec!["remove", "--child", "./child", "--force"], "relative path"),
        (vec!["remove", "--force", "--bogus", "--child", text(&child)], "--bogus"),
        (vec!["remove", text(&child)], text(&child)),
    ] {
        let report = sandbox.unchanged(&parent, "invalid-invocation", 2, || sandbox.isofold(&args));
        assert!(report.contains(words), "{args:?}: {report}");
    }
}

#[test]
fn closed_directories_and_files_are_removed() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    write(&child, "ignored/deep/file", "x\n");
    write(&child, "ignored/closed/file", "x\n");
    write(&child, "ignored/empty/x", "x\n");
    fs::remove_file(child.join("ignored/empty/x")).expect("a file");
    sandbox.give_all_away();
    let mode = |path: &str, mode: u32| {
        fs::set_permissions(child.join(path), fs::Permissions::from_mode(mode)).expect("a mode");
    };
    mode("ignored/deep/file", 0o444);
    mode("ignored/closed/file", 0o000);
    mode("ignored/deep", 0o555);
    mode("ignored/closed", 0o000);
    mode("ignored/empty", 0o000);
    mode("ignored", 0o555);
    mode("dir", 0o555);
    mode("a", 0o444);
    mode("", 0o555);
    let mut command = sandbox.unprivileged();
    command.args(["remove", "--child", text(&child)]);
    Run::of_command(&mut command).expect("removed", 0);
    gone(&sandbox, &parent, &child);
}

#[test]
fn a_closed_file_is_saved_with_force() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    write(&child, "closed", "work\n");
    sandbox.give_all_away();
    fs::set_permissions(child.join("closed"), fs::Permissions::from_mode(0o000)).expect("a mode");
    let mut command = sandbox.unprivileged();
    command.args(["remove", "--force", "--child", text(&child)]);
    let run = Run::of_command(&mut command).expect("removed", 0);
    let name = run.last()["saved"][0].as_str().expect("a ref").to_owned();
    assert_eq!(sandbox.git(&parent, &["show", &format!("{name}:closed")]), "work");
    gone(&sandbox, &parent, &child);
}

#[test]
fn links_are_never_followed() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    let outside = sandbox.path("outside");
    write(&outside, "kept/file", "x\n");
    fs::set_permissions(outside.join("kept"), fs::Permissions::from_mode(0o555)).expect("a mode");
    sandbox.give_all_away();
    symlink(&outside, child.join("ignored")).expect("a link");
    fs::create_dir(child.join("closed.log")).expect("a directory");
    symlink(outside.join("kept"), child.join("closed.log/link")).expect("a link");
    symlink("..", child.join("closed.log/up")).expect("a link");
    symlink(outside.join("kept/file"), child.join("file.log")).expect("a link");
    let before = crate::support::listing(&outside);
    sandbox.give_all_away();
    fs::set_permissions(child.join("closed.log"), fs::Permissions::from_mode(0o555)).expect("a mode");
    let mut command = sandbox.unprivileged();
    command.args(["remove", "--force", "--child", text(&child)]);
    Run::of_command(&mut command).expect("removed", 0);
    same(&crate::support::listing(&outside), &before, "links were followed");
    gone(&sandbox, &parent, &child);
}

#[test]
fn a_removal_that_was_cut_off_is_resumed() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    write(&child, "b", lines(&[(7, "work")]));
    // As a removal that was killed leaves it: the state is recorded, half of the files are gone.
    let record = parent.join(".git/worktrees/child/isofold.toml");
    let text_before = fs::read_to_string(&record).expect("the record");
    let marked = text_before.replace("\"ready\"", "\"removing\"");
    assert_ne!(marked, text_before, "{text_before}");
    fs::write(&record, marked).expect("a record");
    fs::remove_file(child.join("a")).expect("a file");
    fs::remove_dir_all(child.join("dir")).expect("a directory");
    let report = sandbox.unchanged(&parent, "failed", 3, || sandbox.try_fold(&parent, &child, &[]));
    assert!(report.contains("not complete"), "{report}");
    let run = remove(&sandbox, &child, &[]).expect("removed", 0);
    assert_eq!(run.last()["saved"], json!([]));
    gone(&sandbox, &parent, &child);
}

#[test]
fn a_child_of_a_child_outlives_its_parent() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    let grandchild = sandbox.isolate(&child, "grandchild");
    write(&grandchild, "b", lines(&[(7, "work")]));
    remove(&sandbox, &child, &[]).expect("removed", 0);
    assert_eq!(sandbox.git(&grandchild, &["status", "--porcelain"]), " M b");
    sandbox.fold(&parent, &grandchild);
    assert_eq!(read(&parent, "b"), Some(lines(&[(7, "work")])));
    remove(&sandbox, &grandchild, &[]).expect("removed", 0);
    gone(&sandbox, &parent, &grandchild);
}

#[test]
fn work_that_only_a_grandchild_got_is_loose() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    write(&child, "b", lines(&[(7, "work")]));
    sandbox.isolate(&child, "grandchild");
    assert!(refused(&sandbox, &parent, &child, &[]).contains("(b)"));
}

#[test]
fn a_gone_repository_is_refused() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    fs::remove_dir_all(&parent).expect("the repository");
    let run = remove(&sandbox, &child, &["--force"]).expect("refused", 1);
    assert!(run.one_line_report().contains(text(&child)));
    assert!(child.join("a").exists());
}

#[test]
fn an_untouched_large_file_is_no_loose_work() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let large = std::fs::File::create(parent.join("large")).expect("made");
    large.set_len(40 << 20).expect("grown");
    for (name, touched) in [("untouched", false), ("touched", true)] {
        let child = sandbox.path(name);
        let isolated = sandbox.try_isolate(name, &parent, &child, &[]).expect("isolated", 0);
        assert_eq!(isolated.last()["base_omitted"][0], "large");
        if touched {
            std::fs::File::options()
                .write(true)
                .open(child.join("large"))
                .expect("opened")
                .set_len(41 << 20)
                .expect("grown");
        }
        let run = sandbox.isofold([std::ffi::OsStr::new("remove"), "--child".as_ref(), child.as_os_str()]);
        if touched {
            assert!(run.expect("refused", 1).report().contains("large"));
        } else {
            run.expect("removed", 0);
        }
    }
}

#[test]
fn a_removal_that_was_cut_off_before_the_last_step_is_finished() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let child = sandbox.isolate(&parent, "child");
    // What is left when it is killed between the registry and the directory.
    let admin = sandbox.git(&child, &["rev-parse", "--absolute-git-dir"]);
    let git_file = std::fs::read(child.join(".git")).expect("read");
    std::fs::remove_dir_all(&child).expect("removed");
    std::fs::create_dir(&child).expect("made");
    std::fs::write(child.join(".git"), git_file).expect("written");
    std::fs::remove_dir_all(admin).expect("removed");
    let run = sandbox.isofold([std::ffi::OsStr::new("remove"), "--child".as_ref(), child.as_os_str()]);
    run.expect("removed", 0);
    assert!(!child.exists());
}
