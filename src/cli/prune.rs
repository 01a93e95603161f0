//! `isofold prune`.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use isofold::{Control, PruneOutcome, PruneRequest, Pruned, Recovered, prune};
use serde_json::{Value, json};

use super::args::PruneArgs;
use super::progress::watched;
use super::{INTERRUPTED, INVALID, output, working_directory};

pub(crate) fn run(args: &PruneArgs) -> ExitCode {
    let interrupt = Arc::new(AtomicBool::new(false));
    let caught = [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM]
        .into_iter()
        .try_for_each(|signal| signal_hook::flag::register(signal, interrupt.clone()).map(drop));
    let directory = match (working_directory(), caught) {
        (Ok(directory), Ok(())) => directory,
        (Err(why), _) => return refuse(&why),
        (_, Err(error)) => return refuse(&format!("signals can't be caught: {error}")),
    };
    let control = Control::new().with_interrupt_flag(interrupt);
    let older_than = args.older_than.map(|days| Duration::from_hours(24) * days);
    let request = PruneRequest { directory, older_than, dry_run: args.dry_run };
    match watched(&control, || prune(&request, &control)) {
        PruneOutcome::Pruned(pruned) => {
            if args.json {
                output::line(&object(&pruned, args.dry_run).to_string());
            } else {
                tell(&pruned, args.dry_run);
            }
            ExitCode::SUCCESS
        }
        PruneOutcome::Failed(why) => {
            output::error(&why, None);
            ExitCode::FAILURE
        }
        PruneOutcome::Interrupted(why) => {
            output::error(&why, None);
            ExitCode::from(INTERRUPTED)
        }
    }
}

fn refuse(why: &str) -> ExitCode {
    output::error(why, None);
    ExitCode::from(INVALID)
}

/// What a recovered thing is called in JSON, and what it is about.
pub(super) fn named(recovered: &Recovered) -> (&'static str, String) {
    match recovered {
        Recovered::Incomplete(path) => ("incomplete-child", path.to_string_lossy().into_owned()),
        Recovered::Removed(path) => ("half-removed-child", path.to_string_lossy().into_owned()),
        Recovered::Leftover(path) => ("leftover", path.to_string_lossy().into_owned()),
        Recovered::Left(why) => ("left", why.clone()),
        _ => ("other", String::new()),
    }
}

fn object(pruned: &Pruned, dry_run: bool) -> Value {
    let recovered: Vec<Value> = pruned
        .recovered
        .iter()
        .map(|one| {
            let (kind, what) = named(one);
            json!({"kind": kind, "what": what})
        })
        .collect();
    let bases = pruned.bases.iter().map(|(name, gone)| json!({"name": name, "gone": gone.to_string_lossy()}));
    let saved = pruned.saved.iter().map(|(name, id)| json!({"ref": name, "id": id}));
    json!({
        "version": 1,
        "dry_run": dry_run,
        "recovered": recovered,
        "bases": bases.collect::<Vec<Value>>(),
        "saved": saved.collect::<Vec<Value>>(),
        "sessions": pruned.sessions,
        "patches": pruned.patches,
    })
}

fn tell(pruned: &Pruned, dry_run: bool) {
    let done = if dry_run { "would go" } else { "gone" };
    let mut lines = Vec::new();
    for one in &pruned.recovered {
        let (kind, what) = named(one);
        lines.push(match one {
            Recovered::Left(_) => format!("left: {what}"),
            _ => format!("{done}: {} {what}", kind.replace('-', " ")),
        });
    }
    for (name, gone) in &pruned.bases {
        let why = if gone.as_os_str().is_empty() {
            "a killed run left its ref".to_owned()
        } else {
            format!("{} does not exist any more", gone.display())
        };
        lines.push(format!("{done}: base entry {name} ({why})"));
    }
    for (name, id) in &pruned.saved {
        lines.push(format!("{done}: {name} (was {id})"));
    }
    lines.extend(pruned.sessions.iter().map(|name| format!("{done}: session {name}")));
    lines.extend(pruned.patches.iter().map(|agent| format!("{done}: patch of {agent}")));
    if lines.is_empty() {
        lines.push("Nothing to prune.".to_owned());
    }
    for line in lines {
        output::line(&line.chars().map(|c| if c.is_control() { '?' } else { c }).collect::<String>());
    }
}
