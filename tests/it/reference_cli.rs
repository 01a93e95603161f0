//! `isofold reference` where no network is needed: what is refused, what is printed, exit codes.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::host::text;
use crate::support::lines::{TOKEN, VARIABLE};
use crate::support::{Run, Sandbox, write};

fn asked(sandbox: &Sandbox, action: &str, reference: &str, more: &[&str]) -> Run {
    write(&sandbox.path(""), "reference", reference);
    let file = sandbox.path("reference");
    let mut args = vec!["reference", action, "--reference", text(&file)];
    args.extend(more);
    sandbox.isofold(args)
}

#[test]
fn what_is_no_reference_is_refused_in_these_words() {
    let sandbox = Sandbox::new();
    let copy = sandbox.path("copy");
    let base = r#""remote":"https://localhost/r","branch":"main""#;
    let known = "a git reference has remote, branch, credentialEnv, author";
    let secret = "credentials in it; leave them out, and name the environment variable that holds the token in \"credentialEnv\"";
    for (reference, message) in [
        (format!(r#"{{{base},"token":"x"}}"#), format!("unknown key \"token\" — {known}")),
        (r#"{"remote":"https://localhost/r"}"#.to_owned(), "missing \"branch\" — a git reference has remote, branch".to_owned()),
        (r#"{"branch":"main"}"#.to_owned(), "missing \"remote\" — a git reference has remote, branch".to_owned()),
        ("remote = \"r\"\nbranch = 1\n".to_owned(), "\"branch\" must be a non-empty string".to_owned()),
        ("remote = \" \"\nbranch = \"main\"\n".to_owned(), "\"remote\" must be a non-empty string".to_owned()),
        (format!(r#"{{{base},"credentialEnv":""}}"#), "\"credentialEnv\" must be a non-empty string".to_owned()),
        (format!(r#"{{{base},"author":"me"}}"#), "\"author\" must be { name, email }".to_owned()),
        (format!(r#"{{{base},"author":{{"name":" ","email":"e"}}}}"#), "\"author.name\" must be a non-empty string".to_owned()),
        (
            format!(r#"{{{base},"credentialEnv":"A}}; touch x; {{"}}"#),
            "\"credentialEnv\" must be the name of an environment variable: letters, digits and _, no digit first".to_owned(),
        ),
        (r#"{"remote":"https://u:secret@localhost/r","branch":"b"}"#.to_owned(), format!("\"remote\" has {secret}")),
        (r#"{"remote":"https://secret@localhost/r","branch":"b"}"#.to_owned(), format!("\"remote\" has {secret}")),
        (
            r#"{"remote":"http://example.test/r","branch":"b","credentialEnv":"A"}"#.to_owned(),
            "\"credentialEnv\" is refused for http://example.test: anybody on the way could read the token; use https://".to_owned(),
        ),
    ] {
        for action in ["inspect", "materialize", "env"] {
            let run = asked(&sandbox, action, &reference, &["--copy", text(&copy)]);
            assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (2, "", format!("error: {message}\n").as_str()));
            let run = asked(&sandbox, action, &reference, &["--copy", text(&copy), "--json"]);
            assert_eq!((run.code, run.lines()), (2, vec![json!({"kind": "invalid", "reason": message})]), "{run:?}");
            assert!(!run.stderr.contains("secret"));
        }
    }
    assert!(!copy.exists() && !sandbox.path("x").exists());
}

#[test]
fn arguments_that_make_no_sense() {
    let sandbox = Sandbox::new();
    let good = "remote = \"/r\"\nbranch = \"main\"\n";
    for (action, more) in [
        ("inspect", &[][..]),
        ("materialize", &["--copy", ""]),
        ("materialize", &["--copy", "x", "--duration-ms", "0"]),
        ("look", &["--copy", "x"]),
        ("inspect", &["--copy", "x", "--bogus"]),
    ] {
        let run = asked(&sandbox, action, good, more);
        assert!(run.code == 2 && run.stdout.is_empty() && run.stderr.starts_with("error: "), "{run:?}");
    }
    for args in [vec!["reference"], vec!["reference", "env"], vec!["reference", "env", "--reference", "none"]] {
        let run = sandbox.isofold(args);
        assert!(run.code == 2 && run.stdout.is_empty() && run.stderr.starts_with("error: "), "{run:?}");
    }
    // A path that depends on where a process stands is no address of a copy's origin.
    let run = asked(&sandbox, "materialize", "remote = \"r\"\nbranch = \"main\"\n", &["--copy", "x"]);
    assert_eq!(
        (run.code, run.stderr.as_str()),
        (1, "error: cannot reach r: it is a path, and a path has to be absolute\n")
    );
    assert!(!sandbox.path("x").exists());
}

#[test]
fn the_environment_is_printed_without_the_token() {
    let sandbox = Sandbox::new();
    let reference = json!({
        "remote": "https://Example.test:8443/r.git",
        "branch": "main",
        "credentialEnv": VARIABLE,
        "author": {"name": "Line Bot", "email": "bot@line.test"},
    });
    let helper = format!(
        "!f() {{ test \"$1\" = get || exit 0; test -n \"${{{VARIABLE}}}\" || {{ echo quit=1; exit 0; }}; printf 'username=x-access-token\\npassword=%s\\n' \"${{{VARIABLE}}}\"; }}; f"
    );
    let print = |reference: &Value, there: Option<&str>, more: &[&str]| {
        let mut command = sandbox.program();
        command.args(["reference", "env", "--reference", "-"]).args(more).env(VARIABLE, TOKEN);
        if let Some(there) = there {
            command.env("GIT_CONFIG_COUNT", there);
        }
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
        let mut stdin = child.stdin.take().expect("a pipe");
        std::io::Write::write_all(&mut stdin, reference.to_string().as_bytes()).expect("written");
        drop(stdin);
        let output = child.wait_with_output().expect("an end");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let who = "GIT_AUTHOR_NAME=Line Bot\nGIT_AUTHOR_EMAIL=bot@line.test\nGIT_COMMITTER_NAME=Line Bot\nGIT_COMMITTER_EMAIL=bot@line.test\n";
    let asks = |first: usize| {
        let (one, two) = (first, first + 1);
        format!(
            "GIT_TERMINAL_PROMPT=0\nGIT_CONFIG_COUNT={}\nGIT_CONFIG_KEY_{one}=credential.helper\nGIT_CONFIG_VALUE_{one}=\n\
             GIT_CONFIG_KEY_{two}=credential.https://example.test:8443.helper\nGIT_CONFIG_VALUE_{two}={helper}\n",
            first + 2
        )
    };
    assert_eq!(print(&reference, None, &[]), format!("{who}{}", asks(0)));
    assert_eq!(print(&reference, Some("4"), &[]), format!("{who}{}", asks(4)));
    let printed: Value = serde_json::from_str(&print(&reference, None, &["--json"])).expect("JSON");
    assert_eq!(printed["kind"], "env");
    assert_eq!(printed["summary"], "https://Example.test:8443/r.git (main)");
    assert_eq!(printed["target"], "main");
    assert_eq!(printed["env"]["GIT_CONFIG_VALUE_1"], helper);
    assert_eq!(printed["env"].as_object().expect("an object").len(), 10);
    // Without an author, without a token, and where nobody would ask for one.
    assert_eq!(print(&json!({"remote": "/r", "branch": "b"}), None, &[]), "");
    let ssh = json!({"remote": "git@h:r", "branch": "b", "credentialEnv": "A"});
    let cleared =
        "GIT_TERMINAL_PROMPT=0\nGIT_CONFIG_COUNT=1\nGIT_CONFIG_KEY_0=credential.helper\nGIT_CONFIG_VALUE_0=\n";
    assert_eq!(print(&ssh, None, &[]), cleared);
}

#[test]
fn a_directory_is_missing_matches_or_says_why_not() {
    let sandbox = Sandbox::new();
    let reference = "remote = \"https://localhost:1/line.git\"\nbranch = \"main\"\n";
    let copy = sandbox.path("copy");
    let says = |plain: &str, kind: Value| {
        let args = ["--copy", text(&copy)];
        let run = asked(&sandbox, "inspect", reference, &args);
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, format!("{plain}\n").as_str(), ""));
        let run = asked(&sandbox, "inspect", reference, &[&args[..], &["--json"]].concat());
        assert_eq!((run.code, run.lines()), (0, vec![kind]));
    };
    let mismatch = |why: &str| says(&format!("mismatch: {why}"), json!({"kind": "mismatch", "reason": why}));
    let here = text(&copy);
    says("missing", json!({"kind": "missing"}));
    fs::write(&copy, "a file").expect("written");
    mismatch(&format!("{here} exists and is not a directory"));
    fs::remove_file(&copy).expect("removed");
    symlink("nowhere", &copy).expect("a link");
    mismatch(&format!("{here} exists and is not a directory"));
    fs::remove_file(&copy).expect("removed");
    fs::create_dir(&copy).expect("made");
    mismatch(&format!("{here} is not a git tree"));
    // A directory in another repository is none of its own; nor has a bare one a tree.
    sandbox.git(&copy, &["init", "-q", "--bare", "."]);
    mismatch(&format!("{here} is not a git tree"));
    fs::remove_dir_all(&copy).expect("removed");
    let repo = sandbox.repo("copy");
    mismatch(&format!("{here} has no \"origin\" remote"));
    sandbox.git(&repo, &["remote", "add", "origin", "https://user:secret@localhost:1/other"]);
    mismatch(&format!("{here} has \"origin\" at https://***@localhost:1/other, not https://localhost:1/line.git"));
    // What the machine makes of an address does not count; how it is spelled neither.
    sandbox.git(&repo, &["config", "--global", "url.https://elsewhere/.insteadOf", "https://localhost:1/"]);
    for spelled in ["https://localhost:1/line.git", "https://localhost:1/line", "https://localhost:1/line.git/"] {
        sandbox.git(&repo, &["remote", "set-url", "origin", spelled]);
        says("matches", json!({"kind": "matches"}));
    }
    sandbox.git(&repo, &["checkout", "-q", "-b", "topic/x"]);
    mismatch(&format!("{here} is on \"topic/x\", not \"main\""));
    sandbox.git(&repo, &["checkout", "-q", "--detach"]);
    mismatch(&format!("{here} is on \"HEAD\", not \"main\""));
    // An unborn branch is on it as well.
    sandbox.git(&repo, &["checkout", "-q", "--orphan", "main2"]);
    sandbox.git(&repo, &["branch", "-D", "main"]);
    sandbox.git(&repo, &["symbolic-ref", "HEAD", "refs/heads/main"]);
    says("matches", json!({"kind": "matches"}));
    // What can't be read is a failure, not an answer.
    for (key, value) in [("core.repositoryFormatVersion", "1"), ("extensions.refStorage", "reftable")] {
        sandbox.git(&sandbox.path("home"), &["config", "--file", text(&repo.join(".git/config")), key, value]);
    }
    let run = asked(&sandbox, "inspect", reference, &["--copy", text(&repo), "--json"]);
    assert_eq!((run.code, run.last()["kind"].as_str()), (1, Some("failed")), "{run:?}");
    assert!(run.stderr.contains("reftable"), "{run:?}");
}

#[test]
fn a_line_on_the_disk_is_copied_whole_or_not_at_all() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("line");
    sandbox.git(&repo, &["branch", "other"]);
    let reference = format!("remote = \"{}\"\nbranch = \"main\"\n", text(&repo));
    let copy = sandbox.path("above/copy");
    let args = ["--copy", text(&copy), "--json"];
    let run = asked(&sandbox, "materialize", &reference, &args);
    let made = run.last();
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!((made["kind"].as_str(), made["copy"].as_str()), (Some("materialized"), Some(text(&copy))));
    assert_eq!(
        (made["branch"].as_str(), made["head"].as_str()),
        (Some("main"), Some(sandbox.git(&repo, &["rev-parse", "HEAD"]).as_str()))
    );
    assert!(made["elapsed_ms"].is_u64());
    assert_eq!(asked(&sandbox, "inspect", &reference, &args).last(), json!({"kind": "matches"}));
    // It borrows nothing from the other.
    fs::remove_dir_all(&repo).expect("removed");
    sandbox.git(&copy, &["fsck", "--full"]);
    assert_eq!(sandbox.git(&copy, &["status", "--porcelain"]), "");
    let other = sandbox.path("second");
    let run = asked(&sandbox, "materialize", &reference, &["--copy", text(&other)]);
    assert!(run.code == 1 && run.stderr.starts_with(&format!("error: cannot reach {}: ", text(&repo))), "{run:?}");
    assert!(!other.exists());
}

#[test]
fn files_that_cannot_be_made_leave_nothing() {
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("line");
    write(&repo, ".gitattributes", "a filter=broken\n");
    sandbox.commit_all(&repo, "filter");
    sandbox.git(&repo, &["config", "--global", "filter.broken.smudge", "false"]);
    sandbox.git(&repo, &["config", "--global", "filter.broken.required", "true"]);
    let reference = format!("remote = \"{}\"\nbranch = \"main\"\n", text(&repo));
    let run = asked(&sandbox, "materialize", &reference, &["--copy", text(&sandbox.path("above/copy"))]);
    let start = format!("error: cannot check out \"main\" of {}: ", text(&repo));
    assert!(run.code == 1 && run.stderr.starts_with(&start) && run.stderr.contains("broken"), "{run:?}");
    assert!(!sandbox.path("above").exists());
}
