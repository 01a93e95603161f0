//! The record of a Child: `isofold.toml` in its administrative directory.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Durable, VERSION, decode_path, encode_path, oid, path_text, read, text_path, write_atomic};
use crate::files::owner::Owner;
use crate::git::{GitError, Oid};

const FILE: &str = "isofold.toml";

/// Where the Child stands in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// Isolate is filling it.
    Making,
    /// Complete.
    Ready,
    /// Remove has begun and must be finished.
    Removing,
}

/// What isolate (and remove) remember of a Child.
#[derive(Debug, Clone)]
pub(crate) struct ChildRecord {
    pub(crate) state: State,
    pub(crate) id: Option<String>,
    pub(crate) parent: PathBuf,
    pub(crate) child: PathBuf,
    /// The Parent's branch at isolate, a full ref name; none where HEAD was detached.
    pub(crate) parent_branch: Option<String>,
    /// The Child's branch; none where it is detached.
    pub(crate) branch: Option<String>,
    /// The exclude list that was in force.
    pub(crate) exclude: Vec<String>,
    /// Untracked files that are not in the base.
    pub(crate) omitted: Vec<Omitted>,
    /// Untracked paths that came along although the exclude list names them: part of no snapshot.
    pub(crate) included: Vec<Vec<u8>>,
    pub(crate) owner: Owner,
    /// What else goes if the owner dies.
    pub(crate) made: Made,
}

/// What an isolation makes beside the Child and its registry entry, or a removal takes away, written
/// down before it does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Made {
    /// Directories above the Child, outer ones first.
    pub(crate) ancestors: Vec<PathBuf>,
    /// Where the branch comes from (nowhere: it is new) and goes to.
    pub(crate) branch: Option<(Option<Oid>, Oid)>,
    /// Names of base entries that go with it.
    pub(crate) bases: Vec<String>,
}

/// An untracked file that is not in the base, as it was filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Omitted {
    pub(crate) path: Vec<u8>,
    size: u64,
    modified: (i64, i64),
}

impl Omitted {
    /// The file at `path` in `root` as it is now; `None` where there is none.
    pub(crate) fn now(root: &Path, path: &[u8]) -> Option<Self> {
        let meta = std::fs::symlink_metadata(root.join(crate::files::as_path(path))).ok()?;
        Some(Self { path: path.to_vec(), size: meta.len(), modified: (meta.mtime(), meta.mtime_nsec()) })
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredOmitted {
    path: String,
    size: u64,
    seconds: i64,
    nanoseconds: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    state: State,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    parent: String,
    child: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_branch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
    exclude: Vec<String>,
    owner: Owner,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    included: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    omitted: Vec<StoredOmitted>,
    #[serde(skip_serializing_if = "Option::is_none")]
    made: Option<StoredMade>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredMade {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ancestors: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch_from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch_to: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    bases: Vec<String>,
}

impl StoredMade {
    fn of(made: &Made) -> Option<Self> {
        let text = |id: Oid| id.to_string();
        (*made != Made::default()).then(|| Self {
            ancestors: made.ancestors.iter().map(|path| path_text(path)).collect(),
            branch_from: made.branch.and_then(|(from, _)| from).map(text),
            branch_to: made.branch.map(|(_, to)| text(to)),
            bases: made.bases.clone(),
        })
    }

    fn read(self) -> Result<Made, GitError> {
        let id = |text: Option<String>| text.as_deref().map(oid).transpose();
        let from = id(self.branch_from)?;
        Ok(Made {
            ancestors: self.ancestors.iter().map(|path| text_path(path)).collect(),
            branch: id(self.branch_to)?.map(|to| (from, to)),
            bases: self.bases,
        })
    }
}

impl ChildRecord {
    /// The record of a Child that this process is at work on; nothing else is known of it yet.
    pub(crate) fn new(state: State, parent: &Path, child: &Path) -> Self {
        Self {
            state,
            id: None,
            parent: parent.to_owned(),
            child: child.to_owned(),
            parent_branch: None,
            branch: None,
            exclude: Vec::new(),
            omitted: Vec::new(),
            included: Vec::new(),
            owner: Owner::this(),
            made: Made::default(),
        }
    }

    /// When the record was last written.
    pub(crate) fn written(admin: &Path) -> Option<(i64, i64)> {
        let meta = std::fs::metadata(admin.join(FILE)).ok()?;
        Some((meta.mtime(), meta.mtime_nsec()))
    }

    /// Untracked paths that came with the Child and are no work of it: too large for the base and not
    /// changed since, or let in past the exclude list.
    pub(crate) fn no_work(&self, root: &Path) -> Vec<Vec<u8>> {
        let unchanged = self.omitted.iter().filter(|o| Omitted::now(root, &o.path).as_ref() == Some(*o));
        unchanged.map(|o| o.path.clone()).chain(self.included.iter().cloned()).collect()
    }

    /// The record in an administrative directory, none in one that isolate did not make.
    pub(crate) fn read(admin: &Path) -> Result<Option<Self>, GitError> {
        let stored: Option<Stored> = read(&admin.join(FILE))?;
        let Some(s) = stored else { return Ok(None) };
        Ok(Some(Self {
            state: s.state,
            id: s.id,
            parent: text_path(&s.parent),
            child: text_path(&s.child),
            parent_branch: s.parent_branch,
            branch: s.branch,
            exclude: s.exclude,
            omitted: s
                .omitted
                .into_iter()
                .map(|o| Omitted { path: decode_path(&o.path), size: o.size, modified: (o.seconds, o.nanoseconds) })
                .collect(),
            included: s.included.iter().map(|path| decode_path(path)).collect(),
            owner: s.owner,
            made: s.made.map(StoredMade::read).transpose()?.unwrap_or_default(),
        }))
    }

    /// Writes the record into an administrative directory.
    pub(crate) fn write(&self, admin: &Path) -> Result<(), GitError> {
        let stored = Stored {
            version: VERSION,
            state: self.state,
            id: self.id.clone(),
            parent: path_text(&self.parent),
            child: path_text(&self.child),
            parent_branch: self.parent_branch.clone(),
            branch: self.branch.clone(),
            exclude: self.exclude.clone(),
            owner: self.owner.clone(),
            included: self.included.iter().map(|path| encode_path(path)).collect(),
            omitted: self
                .omitted
                .iter()
                .map(|o| StoredOmitted {
                    path: encode_path(&o.path),
                    size: o.size,
                    seconds: o.modified.0,
                    nanoseconds: o.modified.1,
                })
                .collect(),
            made: StoredMade::of(&self.made),
        };
        let text = toml::to_string(&stored).map_err(|e| GitError::Format { what: format!("a record ({e})") })?;
        write_atomic(&admin.join(FILE), &text, Durable::Later)
    }
}
