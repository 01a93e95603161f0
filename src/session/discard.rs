//! Throwing a session away, after what only it holds was named or saved.

use std::path::{Path, PathBuf};

use super::work::{self, Content, Open};
use super::{SessionError, record};
use crate::control::Control;
use crate::files::fill::to_path;
use crate::git::Oid;
use crate::git::quarantine::Quarantine;
use crate::git::repository::Repo;
use crate::git::tree::Objects;
use crate::isolate::remove::{RemoveOutcome, Settled, remove_settled};
use crate::isolate::{IsolateError, rescue};
use crate::records::{BaseEntry, ChildRecord, SessionRecord};

/// What only a session holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Work {
    /// Commits that no other ref has, the newest first.
    pub commits: Vec<String>,
    /// Paths whose content is in no commit.
    pub changes: Vec<PathBuf>,
    /// Ignored files that came into being in the session and are no build output.
    pub ignored: Vec<PathBuf>,
    /// Submodules that hold work of their own.
    pub submodules: Vec<String>,
}

impl Work {
    /// Whether nothing would be lost.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// In a few words, each kind with its count and some names.
    fn in_short(&self) -> String {
        let names = |list: &[PathBuf]| {
            let mut names: Vec<String> = list.iter().take(5).map(crate::git::show).collect();
            if list.len() > names.len() {
                names.push(format!("and {} more", list.len() - names.len()));
            }
            names.join(", ")
        };
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let mut parts = Vec::new();
        if let [newest, ..] = self.commits.as_slice() {
            let count = self.commits.len();
            parts.push(format!("{count} commit{} up to {}", plural(count), &newest[..newest.len().min(10)]));
        }
        if !self.changes.is_empty() {
            let count = self.changes.len();
            parts.push(format!("{count} changed file{} ({})", plural(count), names(&self.changes)));
        }
        if !self.ignored.is_empty() {
            let count = self.ignored.len();
            parts.push(format!("{count} new ignored file{} ({})", plural(count), names(&self.ignored)));
        }
        if !self.submodules.is_empty() {
            parts.push(format!("work in submodules ({})", self.submodules.join(", ")));
        }
        parts.join("; ")
    }
}

/// What became of a session that was to be discarded.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Discarded {
    /// Worktree and branch are gone.
    Discarded {
        /// What only it held.
        work: Work,
        /// The refs under `refs/isofold/saved/` that keep it.
        saved: Vec<String>,
    },
    /// Work would have become unreachable; nothing was touched.
    Refused {
        /// In one line.
        report: String,
        /// What only the session holds.
        work: Work,
    },
}

/// Discards the session `name`. Without `force` it is refused while it holds work; with it the work is
/// saved first.
///
/// # Errors
/// [`SessionError`]; what could be removed until then is gone, and the same call goes on from there.
pub fn discard(at: &Path, name: &str, force: bool, control: &Control) -> Result<Discarded, SessionError> {
    let repo = Repo::containing(at)?;
    let session = record(&repo, name)?;
    let open = work::open(&repo, &session)?;
    let quarantine = Quarantine::new(&repo)?;
    let content = match &open {
        Some(open) => Some(open.content(&repo, &session, &quarantine, control)?),
        None => None,
    };
    let work = work_of(&repo, &session, open.as_ref(), content.as_ref(), &quarantine, control)?;
    if !work.is_empty() && !force {
        let report = format!(
            "{name} holds work that nothing else has: {}; keep it, or discard it with --force, which saves it first",
            work.in_short()
        );
        return Ok(Discarded::Refused { report, work });
    }
    let known = content.as_ref().filter(|_| work.changes.is_empty() && work.ignored.is_empty());
    let trees: Vec<Oid> = known.map(|content| content.snapshot.tree).into_iter().collect();
    let ignored = content.map(|content| content.ignored).unwrap_or_default();
    drop(quarantine);
    let saved = take_away(&repo, &session, open.as_ref(), force, Settled { trees: &trees, keep: &ignored }, control)?;
    Ok(Discarded::Discarded { work, saved })
}

/// What only the session holds.
fn work_of(
    repo: &Repo,
    session: &SessionRecord,
    open: Option<&Open>,
    content: Option<&Content>,
    quarantine: &Quarantine,
    control: &Control,
) -> Result<Work, SessionError> {
    let tips = match open {
        Some(open) => open.tips(session)?,
        None => repo.ref_id(&session.branch)?.into_iter().collect(),
    };
    let mut work = Work {
        commits: repo.commits_only_of(&tips, &session.branch)?.iter().map(ToString::to_string).collect(),
        ..Work::default()
    };
    let (Some(open), Some(content)) = (open, content) else { return Ok(work) };
    // Its base, what was folded of it, and its HEAD, which is counted among the commits.
    let mut known = vec![repo.head_tree(open.child.head()?.id)?, repo.tree_of(session.base)?];
    known.extend(BaseEntry::newest_of_child(repo, &session.worktree)?.map(|entry| entry.tree));
    if !known.contains(&content.snapshot.tree) {
        let changed = quarantine.changes(known[0], content.snapshot.tree)?;
        let (ignored, loose): (Vec<_>, Vec<_>) =
            changed.into_iter().map(|change| change.path).partition(|path| content.ignored.contains(path));
        // What was there at the start already is no work, even where HEAD does not have it.
        let since: Vec<Vec<u8>> =
            quarantine.changes(known[1], content.snapshot.tree)?.into_iter().map(|change| change.path).collect();
        work.changes = loose.iter().filter(|path| since.contains(path)).map(|path| to_path(path)).collect();
        work.ignored = ignored.iter().map(|path| to_path(path)).collect();
    }
    let child_record = ChildRecord::read(open.child.git_dir())?;
    let held = rescue::held(&open.child, child_record.as_ref(), control)?;
    work.submodules = held.iter().map(rescue::Held::describe).collect();
    Ok(work)
}

/// Saves the commits, then removes worktree, branch and record; the refs that keep something are
/// returned.
pub(super) fn take_away(
    repo: &Repo,
    session: &SessionRecord,
    open: Option<&Open>,
    force: bool,
    settled: Settled<'_>,
    control: &Control,
) -> Result<Vec<String>, SessionError> {
    let tips = match open {
        Some(open) => open.tips(session)?,
        None => repo.ref_id(&session.branch)?.into_iter().collect(),
    };
    let mut saved = Vec::new();
    for tip in tips {
        if repo.only_reached_by(tip, &session.branch, None)? {
            saved.push(repo.save(&session.name, tip)?);
        }
    }
    match remove_settled(&session.worktree, force, settled, control) {
        RemoveOutcome::Removed { saved: also } => saved.extend(also),
        RemoveOutcome::AlreadyGone => forget_registration(repo, session)?,
        RemoveOutcome::Refused(why) | RemoveOutcome::Failed(why) | RemoveOutcome::InvalidInvocation(why) => {
            return Err(SessionError::failed(why));
        }
        RemoveOutcome::Interrupted(_) => return Err(SessionError::Interrupted),
    }
    // Somebody may have it checked out elsewhere by now.
    if crate::git::worktrees::uses_of(repo, &session.branch)?.is_empty() {
        repo.remove_ref(&session.branch)?;
    }
    session.forget(repo)?;
    saved.sort();
    saved.dedup();
    Ok(saved)
}

/// Takes the entry of a worktree whose directory is gone out of the registry.
fn forget_registration(repo: &Repo, session: &SessionRecord) -> Result<(), IsolateError> {
    for entry in crate::git::worktrees::registered(repo.common_dir())? {
        if entry.directory == session.worktree && entry.is_gone() {
            for held in rescue::held_by_gone(repo, &entry)? {
                held.save(&session.name, &Control::new())?;
            }
            crate::git::worktrees::unregister(repo.common_dir(), &entry.admin)?;
        }
    }
    for base in crate::records::bases_of(repo, &session.worktree)? {
        crate::records::forget(repo, &base)?;
    }
    Ok(())
}
