//! What a worktree started from, and what a snapshot of it has to leave out or take in: for a Child, what
//! isolate filled it with.

use crate::git::identity::Identity;
use crate::git::quarantine::Quarantine;
use crate::git::repository::Repo;
use crate::git::{GitError, Oid};
use crate::records::{BaseEntry, ChildRecord};
use crate::snapshot::Rules;

/// The message of the commit that stands for a branch without commits.
const NOTHING: &str = "isofold: no commit yet";

/// The start of a worktree.
pub(crate) struct Start {
    /// The commit that later work is compared with; `None` on a branch without commits.
    pub(crate) base: Option<Oid>,
    keep: Vec<Vec<u8>>,
    omit: Vec<Vec<u8>>,
}

impl Start {
    /// The start that was recorded before, else the base of a Child, else HEAD.
    pub(crate) fn of(repo: &Repo, recorded: Option<Oid>) -> Result<Self, GitError> {
        let child = ChildRecord::read(repo.git_dir())?;
        let entry = match &child {
            Some(_) => BaseEntry::newest_of_child(repo, repo.work_dir())?,
            None => None,
        };
        let base = match (recorded, &entry) {
            (Some(recorded), _) => Some(recorded),
            (None, Some(entry)) => Some(entry.base),
            (None, None) => repo.head()?.id,
        };
        // A new ignore rule does not take away what the base holds.
        let keep = entry.filter(|entry| Some(entry.base) == base).map(|entry| entry.untracked).unwrap_or_default();
        let omit = child.map(|record| record.no_work(repo.work_dir())).unwrap_or_default();
        Ok(Self { base, keep, omit })
    }

    /// What a snapshot goes by.
    pub(crate) fn rules(&self) -> Rules<'_> {
        // An agent is at work beside this, and records after each step.
        Rules { leave_out: None, keep: &self.keep, omit: &self.omit, threads: Some(1) }
    }

    /// The base as a commit: on a branch without commits one without files is made.
    pub(crate) fn commit(&self, quarantine: &Quarantine) -> Result<Oid, GitError> {
        if let Some(base) = self.base {
            return Ok(base);
        }
        let who = Identity::of_isofold()?;
        let nothing = quarantine.store().open().updated_tree(crate::git::tree::empty_tree()?, &[])?;
        quarantine.commit(nothing, &[], NOTHING, &who.author, &who.committer)
    }
}
