//! Keeping a session: its changes into the main tree's working files and index, or into a commit.

use std::path::{Path, PathBuf};

use super::discard::take_away;
use super::graft::{self, Grafted};
use super::work::{self, Content};
use super::{SessionError, record};
use crate::combine::markers::{Labels, with_markers};
use crate::combine::{self, Bases, Combined, Conflict, MergeEngine, Side};
use crate::control::Control;
use crate::files::as_path;
use crate::files::fill::to_path;
use crate::files::lock::Hold;
use crate::fold::FoldNotes;
use crate::fold::sides::{Held, lock_both};
use crate::git::identity::Identity;
use crate::git::quarantine::Quarantine;
use crate::git::repository::Repo;
use crate::git::tree::{Item, Objects};
use crate::git::{GitError, Oid, show};
use crate::isolate::remove::Settled;
use crate::options::{Excludes, IsolationOptions};
use crate::patch::record::record_trees;
use crate::patch::store::Agent;
use crate::patch::working::Checkout;
use crate::records::{ChildRecord, SessionRecord};
use crate::snapshot::{Rules, Setting, Snapshot, snapshot};
use crate::write::WriteError;
use crate::write::writer::{Along, Moving, Scope, Writer};

/// How to keep a session.
#[derive(Debug, Clone, Default)]
pub struct KeepRequest {
    /// Commit the changes instead of staging them.
    pub commit: bool,
    /// The commit's message; default `Session NAME`.
    pub message: Option<String>,
    /// On a conflict leave conflict markers in the main tree's files.
    pub three_way: bool,
    /// Keep even if the main tree is on another branch than at the start.
    pub onto_current: bool,
}

/// What became of a session that was to be kept.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Kept {
    /// The main tree has the changes; the session is gone.
    Applied {
        /// Paths that changed in the main tree.
        files: Vec<PathBuf>,
        /// Those whose change is in the working file alone: the index could not take it.
        unstaged: Vec<PathBuf>,
        /// The commit that was made, with [`KeepRequest::commit`].
        commit: Option<String>,
        /// Refs under `refs/isofold/saved/` that keep the session's commits and late writes.
        saved: Vec<String>,
        /// What failed after the changes had been applied.
        warnings: Vec<String>,
    },
    /// There was nothing to apply; the session is gone.
    Nothing {
        /// Refs that keep commits of the session.
        saved: Vec<String>,
        /// What failed in taking the session away.
        warnings: Vec<String>,
    },
    /// Both sides changed the same; the session stays.
    Conflict {
        /// In one line.
        report: String,
        /// Each path.
        conflicts: Vec<Conflict>,
        /// Where the session's changes are saved as a patch.
        patch: PathBuf,
        /// Files of the main tree that hold conflict markers now, with [`KeepRequest::three_way`].
        marked: Vec<PathBuf>,
    },
}

/// Keeps the session `name`.
///
/// # Errors
/// [`SessionError`]; the main tree is what it was then.
pub fn keep(at: &Path, name: &str, request: &KeepRequest, control: &Control) -> Result<Kept, SessionError> {
    let any = Repo::containing(at)?;
    let session = record(&any, name)?;
    let open = work::open(&any, &session)?.ok_or_else(|| super::gone(&session))?;
    let main = Repo::open(&session.main)?;
    // The main tree for us alone, the session for readers.
    let sides = [
        Held { repo: &main, place: &session.main, hold: Hold::Exclusive },
        Held { repo: &open.child, place: &session.worktree, hold: Hold::Shared },
    ];
    let mut notes = FoldNotes::default();
    let locks = lock_both(sides, false, &mut notes, control)?;
    check(&main, &session, request)?;
    let quarantine = Quarantine::new(&main)?;
    let content = open.content(&any, &session, &quarantine, control)?;
    let settled = Settled { trees: &[content.snapshot.tree], keep: &content.ignored };
    let keeping = Keeping { main: &main, session: &session, quarantine: &quarantine, request, control };
    let applied = match keeping.apply(&content)? {
        Ok(applied) => applied,
        Err(conflict) => return Ok(conflict),
    };
    drop(locks);
    // The changes are there now, or there were none: whatever fails from here on, nothing is lost.
    let FoldNotes { mut warnings, mut saved, .. } = notes;
    match take_away(&any, &session, Some(&open), true, settled, &Control::new()) {
        Ok(also) => saved.extend(also),
        Err(error) => warnings.push(format!("the session could not be taken away: {error}")),
    }
    Ok(match applied {
        None => Kept::Nothing { saved, warnings },
        Some(applied) => {
            saved.extend(applied.saved);
            warnings.extend(applied.warnings);
            Kept::Applied {
                files: applied.files,
                unstaged: applied.unstaged,
                commit: applied.commit.map(|id| id.to_string()),
                saved,
                warnings,
            }
        }
    })
}

/// Refuses a main tree that is not in a state to take changes.
fn check(main: &Repo, session: &SessionRecord, request: &KeepRequest) -> Result<(), SessionError> {
    if let Some(operation) = main.operation() {
        return Err(SessionError::failed(format!(
            "the main tree {} is in the middle of {operation}; finish or abort it first",
            show(&session.main)
        )));
    }
    let branch = main.head()?.branch;
    if branch != session.main_branch && !request.onto_current {
        let name = |branch: &Option<String>| {
            branch.as_deref().map_or("a detached HEAD", |b| b.trim_start_matches("refs/heads/")).to_owned()
        };
        return Err(SessionError::failed(format!(
            "the main tree is on {}, but was on {} when the session started; switch back, or keep with --onto-current",
            name(&branch),
            name(&session.main_branch)
        )));
    }
    Ok(())
}

/// What was written.
struct Applied {
    files: Vec<PathBuf>,
    unstaged: Vec<PathBuf>,
    commit: Option<Oid>,
    saved: Vec<String>,
    warnings: Vec<String>,
}

struct Keeping<'a> {
    main: &'a Repo,
    session: &'a SessionRecord,
    quarantine: &'a Quarantine,
    request: &'a KeepRequest,
    control: &'a Control,
}

impl Keeping<'_> {
    /// Applies the session's changes; `Ok(Ok(None))` where there are none, `Ok(Err(_))` on a conflict.
    fn apply(&self, content: &Content) -> Result<Result<Option<Applied>, Kept>, SessionError> {
        let Self { main, quarantine, control, .. } = *self;
        // Index and HEAD stay as they are from here on.
        let writer = Writer::begin(main, Scope::Head, control)?;
        let ours = self.main_content()?;
        let base = main.tree_of(self.session.base)?;
        let theirs = content.tree;
        if base == theirs {
            return Ok(Ok(None));
        }
        let bases = Bases { entry: Some(self.session.base), sole: Some(base), any: Some(base) };
        let side = |tree| Side { tree, head: None };
        let combined =
            combine::combine(main, quarantine, &bases, side(ours.tree), side(theirs), MergeEngine::Auto, control)?;
        let tree = match combined {
            Combined::Clean { tree, .. } => tree,
            Combined::Conflict { conflicts, .. } => {
                drop(writer);
                let sides = Sides { bases, ours: &ours, theirs, combined: true };
                return self.conflict(&sides, conflicts).map(Err);
            }
        };
        if tree == ours.tree {
            return Ok(Ok(None));
        }
        match self.write(writer, &ours, tree, content) {
            Ok(applied) => Ok(Ok(Some(applied))),
            Err(Stopped::Conflicts(conflicts)) => {
                let sides = Sides { bases, ours: &ours, theirs, combined: false };
                self.conflict(&sides, conflicts).map(Err)
            }
            Err(Stopped::Error(error)) => Err(error),
        }
    }

    /// A snapshot of the main tree, less what the exclude list keeps from sessions.
    fn main_content(&self) -> Result<Snapshot, SessionError> {
        let recorded = ChildRecord::read(&self.child_admin())?.map(|record| Excludes::new(&record.exclude)).transpose();
        let excludes =
            match recorded.map_err(|e| GitError::Format { what: format!("a record's exclude list ({e})") })? {
                Some(excludes) => excludes,
                None => IsolationOptions::of_parent(&self.session.main)
                    .map_err(|error| SessionError::usage(error.to_string()))?
                    .excludes()
                    .clone(),
            };
        let rules = Rules { leave_out: Some(&excludes), ..Rules::default() };
        let setting = Setting::of(self.main)?;
        Ok(snapshot(self.main.place(), &setting, &rules, None, &self.quarantine.store(), self.control)?)
    }

    fn child_admin(&self) -> PathBuf {
        crate::git::worktrees::admin_of_git_file(&self.session.worktree.join(".git")).unwrap_or_default()
    }
}

enum Stopped {
    Conflicts(Vec<Conflict>),
    Error(SessionError),
}

impl<E: Into<SessionError>> From<E> for Stopped {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

impl Stopped {
    fn of(error: WriteError) -> Self {
        match error {
            WriteError::Conflicts(conflicts) => Self::Conflicts(conflicts),
            other => Self::Error(other.into()),
        }
    }
}

impl Keeping<'_> {
    fn write(&self, mut writer: Writer<'_>, ours: &Snapshot, tree: Oid, content: &Content) -> Result<Applied, Stopped> {
        let Self { main, quarantine, control, .. } = *self;
        let changes = quarantine.changes(ours.tree, tree)?;
        let files: Vec<PathBuf> = changes.iter().map(|change| to_path(&change.path)).collect();
        let staged = self.staged(ours, tree, content)?;
        let head = writer.head().id;
        let commit = self.request.commit.then(|| self.commit(ours, tree, content, head)).transpose()?;
        let ground = crate::fold::land::Ground::new(main, ours)?;
        let plan = ground.plan(&changes, control).map_err(Stopped::of)?;
        ground.stage(&mut writer, &plan, quarantine, control).map_err(Stopped::of)?;
        quarantine.release()?;
        let message = format!("isofold: session {}", self.session.name);
        if let Some((id, _)) = &commit {
            writer.keep_alive(head, *id)?;
        }
        let moving = commit.as_ref().map(|(id, who)| Moving { to: *id, who, message: &message });
        let along = Along { moving, staged: Some(&staged.paths), ..Along::default() };
        let after = writer.finish(&plan, &ours.before, along, control).map_err(Stopped::of)?;
        let unstaged = staged.refused.iter().map(|path| to_path(path)).collect();
        let commit = commit.map(|(id, _)| id);
        Ok(Applied { files, unstaged, commit, saved: after.saved, warnings: after.warnings })
    }

    /// What the session did, without the files that git ignores: those are in the working files only.
    fn tracked_part(&self, ours: &Snapshot, tree: Oid, content: &Content) -> Result<Oid, SessionError> {
        let mut back: Vec<(&[u8], Option<Item>)> = Vec::new();
        for path in &content.ignored {
            back.push((path, self.quarantine.item_at(ours.tree, path)?));
        }
        Ok(self.quarantine.store().open().updated_tree(tree, &back)?)
    }

    /// What the index becomes.
    fn staged(&self, ours: &Snapshot, tree: Oid, content: &Content) -> Result<Grafted, SessionError> {
        let step = (ours.tree, self.tracked_part(ours, tree, content)?);
        let index = graft::tree_of_index(&ours.before, (&ours.index, ours.tree), self.quarantine)?;
        let mut grafted = graft::graft(self.main, self.quarantine, step, index, self.control)?;
        let changed = |path: &&Vec<u8>| !grafted.refused.contains(path);
        let ignored: Vec<Vec<u8>> = content.ignored.iter().filter(changed).cloned().collect();
        grafted.refused.extend(ignored);
        grafted.refused.sort();
        Ok(grafted)
    }

    /// The commit of the session's changes alone, on HEAD.
    fn commit(
        &self,
        ours: &Snapshot,
        tree: Oid,
        content: &Content,
        head: Option<Oid>,
    ) -> Result<(Oid, Identity), SessionError> {
        let Self { main, quarantine, control, .. } = *self;
        let onto = main.head_tree(head)?;
        let step = (ours.tree, self.tracked_part(ours, tree, content)?);
        let grafted = graft::graft(main, quarantine, step, onto, control)?;
        if let [first, ..] = grafted.refused.as_slice() {
            return Err(SessionError::failed(format!(
                "the changes can't be committed apart from your own that are not committed ({}, {} in all); keep them without --commit",
                show(as_path(first)),
                grafted.refused.len()
            )));
        }
        let who = Identity::of_user(main, control)?.map_err(|words| {
            SessionError::failed(format!(
                "git knows no identity for the commit ({words}); set user.name and user.email"
            ))
        })?;
        let items: Vec<(&[u8], Option<Item>)> =
            grafted.paths.iter().map(|(path, item)| (path.as_slice(), *item)).collect();
        let tree = quarantine.store().open().updated_tree(onto, &items)?;
        let parents: Vec<Oid> = head.into_iter().collect();
        let message = self.request.message.clone().unwrap_or_else(|| format!("Session {}", self.session.name));
        let id = quarantine.commit(tree, &parents, &message, &who.author, &who.committer)?;
        Ok((id, who))
    }

    /// A conflict: the session's changes are saved as a patch, markers are left where they are wanted.
    fn conflict(&self, sides: &Sides<'_>, mut conflicts: Vec<Conflict>) -> Result<Kept, SessionError> {
        let Self { main, quarantine, control, .. } = *self;
        let name = &self.session.name;
        let agent = Agent::new(name)?;
        let patch = record_trees(main, quarantine, &agent, (self.session.base, sides.theirs), control)?;
        let mut marked = Vec::new();
        let mut report = String::new();
        if self.request.three_way && sides.combined {
            let side = |tree| Side { tree, head: None };
            let labels = Labels { ours: "yours", theirs: name };
            let (ours, theirs) = (side(sides.ours.tree), side(sides.theirs));
            let merged = with_markers(main, quarantine, &sides.bases, ours, theirs, &labels, control)?;
            let changes = quarantine.changes(sides.ours.tree, merged.tree)?;
            let checkout = Checkout { repo: main, quarantine, control };
            marked = checkout.check_out(sides.ours, &changes)?.files;
            conflicts = merged.conflicts;
            report.push_str("conflict markers were left in the main tree's files: ");
        }
        report.push_str(&combine::named(&conflicts));
        report = report.replace("in the Parent", "in the main tree").replace("in the Child", "in the session");
        let outcome = if marked.is_empty() { "can't be kept" } else { "could not be kept whole" };
        let nothing = if marked.is_empty() { "; nothing was changed" } else { "; the session is still there" };
        Ok(Kept::Conflict { report: format!("{name} {outcome}: {report}{nothing}"), conflicts, patch, marked })
    }
}

/// What was to be combined.
struct Sides<'a> {
    bases: Bases,
    ours: &'a Snapshot,
    theirs: Oid,
    /// Whether it is the merge that conflicts, not something in the way on the disk.
    combined: bool,
}
