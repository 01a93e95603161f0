//! The trivial merge: three trees, descended only where their ids differ. It stands where git's own
//! merge can come to nothing else, and costs what changed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::control::Control;
use crate::git::blobs::tree_of_items;
use crate::git::quarantine::Quarantine;
use crate::git::tree::{Change, Item, MODE_TREE, Objects, Trees, empty_tree, hash_tree};
use crate::git::{GitError, Oid};

/// The merge of two trees with one base, where each entry is changed on one side only, or by both to the
/// same file; `None` where git has to look.
///
/// Renames can't matter then. git follows a file to its new name only if the other side changed it, which
/// is a change on both sides here. It moves what one side added along with a directory only if the other
/// side has that directory no more, which is one too: the directory is in the base and changed by both.
pub(super) fn merge(
    quarantine: &Quarantine,
    base: Oid,
    ours: Oid,
    theirs: Oid,
    control: &Control,
) -> Result<Option<Oid>, GitError> {
    if ours == theirs || theirs == base {
        return Ok(Some(ours));
    }
    if ours == base {
        return Ok(Some(theirs));
    }
    let level = Level { trees: &quarantine.trees()?, made: RefCell::default(), control };
    let empty = empty_tree()?;
    let some = |id: Oid| Some(id).filter(|id| *id != empty);
    let tree = match level.merge(some(base), some(ours), some(theirs))? {
        Merged::Tree(tree) => tree,
        Merged::Nothing => level.make(Vec::new())?,
        Merged::Unknown => return Ok(None),
    };
    // Only now: where git has to look, none of them is wanted.
    let store = quarantine.store().open();
    level.made.borrow().iter().try_for_each(|content| store.write_made_tree(content).map(drop))?;
    Ok(Some(tree))
}

/// What three directories come to.
enum Merged {
    Tree(Oid),
    /// No entry is left.
    Nothing,
    /// git has to look.
    Unknown,
}

struct Level<'a> {
    trees: &'a Trees<'a>,
    /// The trees that make up the result.
    made: RefCell<Vec<Vec<u8>>>,
    control: &'a Control,
}

impl Level<'_> {
    fn merge(&self, base: Option<Oid>, ours: Option<Oid>, theirs: Option<Oid>) -> Result<Merged, GitError> {
        self.control.check()?;
        let read = [self.trees.read(base)?, self.trees.read(ours)?, self.trees.read(theirs)?];
        let [Some(base), Some(ours), Some(theirs)] = [read[0].items()?, read[1].items()?, read[2].items()?] else {
            return Ok(Merged::Unknown);
        };
        let mut lists = [base.as_slice(), ours.as_slice(), theirs.as_slice()];
        let mut merged: Vec<(&[u8], Item)> = Vec::with_capacity(ours.len() + 8);
        while let Some(name) = lists.iter().filter_map(|list| list.first()).map(|(name, _)| *name).min() {
            let [base, ours, theirs] = lists.each_mut().map(|list| match list.split_first() {
                Some(((first, item), rest)) if *first == name => {
                    *list = rest;
                    Some(*item)
                }
                _ => None,
            });
            let file = |item: Option<Item>| item.is_some_and(|item| item.mode != MODE_TREE);
            let tree = |item: Option<Item>| item.filter(|item| item.mode == MODE_TREE).map(|item| item.id);
            if theirs == base || (ours == theirs && file(base) && file(ours)) {
                merged.extend(ours.map(|item| (name, item)));
            } else if ours == base {
                merged.extend(theirs.map(|item| (name, item)));
            } else if tree(ours).is_some() && tree(theirs).is_some() && !file(base) {
                match self.merge(tree(base), tree(ours), tree(theirs))? {
                    Merged::Tree(id) => merged.push((name, Item { mode: MODE_TREE, id })),
                    Merged::Nothing => {}
                    Merged::Unknown => return Ok(Merged::Unknown),
                }
            } else {
                return Ok(Merged::Unknown);
            }
        }
        if merged.is_empty() { Ok(Merged::Nothing) } else { self.make(merged).map(Merged::Tree) }
    }

    fn make(&self, items: Vec<(&[u8], Item)>) -> Result<Oid, GitError> {
        let content = tree_of_items(items);
        let id = hash_tree(&content)?;
        self.made.borrow_mut().push(content);
        Ok(id)
    }
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
