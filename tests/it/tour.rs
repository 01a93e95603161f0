//! `examples/tour.rs`, the first thing that a newcomer runs: it leaves nothing behind.

use std::path::Path;
use std::process::Output;

use crate::support::{Sandbox, example, lines, next_second, write};

fn tour(sandbox: &Sandbox, repo: &Path) -> Output {
    sandbox.command(example("tour")).arg(repo).env("TMPDIR", sandbox.path("tmp")).output().expect("the tour runs")
}

#[test]
fn a_tour_of_a_dirty_repository_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("tmp")).expect("a directory");
    let repo = sandbox.repo("repo");
    write(&repo, "d", "d\n");
    sandbox.commit_all(&repo, "more");
    write(&repo, "a", lines(&[(3, "dirty")]));
    write(&repo, "new", "untracked\n");
    write(&repo, ".env", "SECRET=1\n");
    sandbox.git(&repo, &["add", "a"]);
    next_second();
    let before = sandbox.state(&repo);
    // Nobody to sign as: the tour signs itself.
    sandbox.git(&repo, &["config", "user.useConfigOnly", "true"]);
    sandbox.git(&repo, &["config", "--unset", "user.email"]);
    let output = tour(&sandbox, &repo);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    for words in ["left out as secrets: .env", "branch issue/isofold-tour-", "   merge: ", "All taken away"] {
        assert!(stdout.contains(words), "{words}: {stdout}");
    }
    // Objects that nothing reaches are all that may have come.
    sandbox.git(&repo, &["repack", "-a", "-d", "-q"]);
    sandbox.git(&repo, &["prune", "--expire=now"]);
    assert_eq!(sandbox.state(&repo), before);
    assert_eq!(std::fs::read_dir(sandbox.path("tmp")).expect("a directory").count(), 0);
}

#[test]
fn a_tour_of_what_is_no_repository_is_one_plain_sentence() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("tmp")).expect("a directory");
    let repo = sandbox.repo("repo");
    let unborn = sandbox.empty_repo("unborn");
    for (path, words) in [
        (sandbox.path("nothing"), "can't be read"),
        (sandbox.path("home"), "not a git repository"),
        (repo.join("dir"), "only a subdirectory"),
        (unborn, "no commit yet"),
    ] {
        let output = tour(&sandbox, &path);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains(words), "{stderr}");
    }
    assert_eq!(std::fs::read_dir(sandbox.path("tmp")).expect("a directory").count(), 0);
}
