//! Whether a directory is a repository of its own, as git decides it (setup.c).

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::Access;

use super::Oid;

/// The largest `.git` file that git reads.
const GIT_FILE_LIMIT: u64 = 1 << 20;
/// What git reads of a HEAD.
const HEAD_LIMIT: u64 = 255;

/// Whether `directory` is the root of a work tree of its own, with commits or without.
pub(crate) fn is_repository(directory: &Path) -> bool {
    let git = directory.join(".git");
    let Ok(meta) = fs::metadata(&git) else { return false };
    if !meta.is_file() {
        return meta.is_dir() && is_git_directory(&git);
    }
    if meta.len() > GIT_FILE_LIMIT {
        return false;
    }
    // A file that can't be read may well lead to a repository: git takes it for one.
    let Ok(text) = fs::read(&git) else { return true };
    let Some(target) = text.strip_prefix(b"gitdir: ") else { return false };
    let target = without_line_ends(target);
    !target.is_empty() && is_git_directory(&directory.join(to_path(target)))
}

/// Whether a submodule is checked out at `directory` and its `.git` leads nowhere: git can't tell what
/// it holds, and fails.
pub(crate) fn leads_nowhere(directory: &Path) -> bool {
    fs::symlink_metadata(directory.join(".git")).is_ok() && !is_repository(directory)
}

/// The commit that the repository at `directory` has checked out; `None` without one, or where git has to
/// say what is wrong.
pub(crate) fn head_of(directory: &Path) -> Option<Oid> {
    let flags = git2::RepositoryOpenFlags::NO_SEARCH;
    let repository = git2::Repository::open_ext(directory, flags, &[] as &[&Path]).ok()?;
    repository.refname_to_id("HEAD").ok()
}

fn is_git_directory(directory: &Path) -> bool {
    let common = match fs::read(directory.join("commondir")) {
        Ok(text) => directory.join(to_path(without_line_ends(&text))),
        Err(_) => directory.to_owned(),
    };
    let enters = |path: PathBuf| rustix::fs::access(path, Access::EXEC_OK).is_ok();
    names_a_commit(&directory.join("HEAD")) && enters(common.join("objects")) && enters(common.join("refs"))
}

/// Whether a HEAD is one, by its form.
fn names_a_commit(head: &Path) -> bool {
    let Ok(meta) = fs::symlink_metadata(head) else { return false };
    if meta.is_symlink() {
        return fs::read_link(head).is_ok_and(|target| target.as_os_str().as_bytes().starts_with(b"refs/"));
    }
    // A FIFO would never answer.
    if !meta.is_file() {
        return false;
    }
    let mut text = Vec::new();
    if fs::File::open(head).and_then(|file| file.take(HEAD_LIMIT).read_to_end(&mut text)).is_err() {
        return false;
    }
    if let Some(name) = text.strip_prefix(b"ref:") {
        let blank = name.iter().take_while(|b| b" \t\n\r".contains(b)).count();
        if name[blank..].starts_with(b"refs/") {
            return true;
        }
    }
    text.len() >= 40 && text[..40].iter().all(u8::is_ascii_hexdigit)
}

fn without_line_ends(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|b| !b"\r\n".contains(b)).map_or(0, |at| at + 1);
    &text[..end]
}

fn to_path(bytes: &[u8]) -> PathBuf {
    OsString::from_vec(bytes.to_vec()).into()
}
