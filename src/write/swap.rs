//! The swap: staged files into place, what stood there out of the way, and all of it back again if
//! anything is not as planned.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use super::plan::{Plan, Step, raw_id_at};
use super::stage::Stage;
use super::{WriteError, conflict};
use crate::control::Control;
use crate::files::{FilesError, as_path};
use crate::git::index_file::IndexStat;
use crate::git::{GitError, Oid};

/// One thing done, with what undoes it.
enum Done {
    /// A file came where nothing was; it came from there.
    Added {
        target: PathBuf,
        from: PathBuf,
    },
    /// A file and a staged one changed places.
    Exchanged {
        target: PathBuf,
        other: PathBuf,
    },
    /// A file went there.
    Moved {
        target: PathBuf,
        to: PathBuf,
    },
    MadeDirectory(PathBuf),
    RemovedDirectory {
        path: PathBuf,
        mode: u32,
        times: rustix::fs::Timestamps,
    },
}

/// A file that was swapped out, kept until the end.
pub(crate) struct SwappedOut {
    pub(crate) path: Vec<u8>,
    pub(crate) file: PathBuf,
    pub(crate) raw: Oid,
}

/// Steps that have been carried out and can still be taken back. Dropping it takes them back;
/// [`Swap::keep`] makes them last.
pub(crate) struct Swap<'a> {
    root: &'a Path,
    stage: Stage,
    done: Vec<Done>,
    out: Vec<SwappedOut>,
    finished: bool,
}

impl<'a> Swap<'a> {
    /// Carries out the plan. On any failure everything is put back first.
    pub(crate) fn carry_out(root: &'a Path, plan: &Plan, stage: Stage, control: &Control) -> Result<Self, WriteError> {
        let mut swap = Self { root, stage, done: Vec::new(), out: Vec::new(), finished: false };
        match swap.steps(plan, control) {
            Ok(()) => Ok(swap),
            Err(error) => {
                swap.put_back()?;
                Err(error)
            }
        }
    }

    fn steps(&mut self, plan: &Plan, control: &Control) -> Result<(), WriteError> {
        // What goes makes room for what comes.
        for step in &plan.steps {
            control.check().map_err(GitError::from)?;
            match step {
                Step::Delete { path, raw } => self.delete(path, *raw)?,
                Step::Submodule { path, comes: false } => self.remove_directory(&self.root.join(as_path(path)))?,
                _ => {}
            }
        }
        for step in &plan.steps {
            if let Step::Delete { path, .. } | Step::Submodule { path, comes: false } = step {
                self.remove_empty_above(path)?;
            }
        }
        for step in &plan.steps {
            control.check().map_err(GitError::from)?;
            match step {
                Step::Add { path, .. } => self.add(path)?,
                Step::Replace { path, raw, .. } => self.replace(path, *raw)?,
                Step::Submodule { path, comes: true } => {
                    self.make_above(path)?;
                    self.clear_directory(path)?;
                    self.make_directory(&self.root.join(as_path(path)))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn delete(&mut self, path: &[u8], raw: Oid) -> Result<(), WriteError> {
        let target = self.root.join(as_path(path));
        let to = self.stage.spare(self.root, path)?;
        rename(&target, &to, RenameFlags::NOREPLACE).map_err(|e| raced(path, &target, e))?;
        self.done.push(Done::Moved { target, to: to.clone() });
        self.verify(path, to, raw)
    }

    fn replace(&mut self, path: &[u8], raw: Oid) -> Result<(), WriteError> {
        let target = self.root.join(as_path(path));
        let Some(staged) = self.stage.file(path).map(Path::to_owned) else {
            return Err(
                FilesError::io("cannot find the staged file of", &target)(io::ErrorKind::NotFound.into()).into()
            );
        };
        match rename(&staged, &target, RenameFlags::EXCHANGE) {
            Ok(()) => {
                self.done.push(Done::Exchanged { target, other: staged.clone() });
                self.verify(path, staged, raw)
            }
            // No exchange on this file system: the old one aside, then the new one into the gap.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                self.delete(path, raw)?;
                self.add(path)
            }
            Err(error) => Err(raced(path, &target, error)),
        }
    }

    fn add(&mut self, path: &[u8]) -> Result<(), WriteError> {
        self.make_above(path)?;
        let target = self.root.join(as_path(path));
        let Some(from) = self.stage.file(path).map(Path::to_owned) else {
            return Err(
                FilesError::io("cannot find the staged file of", &target)(io::ErrorKind::NotFound.into()).into()
            );
        };
        if fs::symlink_metadata(&target).is_ok_and(|meta| meta.is_dir()) {
            self.clear_directory(path)?;
        }
        rename(&from, &target, RenameFlags::NOREPLACE).map_err(|e| raced(path, &target, e))?;
        self.done.push(Done::Added { target, from });
        Ok(())
    }

    /// What was swapped out has to be what the plan saw.
    fn verify(&mut self, path: &[u8], file: PathBuf, raw: Oid) -> Result<(), WriteError> {
        let found = raw_id_at(&file)?;
        self.out.push(SwappedOut { path: path.to_vec(), file, raw });
        if found == raw { Ok(()) } else { Err(changed(path)) }
    }

    fn make_above(&mut self, path: &[u8]) -> Result<(), WriteError> {
        let mut at = self.root.to_owned();
        for part in as_path(path).parent().into_iter().flat_map(Path::components) {
            at.push(part);
            match fs::symlink_metadata(&at) {
                Ok(meta) if meta.is_dir() => {}
                Ok(_) => return Err(changed(path)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.make_directory(&at.clone())?,
                Err(error) => return Err(FilesError::io("cannot read", &at)(error).into()),
            }
        }
        Ok(())
    }

    fn make_directory(&mut self, path: &Path) -> Result<(), WriteError> {
        fs::create_dir(path).map_err(FilesError::io("cannot make", path))?;
        self.done.push(Done::MadeDirectory(path.to_owned()));
        Ok(())
    }

    /// Removes the empty directories at `path` and below; anything else in there is an error.
    fn clear_directory(&mut self, path: &[u8]) -> Result<(), WriteError> {
        let full = self.root.join(as_path(path));
        if fs::symlink_metadata(&full).is_err() {
            return Ok(());
        }
        let mut inner = vec![full];
        let mut order = Vec::new();
        while let Some(directory) = inner.pop() {
            for entry in fs::read_dir(&directory).map_err(FilesError::io("cannot read", &directory))? {
                let entry = entry.map_err(FilesError::io("cannot read", &directory))?;
                if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    return Err(changed(path));
                }
                inner.push(entry.path());
            }
            order.push(directory);
        }
        for directory in order.into_iter().rev() {
            self.remove_directory(&directory)?;
            if directory.exists() {
                return Err(changed(path));
            }
        }
        Ok(())
    }

    fn remove_empty_above(&mut self, path: &[u8]) -> Result<(), WriteError> {
        let full = self.root.join(as_path(path));
        let root = self.root;
        for directory in full.ancestors().skip(1).take_while(|d| *d != root) {
            match fs::read_dir(directory).map(|mut entries| entries.next().is_none()) {
                Ok(true) => self.remove_directory(directory)?,
                Ok(false) => break,
                // Gone already, with another path's parents.
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Removes one directory if it is empty.
    fn remove_directory(&mut self, path: &Path) -> Result<(), WriteError> {
        let Ok(meta) = fs::symlink_metadata(path) else { return Ok(()) };
        let time = |seconds, nanoseconds: i64| rustix::fs::Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
        let times = rustix::fs::Timestamps {
            last_access: time(meta.atime(), meta.atime_nsec()),
            last_modification: time(meta.mtime(), meta.mtime_nsec()),
        };
        match fs::remove_dir(path) {
            Ok(()) => {
                self.done.push(Done::RemovedDirectory { path: path.to_owned(), mode: meta.mode() & 0o7777, times });
                Ok(())
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotFound) => Ok(()),
            Err(error) => Err(FilesError::io("cannot remove", path)(error).into()),
        }
    }

    /// Takes back what was done, the last thing first.
    fn put_back(&mut self) -> Result<(), WriteError> {
        self.finished = true;
        let mut first_failure = None;
        while let Some(done) = self.done.pop() {
            let (path, result) = match done {
                Done::Added { target, from } => {
                    let result = rename(&target, &from, RenameFlags::NOREPLACE).map_err(io::Error::from);
                    (target, result)
                }
                Done::Exchanged { target, other } => {
                    let result = rename(&other, &target, RenameFlags::EXCHANGE).map_err(io::Error::from);
                    (target, result)
                }
                Done::Moved { target, to } => {
                    let result = rename(&to, &target, RenameFlags::NOREPLACE).map_err(io::Error::from);
                    (target, result)
                }
                Done::MadeDirectory(path) => {
                    let result = match fs::remove_dir(&path) {
                        // Somebody put a file there meanwhile: it stays.
                        Err(e) if matches!(e.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotFound) => {
                            Ok(())
                        }
                        other => other,
                    };
                    (path, result)
                }
                Done::RemovedDirectory { path, mode, times } => {
                    let made = fs::DirBuilder::new().mode(mode).create(&path);
                    let result = made.and_then(|()| {
                        rustix::fs::utimensat(CWD, &path, &times, rustix::fs::AtFlags::empty()).map_err(io::Error::from)
                    });
                    (path, result)
                }
            };
            if let Err(error) = result {
                first_failure.get_or_insert((path, error));
            }
        }
        match first_failure {
            None => Ok(()),
            Some((path, error)) => {
                Err(WriteError::NotPutBack { path, why: error.to_string(), kept: self.stage.keep() })
            }
        }
    }

    /// Stat data for the index of a path that was written: that of the file there now, if nobody
    /// wrote to it since it was staged.
    pub(super) fn stat_of_new(&self, path: &[u8]) -> Option<IndexStat> {
        let staged = self.stage.stat(path)?;
        let now = IndexStat::of(&rustix::fs::lstat(self.root.join(as_path(path))).ok()?);
        // The swap itself changes only the ctime.
        (IndexStat { ctime: staged.ctime, ..now } == *staged).then_some(now)
    }

    /// Takes everything back.
    pub(crate) fn undo(mut self) -> Result<(), WriteError> {
        self.put_back()
    }

    /// Makes it last. `late` is handed each swapped-out file whose bytes are no longer those that
    /// were swapped out: somebody wrote to it through a descriptor opened before. Where that fails, what
    /// was swapped out stays, and the error says where.
    pub(crate) fn keep(mut self, mut late: impl FnMut(&SwappedOut) -> Result<(), GitError>) -> Result<(), String> {
        self.finished = true;
        let mut check = |out: &SwappedOut| match raw_id_at(&out.file)? {
            raw if raw == out.raw => Ok(()),
            _ => late(out),
        };
        let failed = std::mem::take(&mut self.out).iter().find_map(|out| check(out).err());
        failed.map_or(Ok(()), |error| Err(format!("{error}; it is kept in {}", crate::git::show(self.stage.keep()))))
    }
}

impl Drop for Swap<'_> {
    fn drop(&mut self) {
        if !self.finished
            && let Err(error) = self.put_back()
        {
            tracing::error!(%error, "the directory could not be put back");
        }
    }
}

fn rename(from: &Path, to: &Path, flags: RenameFlags) -> Result<(), Errno> {
    match rustix::fs::renameat_with(CWD, from, CWD, to, flags) {
        // Where the flag is unknown, a hard link never replaces either.
        Err(Errno::INVAL | Errno::NOSYS) if flags == RenameFlags::NOREPLACE => {
            rustix::fs::linkat(CWD, from, CWD, to, rustix::fs::AtFlags::empty())?;
            rustix::fs::unlink(from)
        }
        other => other,
    }
}

/// What stands at the target is not what the plan saw, or the system refused.
fn raced(path: &[u8], target: &Path, error: Errno) -> WriteError {
    match error {
        Errno::EXIST | Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::NOTEMPTY => changed(path),
        error => FilesError::io("cannot replace", target)(error.into()).into(),
    }
}

fn changed(path: &[u8]) -> WriteError {
    WriteError::Conflicts(vec![conflict(path, "changed meanwhile", "the file changed while the fold ran")])
}
