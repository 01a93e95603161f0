//! Snapshot: a directory as a tree, exactly as `git add -A --sparse && git write-tree` would make
//! it through a copy of the directory's index.
//!
//! [`scan`] finds in one walk what may differ from the index and what is new; [`inline`] stores just
//! that, line endings converted, or has git store it ([`store`]) where git has to convert more. Where the
//! scan can't judge, git does all of it ([`program`]). What is not part of a snapshot:
//! other worktrees of the repository, untracked nested repositories, `.isofold/`, and what the
//! caller's [`Rules`] leave out. The index itself is never written.

mod attributes;
mod convert;
mod ignore;
mod inline;
mod program;
mod read;
mod scan;
mod store;
mod unseen;
mod wildmatch;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use rustix::fs::FileType;

use crate::control::{Control, Stop};
use crate::files::queue::WORKERS;
use crate::files::{FilesError, as_path};
use crate::git::index_file::IndexFile;
use crate::git::nested::{is_repository, leads_nowhere};
use crate::git::quarantine::Store;
use crate::git::repository::{Place, Repo};
use crate::git::settings::{Content, content, ignore_files};
use crate::git::tree::MODE_GITLINK;
use crate::git::worktrees::admin_of_git_file;
use crate::git::{GitError, Oid, show};
use crate::options::Excludes;

pub(crate) use attributes::attributes_above;
use ignore::Ignore;
pub(crate) use ignore::{PathRules, SparseRules};
use scan::{Ground, Scanned};
use store::Stored;

/// What a snapshot leaves out or takes in beyond git's own rules, and how it goes about it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules<'a> {
    /// Untracked paths that these cover stay out, and are named in [`Snapshot::left_out`].
    pub(crate) leave_out: Option<&'a Excludes>,
    /// Paths that are taken in even where an ignore rule matches them, if they are untracked files.
    pub(crate) keep: &'a [Vec<u8>],
    /// Untracked paths that stay out, with what is below them; named in [`Snapshot::omitted`].
    pub(crate) omit: &'a [Vec<u8>],
    /// How many threads look at the files; `None` for as many as help. One takes the least CPU time.
    pub(crate) threads: Option<usize>,
}

/// Whether `path` is one of these or lies below one.
pub(crate) fn covered(paths: &[Vec<u8>], path: &[u8]) -> bool {
    let below = |rest: &[u8]| rest.is_empty() || rest.starts_with(b"/");
    paths.iter().any(|above| path.strip_prefix(above.as_slice()).is_some_and(below))
}

/// What the caller has seen of the directory already.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// The directory's index as it is on the disk.
    pub(crate) index: Arc<IndexFile>,
    /// Positions in the index of files that are proven to be what it says.
    pub(crate) clean: Vec<bool>,
    /// Positions in the index whose file is there.
    pub(crate) there: Vec<bool>,
    /// The topmost untracked paths; `true` for a directory.
    pub(crate) untracked: Vec<(Vec<u8>, bool)>,
}

/// A directory as a tree.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) tree: Oid,
    /// The index that the tree was written from.
    pub(crate) index: Arc<IndexFile>,
    /// The directory's own index as it was when the snapshot began.
    pub(crate) before: Arc<IndexFile>,
    /// Untracked paths that the rules left out.
    pub(crate) left_out: Vec<Vec<u8>>,
    /// Untracked paths that the rules omit.
    pub(crate) omitted: Vec<Vec<u8>>,
    /// What a snapshot can't see or does not take, each with the reason.
    pub(crate) not_folded: Vec<NotFolded>,
    /// Whether git decided everything, not the scan.
    pub(crate) by_git: bool,
    /// Whether git stored what was found.
    pub(crate) stored_by_git: bool,
}

impl Snapshot {
    /// Paths of the snapshot that are not in the directory's own index.
    pub(crate) fn untracked(&self) -> Vec<Vec<u8>> {
        if Arc::ptr_eq(&self.index, &self.before) {
            return Vec::new();
        }
        // Both are in the order of paths.
        let mut known = self.before.entries().iter().map(|entry| self.before.path(entry)).peekable();
        let mut untracked = Vec::new();
        for path in self.index.entries().iter().map(|entry| self.index.path(entry)) {
            while known.next_if(|known| *known < path).is_some() {}
            if known.peek().is_none_or(|known| *known != path) {
                untracked.push(path.to_vec());
            }
        }
        untracked
    }
}

/// A path whose content is not in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotFolded {
    pub(crate) path: Vec<u8>,
    pub(crate) why: &'static str,
}

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SnapshotError {
    #[error("{place} has unmerged entries in its index ({paths}); resolve them first")]
    Unmerged { place: String, paths: String },
    #[error("{place} can't be snapshotted: {source}")]
    Git { place: String, source: GitError },
    #[error(transparent)]
    Files(#[from] FilesError),
}

impl SnapshotError {
    pub(crate) fn stop(&self) -> Option<Stop> {
        match self {
            Self::Git { source, .. } => source.stop(),
            Self::Files(error) => error.stop(),
            Self::Unmerged { .. } => None,
        }
    }
}

/// What has to be known of a repository before its work trees are snapshotted.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each is one setting of git")]
pub(crate) struct Setting {
    /// Ignore files beyond the directories' own; `None` where only git knows them.
    ignore_files: Option<Vec<std::path::PathBuf>>,
    casefold: bool,
    file_mode: bool,
    /// How content becomes a blob; `None` where only git knows.
    content: Option<Content>,
    /// Git clears and sets flags of its own in sparse checkouts.
    sparse: bool,
}

impl Setting {
    /// Reads the configuration that the work tree of `repo` is under.
    pub(crate) fn of(repo: &Repo) -> Result<Self, GitError> {
        Ok(Self {
            ignore_files: ignore_files(repo)?,
            casefold: repo.config_bool("core.ignoreCase", false)?,
            file_mode: repo.config_bool("core.fileMode", true)?,
            content: content(repo)?,
            sparse: repo.config_bool("core.sparseCheckout", false)?,
        })
    }
}

/// Takes a snapshot of the work tree at `place`; its objects go to `store`. What the caller has
/// `seen` is not looked at again.
pub(crate) fn snapshot(
    place: &Place,
    setting: &Setting,
    rules: &Rules<'_>,
    seen: Option<&Seen>,
    store: &Store,
    control: &Control,
) -> Result<Snapshot, SnapshotError> {
    let before = match seen {
        Some(seen) => seen.index.clone(),
        None => read_index(place)?,
    };
    snapshot_of(place, setting, rules, before, seen, store, control)
}

fn read_index(place: &Place) -> Result<Arc<IndexFile>, SnapshotError> {
    let failed = |source| SnapshotError::Git { place: show(&place.work_dir), source };
    IndexFile::read(&place.index_path()).map(Arc::new).map_err(failed)
}

/// The same, with the index `before` it.
fn snapshot_of(
    place: &Place,
    setting: &Setting,
    rules: &Rules<'_>,
    before: Arc<IndexFile>,
    seen: Option<&Seen>,
    store: &Store,
    control: &Control,
) -> Result<Snapshot, SnapshotError> {
    let failed = |source| SnapshotError::Git { place: show(&place.work_dir), source };
    let unmerged = before.unmerged();
    if !unmerged.is_empty() {
        let paths: Vec<String> = unmerged.iter().take(5).map(|p| show(as_path(p))).collect();
        return Err(SnapshotError::Unmerged { place: show(&place.work_dir), paths: paths.join(", ") });
    }
    let mut work = Work::new(place, rules);
    let scanned = scanned(place, setting, &before, seen, rules.threads, control)?;
    let by_git = scanned.is_none();
    let Stored { tree, index, by_git: stored_by_git } = match scanned {
        Some(scanned) => store::changes(&mut work, setting, &before, &scanned, store, control).map_err(failed)?,
        None => store::everything(&mut work, &before, store, control).map_err(failed)?,
    };
    // Who has seen the directory before us asks for its tree alone.
    if seen.is_none() {
        work.not_folded.extend(unseen::unseen(place, setting, &index, store, control).map_err(failed)?);
    }
    let Work { left_out, omitted, not_folded, .. } = work;
    Ok(Snapshot { tree, index, before, left_out, omitted, not_folded, by_git, stored_by_git })
}

/// The same of a work tree that may be in the middle of a merge: what is unmerged counts as it stands on the
/// disk, as `git add -A` takes it.
pub(crate) fn snapshot_midway(
    place: &Place,
    setting: &Setting,
    rules: &Rules<'_>,
    store: &Store,
    control: &Control,
) -> Result<Snapshot, SnapshotError> {
    let failed = |source| SnapshotError::Git { place: show(&place.work_dir), source };
    let before = read_index(place)?;
    if before.unmerged().is_empty() {
        return snapshot_of(place, setting, rules, before, None, store, control);
    }
    let mut work = Work::new(place, rules);
    let Stored { tree, index, .. } = store::everything(&mut work, &before, store, control).map_err(failed)?;
    work.not_folded.extend(unseen::unseen(place, setting, &index, store, control).map_err(failed)?);
    let Work { left_out, omitted, not_folded, .. } = work;
    Ok(Snapshot { tree, index, before, left_out, omitted, not_folded, by_git: true, stored_by_git: true })
}

/// What a scan says; `None` where git has to judge.
fn scanned(
    place: &Place,
    setting: &Setting,
    index: &IndexFile,
    seen: Option<&Seen>,
    threads: Option<usize>,
    control: &Control,
) -> Result<Option<Scanned>, FilesError> {
    let Some(files) = setting.ignore_files.as_ref().filter(|_| !setting.sparse && !hidden_rules(index)) else {
        return Ok(None);
    };
    let files: Vec<&std::path::Path> = files.iter().map(std::path::PathBuf::as_path).collect();
    let ignore = Ignore::new(&files, setting.casefold);
    let (root, file_mode, threads) = (&place.work_dir, setting.file_mode, threads.unwrap_or(WORKERS));
    let ground = Ground { root, index, ignore: &ignore, file_mode, threads, control };
    let scanned = match seen {
        Some(seen) => seen_before(&ground, seen)?,
        None => scan::scan(&ground)?,
    };
    // Where case does not count a new name may be a tracked one: git knows which.
    let cased = !setting.casefold || scanned.untracked.is_empty();
    Ok(Some(scanned).filter(|scanned| cased && !scanned.strange))
}

/// The untracked files that the scan finds; `None` where git has to judge.
pub(crate) fn untracked(
    place: &Place,
    setting: &Setting,
    control: &Control,
) -> Result<Option<Vec<Vec<u8>>>, SnapshotError> {
    let index = read_index(place)?;
    Ok(scanned(place, setting, &index, None, None, control)?.map(|scanned| scanned.untracked))
}

/// Whether an ignore file is not on the disk by the index's word: git reads it from the index then.
fn hidden_rules(index: &IndexFile) -> bool {
    index.entries().iter().any(|e| e.skip_worktree() && index.path(e).ends_with(b".gitignore"))
}

/// What a caller's own walk and a scan of the untracked paths it met say together.
fn seen_before(ground: &Ground<'_>, seen: &Seen) -> Result<Scanned, FilesError> {
    let mut scanned = scan::scan_untracked(ground, &seen.untracked)?;
    for (at, entry) in ground.index.entries().iter().enumerate() {
        let path = || ground.index.path(entry).to_vec();
        if entry.flagged() || seen.clean[at] {
            continue;
        }
        let full = ground.root.join(as_path(ground.index.path(entry)));
        let kind = fs::symlink_metadata(&full).ok().map(|meta| FileType::from_raw_mode(meta.mode()));
        let link = entry.mode == MODE_GITLINK;
        let directory = kind == Some(FileType::Directory);
        scanned.strange |= scan::is_delicate(&path(), kind.filter(|_| !directory)) || !scan::is_known(&full);
        scanned.strange |= match (link, directory) {
            (true, true) => leads_nowhere(&full),
            (true, false) => kind.is_some(),
            (false, directory) => directory && is_repository(&full),
        };
        if seen.there[at] || (link && directory) {
            scanned.changed.push(path());
        } else {
            scanned.gone.push(path());
        }
    }
    Ok(scanned)
}

/// A snapshot under way: what the rules say, and what was passed over.
struct Work<'a> {
    place: &'a Place,
    rules: &'a Rules<'a>,
    left_out: Vec<Vec<u8>>,
    omitted: Vec<Vec<u8>>,
    not_folded: Vec<NotFolded>,
    nested: Vec<Vec<u8>>,
}

impl<'a> Work<'a> {
    fn new(place: &'a Place, rules: &'a Rules<'a>) -> Self {
        let (left_out, omitted, not_folded, nested) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { place, rules, left_out, omitted, not_folded, nested }
    }

    /// Whether an untracked path is taken; one that is not is noted.
    fn takes(&mut self, path: &[u8]) -> bool {
        if self.rules.leave_out.is_some_and(|excludes| excludes.covers(as_path(path), false)) {
            self.left_out.push(path.to_vec());
        } else if covered(self.rules.omit, path) {
            self.omitted.push(path.to_vec());
        } else {
            return true;
        }
        false
    }

    /// Notes an untracked nested repository; other worktrees of this repository go without saying.
    fn nested(&mut self, path: &[u8]) {
        let ours = admin_of_git_file(&self.place.work_dir.join(as_path(path)).join(".git"))
            .and_then(|admin| fs::canonicalize(admin).ok())
            .is_some_and(|admin| {
                // Below an entry of the registry, or beside it, are repositories of submodules.
                admin == self.place.common_dir || admin.parent() == Some(&self.place.common_dir.join("worktrees"))
            });
        if !ours {
            self.not_folded.push(NotFolded { path: path.to_vec(), why: "nested repository" });
        }
        self.nested.push(path.to_vec());
    }
}
