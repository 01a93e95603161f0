//! A reference line in a sandbox: commands that act for it with a token, on a machine that does its best
//! to let the token leak, and the search for it afterwards.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use super::host::text;
use super::servers::Watch;
use super::{Run, Sandbox, write};

/// The variable with the token; its name begins like those that git is run without.
pub(crate) const VARIABLE: &str = "GIT_LINE_TOKEN";
/// The token: no two forms of it are alike.
pub(crate) const TOKEN: &str = "s3cr/t+Tok~en=0123456789?";

/// The token as it could leak: raw, in a URL, in a header.
pub(crate) fn forms() -> Vec<String> {
    let percent = |hex: fn(u8) -> String| -> String {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
        TOKEN.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { hex(b) }).collect()
    };
    let mut forms = vec![TOKEN.to_owned(), percent(|b| format!("%{b:02X}")), percent(|b| format!("%{b:02x}"))];
    // The last letter depends on what follows.
    let base64 = |text: String| {
        let mut encoded = STANDARD_NO_PAD.encode(text);
        encoded.pop();
        encoded
    };
    forms.push(base64(TOKEN.to_owned()));
    forms.push(base64(format!("x-access-token:{TOKEN}")));
    forms
}

/// Whether a process may have the token in its environment: the program itself, a git that talks to a
/// remote, and what such a git runs for it.
fn may_have_it(arguments: &str) -> bool {
    let transports = ["remote-http", "index-pack", "rev-list", "credential", "f() {", "fetch-pack", "unpack-objects"];
    let first = arguments.split(' ').next().unwrap_or_default();
    first.ends_with("/isofold")
        || arguments.contains(" clone --no-local ")
        || arguments.contains(" ls-remote ")
        || transports.iter().any(|word| arguments.contains(word))
}

/// A started command and who watches it.
pub(crate) struct Watched {
    child: Child,
    watch: Watch,
    started: Instant,
}

impl Watched {
    /// Starts a command, under watch.
    pub(crate) fn start(mut command: Command) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let watch = Watch::start(child.id(), forms(), may_have_it);
        Self { child, watch, started: Instant::now() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end; neither while it ran nor in what it printed the token was seen.
    #[track_caller]
    pub(crate) fn finish(self, sandbox: &Sandbox) -> Run {
        self.finish_at(sandbox).0
    }

    /// The same, and when it ended.
    #[track_caller]
    pub(crate) fn finish_at(self, sandbox: &Sandbox) -> (Run, Instant) {
        let output = self.child.wait_with_output().expect("an end");
        let ended = Instant::now();
        let (looks, found) = self.watch.finish();
        // What is over in a moment may be seen once only.
        let often = looks > 1 || ended.duration_since(self.started) < Duration::from_millis(500);
        assert!(often && found.is_empty(), "{looks} looks found {found:#?}");
        let run = Run::of(&output);
        for form in forms() {
            assert!(!run.stdout.contains(&form) && !run.stderr.contains(&form), "{form} is in {run:?}");
        }
        sandbox.no_token_lies_around();
        (run, ended)
    }
}

impl Sandbox {
    /// A machine that would tell everybody: traces, helpers, prompts and hooks that all leave something
    /// behind in `told/`.
    pub(crate) fn talkative(&self) {
        let told = self.path("told");
        fs::create_dir_all(&told).expect("a directory");
        let script = |name: &str, body: &str| {
            let path = self.path(&format!("tools/{name}"));
            write(&self.path("tools"), name, format!("#!/bin/sh\n{body}\n"));
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
            text(&path).to_owned()
        };
        let told = text(&told);
        let helper = script("helper", &format!("cat > {told}/helper; echo username=u; echo password=p"));
        script("askpass", &format!("touch {told}/askpass; echo p"));
        script("filter", &format!("env > {told}/filter; cat"));
        for hook in ["post-checkout", "reference-transaction", "post-index-change"] {
            script(hook, &format!("env > {told}/hook"));
        }
        let tools = text(&self.path("tools")).to_owned();
        for (key, value) in [
            ("credential.helper", helper.as_str()),
            ("credential.https://localhost.helper", &helper),
            ("core.askPass", &format!("{tools}/askpass")),
            ("core.hooksPath", &tools),
            ("filter.tell.smudge", &format!("{tools}/filter")),
            ("filter.tell.clean", &format!("{tools}/filter")),
            ("trace2.eventTarget", &format!("{told}/event")),
            ("trace2.envVars", VARIABLE),
        ] {
            self.git(&self.root, &["config", "--global", key, value]);
        }
    }

    /// The program with the token in its environment and every trace switched on.
    pub(crate) fn acting(&self, token: Option<&str>) -> Command {
        let mut command = self.program();
        for trace in ["GIT_TRACE", "GIT_TRACE_CURL", "GIT_TRACE_PACKET", "GIT_TRACE_SETUP", "GIT_TRACE2_EVENT"] {
            command.env(trace, self.path(&format!("told/{trace}")));
        }
        command.env("GIT_CURL_VERBOSE", "1").env("GIT_TRACE_REDACT", "0").env("RUST_LOG", "trace");
        for askpass in ["GIT_ASKPASS", "SSH_ASKPASS"] {
            command.env(askpass, self.path("tools/askpass"));
        }
        match token {
            Some(token) => command.env(VARIABLE, token),
            None => command.env_remove(VARIABLE),
        };
        command
    }

    /// `isofold reference materialize` of a line into `copy/`, with the token.
    pub(crate) fn materialize(&self, remote: &str, branch: &str, token: Option<&str>) -> Run {
        let command = self.materializing(remote, branch, token);
        let run = Watched::start(command).finish(self);
        assert_ne!(run.code, 2, "{run:?}");
        if run.code == 0 {
            assert!(run.stderr.is_empty(), "{run:?}");
        } else {
            assert!(run.stdout.is_empty(), "{run:?}");
            self.nothing_was_made();
        }
        run
    }

    /// The same, still to be started.
    pub(crate) fn materializing(&self, remote: &str, branch: &str, token: Option<&str>) -> Command {
        let reference = self.reference(remote, branch);
        let mut command = self.acting(token);
        command.args(["reference", "materialize", "--reference"]).arg(reference).arg("--copy").arg(self.copy());
        command
    }

    /// Where the copy comes; the directory above is not there either.
    pub(crate) fn copy(&self) -> PathBuf {
        self.path("made/copy")
    }

    /// A file with a reference to the line, that has an author and names the variable.
    pub(crate) fn reference(&self, remote: &str, branch: &str) -> PathBuf {
        let text = format!(
            "remote = \"{remote}\"\nbranch = \"{branch}\"\ncredentialEnv = \"{VARIABLE}\"\n\
             author = {{ name = \"Line Bot\", email = \"bot@line.test\" }}\n"
        );
        write(&self.root, "reference.toml", text);
        self.path("reference.toml")
    }

    /// Asserts that no directory was left by a copy that was not made.
    #[track_caller]
    pub(crate) fn nothing_was_made(&self) {
        assert!(
            fs::symlink_metadata(self.path("made")).is_err(),
            "something is left in {}",
            self.path("made").display()
        );
    }

    /// Asserts that no file of the sandbox holds the token, but what belongs to the servers.
    #[track_caller]
    pub(crate) fn no_token_lies_around(&self) {
        let needles = self.path("secret/forms");
        write(&self.path("secret"), "forms", forms().join("\n"));
        let mut grep = self.command("grep");
        grep.args(["-rlaF", "--exclude-dir=secret", "-f"]).arg(&needles).arg(&self.root);
        let output = grep.output().expect("grep runs");
        let found = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(
            (output.status.code(), found.as_str()),
            (Some(1), ""),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// What tools and traces of the machine were told, but for the trace that the tests' own git writes;
    /// it would have the token in it if one of isofold's gits did.
    pub(crate) fn told(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("told")).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|e| e.file_name().to_string_lossy().into_owned()).filter(|name| name != "event").collect();
        names.sort();
        names
    }

    /// A real git that acts for the line in the copy, by what `isofold reference env` prints.
    pub(crate) fn acting_git(&self, directory: &Path, token: Option<&str>, args: &[&str]) -> (i32, String) {
        let mut printed = self.acting(token);
        // Settings of the caller stay in force before those that are added.
        printed.env("GIT_CONFIG_COUNT", "1").args(["reference", "env", "--reference"]).arg(self.path("reference.toml"));
        let run = Watched::start(printed).finish(self);
        assert_eq!(run.code, 0, "{run:?}");
        let mut command = self.command("git");
        command
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "core.hooksPath")
            .env("GIT_CONFIG_VALUE_0", "/dev/null");
        command.envs(run.stdout.lines().map(|line| line.split_once('=').expect("K=V")));
        if let Some(token) = token {
            // What the user's own trace tells of the user's own git is theirs to know.
            command.env(VARIABLE, token).env("GIT_TRACE2_EVENT", "0");
        }
        let output = command.arg("-C").arg(directory).args(args).output().expect("git runs");
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned())
    }
}

/// Waits until there is none of the processes of a group any more, for a short while.
#[track_caller]
pub(crate) fn all_gone(root: &Path) {
    let since = Instant::now();
    let still = || {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let commands = processes.map(|p| fs::read(p.path().join("cmdline")).unwrap_or_default());
        let commands = commands.map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "));
        commands.filter(|c| c.contains(text(root)) && !c.contains("/secret/") && c.contains("git")).collect::<Vec<_>>()
    };
    while !still().is_empty() {
        assert!(since.elapsed() < Duration::from_secs(2), "{:?}", still());
        std::thread::sleep(Duration::from_millis(10));
    }
}
