//! The Child's branch and its place in the registry: what may be replaced, what is in the way.

use std::fs;
use std::path::Path;

use super::{IsolateError, stale};
use crate::git::repository::{Head, Repo};
use crate::git::worktrees::{Registered, registered, unregister, uses_of};
use crate::git::{GitError, Oid};

/// Removes entries whose directory is gone and that hold the Child's path or branch. Commits that
/// only such an entry reached are saved; the refs are returned.
pub(super) fn make_room(repo: &Repo, branch: Option<&str>, child: &Path) -> Result<Vec<String>, IsolateError> {
    let mut saved = Vec::new();
    let holders = branch.map(|branch| uses_of(repo, branch)).transpose()?.unwrap_or_default();
    for entry in registered(repo.common_dir())? {
        let same_place = entry.directory == child;
        let same_branch = holders.iter().any(|u| u.entry.as_ref().is_some_and(|e| e.admin == entry.admin));
        let replaced = same_place || (same_branch && entry.is_gone());
        if !replaced {
            continue;
        }
        let dead = stale::is_dead(&entry.admin, &entry.directory);
        if let Some(reason) = entry.locked.as_ref().filter(|_| !dead) {
            let reason = if reason.is_empty() { "no reason given".to_owned() } else { reason.clone() };
            return Err(IsolateError::Locked { place: entry.directory, reason });
        }
        saved.extend(save_head(repo, &entry)?);
        unregister(repo.common_dir(), &entry.admin)?;
    }
    Ok(saved)
}

/// Saves the detached HEAD of an entry that goes, where only it reaches the commit.
fn save_head(repo: &Repo, entry: &Registered) -> Result<Option<String>, GitError> {
    let head = fs::read_to_string(entry.admin.join("HEAD")).unwrap_or_default();
    let Ok(id) = Oid::from_str(head.trim()) else { return Ok(None) };
    if !repo.has_object(id) || !repo.only_reached_by(id, "", None)? {
        return Ok(None);
    }
    let label = entry.directory.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    repo.save(&label, id).map(Some)
}

/// Whether the branch can be made or moved; its tip where it exists.
pub(super) fn check(repo: &Repo, branch: Option<&str>, head: &Head) -> Result<Option<Oid>, IsolateError> {
    let Some(branch) = branch else {
        return if head.id.is_none() { Err(IsolateError::DetachedUnborn) } else { Ok(None) };
    };
    let short = || branch.trim_start_matches("refs/heads/").to_owned();
    if let Some(found) = uses_of(repo, branch)?.into_iter().next() {
        return Err(IsolateError::BranchInUse { branch: short(), how: found.how, place: found.place });
    }
    if let Some(other) = repo.ref_in_the_way(branch)? {
        return Err(IsolateError::RefInTheWay { branch: short(), other });
    }
    let tip = repo.ref_id(branch)?;
    if tip.is_some() && head.id.is_none() {
        return Err(IsolateError::BranchBeforeCommit { branch: short() });
    }
    Ok(tip)
}
