//! `cargo bench --bench combine [-- KIND…] [--rounds N]`
//!
//! One merge in trees of 20,000 and of 100,000 files, against `git merge-tree --write-tree` on the same
//! commits: 100 files changed on each side, apart from each other; then with files that both changed, with
//! renames, and with a base of two merges. Both work in the same repository, packed, in the temporary
//! directory, and both write what the merge makes: git's objects are taken away before each round, ours
//! are in a quarantine. Ours opens the repository each time, as git does; `combining` is what is left of it in a
//! fold, which has the repository open.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use common::{Arguments, Contestant, Random, Report, command, contest, init, run, time};
use isofold::MergeEngine;
use isofold::testing_combine::{Merge, merge_commits};

/// How the two sides meet.
const KINDS: [&str; 4] = ["disjoint", "overlap", "renames", "criss-cross"];

/// Files that a side changes.
const CHANGED: usize = 100;

fn main() {
    let arguments = Arguments::read();
    let mut report = Report::default();
    let mut alone = Vec::new();
    for count in [20_000, 100_000] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let repo = directory.path().canonicalize().expect("a path");
        init(&repo);
        import(&repo, count);
        run(&repo, "git", &["repack", "-adq"]);
        for kind in KINDS {
            if !arguments.wants(kind) {
                continue;
            }
            let side = |name: &str| run(&repo, "git", &["rev-parse", &format!("refs/made/{kind}-{name}")]);
            let (ours, theirs) = (side("ours"), side("theirs"));
            let first = by_us(&repo, &ours, &theirs);
            let tree = run(&repo, "git", &["merge-tree", "--write-tree", &ours, &theirs]);
            assert_eq!(first.result.expect("a clean merge"), tree, "both must come to the same tree");
            let mut contestants = [
                Contestant {
                    name: first.engine,
                    prepare: Box::new(|| forget(&repo)),
                    work: Box::new(|| drop(by_us(&repo, &ours, &theirs))),
                    clean: Box::new(|| {}),
                },
                Contestant {
                    name: "git merge-tree",
                    prepare: Box::new(|| forget(&repo)),
                    work: Box::new(|| by_git(&repo, &ours, &theirs)),
                    clean: Box::new(|| {}),
                },
            ];
            contest(&format!("{kind} {count} ({})", first.engine), arguments.rounds, &mut contestants, &mut report);
            forget(&repo);
            let rounds = arguments.rounds.max(5);
            let whole = median((0..rounds).map(|_| time(|| drop(by_us(&repo, &ours, &theirs))).wall * 1e3));
            // As in a fold, which has the repository open: round by round, against git's process.
            let mut inner: Vec<(f64, f64)> = Vec::new();
            for _ in 0..arguments.rounds.max(5) {
                forget(&repo);
                let git = time(|| by_git(&repo, &ours, &theirs)).wall;
                forget(&repo);
                inner.push((by_us(&repo, &ours, &theirs).combining.as_secs_f64(), git));
            }
            report.fact(&format!("{kind} {count}, combining, ms"), median(inner.iter().map(|(ours, _)| ours * 1e3)));
            report.fact(
                &format!("{kind} {count}, combining to git's"),
                median(inner.iter().map(|(ours, git)| ours / git)),
            );
            if kind == "disjoint" {
                alone.push(whole);
            }
        }
    }
    if let [small, large] = alone[..] {
        report.fact("disjoint, 100,000 files to 20,000, wall", large / small);
    }
    report.finish();
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn by_us(repo: &Path, ours: &str, theirs: &str) -> Merge {
    merge_commits(repo, ours, theirs, MergeEngine::Auto, false).expect("an answer")
}

fn by_git(repo: &Path, ours: &str, theirs: &str) {
    let done = command(repo, "git").args(["merge-tree", "--write-tree", ours, theirs]).output();
    assert!(done.expect("it runs").status.success());
}

/// Takes away the objects that git's merges left, so that the next one has to write them too.
fn forget(repo: &Path) {
    for entry in fs::read_dir(repo.join(".git/objects")).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.file_name().is_some_and(|name| name.len() == 2) {
            fs::remove_dir_all(&path).expect("removed");
        }
    }
}

/// Path and content of a file of the start.
fn file(number: usize) -> (String, Vec<u8>) {
    let mut random = Random::new(number as u64 * 2 + 1);
    let size = 400 + usize::try_from(random.below(3_000)).unwrap_or(0);
    (format!("d{}/e{}/f{}.txt", number / 100, number / 10 % 10, number % 10), random.text(size))
}

/// The start, and the sides of each kind, by one `git fast-import`.
fn import(repo: &Path, count: usize) {
    let mut git =
        command(repo, "git").args(["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn().expect("git runs");
    let mut stream = std::io::BufWriter::new(git.stdin.take().expect("stdin"));
    let put = |stream: &mut dyn std::io::Write, path: &str, content: &[u8]| {
        write!(stream, "M 100644 inline {path}\ndata {}\n", content.len()).expect("written");
        stream.write_all(content).expect("written");
        writeln!(stream).expect("written");
    };
    let commit = |stream: &mut dyn std::io::Write, name: &str, parents: &[&str]| {
        write!(stream, "commit refs/made/{name}\ncommitter B <b@example.test> 1600000000 +0000\ndata 1\nm\n")
            .expect("written");
        for (at, parent) in parents.iter().enumerate() {
            writeln!(stream, "{} refs/made/{parent}", if at == 0 { "from" } else { "merge" }).expect("written");
        }
    };
    commit(&mut stream, "start", &[]);
    for number in 0..count {
        let (path, content) = file(number);
        put(&mut stream, &path, &content);
    }
    let add = |stream: &mut dyn std::io::Write, changes: &BTreeMap<String, Option<Vec<u8>>>| {
        for (path, content) in changes {
            match content {
                Some(content) => put(stream, path, content),
                None => writeln!(stream, "D {path}").expect("written"),
            }
        }
    };
    for kind in KINDS {
        let mut of = BTreeMap::new();
        for name in ["ours", "theirs"] {
            let ours = name == "ours";
            let mut changes = BTreeMap::new();
            for number in 0..CHANGED {
                // The sides take turns; where they overlap, ten files are the same, at their two ends.
                let shared = (kind == "overlap" || kind == "renames") && number < 10;
                let at = number * (count / CHANGED) + if shared || ours { 0 } else { 15 };
                let (path, mut content) = file(at);
                if ours {
                    content.splice(0..0, b"ours\n".to_vec());
                } else {
                    content.extend_from_slice(b"\ntheirs\n");
                }
                let renamed = kind == "renames" && ours && number < 20;
                if renamed {
                    changes.insert(path.clone(), None);
                }
                changes.insert(if renamed { path.replace(".txt", ".renamed") } else { path }, Some(content));
            }
            of.insert(name, changes);
        }
        if kind == "criss-cross" {
            // Each side merged the other's first half, then went on.
            for (name, other) in [("ours", "theirs"), ("theirs", "ours")] {
                let half: BTreeMap<_, _> = of[name].clone().into_iter().take(CHANGED / 2).collect();
                commit(&mut stream, &format!("{kind}-{name}-half"), &["start"]);
                add(&mut stream, &half);
                let _ = other;
            }
            for (name, other) in [("ours", "theirs"), ("theirs", "ours")] {
                commit(
                    &mut stream,
                    &format!("{kind}-{name}"),
                    &[&format!("{kind}-{name}-half"), &format!("{kind}-{other}-half")],
                );
                let mut all: BTreeMap<_, _> = of[other].clone().into_iter().take(CHANGED / 2).collect();
                all.extend(of[name].clone());
                add(&mut stream, &all);
            }
        } else {
            for name in ["ours", "theirs"] {
                commit(&mut stream, &format!("{kind}-{name}"), &["start"]);
                add(&mut stream, &of[name]);
            }
        }
    }
    drop(stream.into_inner().expect("flushed"));
    assert!(git.wait().expect("it ends").success());
}
