//! The index that goes with what was written.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::plan::Plan;
use super::swap::Swap;
use crate::git::GitError;
use crate::git::index_file::{Entry, IndexFile, IndexStat, NewEntry};
use crate::git::tree::Item;

/// git's own lock on an index, held from before the first look to the end.
pub(crate) struct IndexLock {
    file: File,
    lock: PathBuf,
    index: PathBuf,
    done: bool,
}

impl IndexLock {
    /// Takes `<index>.lock`, as git does.
    pub(crate) fn take(index: &Path) -> Result<Self, GitError> {
        let lock = lock_of(index);
        let mode = fs::metadata(index).map_or(0o666, |meta| meta.permissions().mode() & 0o777);
        let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&lock);
        match file {
            Ok(file) => Ok(Self { file, lock, index: index.to_owned(), done: false }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(GitError::Held(lock)),
            Err(error) => Err(GitError::io("cannot lock", index)(error)),
        }
    }

    /// Whether somebody holds the lock, without taking it.
    pub(crate) fn check(index: &Path) -> Result<(), GitError> {
        let lock = lock_of(index);
        if fs::symlink_metadata(&lock).is_ok() { Err(GitError::Held(lock)) } else { Ok(()) }
    }

    /// Writes the new content beside the index, synced.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), GitError> {
        let written = self.file.write_all(bytes).and_then(|()| self.file.sync_data());
        written.map_err(GitError::io("cannot write", &self.lock))
    }

    /// Puts the new content in the index's place.
    pub(crate) fn commit(mut self) -> Result<(), GitError> {
        fs::rename(&self.lock, &self.index).map_err(GitError::io("cannot replace", &self.index))?;
        self.done = true;
        Ok(())
    }
}

fn lock_of(index: &Path) -> PathBuf {
    let mut lock = index.as_os_str().to_owned();
    lock.push(".lock");
    PathBuf::from(lock)
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        if !self.done {
            let _ = fs::remove_file(&self.lock);
        }
    }
}

/// The bytes of the index after the plan was carried out: entries keep their flags, and
/// their stat data where it proves something.
pub(crate) fn after(swap: &Swap<'_>, before: &IndexFile, plan: &Plan) -> Vec<u8> {
    with(before, &plan.index, |path, _| swap.stat_of_new(path))
}

/// The bytes of an index in which these items are staged, some of them not what the plan wrote.
pub(crate) fn staged(
    swap: &Swap<'_>,
    before: &IndexFile,
    plan: &Plan,
    items: &BTreeMap<Vec<u8>, Option<Item>>,
) -> Vec<u8> {
    let written = |path: &[u8], item| plan.index.get(path) == Some(&Some(item));
    with(before, items, |path, item| swap.stat_of_new(path).filter(|_| written(path, item)))
}

fn with(
    before: &IndexFile,
    items: &BTreeMap<Vec<u8>, Option<Item>>,
    stat_of: impl Fn(&[u8], Item) -> Option<IndexStat>,
) -> Vec<u8> {
    let mut entries = Vec::with_capacity(before.entries().len() + items.len());
    for entry in before.entries() {
        let path = before.path(entry);
        if items.contains_key(path) {
            continue;
        }
        entries.push(NewEntry {
            path: path.to_vec(),
            mode: entry.mode,
            id: entry.id,
            // Written in the second that the stat was taken: git has to look again.
            stat: if before.racy(entry) { IndexStat::default() } else { entry.stat },
            assume_valid: entry.assume_valid(),
            skip_worktree: entry.skip_worktree(),
            intent_to_add: entry.intent_to_add(),
        });
    }
    for (path, item) in items {
        let Some(item) = item else { continue };
        let old = before.find(path);
        let stat = stat_of(path, *item).unwrap_or_default();
        entries.push(NewEntry {
            path: path.clone(),
            mode: item.mode,
            id: item.id,
            stat,
            assume_valid: old.is_some_and(Entry::assume_valid),
            skip_worktree: old.is_some_and(Entry::skip_worktree),
            intent_to_add: false,
        });
    }
    before.with_entries(entries)
}
