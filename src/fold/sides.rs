//! The two sides of a fold or an update: locked, checked, snapshotted, and what is to be said of them.

use std::path::Path;

use super::child::ChildSide;
use super::outcome::{FoldError, FoldNotes, FoldRequest};
use crate::control::Control;
use crate::files::fill::to_path;
use crate::files::lock::{Hold, Lock};
use crate::files::queue::WORKERS;
use crate::git::quarantine::Quarantine;
use crate::git::repository::{Head, Repo};
use crate::git::show;
use crate::git::tree::Objects;
use crate::invocation::Places;
use crate::options::Excludes;
use crate::records::{BaseEntry, ChildRecord};
use crate::snapshot::{Rules, Setting, Snapshot, snapshot};
use crate::write::recover::{self as recovery, Aftermath, Recovered, Verdict};

pub(super) fn note_aftermath(notes: &mut FoldNotes, after: Aftermath) {
    notes.saved.extend(after.saved);
    notes.warnings.extend(after.warnings);
    let kept = after
        .kept
        .iter()
        .map(|path| format!("{} holds what somebody wrote to it meanwhile, not what the fold wants there", show(path)));
    notes.warnings.extend(kept);
}

/// One side of a job: its repository, its place for reports, and how it is held.
#[derive(Clone, Copy)]
pub(crate) struct Held<'a> {
    pub(crate) repo: &'a Repo,
    pub(crate) place: &'a Path,
    pub(crate) hold: Hold,
}

/// Both locks, in the order of the git directories, so that no two jobs wait for each other. What a
/// landing that was cut off left on either side is settled first; where nothing may be written
/// (`dry_run`) that is an error.
pub(crate) fn lock_both(
    sides: [Held<'_>; 2],
    dry_run: bool,
    notes: &mut FoldNotes,
    control: &Control,
) -> Result<Vec<Lock>, FoldError> {
    loop {
        for side in sides.iter().filter(|_| !dry_run) {
            if let Some(recovered) = recovery::first(side.repo, control)? {
                note_recovered(notes, side.place, recovered);
            }
        }
        let mut wanted = sides;
        wanted.sort_by_key(|side| side.repo.git_dir());
        let mut held = Vec::new();
        for side in wanted {
            held.push(recovery::held(side.repo.git_dir(), side.hold, control)?);
        }
        // Nobody is at work in either now: what is there was cut off while we waited.
        match sides.iter().find(|side| recovery::is_due(side.repo.git_dir())) {
            None => return Ok(held),
            Some(side) if dry_run => return Err(FoldError::CutOff(side.place.to_owned())),
            Some(_) => {}
        }
    }
}

fn note_recovered(notes: &mut FoldNotes, place: &Path, recovered: Recovered) {
    let done = match recovered.verdict {
        Verdict::Cleared => "what it had left was removed",
        Verdict::Finished => "it was finished",
        Verdict::TakenBack => "it was taken back",
    };
    notes.warnings.push(format!("an earlier fold into {} was cut off; {done}", show(place)));
    note_aftermath(notes, recovered.after);
}

/// Refuses a Parent that is in the middle of something or not where it was.
pub(super) fn check_parent(
    repo: &Repo,
    request: &FoldRequest,
    record: Option<&ChildRecord>,
    places: &Places,
) -> Result<(), FoldError> {
    if let Some(operation) = repo.operation() {
        return Err(FoldError::Busy { parent: places.parent.clone(), operation });
    }
    let head = repo.head()?;
    if let Some(branch) = &head.branch {
        let uses = crate::git::worktrees::uses_of(repo, branch)?;
        let elsewhere = uses.into_iter().find(|u| match &u.entry {
            Some(entry) => entry.admin != repo.git_dir(),
            None => repo.git_dir() != repo.common_dir(),
        });
        if let Some(found) = elsewhere.filter(|u| u.entry.as_ref().is_none_or(|e| !e.is_gone())) {
            return Err(FoldError::BranchElsewhere { branch: short(branch), place: found.place });
        }
    }
    let Some(record) = record.filter(|r| r.parent == places.parent && r.child == places.child) else {
        return Ok(());
    };
    if record.parent_branch != head.branch && !request.onto_current {
        let name = |branch: &Option<String>| branch.as_deref().map_or_else(|| "a detached HEAD".to_owned(), short);
        return Err(FoldError::OtherBranch { now: name(&head.branch), then: name(&record.parent_branch) });
    }
    Ok(())
}

fn short(branch: &str) -> String {
    branch.trim_start_matches("refs/heads/").to_owned()
}

/// The snapshots of both sides, taken side by side.
pub(super) fn both(
    repo: &Repo,
    child: &ChildSide,
    excludes: &Excludes,
    made_from_here: Option<&ChildRecord>,
    entry: Option<&BaseEntry>,
    quarantine: &Quarantine,
    control: &Control,
) -> Result<(Snapshot, Snapshot), FoldError> {
    let keep = match entry {
        Some(entry) if made_from_here.is_some() => child.never_tracked(repo, entry)?,
        _ => Vec::new(),
    };
    // Both at once: more threads than cores only wait for each other.
    let threads = Some(std::thread::available_parallelism().map_or(1, |cores| cores.get() / 2).clamp(1, WORKERS));
    let parent_rules = Rules { leave_out: Some(excludes), threads, ..Rules::default() };
    // What a session let in past the exclude list is no work.
    let omit = made_from_here.map(|record| record.included.as_slice()).unwrap_or_default();
    let child_rules = Rules { leave_out: made_from_here.is_none().then_some(excludes), keep: &keep, omit, threads };
    let store = quarantine.store();
    let (our_setting, their_setting) = (Setting::of(repo)?, Setting::of(&child.repo)?);
    let (parent_place, child_place) = (repo.place(), child.repo.place());
    std::thread::scope(|scope| {
        let theirs = scope.spawn(|| snapshot(child_place, &their_setting, &child_rules, None, &store, control));
        let ours = snapshot(parent_place, &our_setting, &parent_rules, None, &store, control)?;
        let theirs = theirs.join().expect("a snapshot does not panic")?;
        Ok((ours, theirs))
    })
}

/// Refuses to bring into history what a session was let in on past the exclude list.
pub(super) fn nothing_included(
    repo: &Repo,
    record: &ChildRecord,
    entry: Option<&BaseEntry>,
    child_head: &Head,
    theirs: &Snapshot,
) -> Result<(), FoldError> {
    let found = |path: &[u8], place: String| Err(FoldError::Included { path: to_path(path), place });
    let index = &theirs.index;
    let mut paths = index.entries().iter().map(|e| index.path(e));
    if let Some(path) = paths.find(|path| crate::snapshot::covered(&record.included, path)) {
        return found(path, "its index".to_owned());
    }
    for commit in repo.commits_between(entry.and_then(|entry| entry.child_head), child_head.id)? {
        for path in &record.included {
            if repo.item_at(repo.tree_of(commit)?, path)?.is_some() {
                return found(path, format!("its commit {}", &commit.to_string()[..10]));
            }
        }
    }
    Ok(())
}

pub(super) fn note_snapshots(
    notes: &mut FoldNotes,
    ours: &Snapshot,
    theirs: &Snapshot,
    excludes: &Excludes,
    isolated_here: bool,
) {
    notes.left_out = ours.left_out.iter().chain(&theirs.left_out).map(|p| to_path(p)).collect();
    notes.not_folded = theirs.not_folded.iter().map(|n| (to_path(&n.path), n.why)).collect();
    for unseen in &ours.not_folded {
        let path = to_path(&unseen.path);
        if !notes.not_folded.iter().any(|(known, _)| *known == path) {
            notes.not_folded.push((path, unseen.why));
        }
    }
    if isolated_here {
        let new = theirs.untracked();
        notes.excluded_but_folded =
            new.iter().map(|p| to_path(p)).filter(|path| excludes.covers(path, false)).collect();
    }
}
