//! The index file, read and written to the byte.
//!
//! Isolate patches stat data into a copy of the Parent's index; fold writes a new one. Both need
//! what the library hides: offsets, flags and extensions as they stand in the file. Format:
//! gitformat-index(5), versions 2 to 4.

mod write;

use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::FileType;

use super::cache_tree::CacheTree;
use super::tree::{MODE_EXECUTABLE, MODE_LINK};
use super::{GitError, Oid};

pub(crate) use write::{NewEntry, now};

pub(crate) const ASSUME_VALID: u16 = 0x8000;
const EXTENDED: u16 = 0x4000;
const STAGE: u16 = 0x3000;
const NAME_LENGTH: u16 = 0x0fff;
pub(crate) const SKIP_WORKTREE: u16 = 0x4000;
pub(crate) const INTENT_TO_ADD: u16 = 0x2000;
/// Bytes of an entry before its flags: stat data, mode, id.
const FIXED: usize = 60;
const HASH: usize = 20;

/// The id of a blob without content.
fn is_empty_blob(id: Oid) -> bool {
    const EMPTY: [u8; HASH] = [
        0xe6, 0x9d, 0xe2, 0x9b, 0xb2, 0xd1, 0xd6, 0x43, 0x4b, 0x8b, 0x29, 0xae, 0x77, 0x5a, 0xd8, 0xc2, 0xe4, 0x8c,
        0x53, 0x91,
    ];
    id.as_bytes() == EMPTY
}

/// Stat data as the index keeps it: every field cut to 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct IndexStat {
    pub(crate) ctime: (u32, u32),
    pub(crate) mtime: (u32, u32),
    pub(crate) dev: u32,
    pub(crate) ino: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) size: u32,
}

impl IndexStat {
    /// From a stat of the system. Fields are cut to 32 bits, as git does.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(crate) fn of(stat: &rustix::fs::Stat) -> Self {
        Self {
            ctime: (stat.st_ctime as u32, stat.st_ctime_nsec as u32),
            mtime: (stat.st_mtime as u32, stat.st_mtime_nsec as u32),
            dev: stat.st_dev as u32,
            ino: stat.st_ino as u32,
            uid: stat.st_uid,
            gid: stat.st_gid,
            // A size that is a multiple of 4 GiB must not read as "never compared".
            size: match stat.st_size as u32 {
                0 if stat.st_size > 0 => 0x8000_0000,
                size => size,
            },
        }
    }

    /// Whether a file with stat data `now` is the one this was taken from. Nanoseconds that were
    /// never stored don't count, nor does the device, which changes when a file system is mounted.
    pub(crate) fn same_file(&self, now: &Self) -> bool {
        let nanoseconds = |a: u32, b: u32| a == 0 || a == b;
        self.mtime.0 == now.mtime.0
            && nanoseconds(self.mtime.1, now.mtime.1)
            && self.ctime.0 == now.ctime.0
            && nanoseconds(self.ctime.1, now.ctime.1)
            && self.ino == now.ino
            && self.uid == now.uid
            && self.gid == now.gid
            && self.size == now.size
    }
}

/// One entry. The path stands in [`IndexFile::path`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) stat: IndexStat,
    pub(crate) mode: u32,
    pub(crate) id: Oid,
    flags: u16,
    extended: u16,
    // Where the path stands in the names, and the entry in the file: an index of 4 GiB is refused.
    name: (u32, u32),
    at: u32,
}

impl Entry {
    pub(crate) fn stage(&self) -> u16 {
        (self.flags & STAGE) >> 12
    }

    pub(crate) fn skip_worktree(&self) -> bool {
        self.extended & SKIP_WORKTREE != 0
    }

    pub(crate) fn assume_valid(&self) -> bool {
        self.flags & ASSUME_VALID != 0
    }

    pub(crate) fn intent_to_add(&self) -> bool {
        self.extended & INTENT_TO_ADD != 0
    }

    /// Whether git does not look at the file of this entry.
    pub(crate) fn flagged(&self) -> bool {
        self.skip_worktree() || self.assume_valid()
    }
}

/// An index file in memory.
#[derive(Debug)]
pub(crate) struct IndexFile {
    bytes: Arc<Vec<u8>>,
    /// What names stand in: before version 4 the bytes themselves.
    names: Arc<Vec<u8>>,
    /// Names that came later; they go on where `names` end.
    more: Vec<u8>,
    entries: Vec<Entry>,
    /// Where the entries end.
    end: usize,
    /// Extensions worth keeping when only stat data changes: name, range of the body.
    kept: Vec<([u8; 4], (usize, usize))>,
    checksum: bool,
    /// Modification time of the file, seconds and nanoseconds.
    mtime: (i64, i64),
}

impl IndexFile {
    /// Reads `path`; an index without entries where there is no such file.
    pub(crate) fn read(path: &Path) -> Result<Self, GitError> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::empty()),
            Err(error) => return Err(GitError::io("cannot read", path)(error)),
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(GitError::io("cannot read", path))?;
        let meta = file.metadata().map_err(GitError::io("cannot read", path))?;
        Self::parse(bytes, (meta.mtime(), meta.mtime_nsec()))
    }

    fn empty() -> Self {
        Self {
            bytes: Arc::new([*b"DIRC", 2_u32.to_be_bytes(), 0_u32.to_be_bytes()].concat()),
            names: Arc::default(),
            more: Vec::new(),
            entries: Vec::new(),
            end: 12,
            kept: Vec::new(),
            checksum: true,
            mtime: (0, 0),
        }
    }

    fn parse(bytes: Vec<u8>, mtime: (i64, i64)) -> Result<Self, GitError> {
        let corrupt = || GitError::Format { what: "a damaged index file".to_owned() };
        if bytes.len() < 12 + HASH || &bytes[..4] != b"DIRC" {
            return Err(corrupt());
        }
        if u32::try_from(bytes.len()).is_err() {
            return Err(GitError::Format { what: "an index of over 4 GiB".to_owned() });
        }
        let version = word(&bytes, 4);
        if !(2..=4).contains(&version) {
            return Err(GitError::Format { what: format!("an index of version {version}") });
        }
        let count = word(&bytes, 8) as usize;
        let limit = bytes.len() - HASH;
        let mut names: Vec<u8> = Vec::new();
        let mut entries = Vec::with_capacity(count.min(bytes.len() / FIXED));
        let mut at = 12;
        for _ in 0..count {
            if at + FIXED + 2 > limit {
                return Err(corrupt());
            }
            let flags = half(&bytes, at + FIXED);
            let mut name_at = at + FIXED + 2;
            let mut extended = 0;
            if flags & EXTENDED != 0 {
                extended = half(&bytes, name_at);
                name_at += 2;
            }
            let mut start = names.len();
            if version == 4 {
                let (value, after) = prefix_length(&bytes[..limit], name_at).ok_or_else(corrupt)?;
                let strip = value;
                name_at = after;
                let previous = entries.last().map_or((0, 0), |e: &Entry| e.name);
                let previous = (previous.0 as usize, previous.1 as usize);
                if strip > previous.1 - previous.0 {
                    return Err(corrupt());
                }
                names.extend_from_within(previous.0..previous.1 - strip);
            }
            let length = bytes.get(name_at..limit).and_then(|rest| memchr::memchr(0, rest)).ok_or_else(corrupt)?;
            let mut stop = name_at + length;
            if version == 4 {
                names.extend_from_slice(&bytes[name_at..stop]);
                stop = names.len();
            } else {
                start = name_at;
            }
            let id = Oid::from_bytes(&bytes[at + 40..at + FIXED]).map_err(|_| corrupt())?;
            entries.push(Entry {
                stat: IndexStat {
                    ctime: (word(&bytes, at), word(&bytes, at + 4)),
                    mtime: (word(&bytes, at + 8), word(&bytes, at + 12)),
                    dev: word(&bytes, at + 16),
                    ino: word(&bytes, at + 20),
                    uid: word(&bytes, at + 28),
                    gid: word(&bytes, at + 32),
                    size: word(&bytes, at + 36),
                },
                mode: word(&bytes, at + 24),
                id,
                flags,
                extended,
                name: (position(start)?, position(stop)?),
                at: position(at)?,
            });
            let end = name_at + length + 1;
            // Before version 4 entries are padded to a multiple of eight with at least one NUL.
            at = if version == 4 { end } else { at + (end - 1 - at + 8) / 8 * 8 };
        }
        let end = at;
        let mut kept = Vec::new();
        while at < limit {
            if at + 8 > limit {
                return Err(corrupt());
            }
            let name = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
            let body = (at + 8, at + 8 + word(&bytes, at + 4) as usize);
            if body.1 > limit {
                return Err(corrupt());
            }
            match &name {
                b"link" => {
                    return Err(GitError::Format {
                        what: "a split index (git update-index --no-split-index)".to_owned(),
                    });
                }
                b"sdir" => {
                    return Err(GitError::Format {
                        what: "a sparse index (git sparse-checkout init --no-sparse-index)".to_owned(),
                    });
                }
                b"TREE" | b"REUC" => kept.push((name, body)),
                // The others describe this file or this work tree: fsmonitor, untracked cache, offsets.
                _ if name[0].is_ascii_uppercase() => {}
                _ => {
                    let name = String::from_utf8_lossy(&name).into_owned();
                    return Err(GitError::Format { what: format!("the index extension {name:?}") });
                }
            }
            at = body.1;
        }
        let checksum = bytes[limit..].iter().any(|b| *b != 0);
        let bytes = Arc::new(bytes);
        let names = if version == 4 { Arc::new(names) } else { bytes.clone() };
        Ok(Self { bytes, names, more: Vec::new(), entries, end, kept, checksum, mtime })
    }

    /// Writes the file's own bytes to `path`, with the time of the original; nothing for an index
    /// that is not there.
    pub(crate) fn write_copy(&self, path: &Path) -> Result<(), GitError> {
        if self.mtime == (0, 0) {
            return Ok(());
        }
        let nanoseconds = u32::try_from(self.mtime.1).unwrap_or(0);
        let since = std::time::Duration::new(u64::try_from(self.mtime.0).unwrap_or(0), nanoseconds);
        let written = || -> std::io::Result<()> {
            let mut file = File::create(path)?;
            file.write_all(&self.bytes)?;
            file.set_modified(std::time::UNIX_EPOCH + since)
        };
        written().map_err(GitError::io("cannot write", path))
    }

    /// The trees that the index knows of its directories.
    pub(crate) fn cache_tree(&self) -> Option<CacheTree<'_>> {
        let (_, body) = self.kept.iter().find(|(name, _)| name == b"TREE")?;
        CacheTree::parse(&self.bytes[body.0..body.1])
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The path of an entry of this index.
    pub(crate) fn path(&self, entry: &Entry) -> &[u8] {
        let (start, end) = (entry.name.0 as usize, entry.name.1 as usize);
        match start.checked_sub(self.names.len()) {
            None => &self.names[start..end],
            Some(start) => &self.more[start..end - self.names.len()],
        }
    }

    /// Whether an entry was last written in the second the index was, or later: its stat data then
    /// proves nothing.
    pub(crate) fn racy(&self, entry: &Entry) -> bool {
        i64::from(entry.stat.mtime.0) >= self.mtime.0
    }

    /// Whether stat data alone proves that a file is what its entry says; `file_mode`: whether the
    /// executable bit counts.
    pub(crate) fn proves(&self, entry: &Entry, now: &rustix::fs::Stat, file_mode: bool) -> bool {
        let kind = FileType::from_raw_mode(now.st_mode);
        let executable = now.st_mode & 0o100 != 0;
        let same_kind = match entry.mode {
            MODE_LINK => kind == FileType::Symlink,
            mode => kind == FileType::RegularFile && (!file_mode || executable == (mode == MODE_EXECUTABLE)),
        };
        same_kind
            && !entry.intent_to_add()
            && !self.racy(entry)
            // git writes size 0 for a file that it could not be sure of.
            && (entry.stat.size != 0 || is_empty_blob(entry.id))
            && entry.stat.same_file(&IndexStat::of(now))
    }

    /// The position of `path` at stage 0, else of its first other stage.
    pub(crate) fn position(&self, path: &[u8]) -> Option<usize> {
        self.position_within(path, &(0..usize::MAX))
    }

    /// The same, where the entry can only be among those `within`.
    pub(crate) fn position_within(&self, path: &[u8], within: &Range<usize>) -> Option<usize> {
        let (start, entries) = self.part(within);
        let at = entries.partition_point(|e| self.path(e) < path);
        entries.get(at).filter(|e| self.path(e) == path).map(|_| start + at)
    }

    fn part(&self, within: &Range<usize>) -> (usize, &[Entry]) {
        let end = within.end.min(self.entries.len());
        let start = within.start.min(end);
        (start, &self.entries[start..end])
    }

    pub(crate) fn find(&self, path: &[u8]) -> Option<&Entry> {
        self.position(path).map(|at| &self.entries[at])
    }

    /// The entries below the directory `path`.
    pub(crate) fn below(&self, path: &[u8]) -> &[Entry] {
        &self.entries[self.below_within(path, &(0..usize::MAX))]
    }

    /// Where the entries below the directory `path` are, which can only be among those `within`.
    pub(crate) fn below_within(&self, path: &[u8], within: &Range<usize>) -> Range<usize> {
        let mut prefix = path.to_vec();
        prefix.push(b'/');
        let (offset, entries) = self.part(within);
        let start = entries.partition_point(|e| self.path(e) < prefix.as_slice());
        let count = entries[start..].partition_point(|e| self.path(e).starts_with(&prefix));
        offset + start..offset + start + count
    }

    /// Whether any entry lies below the directory `path`.
    pub(crate) fn has_below(&self, path: &[u8]) -> bool {
        !self.below(path).is_empty()
    }

    /// Paths with unmerged entries.
    pub(crate) fn unmerged(&self) -> Vec<Vec<u8>> {
        let mut paths: Vec<Vec<u8>> =
            self.entries.iter().filter(|e| e.stage() != 0).map(|e| self.path(e).to_vec()).collect();
        paths.dedup();
        paths
    }
}

/// A place in an index or in its names; version 4 can have more of these than bytes.
fn position(at: usize) -> Result<u32, GitError> {
    u32::try_from(at).map_err(|_| GitError::Format { what: "an index with over 4 GiB of names".to_owned() })
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The variable-width number of version 4, and where it ends.
fn prefix_length(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *bytes.get(at)?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        at += 1;
        byte = *bytes.get(at)?;
        value = value.checked_add(1)?.checked_shl(7)? | usize::from(byte & 0x7f);
    }
    Some((value, at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_is_cut_to_nothing_reads_as_something() {
        let file = tempfile::tempfile().expect("a file");
        for (length, size) in [(0, 0), (5, 5), (1 << 32, 0x8000_0000), ((1 << 32) + 5, 5)] {
            file.set_len(length).expect("a sparse file");
            assert_eq!(IndexStat::of(&rustix::fs::fstat(&file).expect("a stat")).size, size, "{length}");
        }
    }
}
