//! Staging: the new files as git would check them out, where nobody sees them, on the file system
//! of their target.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::plan::{Ground, Plan, Step};
use super::{WriteError, crash};
use crate::control::Control;
use crate::files::{FilesError, as_path};
use crate::git::index_file::{IndexFile, IndexStat, NewEntry};
use crate::git::program::Git;
use crate::git::tree::{Item, MODE_EXECUTABLE, MODE_GITLINK, MODE_LINK, Objects, hash_blob, hash_file};
use crate::git::{GitError, Oid};

/// The device of a directory, and on Linux its mount: nothing can be renamed from one mount to another,
/// be it of the same file system.
type Mount = (u64, u64);

/// The directories that new files are made in and old ones go to, one on each mount that is written
/// to. The first is on the mount of the directory itself.
#[derive(Debug)]
pub(crate) struct Rooms(Vec<(Mount, PathBuf)>);

impl Rooms {
    /// Where the rooms of a plan have to be; none is made. `own` is a directory of ours that can hold
    /// the first one, if it is on the right mount; others get names with `id` in them.
    pub(crate) fn of(root: &Path, plan: &Plan, own: &Path, id: &str) -> Result<Self, WriteError> {
        let name = format!(".isofold-stage-{id}");
        let root_mount = mount_of(root)?;
        let first = if mount_of(own)? == root_mount { own.join("stage") } else { root.join(&name) };
        let mut rooms = vec![(root_mount, first)];
        for step in &plan.steps {
            if let Step::Add { path, .. } | Step::Replace { path, .. } | Step::Delete { path, .. } = step {
                let above = existing_above(root, path);
                let mount = mount_of(&above)?;
                if rooms.iter().all(|(known, _)| *known != mount) {
                    rooms.push((mount, top_of(root, &above)?.join(&name)));
                }
            }
        }
        Ok(Self(rooms))
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|(_, room)| room.as_path())
    }

    /// The room on the mount that `path` is on.
    fn index_for(&self, root: &Path, path: &[u8]) -> Result<usize, WriteError> {
        let mount = mount_of(&existing_above(root, path))?;
        Ok(self.0.iter().position(|(known, _)| *known == mount).unwrap_or(0))
    }
}

/// Refuses a plan for directories that this process may not write to, before anything is made.
fn check_permission(root: &Path, plan: &Plan) -> Result<(), FilesError> {
    let mut known = std::collections::BTreeSet::new();
    for step in &plan.steps {
        let (Step::Add { path, .. }
        | Step::Replace { path, .. }
        | Step::Delete { path, .. }
        | Step::Submodule { path, .. }) = step;
        let above = existing_above(root, path);
        if known.contains(&above) {
            continue;
        }
        let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        let allowed = rustix::fs::accessat(rustix::fs::CWD, &above, access, rustix::fs::AtFlags::EACCESS);
        allowed.map_err(|error| FilesError::io("cannot write to", &above)(error.into()))?;
        known.insert(above);
    }
    Ok(())
}

/// A new file that is ready.
#[derive(Debug)]
pub(super) struct Staged {
    /// Its name in the room.
    pub(super) name: Vec<u8>,
    /// The id of its bytes.
    pub(super) raw: Oid,
    /// Its stat data while only we knew of it.
    pub(super) stat: IndexStat,
    pub(super) inode: u64,
}

/// The new files of a plan, in their rooms.
#[derive(Debug)]
pub(crate) struct Stage {
    rooms: Rooms,
    /// Path in the work tree → which room, and the new file where one comes.
    files: BTreeMap<Vec<u8>, (usize, Option<Staged>)>,
}

impl Stage {
    /// Makes the rooms and writes every new file of the plan. `git` reads the objects of the new tree.
    /// Where nothing converts content, `unconverted` gives the objects and no git is needed.
    pub(crate) fn fill(
        rooms: Rooms,
        ground: &Ground<'_>,
        plan: &Plan,
        git: &Git,
        unconverted: Option<&dyn Objects>,
        control: &Control,
    ) -> Result<Self, WriteError> {
        check_permission(ground.root, plan)?;
        for room in rooms.paths() {
            fs::create_dir(room).map_err(FilesError::io("cannot write to", room.parent().unwrap_or(room)))?;
        }
        crash::point("stage-room");
        let coming: Vec<(&[u8], Item)> = plan
            .steps
            .iter()
            .filter_map(|step| match step {
                Step::Add { path, new } | Step::Replace { path, new, .. } => Some((path.as_slice(), *new)),
                _ => None,
            })
            .collect();
        let mut files = BTreeMap::new();
        for step in &plan.steps {
            if let Step::Delete { path, .. } = step {
                files.insert(path.clone(), (rooms.index_for(ground.root, path)?, None));
            }
        }
        let room = rooms.0[0].1.clone();
        let tree = room.join("tree");
        if !coming.is_empty() {
            fs::create_dir(&tree).map_err(FilesError::io("cannot write to", &room))?;
            match unconverted {
                Some(objects) => write_plain(&coming, objects, &tree, control)?,
                None => checkout(ground, plan, &coming, git, &room, &tree, control)?,
            }
        }
        for (number, (path, item)) in coming.iter().enumerate() {
            let mut file = tree.join(as_path(path));
            let mut name = [b"tree/", *path].concat();
            let at = rooms.index_for(ground.root, path)?;
            if at != 0 {
                name = format!("new-{number}").into_bytes();
                let moved = rooms.0[at].1.join(as_path(&name));
                move_across(&file, &moved).map_err(FilesError::io("cannot write", &moved))?;
                file = moved;
            }
            let stat = rustix::fs::lstat(&file).map_err(|e| FilesError::io("cannot read", &file)(e.into()))?;
            let raw = if unconverted.is_some() { item.id } else { raw_of(&file)? };
            let staged = Staged { name, raw, stat: IndexStat::of(&stat), inode: stat.st_ino };
            files.insert(path.to_vec(), (at, Some(staged)));
        }
        crash::point("staged");
        Ok(Self { rooms, files })
    }

    pub(crate) fn rooms(&self) -> &Rooms {
        &self.rooms
    }

    /// Which room a path's files are in, and its new file.
    pub(super) fn of(&self, path: &[u8]) -> Option<(usize, Option<&Staged>)> {
        self.files.get(path).map(|(room, staged)| (*room, staged.as_ref()))
    }

    /// The files and directories of the rooms, to be synced.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        for (at, staged) in self.files.values() {
            let Some(staged) = staged else { continue };
            let room = &self.rooms.0[*at].1;
            let file = room.join(as_path(&staged.name));
            paths.extend(file.ancestors().skip(1).take_while(|above| above.starts_with(room)).map(Path::to_owned));
            if !fs::symlink_metadata(&file).is_ok_and(|meta| meta.is_symlink()) {
                paths.push(file);
            }
        }
        paths.sort();
        paths.dedup();
        paths
    }
}

/// The id of a staged file's bytes.
fn raw_of(file: &Path) -> Result<Oid, WriteError> {
    if fs::symlink_metadata(file).is_ok_and(|meta| meta.is_symlink()) {
        let target = fs::read_link(file).map_err(FilesError::io("cannot read", file))?;
        return Ok(hash_blob(target.as_os_str().as_encoded_bytes())?);
    }
    Ok(hash_file(file)?)
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
    let is_attributes = |path: &[u8]| path.rsplit(|b| *b == b'/').next() == Some(b".gitattributes");
    let mut entries: BTreeMap<&[u8], NewEntry<'_>> = BTreeMap::new();
    for known in ground.index.entries() {
        let path = ground.index.path(known);
        if is_attributes(path) && !plan.index.contains_key(path) {
            entries.insert(path, NewEntry::bare(path, Item { mode: known.mode, id: known.id }));
        }
    }
    for (path, item) in &plan.index {
        if let Some(item) = item.filter(|item| item.mode != MODE_GITLINK && is_attributes(path)) {
            entries.insert(path, NewEntry::bare(path, item));
        }
    }
    for (path, item) in coming {
        entries.insert(path, NewEntry::bare(path, *item));
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
