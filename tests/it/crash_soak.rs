//! Folds killed at random, on full disks, without permission in the middle, without power, beside others
//! that write to the same files, and many at once. `ISOFOLD_SOAK_ROUNDS` and `ISOFOLD_SOAK_SEED` say how
//! long and which; a few rounds by default.
#![allow(clippy::print_stdout, reason = "a table of what came out is part of the test")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use isofold::testing::{CRASH_POINTS, Reach, write_tree};

use crate::support::crash::{Scenario, Stand};
use crate::support::host::{is_root, same, skipped, text};
use crate::support::random::{Random, number};
use crate::support::{Run, Sandbox, lines, read, write};

fn rounds(default: u64) -> u64 {
    number("ISOFOLD_SOAK_ROUNDS", default)
}

fn random() -> Random {
    Random::new(number("ISOFOLD_SOAK_SEED", 1))
}

/// Whether a state is one of the two ends; says how it differs from the nearer one.
#[track_caller]
fn is_end(now: &str, (old, new): &(String, String), why: &str) -> &'static str {
    let moved = |state: &str| state.lines().filter(|line| line.contains("isofold: fold of")).count();
    let (name, end) = if moved(now) > moved(old) { ("new", new) } else { ("old", old) };
    same(now, end, why);
    name
}

#[test]
fn killed_at_any_moment() {
    let stand = Stand::with(Scenario::Merge, |p| {
        for n in 0..number("ISOFOLD_SOAK_FILES", 200) {
            write(p, format!("many/d{}/f{n}", n % 40), format!("file {n}\n"));
        }
    });
    let old = stand.state();
    // As each round finds it: what was put back has stat data that proves nothing.
    stand.reset();
    let since = Instant::now();
    assert!(stand.fold().output().expect("isofold runs").status.success());
    let whole = since.elapsed();
    let ends = (old, stand.state());
    stand.reset();
    let (mut random, mut tally) = (random(), BTreeMap::<&str, usize>::new());
    for round in 0..rounds(10) {
        let mut running = stand.fold().stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("isofold runs");
        let percent = u32::try_from(random.below(120)).expect("small");
        std::thread::sleep(whole * percent / 100);
        running.kill().expect("killed");
        running.wait().expect("an end");
        stand.recovered();
        let end = is_end(&stand.state(), &ends, &format!("round {round}, {percent} %"));
        *tally.entry(end).or_default() += 1;
        stand.user_can_commit();
        stand.reset();
    }
    println!("killed at random: {tally:?}, 0 mixed");
}

/// Leaves `free` bytes of the file system at `place`.
fn fill(place: &Path, free: u64) -> PathBuf {
    let filler = place.join("filler");
    let mut file = fs::File::create(&filler).expect("a filler");
    let piece = vec![1_u8; 4096];
    loop {
        let left = rustix::fs::statvfs(place).map(|s| s.f_bavail * s.f_frsize).expect("the free space");
        if left < free + 4096 || file.write_all(&piece).is_err() {
            break;
        }
    }
    let _ = file.sync_all();
    filler
}

/// Folds with ever more space until one succeeds; each that does not changes nothing.
fn step_by_step(stand: &Stand, place: &Path, step: u64, what: &str) {
    let old = stand.state();
    assert!(stand.fold().output().expect("isofold runs").status.success());
    let ends = (old, stand.state());
    let mut failed = 0;
    for at in 0.. {
        stand.reset();
        let filler = fill(place, at * step);
        let run = Run::of_command(&mut stand.fold());
        fs::remove_file(filler).expect("removed");
        // Where even putting back found no space, there is some now.
        stand.recovered();
        let end = is_end(&stand.state(), &ends, &format!("{what}, {} bytes free: {run:?}", at * step));
        if run.code == 0 {
            assert_eq!(end, "new");
            break;
        }
        assert_eq!((end, run.outcome().as_str()), ("old", "failed"), "{run:?}");
        assert!(!run.one_line_report().is_empty());
        failed += 1;
        assert!(at < 400, "never enough");
    }
    println!("{what}: {failed} folds found the disk full, each left all as it was");
    assert!(failed > 2, "{failed}");
}

#[test]
fn a_disk_that_is_full_sooner_or_later() {
    let sandbox = Sandbox::new();
    let Some(disk) = sandbox.small_disk("small", 6_000) else { return };
    let stand = Stand::on(Sandbox::inside(disk.path()), Scenario::TypeChanges, |_| {});
    step_by_step(&stand, disk.path(), 8 * 1024, "tmpfs");
    if !is_root() {
        return;
    }
    let Some(image) = Image::new(&sandbox, 24) else { return };
    let stand = Stand::on(Sandbox::inside(&image.place), Scenario::Merge, |_| {});
    step_by_step(&stand, &image.place, 16 * 1024, "ext4");
    drop(stand);
    drop(image);
}

/// An ext4 in a file that can be looked at as it is on the disk at this moment.
struct Image {
    file: PathBuf,
    place: PathBuf,
}

impl Image {
    fn new(sandbox: &Sandbox, megabytes: u64) -> Option<Self> {
        let image = Self { file: sandbox.path("image"), place: sandbox.path("mounted") };
        fs::create_dir(&image.place).expect("a mount point");
        fs::File::create(&image.file).and_then(|file| file.set_len(megabytes << 20)).expect("an image");
        let made = Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image.file).output();
        if !made.is_ok_and(|output| output.status.success()) || !image.mount() {
            skipped("an ext4 in a file needs mkfs.ext4 and the right to mount it");
            return None;
        }
        Some(image)
    }

    fn mount(&self) -> bool {
        let mounted = Command::new("mount").args(["-o", "loop"]).arg(&self.file).arg(&self.place).output();
        mounted.is_ok_and(|output| output.status.success())
    }

    fn unmount(&self) {
        for _ in 0..100 {
            if Command::new("umount").arg(&self.place).output().is_ok_and(|output| output.status.success()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{} can't be unmounted", self.place.display());
    }

    /// What is on the disk, without what the kernel has not written yet.
    fn copy(&self, to: &Path) {
        let copied = Command::new("cp").arg("--sparse=always").arg(&self.file).arg(to).status();
        assert!(copied.is_ok_and(|status| status.success()));
    }

    /// Goes on with another content, as after a power failure.
    fn replace(&self, with: &Path) {
        self.unmount();
        fs::copy(with, &self.file).expect("copied");
        assert!(self.mount());
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.place).output();
    }
}

#[test]
fn the_power_fails_at_every_point() {
    if !cfg!(debug_assertions) || !is_root() {
        skipped("a power failure needs root and a build with crash points");
        return;
    }
    let sandbox = Sandbox::in_memory();
    let Some(image) = Image::new(&sandbox, 32) else { return };
    let stand = Stand::on(Sandbox::inside(&image.place), Scenario::TypeChanges, |_| {});
    let (start, failed) = (sandbox.path("start"), sandbox.path("failed"));
    image.unmount();
    image.copy(&start);
    assert!(image.mount());
    let old = stand.state();
    assert!(stand.fold().output().expect("isofold runs").status.success());
    let ends = (old, stand.state());
    let mut tally = BTreeMap::<&str, usize>::new();
    for point in CRASH_POINTS {
        image.replace(&start);
        if !stand.killed_at(stand.fold(), point) {
            continue;
        }
        image.copy(&failed);
        image.replace(&failed);
        stand.recovered();
        let end = is_end(&stand.state(), &ends, &format!("the power failed at {point}"));
        *tally.entry(end).or_default() += 1;
        stand.user_can_commit();
    }
    println!("power failures: {tally:?}, 0 mixed");
    assert!(tally.values().sum::<usize>() > 20, "{tally:?}");
    std::mem::forget(stand);
}

#[test]
fn permission_is_lost_in_the_middle() {
    let sandbox = Sandbox::new();
    let p = sandbox.repo("parent");
    write(&p, ".gitattributes", "*.x filter=close\n");
    write(&p, "one.x", "one\n");
    sandbox.commit_all(&p, "filtered");
    let c = sandbox.isolate(&p, "c");
    write(&c, "one.x", "from the Child\n");
    write(&c, "a", lines(&[(3, "c")]));
    write(&c, "dir/c", "from the Child\n");
    // While the new files are made, a directory is closed that some of them have to go to.
    let close = format!("sh -c 'cat; chmod 555 {}'", p.join("dir").display());
    sandbox.git(&p, &["config", "filter.close.smudge", &close]);
    sandbox.give_all_away();
    let files = ["one.x", "a", "dir/c"].map(|path| read(&p, path));
    let (head, index) = (sandbox.git(&p, &["rev-parse", "HEAD"]), fs::read(p.join(".git/index")).expect("an index"));
    let mut command = sandbox.unprivileged();
    command.args(["fold", "--id", "work", "--parent", text(&p), "--child", text(&c)]);
    let run = Run::of_command(&mut command).expect("failed", 3);
    assert!(run.report().contains("dir/c") && run.report().contains("ermission denied"), "{run:?}");
    fs::set_permissions(p.join("dir"), fs::Permissions::from_mode(0o755)).expect("a mode");
    assert_eq!(["one.x", "a", "dir/c"].map(|path| read(&p, path)), files);
    assert_eq!(sandbox.git(&p, &["rev-parse", "HEAD"]), head);
    assert_eq!(fs::read(p.join(".git/index")).expect("an index"), index);
    let left = crate::support::crash::leftovers(&p.join(".git"));
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_was_edited_after_a_crash_stays() {
    if !cfg!(debug_assertions) {
        skipped("a crash needs a build with crash points");
        return;
    }
    let stand = Stand::of(Scenario::Merge);
    for (point, content) in [("swapped", "l0\n"), ("ref-moved", "from the Child\n")] {
        assert!(stand.killed_at(stand.fold(), point));
        write(&stand.p, "a", "the user's, after the crash\n");
        let run = stand.recovered();
        assert_eq!(read(&stand.p, "a").as_deref(), Some("the user's, after the crash\n"));
        if point == "swapped" {
            assert_eq!(run.last()["kept"], serde_json::json!(["a"]), "{run:?}");
            let saved = run.last()["saved"][0].as_str().expect("a ref").to_owned();
            assert!(stand.s.git(&stand.p, &["cat-file", "-p", &saved]).starts_with(content));
        } else {
            assert_eq!(stand.s.git(&stand.p, &["status", "--porcelain"]), " M a");
        }
        stand.reset();
    }
}

#[test]
fn a_journal_that_cannot_be_judged_is_left_alone() {
    if !cfg!(debug_assertions) {
        skipped("a crash needs a build with crash points");
        return;
    }
    let stand = Stand::of(Scenario::Merge);
    let room = stand.p.join(".git/isofold-landing");
    let refused = |why: &str| {
        let before = stand.s.everything(&stand.s.path("home"));
        for mut command in [stand.recover(), stand.fold()] {
            let run = Run::of_command(&mut command);
            assert!(run.code != 0 && run.outcome() == "failed", "{run:?}");
            assert!(run.report().contains(why) && run.report().contains(text(&room)), "{run:?}");
        }
        same(&stand.s.everything(&stand.s.path("home")), &before, why);
        assert!(stand.s.git(&stand.p, &["for-each-ref"]).contains("refs/isofold/fold/"));
        stand.reset();
    };
    // The user took the locks away and committed.
    assert!(stand.killed_at(stand.fold(), "swapped"));
    for lock in ["index.lock", "HEAD.lock", "refs/heads/main.lock"] {
        fs::remove_file(stand.p.join(".git").join(lock)).expect("removed");
    }
    stand.s.git(&stand.p, &["commit", "-q", "--allow-empty", "-m", "by force"]);
    refused("neither where it was");
    assert!(stand.killed_at(stand.fold(), "swapped"));
    let journal = room.join("journal");
    let mut bytes = fs::read(&journal).expect("a journal");
    bytes[60] ^= 1;
    fs::write(&journal, &bytes).expect("written");
    refused("damaged");
}

#[test]
fn landings_without_a_commit_are_whole_too() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let start = s.git(&p, &["rev-parse", "HEAD^{tree}"]);
    write(&p, "a", "other\n");
    fs::remove_file(p.join("b")).expect("removed");
    write(&p, "new/file", "new\n");
    s.git(&p, &["add", "-A"]);
    let other = s.git(&p, &["write-tree"]);
    s.git(&p, &["reset", "-q", "--hard"]);
    write_tree(&p, &other, Reach::Files).expect("written");
    assert_eq!(s.git(&p, &["status", "--porcelain"]), " M a\n D b\n?? new/");
    write_tree(&p, &start, Reach::Files).expect("written");
    assert_eq!(s.git(&p, &["status", "--porcelain"]), "");
    write_tree(&p, &other, Reach::Index).expect("written");
    assert_eq!(s.git(&p, &["status", "--porcelain"]), "M  a\nD  b\nA  new/file");
    assert_eq!(s.git(&p, &["write-tree"]), other);
    assert!(crate::support::crash::leftovers(&p.join(".git")).is_empty());
}

#[test]
fn where_files_cannot_change_places() {
    if !cfg!(debug_assertions) {
        skipped("only a build with debug assertions can do without");
        return;
    }
    let stand = Stand::of(Scenario::TypeChanges);
    let without = |mut command: Command| {
        command.env("ISOFOLD_NO_EXCHANGE", "1");
        command
    };
    let old = stand.state();
    assert!(without(stand.fold()).output().expect("isofold runs").status.success());
    let ends = (old, stand.state());
    for point in ["deleted:5", "added:1", "added:3", "swapped", "ref-moved"] {
        stand.reset();
        assert!(stand.killed_at(without(stand.fold()), point), "{point}");
        assert!(without(stand.recover()).output().expect("isofold runs").status.success());
        is_end(&stand.state(), &ends, point);
    }
}

/// Somebody who writes to the files of the Parent while a fold does.
struct Racer<'a> {
    root: &'a Path,
    outside: PathBuf,
    stop: &'a AtomicBool,
    /// The last content that each path was given, as far as nobody took the file from under the writer.
    last: Mutex<BTreeMap<&'static str, Option<String>>>,
}

const RACED: [&str; 5] = ["a", "b", "bin/run", "d/one", "new/deep/file"];

impl Racer<'_> {
    /// Begins somewhere in a fold that takes as long as `whole`, and goes on until it is told to stop.
    fn run(&self, seed: u64, whole: Duration) {
        let mut random = Random::new(seed);
        std::thread::sleep(whole * u32::try_from(random.below(100)).expect("small") / 100);
        let mut count = 0;
        while !self.stop.load(Ordering::SeqCst) {
            count += 1;
            let path = RACED[random.below(RACED.len())];
            let content = format!("racer {seed}, write {count}\n");
            match random.below(8) {
                0 => {
                    if fs::remove_file(self.root.join(path)).is_ok() {
                        self.last.lock().expect("no panic").insert(path, None);
                    }
                }
                1 => self.swap_for_a_link(),
                _ => self.write(path, &content),
            }
            std::thread::sleep(Duration::from_micros(200 + random.next() % 2_000));
        }
    }

    fn write(&self, path: &'static str, content: &str) {
        let full = self.root.join(path);
        let mut last = self.last.lock().expect("no panic");
        let Ok(mut file) = fs::File::create(&full) else { return };
        if file.write_all(content.as_bytes()).is_err() {
            return;
        }
        // A descriptor of a file that was replaced meanwhile is what no promise covers.
        let inode = file.metadata().map(|meta| meta.ino()).ok();
        drop(file);
        let stays = inode.is_some() && fs::symlink_metadata(&full).map(|meta| meta.ino()).ok() == inode;
        last.insert(path, stays.then(|| content.to_owned()));
    }

    /// A directory is a link to another place for a moment.
    fn swap_for_a_link(&self) {
        let (directory, aside) = (self.root.join("bin"), self.root.join("bin.aside"));
        if fs::rename(&directory, &aside).is_ok() {
            let linked = std::os::unix::fs::symlink(&self.outside, &directory).is_ok();
            std::thread::sleep(Duration::from_millis(1));
            if linked {
                let _ = fs::remove_file(&directory);
            }
            if fs::rename(&aside, &directory).is_err() {
                // The fold made it anew meanwhile; both are there.
                self.last.lock().expect("no panic").remove("bin/run");
            }
        }
    }
}

#[test]
fn somebody_writes_to_the_same_files() {
    let stand = Stand::of(Scenario::Merge);
    let outside = stand.s.path("outside");
    write(&outside, "run", "not the fold's business\n");
    write(&outside, "other", "neither\n");
    let untouched = crate::support::listing(&outside);
    let begun = Instant::now();
    assert!(stand.fold().output().expect("isofold runs").status.success());
    let whole = begun.elapsed();
    stand.reset();
    let seconds = number("ISOFOLD_RACE_SECONDS", 4);
    let (since, mut tally, mut kept) = (Instant::now(), BTreeMap::<String, usize>::new(), 0);
    let mut seed = number("ISOFOLD_SOAK_SEED", 1);
    while since.elapsed() < Duration::from_secs(seconds) {
        seed += 1;
        let stop = AtomicBool::new(false);
        let racer = Racer { root: &stand.p, outside: outside.clone(), stop: &stop, last: Mutex::default() };
        let run = std::thread::scope(|scope| {
            let racing = scope.spawn(|| racer.run(seed, whole));
            let output = stand.fold().output();
            stop.store(true, Ordering::SeqCst);
            racing.join().expect("no panic");
            Run::of(&output.expect("isofold runs"))
        });
        *tally.entry(run.outcome()).or_default() += 1;
        assert!(["integrated", "conflict", "failed"].contains(&run.outcome().as_str()), "{run:?}");
        let objects = stand.s.git(&stand.p, &["rev-list", "--objects", "--all", "--no-object-names"]);
        for (path, content) in racer.last.into_inner().expect("no panic") {
            let Some(content) = content else { continue };
            kept += 1;
            if read(&stand.p, path).as_deref() == Some(content.as_str()) {
                continue;
            }
            write(&stand.s.path("home"), "content", &content);
            let id = stand.s.git(&stand.p, &["hash-object", text(&stand.s.path("home/content"))]);
            assert!(objects.contains(&id), "seed {seed}: {content:?} at {path} is lost, {run:?}");
        }
        assert_eq!(crate::support::listing(&outside), untouched, "seed {seed}: {run:?}");
        let git_dir = stand.p.join(".git");
        assert!(crate::support::crash::leftovers(&git_dir).is_empty(), "seed {seed}: {run:?}");
        let (code, text) = stand.s.try_git(&stand.p, &["fsck", "--no-progress", "--no-dangling"]);
        assert_eq!((code, text.as_str()), (0, ""), "seed {seed}");
        stand.reset();
    }
    println!("raced folds: {tally:?}; {kept} last writes looked for, 0 lost");
}

#[test]
fn many_at_once_beside_commits_and_gc() {
    many_at_once(&["gc", "-q"], true);
}

#[test]
fn many_at_once_beside_a_gc_that_prunes_at_once() {
    many_at_once(&["gc", "-q", "--prune=now"], false);
}

/// As many folds into one Parent at once, beside a loop of `gc` and, with `commits`, a user who commits.
fn many_at_once(gc: &[&str], commits: bool) {
    let count = usize::try_from(number("ISOFOLD_MANY", 6)).expect("small");
    let s = Sandbox::in_memory();
    let p = s.repo("parent");
    for n in 0..count {
        write(&p, format!("own/f{n}"), "start\n");
    }
    s.commit_all(&p, "start");
    let children: Vec<PathBuf> = (0..count).map(|n| s.isolate(&p, &format!("c{n}"))).collect();
    for (n, child) in children.iter().enumerate() {
        write(child, format!("own/f{n}"), format!("by {n}\n"));
    }
    let (stop, committed) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let runs: Vec<Run> = std::thread::scope(|scope| {
        scope.spawn(|| {
            while commits && !stop.load(Ordering::SeqCst) {
                let (code, _) = s.try_git(&p, &["commit", "-q", "--allow-empty", "-m", "the user's"]);
                if code == 0 {
                    committed.lock().expect("no panic").push(s.git(&p, &["rev-parse", "HEAD"]));
                }
                std::thread::sleep(Duration::from_millis(30));
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::SeqCst) {
                let _ = s.try_git(&p, gc);
            }
        });
        let folds: Vec<_> = children.iter().map(|child| scope.spawn(|| s.try_fold(&p, child, &[]))).collect();
        let runs: Vec<_> = folds.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::SeqCst);
        runs.into_iter().map(|run| run.expect("no panic")).collect()
    });
    let mut tally = BTreeMap::<String, usize>::new();
    for (n, run) in runs.iter().enumerate() {
        *tally.entry(run.outcome()).or_default() += 1;
        match run.outcome().as_str() {
            "integrated" => assert_eq!(read(&p, format!("own/f{n}")), Some(format!("by {n}\n"))),
            _ => assert!(!run.one_line_report().is_empty()),
        }
    }
    println!("{count} folds at once beside {gc:?}: {tally:?}, {} commits", committed.lock().expect("no panic").len());
    let history = s.git(&p, &["rev-list", "HEAD"]);
    for commit in committed.into_inner().expect("no panic") {
        // What was HEAD once is in its history, unless a fold came right after it and was read instead.
        assert!(history.contains(&commit), "{commit} is lost");
    }
    s.settled(&p, "");
    assert!(tally.get("integrated").copied().unwrap_or(0) > 0, "{tally:?}");
}
