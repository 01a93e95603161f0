//! `isofold hook`: what the hooks of agent tools call. The event comes on stdin.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use isofold::session::{self, SessionError, SessionWorktree};
use isofold::{Control, Patches};

use super::args::HookCommand;
use super::{INTERRUPTED, INVALID, output, signals};

/// No event is larger; one that is, is none of ours.
const LARGEST: u64 = 256 << 20;

pub(crate) fn run(what: HookCommand) -> ExitCode {
    match what {
        HookCommand::Patch => patch(),
        HookCommand::WorktreeCreate => worktree(session::worktree_create),
        HookCommand::WorktreeRemove => worktree(session::worktree_remove),
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

type Job = fn(&[u8], &Path, &Control) -> Result<SessionWorktree, SessionError>;

/// Makes or removes a worktree; only its path is on stdout.
fn worktree(job: Job) -> ExitCode {
    let control = match signals::control() {
        Ok(control) => control,
        Err(why) => return refuse(&SessionError::Failed(why)),
    };
    let event = match event() {
        Ok(event) => event,
        Err(error) => return refuse(&SessionError::Usage(format!("the event can't be read: {error}"))),
    };
    match job(&event, Path::new("."), &control) {
        Ok(done) => {
            for name in &done.saved {
                output::warn(&format!("what only this worktree held is saved as {name}"));
            }
            output::bytes(&[done.worktree.as_os_str().as_bytes(), b"\n"].concat());
            ExitCode::SUCCESS
        }
        Err(error) => refuse(&error),
    }
}

fn refuse(error: &SessionError) -> ExitCode {
    output::error(&error.to_string(), None);
    ExitCode::from(match error {
        SessionError::Usage(_) => INVALID,
        SessionError::Interrupted => INTERRUPTED,
        _ => 1,
    })
}

fn event() -> std::io::Result<Vec<u8>> {
    let mut event = Vec::new();
    std::io::stdin().lock().take(LARGEST).read_to_end(&mut event)?;
    Ok(event)
}
