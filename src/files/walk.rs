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
    read(&directory, |name, kind| {
        if name == c"." || name == c".." {
            return Ok(());
        }
        let kind = match kind {
            FileType::Unknown => match stat(&directory, name) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(Errno::NOENT) => return Ok(()),
                Err(error) => return Err(error),
            },
            kind => kind,
        };
        found.push(Entry { name: name.to_owned(), kind });
        Ok(())
    })?;
    Ok(found)
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
