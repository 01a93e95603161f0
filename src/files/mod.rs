//! Files: filling one directory from another, taking a directory away, and what the file system
//! beneath can do. No path is ever followed through a symbolic link.

pub(crate) mod copy;
pub(crate) mod fill;
pub(crate) mod lock;
pub(crate) mod owner;
pub(crate) mod queue;
pub(crate) mod remove;
mod sweep;
pub(crate) mod walk;
mod xattr;

use std::path::{Path, PathBuf};

use crate::control::Stop;

/// What went wrong with a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilesError {
    #[error("{act} {}: {source}", crate::git::show(path))]
    Io { act: &'static str, path: PathBuf, source: std::io::Error },
    #[error("{} can't be read: permission denied; make it readable, or exclude it in isolationOptions.toml", crate::git::show(.0))]
    Unreadable(PathBuf),
    #[error("{} is still written to by {by}; end that, then remove again", crate::git::show(place))]
    Written { place: PathBuf, by: String },
    #[error(transparent)]
    Stopped(#[from] Stop),
}

impl FilesError {
    pub(crate) fn io(act: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { act, path, source }
    }

    pub(crate) fn stop(&self) -> Option<Stop> {
        match self {
            Self::Stopped(stop) => Some(*stop),
            _ => None,
        }
    }
}

/// `directory/name`, in bytes.
pub(crate) fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(directory.len() + 1 + name.len());
    path.extend_from_slice(directory);
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// Bytes of a relative path as a path.
pub(crate) fn as_path(bytes: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(bytes))
}
