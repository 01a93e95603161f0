//! Fold: snapshot both sides, combine them, write the result to the Parent.
//!
//! Until [`land`] nothing of the Parent is written; until HEAD moves everything can be taken back.

pub(crate) mod child;
pub(crate) mod foreign;
mod history;
pub(crate) mod land;
mod outcome;
mod phases;
mod pointers;
pub(crate) mod sides;
pub(crate) mod update;

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::combine::{self, Combined, Conflict, Side, bases};
use crate::control::{Control, Stage};
use crate::files::fill::to_path;
use crate::files::lock::Hold;
use crate::git::gather::gather;
use crate::git::lock_files::{self, lock_of};
use crate::git::quarantine::Quarantine;
use crate::git::repository::{Head, Repo};
use crate::git::tree::Objects;
use crate::git::{GitError, Oid};
use crate::invocation::{self, Places};
use crate::options::{Excludes, IsolationOptions, OPTIONS_FILE};
use crate::records::{BaseEntry, ChildRecord};
use crate::snapshot::Snapshot;
use crate::write::WriteError;
use crate::write::recover::Aftermath;
use crate::write::writer::{Scope, Writer};

pub(crate) use outcome::FoldError;
pub use outcome::{FoldNotes, FoldOutcome, FoldRequest, Integration, Landing};

use child::ChildSide;
use phases::Phases;
use sides::{Held, both, check_parent, lock_both, note_aftermath, note_snapshots, nothing_included};

/// How many base entries of one pair are kept.
const KEPT_BASES: usize = 50;

/// The checks of the contract, in its order.
pub(crate) fn check(
    request: &FoldRequest,
    options: impl FnOnce(&Path) -> Result<IsolationOptions, String>,
) -> Result<(Places, IsolationOptions), String> {
    if request.id.is_empty() {
        return Err("--id is missing or empty".to_owned());
    }
    let places = invocation::for_fold(&request.parent, &request.child)?;
    Repo::not_a_subdirectory(&places.parent)?;
    let options = options(&places.parent)?;
    Ok((places, options))
}

/// Folds. `options` is asked after the paths were checked.
pub(crate) fn fold(
    request: &FoldRequest,
    options: impl FnOnce(&Path) -> Result<IsolationOptions, String>,
    control: &Control,
) -> FoldOutcome {
    let (places, options) = match check(request, options) {
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
        Ok(Done { landing, head, commits, files }) => FoldOutcome::Integrated(Box::new(Integration {
            parent: request.parent.clone(),
            landing,
            head: head.map(|id| id.to_string()),
            commits: commits.iter().map(ToString::to_string).collect(),
            files,
            notes,
        })),
        Err(FoldError::Write(WriteError::Conflicts(conflicts))) => {
            let report = conflict_report(request, &conflicts);
            FoldOutcome::Conflict { report, conflicts, notes: Box::new(notes) }
        }
        Err(error) => error.outcome("fold"),
    }
}

/// One line: the paths and the way on.
fn conflict_report(request: &FoldRequest, conflicts: &[Conflict]) -> String {
    let needs_git = conflicts.iter().any(|c| c.kind == combine::builtin::NEEDS_GIT);
    let git = if needs_git { " With a git 2.38 or newer on PATH it may fold as it is." } else { "" };
    format!(
        "{} can't be folded: {}; nothing was changed.{git} Bring the Parent's work into the Child with isofold update, settle it there, and fold again.",
        request.id,
        combine::named(conflicts)
    )
}

/// What a fold that ran to its end did.
struct Done {
    landing: Landing,
    head: Option<Oid>,
    commits: Vec<Oid>,
    files: Vec<PathBuf>,
}

fn run(
    request: &FoldRequest,
    places: &Places,
    options: &IsolationOptions,
    notes: &mut FoldNotes,
    phases: &mut Phases,
    control: &Control,
) -> Result<Done, FoldError> {
    let repo = Repo::open(&places.parent)?;
    let child = ChildSide::open_for(&repo, &places.child, request.foreign_child, control)?;
    let hold = if request.dry_run { Hold::Shared } else { Hold::Exclusive };
    let sides = [
        Held { repo: &repo, place: &places.parent, hold },
        Held { repo: &child.repo, place: &places.child, hold: Hold::Shared },
    ];
    let _locks = lock_both(sides, request.dry_run, notes, control)?;
    // Whoever held the Parent before us may have changed everything: look only now.
    let record = ChildRecord::read(child.repo.git_dir())?;
    check_parent(&repo, request, record.as_ref(), places)?;
    let writer = if request.dry_run {
        let index = lock_of(&repo.place().index_path());
        lock_files::check(repo.head_locks(&repo.head()?).into_iter().chain([index]))?;
        None
    } else {
        Some(Writer::begin(&repo, Scope::Head, control)?)
    };
    let head = match &writer {
        Some(writer) => writer.head().clone(),
        None => repo.head()?,
    };
    let child_head = child.repo.head()?;
    let entry = bases::choose(&repo, (&places.parent, &places.child), &head, &child_head)?;
    if entry.is_none() {
        let related = match (head.id, child_head.id) {
            (Some(one), Some(two)) => !repo.merge_bases(one, two)?.is_empty(),
            // Into a repository without commits anything can be folded.
            (None, _) | (_, None) => true,
        };
        if !related {
            return Err(FoldError::Unrelated);
        }
    }
    notes.base = entry.as_ref().map(|entry| entry.base.to_string());
    let quarantine = Quarantine::new(&repo)?;
    let recorded = record.as_ref().map(|r| Excludes::new(&r.exclude)).transpose();
    let recorded = recorded.map_err(|e| GitError::Format { what: format!("a record's exclude list ({e})") })?;
    let excludes = recorded.unwrap_or_else(|| options.excludes().clone());
    let made_from_here = record.as_ref().filter(|r| r.parent == places.parent && r.child == places.child);
    let isolated_here = made_from_here.is_some();
    phases.end("lock");
    control.progress().enter(Stage::Snapshot);
    let (ours, theirs) = both(&repo, &child, &excludes, made_from_here, entry.as_ref(), &quarantine, control)?;
    if let Some(record) = record.as_ref().filter(|record| !record.included.is_empty()) {
        nothing_included(&repo, record, entry.as_ref(), &child_head, &theirs)?;
    }
    note_snapshots(notes, &ours, &theirs, &excludes, isolated_here);

    phases.end("snapshot");
    control.progress().enter(Stage::Combining);
    let combined = combine::combine(
        &repo,
        &quarantine,
        &bases::of(&repo, entry.as_ref(), &head, &child_head)?,
        Side { tree: ours.tree, head: head.id },
        Side { tree: theirs.tree, head: child_head.id },
        request.merge_engine,
        control,
    )?;
    phases.end("combine");
    let (tree, engine) = match combined {
        Combined::Clean { tree, engine } => (tree, engine),
        Combined::Conflict { conflicts, engine } => {
            notes.engine = Some(engine);
            return Err(WriteError::Conflicts(conflicts).into());
        }
    };
    notes.engine = Some(engine);
    let nothing = Done { landing: Landing::Nothing, head: head.id, commits: Vec::new(), files: Vec::new() };
    if tree == ours.tree {
        return Ok(nothing);
    }
    let changes = quarantine.changes(ours.tree, tree)?;
    notes.options_changed = changes.iter().any(|c| c.path == OPTIONS_FILE.as_bytes());
    let files: Vec<PathBuf> = changes.iter().map(|change| to_path(&change.path)).collect();
    let pointers = pointers::plan(&repo, &child, head.id, child_head.id, &changes)?;
    let ground = land::Ground::new(&repo, &ours)?.sparse()?;
    let plan = ground.plan(&changes, control)?;
    let graph = history::Graph {
        repo: &repo,
        quarantine: &quarantine,
        entry: entry.as_ref(),
        parent: history::Tip { head: head.id, tree: ours.tree },
        child: history::Tip { head: child_head.id, tree: theirs.tree },
        result: tree,
    };
    let planned = graph.plan(request.merge_engine, control)?;
    let who = planned.who(&repo, control)?;
    let Some(writer) = writer else {
        return Ok(Done { landing: planned.landing(), files, ..nothing });
    };
    control.progress().enter(Stage::Writing);
    phases.end("plan");
    let landed = graph.make(&planned, request, who)?;
    let landing = planned.landing();
    let new_entry = next_entry(&repo, places, &child_head, entry.as_ref(), &theirs, &landed)?;
    let writing = land::Landing {
        ground: &ground,
        plan: &plan,
        quarantine: &quarantine,
        pointers,
        parent: head.id,
        landed: &landed,
        entry: &new_entry,
    };
    let mut after = Aftermath::default();
    let result = writing.land(writer, request, &mut after, phases, control);
    note_aftermath(notes, after);
    result?;
    gather(&repo);
    Ok(Done { landing, head: Some(landed.head), commits: landed.commits, files })
}

/// The base entry that follows from a fold: the Child's folded snapshot, and the commit that landed.
fn next_entry(
    repo: &Repo,
    places: &Places,
    child_head: &Head,
    entry: Option<&BaseEntry>,
    theirs: &Snapshot,
    landed: &history::Landed,
) -> Result<BaseEntry, FoldError> {
    // What was in the Child's index once stays a path that was tracked.
    let mut untracked = theirs.untracked();
    if let Some(entry) = entry {
        untracked.retain(|path| {
            let known = entry.untracked.contains(path);
            known || repo.item_at(entry.tree, path).is_ok_and(|item| item.is_none())
        });
    }
    Ok(BaseEntry {
        pair: [places.parent.clone(), places.child.clone()],
        base: landed.child_tip,
        tree: theirs.tree,
        anchor: Some(landed.head),
        child_head: child_head.id,
        branch: child_head.branch.clone(),
        untracked,
        sequence: BaseEntry::next_sequence(repo)?,
    })
}
