//! Landing: the result into the Parent's files, index and HEAD, or everything as it was.

use super::history::Landed;
use super::phases::Phases;
use super::pointers::Pointers;
use super::{FoldError, FoldRequest, KEPT_BASES};
use crate::control::Control;
use crate::git::program::Git;
use crate::git::quarantine::Quarantine;
use crate::git::repository::Repo;
use crate::git::settings::plain_content;
use crate::git::tree::{Change, Objects};
use crate::git::{GitError, Oid};
use crate::records::{self, BaseEntry};
use crate::snapshot::{Snapshot, SparseRules, attributes_above};
use crate::write::WriteError;
use crate::write::plan::{self, HasFile, Plan};
use crate::write::recover::Aftermath;
use crate::write::writer::{Along, Moving, Writer};

/// The Parent as the snapshot saw it.
pub(crate) struct Ground<'a> {
    repo: &'a Repo,
    snapshot: &'a Snapshot,
    git: Git,
    file_mode: bool,
    sparse: Option<SparseRules>,
}

impl<'a> Ground<'a> {
    pub(crate) fn new(repo: &'a Repo, snapshot: &'a Snapshot) -> Result<Self, GitError> {
        let file_mode = repo.config_bool("core.fileMode", true)?;
        Ok(Self { repo, snapshot, git: repo.git(), file_mode, sparse: None })
    }

    /// New files that a sparse checkout does not have stay away from the disk.
    pub(super) fn sparse(mut self) -> Result<Self, GitError> {
        if self.repo.config_bool("core.sparseCheckout", false)? {
            let file = self.repo.git_dir().join("info/sparse-checkout");
            let casefold = self.repo.config_bool("core.ignoreCase", false)?;
            self.sparse = match std::fs::read(&file) {
                Ok(text) => Some(SparseRules::parse(&text, casefold)),
                // Without the file all of it is checked out.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(error) => return Err(GitError::io("cannot read", &file)(error)),
            };
        }
        Ok(self)
    }

    fn view<'v>(&'v self, sparse: Option<&'v HasFile<'v>>) -> plan::Ground<'v> {
        let (root, index) = (self.repo.work_dir(), &*self.snapshot.index);
        plan::Ground { root, index, git: &self.git, file_mode: self.file_mode, sparse }
    }

    pub(crate) fn plan(&self, changes: &[Change], control: &Control) -> Result<Plan, WriteError> {
        let sparse = self.sparse.as_ref().map(|rules| |path: &[u8]| rules.has(path));
        plan::plan(&self.view(sparse.as_ref().map(|has| has as &HasFile<'_>)), changes, control)
    }

    /// Makes the new files of a plan, out of sight.
    pub(crate) fn stage(
        &self,
        writer: &mut Writer<'_>,
        plan: &Plan,
        quarantine: &Quarantine,
        control: &Control,
    ) -> Result<(), WriteError> {
        let git = quarantine.enter(self.git.clone())?;
        let unconverted = self.is_plain(plan)?.then_some(quarantine as &dyn Objects);
        writer.stage(&self.view(None), plan, &git, unconverted, control)
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

/// All that a landing needs.
pub(super) struct Landing<'a> {
    pub(super) ground: &'a Ground<'a>,
    pub(super) plan: &'a Plan,
    pub(super) quarantine: &'a Quarantine,
    pub(super) pointers: Pointers,
    /// The Parent's side of the merge; what keeps its loose work alive.
    pub(super) parent: Option<Oid>,
    pub(super) landed: &'a Landed,
    pub(super) entry: &'a BaseEntry,
}

impl Landing<'_> {
    /// Files, index beside, then the ref: the commit point. On an error the Parent is what it was, and
    /// `after` says what had no place in it any more.
    pub(super) fn land(
        mut self,
        mut writer: Writer<'_>,
        request: &FoldRequest,
        after: &mut Aftermath,
        phases: &mut Phases,
        control: &Control,
    ) -> Result<(), FoldError> {
        let landed = self.try_to(&mut writer, request, phases, control);
        phases.note("sync", writer.synced_ms());
        match landed {
            Ok(landed) => *after = landed,
            Err(error) => {
                self.pointers.undo();
                *after = writer.abort()?;
                return Err(error);
            }
        }
        Ok(())
    }

    fn try_to(
        &mut self,
        writer: &mut Writer<'_>,
        request: &FoldRequest,
        phases: &mut Phases,
        control: &Control,
    ) -> Result<Aftermath, FoldError> {
        let (ground, plan, landed) = (self.ground, self.plan, self.landed);
        ground.stage(writer, plan, self.quarantine, control)?;
        phases.end("stage");
        // Only now: a fold that could not make the files leaves no objects either.
        self.quarantine.release()?;
        writer.keep_alive(self.parent, landed.head)?;
        self.pointers.carry()?;
        phases.end("objects");
        let message = format!("isofold: fold of {}", crate::git::one_line(&request.id));
        let along = Along {
            moving: Some(Moving { to: landed.head, who: &landed.who, message: &message }),
            base: Some(self.entry),
            carried: self.pointers.made(),
            ..Along::default()
        };
        writer.apply(plan, &ground.snapshot.index, along, control)?;
        phases.end("swap");
        let forget = || records::forget_oldest(ground.repo, &self.entry.pair[0], &self.entry.pair[1], KEPT_BASES);
        let after = writer.commit(forget, control)?;
        phases.end("finish");
        Ok(after)
    }
}
