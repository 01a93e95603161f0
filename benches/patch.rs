//! `cargo bench --bench patch [-- --rounds N] [--fs a,b]`
//!
//! `isofold patch record` in a linked worktree of 20,000 files with one edit, against the git commands that a
//! script would run for the same patch; the CPU of one record is given by itself.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table")]

mod common;

use std::cell::Cell;
use std::fs;
use std::path::Path;

use common::{
    Arguments, Contestant, ISOFOLD, Report, command, commit, contest, init, run, settle, small_files, systems, time,
};

fn main() {
    let arguments = Arguments::read();
    let mut report = Report::default();
    for system in systems(&arguments) {
        let (main, worktree) = (system.root.join("main"), system.root.join("worktree"));
        init(&main);
        small_files(&main, 20_000, 1);
        commit(&main);
        run(&main, "git", &["worktree", "add", "-q", worktree.to_str().expect("UTF-8")]);
        settle();
        run(&worktree, "git", &["status", "--porcelain"]);
        let start = run(&main, "git", &["rev-parse", "HEAD"]);
        let count = Cell::new(0);
        let edit = || {
            count.set(count.get() + 1);
            fs::write(worktree.join("d7/e3/f1.txt"), format!("edit {}\n", count.get())).expect("written");
        };
        edit();
        record(&worktree);
        let mut samples: Vec<f64> = (0..arguments.rounds.max(3) * 3)
            .map(|_| {
                edit();
                time(|| record(&worktree)).cpu * 1e3
            })
            .collect();
        samples.sort_by(f64::total_cmp);
        report.fact(&format!("record after one edit, {}: CPU ms, median", system.name), samples[samples.len() / 2]);
        report.fact(&format!("record after one edit, {}: CPU ms, most", system.name), samples[samples.len() - 1]);
        let again = time(|| record(&worktree)).cpu * 1e3;
        report.fact(&format!("record after nothing, {}: CPU ms", system.name), again);
        let mut contestants = [
            Contestant {
                name: "isofold",
                prepare: Box::new(&edit),
                work: Box::new(|| record(&worktree)),
                clean: Box::new(|| {}),
            },
            Contestant {
                name: "git commands",
                prepare: Box::new(&edit),
                work: Box::new(|| git_commands(&worktree, &start)),
                clean: Box::new(|| {}),
            },
        ];
        contest(&format!("record 1 of 20,000 {}", system.name), arguments.rounds, &mut contestants, &mut report);
    }
    report.finish();
}

fn record(worktree: &Path) {
    run(worktree, ISOFOLD, &["patch", "record", "--agent", "bench"]);
}

/// `add -A` into a copy of the index, `write-tree`, `diff-tree` into a file.
fn git_commands(worktree: &Path, start: &str) {
    let index = run(worktree, "git", &["rev-parse", "--path-format=absolute", "--git-path", "index"]);
    let copy = format!("{index}.copy");
    run(worktree, "cp", &["-p", &index, &copy]);
    let git = |arguments: &[&str]| {
        let done = command(worktree, "git").env("GIT_INDEX_FILE", &copy).args(arguments).output().expect("it runs");
        assert!(done.status.success());
        done.stdout
    };
    git(&["add", "-A"]);
    let tree = String::from_utf8_lossy(&git(&["write-tree"])).trim().to_owned();
    let patch = git(&["diff-tree", "-p", "--binary", "--full-index", "-M", start, &tree]);
    fs::write(format!("{copy}.patch"), patch).expect("written");
    fs::remove_file(copy).expect("removed");
}
