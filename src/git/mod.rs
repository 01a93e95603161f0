//! The one door to git: repositories, the worktree registry, the index file, objects, refs,
//! identity and the git program. Nothing outside this room names `git2`.

pub(crate) mod blobs;
pub(crate) mod cache_tree;
mod config;
pub(crate) mod gather;
mod hold;
pub(crate) mod identity;
pub(crate) mod index_file;
pub(crate) mod local;
mod locate;
pub(crate) mod lock_files;
mod loose;
pub(crate) mod merge_file;
pub(crate) mod modules;
pub(crate) mod nested;
pub(crate) mod pack;
pub(crate) mod program;
pub(crate) mod quarantine;
pub(crate) mod ref_files;
pub(crate) mod refs;
pub(crate) mod remote;
pub(crate) mod repository;
pub(crate) mod settings;
pub(crate) mod tree;
pub(crate) mod worktrees;

use std::path::{Path, PathBuf};

pub(crate) use git2::Oid;

use crate::control::Stop;

/// What went wrong in git or on the way to it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GitError {
    #[error("{act}: {}", one_line(source.message()))]
    Library { act: String, source: git2::Error },
    #[error("the git program is not on PATH, and {needed_for} needs it")]
    NoProgram { needed_for: String },
    #[error("git {command} failed: {words}")]
    Program { command: String, code: Option<i32>, words: String },
    #[error("{act} {}: {source}", show(path))]
    Io { act: &'static str, path: PathBuf, source: std::io::Error },
    #[error("{} exists: another git process is at work there; let it finish, or remove the file if none runs", show(.0))]
    Held(PathBuf),
    #[error("{what} moved meanwhile; try again")]
    Moved { what: String },
    #[error("this build can't read {what}")]
    Format { what: String },
    #[error("the object {id} of {} is missing from the repository; git fsck says what else is", show(path))]
    Missing { id: Oid, path: PathBuf },
    #[error(transparent)]
    Stopped(#[from] Stop),
}

impl GitError {
    pub(crate) fn io(act: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { act, path, source }
    }

    /// The stop that this error passes on, if it is one.
    pub(crate) fn stop(&self) -> Option<Stop> {
        match self {
            Self::Stopped(stop) => Some(*stop),
            _ => None,
        }
    }
}

/// Adds what was being done to an error of the library.
pub(crate) trait Act<T> {
    fn act(self, act: impl FnOnce() -> String) -> Result<T, GitError>;
}

impl<T> Act<T> for Result<T, git2::Error> {
    fn act(self, act: impl FnOnce() -> String) -> Result<T, GitError> {
        self.map_err(|source| GitError::Library { act: act(), source })
    }
}

/// Text for a message: on one line, without control characters.
pub(crate) fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ").chars().filter(|c| !c.is_control()).collect()
}

/// A path for a message: control characters as `?`, bytes that are not UTF-8 replaced.
pub(crate) fn show(path: impl AsRef<Path>) -> String {
    path.as_ref().to_string_lossy().chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
