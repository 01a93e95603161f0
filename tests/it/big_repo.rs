//! A large, dirty, real repository, once through: `fixtures/big-repo.sh`.
#![allow(clippy::print_stderr, reason = "what was skipped, and how long each part took")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use isofold::{
    Control, FoldBackend, FoldOutcome, FoldRequest, IsolateOutcome, IsolateRequest, Isolation, IsolationBackend,
    Landing, Strategy,
};

use crate::support::{Sandbox, hash, read, write};

const ENV_FILES: [&str; 3] = [".env", "deps-2/.env", "deps-3/libc/src/.env"];
const MODIFIED: usize = 100;

/// Whether a tool (or what it needs) is there. Where nobody may skip, a missing one is a failure.
fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{why}, and CI=true allows no skipping");
    eprintln!("SKIPPED: {why}");
}

fn is_there(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Memory where there is plenty of it: making and removing 100,000 files is slow on some disks.
fn roomy_directory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let free = rustix::fs::statvfs(memory).map_or(0, |s| s.f_bavail.saturating_mul(s.f_frsize));
    if free > 4 << 30 { memory.to_owned() } else { std::env::temp_dir() }
}

/// Runs the fixture's script with the caller's own caches; its words where it fails.
fn make(sandbox: &Sandbox, repo: &Path) -> Result<String, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/big-repo.sh");
    let mut command = sandbox.command("bash");
    for key in ["HOME", "XDG_CONFIG_HOME"] {
        match std::env::var_os(key) {
            Some(value) => command.env(key, value),
            None => command.env_remove(key),
        };
    }
    let output = command.arg(script).arg(repo).env("GIT_CONFIG_GLOBAL", "/dev/null").output().expect("bash runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// A path's type and mode, size, modification time and link target: what a copy has in common with
/// its source. Bytes are compared by `diff`, which is faster than hashing.
type Look = (u32, u64, (i64, i64), Option<PathBuf>);

/// Inode and change time: nobody writes to a file, or replaces it, without changing these.
type Proof = (u64, (i64, i64));

/// Every entry below `root` but the root's `.git`.
fn stats(root: &Path) -> BTreeMap<PathBuf, (Look, Proof)> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let relative = path.strip_prefix(root).expect("inside").to_owned();
            if relative == Path::new(".git") {
                continue;
            }
            let meta = fs::symlink_metadata(&path).expect("a stat");
            let target = meta.is_symlink().then(|| fs::read_link(&path).expect("a target"));
            let size = if meta.is_dir() { 0 } else { meta.len() };
            let look = (meta.mode(), size, (meta.mtime(), meta.mtime_nsec()), target);
            if meta.is_dir() {
                directories.push(path);
            }
            found.insert(relative, (look, (meta.ino(), (meta.ctime(), meta.ctime_nsec()))));
        }
    }
    found
}

fn looks(stats: BTreeMap<PathBuf, (Look, Proof)>) -> BTreeMap<PathBuf, Look> {
    stats.into_iter().map(|(path, (look, _))| (path, look)).collect()
}

/// The paths in which two listings differ, the first few of them.
fn differing<T: PartialEq>(one: &BTreeMap<PathBuf, T>, two: &BTreeMap<PathBuf, T>) -> Vec<PathBuf> {
    let paths: BTreeSet<&PathBuf> = one.keys().chain(two.keys()).collect();
    paths.into_iter().filter(|path| one.get(*path) != two.get(*path)).take(20).cloned().collect()
}

/// The Parent's git side: index, HEAD, configuration and refs, other than what isolate makes.
fn git_side(sandbox: &Sandbox, repo: &Path) -> String {
    let content = |name: &str| fs::read(repo.join(".git").join(name)).map_or_else(|_| "none".to_owned(), |c| hash(&c));
    let refs = sandbox.git(repo, &["for-each-ref", "--exclude=refs/isofold", "--exclude=refs/heads/issue"]);
    let files = ["index", "HEAD", "logs/HEAD", "config"].map(|name| format!("{name} {}", content(name)));
    format!("{refs}\n{}\n", files.join("\n"))
}

fn status(sandbox: &Sandbox, directory: &Path) -> Vec<String> {
    let args = ["--no-optional-locks", "status", "--porcelain=v2", "--untracked-files=all"];
    sandbox.git(directory, &args).lines().map(str::to_owned).collect()
}

/// The regular files of the work tree, other than rule files of git, that `git status` opens.
fn opened_by_status(sandbox: &Sandbox, child: &Path) -> BTreeSet<PathBuf> {
    let log = sandbox.path("strace.log");
    let traced = sandbox
        .command("strace")
        .args(["-f", "-qq", "-s", "4096", "-e", "trace=open,openat,openat2", "-o"])
        .arg(&log)
        .args(["git", "-C"])
        .arg(child)
        .args(["status", "--porcelain=v2"])
        .output()
        .expect("strace runs");
    assert!(traced.status.success(), "{}", String::from_utf8_lossy(&traced.stderr));
    let text = fs::read_to_string(&log).expect("a trace");
    assert!(text.contains("index"), "the trace is empty: {text:?}");
    let mut opened = BTreeSet::new();
    for line in text.lines().filter(|line| !line.contains(" = -1 ")) {
        let Some(name) = line.split('"').nth(1) else { continue };
        let path = child.join(name);
        let rules = path.file_name().is_some_and(|n| n == ".gitignore" || n == ".gitattributes");
        let is_file = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file());
        if path.starts_with(child) && is_file && !rules && path != child.join(".git") {
            opened.insert(path);
        }
    }
    opened
}

/// Isolates, then compares the Child and the Parent with what the Parent was.
fn isolate(sandbox: &Sandbox, parent: &Path, child: &Path) -> Isolation {
    let (before, git_before) = (stats(parent), git_side(sandbox, parent));
    let parent_status = status(sandbox, parent);
    assert_eq!(parent_status.iter().filter(|l| l.starts_with("1 .M")).count(), MODIFIED);
    assert_eq!(parent_status.iter().filter(|l| l.starts_with("1 .D")).count(), 20);
    assert_eq!(parent_status.iter().filter(|l| l.starts_with("1 M.")).count(), 10);
    assert_eq!(parent_status.iter().filter(|l| l.starts_with("? ")).count(), 50 + ENV_FILES.len());

    let started = Instant::now();
    let request = IsolateRequest::new("big", parent, child);
    let outcome = Strategy::new().isolator().isolate(&request, &Control::new());
    let IsolateOutcome::Isolated(isolation) = outcome else { panic!("{outcome:?}") };
    eprintln!("isolated {} files in {:?}", isolation.files + isolation.links, started.elapsed());

    // Before anything else runs git there: the first status reads only what is modified.
    if is_there("strace") {
        let opened = opened_by_status(sandbox, child);
        eprintln!("the first git status opened {} files", opened.len());
        let modified: BTreeSet<PathBuf> = parent_status
            .iter()
            .filter(|line| line.starts_with("1 .M"))
            .filter_map(|line| line.splitn(9, ' ').nth(8))
            .map(|path| child.join(path))
            .collect();
        let needless: Vec<&PathBuf> = opened.difference(&modified).collect();
        assert!(needless.is_empty(), "opened though not modified: {needless:?}");
        assert!(!opened.is_empty(), "modified files of the same size have to be read");
    } else {
        skip("strace is not installed");
    }

    // The same by the means of the system, and by our own listing: modes, nanoseconds, link targets.
    let diff = Command::new("diff")
        .args(["-r", "--no-dereference", "--exclude=.git"])
        .args([parent, child])
        .env("LC_ALL", "C")
        .output()
        .expect("diff runs");
    let only_in_parent = |env: &str| {
        let (above, name) = env.rsplit_once('/').map_or((String::new(), env), |(a, n)| (format!("/{a}"), n));
        format!("Only in {}{above}: {name}", parent.display())
    };
    let differences: BTreeSet<String> = String::from_utf8_lossy(&diff.stdout).lines().map(str::to_owned).collect();
    assert_eq!(differences, ENV_FILES.map(only_in_parent).into());
    let mut expected = looks(before.clone());
    for env in ENV_FILES {
        assert!(expected.remove(Path::new(env)).is_some());
    }
    assert_eq!(differing(&expected, &looks(stats(child))), Vec::<PathBuf>::new());
    let left_out: BTreeSet<&Path> = isolation.left_out.iter().map(PathBuf::as_path).collect();
    assert_eq!(left_out, ENV_FILES.map(Path::new).into());

    let expected: Vec<String> = parent_status
        .into_iter()
        .filter(|line| !ENV_FILES.iter().any(|env| line.strip_prefix("? ") == Some(*env)))
        .collect();
    assert_eq!(status(sandbox, child), expected);
    assert_eq!(differing(&stats(parent), &before), Vec::<PathBuf>::new(), "the Parent changed");
    assert_eq!(git_side(sandbox, parent), git_before);
    eprintln!("isolated and compared in {:?}", started.elapsed());
    *isolation
}

#[test]
fn a_large_dirty_repository_is_isolated_and_folded() {
    for tool in ["npm", "cargo", "bash"] {
        if !is_there(tool) {
            return skip(&format!("{tool} is not installed"));
        }
    }
    let sandbox = Sandbox::inside(&roomy_directory());
    let (parent, child) = (sandbox.path("parent"), sandbox.path("child"));
    let started = Instant::now();
    match make(&sandbox, &parent) {
        Ok(made) => eprintln!("{made}, made in {:?}", started.elapsed()),
        Err(why) => return skip(&format!("the repository can't be made ({why})")),
    }
    isolate(&sandbox, &parent, &child);

    // Work in the Child: on files that are clean, modified and staged, new, deleted, another mode.
    let tracked = sandbox.git(&parent, &["ls-files", "deps-4/*.rs"]);
    let tracked: Vec<&str> = tracked.lines().filter(|path| !path.starts_with('"')).collect();
    let dirty = status(&sandbox, &parent);
    let of_kind = |kind: &str| {
        let line = dirty.iter().find(|line| line.starts_with(kind)).expect("one of each kind");
        line.splitn(9, ' ').nth(8).expect("a path").to_owned()
    };
    let append = |directory: &Path, path: &str| {
        let text = fs::read(directory.join(path)).expect("a file");
        write(directory, path, [text.as_slice(), b"\n// work in here\n"].concat());
    };
    let clean: Vec<&str> =
        tracked.iter().copied().filter(|path| !dirty.iter().any(|line| line.ends_with(path))).take(40).collect();
    let (edited, deleted, theirs) = (&clean[..30], &clean[30..35], &clean[35..40]);
    let mut changed: BTreeSet<String> = edited.iter().chain(deleted).map(|path| (*path).to_owned()).collect();
    for path in edited {
        append(&child, path);
    }
    for path in deleted {
        fs::remove_file(child.join(path)).expect("removed");
    }
    for path in [of_kind("1 .M"), of_kind("1 M."), "tools/untracked-3.txt".to_owned()] {
        append(&child, &path);
        changed.insert(path);
    }
    write(&child, "new/deep/work.rs", "fn work() {}\n");
    fs::set_permissions(child.join("tools/untracked-4.txt"), fs::Permissions::from_mode(0o755)).expect("a mode");
    fs::remove_file(child.join("tools/link-to-a-file")).expect("removed");
    std::os::unix::fs::symlink("../.gitignore", child.join("tools/link-to-a-file")).expect("a link");
    changed.extend(
        ["new/deep/work.rs", "tools/untracked-4.txt", "tools/link-to-a-file"].map(std::borrow::ToOwned::to_owned),
    );
    write(&child, "node_modules/lodash/scratch.js", "ignored work stays where it is\n");
    // Meanwhile the Parent goes on.
    for path in theirs {
        append(&parent, path);
    }

    let before = stats(&parent);
    let child_before = (stats(&child), status(&sandbox, &child));
    let started = Instant::now();
    let request = FoldRequest::new("big", &parent, &child);
    let outcome = Strategy::new().integrator().fold(&request, &Control::new());
    let FoldOutcome::Integrated(integration) = outcome else { panic!("{outcome:?}") };
    eprintln!("folded {} files in {:?}", integration.files.len(), started.elapsed());
    assert_eq!(integration.landing, Landing::Merge);
    let folded: BTreeSet<String> = integration.files.iter().map(|p| p.to_string_lossy().into_owned()).collect();
    assert_eq!(folded, changed);

    // The Parent holds both, and nothing but those paths was written.
    for path in changed.iter().filter(|path| !deleted.contains(&path.as_str()) && *path != "tools/link-to-a-file") {
        assert!(read(&parent, path) == read(&child, path), "{path}");
    }
    let target = fs::read_link(parent.join("tools/link-to-a-file")).expect("a link");
    assert_eq!(target, Path::new("../.gitignore"));
    assert_eq!(fs::metadata(parent.join("tools/untracked-4.txt")).expect("a file").mode() & 0o777, 0o755);
    assert!(deleted.iter().all(|path| !parent.join(path).exists()));
    assert!(theirs.iter().all(|path| read(&parent, path).is_some_and(|text| text.ends_with("// work in here\n"))));
    let others = |stats: BTreeMap<PathBuf, (Look, Proof)>| {
        let files = stats.into_iter().filter(|(path, _)| !path.to_str().is_some_and(|path| changed.contains(path)));
        files.filter(|(_, ((mode, ..), _))| mode & 0o170_000 != 0o040_000).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(differing(&others(stats(&parent)), &others(before)), Vec::<PathBuf>::new());
    let expected: Vec<String> = ENV_FILES.map(|env| format!("? {env}")).into();
    assert_eq!(status(&sandbox, &parent), expected);
    assert_eq!(differing(&stats(&child), &child_before.0), Vec::<PathBuf>::new(), "the Child changed");
    assert_eq!(status(&sandbox, &child), child_before.1);
    let in_history = sandbox.git(&parent, &["log", "--name-only", "--format=", "HEAD", "--", ".env", "*/.env"]);
    assert_eq!(in_history, "", "an .env file reached history");

    // Folded again there is nothing to do, and the repository is sound.
    let again = Strategy::new().integrator().fold(&request, &Control::new());
    let FoldOutcome::Integrated(again) = again else { panic!("{again:?}") };
    assert_eq!(again.landing, Landing::Nothing);
    eprintln!("folded and compared in {:?}", started.elapsed());
    let (code, words) = sandbox.try_git(&parent, &["fsck", "--no-progress", "--no-dangling"]);
    assert_eq!((code, words.as_str()), (0, ""));
}
