//! What only the submodules of a Child hold, and repositories of their own inside it: named before it
//! goes, or saved: in the repositories of the same submodules in the Parent, or in the Parent's own.

use std::fs;
use std::path::{Path, PathBuf};

use super::IsolateError;
use crate::control::Control;
use crate::files::{as_path, join};
use crate::git::identity::Identity;
use crate::git::index_file::IndexFile;
use crate::git::modules::{Module, Stores, git_dir_of, names_in};
use crate::git::nested::is_repository;
use crate::git::quarantine::Quarantine;
use crate::git::repository::Repo;
use crate::git::tree::MODE_GITLINK;
use crate::git::worktrees::Registered;
use crate::git::{GitError, Oid, show};
use crate::records::{ChildRecord, State};
use crate::snapshot::{Rules, Setting, snapshot};

/// A repository inside a Child that holds something of its own.
pub(crate) struct Held {
    /// Its path in the Child; the name of its repository where it is not checked out.
    path: PathBuf,
    module: Module,
    /// Where it can be saved: the repository of the same submodule in the Parent or, for one that is no
    /// submodule, the Parent's.
    refuge: Option<Module>,
    submodule: bool,
    /// Tips of commits that only it has.
    commits: Vec<Oid>,
    /// Its work tree, where that differs from its HEAD and from the Parent's.
    loose: Option<PathBuf>,
}

impl Held {
    /// For a report.
    pub(crate) fn describe(&self) -> String {
        let what = match (self.loose.is_some(), self.commits.is_empty()) {
            (true, true) => "loose work",
            (true, false) => "loose work and commits of its own",
            (false, _) => "commits of its own",
        };
        format!("{}: {what}", show(&self.path))
    }

    /// Whether there is a place to save it to.
    pub(crate) fn has_refuge(&self) -> bool {
        self.refuge.is_some()
    }

    /// Whether it is a submodule; else a repository that the Child does not track.
    pub(crate) fn is_submodule(&self) -> bool {
        self.submodule
    }

    /// Saves commits and loose work. The refs are named with the submodule's path before a colon where
    /// they are in the Parent's repository of it.
    pub(crate) fn save(&self, label: &str, control: &Control) -> Result<Vec<String>, IsolateError> {
        let Some(refuge) = &self.refuge else { return Ok(Vec::new()) };
        let mut commits = self.commits.clone();
        if let Some(directory) = &self.loose {
            commits.push(commit_loose(directory, label, control)?);
        }
        let label = if self.submodule { label.to_owned() } else { format!("{label}-{}", self.path.display()) };
        // Each of them by name: loose work is one commit, however it hangs together with the others.
        let mut saved = Vec::new();
        for commit in commits {
            refuge.take_from(&self.module, &[commit], |id| Repo::saved_name(&label, id))?;
            let name = Repo::saved_name(&label, commit);
            saved.push(if self.submodule { format!("{}:{name}", show(&self.path)) } else { name });
        }
        Ok(saved)
    }
}

/// A submodule's loose work as a commit on its HEAD, in its own repository.
fn commit_loose(directory: &Path, label: &str, control: &Control) -> Result<Oid, IsolateError> {
    let repo = Repo::open(directory)?;
    let quarantine = Quarantine::new(&repo)?;
    let setting = Setting::of(&repo)?;
    let taken = snapshot(repo.place(), &setting, &Rules::default(), None, &quarantine.store(), control)?;
    let who = Identity::of_isofold()?;
    let parents: Vec<Oid> = repo.head()?.id.into_iter().collect();
    let message = format!("isofold: loose work of {label}, saved at its removal");
    let commit = quarantine.commit(taken.tree, &parents, &message, &who.author, &who.committer)?;
    quarantine.release()?;
    Ok(commit)
}

/// The submodules and other repositories in a Child that hold what the Parent's do not, inner ones
/// first.
pub(crate) fn held(repo: &Repo, record: Option<&ChildRecord>, control: &Control) -> Result<Vec<Held>, IsolateError> {
    let parent = record.and_then(|record| Repo::open(&record.parent).ok());
    let parent = parent.filter(|parent| parent.common_dir() == repo.common_dir() && parent.git_dir() != repo.git_dir());
    let refuge = match &parent {
        Some(parent) => Stores::of(parent.git_dir(), parent.common_dir()),
        None => Stores::of(repo.common_dir(), repo.common_dir()),
    };
    let own = Stores::of(repo.git_dir(), repo.git_dir());
    let mut places = Vec::new();
    checked_out(repo.work_dir(), b"", &repo.place().index_path(), &mut places)?;
    let modules = repo.git_dir().join("modules");
    for name in names_in(repo.git_dir())? {
        let git_dir = fs::canonicalize(modules.join(&name)).map_err(GitError::io("cannot read", &modules))?;
        if places.iter().any(|(_, known)| *known == git_dir) {
            continue;
        }
        // No pointer names it now, but its files may still be there.
        let path =
            Module::open(&git_dir)?.work_tree().and_then(|at| Some(at.strip_prefix(repo.work_dir()).ok()?.to_owned()));
        let path = path.filter(|path| git_dir_of(&repo.work_dir().join(path)).as_ref() == Some(&git_dir));
        places.push((path.unwrap_or_default(), git_dir));
    }
    let known: Vec<PathBuf> = places.iter().map(|(_, git_dir)| git_dir.clone()).collect();
    let mut found = Vec::new();
    for (path, git_dir) in places.into_iter().rev() {
        control.check().map_err(GitError::from)?;
        let name = own.name_of(&git_dir);
        let counterpart =
            parent.as_ref().map(|parent| parent.work_dir().join(&path)).filter(|_| !path.as_os_str().is_empty());
        let inside = name.is_some() || git_dir.starts_with(repo.work_dir());
        let elsewhere = match &name {
            // A repository that is not the Child's outlives it.
            _ if !inside => Some(git_dir.clone()),
            Some(name) => refuge.find(name).or_else(|| counterpart.as_deref().and_then(git_dir_of)),
            None => counterpart.as_deref().and_then(git_dir_of),
        };
        let elsewhere = elsewhere.as_deref().map(Module::open).transpose()?;
        let module = Module::open(&git_dir)?;
        let commits = if inside { module.only_here(elsewhere.as_ref())? } else { Vec::new() };
        let work_dir = repo.work_dir().join(&path);
        let checked_out = !path.as_os_str().is_empty();
        let loose = checked_out && is_loose(&work_dir, counterpart.as_deref(), control)?;
        if loose || !commits.is_empty() {
            let path = if checked_out { path } else { name.unwrap_or_default() };
            let loose = loose.then_some(work_dir);
            found.push(Held { path, module, refuge: elsewhere, submodule: true, commits, loose });
        }
    }
    found.extend(nested(repo, parent.as_ref(), &known, control)?);
    Ok(found)
}

/// The repositories in a Child that are no submodules of it and hold what the Parent's of that place do
/// not, inner ones first.
fn nested(
    repo: &Repo,
    parent: Option<&Repo>,
    submodules: &[PathBuf],
    control: &Control,
) -> Result<Vec<Held>, IsolateError> {
    let mut found = Vec::new();
    for path in repositories_in(repo.work_dir(), control)?.into_iter().rev() {
        let work_dir = repo.work_dir().join(&path);
        let Some(git_dir) = git_dir_of(&work_dir) else { continue };
        // Other work trees of this repository were looked at before.
        if submodules.contains(&git_dir) || git_dir.starts_with(repo.common_dir()) {
            continue;
        }
        let counterpart = parent.map(|parent| parent.work_dir().join(&path));
        let module = Module::open(&git_dir)?;
        let inside = git_dir.starts_with(repo.work_dir());
        let commits = if inside && !module.is_untouched_clone() {
            let elsewhere = counterpart.as_deref().and_then(git_dir_of);
            module.only_here(elsewhere.as_deref().map(Module::open).transpose()?.as_ref())?
        } else {
            Vec::new()
        };
        let loose = is_loose(&work_dir, counterpart.as_deref(), control)?;
        if loose || !commits.is_empty() {
            // A repository that is not the Child's outlives it.
            let refuge = Module::open(if inside { repo.common_dir() } else { &git_dir })?;
            let loose = loose.then_some(work_dir);
            found.push(Held { path, module, refuge: Some(refuge), submodule: false, commits, loose });
        }
    }
    Ok(found)
}

/// The directories below `root` that are repositories of their own, outer ones first.
fn repositories_in(root: &Path, control: &Control) -> Result<Vec<PathBuf>, IsolateError> {
    let mut found = Vec::new();
    let mut walk = walkdir::WalkDir::new(root).min_depth(1).into_iter();
    while let Some(entry) = walk.next() {
        control.check().map_err(GitError::from)?;
        // What can't be read is for the removal to report.
        let Ok(entry) = entry else { continue };
        if entry.file_name() != ".git" {
            continue;
        }
        if entry.file_type().is_dir() {
            walk.skip_current_dir();
        }
        let directory = entry.path().parent().unwrap_or(root);
        if directory != root && is_repository(directory) {
            found.push(directory.strip_prefix(root).unwrap_or(directory).to_owned());
        }
    }
    found.sort();
    Ok(found)
}

/// The submodules that an index names and that are checked out: path, git directory.
fn checked_out(
    root: &Path,
    prefix: &[u8],
    index: &Path,
    found: &mut Vec<(PathBuf, PathBuf)>,
) -> Result<(), IsolateError> {
    let index = IndexFile::read(index)?;
    for entry in index.entries().iter().filter(|entry| entry.mode == MODE_GITLINK) {
        let path = join(prefix, index.path(entry));
        let Some(git_dir) = git_dir_of(&root.join(as_path(&path))) else { continue };
        let inner = git_dir.join("index");
        found.push((as_path(&path).to_owned(), git_dir));
        checked_out(root, &path, &inner, found)?;
    }
    Ok(())
}

/// Whether a submodule's files are neither those of its HEAD nor those of the Parent's.
fn is_loose(directory: &Path, counterpart: Option<&Path>, control: &Control) -> Result<bool, IsolateError> {
    let repo = Repo::open(directory)?;
    let quarantine = Quarantine::new(&repo)?;
    let tree = |repo: &Repo| -> Result<Oid, IsolateError> {
        let setting = Setting::of(repo)?;
        Ok(snapshot(repo.place(), &setting, &Rules::default(), None, &quarantine.store(), control)?.tree)
    };
    let own = tree(&repo)?;
    if own == repo.head_tree(repo.head()?.id)? {
        return Ok(false);
    }
    // What came along from a dirty Parent is still there.
    let there = counterpart.filter(|there| git_dir_of(there).is_some()).map(Repo::open).transpose()?;
    Ok(match there {
        Some(there) => match tree(&there) {
            Err(error) if error.stop().is_some() => return Err(error),
            other => other.ok() != Some(own),
        },
        None => true,
    })
}

/// The same for a registered worktree whose directory is gone: only commits are left of it.
pub(crate) fn held_by_gone(repo: &Repo, entry: &Registered) -> Result<Vec<Held>, IsolateError> {
    let record = ChildRecord::read(&entry.admin)?;
    if record.as_ref().is_some_and(|record| record.state == State::Making) {
        return Ok(Vec::new());
    }
    let parent = record.and_then(|record| Repo::open(&record.parent).ok());
    let refuge = match parent.filter(|parent| parent.common_dir() == repo.common_dir()) {
        Some(parent) => Stores::of(parent.git_dir(), parent.common_dir()),
        None => Stores::of(repo.common_dir(), repo.common_dir()),
    };
    let mut found = Vec::new();
    for name in names_in(&entry.admin)? {
        let module = Module::open(&entry.admin.join("modules").join(&name))?;
        let elsewhere = refuge.find(&name).as_deref().map(Module::open).transpose()?;
        let commits = module.only_here(elsewhere.as_ref())?;
        if !commits.is_empty() {
            found.push(Held { path: name, module, refuge: elsewhere, submodule: true, commits, loose: None });
        }
    }
    Ok(found)
}
