//! Tasks for a few workers, where tasks bring more tasks.
//!
//! A worker keeps what its tasks bring and works through it, the newest first; it gives away the
//! older half only when another worker has nothing to do. So they hardly ever meet.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// More bring nothing (docs/measurements.md).
pub(crate) const WORKERS: usize = 2;

/// One worker where the processors of the machine are taken already: a second thread brings little then,
/// and costs what the two wait for each other.
pub(crate) fn workers() -> usize {
    let read = |path| fs::read_to_string(path).ok();
    let running = read("/proc/loadavg").and_then(|text| running(&text));
    // Of the whole machine like the load, whatever part of it is ours.
    let processors = read("/sys/devices/system/cpu/online").and_then(|text| listed(&text));
    // This process is one of those that run.
    if running.zip(processors).is_some_and(|(running, processors)| running > processors) { 1 } else { WORKERS }
}

/// How many threads run or could run now: the fourth field of `proc_loadavg(5)`, before the slash.
fn running(loadavg: &str) -> Option<usize> {
    loadavg.split(' ').nth(3)?.split('/').next()?.parse().ok()
}

/// How many numbers a list like `0-3,6` names.
fn listed(numbers: &str) -> Option<usize> {
    let one = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        (last + 1).checked_sub(first)
    };
    numbers.trim().split(',').map(one).sum()
}

struct State<T, E> {
    /// Tasks that were given away.
    spare: Vec<T>,
    busy: usize,
    error: Option<E>,
}

struct Shared<T, E> {
    state: Mutex<State<T, E>>,
    wake: Condvar,
    /// Workers that wait for a task.
    idle: AtomicUsize,
    /// An error ended the work.
    over: AtomicUsize,
}

/// Works through `first` and all that comes of it, with so many workers: `each` returns the tasks that its task brings. Each
/// worker has a result of its own. The first error ends the work.
pub(crate) fn work<T: Send, R: Default + Send, E: Send>(
    first: Vec<T>,
    workers: usize,
    each: impl Fn(T, &mut R) -> Result<Vec<T>, E> + Sync,
) -> Result<Vec<R>, E> {
    let shared = Shared {
        state: Mutex::new(State { spare: first, busy: 0, error: None }),
        wake: Condvar::new(),
        idle: AtomicUsize::new(0),
        over: AtomicUsize::new(0),
    };
    let results = std::thread::scope(|scope| {
        let worker = || {
            let mut result = R::default();
            while let Some(mut own) = shared.take() {
                while let Some(task) = own.pop() {
                    match each(task, &mut result) {
                        Ok(brought) => own.extend(brought),
                        Err(error) => shared.fail(error),
                    }
                    if shared.over.load(Ordering::Relaxed) > 0 {
                        own.clear();
                    } else if own.len() > 1 && shared.idle.load(Ordering::Relaxed) > 0 {
                        shared.give(&mut own);
                    }
                }
                shared.done();
            }
            result
        };
        let others: Vec<_> = (1..workers).map(|_| scope.spawn(worker)).collect();
        let mut results = vec![worker()];
        results.extend(others.into_iter().map(|other| other.join().expect("a worker does not panic")));
        results
    });
    let state = shared.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    state.error.map_or(Ok(results), Err)
}

impl<T, E> Shared<T, E> {
    fn lock(&self) -> MutexGuard<'_, State<T, E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Half of what is spare, at least one; `None` when all is done or lost.
    fn take(&self) -> Option<Vec<T>> {
        let mut state = self.lock();
        loop {
            if !state.spare.is_empty() {
                state.busy += 1;
                let keep = state.spare.len() / 2;
                return Some(state.spare.split_off(keep));
            }
            if state.busy == 0 {
                return None;
            }
            self.idle.fetch_add(1, Ordering::Relaxed);
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            self.idle.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Gives away the older half.
    fn give(&self, own: &mut Vec<T>) {
        let half = own.len().div_ceil(2);
        let mut state = self.lock();
        state.spare.extend(own.drain(..half));
        self.wake.notify_one();
    }

    fn fail(&self, error: E) {
        let mut state = self.lock();
        state.error.get_or_insert(error);
        state.spare.clear();
        self.over.store(1, Ordering::Relaxed);
    }

    fn done(&self) {
        let mut state = self.lock();
        state.busy -= 1;
        if state.busy == 0 && state.spare.is_empty() {
            self.wake.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_is_done_once_and_brings_its_own() {
        // Each number brings two smaller ones: 2^11 - 1 in all.
        let sums = work(vec![10_u32], WORKERS, |n, sum: &mut u64| {
            *sum += 1;
            Ok::<_, ()>(if n == 0 { Vec::new() } else { vec![n - 1, n - 1] })
        });
        assert_eq!(sums.map(|sums| sums.into_iter().sum::<u64>()), Ok((1 << 11) - 1));
    }

    #[test]
    fn the_load_of_the_machine_is_read() {
        assert_eq!(running("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(running("0.20 0.18"), None);
        assert_eq!(listed("0-3,6\n"), Some(5));
        assert_eq!(listed("0"), Some(1));
        assert_eq!(listed("3-1"), None);
        assert_eq!(listed(""), None);
        assert!((1..=WORKERS).contains(&workers()));
    }

    #[test]
    fn the_first_error_ends_the_work() {
        let result =
            work((0..10_000).collect(), WORKERS, |n, (): &mut ()| if n == 5_000 { Err(n) } else { Ok(Vec::new()) });
        assert_eq!(result, Err(5_000));
    }
}
