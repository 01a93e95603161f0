//! Sandboxes for tests: a temporary directory, a hermetic git, the program under test.

pub(crate) mod crash;
pub(crate) mod histories;
pub(crate) mod host;
pub(crate) mod lines;
pub(crate) mod mounts;
pub(crate) mod random;
pub(crate) mod schema;
pub(crate) mod servers;
pub(crate) mod snapshots;

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use tempfile::TempDir;

/// A temporary directory with a home of its own; everything in it is gone with the value.
pub(crate) struct Sandbox {
    _directory: TempDir,
    root: PathBuf,
    /// Whether everything is run as a user without privileges.
    lowered: AtomicBool,
}

/// What a run of the program printed.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// What a finished program left; its lines have to be those of the schema.
    #[track_caller]
    pub(crate) fn of(output: &Output) -> Self {
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        schema::check_events(&stdout);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        Self { code: output.status.code().unwrap_or(-1), stdout, stderr }
    }

    /// Every line of stdout as JSON.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line:?} is no JSON: {e}"));
        self.stdout.lines().map(parse).collect()
    }

    /// The last line of stdout as JSON.
    pub(crate) fn last(&self) -> Value {
        self.lines().pop().unwrap_or_else(|| panic!("nothing was printed: {self:?}"))
    }

    /// The outcome of the last line.
    pub(crate) fn outcome(&self) -> String {
        self.last()["outcome"].as_str().unwrap_or_default().to_owned()
    }

    /// The report of the last line.
    pub(crate) fn report(&self) -> String {
        self.last()["report"].as_str().unwrap_or_default().to_owned()
    }

    /// Asserts the outcome and the exit code.
    #[track_caller]
    pub(crate) fn expect(self, outcome: &str, code: i32) -> Self {
        assert!(!self.stderr.contains("panicked at"), "{self:?}");
        assert_eq!((self.outcome().as_str(), self.code), (outcome, code), "{self:?}");
        self
    }
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Self::inside(&std::env::temp_dir())
    }

    /// A sandbox in memory where the system has such a place: for tests that make many small files.
    pub(crate) fn in_memory() -> Self {
        let memory = Path::new("/dev/shm");
        if memory.is_dir() { Self::inside(memory) } else { Self::new() }
    }

    /// A sandbox on the file system of `directory`.
    pub(crate) fn inside(directory: &Path) -> Self {
        let directory =
            tempfile::Builder::new().prefix("isofold-test-").tempdir_in(directory).expect("a temporary directory");
        let root = directory.path().canonicalize().expect("a real path");
        fs::create_dir(root.join("home")).expect("a home");
        Self { _directory: directory, root, lowered: AtomicBool::new(false) }
    }

    /// A path in the sandbox.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// A command with nothing of the caller's git in its environment.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = if self.lowered.load(Ordering::Relaxed) {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        for (key, _) in std::env::vars_os() {
            if key.to_string_lossy().starts_with("GIT_") {
                command.env_remove(key);
            }
        }
        command
            .env("HOME", self.root.join("home"))
            .env("XDG_CONFIG_HOME", self.root.join("home/.config"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("LC_ALL", "C")
            .current_dir(&self.root)
            .stdin(Stdio::null());
        command
    }

    /// Runs git in `directory`; its exit code and trimmed output.
    pub(crate) fn try_git(&self, directory: &Path, args: &[&str]) -> (i32, String) {
        let output = self.command("git").arg("-C").arg(directory).args(args).output().expect("git runs");
        let mut text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        if !output.status.success() {
            text.push_str(&String::from_utf8_lossy(&output.stderr));
        }
        (output.status.code().unwrap_or(-1), text)
    }

    /// Runs git in `directory`, which has to succeed; its output without the last newline.
    #[track_caller]
    pub(crate) fn git(&self, directory: &Path, args: &[&str]) -> String {
        let (code, text) = self.try_git(directory, args);
        assert_eq!(code, 0, "git {args:?}: {text}");
        text
    }

    /// A repository without commits, with an identity.
    pub(crate) fn empty_repo(&self, name: &str) -> PathBuf {
        let repo = self.path(name);
        fs::create_dir_all(&repo).expect("a directory");
        self.git(&repo, &["init", "-q", "-b", "main"]);
        self.git(&repo, &["config", "user.name", "Test"]);
        self.git(&repo, &["config", "user.email", "test@example.test"]);
        repo
    }

    /// A repository with one commit: `a` and `b` of twenty lines each, `dir/c`, and a `.gitignore`
    /// that ignores `*.log` and `ignored/`.
    pub(crate) fn repo(&self, name: &str) -> PathBuf {
        let repo = self.empty_repo(name);
        write(&repo, "a", lines(&[]));
        write(&repo, "b", lines(&[]));
        write(&repo, "dir/c", "c\n");
        write(&repo, ".gitignore", "*.log\nignored/\n");
        self.commit_all(&repo, "start");
        repo
    }

    /// `git add -A` and `git commit`.
    #[track_caller]
    pub(crate) fn commit_all(&self, directory: &Path, subject: &str) {
        self.git(directory, &["add", "-A"]);
        self.git(directory, &["commit", "-q", "-m", subject]);
    }

    /// [`Self::commit_all`] without any `.env`.
    #[track_caller]
    pub(crate) fn commit_all_but_env(&self, directory: &Path, subject: &str) {
        self.git(directory, &["add", "-A", "--", ":/", ":(exclude,glob)**/.env"]);
        self.git(directory, &["commit", "-q", "-m", subject]);
    }

    /// The program under test; `ISOFOLD_TEST_PROGRAM` names another build of it.
    pub(crate) fn program(&self) -> Command {
        if self.lowered.load(Ordering::Relaxed) {
            return self.command(self.path("program"));
        }
        let other = std::env::var_os("ISOFOLD_TEST_PROGRAM");
        self.command(other.unwrap_or_else(|| env!("CARGO_BIN_EXE_isofold").into()))
    }

    /// Runs the program.
    #[track_caller]
    pub(crate) fn isofold<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Run {
        let args: Vec<OsString> = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        let run = Run::of(&self.program().args(&args).output().expect("isofold runs"));
        // Its one line is no event.
        if args.first().is_some_and(|command| command == "remove") && !args.iter().any(|arg| arg == "--help") {
            run.lines().iter().for_each(schema::check);
        }
        run
    }

    /// `isofold isolate`, whatever comes of it; `more` are further arguments.
    pub(crate) fn try_isolate(&self, id: &str, parent: &Path, child: &Path, more: &[&str]) -> Run {
        self.isofold(job("isolate", id, parent, child, more))
    }

    /// `isofold isolate`, which has to succeed; the Child.
    #[track_caller]
    pub(crate) fn isolate(&self, parent: &Path, name: &str) -> PathBuf {
        let child = self.path(name);
        self.try_isolate(name, parent, &child, &[]).expect("isolated", 0);
        child
    }

    /// `isofold fold` under the id `work`, whatever comes of it.
    pub(crate) fn try_fold(&self, parent: &Path, child: &Path, more: &[&str]) -> Run {
        self.isofold(job("fold", "work", parent, child, more))
    }

    /// `isofold fold`, which has to succeed; how it landed: `nothing`, `fast-forward` or `merge`.
    #[track_caller]
    pub(crate) fn fold(&self, parent: &Path, child: &Path) -> String {
        let run = self.try_fold(parent, child, &[]).expect("integrated", 0);
        run.last()["landing"].as_str().unwrap_or_default().to_owned()
    }

    /// Asserts that a fold left `repo` settled: index and HEAD agree, status says only `left`, every
    /// tracked file is as a fresh checkout of HEAD makes it, and fsck finds nothing.
    #[track_caller]
    pub(crate) fn settled(&self, repo: &Path, left: &str) {
        assert_eq!(self.git(repo, &["write-tree"]), self.git(repo, &["rev-parse", "HEAD^{tree}"]), "index and HEAD");
        // The index's stat data has to be right as it is, before status refreshes anything.
        assert_eq!(self.git(repo, &["diff-index", "--cached", "HEAD"]), "");
        assert_eq!(self.git(repo, &["--no-optional-locks", "status", "--porcelain"]), left, "status");
        let fresh = self.path("fresh-checkout");
        let place = fresh.to_str().expect("UTF-8");
        self.git(repo, &["worktree", "add", "-q", "--detach", place, "HEAD"]);
        let paths = self.command("git").arg("-C").arg(repo).args(["ls-files", "-z"]).output().expect("git runs").stdout;
        for path in paths.split(|b| *b == 0).filter(|p| !p.is_empty()) {
            let path = Path::new(OsStr::from_bytes(path));
            if repo.join(path).is_dir() && fresh.join(path).is_dir() {
                continue;
            }
            assert_eq!(entry(&repo.join(path)), entry(&fresh.join(path)), "{}", path.display());
        }
        self.git(repo, &["worktree", "remove", "--force", place]);
        let (code, text) = self.try_git(repo, &["fsck", "--no-progress", "--no-dangling"]);
        assert_eq!((code, text.as_str()), (0, ""), "fsck");
    }

    /// All that must not change in a repository: files with modes and hashes, the index, HEAD, refs,
    /// reflogs, status, and what fsck says.
    pub(crate) fn state(&self, repo: &Path) -> String {
        let mut text = listing(repo);
        let git_dir = PathBuf::from(self.git(repo, &["rev-parse", "--absolute-git-dir"]));
        let common = PathBuf::from(self.git(repo, &["rev-parse", "--path-format=absolute", "--git-common-dir"]));
        let _ = writeln!(text, "index {}", hash(&fs::read(git_dir.join("index")).unwrap_or_default()));
        let _ = writeln!(text, "HEAD {}", fs::read_to_string(git_dir.join("HEAD")).unwrap_or_default());
        let _ = writeln!(text, "HEAD log {}", hash(&fs::read(git_dir.join("logs/HEAD")).unwrap_or_default()));
        text.push_str(&self.git(repo, &["for-each-ref"]));
        text.push_str(&self.git(repo, &["--no-optional-locks", "status", "--porcelain=v2", "--ignored"]));
        text.push_str(&self.try_git(repo, &["fsck", "--no-progress"]).1);
        text.push_str(&self.git(repo, &["worktree", "list"]));
        // Nothing of ours may lie around in the git directory either.
        let mut names: Vec<OsString> = Vec::new();
        for directory in [&git_dir, &common] {
            names.extend(fs::read_dir(directory).expect("readable").map(|e| e.expect("readable").file_name()));
        }
        names.sort();
        names.dedup();
        let _ = writeln!(text, "\ngit directories {names:?}");
        text
    }
}

pub(crate) fn job(command: &str, id: &str, parent: &Path, child: &Path, more: &[&str]) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec![command.into(), "--id".into(), id.into(), "--parent".into(), parent.into()];
    args.extend(["--child".into(), child.into()]);
    args.extend(more.iter().map(OsString::from));
    args
}

/// Builds an example, which `cargo test` does by itself only where all targets are tested.
pub(crate) fn example(name: &str) -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked", "--example", name]).current_dir(env!("CARGO_MANIFEST_DIR"));
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    assert!(build.status().expect("cargo runs").success());
    let program = Path::new(env!("CARGO_BIN_EXE_isofold"));
    program.parent().expect("a directory").join("examples").join(name)
}

/// Twenty numbered lines, some of them replaced: `(line from 0, text)`.
pub(crate) fn lines(replaced: &[(usize, &str)]) -> String {
    let mut text = String::new();
    for number in 0..20 {
        match replaced.iter().find(|(n, _)| *n == number) {
            Some((_, line)) => text.push_str(line),
            None => {
                let _ = write!(text, "l{number}");
            }
        }
        text.push('\n');
    }
    text
}

/// Writes a file, with the directories above it.
pub(crate) fn write(directory: &Path, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    let full = directory.join(path);
    fs::create_dir_all(full.parent().expect("a parent")).expect("directories");
    fs::write(&full, content).unwrap_or_else(|e| panic!("{}: {e}", full.display()));
}

/// Reads a file as text; `None` where there is none.
pub(crate) fn read(directory: &Path, path: impl AsRef<Path>) -> Option<String> {
    fs::read(directory.join(path)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// A path whose name is not UTF-8.
pub(crate) fn raw_name(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

/// Every entry below `root` but the root's `.git`: kind, mode, modification time, hash or target.
pub(crate) fn listing(root: &Path) -> String {
    let mut rows = Vec::new();
    collect(root, root, &mut rows);
    rows.sort();
    rows.join("\n") + "\n"
}

fn collect(root: &Path, directory: &Path, rows: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display())) {
        let path = entry.expect("an entry").path();
        let relative = path.strip_prefix(root).expect("inside");
        if relative == Path::new(".git") {
            continue;
        }
        let meta = fs::symlink_metadata(&path).expect("a stat");
        let kind = meta.file_type();
        let what = if kind.is_symlink() {
            format!("link {}", fs::read_link(&path).expect("a target").as_os_str().as_bytes().escape_ascii())
        } else if kind.is_dir() {
            "directory".to_owned()
        } else if kind.is_file() {
            format!("file {} {}", meta.len(), fs::read(&path).map_or_else(|_| "unreadable".to_owned(), |c| hash(&c)))
        } else {
            format!("special fifo={} socket={}", kind.is_fifo(), kind.is_socket())
        };
        let name = relative.as_os_str().as_bytes().escape_ascii();
        rows.push(format!("{name} {:o} {}.{:09} {what}", meta.mode(), meta.mtime(), meta.mtime_nsec()));
        if kind.is_dir() {
            collect(root, &path, rows);
        }
    }
}

/// One file or link: whether it can be executed, and what it holds; `None` where there is none.
pub(crate) fn entry(path: &Path) -> Option<(char, Vec<u8>)> {
    let meta = fs::symlink_metadata(path).ok()?;
    if meta.is_symlink() {
        return Some(('l', fs::read_link(path).expect("a target").into_os_string().into_vec()));
    }
    if meta.is_dir() {
        return Some(('d', Vec::new()));
    }
    let kind = if meta.mode() & 0o100 == 0 { '-' } else { 'x' };
    Some((kind, fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))))
}

/// A short hash for comparisons.
pub(crate) fn hash(content: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(content)[..8].iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Lets the clock tick over a whole second: stat data written before is no longer racy.
pub(crate) fn next_second() {
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    let then = now();
    while now() == then {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// A PATH whose git is `script`; other programs are found as ever.
pub(crate) fn with_git(s: &Sandbox, name: &str, script: &str) -> OsString {
    let directory = s.path(name);
    let real = std::env::var("PATH").expect("a PATH");
    let git = real.split(':').map(|d| Path::new(d).join("git")).find(|g| g.is_file()).expect("git");
    write(&directory, "git", script.replace("GIT", git.to_str().expect("UTF-8")));
    fs::set_permissions(directory.join("git"), fs::Permissions::from_mode(0o755)).expect("a mode");
    format!("{}:{real}", directory.display()).into()
}
