//! Named places where a test can have the program killed. They exist only in builds with debug
//! assertions, so a release never has them.

/// Every named place, in the order in which a landing passes them.
pub(crate) const POINTS: [&str; 29] = [
    "room-made",
    "locks-prepared",
    "journal-init",
    "index-locked",
    "head-locked",
    "branch-locked",
    "stage-recorded",
    "stage-room",
    "staged",
    "objects-durable",
    "keep-ref",
    "kept-alive",
    "staged-synced",
    "apply-recorded",
    "deleted",
    "directory-removed",
    "directory-made",
    "added",
    "replaced",
    "swapped",
    "index-written",
    "reflog-written",
    "synced",
    "ref-moved",
    "index-moved",
    "base-recorded",
    "done-recorded",
    "refs-removed",
    "unlocked",
];

/// The places that only a recovery passes, or that it passes in its own way.
pub(crate) const RECOVERY_POINTS: [&str; 9] = [
    "judged",
    "undo-step",
    "undone",
    "index-moved",
    "redo-step",
    "base-recorded",
    "done-recorded",
    "refs-removed",
    "unlocked",
];

/// Kills this process here if `ISOFOLD_CRASH_AT` says so: `NAME`, or `NAME:N` for the N-th time.
#[cfg(debug_assertions)]
pub(crate) fn point(name: &str) {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    let Ok(wanted) = std::env::var("ISOFOLD_CRASH_AT") else { return };
    let (at, count) = wanted.split_once(':').unwrap_or((&wanted, "1"));
    if at == name && SEEN.fetch_add(1, Ordering::SeqCst) + 1 == count.parse().unwrap_or(1) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

#[cfg(not(debug_assertions))]
pub(crate) fn point(_name: &str) {}

/// Whether a test wants a file system without `RENAME_EXCHANGE`.
#[cfg(debug_assertions)]
pub(crate) fn without_exchange() -> bool {
    std::env::var_os("ISOFOLD_NO_EXCHANGE").is_some()
}

#[cfg(not(debug_assertions))]
pub(crate) fn without_exchange() -> bool {
    false
}
