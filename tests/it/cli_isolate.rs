//! `isofold isolate` through the program: every flag, outcome and exit code, and bad input.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::host::{Running, is_root, same, skipped, text, wait_for};
use crate::support::{Run, Sandbox, lines, next_second, raw_name, read, write};

/// Prints where it is told to: which phase, to a file.
const NOTE: &str = r#"echo "$@" >> "$0"; echo out; echo err >&2"#;

/// A repository whose snapshot takes a long time: a clean filter sleeps.
fn slow_repo(sandbox: &Sandbox, name: &str) -> std::path::PathBuf {
    let repo = sandbox.repo(name);
    write(&repo, ".gitattributes", "slow filter=slow\n");
    write(&repo, "slow", "one\n");
    sandbox.commit_all(&repo, "slow");
    sandbox.git(&repo, &["config", "filter.slow.clean", "sleep 20; cat"]);
    write(&repo, "slow", "another\n");
    next_second();
    repo
}

#[test]
fn isolated_says_its_lines_in_order() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let child = sandbox.path("above/child");
    let run = sandbox.try_isolate("work", &parent, &child, &["--context", "k1"]).expect("isolated", 0);
    let printed: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(
        printed[..3],
        [
            r#"{"key":"k1","event":"status","phase":"isolating","label":"isolating:work","id":"work"}"#,
            r#"{"key":"k1","event":"isolation-started","id":"work"}"#,
            r#"{"key":"k1","event":"status","phase":"isolated","label":"isolated:work","id":"work"}"#,
        ]
    );
    assert_eq!(printed.len(), 4);
    let fields = &run.fields()[3];
    assert_eq!(fields[..4], ["key", "event", "outcome", "child"]);
    assert_eq!(fields.last().map(String::as_str), Some("id"));
    assert!(!fields.contains(&"report".to_owned()));
    let last = run.last();
    assert_eq!(last["event"], "isolation-finished");
    assert_eq!(last["child"], text(&child));
    assert_eq!(last["branch"], "issue/work");
    assert_eq!(last["head"], sandbox.git(&parent, &["rev-parse", "HEAD"]));
    assert_eq!(last["saved"], json!([]));
    assert_eq!(run.stderr, "");
    assert_eq!(sandbox.git(&child, &["symbolic-ref", "HEAD"]), "refs/heads/issue/work");

    let plain = sandbox.try_isolate("other", &parent, &sandbox.path("other"), &[]).expect("isolated", 0);
    assert_eq!(
        plain.stdout.lines().next(),
        Some(r#"{"event":"status","phase":"isolating","label":"isolating:other","id":"other"}"#)
    );
    assert!(plain.lines().iter().all(|line| line.get("key").is_none()));
}

#[test]
fn failed_says_its_lines_in_order() {
    let sandbox = Sandbox::new();
    let parent = sandbox.path("plain");
    fs::create_dir(&parent).expect("a directory");
    let run = sandbox.try_isolate("w", &parent, &sandbox.path("child"), &["--context", "k"]).expect("failed", 1);
    let report = run.one_line_report();
    let expected = [
        r#"{"key":"k","event":"status","phase":"isolating","label":"isolating:w","id":"w"}"#.to_owned(),
        r#"{"key":"k","event":"isolation-started","id":"w"}"#.to_owned(),
        r#"{"key":"k","event":"status","phase":"failed","label":"failed:w","id":"w"}"#.to_owned(),
        format!(r#"{{"key":"k","event":"isolation-finished","outcome":"failed","report":"{report}","id":"w"}}"#),
    ];
    assert_eq!(run.stdout.lines().collect::<Vec<_>>(), expected);
    assert!(report.contains(text(&parent)) && report.contains("not a git repository"), "{report}");
}

#[test]
fn invalid_says_two_lines_without_a_key() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let p = text(&parent);
    // Once the arguments are understood, and where they are not.
    for (more, id) in [(vec!["--id", "w"], true), (vec![], false), (vec!["--id", "w", "--bogus"], true)] {
        let mut args = vec!["isolate", "--context", "k", "--parent", p, "--child", p];
        args.extend(&more);
        let run = sandbox.isofold(&args).expect("invalid-invocation", 2);
        let report = run.one_line_report().replace('"', "\\\"");
        let id = if id { r#","id":"w""# } else { "" };
        let expected = [
            format!(r#"{{"event":"status","phase":"invalid","label":"invalid"{id}}}"#),
            format!(r#"{{"event":"isolation-finished","outcome":"invalid-invocation","report":"{report}"{id}}}"#),
        ];
        assert_eq!(run.stdout.lines().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn the_clock_fires_and_nothing_is_left() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    for number in 0..3000 {
        write(&parent, format!("many/{}/{number}", number % 50), format!("{number}\n"));
    }
    let report = sandbox.unchanged(&parent, "failed", 1, || {
        let run = sandbox.try_isolate("w", &parent, &sandbox.path("a/b/child"), &["--duration-ms", "1"]);
        assert_eq!(run.phases(), ["isolating", "failed"]);
        run
    });
    assert_eq!(report, "The Isolation clock fired.");
    assert!(!sandbox.path("a").exists());
}

#[test]
fn the_clock_ends_a_git_that_does_not() {
    let sandbox = Sandbox::new();
    let parent = slow_repo(&sandbox, "parent");
    let since = Instant::now();
    let report = sandbox.unchanged(&parent, "failed", 1, || {
        sandbox.try_isolate("w", &parent, &sandbox.path("child"), &["--duration-ms", "700"])
    });
    assert_eq!(report, "The Isolation clock fired.");
    assert!(since.elapsed() < Duration::from_secs(15));
}

#[test]
fn signals_interrupt_and_nothing_is_left() {
    let sandbox = Sandbox::new();
    let parent = slow_repo(&sandbox, "parent");
    let child = sandbox.path("above/child");
    for signal in ["INT", "TERM"] {
        let report = sandbox.unchanged(&parent, "interrupted", 130, || {
            let args = ["isolate", "--id", "w", "--parent", text(&parent), "--child", text(&child), "--context", "k"];
            let running: Running = sandbox.start(args);
            // The filter sleeps once the base snapshot began.
            wait_for("the fill", || child.join("slow").exists());
            std::thread::sleep(Duration::from_millis(200));
            let since = Instant::now();
            running.signal(signal);
            let run = running.finish();
            assert!(since.elapsed() < Duration::from_secs(5), "it took {:?} to stop", since.elapsed());
            let printed: Vec<&str> = run.stdout.lines().collect();
            assert_eq!(
                printed[2..],
                [
                    r#"{"key":"k","event":"status","phase":"interrupted","label":"interrupted:w","id":"w"}"#.to_owned(),
                    format!(
                        r#"{{"key":"k","event":"isolation-finished","outcome":"interrupted","report":"{}","id":"w"}}"#,
                        run.report()
                    )
                ]
            );
            run
        });
        assert_eq!(report, "The isolation was interrupted.");
        assert!(!sandbox.path("above").exists());
    }
}

#[test]
fn a_signal_wins_over_the_clock() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let command = r#"case "$*" in *isolating*) kill -TERM $PPID; sleep 0.2;; esac"#;
    let report = sandbox.unchanged(&parent, "interrupted", 130, || {
        let more = ["--duration-ms", "1", "--on-status", "--", "sh", "-c", command, "sh"];
        sandbox.try_isolate("w", &parent, &sandbox.path("child"), &more)
    });
    assert_eq!(report, "The isolation was interrupted.");
}

#[test]
fn a_signal_after_the_work_leaves_a_success() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let command = r#"case "$*" in *isolated*) kill -TERM $PPID;; esac"#;
    let more = ["--on-status", "--", "sh", "-c", command, "sh"];
    sandbox.try_isolate("w", &parent, &sandbox.path("child"), &more).expect("isolated", 0);
    assert!(sandbox.path("child/a").exists());
}

#[test]
fn on_status_gets_its_arguments_and_its_output_goes_to_stderr() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let notes = sandbox.path("notes");
    let more = ["--on-status", "--", "sh", "-c", NOTE, text(&notes), "given", "two words"];
    let run = sandbox.try_isolate("a b", &parent, &sandbox.path("child"), &more).expect("isolated", 0);
    assert_eq!(run.lines().len(), 4);
    assert_eq!(run.stderr, "out\nerr\nout\nerr\n");
    assert_eq!(
        fs::read_to_string(&notes).ok().as_deref(),
        Some(
            "given two words --id a b --label isolating:a b --phase isolating\n\
             given two words --id a b --label isolated:a b --phase isolated\n"
        )
    );
    fs::remove_file(&notes).expect("the notes");
    let p = text(&parent);
    // Without an id there is no --id; an invalid invocation is told as well.
    let detached = sandbox.path("detached");
    let mut args = vec!["isolate", "--detach", "--parent", p, "--child", text(&detached)];
    args.extend(&more[..6]);
    sandbox.isofold(&args).expect("isolated", 0);
    sandbox.isofold(&args).expect("invalid-invocation", 2);
    args.remove(1);
    sandbox.isofold(&args).expect("invalid-invocation", 2);
    assert_eq!(
        fs::read_to_string(&notes).ok().as_deref(),
        Some(
            "--label isolating --phase isolating\n--label isolated --phase isolated\n\
             --label invalid --phase invalid\n--label invalid --phase invalid\n"
        )
    );
}

#[test]
fn an_on_status_that_fails_changes_nothing() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    for (number, command) in
        [vec!["false"], vec!["/no/such/program"], vec!["sh", "-c", "kill -9 $$"]].iter().enumerate()
    {
        let mut more = vec!["--on-status", "--"];
        more.extend(command);
        let name = format!("child{number}");
        let run = sandbox.try_isolate(&name, &parent, &sandbox.path(&name), &more).expect("isolated", 0);
        assert_eq!(run.phases(), ["isolating", "isolated"]);
    }
}

#[test]
fn an_on_status_that_sleeps_is_ended_with_its_group_and_does_not_count() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let pid = sandbox.path("pid");
    let command = r#"case "$*" in *isolating*) sleep 600 & echo $! > "$0"; wait;; esac"#;
    let more = ["--duration-ms", "4500", "--on-status", "--", "sh", "-c", command, text(&pid)];
    let since = Instant::now();
    let run = sandbox.try_isolate("w", &parent, &sandbox.path("child"), &more).expect("isolated", 0);
    let took = since.elapsed();
    assert!(took >= Duration::from_secs(5) && took < Duration::from_secs(20), "{took:?}");
    assert_eq!(run.phases(), ["isolating", "isolated"]);
    let sleeper = fs::read_to_string(&pid).expect("a pid");
    let ended = || {
        // A zombie waits for whoever adopts it; it has ended all the same.
        let stat = fs::read_to_string(format!("/proc/{}/stat", sleeper.trim())).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    };
    wait_for("the end of the sleeper", ended);
}

#[test]
fn malformed_arguments_are_invalid() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let child = sandbox.path("child");
    for (more, named) in [
        (vec!["--on-status"], "--on-status"),
        (vec!["--on-status", "--"], "--on-status"),
        (vec!["--", "true"], "--on-status"),
        (vec!["--unknown"], "--unknown"),
        (vec!["stray"], "stray"),
        (vec!["--id", "again"], "--id"),
        (vec!["--context"], "--context"),
        (vec!["--options"], "--options"),
        (vec!["--subject", "s"], "--subject"),
        (vec!["--detach=yes"], "--detach"),
    ] {
        let report =
            sandbox.unchanged(&parent, "invalid-invocation", 2, || sandbox.try_isolate("w", &parent, &child, &more));
        assert!(report.contains(named), "{more:?}: {report}");
    }
}

#[test]
fn the_first_check_wins() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    write(&parent, "isolationOptions.toml", "bogus = 1\n");
    let (sub, child, file) = (parent.join("dir"), sandbox.path("child"), parent.join("a"));
    let (sub, child, file, parent_text) = (text(&sub), text(&child), text(&file), text(&parent));
    let below_file = format!("{file}/child");
    let inside = format!("{parent_text}/new/child");
    // Each line mends what the line before was refused for; what comes later is still wrong.
    let steps: [(Vec<&str>, &str); 15] = [
        (vec!["--id", "", "--duration-ms", "0", "--bogus"], "--bogus"),
        (vec!["--id", "", "--duration-ms", "0", "--", "true"], "--on-status"),
        (vec!["--id", "", "--duration-ms", "0"], "--id is missing or empty"),
        (vec!["--duration-ms", "0"], "--id is missing or empty"),
        (vec!["--id", "w", "--duration-ms", "0"], "--parent is missing"),
        (vec!["--id", "w", "--parent", "rel", "--duration-ms", "0"], "--child is missing"),
        (vec!["--id", "w", "--parent", "rel", "--child", "rel", "--duration-ms", "0"], "--duration-ms"),
        (vec!["--id", "w", "--parent", "rel", "--child", "rel"], "--parent rel is a relative path"),
        (vec!["--id", "w", "--parent", "/no/such", "--child", "rel"], "--child rel is a relative path"),
        (vec!["--id", "w", "--parent", "/no/such", "--child", file], "the Parent /no/such does not exist"),
        (vec!["--id", "w", "--parent", file, "--child", file], "is not a directory"),
        (vec!["--id", "w", "--parent", sub, "--child", sub], "exists already"),
        (vec!["--id", "w", "--parent", sub, "--child", &below_file], "is not a directory"),
        (vec!["--id", "w", "--parent", parent_text, "--child", &inside], "lies inside the Parent"),
        (vec!["--id", "w", "--parent", parent_text, "--child", child], "\"bogus\""),
    ];
    for (arguments, named) in steps {
        let report = sandbox.unchanged(&parent, "invalid-invocation", 2, || {
            sandbox.isofold(std::iter::once("isolate").chain(arguments.iter().copied()))
        });
        assert!(report.contains(named), "{arguments:?}: {report}");
    }
}

#[test]
fn duration_has_to_be_a_positive_whole_number() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    for value in ["0", "-1", "1.5", "x", "", "+5", " 5", "99999999999999999999999"] {
        let report = sandbox.unchanged(&parent, "invalid-invocation", 2, || {
            sandbox.try_isolate("w", &parent, &sandbox.path("child"), &["--duration-ms", value])
        });
        assert!(report.contains("--duration-ms"), "{report}");
    }
    let run = sandbox.try_isolate("w", &parent, &sandbox.path("child"), &["--duration-ms", "60000"]);
    run.expect("isolated", 0);
}

#[test]
fn an_id_that_is_not_utf8_is_invalid() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let child = sandbox.path("child");
    let report = sandbox.unchanged(&parent, "invalid-invocation", 2, || {
        let args: [&OsStr; 7] = [
            "isolate".as_ref(),
            "--id".as_ref(),
            OsStr::from_bytes(b"\xff"),
            "--parent".as_ref(),
            parent.as_os_str(),
            "--child".as_ref(),
            child.as_os_str(),
        ];
        let run = sandbox.isofold(args);
        assert!(run.lines().iter().all(|line| line.get("id").is_none()));
        run
    });
    assert!(report.contains("--id"), "{report}");
}

#[test]
fn detach_makes_no_branch() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let p = text(&parent);
    for (name, id) in [("c1", vec![]), ("c2", vec!["--id", "named"]), ("c3", vec!["--id", ""])] {
        let child = sandbox.path(name);
        let mut args = vec!["isolate", "--detach", "--parent", p, "--child", text(&child)];
        args.extend(&id);
        let run = sandbox.isofold(&args).expect("isolated", 0);
        let (label, id) = match name {
            "c2" => ("isolating:named", json!("named")),
            _ => ("isolating", json!(null)),
        };
        assert_eq!(run.lines()[0]["label"], label);
        assert!(run.lines().iter().all(|line| line.get("id").cloned().unwrap_or_default() == id));
        assert_eq!(run.last()["branch"], json!(null));
        assert_eq!(sandbox.git(&child, &["rev-parse", "HEAD"]), sandbox.git(&parent, &["rev-parse", "main"]));
        assert_ne!(sandbox.try_git(&child, &["symbolic-ref", "-q", "HEAD"]).0, 0);
    }
    assert_eq!(sandbox.git(&parent, &["for-each-ref", "refs/heads", "--format=%(refname)"]), "refs/heads/main");
}

#[test]
fn options_come_from_the_file_that_is_given() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    for file in [".env", "keys/a.pem", "x.key"] {
        write(&parent, file, "secret\n");
    }
    write(&parent, "isolationOptions.toml", "exclude = [\"*.key\"]\n");
    write(&sandbox.path(""), "o.toml", "exclude = [\"**/*.pem\"]\n");
    write(&sandbox.path(""), "o.json", "{\"exclude\": [\"keys/\"]}\n");
    write(&sandbox.path(""), "host.json", r#"{"workLine":{"isolationOptions":{"exclude":[]},"more":1},"other":2}"#);
    write(&sandbox.path(""), "bare-host.json", r#"{"workLine":{"more":1}}"#);
    for (options, left_out) in [
        (None, json!(["x.key"])),
        (Some("o.toml"), json!(["keys/a.pem"])),
        (Some("o.json"), json!(["keys/"])),
        (Some("host.json"), json!([])),
        (Some("bare-host.json"), json!([".env"])),
    ] {
        let name = options.unwrap_or("plain");
        let child = sandbox.path(&format!("child-{name}"));
        let file = sandbox.path(name);
        let more = if options.is_some() { vec!["--options", text(&file)] } else { vec![] };
        let run = sandbox.try_isolate(name, &parent, &child, &more).expect("isolated", 0);
        assert_eq!(run.last()["left_out"], left_out, "{name}");
        for path in left_out.as_array().expect("a list") {
            assert!(!child.join(path.as_str().expect("a path")).exists());
        }
        assert_eq!(child.join(".env").exists(), name != "bare-host.json");
    }
}

#[test]
fn broken_options_are_named_with_file_line_and_key() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let options = sandbox.path("given");
    let list = "isolationOptions \"exclude\" must be a list of non-empty path patterns.";
    for (content, line, words) in [
        ("\n# c\nkeep = 1\n", Some(3), "isolationOptions \"keep\" is not one isofold reads (known: exclude)."),
        ("exclude = 7\n", Some(1), list),
        ("\nexclude = [\"a\", \" \"]\n", Some(2), list),
        ("exclude = [\"/x\"]\n", Some(1), "/x"),
        ("exclude = [\"./x\"]\n", Some(1), "./x"),
        ("exclude = [\"x//y\"]\n", Some(1), "x//y"),
        ("exclude = [\n\"a\"\n", None, "can't be parsed"),
        ("{\"exclude\": [],\n \"keep\": 1}", Some(2), "isolationOptions \"keep\" is not one"),
        ("{\"workLine\": {\"isolationOptions\":\n {\"exclude\": [3]}}}", Some(2), list),
        ("{\"exclude\": [\n", None, "can't be parsed"),
        ("{\"workLine\": {\"isolationOptions\": 4}}", None, "isolationOptions"),
        ("\"a\\nb\" = 1\n", None, "is not one isofold reads"),
        ("exclude = [\"/x\\ny\"]\n", None, "/x"),
    ] {
        for given in [true, false] {
            if content.starts_with('{') && !given {
                continue;
            }
            let file = if given { options.clone() } else { parent.join("isolationOptions.toml") };
            fs::write(&file, content).expect("options");
            let more = if given { vec!["--options", text(&file)] } else { vec![] };
            let report = sandbox.unchanged(&parent, "invalid-invocation", 2, || {
                sandbox.try_isolate("w", &parent, &sandbox.path("child"), &more)
            });
            let place = match line {
                Some(line) => format!("{}:{line}: ", file.display()),
                None => file.display().to_string(),
            };
            assert!(report.starts_with(&place) && report.contains(words), "{content:?}: {report}");
            fs::remove_file(&file).expect("the options");
        }
    }
    let report = sandbox.unchanged(&parent, "invalid-invocation", 2, || {
        sandbox.try_isolate("w", &parent, &sandbox.path("child"), &["--options", "/no/such.toml"])
    });
    assert!(report.contains("/no/such.toml"), "{report}");
}

#[test]
fn a_report_is_one_line_whatever_the_names() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("a\nb\u{1b}[31m");
    write(&parent, "isolationOptions.toml", "keep = 1\n");
    sandbox.unchanged(&parent, "invalid-invocation", 2, || {
        sandbox.try_isolate("w\nx", &parent, &sandbox.path("child"), &[])
    });
    fs::remove_file(parent.join("isolationOptions.toml")).expect("the options");
    sandbox.unchanged(&parent, "invalid-invocation", 2, || {
        sandbox.try_isolate("w\nx", &parent, &parent.join("in\nside"), &["--context", "a\nb"])
    });
    let given = sandbox.path("no\nfile");
    sandbox.unchanged(&parent, "invalid-invocation", 2, || {
        sandbox.try_isolate("w", &parent, &sandbox.path("child"), &["--options", text(&given)])
    });
    sandbox.unchanged(&parent, "invalid-invocation", 2, || {
        sandbox.try_isolate("w", &parent, &sandbox.path("child"), &["--bo\ngus"])
    });
    let bare = sandbox.path("bare\nrepo");
    fs::create_dir(&bare).expect("a directory");
    sandbox.unchanged(&parent, "failed", 1, || sandbox.try_isolate("w", &bare, &sandbox.path("child"), &[]));
}

#[test]
fn names_that_are_not_utf8_give_lines_that_are() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    write(&parent, raw_name(b"f\xff.env"), "x\n");
    write(&parent, raw_name(b".env.\xff"), "x\n");
    let child = sandbox.path("").join(raw_name(b"ch\xffild"));
    let run = sandbox.try_isolate("w", &parent, &child, &[]).expect("isolated", 0);
    assert_eq!(run.last()["left_out"], json!([".env.\u{fffd}"]));
    assert!(child.join(raw_name(b"f\xff.env")).exists());
    let again = sandbox.try_isolate("w", &parent, &child, &[]).expect("invalid-invocation", 2);
    assert!(again.one_line_report().contains("ch\u{fffd}ild"));
    sandbox.isofold(["remove".as_ref(), "--child".as_ref(), child.as_os_str()]).expect("removed", 0);
    assert!(!child.exists());
}

#[test]
fn a_parent_that_is_no_checkout_is_refused() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let child = sandbox.path("above/child");
    let plain = sandbox.path("plain");
    write(&plain, "file", "x\n");
    sandbox.git(&sandbox.path(""), &["init", "-q", "--bare", "bare.git"]);
    fs::create_dir(sandbox.path("broken")).expect("a directory");
    fs::create_dir(sandbox.path("broken/.git")).expect("a directory");
    write(&sandbox.path("lost"), ".git", "gitdir: /no/such/place\n");
    for (place, outcome, code, words) in [
        (plain, "failed", 1, "is not a git repository"),
        (parent.join("dir"), "invalid-invocation", 2, "is only a subdirectory of the repository"),
        (sandbox.path("bare.git"), "failed", 1, "is a bare repository"),
        (sandbox.path("broken"), "failed", 1, ""),
        (sandbox.path("lost"), "failed", 1, ""),
        (parent.join(".git"), "invalid-invocation", 2, "is only a subdirectory of the repository"),
    ] {
        let report = sandbox.unchanged(&parent, outcome, code, || sandbox.try_isolate("w", &place, &child, &[]));
        assert!(report.contains(text(&place)) && report.contains(words), "{}: {report}", place.display());
    }
}

#[test]
fn a_child_that_can_not_be_is_refused() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    symlink(&parent, sandbox.path("link")).expect("a link");
    symlink("/no/such/place", sandbox.path("dangling")).expect("a link");
    write(&sandbox.path(""), "file", "x\n");
    fs::create_dir(sandbox.path("empty")).expect("a directory");
    fs::create_dir(sandbox.path("there")).expect("a directory");
    for (child, words) in [
        (parent.clone(), "exists already"),
        (sandbox.path("empty"), "exists already"),
        (sandbox.path("file"), "exists already"),
        (sandbox.path("dangling"), "exists already"),
        (sandbox.path("file/x/child"), "is not a directory"),
        (sandbox.path("dangling/child"), "leads nowhere"),
        (parent.join("child"), "lies inside the Parent"),
        (parent.join("dir/new/child"), "lies inside the Parent"),
        (sandbox.path("link/child"), "lies inside the Parent"),
        (sandbox.path("link/new/child"), "lies inside the Parent"),
        (sandbox.path("there/../parent/child"), "lies inside the Parent"),
        (sandbox.path("no/../parent/child"), "lies inside the Parent"),
        (sandbox.path("link/dir/../child"), "lies inside the Parent"),
        (parent.join(".git/child"), "lies inside the Parent"),
        (sandbox.path(""), "exists already"),
    ] {
        let report =
            sandbox.unchanged(&parent, "invalid-invocation", 2, || sandbox.try_isolate("w", &parent, &child, &[]));
        assert!(report.contains(words), "{}: {report}", child.display());
    }
    // The Parent through a link is the same Parent.
    let report = sandbox.unchanged(&parent, "invalid-invocation", 2, || {
        sandbox.try_isolate("w", &sandbox.path("link"), &parent.join("child"), &[])
    });
    assert!(report.contains("lies inside the Parent"), "{report}");
    // A name that only begins like the Parent's is another place.
    sandbox.try_isolate("w", &parent, &sandbox.path("parent-child"), &[]).expect("isolated", 0);
}

#[test]
fn a_branch_that_is_held_elsewhere_is_refused() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    write(&parent, "b", lines(&[(1, "second")]));
    sandbox.commit_all(&parent, "second");
    let other = sandbox.path("other");
    let o = text(&other);
    sandbox.git(&parent, &["worktree", "add", "-q", "-b", "issue/w", o]);
    let refused = |how: &str| {
        let report =
            sandbox.unchanged(&parent, "failed", 1, || sandbox.try_isolate("w", &parent, &sandbox.path("child"), &[]));
        assert!(report.contains("issue/w") && report.contains(how) && report.contains(o), "{report}");
    };
    refused("checked out");
    // A rebase that stopped holds the branch while HEAD is detached.
    write(&other, "a", lines(&[(0, "theirs")]));
    sandbox.commit_all(&other, "work");
    sandbox.git(&parent, &["checkout", "-q", "-b", "base", "HEAD~1"]);
    write(&parent, "a", lines(&[(0, "ours")]));
    sandbox.commit_all(&parent, "clash");
    sandbox.git(&parent, &["checkout", "-q", "main"]);
    assert_ne!(sandbox.try_git(&other, &["rebase", "-q", "base"]).0, 0);
    refused("being rebased");
    sandbox.git(&other, &["rebase", "--abort"]);
    sandbox.git(&other, &["bisect", "start"]);
    sandbox.git(&other, &["checkout", "-q", "--detach"]);
    refused("being bisected");
    sandbox.git(&other, &["checkout", "-q", "issue/w"]);
    sandbox.git(&other, &["bisect", "reset"]);
    sandbox.git(&other, &["checkout", "-q", "--detach"]);
    sandbox.try_isolate("w", &parent, &sandbox.path("child"), &[]).expect("isolated", 0);

    // The Parent itself may be on the branch of the id.
    let report = sandbox.unchanged(&sandbox.path("child"), "failed", 1, || {
        sandbox.try_isolate("w", &sandbox.path("child"), &sandbox.path("again"), &[])
    });
    assert!(report.contains("issue/w") && report.contains(text(&sandbox.path("child"))), "{report}");
}

#[test]
fn a_ref_in_the_way_is_named() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    for (branch, id) in [("issue", "w"), ("issue/w/below", "w")] {
        sandbox.git(&parent, &["branch", branch]);
        let report =
            sandbox.unchanged(&parent, "failed", 1, || sandbox.try_isolate(id, &parent, &sandbox.path("child"), &[]));
        assert!(report.contains(&format!("refs/heads/{branch} ")), "{report}");
        sandbox.git(&parent, &["branch", "-q", "-D", branch]);
    }
    sandbox.git(&parent, &["branch", "issue/9/x"]);
    sandbox.git(&parent, &["pack-refs", "--all"]);
    let report = sandbox
        .unchanged(&parent, "failed", 1, || sandbox.try_isolate("github:o/r#9", &parent, &sandbox.path("child"), &[]));
    assert!(report.contains("refs/heads/issue/9/x"), "{report}");
    // A detached Child needs no branch.
    sandbox.try_isolate("github:o/r#9", &parent, &sandbox.path("child"), &["--detach"]).expect("isolated", 0);
}

#[test]
fn an_existing_branch_moves_and_what_only_it_reached_is_saved() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let head = sandbox.git(&parent, &["rev-parse", "HEAD"]);
    // Where the Parent is: nothing to move. Behind: nothing becomes unreachable.
    sandbox.git(&parent, &["branch", "issue/same"]);
    write(&parent, "b", "more\n");
    sandbox.commit_all(&parent, "more");
    sandbox.git(&parent, &["branch", "issue/behind", &head]);
    // Ahead on its own; ahead, but another branch and a tag reach it as well.
    let side = |branch: &str| {
        let tree = sandbox.git(&parent, &["rev-parse", "HEAD^{tree}"]);
        let commit = sandbox.git(&parent, &["commit-tree", &tree, "-p", &head, "-m", branch]);
        sandbox.git(&parent, &["branch", branch, &commit]);
        commit
    };
    let alone = side("issue/alone");
    let kept = side("issue/kept");
    sandbox.git(&parent, &["branch", "another", &kept]);
    let tagged = side("issue/tagged");
    sandbox.git(&parent, &["tag", "-a", "-m", "t", "v1", &tagged]);
    let new = sandbox.git(&parent, &["rev-parse", "HEAD"]);
    for id in ["same", "behind", "alone", "kept", "tagged"] {
        let run = sandbox.try_isolate(id, &parent, &sandbox.path(id), &[]).expect("isolated", 0);
        assert_eq!(sandbox.git(&parent, &["rev-parse", &format!("issue/{id}")]), new);
        let saved = run.last()["saved"].clone();
        if id == "alone" {
            let name = saved[0].as_str().expect("a ref");
            assert!(name.starts_with("refs/isofold/saved/"), "{name}");
            assert_eq!(sandbox.git(&parent, &["rev-parse", name]), alone);
        } else {
            assert_eq!(saved, json!([]), "{id}");
        }
    }
    let refs = sandbox.git(&parent, &["for-each-ref", "refs/isofold/saved"]);
    assert_eq!(refs.lines().count(), 1);
}

#[test]
fn only_our_own_gone_entry_is_replaced() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let add = |name: &str, branch: &str| {
        let place = sandbox.path(name);
        sandbox.git(&parent, &["worktree", "add", "-q", "-b", branch, text(&place)]);
        fs::remove_dir_all(&place).expect("a worktree");
    };
    add("by-branch", "issue/w");
    add("by-place", "elsewhere");
    add("bystander", "third");
    let registered = || {
        let list = sandbox.git(&parent, &["worktree", "list", "--porcelain"]);
        let places = list.lines().filter_map(|line| line.strip_prefix("worktree ")).map(str::to_owned);
        let mut places: Vec<String> = places.collect();
        places.sort();
        places
    };
    assert_eq!(registered().len(), 4);
    sandbox.try_isolate("w", &parent, &sandbox.path("by-place"), &[]).expect("isolated", 0);
    assert_eq!(registered(), ["by-place", "bystander", "parent"].map(|name| text(&sandbox.path(name)).to_owned()));
    // The same place and id once more, after somebody deleted the directory by hand.
    fs::remove_dir_all(sandbox.path("by-place")).expect("a Child");
    sandbox.try_isolate("w", &parent, &sandbox.path("by-place"), &[]).expect("isolated", 0);
    assert_eq!(registered().len(), 3);
}

#[test]
fn a_failure_replaces_no_entry() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let (gone, live) = (sandbox.path("gone"), sandbox.path("live"));
    sandbox.git(&parent, &["worktree", "add", "-q", "--detach", text(&gone)]);
    let only_there = {
        write(&gone, "a", "only there\n");
        sandbox.commit_all(&gone, "only there");
        sandbox.git(&gone, &["rev-parse", "HEAD"])
    };
    fs::remove_dir_all(&gone).expect("a worktree");
    sandbox.git(&parent, &["worktree", "add", "-q", "-b", "issue/w", text(&live)]);
    let report = sandbox.unchanged(&parent, "failed", 1, || sandbox.try_isolate("w", &parent, &gone, &[]));
    assert!(report.contains(text(&live)), "{report}");
    // Nor a failure that comes late.
    let report = sandbox
        .unchanged(&parent, "failed", 1, || sandbox.try_isolate("other", &parent, &gone, &["--duration-ms", "1"]));
    assert_eq!(report, "The Isolation clock fired.");
    // A success does, and saves the commit that only the entry reached.
    let run = sandbox.try_isolate("other", &parent, &gone, &[]).expect("isolated", 0);
    let saved = run.last()["saved"][0].as_str().expect("a ref").to_owned();
    assert_eq!(sandbox.git(&parent, &["rev-parse", &saved]), only_there);
}

#[test]
fn a_locked_entry_is_refused() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let place = sandbox.path("volume");
    sandbox.git(&parent, &["worktree", "add", "-q", "-b", "issue/w", text(&place)]);
    sandbox.git(&parent, &["worktree", "lock", "--reason", "on a stick", text(&place)]);
    fs::remove_dir_all(&place).expect("a worktree");
    for child in [place.clone(), sandbox.path("child")] {
        let report = sandbox.unchanged(&parent, "failed", 1, || sandbox.try_isolate("w", &parent, &child, &[]));
        assert!(report.contains("on a stick") && report.contains(text(&place)), "{report}");
    }
}

#[test]
fn an_unborn_parent_gives_an_unborn_child() {
    let sandbox = Sandbox::new();
    let parent = sandbox.empty_repo("parent");
    write(&parent, "a", "first\n");
    sandbox.git(&parent, &["add", "a"]);
    write(&parent, "b", "untracked\n");
    let report = sandbox.unchanged(&parent, "failed", 1, || {
        sandbox.try_isolate("w", &parent, &sandbox.path("detached"), &["--detach"])
    });
    assert!(report.contains("no commit yet"), "{report}");
    let child = sandbox.isolate(&parent, "child");
    assert_eq!(sandbox.git(&child, &["symbolic-ref", "HEAD"]), "refs/heads/issue/child");
    assert_eq!(sandbox.git(&child, &["status", "--porcelain"]), "A  a\n?? b");
    write(&child, "c", "new\n");
    sandbox.fold(&parent, &child);
    assert_eq!(read(&parent, "c").as_deref(), Some("new\n"));
    assert_eq!(sandbox.git(&parent, &["status", "--porcelain"]), "");
}

#[test]
fn every_kind_of_parent_works() {
    let sandbox = Sandbox::new();
    let main = sandbox.repo("main");
    let linked = sandbox.path("linked");
    sandbox.git(&main, &["worktree", "add", "-q", "-b", "feature", text(&linked)]);
    let first = sandbox.isolate(&main, "first");
    let detached = sandbox.repo("detached");
    sandbox.git(&detached, &["checkout", "-q", "--detach"]);
    sandbox.git(&sandbox.path(""), &["clone", "-q", "--bare", text(&main), "bare.git"]);
    let of_bare = sandbox.path("of-bare");
    sandbox.git(&sandbox.path("bare.git"), &["worktree", "add", "-q", "-b", "topic", text(&of_bare)]);
    sandbox.git(&of_bare, &["config", "user.name", "Test"]);
    sandbox.git(&of_bare, &["config", "user.email", "test@example.test"]);
    for (name, parent) in
        [("main", main), ("linked", linked), ("first", first), ("detached", detached), ("of-bare", of_bare)]
    {
        write(&parent, "a", lines(&[(2, "dirty")]));
        write(&parent, "new", "untracked\n");
        next_second();
        let head = sandbox.git(&parent, &["rev-parse", "--symbolic-full-name", "HEAD"]);
        let before = sandbox.git(&parent, &["--no-optional-locks", "status", "--porcelain=v2"]);
        let child = sandbox.isolate(&parent, &format!("child-of-{name}"));
        assert_eq!(sandbox.git(&parent, &["--no-optional-locks", "status", "--porcelain=v2"]), before, "{name}");
        assert_eq!(sandbox.git(&child, &["status", "--porcelain=v2"]), before, "{name}");
        write(&child, "b", lines(&[(5, name)]));
        sandbox.fold(&parent, &child);
        assert_eq!(read(&parent, "b"), Some(lines(&[(5, name)])), "{name}");
        assert_eq!(sandbox.git(&parent, &["status", "--porcelain"]), "", "{name}");
        assert_eq!(sandbox.git(&parent, &["rev-parse", "--symbolic-full-name", "HEAD"]), head);
    }
}

/// Puts a path into the index in three stages.
pub(crate) fn unmerge(sandbox: &Sandbox, repo: &Path) {
    let blob = sandbox.git(repo, &["rev-parse", "HEAD:a"]);
    let rows = format!("0 {blob}\ta\n100644 {blob} 1\ta\n100644 {blob} 2\ta\n100644 {blob} 3\ta\n");
    let mut git = sandbox.command("git");
    git.arg("-C").arg(repo).args(["update-index", "--index-info"]).stdin(std::process::Stdio::piped());
    let mut child = git.spawn().expect("git runs");
    std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), rows.as_bytes()).expect("written");
    assert!(child.wait().expect("an end").success());
}

#[test]
fn unmerged_entries_are_refused() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    unmerge(&sandbox, &parent);
    let report =
        sandbox.unchanged(&parent, "failed", 1, || sandbox.try_isolate("w", &parent, &sandbox.path("x/child"), &[]));
    assert!(report.contains("unmerged") && report.contains("(a)"), "{report}");
}

#[test]
fn a_place_without_permission_fails_and_nothing_is_left() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let closed = sandbox.path("closed");
    fs::create_dir(&closed).expect("a directory");
    sandbox.give_all_away();
    let mode = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    };
    let run = |child: &Path| {
        let mut command = sandbox.unprivileged();
        command.args(["isolate", "--id", "w", "--parent", text(&parent), "--child", text(child)]);
        Run::of_command(&mut command)
    };
    mode(&closed, 0o555);
    let report = sandbox.unchanged(&parent, "failed", 1, || run(&closed.join("child")));
    assert!(report.contains(text(&closed)) && report.contains("ermission denied"), "{report}");
    mode(&closed, 0o755);
    // The repository can be read but not written.
    let git = parent.join(".git");
    mode(&git, 0o555);
    let report = sandbox.unchanged(&parent, "failed", 1, || run(&sandbox.path("new/child")));
    assert!(report.contains(text(&git)) && report.contains("ermission denied"), "{report}");
    mode(&git, 0o755);
    // A directory above the Parent that can't be entered.
    mode(&closed, 0o000);
    let mut command = sandbox.unprivileged();
    let inside = closed.join("parent");
    let child = sandbox.path("child");
    command.args(["isolate", "--id", "w", "--parent", text(&inside), "--child", text(&child)]);
    let report = Run::of_command(&mut command).expect("invalid-invocation", 2).one_line_report();
    assert!(report.contains(text(&inside)) && report.contains("ermission denied"), "{report}");
    mode(&closed, 0o755);
    // What belongs to somebody else and is closed fails; what is ours but closed is copied.
    let file = parent.join("file");
    fs::write(&file, "x\n").expect("a file");
    mode(&file, 0o000);
    if is_root() {
        let report = sandbox.unchanged(&parent, "failed", 1, || run(&sandbox.path("new/child")));
        assert!(report.contains(text(&file)) && report.contains("ermission denied"), "{report}");
        sandbox.give_away(&file);
    } else {
        skipped("a file of somebody else needs root to make one");
    }
    run(&sandbox.path("new/child")).expect("isolated", 0);
    let copy = sandbox.path("new/child/file");
    assert_eq!(fs::symlink_metadata(&copy).expect("the copy").permissions().mode() & 0o777, 0);
    mode(&copy, 0o600);
    assert_eq!(fs::read_to_string(&copy).expect("the copy"), "x\n");
}

#[test]
fn a_full_disk_fails_and_nothing_is_left() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    for number in 0..40 {
        write(&parent, format!("big/{number}"), vec![b'x'; 50_000 + number]);
    }
    let Some(disk) = sandbox.small_disk("disk", 600) else { return };
    for more in [&[][..], &["--detach"]] {
        let report = sandbox.unchanged(&parent, "failed", 1, || {
            let run = sandbox.try_isolate("w", &parent, &disk.path().join("above/child"), more);
            assert!(!disk.path().join("above").exists());
            run
        });
        assert!(report.contains("No space left") && report.contains("above/child"), "{report}");
    }
}

#[test]
fn a_full_disk_under_the_repository_fails_and_nothing_is_left() {
    let sandbox = Sandbox::new();
    let Some(disk) = sandbox.small_disk("disk", 1400) else { return };
    let parent = sandbox.repo("disk/parent");
    write(&parent, "noise", noise(900_000));
    let report =
        sandbox.unchanged(&parent, "failed", 1, || sandbox.try_isolate("w", &parent, &sandbox.path("child"), &[]));
    assert!(report.contains("pace"), "{report}");
    drop(disk);
}

/// Bytes that don't compress.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut seed = 7_u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed.to_be_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn a_held_index_lock_does_not_stop_an_isolation() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    fs::write(parent.join(".git/index.lock"), "").expect("a lock");
    let before = sandbox.state(&parent);
    let run = sandbox.try_isolate("w", &parent, &sandbox.path("child"), &[]);
    let run = run.expect("isolated", 0);
    assert_eq!(run.phases().last().map(String::as_str), Some("isolated"));
    let files = |state: &str| state.split("\nindex ").next().unwrap_or_default().to_owned();
    same(&files(&sandbox.state(&parent)), &files(&before), "an isolation only reads the index");
    assert!(parent.join(".git/index.lock").exists());
}

#[test]
fn a_lock_on_the_branch_is_named() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    write(&parent, ".git/refs/heads/issue/w.lock", "");
    write(&parent, "a", lines(&[(0, "dirty")]));
    let report =
        sandbox.unchanged(&parent, "failed", 1, || sandbox.try_isolate("w", &parent, &sandbox.path("child"), &[]));
    assert!(report.contains("refs/heads/issue/w"), "{report}");
    fs::remove_file(parent.join(".git/refs/heads/issue/w.lock")).expect("the lock");
    sandbox.try_isolate("w", &parent, &sandbox.path("child"), &[]).expect("isolated", 0);
}

#[test]
fn the_locale_does_not_change_a_report() {
    let sandbox = Sandbox::new();
    let parent = sandbox.path("plain");
    fs::create_dir(&parent).expect("a directory");
    let child = sandbox.path("child");
    let mut command = sandbox.program();
    command.env("LC_ALL", "de_DE.UTF-8").env("LANGUAGE", "de");
    command.args(["isolate", "--id", "w", "--parent", text(&parent), "--child", text(&child)]);
    let report = Run::of_command(&mut command).expect("failed", 1).one_line_report();
    assert!(report.contains("is not a git repository"), "{report}");
}
