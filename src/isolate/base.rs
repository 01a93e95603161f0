//! The base of an isolation: the Child as it was filled, as a commit.

use super::IsolateError;
use crate::control::Control;
use crate::files::fill::Filled;
use crate::git::Oid;
use crate::git::identity::Identity;
use crate::git::quarantine::Quarantine;
use crate::git::repository::{Head, Repo};
use crate::invocation::Places;
use crate::records::BaseEntry;
use crate::snapshot::{Rules, Snapshot, snapshot};

/// The subject of hidden base commits.
const SUBJECT: &str = "isofold: the files as they were at isolation";

pub(super) struct Base {
    pub(super) quarantine: Quarantine,
    pub(super) snapshot: Snapshot,
    commit: Oid,
    sequence: u64,
}

/// Snapshots the Child as filled. Where nothing is loose, HEAD itself is the base.
pub(super) fn take(
    repo: &Repo,
    child: &Repo,
    head: &Head,
    filled: &Filled,
    control: &Control,
) -> Result<Base, IsolateError> {
    let quarantine = Quarantine::new(repo)?;
    let rules = Rules { large: &filled.unstored, ..Rules::default() };
    let snapshot = snapshot(child.place(), &rules, &quarantine.store(), control)?;
    let head_tree = repo.head_tree(head.id)?;
    let commit = match head.id {
        Some(id) if snapshot.tree == head_tree => id,
        parent => {
            let who = Identity::of_isofold()?;
            let parents: Vec<Oid> = parent.into_iter().collect();
            quarantine.commit(snapshot.tree, &parents, SUBJECT, &who.author, &who.committer)?
        }
    };
    let sequence = BaseEntry::next_sequence(repo)?;
    Ok(Base { quarantine, snapshot, commit, sequence })
}

impl Base {
    pub(super) fn entry(&self, places: &Places, head: &Head, branch: Option<&str>) -> BaseEntry {
        BaseEntry {
            pair: [places.parent.clone(), places.child.clone()],
            base: self.commit,
            tree: self.snapshot.tree,
            anchor: head.id,
            child_head: head.id,
            branch: branch.map(str::to_owned),
            untracked: self.snapshot.untracked(),
            sequence: self.sequence,
        }
    }
}
