//! The room of a landing: a directory in the git directory of the work tree that is written to. It
//! holds the journal, git's locks until they are taken, and whatever is not in its place yet. While it
//! is there, a landing is under way or was cut off.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::crash;
use super::journal::{Init, LockRecord, Record};
use crate::control::Control;
use crate::files::owner::Owner;
use crate::files::remove::remove_tree;
use crate::git::lock_files::{GitLock, lock_of};
use crate::git::ref_files::{make_hidden, remove_hidden};
use crate::git::repository::Repo;
use crate::git::{GitError, Oid};
use crate::records::{decode_path, encode_path};

/// How long the lock of packed refs is waited for when all else is done.
const PATIENCE: Duration = Duration::from_secs(10);

/// The refs that keep a landing's commits alive are below this, in a directory of its id.
const KEPT_ALIVE: &str = "refs/isofold/fold/";

#[derive(Debug)]
pub(super) struct Room {
    path: PathBuf,
    pub(super) id: String,
    /// Git's locks, in the order in which they are taken.
    locks: Vec<GitLock>,
    /// That of packed refs, taken only to remove our own.
    packed: GitLock,
}

impl Room {
    /// Where the room of a landing in this work tree is.
    pub(super) fn path_of(git_dir: &Path) -> PathBuf {
        git_dir.join("isofold-landing")
    }

    /// The journal in a room.
    pub(super) fn journal_in(room: &Path) -> PathBuf {
        room.join("journal")
    }

    /// Makes the room and prepares the locks; the record says all of it.
    pub(super) fn make(repo: &Repo, id: &str, locks: Vec<PathBuf>) -> Result<(Self, Init), GitError> {
        let path = Self::path_of(repo.git_dir());
        fs::create_dir(&path).map_err(GitError::io("cannot make", &path))?;
        crash::point("room-made");
        let marker = marker(id);
        let prepare = |(number, lock): (usize, PathBuf)| {
            let prepared = path.join(format!("lock-{number}"));
            GitLock::prepare(lock, prepared, &marker)
        };
        let packed = lock_of(&repo.common_dir().join("packed-refs"));
        let prepared = (|| {
            let packed = GitLock::prepare(packed, path.join("lock-packed"), &marker)?;
            Ok((locks.into_iter().enumerate().map(prepare).collect::<Result<Vec<_>, _>>()?, packed))
        })();
        let (locks, packed) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                let _ = remove_tree(&path);
                return Err(error);
            }
        };
        crash::point("locks-prepared");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let init = Init {
            version: super::journal::VERSION,
            id: id.to_owned(),
            owner: Owner::this(),
            time: now.as_secs(),
            root: text(repo.work_dir()),
            locks: locks.iter().chain([&packed]).map(noted).collect(),
        };
        Ok((Self { path, id: id.to_owned(), locks, packed }, init))
    }

    /// The room that a record describes.
    pub(super) fn noted(path: PathBuf, init: &Init) -> Self {
        let marker = marker(&init.id);
        let mut locks: Vec<GitLock> = init
            .locks
            .iter()
            .enumerate()
            .map(|(n, lock)| {
                let prepared = if n + 1 == init.locks.len() { "lock-packed".to_owned() } else { format!("lock-{n}") };
                GitLock::noted(from_text(&lock.path), path.join(prepared), lock.inode, &marker)
            })
            .collect();
        // The last one is that of packed refs.
        let packed =
            locks.pop().unwrap_or_else(|| GitLock::noted(PathBuf::new(), path.join("lock-packed"), 0, &marker));
        Self { path, id: init.id.clone(), locks, packed }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn journal(&self) -> PathBuf {
        Self::journal_in(&self.path)
    }

    /// Git's locks.
    pub(super) fn locks(&self) -> &[GitLock] {
        &self.locks
    }

    /// The new index until it is in its place.
    pub(super) fn index(&self) -> PathBuf {
        self.path.join("index")
    }

    /// The new content of the ref that moves.
    pub(super) fn moving_ref(&self) -> PathBuf {
        self.path.join("ref")
    }

    /// Has the directories that name the journal on the disk.
    pub(super) fn sync(&self) -> Result<(), GitError> {
        for directory in [Some(self.path.as_path()), self.path.parent()].into_iter().flatten() {
            let synced = File::open(directory).and_then(|open| open.sync_all());
            synced.map_err(GitError::io("cannot sync", directory))?;
        }
        Ok(())
    }

    /// Keeps a commit alive as long as the landing lasts.
    pub(super) fn keep_alive(&self, repo: &Repo, name: &str, id: Oid) -> Result<(), GitError> {
        make_hidden(repo, &format!("{KEPT_ALIVE}{}/{name}", self.id), id, false, &self.path)
    }

    /// The refs of [`Self::keep_alive`] that are there.
    pub(super) fn kept_alive(&self) -> Vec<String> {
        ["parent", "result"].map(|name| format!("{KEPT_ALIVE}{}/{name}", self.id)).to_vec()
    }

    /// Removes hidden refs: those that kept the landing alive, and these.
    fn remove_refs(&self, repo: &Repo, more: &[String]) -> Result<(), GitError> {
        let mut names = self.kept_alive();
        names.extend_from_slice(more);
        // An earlier process may have been cut off with this lock, and it may be used up.
        self.packed.release()?;
        let scratch = self.path.join("lock-packed");
        let again = !scratch.exists();
        let prepared;
        let lock = if again {
            prepared = GitLock::prepare(self.packed.path().to_owned(), scratch, &marker(&self.id))?;
            &prepared
        } else {
            &self.packed
        };
        let control = Control::with_clock(PATIENCE);
        let removed = loop {
            match remove_hidden(repo, &names, lock, &control) {
                Err(GitError::Held(_)) if control.check().is_ok() => {}
                other => break other,
            }
        };
        let directory = repo.ref_path(&format!("{KEPT_ALIVE}{}", self.id));
        let _ = fs::remove_dir(&directory);
        let _ = directory.parent().map(fs::remove_dir);
        removed
    }

    /// Takes all of it away: refs, git's locks, other rooms, the room itself, last. What fails is said,
    /// and does not keep the rest.
    pub(super) fn clear(self, repo: &Repo, rooms: &[PathBuf], refs: &[String]) -> Vec<String> {
        let mut failed = Vec::new();
        let mut note = |result: Result<(), String>| failed.extend(result.err());
        note(self.remove_refs(repo, refs).map_err(|e| format!("hidden refs of the fold stay: {e}")));
        crash::point("refs-removed");
        for lock in self.locks.iter().rev() {
            note(lock.release().map_err(|e| e.to_string()));
        }
        crash::point("unlocked");
        for room in rooms {
            note(remove_tree(room).map_err(|e| e.to_string()));
        }
        note(remove_tree(&self.path).map_err(|e| e.to_string()));
        failed
    }
}

/// What a lock of ours says.
fn marker(id: &str) -> String {
    format!("isofold {id}\n")
}

fn noted(lock: &GitLock) -> LockRecord {
    LockRecord { path: text(lock.path()), inode: lock.inode() }
}

/// A path in a journal.
pub(super) fn text(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    encode_path(path.as_os_str().as_bytes())
}

/// The path of [`text`].
pub(super) fn from_text(text: &str) -> PathBuf {
    crate::files::as_path(&decode_path(text)).to_owned()
}

/// The first record of the journal in a git directory: who is or was landing there.
pub(crate) fn landing_in(git_dir: &Path) -> Option<Init> {
    let journal = Room::journal_in(&Room::path_of(git_dir));
    match super::journal::read(&journal) {
        Ok(super::journal::Read::Records(records)) => match records.into_iter().next() {
            Some(Record::Init(init)) => Some(init),
            _ => None,
        },
        _ => None,
    }
}
