//! Submodules that are checked out in the Parent: each gets a git directory of its own in the
//! Child's administrative directory, so that git in the Child's submodule never touches the
//! Parent's.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::IsolateError;
use crate::control::Control;
use crate::files::{FilesError, as_path};
use crate::git::GitError;
use crate::git::index_file::{IndexFile, IndexStat};
use crate::git::modules::{self, Stores, git_dir_of};
use crate::git::repository::Repo;

/// Goes through the directories of the fill that have a `.git` file. Those whose repository is not
/// in the Parent's module store are left as they are.
pub(super) fn give_modules(
    repo: &Repo,
    child: &Path,
    admin: &Path,
    directories: &[Vec<u8>],
    control: &Control,
) -> Result<(), IsolateError> {
    let stores = Stores::of(repo.git_dir(), repo.common_dir());
    let lasting = repo.common_dir().join("modules");
    for path in directories {
        control.check().map_err(GitError::from)?;
        let (here, there) = (repo.work_dir().join(as_path(path)), child.join(as_path(path)));
        let Some(module) = git_dir_of(&here) else { continue };
        let Some(name) = stores.name_of(&module) else { continue };
        let own = admin.join("modules").join(name);
        if !own.exists() {
            modules::copy(&module, &own, &there, module.starts_with(&lasting))?;
            warm(&module, &own, &here, &there)?;
        }
        lead_to(&there.join(".git"), &own)?;
    }
    Ok(())
}

/// Points the copied `.git` file to the Child's own module. Written in place: the directory keeps its
/// modification time.
fn lead_to(git_file: &Path, module: &Path) -> Result<(), IsolateError> {
    let text = [b"gitdir: ", module.as_os_str().as_bytes(), b"\n"].concat();
    let written = fs::write(git_file, &text).or_else(|error| match error.kind() {
        std::io::ErrorKind::PermissionDenied => fs::remove_file(git_file).and_then(|()| fs::write(git_file, &text)),
        _ => Err(error),
    });
    written.map_err(FilesError::io("cannot write", git_file))?;
    Ok(())
}

/// Gives the copied index the stat data of the copied files, where the originals are proven to be
/// what it says. An index that can't be read here stays as it is: git compares the files then.
fn warm(module: &Path, own: &Path, here: &Path, there: &Path) -> Result<(), IsolateError> {
    let Ok(index) = IndexFile::read(&module.join("index")) else { return Ok(()) };
    let file = own.join("index");
    if !file.is_file() {
        return Ok(());
    }
    let stat = |root: &Path, path: &[u8]| rustix::fs::lstat(root.join(as_path(path))).ok().map(|s| IndexStat::of(&s));
    let proven = |entry| {
        let path = index.path(entry);
        let plain = entry.stage() == 0 && !entry.flagged() && !entry.intent_to_add() && !index.racy(entry);
        let (original, copy) = (stat(here, path)?, stat(there, path)?);
        let same = entry.stat.same_file(&original) && (copy.mtime, copy.size) == (original.mtime, original.size);
        (plain && same).then_some(copy)
    };
    let stats: Vec<Option<IndexStat>> = index.entries().iter().map(proven).collect();
    fs::write(&file, index.with_stats(&stats)).map_err(GitError::io("cannot write", &file))?;
    Ok(())
}
