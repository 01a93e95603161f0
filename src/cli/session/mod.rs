//! `isofold session`: what its commands have in common, `start`, `keep` and `discard`.

pub(crate) mod args;
mod run;
mod view;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use isofold::Control;
use isofold::session::{self, Discarded, KeepRequest, Kept, Session, SessionError, StartRequest, Work};
use serde_json::{Value, json};

use args::{DiscardArgs, HowArgs, KeepArgs, SessionCommand, StartArgs};

use super::output::{self, Paint};
use super::progress::watched;
use super::{INTERRUPTED, INVALID, signals};

/// Where and how a command of a person works.
pub(crate) struct Face {
    /// The directory that it was started in, or `-C`.
    pub(crate) at: PathBuf,
    /// Whether `-C` was given: commands that are printed need it then.
    pub(crate) elsewhere: bool,
    pub(crate) paint: Paint,
}

impl Face {
    /// A command of a session that works when it is pasted.
    pub(crate) fn command(&self, main: &Path, verb: &str, name: &str, rest: &str) -> String {
        let place = if self.elsewhere { format!("-C {} ", quoted(main)) } else { String::new() };
        format!("isofold {place}session {verb} {name}{rest}")
    }
}

/// A path as a word of a shell.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

pub(crate) fn run(command: SessionCommand, face: &Face) -> ExitCode {
    let control = match signals::control() {
        Ok(control) => control,
        Err(why) => {
            output::error(&why, None);
            return ExitCode::from(1);
        }
    };
    match command {
        SessionCommand::Start(args) => start(&args, face, &control),
        SessionCommand::Run(args) => run::run(&args, face),
        SessionCommand::List(args) => view::list(&args, face, &control),
        SessionCommand::Show(args) => view::show(&args, face, &control),
        SessionCommand::Path(args) => view::path(&args, face),
        SessionCommand::Diff(args) => view::diff(&args, face, &control),
        SessionCommand::Keep(args) => keep(args, face, &control),
        SessionCommand::Discard(args) => discard(&args, face, &control),
    }
}

/// Says what went wrong, in the form that was asked for.
pub(crate) fn refused(error: &SessionError, json: bool) -> ExitCode {
    let (outcome, code) = match error {
        SessionError::Usage(_) => ("invalid-invocation", INVALID),
        SessionError::Interrupted => ("interrupted", INTERRUPTED),
        _ => ("failed", 1),
    };
    said(outcome, &error.to_string(), json);
    ExitCode::from(code)
}

fn said(outcome: &str, report: &str, json: bool) {
    if json {
        output::line(&json!({"version": 1, "outcome": outcome, "report": report}).to_string());
    } else {
        output::error(report, None);
    }
}

pub(crate) fn request(how: &HowArgs) -> StartRequest {
    StartRequest { name: how.name.clone(), prefix: how.prefix.clone(), from: how.from.clone() }
}

fn start(args: &StartArgs, face: &Face, control: &Control) -> ExitCode {
    let request = request(&args.how);
    match watched(control, || session::start(&face.at, &request, control)) {
        Err(error) => refused(&error, args.json),
        Ok(started) if args.json => {
            output::line(&with_version(session_json(&started.session)).to_string());
            ExitCode::SUCCESS
        }
        Ok(started) => {
            introduce(&started.session, face, &face.command(&started.session.main, "diff", &started.session.name, ""));
            ways_out(&started.session, face, false);
            ExitCode::SUCCESS
        }
    }
}

/// Where a session is, and what can be said of its changes.
pub(crate) fn introduce(session: &Session, face: &Face, changes: &str) {
    let label = |text: &str| face.paint.bold(text);
    output::line(&format!("{} {}", label("Worktree branch:"), session.branch));
    output::line(&format!("{} {}", label("Path:"), session.worktree.display()));
    output::line(&format!("{} {changes}", label("Changes:")));
}

/// The two commands that end a session; with work in it, discarding needs a word more.
pub(crate) fn ways_out(session: &Session, face: &Face, work: bool) {
    let label = |text: &str| face.paint.bold(text);
    let force = if work { " --force" } else { "" };
    let (keep, discard) = (
        face.command(&session.main, "keep", &session.name, ""),
        face.command(&session.main, "discard", &session.name, force),
    );
    output::line(&format!("{} {keep}", label("To keep:")));
    output::line(&format!("{} {discard}", label("To discard:")));
}

pub(crate) fn session_json(session: &Session) -> Value {
    json!({
        "name": session.name,
        "branch": session.branch,
        "worktree": session.worktree.to_string_lossy(),
        "base": session.base,
        "main": session.main.to_string_lossy(),
    })
}

/// `version` first.
pub(crate) fn with_version(fields: Value) -> Value {
    let mut object = serde_json::Map::new();
    object.insert("version".to_owned(), 1.into());
    if let Value::Object(fields) = fields {
        object.extend(fields);
    }
    Value::Object(object)
}

pub(crate) fn changes_json(changes: session::Changes) -> Value {
    json!({"files": changes.files, "insertions": changes.insertions, "deletions": changes.deletions})
}

fn keep(args: KeepArgs, face: &Face, control: &Control) -> ExitCode {
    let request = KeepRequest {
        commit: args.commit,
        message: args.message,
        three_way: args.three_way,
        onto_current: args.onto_current,
    };
    let kept = match watched(control, || session::keep(&face.at, &args.session, &request, control)) {
        Ok(kept) => kept,
        Err(error) => return refused(&error, args.json),
    };
    let list = |paths: &[PathBuf]| -> Vec<String> { paths.iter().map(|p| p.to_string_lossy().into_owned()).collect() };
    match kept {
        Kept::Applied { files, unstaged, commit, saved, warnings } => {
            if args.json {
                let fields = json!({
                    "outcome": "kept", "name": args.session, "files": list(&files), "unstaged": list(&unstaged),
                    "commit": commit, "saved": saved, "warnings": warnings,
                });
                output::line(&with_version(fields).to_string());
                return ExitCode::SUCCESS;
            }
            match &commit {
                Some(id) => output::line(&format!("Changes committed as {}.", &id[..id.len().min(10)])),
                None => output::line("Changes applied and staged."),
            }
            for path in &unstaged {
                output::line(&format!(
                    "  not staged: {} (its index entry can't take the change; it is in the file)",
                    path.display()
                ));
            }
            told(&saved, &warnings);
            ExitCode::SUCCESS
        }
        Kept::Nothing { saved, warnings } => {
            if args.json {
                let fields = json!({
                    "outcome": "nothing", "name": args.session, "files": [], "saved": saved, "warnings": warnings,
                });
                output::line(&with_version(fields).to_string());
                return ExitCode::SUCCESS;
            }
            output::line("No changes to apply.");
            told(&saved, &warnings);
            ExitCode::SUCCESS
        }
        Kept::Conflict { report, conflicts, patch, marked } => {
            if args.json {
                let fields = json!({
                    "outcome": "conflict", "name": args.session, "report": report, "conflicts": conflicts,
                    "patch": patch.to_string_lossy(), "marked": list(&marked),
                });
                output::line(&with_version(fields).to_string());
            } else {
                let hint = format!("the changes are saved in {}", patch.display());
                output::error(&report, Some(&hint));
            }
            ExitCode::from(1)
        }
        _ => ExitCode::from(1),
    }
}

fn told(saved: &[String], warnings: &[String]) {
    for name in saved {
        output::line(&format!("  saved: {name} (isofold saved restores it)"));
    }
    for warning in warnings {
        output::warn(warning);
    }
}

fn discard(args: &DiscardArgs, face: &Face, control: &Control) -> ExitCode {
    let discarded = match watched(control, || session::discard(&face.at, &args.session, args.force, control)) {
        Ok(discarded) => discarded,
        Err(error) => return refused(&error, args.json),
    };
    match discarded {
        Discarded::Discarded { work, saved } => {
            if args.json {
                let fields =
                    json!({"outcome": "discarded", "name": args.session, "work": work_json(&work), "saved": saved});
                output::line(&with_version(fields).to_string());
            } else {
                output::line("Worktree discarded.");
                told(&saved, &[]);
            }
            ExitCode::SUCCESS
        }
        Discarded::Refused { report, work } => {
            if args.json {
                let fields =
                    json!({"outcome": "refused", "name": args.session, "report": report, "work": work_json(&work)});
                output::line(&with_version(fields).to_string());
            } else {
                output::error(&report, None);
            }
            ExitCode::from(1)
        }
        _ => ExitCode::from(1),
    }
}

fn work_json(work: &Work) -> Value {
    let list = |paths: &[PathBuf]| -> Vec<String> { paths.iter().map(|p| p.to_string_lossy().into_owned()).collect() };
    json!({
        "commits": work.commits, "changes": list(&work.changes), "ignored": list(&work.ignored),
        "submodules": work.submodules,
    })
}
