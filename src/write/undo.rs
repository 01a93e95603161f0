//! Which of two states a directory is in, step by step, and the way to either: taking a swap back, or
//! making sure that it was made. Both go by the [`Apply`] record and by which file stands where, never
//! by memory, so a process that comes after a crash does the same as one that runs into an error.
//!
//! Whatever is not as the record says was done by somebody else: it stays, is named, and what would
//! have stood there is handed to the caller to be saved.

use std::io;
use std::path::PathBuf;

use rustix::fs::{Timespec, Timestamps};
use rustix::io::Errno;

use super::beneath::Beneath;
use super::crash;
use super::journal::{Apply, Deed, StepRecord};
use super::swap::Places;
use crate::files::FilesError;
use crate::git::Oid;
use crate::records::decode_path;

/// What was found beside the record's own files.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Paths at which somebody else's content stays, and is not what the state wants.
    pub(crate) kept: Vec<Vec<u8>>,
    /// Content that has no place in the directory: of which path, and where it is now.
    pub(crate) homeless: Vec<(Vec<u8>, PathBuf)>,
}

/// One step, read.
struct Known<'a> {
    record: &'a StepRecord,
    path: Vec<u8>,
    room: &'a Beneath,
    new: Vec<u8>,
    inode: u64,
    new_raw: Option<Oid>,
    aside: Vec<u8>,
    old_raw: Option<Oid>,
}

/// Where the old file of a step is.
enum Whereabouts {
    /// At its place.
    Home,
    /// In the room, under this name.
    Room(Vec<u8>),
}

impl<'a> Known<'a> {
    fn of(record: &'a StepRecord, places: &'a Places) -> Result<Self, FilesError> {
        let path = decode_path(&record.path);
        let full = places.root.full(&path);
        let damaged =
            || FilesError::io("cannot make out the journal's step for", &full)(io::ErrorKind::InvalidData.into());
        let room = places.rooms.get(record.room).ok_or_else(damaged)?;
        let id = |text: &String| Oid::from_str(text).map_err(|_| damaged());
        let (new, inode, new_raw) = match &record.new {
            Some((name, inode, raw)) => (decode_path(name), *inode, Some(id(raw)?)),
            None => (Vec::new(), 0, None),
        };
        let (aside, old_raw) = match &record.old {
            Some((name, raw)) => (decode_path(name), Some(id(raw)?)),
            None => (Vec::new(), None),
        };
        Ok(Self { record, path, room, new, inode, new_raw, aside, old_raw })
    }

    /// Where the old file is, as far as the rooms tell.
    fn old(&self) -> Result<Whereabouts, FilesError> {
        if inode_in(self.room, &self.aside)?.is_some() {
            return Ok(Whereabouts::Room(self.aside.clone()));
        }
        match inode_in(self.room, &self.new)? {
            Some(inode) if inode != self.inode && self.record.deed == Deed::Replace => {
                Ok(Whereabouts::Room(self.new.clone()))
            }
            _ => Ok(Whereabouts::Home),
        }
    }

    /// Whether the new file stands at its target, as it was staged.
    fn stands(&self, root: &Beneath) -> Result<bool, FilesError> {
        let cannot = |e: io::Error| FilesError::io("cannot read", &root.full(&self.path))(e);
        Ok(self.new_raw.is_some()
            && inode_in(root, &self.path)? == Some(self.inode)
            && root.hash(&self.path).map_err(cannot)? == self.new_raw)
    }
}

fn inode_in(place: &Beneath, name: &[u8]) -> Result<Option<u64>, FilesError> {
    let cannot = |e: Errno| FilesError::io("cannot read", &place.full(name))(e.into());
    if name.is_empty() { Ok(None) } else { Ok(place.stat(name).map_err(cannot)?.map(|stat| stat.st_ino)) }
}

/// Takes back all that was done, whatever part of it was.
pub(crate) fn take_back(apply: &Apply, places: &Places) -> Result<Found, FilesError> {
    let mut found = Found::default();
    let root = &places.root;
    let known = apply.steps.iter().map(|step| Known::of(step, places)).collect::<Result<Vec<_>, _>>()?;
    for step in known.iter().rev().filter(|step| step.record.deed != Deed::Delete) {
        new_away(step, root, &mut found)?;
        crash::point("undo-step");
    }
    for path in apply.made.iter().rev().map(|path| decode_path(path)) {
        // Somebody put a file there meanwhile: it stays.
        root.remove_directory(&path).map_err(|e| FilesError::io("cannot remove", &root.full(&path))(e.into()))?;
    }
    let mut remade = Vec::new();
    for directory in &apply.emptied {
        let path = decode_path(&directory.path);
        if root.stat(&path).ok().flatten().is_none() {
            match root.make_directory(&path, directory.mode) {
                Ok(()) => remade.push((path, directory)),
                // Something of somebody else's is in the way; the files below say so.
                Err(Errno::EXIST | Errno::NOTDIR) => {}
                Err(error) => return Err(FilesError::io("cannot make", &root.full(&path))(error.into())),
            }
        }
    }
    for step in known.iter().rev() {
        old_home(step, root, &mut found)?;
        crash::point("undo-step");
    }
    for (path, directory) in remade.into_iter().rev() {
        let time = |(seconds, nanoseconds)| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
        let (last_access, last_modification) = (time(directory.accessed), time(directory.modified));
        // A time is no reason to fail.
        let _ = root.set_times(&path, &Timestamps { last_access, last_modification });
    }
    Ok(found)
}

/// Whether an error says that somebody else was at the path meanwhile.
pub(super) fn is_race(error: Errno) -> bool {
    matches!(error, Errno::EXIST | Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::NOTEMPTY | Errno::LOOP)
}

/// The first half for a path that got a new file: that one leaves, if it is still there and untouched.
fn new_away(step: &Known<'_>, root: &Beneath, found: &mut Found) -> Result<(), FilesError> {
    let cannot = |e: Errno| FilesError::io("cannot put back", &root.full(&step.path))(e.into());
    let in_room = inode_in(step.room, &step.new)?;
    let exchanged = step.record.deed == Deed::Replace && in_room.is_some_and(|inode| inode != step.inode);
    if exchanged {
        if step.stands(root)? {
            let back = root.slot(&step.path).and_then(|target| target.exchange(&step.room.slot(&step.new)?));
            match back {
                Ok(true) => late(step, &step.new, step.new_raw, found)?,
                // Gone or blocked since we looked: what is left to do is the same as if it had been before.
                Ok(false) => {}
                Err(error) if is_race(error) => {}
                Err(error) => return Err(cannot(error)),
            }
        }
        return Ok(());
    }
    if in_room.is_some() {
        // Not swapped in, or cut off between the two halves of a move without `RENAME_NOREPLACE`.
        if inode_in(root, &step.path)? == in_room {
            root.remove_file(&step.path).map_err(cannot)?;
        }
        return Ok(());
    }
    if step.stands(root)? {
        match root.slot(&step.path).and_then(|target| target.move_to(&step.room.slot(&step.new)?)) {
            Ok(()) => late(step, &step.new, step.new_raw, found)?,
            Err(error) if is_race(error) => {}
            Err(error) => return Err(cannot(error)),
        }
    } else if inode_in(root, &step.path)?.is_some() && step.record.deed == Deed::Add {
        found.kept.push(step.path.clone());
    }
    Ok(())
}

/// The second half: the old file comes home, unless somebody took its place.
fn old_home(step: &Known<'_>, root: &Beneath, found: &mut Found) -> Result<(), FilesError> {
    let Whereabouts::Room(name) = step.old()? else { return Ok(()) };
    let cannot = |e: Errno| FilesError::io("cannot put back", &root.full(&step.path))(e.into());
    let inode = inode_in(step.room, &name)?;
    let moved = step.room.slot(&name).and_then(|from| from.move_to(&root.slot(&step.path)?));
    match moved {
        Ok(()) => {}
        Err(error) if is_race(error) => {
            if inode_in(root, &step.path)? == inode {
                // Cut off between the two halves of a move.
                step.room.remove_file(&name).map_err(cannot)?;
            } else {
                found.kept.push(step.path.clone());
                found.homeless.push((step.path.clone(), step.room.full(&name)));
            }
        }
        Err(error) => return Err(cannot(error)),
    }
    Ok(())
}

/// A file in a room that is not what it was when it left the directory: somebody wrote to it.
fn late(step: &Known<'_>, name: &[u8], raw: Option<Oid>, found: &mut Found) -> Result<(), FilesError> {
    let cannot = |e: io::Error| FilesError::io("cannot read", &step.room.full(name))(e);
    if step.room.hash(name).map_err(cannot)? != raw {
        found.homeless.push((step.path.clone(), step.room.full(name)));
    }
    Ok(())
}

/// Makes sure that all was done, and looks again at every file that was swapped out.
pub(crate) fn make_sure(apply: &Apply, places: &Places) -> Result<Found, FilesError> {
    let mut found = Found::default();
    let root = &places.root;
    for record in &apply.steps {
        let step = Known::of(record, places)?;
        let waits = inode_in(step.room, &step.new)? == Some(step.inode) && record.new.is_some();
        match step.old()? {
            Whereabouts::Room(name) => {
                late(&step, &name, step.old_raw, &mut found)?;
                if waits {
                    // The old one went, the new one did not come: only without an exchange.
                    come(&step, root, &mut found)?;
                }
            }
            Whereabouts::Home if waits => {
                // What the file system forgot of the swap.
                let cannot = |e: io::Error| FilesError::io("cannot read", &root.full(&step.path))(e);
                if record.deed == Deed::Replace {
                    if root.hash(&step.path).map_err(cannot)? == step.old_raw {
                        let swapped =
                            root.slot(&step.path).and_then(|target| target.exchange(&step.room.slot(&step.new)?));
                        swapped.map_err(|e| cannot(e.into()))?;
                    } else {
                        found.kept.push(step.path.clone());
                    }
                } else {
                    come(&step, root, &mut found)?;
                }
            }
            Whereabouts::Home => {}
        }
        crash::point("redo-step");
    }
    Ok(found)
}

/// Moves a new file to its target, unless somebody else stands there.
fn come(step: &Known<'_>, root: &Beneath, found: &mut Found) -> Result<(), FilesError> {
    let cannot = |e: Errno| FilesError::io("cannot write", &root.full(&step.path))(e.into());
    for at in (0..step.path.len()).filter(|at| step.path[*at] == b'/') {
        match root.make_directory(&step.path[..at], 0o777) {
            Ok(()) | Err(Errno::EXIST | Errno::NOTDIR) => {}
            Err(error) => return Err(cannot(error)),
        }
    }
    match step.room.slot(&step.new).and_then(|from| from.move_to(&root.slot(&step.path)?)) {
        Ok(()) => Ok(()),
        Err(error) if is_race(error) => {
            found.kept.push(step.path.clone());
            Ok(())
        }
        Err(error) => Err(cannot(error)),
    }
}
