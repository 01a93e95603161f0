//! What the hooks of agent tools ask for: a session of a name, and its end.

use std::path::{Path, PathBuf};

use super::place::DIRECTORY;
use super::{Discarded, SessionError, StartRequest};
use crate::control::Control;
use crate::git::repository::Repo;
use crate::git::show;
use crate::patch::event;
use crate::records::SessionRecord;

/// A worktree that a hook was asked about.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SessionWorktree {
    /// Its root.
    pub worktree: PathBuf,
    /// Refs that keep what only it held.
    pub saved: Vec<String>,
}

/// Starts a session: the event's name says which. `directory` is where the hook runs; the event may
/// name another.
///
/// # Errors
/// [`SessionError`]; nothing is left then.
pub fn worktree_create(event: &[u8], directory: &Path, control: &Control) -> Result<SessionWorktree, SessionError> {
    let asked = event::worktree(event).ok_or_else(|| SessionError::usage("the event is no JSON object"))?;
    let request = StartRequest { name: asked.name, ..StartRequest::default() };
    let started = super::start(asked.cwd.as_deref().unwrap_or(directory), &request, control)?;
    let saved = started.isolation.map(|isolation| isolation.saved).unwrap_or_default();
    Ok(SessionWorktree { worktree: started.session.worktree, saved })
}

/// Discards a session, by its name or the path of its worktree. What only it holds is saved first.
///
/// # Errors
/// [`SessionError`]; the worktree is there then.
pub fn worktree_remove(event: &[u8], directory: &Path, control: &Control) -> Result<SessionWorktree, SessionError> {
    let asked = event::worktree(event).ok_or_else(|| SessionError::usage("the event is no JSON object"))?;
    let repo = Repo::containing(asked.cwd.as_deref().filter(|cwd| cwd.is_dir()).unwrap_or(directory))?;
    let session = match (&asked.path, &asked.name) {
        (Some(path), _) => at_path(&repo, path)?,
        (None, Some(name)) => super::record(&repo, name)?,
        (None, None) => return Err(SessionError::usage("the event has neither a name nor a worktree_path")),
    };
    match super::discard(repo.work_dir(), &session.name, true, control)? {
        Discarded::Discarded { saved, .. } => Ok(SessionWorktree { worktree: session.worktree, saved }),
        Discarded::Refused { report, .. } => Err(SessionError::failed(report)),
    }
}

/// The session whose worktree is at `path`. Other worktrees are for whoever made them.
fn at_path(repo: &Repo, path: &Path) -> Result<SessionRecord, SessionError> {
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let found = SessionRecord::all(repo.common_dir())?.into_iter().find(|session| session.worktree == real);
    found.ok_or_else(|| {
        let hint = if real.parent().is_some_and(|above| above.ends_with(DIRECTORY)) { " any more" } else { "" };
        SessionError::usage(format!("{} is no worktree of a session{hint}", show(path)))
    })
}
