//! Objects that are not in the repository yet.
//!
//! A quarantine is a small bare repository whose object store borrows from the real one. What an
//! operation makes goes there, into one pack by this process, as loose objects by the git program; it
//! is moved into the real store as one pack when a ref is about to name it, and vanishes without a
//! trace otherwise.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use git2::{Oid, Repository, Signature};

use super::blobs::BlobStore;
use super::loose;
use super::pack::{Kind, Pack, Packer, name_of};
use super::program::Git;
use super::repository::Repo;
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
    pack: Arc<Pack>,
    /// Files that keep packs of ours from a gc until a ref names their objects.
    keeps: RefCell<Vec<PathBuf>>,
}

/// A handle on a [`Quarantine`] that can go to another thread.
#[derive(Clone)]
pub(crate) struct Store {
    root: PathBuf,
    pack: Arc<Pack>,
}

impl Store {
    /// Lets `git` read from and write to the quarantine.
    pub(crate) fn enter(&self, git: Git) -> Git {
        // Its `info/alternates` names the real store.
        git.with("GIT_OBJECT_DIRECTORY", self.root.join("objects"))
    }

    /// The store, for writing from one thread.
    pub(crate) fn open(&self) -> BlobStore {
        BlobStore::new(self.root.clone(), self.pack.clone())
    }

    /// A directory for temporary files that goes with the quarantine.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether git wrote this object here.
    pub(crate) fn has_loose(&self, id: Oid) -> bool {
        self.loose(id).exists()
    }

    /// Where git writes this object here.
    pub(super) fn loose(&self, id: Oid) -> PathBuf {
        loose::place(&self.root.join("objects"), id)
    }
}

impl Quarantine {
    /// A fresh quarantine for `repo`, inside its common git directory.
    pub(crate) fn new(repo: &Repo) -> Result<Self, GitError> {
        let common = repo.common_dir();
        forget_keeps(common);
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
        let held = lock(&root, Hold::Exclusive, Some(Duration::ZERO), &Control::new()).unwrap_or_default();
        let (real, pack) = (common.join("objects"), Arc::new(Pack::new(root.join("objects/pack"))));
        Ok(Self { directory: Some(directory), _held: held, root, real, repository, pack, keeps: RefCell::default() })
    }

    /// The library's view: everything of the real store and of the quarantine.
    pub(super) fn repository(&self) -> Result<&Repository, GitError> {
        if self.pack.seal()? {
            let act = || "cannot read the object quarantine".to_owned();
            self.repository.odb().act(act)?.refresh().act(act)?;
        }
        Ok(&self.repository)
    }

    /// Lets `git` read from and write to the quarantine.
    pub(crate) fn enter(&self, git: Git) -> Result<Git, GitError> {
        self.pack.seal()?;
        Ok(self.store().enter(git))
    }

    /// A handle for other threads.
    pub(crate) fn store(&self) -> Store {
        Store { root: self.root.clone(), pack: self.pack.clone() }
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
        // The tree has to be there.
        self.repository()?.odb().and_then(|odb| odb.read_header(tree)).act(act)?;
        // Parents may be commits that a shallow repository does not have in full: only ids count.
        let mut text = format!("tree {tree}\n").into_bytes();
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
        self.write_loose(Kind::Commit, "commit", &text)
    }

    /// Writes an object that is there at once and can be taken back, also where the real store has it.
    fn write_loose(&self, kind: Kind, name: &str, content: &[u8]) -> Result<Oid, GitError> {
        let id = name_of(kind, content)?;
        let file = loose::place(&self.root.join("objects"), id);
        let write = || -> io::Result<()> {
            fs::create_dir_all(file.parent().unwrap_or(&self.root))?;
            let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(format!("{name} {}\0", content.len()).as_bytes())?;
            packed.write_all(content)?;
            fs::write(&file, packed.finish()?)
        };
        write().map_err(GitError::io("cannot write", &file))?;
        Ok(id)
    }

    /// Copies an object in pieces where it was made here or is a loose one; `false` where it must be read
    /// as a whole.
    pub(super) fn copy_big(
        &self,
        id: Oid,
        out: &mut dyn Write,
        path: &Path,
        control: &Control,
    ) -> Result<bool, GitError> {
        Ok(self.pack.copy_out(id, out, path, control)?
            || loose::copy_out(&loose::place(&self.root.join("objects"), id), out, path, control)?
            || loose::copy_out(&loose::place(&self.real, id), out, path, control)?)
    }

    /// Takes commits back out that only served a question to git.
    pub(crate) fn discard(&self, ids: &[Oid]) -> Result<(), GitError> {
        for id in ids {
            let file = loose::place(&self.root.join("objects"), *id);
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(GitError::io("cannot remove", &file)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds an entry of another pack as it stands there.
    pub(super) fn add_entry(&self, id: Oid, bytes: &[u8], crc: u32) -> Result<(), GitError> {
        self.pack.add_entry(id, bytes, crc)
    }

    /// The indexes of the packs that were released.
    pub(super) fn released(&self) -> Vec<PathBuf> {
        self.keeps.borrow().iter().map(|keep| keep.with_extension("idx")).collect()
    }

    /// Moves every object into the real store as a pack, contents synced before names; the quarantine
    /// is empty afterwards. As long as it lives no gc takes the pack: let a ref name its objects first.
    pub(crate) fn release(&self) -> Result<(), GitError> {
        let inside = self.root.join("objects");
        self.pack_loose(&inside)?;
        let mut packs: Vec<(PathBuf, PathBuf)> = self.pack.finish()?.into_iter().collect();
        // What git found too big for loose objects it has put in packs of its own.
        let read = |directory: &Path| fs::read_dir(directory)?.map(|e| Ok(e?.path())).collect::<io::Result<Vec<_>>>();
        let found = read(&inside.join("pack")).map_err(GitError::io("cannot read", &inside))?;
        for index in found.into_iter().filter(|path| path.extension().is_some_and(|e| e == "idx")) {
            let pack = index.with_extension("pack");
            if packs.iter().all(|(known, _)| *known != pack) {
                for file in [&pack, &index] {
                    sync(file)?;
                }
                packs.push((pack, index));
            }
        }
        let target = self.real.join("pack");
        for (pack, index) in &packs {
            self.keep(&target, pack)?;
            // An index names its pack: it comes last.
            for file in [pack, index] {
                let to = target.join(file.file_name().unwrap_or_default());
                let _ = file.metadata().map(|meta| {
                    let mut rights = meta.permissions();
                    rights.set_readonly(true);
                    fs::set_permissions(file, rights)
                });
                let moved = match fs::rename(file, &to) {
                    Err(e) if e.kind() == io::ErrorKind::CrossesDevices => copy_in(file, &to),
                    other => other,
                };
                moved.map_err(GitError::io("cannot write the pack", &to))?;
            }
        }
        if packs.is_empty() { Ok(()) } else { sync(&target) }
    }

    /// Puts the loose objects that git left here into the pack.
    fn pack_loose(&self, inside: &Path) -> Result<(), GitError> {
        let (mut packer, control) = (Packer::new(), Control::new());
        let read = |path: &Path| fs::read_dir(path).map_err(GitError::io("cannot read", path));
        for directory in read(inside)? {
            let directory = directory.map_err(GitError::io("cannot read", inside))?;
            let first = directory.file_name().to_string_lossy().into_owned();
            if first.len() != 2 {
                continue;
            }
            for file in read(&directory.path())? {
                let file = file.map_err(GitError::io("cannot read", inside))?;
                let Ok(id) = Oid::from_str(&(first.clone() + &file.file_name().to_string_lossy())) else { continue };
                self.pack.add_loose(&mut packer, id, &file.path(), &control)?;
                fs::remove_file(file.path()).map_err(GitError::io("cannot remove", &file.path()))?;
            }
        }
        Ok(())
    }

    /// Keeps a pack that is about to come from every gc.
    fn keep(&self, target: &Path, pack: &Path) -> Result<(), GitError> {
        let keep = target.join(pack.file_name().unwrap_or_default()).with_extension("keep");
        let mut text = self.root.file_name().unwrap_or_default().as_encoded_bytes().to_vec();
        text.push(b'\n');
        let made = File::options().write(true).create_new(true).open(&keep);
        // Without its text nobody could tell later whose it is.
        let made = made.and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_data()));
        made.map_err(GitError::io("cannot write", &keep))?;
        self.keeps.borrow_mut().push(keep);
        Ok(())
    }
}

/// Removes quarantines whose makers no longer run. One of a process that can't be seen from here is told
/// by its lock.
pub(crate) fn clear_dead(common: &Path) {
    for entry in fs::read_dir(common).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let dead = name.to_str().is_some_and(|name| Owner::of_name_is_dead(name, OBJECTS));
        let free = || matches!(lock(&path, Hold::Exclusive, Some(Duration::ZERO), &Control::new()), Ok(Some(_)));
        if dead
            && free()
            && let Err(error) = crate::files::remove::remove_tree(&path)
        {
            tracing::warn!(%error, "the objects of a killed process could not be removed");
        }
    }
    forget_keeps(common);
}

impl Drop for Quarantine {
    fn drop(&mut self) {
        for keep in self.keeps.borrow_mut().drain(..) {
            if let Err(error) = fs::remove_file(&keep) {
                tracing::warn!(%error, "a pack stays out of gc");
            }
        }
        if let Some(directory) = self.directory.take() {
            // Read-only object files do not stop the removal of the directories that hold them.
            if let Err(error) = directory.close() {
                tracing::warn!(%error, "the object quarantine could not be removed");
            }
        }
    }
}

/// Removes what keeps packs of quarantines that are gone: their process was killed.
pub(crate) fn forget_keeps(common: &Path) {
    let Ok(files) = fs::read_dir(common.join("objects/pack")) else { return };
    for keep in files.filter_map(|file| Some(file.ok()?.path())).filter(|p| p.extension().is_some_and(|e| e == "keep"))
    {
        let Ok(text) = fs::read_to_string(&keep) else { continue };
        let name = text.trim_end();
        if name.starts_with(OBJECTS) && !name.contains('/') && !common.join(name).exists() {
            let _ = fs::remove_file(&keep);
        }
    }
}

fn sync(file: &Path) -> Result<(), GitError> {
    File::open(file).and_then(|f| f.sync_all()).map_err(GitError::io("cannot sync", file))
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
