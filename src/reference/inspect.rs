//! Whether a directory is a copy of the line: in process, without the network.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Reference;
use super::remote::without_credentials;
use crate::git::repository::{OpenError, Repo};
use crate::git::{GitError, one_line, show};

/// What a directory is to a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inspection {
    /// There is nothing at that path.
    Missing,
    /// It is a copy of the line.
    Matches,
    /// It is something else; the text says what.
    Mismatch(String),
}

/// Why a directory could not be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InspectError {
    /// The system refused.
    #[error("cannot read {}: {source}", show(path))]
    Read {
        /// What could not be read.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is a repository, but of a kind that can't be read here.
    #[error("{0}")]
    Repository(String),
}

impl From<GitError> for InspectError {
    fn from(error: GitError) -> Self {
        Self::Repository(error.to_string())
    }
}

impl Reference {
    /// Looks whether `copy` is a copy of this line. Nothing is written, and nobody is asked.
    ///
    /// # Errors
    /// [`InspectError`] where that can't be told.
    pub fn inspect(&self, copy: &Path) -> Result<Inspection, InspectError> {
        let here = show(copy);
        let mismatch = |why: String| Ok(Inspection::Mismatch(why));
        let read = |source| InspectError::Read { path: copy.to_owned(), source };
        match fs::symlink_metadata(copy) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Inspection::Missing),
            found => found.map_err(read)?,
        };
        match fs::metadata(copy) {
            Ok(meta) if meta.is_dir() => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(read(error)),
            _ => return mismatch(format!("{here} exists and is not a directory")),
        }
        let repo = match Repo::open(copy) {
            Ok(repo) => repo,
            Err(OpenError::NotARepository(_) | OpenError::Subdirectory { .. } | OpenError::Bare(_)) => {
                return mismatch(format!("{here} is not a git tree"));
            }
            Err(error) => return Err(InspectError::Repository(error.to_string())),
        };
        let Some(origin) = repo.origin()? else {
            return mismatch(format!("{here} has no \"origin\" remote"));
        };
        if !self.remote.is_spelled(&origin) {
            let origin = one_line(&without_credentials(&origin));
            return mismatch(format!("{here} has \"origin\" at {origin}, not {}", self.remote()));
        }
        let head = repo.head()?;
        // Detached, git itself calls it so.
        let name = head.branch.as_deref().unwrap_or("HEAD");
        let branch = name.strip_prefix("refs/heads/").unwrap_or(name);
        if head.branch.is_none() || branch != self.branch {
            return mismatch(format!("{here} is on \"{}\", not \"{}\"", one_line(branch), self.branch));
        }
        Ok(Inspection::Matches)
    }
}
