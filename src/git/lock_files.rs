//! Git's own locks: files that git makes and looks for, held by us in a way that a later process can
//! tell from anybody else's.
//!
//! A lock is prepared as a file elsewhere, so that its inode is known and noted before it appears
//! under the name that git goes by. Its only content says whose it is.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use super::GitError;
use crate::control::{Control, POLL};

/// How long a lock is waited for: git holds its locks for moments.
const PATIENCE: Duration = Duration::from_millis(1500);

/// `path` with `.lock` at its end.
pub(crate) fn lock_of(path: &Path) -> PathBuf {
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    PathBuf::from(lock)
}

/// A lock that is prepared, held, or given back.
#[derive(Debug)]
pub(crate) struct GitLock {
    /// Where git looks for it.
    path: PathBuf,
    /// Where it waits until it is taken.
    prepared: PathBuf,
    inode: u64,
    marker: String,
}

impl GitLock {
    /// Prepares the lock `path` as the file `prepared`; `marker` says whose it is.
    pub(crate) fn prepare(path: PathBuf, prepared: PathBuf, marker: &str) -> Result<Self, GitError> {
        let inode = fs::write(&prepared, marker)
            .and_then(|()| fs::symlink_metadata(&prepared))
            .map_err(GitError::io("cannot write", &prepared))?
            .ino();
        Ok(Self { path, prepared, inode, marker: marker.to_owned() })
    }

    /// One that an earlier process prepared and noted.
    pub(crate) fn noted(path: PathBuf, prepared: PathBuf, inode: u64, marker: &str) -> Self {
        Self { path, prepared, inode, marker: marker.to_owned() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory that it was prepared in.
    pub(crate) fn scratch(&self) -> &Path {
        self.prepared.parent().unwrap_or(Path::new("/"))
    }

    pub(crate) fn inode(&self) -> u64 {
        self.inode
    }

    /// Takes it, waiting a moment for whoever holds it.
    pub(crate) fn take(&self, control: &Control) -> Result<(), GitError> {
        let since = Instant::now();
        loop {
            match self.try_take() {
                Err(Errno::EXIST) if since.elapsed() < PATIENCE => {}
                Err(Errno::EXIST) => return Err(GitError::Held(self.path.clone())),
                other => return other.map_err(|e| GitError::io("cannot lock", &self.path)(e.into())),
            }
            control.check()?;
            std::thread::sleep(POLL);
        }
    }

    fn try_take(&self) -> Result<(), Errno> {
        let renamed = rustix::fs::renameat_with(CWD, &self.prepared, CWD, &self.path, RenameFlags::NOREPLACE);
        match renamed {
            // Where the flag is unknown: a hard link never replaces either.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                rustix::fs::link(&self.prepared, &self.path)?;
                rustix::fs::unlink(&self.prepared)
            }
            // A branch whose directory nobody has made, or has removed again.
            Err(Errno::NOENT) if self.prepared.exists() => {
                let above = self.path.parent().unwrap_or(Path::new("/"));
                fs::create_dir_all(above).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
                rustix::fs::renameat_with(CWD, &self.prepared, CWD, &self.path, RenameFlags::NOREPLACE)
            }
            other => other,
        }
    }

    /// Whether the file at its path is this lock and nobody else's. After a power failure a file may
    /// have lost its content: then it is known by its inode.
    pub(crate) fn is_ours(&self) -> bool {
        let Ok(content) = fs::read(&self.path) else { return false };
        let same = || fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.is_file() && meta.ino() == self.inode);
        content == self.marker.as_bytes() || (content.iter().all(|b| *b == 0) && same())
    }

    /// Gives it back; a file that is not ours stays.
    pub(crate) fn release(&self) -> Result<(), GitError> {
        if !self.is_ours() {
            return Ok(());
        }
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(GitError::io("cannot remove the lock", &self.path)(error))
            }
            _ => Ok(()),
        }
    }
}

/// Whether somebody holds one of these locks, without taking any.
pub(crate) fn check(locks: impl IntoIterator<Item = PathBuf>) -> Result<(), GitError> {
    match locks.into_iter().find(|lock| lock.symlink_metadata().is_ok()) {
        Some(lock) => Err(GitError::Held(lock)),
        None => Ok(()),
    }
}
