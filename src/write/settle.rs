//! The end of a landing, whichever it is: all new, or all old. The same for the process that lands and
//! for one that recovers after it.

use std::fs;
use std::path::{Path, PathBuf};

use super::journal::{Apply, Journal, Record};
use super::room::{Room, from_text};
use super::swap::{Places, touched};
use super::sync::Syncer;
use super::undo::{self, Found};
use super::{WriteError, crash};
use crate::files::as_path;
use crate::git::modules::Module;
use crate::git::ref_files::{append_reflog, retract_reflog};
use crate::git::repository::Repo;
use crate::git::{GitError, Oid, show};
use crate::records;

/// What there is to say about an end.
#[derive(Debug, Default, Clone)]
pub(crate) struct Aftermath {
    /// Refs that keep what somebody wrote to a file while it was being replaced, or what had no place in
    /// the directory any more.
    pub(crate) saved: Vec<String>,
    /// Paths at which somebody else's content stays.
    pub(crate) kept: Vec<PathBuf>,
    /// What failed without changing the outcome, each with the way on.
    pub(crate) warnings: Vec<String>,
}

/// A landing that has to come to an end.
pub(super) struct Ending<'a> {
    pub(super) repo: &'a Repo,
    pub(super) room: Room,
    pub(super) rooms: Vec<PathBuf>,
    pub(super) journal: Journal,
    pub(super) apply: &'a Apply,
}

impl Ending<'_> {
    /// All new: the commit point has been passed. An error means that a later try may get further;
    /// everything stays for it.
    pub(super) fn forward(
        mut self,
        places: &Places,
        forget: impl FnOnce() -> Result<Vec<String>, GitError>,
        syncer: &mut Syncer,
    ) -> Result<Aftermath, WriteError> {
        let mut after = Aftermath::default();
        self.index(&mut after)?;
        crash::point("index-moved");
        if let Some(moves) = &self.apply.moves {
            for log in &moves.logs {
                // Written before the commit point; only a power failure can have lost it.
                if let Err(error) = append_reflog(&from_text(log), &moves.reflog) {
                    after.warnings.push(error.to_string());
                }
            }
        }
        let found = undo::make_sure(self.apply, places)?;
        self.note(found, "late-", &mut after)?;
        if let Some(base) = &self.apply.base {
            let commit = Oid::from_str(&base.commit)
                .map_err(|_| GitError::Format { what: "the base entry in a journal".to_owned() })?;
            let put = || records::put(self.repo, &self.room.id, commit, &base.text, self.room.path());
            if let Err(error) = syncer.timed(put) {
                after.warnings.push(format!("the base of the next fold could not be recorded: {error}"));
            }
        }
        crash::point("base-recorded");
        let refs = forget().unwrap_or_else(|error| {
            after.warnings.push(format!("old base entries stay: {error}"));
            Vec::new()
        });
        self.close(&[], syncer)?;
        after.warnings.extend(self.room.clear(self.repo, &self.rooms, &refs));
        Ok(after)
    }

    /// All old: the commit point was not reached. An error means that not everything could be put back;
    /// everything stays for another try.
    pub(super) fn back(mut self, places: &Places, syncer: &mut Syncer) -> Result<Aftermath, WriteError> {
        let mut after = Aftermath::default();
        let found = undo::take_back(self.apply, places)?;
        crash::point("undone");
        self.note(found, "kept-", &mut after)?;
        if let Some(moves) = &self.apply.moves {
            for log in &moves.logs {
                retract_reflog(&from_text(log), &moves.reflog)?;
            }
        }
        for (git_dir, name) in &self.apply.carried {
            let git_dir = from_text(git_dir);
            if let Err(error) = Module::open(&git_dir).and_then(|module| module.remove_ref(name)) {
                after.warnings.push(format!("a submodule's ref could not be taken back: {error}"));
            }
        }
        self.close(&touched(self.apply, places), syncer)?;
        after.warnings.extend(self.room.clear(self.repo, &self.rooms, &[]));
        Ok(after)
    }

    /// The new index into place. Its lock has to be ours still: else somebody works with the old one.
    fn index(&self, after: &mut Aftermath) -> Result<(), WriteError> {
        if !self.apply.index || !self.room.index().exists() {
            return Ok(());
        }
        let index = self.repo.place().index_path();
        if !self.room.locks().first().is_some_and(crate::git::lock_files::GitLock::is_ours) {
            after.warnings.push(format!(
                "{} was not renewed, because its lock was taken away; git reset there brings it to HEAD",
                show(&index)
            ));
            return Ok(());
        }
        fs::rename(self.room.index(), &index).map_err(GitError::io("cannot replace", &index))?;
        Ok(())
    }

    /// Saves what has no place; the names come back in the aftermath.
    fn note(&self, found: Found, label: &str, after: &mut Aftermath) -> Result<(), WriteError> {
        for (path, file) in found.homeless {
            after.saved.push(self.repo.save_file(&format!("{label}{}", show(as_path(&path))), &file)?);
        }
        after.kept.extend(found.kept.iter().map(|path| as_path(path).to_owned()));
        after.kept.sort();
        after.kept.dedup();
        Ok(())
    }

    /// All is in its place and on the disk: says so in the journal.
    fn close(&mut self, more: &[PathBuf], syncer: &mut Syncer) -> Result<(), WriteError> {
        let mut paths = more.to_vec();
        paths.push(self.repo.git_dir().to_owned());
        syncer.settle(&paths, [self.repo.work_dir(), self.repo.git_dir()])?;
        // On a full disk there may be no room for the record: without it a crash in the next moments
        // would be judged by the ref once more.
        if let Err(error) = syncer.timed(|| self.journal.write(&Record::Done)) {
            tracing::warn!(%error, "the end of a landing could not be noted");
        }
        crash::point("done-recorded");
        Ok(())
    }
}

/// The rooms that a journal names, as far as they are there.
pub(super) fn rooms_of(records: &[Record]) -> Vec<PathBuf> {
    let named = records.iter().find_map(|record| match record {
        Record::Stage { rooms } => Some(rooms),
        _ => None,
    });
    named.into_iter().flatten().map(|room| from_text(room)).collect()
}

/// Whether a directory is there.
pub(super) fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
