//! How long each part of a fold took.

use std::time::Instant;

/// A clock that is read at the end of each phase.
pub(super) struct Phases {
    since: Instant,
    spent: Vec<(&'static str, u64)>,
}

impl Phases {
    pub(super) fn start() -> Self {
        Self { since: Instant::now(), spent: Vec::new() }
    }

    /// What ran since the last call was the phase `name`.
    pub(super) fn end(&mut self, name: &'static str) {
        self.spent.push((name, u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)));
        self.since = Instant::now();
    }

    /// A figure that is part of others.
    pub(super) fn note(&mut self, name: &'static str, milliseconds: u64) {
        self.spent.push((name, milliseconds));
    }

    pub(super) fn spent(self) -> Vec<(&'static str, u64)> {
        self.spent
    }
}
