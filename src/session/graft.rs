//! A change of the working files, carried over to something else that differs from them: the index,
//! where the user staged less than is on the disk, or HEAD.

use std::collections::BTreeMap;

use super::SessionError;
use crate::combine::{self, Bases, Combined, MergeEngine, Side};
use crate::control::Control;
use crate::git::Oid;
use crate::git::index_file::{Entry, IndexFile};
use crate::git::merge_file;
use crate::git::quarantine::Quarantine;
use crate::git::repository::Repo;
use crate::git::tree::{Change, Item, MODE_EXECUTABLE, MODE_FILE, Objects};

/// What a change does elsewhere.
#[derive(Debug, Default)]
pub(super) struct Grafted {
    /// Every path that changes there, with what it is afterwards.
    pub(super) paths: BTreeMap<Vec<u8>, Option<Item>>,
    /// Paths that can't take the change.
    pub(super) refused: Vec<Vec<u8>>,
}

/// Carries the step from the tree `before` to the tree `after` over to the tree `onto`.
pub(super) fn graft(
    repo: &Repo,
    quarantine: &Quarantine,
    (before, after): (Oid, Oid),
    onto: Oid,
    control: &Control,
) -> Result<Grafted, SessionError> {
    // git's own merge knows of renames; where it is of two minds each path is looked at by itself.
    let base = combine::Side { tree: before, head: None };
    let merged = merge_trees(repo, quarantine, base, onto, after, control)?;
    let mut grafted = Grafted::default();
    if let Some(tree) = merged {
        grafted.paths = quarantine.changes(onto, tree)?.into_iter().map(|change| (change.path, change.new)).collect();
        return Ok(grafted);
    }
    for change in quarantine.changes(before, after)? {
        let there = quarantine.item_at(onto, &change.path)?;
        match one(quarantine, &change, there)? {
            Fate::Becomes(item) => drop(grafted.paths.insert(change.path, item)),
            Fate::Refused => grafted.refused.push(change.path),
        }
    }
    Ok(grafted)
}

/// The merge of two trees whose one base is a third; `None` where it conflicts.
fn merge_trees(
    repo: &Repo,
    quarantine: &Quarantine,
    base: Side,
    ours: Oid,
    theirs: Oid,
    control: &Control,
) -> Result<Option<Oid>, SessionError> {
    let who = crate::git::identity::Identity::of_isofold()?;
    let commit = quarantine.commit(base.tree, &[], "base of a merge", &who.author, &who.committer)?;
    let bases = Bases { entry: Some(commit), sole: Some(base.tree), any: Some(base.tree) };
    let side = |tree| Side { tree, head: None };
    let combined = combine::combine(repo, quarantine, &bases, side(ours), side(theirs), MergeEngine::Auto, control)?;
    quarantine.discard(&[commit])?;
    Ok(match combined {
        Combined::Clean { tree, .. } => Some(tree),
        Combined::Conflict { .. } => None,
    })
}

/// What a change makes of one path elsewhere.
enum Fate {
    Becomes(Option<Item>),
    Refused,
}

/// What one path becomes where it is `there` now.
fn one(quarantine: &Quarantine, change: &Change, there: Option<Item>) -> Result<Fate, SessionError> {
    if there == change.old || there == change.new {
        return Ok(Fate::Becomes(change.new));
    }
    let (Some(old), Some(new), Some(there)) = (change.old, change.new, there) else { return Ok(Fate::Refused) };
    let regular = |item: Item| item.mode == MODE_FILE || item.mode == MODE_EXECUTABLE;
    if ![old, new, there].into_iter().all(regular) {
        return Ok(Fate::Refused);
    }
    let mode = if old.mode == new.mode { there.mode } else { new.mode };
    if old.id == new.id {
        return Ok(Fate::Becomes(Some(Item { mode, id: there.id })));
    }
    if old.id == there.id {
        return Ok(Fate::Becomes(Some(Item { mode, id: new.id })));
    }
    let (base, ours, theirs) = (quarantine.blob(old.id)?, quarantine.blob(there.id)?, quarantine.blob(new.id)?);
    let Some(merged) = merge_file::agreed(&base, &ours, &theirs)? else { return Ok(Fate::Refused) };
    let id = quarantine.store().open().write(&merged)?;
    Ok(Fate::Becomes(Some(Item { mode, id })))
}

/// The tree that an index stands for, given the tree of another index of the same directory.
pub(super) fn tree_of_index(
    index: &IndexFile,
    other: (&IndexFile, Oid),
    quarantine: &Quarantine,
) -> Result<Oid, SessionError> {
    let item = |entry: &Entry| Item { mode: entry.mode, id: entry.id };
    // What is only meant to be added is in no tree.
    let counts = |entry: &&Entry| !entry.intent_to_add();
    let mut changes: Vec<(&[u8], Option<Item>)> = Vec::new();
    for entry in index.entries().iter().filter(counts) {
        let path = index.path(entry);
        if other.0.find(path).filter(counts).map(item) != Some(item(entry)) {
            changes.push((path, Some(item(entry))));
        }
    }
    for entry in other.0.entries().iter().filter(counts) {
        let path = other.0.path(entry);
        if !index.find(path).as_ref().is_some_and(counts) {
            changes.push((path, None));
        }
    }
    Ok(quarantine.store().open().updated_tree(other.1, &changes)?)
}
