//! A small but complete host: `cargo run --release --example host -- REPO SCRATCH ID COMMAND…`.
//!
//! It gives a task its own copy of REPO (a Child in SCRATCH), runs COMMAND there, folds what came of it
//! back into REPO, and takes the Child away. Ctrl-C and a clock of ten minutes stop it cleanly. That is
//! all a host has to do: no copy of REPO is kept around the fold, nothing is restored, no Child is deleted
//! by hand.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a host talks to a person")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use isofold::{
    Control, FoldBackend, FoldOutcome, FoldRequest, IsolateOutcome, IsolateRequest, IsolationBackend, RemoveOutcome,
    Strategy,
};

/// How long one job may take.
const LIMIT: Duration = Duration::from_mins(10);

/// A strategy as a host holds it that has several, by name; another one need not be isofold's.
struct Backends {
    isolation: Box<dyn IsolationBackend>,
    fold: Box<dyn FoldBackend>,
}

fn backends() -> BTreeMap<&'static str, Backends> {
    let strategy = Strategy::new();
    let isofold = Backends { isolation: Box::new(strategy.isolator()), fold: Box::new(strategy.integrator()) };
    BTreeMap::from([("isofold", isofold)])
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [repo, scratch, id, command @ ..] = &arguments[..] else {
        eprintln!("usage: cargo run --release --example host -- REPO SCRATCH ID COMMAND…");
        return ExitCode::from(2);
    };
    match host(Path::new(repo), Path::new(scratch), id, command) {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

fn host(repo: &Path, scratch: &Path, id: &str, command: &[String]) -> Result<String, String> {
    let backends = backends();
    let chosen = &backends["isofold"];
    // A path that depends on where a process stands is refused.
    let parent = repo.canonicalize().map_err(|e| format!("{}: {e}", repo.display()))?;
    let scratch = scratch.canonicalize().map_err(|e| format!("{}: {e}", scratch.display()))?;
    let child = scratch.join(isofold::branch_name_of(id).replace('/', "-"));
    let interrupt = on_signal()?;
    // Each job has a clock of its own, and all share the interrupt.
    let control = || Control::with_clock(LIMIT).with_interrupt_flag(interrupt.clone());

    // What an earlier run left, killed perhaps: its loose work is saved, never lost. That is not for the
    // host to decide with a recursive delete.
    let mut saved = remove(chosen, &child, &control())?;
    match chosen.isolation.isolate(&IsolateRequest::new(id, &parent, &child), &control()) {
        IsolateOutcome::Isolated(_) => {}
        IsolateOutcome::Failed(why) | IsolateOutcome::Interrupted(why) | IsolateOutcome::InvalidInvocation(why) => {
            return Err(why);
        }
    }

    let worked = work(&child, command);
    let landed = worked.and_then(|()| fold(chosen, id, &parent, &child, &control()));
    // On a conflict, or when it was stopped, the Child stays: somebody will want to look, and to fold again.
    let said = landed.map_err(|why| format!("{why} The work is in {}.", child.display()))?;
    saved.extend(remove(chosen, &child, &control())?);
    Ok(saved.iter().fold(said, |said, name| format!("{said}\nsaved: {name}")))
}

fn work(child: &Path, command: &[String]) -> Result<(), String> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let status = Command::new(program).args(arguments).current_dir(child).status();
    let status = status.map_err(|e| format!("{program} can't be started: {e}."))?;
    if status.success() { Ok(()) } else { Err(format!("{program} failed: {status}.")) }
}

fn fold(with: &Backends, id: &str, parent: &Path, child: &PathBuf, control: &Control) -> Result<String, String> {
    let mut request = FoldRequest::new(id, parent, child);
    request.subject = Some(format!("Work on {id}"));
    match with.fold.fold(&request, control) {
        FoldOutcome::Integrated(done) => {
            // What failed after the work had landed is no failure, but somebody should know.
            let warnings = done.notes.warnings.iter().map(|warning| format!("\nwarning: {warning}"));
            Ok(format!("{} files folded into {}{}", done.files.len(), parent.display(), warnings.collect::<String>()))
        }
        FoldOutcome::Conflict { report, .. } => Err(format!("conflict: {report}.")),
        FoldOutcome::Failed(why) | FoldOutcome::Interrupted(why) | FoldOutcome::InvalidInvocation(why) => {
            Err(format!("{}.", why.trim_end_matches('.')))
        }
    }
}

fn remove(with: &Backends, child: &Path, control: &Control) -> Result<Vec<String>, String> {
    match with.isolation.remove(child, true, control) {
        RemoveOutcome::Removed { saved } => Ok(saved),
        RemoveOutcome::AlreadyGone => Ok(Vec::new()),
        RemoveOutcome::Refused(why)
        | RemoveOutcome::Failed(why)
        | RemoveOutcome::Interrupted(why)
        | RemoveOutcome::InvalidInvocation(why) => Err(why),
    }
}

/// The library installs no signal handler; a program does.
fn on_signal() -> Result<Arc<AtomicBool>, String> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, flag.clone()).map_err(|e| format!("signals can't be caught: {e}"))?;
    }
    Ok(flag)
}
