//! One pack that several threads write to: entries in the order they come, then trailer and index
//! (gitformat-pack(5), both of version 2).
//!
//! An object that other packs have is written all the same: a gc may be about to drop theirs.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use flate2::{Compress, Compression, FlushCompress, Status};
use sha1::{Digest, Sha1};

use super::loose::{self, BUFFER, copy, damaged};
use super::{GitError, Oid};
use crate::control::Control;

/// What an object is; the number it has in packs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Commit = 1,
    Tree = 2,
    Blob = 3,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Tree => "tree",
            Self::Blob => "blob",
        }
    }

    pub(super) fn of(name: &[u8]) -> Option<Self> {
        [Self::Commit, Self::Tree, Self::Blob].into_iter().find(|kind| kind.name().as_bytes() == name)
    }
}

/// The name of an object as it comes, piece by piece.
pub(crate) struct Naming(Sha1);

impl Naming {
    pub(crate) fn new(kind: Kind, size: u64) -> Self {
        let mut sum = Sha1::new();
        sum.update(format!("{} {size}\0", kind.name()));
        Self(sum)
    }

    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    pub(crate) fn finish(self) -> Result<Oid, GitError> {
        let bytes = self.0.finalize();
        Oid::from_bytes(&bytes).map_err(|_| GitError::Format { what: "a hash of another length".to_owned() })
    }
}

/// The name that `content` has as an object.
pub(crate) fn name_of(kind: Kind, content: &[u8]) -> Result<Oid, GitError> {
    let mut naming = Naming::new(kind, content.len() as u64);
    naming.update(content);
    naming.finish()
}

/// The quickest: git deflates anew whatever it repacks.
const LEVEL: u32 = 1;
/// Streams are written in pieces of about this size.
const PIECE: usize = 256 * 1024;
const HEADER: u64 = 12;

/// Compresses for one thread.
pub(crate) struct Packer {
    deflate: Compress,
    bytes: Vec<u8>,
}

impl Packer {
    pub(crate) fn new() -> Self {
        Self { deflate: Compress::new(Compression::new(LEVEL), true), bytes: Vec::new() }
    }

    /// Compresses `piece` to the end of what is there.
    fn feed(&mut self, mut piece: &[u8], flush: FlushCompress) -> io::Result<()> {
        loop {
            self.bytes.reserve(piece.len() / 2 + 4096);
            let before = self.deflate.total_in();
            let status = self.deflate.compress_vec(piece, &mut self.bytes, flush).map_err(io::Error::other)?;
            let taken = usize::try_from(self.deflate.total_in() - before).unwrap_or(piece.len());
            piece = &piece[taken..];
            let done = match flush {
                FlushCompress::Finish => status == Status::StreamEnd,
                _ => piece.is_empty(),
            };
            if done {
                return Ok(());
            }
        }
    }

    /// Begins an entry of `size` bytes.
    fn begin(&mut self, kind: Kind, size: u64) {
        self.deflate.reset();
        self.bytes.clear();
        let mut left = size >> 4;
        let mut byte = (kind as u8) << 4 | low_bits(size, 0x0f);
        while left > 0 {
            self.bytes.push(byte | 0x80);
            byte = low_bits(left, 0x7f);
            left >>= 7;
        }
        self.bytes.push(byte);
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the mask fits")]
fn low_bits(value: u64, mask: u8) -> u8 {
    value as u8 & mask
}

struct Packed {
    id: Oid,
    at: u64,
    crc: u32,
}

#[derive(Default)]
struct State {
    /// The pack and its name; none before the first entry.
    file: Option<(File, PathBuf)>,
    /// Where the entries end.
    end: u64,
    entries: Vec<Packed>,
    /// Where each object begins.
    known: HashMap<Oid, u64>,
    /// The index beside the pack as it is; none while entries are missing in it.
    index: Option<PathBuf>,
}

/// A pack in the making, in a directory of its own.
pub(crate) struct Pack {
    directory: PathBuf,
    state: Mutex<State>,
}

impl Pack {
    /// A pack in `directory`; there is no file before there is an object.
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self) -> impl FnOnce(io::Error) -> GitError {
        GitError::io("cannot write to", &self.directory)
    }

    /// Whether the object is in the pack.
    pub(crate) fn holds(&self, id: Oid) -> bool {
        self.state().known.contains_key(&id)
    }

    /// Adds an object whose name is known.
    pub(crate) fn add(&self, packer: &mut Packer, kind: Kind, id: Oid, content: &[u8]) -> Result<(), GitError> {
        if self.holds(id) {
            return Ok(());
        }
        packer.begin(kind, content.len() as u64);
        packer.feed(content, FlushCompress::Finish).map_err(self.failed())?;
        let crc = crc32fast::hash(&packer.bytes);
        let mut state = self.state();
        // Another thread may have been faster.
        if state.known.contains_key(&id) {
            return Ok(());
        }
        let written = state.open(&self.directory).and_then(|()| state.append(state.end, &packer.bytes));
        let after = written.map_err(self.failed())?;
        state.note(id, after, crc);
        Ok(())
    }

    /// Adds an object of `size` bytes that is too big for the memory; `None` if `read` gives more or
    /// less. Others wait meanwhile.
    pub(crate) fn add_stream(
        &self,
        packer: &mut Packer,
        kind: Kind,
        size: u64,
        read: &mut dyn FnMut(&mut [u8]) -> Result<usize, GitError>,
        control: &Control,
    ) -> Result<Option<Oid>, GitError> {
        let mut state = self.state();
        state.open(&self.directory).map_err(self.failed())?;
        let (mut at, mut left) = (state.end, size);
        let (mut naming, mut crc) = (Naming::new(kind, size), crc32fast::Hasher::new());
        packer.begin(kind, size);
        let mut piece = vec![0; PIECE];
        loop {
            control.check()?;
            let length = read(&mut piece)?;
            if length as u64 > left || (length == 0 && left > 0) {
                return Ok(None);
            }
            left -= length as u64;
            naming.update(&piece[..length]);
            let flush = if length == 0 { FlushCompress::Finish } else { FlushCompress::None };
            packer.feed(&piece[..length], flush).map_err(self.failed())?;
            if packer.bytes.len() >= PIECE || length == 0 {
                crc.update(&packer.bytes);
                at = state.append(at, &packer.bytes).map_err(self.failed())?;
                packer.bytes.clear();
            }
            if length == 0 {
                break;
            }
        }
        let id = naming.finish()?;
        if !state.known.contains_key(&id) {
            state.note(id, at, crc.finalize());
        }
        Ok(Some(id))
    }

    /// Writes the content of an object of this pack to `out`; `false` for one that it does not have. The
    /// path is that of `out`, for a message.
    pub(crate) fn copy_out(
        &self,
        id: Oid,
        out: &mut dyn Write,
        path: &Path,
        control: &Control,
    ) -> Result<bool, GitError> {
        let (file, mut at) = {
            let state = self.state();
            let Some(at) = state.known.get(&id) else { return Ok(false) };
            let file = state.pack().and_then(File::try_clone).map_err(self.failed())?;
            (file, *at)
        };
        // The size is in the header; the stream knows its end.
        let mut byte = [0x80];
        while byte[0] & 0x80 != 0 {
            file.read_exact_at(&mut byte, at).map_err(self.failed())?;
            at += 1;
        }
        let bytes = io::BufReader::with_capacity(BUFFER, From { file, at });
        copy(&mut flate2::bufread::ZlibDecoder::new(bytes), &self.directory, out, path, control)?;
        Ok(true)
    }

    /// Adds what a loose object's file holds, as it is.
    pub(crate) fn add_loose(
        &self,
        packer: &mut Packer,
        id: Oid,
        file: &Path,
        control: &Control,
    ) -> Result<(), GitError> {
        let (kind, size, mut content) = loose::open(file)?.ok_or_else(|| damaged(file))?;
        let mut read = |piece: &mut [u8]| content.read(piece).map_err(GitError::io("cannot read", file));
        let added = self.add_stream(packer, kind, size, &mut read, control)?;
        if added == Some(id) { Ok(()) } else { Err(damaged(file)) }
    }

    /// Adds an entry of another pack as it stands there.
    pub(super) fn add_entry(&self, id: Oid, bytes: &[u8], crc: u32) -> Result<(), GitError> {
        let mut state = self.state();
        if state.known.contains_key(&id) {
            return Ok(());
        }
        let written = state.open(&self.directory).and_then(|()| state.append(state.end, bytes));
        let after = written.map_err(self.failed())?;
        state.note(id, after, crc);
        Ok(())
    }

    /// Makes the pack readable where it is, for as long as nothing is added; whether it was not before.
    /// Its last word, the checksum, comes with [`Pack::finish`].
    pub(crate) fn seal(&self) -> Result<bool, GitError> {
        let mut state = self.state();
        if state.entries.is_empty() || state.index.is_some() {
            return Ok(false);
        }
        // Whoever opens a pack compares its last bytes with those in the index: any will do.
        let mut sum = Sha1::new();
        sum.update(state.end.to_be_bytes());
        sum.update(state.entries.len().to_be_bytes());
        state.close(&self.directory, sum.finalize().into()).map_err(self.failed())?;
        Ok(true)
    }

    /// Completes and syncs the pack; the pack and its index, or none where there is no object.
    pub(crate) fn finish(&self) -> Result<Option<(PathBuf, PathBuf)>, GitError> {
        let mut state = self.state();
        if state.entries.is_empty() {
            return Ok(None);
        }
        let failed = self.failed();
        let mut finished = || -> io::Result<(PathBuf, PathBuf)> {
            let sum = state.checksum()?;
            state.close(&self.directory, sum)?;
            let (Some((file, pack)), Some(index)) = (&state.file, &state.index) else {
                return Err(io::Error::other("a closed pack has a name"));
            };
            file.sync_all()?;
            File::open(index)?.sync_all()?;
            Ok((pack.clone(), index.clone()))
        };
        let names = finished().map_err(failed)?;
        *state = State::default();
        Ok(Some(names))
    }
}

/// A file from a place on, without its position.
struct From {
    file: File,
    at: u64,
}

impl Read for From {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read_at(out, self.at)?;
        self.at += length as u64;
        Ok(length)
    }
}

impl State {
    /// Makes the file, or takes back what a seal put at its end.
    fn open(&mut self, directory: &Path) -> io::Result<()> {
        if self.file.is_none() {
            let path = directory.join("tmp_isofold.pack");
            let file = File::options().read(true).write(true).create_new(true).open(&path)?;
            self.file = Some((file, path));
            self.end = HEADER;
        }
        match self.index.take() {
            Some(index) => fs::remove_file(index),
            None => Ok(()),
        }
    }

    fn pack(&self) -> io::Result<&File> {
        self.file.as_ref().map(|(file, _)| file).ok_or_else(|| io::Error::other("the pack is not open"))
    }

    /// Writes at `at`; where the next byte goes.
    fn append(&self, at: u64, bytes: &[u8]) -> io::Result<u64> {
        self.pack()?.write_all_at(bytes, at)?;
        Ok(at + bytes.len() as u64)
    }

    fn note(&mut self, id: Oid, after: u64, crc: u32) {
        self.entries.push(Packed { id, at: self.end, crc });
        self.known.insert(id, self.end);
        self.end = after;
    }

    fn header(&self) -> io::Result<()> {
        let count = u32::try_from(self.entries.len()).map_err(io::Error::other)?;
        self.append(0, &[&b"PACK\0\0\0\x02"[..], &count.to_be_bytes()].concat()).map(|_| ())
    }

    /// The checksum of header and entries.
    fn checksum(&self) -> io::Result<[u8; 20]> {
        self.header()?;
        let (mut sum, mut at, mut piece) = (Sha1::new(), 0, vec![0; PIECE]);
        while at < self.end {
            let wanted = usize::try_from(self.end - at).unwrap_or(PIECE).min(PIECE);
            self.pack()?.read_exact_at(&mut piece[..wanted], at)?;
            sum.update(&piece[..wanted]);
            at += wanted as u64;
        }
        Ok(sum.finalize().into())
    }

    /// Header, trailer and index, under a name that nobody has seen yet.
    fn close(&mut self, directory: &Path, trailer: [u8; 20]) -> io::Result<()> {
        self.header()?;
        let end = self.append(self.end, &trailer)?;
        self.pack()?.set_len(end)?;
        let bytes = self.index_bytes(&trailer)?;
        if let Some(old) = self.index.take() {
            fs::remove_file(old)?;
        }
        let name = fresh_name(&trailer);
        let index = directory.join(format!("{name}.idx"));
        let pack = directory.join(format!("{name}.pack"));
        if let Some((_, path)) = &mut self.file {
            fs::rename(&*path, &pack)?;
            *path = pack;
        }
        fs::write(&index, bytes)?;
        self.index = Some(index);
        Ok(())
    }

    fn index_bytes(&mut self, trailer: &[u8; 20]) -> io::Result<Vec<u8>> {
        self.entries.sort_unstable_by(|a, b| a.id.as_bytes().cmp(b.id.as_bytes()));
        let mut bytes = Vec::with_capacity(self.entries.len() * 28 + 1100);
        bytes.extend_from_slice(b"\xfftOc\0\0\0\x02");
        let mut count = 0_u32;
        let mut first_bytes = self.entries.iter().map(|entry| entry.id.as_bytes()[0]).peekable();
        for byte in 0..=255 {
            while first_bytes.next_if_eq(&byte).is_some() {
                count += 1;
            }
            bytes.extend_from_slice(&count.to_be_bytes());
        }
        self.entries.iter().for_each(|entry| bytes.extend_from_slice(entry.id.as_bytes()));
        self.entries.iter().for_each(|entry| bytes.extend_from_slice(&entry.crc.to_be_bytes()));
        let mut far = Vec::new();
        for entry in &self.entries {
            let at = match u32::try_from(entry.at) {
                Ok(at) if at < 1 << 31 => at,
                _ => {
                    far.extend_from_slice(&entry.at.to_be_bytes());
                    (1 << 31) | u32::try_from(far.len() / 8 - 1).map_err(io::Error::other)?
                }
            };
            bytes.extend_from_slice(&at.to_be_bytes());
        }
        bytes.extend_from_slice(&far);
        bytes.extend_from_slice(trailer);
        let sum = Sha1::digest(&bytes);
        bytes.extend_from_slice(&sum);
        Ok(bytes)
    }
}

/// A name that no other pack has, be it of the same objects: theirs can go at any time.
fn fresh_name(trailer: &[u8; 20]) -> String {
    use std::fmt::Write as _;
    let (seconds, nanoseconds) = super::index_file::now();
    let mut sum = Sha1::new();
    sum.update(trailer);
    sum.update(std::process::id().to_be_bytes());
    sum.update(seconds.to_be_bytes());
    sum.update(nanoseconds.to_be_bytes());
    let mut name = "pack-".to_owned();
    for byte in sum.finalize() {
        let _ = write!(name, "{byte:02x}");
    }
    name
}
