//! The Child of a fold: one of the Parent's repository's own work trees, and no other.

use std::fs;
use std::path::{Path, PathBuf};

use super::FoldError;
use super::foreign::{self, Shadow};
use crate::control::Control;
use crate::git::GitError;
use crate::git::repository::Repo;
use crate::git::tree::Objects;
use crate::git::worktrees::{admin_of_git_file, registered};
use crate::records::{BaseEntry, ChildRecord, State};

pub(crate) struct ChildSide {
    pub(crate) repo: Repo,
    /// What stands for the git directory of a clone.
    shadow: Option<Shadow>,
}

impl ChildSide {
    /// Opens the Child; with `foreign` it may be a clone of its own.
    pub(super) fn open_for(parent: &Repo, child: &Path, foreign: bool, control: &Control) -> Result<Self, FoldError> {
        match Self::open(parent, child) {
            Err(FoldError::NotRegistered { .. }) if foreign => {
                let (repo, shadow) = foreign::open(parent, child, control)?;
                Ok(Self { repo, shadow: Some(shadow) })
            }
            other => other,
        }
    }

    /// Whether it is a clone of its own.
    pub(super) fn is_foreign(&self) -> bool {
        self.shadow.is_some()
    }

    /// Opens the Child after checking, without opening it, that its `.git` leads to an entry of the
    /// Parent's own registry that leads back, or is the Parent's repository itself.
    pub(crate) fn open(parent: &Repo, child: &Path) -> Result<Self, FoldError> {
        let not = |why: &str| FoldError::NotRegistered { child: child.to_owned(), why: why.to_owned() };
        let git = child.join(".git");
        let meta = fs::symlink_metadata(&git).map_err(|_| not("it has no .git"))?;
        let git_dir = if meta.is_dir() {
            let real = fs::canonicalize(&git).map_err(GitError::io("cannot read", &git))?;
            if real != parent.common_dir() {
                return Err(not("it is a repository of its own; --foreign-child folds such a clone"));
            }
            real
        } else {
            let admin = admin_of_git_file(&git).ok_or_else(|| not("its .git names no git directory"))?;
            let admin =
                fs::canonicalize(admin).map_err(|_| not("its .git leads nowhere; git worktree repair may help"))?;
            leads_back(parent, &admin, child).map_err(|why| not(&why))?;
            admin
        };
        let repo = Repo::open(child)?;
        if repo.git_dir() != git_dir {
            return Err(not("its .git changed meanwhile"));
        }
        if let Some(record) = ChildRecord::read(&git_dir)?
            && record.state != State::Ready
        {
            return Err(FoldError::Incomplete(child.to_owned()));
        }
        Ok(Self { repo, shadow: None })
    }

    /// Paths of the base that never were in the Child's index: a new ignore rule of the Child does
    /// not take them out of a fold.
    pub(super) fn never_tracked(&self, parent: &Repo, entry: &BaseEntry) -> Result<Vec<Vec<u8>>, FoldError> {
        let head = self.repo.head()?.id;
        if head == entry.child_head {
            return Ok(entry.untracked.clone());
        }
        let tree = parent.head_tree(head)?;
        let commits = parent.commits_between(entry.child_head, head)?;
        let mut kept = Vec::new();
        for path in &entry.untracked {
            let mut committed = parent.item_at(tree, path)?.is_some();
            for commit in &commits {
                committed = committed || parent.item_at(parent.tree_of(*commit)?, path)?.is_some();
            }
            if !committed {
                kept.push(path.clone());
            }
        }
        Ok(kept)
    }
}

/// Whether `admin` is an entry of the Parent's registry that names the Child (or the Parent's own).
fn leads_back(parent: &Repo, admin: &Path, child: &Path) -> Result<(), String> {
    if admin == parent.common_dir() {
        return Ok(());
    }
    let entries = registered(parent.common_dir()).map_err(|error| error.to_string())?;
    let found = entries.into_iter().find(|entry| fs::canonicalize(&entry.admin).is_ok_and(|real| real == admin));
    let Some(found) = found else { return Err("its .git leads to another repository".to_owned()) };
    let named: PathBuf = fs::canonicalize(&found.directory).unwrap_or(found.directory);
    if named == child {
        Ok(())
    } else {
        Err(format!("its entry belongs to {}; git worktree repair may help", crate::git::show(&named)))
    }
}
