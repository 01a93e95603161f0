//! What a conflict says: the path, its kind, and what each side did.

use isofold::MergeEngine;

use crate::support::histories::{by, empty_repo, import, parse};
use crate::support::{Sandbox, lines, with_git, write};

type Case = (&'static str, &'static str, &'static str, &'static [&'static str], &'static [&'static str]);

/// Base, ours, theirs, and what git's merge and the built-in one say: `PATH: KIND: OURS / THEIRS`.
const CASES: &[Case] = &[
    (
        "new a; new b",
        "ed a 3 X",
        "ed a 3 Y",
        &["a: contents: modified / modified"],
        &["a: contents: modified / modified"],
    ),
    (
        "new a; new b",
        "ed a 3 X",
        "rm a",
        &["a: modify/delete: modified / deleted"],
        &["a: modify/delete: modified / deleted"],
    ),
    (
        "new a; new b",
        "rm a",
        "ed a 3 X",
        &["a: modify/delete: deleted / modified"],
        &["a: modify/delete: deleted / modified"],
    ),
    ("new b", "new a", "new a other", &["a: contents: added / added"], &["a: contents: added / added"]),
    ("new b", "new a", "new a; x a", &["a: contents: added / added"], &["a: contents: added / added"]),
    ("new b", "new a", "ln a b", &["a: distinct modes: added / added"], &["a: distinct modes: added / added"]),
    (
        "new a; new b",
        "mv a c",
        "mv a d",
        &["a: rename/rename: renamed to c / renamed to d"],
        &["a: needs git: renamed to c / renamed to d"],
    ),
    (
        "new a; new b",
        "mv a c",
        "rm a",
        &["c: rename/delete: renamed from a / deleted (as a)"],
        &["a: needs git: renamed to c / deleted"],
    ),
    (
        "new a; new b",
        "mv a c; ed c 3 X",
        "ed a 3 Y",
        &["c: contents: renamed from a / modified (as a)"],
        &["a: needs git: renamed to c / modified"],
    ),
    (
        "new a; new b",
        "mv a c",
        "mv b c",
        &["c: contents: renamed from a / renamed from b"],
        &["a: needs git: renamed to c / unchanged"],
    ),
    (
        "new b",
        "new a",
        "new a/x",
        &["a: file/directory: added / added files below it"],
        &["a: needs git: added / added files below it"],
    ),
    (
        "new x/a; new b",
        "rm x; new x",
        "ed x/a 3 X",
        &["x: file/directory: added / changed files below it", "x/a: modify/delete: deleted / modified"],
        &["x: needs git: added / changed files below it"],
    ),
    ("ln a x; new b", "ln a y", "ln a z", &["a: contents: modified / modified"], &["a: contents: modified / modified"]),
    (
        "new a; new b",
        "ln a b",
        "ed a 3 X",
        &["a: distinct modes: replaced by a link / modified"],
        &["a: needs git: replaced by a link / modified"],
    ),
    (
        "sub s 1; new b",
        "sub s 2",
        "sub s 3",
        &["s: submodule not initialized: moved to another commit / moved to another commit"],
        &["s: needs git: moved to another commit / moved to another commit"],
    ),
    (
        "sub s 1; new b",
        "sub s 2",
        "rm s",
        &["s: modify/delete: moved to another commit / deleted"],
        &["s: needs git: moved to another commit / deleted"],
    ),
    (
        "put a a\0b\n",
        "put a a\0c\n",
        "put a a\0d\n",
        &["a: binary: modified / modified"],
        &["a: contents: modified / modified"],
    ),
    (
        "new d/a; new d/b; new z",
        "mv d e",
        "new d/n",
        &["e/n: directory rename suggested: renamed d/a to e/a / added (as d/n)"],
        &["d/a: needs git: renamed to e/a / unchanged", "d/b: needs git: renamed to e/b / unchanged"],
    ),
    (
        "new d/a; new d/b; new z",
        "mv d/a e/a; mv d/b f/b",
        "new d/n",
        &["d: directory rename unclear split: deleted files below it / added files below it"],
        &["d/a: needs git: renamed to e/a / unchanged", "d/b: needs git: renamed to f/b / unchanged"],
    ),
    (
        "new a; new b",
        "x a",
        "rm a",
        &["a: modify/delete: made executable / deleted"],
        &["a: modify/delete: made executable / deleted"],
    ),
];

#[test]
fn each_conflict_says_what_both_sides_did() {
    let s = Sandbox::new();
    let repo = empty_repo(&s, "r");
    let mut commits = Vec::new();
    for (base, ours, theirs, ..) in CASES {
        let first = commits.len();
        for mut commit in parse(&format!("@O: {base}\n@A O: {ours}\n@B O: {theirs}")) {
            commit.parents.iter_mut().for_each(|parent| *parent += first);
            commits.push(commit);
        }
    }
    let ids = import(&s, &repo, &commits);
    let mut differing = Vec::new();
    for ((base, ours, theirs, git, builtin), ids) in CASES.iter().zip(ids.chunks(3)) {
        for (engine, expected) in [(MergeEngine::Git, git), (MergeEngine::Builtin, builtin)] {
            let found = by(&repo, &ids[1], &ids[2], engine).result.expect_err("a conflict");
            let said: Vec<String> = found
                .iter()
                .map(|c| {
                    let side = |side: &Option<String>| side.clone().expect("what a side did");
                    // The ids of commits that nobody sees are no help.
                    assert!(!c.detail.is_empty() && !c.detail.contains(&ids[1]), "{c:?}");
                    let hexadecimal = |word: &str| word.len() >= 40 && word.chars().all(|c| c.is_ascii_hexdigit());
                    assert!(!c.detail.split([' ', '~', ':', '.', ',']).any(hexadecimal), "{c:?}");
                    format!("{}: {}: {} / {}", c.path, c.kind, side(&c.ours), side(&c.theirs))
                })
                .collect();
            if said != *expected {
                differing.push(format!("{base} | {ours} | {theirs}, {engine:?}: {said:?}"));
            }
        }
    }
    assert!(differing.is_empty(), "{differing:#?}");
}

/// The same through the program: two worktrees folded, every engine, as JSON and in the short report.
#[test]
fn the_program_tells_every_kind_of_conflict() {
    let s = Sandbox::in_memory();
    let repo = empty_repo(&s, "r");
    let (mut differing, mut kinds) = (Vec::new(), std::collections::BTreeSet::new());
    for (number, (base, ours, theirs, git, builtin)) in CASES.iter().enumerate() {
        let ids = import(&s, &repo, &parse(&format!("@O: {base}\n@A O: {ours}\n@B O: {theirs}")));
        let worktree = |side: &str, id: &str| {
            let place = s.path(&format!("{side}{number}"));
            s.git(&repo, &["worktree", "add", "-q", "--detach", place.to_str().expect("UTF-8"), id]);
            place
        };
        let (p, c) = (worktree("p", &ids[1]), worktree("c", &ids[2]));
        let before = s.state(&p);
        for (engine, expected) in [("auto", git), ("git", git), ("builtin", builtin)] {
            let run = s.try_fold(&p, &c, &["--merge-engine", engine]).expect("conflict", 1);
            let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
            let (last, report) = (run.last(), run.report());
            let mut said = Vec::new();
            for conflict in last["conflicts"].as_array().expect("a list") {
                let [path, kind, ours, theirs] = ["path", "kind", "ours", "theirs"].map(|key| text(&conflict[key]));
                let short = format!("{path} ({kind}: {ours} in the Parent, {theirs} in the Child)");
                assert!(report.contains(&short) && !report.contains('\n'), "{report}");
                assert!(!text(&conflict["detail"]).is_empty());
                said.push(format!("{path}: {kind}: {ours} / {theirs}"));
                kinds.insert(kind);
            }
            if said != *expected {
                differing.push(format!("{base} | {ours} | {theirs}, {engine}: {said:?}"));
            }
        }
        assert_eq!(s.state(&p), before, "{base} | {ours} | {theirs}");
    }
    assert!(differing.is_empty(), "{differing:#?}");
    assert!(kinds.len() >= 10, "{kinds:?}");
}

#[test]
fn the_report_says_it_in_short_and_in_json() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    write(&p, "a", lines(&[(3, "p")]));
    std::fs::remove_file(c.join("b")).expect("removed");
    write(&p, "b", lines(&[(3, "p")]));
    write(&c, "a", lines(&[(3, "c")]));
    for engine in ["auto", "git", "builtin"] {
        let run = s.try_fold(&p, &c, &["--merge-engine", engine]).expect("conflict", 1);
        let report = run.report();
        assert!(report.contains("a (contents: modified in the Parent, modified in the Child)"), "{report}");
        assert!(report.contains("b (modify/delete: modified in the Parent, deleted in the Child)"), "{report}");
        let last = run.last();
        let conflicts = last["conflicts"].as_array().expect("a list");
        assert_eq!(conflicts.len(), 2);
        assert_eq!((&conflicts[1]["ours"], &conflicts[1]["theirs"]), (&"modified".into(), &"deleted".into()));
        assert_eq!(last["engine"], if engine == "builtin" { "libgit2" } else { "git" });
    }
}

#[test]
fn an_engine_can_be_forced_and_is_named() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let c = s.isolate(&p, "c");
    write(&p, "a", lines(&[(3, "p")]));
    write(&c, "a", lines(&[(15, "c")]));
    for (engine, named) in [("auto", "git"), ("git", "git"), ("builtin", "libgit2")] {
        let run = s.try_fold(&p, &c, &["--merge-engine", engine, "--dry-run"]).expect("integrated", 0);
        assert_eq!(run.last()["engine"], named);
    }
    s.try_fold(&p, &c, &["--merge-engine", "best"]).expect("invalid-invocation", 2);
    s.try_fold(&p, &c, &["--merge-engine", "builtin"]).expect("integrated", 0);
    assert_eq!(crate::support::read(&p, "a"), Some(lines(&[(3, "p"), (15, "c")])));
    s.settled(&p, "");
    // What only one side touched needs no content, whichever engine is allowed to look.
    write(&p, "b", lines(&[(3, "p")]));
    write(&c, "dir/c", "c\n");
    let run = s.try_fold(&p, &c, &["--merge-engine", "builtin"]).expect("integrated", 0);
    assert_eq!(run.last()["engine"], "trivial");
}

#[test]
fn without_a_git_that_merges_the_library_does_it_or_it_is_a_conflict() {
    let s = Sandbox::new();
    // An old git does not know the option; a broken one dies of a signal.
    let old = "#!/bin/sh\nfor word; do test \"$word\" = merge-tree && exit 129; done\nexec GIT \"$@\"\n";
    let broken = "#!/bin/sh\nfor word; do test \"$word\" = merge-tree && kill -ABRT $$; done\nexec GIT \"$@\"\n";
    for (name, script) in [("old", old), ("broken", broken)] {
        let path = with_git(&s, &format!("{name}-bin"), script);
        let p = s.repo(&format!("{name}-parent"));
        let c = s.isolate(&p, &format!("{name}-child"));
        let fold = |more: &[&str]| {
            let mut command = s.command(env!("CARGO_BIN_EXE_isofold"));
            command.args(["fold", "--id", "work", "--parent"]).arg(&p).arg("--child").arg(&c).args(more);
            let output = command.env("PATH", &path).output().expect("it runs");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let last: serde_json::Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
            last
        };
        write(&p, "a", lines(&[(3, "p")]));
        write(&c, "a", lines(&[(15, "c")]));
        let last = fold(&["--merge-engine", "git"]);
        assert_eq!(last["outcome"], "failed", "{last}");
        let last = fold(&[]);
        assert_eq!((&last["outcome"], &last["engine"]), (&"integrated".into(), &"libgit2".into()), "{last}");
        // A rename against an edit is git's to merge.
        std::fs::rename(c.join("b"), c.join("renamed")).expect("renamed");
        write(&p, "b", lines(&[(3, "p")]));
        let last = fold(&[]);
        assert_eq!((&last["outcome"], &last["engine"]), (&"conflict".into(), &"libgit2".into()), "{last}");
        assert_eq!((&last["conflicts"][0]["path"], &last["conflicts"][0]["kind"]), (&"b".into(), &"needs git".into()));
        assert!(last["report"].as_str().expect("text").contains("git 2.38 or newer"), "{last}");
    }
}
