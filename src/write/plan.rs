//! The plan: what has to happen to which path, checked against what is on the disk now.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::beneath::Beneath;
use super::{WriteError, conflict};
use crate::combine::Conflict;
use crate::control::Control;
use crate::files::as_path;
use crate::git::index_file::{Entry, IndexFile, IndexStat};
use crate::git::program::Git;
use crate::git::tree::{Change, Item, MODE_EXECUTABLE, MODE_GITLINK, MODE_LINK};
use crate::git::{GitError, Oid};

/// A file as the plan found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Old {
    /// The id that its bytes would have as a blob, or a link's target.
    pub(crate) raw: Oid,
    /// Its mode on the disk.
    pub(crate) mode: u32,
}

/// One step on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing stands there; the file comes.
    Add { path: Vec<u8>, new: Item },
    /// The file there is replaced.
    Replace { path: Vec<u8>, old: Old, new: Item },
    /// The file there goes.
    Delete { path: Vec<u8>, old: Old },
    /// A submodule's empty directory comes or goes.
    Submodule { path: Vec<u8>, comes: bool },
}

/// All steps, and how the index changes.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) steps: Vec<Step>,
    /// Every path that changes, with what it is afterwards.
    pub(crate) index: BTreeMap<Vec<u8>, Option<Item>>,
    /// New paths that a sparse checkout keeps away from the disk.
    pub(crate) absent: BTreeSet<Vec<u8>>,
}

/// Whether a sparse checkout has a path.
pub(crate) type HasFile<'a> = dyn Fn(&[u8]) -> bool + 'a;

/// What the plan is made from.
pub(crate) struct Ground<'a> {
    pub(crate) root: &'a Path,
    /// The index that the old tree was written from, with its stat data.
    pub(crate) index: &'a IndexFile,
    /// Git bound to the directory.
    pub(crate) git: &'a Git,
    /// Whether the file system keeps the executable bit.
    pub(crate) file_mode: bool,
    /// Whether a sparse checkout has a new path on the disk. Only where the index goes with the files: what is
    /// in neither would be lost.
    pub(crate) sparse: Option<&'a HasFile<'a>>,
}

/// What stands at a path.
enum Found {
    Nothing,
    /// A directory above it is a file or a link: that path.
    Blocked(Vec<u8>),
    File(Metadata),
    Directory,
    /// A FIFO, a socket, a device.
    Other,
}

/// Plans the way from the old to the new tree. Where anything stands in the way, the answer is
/// [`WriteError::Conflicts`] with every such path.
pub(crate) fn plan(ground: &Ground<'_>, changes: &[Change], control: &Control) -> Result<Plan, WriteError> {
    let deleted: BTreeSet<&[u8]> = changes
        .iter()
        .filter(|c| c.old.is_some_and(|old| old.mode != MODE_GITLINK) && c.new.is_none())
        .map(|c| c.path.as_slice())
        .collect();
    let mut plan = Plan::default();
    let mut conflicts = Vec::new();
    let mut filtered: Vec<(&Change, Item, Step)> = Vec::new();
    for change in changes {
        control.check().map_err(GitError::from)?;
        let path = change.path.as_slice();
        plan.index.insert(path.to_vec(), change.new);
        let gitlink = |item: Option<Item>| item.is_some_and(|item| item.mode == MODE_GITLINK);
        if gitlink(change.old) || gitlink(change.new) {
            submodule(ground, change, &deleted, &mut plan, &mut conflicts)?;
            continue;
        }
        let found = look(ground.root, path).map_err(GitError::io("cannot read", &ground.root.join(as_path(path))))?;
        if change.old.is_none() && ground.sparse.is_some_and(|has| !has(path)) {
            let room = match &found {
                Found::Nothing => true,
                Found::Blocked(by) => deleted.contains(by.as_slice()),
                _ => false,
            };
            if room {
                plan.absent.insert(path.to_vec());
                continue;
            }
        }
        match (change.old, change.new) {
            (Some(old), new) => {
                let entry = ground.index.find(path);
                if entry.is_some_and(Entry::skip_worktree) && matches!(found, Found::Nothing | Found::Blocked(_)) {
                    // Not on the disk by the user's wish: it stays away.
                    continue;
                }
                let Found::File(meta) = found else {
                    conflicts.push(conflict(path, "changed meanwhile", "the file is not what the snapshot saw"));
                    continue;
                };
                // The bytes first, the stat after: an edit between the two shows in the stat.
                let raw = raw_id(ground.root, path)?;
                let seen = Old { raw, mode: meta.mode() };
                let step = match new {
                    Some(new) => Step::Replace { path: path.to_vec(), old: seen, new },
                    None => Step::Delete { path: path.to_vec(), old: seen },
                };
                let flagged = entry.is_some_and(Entry::flagged);
                let clean = !flagged
                    && entry.is_some_and(|entry| {
                        !ground.index.racy(entry)
                            && entry.stat.same_file(&stat_of(ground.root, path).unwrap_or_default())
                    });
                if clean || (raw == old.id && same_kind(&meta, old, ground.file_mode)) {
                    plan.steps.push(step);
                } else if !same_kind(&meta, old, ground.file_mode) {
                    conflicts.push(differs(path, flagged));
                } else {
                    filtered.push((change, old, step));
                }
            }
            (None, Some(new)) => match found {
                Found::Nothing => plan.steps.push(Step::Add { path: path.to_vec(), new }),
                Found::Blocked(by) if deleted.contains(by.as_slice()) => {
                    plan.steps.push(Step::Add { path: path.to_vec(), new });
                }
                Found::Blocked(by) => conflicts.push(in_the_way(&by, path)),
                Found::File(meta) => {
                    if same_kind(&meta, new, ground.file_mode) && raw_id(ground.root, path)? == new.id {
                        // Already there, by whatever way: nothing to write.
                        continue;
                    }
                    conflicts.push(in_the_way(path, path));
                }
                Found::Directory => match blocker(ground.root, path, &deleted) {
                    Ok(None) => plan.steps.push(Step::Add { path: path.to_vec(), new }),
                    Ok(Some(by)) => conflicts.push(in_the_way(&by, path)),
                    Err(error) => {
                        return Err(GitError::io("cannot read", &ground.root.join(as_path(path)))(error).into());
                    }
                },
                Found::Other => conflicts.push(in_the_way(path, path)),
            },
            (None, None) => {}
        }
    }
    settle(ground, filtered, &mut plan, &mut conflicts, control)?;
    if conflicts.is_empty() { Ok(plan) } else { Err(WriteError::Conflicts(conflicts)) }
}

/// Paths whose raw bytes differ and whose stat data proves nothing: compare what git would store.
fn settle(
    ground: &Ground<'_>,
    filtered: Vec<(&Change, Item, Step)>,
    plan: &mut Plan,
    conflicts: &mut Vec<Conflict>,
    control: &Control,
) -> Result<(), WriteError> {
    let ids = clean_ids(ground, &filtered.iter().map(|f| f.0.path.as_slice()).collect::<Vec<_>>(), control)?;
    for ((change, old, step), id) in filtered.into_iter().zip(ids) {
        if id == Some(old.id) {
            plan.steps.push(step);
        } else {
            let flagged = ground.index.find(&change.path).is_some_and(Entry::flagged);
            conflicts.push(differs(&change.path, flagged));
        }
    }
    Ok(())
}

/// What git would store for the regular files at these paths.
fn clean_ids(ground: &Ground<'_>, paths: &[&[u8]], control: &Control) -> Result<Vec<Option<Oid>>, GitError> {
    let regular = |path: &&&[u8]| fs::symlink_metadata(ground.root.join(as_path(path))).is_ok_and(|m| m.is_file());
    let asked: Vec<&&[u8]> = paths.iter().filter(regular).collect();
    let mut ids = BTreeMap::new();
    if !asked.is_empty() {
        let input = asked.iter().flat_map(|p| quoted(p)).collect();
        let answer = ground.git.run(["hash-object", "--stdin-paths"], Some(input), control)?.success()?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        for (path, line) in asked.iter().zip(answer.lines()) {
            ids.insert(**path, Oid::from_str(line.trim()).ok());
        }
    }
    Ok(paths.iter().map(|path| ids.get(path).copied().flatten()).collect())
}

/// A line of `--stdin-paths`, quoted so that any byte can stand in the path.
fn quoted(path: &[u8]) -> Vec<u8> {
    let mut line = b"\"".to_vec();
    for byte in path {
        match byte {
            b'"' | b'\\' => line.extend([b'\\', *byte]),
            0..0x20 | 0x7f.. => line.extend(format!("\\{byte:03o}").into_bytes()),
            _ => line.push(*byte),
        }
    }
    line.extend(b"\"\n");
    line
}

fn submodule(
    ground: &Ground<'_>,
    change: &Change,
    deleted: &BTreeSet<&[u8]>,
    plan: &mut Plan,
    conflicts: &mut Vec<Conflict>,
) -> Result<(), WriteError> {
    let path = change.path.as_slice();
    let full = ground.root.join(as_path(path));
    let read = |e| WriteError::from(GitError::io("cannot read", &full)(e));
    let is_link = |item: &Item| item.mode == MODE_GITLINK;
    match (change.old, change.new) {
        (Some(old), Some(new)) if is_link(&old) && is_link(&new) => {}
        (Some(old), None) if is_link(&old) => plan.steps.push(Step::Submodule { path: path.to_vec(), comes: false }),
        (None, Some(new)) if is_link(&new) => match look(ground.root, path).map_err(read)? {
            Found::Nothing => plan.steps.push(Step::Submodule { path: path.to_vec(), comes: true }),
            Found::Directory => match blocker(ground.root, path, deleted).map_err(read)? {
                None => plan.steps.push(Step::Submodule { path: path.to_vec(), comes: true }),
                Some(by) => conflicts.push(in_the_way(&by, path)),
            },
            Found::Blocked(by) => conflicts.push(in_the_way(&by, path)),
            Found::File(_) | Found::Other => conflicts.push(in_the_way(path, path)),
        },
        _ => conflicts.push(conflict(
            path,
            "submodule",
            "a file and a submodule take each other's place; do that step by hand",
        )),
    }
    Ok(())
}

fn in_the_way(by: &[u8], of: &[u8]) -> Conflict {
    let detail = if by == of {
        "a file that git does not track stands here and would be overwritten".to_owned()
    } else {
        format!("it stands where {} has to go", crate::git::show(as_path(of)))
    };
    let mut found = conflict(by, "file in the way", detail);
    found.ours = Some("not part of the fold".to_owned());
    found.theirs = Some("added".to_owned());
    found
}

fn differs(path: &[u8], flagged: bool) -> Conflict {
    if flagged {
        conflict(path, "file in the way", "it is marked skip-worktree or assume-unchanged and differs from the index")
    } else {
        conflict(path, "changed meanwhile", "the file changed while the fold ran")
    }
}

fn look(root: &Path, path: &[u8]) -> io::Result<Found> {
    let mut at = PathBuf::from(root);
    let mut names = path.split(|b| *b == b'/').peekable();
    let mut length = 0;
    while let Some(name) = names.next() {
        at.push(as_path(name));
        length += name.len() + usize::from(length > 0);
        let meta = match fs::symlink_metadata(&at) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(error) => return Err(error),
        };
        if names.peek().is_none() {
            return Ok(if meta.is_dir() {
                Found::Directory
            } else if meta.is_file() || meta.is_symlink() {
                Found::File(meta)
            } else {
                Found::Other
            });
        }
        if !meta.is_dir() {
            return Ok(Found::Blocked(path[..length].to_vec()));
        }
    }
    Ok(Found::Nothing)
}

/// The first thing in a directory that does not go away with the plan; empty directories do.
fn blocker(root: &Path, directory: &[u8], deleted: &BTreeSet<&[u8]>) -> io::Result<Option<Vec<u8>>> {
    for entry in fs::read_dir(root.join(as_path(directory)))? {
        let entry = entry?;
        let path = crate::files::join(directory, entry.file_name().as_bytes());
        if entry.file_type()?.is_dir() {
            if let Some(by) = blocker(root, &path, deleted)? {
                return Ok(Some(by));
            }
        } else if !deleted.contains(path.as_slice()) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

fn stat_of(root: &Path, path: &[u8]) -> Option<IndexStat> {
    rustix::fs::lstat(root.join(as_path(path))).ok().map(|stat| IndexStat::of(&stat))
}

/// Whether a file on the disk is of the kind that a tree's entry says.
fn same_kind(meta: &Metadata, item: Item, file_mode: bool) -> bool {
    if item.mode == MODE_LINK {
        return meta.is_symlink();
    }
    let executable = meta.permissions().mode() & 0o100 != 0;
    meta.is_file() && (!file_mode || executable == (item.mode == MODE_EXECUTABLE))
}

/// The blob id of the bytes on the disk, a link's target for a link; no id that any content has where
/// something else took the file's place.
fn raw_id(root: &Path, path: &[u8]) -> Result<Oid, GitError> {
    let read = || -> io::Result<Option<Oid>> { Beneath::open(root)?.hash(path) };
    let found = read().map_err(GitError::io("cannot read", &root.join(as_path(path))))?;
    Ok(found.unwrap_or(Oid::ZERO_SHA1))
}
