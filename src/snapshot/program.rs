//! The whole snapshot by the git program, for what the scan does not judge: `git add -A --sparse`
//! into a copy of the index.

use super::Work;
use crate::control::Control;
use crate::git::GitError;
use crate::git::program::Git;

/// Adds everything to the index that `git` is bound to.
pub(super) fn add_all(work: &mut Work<'_>, git: &Git, control: &Control) -> Result<(), GitError> {
    let excluded = sort_untracked(work, git, control)?;
    // By stdin: there can be more of them than arguments can hold.
    let mut pathspecs = b":/\0".to_vec();
    for path in &excluded {
        pathspecs.extend([b":(top,exclude,literal)", path.as_slice(), b"\0"].concat());
    }
    let add = ["add", "-A", "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul"];
    git.run(add, Some(pathspecs), control)?.success()?;
    Ok(())
}

/// Looks through what `git add` would add: nested repositories, our own notes, left-out paths. What
/// it must not see is returned.
fn sort_untracked(work: &mut Work<'_>, git: &Git, control: &Control) -> Result<Vec<Vec<u8>>, GitError> {
    let listed = git.run(["ls-files", "-z", "--others", "--exclude-standard"], None, control)?.success()?;
    let mut excluded = Vec::new();
    for path in listed.split(|b| *b == 0).filter(|p| !p.is_empty()) {
        if path == b".isofold" || path.starts_with(b".isofold/") {
            excluded.push(path.strip_suffix(b"/").unwrap_or(path).to_vec());
        } else if let Some(nested) = path.strip_suffix(b"/") {
            work.nested(nested);
            excluded.push(nested.to_vec());
        } else if !work.takes(path) {
            excluded.push(path.to_vec());
        }
    }
    Ok(excluded)
}
