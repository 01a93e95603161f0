//! Land: an agent's patch into the working files of the main checkout, after git said that it applies.

use std::path::PathBuf;

use super::apply::Apply;
use super::store::{Agent, Store};
use super::three_way::{Merge, Merged};
use super::working::{Checkout, Content};
use super::{Landing, PatchError, STEP};
use crate::control::Control;
use crate::files::as_path;
use crate::files::lock::{Hold, lock};
use crate::git::quarantine::Quarantine;
use crate::git::repository::Repo;
use crate::git::{GitError, show};

pub(super) fn land(
    repo: &Repo,
    store: &Store,
    agent: &Agent,
    three_way: bool,
    control: &Control,
) -> Result<Landing, PatchError> {
    let root = repo.main_root()?.ok_or_else(|| {
        PatchError::Failed("this is a bare repository: it has no main checkout to land in".to_owned())
    })?;
    let main = Repo::open(&root)?;
    let held = lock(main.git_dir(), Hold::Exclusive, Some(STEP), control)?;
    let _held = held.ok_or_else(|| {
        PatchError::Failed(format!("another isofold holds {} and did not finish in time", show(&root)))
    })?;
    // A landing that was cut off.
    crate::write::recover::recover(&main)?;
    let slot = store.find(agent, Hold::Shared, control)?;
    let patch = slot.patch()?.unwrap_or_default();
    if patch.is_empty() {
        return Ok(Landing::Nothing);
    }
    let quarantine = Quarantine::new(&main)?;
    let checkout = Checkout { repo: &main, quarantine: &quarantine, control };
    let apply = Apply { repo: &main, patch: &patch, control };
    let merge = Merge { checkout: &checkout, agent, base: slot.base()?, patch: &patch };
    if three_way {
        return merge.land();
    }
    let (forward, backward) = (apply.check(false)?, apply.check(true)?);
    match (forward, backward) {
        (Err(_), Ok(())) => Ok(Landing::Nothing),
        (Err(words), Err(_)) => {
            // Landed before, and edited since.
            if merge.changes_nothing()? { Ok(Landing::Nothing) } else { Err(PatchError::DoesNotApply(words)) }
        }
        // Where lines repeat, or only a mode changes, git can't tell by the patch alone.
        (Ok(()), Ok(())) if merge.changes_nothing()? => Ok(Landing::Nothing),
        (Ok(()), _) => plainly(&checkout, &apply),
    }
}

/// Has git apply the patch beside the checkout, and brings what came out into it.
fn plainly(checkout: &Checkout<'_>, apply: &Apply<'_>) -> Result<Landing, PatchError> {
    let store = checkout.quarantine.store();
    let outcome = {
        let room = tempfile::Builder::new().prefix("land-").tempdir_in(store.root());
        let room = room.map_err(GitError::io("cannot write to", store.root()))?;
        apply.outcome(room.path())?
    };
    let mut landed = checkout.write(&outcome)?;
    let pointers =
        outcome.iter().filter(|(_, (before, after))| *before == Content::Directory || *after == Content::Directory);
    landed.submodules = pointers.map(|(path, _)| as_path(path).to_owned()).collect::<Vec<PathBuf>>();
    Ok(Landing::Landed(landed))
}

impl Merge<'_> {
    fn land(&self) -> Result<Landing, PatchError> {
        match self.merge()? {
            Merged::Nothing => Ok(Landing::Nothing),
            Merged::Clean(landed) => Ok(Landing::Landed(landed)),
            Merged::Conflicts(landed, conflicts) => Ok(Landing::Conflicts { landed, conflicts }),
        }
    }
}
