//! `isofold recover`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use isofold::{RecoverOutcome, Recovery, Settled, recover};
use serde_json::{Value, json};

use super::args::RecoverArgs;
use super::host::paths;
use super::prune::named;
use super::{INTERRUPTED, INVALID, output, signals};

pub(crate) fn run(args: RecoverArgs) -> ExitCode {
    let parent = args.parent.unwrap_or_else(|| PathBuf::from("."));
    let control = match signals::control() {
        Ok(control) => control,
        Err(why) => return ended("failed", &why, 1),
    };
    match recover(&parent, &control) {
        RecoverOutcome::Recovered(recovery) => {
            output::line(&line(&recovery).to_string());
            output::tell(&words(&recovery));
            ExitCode::SUCCESS
        }
        RecoverOutcome::Failed(report) => ended("failed", &report, 1),
        RecoverOutcome::Interrupted(report) => ended("interrupted", &report, INTERRUPTED),
        RecoverOutcome::InvalidInvocation(report) => refuse(&report),
    }
}

/// The line of an invocation that nobody can carry out.
pub(crate) fn refuse(why: &str) -> ExitCode {
    ended("invalid-invocation", why, INVALID)
}

fn ended(outcome: &str, report: &str, code: u8) -> ExitCode {
    output::tell(&format!("error: {report}"));
    output::line(&json!({"outcome": outcome, "report": report}).to_string());
    ExitCode::from(code)
}

fn line(recovery: &Recovery) -> Value {
    let settled = recovery.settled.map(|settled| match settled {
        Settled::Cleared => "cleared",
        Settled::Finished => "finished",
        Settled::TakenBack => "taken-back",
    });
    let recovered = recovery.recovered.iter().map(|one| {
        let (kind, what) = named(one);
        json!({"kind": kind, "what": what})
    });
    let nothing = settled.is_none() && recovery.recovered.is_empty();
    json!({
        "outcome": if nothing { "nothing" } else { "recovered" },
        "parent": recovery.parent.to_string_lossy(),
        "fold": settled,
        "saved": recovery.saved,
        "kept": paths(&recovery.kept),
        "recovered": recovered.collect::<Vec<Value>>(),
        "warnings": recovery.warnings,
    })
}

fn words(recovery: &Recovery) -> String {
    let parent = recovery.parent.display();
    let mut text = match recovery.settled {
        None => format!("Nothing was cut off in {parent}."),
        Some(Settled::Cleared) => format!("A fold into {parent} was cut off before it changed anything."),
        Some(Settled::Finished) => format!("A fold into {parent} was cut off after it had landed; it is finished now."),
        Some(Settled::TakenBack) => format!("A fold into {parent} was cut off; everything is what it was before."),
    };
    for path in &recovery.kept {
        let _ = write!(text, "\n{} was changed since, and keeps that.", path.display());
    }
    for name in &recovery.saved {
        let _ = write!(text, "\nWhat had no place any more is kept: git show {name}");
    }
    for warning in &recovery.warnings {
        let _ = write!(text, "\nwarning: {warning}");
    }
    text
}
