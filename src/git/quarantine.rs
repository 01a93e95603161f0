//! Objects that are not in the repository yet.
//!
//! A quarantine is a small bare repository whose object store borrows from the real one. What an
//! operation makes goes there, by the library and by the git program alike; it is moved into the
//! real store when a ref is about to name it, and vanishes without a trace otherwise.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use git2::{ObjectType, Oid, Repository, Signature};

use super::program::Git;
use super::repository::Repo;
use super::{Act, GitError};

pub(crate) struct Quarantine {
    directory: Option<tempfile::TempDir>,
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

    /// A directory for temporary files that goes with the quarantine.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }
}

impl Quarantine {
    /// A fresh quarantine for `repo`, inside its common git directory.
    pub(crate) fn new(repo: &Repo) -> Result<Self, GitError> {
        let common = repo.common_dir();
        let directory = tempfile::Builder::new()
            .prefix("isofold-objects-")
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
        Ok(Self { directory: Some(directory), root, real, repository })
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
