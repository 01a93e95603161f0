//! The worktree of a capture: made, taken away, or left to a person.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::CaptureError;
use super::sweep::{MARKER, forget_worktree, take_away, write_marker};
use crate::control::{Control, Stage};
use crate::files::FilesError;
use crate::files::owner::Owner;
use crate::files::remove::{mounted_below, remove_tree};
use crate::git::index_file::IndexFile;
use crate::git::repository::Repo;
use crate::git::worktrees::{self, NewEntry};
use crate::git::{GitError, Oid, show};
use crate::isolate::{self, IsolateOutcome, IsolateRequest};
use crate::options::IsolationOptions;
use crate::records::{BaseEntry, ChildRecord, State};

/// Temporary directories of captures, and the worktree in each.
pub(super) const PREFIX: &str = "isofold-capture-";

/// The worktree of a capture that is under way.
pub(super) struct Worktree {
    /// Its root, links resolved.
    pub(super) root: PathBuf,
    /// The commit that its patch starts from.
    pub(super) base: Oid,
    admin: PathBuf,
    /// The directory that it lies in, which stays if the patch is written there.
    temporary: PathBuf,
}

/// Where the files of a finished capture go.
pub(super) struct Names {
    directory: PathBuf,
    stem: String,
}

impl Names {
    /// The patch is `STEM.patch`, an output beside it `STEM.stdout`.
    pub(super) fn beside(&self, what: &str) -> PathBuf {
        self.directory.join(format!("{}.{what}", self.stem))
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Worktree {
    /// Makes a worktree at `base`, or filled with the working files.
    pub(super) fn make(repo: &Repo, base: Option<Oid>, control: &Control) -> Result<Self, CaptureError> {
        let private = fs::Permissions::from_mode(0o700);
        let temporary = tempfile::Builder::new().prefix(PREFIX).permissions(private).tempdir();
        let place = std::env::temp_dir();
        let temporary = temporary.map_err(FilesError::io("cannot make a directory in", &place))?.keep();
        let made = fs::canonicalize(&temporary)
            .map_err(|error| CaptureError::from(FilesError::io("cannot read", &temporary)(error)))
            .and_then(|real| Self::make_in(repo, base, real, control));
        if made.is_err() {
            // All else was taken back already.
            let _ = fs::remove_file(temporary.join(MARKER));
            let _ = fs::remove_dir(&temporary);
        }
        made
    }

    fn make_in(repo: &Repo, base: Option<Oid>, temporary: PathBuf, control: &Control) -> Result<Self, CaptureError> {
        if temporary.starts_with(repo.work_dir()) {
            return Err(CaptureError::Inside { temporary, root: repo.work_dir().to_owned() });
        }
        let name = temporary.file_name().unwrap_or_default().to_string_lossy().replacen(PREFIX, "capture-", 1);
        let root = temporary.join(name);
        write_marker(&temporary, None, false)?;
        let Some(base) = base else { return Self::filled(repo, root, temporary, control) };
        let admin = register(repo, &root, base)?;
        let worktree = Self { root, base, admin, temporary };
        match worktree.check_out(repo, control) {
            Ok(()) => Ok(worktree),
            // Taken back; what is left, if anything, is said.
            Err(error) => Err(worktree.remove(repo).err().map_or(error, CaptureError::Other)),
        }
    }

    /// A worktree with the working files as they are: isolate's.
    fn filled(repo: &Repo, root: PathBuf, temporary: PathBuf, control: &Control) -> Result<Self, CaptureError> {
        let request = IsolateRequest::detached(repo.work_dir(), &root);
        let options = |parent: &Path| IsolationOptions::of_parent(parent).map_err(|error| error.to_string());
        match isolate::isolate(&request, options, control) {
            IsolateOutcome::Isolated(_) => {}
            IsolateOutcome::Failed(why) | IsolateOutcome::InvalidInvocation(why) => {
                return Err(CaptureError::Other(why));
            }
            IsolateOutcome::Interrupted(_) => return Err(crate::control::Stop::Interrupt.into()),
        }
        let child = Repo::open(&root).map_err(|error| CaptureError::Other(error.to_string()))?;
        let admin = child.git_dir().to_owned();
        let base = BaseEntry::newest_of_child(repo, child.work_dir())?.map(|entry| entry.base);
        let base = base.ok_or_else(|| CaptureError::Other("the isolation has no base".to_owned()))?;
        Ok(Self { root, base, admin, temporary })
    }

    /// The files of the base, as git checks them out; no hook runs.
    fn check_out(&self, repo: &Repo, control: &Control) -> Result<(), CaptureError> {
        control.progress().enter(Stage::Filling);
        isolate::carry_settings(repo, &self.admin).map_err(|error| CaptureError::Other(error.to_string()))?;
        let git = crate::git::program::Git::new(&self.admin, &self.root);
        let base = self.base.to_string();
        let read = ["-c", "core.splitIndex=false", "-c", "index.sparse=false", "read-tree", "-m", "-u", &base];
        git.run(read, None, control)?.success()?;
        control.check()?;
        let mut record = ChildRecord::read(&self.admin)?
            .ok_or_else(|| GitError::Format { what: format!("the record in {}", show(&self.admin)) })?;
        record.state = State::Ready;
        Ok(record.write(&self.admin)?)
    }

    /// A file for an output that is too long for memory.
    pub(super) fn spool(&self, name: &str) -> PathBuf {
        self.temporary.join(name)
    }

    /// Notes what runs.
    pub(super) fn running(&self, pid: u32) -> Result<(), GitError> {
        write_marker(&self.temporary, Owner::of(pid), false)
    }

    /// Where the patch and long outputs go.
    pub(super) fn names(&self, output: Option<&Path>) -> Names {
        let own = self.temporary.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match output {
            Some(directory) => {
                let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
                Names { directory, stem: own }
            }
            None => Names { directory: self.temporary.clone(), stem: "changes".to_owned() },
        }
    }

    /// Opens the worktree's repository after the command: its `.git`, its registration and its index may
    /// be gone or be something else.
    pub(super) fn reopen(&mut self, repo: &Repo) -> Result<Repo, CaptureError> {
        if !fs::symlink_metadata(&self.root).is_ok_and(|meta| meta.is_dir()) {
            return Err(CaptureError::Gone(self.root.clone()));
        }
        let registered = fs::symlink_metadata(self.admin.join("HEAD")).is_ok();
        if !registered {
            // `git worktree remove` of a command that stands in it, or a prune.
            let _ = fs::remove_dir_all(&self.admin);
            self.admin = enter(repo, &self.root, self.base, State::Ready)?;
        }
        let git_file = self.root.join(".git");
        let wanted = git_file_text(&self.admin);
        if fs::read(&git_file).ok().as_ref() != Some(&wanted) {
            // A repository that the command made of its own is not part of the work.
            if fs::symlink_metadata(&git_file).is_ok() {
                let aside = tempfile::Builder::new().prefix("replaced-git-").tempdir_in(&self.temporary);
                let aside = aside.map_err(FilesError::io("cannot write to", &self.temporary))?;
                fs::rename(&git_file, aside.path().join("git"))
                    .map_err(FilesError::io("cannot move aside", &git_file))?;
            }
            fs::write(&git_file, &wanted).map_err(FilesError::io("cannot write", &git_file))?;
        }
        let gone = |name: &str| match fs::remove_file(self.admin.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(FilesError::io("cannot remove", &self.admin.join(name))(error))
            }
            _ => Ok(()),
        };
        // Everyone who could hold it was ended.
        gone("index.lock")?;
        let control = Control::new();
        let git = crate::git::program::Git::new(&self.admin, &self.root);
        let (index, base) = (self.admin.join("index"), self.base.to_string());
        if !registered || !index.exists() {
            git.run(["read-tree", &base], None, &control)?.success()?;
        }
        if IndexFile::read(&index).is_err() {
            // In a form of its own, or damaged.
            let plain = git.run(["update-index", "--no-split-index"], None, &control)?;
            if plain.code != Some(0) || IndexFile::read(&index).is_err() {
                fs::remove_file(&index).map_err(FilesError::io("cannot remove", &index))?;
                git.run(["-c", "index.sparse=false", "read-tree", &base], None, &control)?.success()?;
            }
        }
        Repo::open(&self.root).map_err(|error| CaptureError::Other(error.to_string()))
    }

    /// Takes the worktree and its registration away; the temporary directory too, unless something was
    /// put there. `Err` says what is left.
    pub(super) fn remove(&self, repo: &Repo) -> Result<(), String> {
        let left =
            |why: &dyn std::fmt::Display| format!("the worktree {} could not be removed: {why}", show(&self.root));
        if let Some(place) = mounted_below(&self.root) {
            return Err(left(&format!("something is mounted at {}", show(&place))));
        }
        write_marker(&self.temporary, None, true).map_err(|error| left(&error))?;
        take_away(&self.root).map_err(|error| left(&error))?;
        forget_worktree(repo, &self.root, &self.admin).map_err(|error| left(&error))?;
        let _ = fs::remove_file(self.temporary.join(MARKER));
        let _ = fs::remove_dir(&self.temporary);
        Ok(())
    }

    /// Leaves the worktree to a person: an ordinary one from here on.
    pub(super) fn hand_over(&self) -> Result<(), String> {
        let gone = |file: &Path| match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(format!("{}: {error}", show(file))),
            _ => Ok(()),
        };
        gone(&self.admin.join("locked"))?;
        gone(&self.temporary.join(MARKER))
    }
}

/// Makes the directory of a worktree, and registers it.
fn register(repo: &Repo, root: &Path, base: Oid) -> Result<PathBuf, CaptureError> {
    fs::create_dir(root).map_err(FilesError::io("cannot make", root))?;
    let entered = enter(repo, root, base, State::Making);
    if entered.is_err() {
        remove_tree(root)?;
    }
    entered
}

/// Registers an existing directory as a worktree at `base`.
fn enter(repo: &Repo, root: &Path, base: Oid, state: State) -> Result<PathBuf, CaptureError> {
    let owner = Owner::this();
    let lock_reason = format!("isofold {} is capturing", owner.pid);
    let head = base.to_string();
    let entry = NewEntry { child: root, head: &head, lock_reason: &lock_reason };
    let record = ChildRecord::new(state, repo.work_dir(), root);
    let admin = worktrees::register(repo.common_dir(), &entry, |staged| record.write(staged))?;
    let git_file = root.join(".git");
    let written = match fs::symlink_metadata(&git_file) {
        Ok(_) => Ok(()),
        Err(_) => fs::write(&git_file, git_file_text(&admin)).map_err(GitError::io("cannot write", &git_file)),
    };
    if let Err(error) = written {
        worktrees::unregister(repo.common_dir(), &admin)?;
        return Err(error.into());
    }
    Ok(admin)
}

pub(super) fn git_file_text(admin: &Path) -> Vec<u8> {
    [b"gitdir: ", admin.as_os_str().as_encoded_bytes(), b"\n"].concat()
}
