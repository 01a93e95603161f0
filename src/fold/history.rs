//! Which commits a fold makes: snapshot commits only of what is loose, a fast-forward where only the
//! Child moved, else one merge; the Parent's loose work never under the Child's subject.

use super::{FoldError, FoldRequest, Landing};
use crate::control::Control;
use crate::git::identity::Identity;
use crate::git::quarantine::Quarantine;
use crate::git::repository::Repo;
use crate::git::{GitError, Oid};
use crate::records::BaseEntry;

/// One side: its HEAD and its snapshot.
#[derive(Clone, Copy)]
pub(super) struct Tip {
    pub(super) head: Option<Oid>,
    pub(super) tree: Oid,
}

pub(super) struct Graph<'a> {
    pub(super) repo: &'a Repo,
    pub(super) quarantine: &'a Quarantine,
    pub(super) entry: Option<&'a BaseEntry>,
    pub(super) parent: Tip,
    pub(super) child: Tip,
    pub(super) result: Oid,
}

/// What the Child's loose work is committed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Root {
    /// The Parent's side itself: its HEAD, or the commit of its loose work.
    Parent,
    /// A commit that is in history already.
    Commit(Oid),
    /// The base entry, which lands as a commit of its own on this one.
    Base { on: Option<Oid> },
}

pub(super) struct Planned {
    parent_loose: bool,
    root: Option<Root>,
    child_loose: bool,
    forward: bool,
}

impl Planned {
    pub(super) fn landing(&self) -> Landing {
        if self.forward { Landing::FastForward } else { Landing::Merge }
    }

    /// Who makes the commits and moves the branch. Moving it alone needs nobody's name.
    pub(super) fn who(&self, repo: &Repo, control: &Control) -> Result<Identity, FoldError> {
        let base_lands = matches!(self.root, Some(Root::Base { .. }));
        let commits = self.parent_loose || base_lands || self.child_loose || !self.forward;
        match Identity::of_user(repo, control)? {
            Ok(who) => Ok(who),
            Err(_) if !commits => Ok(Identity::of_isofold()?),
            Err(words) => Err(FoldError::NoIdentity(words)),
        }
    }
}

/// The commits that were made, in the quarantine.
pub(super) struct Landed {
    pub(super) head: Oid,
    /// The commit whose tree is the Child's snapshot.
    pub(super) child_tip: Oid,
    pub(super) commits: Vec<Oid>,
    pub(super) who: Identity,
}

impl Graph<'_> {
    /// Decides about commits without making any.
    pub(super) fn plan(&self) -> Result<Planned, GitError> {
        let parent_loose = self.parent.tree != self.repo.head_tree(self.parent.head)?;
        let has_parent = parent_loose || self.parent.head.is_some();
        // Without new commits in the Child, its loose work is what came since the base entry.
        let entry = self.entry.filter(|entry| entry.child_head == self.child.head);
        let (root, root_tree) = match entry {
            Some(entry) => (self.root_on(entry)?, entry.tree),
            None => (self.child.head.map(Root::Commit), self.repo.head_tree(self.child.head)?),
        };
        let child_loose = self.child.tree != root_tree || root.is_none();
        let contains_parent = match (root, self.parent.head) {
            (Some(Root::Parent), _) => true,
            _ if parent_loose => false,
            (_, None) => true,
            (Some(Root::Commit(commit)), Some(head)) => self.repo.contains(commit, head)?,
            (Some(Root::Base { on: Some(on) }), Some(head)) => self.repo.contains(on, head)?,
            (Some(Root::Base { on: None }) | None, Some(_)) => false,
        };
        let forward = !has_parent || (contains_parent && self.result == self.child.tree);
        Ok(Planned { parent_loose, root, child_loose, forward })
    }

    fn root_on(&self, entry: &BaseEntry) -> Result<Option<Root>, GitError> {
        let holds_child = match (self.parent.head, entry.child_head) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(head), Some(child)) => self.repo.contains(head, child)?,
        };
        if entry.tree == self.parent.tree && holds_child {
            return Ok(Some(Root::Parent));
        }
        let heads = [self.parent.head, self.child.head];
        for head in heads.into_iter().flatten() {
            if self.repo.contains(head, entry.base)? {
                return Ok(Some(Root::Commit(entry.base)));
            }
        }
        // Nothing was there and nothing has to land for it.
        if entry.child_head.is_none() && entry.tree == crate::git::tree::empty_tree()? {
            return Ok(None);
        }
        Ok(Some(Root::Base { on: entry.child_head }))
    }

    /// Makes the commits.
    pub(super) fn make(&self, plan: &Planned, request: &FoldRequest, who: Identity) -> Result<Landed, FoldError> {
        let default = format!("Integration of {}", crate::git::one_line(&request.id));
        let subject = request.subject.as_deref().unwrap_or(&default);
        let merge_subject = request.merge_subject.as_deref().unwrap_or(&default);
        let before = format!("Uncommitted work before: {subject}");
        let mut commits = Vec::new();
        let mut commit = |tree: Oid, parents: &[Oid], message: &str| -> Result<Oid, GitError> {
            let made = self.quarantine.commit(tree, parents, message, &who.author, &who.committer)?;
            commits.push(made);
            Ok(made)
        };
        let list = |id: Option<Oid>| id.into_iter().collect::<Vec<_>>();
        let parent = if plan.parent_loose {
            Some(commit(self.parent.tree, &list(self.parent.head), &before)?)
        } else {
            self.parent.head
        };
        let root = match (plan.root, self.entry) {
            (Some(Root::Parent), _) => parent,
            (Some(Root::Commit(existing)), _) => Some(existing),
            (Some(Root::Base { on }), Some(entry)) => Some(commit(entry.tree, &list(on), &before)?),
            _ => None,
        };
        let child_tip = match root {
            Some(root) if !plan.child_loose => root,
            root => commit(self.child.tree, &list(root), subject)?,
        };
        let head = match parent {
            Some(parent) if !plan.forward => commit(self.result, &[parent, child_tip], merge_subject)?,
            _ => child_tip,
        };
        Ok(Landed { head, child_tip, commits, who })
    }
}
