//! Isolate: register a worktree, fill it from the Parent, record what both have in common.
//!
//! All or nothing: until the last step everything this made is taken back by [`undo::Undo`].

mod base;
mod branch;
pub(crate) mod checkout;
pub(crate) mod outside;
pub(crate) mod recover;
pub(crate) mod remove;
pub(crate) mod rescue;
mod select;
mod submodules;
mod undo;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::control::{Control, Stage, Stop};
use crate::files::fill;
use crate::files::lock::{Hold, Lock, lock};
use crate::files::{FilesError, as_path};
use crate::git::gather::gather;
use crate::git::index_file::{IndexFile, IndexStat};
use crate::git::repository::{Head, OpenError, Repo};
use crate::git::worktrees::{self, NewEntry};
use crate::git::{GitError, show};
use crate::invocation::{self, Places};
use crate::options::{Excludes, IsolationOptions};
use crate::records::{BaseEntry, ChildRecord, Durable, Made, Omitted, State};
use crate::snapshot::{PathRules, SnapshotError, covered};
use crate::write::{WriteError, recover as recovery};

use outside::PointsOutside;
use undo::Undo;

/// Untracked files over this many bytes (32 MiB) are not stored in the base snapshot.
pub(crate) const LARGEST_IN_BASE: u64 = 32 * 1024 * 1024;

/// What to isolate, and where. Made by [`IsolateRequest::new`] or [`IsolateRequest::detached`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct IsolateRequest {
    /// The id that the branch is named after; `None` makes a Child with a detached HEAD.
    pub id: Option<String>,
    /// With an `id`: no branch all the same.
    pub detach: bool,
    /// The directory that holds the work: absolute, the root of a work tree.
    pub parent: PathBuf,
    /// Where the Child comes: absolute, not there yet, not inside the Parent.
    pub child: PathBuf,
}

impl IsolateRequest {
    /// A Child on the branch of `id`.
    pub fn new(id: impl Into<String>, parent: impl Into<PathBuf>, child: impl Into<PathBuf>) -> Self {
        Self { id: Some(id.into()), detach: false, parent: parent.into(), child: child.into() }
    }

    /// A Child with a detached HEAD.
    pub fn detached(parent: impl Into<PathBuf>, child: impl Into<PathBuf>) -> Self {
        Self { id: None, detach: true, parent: parent.into(), child: child.into() }
    }
}

/// A finished isolation.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Isolation {
    /// The Child as it was asked for.
    pub child: PathBuf,
    /// The Child's branch, without `refs/heads/`; `None` where it is detached.
    pub branch: Option<String>,
    /// The commit that the Child's HEAD is at; `None` on an unborn branch.
    pub head: Option<String>,
    /// The commit whose tree is the Child as filled; HEAD itself where nothing was loose.
    pub base: String,
    /// Regular files that were filled in.
    pub files: u64,
    /// Symbolic links that were filled in.
    pub links: u64,
    /// Directories that were made.
    pub directories: u64,
    /// Bytes of the regular files.
    pub bytes: u64,
    /// Files whose content is shared with the Parent (reflink).
    pub cloned: u64,
    /// Files whose content was copied.
    pub copied: u64,
    /// Extended attributes of users (`user.*`) that could not be carried: the Child's file system
    /// would not take them.
    pub xattrs_refused: u64,
    /// Sockets, FIFOs and devices, relative to the Parent.
    pub skipped: Vec<PathBuf>,
    /// Untracked paths that the exclude list left out, relative to the Parent.
    pub left_out: Vec<PathBuf>,
    /// Files that went on changing while they were copied.
    pub unsteady: Vec<PathBuf>,
    /// Links and scripts that lead out of the Child: writing through them reaches the Parent or others.
    pub points_outside: PointsOutside,
    /// Untracked files over 32 MiB or closed to their owner, which are not in the base.
    pub base_omitted: Vec<PathBuf>,
    /// Refs under `refs/isofold/saved/` that keep commits which would have become unreachable; in a
    /// submodule's repository with the submodule's path and a colon before it.
    pub saved: Vec<String>,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
}

/// What became of an isolation.
#[derive(Debug, Clone)]
pub enum IsolateOutcome {
    /// The Child is there.
    Isolated(Box<Isolation>),
    /// Nothing was made; the text says why, in one line.
    Failed(String),
    /// It was asked to stop; nothing is left.
    Interrupted(String),
    /// The request can't be carried out by anybody.
    InvalidInvocation(String),
}

/// Why an isolation failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IsolateError {
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
    #[error("another isofold is at work in {} and did not finish in time", show(.0))]
    Busy(PathBuf),
    #[error("the branch {branch} is {how} at {}; finish there, or use another id", show(place))]
    BranchInUse { branch: String, how: &'static str, place: PathBuf },
    #[error("the branch {branch} can't be made because {other} exists; rename or delete that one")]
    RefInTheWay { branch: String, other: String },
    #[error("the branch {branch} exists, but the Parent has no commit yet that it could be moved to")]
    BranchBeforeCommit { branch: String },
    #[error("the Parent has no commit yet; a detached Child needs one")]
    DetachedUnborn,
    #[error("{} is registered as a locked worktree ({reason}); git worktree unlock it first", show(place))]
    Locked { place: PathBuf, reason: String },
    #[error("the Parent has unmerged entries in its index ({paths}); resolve them first")]
    Unmerged { paths: String },
    #[error(
        "the worktree registered at {} is gone, but its submodules hold commits that nothing else has ({held}), and the Parent has no copy of them that could take those; see {}",
        show(place),
        show(admin)
    )]
    HeldByGone { place: PathBuf, admin: PathBuf, held: String },
}

impl IsolateError {
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

/// The checks of the contract, in its order; a Parent that is only a subdirectory of a repository is
/// among them.
pub(crate) fn check(
    request: &IsolateRequest,
    options: impl FnOnce(&Path) -> Result<IsolationOptions, String>,
) -> Result<(Places, IsolationOptions), String> {
    if !request.detach && request.id.as_deref().unwrap_or_default().is_empty() {
        return Err("--id is missing or empty".to_owned());
    }
    if request.child.is_absolute() && request.child.symlink_metadata().is_ok() {
        recover::clear(&request.parent, &request.child);
    }
    let places = invocation::for_isolate(&request.parent, &request.child)?;
    Repo::not_a_subdirectory(&places.parent)?;
    let options = options(&places.parent)?;
    Ok((places, options))
}

/// Isolates. `options` is asked after the paths were checked: the Parent's own file needs one.
pub(crate) fn isolate(
    request: &IsolateRequest,
    options: impl FnOnce(&Path) -> Result<IsolationOptions, String>,
    control: &Control,
) -> IsolateOutcome {
    let (places, options) = match check(request, options) {
        Ok(checked) => checked,
        Err(why) => return IsolateOutcome::InvalidInvocation(why),
    };
    outcome(run(request, &places, &options, control))
}

fn outcome(ran: Result<Isolation, IsolateError>) -> IsolateOutcome {
    match ran {
        Ok(isolation) => IsolateOutcome::Isolated(Box::new(isolation)),
        Err(error) => match (error.stop(), error) {
            (Some(Stop::Clock), _) => IsolateOutcome::Failed("The Isolation clock fired.".to_owned()),
            (Some(Stop::Interrupt), _) => IsolateOutcome::Interrupted("The isolation was interrupted.".to_owned()),
            (None, error) => IsolateOutcome::Failed(error.to_string()),
        },
    }
}

fn run(
    request: &IsolateRequest,
    places: &Places,
    options: &IsolationOptions,
    control: &Control,
) -> Result<Isolation, IsolateError> {
    let branch = match &request.id {
        Some(id) if !request.detach => Some(format!("refs/heads/{}", crate::branch_name_of(id))),
        _ => None,
    };
    let wanted = Wanted { id: request.id.as_deref(), branch, excludes: options.excludes(), include: None };
    let isolation = make(&wanted, places, control)?;
    Ok(Isolation { child: request.child.clone(), ..isolation })
}

/// What is to be made, whoever asks.
pub(crate) struct Wanted<'a> {
    pub(crate) id: Option<&'a str>,
    /// The full name of the Child's branch; none for a detached HEAD.
    pub(crate) branch: Option<String>,
    pub(crate) excludes: &'a Excludes,
    /// What comes along although the exclude list names it; it stays out of every snapshot.
    pub(crate) include: Option<&'a PathRules>,
}

impl Wanted<'_> {
    fn short_branch(&self) -> Option<String> {
        self.branch.as_ref().map(|branch| branch.trim_start_matches("refs/heads/").to_owned())
    }
}

/// Registers the Child that is to be made, once its branch and its place are free.
fn enter(
    repo: &Repo,
    wanted: &Wanted<'_>,
    places: &Places,
    head: &Head,
    undo: &mut Undo<'_>,
    control: &Control,
) -> Result<(ChildRecord, Entry, branch::Taking), IsolateError> {
    let mut record = ChildRecord {
        id: wanted.id.map(str::to_owned),
        parent_branch: head.branch.clone(),
        branch: wanted.branch.clone(),
        exclude: wanted.excludes.patterns().to_vec(),
        ..ChildRecord::new(State::Making, &places.parent, &places.child)
    };
    let _registry = registry_lock(repo, undo, control)?;
    let going = branch::replaceable(repo, wanted.branch.as_deref(), &places.child)?;
    let old_tip = branch::check(repo, wanted.branch.as_deref(), head, &going)?;
    let entry = register(repo, &mut record, head, undo)?;
    let taking = branch::Taking { branch: wanted.branch.clone(), old_tip, going };
    Ok((record, entry, taking))
}

/// From this moment on the Child is there: until then the next command takes it for incomplete.
fn publish(admin: &Path, record: &mut ChildRecord) -> Result<(), IsolateError> {
    let locked = admin.join("locked");
    fs::remove_file(&locked).map_err(GitError::io("cannot remove", &locked))?;
    record.state = State::Ready;
    record.made = Made::default();
    Ok(record.write(admin)?)
}

/// Holds the Parent among other readers, once nothing is half done in it.
fn shared(repo: &Repo, control: &Control) -> Result<Lock, IsolateError> {
    loop {
        recovery::first(repo, control)?;
        let held = recovery::held(repo.git_dir(), Hold::Shared, control)?;
        // Cut off while we waited, or not.
        if !recovery::is_due(repo.git_dir()) {
            return Ok(held);
        }
    }
}

/// Makes the Child at a place that was checked.
pub(crate) fn make(wanted: &Wanted<'_>, places: &Places, control: &Control) -> Result<Isolation, IsolateError> {
    let started = Instant::now();
    let repo = Repo::open(&places.parent)?;
    let _parent = shared(&repo, control)?;
    recover::recover_children(&repo, control)?;
    let head = repo.head()?;
    let index = IndexFile::read(&repo.place().index_path())?;
    let unmerged = index.unmerged();
    if !unmerged.is_empty() {
        let paths: Vec<String> = unmerged.iter().take(5).map(|p| show(as_path(p))).collect();
        return Err(IsolateError::Unmerged { paths: paths.join(", ") });
    }
    let mut undo = Undo::new(&repo);
    let (mut record, entry, taking) = enter(&repo, wanted, places, &head, &mut undo, control)?;
    let admin = &entry.admin;
    let select =
        select::Selection::new(&repo, &index, head.id, wanted.excludes, &places.child)?.including(wanted.include);
    control.progress().enter(Stage::Filling);
    let filled = fill::fill(&places.parent, &places.child, &select, LARGEST_IN_BASE, control)?;
    let mut noted = select.finish();
    control.check().map_err(GitError::from)?;
    control.progress().enter(Stage::Snapshot);
    carry_settings(&repo, admin)?;
    submodules::give_modules(&repo, &places.child, admin, &filled.git_files, control)?;
    let child_index = admin.join("index");
    let has_index = repo.place().index_path().exists();
    let index = Arc::new(if has_index { index.write_with_stats(&noted.stats, &child_index)? } else { index });
    let child = Repo::open(&places.child)?;
    let base = base::take(&repo, &child, &head, &filled, &index, &noted, control)?;
    // What the base snapshot compared need not be compared again.
    if has_index && refine(&index, &mut noted.stats, &base.snapshot.index) {
        fs::write(&child_index, index.with_stats(&noted.stats)).map_err(GitError::io("cannot write", &child_index))?;
    }
    control.check().map_err(GitError::from)?;
    // What a kill from here on leaves is in the record before it is made.
    let base_name = BaseEntry::fresh_name();
    record.made.bases = vec![base_name.clone()];
    record.made.branch = taking.moves(&head);
    record.write(admin)?;
    let mut saved = taking.take(&repo, &head, &mut undo)?;
    // Only now: an isolation that could not have the branch leaves no objects either.
    base.quarantine.release()?;
    let base_entry = base.entry(places, &head, wanted.branch.as_deref());
    undo.base(base_name.clone());
    base_entry.record_as(&repo, &base_name, Durable::Later)?;
    saved.extend(branch::replace(&repo, &taking.going, &places.child, &mut undo, control)?);
    saved.sort();
    let unstored = base.snapshot.omitted.iter().filter(|path| !covered(&noted.included, path));
    record.omitted = unstored.filter_map(|path| Omitted::now(&places.child, path)).collect();
    record.included.clone_from(&noted.included);
    publish(admin, &mut record)?;
    undo.disarm();
    // Entries of a Child that was here before; the newest counts, so leaving one does no harm.
    if let Err(error) = crate::records::forget_bases_of(&repo, &places.child, &base_name) {
        tracing::warn!(%error, "an old base entry could not be removed");
    }
    gather(&repo);
    let points_outside = outside::outside(&places.parent, &places.child, &filled);
    let paths = |list: Vec<Vec<u8>>| list.iter().map(|p| fill::to_path(p)).collect();
    Ok(Isolation {
        child: places.child.clone(),
        branch: wanted.short_branch(),
        head: head.id.map(|id| id.to_string()),
        base: base_entry.base.to_string(),
        files: filled.files,
        links: filled.links,
        directories: filled.directories,
        bytes: filled.bytes,
        cloned: filled.cloned,
        copied: filled.copied,
        xattrs_refused: filled.xattrs_refused,
        skipped: paths(filled.skipped),
        left_out: paths(filled.left_out),
        unsteady: paths(filled.unsteady),
        points_outside,
        base_omitted: paths(base.snapshot.omitted.into_iter().filter(|path| !covered(&noted.included, path)).collect()),
        saved,
        elapsed_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
    })
}

/// One isolation at a time looks at the registry and writes its entry. The lock is on a directory that
/// never goes away, as the registry does with its last entry.
fn registry_lock(repo: &Repo, undo: &mut Undo<'_>, control: &Control) -> Result<Lock, IsolateError> {
    let objects = repo.common_dir().join("objects");
    let held = lock(&objects, Hold::Exclusive, None, control)?;
    let held = held.ok_or_else(|| IsolateError::Busy(repo.common_dir().to_owned()))?;
    let registry = repo.common_dir().join("worktrees");
    if !registry.is_dir() {
        fs::create_dir_all(&registry).map_err(GitError::io("cannot make", &registry))?;
        undo.registry();
    }
    Ok(held)
}

/// The Child's entry in the registry, held as long as the Child is being made.
struct Entry {
    admin: PathBuf,
    /// Tells a process that can't see this one's that it lives.
    _held: Lock,
}

/// Makes the Child's registry entry with its record, then its directory.
fn register(repo: &Repo, record: &mut ChildRecord, head: &Head, undo: &mut Undo<'_>) -> Result<Entry, IsolateError> {
    let child = record.child.clone();
    record.made.ancestors = missing_above(&child);
    let head = match (&record.branch, head.id) {
        (Some(branch), _) => format!("ref: {branch}"),
        (None, Some(id)) => id.to_string(),
        (None, None) => return Err(IsolateError::DetachedUnborn),
    };
    let lock_reason = format!("isofold {} is making this worktree", record.owner.pid);
    let entry = NewEntry { child: &child, head: &head, lock_reason: &lock_reason };
    let mut hold = None;
    let admin = worktrees::register(repo.common_dir(), &entry, |staged| -> Result<(), IsolateError> {
        hold = lock(staged, Hold::Exclusive, Some(Duration::ZERO), &Control::new())?;
        Ok(record.write(staged)?)
    })?;
    undo.admin(admin.clone());
    let hold = hold.ok_or_else(|| IsolateError::Busy(admin.clone()))?;
    // Another isolation that fails takes directories above away that are empty.
    let mut tries = 0;
    loop {
        for directory in missing_above(&child) {
            match fs::create_dir(&directory) {
                Ok(()) => undo.ancestor(directory),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == ErrorKind::NotFound && tries < 100 => break,
                Err(error) => return Err(FilesError::io("cannot make", &directory)(error).into()),
            }
        }
        match fs::create_dir(&child) {
            Ok(()) => break,
            Err(error) if error.kind() == ErrorKind::NotFound && tries < 100 => tries += 1,
            Err(error) => return Err(FilesError::io("cannot make", &child)(error).into()),
        }
    }
    undo.child(child.clone());
    let git_file = child.join(".git");
    let mut text = b"gitdir: ".to_vec();
    text.extend_from_slice(admin.as_os_str().as_encoded_bytes());
    text.push(b'\n');
    fs::write(&git_file, text).map_err(FilesError::io("cannot write", &git_file))?;
    Ok(Entry { admin, _held: hold })
}

/// The directories above `path` that do not exist, outer ones first.
fn missing_above(path: &Path) -> Vec<PathBuf> {
    let mut missing: Vec<PathBuf> =
        path.ancestors().skip(1).take_while(|directory| !directory.exists()).map(Path::to_owned).collect();
    missing.reverse();
    missing
}

/// Adds the stat data of entries that the base snapshot found to be unchanged; whether there are any.
fn refine(index: &IndexFile, stats: &mut [Option<IndexStat>], snapshot: &IndexFile) -> bool {
    let mut any = false;
    for (entry, stat) in index.entries().iter().zip(stats) {
        if stat.is_some() || entry.flagged() || entry.intent_to_add() {
            continue;
        }
        let found = snapshot.find(index.path(entry));
        *stat = found
            .filter(|found| found.id == entry.id && found.mode == entry.mode && !snapshot.racy(found))
            .map(|found| found.stat);
        any |= stat.is_some();
    }
    any
}

/// Carries sparse-checkout patterns and the work tree's own configuration.
pub(crate) fn carry_settings(repo: &Repo, admin: &Path) -> Result<(), IsolateError> {
    let copy = |name: &str| -> Result<bool, GitError> {
        let (from, to) = (repo.git_dir().join(name), admin.join(name));
        if !from.is_file() {
            return Ok(false);
        }
        let copied = fs::create_dir_all(to.parent().unwrap_or(admin)).and_then(|()| fs::copy(&from, &to));
        copied.map(|_| true).map_err(GitError::io("cannot copy", &from))
    };
    copy("info/sparse-checkout")?;
    if repo.config_bool("extensions.worktreeConfig", false)? && copy("config.worktree")? {
        crate::git::settings::drop_settings(&admin.join("config.worktree"), &["core.bare", "core.worktree"])?;
    }
    Ok(())
}
