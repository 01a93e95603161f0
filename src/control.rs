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

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

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

    /// Whether the operation has a clock.
    pub fn has_clock(&self) -> bool {
        self.limit.is_some()
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
