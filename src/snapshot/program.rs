//! The snapshot by the git program: `git add -A --sparse` into a copy of the index that keeps the
//! index's modification time.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::unseen::unseen;
use super::{NotFolded, Rules, Snapshot, SnapshotError};
use crate::control::Control;
use crate::files::as_path;
use crate::git::index_file::IndexFile;
use crate::git::program::Git;
use crate::git::quarantine::Store;
use crate::git::repository::Place;
use crate::git::worktrees::admin_of_git_file;
use crate::git::{GitError, Oid, show};

pub(super) fn snapshot(
    place: &Place,
    rules: &Rules<'_>,
    store: &Store,
    control: &Control,
) -> Result<Snapshot, SnapshotError> {
    let failed = |source| SnapshotError::Git { place: show(&place.work_dir), source };
    let original = place.index_path();
    let copy = tempfile::Builder::new()
        .prefix("index-")
        .tempdir_in(store.root())
        .map_err(|e| failed(GitError::io("cannot write to", store.root())(e)))?;
    let index = copy.path().join("index");
    copy_index(&original, &index).map_err(failed)?;
    let before = IndexFile::read(&index).map_err(failed)?;
    let unmerged = before.unmerged();
    if !unmerged.is_empty() {
        let paths: Vec<String> = unmerged.iter().take(5).map(|p| show(as_path(p))).collect();
        return Err(SnapshotError::Unmerged { place: show(&place.work_dir), paths: paths.join(", ") });
    }
    let git = store.enter(place.git()).with("GIT_INDEX_FILE", &index);
    let work = || -> Result<Snapshot, GitError> {
        let Sorted { excluded, left_out, omitted, mut not_folded } = sort_untracked(place, &git, rules, control)?;
        let mut arguments: Vec<Vec<u8>> = [&b"add"[..], b"-A", b"--sparse", b"--", b":/"].map(<[u8]>::to_vec).into();
        for path in &excluded {
            arguments.push([b":(top,exclude,literal)", path.as_slice()].concat());
        }
        git.run(arguments.iter().map(|a| as_path(a)), None, control)?.success()?;
        let mut after = IndexFile::read(&index)?;
        let forced = forced(place, rules, &after, &excluded);
        if !forced.is_empty() {
            let input = forced.iter().flat_map(|p| [p.as_slice(), b"\0"].concat()).collect();
            git.run(["update-index", "--add", "-z", "--stdin"], Some(input), control)?.success()?;
            after = IndexFile::read(&index)?;
        }
        let written = git.run(["write-tree"], None, control)?.success()?;
        let text = String::from_utf8_lossy(&written);
        let tree =
            Oid::from_str(text.trim()).map_err(|_| GitError::Format { what: format!("git's answer {text:?}") })?;
        not_folded.extend(unseen(place, &after)?);
        Ok(Snapshot { tree, index: after, before, left_out, omitted, not_folded })
    };
    work().map_err(failed)
}

/// Copies the index with its time: what was racy stays racy.
fn copy_index(from: &Path, to: &Path) -> Result<(), GitError> {
    let copied = || -> std::io::Result<()> {
        let mut source = match fs::File::open(from) {
            Ok(source) => source,
            // No index is an empty one.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut target = fs::File::create(to)?;
        std::io::copy(&mut source, &mut target)?;
        target.set_modified(source.metadata()?.modified()?)
    };
    copied().map_err(GitError::io("cannot copy the index", from))
}

struct Sorted {
    /// What `git add` must not see.
    excluded: Vec<Vec<u8>>,
    left_out: Vec<Vec<u8>>,
    omitted: Vec<Vec<u8>>,
    not_folded: Vec<NotFolded>,
}

/// Looks through what `git add` would add: nested repositories, our own notes, left-out paths.
fn sort_untracked(place: &Place, git: &Git, rules: &Rules<'_>, control: &Control) -> Result<Sorted, GitError> {
    let listed = git.run(["ls-files", "-z", "--others", "--exclude-standard"], None, control)?.success()?;
    let mut sorted = Sorted { excluded: Vec::new(), left_out: Vec::new(), omitted: Vec::new(), not_folded: Vec::new() };
    let mut notes = false;
    for path in listed.split(|b| *b == 0).filter(|p| !p.is_empty()) {
        if path.starts_with(b".isofold/") {
            notes = true;
        } else if let Some(nested) = path.strip_suffix(b"/") {
            let ours = admin_of_git_file(&place.work_dir.join(as_path(nested)).join(".git"))
                .and_then(|admin| fs::canonicalize(admin).ok())
                .is_some_and(|admin| admin.starts_with(&place.common_dir));
            if !ours {
                sorted.not_folded.push(NotFolded { path: nested.to_vec(), why: "nested repository" });
            }
            sorted.excluded.push(nested.to_vec());
        } else if rules.leave_out.is_some_and(|excludes| excludes.covers(as_path(path), false)) {
            sorted.left_out.push(path.to_vec());
            sorted.excluded.push(path.to_vec());
        } else if rules.large.iter().any(|large| large == path) {
            sorted.omitted.push(path.to_vec());
            sorted.excluded.push(path.to_vec());
        }
    }
    if notes {
        sorted.excluded.push(b".isofold".to_vec());
    }
    Ok(sorted)
}

/// The paths to keep that `git add` passed over because of an ignore rule and that are still files.
fn forced(place: &Place, rules: &Rules<'_>, index: &IndexFile, excluded: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let stands = |path: &[u8]| {
        let full = place.work_dir.join(as_path(path));
        let real = full.parent().is_some_and(|parent| {
            let below = parent.strip_prefix(&place.work_dir).unwrap_or(Path::new(""));
            let mut at = place.work_dir.clone();
            below.components().all(|part| {
                at.push(part);
                fs::symlink_metadata(&at).is_ok_and(|meta| meta.is_dir())
            })
        });
        real && fs::symlink_metadata(&full).is_ok_and(|meta| (meta.is_file() || meta.is_symlink()) && meta.nlink() > 0)
    };
    let mut found: Vec<Vec<u8>> = rules
        .keep
        .iter()
        .filter(|path| index.position(path).is_none() && !index.has_below(path) && !excluded.contains(path))
        .filter(|path| stands(path))
        .cloned()
        .collect();
    found.dedup();
    found
}
