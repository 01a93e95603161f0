//! The index that goes with what was written.

use std::collections::BTreeMap;

use super::beneath::Beneath;
use super::plan::Plan;
use super::stage::Stage;
use super::swap::stat_of_new;
use crate::git::index_file::{Entry, IndexFile, IndexStat, NewEntry};
use crate::git::tree::Item;

/// The bytes of the index after the plan was carried out and with these items staged, which need not be
/// those that the plan wrote: entries keep their flags, and their stat data where it proves something.
pub(super) fn after(
    stage: &Stage,
    root: &Beneath,
    before: &IndexFile,
    plan: &Plan,
    items: &BTreeMap<Vec<u8>, Option<Item>>,
) -> Vec<u8> {
    let written = |path: &[u8], item| plan.index.get(path) == Some(&Some(item));
    let mut entries = Vec::with_capacity(before.entries().len() + items.len());
    for entry in before.entries() {
        let path = before.path(entry);
        if items.contains_key(path) {
            continue;
        }
        entries.push(NewEntry {
            path,
            mode: entry.mode,
            id: entry.id,
            // Written in the second that the stat was taken: git has to look again.
            stat: if before.racy(entry) { IndexStat::default() } else { entry.stat },
            assume_valid: entry.assume_valid(),
            skip_worktree: entry.skip_worktree(),
            intent_to_add: entry.intent_to_add(),
        });
    }
    for (path, item) in items {
        let Some(item) = item else { continue };
        let old = before.find(path);
        let stat = stat_of_new(stage, root, path).filter(|_| written(path, *item)).unwrap_or_default();
        entries.push(NewEntry {
            path,
            mode: item.mode,
            id: item.id,
            stat,
            assume_valid: old.is_some_and(Entry::assume_valid),
            skip_worktree: old.is_some_and(Entry::skip_worktree) || plan.absent.contains(path),
            intent_to_add: false,
        });
    }
    before.with_entries(entries)
}
