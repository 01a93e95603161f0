//! Where a session is: its name, its branch, its worktree.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::git::GitError;
use crate::patch::store::{exclude, is_name};

/// The directory in the root of a work tree that holds its sessions.
pub(crate) const DIRECTORY: &str = ".worktrees";

/// The line in `info/exclude` that hides it.
const EXCLUDED: &str = ".worktrees/";

/// What the branches of sessions start with.
pub(crate) const PREFIX: &str = "isofold";

/// The place of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// `S`.
    pub(crate) name: String,
    /// `refs/heads/P/S`.
    pub(crate) branch: String,
    /// `.worktrees/P-S` in the main tree.
    pub(crate) worktree: PathBuf,
}

impl Place {
    /// The place of the session `name` of the main tree at `root`; `None` for what is no name.
    pub(crate) fn of(root: &Path, prefix: &str, name: &str) -> Option<Self> {
        // Branches know more rules than agents.
        let fit = is_name(name) && !name.contains("..") && !name.ends_with('.') && !name.ends_with(".lock");
        fit.then(|| Self {
            name: name.to_owned(),
            branch: format!("refs/heads/{prefix}/{name}"),
            worktree: root.join(DIRECTORY).join(format!("{prefix}-{name}")),
        })
    }
}

/// A name that no other session has: `<ms>-<hex>`.
pub(crate) fn fresh_name() -> String {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = std::hash::RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    hasher.write_u128(now.as_nanos());
    format!("{}-{:08x}", now.as_millis(), hasher.finish() >> 32)
}

/// Makes the directory of sessions, for its owner alone, and hides it from git.
pub(crate) fn prepare(root: &Path, common: &Path) -> Result<(), GitError> {
    exclude(common, EXCLUDED)?;
    let directory = root.join(DIRECTORY);
    match fs::DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(GitError::io("cannot make", &directory)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_branches_and_places() {
        let root = Path::new("/main");
        let place = Place::of(root, PREFIX, "a.b").expect("a name");
        assert_eq!(place.branch, "refs/heads/isofold/a.b");
        assert_eq!(place.worktree, Path::new("/main/.worktrees/isofold-a.b"));
        for name in ["", "a/b", "a..b", "a.lock", "a.", ".a", "a b"] {
            assert_eq!(Place::of(root, PREFIX, name), None, "{name}");
        }
        let (one, two) = (fresh_name(), fresh_name());
        assert!(Place::of(root, PREFIX, &one).is_some() && one != two, "{one} {two}");
    }
}
