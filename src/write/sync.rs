//! Syncing in batches: a few files one by one, many by asking the file system for all of it at once.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::files::FilesError;

/// Up to so many files and directories are synced one by one. More than that, and one sync of the
/// whole file system is cheaper, whatever else it has to write.
const ONE_BY_ONE: usize = 48;

/// Syncs, and adds up how long that takes.
#[derive(Debug, Default)]
pub(crate) struct Syncer {
    spent_us: u64,
}

impl Syncer {
    /// Runs a step that syncs, on the account of this.
    pub(crate) fn timed<T>(&mut self, step: impl FnOnce() -> T) -> T {
        let since = Instant::now();
        let result = step();
        self.spent_us += u64::try_from(since.elapsed().as_micros()).unwrap_or(0);
        result
    }

    /// Milliseconds spent so far.
    pub(crate) fn spent_ms(&self) -> u64 {
        self.spent_us / 1000
    }

    /// Has files and directories on the disk before it returns. Each is on the file system of one of
    /// the `places`. What is gone meanwhile is nobody's to sync.
    pub(crate) fn settle<'a>(
        &mut self,
        paths: &[PathBuf],
        places: impl IntoIterator<Item = &'a Path>,
    ) -> Result<(), FilesError> {
        self.timed(|| {
            if paths.len() <= ONE_BY_ONE {
                return paths.iter().try_for_each(|path| sync(path));
            }
            for place in places {
                let synced = File::open(place).and_then(|open| whole_file_system(&open));
                synced.map_err(FilesError::io("cannot sync", place))?;
            }
            Ok(())
        })
    }
}

/// Syncs one file or directory.
fn sync(path: &Path) -> Result<(), FilesError> {
    // Whatever may have taken its place meanwhile must not hold us up.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()).and_then(rustix::fs::fsync) {
        // What can't be synced is no file or directory.
        Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO | Errno::INVAL) => Ok(()),
        Err(error) => Err(FilesError::io("cannot sync", path)(error.into())),
    }
}

#[cfg(target_os = "linux")]
fn whole_file_system(open: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(open)?)
}

#[cfg(not(target_os = "linux"))]
fn whole_file_system(_open: &File) -> io::Result<()> {
    rustix::fs::sync();
    Ok(())
}
