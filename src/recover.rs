//! Recover: settle what dead processes left half done, a fold into a work tree first of all, then Children
//! that were never complete. Every command that writes does it first anyway.

use std::path::{Path, PathBuf};

use crate::control::{Control, Stop};
use crate::git::repository::Repo;
use crate::isolate::IsolateError;
use crate::isolate::recover::{Recovered, recover_children};
use crate::write::recover::{self as recovery, Verdict};

/// How a fold that was cut off was settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// It had not touched anything yet, or only its own files were left.
    Cleared,
    /// It had landed: what was missing was done.
    Finished,
    /// It had not: everything is what it was.
    TakenBack,
}

/// A finished recovery.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Recovery {
    /// The root of the work tree.
    pub parent: PathBuf,
    /// How the fold was settled; `None`: there was nothing to settle.
    pub settled: Option<Settled>,
    /// Refs that keep content which had no place in the directory any more.
    pub saved: Vec<String>,
    /// Paths that somebody wrote to since; they keep that.
    pub kept: Vec<PathBuf>,
    /// What else dead processes had left in the repository.
    pub recovered: Vec<Recovered>,
    /// What else could not be done, each with the way on.
    pub warnings: Vec<String>,
}

/// What became of a recovery.
#[derive(Debug, Clone)]
pub enum RecoverOutcome {
    /// Nothing is half done any more.
    Recovered(Box<Recovery>),
    /// It could not be done, or what happened can't be told; the text says why, in one line.
    Failed(String),
    /// It was asked to stop.
    Interrupted(String),
    /// The request can't be carried out by anybody.
    InvalidInvocation(String),
}

/// Settles what a fold into the work tree at or above `directory` left, if one was cut off; waits for
/// one that is under way.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let done = std::process::Command::new("git").args(["init", "-q"]).arg(dir.path()).status();
/// # assert!(done.unwrap().success());
/// use isofold::{Control, RecoverOutcome, recover};
///
/// let RecoverOutcome::Recovered(recovery) = recover(dir.path(), &Control::new()) else {
///     panic!("not recovered");
/// };
/// assert_eq!(recovery.settled, None);
/// ```
pub fn recover(directory: &Path, control: &Control) -> RecoverOutcome {
    if !directory.is_dir() {
        return RecoverOutcome::InvalidInvocation(format!("{} is not a directory", crate::git::show(directory)));
    }
    let repo = match Repo::containing(directory) {
        Ok(repo) => repo,
        Err(error) => return RecoverOutcome::Failed(error.to_string()),
    };
    match run(&repo, control) {
        Ok(recovery) => RecoverOutcome::Recovered(Box::new(recovery)),
        Err(error) => match error.stop() {
            Some(Stop::Interrupt) => RecoverOutcome::Interrupted("The recovery was interrupted.".to_owned()),
            _ => RecoverOutcome::Failed(error.to_string()),
        },
    }
}

fn run(repo: &Repo, control: &Control) -> Result<Recovery, IsolateError> {
    let mut recovery = Recovery {
        parent: repo.work_dir().to_owned(),
        settled: None,
        saved: Vec::new(),
        kept: Vec::new(),
        recovered: Vec::new(),
        warnings: Vec::new(),
    };
    if let Some(recovered) = recovery::first(repo, control)? {
        recovery.settled = Some(match recovered.verdict {
            Verdict::Cleared => Settled::Cleared,
            Verdict::Finished => Settled::Finished,
            Verdict::TakenBack => Settled::TakenBack,
        });
        (recovery.saved, recovery.kept) = (recovered.after.saved, recovered.after.kept);
        recovery.warnings = recovered.after.warnings;
    }
    recovery.recovered = recover_children(repo, control)?;
    Ok(recovery)
}
