//! Writing blobs and trees into a quarantine, from one thread.

use std::cell::{OnceCell, RefCell, RefMut};
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use git2::{ObjectType, Repository};

use super::cache_tree::CacheTree;
use super::index_file::{Entry, IndexFile};
use super::pack::{Kind, Pack, Packer, name_of};
use super::tree::{Item, MODE_GITLINK, MODE_TREE, empty_tree};
use super::{Act, GitError, Oid};
use crate::control::Control;

/// A quarantine that blobs and trees are written to. Their objects can be read when the pack is sealed.
pub(crate) struct BlobStore {
    root: PathBuf,
    /// Opened where something has to be read.
    repository: OnceCell<Repository>,
    pack: Arc<Pack>,
    /// Made for the first object.
    packer: RefCell<Option<Packer>>,
}

impl BlobStore {
    pub(super) fn new(root: PathBuf, pack: Arc<Pack>) -> Self {
        Self { root, repository: OnceCell::new(), pack, packer: RefCell::default() }
    }

    fn repository(&self) -> Result<&Repository, GitError> {
        if let Some(open) = self.repository.get() {
            return Ok(open);
        }
        let opened = Repository::open_bare(&self.root).act(|| "cannot open the object quarantine".to_owned())?;
        Ok(self.repository.get_or_init(|| opened))
    }

    fn packer(&self) -> RefMut<'_, Packer> {
        RefMut::map(self.packer.borrow_mut(), |packer| packer.get_or_insert_with(Packer::new))
    }

    fn add(&self, kind: Kind, content: &[u8]) -> Result<Oid, GitError> {
        let id = name_of(kind, content)?;
        self.pack.add(&mut self.packer(), kind, id, content)?;
        Ok(id)
    }

    pub(crate) fn write(&self, content: &[u8]) -> Result<Oid, GitError> {
        self.add(Kind::Blob, content)
    }

    /// Writes a blob whose name is known.
    pub(crate) fn write_as(&self, id: Oid, content: &[u8]) -> Result<(), GitError> {
        self.pack.add(&mut self.packer(), Kind::Blob, id, content)
    }

    /// Writes a blob of `size` bytes piece by piece; `None` if `read` gives more or less.
    pub(crate) fn write_stream(
        &self,
        size: u64,
        read: &mut dyn FnMut(&mut [u8]) -> Result<usize, GitError>,
        control: &Control,
    ) -> Result<Option<Oid>, GitError> {
        self.pack.add_stream(&mut self.packer(), Kind::Blob, size, read, control)
    }

    /// The content of a blob that is in the repository; `None` for one that is not.
    pub(crate) fn read(&self, id: Oid) -> Option<Vec<u8>> {
        let blob = self.repository().ok()?.find_blob(id).ok()?;
        Some(blob.content().to_vec())
    }

    /// Copies what git found in the repository and did not write again into the pack: nothing may name
    /// it there. What the quarantine has of its own stays where it is.
    pub(crate) fn hold(&self, id: Oid, is_ours: impl Fn(Oid) -> bool) -> Result<(), GitError> {
        if self.pack.holds(id) || is_ours(id) {
            return Ok(());
        }
        let act = || format!("cannot read the object {id}");
        let odb = self.repository()?.odb().act(act)?;
        let object = odb.read(id).act(act)?;
        let kind = match object.kind() {
            ObjectType::Blob => Kind::Blob,
            ObjectType::Tree => Kind::Tree,
            _ => return Ok(()),
        };
        self.pack.add(&mut self.packer(), kind, id, object.data())
    }

    /// The tree of `index`, which came of an index with the cached trees `cache` by changes of the paths
    /// `changed` alone. Trees that the cache knows are not written again: an index names them.
    pub(crate) fn tree_of(
        &self,
        index: &IndexFile,
        cache: Option<&CacheTree<'_>>,
        changed: &[&[u8]],
        control: &Control,
    ) -> Result<Oid, GitError> {
        let mut touched = HashSet::new();
        for path in changed {
            let ends = path.iter().enumerate().rev().filter(|(_, b)| **b == b'/').map(|(at, _)| at);
            // The directories further up are known where one is.
            let mut above = ends.map(|at| &path[..at]);
            if above.all(|directory| touched.insert(directory)) {
                touched.insert(&path[..0]);
            }
        }
        let odb = self.repository()?.odb().act(|| "cannot open the object store".to_owned())?;
        let exists = |id: Oid| self.pack.holds(id) || odb.exists(id);
        let level = Level { store: self, index, touched, exists: &exists, control };
        match level.tree(index.entries(), 0, cache)? {
            Some(id) => Ok(id),
            None => self.add(Kind::Tree, b""),
        }
    }

    /// The tree that `baseline` becomes with these files changed, or gone where `None`.
    pub(crate) fn updated_tree(&self, baseline: Oid, changes: &[(&[u8], Option<Item>)]) -> Result<Oid, GitError> {
        self.pack.seal()?;
        let root = if baseline == empty_tree()? { None } else { Some(baseline) };
        let mut sorted: Vec<(&[u8], Option<Item>)> = changes.to_vec();
        sorted.sort_by(|a, b| a.0.cmp(b.0));
        match self.update(root, &sorted, 0)? {
            Some(tree) => Ok(tree),
            None => self.add(Kind::Tree, b""),
        }
    }

    /// One level: `changes` all lie below it, their names start at `skip`. `None` where nothing is left.
    fn update(
        &self,
        tree: Option<Oid>,
        changes: &[(&[u8], Option<Item>)],
        skip: usize,
    ) -> Result<Option<Oid>, GitError> {
        let mut items: BTreeMap<Vec<u8>, Item> = BTreeMap::new();
        if let Some(id) = tree {
            let old = self.repository()?.find_tree(id).act(|| format!("cannot read tree {id}"))?;
            for entry in &old {
                let mode = u32::try_from(entry.filemode_raw()).unwrap_or_default();
                items.insert(entry.name_bytes().to_vec(), Item { mode, id: entry.id() });
            }
        }
        let mut at = 0;
        while at < changes.len() {
            let (path, new) = changes[at];
            let rest = &path[skip..];
            let slash = rest.iter().position(|b| *b == b'/');
            let name = &rest[..slash.unwrap_or(rest.len())];
            let directory = items.get(name).filter(|item| item.mode == MODE_TREE).map(|item| item.id);
            if slash.is_none() {
                at += 1;
                match new {
                    Some(item) => _ = items.insert(name.to_vec(), item),
                    None if directory.is_none() => _ = items.remove(name),
                    None => {}
                }
                continue;
            }
            let below = &path[..=skip + name.len()];
            let end = at + changes[at..].iter().take_while(|(p, _)| p.starts_with(below)).count();
            let updated = self.update(directory, &changes[at..end], skip + name.len() + 1)?;
            at = end;
            match updated {
                Some(id) => _ = items.insert(name.to_vec(), Item { mode: MODE_TREE, id }),
                // A file may have taken the place of the directory whose files are gone.
                None if directory.is_some() => _ = items.remove(name),
                None => {}
            }
        }
        let list: Vec<(&[u8], Item)> = items.iter().map(|(name, item)| (name.as_slice(), *item)).collect();
        self.tree_with(list)
    }

    /// The same; `None` where nothing is in it.
    fn tree_with(&self, items: Vec<(&[u8], Item)>) -> Result<Option<Oid>, GitError> {
        if items.is_empty() { Ok(None) } else { self.write_tree(items).map(Some) }
    }

    /// Writes a tree of these entries, in whatever order.
    pub(crate) fn write_tree(&self, items: Vec<(&[u8], Item)>) -> Result<Oid, GitError> {
        self.add(Kind::Tree, &tree_of_items(items))
    }

    /// Writes a tree that [`tree_of_items`] made.
    pub(crate) fn write_made_tree(&self, content: &[u8]) -> Result<Oid, GitError> {
        self.add(Kind::Tree, content)
    }
}

/// The content of a tree of these entries, in whatever order.
pub(crate) fn tree_of_items(mut items: Vec<(&[u8], Item)>) -> Vec<u8> {
    // Directories are sorted as if their names ended in a slash.
    let end = |item: &Item| if item.mode == MODE_TREE { &b"/"[..] } else { b"" };
    items.sort_by(|(a, one), (b, two)| a.iter().chain(end(one)).cmp(b.iter().chain(end(two))));
    let mut content = Vec::with_capacity(items.len() * 48);
    for (name, item) in items {
        content.extend_from_slice(format!("{:o} ", item.mode).as_bytes());
        content.extend_from_slice(name);
        content.push(0);
        content.extend_from_slice(item.id.as_bytes());
    }
    content
}

/// How trees are made from an index.
struct Level<'a> {
    store: &'a BlobStore,
    index: &'a IndexFile,
    /// Directories that are not what the cache knows.
    touched: HashSet<&'a [u8]>,
    exists: &'a dyn Fn(Oid) -> bool,
    control: &'a Control,
}

impl Level<'_> {
    /// The tree of `entries`, which all lie in one directory; their names start at `skip`.
    fn tree(&self, entries: &[Entry], skip: usize, cached: Option<&CacheTree<'_>>) -> Result<Option<Oid>, GitError> {
        self.control.check()?;
        let Some(first) = entries.first() else { return Ok(None) };
        let directory = &self.index.path(first)[..skip.saturating_sub(1)];
        if !self.touched.contains(directory)
            && let Some(id) = cached.and_then(|cached| cached.covering(entries.len()))
            && (self.exists)(id)
        {
            return Ok(Some(id));
        }
        let mut items: Vec<(&[u8], Item)> = Vec::new();
        let mut at = 0;
        while at < entries.len() {
            let entry = &entries[at];
            let path = self.index.path(entry);
            let rest = &path[skip..];
            let Some(slash) = rest.iter().position(|b| *b == b'/') else {
                at += 1;
                // git leaves out what is only meant to be added.
                if entry.intent_to_add() {
                    continue;
                }
                // A partial clone need not have what is not checked out.
                if entry.mode != MODE_GITLINK && !entry.skip_worktree() && !(self.exists)(entry.id) {
                    return Err(GitError::Missing { id: entry.id, path: crate::files::as_path(path).to_owned() });
                }
                items.push((rest, Item { mode: entry.mode, id: entry.id }));
                continue;
            };
            let below = &path[..=skip + slash];
            let end = at + entries[at..].partition_point(|e| self.index.path(e).starts_with(below));
            let name = &rest[..slash];
            let inner = self.tree(&entries[at..end], skip + slash + 1, cached.and_then(|c| c.below(name)))?;
            at = end;
            if let Some(id) = inner {
                items.push((name, Item { mode: MODE_TREE, id }));
            }
        }
        self.store.tree_with(items)
    }
}
