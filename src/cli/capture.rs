//! `isofold capture`.

use std::process::ExitCode;

use serde_json::json;

use super::args::CaptureArgs;
use super::{INVALID, output};

pub(crate) fn run(_args: CaptureArgs) -> ExitCode {
    refuse("arguments", "not there yet")
}

/// The line of an invocation that nobody can carry out.
pub(crate) fn refuse(check: &str, why: &str) -> ExitCode {
    output::line(&json!({"outcome": "invalid-invocation", "check": check, "report": why}).to_string());
    ExitCode::from(INVALID)
}
