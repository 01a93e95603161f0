//! What of the Parent goes into the Child.

use std::fs;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FileType, Stat};

use super::IsolateError;
use crate::files::as_path;
use crate::files::fill::{Select, TrackedCopy, Verdict, read_at, to_path};
use crate::files::walk::Entry;
use crate::git::Oid;
use crate::git::index_file::{IndexFile, IndexStat};
use crate::git::modules::git_dir_of;
use crate::git::repository::Repo;
use crate::git::tree::{MODE_GITLINK, MODE_TREE, Objects};
use crate::git::worktrees::registered;
use crate::options::Excludes;
use crate::snapshot::PathRules;

pub(super) struct Selection<'a> {
    index: &'a IndexFile,
    excludes: &'a Excludes,
    root: PathBuf,
    /// Where linked worktrees of this repository are administered.
    registry: PathBuf,
    /// Device and inode of other work trees and of git directories.
    foreign: Vec<(u64, u64)>,
    /// Submodules that are checked out, outer ones first: path with a final slash, index. What is
    /// tracked there is tracked.
    submodules: Vec<(Vec<u8>, IndexFile)>,
    /// HEAD's tree, for the few paths that a pattern matches.
    head: Option<(Mutex<Repo>, Oid)>,
    /// What comes along although a pattern matches it.
    include: Option<&'a PathRules>,
    noted: Mutex<Noted>,
}

/// What became of the files of the index, by position.
pub(super) struct Noted {
    /// The file is there.
    pub(super) there: Vec<bool>,
    /// Stat data of the copies that are proven to be what the index says.
    pub(super) stats: Vec<Option<IndexStat>>,
    /// What rules let in although a pattern matches it, topmost paths.
    pub(super) included: Vec<Vec<u8>>,
}

impl<'a> Selection<'a> {
    pub(super) fn new(
        repo: &Repo,
        index: &'a IndexFile,
        head: Option<Oid>,
        excludes: &'a Excludes,
        child: &Path,
    ) -> Result<Self, IsolateError> {
        let mut places: Vec<PathBuf> =
            registered(repo.common_dir())?.into_iter().map(|entry| entry.directory).collect();
        if repo.common_dir().file_name().is_some_and(|name| name == ".git") {
            places.extend(repo.common_dir().parent().map(Path::to_owned));
        }
        places.extend([repo.common_dir().to_owned(), repo.git_dir().to_owned(), child.to_owned()]);
        let foreign = places
            .iter()
            .filter(|place| *place != repo.work_dir())
            .filter_map(|place| fs::metadata(place).ok())
            .map(|meta| (meta.dev(), meta.ino()))
            .collect();
        let head = match head {
            Some(id) if !excludes.is_empty() => Some((Mutex::new(Repo::open(repo.work_dir())?), repo.tree_of(id)?)),
            _ => None,
        };
        let mut submodules = Vec::new();
        if !excludes.is_empty() {
            checked_out(repo.work_dir(), b"", index, &mut submodules)?;
        }
        Ok(Self {
            index,
            excludes,
            submodules,
            root: repo.work_dir().to_owned(),
            registry: repo.common_dir().join("worktrees"),
            foreign,
            head,
            include: None,
            noted: Mutex::new(Noted {
                there: vec![false; index.entries().len()],
                stats: vec![None; index.entries().len()],
                included: Vec::new(),
            }),
        })
    }

    /// Lets in untracked paths that these rules match, whatever the exclude list says.
    pub(super) fn including(self, include: Option<&'a PathRules>) -> Self {
        Self { include, ..self }
    }

    /// What the fill told.
    pub(super) fn finish(self) -> Noted {
        let mut noted = self.noted.into_inner().unwrap_or_else(PoisonError::into_inner);
        noted.included.sort();
        noted
    }

    /// Whether an untracked path that a pattern matches comes along all the same.
    fn let_in(&self, path: &[u8], directory: bool) -> bool {
        let lets = self.include.is_some_and(|rules| rules.matches(path, directory));
        if lets {
            self.noted.lock().unwrap_or_else(PoisonError::into_inner).included.push(path.to_vec());
        }
        lets
    }

    /// About a path that a pattern matches inside a submodule: its own index says what is tracked.
    fn in_submodule(&self, path: &[u8], directory: bool) -> Option<Verdict> {
        let (inside, index) =
            self.submodules.iter().rev().find_map(|(at, index)| Some((path.strip_prefix(at.as_slice())?, index)))?;
        let own = inside == b".git" || inside.starts_with(b".git/");
        let entry = index.find(inside);
        let tracked = entry.is_some_and(|entry| !directory || entry.mode == MODE_GITLINK);
        Some(match (own || tracked, directory && index.has_below(inside)) {
            (true, _) => Verdict::Take,
            (false, true) => Verdict::TrackedOnly,
            (false, false) => Verdict::LeaveOut,
        })
    }

    /// The mode of `path` in HEAD. A path that can't be looked up counts as tracked: it is kept.
    fn in_head(&self, path: &[u8]) -> Option<u32> {
        let (repo, tree) = self.head.as_ref()?;
        let repo = repo.lock().unwrap_or_else(PoisonError::into_inner);
        match repo.item_at(*tree, path) {
            Ok(item) => item.map(|item| item.mode),
            Err(_) => Some(MODE_TREE),
        }
    }
}

impl Select for Selection<'_> {
    fn verdict(&self, path: &[u8], kind: FileType, tracked_only: bool) -> Verdict {
        let directory = kind == FileType::Directory;
        match path {
            b".git" => return Verdict::Pass,
            b".isofold" if directory => {
                return if self.index.has_below(path) { Verdict::TrackedOnly } else { Verdict::Pass };
            }
            _ => {}
        }
        if !tracked_only && !self.excludes.matches(as_path(path), directory) {
            return Verdict::Take;
        }
        if let Some(verdict) = self.in_submodule(path, directory) {
            return verdict;
        }
        if !directory {
            let tracked =
                self.index.position(path).is_some() || self.in_head(path).is_some_and(|mode| mode != MODE_TREE);
            return if tracked || self.let_in(path, false) { Verdict::Take } else { Verdict::LeaveOut };
        }
        if self.index.find(path).is_some_and(|entry| entry.mode == MODE_GITLINK)
            || self.in_head(path) == Some(MODE_GITLINK)
        {
            return Verdict::Take;
        }
        let holds_tracked = self.index.has_below(path) || self.in_head(path) == Some(MODE_TREE);
        match holds_tracked {
            true => Verdict::TrackedOnly,
            false if self.let_in(path, true) => Verdict::Take,
            false => Verdict::LeaveOut,
        }
    }

    fn is_foreign(&self, path: &[u8], stat: &Stat, entries: &[Entry], directory: &OwnedFd) -> bool {
        if self.foreign.contains(&(stat.st_dev, stat.st_ino)) {
            return true;
        }
        // A worktree that was moved without telling git still names its registry entry.
        let has_git_file = entries.iter().any(|e| e.kind == FileType::RegularFile && e.name.as_c_str() == c".git");
        if !has_git_file {
            return false;
        }
        let Some(text) = read_at(directory, c".git", 64 * 1024) else { return false };
        let Some(target) = text.strip_prefix(b"gitdir:") else { return false };
        let target = self.root.join(as_path(path)).join(to_path(target.trim_ascii()));
        // Below an entry are the submodules of its worktree.
        fs::canonicalize(target).is_ok_and(|target| target.parent() == Some(&self.registry))
    }

    fn position(&self, path: &[u8], within: &Range<usize>) -> Option<usize> {
        self.index.position_within(path, within)
    }

    fn below(&self, path: &[u8], within: &Range<usize>) -> Range<usize> {
        self.index.below_within(path, within)
    }

    fn is_submodule(&self, position: usize) -> bool {
        self.index.entries()[position].mode == MODE_GITLINK
    }

    fn copied(&self, copies: &[TrackedCopy]) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        for copy in copies {
            let entry = &self.index.entries()[copy.position];
            let proven =
                copy.steady && entry.stage() == 0 && !entry.flagged() && self.index.proves(entry, &copy.source, true);
            noted.there[copy.position] = true;
            noted.stats[copy.position] = proven.then(|| IndexStat::of(&copy.copy));
        }
    }
}

/// The submodules of an index that are checked out below `root`, with theirs.
fn checked_out(
    root: &Path,
    prefix: &[u8],
    index: &IndexFile,
    found: &mut Vec<(Vec<u8>, IndexFile)>,
) -> Result<(), IsolateError> {
    for entry in index.entries().iter().filter(|entry| entry.mode == MODE_GITLINK) {
        let mut path = [prefix, index.path(entry)].concat();
        let Some(git_dir) = git_dir_of(&root.join(as_path(&path))) else { continue };
        let inner = IndexFile::read(&git_dir.join("index"))?;
        path.push(b'/');
        let at = found.len();
        checked_out(root, &path, &inner, found)?;
        found.insert(at, (path, inner));
    }
    Ok(())
}
