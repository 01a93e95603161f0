//! Write: the difference between two trees into a directory, then its index, all or nothing.
//!
//! [`plan`] compares every path with what is on the disk and refuses what it must not touch,
//! [`stage`] makes the new files where nobody sees them, [`swap`] puts them in place and can take
//! all of it back, [`index`] writes the index that goes with it. Moving a ref is the caller's.

pub(crate) mod index;
pub(crate) mod plan;
pub(crate) mod stage;
pub(crate) mod swap;

use std::path::PathBuf;

use crate::combine::Conflict;
use crate::control::Stop;
use crate::files::FilesError;
use crate::git::GitError;

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    /// What stands on the disk is not what may be replaced.
    #[error("{} paths are in the way", .0.len())]
    Conflicts(Vec<Conflict>),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The one case in which the directory is not what it was: putting it back failed too.
    #[error("{path} could not be put back ({why}); what it held is in {kept}", path = crate::git::show(path), kept = crate::git::show(kept))]
    NotPutBack { path: PathBuf, why: String, kept: PathBuf },
}

impl WriteError {
    pub(crate) fn stop(&self) -> Option<Stop> {
        match self {
            Self::Git(error) => error.stop(),
            Self::Files(error) => error.stop(),
            _ => None,
        }
    }
}

fn conflict(path: &[u8], kind: &str, detail: impl Into<String>) -> Conflict {
    Conflict::new(crate::git::show(crate::files::as_path(path)), kind, detail)
}
