//! Objects on their way into a repository: one pack, kept from every gc until a ref names it, nothing
//! of a job that did not finish; huge files in little memory; no git for what this crate does itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::host::{skipped, text, wait_for};
use crate::support::{Run, Sandbox, job, next_second, read, write};

/// Every file of the object store, without the directories.
fn objects(repo: &Path) -> Vec<PathBuf> {
    let files = walkdir::WalkDir::new(repo.join(".git/objects")).sort_by_file_name().into_iter();
    let files = files.map(|entry| entry.expect("readable")).filter(|entry| entry.file_type().is_file());
    files.map(walkdir::DirEntry::into_path).collect()
}

fn count(files: &[PathBuf], extension: &str) -> usize {
    files.iter().filter(|file| file.extension().is_some_and(|e| e == extension)).count()
}

/// What lies around in the git directory.
fn left_over(repo: &Path) -> Vec<String> {
    let names = fs::read_dir(repo.join(".git")).expect("readable").map(|entry| entry.expect("an entry").file_name());
    names.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.starts_with("isofold-objects")).collect()
}

#[test]
fn an_isolation_and_a_fold_bring_one_pack_each() {
    let s = Sandbox::new();
    let parent = s.repo("parent");
    for number in 0..60 {
        write(&parent, format!("loose/{number}"), format!("loose {number}\n"));
    }
    let before = objects(&parent);
    let child = s.isolate(&parent, "child");
    let isolated = objects(&parent);
    for number in 0..60 {
        write(&child, format!("d{}/new {number}", number % 7), format!("new {number}\n"));
    }
    write(&child, "a", "changed\n");
    s.fold(&parent, &child);
    let folded = objects(&parent);
    for (what, before, after) in [("isolate", &before, &isolated), ("fold", &isolated, &folded)] {
        let new: Vec<PathBuf> = after.iter().filter(|file| !before.contains(file)).cloned().collect();
        assert_eq!((new.len(), count(&new, "pack"), count(&new, "idx")), (2, 1, 1), "{what}: {new:?}");
    }
    assert_eq!(left_over(&parent), [""; 0]);
    s.settled(&parent, "");
    let packs: Vec<&PathBuf> = folded.iter().filter(|file| file.extension().is_some_and(|e| e == "idx")).collect();
    for pack in packs {
        s.git(&parent, &["verify-pack", text(pack)]);
    }
}

#[test]
fn a_fold_that_fails_brings_nothing() {
    let s = Sandbox::new();
    let parent = s.repo("parent");
    let child = s.isolate(&parent, "child");
    write(&child, "a", "theirs\n");
    write(&parent, "a", "ours\n");
    let before = objects(&parent);
    s.try_fold(&parent, &child, &[]).expect("conflict", 1);
    s.try_fold(&parent, &child, &["--dry-run"]).expect("conflict", 1);
    assert_eq!(objects(&parent), before);
    assert_eq!(left_over(&parent), [""; 0]);
}

#[test]
fn a_gc_that_never_stops_takes_nothing() {
    let s = Sandbox::new();
    let parent = s.repo("parent");
    let over = AtomicBool::new(false);
    let (rounds, collected) = std::thread::scope(|scope| {
        let collector = scope.spawn(|| {
            let mut collected = 0;
            while !over.load(Ordering::Relaxed) {
                let gc = s.try_git(
                    &parent,
                    &["-c", "gc.reflogExpire=now", "-c", "gc.pruneExpire=now", "gc", "-q", "--prune=now"],
                );
                // A ref that is being written may stop it.
                collected += usize::from(gc.0 == 0);
            }
            collected
        });
        let mut rounds = 0;
        for round in 0..8 {
            // The same contents again and again: objects that are there, and that nothing names any more.
            let content = |number: usize| format!("content {} of file {number}\n", round % 2);
            let child = s.isolate(&parent, &format!("child-{round}"));
            for number in 0..40 {
                write(&child, format!("d{}/f{number}", number % 5), content(number));
            }
            s.fold(&parent, &child);
            s.git(&parent, &["reset", "-q", "--hard", "HEAD^"]);
            s.isofold(["remove", "--force", "--child", text(&child)]).expect("removed", 0);
            rounds += 1;
        }
        over.store(true, Ordering::Relaxed);
        (rounds, collector.join().expect("the collector runs"))
    });
    assert_eq!(rounds, 8);
    assert!(collected > 0, "no gc ran to its end");
    let (code, words) = s.try_git(&parent, &["fsck", "--full", "--no-dangling", "--no-progress"]);
    assert_eq!((code, words.as_str()), (0, ""));
    assert_eq!(count(&objects(&parent), "keep"), 0);
}

#[test]
fn what_a_killed_job_kept_from_gc_is_let_go() {
    let s = Sandbox::new();
    let parent = s.repo("parent");
    let packs = parent.join(".git/objects/pack");
    let stale = packs.join(format!("pack-{}.keep", "1".repeat(40)));
    fs::write(&stale, "isofold-objects-gone\n").expect("written");
    let users = packs.join(format!("pack-{}.keep", "2".repeat(40)));
    fs::write(&users, "").expect("written");
    fs::create_dir(parent.join(".git/isofold-objects-lives")).expect("a directory");
    let lives = packs.join(format!("pack-{}.keep", "3".repeat(40)));
    fs::write(&lives, "isofold-objects-lives\n").expect("written");
    s.isolate(&parent, "child");
    assert!(!stale.exists() && users.exists() && lives.exists());
}

#[test]
fn an_interrupted_snapshot_leaves_nothing() {
    let s = Sandbox::new();
    let parent = s.repo("parent");
    let child = s.isolate(&parent, "child");
    // Long enough to be interrupted, without taking room.
    fs::File::create(child.join("huge")).and_then(|file| file.set_len(40 << 30)).expect("a file");
    let before = objects(&parent);
    let mut fold = s.program();
    fold.args(job("fold", "work", &parent, &child, &[])).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = fold.spawn().expect("it starts");
    wait_for("the pack", || {
        let grown = |name: &String| {
            let pack = parent.join(".git").join(name).join("objects/pack/tmp_isofold.pack");
            fs::metadata(pack).is_ok_and(|meta| meta.len() > 1000)
        };
        left_over(&parent).iter().any(grown)
    });
    let sent = Command::new("kill").args(["-s", "INT", &running.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
    let since = std::time::Instant::now();
    assert_eq!(running.wait().expect("an end").code(), Some(130));
    assert!(since.elapsed().as_secs() < 5, "{:?}", since.elapsed());
    assert_eq!(objects(&parent), before);
    assert_eq!(left_over(&parent), [""; 0]);
}

#[test]
fn huge_files_take_little_memory() {
    const SIZE: u64 = 700 << 20;
    let s = Sandbox::new();
    let parent = s.repo("parent");
    write(&parent, ".gitattributes", "*.txt text\n");
    s.commit_all(&parent, "attributes");
    let child = s.isolate(&parent, "child");
    fs::File::create(child.join("huge")).and_then(|file| file.set_len(SIZE)).expect("a file");
    // Less address space than one of the files needs.
    let limited = |args: Vec<std::ffi::OsString>| {
        let mut shell = s.command("sh");
        shell.args(["-c", "ulimit -v 500000 && exec \"$@\"", "sh"]).arg(s.program().get_program()).args(args);
        Run::of_command(shell.env("MALLOC_ARENA_MAX", "1"))
    };
    limited(job("fold", "work", &parent, &child, &[])).expect("integrated", 0);
    assert_eq!(fs::metadata(parent.join("huge")).expect("a file").len(), SIZE);
    assert_eq!(s.git(&parent, &["status", "--porcelain"]), "");
    // Changed, converted on its way in, and a snapshot of both sides.
    let text = b"0123456789abcde\r\n".repeat(1 << 20);
    let mut long = fs::File::create(child.join("long.txt")).expect("a file");
    for _ in 0..8 {
        std::io::Write::write_all(&mut long, &text).expect("written");
    }
    drop(long);
    fs::File::options().write(true).open(child.join("huge")).and_then(|file| file.set_len(SIZE + 1)).expect("a change");
    limited(job("fold", "work", &parent, &child, &[])).expect("integrated", 0);
    assert_eq!(s.git(&parent, &["cat-file", "-s", "HEAD:long.txt"]), (8 * (16 << 20)).to_string());
    assert_eq!(s.git(&parent, &["cat-file", "-s", "HEAD:huge"]), (SIZE + 1).to_string());
    assert_eq!(s.git(&parent, &["status", "--porcelain"]), "");
}

#[test]
fn no_git_is_started_in_the_common_case() {
    if Command::new("strace").arg("-V").output().is_err() {
        skipped("strace is not installed");
        return;
    }
    let s = Sandbox::new();
    let parent = s.repo("parent");
    write(&parent, "d/.gitattributes", "*.txt text=auto\n*.bin binary\n");
    write(&parent, "d/a.txt", "one\r\n");
    s.git(&parent, &["config", "core.autocrlf", "input"]);
    // Stat data that proves nothing would have the fold ask git about line endings.
    next_second();
    s.commit_all(&parent, "text");
    // Loose, staged, new, gone, a link, a mode.
    write(&parent, "loose", "loose\n");
    write(&parent, "staged", "staged\n");
    s.git(&parent, &["add", "staged"]);
    let started = |args: Vec<std::ffi::OsString>| {
        let log = s.path("strace.log");
        let mut command = s.command("strace");
        command.args(["-f", "-qq", "-e", "trace=execve", "-o"]).arg(&log).arg(s.program().get_program()).args(args);
        let run = Run::of_command(&mut command);
        let log = fs::read_to_string(&log).expect("a log");
        let calls: Vec<String> = log.lines().filter(|l| l.contains("execve(")).map(str::to_owned).collect();
        assert!(!calls.is_empty(), "strace saw nothing");
        // The first is the program itself.
        (run, calls[1..].to_vec())
    };
    let child = s.path("child");
    let (run, calls) = started(job("isolate", "child", &parent, &child, &[]));
    run.expect("isolated", 0);
    assert_eq!(calls, [""; 0], "isolate");
    write(&child, "d/a.txt", "one\r\ntwo\r\n");
    write(&child, "d/new.txt", "new\r\n");
    write(&child, "d/new.bin", b"\0\r\n");
    fs::remove_file(child.join("b")).expect("removed");
    std::os::unix::fs::symlink("a", child.join("link")).expect("linked");
    // Everything but the writing: that checks out what attributes convert.
    let (run, calls) = started(job("fold", "work", &parent, &child, &["--dry-run"]));
    run.expect("integrated", 0);
    assert_eq!(calls, [""; 0], "fold");
    s.fold(&parent, &child);
    assert_eq!(s.git(&parent, &["show", "HEAD:d/new.txt"]), "new");
    assert_eq!(read(&parent, "d/new.bin").as_deref(), Some("\0\r\n"));
    s.settled(&parent, "");
}
