//! Prune: what nobody needs any more. Dead processes' leftovers, base entries of Children that are gone
//! and, only when asked by age, saved commits.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::control::{Control, Stop};
use crate::git::GitError;
use crate::git::refs::{BASES, SAVED};
use crate::git::repository::Repo;
use crate::git::worktrees::{Registered, registered};
use crate::isolate::IsolateError;
use crate::isolate::recover::{Recovered, recover_children, would_recover};
use crate::patch::{PatchError, Patches};
use crate::records::{BaseEntry, all_bases, forget};
use crate::session::{self, Discarded, SessionError};

/// How old a base entry's ref without the entry has to be before it is taken for a dead process's.
const STRAY: Duration = Duration::from_hours(1);

/// What to prune, and how.
#[derive(Debug, Clone)]
pub struct PruneRequest {
    /// Any directory of the repository's work trees.
    pub directory: PathBuf,
    /// What is older than this goes too: saved commits, patches, sessions without work, base entries of
    /// Children that are gone but still registered. Without it none of them does.
    pub older_than: Option<Duration>,
    /// Only say what would go.
    pub dry_run: bool,
}

/// What went, or would go.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Pruned {
    /// What dead processes had left.
    pub recovered: Vec<Recovered>,
    /// Base entries of Children that are gone: the entry's name, and the directory.
    pub bases: Vec<(String, PathBuf)>,
    /// Saved refs that were old enough: name and id.
    pub saved: Vec<(String, String)>,
    /// Sessions without work of their own that were started long enough ago.
    pub sessions: Vec<String>,
    /// Patches of agents that were last recorded long enough ago.
    pub patches: Vec<String>,
}

/// What became of a prune.
#[derive(Debug, Clone)]
pub enum PruneOutcome {
    /// Done.
    Pruned(Box<Pruned>),
    /// It could not be done; the text says why. What went before is gone.
    Failed(String),
    /// It was asked to stop.
    Interrupted(String),
}

/// Prunes the repository that the directory is in.
pub fn prune(request: &PruneRequest, control: &Control) -> PruneOutcome {
    match run(request, control) {
        Ok(pruned) => PruneOutcome::Pruned(Box::new(pruned)),
        Err(error) => match error.stop() {
            Some(Stop::Clock) => PruneOutcome::Failed("the clock fired".to_owned()),
            Some(Stop::Interrupt) => PruneOutcome::Interrupted("The pruning was interrupted.".to_owned()),
            None => PruneOutcome::Failed(error.to_string()),
        },
    }
}

fn run(request: &PruneRequest, control: &Control) -> Result<Pruned, IsolateError> {
    let repo = Repo::containing(&request.directory)?;
    if !request.dry_run {
        crate::write::recover::first(&repo, control)?;
    }
    let mut pruned = Pruned {
        recovered: if request.dry_run { would_recover(&repo)? } else { recover_children(&repo, control)? },
        ..Pruned::default()
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let before = |age: Duration| i64::try_from(now.saturating_sub(age).as_secs()).unwrap_or(0);
    let entries = registered(repo.common_dir())?;
    let known = all_bases(&repo)?;
    for (name, entry) in &known {
        control.check().map_err(GitError::from)?;
        let Some(gone) = vanished(entry, &entries, request.older_than.map(before)) else { continue };
        if !request.dry_run {
            forget(&repo, name)?;
        }
        pruned.bases.push((name.clone(), gone.to_owned()));
    }
    for hidden in repo.hidden(BASES)? {
        let name = hidden.name.strip_prefix(BASES).unwrap_or(&hidden.name);
        if known.iter().any(|(known, _)| known == name) || hidden.set >= before(STRAY) {
            continue;
        }
        if !request.dry_run {
            forget(&repo, name)?;
        }
        pruned.bases.push((name.to_owned(), PathBuf::new()));
    }
    if let Some(age) = request.older_than {
        for hidden in repo.hidden(SAVED)? {
            control.check().map_err(GitError::from)?;
            if hidden.set >= before(age) {
                continue;
            }
            if !request.dry_run {
                repo.remove_ref(&hidden.name)?;
            }
            pruned.saved.push((hidden.name.clone(), hidden.id.to_string()));
        }
        sessions(request, age, &mut pruned, control)?;
        patches(request, age, &mut pruned, control);
    }
    Ok(pruned)
}

/// Sessions that hold nothing of their own and that nothing runs in.
fn sessions(request: &PruneRequest, age: Duration, pruned: &mut Pruned, control: &Control) -> Result<(), IsolateError> {
    let states = match session::list(&request.directory, control) {
        Ok(states) => states,
        Err(SessionError::Interrupted) => return Err(GitError::from(Stop::Interrupt).into()),
        Err(error) => {
            pruned.recovered.push(Recovered::Left(error.to_string()));
            return Ok(());
        }
    };
    for state in states {
        let session = &state.session;
        let young = session.created.elapsed().map_or(true, |since| since < age);
        let holds = state.ahead > 0 || state.dirty > 0 || state.changes.files > 0 || state.trouble.is_some();
        if young || holds || session.running.is_some() {
            continue;
        }
        if !request.dry_run {
            // It looks again, closer; what it refuses stays.
            match session::discard(&request.directory, &session.name, false, control) {
                Ok(Discarded::Discarded { .. }) => {}
                Ok(_) => continue,
                Err(error) => {
                    pruned.recovered.push(Recovered::Left(error.to_string()));
                    continue;
                }
            }
        }
        pruned.sessions.push(session.name.clone());
    }
    Ok(())
}

/// Patches that nobody recorded to for so long.
fn patches(request: &PruneRequest, age: Duration, pruned: &mut Pruned, control: &Control) {
    let dropped = || -> Result<Vec<String>, PatchError> {
        let patches = Patches::of(&request.directory)?;
        let mut dropped = Vec::new();
        for listed in patches.list()?.into_iter().filter(|listed| Duration::from_secs(listed.age_seconds) > age) {
            if !request.dry_run {
                patches.drop_patch(&listed.agent, control)?;
            }
            dropped.push(listed.agent);
        }
        Ok(dropped)
    };
    match dropped() {
        Ok(dropped) => pruned.patches = dropped,
        Err(error) => pruned.recovered.push(Recovered::Left(error.to_string())),
    }
}

/// The side of an entry that is gone for good: nothing stands there, and either no worktree is
/// registered there or, with an age, one that is not locked and that old. A volume that is not mounted
/// now is no reason.
fn vanished<'a>(entry: &'a BaseEntry, entries: &[Registered], before: Option<i64>) -> Option<&'a Path> {
    let gone = |side: &Path| {
        if fs::symlink_metadata(side).is_ok() {
            return false;
        }
        match entries.iter().find(|entry| entry.directory == side) {
            None => true,
            Some(entry) => entry.locked.is_none() && before.is_some_and(|before| entry.last_used() < before),
        }
    };
    entry.pair.iter().map(PathBuf::as_path).find(|side| gone(side))
}
