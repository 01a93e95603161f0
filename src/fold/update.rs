//! Update: the Parent's work into the Child's files, so that a conflict can be settled there.
//!
//! The Parent's snapshot is merged into the Child's working files; the Child's index and HEAD stay, and
//! the Parent is only read. That snapshot becomes the base entry of the pair: what the Child holds beyond
//! it is what the next fold brings.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::child::ChildSide;
use super::phases::Phases;
use super::sides::{Held, both, check_parent, lock_both, note_aftermath, note_snapshots};
use super::{FoldError, FoldNotes, FoldOutcome, FoldRequest, Integration, KEPT_BASES, Landing, check, land};
use crate::combine::markers::{Labels, with_markers};
use crate::combine::{self, Combined, Conflict, MergeEngine, Side, bases};
use crate::control::{Control, Stage};
use crate::files::fill::to_path;
use crate::files::lock::Hold;
use crate::git::identity::Identity;
use crate::git::quarantine::Quarantine;
use crate::git::repository::{Head, Repo};
use crate::git::tree::{Change, MODE_GITLINK, Objects};
use crate::git::{GitError, Oid, show};
use crate::invocation::Places;
use crate::options::{Excludes, IsolationOptions};
use crate::records::{self, BaseEntry, ChildRecord};
use crate::snapshot::Snapshot;
use crate::write::WriteError;
use crate::write::writer::{Along, Scope, Writer};

/// The message of the hidden commit that is the base from then on.
const SUBJECT: &str = "isofold: the Parent's files as an update brought them";

/// What to bring where.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct UpdateRequest {
    /// Names the work in reports and markers.
    pub id: String,
    /// The directory that holds the work: absolute, the root of a work tree. It is only read.
    pub parent: PathBuf,
    /// The directory that is brought up to date: absolute, a work tree of the same repository.
    pub child: PathBuf,
    /// Where both changed the same: leave conflict markers in the Child's files.
    pub markers: bool,
}

impl UpdateRequest {
    /// An update that writes nothing where both changed the same.
    pub fn new(id: impl Into<String>, parent: impl Into<PathBuf>, child: impl Into<PathBuf>) -> Self {
        Self { id: id.into(), parent: parent.into(), child: child.into(), markers: false }
    }

    /// The fold whose checks are those of the update.
    fn as_fold(&self) -> FoldRequest {
        FoldRequest::new(self.id.clone(), self.parent.clone(), self.child.clone())
    }
}

/// The checks of the contract, in its order.
pub(crate) fn check_update(
    request: &UpdateRequest,
    options: impl FnOnce(&Path) -> Result<IsolationOptions, String>,
) -> Result<(Places, IsolationOptions), String> {
    check(&request.as_fold(), options)
}

/// Updates. `options` is asked after the paths were checked.
pub(crate) fn update(
    request: &UpdateRequest,
    options: impl FnOnce(&Path) -> Result<IsolationOptions, String>,
    control: &Control,
) -> FoldOutcome {
    let (places, options) = match check_update(request, options) {
        Ok(checked) => checked,
        Err(why) => return FoldOutcome::InvalidInvocation(why),
    };
    let started = Instant::now();
    let mut notes = FoldNotes::default();
    let mut phases = Phases::start();
    let result = run(request, &places, &options, &mut notes, &mut phases, control);
    notes.phases_ms = phases.spent();
    notes.elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    match result {
        Ok(Updated { landing, head, files, conflicts }) if conflicts.is_empty() => {
            FoldOutcome::Integrated(Box::new(Integration {
                parent: request.parent.clone(),
                landing,
                head: head.map(|id| id.to_string()),
                commits: Vec::new(),
                files,
                notes,
            }))
        }
        Ok(Updated { files, conflicts, .. }) => {
            notes.marked = files;
            let report = format!(
                "{}: both sides changed {}; conflict markers were left in the Child's files: settle them there and fold again",
                request.id,
                combine::named(&conflicts)
            );
            FoldOutcome::Conflict { report, conflicts, notes: Box::new(notes) }
        }
        Err(FoldError::Write(WriteError::Conflicts(conflicts))) => {
            let way = if request.markers {
                "Settle that in the Child and update again."
            } else {
                "isofold update --markers leaves conflict markers in the Child's files, to be settled there."
            };
            let report = format!(
                "{}: the Child can't take the Parent's work as it is: {}; nothing was changed. {way}",
                request.id,
                combine::named(&conflicts)
            );
            FoldOutcome::Conflict { report, conflicts, notes: Box::new(notes) }
        }
        Err(error) => error.outcome("update"),
    }
}

/// What an update that ran to its end did.
struct Updated {
    landing: Landing,
    /// The Child's HEAD, which stays.
    head: Option<Oid>,
    /// Paths that changed in the Child.
    files: Vec<PathBuf>,
    /// What markers were left for.
    conflicts: Vec<Conflict>,
}

fn run(
    request: &UpdateRequest,
    places: &Places,
    options: &IsolationOptions,
    notes: &mut FoldNotes,
    phases: &mut Phases,
    control: &Control,
) -> Result<Updated, FoldError> {
    let repo = Repo::open(&places.parent)?;
    let child = ChildSide::open(&repo, &places.child)?;
    let sides = [
        Held { repo: &repo, place: &places.parent, hold: Hold::Shared },
        Held { repo: &child.repo, place: &places.child, hold: Hold::Exclusive },
    ];
    let _locks = lock_both(sides, false, notes, control)?;
    let record = ChildRecord::read(child.repo.git_dir())?;
    check_parent(&repo, &request.as_fold(), record.as_ref(), places)?;
    if let Some(operation) = child.repo.operation() {
        return Err(FoldError::BusyChild { child: places.child.clone(), operation });
    }
    let (head, child_head) = (repo.head()?, child.repo.head()?);
    let entry = bases::choose(&repo, (&places.parent, &places.child), &head, &child_head)?;
    if entry.is_none()
        && let (Some(one), Some(two)) = (head.id, child_head.id)
        && repo.merge_bases(one, two)?.is_empty()
    {
        return Err(FoldError::Unrelated);
    }
    notes.base = entry.as_ref().map(|entry| entry.base.to_string());
    let quarantine = Quarantine::new(&repo)?;
    let recorded = record.as_ref().map(|r| Excludes::new(&r.exclude)).transpose();
    let recorded = recorded.map_err(|e| GitError::Format { what: format!("a record's exclude list ({e})") })?;
    let excludes = recorded.unwrap_or_else(|| options.excludes().clone());
    let made_from_here = record.as_ref().filter(|r| r.parent == places.parent && r.child == places.child);
    phases.end("lock");
    control.progress().enter(Stage::Snapshot);
    let (ours, theirs) = both(&repo, &child, &excludes, made_from_here, entry.as_ref(), &quarantine, control)?;
    note_snapshots(notes, &ours, &theirs, &excludes, made_from_here.is_some());
    phases.end("snapshot");
    control.progress().enter(Stage::Combining);
    let bases = bases::of(&repo, entry.as_ref(), &head, &child_head)?;
    // Into the Child: its files are the merge's own side.
    let into = Side { tree: theirs.tree, head: child_head.id };
    let from = Side { tree: ours.tree, head: head.id };
    let combined = combine::combine(&repo, &quarantine, &bases, into, from, MergeEngine::Auto, control)?;
    let (tree, conflicts) = match combined {
        Combined::Clean { tree, engine } => {
            notes.engine = Some(engine);
            (tree, Vec::new())
        }
        Combined::Conflict { conflicts, engine } => {
            notes.engine = Some(engine);
            if !request.markers {
                return Err(WriteError::Conflicts(turned(conflicts)).into());
            }
            let labels = Labels { ours: "child", theirs: "parent" };
            let marked = with_markers(&repo, &quarantine, &bases, into, from, &labels, control)?;
            (marked.tree, turned(marked.conflicts))
        }
    };
    phases.end("combine");
    let changes = quarantine.changes(theirs.tree, tree)?;
    let pointers = pointers(&changes);
    if !pointers.is_empty() {
        return Err(WriteError::Conflicts(pointers).into());
    }
    let files: Vec<PathBuf> = changes.iter().map(|change| to_path(&change.path)).collect();
    let landing = if changes.is_empty() { Landing::Nothing } else { Landing::Update };
    let next = next_entry(&repo, &quarantine, places, (&head, &child_head), &ours, entry.as_ref())?;
    if changes.is_empty() && entry.as_ref().is_some_and(|entry| entry.tree == next.tree && entry.anchor == next.anchor)
    {
        return Ok(Updated { landing, head: child_head.id, files, conflicts });
    }
    control.progress().enter(Stage::Writing);
    let mut writer = Writer::begin(&child.repo, Scope::Files, control)?;
    let ground = land::Ground::new(&child.repo, &theirs)?;
    let plan = ground.plan(&changes, control)?;
    phases.end("plan");
    ground.stage(&mut writer, &plan, &quarantine, control)?;
    phases.end("stage");
    quarantine.release()?;
    writer.keep_alive(head.id, next.base)?;
    phases.end("objects");
    let along = Along { base: Some(&next), ..Along::default() };
    let result = writer.apply(&plan, &theirs.index, along, control).and_then(|()| {
        let forget = || records::forget_oldest(&repo, &next.pair[0], &next.pair[1], KEPT_BASES);
        writer.commit(forget, control)
    });
    phases.note("sync", writer.synced_ms());
    match result {
        Ok(after) => note_aftermath(notes, after),
        Err(error) => {
            note_aftermath(notes, writer.abort()?);
            return Err(error.into());
        }
    }
    phases.end("finish");
    Ok(Updated { landing, head: child_head.id, files, conflicts })
}

/// The merge's own side was the Child: what it calls ours is the Child's.
fn turned(conflicts: Vec<Conflict>) -> Vec<Conflict> {
    let turn = |mut conflict: Conflict| {
        std::mem::swap(&mut conflict.ours, &mut conflict.theirs);
        conflict
    };
    conflicts.into_iter().map(turn).collect()
}

/// Pointers of submodules that would have to move: files can't say that, and the Child's index stays.
fn pointers(changes: &[Change]) -> Vec<Conflict> {
    let link = |item: &Option<crate::git::tree::Item>| item.is_some_and(|item| item.mode == MODE_GITLINK);
    let moved = changes.iter().filter(|change| link(&change.old) || link(&change.new));
    let why = "the Parent moved this submodule; bring the Child's to the same commit, then update again";
    moved.map(|change| Conflict::new(show(to_path(&change.path)), "submodule", why)).collect()
}

/// The Parent's snapshot as the base of the pair.
fn next_entry(
    repo: &Repo,
    quarantine: &Quarantine,
    places: &Places,
    (head, child_head): (&Head, &Head),
    ours: &Snapshot,
    entry: Option<&BaseEntry>,
) -> Result<BaseEntry, FoldError> {
    let base = match head.id {
        Some(id) if repo.tree_of(id)? == ours.tree => id,
        parent => {
            let who = Identity::of_isofold()?;
            let parents: Vec<Oid> = parent.into_iter().collect();
            quarantine.commit(ours.tree, &parents, SUBJECT, &who.author, &who.committer)?
        }
    };
    // What the Child holds untracked because it was brought, now or before.
    let mut untracked = ours.untracked();
    untracked.extend(entry.map(|entry| entry.untracked.clone()).unwrap_or_default());
    untracked.sort();
    untracked.dedup();
    Ok(BaseEntry {
        pair: [places.parent.clone(), places.child.clone()],
        base,
        tree: ours.tree,
        anchor: head.id,
        child_head: child_head.id,
        branch: child_head.branch.clone(),
        untracked,
        sequence: BaseEntry::next_sequence(repo)?,
    })
}
