//! Starting a session: a Child inside the main tree.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::place::{self, Place};
use super::{Session, SessionError};
use crate::control::Control;
use crate::git::repository::Repo;
use crate::git::{GitError, Oid, show};
use crate::invocation::Places;
use crate::isolate::{self, Isolation, Wanted};
use crate::options::{DEFAULT_EXCLUDES, IsolationOptions};
use crate::records::SessionRecord;
use crate::snapshot::PathRules;

/// The file at the root of the main tree that lets in what the default exclude list would leave out,
/// in the syntax of gitignore(5).
const INCLUDE_FILE: &str = ".worktreeinclude";

/// How many names are tried.
const TRIES: usize = 5;

/// What session to start.
#[derive(Debug, Clone)]
pub struct StartRequest {
    /// Its name; `None` makes one up.
    pub name: Option<String>,
    /// What its branch and its worktree start with; default [`DEFAULT_PREFIX`](super::DEFAULT_PREFIX).
    pub prefix: String,
    /// The commit to start from; `None` starts from the working files as they are.
    pub from: Option<String>,
}

impl Default for StartRequest {
    fn default() -> Self {
        Self { name: None, prefix: place::DEFAULT_PREFIX.to_owned(), from: None }
    }
}

/// A session that was started.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Started {
    /// The session.
    pub session: Session,
    /// How it was filled; `None` where it was checked out from a commit.
    pub isolation: Option<Isolation>,
}

/// Starts a session in the worktree that `at` lies in.
///
/// # Errors
/// [`SessionError`]; nothing is left then.
pub fn start(at: &Path, request: &StartRequest, control: &Control) -> Result<Started, SessionError> {
    let repo = Repo::containing(at)?;
    let main = repo.work_dir().to_owned();
    let options = IsolationOptions::of_parent(&main).map_err(|error| SessionError::usage(error.to_string()))?;
    // What can't be used is refused before anything is made.
    Place::new(&main, &request.prefix, request.name.as_deref().unwrap_or("0"))?;
    let from = match &request.from {
        None => None,
        Some(from) => Some(
            repo.commit_named(from, control)?
                .map_err(|words| SessionError::failed(format!("{from} names no commit: {words}")))?,
        ),
    };
    let include = include(&main, &options)?;
    place::prepare(&repo, &main)?;
    let mut last = None;
    for _ in 0..TRIES {
        let name = request.name.clone().unwrap_or_else(place::fresh_name);
        let place = Place::new(&main, &request.prefix, &name)?;
        if let Some(taken) = taken(&repo, &place)? {
            if request.name.is_some() {
                return Err(taken);
            }
            last = Some(taken);
            continue;
        }
        return make(&repo, &place, &options, include.as_ref(), from, control);
    }
    Err(last.unwrap_or_else(|| SessionError::failed("no free name was found")))
}

/// What stands where the session would.
fn taken(repo: &Repo, place: &Place) -> Result<Option<SessionError>, SessionError> {
    let found = if SessionRecord::find(repo.common_dir(), &place.name)?.is_some() {
        format!("there is a session {} already", place.name)
    } else if repo.ref_id(&place.branch)?.is_some() {
        format!("there is a branch {} already", place.branch.trim_start_matches("refs/heads/"))
    } else if place.worktree.symlink_metadata().is_ok() {
        format!("{} is there already", show(&place.worktree))
    } else {
        return Ok(None);
    };
    Ok(Some(SessionError::failed(format!("{found}; choose another name"))))
}

/// The rules of the include file; none where it says nothing or the exclude list is the user's own.
fn include(main: &Path, options: &IsolationOptions) -> Result<Option<PathRules>, SessionError> {
    if options.excludes().patterns() != DEFAULT_EXCLUDES {
        return Ok(None);
    }
    let file = main.join(INCLUDE_FILE);
    match fs::symlink_metadata(&file) {
        Ok(meta) if meta.is_file() => {
            let text = fs::read(&file).map_err(GitError::io("cannot read", &file))?;
            Ok(Some(PathRules::parse(&text)))
        }
        // As git does with ignore files, a link is not followed.
        _ => Ok(None),
    }
}

fn make(
    repo: &Repo,
    place: &Place,
    options: &IsolationOptions,
    include: Option<&PathRules>,
    from: Option<Oid>,
    control: &Control,
) -> Result<Started, SessionError> {
    let main = repo.work_dir();
    let head = repo.head()?;
    let places = Places { parent: main.to_owned(), child: place.worktree.clone() };
    let wanted =
        Wanted { id: Some(&place.name), branch: Some(place.branch.clone()), excludes: options.excludes(), include };
    let isolation = match from {
        Some(commit) => isolate::checkout::check_out(&wanted, &places, commit, control)?,
        None => isolate::make(&wanted, &places, control)?,
    };
    let recorded = || -> Result<SessionRecord, SessionError> {
        let base = Oid::from_str(&isolation.base)
            .map_err(|_| GitError::Format { what: format!("the base {}", isolation.base) })?;
        let git_file = place.worktree.join(".git");
        // A change of nothing: its time is by the file system's own clock, after all that was filled in.
        let ready = fs::symlink_metadata(&git_file)
            .and_then(|meta| fs::set_permissions(&git_file, meta.permissions()))
            .and_then(|()| fs::symlink_metadata(&git_file))
            .map_err(GitError::io("cannot write", &git_file))?;
        let record = SessionRecord {
            name: place.name.clone(),
            branch: place.branch.clone(),
            worktree: place.worktree.clone(),
            main: main.to_owned(),
            main_branch: head.branch,
            base,
            head: from.or(head.id),
            ready: (ready.ctime(), ready.ctime_nsec()),
            running: None,
        };
        if record.create(repo)? {
            return Ok(record);
        }
        Err(SessionError::failed(format!("there is a session {} already; choose another name", place.name)))
    };
    match recorded() {
        Ok(record) => {
            let isolation = from.is_none().then_some(isolation);
            Ok(Started { session: Session::of(&record), isolation })
        }
        Err(error) => {
            // It was made in this run and holds nothing of its own.
            isolate::remove::remove(&place.worktree, true, &Control::new());
            repo.remove_ref(&place.branch)?;
            Err(error)
        }
    }
}
