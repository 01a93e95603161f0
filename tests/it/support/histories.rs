//! Small histories written down as text, made by one `git fast-import`, and merged by every engine.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use isofold::MergeEngine;
use isofold::testing_combine::{Merge, merge_commits};

use super::Sandbox;

/// Mode and content; a submodule's content is its commit.
pub(crate) type Entry = (&'static str, Vec<u8>);

/// Files by path.
pub(crate) type Tree = BTreeMap<String, Entry>;

pub(crate) const FILE: &str = "100644";
pub(crate) const EXECUTABLE: &str = "100755";
pub(crate) const LINK: &str = "120000";
pub(crate) const SUBMODULE: &str = "160000";

/// Twenty lines that belong to `seed` alone.
pub(crate) fn body(seed: &str) -> Vec<u8> {
    (0..20)
        .fold(String::new(), |mut text, n| {
            let _ = writeln!(text, "{seed} says line {n} {}", (n * 7919) % 1009);
            text
        })
        .into_bytes()
}

/// The commit of a submodule, by a digit.
pub(crate) fn pointer(digit: &str) -> Vec<u8> {
    digit.repeat(40).into_bytes()
}

/// Puts a file; what stood above or below it as a file is gone.
pub(crate) fn put(tree: &mut Tree, path: &str, mode: &'static str, content: impl Into<Vec<u8>>) {
    let below = format!("{path}/");
    tree.retain(|other, _| !other.starts_with(&below) && !path.starts_with(&format!("{other}/")));
    tree.insert(path.to_owned(), (mode, content.into()));
}

/// Carries out operations, parted by `; `:
/// `new P [SEED]`, `put P TEXT`, `ed P LINE TEXT`, `ins P LINE TEXT`, `del P LINE [COUNT]`, `rm P`, `mv P Q`
/// and `cp P Q` (directories too), `x P`, `nx P`, `ln P TARGET`, `sub P DIGIT`, `crlf P`, `chop P`.
pub(crate) fn edit(tree: &mut Tree, operations: &str) {
    for operation in operations.split("; ").filter(|o| !o.trim().is_empty()) {
        let mut words = operation.trim_start_matches(' ').splitn(4, ' ');
        let mut word = || words.next().unwrap_or_default();
        let (what, path, third, fourth) = (word(), word(), word(), word());
        let known = |tree: &Tree| tree.get(path).unwrap_or_else(|| panic!("{operation}: no such file")).clone();
        match what {
            "new" => put(tree, path, FILE, body(if third.is_empty() { path } else { third })),
            "put" => put(tree, path, FILE, operation.splitn(3, ' ').nth(2).unwrap_or_default()),
            "ed" | "ins" | "del" => {
                let (mode, content) = known(tree);
                let text = String::from_utf8(content).expect("text");
                let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
                let at: usize = third.parse().expect("a line");
                let line = format!("{fourth}\n");
                match what {
                    "ed" => lines[at] = &line,
                    "ins" => lines.insert(at, &line),
                    _ => drop(lines.drain(at..at + fourth.parse().unwrap_or(1))),
                }
                let content = lines.concat();
                put(tree, path, mode, content);
            }
            "rm" => {
                let below = format!("{path}/");
                tree.retain(|other, _| other != path && !other.starts_with(&below));
            }
            "mv" | "cp" => {
                let below = format!("{path}/");
                let taken: Vec<(String, Entry)> = tree
                    .iter()
                    .filter(|(p, _)| *p == path || p.starts_with(&below))
                    .map(|(p, entry)| (format!("{third}{}", &p[path.len()..]), entry.clone()))
                    .collect();
                assert!(!taken.is_empty(), "{operation}: no such path");
                if what == "mv" {
                    tree.retain(|other, _| other != path && !other.starts_with(&below));
                }
                for (to, (mode, content)) in taken {
                    put(tree, &to, mode, content);
                }
            }
            "x" => put(tree, path, EXECUTABLE, known(tree).1),
            "nx" => put(tree, path, FILE, known(tree).1),
            "ln" => put(tree, path, LINK, third),
            "sub" => put(tree, path, SUBMODULE, pointer(third)),
            "crlf" => {
                let (mode, content) = known(tree);
                let text = String::from_utf8(content).expect("text").replace('\n', "\r\n");
                put(tree, path, mode, text);
            }
            "chop" => {
                let (mode, mut content) = known(tree);
                content.pop();
                put(tree, path, mode, content);
            }
            other => panic!("{other}: no such operation"),
        }
    }
}

/// A commit to be: parents by position, and its files.
pub(crate) struct Commit {
    pub(crate) parents: Vec<usize>,
    pub(crate) tree: Tree,
}

/// Commits from text: lines of `NAME PARENT…: OPERATIONS`; the operations start from the first parent.
pub(crate) fn parse(text: &str) -> Vec<Commit> {
    let mut names: Vec<&str> = Vec::new();
    let mut commits: Vec<Commit> = Vec::new();
    // A line that does not start a commit belongs to the content before it.
    for line in text.split("\n@") {
        let (head, operations) = line.split_once(':').expect("a colon");
        let mut words = head.trim_start_matches('@').split_whitespace();
        names.push(words.next().expect("a name"));
        let parents: Vec<usize> =
            words.map(|w| names.iter().position(|n| *n == w).unwrap_or_else(|| panic!("{w}?"))).collect();
        let mut tree = parents.first().map(|p| commits[*p].tree.clone()).unwrap_or_default();
        edit(&mut tree, operations.trim_start_matches(' '));
        commits.push(Commit { parents, tree });
    }
    commits
}

/// Writes the commits into `repo` and returns their ids.
pub(crate) fn import(s: &Sandbox, repo: &Path, commits: &[Commit]) -> Vec<String> {
    let mut stream: Vec<u8> = Vec::new();
    for (number, commit) in commits.iter().enumerate() {
        let mark = number + 1;
        // Each history is its own ref, so that commits without parents start anew.
        let _ = write!(
            stream,
            "commit refs/made/{mark}\nmark :{mark}\ncommitter T <t@example.test> {} +0000\ndata 1\nm\n",
            1_600_000_000 + number
        );
        for (at, parent) in commit.parents.iter().enumerate() {
            let _ = writeln!(stream, "{} :{}", if at == 0 { "from" } else { "merge" }, parent + 1);
        }
        stream.extend_from_slice(b"deleteall\n");
        for (path, (mode, content)) in &commit.tree {
            if *mode == SUBMODULE {
                let _ = writeln!(stream, "M {mode} {} {path}", String::from_utf8_lossy(content));
            } else {
                let _ = write!(stream, "M {mode} inline {path}\ndata {}\n", content.len());
                stream.extend_from_slice(content);
                stream.push(b'\n');
            }
        }
        stream.push(b'\n');
    }
    let marks = repo.join(".git/marks");
    let mut child = s
        .command("git")
        .arg("-C")
        .arg(repo)
        .args(["fast-import", "--quiet", "--force"])
        .arg(format!("--export-marks={}", marks.display()))
        .stdin(Stdio::piped())
        .spawn()
        .expect("git runs");
    child.stdin.take().expect("stdin").write_all(&stream).expect("written");
    assert!(child.wait().expect("it ends").success());
    let text = std::fs::read_to_string(&marks).expect("marks");
    let mut ids = vec![String::new(); commits.len()];
    for line in text.lines() {
        let (mark, id) = line[1..].split_once(' ').expect("a mark");
        let at = mark.parse::<usize>().expect("a number") - 1;
        id.clone_into(&mut ids[at]);
    }
    ids
}

/// A repository without commits.
pub(crate) fn empty_repo(s: &Sandbox, name: &str) -> PathBuf {
    let repo = s.path(name);
    std::fs::create_dir(&repo).expect("a directory");
    s.git(&repo, &["init", "-q", "-b", "main"]);
    repo
}

/// What git's own merge of two commits says: the tree, or that it conflicts. On some histories git 2.47
/// stops at an assertion of its own; whatever is clean then is taken for wrong.
pub(crate) fn oracle(s: &Sandbox, repo: &Path, ours: &str, theirs: &str) -> Option<String> {
    let (code, text) = s.try_git(repo, &["merge-tree", "--write-tree", ours, theirs]);
    match code {
        0 => Some(text),
        1 => None,
        _ if text.contains("Assertion") => None,
        _ => panic!("git merge-tree: {text}"),
    }
}

/// What is wrong with an answer, if anything: clean where git conflicts, or clean with another tree.
pub(crate) fn wrong(git: Option<&str>, merge: &Merge) -> Option<&'static str> {
    match (&merge.result, git) {
        (Ok(_), None) => Some("clean where git conflicts"),
        (Ok(tree), Some(known)) if tree != known => Some("clean with another tree"),
        _ => None,
    }
}

/// One merge by one engine.
#[track_caller]
pub(crate) fn by(repo: &Path, ours: &str, theirs: &str, engine: MergeEngine) -> Merge {
    merge_commits(repo, ours, theirs, engine, false).expect("an answer")
}
