//! Storing: blobs of what changed and the tree, by the git program, into a quarantine.
//!
//! git hashes and converts; which paths it is given was decided before. Where nothing changed the
//! index knows the tree already.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::scan::Scanned;
use super::{Setting, Work, inline, program};
use crate::control::Control;
use crate::files::as_path;
use crate::git::index_file::IndexFile;
use crate::git::program::Git;
use crate::git::quarantine::Store;
use crate::git::tree::MODE_GITLINK;
use crate::git::{GitError, Oid};

const IGNORING: &[u8] = b"Ignoring path ";

/// A copy of an index that git may write to.
struct Scratch {
    _directory: tempfile::TempDir,
    index: PathBuf,
    git: Git,
}

impl Scratch {
    /// The copy has the time of the original: what was racy stays racy.
    fn new(work: &Work<'_>, before: &IndexFile, store: &Store) -> Result<Self, GitError> {
        let directory = tempfile::Builder::new().prefix("index-").tempdir_in(store.root());
        let directory = directory.map_err(GitError::io("cannot write to", store.root()))?;
        let index = directory.path().join("index");
        before.write_copy(&index)?;
        let git = store.enter(work.place.git()).with("GIT_INDEX_FILE", &index);
        Ok(Self { _directory: directory, index, git })
    }

    /// Has git look at files and take what they hold.
    fn update<'p>(&self, paths: impl Iterator<Item = &'p Vec<u8>>, control: &Control) -> Result<(), GitError> {
        self.update_index(&["--add", "--remove"], paths, control)
    }

    /// Takes paths out, whatever stands there or above now.
    fn remove(&self, paths: &[Vec<u8>], control: &Control) -> Result<(), GitError> {
        self.update_index(&["--force-remove"], paths.iter(), control)
    }

    fn update_index<'p>(
        &self,
        how: &[&str],
        paths: impl Iterator<Item = &'p Vec<u8>>,
        control: &Control,
    ) -> Result<(), GitError> {
        let input: Vec<u8> = paths.flat_map(|p| [p.as_slice(), b"\0"].concat()).collect();
        if input.is_empty() {
            return Ok(());
        }
        let arguments = [&["update-index"], how, &["-z", "--stdin"]].concat();
        let mut done = self.git.run(arguments, Some(input), control)?;
        // git passes over names that it takes for `.git` and calls that success.
        if done.stderr.windows(IGNORING.len()).any(|words| words == IGNORING) {
            done.code = None;
        }
        done.success()?;
        Ok(())
    }
}

/// A directory as a tree, with the index that it was written from.
pub(super) struct Stored {
    pub(super) tree: Oid,
    pub(super) index: Arc<IndexFile>,
    /// Whether git stored it.
    pub(super) by_git: bool,
}

/// Stores what a scan found.
pub(super) fn changes(
    work: &mut Work<'_>,
    setting: &Setting,
    before: &Arc<IndexFile>,
    scanned: &Scanned,
    store: &Store,
    control: &Control,
) -> Result<Stored, GitError> {
    for nested in &scanned.nested {
        work.nested(nested);
    }
    let new: Vec<&Vec<u8>> = scanned.untracked.iter().filter(|path| work.takes(path)).collect();
    let forced = forced(work, |path| {
        // Both lists are sorted.
        before.position(path).is_some() || new.binary_search_by(|known| known.as_slice().cmp(path)).is_ok()
    });
    if scanned.gone.is_empty() && scanned.changed.is_empty() && new.is_empty() && forced.is_empty() {
        let tree = store.open().tree_of(before, before.cache_tree().as_ref(), &[], control)?;
        return Ok(Stored { tree, index: before.clone(), by_git: false });
    }
    let all_new: Vec<&Vec<u8>> = new.iter().copied().chain(&forced).collect();
    if let Some((tree, index)) = inline::changes(work, setting, before, scanned, &all_new, store, control)? {
        return Ok(Stored { tree, index, by_git: false });
    }
    let scratch = Scratch::new(work, before, store)?;
    // What goes makes room: a directory may stand where a file was.
    scratch.remove(&scanned.gone, control)?;
    scratch.update(scanned.changed.iter().chain(all_new.iter().copied()), control)?;
    let index = IndexFile::read(&scratch.index)?;
    for path in all_new {
        let gone = || fs::symlink_metadata(work.place.work_dir.join(as_path(path))).is_err();
        if index.position(path).is_none() && !gone() {
            let what = format!("{}: git did not take it into the index", crate::git::show(as_path(path)));
            return Err(GitError::Program { command: "update-index".to_owned(), code: None, words: what });
        }
    }
    Ok(Stored { tree: tree_of(before, &index, store, control)?, index: Arc::new(index), by_git: true })
}

/// The tree of an index that git changed. What git found to be there already may be what nothing names:
/// that comes along.
fn tree_of(before: &IndexFile, after: &IndexFile, store: &Store, control: &Control) -> Result<Oid, GitError> {
    let blobs = store.open();
    for entry in after.entries().iter().filter(|entry| entry.mode != MODE_GITLINK) {
        if before.find(after.path(entry)).is_none_or(|known| known.id != entry.id) {
            control.check()?;
            blobs.hold(entry.id, |id| store.has_loose(id))?;
        }
    }
    blobs.tree_of(after, after.cache_tree().as_ref(), &[], control)
}

/// Leaves everything to git.
pub(super) fn everything(
    work: &mut Work<'_>,
    before: &IndexFile,
    store: &Store,
    control: &Control,
) -> Result<Stored, GitError> {
    let scratch = Scratch::new(work, before, store)?;
    program::add_all(work, &scratch.git, control)?;
    let mut index = IndexFile::read(&scratch.index)?;
    let forced = forced(work, |path| index.position(path).is_some() || index.has_below(path));
    if !forced.is_empty() {
        scratch.update(forced.iter(), control)?;
        index = IndexFile::read(&scratch.index)?;
    }
    Ok(Stored { tree: tree_of(before, &index, store, control)?, index: Arc::new(index), by_git: true })
}

/// The paths to keep that are not in the snapshot yet, because an ignore rule matches them, and that
/// are still files.
fn forced(work: &Work<'_>, in_snapshot: impl Fn(&[u8]) -> bool) -> Vec<Vec<u8>> {
    let root = &work.place.work_dir;
    let stands = |path: &[u8]| {
        let full = root.join(as_path(path));
        let above = full.parent().and_then(|parent| parent.strip_prefix(root).ok()).unwrap_or(Path::new(""));
        let mut at = root.clone();
        let real = above.components().all(|part| {
            at.push(part);
            fs::symlink_metadata(&at).is_ok_and(|meta| meta.is_dir())
        });
        real && fs::symlink_metadata(&full).is_ok_and(|meta| meta.is_file() || meta.is_symlink())
    };
    let passed_over = |path: &[u8]| {
        let noted = work.left_out.iter().chain(&work.omitted).any(|p| p == path);
        noted || work.nested.iter().any(|n| as_path(path).starts_with(as_path(n)))
    };
    let keep = work.rules.keep.iter().map(Vec::as_slice);
    keep.filter(|path| !in_snapshot(path) && !passed_over(path) && stands(path)).map(<[u8]>::to_vec).collect()
}
