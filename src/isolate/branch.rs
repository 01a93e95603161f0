//! The Child's branch and its place in the registry: what may be replaced, what is in the way.

use std::fs;
use std::path::Path;

use super::undo::Undo;
use super::{IsolateError, recover, rescue};
use crate::control::Control;
use crate::git::repository::{Head, Repo};
use crate::git::worktrees::{Registered, registered, unregister, uses_of};
use crate::git::{GitError, Oid};

/// Registered worktrees whose directory is gone and that hold the Child's path or branch. They go
/// when the new Child is complete: an isolation that fails takes nothing away.
pub(super) fn replaceable(repo: &Repo, branch: Option<&str>, child: &Path) -> Result<Vec<Registered>, IsolateError> {
    let uses = branch.map_or_else(|| Ok(Vec::new()), |branch| uses_of(repo, branch))?;
    let mut found = Vec::new();
    for entry in registered(repo.common_dir())? {
        let same_place = entry.directory == child;
        let same_branch = uses.iter().any(|u| u.entry.as_ref().is_some_and(|e| e.admin == entry.admin));
        let replaceable = same_place || (same_branch && entry.is_gone());
        if !replaceable {
            continue;
        }
        let dead = recover::is_dead(&entry.admin);
        if let Some(reason) = entry.locked.as_ref().filter(|_| !dead) {
            let reason = if reason.is_empty() { "no reason given".to_owned() } else { reason.clone() };
            return Err(IsolateError::Locked { place: entry.directory, reason });
        }
        if let Some(held) = rescue::held_by_gone(repo, &entry)?.iter().find(|held| !held.has_refuge()) {
            let held = held.describe();
            return Err(IsolateError::HeldByGone { place: entry.directory, admin: entry.admin, held });
        }
        found.push(entry);
    }
    Ok(found)
}

/// Takes the entries out of the registry. Commits that only such an entry reached are saved first;
/// the refs are returned.
pub(super) fn replace(
    repo: &Repo,
    entries: &[Registered],
    child: &Path,
    undo: &mut Undo<'_>,
    control: &Control,
) -> Result<Vec<String>, IsolateError> {
    let mut saved = Vec::new();
    for entry in entries {
        // Somebody may have put the directory back meanwhile.
        if entry.directory != child && !entry.is_gone() {
            continue;
        }
        saved.extend(save_head(repo, entry, undo)?);
        let label = label(entry);
        for held in rescue::held_by_gone(repo, entry)? {
            saved.extend(held.save(&label, control)?);
        }
        unregister(repo.common_dir(), &entry.admin)?;
    }
    Ok(saved)
}

/// The Child's branch on its way to where the Child's HEAD is.
pub(super) struct Taking {
    /// Its full name; none for a detached HEAD.
    pub(super) branch: Option<String>,
    /// Where it is now, if it exists.
    pub(super) old_tip: Option<Oid>,
    /// Registered worktrees that make room for the Child.
    pub(super) going: Vec<Registered>,
}

impl Taking {
    /// From where to where the branch moves; none where it does not.
    pub(super) fn moves(&self, head: &Head) -> Option<(Option<Oid>, Oid)> {
        let to = head.id.filter(|to| self.branch.is_some() && self.old_tip != Some(*to))?;
        Some((self.old_tip, to))
    }

    /// Makes or moves the branch. Commits that only it reached are saved first; the refs are returned.
    pub(super) fn take(&self, repo: &Repo, head: &Head, undo: &mut Undo<'_>) -> Result<Vec<String>, IsolateError> {
        let (Some(branch), Some((from, to))) = (&self.branch, self.moves(head)) else { return Ok(Vec::new()) };
        let mut saved = Vec::new();
        if let Some(old) = from
            && repo.only_reached_by(old, branch, Some(to))?
        {
            saved.push(save(repo, branch.trim_start_matches("refs/heads/"), old, undo)?);
        }
        repo.move_branch(branch, from, to, "isofold: isolate")?;
        undo.branch(branch.clone(), from);
        Ok(saved)
    }
}

/// Saves a commit; the ref goes again if it is new and the isolation fails.
pub(super) fn save(repo: &Repo, label: &str, id: Oid, undo: &mut Undo<'_>) -> Result<String, GitError> {
    let known = repo.ref_id(&Repo::saved_name(label, id))?.is_some();
    let name = repo.save(label, id)?;
    if !known {
        undo.saved(name.clone());
    }
    Ok(name)
}

/// Saves the detached HEAD of an entry that goes, where only it reaches the commit.
fn save_head(repo: &Repo, entry: &Registered, undo: &mut Undo<'_>) -> Result<Option<String>, GitError> {
    let head = fs::read_to_string(entry.admin.join("HEAD")).unwrap_or_default();
    let Ok(id) = Oid::from_str(head.trim()) else { return Ok(None) };
    if !repo.has_object(id) || !repo.only_reached_by(id, "", None)? {
        return Ok(None);
    }
    save(repo, &label(entry), id, undo).map(Some)
}

/// What the refs that save an entry's work are named after.
fn label(entry: &Registered) -> String {
    entry.directory.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned())
}

/// Whether the branch can be made or moved once `going` are gone; its tip where it exists.
pub(super) fn check(
    repo: &Repo,
    branch: Option<&str>,
    head: &Head,
    going: &[Registered],
) -> Result<Option<Oid>, IsolateError> {
    let Some(branch) = branch else {
        return if head.id.is_none() { Err(IsolateError::DetachedUnborn) } else { Ok(None) };
    };
    let short = || branch.trim_start_matches("refs/heads/").to_owned();
    let goes = |admin: &Path| going.iter().any(|entry| entry.admin == admin);
    let mut uses = uses_of(repo, branch)?.into_iter();
    if let Some(found) = uses.find(|u| u.entry.as_ref().is_none_or(|e| !goes(&e.admin))) {
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
