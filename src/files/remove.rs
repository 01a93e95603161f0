//! Taking a directory away: links are never followed, read-only directories inside are opened up.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{FilesError, as_path};

/// Removes `directory` and all below it; one that is gone already is fine.
pub(crate) fn remove_tree(directory: &Path) -> Result<(), FilesError> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(directory);
            match fs::remove_dir_all(directory) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(FilesError::io("cannot remove", directory)(error))
                }
                _ => Ok(()),
            }
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(FilesError::io("cannot remove", directory)(error)),
        _ => Ok(()),
    }
}

/// A place at or below `directory` where something is mounted: taking the directory away would empty
/// what belongs to others. Only Linux tells.
pub(crate) fn mounted_below(directory: &Path) -> Option<PathBuf> {
    let table = fs::read("/proc/self/mountinfo").ok()?;
    let places = table.split(|b| *b == b'\n').filter_map(|line| line.split(|b| *b == b' ').nth(4));
    places.map(|place| as_path(&unescape(place)).to_owned()).find(|place| place.starts_with(directory))
}

/// Space, tab, newline and backslash are octal in the table of mounts.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..3).filter(|_| first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            plain.push(byte);
            rest = &after[3..];
        } else {
            plain.push(first);
            rest = after;
        }
    }
    plain
}

/// Lets the owner read every regular file below `directory`, so that it can be saved before it goes.
pub(crate) fn open_files(directory: &Path) {
    for entry in walkdir::WalkDir::new(directory).into_iter().filter_map(Result::ok) {
        let Some(mode) = entry.metadata().ok().filter(fs::Metadata::is_file).map(|meta| meta.permissions().mode())
        else {
            continue;
        };
        if mode & 0o400 == 0 {
            let _ = fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode | 0o400));
        }
    }
}

/// Gives the owner every right on `directory` and the directories below. What can't be changed is
/// left to the removal to report.
fn open_up(directory: &Path) {
    if !open_directory(directory) {
        return;
    }
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

/// Gives the owner every right on one directory; whether it is one.
pub(crate) fn open_directory(directory: &Path) -> bool {
    let Ok(meta) = fs::symlink_metadata(directory) else { return false };
    let mode = meta.permissions().mode();
    if meta.is_dir() && mode & 0o700 != 0o700 {
        let _ = fs::set_permissions(directory, fs::Permissions::from_mode(mode | 0o700));
    }
    meta.is_dir()
}
