//! Many isolations of one Parent at once, among others who work on the same repository.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::host::{note, same, text};
use crate::support::{Run, Sandbox, lines, next_second, write};

const AT_ONCE: usize = 20;

/// A Parent with a few hundred files and loose work.
fn parent(sandbox: &Sandbox) -> PathBuf {
    let parent = sandbox.repo("parent");
    for number in 0..300 {
        write(&parent, format!("many/{}/{number}", number % 10), format!("{number}\n"));
    }
    sandbox.commit_all(&parent, "many");
    write(&parent, "a", lines(&[(0, "dirty")]));
    write(&parent, "loose", "loose\n");
    next_second();
    sandbox.git(&parent, &["status"]);
    parent
}

/// Starts `count` isolations of one Parent; the outcomes, by number.
fn at_once(
    sandbox: &Sandbox,
    parent: &Path,
    count: usize,
    child: impl Fn(usize) -> PathBuf,
    id: impl Fn(usize) -> String,
) -> Vec<Run> {
    let all = (0..count).map(|number| {
        let place = child(number);
        sandbox.start(["isolate", "--id", &id(number), "--parent", text(parent), "--child", text(&place)])
    });
    let all: Vec<_> = all.collect();
    all.into_iter().map(super::support::host::Running::finish).collect()
}

/// Lets `others` run again and again until `work` is done; how often they ran.
fn meanwhile<T>(others: &[&(dyn Fn() + Sync)], work: impl FnOnce() -> T) -> (T, u64) {
    let (done, count) = (AtomicBool::new(false), std::sync::atomic::AtomicU64::new(0));
    let result = std::thread::scope(|scope| {
        for other in others {
            let (done, count) = (&done, &count);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    other();
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        done.store(true, Ordering::Relaxed);
        result
    });
    (result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), count.into_inner())
}

#[test]
fn twenty_at_once_among_prunes_and_collections() {
    let sandbox = Sandbox::in_memory();
    let parent = parent(&sandbox);
    let listing = crate::support::listing(&parent);
    let status = sandbox.git(&parent, &["--no-optional-locks", "status", "--porcelain=v2"]);
    // Held by somebody for all of the time, and what a killed `git worktree add` left.
    write(&parent, ".git/config.lock", "");
    write(&parent, ".git/worktrees/half/locked", "initializing");
    write(&parent, ".git/worktrees/half/HEAD", "");
    write(&parent, ".git/worktrees/nothing/commondir", "");
    let quiet = |args: &[&str]| {
        let mut git = sandbox.command("git");
        git.arg("-C").arg(&parent).args(args).stdout(Stdio::null()).stderr(Stdio::null());
        git.status().expect("git runs");
    };
    let prune = || quiet(&["worktree", "prune", "--expire=now"]);
    let gc = || quiet(&["-c", "gc.worktreePruneExpire=now", "gc", "-q"]);
    let child = |number: usize| sandbox.path(&format!("above/{number}/child"));
    let (runs, loops) =
        meanwhile(&[&prune, &gc], || at_once(&sandbox, &parent, AT_ONCE, child, |number| format!("agent-{number}")));
    assert!(loops > 4, "the others ran {loops} times");
    for (number, run) in runs.into_iter().enumerate() {
        let run = run.expect("isolated", 0);
        assert_eq!(run.last()["branch"], format!("issue/agent-{number}"));
        let place = child(number);
        assert_eq!(sandbox.git(&place, &["--no-optional-locks", "status", "--porcelain=v2"]), status);
        assert_eq!(sandbox.git(&place, &["symbolic-ref", "HEAD"]), format!("refs/heads/issue/agent-{number}"));
    }
    fs::remove_file(parent.join(".git/config.lock")).expect("it was there");
    same(&crate::support::listing(&parent), &listing, "the Parent");
    assert_eq!(sandbox.git(&parent, &["worktree", "list"]).lines().count(), AT_ONCE + 1);
    assert_eq!(sandbox.try_git(&parent, &["fsck", "--no-progress", "--no-dangling"]), (0, String::new()));
    // All of them go, at once too.
    let removals: Vec<_> = (0..AT_ONCE).map(|n| sandbox.start(["remove", "--child", text(&child(n))])).collect();
    let (runs, _) = meanwhile(&[&prune, &gc], || {
        removals.into_iter().map(super::support::host::Running::finish).collect::<Vec<_>>()
    });
    for run in runs {
        assert_eq!((run.outcome().as_str(), run.code), ("removed", 0), "{run:?}");
    }
    assert_eq!(sandbox.git(&parent, &["for-each-ref", "refs/isofold"]), "");
    assert_eq!(sandbox.git(&parent, &["worktree", "list"]).lines().count(), 1);
}

#[test]
fn of_two_with_one_id_or_one_place_exactly_one_wins() {
    let sandbox = Sandbox::in_memory();
    let parent = parent(&sandbox);
    let other = sandbox.repo("other");
    for round in 0..6 {
        // The same id, other places.
        let child = |number: usize| sandbox.path(&format!("id{round}/{number}"));
        let runs = at_once(&sandbox, &parent, 4, child, |_| format!("same-{round}"));
        let won: Vec<usize> = (0..4).filter(|n| runs[*n].code == 0).collect();
        assert_eq!(won.len(), 1, "{runs:?}");
        for (number, run) in runs.iter().enumerate().filter(|(number, _)| !won.contains(number)) {
            assert!(run.report().contains("checked out at"), "{run:?}");
            assert!(!child(number).exists());
        }
        assert_eq!(sandbox.git(&child(won[0]), &["symbolic-ref", "--short", "HEAD"]), format!("issue/same-{round}"));
        // The same place, other ids, and another repository.
        let place = sandbox.path(&format!("place{round}/child"));
        let runs: Vec<Run> = (0..4)
            .map(|number| {
                let from = if number % 2 == 0 { &parent } else { &other };
                sandbox.start([
                    "isolate",
                    "--id",
                    &format!("p{round}-{number}"),
                    "--parent",
                    text(from),
                    "--child",
                    text(&place),
                ])
            })
            .collect::<Vec<_>>()
            .into_iter()
            .map(super::support::host::Running::finish)
            .collect();
        let won: Vec<usize> = (0..4).filter(|n| runs[*n].code == 0).collect();
        assert_eq!(won.len(), 1, "{runs:?}");
        let branch = format!("issue/p{round}-{}", won[0]);
        assert_eq!(sandbox.git(&place, &["symbolic-ref", "--short", "HEAD"]), branch);
        for repo in [&parent, &other] {
            let branches = sandbox
                .git(repo, &["for-each-ref", "--format=%(refname:short)", &format!("refs/heads/issue/p{round}-*")]);
            assert!(branches.is_empty() || branches == branch, "{branches}");
        }
    }
    let left: BTreeSet<_> =
        fs::read_dir(parent.join(".git")).expect("readable").map(|e| e.expect("an entry").file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with("isofold-")), "{left:?}");
}

#[test]
fn a_parent_that_is_written_while_it_is_copied() {
    let sandbox = Sandbox::in_memory();
    let parent = parent(&sandbox);
    let big = parent.join("many/growing");
    fs::write(&big, vec![b'x'; 8 << 20]).expect("written");
    let steps = std::sync::atomic::AtomicU64::new(0);
    let touch = || {
        use std::os::unix::fs::FileExt;
        let step = steps.fetch_add(1, Ordering::Relaxed);
        let file = fs::File::options().write(true).open(&big).expect("opened");
        file.write_all_at(format!("{step}").as_bytes(), step % (8 << 20)).expect("written");
        // Files come and go beside it.
        let beside = parent.join(format!("many/{}", step % 5));
        fs::write(beside.join("coming"), "x").expect("written");
        let _ = fs::remove_file(beside.join("coming"));
    };
    let (run, _) = meanwhile(&[&touch], || sandbox.try_isolate("w", &parent, &sandbox.path("child"), &[]));
    let run = run.expect("isolated", 0);
    assert_eq!(run.last()["unsteady"], serde_json::json!(["many/growing"]), "{run:?}");
    assert_eq!(fs::metadata(sandbox.path("child/many/growing")).expect("a stat").len(), 8 << 20);
    // What was caught is a state of the Child like any other: nothing of it is the Child's work.
    let removed = sandbox.isofold(["remove", "--child", text(&sandbox.path("child"))]);
    assert_eq!(removed.outcome(), "removed", "{removed:?}");
}

#[test]
fn twenty_isolations_do_not_hold_up_the_users_git() {
    let sandbox = Sandbox::in_memory();
    let parent = parent(&sandbox);
    let slowest = std::sync::Mutex::new(Duration::ZERO);
    let commit = || {
        let since = Instant::now();
        // Fails at once if anybody holds a lock of git's.
        let (code, words) = sandbox.try_git(&parent, &["commit", "-q", "--allow-empty", "-m", "meanwhile"]);
        assert_eq!(code, 0, "{words}");
        let (code, words) = sandbox.try_git(&parent, &["update-ref", "refs/heads/mine", "HEAD"]);
        assert_eq!(code, 0, "{words}");
        let mut slowest = slowest.lock().expect("no panic");
        *slowest = since.elapsed().max(*slowest);
    };
    let child = |number: usize| sandbox.path(&format!("child{number}"));
    let (runs, commits) =
        meanwhile(&[&commit], || at_once(&sandbox, &parent, AT_ONCE, child, |n| format!("agent-{n}")));
    assert!(runs.iter().all(|run| run.code == 0), "{runs:?}");
    note(&format!("{commits} commits meanwhile, the slowest took {:?}", slowest.lock().expect("no panic")));
    assert!(commits > 0);
    assert_eq!(sandbox.try_git(&parent, &["fsck", "--no-progress", "--no-dangling"]), (0, String::new()));
}

#[test]
fn what_a_dead_process_of_another_boot_left_is_taken_back_and_a_live_ones_is_not() {
    let sandbox = Sandbox::in_memory();
    let parent = parent(&sandbox);
    let child = sandbox.isolate(&parent, "child");
    let record = parent.join(".git/worktrees/child/isofold.toml");
    let ready = fs::read_to_string(&record).expect("a record");
    let making = ready.replace("\"ready\"", "\"making\"");
    // Its maker ended long ago: a reboot, or another process has its number now.
    let boot = making.lines().find(|line| line.starts_with("boot")).expect("a boot id").to_owned();
    for dead in [making.replace(&boot, "boot = \"another\""), making.clone()] {
        fs::write(&record, dead).expect("written");
        let dry = sandbox.isofold(["-C", text(&parent), "prune", "--dry-run", "--json"]);
        assert_eq!(dry.last()["recovered"][0]["kind"], "incomplete-child", "{dry:?}");
        assert!(child.join("a").exists());
        fs::write(&record, &ready).expect("written");
    }
    // This process lives, and would be the maker.
    let stat = fs::read_to_string("/proc/self/stat").expect("readable");
    let started = stat[stat.rfind(')').expect("a name") + 1..].split_whitespace().nth(19).expect("a time").to_owned();
    let field = |name: &str| making.lines().find(|line| line.starts_with(name)).expect("a field").to_owned();
    let alive = making
        .replace(&field("pid"), &format!("pid = {}", std::process::id()))
        .replace(&field("started"), &format!("started = {started}"));
    fs::write(&record, &alive).expect("written");
    let pruned = sandbox.isofold(["-C", text(&parent), "prune", "--json"]);
    assert_eq!(pruned.last()["recovered"], serde_json::json!([]), "{pruned:?}");
    let run = sandbox.try_isolate("again", &parent, &child, &[]).expect("invalid-invocation", 2);
    assert!(run.report().contains("exists already"), "{run:?}");
    let run = sandbox.isofold(["remove", "--force", "--child", text(&child)]).expect("refused", 1);
    assert!(run.report().contains("still being made"), "{run:?}");
    // A dead one's by its number, but its lock is held: a process that this one can't see.
    fs::write(&record, &making).expect("written");
    let held = fs::File::open(parent.join(".git/worktrees/child")).expect("opened");
    held.lock().expect("locked");
    let pruned = sandbox.isofold(["-C", text(&parent), "prune", "--json"]);
    assert_eq!(pruned.last()["recovered"], serde_json::json!([]), "{pruned:?}");
    drop(held);
    // Now it goes, and the same isolation has its place.
    sandbox.try_isolate("child", &parent, &child, &[]).expect("isolated", 0);
    assert_eq!(sandbox.git(&parent, &["worktree", "list"]).lines().count(), 2);
}
