//! The command line: one file per command, every job a library call.

mod args;
mod branch_name_of;
mod capture;
mod completions;
mod fold;
mod help;
mod hook;
mod host;
mod isolate;
mod output;
mod patch;
mod progress;
mod prune;
mod recover;
mod reference;
mod remove;
mod saved;
mod session;
mod signals;
mod update;

use std::ffi::OsString;
use std::path::PathBuf;
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
    for directory in &cli.directory {
        if let Err(error) = std::env::set_current_dir(directory) {
            return unusable(cli.command.as_ref(), &format!("cannot change to {}: {error}", directory.display()));
        }
    }
    match cli.command {
        Some(Command::Isolate(args)) => isolate::run(args),
        Some(Command::Fold(args)) => fold::run(args),
        Some(Command::Update(args)) => update::run(args),
        Some(Command::Remove(args)) => remove::run(args),
        Some(Command::Saved(command)) => saved::run(command),
        Some(Command::Prune(args)) => prune::run(&args),
        Some(Command::Session { command }) => match face(!cli.directory.is_empty(), cli.color) {
            Ok(face) => session::run(command, &face),
            Err(code) => code,
        },
        Some(Command::Recover(args)) => recover::run(args),
        Some(Command::BranchNameOf(args)) => branch_name_of::run(&args),
        Some(Command::Reference(args)) => reference::run(args),
        Some(Command::Capture(args)) => capture::run(args),
        Some(Command::Patch(args)) => patch::run(args),
        Some(Command::Hook(args)) => hook::run(args.what),
        Some(Command::Completions { shell }) => completions::run(shell),
        None => {
            output::error("no command was given", Some("isofold --help lists the commands"));
            ExitCode::from(INVALID)
        }
    }
}

/// The directory that a command of the person face works in.
fn working_directory() -> Result<PathBuf, String> {
    std::env::current_dir().map_err(|error| format!("the current directory can't be read: {error}"))
}

/// `-C` names a directory that can't be worked in.
fn unusable(command: Option<&Command>, why: &str) -> ExitCode {
    match command {
        Some(Command::Isolate(_)) => host::refuse(host::Face::Isolation, None, why),
        Some(Command::Fold(_) | Command::Update(_)) => host::refuse(host::Face::Integration, None, why),
        Some(Command::Remove(_)) => remove::refuse(why),
        Some(Command::Capture(_)) => capture::refuse("work-tree", why),
        Some(Command::Hook(args)) if args.is_patch() => ExitCode::SUCCESS,
        _ => {
            output::error(why, None);
            ExitCode::from(INVALID)
        }
    }
}

/// The name of the command, past the options that may stand before it, and of its own subcommand.
fn command_in(arguments: &[OsString]) -> (&str, &str) {
    let mut words = arguments.iter().skip(1).map(|word| word.to_str().unwrap_or_default());
    loop {
        match words.next() {
            Some("-C") => drop(words.next()),
            Some(word) if word.starts_with('-') => {}
            Some(word) => return (word, words.next().unwrap_or_default()),
            None => return ("", ""),
        }
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
    match command_in(arguments) {
        ("isolate", _) => host::refuse(host::Face::Isolation, id.as_deref(), &why),
        ("fold" | "update", _) => host::refuse(host::Face::Integration, id.as_deref(), &why),
        ("remove", _) => remove::refuse(&why),
        ("recover", _) => recover::refuse(&why),
        ("capture", _) => capture::refuse("arguments", &why),
        // Whatever is wrong with a hook, the edit goes on.
        ("hook", "patch") => ExitCode::SUCCESS,
        _ => {
            output::error(&why, Some("isofold --help lists the commands"));
            ExitCode::from(INVALID)
        }
    }
}

/// Where a command of the person face works, and with which colours.
fn face(elsewhere: bool, color: output::When) -> Result<session::Face, ExitCode> {
    match std::env::current_dir() {
        Ok(at) => Ok(session::Face { at, elsewhere, paint: output::Paint::new(color) }),
        Err(error) => {
            output::error(&format!("there is no current directory: {error}"), None);
            Err(ExitCode::from(1))
        }
    }
}
