//! `isofold remove`.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use isofold::{Control, IsolationBackend, RemoveOutcome, Strategy};
use serde_json::{Value, json};

use super::args::RemoveArgs;
use super::progress::watched;
use super::{INTERRUPTED, INVALID, output};

pub(crate) fn run(args: RemoveArgs) -> ExitCode {
    let Some(child) = args.child.filter(|path| !path.as_os_str().is_empty()) else {
        return refuse("--child is missing");
    };
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        if let Err(error) = signal_hook::flag::register(signal, interrupt.clone()) {
            return refuse(&format!("signals can't be caught: {error}"));
        }
    }
    let control = Control::new().with_interrupt_flag(interrupt);
    let place = child.to_string_lossy().into_owned();
    let removed = watched(&control, || Strategy::new().isolator().remove(&child, args.force, &control));
    let (outcome, line, code) = match removed {
        RemoveOutcome::Removed { saved } => ("removed", json!({"child": place, "saved": saved}), 0),
        RemoveOutcome::AlreadyGone => ("already-gone", json!({"child": place, "saved": []}), 0),
        RemoveOutcome::Refused(report) => ("refused", json!({"report": report}), 1),
        RemoveOutcome::Failed(report) => ("failed", json!({"report": report}), 1),
        RemoveOutcome::Interrupted(report) => ("interrupted", json!({"report": report}), INTERRUPTED),
        RemoveOutcome::InvalidInvocation(report) => return refuse(&report),
    };
    say(outcome, line);
    ExitCode::from(code)
}

/// The line of an invocation that nobody can carry out.
pub(crate) fn refuse(why: &str) -> ExitCode {
    say("invalid-invocation", json!({"report": why}));
    ExitCode::from(INVALID)
}

fn say(outcome: &str, fields: Value) {
    let mut object = serde_json::Map::new();
    object.insert("outcome".to_owned(), outcome.into());
    if let Value::Object(fields) = fields {
        if let Some(Value::String(report)) = fields.get("report") {
            output::tell(&format!("error: {report}"));
        }
        object.extend(fields);
    }
    output::line(&Value::Object(object).to_string());
}
