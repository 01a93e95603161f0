//! Random edits of real trees: sources of the cargo registry, packages of node with ignore files in
//! them, packages of Python with CRLF and binary files. What is on the machine is read.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::snapshot_fuzz::{Count, one_repository};
use crate::support::Sandbox;
use crate::support::host::skipped;
use crate::support::random::seeds;
use crate::support::snapshots::{hermetic, say};

/// How many files of each tree are taken; `ISOFOLD_REAL_FILES` names another number.
const FILES: usize = 1_000;

/// The first of these directories that is there.
fn first(places: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    places.into_iter().find(|place| place.is_dir())
}

/// Sources of crates.
pub(crate) fn registry() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    let sources = fs::read_dir(home.join("registry/src")).ok()?;
    first(sources.filter_map(|entry| Some(entry.ok()?.path())))
}

fn node_modules() -> Option<PathBuf> {
    let output = Command::new("npm").args(["root", "-g"]).output().ok();
    let global = output.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    // Debian's npm lies beside the packages that it uses.
    first(["/usr/share/nodejs", "/usr/lib/node_modules"].map(PathBuf::from).into_iter().chain(global))
}

fn python() -> Option<PathBuf> {
    let ask = "import sysconfig; print(sysconfig.get_path('stdlib'))";
    let output = Command::new("python3").args(["-c", ask]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let places = ["/usr/lib/python3/dist-packages"].into_iter().chain(text.lines());
    first(places.map(PathBuf::from).filter(|place| fs::read_dir(place).is_ok_and(|list| list.count() > 3)))
}

/// Copies whole packages of `from` until there are enough files; how many there are.
fn copy(from: &Path, to: &Path, wanted: usize) -> usize {
    let mut packages: Vec<PathBuf> =
        fs::read_dir(from).expect("readable").filter_map(|entry| Some(entry.ok()?.path())).collect();
    packages.sort();
    fs::create_dir(to).expect("a directory");
    let mut count = 0;
    for package in packages {
        // Git repositories inside are no part of a package.
        let files = walkdir::WalkDir::new(&package).into_iter().filter_map(Result::ok);
        let files: Vec<_> = files.filter(|entry| entry.file_type().is_file()).collect();
        if files.iter().any(|entry| entry.path().components().any(|part| part.as_os_str() == ".git")) {
            continue;
        }
        count += files.len();
        let copied = Command::new("cp").arg("-a").arg(&package).arg(to).status().expect("cp runs");
        assert!(copied.success());
        if count >= wanted {
            break;
        }
    }
    count
}

/// Ignore files in some directories and CRLF in some texts, where a tree brings none of its own.
fn season(tree: &Path) {
    let below = || walkdir::WalkDir::new(tree).min_depth(1).sort_by_file_name().into_iter().filter_map(Result::ok);
    for (number, entry) in below().filter(|entry| entry.file_type().is_dir()).enumerate() {
        if number % 11 == 3 {
            let rules = ["*.md\n!README.md\n", "/*.js\ntest/\n", "dist\n*.map\n.git*\n!.gitignore\n"][number % 3];
            fs::write(entry.path().join(".gitignore"), rules).expect("written");
        }
    }
    for (number, entry) in below().filter(|entry| entry.file_type().is_file()).enumerate() {
        let content = fs::read(entry.path()).expect("readable");
        if number % 23 == 5 && !content.contains(&0) && !content.contains(&b'\r') {
            let lines: Vec<&[u8]> = content.split(|b| *b == b'\n').collect();
            fs::write(entry.path(), lines.join(&b"\r\n"[..])).expect("written");
        }
    }
}

/// How many ignore files, texts with CRLF and binary files there are.
fn census(tree: &Path) -> (usize, usize, usize) {
    let (mut ignores, mut crlf, mut binary) = (0, 0, 0);
    for entry in walkdir::WalkDir::new(tree).into_iter().filter_map(Result::ok).filter(|e| e.file_type().is_file()) {
        let content = fs::read(entry.path()).expect("readable");
        ignores += usize::from(entry.file_name() == OsStr::new(".gitignore"));
        binary += usize::from(content.contains(&0));
        crlf += usize::from(!content.contains(&0) && content.windows(2).any(|pair| pair == b"\r\n"));
    }
    (ignores, crlf, binary)
}

fn real_tree(what: &str, from: Option<PathBuf>, attributes: &str, count: &mut Count) {
    let Some(from) = from else {
        skipped(&format!("{what} are not on this machine"));
        return;
    };
    let s = Sandbox::in_memory();
    let wanted = std::env::var("ISOFOLD_REAL_FILES").ok().and_then(|text| text.parse().ok()).unwrap_or(FILES);
    let tree = s.path("tree");
    let files = copy(&from, &tree, wanted);
    if !attributes.is_empty() {
        fs::write(tree.join(".gitattributes"), attributes).expect("written");
    }
    season(&tree);
    let (ignores, crlf, binary) = census(&tree);
    say!("{what}: {files} files, {ignores} .gitignore, {crlf} with CRLF, {binary} binary, {}", from.display());
    assert!(files > 200 && ignores > 0 && crlf > 0, "no test: {files} files");
    for seed in seeds(1) {
        let result = one_repository(&s, seed, Some(&tree), count);
        assert!(result.is_ok(), "ISOFOLD_FUZZ_SEED={seed}\n{result:?}");
    }
}

#[test]
fn random_steps_on_real_trees_give_gits_tree() {
    // Outside the sandbox' home, which the work below has.
    let places =
        [("ISOFOLD_REAL_CARGO", registry()), ("ISOFOLD_REAL_NODE", node_modules()), ("ISOFOLD_REAL_PYTHON", python())];
    let more: Vec<(&str, String)> = places
        .into_iter()
        .filter_map(|(name, place)| Some((name, place?.into_os_string().into_string().ok()?)))
        .collect();
    let more: Vec<(&str, &str)> = more.iter().map(|(name, place)| (*name, place.as_str())).collect();
    hermetic("snapshot_real::random_steps_on_real_trees_give_gits_tree", false, &more, || {
        let place = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let mut count = Count::default();
        real_tree("sources of the cargo registry", place("ISOFOLD_REAL_CARGO"), "", &mut count);
        real_tree("packages of node", place("ISOFOLD_REAL_NODE"), "", &mut count);
        real_tree("packages of Python", place("ISOFOLD_REAL_PYTHON"), "* text=auto\n*.so binary\n", &mut count);
        let Count { steps, by_git, refused, isolated } = count;
        say!("{steps} steps, {by_git} left to git, {refused} refused by both, {isolated} isolated, 0 different");
    });
}
