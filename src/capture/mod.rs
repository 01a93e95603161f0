//! Capture: run a command in a worktree of its own, and return what it did as a patch.
//!
//! [`place`] makes the worktree and takes it away, [`command`] runs the command and ends its process
//! group, [`extract`] turns the worktree into a patch, [`sweep`] takes away what killed captures left. The original work tree is only looked at.

mod command;
mod extract;
mod place;
mod survivors;
mod sweep;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use crate::control::{Control, Stop};
use crate::diff::DiffError;
use crate::files::FilesError;
use crate::git::repository::Repo;
use crate::git::{GitError, Oid, show};
use crate::snapshot::SnapshotError;

use command::Ran;
use extract::Extracted;
use place::Worktree;

/// What to run, and where it starts from.
#[derive(Debug, Clone)]
pub struct CaptureRequest {
    /// A directory of the work tree whose repository it is about.
    pub directory: PathBuf,
    /// The commit that the command starts from; `None`: HEAD.
    pub base_ref: Option<OsString>,
    /// Start from the working files as they are (isolate's fill), not from a commit.
    pub from_dirty: bool,
    /// What to run.
    pub command: CaptureCommand,
    /// A file for the command's stdin; `None`: empty.
    pub stdin: Option<PathBuf>,
    /// How long the command may take; what it did by then is returned.
    pub timeout: Option<Duration>,
    /// Where the patch goes; `None`: a temporary directory, which stays.
    pub output: Option<PathBuf>,
}

impl CaptureRequest {
    /// A command that starts from HEAD of the work tree at `directory`.
    pub fn new(directory: impl Into<PathBuf>, command: CaptureCommand) -> Self {
        Self {
            directory: directory.into(),
            base_ref: None,
            from_dirty: false,
            command,
            stdin: None,
            timeout: None,
            output: None,
        }
    }
}

/// A command.
#[derive(Debug, Clone)]
pub enum CaptureCommand {
    /// For `sh -c`.
    Shell(OsString),
    /// A program and its arguments.
    Argv(Vec<OsString>),
}

impl CaptureCommand {
    fn is_empty(&self) -> bool {
        match self {
            Self::Shell(text) => text.as_encoded_bytes().trim_ascii().is_empty(),
            Self::Argv(argv) => argv.first().is_none_or(|program| program.is_empty()),
        }
    }
}

/// What a command wrote to one of its outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// UTF-8 of at most 1 MiB.
    Text(String),
    /// Anything else: in this file, beside the patch.
    File(PathBuf),
}

/// What the command left, whatever became of the patch.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CommandResult {
    /// Its exit code; 128 and the number of the signal that ended it.
    pub exit_code: i32,
    /// What it wrote.
    pub stdout: Output,
    /// What it wrote to stderr.
    pub stderr: Output,
    /// Whether it was ended because its time was over.
    pub timed_out: bool,
    /// Outputs of which not all could be kept: the disk was full.
    pub cut_off: bool,
    /// Processes that left the command's process group and still hold files of the worktree.
    pub survivors: Vec<Survivor>,
}

/// A process that is still there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Survivor {
    /// Its id.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

/// A command that ran, and its patch.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Captured {
    /// The patch; an empty file where nothing changed.
    pub patch: PathBuf,
    /// The commit that it starts from.
    pub base: String,
    /// How many paths it is about.
    pub files: usize,
    /// What the command left.
    pub result: CommandResult,
    /// How many ignored files the command wrote; they went with the worktree.
    pub ignored: usize,
    /// What is not in the patch, each with the reason.
    pub not_captured: Vec<(PathBuf, &'static str)>,
    /// What went wrong after the patch was written, in a sentence each.
    pub warnings: Vec<String>,
    /// Refs that keep the work of captures that were killed before.
    pub saved: Vec<String>,
}

/// What became of a capture.
#[derive(Debug, Clone)]
pub enum CaptureOutcome {
    /// The command ran and its patch is there, whatever its exit code.
    Captured(Box<Captured>),
    /// It was asked to stop while the command ran; the patch of what was done by then is there.
    Interrupted(Option<Box<Captured>>),
    /// The command ran, but there is no patch; the worktree was kept.
    ExtractionFailed {
        /// The worktree.
        worktree: PathBuf,
        /// What the command left.
        result: Box<CommandResult>,
        /// Why there is no patch.
        report: String,
    },
    /// The worktree could not be made; nothing is left.
    Failed(String),
    /// The request can't be carried out by anybody; nothing was made.
    InvalidInvocation {
        /// What was not right: `work-tree`, `base-ref`, `command`, `stdin`, `output`.
        check: &'static str,
        /// In a sentence.
        report: String,
    },
}

/// Who is handed the pieces of a command's output as they come; both outputs in one.
pub type Tee<'a> = Option<&'a mut (dyn FnMut(&[u8]) + Send)>;

/// Why a capture stopped short.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CaptureError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Files(#[from] FilesError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Diff(#[from] DiffError),
    #[error("{0}")]
    Other(String),
    #[error("the command took its worktree {} away", show(.0))]
    Gone(PathBuf),
    #[error("{} lies inside the work tree {}; set TMPDIR to a place outside", show(temporary), show(root))]
    Inside { temporary: PathBuf, root: PathBuf },
    #[error(transparent)]
    Stopped(#[from] Stop),
}

impl CaptureError {
    fn stop(&self) -> Option<Stop> {
        match self {
            Self::Git(error) => error.stop(),
            Self::Files(error) => error.stop(),
            Self::Snapshot(error) => error.stop(),
            Self::Diff(error) => error.stop(),
            Self::Stopped(stop) => Some(*stop),
            Self::Other(_) | Self::Gone(_) | Self::Inside { .. } => None,
        }
    }
}

/// A request that passed its checks.
struct Checked {
    repo: Repo,
    /// `None`: from the working files.
    base: Option<Oid>,
}

type Refused = (&'static str, String);

fn check(request: &CaptureRequest, control: &Control) -> Result<Checked, Refused> {
    let directory = &request.directory;
    let repo = Repo::containing(directory).map_err(|error| ("work-tree", error.to_string()))?;
    let base = if request.from_dirty {
        None
    } else {
        let name = match &request.base_ref {
            Some(name) => name.to_str().ok_or(("base-ref", "the name of the base is not UTF-8".to_owned()))?,
            None => "HEAD",
        };
        let found = repo.commit_named(name, control).map_err(|error| ("base-ref", error.to_string()))?;
        let no = |words| {
            ("base-ref", format!("{} is no commit of {}: {words}", crate::git::one_line(name), show(repo.work_dir())))
        };
        Some(found.map_err(no)?)
    };
    if request.command.is_empty() {
        return Err(("command", "there is no command to run".to_owned()));
    }
    if let Some(stdin) = &request.stdin
        && let Err(error) = std::fs::File::open(stdin)
    {
        return Err(("stdin", format!("{} can't be read: {error}", show(stdin))));
    }
    if let Some(output) = &request.output
        && !output.is_dir()
    {
        return Err(("output", format!("{} is not a directory", show(output))));
    }
    Ok(Checked { repo, base })
}

/// Runs a command in a worktree of its own and returns its patch. What the command writes is handed to
/// `tee` as it comes.
///
/// ```
/// # use std::process::Command;
/// # let directory = tempfile::tempdir().unwrap();
/// # let repo = directory.path().canonicalize().unwrap().join("repo");
/// # std::fs::create_dir(&repo).unwrap();
/// # let git = |args: &[&str]| {
/// #     let mut git = Command::new("git");
/// #     assert!(git.arg("-C").arg(&repo).args(args).status().unwrap().success());
/// # };
/// # git(&["init", "-q", "-b", "main"]);
/// # git(&["config", "user.name", "An Example"]);
/// # git(&["config", "user.email", "an@example.test"]);
/// # git(&["commit", "-q", "--allow-empty", "-m", "start"]);
/// use isofold::{CaptureCommand, CaptureOutcome, CaptureRequest, Control};
///
/// let request = CaptureRequest::new(&repo, CaptureCommand::Shell("echo work > new; exit 3".into()));
/// let CaptureOutcome::Captured(captured) = isofold::capture(&request, None, &Control::new()) else {
///     panic!("not captured");
/// };
/// assert_eq!((captured.files, captured.result.exit_code), (1, 3));
/// assert!(!repo.join("new").exists());
/// # std::fs::remove_dir_all(captured.patch.parent().unwrap())?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn capture(request: &CaptureRequest, tee: Tee<'_>, control: &Control) -> CaptureOutcome {
    let checked = match check(request, control) {
        Ok(checked) => checked,
        Err((check, report)) => return CaptureOutcome::InvalidInvocation { check, report },
    };
    let saved = sweep::sweep(&checked.repo, control);
    let worktree = match Worktree::make(&checked.repo, checked.base, control) {
        Ok(worktree) => worktree,
        Err(error) => return stopped(&error),
    };
    let run = command::Run { request, worktree: &worktree, repo: &checked.repo, control };
    let ran = match run.run(tee) {
        Ok(ran) => ran,
        Err(error) => {
            let taken_back = worktree.remove(&checked.repo);
            let outcome = stopped(&error);
            return match (taken_back, outcome) {
                (Err(left), CaptureOutcome::Failed(report)) => CaptureOutcome::Failed(format!("{report}; {left}")),
                (_, outcome) => outcome,
            };
        }
    };
    finish(request, &checked.repo, worktree, ran, saved)
}

fn stopped(error: &CaptureError) -> CaptureOutcome {
    match error.stop() {
        Some(Stop::Interrupt) => CaptureOutcome::Interrupted(None),
        Some(Stop::Clock) => CaptureOutcome::Failed("the clock fired".to_owned()),
        None => CaptureOutcome::Failed(error.to_string()),
    }
}

/// From the end of the command to the outcome. Nobody stops this: the work is there, and has to be kept.
fn finish(
    request: &CaptureRequest,
    repo: &Repo,
    mut worktree: Worktree,
    ran: Ran,
    saved: Vec<String>,
) -> CaptureOutcome {
    let (interrupted, began) = (ran.interrupted, ran.began);
    let names = worktree.names(request.output.as_deref());
    let result = ran.result(&names, &worktree);
    match extract::extract(repo, &mut worktree, &names, began) {
        Ok(Extracted { patch, files, ignored, not_captured }) => {
            let base = worktree.base.to_string();
            let warnings = worktree.remove(repo).err().into_iter().collect();
            let captured = Captured { patch, base, files, result, ignored, not_captured, warnings, saved };
            let captured = Box::new(captured);
            if interrupted { CaptureOutcome::Interrupted(Some(captured)) } else { CaptureOutcome::Captured(captured) }
        }
        Err(error) => {
            let mut report = error.to_string();
            if let Err(why) = worktree.hand_over() {
                report = format!("{report}; {why}");
            }
            CaptureOutcome::ExtractionFailed { worktree: worktree.root, result: Box::new(result), report }
        }
    }
}
