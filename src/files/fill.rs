//! Filling one directory from another: one walk of the source by two workers, entries copied as
//! they are found.

use std::ffi::{CStr, CString, OsString};
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FileType, Mode, Stat, Timestamps};
use rustix::io::Errno;

use super::copy::{Copied, Copier, CopyError, OMIT, Quick, link, modified};
use super::queue::{work, workers};
use super::walk::{Entry, entries, open_directory};
use super::{FilesError, as_path, join};
use crate::control::Control;

/// Files of one directory that one worker takes at a time.
const CHUNK: usize = 32;

/// What to do with an entry of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Take,
    /// A directory that is left out but for what is tracked in it.
    TrackedOnly,
    /// Kept out by the exclude list.
    LeaveOut,
    /// Not part of a work tree: its `.git`, its own notes.
    Pass,
}

/// Decides about entries, and is told what became of them.
pub(crate) trait Select: Sync {
    /// About an entry at `path` (relative to the source), below a directory that is itself left out
    /// but for tracked files or not.
    fn verdict(&self, path: &[u8], kind: FileType, tracked_only: bool) -> Verdict;

    /// Whether a directory, now open, is no part of this work tree: another work tree, a git directory.
    fn is_foreign(&self, path: &[u8], stat: &Stat, entries: &[Entry], directory: &OwnedFd) -> bool;

    /// The place of a tracked path in the caller's own list, which is in the order of paths; `within`
    /// is the part of the list that holds what is tracked in the directory of `path`.
    fn position(&self, path: &[u8], within: &Range<usize>) -> Option<usize>;

    /// The part of the list that holds what is tracked in the directory `path`.
    fn below(&self, path: &[u8], within: &Range<usize>) -> Range<usize>;

    /// Whether what the list has at a place is a directory with an index of its own, so that nothing in
    /// it is for the caller to list.
    fn is_submodule(&self, position: usize) -> bool;

    /// Tells what became of tracked files of one directory.
    fn copied(&self, copies: &[TrackedCopy]);
}

/// A tracked file that was copied.
#[derive(Debug)]
pub(crate) struct TrackedCopy {
    pub(crate) position: usize,
    pub(crate) source: Stat,
    pub(crate) copy: Stat,
    pub(crate) steady: bool,
}

/// What a fill did.
#[derive(Debug, Default)]
pub(crate) struct Filled {
    pub(crate) files: u64,
    pub(crate) links: u64,
    pub(crate) directories: u64,
    pub(crate) bytes: u64,
    pub(crate) cloned: u64,
    pub(crate) copied: u64,
    /// Attributes of users that did not come along.
    pub(crate) xattrs_refused: u64,
    /// Sockets, FIFOs and devices.
    pub(crate) skipped: Vec<Vec<u8>>,
    /// Left out by the exclude list; directories end in `/`.
    pub(crate) left_out: Vec<Vec<u8>>,
    /// Files that went on changing while they were copied.
    pub(crate) unsteady: Vec<Vec<u8>>,
    /// Untracked files over the size that was asked about, or closed to their owner.
    pub(crate) unstored: Vec<Vec<u8>>,
    /// The topmost untracked files, links and directories (`true`).
    pub(crate) untracked: Vec<(Vec<u8>, bool)>,
    /// Directories below the root that have a `.git` file, outer ones first.
    pub(crate) git_files: Vec<Vec<u8>>,
    /// Links whose text leads out of the copy, absolute or by `..`: path, text.
    pub(crate) leading_out: Vec<(Vec<u8>, Vec<u8>)>,
    /// Directories with a `pyvenv.cfg`: virtual environments of Python.
    pub(crate) environments: Vec<Vec<u8>>,
}

impl Filled {
    fn absorb(&mut self, other: Self) {
        self.files += other.files;
        self.links += other.links;
        self.directories += other.directories;
        self.bytes += other.bytes;
        self.cloned += other.cloned;
        self.copied += other.copied;
        self.xattrs_refused += other.xattrs_refused;
        self.skipped.extend(other.skipped);
        self.left_out.extend(other.left_out);
        self.unsteady.extend(other.unsteady);
        self.unstored.extend(other.unstored);
        self.untracked.extend(other.untracked);
        self.git_files.extend(other.git_files);
        self.leading_out.extend(other.leading_out);
        self.environments.extend(other.environments);
    }
}

/// Fills the directory `to`, which exists, from the directory `from`. Untracked files larger than
/// `large` bytes are listed. Stops with the first error; what is there by then is the caller's to
/// take away.
pub(crate) fn fill(
    from: &Path,
    to: &Path,
    select: &dyn Select,
    large: u64,
    control: &Control,
) -> Result<Filled, FilesError> {
    let open = |path: &Path| {
        let name = CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| Errno::INVAL);
        name.and_then(|name| open_directory(rustix::fs::CWD, &name))
            .map_err(|error| FilesError::io("cannot open", path)(error.into()))
    };
    let (source, target) = (open(from)?, open(to)?);
    let stat = rustix::fs::fstat(&source).map_err(|e| FilesError::io("cannot read", from)(e.into()))?;
    let shared = Shared {
        from,
        to,
        select,
        large,
        control,
        copier: Copier::new(&target, control),
        late_error: Arc::new(Mutex::new(None)),
    };
    let root = Arc::new(Node {
        path: Vec::new(),
        quick: shared.copier.quick(&source, &stat),
        meta: stat,
        tracked_only: false,
        tracked: Some(0..usize::MAX),
        parent: None,
        source,
        target,
        late_error: shared.late_error.clone(),
    });
    let found = entries(&root.source).map_err(|e| shared.source_error(&root.path, e))?;
    let mut filled = Filled { xattrs_refused: shared.carry_xattrs(&root)?, ..Filled::default() };
    let tasks = shared.sort_in(&root, found, &mut filled);
    drop(root);
    let parts = work(tasks, workers(), |task, part: &mut Part| match task {
        Task::Directory { above, name, tracked_only, tracked } => {
            shared.directory(&above, &name, tracked_only, tracked, &mut part.filled)
        }
        Task::Files { of, files } => {
            shared.files(&of, &files, part)?;
            Ok(Vec::new())
        }
    })?;
    for part in parts {
        filled.absorb(part.filled);
    }
    if let Some((path, error)) = shared.late_error.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(FilesError::io("cannot finish the directory", &to.join(as_path(&path)))(error.into()));
    }
    for list in
        [&mut filled.skipped, &mut filled.left_out, &mut filled.unsteady, &mut filled.unstored, &mut filled.git_files]
    {
        list.sort();
    }
    Ok(filled)
}

/// The first directory that could not get its mode and time, and why.
type LateError = Arc<Mutex<Option<(Vec<u8>, Errno)>>>;

/// A directory under way. It lives as long as any of its entries; when the last is done, the copy
/// gets its mode and time.
struct Node {
    source: OwnedFd,
    target: OwnedFd,
    path: Vec<u8>,
    meta: Stat,
    /// Small files need no stat before they are read.
    quick: bool,
    tracked_only: bool,
    /// The part of the caller's list that is tracked in here; `None` where nothing in here is for the
    /// caller to list.
    tracked: Option<Range<usize>>,
    #[allow(dead_code, reason = "keeps the directory above unfinished")]
    parent: Option<Arc<Node>>,
    late_error: LateError,
}

impl Drop for Node {
    fn drop(&mut self) {
        let times = Timestamps { last_access: OMIT, last_modification: modified(&self.meta) };
        let done = rustix::fs::futimens(&self.target, &times)
            .and_then(|()| rustix::fs::fchmod(&self.target, Mode::from_raw_mode(self.meta.st_mode & 0o7777)));
        if let Err(error) = done {
            let mut late = self.late_error.lock().unwrap_or_else(PoisonError::into_inner);
            late.get_or_insert((self.path.clone(), error));
        }
    }
}

enum Task {
    Directory { above: Arc<Node>, name: CString, tracked_only: bool, tracked: Option<Range<usize>> },
    Files { of: Arc<Node>, files: Vec<File> },
}

/// A file or link, and its place in the caller's list if it is tracked.
struct File {
    entry: Entry,
    position: Option<usize>,
}

/// What one worker did, and its buffer.
#[derive(Default)]
struct Part {
    filled: Filled,
    buffer: Vec<u8>,
    copies: Vec<TrackedCopy>,
}

struct Shared<'a> {
    from: &'a Path,
    to: &'a Path,
    select: &'a dyn Select,
    large: u64,
    control: &'a Control,
    copier: Copier<'a>,
    late_error: LateError,
}

impl Shared<'_> {
    fn directory(
        &self,
        above: &Arc<Node>,
        name: &CStr,
        tracked_only: bool,
        tracked: Option<Range<usize>>,
        filled: &mut Filled,
    ) -> Result<Vec<Task>, FilesError> {
        self.control.check()?;
        let path = join(&above.path, name.to_bytes());
        let source = match open_directory(&above.source, name) {
            Ok(source) => source,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(Vec::new()),
            Err(error) => return Err(self.source_error(&path, error)),
        };
        let meta = rustix::fs::fstat(&source).map_err(|e| self.source_error(&path, e))?;
        let found = entries(&source).map_err(|e| self.source_error(&path, e))?;
        if self.select.is_foreign(&path, &meta, &found, &source) {
            return Ok(Vec::new());
        }
        let made = rustix::fs::mkdirat(&above.target, name, Mode::from_raw_mode(0o700))
            .and_then(|()| open_directory(&above.target, name));
        let target = made.map_err(|e| self.target_error(&path, e))?;
        filled.directories += 1;
        let same_device = meta.st_dev == above.meta.st_dev;
        let node = Arc::new(Node {
            quick: if same_device { above.quick } else { self.copier.quick(&source, &meta) },
            source,
            target,
            path,
            meta,
            tracked_only,
            tracked,
            parent: Some(above.clone()),
            late_error: self.late_error.clone(),
        });
        filled.xattrs_refused += self.carry_xattrs(&node)?;
        Ok(self.sort_in(&node, found, filled))
    }

    /// The directory's own attributes; how many the copy would not take.
    fn carry_xattrs(&self, node: &Node) -> Result<u64, FilesError> {
        let carried = self.copier.xattrs.carry(&node.source, &node.target, &node.meta);
        carried.map(|carried| carried.refused).map_err(|e| self.target_error(&node.path, e))
    }

    /// Turns the entries of a directory into tasks.
    fn sort_in(&self, node: &Arc<Node>, found: Vec<Entry>, filled: &mut Filled) -> Vec<Task> {
        let mut tasks = Vec::new();
        let mut files = Vec::new();
        for entry in found {
            let path = join(&node.path, entry.name.to_bytes());
            let directory = entry.kind == FileType::Directory;
            let tracked_only = match self.select.verdict(&path, entry.kind, node.tracked_only) {
                Verdict::Take => false,
                Verdict::TrackedOnly => true,
                Verdict::LeaveOut => {
                    filled.left_out.push(if directory { join(&path, b"") } else { path });
                    continue;
                }
                Verdict::Pass => continue,
            };
            let position = node.tracked.as_ref().and_then(|within| self.select.position(&path, within));
            let tracked = match &node.tracked {
                Some(within) if directory => {
                    let below = self.select.below(&path, within);
                    if position.is_none() && below.is_empty() {
                        filled.untracked.push((path.clone(), true));
                        None
                    } else {
                        // A tracked file may have become a directory: what is in it is new.
                        (!position.is_some_and(|position| self.select.is_submodule(position))).then_some(below)
                    }
                }
                Some(_) if position.is_none() => {
                    filled.untracked.push((path.clone(), false));
                    None
                }
                _ => None,
            };
            match entry.kind {
                FileType::Directory => {
                    tasks.push(Task::Directory { above: node.clone(), name: entry.name, tracked_only, tracked });
                }
                FileType::RegularFile | FileType::Symlink => files.push(File { entry, position }),
                _ => filled.skipped.push(path),
            }
        }
        let mut files = files.into_iter();
        loop {
            let files: Vec<File> = files.by_ref().take(CHUNK).collect();
            if files.is_empty() {
                break;
            }
            tasks.push(Task::Files { of: node.clone(), files });
        }
        tasks
    }

    fn files(&self, of: &Node, files: &[File], part: &mut Part) -> Result<(), FilesError> {
        let Part { filled, buffer, copies } = part;
        copies.clear();
        for File { entry, position } in files {
            self.control.check()?;
            let done = if entry.kind == FileType::Symlink {
                link(&of.source, &of.target, &entry.name).map(|(source, copy, target)| {
                    filled.links += 1;
                    if leads_out(&of.path, target.to_bytes()) {
                        let path = join(&of.path, entry.name.to_bytes());
                        filled.leading_out.push((path, target.into_bytes()));
                    }
                    Copied { source, copy: Some(copy), steady: true, cloned: false, xattrs_refused: 0 }
                })
            } else {
                let how = Quick { source: of.quick, target: position.is_none() };
                self.copier.file(&of.source, &of.target, &entry.name, how, buffer).inspect(|done| {
                    filled.files += 1;
                    filled.bytes += u64::try_from(done.result().st_size).unwrap_or(0);
                    filled.xattrs_refused += done.xattrs_refused;
                    *(if done.cloned { &mut filled.cloned } else { &mut filled.copied }) += 1;
                })
            };
            let path = || join(&of.path, entry.name.to_bytes());
            let done = match done {
                Ok(done) => done,
                Err(CopyError::Vanished) => continue,
                Err(CopyError::Stopped(stop)) => return Err(stop.into()),
                Err(CopyError::Source(error)) => return Err(self.source_error(&path(), error)),
                Err(CopyError::Target(error)) => return Err(self.target_error(&path(), error)),
            };
            self.control.progress().file();
            if entry.kind == FileType::RegularFile && entry.name.as_c_str() == c".git" {
                filled.git_files.push(of.path.clone());
            }
            if entry.kind == FileType::RegularFile && entry.name.as_c_str() == c"pyvenv.cfg" {
                filled.environments.push(of.path.clone());
            }
            if !done.steady {
                filled.unsteady.push(path());
            }
            let Some(position) = *position else {
                let copy = done.result();
                // What its owner may not read git can't store.
                if u64::try_from(copy.st_size).unwrap_or(0) > self.large
                    || !Mode::from_raw_mode(copy.st_mode).contains(Mode::RUSR)
                {
                    filled.unstored.push(path());
                }
                continue;
            };
            let copy = *done.result();
            copies.push(TrackedCopy { position, source: done.source, copy, steady: done.steady });
        }
        if !copies.is_empty() {
            self.select.copied(copies);
        }
        Ok(())
    }

    fn source_error(&self, path: &[u8], error: Errno) -> FilesError {
        let full = self.from.join(as_path(path));
        match error {
            Errno::ACCESS => FilesError::Unreadable(full),
            error => FilesError::io("cannot read", &full)(error.into()),
        }
    }

    fn target_error(&self, path: &[u8], error: Errno) -> FilesError {
        FilesError::io("cannot write", &self.to.join(as_path(path)))(error.into())
    }
}

/// Whether what a link in `directory` says leads out of the tree, as far as its text tells.
fn leads_out(directory: &[u8], target: &[u8]) -> bool {
    if target.first() == Some(&b'/') {
        return true;
    }
    let parts = |path: &[u8]| path.split(|b| *b == b'/').filter(|p| !p.is_empty()).count();
    let mut depth = parts(directory);
    for part in target.split(|b| *b == b'/') {
        match part {
            b"" | b"." => {}
            b".." if depth == 0 => return true,
            b".." => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}

/// The content of a regular file in an open directory, up to `limit` bytes; a link is not followed.
pub(crate) fn read_at(directory: impl AsFd, name: &CStr, limit: u64) -> Option<Vec<u8>> {
    use rustix::fs::OFlags;
    use std::io::Read;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = std::fs::File::from(rustix::fs::openat(directory, name, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Bytes as an owned path.
pub(crate) fn to_path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_out_by_their_text() {
        for (directory, target, out) in [
            (&b""[..], &b"/x"[..], true),
            (b"", b"x/../y", false),
            (b"", b"../x", true),
            (b"a/b", b"../../x", false),
            (b"a/b", b"../../../x", true),
            (b"a", b"./..//./x", false),
            (b"a", b"b/../../../x", true),
        ] {
            assert_eq!(leads_out(directory, target), out, "{directory:?} {target:?}");
        }
    }
}
