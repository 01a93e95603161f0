//! Trees: what they list, what differs between two of them, and what stands at one path.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use git2::{ObjectType, Odb, OdbObject, Repository};

use super::pack::{Kind, Naming, name_of};
use super::quarantine::Quarantine;
use super::repository::Repo;
use super::{Act, GitError, Oid};
use crate::control::Control;

/// Mode and id of a tree's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) mode: u32,
    pub(crate) id: Oid,
}

pub(crate) const MODE_TREE: u32 = 0o040_000;
pub(crate) const MODE_LINK: u32 = 0o120_000;
pub(crate) const MODE_GITLINK: u32 = 0o160_000;
pub(crate) const MODE_FILE: u32 = 0o100_644;
pub(crate) const MODE_EXECUTABLE: u32 = 0o100_755;

/// Bytes of an id in a tree.
const HASH: usize = 20;

/// A path that differs between two trees; `None` where a side does not have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) path: Vec<u8>,
    pub(crate) old: Option<Item>,
    pub(crate) new: Option<Item>,
}

/// Something that objects can be read from.
pub(crate) trait Objects {
    #[doc(hidden)]
    fn store(&self) -> Result<&Repository, GitError>;

    /// The files (never trees) that differ between two trees, in path order of bytes.
    fn changes(&self, old: Oid, new: Oid) -> Result<Vec<Change>, GitError> {
        let mut changes = Vec::new();
        descend(self.store()?, Some(old), Some(new), &mut Vec::new(), &mut changes)?;
        changes.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(changes)
    }

    /// A reader of whole trees.
    fn trees(&self) -> Result<Trees<'_>, GitError> {
        Trees::of(self.store()?)
    }

    /// The content of a blob.
    fn blob(&self, id: Oid) -> Result<Vec<u8>, GitError> {
        let blob = self.store()?.find_blob(id).act(|| format!("cannot read blob {id}"))?;
        Ok(blob.content().to_vec())
    }

    /// Writes the content of a blob to `out`, whose path is `path`; in pieces where that can be.
    fn copy_blob(&self, id: Oid, out: &mut dyn Write, path: &Path, control: &Control) -> Result<(), GitError> {
        control.check()?;
        out.write_all(&self.blob(id)?).map_err(GitError::io("cannot write", path))
    }

    /// Mode and id of `path` in `tree`; a directory counts too.
    fn item_at(&self, tree: Oid, path: &[u8]) -> Result<Option<Item>, GitError> {
        let act = || format!("cannot read tree {tree}");
        let mut at = Item { mode: MODE_TREE, id: tree };
        for name in path.split(|b| *b == b'/') {
            if at.mode != MODE_TREE {
                return Ok(None);
            }
            let tree = self.store()?.find_tree(at.id).act(act)?;
            let found = tree.iter().find(|entry| entry.name_bytes() == name);
            match found {
                Some(entry) => at = Item { mode: mode_of(entry.filemode_raw()), id: entry.id() },
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }
}

impl Objects for Repo {
    fn store(&self) -> Result<&Repository, GitError> {
        Ok(self.library())
    }
}

impl Objects for Quarantine {
    fn store(&self) -> Result<&Repository, GitError> {
        self.repository()
    }

    fn copy_blob(&self, id: Oid, out: &mut dyn Write, path: &Path, control: &Control) -> Result<(), GitError> {
        if self.copy_big(id, out, path, control)? {
            return Ok(());
        }
        control.check()?;
        out.write_all(&self.blob(id)?).map_err(GitError::io("cannot write", path))
    }
}

/// The id that content would have as a blob.
pub(crate) fn hash_blob(content: &[u8]) -> Result<Oid, GitError> {
    name_of(Kind::Blob, content)
}

/// The id that content has as a tree.
pub(crate) fn hash_tree(content: &[u8]) -> Result<Oid, GitError> {
    name_of(Kind::Tree, content)
}

/// The id that a file would have as a blob as it is. One that changes meanwhile has the id of nothing.
pub(crate) fn hash_file(path: &Path) -> Result<Oid, GitError> {
    File::open(path).and_then(hash_open).map_err(GitError::io("cannot read", path))
}

/// The same for a file that is open at its start; read in pieces, so its size does not matter.
pub(crate) fn hash_open(mut file: File) -> io::Result<Oid> {
    let mut naming = Naming::new(Kind::Blob, file.metadata()?.len());
    let mut piece = vec![0; 64 * 1024];
    loop {
        match file.read(&mut piece)? {
            0 => return naming.finish().map_err(io::Error::other),
            length => naming.update(&piece[..length]),
        }
    }
}

/// The id of a tree without entries.
pub(crate) fn empty_tree() -> Result<Oid, GitError> {
    hash_tree(b"")
}

/// Reads trees as they are stored.
pub(crate) struct Trees<'a> {
    odb: Odb<'a>,
}

impl<'a> Trees<'a> {
    pub(super) fn of(repository: &'a Repository) -> Result<Self, GitError> {
        let odb = repository.odb().act(|| "cannot open the object store".to_owned())?;
        Ok(Self { odb })
    }

    /// The tree `id`; `None` stands for one without entries.
    pub(crate) fn read(&self, id: Option<Oid>) -> Result<Listing<'_>, GitError> {
        let Some(id) = id else { return Ok(Listing { stored: None }) };
        let act = || format!("cannot read tree {id}");
        let object = self.odb.read(id).act(act)?;
        if object.kind() != ObjectType::Tree {
            return Err(GitError::Format { what: format!("the object {id}, which should be a tree") });
        }
        Ok(Listing { stored: Some((id, Bytes::InStore(object))) })
    }
}

/// An object that a tree names; the commit of a submodule is in another repository.
pub(super) struct Named<'a> {
    pub(super) name: &'a [u8],
    pub(super) id: Oid,
    pub(super) is_tree: bool,
}

/// Names and what they stand for.
pub(crate) type Items<'a> = Vec<(&'a [u8], Item)>;

/// Mode, name and id of an entry as it is stored.
type Stored<'a> = (&'a [u8], &'a [u8], Oid);

/// One tree as it is stored.
pub(crate) struct Listing<'a> {
    stored: Option<(Oid, Bytes<'a>)>,
}

enum Bytes<'a> {
    InStore(OdbObject<'a>),
    Read(Vec<u8>),
}

impl Listing<'static> {
    /// A tree that was read elsewhere.
    pub(super) fn read(id: Oid, content: Vec<u8>) -> Self {
        Self { stored: Some((id, Bytes::Read(content))) }
    }
}

impl Listing<'_> {
    /// Names and what they stand for, in order of bytes; `None` for a tree that git would not write
    /// like this (old repositories hold some with other modes).
    pub(crate) fn items(&self) -> Result<Option<Items<'_>>, GitError> {
        let entries = self.entries()?;
        let mut items = Vec::with_capacity(entries.len());
        for (mode, name, id) in entries {
            let mode = match mode {
                b"40000" => MODE_TREE,
                b"100644" => MODE_FILE,
                b"100755" => MODE_EXECUTABLE,
                b"120000" => MODE_LINK,
                b"160000" => MODE_GITLINK,
                _ => return Ok(None),
            };
            items.push((name, Item { mode, id }));
        }
        items.sort_unstable_by_key(|(name, _)| *name);
        let twice = items.windows(2).any(|pair| pair[0].0 == pair[1].0);
        Ok(Some(items).filter(|_| !twice))
    }

    /// The objects that are named here.
    pub(super) fn named(&self) -> Result<Vec<Named<'_>>, GitError> {
        let here = self.entries()?.into_iter().filter(|(mode, ..)| *mode != b"160000");
        Ok(here.map(|(mode, name, id)| Named { name, id, is_tree: mode.ends_with(b"40000") }).collect())
    }

    /// The content of the tree.
    pub(super) fn bytes(&self) -> &[u8] {
        match &self.stored {
            None => &[],
            Some((_, Bytes::InStore(object))) => object.data(),
            Some((_, Bytes::Read(content))) => content,
        }
    }

    /// Modes, names and ids as they are stored.
    fn entries(&self) -> Result<Vec<Stored<'_>>, GitError> {
        let Some((id, _)) = &self.stored else { return Ok(Vec::new()) };
        let damaged = || GitError::Format { what: format!("the tree {id}") };
        let mut rest = self.bytes();
        let mut entries = Vec::with_capacity(rest.len() / 32);
        while !rest.is_empty() {
            let space = rest.iter().position(|b| *b == b' ').ok_or_else(damaged)?;
            let (mode, after) = (&rest[..space], &rest[space + 1..]);
            let end = after.iter().position(|b| *b == 0).ok_or_else(damaged)?;
            let hash = after.get(end + 1..end + 1 + HASH).ok_or_else(damaged)?;
            entries.push((mode, &after[..end], Oid::from_bytes(hash).map_err(|_| damaged())?));
            rest = &after[end + 1 + HASH..];
        }
        Ok(entries)
    }
}

fn mode_of(raw: i32) -> u32 {
    match u32::try_from(raw).unwrap_or_default() {
        // Old repositories hold group-writable files; git reads them as 100644.
        mode if mode & 0o170_000 == 0o100_000 => {
            if mode & 0o100 == 0 {
                0o100_644
            } else {
                MODE_EXECUTABLE
            }
        }
        mode => mode,
    }
}

fn descend(
    store: &Repository,
    old: Option<Oid>,
    new: Option<Oid>,
    prefix: &mut Vec<u8>,
    changes: &mut Vec<Change>,
) -> Result<(), GitError> {
    if old == new {
        return Ok(());
    }
    let read = |id: Option<Oid>| -> Result<Vec<(Vec<u8>, Item)>, GitError> {
        let empty = empty_tree()?;
        let Some(id) = id.filter(|id| *id != empty) else { return Ok(Vec::new()) };
        let tree = store.find_tree(id).act(|| format!("cannot read tree {id}"))?;
        let mut entries: Vec<_> = tree
            .iter()
            .map(|e| (e.name_bytes().to_vec(), Item { mode: mode_of(e.filemode_raw()), id: e.id() }))
            .collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(entries)
    };
    let (before, after) = (read(old)?, read(new)?);
    let (mut i, mut j) = (0, 0);
    while i < before.len() || j < after.len() {
        let order = match (before.get(i), after.get(j)) {
            (Some(a), Some(b)) => a.0.cmp(&b.0),
            (Some(_), None) => std::cmp::Ordering::Less,
            _ => std::cmp::Ordering::Greater,
        };
        let (mut was, mut is) = (None, None);
        let mut name = &[][..];
        if order.is_le() {
            (name, was) = (&before[i].0, Some(before[i].1));
            i += 1;
        }
        if order.is_ge() {
            (name, is) = (&after[j].0, Some(after[j].1));
            j += 1;
        }
        if was == is {
            continue;
        }
        let length = prefix.len();
        if length > 0 {
            prefix.push(b'/');
        }
        prefix.extend_from_slice(name);
        let split = |item: Option<Item>| match item {
            Some(Item { mode: MODE_TREE, id }) => (Some(id), None),
            other => (None, other),
        };
        let ((old_tree, old_file), (new_tree, new_file)) = (split(was), split(is));
        if old_file.is_some() || new_file.is_some() {
            changes.push(Change { path: prefix.clone(), old: old_file, new: new_file });
        }
        if old_tree.is_some() || new_tree.is_some() {
            descend(store, old_tree, new_tree, prefix, changes)?;
        }
        prefix.truncate(length);
    }
    Ok(())
}
