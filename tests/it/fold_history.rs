//! What a fold leaves in history: which commits, under which subjects, by whom.

use std::path::Path;

use crate::support::{Run, Sandbox, lines, listing, read, write};

fn head(s: &Sandbox, directory: &Path) -> String {
    s.git(directory, &["rev-parse", "HEAD"])
}

/// Subjects from HEAD back along all parents, newest first.
fn subjects(s: &Sandbox, directory: &Path) -> Vec<String> {
    s.git(directory, &["log", "--topo-order", "--format=%s"]).lines().map(str::to_owned).collect()
}

fn tree(s: &Sandbox, directory: &Path, commit: &str) -> String {
    s.git(directory, &["rev-parse", &format!("{commit}^{{tree}}")])
}

/// Files that a commit changes against its first parent.
fn changed(s: &Sandbox, directory: &Path, commit: &str) -> String {
    s.git(directory, &["diff-tree", "-r", "--root", "--no-commit-id", "--name-only", "-m", "--first-parent", commit])
}

/// Nothing that a bystander could see changed in the Child: files, index, HEAD.
fn child_state(s: &Sandbox, child: &Path) -> (String, Vec<u8>, String) {
    let git_dir = s.git(child, &["rev-parse", "--absolute-git-dir"]);
    (listing(child), std::fs::read(Path::new(&git_dir).join("index")).expect("an index"), head(s, child))
}

fn landing(run: &Run) -> String {
    run.last()["landing"].as_str().unwrap_or_default().to_owned()
}

fn commits(run: &Run) -> Vec<String> {
    let last = run.last();
    last["commits"].as_array().expect("a list").iter().map(|c| c.as_str().expect("text").to_owned()).collect()
}

#[test]
fn nothing_to_fold_writes_nothing_and_leaves_loose_work_loose() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    write(&p, "a", lines(&[(3, "dirty")]));
    write(&p, "b", lines(&[(3, "staged")]));
    s.git(&p, &["add", "b"]);
    write(&p, "new", "untracked\n");
    let c = s.isolate(&p, "c");
    let (before, child) = (s.state(&p), child_state(&s, &c));
    let run = s.try_fold(&p, &c, &[]).expect("integrated", 0);
    assert_eq!(landing(&run), "nothing");
    assert_eq!(run.last()["head"], head(&s, &p).as_str());
    assert!(commits(&run).is_empty());
    assert_eq!(s.state(&p), before);
    assert_eq!(child_state(&s, &c), child);
    assert_eq!(subjects(&s, &p), ["start"]);
}

#[test]
fn work_the_parent_has_already_is_nothing_to_fold() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    write(&c, "a", lines(&[(3, "x")]));
    s.commit_all(&c, "x");
    write(&p, "a", lines(&[(3, "x")]));
    let before = s.state(&p);
    assert_eq!(s.fold(&p, &c), "nothing");
    assert_eq!(s.state(&p), before);
}

#[test]
fn commits_alone_move_the_branch_forward_and_make_no_commit() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    write(&c, "a", lines(&[(3, "one")]));
    s.commit_all(&c, "one");
    write(&c, "new/file", "two\n");
    s.commit_all(&c, "two");
    let child = child_state(&s, &c);
    let run = s.try_fold(&p, &c, &[]).expect("integrated", 0);
    assert_eq!(landing(&run), "fast-forward");
    assert!(commits(&run).is_empty());
    assert_eq!(head(&s, &p), head(&s, &c));
    assert_eq!(run.last()["head"], head(&s, &p).as_str());
    assert_eq!(run.last()["changed"], serde_json::json!(["a", "new/file"]));
    assert_eq!(s.git(&p, &["symbolic-ref", "HEAD"]), "refs/heads/main");
    assert_eq!(child_state(&s, &c), child);
    s.settled(&p, "");
}

#[test]
fn loose_work_alone_becomes_one_commit() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let start = head(&s, &p);
    let c = s.isolate(&p, "c");
    write(&c, "a", lines(&[(3, "loose")]));
    let child = child_state(&s, &c);
    let run = s.try_fold(&p, &c, &["--subject", "Do it", "--merge-subject", "Not used"]).expect("integrated", 0);
    assert_eq!(landing(&run), "fast-forward");
    assert_eq!(subjects(&s, &p), ["Do it", "start"]);
    assert_eq!(commits(&run), [head(&s, &p)]);
    assert_eq!(s.git(&p, &["rev-parse", "HEAD~1"]), start);
    // The Child is never written: its HEAD stays and its work is loose there as before.
    assert_eq!(child_state(&s, &c), child);
    assert_eq!(head(&s, &c), start);
    s.settled(&p, "");
}

#[test]
fn commits_and_loose_work_come_in_this_order() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    write(&c, "a", lines(&[(3, "one")]));
    s.commit_all(&c, "one");
    write(&c, "b", lines(&[(3, "loose")]));
    assert_eq!(s.fold(&p, &c), "fast-forward");
    assert_eq!(subjects(&s, &p), ["Integration of work", "one", "start"]);
    assert_eq!(changed(&s, &p, "HEAD"), "b");
    assert_eq!(s.git(&p, &["rev-parse", "HEAD~1"]), head(&s, &c));
}

#[test]
fn both_moved_gives_one_merge_of_the_parents_then_the_childs() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    write(&p, "b", lines(&[(3, "p")]));
    s.commit_all(&p, "p");
    write(&c, "a", lines(&[(3, "c")]));
    s.commit_all(&c, "c");
    let (mine, theirs) = (head(&s, &p), head(&s, &c));
    let run = s.try_fold(&p, &c, &["--subject", "Not used", "--merge-subject", "Join"]).expect("integrated", 0);
    assert_eq!(landing(&run), "merge");
    assert_eq!(s.git(&p, &["log", "-1", "--format=%P%n%s"]), format!("{mine} {theirs}\nJoin"));
    assert_eq!(commits(&run), [head(&s, &p)]);
    s.settled(&p, "");
}

#[test]
fn both_moved_with_loose_work_on_both_sides() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    write(&p, "b", lines(&[(3, "p loose")]));
    write(&c, "a", lines(&[(3, "c loose")]));
    let run = s.try_fold(&p, &c, &["--subject", "Do it"]).expect("integrated", 0);
    assert_eq!(landing(&run), "merge");
    // The default of the merge is its own, not the subject.
    assert_eq!(s.git(&p, &["log", "-1", "--format=%s"]), "Integration of work");
    assert_eq!(s.git(&p, &["log", "-1", "--format=%s", "HEAD^1"]), "Uncommitted work before: Do it");
    assert_eq!(s.git(&p, &["log", "-1", "--format=%s", "HEAD^2"]), "Do it");
    assert_eq!((changed(&s, &p, "HEAD^1").as_str(), changed(&s, &p, "HEAD^2").as_str()), ("b", "a"));
    assert_eq!(commits(&run).len(), 3);
    s.settled(&p, "");
}

#[test]
fn the_parents_loose_work_never_passes_for_the_childs() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    write(&p, "b", lines(&[(3, "dirty")]));
    write(&p, "mine", "mine\n");
    let c = s.isolate(&p, "c");
    write(&c, "a", lines(&[(3, "c")]));
    let run = s.try_fold(&p, &c, &["--subject", "Do it"]).expect("integrated", 0);
    assert_eq!(landing(&run), "fast-forward");
    assert_eq!(subjects(&s, &p), ["Do it", "Uncommitted work before: Do it", "start"]);
    assert_eq!((changed(&s, &p, "HEAD").as_str(), changed(&s, &p, "HEAD~1").as_str()), ("a", "b\nmine"));
    s.settled(&p, "");
}

#[test]
fn the_base_lands_under_its_own_name_when_the_parent_moved_on() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let start = head(&s, &p);
    write(&p, "b", lines(&[(3, "dirty")]));
    let c = s.isolate(&p, "c");
    write(&c, "a", lines(&[(3, "c")]));
    write(&p, "b", lines(&[(3, "dirty and on")]));
    s.commit_all(&p, "p");
    let moved = head(&s, &p);
    let run = s.try_fold(&p, &c, &["--subject", "Do it"]).expect("integrated", 0);
    assert_eq!(landing(&run), "merge");
    assert_eq!(s.git(&p, &["rev-parse", "HEAD^1"]), moved);
    let side = s.git(&p, &["log", "--format=%s", &format!("{start}..HEAD^2")]);
    assert_eq!(side, "Do it\nUncommitted work before: Do it");
    assert_eq!((changed(&s, &p, "HEAD^2").as_str(), changed(&s, &p, "HEAD^2~1").as_str()), ("a", "b"));
    assert_eq!((read(&p, "a"), read(&p, "b")), (Some(lines(&[(3, "c")])), Some(lines(&[(3, "dirty and on")]))));
    // A hidden commit's author must not reach history.
    assert!(!s.git(&p, &["log", "--format=%an %cn %ae %ce"]).contains("isofold"));
    s.settled(&p, "");
}

#[test]
fn the_base_lands_under_its_own_name_when_the_parent_dropped_it() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    write(&p, "b", lines(&[(3, "dirty")]));
    let c = s.isolate(&p, "c");
    s.git(&p, &["checkout", "-q", "--", "b"]);
    write(&c, "a", lines(&[(3, "c")]));
    s.fold(&p, &c);
    // What the Parent took back stays taken back.
    assert_eq!((read(&p, "a"), read(&p, "b")), (Some(lines(&[(3, "c")])), Some(lines(&[]))));
    for line in s.git(&p, &["log", "--no-merges", "--format=%H %s", "HEAD"]).lines() {
        let (id, subject) = line.split_once(' ').expect("two fields");
        match subject {
            "Integration of work" => assert_eq!(changed(&s, &p, id), "a"),
            "Uncommitted work before: Integration of work" => assert_eq!(changed(&s, &p, id), "b"),
            other => assert_eq!(other, "start"),
        }
    }
    s.settled(&p, "");
}

#[test]
fn a_second_fold_continues_on_the_first() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    write(&p, "b", lines(&[(3, "dirty")]));
    let c = s.isolate(&p, "c");
    write(&c, "a", lines(&[(3, "one")]));
    s.try_fold(&p, &c, &["--subject", "One"]).expect("integrated", 0);
    write(&c, "a", lines(&[(3, "two")]));
    s.try_fold(&p, &c, &["--subject", "Two"]).expect("integrated", 0);
    assert_eq!(subjects(&s, &p), ["Two", "One", "Uncommitted work before: One", "start"]);
    // With the Parent moved between, the third continues on the second as a side line.
    write(&p, "dir/c", "p\n");
    s.commit_all(&p, "p");
    write(&c, "a", lines(&[(3, "three")]));
    s.try_fold(&p, &c, &["--subject", "Three"]).expect("integrated", 0);
    assert_eq!(s.git(&p, &["log", "-1", "--format=%s", "HEAD^2"]), "Three");
    assert_eq!(s.git(&p, &["log", "-1", "--format=%s", "HEAD^2~1"]), "Two");
    assert_eq!(changed(&s, &p, "HEAD^2"), "a");
    s.settled(&p, "");
}

#[test]
fn a_detached_parent_stays_detached() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let start = head(&s, &p);
    s.git(&p, &["checkout", "-q", "--detach"]);
    let c = s.isolate(&p, "c");
    write(&c, "a", lines(&[(3, "c")]));
    assert_eq!(s.fold(&p, &c), "fast-forward");
    assert_eq!(s.git(&p, &["rev-parse", "HEAD~1"]), start);
    assert_ne!(s.try_git(&p, &["symbolic-ref", "-q", "HEAD"]).0, 0);
    assert_eq!(s.git(&p, &["rev-parse", "main"]), start);
    assert_eq!(s.git(&p, &["log", "-g", "-1", "--format=%gs"]), "isofold: fold of work");
    s.settled(&p, "");
    write(&p, "b", lines(&[(3, "p")]));
    write(&c, "a", lines(&[(3, "c2")]));
    assert_eq!(s.fold(&p, &c), "merge");
    assert_ne!(s.try_git(&p, &["symbolic-ref", "-q", "HEAD"]).0, 0);
    s.settled(&p, "");
}

#[test]
fn an_unborn_parent_gets_its_first_commits() {
    let s = Sandbox::new();
    let p = s.empty_repo("parent");
    let c = s.isolate(&p, "c");
    assert_eq!(s.fold(&p, &c), "nothing");
    write(&c, "a", "a\n");
    let run = s.try_fold(&p, &c, &[]).expect("integrated", 0);
    assert_eq!(landing(&run), "fast-forward");
    assert_eq!(subjects(&s, &p), ["Integration of work"]);
    assert_eq!(s.git(&p, &["symbolic-ref", "HEAD"]), "refs/heads/main");
    s.settled(&p, "");
    write(&c, "a", "again\n");
    s.fold(&p, &c);
    assert_eq!(read(&p, "a").as_deref(), Some("again\n"));
    assert_eq!(subjects(&s, &p).len(), 2);
    s.settled(&p, "");
}

#[test]
fn an_unborn_parent_with_loose_work() {
    let s = Sandbox::new();
    let p = s.empty_repo("parent");
    write(&p, "mine", lines(&[(3, "mine")]));
    write(&p, ".env", "SECRET=1\n");
    let c = s.isolate(&p, "c");
    assert_eq!(s.fold(&p, &c), "nothing");
    assert_ne!(s.try_git(&p, &["rev-parse", "-q", "--verify", "HEAD"]).0, 0, "still unborn");
    write(&c, "mine", lines(&[(3, "mine"), (12, "theirs")]));
    write(&c, "new", "new\n");
    s.fold(&p, &c);
    assert_eq!(subjects(&s, &p), ["Integration of work", "Uncommitted work before: Integration of work"]);
    assert_eq!(changed(&s, &p, "HEAD~1"), "mine");
    assert_eq!(read(&p, "mine"), Some(lines(&[(3, "mine"), (12, "theirs")])));
    s.settled(&p, "?? .env");
}

#[test]
fn an_unborn_parent_whose_child_committed() {
    let s = Sandbox::new();
    let p = s.empty_repo("parent");
    let c = s.isolate(&p, "c");
    write(&c, "a", "a\n");
    s.commit_all(&c, "first");
    s.fold(&p, &c);
    assert_eq!(head(&s, &p), head(&s, &c));
    assert_eq!(s.git(&p, &["symbolic-ref", "HEAD"]), "refs/heads/main");
    s.settled(&p, "");
}

#[test]
fn an_unborn_parent_that_was_born_meanwhile() {
    let s = Sandbox::new();
    let p = s.empty_repo("parent");
    let c = s.isolate(&p, "c");
    write(&p, "b", "b\n");
    s.commit_all(&p, "first");
    write(&c, "a", "a\n");
    s.fold(&p, &c);
    assert_eq!((read(&p, "a").as_deref(), read(&p, "b").as_deref()), (Some("a\n"), Some("b\n")));
    s.settled(&p, "");
}

#[test]
fn a_linked_worktree_as_parent() {
    let s = Sandbox::new();
    let main = s.repo("main");
    let p = s.path("linked");
    s.git(&main, &["worktree", "add", "-q", "-b", "feature", p.to_str().expect("UTF-8")]);
    let before = listing(&main);
    let start = head(&s, &main);
    write(&p, "b", lines(&[(3, "dirty")]));
    let c = s.isolate(&p, "c");
    write(&c, "a", lines(&[(3, "c")]));
    s.fold(&p, &c);
    assert_eq!(s.git(&p, &["symbolic-ref", "HEAD"]), "refs/heads/feature");
    assert_eq!(subjects(&s, &p).len(), 3);
    s.settled(&p, "");
    assert_eq!((listing(&main), head(&s, &main)), (before, start));
    s.settled(&main, "");
}

#[test]
fn a_child_of_a_child() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    write(&p, "b", lines(&[(3, "p")]));
    let c = s.isolate(&p, "c");
    write(&c, "a", lines(&[(3, "c")]));
    let g = s.isolate(&c, "g");
    write(&g, "dir/c", "g\n");
    s.try_fold(&c, &g, &["--subject", "G"]).expect("integrated", 0);
    assert_eq!(subjects(&s, &c), ["G", "Uncommitted work before: G", "start"]);
    s.settled(&c, "");
    s.try_fold(&p, &c, &["--subject", "C"]).expect("integrated", 0);
    assert_eq!((read(&p, "a"), read(&p, "b")), (Some(lines(&[(3, "c")])), Some(lines(&[(3, "p")]))));
    assert_eq!(read(&p, "dir/c").as_deref(), Some("g\n"));
    s.settled(&p, "");
}

#[test]
fn identity_from_the_environment_before_the_configuration() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    write(&c, "a", lines(&[(3, "c")]));
    let status = s
        .program()
        .args(["fold", "--id", "work", "--parent"])
        .arg(&p)
        .arg("--child")
        .arg(&c)
        .env("GIT_AUTHOR_NAME", "Ann Author")
        .env("GIT_AUTHOR_EMAIL", "ann@example.test")
        .env("GIT_AUTHOR_DATE", "1700000000 +0130")
        .env("GIT_COMMITTER_NAME", "Con Committer")
        .env("GIT_COMMITTER_EMAIL", "con@example.test")
        .env("GIT_COMMITTER_DATE", "1700000001 -0330")
        .output()
        .expect("isofold runs")
        .status;
    assert!(status.success());
    assert_eq!(
        s.git(&p, &["log", "-1", "--date=raw", "--format=%an <%ae> %ad|%cn <%ce> %cd"]),
        "Ann Author <ann@example.test> 1700000000 +0130|Con Committer <con@example.test> 1700000001 -0330"
    );
    assert_eq!(s.git(&p, &["log", "-g", "-1", "--format=%gn <%ge>"]), "Con Committer <con@example.test>");
}

#[test]
fn identity_from_the_configuration_with_an_author_of_its_own() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    write(&c, "a", lines(&[(3, "c")]));
    s.fold(&p, &c);
    let who = ["log", "-1", "--format=%an <%ae>|%cn <%ce>"];
    assert_eq!(s.git(&p, &who), "Test <test@example.test>|Test <test@example.test>");
    s.git(&p, &["config", "author.name", "Ann"]);
    s.git(&p, &["config", "author.email", "ann@example.test"]);
    write(&c, "a", lines(&[(3, "c2")]));
    s.fold(&p, &c);
    assert_eq!(s.git(&p, &who), "Ann <ann@example.test>|Test <test@example.test>");
}

#[test]
fn without_an_identity_only_folds_that_commit_fail() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    write(&c, "a", lines(&[(3, "c")]));
    s.commit_all(&c, "c");
    s.git(&p, &["config", "--unset", "user.name"]);
    s.git(&p, &["config", "--unset", "user.email"]);
    s.git(&p, &["config", "user.useConfigOnly", "true"]);
    write(&c, "b", lines(&[(3, "loose")]));
    let before = s.state(&p);
    let run = s.try_fold(&p, &c, &[]).expect("failed", 3);
    assert!(run.report().contains("identity") && run.report().contains("user.name"), "{}", run.report());
    assert_eq!(run.report().lines().count(), 1);
    assert_eq!(s.state(&p), before);
    s.try_fold(&p, &c, &["--dry-run"]).expect("failed", 3);
    // A fast-forward to the Child's own commits needs no commit of ours.
    s.git(&c, &["checkout", "-q", "--", "b"]);
    s.try_fold(&p, &c, &[]).expect("integrated", 0);
    assert_eq!(head(&s, &p), head(&s, &c));
}

#[test]
fn the_reflogs_of_head_and_branch_say_what_happened() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let old = head(&s, &p);
    let c = s.isolate(&p, "c");
    write(&c, "a", lines(&[(3, "c")]));
    s.fold(&p, &c);
    let new = head(&s, &p);
    for log in ["HEAD", "main"] {
        assert_eq!(s.git(&p, &["log", "-g", "-1", "--format=%H %gs", log]), format!("{new} isofold: fold of work"));
        assert_eq!(s.git(&p, &["rev-parse", &format!("{log}@{{1}}")]), old);
    }
    assert_eq!(s.git(&p, &["reset", "-q", "--hard", "HEAD@{1}"]), "");
    assert_eq!(read(&p, "a"), Some(lines(&[])));
}

#[test]
fn subjects_keep_their_text() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    write(&c, "a", lines(&[(3, "c")]));
    let subject = "Ünï \"quoted\" # not a comment -- and --flags";
    s.try_fold(&p, &c, &["--subject", subject]).expect("integrated", 0);
    assert_eq!(s.git(&p, &["log", "-1", "--format=%B"]).trim_end(), subject);
}

#[test]
fn nothing_hidden_becomes_an_ancestor_of_history() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    write(&p, "b", lines(&[(3, "dirty")]));
    let c = s.isolate(&p, "c");
    for round in 0..3 {
        write(&c, "a", lines(&[(3, &format!("v{round}"))]));
        write(&p, "dir/c", format!("p{round}\n"));
        s.fold(&p, &c);
    }
    let said = s.git(&p, &["log", "--format=%s"]);
    assert!(!said.contains("isofold:") && !said.contains("side of a merge"), "{said}");
    let unreachable = s.git(&p, &["fsck", "--no-progress", "--unreachable", "--no-reflogs"]);
    for line in unreachable.lines().filter(|l| l.contains(" commit ")) {
        let id = line.rsplit(' ').next().expect("an id");
        assert_ne!(s.git(&p, &["log", "-1", "--format=%s", id]), "side of a merge");
    }
}

#[test]
fn a_dry_run_says_the_same_and_writes_nothing() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    write(&p, "b", lines(&[(3, "dirty")]));
    let c = s.isolate(&p, "c");
    write(&c, "a", lines(&[(3, "c")]));
    let before = s.state(&p);
    let dry = s.try_fold(&p, &c, &["--dry-run"]).expect("integrated", 0);
    assert_eq!(s.state(&p), before);
    let wet = s.try_fold(&p, &c, &[]).expect("integrated", 0);
    for field in ["landing", "files", "changed", "base", "engine"] {
        assert_eq!(dry.last()[field], wet.last()[field], "{field}");
    }
    assert_eq!(tree(&s, &p, "HEAD"), s.git(&p, &["write-tree"]));
}

/// What the commits below HEAD under `subject` change, all together.
fn under(s: &Sandbox, directory: &Path, subject: &str) -> String {
    let mut text = String::new();
    for line in s.git(directory, &["log", "--no-merges", "--format=%H %s"]).lines() {
        let (id, said) = line.split_once(' ').expect("two fields");
        if said == subject {
            text.push_str(&s.git(directory, &["diff-tree", "-p", "-U0", "--root", "--no-commit-id", id]));
        }
    }
    text
}

const BEFORE: &str = "Uncommitted work before: Do it";

#[test]
fn the_parents_loose_work_stays_its_own_under_commits_of_the_child() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    write(&p, "b", lines(&[(3, "dirty")]));
    write(&p, "mine", "mine\n");
    let c = s.isolate(&p, "c");
    write(&c, "a", lines(&[(3, "committed")]));
    s.git(&c, &["commit", "-qm", "one", "a"]);
    write(&c, "a", lines(&[(3, "committed"), (15, "loose")]));
    write(&c, "b", lines(&[(3, "dirty"), (15, "loose")]));
    let run = s.try_fold(&p, &c, &["--subject", "Do it"]).expect("integrated", 0);
    assert_eq!(landing(&run), "merge");
    let side = s.git(&p, &["log", "--format=%s", "HEAD^2", "--not", "HEAD^1"]);
    assert_eq!(side, format!("Do it\n{BEFORE}\none"));
    let (childs, parents) = (under(&s, &p, "Do it"), under(&s, &p, BEFORE));
    assert!(childs.contains("+loose") && !childs.contains("dirty") && !childs.contains("mine"), "{childs}");
    assert!(parents.contains("+dirty") && parents.contains("+mine") && !parents.contains("loose"), "{parents}");
    assert_eq!(commits(&run).len(), 4);
    s.settled(&p, "");
    // Folding on from there repeats nothing.
    assert_eq!(s.fold(&p, &c), "nothing");
    write(&c, "a", lines(&[(3, "committed"), (15, "again")]));
    let run = s.try_fold(&p, &c, &["--subject", "Again"]).expect("integrated", 0);
    assert_eq!(commits(&run).len(), if landing(&run) == "merge" { 2 } else { 1 });
    assert!(!under(&s, &p, "Again").contains("dirty"));
    s.settled(&p, "");
}

#[test]
fn loose_work_that_is_only_the_parents_gets_no_commit_of_the_child() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    write(&p, "b", lines(&[(3, "dirty")]));
    let c = s.isolate(&p, "c");
    write(&c, "a", lines(&[(3, "committed")]));
    s.git(&c, &["commit", "-qm", "one", "a"]);
    s.try_fold(&p, &c, &["--subject", "Do it"]).expect("integrated", 0);
    assert_eq!(under(&s, &p, "Do it"), "");
    assert!(under(&s, &p, BEFORE).contains("+dirty"));
    s.settled(&p, "");
}

#[test]
fn what_the_childs_commits_took_in_or_back_is_its_own() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    write(&p, "a", lines(&[(3, "dirty"), (15, "dirty too")]));
    write(&p, "b", lines(&[(3, "dirty")]));
    let c = s.isolate(&p, "c");
    // The same line committed in another form, the other lines of the file not.
    let loose = lines(&[(3, "dirty, changed"), (15, "dirty too"), (9, "loose")]);
    write(&c, "a", lines(&[(3, "dirty, changed")]));
    s.git(&c, &["commit", "-qm", "one", "a"]);
    write(&c, "a", &loose);
    s.git(&c, &["checkout", "-q", "--", "b"]);
    s.try_fold(&p, &c, &["--subject", "Do it"]).expect("integrated", 0);
    let (childs, parents) = (under(&s, &p, "Do it"), under(&s, &p, BEFORE));
    assert!(childs.contains("+loose") && !childs.contains("dirty"), "{childs}");
    assert!(parents.contains("+dirty too"), "{parents}");
    assert_eq!(read(&p, "a"), Some(loose));
    assert_eq!(read(&p, "b"), Some(lines(&[])), "the Child took it back");
    s.settled(&p, "");
}

#[test]
fn an_amended_commit_of_the_child_leaves_the_parents_work_its_own() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    write(&c, "a", lines(&[(3, "one")]));
    s.commit_all(&c, "one");
    s.fold(&p, &c);
    write(&p, "b", lines(&[(3, "dirty")]));
    let c = s.isolate(&p, "d");
    s.git(&c, &["commit", "-q", "--amend", "-m", "amended"]);
    write(&c, "a", lines(&[(3, "one"), (15, "loose")]));
    s.try_fold(&p, &c, &["--subject", "Do it"]).expect("integrated", 0);
    let (childs, parents) = (under(&s, &p, "Do it"), under(&s, &p, BEFORE));
    assert!(childs.contains("+loose") && !childs.contains("dirty"), "{childs}");
    assert!(parents.contains("+dirty") && !parents.contains("loose"), "{parents}");
    s.settled(&p, "");
}

#[test]
fn ten_folds_with_edits_to_the_same_lines_and_a_dirty_parent() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    write(&p, "a", lines(&[(3, "dirty")]));
    write(&p, "mine", "mine\n");
    let c = s.isolate(&p, "c");
    for round in 0..10 {
        let text = format!("round {round}");
        write(&c, "a", lines(&[(3, &text), (15, "kept")]));
        if round % 3 == 1 {
            s.commit_all(&c, &text);
        }
        // The Parent is dirty all the time, now and then in the same file.
        write(&p, "mine", format!("mine {round}\n"));
        if round % 4 == 2 {
            let known = read(&p, "a").expect("a file").replace("l18\n", &format!("parent {round}\n"));
            write(&p, "a", known);
        }
        let run = s.try_fold(&p, &c, &[]).expect("integrated", 0);
        assert_ne!(landing(&run), "nothing", "round {round}");
        let now = read(&p, "a").expect("a file");
        assert!(now.contains(&text), "round {round}: {now}");
        s.settled(&p, "");
        let before = s.state(&p);
        let again = s.try_fold(&p, &c, &[]).expect("integrated", 0);
        assert_eq!((landing(&again).as_str(), commits(&again).len()), ("nothing", 0), "round {round}");
        assert_eq!(s.state(&p), before);
    }
    assert!(read(&p, "a").expect("a file").contains("parent 2\n"));
}
