//! `git apply`, asked and carried out beside the checkout: it judges the working files, but it writes
//! only into a directory of ours.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::working::Content;
use super::{PatchError, STEP};
use crate::control::Control;
use crate::diff::APPLY;
use crate::files::{FilesError, as_path};
use crate::git::program::Finished;
use crate::git::repository::Repo;
use crate::git::{GitError, one_line};

/// A patch and the checkout that it is for.
pub(super) struct Apply<'a> {
    pub(super) repo: &'a Repo,
    pub(super) patch: &'a [u8],
    pub(super) control: &'a Control,
}

impl Apply<'_> {
    fn run(&self, git: &crate::git::program::Git, how: &[&str]) -> Result<Finished, GitError> {
        let args = APPLY.into_iter().chain(how.iter().copied()).chain(["-"]);
        git.run(args, Some(self.patch.to_vec()), &self.control.step(STEP))
    }

    /// Whether the working files take the patch, or with `reverse` have it already; else git's words.
    pub(super) fn check(&self, reverse: bool) -> Result<Result<(), String>, GitError> {
        let how: &[&str] = if reverse { &["--check", "--reverse"] } else { &["--check"] };
        let finished = self.run(&self.repo.git(), how)?;
        Ok(if finished.code == Some(0) { Ok(()) } else { Err(words(&finished)) })
    }

    /// Every path that the patch is about, old names included.
    pub(super) fn touched(&self) -> Result<BTreeSet<Vec<u8>>, GitError> {
        let mut paths = BTreeSet::new();
        for direction in [&["--numstat", "-z"][..], &["--numstat", "-z", "--reverse"]] {
            let listed = self.run(&self.repo.git(), direction)?.success()?;
            let lines = listed.split(|b| *b == 0).filter(|line| !line.is_empty());
            // `ADDED<tab>DELETED<tab>PATH`
            paths.extend(lines.filter_map(|line| line.splitn(3, |b| *b == b'\t').nth(2)).map(<[u8]>::to_vec));
        }
        Ok(paths)
    }

    /// What stands at each path now, and what the patch makes of it.
    pub(super) fn outcome(&self, room: &Path) -> Result<BTreeMap<Vec<u8>, (Content, Content)>, PatchError> {
        let checkout = self.repo.work_dir();
        let tree = room.join("tree");
        std::fs::create_dir(&tree).map_err(FilesError::io("cannot make", &tree))?;
        let touched = self.touched()?;
        let mut before = BTreeMap::new();
        for path in &touched {
            let content = Content::of(checkout, path)?;
            content.put(&tree, path)?;
            before.insert(path.clone(), content);
        }
        for path in attributes_above(&touched) {
            if !touched.contains(&path) {
                let content = Content::of(checkout, &path)?;
                if matches!(content, Content::File { .. }) {
                    content.put(&tree, &path)?;
                }
            }
        }
        let git = crate::git::program::Git::new(self.repo.git_dir(), &tree);
        let finished = self.run(&git, &[])?;
        if finished.code != Some(0) {
            return Err(PatchError::DoesNotApply(words(&finished)));
        }
        let mut outcome = BTreeMap::new();
        for (path, before) in before {
            let after = Content::of(&tree, &path)?;
            outcome.insert(path, (before, after));
        }
        Ok(outcome)
    }
}

/// The attributes files that say how the content of these paths is converted.
fn attributes_above(paths: &BTreeSet<Vec<u8>>) -> BTreeSet<Vec<u8>> {
    use std::os::unix::ffi::OsStrExt;
    let directories = paths.iter().flat_map(|path| as_path(path).ancestors().skip(1));
    directories.map(|directory| directory.join(".gitattributes").as_os_str().as_bytes().to_vec()).collect()
}

/// What git says, a line each.
fn words(finished: &Finished) -> String {
    let text = String::from_utf8_lossy(&finished.stderr);
    let lines: Vec<String> = text.lines().map(one_line).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { finished.failure().to_string() } else { lines.join("\n") }
}
