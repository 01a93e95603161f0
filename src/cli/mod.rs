//! The command line: one file per command, every job a library call.

mod args;
mod branch_name_of;
mod fold;
mod host;
mod isolate;
mod output;
mod progress;
mod prune;
mod reference;
mod remove;
mod saved;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use args::{Cli, Command};

/// Number of the host-face protocol (docs/protocol.md).
const PROTOCOL: u32 = 1;

/// What the exit codes of the contract are called here.
pub(crate) const INVALID: u8 = 2;
pub(crate) const INTERRUPTED: u8 = 130;

/// Runs the program.
pub(crate) fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    match Cli::try_parse_from(&arguments) {
        Ok(cli) => run(cli),
        Err(error) => refuse(&arguments, &error),
    }
}

fn run(cli: Cli) -> ExitCode {
    if cli.version {
        let version = env!("CARGO_PKG_VERSION");
        let text = if cli.json {
            serde_json::json!({"name": "isofold", "version": version, "protocol": PROTOCOL}).to_string()
        } else {
            format!("isofold {version}")
        };
        output::line(&text);
        return ExitCode::SUCCESS;
    }
    match cli.command {
        Some(Command::Isolate(args)) => isolate::run(args),
        Some(Command::Fold(args)) => fold::run(args),
        Some(Command::Remove(args)) => remove::run(args),
        Some(Command::Saved(command)) => saved::run(command, cli.directory.as_deref()),
        Some(Command::Prune(args)) => prune::run(&args, cli.directory.as_deref()),
        Some(Command::BranchNameOf(args)) => branch_name_of::run(&args),
        Some(Command::Reference(args)) => reference::run(args),
        None => {
            output::error("no command was given", Some("isofold --help lists the commands"));
            ExitCode::from(INVALID)
        }
    }
}

/// The directory that a command of the person face works in.
fn working_directory(given: Option<&Path>) -> Result<PathBuf, String> {
    let current = std::env::current_dir().map_err(|error| format!("the current directory can't be read: {error}"));
    match given {
        Some(given) if given.is_absolute() => Ok(given.to_owned()),
        Some(given) => current.map(|current| current.join(given)),
        None => current,
    }
}

/// Arguments that can't be parsed: in the language of the command's face.
fn refuse(arguments: &[OsString], error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        output::text(&error.render().to_string());
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    let why = text.lines().next().unwrap_or_default();
    let why = why.strip_prefix("error: ").unwrap_or(why).trim_end_matches(':').to_owned();
    let id = host::id_in(arguments);
    match arguments.get(1).and_then(|a| a.to_str()) {
        Some("isolate") => host::refuse(host::Face::Isolation, id.as_deref(), &why),
        Some("fold") => host::refuse(host::Face::Integration, id.as_deref(), &why),
        Some("remove") => remove::refuse(&why),
        _ => {
            output::error(&why, Some("isofold --help lists the commands"));
            ExitCode::from(INVALID)
        }
    }
}
