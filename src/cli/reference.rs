//! `isofold reference`.

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use isofold::{Control, Inspection, MaterializeError, Reference};
use serde_json::{Map, Value, json};

use super::args::{ReferenceAction, ReferenceArgs};
use super::progress::watched;
use super::{INVALID, host, output};

/// What is printed: text for people and shells, or one line of JSON.
struct Printer {
    json: bool,
}

impl Printer {
    fn done(&self, text: &str, fields: &Value) -> ExitCode {
        if self.json {
            output::line(&fields.to_string());
        } else {
            output::text(text);
        }
        ExitCode::SUCCESS
    }

    fn refused(&self, kind: &str, why: &str, code: u8) -> ExitCode {
        if self.json {
            output::line(&json!({"kind": kind, "reason": why}).to_string());
        }
        output::error(why, None);
        ExitCode::from(code)
    }
}

pub(crate) fn run(args: ReferenceArgs) -> ExitCode {
    let printer = Printer { json: args.json };
    let invalid = |why: &str| printer.refused("invalid", why, INVALID);
    let reference = match read(&args.reference) {
        Ok(reference) => reference,
        Err(why) => return invalid(&why),
    };
    let copy = args.copy.filter(|copy| !copy.as_os_str().is_empty());
    let limit = match args.duration_ms.as_deref().map(host::duration).transpose() {
        Ok(limit) => limit,
        Err(why) => return invalid(&why),
    };
    match (args.action, copy) {
        (ReferenceAction::Env, _) => env(&printer, &reference),
        (_, None) => invalid("--copy is missing"),
        (ReferenceAction::Inspect, Some(copy)) => inspect(&printer, &reference, &copy),
        (ReferenceAction::Materialize, Some(copy)) => {
            let interrupt = Arc::new(AtomicBool::new(false));
            for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
                if let Err(error) = signal_hook::flag::register(signal, interrupt.clone()) {
                    return invalid(&format!("signals can't be caught: {error}"));
                }
            }
            let control = limit.map_or_else(Control::new, Control::with_clock).with_interrupt_flag(interrupt);
            materialize(&printer, &reference, &copy, &control)
        }
    }
}

fn read(file: &Path) -> Result<Reference, String> {
    if file.as_os_str() != "-" {
        return Reference::from_file(file).map_err(|error| error.to_string());
    }
    let mut text = String::new();
    let read = std::io::stdin().lock().read_to_string(&mut text);
    read.map_err(|error| format!("the reference on stdin can't be read: {error}"))?;
    Reference::from_text(&text).map_err(|error| error.to_string())
}

fn env(printer: &Printer, reference: &Reference) -> ExitCode {
    let all = reference.env();
    let lines: Vec<String> = all.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let text = if lines.is_empty() { String::new() } else { lines.join("\n") + "\n" };
    let env: Map<String, Value> = all.into_iter().map(|(name, value)| (name, value.into())).collect();
    let mut fields = json!({
        "kind": "env",
        "summary": reference.summary(),
        "target": reference.target(),
        "remote": reference.remote(),
        "branch": reference.branch(),
    });
    fields["env"] = env.into();
    printer.done(&text, &fields)
}

fn inspect(printer: &Printer, reference: &Reference, copy: &Path) -> ExitCode {
    match reference.inspect(copy) {
        Ok(Inspection::Missing) => printer.done("missing\n", &json!({"kind": "missing"})),
        Ok(Inspection::Matches) => printer.done("matches\n", &json!({"kind": "matches"})),
        Ok(Inspection::Mismatch(why)) => {
            printer.done(&format!("mismatch: {why}\n"), &json!({"kind": "mismatch", "reason": why}))
        }
        Err(error) => printer.refused("failed", &error.to_string(), 1),
    }
}

fn materialize(printer: &Printer, reference: &Reference, copy: &Path, control: &Control) -> ExitCode {
    match watched(control, || reference.materialize(copy, control)) {
        Ok(made) => printer.done(
            "",
            &json!({
                "kind": "materialized",
                "copy": copy.to_string_lossy(),
                "branch": reference.branch(),
                "head": made.head,
                "elapsed_ms": made.elapsed_ms,
            }),
        ),
        Err(error @ MaterializeError::Stopped(isofold::Stop::Interrupt)) => {
            printer.refused("interrupted", &error.to_string(), 1)
        }
        Err(error) => printer.refused("failed", &error.to_string(), 1),
    }
}
