//! `isofold patch`.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use isofold::{Control, Landed, PatchError, PatchLanding, Patches};
use serde_json::json;

use super::args::{PatchArgs, PatchCommand};
use super::{INTERRUPTED, INVALID, output, signals};

/// The version of what `--json` prints.
const JSON: u32 = 1;

pub(crate) fn run(args: PatchArgs) -> ExitCode {
    let control = match signals::control() {
        Ok(control) => control,
        Err(why) => {
            output::error(&why, None);
            return ExitCode::from(1);
        }
    };
    let done = match args.what {
        PatchCommand::Record { agent, worktree } => record(&agent, worktree, &control),
        PatchCommand::List { json } => list(json),
        PatchCommand::Land { agent, three_way } => land(&agent, three_way, &control),
        PatchCommand::Show { agent } => show(&agent),
        PatchCommand::Drop { agent } => drop_patch(&agent, &control),
    };
    done.unwrap_or_else(|error| failed(&error))
}

fn failed(error: &PatchError) -> ExitCode {
    let (code, hint) = match error {
        PatchError::Usage(_) => (INVALID, None),
        PatchError::Interrupted => (INTERRUPTED, None),
        PatchError::DoesNotApply(_) => (1, Some("nothing was changed; isofold patch land --3way A merges")),
        _ => (1, None),
    };
    output::error(&error.to_string(), hint);
    ExitCode::from(code)
}

fn name(agent: &OsString) -> Result<&str, PatchError> {
    agent.to_str().ok_or_else(|| PatchError::Usage("the name of the agent is not UTF-8".to_owned()))
}

fn here() -> PathBuf {
    PathBuf::from(".")
}

fn record(agent: &OsString, worktree: Option<PathBuf>, control: &Control) -> Result<ExitCode, PatchError> {
    let recorded = Patches::record(name(agent)?, &worktree.unwrap_or_else(here), control)?;
    for (path, why) in &recorded.not_recorded {
        output::warn(&format!("{} is not in the patch: {why}", output::plain(path)));
    }
    let what = if recorded.written { "" } else { " (as before)" };
    let (files, base) = (files(recorded.files), &recorded.base[..8]);
    output::line(&format!("{}: {files} since {base}{what}: {}", recorded.agent, output::plain(&recorded.patch)));
    Ok(ExitCode::SUCCESS)
}

fn list(json: bool) -> Result<ExitCode, PatchError> {
    let patches = Patches::of(&here())?.list()?;
    if json {
        output::line(&json!({"version": JSON, "patches": patches}).to_string());
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<[String; 5]> = patches
        .iter()
        .map(|patch| {
            let base = patch.base.chars().take(8).collect();
            [patch.agent.clone(), base, files(patch.files), output::size(patch.bytes), age(patch.age_seconds)]
        })
        .collect();
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
            let _ = write!(line, "{cell:width$}  ");
        }
        output::line(line.trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

fn show(agent: &OsString) -> Result<ExitCode, PatchError> {
    output::bytes(&Patches::of(&here())?.show(name(agent)?)?);
    Ok(ExitCode::SUCCESS)
}

fn drop_patch(agent: &OsString, control: &Control) -> Result<ExitCode, PatchError> {
    let agent = name(agent)?;
    Patches::of(&here())?.drop_patch(agent, control)?;
    output::line(&format!("{agent}: dropped"));
    Ok(ExitCode::SUCCESS)
}

fn land(agent: &OsString, three_way: bool, control: &Control) -> Result<ExitCode, PatchError> {
    let agent = name(agent)?;
    match Patches::of(&here())?.land(agent, three_way, control)? {
        PatchLanding::Nothing => {
            output::line("nothing to do");
            Ok(ExitCode::SUCCESS)
        }
        PatchLanding::Landed(landed) => {
            tell(agent, &landed);
            Ok(ExitCode::SUCCESS)
        }
        PatchLanding::Conflicts { landed, conflicts } => {
            tell(agent, &landed);
            for conflict in &conflicts {
                let mut line = format!("conflict: {} ({}): {}", conflict.path, conflict.kind, conflict.detail);
                if let Some(theirs) = &conflict.theirs {
                    let _ = write!(line, "; the version of {agent}: git show '{theirs}'");
                }
                output::line(&line);
            }
            output::error(
                &format!(
                    "{} left for you to settle in {}",
                    output::count(conflicts.len(), "conflict is", "conflicts are"),
                    output::plain(&landed.root)
                ),
                None,
            );
            Ok(ExitCode::from(1))
        }
    }
}

fn tell(agent: &str, landed: &Landed) {
    output::line(&format!("{agent}: {} in {}", files(landed.files.len()), output::plain(&landed.root)));
    for path in &landed.files {
        output::line(&format!("  {}", output::plain(path)));
    }
    for path in &landed.submodules {
        output::warn(&format!(
            "{} is a submodule: its commit is for your index, which stays as it is",
            output::plain(path)
        ));
    }
    for name in &landed.saved {
        output::warn(&format!("a file was written to while it was being replaced; what was written is in {name}"));
    }
    for warning in &landed.warnings {
        output::warn(warning);
    }
}

fn files(number: usize) -> String {
    output::count(number, "file", "files")
}

fn age(seconds: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(86_400, "d"), (3_600, "h"), (60, "min")];
    match UNITS.into_iter().find(|(unit, _)| seconds >= *unit) {
        Some((unit, name)) => format!("{} {name} ago", seconds / unit),
        None => format!("{seconds} s ago"),
    }
}
