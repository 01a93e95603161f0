//! `isofold capture`.

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use isofold::{CaptureCommand, CaptureOutcome, CaptureRequest, Captured, CommandOutput, CommandResult, Control};
use serde_json::{Map, Value, json};

use super::args::CaptureArgs;
use super::progress::watched;
use super::{INTERRUPTED, INVALID, output, signals};

pub(crate) fn run(args: CaptureArgs) -> ExitCode {
    let tee = args.tee;
    let request = match request(args) {
        Ok(request) => request,
        Err((check, why)) => return refuse(check, &why),
    };
    let control = match signals::control() {
        Ok(control) => control,
        Err(why) => return failed(&why),
    };
    let mut show = |piece: &[u8]| {
        // A terminal that went away is no failure of the command.
        let _ = std::io::stderr().lock().write_all(piece);
    };
    let outcome = if tee { isofold::capture(&request, Some(&mut show), &control) } else { quietly(&request, &control) };
    match outcome {
        CaptureOutcome::Captured(captured) => {
            say("captured", fields(&captured));
            ExitCode::SUCCESS
        }
        CaptureOutcome::Interrupted(captured) => {
            let all = captured.map_or_else(
                || vec![("report", "The capture was interrupted before the command ran.".into())],
                |captured| fields(&captured),
            );
            say("interrupted", all);
            ExitCode::from(INTERRUPTED)
        }
        CaptureOutcome::ExtractionFailed { worktree, result, report } => {
            let mut all = vec![("worktree", worktree.to_string_lossy().into())];
            all.extend(result_fields(&result));
            all.push(("report", report.into()));
            say("extraction-failed", all);
            ExitCode::from(1)
        }
        CaptureOutcome::Failed(report) => failed(&report),
        CaptureOutcome::InvalidInvocation { check, report } => refuse(check, &report),
    }
}

fn quietly(request: &CaptureRequest, control: &Control) -> CaptureOutcome {
    watched(control, || isofold::capture(request, None, control))
}

fn request(args: CaptureArgs) -> Result<CaptureRequest, (&'static str, String)> {
    let command = match (args.command, args.argv) {
        (Some(_), words) if !words.is_empty() => {
            return Err(("command", "--command and a command after -- were given; one is enough".to_owned()));
        }
        (Some(text), _) => CaptureCommand::Shell(text),
        (None, words) => CaptureCommand::Argv(words),
    };
    let timeout = args.timeout.as_deref().map(seconds).transpose().map_err(|why| ("timeout", why))?;
    Ok(CaptureRequest {
        directory: args.repo_path.unwrap_or_else(|| PathBuf::from(".")),
        base_ref: args.base_ref,
        from_dirty: args.from_dirty,
        command,
        stdin: args.stdin,
        timeout,
        output: args.output,
    })
}

fn seconds(text: &OsStr) -> Result<Duration, String> {
    let parsed = text.to_str().and_then(|text| text.parse::<f64>().ok()).filter(|seconds| *seconds > 0.0);
    parsed
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| format!("--timeout must be a positive number of seconds, not {:?}", text.to_string_lossy()))
}

/// The line of an invocation that nobody can carry out.
pub(crate) fn refuse(check: &str, why: &str) -> ExitCode {
    say("invalid-invocation", vec![("check", check.into()), ("report", why.into())]);
    ExitCode::from(INVALID)
}

fn failed(report: &str) -> ExitCode {
    say("failed", vec![("report", report.into())]);
    ExitCode::from(1)
}

fn say(outcome: &str, fields: Vec<(&str, Value)>) {
    let mut object = Map::new();
    object.insert("outcome".to_owned(), outcome.into());
    for (name, value) in fields {
        if let ("report", Value::String(report)) = (name, &value) {
            output::tell(&format!("error: {report}"));
        }
        object.insert(name.to_owned(), value);
    }
    output::line(&Value::Object(object).to_string());
}

fn fields(captured: &Captured) -> Vec<(&'static str, Value)> {
    let not_captured: Vec<Value> =
        captured.not_captured.iter().map(|(path, why)| json!({"path": path.to_string_lossy(), "why": why})).collect();
    let mut all = vec![("patch", Value::from(captured.patch.to_string_lossy()))];
    all.extend(result_fields(&captured.result));
    all.extend([
        ("base", captured.base.clone().into()),
        ("files", captured.files.into()),
        ("ignored", captured.ignored.into()),
        ("not_captured", not_captured.into()),
        ("saved", captured.saved.clone().into()),
        ("warnings", captured.warnings.clone().into()),
    ]);
    all
}

fn result_fields(result: &CommandResult) -> Vec<(&'static str, Value)> {
    let output = |output: &CommandOutput| match output {
        CommandOutput::Text(text) => (Value::from(text.clone()), Value::Null),
        CommandOutput::File(file) => (Value::Null, Value::from(file.to_string_lossy())),
    };
    let ((stdout, stdout_file), (stderr, stderr_file)) = (output(&result.stdout), output(&result.stderr));
    vec![
        ("exit_code", result.exit_code.into()),
        ("stdout", stdout),
        ("stdout_file", stdout_file),
        ("stderr", stderr),
        ("stderr_file", stderr_file),
        ("timed_out", result.timed_out.into()),
        ("cut_off", result.cut_off.into()),
        ("survivors", json!(result.survivors)),
    ]
}
