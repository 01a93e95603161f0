//! Diff: two trees as a patch that `git apply` takes, whatever the user's diff configuration says.
//!
//! A patch is checked before it is handed out: applied to the old tree it has to give the new one, to
//! the byte and the mode.

mod lines;

use std::collections::BTreeMap;
use std::fs;

use crate::control::{Control, Stop};
use crate::files::as_path;
use crate::git::index_file::{IndexFile, NewEntry};
use crate::git::program::{Finished, Git};
use crate::git::quarantine::Quarantine;
use crate::git::tree::{Change, Item, Objects};
use crate::git::{GitError, Oid, show};

/// What a user may have set that would change what a patch looks like or means. git's plumbing passes
/// over most of it; none is left to chance.
const PLAIN: [&str; 21] = [
    "-c",
    "diff.suppressBlankEmpty=false",
    "-c",
    "diff.ignoreSubmodules=none",
    "diff-tree",
    "-p",
    "-r",
    "--binary",
    "--full-index",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-relative",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--submodule=short",
    "--ignore-submodules=none",
    "--ws-error-highlight=none",
    "--unified=3",
    "--inter-hunk-context=0",
    "-O/dev/null",
];

/// How `git apply` is started everywhere: nothing is fixed, ignored or warned about.
pub(crate) const APPLY: [&str; 8] = [
    "-c",
    "apply.whitespace=nowarn",
    "-c",
    "apply.ignoreWhitespace=no",
    "-c",
    "core.splitIndex=false",
    "apply",
    "--whitespace=nowarn",
];

/// A patch.
#[derive(Debug)]
pub(crate) struct Patch {
    pub(crate) bytes: Vec<u8>,
    /// How many paths it is about; a renamed file is one.
    pub(crate) files: usize,
}

/// Why there is no patch.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiffError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("the patch does not reproduce the snapshot ({0}); it was not handed out")]
    Unfaithful(String),
}

impl DiffError {
    pub(crate) fn stop(&self) -> Option<Stop> {
        match self {
            Self::Git(error) => error.stop(),
            Self::Unfaithful(_) => None,
        }
    }
}

/// The patch from `old` to `new`. `git` is bound to the work tree whose attributes say what is text.
pub(crate) fn diff(
    quarantine: &Quarantine,
    git: &Git,
    old: Oid,
    new: Oid,
    control: &Control,
) -> Result<Patch, DiffError> {
    let changes = quarantine.changes(old, new)?;
    if changes.is_empty() {
        return Ok(Patch { bytes: Vec::new(), files: 0 });
    }
    let git = quarantine.enter(git.clone())?;
    let mut reason = String::new();
    // Where git stumbles over its own renames, the same without them.
    for renames in ["-M", "--no-renames"] {
        let (old, new) = (old.to_string(), new.to_string());
        let bytes = git.run(PLAIN.into_iter().chain([renames, &old, &new]), None, control)?.success()?;
        match verify(quarantine, &git, &changes, &bytes, control)? {
            Ok(()) => return Ok(Patch { files: count(&bytes), bytes }),
            Err(why) => reason = why,
        }
    }
    Err(DiffError::Unfaithful(reason))
}

/// How many paths a patch is about. A line of content never starts like a header.
pub(crate) fn count(patch: &[u8]) -> usize {
    let headers = patch.split(|b| *b == b'\n').filter(|line| line.starts_with(b"diff --git "));
    let mut last: &[u8] = b"";
    // A file that became a link is two entries of one name.
    headers.filter(|line| std::mem::replace(&mut last, line) != *line).count()
}

/// Whether the patch gives the new tree. One that changes more than lines is applied to an index that holds the
/// old side of every path that changes.
fn verify(
    quarantine: &Quarantine,
    git: &Git,
    changes: &[Change],
    patch: &[u8],
    control: &Control,
) -> Result<Result<(), String>, GitError> {
    if lines::reproduces(changes, patch, |id| quarantine.blob(id))? {
        return Ok(Ok(()));
    }
    let before = changes.iter().filter_map(|change| Some((change.path.clone(), change.old?)));
    let scratch = Scratch::new(quarantine, before)?;
    let applied = scratch.apply(git, patch, control)?;
    if applied.code != Some(0) {
        return Ok(Err(applied.failure().to_string()));
    }
    let after = scratch.items()?;
    let wanted: BTreeMap<&[u8], Item> =
        changes.iter().filter_map(|change| Some((change.path.as_slice(), change.new?))).collect();
    let differs = |path: &[u8]| after.get(path) != wanted.get(path);
    let mut paths = wanted.keys().copied().chain(after.keys().map(Vec::as_slice));
    Ok(match paths.find(|path| differs(path)) {
        Some(wrong) => Err(format!("{} comes out differently", show(as_path(wrong)))),
        None => Ok(()),
    })
}

/// An index of our own, to apply a patch to.
pub(crate) struct Scratch {
    directory: tempfile::TempDir,
}

impl Scratch {
    /// An index with these entries.
    pub(crate) fn new(
        quarantine: &Quarantine,
        entries: impl Iterator<Item = (Vec<u8>, Item)>,
    ) -> Result<Self, GitError> {
        let store = quarantine.store();
        let root = store.root();
        let directory = tempfile::Builder::new().prefix("apply-").tempdir_in(root);
        let scratch = Self { directory: directory.map_err(GitError::io("cannot write to", root))? };
        let entries: Vec<(Vec<u8>, Item)> = entries.collect();
        let entries = entries.iter().map(|(path, item)| NewEntry::bare(path, *item));
        let index = scratch.index();
        let bytes = IndexFile::read(&index)?.with_entries(entries.collect());
        fs::write(&index, bytes).map_err(GitError::io("cannot write", &index))?;
        Ok(scratch)
    }

    fn index(&self) -> std::path::PathBuf {
        self.directory.path().join("index")
    }

    /// git, working on this index alone.
    pub(crate) fn enter(&self, git: &Git) -> Git {
        git.clone().with("GIT_INDEX_FILE", self.index())
    }

    /// `git apply --cached`.
    pub(crate) fn apply(&self, git: &Git, patch: &[u8], control: &Control) -> Result<Finished, GitError> {
        self.enter(git).run(APPLY.into_iter().chain(["--cached", "-"]), Some(patch.to_vec()), control)
    }

    fn items(&self) -> Result<BTreeMap<Vec<u8>, Item>, GitError> {
        let index = IndexFile::read(&self.index())?;
        let item = |entry: &crate::git::index_file::Entry| Item { mode: entry.mode, id: entry.id };
        Ok(index.entries().iter().map(|entry| (index.path(entry).to_vec(), item(entry))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_counted_by_their_headers() {
        let patch =
            b"diff --git a/x b/x\n-diff --git a/y b/y\n+diff --git\n \ndiff --git a/z b/z\ndiff --git a/z b/z\n";
        assert_eq!(count(patch), 2);
        assert_eq!(count(b""), 0);
    }
}
