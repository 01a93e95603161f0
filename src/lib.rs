//! isofold isolates work in a git worktree and folds it back.
//!
//! A **Child** is a worktree of the **Parent**'s repository, filled with the Parent's files as they
//! are on the disk (modified, untracked, ignored) without its secrets; **fold** is the three-way
//! merge of the Child back into the Parent. Nothing that was on disk or in history is lost: where a
//! step can't keep that promise it refuses before it touches anything.
//!
//! ```
//! # use std::process::Command;
//! # let dir = tempfile::tempdir().unwrap();
//! # let parent = dir.path().canonicalize().unwrap().join("parent");
//! # let child = dir.path().canonicalize().unwrap().join("child");
//! # std::fs::create_dir(&parent).unwrap();
//! # let git = |args: &[&str]| {
//! #     let mut git = Command::new("git");
//! #     assert!(git.arg("-C").arg(&parent).args(args).status().unwrap().success());
//! # };
//! # git(&["init", "-q", "-b", "main"]);
//! # git(&["config", "user.name", "An Example"]);
//! # git(&["config", "user.email", "an@example.test"]);
//! # std::fs::write(parent.join("notes"), "one\n").unwrap();
//! # git(&["add", "-A"]);
//! # git(&["commit", "-qm", "start"]);
//! use isofold::{Control, FoldBackend, FoldOutcome, FoldRequest};
//! use isofold::{IsolateOutcome, IsolateRequest, IsolationBackend, Strategy};
//!
//! let strategy = Strategy::new();
//! let control = Control::new();
//!
//! // Uncommitted work travels into the Child, secrets do not.
//! std::fs::write(parent.join("notes"), "one\ntwo\n")?;
//! std::fs::write(parent.join(".env"), "TOKEN=secret\n")?;
//! let request = IsolateRequest::new("github:owner/repo#9", &parent, &child);
//! let IsolateOutcome::Isolated(isolation) = strategy.isolator().isolate(&request, &control) else {
//!     panic!("not isolated");
//! };
//! assert_eq!(isolation.branch.as_deref(), Some("issue/9"));
//! assert!(!child.join(".env").exists());
//!
//! // Somebody works there, and the work comes back as a commit.
//! std::fs::write(child.join("notes"), "one\ntwo\nthree\n")?;
//! let request = FoldRequest::new("github:owner/repo#9", &parent, &child);
//! let FoldOutcome::Integrated(integration) = strategy.integrator().fold(&request, &control) else {
//!     panic!("not folded");
//! };
//! assert_eq!(std::fs::read_to_string(parent.join("notes"))?, "one\ntwo\nthree\n");
//! assert_eq!(integration.files.len(), 1);
//! # Ok::<(), std::io::Error>(())
//! ```

mod branch_name;
mod capture;
mod combine;
pub mod control;
mod diff;
mod environment;
mod files;
mod fold;
mod git;
mod invocation;
mod isolate;
pub mod options;
mod patch;
mod prune;
mod records;
mod recover;
mod reference;
pub mod saved;
pub mod session;
mod snapshot;
mod strategy;
#[doc(hidden)]
pub mod testing;
#[doc(hidden)]
pub mod testing_combine;
mod write;

pub use branch_name::branch_name_of;
pub use capture::{
    CaptureCommand, CaptureOutcome, CaptureRequest, Captured, CommandResult, Output as CommandOutput, Survivor, Tee,
    capture,
};
pub use combine::{Conflict, MergeEngine};
pub use control::{Control, Progress, Stage, Stop};
pub use fold::update::UpdateRequest;
pub use fold::{FoldNotes, FoldOutcome, FoldRequest, Integration, Landing};
pub use isolate::outside::{PointsOut, PointsOutside};
pub use isolate::recover::Recovered;
pub use isolate::remove::RemoveOutcome;
pub use isolate::{IsolateOutcome, IsolateRequest, Isolation};
pub use options::{IsolationOptions, OptionsError};
pub use patch::{LandConflict, Landed, Landing as PatchLanding, Listed, PatchError, Patches, Recorded};
pub use prune::{PruneOutcome, PruneRequest, Pruned, prune};
pub use recover::{RecoverOutcome, Recovery, Settled, recover};
pub use reference::{InspectError, Inspection, MaterializeError, Materialized, Reference, ReferenceError};
pub use strategy::{FoldBackend, Integrator, IsolationBackend, Isolator, Strategy};
