//! The whole snapshot by the git program, for what the scan does not judge: `git add -A --sparse`
//! into a copy of the index.

use super::Work;
use crate::control::Control;
use crate::files::as_path;
use crate::git::GitError;
use crate::git::program::Git;

/// Adds everything to the index that `git` is bound to.
pub(super) fn add_all(work: &mut Work<'_>, git: &Git, control: &Control) -> Result<(), GitError> {
    let excluded = sort_untracked(work, git, control)?;
    let mut arguments: Vec<Vec<u8>> = [&b"add"[..], b"-A", b"--sparse", b"--", b":/"].map(<[u8]>::to_vec).into();
    for path in &excluded {
        arguments.push([b":(top,exclude,literal)", path.as_slice()].concat());
    }
    git.run(arguments.iter().map(|a| as_path(a)), None, control)?.success()?;
    Ok(())
}

/// Looks through what `git add` would add: nested repositories, our own notes, left-out paths. What
/// it must not see is returned.
fn sort_untracked(work: &mut Work<'_>, git: &Git, control: &Control) -> Result<Vec<Vec<u8>>, GitError> {
    let listed = git.run(["ls-files", "-z", "--others", "--exclude-standard"], None, control)?.success()?;
    let mut excluded = Vec::new();
    let mut notes = false;
    for path in listed.split(|b| *b == 0).filter(|p| !p.is_empty()) {
        if path.starts_with(b".isofold/") {
            notes = true;
        } else if let Some(nested) = path.strip_suffix(b"/") {
            work.nested(nested);
            excluded.push(nested.to_vec());
        } else if !work.takes(path) {
            excluded.push(path.to_vec());
        }
    }
    if notes {
        excluded.push(b".isofold".to_vec());
    }
    Ok(excluded)
}
