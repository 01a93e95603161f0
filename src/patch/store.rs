//! The store: `.isofold/patches/<agent>/{base,changes.patch}` in the main checkout, hidden from git by
//! the common `info/exclude`. In a bare repository, where no checkout is the main one, it lies in the git
//! directory.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{Listed, PatchError};
use crate::control::Control;
use crate::files::FilesError;
use crate::files::lock::{Hold, Lock, lock};
use crate::git::refs::PATCHES;
use crate::git::repository::Repo;
use crate::git::{GitError, Oid, show};

const BASE: &str = "base";
const PATCH: &str = "changes.patch";
const TEMPORARY: &str = ".isofold-";

/// The line in `info/exclude`.
const EXCLUDED: &str = ".isofold/";

/// How long another isofold that is at work on the same patch is waited for.
const PATIENCE: Duration = Duration::from_mins(1);

/// The name of an agent: `[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Agent(String);

impl Agent {
    pub(crate) fn new(name: &str) -> Result<Self, PatchError> {
        if is_name(name) {
            return Ok(Self(name.to_owned()));
        }
        Err(PatchError::Usage(format!(
            "{:?} is no name of an agent: letters, digits, . _ and -, up to 128 of them, the first no dot",
            crate::git::one_line(name)
        )))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// The hidden ref that keeps what the patch needs.
    pub(crate) fn kept_by(&self) -> String {
        let name = &self.0;
        let allowed = crate::git::refs::is_component(name);
        // No other agent has a `%` in its name.
        let name = if allowed { name.clone() } else { name.replace('.', "%2E") };
        format!("{PATCHES}{name}")
    }
}

/// Whether a word can name an agent or a session.
pub(crate) fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    let (first, rest) = match name.as_bytes().split_first() {
        Some((first, rest)) => (*first, rest),
        None => return false,
    };
    plain(first) && rest.len() < 128 && rest.iter().all(|b| plain(*b) || *b == b'.')
}

/// Where the patches of a repository are.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    patches: PathBuf,
    common: PathBuf,
}

impl Store {
    pub(crate) fn of(repo: &Repo) -> Result<Self, PatchError> {
        let common = repo.common_dir().to_owned();
        let patches = match repo.main_root()? {
            Some(root) => root.join(".isofold").join("patches"),
            None => common.join("isofold").join("patches"),
        };
        Ok(Self { patches, common })
    }

    /// The place of an agent's patch, made where it is not there, held by this process alone.
    pub(crate) fn take(&self, agent: &Agent, control: &Control) -> Result<Slot, PatchError> {
        exclude(&self.common, EXCLUDED)?;
        let directory = self.patches.join(agent.name());
        loop {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory);
            made.map_err(GitError::io("cannot make", &directory))?;
            // Whoever drops the patch may take the directory from under us.
            if let Some(slot) = Slot::held(&directory, agent, Hold::Exclusive, control)? {
                slot.clear()?;
                return Ok(slot);
            }
        }
    }

    /// The place of a patch that is there.
    pub(super) fn find(&self, agent: &Agent, hold: Hold, control: &Control) -> Result<Slot, PatchError> {
        let directory = self.patches.join(agent.name());
        let slot = Slot::held(&directory, agent, hold, control)?.filter(|slot| slot.patch_file().exists());
        slot.ok_or_else(|| no_patch(agent))
    }

    pub(super) fn patch(&self, agent: &Agent) -> Result<Vec<u8>, PatchError> {
        let file = self.patches.join(agent.name()).join(PATCH);
        match fs::read(&file) {
            Ok(bytes) => Ok(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(no_patch(agent)),
            Err(error) => Err(GitError::io("cannot read", &file)(error).into()),
        }
    }

    pub(super) fn list(&self) -> Result<Vec<Listed>, PatchError> {
        let read = |error| PatchError::from(GitError::io("cannot read", &self.patches)(error));
        let entries = match fs::read_dir(&self.patches) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(read(error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(read)?;
            let Some(agent) = entry.file_name().to_str().and_then(|name| Agent::new(name).ok()) else { continue };
            let file = entry.path().join(PATCH);
            // Not written yet, or dropped meanwhile.
            let (Ok(bytes), Ok(meta)) = (fs::read(&file), fs::metadata(&file)) else { continue };
            let base = fs::read_to_string(entry.path().join(BASE)).unwrap_or_default().trim().to_owned();
            let age = meta.modified().ok().and_then(|then| SystemTime::now().duration_since(then).ok());
            found.push(Listed {
                agent: agent.0,
                base,
                files: crate::diff::count(&bytes),
                bytes: meta.len(),
                age_seconds: age.unwrap_or_default().as_secs(),
                patch: file.to_string_lossy().into_owned(),
            });
        }
        found.sort_by(|a, b| a.agent.cmp(&b.agent));
        Ok(found)
    }

    pub(super) fn drop_patch(&self, repo: &Repo, agent: &Agent, control: &Control) -> Result<(), PatchError> {
        let slot = self.find(agent, Hold::Exclusive, control)?;
        // The objects go last: until then the patch is whole.
        crate::files::remove::remove_tree(&slot.directory)?;
        free(repo, &agent.kept_by())?;
        repo.remove_ref(&agent.kept_by())?;
        Ok(())
    }
}

fn no_patch(agent: &Agent) -> PatchError {
    PatchError::NoPatch(format!("there is no patch of {}; isofold patch list shows those that are", agent.name()))
}

/// The place of one patch, locked.
pub(crate) struct Slot {
    directory: PathBuf,
    _lock: Lock,
}

impl Slot {
    /// `None` where there is no such place, or another process took it away meanwhile.
    fn held(directory: &Path, agent: &Agent, hold: Hold, control: &Control) -> Result<Option<Self>, PatchError> {
        let inode =
            |path: &Path| fs::symlink_metadata(path).ok().filter(fs::Metadata::is_dir).map(|m| (m.dev(), m.ino()));
        let Some(before) = inode(directory) else { return Ok(None) };
        let waited = match lock(directory, hold, Some(PATIENCE), control) {
            Err(FilesError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let lock = waited.ok_or_else(|| {
            PatchError::Failed(format!("another isofold is at work on the patch of {}; try again", agent.name()))
        })?;
        let same = inode(directory) == Some(before);
        Ok(same.then(|| Self { directory: directory.to_owned(), _lock: lock }))
    }

    /// What a killed record left half-written.
    fn clear(&self) -> Result<(), GitError> {
        for entry in fs::read_dir(&self.directory).map_err(GitError::io("cannot read", &self.directory))? {
            let entry = entry.map_err(GitError::io("cannot read", &self.directory))?;
            if entry.file_name().as_encoded_bytes().starts_with(TEMPORARY.as_bytes()) {
                fs::remove_file(entry.path()).map_err(GitError::io("cannot remove", &entry.path()))?;
            }
        }
        Ok(())
    }

    pub(super) fn patch_file(&self) -> PathBuf {
        self.directory.join(PATCH)
    }

    /// The patch that is there.
    pub(super) fn patch(&self) -> Result<Option<Vec<u8>>, GitError> {
        read(&self.patch_file())
    }

    /// The commit that the patch starts from, once one was recorded.
    pub(super) fn base(&self) -> Result<Option<Oid>, GitError> {
        let file = self.directory.join(BASE);
        let Some(text) = read(&file)? else { return Ok(None) };
        let text = String::from_utf8_lossy(&text).trim().to_owned();
        let damaged = |_| GitError::Format { what: format!("the id {text:?} in {}", show(&file)) };
        Oid::from_str(&text).map(Some).map_err(damaged)
    }

    pub(super) fn write_base(&self, base: Oid) -> Result<(), GitError> {
        replace(&self.directory, BASE, format!("{base}\n").as_bytes())
    }

    pub(super) fn write_patch(&self, patch: &[u8]) -> Result<(), GitError> {
        replace(&self.directory, PATCH, patch)
    }
}

fn read(file: &Path) -> Result<Option<Vec<u8>>, GitError> {
    match fs::read(file) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(GitError::io("cannot read", file)(error)),
    }
}

/// Replaces a file: all old or all new, synced.
pub(crate) fn replace(directory: &Path, name: &str, content: &[u8]) -> Result<(), GitError> {
    let target = directory.join(name);
    let written = || -> io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(directory)?;
        file.write_all(content)?;
        file.as_file().sync_data()?;
        file.persist(&target)?;
        fs::File::open(directory)?.sync_all()
    };
    written().map_err(GitError::io("cannot write", &target))
}

/// Sees to it that the common `info/exclude` has this very line.
pub(crate) fn exclude(common: &Path, line: &str) -> Result<(), GitError> {
    let info = common.join("info");
    let file = info.join("exclude");
    let written = || -> io::Result<()> {
        let before = match fs::read(&file) {
            Ok(before) => before,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        if before.split(|b| *b == b'\n').any(|known| known == line.as_bytes()) {
            return Ok(());
        }
        fs::create_dir_all(&info)?;
        let end = if before.is_empty() || before.ends_with(b"\n") { "" } else { "\n" };
        // In one write: two of us at once leave two whole lines at worst.
        fs::File::options().append(true).create(true).open(&file)?.write_all(format!("{end}{line}\n").as_bytes())
    };
    written().map_err(GitError::io("cannot write", &file))
}

/// How long another process may hold the lock of a ref that is ours alone.
const REF_PATIENCE: Duration = Duration::from_secs(3);

/// Waits until nobody holds the lock of one of our refs; one that a killed isofold left is removed. Only
/// who holds the patch writes its ref, and git (packing refs) is done within the wait.
pub(super) fn free(repo: &Repo, name: &str) -> Result<(), GitError> {
    let lock = repo.common_dir().join(format!("{name}.lock"));
    loop {
        let Ok(meta) = fs::symlink_metadata(&lock) else { return Ok(()) };
        let age = meta.modified().ok().and_then(|then| SystemTime::now().duration_since(then).ok()).unwrap_or_default();
        if age > REF_PATIENCE {
            match fs::remove_file(&lock) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(GitError::io("cannot remove the stale lock", &lock)(error));
                }
                _ => return Ok(()),
            }
        }
        std::thread::sleep(crate::control::POLL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_agents_and_their_refs() {
        let long = "a".repeat(128);
        for name in ["a", "-a", "_", "a.b", "A-1_x.y", long.as_str()] {
            assert!(is_name(name), "{name}");
        }
        let too_long = "a".repeat(129);
        for name in ["", ".a", "a/b", "a b", "é", "a\n", "..", too_long.as_str()] {
            assert!(!is_name(name), "{name}");
        }
        let kept = |name: &str| Agent::new(name).map(|agent| agent.kept_by());
        assert_eq!(kept("a.b"), Ok("refs/isofold/patch/a.b".to_owned()));
        // What git refuses in the name of a ref.
        for (name, kept_as) in [("a..b", "a%2E%2Eb"), ("a.", "a%2E"), ("x.lock", "x%2Elock")] {
            assert_eq!(kept(name), Ok(format!("refs/isofold/patch/{kept_as}")));
        }
    }
}
