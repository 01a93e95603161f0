//! What isofold saved before it would have become unreachable: refs under `refs/isofold/saved/`, listed,
//! made into branches, dropped.

use std::fs;
use std::path::{Path, PathBuf};

use crate::git::modules::{Module, Stores, git_dir_of, names_in};
use crate::git::refs::{Hidden, SAVED};
use crate::git::repository::{OpenError, Repo};
use crate::git::{GitError, show};

/// One saved commit, or content of a file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Saved {
    /// What to call it: the ref's name after `refs/isofold/saved/`, in a submodule's repository with the
    /// submodule's path and a colon before it.
    pub name: String,
    /// The ref's full name.
    pub reference: String,
    /// The commit or blob.
    pub id: String,
    /// Whether it is a commit; else it is the content of a file.
    pub commit: bool,
    /// When it was saved, in seconds since 1970.
    pub saved: i64,
    /// The subject of the commit.
    pub subject: Option<String>,
}

/// Why a saved commit could not be listed, restored or dropped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SavedError {
    /// The directory is in no repository that can be used.
    #[error("{0}")]
    Open(String),
    /// git or the file system failed.
    #[error("{0}")]
    Git(String),
    /// Nothing is saved under that name.
    #[error("nothing is saved under the name {0}; isofold saved list --all shows what is")]
    Unknown(String),
    /// It is the content of a file, which no branch can hold.
    #[error("{name} is the content of a file, not a commit; git cat-file blob {id} prints it")]
    NoCommit {
        /// The name that was asked for.
        name: String,
        /// The blob.
        id: String,
    },
    /// The branch exists and is elsewhere.
    #[error("the branch {0} exists already, at another commit; rename or delete it first")]
    BranchExists(String),
}

impl From<OpenError> for SavedError {
    fn from(error: OpenError) -> Self {
        Self::Open(error.to_string())
    }
}

impl From<GitError> for SavedError {
    fn from(error: GitError) -> Self {
        Self::Git(error.to_string())
    }
}

impl Saved {
    fn of(hidden: &Hidden, module: Option<&Path>) -> Self {
        let short = hidden.name.strip_prefix(SAVED).unwrap_or(&hidden.name);
        Self {
            name: module.map_or_else(|| short.to_owned(), |module| format!("{}:{short}", show(module))),
            reference: hidden.name.clone(),
            id: hidden.id.to_string(),
            commit: hidden.commit.is_some(),
            saved: hidden.set,
            subject: hidden.commit.as_ref().map(|(subject, _)| subject.clone()),
        }
    }
}

/// What is saved in the repository that `directory` is in, newest first; with `all` also in the
/// repositories of its submodules.
pub fn list(directory: &Path, all: bool) -> Result<Vec<Saved>, SavedError> {
    let repo = Repo::containing(directory)?;
    let mut found: Vec<Saved> = repo.hidden(SAVED)?.iter().map(|hidden| Saved::of(hidden, None)).collect();
    if all {
        for (path, git_dir) in modules(&repo)? {
            let hidden = Module::open(&git_dir)?.hidden(SAVED)?;
            found.extend(hidden.iter().map(|hidden| Saved::of(hidden, Some(&path))));
        }
    }
    found.sort_by(|a, b| b.saved.cmp(&a.saved).then_with(|| a.name.cmp(&b.name)));
    Ok(found)
}

/// Makes the branch `restored/<name>` at a saved commit and returns its name; what is saved stays saved.
pub fn restore(directory: &Path, name: &str) -> Result<String, SavedError> {
    let (place, hidden) = find(directory, name)?;
    if hidden.commit.is_none() {
        return Err(SavedError::NoCommit { name: name.to_owned(), id: hidden.id.to_string() });
    }
    let branch = format!("restored/{}", hidden.name.strip_prefix(SAVED).unwrap_or(&hidden.name));
    let full = format!("refs/heads/{branch}");
    let made = match &place {
        Place::Repository(repo) => repo.new_branch(&full, hidden.id)?,
        Place::Module(module) => module.new_branch(&full, hidden.id)?,
    };
    if made { Ok(branch) } else { Err(SavedError::BranchExists(branch)) }
}

/// Forgets what is saved under that name and returns its id: until git's next garbage collection it
/// can be brought back by that.
pub fn drop(directory: &Path, name: &str) -> Result<String, SavedError> {
    let (place, hidden) = find(directory, name)?;
    match &place {
        Place::Repository(repo) => repo.remove_ref(&hidden.name)?,
        Place::Module(module) => module.remove_ref(&hidden.name)?,
    }
    Ok(hidden.id.to_string())
}

enum Place {
    Repository(Repo),
    Module(Module),
}

/// The saved ref of that name: short or in full, in a submodule with its path and a colon before it.
fn find(directory: &Path, name: &str) -> Result<(Place, Hidden), SavedError> {
    let repo = Repo::containing(directory)?;
    let unknown = || SavedError::Unknown(name.to_owned());
    let full = |short: &str| if short.starts_with(SAVED) { short.to_owned() } else { format!("{SAVED}{short}") };
    let pick = |refs: Vec<Hidden>, wanted: &str| refs.into_iter().find(|hidden| hidden.name == wanted);
    let Some((path, short)) = name.rsplit_once(':') else {
        let hidden = pick(repo.hidden(SAVED)?, &full(name)).ok_or_else(unknown)?;
        return Ok((Place::Repository(repo), hidden));
    };
    let git_dir = modules(&repo)?.into_iter().find(|(known, _)| show(known) == path).ok_or_else(unknown)?.1;
    let module = Module::open(&git_dir)?;
    let hidden = pick(module.hidden(SAVED)?, &full(short)).ok_or_else(unknown)?;
    Ok((Place::Module(module), hidden))
}

/// The repositories of submodules: those in the stores, named by their path where that is known, and
/// git directories that stand in the work tree itself.
fn modules(repo: &Repo) -> Result<Vec<(PathBuf, PathBuf)>, SavedError> {
    let stores = Stores::of(repo.git_dir(), repo.common_dir());
    let mut found: Vec<(PathBuf, PathBuf)> = Vec::new();
    for root in [repo.git_dir(), repo.common_dir()] {
        for name in names_in(root)? {
            let Ok(git_dir) = fs::canonicalize(root.join("modules").join(&name)) else { continue };
            if found.iter().any(|(_, known)| *known == git_dir) {
                continue;
            }
            let checked_out = Module::open(&git_dir)?
                .work_tree()
                .and_then(|at| Some(at.strip_prefix(repo.work_dir()).ok()?.to_owned()));
            found.push((checked_out.unwrap_or(name), git_dir));
        }
    }
    let index = crate::git::index_file::IndexFile::read(&repo.place().index_path())?;
    for entry in index.entries().iter().filter(|entry| entry.mode == crate::git::tree::MODE_GITLINK) {
        let path = crate::files::as_path(index.path(entry)).to_owned();
        if let Some(git_dir) = git_dir_of(&repo.work_dir().join(&path))
            && stores.name_of(&git_dir).is_none()
        {
            found.push((path, git_dir));
        }
    }
    found.sort();
    Ok(found)
}
