//! The command: in a process group of its own, with both outputs kept, until it ends or its time is
//! over. Then the group is ended.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::place::{Names, Worktree};
use super::survivors::survivors;
use super::{CaptureCommand, CaptureError, CaptureRequest, CommandResult, Output, Tee};
use crate::control::Control;
use crate::files::FilesError;
use crate::git::local;
use crate::git::repository::Repo;

/// Outputs over this many bytes go to a file.
const INLINE: usize = 1024 * 1024;

/// What a process group is given to end by itself after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// What a killed one is given to be gone.
const GONE: Duration = Duration::from_secs(2);

/// How long the pipes are emptied afterwards: a survivor may fill them for ever.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How often it is looked whether the command has ended.
const PACE: Duration = Duration::from_millis(10);

/// What a shell says of a command that it can't find, and of one that it can't run.
const NOT_FOUND: i32 = 127;
const NOT_RUNNABLE: i32 = 126;

/// A command that is to run.
pub(super) struct Run<'a> {
    pub(super) request: &'a CaptureRequest,
    pub(super) worktree: &'a Worktree,
    pub(super) repo: &'a Repo,
    pub(super) control: &'a Control,
}

/// A command that ran.
pub(super) struct Ran {
    exit_code: i32,
    stdout: Kept,
    stderr: Kept,
    timed_out: bool,
    pub(super) interrupted: bool,
    pub(super) began: SystemTime,
}

impl Ran {
    /// What is told of it; long outputs go beside the patch.
    pub(super) fn result(self, names: &Names, worktree: &Worktree) -> CommandResult {
        let cut_off = self.stdout.cut_off || self.stderr.cut_off;
        let (stdout, cut_one) = self.stdout.output(names.beside("stdout"));
        let (stderr, cut_two) = self.stderr.output(names.beside("stderr"));
        CommandResult {
            exit_code: self.exit_code,
            stdout,
            stderr,
            timed_out: self.timed_out,
            cut_off: cut_off || cut_one || cut_two,
            survivors: survivors(&worktree.root),
        }
    }
}

impl Run<'_> {
    /// Runs it to its end. `Err` only where nothing was started.
    pub(super) fn run(&self, mut tee: Tee<'_>) -> Result<Ran, CaptureError> {
        self.control.check()?;
        let began = SystemTime::now();
        let mut stdout = Kept::new(self.worktree.spool("stdout"));
        let mut stderr = Kept::new(self.worktree.spool("stderr"));
        let mut command = self.command()?;
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => {
                let program = command.get_program().to_string_lossy().into_owned();
                let words = format!("isofold: cannot run {program}: {error}\n");
                stderr.take(words.as_bytes(), &mut tee);
                let exit_code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUNNABLE };
                return Ok(Ran { exit_code, stdout, stderr, timed_out: false, interrupted: false, began });
            }
        };
        // Without it a later run could not end what a killed capture left running.
        if let Err(error) = self.worktree.running(child.id()) {
            end(&mut child, &mut || {});
            let _ = child.wait();
            return Err(error.into());
        }
        let mut pipes = Pipes::of(&mut child);
        let mut read = |wait: Duration| pipes.read(wait, &mut stdout, &mut stderr, &mut tee);
        let since = Instant::now();
        let (mut timed_out, mut interrupted) = (false, false);
        while !has_ended(&child) {
            timed_out = self.request.timeout.is_some_and(|limit| since.elapsed() >= limit);
            interrupted = self.control.check().is_err();
            if timed_out || interrupted {
                break;
            }
            read(PACE);
        }
        // The leader is not reaped yet: its id can't have become another group's.
        end(&mut child, &mut || {
            read(PACE);
        });
        // What is in the pipes already is part of the output; what a survivor writes later is not.
        let since = Instant::now();
        while read(Duration::ZERO) && since.elapsed() < LAST_WORDS {}
        let exit_code = child.wait().map_or(-1, code);
        Ok(Ran { exit_code, stdout, stderr, timed_out: timed_out && !interrupted, interrupted, began })
    }

    fn command(&self) -> Result<Command, CaptureError> {
        let mut command = match &self.request.command {
            CaptureCommand::Shell(text) => {
                let mut shell = Command::new("sh");
                shell.arg("-c").arg(text);
                shell
            }
            CaptureCommand::Argv(argv) => {
                let mut words = argv.iter();
                let mut command = Command::new(words.next().map_or("".as_ref(), |program| program.as_os_str()));
                command.args(words);
                command
            }
        };
        local::clear(&mut command);
        let stdin = match &self.request.stdin {
            Some(file) => Stdio::from(File::open(file).map_err(FilesError::io("cannot read", file))?),
            None => Stdio::null(),
        };
        let root = &self.worktree.root;
        command
            .env("ISOFOLD_WORKTREE", root)
            .env("ISOFOLD_BASE", self.worktree.base.to_string())
            .env("ISOFOLD_REPOSITORY", self.repo.work_dir())
            .env("PWD", root)
            .current_dir(root)
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        Ok(command)
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Whether the leader has ended; it is not reaped.
fn has_ended(child: &Child) -> bool {
    let Some(pid) = pid_of(child) else { return true };
    let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(rustix::process::waitid(WaitId::Pid(pid), how), Ok(None))
}

/// Ends the group: SIGTERM, and SIGKILL for what does not go by itself. `meanwhile` is called often.
fn end(child: &mut Child, meanwhile: &mut dyn FnMut()) {
    let Some(pid) = pid_of(child) else { return };
    for (signal, patience) in [(Signal::TERM, GRACE), (Signal::KILL, GONE)] {
        if !has_members(pid) || rustix::process::kill_process_group(pid, signal).is_err() {
            return;
        }
        // What is stopped does not see SIGTERM before it goes on.
        let _ = rustix::process::kill_process_group(pid, Signal::CONT);
        let since = Instant::now();
        while since.elapsed() < patience {
            meanwhile();
            if !has_members(pid) {
                return;
            }
        }
    }
}

/// Whether anything in the process group still runs; what has ended and was not reaped does not.
fn has_members(group: Pid) -> bool {
    if rustix::process::test_kill_process_group(group).is_err() {
        return false;
    }
    let Ok(processes) = std::fs::read_dir("/proc") else { return true };
    let mut readable = false;
    for process in processes.flatten() {
        let Ok(stat) = std::fs::read_to_string(process.path().join("stat")) else { continue };
        readable = true;
        // After the name, which may hold anything: state, parent, group.
        let Some(after) = stat.rfind(')').map(|at| &stat[at + 1..]) else { continue };
        let mut fields = after.split_whitespace();
        let state = fields.next().unwrap_or_default();
        let of_group = fields.nth(1).and_then(|text| text.parse().ok()) == Some(group.as_raw_nonzero().get());
        if of_group && state != "Z" && state != "X" {
            return true;
        }
    }
    // Where there is no such table the signal has the word.
    !readable
}

/// Ends the process group that a killed capture left.
pub(super) fn end_group(leader: u32) {
    let Some(pid) = i32::try_from(leader).ok().and_then(Pid::from_raw) else { return };
    if rustix::process::kill_process_group(pid, Signal::KILL).is_ok() {
        let since = Instant::now();
        while has_members(pid) && since.elapsed() < GONE {
            std::thread::sleep(PACE);
        }
    }
}

/// Both outputs of a running command.
struct Pipes {
    stdout: Option<std::process::ChildStdout>,
    stderr: Option<std::process::ChildStderr>,
    buffer: Vec<u8>,
}

impl Pipes {
    fn of(child: &mut Child) -> Self {
        let pipes = Self { stdout: child.stdout.take(), stderr: child.stderr.take(), buffer: vec![0; 64 * 1024] };
        let ends = [pipes.stdout.as_ref().map(AsFd::as_fd), pipes.stderr.as_ref().map(AsFd::as_fd)];
        for end in ends.into_iter().flatten() {
            // A survivor may hold the other end for ever.
            let _ = rustix::fs::fcntl_setfl(end, OFlags::NONBLOCK);
        }
        pipes
    }

    /// Reads what comes within `wait`; whether anything came.
    fn read(&mut self, wait: Duration, stdout: &mut Kept, stderr: &mut Kept, tee: &mut Tee<'_>) -> bool {
        let ends: Vec<BorrowedFd<'_>> = [self.stdout.as_ref().map(AsFd::as_fd), self.stderr.as_ref().map(AsFd::as_fd)]
            .into_iter()
            .flatten()
            .collect();
        if ends.is_empty() {
            std::thread::sleep(wait);
            return false;
        }
        wait_for(&ends, wait);
        let first = drain(&mut self.stdout, &mut self.buffer, stdout, tee);
        let second = drain(&mut self.stderr, &mut self.buffer, stderr, tee);
        first || second
    }
}

fn wait_for(ends: &[BorrowedFd<'_>], wait: Duration) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut asked: Vec<PollFd<'_>> = ends.iter().map(|end| PollFd::from_borrowed_fd(*end, PollFlags::IN)).collect();
    let limit = Timespec::try_from(wait).ok();
    let _ = poll(&mut asked, limit.as_ref());
}

/// Reads one piece; a pipe that has ended is closed.
fn drain<P: Read>(pipe: &mut Option<P>, buffer: &mut [u8], kept: &mut Kept, tee: &mut Tee<'_>) -> bool {
    let Some(open) = pipe else { return false };
    match open.read(buffer) {
        Ok(0) => {
            *pipe = None;
            false
        }
        Ok(read) => {
            kept.take(&buffer[..read], tee);
            true
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => false,
        Err(_) => {
            *pipe = None;
            false
        }
    }
}

/// An output: in memory, and in a file once there is much of it.
struct Kept {
    bytes: Vec<u8>,
    spool: PathBuf,
    file: Option<File>,
    cut_off: bool,
}

impl Kept {
    fn new(spool: PathBuf) -> Self {
        Self { bytes: Vec::new(), spool, file: None, cut_off: false }
    }

    fn take(&mut self, piece: &[u8], tee: &mut Tee<'_>) {
        if let Some(tee) = tee {
            tee(piece);
        }
        // The command goes on, whether or not what it says can be kept.
        if self.cut_off {
            return;
        }
        if self.file.is_none() && self.bytes.len() + piece.len() <= INLINE {
            self.bytes.extend_from_slice(piece);
            return;
        }
        let mut keep = || -> io::Result<()> {
            if self.file.is_none() {
                File::create(&self.spool)?.write_all(&self.bytes)?;
                self.file = Some(File::options().append(true).open(&self.spool)?);
            }
            self.file.as_mut().map_or(Ok(()), |file| file.write_all(piece))
        };
        self.cut_off = keep().is_err();
    }

    /// What is told; a file goes to `target`. Whether something was lost on the way.
    fn output(self, target: PathBuf) -> (Output, bool) {
        let lossy = |bytes: &[u8]| Output::Text(String::from_utf8_lossy(bytes).into_owned());
        if self.file.is_some() {
            return match move_file(&self.spool, &target) {
                Ok(()) => (Output::File(target), false),
                // It stays where it is.
                Err(_) => (Output::File(self.spool), true),
            };
        }
        match String::from_utf8(self.bytes) {
            Ok(text) => (Output::Text(text), false),
            Err(error) => match std::fs::write(&target, error.as_bytes()) {
                Ok(()) => (Output::File(target), false),
                Err(_) => (lossy(error.as_bytes()), true),
            },
        }
    }
}

fn move_file(from: &std::path::Path, to: &std::path::Path) -> io::Result<()> {
    if from == to {
        return Ok(());
    }
    match std::fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            std::fs::copy(from, to)?;
            std::fs::remove_file(from)
        }
        other => other,
    }
}
