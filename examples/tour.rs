//! A full isolate, edit and fold on a real repository: `cargo run --release --example tour -- [REPO]`.
//!
//! REPO (default: this crate's own clone) is only read. The tour isolates it into a temporary
//! directory A, isolates A into B, works in B, folds B into A, and takes everything away again.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the tour talks to a person")]

use std::fmt::Display;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use isofold::{
    Control, FoldBackend, FoldOutcome, FoldRequest, Integration, IsolateOutcome, IsolateRequest, Isolation,
    IsolationBackend, Isolator, Landing, RemoveOutcome, Strategy,
};

/// Set in the second run of a machine on which git knows no identity.
const SIGNED: &str = "ISOFOLD_TOUR_SIGNED";
/// How many lines of a list are shown.
const SHOWN: usize = 8;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let repo = arguments.next().map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    if arguments.next().is_some() || repo.as_os_str().to_string_lossy().starts_with('-') {
        eprintln!("usage: cargo run --release --example tour -- [REPO]");
        return ExitCode::from(2);
    }
    match tour(&repo) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn tour(repo: &Path) -> Result<(), String> {
    let repo = fs::canonicalize(repo).map_err(|e| format!("{} can't be read: {e}", repo.display()))?;
    sign_if_nobody_does(&repo)?;
    let control = Control::new().with_interrupt_flag(on_signal()?);
    let temporary = tempfile::Builder::new().prefix("isofold-tour-").tempdir().map_err(|e| e.to_string())?;
    let temporary_path = fs::canonicalize(temporary.path()).map_err(|e| e.to_string())?;
    let strategy = Strategy::new();
    let mut visit = Visit {
        id: format!("isofold-tour-{}", std::process::id()),
        a: temporary_path.join("a"),
        b: temporary_path.join("b"),
        isolator: strategy.isolator(),
        strategy,
        control,
        repo,
        saved: Vec::new(),
    };
    let request = IsolateRequest::detached(&visit.repo, &visit.a);
    visit.isolator.check(&request)?;
    let before = traces(&visit.repo).map_err(|why| format!("{}: {why}", visit.repo.display()))?;
    let result = visit.go();
    let cleaned = visit.clean_up();
    result.and(cleaned)?;
    if traces(&visit.repo)? != before {
        return Err(format!("{} is not what it was: its refs, worktrees or status changed", visit.repo.display()));
    }
    println!("\nAll taken away: {} has the refs, worktrees and status it had before.", visit.repo.display());
    Ok(())
}

struct Visit {
    repo: PathBuf,
    a: PathBuf,
    b: PathBuf,
    id: String,
    strategy: Strategy,
    isolator: Isolator,
    control: Control,
    /// Refs that removals made.
    saved: Vec<String>,
}

impl Visit {
    fn go(&self) -> Result<(), String> {
        println!("1. Isolate {} into A, a worktree of its own (a tour never works on yours).", self.repo.display());
        let isolation = self.isolate(&IsolateRequest::detached(&self.repo, &self.a))?;
        told(&isolation);
        let start = isolation.head.unwrap_or_default();

        println!("\n2. Isolate A into B: from here on A is the Parent and B the Child.");
        told(&self.isolate(&IsolateRequest::new(&self.id, &self.a, &self.b))?);

        println!("\n3. Work in B, and meanwhile in A.");
        self.work()?;

        println!("\n4. Fold B into A.");
        let mut request = FoldRequest::new(&self.id, &self.a, &self.b);
        request.subject = Some("Work that the tour did in B".to_owned());
        request.merge_subject = Some("Fold B into A".to_owned());
        match self.strategy.integrator().fold(&request, &self.control) {
            FoldOutcome::Integrated(integration) => folded(&integration),
            FoldOutcome::Conflict { report, .. }
            | FoldOutcome::Failed(report)
            | FoldOutcome::Interrupted(report)
            | FoldOutcome::InvalidInvocation(report) => return Err(report),
        }
        println!("\n   git status in A:");
        let status = git(&self.a, &["status", "--short"])?;
        show_lines(if status.is_empty() { "nothing to commit, working tree clean" } else { &status });
        println!("\n   git log --stat in A, since {}:", &start[..start.len().min(10)]);
        let range = format!("{start}..HEAD");
        let format = "--format=%h %s";
        show_all(&git(&self.a, &["log", "--stat=72", "--stat-count=5", "--topo-order", format, &range])?);
        Ok(())
    }

    fn isolate(&self, request: &IsolateRequest) -> Result<Isolation, String> {
        match self.isolator.isolate(request, &self.control) {
            IsolateOutcome::Isolated(isolation) => Ok(*isolation),
            IsolateOutcome::Failed(why) | IsolateOutcome::Interrupted(why) | IsolateOutcome::InvalidInvocation(why) => {
                Err(why)
            }
        }
    }

    /// Edits real files: two in B, one more in A, a new and a deleted one in B.
    fn work(&self) -> Result<(), String> {
        let texts = text_files(&self.b)?;
        let mut texts = texts.iter();
        for text in texts.by_ref().take(2) {
            append(&self.b.join(text), "A line that the tour wrote in B.")?;
            println!("   B: a line more in {}", text.display());
        }
        let new = Path::new("isofold-tour.txt");
        append(&self.b.join(new), "A file that the tour made.")?;
        println!("   B: {} is new", new.display());
        if let Some(text) = texts.next() {
            fs::remove_file(self.b.join(text)).map_err(failed(&self.b.join(text)))?;
            println!("   B: {} is deleted", text.display());
        }
        match texts.next() {
            Some(text) => {
                append(&self.a.join(text), "A line that the tour wrote in A.")?;
                println!("   A: a line more in {}, not committed", text.display());
            }
            None => println!("   A: too few text files to change one there too"),
        }
        Ok(())
    }

    /// Takes away what the tour made, whatever became of it.
    fn clean_up(&mut self) -> Result<(), String> {
        let mut problems = Vec::new();
        // Nothing may stop the cleaning up.
        let control = Control::new();
        for child in [&self.b, &self.a] {
            match self.isolator.remove(child, true, &control) {
                RemoveOutcome::Removed { saved } => self.saved.extend(saved),
                RemoveOutcome::AlreadyGone => {}
                RemoveOutcome::Refused(why)
                | RemoveOutcome::Failed(why)
                | RemoveOutcome::Interrupted(why)
                | RemoveOutcome::InvalidInvocation(why) => problems.push(why),
            }
        }
        // Nobody misses the tour's own work: its branch, and what the removals saved of it.
        let made = self.strategy.ref_of(&self.id);
        for name in self.saved.iter().chain([&made]) {
            if let Err(why) = git(&self.repo, &["update-ref", "-d", name]) {
                problems.push(why);
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(format!("not all could be taken away: {}", problems.join("; "))) }
    }
}

fn told(isolation: &Isolation) {
    let at = isolation.branch.as_ref().map_or_else(|| "detached HEAD".to_owned(), |branch| format!("branch {branch}"));
    println!(
        "   {} files, {} links, {} directories ({}) in {}: {at}",
        isolation.files,
        isolation.links,
        isolation.directories,
        size(isolation.bytes),
        time(isolation.elapsed_ms)
    );
    println!("   {} cloned, {} copied", isolation.cloned, isolation.copied);
    let names = |paths: &[PathBuf]| {
        let mut text: Vec<String> = paths.iter().take(SHOWN).map(|p| p.display().to_string()).collect();
        if paths.len() > SHOWN {
            text.push(format!("and {} more", paths.len() - SHOWN));
        }
        text.join(", ")
    };
    if !isolation.left_out.is_empty() {
        println!("   left out as secrets: {}", names(&isolation.left_out));
    }
    if !isolation.skipped.is_empty() {
        println!("   skipped, no files: {}", names(&isolation.skipped));
    }
}

fn folded(integration: &Integration) {
    let how = match integration.landing {
        Landing::Nothing => "nothing to do",
        Landing::FastForward => "fast-forward",
        Landing::Merge => "merge",
        Landing::Update => "update",
    };
    println!(
        "   {how}: {} files written to A, {} commits made, in {}",
        integration.files.len(),
        integration.commits.len(),
        time(integration.notes.elapsed_ms)
    );
}

fn time(milliseconds: u64) -> String {
    if milliseconds < 1000 {
        return format!("{milliseconds} ms");
    }
    format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100)
}

fn size(bytes: u64) -> String {
    let megabytes = bytes / 1_000_000;
    if megabytes == 0 { format!("{} kB", bytes.div_ceil(1000)) } else { format!("{megabytes} MB") }
}

fn show_all(text: &str) {
    text.lines().for_each(|line| println!("     {line}"));
}

fn show_lines(text: &str) {
    let count = text.lines().count();
    text.lines().take(SHOWN).for_each(|line| println!("     {line}"));
    if count > SHOWN {
        println!("     … {} lines more", count - SHOWN);
    }
}

/// Tracked text files that the tour may write to, those at the root first.
fn text_files(root: &Path) -> Result<Vec<PathBuf>, String> {
    let listed = git(root, &["ls-files", "-v", "-z"])?;
    let mut found: Vec<PathBuf> = Vec::new();
    // `H`: in the index without a flag that hides edits from git.
    let mut paths: Vec<&str> = listed.split('\0').filter_map(|entry| entry.strip_prefix("H ")).collect();
    paths.sort_by_key(|path| (path.matches('/').count(), *path));
    for path in paths {
        let full = root.join(path);
        let small = fs::symlink_metadata(&full).is_ok_and(|meta| meta.is_file() && (1..20_000).contains(&meta.len()));
        let plain = !path.contains("/.") && !path.starts_with('.') && !path.contains(char::REPLACEMENT_CHARACTER);
        if small && plain && fs::read_to_string(&full).is_ok_and(|text| !text.contains('\0')) {
            found.push(PathBuf::from(path));
        }
        if found.len() == 4 {
            break;
        }
    }
    Ok(found)
}

fn append(file: &Path, line: &str) -> Result<(), String> {
    let mut text = fs::read(file).unwrap_or_default();
    if text.last().is_some_and(|last| *last != b'\n') {
        text.push(b'\n');
    }
    text.extend_from_slice(line.as_bytes());
    text.push(b'\n');
    fs::write(file, text).map_err(failed(file))
}

fn failed<E: Display>(path: &Path) -> impl Fn(E) -> String {
    move |error| format!("{}: {error}", path.display())
}

/// What must be the same before and after.
fn traces(repo: &Path) -> Result<[String; 4], String> {
    Ok([
        git(repo, &["for-each-ref"])?,
        git(repo, &["worktree", "list", "--porcelain"])?,
        git(repo, &["--no-optional-locks", "status", "--porcelain=v2", "--branch"])?,
        git(repo, &["stash", "list"])?,
    ])
}

/// Starts again with a name to sign with where git knows none: a commit needs one.
fn sign_if_nobody_does(repo: &Path) -> Result<(), String> {
    let known = ["GIT_AUTHOR_IDENT", "GIT_COMMITTER_IDENT"].iter().all(|who| git(repo, &["var", who]).is_ok());
    if known || std::env::var_os(SIGNED).is_some() {
        return Ok(());
    }
    println!("(git knows no name and address for you here; the tour signs its commits itself)");
    let mut again = Command::new(std::env::current_exe().map_err(|e| e.to_string())?);
    again.arg(repo).env(SIGNED, "1");
    for who in ["AUTHOR", "COMMITTER"] {
        again.env(format!("GIT_{who}_NAME"), "isofold tour").env(format!("GIT_{who}_EMAIL"), "tour@localhost");
    }
    // Comes back only where it fails.
    Err(again.exec().to_string())
}

fn on_signal() -> Result<Arc<AtomicBool>, String> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, flag.clone()).map_err(|e| e.to_string())?;
    }
    Ok(flag)
}

/// Git's output, or its own words as the error.
fn git(directory: &Path, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new("git");
    for local in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"] {
        command.env_remove(local);
    }
    let output = command
        .arg("-C")
        .arg(directory)
        .args(["--no-pager", "-c", "color.ui=false"])
        .args(args)
        .env("LC_ALL", "C")
        .output()
        .map_err(|error| format!("git can't be started: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let words = words.lines().next().unwrap_or_default().trim_start_matches("fatal: ");
    Err(format!("git {}: {words}", args.first().unwrap_or(&"")))
}
