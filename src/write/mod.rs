//! Write: the difference between two trees into a directory, then its index and HEAD, all or nothing.
//!
//! [`plan`] compares every path with what is on the disk and refuses what it must not touch,
//! [`stage`] makes the new files where nobody sees them, [`swap`] puts them in place, [`undo`] takes that
//! back or makes sure of it, [`index`] makes the index that goes with it. [`writer`] does it all in the
//! order in which a crash loses nothing, noting each step in the [`journal`]; [`recover`] reads that.

mod beneath;
pub(crate) mod crash;
mod index;
mod journal;
pub(crate) mod plan;
pub(crate) mod recover;
mod room;
mod settle;
mod stage;
mod swap;
mod sync;
mod undo;
pub(crate) mod writer;

use std::path::PathBuf;

use crate::combine::Conflict;
use crate::control::Stop;
use crate::files::FilesError;
use crate::files::lock::Holder;
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
    #[error(
        "another isofold holds {place} and did not finish in time{}",
        holder.map_or_else(String::new, |holder| format!(" ({holder})")),
        place = crate::git::show(place)
    )]
    Locked { place: PathBuf, holder: Option<Holder> },
    /// The one case in which the directory is not what it was: putting it back failed too.
    #[error(
        "not everything could be put back ({why}); what is missing is in {place}: isofold recover puts it back once that is settled",
        place = crate::git::show(place)
    )]
    NotPutBack { place: PathBuf, why: String },
    /// A journal that leaves open what happened.
    #[error(
        "a fold was cut off here, and its journal can't be judged: {why}. Nothing was touched; what was replaced is in {room}, its commits are kept below refs/isofold/fold/. Take from there what you miss, then remove that directory and git's .lock files that say isofold",
        room = crate::git::show(room)
    )]
    Unjudged { room: PathBuf, why: String },
    /// The steps of a landing were called out of order.
    #[error("the landing is over")]
    Over,
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
