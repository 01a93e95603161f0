//! Where sessions live: names, the branch, the worktree's path, and out of sight of `git status`.

use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::SessionError;
use crate::git::repository::Repo;
use crate::git::{GitError, show};
use crate::patch::store::{exclude, is_name};

/// What branches and worktrees of sessions start with where nobody says otherwise.
pub const DEFAULT_PREFIX: &str = "isofold";

/// The directory in the root of the main tree that holds the worktrees of its sessions.
pub(crate) const DIRECTORY: &str = ".worktrees";

/// Branch and worktree of a session that is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) name: String,
    /// The full name of the branch.
    pub(crate) branch: String,
    pub(crate) worktree: PathBuf,
}

impl Place {
    /// The place of the session `name` of the main tree at `main`.
    pub(crate) fn new(main: &Path, prefix: &str, name: &str) -> Result<Self, SessionError> {
        checked("name", name)?;
        checked("prefix", prefix)?;
        let branch = format!("refs/heads/{prefix}/{name}");
        if !Repo::is_ref_name(&branch) {
            return Err(SessionError::usage(format!("git takes no branch called {prefix}/{name}; use another name")));
        }
        let worktree = main.join(DIRECTORY).join(format!("{prefix}-{name}"));
        Ok(Self { name: name.to_owned(), branch, worktree })
    }
}

/// Refuses names that are no single, plain path segment.
pub(crate) fn checked(what: &str, name: &str) -> Result<(), SessionError> {
    if is_name(name) {
        return Ok(());
    }
    Err(SessionError::usage(format!(
        "the {what} {name:?} can't be used: letters, digits, `_`, `-` and, not at the start, `.`; at most 128"
    )))
}

/// A name that no other session has: milliseconds since the epoch, then what tells two of one moment
/// apart.
pub(crate) fn fresh_name() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut hasher = std::hash::RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.write_u128(now.as_nanos());
    format!("{}-{:06x}", now.as_millis(), hasher.finish() & 0xff_ffff)
}

/// Makes the directory of the worktrees, for its owner alone, and hides it from git.
pub(crate) fn prepare(repo: &Repo, main: &Path) -> Result<(), SessionError> {
    let directory = main.join(DIRECTORY);
    match DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let meta = fs::symlink_metadata(&directory).map_err(GitError::io("cannot read", &directory))?;
            if !meta.is_dir() {
                return Err(SessionError::failed(format!("{} is not a directory; move it away", show(&directory))));
            }
        }
        other => other.map_err(GitError::io("cannot make", &directory))?,
    }
    exclude(repo.common_dir(), &format!("{DIRECTORY}/"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_path_segments() {
        for good in ["a", "_x", "-", "1.2", "a-b_c.d", &"x".repeat(128)] {
            assert!(checked("name", good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", ".a", "a/b", "a b", "é", "a\n", &"x".repeat(129)] {
            assert!(checked("name", bad).is_err(), "{bad}");
        }
        let main = Path::new("/m");
        assert!(Place::new(main, "isofold", "a.lock").is_err(), "git takes no such ref");
        assert!(Place::new(main, "isofold", "a..b").is_err());
        let place = Place::new(main, "p", "s").expect("a place");
        assert_eq!(
            (place.branch.as_str(), place.worktree.as_path()),
            ("refs/heads/p/s", Path::new("/m/.worktrees/p-s"))
        );
    }
}
