//! Taking a directory away: links are never followed, read-only directories inside are opened up.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{FilesError, as_path};

/// How often a directory that fills up again while it is being emptied is tried.
const TRIES: u32 = 3;
const BETWEEN_TRIES: Duration = Duration::from_millis(30);

/// Removes `directory` and all below it; one that is gone already is fine.
pub(crate) fn remove_tree(directory: &Path) -> Result<(), FilesError> {
    let mut opened = false;
    let mut tries = 0;
    loop {
        match fs::remove_dir_all(directory) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !exists(directory) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !opened => {
                open_up(directory);
                opened = true;
            }
            // Something was put there, or taken away, behind us.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotFound)
                    && tries < TRIES =>
            {
                tries += 1;
                std::thread::sleep(BETWEEN_TRIES);
            }
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                return Err(FilesError::Written { place: directory.to_owned(), by: at_work_in(directory) });
            }
            Err(error) => return Err(FilesError::io("cannot remove", directory)(error)),
        }
    }
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Removes a work tree's directory, `.git` last: until then it says what it is, and a removal that was
/// cut off can be resumed.
pub(crate) fn remove_worktree(directory: &Path) -> Result<(), FilesError> {
    empty_worktree(directory)?;
    remove_tree(directory)
}

/// Everything but `.git`.
pub(crate) fn empty_worktree(directory: &Path) -> Result<(), FilesError> {
    open_directory(directory);
    super::sweep::sweep(directory, c".git");
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(FilesError::io("cannot read", directory)(error)),
    };
    for entry in entries {
        let entry = entry.map_err(FilesError::io("cannot read", directory))?;
        let path = entry.path();
        if entry.file_name() == ".git" {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_tree(&path)?;
            continue;
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(FilesError::io("cannot remove", &path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Files and links below `directory`, other than its own `.git`, that were written after `since`
/// (seconds and nanoseconds), relative to it.
pub(crate) fn newer_than(directory: &Path, since: (i64, i64)) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in walkdir::WalkDir::new(directory).min_depth(1).into_iter().filter_map(Result::ok) {
        let Ok(meta) = entry.metadata() else { continue };
        let inside = entry.path().strip_prefix(directory).unwrap_or(entry.path());
        if meta.is_dir() || inside == Path::new(".git") {
            continue;
        }
        let changed = (meta.ctime(), meta.ctime_nsec());
        // Taking one of several names away is a change of the file, too; of the last one left it can't be
        // told from being moved here, and counts.
        if (meta.mtime(), meta.mtime_nsec()) > since || (meta.nlink() == 1 && changed > since) {
            found.push(inside.to_owned());
        }
    }
    found
}

/// Processes whose working directory is at or below `directory` or that have a file open there, as far
/// as the system tells.
fn at_work_in(directory: &Path) -> String {
    let inside = |link: PathBuf| fs::read_link(link).is_ok_and(|at| at.starts_with(directory));
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(pid) = process.file_name().to_string_lossy().parse::<u32>() else { continue };
        let place = process.path();
        let files = || fs::read_dir(place.join("fd")).into_iter().flatten().flatten();
        if pid != std::process::id() && (inside(place.join("cwd")) || files().any(|file| inside(file.path()))) {
            let name = fs::read_to_string(place.join("comm")).unwrap_or_default();
            found.push(format!("{pid} {}", crate::git::one_line(&name)));
        }
    }
    match found.as_slice() {
        [] => "a process".to_owned(),
        [one] => format!("process {one}"),
        all => format!("processes {}", all.join(", ")),
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

/// Lets the owner into every directory below `directory`, and read every regular file.
pub(crate) fn open_all(directory: &Path) {
    open_up(directory);
    open_files(directory);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_at_work_in_a_directory_is_named() {
        let place = tempfile::tempdir().expect("a directory");
        let place = place.path().canonicalize().expect("a path");
        assert_eq!(at_work_in(&place), "a process");
        let mut sleeper = std::process::Command::new("sleep").arg("60").current_dir(&place).spawn().expect("it starts");
        let expected = format!("process {} sleep", sleeper.id());
        // Until it is another program than this one.
        for _ in 0..200 {
            if at_work_in(&place) == expected {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let found = at_work_in(&place);
        sleeper.kill().expect("ended");
        sleeper.wait().expect("an end");
        assert_eq!(found, expected);
        let error = FilesError::Written { place: place.clone(), by: found };
        assert!(error.to_string().contains("still written to by process"), "{error}");
    }

    #[test]
    fn what_was_written_or_moved_here_since_is_found() {
        let place = tempfile::tempdir().expect("a directory");
        let file = |name: &str| fs::write(place.path().join(name), "x").expect("written");
        file("old");
        file("twin");
        fs::hard_link(place.path().join("twin"), place.path().join("other")).expect("linked");
        std::thread::sleep(Duration::from_millis(20));
        file("mark");
        let mark = fs::metadata(place.path().join("mark")).expect("a stat");
        std::thread::sleep(Duration::from_millis(20));
        // This looks as if it had been moved here.
        fs::remove_file(place.path().join("other")).expect("it was there");
        fs::create_dir(place.path().join("directory")).expect("made");
        file("directory/new");
        let mut newer = newer_than(place.path(), (mark.mtime(), mark.mtime_nsec()));
        newer.sort();
        assert_eq!(newer, [Path::new("directory/new"), Path::new("twin")]);
    }
}
