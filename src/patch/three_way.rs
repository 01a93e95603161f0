//! `land --3way`: the patch's snapshot merged into the checkout's, with the recorded base between them.

use super::store::{Agent, free};
use super::working::Checkout;
use super::{LandConflict, Landed, PatchError, STEP};
use crate::combine::markers::{Labels, with_markers};
use crate::combine::{self, Bases, Combined, Conflict, MergeEngine, Side};
use crate::diff::Scratch;
use crate::files::as_path;
use crate::git::tree::{Change, MODE_FILE, MODE_GITLINK, MODE_TREE, Objects};
use crate::git::{GitError, Oid, show};
use crate::snapshot::{Rules, Setting, Snapshot, snapshot};

/// What the checkout's own lines are called in a conflict.
const OURS: &str = "yours";

/// What is merged.
pub(super) struct Merge<'a> {
    pub(super) checkout: &'a Checkout<'a>,
    pub(super) agent: &'a Agent,
    pub(super) base: Option<Oid>,
    pub(super) patch: &'a [u8],
}

pub(super) enum Merged {
    Nothing,
    Clean(Landed),
    Conflicts(Landed, Vec<LandConflict>),
}

/// The two sides and what they have in common.
struct Ground {
    bases: Bases,
    ours: Snapshot,
    theirs: Oid,
}

impl Ground {
    fn sides(&self) -> (Side, Side) {
        // The recorded base alone counts, not what the histories have in common.
        (Side { tree: self.ours.tree, head: None }, Side { tree: self.theirs, head: None })
    }
}

impl Merge<'_> {
    /// Whether the work is all there already, whatever else the checkout holds.
    pub(super) fn changes_nothing(&self) -> Result<bool, PatchError> {
        // Without the objects, or with a half-done merge there, nobody can tell.
        let ground = match self.ground() {
            Ok(ground) => ground,
            Err(PatchError::Interrupted) => return Err(PatchError::Interrupted),
            Err(_) => return Ok(false),
        };
        if self.is_there(&ground)? {
            return Ok(true);
        }
        Ok(match self.combined(&ground)? {
            Combined::Clean { tree, .. } => tree == ground.ours.tree,
            Combined::Conflict { .. } => false,
        })
    }

    /// Whether every path is what the patch makes of it; of a submodule files can't say more than that it
    /// is no file.
    fn is_there(&self, ground: &Ground) -> Result<bool, PatchError> {
        let quarantine = self.checkout.quarantine;
        let Some(base) = ground.bases.sole else { return Ok(false) };
        for change in quarantine.changes(base, ground.theirs)? {
            let now = quarantine.item_at(ground.ours.tree, &change.path)?.filter(|item| item.mode != MODE_TREE);
            let no_file = now.is_none_or(|item| item.mode == MODE_GITLINK);
            let same = match change.new {
                Some(new) if new.mode != MODE_GITLINK => now == Some(new),
                _ => no_file,
            };
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn merge(&self) -> Result<Merged, PatchError> {
        let ground = self.ground()?;
        if self.is_there(&ground)? {
            return Ok(Merged::Nothing);
        }
        let quarantine = self.checkout.quarantine;
        let (tree, conflicts) = match self.combined(&ground)? {
            Combined::Clean { tree, .. } => (tree, Vec::new()),
            Combined::Conflict { .. } => {
                let (ours, theirs) = ground.sides();
                let labels = Labels { ours: OURS, theirs: self.agent.name() };
                let step = self.checkout.control.step(STEP);
                let marked = with_markers(self.checkout.repo, quarantine, &ground.bases, ours, theirs, &labels, &step)?;
                (marked.tree, marked.conflicts)
            }
        };
        if tree == ground.ours.tree && conflicts.is_empty() {
            return Ok(Merged::Nothing);
        }
        let changes = quarantine.changes(ground.ours.tree, tree)?;
        self.no_older_markers(&changes, &conflicts)?;
        let conflicts = self.located(&ground, &conflicts)?;
        let mut landed = self.checkout.check_out(&ground.ours, &changes)?;
        let pointer =
            |change: &&Change| [change.old, change.new].into_iter().flatten().any(|item| item.mode == MODE_GITLINK);
        landed.submodules = changes.iter().filter(pointer).map(|c| as_path(&c.path).to_owned()).collect();
        Ok(match conflicts.is_empty() {
            // What is ignored here stood there already.
            true if landed.files.is_empty() && landed.submodules.is_empty() => Merged::Nothing,
            true => Merged::Clean(landed),
            false => Merged::Conflicts(landed, conflicts),
        })
    }

    fn combined(&self, ground: &Ground) -> Result<Combined, PatchError> {
        let Checkout { repo, quarantine, control } = self.checkout;
        let (ours, theirs) = ground.sides();
        let step = control.step(STEP);
        Ok(combine::combine(repo, quarantine, &ground.bases, ours, theirs, MergeEngine::Auto, &step)?)
    }

    fn ground(&self) -> Result<Ground, PatchError> {
        let Checkout { repo, quarantine, control } = self.checkout;
        let gone = |base: &dyn std::fmt::Display| {
            PatchError::Failed(format!(
                "the base of the patch of {} ({base}) is no longer in the repository; it can only be landed without --3way",
                self.agent.name()
            ))
        };
        let base = self.base.ok_or_else(|| gone(&"not recorded"))?;
        let Some((base_tree, _)) = repo.commit_text(base)? else { return Err(gone(&base)) };
        let step = control.step(STEP);
        let setting = Setting::of(repo)?;
        let ours = snapshot(repo.place(), &setting, &Rules::default(), None, &quarantine.store(), &step)?;
        let theirs = self.applied(base_tree)?;
        let bases = Bases { entry: Some(base), sole: Some(base_tree), any: Some(base_tree) };
        Ok(Ground { bases, ours, theirs })
    }

    /// The tree that the patch makes of its base.
    fn applied(&self, base_tree: Oid) -> Result<Oid, PatchError> {
        let Checkout { repo, quarantine, control } = self.checkout;
        let git = quarantine.enter(repo.git())?;
        let scratch = Scratch::new(quarantine, std::iter::empty())?;
        let read = ["-c", "core.splitIndex=false", "read-tree", &base_tree.to_string()];
        scratch.enter(&git).run(read, None, &control.step(STEP))?.success()?;
        scratch.apply(&git, self.patch, &control.step(STEP))?.success()?;
        let written = scratch.enter(&git).run(["write-tree"], None, &control.step(STEP))?.success()?;
        let text = String::from_utf8_lossy(&written).into_owned();
        let tree =
            Oid::from_str(text.trim()).map_err(|_| GitError::Format { what: format!("git's answer {text:?}") })?;
        Ok(tree)
    }

    /// Markers of an earlier landing are for a person to settle first: merged again they would nest.
    fn no_older_markers(&self, changes: &[Change], conflicts: &[Conflict]) -> Result<(), PatchError> {
        if conflicts.is_empty() {
            return Ok(());
        }
        let end = format!(">>>>>>> {}", self.agent.name());
        for change in changes {
            let Some(old) = change.old.filter(|old| old.mode & 0o170_000 == MODE_FILE & 0o170_000) else { continue };
            let content = self.checkout.quarantine.blob(old.id)?;
            if content.split(|b| *b == b'\n').any(|line| line.strip_suffix(b"\r").unwrap_or(line) == end.as_bytes()) {
                return Err(PatchError::Failed(format!(
                    "{} still has conflict markers of an earlier landing of {}; settle them first",
                    show(as_path(&change.path)),
                    self.agent.name()
                )));
            }
        }
        Ok(())
    }

    /// Says of each conflict where the agent's version of the file is.
    fn located(&self, ground: &Ground, conflicts: &[Conflict]) -> Result<Vec<LandConflict>, PatchError> {
        if conflicts.is_empty() {
            return Ok(Vec::new());
        }
        let mut located = Vec::new();
        for conflict in conflicts {
            let there = self.checkout.quarantine.item_at(ground.theirs, conflict.path.as_bytes())?;
            let theirs = match there {
                Some(_) if conflict.kind != "contents" => Some(format!("{}:{}", self.kept(ground)?, conflict.path)),
                _ => None,
            };
            located.push(LandConflict {
                path: conflict.path.clone(),
                kind: conflict.kind.clone(),
                detail: self.in_words(&conflict.detail),
                theirs,
            });
        }
        Ok(located)
    }

    /// git's sentence, with the sides called what they are here.
    fn in_words(&self, detail: &str) -> String {
        detail.replace("the Parent", "your files").replace("the Child", self.agent.name())
    }

    /// The ref that has the agent's version of every file.
    fn kept(&self, ground: &Ground) -> Result<String, PatchError> {
        let Checkout { repo, quarantine, .. } = self.checkout;
        let name = self.agent.kept_by();
        let known = repo.ref_id(&name)?.map(|id| repo.commit_text(id)).transpose()?.flatten();
        if known.is_none_or(|(tree, _)| tree != ground.theirs)
            && let Some(base) = self.base
        {
            // Somebody removed it, or a record was killed between the ref and the patch.
            let kept = super::record::keep(quarantine, self.agent, base, ground.theirs, self.patch)?;
            quarantine.release()?;
            free(repo, &name)?;
            repo.set_hidden_ref(&name, kept)?;
        }
        Ok(name)
    }
}
