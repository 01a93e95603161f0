//! The merge by the git program: `git merge-tree --write-tree`.

use super::{Combined, Conflict};
use crate::control::Control;
use crate::files::as_path;
use crate::git::program::Git;
use crate::git::repository::Repo;
use crate::git::{GitError, Oid, one_line, show};

const ENGINE: &str = "git";

/// The kind of most conflicts.
const CONTENTS: &str = "contents";

/// Settings that say what a merge comes to and how it is told, with git's defaults. They are pinned, so
/// that the result does not depend on who runs it: only the repository's own settings count. Where the
/// first key is not set there the second one is asked, as git does.
const SETTINGS: [(&[&str], &str); 6] = [
    (&["merge.renames", "diff.renames"], "true"),
    (&["merge.renameLimit", "diff.renameLimit"], "7000"),
    (&["merge.directoryRenames"], "conflict"),
    (&["merge.conflictStyle"], "merge"),
    (&["merge.verbosity"], "2"),
    // Read by git before 2.50 only.
    (&["diff.algorithm"], "histogram"),
];

/// How loose objects are written, in a quarantine that nobody else writes to: they are read at once and
/// then packed, so nothing is to be had from deflating them.
const WRITING: [&str; 4] = ["-c", "core.looseCompression=0", "-c", "core.createObject=rename"];

/// The settings that a merge in `repo` runs with, as options of git.
fn pinned(repo: &Repo) -> Result<Vec<String>, GitError> {
    let own = repo.own_settings(&SETTINGS.map(|(keys, _)| keys))?;
    let all = SETTINGS.iter().zip(own).flat_map(|((keys, default), own)| {
        let value = own.unwrap_or_else(|| (*default).to_owned());
        keys.iter().flat_map(move |key| ["-c".to_owned(), format!("{key}={value}")])
    });
    Ok(all.chain(WRITING.map(str::to_owned)).collect())
}

/// The merge; `None` from a git that has no `merge-tree --write-tree`.
pub(super) fn merge_tree(
    repo: &Repo,
    git: &Git,
    commits: [Oid; 2],
    control: &Control,
) -> Result<Option<Combined>, GitError> {
    let merged = merge_tree_marked(repo, git, commits, control)?;
    Ok(merged.map(|(tree, conflicts)| {
        if conflicts.is_empty() {
            Combined::Clean { tree, engine: ENGINE }
        } else {
            Combined::Conflict { conflicts, engine: ENGINE }
        }
    }))
}

/// The same, with the tree that git writes for a conflict: markers in the files, and the ids of the two
/// commits for labels.
pub(super) fn merge_tree_marked(
    repo: &Repo,
    git: &Git,
    commits: [Oid; 2],
    control: &Control,
) -> Result<Option<(Oid, Vec<Conflict>)>, GitError> {
    let [ours, theirs] = commits.map(|id| id.to_string());
    let question = ["merge-tree", "--write-tree", "-z", "--messages", &ours, &theirs];
    let settings = pinned(repo)?;
    let finished = git.run(settings.iter().map(String::as_str).chain(question), None, control)?;
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
        return Ok(Some((tree, Vec::new())));
    }
    // Conflicted entries up to an empty field: `MODE ID STAGE<tab>PATH`.
    let mut paths: Vec<&[u8]> = Vec::new();
    for field in fields.by_ref().take_while(|field| !field.is_empty()) {
        let tab = field.iter().position(|b| *b == b'\t').ok_or_else(unreadable)?;
        paths.push(&field[tab + 1..]);
    }
    paths.dedup();
    // Where git would move a file out of the way it names the place after a commit of ours.
    let aside = |text: &str| text.replace(&format!("~{ours}"), "").replace(&format!("~{theirs}"), "");
    // Messages: the number of paths, the paths, the type, the text.
    let mut conflicts: Vec<Conflict> = Vec::new();
    let mut told: Vec<String> = Vec::new();
    while let Some(count) = fields.next().filter(|field| !field.is_empty()) {
        let count: usize =
            std::str::from_utf8(count).ok().and_then(|c| c.trim().parse().ok()).ok_or_else(unreadable)?;
        let about: Vec<&[u8]> = fields.by_ref().take(count).collect();
        let (kind, text) = (fields.next().ok_or_else(unreadable)?, fields.next().ok_or_else(unreadable)?);
        let kind = String::from_utf8_lossy(kind);
        // Others than `CONFLICT (…)` and `CONFLICT(…)` only tell what git did.
        let Some(kind) = kind.strip_prefix("CONFLICT") else { continue };
        let kind = kind.trim_start_matches([' ', '(']).trim_end_matches(')');
        // git knows the sides by the ids of commits that nobody else ever sees.
        let text = one_line(&String::from_utf8_lossy(text));
        let text = text.split("; moving it to ").next().unwrap_or_default();
        let text = aside(text).replace(&ours, "the Parent").replace(&theirs, "the Child");
        let about: Vec<String> = about.into_iter().map(|path| aside(&show(as_path(path)))).collect();
        let mut conflict = Conflict::new(about.first().map_or("", String::as_str), kind, text);
        conflict.others = about.iter().skip(1).cloned().collect();
        told.extend(about);
        conflicts.push(conflict);
    }
    for path in paths {
        let path = aside(&show(as_path(path)));
        if !told.contains(&path) {
            let detail = format!("both sides changed {path}");
            conflicts.push(Conflict::new(path, CONTENTS, detail));
        }
    }
    if conflicts.is_empty() {
        return Err(unreadable());
    }
    conflicts.sort_by(|a, b| (&a.path, &a.kind).cmp(&(&b.path, &b.kind)));
    conflicts.dedup();
    // Beside a kind that says more, this one says nothing.
    let special: Vec<String> = conflicts.iter().filter(|c| c.kind != CONTENTS).map(|c| c.path.clone()).collect();
    conflicts.retain(|c| c.kind != CONTENTS || !special.contains(&c.path));
    Ok(Some((tree, conflicts)))
}
