//! Keeping what a merge of git's names from a gc: git does not write what it finds in the repository,
//! and a gc may be about to drop that.

use std::collections::{HashMap, HashSet};

use git2::Repository;

use super::loose;
use super::quarantine::{Quarantine, Store};
use super::tree::{Listing, Named, Trees};
use super::{Act, GitError, Oid};
use crate::control::Control;

/// Trees that something names, and what they name in turn, as far as they were read.
pub(crate) struct Known {
    /// All that is below these is named too.
    ids: HashSet<Oid>,
    sides: [Oid; 2],
}

impl Store {
    /// What the trees `sides` name where both differ from `base` and from each other: all that has to be
    /// known where each directory of a merge is changed in place. It takes a while, but no git: best
    /// done while the merge is running.
    pub(crate) fn known(&self, base: Option<Oid>, sides: [Oid; 2], control: &Control) -> Result<Known, GitError> {
        let mut known = Known { ids: HashSet::from(sides), sides };
        let repository = Repository::open_bare(self.root()).act(|| "cannot open the object quarantine".to_owned())?;
        known.read(&Trees::of(&repository)?, base, sides, control)?;
        Ok(known)
    }
}

impl Known {
    fn read(
        &mut self,
        trees: &Trees<'_>,
        base: Option<Oid>,
        sides: [Oid; 2],
        control: &Control,
    ) -> Result<(), GitError> {
        control.check()?;
        let [base, one, two] = [trees.read(base)?, trees.read(Some(sides[0]))?, trees.read(Some(sides[1]))?];
        let [base, one, two] = [base.named()?, one.named()?, two.named()?];
        self.ids.extend(one.iter().chain(&two).map(|named| named.id));
        let (base, two) = (directories(&base), directories(&two));
        for named in one.iter().filter(|named| named.is_tree) {
            let (before, Some(other)) = (base.get(named.name).copied(), two.get(named.name).copied()) else { continue };
            if named.id != other && before != Some(named.id) && before != Some(other) {
                self.read(trees, before, [named.id, other], control)?;
            }
        }
        Ok(())
    }
}

impl Quarantine {
    /// Brings along what a tree of git's holds beyond what is known to be named.
    pub(crate) fn hold(&self, tree: Oid, known: Known, control: &Control) -> Result<(), GitError> {
        let sides = known.sides;
        let (store, trees) = (self.store(), Trees::of(self.repository()?)?);
        let (elsewhere, blobs) = (Vec::new(), Vec::new());
        let mut walk = Walk { store: &store, trees: &trees, ids: known.ids, elsewhere, blobs, control };
        if !walk.ids.contains(&tree) {
            walk.tree(tree, &sides)?;
        }
        // All of them are found first: what is read and written in turns has to be sealed each time.
        let out = store.open();
        walk.elsewhere.iter().try_for_each(|content| out.write_made_tree(content).map(drop))?;
        walk.blobs.into_iter().try_for_each(|id| out.hold(id, |id| store.has_loose(id)))
    }
}

/// Looks for what no known tree names.
struct Walk<'a> {
    store: &'a Store,
    trees: &'a Trees<'a>,
    ids: HashSet<Oid>,
    /// Trees that the quarantine does not have, as they are stored.
    elsewhere: Vec<Vec<u8>>,
    blobs: Vec<Oid>,
    control: &'a Control,
}

impl Walk<'_> {
    /// A tree that is not known, with the known ones in its place.
    fn tree(&mut self, id: Oid, known: &[Oid]) -> Result<(), GitError> {
        self.control.check()?;
        let listing = if let Some(content) = loose::read(&self.store.loose(id))? {
            Listing::read(id, content)
        } else {
            let listing = self.trees.read(Some(id))?;
            self.elsewhere.push(listing.bytes().to_vec());
            listing
        };
        let mut unknown = listing.named()?;
        unknown.retain(|named| !self.ids.contains(&named.id));
        if unknown.is_empty() {
            return Ok(());
        }
        let known = known.iter().map(|id| self.trees.read(Some(*id))).collect::<Result<Vec<_>, _>>()?;
        let mut in_place = Vec::new();
        for listing in &known {
            let named = listing.named()?;
            self.ids.extend(named.iter().map(|named| named.id));
            in_place.push(directories(&named));
        }
        for named in unknown {
            if self.ids.contains(&named.id) {
                continue;
            }
            if named.is_tree {
                let known: Vec<Oid> = in_place.iter().filter_map(|known| known.get(named.name).copied()).collect();
                self.tree(named.id, &known)?;
            } else {
                self.blobs.push(named.id);
            }
        }
        Ok(())
    }
}

fn directories<'a>(named: &[Named<'a>]) -> HashMap<&'a [u8], Oid> {
    named.iter().filter(|named| named.is_tree).map(|named| (named.name, named.id)).collect()
}
