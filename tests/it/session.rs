//! `isofold session` through the program: start, list, diff, keep, discard.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{Run, Sandbox, lines, read, write};

/// Runs `isofold session` in a directory.
fn session(sandbox: &Sandbox, at: &Path, args: &[&str]) -> Run {
    let mut all = vec!["-C", at.to_str().expect("UTF-8"), "session"];
    all.extend(args);
    sandbox.isofold(all)
}

/// The same, which has to succeed.
#[track_caller]
fn done(sandbox: &Sandbox, at: &Path, args: &[&str]) -> Run {
    let run = session(sandbox, at, args);
    assert_eq!(run.code, 0, "{args:?}: {run:?}");
    run
}

/// A new session; its worktree.
#[track_caller]
fn start(sandbox: &Sandbox, main: &Path, name: &str) -> PathBuf {
    let run = done(sandbox, main, &["start", "--name", name, "--json"]);
    PathBuf::from(run.last()["worktree"].as_str().expect("a worktree"))
}

/// Nothing of a session is left.
#[track_caller]
fn gone(sandbox: &Sandbox, main: &Path, name: &str) {
    assert!(!main.join(".worktrees").join(format!("isofold-{name}")).exists());
    assert_eq!(sandbox.git(main, &["worktree", "list"]).lines().count(), 1);
    assert_eq!(sandbox.git(main, &["branch", "--list", "isofold/*"]), "");
    assert_eq!(sandbox.git(main, &["for-each-ref", "refs/isofold/base", "refs/isofold/session"]), "");
    assert!(!main.join(".git/isofold/sessions").exists());
    let run = session(sandbox, main, &["path", name]);
    assert_eq!(run.code, 1, "{run:?}");
}

fn status(sandbox: &Sandbox, main: &Path) -> String {
    sandbox.git(main, &["status", "--porcelain", "--untracked-files=all"])
}

fn json(run: &Run) -> Value {
    let value = run.last();
    assert_eq!(value["version"], 1);
    value
}

#[test]
fn start_prints_where_it_is_and_how_it_ends() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    write(&main, "a", lines(&[(3, "dirty")]));
    write(&main, "new", "untracked\n");
    write(&main, ".env", "SECRET\n");
    let before = fs::read(main.join(".git/index")).expect("an index");
    let run = sandbox
        .command(env!("CARGO_BIN_EXE_isofold"))
        .current_dir(main.join("dir"))
        .args(["session", "start"])
        .output()
        .expect("runs");
    assert!(run.status.success(), "{run:?}");
    let text = String::from_utf8(run.stdout).expect("UTF-8");
    let said: Vec<(&str, &str)> = text.lines().map(|line| line.split_once(": ").expect("a label")).collect();
    let labels: Vec<&str> = said.iter().map(|(label, _)| *label).collect();
    assert_eq!(labels, ["Worktree branch", "Path", "Changes", "To keep", "To discard"]);
    let name = said[0].1.strip_prefix("isofold/").expect("the prefix");
    let worktree = main.join(format!(".worktrees/isofold-{name}"));
    assert_eq!(Path::new(said[1].1), worktree);
    // `<ms>-<hex>`
    let (ms, hex) = name.split_once('-').expect("two parts");
    assert!(ms.parse::<u64>().is_ok() && hex.chars().all(|c| c.is_ascii_hexdigit()), "{name}");
    assert_eq!(read(&worktree, "a"), read(&main, "a"));
    assert_eq!(read(&worktree, "new").as_deref(), Some("untracked\n"));
    assert_eq!(read(&worktree, ".env"), None);
    assert_eq!(sandbox.git(&worktree, &["rev-parse", "--abbrev-ref", "HEAD"]), said[0].1);
    // Out of sight, for its owner alone, and the index was not written.
    assert_eq!(status(&sandbox, &main), " M a\n?? .env\n?? new");
    assert_eq!(fs::metadata(main.join(".worktrees")).expect("there").permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::read(main.join(".git/index")).expect("an index"), before);
    let exclude = read(&main, ".git/info/exclude").expect("there");
    assert_eq!(exclude.lines().filter(|line| *line == ".worktrees/").count(), 1);
    // The commands that were printed work as they are, pasted where the start was.
    for (label, command) in &said[2..] {
        let mut shell = sandbox.command("sh");
        let bin = Path::new(env!("CARGO_BIN_EXE_isofold")).parent().expect("a directory");
        let path = std::env::join_paths(
            [bin.to_owned()].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").expect("PATH"))),
        );
        let command = if *label == "To discard" { continue } else { command };
        let run = shell
            .env("PATH", path.expect("a PATH"))
            .current_dir(main.join("dir"))
            .args(["-c", command])
            .output()
            .expect("sh runs");
        assert!(run.status.success(), "{command}: {run:?}");
    }
    gone(&sandbox, &main, name);
    assert_eq!(status(&sandbox, &main), " M a\n?? .env\n?? new");
}

#[test]
fn keep_stages_the_changes_and_nothing_else() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    let work = start(&sandbox, &main, "one");
    write(&work, "a", lines(&[(3, "session")]));
    write(&work, "sub/new", "new\n");
    fs::remove_file(work.join("dir/c")).expect("removed");
    let run = done(&sandbox, &main, &["diff", "one"]);
    for part in ["diff --git a/a b/a", "+session", "new file mode 100644", "deleted file mode 100644"] {
        assert!(run.stdout.contains(part), "{run:?}");
    }
    let run = done(&sandbox, &main, &["keep", "one"]);
    assert_eq!(run.stdout, "Changes applied and staged.\n");
    assert_eq!(status(&sandbox, &main), "M  a\nD  dir/c\nA  sub/new");
    assert_eq!(read(&main, "a"), Some(lines(&[(3, "session")])));
    gone(&sandbox, &main, "one");
    assert_eq!(sandbox.git(&main, &["rev-list", "--count", "HEAD"]), "1");
    // Kept twice: there is no such session any more.
    let run = session(&sandbox, &main, &["keep", "one"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.starts_with("error: there is no session one"), "{run:?}");
}

#[test]
fn keep_leaves_staged_and_unstaged_edits_of_the_user_in_their_places() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    write(&main, "b", lines(&[(1, "staged")]));
    sandbox.git(&main, &["add", "b"]);
    write(&main, "b", lines(&[(1, "staged"), (10, "unstaged")]));
    write(&main, "a", lines(&[(2, "before the session")]));
    let work = start(&sandbox, &main, "one");
    write(&work, "b", lines(&[(1, "staged"), (10, "unstaged"), (18, "session")]));
    write(&work, "a", lines(&[(2, "before the session"), (17, "session")]));
    // Meanwhile the user goes on.
    write(&main, "a", lines(&[(2, "before the session"), (8, "meanwhile")]));
    done(&sandbox, &main, &["keep", "one"]);
    assert_eq!(read(&main, "a"), Some(lines(&[(2, "before the session"), (8, "meanwhile"), (17, "session")])));
    assert_eq!(read(&main, "b"), Some(lines(&[(1, "staged"), (10, "unstaged"), (18, "session")])));
    let staged = |path: &str| sandbox.git(&main, &["show", &format!(":{path}")]) + "\n";
    assert_eq!(staged("a"), lines(&[(17, "session")]));
    assert_eq!(staged("b"), lines(&[(1, "staged"), (18, "session")]));
    assert_eq!(status(&sandbox, &main), "MM a\nMM b");
    gone(&sandbox, &main, "one");
}

#[test]
fn what_the_index_cannot_take_goes_to_the_working_file() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    write(&main, "a", lines(&[(5, "unstaged")]));
    write(&main, "untracked", "one\n");
    let work = start(&sandbox, &main, "one");
    // The same line that the user changed and did not stage.
    write(&work, "a", lines(&[(5, "unstaged and session")]));
    write(&work, "untracked", "one\ntwo\n");
    write(&work, "notes.log", "ignored and new\n");
    let run = done(&sandbox, &main, &["keep", "one", "--json"]);
    let said = json(&run);
    assert_eq!(said["outcome"], "kept");
    assert_eq!(said["unstaged"], serde_json::json!(["a", "notes.log", "untracked"]));
    assert_eq!(status(&sandbox, &main), " M a\n?? untracked");
    assert_eq!(read(&main, "a"), Some(lines(&[(5, "unstaged and session")])));
    assert_eq!(read(&main, "untracked").as_deref(), Some("one\ntwo\n"));
    assert_eq!(read(&main, "notes.log").as_deref(), Some("ignored and new\n"));
    gone(&sandbox, &main, "one");
}

#[test]
fn keep_leaves_flags_of_the_index_alone() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    write(&main, "meant", "to be added\n");
    sandbox.git(&main, &["add", "-N", "meant"]);
    sandbox.git(&main, &["update-index", "--skip-worktree", "dir/c"]);
    sandbox.git(&main, &["update-index", "--assume-unchanged", "b"]);
    let flags = sandbox.git(&main, &["ls-files", "-v", "--debug", "meant", "dir/c", "b"]);
    let work = start(&sandbox, &main, "one");
    write(&work, "a", lines(&[(3, "session")]));
    write(&work, "new", "new\n");
    done(&sandbox, &main, &["keep", "one"]);
    assert_eq!(status(&sandbox, &main), "M  a\n A meant\nA  new");
    let without_stat = |text: &str| {
        text.lines()
            .map(|line| line.rsplit("flags").next().unwrap_or_default().to_owned())
            .filter(|line| !line.contains("time") && !line.contains("dev") && !line.contains("uid"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        without_stat(&sandbox.git(&main, &["ls-files", "-v", "--debug", "meant", "dir/c", "b"])),
        without_stat(&flags)
    );
}

#[test]
fn three_way_leaves_markers_and_the_index_alone() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    let work = start(&sandbox, &main, "one");
    write(&work, "a", lines(&[(5, "session")]));
    write(&work, "b", lines(&[(5, "session")]));
    write(&main, "a", lines(&[(5, "main")]));
    let index = fs::read(main.join(".git/index")).expect("an index");
    let run = session(&sandbox, &main, &["keep", "one", "--3way", "--json"]);
    assert_eq!(run.code, 1, "{run:?}");
    let said = json(&run);
    assert_eq!(said["outcome"], "conflict");
    assert_eq!(said["marked"], serde_json::json!(["a", "b"]));
    assert!(work.join("b").exists(), "the session stays");
    let text = read(&main, "a").expect("a file");
    assert!(text.contains("<<<<<<< yours\nmain\n=======\nsession\n>>>>>>> one\n"), "{text}");
    assert_eq!(read(&main, "b"), Some(lines(&[(5, "session")])));
    assert_eq!(fs::read(main.join(".git/index")).expect("an index"), index);
}

#[test]
fn keep_brings_every_kind_of_file() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    write(&main, "old name", lines(&[]));
    write(&main, "crlf", "one\r\ntwo\r\n");
    write(&main, "script", "#!/bin/sh\n");
    write(&main, "link", "to be one\n");
    sandbox.commit_all(&main, "more");
    let work = start(&sandbox, &main, "one");
    fs::rename(work.join("old name"), work.join("new name")).expect("renamed");
    write(&work, "binary", [0, 159, 146, 150, 0, 10]);
    write(&work, "empty", "");
    write(&work, "crlf", "one\r\nand\r\ntwo\r\n");
    write(&work, "tab\tand \"quote\"", "x");
    fs::set_permissions(work.join("script"), fs::Permissions::from_mode(0o755)).expect("chmod");
    fs::remove_file(work.join("link")).expect("removed");
    symlink("a", work.join("link")).expect("a link");
    let tree = sandbox.git(&work, &["add", "-A"]);
    assert_eq!(tree, "");
    let tree = sandbox.git(&work, &["write-tree"]);
    done(&sandbox, &main, &["keep", "one"]);
    assert_eq!(sandbox.git(&main, &["write-tree"]), tree, "the index is what git add -A in the session would give");
    assert_eq!(sandbox.git(&main, &["diff", "--name-only"]), "", "and the files are as the index says");
    assert_eq!(fs::read_link(main.join("link")).expect("a link"), Path::new("a"));
    gone(&sandbox, &main, "one");
}

#[test]
fn a_conflict_changes_nothing_and_saves_the_patch() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    let work = start(&sandbox, &main, "one");
    write(&work, "a", lines(&[(5, "session")]));
    write(&work, "new", "session\n");
    write(&main, "a", lines(&[(5, "main")]));
    let before = sandbox.state(&main);
    let run = session(&sandbox, &main, &["keep", "one"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stderr.starts_with("error: ") && run.stderr.contains("a (contents"), "{run:?}");
    let patch = main.join(".isofold/patches/one/changes.patch");
    assert!(run.stderr.contains(patch.to_str().expect("UTF-8")), "{run:?}");
    let text = fs::read_to_string(&patch).expect("a patch");
    assert!(text.contains("+session"), "{text}");
    fs::remove_dir_all(main.join(".isofold")).expect("removed");
    // Beside the patch there is the ref that keeps its objects, and objects that nothing names.
    let strip = |state: &str| {
        let ours = |line: &str| line.contains("refs/isofold/patch") || line.contains("dangling");
        state.lines().filter(|line| !ours(line)).collect::<Vec<_>>().join("\n")
    };
    let (before, after) = (strip(&before), strip(&sandbox.state(&main)));
    let new: Vec<&str> = after.lines().filter(|line| !before.contains(line)).collect();
    assert_eq!(new, [""; 0], "what was not there before");
    let files = |state: &str| state.split("\nHEAD log").next().map(str::to_owned);
    assert_eq!(files(&after), files(&before));
    assert!(work.join("new").exists());
    // The way on: settle it in the main tree, and keep.
    write(&main, "a", lines(&[]));
    done(&sandbox, &main, &["keep", "one"]);
    gone(&sandbox, &main, "one");
}

#[test]
fn a_file_in_the_way_is_never_overwritten() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    let work = start(&sandbox, &main, "one");
    write(&work, "x.log", "session\n");
    write(&main, "x.log", "the user's own, ignored\n");
    let run = session(&sandbox, &main, &["keep", "one", "--json"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert_eq!(json(&run)["outcome"], "conflict");
    assert_eq!(read(&main, "x.log").as_deref(), Some("the user's own, ignored\n"));
    assert!(work.join("x.log").exists());
}

#[test]
fn keep_commits_the_session_alone() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    write(&main, "b", lines(&[(1, "mine, not committed")]));
    let work = start(&sandbox, &main, "one");
    write(&work, "a", lines(&[(3, "session")]));
    write(&work, "b", lines(&[(1, "mine, not committed"), (18, "session")]));
    let run = done(&sandbox, &main, &["keep", "one", "--commit", "-m", "Kept"]);
    assert!(run.stdout.starts_with("Changes committed as "), "{run:?}");
    assert_eq!(sandbox.git(&main, &["log", "-1", "--format=%s %an"]), "Kept Test");
    assert_eq!(sandbox.git(&main, &["show", "HEAD:b"]) + "\n", lines(&[(18, "session")]));
    assert_eq!(status(&sandbox, &main), " M b");
    assert_eq!(read(&main, "b"), Some(lines(&[(1, "mine, not committed"), (18, "session")])));
    assert_eq!(sandbox.git(&main, &["rev-list", "--count", "HEAD"]), "2");
    gone(&sandbox, &main, "one");
}

#[test]
fn commits_and_detached_heads_of_a_session_are_its_work() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    let work = start(&sandbox, &main, "one");
    write(&work, "a", lines(&[(3, "committed")]));
    sandbox.commit_all(&work, "in the session");
    sandbox.git(&work, &["checkout", "-q", "--detach"]);
    write(&work, "b", lines(&[(3, "committed too")]));
    sandbox.commit_all(&work, "detached");
    let tip = sandbox.git(&work, &["rev-parse", "HEAD"]);
    let listed = json(&done(&sandbox, &main, &["list", "--json"]));
    assert_eq!(listed["sessions"][0]["ahead"], 2);
    assert_eq!(listed["sessions"][0]["dirty"], 0);
    assert_eq!(listed["sessions"][0]["changes"]["files"], 2);
    let before = sandbox.state(&main);
    let run = session(&sandbox, &main, &["discard", "one", "--json"]);
    assert_eq!(run.code, 1);
    assert_eq!(json(&run)["work"]["commits"].as_array().map(Vec::len), Some(2));
    assert_eq!(sandbox.state(&main), before);
    let run = done(&sandbox, &main, &["discard", "one", "--force"]);
    assert!(run.stdout.starts_with("Worktree discarded.\n"), "{run:?}");
    let saved = sandbox.git(&main, &["for-each-ref", "--format=%(objectname)", "refs/isofold/saved"]);
    assert!(saved.lines().any(|line| line == tip), "{saved}");
    gone(&sandbox, &main, "one");
    assert_eq!(status(&sandbox, &main), "");
}

#[test]
fn discard_names_what_would_be_lost_and_saves_it_with_force() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    write(&main, "brought.log", "ignored, from the main tree\n");
    write(&main, "dirty", "untracked, from the main tree\n");
    let work = start(&sandbox, &main, "one");
    write(&work, "node_modules/x/index.js", "build output is no work\n");
    fs::write(main.join(".git/info/exclude"), ".worktrees/\nnode_modules/\ntarget/\n").expect("written");
    write(&work, "target/debug/out", "nor is this\n");
    // Nothing but what was brought, and build output.
    let listed = json(&done(&sandbox, &main, &["list", "--json"]));
    assert_eq!(listed["sessions"][0]["changes"]["files"], 0, "{listed}");
    write(&work, "new.log", "ignored and new\n");
    write(&work, "loose", "loose\n");
    let before = sandbox.state(&main);
    let run = session(&sandbox, &main, &["discard", "one", "--json"]);
    assert_eq!(run.code, 1, "{run:?}");
    let work_said = &json(&run)["work"];
    assert_eq!(work_said["changes"], serde_json::json!(["loose"]));
    assert_eq!(work_said["ignored"], serde_json::json!(["new.log"]));
    assert_eq!(work_said["commits"], serde_json::json!([]));
    assert_eq!(sandbox.state(&main), before);
    let run = done(&sandbox, &main, &["discard", "one", "--force", "--json"]);
    let saved = json(&run)["saved"][0].as_str().expect("a ref").to_owned();
    assert_eq!(sandbox.git(&main, &["show", &format!("{saved}:loose")]), "loose");
    assert_eq!(sandbox.git(&main, &["show", &format!("{saved}:new.log")]), "ignored and new");
    gone(&sandbox, &main, "one");
    assert_eq!(status(&sandbox, &main), "?? dirty");
}

#[test]
fn a_session_without_work_is_discarded_and_kept_without_a_word_more() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    write(&main, "a", lines(&[(1, "dirty")]));
    write(&main, "loose", "untracked\n");
    start(&sandbox, &main, "one");
    let run = done(&sandbox, &main, &["discard", "one"]);
    assert_eq!(run.stdout, "Worktree discarded.\n");
    gone(&sandbox, &main, "one");
    start(&sandbox, &main, "two");
    let before = status(&sandbox, &main);
    let run = done(&sandbox, &main, &["keep", "two"]);
    assert_eq!(run.stdout, "No changes to apply.\n");
    gone(&sandbox, &main, "two");
    assert_eq!(status(&sandbox, &main), before);
    assert_eq!(sandbox.git(&main, &["for-each-ref", "refs/isofold"]), "");
}

#[test]
fn a_session_whose_directory_or_branch_was_deleted_by_hand_can_be_discarded() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    let work = start(&sandbox, &main, "one");
    write(&work, "a", lines(&[(3, "committed")]));
    sandbox.commit_all(&work, "in the session");
    fs::remove_dir_all(&work).expect("removed");
    let listed = json(&done(&sandbox, &main, &["list", "--json"]));
    assert_eq!(listed["sessions"][0]["present"], false);
    assert_eq!(listed["sessions"][0]["ahead"], 1);
    let run = session(&sandbox, &main, &["keep", "one"]);
    assert!(run.code == 1 && run.stderr.contains("is gone"), "{run:?}");
    let run = session(&sandbox, &main, &["discard", "one"]);
    assert!(run.code == 1 && run.stderr.contains("1 commit"), "{run:?}");
    done(&sandbox, &main, &["discard", "one", "--force"]);
    gone(&sandbox, &main, "one");
    assert_eq!(sandbox.git(&main, &["for-each-ref", "refs/isofold/saved"]).lines().count(), 1);

    let work = start(&sandbox, &main, "two");
    sandbox.git(&work, &["checkout", "-q", "--detach"]);
    sandbox.git(&main, &["branch", "-D", "isofold/two"]);
    done(&sandbox, &main, &["discard", "two"]);
    gone(&sandbox, &main, "two");
    // And one whose branch went while it was checked out.
    let work = start(&sandbox, &main, "three");
    write(&work, "b", "changed\n");
    sandbox.git(&main, &["update-ref", "-d", "refs/heads/isofold/three"]);
    done(&sandbox, &main, &["keep", "three"]);
    assert_eq!(status(&sandbox, &main), "M  b");
    gone(&sandbox, &main, "three");
}

#[test]
fn a_main_tree_that_moved_on_takes_the_changes_all_the_same() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    let work = start(&sandbox, &main, "one");
    write(&work, "a", lines(&[(3, "session")]));
    for n in 0..50 {
        write(&main, format!("later/{n}"), "x\n");
        write(&main, "b", lines(&[(n % 20, "later")]));
        sandbox.commit_all(&main, &format!("later {n}"));
    }
    let head = sandbox.git(&main, &["rev-parse", "HEAD"]);
    done(&sandbox, &main, &["keep", "one"]);
    assert_eq!(status(&sandbox, &main), "M  a");
    assert_eq!(sandbox.git(&main, &["rev-parse", "HEAD"]), head);
    assert_eq!(read(&main, "b"), Some(lines(&[(9, "later")])));
}

#[test]
fn two_sessions_that_edit_one_file_are_kept_one_after_the_other() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    let (one, two) = (start(&sandbox, &main, "one"), start(&sandbox, &main, "two"));
    assert!(!two.join(".worktrees/isofold-one").exists(), "a session holds no other");
    write(&one, "a", lines(&[(2, "one")]));
    write(&two, "a", lines(&[(15, "two")]));
    // From inside the session itself, too.
    done(&sandbox, &one, &["keep", "one"]);
    done(&sandbox, &main.join("dir"), &["keep", "two"]);
    assert_eq!(read(&main, "a"), Some(lines(&[(2, "one"), (15, "two")])));
    assert_eq!(status(&sandbox, &main), "M  a");
}

#[test]
fn a_main_tree_in_another_state_is_refused() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    let work = start(&sandbox, &main, "one");
    write(&work, "a", lines(&[(3, "session")]));
    sandbox.git(&main, &["checkout", "-qb", "other"]);
    let before = sandbox.state(&main);
    let run = session(&sandbox, &main, &["keep", "one"]);
    assert!(run.code == 1 && run.stderr.contains("is on other, but was on main"), "{run:?}");
    assert_eq!(sandbox.state(&main), before);
    sandbox.git(&main, &["checkout", "-q", "main"]);
    // In the middle of a merge.
    fs::write(main.join(".git/MERGE_HEAD"), sandbox.git(&main, &["rev-parse", "HEAD"]) + "\n").expect("written");
    let run = session(&sandbox, &main, &["keep", "one"]);
    assert!(run.code == 1 && run.stderr.contains("in the middle of a merge"), "{run:?}");
    fs::remove_file(main.join(".git/MERGE_HEAD")).expect("removed");
    sandbox.git(&main, &["checkout", "-q", "other"]);
    done(&sandbox, &main, &["keep", "one", "--onto-current"]);
    assert_eq!(status(&sandbox, &main), "M  a");
}

#[test]
fn a_session_can_start_from_a_commit() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    let first = sandbox.git(&main, &["rev-parse", "HEAD"]);
    write(&main, "a", lines(&[(1, "later")]));
    sandbox.commit_all(&main, "later");
    write(&main, "b", lines(&[(1, "dirty")]));
    write(&main, "node_modules/x", "ignored files do not come\n");
    let run = done(&sandbox, &main, &["start", "--name", "one", "--from", "HEAD~1", "--json"]);
    assert_eq!(json(&run)["base"], first.as_str());
    let work = main.join(".worktrees/isofold-one");
    assert_eq!((read(&work, "a"), read(&work, "b")), (Some(lines(&[])), Some(lines(&[]))));
    assert!(!work.join("node_modules").exists());
    assert_eq!(sandbox.git(&work, &["status", "--porcelain"]), "");
    assert_eq!(sandbox.git(&work, &["rev-parse", "isofold/one"]), first);
    write(&work, "a", lines(&[(18, "session")]));
    done(&sandbox, &main, &["keep", "one"]);
    assert_eq!(read(&main, "a"), Some(lines(&[(1, "later"), (18, "session")])));
    assert_eq!(sandbox.git(&main, &["diff", "--cached", "--name-only"]), "a");
    gone(&sandbox, &main, "one");
    let before = sandbox.state(&main);
    let run = session(&sandbox, &main, &["start", "--from", "no-such-ref"]);
    assert!(run.code == 1 && run.stderr.contains("no-such-ref names no commit"), "{run:?}");
    assert_eq!(sandbox.state(&main), before);
}

#[test]
fn hooks_start_and_end_sessions() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    let hook = |what: &str, event: &str| {
        let mut program = sandbox.program();
        program.args(["-C", main.to_str().expect("UTF-8"), "hook", what]).stdin(std::process::Stdio::piped());
        program.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = program.spawn().expect("starts");
        std::io::Write::write_all(&mut child.stdin.take().expect("stdin"), event.as_bytes()).expect("written");
        let output = child.wait_with_output().expect("ends");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    };
    let work = main.join(".worktrees/isofold-agent-1");
    let place = work.to_str().expect("UTF-8").to_owned();
    assert_eq!(hook("worktree-create", r#"{"name": "agent-1"}"#), (Some(0), place.clone()));
    let listed = json(&done(&sandbox, &main, &["list", "--json"]));
    assert_eq!(listed["sessions"][0]["name"], "agent-1");
    write(&work, "new", "work\n");
    assert_eq!(hook("worktree-remove", &format!(r#"{{"worktree_path": "{place}"}}"#)), (Some(0), place));
    gone(&sandbox, &main, "agent-1");
    assert_eq!(sandbox.git(&main, &["for-each-ref", "refs/isofold/saved"]).lines().count(), 1);
}

#[test]
fn names_are_checked_and_never_shared() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    let before = sandbox.state(&main);
    for bad in ["../x", ".x", "a b", "", "x.lock", "a..b"] {
        let run = session(&sandbox, &main, &["start", "--name", bad]);
        assert_eq!(run.code, 2, "{bad}: {run:?}");
    }
    let run = session(&sandbox, &main, &["start", "--prefix", "a/b"]);
    assert_eq!(run.code, 2, "{run:?}");
    assert_eq!(sandbox.state(&main), before);
    start(&sandbox, &main, "one");
    let run = session(&sandbox, &main, &["start", "--name", "one"]);
    assert!(run.code == 1 && run.stderr.contains("there is a session one already"), "{run:?}");
    sandbox.git(&main, &["branch", "isofold/two"]);
    let run = session(&sandbox, &main, &["start", "--name", "two"]);
    assert!(run.code == 1 && run.stderr.contains("there is a branch isofold/two already"), "{run:?}");
    let run = session(&sandbox, &main, &["path", "none"]);
    assert_eq!(run.code, 1);
    assert_eq!(session(&sandbox, &sandbox.path("home"), &["list"]).code, 1, "no repository");
    assert_eq!(session(&sandbox, &main, &["nonsense"]).code, 2);
    // Started side by side, each has a name of its own.
    let children: Vec<_> = (0..8)
        .map(|_| {
            let mut program = sandbox.program();
            program.args(["-C", main.to_str().expect("UTF-8"), "session", "start", "--json"]);
            program.stdout(std::process::Stdio::piped()).spawn().expect("starts")
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().expect("ends");
        assert!(output.status.success(), "{output:?}");
    }
    let listed = json(&done(&sandbox, &main, &["list", "--json"]));
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(9));
}

#[test]
fn the_include_file_lets_in_what_the_default_list_leaves_out_and_keeps_it_out_of_all_else() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    write(&main, ".env", "SECRET\n");
    write(&main, ".env.local", "LOCAL\n");
    write(&main, ".worktreeinclude", "# what sessions may see\n.env.*\n");
    sandbox.git(&main, &["add", ".worktreeinclude"]);
    sandbox.git(&main, &["commit", "-qm", "include"]);
    let work = start(&sandbox, &main, "one");
    assert_eq!(read(&work, ".env.local").as_deref(), Some("LOCAL\n"));
    assert_eq!(read(&work, ".env"), None);
    // A patch of an agent that works there has no place for it.
    write(&work, ".env.local", "CHANGED\n");
    write(&work, "b", "patched\n");
    let worktree = work.to_str().expect("UTF-8");
    let run = sandbox.isofold(["patch", "record", "--agent", "a", "--worktree", worktree]);
    assert_eq!(run.code, 0, "{run:?}");
    let patch = read(&main, ".isofold/patches/a/changes.patch").expect("a patch");
    assert!(patch.contains("patched") && !patch.contains("CHANGED"), "{patch}");
    sandbox.git(&work, &["checkout", "-q", "b"]);
    // Even an agent that adds everything does not bring it back.
    write(&work, "a", lines(&[(3, "session")]));
    sandbox.commit_all(&work, "everything");
    assert!(!done(&sandbox, &main, &["diff", "one"]).stdout.contains("CHANGED"));
    let run = sandbox.try_fold(&main, &work, &[]);
    assert_eq!(run.outcome(), "invalid-invocation", "a session lies inside its main tree: {run:?}");
    let other = sandbox.isolate(&main, "other");
    let run = sandbox.try_fold(&other, &work, &[]).expect("failed", 3);
    assert!(run.report().contains(".env.local came into the Child past the exclude list"), "{run:?}");
    sandbox.isofold(["remove", "--force", "--child", other.to_str().expect("UTF-8")]).expect("removed", 0);
    done(&sandbox, &main, &["keep", "one"]);
    assert_eq!(read(&main, ".env.local").as_deref(), Some("LOCAL\n"));
    assert_eq!(status(&sandbox, &main), "M  a\n?? .env\n?? .env.local");
    // The user's own list is not opened by it, and isolate reads no such file.
    write(&main, "isolationOptions.toml", "exclude = [\".env*\"]\n");
    let work = start(&sandbox, &main, "two");
    assert_eq!(read(&work, ".env.local"), None);
    fs::remove_file(main.join("isolationOptions.toml")).expect("removed");
    let child = sandbox.isolate(&main, "child");
    assert_eq!(read(&child, ".env.local"), None);
}

#[test]
fn run_streams_passes_the_code_on_and_ends_with_the_summary() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    let script = "echo out; echo err >&2; echo new > new; printf 'x\\n' >> a; pwd > where; exit 7";
    let run = session(&sandbox, &main, &["run", "--name", "one", "--", "sh", "-c", script]);
    assert_eq!(run.code, 7, "{run:?}");
    assert_eq!(run.stderr, "err\n");
    let work = main.join(".worktrees/isofold-one");
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines[0], "out");
    assert_eq!(lines[1], "Worktree branch: isofold/one");
    assert_eq!(lines[2], format!("Path: {}", work.display()));
    assert_eq!(lines[3], "Changes: 3 files changed, 3 insertions(+)");
    assert!(lines[4].starts_with("To keep: isofold ") && lines[4].ends_with("session keep one"), "{run:?}");
    assert!(lines[5].ends_with("session discard one --force"), "{run:?}");
    assert_eq!(read(&work, "where").map(|text| text.trim().to_owned()).as_deref(), work.to_str());
    // Another command in the same session; a signal's number is passed on as a shell does.
    let run = session(&sandbox, &main, &["run", "one", "--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(run.code, 128 + 15, "{run:?}");
    let run = session(&sandbox, &main, &["run", "none", "--", "true"]);
    assert_eq!(run.code, 125, "{run:?}");
    let run = session(&sandbox, &main, &["run", "one", "--", "./no-such-program"]);
    assert_eq!(run.code, 125, "{run:?}");
    let run = session(&sandbox, &main, &["run", "one", "--json", "--", "sh", "-c", "exit 0"]);
    assert_eq!((run.code, json(&run)["exit_code"].as_i64()), (0, Some(0)));
}

#[test]
fn run_forwards_signals_and_is_listed_while_it_runs() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    start(&sandbox, &main, "one");
    let mut program = sandbox.program();
    program.args(["-C", main.to_str().expect("UTF-8"), "session", "run", "one", "--"]);
    // It ends by itself, whatever becomes of the test.
    let waits = "trap 'echo got it > got; exit 3' TERM; echo > ready; for n in $(seq 600); do sleep 0.05; done";
    program.args(["sh", "-c", waits]);
    let child = program.stdout(std::process::Stdio::null()).spawn().expect("starts");
    let work = main.join(".worktrees/isofold-one");
    while !work.join("ready").exists() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // The command runs before it can be said which process it is.
    let running = || json(&done(&sandbox, &main, &["list", "--json"]))["sessions"][0]["running"]["pid"].as_u64();
    let begun = std::time::Instant::now();
    while running().is_none() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "it is not listed as running");
    }
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill runs");
    assert!(killed.success());
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(read(&work, "got").as_deref(), Some("got it\n"));
    let listed = json(&done(&sandbox, &main, &["list", "--json"]));
    assert!(listed["sessions"][0].get("running").is_none(), "{listed}");
}

#[test]
fn no_command_but_keep_changes_the_main_tree() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    write(&main, "a", lines(&[(1, "dirty")]));
    sandbox.git(&main, &["status"]);
    let state = || {
        let text = sandbox.state(&main);
        let ours = ["refs/heads/isofold/", "refs/isofold/", ".worktrees", "git directories"];
        text.lines().filter(|line| !ours.iter().any(|word| line.contains(word))).collect::<Vec<_>>().join("\n")
    };
    start(&sandbox, &main, "zero");
    let before = state();
    let work = start(&sandbox, &main, "one");
    write(&work, "b", "session\n");
    for args in [
        &["list"][..],
        &["show", "one"],
        &["path", "one"],
        &["diff", "one"],
        &["diff", "one", "--stat"],
        &["run", "one", "--", "true"],
    ] {
        done(&sandbox, &main, args);
        assert_eq!(state(), before, "{args:?}");
    }
    assert_eq!(session(&sandbox, &main, &["discard", "one"]).code, 1);
    assert_eq!(state(), before);
    done(&sandbox, &main, &["discard", "one", "--force"]);
    assert_eq!(state(), before);
}

#[test]
fn help_fits_a_screen_and_names_every_command() {
    let sandbox = Sandbox::new();
    let run = sandbox.isofold(["--help"]);
    assert_eq!(run.code, 0);
    assert!(run.stdout.lines().count() <= 36, "{}", run.stdout.lines().count());
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 80));
    // The completions know every command there is.
    let script = sandbox.isofold(["completions", "bash"]).stdout;
    let commands = script
        .lines()
        .find(|line| line.trim_start().starts_with("opts=") && line.contains("isolate"))
        .expect("the options")
        .to_owned();
    let commands: Vec<&str> = commands
        .split(['"', ' '])
        .filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()) && !word.starts_with("opts"))
        .collect();
    assert!(commands.len() > 10, "{commands:?}");
    for command in commands {
        assert!(run.stdout.contains(&format!("\n  {command} ")), "{command} is not in the help");
    }
    for shell in ["zsh", "fish"] {
        assert!(sandbox.isofold(["completions", shell]).stdout.contains("isofold"), "{shell}");
    }
}

#[test]
fn colours_are_where_they_are_wanted() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    start(&sandbox, &main, "one");
    let list = |more: &[&str], no_color: bool| {
        let mut program = sandbox.program();
        if no_color {
            program.env("NO_COLOR", "1");
        }
        let output = program.args(["-C", main.to_str().expect("UTF-8")]).args(more).args(["session", "list"]).output();
        String::from_utf8(output.expect("runs").stdout).expect("UTF-8")
    };
    assert!(!list(&[], false).contains('\x1b'), "not into a pipe");
    assert!(list(&["--color", "always"], false).starts_with("\x1b[1mNAME"));
    assert!(list(&["--color", "always"], true).contains('\x1b'), "what is asked for outright wins");
    assert!(!list(&["--color", "never"], false).contains('\x1b'));
}

/// Runs each `$ ` line of the first block of docs/sessions.md, and compares what it prints.
#[test]
fn the_run_in_the_documentation_is_what_happens() {
    let sandbox = Sandbox::new();
    let main = sandbox.empty_repo("app");
    write(&main, "greet.py", "def greet():\n    return \"hello\"\n\n\nprint(greet())\n");
    write(&main, "README", "greets\n");
    sandbox.commit_all(&main, "Start");
    write(&main, "README", "greets, in python\n");
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/sessions.md")).expect("the document");
    let block = text.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
    assert!(block.lines().all(|line| line.chars().count() <= 80), "80 columns");
    let bin = Path::new(env!("CARGO_BIN_EXE_isofold")).parent().expect("a directory");
    let path = std::env::split_paths(&std::env::var_os("PATH").expect("PATH")).collect::<Vec<_>>();
    let path = std::env::join_paths([bin.to_owned()].into_iter().chain(path)).expect("a PATH");
    let mut steps: Vec<(String, String)> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push((command.to_owned(), String::new())),
            (None, Some((_, output))) => {
                output.push_str(line);
                output.push('\n');
            }
            (None, None) => panic!("output before a command"),
        }
    }
    assert!(steps.len() >= 6, "{steps:?}");
    let mut at = main.clone();
    let steady = |text: &str| {
        let text = text.replace(main.to_str().expect("UTF-8"), "/home/ada/app");
        let word = |word: &str| {
            let hex = word.len() >= 7 && word.chars().all(|c| c.is_ascii_hexdigit());
            let age =
                word.len() >= 2 && word.ends_with('s') && word[..word.len() - 1].bytes().all(|b| b.is_ascii_digit());
            if hex {
                "ID".to_owned()
            } else if age {
                "AGE".to_owned()
            } else {
                word.to_owned()
            }
        };
        let line = |line: &str| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
        text.lines().map(line).collect::<Vec<_>>().join("\n")
    };
    for (command, expected) in steps {
        let mut shell = sandbox.command("sh");
        let script = format!("{command}\nprintf '\\n%s' \"$PWD\"");
        let output = shell.env("PATH", &path).current_dir(&at).args(["-c", &script]).output().expect("sh runs");
        let printed = String::from_utf8(output.stdout).expect("UTF-8");
        let (printed, place) = printed.rsplit_once('\n').expect("a place");
        at = PathBuf::from(place);
        let printed = format!("{printed}{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(steady(&printed), steady(&expected), "$ {command}");
    }
}
