//! Looking at sessions: the list, what changed, the patch.

use std::path::Path;

use super::{Session, SessionError, record, work};
use crate::control::Control;
use crate::git::quarantine::Quarantine;
use crate::git::repository::Repo;
use crate::git::tree::Objects;
use crate::git::{GitError, Oid, one_line};
use crate::records::SessionRecord;

/// How much a session changed, counted as `git diff --shortstat` does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changes {
    /// Files.
    pub files: u64,
    /// Lines that came.
    pub insertions: u64,
    /// Lines that went.
    pub deletions: u64,
}

impl std::fmt::Display for Changes {
    /// In git's words: `4 files changed, 127 insertions(+), 42 deletions(-)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plural = |n: u64| if n == 1 { "" } else { "s" };
        if self.files == 0 {
            return f.write_str("no changes");
        }
        write!(f, "{} file{} changed", self.files, plural(self.files))?;
        let both = self.insertions == 0 && self.deletions == 0;
        if self.insertions > 0 || both {
            write!(f, ", {} insertion{}(+)", self.insertions, plural(self.insertions))?;
        }
        if self.deletions > 0 || both {
            write!(f, ", {} deletion{}(-)", self.deletions, plural(self.deletions))?;
        }
        Ok(())
    }
}

/// A session as it stands.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SessionState {
    /// The session.
    pub session: Session,
    /// Whether its worktree is there.
    pub present: bool,
    /// Commits that it has and its start has not.
    pub ahead: usize,
    /// Paths that differ from its HEAD.
    pub dirty: usize,
    /// What it changed since its start, commits included.
    pub changes: Changes,
    /// Why it can't be looked at, where it can't.
    pub trouble: Option<String>,
}

/// All sessions of the repository that `at` lies in, oldest first.
///
/// # Errors
/// [`SessionError`] where the repository can't be read; what is wrong with one session is in its
/// [`SessionState::trouble`].
pub fn list(at: &Path, control: &Control) -> Result<Vec<SessionState>, SessionError> {
    let repo = Repo::containing(at)?;
    let mut states = Vec::new();
    for record in SessionRecord::all(repo.common_dir())? {
        let mut state = SessionState {
            session: Session::of(&record),
            present: false,
            ahead: 0,
            dirty: 0,
            changes: Changes::default(),
            trouble: None,
        };
        match look(&repo, &record, &mut state, control) {
            Err(SessionError::Interrupted) => return Err(SessionError::Interrupted),
            Err(error) => state.trouble = Some(one_line(&error.to_string())),
            Ok(()) => {}
        }
        states.push(state);
    }
    Ok(states)
}

fn look(repo: &Repo, record: &SessionRecord, state: &mut SessionState, control: &Control) -> Result<(), SessionError> {
    let Some(open) = work::open(repo, record)? else {
        state.ahead = repo.commits_between(record.head, repo.ref_id(&record.branch)?)?.len();
        return Ok(());
    };
    state.present = true;
    let head = open.child.head()?.id;
    state.ahead = repo.commits_between(record.head, head)?.len();
    let quarantine = Quarantine::new(repo)?;
    let content = open.content(repo, record, &quarantine, control)?;
    state.dirty = quarantine.changes(repo.head_tree(head)?, content.tree)?.len();
    state.changes = count(repo, &quarantine, repo.tree_of(record.base)?, content.tree, control)?;
    Ok(())
}

/// What the session `name` changed since its start.
///
/// # Errors
/// [`SessionError`].
pub fn changes(at: &Path, name: &str, control: &Control) -> Result<Changes, SessionError> {
    with_trees(at, name, control, |repo, quarantine, base, tree| count(repo, quarantine, base, tree, control))
}

/// What the session `name` changed since its start: a binary-safe patch or, with `stat`, git's
/// diffstat.
///
/// # Errors
/// [`SessionError`].
pub fn diff(at: &Path, name: &str, stat: bool, control: &Control) -> Result<Vec<u8>, SessionError> {
    with_trees(at, name, control, |repo, quarantine, base, tree| {
        let how: &[&str] = if stat { &["--stat", "-M"] } else { &["-p", "--binary", "--full-index", "-M"] };
        compared(repo, quarantine, how, base, tree, control)
    })
}

fn with_trees<T>(
    at: &Path,
    name: &str,
    control: &Control,
    then: impl FnOnce(&Repo, &Quarantine, Oid, Oid) -> Result<T, SessionError>,
) -> Result<T, SessionError> {
    let repo = Repo::containing(at)?;
    let record = record(&repo, name)?;
    let open = work::open(&repo, &record)?.ok_or_else(|| super::gone(&record))?;
    let quarantine = Quarantine::new(&repo)?;
    let content = open.content(&repo, &record, &quarantine, control)?;
    then(&repo, &quarantine, repo.tree_of(record.base)?, content.tree)
}

/// The lines of two trees, counted by git.
pub(super) fn count(
    repo: &Repo,
    quarantine: &Quarantine,
    base: Oid,
    tree: Oid,
    control: &Control,
) -> Result<Changes, SessionError> {
    if base == tree {
        return Ok(Changes::default());
    }
    let said = compared(repo, quarantine, &["--shortstat", "-M"], base, tree, control)?;
    let said = String::from_utf8_lossy(&said).into_owned();
    let mut changes = Changes::default();
    // ` 4 files changed, 127 insertions(+), 42 deletions(-)`
    for part in said.trim().split(", ") {
        let Some((number, what)) = part.split_once(' ') else { continue };
        let number = number.parse().map_err(|_| GitError::Format { what: format!("git's answer {said:?}") })?;
        match what.as_bytes() {
            [b'f', ..] => changes.files = number,
            [b'i', ..] => changes.insertions = number,
            _ => changes.deletions = number,
        }
    }
    Ok(changes)
}

/// `git diff-tree` between two trees, without what a user configured for their own eyes.
fn compared(
    repo: &Repo,
    quarantine: &Quarantine,
    how: &[&str],
    base: Oid,
    tree: Oid,
    control: &Control,
) -> Result<Vec<u8>, SessionError> {
    let fixed =
        ["diff-tree", "-r", "--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/"];
    let (base, tree) = (base.to_string(), tree.to_string());
    let arguments = fixed.iter().chain(how).copied().chain([base.as_str(), tree.as_str()]);
    Ok(quarantine.enter(repo.git())?.run(arguments, None, control)?.success()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_read_as_git_says_them() {
        let say = |files, insertions, deletions| Changes { files, insertions, deletions }.to_string();
        assert_eq!(say(4, 127, 42), "4 files changed, 127 insertions(+), 42 deletions(-)");
        assert_eq!(say(1, 1, 0), "1 file changed, 1 insertion(+)");
        assert_eq!(say(1, 0, 2), "1 file changed, 2 deletions(-)");
        assert_eq!(say(1, 0, 0), "1 file changed, 0 insertions(+), 0 deletions(-)");
        assert_eq!(say(0, 0, 0), "no changes");
    }
}
