//! Writing working files of the main checkout without its index: all or nothing, and what is edited
//! meanwhile is kept.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{Landed, PatchError};
use crate::control::Control;
use crate::files::{FilesError, as_path};
use crate::git::GitError;
use crate::git::index_file::IndexFile;
use crate::git::quarantine::Quarantine;
use crate::git::repository::Repo;
use crate::git::settings::plain_content;
use crate::git::tree::{Change, Item, MODE_EXECUTABLE, MODE_FILE, MODE_LINK, Objects, hash_blob};
use crate::snapshot::{Snapshot, attributes_above};
use crate::write::plan::{self, Ground, Old, Plan, Step};
use crate::write::writer::{Along, Scope, Writer};

/// What stands at a path in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    Nothing,
    File { bytes: Vec<u8>, executable: bool },
    Link(Vec<u8>),
    Directory,
}

impl Content {
    /// Reads what stands at `path`, never through a link above it.
    pub(super) fn of(root: &Path, path: &[u8]) -> Result<Self, GitError> {
        let full = root.join(as_path(path));
        let read = || -> io::Result<Self> {
            let mut above = root.to_owned();
            for part in as_path(path).parent().into_iter().flat_map(Path::components) {
                above.push(part);
                if !fs::symlink_metadata(&above).is_ok_and(|meta| meta.is_dir()) {
                    return Ok(Self::Nothing);
                }
            }
            let meta = match fs::symlink_metadata(&full) {
                Ok(meta) => meta,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Nothing),
                Err(error) => return Err(error),
            };
            if meta.is_symlink() {
                Ok(Self::Link(fs::read_link(&full)?.as_os_str().as_bytes().to_vec()))
            } else if meta.is_file() {
                Ok(Self::File { bytes: fs::read(&full)?, executable: meta.permissions().mode() & 0o100 != 0 })
            } else {
                Ok(Self::Directory)
            }
        };
        read().map_err(GitError::io("cannot read", &full))
    }

    /// Makes the same at `path` in another directory.
    pub(super) fn put(&self, root: &Path, path: &[u8]) -> Result<(), FilesError> {
        let full = root.join(as_path(path));
        let written = || -> io::Result<()> {
            if *self != Self::Nothing {
                fs::create_dir_all(full.parent().unwrap_or(root))?;
            }
            match self {
                Self::Nothing => Ok(()),
                Self::Directory => fs::create_dir_all(&full),
                Self::Link(target) => std::os::unix::fs::symlink(as_path(target), &full),
                Self::File { bytes, executable } => {
                    fs::write(&full, bytes)?;
                    let mode = if *executable { 0o755 } else { 0o644 };
                    fs::set_permissions(&full, fs::Permissions::from_mode(mode))
                }
            }
        };
        written().map_err(FilesError::io("cannot write", &full))
    }

    fn raw(&self) -> Option<&[u8]> {
        match self {
            Self::File { bytes, .. } => Some(bytes),
            Self::Link(target) => Some(target),
            _ => None,
        }
    }

    fn mode(&self) -> u32 {
        match self {
            Self::Link(_) => MODE_LINK,
            Self::File { executable: true, .. } => MODE_EXECUTABLE,
            _ => MODE_FILE,
        }
    }
}

/// The main checkout, as far as a landing needs it.
pub(crate) struct Checkout<'a> {
    pub(crate) repo: &'a Repo,
    pub(crate) quarantine: &'a Quarantine,
    pub(crate) control: &'a Control,
}

impl Checkout<'_> {
    /// Makes each path what it is to be, if it still is what it was: the bytes are those of the disk, no
    /// conversion has a say.
    pub(super) fn write(&self, changes: &BTreeMap<Vec<u8>, (Content, Content)>) -> Result<Landed, PatchError> {
        let store = self.quarantine.store().open();
        let mut plan = Plan::default();
        for (path, (before, after)) in changes {
            if before == after {
                continue;
            }
            let path = path.clone();
            let raw = before.raw().map(hash_blob).transpose()?;
            let old = raw.map(|raw| Old { raw, mode: before.mode() });
            let new = match after.raw() {
                Some(bytes) => Some(Item { mode: after.mode(), id: store.write(bytes)? }),
                None => None,
            };
            plan.steps.push(match (old, new) {
                (Some(old), Some(new)) => Step::Replace { path, old, new },
                (None, Some(new)) => Step::Add { path, new },
                (Some(old), None) => Step::Delete { path, old },
                // A submodule's directory.
                (None, None) if *after == Content::Directory => Step::Submodule { path, comes: true },
                (None, None) if self.is_empty(&path) => Step::Submodule { path, comes: false },
                (None, None) => continue,
            });
        }
        let index = IndexFile::read(&self.quarantine.store().root().join("no-index"))?;
        self.swap(&plan, &index, Some(self.quarantine))
    }

    /// Brings the difference of two trees into the working files that `ours` is the snapshot of, as git
    /// would check them out.
    pub(crate) fn check_out(&self, ours: &Snapshot, changes: &[Change]) -> Result<Landed, PatchError> {
        let git = self.repo.git();
        let ground = self.ground(&ours.index, &git)?;
        let plan = plan::plan(&ground, changes, self.control)?;
        let attributes = |path: &[u8]| path.rsplit(|b| *b == b'/').next() == Some(b".gitattributes");
        let converted = plan.index.keys().any(|path| attributes(path))
            || ours.index.entries().iter().any(|entry| attributes(ours.index.path(entry)))
            || attributes_above(self.repo.work_dir(), plan.index.keys().map(Vec::as_slice))
            || !plain_content(self.repo)?;
        self.swap(&plan, &ours.index, (!converted).then_some(self.quarantine as &dyn Objects))
    }

    fn ground<'g>(&'g self, index: &'g IndexFile, git: &'g crate::git::program::Git) -> Result<Ground<'g>, GitError> {
        let file_mode = self.repo.config_bool("core.fileMode", true)?;
        Ok(Ground { root: self.repo.work_dir(), index, git, file_mode, sparse: None })
    }

    fn swap(&self, plan: &Plan, index: &IndexFile, as_is: Option<&dyn Objects>) -> Result<Landed, PatchError> {
        let git = self.repo.git();
        let ground = self.ground(index, &git)?;
        let entered = self.quarantine.enter(git.clone())?;
        let mut writer = Writer::begin(self.repo, Scope::Files, self.control)?;
        writer.stage(&ground, plan, &entered, as_is, self.control)?;
        let after = writer.finish(plan, index, Along::default(), self.control)?;
        let mut files: Vec<_> = plan.steps.iter().map(|step| as_path(path_of(step)).to_owned()).collect();
        files.sort();
        let root = self.repo.work_dir().to_owned();
        Ok(Landed { root, files, saved: after.saved, warnings: after.warnings, ..Landed::default() })
    }

    fn is_empty(&self, path: &[u8]) -> bool {
        fs::read_dir(self.repo.work_dir().join(as_path(path))).is_ok_and(|mut entries| entries.next().is_none())
    }
}

fn path_of(step: &Step) -> &[u8] {
    match step {
        Step::Add { path, .. }
        | Step::Replace { path, .. }
        | Step::Delete { path, .. }
        | Step::Submodule { path, .. } => path,
    }
}
