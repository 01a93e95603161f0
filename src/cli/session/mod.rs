//! `isofold session`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use isofold::Control;
use isofold::session::{self, Discarded, KeepRequest, Kept, Session, SessionError, SessionState, StartRequest, Work};
use serde_json::{Value, json};

use super::output::{self, Paint};
use super::progress::watched;
use super::{INTERRUPTED, INVALID, session_run, signals};

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Start one: a worktree of your files as they are, on a branch of its own
    Start(StartArgs),
    /// Run a command in a session (a new one without NAME), then say what changed
    Run(RunArgs),
    /// List them
    List(ListArgs),
    /// Say what is known of one
    Show(NamedArgs),
    /// Print where it is: cd "$(isofold session path NAME)"
    Path(NamedArgs),
    /// Print what it changed, as a patch
    Diff(DiffArgs),
    /// Bring its changes into the main tree, staged, and take it away
    Keep(KeepArgs),
    /// Take it away; refused while it holds work, unless --force, which saves the work first
    Discard(DiscardArgs),
}

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    #[command(flatten)]
    pub(crate) how: HowArgs,
    /// One JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HowArgs {
    /// Its name [default: made up]
    #[arg(long, value_name = "N")]
    pub(crate) name: Option<String>,
    /// What its branch and its worktree start with
    #[arg(long, value_name = "P", default_value = session::DEFAULT_PREFIX)]
    pub(crate) prefix: String,
    /// Start from this commit instead of your files as they are
    #[arg(long, value_name = "REF")]
    pub(crate) from: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The session [default: a new one]
    #[arg(value_name = "NAME")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) how: HowArgs,
    /// End with one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// The command
    #[arg(last = true, required = true, value_name = "ARGV")]
    pub(crate) argv: Vec<std::ffi::OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// One JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NamedArgs {
    /// The session
    #[arg(value_name = "NAME")]
    pub(crate) session: String,
    /// One JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The session
    #[arg(value_name = "NAME")]
    pub(crate) session: String,
    /// Only how much changed in which file
    #[arg(long)]
    pub(crate) stat: bool,
    /// One JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct KeepArgs {
    /// The session
    #[arg(value_name = "NAME")]
    pub(crate) session: String,
    /// Commit the changes instead of staging them
    #[arg(long)]
    pub(crate) commit: bool,
    /// The commit's message
    #[arg(long, short, value_name = "TEXT", requires = "commit")]
    pub(crate) message: Option<String>,
    /// On a conflict leave conflict markers in the main tree's files
    #[arg(long = "3way", conflicts_with = "commit")]
    pub(crate) three_way: bool,
    /// Keep on whatever branch the main tree is now
    #[arg(long)]
    pub(crate) onto_current: bool,
    /// One JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DiscardArgs {
    /// The session
    #[arg(value_name = "NAME")]
    pub(crate) session: String,
    /// Save its work under refs/isofold/saved/ and discard it all the same
    #[arg(long)]
    pub(crate) force: bool,
    /// One JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

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
        SessionCommand::Run(args) => session_run::run(&args, face),
        SessionCommand::List(args) => list(&args, face, &control),
        SessionCommand::Show(args) => show(&args, face, &control),
        SessionCommand::Path(args) => path(&args, face),
        SessionCommand::Diff(args) => diff(&args, face, &control),
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

fn seconds(at: SystemTime) -> u64 {
    at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn state_json(state: &SessionState) -> Value {
    let mut fields = session_json(&state.session);
    fields["created"] = seconds(state.session.created).into();
    fields["age_seconds"] = state.session.created.elapsed().map_or(0, |age| age.as_secs()).into();
    fields["present"] = state.present.into();
    fields["ahead"] = state.ahead.into();
    fields["dirty"] = state.dirty.into();
    fields["changes"] = changes_json(state.changes);
    if let Some(running) = state.session.running {
        fields["running"] = json!({"pid": running.pid, "since": seconds(running.since)});
    }
    if let Some(trouble) = &state.trouble {
        fields["trouble"] = trouble.clone().into();
    }
    fields
}

pub(crate) fn changes_json(changes: session::Changes) -> Value {
    json!({"files": changes.files, "insertions": changes.insertions, "deletions": changes.deletions})
}

fn list(args: &ListArgs, face: &Face, control: &Control) -> ExitCode {
    let states = match watched(control, || session::list(&face.at, control)) {
        Ok(states) => states,
        Err(error) => return refused(&error, args.json),
    };
    if args.json {
        let sessions: Vec<Value> = states.iter().map(state_json).collect();
        output::line(&json!({"version": 1, "sessions": sessions}).to_string());
        return ExitCode::SUCCESS;
    }
    if states.is_empty() {
        output::tell("There are no sessions; isofold session start makes one.");
        return ExitCode::SUCCESS;
    }
    let mut rows = vec![["NAME", "BRANCH", "AGE", "BASE", "AHEAD", "DIRTY", "RUNNING"].map(str::to_owned)];
    rows.extend(states.iter().map(row));
    if states.iter().all(|state| state.session.running.is_none()) {
        // Nothing runs: a column less.
        for row in &mut rows {
            row[6].clear();
        }
    }
    output::table(&rows, face.paint);
    ExitCode::SUCCESS
}

fn row(state: &SessionState) -> [String; 7] {
    let session = &state.session;
    let dirty = match (&state.trouble, state.present) {
        (Some(trouble), _) => trouble.clone(),
        (None, false) => "worktree gone".to_owned(),
        (None, true) => state.dirty.to_string(),
    };
    let running = session.running.map_or_else(|| "-".to_owned(), |r| format!("pid {}, {}", r.pid, age(r.since)));
    [
        session.name.clone(),
        session.branch.clone(),
        age(session.created),
        session.base[..session.base.len().min(8)].to_owned(),
        state.ahead.to_string(),
        dirty,
        running,
    ]
}

/// How long ago, in the largest unit.
fn age(since: SystemTime) -> String {
    let seconds = since.elapsed().unwrap_or(Duration::ZERO).as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn show(args: &NamedArgs, face: &Face, control: &Control) -> ExitCode {
    let shown = || -> Result<SessionState, SessionError> {
        session::find(&face.at, &args.session)?;
        let found = session::list(&face.at, control)?.into_iter().find(|state| state.session.name == args.session);
        found.ok_or_else(|| SessionError::Failed(format!("the session {} is gone", args.session)))
    };
    let state = match watched(control, shown) {
        Ok(state) => state,
        Err(error) => return refused(&error, args.json),
    };
    if args.json {
        output::line(&with_version(state_json(&state)).to_string());
        return ExitCode::SUCCESS;
    }
    let changes = match &state.trouble {
        Some(trouble) => trouble.clone(),
        None if !state.present => "the worktree is gone".to_owned(),
        None => state.changes.to_string(),
    };
    introduce(&state.session, face, &changes);
    let label = |text: &str| face.paint.bold(text);
    output::line(&format!("{} {}", label("Main tree:"), state.session.main.display()));
    output::line(&format!("{} {}", label("Base:"), state.session.base));
    output::line(&format!("{} {} ago", label("Started:"), age(state.session.created)));
    output::line(&format!("{} {} ahead, {} paths not committed", label("Commits:"), state.ahead, state.dirty));
    if let Some(running) = state.session.running {
        output::line(&format!("{} process {} for {}", label("Running:"), running.pid, age(running.since)));
    }
    ways_out(&state.session, face, state.ahead > 0 || state.changes.files > 0);
    ExitCode::SUCCESS
}

fn path(args: &NamedArgs, face: &Face) -> ExitCode {
    match session::find(&face.at, &args.session) {
        Err(error) => refused(&error, args.json),
        Ok(session) if args.json => {
            let fields = json!({"name": session.name, "path": session.worktree.to_string_lossy()});
            output::line(&with_version(fields).to_string());
            ExitCode::SUCCESS
        }
        Ok(session) => {
            output::path(&session.worktree);
            ExitCode::SUCCESS
        }
    }
}

fn diff(args: &DiffArgs, face: &Face, control: &Control) -> ExitCode {
    match watched(control, || session::diff(&face.at, &args.session, args.stat, control)) {
        Err(error) => refused(&error, args.json),
        Ok(text) if args.json => {
            let changes = match session::changes(&face.at, &args.session, control) {
                Ok(changes) => changes,
                Err(error) => return refused(&error, true),
            };
            let mut fields = json!({"name": args.session, "changes": changes_json(changes)});
            let key = if args.stat { "stat" } else { "patch" };
            // A patch is bytes; what is no UTF-8 does not fit into JSON.
            match String::from_utf8(text) {
                Ok(text) => fields[key] = text.into(),
                Err(_) => fields["not_utf8"] = true.into(),
            }
            output::line(&with_version(fields).to_string());
            ExitCode::SUCCESS
        }
        Ok(text) => {
            output::bytes(&text);
            ExitCode::SUCCESS
        }
    }
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
