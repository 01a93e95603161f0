//! What a snapshot can't see: edits of files that the index tells git not to look at, and loose
//! work inside submodules.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use super::NotFolded;
use crate::files::as_path;
use crate::git::GitError;
use crate::git::index_file::{IndexFile, IndexStat};
use crate::git::repository::{Place, submodule_is_dirty};
use crate::git::tree::{MODE_GITLINK, MODE_LINK, hash_blob};

pub(super) fn unseen(place: &Place, index: &IndexFile) -> Result<Vec<NotFolded>, GitError> {
    let mut found = Vec::new();
    for entry in index.entries() {
        if entry.mode != MODE_GITLINK && !entry.flagged() {
            continue;
        }
        let path = index.path(entry);
        let full = place.work_dir.join(as_path(path));
        if entry.mode == MODE_GITLINK {
            if submodule_is_dirty(&full) {
                found.push(NotFolded { path: path.to_vec(), why: "loose work in a submodule" });
            }
            continue;
        }
        let Ok(meta) = fs::symlink_metadata(&full) else { continue };
        let stat = rustix::fs::lstat(&full).map(|stat| IndexStat::of(&stat));
        if stat.is_ok_and(|stat| entry.stat.same_file(&stat)) && !index.racy(entry) {
            continue;
        }
        let content = if meta.is_symlink() {
            fs::read_link(&full).map(|target| target.as_os_str().as_bytes().to_vec())
        } else {
            fs::read(&full)
        };
        let content = content.map_err(GitError::io("cannot read", &full))?;
        let differs = hash_blob(&content)? != entry.id || meta.is_symlink() != (entry.mode == MODE_LINK);
        if differs {
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
