//! `isofold saved`.

use std::process::ExitCode;

use isofold::saved::{self, Saved, SavedError};
use serde_json::{Value, json};

use super::args::SavedCommand;
use super::{INVALID, output, working_directory};

pub(crate) fn run(command: SavedCommand) -> ExitCode {
    let directory = match working_directory() {
        Ok(directory) => directory,
        Err(why) => {
            output::error(&why, None);
            return ExitCode::from(INVALID);
        }
    };
    let done = match command {
        SavedCommand::List { all, json } => saved::list(&directory, all).map(|found| list(&found, json)),
        SavedCommand::Restore { name } => saved::restore(&directory, &name).map(|branch| output::line(&branch)),
        SavedCommand::Drop { name } => {
            saved::drop(&directory, &name).map(|id| output::line(&format!("Dropped {name} (was {id}).")))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(&error.to_string(), hint(&error));
            ExitCode::FAILURE
        }
    }
}

fn hint(error: &SavedError) -> Option<&'static str> {
    matches!(error, SavedError::Open(_)).then_some("isofold -C DIR saved … looks in another directory")
}

fn list(found: &[Saved], json: bool) {
    if json {
        let saved: Vec<Value> = found.iter().map(row).collect();
        output::line(&json!({"version": 1, "saved": saved}).to_string());
        return;
    }
    if found.is_empty() {
        output::line("Nothing is saved.");
    }
    for saved in found {
        let what = saved.subject.as_deref().unwrap_or("content of a file");
        let what: String = what.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        output::line(&format!("{}  {}  {what}", saved.name, &saved.id[..8]));
    }
}

fn row(saved: &Saved) -> Value {
    json!({
        "name": saved.name,
        "ref": saved.reference,
        "id": saved.id,
        "kind": if saved.commit { "commit" } else { "file" },
        "saved": saved.saved,
        "subject": saved.subject,
    })
}
