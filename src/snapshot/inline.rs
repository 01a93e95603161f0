//! Storing in process: what a scan found becomes blobs and a tree, several files at a time.
//!
//! Only line endings are converted here ([`super::convert`]). Where a file needs more, git stores all.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{CWD, Mode, OFlags};

use super::attributes::Attributes;
use super::convert::{self, Endings};
use super::read::{Found, Reader, Task};
use super::scan::Scanned;
use super::{Setting, Work};
use crate::control::Control;
use crate::files::as_path;
use crate::git::blobs::BlobStore;
use crate::git::index_file::{Entry, IndexFile, IndexStat};
use crate::git::nested::head_of;
use crate::git::quarantine::Store;
use crate::git::tree::{Item, MODE_GITLINK};
use crate::git::{GitError, Oid};

/// So many files a thread takes at once.
const CHUNK: usize = 32;
/// Nor do more threads than this help: the disk is one.
const THREADS: usize = 8;

/// Path by path: what is there now, nothing where it is gone.
type Changes<'p> = BTreeMap<&'p [u8], Option<(Item, IndexStat)>>;

/// Stores what a scan found and the new paths; `None` leaves it to git.
pub(super) fn changes(
    work: &Work<'_>,
    setting: &Setting,
    before: &IndexFile,
    scanned: &Scanned,
    new: &[&Vec<u8>],
    store: &Store,
    control: &Control,
) -> Result<Option<(Oid, Arc<IndexFile>)>, GitError> {
    let began = crate::git::index_file::now();
    let blobs = store.open();
    let mut changes: Changes<'_> = scanned.gone.iter().map(|path| (path.as_slice(), None)).collect();
    let mut tasks = Vec::new();
    for path in scanned.changed.iter().chain(new.iter().copied()) {
        let entry = before.find(path);
        if entry.is_some_and(|entry| entry.mode == MODE_GITLINK) {
            let Some(found) = pointer(work, path)? else { return Ok(None) };
            changes.insert(path, Some(found));
        } else {
            tasks.push(Task { path, entry, endings: Endings::Kept });
        }
    }
    tasks.sort_unstable_by_key(|task| task.path);
    if !tasks.is_empty() && !endings(&mut tasks, work, setting, before, &blobs) {
        return Ok(None);
    }
    let Some(found) = stored(&tasks, work, setting, store, control)? else { return Ok(None) };
    changes.extend(tasks.iter().zip(found).map(|(task, found)| (task.path, Some(found))));
    let mut updates: Vec<&[u8]> = Vec::new();
    for (path, change) in &changes {
        let Some((item, stat)) = change else {
            updates.push(path);
            continue;
        };
        let entry = before.find(path);
        if entry.is_some_and(|entry| entry.id == item.id && entry.mode == item.mode && !entry.intent_to_add()) {
            continue;
        }
        // Another content behind the same size and second: whether git sees it hangs on how it was
        // built and configured.
        let unseen =
            |entry: &Entry| entry.stat.mtime.0 == stat.mtime.0 && entry.stat.size == stat.size && stat.size > 0;
        if item.mode != MODE_GITLINK && entry.is_some_and(|entry| unseen(entry) && !entry.intent_to_add()) {
            return Ok(None);
        }
        updates.push(path);
    }
    let cache = before.cache_tree();
    let changes: Vec<_> = changes.iter().map(|(path, change)| (*path, *change)).collect();
    let index = before.updated(&changes, began)?;
    let tree = blobs.tree_of(&index, cache.as_ref(), &updates, control)?;
    Ok(Some((tree, Arc::new(index))))
}

/// Says of each file what becomes of its line endings; `false` where git has to convert one.
fn endings(tasks: &mut [Task<'_>], work: &Work<'_>, setting: &Setting, before: &IndexFile, blobs: &BlobStore) -> bool {
    let Some(content) = &setting.content else { return false };
    let read = |id| blobs.read(id);
    let root = &work.place.work_dir;
    let mut attributes =
        Attributes::new(root, before, &read, setting.casefold, &content.info, content.global.as_deref());
    for task in tasks {
        match convert::endings(&mut attributes, task.path, content) {
            Some(endings) => task.endings = endings,
            None => return false,
        }
    }
    true
}

/// A submodule's HEAD as an item; `None` where git has to say what is wrong with it.
fn pointer(work: &Work<'_>, path: &[u8]) -> Result<Option<(Item, IndexStat)>, GitError> {
    let full = work.place.work_dir.join(as_path(path));
    let Some(id) = head_of(&full) else { return Ok(None) };
    let stat = rustix::fs::lstat(&full).map_err(|e| GitError::io("cannot read", &full)(e.into()))?;
    Ok(Some((Item { mode: MODE_GITLINK, id }, IndexStat::of(&stat))))
}

/// Reads and stores all files; `None` where one is nothing that can be stored here.
fn stored(
    tasks: &[Task<'_>],
    work: &Work<'_>,
    setting: &Setting,
    store: &Store,
    control: &Control,
) -> Result<Option<Vec<(Item, IndexStat)>>, GitError> {
    let root = &work.place.work_dir;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = rustix::fs::openat(CWD, root, flags, Mode::empty());
    let top: OwnedFd = top.map_err(|e| GitError::io("cannot read", root)(e.into()))?;
    let next = AtomicUsize::new(0);
    let worker = || -> Result<Vec<(usize, Found)>, GitError> {
        let mut reader = Reader::new(root, top.as_fd(), setting.file_mode, store);
        let mut found = Vec::new();
        loop {
            let start = next.fetch_add(CHUNK, Ordering::Relaxed);
            if start >= tasks.len() {
                return Ok(found);
            }
            for number in start..tasks.len().min(start + CHUNK) {
                control.check()?;
                let one = reader.take(&tasks[number])?;
                if matches!(one, Found::Strange) {
                    next.store(tasks.len(), Ordering::Relaxed);
                }
                found.push((number, one));
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.min(THREADS).min(tasks.len().div_ceil(CHUNK)).max(1);
    let parts = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(worker)).collect();
        let mut parts = vec![worker()];
        parts.extend(others.into_iter().map(|other| other.join().expect("a worker does not panic")));
        parts
    });
    let mut results: Vec<Option<(Item, IndexStat)>> = vec![None; tasks.len()];
    let mut big = Vec::new();
    for part in parts {
        for (number, one) in part? {
            match one {
                Found::Stored(item, stat) => results[number] = Some((item, stat)),
                Found::Big => big.push(number),
                Found::Strange => return Ok(None),
            }
        }
    }
    // One after the other: each has the pack to itself while it is written.
    for number in big {
        let mut reader = Reader::new(root, top.as_fd(), setting.file_mode, store);
        match reader.stream(&tasks[number], control)? {
            Found::Stored(item, stat) => results[number] = Some((item, stat)),
            Found::Big | Found::Strange => return Ok(None),
        }
    }
    Ok(results.into_iter().collect())
}
