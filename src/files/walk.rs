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
    for entry in rustix::fs::Dir::read_from(directory.as_fd())? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => match stat(&directory, name) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error),
            },
            kind => kind,
        };
        found.push(Entry { name: name.to_owned(), kind });
    }
    Ok(found)
}

/// Stat of an entry itself, not of what a link leads to.
pub(crate) fn stat(at: impl AsFd, name: &CStr) -> Result<Stat, Errno> {
    rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)
}
