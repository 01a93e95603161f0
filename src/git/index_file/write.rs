//! Writing an index: its own bytes with other stat data, or all of it anew.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use sha1::{Digest, Sha1};

use super::{
    ASSUME_VALID, EXTENDED, Entry, FIXED, HASH, INTENT_TO_ADD, IndexFile, IndexStat, NAME_LENGTH, SKIP_WORKTREE,
};
use crate::git::tree::Item;
use crate::git::{GitError, Oid};

/// A path that changes: what it is afterwards, nothing where it is gone.
pub(crate) type Change<'p> = (&'p [u8], Option<(Item, IndexStat)>);

/// An entry of an index that is to be written, at stage 0.
#[derive(Debug, Clone)]
pub(crate) struct NewEntry<'p> {
    pub(crate) path: &'p [u8],
    pub(crate) mode: u32,
    pub(crate) id: Oid,
    pub(crate) stat: IndexStat,
    pub(crate) assume_valid: bool,
    pub(crate) skip_worktree: bool,
    pub(crate) intent_to_add: bool,
}

impl<'p> NewEntry<'p> {
    /// An entry without flags, and without stat data: git has to look at the file.
    pub(crate) fn bare(path: &'p [u8], item: Item) -> Self {
        Self {
            path,
            mode: item.mode,
            id: item.id,
            stat: IndexStat::default(),
            assume_valid: false,
            skip_worktree: false,
            intent_to_add: false,
        }
    }
}

/// The time now, in seconds and nanoseconds.
pub(crate) fn now() -> (i64, i64) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    (i64::try_from(now.as_secs()).unwrap_or(i64::MAX), i64::from(now.subsec_nanos()))
}

impl IndexFile {
    /// The file's bytes with other stat data: what `stats` says by position, zeros (git compares
    /// the content then) where it says nothing. Entries that are never compared keep theirs.
    pub(crate) fn with_stats(&self, stats: &[Option<IndexStat>]) -> Vec<u8> {
        let mut bytes = self.bytes[..self.end].to_vec();
        for (entry, stat) in self.entries.iter().zip(stats) {
            let stat = stat.unwrap_or_default();
            let at = entry.at as usize;
            let fields = [stat.ctime.0, stat.ctime.1, stat.mtime.0, stat.mtime.1, stat.dev, stat.ino];
            for (n, field) in fields.into_iter().enumerate() {
                bytes[at + 4 * n..at + 4 * n + 4].copy_from_slice(&field.to_be_bytes());
            }
            for (n, field) in [stat.uid, stat.gid, stat.size].into_iter().enumerate() {
                bytes[at + 28 + 4 * n..at + 32 + 4 * n].copy_from_slice(&field.to_be_bytes());
            }
        }
        for (name, body) in &self.kept {
            bytes.extend_from_slice(name);
            bytes.extend_from_slice(&u32::try_from(body.1 - body.0).unwrap_or(0).to_be_bytes());
            bytes.extend_from_slice(&self.bytes[body.0..body.1]);
        }
        self.finish(bytes)
    }

    /// Becomes the index that [`Self::with_stats`] gives, and is written to `path`.
    pub(crate) fn write_with_stats(mut self, stats: &[Option<IndexStat>], path: &Path) -> Result<Self, GitError> {
        let apart = !Arc::ptr_eq(&self.bytes, &self.names);
        self.bytes = Arc::new(self.with_stats(stats));
        if !apart {
            // They stand where they stood.
            self.names = self.bytes.clone();
        }
        for (entry, stat) in self.entries.iter_mut().zip(stats) {
            entry.stat = stat.unwrap_or_default();
        }
        let mut at = self.end;
        for (_, body) in &mut self.kept {
            let length = body.1 - body.0;
            *body = (at + 8, at + 8 + length);
            at = body.1;
        }
        let written = || -> std::io::Result<(i64, i64)> {
            let mut file = File::create(path)?;
            file.write_all(&self.bytes)?;
            let meta = file.metadata()?;
            Ok((meta.mtime(), meta.mtime_nsec()))
        };
        self.mtime = written().map_err(GitError::io("cannot write", path))?;
        Ok(self)
    }

    /// The bytes of an index with these entries (in any order), with the checksum habit of this one.
    pub(crate) fn with_entries(&self, mut entries: Vec<NewEntry<'_>>) -> Vec<u8> {
        entries.sort_by_key(|entry| entry.path);
        let extended = |entry: &NewEntry| entry.skip_worktree || entry.intent_to_add;
        let version: u32 = if entries.iter().any(extended) { 3 } else { 2 };
        let length: usize = entries.iter().map(|entry| entry.path.len() + FIXED + 12).sum();
        let mut bytes = Vec::with_capacity(length + 12 + HASH);
        bytes.extend_from_slice(b"DIRC");
        bytes.extend_from_slice(&version.to_be_bytes());
        bytes.extend_from_slice(&u32::try_from(entries.len()).unwrap_or(u32::MAX).to_be_bytes());
        for entry in &entries {
            let start = bytes.len();
            let s = &entry.stat;
            let fields = [s.ctime.0, s.ctime.1, s.mtime.0, s.mtime.1, s.dev, s.ino, entry.mode, s.uid, s.gid, s.size];
            for field in fields {
                bytes.extend_from_slice(&field.to_be_bytes());
            }
            bytes.extend_from_slice(entry.id.as_bytes());
            let mut flags = u16::try_from(entry.path.len()).unwrap_or(NAME_LENGTH).min(NAME_LENGTH);
            if entry.assume_valid {
                flags |= ASSUME_VALID;
            }
            if extended(entry) {
                flags |= EXTENDED;
            }
            bytes.extend_from_slice(&flags.to_be_bytes());
            if extended(entry) {
                let skip = if entry.skip_worktree { SKIP_WORKTREE } else { 0 };
                let intent = if entry.intent_to_add { INTENT_TO_ADD } else { 0 };
                bytes.extend_from_slice(&(skip | intent).to_be_bytes());
            }
            bytes.extend_from_slice(entry.path);
            let padded = start + (bytes.len() - start + 8) / 8 * 8;
            bytes.resize(padded, 0);
        }
        self.finish(bytes)
    }

    /// This index in memory with some paths changed (sorted), or gone where `None`, as if its file had
    /// been written at `mtime`. Flags of entries stay; stat data that proved nothing is dropped.
    pub(crate) fn updated(&self, changes: &[Change<'_>], mtime: (i64, i64)) -> Result<Self, GitError> {
        // The names are shared; entries only point to them.
        let mut more = self.more.clone();
        let mut entries = Vec::with_capacity(self.entries.len() + changes.len());
        let mut known = self.entries.iter().peekable();
        let kept = |entry: &Entry| {
            let stat = if self.racy(entry) { IndexStat::default() } else { entry.stat };
            Entry { stat, ..*entry }
        };
        for (path, change) in changes {
            while let Some(entry) = known.next_if(|entry| self.path(entry) < *path) {
                entries.push(kept(entry));
            }
            let old = known.next_if(|entry| self.path(entry) == *path);
            if let Some((item, stat)) = change {
                let flags = old.map_or(0, |old| old.flags & ASSUME_VALID);
                let extended = old.map_or(0, |old| old.extended & SKIP_WORKTREE);
                let name = if let Some(old) = old {
                    old.name
                } else {
                    let start = self.names.len() + more.len();
                    more.extend_from_slice(path);
                    (super::position(start)?, super::position(start + path.len())?)
                };
                entries.push(Entry { stat: *stat, mode: item.mode, id: item.id, flags, extended, name, at: 0 });
            }
        }
        entries.extend(known.map(kept));
        let names = self.names.clone();
        Ok(Self {
            bytes: Arc::default(),
            names,
            more,
            entries,
            end: 0,
            kept: Vec::new(),
            checksum: self.checksum,
            mtime,
        })
    }

    fn finish(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        let sum = if self.checksum { Sha1::digest(&bytes).to_vec() } else { vec![0; HASH] };
        bytes.extend_from_slice(&sum);
        bytes
    }
}
