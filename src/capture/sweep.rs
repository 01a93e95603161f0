//! What captures left that were killed: found by the marker in their temporary directory, saved, and taken
//! away by the next one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::command::end_group;
use super::place::{PREFIX, git_file_text};
use crate::control::Control;
use crate::files::FilesError;
use crate::files::owner::Owner;
use crate::files::remove::remove_tree;
use crate::git::GitError;
use crate::git::repository::Repo;
use crate::git::worktrees;
use crate::isolate::remove::{RemoveOutcome, remove};
use crate::records::{ChildRecord, State, bases_of, forget};

/// Says whose capture is at work in a temporary directory, and what runs for it.
pub(super) const MARKER: &str = "capturing.toml";

/// How long a removal fights with a survivor that goes on writing.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Serialize, Deserialize)]
struct Marker {
    owner: Owner,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Owner>,
    /// The patch is written, or there is none to write: nothing here is worth saving.
    #[serde(default)]
    finished: bool,
}

/// Writes the marker, all old or all new.
pub(super) fn write_marker(temporary: &Path, command: Option<Owner>, finished: bool) -> Result<(), GitError> {
    let marker = Marker { owner: Owner::this(), command, finished };
    let text = toml::to_string(&marker).map_err(|e| GitError::Format { what: format!("a marker ({e})") })?;
    crate::patch::store::replace(temporary, MARKER, text.as_bytes())
}

/// Takes away what captures left that were killed; the work of a command that had begun is saved first.
/// Returns the refs that keep it.
pub(super) fn sweep(repo: &Repo, control: &Control) -> Vec<String> {
    let mut saved = Vec::new();
    let entries = match worktrees::registered(repo.common_dir()) {
        Ok(entries) => entries,
        Err(error) => {
            tracing::warn!(%error, "the registry can't be read");
            return saved;
        }
    };
    for entry in entries {
        let Some(temporary) = entry.directory.parent().filter(|p| is_ours(p)) else { continue };
        let Some(marker) = read_marker(temporary).filter(|marker| !marker.owner.lives()) else { continue };
        if let Some(command) = &marker.command {
            // A reused id is another process; without one, whoever is left of the group is the command's.
            let this_boot = command.boot == Owner::this().boot;
            if this_boot && Owner::of(command.pid).is_none_or(|now| now == *command) {
                end_group(command.pid);
            }
        }
        let record = ChildRecord::read(&entry.admin).ok().flatten();
        let worked = !marker.finished && record.is_some_and(|record| record.state != State::Making);
        if worked {
            let git_file = entry.directory.join(".git");
            if entry.directory.is_dir() && fs::symlink_metadata(&git_file).is_err() {
                // The command removed it; without it nobody could tell what this is.
                if let Err(error) = fs::write(&git_file, git_file_text(&entry.admin)) {
                    tracing::warn!(%error, "the .git of a killed capture could not be restored");
                }
            }
            // The lock was for as long as the command ran.
            if let Err(error) = fs::remove_file(entry.admin.join("locked"))
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(%error, "a killed capture could not be unlocked");
            }
            match remove(&entry.directory, true, control) {
                RemoveOutcome::Removed { saved: refs } => saved.extend(refs),
                RemoveOutcome::AlreadyGone => {
                    if let Err(error) = forget_worktree(repo, &entry.directory, &entry.admin) {
                        tracing::warn!(%error, "the entry of a killed capture could not be removed");
                    }
                }
                other => {
                    // It can't be saved, so it stays.
                    tracing::warn!(?other, "what a killed capture left could not be saved");
                    continue;
                }
            }
        } else {
            // A git that checks out may have outlived us; it soon finds nothing to write to.
            let cleared = take_away(&entry.directory).map_err(|e| e.to_string());
            let forgotten = || forget_worktree(repo, &entry.directory, &entry.admin).map_err(|e| e.to_string());
            let cleared = cleared.and_then(|()| forgotten());
            if let Err(error) = cleared {
                tracing::warn!(%error, "what a killed capture left could not be removed");
                continue;
            }
        }
        let _ = fs::remove_file(temporary.join(MARKER));
        let _ = fs::remove_dir(temporary);
    }
    sweep_beginnings();
    saved
}

/// Temporary directories of captures that were killed before they had registered anything.
fn sweep_beginnings() {
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let temporary = entry.path();
        if !is_ours(&temporary) || read_marker(&temporary).is_none_or(|marker| marker.owner.lives()) {
            continue;
        }
        let inside = fs::read_dir(&temporary).into_iter().flatten().flatten().map(|entry| entry.path());
        let worktrees: Vec<PathBuf> = inside.filter(|path| path.is_dir()).collect();
        // What holds anything is another repository's, and for its next capture.
        if worktrees.iter().all(|worktree| fs::remove_dir(worktree).is_ok()) {
            let _ = fs::remove_file(temporary.join(MARKER));
            let _ = fs::remove_dir(&temporary);
        }
    }
}

/// Takes a worktree's base entries and its registration away.
pub(super) fn forget_worktree(repo: &Repo, root: &Path, admin: &Path) -> Result<(), GitError> {
    for name in bases_of(repo, root)? {
        forget(repo, &name)?;
    }
    worktrees::unregister(repo.common_dir(), admin)
}

/// Removes a directory that somebody may still write to for a moment.
pub(super) fn take_away(directory: &Path) -> Result<(), FilesError> {
    let since = Instant::now();
    loop {
        match remove_tree(directory) {
            Err(_) if since.elapsed() < PATIENCE => std::thread::sleep(crate::control::POLL),
            other => return other,
        }
    }
}

fn is_ours(directory: &Path) -> bool {
    directory.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()))
}

fn read_marker(temporary: &Path) -> Option<Marker> {
    toml::from_str(&fs::read_to_string(temporary.join(MARKER)).ok()?).ok()
}
