//! `branch-name-of`, `--version`, `--help`, and commands that are not there.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use crate::support::host::text;
use crate::support::{Run, Sandbox};

/// The two ways to ask for a branch's name.
fn both(sandbox: &Sandbox) -> [Command; 2] {
    let mut command = sandbox.program();
    command.arg("branch-name-of");
    [command, sandbox.command(env!("CARGO_BIN_EXE_branch-name-of"))]
}

#[test]
fn branch_names_are_printed_one_a_line() {
    let sandbox = Sandbox::new();
    for mut command in both(&sandbox) {
        command.args([
            "github:owner/repo#9",
            "github:owner/repo#9:s1",
            "Feature: add a helper!",
            "",
            "--id",
            "-x",
            "a\nb",
        ]);
        let run = Run::of_command(&mut command);
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(
            run.stdout,
            "issue/9\nissue/9-s1\nissue/feature-add-a-helper\nissue/isolation\nissue/id\nissue/x\nissue/a-b\n"
        );
        assert_eq!(run.stderr, "");
    }
}

#[test]
fn branch_name_of_refuses_no_id_and_raw_bytes() {
    let sandbox = Sandbox::new();
    for raw in [false, true] {
        for mut command in both(&sandbox) {
            if raw {
                command.arg("fine").arg(OsStr::from_bytes(b"a\xff"));
            }
            let run = Run::of_command(&mut command);
            assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{run:?}");
            let words = if raw { "not UTF-8" } else { "no id" };
            assert!(run.stderr.starts_with("error: ") && run.stderr.contains(words), "{run:?}");
        }
    }
}

#[test]
fn the_version_is_printed() {
    let sandbox = Sandbox::new();
    let version = env!("CARGO_PKG_VERSION");
    for flag in ["--version", "-V"] {
        let run = sandbox.isofold([flag]);
        assert_eq!((run.code, run.stdout), (0, format!("isofold {version}\n")));
    }
    for args in [["--version", "--json"], ["--json", "--version"]] {
        let run = sandbox.isofold(args);
        assert_eq!(run.code, 0);
        assert_eq!(run.lines().len(), 1);
        assert_eq!(run.last()["version"], version);
        assert_eq!(run.last()["name"], "isofold");
        assert!(run.last()["protocol"].is_u64(), "{run:?}");
    }
}

#[test]
fn what_is_not_there_is_a_usage_error() {
    let sandbox = Sandbox::new();
    for args in [&["no-such-command"][..], &[], &["--bogus"], &["--json"], &["Isolate"]] {
        let run = sandbox.isofold(args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}: {run:?}");
        assert!(run.stderr.starts_with("error: ") && run.stderr.contains("\n\nhint: "), "{run:?}");
    }
}

#[test]
fn help_names_every_flag() {
    let sandbox = Sandbox::new();
    let help = sandbox.isofold(["--help"]);
    assert_eq!(help.code, 0);
    for command in ["isolate", "fold", "remove", "branch-name-of"] {
        assert!(help.stdout.contains(command), "{command}");
    }
    for (command, flags) in [
        ("isolate", &["--id", "--detach", "--parent", "--child", "--context", "--duration-ms", "--options"][..]),
        ("fold", &["--id", "--subject", "--merge-subject", "--onto-current", "--dry-run", "--on-status"]),
        ("remove", &["--child", "--force"]),
    ] {
        let help = sandbox.isofold([command, "--help"]);
        assert_eq!(help.code, 0);
        for flag in flags {
            assert!(help.stdout.contains(flag), "{command} {flag}");
        }
    }
}

#[test]
fn a_reader_that_goes_away_changes_no_outcome() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let child = sandbox.path("child");
    let mut command = sandbox.program();
    command.args(["isolate", "--id", "w", "--parent", text(&parent), "--child", text(&child)]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let status = command.stdout(writer).status().expect("isofold runs");
    assert_eq!(status.code(), Some(0));
    assert!(child.join("a").exists());
}
