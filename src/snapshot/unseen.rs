//! What a snapshot can't see: edits of files that the index tells git not to look at, and loose
//! work inside submodules.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::NotFolded;
use crate::control::Control;
use crate::files::as_path;
use crate::git::GitError;
use crate::git::index_file::{IndexFile, IndexStat};
use crate::git::modules::git_dir_of;
use crate::git::program::Git;
use crate::git::repository::Place;
use crate::git::tree::{MODE_GITLINK, MODE_LINK, hash_blob};

pub(super) fn unseen(place: &Place, index: &IndexFile, control: &Control) -> Result<Vec<NotFolded>, GitError> {
    let mut found = Vec::new();
    for entry in index.entries() {
        if entry.mode != MODE_GITLINK && !entry.flagged() {
            continue;
        }
        let path = index.path(entry);
        let full = place.work_dir.join(as_path(path));
        if entry.mode == MODE_GITLINK {
            if let Some(why) = loose(&full, control)? {
                found.push(NotFolded { path: path.to_vec(), why });
            }
            continue;
        }
        let Ok(meta) = fs::symlink_metadata(&full) else { continue };
        let stat = rustix::fs::lstat(&full).map(|stat| IndexStat::of(&stat));
        if stat.is_ok_and(|stat| entry.stat.same_file(&stat)) && !index.racy(entry) {
            continue;
        }
        let content = if meta.is_symlink() {
            fs::read_link(&full).map(|target| target.as_os_str().as_bytes().to_vec()).ok()
        } else if meta.is_file() {
            fs::read(&full).ok()
        } else {
            None
        };
        // What is no file any more, or can't be read, is not what the index has either.
        let same = match content {
            Some(content) => hash_blob(&content)? == entry.id && meta.is_symlink() == (entry.mode == MODE_LINK),
            None => false,
        };
        if !same {
            let why = if entry.skip_worktree() {
                "edited, but marked skip-worktree"
            } else {
                "edited, but marked assume-unchanged"
            };
            found.push(NotFolded { path: path.to_vec(), why });
        }
    }
    Ok(found)
}

/// Why the submodule at `directory` holds what its HEAD does not; git judges, submodules of it
/// included. Where it is not checked out there is nothing.
fn loose(directory: &Path, control: &Control) -> Result<Option<&'static str>, GitError> {
    let Some(git_dir) = git_dir_of(directory) else { return Ok(None) };
    let status = ["status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=none"];
    let finished = Git::new(&git_dir, directory).run(status, None, control)?;
    Ok(match finished.code {
        Some(0) => (!finished.stdout.is_empty()).then_some("loose work in a submodule"),
        _ => Some("a submodule that git can't read"),
    })
}
