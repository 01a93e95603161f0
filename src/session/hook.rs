//! What the hooks of agent tools ask for: a worktree of a name, and its removal.

use std::path::{Path, PathBuf};

use super::place::{DIRECTORY, PREFIX, Place, fresh_name, prepare};
use crate::control::Control;
use crate::git::GitError;
use crate::git::repository::{OpenError, Repo};
use crate::git::worktrees::registered;
use crate::git::{one_line, show};
use crate::isolate::remove::{RemoveOutcome, remove};
use crate::isolate::{IsolateOutcome, IsolateRequest, isolate_at};
use crate::options::IsolationOptions;
use crate::patch::event;

/// Why a hook's worktree was not made or not removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The event says nothing that could be done.
    #[error("{0}")]
    Usage(String),
    /// It was tried; the text says what went wrong.
    #[error("{0}")]
    Failed(String),
    /// It was asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl From<GitError> for SessionError {
    fn from(error: GitError) -> Self {
        match error.stop() {
            Some(crate::control::Stop::Interrupt) => Self::Interrupted,
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl From<OpenError> for SessionError {
    fn from(error: OpenError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// A worktree that a hook was asked about.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SessionWorktree {
    /// Its root.
    pub worktree: PathBuf,
    /// Refs that keep what only it held.
    pub saved: Vec<String>,
    /// Its branch, where that stayed.
    pub branch: Option<String>,
}

/// Makes the worktree of a session, filled like a Child: the event's name says which. `directory` is
/// where the hook runs; the event may name another.
///
/// # Errors
/// [`SessionError`]; nothing is left then.
pub fn worktree_create(event: &[u8], directory: &Path, control: &Control) -> Result<SessionWorktree, SessionError> {
    let asked = event::worktree(event).ok_or_else(|| usage("the event is no JSON object"))?;
    let repo = Repo::containing(asked.cwd.as_deref().unwrap_or(directory))?;
    let name = asked.name.unwrap_or_else(fresh_name);
    let place = place(&repo, &name)?;
    prepare(repo.work_dir(), repo.common_dir())?;
    let request = IsolateRequest::new(place.name, repo.work_dir(), &place.worktree);
    let options = |parent: &Path| IsolationOptions::of_parent(parent).map_err(|error| error.to_string());
    match isolate_at(&request, &place.branch, options, control) {
        IsolateOutcome::Isolated(isolation) => {
            Ok(SessionWorktree { worktree: place.worktree, saved: isolation.saved, branch: isolation.branch })
        }
        IsolateOutcome::Failed(why) | IsolateOutcome::InvalidInvocation(why) => Err(SessionError::Failed(why)),
        IsolateOutcome::Interrupted(_) => Err(SessionError::Interrupted),
    }
}

/// Takes the worktree of a session away, by its name or its path. Loose work is saved first; its branch
/// goes where everything on it is reachable from elsewhere.
///
/// # Errors
/// [`SessionError`]; the worktree is there then.
pub fn worktree_remove(event: &[u8], directory: &Path, control: &Control) -> Result<SessionWorktree, SessionError> {
    let asked = event::worktree(event).ok_or_else(|| usage("the event is no JSON object"))?;
    let repo = Repo::containing(asked.cwd.as_deref().filter(|cwd| cwd.is_dir()).unwrap_or(directory))?;
    let worktree = match (asked.path, asked.name) {
        (Some(path), _) => path,
        (None, Some(name)) => find(&repo, &name)?,
        (None, None) => return Err(usage("the event has neither a name nor a worktree_path")),
    };
    let worktree = std::fs::canonicalize(&worktree).unwrap_or(worktree);
    // Others than ours are for whoever made them.
    let ours = worktree.parent().and_then(Path::file_name).is_some_and(|name| name == DIRECTORY)
        && worktree.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&format!("{PREFIX}-")));
    if !ours {
        return Err(usage(&format!("{} is no worktree of a session", show(&worktree))));
    }
    let branch =
        Repo::open(&worktree).ok().and_then(|child| child.head().ok()).and_then(|head| head.branch.zip(head.id));
    let saved = match remove(&worktree, true, control) {
        RemoveOutcome::Removed { saved } => saved,
        RemoveOutcome::AlreadyGone => Vec::new(),
        RemoveOutcome::Interrupted(_) => return Err(SessionError::Interrupted),
        RemoveOutcome::Refused(why) | RemoveOutcome::Failed(why) | RemoveOutcome::InvalidInvocation(why) => {
            return Err(SessionError::Failed(why));
        }
    };
    let mut kept = None;
    if let Some((name, tip)) = branch
        && !(name.starts_with(&format!("refs/heads/{PREFIX}/")) && repo.remove_empty_branch(&name, tip)?)
    {
        kept = Some(name.trim_start_matches("refs/heads/").to_owned());
    }
    Ok(SessionWorktree { worktree, saved, branch: kept })
}

fn usage(why: &str) -> SessionError {
    SessionError::Usage(why.to_owned())
}

fn place(repo: &Repo, name: &str) -> Result<Place, SessionError> {
    Place::of(repo.work_dir(), PREFIX, name).ok_or_else(|| {
        usage(&format!(
            "{:?} is no name of a session: letters, digits, . _ and -, up to 128 of them, the first no dot",
            one_line(name)
        ))
    })
}

/// The worktree of a session of this repository: of this work tree, else of another one.
fn find(repo: &Repo, name: &str) -> Result<PathBuf, SessionError> {
    let here = place(repo, name)?.worktree;
    if here.is_dir() {
        return Ok(here);
    }
    let registered = registered(repo.common_dir())?.into_iter().map(|entry| entry.directory);
    let elsewhere: Vec<PathBuf> = registered.filter(|place| place.file_name() == here.file_name()).collect();
    match elsewhere.as_slice() {
        [] => Ok(here),
        [one] => Ok(one.clone()),
        _ => Err(usage(&format!("more than one session is called {name}; name its path"))),
    }
}
