//! A merge that leaves what can't be combined to a person: the tree that `git merge-tree --write-tree`
//! writes for a conflict, with markers in the files.

use super::program::merge_tree_marked;
use super::{Bases, Conflict, Side};
use crate::control::Control;
use crate::git::quarantine::Quarantine;
use crate::git::repository::Repo;
use crate::git::tree::{Item, MODE_GITLINK, MODE_TREE, Objects};
use crate::git::{GitError, Oid};

/// What the sides are called in the markers.
pub(crate) struct Labels<'a> {
    pub(crate) ours: &'a str,
    pub(crate) theirs: &'a str,
}

/// A merge with markers.
#[derive(Debug)]
pub(crate) struct Marked {
    pub(crate) tree: Oid,
    pub(crate) conflicts: Vec<Conflict>,
}

/// Merges `theirs` into `ours` by the git program, which has to be there.
pub(crate) fn with_markers(
    repo: &Repo,
    quarantine: &Quarantine,
    bases: &Bases,
    ours: Side,
    theirs: Side,
    labels: &Labels<'_>,
    control: &Control,
) -> Result<Marked, GitError> {
    let commits = super::commits(quarantine, bases, [ours, theirs])?;
    let merged = merge_tree_marked(repo, &quarantine.enter(repo.git())?, commits, control);
    quarantine.discard(&commits)?;
    let Some((tree, mut conflicts)) = merged? else {
        return Err(GitError::Format { what: "a merge with markers: git 2.38 or newer is needed on PATH".to_owned() });
    };
    super::report::who_did_what(quarantine, bases.any, ours.tree, theirs.tree, &mut conflicts, control)?;
    let names = [(commits[0].to_string(), labels.ours), (commits[1].to_string(), labels.theirs)];
    let tree = relabelled(quarantine, ours.tree, tree, &names)?;
    Ok(Marked { tree, conflicts })
}

/// git calls the sides by the ids of commits that nobody will ever see: in markers, and in names of
/// files that it moved out of each other's way.
fn relabelled(quarantine: &Quarantine, ours: Oid, marked: Oid, names: &[(String, &str)]) -> Result<Oid, GitError> {
    let store = quarantine.store().open();
    let mut updates: Vec<(Vec<u8>, Option<Item>)> = Vec::new();
    for change in quarantine.changes(ours, marked)? {
        let Some(new) = change.new.filter(|new| new.mode != MODE_TREE) else { continue };
        let path = names.iter().fold(change.path.clone(), |path, (id, name)| replaced(&path, id.as_bytes(), name));
        let mut id = new.id;
        if new.mode != MODE_GITLINK {
            let content = quarantine.blob(new.id)?;
            let text = names.iter().fold(content.clone(), |text, (id, name)| replaced(&text, id.as_bytes(), name));
            if text != content {
                id = store.write(&text)?;
            }
        }
        if path != change.path {
            updates.push((change.path, None));
            updates.push((path, Some(Item { mode: new.mode, id })));
        } else if id != new.id {
            updates.push((path, Some(Item { mode: new.mode, id })));
        }
    }
    if updates.is_empty() {
        return Ok(marked);
    }
    let updates: Vec<(&[u8], Option<Item>)> = updates.iter().map(|(path, item)| (path.as_slice(), *item)).collect();
    store.updated_tree(marked, &updates)
}

fn replaced(text: &[u8], id: &[u8], name: &str) -> Vec<u8> {
    let mut result = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.windows(id.len()).position(|window| window == id) {
        result.extend_from_slice(&rest[..at]);
        result.extend_from_slice(name.as_bytes());
        rest = &rest[at + id.len()..];
    }
    result.extend_from_slice(rest);
    result
}
