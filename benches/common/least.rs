//! The least that a copy of a tree takes: nothing but opening, making, cloning or writing, and setting the
//! time of each file, by two threads. What isofold takes beyond it is its own; a bound below it can't be met
//! on the machine at hand.

use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, Timespec, Timestamps};

/// The argument with which a bench runs this in a process of its own: `least SOURCE TARGET`.
pub(crate) const ARGUMENT: &str = "least";
/// As isofold has it: below this size data may live in the inode.
const NEVER_CLONED: i64 = 2 * 1024;

/// Set back by the first file that can't be cloned.
static CLONES: AtomicBool = AtomicBool::new(true);

/// A directory, its copy, and its files.
struct Place {
    source: OwnedFd,
    target: OwnedFd,
    files: Vec<CString>,
}

/// Copies the tree, but for `.git`; the target must not exist.
pub(crate) fn run(source: &Path, target: &Path) {
    let place = |path: &Path| CString::new(path.as_os_str().as_encoded_bytes()).expect("a path");
    rustix::fs::mkdirat(CWD, target, Mode::RWXU).expect("made");
    let mut places = Vec::new();
    directories(open(CWD, &place(source)), open(CWD, &place(target)), &mut places);
    places.reverse();
    let places = Mutex::new(places);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut buffer = vec![0; 64 * 1024];
                loop {
                    let Some(place) = places.lock().expect("no thread panics").pop() else { break };
                    place.files.iter().for_each(|name| file(&place, name, &mut buffer));
                }
            });
        }
    });
}

fn open(at: impl std::os::fd::AsFd, name: &CStr) -> OwnedFd {
    rustix::fs::openat(at, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).expect("opened")
}

fn directories(source: OwnedFd, target: OwnedFd, places: &mut Vec<Place>) {
    let (mut files, mut below) = (Vec::new(), Vec::new());
    for entry in Dir::read_from(&source).expect("readable") {
        let entry = entry.expect("readable");
        let name = entry.file_name();
        match entry.file_type() {
            _ if matches!(name.to_bytes(), b"." | b".." | b".git") => {}
            FileType::Directory => below.push(name.to_owned()),
            FileType::Symlink => {
                let text = rustix::fs::readlinkat(&source, name, Vec::new()).expect("read");
                rustix::fs::symlinkat(&text, &target, name).expect("made");
            }
            _ => files.push(name.to_owned()),
        }
    }
    for name in below {
        rustix::fs::mkdirat(&target, &name, Mode::from_raw_mode(0o755)).expect("made");
        directories(open(&source, &name), open(&target, &name), places);
    }
    places.push(Place { source, target, files });
}

fn file(place: &Place, name: &CStr, buffer: &mut [u8]) {
    let source =
        rustix::fs::openat(&place.source, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).expect("opened");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let target = rustix::fs::openat(&place.target, name, flags, Mode::from_raw_mode(0o644)).expect("made");
    let meta = rustix::fs::fstat(&source).expect("a stat");
    let clone = meta.st_size > NEVER_CLONED && CLONES.load(Ordering::Relaxed);
    let cloned = clone && rustix::fs::ioctl_ficlone(&target, &source).is_ok();
    if clone && !cloned {
        CLONES.store(false, Ordering::Relaxed);
    }
    if !cloned {
        let mut at = 0;
        loop {
            let length = rustix::io::pread(&source, &mut *buffer, at).expect("read");
            at += rustix::io::pwrite(&target, &buffer[..length], at).expect("written") as u64;
            // A short read is the last: a small file needs no second look for its end.
            if length < buffer.len() {
                break;
            }
        }
    }
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let times = Timestamps {
        last_access: time(0, rustix::fs::UTIME_OMIT),
        last_modification: time(meta.st_mtime, meta.st_mtime_nsec.try_into().unwrap_or(0)),
    };
    rustix::fs::futimens(&target, &times).expect("set");
}
