//! Locks between isofold processes: an advisory lock on a git directory itself. Nothing is left
//! behind, whatever happens to the process.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

use super::FilesError;
use crate::control::{Control, POLL};

/// How a directory is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    Shared,
    Exclusive,
}

/// A held lock; dropping it lets go.
#[derive(Debug)]
pub(crate) struct Lock(#[allow(dead_code, reason = "held, not read")] File);

/// Waits for the lock on `directory` until `control` stops it or `patience` ends; `None` then.
pub(crate) fn lock(
    directory: &Path,
    hold: Hold,
    patience: Option<Duration>,
    control: &Control,
) -> Result<Option<Lock>, FilesError> {
    let file = File::open(directory).map_err(FilesError::io("cannot lock", directory))?;
    let since = Instant::now();
    loop {
        let tried = match hold {
            Hold::Shared => file.try_lock_shared(),
            Hold::Exclusive => file.try_lock(),
        };
        match tried {
            Ok(()) => return Ok(Some(Lock(file))),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(FilesError::io("cannot lock", directory)(error)),
        }
        if patience.is_some_and(|patience| since.elapsed() >= patience) {
            return Ok(None);
        }
        control.check()?;
        std::thread::sleep(POLL);
    }
}
