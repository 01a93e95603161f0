//! Copying one file: cloned where the file system can, else copied with its holes kept.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps};
use rustix::io::Errno;

use super::walk::stat;
use super::xattr::{Carried, Xattrs};
use crate::control::{Control, Stop};

/// Files up to this size are read and written in one call each.
const SMALL: u64 = 32 * 1024;
/// Where cloning is possible at all, files up to this size are still copied: their data may live in
/// the inode.
const NEVER_CLONED: u64 = 2 * 1024;
/// On XFS a clone flushes data that is not on the disk yet: below this size and within
/// [`XFS_FRESH`] of the last write, copying is cheaper.
const XFS_SMALL: u64 = 64 * 1024;
const XFS_FRESH: i64 = 30;
/// How much is copied between two looks at the control.
const STEP: usize = 4 * 1024 * 1024;
/// From this size on holes are looked for even where as much is allocated as the file is long: XFS
/// allocates beyond the end in advance.
const LOOK_FOR_HOLES: u64 = 1024 * 1024;
/// How often a file that changes under the copy is copied again.
const TRIES: u32 = 4;

const XFS_MAGIC: u64 = 0x5846_5342;
const EXT: u64 = 0xef53;
const TMPFS: u64 = 0x0102_1994;
const BTRFS: u64 = 0x9123_683e;

/// Others that can clone (bcachefs, ZFS, overlays of these) are found by trying.
fn never_clones(magic: u64) -> bool {
    matches!(magic, EXT | TMPFS)
}

/// File systems of this machine, that give a file the mode it is made with and the times of this clock.
fn is_known(magic: u64) -> bool {
    matches!(magic, EXT | TMPFS | XFS_MAGIC | BTRFS)
}

/// How the content of files gets from one file system to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Clone,
    CloneXfs,
    Copy,
}

/// What became of one file.
#[derive(Debug)]
pub(crate) struct Copied {
    /// Stat of the source before the copy, and of the copy when it was done.
    pub(crate) source: Stat,
    /// `None` where it was not asked for: size, mode and times are those of the source.
    pub(crate) copy: Option<Stat>,
    /// The source did not change while it was copied.
    pub(crate) steady: bool,
    pub(crate) cloned: bool,
    /// Attributes of users that did not come along.
    pub(crate) xattrs_refused: u64,
}

impl Copied {
    /// Stat of the copy, in which size, mode and times of the modification count.
    pub(crate) fn result(&self) -> &Stat {
        self.copy.as_ref().unwrap_or(&self.source)
    }
}

/// Which looks at a small file can be spared.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quick {
    /// [`Copier::quick`] of its directory.
    pub(crate) source: bool,
    /// Nobody asks for the stat of the copy.
    pub(crate) target: bool,
}

/// Why a file was not copied.
#[derive(Debug)]
pub(crate) enum CopyError {
    Stopped(Stop),
    /// It is gone, or something else stands there now.
    Vanished,
    Source(Errno),
    Target(Errno),
}

impl From<Stop> for CopyError {
    fn from(stop: Stop) -> Self {
        Self::Stopped(stop)
    }
}

/// Copies files into one destination. The first file of each source file system decides whether
/// cloning works between the two.
pub(crate) struct Copier<'a> {
    control: &'a Control,
    umask: Option<u32>,
    user: u32,
    xfs: bool,
    may_clone: bool,
    methods: Mutex<Vec<(u64, Method)>>,
    /// A file gets the very mode that it is opened with, but for the umask.
    exact_modes: bool,
    /// A file that last changed before this second did not change since the copying began.
    long_ago: i64,
    pub(super) xattrs: Xattrs,
}

impl<'a> Copier<'a> {
    /// A copier into the file system of `destination`.
    pub(crate) fn new(destination: impl AsFd, control: &'a Control) -> Self {
        let magic = rustix::fs::fstatfs(&destination).map_or(0, |s| magic_of(&s));
        // What directories below inherit is what this one has.
        let no_acl = rustix::fs::fgetxattr_query(&destination, c"system.posix_acl_default");
        Self {
            control,
            umask: current_umask(),
            user: rustix::process::geteuid().as_raw(),
            xfs: magic == XFS_MAGIC,
            may_clone: !never_clones(magic),
            methods: Mutex::new(Vec::new()),
            exact_modes: is_known(magic) && matches!(no_acl, Err(Errno::NODATA | Errno::OPNOTSUPP)),
            long_ago: now() - 2,
            xattrs: Xattrs::default(),
        }
    }

    /// Whether small files of a directory can be read before they are looked at: none of them is to be
    /// cloned, and the file system is one whose times are by the clock of this machine.
    pub(crate) fn quick(&self, directory: impl AsFd, meta: &Stat) -> bool {
        let local = rustix::fs::fstatfs(directory).is_ok_and(|s| is_known(magic_of(&s)));
        local && (!self.may_clone || self.known(meta.st_dev) == Some(Method::Copy))
    }

    /// Copies the regular file `name` from one directory to another, where it must not exist.
    pub(crate) fn file(
        &self,
        from: impl AsFd,
        to: impl AsFd,
        name: &CStr,
        quick: Quick,
        buffer: &mut Vec<u8>,
    ) -> Result<Copied, CopyError> {
        let source = self.open_source(&from, name)?;
        let read = if quick.source { self.read_first(&source, buffer) } else { None };
        let mut before = match read {
            Some((_, meta)) => meta,
            None => rustix::fs::fstat(&source).map_err(CopyError::Source)?,
        };
        if FileType::from_raw_mode(before.st_mode) != FileType::RegularFile {
            return Err(CopyError::Vanished);
        }
        let mode = before.st_mode & 0o7777;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let target =
            rustix::fs::openat(&to, name, flags, Mode::from_raw_mode(mode & 0o777)).map_err(CopyError::Target)?;
        if let Some((length, _)) = read {
            write_all(&target, &buffer[..length], 0)?;
            self.control.progress().copied(length as u64);
            let carried = self.xattrs.carry(&source, &target, &before).map_err(CopyError::Target)?;
            let copy = self.finish(&target, &before, self.looks(quick, carried))?;
            return Ok(Copied { source: before, copy, steady: true, cloned: false, xattrs_refused: carried.refused });
        }
        // The library's clone wants files of the standard library.
        let (source, target) = (File::from(source), File::from(target));
        let mut tries = 0;
        loop {
            let cloned = self.content(&source, &target, &before, buffer)?;
            let carried = self.xattrs.carry(&source, &target, &before).map_err(CopyError::Target)?;
            let after = rustix::fs::fstat(&source).map_err(CopyError::Source)?;
            let steady = same(&before, &after);
            tries += 1;
            if steady || tries == TRIES {
                let copy = self.finish(&target, &before, !steady || self.looks(quick, carried))?;
                return Ok(Copied { source: before, copy, steady, cloned, xattrs_refused: carried.refused });
            }
            before = after;
            rustix::fs::ftruncate(&target, 0).map_err(CopyError::Target)?;
        }
    }

    /// Whether the finished copy is to be looked at.
    fn looks(&self, quick: Quick, carried: Carried) -> bool {
        !quick.target || !self.exact_modes || carried.any
    }

    /// The whole content of a small file and its stat of after; `None` unless that shows that nothing
    /// was written to it meanwhile.
    fn read_first(&self, source: &OwnedFd, buffer: &mut Vec<u8>) -> Option<(usize, Stat)> {
        let most = usize::try_from(SMALL).unwrap_or(0);
        buffer.resize(buffer.len().max(most + 1), 0);
        // One byte more than a small file has: the end was reached.
        let length = rustix::io::pread(source, &mut buffer[..=most], 0).ok()?;
        let meta = rustix::fs::fstat(source).ok()?;
        let whole = length <= most && u64::try_from(meta.st_size) == Ok(length as u64);
        let regular = FileType::from_raw_mode(meta.st_mode) == FileType::RegularFile;
        (whole && regular && meta.st_ctime < self.long_ago).then_some((length, meta))
    }

    fn open_source(&self, from: impl AsFd, name: &CStr) -> Result<OwnedFd, CopyError> {
        // A FIFO that stands there by now must not block us.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(&from, name, flags, Mode::empty());
        match open() {
            Err(Errno::ACCESS) => {}
            other => return other.map_err(vanished),
        }
        // A file of ours that we took every right from: the right to read it is ours to give, for
        // as long as it takes to open it.
        let meta = stat(&from, name).map_err(vanished)?;
        let regular = FileType::from_raw_mode(meta.st_mode) == FileType::RegularFile;
        if !regular || meta.st_uid != self.user || meta.st_mode & 0o400 != 0 {
            return Err(CopyError::Source(Errno::ACCESS));
        }
        let mode = meta.st_mode & 0o7777;
        let set = |mode| rustix::fs::chmodat(&from, name, Mode::from_raw_mode(mode), AtFlags::empty());
        set(mode | 0o400).map_err(CopyError::Source)?;
        let opened = open();
        set(mode).map_err(CopyError::Source)?;
        opened.map_err(CopyError::Source)
    }

    /// Brings the content over; whether it was cloned.
    fn content(&self, source: &File, target: &File, meta: &Stat, buffer: &mut Vec<u8>) -> Result<bool, CopyError> {
        let size = u64::try_from(meta.st_size).unwrap_or(0);
        if size == 0 {
            return Ok(false);
        }
        if self.wants_clone(meta, size) && self.clone_content(source, target, meta.st_dev)? {
            self.control.progress().cloned(size);
            return Ok(true);
        }
        if size <= SMALL {
            small(source, target, size, buffer)?;
            self.control.progress().copied(size);
        } else {
            self.large(source, target, meta, size, buffer)?;
        }
        Ok(false)
    }

    /// What the first file of a device found out.
    fn known(&self, device: u64) -> Option<Method> {
        let methods = self.methods.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        methods.iter().find(|(known, _)| *known == device).map(|(_, method)| *method)
    }

    fn wants_clone(&self, meta: &Stat, size: u64) -> bool {
        if !self.may_clone || size <= NEVER_CLONED {
            return false;
        }
        match self.known(meta.st_dev) {
            Some(Method::Copy) => false,
            Some(Method::CloneXfs) | None if self.xfs => size >= XFS_SMALL || settled(meta),
            _ => true,
        }
    }

    /// Tries to clone. Only what says "not between these two" turns into a copy.
    fn clone_content(&self, source: &File, target: &File, device: u64) -> Result<bool, CopyError> {
        let methods = self.methods.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // While nothing is known the other worker waits for what this file finds out.
        let mut undecided = methods.iter().all(|(d, _)| *d != device).then_some(methods);
        let mut decide = |method| {
            if let Some(methods) = &mut undecided {
                methods.push((device, method));
            }
        };
        match reflink_copy::reflink_file(source, target) {
            Ok(()) => {
                decide(if self.xfs { Method::CloneXfs } else { Method::Clone });
                Ok(true)
            }
            Err(error) => match errno(&error) {
                Errno::PERM | Errno::OPNOTSUPP | Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::NOTTY => {
                    // One file that can't (a swap file, one without copy-on-write) says nothing
                    // about the others.
                    decide(Method::Copy);
                    Ok(false)
                }
                other => Err(CopyError::Target(other)),
            },
        }
    }

    /// Data by data, so that holes stay holes; in the kernel where it can.
    fn large(
        &self,
        source: &File,
        target: &File,
        meta: &Stat,
        size: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<(), CopyError> {
        let allocated = u64::try_from(meta.st_blocks).unwrap_or(0) * 512;
        if allocated >= size && size < LOOK_FOR_HOLES {
            return self.range(source, target, 0, size, buffer);
        }
        let mut at = 0;
        while at < size {
            let start = match rustix::fs::seek(source, SeekFrom::Data(at)) {
                Ok(start) => start,
                // No data up to the end.
                Err(Errno::NXIO) => break,
                Err(Errno::INVAL | Errno::OPNOTSUPP) => return self.range(source, target, 0, size, buffer),
                Err(error) => return Err(CopyError::Source(error)),
            };
            let end = rustix::fs::seek(source, SeekFrom::Hole(start)).map_err(CopyError::Source)?.min(size);
            if start >= end {
                break;
            }
            self.range(source, target, start, end, buffer)?;
            at = end;
        }
        rustix::fs::ftruncate(target, size).map_err(CopyError::Target)
    }

    fn range(&self, source: &File, target: &File, start: u64, end: u64, buffer: &mut Vec<u8>) -> Result<(), CopyError> {
        let mut at = start;
        let mut in_kernel = true;
        let mut told = start;
        while at < end {
            self.control.check()?;
            self.control.progress().copied(at - told);
            told = at;
            let want = usize::try_from(end - at).unwrap_or(STEP).min(STEP);
            if in_kernel {
                let (mut from, mut to) = (at, at);
                match rustix::fs::copy_file_range(source, Some(&mut from), target, Some(&mut to), want) {
                    // Some file systems give nothing here for files that do have content.
                    Ok(0) => in_kernel = false,
                    Ok(n) => at += n as u64,
                    Err(Errno::XDEV | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL | Errno::PERM) => {
                        in_kernel = false;
                    }
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(CopyError::Target(error)),
                }
                continue;
            }
            buffer.resize(STEP.min(1024 * 1024), 0);
            let room = want.min(buffer.len());
            match rustix::io::pread(source, &mut buffer[..room], at) {
                Ok(0) => break,
                Ok(n) => {
                    write_all(target, &buffer[..n], at)?;
                    at += n as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(CopyError::Source(error)),
            }
        }
        self.control.progress().copied(at - told);
        Ok(())
    }

    /// Mode and times; the stat of the finished copy where it is to be looked at.
    fn finish(&self, target: impl AsFd, source: &Stat, look: bool) -> Result<Option<Stat>, CopyError> {
        let mut mode = source.st_mode & 0o7777;
        if mode & 0o6000 != 0 {
            // The copy is ours: what ran with somebody else's rights must not run with ours.
            let copy = rustix::fs::fstat(&target).map_err(CopyError::Target)?;
            if copy.st_uid != source.st_uid {
                mode &= !0o4000;
            }
            if copy.st_gid != source.st_gid {
                mode &= !0o2000;
            }
        }
        let plain = mode & 0o7000 == 0 && self.umask.is_some_and(|umask| mode & umask == 0);
        let set_mode = || rustix::fs::fchmod(&target, Mode::from_raw_mode(mode)).map_err(CopyError::Target);
        if !plain {
            set_mode()?;
        }
        let times = Timestamps { last_access: OMIT, last_modification: modified(source) };
        rustix::fs::futimens(&target, &times).map_err(CopyError::Target)?;
        if !look {
            return Ok(None);
        }
        let stat = rustix::fs::fstat(&target).map_err(CopyError::Target)?;
        if stat.st_mode & 0o7777 == mode {
            return Ok(Some(stat));
        }
        // A default ACL of the destination had its say.
        set_mode()?;
        rustix::fs::fstat(&target).map(Some).map_err(CopyError::Target)
    }
}

/// Copies a symbolic link, with its time; both stats, and what the link says.
pub(crate) fn link(from: impl AsFd, to: impl AsFd, name: &CStr) -> Result<(Stat, Stat, CString), CopyError> {
    let source = stat(&from, name).map_err(vanished)?;
    let target = rustix::fs::readlinkat(&from, name, Vec::new()).map_err(vanished)?;
    rustix::fs::symlinkat(&target, &to, name).map_err(CopyError::Target)?;
    let times = Timestamps { last_access: OMIT, last_modification: modified(&source) };
    rustix::fs::utimensat(&to, name, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(CopyError::Target)?;
    Ok((source, stat(&to, name).map_err(CopyError::Target)?, target))
}

/// Leave the time of the last access alone.
pub(crate) const OMIT: Timespec = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT };

/// The time of the last modification, to the nanosecond.
pub(crate) fn modified(stat: &Stat) -> Timespec {
    Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec.try_into().unwrap_or(0) }
}

/// One read, one write.
fn small(source: &File, target: &File, size: u64, buffer: &mut Vec<u8>) -> Result<(), CopyError> {
    let size = usize::try_from(size).unwrap_or(0);
    buffer.resize(buffer.len().max(size), 0);
    let mut have = 0;
    while have < size {
        match rustix::io::pread(source, &mut buffer[have..size], have as u64) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(Errno::INTR) => {}
            Err(error) => return Err(CopyError::Source(error)),
        }
    }
    write_all(target, &buffer[..have], 0)
}

fn write_all(target: impl AsFd, content: &[u8], at: u64) -> Result<(), CopyError> {
    let mut done = 0;
    while done < content.len() {
        match rustix::io::pwrite(&target, &content[done..], at + done as u64) {
            Ok(n) => done += n,
            Err(Errno::INTR) => {}
            Err(error) => return Err(CopyError::Target(error)),
        }
    }
    Ok(())
}

/// Whether two stats of one open file show that nothing was written between.
fn same(a: &Stat, b: &Stat) -> bool {
    (a.st_size, a.st_mtime, a.st_mtime_nsec, a.st_ctime, a.st_ctime_nsec)
        == (b.st_size, b.st_mtime, b.st_mtime_nsec, b.st_ctime, b.st_ctime_nsec)
}

/// Whether the file was last written long enough ago to be on the disk.
fn settled(meta: &Stat) -> bool {
    now() - meta.st_ctime >= XFS_FRESH
}

/// The time now, in seconds.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(i64::MAX))
}

fn vanished(error: Errno) -> CopyError {
    match error {
        Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::NOTDIR => CopyError::Vanished,
        other => CopyError::Source(other),
    }
}

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(
        match error.kind() {
            io::ErrorKind::Unsupported => Errno::OPNOTSUPP,
            _ => Errno::IO,
        },
        Errno::from_raw_os_error,
    )
}

/// The process's umask, read without changing it; `None` where the system does not tell.
fn current_umask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(line.trim(), 8).ok()
}

#[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "the type differs between platforms")]
fn magic_of(stat: &rustix::fs::StatFs) -> u64 {
    stat.f_type as u64 & 0xffff_ffff
}
