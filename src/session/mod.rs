//! Sessions: a disposable worktree of the working files, kept or thrown away on a word.
//!
//! A session is a Child inside the main tree, filled like any other; what is remembered of it beyond
//! that is in a record of its own. Its work is what its files are now against the base that was fixed
//! at the start: commits made inside, loose edits, new files, and new ignored files that are no build
//! output.

mod discard;
mod graft;
mod hook;
mod keep;
mod place;
mod start;
mod view;
mod work;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::control::Stop;
use crate::files::FilesError;
use crate::files::owner::Owner;
use crate::fold::FoldError;
use crate::git::GitError;
use crate::git::repository::{OpenError, Repo};
use crate::isolate::IsolateError;
use crate::patch::PatchError;
use crate::records::SessionRecord;
use crate::snapshot::SnapshotError;
use crate::write::WriteError;

pub use discard::{Discarded, Work, discard};
pub use hook::{SessionWorktree, worktree_create, worktree_remove};
pub use keep::{KeepRequest, Kept, keep};
pub use place::DEFAULT_PREFIX;
pub use start::{StartRequest, Started, start};
pub use view::{Changes, SessionState, changes, diff, list};

/// Why a command of a session did nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The request can't be carried out by anybody.
    #[error("{0}")]
    Usage(String),
    /// It could not be done; nothing was changed.
    #[error("{0}")]
    Failed(String),
    /// It was asked to stop; nothing was changed.
    #[error("the command was interrupted")]
    Interrupted,
}

impl SessionError {
    fn usage(why: impl Into<String>) -> Self {
        Self::Usage(why.into())
    }

    fn failed(why: impl Into<String>) -> Self {
        Self::Failed(why.into())
    }

    fn of(error: &impl ToString, stop: Option<Stop>) -> Self {
        match stop {
            Some(_) => Self::Interrupted,
            None => Self::Failed(error.to_string()),
        }
    }
}

macro_rules! from_errors {
    ($($error:ty),*) => {$(
        impl From<$error> for SessionError {
            fn from(error: $error) -> Self {
                Self::of(&error, error.stop())
            }
        }
    )*};
}

from_errors!(GitError, FilesError, SnapshotError, IsolateError, FoldError, WriteError);

impl From<PatchError> for SessionError {
    fn from(error: PatchError) -> Self {
        match error {
            PatchError::Interrupted => Self::Interrupted,
            other => Self::Failed(other.to_string()),
        }
    }
}

impl From<OpenError> for SessionError {
    fn from(error: OpenError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// A session, as it was started.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Session {
    /// What it is called.
    pub name: String,
    /// Its branch, without `refs/heads/`.
    pub branch: String,
    /// The root of its worktree.
    pub worktree: PathBuf,
    /// The root of the main tree: the worktree that it was started from.
    pub main: PathBuf,
    /// The commit that its work is counted from.
    pub base: String,
    /// When it was started.
    pub created: SystemTime,
    /// The command that runs in it now.
    pub running: Option<Running>,
}

/// A command that `session run` has in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Running {
    /// The process.
    pub pid: u32,
    /// When it was started.
    pub since: SystemTime,
}

impl Session {
    /// Lets a command work in this session: in the root of its worktree, without the caller's git
    /// variables that name another repository, with `ISOFOLD_SESSION` (its name), `ISOFOLD_WORKTREE`,
    /// `ISOFOLD_MAIN` and `ISOFOLD_BASE` set.
    pub fn prepare(&self, command: &mut std::process::Command) {
        command.current_dir(&self.worktree);
        crate::git::local::clear(command);
        command.env("ISOFOLD_SESSION", &self.name).env("ISOFOLD_BASE", &self.base);
        command.env("ISOFOLD_WORKTREE", &self.worktree).env("ISOFOLD_MAIN", &self.main);
    }

    fn of(record: &SessionRecord) -> Self {
        let at = |seconds: u64| UNIX_EPOCH + Duration::from_secs(seconds);
        let running = record.running.as_ref().filter(|(owner, _)| owner.lives());
        Self {
            name: record.name.clone(),
            branch: record.branch.trim_start_matches("refs/heads/").to_owned(),
            worktree: record.worktree.clone(),
            main: record.main.clone(),
            base: record.base.to_string(),
            created: at(u64::try_from(record.ready.0).unwrap_or(0)),
            running: running.map(|(owner, since)| Running { pid: owner.pid, since: at(*since) }),
        }
    }
}

/// The session `name` of the repository that `at` lies in.
///
/// # Errors
/// [`SessionError::Usage`] where the name is none, [`SessionError::Failed`] where there is no such
/// session.
pub fn find(at: &Path, name: &str) -> Result<Session, SessionError> {
    let repo = Repo::containing(at)?;
    record(&repo, name).map(|record| Session::of(&record))
}

/// Notes that a process works in a session, or (`None`) that none does any more.
///
/// # Errors
/// As [`find`].
pub fn set_running(at: &Path, name: &str, pid: Option<u32>) -> Result<(), SessionError> {
    let repo = Repo::containing(at)?;
    let mut record = record(&repo, name)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    record.running = pid.and_then(Owner::of).map(|owner| (owner, now));
    Ok(record.update(repo.common_dir())?)
}

fn record(repo: &Repo, name: &str) -> Result<SessionRecord, SessionError> {
    place::checked("name", name)?;
    SessionRecord::find(repo.common_dir(), name)?.ok_or_else(|| {
        SessionError::failed(format!("there is no session {name}; isofold session list shows those there are"))
    })
}

/// A session whose worktree somebody took away.
fn gone(record: &SessionRecord) -> SessionError {
    SessionError::failed(format!(
        "the worktree of {name}, {}, is gone; isofold session discard {name} forgets it",
        crate::git::show(&record.worktree),
        name = record.name
    ))
}
