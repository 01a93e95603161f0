//! Base entries: which snapshot two directories have in common.
//!
//! `<common git dir>/isofold/bases/<random>.toml`, with the base commit kept alive by the ref
//! `refs/isofold/base/<random>`. The rule that says which entry counts is in `combine::bases`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Durable, VERSION, decode_path, encode_path, names_in, oid, path_text, read, text_path, write_atomic};
use crate::git::ref_files::make_hidden;
use crate::git::refs::BASES;
use crate::git::repository::Repo;
use crate::git::{GitError, Oid};

/// One base entry of a pair of directories.
#[derive(Debug, Clone)]
pub(crate) struct BaseEntry {
    /// The two directories: first the one that was isolated from or folded into. Which is which does
    /// not matter to the next fold.
    pub(crate) pair: [PathBuf; 2],
    /// The snapshot that both sides started from, as a commit.
    pub(crate) base: Oid,
    /// The tree of the base.
    pub(crate) tree: Oid,
    /// The Parent's HEAD that the base belongs to.
    pub(crate) anchor: Option<Oid>,
    /// The Child's HEAD of then.
    pub(crate) child_head: Option<Oid>,
    /// The Child's branch of then, a full ref name.
    pub(crate) branch: Option<String>,
    /// Paths of the base that never were in the Child's index.
    pub(crate) untracked: Vec<Vec<u8>>,
    /// Orders the entries of a pair.
    pub(crate) sequence: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    pair: [String; 2],
    base: String,
    tree: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    anchor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    child_head: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
    sequence: u64,
    untracked: Vec<String>,
}

/// Where the base entries of a repository are.
pub(crate) fn bases_directory(common: &Path) -> PathBuf {
    common.join("isofold").join("bases")
}

fn directory(repo: &Repo) -> PathBuf {
    bases_directory(repo.common_dir())
}

impl BaseEntry {
    /// A name that no other entry has.
    pub(crate) fn fresh_name() -> String {
        random_name()
    }

    /// Writes the entry, its ref first; both get this name.
    pub(crate) fn record_as(&self, repo: &Repo, name: &str, durable: Durable) -> Result<(), GitError> {
        repo.set_hidden_ref(&format!("{BASES}{name}"), self.base)?;
        let written =
            self.text().and_then(|text| write_atomic(&directory(repo).join(format!("{name}.toml")), &text, durable));
        if let Err(error) = written {
            forget(repo, name)?;
            return Err(error);
        }
        Ok(())
    }

    /// The text of the entry's file, for [`put`].
    pub(crate) fn text(&self) -> Result<String, GitError> {
        let text = |id: Oid| id.to_string();
        let stored = Stored {
            version: VERSION,
            pair: [path_text(&self.pair[0]), path_text(&self.pair[1])],
            base: self.base.to_string(),
            tree: self.tree.to_string(),
            anchor: self.anchor.map(text),
            child_head: self.child_head.map(text),
            branch: self.branch.clone(),
            sequence: self.sequence,
            untracked: self.untracked.iter().map(|p| encode_path(p)).collect(),
        };
        toml::to_string(&stored).map_err(|e| GitError::Format { what: format!("a base entry ({e})") })
    }

    /// The entries of a pair of directories, newest first.
    pub(crate) fn of_pair(repo: &Repo, one: &Path, two: &Path) -> Result<Vec<Self>, GitError> {
        let mut entries: Vec<Self> = all(repo)?
            .into_iter()
            .map(|(_, entry)| entry)
            .filter(|e| (e.pair[0] == one && e.pair[1] == two) || (e.pair[0] == two && e.pair[1] == one))
            .collect();
        entries.sort_by_key(|e| std::cmp::Reverse(e.sequence));
        Ok(entries)
    }

    /// The newest entry of an isolation of `child`, or of a fold of it into whatever directory. Entries
    /// in which it was the Parent say nothing about its own loose work.
    pub(crate) fn newest_of_child(repo: &Repo, child: &Path) -> Result<Option<Self>, GitError> {
        let entries = all(repo)?.into_iter().map(|(_, entry)| entry);
        Ok(entries.filter(|entry| entry.pair[1] == child).max_by_key(|entry| entry.sequence))
    }

    /// A sequence number after all that exist.
    pub(crate) fn next_sequence(repo: &Repo) -> Result<u64, GitError> {
        Ok(all(repo)?.iter().map(|(_, e)| e.sequence).max().unwrap_or(0) + 1)
    }
}

/// The names of the entries that one side of is `side`.
pub(crate) fn bases_of(repo: &Repo, side: &Path) -> Result<Vec<String>, GitError> {
    let entries = all(repo)?.into_iter().filter(|(_, entry)| entry.pair.iter().any(|p| p == side));
    Ok(entries.map(|(name, _)| name).collect())
}

/// Forgets every entry that one side of is `side`, but for the one called `except`.
pub(crate) fn forget_bases_of(repo: &Repo, side: &Path, except: &str) -> Result<(), GitError> {
    for name in bases_of(repo, side)? {
        if name != except {
            forget(repo, &name)?;
        }
    }
    Ok(())
}

/// Writes an entry from its [`BaseEntry::text`] under a given name, as often as need be. `scratch` is a
/// directory of the caller's in the repository, for files that are not whole yet.
pub(crate) fn put(repo: &Repo, name: &str, base: Oid, text: &str, scratch: &Path) -> Result<(), GitError> {
    make_hidden(repo, &format!("{BASES}{name}"), base, true, scratch)?;
    let directory = directory(repo);
    let (beside, file) = (scratch.join("base-new"), directory.join(format!("{name}.toml")));
    let written = || -> std::io::Result<()> {
        std::fs::create_dir_all(&directory)?;
        let mut new = std::fs::File::create(&beside)?;
        std::io::Write::write_all(&mut new, text.as_bytes())?;
        new.sync_data()?;
        std::fs::rename(&beside, &file)?;
        std::fs::File::open(&directory)?.sync_all()
    };
    written().map_err(GitError::io("cannot write", &file))
}

/// Forgets all but the newest `keep` entries of a pair; the refs of those are left for the caller to
/// remove.
pub(crate) fn forget_oldest(repo: &Repo, one: &Path, two: &Path, keep: usize) -> Result<Vec<String>, GitError> {
    let mut entries: Vec<(String, u64)> = all(repo)?
        .into_iter()
        .filter(|(_, e)| e.pair.iter().all(|p| p == one || p == two))
        .map(|(name, e)| (name, e.sequence))
        .collect();
    entries.sort_by_key(|(_, sequence)| std::cmp::Reverse(*sequence));
    let mut refs = Vec::new();
    for (name, _) in entries.into_iter().skip(keep) {
        let file = directory(repo).join(format!("{name}.toml"));
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(GitError::io("cannot remove", &file)(error));
            }
            _ => refs.push(format!("{BASES}{name}")),
        }
    }
    Ok(refs)
}

/// Removes one entry, the file first; what was the last one takes the directories along.
pub(crate) fn forget(repo: &Repo, name: &str) -> Result<(), GitError> {
    let directory = directory(repo);
    let file = directory.join(format!("{name}.toml"));
    match std::fs::remove_file(&file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(GitError::io("cannot remove", &file)(error));
        }
        _ => {}
    }
    repo.remove_ref(&format!("{BASES}{name}"))?;
    let _ = std::fs::remove_dir(&directory);
    let _ = directory.parent().map(std::fs::remove_dir);
    Ok(())
}

pub(crate) fn all(repo: &Repo) -> Result<Vec<(String, BaseEntry)>, GitError> {
    let directory = directory(repo);
    let mut found = Vec::new();
    for name in names_in(&directory)? {
        let path = directory.join(format!("{name}.toml"));
        // Gone meanwhile: another process forgot it.
        let Some(s) = read::<Stored>(&path)? else { continue };
        let id = |text: &Option<String>| text.as_deref().map(oid).transpose();
        let entry = BaseEntry {
            pair: [text_path(&s.pair[0]), text_path(&s.pair[1])],
            base: oid(&s.base)?,
            tree: oid(&s.tree)?,
            anchor: id(&s.anchor)?,
            child_head: id(&s.child_head)?,
            branch: s.branch,
            untracked: s.untracked.iter().map(|p| decode_path(p)).collect(),
            sequence: s.sequence,
        };
        found.push((name, entry));
    }
    Ok(found)
}

/// A name that nothing else has: time and process, then what tells two of one moment apart.
pub(crate) fn random_name() -> String {
    use std::hash::{BuildHasher, Hasher};
    let mut hasher = std::hash::RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    hasher.write_u128(now);
    format!("{:016x}", hasher.finish())
}
