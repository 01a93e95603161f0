//! Folds into checkouts that are not plain: sparse ones, and names that differ in case alone. What
//! `git merge` of the same commits leaves in a copy of the Parent is what a fold has to leave.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::host::{same, text};
use crate::support::{Sandbox, lines, listing, read, write};

/// What the user sees of a checkout: files, index with its flags, tree, status.
fn seen(s: &Sandbox, at: &Path) -> String {
    let files: String = listing(at).lines().map(without_time).collect();
    let git = |args: &[&str]| s.git(at, args);
    let index = [git(&["ls-files", "-s"]), git(&["ls-files", "-v"])].join("\n");
    let tree = git(&["rev-parse", "HEAD^{tree}"]);
    format!("{files}{index}\n{tree}\n{}", git(&["--no-optional-locks", "status", "--porcelain"]))
}

fn without_time(row: &str) -> String {
    let is_time = |word: &&str| word.rsplit_once('.').is_some_and(|(_, digits)| digits.len() == 9);
    row.split(' ').filter(|word| !is_time(word)).collect::<Vec<_>>().join(" ") + "\n"
}

/// Folds what both sides committed; `git merge` has to come to the same. `None`: both refuse.
#[track_caller]
fn folds_like_a_merge(s: &Sandbox, p: &Path, c: &Path, what: &str) -> Option<String> {
    let copy = s.path("copy-of-parent");
    let copied = Command::new("cp").arg("-a").arg(p).arg(&copy).status().expect("cp runs");
    assert!(copied.success());
    let (code, words) = s.try_git(&copy, &["merge", "-q", "-m", "merged", &s.git(c, &["rev-parse", "HEAD"])]);
    let before = seen(s, p);
    let run = s.try_fold(p, c, &[]);
    let outcome = if code == 0 {
        run.expect("integrated", 0);
        same(&seen(s, p), &seen(s, &copy), what);
        Some(seen(s, p))
    } else {
        assert_eq!(run.outcome(), "conflict", "{what}: git says {words}, {run:?}");
        same(&seen(s, p), &before, what);
        None
    };
    fs::remove_dir_all(&copy).expect("removed");
    outcome
}

/// What a sparse Parent's Child changes, outside the cone and inside.
fn sparse_pair(s: &Sandbox, set: &[&str]) -> (PathBuf, PathBuf) {
    let p = s.repo("parent");
    for path in ["in/i", "in/deep/i", "other/o", "other/gone", "other/moved", "other/run", "other/deep/o"] {
        write(&p, path, lines(&[(1, path)]));
    }
    s.commit_all(&p, "more");
    s.git(&p, &["update-index", "-q", "--refresh"]);
    s.git(&p, &[&["sparse-checkout", "set"], set].concat());
    assert!(!p.join("other").exists(), "{set:?}");
    let c = s.isolate(&p, "c");
    s.git(&c, &["sparse-checkout", "disable"]);
    (p, c)
}

const SETS: [&[&str]; 3] = [&["--cone", "in"], &["--no-cone", "/*", "!/other/"], &["--no-cone", "/in/", "/a", "/b"]];

#[test]
fn outside_of_a_sparse_checkout_nothing_appears() {
    for set in SETS {
        let s = Sandbox::new();
        let (p, c) = sparse_pair(&s, set);
        write(&c, "other/o", lines(&[(3, "changed")]));
        fs::remove_file(c.join("other/gone")).expect("removed");
        s.git(&c, &["mv", "other/moved", "other/deep/moved"]);
        s.git(&c, &["update-index", "--chmod=+x", "other/run"]);
        s.git(&c, &["checkout", "-q", "--", "other/run"]);
        write(&c, "other/new", "new\n");
        write(&c, "elsewhere/new/file", "new\n");
        s.git(&c, &["mv", "in/deep/i", "other/from inside"]);
        write(&c, "in/i", lines(&[(3, "changed")]));
        write(&c, "in/new/file", "new\n");
        s.commit_all(&c, "in the Child");
        // With commits of the Parent's own, and without.
        for parents in [false, true] {
            if parents {
                write(&p, "a", lines(&[(3, "the Parent's")]));
                s.git(&p, &["commit", "-q", "-am", "in the Parent"]);
                write(&c, "other/later", "later\n");
                write(&c, "in/later", "later\n");
                s.commit_all(&c, "later");
            }
            let state = folds_like_a_merge(&s, &p, &c, &format!("{set:?}, {parents}")).expect("a merge");
            assert!(state.contains("\nS other/o\n") && state.contains("\nS other/new\n"), "{state}");
            assert!(!p.join("other").exists());
            assert_eq!(read(&p, "in/new/file").as_deref(), Some("new\n"));
        }
        // Nothing is left to fold, and what is absent counts as there.
        assert_eq!(s.fold(&p, &c), "nothing");
        s.git(&p, &["sparse-checkout", "disable"]);
        assert_eq!(read(&p, "other/later").as_deref(), Some("later\n"));
        s.settled(&p, "");
    }
}

#[test]
fn what_lies_outside_of_a_sparse_checkout_is_not_overwritten() {
    for set in SETS {
        let s = Sandbox::new();
        let (p, c) = sparse_pair(&s, set);
        write(&c, "other/new", "the Child's\n");
        write(&c, "in/i", lines(&[(3, "changed")]));
        s.commit_all(&c, "in the Child");
        write(&p, "other/new", "the user's\n");
        s.git(&p, &["config", "core.excludesFile", text(&s.path("home/ignore"))]);
        write(&s.path("home"), "ignore", "other/new\n");
        let run = s.try_fold(&p, &c, &[]).expect("conflict", 1);
        assert_eq!(run.last()["conflicts"][0]["path"], "other/new", "{run:?}");
        assert_eq!(read(&p, "other/new").as_deref(), Some("the user's\n"));
    }
}

/// Renames a file in case alone, and commits.
fn recase(s: &Sandbox, at: &Path, from: &str, to: &str) {
    s.git(at, &["mv", "-f", from, to]);
    s.git(at, &["commit", "-q", "-m", "another case"]);
}

#[test]
fn names_that_change_in_case_alone() {
    for ignore_case in ["false", "true"] {
        // The Child's rename; both the same; the Child's, of what the Parent edits; the Parent's, of what the
        // Child edits; two different ones; a directory's.
        for case in 0..6 {
            let s = Sandbox::new();
            let p = s.repo("parent");
            write(&p, "d/one", "1\n");
            write(&p, "d/two", "2\n");
            s.commit_all(&p, "more");
            s.git(&p, &["config", "core.ignoreCase", ignore_case]);
            let c = s.isolate(&p, "c");
            let edit = |at: &Path| {
                write(at, "a", lines(&[(3, "edited")]));
                s.git(at, &["commit", "-q", "-am", "edited"]);
            };
            match case {
                0 => recase(&s, &c, "a", "A"),
                1 => [&p, &c].into_iter().for_each(|at| recase(&s, at, "a", "A")),
                2 => {
                    recase(&s, &c, "a", "A");
                    edit(&p);
                }
                3 => {
                    recase(&s, &p, "a", "A");
                    edit(&c);
                }
                4 => {
                    recase(&s, &c, "a", "A");
                    s.git(&p, &["mv", "b", "B"]);
                    s.git(&p, &["commit", "-q", "-m", "another case"]);
                }
                _ => recase(&s, &c, "d", "D"),
            }
            let what = format!("core.ignoreCase={ignore_case}, case {case}");
            folds_like_a_merge(&s, &p, &c, &what).expect("a merge");
            if case == 5 {
                assert!(p.join("D/one").exists() && !p.join("d").exists(), "{what}");
            } else {
                assert!(p.join("A").exists() && !p.join("a").exists(), "{what}");
            }
            assert_eq!(s.fold(&p, &c), "nothing", "{what}");
        }
    }
}

#[test]
fn a_rename_in_case_over_an_untracked_file_is_refused() {
    for ignore_case in ["false", "true"] {
        let s = Sandbox::new();
        let p = s.repo("parent");
        s.git(&p, &["config", "core.ignoreCase", ignore_case]);
        let c = s.isolate(&p, "c");
        recase(&s, &c, "a", "A");
        write(&p, "A", "the user's\n");
        write(&s.path("home"), "ignore", "A\n");
        s.git(&p, &["config", "core.excludesFile", text(&s.path("home/ignore"))]);
        let run = s.try_fold(&p, &c, &[]);
        assert_eq!(run.outcome(), "conflict", "{run:?}");
        assert_eq!(read(&p, "A").as_deref(), Some("the user's\n"));
        assert_eq!(read(&p, "a"), Some(lines(&[])));
    }
}
