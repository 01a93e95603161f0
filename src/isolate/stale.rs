//! What a killed isolation left: recognised by its record, removed only if its owner is dead.

use std::fs;
use std::path::Path;

use crate::files::remove::remove_tree;
use crate::git::worktrees::{self, admin_of_git_file};
use crate::records::{ChildRecord, State};

/// Removes an incomplete Child at `child` whose maker no longer runs, with its registration. What is
/// anything else, or can't be judged, stays.
pub(super) fn clear(child: &Path) {
    let Some(admin) = admin_of_git_file(&child.join(".git")).and_then(|admin| fs::canonicalize(admin).ok()) else {
        return;
    };
    let Some(common) =
        admin.parent().filter(|p| p.file_name().is_some_and(|n| n == "worktrees")).and_then(Path::parent)
    else {
        return;
    };
    if !is_dead(&admin, child) {
        return;
    }
    // The directory first: as long as the record is there, the next try knows what this is.
    let cleared = remove_tree(child).map_err(|e| e.to_string());
    let cleared = cleared.and_then(|()| worktrees::unregister(common, &admin).map_err(|e| e.to_string()));
    if let Err(error) = cleared {
        tracing::warn!(%error, "an incomplete Child could not be removed");
    }
}

/// Whether the registry entry `admin` is that of an isolation of `child` whose maker no longer runs.
pub(super) fn is_dead(admin: &Path, child: &Path) -> bool {
    let Ok(Some(record)) = ChildRecord::read(admin) else { return false };
    let same = fs::canonicalize(child).map_or_else(|_| record.child == child, |real| record.child == real);
    same && record.state == State::Making && !record.owner.lives()
}
