//! Random edits on both sides, folded by isofold and by plain git commands that do what the rules
//! say: the same verdict, the same tree, the same files, or nothing changed.
//!
//! `ISOFOLD_FUZZ_ROUNDS` sets how many repositories are made, `ISOFOLD_FUZZ_SEED` the first seed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::support::{Sandbox, entry, hash, listing, write};

/// A small generator: the same seed gives the same run everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("fits")
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

const DIRECTORIES: [&str; 5] = ["", "d/", "d/e/", "f/", "f/g/h/"];
const NAMES: [&str; 7] = ["one", "two", "three", "x y", "é", "d", "build.log"];

/// Every file and link of a side but `.git`.
fn files(root: &Path) -> Vec<PathBuf> {
    fn walk(root: &Path, directory: &Path, found: &mut Vec<PathBuf>) {
        for item in fs::read_dir(directory).expect("readable") {
            let path = item.expect("an entry").path();
            let relative = path.strip_prefix(root).expect("inside").to_owned();
            if relative == Path::new(".git") {
                continue;
            }
            if fs::symlink_metadata(&path).expect("a stat").is_dir() {
                walk(root, &path, found);
            } else {
                found.push(relative);
            }
        }
    }
    let mut found = Vec::new();
    walk(root, root, &mut found);
    found.sort();
    found
}

/// Makes way for a file at `path`: what stands there or above it goes.
fn clear(root: &Path, path: &Path) {
    let mut at = root.to_owned();
    for part in path.components() {
        at.push(part);
        let Ok(meta) = fs::symlink_metadata(&at) else { return };
        if at == root.join(path) && meta.is_dir() {
            fs::remove_dir_all(&at).expect("removed");
        } else if !meta.is_dir() {
            fs::remove_file(&at).expect("removed");
        }
    }
}

/// Removes a file and the directories that it leaves empty, as people's tools do.
fn remove(root: &Path, path: &Path) {
    fs::remove_file(root.join(path)).expect("removed");
    for above in path.ancestors().skip(1).filter(|a| !a.as_os_str().is_empty()) {
        if fs::remove_dir(root.join(above)).is_err() {
            break;
        }
    }
}

fn content(random: &mut Random) -> Vec<u8> {
    match random.below(8) {
        0 => Vec::new(),
        1 => b"no newline".to_vec(),
        2 => vec![0, 1, 2, u8::try_from(random.below(256)).expect("a byte")],
        kind => {
            let mut text = String::new();
            for line in 0..6 + random.below(20) {
                let _ = writeln!(text, "{kind} line {line}");
            }
            text.into_bytes()
        }
    }
}

/// One random operation on a side; what it was, for the report.
fn operate(s: &Sandbox, root: &Path, random: &mut Random) -> String {
    let there = files(root);
    let any = PathBuf::from(format!("{}{}", random.pick(&DIRECTORIES), random.pick(&NAMES)));
    let some = if there.is_empty() { None } else { Some(random.pick(&there).clone()) };
    let kind = random.below(12);
    match (kind, some) {
        (0..=3, Some(path)) if root.join(&path).symlink_metadata().expect("a stat").is_file() => {
            let mut lines: Vec<Vec<u8>> = fs::read(root.join(&path))
                .expect("readable")
                .split_inclusive(|b| *b == b'\n')
                .map(<[u8]>::to_vec)
                .collect();
            let at = random.below(lines.len() + 1);
            let new = format!("edit {}\n", random.below(4)).into_bytes();
            match random.below(3) {
                0 if at < lines.len() => drop(lines.remove(at)),
                1 if at < lines.len() => lines[at] = new,
                _ => lines.insert(at, new),
            }
            fs::write(root.join(&path), lines.concat()).expect("written");
            format!("edit {}", path.display())
        }
        (4, Some(path)) => {
            remove(root, &path);
            format!("remove {}", path.display())
        }
        (5 | 6, Some(path)) => {
            if any.starts_with(&path) || path.starts_with(&any) {
                return "none".to_owned();
            }
            clear(root, &any);
            if root.join(&path).symlink_metadata().is_ok() {
                fs::create_dir_all(root.join(&any).parent().expect("a parent")).expect("directories");
                fs::rename(root.join(&path), root.join(&any)).expect("renamed");
            }
            format!("rename {} {}", path.display(), any.display())
        }
        (7, Some(path)) if root.join(&path).symlink_metadata().expect("a stat").is_file() => {
            let mode = if random.one_in(2) { 0o755 } else { 0o644 };
            fs::set_permissions(root.join(&path), fs::Permissions::from_mode(mode)).expect("chmod");
            format!("chmod {} {mode:o}", path.display())
        }
        (8, _) => {
            clear(root, &any);
            fs::create_dir_all(root.join(&any).parent().expect("a parent")).expect("directories");
            symlink(random.pick(&["one", "d", "../f", "nowhere"]), root.join(&any)).expect("a link");
            format!("link {}", any.display())
        }
        (9, _) => {
            s.git(root, &["add", "-A"]);
            s.try_git(root, &["commit", "-q", "-m", "random"]);
            "commit".to_owned()
        }
        (10, _) if random.one_in(3) => {
            s.git(root, &["add", "-A"]);
            "stage".to_owned()
        }
        _ => {
            clear(root, &any);
            write(root, &any, content(random));
            format!("write {}", any.display())
        }
    }
}

/// One random step of history on a side, as people take them; what does not work is taken back.
fn rewrite(s: &Sandbox, root: &Path, random: &mut Random) -> String {
    let steps: [&[&str]; 8] = [
        &["reset", "-q", "--hard", "HEAD~1"],
        &["reset", "-q", "--soft", "HEAD~1"],
        &["revert", "--no-edit", "HEAD"],
        &["commit", "-q", "-a", "--amend", "-m", "amended"],
        &["rebase", "-q", "main"],
        &["merge", "-q", "--no-edit", "main"],
        &["checkout", "-q", "--detach", "HEAD~1"],
        &["cherry-pick", "main~1"],
    ];
    let is_parent = s.try_git(root, &["symbolic-ref", "-q", "--short", "HEAD"]).1 == "main";
    let step = steps[random.below(if is_parent { 4 } else { steps.len() })];
    if s.try_git(root, step).0 != 0 {
        s.try_git(root, &[step[0], "--abort"]);
        return "none".to_owned();
    }
    step.join(" ")
}

/// The tree of `git add -A`, through a copy of the index that keeps its time; paths to keep are in
/// it even where a rule ignores them.
fn tree_of(s: &Sandbox, root: &Path, keep: &[String]) -> String {
    let git_dir = PathBuf::from(s.git(root, &["rev-parse", "--absolute-git-dir"]));
    let copy = s.path("oracle-index");
    let copied = s.command("cp").arg("-p").arg(git_dir.join("index")).arg(&copy).status().expect("cp runs");
    assert!(copied.success());
    let git = |args: &[&str]| {
        let run = s.command("git").arg("-C").arg(root).args(args).env("GIT_INDEX_FILE", &copy).output();
        let run = run.expect("git runs");
        assert!(run.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&run.stderr));
        String::from_utf8_lossy(&run.stdout).trim().to_owned()
    };
    git(&["add", "-A"]);
    let there = files(root);
    for path in keep.iter().filter(|path| there.contains(&PathBuf::from(path))) {
        git(&["add", "-f", "--", path]);
    }
    git(&["write-tree"])
}

fn commit(s: &Sandbox, root: &Path, tree: &str, parents: &[&str]) -> String {
    let mut args = vec!["commit-tree", tree, "-m", "oracle"];
    let mut seen: Vec<&str> = Vec::new();
    for parent in parents.iter().filter(|p| !p.is_empty()) {
        if !seen.contains(parent) {
            seen.push(parent);
            args.extend(["-p", parent]);
        }
    }
    s.git(root, &args)
}

fn contains(s: &Sandbox, root: &Path, commit: &str, ancestor: &str) -> bool {
    s.try_git(root, &["merge-base", "--is-ancestor", ancestor, commit]).0 == 0
}

/// A base entry as the oracle keeps it: none of it is read from isofold.
struct Entry {
    base: String,
    anchor: String,
    child_head: String,
    branch: String,
    /// Paths of the base that never were in the Child's index.
    untracked: Vec<String>,
}

struct Oracle<'a> {
    s: &'a Sandbox,
    p: &'a Path,
    c: &'a Path,
    entries: Vec<Entry>,
}

enum Verdict {
    Nothing,
    Conflict,
    /// The histories have nothing in common, and no entry joins them.
    Unrelated,
    Tree(String),
}

impl Oracle<'_> {
    fn head(&self, side: &Path) -> String {
        self.s.git(side, &["rev-parse", "HEAD"])
    }

    fn branch(&self) -> String {
        self.s.try_git(self.c, &["symbolic-ref", "-q", "HEAD"]).1
    }

    fn names(&self, side: &Path, args: &[&str]) -> Vec<String> {
        self.s.git(side, args).split('\0').filter(|n| !n.is_empty()).map(str::to_owned).collect()
    }

    /// What is in `tree` and not in the Child's index.
    fn untracked(&self, tree: &str) -> Vec<String> {
        let index = self.names(self.c, &["ls-files", "-z"]);
        let mut names = self.names(self.c, &["ls-tree", "-r", "-z", "--name-only", tree]);
        names.retain(|name| !index.contains(name));
        names
    }

    fn isolated(&mut self) {
        let (head, tree) = (self.head(self.p), tree_of(self.s, self.c, &[]));
        let untracked = self.untracked(&tree);
        let base = commit(self.s, self.p, &tree, &[&head]);
        let entry = Entry { base, anchor: head.clone(), child_head: head, branch: self.branch(), untracked };
        self.entries.push(entry);
    }

    /// The newest entry that counts.
    fn base(&self, parent: &str, child: &str) -> Option<&Entry> {
        let bases = self.s.try_git(self.p, &["merge-base", "--all", parent, child]).1;
        for entry in self.entries.iter().rev() {
            if !contains(self.s, self.p, parent, &entry.anchor) {
                continue;
            }
            let amended = self.branch() == entry.branch && !contains(self.s, self.p, parent, child);
            if !contains(self.s, self.p, child, &entry.child_head) && !amended {
                continue;
            }
            if bases.lines().any(|b| b != entry.anchor && contains(self.s, self.p, b, &entry.anchor)) {
                continue;
            }
            return Some(entry);
        }
        None
    }

    /// What a fold has to give now, and the Child's snapshot.
    fn verdict(&self) -> (Verdict, String) {
        let (parent, child) = (self.head(self.p), self.head(self.c));
        let entry = self.base(&parent, &child);
        let base = entry.map_or_else(String::new, |entry| entry.base.clone());
        let keep: Vec<String> = entry.map_or_else(Vec::new, |entry| {
            let since = format!("{}..{child}", entry.child_head);
            let unknown = |path: &String| self.s.git(self.c, &["log", "--format=%H", &since, "--", path]).is_empty();
            entry.untracked.iter().filter(|path| unknown(path)).cloned().collect()
        });
        let (mine, theirs) = (tree_of(self.s, self.p, &[]), tree_of(self.s, self.c, &keep));
        let one = commit(self.s, self.p, &mine, &[&parent, &base]);
        let two = commit(self.s, self.p, &theirs, &[&child, &base]);
        let (code, text) = self.s.try_git(self.p, &["merge-tree", "--write-tree", &one, &two]);
        let verdict = match code {
            0 if text == mine => Verdict::Nothing,
            0 => Verdict::Tree(text),
            1 => Verdict::Conflict,
            _ if text.contains("unrelated histories") => Verdict::Unrelated,
            _ => panic!("git merge-tree: {text}"),
        };
        (verdict, theirs)
    }

    fn landed(&mut self, landing: &str, theirs: &str, old: Option<(String, Vec<String>)>) {
        // The Child's side of what landed: what the Parent's branch moved to, or the merge's second parent.
        let tip = if landing == "merge" { "HEAD^2" } else { "HEAD" };
        let base = self.s.git(self.p, &["rev-parse", tip]);
        let tree = self.s.git(self.p, &["rev-parse", &format!("{tip}^{{tree}}")]);
        assert_eq!(tree, theirs, "the Child's snapshot is in history");
        let (anchor, child_head) = (self.head(self.p), self.head(self.c));
        let mut untracked = self.untracked(theirs);
        if let Some((base, known)) = old {
            let before = self.names(self.c, &["ls-tree", "-r", "-z", "--name-only", &base]);
            untracked.retain(|name| known.contains(name) || !before.contains(name));
        }
        self.entries.push(Entry { base, anchor, child_head, branch: self.branch(), untracked });
    }
}

/// Ignored and left-out files of a side, with what they hold.
fn ignored(s: &Sandbox, root: &Path) -> BTreeMap<PathBuf, Option<(char, Vec<u8>)>> {
    let output =
        s.command("git").arg("-C").arg(root).args(["ls-files", "-z", "-o", "-i", "--exclude-standard"]).output();
    let output = output.expect("git runs").stdout;
    let paths = output.split(|b| *b == 0).filter(|p| !p.is_empty());
    paths
        .map(|p| {
            let path = PathBuf::from(OsString::from(std::ffi::OsStr::from_bytes(p)));
            let holds = entry(&root.join(&path));
            (path, holds)
        })
        .collect()
}

/// One repository with several folds; how often each outcome came.
fn round(seed: u64, counts: &mut BTreeMap<&'static str, usize>, log: &mut Vec<String>) {
    let mut random = Random(seed);
    let s = Sandbox::new();
    let p = s.repo("parent");
    for _ in 0..6 + random.below(6) {
        operate(&s, &p, &mut random);
    }
    s.git(&p, &["add", "-A"]);
    s.try_git(&p, &["commit", "-q", "-m", "prepared"]);
    for _ in 0..random.below(4) {
        log.push(format!("parent before: {}", operate(&s, &p, &mut random)));
    }
    let c = s.isolate(&p, "c");
    let mut oracle = Oracle { s: &s, p: &p, c: &c, entries: Vec::new() };
    oracle.isolated();
    for fold in 0..4 {
        for (side, name) in [(&p, "parent"), (&c, "child")] {
            // Half the time the Parent rests, so that work lands and a next fold builds on it.
            let most = if name == "child" { 5 } else { 2 * random.below(2) + 1 };
            for _ in 0..random.below(most) {
                log.push(format!("{name}: {}", operate(&s, side, &mut random)));
            }
        }
        if random.one_in(3) {
            let (side, name) = *random.pick(&[(&p, "parent"), (&c, "child")]);
            log.push(format!("{name}: {}", rewrite(&s, side, &mut random)));
        }
        log.push(format!("fold {fold}"));
        let (verdict, theirs) = oracle.verdict();
        let old = oracle.base(&oracle.head(&p), &oracle.head(&c)).map(|e| (e.base.clone(), e.untracked.clone()));
        let before = (s.state(&p), child_state(&s, &c));
        let kept = ignored(&s, &p);
        let run = s.try_fold(&p, &c, &[]);
        let last = run.last();
        let outcome = run.outcome();
        let landing = last["landing"].as_str().unwrap_or_default();
        match verdict {
            Verdict::Nothing => {
                assert_eq!((outcome.as_str(), landing), ("integrated", "nothing"), "{run:?}");
                assert_eq!(s.state(&p), before.0);
                *counts.entry("nothing").or_default() += 1;
            }
            Verdict::Conflict => {
                assert_eq!(outcome, "conflict", "{run:?}");
                assert_eq!(s.state(&p), before.0);
                *counts.entry("conflict").or_default() += 1;
            }
            Verdict::Unrelated => {
                assert_eq!(outcome, "failed", "{run:?}");
                assert!(run.report().contains("no commit in common"), "{run:?}");
                assert_eq!(s.state(&p), before.0);
                *counts.entry("unrelated").or_default() += 1;
            }
            Verdict::Tree(tree) if outcome == "conflict" => {
                // Git's merge is clean: only something that is in no tree may stand in the way.
                let conflicts = last["conflicts"].as_array().expect("a list");
                assert!(!conflicts.is_empty(), "{run:?}");
                for conflict in conflicts {
                    let path = Path::new(conflict["path"].as_str().expect("text"));
                    assert_eq!(conflict["kind"], "file in the way", "{run:?}");
                    assert!(kept.contains_key(path), "{run:?}");
                    let wanted = s.git(&p, &["ls-tree", "-r", "-z", "--name-only", &tree]);
                    let clashes = wanted.split('\0').map(Path::new).any(|w| w.starts_with(path) || path.starts_with(w));
                    assert!(clashes, "{run:?}");
                }
                assert_eq!(s.state(&p), before.0);
                *counts.entry("in the way").or_default() += 1;
            }
            Verdict::Tree(tree) => {
                assert_eq!(outcome, "integrated", "{run:?}");
                assert_eq!(s.git(&p, &["rev-parse", "HEAD^{tree}"]), tree, "{run:?}");
                settled(&s, &p, &kept);
                oracle.landed(landing, &theirs, old);
                *counts.entry(if landing == "merge" { "merge" } else { "fast-forward" }).or_default() += 1;
            }
        }
        assert_eq!(child_state(&s, &c), before.1, "the Child is never written");
    }
}

/// What a fold must not change in a Child: files, index, HEAD.
fn child_state(s: &Sandbox, child: &Path) -> String {
    let git_dir = PathBuf::from(s.git(child, &["rev-parse", "--absolute-git-dir"]));
    let held = |name: &str| hash(&fs::read(git_dir.join(name)).expect("readable"));
    format!("{}index {} HEAD {}", listing(child), held("index"), held("HEAD"))
}

/// The Parent after a fold: clean, every tracked file as a fresh checkout makes it, and beside those
/// only what git does not track and did not track before.
#[track_caller]
fn settled(s: &Sandbox, p: &Path, kept: &BTreeMap<PathBuf, Option<(char, Vec<u8>)>>) {
    // The fold may bring other ignore rules: what was ignored can be untracked now, nothing else can.
    let status = s.git(p, &["--no-optional-locks", "status", "--porcelain"]);
    assert!(status.lines().all(|l| l.starts_with("?? ")), "{status}");
    s.settled(p, &status);
    let output = s.command("git").arg("-C").arg(p).args(["ls-files", "-z"]).output().expect("git runs").stdout;
    let tracked: Vec<PathBuf> = output
        .split(|b| *b == 0)
        .filter(|t| !t.is_empty())
        .map(|t| PathBuf::from(std::ffi::OsStr::from_bytes(t)))
        .collect();
    for path in files(p) {
        assert!(tracked.contains(&path) || kept.contains_key(&path), "{} came from nowhere", path.display());
    }
    for (path, holds) in kept {
        assert_eq!(entry(&p.join(path)), *holds, "{} was ignored", path.display());
    }
}

/// Printing is denied by lint, which is meant for the library; a failure has to name its seed.
fn tell(text: &str) {
    writeln!(std::io::stderr(), "{text}").expect("stderr is open");
}

#[test]
fn random_work_folds_as_git_merges_it() {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text:?}")))
    };
    let (rounds, first) = (number("ISOFOLD_FUZZ_ROUNDS", 25), number("ISOFOLD_FUZZ_SEED", 1));
    let mut counts = BTreeMap::new();
    for seed in first..first + rounds {
        let mut log = Vec::new();
        let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| round(seed, &mut counts, &mut log)));
        if let Err(cause) = made {
            tell(&format!("{}\nagain: ISOFOLD_FUZZ_SEED={seed} ISOFOLD_FUZZ_ROUNDS=1", log.join("\n")));
            std::panic::resume_unwind(cause);
        }
    }
    tell(&format!("{rounds} repositories from seed {first}: {counts:?}"));
    assert!(counts.values().sum::<usize>() > 0);
}
