//! `isofold update` through the program: the way on after a conflict.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Run, Sandbox, lines, read, write};

fn update(sandbox: &Sandbox, parent: &Path, child: &Path, more: &[&str]) -> Run {
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let mut args = vec!["update".to_owned(), "--id".to_owned(), "work".to_owned()];
    args.extend(["--parent".to_owned(), text(parent), "--child".to_owned(), text(child)]);
    args.extend(more.iter().map(ToString::to_string));
    sandbox.isofold(args)
}

fn pair(sandbox: &Sandbox) -> (PathBuf, PathBuf) {
    let parent = sandbox.repo("parent");
    let child = sandbox.isolate(&parent, "child");
    (parent, child)
}

/// Index and HEAD of a work tree.
fn kept(sandbox: &Sandbox, place: &Path) -> (String, String) {
    (sandbox.git(place, &["write-tree"]), sandbox.git(place, &["rev-parse", "HEAD"]))
}

#[test]
fn the_parents_work_comes_into_the_childs_files_alone() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    write(&child, "a", lines(&[(3, "child")]));
    write(&child, "new in child", "child\n");
    write(&parent, "a", lines(&[(15, "parent, loose")]));
    sandbox.git(&parent, &["rm", "-q", "dir/c"]);
    write(&parent, "new in parent", "untracked\n");
    sandbox.commit_all(&parent, "in the parent");
    write(&parent, "b", lines(&[(1, "loose")]));
    let before = sandbox.state(&parent);
    let stays = kept(&sandbox, &child);
    let run = update(&sandbox, &parent, &child, &[]).expect("integrated", 0);
    assert_eq!(run.last()["landing"], "update");
    assert_eq!(run.last()["changed"], serde_json::json!(["a", "b", "dir/c", "new in parent"]));
    assert_eq!(read(&child, "a"), Some(lines(&[(3, "child"), (15, "parent, loose")])));
    assert_eq!(read(&child, "b"), Some(lines(&[(1, "loose")])));
    assert_eq!(read(&child, "new in parent").as_deref(), Some("untracked\n"));
    assert!(!child.join("dir/c").exists());
    assert_eq!(kept(&sandbox, &child), stays);
    let files = |state: String| state.split("\nHEAD log").next().map(str::to_owned);
    assert_eq!(files(sandbox.state(&parent)), files(before), "the Parent is only read");
    // Again: there is nothing more to bring.
    let run = update(&sandbox, &parent, &child, &[]).expect("integrated", 0);
    assert_eq!(run.last()["landing"], "nothing");
    // What comes back is the Child's own work and nothing else.
    let run = sandbox.try_fold(&parent, &child, &["--subject", "Work"]).expect("integrated", 0);
    assert_eq!(run.last()["changed"], serde_json::json!(["a", "new in child"]));
    assert_eq!(read(&parent, "a"), Some(lines(&[(3, "child"), (15, "parent, loose")])));
    sandbox.settled(&parent, "");
    let shown = sandbox.git(&parent, &["log", "--format=%s", "--", "b"]);
    assert!(shown.contains("Uncommitted work before: Work") && !shown.starts_with("Work"), "{shown}");
}

#[test]
fn a_conflict_writes_nothing_and_with_markers_it_can_be_settled() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    write(&child, "a", lines(&[(3, "child")]));
    write(&child, "b", lines(&[(3, "child")]));
    write(&parent, "a", lines(&[(3, "parent")]));
    write(&parent, "dir/c", "parent\n");
    sandbox.try_fold(&parent, &child, &[]).expect("conflict", 1);
    let (before, files) = (sandbox.state(&parent), sandbox.state(&child));
    let run = update(&sandbox, &parent, &child, &[]).expect("conflict", 1);
    assert!(run.report().contains("--markers"), "{run:?}");
    let conflict = &run.last()["conflicts"][0];
    assert_eq!((conflict["path"].as_str(), conflict["ours"].as_str()), (Some("a"), Some("modified")));
    assert_eq!((sandbox.state(&parent), sandbox.state(&child)), (before.clone(), files));
    let stays = kept(&sandbox, &child);
    let run = update(&sandbox, &parent, &child, &["--markers"]).expect("conflict", 1);
    assert_eq!(run.last()["marked"], serde_json::json!(["a", "dir/c"]));
    let text = read(&child, "a").expect("a file");
    assert!(text.contains("<<<<<<< child\nchild\n=======\nparent\n>>>>>>> parent\n"), "{text}");
    assert_eq!(read(&child, "dir/c").as_deref(), Some("parent\n"));
    assert_eq!(kept(&sandbox, &child), stays);
    // Settled by hand, it folds.
    write(&child, "a", lines(&[(3, "child and parent")]));
    sandbox.try_fold(&parent, &child, &[]).expect("integrated", 0);
    assert_eq!(read(&parent, "a"), Some(lines(&[(3, "child and parent")])));
    assert_eq!(read(&parent, "b"), Some(lines(&[(3, "child")])));
    assert_eq!(read(&parent, "dir/c").as_deref(), Some("parent\n"));
    sandbox.settled(&parent, "");
    assert_eq!(sandbox.fold(&parent, &child), "nothing");
}

#[test]
fn a_conflict_says_which_side_did_what() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    write(&child, "a", lines(&[(3, "child")]));
    fs::remove_file(child.join("b")).expect("removed");
    fs::remove_file(parent.join("a")).expect("removed");
    write(&parent, "b", lines(&[(3, "parent")]));
    // The Parent is ours, whichever directory is written.
    for more in [&[][..], &["--markers"]] {
        let run = update(&sandbox, &parent, &child, more).expect("conflict", 1);
        let sides = |n: usize| {
            let conflict = &run.last()["conflicts"][n];
            ["path", "ours", "theirs"].map(|key| conflict[key].as_str().unwrap_or_default().to_owned())
        };
        assert_eq!([sides(0), sides(1)], [["a", "deleted", "modified"], ["b", "modified", "deleted"]], "{run:?}");
    }
}

#[test]
fn the_childs_own_files_are_never_in_the_way_unseen() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    write(&child, "ignored/x", "the child's own\n");
    write(&parent, ".gitignore", "*.log\n");
    write(&parent, "ignored/x", "the parent's\n");
    sandbox.commit_all(&parent, "no longer ignored");
    let before = sandbox.state(&child);
    let run = update(&sandbox, &parent, &child, &["--markers"]).expect("conflict", 1);
    assert_eq!(run.last()["conflicts"][0]["path"], "ignored/x");
    assert_eq!(sandbox.state(&child), before);
    fs::remove_file(child.join("ignored/x")).expect("removed");
    update(&sandbox, &parent, &child, &[]).expect("integrated", 0);
    assert_eq!(read(&child, "ignored/x").as_deref(), Some("the parent's\n"));
}

#[test]
fn what_can_not_be_updated_is_refused() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    write(&parent, "a", lines(&[(3, "parent")]));
    let lines_of =
        |run: &Run| run.lines().iter().map(|line| line["event"].as_str().unwrap_or("").to_owned()).collect::<Vec<_>>();
    let run = update(&sandbox, &parent, &child, &["--no-such-flag"]).expect("invalid-invocation", 2);
    assert_eq!(lines_of(&run), ["status", "integration-finished"]);
    update(&sandbox, &parent, &parent, &[]).expect("invalid-invocation", 2);
    update(&sandbox, &parent, &sandbox.path("none"), &[]).expect("invalid-invocation", 2);
    let id = sandbox.git(&child, &["rev-parse", "HEAD"]);
    let git_dir = PathBuf::from(sandbox.git(&child, &["rev-parse", "--absolute-git-dir"]));
    fs::write(git_dir.join("MERGE_HEAD"), id + "\n").expect("written");
    let report = update(&sandbox, &parent, &child, &[]).expect("failed", 3).report();
    assert!(report.contains("the Child") && report.contains("in the middle of a merge"), "{report}");
    fs::remove_file(git_dir.join("MERGE_HEAD")).expect("removed");
    let run = update(&sandbox, &parent, &child, &["--context", "k"]).expect("integrated", 0);
    assert!(run.stdout.lines().all(|line| line.starts_with("{\"key\":\"k\",")), "{run:?}");
    assert_eq!(lines_of(&run), ["status", "integration-started", "status", "integration-finished"]);
}

#[test]
fn children_of_children_are_brought_up_to_date_step_by_step() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    let grandchild = sandbox.isolate(&child, "grandchild");
    write(&grandchild, "a", lines(&[(3, "grandchild")]));
    write(&parent, "a", lines(&[(10, "parent")]));
    update(&sandbox, &parent, &child, &[]).expect("integrated", 0);
    update(&sandbox, &child, &grandchild, &[]).expect("integrated", 0);
    assert_eq!(read(&grandchild, "a"), Some(lines(&[(3, "grandchild"), (10, "parent")])));
    assert_eq!(sandbox.fold(&child, &grandchild), "fast-forward");
    sandbox.try_fold(&parent, &child, &[]).expect("integrated", 0);
    assert_eq!(read(&parent, "a"), Some(lines(&[(3, "grandchild"), (10, "parent")])));
    sandbox.settled(&parent, "");
}
