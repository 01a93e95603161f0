//! Snapshot: a directory as a tree, exactly as `git add -A --sparse && git write-tree` would make
//! it through a copy of the directory's index.
//!
//! What is not part of one: other worktrees of the repository, untracked nested repositories,
//! `.isofold/`, and what the caller's [`Rules`] leave out. The index itself is never written.

mod program;
mod unseen;

use crate::control::{Control, Stop};
use crate::git::index_file::IndexFile;
use crate::git::quarantine::Store;
use crate::git::repository::Place;
use crate::git::{GitError, Oid};
use crate::options::Excludes;

/// What a snapshot leaves out or takes in beyond git's own rules.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules<'a> {
    /// Untracked paths that these cover stay out, and are named in [`Snapshot::left_out`].
    pub(crate) leave_out: Option<&'a Excludes>,
    /// Paths that are taken in even where an ignore rule matches them, if they are untracked files.
    pub(crate) keep: &'a [Vec<u8>],
    /// Untracked paths that stay out because they are too large or closed; named in [`Snapshot::omitted`].
    pub(crate) large: &'a [Vec<u8>],
}

/// A directory as a tree.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) tree: Oid,
    /// The index that the tree was written from.
    pub(crate) index: IndexFile,
    /// The directory's own index as it was when the snapshot began.
    pub(crate) before: IndexFile,
    /// Untracked paths that the rules left out.
    pub(crate) left_out: Vec<Vec<u8>>,
    /// Untracked paths that were too large.
    pub(crate) omitted: Vec<Vec<u8>>,
    /// What a snapshot can't see or does not take, each with the reason.
    pub(crate) not_folded: Vec<NotFolded>,
}

impl Snapshot {
    /// Paths of the snapshot that are not in the directory's own index.
    pub(crate) fn untracked(&self) -> Vec<Vec<u8>> {
        let paths = self.index.entries().iter().map(|entry| self.index.path(entry));
        paths.filter(|path| self.before.position(path).is_none()).map(<[u8]>::to_vec).collect()
    }
}

/// A path whose content is not in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotFolded {
    pub(crate) path: Vec<u8>,
    pub(crate) why: &'static str,
}

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotError {
    #[error("{place} has unmerged entries in its index ({paths}); resolve them first")]
    Unmerged { place: String, paths: String },
    #[error("{place} can't be snapshotted: {source}")]
    Git { place: String, source: GitError },
}

impl SnapshotError {
    pub(crate) fn stop(&self) -> Option<Stop> {
        match self {
            Self::Git { source, .. } => source.stop(),
            Self::Unmerged { .. } => None,
        }
    }
}

/// Takes a snapshot of the work tree at `place`; its objects go to `store`.
pub(crate) fn snapshot(
    place: &Place,
    rules: &Rules<'_>,
    store: &Store,
    control: &Control,
) -> Result<Snapshot, SnapshotError> {
    program::snapshot(place, rules, store, control)
}
