//! isolate and fold that act for a reference: whose commits they make, and who sees what.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::host::text;
use crate::support::lines::{TOKEN, VARIABLE, Watched};
use crate::support::{Run, Sandbox, lines, next_second, read, write};

const AUTHOR: &str = "Line Bot <bot@line.test> Line Bot <bot@line.test>";

/// `isofold isolate` or `fold` for the reference, with the token and a locale in the environment.
fn job(sandbox: &Sandbox, command: &str, parent: &Path, child: &Path, more: &[&str]) -> Run {
    let mut program = sandbox.acting(Some(TOKEN));
    program.env("LC_ALL", "C.UTF-8").args([command, "--id", "w", "--parent", text(parent), "--child", text(child)]);
    program.args(["--reference", text(&sandbox.path("reference.toml"))]).args(more);
    Watched::start(program).finish(sandbox)
}

/// A Parent with filters and a merge driver that tell what they see; nobody has an identity.
fn parent(sandbox: &Sandbox) -> PathBuf {
    let repo = sandbox.repo("parent");
    write(&repo, ".gitattributes", "m merge=tell\nf filter=tell\n");
    write(&repo, "m", lines(&[]));
    write(&repo, "f", "one\n");
    sandbox.commit_all(&repo, "attributes");
    sandbox.talkative();
    let told = text(&sandbox.path("told")).to_owned();
    let driver = format!("env > {told}/driver; git merge-file %A %O %B");
    sandbox.git(&repo, &["config", "--global", "merge.tell.driver", &driver]);
    for key in ["user.name", "user.email"] {
        sandbox.git(&repo, &["config", "--unset", key]);
    }
    sandbox.git(&repo, &["config", "user.useConfigOnly", "true"]);
    next_second();
    repo
}

#[test]
fn what_a_fold_commits_carries_the_author_and_nobody_sees_the_token() {
    let sandbox = Sandbox::new();
    let parent = parent(&sandbox);
    sandbox.reference("https://localhost:1/line.git", "main");
    let child = sandbox.path("child");
    let tell = format!("env > '{}'; echo \"$@\" > /dev/null", text(&sandbox.path("told/status")));
    let on_status = ["--on-status", "--", "sh", "-c", &tell, "sh"];
    job(&sandbox, "isolate", &parent, &child, &on_status).expect("isolated", 0);
    let seen = |name: &str, locale: &str| {
        let seen = read(&sandbox.path("told"), name).unwrap_or_else(|| panic!("{name} did not run"));
        assert!(seen.lines().any(|line| line == format!("LC_ALL={locale}")), "{name}: {seen}");
        assert!(!seen.lines().any(|line| line.starts_with(&format!("{VARIABLE}="))), "{name}: {seen}");
        fs::remove_file(sandbox.path("told").join(name)).expect("removed");
        seen
    };
    seen("status", "C.UTF-8");
    write(&parent, "m", lines(&[(2, "parent")]));
    write(&child, "m", lines(&[(17, "child")]));
    write(&child, "f", "two\n");
    job(&sandbox, "fold", &parent, &child, &on_status).expect("integrated", 0);
    assert_eq!(read(&parent, "m"), Some(lines(&[(2, "parent"), (17, "child")])));
    let who = sandbox.git(&parent, &["log", "--format=%an <%ae> %cn <%ce>", "HEAD", "--not", "HEAD~2"]);
    let made = sandbox.git(&parent, &["log", "--format=%an <%ae> %cn <%ce>", "--grep=ntegration of w"]);
    assert!(made.lines().count() >= 3 && made.lines().all(|line| line == AUTHOR), "{made}");
    assert!(who.lines().all(|line| line == AUTHOR), "{who}");
    assert!(sandbox.git(&parent, &["reflog", "-1", "--format=%gn <%ge>"]).contains("Line Bot <bot@line.test>"));
    seen("status", "C.UTF-8");
    for name in ["filter", "driver"] {
        let seen = seen(name, "C");
        for line in ["GIT_COMMITTER_NAME=Line Bot", "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_KEY_0=credential.helper"] {
            assert!(seen.contains(line), "{name} does not see {line}: {seen}");
        }
    }
    let told: Vec<String> = sandbox.told().into_iter().filter(|name| name != "hook").collect();
    assert_eq!(told, [""; 0]);
}

#[test]
fn without_a_reference_it_is_whoever_runs_it() {
    let sandbox = Sandbox::new();
    let parent = parent(&sandbox);
    let child = sandbox.isolate(&parent, "child");
    write(&child, "a", "work\n");
    let report = sandbox.try_fold(&parent, &child, &[]).expect("failed", 3).report();
    assert!(report.contains("no identity"), "{report}");
    sandbox.reference("/line", "main");
    // Variables of the caller give way to the reference.
    let mut program = sandbox.acting(Some(TOKEN));
    program
        .env("GIT_AUTHOR_NAME", "Caller")
        .env("GIT_COMMITTER_EMAIL", "caller@x")
        .env("GIT_AUTHOR_DATE", "@86400 +0000");
    program.args(["fold", "--id", "w", "--parent", text(&parent), "--child", text(&child)]);
    program.args(["--reference", text(&sandbox.path("reference.toml"))]);
    Watched::start(program).finish(&sandbox).expect("integrated", 0);
    assert_eq!(sandbox.git(&parent, &["log", "-1", "--format=%an <%ae> %cn <%ce>"]), AUTHOR);
    assert_eq!(sandbox.git(&parent, &["log", "-1", "--format=%at"]), "86400");
}

#[test]
fn a_reference_that_cannot_be_used_is_an_invalid_invocation() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let file = sandbox.path("reference.json");
    let child = sandbox.path("child");
    let more = ["--reference", text(&file)];
    let refused = |message: &str| {
        let report =
            sandbox.unchanged(&parent, "invalid-invocation", 2, || sandbox.try_isolate("w", &parent, &child, &more));
        assert_eq!(report, message);
    };
    refused(&format!("the reference file {} can't be read: No such file or directory (os error 2)", text(&file)));
    for (content, message) in [
        (
            r#"{"remote":"/r","branch":"b","x":1}"#,
            "unknown key \"x\" — a git reference has remote, branch, credentialEnv, author",
        ),
        (r#"{"remote":"/r"}"#, "missing \"branch\" — a git reference has remote, branch"),
        (r#"{"remote":"/r","branch":3}"#, "\"branch\" must be a non-empty string"),
        ("remote = 1", "the reference can't be parsed: no JSON at line 1, column 1"),
    ] {
        fs::write(&file, content).expect("written");
        refused(message);
    }
    // Options come before it, and so do the paths.
    write(&parent, "isolationOptions.toml", "x = 1\n");
    refused(&format!(
        "{}:1: isolationOptions \"x\" is not one isofold reads (known: exclude).",
        text(&parent.join("isolationOptions.toml"))
    ));
    fs::remove_file(parent.join("isolationOptions.toml")).expect("removed");
    let made = sandbox.isolate(&parent, "made");
    let run = sandbox.try_fold(&parent, &made, &more).expect("invalid-invocation", 2);
    assert_eq!(run.report(), "the reference can't be parsed: no JSON at line 1, column 1");
}
