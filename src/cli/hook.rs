//! `isofold hook`: what the hooks of agent tools call. The event comes on stdin.

use std::io::Read;
use std::process::ExitCode;

use isofold::Patches;

use super::args::HookCommand;
use super::{INVALID, output, signals};

/// No event is larger; one that is, is none of ours.
const LARGEST: u64 = 256 << 20;

pub(crate) fn run(what: HookCommand) -> ExitCode {
    match what {
        HookCommand::Patch => patch(),
        HookCommand::WorktreeCreate | HookCommand::WorktreeRemove => {
            output::error("not there yet", None);
            ExitCode::from(INVALID)
        }
    }
}

/// Records after an edit. Whatever happens, the edit goes on: silence and 0.
fn patch() -> ExitCode {
    if let (Ok(event), Ok(control)) = (event(), signals::control()) {
        // Who wants to know why nothing was recorded runs isofold patch record.
        drop(Patches::record_event(&event, &control));
    }
    ExitCode::SUCCESS
}

fn event() -> std::io::Result<Vec<u8>> {
    let mut event = Vec::new();
    std::io::stdin().lock().take(LARGEST).read_to_end(&mut event)?;
    Ok(event)
}
