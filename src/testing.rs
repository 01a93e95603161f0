//! What the crate's own tests need to see of it. No part of its interface: anything here may change
//! or go with any version.

use std::path::Path;

use crate::control::Control;
use crate::git::Oid;
use crate::git::quarantine::Quarantine;
use crate::git::repository::Repo;
use crate::git::tree::Objects;
use crate::snapshot::{self, Rules, Setting};
use crate::write::plan::{Ground, plan};
use crate::write::recover;
use crate::write::writer::{Along, Scope, Writer};

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

/// How far [`write_tree`] reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Working files.
    Files,
    /// Working files and index.
    Index,
}

/// Writes the difference between the snapshot of a work tree and a tree that its repository holds: to
/// its files, or to files and index, never to HEAD. What a fold that was cut off left is settled first.
pub fn write_tree(directory: &Path, tree: &str, reach: Reach) -> Result<(), String> {
    let repo = Repo::open(directory).map_err(|e| e.to_string())?;
    let control = Control::new();
    let scope = match reach {
        Reach::Files => Scope::Files,
        Reach::Index => Scope::Index,
    };
    let write = || -> Result<(), Box<dyn std::error::Error>> {
        let tree = Oid::from_str(tree).map_err(|e| e.to_string())?;
        recover::first(&repo, &control)?;
        let _lock = recover::exclusive(repo.git_dir(), &control)?;
        let mut writer = Writer::begin(&repo, scope, &control)?;
        let quarantine = Quarantine::new(&repo)?;
        let (setting, rules) = (Setting::of(&repo)?, Rules::default());
        let taken = snapshot::snapshot(repo.place(), &setting, &rules, None, &quarantine.store(), &control)?;
        let changes = quarantine.changes(taken.tree, tree)?;
        let git = repo.git();
        let ground = Ground { root: repo.work_dir(), index: &taken.index, git: &git, file_mode: true, sparse: None };
        let plan = plan(&ground, &changes, &control)?;
        writer.stage(&ground, &plan, &git, None, &control)?;
        writer.apply(&plan, &taken.index, Along::default(), &control)?;
        writer.commit(|| Ok(Vec::new()), &control)?;
        Ok(())
    };
    write().map_err(|error| error.to_string())
}

/// Where a test can have a fold killed (`ISOFOLD_CRASH_AT`, in builds with debug assertions), in the
/// order in which it passes them.
pub const CRASH_POINTS: &[&str] = &crate::write::crash::POINTS;

/// The same for a recovery.
pub const RECOVERY_CRASH_POINTS: &[&str] = &crate::write::crash::RECOVERY_POINTS;
