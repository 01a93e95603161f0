//! Repositories of submodules: where they are kept, copies of them for another work tree, and
//! commits that only one of them has.
//!
//! A module is opened as a bare repository: its objects and refs are read, its configuration and
//! work tree are not.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use git2::{ErrorCode, ObjectType, Oid, Repository, RepositoryOpenFlags};

use super::refs::{Hidden, hidden_in};
use super::tree::{Item, MODE_GITLINK, Objects, empty_tree};
use super::worktrees::admin_of_git_file;
use super::{Act, GitError, show};

/// Parts of a module that its copy does not get: objects are borrowed, the others belong to the
/// original alone.
const NOT_COPIED: [&str; 5] = ["objects", "modules", "worktrees", "gc.pid", "isofold"];

/// Whether a submodule's own configuration names programs that git would start to look at its files, or
/// other files of configuration that might. One that can't be read is taken to.
pub(crate) fn names_programs(git_dir: &Path) -> bool {
    let common = fs::read_to_string(git_dir.join("commondir")).unwrap_or_default();
    let common = git_dir.join(common.trim_end());
    let files = [git_dir.join("config"), git_dir.join("config.worktree"), common.join("config")];
    files.iter().filter(|file| file.exists()).any(|file| {
        let Ok(config) = git2::Config::open(file) else { return true };
        let Ok(mut entries) = config.entries(None) else { return true };
        while let Some(entry) = entries.next() {
            let Ok(name) = entry.map(|entry| entry.name().unwrap_or("filter.").to_lowercase()) else { return true };
            if ["filter.", "include.", "includeif."].iter().any(|start| name.starts_with(start)) {
                return true;
            }
        }
        false
    })
}

/// The git directory, links resolved, of the repository checked out at `directory`.
pub(crate) fn git_dir_of(directory: &Path) -> Option<PathBuf> {
    let git = directory.join(".git");
    let meta = fs::symlink_metadata(&git).ok()?;
    let named = if meta.is_file() { admin_of_git_file(&git)? } else { git };
    fs::canonicalize(named).ok().filter(|found| is_git_dir(found))
}

fn is_git_dir(directory: &Path) -> bool {
    let whole = directory.join("objects").is_dir() && directory.join("refs").is_dir();
    directory.join("HEAD").symlink_metadata().is_ok() && (whole || directory.join("commondir").is_file())
}

/// Where one work tree keeps the repositories of its submodules: `modules/` in its own git
/// directory, then in the common one.
#[derive(Debug, Clone)]
pub(crate) struct Stores(Vec<PathBuf>);

impl Stores {
    /// The stores of a work tree.
    pub(crate) fn of(git_dir: &Path, common_dir: &Path) -> Self {
        let mut roots: Vec<PathBuf> =
            [git_dir, common_dir].iter().filter_map(|dir| fs::canonicalize(dir.join("modules")).ok()).collect();
        roots.dedup();
        Self(roots)
    }

    /// The name of a module that is kept here: its path below `modules/`.
    pub(crate) fn name_of(&self, git_dir: &Path) -> Option<PathBuf> {
        let inside = self.0.iter().find_map(|root| git_dir.strip_prefix(root).ok())?;
        // A work tree of the module itself has its directory in there too, but is no module.
        let whole = !inside.as_os_str().is_empty() && !git_dir.join("commondir").exists();
        whole.then(|| inside.to_owned())
    }

    /// The module of that name.
    pub(crate) fn find(&self, name: &Path) -> Option<PathBuf> {
        self.0.iter().map(|root| root.join(name)).find(|found| is_git_dir(found))
    }
}

/// The names of all modules kept in a git directory, outer ones first.
pub(crate) fn names_in(git_dir: &Path) -> Result<Vec<PathBuf>, GitError> {
    let root = git_dir.join("modules");
    let mut names = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(directory) = open.pop() {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(GitError::io("cannot read", &directory)(error)),
        };
        for entry in entries {
            let path = entry.map_err(GitError::io("cannot read", &directory))?.path();
            if !fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir()) {
                continue;
            }
            if is_git_dir(&path) {
                names.push(path.strip_prefix(&root).unwrap_or(&path).to_owned());
                open.push(path.join("modules"));
            } else {
                // A name with a slash in it.
                open.push(path);
            }
        }
    }
    names.sort();
    Ok(names)
}

/// Copies the module `from` to `to` for a work tree at `work_tree`. The copy borrows the original's
/// objects. One that may go away (`lasting` is false: it belongs to a linked worktree) gives it its
/// own objects instead, and only what it borrows itself is borrowed.
pub(crate) fn copy(from: &Path, to: &Path, work_tree: &Path, lasting: bool) -> Result<(), GitError> {
    fs::create_dir_all(to).map_err(GitError::io("cannot make", to))?;
    copy_directory(from, to, Path::new(""))?;
    let (objects, borrowed) = (to.join("objects"), from.join("objects"));
    for part in ["info", "pack"] {
        let part = objects.join(part);
        fs::create_dir_all(&part).map_err(GitError::io("cannot make", &part))?;
    }
    let mut stores = chain(&borrowed);
    if !lasting {
        stores.retain(|store| *store != borrowed);
        // A repack that runs meanwhile has put into another file what vanished.
        while !give_objects(&borrowed, &objects)? {}
    }
    let mut text = Vec::new();
    for store in stores {
        if store.as_os_str().as_bytes().contains(&b'\n') {
            return Err(GitError::Format { what: format!("a submodule's repository at {}", show(&store)) });
        }
        text.extend_from_slice(store.as_os_str().as_bytes());
        text.push(b'\n');
    }
    if !text.is_empty() {
        let alternates = objects.join("info/alternates");
        fs::write(&alternates, text).map_err(GitError::io("cannot write", &alternates))?;
    }
    set_work_tree(to, work_tree)
}

/// An object store after those that it borrows from itself: in this order git nests no deeper.
fn chain(objects: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![objects.to_owned()];
    while let Some(store) = open.pop() {
        if found.contains(&store) {
            continue;
        }
        let text = fs::read(store.join("info/alternates")).unwrap_or_default();
        for line in text.split(|b| *b == b'\n').filter(|line| !line.is_empty() && !line.starts_with(b"#")) {
            let named = store.join(crate::files::as_path(line));
            open.extend(fs::canonicalize(named).ok());
        }
        found.push(store);
    }
    found.reverse();
    found
}

/// One directory of a module; what vanishes meanwhile was of no account.
fn copy_directory(from: &Path, to: &Path, inside: &Path) -> Result<(), GitError> {
    for entry in fs::read_dir(from.join(inside)).map_err(GitError::io("cannot read", from))? {
        let name = entry.map_err(GitError::io("cannot read", from))?.file_name();
        let text = name.to_string_lossy();
        let top = inside.as_os_str().is_empty();
        let passed = if top {
            NOT_COPIED.contains(&&*text) || text.starts_with("isofold-objects-")
        } else {
            inside == Path::new("refs") && text == "isofold"
        };
        let path = inside.join(&name);
        let (source, target) = (from.join(&path), to.join(&path));
        let Ok(meta) = fs::symlink_metadata(&source) else { continue };
        if passed || (!meta.is_dir() && (text.ends_with(".lock") || text.starts_with("tmp_"))) {
            continue;
        }
        if meta.is_dir() {
            fs::create_dir_all(&target).map_err(GitError::io("cannot make", &target))?;
            copy_directory(from, to, &path)?;
            continue;
        }
        let copied = if meta.is_symlink() {
            fs::read_link(&source).and_then(|leads| std::os::unix::fs::symlink(leads, &target))
        } else if meta.is_file() {
            // An index that seems younger than it is hides changes from git.
            fs::copy(&source, &target).and_then(|_| fs::File::open(&target)?.set_modified(meta.modified()?))
        } else {
            Ok(())
        };
        match copied {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !source.exists() => {}
            other => other.map_err(GitError::io("cannot copy", &source))?,
        }
    }
    Ok(())
}

/// Object files are never changed, so both stores can hold the same ones. Whether all of them were
/// still there.
fn give_objects(from: &Path, to: &Path) -> Result<bool, GitError> {
    let mut complete = true;
    for entry in walkdir::WalkDir::new(from).into_iter().filter_map(Result::ok) {
        let inside = entry.path().strip_prefix(from).unwrap_or(entry.path());
        let temporary = entry.file_name().as_bytes().starts_with(b"tmp_");
        if !entry.file_type().is_file() || inside.starts_with("info") || temporary {
            continue;
        }
        let target = to.join(inside);
        if target.exists() {
            continue;
        }
        let given = fs::create_dir_all(target.parent().unwrap_or(to))
            .and_then(|()| fs::hard_link(entry.path(), &target).or_else(|_| fs::copy(entry.path(), &target).map(drop)));
        match given {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !entry.path().exists() => complete = false,
            other => other.map_err(GitError::io("cannot copy", entry.path()))?,
        }
    }
    Ok(complete)
}

/// Tells a module where its work tree is; nothing else of its configuration changes.
fn set_work_tree(git_dir: &Path, work_tree: &Path) -> Result<(), GitError> {
    for name in ["config", "config.worktree"] {
        let file = git_dir.join(name);
        if !file.exists() {
            continue;
        }
        let act = || format!("cannot change {}", show(&file));
        let mut config = git2::Config::open(&file).act(act)?;
        match config.remove_multivar("core.worktree", ".*") {
            Err(error) if error.code() != ErrorCode::NotFound => return Err(error).act(act),
            _ => {}
        }
    }
    let file = git_dir.join("config");
    let mut text = fs::read(&file).map_err(GitError::io("cannot read", &file))?;
    if !text.is_empty() && !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    // By hand: the path need not be UTF-8.
    text.extend_from_slice(b"[core]\n\tworktree = \"");
    for byte in work_tree.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => text.extend([b'\\', *byte]),
            b'\n' => text.extend_from_slice(b"\\n"),
            _ => text.push(*byte),
        }
    }
    text.extend_from_slice(b"\"\n");
    fs::write(&file, text).map_err(GitError::io("cannot write", &file))
}

/// A submodule's repository.
pub(crate) struct Module {
    library: Repository,
    git_dir: PathBuf,
}

impl Objects for Module {
    fn store(&self) -> Result<&Repository, GitError> {
        Ok(&self.library)
    }
}

impl Module {
    /// Opens the module with this git directory.
    pub(crate) fn open(git_dir: &Path) -> Result<Self, GitError> {
        let flags = RepositoryOpenFlags::NO_SEARCH | RepositoryOpenFlags::BARE;
        let library = Repository::open_ext(git_dir, flags, &[] as &[&Path])
            .act(|| format!("cannot open the submodule's repository {}", show(git_dir)))?;
        Ok(Self { library, git_dir: git_dir.to_owned() })
    }

    /// The refs below `prefix`, by name.
    pub(crate) fn hidden(&self, prefix: &str) -> Result<Vec<Hidden>, GitError> {
        hidden_in(&self.library, prefix)
    }

    /// Makes a branch at a commit; `false` if there is one of that name that is elsewhere.
    pub(crate) fn new_branch(&self, name: &str, id: Oid) -> Result<bool, GitError> {
        if let Ok(there) = self.library.refname_to_id(name) {
            return Ok(there == id);
        }
        let made = self.library.reference(name, id, false, "isofold: restored");
        made.map(|_| true).act(|| format!("cannot make {name} in {}", show(&self.git_dir)))
    }

    /// Where it is.
    pub(crate) fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// The work tree that its configuration names.
    pub(crate) fn work_tree(&self) -> Option<PathBuf> {
        let named = self.library.config().ok()?.get_path("core.worktree").ok()?;
        fs::canonicalize(self.git_dir.join(named)).ok()
    }

    /// Whether it has the commit.
    pub(crate) fn has(&self, commit: Oid) -> bool {
        self.library.find_commit(commit).is_ok()
    }

    /// Whether `commit` is `ancestor` or has it in its history.
    pub(crate) fn contains(&self, commit: Oid, ancestor: Oid) -> bool {
        commit == ancestor || self.library.graph_descendant_of(commit, ancestor).is_ok_and(|found| found)
    }

    /// Whether a ref or HEAD keeps the commit.
    pub(crate) fn keeps(&self, commit: Oid) -> Result<bool, GitError> {
        if !self.has(commit) {
            return Ok(false);
        }
        let hidden = self.tips(|_| true)?;
        Ok(!self.adds(commit, &hidden)?)
    }

    /// The submodules of a commit whose pointers differ from those of another: path, id.
    pub(crate) fn moved_links(&self, old: Option<Oid>, new: Oid) -> Result<Vec<(Vec<u8>, Oid)>, GitError> {
        let tree = |id: Oid| {
            let found = self.library.find_commit(id).act(|| format!("cannot read commit {id}"))?;
            Ok::<Oid, GitError>(found.tree_id())
        };
        let old = match old.filter(|id| self.has(*id)) {
            Some(id) => tree(id)?,
            None => empty_tree()?,
        };
        let changes = self.changes(old, tree(new)?)?;
        let link = |item: Option<Item>| item.filter(|item| item.mode == MODE_GITLINK).map(|item| item.id);
        Ok(changes.into_iter().filter_map(|change| Some((change.path, link(change.new)?))).collect())
    }

    /// Commits that refs (those that `counts` takes), HEAD and the stash name.
    fn tips(&self, counts: impl Fn(&[u8]) -> bool) -> Result<BTreeSet<Oid>, GitError> {
        let act = || format!("cannot read the refs of {}", show(&self.git_dir));
        let mut named = BTreeSet::new();
        for found in self.library.references().act(act)? {
            let found = found.act(act)?;
            if counts(found.name_bytes()) {
                named.extend(found.target());
            }
        }
        if counts(b"HEAD") {
            named.extend(self.library.refname_to_id("HEAD").ok());
        }
        // Asked for a log that is not there, the library makes one.
        if counts(b"refs/stash")
            && self.library.commondir().join("logs/refs/stash").is_file()
            && let Ok(log) = self.library.reflog("refs/stash")
        {
            named.extend(log.iter().map(|entry| entry.id_new()));
        }
        let commit = |id: Oid| self.library.find_object(id, None).and_then(|o| o.peel(ObjectType::Commit)).ok();
        Ok(named.into_iter().filter_map(commit).map(|found| found.id()).collect())
    }

    /// Whether a commit brings anything that `hidden` does not reach.
    fn adds(&self, commit: Oid, hidden: &BTreeSet<Oid>) -> Result<bool, GitError> {
        let act = || format!("cannot walk the history of {}", show(&self.git_dir));
        let mut walk = self.library.revwalk().act(act)?;
        walk.push(commit).act(act)?;
        for id in hidden {
            // What this module has never heard of hides nothing of it.
            let _ = walk.hide(*id);
        }
        walk.next().transpose().act(act).map(|found| found.is_some())
    }

    /// The tips of the history that neither the other module nor a remote is known to have.
    pub(crate) fn only_here(&self, elsewhere: Option<&Self>) -> Result<Vec<Oid>, GitError> {
        let remote = |name: &[u8]| name.starts_with(b"refs/remotes/");
        let mut hidden = self.tips(remote)?;
        if let Some(other) = elsewhere {
            self.see(other)?;
            hidden.extend(other.tips(|_| true)?);
        }
        let mut tips = Vec::new();
        for tip in self.tips(|name| !remote(name))? {
            if self.adds(tip, &hidden)? {
                tips.push(tip);
            }
        }
        self.topmost(&tips)
    }

    /// Whether it was cloned, and HEAD was never anywhere but where a checkout led it: all that it has
    /// came from its remote.
    pub(crate) fn is_untouched_clone(&self) -> bool {
        let log = fs::read(self.git_dir.join("logs/HEAD")).unwrap_or_default();
        let messages = log.split(|b| *b == b'\n').filter(|line| !line.is_empty());
        let mut messages = messages.map(|line| line.splitn(2, |b| *b == b'\t').nth(1).unwrap_or_default());
        messages.next().is_some_and(|first| first.starts_with(b"clone: from "))
            && messages.all(|message| message.starts_with(b"checkout: moving "))
    }

    /// Lets this module read the objects of another.
    fn see(&self, other: &Self) -> Result<(), GitError> {
        let act = || format!("cannot read the objects of {}", show(&other.git_dir));
        if let Some(path) = other.library.commondir().join("objects").to_str() {
            self.library.odb().act(act)?.add_disk_alternate(path).act(act)?;
        }
        Ok(())
    }

    /// Those commits that no other of them contains.
    fn topmost(&self, commits: &[Oid]) -> Result<Vec<Oid>, GitError> {
        let act = || format!("cannot walk the history of {}", show(&self.git_dir));
        let mut kept = Vec::new();
        for one in commits {
            let mut covered = kept.contains(one);
            for other in commits.iter().filter(|other| *other != one) {
                covered = covered || self.library.graph_descendant_of(*other, *one).act(act)?;
            }
            if !covered {
                kept.push(*one);
            }
        }
        Ok(kept)
    }

    /// Brings commits of another module here, with all that this one's refs don't reach; the
    /// objects are synced, and refs made by `name` keep them. The names of refs that are new are
    /// returned.
    pub(crate) fn take_from(
        &self,
        other: &Self,
        commits: &[Oid],
        name: impl Fn(Oid) -> String,
    ) -> Result<Vec<String>, GitError> {
        let act = || format!("cannot bring commits into {}", show(&self.git_dir));
        other.see(self)?;
        let commits = other.topmost(commits)?;
        let mut walk = other.library.revwalk().act(act)?;
        for commit in &commits {
            walk.push(*commit).act(act)?;
        }
        for id in self.tips(|_| true)? {
            let _ = walk.hide(id);
        }
        let mut pack = other.library.packbuilder().act(act)?;
        pack.insert_walk(&mut walk).act(act)?;
        if pack.object_count() > 0 {
            let directory = self.library.commondir().join("objects/pack");
            fs::create_dir_all(&directory).map_err(GitError::io("cannot make", &directory))?;
            pack.write(&directory, 0o444).act(act)?;
            let named = pack.name().act(act)?.unwrap_or_default().to_owned();
            for file in ["pack", "idx"] {
                let file = directory.join(format!("pack-{named}.{file}"));
                let synced = fs::File::open(&file).and_then(|f| f.sync_all());
                synced.map_err(GitError::io("cannot sync", &file))?;
            }
            let synced = fs::File::open(&directory).and_then(|d| d.sync_all());
            synced.map_err(GitError::io("cannot sync", &directory))?;
            self.library.odb().act(act)?.refresh().act(act)?;
        }
        let mut made = Vec::new();
        for commit in commits {
            let name = name(commit);
            if self.library.find_reference(&name).is_err() {
                made.push(name.clone());
            }
            self.library.reference(&name, commit, true, "isofold").map(drop).act(act)?;
        }
        Ok(made)
    }

    /// Removes a ref if it is there.
    pub(crate) fn remove_ref(&self, name: &str) -> Result<(), GitError> {
        match self.library.find_reference(name).and_then(|mut found| found.delete()) {
            Err(error) if error.code() != ErrorCode::NotFound => Err(error).act(|| format!("cannot remove {name}")),
            _ => Ok(()),
        }
    }
}
