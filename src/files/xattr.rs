//! Extended attributes: those of users (`user.*`) travel with a file or directory.

use std::ffi::CStr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use rustix::fs::{Mode, Stat, XattrFlags};
use rustix::io::Errno;

/// Room for the names of one file; where that is too little the system is asked how much it takes.
const NAMES: usize = 1024;

/// What became of the attributes of one file.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Carried {
    /// How many the target would not take.
    pub(crate) refused: u64,
    /// There were some; the mode of the target may be wider now.
    pub(crate) any: bool,
}

/// Carries attributes. What a source file system can't have is asked once.
#[derive(Default)]
pub(crate) struct Xattrs {
    /// Devices whose file system has no extended attributes at all.
    without: RwLock<Vec<u64>>,
    /// Files have attributes here (labels of the system): asking whether there are any is no use.
    usual: AtomicBool,
}

impl Xattrs {
    /// Gives `target` the attributes of `source`, whose stat is `meta`. `Err` where writing failed, not
    /// where it was refused.
    pub(crate) fn carry(&self, source: impl AsFd, target: impl AsFd, meta: &Stat) -> Result<Carried, Errno> {
        let one = Carried { refused: 1, any: true };
        if self.without.read().unwrap_or_else(PoisonError::into_inner).contains(&meta.st_dev) {
            return Ok(Carried::default());
        }
        // Asking for the length alone is cheaper, where the answer is mostly none.
        if !self.usual.load(Ordering::Relaxed) {
            match rustix::fs::flistxattr_query(&source) {
                Ok(0) => return Ok(Carried::default()),
                _ => self.usual.store(true, Ordering::Relaxed),
            }
        }
        let mut room = [0_u8; NAMES];
        let mut more = Vec::new();
        let names = match rustix::fs::flistxattr(&source, &mut room) {
            Ok(0) => return Ok(Carried::default()),
            Ok(length) => &room[..length],
            Err(Errno::RANGE) => {
                // 64 KiB is the most that Linux gives.
                more.resize(64 * 1024, 0);
                match rustix::fs::flistxattr(&source, &mut more) {
                    Ok(length) => &more[..length],
                    Err(_) => return Ok(one),
                }
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                self.without.write().unwrap_or_else(PoisonError::into_inner).push(meta.st_dev);
                return Ok(Carried::default());
            }
            // They can't be read.
            Err(_) => return Ok(one),
        };
        let mut carried = Carried::default();
        for name in names.split_inclusive(|b| *b == 0).filter(|name| name.starts_with(b"user.")) {
            let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
            carried.any = true;
            let Some(value) = value(&source, name) else {
                carried.refused += 1;
                continue;
            };
            match set(&target, meta, name, &value) {
                Ok(()) => {}
                Err(
                    Errno::OPNOTSUPP
                    | Errno::PERM
                    | Errno::ACCESS
                    | Errno::NOSPC
                    | Errno::DQUOT
                    | Errno::TOOBIG
                    | Errno::RANGE
                    | Errno::INVAL
                    | Errno::NOSYS,
                ) => carried.refused += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(carried)
    }
}

fn value(source: impl AsFd, name: &CStr) -> Option<Vec<u8>> {
    let length = rustix::fs::fgetxattr_query(&source, name).ok()?;
    let mut value = vec![0; length];
    if length > 0 {
        let length = rustix::fs::fgetxattr(&source, name, &mut value).ok()?;
        value.truncate(length);
    }
    Some(value)
}

/// Attributes of users need the right to write by the mode, whatever the descriptor was opened for.
fn set(target: impl AsFd, meta: &Stat, name: &CStr, value: &[u8]) -> Result<(), Errno> {
    match rustix::fs::fsetxattr(&target, name, value, XattrFlags::empty()) {
        Err(Errno::ACCESS) if meta.st_mode & 0o200 == 0 => {
            rustix::fs::fchmod(&target, Mode::from_raw_mode(0o600))?;
            rustix::fs::fsetxattr(&target, name, value, XattrFlags::empty())
        }
        other => other,
    }
}
