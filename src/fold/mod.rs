//! Fold: snapshot both sides, combine them, write the result to the Parent.
//!
//! Until [`land`] nothing of the Parent is written; until HEAD moves everything can be taken back.

pub(crate) mod child;
pub(crate) mod foreign;
mod history;
pub(crate) mod land;
mod phases;
mod pointers;
pub(crate) mod update;

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::combine::{self, Combined, Conflict, MergeEngine, Side, bases};
use crate::control::{Control, Stage, Stop};
use crate::files::FilesError;
use crate::files::fill::to_path;
use crate::files::lock::{Hold, Lock};
use crate::git::lock_files::{self, lock_of};
use crate::git::quarantine::Quarantine;
use crate::git::repository::{Head, OpenError, Repo};
use crate::git::tree::Objects;
use crate::git::{GitError, Oid, show};
use crate::invocation::{self, Places};
use crate::options::{Excludes, IsolationOptions, OPTIONS_FILE};
use crate::records::{BaseEntry, ChildRecord};
use crate::snapshot::{Rules, Setting, Snapshot, SnapshotError, snapshot};
use crate::write::WriteError;
use crate::write::recover::{self as recovery, Aftermath, Recovered, Verdict};
use crate::write::writer::{Scope, Writer};

use child::ChildSide;
use phases::Phases;

/// How many base entries of one pair are kept.
const KEPT_BASES: usize = 50;

/// What to fold into what. Made by [`FoldRequest::new`]; the other fields are set afterwards.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FoldRequest {
    /// Names the work in subjects and reflogs.
    pub id: String,
    /// The directory that receives the work: absolute, the root of a work tree.
    pub parent: PathBuf,
    /// The directory that holds it: absolute, another work tree of the same repository.
    pub child: PathBuf,
    /// Subject of the commit of the Child's loose work; default `Integration of ID`.
    pub subject: Option<String>,
    /// Subject of a merge commit; default `Integration of ID`.
    pub merge_subject: Option<String>,
    /// Fold into whatever branch the Parent is on, even if it was another at isolate.
    pub onto_current: bool,
    /// Let the Child be a clone of its own; its objects are fetched, its configuration is never read.
    pub foreign_child: bool,
    /// Say what would happen and write nothing to the Parent.
    pub dry_run: bool,
    /// What merges.
    pub merge_engine: MergeEngine,
}

impl FoldRequest {
    /// A fold with the default subjects.
    pub fn new(id: impl Into<String>, parent: impl Into<PathBuf>, child: impl Into<PathBuf>) -> Self {
        Self {
            id: id.into(),
            parent: parent.into(),
            child: child.into(),
            subject: None,
            merge_subject: None,
            onto_current: false,
            foreign_child: false,
            dry_run: false,
            merge_engine: MergeEngine::Auto,
        }
    }
}

/// How the Parent's history moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Landing {
    /// There was nothing to fold.
    Nothing,
    /// The Parent's branch moved forward to the Child's work.
    FastForward,
    /// A merge commit joins both.
    Merge,
    /// Of an update: the Child's files have the Parent's work; no history moved.
    Update,
}

/// A finished fold.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Integration {
    /// The Parent as it was asked for.
    pub parent: PathBuf,
    /// How its history moved (or would, in a dry run).
    pub landing: Landing,
    /// The Parent's HEAD afterwards; `None` while it is unborn. In a dry run, HEAD as it is.
    pub head: Option<String>,
    /// The commits that the fold made, oldest first.
    pub commits: Vec<String>,
    /// Paths that changed in the Parent.
    pub files: Vec<PathBuf>,
    /// What else there is to know.
    pub notes: FoldNotes,
}

/// What a fold noticed, whatever its outcome.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct FoldNotes {
    /// The base entry that counted; `None`: history alone.
    pub base: Option<String>,
    /// Which engine merged: `trivial`, `git`, `libgit2`.
    pub engine: Option<&'static str>,
    /// Untracked Parent paths, and Child paths, that the exclude list kept out.
    pub left_out: Vec<PathBuf>,
    /// New paths of the Child that are folded although the exclude list names them.
    pub excluded_but_folded: Vec<PathBuf>,
    /// What a snapshot can't see, with the reason.
    pub not_folded: Vec<(PathBuf, &'static str)>,
    /// Refs that keep what somebody wrote to a file while it was being replaced.
    pub saved: Vec<String>,
    /// What failed after the work had landed, each with the way on.
    pub warnings: Vec<String>,
    /// Of an update with markers: files of the Child that changed, some of them with conflict markers.
    pub marked: Vec<PathBuf>,
    /// Whether the fold changes `isolationOptions.toml`.
    pub options_changed: bool,
    /// How long each phase took, in milliseconds, in their order: `lock`, `snapshot`, `combine`, `plan`,
    /// `stage`, `objects`, `swap`, `finish`, as far as it came; `sync` is what `lock`, `stage`, `swap`
    /// and `finish` spent on waiting for the disk.
    pub phases_ms: Vec<(&'static str, u64)>,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
}

/// What became of a fold.
#[derive(Debug, Clone)]
pub enum FoldOutcome {
    /// The Parent holds the work.
    Integrated(Box<Integration>),
    /// A person has to choose; the Parent is what it was.
    Conflict {
        /// In one line, with the way on.
        report: String,
        /// Each path.
        conflicts: Vec<Conflict>,
        /// What else there is to know.
        notes: Box<FoldNotes>,
    },
    /// The Parent is what it was; the text says why, in one line.
    Failed(String),
    /// It was asked to stop; the Parent is what it was.
    Interrupted(String),
    /// The request can't be carried out by anybody.
    InvalidInvocation(String),
}

/// Why a fold failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FoldError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Files(#[from] FilesError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("the Parent {} is in the middle of {operation}; finish or abort it first", show(parent))]
    Busy { parent: PathBuf, operation: &'static str },
    #[error("an earlier fold into {} was cut off; isofold recover settles it", show(.0))]
    CutOff(PathBuf),
    #[error(
        "the Parent's branch {branch} is checked out at {} too; a fold would pull it from under that one",
        show(place)
    )]
    BranchElsewhere { branch: String, place: PathBuf },
    #[error(
        "the Parent is on {now}, but was on {then} when the Child was isolated; switch back, or fold with --onto-current"
    )]
    OtherBranch { now: String, then: String },
    #[error("the Child {} is no worktree registered in the Parent's repository ({why})", show(child))]
    NotRegistered { child: PathBuf, why: String },
    #[error("the Child {} is in the middle of {operation}; finish or abort it first", show(child))]
    BusyChild { child: PathBuf, operation: &'static str },
    #[error("the clone {} can't be read: {why}", show(child))]
    Foreign { child: PathBuf, why: String },
    #[error("the Child {} is not complete: an isolation or removal of it did not finish; isolate again", show(.0))]
    Incomplete(PathBuf),
    #[error(
        "Parent and Child have no commit in common, and no isolation joins them; merge by hand with git merge --allow-unrelated-histories"
    )]
    Unrelated,
    #[error(
        "{} came into the Child past the exclude list and stays out of every fold, but {} holds it; take it out of there first",
        show(path),
        place
    )]
    Included { path: PathBuf, place: String },
    #[error("git knows no identity for the commit ({0}); set user.name and user.email")]
    NoIdentity(String),
}

impl FoldError {
    pub(crate) fn stop(&self) -> Option<Stop> {
        match self {
            Self::Git(error) => error.stop(),
            Self::Files(error) => error.stop(),
            Self::Snapshot(error) => error.stop(),
            Self::Write(error) => error.stop(),
            _ => None,
        }
    }
}

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
        Err(error) => match (error.stop(), error) {
            (Some(Stop::Clock), _) => FoldOutcome::Failed("The Integration clock fired.".to_owned()),
            (Some(Stop::Interrupt), _) => FoldOutcome::Interrupted("The fold was interrupted.".to_owned()),
            (None, error) => FoldOutcome::Failed(error.to_string()),
        },
    }
}

/// One line: the paths and the way on.
fn conflict_report(request: &FoldRequest, conflicts: &[Conflict]) -> String {
    let mut named: Vec<String> = conflicts.iter().take(5).map(Conflict::in_short).collect();
    if conflicts.len() > named.len() {
        named.push(format!("and {} more", conflicts.len() - named.len()));
    }
    let needs_git = conflicts.iter().any(|c| c.kind == combine::builtin::NEEDS_GIT);
    let git = if needs_git { " With a git 2.38 or newer on PATH it may fold as it is." } else { "" };
    format!(
        "{} can't be folded: {}; nothing was changed.{git} Bring the Parent's work into the Child with isofold update, settle it there, and fold again.",
        request.id,
        named.join(", ")
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
    let _locks = lock_both(&repo, &child.repo, places, request.dry_run, notes, control)?;
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
    let ground = land::Ground::new(&repo, &ours)?;
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
    Ok(Done { landing, head: Some(landed.head), commits: landed.commits, files })
}

fn note_aftermath(notes: &mut FoldNotes, after: Aftermath) {
    notes.saved.extend(after.saved);
    notes.warnings.extend(after.warnings);
    let kept = after
        .kept
        .iter()
        .map(|path| format!("{} holds what somebody wrote to it meanwhile, not what the fold wants there", show(path)));
    notes.warnings.extend(kept);
}

/// Both locks, in the order of the git directories, so that no two folds wait for each other. What a
/// fold that was cut off left on either side is settled first.
fn lock_both(
    parent: &Repo,
    child: &Repo,
    places: &Places,
    dry_run: bool,
    notes: &mut FoldNotes,
    control: &Control,
) -> Result<Vec<Lock>, FoldError> {
    let parent_hold = if dry_run { Hold::Shared } else { Hold::Exclusive };
    loop {
        for (repo, place) in [(parent, &places.parent), (child, &places.child)] {
            if !dry_run && let Some(recovered) = recovery::first(repo, control)? {
                note_recovered(notes, place, recovered);
            }
        }
        let mut wanted = [(parent.git_dir(), parent_hold), (child.git_dir(), Hold::Shared)];
        wanted.sort_by_key(|(directory, _)| directory.to_owned());
        let mut held = Vec::new();
        for (directory, hold) in wanted {
            held.push(recovery::held(directory, hold, control)?);
        }
        // Nobody is at work in either now: what is there was cut off while we waited.
        let due = [(parent, &places.parent), (child, &places.child)];
        match due.into_iter().find(|(repo, _)| recovery::is_due(repo.git_dir())) {
            None => return Ok(held),
            Some((_, place)) if dry_run => return Err(FoldError::CutOff(place.clone())),
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
fn check_parent(
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
fn both(
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
    let parent_rules = Rules { leave_out: Some(excludes), ..Rules::default() };
    // What a session let in past the exclude list is no work.
    let omit = made_from_here.map(|record| record.included.as_slice()).unwrap_or_default();
    let child_rules = Rules { leave_out: made_from_here.is_none().then_some(excludes), keep: &keep, omit };
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
fn nothing_included(
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

fn note_snapshots(notes: &mut FoldNotes, ours: &Snapshot, theirs: &Snapshot, excludes: &Excludes, isolated_here: bool) {
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
