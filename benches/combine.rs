//! `cargo bench --bench combine [--rounds N]`
//!
//! The merge alone, in trees of 20,000 and of 100,000 files, against `git merge-tree --write-tree` on
//! the same commits: 100 files changed on each side, apart from each other; then with files that both
//! changed, and with renames. Both work in the same repository, packed, in the temporary directory.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table")]

mod common;

use std::fs;
use std::path::Path;

use common::{Arguments, Contestant, Report, command, commit, contest, init, run, small_files, time};
use isofold::MergeEngine;
use isofold::testing_combine::merge_commits;

/// How the two sides meet.
const KINDS: [&str; 3] = ["disjoint", "overlap", "renames"];

fn main() {
    let arguments = Arguments::read();
    let mut report = Report::default();
    let mut alone = Vec::new();
    for count in [20_000, 100_000] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let repo = directory.path().canonicalize().expect("a path");
        init(&repo);
        small_files(&repo, count, 1);
        commit(&repo);
        let start = run(&repo, "git", &["rev-parse", "HEAD"]);
        for kind in KINDS {
            if !arguments.wants(kind) {
                continue;
            }
            let ours = side(&repo, &start, count, kind, true);
            let theirs = side(&repo, &start, count, kind, false);
            run(&repo, "git", &["repack", "-adq"]);
            let engine = by_us(&repo, &ours, &theirs);
            let tree = run(&repo, "git", &["merge-tree", "--write-tree", &ours, &theirs]);
            assert_eq!(engine.1, tree, "both must come to the same tree");
            let mut contestants = [
                Contestant {
                    name: engine.0,
                    prepare: Box::new(|| {}),
                    work: Box::new(|| drop(by_us(&repo, &ours, &theirs))),
                    clean: Box::new(|| {}),
                },
                Contestant {
                    name: "git merge-tree",
                    prepare: Box::new(|| {}),
                    work: Box::new(|| {
                        let mut git = command(&repo, "git");
                        let done = git.args(["merge-tree", "--write-tree", &ours, &theirs]).output();
                        assert!(done.expect("it runs").status.success());
                    }),
                    clean: Box::new(|| {}),
                },
            ];
            contest(&format!("{kind} {count} ({})", engine.0), arguments.rounds, &mut contestants, &mut report);
            if kind == "disjoint" {
                let mut times: Vec<f64> =
                    (0..arguments.rounds.max(5)).map(|_| time(|| drop(by_us(&repo, &ours, &theirs))).wall).collect();
                times.sort_by(f64::total_cmp);
                alone.push(times[times.len() / 2]);
            }
        }
    }
    if let [small, large] = alone[..] {
        report.fact("disjoint, 100,000 files to 20,000, wall", large / small);
    }
    report.finish();
}

fn by_us(repo: &Path, ours: &str, theirs: &str) -> (&'static str, String) {
    let merge = merge_commits(repo, ours, theirs, MergeEngine::Auto, false).expect("an answer");
    (merge.engine, merge.result.expect("a clean merge"))
}

/// A commit on `start` that changes 100 files spread over the tree.
fn side(repo: &Path, start: &str, count: usize, kind: &str, ours: bool) -> String {
    run(repo, "git", &["checkout", "-q", "--detach", start]);
    for number in 0..100 {
        // The sides take turns; where they overlap, ten files are the same, at their two ends.
        let shared = kind != "disjoint" && number < 10;
        let at = number * (count / 100) + if shared || ours { 0 } else { 15 };
        let file = repo.join(format!("d{}/e{}/f{}.txt", at / 100, at / 10 % 10, at % 10));
        let mut content = fs::read(&file).expect("a file");
        if ours {
            content.splice(0..0, b"ours\n".to_vec());
        } else {
            content.extend_from_slice(b"\ntheirs\n");
        }
        fs::write(&file, content).expect("written");
        if kind == "renames" && ours && number < 20 {
            fs::rename(&file, file.with_extension("renamed")).expect("renamed");
        }
    }
    run(repo, "git", &["add", "-A"]);
    run(repo, "git", &["commit", "-q", "-m", "side"]);
    run(repo, "git", &["rev-parse", "HEAD"])
}
