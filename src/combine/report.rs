//! Which side did what to a path in conflict.

use std::collections::BTreeMap;

use super::{Conflict, renames};
use crate::control::Control;
use crate::files::as_path;
use crate::git::quarantine::Quarantine;
use crate::git::tree::{Change, Item, MODE_EXECUTABLE, MODE_GITLINK, MODE_LINK, Objects};
use crate::git::{GitError, Oid, show};

/// Fills in what both sides did since `base` to the path of each conflict.
pub(super) fn who_did_what(
    quarantine: &Quarantine,
    base: Option<Oid>,
    ours: Oid,
    theirs: Oid,
    conflicts: &mut [Conflict],
    control: &Control,
) -> Result<(), GitError> {
    let Some(base) = base else { return Ok(()) };
    let (mine, yours) = (quarantine.changes(base, ours)?, quarantine.changes(base, theirs)?);
    let (mine, yours) = (Deeds::of(quarantine, &mine, control)?, Deeds::of(quarantine, &yours, control)?);
    for conflict in conflicts {
        conflict.ours = Some(mine.said(conflict, &yours));
        conflict.theirs = Some(yours.said(conflict, &mine));
    }
    Ok(())
}

/// What one side did, by the path as it is shown.
struct Deeds<'a> {
    changed: BTreeMap<String, &'a Change>,
    renamed_to: BTreeMap<String, String>,
    renamed_from: BTreeMap<String, String>,
}

impl<'a> Deeds<'a> {
    fn of(quarantine: &Quarantine, changes: &'a [Change], control: &Control) -> Result<Self, GitError> {
        let name = |path: &[u8]| show(as_path(path));
        let mut pairs = renames::pairs(quarantine, changes, renames::AS_GIT, control)?.unwrap_or_default();
        // The most alike first, and each file in one pair only.
        pairs.sort_by(|a, b| b.percent.cmp(&a.percent).then(a.from.cmp(b.from)));
        let (mut renamed_to, mut renamed_from) = (BTreeMap::new(), BTreeMap::new());
        for pair in &pairs {
            let (from, to) = (name(pair.from), name(pair.to));
            if !renamed_to.contains_key(&from) && !renamed_from.contains_key(&to) {
                renamed_from.insert(to.clone(), from.clone());
                renamed_to.insert(from, to);
            }
        }
        let by_name = changes.iter().map(|change| (name(&change.path), change)).collect();
        Ok(Self { changed: by_name, renamed_to, renamed_from })
    }

    /// What the side did to a conflict's path, or to the file that has another name here.
    fn said(&self, conflict: &Conflict, other: &Self) -> String {
        if let Some(deed) = self.to(&conflict.path) {
            return deed;
        }
        let names = || other.renamed_from.get(&conflict.path).into_iter().chain(&conflict.others);
        for name in names() {
            if let Some(deed) = self.to(name) {
                return format!("{deed} (as {name})");
            }
        }
        // A directory that the file would have moved along with.
        for name in names() {
            let Some((directory, _)) = name.rsplit_once('/') else { continue };
            let below = format!("{directory}/");
            if let Some((from, to)) = self.renamed_to.iter().find(|(from, _)| from.starts_with(&below)) {
                return format!("renamed {from} to {to}");
            }
        }
        "unchanged".to_owned()
    }

    fn to(&self, path: &str) -> Option<String> {
        let below = format!("{path}/");
        let inside: Vec<&Change> =
            self.changed.range(below.clone()..).take_while(|(p, _)| p.starts_with(&below)).map(|(_, c)| *c).collect();
        if let Some(to) = self.renamed_to.get(path) {
            return Some(format!("renamed to {to}"));
        }
        if let Some(from) = self.renamed_from.get(path) {
            return Some(format!("renamed from {from}"));
        }
        let deed = match self.changed.get(path).map(|change| (change.old, change.new)) {
            None if inside.is_empty() => return None,
            None if inside.iter().all(|change| change.old.is_none()) => "added files below it",
            None if inside.iter().all(|change| change.new.is_none()) => "deleted files below it",
            None => "changed files below it",
            Some((_, None)) if inside.iter().any(|change| change.new.is_some()) => "replaced by a directory",
            Some((_, None)) => "deleted",
            Some((None, Some(_))) => "added",
            Some((Some(old), Some(new))) => turned(old, new),
        };
        Some(deed.to_owned())
    }
}

fn turned(old: Item, new: Item) -> &'static str {
    match (old.mode, new.mode) {
        (MODE_GITLINK, MODE_GITLINK) => "moved to another commit",
        (old, new) if old & 0o170_000 != new & 0o170_000 => match new {
            MODE_LINK => "replaced by a link",
            MODE_GITLINK => "replaced by a submodule",
            _ => "replaced by a file",
        },
        (then, now) if then != now && old.id == new.id => {
            if now == MODE_EXECUTABLE {
                "made executable"
            } else {
                "made not executable"
            }
        }
        _ => "modified",
    }
}
