//! From a worktree to a patch: what the command left, commits and new files included, against the base.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::CaptureError;
use super::place::{Names, Worktree};
use crate::control::{Control, Stage};
use crate::diff::diff;
use crate::files::as_path;
use crate::files::remove::open_all;
use crate::git::GitError;
use crate::git::quarantine::Quarantine;
use crate::git::repository::Repo;
use crate::patch::start::Start;
use crate::patch::store::replace;
use crate::snapshot::{Setting, snapshot_midway};

/// Times of files are cut to what the file system keeps.
const COARSE: Duration = Duration::from_millis(20);

/// What came out.
pub(super) struct Extracted {
    pub(super) patch: PathBuf,
    pub(super) files: usize,
    pub(super) ignored: usize,
    pub(super) not_captured: Vec<(PathBuf, &'static str)>,
}

/// Writes the patch. Nothing stops it: whoever asks us to stop wants what was done by then.
pub(super) fn extract(
    repo: &Repo,
    worktree: &mut Worktree,
    names: &Names,
    began: SystemTime,
) -> Result<Extracted, CaptureError> {
    let control = Control::new();
    control.progress().enter(Stage::Snapshot);
    // Modes that keep us out are none that git knows.
    open_all(&worktree.root);
    let own = worktree.reopen(repo)?;
    let start = Start::of(&own, Some(worktree.base))?;
    let quarantine = Quarantine::new(repo)?;
    let taken = snapshot_midway(own.place(), &Setting::of(&own)?, &start.rules(), &quarantine.store(), &control)?;
    let base = quarantine.tree_of(worktree.base)?;
    let patch = diff(&quarantine, &own.git(), base, taken.tree, &control)?;
    let ignored = ignored(&own, began, &control)?;
    let target = names.beside("patch");
    let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    replace(names.directory(), &name, &patch.bytes)?;
    Ok(Extracted {
        patch: target,
        files: patch.files,
        ignored,
        not_captured: taken.not_folded.iter().map(|not| (as_path(&not.path).to_owned(), not.why)).collect(),
    })
}

/// How many ignored files were written since the command began.
fn ignored(repo: &Repo, began: SystemTime, control: &Control) -> Result<usize, GitError> {
    let since = began.duration_since(UNIX_EPOCH).unwrap_or_default().saturating_sub(COARSE);
    let since = (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), i64::from(since.subsec_nanos()));
    let asked = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard"];
    let listed = repo.git().run(asked, None, control)?.success()?;
    let new = |path: &&[u8]| {
        let meta = fs::symlink_metadata(repo.work_dir().join(as_path(path)));
        meta.is_ok_and(|meta| (meta.ctime(), meta.ctime_nsec()) >= since)
    };
    Ok(listed.split(|b| *b == 0).filter(|path| !path.is_empty()).filter(new).count())
}
