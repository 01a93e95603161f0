//! The clock and the interrupt: one [`Control`] is handed down through every operation.
//!
//! Every loop over files and every wait for a git process asks [`Control::check`]; a stop is an
//! outcome of the operation, never a panic.
//!
//! ```
//! use isofold::control::{Control, Stop};
//! use std::time::Duration;
//!
//! let control = Control::with_clock(Duration::from_secs(60));
//! assert_eq!(control.check(), Ok(()));
//! control.interrupt();
//! assert_eq!(control.check(), Err(Stop::Interrupt));
//! ```

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::environment::{self, Environment};

/// Why an operation was stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// The time given for the operation is used up.
    #[error("the clock fired")]
    Clock,
    /// Somebody asked the operation to stop (a signal, or a host).
    #[error("interrupted")]
    Interrupt,
}

/// How often a wait looks at its control.
pub(crate) const POLL: Duration = Duration::from_millis(5);

/// How long a fold without a clock waits for another fold that holds its Parent.
pub(crate) const DEFAULT_LOCK_WAIT: Duration = Duration::from_mins(10);

/// Clock and interrupt of one operation. Clones share both.
///
/// The default control has no clock and is never interrupted.
#[derive(Debug, Clone)]
pub struct Control {
    interrupted: Arc<AtomicBool>,
    fired: Arc<OnceLock<Stop>>,
    started: Instant,
    limit: Option<Duration>,
    paused_ms: Arc<AtomicU64>,
    progress: Progress,
    environment: Option<Arc<Environment>>,
}

impl Default for Control {
    fn default() -> Self {
        Self::new()
    }
}

impl Control {
    /// A control without a clock.
    pub fn new() -> Self {
        Self {
            interrupted: Arc::new(AtomicBool::new(false)),
            fired: Arc::new(OnceLock::new()),
            started: Instant::now(),
            limit: None,
            paused_ms: Arc::new(AtomicU64::new(0)),
            progress: Progress::default(),
            environment: None,
        }
    }

    /// A control whose clock fires `limit` after now.
    pub fn with_clock(limit: Duration) -> Self {
        Self { limit: Some(limit), ..Self::new() }
    }

    /// The same clock, with `flag` as the interrupt: whoever sets it stops the operation.
    #[must_use]
    pub fn with_interrupt_flag(mut self, flag: Arc<AtomicBool>) -> Self {
        self.interrupted = flag;
        self
    }

    /// The same clock, interrupt and progress; every git of the operation gets `environment`.
    pub(crate) fn with_environment(&self, environment: Arc<Environment>) -> Self {
        Self { environment: Some(environment), ..self.clone() }
    }

    /// What a reference gives to every git of the operation: its own, or what is in force for the
    /// whole process.
    pub(crate) fn environment(&self) -> Option<Arc<Environment>> {
        self.environment.clone().or_else(environment::in_force)
    }

    /// Asks the operation to stop.
    pub fn interrupt(&self) {
        self.interrupted.store(true, Ordering::SeqCst);
    }

    /// Whether somebody asked the operation to stop; the clock is not looked at.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    /// `Err` once the operation has to stop. An interrupt that races the clock wins; the first
    /// answer other than `Ok` stays the answer, but for an interrupt after the clock.
    pub fn check(&self) -> Result<(), Stop> {
        if self.is_interrupted() {
            return Err(Stop::Interrupt);
        }
        if let Some(stop) = self.fired.get() {
            return Err(*stop);
        }
        match self.limit {
            Some(limit) if self.elapsed() >= limit => {
                let _ = self.fired.set(Stop::Clock);
                Err(Stop::Clock)
            }
            _ => Ok(()),
        }
    }

    /// Time since the control was made, without the pauses.
    pub fn elapsed(&self) -> Duration {
        let paused = Duration::from_millis(self.paused_ms.load(Ordering::SeqCst));
        self.started.elapsed().saturating_sub(paused)
    }

    /// Runs `work` without counting its time on the clock.
    pub fn paused<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = Instant::now();
        let result = work();
        let spent = u64::try_from(before.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.paused_ms.fetch_add(spent, Ordering::SeqCst);
        result
    }

    /// A control for one step of the operation: the same interrupt, and a clock of its own.
    pub(crate) fn step(&self, limit: Duration) -> Self {
        let (interrupted, progress) = (self.interrupted.clone(), self.progress.clone());
        Self { interrupted, progress, ..Self::with_clock(limit) }
    }

    /// How far the operation is; a clone of it may be watched from another thread.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Whether the operation has a clock.
    pub fn has_clock(&self) -> bool {
        self.limit.is_some()
    }
}

/// What an operation is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
#[non_exhaustive]
pub enum Stage {
    /// Looking at the repository.
    #[default]
    Preparing,
    /// Bringing the Parent's files into the Child; files and bytes are counted.
    Filling,
    /// Finding out what a directory holds.
    Snapshot,
    /// Merging.
    Combining,
    /// Writing files of the Parent.
    Writing,
    /// Taking files away.
    Removing,
    /// Talking to a remote; [`Progress::said`] is what git says of it.
    Cloning,
}

#[derive(Debug, Default)]
struct Counters {
    stage: AtomicU8,
    files: AtomicU64,
    cloned: AtomicU64,
    copied: AtomicU64,
    said: Mutex<String>,
}

/// How far an operation is: counters that the operation moves and anybody may read. Clones share
/// them.
///
/// ```
/// let control = isofold::Control::new();
/// let watched = control.progress().clone();
/// // … while an operation runs with `control` in another thread:
/// assert_eq!((watched.files(), watched.bytes_cloned(), watched.bytes_copied()), (0, 0, 0));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<Counters>);

impl Progress {
    /// What the operation is at.
    pub fn stage(&self) -> Stage {
        let number = self.0.stage.load(Ordering::Relaxed);
        let all = [Stage::Filling, Stage::Snapshot, Stage::Combining, Stage::Writing, Stage::Removing, Stage::Cloning];
        all.into_iter().find(|stage| *stage as u8 == number).unwrap_or_default()
    }

    /// Files and links filled in so far.
    pub fn files(&self) -> u64 {
        self.0.files.load(Ordering::Relaxed)
    }

    /// Bytes of files that came to share their blocks with the Parent's.
    pub fn bytes_cloned(&self) -> u64 {
        self.0.cloned.load(Ordering::Relaxed)
    }

    /// Bytes that were copied. A file that changed meanwhile and was copied again counts again.
    pub fn bytes_copied(&self) -> u64 {
        self.0.copied.load(Ordering::Relaxed)
    }

    /// The last line of progress of a git that talks to a remote; empty before there is one.
    pub fn said(&self) -> String {
        self.0.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn say(&self, line: &str) {
        line.clone_into(&mut self.0.said.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn enter(&self, stage: Stage) {
        self.0.stage.store(stage as u8, Ordering::Relaxed);
    }

    pub(crate) fn file(&self) {
        self.0.files.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn cloned(&self, bytes: u64) {
        self.0.cloned.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn copied(&self, bytes: u64) {
        self.0.copied.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_fires_and_an_interrupt_wins_over_it() {
        let control = Control::with_clock(Duration::ZERO);
        assert_eq!(control.check(), Err(Stop::Clock));
        control.interrupt();
        assert_eq!(control.check(), Err(Stop::Interrupt));
    }

    #[test]
    fn pauses_do_not_count() {
        let control = Control::with_clock(Duration::from_millis(400));
        control.paused(|| std::thread::sleep(Duration::from_millis(500)));
        assert_eq!(control.check(), Ok(()));
    }

    #[test]
    fn clones_share_the_interrupt() {
        let control = Control::new();
        control.clone().interrupt();
        assert_eq!(control.check(), Err(Stop::Interrupt));
    }
}
