//! The base rule: which base entry of a pair of directories a fold uses.

use std::path::Path;

use super::Bases;
use crate::git::GitError;
use crate::git::repository::{Head, Repo};
use crate::records::BaseEntry;

/// What the sides have in common, with the entry that [`choose`] found.
pub(crate) fn of(repo: &Repo, entry: Option<&BaseEntry>, parent: &Head, child: &Head) -> Result<Bases, GitError> {
    let mut candidates = match (parent.id, child.id) {
        (Some(parent), Some(child)) => repo.merge_bases(parent, child)?,
        _ => Vec::new(),
    };
    candidates.extend(entry.map(|entry| entry.base));
    candidates.sort_unstable();
    candidates.dedup();
    // A base that another one contains is none of the best.
    let mut best = Vec::new();
    for candidate in &candidates {
        let mut contained = false;
        for other in candidates.iter().filter(|other| *other != candidate) {
            contained = contained || repo.contains(*other, *candidate)?;
        }
        if !contained {
            best.push(*candidate);
        }
    }
    let sole = match best.as_slice() {
        [sole] => Some(repo.tree_of(*sole)?),
        _ => None,
    };
    let any = match (sole, best.first()) {
        (None, Some(first)) => Some(repo.tree_of(*first)?),
        (sole, _) => sole,
    };
    Ok(Bases { entry: entry.map(|entry| entry.base), sole, any })
}

/// The newest entry of the pair that still counts; `None` means that history alone decides.
///
/// An entry counts if the Parent's HEAD contains its anchor; the Child's HEAD contains the Child's
/// HEAD of then, or is a commit outside the Parent's history on the recorded branch (amended work);
/// and no merge base of the history strictly descends from the anchor.
pub(crate) fn choose(
    repo: &Repo,
    pair: (&Path, &Path),
    parent: &Head,
    child: &Head,
) -> Result<Option<BaseEntry>, GitError> {
    let entries = BaseEntry::of_pair(repo, pair.0, pair.1)?;
    if entries.is_empty() {
        return Ok(None);
    }
    let history = match (parent.id, child.id) {
        (Some(parent), Some(child)) => repo.merge_bases(parent, child)?,
        _ => Vec::new(),
    };
    // A commit that does not exist (an unborn HEAD) is contained in everything.
    let contains = |commit, ancestor| match (commit, ancestor) {
        (_, None) => Ok(true),
        (None, Some(_)) => Ok(false),
        (Some(commit), Some(ancestor)) => repo.contains(commit, ancestor),
    };
    for entry in entries {
        if !contains(parent.id, entry.anchor)? {
            continue;
        }
        if !contains(child.id, entry.child_head)? {
            let on_branch = child.branch == entry.branch;
            let outside = child.id.is_some() && !contains(parent.id, child.id)?;
            if !on_branch || !outside {
                continue;
            }
        }
        let mut overtaken = false;
        for base in &history {
            overtaken |= Some(*base) != entry.anchor && contains(Some(*base), entry.anchor)?;
        }
        if !overtaken {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}
