//! What in a Child leads out of it: writing through it reaches the Parent or another place. It is
//! copied as it is, and named.

use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::files::as_path;
use crate::files::fill::{Filled, to_path};

/// How many are named; all are counted.
const NAMED: usize = 100;
/// How far a script is read for its first line.
const FIRST_LINE: u64 = 512;

/// What of a Child leads out of it.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PointsOutside {
    /// How many paths do.
    pub total: u64,
    /// How many of them lead into the Parent.
    pub into_parent: u64,
    /// The first hundred, by path.
    pub first: Vec<PointsOut>,
}

/// One path that leads out of the Child.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PointsOut {
    /// The link or script, relative to the Child.
    pub path: PathBuf,
    /// What the link says, or the program that the script names.
    pub target: PathBuf,
    /// Whether it leads into the Parent.
    pub into_parent: bool,
}

/// Looks at the links that the fill found to lead out by their text, and at the scripts of Python
/// virtual environments, which name the Parent's interpreter.
pub(super) fn outside(parent: &Path, child: &Path, filled: &Filled) -> PointsOutside {
    let mut found = Vec::new();
    for (path, target) in &filled.leading_out {
        let target = to_path(target);
        let above = as_path(path).parent().unwrap_or(Path::new(""));
        // Through another link `..` may well stay inside.
        let real = |root: &Path| resolved(&root.join(above).join(&target));
        let leads = real(child);
        if target.is_relative() && leads.as_ref().is_some_and(|leads| leads.starts_with(child)) {
            continue;
        }
        if target.starts_with(child) {
            continue;
        }
        let into_parent = leads.unwrap_or_else(|| target.clone()).starts_with(parent);
        found.push(PointsOut { path: to_path(path), target, into_parent });
    }
    for environment in &filled.environments {
        found.extend(scripts(parent, child, as_path(environment)));
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    let count = |found: usize| u64::try_from(found).unwrap_or(u64::MAX);
    let into_parent = count(found.iter().filter(|out| out.into_parent).count());
    let total = count(found.len());
    found.truncate(NAMED);
    PointsOutside { total, into_parent, first: found }
}

/// Where a path leads; where the last parts do not exist, where they would be.
fn resolved(path: &Path) -> Option<PathBuf> {
    if let Ok(real) = fs::canonicalize(path) {
        return Some(real);
    }
    let above = path.parent()?;
    Some(resolved(above)?.join(path.file_name()?))
}

/// The scripts of a virtual environment whose first line names a program in the Parent.
fn scripts(parent: &Path, child: &Path, environment: &Path) -> Vec<PointsOut> {
    let mut found = Vec::new();
    for entry in fs::read_dir(child.join(environment).join("bin")).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let mut start = Vec::new();
        let read = fs::File::open(entry.path()).and_then(|file| file.take(FIRST_LINE).read_to_end(&mut start));
        let Some(line) = read.ok().and_then(|_| start.strip_prefix(b"#!")) else { continue };
        let line = line.split(|b| *b == b'\n').next().unwrap_or_default().trim_ascii();
        let program = to_path(line.split(|b| *b == b' ').next().unwrap_or_default());
        // A path with blanks in it is called through a shell: the line is looked through as a whole.
        let names = program.starts_with(parent) || {
            let start = [parent.as_os_str().as_bytes(), b"/"].concat();
            line.windows(start.len()).any(|window| window == start)
        };
        if names {
            let path = environment.join("bin").join(entry.file_name());
            found.push(PointsOut { path, target: program, into_parent: true });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_exist_resolves_to_where_it_would_be() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().canonicalize().expect("a path");
        assert_eq!(resolved(&root.join("no/such")), Some(root.join("no/such")));
    }
}
