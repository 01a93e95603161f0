//! Refs as files: the one ref that a landing moves, in a single rename, with its reflogs; and our
//! hidden refs, made and taken away so that a kill leaves nothing that blocks git.
//!
//! Formats: gitrepository-layout(5), git-pack-refs(1). Repositories with other ref stores are refused
//! when they are opened.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use git2::{ErrorCode, Signature};

use super::config::Settings;
use super::lock_files::{GitLock, lock_of};
use super::repository::{Head, Repo};
use super::{Act, GitError, Oid};
use crate::control::Control;

const NO_ID: &str = "0000000000000000000000000000000000000000";

impl Repo {
    /// The file of a ref.
    pub(crate) fn ref_path(&self, name: &str) -> PathBuf {
        if name == "HEAD" { self.git_dir().join(name) } else { self.common_dir().join(name) }
    }

    /// The locks that keep HEAD and its branch where they are.
    pub(crate) fn head_locks(&self, head: &Head) -> Vec<PathBuf> {
        let branch = head.branch.as_ref().map(|name| lock_of(&self.ref_path(name)));
        std::iter::once(lock_of(&self.ref_path("HEAD"))).chain(branch).collect()
    }

    /// Refuses a branch that only names another ref: moving it would move that one.
    pub(crate) fn check_branch(&self, head: &Head) -> Result<(), GitError> {
        let Some(branch) = &head.branch else { return Ok(()) };
        match self.library().find_reference(branch) {
            Ok(found) if found.symbolic_target_bytes().is_some() => {
                Err(GitError::Format { what: format!("the branch {branch}, which is a symbolic ref") })
            }
            Err(error) if error.code() != ErrorCode::NotFound => Err(error).act(|| format!("cannot read {branch}")),
            _ => Ok(()),
        }
    }

    /// The reflogs that a move of HEAD's branch, or of a detached HEAD, is written to.
    pub(crate) fn reflogs_of(&self, head: &Head) -> Result<Vec<PathBuf>, GitError> {
        let config = Settings::of(self)?.config;
        // `always` is no boolean; unset means yes where there is a work tree.
        let wanted = config.get_bool("core.logAllRefUpdates").unwrap_or(true);
        let branch = head.branch.iter().map(|name| self.common_dir().join("logs").join(name));
        let logs = std::iter::once(self.git_dir().join("logs/HEAD")).chain(branch);
        Ok(logs.filter(|log| wanted || log.is_file()).collect())
    }
}

/// A line of a reflog, without the newline.
pub(crate) fn reflog_line(old: Option<Oid>, new: Oid, who: &Signature<'_>, message: &str) -> String {
    let when = who.when();
    let offset = when.offset_minutes();
    format!(
        "{} {new} {} <{}> {} {}{:02}{:02}\t{}",
        old.map_or_else(|| NO_ID.to_owned(), |id| id.to_string()),
        String::from_utf8_lossy(who.name_bytes()),
        String::from_utf8_lossy(who.email_bytes()),
        when.seconds(),
        when.sign(),
        offset.abs() / 60,
        offset.abs() % 60,
        super::one_line(message)
    )
}

/// Appends a line to a reflog, unless it is the last one already.
pub(crate) fn append_reflog(log: &Path, line: &str) -> Result<(), GitError> {
    let append = || -> io::Result<()> {
        if ends_with(log, line)? {
            return Ok(());
        }
        fs::create_dir_all(log.parent().unwrap_or(Path::new("/")))?;
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(log)?;
        let line = format!("{line}\n");
        cut_zeros(&mut file, line.len())?;
        file.write_all(line.as_bytes())
    };
    append().map_err(GitError::io("cannot write the reflog", log))
}

/// Takes a line that [`append_reflog`] wrote, or began to write, off the end again.
pub(crate) fn retract_reflog(log: &Path, line: &str) -> Result<(), GitError> {
    let retract = || -> io::Result<()> {
        let mut file = match OpenOptions::new().read(true).write(true).open(log) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let line = format!("{line}\n");
        let size = cut_zeros(&mut file, line.len())?;
        let from = size.saturating_sub(line.len() as u64);
        file.seek(SeekFrom::Start(from))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail)?;
        // The longest beginning of the line that the file ends with, where a line begins.
        let starts = (0..tail.len()).filter(|at| (*at == 0 && from == 0) || (*at > 0 && tail[*at - 1] == b'\n'));
        let whole = (tail.len() == line.len() && tail == line.as_bytes()).then_some(0);
        let cut = whole.into_iter().chain(starts).find(|at| line.as_bytes().starts_with(&tail[*at..]));
        match cut {
            Some(0) if from == 0 => fs::remove_file(log),
            Some(cut) => file.set_len(from + cut as u64),
            None => Ok(()),
        }
    };
    retract().map_err(GitError::io("cannot write the reflog", log))
}

/// Takes zeros off the end, `most` at most: what a power failure leaves of bytes that were appended and
/// not on the disk yet. The size after that.
fn cut_zeros(file: &mut File, most: usize) -> io::Result<u64> {
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(most as u64)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let zeros = tail.iter().rev().take_while(|byte| **byte == 0).count() as u64;
    if zeros > 0 {
        file.set_len(size - zeros)?;
    }
    Ok(size - zeros)
}

fn ends_with(log: &Path, line: &str) -> io::Result<bool> {
    let mut file = match File::open(log) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let size = file.metadata()?.len();
    let line = format!("{line}\n");
    if size < line.len() as u64 {
        return Ok(false);
    }
    file.seek(SeekFrom::Start(size - line.len() as u64))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    Ok(tail == line.as_bytes())
}

/// Writes the content of a ref, synced, to a file that [`install`] puts in its place.
pub(crate) fn prepare(file: &Path, id: Oid) -> Result<(), GitError> {
    let write = || -> io::Result<()> {
        let mut made = File::create(file)?;
        made.write_all(format!("{id}\n").as_bytes())?;
        made.sync_data()
    };
    write().map_err(GitError::io("cannot write", file))
}

/// Moves a prepared ref into place, and syncs that: who calls holds the ref's lock.
pub(crate) fn install(prepared: &Path, target: &Path) -> Result<(), GitError> {
    let above = target.parent().unwrap_or(Path::new("/"));
    let moved = || -> io::Result<()> {
        fs::create_dir_all(above)?;
        match fs::rename(prepared, target) {
            // Empty directories stay where a branch of a longer name was.
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                remove_empty(target)?;
                fs::rename(prepared, target)
            }
            other => other,
        }
    };
    moved().map_err(GitError::io("cannot move", target))
}

fn remove_empty(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_empty(&entry.path())?;
        }
    }
    fs::remove_dir(directory)
}

/// Makes a hidden ref under a name that nobody else uses, on the disk if it is `lasting`. `scratch` is a
/// directory of ours.
pub(crate) fn make_hidden(repo: &Repo, name: &str, id: Oid, lasting: bool, scratch: &Path) -> Result<(), GitError> {
    let prepared = scratch.join("ref-new");
    let target = repo.ref_path(name);
    let above = target.parent().unwrap_or(Path::new("/"));
    let made = || -> io::Result<()> {
        let mut file = File::create(&prepared)?;
        file.write_all(format!("{id}\n").as_bytes())?;
        if lasting {
            file.sync_data()?;
        }
        // `git pack-refs` removes empty directories under our feet.
        for _ in 0..20 {
            fs::create_dir_all(above)?;
            match fs::rename(&prepared, &target) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Ok(()) if lasting => return File::open(above)?.sync_all(),
                other => return other,
            }
        }
        Err(io::ErrorKind::NotFound.into())
    };
    made().map_err(GitError::io("cannot write", &target))
}

/// Removes hidden refs, packed or not. `lock` is that of `packed-refs`, prepared.
pub(crate) fn remove_hidden(repo: &Repo, names: &[String], lock: &GitLock, control: &Control) -> Result<(), GitError> {
    let packed = repo.common_dir().join("packed-refs");
    let there = |name: &&String| repo.ref_path(name).symlink_metadata().is_ok();
    let content = read_packed(&packed)?;
    if !names.iter().any(|name| there(&name) || packs(&content, name)) {
        return Ok(());
    }
    // Whoever packs refs holds this from reading them to the end.
    lock.take(control)?;
    let removed = || -> Result<(), GitError> {
        let content = read_packed(&packed)?;
        if names.iter().any(|name| packs(&content, name)) {
            let rest = without(&content, names);
            let beside = lock.scratch().join("packed-new");
            let write = || -> io::Result<()> {
                let mut file = File::create(&beside)?;
                file.set_permissions(fs::metadata(&packed)?.permissions())?;
                file.write_all(&rest)?;
                file.sync_data()?;
                fs::rename(&beside, &packed)
            };
            write().map_err(GitError::io("cannot write", &packed))?;
        }
        for name in names {
            let file = repo.ref_path(name);
            match fs::remove_file(&file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(GitError::io("cannot remove", &file)(error));
                }
                _ => {}
            }
        }
        Ok(())
    };
    let done = removed();
    done.and(lock.release())
}

fn read_packed(packed: &Path) -> Result<Vec<u8>, GitError> {
    match fs::read(packed) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.map_err(GitError::io("cannot read", packed)),
    }
}

/// The name in a line of `packed-refs`; none for its header and for peeled ids.
fn name_in(line: &[u8]) -> Option<&[u8]> {
    let at = line.iter().position(|b| *b == b' ')?;
    (line[0] != b'#' && line[0] != b'^').then(|| line[at + 1..].trim_ascii_end())
}

fn packs(content: &[u8], name: &str) -> bool {
    content.split(|b| *b == b'\n').any(|line| name_in(line) == Some(name.as_bytes()))
}

fn without(content: &[u8], names: &[String]) -> Vec<u8> {
    let mut rest = Vec::with_capacity(content.len());
    let mut dropped = false;
    for line in content.split_inclusive(|b| *b == b'\n') {
        if line.first() != Some(&b'^') {
            dropped = name_in(line).is_some_and(|found| names.iter().any(|name| name.as_bytes() == found));
        }
        if !dropped {
            rest.extend_from_slice(line);
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_refs_lose_a_name_and_what_it_peels_to() {
        let packed = b"# pack-refs with: peeled\n1 refs/a\n2 refs/b\n^3\n4 refs/bc\n";
        let names = ["refs/b".to_owned()];
        assert!(packs(packed, "refs/b") && !packs(packed, "refs/c"));
        assert_eq!(without(packed, &names), b"# pack-refs with: peeled\n1 refs/a\n4 refs/bc\n");
    }

    #[test]
    fn a_reflog_line_goes_again_whole_or_half() {
        let directory = tempfile::tempdir().expect("a directory");
        let log = directory.path().join("log");
        for before in ["", "1 2 one\n", "1 2 one\n2 3 two\n"] {
            for kept in [0, 1, 5, "2 3 two\n".len()] {
                fs::write(&log, before).expect("written");
                if kept == "2 3 two\n".len() && !before.ends_with("2 3 two\n") {
                    append_reflog(&log, "2 3 two").expect("appended");
                } else {
                    fs::write(&log, format!("{before}{}", &"3 4 three\n"[..kept])).expect("written");
                    retract_reflog(&log, "3 4 three").expect("retracted");
                    assert_eq!(fs::read_to_string(&log).unwrap_or_default(), before, "{kept}");
                    continue;
                }
                retract_reflog(&log, "2 3 two").expect("retracted");
                assert_eq!(fs::read_to_string(&log).unwrap_or_default(), before);
            }
        }
    }
}
