//! Patches: one cumulative patch per agent, kept in the main checkout, so that the work is there when
//! the agent's worktree is not.
//!
//! [`record`] writes it, [`land`] brings it into the main checkout's working files; [`store`] is where it
//! lies, [`event`] reads what agent tools tell their hooks.

mod apply;
pub(crate) mod event;
mod land;
pub(crate) mod record;
pub(crate) mod start;
pub(crate) mod store;
mod three_way;
pub(crate) mod working;

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use crate::control::{Control, Stop};
use crate::diff::DiffError;
use crate::files::FilesError;
use crate::git::GitError;
use crate::git::repository::{OpenError, Repo};
use crate::snapshot::SnapshotError;
use crate::write::WriteError;

use store::{Agent, Store};

/// What one step of git may take.
const STEP: Duration = Duration::from_mins(1);

/// Why a patch could not be recorded, shown, dropped or landed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The name of the agent is none.
    #[error("{0}")]
    Usage(String),
    /// There is no patch of that name.
    #[error("{0}")]
    NoPatch(String),
    /// The patch does not apply; in git's words, a line each.
    #[error("{0}")]
    DoesNotApply(String),
    /// Anything else; the text says what, in one line.
    #[error("{0}")]
    Failed(String),
    /// It was asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl PatchError {
    fn of(stop: Option<Stop>, text: String) -> Self {
        match stop {
            Some(Stop::Interrupt) => Self::Interrupted,
            Some(Stop::Clock) => Self::Failed(format!("git took longer than {} seconds", STEP.as_secs())),
            None => Self::Failed(text),
        }
    }
}

macro_rules! from_errors {
    ($($error:ty),*) => {$(
        impl From<$error> for PatchError {
            fn from(error: $error) -> Self {
                Self::of(error.stop(), error.to_string())
            }
        }
    )*};
}
from_errors!(GitError, FilesError, SnapshotError, DiffError);

impl From<OpenError> for PatchError {
    fn from(error: OpenError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<WriteError> for PatchError {
    fn from(error: WriteError) -> Self {
        let stop = error.stop();
        match error {
            WriteError::Conflicts(conflicts) => {
                let named: Vec<String> = conflicts.iter().take(5).map(|c| format!("{} ({})", c.path, c.kind)).collect();
                Self::Failed(format!("{}; nothing was changed", named.join(", ")))
            }
            error => Self::of(stop, error.to_string()),
        }
    }
}

/// A patch that was recorded.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Recorded {
    /// The agent.
    pub agent: String,
    /// The patch file.
    pub patch: PathBuf,
    /// The commit that the patch starts from.
    pub base: String,
    /// How many paths it is about.
    pub files: usize,
    /// Whether the file was written; not where the worktree is as it was the last time.
    pub written: bool,
    /// What is not in the patch, each with the reason: nested repositories, flagged files, loose work in
    /// submodules.
    pub not_recorded: Vec<(PathBuf, &'static str)>,
}

/// A patch in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Listed {
    /// The agent.
    pub agent: String,
    /// The commit that the patch starts from.
    pub base: String,
    /// How many paths it is about.
    pub files: usize,
    /// The size of the patch file.
    pub bytes: u64,
    /// Seconds since it was last written.
    pub age_seconds: u64,
    /// The patch file; bytes that are not UTF-8 are replaced.
    pub patch: String,
}

/// What became of a landing.
#[derive(Debug, Clone)]
pub enum Landing {
    /// The work is in the main checkout's files.
    Landed(Landed),
    /// It was there already, or the patch is empty.
    Nothing,
    /// With `three_way` only: what can't be merged is left to a person.
    Conflicts {
        /// What was written all the same.
        landed: Landed,
        /// The paths to settle.
        conflicts: Vec<LandConflict>,
    },
}

/// What a landing wrote.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Landed {
    /// The main checkout.
    pub root: PathBuf,
    /// Paths that changed, relative to it.
    pub files: Vec<PathBuf>,
    /// Submodules whose commit the patch changes: files can't say that, the index is yours.
    pub submodules: Vec<PathBuf>,
    /// Refs that keep what was written to a file while it was being replaced.
    pub saved: Vec<String>,
    /// What failed after the work had landed.
    pub warnings: Vec<String>,
}

/// A path that a person has to settle after a landing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LandConflict {
    /// The path.
    pub path: String,
    /// git's word for the kind of conflict.
    pub kind: String,
    /// What happened, in a sentence.
    pub detail: String,
    /// Where the agent's version is, for a file without markers: `REF:PATH`, for `git show`.
    pub theirs: Option<String>,
}

/// The patches of one repository.
///
/// ```
/// # use std::process::Command;
/// # let directory = tempfile::tempdir().unwrap();
/// # let main = directory.path().canonicalize().unwrap().join("main");
/// # let worktree = directory.path().canonicalize().unwrap().join("worktree");
/// # std::fs::create_dir(&main).unwrap();
/// # let git = |args: &[&str]| {
/// #     let mut git = Command::new("git");
/// #     assert!(git.arg("-C").arg(&main).args(args).status().unwrap().success());
/// # };
/// # git(&["init", "-q", "-b", "main"]);
/// # git(&["config", "user.name", "An Example"]);
/// # git(&["config", "user.email", "an@example.test"]);
/// # git(&["commit", "-q", "--allow-empty", "-m", "start"]);
/// # git(&["worktree", "add", "-q", worktree.to_str().unwrap()]);
/// use isofold::{Control, PatchLanding, Patches};
///
/// let control = Control::new();
/// std::fs::write(worktree.join("new"), "work\n")?;
/// Patches::record("agent-1", &worktree, &control)?;
/// std::fs::remove_dir_all(&worktree)?;
///
/// let patches = Patches::of(&main)?;
/// let landing = patches.land("agent-1", false, &control)?;
/// assert!(matches!(landing, PatchLanding::Landed(_)));
/// assert_eq!(std::fs::read_to_string(main.join("new"))?, "work\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Patches {
    repo: Repo,
    store: Store,
}

impl Patches {
    /// The patches of the repository whose work tree `directory` is in.
    ///
    /// # Errors
    /// [`PatchError::Failed`] where it is in no work tree that isofold can use.
    pub fn of(directory: &Path) -> Result<Self, PatchError> {
        let repo = Repo::containing(directory)?;
        let store = Store::of(&repo)?;
        Ok(Self { repo, store })
    }

    /// Records what the linked worktree at or above `worktree` holds beyond the agent's base, as the
    /// agent's patch. The first record takes the worktree's HEAD for the base; in a Child, what isolate
    /// filled it with.
    ///
    /// # Errors
    /// [`PatchError`]; the patch that was there before is still there then.
    pub fn record(agent: &str, worktree: &Path, control: &Control) -> Result<Recorded, PatchError> {
        record::record(&Agent::new(agent)?, worktree, control)
    }

    /// What an agent tool's hook does after an edit: records, where the event is that of an agent at work
    /// on a file in a linked worktree; `Ok(None)` for any other.
    ///
    /// # Errors
    /// [`PatchError`], for who wants to know; a hook passes over it.
    pub fn record_event(event: &[u8], control: &Control) -> Result<Option<Recorded>, PatchError> {
        let Some((agent, directory)) = event::edit(event) else { return Ok(None) };
        let Ok(agent) = Agent::new(&agent) else { return Ok(None) };
        match Repo::containing(&directory) {
            Ok(repo) if repo.git_dir() != repo.common_dir() => record::record(&agent, &directory, control).map(Some),
            _ => Ok(None),
        }
    }

    /// Every patch, by name.
    ///
    /// # Errors
    /// [`PatchError::Failed`] where the store can't be read.
    pub fn list(&self) -> Result<Vec<Listed>, PatchError> {
        self.store.list()
    }

    /// The bytes of a patch.
    ///
    /// # Errors
    /// [`PatchError::NoPatch`] and others.
    pub fn show(&self, agent: &str) -> Result<Vec<u8>, PatchError> {
        self.store.patch(&Agent::new(agent)?)
    }

    /// Forgets a patch, and lets go of the objects that were kept for it.
    ///
    /// # Errors
    /// [`PatchError::NoPatch`] and others.
    pub fn drop_patch(&self, agent: &str, control: &Control) -> Result<(), PatchError> {
        self.store.drop_patch(&self.repo, &Agent::new(agent)?, control)
    }

    /// Brings a patch into the main checkout's working files, all or nothing; its index stays as it is.
    /// With `three_way` what the checkout has changed meanwhile is merged, and conflict markers are left
    /// where that can't be done.
    ///
    /// # Errors
    /// [`PatchError::DoesNotApply`] in git's words, and others; nothing is changed then.
    pub fn land(&self, agent: &str, three_way: bool, control: &Control) -> Result<Landing, PatchError> {
        land::land(&self.repo, &self.store, &Agent::new(agent)?, three_way, control)
    }
}
