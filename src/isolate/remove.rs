//! Remove: take a Child away, after what only it holds was saved or proven to be nothing.

use std::fs;
use std::path::{Path, PathBuf};

use super::IsolateError;
use super::recover::{self, Recovered};
use super::rescue::{self, Held};
use crate::control::{Control, Stage, Stop};
use crate::files::as_path;
use crate::files::owner::Owner;
use crate::files::remove::{empty_worktree, mounted_below, newer_than, open_files, remove_tree};
use crate::git::identity::Identity;
use crate::git::quarantine::Quarantine;
use crate::git::repository::Repo;
use crate::git::tree::Objects;
use crate::git::worktrees::{self, admin_of_git_file, registered};
use crate::git::{GitError, Oid, show};
use crate::invocation;
use crate::records::{BaseEntry, ChildRecord, State, bases_of, forget};
use crate::snapshot::{Rules, Setting, snapshot};

/// What became of a removal.
#[derive(Debug, Clone)]
pub enum RemoveOutcome {
    /// The Child is gone.
    Removed {
        /// Refs under `refs/isofold/saved/` that keep what only the Child held; in a submodule's
        /// repository with the submodule's path and a colon before it.
        saved: Vec<String>,
    },
    /// There was nothing at that path.
    AlreadyGone,
    /// Loose work is there, or it is no Child; nothing was touched.
    Refused(String),
    /// It could not be done; the text says what is left.
    Failed(String),
    /// It was asked to stop.
    Interrupted(String),
    /// The request can't be carried out by anybody.
    InvalidInvocation(String),
}

enum Stopped {
    Refused(String),
    Error(IsolateError),
}

impl<E: Into<IsolateError>> From<E> for Stopped {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

/// What the caller knows of a Child that goes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Settled<'a> {
    /// Trees that the Child may be: what they hold is safe.
    pub(crate) trees: &'a [Oid],
    /// Ignored files that are part of its work.
    pub(crate) keep: &'a [Vec<u8>],
}

/// Removes the Child: worktree and registration, never its branch.
pub(crate) fn remove(child: &Path, force: bool, control: &Control) -> RemoveOutcome {
    remove_settled(child, force, Settled::default(), control)
}

/// Removes a Child of which some things are known.
pub(crate) fn remove_settled(child: &Path, force: bool, settled: Settled<'_>, control: &Control) -> RemoveOutcome {
    if let Err(why) = invocation::absolute(child, "child") {
        return RemoveOutcome::InvalidInvocation(why);
    }
    match fs::symlink_metadata(child) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return RemoveOutcome::AlreadyGone,
        Err(error) => return RemoveOutcome::Failed(format!("{} can't be read: {error}", show(child))),
        Ok(meta) if !meta.is_dir() => {
            return RemoveOutcome::Refused(format!("{} is not a directory", show(child)));
        }
        Ok(_) => {}
    }
    match run(child, force, settled, control) {
        Ok(saved) => RemoveOutcome::Removed { saved },
        Err(Stopped::Refused(why)) => RemoveOutcome::Refused(why),
        Err(Stopped::Error(error)) => match error.stop() {
            Some(Stop::Clock) => RemoveOutcome::Failed("the clock fired".to_owned()),
            Some(Stop::Interrupt) => RemoveOutcome::Interrupted("The removal was interrupted.".to_owned()),
            None => RemoveOutcome::Failed(error.to_string()),
        },
    }
}

fn run(child: &Path, force: bool, settled: Settled<'_>, control: &Control) -> Result<Vec<String>, Stopped> {
    let real = fs::canonicalize(child).map_err(GitError::io("cannot read", child))?;
    let refuse = |why: String| Err(Stopped::Refused(why));
    let Some(admin) = admin_of_git_file(&real.join(".git")) else {
        return refuse(format!("{} is no linked worktree; isofold removes nothing else", show(child)));
    };
    let Ok(admin) = fs::canonicalize(&admin) else {
        if only_git_file(&real) {
            // A removal got as far as this.
            remove_tree(&real)?;
            return Ok(Vec::new());
        }
        return refuse(format!(
            "{} names a git directory that is gone ({}); git worktree repair may help",
            show(child),
            show(&admin)
        ));
    };
    let common = admin.parent().filter(|p| p.file_name().is_some_and(|n| n == "worktrees")).and_then(Path::parent);
    let Some(common) = common.map(Path::to_owned) else {
        return refuse(format!("{} is no linked worktree; isofold removes nothing else", show(child)));
    };
    let entry = registered(&common)?.into_iter().find(|entry| entry.admin == admin);
    let registered_here = entry.as_ref().is_some_and(|e| fs::canonicalize(&e.directory).is_ok_and(|d| d == real));
    if !registered_here {
        return refuse(format!(
            "{} is not the worktree that its registry entry names; git worktree repair may help",
            show(child)
        ));
    }
    let record = ChildRecord::read(&admin)?;
    if record.as_ref().is_some_and(|r| r.state == State::Making) {
        // Nobody was ever told that it is there; what a dead isolation left goes, a live one's stays.
        let parent = record.as_ref().map(|r| r.parent.clone()).unwrap_or_default();
        return match recover::recover_entry(&Repo::open(&parent)?, &admin)? {
            Some(Recovered::Left(why)) => refuse(why),
            Some(_) => Ok(Vec::new()),
            None => refuse(format!("{} is still being made by another isofold", show(child))),
        };
    }
    let removing = |record: &ChildRecord| record.state == State::Removing;
    if let Some(reason) = entry.and_then(|e| e.locked).filter(|_| !record.as_ref().is_some_and(removing)) {
        return refuse(format!("{} is locked ({reason}); git worktree unlock it first", show(child)));
    }
    if let Some(place) = mounted_below(&real) {
        return refuse(format!(
            "{} has something mounted at {}; unmount it first, or its files would go too",
            show(child),
            show(&place)
        ));
    }
    let repo = Repo::open(&real)?;
    recover::recover_children(&repo, control)?;
    if !admin.is_dir() {
        return Ok(Vec::new());
    }
    let _lock = crate::write::recover::exclusive(&admin, control)?;
    // Whoever held it may have removed it all.
    if !admin.is_dir() {
        return Ok(Vec::new());
    }
    // A fold into this directory that was cut off.
    crate::write::recover::recover(&repo)?;
    let record = ChildRecord::read(&admin)?;
    let newer = match &record {
        Some(record) if removing(record) => {
            Some(ChildRecord::written(&admin).map_or_else(Vec::new, |since| newer_than(&real, since)))
        }
        _ => None,
    };
    if let Some(path) = newer.as_ref().and_then(|newer| newer.first()).filter(|_| !force) {
        return refuse(format!(
            "{} was being removed, but {} was written there since; remove with --force, which saves it first",
            show(child),
            show(path)
        ));
    }
    let mut saved = Vec::new();
    // Work trees of this repository inside this one hold work of their own.
    for inner in inner_worktrees(&common, &real)? {
        if !force {
            return refuse(format!(
                "{} holds another worktree of its repository, {}; remove that first, or with --force both",
                show(child),
                show(&inner)
            ));
        }
        saved.extend(run(&inner, true, Settled::default(), control)?);
    }
    if newer.as_ref().is_none_or(|newer| !newer.is_empty()) {
        control.progress().enter(Stage::Snapshot);
        if force {
            open_files(&real);
        }
        saved.extend(settle(&repo, &real, record.as_ref(), force, settled, control)?);
    }
    let mut record = record.unwrap_or_else(|| ChildRecord::new(State::Removing, Path::new(""), &real));
    record.state = State::Removing;
    record.owner = Owner::this();
    record.made.bases = bases_of(&repo, &real)?;
    record.write(&admin)?;
    control.check().map_err(GitError::from)?;
    control.progress().enter(Stage::Removing);
    empty_worktree(&real)?;
    for base in &record.made.bases {
        forget(&repo, base)?;
    }
    remove_tree(&real)?;
    worktrees::unregister(&common, &admin)?;
    Ok(saved)
}

/// Registered worktrees below a directory, inner ones first.
fn inner_worktrees(common: &Path, directory: &Path) -> Result<Vec<PathBuf>, GitError> {
    let entries = registered(common)?.into_iter().filter(|entry| !entry.is_gone());
    let places = entries.filter_map(|entry| fs::canonicalize(entry.directory).ok());
    let mut inner: Vec<PathBuf> = places.filter(|at| at != directory && at.starts_with(directory)).collect();
    inner.sort_by_key(|at| std::cmp::Reverse(at.components().count()));
    Ok(inner)
}

/// Whether nothing but `.git` is left in a directory.
fn only_git_file(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.all(|e| e.is_ok_and(|e| e.file_name() == ".git")))
}

/// Proves that nothing loose is there or, with force, saves it; commits that only this worktree
/// reaches are always saved.
fn settle(
    repo: &Repo,
    child: &Path,
    record: Option<&ChildRecord>,
    force: bool,
    settled: Settled<'_>,
    control: &Control,
) -> Result<Vec<String>, Stopped> {
    let head = repo.head()?;
    let label = child.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let quarantine = Quarantine::new(repo)?;
    let omit = record.map(|record| record.no_work(child)).unwrap_or_default();
    let rules = Rules { omit: &omit, keep: settled.keep, ..Rules::default() };
    let snapshot = snapshot(repo.place(), &Setting::of(repo)?, &rules, None, &quarantine.store(), control)?;
    let mut clean = known_trees(repo, child, head.id)?;
    clean.extend(settled.trees);
    let loose = !clean.contains(&snapshot.tree);
    if loose && !force {
        let nearest = clean.first().copied().unwrap_or(crate::git::tree::empty_tree()?);
        let mut paths: Vec<String> =
            quarantine.changes(nearest, snapshot.tree)?.iter().take(5).map(|c| show(as_path(&c.path))).collect();
        paths.dedup();
        return Err(Stopped::Refused(format!(
            "{} holds loose work ({}); fold it, or remove with --force, which saves it first",
            show(child),
            paths.join(", ")
        )));
    }
    let (submodules, others): (Vec<Held>, Vec<Held>) =
        rescue::held(repo, record, control)?.into_iter().partition(Held::is_submodule);
    let list = |held: &mut dyn Iterator<Item = &Held>| held.map(Held::describe).collect::<Vec<_>>().join(", ");
    if !submodules.is_empty() && !force {
        return Err(Stopped::Refused(format!(
            "{} holds work in its submodules ({}); fold or push it, or remove with --force, which saves it in the Parent's copy of the submodule first",
            show(child),
            list(&mut submodules.iter())
        )));
    }
    if !others.is_empty() && !force {
        return Err(Stopped::Refused(format!(
            "{} holds repositories with work of their own ({}); push it or move them, or remove with --force, which saves it under {} first",
            show(child),
            list(&mut others.iter()),
            crate::git::refs::SAVED
        )));
    }
    if submodules.iter().any(|held| !held.has_refuge()) {
        return Err(Stopped::Refused(format!(
            "{} holds work in submodules that the Parent has no repository of to save it in ({}); commit and push it there first",
            show(child),
            list(&mut submodules.iter().filter(|held| !held.has_refuge()))
        )));
    }
    let mut saved = Vec::new();
    for held in submodules.iter().chain(&others) {
        saved.extend(held.save(&label, control)?);
    }
    if loose {
        let who = Identity::of_isofold()?;
        let parents: Vec<Oid> = head.id.into_iter().collect();
        let message = format!("isofold: loose work of {label}, saved at its removal");
        let commit = quarantine.commit(snapshot.tree, &parents, &message, &who.author, &who.committer)?;
        quarantine.release()?;
        saved.push(repo.save(&label, commit)?);
    } else if let (None, Some(id)) = (&head.branch, head.id)
        && repo.only_reached_by(id, "", None)?
    {
        saved.push(repo.save(&label, id)?);
    }
    Ok(saved)
}

/// The trees that a Child may be and hold no loose work: its base as far as that was folded or never
/// changed, and its HEAD.
fn known_trees(repo: &Repo, child: &Path, head: Option<Oid>) -> Result<Vec<Oid>, IsolateError> {
    let mut trees = Vec::new();
    trees.extend(BaseEntry::newest_of_child(repo, child)?.map(|newest| newest.tree));
    trees.push(repo.head_tree(head)?);
    Ok(trees)
}
