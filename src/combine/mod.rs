//! Combine: two snapshots and what they have in common become one tree, or conflicts.
//!
//! The answer is that of `git merge-tree --write-tree` on two commits whose parents are the sides'
//! heads and the base entry; a conflict is an outcome, never an error.

pub(crate) mod bases;
pub(crate) mod builtin;
pub(crate) mod markers;
mod program;
mod renames;
mod report;
mod trivial;

use serde::Serialize;

use crate::control::Control;
use crate::git::identity::Identity;
use crate::git::quarantine::Quarantine;
use crate::git::repository::Repo;
use crate::git::{GitError, Oid};

/// The engine that needs no content.
const TRIVIAL: &str = "trivial";

/// What two sides have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bases {
    /// The commit of the base entry that counts.
    pub(crate) entry: Option<Oid>,
    /// The tree of the merge base, where there is exactly one.
    pub(crate) sole: Option<Oid>,
    /// The tree of a merge base, where there is any: for reports.
    pub(crate) any: Option<Oid>,
}

/// What merges, beyond the merge that needs no content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MergeEngine {
    /// The trivial merge where it stands, else the git program, else (no git 2.38 or newer on PATH)
    /// as [`MergeEngine::Builtin`].
    #[default]
    Auto,
    /// The git program for everything.
    Git,
    /// Never the git program: the trivial merge, else contents by libgit2 where nothing that only git
    /// knows can matter, else a conflict of the kind `needs git`.
    Builtin,
}

/// One side of a merge.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Side {
    pub(crate) tree: Oid,
    pub(crate) head: Option<Oid>,
}

/// A path that can't be combined or written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Conflict {
    /// The path from the root; bytes that are not UTF-8 are replaced.
    pub path: String,
    /// What kind of conflict: git's word for it (`contents`, `modify/delete`, `rename/rename`, …),
    /// or `file in the way`, `changed meanwhile`, `submodule`, `needs git`. docs/protocol.md lists them.
    pub kind: String,
    /// What happened, in one sentence.
    pub detail: String,
    /// What the Parent did to the path since the merge base, as in `modified` or `renamed to X`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ours: Option<String>,
    /// What the Child did to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theirs: Option<String>,
    /// Other paths that git names with it.
    #[serde(skip)]
    pub(crate) others: Vec<String>,
}

impl Conflict {
    pub(crate) fn new(path: impl Into<String>, kind: &str, detail: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            kind: kind.to_owned(),
            detail: detail.into(),
            ours: None,
            theirs: None,
            others: Vec::new(),
        }
    }

    /// The path, the kind, and who did what: for a report.
    pub(crate) fn in_short(&self) -> String {
        let Self { path, kind, ours, theirs, .. } = self;
        match (ours, theirs) {
            (Some(ours), Some(theirs)) => format!("{path} ({kind}: {ours} in the Parent, {theirs} in the Child)"),
            _ => format!("{path} ({kind})"),
        }
    }
}

/// The first few of some conflicts in short, for a report.
pub(crate) fn named(conflicts: &[Conflict]) -> String {
    let mut named: Vec<String> = conflicts.iter().take(5).map(Conflict::in_short).collect();
    if conflicts.len() > named.len() {
        named.push(format!("and {} more", conflicts.len() - named.len()));
    }
    named.join(", ")
}

/// What became of a merge.
#[derive(Debug)]
pub(crate) enum Combined {
    Clean { tree: Oid, engine: &'static str },
    Conflict { conflicts: Vec<Conflict>, engine: &'static str },
}

/// Merges `theirs` into `ours`. A base entry is a merge base beside those of the history.
pub(crate) fn combine(
    repo: &Repo,
    quarantine: &Quarantine,
    bases: &Bases,
    ours: Side,
    theirs: Side,
    engine: MergeEngine,
    control: &Control,
) -> Result<Combined, GitError> {
    let mut combined = merged(repo, quarantine, bases, ours, theirs, engine, control)?;
    if let Combined::Conflict { conflicts, .. } = &mut combined {
        report::who_did_what(quarantine, bases.any, ours.tree, theirs.tree, conflicts, control)?;
    }
    Ok(combined)
}

fn merged(
    repo: &Repo,
    quarantine: &Quarantine,
    bases: &Bases,
    ours: Side,
    theirs: Side,
    engine: MergeEngine,
    control: &Control,
) -> Result<Combined, GitError> {
    if engine != MergeEngine::Git {
        if ours.tree == theirs.tree {
            return Ok(Combined::Clean { tree: ours.tree, engine: TRIVIAL });
        }
        if let Some(base) = bases.sole
            && let Some(tree) = trivial::merge(quarantine, base, ours.tree, theirs.tree, control)?
        {
            return Ok(Combined::Clean { tree, engine: TRIVIAL });
        }
    }
    let builtin = || builtin::merge(repo, quarantine, bases, ours, theirs, control);
    if engine == MergeEngine::Builtin {
        return builtin();
    }
    let commits = commits(quarantine, bases, [ours, theirs])?;
    let git = quarantine.enter(repo.git())?;
    let store = quarantine.store();
    // git is busy on another processor meanwhile.
    let (combined, known) = std::thread::scope(|scope| {
        let known = scope.spawn(|| store.known(bases.any, [ours.tree, theirs.tree], control));
        (program::merge_tree(repo, &git, commits, control), known.join().expect("a reader does not panic"))
    });
    quarantine.discard(&commits)?;
    match combined {
        Ok(Some(Combined::Clean { tree, engine })) => {
            quarantine.hold(tree, known?, control)?;
            Ok(Combined::Clean { tree, engine })
        }
        Ok(Some(combined)) => Ok(combined),
        // A git that is not there, is too old, or fell over an assertion of its own.
        Ok(None) | Err(GitError::NoProgram { .. } | GitError::Program { code: None, .. })
            if engine == MergeEngine::Auto =>
        {
            builtin()
        }
        Ok(None) => Err(GitError::Format { what: "a merge: git 2.38 or newer is needed on PATH".to_owned() }),
        Err(error) => Err(error),
    }
}

/// The sides as commits whose merge bases are those of the merge.
fn commits(quarantine: &Quarantine, bases: &Bases, sides: [Side; 2]) -> Result<[Oid; 2], GitError> {
    let who = Identity::of_isofold()?;
    let commit = |side: Side, message: &str| {
        let mut parents: Vec<Oid> = side.head.into_iter().collect();
        parents.extend(bases.entry.filter(|base| side.head != Some(*base)));
        quarantine.commit(side.tree, &parents, message, &who.author, &who.committer)
    };
    // Different messages: sides that are alike are two commits all the same.
    Ok([commit(sides[0], "ours")?, commit(sides[1], "theirs")?])
}
