//! A repository seen from one of its work trees.

use std::fs;
use std::path::{Path, PathBuf};

use git2::{ConfigLevel, ErrorCode, Oid, Repository, RepositoryOpenFlags, RepositoryState};

use super::config::Settings;
use super::program::Git;
use super::{Act, GitError, one_line, show};

/// Why a directory is not a work tree that isofold can use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("{} is not a git repository; run git init there, or name the root of a checkout", show(.0))]
    NotARepository(PathBuf),
    #[error("{} is only a subdirectory of the repository at {}; name its root", show(path), show(root))]
    Subdirectory { path: PathBuf, root: PathBuf },
    #[error("{} is a bare repository without working files; name one of its worktrees", show(.0))]
    Bare(PathBuf),
    #[error("{} belongs to another user and git does not trust it; git config --global --add safe.directory {}", show(.0), show(.0))]
    Owner(PathBuf),
    #[error("{} uses {what}, which this build can't read", show(path))]
    Format { path: PathBuf, what: String },
    #[error("{} can't be opened: {why}", show(path))]
    Other { path: PathBuf, why: String },
}

/// What HEAD says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    /// The full name of the branch, none where HEAD is detached.
    pub(crate) branch: Option<String>,
    /// The commit, none on an unborn branch.
    pub(crate) id: Option<Oid>,
}

/// Where a work tree and its git directories are, links resolved. Unlike [`Repo`] it can be handed
/// to another thread.
#[derive(Debug, Clone)]
#[allow(clippy::struct_field_names, reason = "git's own words for the three")]
pub(crate) struct Place {
    /// The git directory of this work tree.
    pub(crate) git_dir: PathBuf,
    /// The git directory that all work trees share.
    pub(crate) common_dir: PathBuf,
    /// The root of the work tree.
    pub(crate) work_dir: PathBuf,
}

impl Place {
    /// The index file of this work tree.
    pub(crate) fn index_path(&self) -> PathBuf {
        self.git_dir.join("index")
    }

    /// The git program, bound to this work tree.
    pub(crate) fn git(&self) -> Git {
        Git::new(&self.git_dir, &self.work_dir)
    }
}

/// One repository, opened at the root of one of its work trees.
pub(crate) struct Repo {
    library: Repository,
    place: Place,
}

impl Repo {
    /// Opens the repository whose work tree's root is `directory`.
    pub(crate) fn open(directory: &Path) -> Result<Self, OpenError> {
        let flags = RepositoryOpenFlags::NO_SEARCH;
        let library = Repository::open_ext(directory, flags, &[] as &[&Path])
            .map_err(|error| Self::why_not(directory, &error))?;
        if library.is_bare() {
            return Err(OpenError::Bare(directory.to_owned()));
        }
        // The library takes them; a git before 2.48 does not, nor were they tried with a newer one.
        if library.config().and_then(|config| config.get_bool("extensions.relativeWorktrees")).unwrap_or(false) {
            return Err(OpenError::Format { path: directory.to_owned(), what: extension("relativeworktrees") });
        }
        let other =
            |why: &dyn ToString| OpenError::Other { path: directory.to_owned(), why: one_line(&why.to_string()) };
        let real = |path: &Path| fs::canonicalize(path).map_err(|e| other(&e));
        let work_dir = real(directory)?;
        let root = library.workdir().map(real).transpose()?;
        if let Some(root) = root.filter(|root| *root != work_dir) {
            return Err(OpenError::Subdirectory { path: directory.to_owned(), root });
        }
        let (git_dir, common_dir) = (real(library.path())?, real(library.commondir())?);
        Ok(Self { library, place: Place { git_dir, common_dir, work_dir } })
    }

    /// Opens `work_dir` with `git_dir`, whatever the `.git` there says.
    pub(crate) fn open_shadow(git_dir: &Path, work_dir: &Path) -> Result<Self, OpenError> {
        let other =
            |why: &dyn ToString| OpenError::Other { path: work_dir.to_owned(), why: one_line(&why.to_string()) };
        let flags = RepositoryOpenFlags::NO_SEARCH | RepositoryOpenFlags::NO_DOTGIT;
        let library = Repository::open_ext(git_dir, flags, &[] as &[&Path]).map_err(|error| other(&error.message()))?;
        library.set_workdir(work_dir, false).map_err(|error| other(&error.message()))?;
        let real = |path: &Path| fs::canonicalize(path).map_err(|e| other(&e));
        let place =
            Place { git_dir: real(git_dir)?, common_dir: real(library.commondir())?, work_dir: real(work_dir)? };
        Ok(Self { library, place })
    }

    /// Whether git takes `name` for the name of a ref.
    pub(crate) fn is_ref_name(name: &str) -> bool {
        git2::Reference::is_valid_name(name)
    }

    /// Refuses, in the words of [`OpenError`], a directory that is no root of a work tree.
    pub(crate) fn not_a_subdirectory(directory: &Path) -> Result<(), String> {
        match Self::open(directory) {
            Err(error @ OpenError::Subdirectory { .. }) => Err(error.to_string()),
            _ => Ok(()),
        }
    }

    fn why_not(directory: &Path, error: &git2::Error) -> OpenError {
        let path = directory.to_owned();
        let message = error.message();
        if error.code() == ErrorCode::Owner {
            return OpenError::Owner(path);
        }
        if let Some((_, name)) = message.split_once("unsupported extension name ") {
            let name = name.trim().strip_prefix("extensions.").unwrap_or(name.trim());
            return OpenError::Format { path, what: one_line(&extension(name)) };
        }
        if message.contains("object format") {
            return OpenError::Format { path, what: extension("objectformat") };
        }
        if message.contains("repository version") {
            let what = format!("a repository format of its own ({})", one_line(message));
            return OpenError::Format { path, what };
        }
        if error.code() != ErrorCode::NotFound {
            return OpenError::Other { path, why: one_line(message) };
        }
        match Repository::discover(directory) {
            Ok(found) => match found.workdir() {
                Some(root) => OpenError::Subdirectory { path, root: root.to_owned() },
                None => OpenError::Bare(path),
            },
            Err(_) => OpenError::NotARepository(path),
        }
    }

    pub(super) fn library(&self) -> &Repository {
        &self.library
    }

    /// Where this work tree and its git directories are.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// The git directory of this work tree.
    pub(crate) fn git_dir(&self) -> &Path {
        &self.place.git_dir
    }

    /// The git directory that all work trees share.
    pub(crate) fn common_dir(&self) -> &Path {
        &self.place.common_dir
    }

    /// The root of the work tree, links resolved.
    pub(crate) fn work_dir(&self) -> &Path {
        &self.place.work_dir
    }

    /// The git program, bound to this work tree.
    pub(crate) fn git(&self) -> Git {
        self.place.git()
    }

    /// What HEAD says now.
    pub(crate) fn head(&self) -> Result<Head, GitError> {
        let act = || "cannot read HEAD".to_owned();
        let head = self.library.find_reference("HEAD").act(act)?;
        let Some(branch) = head.symbolic_target_bytes() else {
            return Ok(Head { branch: None, id: head.target() });
        };
        let branch = String::from_utf8(branch.to_vec())
            .map_err(|_| GitError::Format { what: "a branch name that is not UTF-8".to_owned() })?;
        Ok(Head { id: self.ref_id(&branch)?, branch: Some(branch) })
    }

    /// The id that a full ref name points to, none where there is no such ref.
    pub(crate) fn ref_id(&self, name: &str) -> Result<Option<Oid>, GitError> {
        match self.library.refname_to_id(name) {
            Ok(id) => Ok(Some(id)),
            Err(error) if matches!(error.code(), ErrorCode::NotFound | ErrorCode::UnbornBranch) => Ok(None),
            Err(error) => Err(error).act(|| format!("cannot read {name}")),
        }
    }

    /// The tree of a commit that is in the repository.
    pub(crate) fn tree_of(&self, commit: Oid) -> Result<Oid, GitError> {
        let found = self.library.find_commit(commit).act(|| format!("cannot read commit {commit}"))?;
        Ok(found.tree_id())
    }

    /// The tree of a head, the empty one where there is no commit.
    pub(crate) fn head_tree(&self, head: Option<Oid>) -> Result<Oid, GitError> {
        match head {
            Some(id) => self.tree_of(id),
            None => super::tree::empty_tree(),
        }
    }

    /// The commits of these tips that no ref has, were `without` gone; the newest first.
    pub(crate) fn commits_only_of(&self, tips: &[Oid], without: &str) -> Result<Vec<Oid>, GitError> {
        self.unreached(tips, without, None)?.collect::<Result<_, _>>().act(|| "cannot walk the history".to_owned())
    }

    /// Whether `commit` is `ancestor` or has it in its history. A commit that is not in the
    /// repository contains nothing.
    pub(crate) fn contains(&self, commit: Oid, ancestor: Oid) -> Result<bool, GitError> {
        if commit == ancestor {
            return Ok(true);
        }
        match self.library.graph_descendant_of(commit, ancestor) {
            Err(error) if error.code() == ErrorCode::NotFound => Ok(false),
            other => other.act(|| "cannot walk the history".to_owned()),
        }
    }

    /// The commits that `to` has and `from` has not.
    pub(crate) fn commits_between(&self, from: Option<Oid>, to: Option<Oid>) -> Result<Vec<Oid>, GitError> {
        let act = || "cannot walk the history".to_owned();
        let Some(to) = to else { return Ok(Vec::new()) };
        let mut walk = self.library.revwalk().act(act)?;
        walk.push(to).act(act)?;
        if let Some(from) = from {
            walk.hide(from).act(act)?;
        }
        walk.collect::<Result<Vec<Oid>, git2::Error>>().act(act)
    }

    /// All best common ancestors of two commits.
    pub(crate) fn merge_bases(&self, one: Oid, two: Oid) -> Result<Vec<Oid>, GitError> {
        match self.library.merge_bases(one, two) {
            Ok(bases) => Ok(bases.iter().copied().collect()),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(Vec::new()),
            Err(error) => Err(error).act(|| "cannot find the merge bases".to_owned()),
        }
    }

    /// Whether an object is in the repository.
    pub(crate) fn has_object(&self, id: Oid) -> bool {
        self.library.odb().is_ok_and(|odb| odb.exists(id))
    }

    /// What git is in the middle of here (`a merge`, `a rebase`, …), if anything.
    pub(crate) fn operation(&self) -> Option<&'static str> {
        match self.library.state() {
            RepositoryState::Merge => Some("a merge"),
            RepositoryState::Revert | RepositoryState::RevertSequence => Some("a revert"),
            RepositoryState::CherryPick | RepositoryState::CherryPickSequence => Some("a cherry-pick"),
            RepositoryState::Bisect => Some("a bisect"),
            RepositoryState::Rebase | RepositoryState::RebaseInteractive | RepositoryState::RebaseMerge => {
                Some("a rebase")
            }
            RepositoryState::ApplyMailbox | RepositoryState::ApplyMailboxOrRebase => Some("git am"),
            RepositoryState::Clean => {
                // The library looks for BISECT_LOG in the git directory, as git does, but knows no
                // sequencer that stopped between two picks.
                self.place.git_dir.join("sequencer").is_dir().then_some("a cherry-pick or revert")
            }
        }
    }

    /// For each list of settings the first that the work tree's own configuration has, or the
    /// repository's.
    pub(crate) fn own_settings(&self, lists: &[&[&str]]) -> Result<Vec<Option<String>>, GitError> {
        let act = || "cannot read the repository's configuration".to_owned();
        let config = self.library.config().act(act)?;
        let mut levels = Vec::new();
        for level in [ConfigLevel::Worktree, ConfigLevel::Local] {
            match config.open_level(level).and_then(|mut own| own.snapshot()) {
                Err(error) if error.code() == ErrorCode::NotFound => {}
                level => levels.push(level.act(act)?),
            }
        }
        let first = |keys: &[&str]| {
            for (key, level) in keys.iter().flat_map(|key| levels.iter().map(move |level| (*key, level))) {
                match level.get_string(key) {
                    Err(error) if error.code() == ErrorCode::NotFound => {}
                    found => return found.act(act).map(Some),
                }
            }
            Ok(None)
        };
        lists.iter().map(|keys| first(keys)).collect()
    }

    /// A boolean of the configuration, `default` where it is unset.
    pub(crate) fn config_bool(&self, key: &str, default: bool) -> Result<bool, GitError> {
        let act = || format!("cannot read the configuration {key}");
        match Settings::of(self)?.config.get_bool(key) {
            Ok(value) => Ok(value),
            Err(error) if error.code() == ErrorCode::NotFound => Ok(default),
            Err(error) => Err(error).act(act),
        }
    }
}

/// What an extension of the repository format is, that the library does not know, and what helps.
fn extension(name: &str) -> String {
    match name {
        "refstorage" => {
            "refs stored as extensions.refStorage says (reftable; git refs migrate --ref-format=files converts them)"
        }
        "objectformat" => "SHA-256 objects (extensions.objectFormat; only a repository with SHA-1 objects will do)",
        "partialclone" => {
            "a partial clone (extensions.partialClone; without that setting and remote.*.promisor, git fetch --refetch makes it whole)"
        }
        "relativeworktrees" => {
            "relative worktree links (extensions.relativeWorktrees; git worktree repair --no-relative-paths, then git config --unset extensions.relativeWorktrees)"
        }
        other => return format!("the extension {other} of the repository format"),
    }
    .to_owned()
}
