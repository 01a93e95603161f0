//! The trivial merge: three trees, descended only where their ids differ. It stands where git's own
//! merge can come to nothing else, and costs what changed.

use std::collections::{BTreeMap, BTreeSet};

use crate::git::quarantine::Quarantine;
use crate::git::tree::{Change, Item, Objects};
use crate::git::{GitError, Oid};

/// The merge of two trees with one base, where no path is changed on both sides, none clashes as file
/// and directory, and renames can't matter; `None` where git has to look.
pub(super) fn merge(quarantine: &Quarantine, base: Oid, ours: Oid, theirs: Oid) -> Result<Option<Oid>, GitError> {
    let our_changes = quarantine.changes(base, ours)?;
    let their_changes = quarantine.changes(base, theirs)?;
    if our_changes.is_empty() {
        return Ok(Some(theirs));
    }
    if their_changes.is_empty() {
        return Ok(Some(ours));
    }
    let (left, right) = (Side::of(&our_changes), Side::of(&their_changes));
    if left.meets(&right) || right.meets(&left) {
        return Ok(None);
    }
    for (one, other) in [(&left, &right), (&right, &left)] {
        if moves_a_directory(quarantine, base, one, other)? {
            return Ok(None);
        }
    }
    let updates: Vec<(&[u8], Option<Item>)> =
        their_changes.iter().map(|change| (change.path.as_slice(), change.new)).collect();
    quarantine.store().open()?.updated_tree(ours, &updates).map(Some)
}

/// What one side did.
pub(super) struct Side<'a> {
    pub(super) changed: BTreeMap<&'a [u8], &'a Change>,
    /// Directories that it deleted something from, at any depth.
    thinned: BTreeSet<&'a [u8]>,
}

impl<'a> Side<'a> {
    pub(super) fn of(changes: &'a [Change]) -> Self {
        let deleted = changes.iter().filter(|change| change.new.is_none());
        Self {
            changed: changes.iter().map(|change| (change.path.as_slice(), change)).collect(),
            thinned: deleted.flat_map(|change| above(&change.path)).collect(),
        }
    }

    /// Whether a change here touches one there: the same path, or a file where the other needs a
    /// directory.
    fn meets(&self, other: &Self) -> bool {
        self.changed
            .keys()
            .any(|path| other.changed.contains_key(path) || above(path).any(|above| other.changed.contains_key(above)))
    }
}

/// Whether `one` may have moved a directory that `other` added to: git moves what was added along.
/// It can only if nothing is left in the directory.
pub(super) fn moves_a_directory(
    quarantine: &Quarantine,
    base: Oid,
    one: &Side<'_>,
    other: &Side<'_>,
) -> Result<bool, GitError> {
    if one.thinned.is_empty() {
        return Ok(false);
    }
    let added = other.changed.values().filter(|change| change.old.is_none());
    let candidates: BTreeSet<&[u8]> =
        added.flat_map(|change| above(&change.path)).filter(|directory| one.thinned.contains(directory)).collect();
    for directory in candidates {
        let Some(item) = quarantine.item_at(base, directory)? else { continue };
        let empty = crate::git::tree::empty_tree()?;
        let left = quarantine.changes(empty, item.id)?.into_iter().any(|file| {
            let path = crate::files::join(directory, &file.path);
            one.changed.get(path.as_slice()).is_none_or(|change| change.new.is_some())
        });
        if !left {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The directories above a path, the nearest first.
pub(super) fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = path;
    std::iter::from_fn(move || {
        let slash = rest.iter().rposition(|b| *b == b'/')?;
        rest = &rest[..slash];
        Some(rest)
    })
}
