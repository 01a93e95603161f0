//! The swap: staged files into place, what stood there out of the way, each step checked.
//!
//! What a swap will do is written down first, as an [`Apply`] record: from it, and from which file
//! stands where, [`super::undo`] can tell at any moment what was done.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::beneath::{Beneath, is_directory};
use super::journal::{Apply, Deed, DirectoryRecord, StepRecord};
use super::plan::{Old, Plan, Step};
use super::stage::Stage;
use super::{WriteError, conflict, crash};
use crate::control::Control;
use crate::files::{FilesError, as_path};
use crate::git::GitError;
use crate::git::index_file::IndexStat;
use crate::records::{decode_path, encode_path};

/// The directory and the rooms, held open.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) root: Beneath,
    pub(super) rooms: Vec<Beneath>,
}

impl Places {
    pub(super) fn open(root: &std::path::Path, rooms: &[PathBuf]) -> Result<Self, FilesError> {
        let open = |path: &std::path::Path| Beneath::open(path).map_err(FilesError::io("cannot open", path));
        Ok(Self { root: open(root)?, rooms: rooms.iter().map(|room| open(room)).collect::<Result<_, _>>()? })
    }
}

/// Writes down what a plan will do: files, and the directories that come and go with them.
pub(super) fn record(plan: &Plan, stage: &Stage, places: &Places) -> Result<Apply, WriteError> {
    let root = &places.root;
    let cannot = |path: &[u8], error: Errno| FilesError::io("cannot read", &root.full(path))(error.into());
    let mut apply = Apply::default();
    let mut made = std::collections::BTreeSet::new();
    let mut emptied = BTreeMap::new();
    for (number, step) in plan.steps.iter().enumerate() {
        let (deed, path, old) = match step {
            Step::Add { path, .. } => (Some(Deed::Add), path, None),
            Step::Replace { path, old, .. } => (Some(Deed::Replace), path, Some(old)),
            Step::Delete { path, old } => (Some(Deed::Delete), path, Some(old)),
            Step::Submodule { path, .. } => (None, path, None),
        };
        let comes = matches!(step, Step::Add { .. } | Step::Submodule { comes: true, .. });
        for at in (0..path.len()).filter(|at| path[*at] == b'/') {
            let above = &path[..at];
            let stat = root.stat(above).map_err(|e| cannot(above, e))?;
            match stat.filter(is_directory) {
                Some(stat) if !comes => drop(emptied.insert(above.to_vec(), stat)),
                Some(_) => {}
                None => drop(made.insert(above.to_vec())),
            }
        }
        let stands = root.stat(path).map_err(|e| cannot(path, e))?.filter(is_directory);
        match step {
            Step::Add { .. } | Step::Submodule { .. } => {
                if let Some(stat) = stands {
                    emptied.insert(path.clone(), stat);
                    below(root, path, &mut emptied)?;
                }
                if matches!(step, Step::Submodule { comes: true, .. }) {
                    made.insert(path.clone());
                }
            }
            _ => {}
        }
        let (Some(deed), Some((place, new))) = (deed, stage.of(path)) else { continue };
        apply.steps.push(StepRecord {
            deed,
            path: encode_path(path),
            room: place,
            new: new.map(|new| (encode_path(&new.name), new.inode, new.raw.to_string())),
            old: old.map(|old| (format!("old-{number}"), old.raw.to_string())),
        });
    }
    apply.made = made.iter().map(|path| encode_path(path)).collect();
    apply.emptied = emptied.iter().map(|(path, stat)| directory_record(path, stat)).collect();
    Ok(apply)
}

#[allow(
    clippy::cast_possible_wrap,
    clippy::unnecessary_cast,
    reason = "the types of a stat differ from system to system"
)]
fn directory_record(path: &[u8], stat: &Stat) -> DirectoryRecord {
    DirectoryRecord {
        path: encode_path(path),
        mode: stat.st_mode & 0o7777,
        accessed: (stat.st_atime as i64, stat.st_atime_nsec as i64),
        modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
    }
}

fn below(root: &Beneath, path: &[u8], found: &mut BTreeMap<Vec<u8>, Stat>) -> Result<(), WriteError> {
    let cannot = |error: Errno| FilesError::io("cannot read", &root.full(path))(error.into());
    for (inner, directory) in root.entries(path).map_err(cannot)? {
        if directory && let Some(stat) = root.stat(&inner).map_err(cannot)? {
            found.insert(inner.clone(), stat);
            below(root, &inner, found)?;
        }
    }
    Ok(())
}

/// Carries out a plan that was written down as `apply`. On an error the caller takes it back.
pub(super) fn carry_out(plan: &Plan, apply: &Apply, places: &Places, control: &Control) -> Result<(), WriteError> {
    let records: BTreeMap<Vec<u8>, &StepRecord> = apply.steps.iter().map(|s| (decode_path(&s.path), s)).collect();
    let swap = Swap { places, records };
    // What goes makes room for what comes.
    for step in &plan.steps {
        control.check().map_err(GitError::from)?;
        match step {
            Step::Delete { path, old } => swap.delete(path, old)?,
            Step::Submodule { path, comes: false } => drop(swap.remove_directory(path)?),
            _ => {}
        }
    }
    for step in &plan.steps {
        if let Step::Delete { path, .. } | Step::Submodule { path, comes: false } = step {
            swap.remove_empty_above(path)?;
        }
    }
    for step in &plan.steps {
        control.check().map_err(GitError::from)?;
        match step {
            Step::Add { path, .. } => swap.add(path)?,
            Step::Replace { path, old, .. } => swap.replace(path, old)?,
            Step::Submodule { path, comes: true } => {
                swap.make_above(path)?;
                swap.clear_directory(path)?;
                swap.make_directory(path)?;
            }
            _ => {}
        }
    }
    Ok(())
}

struct Swap<'a> {
    places: &'a Places,
    records: BTreeMap<Vec<u8>, &'a StepRecord>,
}

impl Swap<'_> {
    fn root(&self) -> &Beneath {
        &self.places.root
    }

    /// The room of a path's files with the name of its new file, and the name that its old one gets.
    fn room(&self, path: &[u8]) -> Result<(&Beneath, Vec<u8>, Vec<u8>), WriteError> {
        let found = self.records.get(path).and_then(|record| {
            let new = record.new.as_ref().map(|(name, ..)| decode_path(name)).unwrap_or_default();
            let old = record.old.as_ref().map(|(name, _)| decode_path(name)).unwrap_or_default();
            Some((self.places.rooms.get(record.room)?, new, old))
        });
        let full = self.root().full(path);
        let missing = || FilesError::io("cannot find the staged file of", &full)(io::ErrorKind::NotFound.into());
        found.ok_or_else(|| missing().into())
    }

    fn delete(&self, path: &[u8], old: &Old) -> Result<(), WriteError> {
        let (room, _, aside) = self.room(path)?;
        let moved = self.root().slot(path).and_then(|target| target.move_to(&room.slot(&aside)?));
        moved.map_err(|e| self.raced(path, e))?;
        crash::point("deleted");
        Self::verify(path, room, &aside, old)
    }

    fn replace(&self, path: &[u8], old: &Old) -> Result<(), WriteError> {
        let (room, new, _) = self.room(path)?;
        let exchanged = if crash::without_exchange() {
            Ok(false)
        } else {
            self.root().slot(path).and_then(|target| target.exchange(&room.slot(&new)?))
        };
        match exchanged {
            Ok(true) => {
                crash::point("replaced");
                Self::verify(path, room, &new, old)
            }
            // No exchange on this file system: the old one aside, then the new one into the gap.
            Ok(false) => {
                self.delete(path, old)?;
                self.add(path)
            }
            Err(error) => Err(self.raced(path, error)),
        }
    }

    fn add(&self, path: &[u8]) -> Result<(), WriteError> {
        self.make_above(path)?;
        let (room, new, _) = self.room(path)?;
        if self.root().stat(path).map_err(|e| self.raced(path, e))?.is_some_and(|stat| is_directory(&stat)) {
            self.clear_directory(path)?;
        }
        let moved = room.slot(&new).and_then(|from| from.move_to(&self.root().slot(path)?));
        moved.map_err(|e| self.raced(path, e))?;
        crash::point("added");
        Ok(())
    }

    /// What was swapped out has to be what the plan saw.
    fn verify(path: &[u8], room: &Beneath, name: &[u8], old: &Old) -> Result<(), WriteError> {
        let cannot = |error| FilesError::io("cannot read", &room.full(name))(error);
        let stat = room.stat(name).map_err(|e| cannot(e.into()))?;
        let same = |stat: &Stat| {
            let kind = FileType::from_raw_mode(stat.st_mode);
            kind == FileType::from_raw_mode(old.mode)
                && (kind == FileType::Symlink || stat.st_mode & 0o100 == old.mode & 0o100)
        };
        let as_seen = stat.as_ref().is_some_and(same) && room.hash(name).map_err(cannot)? == Some(old.raw);
        if as_seen { Ok(()) } else { Err(changed(path)) }
    }

    fn make_above(&self, path: &[u8]) -> Result<(), WriteError> {
        for at in (0..path.len()).filter(|at| path[*at] == b'/') {
            let above = &path[..at];
            match self.root().stat(above).map_err(|e| self.raced(path, e))? {
                Some(stat) if is_directory(&stat) => {}
                Some(_) => return Err(changed(path)),
                None => self.make_directory(above)?,
            }
        }
        Ok(())
    }

    fn make_directory(&self, path: &[u8]) -> Result<(), WriteError> {
        // The umask has its say.
        self.root().make_directory(path, 0o777).map_err(|e| self.raced(path, e))?;
        crash::point("directory-made");
        Ok(())
    }

    /// Removes the empty directories at `path` and below; anything else in there is an error.
    fn clear_directory(&self, path: &[u8]) -> Result<(), WriteError> {
        if self.root().stat(path).map_err(|e| self.raced(path, e))?.is_none() {
            return Ok(());
        }
        for (inner, directory) in self.root().entries(path).map_err(|e| self.raced(path, e))? {
            if !directory {
                return Err(changed(path));
            }
            self.clear_directory(&inner)?;
        }
        if self.remove_directory(path)? { Ok(()) } else { Err(changed(path)) }
    }

    fn remove_empty_above(&self, path: &[u8]) -> Result<(), WriteError> {
        for at in (0..path.len()).rev().filter(|at| path[*at] == b'/') {
            if !self.remove_directory(&path[..at])? {
                break;
            }
        }
        Ok(())
    }

    /// Removes one directory if it is empty; whether it is gone.
    fn remove_directory(&self, path: &[u8]) -> Result<bool, WriteError> {
        let cannot = |error: Errno| FilesError::io("cannot remove", &self.root().full(path))(error.into());
        let gone = self.root().remove_directory(path).map_err(cannot)?;
        if gone {
            crash::point("directory-removed");
        }
        Ok(gone)
    }

    /// What stands at the target is not what the plan saw, or the system refused.
    fn raced(&self, path: &[u8], error: Errno) -> WriteError {
        if super::undo::is_race(error) {
            changed(path)
        } else {
            FilesError::io("cannot replace", &self.root().full(path))(error.into()).into()
        }
    }
}

/// Stat data for the index of a path that was written: that of the file there now, if nobody wrote to
/// it since it was staged.
pub(super) fn stat_of_new(stage: &Stage, root: &Beneath, path: &[u8]) -> Option<IndexStat> {
    let staged = stage.of(path)?.1?;
    let now = IndexStat::of(&root.stat(path).ok()??);
    // The swap itself changes only the ctime.
    (IndexStat { ctime: staged.stat.ctime, ..now } == staged.stat).then_some(now)
}

fn changed(path: &[u8]) -> WriteError {
    WriteError::Conflicts(vec![conflict(path, "changed meanwhile", "the file changed while the fold ran")])
}

/// The directories whose entries a swap changes, to be synced.
pub(super) fn touched(apply: &Apply, places: &Places) -> Vec<PathBuf> {
    let mut touched: Vec<PathBuf> = Vec::new();
    for path in apply.steps.iter().map(|step| &step.path).chain(&apply.made) {
        let full = places.root.path().join(as_path(&decode_path(path)));
        touched.extend(full.parent().map(std::path::Path::to_owned));
    }
    for directory in &apply.emptied {
        let full = places.root.path().join(as_path(&decode_path(&directory.path)));
        touched.extend([full.parent().map(std::path::Path::to_owned), Some(full)].into_iter().flatten());
    }
    touched.sort();
    touched.dedup();
    touched
}
