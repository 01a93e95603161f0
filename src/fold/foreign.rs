//! A Child that is a clone of its own: its commits and its index are brought to the Parent's side, its
//! configuration is never read.
//!
//! What a fold looks at is a *shadow*: an administrative directory as that of a linked worktree, in the
//! Parent's git directory, with the clone's HEAD and a copy of its index. Every git then runs under the
//! Parent's configuration. The clone's objects come in one pack, checked by git, and a hidden ref keeps
//! them while the fold runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::FoldError;
use crate::control::Control;
use crate::files::FilesError;
use crate::files::owner::Owner;
use crate::files::remove::remove_tree;
use crate::git::program::Git;
use crate::git::refs::FOREIGN;
use crate::git::repository::Repo;
use crate::git::{GitError, Oid, show};

/// What the names of shadows start with; the tag of their owner follows.
pub(crate) const SHADOW: &str = "isofold-foreign-";

/// A clone, as far as its files say it without being asked.
struct Clone {
    git_dir: PathBuf,
    common: PathBuf,
}

/// The shadow of a clone; it goes with the value.
pub(crate) struct Shadow {
    directory: PathBuf,
    parent: PathBuf,
    reference: Option<String>,
}

/// Brings a clone's commits here and opens its work tree under the Parent's configuration.
pub(super) fn open(parent: &Repo, child: &Path, control: &Control) -> Result<(Repo, Shadow), FoldError> {
    let clone = Clone::at(child)?;
    let head = clone.head(child)?;
    let name = format!("{SHADOW}{}", Owner::this().tag());
    let directory = tempfile::Builder::new().prefix(&format!("{name}-")).tempdir_in(parent.common_dir());
    let directory = directory.map_err(GitError::io("cannot write to", parent.common_dir()))?.keep();
    let mut shadow = Shadow { directory, parent: parent.work_dir().to_owned(), reference: None };
    if let Some(head) = head {
        shadow.fetch(parent, &clone, head, child, control)?;
    }
    shadow.furnish(&clone, head, child)?;
    let repo = Repo::open_shadow(&shadow.directory, child)?;
    Ok((repo, shadow))
}

impl Clone {
    /// Finds the git directory that a `.git` leads to; nothing in it is asked.
    fn at(child: &Path) -> Result<Self, FoldError> {
        let not = |why: &str| FoldError::NotRegistered { child: child.to_owned(), why: why.to_owned() };
        let git = child.join(".git");
        let meta = fs::symlink_metadata(&git).map_err(|_| not("it has no .git"))?;
        let git_dir = if meta.is_dir() {
            git
        } else {
            crate::git::worktrees::admin_of_git_file(&git).ok_or_else(|| not("its .git names no git directory"))?
        };
        let git_dir = fs::canonicalize(&git_dir).map_err(|_| not("its .git leads nowhere"))?;
        let common = match fs::read_to_string(git_dir.join("commondir")) {
            Ok(text) => git_dir.join(text.trim()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => git_dir.clone(),
            Err(error) => return Err(GitError::io("cannot read", &git_dir)(error).into()),
        };
        let common = fs::canonicalize(&common).map_err(|_| not("its .git leads nowhere"))?;
        if !common.join("objects").is_dir() {
            return Err(not("its .git leads to no repository"));
        }
        Ok(Self { git_dir, common })
    }

    /// The commit that HEAD is at; `None` on a branch without commits.
    fn head(&self, child: &Path) -> Result<Option<Oid>, FoldError> {
        let mut name = "HEAD".to_owned();
        // As git: a few symbolic refs in a row.
        for _ in 0..5 {
            let Some(text) = self.read_ref(&name)? else { return Ok(None) };
            let Some(target) = text.strip_prefix("ref:") else {
                let id = Oid::from_str(text.trim()).ok().filter(|_| text.trim().len() == 40);
                let what = format!("{} of {} (SHA-256 objects?)", name, show(child));
                return id.map(Some).ok_or(FoldError::Git(GitError::Format { what }));
            };
            target.trim().clone_into(&mut name);
            if !name.starts_with("refs/") || name == "refs/heads/.invalid" {
                return Err(GitError::Format { what: format!("the refs of {} (reftable?)", show(child)) }.into());
            }
        }
        Err(GitError::Format { what: format!("HEAD of {}: it leads round in circles", show(child)) }.into())
    }

    /// A ref as it stands: loose, in the clone or what it shares, or packed.
    fn read_ref(&self, name: &str) -> Result<Option<String>, FoldError> {
        if !Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_))) {
            return Ok(None);
        }
        for directory in [&self.git_dir, &self.common] {
            let file = directory.join(name);
            match fs::read_to_string(&file) {
                Ok(text) => return Ok(Some(text)),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory
                    ) => {}
                Err(error) => return Err(FilesError::io("cannot read", &file)(error).into()),
            }
        }
        let packed = self.common.join("packed-refs");
        let text = match fs::read_to_string(&packed) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(FilesError::io("cannot read", &packed)(error).into()),
        };
        let found = text.lines().find_map(|line| line.strip_suffix(name)?.strip_suffix(' '));
        Ok(found.map(str::to_owned))
    }
}

impl Shadow {
    /// Brings what the Parent lacks of `head` into its repository: packed by a git that knows the clone
    /// only as a place where objects are, checked and indexed by one in the Parent.
    fn fetch(
        &mut self,
        parent: &Repo,
        clone: &Clone,
        head: Oid,
        child: &Path,
        control: &Control,
    ) -> Result<(), FoldError> {
        let bare = self.directory.join("objects-of");
        let made = || -> io::Result<()> {
            fs::create_dir_all(bare.join("objects/info"))?;
            fs::create_dir_all(bare.join("objects/pack"))?;
            fs::create_dir(bare.join("refs"))?;
            fs::write(bare.join("HEAD"), "ref: refs/heads/none\n")?;
            let mut alternates = Vec::new();
            for objects in [parent.common_dir().join("objects"), clone.common.join("objects")] {
                alternates.extend(objects.into_os_string().into_encoded_bytes());
                alternates.push(b'\n');
            }
            fs::write(bare.join("objects/info/alternates"), alternates)?;
            // Where history was cut off, there or here.
            let mut cut = Vec::new();
            for file in [clone.common.join("shallow"), parent.common_dir().join("shallow")] {
                match fs::read(&file) {
                    Ok(text) => cut.extend(text),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
            if cut.is_empty() { Ok(()) } else { fs::write(bare.join("shallow"), cut) }
        };
        made().map_err(GitError::io("cannot write to", &bare))?;
        let mut wanted = format!("{head}\n--not\n").into_bytes();
        let tips = parent.git().run(["for-each-ref", "--format=%(objectname)"], None, control)?.success()?;
        wanted.extend(tips);
        wanted.extend(parent.head()?.id.map(|id| format!("{id}\n")).unwrap_or_default().into_bytes());
        let pack = ["pack-objects", "--revs", "--stdout", "--quiet", "--delta-base-offset"];
        let git = Git::new(&bare, &bare);
        let packed = git.run(pack, Some(wanted), control)?.success().map_err(|error| unreadable(child, &error))?;
        // Names that git would refuse to check out are refused here.
        let index = ["index-pack", "--stdin", "--strict", "--fix-thin"];
        parent.git().run(index, Some(packed), control)?.success().map_err(|error| unreadable(child, &error))?;
        let name = format!("{FOREIGN}{}", Owner::this().tag());
        parent.set_hidden_ref(&name, head)?;
        self.reference = Some(name);
        let whole =
            ["rev-list", "--objects", "--quiet", &head.to_string(), "--not", "--exclude=refs/isofold/*", "--all"];
        parent.git().run(whole, None, control)?.success().map_err(|error| unreadable(child, &error))?;
        Ok(())
    }

    /// Makes the directory what a linked worktree's administrative directory is.
    fn furnish(&self, clone: &Clone, head: Option<Oid>, child: &Path) -> Result<(), FoldError> {
        let directory = &self.directory;
        let head = match head {
            Some(id) => format!("{id}\n"),
            // A branch that nobody has: HEAD without a commit.
            None => format!("ref: {FOREIGN}{}-unborn\n", Owner::this().tag()),
        };
        let mut git_file = child.join(".git").into_os_string().into_encoded_bytes();
        git_file.push(b'\n');
        let made = || -> io::Result<()> {
            fs::write(directory.join("HEAD"), head)?;
            fs::write(directory.join("commondir"), "../\n")?;
            fs::write(directory.join("gitdir"), git_file)?;
            let index = clone.git_dir.join("index");
            match fs::copy(&index, directory.join("index")) {
                // What was racy there stays racy here.
                Ok(_) => {
                    let times = fs::metadata(&index)?.modified()?;
                    fs::File::options().write(true).open(directory.join("index"))?.set_modified(times)
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
            }
        };
        made().map_err(|error| GitError::io("cannot write to", directory)(error).into())
    }
}

fn unreadable(child: &Path, error: &GitError) -> FoldError {
    FoldError::Foreign { child: child.to_owned(), why: error.to_string() }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        let gone = remove_tree(&self.directory).map_err(|error| error.to_string()).and_then(|()| {
            let Some(name) = &self.reference else { return Ok(()) };
            let repo = Repo::open(&self.parent).map_err(|error| error.to_string())?;
            repo.remove_ref(name).map_err(|error| error.to_string())
        });
        if let Err(error) = gone {
            tracing::warn!(error, "the shadow of a clone could not be removed");
        }
    }
}
