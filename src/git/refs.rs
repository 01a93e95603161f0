//! Refs: moving a branch safely, and keeping work under `refs/isofold/`.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use git2::{ErrorClass, ErrorCode, ObjectType, Oid, Reference, Repository};

use super::repository::Repo;
use super::{Act, GitError};
use crate::control::{Control, POLL};

/// The namespace of all hidden refs.
pub(crate) const OURS: &str = "refs/isofold/";
pub(crate) const SAVED: &str = "refs/isofold/saved/";
pub(crate) const BASES: &str = "refs/isofold/base/";
pub(crate) const PATCHES: &str = "refs/isofold/patch/";
pub(crate) const FOREIGN: &str = "refs/isofold/foreign/";
pub(crate) const SESSIONS: &str = "refs/isofold/session/";

/// The pieces in which a file is saved.
const PIECE: usize = 64 * 1024;
/// How often one that becomes shorter meanwhile is begun again.
const TRIES: u32 = 4;

/// How long a ref that another process has locked is waited for: as git does by default.
const PATIENCE: Duration = Duration::from_secs(1);

/// Tries again while another process holds the lock, or takes away the empty directory that the file
/// was to go to (`git pack-refs` does).
pub(super) fn patient<T>(mut work: impl FnMut() -> Result<T, git2::Error>) -> Result<T, git2::Error> {
    let since = Instant::now();
    loop {
        match work() {
            Err(error)
                if (error.code() == ErrorCode::Locked || error.class() == ErrorClass::Os)
                    && since.elapsed() < PATIENCE =>
            {
                std::thread::sleep(POLL);
            }
            other => return other,
        }
    }
}

/// The same for one of our own refs. Nobody but isofold locks those, and never for long: a lock that
/// stays is that of a killed one.
fn patient_with_ours<T>(
    common: &Path,
    name: &str,
    mut work: impl FnMut() -> Result<T, git2::Error>,
) -> Result<T, git2::Error> {
    let lock = common.join(format!("{name}.lock"));
    let before = inode(&lock);
    match patient(&mut work) {
        Err(error) if error.code() == ErrorCode::Locked && before.is_some() && before == inode(&lock) => {
            let _ = std::fs::remove_file(&lock);
            work()
        }
        other => other,
    }
}

fn inode(file: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(file).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// Whether `packed-refs` has the ref.
fn is_packed(common: &Path, name: &str) -> bool {
    let packed = std::fs::read(common.join("packed-refs")).unwrap_or_default();
    packed.split(|b| *b == b'\n').any(|line| line.get(41..) == Some(name.as_bytes()))
}

/// A ref below one of our own namespaces.
#[derive(Debug, Clone)]
pub(crate) struct Hidden {
    /// The full name.
    pub(crate) name: String,
    pub(crate) id: Oid,
    /// When it was last set, in seconds since 1970, as far as that can be told; else a later moment.
    pub(crate) set: i64,
    /// Subject and committer's time of the commit; `None` for anything else.
    pub(crate) commit: Option<(String, i64)>,
}

/// The refs below `prefix` in a repository, by name.
pub(super) fn hidden_in(library: &Repository, prefix: &str) -> Result<Vec<Hidden>, GitError> {
    let act = || format!("cannot list {prefix}");
    let mut found = Vec::new();
    for reference in library.references_glob(&format!("{prefix}*")).act(act)? {
        let reference = reference.act(act)?;
        let (Ok(name), Some(id)) = (reference.name(), reference.target()) else { continue };
        let name = name.to_owned();
        let commit = library.find_commit(id).ok().map(|commit| {
            let subject = commit.summary_bytes().unwrap_or_default();
            (String::from_utf8_lossy(subject).into_owned(), commit.time().seconds())
        });
        let set = time_of(library, &name);
        found.push(Hidden { name, id, set, commit });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// When a ref was set: what its log says, else the age of the file that holds it.
fn time_of(library: &Repository, name: &str) -> i64 {
    let common = library.commondir();
    // Asked for a log that is not there, the library makes one.
    if common.join("logs").join(name).is_file()
        && let Ok(log) = library.reflog(name)
        && let Some(entry) = log.get(0)
    {
        return entry.committer().when().seconds();
    }
    let age = |file: &Path| std::fs::metadata(file).map(|meta| meta.mtime());
    age(&common.join(name)).or_else(|_| age(&common.join("packed-refs"))).unwrap_or(i64::MAX)
}

/// Whether letters, digits, `.`, `_` and `-` in this order can stand between the slashes of a ref's name
/// (git-check-ref-format(1)).
pub(crate) fn is_component(name: &str) -> bool {
    !name.contains("..") && !name.starts_with('.') && !name.ends_with('.') && name.strip_suffix(".lock").is_none()
}

impl Repo {
    /// Points a hidden ref at a commit, whatever it pointed at before; no reflog.
    pub(crate) fn set_hidden_ref(&self, name: &str, id: Oid) -> Result<(), GitError> {
        let set = patient_with_ours(self.common_dir(), name, || self.library().reference(name, id, true, "isofold"));
        set.map(drop).act(|| format!("cannot write {name}"))
    }

    /// The refs below `prefix`, by name.
    pub(crate) fn hidden(&self, prefix: &str) -> Result<Vec<Hidden>, GitError> {
        hidden_in(self.library(), prefix)
    }

    /// Makes a branch at a commit; `false` if there is one of that name that is elsewhere.
    pub(crate) fn new_branch(&self, name: &str, id: Oid) -> Result<bool, GitError> {
        if let Some(there) = self.ref_id(name)? {
            return Ok(there == id);
        }
        let made = patient(|| self.library().reference(name, id, false, "isofold: restored"));
        made.map(|_| true).act(|| format!("cannot make {name}"))
    }

    /// Removes a ref if it is there.
    pub(crate) fn remove_ref(&self, name: &str) -> Result<(), GitError> {
        loop {
            self.remove_ref_once(name)?;
            // A git that packs refs at this moment has read it before it went, and brings it back when it is
            // done; one that begins later does not see it any more.
            let lock = self.common_dir().join("packed-refs.lock");
            let since = Instant::now();
            while lock.exists() && since.elapsed() < PATIENCE {
                std::thread::sleep(POLL);
            }
            if !is_packed(self.common_dir(), name) {
                return Ok(());
            }
        }
    }

    fn remove_ref_once(&self, name: &str) -> Result<(), GitError> {
        if is_packed(self.common_dir(), name) {
            // A git of its own ends what it began, should this process be killed: the lock of
            // packed-refs must not stay, it would stop everybody.
            match self.git().run(["update-ref", "--no-deref", "-d", name], None, &Control::new()) {
                Err(GitError::NoProgram { .. }) => {}
                other => return other?.success().map(drop),
            }
        }
        let delete = || self.library().find_reference(name).and_then(|mut found| found.delete());
        let deleted =
            if name.starts_with(OURS) { patient_with_ours(self.common_dir(), name, delete) } else { patient(delete) };
        match deleted {
            Err(error) if error.code() != ErrorCode::NotFound => Err(error).act(|| format!("cannot remove {name}")),
            _ => Ok(()),
        }
    }

    /// Takes the lock of a ref away that a dead process of ours left, if it is still there a moment
    /// later: git's own are held for moments.
    pub(crate) fn clear_ref_lock(&self, name: &str) {
        let lock = self.common_dir().join(format!("{name}.lock"));
        let before = inode(&lock);
        let since = Instant::now();
        while before.is_some() && before == inode(&lock) {
            if since.elapsed() > PATIENCE {
                let _ = std::fs::remove_file(&lock);
                return;
            }
            std::thread::sleep(POLL);
        }
    }

    /// Creates or moves a branch, if it still is at `from` (none: does not exist).
    pub(crate) fn move_branch(&self, name: &str, from: Option<Oid>, to: Oid, message: &str) -> Result<(), GitError> {
        let moved = patient(|| match from {
            Some(from) => self.library().reference_matching(name, to, true, from, message).map(drop),
            None => self.library().reference(name, to, false, message).map(drop),
        });
        moved.act(|| format!("cannot move {name}"))
    }

    /// Puts a branch back to where it was, or away.
    pub(crate) fn restore_branch(&self, name: &str, before: Option<Oid>) -> Result<(), GitError> {
        match before {
            Some(before) => {
                let set = patient(|| self.library().reference(name, before, true, "isofold: isolate taken back"));
                set.map(drop).act(|| format!("cannot restore {name}"))
            }
            None => self.remove_ref(name),
        }
    }

    /// A ref that stands where the branch `name` has to be: `refs/heads/a` or `…/a/b/c` for `a/b`.
    pub(crate) fn ref_in_the_way(&self, name: &str) -> Result<Option<String>, GitError> {
        let mut above = name;
        while let Some((parent, _)) = above.rsplit_once('/') {
            if parent == "refs/heads" {
                break;
            }
            if self.ref_id(parent)?.is_some() {
                return Ok(Some(parent.to_owned()));
            }
            above = parent;
        }
        let act = || "cannot list the refs".to_owned();
        let mut below = self.library().references_glob(&format!("{name}/*")).act(act)?;
        let first = below.next().transpose().act(act)?;
        Ok(first.map(|found| String::from_utf8_lossy(found.name_bytes()).into_owned()))
    }

    /// Whether `id` would be reachable from no ref and no work tree's HEAD, were `without` gone.
    pub(crate) fn only_reached_by(&self, id: Oid, without: &str, also: Option<Oid>) -> Result<bool, GitError> {
        Ok(self.unreached(&[id], without, also)?.next().is_some())
    }

    /// A walk over the commits of `tips` that no other ref has.
    pub(super) fn unreached(
        &self,
        tips: &[Oid],
        without: &str,
        also: Option<Oid>,
    ) -> Result<git2::Revwalk<'_>, GitError> {
        let act = || "cannot walk the history".to_owned();
        let mut walk = self.library().revwalk().act(act)?;
        for tip in tips {
            walk.push(*tip).act(act)?;
        }
        let mut hide = |tip: Oid| match walk.hide(tip) {
            // Refs may point at trees, blobs or objects that are gone.
            Err(_) => Ok::<(), GitError>(()),
            Ok(()) => Ok(()),
        };
        for found in self.library().references().act(act)? {
            let found: Reference<'_> = found.act(act)?;
            // They go when the work they belong to is done.
            let spaces = [BASES, PATCHES, SESSIONS];
            let hidden = spaces.iter().any(|space| found.name_bytes().starts_with(space.as_bytes()));
            if found.name_bytes() == without.as_bytes() || hidden {
                continue;
            }
            if let Ok(commit) = found.peel_to_commit() {
                hide(commit.id())?;
            }
        }
        if let Some(also) = also {
            hide(also)?;
        }
        Ok(walk)
    }

    /// The name of the ref that saves a commit: `refs/isofold/saved/<label>-<id>`.
    pub(crate) fn saved_name(label: &str, id: Oid) -> String {
        let label: String =
            label.chars().map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' }).collect();
        format!("{SAVED}{}-{}", label.trim_matches('-'), &id.to_string()[..12])
    }

    /// Saves a commit under its [`Self::saved_name`] and returns that.
    pub(crate) fn save(&self, label: &str, id: Oid) -> Result<String, GitError> {
        let name = Self::saved_name(label, id);
        // The log says when; without one the age of the file has to do.
        if self.library().reference_ensure_log(&name).is_err() {
            tracing::warn!(%name, "no log could be made");
        }
        let common = self.common_dir();
        let set = patient_with_ours(common, &name, || self.library().reference(&name, id, true, "isofold: saved"));
        set.map(drop).act(|| format!("cannot write {name}"))?;
        Ok(name)
    }

    /// Saves a file or a link that has no place in a tree, synced; returns the ref's name.
    pub(crate) fn save_file(&self, label: &str, path: &Path) -> Result<String, GitError> {
        let read = GitError::io("cannot read", path);
        let id = match fs::symlink_metadata(path) {
            Ok(meta) if meta.is_symlink() => {
                let target = fs::read_link(path).map_err(read)?;
                self.library().blob(target.as_os_str().as_bytes()).act(|| "cannot write a blob".to_owned())?
            }
            Ok(_) => self.blob_of(path)?,
            Err(error) => return Err(read(error)),
        };
        let name = id.to_string();
        let file = self.common_dir().join("objects").join(&name[..2]).join(&name[2..]);
        // An object that is packed already is on the disk.
        if let Ok(object) = File::open(&file) {
            object.sync_all().map_err(GitError::io("cannot sync", &file))?;
        }
        self.save(label, id)
    }

    /// Stores a file piece by piece. Who still has it open may go on writing: what is stored is what it held
    /// at one moment, at least.
    fn blob_of(&self, path: &Path) -> Result<Oid, GitError> {
        let odb = self.library().odb().act(|| "cannot open the object store".to_owned())?;
        let mut file = File::open(path).map_err(GitError::io("cannot read", path))?;
        let mut piece = vec![0; PIECE];
        for _ in 0..TRIES {
            file.rewind().map_err(GitError::io("cannot read", path))?;
            let size = file.metadata().map_err(GitError::io("cannot read", path))?.len();
            let length = usize::try_from(size).map_err(io::Error::other).map_err(GitError::io("cannot read", path))?;
            let mut blob = odb.writer(length, ObjectType::Blob).act(|| "cannot write a blob".to_owned())?;
            let mut left = size;
            while left > 0 {
                let wanted = piece.len().min(usize::try_from(left).unwrap_or(piece.len()));
                let got = file.read(&mut piece[..wanted]).map_err(GitError::io("cannot read", path))?;
                if got == 0 {
                    break;
                }
                blob.write_all(&piece[..got]).map_err(GitError::io("cannot store", path))?;
                left -= got as u64;
            }
            // Else it is shorter now.
            if left == 0 {
                return blob.finalize().act(|| "cannot write a blob".to_owned());
            }
        }
        Err(GitError::io("cannot store", path)(io::Error::other("it became shorter again and again")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::tree::{hash_blob, hash_file};

    #[test]
    fn files_of_any_size_are_saved_as_they_are() {
        let directory = tempfile::tempdir().expect("a directory");
        Repository::init(directory.path()).expect("a repository");
        let repo = Repo::open(directory.path()).expect("it opens");
        let path = directory.path().join("late");
        let saved = |name: &str| repo.library().refname_to_id(name).expect("a ref");
        for size in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 7] {
            let content: Vec<u8> = (0..size).map(|n| u8::try_from(n % 251).expect("small")).collect();
            fs::write(&path, &content).expect("written");
            let id = saved(&repo.save_file("late", &path).expect("saved"));
            assert_eq!(id, hash_file(&path).expect("hashed"));
            assert_eq!(repo.library().find_blob(id).expect("stored").content(), content);
        }
        fs::remove_file(&path).expect("it was there");
        std::os::unix::fs::symlink("nowhere/at all", &path).expect("a link");
        let id = saved(&repo.save_file("late", &path).expect("saved"));
        assert_eq!(id, hash_blob(b"nowhere/at all").expect("hashed"));
        fs::remove_file(&path).expect("it was there");
        assert!(repo.save_file("late", &path).is_err());
    }
}
