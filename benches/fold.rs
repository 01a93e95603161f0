//! `cargo bench --bench fold [--rounds N] [--fs a,b]`
//!
//! A fold of 100 changed files of a Child into a Parent with 20 other changes (20,000 files) against
//! the git commands that another tool would run.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table")]

mod common;

use std::fs;
use std::path::Path;

use common::{
    Arguments, Contestant, ISOFOLD, Report, command, commit, contest, init, run, settle, small_files, systems,
};

fn main() {
    let arguments = Arguments::read();
    let mut report = Report::default();
    for system in systems(&arguments) {
        let (parent, child) = (system.root.join("parent"), system.root.join("child"));
        init(&parent);
        small_files(&parent, 20_000, 1);
        commit(&parent);
        let start = run(&parent, "git", &["rev-parse", "HEAD"]);
        let (p, c) = (parent.to_str().expect("UTF-8"), child.to_str().expect("UTF-8"));
        run(&parent, ISOFOLD, &["isolate", "--id", "bench", "--parent", p, "--child", c]);
        for number in 0..100 {
            edit(&child, number * 37, "child");
        }
        // A Parent that was never folded into knows only the base of the isolation.
        let (bases, kept) = (parent.join(".git/isofold/bases"), system.root.join("bases"));
        run(&parent, "cp", &["-a", bases.to_str().expect("UTF-8"), kept.to_str().expect("UTF-8")]);
        let reset = || {
            run(&parent, "git", &["reset", "-q", "--hard", &start]);
            fs::remove_dir_all(&bases).expect("removed");
            run(&parent, "cp", &["-a", kept.to_str().expect("UTF-8"), bases.to_str().expect("UTF-8")]);
            for number in 0..20 {
                edit(&parent, 10_001 + number * 53, "parent");
            }
            settle();
            run(&parent, "git", &["status", "--porcelain"]);
        };
        reset();
        fold(&parent, &child);
        let ours = run(&parent, "git", &["rev-parse", "HEAD^{tree}"]);
        reset();
        git_commands(&parent, &child, &start);
        assert_eq!(run(&parent, "git", &["rev-parse", "HEAD^{tree}"]), ours, "both must come to the same tree");
        assert_eq!(run(&parent, "git", &["status", "--porcelain"]), "");
        let mut contestants = [
            Contestant {
                name: "isofold",
                prepare: Box::new(reset),
                work: Box::new(|| fold(&parent, &child)),
                clean: Box::new(|| {}),
            },
            Contestant {
                name: "git commands",
                prepare: Box::new(reset),
                work: Box::new(|| git_commands(&parent, &child, &start)),
                clean: Box::new(|| {}),
            },
        ];
        contest(&format!("fold 100+20 {}", system.name), arguments.rounds, &mut contestants, &mut report);
    }
    report.finish();
}

fn edit(root: &Path, number: usize, text: &str) {
    let file = root.join(format!("d{}/e{}/f{}.txt", number / 100, number / 10 % 10, number % 10));
    let mut content = fs::read(&file).expect("a file");
    content.extend_from_slice(text.as_bytes());
    content.push(b'\n');
    fs::write(&file, content).expect("written");
}

fn fold(parent: &Path, child: &Path) {
    let (p, c) = (parent.to_str().expect("UTF-8"), child.to_str().expect("UTF-8"));
    run(parent, ISOFOLD, &["fold", "--id", "bench", "--parent", p, "--child", c]);
}

/// `add -A` into index copies on both sides, `write-tree`, `commit-tree`, `merge-tree`, `read-tree -u`.
fn git_commands(parent: &Path, child: &Path, start: &str) {
    let snapshot = |directory: &Path| {
        let index = run(directory, "git", &["rev-parse", "--path-format=absolute", "--git-path", "index"]);
        let copy = format!("{index}.copy");
        run(directory, "cp", &["-p", &index, &copy]);
        let git = |arguments: &[&str]| {
            let done =
                command(directory, "git").env("GIT_INDEX_FILE", &copy).args(arguments).output().expect("it runs");
            assert!(done.status.success());
            String::from_utf8_lossy(&done.stdout).trim().to_owned()
        };
        git(&["add", "-A"]);
        let tree = git(&["write-tree"]);
        (tree, index, copy)
    };
    let ((ours, index, copy), (theirs, _, other)) = (snapshot(parent), snapshot(child));
    fs::remove_file(other).expect("removed");
    let commit = |tree: &str, parents: &[&str]| {
        let mut arguments = vec!["commit-tree", tree, "-m", "bench"];
        arguments.extend(parents.iter().flat_map(|p| ["-p", p]));
        run(parent, "git", &arguments)
    };
    let (ours, theirs) = (commit(&ours, &[start]), commit(&theirs, &[start]));
    let merged = run(parent, "git", &["merge-tree", "--write-tree", &ours, &theirs]);
    let merge = commit(&merged, &[&ours, &theirs]);
    // The loose work is in the merge: the index moves to it first.
    fs::rename(copy, index).expect("moved");
    run(parent, "git", &["read-tree", "-m", "-u", &ours, &merge]);
    run(parent, "git", &["update-ref", "HEAD", &merge]);
}
