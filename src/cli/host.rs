//! The host face: one JSON object a line, statuses, the clock and signals.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use isofold::{Control, Reference, Strategy};
use serde_json::{Map, Value};

use super::args::HostArgs;
use super::{INVALID, output};

/// How long a command of `--on-status` may take.
const ON_STATUS_LIMIT: Duration = Duration::from_secs(5);

/// Which of the two jobs speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Face {
    Isolation,
    Integration,
}

impl Face {
    fn event(self, what: &str) -> String {
        let name = match self {
            Self::Isolation => "isolation",
            Self::Integration => "integration",
        };
        format!("{name}-{what}")
    }
}

/// Arguments that passed the checks which need no file system.
pub(crate) struct Job {
    pub(crate) id: Option<String>,
    pub(crate) parent: PathBuf,
    pub(crate) child: PathBuf,
    pub(crate) strategy: Strategy,
    pub(crate) control: Control,
}

/// The lines of one job.
pub(crate) struct Protocol {
    face: Face,
    key: Option<String>,
    id: Option<String>,
    on_status: Vec<OsString>,
    /// The variable with a token, which the command must not see.
    token: Option<String>,
    control: Control,
}

/// Checks arguments in the order of the contract; on the first that fails the invalid lines are
/// printed.
pub(crate) fn begin(face: Face, args: HostArgs, id_needed: bool) -> Result<(Protocol, Job), ExitCode> {
    let id = args.id.as_deref().map(|id| id.to_str().map(str::to_owned));
    let known = id.clone().flatten().filter(|id| !id.is_empty());
    let checked = || -> Result<Option<Duration>, String> {
        if args.on_status && args.argv.is_empty() {
            return Err("--on-status needs a command after --".to_owned());
        }
        if !args.on_status && !args.argv.is_empty() {
            return Err("a command after -- needs --on-status".to_owned());
        }
        match &id {
            Some(None) => return Err("--id is not UTF-8".to_owned()),
            Some(Some(id)) if !id.is_empty() => {}
            _ if id_needed => return Err("--id is missing or empty".to_owned()),
            _ => {}
        }
        let missing = |path: &Option<PathBuf>| path.as_ref().is_none_or(|p| p.as_os_str().is_empty());
        if missing(&args.parent) {
            return Err("--parent is missing".to_owned());
        }
        if missing(&args.child) {
            return Err("--child is missing".to_owned());
        }
        args.duration_ms.as_deref().map(duration).transpose()
    };
    // Whatever comes of the arguments. A file that can't be used is the job's to report.
    let token = args.reference.as_deref().and_then(|file| Reference::from_file(file).ok());
    let token = token.and_then(|reference| reference.credential_env().map(str::to_owned));
    let limit = match checked() {
        Ok(limit) => limit,
        Err(why) => {
            // A command that is there only by mistake is not run.
            let on_status = if args.on_status { args.argv } else { Vec::new() };
            let protocol = Protocol { face, key: None, id: known, on_status, token, control: Control::new() };
            return Err(protocol.invalid(&why));
        }
    };
    let interrupt = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        if let Err(error) = signal_hook::flag::register(signal, interrupt.clone()) {
            return Err(refuse(face, known.as_deref(), &format!("signals can't be caught: {error}")));
        }
    }
    let control = limit.map_or_else(Control::new, Control::with_clock).with_interrupt_flag(interrupt);
    let strategy = match args.options {
        Some(file) => Strategy::with_options_file(file),
        None => Strategy::new(),
    };
    let strategy = match args.reference {
        Some(file) => strategy.with_reference_file(file),
        None => strategy,
    };
    let protocol = Protocol {
        face,
        key: args.context.map(|key| key.to_string_lossy().into_owned()),
        id: known.clone(),
        on_status: args.argv,
        token,
        control: control.clone(),
    };
    let job = Job {
        id: known,
        parent: args.parent.unwrap_or_default(),
        child: args.child.unwrap_or_default(),
        strategy,
        control,
    };
    Ok((protocol, job))
}

pub(crate) fn duration(text: &OsStr) -> Result<Duration, String> {
    let parsed = text.to_str().filter(|t| t.bytes().all(|b| b.is_ascii_digit())).and_then(|t| t.parse::<u64>().ok());
    match parsed {
        Some(milliseconds) if milliseconds > 0 => Ok(Duration::from_millis(milliseconds)),
        _ => Err(format!("--duration-ms must be a positive whole number, not {:?}", text.to_string_lossy())),
    }
}

/// Prints the lines of an invalid invocation: no `key`, the bare label.
pub(crate) fn refuse(face: Face, id: Option<&str>, why: &str) -> ExitCode {
    let protocol = Protocol {
        face,
        key: None,
        id: id.map(str::to_owned),
        on_status: Vec::new(),
        token: None,
        control: Control::new(),
    };
    protocol.invalid(why)
}

/// The value of `--id` in arguments that could not be parsed.
pub(crate) fn id_in(arguments: &[OsString]) -> Option<String> {
    let mut arguments = arguments.iter().map(|a| a.to_str());
    while let Some(argument) = arguments.next() {
        let found = match argument {
            Some("--") => return None,
            Some("--id") => arguments.next().flatten(),
            other => other.and_then(|a| a.strip_prefix("--id=")),
        };
        if let Some(id) = found.filter(|id| !id.is_empty()) {
            return Some(id.to_owned());
        }
    }
    None
}

impl Protocol {
    /// Prints a line: `key` first, `id` last.
    fn say(&self, fields: Vec<(&str, Value)>) {
        let mut object = Map::new();
        if let Some(key) = &self.key {
            object.insert("key".to_owned(), key.clone().into());
        }
        for (name, value) in fields {
            object.insert(name.to_owned(), value);
        }
        if let Some(id) = &self.id {
            object.insert("id".to_owned(), id.clone().into());
        }
        output::line(&Value::Object(object).to_string());
    }

    /// A status line, then the command of `--on-status`.
    pub(crate) fn status(&self, phase: &str) {
        let label = match &self.id {
            Some(id) if phase != "invalid" => format!("{phase}:{id}"),
            _ => phase.to_owned(),
        };
        self.say(vec![("event", "status".into()), ("phase", phase.into()), ("label", label.clone().into())]);
        if !self.on_status.is_empty() {
            self.control.paused(|| self.tell_command(phase, &label));
        }
    }

    pub(crate) fn started(&self) {
        self.say(vec![("event", self.face.event("started").into())]);
    }

    /// The last line.
    pub(crate) fn finished(&self, outcome: &str, fields: Vec<(&str, Value)>) {
        let mut all = vec![("event", self.face.event("finished").into()), ("outcome", outcome.into())];
        all.extend(fields);
        self.say(all);
    }

    /// The lines of an invocation that nobody can carry out.
    pub(crate) fn invalid(self, why: &str) -> ExitCode {
        let plain = Self { key: None, ..self };
        plain.status("invalid");
        plain.finished("invalid-invocation", vec![("report", why.into())]);
        output::tell(&format!("error: {why}"));
        ExitCode::from(INVALID)
    }

    /// Status, last line and exit code of a job that ended without success.
    pub(crate) fn ended(&self, phase: &str, report: &str, fields: Vec<(&str, Value)>, code: u8) -> ExitCode {
        self.status(phase);
        let mut all = vec![("report", report.into())];
        all.extend(fields);
        self.finished(phase, all);
        output::tell(&format!("error: {report}"));
        ExitCode::from(code)
    }

    /// Runs the command of `--on-status`; whatever it does changes nothing.
    fn tell_command(&self, phase: &str, label: &str) {
        let Some((program, arguments)) = self.on_status.split_first() else { return };
        let mut command = Command::new(program);
        command.args(arguments);
        if let Some(id) = &self.id {
            command.arg("--id").arg(id);
        }
        command.args(["--label", label, "--phase", phase]).stdin(Stdio::null()).process_group(0);
        if let Some(token) = &self.token {
            command.env_remove(token);
        }
        // Its output must not mix with the lines on stdout.
        if let Ok(stderr) = std::io::stderr().as_fd().try_clone_to_owned() {
            command.stdout(stderr);
        } else {
            command.stdout(Stdio::null());
        }
        let Ok(mut child) = command.spawn() else { return };
        let since = Instant::now();
        while since.elapsed() < ON_STATUS_LIMIT {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            // Whoever asks us to stop does not wait for it.
            if self.control.is_interrupted() {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
        let _ = child.wait();
    }
}

/// Paths as JSON; bytes that are not UTF-8 are replaced.
pub(crate) fn paths(list: &[PathBuf]) -> Value {
    list.iter().map(|path| Value::from(path.to_string_lossy())).collect()
}
