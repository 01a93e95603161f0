//! Small packs, put together before they become many.
//!
//! A job leaves one pack; a patch that is recorded at each step of an agent leaves hundreds, and everybody who
//! looks for an object looks through all of them. So every so often the small ones become one: entries are
//! copied as they stand, and a pack goes only when all of its objects stand in another on the disk. Nothing is
//! judged: what no ref names stays for git's own gc.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha1::{Digest, Sha1};

use super::quarantine::Quarantine;
use super::repository::Repo;
use super::{GitError, Oid};
use crate::control::Control;
use crate::files::lock::{Hold, lock};

/// So many small packs are put together: well below the 50 at which git's `gc.autoPackLimit` wants to.
const MANY: usize = 20;
/// Larger packs stay as they are: to copy them again and again costs more than they do.
const SMALL: u64 = 1024 * 1024;
const HASH: usize = 20;
/// Signature, version and the fan-out of an index.
const FANOUT: usize = 8 + 256 * 4;

/// Puts the small packs of `repo` together where there are many. What prevents it only goes to the log: the
/// repository is as good without.
pub(crate) fn gather(repo: &Repo) {
    if let Err(error) = try_gather(repo) {
        tracing::warn!(%error, "small packs could not be put together");
    }
}

fn try_gather(repo: &Repo) -> Result<(), GitError> {
    let directory = repo.common_dir().join("objects/pack");
    if small(&directory)?.len() < MANY {
        return Ok(());
    }
    // One at a time; whoever comes second need not wait.
    let held = lock(&directory, Hold::Exclusive, Some(Duration::ZERO), &Control::new()).unwrap_or_else(|error| {
        tracing::warn!(%error, "small packs are not put together");
        None
    });
    let Some(_held) = held else { return Ok(()) };
    let quarantine = Quarantine::new(repo)?;
    let mut copied: Vec<(PathBuf, Vec<Entry>)> = Vec::new();
    for index in small(&directory)? {
        // One that is gone or damaged, or holds more than whole objects, is not ours to judge.
        let Some((bytes, entries)) = read(&index) else { continue };
        for entry in &entries {
            quarantine.add_entry(entry.id, &bytes[entry.at.clone()], entry.crc)?;
        }
        copied.push((index, entries));
    }
    if copied.len() < 2 {
        return Ok(());
    }
    quarantine.release()?;
    let found = quarantine.released().into_iter().filter_map(|index| read(&index));
    let safe: HashSet<Oid> = found.flat_map(|(_, entries)| entries).map(|entry| entry.id).collect();
    for (index, entries) in copied {
        if entries.iter().all(|entry| safe.contains(&entry.id)) {
            // Without its index a pack is none: nobody starts to read it.
            for file in [&index, &index.with_extension("pack")] {
                match fs::remove_file(file) {
                    // A gc was faster.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    done => done.map_err(GitError::io("cannot remove", file))?,
                }
            }
        }
    }
    Ok(())
}

/// The indexes of small packs that nothing but an index belongs to: no mark that somebody keeps them, no list of
/// reachable objects. None where git has an index over several packs.
fn small(directory: &Path) -> Result<Vec<PathBuf>, GitError> {
    let failed = || GitError::io("cannot read", directory);
    let mut files = HashSet::new();
    for file in fs::read_dir(directory).map_err(failed())? {
        files.insert(file.map_err(failed())?.path());
    }
    if files.iter().any(|file| file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"multi-pack")))
    {
        return Ok(Vec::new());
    }
    let plain = |index: &Path| {
        let parts = files.iter().filter(|file| file.file_stem() == index.file_stem()).count();
        let pack = index.with_extension("pack");
        parts == 2 && files.contains(&pack) && fs::metadata(&pack).is_ok_and(|meta| meta.len() <= SMALL)
    };
    let indexes = files.iter().filter(|file| file.extension() == Some(OsStr::new("idx")));
    let mut found: Vec<PathBuf> = indexes.filter(|index| plain(index)).cloned().collect();
    found.sort();
    Ok(found)
}

/// Where an object stands in a pack.
struct Entry {
    id: Oid,
    at: std::ops::Range<usize>,
    crc: u32,
}

/// The pack of an index, and what stands in it; `None` unless both are whole and every object stands there by
/// itself (gitformat-pack(5)).
fn read(index: &Path) -> Option<(Vec<u8>, Vec<Entry>)> {
    let (pack, index) = (fs::read(index.with_extension("pack")).ok()?, fs::read(index).ok()?);
    let word = |bytes: &[u8], at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    let count = word(&index, FANOUT - 4)? as usize;
    let (ids, sums) = (FANOUT, FANOUT + count * HASH);
    let (places, end) = (sums + count * 4, sums + count * 8);
    let body = pack.len().checked_sub(HASH)?;
    let whole = index.starts_with(b"\xfftOc\0\0\0\x02")
        && index.len() == end + 2 * HASH
        && pack.starts_with(b"PACK\0\0\0\x02")
        && word(&pack, 8)? as usize == count
        && Sha1::digest(&pack[..body])[..] == pack[body..]
        && index[end..end + HASH] == pack[body..]
        && Sha1::digest(&index[..end + HASH])[..] == index[end + HASH..];
    if !whole {
        return None;
    }
    let mut order: Vec<(usize, usize)> =
        (0..count).map(|n| Some((word(&index, places + n * 4)? as usize, n))).collect::<Option<_>>()?;
    order.sort_unstable();
    let ends = order.iter().skip(1).map(|(start, _)| *start).chain([body]);
    let entries = order.iter().zip(ends).map(|((start, n), end)| {
        let bytes = pack.get(*start..end)?;
        let crc = word(&index, sums + n * 4)?;
        // A commit, a tree or a blob; not the difference to another object.
        let single = matches!(bytes.first()? >> 4 & 7, 1..=3);
        let id = Oid::from_bytes(index.get(ids + n * HASH..ids + (n + 1) * HASH)?).ok()?;
        (single && crc32fast::hash(bytes) == crc).then_some(Entry { id, at: *start..end, crc })
    });
    let entries = entries.collect::<Option<Vec<_>>>()?;
    Some((pack, entries))
}
