//! Landing: the result into the Parent's files, index and HEAD, or everything as it was.

use super::history::Landed;
use super::pointers::Pointers;
use super::{FoldError, FoldRequest};
use crate::control::Control;
use crate::files::as_path;
use crate::git::program::Git;
use crate::git::quarantine::Quarantine;
use crate::git::refs::HeadLock;
use crate::git::repository::{Repo, plain_content};
use crate::git::tree::{Change, Objects};
use crate::git::{GitError, show};
use crate::records::{self, BaseEntry, Durable};
use crate::snapshot::{Snapshot, attributes_above};
use crate::write::WriteError;
use crate::write::index::{self, IndexLock};
use crate::write::plan::{self, Plan};
use crate::write::stage::Stage;
use crate::write::swap::Swap;

/// How many base entries of one pair are kept.
const KEPT_BASES: usize = 50;

/// The Parent as the snapshot saw it.
pub(crate) struct Ground<'a> {
    repo: &'a Repo,
    snapshot: &'a Snapshot,
    git: Git,
    file_mode: bool,
}

impl<'a> Ground<'a> {
    pub(crate) fn new(repo: &'a Repo, snapshot: &'a Snapshot) -> Result<Self, GitError> {
        Ok(Self { repo, snapshot, git: repo.git(), file_mode: repo.config_bool("core.fileMode", true)? })
    }

    fn view(&self) -> plan::Ground<'_> {
        plan::Ground {
            root: self.repo.work_dir(),
            index: &self.snapshot.index,
            git: &self.git,
            file_mode: self.file_mode,
        }
    }

    pub(crate) fn plan(&self, changes: &[Change], control: &Control) -> Result<Plan, WriteError> {
        plan::plan(&self.view(), changes, control)
    }

    pub(crate) fn stage(&self, plan: &Plan, quarantine: &Quarantine, control: &Control) -> Result<Stage, WriteError> {
        let git = quarantine.enter(self.git.clone())?;
        let unconverted = self.is_plain(plan)?.then_some(quarantine as &dyn Objects);
        Stage::new(&self.view(), plan, &git, self.repo.git_dir(), unconverted, control)
    }

    /// Whether nothing converts the content of the files that come: no setting, and no attributes file
    /// before or after.
    fn is_plain(&self, plan: &Plan) -> Result<bool, GitError> {
        let attributes = |path: &[u8]| path.rsplit(|b| *b == b'/').next() == Some(b".gitattributes");
        let index = &self.snapshot.index;
        let none = !plan.index.keys().any(|path| attributes(path))
            && !index.entries().iter().any(|entry| attributes(index.path(entry)))
            && !attributes_above(self.repo.work_dir(), plan.index.keys().map(Vec::as_slice));
        Ok(none && plain_content(self.repo)?)
    }
}

/// All that a landing needs; HEAD and index are locked.
pub(super) struct Writing<'a> {
    pub(super) ground: &'a Ground<'a>,
    pub(super) plan: &'a Plan,
    pub(super) quarantine: &'a Quarantine,
    pub(super) pointers: Pointers,
    pub(super) index_lock: IndexLock,
    pub(super) head_lock: HeadLock<'a>,
}

/// What came after the commit point: the work has landed, whatever is said here.
#[derive(Default)]
pub(super) struct Aftermath {
    /// Refs that keep late writes.
    pub(super) saved: Vec<String>,
    pub(super) warnings: Vec<String>,
}

impl Writing<'_> {
    /// Files, index beside, objects, then the ref: the commit point.
    pub(super) fn write(
        self,
        stage: Stage,
        landed: &Landed,
        request: &FoldRequest,
        entry: &BaseEntry,
        control: &Control,
    ) -> Result<Aftermath, FoldError> {
        let Self { ground, plan, quarantine, mut pointers, mut index_lock, head_lock } = self;
        let repo = ground.repo;
        control.check().map_err(GitError::from)?;
        let swap = Swap::carry_out(repo.work_dir(), plan, stage, control)?;
        let bytes = index::after(&swap, &ground.snapshot.index, plan);
        let message = format!("isofold: fold of {}", crate::git::one_line(&request.id));
        let advanced = index_lock
            .write(&bytes)
            .and_then(|()| Ok(control.check()?))
            // Only now: a fold that could not write the files leaves no objects either.
            .and_then(|()| quarantine.release())
            .and_then(|()| pointers.carry())
            .and_then(|()| head_lock.advance(landed.head, &landed.who, &message));
        if let Err(error) = advanced {
            pointers.undo();
            swap.undo()?;
            return Err(error.into());
        }
        // The work has landed. What fails from here on must not make it look as if it had not.
        let mut after = Aftermath::default();
        if let Err(error) = index_lock.commit() {
            after.warnings.push(format!("{error}; git reset in the Parent brings its index to HEAD"));
        }
        let kept = swap.keep(|late| {
            let content = std::fs::read(&late.file).map_err(GitError::io("cannot read", &late.file))?;
            after.saved.push(repo.save_blob(&show(as_path(&late.path)), &content)?);
            Ok(())
        });
        if let Err(error) = kept {
            after.warnings.push(format!("a replaced file could not be looked at again: {error}"));
        }
        let recorded = entry
            .record(repo, Durable::Now)
            .and_then(|_| records::forget_oldest(repo, &entry.pair[0], &entry.pair[1], KEPT_BASES));
        if let Err(error) = recorded {
            after.warnings.push(format!("the base of the next fold could not be recorded: {error}"));
        }
        Ok(after)
    }
}
