//! `examples/host.rs`: a whole host in Rust.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use crate::support::{Sandbox, example, lines, read, write};

fn host(sandbox: &Sandbox, repo: &Path, id: &str, script: &str) -> Output {
    let mut host = sandbox.command(example("host"));
    host.arg(repo).arg(sandbox.path("scratch")).args([id, "sh", "-c", script]);
    host.output().expect("the host runs")
}

fn prepared() -> (Sandbox, PathBuf, PathBuf) {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("scratch")).expect("a directory");
    let repo = sandbox.repo("repo");
    let child = sandbox.path("scratch/issue-9");
    (sandbox, repo, child)
}

#[test]
fn a_task_is_isolated_done_folded_and_taken_away() {
    let (sandbox, repo, child) = prepared();
    write(&repo, ".env", "SECRET=1\n");
    write(&repo, "b", lines(&[(1, "loose")]));
    let output = host(&sandbox, &repo, "github:owner/repo#9", "test ! -e .env && echo new >new");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.starts_with("1 files folded into "), "{output:?}");
    assert_eq!(read(&repo, "new").as_deref(), Some("new\n"));
    assert_eq!(sandbox.git(&repo, &["log", "-1", "--format=%s"]), "Work on github:owner/repo#9");
    assert!(!child.exists());
    assert!(!sandbox.git(&repo, &["worktree", "list"]).contains("scratch"));
}

#[test]
fn a_conflict_leaves_the_child_and_the_next_run_saves_its_work() {
    let (sandbox, repo, child) = prepared();
    let script = format!("echo child >a; echo parent >{}/a", repo.display());
    let output = host(&sandbox, &repo, "9", &script);
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && why.starts_with("error: conflict: ") && why.contains("isofold update"),
        "{why}"
    );
    assert_eq!(read(&repo, "a").as_deref(), Some("parent\n"));
    assert_eq!(read(&child, "a").as_deref(), Some("child\n"));
    let output = host(&sandbox, &repo, "9", "true");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let saved = said.lines().find_map(|line| line.strip_prefix("saved: ")).expect("a saved ref").to_owned();
    assert_eq!(sandbox.git(&repo, &["show", &format!("{saved}:a")]), "child");
}

#[test]
fn work_that_fails_is_not_folded() {
    let (sandbox, repo, child) = prepared();
    let before = sandbox.git(&repo, &["rev-parse", "HEAD"]);
    let output = host(&sandbox, &repo, "9", "echo half >a; exit 3");
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: sh failed: "), "{output:?}");
    assert_eq!(sandbox.git(&repo, &["rev-parse", "HEAD"]), before);
    assert_eq!(read(&child, "a").as_deref(), Some("half\n"));
}
