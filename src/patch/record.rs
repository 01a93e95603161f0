//! Record: snapshot, diff, replace the patch file. What was there before stays until the new one is whole.

use std::path::{Path, PathBuf};

use super::start::Start;
use super::store::{Agent, Slot, Store, free};
use super::{PatchError, Recorded, STEP};
use crate::control::Control;
use crate::diff::{count, diff};
use crate::files::as_path;
use crate::files::lock::{Hold, lock};
use crate::git::gather::gather;
use crate::git::identity::Identity;
use crate::git::quarantine::Quarantine;
use crate::git::repository::Repo;
use crate::git::tree::hash_blob;
use crate::git::{GitError, Oid, show};
use crate::snapshot::{NotFolded, Setting, snapshot_midway};

pub(super) fn record(agent: &Agent, worktree: &Path, control: &Control) -> Result<Recorded, PatchError> {
    let repo = Repo::containing(worktree)?;
    if repo.git_dir() == repo.common_dir() {
        return Err(PatchError::Failed(format!(
            "{} is the main checkout; a patch is recorded from a linked worktree",
            show(repo.work_dir())
        )));
    }
    // Nobody takes the worktree away meanwhile.
    let held = lock(repo.git_dir(), Hold::Shared, Some(STEP), control)?;
    let _held = held.ok_or_else(|| {
        PatchError::Failed(format!("another isofold is at work in {}; try again", show(repo.work_dir())))
    })?;
    let slot = Store::of(&repo)?.take(agent, control)?;
    let known = slot.base()?;
    let start = Start::of(&repo, known)?;
    let quarantine = Quarantine::new(&repo)?;
    let base = start.commit(&quarantine)?;
    let taken =
        snapshot_midway(repo.place(), &Setting::of(&repo)?, &start.rules(), &quarantine.store(), &control.step(STEP))?;
    let recorded = |files, written| Recorded {
        agent: agent.name().to_owned(),
        patch: slot.patch_file(),
        base: base.to_string(),
        files,
        written,
        not_recorded: taken.not_folded.iter().map(unseen).collect(),
    };
    if known == Some(base)
        && let Some(patch) = still_true(&repo, agent, &slot, taken.tree)?
    {
        return Ok(recorded(count(&patch), false));
    }
    let base_tree = quarantine.tree_of(base)?;
    let patch = diff(&quarantine, &repo.git(), base_tree, taken.tree, &control.step(STEP))?;
    let kept = keep(&quarantine, agent, base, taken.tree, &patch.bytes)?;
    control.check().map_err(GitError::from)?;
    // From here on to the end: objects, what keeps them, the base, and last of all the patch.
    quarantine.release()?;
    free(&repo, &agent.kept_by())?;
    repo.set_hidden_ref(&agent.kept_by(), kept)?;
    if known != Some(base) {
        slot.write_base(base)?;
    }
    slot.write_patch(&patch.bytes)?;
    gather(&repo);
    Ok(recorded(patch.files, true))
}

/// Records the work from the commit `base` to a tree, in place of whatever patch `agent` had; returns
/// the patch file.
pub(crate) fn record_trees(
    repo: &Repo,
    quarantine: &Quarantine,
    agent: &Agent,
    (base, tree): (Oid, Oid),
    control: &Control,
) -> Result<PathBuf, PatchError> {
    let slot = Store::of(repo)?.take(agent, control)?;
    let patch = diff(quarantine, &repo.git(), quarantine.tree_of(base)?, tree, control)?;
    let kept = keep(quarantine, agent, base, tree, &patch.bytes)?;
    quarantine.release()?;
    free(repo, &agent.kept_by())?;
    repo.set_hidden_ref(&agent.kept_by(), kept)?;
    slot.write_base(base)?;
    slot.write_patch(&patch.bytes)?;
    Ok(slot.patch_file())
}

/// The patch, if it is that of this very tree.
fn still_true(repo: &Repo, agent: &Agent, slot: &Slot, tree: Oid) -> Result<Option<Vec<u8>>, GitError> {
    let Some(kept) = repo.ref_id(&agent.kept_by())? else { return Ok(None) };
    let Some((known, message)) = repo.commit_text(kept)? else { return Ok(None) };
    if known != tree {
        return Ok(None);
    }
    let Some(patch) = slot.patch()? else { return Ok(None) };
    let seal = seal(&patch)?;
    Ok(message.lines().any(|line| line == seal).then_some(patch))
}

/// The commit that keeps what the patch needs: the snapshot, on top of the base.
pub(super) fn keep(
    quarantine: &Quarantine,
    agent: &Agent,
    base: Oid,
    tree: Oid,
    patch: &[u8],
) -> Result<Oid, GitError> {
    let who = Identity::of_isofold()?;
    let message = format!("isofold: the patch of {}\n\n{}", agent.name(), seal(patch)?);
    quarantine.commit(tree, &[base], &message, &who.author, &who.committer)
}

/// Says which bytes of a patch a commit belongs to.
fn seal(patch: &[u8]) -> Result<String, GitError> {
    Ok(format!("patch {}", hash_blob(patch)?))
}

fn unseen(not: &NotFolded) -> (std::path::PathBuf, &'static str) {
    (as_path(&not.path).to_owned(), not.why)
}
