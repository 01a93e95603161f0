//! What the crate's own tests need to see of merging. No part of its interface: anything here may
//! change or go with any version.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::combine::{self, Bases, Combined, Conflict, MergeEngine, Side};
use crate::control::Control;
use crate::git::Oid;
use crate::git::quarantine::Quarantine;
use crate::git::repository::Repo;

/// What a merge came to, and by which engine.
#[derive(Debug, Clone)]
pub struct Merge {
    /// The id of the tree, or the conflicts.
    pub result: Result<String, Vec<Conflict>>,
    /// `trivial`, `git` or `libgit2`.
    pub engine: &'static str,
    /// How long the merge itself took, with the repository open and the merge bases known.
    pub combining: Duration,
}

/// Merges two commits of the work tree whose root is `directory`. With `keep` the objects go to the
/// repository, else nowhere. The error is the one line that a user would read.
pub fn merge_commits(
    directory: &Path,
    ours: &str,
    theirs: &str,
    engine: MergeEngine,
    keep: bool,
) -> Result<Merge, String> {
    let repo = Repo::open(directory).map_err(|e| e.to_string())?;
    let id = |text: &str| Oid::from_str(text).map_err(|e| e.to_string());
    merge(&repo, id(ours)?, id(theirs)?, engine, keep).map_err(|e| e.to_string())
}

fn merge(repo: &Repo, ours: Oid, theirs: Oid, engine: MergeEngine, keep: bool) -> Result<Merge, crate::git::GitError> {
    let history = repo.merge_bases(ours, theirs)?;
    let sole = match history.as_slice() {
        [sole] => Some(repo.tree_of(*sole)?),
        _ => None,
    };
    let any = history.first().map(|first| repo.tree_of(*first)).transpose()?;
    let quarantine = Quarantine::new(repo)?;
    let bases = Bases { entry: None, sole, any };
    let side = |head| Ok::<_, crate::git::GitError>(Side { tree: repo.tree_of(head)?, head: Some(head) });
    let control = Control::new();
    let started = Instant::now();
    let combined = combine::combine(repo, &quarantine, &bases, side(ours)?, side(theirs)?, engine, &control)?;
    let combining = started.elapsed();
    if keep {
        quarantine.release()?;
    }
    Ok(match combined {
        Combined::Clean { tree, engine } => Merge { result: Ok(tree.to_string()), engine, combining },
        Combined::Conflict { conflicts, engine } => Merge { result: Err(conflicts), engine, combining },
    })
}
