//! The trees that an index knows of its directories: its TREE extension (gitformat-index(5)).

use super::Oid;

const HASH: usize = 20;

/// One directory of the extension.
#[derive(Debug)]
pub(crate) struct CacheTree<'a> {
    name: &'a [u8],
    /// How many entries its tree covers, and the tree; none where that is not known.
    tree: Option<(usize, Oid)>,
    below: Vec<CacheTree<'a>>,
}

impl<'a> CacheTree<'a> {
    /// Reads the body of the extension; `None` for one that is damaged.
    pub(super) fn parse(body: &'a [u8]) -> Option<Self> {
        let mut rest = body;
        Self::directory(&mut rest, 0)
    }

    fn directory(rest: &mut &'a [u8], depth: usize) -> Option<Self> {
        // Deeper than any path can be.
        if depth > 4096 {
            return None;
        }
        let name = take_until(rest, 0)?;
        let line = std::str::from_utf8(take_until(rest, b'\n')?).ok()?;
        let (count, subtrees) = line.split_once(' ')?;
        let count: i64 = count.parse().ok()?;
        let tree = match usize::try_from(count) {
            Ok(count) => {
                let id = Oid::from_bytes(rest.get(..HASH)?).ok()?;
                *rest = &rest[HASH..];
                Some((count, id))
            }
            Err(_) => None,
        };
        let subtrees: usize = subtrees.parse().ok()?;
        let mut below = Vec::new();
        for _ in 0..subtrees {
            below.push(Self::directory(rest, depth + 1)?);
        }
        Some(Self { name, tree, below })
    }

    /// The tree, if it is known and covers as many entries as there are.
    pub(super) fn covering(&self, entries: usize) -> Option<Oid> {
        self.tree.filter(|(count, _)| *count == entries).map(|(_, id)| id)
    }

    /// The directory `name` in this one.
    pub(super) fn below(&self, name: &[u8]) -> Option<&Self> {
        // In git's order: shorter names first.
        let order = |other: &Self| (other.name.len(), other.name).cmp(&(name.len(), name));
        let found = self.below.binary_search_by(order).ok();
        found.map(|at| &self.below[at]).or_else(|| self.below.iter().find(|other| other.name == name))
    }
}

fn take_until<'a>(rest: &mut &'a [u8], end: u8) -> Option<&'a [u8]> {
    let at = rest.iter().position(|b| *b == end)?;
    let taken = &rest[..at];
    *rest = &rest[at + 1..];
    Some(taken)
}
