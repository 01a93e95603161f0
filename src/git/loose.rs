//! Loose objects: one deflated file each (gitformat-loose(5), gitrepository-layout(5)).

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::pack::Kind;
use super::{GitError, Oid};
use crate::control::Control;

/// What is read is mostly small: a bigger buffer costs more than it saves.
pub(super) const BUFFER: usize = 32 * 1024;

/// Where the loose object `id` of a store is.
pub(super) fn place(objects: &Path, id: Oid) -> PathBuf {
    let name = id.to_string();
    objects.join(&name[..2]).join(&name[2..])
}

pub(super) fn damaged(file: &Path) -> GitError {
    GitError::Format { what: format!("the damaged object {}", super::show(file)) }
}

/// The kind, size and content of a loose object; `None` if there is none.
pub(super) fn open(file: &Path) -> Result<Option<(Kind, u64, impl Read + use<>)>, GitError> {
    let opened = match File::open(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(GitError::io("cannot read", file))?,
    };
    let mut content = flate2::bufread::ZlibDecoder::new(io::BufReader::with_capacity(BUFFER, opened));
    let mut header = Vec::new();
    loop {
        let mut byte = [0];
        content.read_exact(&mut byte).map_err(GitError::io("cannot read", file))?;
        if byte[0] == 0 {
            break;
        }
        header.push(byte[0]);
        if header.len() > 32 {
            return Err(damaged(file));
        }
    }
    let words = header.iter().position(|b| *b == b' ').map(|space| (&header[..space], &header[space + 1..]));
    let size = |size| std::str::from_utf8(size).ok()?.parse().ok();
    let found = words.and_then(|(kind, length)| Some((Kind::of(kind)?, size(length)?)));
    found.map(|(kind, size)| Some((kind, size, content))).ok_or_else(|| damaged(file))
}

/// The content of the loose object in `file`; `None` if there is none.
pub(super) fn read(file: &Path) -> Result<Option<Vec<u8>>, GitError> {
    let Some((_, size, mut content)) = open(file)? else { return Ok(None) };
    let mut bytes = Vec::new();
    content.read_to_end(&mut bytes).map_err(GitError::io("cannot read", file))?;
    if bytes.len() as u64 == size { Ok(Some(bytes)) } else { Err(damaged(file)) }
}

/// Writes the content of the loose object in `file` to `out`; `false` if there is none.
pub(super) fn copy_out(file: &Path, out: &mut dyn Write, path: &Path, control: &Control) -> Result<bool, GitError> {
    let Some((_, size, mut content)) = open(file)? else { return Ok(false) };
    let copied = copy(&mut content, file, out, path, control)?;
    if copied == size { Ok(true) } else { Err(damaged(file)) }
}

/// Copies piece by piece; how much.
pub(super) fn copy(
    from: &mut dyn Read,
    source: &Path,
    out: &mut dyn Write,
    path: &Path,
    control: &Control,
) -> Result<u64, GitError> {
    let (mut piece, mut copied) = (vec![0; BUFFER], 0);
    loop {
        control.check()?;
        let length = from.read(&mut piece).map_err(GitError::io("cannot read", source))?;
        if length == 0 {
            return Ok(copied);
        }
        out.write_all(&piece[..length]).map_err(GitError::io("cannot write", path))?;
        copied += length as u64;
    }
}
