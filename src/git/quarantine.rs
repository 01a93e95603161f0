//! Objects that are not in the repository yet.
//!
//! A quarantine is a small bare repository whose object store borrows from the real one. What an
//! operation makes goes there, by the library and by the git program alike; it is moved into the
//! real store when a ref is about to name it, and vanishes without a trace otherwise.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::{ObjectType, Oid, Repository, Signature};

use super::program::Git;
use super::repository::Repo;
use super::tree::Item;
use super::{Act, GitError};
use crate::control::Control;
use crate::files::lock::{Hold, Lock, lock};
use crate::files::owner::Owner;

/// What the names of quarantines start with; the tag of their owner follows.
pub(crate) const OBJECTS: &str = "isofold-objects-";

pub(crate) struct Quarantine {
    directory: Option<tempfile::TempDir>,
    /// Tells a process that can't see this one's that it lives.
    _held: Option<Lock>,
    root: PathBuf,
    real: PathBuf,
    repository: Repository,
}

/// Where git programs put their objects: a handle on a [`Quarantine`] that can go to another thread.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    root: PathBuf,
}

impl Store {
    /// Lets `git` read from and write to the quarantine.
    pub(crate) fn enter(&self, git: Git) -> Git {
        // Its `info/alternates` names the real store.
        git.with("GIT_OBJECT_DIRECTORY", self.root.join("objects"))
    }

    /// Opens the store for writing from this thread.
    pub(crate) fn open(&self) -> Result<BlobStore, GitError> {
        let repository = Repository::open_bare(&self.root).act(|| "cannot open the object quarantine".to_owned())?;
        Ok(BlobStore { repository })
    }

    /// A directory for temporary files that goes with the quarantine.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }
}

/// A quarantine that blobs and trees are written to. What the real store has is not written again.
pub(crate) struct BlobStore {
    repository: Repository,
}

/// Why a file could not be stored.
pub(crate) enum StoreError {
    Read(io::Error),
    Git(GitError),
}

impl StoreError {
    /// Names the file that could not be read.
    pub(crate) fn reading(self, path: &Path) -> GitError {
        match self {
            Self::Read(error) => GitError::io("cannot read", path)(error),
            Self::Git(error) => error,
        }
    }
}

impl BlobStore {
    /// Files up to this size are read in one piece.
    const PIECE: u64 = 4 * 1024 * 1024;

    pub(crate) fn write(&self, content: &[u8]) -> Result<Oid, GitError> {
        self.repository.blob(content).map_err(|error| self.failure(error, content.len() as u64))
    }

    /// The library does not say that the disk is full.
    fn failure(&self, source: git2::Error, size: u64) -> GitError {
        let root = self.repository.path();
        let needed = size + 64 * 1024;
        if rustix::fs::statvfs(root).is_ok_and(|s| s.f_bavail.saturating_mul(s.f_frsize) < needed) {
            return GitError::io("cannot write to", root)(io::ErrorKind::StorageFull.into());
        }
        GitError::Library { act: "cannot write a blob".to_owned(), source }
    }

    /// Stores a file of `size` bytes; `None` if it turns out to hold more or less.
    pub(crate) fn write_file(&self, mut file: File, size: u64, control: &Control) -> Result<Option<Oid>, StoreError> {
        if size <= Self::PIECE {
            let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
            file.read_to_end(&mut content).map_err(StoreError::Read)?;
            if content.len() as u64 != size {
                return Ok(None);
            }
            return self.write(&content).map(Some).map_err(StoreError::Git);
        }
        let git = |e| StoreError::Git(self.failure(e, size));
        let odb = self.repository.odb().map_err(git)?;
        let length = usize::try_from(size).map_err(|_| StoreError::Read(io::ErrorKind::FileTooLarge.into()))?;
        let mut writer = odb.writer(length, ObjectType::Blob).map_err(git)?;
        let mut piece = vec![0; 1024 * 1024];
        let mut left = size;
        loop {
            control.check().map_err(|stop| StoreError::Git(stop.into()))?;
            let read = file.read(&mut piece).map_err(StoreError::Read)?;
            if read == 0 {
                break;
            }
            if read as u64 > left {
                return Ok(None);
            }
            left -= read as u64;
            writer
                .write_all(&piece[..read])
                .map_err(|e| StoreError::Git(GitError::io("cannot write a blob to", self.repository.path())(e)))?;
        }
        if left > 0 {
            return Ok(None);
        }
        writer.finalize().map(Some).map_err(git)
    }

    /// Writes a tree of these entries, in whatever order.
    pub(crate) fn write_tree(&self, mut items: Vec<(&[u8], Item)>) -> Result<Oid, GitError> {
        // Directories are sorted as if their names ended in a slash.
        let end = |item: &Item| if item.mode == super::tree::MODE_TREE { &b"/"[..] } else { b"" };
        items.sort_by(|(a, one), (b, two)| a.iter().chain(end(one)).cmp(b.iter().chain(end(two))));
        let mut content = Vec::with_capacity(items.len() * 48);
        for (name, item) in items {
            content.extend_from_slice(format!("{:o} ", item.mode).as_bytes());
            content.extend_from_slice(name);
            content.push(0);
            content.extend_from_slice(item.id.as_bytes());
        }
        let act = || "cannot write a tree".to_owned();
        self.repository.odb().act(act)?.write(ObjectType::Tree, &content).act(act)
    }

    /// The tree that `baseline` becomes with these files changed, or gone where `None`.
    pub(crate) fn updated_tree(&self, baseline: Oid, changes: &[(&[u8], Option<Item>)]) -> Result<Oid, GitError> {
        let act = || "cannot write a tree".to_owned();
        let root = if baseline == super::tree::empty_tree()? { None } else { Some(baseline) };
        let mut sorted: Vec<(&[u8], Option<Item>)> = changes.to_vec();
        sorted.sort_by(|a, b| a.0.cmp(b.0));
        let updated = self.update(root, &sorted, 0)?;
        match updated {
            Some(tree) => Ok(tree),
            None => self.repository.treebuilder(None).act(act)?.write().act(act),
        }
    }

    /// One level: `changes` all lie below it, their names start at `skip`. `None` where nothing is left.
    fn update(
        &self,
        tree: Option<Oid>,
        changes: &[(&[u8], Option<Item>)],
        skip: usize,
    ) -> Result<Option<Oid>, GitError> {
        let act = || "cannot write a tree".to_owned();
        let old = tree.map(|id| self.repository.find_tree(id)).transpose().act(act)?;
        let mut builder = self.repository.treebuilder(old.as_ref()).act(act)?;
        let mut at = 0;
        let mut inserted: &[u8] = b"";
        while at < changes.len() {
            let (path, new) = changes[at];
            let rest = &path[skip..];
            let slash = rest.iter().position(|b| *b == b'/');
            let name = &rest[..slash.unwrap_or(rest.len())];
            let file = std::ffi::OsStr::from_bytes(name);
            let item = if slash.is_some() {
                let below = &path[..=skip + name.len()];
                let end = at + changes[at..].iter().take_while(|(p, _)| p.starts_with(below)).count();
                let found = builder.get(file).act(act)?;
                let inner = found.filter(|e| e.filemode_raw() == 0o040_000).map(|e| e.id());
                let updated = self.update(inner, &changes[at..end], skip + name.len() + 1)?;
                at = end;
                updated.map(|id| Item { mode: super::tree::MODE_TREE, id })
            } else {
                at += 1;
                inserted = if new.is_some() { name } else { b"" };
                new
            };
            match item {
                Some(item) => {
                    builder.insert(file, item.id, item.mode.cast_signed()).act(act)?;
                }
                // A file took the place of the directory whose files are gone.
                None if slash.is_some() && inserted == name => {}
                None if builder.get(file).act(act)?.is_some() => builder.remove(file).act(act)?,
                None => {}
            }
        }
        if builder.is_empty() { Ok(None) } else { builder.write().map(Some).act(act) }
    }
}

impl Quarantine {
    /// A fresh quarantine for `repo`, inside its common git directory.
    pub(crate) fn new(repo: &Repo) -> Result<Self, GitError> {
        let common = repo.common_dir();
        let directory = tempfile::Builder::new()
            .prefix(&format!("{OBJECTS}{}-", Owner::this().tag()))
            .tempdir_in(common)
            .map_err(GitError::io("cannot write to", common))?;
        let root = directory.path().to_owned();
        let make = || -> io::Result<()> {
            fs::create_dir_all(root.join("objects/info"))?;
            fs::create_dir(root.join("objects/pack"))?;
            fs::create_dir(root.join("refs"))?;
            fs::write(root.join("HEAD"), "ref: refs/heads/none\n")?;
            let mut alternates = common.join("objects").into_os_string().into_encoded_bytes();
            alternates.push(b'\n');
            fs::write(root.join("objects/info/alternates"), alternates)
        };
        make().map_err(GitError::io("cannot write to", &root))?;
        let repository = Repository::open_bare(&root).act(|| "cannot open the object quarantine".to_owned())?;
        let real = common.join("objects");
        let held = lock(&root, Hold::Exclusive, Some(Duration::ZERO), &Control::new()).unwrap_or_default();
        Ok(Self { directory: Some(directory), _held: held, root, real, repository })
    }

    /// The library's view: everything of the real store and of the quarantine.
    pub(super) fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Lets `git` read from and write to the quarantine.
    pub(crate) fn enter(&self, git: Git) -> Git {
        self.store().enter(git)
    }

    /// A handle for other threads.
    pub(crate) fn store(&self) -> Store {
        Store { root: self.root.clone() }
    }

    /// Writes a commit and returns its id.
    pub(crate) fn commit(
        &self,
        tree: Oid,
        parents: &[Oid],
        message: &str,
        author: &Signature<'_>,
        committer: &Signature<'_>,
    ) -> Result<Oid, GitError> {
        let act = || "cannot write a commit".to_owned();
        let odb = self.repository.odb().act(act)?;
        odb.refresh().act(act)?;
        let tree = self.repository.find_tree(tree).act(act)?;
        // Parents may be commits that a shallow repository does not have in full: only ids count.
        let mut text = format!("tree {}\n", tree.id()).into_bytes();
        for parent in parents {
            text.extend_from_slice(format!("parent {parent}\n").as_bytes());
        }
        for (role, who) in [("author", author), ("committer", committer)] {
            text.extend_from_slice(role.as_bytes());
            text.push(b' ');
            text.extend_from_slice(who.name_bytes());
            text.extend_from_slice(b" <");
            text.extend_from_slice(who.email_bytes());
            let when = who.when();
            let offset = when.offset_minutes();
            let stamp =
                format!("> {} {}{:02}{:02}\n", when.seconds(), when.sign(), offset.abs() / 60, offset.abs() % 60);
            text.extend_from_slice(stamp.as_bytes());
        }
        text.push(b'\n');
        text.extend_from_slice(message.trim_end().as_bytes());
        text.push(b'\n');
        odb.write(ObjectType::Commit, &text).act(act)
    }

    /// Takes commits back out that only served a question to git.
    pub(crate) fn discard(&self, ids: &[Oid]) -> Result<(), GitError> {
        for id in ids {
            let name = id.to_string();
            let file = self.root.join("objects").join(&name[..2]).join(&name[2..]);
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(GitError::io("cannot remove", &file)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// From so many loose objects on one pack is written instead: two files to sync.
    const WORTH_A_PACK: usize = 16;

    /// Writes loose objects of the quarantine into the real store as one pack, synced.
    fn pack(&self, loose: &[PathBuf]) -> Result<(), GitError> {
        let act = || "cannot write a pack".to_owned();
        let mut builder = self.repository.packbuilder().act(act)?;
        builder.set_threads(1);
        for inside in loose {
            let name: String = inside.to_string_lossy().chars().filter(|c| *c != '/').collect();
            builder.insert_object(Oid::from_str(&name).act(act)?, None).act(act)?;
        }
        let target = self.real.join("pack");
        let synced =
            |file: &Path| File::open(file).and_then(|f| f.sync_all()).map_err(GitError::io("cannot sync", file));
        let made = tempfile::Builder::new().prefix("tmp_isofold_").tempdir_in(&self.root);
        let made = made.map_err(GitError::io("cannot write to", &self.root))?;
        builder.write(made.path(), 0).act(act)?;
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(made.path()).map_err(GitError::io("cannot read", made.path()))? {
            files.push(entry.map_err(GitError::io("cannot read", made.path()))?.path());
        }
        // An index names its pack: it comes last.
        files.sort_by_key(|path| path.extension().is_some_and(|e| e == "idx"));
        for file in &files {
            synced(file)?;
            let to = target.join(file.file_name().unwrap_or_default());
            let moved = match fs::rename(file, &to) {
                Err(e) if e.kind() == io::ErrorKind::CrossesDevices => copy_in(file, &to),
                other => other,
            };
            moved.map_err(GitError::io("cannot write the pack", &to))?;
        }
        synced(&target)
    }

    /// Moves every object into the real store, contents synced before names; the quarantine is
    /// empty afterwards. Objects that are there already are left as they are.
    pub(crate) fn release(&self) -> Result<(), GitError> {
        let objects = self.root.join("objects");
        let mut loose = Vec::new();
        let mut packs = Vec::new();
        for entry in walkdir::WalkDir::new(&objects) {
            let entry =
                entry.map_err(|e| GitError::Io { act: "cannot read", path: objects.clone(), source: e.into() })?;
            let inside = entry.path().strip_prefix(&objects).unwrap_or(entry.path()).to_owned();
            if !entry.file_type().is_file() || inside.starts_with("info") {
                continue;
            }
            if inside.starts_with("pack") { packs.push(inside) } else { loose.push(inside) }
        }
        if loose.len() >= Self::WORTH_A_PACK {
            self.pack(&loose)?;
            loose.clear();
        }
        // An index names its pack: it comes last.
        packs.sort_by_key(|path| path.extension().is_some_and(|e| e == "idx"));
        let mut directories = std::collections::BTreeSet::new();
        for inside in loose.iter().chain(&packs) {
            let (from, to) = (objects.join(inside), self.real.join(inside));
            let mut moved = || -> io::Result<()> {
                if to.exists() {
                    return fs::remove_file(&from);
                }
                fs::File::open(&from)?.sync_data()?;
                let parent = to.parent().unwrap_or(&self.real);
                fs::create_dir_all(parent)?;
                directories.insert(parent.to_owned());
                match fs::rename(&from, &to) {
                    Err(e) if e.kind() == io::ErrorKind::CrossesDevices => copy_in(&from, &to),
                    other => other,
                }
            };
            moved().map_err(GitError::io("cannot write the object", &to))?;
        }
        for directory in &directories {
            let synced = fs::File::open(directory).and_then(|d| d.sync_all());
            synced.map_err(GitError::io("cannot sync", directory))?;
        }
        Ok(())
    }
}

impl Drop for Quarantine {
    fn drop(&mut self) {
        if let Some(directory) = self.directory.take() {
            // Read-only object files do not stop the removal of the directories that hold them.
            if let Err(error) = directory.close() {
                tracing::warn!(%error, "the object quarantine could not be removed");
            }
        }
    }
}

/// A copy under another name first: a reader never sees half an object.
fn copy_in(from: &Path, to: &Path) -> io::Result<()> {
    let parent = to.parent().unwrap_or(Path::new("."));
    let mut temporary = tempfile::NamedTempFile::new_in(parent)?;
    io::copy(&mut fs::File::open(from)?, &mut temporary)?;
    temporary.as_file().set_permissions(fs::metadata(from)?.permissions())?;
    temporary.as_file().sync_all()?;
    temporary.persist(to)?;
    fs::remove_file(from)
}
