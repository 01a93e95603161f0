//! `isofold capture` through the program.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::host::{same, text, wait_for};
use crate::support::{Run, Sandbox, raw_name, read, write};

fn try_capture(s: &Sandbox, repo: &Path, more: &[&str]) -> Run {
    s.isofold(["capture", "--repo-path", text(repo)].iter().chain(more))
}

/// What must not change; objects that a command's own git left are nobody's.
fn state(s: &Sandbox, repo: &Path) -> String {
    let mut text = s.state(repo);
    while let Some(at) = text.find("dangling ") {
        // `dangling KIND ID`, a line each.
        let id = text[at..].match_indices(' ').nth(1).map_or(text.len(), |(space, _)| at + space + 1);
        let end = (id + 40).min(text.len());
        let line = usize::from(text[end..].starts_with('\n'));
        text.replace_range(at..end + line, "");
    }
    text
}

/// A capture that has to succeed and to leave nothing but its patch; its last line.
#[track_caller]
fn capture(s: &Sandbox, repo: &Path, more: &[&str]) -> Value {
    let before = state(s, repo);
    let run = try_capture(s, repo, more).expect("captured", 0);
    assert_eq!(run.lines().len(), 1, "{run:?}");
    same(&state(s, repo), &before, "the original work tree");
    assert_eq!(run.last()["warnings"], serde_json::json!([]), "{run:?}");
    run.last()
}

#[track_caller]
fn shell(s: &Sandbox, repo: &Path, command: &str) -> Value {
    capture(s, repo, &["--command", command])
}

fn patch_of(line: &Value) -> PathBuf {
    PathBuf::from(line["patch"].as_str().unwrap_or_else(|| panic!("no patch: {line}")))
}

/// Applies a patch to a fresh checkout of the base, as anybody would; the tree.
#[track_caller]
fn applied(s: &Sandbox, repo: &Path, line: &Value) -> PathBuf {
    let fresh = s.path("applied");
    if fresh.exists() {
        s.git(repo, &["worktree", "remove", "--force", text(&fresh)]);
    }
    s.git(repo, &["worktree", "add", "-q", "--detach", text(&fresh), line["base"].as_str().expect("a base")]);
    let patch = patch_of(line);
    if fs::metadata(&patch).expect("a patch").len() > 0 {
        s.git(&fresh, &["apply", "--index", text(&patch)]);
    }
    fresh
}

#[test]
fn a_command_its_output_and_its_patch() {
    let s = Sandbox::new();
    let repo = s.repo("repo");
    let line = shell(&s, &repo, "echo out; echo err >&2; pwd > place; echo x >> a; rm b; touch ignored.log; exit 3");
    assert_eq!((&line["exit_code"], &line["files"], &line["timed_out"]), (&3.into(), &3.into(), &false.into()));
    assert_eq!((line["stdout"].as_str(), line["stderr"].as_str()), (Some("out\n"), Some("err\n")));
    assert_eq!((&line["ignored"], &line["base"]), (&1.into(), &s.git(&repo, &["rev-parse", "HEAD"]).into()));
    let fresh = applied(&s, &repo, &line);
    assert!(!fresh.join("b").exists() && read(&fresh, "a").is_some_and(|a| a.ends_with("l19\nx\n")));
    // It ran in the root of a worktree beside the patch, which is gone.
    let place = read(&fresh, "place").expect("a place");
    assert_eq!(Path::new(place.trim_end()).parent(), patch_of(&line).parent());
    assert!(!Path::new(place.trim_end()).exists());
    // The directory of the patch is its owner's alone.
    let mode = fs::metadata(patch_of(&line).parent().expect("a directory")).expect("a stat").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn nothing_done_is_an_empty_patch() {
    let s = Sandbox::new();
    let repo = s.repo("repo");
    let line = capture(&s, &repo, &["--", "true"]);
    assert_eq!((&line["files"], &line["exit_code"]), (&0.into(), &0.into()));
    assert_eq!(fs::read(patch_of(&line)).expect("a patch"), b"");
}

#[test]
fn where_it_starts() {
    let s = Sandbox::new();
    let repo = s.repo("repo");
    write(&repo, "second", "2\n");
    s.commit_all(&repo, "second");
    write(&repo, "a", "dirty\n");
    write(&repo, "untracked", "u\n");
    write(&repo, ".env", "SECRET=1\n");
    write(&repo, "ignored/cache", "c\n");
    let files = |line: &Value| {
        line["stdout"].as_str().unwrap_or_default().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let ls = ["--command", "ls -A; head -1 a; echo more >> a"];
    let line = capture(&s, &repo, &ls);
    assert_eq!(files(&line), [".git", ".gitignore", "a", "b", "dir", "second", "l0"]);
    let line = capture(&s, &repo, &[&["--base-ref", "HEAD~"][..], &ls].concat());
    assert_eq!(files(&line), [".git", ".gitignore", "a", "b", "dir", "l0"]);
    assert_eq!(line["base"].as_str(), Some(s.git(&repo, &["rev-parse", "HEAD~"]).as_str()));
    // From a subdirectory, and from the working files as they are.
    let dir = repo.join("dir");
    let before = state(&s, &repo);
    let run = s.isofold(["-C", text(&dir), "capture", "--from-dirty"].iter().chain(&ls)).expect("captured", 0);
    same(&state(&s, &repo), &before, "from the working files");
    let line = run.last();
    assert_eq!(files(&line), [".git", ".gitignore", "a", "b", "dir", "ignored", "second", "untracked", "dirty"]);
    assert_eq!(line["files"], 1);
    // That patch is for the files as they are.
    s.git(&repo, &["apply", text(&patch_of(&line))]);
    assert_eq!(read(&repo, "a").as_deref(), Some("dirty\nmore\n"));
    assert_eq!(s.git(&repo, &["for-each-ref", "refs/isofold"]), "");
}

#[test]
fn stdin_output_tee_and_the_environment() {
    let s = Sandbox::new();
    let repo = s.repo("repo");
    write(&s.path(""), "input", "given\n");
    let out = s.path("out put");
    fs::create_dir(&out).expect("made");
    let command = "cat; echo \"$ISOFOLD_WORKTREE|$ISOFOLD_REPOSITORY|$ISOFOLD_BASE|$LC_ALL|$GIT_DIR|$GIT_AUTHOR_NAME\"; echo live >&2";
    let mut program = s.program();
    program.args(["-C", text(&repo), "capture", "--tee", "--stdin", text(&s.path("input")), "--output", text(&out)]);
    program.args(["--command", command]).env("LC_ALL", "C.UTF-8").env("GIT_AUTHOR_NAME", "Me");
    program.env("GIT_INDEX_FILE", "/nowhere").env("GIT_DIR", s.path("elsewhere")).env("GIT_CONFIG_COUNT", "0");
    let output = program.output().expect("isofold runs");
    let line: Value = serde_json::from_slice(&output.stdout).expect("one line");
    let stdout = line["stdout"].as_str().expect("text");
    let head = s.git(&repo, &["rev-parse", "HEAD"]);
    assert!(stdout.starts_with("given\n"), "{stdout}");
    assert!(stdout.ends_with(&format!("|{}|{head}|C.UTF-8||Me\n", repo.display())), "{stdout}");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("given\n") && told.contains("live\n"), "{told}");
    assert_eq!(patch_of(&line).parent(), Some(out.as_path()));
    assert_eq!(fs::read_dir(&out).expect("readable").count(), 1);
}

#[test]
fn long_output_and_output_that_is_no_text_go_to_files() {
    let s = Sandbox::new();
    let repo = s.repo("repo");
    let line = shell(&s, &repo, "printf 'caf\\351' >&2; head -c 100000000 /dev/zero");
    assert_eq!((&line["stdout"], &line["stderr"]), (&Value::Null, &Value::Null));
    let file = |name: &str| PathBuf::from(line[name].as_str().expect("a file"));
    assert_eq!(fs::metadata(file("stdout_file")).expect("a file").len(), 100_000_000);
    assert_eq!(fs::read(file("stderr_file")).expect("a file"), b"caf\xe9");
    assert_eq!(file("stdout_file").parent(), patch_of(&line).parent());
    fs::remove_dir_all(patch_of(&line).parent().expect("a directory")).expect("removed");
}

#[test]
fn signals_are_exit_codes_and_a_missing_program_is_127() {
    let s = Sandbox::new();
    let repo = s.repo("repo");
    assert_eq!(shell(&s, &repo, "exit 137")["exit_code"], 137);
    assert_eq!(shell(&s, &repo, "kill -9 $$")["exit_code"], 137);
    let line = capture(&s, &repo, &["--", "no-such-program", "x"]);
    assert_eq!((&line["exit_code"], &line["files"]), (&127.into(), &0.into()));
    assert!(line["stderr"].as_str().is_some_and(|words| words.contains("no-such-program")), "{line}");
    write(&repo, "not-executable", "x");
    s.commit_all(&repo, "file");
    assert_eq!(capture(&s, &repo, &["--", "./not-executable"])["exit_code"], 126);
}

#[test]
fn bad_input_makes_nothing() {
    let s = Sandbox::new();
    let repo = s.repo("repo");
    let temporary = s.path("tmp");
    fs::create_dir(&temporary).expect("made");
    let refused = |more: &[&str], check: &str| {
        let before = s.everything(&repo);
        let run = s.program().args(more).env("TMPDIR", &temporary).output().expect("isofold runs");
        let line: Value = serde_json::from_slice(&run.stdout).unwrap_or_else(|_| panic!("{more:?}: {run:?}"));
        assert_eq!((run.status.code(), line["outcome"].as_str()), (Some(2), Some("invalid-invocation")), "{line}");
        assert_eq!(line["check"].as_str(), Some(check), "{line}");
        assert!(line["report"].as_str().is_some_and(|report| !report.is_empty() && !report.contains('\n')), "{line}");
        assert_eq!(s.everything(&repo), before);
    };
    let place = text(&repo);
    refused(&["capture", "--repo-path", text(&temporary), "--", "true"], "work-tree");
    refused(&["capture", "--repo-path", "/no/such/place", "--", "true"], "work-tree");
    refused(&["-C", "/no/such/place", "capture", "--", "true"], "work-tree");
    refused(&["capture", "--repo-path", place, "--base-ref", "nope", "--", "true"], "base-ref");
    refused(&["capture", "--repo-path", place, "--base-ref=--all", "--", "true"], "base-ref");
    refused(&["capture", "--repo-path", place, "--base-ref", "HEAD:a", "--", "true"], "base-ref");
    refused(&["capture", "--repo-path", place], "command");
    refused(&["capture", "--repo-path", place, "--command", " "], "command");
    refused(&["capture", "--repo-path", place, "--command", "true", "--", "true"], "command");
    refused(&["capture", "--repo-path", place, "--stdin", "/no/such/file", "--", "true"], "stdin");
    refused(&["capture", "--repo-path", place, "--output", "/no/such/place", "--", "true"], "output");
    for seconds in ["0", "-1", "x", "NaN", "inf"] {
        refused(&["capture", "--repo-path", place, "--timeout", seconds, "--", "true"], "timeout");
    }
    refused(&["capture", "--repo-path", place, "--nope", "--", "true"], "arguments");
    refused(&["capture", "--repo-path", place, "--from-dirty", "--base-ref", "HEAD", "--", "true"], "arguments");
    let bare = s.path("bare");
    s.git(&repo, &["clone", "-q", "--bare", place, text(&bare)]);
    refused(&["capture", "--repo-path", text(&bare), "--", "true"], "work-tree");
}

#[test]
fn a_worktree_that_can_t_be_made_leaves_nothing() {
    let s = Sandbox::new();
    let repo = s.repo("repo");
    let temporary = s.path("tmp");
    fs::create_dir(&temporary).expect("made");
    let blob = s.git(&repo, &["rev-parse", "HEAD:a"]);
    fs::remove_file(repo.join(".git/objects").join(&blob[..2]).join(&blob[2..])).expect("removed");
    let before = s.everything(&repo);
    let output =
        s.program().args(["capture", "--repo-path", text(&repo), "--", "true"]).env("TMPDIR", &temporary).output();
    let output = output.expect("isofold runs");
    let line: Value = serde_json::from_slice(&output.stdout).expect("one line");
    assert_eq!((output.status.code(), line["outcome"].as_str()), (Some(1), Some("failed")), "{line}");
    // In git's words.
    assert!(line["report"].as_str().is_some_and(|report| report.contains(&blob)), "{line}");
    assert_eq!(s.everything(&repo), before);
}

#[test]
fn time_over_ends_the_group_and_keeps_the_work() {
    let s = Sandbox::new();
    let repo = s.repo("repo");
    let since = Instant::now();
    // One that ignores SIGTERM, and one in the background.
    let line = capture(
        &s,
        &repo,
        &[
            "--timeout",
            "0.5",
            "--command",
            "echo done > work; trap '' TERM; echo $$ > pid; sleep 300 & sleep 300; sleep 300",
        ],
    );
    assert_eq!((&line["timed_out"], &line["files"]), (&true.into(), &2.into()));
    assert!(since.elapsed() < Duration::from_secs(30));
    assert_eq!(line["survivors"], serde_json::json!([]));
    let fresh = applied(&s, &repo, &line);
    let pid = read(&fresh, "pid").expect("a pid");
    assert!(!Path::new("/proc").join(pid.trim()).exists());
    // One that goes by itself has the time to tidy up.
    let line = capture(
        &s,
        &repo,
        &["--timeout", "0.5", "--command", "trap 'echo tidy > tidy; exit 5' TERM; sleep 300 & wait"],
    );
    assert_eq!((&line["timed_out"], &line["exit_code"], &line["files"]), (&true.into(), &5.into(), &1.into()));
}

#[test]
fn background_writers_are_ended_and_survivors_named() {
    let s = Sandbox::new();
    let repo = s.repo("repo");
    let line =
        shell(&s, &repo, "(while :; do date > busy; sleep 0.01; done) & while ! test -s busy; do sleep 0.01; done");
    assert_eq!((&line["files"], &line["survivors"]), (&1.into(), &serde_json::json!([])));
    // Out of the group, with the pipe and a file of the worktree in hand.
    let line = shell(&s, &repo, "setsid sh -c 'exec 3> held; sleep 4' & while ! test -e held; do sleep 0.01; done");
    let since = Instant::now();
    let endless = shell(&s, &repo, "setsid sh -c 'while :; do echo x; done' & sleep 0.1");
    assert_eq!(endless["files"], 0);
    assert!(since.elapsed() < Duration::from_secs(20));
    for survivor in endless["survivors"].as_array().expect("a list") {
        let pid = survivor["pid"].to_string();
        s.command("kill").args(["-9", &pid]).output().expect("kill runs");
    }
    let survivors = line["survivors"].as_array().expect("a list");
    assert!(!survivors.is_empty() && survivors.iter().all(|survivor| survivor["pid"].as_u64().is_some()), "{line}");
}

#[test]
fn commits_resets_and_a_lost_git_file() {
    let s = Sandbox::new();
    let repo = s.repo("repo");
    let commit = "git add -A; git -c user.name=x -c user.email=x commit -qm work";
    for (name, command, files) in [
        ("commits", format!("echo 1 > one; {commit}; echo 2 > two"), 2),
        ("resets", format!("echo 1 > one; {commit}; git reset -q --hard HEAD~; echo 2 > two"), 1),
        (
            "another branch",
            format!(
                "git checkout -q --orphan other; git rm -rqf .; echo 1 > one; {commit}; git update-ref -d refs/heads/other"
            ),
            5,
        ),
        ("no .git", "rm .git; echo 1 > one".to_owned(), 1),
        (".git replaced", format!("rm .git; git init -q .; echo 1 > one; {commit}"), 1),
        ("no index", "rm \"$(git rev-parse --git-path index)\"; echo 1 > one".to_owned(), 1),
        ("a lock", "touch \"$(git rev-parse --git-path index)\".lock; echo 1 > one".to_owned(), 1),
        ("no registration", "rm -r \"$(git rev-parse --absolute-git-dir)\"; echo 1 > one".to_owned(), 1),
        ("a split index", "git update-index --split-index; echo 1 > one".to_owned(), 1),
        ("staged though ignored", "echo 1 > x.log; git add -f x.log".to_owned(), 1),
        (
            "closed directories",
            "mkdir deep; echo 1 > deep/one; echo 2 >> dir/c; chmod 000 deep dir; chmod 000 a".to_owned(),
            2,
        ),
        (
            "a conflict",
            format!(
                "echo 1 > a; {commit}; git checkout -q HEAD~; echo 2 > a; {commit}; git merge -q HEAD@{{2}}; echo 3 > one"
            ),
            2,
        ),
    ] {
        let line = shell(&s, &repo, &command);
        assert_eq!(line["files"], files, "{name}: {line}");
        applied(&s, &repo, &line);
        s.git(&repo, &["worktree", "remove", "--force", text(&s.path("applied"))]);
        assert_eq!(s.git(&repo, &["worktree", "list"]).lines().count(), 1, "{name}");
    }
}

#[test]
fn closed_directories_without_privileges() {
    let s = Sandbox::new();
    let repo = s.repo("repo");
    s.give_all_away();
    let mut program = s.unprivileged();
    program.args(["capture", "--repo-path", text(&repo), "--command"]);
    program.arg("mkdir deep; echo 1 > deep/one; echo 2 >> dir/c; chmod 000 deep dir a").env("TMPDIR", s.path("home"));
    let line = Run::of_command(&mut program).expect("captured", 0).last();
    assert_eq!(line["files"], 2, "{line}");
}

#[test]
fn contents_of_every_kind_round_trip() {
    let s = Sandbox::new();
    let repo = s.repo("repo");
    write(&repo, "crlf", "1\r\n2\r\n3\r\n");
    write(&repo, "blank", "1\n\n\n");
    write(&repo, raw_name(b"caf\xe9"), b"caf\xe9\n");
    write(&repo, "nul", b"a\0b\n");
    s.commit_all(&repo, "kinds");
    // A patch that ends in a blank line of context, Latin-1, NUL bytes, no final newline, a new mode.
    let command = "sed -i 's/1/one/' blank; printf 'caf\\351\\n' >> caf*; printf 'z\\0' >> nul; printf 'no end' > end; \
                   sed -i 's/2/two/' crlf; chmod +x a; ln -s a link; : > empty; head -c 30000000 /dev/urandom > built";
    let line = shell(&s, &repo, command);
    let fresh = applied(&s, &repo, &line);
    assert_eq!(read(&fresh, "blank").as_deref(), Some("one\n\n\n"));
    assert_eq!(read(&fresh, "crlf").as_deref(), Some("1\r\ntwo\r\n3\r\n"));
    assert_eq!(fs::read(fresh.join("nul")).expect("a file"), b"a\0b\nz\0");
    assert_eq!(fs::read(fresh.join("end")).expect("a file"), b"no end");
    assert_eq!(fs::metadata(fresh.join("built")).expect("a file").len(), 30_000_000);
    assert_eq!(line["files"], 9);
}

#[test]
fn line_endings_with_new_attributes() {
    for (key, value) in [("core.autocrlf", "true"), ("core.autocrlf", "input"), ("core.eol", "crlf")] {
        let s = Sandbox::new();
        let repo = s.repo("repo");
        s.git(&repo, &["config", key, value]);
        s.git(&repo, &["rm", "-rq", "--cached", "."]);
        s.git(&repo, &["reset", "-q", "--hard"]);
        let command = "printf '*.txt text eol=crlf\\n*.sh eol=lf\\n*.dat -text\\n' > .gitattributes; printf 'x\\r\\ny\\r\\n' > n.txt; \
                       printf 'x\\ny\\n' > n.sh; printf 'x\\r\\ny\\n' > n.dat; sed -i 's/l3\\b/three/' a; \
                       cp -p \"$(git rev-parse --git-path index)\" ../index; GIT_INDEX_FILE=../index git add -A; GIT_INDEX_FILE=../index git write-tree; rm ../index";
        let line = shell(&s, &repo, command);
        let wanted = line["stdout"].as_str().expect("a tree").trim().to_owned();
        let fresh = applied(&s, &repo, &line);
        assert_eq!(s.git(&fresh, &["write-tree"]), wanted, "{key}={value}");
    }
}

#[test]
fn filters_run_on_the_way_in_and_out() {
    let s = Sandbox::new();
    let repo = s.repo("repo");
    s.git(&repo, &["config", "filter.up.clean", "tr A-Z a-z"]);
    s.git(&repo, &["config", "filter.up.smudge", "tr a-z A-Z"]);
    s.git(&repo, &["config", "filter.up.required", "true"]);
    write(&repo, ".gitattributes", "*.up filter=up\n");
    write(&repo, "x.up", "text\n");
    s.commit_all(&repo, "filtered");
    // Hooks are for people.
    write(&repo, ".git/hooks/post-checkout", "#!/bin/sh\necho ran > ran\n");
    fs::set_permissions(repo.join(".git/hooks/post-checkout"), fs::Permissions::from_mode(0o755)).expect("set");
    let line = shell(&s, &repo, "cat x.up; echo MORE >> x.up; ls");
    assert!(line["stdout"].as_str().is_some_and(|text| text.starts_with("TEXT\n") && !text.contains("ran")), "{line}");
    let fresh = applied(&s, &repo, &line);
    assert_eq!(s.git(&fresh, &["cat-file", "blob", ":x.up"]), "text\nmore");
}

#[test]
fn submodules_stay_closed_and_their_pointers_travel() {
    let s = Sandbox::new();
    let repo = s.repo("repo");
    let id = s.git(&repo, &["rev-parse", "HEAD"]);
    s.git(&repo, &["update-index", "--add", "--cacheinfo", &format!("160000,{id},sub")]);
    s.git(&repo, &["commit", "-qm", "pointer"]);
    fs::create_dir(repo.join("sub")).expect("made");
    let other = "1".repeat(40);
    let line = shell(
        &s,
        &repo,
        &format!(
            "ls -A sub; git update-index --cacheinfo 160000,{other},sub; git init -q nested; touch nested/x; git -C nested -c user.name=x -c user.email=x commit -q --allow-empty -m x"
        ),
    );
    assert_eq!((line["stdout"].as_str(), line["files"].as_u64()), (Some(""), Some(1)), "{line}");
    assert_eq!(line["not_captured"][0]["path"], "nested");
    let fresh = applied(&s, &repo, &line);
    assert_eq!(s.git(&fresh, &["rev-parse", ":sub"]), other);
}

#[test]
fn an_interrupt_ends_the_command_and_keeps_the_work() {
    let s = Sandbox::new();
    let repo = s.repo("repo");
    let mark = s.path("mark");
    let before = s.state(&repo);
    let command = format!("echo work > work; touch {}; sleep 300", mark.display());
    let running = s.start(["capture", "--repo-path", text(&repo), "--command", &command]);
    wait_for("the command", || mark.exists());
    running.signal("INT");
    let run = running.finish();
    let line = run.expect("interrupted", 130).last();
    assert_eq!((&line["files"], &line["timed_out"]), (&1.into(), &false.into()));
    assert_eq!(s.state(&repo), before);
    applied(&s, &repo, &line);
}

#[test]
fn a_full_disk_keeps_the_worktree() {
    let s = Sandbox::new();
    let Some(disk) = s.small_disk("disk", 24 * 1024) else { return };
    let repo = disk.path().join("repo");
    s.git(&s.path(""), &["clone", "-q", "--no-hardlinks", text(&s.repo("origin")), text(&repo)]);
    let temporary = disk.path().join("tmp");
    fs::create_dir(&temporary).expect("made");
    let run = |more: &[&str]| {
        let mut program = s.program();
        program.args(["capture", "--repo-path", text(&repo)]).args(more).env("TMPDIR", &temporary);
        Run::of_command(&mut program)
    };
    // What can't be compressed fills the disk; the object can't be stored then.
    let line = run(&["--command", "cat /dev/urandom > fill; echo late > late"]).expect("extraction-failed", 1).last();
    let worktree = PathBuf::from(line["worktree"].as_str().expect("a worktree"));
    assert!(worktree.join("fill").exists() && line["report"].as_str().is_some_and(|why| !why.is_empty()), "{line}");
    // It is an ordinary worktree now: no later capture takes it away.
    fs::remove_file(worktree.join("fill")).expect("removed");
    assert_eq!(s.git(&worktree, &["rev-parse", "HEAD"]), s.git(&repo, &["rev-parse", "HEAD"]));
    run(&["--", "true"]).expect("captured", 0);
    assert!(worktree.exists());
    s.git(&repo, &["worktree", "remove", "--force", text(&worktree)]);
}

#[test]
fn a_worktree_that_the_command_removed() {
    let s = Sandbox::new();
    let repo = s.repo("repo");
    let run = try_capture(
        &s,
        &repo,
        &[
            "--command",
            "cd /; git -C \"$ISOFOLD_REPOSITORY\" worktree unlock \"$ISOFOLD_WORKTREE\"; git -C \"$ISOFOLD_REPOSITORY\" worktree remove --force \"$ISOFOLD_WORKTREE\"",
        ],
    );
    let run = run.expect("extraction-failed", 1);
    assert!(run.report().contains("took its worktree"), "{run:?}");
}

#[test]
fn twenty_at_once() {
    let s = Sandbox::in_memory();
    let repo = s.repo("repo");
    let before = s.state(&repo);
    std::thread::scope(|scope| {
        let one = |number: usize| {
            let command = format!("echo {number} > n{number}");
            let line = try_capture(&s, &repo, &["--command", &command]).expect("captured", 0).last();
            let patch = fs::read_to_string(patch_of(&line)).expect("a patch");
            assert!(patch.contains(&format!("+{number}\n")) && line["files"] == 1, "{patch}");
        };
        let all: Vec<_> = (0..20).map(|number| scope.spawn(move || one(number))).collect();
        for running in all {
            running.join().expect("captured");
        }
    });
    assert_eq!(s.state(&repo), before);
}
