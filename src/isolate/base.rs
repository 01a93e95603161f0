//! The base of an isolation: the Child as it was filled, as a commit.

use std::sync::Arc;

use super::IsolateError;
use super::select::Noted;
use crate::control::Control;
use crate::files::fill::Filled;
use crate::git::Oid;
use crate::git::identity::Identity;
use crate::git::index_file::IndexFile;
use crate::git::quarantine::Quarantine;
use crate::git::repository::{Head, Repo};
use crate::invocation::Places;
use crate::records::BaseEntry;
use crate::snapshot::{Rules, Seen, Setting, Snapshot, snapshot};

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
    index: &Arc<IndexFile>,
    noted: &Noted,
    control: &Control,
) -> Result<Base, IsolateError> {
    let mut seen = Seen {
        index: index.clone(),
        clean: noted.stats.iter().map(Option::is_some).collect(),
        there: noted.there.clone(),
        untracked: filled.untracked.clone(),
    };
    seen.untracked.sort();
    let quarantine = Quarantine::new(repo)?;
    let omit = [filled.unstored.as_slice(), &noted.included].concat();
    let rules = Rules { omit: &omit, ..Rules::default() };
    let setting = Setting::of(child)?;
    let snapshot = snapshot(child.place(), &setting, &rules, Some(&seen), &quarantine.store(), control)?;
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
