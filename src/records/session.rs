//! The record of a session: `<common git dir>/isofold/sessions/<name>.toml`, with the base commit kept
//! alive by the ref `refs/isofold/session/<name>`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{VERSION, names_in, oid, path_text, read, text_path, write_atomic};
use crate::files::owner::Owner;
use crate::git::refs::SESSIONS;
use crate::git::repository::Repo;
use crate::git::{GitError, Oid};

/// What is remembered of a session.
#[derive(Debug, Clone)]
pub(crate) struct SessionRecord {
    pub(crate) name: String,
    /// The full name of its branch.
    pub(crate) branch: String,
    pub(crate) worktree: PathBuf,
    /// The main tree: the root of the worktree that it was started from.
    pub(crate) main: PathBuf,
    /// The main tree's branch at the start, a full ref name; none where HEAD was detached.
    pub(crate) main_branch: Option<String>,
    /// The commit that the work of the session is counted from.
    pub(crate) base: Oid,
    /// HEAD of the session at the start; none on an unborn branch.
    pub(crate) head: Option<Oid>,
    /// When it was complete, by the clock of its file system: seconds, nanoseconds since the epoch.
    pub(crate) ready: (i64, i64),
    /// The command that `session run` has in it, and since when (seconds since the epoch).
    pub(crate) running: Option<(Owner, u64)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Running {
    since: u64,
    owner: Owner,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    name: String,
    branch: String,
    worktree: String,
    main: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    main_branch: Option<String>,
    base: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<String>,
    ready_seconds: i64,
    ready_nanoseconds: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    running: Option<Running>,
}

fn directory(common: &Path) -> PathBuf {
    common.join("isofold").join("sessions")
}

fn file(common: &Path, name: &str) -> PathBuf {
    directory(common).join(format!("{name}.toml"))
}

impl SessionRecord {
    /// The session of that name, if there is one. The name has to be valid.
    pub(crate) fn find(common: &Path, name: &str) -> Result<Option<Self>, GitError> {
        let stored: Option<Stored> = read(&file(common, name))?;
        stored.map(Self::from_stored).transpose()
    }

    /// All sessions, oldest first.
    pub(crate) fn all(common: &Path) -> Result<Vec<Self>, GitError> {
        let mut found = Vec::new();
        for name in names_in(&directory(common))? {
            // Gone meanwhile: it was kept or discarded.
            found.extend(Self::find(common, &name)?);
        }
        found.sort_by(|a, b| (a.ready, &a.name).cmp(&(b.ready, &b.name)));
        Ok(found)
    }

    /// Writes a new record, its ref first; `false` where the name is taken.
    pub(crate) fn create(&self, repo: &Repo) -> Result<bool, GitError> {
        let to = file(repo.common_dir(), &self.name);
        if to.exists() {
            return Ok(false);
        }
        repo.set_hidden_ref(&self.reference(), self.base)?;
        let text = self.text()?;
        let written = || -> std::io::Result<bool> {
            let directory = directory(repo.common_dir());
            std::fs::create_dir_all(&directory)?;
            let mut temporary = tempfile::Builder::new().prefix(".isofold-").tempfile_in(&directory)?;
            temporary.write_all(text.as_bytes())?;
            temporary.as_file().sync_data()?;
            match temporary.persist_noclobber(&to) {
                Ok(_) => Ok(true),
                Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
                Err(error) => Err(error.error),
            }
        };
        written().map_err(GitError::io("cannot write", &to))
    }

    /// Replaces the record.
    pub(crate) fn update(&self, common: &Path) -> Result<(), GitError> {
        write_atomic(&file(common, &self.name), &self.text()?, super::Durable::Now)
    }

    /// Forgets the session, the record first.
    pub(crate) fn forget(&self, repo: &Repo) -> Result<(), GitError> {
        let file = file(repo.common_dir(), &self.name);
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(GitError::io("cannot remove", &file)(error));
            }
            _ => {}
        }
        repo.remove_ref(&self.reference())?;
        // Fails while there are others.
        let directory = directory(repo.common_dir());
        let _ = std::fs::remove_dir(&directory);
        let _ = directory.parent().map(std::fs::remove_dir);
        Ok(())
    }

    fn reference(&self) -> String {
        format!("{SESSIONS}{}", self.name)
    }

    fn text(&self) -> Result<String, GitError> {
        let stored = Stored {
            version: VERSION,
            name: self.name.clone(),
            branch: self.branch.clone(),
            worktree: path_text(&self.worktree),
            main: path_text(&self.main),
            main_branch: self.main_branch.clone(),
            base: self.base.to_string(),
            head: self.head.map(|id| id.to_string()),
            ready_seconds: self.ready.0,
            ready_nanoseconds: self.ready.1,
            running: self.running.clone().map(|(owner, since)| Running { since, owner }),
        };
        toml::to_string(&stored).map_err(|e| GitError::Format { what: format!("the record of a session ({e})") })
    }

    fn from_stored(stored: Stored) -> Result<Self, GitError> {
        Ok(Self {
            name: stored.name,
            branch: stored.branch,
            worktree: text_path(&stored.worktree),
            main: text_path(&stored.main),
            main_branch: stored.main_branch,
            base: oid(&stored.base)?,
            head: stored.head.as_deref().map(oid).transpose()?,
            ready: (stored.ready_seconds, stored.ready_nanoseconds),
            running: stored.running.map(|running| (running.owner, running.since)),
        })
    }
}
