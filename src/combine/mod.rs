//! Combine: two snapshots and what they have in common become one tree, or conflicts.
//!
//! The answer is that of `git merge-tree --write-tree` on two commits whose parents are the sides'
//! heads and the base entry; a conflict is an outcome, never an error.

pub(crate) mod bases;
mod program;
mod trivial;

use serde::Serialize;

use crate::control::Control;
use crate::git::identity::Identity;
use crate::git::program::Git;
use crate::git::quarantine::Quarantine;
use crate::git::{GitError, Oid};

/// The engine that needs no content.
const TRIVIAL: &str = "trivial";

/// What two sides have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bases {
    /// The commit of the base entry that counts.
    pub(crate) entry: Option<Oid>,
    /// The tree of the merge base, where there is exactly one.
    pub(crate) sole: Option<Oid>,
}

/// One side of a merge.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Side {
    pub(crate) tree: Oid,
    pub(crate) head: Option<Oid>,
}

/// A path that can't be combined or written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Conflict {
    /// The path from the root; bytes that are not UTF-8 are replaced.
    pub path: String,
    /// What kind of conflict: git's word for it (`contents`, `modify/delete`, `rename/rename`, …),
    /// or `file in the way`, `changed meanwhile`, `submodule`.
    pub kind: String,
    /// What happened, in one sentence.
    pub detail: String,
}

/// What became of a merge.
#[derive(Debug)]
pub(crate) enum Combined {
    Clean { tree: Oid, engine: &'static str },
    Conflict { conflicts: Vec<Conflict>, engine: &'static str },
}

/// Merges `theirs` into `ours`. A base entry is a merge base beside those of the history.
pub(crate) fn combine(
    git: &Git,
    quarantine: &Quarantine,
    bases: &Bases,
    ours: Side,
    theirs: Side,
    control: &Control,
) -> Result<Combined, GitError> {
    if ours.tree == theirs.tree {
        return Ok(Combined::Clean { tree: ours.tree, engine: TRIVIAL });
    }
    if let Some(base) = bases.sole
        && let Some(tree) = trivial::merge(quarantine, base, ours.tree, theirs.tree)?
    {
        return Ok(Combined::Clean { tree, engine: TRIVIAL });
    }
    let who = Identity::of_isofold()?;
    let commit = |side: Side| {
        let mut parents: Vec<Oid> = side.head.into_iter().collect();
        parents.extend(bases.entry.filter(|base| side.head != Some(*base)));
        quarantine.commit(side.tree, &parents, "side of a merge", &who.author, &who.committer)
    };
    let (ours, theirs) = (commit(ours)?, commit(theirs)?);
    let combined = program::merge_tree(&quarantine.enter(git.clone()), ours, theirs, control)?;
    quarantine.discard(&[ours, theirs])?;
    Ok(combined)
}
