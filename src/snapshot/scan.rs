//! The scan: what in a work tree may differ from its index. One walk compares every tracked file's
//! stat data and finds the untracked files that no ignore rule excludes.
//!
//! "May differ" errs on the safe side: whoever stores a file compares its content.

use std::ffi::{CStr, CString};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, FileType};
use rustix::io::Errno;

use super::ignore::{Ignore, Level};
use crate::control::Control;
use crate::files::fill::read_at;
use crate::files::queue::work;
use crate::files::walk::{Listing, open_directory, stat};
use crate::files::{FilesError, as_path, join};
use crate::git::index_file::{Entry as IndexEntry, IndexFile};
use crate::git::nested::{is_repository, leads_nowhere};
use crate::git::tree::MODE_GITLINK;

/// What a scan found.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    /// Tracked paths whose file is gone.
    pub(super) gone: Vec<Vec<u8>>,
    /// Tracked paths whose content may differ from the index.
    pub(super) changed: Vec<Vec<u8>>,
    /// Untracked files and links that are not ignored.
    pub(super) untracked: Vec<Vec<u8>>,
    /// Untracked repositories.
    pub(super) nested: Vec<Vec<u8>>,
    /// Something only git itself can judge: a repository where a tracked file was, a name that may
    /// pass for `.git`, attributes that git still reads from the index.
    pub(super) strange: bool,
}

impl Scanned {
    fn absorb(&mut self, other: Self) {
        self.gone.extend(other.gone);
        self.changed.extend(other.changed);
        self.untracked.extend(other.untracked);
        self.nested.extend(other.nested);
        self.strange |= other.strange;
    }

    fn sort(&mut self) {
        for list in [&mut self.gone, &mut self.changed, &mut self.untracked, &mut self.nested] {
            list.sort();
        }
    }
}

/// What a scan goes by.
pub(super) struct Ground<'a> {
    pub(super) root: &'a Path,
    pub(super) index: &'a IndexFile,
    pub(super) ignore: &'a Ignore,
    /// Whether the executable bit counts (`core.fileMode`).
    pub(super) file_mode: bool,
    /// How many threads look.
    pub(super) threads: usize,
    pub(super) control: &'a Control,
}

/// A directory that was opened and is being walked.
struct Node {
    directory: OwnedFd,
    path: Vec<u8>,
    level: Arc<Level>,
    /// An ignore rule excludes the directory: only tracked files in it count.
    ignored: bool,
}

struct Task {
    above: Arc<Node>,
    name: CString,
    /// The entries of the index below this directory.
    range: (usize, usize),
    ignored: bool,
}

/// Scans the whole work tree.
pub(super) fn scan(ground: &Ground<'_>) -> Result<Scanned, FilesError> {
    let mut scanned = Scanned::default();
    let root = open_root(ground.root)?;
    let range = (0, ground.index.entries().len());
    let tasks = ground.directory(root, Vec::new(), None, false, range, &mut scanned)?;
    finish(ground, tasks, scanned)
}

/// Scans only untracked paths of known kind (`true`: directory), the topmost of each.
pub(super) fn scan_untracked(ground: &Ground<'_>, topmost: &[(Vec<u8>, bool)]) -> Result<Scanned, FilesError> {
    let mut scanned = Scanned::default();
    let mut tasks = Vec::new();
    let mut above: Option<Arc<Node>> = None;
    for (path, directory) in topmost {
        let slash = path.iter().rposition(|b| *b == b'/');
        let (parent, name) = slash.map_or((&[][..], path.as_slice()), |at| (&path[..at], &path[at + 1..]));
        let node = match above.take().filter(|node| node.path == parent) {
            Some(node) => node,
            None => match ground.node(parent)? {
                Some(node) => node,
                None => continue,
            },
        };
        let name = CString::new(name).unwrap_or_default();
        let kind = if *directory { FileType::Directory } else { FileType::RegularFile };
        tasks.extend(ground.untracked(&node, &name, kind, &mut scanned));
        above = Some(node);
    }
    finish(ground, tasks, scanned)
}

/// Whether it can be said that a path is there or not.
pub(super) fn is_known(path: &Path) -> bool {
    match std::fs::symlink_metadata(path) {
        Ok(_) => true,
        Err(error) => matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    }
}

/// Whether an untracked file stands where git does not look: in place of an entry that it is told not to
/// look at, or above or below one.
fn stands_on_flagged(index: &IndexFile, path: &[u8]) -> bool {
    let flagged = |entry: Option<&IndexEntry>| entry.is_some_and(IndexEntry::flagged);
    let above = path.iter().enumerate().filter(|(_, b)| **b == b'/').any(|(at, _)| flagged(index.find(&path[..at])));
    above || index.below(path).iter().any(IndexEntry::flagged)
}

/// Whether what git does with a tracked path that is not what it was is more than a comparison.
pub(super) fn is_delicate(path: &[u8], kind: Option<FileType>) -> bool {
    let name = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
    // While git stages, it reads attributes that are not on the disk from the index it is changing.
    let attributes = name == b".gitattributes" && kind != Some(FileType::RegularFile);
    attributes || passes_for_git(name, kind.unwrap_or(FileType::RegularFile))
}

fn finish(ground: &Ground<'_>, tasks: Vec<Task>, mut scanned: Scanned) -> Result<Scanned, FilesError> {
    let parts = work(tasks, ground.threads, |task: Task, part: &mut Scanned| ground.task(&task, part))?;
    for part in parts {
        scanned.absorb(part);
    }
    scanned.strange |= scanned.untracked.iter().any(|path| stands_on_flagged(ground.index, path));
    scanned.sort();
    Ok(scanned)
}

fn open_root(root: &Path) -> Result<OwnedFd, FilesError> {
    let name = CString::new(root.as_os_str().as_encoded_bytes()).map_err(|_| Errno::INVAL);
    name.and_then(|name| open_directory(CWD, &name)).map_err(|e| FilesError::io("cannot read", root)(e.into()))
}

/// A directory's own ignore file, which counts only if it is a real file.
fn ignore_text(directory: &OwnedFd) -> Option<Vec<u8>> {
    read_at(directory, c".gitignore", u64::MAX)
}

impl Ground<'_> {
    /// The rules and the descriptor of a directory that holds tracked files; `None` where it is gone
    /// or ignored.
    fn node(&self, path: &[u8]) -> Result<Option<Arc<Node>>, FilesError> {
        let root = open_root(self.root)?;
        let level = Level::new(None, b"", ignore_text(&root).as_deref());
        let mut node = Arc::new(Node { directory: root, path: Vec::new(), level, ignored: false });
        for part in path.split(|b| *b == b'/').filter(|part| !part.is_empty()) {
            let below = join(&node.path, part);
            if self.ignore.is_ignored(&node.level, &below, true) {
                return Ok(None);
            }
            let name = CString::new(part).unwrap_or_default();
            let Ok(directory) = open_directory(&node.directory, &name) else { return Ok(None) };
            let level = Level::new(Some(node.level.clone()), &below, ignore_text(&directory).as_deref());
            node = Arc::new(Node { directory, path: below, level, ignored: false });
        }
        Ok(Some(node))
    }

    fn task(&self, task: &Task, scanned: &mut Scanned) -> Result<Vec<Task>, FilesError> {
        self.control.check()?;
        let path = join(&task.above.path, task.name.to_bytes());
        match open_directory(&task.above.directory, &task.name) {
            Ok(directory) => {
                self.directory(directory, path, Some(&task.above.level), task.ignored, task.range, scanned)
            }
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                self.all_gone(task.range, scanned);
                Ok(Vec::new())
            }
            // git warns about an untracked directory that it can't read and goes on.
            Err(Errno::ACCESS) if task.range.0 == task.range.1 => Ok(Vec::new()),
            Err(error) => Err(FilesError::io("cannot read", &self.root.join(as_path(&path)))(error.into())),
        }
    }

    fn all_gone(&self, range: (usize, usize), scanned: &mut Scanned) {
        for entry in &self.index.entries()[range.0..range.1] {
            if !entry.flagged() {
                scanned.gone.push(self.index.path(entry).to_vec());
            }
        }
    }

    fn directory(
        &self,
        directory: OwnedFd,
        path: Vec<u8>,
        above: Option<&Arc<Level>>,
        ignored: bool,
        range: (usize, usize),
        scanned: &mut Scanned,
    ) -> Result<Vec<Task>, FilesError> {
        let read = |error: Errno| FilesError::io("cannot read", &self.root.join(as_path(&path)))(error.into());
        let found = Listing::read(&directory).map_err(read)?;
        let untracked = range.0 == range.1 && !path.is_empty();
        if untracked && found.find(b".git").is_some() {
            let full = self.root.join(as_path(&path));
            if is_repository(&full) {
                scanned.nested.push(path);
                return Ok(Vec::new());
            }
        }
        let has_rules = !ignored && found.find(b".gitignore").is_some();
        let text = if has_rules { ignore_text(&directory) } else { None };
        let level = Level::new(above.cloned(), &path, text.as_deref());
        let node = Arc::new(Node { directory, path, level, ignored });
        let mut tasks = Vec::new();
        let mut seen = vec![false; found.len()];
        self.tracked(&node, range, &found, &mut seen, &mut tasks, scanned)?;
        if !ignored {
            for (at, seen) in seen.into_iter().enumerate() {
                if !seen {
                    tasks.extend(self.untracked(&node, found.name(at), found.kind(at), scanned));
                }
            }
        }
        Ok(tasks)
    }

    /// Compares the entries of the index in one directory with what is on the disk.
    fn tracked(
        &self,
        node: &Arc<Node>,
        range: (usize, usize),
        found: &Listing,
        seen: &mut [bool],
        tasks: &mut Vec<Task>,
        scanned: &mut Scanned,
    ) -> Result<(), FilesError> {
        let entries = self.index.entries();
        let prefix = if node.path.is_empty() { 0 } else { node.path.len() + 1 };
        let mut at = range.0;
        while at < range.1 {
            let entry = &entries[at];
            let path = self.index.path(entry);
            let rest = &path[prefix..];
            let slash = rest.iter().position(|b| *b == b'/');
            let name = &rest[..slash.unwrap_or(rest.len())];
            let place = found.find(name);
            let kind = place.map(|place| found.kind(place));
            if slash.is_some() {
                scanned.strange |= passes_for_git(name, FileType::Directory);
                let below = &path[..=prefix + name.len()];
                let end = at + entries[at..range.1].partition_point(|e| self.index.path(e).starts_with(below));
                if kind == Some(FileType::Directory) {
                    seen[place.unwrap_or(0)] = true;
                    let ignored =
                        node.ignored || self.ignore.is_ignored(&node.level, &path[..prefix + name.len()], true);
                    let name = CString::new(name).unwrap_or_default();
                    tasks.push(Task { above: node.clone(), name, range: (at, end), ignored });
                } else {
                    // Through a link to itself, say, git can't tell what is gone, and keeps it.
                    let unknown = |entry| !is_known(&self.root.join(as_path(self.index.path(entry))));
                    scanned.strange |= kind == Some(FileType::Symlink) && entries[at..end].iter().any(unknown);
                    self.all_gone((at, end), scanned);
                }
                at = end;
                continue;
            }
            at += 1;
            let Some(place) = place else {
                if !entry.flagged() {
                    scanned.strange |= is_delicate(path, None);
                    scanned.gone.push(path.to_vec());
                }
                continue;
            };
            let kind = found.kind(place);
            if kind == FileType::Directory && entry.mode != MODE_GITLINK {
                // An untracked directory stands where the file was.
                scanned.strange |= is_repository(&self.root.join(as_path(path)));
                if !entry.flagged() {
                    scanned.strange |= is_delicate(path, None);
                    scanned.gone.push(path.to_vec());
                }
                continue;
            }
            seen[place] = true;
            if entry.flagged() {
                continue;
            }
            let changed = if kind == FileType::Directory {
                // Where it is checked out its HEAD decides.
                let full = self.root.join(as_path(path));
                scanned.strange |= leads_nowhere(&full);
                is_repository(&full)
            } else if entry.mode == MODE_GITLINK || !matches!(kind, FileType::RegularFile | FileType::Symlink) {
                scanned.strange = true;
                false
            } else {
                !self.is_clean(node, at - 1, found.name(place), scanned)?
            };
            if changed {
                scanned.strange |= is_delicate(path, Some(kind));
                scanned.changed.push(path.to_vec());
            }
        }
        Ok(())
    }

    fn is_clean(&self, node: &Node, at: usize, name: &CStr, scanned: &mut Scanned) -> Result<bool, FilesError> {
        let entry = &self.index.entries()[at];
        let path = self.index.path(entry);
        let stat = match stat(&node.directory, name) {
            Ok(stat) => stat,
            Err(Errno::NOENT | Errno::NOTDIR) => {
                scanned.gone.push(path.to_vec());
                return Ok(true);
            }
            Err(error) => return Err(FilesError::io("cannot read", &self.root.join(as_path(path)))(error.into())),
        };
        Ok(self.index.proves(entry, &stat, self.file_mode))
    }

    /// An entry that the index does not have.
    fn untracked(&self, node: &Arc<Node>, name: &CStr, kind: FileType, scanned: &mut Scanned) -> Option<Task> {
        let bytes = name.to_bytes();
        if bytes.eq_ignore_ascii_case(b".git") {
            scanned.strange |= bytes != b".git";
            return None;
        }
        if is_notes(&node.path) || (node.path.is_empty() && bytes == NOTES) {
            return None;
        }
        let directory = kind == FileType::Directory;
        if !directory && !matches!(kind, FileType::RegularFile | FileType::Symlink) {
            return None;
        }
        let path = join(&node.path, bytes);
        if self.ignore.is_ignored(&node.level, &path, directory) {
            return None;
        }
        scanned.strange |= passes_for_git(bytes, kind);
        if directory {
            return Some(Task { above: node.clone(), name: name.to_owned(), range: (0, 0), ignored: false });
        }
        scanned.untracked.push(path);
        None
    }
}

/// isofold's own notes at the root: only what is tracked there counts.
const NOTES: &[u8] = b".isofold";

fn is_notes(directory: &[u8]) -> bool {
    directory.strip_prefix(NOTES).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Names that git refuses on some systems because they reach `.git` there; git itself judges them.
fn passes_for_git(name: &[u8], kind: FileType) -> bool {
    if name == b".gitmodules" {
        return kind == FileType::Symlink;
    }
    let lower = name.to_ascii_lowercase();
    if lower.starts_with(b"git~") || lower.contains(&b'\\') {
        return true;
    }
    let Some(rest) = lower.strip_prefix(b".git") else {
        // HFS ignores some characters that are not ASCII, wherever they stand.
        return !lower.is_ascii() && lower.starts_with(b".");
    };
    !rest.iter().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(b)) || rest == b"modules"
}
