//! Real changes merged by git and by every engine: what lies between two published versions of a crate,
//! dealt out to two sides, by odd seeds hunk by hunk, by even ones file by file. The registry has such pairs wherever this crate was built.
//! `ISOFOLD_FUZZ_ROUNDS` deals of each pair (default 6) from `ISOFOLD_FUZZ_SEED`.
#![allow(clippy::print_stdout, reason = "figures for docs/measurements.md")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use isofold::MergeEngine;

use crate::combine_fuzz::Count;
use crate::snapshot_real::registry;
use crate::support::Sandbox;
use crate::support::histories::{Commit, FILE, Tree, by, empty_repo, import, oracle, wrong};
use crate::support::host::skipped;
use crate::support::random::{Random, seeds};

/// Pairs of versions that are taken, and files of the larger one at most.
const PAIRS: usize = 3;
const FILES: usize = 150;

#[test]
fn real_changes_dealt_to_both_sides_are_never_merged_wrongly() {
    let pairs: Vec<_> = registry().as_deref().map(versions).unwrap_or_default();
    if pairs.is_empty() {
        return skipped("no crate is there in two versions in the registry of cargo");
    }
    let s = Sandbox::new();
    let repo = empty_repo(&s, "r");
    let (mut counts, mut failures): (BTreeMap<String, Count>, _) = (BTreeMap::new(), Vec::new());
    for (name, old, new) in pairs {
        let versions = import(
            &s,
            &repo,
            &[Commit { parents: Vec::new(), tree: old.clone() }, Commit { parents: Vec::new(), tree: new.clone() }],
        );
        let hunks = hunks(&s, &repo, &versions[0], &versions[1]);
        println!("{name}: {} files, {} of them changed", new.len(), hunks.len());
        let mut commits = Vec::new();
        for seed in seeds(6) {
            let [ours, theirs] = deal(seed, &old, &new, &hunks);
            let base = commits.len();
            commits.push(Commit { parents: Vec::new(), tree: old.clone() });
            commits.extend([ours, theirs].map(|tree| Commit { parents: vec![base], tree }));
        }
        for (seed, ids) in seeds(6).zip(import(&s, &repo, &commits).chunks(3)) {
            let git = oracle(&s, &repo, &ids[1], &ids[2]);
            for engine in [MergeEngine::Auto, MergeEngine::Git, MergeEngine::Builtin] {
                let merge = by(&repo, &ids[1], &ids[2], engine);
                let needless = counts.entry(format!("{engine:?}")).or_default().note(git.as_deref(), &merge);
                let needless = (needless && engine != MergeEngine::Builtin).then_some("conflict where git is clean");
                if let Some(problem) = wrong(git.as_deref(), &merge).or(needless) {
                    failures.push(format!("{name}, seed {seed}, {engine:?} by {}: {problem}", merge.engine));
                }
            }
        }
    }
    println!("{counts:#?}");
    assert!(failures.is_empty(), "{failures:#?}");
    let all = &counts["Auto"];
    assert!(all.git_clean > 0 && all.git_clean < all.asked, "both kinds of answer: {all:?}");
}

/// By hand: `ISOFOLD_MERGES` names a repository that `fixtures/real-merges.sh` made.
#[test]
fn real_merges_are_never_merged_wrongly() {
    let Some(repo) = std::env::var_os("ISOFOLD_MERGES").map(PathBuf::from) else {
        println!("not run: ISOFOLD_MERGES names no repository");
        return;
    };
    let s = Sandbox::new();
    let refs = s.git(&repo, &["for-each-ref", "--format=%(refname) %(objectname)", "refs/pairs"]);
    let refs: BTreeMap<&str, &str> = refs.lines().filter_map(|line| line.split_once(' ')).collect();
    let (mut counts, mut failures): (BTreeMap<String, Count>, _) = (BTreeMap::new(), Vec::new());
    for (name, ours) in refs.iter().filter(|(name, _)| name.ends_with("/ours")) {
        let theirs = refs[name.replace("/ours", "/theirs").as_str()];
        let git = oracle(&s, &repo, ours, theirs);
        for engine in [MergeEngine::Auto, MergeEngine::Builtin] {
            let merge = by(&repo, ours, theirs, engine);
            counts.entry(format!("{engine:?}")).or_default().note(git.as_deref(), &merge);
            if let Some(problem) = wrong(git.as_deref(), &merge) {
                failures.push(format!("{name}, {engine:?} by {}: {problem}", merge.engine));
            }
        }
    }
    println!("{counts:#?}");
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(counts.values().all(|count| count.asked > 100), "too few merges");
}

/// Crates that the registry has in several versions: name, an older and a newer one.
fn versions(registry: &Path) -> Vec<(String, Tree, Tree)> {
    let mut crates: BTreeMap<String, BTreeSet<(Vec<u64>, PathBuf)>> = BTreeMap::new();
    for entry in fs::read_dir(registry).expect("readable").filter_map(Result::ok) {
        let full = entry.file_name().to_string_lossy().into_owned();
        // The version is what follows the first hyphen before a digit.
        let Some(at) =
            full.match_indices('-').map(|(at, _)| at).find(|at| full[at + 1..].starts_with(char::is_numeric))
        else {
            continue;
        };
        let version = full[at + 1..].split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect();
        crates.entry(full[..at].to_owned()).or_default().insert((version, entry.path()));
    }
    let mut found = Vec::new();
    for (name, versions) in crates.into_iter().filter(|(_, versions)| versions.len() > 1) {
        let paths: Vec<&PathBuf> = versions.iter().map(|(_, path)| path).collect();
        let (old, new) = (read(paths[0]), read(paths[paths.len() - 1]));
        let changed = old.iter().filter(|(path, entry)| new.get(*path).is_some_and(|new| new != *entry)).count();
        if changed > 3 && old.len().max(new.len()) <= FILES {
            found.push((changed, (name, old, new)));
        }
    }
    // Those with the most to merge.
    found.sort_by_key(|(changed, _)| std::cmp::Reverse(*changed));
    found.into_iter().take(PAIRS).map(|(_, pair)| pair).collect()
}

/// The files of a package, but for what every release changes in the same lines.
fn read(package: &Path) -> Tree {
    let files = walkdir::WalkDir::new(package).into_iter().filter_map(Result::ok).filter(|e| e.file_type().is_file());
    let mut tree = Tree::new();
    for file in files {
        let path = file.path().strip_prefix(package).expect("below").to_string_lossy().into_owned();
        let told = ["Cargo.", ".cargo", "CHANGELOG"].iter().any(|start| path.starts_with(start));
        if !told && !path.contains(['"', '\n', ' ']) {
            tree.insert(path, (FILE, fs::read(file.path()).expect("readable")));
        }
    }
    tree
}

/// Start and length in the lines of the old and of the new file.
type Hunk = [(usize, usize); 2];

/// What differs, by path; no hunks where a file is not text on both sides.
fn hunks(s: &Sandbox, repo: &Path, old: &str, new: &str) -> BTreeMap<String, Vec<Hunk>> {
    let text = s.git(repo, &["diff-tree", "-r", "-p", "-U0", "--no-renames", "--no-prefix", old, new]);
    let (mut found, mut path): (BTreeMap<String, Vec<Hunk>>, _) = (BTreeMap::new(), String::new());
    for line in text.lines() {
        if let Some(names) = line.strip_prefix("diff --git ") {
            names[..names.len() / 2].clone_into(&mut path);
            found.insert(path.clone(), Vec::new());
        } else if let Some(places) = line.strip_prefix("@@ -") {
            let place = |text: &str| {
                let (start, length) = text.split_once(',').unwrap_or((text, "1"));
                let (start, length): (usize, usize) =
                    (start.parse().expect("a line"), length.parse().expect("a count"));
                // What is only added goes after the line that is named.
                (if length == 0 { start } else { start - 1 }, length)
            };
            let mut places = places.split([' ', '+']).filter(|word| !word.is_empty());
            let hunk = [0; 2].map(|_| place(places.next().expect("a place")));
            found.get_mut(&path).expect("a file").push(hunk);
        }
    }
    found
}

/// Two sides that each did a part of what lies between the versions, and some of it both.
fn deal(seed: u64, old: &Tree, new: &Tree, hunks: &BTreeMap<String, Vec<Hunk>>) -> [Tree; 2] {
    let mut random = Random::new(seed);
    let mut sides = [old.clone(), old.clone()];
    // Some of these leave no line to both, others many.
    let shared = 2 + random.below(30);
    for (path, hunks) in hunks {
        let mut takes = || match random.below(shared) {
            0 => [true, true],
            n => [n % 2 == 0, n % 2 == 1],
        };
        let (Some((mode, before)), Some((_, after))) = (old.get(path), new.get(path)) else {
            // A file that came or went as a whole.
            for (side, _) in sides.iter_mut().zip(takes()).filter(|(_, taken)| *taken) {
                match new.get(path) {
                    Some(entry) => _ = side.insert(path.clone(), entry.clone()),
                    None => _ = side.remove(path),
                }
            }
            continue;
        };
        let (before, after): (Vec<&[u8]>, Vec<&[u8]>) =
            (before.split_inclusive(|b| *b == b'\n').collect(), after.split_inclusive(|b| *b == b'\n').collect());
        let mut texts = [before.clone(), before.clone()];
        // From the end, so that the lines before keep their numbers.
        let whole = takes();
        for [(at, length), (from, count)] in hunks.iter().rev() {
            let takes = if seed.is_multiple_of(2) { whole } else { takes() };
            for (text, taken) in texts.iter_mut().zip(takes) {
                if taken {
                    text.splice(*at..at + length, after[*from..from + count].iter().copied());
                }
            }
        }
        for (side, text) in sides.iter_mut().zip(texts) {
            side.insert(path.clone(), (mode, text.concat()));
        }
    }
    sides
}
