//! Which files of a side git could take for renamed ones: the same measure as git's, chunk by chunk.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::control::Control;
use crate::git::quarantine::Quarantine;
use crate::git::tree::{Change, Item, MODE_GITLINK, MODE_LINK, Objects};
use crate::git::{GitError, Oid};

/// More pairs than this are not compared.
const MOST_PAIRS: usize = 250_000;

/// Similar enough for git, in percent.
pub(super) const AS_GIT: u64 = 50;

/// Similar enough that git may think so.
pub(super) const FOR_SURE: u64 = 40;

/// A file that went and one like it that came.
pub(super) struct Pair<'a> {
    pub(super) from: &'a [u8],
    pub(super) to: &'a [u8],
    pub(super) percent: u64,
}

/// Every pair of a deleted and an added file that are alike by `percent` or more; `None` where there
/// are too many to compare.
pub(super) fn pairs<'a>(
    quarantine: &Quarantine,
    changes: &'a [Change],
    percent: u64,
    control: &Control,
) -> Result<Option<Vec<Pair<'a>>>, GitError> {
    let gone: Vec<(&Change, Item)> =
        changes.iter().filter(|c| c.new.is_none()).filter_map(|c| Some((c, c.old?))).collect();
    let came: Vec<(&Change, Item)> =
        changes.iter().filter(|c| c.old.is_none()).filter_map(|c| Some((c, c.new?))).collect();
    if gone.len().saturating_mul(came.len()) > MOST_PAIRS {
        return Ok(None);
    }
    let mut known: HashMap<Oid, Chunks> = HashMap::new();
    let mut found = Vec::new();
    for (from, old) in &gone {
        control.check()?;
        for (to, new) in &came {
            let alike = if old.id == new.id {
                100
            } else if [old.mode, new.mode].iter().any(|mode| [MODE_LINK, MODE_GITLINK].contains(mode)) {
                0
            } else {
                for id in [old.id, new.id] {
                    if let Entry::Vacant(vacant) = known.entry(id) {
                        vacant.insert(Chunks::of(&quarantine.blob(id)?));
                    }
                }
                known[&old.id].alike(&known[&new.id])
            };
            if alike >= percent {
                found.push(Pair { from: &from.path, to: &to.path, percent: alike });
            }
        }
    }
    Ok(Some(found))
}

/// Content cut at line ends, and after 64 bytes: how many bytes of each chunk there are.
struct Chunks {
    size: u64,
    counts: HashMap<Vec<u8>, u64>,
}

impl Chunks {
    fn of(content: &[u8]) -> Self {
        let text = !content.iter().take(8_000).any(|b| *b == 0);
        let mut counts = HashMap::new();
        let mut chunk = Vec::new();
        for (at, byte) in content.iter().enumerate() {
            if text && *byte == b'\r' && content.get(at + 1) == Some(&b'\n') {
                continue;
            }
            chunk.push(*byte);
            if *byte == b'\n' || chunk.len() == 64 {
                let length = chunk.len() as u64;
                *counts.entry(std::mem::take(&mut chunk)).or_default() += length;
            }
        }
        if !chunk.is_empty() {
            let length = chunk.len() as u64;
            *counts.entry(chunk).or_default() += length;
        }
        Self { size: content.len() as u64, counts }
    }

    /// The part of the larger one that both have, in percent.
    fn alike(&self, other: &Self) -> u64 {
        let common: u64 =
            self.counts.iter().filter_map(|(chunk, count)| Some(*count.min(other.counts.get(chunk)?))).sum();
        (common * 100).checked_div(self.size.max(other.size)).unwrap_or(0)
    }
}
