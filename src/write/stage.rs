//! Staging: the new files as git would check them out, where nobody sees them, on the file system
//! of their target.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::WriteError;
use super::plan::{Ground, Plan, Step};
use crate::control::Control;
use crate::files::{FilesError, as_path};
use crate::git::GitError;
use crate::git::index_file::{IndexFile, IndexStat, NewEntry};
use crate::git::program::Git;
use crate::git::tree::{Item, MODE_EXECUTABLE, MODE_GITLINK, MODE_LINK, Objects};

/// The device of a directory, and on Linux its mount: nothing can be renamed from one mount to another,
/// be it of the same file system.
type Mount = (u64, u64);

/// Directories for new files and for what they replace, one on each mount that is written to.
pub(crate) struct Stage {
    rooms: Vec<(Mount, tempfile::TempDir)>,
    /// Path in the work tree → the new file, and its stat data while only we knew of it.
    files: BTreeMap<Vec<u8>, (PathBuf, IndexStat)>,
    count: usize,
}

impl Stage {
    /// Writes every new file of the plan. `git` reads the objects of the new tree; `git_dir` is
    /// where the first room is made if it is on the work tree's file system. Where nothing converts
    /// content, `unconverted` gives the objects and no git is needed.
    pub(crate) fn new(
        ground: &Ground<'_>,
        plan: &Plan,
        git: &Git,
        git_dir: &Path,
        unconverted: Option<&dyn Objects>,
        control: &Control,
    ) -> Result<Self, WriteError> {
        let mut stage = Self { rooms: Vec::new(), files: BTreeMap::new(), count: 0 };
        let coming: Vec<(&[u8], Item)> = plan
            .steps
            .iter()
            .filter_map(|step| match step {
                Step::Add { path, new } | Step::Replace { path, new, .. } => Some((path.as_slice(), *new)),
                _ => None,
            })
            .collect();
        let root_mount = mount_of(ground.root)?;
        let base = if mount_of(git_dir)? == root_mount { git_dir } else { ground.root };
        stage.room_at(root_mount, base)?;
        for step in &plan.steps {
            if let Step::Add { path, .. } | Step::Replace { path, .. } | Step::Delete { path, .. } = step {
                let above = existing_above(ground.root, path);
                let mount = mount_of(&above)?;
                if mount != root_mount {
                    stage.room_at(mount, &top_of(ground.root, &above)?)?;
                }
            }
        }
        if coming.is_empty() {
            return Ok(stage);
        }
        let room = stage.rooms[0].1.path().to_owned();
        let tree = room.join("tree");
        fs::create_dir(&tree).map_err(FilesError::io("cannot write to", &room))?;
        match unconverted {
            Some(objects) => write_plain(&coming, objects, &tree, control)?,
            None => checkout(ground, plan, &coming, git, &room, &tree, control)?,
        }
        for (path, _) in &coming {
            let mut file = tree.join(as_path(path));
            let mount = mount_of(&existing_above(ground.root, path))?;
            if mount != root_mount {
                let moved = stage.spare_on(mount);
                move_across(&file, &moved).map_err(FilesError::io("cannot write", &moved))?;
                file = moved;
            }
            let stat = rustix::fs::lstat(&file).map_err(|e| FilesError::io("cannot read", &file)(e.into()))?;
            stage.files.insert(path.to_vec(), (file, IndexStat::of(&stat)));
        }
        Ok(stage)
    }

    fn room_at(&mut self, mount: Mount, directory: &Path) -> Result<(), WriteError> {
        if self.rooms.iter().all(|(known, _)| *known != mount) {
            let room = tempfile::Builder::new().prefix(".isofold-stage-").tempdir_in(directory);
            self.rooms.push((mount, room.map_err(FilesError::io("cannot write to", directory))?));
        }
        Ok(())
    }

    /// The staged file of a path.
    pub(super) fn file(&self, path: &[u8]) -> Option<&Path> {
        self.files.get(path).map(|(file, _)| file.as_path())
    }

    /// The stat data that the staged file of a path had.
    pub(super) fn stat(&self, path: &[u8]) -> Option<&IndexStat> {
        self.files.get(path).map(|(_, stat)| stat)
    }

    /// A fresh name on the file system of `path`, for what is moved out of the way.
    pub(super) fn spare(&mut self, root: &Path, path: &[u8]) -> Result<PathBuf, WriteError> {
        let mount = mount_of(&existing_above(root, path))?;
        Ok(self.spare_on(mount))
    }

    fn spare_on(&mut self, mount: Mount) -> PathBuf {
        self.count += 1;
        let room = self.rooms.iter().find(|(known, _)| *known == mount).unwrap_or(&self.rooms[0]);
        room.1.path().join(format!("old-{}", self.count))
    }

    /// Leaves everything where it is, for a person to look at.
    pub(super) fn keep(&mut self) -> PathBuf {
        let mut kept = PathBuf::new();
        for (_, room) in self.rooms.drain(..) {
            kept = room.keep();
        }
        kept
    }
}

/// Writes new files whose content nothing converts.
fn write_plain(
    coming: &[(&[u8], Item)],
    objects: &dyn Objects,
    tree: &Path,
    control: &Control,
) -> Result<(), WriteError> {
    for (path, item) in coming {
        control.check().map_err(GitError::from)?;
        let full = tree.join(as_path(path));
        fs::create_dir_all(full.parent().unwrap_or(tree)).map_err(FilesError::io("cannot write", &full))?;
        if item.mode == MODE_LINK {
            let target = objects.blob(item.id)?;
            let linked = std::os::unix::fs::symlink(std::ffi::OsStr::from_bytes(&target), &full);
            linked.map_err(FilesError::io("cannot write", &full))?;
            continue;
        }
        // The umask has its say, as with git.
        let mode = if item.mode == MODE_EXECUTABLE { 0o777 } else { 0o666 };
        let file = fs::File::options().write(true).create_new(true).mode(mode).open(&full);
        let mut file = file.map_err(FilesError::io("cannot write", &full))?;
        objects.copy_blob(item.id, &mut file, &full, control)?;
    }
    Ok(())
}

/// Has git check the new files out into `tree`, with the attributes of the new tree: line endings,
/// encodings and filters are git's own.
fn checkout(
    ground: &Ground<'_>,
    plan: &Plan,
    coming: &[(&[u8], Item)],
    git: &Git,
    room: &Path,
    tree: &Path,
    control: &Control,
) -> Result<(), WriteError> {
    let entry = |path: &[u8], item: Item| NewEntry {
        path: path.to_vec(),
        mode: item.mode,
        id: item.id,
        stat: IndexStat::default(),
        assume_valid: false,
        skip_worktree: false,
        intent_to_add: false,
    };
    let is_attributes = |path: &[u8]| path.rsplit(|b| *b == b'/').next() == Some(b".gitattributes");
    let mut entries: BTreeMap<Vec<u8>, NewEntry> = BTreeMap::new();
    for known in ground.index.entries() {
        let path = ground.index.path(known);
        if is_attributes(path) && !plan.index.contains_key(path) {
            entries.insert(path.to_vec(), entry(path, Item { mode: known.mode, id: known.id }));
        }
    }
    for (path, item) in &plan.index {
        if let Some(item) = item.filter(|item| item.mode != MODE_GITLINK && is_attributes(path)) {
            entries.insert(path.clone(), entry(path, item));
        }
    }
    for (path, item) in coming {
        entries.insert(path.to_vec(), entry(path, *item));
    }
    let index = room.join("index");
    let empty = IndexFile::read(&index)?;
    let bytes = empty.with_entries(entries.into_values().collect());
    fs::write(&index, bytes).map_err(FilesError::io("cannot write", &index))?;
    let input = coming.iter().flat_map(|(path, _)| [path, &b"\0"[..]].concat()).collect();
    let git = git.clone().with("GIT_INDEX_FILE", &index).within(tree);
    git.run(["checkout-index", "--force", "-z", "--stdin"], Some(input), control)?.success()?;
    Ok(())
}

/// The nearest directory above `path` that exists and is no link.
fn existing_above(root: &Path, path: &[u8]) -> PathBuf {
    let relative = as_path(path);
    let mut best = root.to_owned();
    let mut at = root.to_owned();
    for part in relative.parent().into_iter().flat_map(Path::components) {
        at.push(part);
        if !fs::symlink_metadata(&at).is_ok_and(|meta| meta.is_dir()) {
            break;
        }
        best.clone_from(&at);
    }
    best
}

fn mount_of(directory: &Path) -> Result<Mount, FilesError> {
    let device = fs::symlink_metadata(directory).map_err(FilesError::io("cannot read", directory))?.dev();
    Ok((device, mount_id(directory)))
}

#[cfg(target_os = "linux")]
fn mount_id(directory: &Path) -> u64 {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    // Before Linux 5.8 there is none; the device has to do.
    statx(CWD, directory, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::MNT_ID)
        .ok()
        .filter(|found| found.stx_mask & StatxFlags::MNT_ID.bits() != 0)
        .map_or(0, |found| found.stx_mnt_id)
}

#[cfg(not(target_os = "linux"))]
fn mount_id(_directory: &Path) -> u64 {
    0
}

/// The topmost directory of the mount that `directory`, in the work tree, is on. A room further down
/// would keep a directory from going that the plan empties.
fn top_of(root: &Path, directory: &Path) -> Result<PathBuf, FilesError> {
    let mount = mount_of(directory)?;
    let mut top = directory;
    while let Some(above) = top.parent().filter(|above| above.starts_with(root)) {
        if mount_of(above)? != mount {
            break;
        }
        top = above;
    }
    Ok(top.to_owned())
}

fn move_across(from: &Path, to: &Path) -> io::Result<()> {
    if fs::symlink_metadata(from)?.is_symlink() {
        std::os::unix::fs::symlink(fs::read_link(from)?, to)?;
    } else {
        fs::copy(from, to)?;
    }
    fs::remove_file(from)
}
