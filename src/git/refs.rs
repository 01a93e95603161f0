//! Refs: moving a branch safely, keeping work under `refs/isofold/`, and a lock on HEAD and its
//! branch that is held from before the first look to the commit.

use git2::{ErrorCode, Oid, Reference, Transaction};

use super::identity::Identity;
use super::repository::{Head, Repo};
use super::{Act, GitError};

/// The namespace of all hidden refs.
pub(crate) const SAVED: &str = "refs/isofold/saved/";
pub(crate) const BASES: &str = "refs/isofold/base/";

impl Repo {
    /// Points a hidden ref at a commit, whatever it pointed at before; no reflog.
    pub(crate) fn set_hidden_ref(&self, name: &str, id: Oid) -> Result<(), GitError> {
        let set = self.library().reference(name, id, true, "isofold");
        set.map(drop).act(|| format!("cannot write {name}"))
    }

    /// Removes a ref if it is there.
    pub(crate) fn remove_ref(&self, name: &str) -> Result<(), GitError> {
        match self.library().find_reference(name).and_then(|mut found| found.delete()) {
            Err(error) if error.code() != ErrorCode::NotFound => Err(error).act(|| format!("cannot remove {name}")),
            _ => Ok(()),
        }
    }

    /// Creates or moves a branch, if it still is at `from` (none: does not exist).
    pub(crate) fn move_branch(&self, name: &str, from: Option<Oid>, to: Oid, message: &str) -> Result<(), GitError> {
        let act = || format!("cannot move {name}");
        match from {
            Some(from) => self.library().reference_matching(name, to, true, from, message).map(drop).act(act),
            None => self.library().reference(name, to, false, message).map(drop).act(act),
        }
    }

    /// Puts a branch back to where it was, or away.
    pub(crate) fn restore_branch(&self, name: &str, before: Option<Oid>) -> Result<(), GitError> {
        match before {
            Some(before) => {
                let set = self.library().reference(name, before, true, "isofold: isolate taken back");
                set.map(drop).act(|| format!("cannot restore {name}"))
            }
            None => self.remove_ref(name),
        }
    }

    /// A ref that stands where the branch `name` has to be: `refs/heads/a` or `…/a/b/c` for `a/b`.
    pub(crate) fn ref_in_the_way(&self, name: &str) -> Result<Option<String>, GitError> {
        let mut above = name;
        while let Some((parent, _)) = above.rsplit_once('/') {
            if parent == "refs/heads" {
                break;
            }
            if self.ref_id(parent)?.is_some() {
                return Ok(Some(parent.to_owned()));
            }
            above = parent;
        }
        let act = || "cannot list the refs".to_owned();
        let mut below = self.library().references_glob(&format!("{name}/*")).act(act)?;
        let first = below.next().transpose().act(act)?;
        Ok(first.map(|found| String::from_utf8_lossy(found.name_bytes()).into_owned()))
    }

    /// Whether `id` would be reachable from no ref and no work tree's HEAD, were `without` gone.
    pub(crate) fn only_reached_by(&self, id: Oid, without: &str, also: Option<Oid>) -> Result<bool, GitError> {
        let act = || "cannot walk the history".to_owned();
        let mut walk = self.library().revwalk().act(act)?;
        walk.push(id).act(act)?;
        let mut hide = |tip: Oid| match walk.hide(tip) {
            // Refs may point at trees, blobs or objects that are gone.
            Err(_) => Ok::<(), GitError>(()),
            Ok(()) => Ok(()),
        };
        for found in self.library().references().act(act)? {
            let found: Reference<'_> = found.act(act)?;
            let hidden = found.name_bytes().starts_with(BASES.as_bytes());
            if found.name_bytes() == without.as_bytes() || hidden {
                continue;
            }
            if let Ok(commit) = found.peel_to_commit() {
                hide(commit.id())?;
            }
        }
        if let Some(also) = also {
            hide(also)?;
        }
        Ok(walk.next().is_some())
    }

    /// The name of the ref that saves a commit: `refs/isofold/saved/<label>-<id>`.
    pub(crate) fn saved_name(label: &str, id: Oid) -> String {
        let label: String =
            label.chars().map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' }).collect();
        format!("{SAVED}{}-{}", label.trim_matches('-'), &id.to_string()[..12])
    }

    /// Saves a commit under its [`Self::saved_name`] and returns that.
    pub(crate) fn save(&self, label: &str, id: Oid) -> Result<String, GitError> {
        let name = Self::saved_name(label, id);
        self.set_hidden_ref(&name, id)?;
        Ok(name)
    }

    /// Saves content that has no place in a tree; returns the ref's name.
    pub(crate) fn save_blob(&self, label: &str, content: &[u8]) -> Result<String, GitError> {
        let id = self.library().blob(content).act(|| "cannot write a blob".to_owned())?;
        self.save(&format!("late-{label}"), id)
    }

    /// Whether somebody holds the lock of HEAD or of its branch, without taking either.
    pub(crate) fn check_head_locks(&self, head: &Head) -> Result<(), GitError> {
        let branch = head.branch.as_ref().map(|name| self.common_dir().join(format!("{name}.lock")));
        let locks = [Some(self.git_dir().join("HEAD.lock")), branch];
        match locks.into_iter().flatten().find(|lock| lock.symlink_metadata().is_ok()) {
            Some(lock) => Err(GitError::Held(lock)),
            None => Ok(()),
        }
    }

    /// Locks HEAD and the branch it is on, then reads them.
    pub(crate) fn lock_head(&self) -> Result<HeadLock<'_>, GitError> {
        let act = || "cannot lock HEAD".to_owned();
        let before = self.head()?;
        self.check_head_locks(&before)?;
        let mut transaction = self.library().transaction().act(act)?;
        transaction.lock_ref("HEAD").map_err(|e| busy(e, "HEAD"))?;
        if let Some(branch) = &before.branch {
            transaction.lock_ref(branch).map_err(|e| busy(e, branch))?;
        }
        let head = self.head()?;
        if head.branch != before.branch {
            return Err(GitError::Library {
                act: "HEAD".to_owned(),
                source: git2::Error::from_str("moved meanwhile; try again"),
            });
        }
        Ok(HeadLock { transaction, head })
    }
}

fn busy(error: git2::Error, name: &str) -> GitError {
    GitError::Library { act: format!("{name} is locked by another git process"), source: error }
}

/// HEAD and its branch, locked until this is dropped or advanced.
pub(crate) struct HeadLock<'repo> {
    transaction: Transaction<'repo>,
    head: Head,
}

impl HeadLock<'_> {
    /// What HEAD says, and will go on saying while this is held.
    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    /// Points HEAD's branch, or a detached HEAD, at `to`, and lets go.
    pub(crate) fn advance(mut self, to: Oid, who: &Identity, message: &str) -> Result<(), GitError> {
        let name = self.head.branch.as_deref().unwrap_or("HEAD");
        let act = || format!("cannot move {name}");
        self.transaction.set_target(name, to, Some(&who.committer), message).act(act)?;
        self.transaction.commit().act(act)
    }
}
