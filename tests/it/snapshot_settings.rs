//! Configuration that the environment names (git(1), `GIT_CONFIG_GLOBAL` and its like): a snapshot goes by the
//! files that git reads, and by no others.

use std::fs;
use std::path::Path;

use crate::snapshot_table::Want::{Git, Here};
use crate::snapshot_table::{Case, run, shell};
use crate::support::Sandbox;
use crate::support::snapshots::hermetic;

/// Settings that show: line endings are converted, `x` is ignored.
const SHOWS: &str = "[core]\n\tautocrlf = input\n\texcludesFile = ~/ex\n";

/// Runs cases under a home with `files` and variables, in whose values `@` stands for that home.
fn under(test: &str, files: &[(&str, &str)], variables: &[(&str, &str)], cases: &[Case]) {
    let s = Sandbox::new();
    let home = s.path("a-home");
    fs::create_dir_all(home.join(".config/git")).expect("made");
    fs::write(home.join("ex"), "x\n").expect("written");
    for (path, content) in files {
        fs::write(home.join(path), content).expect("written");
    }
    let home = home.to_str().expect("UTF-8");
    let mut more = vec![("HOME", home.to_owned()), ("XDG_CONFIG_HOME", format!("{home}/.config"))];
    more.extend(variables.iter().map(|(name, value)| (*name, value.replace('@', home))));
    let more: Vec<(&str, &str)> = more.iter().map(|(name, value)| (*name, value.as_str())).collect();
    hermetic(&format!("snapshot_settings::{test}"), false, &more, || run(&shell(cases)));
    assert!(Path::new(home).is_dir());
}

/// What these settings, or none, make of a work tree is git's to say: every case compares with it.
const CASES: &[Case] = &[
    ("line endings", Here, "w a '1\\r\\n'; w b '1\\r\\n\\000'"),
    ("an ignore file", Here, "w a; w x; w d/x"),
    (
        "the repository has the last word",
        Here,
        "git config core.autocrlf false; git config core.excludesFile ''; w a '1\\r\\n'; w x",
    ),
    (
        "the work tree has it before that",
        Here,
        "git config extensions.worktreeConfig true; git config core.autocrlf input; \
         git config --worktree core.autocrlf false; w a '1\\r\\n'",
    ),
    ("a condition of an include is git's", Git, "git config includeIf.gitdir:/.path /nowhere; w a '1\\r\\n'"),
];

#[test]
fn a_file_for_the_user() {
    under("a_file_for_the_user", &[("other", SHOWS)], &[("GIT_CONFIG_GLOBAL", "@/other")], CASES);
}

#[test]
fn a_file_that_includes_another() {
    let files = [("other", "[include]\n\tpath = more\n"), ("more", SHOWS)];
    under("a_file_that_includes_another", &files, &[("GIT_CONFIG_GLOBAL", "@/other")], CASES);
}

#[test]
fn no_file_for_the_user() {
    let files = [(".gitconfig", SHOWS), (".config/git/config", SHOWS)];
    under("no_file_for_the_user", &files, &[("GIT_CONFIG_GLOBAL", "/dev/null")], CASES);
}

#[test]
fn a_file_for_the_user_that_is_not_there() {
    let files = [(".gitconfig", SHOWS), (".config/git/config", SHOWS)];
    under("a_file_for_the_user_that_is_not_there", &files, &[("GIT_CONFIG_GLOBAL", "@/none")], CASES);
}

#[test]
fn a_file_for_the_machine() {
    let variables = [("GIT_CONFIG_NOSYSTEM", "0"), ("GIT_CONFIG_SYSTEM", "@/other")];
    under("a_file_for_the_machine", &[("other", SHOWS)], &variables, CASES);
}

#[test]
fn a_file_for_the_machine_that_does_not_count() {
    let variables = [("GIT_CONFIG_NOSYSTEM", "yes"), ("GIT_CONFIG_SYSTEM", "@/other")];
    under("a_file_for_the_machine_that_does_not_count", &[("other", SHOWS)], &variables, CASES);
}

#[test]
fn the_usual_files_beside_one_for_the_machine() {
    let files = [(".config/git/config", SHOWS), (".gitconfig", "[core]\n\tautocrlf = false\n"), ("other", "")];
    let variables = [("GIT_CONFIG_NOSYSTEM", "0"), ("GIT_CONFIG_SYSTEM", "@/other")];
    under("the_usual_files_beside_one_for_the_machine", &files, &variables, CASES);
}

#[test]
fn conditions_are_left_to_git() {
    let condition = "[includeIf \"gitdir:/**\"]\n\tpath = more\n";
    let cases: &[Case] = &[("line endings", Git, "w a '1\\r\\n'"), ("an ignore file", Git, "w a; w x")];
    let files = [("other", condition), ("more", SHOWS)];
    under("conditions_are_left_to_git", &files, &[("GIT_CONFIG_GLOBAL", "@/other")], cases);
}

#[test]
fn an_empty_name_is_no_file() {
    let files = [(".gitconfig", SHOWS), ("other", SHOWS)];
    under("an_empty_name_is_no_file", &files, &[("GIT_CONFIG_GLOBAL", "")], CASES);
}

#[test]
fn a_relative_name_is_left_to_git() {
    let cases: &[Case] = &[("line endings", Git, "w a '1\\r\\n'"), ("an ignore file", Git, "w a; w x")];
    under("a_relative_name_is_left_to_git", &[], &[("GIT_CONFIG_GLOBAL", "no-such-file")], cases);
}
