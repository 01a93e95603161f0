//! Making a copy of the line: built beside its place, renamed in when it is complete.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use super::Reference;
use crate::control::{Control, Stage, Stop};
use crate::files::lock::{Hold, Lock, lock};
use crate::files::remove::remove_tree;
use crate::files::{FilesError, as_path};
use crate::git::repository::Repo;
use crate::git::{GitError, remote, show};

/// What the directories are called in which copies are made.
const ROOM: &str = ".isofold-reference-";

/// How many branches a message names.
const NAMED: usize = 20;

/// A finished copy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Materialized {
    /// Where it is, as it was asked for.
    pub copy: PathBuf,
    /// The commit that its HEAD is at.
    pub head: String,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
}

/// Why there is no copy. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MaterializeError {
    /// Something is at that path.
    #[error("{} exists already; isofold makes a copy only where nothing is", show(.0))]
    Exists(PathBuf),
    /// The remote has no such branch.
    #[error("{remote} has no branch \"{branch}\". {}", has(branches))]
    NoBranch {
        /// The remote.
        remote: String,
        /// The branch that was looked for.
        branch: String,
        /// Those that it has.
        branches: Vec<String>,
    },
    /// The remote could not be asked, or did not give what it has.
    #[error("cannot reach {remote}: {why}")]
    Unreachable {
        /// The remote.
        remote: String,
        /// In git's words, without any token.
        why: String,
    },
    /// The files could not be made of what the remote gave.
    #[error("cannot check out \"{branch}\" of {remote}: {why}")]
    CheckOut {
        /// The remote.
        remote: String,
        /// The branch.
        branch: String,
        /// What failed.
        why: String,
    },
    /// A file or directory could not be written.
    #[error("{0}")]
    Files(String),
    /// git could not be started, or its answer not be read.
    #[error("{0}")]
    Git(String),
    /// The clock fired, or somebody asked to stop.
    #[error("{}", match .0 { Stop::Clock => "The clock fired; no copy was made.", Stop::Interrupt => "Interrupted; no copy was made." })]
    Stopped(Stop),
}

impl From<GitError> for MaterializeError {
    fn from(error: GitError) -> Self {
        error.stop().map_or_else(|| Self::Git(error.to_string()), Self::Stopped)
    }
}

impl From<FilesError> for MaterializeError {
    fn from(error: FilesError) -> Self {
        error.stop().map_or_else(|| Self::Files(error.to_string()), Self::Stopped)
    }
}

fn has(branches: &[String]) -> String {
    if branches.is_empty() {
        return "It has no branches".to_owned();
    }
    let named: Vec<&str> = branches.iter().take(NAMED).map(String::as_str).collect();
    let more = branches.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(", and {more} more") };
    crate::git::one_line(&format!("It has: {}{more}", named.join(", ")))
}

impl Reference {
    /// Makes a copy of the line at `copy`, where nothing is yet: a clone of that one branch, without tags
    /// and submodules, whose `origin` is the remote. The network goes through the git program, so
    /// proxies, certificates and ssh are what the machine has configured;
    /// [`Progress::said`](crate::Progress::said) tells how far it is. All or nothing.
    ///
    /// # Errors
    /// [`MaterializeError`]; nothing is left then.
    pub fn materialize(&self, copy: &Path, control: &Control) -> Result<Materialized, MaterializeError> {
        let started = Instant::now();
        let control = control.with_environment(self.environment().clone());
        if fs::symlink_metadata(copy).is_ok() {
            return Err(MaterializeError::Exists(copy.to_owned()));
        }
        let place = std::path::absolute(copy).map_err(FilesError::io("cannot find", copy))?;
        let (Some(above), Some(_)) = (place.parent(), place.file_name()) else {
            return Err(MaterializeError::Exists(copy.to_owned()));
        };
        if is_relative(self.remote()) {
            return Err(self.unreachable("it is a path, and a path has to be absolute"));
        }
        control.progress().enter(Stage::Cloning);
        self.check_branch(&control)?;
        let ancestors = Ancestors::make(above)?;
        let room = Room::make(above, &control)?;
        let clone = room.path.join("copy");
        let watch = |line: &str| {
            // Where it is made at first is nobody's business.
            if !line.starts_with("Cloning into ") {
                control.progress().say(line);
            }
        };
        if let Err(why) = remote::clone(self.remote(), &self.branch, &clone, &watch, &control)? {
            return Err(self.unreachable(&why));
        }
        self.check_out(&clone, &control)?;
        let head = head_of(&clone, &control)?;
        control.check().map_err(GitError::from)?;
        move_in(&clone, &place)?;
        ancestors.keep();
        let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(Materialized { copy: copy.to_owned(), head, elapsed_ms })
    }

    fn check_branch(&self, control: &Control) -> Result<(), MaterializeError> {
        let ask = |only| remote::branches(self.remote(), only, control)?.map_err(|why| self.unreachable(&why));
        if !ask(Some(self.branch.as_str()))?.is_empty() {
            return Ok(());
        }
        let (remote, branch) = (self.remote().to_owned(), self.branch.clone());
        Err(MaterializeError::NoBranch { remote, branch, branches: ask(None)? })
    }

    fn check_out(&self, clone: &Path, control: &Control) -> Result<(), MaterializeError> {
        remote::check_out(clone, control).map_err(|error| match error.stop() {
            Some(stop) => MaterializeError::Stopped(stop),
            None => MaterializeError::CheckOut {
                remote: self.remote().to_owned(),
                branch: self.branch.clone(),
                why: error.to_string(),
            },
        })
    }

    /// Without its token git has nothing to say but that it was told to quit.
    fn unreachable(&self, why: &str) -> MaterializeError {
        let environment = self.environment();
        let variable = environment.credential.as_ref().filter(|c| c.site.is_some()).map(|c| &c.variable);
        let why = match variable.filter(|_| environment.token().is_none() && why.contains("told us to quit")) {
            Some(variable) => format!("it wants credentials, and the environment variable {variable} is not set"),
            None => why.to_owned(),
        };
        MaterializeError::Unreachable { remote: self.remote().to_owned(), why }
    }
}

/// Whether an address is a path that depends on where a process stands.
fn is_relative(remote: &str) -> bool {
    let before_slash = remote.split('/').next().unwrap_or_default();
    !remote.starts_with('/') && !before_slash.contains(':')
}

/// The commit that a clone's HEAD is at, also where only git can read the repository.
fn head_of(clone: &Path, control: &Control) -> Result<String, MaterializeError> {
    if let Ok(repo) = Repo::open(clone)
        && let Some(id) = repo.head()?.id
    {
        return Ok(id.to_string());
    }
    let head = crate::git::program::Git::new(&clone.join(".git"), clone);
    let printed = head.run(["rev-parse", "--verify", "HEAD"], None, control)?.success()?;
    Ok(String::from_utf8_lossy(&printed).trim().to_owned())
}

/// Puts the finished clone where nothing may be.
fn move_in(clone: &Path, place: &Path) -> Result<(), MaterializeError> {
    let renamed = match rustix::fs::renameat_with(CWD, clone, CWD, place, RenameFlags::NOREPLACE) {
        // Without the flag a directory still replaces nothing but an empty one.
        Err(Errno::INVAL | Errno::NOSYS) => rustix::fs::rename(clone, place),
        other => other,
    };
    match renamed {
        Ok(()) => Ok(()),
        Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => Err(MaterializeError::Exists(place.to_owned())),
        Err(error) => Err(FilesError::io("cannot make", place)(error.into()).into()),
    }
}

/// Directories above the copy that had to be made; they go again unless they are kept.
struct Ancestors(Vec<PathBuf>);

impl Ancestors {
    fn make(directory: &Path) -> Result<Self, FilesError> {
        let missing: Vec<&Path> = directory.ancestors().take_while(|at| !at.exists()).collect();
        let mut made = Self(Vec::new());
        for at in missing.into_iter().rev() {
            match fs::create_dir(at) {
                Ok(()) => made.0.push(at.to_owned()),
                // Somebody else made it meanwhile, and it is theirs.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(FilesError::io("cannot make", at)(error)),
            }
        }
        Ok(made)
    }

    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Ancestors {
    fn drop(&mut self) {
        for directory in self.0.iter().rev() {
            // What somebody else put in meanwhile stays, and so does the directory.
            let _ = fs::remove_dir(directory);
        }
    }
}

/// A directory beside the copy, in which it is made. It is locked while its maker lives, so that what a
/// killed one left can be told from work in progress.
struct Room {
    path: PathBuf,
    _lock: Lock,
}

impl Room {
    fn make(above: &Path, control: &Control) -> Result<Self, FilesError> {
        clear_rooms(above);
        loop {
            let made = tempfile::Builder::new().prefix(ROOM).tempdir_in(above);
            let path = made.map_err(FilesError::io("cannot write to", above))?.keep();
            match lock(&path, Hold::Exclusive, None, control) {
                Ok(Some(held)) if path.is_dir() => return Ok(Self { path, _lock: held }),
                // Another process took it for one that was left.
                Ok(_) => {}
                Err(FilesError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let _ = fs::remove_dir(&path);
                    return Err(error);
                }
            }
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Err(error) = remove_tree(&self.path) {
            tracing::warn!(%error, "a half-made copy could not be removed");
        }
    }
}

/// Takes away what killed processes left. What can't be removed is in nobody's way.
fn clear_rooms(above: &Path) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        if !entry.file_name().as_encoded_bytes().starts_with(ROOM.as_bytes()) {
            continue;
        }
        let room = above.join(as_path(entry.file_name().as_encoded_bytes()));
        let patience = Some(std::time::Duration::ZERO);
        if let Ok(Some(_held)) = lock(&room, Hold::Exclusive, patience, &Control::new())
            && let Err(error) = remove_tree(&room)
        {
            tracing::warn!(%error, "what a killed process left could not be removed");
        }
    }
}
