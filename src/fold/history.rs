//! Which commits a fold makes: snapshot commits only of what is loose, a fast-forward where only the
//! Child moved, else one merge; the Parent's loose work never under the Child's subject.

use std::collections::BTreeSet;

use super::{FoldError, FoldRequest, Landing};
use crate::combine::{self, Bases, Combined, MergeEngine, Side};
use crate::control::Control;
use crate::git::identity::Identity;
use crate::git::quarantine::Quarantine;
use crate::git::repository::Repo;
use crate::git::tree::{Item, Objects};
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
    /// What was loose at isolation and still is, as a commit of its own on the Child's.
    Before { tree: Oid, on: Oid },
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
        let base_lands = matches!(self.root, Some(Root::Base { .. } | Root::Before { .. }));
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
    pub(super) fn plan(&self, engine: MergeEngine, control: &Control) -> Result<Planned, GitError> {
        let parent_loose = self.parent.tree != self.repo.head_tree(self.parent.head)?;
        let has_parent = parent_loose || self.parent.head.is_some();
        // Without new commits in the Child, its loose work is what came since the base entry.
        let entry = self.entry.filter(|entry| entry.child_head == self.child.head);
        let (root, root_tree) = match entry {
            Some(entry) => (self.root_on(entry)?, entry.tree),
            None => match (self.before(engine, control)?, self.child.head) {
                (Some(tree), Some(on)) => (Some(Root::Before { tree, on }), tree),
                (_, head) => (head.map(Root::Commit), self.repo.head_tree(head)?),
            },
        };
        let child_loose = self.child.tree != root_tree || root.is_none();
        let contains_parent = match (root, self.parent.head) {
            (Some(Root::Parent), _) => true,
            _ if parent_loose => false,
            (_, None) => true,
            (Some(Root::Commit(commit) | Root::Before { on: commit, .. }), Some(head)) => {
                self.repo.contains(commit, head)?
            }
            (Some(Root::Base { on: Some(on) }), Some(head)) => self.repo.contains(on, head)?,
            (Some(Root::Base { on: None }) | None, Some(_)) => false,
        };
        let forward = !has_parent || (contains_parent && self.result == self.child.tree);
        Ok(Planned { parent_loose, root, child_loose, forward })
    }

    /// The Child's HEAD with what was loose already when it was isolated (or folded last) and is loose
    /// there still: none of it is the Child's new work. `None` where there is no such thing.
    ///
    /// Where the Child's commits changed the same lines, theirs stay: what they did to them is the
    /// Child's own. A path that its commits deleted or turned into something else stays so too.
    fn before(&self, engine: MergeEngine, control: &Control) -> Result<Option<Oid>, GitError> {
        let (Some(entry), Some(head)) = (self.entry, self.child.head) else { return Ok(None) };
        let (then, now) = (self.repo.head_tree(entry.child_head)?, self.repo.tree_of(head)?);
        if entry.tree == then || self.child.tree == now || self.repo.contains(head, entry.base)? {
            return Ok(None);
        }
        let bases = Bases { entry: None, sole: Some(then), any: Some(then) };
        let side = |tree| Side { tree, head: entry.child_head };
        // Without a commit git would see histories that have nothing in common.
        let engine = if entry.child_head.is_none() { MergeEngine::Builtin } else { engine };
        let combined =
            combine::combine(self.repo, self.quarantine, &bases, side(now), side(entry.tree), engine, control)?;
        let merged = match combined {
            Combined::Clean { tree, .. } => tree,
            Combined::Conflict { .. } => combine::builtin::leaning_to_ours(self.quarantine, then, now, entry.tree)?,
        };
        // What the Child took back is not there to be told apart.
        let loose = self.quarantine.changes(now, self.child.tree)?;
        let loose: BTreeSet<&[u8]> = loose.iter().map(|change| change.path.as_slice()).collect();
        let carried = self.quarantine.changes(now, merged)?;
        let carried: Vec<(&[u8], Option<Item>)> = carried
            .iter()
            .filter(|change| loose.contains(change.path.as_slice()))
            .map(|change| (change.path.as_slice(), change.new))
            .collect();
        if carried.is_empty() {
            return Ok(None);
        }
        self.quarantine.store().open().updated_tree(now, &carried).map(Some)
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
            (Some(Root::Before { tree, on }), _) => Some(commit(tree, &[on], &before)?),
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
