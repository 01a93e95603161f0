//! What a fold or an update is asked for, and what became of it.

use std::path::PathBuf;

use crate::combine::{Conflict, MergeEngine};
use crate::control::Stop;
use crate::files::FilesError;
use crate::git::repository::OpenError;
use crate::git::{GitError, show};
use crate::snapshot::SnapshotError;
use crate::write::WriteError;

/// What to fold into what. Made by [`FoldRequest::new`]; the other fields are set afterwards.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FoldRequest {
    /// Names the work in subjects and reflogs.
    pub id: String,
    /// The directory that receives the work: absolute, the root of a work tree.
    pub parent: PathBuf,
    /// The directory that holds it: absolute, another work tree of the same repository.
    pub child: PathBuf,
    /// Subject of the commit of the Child's loose work; default `Integration of ID`.
    pub subject: Option<String>,
    /// Subject of a merge commit; default `Integration of ID`.
    pub merge_subject: Option<String>,
    /// Fold into whatever branch the Parent is on, even if it was another at isolate.
    pub onto_current: bool,
    /// Let the Child be a clone of its own; its objects are fetched, its configuration is never read.
    pub foreign_child: bool,
    /// Say what would happen and write nothing to the Parent.
    pub dry_run: bool,
    /// What merges.
    pub merge_engine: MergeEngine,
}

impl FoldRequest {
    /// A fold with the default subjects.
    pub fn new(id: impl Into<String>, parent: impl Into<PathBuf>, child: impl Into<PathBuf>) -> Self {
        Self {
            id: id.into(),
            parent: parent.into(),
            child: child.into(),
            subject: None,
            merge_subject: None,
            onto_current: false,
            foreign_child: false,
            dry_run: false,
            merge_engine: MergeEngine::Auto,
        }
    }
}

/// How the Parent's history moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landing {
    /// There was nothing to fold.
    Nothing,
    /// The Parent's branch moved forward to the Child's work.
    FastForward,
    /// A merge commit joins both.
    Merge,
    /// Of an update: the Child's files have the Parent's work; no history moved.
    Update,
}

/// A finished fold.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Integration {
    /// The Parent as it was asked for.
    pub parent: PathBuf,
    /// How its history moved (or would, in a dry run).
    pub landing: Landing,
    /// The Parent's HEAD afterwards; `None` while it is unborn. In a dry run, HEAD as it is.
    pub head: Option<String>,
    /// The commits that the fold made, oldest first.
    pub commits: Vec<String>,
    /// Paths that changed in the Parent.
    pub files: Vec<PathBuf>,
    /// What else there is to know.
    pub notes: FoldNotes,
}

/// What a fold noticed, whatever its outcome.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct FoldNotes {
    /// The base entry that counted; `None`: history alone.
    pub base: Option<String>,
    /// Which engine merged: `trivial`, `git`, `libgit2`.
    pub engine: Option<&'static str>,
    /// Untracked Parent paths, and Child paths, that the exclude list kept out.
    pub left_out: Vec<PathBuf>,
    /// New paths of the Child that are folded although the exclude list names them.
    pub excluded_but_folded: Vec<PathBuf>,
    /// What a snapshot can't see, with the reason.
    pub not_folded: Vec<(PathBuf, &'static str)>,
    /// Refs that keep what somebody wrote to a file while it was being replaced.
    pub saved: Vec<String>,
    /// What failed after the work had landed, each with the way on.
    pub warnings: Vec<String>,
    /// Of an update with markers: files of the Child that changed, some of them with conflict markers.
    pub marked: Vec<PathBuf>,
    /// Whether the fold changes `isolationOptions.toml`.
    pub options_changed: bool,
    /// How long each phase took, in milliseconds, in their order: `lock`, `snapshot`, `combine`, `plan`,
    /// `stage`, `objects`, `swap`, `finish`, as far as it came; `sync` is what `lock`, `stage`, `swap`
    /// and `finish` spent on waiting for the disk.
    pub phases_ms: Vec<(&'static str, u64)>,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
}

/// What became of a fold.
#[derive(Debug, Clone)]
pub enum FoldOutcome {
    /// The Parent holds the work.
    Integrated(Box<Integration>),
    /// A person has to choose; the Parent is what it was.
    Conflict {
        /// In one line, with the way on.
        report: String,
        /// Each path.
        conflicts: Vec<Conflict>,
        /// What else there is to know.
        notes: Box<FoldNotes>,
    },
    /// The Parent is what it was; the text says why, in one line.
    Failed(String),
    /// It was asked to stop; the Parent is what it was.
    Interrupted(String),
    /// The request can't be carried out by anybody.
    InvalidInvocation(String),
}

/// Why a fold failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FoldError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Files(#[from] FilesError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("the Parent {} is in the middle of {operation}; finish or abort it first", show(parent))]
    Busy { parent: PathBuf, operation: &'static str },
    #[error("an earlier fold into {} was cut off; isofold recover settles it", show(.0))]
    CutOff(PathBuf),
    #[error(
        "the Parent's branch {branch} is checked out at {} too; a fold would pull it from under that one",
        show(place)
    )]
    BranchElsewhere { branch: String, place: PathBuf },
    #[error(
        "the Parent is on {now}, but was on {then} when the Child was isolated; switch back, or fold with --onto-current"
    )]
    OtherBranch { now: String, then: String },
    #[error("the Child {} is no worktree registered in the Parent's repository ({why})", show(child))]
    NotRegistered { child: PathBuf, why: String },
    #[error("the Child {} is in the middle of {operation}; finish or abort it first", show(child))]
    BusyChild { child: PathBuf, operation: &'static str },
    #[error("the clone {} can't be read: {why}", show(child))]
    Foreign { child: PathBuf, why: String },
    #[error("the Child {} is not complete: an isolation or removal of it did not finish; isolate again", show(.0))]
    Incomplete(PathBuf),
    #[error(
        "Parent and Child have no commit in common, and no isolation joins them; merge by hand with git merge --allow-unrelated-histories"
    )]
    Unrelated,
    #[error(
        "{} came into the Child past the exclude list and stays out of every fold, but {} holds it; take it out of there first",
        show(path),
        place
    )]
    Included { path: PathBuf, place: String },
    #[error("git knows no identity for the commit ({0}); set user.name and user.email")]
    NoIdentity(String),
}

impl FoldError {
    pub(crate) fn stop(&self) -> Option<Stop> {
        match self {
            Self::Git(error) => error.stop(),
            Self::Files(error) => error.stop(),
            Self::Snapshot(error) => error.stop(),
            Self::Write(error) => error.stop(),
            _ => None,
        }
    }

    /// What becomes of a `job` that this error ended.
    pub(super) fn outcome(self, job: &str) -> FoldOutcome {
        match (self.stop(), self) {
            (Some(Stop::Clock), _) => FoldOutcome::Failed("The Integration clock fired.".to_owned()),
            (Some(Stop::Interrupt), _) => FoldOutcome::Interrupted(format!("The {job} was interrupted.")),
            (None, error) => FoldOutcome::Failed(error.to_string()),
        }
    }
}
