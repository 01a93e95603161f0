//! A Child checked out from a commit instead of filled with working files.

use std::time::Instant;

use super::undo::Undo;
use super::{IsolateError, Isolation, Wanted, branch, carry_settings, enter, publish, recover, shared};
use crate::control::{Control, Stage};
use crate::git::program::Git;
use crate::git::repository::{Head, Repo};
use crate::git::{GitError, Oid};
use crate::invocation::Places;

/// Makes the Child at `commit`, on a branch that is new or goes there. Its HEAD is its base: there is no
/// loose work that it would have in common with the Parent.
pub(crate) fn check_out(
    wanted: &Wanted<'_>,
    places: &Places,
    commit: Oid,
    control: &Control,
) -> Result<Isolation, IsolateError> {
    let started = Instant::now();
    let repo = Repo::open(&places.parent)?;
    let _parent = shared(&repo, control)?;
    recover::recover_children(&repo, control)?;
    let head = Head { branch: repo.head()?.branch, id: Some(commit) };
    let mut undo = Undo::new(&repo);
    let (mut record, entry, taking) = enter(&repo, wanted, places, &head, &mut undo, control)?;
    let admin = &entry.admin;
    record.made.branch = taking.moves(&head);
    record.write(admin)?;
    let mut saved = taking.take(&repo, &head, &mut undo)?;
    control.progress().enter(Stage::Filling);
    carry_settings(&repo, admin)?;
    let git = Git::new(admin, &places.child);
    let read = ["-c", "core.splitIndex=false", "-c", "index.sparse=false", "read-tree", "-m", "-u"];
    git.run(read.into_iter().chain([commit.to_string().as_str()]), None, control)?.success()?;
    control.check().map_err(GitError::from)?;
    saved.extend(branch::replace(&repo, &taking.going, &places.child, &mut undo, control)?);
    saved.sort();
    publish(admin, &mut record)?;
    undo.disarm();
    Ok(Isolation {
        child: places.child.clone(),
        branch: wanted.short_branch(),
        head: Some(commit.to_string()),
        base: commit.to_string(),
        saved,
        elapsed_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        ..Isolation::default()
    })
}
