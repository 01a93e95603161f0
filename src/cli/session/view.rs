//! Looking at sessions: `list`, `show`, `path`, `diff`.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use isofold::Control;
use isofold::session::{self, SessionError, SessionState};
use serde_json::{Value, json};

use super::args::{DiffArgs, ListArgs, NamedArgs};
use super::{Face, changes_json, introduce, refused, session_json, ways_out, with_version};
use crate::cli::output;
use crate::cli::progress::watched;

pub(super) fn list(args: &ListArgs, face: &Face, control: &Control) -> ExitCode {
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

pub(super) fn show(args: &NamedArgs, face: &Face, control: &Control) -> ExitCode {
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

pub(super) fn path(args: &NamedArgs, face: &Face) -> ExitCode {
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

pub(super) fn diff(args: &DiffArgs, face: &Face, control: &Control) -> ExitCode {
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
