//! Random ignore rules and random file operations: a snapshot is always git's.
//!
//! `ISOFOLD_FUZZ_ROUNDS` multiplies the work, `ISOFOLD_FUZZ_SEED` sets the first seed. A failure names
//! the seed that shows it alone, with rounds of 1.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use isofold::testing::untracked;

use crate::support::random::{Random, seeds};
use crate::support::snapshots::say;
use crate::support::snapshots::{compare, git, hermetic, isolated, nested};
use crate::support::{Sandbox, write};

fn run(s: &Sandbox, command: &mut std::process::Command) -> String {
    let _ = s;
    let output = command.output().expect("git runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const NAMES: [&[u8]; 22] = [
    b"a", b"b", b"ab", b"ba", b"A", b"foo", b"bar", b"foobar", b"f.o", b"a.b", b"a b", b" a", b"a ", b"#a", b"!a",
    b"*", b"[a]", b"-", b"\xe9", b"\x0b", b"a\tb", b"]",
];

const TOKENS: [&str; 44] = [
    "*",
    "**",
    "/",
    "?",
    "[ab]",
    "[!a]",
    "[^b]",
    "\\",
    "!",
    " ",
    "a",
    "b",
    "foo",
    "bar",
    "f",
    "o",
    ".",
    "#",
    "[a-f]",
    "[]-]",
    "[[:alpha:]]",
    "[[:space:]]",
    "[[:punct:]]",
    "**/",
    "/**",
    "/**/",
    "*/",
    "/*",
    "[",
    "]",
    "-",
    "\t",
    "\\*",
    "\\ ",
    "[\\]]",
    "A",
    "[!-a]",
    "[z-a]",
    "***",
    "ab",
    "\\/",
    "[/]",
    "[[:upper:]",
    "[[:lower:]-z]",
];

fn name(random: &mut Random) -> &'static [u8] {
    // Short names often, so that patterns hit.
    if random.one_in(2) { NAMES[random.below(8)] } else { NAMES[random.below(NAMES.len())] }
}

fn pattern(random: &mut Random) -> Vec<u8> {
    let mut text = Vec::new();
    if random.one_in(5) {
        text.push(b'!');
    }
    if random.one_in(5) {
        text.push(b'/');
    }
    match random.below(4) {
        // Names of the tree, changed a little.
        0 | 1 => {
            for part in 0..=random.below(3) {
                if part > 0 {
                    text.push(b'/');
                }
                match random.below(6) {
                    0 => text.push(b'*'),
                    1 => text.extend(b"**"),
                    2 => {
                        text.extend(name(random));
                        text.extend(random.pick(&TOKENS).as_bytes());
                    }
                    3 => {
                        text.extend(random.pick(&TOKENS).as_bytes());
                        text.extend(name(random));
                    }
                    _ => text.extend(name(random)),
                }
            }
        }
        _ => {
            for _ in 0..=random.below(6) {
                text.extend(random.pick(&TOKENS).as_bytes());
            }
        }
    }
    if random.one_in(5) {
        text.push(b'/');
    }
    if random.one_in(12) {
        text.extend(random.pick(&[" ", "  ", "\\ ", "\r", "\0x", "\t", " \r", "\\"]).as_bytes());
    }
    text
}

fn rules(random: &mut Random) -> Vec<u8> {
    let mut text = Vec::new();
    if random.one_in(20) {
        text.extend("\u{feff}".as_bytes());
    }
    for _ in 0..=random.below(5) {
        text.extend(pattern(random));
        text.extend(if random.one_in(12) { &b"\r\n"[..] } else { b"\n" });
    }
    if random.one_in(6) {
        text.pop();
    }
    text
}

/// Makes a random tree below `directory`; what was written where, for the report.
fn tree(random: &mut Random, directory: &Path, depth: usize, report: &mut String) {
    for _ in 0..2 + random.below(4) {
        let path = directory.join(std::ffi::OsStr::from_bytes(name(random)));
        if path.symlink_metadata().is_ok() {
            continue;
        }
        match random.below(10) {
            0..5 if depth < 4 => {
                fs::create_dir(&path).expect("made");
                tree(random, &path, depth + 1, report);
            }
            5 if random.one_in(3) => symlink("foo", &path).expect("linked"),
            _ => fs::write(&path, b"x").expect("written"),
        }
    }
    if depth > 0 && random.one_in(4) {
        let text = rules(random);
        let _ = writeln!(report, "{}/.gitignore: {}", directory.display(), text.escape_ascii());
        fs::write(directory.join(".gitignore"), text).expect("written");
    }
}

/// One repository with random rules and files; what is wrong with it.
fn one_set_of_rules(s: &Sandbox, repo: &Path, seed: u64, cased: bool) -> Result<(), String> {
    let mut random = Random::new(seed);
    for item in fs::read_dir(repo).expect("readable") {
        let path = item.expect("an entry").path();
        if path.file_name().is_some_and(|name| name == ".git") {
            continue;
        }
        let directory = path.symlink_metadata().expect("a stat").is_dir();
        if directory { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }.expect("removed");
    }
    let _ = fs::remove_file(repo.join(".git/index"));
    let mut report = String::new();
    tree(&mut random, repo, 0, &mut report);
    let root = rules(&mut random);
    let _ = writeln!(report, ".gitignore: {}", root.escape_ascii());
    fs::write(repo.join(".gitignore"), root).expect("written");
    let shared = if random.one_in(3) { rules(&mut random) } else { Vec::new() };
    let _ = writeln!(report, "info/exclude: {}", shared.escape_ascii());
    write(repo, ".git/info/exclude", shared);
    let more = if random.one_in(4) { rules(&mut random) } else { Vec::new() };
    let _ = writeln!(report, "core.excludesFile: {}", more.escape_ascii());
    write(repo, ".git/more", more);
    // Some of it is tracked already, ignored or not.
    if random.one_in(3) {
        let tracked: Vec<PathBuf> = files(repo).into_iter().filter(|_| random.one_in(4)).collect();
        if !tracked.is_empty() {
            let mut add = git(repo, &["-c", "core.ignoreCase=false", "--literal-pathspecs", "add", "-f", "--"]);
            run(s, add.args(&tracked));
            let _ = writeln!(report, "tracked: {tracked:?}");
        }
    }
    let ours = untracked(repo)?;
    let output = git(repo, &["ls-files", "-z", "-o", "--exclude-standard"]).output().expect("git runs");
    let mut gits: Vec<Vec<u8>> =
        output.stdout.split(|b| *b == 0).filter(|p| !p.is_empty()).map(<[u8]>::to_vec).collect();
    gits.sort();
    match ours {
        Some(ours) if ours == gits => Ok(()),
        None if cased && !gits.is_empty() => Ok(()),
        // Nothing here needs git.
        ours => {
            let show = |paths: &[Vec<u8>]| {
                paths.iter().map(|path| path.escape_ascii().to_string()).collect::<Vec<_>>().join(", ")
            };
            let ours = ours.map_or("left to git".to_owned(), |ours| {
                let lost: Vec<_> = gits.iter().filter(|path| !ours.contains(path)).cloned().collect();
                let more: Vec<_> = ours.iter().filter(|path| !gits.contains(path)).cloned().collect();
                format!("lost: {}; too many: {}", show(&lost), show(&more))
            });
            Err(format!("{report}{ours}"))
        }
    }
}

/// Every file and link but `.git`, relative.
fn files(root: &Path) -> Vec<PathBuf> {
    fn walk(root: &Path, directory: &Path, found: &mut Vec<PathBuf>) {
        for item in fs::read_dir(directory).expect("readable") {
            let path = item.expect("an entry").path();
            if path.file_name().is_some_and(|name| name == ".git") {
                continue;
            }
            if path.symlink_metadata().expect("a stat").is_dir() {
                walk(root, &path, found);
            } else {
                found.push(path.strip_prefix(root).expect("inside").to_owned());
            }
        }
    }
    let mut found = Vec::new();
    walk(root, root, &mut found);
    found.sort();
    found
}

/// One repository after another, each with `config`.
fn rules_under(usual: u64, config: &[(&str, &str)]) {
    let s = Sandbox::in_memory();
    let repo = s.path("repo");
    fs::create_dir(&repo).expect("a directory");
    run(&s, &mut git(&repo, &["init", "-q", "-b", "main"]));
    let more = repo.join(".git/more");
    run(&s, &mut git(&repo, &["config", "core.excludesFile", more.to_str().expect("UTF-8")]));
    for (key, value) in config {
        run(&s, &mut git(&repo, &["config", key, value]));
    }
    let mut rounds = 0;
    let mut wrong = Vec::new();
    for seed in seeds(usual) {
        if let Err(why) = one_set_of_rules(&s, &repo, seed, !config.is_empty()) {
            wrong.push(format!("ISOFOLD_FUZZ_SEED={seed}\n{why}"));
        }
        rounds += 1;
    }
    say!("{rounds} sets of ignore rules, {} different", wrong.len());
    assert!(wrong.is_empty(), "{} of {rounds}: {}", wrong.len(), wrong[..wrong.len().min(5)].join("\n\n"));
}

#[test]
fn random_ignore_rules_find_what_git_finds() {
    hermetic("snapshot_fuzz::random_ignore_rules_find_what_git_finds", false, &[], || rules_under(1500, &[]));
}

#[test]
fn random_ignore_rules_without_case_find_what_git_finds() {
    // The scan says nothing or what git says: where something is new it leaves the decision to git.
    let name = "snapshot_fuzz::random_ignore_rules_without_case_find_what_git_finds";
    hermetic(name, false, &[], || rules_under(800, &[("core.ignoreCase", "true")]));
}

/// Where files are tracked, and in the steps below.
const PLACES: [&str; 8] = ["", "", "d/", "d/e/", "f/", "f/g/h/", "a/", "ig/"];
const BASES: [&str; 12] =
    ["a", "b", "c.log", "d", "f", "x y", "ig", "é", "e", ".gitignore", "keep.log", ".gitattributes"];

/// What a repository may be configured with.
const CONFIGS: [(&str, &str); 10] = [
    ("core.fileMode", "false"),
    ("core.trustctime", "false"),
    ("core.checkStat", "minimal"),
    ("core.autocrlf", "true"),
    ("core.autocrlf", "input"),
    ("index.skipHash", "true"),
    ("index.version", "4"),
    ("core.untrackedCache", "true"),
    ("core.ignoreCase", "true"),
    ("core.symlinks", "false"),
];

fn content(random: &mut Random) -> Vec<u8> {
    // Few contents of few sizes: equal sizes and equal blobs are what deceives.
    match random.below(9) {
        0 => Vec::new(),
        1 => b"a\r\nb\r\n".to_vec(),
        2 => b"a\nb\r\n".to_vec(),
        3 => b"\0\r\n".to_vec(),
        4 => b"$Id: x $\n".to_vec(),
        n => format!("{n}\n").into_bytes(),
    }
}

/// Removes whatever stands at `path` or, as a file, above it.
fn clear(root: &Path, path: &Path) {
    let mut at = root.to_owned();
    for part in path.components() {
        at.push(part);
        let Ok(meta) = at.symlink_metadata() else { return };
        if meta.is_dir() {
            if at == root.join(path) {
                fs::remove_dir_all(&at).expect("removed");
            }
        } else {
            fs::remove_file(&at).expect("removed");
            return;
        }
    }
}

fn put(root: &Path, path: &Path, content: &[u8]) {
    clear(root, path);
    write(root, path, content);
}

/// A few times only, so that an edit can keep the time; most lie in the past.
fn date(random: &mut Random, file: &Path) {
    let second = match random.below(4) {
        0 => return,
        n => 1_600_000_000 + u64::try_from(n).expect("small"),
    };
    if let Ok(file) = fs::File::open(file) {
        let _ = file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(second));
    }
}

/// One random step; what it was.
fn step(s: &Sandbox, root: &Path, random: &mut Random) -> String {
    let any = PathBuf::from(format!("{}{}", random.pick(&PLACES), random.pick(&BASES)));
    let there = files(root);
    let some = if there.is_empty() { any.clone() } else { there[random.below(there.len())].clone() };
    let full = root.join(&some);
    let regular = full.symlink_metadata().is_ok_and(|meta| meta.is_file());
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    // git may have nothing to do, or refuse: what counts is the state that it leaves.
    let quietly = |args: &[&str]| {
        let _ = git(root, args).output();
    };
    let kind = random.below(32);
    match kind {
        0..5 if regular => {
            let keep = full.metadata().expect("a stat").modified().expect("a time");
            fs::write(&full, content(random)).expect("written");
            if random.one_in(2) {
                fs::File::open(&full).expect("opened").set_modified(keep).expect("set");
            } else {
                date(random, &full);
            }
            format!("edit {}", text(&some))
        }
        5..9 => {
            let special = any.file_name().expect("a name");
            let new = if special == ".gitignore" {
                let lines = ["*.log\n", "d/\n", "ig\n", "!keep.log\n", "/a\n", "f/**\n", "e\n", "*\n", ".git*\n"];
                (0..=random.below(3)).map(|_| random.pick(&lines)).collect::<String>().into_bytes()
            } else if special == ".gitattributes" {
                let lines =
                    ["* text=auto\n", "*.log -text\n", "a text\n", "* ident\n", "b eol=crlf\n", "* filter=up\n"];
                (0..=random.below(2)).map(|_| random.pick(&lines)).collect::<String>().into_bytes()
            } else {
                content(random)
            };
            put(root, &any, &new);
            date(random, &root.join(&any));
            format!("write {} {}", text(&any), new.escape_ascii())
        }
        9 | 10 if full.symlink_metadata().is_ok() => {
            fs::remove_file(&full).expect("removed");
            for above in some.ancestors().skip(1).filter(|a| !a.as_os_str().is_empty()) {
                if random.one_in(2) || fs::remove_dir(root.join(above)).is_err() {
                    break;
                }
            }
            format!("remove {}", text(&some))
        }
        11 => {
            clear(root, &any);
            fs::create_dir_all(root.join(any.parent().expect("a parent"))).expect("made");
            symlink(random.pick(&["a", "d", "../f", "nowhere", "1\n"]), root.join(&any)).expect("linked");
            format!("link {}", text(&any))
        }
        12 => {
            // A directory and a link to it that shows the same files.
            let place = PathBuf::from(random.pick(&["d", "f", "d/e", "a"]));
            let moved = root.join("moved");
            if root.join(&place).is_dir() && !moved.exists() {
                fs::rename(root.join(&place), &moved).expect("moved");
                symlink(if place.starts_with("d/") { "../moved" } else { "moved" }, root.join(&place)).expect("linked");
            }
            format!("link in place of {}", text(&place))
        }
        13 if full.symlink_metadata().is_ok() && !any.starts_with(&some) => {
            clear(root, &any);
            fs::create_dir_all(root.join(any.parent().expect("a parent"))).expect("made");
            if full.symlink_metadata().is_ok() {
                fs::rename(&full, root.join(&any)).expect("renamed");
            }
            format!("rename {} to {}", text(&some), text(&any))
        }
        14 if regular => {
            let mode = *[0o644, 0o755, 0o700, 0o600, 0o654].get(random.below(5)).expect("five");
            fs::set_permissions(&full, fs::Permissions::from_mode(mode)).expect("set");
            format!("mode {} {mode:o}", text(&some))
        }
        15 if regular => {
            date(random, &full);
            format!("touch {}", text(&some))
        }
        16 => {
            let place = root.join(random.pick(&["d", "f/g", "a", "ig", "new/dir"]));
            if !place.is_dir() {
                clear(root, place.strip_prefix(root).expect("inside"));
                fs::create_dir_all(&place).expect("made");
            }
            format!("directory {}", place.display())
        }
        17 => {
            quietly(&["add", "-f", "--", &text(&some)]);
            format!("add -f {}", text(&some))
        }
        18 => {
            quietly(&["add", "-A", "--sparse"]);
            "add -A".to_owned()
        }
        19 => {
            quietly(&["commit", "-qm", "c"]);
            "commit".to_owned()
        }
        20 => {
            quietly(&["rm", "-q", "--cached", "--sparse", "--", &text(&some)]);
            format!("rm --cached {}", text(&some))
        }
        21 => {
            quietly(&["add", "-N", "--sparse", "--", &text(&any)]);
            format!("add -N {}", text(&any))
        }
        22 | 23 => {
            let flag = random.pick(&[
                "--skip-worktree",
                "--no-skip-worktree",
                "--no-skip-worktree",
                "--assume-unchanged",
                "--no-assume-unchanged",
                "--no-assume-unchanged",
                "--chmod=+x",
                "--chmod=-x",
                "--force-remove",
            ]);
            let indexed = run(s, &mut git(root, &["ls-files", "-z"]));
            let indexed: Vec<&str> = indexed.split('\0').filter(|path| !path.is_empty()).collect();
            if indexed.is_empty() {
                return "nothing".to_owned();
            }
            let path = indexed[random.below(indexed.len())];
            quietly(&["update-index", flag, "--", path]);
            format!("update-index {flag} {path}")
        }
        24 => {
            let place = random.pick(&["n", "d/n", "ig/n", "f"]);
            if !root.join(place).join(".git").exists() {
                clear(root, Path::new(place));
                quietly(&["init", "-q", "-b", "main", place]);
                if random.one_in(2) {
                    quietly(&["-C", place, "commit", "-q", "--allow-empty", "-m", "s"]);
                }
            }
            format!("repository {place}")
        }
        25 => {
            quietly(&["-C", random.pick(&["n", "d/n"]), "commit", "-q", "--allow-empty", "-m", "more"]);
            "commit in a nested repository".to_owned()
        }
        26 => {
            quietly(&["add", "--", random.pick(&["n", "d/n"])]);
            "add a nested repository".to_owned()
        }
        27 => {
            let place = root.join(random.pick(&["n/.git", "d/n/.git"]));
            let _ = fs::remove_dir_all(place);
            "no repository any more".to_owned()
        }
        28 => {
            let version = random.pick(&["2", "3", "4"]);
            quietly(&["update-index", "--index-version", version]);
            format!("index version {version}")
        }
        29 => {
            quietly(&["update-index", "-q", "--refresh"]);
            "refresh".to_owned()
        }
        30 if random.one_in(3) => {
            let how = random.pick(&["--hard", "--mixed", "--mixed"]);
            quietly(&["reset", "-q", how]);
            format!("reset {how}")
        }
        31 if random.one_in(3) => {
            quietly(&["stash", "-q"]);
            "stash".to_owned()
        }
        _ => "nothing".to_owned(),
    }
}

/// Steps on one repository.
const STEPS: usize = 25;

/// Steps judged, and how many of them were left to git or refused by both.
#[derive(Default)]
pub(crate) struct Count {
    pub(crate) steps: usize,
    pub(crate) by_git: usize,
    pub(crate) refused: usize,
    pub(crate) isolated: usize,
}

pub(crate) fn one_repository(s: &Sandbox, seed: u64, from: Option<&Path>, count: &mut Count) -> Result<(), String> {
    let mut random = Random::new(seed.wrapping_mul(7919));
    let repo = s.path(&format!("repo-{seed}"));
    match from {
        Some(from) => _ = run(s, std::process::Command::new("cp").arg("-a").arg(from).arg(&repo)),
        None => fs::create_dir(&repo).expect("a directory"),
    }
    run(s, &mut git(&repo, &["init", "-q", "-b", "main"]));
    let mut log = Vec::new();
    for (key, value) in [("user.name", "T"), ("user.email", "t@example.test"), ("filter.up.clean", "tr a-z A-Z")] {
        run(s, &mut git(&repo, &["config", key, value]));
    }
    for _ in 0..random.below(3) {
        let (key, value) = CONFIGS[random.below(CONFIGS.len())];
        run(s, &mut git(&repo, &["config", key, value]));
        log.push(format!("{key}={value}"));
    }
    for _ in 0..12 {
        let path = PathBuf::from(format!("{}{}", random.pick(&PLACES), random.pick(&BASES[..9])));
        put(&repo, &path, &content(&mut random));
        date(&mut random, &repo.join(&path));
    }
    run(s, &mut git(&repo, &["add", "-A"]));
    run(s, &mut git(&repo, &["commit", "-qm", "start"]));
    for _ in 0..STEPS {
        for _ in 0..=random.below(3) {
            log.push(step(s, &repo, &mut random));
        }
        count.steps += 1;
        let less = nested(&repo);
        let less: Vec<&str> = less.iter().map(String::as_str).collect();
        match compare(&repo, &less) {
            Ok(taken) => count.by_git += usize::from(taken.by_git),
            // Both refuse.
            Err(why) if why.starts_with("refused: ") => count.refused += 1,
            Err(why) => return Err(format!("{why}\nafter: {}", log.join("; "))),
        }
    }
    let child = s.path(&format!("child-{seed}"));
    let result = isolated(&repo, &child).map_err(|why| {
        format!(
            "{why}
after: {}",
            log.join("; ")
        )
    });
    count.isolated += usize::from(result == Ok(true));
    let _ = fs::remove_dir_all(&child);
    fs::remove_dir_all(&repo).expect("removed");
    result.map(|_| ())
}

#[test]
fn random_steps_give_gits_tree() {
    hermetic("snapshot_fuzz::random_steps_give_gits_tree", false, &[], || {
        let s = Sandbox::in_memory();
        let mut wrong = Vec::new();
        let mut count = Count::default();
        for seed in seeds(40) {
            if let Err(why) = one_repository(&s, seed, None, &mut count) {
                wrong.push(format!("ISOFOLD_FUZZ_SEED={seed}\n{why}"));
            }
        }
        let Count { steps, by_git, refused, isolated } = count;
        say!(
            "{steps} steps, {by_git} left to git, {refused} refused by both, {isolated} isolated, {} different",
            wrong.len()
        );
        assert!(wrong.is_empty(), "{}: {}", wrong.len(), wrong[..wrong.len().min(8)].join("\n\n"));
    });
}

/// `ISOFOLD_FUZZ_TREE` names a directory of real files; without it the sources of this crate serve.
#[test]
fn random_steps_on_real_files_give_gits_tree() {
    hermetic("snapshot_fuzz::random_steps_on_real_files_give_gits_tree", false, &[], || {
        let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("src").into_os_string();
        let from = std::env::var_os("ISOFOLD_FUZZ_TREE").unwrap_or_else(own);
        let s = Sandbox::in_memory();
        let mut count = Count::default();
        for seed in seeds(1) {
            let result = one_repository(&s, seed, Some(Path::new(&from)), &mut count);
            assert!(result.is_ok(), "ISOFOLD_FUZZ_SEED={seed}\n{result:?}");
        }
        let Count { steps, by_git, refused, isolated } = count;
        say!("{steps} steps, {by_git} left to git, {refused} refused by both, {isolated} isolated, 0 different");
    });
}
