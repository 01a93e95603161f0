//! Files beneath a directory, by relative paths that never lead through a symbolic link: whoever
//! swaps a directory for a link while we work is told apart, not followed.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use crate::files::as_path;
use crate::git::Oid;
use crate::git::tree::{hash_blob, hash_open};

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory that is held open, whatever becomes of its name.
#[derive(Debug)]
pub(crate) struct Beneath {
    root: OwnedFd,
    path: PathBuf,
}

/// One name in a directory that is held open.
pub(crate) struct Slot<'a> {
    directory: OwnedFd,
    name: &'a OsStr,
}

impl Beneath {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let root = rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { root, path: path.to_owned() })
    }

    /// The directory's own path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The full path of an entry, for messages.
    pub(crate) fn full(&self, path: &[u8]) -> PathBuf {
        self.path.join(as_path(path))
    }

    /// Where `path` stands, or would; `NOTDIR` or `NOENT` where a directory above it is none or a link.
    pub(crate) fn slot<'a>(&self, path: &'a [u8]) -> Result<Slot<'a>, Errno> {
        let (above, name) = match path.iter().rposition(|b| *b == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&path[..0], path),
        };
        Ok(Slot { directory: self.directory(above)?, name: OsStr::from_bytes(name) })
    }

    /// Opens a directory, through no link.
    fn directory(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        at_once(&self.root, path).unwrap_or_else(|| self.step_by_step(path))
    }

    fn step_by_step(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        let mut directory = rustix::io::fcntl_dupfd_cloexec(&self.root, 0)?;
        for part in path.split(|b| *b == b'/').filter(|part| !part.is_empty()) {
            if part == b".." {
                return Err(Errno::INVAL);
            }
            let next = rustix::fs::openat(&directory, OsStr::from_bytes(part), DIRECTORY, Mode::empty());
            directory = next.map_err(|error| if error == Errno::LOOP { Errno::NOTDIR } else { error })?;
        }
        Ok(directory)
    }

    /// The stat of what stands at `path` itself; `None` where nothing does.
    pub(crate) fn stat(&self, path: &[u8]) -> Result<Option<Stat>, Errno> {
        match self.slot(path).and_then(|slot| slot.stat()) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The blob id of the bytes at `path`, of the target of a link; `None` where nothing stands there
    /// or it is neither file nor link.
    pub(crate) fn hash(&self, path: &[u8]) -> io::Result<Option<Oid>> {
        match self.slot(path).map_err(io::Error::from).and_then(|slot| slot.hash()) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            other => other,
        }
    }

    /// Removes the directory `path` if it is empty; whether it is gone.
    pub(crate) fn remove_directory(&self, path: &[u8]) -> Result<bool, Errno> {
        let slot = match self.slot(path) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(true),
            other => other?,
        };
        match rustix::fs::unlinkat(&slot.directory, slot.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            // A mount point stays as well.
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR | Errno::BUSY) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes a directory; one that is there already is fine.
    pub(crate) fn make_directory(&self, path: &[u8], mode: u32) -> Result<(), Errno> {
        let slot = self.slot(path)?;
        match rustix::fs::mkdirat(&slot.directory, slot.name, Mode::from_bits_truncate(mode)) {
            Err(Errno::EXIST) if is_directory(&slot.stat()?) => Ok(()),
            other => other,
        }
    }

    /// Removes a file or a link.
    pub(crate) fn remove_file(&self, path: &[u8]) -> Result<(), Errno> {
        let slot = self.slot(path)?;
        rustix::fs::unlinkat(&slot.directory, slot.name, AtFlags::empty())
    }

    /// Sets the times of a directory.
    pub(crate) fn set_times(&self, path: &[u8], times: &rustix::fs::Timestamps) -> Result<(), Errno> {
        let slot = self.slot(path)?;
        rustix::fs::utimensat(&slot.directory, slot.name, times, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// Names of what the directory `path` holds, with whether each is a directory.
    pub(crate) fn entries(&self, path: &[u8]) -> Result<Vec<(Vec<u8>, bool)>, Errno> {
        let slot = self.slot(path)?;
        let directory = rustix::fs::openat(&slot.directory, slot.name, DIRECTORY, Mode::empty())?;
        let mut entries = Vec::new();
        for entry in rustix::fs::Dir::new(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                let inner = crate::files::join(path, name);
                let known = match entry.file_type() {
                    FileType::Unknown => self.stat(&inner)?.is_some_and(|stat| is_directory(&stat)),
                    kind => kind == FileType::Directory,
                };
                entries.push((inner, known));
            }
        }
        Ok(entries)
    }
}

/// The same in one system call, openat2(2); `None` where the system has none, or a sandbox forbids it.
#[cfg(target_os = "linux")]
fn at_once(root: &OwnedFd, path: &[u8]) -> Option<Result<OwnedFd, Errno>> {
    use rustix::fs::ResolveFlags;
    let path = if path.is_empty() { &b"."[..] } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match rustix::fs::openat2(root, OsStr::from_bytes(path), DIRECTORY, Mode::empty(), resolve) {
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => None,
        Err(Errno::LOOP) => Some(Err(Errno::NOTDIR)),
        Err(Errno::XDEV) => Some(Err(Errno::INVAL)),
        other => Some(other),
    }
}

#[cfg(not(target_os = "linux"))]
fn at_once(_root: &OwnedFd, _path: &[u8]) -> Option<Result<OwnedFd, Errno>> {
    None
}

impl Slot<'_> {
    pub(crate) fn stat(&self) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// The blob id of a file's bytes, of a link's target; `None` for anything else.
    fn hash(&self) -> io::Result<Option<Oid>> {
        match FileType::from_raw_mode(self.stat()?.st_mode) {
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(&self.directory, self.name, Vec::new())?.into_bytes();
                hash_blob(&target).map(Some).map_err(io::Error::other)
            }
            FileType::RegularFile => {
                // Not blocking: a FIFO may have taken the file's place.
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let file = File::from(rustix::fs::openat(&self.directory, self.name, flags, Mode::empty())?);
                if !file.metadata()?.is_file() {
                    return Ok(None);
                }
                hash_open(file).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Moves what stands here to `to`, where nothing may stand, never replacing anything.
    pub(crate) fn move_to(&self, to: &Slot<'_>) -> Result<(), Errno> {
        let (from, at) = (self.directory.as_fd(), to.directory.as_fd());
        match rustix::fs::renameat_with(from, self.name, at, to.name, RenameFlags::NOREPLACE) {
            // Where the flag is unknown: a hard link never replaces either.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                rustix::fs::linkat(from, self.name, at, to.name, AtFlags::empty())?;
                rustix::fs::unlinkat(from, self.name, AtFlags::empty())
            }
            other => other,
        }
    }

    /// Lets two files change places. `Ok(false)`: this file system can't.
    pub(crate) fn exchange(&self, other: &Slot<'_>) -> Result<bool, Errno> {
        let (from, at) = (self.directory.as_fd(), other.directory.as_fd());
        match rustix::fs::renameat_with(from, self.name, at, other.name, RenameFlags::EXCHANGE) {
            Ok(()) => Ok(true),
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

pub(crate) fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn both_ways_to_open_a_directory_agree() {
        let place = tempfile::tempdir().expect("a directory");
        let root = place.path().join("root");
        std::fs::create_dir_all(root.join("a/b")).expect("made");
        std::fs::write(root.join("a/file"), "").expect("written");
        symlink("a", root.join("link")).expect("linked");
        symlink("/", root.join("a/out")).expect("linked");
        let beneath = Beneath::open(&root).expect("opened");
        let seen = |opened: Result<OwnedFd, Errno>| {
            opened.map(|directory| File::from(directory).metadata().expect("its stat").ino())
        };
        let paths: [&[u8]; 11] =
            [b"", b"a", b"a/b", b"none", b"a/none/b", b"link", b"link/b", b"a/file", b"a/file/b", b"a/out", b"a/../.."];
        for path in paths {
            let (once, steps) = (seen(beneath.directory(path)), seen(beneath.step_by_step(path)));
            assert_eq!(once, steps, "{}", path.escape_ascii());
            assert_eq!(once.is_ok(), [&b""[..], b"a", b"a/b"].contains(&path), "{}", path.escape_ascii());
        }
    }
}
