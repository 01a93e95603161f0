//! Locks between isofold processes: an advisory lock on a git directory itself. Nothing is left
//! behind, whatever happens to the process.

use std::fmt;
use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::FilesError;
use super::owner::running_since;
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

/// Who holds a lock, as far as that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) pid: u32,
    /// Seconds since 1970.
    pub(crate) since: Option<u64>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        match self.since {
            Some(since) => write!(f, ", since {}", utc(since)),
            None => Ok(()),
        }
    }
}

/// A process that holds the lock on `directory`, by the kernel's table of locks.
pub(crate) fn holder(directory: &Path) -> Option<Holder> {
    let meta = std::fs::metadata(directory).ok()?;
    let table = std::fs::read_to_string("/proc/locks").ok()?;
    let pid = table.lines().find_map(|line| locked_by(line, meta.dev(), meta.ino()))?;
    Some(Holder { pid, since: running_since(pid) })
}

/// The process of a line like `1: FLOCK  ADVISORY  WRITE 1234 fd:01:5678 0 EOF`, if it is about this
/// file.
fn locked_by(line: &str, device: u64, inode: u64) -> Option<u32> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, "FLOCK", _, _, pid, file, ..] = words[..] else { return None };
    let mut parts = file.split(':');
    let number = |part: Option<&str>| part.and_then(|p| u32::from_str_radix(p, 16).ok());
    let (major, minor) = (number(parts.next())?, number(parts.next())?);
    let same = rustix::fs::makedev(major, minor) == device && parts.next()?.parse() == Ok(inode);
    // Processes outside our view have no number there.
    pid.parse().ok().filter(|pid| same && *pid > 0)
}

/// Seconds since 1970 as `2026-11-30 15:04:05 UTC`.
fn utc(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years are counted from March, so that the day of the leap year is the last.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + era * 400 + later;
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{of_month:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_in_utc() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_868_799), "2000-02-29 23:59:59 UTC");
        assert_eq!(utc(1_796_051_045), "2026-11-30 15:04:05 UTC");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_kernel_knows_who_holds_a_lock() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!(holder(directory.path()), None);
        let held = lock(directory.path(), Hold::Exclusive, None, &Control::new()).expect("no error");
        // On some file systems the table names another device: then nobody is named.
        if let Some(holder) = holder(directory.path()) {
            assert_eq!(holder.pid, std::process::id());
        }
        drop(held);
    }
}
