//! Reading one directory through its descriptor.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// An entry of a directory.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) name: CString,
    pub(crate) kind: FileType,
}

/// Opens a directory below `at`, never through a link.
pub(crate) fn open_directory(at: impl AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

/// All entries but `.` and `..`, in no order.
pub(crate) fn entries(directory: impl AsFd) -> Result<Vec<Entry>, Errno> {
    let mut found = Vec::new();
    each(&directory, |name, kind| found.push(Entry { name: name.to_owned(), kind }))?;
    Ok(found)
}

/// The entries of a directory in the order of their names, in two pieces of memory.
#[derive(Debug)]
pub(crate) struct Listing {
    /// Each with its NUL.
    names: Vec<u8>,
    entries: Vec<(std::ops::Range<usize>, FileType)>,
}

impl Listing {
    /// Reads all but `.` and `..`.
    pub(crate) fn read(directory: impl AsFd) -> Result<Self, Errno> {
        let (mut names, mut entries) = (Vec::new(), Vec::new());
        each(&directory, |name, kind| {
            let start = names.len();
            names.extend_from_slice(name.to_bytes_with_nul());
            entries.push((start..names.len(), kind));
        })?;
        entries.sort_unstable_by(|(a, _), (b, _)| names[a.clone()].cmp(&names[b.clone()]));
        Ok(Self { names, entries })
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn name(&self, at: usize) -> &CStr {
        CStr::from_bytes_with_nul(&self.names[self.entries[at].0.clone()]).unwrap_or_default()
    }

    pub(crate) fn kind(&self, at: usize) -> FileType {
        self.entries[at].1
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<usize> {
        let of = |range: &std::ops::Range<usize>| &self.names[range.start..range.end - 1];
        self.entries.binary_search_by(|(range, _)| of(range).cmp(name)).ok()
    }
}

fn each(directory: &impl AsFd, mut found: impl FnMut(&CStr, FileType)) -> Result<(), Errno> {
    read(directory, |name, kind| {
        if name == c"." || name == c".." {
            return Ok(());
        }
        let kind = match kind {
            FileType::Unknown => match stat(directory, name) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(Errno::NOENT) => return Ok(()),
                Err(error) => return Err(error),
            },
            kind => kind,
        };
        found(name, kind);
        Ok(())
    })
}

/// Two system calls for a directory of usual size.
#[cfg(target_os = "linux")]
fn read(directory: &impl AsFd, mut each: impl FnMut(&CStr, FileType) -> Result<(), Errno>) -> Result<(), Errno> {
    let mut buffer = Vec::with_capacity(32 * 1024);
    let mut raw = rustix::fs::RawDir::new(directory, buffer.spare_capacity_mut());
    while let Some(entry) = raw.next() {
        let entry = entry?;
        each(entry.file_name(), entry.file_type())?;
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn read(directory: &impl AsFd, mut each: impl FnMut(&CStr, FileType) -> Result<(), Errno>) -> Result<(), Errno> {
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        each(entry.file_name(), entry.file_type())?;
    }
    Ok(())
}

/// Stat of an entry itself, not of what a link leads to.
pub(crate) fn stat(at: impl AsFd, name: &CStr) -> Result<Stat, Errno> {
    rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)
}
