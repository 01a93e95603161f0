//! Which base a fold uses: every situation in which a simpler rule drops, reverts or conflicts.

use std::path::Path;

use crate::support::{Sandbox, lines, read, write};

/// The file `a` with line 3 replaced.
fn third(text: &str) -> String {
    lines(&[(3, text)])
}

fn head(sandbox: &Sandbox, directory: &Path) -> String {
    sandbox.git(directory, &["rev-parse", "HEAD"])
}

/// The base entry that a fold says it used; `None` where history alone decided.
#[track_caller]
fn base_of(sandbox: &Sandbox, parent: &Path, child: &Path) -> Option<String> {
    let run = sandbox.try_fold(parent, child, &["--dry-run"]);
    let last = run.last();
    assert!(last.get("base").is_some(), "{run:?}");
    last["base"].as_str().map(str::to_owned)
}

/// A fold that has to find nothing to do, and does nothing.
#[track_caller]
fn nothing(sandbox: &Sandbox, parent: &Path, child: &Path) {
    let before = sandbox.state(parent);
    assert_eq!(sandbox.fold(parent, child), "nothing");
    assert_eq!(sandbox.state(parent), before);
}

/// A fold that a person has to settle: nothing changes in the Parent, or in the Child.
#[track_caller]
fn conflict(sandbox: &Sandbox, parent: &Path, child: &Path, path: &str) {
    let before = (sandbox.state(parent), sandbox.state(child));
    let run = sandbox.try_fold(parent, child, &[]).expect("conflict", 1);
    assert_eq!((sandbox.state(parent), sandbox.state(child)), before);
    let last = run.last();
    let paths: Vec<&str> =
        last["conflicts"].as_array().expect("a list").iter().filter_map(|c| c["path"].as_str()).collect();
    assert_eq!(paths, [path]);
    assert!(run.report().contains(path) && run.report().contains("isofold update"), "{run:?}");
}

#[test]
fn text_given_dirty_and_then_edited_is_no_conflict() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    write(&p, "a", third("dirty"));
    let c = s.isolate(&p, "c");
    write(&c, "a", third("dirty and edited"));
    assert_eq!(s.fold(&p, &c), "fast-forward");
    assert_eq!(read(&p, "a"), Some(third("dirty and edited")));
    s.settled(&p, "");
}

#[test]
fn an_untouched_child_folds_to_nothing_however_dirty_the_parent() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    write(&p, "a", third("dirty"));
    write(&p, "new", "new\n");
    write(&p, ".env", "SECRET=1\n");
    std::fs::remove_file(p.join("b")).expect("removed");
    s.git(&p, &["add", "a"]);
    let c = s.isolate(&p, "c");
    nothing(&s, &p, &c);
    write(&p, "a", third("dirtier"));
    std::fs::remove_file(p.join("new")).expect("removed");
    nothing(&s, &p, &c);
}

#[test]
fn a_child_folded_five_times_with_edits_on_the_same_line() {
    for (dirty, committed) in [(false, false), (true, false), (false, true), (true, true)] {
        let s = Sandbox::new();
        let p = s.repo("parent");
        if dirty {
            write(&p, "a", third("dirty"));
        }
        let c = s.isolate(&p, "c");
        for round in 0..5 {
            let text = third(&format!("v{round}"));
            write(&c, "a", &text);
            if committed {
                s.commit_all(&c, "edit");
            }
            s.fold(&p, &c);
            assert_eq!(read(&p, "a"), Some(text), "dirty {dirty}, committed {committed}, round {round}");
            s.settled(&p, "");
            nothing(&s, &p, &c);
        }
    }
}

#[test]
fn a_child_folded_five_times_while_the_parent_moves_on() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    for round in 0..5 {
        write(&c, "a", third(&format!("v{round}")));
        let b = lines(&[(9, &format!("p{round}"))]);
        write(&p, "b", &b);
        if round % 2 == 0 {
            s.commit_all(&p, "parent");
        }
        s.fold(&p, &c);
        assert_eq!(read(&p, "a"), Some(third(&format!("v{round}"))));
        assert_eq!(read(&p, "b"), Some(b));
        s.settled(&p, "");
    }
}

#[test]
fn parent_reset_to_before_a_fold() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let before = head(&s, &p);
    let c = s.isolate(&p, "c");
    write(&c, "a", third("e1"));
    s.fold(&p, &c);
    s.git(&p, &["reset", "-q", "--hard", &before]);
    write(&c, "b", third("e2"));
    // The landed work is gone from the Parent, so all of the Child's work comes again.
    s.fold(&p, &c);
    assert_eq!((read(&p, "a"), read(&p, "b")), (Some(third("e1")), Some(third("e2"))));
    s.settled(&p, "");
}

#[test]
fn parent_reset_to_before_a_fold_of_a_dirty_isolation() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let before = head(&s, &p);
    write(&p, "a", third("dirty"));
    let c = s.isolate(&p, "c");
    write(&c, "b", third("e1"));
    s.fold(&p, &c);
    s.git(&p, &["reset", "-q", "--hard", &before]);
    // What the Parent had loose and threw away is not the Child's work and does not come back.
    write(&c, "dir/c", "e2\n");
    s.fold(&p, &c);
    assert_eq!((read(&p, "a"), read(&p, "b")), (Some(lines(&[])), Some(third("e1"))));
    assert_eq!(read(&p, "dir/c").as_deref(), Some("e2\n"));
    s.settled(&p, "");
}

#[test]
fn parent_reset_to_between_two_folds() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    write(&c, "a", third("e1"));
    s.fold(&p, &c);
    let between = head(&s, &p);
    write(&c, "a", third("e2"));
    s.fold(&p, &c);
    s.git(&p, &["reset", "-q", "--hard", &between]);
    write(&c, "b", third("e3"));
    // The entry of the first fold counts again.
    assert_eq!(base_of(&s, &p, &c), Some(between));
    s.fold(&p, &c);
    assert_eq!((read(&p, "a"), read(&p, "b")), (Some(third("e2")), Some(third("e3"))));
}

#[test]
fn parent_reset_to_before_the_isolation() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    write(&p, "n", "new\n");
    s.commit_all(&p, "n");
    let c = s.isolate(&p, "c");
    write(&c, "a", third("e1"));
    s.git(&p, &["reset", "-q", "--hard", "HEAD~1"]);
    assert_eq!(base_of(&s, &p, &c), None);
    s.fold(&p, &c);
    assert_eq!((read(&p, "n").as_deref(), read(&p, "a")), (Some("new\n"), Some(third("e1"))));
    s.settled(&p, "");
}

#[test]
fn parent_reverts_the_folded_work() {
    for committed in [false, true] {
        let s = Sandbox::new();
        let p = s.repo("parent");
        let c = s.isolate(&p, "c");
        write(&c, "a", third("e1"));
        if committed {
            s.commit_all(&c, "e1");
        }
        s.fold(&p, &c);
        s.git(&p, &["revert", "--no-edit", "HEAD"]);
        nothing(&s, &p, &c);
        write(&c, "b", third("e2"));
        s.fold(&p, &c);
        assert_eq!((read(&p, "a"), read(&p, "b")), (Some(lines(&[])), Some(third("e2"))));
        s.settled(&p, "");
        // The Child working on the reverted text is for a person to settle.
        write(&c, "a", third("e1 again"));
        conflict(&s, &p, &c, "a");
    }
}

#[test]
fn parent_undoes_the_folded_work_loosely() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    write(&c, "a", third("e1"));
    s.fold(&p, &c);
    write(&p, "a", lines(&[]));
    nothing(&s, &p, &c);
    write(&c, "b", third("e2"));
    s.fold(&p, &c);
    assert_eq!((read(&p, "a"), read(&p, "b")), (Some(lines(&[])), Some(third("e2"))));
}

#[test]
fn child_checks_out_an_old_commit() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let old = head(&s, &p);
    write(&p, "later", "x\n");
    s.commit_all(&p, "later");
    let c = s.isolate(&p, "c");
    s.git(&c, &["checkout", "-q", &old]);
    nothing(&s, &p, &c);
    // Work from there is folded, and what came later in the Parent stays.
    write(&c, "a", third("from the old commit"));
    s.fold(&p, &c);
    assert_eq!((read(&p, "later").as_deref(), read(&p, "a")), (Some("x\n"), Some(third("from the old commit"))));
    s.settled(&p, "");
}

#[test]
fn child_checks_out_an_old_commit_after_a_fold() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let old = head(&s, &p);
    let c = s.isolate(&p, "c");
    write(&c, "a", third("e1"));
    s.commit_all(&c, "e1");
    s.fold(&p, &c);
    s.git(&c, &["checkout", "-q", "--detach", &old]);
    nothing(&s, &p, &c);
    assert_eq!(read(&p, "a"), Some(third("e1")));
}

#[test]
fn child_resets_after_a_fold() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    write(&c, "a", third("e1"));
    s.commit_all(&c, "e1");
    s.fold(&p, &c);
    s.git(&c, &["reset", "-q", "--hard", "HEAD~1"]);
    nothing(&s, &p, &c);
    write(&c, "b", third("e2"));
    s.fold(&p, &c);
    assert_eq!((read(&p, "a"), read(&p, "b")), (Some(third("e1")), Some(third("e2"))));
    s.settled(&p, "");
}

#[test]
fn child_takes_back_its_loose_work_after_a_fold() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    write(&c, "a", third("e1"));
    write(&c, "b", third("e2"));
    s.fold(&p, &c);
    // The Child's HEAD never moved: this is an edit of what was folded, and is folded as one.
    s.git(&c, &["checkout", "-q", "--", "a"]);
    s.fold(&p, &c);
    assert_eq!((read(&p, "a"), read(&p, "b")), (Some(lines(&[])), Some(third("e2"))));
}

#[test]
fn child_resets_before_the_first_fold() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    write(&p, "n", "1\n");
    s.commit_all(&p, "one");
    write(&p, "n", "2\n");
    s.commit_all(&p, "two");
    let c = s.isolate(&p, "c");
    s.git(&c, &["reset", "-q", "--hard", "HEAD~1"]);
    nothing(&s, &p, &c);
    assert_eq!(read(&p, "n").as_deref(), Some("2\n"));
}

#[test]
fn child_amends_after_a_fold() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    write(&c, "a", third("e1"));
    s.commit_all(&c, "e1");
    s.fold(&p, &c);
    write(&c, "a", third("e1 again"));
    s.git(&c, &["commit", "-q", "-a", "--amend", "-m", "e1 again"]);
    s.fold(&p, &c);
    assert_eq!(read(&p, "a"), Some(third("e1 again")));
    s.settled(&p, "");
    // And once more, with loose work on top.
    write(&c, "a", third("e1 thrice"));
    s.git(&c, &["commit", "-q", "-a", "--amend", "-m", "e1 thrice"]);
    write(&c, "b", third("loose"));
    s.fold(&p, &c);
    assert_eq!((read(&p, "a"), read(&p, "b")), (Some(third("e1 thrice")), Some(third("loose"))));
    nothing(&s, &p, &c);
}

#[test]
fn child_amends_before_any_fold() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    write(&p, "a", third("dirty"));
    let c = s.isolate(&p, "c");
    write(&c, "a", third("dirty and edited"));
    s.git(&c, &["commit", "-q", "-a", "--amend", "-m", "another start"]);
    s.fold(&p, &c);
    assert_eq!(read(&p, "a"), Some(third("dirty and edited")));
    s.settled(&p, "");
}

#[test]
fn child_rebases_on_its_parent() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    write(&p, "a", third("d"));
    let c = s.isolate(&p, "c");
    write(&p, "a", third("d2"));
    s.commit_all(&p, "d2");
    s.git(&c, &["checkout", "-q", "--", "a"]);
    s.git(&c, &["rebase", "-q", "main"]);
    let text = lines(&[(3, "d2"), (4, "e")]);
    write(&c, "a", &text);
    s.commit_all(&c, "e");
    assert_eq!(s.fold(&p, &c), "fast-forward");
    assert_eq!(read(&p, "a"), Some(text));
    assert_eq!(head(&s, &p), head(&s, &c));
    s.settled(&p, "");
}

#[test]
fn child_rebases_its_commits_on_its_parent_after_a_fold() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    write(&c, "a", third("e1"));
    s.commit_all(&c, "e1");
    s.fold(&p, &c);
    write(&p, "b", third("p1"));
    s.commit_all(&p, "p1");
    write(&c, "dir/c", "e2\n");
    s.commit_all(&c, "e2");
    s.git(&c, &["rebase", "-q", "main"]);
    write(&c, "a", third("e3"));
    assert_eq!(s.fold(&p, &c), "fast-forward");
    assert_eq!((read(&p, "a"), read(&p, "b")), (Some(third("e3")), Some(third("p1"))));
    assert_eq!(read(&p, "dir/c").as_deref(), Some("e2\n"));
}

#[test]
fn child_merges_its_parent() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    write(&c, "a", third("e1"));
    s.commit_all(&c, "e1");
    write(&p, "a", lines(&[(15, "p1")]));
    s.commit_all(&p, "p1");
    s.git(&c, &["merge", "-q", "--no-edit", "main"]);
    assert_eq!(s.fold(&p, &c), "fast-forward");
    assert_eq!(read(&p, "a"), Some(lines(&[(3, "e1"), (15, "p1")])));
}

#[test]
fn parent_takes_the_childs_commits_by_itself() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    write(&c, "a", third("e1"));
    s.commit_all(&c, "e1");
    s.git(&p, &["merge", "-q", "issue/c"]);
    nothing(&s, &p, &c);
    write(&p, "a", third("p over e1"));
    s.commit_all(&p, "p");
    nothing(&s, &p, &c);
    write(&c, "b", third("e2"));
    s.fold(&p, &c);
    assert_eq!((read(&p, "a"), read(&p, "b")), (Some(third("p over e1")), Some(third("e2"))));
}

#[test]
fn a_grandchild_folded_into_the_grandparent() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    write(&c, "a", third("middle"));
    let g = s.isolate(&c, "g");
    write(&g, "b", third("low"));
    s.fold(&p, &g);
    assert_eq!((read(&p, "a"), read(&p, "b")), (Some(third("middle")), Some(third("low"))));
    s.settled(&p, "");
    // The middle one has nothing that the Parent lacks, and takes the low work back from it.
    nothing(&s, &p, &c);
    s.fold(&c, &g);
    assert_eq!((read(&c, "a"), read(&c, "b")), (Some(third("middle")), Some(third("low"))));
    s.fold(&p, &c);
    assert_eq!((read(&p, "a"), read(&p, "b")), (Some(third("middle")), Some(third("low"))));
    s.settled(&p, "");
}

#[test]
fn the_stable_line_folded_into_a_feature_that_was_isolated_from_it() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    write(&p, "a", third("d"));
    write(&p, ".env", "SECRET=1\n");
    let c = s.isolate(&p, "c");
    write(&c, "b", third("e"));
    write(&p, "a", third("d2"));
    s.commit_all_but_env(&p, "d2");
    let before = s.state(&p);
    let run = s.try_fold(&c, &p, &[]).expect("integrated", 0);
    assert_eq!(run.last()["left_out"], serde_json::json!([".env"]));
    assert_eq!((read(&c, "a"), read(&c, "b")), (Some(third("d2")), Some(third("e"))));
    s.settled(&c, "");
    let without_refs = |text: &str| {
        let ours = |l: &&str| !l.contains("refs/") && !l.contains("issue/c") && !l.contains("git directories");
        text.lines().filter(ours).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(without_refs(&s.state(&p)), without_refs(&before), "the Child of a fold is never written");
    // And the feature back into the stable line.
    s.fold(&p, &c);
    assert_eq!((read(&p, "a"), read(&p, "b")), (Some(third("d2")), Some(third("e"))));
    s.settled(&p, "?? .env");
    // To and fro, on the same line.
    write(&p, "a", third("d3"));
    s.commit_all_but_env(&p, "d3");
    s.fold(&c, &p);
    write(&c, "a", third("d4"));
    s.fold(&p, &c);
    assert_eq!((read(&p, "a"), read(&c, "a")), (Some(third("d4")), Some(third("d4"))));
    assert!(s.git(&p, &["log", "--all", "--format=%H", "--", ".env"]).is_empty());
}

#[test]
fn loose_work_of_the_stable_line_that_went_into_a_feature_comes_back_only_by_a_person() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    write(&p, "a", third("d"));
    s.fold(&c, &p);
    // Unedited it is the same on both sides, and stays loose.
    nothing(&s, &p, &c);
    // Edited, it stands against text that no commit of the Parent has: no entry speaks for it.
    write(&c, "a", third("e"));
    conflict(&s, &p, &c, "a");
    s.commit_all(&p, "d");
    conflict(&s, &p, &c, "a");
}

#[test]
fn two_children_one_after_the_other() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let (c, e) = (s.isolate(&p, "c"), s.isolate(&p, "e"));
    write(&c, "a", third("c"));
    write(&e, "a", lines(&[(12, "e")]));
    s.fold(&p, &c);
    s.fold(&p, &e);
    assert_eq!(read(&p, "a"), Some(lines(&[(3, "c"), (12, "e")])));
    write(&c, "a", third("c again"));
    s.fold(&p, &c);
    assert_eq!(read(&p, "a"), Some(lines(&[(3, "c again"), (12, "e")])));
    nothing(&s, &p, &e);
    s.settled(&p, "");
    // On the same line only a person can choose.
    write(&e, "a", lines(&[(3, "e too"), (12, "e")]));
    conflict(&s, &p, &e, "a");
}

#[test]
fn two_children_of_a_dirty_parent() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    write(&p, "a", third("dirty"));
    write(&p, "new", "new\n");
    let (c, e) = (s.isolate(&p, "c"), s.isolate(&p, "e"));
    write(&c, "a", third("dirty c"));
    write(&e, "new", "new e\n");
    s.fold(&p, &c);
    s.fold(&p, &e);
    assert_eq!((read(&p, "a"), read(&p, "new").as_deref()), (Some(third("dirty c")), Some("new e\n")));
    s.settled(&p, "");
}

#[test]
fn a_child_isolated_again_under_the_same_id() {
    for removed in [false, true] {
        let s = Sandbox::new();
        let p = s.repo("parent");
        let c = s.isolate(&p, "c");
        write(&c, "a", third("one"));
        s.fold(&p, &c);
        if removed {
            s.isofold(["remove", "--force", "--child", c.to_str().expect("UTF-8")]).expect("removed", 0);
        } else {
            std::fs::remove_dir_all(&c).expect("removed");
        }
        let c = s.isolate(&p, "c");
        nothing(&s, &p, &c);
        write(&c, "a", third("two"));
        s.fold(&p, &c);
        assert_eq!(read(&p, "a"), Some(third("two")), "removed {removed}");
        s.settled(&p, "");
    }
}

#[test]
fn a_child_isolated_again_does_not_use_the_old_ones_base() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    write(&p, "a", third("dirty one"));
    let c = s.isolate(&p, "c");
    std::fs::remove_dir_all(&c).expect("removed");
    write(&p, "a", third("dirty two"));
    let c = s.isolate(&p, "c");
    write(&c, "b", third("e"));
    s.fold(&p, &c);
    assert_eq!((read(&p, "a"), read(&p, "b")), (Some(third("dirty two")), Some(third("e"))));
}

#[test]
fn a_person_must_choose() {
    for (parent_commits, child_commits) in [(false, false), (true, false), (false, true), (true, true)] {
        let s = Sandbox::new();
        let p = s.repo("parent");
        let c = s.isolate(&p, "c");
        write(&p, "a", third("p"));
        write(&c, "a", third("c"));
        if parent_commits {
            s.commit_all(&p, "p");
        }
        if child_commits {
            s.commit_all(&c, "c");
        }
        conflict(&s, &p, &c, "a");
    }
}

#[test]
fn a_person_must_choose_between_edit_and_deletion() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    std::fs::remove_file(p.join("a")).expect("removed");
    write(&c, "a", third("c"));
    conflict(&s, &p, &c, "a");
}

#[test]
fn both_sides_make_the_same_change() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    for side in [&p, &c] {
        write(side, "a", third("same"));
        write(side, "new", "same\n");
    }
    nothing(&s, &p, &c);
    // Further work on the shared text is the Child's alone: there is no conflict about it.
    write(&c, "b", third("c"));
    s.fold(&p, &c);
    write(&c, "a", third("same, and more"));
    s.fold(&p, &c);
    assert_eq!((read(&p, "a"), read(&p, "b")), (Some(third("same, and more")), Some(third("c"))));
}

#[test]
fn a_conflict_that_the_child_settles_folds() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    write(&p, "a", third("p"));
    s.commit_all(&p, "p");
    write(&c, "a", third("c"));
    s.commit_all(&c, "c");
    conflict(&s, &p, &c, "a");
    assert_eq!(s.try_git(&c, &["merge", "-q", "main"]).0, 1);
    write(&c, "a", third("both"));
    s.commit_all(&c, "both");
    assert_eq!(s.fold(&p, &c), "fast-forward");
    assert_eq!(read(&p, "a"), Some(third("both")));
}
