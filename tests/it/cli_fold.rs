//! `isofold fold` through the program: every flag, outcome and exit code, and bad input.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::cli_isolate::{noise, unmerge};
use crate::support::host::{same, text, wait_for};
use crate::support::{Run, Sandbox, lines, next_second, read, write};

/// A Parent, and a Child of it that holds work.
fn pair(sandbox: &Sandbox) -> (PathBuf, PathBuf) {
    let parent = sandbox.repo("parent");
    let child = sandbox.isolate(&parent, "child");
    write(&child, "b", lines(&[(7, "work")]));
    write(&child, "new", "new\n");
    next_second();
    (parent, child)
}

/// The pair, with another change of the same line in the Parent.
fn clash(sandbox: &Sandbox) -> (PathBuf, PathBuf) {
    let (parent, child) = pair(sandbox);
    write(&parent, "b", lines(&[(7, "other")]));
    next_second();
    (parent, child)
}

fn subjects(sandbox: &Sandbox, repo: &Path) -> Vec<String> {
    sandbox.git(repo, &["log", "--format=%s"]).lines().map(str::to_owned).collect()
}

/// A dry run says what the real one says, and changes nothing.
#[track_caller]
fn dry(sandbox: &Sandbox, parent: &Path, child: &Path, more: &[&str]) -> Run {
    let before = sandbox.everything(parent);
    let more: Vec<&str> = more.iter().copied().chain(["--dry-run"]).collect();
    let run = sandbox.try_fold(parent, child, &more);
    same(&sandbox.everything(parent), &before, "a dry run");
    run
}

/// A fold that fails with code 3, changes nothing, and is foretold by a dry run; its report.
#[track_caller]
fn fails(sandbox: &Sandbox, parent: &Path, child: &Path) -> String {
    let foretold = dry(sandbox, parent, child, &[]).expect("failed", 3).report();
    let report = sandbox.unchanged(parent, "failed", 3, || sandbox.try_fold(parent, child, &[]));
    assert_eq!(foretold, report);
    report
}

#[test]
fn integrated_says_its_lines_in_order() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    let run = sandbox.try_fold(&parent, &child, &["--context", "k1"]).expect("integrated", 0);
    let printed: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(
        printed[..3],
        [
            r#"{"key":"k1","event":"status","phase":"integrating","label":"integrating:work","id":"work"}"#,
            r#"{"key":"k1","event":"integration-started","id":"work"}"#,
            r#"{"key":"k1","event":"status","phase":"integrated","label":"integrated:work","id":"work"}"#,
        ]
    );
    assert_eq!(printed.len(), 4);
    let fields = &run.fields()[3];
    assert_eq!(fields[..4], ["key", "event", "outcome", "parent"]);
    assert_eq!(fields.last().map(String::as_str), Some("id"));
    assert!(!fields.contains(&"report".to_owned()));
    let last = run.last();
    assert_eq!(last["event"], "integration-finished");
    assert_eq!(last["parent"], text(&parent));
    assert_eq!(last["head"], sandbox.git(&parent, &["rev-parse", "HEAD"]));
    assert_eq!(last["changed"], json!(["b", "new"]));
    assert_eq!(run.stderr, "");
    let again = sandbox.try_fold(&parent, &child, &[]).expect("integrated", 0);
    assert_eq!(again.last()["landing"], "nothing");
    assert!(again.lines().iter().all(|line| line.get("key").is_none()));
}

#[test]
fn conflict_says_its_lines_in_order() {
    let sandbox = Sandbox::new();
    let (parent, child) = clash(&sandbox);
    assert_eq!(dry(&sandbox, &parent, &child, &[]).expect("conflict", 1).last()["conflicts"][0]["path"], "b");
    let report = sandbox.unchanged(&parent, "conflict", 1, || {
        let run = sandbox.try_fold(&parent, &child, &["--context", "k"]);
        let printed: Vec<&str> = run.stdout.lines().collect();
        assert_eq!(
            printed[..3],
            [
                r#"{"key":"k","event":"status","phase":"integrating","label":"integrating:work","id":"work"}"#,
                r#"{"key":"k","event":"integration-started","id":"work"}"#,
                r#"{"key":"k","event":"status","phase":"conflict","label":"conflict:work","id":"work"}"#,
            ]
        );
        let fields = &run.fields()[3];
        assert_eq!(fields[..4], ["key", "event", "outcome", "report"]);
        assert!(fields.contains(&"conflicts".to_owned()) && !fields.contains(&"parent".to_owned()));
        assert_eq!(fields.last().map(String::as_str), Some("id"));
        assert_eq!(run.last()["conflicts"].as_array().map(Vec::len), Some(1));
        assert_eq!(run.last()["conflicts"][0]["path"], "b");
        run
    });
    assert!(report.contains("b (") && report.contains("isofold update"), "{report}");
}

#[test]
fn failed_says_its_lines_in_order() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    sandbox.git(&parent, &["checkout", "-q", "-b", "other"]);
    sandbox.unchanged(&parent, "failed", 3, || {
        let run = sandbox.try_fold(&parent, &child, &["--context", "k"]);
        let report = run.report();
        let expected = [
            r#"{"key":"k","event":"status","phase":"integrating","label":"integrating:work","id":"work"}"#.to_owned(),
            r#"{"key":"k","event":"integration-started","id":"work"}"#.to_owned(),
            r#"{"key":"k","event":"status","phase":"failed","label":"failed:work","id":"work"}"#.to_owned(),
            format!(
                r#"{{"key":"k","event":"integration-finished","outcome":"failed","report":"{report}","id":"work"}}"#
            ),
        ];
        assert_eq!(run.stdout.lines().collect::<Vec<_>>(), expected);
        run
    });
}

#[test]
fn invalid_says_two_lines_without_a_key() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    let (p, c) = (text(&parent), text(&child));
    for (more, id) in [(vec!["--id", "w"], true), (vec![], false), (vec!["--id=w", "--bogus"], true)] {
        let mut args = vec!["fold", "--context", "k", "--parent", p, "--child", p];
        args.extend(&more);
        let run = sandbox.isofold(&args).expect("invalid-invocation", 2);
        let report = run.one_line_report().replace('"', "\\\"");
        let id = if id { r#","id":"w""# } else { "" };
        let expected = [
            format!(r#"{{"event":"status","phase":"invalid","label":"invalid"{id}}}"#),
            format!(r#"{{"event":"integration-finished","outcome":"invalid-invocation","report":"{report}"{id}}}"#),
        ];
        assert_eq!(run.stdout.lines().collect::<Vec<_>>(), expected);
    }
    for (more, named) in [
        (vec!["--on-status"], "--on-status"),
        (vec!["--", "true"], "--on-status"),
        (vec!["--detach"], "--detach"),
        (vec!["--subject"], "--subject"),
        (vec!["--dry-run=maybe"], "--dry-run"),
        (vec!["--parent", p], "--parent"),
        (vec!["stray"], "stray"),
    ] {
        let report = sandbox.unchanged(&parent, "invalid-invocation", 2, || sandbox.try_fold(&parent, &child, &more));
        assert!(report.contains(named), "{more:?} {c}: {report}");
    }
}

#[test]
fn the_first_check_wins() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    write(&parent, "isolationOptions.toml", "bogus = 1\n");
    symlink(&parent, sandbox.path("link")).expect("a link");
    let (link, file, sub) = (sandbox.path("link"), parent.join("a"), parent.join("dir"));
    let above = sandbox.path("home/..");
    let dots = child.join("../parent/dir");
    let (p, c) = (text(&parent), text(&child));
    let steps: [(Vec<&str>, &str); 19] = [
        (vec!["--id", "", "--duration-ms", "0", "--bogus"], "--bogus"),
        (vec!["--id", "", "--duration-ms", "0", "--on-status"], "--on-status"),
        (vec!["--id", "", "--duration-ms", "0"], "--id is missing or empty"),
        (vec!["--duration-ms", "0"], "--id is missing or empty"),
        (vec!["--id", "w", "--duration-ms", "0", "--child", "rel"], "--parent is missing"),
        (vec!["--id", "w", "--parent", "rel", "--duration-ms", "0"], "--child is missing"),
        (vec!["--id", "w", "--parent", "rel", "--child", "rel", "--duration-ms", "0"], "--duration-ms"),
        (vec!["--id", "w", "--parent", "rel", "--child", "rel"], "--parent rel is a relative path"),
        (vec!["--id", "w", "--parent", "/no/such", "--child", "rel"], "--child rel is a relative path"),
        (vec!["--id", "w", "--parent", "/no/such", "--child", "/no/other"], "the Parent /no/such does not exist"),
        (vec!["--id", "w", "--parent", text(&file), "--child", "/no/other"], "is not a directory"),
        (vec!["--id", "w", "--parent", text(&sub), "--child", "/no/other"], "the Child /no/other does not exist"),
        (vec!["--id", "w", "--parent", p, "--child", text(&file)], "is not a directory"),
        (vec!["--id", "w", "--parent", p, "--child", text(&link)], "are the same place"),
        (vec!["--id", "w", "--parent", p, "--child", text(&sub)], "lies inside the Parent"),
        (vec!["--id", "w", "--parent", p, "--child", text(&dots)], "lies inside the Parent"),
        (vec!["--id", "w", "--parent", p, "--child", text(&above)], "lies inside the Child"),
        (vec!["--id", "w", "--parent", text(&sub), "--child", c], "is only a subdirectory"),
        (vec!["--id", "w", "--parent", p, "--child", c], "\"bogus\""),
    ];
    for (arguments, named) in steps {
        let report = sandbox.unchanged(&parent, "invalid-invocation", 2, || {
            sandbox.isofold(std::iter::once("fold").chain(arguments.iter().copied()))
        });
        assert!(report.contains(named), "{arguments:?}: {report}");
    }
}

#[test]
fn broken_options_are_invalid_and_given_ones_win() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    let options = sandbox.path("given.json");
    fs::write(&options, "{\n\"keep\": 1}").expect("options");
    let report = sandbox.unchanged(&parent, "invalid-invocation", 2, || {
        sandbox.try_fold(&parent, &child, &["--options", text(&options)])
    });
    assert!(report.starts_with(&format!("{}:2: ", options.display())) && report.contains("\"keep\""), "{report}");
    let own = parent.join("isolationOptions.toml");
    fs::write(&own, "keep = 1\n").expect("options");
    let report = sandbox.unchanged(&parent, "invalid-invocation", 2, || sandbox.try_fold(&parent, &child, &[]));
    assert!(report.starts_with(&format!("{}:1: ", own.display())), "{report}");
    fs::write(&options, "{\"workLine\":{\"isolationOptions\":{\"exclude\":[]}}}").expect("options");
    sandbox.try_fold(&parent, &child, &["--options", text(&options)]).expect("integrated", 0);
}

#[test]
fn the_exclude_list_keeps_parent_paths_out_of_a_fold_between_other_directories() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let other = sandbox.path("other");
    sandbox.git(&parent, &["worktree", "add", "-q", "-b", "other", text(&other)]);
    write(&other, "b", lines(&[(7, "work")]));
    write(&other, "k.key", "secret\n");
    write(&parent, "p.key", "secret\n");
    let options = sandbox.path("o.toml");
    fs::write(&options, "exclude = [\"*.key\"]\n").expect("options");
    let run = sandbox.try_fold(&parent, &other, &["--options", text(&options)]).expect("integrated", 0);
    assert_eq!(run.last()["left_out"], json!(["p.key", "k.key"]));
    assert_eq!(sandbox.git(&parent, &["status", "--porcelain"]), "?? p.key");
    assert!(!parent.join("k.key").exists());
}

#[test]
fn subjects_name_the_commits() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    write(&parent, "a", lines(&[(0, "dirty")]));
    next_second();
    let run = sandbox.try_fold(&parent, &child, &["--subject", "The work", "--merge-subject", "Joined"]);
    assert_eq!(run.expect("integrated", 0).last()["landing"], "merge");
    assert_eq!(subjects(&sandbox, &parent)[0], "Joined");
    let mut all = subjects(&sandbox, &parent);
    all.sort();
    assert_eq!(all, ["Joined", "The work", "Uncommitted work before: The work", "start"]);
    assert_eq!(sandbox.git(&parent, &["log", "-1", "--format=%P"]).split(' ').count(), 2);
    // Only one of them: the other keeps its default.
    write(&child, "b", lines(&[(7, "more work")]));
    write(&parent, "a", lines(&[(0, "dirty again")]));
    next_second();
    sandbox.try_fold(&parent, &child, &["--merge-subject", "Joined again"]).expect("integrated", 0);
    let all = subjects(&sandbox, &parent);
    assert_eq!(all[0], "Joined again");
    assert!(all.contains(&"Integration of work".to_owned()), "{all:?}");
}

#[test]
fn a_parent_on_another_branch_needs_onto_current() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    sandbox.git(&parent, &["checkout", "-q", "-b", "release"]);
    let report = fails(&sandbox, &parent, &child);
    for word in ["release", "main", "--onto-current"] {
        assert!(report.contains(word), "{report}");
    }
    sandbox.git(&parent, &["checkout", "-q", "--detach"]);
    assert!(fails(&sandbox, &parent, &child).contains("detached HEAD"));
    sandbox.git(&parent, &["checkout", "-q", "release"]);
    let main = sandbox.git(&parent, &["rev-parse", "main"]);
    dry(&sandbox, &parent, &child, &["--onto-current"]).expect("integrated", 0);
    sandbox.try_fold(&parent, &child, &["--onto-current"]).expect("integrated", 0);
    assert_eq!(sandbox.git(&parent, &["rev-parse", "main"]), main);
    assert_eq!(read(&parent, "new").as_deref(), Some("new\n"));
    assert_eq!(sandbox.git(&parent, &["symbolic-ref", "HEAD"]), "refs/heads/release");
}

#[test]
fn a_dry_run_foretells_every_way_of_landing() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let child = sandbox.isolate(&parent, "child");
    let foretell = || {
        next_second();
        let foretold = dry(&sandbox, &parent, &child, &["--context", "k"]).expect("integrated", 0);
        let real = sandbox.try_fold(&parent, &child, &["--context", "k"]).expect("integrated", 0);
        assert_eq!(foretold.phases(), real.phases());
        for field in ["landing", "files", "changed", "base", "parent", "left_out"] {
            assert_eq!(foretold.last()[field], real.last()[field], "{field}");
        }
        assert_eq!(foretold.last()["dry_run"], true);
        assert_eq!(foretold.last()["commits"], json!([]));
        assert_eq!(real.last().get("dry_run"), None);
        real.last()["landing"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(foretell(), "nothing");
    write(&child, "b", lines(&[(7, "work")]));
    assert_eq!(foretell(), "fast-forward");
    write(&child, "b", lines(&[(7, "more")]));
    write(&parent, "a", lines(&[(0, "dirty")]));
    assert_eq!(foretell(), "merge");
}

#[test]
fn the_clock_fires_and_nothing_is_changed() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    let report = sandbox.unchanged(&parent, "failed", 3, || {
        let run = sandbox.try_fold(&parent, &child, &["--duration-ms", "1"]);
        assert_eq!(run.phases(), ["integrating", "failed"]);
        run
    });
    assert_eq!(report, "The Integration clock fired.");
    // In the middle of a git that takes long.
    write(&parent, ".git/info/attributes", "new filter=slow\n");
    sandbox.git(&parent, &["config", "filter.slow.clean", "sleep 20; cat"]);
    let since = Instant::now();
    let report =
        sandbox.unchanged(&parent, "failed", 3, || sandbox.try_fold(&parent, &child, &["--duration-ms", "500"]));
    assert_eq!(report, "The Integration clock fired.");
    assert!(since.elapsed() < Duration::from_secs(15));
}

#[test]
fn a_fold_waits_for_another_no_longer_than_its_clock() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    let held = fs::File::open(parent.join(".git")).expect("the git directory");
    held.lock().expect("the lock");
    let report =
        sandbox.unchanged(&parent, "failed", 3, || sandbox.try_fold(&parent, &child, &["--duration-ms", "300"]));
    assert!(report.contains("holds") && report.contains(text(&parent)), "{report}");
    let named = format!("(process {}, since ", std::process::id());
    assert!(report.contains(&named) && report.ends_with(" UTC)"), "{report}");
    let running = sandbox.start(["fold", "--id", "w", "--parent", text(&parent), "--child", text(&child)]);
    std::thread::sleep(Duration::from_millis(400));
    drop(held);
    running.finish().expect("integrated", 0);
}

#[test]
fn signals_interrupt_and_nothing_is_changed() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    write(&parent, ".git/info/attributes", "new filter=slow\n");
    let mark = sandbox.path("mark");
    let filter = format!("touch {}; sleep 20; cat", mark.display());
    sandbox.git(&parent, &["config", "filter.slow.clean", &filter]);
    for signal in ["INT", "TERM"] {
        let report = sandbox.unchanged(&parent, "interrupted", 130, || {
            let args = ["fold", "--id", "w", "--parent", text(&parent), "--child", text(&child), "--context", "k"];
            let running = sandbox.start(args);
            wait_for("the snapshot", || mark.exists());
            let since = Instant::now();
            running.signal(signal);
            let run = running.finish();
            assert!(since.elapsed() < Duration::from_secs(5), "it took {:?} to stop", since.elapsed());
            fs::remove_file(&mark).expect("the mark");
            let printed: Vec<&str> = run.stdout.lines().collect();
            assert_eq!(
                printed[2..],
                [
                    r#"{"key":"k","event":"status","phase":"interrupted","label":"interrupted:w","id":"w"}"#.to_owned(),
                    format!(
                        r#"{{"key":"k","event":"integration-finished","outcome":"interrupted","report":"{}","id":"w"}}"#,
                        run.report()
                    )
                ]
            );
            run
        });
        assert_eq!(report, "The fold was interrupted.");
    }
}

#[test]
fn on_status_is_told_each_phase() {
    let sandbox = Sandbox::new();
    let (parent, child) = clash(&sandbox);
    let notes = sandbox.path("notes");
    fs::write(&notes, "").expect("notes");
    let command = r#"echo "$@" >> "$0"; echo out; exit 9"#;
    let more = ["--on-status", "--", "sh", "-c", command, text(&notes)];
    let run = sandbox.try_fold(&parent, &child, &more).expect("conflict", 1);
    assert_eq!(run.lines().len(), 4);
    assert_eq!(run.stderr, "out\nout\n");
    write(&parent, "b", lines(&[]));
    sandbox.try_fold(&parent, &child, &more).expect("integrated", 0);
    sandbox.try_fold(&parent, &parent, &more).expect("invalid-invocation", 2);
    assert_eq!(
        fs::read_to_string(&notes).expect("notes"),
        "--id work --label integrating:work --phase integrating\n--id work --label conflict:work --phase conflict\n\
         --id work --label integrating:work --phase integrating\n--id work --label integrated:work --phase integrated\n\
         --id work --label invalid --phase invalid\n"
    );
}

#[test]
fn places_that_can_not_be_folded_are_refused() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    let plain = sandbox.path("plain");
    write(&plain, "file", "x\n");
    sandbox.git(&sandbox.path(""), &["init", "-q", "--bare", "bare.git"]);
    sandbox.git(&sandbox.path(""), &["clone", "-q", text(&parent), "clone"]);
    sandbox.git(&sandbox.path("clone"), &["worktree", "add", "-q", "-b", "x", "../clone-linked"]);
    let unrelated = sandbox.repo("unrelated");
    write(&sandbox.path("impostor"), ".git", read(&child, ".git").expect("a .git file"));
    write(&sandbox.path("lost"), ".git", "gitdir: /no/such/place\n");
    for (place, words) in
        [(plain.clone(), "is not a git repository"), (sandbox.path("bare.git"), "is a bare repository")]
    {
        let report = sandbox.unchanged(&parent, "failed", 3, || sandbox.try_fold(&place, &child, &[]));
        assert!(report.contains(text(&place)) && report.contains(words), "{report}");
    }
    for place in [
        plain,
        sandbox.path("bare.git"),
        sandbox.path("clone"),
        sandbox.path("clone-linked"),
        unrelated,
        sandbox.path("impostor"),
        sandbox.path("lost"),
        child.join("dir"),
    ] {
        let report = fails(&sandbox, &parent, &place);
        assert!(report.contains(text(&place)) && report.contains("no worktree registered"), "{report}");
    }
    assert!(fails(&sandbox, &parent, &sandbox.path("clone")).contains("--foreign-child"));
}

#[test]
fn without_an_identity_a_commit_fails() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    for key in ["user.name", "user.email"] {
        sandbox.git(&parent, &["config", "--unset", key]);
    }
    sandbox.git(&parent, &["config", "user.useConfigOnly", "true"]);
    let report = fails(&sandbox, &parent, &child);
    assert!(report.contains("identity") && report.contains("user.email"), "{report}");
    // The environment is an identity too.
    let mut command = sandbox.program();
    command.args(["fold", "--id", "w", "--parent", text(&parent), "--child", text(&child)]);
    command.env("GIT_AUTHOR_NAME", "An Author").env("GIT_AUTHOR_EMAIL", "author@example.test");
    command.env("GIT_COMMITTER_NAME", "A Committer").env("GIT_COMMITTER_EMAIL", "committer@example.test");
    Run::of_command(&mut command).expect("integrated", 0);
    assert_eq!(sandbox.git(&parent, &["log", "-1", "--format=%an %ce"]), "An Author committer@example.test");
}

#[test]
fn a_fast_forward_to_commits_needs_no_identity() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    sandbox.commit_all(&child, "committed in the Child");
    for key in ["user.name", "user.email"] {
        sandbox.git(&parent, &["config", "--unset", key]);
    }
    sandbox.git(&parent, &["config", "user.useConfigOnly", "true"]);
    dry(&sandbox, &parent, &child, &[]).expect("integrated", 0);
    assert_eq!(sandbox.fold(&parent, &child), "fast-forward");
    assert_eq!(sandbox.git(&parent, &["rev-parse", "HEAD"]), sandbox.git(&child, &["rev-parse", "HEAD"]));
    assert_eq!(sandbox.git(&parent, &["reflog", "-1", "--format=%gs"]), "isofold: fold of work");
}

#[test]
fn a_parent_in_the_middle_of_something_fails() {
    for (operation, words) in [
        ("merge", "a merge"),
        ("rebase", "a rebase"),
        ("cherry-pick", "a cherry-pick"),
        ("revert", "a revert"),
        ("bisect", "a bisect"),
        ("am", "git am"),
    ] {
        let sandbox = Sandbox::new();
        let parent = sandbox.repo("parent");
        sandbox.git(&parent, &["checkout", "-q", "-b", "side"]);
        write(&parent, "a", lines(&[(0, "side")]));
        sandbox.commit_all(&parent, "side");
        sandbox.git(&parent, &["checkout", "-q", "main"]);
        write(&parent, "a", lines(&[(0, "main")]));
        sandbox.commit_all(&parent, "main");
        write(&parent, "a", lines(&[(0, "main again")]));
        sandbox.commit_all(&parent, "again");
        let child = sandbox.isolate(&parent, "child");
        write(&child, "b", lines(&[(7, "work")]));
        match operation {
            "bisect" => drop(sandbox.git(&parent, &["bisect", "start"])),
            "revert" => drop(sandbox.try_git(&parent, &["revert", "--no-edit", "HEAD~1"])),
            "am" => {
                sandbox.git(&parent, &["format-patch", "-q", "-1", "side", "-o", text(&sandbox.path("patches"))]);
                let patch = sandbox.path("patches/0001-side.patch");
                assert_ne!(sandbox.try_git(&parent, &["am", "-q", text(&patch)]).0, 0);
            }
            operation => assert_ne!(sandbox.try_git(&parent, &[operation, "side"]).0, 0),
        }
        // With the conflict as it is, and after it was settled but not concluded.
        for settled in [false, true] {
            if settled {
                sandbox.git(&parent, &["add", "-A"]);
            }
            next_second();
            let report = fails(&sandbox, &parent, &child);
            assert!(report.contains(text(&parent)) && report.contains(words), "{operation}: {report}");
        }
    }
}

#[test]
fn a_sequence_between_two_picks_fails() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    sandbox.git(&parent, &["checkout", "-q", "-b", "side"]);
    for number in 0..2 {
        write(&parent, "a", lines(&[(0, &format!("side {number}"))]));
        sandbox.commit_all(&parent, "side");
    }
    sandbox.git(&parent, &["checkout", "-q", "main"]);
    write(&parent, "a", lines(&[(0, "main")]));
    sandbox.commit_all(&parent, "main");
    assert_ne!(sandbox.try_git(&parent, &["cherry-pick", "side~1", "side"]).0, 0);
    sandbox.git(&parent, &["checkout", "-q", "HEAD", "--", "a"]);
    sandbox.git(&parent, &["commit", "-q", "--allow-empty", "-m", "by hand"]);
    next_second();
    let report = fails(&sandbox, &parent, &child);
    assert!(report.contains("a cherry-pick"), "{report}");
}

#[test]
fn a_linked_parent_in_the_middle_of_a_merge_fails() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    let parent = sandbox.isolate(&main, "parent");
    let child = sandbox.isolate(&parent, "child");
    write(&child, "b", lines(&[(7, "work")]));
    sandbox.git(&main, &["checkout", "-q", "-b", "side"]);
    write(&main, "a", lines(&[(0, "side")]));
    sandbox.commit_all(&main, "side");
    write(&parent, "a", lines(&[(0, "main")]));
    sandbox.commit_all(&parent, "main");
    assert_ne!(sandbox.try_git(&parent, &["merge", "side"]).0, 0);
    next_second();
    let report = fails(&sandbox, &parent, &child);
    assert!(report.contains("a merge"), "{report}");
    // What another work tree is in the middle of is no matter here.
    sandbox.git(&parent, &["merge", "--abort"]);
    assert_ne!(
        sandbox.try_git(&main, &["merge", text(&parent).rsplit('/').next().map_or("", |_| "issue/parent")]).0,
        0
    );
    sandbox.fold(&parent, &child);
}

#[test]
fn unmerged_entries_fail() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    unmerge(&sandbox, &parent);
    let report = fails(&sandbox, &parent, &child);
    assert!(report.contains("unmerged") && report.contains("(a)") && report.contains(text(&parent)), "{report}");
}

#[test]
fn a_branch_that_is_checked_out_twice_fails() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    let twin = sandbox.path("twin");
    sandbox.git(&parent, &["worktree", "add", "-q", "--force", text(&twin), "main"]);
    let report = fails(&sandbox, &parent, &child);
    assert!(report.contains("main") && report.contains(text(&twin)), "{report}");
    // One whose directory is gone is no matter.
    fs::remove_dir_all(&twin).expect("a worktree");
    sandbox.fold(&parent, &child);
}

#[test]
fn held_locks_are_named() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    for lock in ["index.lock", "HEAD.lock", "refs/heads/main.lock"] {
        let file = parent.join(".git").join(lock);
        fs::write(&file, "").expect("a lock");
        let report = fails(&sandbox, &parent, &child);
        assert!(report.contains(text(&file)), "{report}");
        fs::remove_file(&file).expect("the lock");
    }
    sandbox.fold(&parent, &child);
}

#[test]
fn a_ref_that_moves_back_is_no_lock() {
    // A fold of a Child into a Parent that was reset meanwhile works on what is there.
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    sandbox.fold(&parent, &child);
    sandbox.git(&parent, &["reset", "-q", "--hard", "HEAD~1"]);
    next_second();
    sandbox.fold(&parent, &child);
    assert_eq!(read(&parent, "new").as_deref(), Some("new\n"));
}

#[test]
fn a_parent_without_permission_fails_and_nothing_is_changed() {
    let sandbox = Sandbox::new();
    let (parent, child) = pair(&sandbox);
    write(&child, "dir/c", "changed\n");
    sandbox.give_all_away();
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    };
    let run = || {
        let mut command = sandbox.unprivileged();
        command.args(["fold", "--id", "work", "--parent", text(&parent), "--child", text(&child)]);
        Run::of_command(&mut command)
    };
    for closed in [parent.join("dir"), parent.clone(), parent.join(".git")] {
        mode(&closed, 0o555);
        let report = sandbox.unchanged(&parent, "failed", 3, run);
        assert!(report.contains(text(&closed)) && report.contains("ermission denied"), "{report}");
        mode(&closed, 0o755);
    }
    let refs = parent.join(".git/refs/heads");
    mode(&refs, 0o555);
    let report = sandbox.unchanged(&parent, "failed", 3, run);
    assert!(report.contains("main"), "{report}");
    mode(&refs, 0o755);
    run().expect("integrated", 0);
}

#[test]
fn a_full_disk_fails_and_nothing_is_changed() {
    let sandbox = Sandbox::new();
    let Some(disk) = sandbox.small_disk("disk", 2200) else { return };
    let parent = sandbox.repo("disk/parent");
    let child = sandbox.isolate(&parent, "child");
    write(&child, "b", lines(&[(7, "work")]));
    // Too much for the object store; then enough for that, too much for the files beside it.
    for length in [3_000_000, 1_200_000] {
        write(&child, "noise", noise(length));
        let report = sandbox.unchanged(&parent, "failed", 3, || sandbox.try_fold(&parent, &child, &[]));
        assert!(report.contains("pace") || report.contains("noise"), "{report}");
    }
    fs::remove_file(child.join("noise")).expect("a file");
    sandbox.fold(&parent, &child);
    drop(disk);
}
