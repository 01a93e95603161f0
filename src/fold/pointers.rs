//! Submodule pointers that a fold moves: the commits they name are brought into the Parent's own
//! copy of the submodule before they land, so that no pointer ever leads nowhere.

use std::path::PathBuf;

use super::child::ChildSide;
use crate::combine::Conflict;
use crate::files::as_path;
use crate::git::modules::{Module, Stores, git_dir_of};
use crate::git::repository::Repo;
use crate::git::tree::{Change, MODE_GITLINK, Objects};
use crate::git::{GitError, Oid, show};
use crate::write::WriteError;

/// The refs that keep what was brought along.
const CARRIED: &str = "refs/isofold/carried/";

/// What has to be brought along.
#[derive(Default)]
pub(super) struct Pointers {
    carries: Vec<Carry>,
    /// Refs that were made: the position of the carry, the name.
    made: Vec<(usize, String)>,
}

struct Carry {
    from: Module,
    into: Module,
    commits: Vec<Oid>,
}

/// Finds what has to be brought along; nothing is written. A pointer to a commit that the Parent's
/// submodule lacks and can't be given is a conflict.
pub(super) fn plan(
    parent: &Repo,
    child: &ChildSide,
    parent_head: Option<Oid>,
    child_head: Option<Oid>,
    changes: &[Change],
) -> Result<Pointers, WriteError> {
    let mut planned =
        Plan { parent: Side::of(parent), child: Side::of_child(child), carries: Vec::new(), conflicts: Vec::new() };
    let mut history = None;
    for change in changes {
        let link = |item: Option<crate::git::tree::Item>| item.filter(|i| i.mode == MODE_GITLINK).map(|i| i.id);
        let Some(new) = link(change.new) else { continue };
        // Commits on the way there point into the submodule too.
        if history.is_none() {
            history = Some(parent.commits_between(parent_head, child_head)?);
        }
        let mut on_the_way = Vec::new();
        for commit in history.iter().flatten() {
            let pointer = link(parent.item_at(parent.tree_of(*commit)?, &change.path)?);
            on_the_way.extend(pointer.filter(|id| *id != new && !on_the_way.contains(id)));
        }
        planned.pointer(&change.path, link(change.old), new, &on_the_way, true)?;
    }
    let Plan { carries, conflicts, .. } = planned;
    if conflicts.is_empty() {
        Ok(Pointers { carries, made: Vec::new() })
    } else {
        Err(WriteError::Conflicts(conflicts))
    }
}

/// A work tree and where the repositories of its submodules are kept.
struct Side {
    root: PathBuf,
    stores: Stores,
}

impl Side {
    /// The submodules of a clone are not opened: their configuration is not ours to obey.
    fn of_child(child: &ChildSide) -> Self {
        let side = Self::of(&child.repo);
        if child.is_foreign() { Self { root: child.repo.git_dir().join("no-submodules"), ..side } } else { side }
    }

    fn of(repo: &Repo) -> Self {
        Self { root: repo.work_dir().to_owned(), stores: Stores::of(repo.git_dir(), repo.common_dir()) }
    }

    fn checked_out(&self, path: &[u8]) -> Option<PathBuf> {
        git_dir_of(&self.root.join(as_path(path)))
    }
}

struct Plan {
    parent: Side,
    child: Side,
    carries: Vec<Carry>,
    conflicts: Vec<Conflict>,
}

impl Plan {
    /// One pointer, and the pointers in the commit that it leads to.
    fn pointer(
        &mut self,
        path: &[u8],
        old: Option<Oid>,
        new: Oid,
        on_the_way: &[Oid],
        outermost: bool,
    ) -> Result<(), GitError> {
        let theirs = self.child.checked_out(path);
        let named = theirs.as_ref().and_then(|found| self.child.stores.name_of(found));
        // Without a work tree of its own the Parent may still have the repository.
        let ours = self.parent.checked_out(path).or_else(|| named.and_then(|name| self.parent.stores.find(&name)));
        let ours = ours.as_deref().map(Module::open).transpose()?;
        let theirs = theirs.filter(|found| ours.as_ref().is_none_or(|ours| ours.git_dir() != found));
        let theirs = theirs.as_deref().map(Module::open).transpose()?;
        let ours_has = ours.as_ref().is_some_and(|ours| ours.has(new));
        let theirs_has = theirs.as_ref().is_some_and(|theirs| theirs.has(new));
        let obtainable = ours_has || (ours.is_some() && theirs_has);
        if !obtainable {
            // A pointer inside a submodule that leads to what others published is git's to fetch.
            let lost = match &theirs {
                Some(theirs) if theirs_has => theirs.only_here(None)?.iter().any(|tip| theirs.contains(*tip, new)),
                _ => false,
            };
            if outermost || lost {
                self.conflict(path, new, ours.is_some());
            }
            return Ok(());
        }
        let links = match (&theirs, &ours) {
            (Some(theirs), _) if theirs_has => theirs.moved_links(old, new)?,
            (_, Some(ours)) => ours.moved_links(old, new)?,
            _ => Vec::new(),
        };
        for (inner, id) in links {
            let inner = crate::files::join(path, &inner);
            self.pointer(&inner, None, id, &[], false)?;
        }
        let (Some(into), Some(from)) = (ours, theirs) else { return Ok(()) };
        let mut commits = Vec::new();
        for id in std::iter::once(&new).chain(on_the_way) {
            if from.has(*id) && !into.keeps(*id)? {
                commits.push(*id);
            }
        }
        if !commits.is_empty() {
            self.carries.push(Carry { from, into, commits });
        }
        Ok(())
    }

    fn conflict(&mut self, path: &[u8], new: Oid, has_store: bool) {
        let path = show(as_path(path));
        let short = &new.to_string()[..12];
        let detail = if has_store {
            format!(
                "the submodule {path} would point to {short}, which neither the Parent's nor the Child's copy of it has; fetch it there first"
            )
        } else {
            format!(
                "the submodule {path} would point to {short}, but the Parent has no copy of it that could take the commit; run git submodule update --init there, or push the commit, first"
            )
        };
        self.conflicts.push(Conflict::new(path, "submodule", detail));
    }
}

impl Pointers {
    /// Brings the commits along, synced and kept by refs.
    pub(super) fn carry(&mut self) -> Result<(), GitError> {
        for (at, carry) in self.carries.iter().enumerate() {
            let made = carry.into.take_from(&carry.from, &carry.commits, |id| format!("{CARRIED}{id}"))?;
            self.made.extend(made.into_iter().map(|name| (at, name)));
        }
        Ok(())
    }

    /// The refs that were made: the git directory of the submodule, the name.
    pub(super) fn made(&self) -> Vec<(PathBuf, String)> {
        self.made.iter().map(|(at, name)| (self.carries[*at].into.git_dir().to_owned(), name.clone())).collect()
    }

    /// Takes the refs back; the objects are nobody's then.
    pub(super) fn undo(&mut self) {
        for (at, name) in self.made.drain(..) {
            if let Err(error) = self.carries[at].into.remove_ref(&name) {
                tracing::warn!(%error, "a submodule's ref could not be taken back");
            }
        }
    }
}
