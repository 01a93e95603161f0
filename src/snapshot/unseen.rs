//! What a snapshot can't see: edits of files that the index tells git not to look at, and loose
//! work inside submodules.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::attributes::Attributes;
use super::convert::{Endings, endings, has_crlf, stored};
use super::{NotFolded, Setting};
use crate::control::Control;
use crate::files::as_path;
use crate::git::blobs::BlobStore;
use crate::git::index_file::{Entry, IndexFile, IndexStat};
use crate::git::modules::{git_dir_of, names_programs};
use crate::git::program::Git;
use crate::git::quarantine::Store;
use crate::git::repository::Place;
use crate::git::tree::{MODE_GITLINK, MODE_LINK, hash_blob, hash_file};
use crate::git::{GitError, Oid};

pub(super) fn unseen(
    place: &Place,
    setting: &Setting,
    index: &IndexFile,
    store: &Store,
    control: &Control,
) -> Result<Vec<NotFolded>, GitError> {
    let mut found = Vec::new();
    // Opened where a file has to be looked at, which is seldom.
    let mut blobs: Option<BlobStore> = None;
    for entry in index.entries() {
        if entry.mode != MODE_GITLINK && !entry.flagged() {
            continue;
        }
        control.check()?;
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
        let id = if meta.is_symlink() {
            let target = fs::read_link(&full).ok();
            target.map(|target| hash_blob(target.as_os_str().as_bytes())).transpose()?
        } else if meta.is_file() {
            if blobs.is_none() {
                blobs = Some(store.open());
            }
            let read = |id| blobs.as_ref()?.read(id);
            id_of_file(place, setting, index, entry, &read, control)?
        } else {
            None
        };
        // What is no file any more, or can't be read, is not what the index has either.
        if id != Some(entry.id) || meta.is_symlink() != (entry.mode == MODE_LINK) {
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

/// What git would store for a file; `None` for one that can't be read.
fn id_of_file(
    place: &Place,
    setting: &Setting,
    index: &IndexFile,
    entry: &Entry,
    read: &dyn Fn(Oid) -> Option<Vec<u8>>,
    control: &Control,
) -> Result<Option<Oid>, GitError> {
    let (root, path) = (&place.work_dir, index.path(entry));
    let full = root.join(as_path(path));
    let here = setting.content.as_ref().and_then(|content| {
        let global = content.global.as_deref();
        let mut attributes = Attributes::new(root, index, read, setting.casefold, &content.info, global);
        endings(&mut attributes, path, content)
    });
    match here {
        Some(Endings::Kept) => Ok(hash_file(&full).ok()),
        Some(endings) => {
            let Ok(content) = fs::read(&full) else { return Ok(None) };
            let in_index = || read(entry.id).is_some_and(|blob| has_crlf(&blob));
            hash_blob(stored(&content, endings, in_index).as_deref().unwrap_or(&content)).map(Some)
        }
        None => {
            let name = format!("--path={}", as_path(path).display());
            // A name that is no text, or content that git refuses, can't be compared: it is named.
            let arguments = ["hash-object", &name, "--stdin"];
            let Ok(content) = fs::read(&full) else { return Ok(None) };
            let finished = place.git().run(arguments, Some(content), control)?;
            Ok(Oid::from_str(String::from_utf8_lossy(&finished.stdout).trim()).ok())
        }
    }
}

/// Why the submodule at `directory` holds what its HEAD does not; git judges, submodules of it
/// included. Where it is not checked out there is nothing.
fn loose(directory: &Path, control: &Control) -> Result<Option<&'static str>, GitError> {
    let Some(git_dir) = git_dir_of(directory) else { return Ok(None) };
    // What somebody wrote into it since is not run.
    if names_programs(&git_dir) {
        return Ok(Some("a submodule whose own configuration names programs; its loose work was not looked for"));
    }
    let status = ["status", "--porcelain", "-z", "--untracked-files=normal", "--ignore-submodules=none"];
    let finished = Git::new(&git_dir, directory).run(status, None, control)?;
    Ok(match finished.code {
        Some(0) => (!finished.stdout.is_empty()).then_some("loose work in a submodule"),
        _ => Some("a submodule that git can't read"),
    })
}
