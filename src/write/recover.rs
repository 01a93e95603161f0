//! After a landing was cut off: all new if its commit point was reached, else all old. Where that can't
//! be told nothing is touched.

use std::path::{Path, PathBuf};

use super::journal::{self, Apply, Init, Journal, Read, Record};
use super::room::{Room, from_text};
pub(crate) use super::settle::Aftermath;
use super::settle::{Ending, is_there, rooms_of};
use super::swap::Places;
use super::sync::Syncer;
use super::{WriteError, crash};
use crate::control::{Control, DEFAULT_LOCK_WAIT, Stop};
use crate::files::FilesError;
use crate::files::lock::{Hold, Holder, Lock, holder, lock};
use crate::files::remove::remove_tree;
use crate::git::repository::Repo;
use crate::git::{GitError, Oid};

/// What a recovery found and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The landing had not touched the directory yet, or had settled everything but its own files.
    Cleared,
    /// It had passed its commit point: the rest was done.
    Finished,
    /// It had not: everything was put back.
    TakenBack,
}

/// A finished recovery.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) verdict: Verdict,
    pub(crate) after: Aftermath,
}

/// Whether a landing is under way in a work tree, or was cut off.
pub(crate) fn is_due(git_dir: &Path) -> bool {
    is_there(&Room::path_of(git_dir))
}

/// Recovers what was cut off in this work tree, if anything was; a landing under way is waited for.
pub(crate) fn first(repo: &Repo, control: &Control) -> Result<Option<Recovered>, WriteError> {
    if !is_due(repo.git_dir()) {
        return Ok(None);
    }
    let _lock = exclusive(repo.git_dir(), control)?;
    let recovered = recover(repo)?;
    crate::git::quarantine::clear_dead(repo.common_dir());
    Ok(recovered)
}

/// The lock of a work tree, whoever is named where it can't be had.
pub(crate) fn exclusive(git_dir: &Path, control: &Control) -> Result<Lock, WriteError> {
    held(git_dir, Hold::Exclusive, control)
}

/// Waits for a lock of isofold until the clock fires, without one for ten minutes.
pub(crate) fn held(git_dir: &Path, hold: Hold, control: &Control) -> Result<Lock, WriteError> {
    let patience = (!control.has_clock()).then_some(DEFAULT_LOCK_WAIT);
    let refused = || {
        let landing = super::room::landing_in(git_dir).filter(|init| init.owner.lives());
        let landing = landing.map(|init| Holder { pid: init.owner.pid, since: Some(init.time) });
        WriteError::Locked { place: git_dir.to_owned(), holder: landing.or_else(|| holder(git_dir)) }
    };
    match lock(git_dir, hold, patience, control) {
        Ok(Some(lock)) => Ok(lock),
        // Where the clock fired while we waited, who was waited for is the better answer.
        Ok(None) | Err(FilesError::Stopped(Stop::Clock)) => Err(refused()),
        Err(error) => Err(error.into()),
    }
}

/// Recovers. The caller holds the work tree's lock exclusively.
pub(crate) fn recover(repo: &Repo) -> Result<Option<Recovered>, WriteError> {
    let path = Room::path_of(repo.git_dir());
    if !is_there(&path) {
        return Ok(None);
    }
    let unjudged = |why: String| WriteError::Unjudged { room: path.clone(), why };
    let records = match journal::read(&Room::journal_in(&path))? {
        Read::Nothing => {
            // Cut off before it took a lock.
            remove_tree(&path)?;
            return Ok(Some(Recovered { verdict: Verdict::Cleared, after: Aftermath::default() }));
        }
        Read::Unreadable(why) => return Err(unjudged(why)),
        Read::Records(records) => records,
    };
    let Some(Record::Init(init)) = records.first() else { return Err(unjudged("it has no beginning".to_owned())) };
    if from_text(&init.root) != repo.work_dir() {
        let from = crate::git::show(from_text(&init.root));
        return Err(unjudged(format!("the directory was moved since, from {from}; move it back")));
    }
    let rooms = rooms_of(&records);
    let room = Room::noted(path.clone(), init);
    let apply = records.iter().find_map(|record| match record {
        Record::Apply(apply) => Some(apply.as_ref()),
        _ => None,
    });
    let Some(apply) = apply.filter(|_| !records.iter().any(|record| matches!(record, Record::Done))) else {
        let warnings = room.clear(repo, &rooms, &[]);
        let after = Aftermath { warnings, ..Aftermath::default() };
        return Ok(Some(Recovered { verdict: Verdict::Cleared, after }));
    };
    let landed = landed(repo, init, apply, &records).map_err(unjudged)?;
    let places = Places::open(repo.work_dir(), &rooms)?;
    let journal = Journal::resume(&room.journal())?;
    let ending = Ending { repo, room, rooms, journal, apply };
    let mut syncer = Syncer::default();
    crash::point("judged");
    let (verdict, after) = if landed {
        (Verdict::Finished, ending.forward(&places, || Ok(Vec::new()), &mut syncer)?)
    } else {
        (Verdict::TakenBack, ending.back(&places, &mut syncer)?)
    };
    Ok(Some(Recovered { verdict, after }))
}

/// Whether the commit point was reached; an error where somebody else moved things since.
fn landed(repo: &Repo, init: &Init, apply: &Apply, records: &[Record]) -> Result<bool, String> {
    let Some(moves) = &apply.moves else {
        return Ok(records.iter().any(|record| matches!(record, Record::Committed)));
    };
    let plain = |error: GitError| error.to_string();
    let head = repo.head().map_err(plain)?;
    if head.branch != apply.branch {
        return Err("HEAD is on another branch than it was".to_owned());
    }
    let id = |text: &str| Oid::from_str(text).map_err(|_| "it names no commit".to_owned());
    let old = moves.old.as_deref().map(id).transpose()?;
    let new = id(&moves.new)?;
    match head.id {
        Some(now) if now == new => Ok(true),
        now if now == old => Ok(false),
        now => {
            let now = now.map_or_else(|| "gone".to_owned(), |id| format!("at {id}"));
            Err(format!(
                "{} is {now}, neither where it was nor where the fold of process {} moved it",
                moves.name, init.owner.pid
            ))
        }
    }
}

/// The rooms that a journal names.
pub(super) fn rooms_in(journal: &Path) -> Vec<PathBuf> {
    match journal::read(journal) {
        Ok(Read::Records(records)) => rooms_of(&records),
        _ => Vec::new(),
    }
}
