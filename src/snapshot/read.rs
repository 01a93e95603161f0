//! Reading one file into the store: while it is read it must not change, and what the index names
//! already is only hashed.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek};
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::convert::{Census, Endings, Strip, has_crlf, stored};
use crate::control::Control;
use crate::files::as_path;
use crate::git::blobs::BlobStore;
use crate::git::index_file::{Entry, IndexStat};
use crate::git::pack::{Kind, Naming, name_of};
use crate::git::quarantine::Store;
use crate::git::tree::{Item, MODE_EXECUTABLE, MODE_FILE, MODE_LINK};
use crate::git::{GitError, Oid, show};

/// How often a file that changes while it is read is read again.
const TRIES: u32 = 4;
/// Files up to this size are read in one piece.
const WHOLE: u64 = 4 * 1024 * 1024;
/// The pieces of larger ones.
const PIECE: usize = 256 * 1024;

/// A file that is to be stored.
#[derive(Clone, Copy)]
pub(super) struct Task<'a> {
    pub(super) path: &'a [u8],
    /// What the index has there.
    pub(super) entry: Option<&'a Entry>,
    pub(super) endings: Endings,
}

impl Task<'_> {
    /// Whether the index names the object already, so that no gc takes it.
    fn is_named(&self, id: Oid) -> bool {
        // For what is only meant to be added there need not be an object.
        self.entry.is_some_and(|entry| entry.id == id && !entry.intent_to_add())
    }
}

/// What became of it.
pub(super) enum Found {
    Stored(Item, IndexStat),
    /// Too big to be held in memory.
    Big,
    /// Nothing that can be stored here, or that can't be read: git knows, or says so.
    Strange,
}

enum Opened {
    File(File, Stat),
    Link(Stat),
    Strange,
}

/// Reads for one thread.
pub(super) struct Reader<'a> {
    root: &'a Path,
    top: BorrowedFd<'a>,
    file_mode: bool,
    blobs: BlobStore,
    buffer: Vec<u8>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(root: &'a Path, top: BorrowedFd<'a>, file_mode: bool, store: &Store) -> Self {
        Self { root, top, file_mode, blobs: store.open(), buffer: Vec::new() }
    }

    fn failed(&self, path: &[u8]) -> impl FnOnce(std::io::Error) -> GitError + use<> {
        GitError::io("cannot read", &self.root.join(as_path(path)))
    }

    fn restless(&self, path: &[u8]) -> GitError {
        let words = format!("{} went on changing while it was read", show(self.root.join(as_path(path))));
        GitError::Program { command: "snapshot".to_owned(), code: None, words }
    }

    fn open(&self, path: &[u8]) -> Result<Opened, GitError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match rustix::fs::openat(self.top, as_path(path), flags, Mode::empty()) {
            Ok(file) => {
                let stat = rustix::fs::fstat(&file).map_err(|e| self.failed(path)(e.into()))?;
                let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
                Ok(if regular { Opened::File(file.into(), stat) } else { Opened::Strange })
            }
            Err(Errno::LOOP) => {
                let found = rustix::fs::statat(self.top, as_path(path), AtFlags::SYMLINK_NOFOLLOW);
                let link = found.ok().filter(|s| FileType::from_raw_mode(s.st_mode) == FileType::Symlink);
                Ok(link.map_or(Opened::Strange, Opened::Link))
            }
            Err(_) => Ok(Opened::Strange),
        }
    }

    /// Whether the file is still what it was when it was opened.
    fn is_same(&self, path: &[u8], file: &File, before: &Stat) -> Result<bool, GitError> {
        let now = rustix::fs::fstat(file).map_err(|e| self.failed(path)(e.into()))?;
        Ok(IndexStat::of(&now) == IndexStat::of(before) && now.st_size == before.st_size)
    }

    fn mode(&self, task: &Task<'_>, stat: &Stat) -> u32 {
        match task.entry {
            Some(entry) if !self.file_mode && entry.mode != MODE_LINK => entry.mode,
            _ if self.file_mode && stat.st_mode & 0o100 != 0 => MODE_EXECUTABLE,
            _ => MODE_FILE,
        }
    }

    /// Reads and stores a file or a link, unless it is big.
    pub(super) fn take(&mut self, task: &Task<'_>) -> Result<Found, GitError> {
        for _ in 0..TRIES {
            let (mut file, before) = match self.open(task.path)? {
                Opened::File(file, stat) => (file, stat),
                Opened::Link(stat) => return self.link(task, &stat),
                Opened::Strange => return Ok(Found::Strange),
            };
            let Some(size) = u64::try_from(before.st_size).ok().filter(|size| *size <= WHOLE) else {
                return Ok(Found::Big);
            };
            self.buffer.resize(usize::try_from(size).unwrap_or(0), 0);
            match file.read_exact(&mut self.buffer) {
                Ok(()) => {}
                // It is shorter now.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => continue,
                Err(error) => return Err(self.failed(task.path)(error)),
            }
            if self.is_same(task.path, &file, &before)? {
                let id = self.store(task)?;
                return Ok(Found::Stored(Item { mode: self.mode(task, &before), id }, IndexStat::of(&before)));
            }
        }
        Err(self.restless(task.path))
    }

    fn link(&self, task: &Task<'_>, stat: &Stat) -> Result<Found, GitError> {
        let Ok(target) = rustix::fs::readlinkat(self.top, as_path(task.path), Vec::new()) else {
            return Ok(Found::Strange);
        };
        let id = self.write(task, target.as_bytes())?;
        Ok(Found::Stored(Item { mode: MODE_LINK, id }, IndexStat::of(stat)))
    }

    /// Stores what the buffer holds.
    fn store(&self, task: &Task<'_>) -> Result<Oid, GitError> {
        let other = stored(&self.buffer, task.endings, || self.index_has_crlf(task));
        self.write(task, other.as_deref().unwrap_or(&self.buffer))
    }

    fn write(&self, task: &Task<'_>, content: &[u8]) -> Result<Oid, GitError> {
        let id = name_of(Kind::Blob, content)?;
        if !task.is_named(id) {
            self.blobs.write_as(id, content)?;
        }
        Ok(id)
    }

    fn index_has_crlf(&self, task: &Task<'_>) -> bool {
        task.entry.and_then(|entry| self.blobs.read(entry.id)).is_some_and(|blob| has_crlf(&blob))
    }

    /// Reads and stores a file of any size piece by piece.
    pub(super) fn stream(&mut self, task: &Task<'_>, control: &Control) -> Result<Found, GitError> {
        for _ in 0..TRIES {
            let (file, before) = match self.open(task.path)? {
                Opened::File(file, stat) => (file, stat),
                Opened::Link(stat) => return self.link(task, &stat),
                Opened::Strange => return Ok(Found::Strange),
            };
            let mut size = u64::try_from(before.st_size).unwrap_or(0);
            let mut pieces = Pieces::new(file, self.root.join(as_path(task.path)));
            if task.endings != Endings::Kept {
                let census = pieces.census(control)?;
                if census.converts(task.endings, || self.index_has_crlf(task)) {
                    size = size.saturating_sub(census.crlf);
                    pieces.strip = Some(Strip::default());
                }
            }
            let mut id = hashed(task, &before, size, &mut pieces, control)?;
            if id.is_none() {
                pieces.rewind()?;
                id = self.blobs.write_stream(size, &mut |out| pieces.read(out), control)?;
            }
            if let Some(id) = id
                && self.is_same(task.path, &pieces.file, &before)?
            {
                return Ok(Found::Stored(Item { mode: self.mode(task, &before), id }, IndexStat::of(&before)));
            }
        }
        Err(self.restless(task.path))
    }
}

/// The object's name if the index has it already; only looked at where that can be.
fn hashed(
    task: &Task<'_>,
    stat: &Stat,
    size: u64,
    pieces: &mut Pieces,
    control: &Control,
) -> Result<Option<Oid>, GitError> {
    let likely = |entry: &Entry| entry.stat.size == 0 || entry.stat.size == IndexStat::of(stat).size;
    if !task.entry.is_some_and(likely) {
        return Ok(None);
    }
    pieces.rewind()?;
    let (mut naming, mut out) = (Naming::new(Kind::Blob, size), vec![0; PIECE]);
    loop {
        control.check()?;
        match pieces.read(&mut out)? {
            0 => break,
            length => naming.update(&out[..length]),
        }
    }
    Ok(Some(naming.finish()?).filter(|id| task.is_named(*id)))
}

/// A big file, with CRLF as LF where that is wanted.
struct Pieces {
    file: File,
    path: std::path::PathBuf,
    strip: Option<Strip>,
    raw: Vec<u8>,
    /// What is stripped and not given out yet.
    ready: Vec<u8>,
}

impl Pieces {
    fn new(file: File, path: std::path::PathBuf) -> Self {
        Self { file, path, strip: None, raw: Vec::new(), ready: Vec::new() }
    }

    fn failed(&self) -> impl FnOnce(std::io::Error) -> GitError + use<> {
        GitError::io("cannot read", &self.path)
    }

    fn rewind(&mut self) -> Result<(), GitError> {
        self.strip = self.strip.as_ref().map(|_| Strip::default());
        self.file.rewind().map_err(self.failed())
    }

    fn census(&mut self, control: &Control) -> Result<Census, GitError> {
        let (mut census, mut piece) = (Census::default(), vec![0; PIECE]);
        loop {
            control.check()?;
            match self.file.read(&mut piece).map_err(self.failed())? {
                0 => return Ok(census.finish()),
                length => census.count(&piece[..length]),
            }
        }
    }

    /// The next bytes; none at the end.
    fn read(&mut self, out: &mut [u8]) -> Result<usize, GitError> {
        let failed = self.failed();
        let Some(strip) = &mut self.strip else { return self.file.read(out).map_err(failed) };
        // A carriage return that was held back comes on top.
        self.raw.resize(out.len().saturating_sub(1), 0);
        let length = loop {
            self.ready.clear();
            let length = match self.file.read(&mut self.raw) {
                Ok(length) => length,
                Err(error) => return Err(failed(error)),
            };
            if length == 0 {
                strip.finish(&mut self.ready);
                break self.ready.len();
            }
            strip.piece(&self.raw[..length], &mut self.ready);
            if !self.ready.is_empty() {
                break self.ready.len();
            }
        };
        out[..length].copy_from_slice(&self.ready);
        Ok(length)
    }
}
