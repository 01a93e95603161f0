//! The journal of a landing: what was done so far, synced before the next step is taken.
//!
//! One line a record, `<16 hex digits of its SHA-256> <JSON>`. Records are only ever appended, so a
//! line that was cut off by a crash is the last one, and what it announces was never begun. A line
//! that is whole and wrong is damage: then nothing is touched.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::files::owner::Owner;
use crate::git::GitError;

/// The version that this build writes and reads.
pub(crate) const VERSION: u32 = 1;

/// What a record says.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Record {
    /// Before git's locks are taken.
    Init(Init),
    /// Before new files are written: the rooms they are written to.
    Stage { rooms: Vec<String> },
    /// Before the first file of the directory is touched.
    Apply(Box<Apply>),
    /// The commit point of a landing that moves no ref.
    Committed,
    /// All is as it has to be, new or old; only locks and rooms are left.
    Done,
}

/// Who lands what, and the locks of git that it takes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Init {
    pub(crate) version: u32,
    pub(crate) id: String,
    pub(crate) owner: Owner,
    /// Seconds since 1970.
    pub(crate) time: u64,
    /// The directory that is written to.
    pub(crate) root: String,
    pub(crate) locks: Vec<LockRecord>,
}

/// A lock of git: its path, and the inode of the file that becomes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LockRecord {
    pub(crate) path: String,
    pub(crate) inode: u64,
}

/// Everything that a recovery has to know.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Apply {
    /// The ref that the commit point moves; none: the commit point is [`Record::Committed`].
    pub(crate) moves: Option<Move>,
    /// The branch that HEAD is on, none where it is detached.
    pub(crate) branch: Option<String>,
    /// Whether a new index goes with it.
    pub(crate) index: bool,
    pub(crate) steps: Vec<StepRecord>,
    /// Directories that are made, outermost first.
    pub(crate) made: Vec<String>,
    /// Directories that may go, outermost first.
    pub(crate) emptied: Vec<DirectoryRecord>,
    /// The base entry that follows, as its file's text.
    pub(crate) base: Option<BaseRecord>,
    /// Refs made in repositories of submodules: git directory, name.
    pub(crate) carried: Vec<(String, String)>,
}

/// A ref and where it goes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Move {
    /// A full name, or `HEAD` where that is detached.
    pub(crate) name: String,
    pub(crate) old: Option<String>,
    pub(crate) new: String,
    /// The line of the reflogs, without the newline.
    pub(crate) reflog: String,
    /// The reflogs that get it.
    pub(crate) logs: Vec<String>,
}

/// What happens to one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Deed {
    Add,
    Replace,
    Delete,
}

/// One file. Names of rooms are relative to them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StepRecord {
    pub(crate) deed: Deed,
    pub(crate) path: String,
    /// Which room holds its files.
    pub(crate) room: usize,
    /// The new file, its inode and the id of its bytes.
    pub(crate) new: Option<(String, u64, String)>,
    /// Where the old file goes unless it changes places with the new one, and the id of its bytes.
    pub(crate) old: Option<(String, String)>,
}

/// A directory with what is needed to make it again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DirectoryRecord {
    pub(crate) path: String,
    pub(crate) mode: u32,
    pub(crate) accessed: (i64, i64),
    pub(crate) modified: (i64, i64),
}

/// A base entry: the commit that its ref names, and the text of its file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BaseRecord {
    pub(crate) commit: String,
    pub(crate) text: String,
}

/// A journal that is being written.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Starts one; the caller syncs the directory.
    pub(crate) fn start(path: &Path) -> Result<Self, GitError> {
        let file = OpenOptions::new().append(true).create_new(true).open(path);
        let file = file.map_err(GitError::io("cannot write the journal", path))?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Goes on with one that was read: after its last whole record.
    pub(crate) fn resume(path: &Path) -> Result<Self, GitError> {
        let resumed = || -> io::Result<File> {
            let bytes = std::fs::read(path)?;
            let mut whole = 0;
            for line in bytes.split_inclusive(|b| *b == b'\n') {
                if parse(line.strip_suffix(b"\n").unwrap_or(line)).is_err() {
                    break;
                }
                whole += line.len();
            }
            let mut file = OpenOptions::new().append(true).open(path)?;
            file.set_len(whole as u64)?;
            if !bytes[..whole].ends_with(b"\n") {
                file.write_all(b"\n")?;
            }
            Ok(file)
        };
        let file = resumed().map_err(GitError::io("cannot write the journal", path))?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Appends a record and syncs it.
    pub(crate) fn write(&mut self, record: &Record) -> Result<(), GitError> {
        let cannot = |error| GitError::io("cannot write the journal", &self.path)(error);
        let json = serde_json::to_string(record).map_err(|e| cannot(e.into()))?;
        let line = format!("{} {json}\n", sum(&json));
        // One call: what a crash leaves of it is a beginning of it.
        (&self.file).write_all(line.as_bytes()).and_then(|()| self.file.sync_data()).map_err(cannot)
    }
}

/// What a journal says.
#[derive(Debug)]
pub(crate) enum Read {
    /// There is none, or its first record was never finished.
    Nothing,
    Records(Vec<Record>),
    /// It is damaged, or of another version: why.
    Unreadable(String),
}

/// Reads a journal.
pub(crate) fn read(path: &Path) -> Result<Read, GitError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Read::Nothing),
        Err(error) => return Err(GitError::io("cannot read the journal", path)(error)),
    };
    let mut records = Vec::new();
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let end = rest.iter().position(|b| *b == b'\n');
        let line = &rest[..end.unwrap_or(rest.len())];
        rest = end.map_or(&[][..], |end| &rest[end + 1..]);
        match parse(line) {
            Ok(record) => records.push(record),
            // A file that grew before its bytes were on the disk reads as zeros.
            Err(_) if end.is_none() || line.contains(&0) => {
                if rest.iter().any(|b| *b != 0 && *b != b'\n') {
                    return Ok(Read::Unreadable("a record is damaged".to_owned()));
                }
                break;
            }
            Err(why) => return Ok(Read::Unreadable(why)),
        }
    }
    Ok(match records.first() {
        None => Read::Nothing,
        Some(Record::Init(init)) if init.version == VERSION => Read::Records(records),
        Some(Record::Init(init)) => Read::Unreadable(format!("it is of version {}", init.version)),
        Some(_) => Read::Unreadable("it does not start at the beginning".to_owned()),
    })
}

fn parse(line: &[u8]) -> Result<Record, String> {
    let text = std::str::from_utf8(line).map_err(|_| "a record is no text".to_owned())?;
    let (said, json) = text.split_once(' ').ok_or("a record is damaged")?;
    if said != sum(json) {
        return Err("a record is damaged".to_owned());
    }
    // A newer version may have records that this one can't read; its first one says so.
    let version = serde_json::from_str::<serde_json::Value>(json).ok();
    let version = version.as_ref().and_then(|v| v.get("init")?.get("version")?.as_u64());
    match version {
        Some(other) if other != u64::from(VERSION) => Err(format!("it is of version {other}, made by another isofold")),
        _ => serde_json::from_str(json).map_err(|error| format!("a record can't be read ({error})")),
    }
}

fn sum(json: &str) -> String {
    Sha256::digest(json)[..8].iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn init(version: u32) -> Record {
        let (id, root) = ("0123".to_owned(), "/p".to_owned());
        Record::Init(Init { version, id, owner: Owner::this(), time: 1, root, locks: Vec::new() })
    }

    fn written(records: &[Record]) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("journal");
        let mut journal = Journal::start(&path).expect("a journal");
        for record in records {
            journal.write(record).expect("written");
        }
        (directory, path)
    }

    #[test]
    fn a_journal_that_was_cut_off_says_what_came_before() {
        let (_directory, path) = written(&[init(VERSION), Record::Stage { rooms: Vec::new() }, Record::Done]);
        let whole = std::fs::read(&path).expect("readable");
        let ends: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
        for cut in 0..=whole.len() {
            let expected = ends.iter().filter(|end| **end < cut).count();
            for zeros in [0, 3] {
                let mut bytes = whole[..cut].to_vec();
                bytes.resize(cut + zeros, 0);
                std::fs::write(&path, &bytes).expect("written");
                // A record without its newline is whole, but that is as good as cut off before it.
                match read(&path).expect("no error") {
                    Read::Nothing => assert_eq!(expected, 0),
                    Read::Records(records) => assert!(records.len() == expected || records.len() == expected + 1),
                    Read::Unreadable(why) => panic!("{cut}: {why}"),
                }
            }
        }
    }

    #[test]
    fn a_damaged_or_newer_journal_is_told_apart() {
        let (_directory, path) = written(&[init(VERSION), Record::Done]);
        let whole = std::fs::read(&path).expect("readable");
        for at in [0, 5, 20, 40] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, &bytes).expect("written");
            assert!(matches!(read(&path), Ok(Read::Unreadable(_))), "byte {at}");
        }
        let (_directory, path) = written(&[init(VERSION + 1)]);
        assert!(matches!(read(&path), Ok(Read::Unreadable(why)) if why.contains("version 2")));
    }
}
