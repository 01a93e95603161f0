//! The checks of an invocation that touch the file system, in the order of the contract.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::git::show;

/// Parent and Child with links resolved.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    pub(crate) parent: PathBuf,
    pub(crate) child: PathBuf,
}

/// Checks the two directories of an isolation: the Parent exists, the Child does not and can.
pub(crate) fn for_isolate(parent: &Path, child: &Path) -> Result<Places, String> {
    absolute(parent, "parent")?;
    absolute(child, "child")?;
    let real_parent = existing_directory(parent, "Parent")?;
    if fs::symlink_metadata(child).is_ok() {
        return Err(format!("the Child {} exists already; name a path that does not", show(child)));
    }
    let child = resolved(child)?;
    distinct(&real_parent, &child)?;
    Ok(Places { parent: real_parent, child })
}

/// Checks the two directories of a fold: both exist.
pub(crate) fn for_fold(parent: &Path, child: &Path) -> Result<Places, String> {
    absolute(parent, "parent")?;
    absolute(child, "child")?;
    let parent = existing_directory(parent, "Parent")?;
    let child = existing_directory(child, "Child")?;
    distinct(&parent, &child)?;
    Ok(Places { parent, child })
}

pub(crate) fn absolute(path: &Path, flag: &str) -> Result<(), String> {
    if path.is_absolute() {
        Ok(())
    } else {
        Err(format!("--{flag} {} is a relative path; an absolute one is needed", show(path)))
    }
}

fn existing_directory(path: &Path, what: &str) -> Result<PathBuf, String> {
    let meta = fs::metadata(path);
    match meta {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return Err(format!("the {what} {} is not a directory", show(path))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(format!("the {what} {} does not exist", show(path)));
        }
        Err(error) => return Err(format!("the {what} {} can't be read: {error}", show(path))),
    }
    fs::canonicalize(path).map_err(|error| format!("the {what} {} can't be read: {error}", show(path)))
}

/// The place that a path which does not exist yet would have.
fn resolved(path: &Path) -> Result<PathBuf, String> {
    let mut at = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::ParentDir => {
                at.pop();
            }
            Component::Normal(name) => {
                at.push(name);
                match fs::canonicalize(&at) {
                    Ok(real) if real.is_dir() => at = real,
                    Ok(_) => {
                        return Err(format!(
                            "{} is not a directory; the Child {} can't be made below it",
                            show(&at),
                            show(path)
                        ));
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                        // A directory that somebody made since is none.
                        if fs::symlink_metadata(&at).is_ok_and(|meta| meta.is_symlink()) {
                            return Err(format!(
                                "{} is a link that leads nowhere; the Child {} can't be made below it",
                                show(&at),
                                show(path)
                            ));
                        }
                    }
                    Err(error) => return Err(format!("{} can't be read: {error}", show(&at))),
                }
            }
            _ => {}
        }
    }
    Ok(at)
}

fn distinct(parent: &Path, child: &Path) -> Result<(), String> {
    if parent == child {
        return Err(format!("Parent and Child are the same place: {}", show(parent)));
    }
    if child.starts_with(parent) {
        return Err(format!("the Child {} lies inside the Parent {}", show(child), show(parent)));
    }
    if parent.starts_with(child) {
        return Err(format!("the Parent {} lies inside the Child {}", show(parent), show(child)));
    }
    Ok(())
}
