//! Taking back what an isolation made so far.

use std::path::PathBuf;

use crate::files::remove::remove_worktree;
use crate::git::repository::Repo;
use crate::git::{Oid, worktrees};
use crate::records;

enum Made {
    /// The registry's directory; goes again if it is empty.
    Registry,
    Ancestor(PathBuf),
    Child(PathBuf),
    Admin(PathBuf),
    Branch {
        name: String,
        before: Option<Oid>,
    },
    Base(String),
    Saved(String),
}

/// Undoes on drop, in reverse order, unless disarmed.
pub(super) struct Undo<'repo> {
    repo: &'repo Repo,
    made: Vec<Made>,
}

impl<'repo> Undo<'repo> {
    pub(super) fn new(repo: &'repo Repo) -> Self {
        Self { repo, made: Vec::new() }
    }

    pub(super) fn registry(&mut self) {
        self.made.push(Made::Registry);
    }

    pub(super) fn ancestor(&mut self, path: PathBuf) {
        self.made.push(Made::Ancestor(path));
    }

    pub(super) fn child(&mut self, path: PathBuf) {
        self.made.push(Made::Child(path));
    }

    pub(super) fn admin(&mut self, path: PathBuf) {
        self.made.push(Made::Admin(path));
    }

    pub(super) fn branch(&mut self, name: String, before: Option<Oid>) {
        self.made.push(Made::Branch { name, before });
    }

    pub(super) fn base(&mut self, name: String) {
        self.made.push(Made::Base(name));
    }

    pub(super) fn saved(&mut self, name: String) {
        self.made.push(Made::Saved(name));
    }

    pub(super) fn disarm(mut self) {
        self.made.clear();
    }
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        while let Some(made) = self.made.pop() {
            let what = match made {
                Made::Registry => {
                    std::fs::remove_dir(self.repo.common_dir().join("worktrees")).err().map(|_| String::new())
                }
                Made::Ancestor(path) => std::fs::remove_dir(&path).err().map(|e| format!("{}: {e}", path.display())),
                Made::Child(path) => remove_worktree(&path).err().map(|e| e.to_string()),
                Made::Admin(path) => worktrees::unregister(self.repo.common_dir(), &path).err().map(|e| e.to_string()),
                Made::Branch { name, before } => self.repo.restore_branch(&name, before).err().map(|e| e.to_string()),
                Made::Saved(name) => self.repo.remove_ref(&name).err().map(|e| e.to_string()),
                Made::Base(name) => records::forget(self.repo, &name).err().map(|e| e.to_string()),
            };
            if let Some(what) = what.filter(|what| !what.is_empty()) {
                tracing::warn!(%what, "not everything could be taken back");
            }
        }
    }
}
