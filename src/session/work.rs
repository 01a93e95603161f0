//! What a session holds: its worktree, opened safely, and its files as a snapshot.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::SessionError;
use crate::control::Control;
use crate::files::as_path;
use crate::fold::child::ChildSide;
use crate::git::quarantine::Quarantine;
use crate::git::repository::Repo;
use crate::git::tree::Item;
use crate::git::{GitError, Oid, show};
use crate::records::{BaseEntry, ChildRecord, SessionRecord};
use crate::snapshot::{Rules, Setting, Snapshot, covered, snapshot};

/// Directories that hold what a build or a package manager makes again.
const BUILD_DIRECTORIES: [&str; 24] = [
    ".cache",
    ".direnv",
    ".eggs",
    ".gradle",
    ".mypy_cache",
    ".next",
    ".nox",
    ".nuxt",
    ".nyc_output",
    ".parcel-cache",
    ".pytest_cache",
    ".ruff_cache",
    ".svelte-kit",
    ".tox",
    ".turbo",
    ".venv",
    "__pycache__",
    "build",
    "coverage",
    "dist",
    "node_modules",
    "out",
    "target",
    "venv",
];

/// Ends of the names of files that a build makes again.
const BUILD_FILES: [&str; 8] = [".class", ".d", ".o", ".obj", ".pyc", ".pyo", ".swp", ".tsbuildinfo"];

/// A session whose worktree is there.
pub(super) struct Open {
    pub(super) child: Repo,
    record: Option<ChildRecord>,
}

/// What the worktree of a session is now.
pub(super) struct Content {
    pub(super) snapshot: Snapshot,
    /// The work: the snapshot less what came along past the exclude list, should somebody have added it.
    pub(super) tree: Oid,
    /// Ignored files that are part of the work.
    pub(super) ignored: Vec<Vec<u8>>,
}

/// Opens the worktree, which has to be one of the repository's own; `None` where it is gone.
pub(super) fn open(repo: &Repo, session: &SessionRecord) -> Result<Option<Open>, SessionError> {
    match fs::symlink_metadata(&session.worktree) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(GitError::io("cannot read", &session.worktree)(error).into()),
        Ok(meta) if !meta.is_dir() => {
            return Err(SessionError::failed(format!("{} is not a directory", show(&session.worktree))));
        }
        Ok(_) => {}
    }
    let child = ChildSide::open(repo, &session.worktree)?.repo;
    let record = ChildRecord::read(child.git_dir())?;
    Ok(Some(Open { child, record }))
}

impl Open {
    /// A snapshot of the worktree in which new ignored files are, too.
    pub(super) fn content(
        &self,
        repo: &Repo,
        session: &SessionRecord,
        quarantine: &Quarantine,
        control: &Control,
    ) -> Result<Content, SessionError> {
        let ignored = self.new_ignored(session, control)?;
        // What came untracked stays part of it, whatever ignore rule the session added.
        let entries = BaseEntry::of_pair(repo, &session.main, &session.worktree)?;
        let mut keep: Vec<Vec<u8>> =
            entries.into_iter().filter(|entry| entry.base == session.base).flat_map(|entry| entry.untracked).collect();
        keep.extend(ignored.iter().cloned());
        let omit = self.record.as_ref().map(|record| record.no_work(self.child.work_dir())).unwrap_or_default();
        let rules = Rules { keep: &keep, omit: &omit, ..Rules::default() };
        let setting = Setting::of(&self.child)?;
        let snapshot = snapshot(self.child.place(), &setting, &rules, None, &quarantine.store(), control)?;
        let tree = self.without_included(&snapshot, quarantine)?;
        Ok(Content { snapshot, tree, ignored })
    }

    fn without_included(&self, snapshot: &Snapshot, quarantine: &Quarantine) -> Result<Oid, GitError> {
        let included = self.record.as_ref().map(|record| record.included.as_slice()).unwrap_or_default();
        let index = &snapshot.index;
        let paths = index.entries().iter().map(|entry| index.path(entry)).filter(|path| covered(included, path));
        let gone: Vec<(&[u8], Option<Item>)> = paths.map(|path| (path, None)).collect();
        if gone.is_empty() { Ok(snapshot.tree) } else { quarantine.store().open().updated_tree(snapshot.tree, &gone) }
    }

    /// Ignored files that came into being in the session and that no build makes again.
    fn new_ignored(&self, session: &SessionRecord, control: &Control) -> Result<Vec<Vec<u8>>, SessionError> {
        let arguments = ["ls-files", "--others", "--ignored", "--exclude-standard", "-z"];
        let listed = self.child.git().run(arguments, None, control)?.success()?;
        let included = self.record.as_ref().map(|record| record.included.as_slice()).unwrap_or_default();
        let mut found = BTreeSet::new();
        for path in listed.split(|b| *b == 0).filter(|path| !path.is_empty()) {
            let candidate = !path.ends_with(b"/") && !is_build_output(path) && !covered(included, path);
            if candidate && !self.was_brought(session, path)? {
                found.insert(path.to_vec());
            }
        }
        Ok(found.into_iter().collect())
    }

    /// Whether the file is as old as the session, or still what the main tree has.
    fn was_brought(&self, session: &SessionRecord, path: &[u8]) -> Result<bool, GitError> {
        let full = self.child.work_dir().join(as_path(path));
        let meta = match fs::symlink_metadata(&full) {
            Ok(meta) => meta,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(true),
            Err(error) => return Err(GitError::io("cannot read", &full)(error)),
        };
        if (meta.ctime(), meta.ctime_nsec()) < session.ready {
            return Ok(true);
        }
        let main = fs::symlink_metadata(session.main.join(as_path(path)));
        Ok(main.is_ok_and(|main| {
            let as_of = |meta: &fs::Metadata| (meta.file_type(), meta.len(), meta.mtime(), meta.mtime_nsec());
            as_of(&main) == as_of(&meta)
        }))
    }

    /// The tips that the work of the session hangs on: its HEAD, and its branch where it still is.
    pub(super) fn tips(&self, session: &SessionRecord) -> Result<Vec<Oid>, SessionError> {
        let mut tips: Vec<Oid> = self.child.head()?.id.into_iter().collect();
        tips.extend(self.child.ref_id(&session.branch)?);
        tips.sort_unstable();
        tips.dedup();
        Ok(tips)
    }
}

/// Whether a path is one that builds and package managers make again.
fn is_build_output(path: &[u8]) -> bool {
    let path = as_path(path);
    let named = |part: &std::ffi::OsStr| {
        let name = part.to_string_lossy();
        BUILD_DIRECTORIES.contains(&&*name) || name.ends_with(".egg-info")
    };
    let above = path.parent().unwrap_or(Path::new(""));
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    above.iter().any(named) || BUILD_FILES.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_output_is_told_by_its_directory_or_its_name() {
        for output in ["target/debug/x", "a/node_modules/b/c.js", "x.pyc", "src/__pycache__/y", "p.egg-info/top"] {
            assert!(is_build_output(output.as_bytes()), "{output}");
        }
        for work in ["notes.log", "targets/x", "a/target", ".envrc", "out.txt"] {
            assert!(!is_build_output(work.as_bytes()), "{work}");
        }
    }
}
