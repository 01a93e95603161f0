//! A Child checked out from a commit instead of filled with working files.

use std::fs;
use std::time::Instant;

use super::undo::Undo;
use super::{IsolateError, Isolation, Wanted, branch, carry_settings, recover, register, registry_lock};
use crate::control::{Control, Stage};
use crate::files::owner::Owner;
use crate::git::program::Git;
use crate::git::repository::{Head, Repo};
use crate::git::{GitError, Oid};
use crate::invocation::Places;
use crate::records::{ChildRecord, Made, State};

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
    let _parent = super::shared(&repo, control)?;
    recover::recover_children(&repo, control)?;
    let head = Head { branch: repo.head()?.branch, id: Some(commit) };
    let mut undo = Undo::new(&repo);
    let mut record = ChildRecord {
        state: State::Making,
        id: wanted.id.map(str::to_owned),
        parent: places.parent.clone(),
        child: places.child.clone(),
        parent_branch: head.branch.clone(),
        branch: wanted.branch.clone(),
        exclude: wanted.excludes.patterns().to_vec(),
        omitted: Vec::new(),
        included: Vec::new(),
        owner: Owner::this(),
        made: Made::default(),
    };
    let (entry, old_tip, going) = {
        let _registry = registry_lock(&repo, &mut undo, control)?;
        let going = branch::replaceable(&repo, wanted.branch.as_deref(), &places.child)?;
        let old_tip = branch::check(&repo, wanted.branch.as_deref(), &head, &going)?;
        (register(&repo, &mut record, &head, &mut undo)?, old_tip, going)
    };
    let admin = &entry.admin;
    record.made.branch = wanted.branch.as_ref().filter(|_| old_tip != Some(commit)).map(|_| (old_tip, commit));
    record.write(admin)?;
    let mut saved = Vec::new();
    if let Some(name) = wanted.branch.as_ref().filter(|_| old_tip != Some(commit)) {
        if let Some(old) = old_tip
            && repo.only_reached_by(old, name, Some(commit))?
        {
            saved.push(branch::save(&repo, name.trim_start_matches("refs/heads/"), old, &mut undo)?);
        }
        repo.move_branch(name, old_tip, commit, "isofold: isolate")?;
        undo.branch(name.clone(), old_tip);
    }
    control.progress().enter(Stage::Filling);
    carry_settings(&repo, admin)?;
    let git = Git::new(admin, &places.child);
    let read = ["-c", "core.splitIndex=false", "-c", "index.sparse=false", "read-tree", "-m", "-u"];
    git.run(read.into_iter().chain([commit.to_string().as_str()]), None, control)?.success()?;
    control.check().map_err(GitError::from)?;
    saved.extend(branch::replace(&repo, &going, &places.child, &mut undo, control)?);
    saved.sort();
    let locked = admin.join("locked");
    fs::remove_file(&locked).map_err(GitError::io("cannot remove", &locked))?;
    record.state = State::Ready;
    record.made = Made::default();
    record.write(admin)?;
    undo.disarm();
    Ok(Isolation {
        child: places.child.clone(),
        branch: wanted.branch.as_ref().map(|b| b.trim_start_matches("refs/heads/").to_owned()),
        head: Some(commit.to_string()),
        base: commit.to_string(),
        saved,
        elapsed_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        ..Isolation::default()
    })
}
