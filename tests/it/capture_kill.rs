//! Capture and record killed at any moment: the original work tree is what it was, the old or the new
//! patch is there, and the next run leaves no registration behind.
//!
//! `ISOFOLD_KILL_ROUNDS` says how often, `ISOFOLD_FUZZ_SEED` where the moments start.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::host::text;
use crate::support::random::{Random, number};
use crate::support::snapshots::say;
use crate::support::{Sandbox, write};

/// Starts the program and kills it after `moment`; whether it was still at work.
fn killed(mut program: Command, moment: Duration) -> bool {
    let mut child = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("isofold runs");
    std::thread::sleep(moment);
    let running = child.try_wait().expect("asked").is_none();
    child.kill().expect("killed");
    child.wait().expect("an end");
    running
}

/// The time that one whole run takes.
fn whole(mut program: Command) -> Duration {
    let since = std::time::Instant::now();
    assert!(program.stdout(Stdio::null()).status().expect("isofold runs").success());
    since.elapsed()
}

fn moment(random: &mut Random, whole: Duration) -> Duration {
    let steps = u32::try_from(random.below(1000)).expect("fits");
    // A killed run does more than the one that was timed; some moments come after its end.
    whole * steps / 400
}

fn rounds(usual: u64) -> u64 {
    number("ISOFOLD_KILL_ROUNDS", usual)
}

/// The work tree, the index, HEAD and the branches.
fn original(s: &Sandbox, repo: &Path) -> String {
    let index = crate::support::hash(&fs::read(repo.join(".git/index")).expect("an index"));
    let status = s.git(repo, &["--no-optional-locks", "status", "--porcelain", "--ignored"]);
    let status: Vec<&str> = status.lines().filter(|line| *line != "!! .isofold/").collect();
    let refs = s.git(repo, &["for-each-ref", "refs/heads"]);
    format!("{index}\n{status:?}\n{refs}\n{:?}", fs::read(repo.join(".git/HEAD")).expect("a HEAD"))
}

#[test]
fn a_killed_record_leaves_the_old_or_the_new_patch() {
    let s = Sandbox::in_memory();
    let main = s.repo("main");
    let worktree = s.path("worktree");
    s.git(&main, &["worktree", "add", "-q", text(&worktree)]);
    let record = || {
        let mut program = s.program();
        program.args(["patch", "record", "--agent", "ag", "--worktree", text(&worktree)]);
        program
    };
    let mut random = Random::new(number("ISOFOLD_FUZZ_SEED", 1));
    let (mut hits, mut news) = (0, 0);
    let patch = main.join(".isofold/patches/ag/changes.patch");
    write(&worktree, "warm", "up\n");
    let length = whole(record());
    let before = original(&s, &main);
    let mut old = fs::read(&patch).expect("a patch");
    for round in 0..rounds(10) {
        write(&worktree, "a", format!("round {round}\n"));
        write(&worktree, format!("n{}", round % 7), vec![b'x'; 1 + random.below(200_000)]);
        hits += u64::from(killed(record(), moment(&mut random, length)));
        let there = fs::read(&patch).expect("a patch");
        let again = record().output().expect("isofold runs");
        assert!(again.status.success(), "round {round}: {again:?}");
        let new = fs::read(&patch).expect("a patch");
        assert!(there == old || there == new, "round {round}: neither the old nor the new patch");
        news += u64::from(there == new);
        // No half file beside it, no lock that stays.
        let names: Vec<_> = fs::read_dir(patch.parent().expect("a directory")).expect("readable").flatten().collect();
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(!main.join(".git/refs/isofold/patch/ag.lock").exists());
        assert_eq!(original(&s, &main), before, "round {round}");
        old = new;
    }
    say!("{} records killed, {hits} at work, {news} after the new patch was there", rounds(10));
    s.git(&main, &["apply", "--check", text(&patch)]);
    assert_eq!(s.try_git(&main, &["fsck", "--no-progress", "--no-dangling"]), (0, String::new()));
}

#[test]
fn a_killed_capture_leaves_nothing_after_the_next() {
    let s = Sandbox::in_memory();
    let repo = s.repo("repo");
    for number in 0..200 {
        write(&repo, format!("many/{number}"), format!("{number}\n"));
    }
    s.commit_all(&repo, "many");
    write(&repo, "a", "dirty\n");
    let temporary = s.path("tmp");
    fs::create_dir(&temporary).expect("made");
    let capture = |more: &[&str], command: &str| {
        let mut program = s.program();
        program
            .args(["capture", "--repo-path", text(&repo), "--command", command])
            .args(more)
            .env("TMPDIR", &temporary);
        program
    };
    let mut random = Random::new(number("ISOFOLD_FUZZ_SEED", 1));
    let command =
        "echo work > work; (while :; do date > busy; sleep 0.005; done) & sleep 0.02; rm many/1*; echo done > done";
    let before = original(&s, &repo);
    let length = whole(capture(&[], command)).max(whole(capture(&["--from-dirty"], command)));
    let (mut hits, mut saved) = (0, 0);
    for round in 0..rounds(8) {
        let more: &[&str] = if round % 3 == 0 { &["--from-dirty"] } else { &[] };
        hits += u64::from(killed(capture(more, command), moment(&mut random, length)));
        assert_eq!(original(&s, &repo), before, "round {round}");
        let next = capture(&[], "true").output().expect("isofold runs");
        assert!(next.status.success(), "round {round}: {next:?}");
        let left = s.git(&repo, &["worktree", "list"]);
        assert_eq!(left.lines().count(), 1, "round {round}: {left}");
        assert!(!repo.join(".git/worktrees").exists(), "round {round}");
        assert_eq!(original(&s, &repo), before, "round {round}");
        // What is left in the temporary directory is patches, and outputs of the commands.
        for place in fs::read_dir(&temporary).expect("readable").flatten() {
            for entry in fs::read_dir(place.path()).into_iter().flatten().flatten() {
                assert!(entry.path().is_file(), "round {round}: {}", entry.path().display());
            }
            fs::remove_dir_all(place.path()).expect("removed");
        }
        // The work of a command that had begun is saved.
        let refs = s.git(&repo, &["for-each-ref", "--format=%(refname)", "refs/isofold"]);
        for name in refs.lines() {
            // Between the ref of a base and its record nothing names it yet.
            let base = name.starts_with("refs/isofold/base/") && !repo.join(".git/isofold/bases").exists();
            assert!(base || name.starts_with("refs/isofold/saved/"), "round {round}: {name}");
            saved += u64::from(!base);
            s.git(&repo, &["update-ref", "-d", name]);
        }
        // Nothing of the command runs on.
        let here = format!("{}/", temporary.display());
        let cwd = |entry: fs::DirEntry| fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        let running = fs::read_dir("/proc").expect("readable").flatten().map(cwd);
        assert!(running.into_iter().all(|cwd| !cwd.to_string_lossy().starts_with(&here)), "round {round}");
    }
    say!("{} captures killed, {hits} at work, {saved} with work that was saved", rounds(8));
    assert_eq!(s.try_git(&repo, &["fsck", "--no-progress", "--no-dangling"]), (0, String::new()));
}

#[test]
fn small_packs_are_put_together_or_there_as_before() {
    let s = Sandbox::in_memory();
    let main = s.repo("all/main");
    let worktree = s.path("all/worktree");
    s.git(&main, &["worktree", "add", "-q", text(&worktree)]);
    let record = || {
        let mut program = s.program();
        program.args(["patch", "record", "--agent", "ag", "--worktree", text(&worktree)]);
        program
    };
    let packs = || {
        let directory = fs::read_dir(main.join(".git/objects/pack")).expect("readable");
        let names = directory.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
        names.filter(|name| Path::new(name).extension().is_some_and(|e| e == "pack")).count()
    };
    let objects = || -> BTreeSet<String> {
        s.git(&main, &["fsck", "--full", "--strict"]);
        let all = s.git(&main, &["cat-file", "--batch-check=%(objectname)", "--batch-all-objects", "--unordered"]);
        all.lines().map(str::to_owned).collect()
    };
    for number in 0.. {
        if packs() == 20 {
            break;
        }
        write(&worktree, "a", format!("pack {number}\n"));
        assert!(record().output().expect("isofold runs").status.success());
    }
    let known = objects();
    write(&worktree, "a", "one more\n");
    let copy = |from: &str, to: &str| {
        let copied = s.command("cp").arg("-a").arg(s.path(from)).arg(s.path(to)).status().expect("cp runs");
        assert!(copied.success());
    };
    copy("all", "kept");
    let length = whole(record());
    assert!(packs() < 5, "{} packs", packs());
    let mut random = Random::new(number("ISOFOLD_FUZZ_SEED", 1));
    let (mut before, mut midway, mut after) = (0, 0, 0);
    for round in 0..rounds(12) {
        fs::remove_dir_all(s.path("all")).expect("removed");
        copy("kept", "all");
        killed(record(), moment(&mut random, length));
        *(match packs() {
            20 => &mut before,
            5.. => &mut midway,
            _ => &mut after,
        }) += 1;
        assert!(objects().is_superset(&known), "round {round}");
        assert!(record().output().expect("isofold runs").status.success(), "round {round}");
        let pruned = s.isofold(["-C", text(&main), "prune"]);
        assert_eq!(pruned.code, 0, "round {round}: {pruned:?}");
        assert!(objects().is_superset(&known), "round {round}");
        let left: Vec<_> = fs::read_dir(main.join(".git/objects/pack"))
            .and_then(|pack| Ok(pack.chain(fs::read_dir(main.join(".git"))?)))
            .expect("readable")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| text(path).contains("/isofold-objects") || path.extension().is_some_and(|e| e == "keep"))
            .collect();
        assert!(left.is_empty(), "round {round}: {left:?}");
    }
    say!("packs put together: killed before {before}, midway {midway}, after {after}");
}
