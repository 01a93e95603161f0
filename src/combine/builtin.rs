//! The merge without the git program: paths by ids, contents by the library, and only where nothing
//! that git would look at can make a difference. What is left is a conflict that says so.

use std::collections::{BTreeMap, BTreeSet};

use super::trivial::{above, moves_a_directory};
use super::{Bases, Combined, Conflict, Side, renames, trivial};
use crate::control::Control;
use crate::files::as_path;
use crate::git::quarantine::Quarantine;
use crate::git::repository::Repo;
use crate::git::settings::merges_specially;
use crate::git::tree::{Change, Item, MODE_EXECUTABLE, MODE_FILE, MODE_GITLINK, Objects};
use crate::git::{GitError, Oid, merge_file, show};

const ENGINE: &str = "libgit2";

/// The kind of a conflict that may be none for git.
pub(crate) const NEEDS_GIT: &str = "needs git";

/// The merge of two trees with one base, or the conflicts.
pub(super) fn merge(
    repo: &Repo,
    quarantine: &Quarantine,
    bases: &Bases,
    ours: Side,
    theirs: Side,
    control: &Control,
) -> Result<Combined, GitError> {
    let conflict = |conflicts: Vec<Conflict>| Ok(Combined::Conflict { conflicts, engine: ENGINE });
    let Some(base) = bases.sole else {
        let why = "the histories have no common commit, or more than one best";
        let paths = match bases.any {
            Some(base) => both_changed(quarantine, base, ours, theirs)?,
            None => Vec::new(),
        };
        return conflict(needs_git(paths, why));
    };
    let (our_changes, their_changes) = (quarantine.changes(base, ours.tree)?, quarantine.changes(base, theirs.tree)?);
    if let Some((paths, why)) = guard(quarantine, base, [&our_changes, &their_changes], control)? {
        return conflict(needs_git(paths, why));
    }
    let left: BTreeMap<&[u8], &Change> = our_changes.iter().map(|c| (c.path.as_slice(), c)).collect();
    let store = quarantine.store().open();
    let mut updates: Vec<(&[u8], Option<Item>)> = Vec::new();
    let mut conflicts = Vec::new();
    for change in &their_changes {
        control.check()?;
        let path = change.path.as_slice();
        let Some(mine) = left.get(path) else {
            updates.push((path, change.new));
            continue;
        };
        if mine.new == change.new {
            continue;
        }
        match one(change.old, mine.new, change.new) {
            Path::Item(item) => updates.push((path, Some(item))),
            Path::Conflict(kind) => {
                conflicts.push(found(path, kind, "both sides changed it in ways that exclude each other"));
            }
            Path::NeedsGit(why) => conflicts.extend(needs_git(vec![path.to_vec()], why)),
            Path::Contents { mode, old, mine, yours } => {
                if merges_specially(repo, [path])? {
                    let why = "a setting or an attribute says how git merges it";
                    conflicts.extend(needs_git(vec![path.to_vec()], why));
                    continue;
                }
                let [old, mine, yours] = [quarantine.blob(old)?, quarantine.blob(mine)?, quarantine.blob(yours)?];
                match merge_file::agreed(&old, &mine, &yours)? {
                    Some(content) => updates.push((path, Some(Item { mode, id: store.write(&content)? }))),
                    None => conflicts.push(found(path, "contents", "both sides changed the same lines")),
                }
            }
        }
    }
    if !conflicts.is_empty() {
        return conflict(conflicts);
    }
    Ok(Combined::Clean { tree: store.updated_tree(ours.tree, &updates)?, engine: ENGINE })
}

/// The merge of two trees that takes our version wherever both sides changed the same lines, and our
/// path wherever they did something else that can't be combined.
pub(crate) fn leaning_to_ours(quarantine: &Quarantine, base: Oid, ours: Oid, theirs: Oid) -> Result<Oid, GitError> {
    let (our_changes, their_changes) = (quarantine.changes(base, ours)?, quarantine.changes(base, theirs)?);
    let left: BTreeMap<&[u8], &Change> = our_changes.iter().map(|c| (c.path.as_slice(), c)).collect();
    let crowded: BTreeSet<&[u8]> =
        our_changes.iter().filter(|c| c.new.is_some()).flat_map(|c| above(&c.path)).collect();
    let store = quarantine.store().open();
    let mut updates: Vec<(&[u8], Option<Item>)> = Vec::new();
    for change in &their_changes {
        let path = change.path.as_slice();
        let Some(mine) = left.get(path) else {
            let blocked = crowded.contains(path)
                || above(path).any(|above| left.get(above).is_some_and(|mine| mine.new.is_some()));
            if !blocked || change.new.is_none() {
                updates.push((path, change.new));
            }
            continue;
        };
        match one(change.old, mine.new, change.new) {
            Path::Item(item) => updates.push((path, Some(item))),
            Path::Contents { mode, old, mine, yours } => {
                let [old, mine, yours] = [quarantine.blob(old)?, quarantine.blob(mine)?, quarantine.blob(yours)?];
                if let Some(content) = merge_file::leaning_to_ours(&old, &mine, &yours)? {
                    updates.push((path, Some(Item { mode, id: store.write(&content)? })));
                }
            }
            Path::Conflict(_) | Path::NeedsGit(_) => {}
        }
    }
    store.updated_tree(ours, &updates)
}

/// What a path that both sides changed, each in its own way, comes to.
enum Path {
    Item(Item),
    Contents { mode: u32, old: Oid, mine: Oid, yours: Oid },
    Conflict(&'static str),
    NeedsGit(&'static str),
}

fn one(old: Option<Item>, mine: Option<Item>, yours: Option<Item>) -> Path {
    if [old, mine, yours].iter().flatten().any(|item| item.mode == MODE_GITLINK) {
        return Path::NeedsGit("both sides moved the submodule");
    }
    let (Some(mine), Some(yours)) = (mine, yours) else { return Path::Conflict("modify/delete") };
    let Some(old) = old else {
        let kind = |item: Item| item.mode & 0o170_000;
        return Path::Conflict(if kind(mine) == kind(yours) { "contents" } else { "distinct modes" });
    };
    let plain = |item: &Item| item.mode == MODE_FILE || item.mode == MODE_EXECUTABLE;
    if ![&old, &mine, &yours].into_iter().all(plain) {
        return Path::Conflict("contents");
    }
    let mode = if mine.mode == old.mode { yours.mode } else { mine.mode };
    if mine.id == yours.id || yours.id == old.id {
        Path::Item(Item { mode, id: mine.id })
    } else if mine.id == old.id {
        Path::Item(Item { mode, id: yours.id })
    } else {
        Path::Contents { mode, old: old.id, mine: mine.id, yours: yours.id }
    }
}

/// Paths that only git can judge, and why.
type Doubt = (Vec<Vec<u8>>, &'static str);

/// What only git can judge, if anything.
fn guard(
    quarantine: &Quarantine,
    base: Oid,
    sides: [&[Change]; 2],
    control: &Control,
) -> Result<Option<Doubt>, GitError> {
    let kind = |item: Item| item.mode & 0o170_000;
    for changes in sides {
        let turned = |c: &&Change| matches!((c.old, c.new), (Some(old), Some(new)) if kind(old) != kind(new));
        let turned: Vec<Vec<u8>> = changes.iter().filter(turned).map(|c| c.path.clone()).collect();
        if !turned.is_empty() {
            return Ok(Some((turned, "it became another kind of file")));
        }
    }
    for (one, other) in [(sides[0], sides[1]), (sides[1], sides[0])] {
        let changed: BTreeSet<&[u8]> = other.iter().map(|c| c.path.as_slice()).collect();
        let clashes: BTreeSet<&[u8]> =
            one.iter().flat_map(|c| above(&c.path)).filter(|above| changed.contains(above)).collect();
        if !clashes.is_empty() {
            let clashes = clashes.into_iter().map(<[u8]>::to_vec).collect();
            return Ok(Some((clashes, "one side has a file where the other has a directory")));
        }
    }
    for changes in sides {
        let Some(pairs) = renames::pairs(quarantine, changes, renames::FOR_SURE, control)? else {
            let gone = changes.iter().filter(|c| c.new.is_none()).map(|c| c.path.clone()).collect();
            return Ok(Some((gone, "so many files came and went that some may be renamed")));
        };
        if !pairs.is_empty() {
            let paths: BTreeSet<Vec<u8>> = pairs.iter().map(|pair| pair.from.to_vec()).collect();
            return Ok(Some((paths.into_iter().collect(), "it may be renamed")));
        }
    }
    let (left, right) = (trivial::Side::of(sides[0]), trivial::Side::of(sides[1]));
    for (one, other) in [(&left, &right), (&right, &left)] {
        if moves_a_directory(quarantine, base, one, other)? {
            let paths = other.changed.values().filter(|c| c.old.is_none()).map(|c| c.path.clone()).collect();
            return Ok(Some((paths, "its directory may be renamed")));
        }
    }
    Ok(None)
}

fn both_changed(quarantine: &Quarantine, base: Oid, ours: Side, theirs: Side) -> Result<Vec<Vec<u8>>, GitError> {
    let mine = quarantine.changes(base, ours.tree)?;
    let mine: BTreeSet<&[u8]> = mine.iter().map(|c| c.path.as_slice()).collect();
    let theirs = quarantine.changes(base, theirs.tree)?;
    Ok(theirs.into_iter().map(|c| c.path).filter(|path| mine.contains(path.as_slice())).collect())
}

fn needs_git(mut paths: Vec<Vec<u8>>, why: &str) -> Vec<Conflict> {
    if paths.is_empty() {
        paths.push(b".".to_vec());
    }
    let detail = format!("{why}: a git 2.38 or newer on PATH is needed to merge it");
    paths.iter().map(|path| found(path, NEEDS_GIT, &detail)).collect()
}

fn found(path: &[u8], kind: &str, detail: &str) -> Conflict {
    Conflict::new(show(as_path(path)), kind, detail)
}
