//! Storing in process, for repositories in which no attribute and no setting converts content: the
//! bytes on the disk are the blob.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use super::scan::Scanned;
use super::{Setting, Work};
use crate::control::Control;
use crate::files::as_path;
use crate::git::index_file::{Entry, IndexFile, IndexStat, NewEntry};
use crate::git::quarantine::{BlobStore, Store};
use crate::git::tree::{Item, MODE_EXECUTABLE, MODE_FILE, MODE_GITLINK, MODE_LINK};
use crate::git::{GitError, Oid};

/// How often a file that changes while it is read is read again.
const TRIES: u32 = 4;

/// What changed, path by path; `None` where the path is gone.
type Changes = Vec<(Vec<u8>, Option<(Item, IndexStat)>)>;

/// Stores what a scan found and the new paths, if all of it is of the plain kind; `None` leaves it
/// to git.
pub(super) fn changes(
    work: &Work<'_>,
    setting: &Setting,
    before: &Arc<IndexFile>,
    scanned: &Scanned,
    new: &[Vec<u8>],
    store: &Store,
    control: &Control,
) -> Result<Option<(Oid, Arc<IndexFile>)>, GitError> {
    let Some(baseline) = before.cached_tree() else { return Ok(None) };
    let attributes = |path: &[u8]| path.rsplit(|b| *b == b'/').next() == Some(b".gitattributes");
    let converted = !setting.plain
        || new.iter().any(|path| attributes(path))
        || before.entries().iter().any(|entry| attributes(before.path(entry)));
    let stored = scanned.changed.iter().chain(new).map(Vec::as_slice);
    if converted || clashes(before, scanned, new) || attributes_above(&work.place.work_dir, stored) {
        return Ok(None);
    }
    let began = crate::git::index_file::now();
    let blobs = store.open()?;
    let mut changes: Changes = scanned.gone.iter().map(|path| (path.clone(), None)).collect();
    let mut updates = changes.clone();
    for path in scanned.changed.iter().chain(new) {
        control.check()?;
        let entry = before.find(path);
        if entry.is_some_and(|entry| entry.mode == MODE_GITLINK || entry.intent_to_add()) {
            return Ok(None);
        }
        let Some((item, stat)) = take(&work.place.work_dir, path, entry, setting, &blobs, control)? else {
            return Ok(None);
        };
        if entry.is_none_or(|entry| entry.id != item.id || entry.mode != item.mode) {
            // Another content behind the same size and second: whether git sees it hangs on how it
            // was built and configured.
            let unseen = |entry: &Entry| entry.stat.mtime.0 == stat.mtime.0 && entry.stat.size == stat.size;
            if entry.is_some_and(unseen) {
                return Ok(None);
            }
            updates.push((path.clone(), Some((item, stat))));
        }
        changes.push((path.clone(), Some((item, stat))));
    }
    let tree = if updates.is_empty() {
        baseline
    } else {
        let updates: Vec<(&[u8], Option<Item>)> =
            updates.iter().map(|(path, new)| (path.as_slice(), new.map(|(item, _)| item))).collect();
        blobs.updated_tree(baseline, &updates)?
    };
    let index = updated_index(before, &changes, began)?;
    Ok(Some((tree, Arc::new(index))))
}

/// Whether an attributes file that no index knows (an ignored one) holds for any of the paths.
pub(crate) fn attributes_above<'p>(root: &Path, paths: impl Iterator<Item = &'p [u8]>) -> bool {
    let mut directories = BTreeSet::new();
    for path in paths {
        for above in as_path(path).ancestors().skip(1) {
            if !directories.insert(above.to_owned()) {
                break;
            }
        }
    }
    directories.iter().any(|directory| std::fs::symlink_metadata(root.join(directory).join(".gitattributes")).is_ok())
}

/// Whether a path is a file before and a directory after, or the other way round: git sorts that out.
fn clashes(before: &IndexFile, scanned: &Scanned, new: &[Vec<u8>]) -> bool {
    let gone: BTreeSet<&[u8]> = scanned.gone.iter().map(Vec::as_slice).collect();
    if gone.is_empty() {
        return false;
    }
    new.iter().any(|path| {
        let above = as_path(path).ancestors().skip(1).map(|a| a.as_os_str().as_bytes());
        above.filter(|a| !a.is_empty()).any(|a| gone.contains(a)) || before.has_below(path)
    }) || scanned.changed.iter().any(|path| before.has_below(path))
}

/// Reads one file or link into the store; `None` where something else stands there.
fn take(
    root: &Path,
    path: &[u8],
    entry: Option<&Entry>,
    setting: &Setting,
    blobs: &BlobStore,
    control: &Control,
) -> Result<Option<(Item, IndexStat)>, GitError> {
    let full = root.join(as_path(path));
    let failed = |error: io::Error| GitError::io("cannot read", &full)(error);
    let look = || rustix::fs::lstat(&full).map_err(|e| failed(e.into()));
    for _ in 0..TRIES {
        let Ok(before) = look() else { return Ok(None) };
        let kind = rustix::fs::FileType::from_raw_mode(before.st_mode);
        let item = match kind {
            rustix::fs::FileType::Symlink => {
                let Ok(target) = std::fs::read_link(&full) else { return Ok(None) };
                Item { mode: MODE_LINK, id: blobs.write(target.as_os_str().as_bytes())? }
            }
            rustix::fs::FileType::RegularFile => {
                let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits().cast_signed();
                // What can't be read may not have to be: git knows, or says so.
                let Ok(file) = File::options().read(true).custom_flags(flags).open(&full) else { return Ok(None) };
                let size = u64::try_from(before.st_size).unwrap_or(0);
                // A file that shrinks or grows meanwhile is read again.
                let Some(id) = blobs.write_file(file, size, control).map_err(|e| e.reading(&full))? else { continue };
                let executable = before.st_mode & 0o100 != 0;
                let mode = match entry {
                    Some(entry) if !setting.file_mode && entry.mode != MODE_LINK => entry.mode,
                    _ if setting.file_mode && executable => MODE_EXECUTABLE,
                    _ => MODE_FILE,
                };
                Item { mode, id }
            }
            _ => return Ok(None),
        };
        let after = look()?;
        let (before, after) = (IndexStat::of(&before), IndexStat::of(&after));
        if before == after {
            return Ok(Some((item, after)));
        }
    }
    let words = format!("{} went on changing while it was read", crate::git::show(&full));
    Err(GitError::Program { command: "snapshot".to_owned(), code: None, words })
}

/// The index with the changes, as if git had written it when the reading began.
fn updated_index(before: &IndexFile, changes: &Changes, began: (i64, i64)) -> Result<IndexFile, GitError> {
    let replaced: BTreeSet<&[u8]> = changes.iter().map(|(path, _)| path.as_slice()).collect();
    let mut entries = Vec::with_capacity(before.entries().len() + changes.len());
    for entry in before.entries() {
        let path = before.path(entry);
        if !replaced.contains(path) {
            let mut kept = NewEntry::of(before, entry);
            if before.racy(entry) {
                kept.stat = IndexStat::default();
            }
            entries.push(kept);
        }
    }
    for (path, new) in changes {
        if let Some((item, stat)) = new {
            let old = before.find(path);
            entries.push(NewEntry {
                path: path.clone(),
                mode: item.mode,
                id: item.id,
                stat: *stat,
                assume_valid: old.is_some_and(Entry::assume_valid),
                skip_worktree: old.is_some_and(Entry::skip_worktree),
                intent_to_add: false,
            });
        }
    }
    before.rewritten(entries, began)
}
