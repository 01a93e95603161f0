//! A queue of tasks for a few workers, where tasks bring more tasks.

use std::sync::{Condvar, Mutex, PoisonError};

/// More bring nothing (docs/measurements.md).
const WORKERS: usize = 2;

struct State<T, E> {
    tasks: Vec<T>,
    busy: usize,
    error: Option<E>,
}

/// The queue as a worker sees it.
pub(crate) struct Queue<T, E> {
    state: Mutex<State<T, E>>,
    wake: Condvar,
}

impl<T: Send, E: Send> Queue<T, E> {
    /// Works through `first` and all that comes of it, the newest task first. Each worker has a
    /// result of its own. The first error ends the work.
    pub(crate) fn run<R: Default + Send>(
        first: Vec<T>,
        each: impl Fn(&Self, T, &mut R) -> Result<(), E> + Sync,
    ) -> Result<Vec<R>, E> {
        let queue = Self { state: Mutex::new(State { tasks: first, busy: 0, error: None }), wake: Condvar::new() };
        let results = std::thread::scope(|scope| {
            let work = || {
                let mut result = R::default();
                while let Some(task) = queue.next() {
                    let done = each(&queue, task, &mut result);
                    queue.done(done);
                }
                result
            };
            let others: Vec<_> = (1..WORKERS).map(|_| scope.spawn(work)).collect();
            let mut results = vec![work()];
            results.extend(others.into_iter().map(|worker| worker.join().expect("a worker does not panic")));
            results
        });
        let state = queue.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.error.map_or(Ok(results), Err)
    }

    /// Adds tasks.
    pub(crate) fn push(&self, tasks: impl IntoIterator<Item = T>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.error.is_none() {
            state.tasks.extend(tasks);
            self.wake.notify_all();
        }
    }

    /// The next task; `None` when all is done or lost.
    fn next(&self) -> Option<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(task) = state.tasks.pop() {
                state.busy += 1;
                return Some(task);
            }
            if state.busy == 0 {
                return None;
            }
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, result: Result<(), E>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.busy -= 1;
        if let Err(error) = result {
            state.error.get_or_insert(error);
        }
        if state.error.is_some() {
            state.tasks.clear();
        }
        if state.busy == 0 && state.tasks.is_empty() {
            self.wake.notify_all();
        }
    }
}
