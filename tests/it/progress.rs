//! The line that says how far the work is: only on a terminal, only where it takes long, and gone at
//! the end.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::host::{skipped, text};
use crate::support::{Sandbox, next_second, read, write};

const ERASE: &str = "\r\u{1b}[K";

/// A repository whose snapshot takes over a second: a clean filter sleeps.
fn slow_repo(sandbox: &Sandbox) -> std::path::PathBuf {
    let repo = sandbox.repo("parent");
    write(&repo, ".gitattributes", "slow filter=slow\n");
    write(&repo, "slow", "one\n");
    sandbox.commit_all(&repo, "slow");
    sandbox.git(&repo, &["config", "filter.slow.clean", "sleep 1.5; cat"]);
    write(&repo, "slow", "another\n");
    next_second();
    repo
}

/// Runs isofold with stderr on a terminal and stdout in a file; both.
fn on_a_terminal(sandbox: &Sandbox, args: &[&str], environment: &[(&str, &str)]) -> Option<(String, String)> {
    if Command::new("script").arg("--version").output().is_err() {
        skipped("script (util-linux) is not installed");
        return None;
    }
    let out = sandbox.path("stdout");
    let program = sandbox.program();
    let words = [text(Path::new(program.get_program()))].into_iter().chain(args.iter().copied());
    let words: Vec<String> = words.map(|word| format!("'{word}'")).collect();
    let line = format!("{} > '{}'", words.join(" "), text(&out));
    let mut command = sandbox.command("script");
    command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env_remove("NO_COLOR").envs(environment.to_vec());
    let output = command.output().expect("script runs");
    assert!(output.status.success(), "{output:?}");
    let screen = String::from_utf8(output.stdout).expect("UTF-8");
    Some((screen, fs::read_to_string(out).expect("stdout")))
}

/// The same for an isolation.
fn isolated_on_a_terminal(
    sandbox: &Sandbox,
    parent: &Path,
    name: &str,
    environment: &[(&str, &str)],
) -> Option<(String, String)> {
    let child = sandbox.path(name);
    let args = ["isolate", "--id", name, "--parent", text(parent), "--child", text(&child)];
    on_a_terminal(sandbox, &args, environment)
}

/// What is left on the screen.
fn left(screen: &str) -> Vec<String> {
    let shown = |line: &str| line.rsplit(ERASE).next().unwrap_or_default().trim_end().to_owned();
    screen.split('\n').map(shown).filter(|line| !line.is_empty()).collect()
}

#[test]
fn it_appears_and_is_erased() {
    let sandbox = Sandbox::new();
    let parent = slow_repo(&sandbox);
    for (name, environment) in [("plain", &[][..]), ("colourless", &[("NO_COLOR", "1")])] {
        let Some((screen, out)) = isolated_on_a_terminal(&sandbox, &parent, name, environment) else { return };
        assert!(screen.contains(&format!("{ERASE}looking for changes")), "{screen:?}");
        let left = left(&screen);
        assert_eq!(left.len(), 1, "{screen:?}");
        assert!(left[0].starts_with("Isolated 6 files into "), "{left:?}");
        // No colour, ever; nothing of it on stdout.
        assert!(!screen.replace("\u{1b}[K", "").contains('\u{1b}'), "{screen:?}");
        assert!(!out.contains('\u{1b}') && !out.contains("looking"), "{out:?}");
        assert_eq!(out.lines().count(), 4);
    }
}

#[test]
fn a_copy_of_a_line_says_how_far_it_is() {
    let sandbox = Sandbox::new();
    let bare = sandbox.served("line", |work| {
        write(work, "a", "one\n");
        sandbox.commit_all(work, "first");
    });
    // The other side takes its time before it sends anything.
    let slow = "sh -c 'sleep 1.5; exec \"$@\"' --";
    sandbox.git(&sandbox.path("home"), &["config", "--global", "uploadpack.packObjectsHook", slow]);
    let remote = format!("file://{}", text(&bare));
    let reference = sandbox.reference(&remote, "main");
    let copy = sandbox.copy();
    let args = ["reference", "materialize", "--reference", text(&reference), "--copy", text(&copy), "--json"];
    let Some((screen, out)) = on_a_terminal(&sandbox, &args, &[]) else { return };
    assert!(screen.contains(&format!("{ERASE}cloning")), "{screen:?}");
    assert!(screen.ends_with(ERASE) && left(&screen).is_empty(), "{screen:?}");
    assert!(!screen.replace("\u{1b}[K", "").contains('\u{1b}'), "{screen:?}");
    assert!(out.starts_with("{\"kind\":\"materialized\"") && out.lines().count() == 1, "{out:?}");
    assert_eq!(read(&copy, "a").as_deref(), Some("one\n"));
    // Where it is quick there is nothing to see.
    sandbox.git(&sandbox.path("home"), &["config", "--global", "--unset", "uploadpack.packObjectsHook"]);
    fs::remove_dir_all(&copy).expect("it was made");
    let Some((screen, _)) = on_a_terminal(&sandbox, &args, &[("TERM", "dumb")]) else { return };
    assert_eq!(screen, "");
}

#[test]
fn quick_work_and_dumb_terminals_see_none() {
    let sandbox = Sandbox::new();
    let parent = slow_repo(&sandbox);
    let Some((screen, _)) = isolated_on_a_terminal(&sandbox, &parent, "dumb", &[("TERM", "dumb")]) else { return };
    assert!(!screen.contains('\u{1b}') && !screen.contains("looking"), "{screen:?}");
    sandbox.git(&parent, &["config", "filter.slow.clean", "cat"]);
    let Some((screen, _)) = isolated_on_a_terminal(&sandbox, &parent, "quick", &[]) else { return };
    assert!(!screen.contains('\u{1b}'), "{screen:?}");
}

#[test]
fn nothing_appears_where_nobody_watches() {
    let sandbox = Sandbox::new();
    let parent = slow_repo(&sandbox);
    let run = sandbox.try_isolate("piped", &parent, &sandbox.path("piped"), &[]).expect("isolated", 0);
    assert_eq!(run.stderr, "");
    assert!(!run.stdout.contains('\u{1b}'));
}
