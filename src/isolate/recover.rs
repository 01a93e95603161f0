//! What killed isolations and removals left, recognised by their records: taken back or finished, and
//! only where the owner is dead. A live one is told by its process and by the lock that it holds.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::IsolateError;
use crate::control::Control;
use crate::files::lock::{Hold, Lock, lock};
use crate::files::owner::Owner;
use crate::files::remove::{mounted_below, newer_than, remove_tree, remove_worktree};
use crate::fold::foreign::SHADOW;
use crate::git::quarantine::{OBJECTS, forget_keeps};
use crate::git::repository::Repo;
use crate::git::worktrees::{UNDER_WAY, admin_of_git_file, registered, unregister, uses_of};
use crate::git::{GitError, show};
use crate::records::{ChildRecord, State, TEMPORARY, bases_directory, bases_of, forget};

/// One thing that a dead process had left.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recovered {
    /// A Child that was never complete: its directory, registration, branch and base entry are gone.
    Incomplete(PathBuf),
    /// A Child whose removal had begun is gone.
    Removed(PathBuf),
    /// A directory or file of ours that a dead process had made in the git directory is gone.
    Leftover(PathBuf),
    /// It is a dead process's, but was not touched; the text says why.
    Left(String),
}

/// Takes back or finishes what dead isolations and removals left in the repository of `repo`, as seen
/// from any of its work trees.
pub(crate) fn recover_children(repo: &Repo, control: &Control) -> Result<Vec<Recovered>, IsolateError> {
    let mut done = Vec::new();
    for entry in registered(repo.common_dir())? {
        control.check().map_err(GitError::from)?;
        match recover_entry(repo, &entry.admin) {
            Ok(recovered) => done.extend(recovered),
            Err(error) if error.stop().is_some() => return Err(error),
            // What one dead process left must not stop everybody else.
            Err(error) => done.push(Recovered::Left(error.to_string())),
        }
    }
    done.extend(clear_leftovers(repo.common_dir()));
    Ok(done)
}

/// What [`recover_children`] would do, without doing it.
pub(crate) fn would_recover(repo: &Repo) -> Result<Vec<Recovered>, IsolateError> {
    let mut found = Vec::new();
    for entry in registered(repo.common_dir())? {
        if let Some((_held, record)) = take(&entry.admin)? {
            found.push(match record.state {
                State::Removing => Recovered::Removed(record.child),
                _ => Recovered::Incomplete(record.child),
            });
        }
    }
    found.extend(all_leftovers(repo.common_dir()).into_iter().map(Recovered::Leftover));
    Ok(found)
}

/// Whether the registry entry `admin` is that of an isolation or a removal whose owner no longer runs.
pub(super) fn is_dead(admin: &Path) -> bool {
    let Ok(Some(record)) = ChildRecord::read(admin) else { return false };
    record.state != State::Ready && !record.owner.lives()
}

/// Makes room at `child`, where something stands, if that is what a dead isolation left: of this
/// Parent's repository or of another.
pub(super) fn clear(parent: &Path, child: &Path) {
    let cleared = || -> Result<(), IsolateError> {
        let control = Control::new();
        if let Ok(repo) = Repo::open(parent) {
            recover_children(&repo, &control)?;
        }
        let admin = admin_of_git_file(&child.join(".git")).and_then(|admin| fs::canonicalize(admin).ok());
        let Some(admin) = admin.filter(|admin| is_dead(admin)) else { return Ok(()) };
        if let Some(record) = ChildRecord::read(&admin)? {
            recover_entry(&Repo::open(&record.parent)?, &admin)?;
        }
        Ok(())
    };
    // What can't be cleared still stands there, and that is what the report then says.
    if let Err(error) = cleared() {
        tracing::warn!(%error, "an incomplete Child could not be removed");
    }
}

/// The lock of a dead owner's entry; `None` where somebody lives who holds it, or it is not there any
/// more.
fn take(admin: &Path) -> Result<Option<(Lock, ChildRecord)>, IsolateError> {
    if !is_dead(admin) {
        return Ok(None);
    }
    let inode = |path: &Path| fs::symlink_metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    let before = inode(admin);
    let held = match lock(admin, Hold::Exclusive, Some(std::time::Duration::ZERO), &Control::new()) {
        Ok(held) => held,
        Err(crate::files::FilesError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error.into()),
    };
    let Some(held) = held.filter(|_| before.is_some() && before == inode(admin) && is_dead(admin)) else {
        return Ok(None);
    };
    Ok(ChildRecord::read(admin)?.map(|record| (held, record)))
}

/// One entry of the registry.
pub(super) fn recover_entry(repo: &Repo, admin: &Path) -> Result<Option<Recovered>, IsolateError> {
    let Some((_held, record)) = take(admin)? else { return Ok(None) };
    let child = &record.child;
    let git_file = admin_of_git_file(&child.join(".git")).and_then(|named| fs::canonicalize(named).ok());
    let real = fs::canonicalize(admin).map_err(GitError::io("cannot read", admin))?;
    let ours = git_file.as_ref() == Some(&real);
    let left = |why: String| Ok(Some(Recovered::Left(why)));
    if ours && let Some(place) = mounted_below(child) {
        return left(format!("{} has something mounted at {}; unmount it first", show(child), show(&place)));
    }
    if record.state == State::Removing {
        let newer = ChildRecord::written(admin).map_or_else(Vec::new, |since| newer_than(child, since));
        if ours && let Some(path) = newer.first() {
            return left(format!(
                "{} was being removed, but {} was written there since; isofold remove --force saves it first",
                show(child),
                show(path)
            ));
        }
    }
    if ours {
        remove_worktree(child)?;
    } else {
        // Killed before it had a `.git`, or after that was taken away again: empty if it is ours at all.
        let _ = fs::remove_dir(child);
    }
    let mut bases = record.made.bases.clone();
    if record.state == State::Removing {
        bases.extend(bases_of(repo, child)?);
    }
    for base in &bases {
        forget(repo, base)?;
    }
    if record.state == State::Removing {
        unregister(repo.common_dir(), admin)?;
        return Ok(Some(Recovered::Removed(child.clone())));
    }
    if let (Some(branch), Some((from, to))) = (&record.branch, record.made.branch) {
        repo.clear_ref_lock(branch);
        let held_by_others = uses_of(repo, branch)?.iter().any(|u| u.entry.as_ref().is_none_or(|e| e.admin != *admin));
        if !held_by_others && repo.ref_id(branch)? == Some(to) {
            repo.restore_branch(branch, from)?;
        }
    }
    for ancestor in record.made.ancestors.iter().rev() {
        // Somebody else may use it by now.
        let _ = fs::remove_dir(ancestor);
    }
    unregister(repo.common_dir(), admin)?;
    Ok(Some(Recovered::Incomplete(child.clone())))
}

/// Directories and files in the git directory whose names say that their owner is dead.
fn clear_leftovers(common: &Path) -> Vec<Recovered> {
    let mut done = Vec::new();
    for path in all_leftovers(common) {
        let removed = if path.is_dir() {
            remove_tree(&path).map_err(|e| e.to_string())
        } else {
            fs::remove_file(&path).map_err(|e| e.to_string())
        };
        match removed {
            Ok(()) => done.push(Recovered::Leftover(path)),
            Err(error) => tracing::warn!(%error, "what a dead process left could not be removed"),
        }
    }
    // What they kept from a gc is named by a ref by now, or by nothing.
    forget_keeps(common);
    done
}

fn all_leftovers(common: &Path) -> Vec<PathBuf> {
    let bases = bases_directory(common);
    let places = [(common, UNDER_WAY), (common, OBJECTS), (common, SHADOW), (bases.as_path(), TEMPORARY)];
    places.iter().flat_map(|(directory, prefix)| leftovers(directory, prefix)).collect()
}

fn leftovers(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let dead = name.to_str().is_some_and(|name| Owner::of_name_is_dead(name, prefix));
        if dead && !is_held(&entry.path()) {
            found.push(entry.path());
        }
    }
    found
}

/// A process of another container may seem dead; its lock does not.
fn is_held(path: &Path) -> bool {
    let tried = lock(path, Hold::Exclusive, Some(std::time::Duration::ZERO), &Control::new());
    !matches!(tried, Ok(Some(_)))
}
