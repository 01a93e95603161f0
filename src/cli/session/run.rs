//! `isofold session run`: a command in a session, its output as it comes, its exit code passed on.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};

use isofold::Control;
use isofold::session::{self, Session, SessionError};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;

use super::args::RunArgs;
use super::{Face, changes_json, introduce, refused, request, session_json, ways_out, with_version};
use crate::cli::output;
use crate::cli::progress::watched;

/// isofold itself failed, not the command.
const OURS: u8 = 125;

pub(crate) fn run(args: &RunArgs, face: &Face) -> ExitCode {
    // From here on a signal is the command's.
    let mut signals = match SignalsInfo::<WithOrigin>::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT]) {
        Ok(signals) => signals,
        Err(error) => {
            output::error(&format!("signals can't be caught: {error}"), None);
            return ExitCode::from(OURS);
        }
    };
    let control = Control::new();
    let session = match watched(&control, || session_of(args, face, &control)) {
        Ok(session) => session,
        Err(error) => return ours(&error, args.json),
    };
    let status = match carry_out(args, &session, face, &mut signals) {
        Ok(status) => status,
        Err(error) => return ours(&error, args.json),
    };
    let code = exit_code(status);
    let changes = match session::changes(&face.at, &session.name, &control) {
        Ok(changes) => changes,
        Err(error) => return ours(&error, args.json),
    };
    if args.json {
        let mut fields = session_json(&session);
        fields["exit_code"] = json!(code);
        fields["changes"] = changes_json(changes);
        output::line(&with_version(fields).to_string());
    } else {
        introduce(&session, face, &changes.to_string());
        ways_out(&session, face, changes.files > 0);
    }
    ExitCode::from(code)
}

fn ours(error: &SessionError, json: bool) -> ExitCode {
    let _ = refused(error, json);
    ExitCode::from(OURS)
}

fn session_of(args: &RunArgs, face: &Face, control: &Control) -> Result<Session, SessionError> {
    match &args.session {
        Some(name) => {
            let session = session::find(&face.at, name)?;
            if let Some(running) = session.running {
                let why = format!("process {} runs in {name} already; let it finish", running.pid);
                return Err(SessionError::Failed(why));
            }
            Ok(session)
        }
        None => session::start(&face.at, &request(&args.how), control).map(|started| started.session),
    }
}

fn carry_out(
    args: &RunArgs,
    session: &Session,
    face: &Face,
    signals: &mut SignalsInfo<WithOrigin>,
) -> Result<ExitStatus, SessionError> {
    let mut child = start(args, session)?;
    let noted = session::set_running(&face.at, &session.name, Some(child.id()));
    if let Err(error) = noted {
        output::warn(&format!("the session's record could not be written: {error}"));
    }
    let handle = signals.handle();
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let status = std::thread::scope(|scope| {
        scope.spawn(|| forward(signals, pid));
        let status = child.wait();
        handle.close();
        status
    });
    if let Err(error) = session::set_running(&face.at, &session.name, None) {
        output::warn(&format!("the session's record could not be written: {error}"));
    }
    status.map_err(|error| SessionError::Failed(format!("cannot wait for the command: {error}")))
}

fn start(args: &RunArgs, session: &Session) -> Result<Child, SessionError> {
    let program = &args.argv[0];
    let mut command = Command::new(program);
    command.args(&args.argv[1..]).current_dir(&session.worktree);
    session.prepare(&mut command);
    command.spawn().map_err(|error| {
        SessionError::Failed(format!(
            "cannot start {}: {error}; {} is still there",
            program.to_string_lossy(),
            session.name
        ))
    })
}

/// Passes signals on, but for those of the terminal, which the command has got already.
fn forward(signals: &mut SignalsInfo<WithOrigin>, pid: Option<Pid>) {
    for origin in signals.forever() {
        let signal = match origin.signal {
            SIGINT => Signal::INT,
            SIGHUP => Signal::HUP,
            SIGQUIT => Signal::QUIT,
            _ => Signal::TERM,
        };
        if let (Some(pid), Some(_)) = (pid, &origin.process) {
            let _ = kill_process(pid, signal);
        }
    }
}

/// The command's own code; 128 and the signal's number where one ended it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(i32::from(OURS));
    u8::try_from(code & 0xff).unwrap_or(OURS)
}
