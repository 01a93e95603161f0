//! The git program: the only place that spawns it.
//!
//! Every git runs with `LC_ALL=C`, without git's local environment variables, with stdin closed or
//! fed by us, without hooks, fsmonitor, background maintenance, prompts or a pager, and in a process
//! group of its own that is killed when the operation has to stop. It carries the environment of the
//! reference in force; only [`transport`] inherits the token.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::{GitError, one_line};
use crate::control::{Control, POLL};
use crate::environment;

/// Variables of git that describe the user and the machine, not one repository; all others that
/// start with `GIT_` are cleared.
const KEPT_VARIABLES: [&str; 18] = [
    "GIT_ATTR_NOSYSTEM",
    "GIT_AUTHOR_DATE",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_NAME",
    "GIT_COMMITTER_DATE",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM",
    "GIT_EXEC_PATH",
    "GIT_PROXY_COMMAND",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GIT_SSL_NO_VERIFY",
];

/// Configuration that every git here runs with.
const PINNED_CONFIG: [&str; 8] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "gc.auto=0",
    "maintenance.auto=false",
    "add.ignoreErrors=false",
    "commit.gpgSign=false",
    "advice.addEmbeddedRepo=false",
    "core.quotePath=true",
];

/// How long output may stay open after git itself is gone.
const STRAY_OUTPUT: Duration = Duration::from_secs(2);

/// Sees bytes as they come.
type Watch<'a> = &'a dyn Fn(&[u8]);

/// A git program bound to one git directory and work tree.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    repository: PathBuf,
    work_tree: PathBuf,
    env: Vec<(&'static str, OsString)>,
}

/// What a finished git left.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    command: String,
}

impl Finished {
    /// The output of a git that had to succeed.
    pub(crate) fn success(self) -> Result<Vec<u8>, GitError> {
        if self.code == Some(0) { Ok(self.stdout) } else { Err(self.failure()) }
    }

    /// The error that this exit is, in git's words.
    pub(crate) fn failure(&self) -> GitError {
        let mut words = one_line(&String::from_utf8_lossy(&self.stderr));
        if words.is_empty() {
            words = match self.code {
                Some(code) => format!("exit code {code}"),
                None => "killed by a signal".to_owned(),
            };
        }
        GitError::Program { command: self.command.clone(), code: self.code, words }
    }
}

impl Git {
    /// Git in `work_tree` with `git_dir` named outright, so that a `.git` found there is not obeyed.
    pub(crate) fn new(git_dir: &Path, work_tree: &Path) -> Self {
        Self { repository: git_dir.to_owned(), work_tree: work_tree.to_owned(), env: Vec::new() }
    }

    /// Sets a variable for every git of this value.
    #[must_use]
    pub(crate) fn with(mut self, key: &'static str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((key, value.as_ref().to_owned()));
        self
    }

    /// The same git, started in another directory.
    #[must_use]
    pub(crate) fn within(mut self, directory: &Path) -> Self {
        directory.clone_into(&mut self.work_tree);
        self
    }

    /// Runs git to its end or until `control` stops it; `input` goes to its stdin.
    pub(crate) fn run<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
        input: Option<Vec<u8>>,
        control: &Control,
    ) -> Result<Finished, GitError> {
        let args: Vec<OsString> = args.into_iter().map(|a| a.as_ref().to_owned()).collect();
        let mut command = plain_git(control);
        command
            .env("GIT_DIR", &self.repository)
            .env("GIT_WORK_TREE", &self.work_tree)
            .envs(self.env.iter().map(|(k, v)| (k, v)))
            .current_dir(&self.work_tree);
        execute(command, &self.work_tree, &args, input, None, control)
    }
}

/// Git outside of any repository, talking to a remote: the one git that inherits the token of the
/// environment in force, where that has use for it. What it says reaches `watch` line by line, and
/// nobody sees the token in it.
pub(crate) fn transport(args: &[OsString], watch: &dyn Fn(&str), control: &Control) -> Result<Finished, GitError> {
    let mut command = plain_git(control);
    // The configuration of a repository that happens to be above has no say.
    let outside = Path::new("/");
    // Nobody is there to answer: neither git nor ssh may ask on a terminal, and a trace that the machine's
    // configuration asks for could hold any variable.
    command.current_dir(outside).env("SSH_ASKPASS_REQUIRE", "force");
    for trace in ["GIT_TRACE2", "GIT_TRACE2_EVENT", "GIT_TRACE2_PERF"] {
        command.env(trace, "0");
    }
    let environment = control.environment();
    let given = environment.as_ref().is_some_and(|environment| environment.credential.is_some());
    if given || std::env::var_os("SSH_ASKPASS").is_none_or(|program| program.is_empty()) {
        // Set and empty, the first keeps git from falling back on the second.
        command.env("GIT_ASKPASS", "").env("SSH_ASKPASS", "false");
    }
    if let Some((variable, token)) = environment.as_ref().and_then(|environment| environment.token()) {
        command.env(variable, token);
    }
    let clean = |text: &str| environment.as_ref().map_or_else(|| text.to_owned(), |e| e.redacted(text));
    let unfinished = RefCell::new(Vec::new());
    let lines = |bytes: &[u8]| {
        let mut unfinished = unfinished.borrow_mut();
        unfinished.extend_from_slice(bytes);
        while let Some(end) = unfinished.iter().position(|b| matches!(b, b'\r' | b'\n')) {
            let line: Vec<u8> = unfinished.drain(..=end).collect();
            let line = one_line(&clean(&String::from_utf8_lossy(&line)));
            if !line.is_empty() {
                watch(&line);
            }
        }
    };
    let mut finished = execute(command, outside, args, None, Some(&lines), control)?;
    finished.stderr = clean(&String::from_utf8_lossy(&finished.stderr)).into_bytes();
    Ok(finished)
}

/// Git with nothing but what holds for every git of this process.
fn plain_git(control: &Control) -> Command {
    let mut command = Command::new("git");
    for (key, _) in std::env::vars_os() {
        let text = key.to_string_lossy();
        if text.starts_with("GIT_") && !KEPT_VARIABLES.contains(&&*text) {
            command.env_remove(&key);
        }
    }
    for variable in environment::withheld() {
        command.env_remove(variable);
    }
    if let Some(environment) = control.environment() {
        command.envs(environment.variables(0));
    }
    command.env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0").env("GIT_OPTIONAL_LOCKS", "0").arg("--no-pager");
    for config in PINNED_CONFIG {
        command.args(["-c", config]);
    }
    command
}

/// Runs a prepared git to its end or until `control` stops it; `watch` sees stderr as it comes.
fn execute(
    mut command: Command,
    place: &Path,
    args: &[OsString],
    input: Option<Vec<u8>>,
    watch: Option<Watch<'_>>,
    control: &Control,
) -> Result<Finished, GitError> {
    control.check()?;
    let mut words = args.iter().map(|a| a.to_string_lossy());
    let mut name = words.next().unwrap_or_default();
    // Settings of this one run come first.
    while name == "-c" {
        name = words.nth(1).unwrap_or_default();
    }
    let name = name.into_owned();
    command
        .args(args)
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    tracing::debug!(?args, "git");
    let mut child = command.spawn().map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound if place.is_dir() => GitError::NoProgram { needed_for: format!("git {name}") },
        _ => GitError::Io { act: "cannot start git in", path: place.to_owned(), source },
    })?;
    let [stdout, stderr] = pump(&mut child, input, watch, control)?;
    let status = child.wait().map_err(GitError::io("cannot wait for git in", place))?;
    Ok(Finished { code: status.code(), stdout, stderr, command: name })
}

/// Feeds and drains the child's pipes until they close; ends its process group on a stop.
fn pump(
    child: &mut Child,
    input: Option<Vec<u8>>,
    watch: Option<Watch<'_>>,
    control: &Control,
) -> Result<[Vec<u8>; 2], GitError> {
    let (sender, receiver) = mpsc::channel();
    if let (Some(mut pipe), Some(input)) = (child.stdin.take(), input) {
        // A git that stops reading early says why on stderr; a broken pipe here adds nothing.
        std::thread::spawn(move || drop(pipe.write_all(&input)));
    }
    let drain = |index: usize, mut pipe: Box<dyn Read + Send>| {
        let sender = sender.clone();
        std::thread::spawn(move || {
            let mut piece = vec![0; 64 * 1024];
            loop {
                match pipe.read(&mut piece) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    // Nothing says that the pipe is over.
                    Ok(0) | Err(_) => break drop(sender.send((index, Vec::new()))),
                    Ok(read) => drop(sender.send((index, piece[..read].to_vec()))),
                }
            }
        });
    };
    if let Some(pipe) = child.stdout.take() {
        drain(0, Box::new(pipe));
    }
    if let Some(pipe) = child.stderr.take() {
        drain(1, Box::new(pipe));
    }
    let mut outputs = [Vec::new(), Vec::new()];
    let mut open = 2;
    let mut gone_since: Option<Instant> = None;
    while open > 0 {
        if let Err(stop) = control.check() {
            end_group(child);
            return Err(stop.into());
        }
        if let Ok((index, bytes)) = receiver.recv_timeout(POLL) {
            open -= usize::from(bytes.is_empty());
            if let Some(watch) = watch.filter(|_| index == 1) {
                watch(&bytes);
            }
            outputs[index].extend(bytes);
            continue;
        }
        if gone_since.is_none() && matches!(child.try_wait(), Ok(Some(_))) {
            gone_since = Some(Instant::now());
        }
        if gone_since.is_some_and(|since| since.elapsed() > STRAY_OUTPUT) {
            break;
        }
    }
    Ok(outputs)
}

/// Kills the child's whole group and reaps the child.
fn end_group(child: &mut Child) {
    let pid = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
    let _ = child.wait();
}
