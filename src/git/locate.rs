//! Finding repositories: the work tree that a path is in, the main checkout of a work tree, and the
//! commit that a revision names.

use std::fs;
use std::path::{Path, PathBuf};

use git2::{ErrorCode, Oid, Repository, RepositoryOpenFlags};

use super::quarantine::Quarantine;
use super::repository::{OpenError, Repo};
use super::{Act, GitError, one_line};
use crate::control::Control;

impl Repo {
    /// Opens the repository of the work tree that `directory` is in, at whatever depth.
    pub(crate) fn containing(directory: &Path) -> Result<Self, OpenError> {
        match Self::open(directory) {
            Err(OpenError::Subdirectory { root, .. }) => Self::open(&root),
            other => other,
        }
    }

    /// The root of the main checkout of this repository; `None` where there is none (a bare one).
    pub(crate) fn main_root(&self) -> Result<Option<PathBuf>, GitError> {
        let common = self.common_dir();
        let main = Repository::open_ext(common, RepositoryOpenFlags::NO_SEARCH, &[] as &[&Path]);
        let main = main.act(|| "cannot open the repository".to_owned())?;
        let Some(root) = main.workdir().filter(|_| !main.is_bare()) else { return Ok(None) };
        fs::canonicalize(root).map(Some).map_err(GitError::io("cannot find the main checkout", root))
    }

    /// The commit that `revision` names here; `Err` of the inner result in git's words.
    pub(crate) fn commit_named(&self, revision: &str, control: &Control) -> Result<Result<Oid, String>, GitError> {
        let wanted = format!("{revision}^{{commit}}");
        let asked = ["rev-parse", "--verify", "--end-of-options", &wanted];
        let finished = self.git().run(asked, None, control)?;
        if finished.code != Some(0) {
            return Ok(Err(one_line(&String::from_utf8_lossy(&finished.stderr))));
        }
        let text = String::from_utf8_lossy(&finished.stdout).into_owned();
        Ok(Oid::from_str(text.trim()).map_err(|_| format!("git rev-parse printed {text:?}")))
    }

    /// The tree and the message of a commit; `None` where there is no such commit.
    pub(crate) fn commit_text(&self, id: Oid) -> Result<Option<(Oid, String)>, GitError> {
        match self.library().find_commit(id) {
            Ok(found) => {
                let message = String::from_utf8_lossy(found.message_bytes()).into_owned();
                Ok(Some((found.tree_id(), message)))
            }
            Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
            Err(error) => Err(error).act(|| format!("cannot read commit {id}")),
        }
    }
}

impl Quarantine {
    /// The tree of a commit that is in the repository or here.
    pub(crate) fn tree_of(&self, commit: Oid) -> Result<Oid, GitError> {
        let found = self.repository()?.find_commit(commit).act(|| format!("cannot read commit {commit}"))?;
        Ok(found.tree_id())
    }
}
