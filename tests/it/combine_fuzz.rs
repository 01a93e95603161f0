//! Random histories, each merged by git and by every engine. `ISOFOLD_FUZZ_ROUNDS` batches of a hundred
//! histories (default 2) from `ISOFOLD_FUZZ_SEED`.
#![allow(clippy::print_stdout, reason = "figures for docs/measurements.md")]

use std::collections::BTreeMap;

use isofold::MergeEngine;
use isofold::testing_combine::Merge;

use crate::support::Sandbox;
use crate::support::histories::{
    Commit, EXECUTABLE, FILE, LINK, SUBMODULE, Tree, body, by, empty_repo, import, oracle, pointer, put, wrong,
};
use crate::support::random::number;

/// Histories in one batch: one repository, one import.
const BATCH: usize = 100;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).expect("64 bits") % limit.max(1)
    }

    fn one_in(&mut self, chance: usize) -> bool {
        self.below(chance) == 0
    }

    fn pick<'a>(&mut self, tree: &'a Tree) -> Option<&'a String> {
        let at = self.below(tree.len());
        tree.keys().nth(at)
    }

    /// A path out of few, so that the sides meet.
    fn path(&mut self) -> String {
        let names = ["a", "b", "c", "d", "x"];
        let mut path = String::new();
        for _ in 0..self.below(3) {
            path.push_str(["d", "e", "x"][self.below(3)]);
            path.push('/');
        }
        path + names[self.below(names.len())]
    }

    fn content(&mut self) -> Vec<u8> {
        let words = ["one", "two", "three", "four", "five", "six"];
        match self.below(8) {
            0 => Vec::new(),
            1 => format!("{}\n{}\n", words[self.below(6)], words[self.below(6)]).into_bytes(),
            2 => b"a\0b\n".to_vec(),
            3 => (0..12).map(|_| ["x\n", "y\n", "}\n", "\n"][self.below(4)]).collect::<String>().into_bytes(),
            _ => body(words[self.below(6)]),
        }
    }

    fn entry(&mut self) -> (&'static str, Vec<u8>) {
        match self.below(12) {
            0 => (LINK, vec![b'a' + u8::try_from(self.below(3)).expect("small")]),
            1 => (SUBMODULE, pointer(&(1 + self.below(3)).to_string())),
            2 => (EXECUTABLE, self.content()),
            _ => (FILE, self.content()),
        }
    }

    fn change(&mut self, tree: &mut Tree) {
        let Some(path) = self.pick(tree).cloned() else {
            let (mode, content) = self.entry();
            let path = self.path();
            return put(tree, &path, mode, content);
        };
        let (mode, content) = tree[&path].clone();
        match self.below(20) {
            0..=8 if mode == FILE || mode == EXECUTABLE => {
                let content = self.edited(&content);
                put(tree, &path, mode, content);
            }
            9..=10 => drop(tree.remove(&path)),
            11..=13 => {
                // Renamed, often with an edit.
                tree.remove(&path);
                let content = if self.one_in(2) && mode == FILE { self.edited(&content) } else { content };
                let to = self.path();
                put(tree, &to, mode, content);
            }
            14..=15 => {
                let (mode, content) = self.entry();
                let to = self.path();
                put(tree, &to, mode, content);
            }
            16 if mode == FILE => put(tree, &path, EXECUTABLE, content),
            16 => put(tree, &path, FILE, content),
            17..=18 => {
                // A directory renamed, whole or in part.
                let Some((directory, _)) = path.rsplit_once('/') else { return };
                let (below, to) = (format!("{directory}/"), ["e", "f", "d/e", "x"][self.below(4)]);
                let moved: Vec<String> = tree.keys().filter(|p| p.starts_with(&below)).cloned().collect();
                let partly = self.one_in(4);
                let mut taken = Vec::new();
                for path in moved {
                    if !(partly && self.one_in(2)) {
                        let entry = tree.remove(&path).expect("there");
                        taken.push((format!("{to}/{}", &path[below.len()..]), entry));
                    }
                }
                for (path, (mode, content)) in taken {
                    put(tree, &path, mode, content);
                }
            }
            _ => {
                let (mode, content) = self.entry();
                put(tree, &path, mode, content);
            }
        }
    }

    fn edited(&mut self, content: &[u8]) -> Vec<u8> {
        let mut lines: Vec<Vec<u8>> = content.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
        for _ in 0..=self.below(2) {
            let at = self.below(lines.len().max(1));
            let line = ["new\n", "other\n", "x\n", "}\n", "\n"][self.below(5)].as_bytes().to_vec();
            match self.below(6) {
                0 if at < lines.len() => drop(lines.remove(at)),
                1 | 2 => lines.insert(at, line),
                3 if at < lines.len() => {
                    let line = lines.remove(at);
                    let to = self.below(lines.len() + 1);
                    lines.insert(to, line);
                }
                _ if at < lines.len() => lines[at] = line,
                _ => lines.push(line),
            }
        }
        let mut content = lines.concat();
        if self.one_in(15) {
            content.pop();
        }
        content
    }

    fn start(&mut self) -> Tree {
        let mut tree = Tree::new();
        for _ in 0..2 + self.below(9) {
            let path = self.path();
            let (mode, content) = self.entry();
            put(&mut tree, &path, mode, content);
        }
        tree
    }

    fn child(&mut self, commits: &[Commit], parents: Vec<usize>, most: usize) -> Commit {
        let mut tree = commits[parents[0]].tree.clone();
        for other in &parents[1..] {
            // A merge by hand: about half of what the other has.
            for (path, (mode, content)) in &commits[*other].tree {
                if self.one_in(2) {
                    put(&mut tree, path, mode, content.clone());
                }
            }
        }
        for _ in 0..self.below(most + 1) {
            self.change(&mut tree);
        }
        Commit { parents, tree }
    }

    /// A history; its last two commits are to be merged.
    fn history(&mut self) -> (&'static str, Vec<Commit>) {
        let mut commits = vec![Commit { parents: Vec::new(), tree: self.start() }];
        let most = 2 + self.below(8);
        let add = |random: &mut Self, commits: &mut Vec<Commit>, parents: Vec<usize>| {
            let commit = random.child(commits, parents, most);
            commits.push(commit);
        };
        add(self, &mut commits, vec![0]);
        add(self, &mut commits, vec![0]);
        let shape = match self.below(10) {
            0..=5 => "one base",
            6 => {
                add(self, &mut commits, vec![1]);
                add(self, &mut commits, vec![2, 1]);
                "one merged the other"
            }
            7 | 8 => {
                add(self, &mut commits, vec![1, 2]);
                add(self, &mut commits, vec![2, 1]);
                "criss-cross"
            }
            _ => {
                add(self, &mut commits, vec![0]);
                add(self, &mut commits, vec![1, 2, 3]);
                add(self, &mut commits, vec![3, 1, 2]);
                "three bases"
            }
        };
        (shape, commits)
    }
}

/// What the answers of one engine came to.
#[derive(Debug, Default)]
pub(crate) struct Count {
    pub(crate) asked: usize,
    pub(crate) git_clean: usize,
    needless: usize,
    by: BTreeMap<&'static str, usize>,
}

impl Count {
    /// Counts an answer; whether it is a conflict where git is clean.
    pub(crate) fn note(&mut self, git: Option<&str>, merge: &Merge) -> bool {
        let needless = git.is_some() && merge.result.is_err();
        self.asked += 1;
        self.git_clean += usize::from(git.is_some());
        self.needless += usize::from(needless);
        *self.by.entry(merge.engine).or_default() += 1;
        needless
    }
}

#[test]
fn random_histories_are_never_merged_wrongly() {
    let (rounds, seed) = (number("ISOFOLD_FUZZ_ROUNDS", 2), number("ISOFOLD_FUZZ_SEED", 1));
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    let mut failures = Vec::new();
    for round in 0..rounds {
        let s = Sandbox::new();
        let repo = empty_repo(&s, "r");
        let mut random = Random((seed + round).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let (mut commits, mut pairs) = (Vec::new(), Vec::new());
        for _ in 0..BATCH {
            let (shape, history) = random.history();
            let first = commits.len();
            for mut commit in history {
                commit.parents.iter_mut().for_each(|parent| *parent += first);
                commits.push(commit);
            }
            pairs.push((shape, commits.len() - 2, commits.len() - 1));
        }
        let ids = import(&s, &repo, &commits);
        for (at, (shape, ours, theirs)) in pairs.into_iter().enumerate() {
            let (ours, theirs) = (&ids[ours], &ids[theirs]);
            let git = oracle(&s, &repo, ours, theirs);
            for engine in [MergeEngine::Auto, MergeEngine::Builtin] {
                let merge = by(&repo, ours, theirs, engine);
                let count = counts.entry(format!("{engine:?}, {shape}")).or_default();
                let needless = count.note(git.as_deref(), &merge);
                let problem = wrong(git.as_deref(), &merge);
                let problem =
                    problem.or((needless && engine == MergeEngine::Auto).then_some("conflict where git is clean"));
                if let Some(problem) = problem {
                    failures.push(format!(
                        "seed {} history {at} ({shape}), {engine:?} by {}: {problem}",
                        seed + round,
                        merge.engine
                    ));
                }
            }
        }
    }
    for (name, count) in &counts {
        println!("{name}: {count:?}");
    }
    assert!(failures.is_empty(), "{failures:#?}");
    // Both kinds of answer have to be there.
    let (clean, asked) = counts.values().fold((0, 0), |(c, a), count| (c + count.git_clean, a + count.asked));
    assert!(clean * 10 > asked && (asked - clean) * 10 > asked, "{clean} of {asked} clean");
}

/// Texts of few kinds of lines: the ways to compare them come to different ends here.
#[test]
fn few_kinds_of_lines_are_never_merged_wrongly() {
    let (s, mut random) =
        (Sandbox::new(), Random(number("ISOFOLD_FUZZ_SEED", 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1));
    let repo = empty_repo(&s, "r");
    let mut commits = Vec::new();
    let file = |lines: &[u8]| {
        let text: Vec<u8> = lines.iter().flat_map(|line| [*line, b'\n']).collect();
        Tree::from([("a".to_owned(), (FILE, text))])
    };
    for _ in 0..number("ISOFOLD_FUZZ_ROUNDS", 2) * BATCH as u64 {
        let base = commits.len();
        let kinds = 3 + random.below(9);
        let line = |random: &mut Random| b"abcdefghijkl"[random.below(kinds)];
        let lines: Vec<u8> = (0..6 + random.below(20)).map(|_| line(&mut random)).collect();
        commits.push(Commit { parents: Vec::new(), tree: file(&lines) });
        for _ in 0..2 {
            let mut side = lines.clone();
            for _ in 0..=random.below(2) {
                let at = random.below(side.len());
                let until = (at + random.below(3)).min(side.len());
                let from = random.below(lines.len());
                let new = match random.below(3) {
                    0 => Vec::new(),
                    1 => (0..=random.below(3)).map(|_| line(&mut random)).collect(),
                    _ => lines[from..(from + 4).min(lines.len())].to_vec(),
                };
                side.splice(at..until, new);
            }
            commits.push(Commit { parents: vec![base], tree: file(&side) });
        }
    }
    let (mut count, mut failures) = (Count::default(), Vec::new());
    for (at, ids) in import(&s, &repo, &commits).chunks(3).enumerate() {
        let git = oracle(&s, &repo, &ids[1], &ids[2]);
        let merge = by(&repo, &ids[1], &ids[2], MergeEngine::Builtin);
        count.note(git.as_deref(), &merge);
        if let Some(problem) = wrong(git.as_deref(), &merge) {
            let texts = commits[at * 3..at * 3 + 3]
                .iter()
                .map(|c| c.tree["a"].1.iter().filter(|b| **b != b'\n').map(|b| *b as char).collect::<String>());
            failures.push(format!("{problem}: {:?}", texts.collect::<Vec<_>>()));
        }
    }
    println!("{count:?}");
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(count.git_clean * 10 > count.asked, "{count:?}");
}
