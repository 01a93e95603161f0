//! What the crate's own tests need to see of it. No part of its interface: anything here may change
//! or go with any version.

use std::path::Path;

use crate::control::Control;
use crate::git::quarantine::Quarantine;
use crate::git::repository::Repo;
use crate::snapshot::{self, Rules, Setting};

/// What a snapshot of a directory said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// The id of the tree.
    pub tree: String,
    /// Whether git decided everything, not the scan.
    pub by_git: bool,
    /// Whether git stored what was found.
    pub stored_by_git: bool,
    /// Paths that are not in the snapshot although a reader may expect them there.
    pub not_folded: Vec<Vec<u8>>,
}

/// Takes a snapshot of the work tree whose root is `directory`. With `keep` its objects go to the
/// repository, else nowhere. The error is the one line that a user would read.
pub fn snapshot_tree(directory: &Path, keep: bool) -> Result<Taken, String> {
    let repo = Repo::open(directory).map_err(|e| e.to_string())?;
    let quarantine = Quarantine::new(&repo).map_err(|e| e.to_string())?;
    let setting = Setting::of(&repo).map_err(|e| e.to_string())?;
    let (rules, control, store) = (Rules::default(), Control::new(), quarantine.store());
    let taken = snapshot::snapshot(repo.place(), &setting, &rules, None, &store, &control);
    let taken = taken.map_err(|e| e.to_string())?;
    if keep {
        quarantine.release().map_err(|e| e.to_string())?;
    }
    let not_folded = taken.not_folded.into_iter().map(|not| not.path).collect();
    Ok(Taken { tree: taken.tree.to_string(), by_git: taken.by_git, stored_by_git: taken.stored_by_git, not_folded })
}

/// The untracked files that no ignore rule excludes, by the scan alone; `None` where it leaves the
/// decision to git.
pub fn untracked(directory: &Path) -> Result<Option<Vec<Vec<u8>>>, String> {
    let repo = Repo::open(directory).map_err(|e| e.to_string())?;
    let setting = Setting::of(&repo).map_err(|e| e.to_string())?;
    snapshot::untracked(repo.place(), &setting, &Control::new()).map_err(|e| e.to_string())
}
