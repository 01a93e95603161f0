//! The worktree registry of a repository: who is registered, which branches they hold, and our own
//! entries. Entries of others are read, never written.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::repository::Repo;
use super::{GitError, show};
use crate::files::owner::Owner;

/// A registered linked worktree.
#[derive(Debug, Clone)]
pub(crate) struct Registered {
    /// The administrative directory, `<common>/worktrees/<name>`.
    pub(crate) admin: PathBuf,
    /// The root of the worktree as it was registered.
    pub(crate) directory: PathBuf,
    /// Why it is locked, where it is.
    pub(crate) locked: Option<String>,
}

impl Registered {
    /// When git last worked in it, in seconds since 1970, as far as its files tell.
    pub(crate) fn last_used(&self) -> i64 {
        use std::os::unix::fs::MetadataExt;
        let files = ["index", "HEAD", "gitdir", "logs/HEAD"].map(|name| self.admin.join(name));
        files.iter().filter_map(|file| Some(fs::metadata(file).ok()?.mtime())).max().unwrap_or(i64::MAX)
    }

    /// Whether the worktree's directory is gone.
    pub(crate) fn is_gone(&self) -> bool {
        let git_file = self.directory.join(".git");
        matches!(fs::symlink_metadata(git_file), Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
    }
}

/// All registered linked worktrees; half-written entries of others are passed over.
pub(crate) fn registered(common: &Path) -> Result<Vec<Registered>, GitError> {
    let root = common.join("worktrees");
    let entries = match fs::read_dir(&root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(GitError::io("cannot read", &root)(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let admin = entry.map_err(GitError::io("cannot read", &root))?.path();
        let Ok(text) = fs::read(admin.join("gitdir")) else { continue };
        let text = text.trim_ascii_end();
        if text.is_empty() {
            continue;
        }
        let git_file = admin.join(OsStr::from_bytes(text));
        let Some(directory) = git_file.parent() else { continue };
        let locked = fs::read_to_string(admin.join("locked")).ok().map(|t| t.trim().to_owned());
        found.push(Registered { directory: directory.to_owned(), admin, locked });
    }
    found.sort_by(|a, b| a.admin.cmp(&b.admin));
    Ok(found)
}

/// The administrative directory that the `.git` file of a linked worktree names, as it stands there.
pub(crate) fn admin_of_git_file(git_file: &Path) -> Option<PathBuf> {
    let meta = fs::symlink_metadata(git_file).ok()?;
    if !meta.is_file() || meta.len() > 64 * 1024 {
        return None;
    }
    let text = fs::read(git_file).ok()?;
    let target = text.strip_prefix(b"gitdir:")?.trim_ascii();
    let target = OsString::from_vec(target.to_vec());
    Some(git_file.parent()?.join(target))
}

/// A branch that some work tree holds.
#[derive(Debug)]
pub(crate) struct Use {
    /// The root of the work tree.
    pub(crate) place: PathBuf,
    /// The registry entry, none for the main checkout.
    pub(crate) entry: Option<Registered>,
    /// `checked out`, `being rebased` or `being bisected`.
    pub(crate) how: &'static str,
}

/// Every work tree that has the branch (a full ref name) checked out or in an operation.
pub(crate) fn uses_of(repo: &Repo, branch: &str) -> Result<Vec<Use>, GitError> {
    let common = repo.common_dir();
    let mut uses = Vec::new();
    if !repo.config_bool("core.bare", false)?
        && let Some(how) = holds(common, branch)
    {
        let place = match common.parent() {
            Some(parent) if common.file_name() == Some(OsStr::new(".git")) => parent.to_owned(),
            _ => common.to_owned(),
        };
        uses.push(Use { place, entry: None, how });
    }
    for entry in registered(common)? {
        if let Some(how) = holds(&entry.admin, branch) {
            uses.push(Use { place: entry.directory.clone(), entry: Some(entry), how });
        }
    }
    Ok(uses)
}

/// How the work tree with this git directory holds `branch`, if it does.
fn holds(git_dir: &Path, branch: &str) -> Option<&'static str> {
    let text = |name: &str| fs::read_to_string(git_dir.join(name)).unwrap_or_default();
    let short = branch.strip_prefix("refs/heads/").unwrap_or(branch);
    let named = |text: &str| {
        let name = text.trim();
        name == branch || name == short
    };
    if text("HEAD").strip_prefix("ref:").is_some_and(named) {
        return Some("checked out");
    }
    let rebased = named(&text("rebase-merge/head-name"))
        || named(&text("rebase-apply/head-name"))
        || text("rebase-merge/update-refs").lines().any(|line| line == branch);
    if rebased {
        return Some("being rebased");
    }
    (git_dir.join("BISECT_LOG").exists() && named(&text("BISECT_START"))).then_some("being bisected")
}

/// What a new entry of the registry says.
pub(crate) struct NewEntry<'a> {
    pub(crate) child: &'a Path,
    /// The content of HEAD: `ref: refs/heads/x` or an id.
    pub(crate) head: &'a str,
    /// Why the entry is locked until it is complete.
    pub(crate) lock_reason: &'a str,
}

/// What the names of entries on their way into the registry, or out of it, start with; the tag of the
/// process at work follows. They lie in the common git directory.
pub(crate) const UNDER_WAY: &str = "isofold-entry-";

/// A directory's name that says who works on it and that nobody else uses.
fn under_way(common: &Path) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    common.join(format!("{UNDER_WAY}{}-{number}", Owner::this().tag()))
}

/// Writes a new entry, locked, under a name nobody has; returns its administrative directory. The
/// entry appears with all that `more` writes into it: there is no moment at which a kill leaves one
/// that nobody knows. The Child's directory and its `.git` are the caller's to make.
pub(crate) fn register<E: From<GitError>>(
    common: &Path,
    new: &NewEntry<'_>,
    more: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<PathBuf, E> {
    let root = common.join("worktrees");
    fs::create_dir_all(&root).map_err(GitError::io("cannot write to", &root))?;
    let staged = under_way(common);
    fs::create_dir(&staged).map_err(GitError::io("cannot make", &staged))?;
    let line = |text: &[u8]| [text, b"\n"].concat();
    let git_file = new.child.join(".git");
    let written = fs::write(staged.join("locked"), line(new.lock_reason.as_bytes()))
        .and_then(|()| fs::write(staged.join("gitdir"), line(git_file.as_os_str().as_bytes())))
        .and_then(|()| fs::write(staged.join("commondir"), b"../..\n"))
        .and_then(|()| fs::write(staged.join("HEAD"), line(new.head.as_bytes())));
    let entered = written
        .map_err(|error| E::from(GitError::io("cannot write to", &staged)(error)))
        .and_then(|()| more(&staged))
        .and_then(|()| Ok(enter(&staged, &root, new.child)?));
    if entered.is_err() {
        fs::remove_dir_all(&staged).map_err(GitError::io("cannot remove", &staged))?;
    }
    entered
}

/// Moves a written entry into the registry under a name that is free.
fn enter(staged: &Path, root: &Path, child: &Path) -> Result<PathBuf, GitError> {
    let base = sanitized(child.file_name().unwrap_or(OsStr::new("child")));
    let mut admin = root.join(&base);
    let mut number = 1;
    loop {
        match rename_to_free(staged, &admin) {
            Ok(()) => return Ok(admin),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let mut name = base.clone();
                name.push(number.to_string());
                admin = root.join(name);
                number += 1;
            }
            // Whoever takes the last entry out takes the empty registry along.
            Err(error) if error.kind() == io::ErrorKind::NotFound && staged.is_dir() && number < 1000 => {
                number += 1;
                fs::create_dir_all(root).map_err(GitError::io("cannot write to", root))?;
            }
            Err(error) => return Err(GitError::io("cannot make", &admin)(error)),
        }
    }
}

/// Renames a directory to a name that nothing has, not even an empty directory.
fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            // Without such a rename: the name is taken first, what says that it is locked comes first.
            fs::create_dir(to)?;
            for name in ["locked", "isofold.toml", "gitdir", "commondir", "HEAD"] {
                match fs::rename(from.join(name), to.join(name)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            fs::remove_dir(from)
        }
        other => other.map_err(io::Error::from),
    }
}

/// Removes one entry, and the registry's directory once it is empty. The entry vanishes as a whole.
pub(crate) fn unregister(common: &Path, admin: &Path) -> Result<(), GitError> {
    let inside = admin.parent() == Some(&common.join("worktrees"));
    if !inside {
        return Err(GitError::Format { what: format!("{} as a worktree's administrative directory", show(admin)) });
    }
    let going = under_way(common);
    match fs::rename(admin, &going) {
        Ok(()) => fs::remove_dir_all(&going).map_err(GitError::io("cannot remove", &going))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(GitError::io("cannot remove", admin)(error)),
    }
    // Fails while other worktrees are registered.
    let _ = fs::remove_dir(common.join("worktrees"));
    Ok(())
}

/// A name for the registry, made of what refs may hold, as git makes it.
fn sanitized(name: &OsStr) -> OsString {
    let mut clean: Vec<u8> = name
        .as_bytes()
        .iter()
        .map(|b| if b.is_ascii_control() || b" ~^:?*[\\\x7f".contains(b) { b'-' } else { *b })
        .collect();
    while let Some(at) = clean.windows(2).position(|w| w == b".." || w == b"@{") {
        clean[at + 1] = b'-';
    }
    if clean.starts_with(b".") {
        clean[0] = b'-';
    }
    while clean.ends_with(b".lock") || clean.ends_with(b".") {
        let last = clean.len() - 1;
        clean.truncate(last.max(1));
        if clean.len() == 1 {
            clean[0] = b'-';
        }
    }
    OsString::from_vec(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_names_are_clean() {
        for (name, clean) in [("a b", "a-b"), (".x", "-x"), ("x.lock", "x.loc"), ("a..b", "a.-b"), (".", "-")] {
            assert_eq!(sanitized(OsStr::new(name)), OsStr::new(clean), "{name}");
        }
    }
}
