//! What isofold remembers, in small versioned TOML files: the record of a Child in its
//! administrative directory, base entries and sessions in the common git directory.

mod base;
mod child;
mod session;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

pub(crate) use base::{
    BaseEntry, all as all_bases, bases_directory, bases_of, forget, forget_bases_of, forget_oldest, put, random_name,
};
pub(crate) use child::{ChildRecord, Made, Omitted, State};
pub(crate) use session::SessionRecord;

use crate::files::owner::Owner;
use crate::git::{GitError, show};

/// What the names of files that are being written start with; the tag of their owner follows.
pub(crate) const TEMPORARY: &str = ".isofold-";

/// The version of both kinds of file.
const VERSION: u32 = 1;

/// A path as text: bytes that are not UTF-8, `%` and control characters as `%XX`.
pub(crate) fn encode_path(path: &[u8]) -> String {
    let mut text = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '%' || c.is_ascii_control() {
                let _ = write!(text, "%{:02X}", c as u32);
            } else {
                text.push(c);
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// The bytes of [`encode_path`].
pub(crate) fn decode_path(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut path = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 3).and_then(|d| std::str::from_utf8(d).ok());
        if let Some(byte) = digits.and_then(|d| u8::from_str_radix(d, 16).ok()).filter(|_| bytes[at] == b'%') {
            path.push(byte);
            at += 3;
        } else {
            path.push(bytes[at]);
            at += 1;
        }
    }
    path
}

fn path_text(path: &Path) -> String {
    encode_path(path.as_os_str().as_bytes())
}

fn text_path(text: &str) -> PathBuf {
    PathBuf::from(OsString::from_vec(decode_path(text)))
}

/// When a record has to be on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durable {
    /// When it is written: what it tells of is on the disk as well.
    Now,
    /// When the system gets to it, as with the files it tells of (a Child's are not synced either). On a
    /// journalling file system a sync right after a fill waits for all the files that were made.
    Later,
}

/// What is no longer than this is on the disk as a whole or not at all.
const BLOCK: usize = 4096;

/// Replaces a file by new text: all old or all new. After a power cut one that was to be durable later
/// may be empty, and [`read`] passes over it.
fn write_atomic(path: &Path, text: &str, durable: Durable) -> Result<(), GitError> {
    use std::io::Write;
    let parent = path.parent().unwrap_or(Path::new("."));
    let written = || -> std::io::Result<()> {
        std::fs::create_dir_all(parent)?;
        let prefix = format!("{TEMPORARY}{}-", Owner::this().tag());
        let mut file = tempfile::Builder::new().prefix(&prefix).tempfile_in(parent)?;
        file.write_all(text.as_bytes())?;
        if durable == Durable::Now || text.len() > BLOCK {
            file.as_file().sync_data()?;
        }
        file.persist(path)?;
        Ok(())
    };
    // Whoever forgets the last record of a directory takes the directory along.
    let mut outcome = written();
    for _ in 0..100 {
        match &outcome {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => outcome = written(),
            _ => break,
        }
    }
    outcome.map_err(GitError::io("cannot write", path))
}

/// The names of the records in a directory, without their extension; temporary files are passed over.
fn names_in(directory: &Path) -> Result<Vec<String>, GitError> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(GitError::io("cannot read", directory)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(GitError::io("cannot read", directory))?.file_name();
        let name = name.to_str().and_then(|name| name.strip_suffix(".toml")).filter(|name| !name.starts_with('.'));
        names.extend(name.map(str::to_owned));
    }
    Ok(names)
}

/// Reads a record; `None` where there is no such file, or a power cut left it empty.
fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, GitError> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(GitError::io("cannot read", path)(error)),
    };
    if text.is_empty() {
        return Ok(None);
    }
    let unreadable =
        |why: &str| GitError::Format { what: format!("the record {} ({})", show(path), crate::git::one_line(why)) };
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| unreadable(e.message()))?;
    match table.get("version").and_then(toml::Value::as_integer) {
        Some(version) if version == i64::from(VERSION) => {}
        Some(version) => return Err(unreadable(&format!("version {version}, made by a newer isofold"))),
        None => return Err(unreadable("it has no version")),
    }
    table.try_into().map(Some).map_err(|e: toml::de::Error| unreadable(e.message()))
}

fn oid(text: &str) -> Result<crate::git::Oid, GitError> {
    crate::git::Oid::from_str(text).map_err(|_| GitError::Format { what: format!("the id {text:?} in a record") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_power_cut_left_empty_is_no_record_and_what_is_damaged_is_an_error() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("record.toml");
        std::fs::write(&file, "").expect("written");
        assert!(read::<toml::Table>(&file).expect("readable").is_none());
        std::fs::write(&file, "version = 1\nside = \"/a").expect("written");
        assert!(read::<toml::Table>(&file).is_err());
        write_atomic(&file, "version = 1\n", Durable::Later).expect("written");
        assert!(read::<toml::Table>(&file).expect("readable").is_some());
    }

    #[test]
    fn paths_survive_as_text() {
        for path in [&b"plain/a b"[..], b"100%", b"%41", b"new\nline", b"\xff\xfe/x", "é".as_bytes()] {
            assert_eq!(decode_path(&encode_path(path)), path);
        }
    }
}
