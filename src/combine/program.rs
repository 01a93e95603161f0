//! The merge by the git program: `git merge-tree --write-tree`.

use super::{Combined, Conflict};
use crate::control::Control;
use crate::files::as_path;
use crate::git::program::Git;
use crate::git::{GitError, Oid, one_line, show};

const ENGINE: &str = "git";

/// Settings of a user that would move files or overlook renames: pinned to git's defaults.
const PINNED: [&str; 8] = [
    "-c",
    "merge.renames=true",
    "-c",
    "merge.renameLimit=7000",
    "-c",
    "merge.directoryRenames=conflict",
    "-c",
    "merge.conflictStyle=merge",
];

/// The merge; `None` from a git that has no `merge-tree --write-tree`.
pub(super) fn merge_tree(git: &Git, ours: Oid, theirs: Oid, control: &Control) -> Result<Option<Combined>, GitError> {
    let (ours, theirs) = (ours.to_string(), theirs.to_string());
    let question = ["merge-tree", "--write-tree", "-z", "--messages", &ours, &theirs];
    let finished = git.run(PINNED.into_iter().chain(question), None, control)?;
    let unreadable = || GitError::Format { what: "the answer of git merge-tree".to_owned() };
    match finished.code {
        Some(0 | 1) => {}
        // A usage error: this git is older than 2.38.
        Some(129) => return Ok(None),
        _ => return Err(finished.failure()),
    }
    let mut fields = finished.stdout.split(|b| *b == 0);
    let tree = fields.next().and_then(|f| std::str::from_utf8(f).ok()).and_then(|f| Oid::from_str(f.trim()).ok());
    let tree = tree.ok_or_else(unreadable)?;
    if finished.code == Some(0) {
        return Ok(Some(Combined::Clean { tree, engine: ENGINE }));
    }
    // Conflicted entries up to an empty field: `MODE ID STAGE<tab>PATH`.
    let mut paths: Vec<&[u8]> = Vec::new();
    for field in fields.by_ref().take_while(|field| !field.is_empty()) {
        let tab = field.iter().position(|b| *b == b'\t').ok_or_else(unreadable)?;
        paths.push(&field[tab + 1..]);
    }
    paths.dedup();
    // Messages: the number of paths, the paths, the type, the text.
    let mut conflicts: Vec<Conflict> = Vec::new();
    while let Some(count) = fields.next().filter(|field| !field.is_empty()) {
        let count: usize =
            std::str::from_utf8(count).ok().and_then(|c| c.trim().parse().ok()).ok_or_else(unreadable)?;
        let about: Vec<&[u8]> = fields.by_ref().take(count).collect();
        let (kind, text) = (fields.next().ok_or_else(unreadable)?, fields.next().ok_or_else(unreadable)?);
        let kind = String::from_utf8_lossy(kind);
        // Others than `CONFLICT (…)` and `CONFLICT(…)` only tell what git did.
        let Some(kind) = kind.strip_prefix("CONFLICT") else { continue };
        let kind = kind.trim_start_matches([' ', '(']).trim_end_matches(')');
        let path = about.first().copied().unwrap_or_default();
        // git knows the sides by the ids of commits that nobody else ever sees.
        let text = one_line(&String::from_utf8_lossy(text));
        let text = text.replace(&ours, "the Parent").replace(&theirs, "the Child");
        conflicts.push(Conflict::new(show(as_path(path)), kind, text));
    }
    for path in paths {
        let path = show(as_path(path));
        if !conflicts.iter().any(|c| c.path == path) {
            let detail = format!("both sides changed {path}");
            conflicts.push(Conflict::new(path, "contents", detail));
        }
    }
    if conflicts.is_empty() {
        return Err(unreadable());
    }
    conflicts.sort_by(|a, b| (&a.path, &a.kind).cmp(&(&b.path, &b.kind)));
    conflicts.dedup();
    Ok(Some(Combined::Conflict { conflicts, engine: ENGINE }))
}
