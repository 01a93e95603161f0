//! Each job leaves a pack; many small ones are put together.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::host::text;
use crate::support::random::Random;
use crate::support::{Sandbox, lines, write};

fn packs(repo: &Path, extension: &str) -> BTreeSet<PathBuf> {
    let directory = fs::read_dir(repo.join(".git/objects/pack")).expect("readable");
    let files = directory.map(|entry| entry.expect("an entry").path());
    files.filter(|path| path.extension().is_some_and(|e| e == extension)).collect()
}

fn objects(s: &Sandbox, repo: &Path) -> BTreeSet<String> {
    let all = s.git(repo, &["cat-file", "--batch-check=%(objectname)", "--batch-all-objects", "--unordered"]);
    all.lines().map(str::to_owned).collect()
}

fn record(s: &Sandbox, worktree: &Path, agent: &str) {
    let run = s.isofold(["-C", text(worktree), "patch", "record", "--agent", agent]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");
}

/// A pack of one object that git made.
fn pack_of(s: &Sandbox, repo: &Path, content: &str) -> PathBuf {
    write(repo, "content", content);
    let id = s.git(repo, &["hash-object", "-w", "content"]);
    fs::remove_file(repo.join("content")).expect("removed");
    let mut pack = s.command("git");
    // Like those of isofold it has nothing beside it but its index.
    pack.arg("-C").arg(repo).args([
        "-c",
        "pack.writeReverseIndex=false",
        "pack-objects",
        "-q",
        ".git/objects/pack/pack",
    ]);
    let mut pack = pack.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("git runs");
    std::io::Write::write_all(&mut pack.stdin.take().expect("a pipe"), format!("{id}\n").as_bytes()).expect("told");
    let output = pack.wait_with_output().expect("git ends");
    assert!(output.status.success());
    s.git(repo, &["prune-packed"]);
    let name = String::from_utf8(output.stdout).expect("a name");
    repo.join(format!(".git/objects/pack/pack-{}.pack", name.trim_end()))
}

#[test]
fn many_records_leave_few_packs_and_every_object() {
    let s = Sandbox::new();
    let main = s.repo("main");
    let worktree = s.path("worktree");
    s.git(&main, &["worktree", "add", "-q", text(&worktree)]);
    let (mut known, mut most) = (BTreeSet::new(), 0);
    for round in 0..45 {
        write(&worktree, "a", lines(&[(3, &format!("round {round}"))]));
        record(&s, &worktree, "ag");
        let now = objects(&s, &main);
        assert!(now.is_superset(&known), "round {round}");
        known = now;
        most = most.max(packs(&main, "pack").len());
    }
    assert!((10..=21).contains(&most), "{most} packs");
    assert_eq!(packs(&main, "keep"), BTreeSet::new());
    s.git(&main, &["fsck", "--full", "--strict"]);
    s.git(&main, &["worktree", "remove", "--force", text(&worktree)]);
    let run = s.isofold(["-C", text(&main), "patch", "land", "ag"]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(fs::read_to_string(main.join("a")).expect("text"), lines(&[(3, "round 44")]));
}

#[test]
fn a_pack_that_is_more_than_small_and_whole_stays() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    let plain: BTreeSet<PathBuf> = (0..25).map(|n| pack_of(&s, &p, &format!("plain {n}\n"))).collect();
    let kept = pack_of(&s, &p, "kept\n");
    fs::write(kept.with_extension("keep"), "by a test\n").expect("written");
    let listed = pack_of(&s, &p, "with a list\n");
    fs::write(listed.with_extension("promisor"), "").expect("written");
    // Hexadecimal digits of noise: half as long when compressed.
    let mut noise = Random::new(7);
    let random = (0..3 << 16).map(|_| format!("{:016x}", noise.next())).collect::<Vec<_>>().concat();
    let large = pack_of(&s, &p, &random);
    let damaged = pack_of(&s, &p, "damaged\n");
    let mut bytes = fs::read(&damaged).expect("read");
    bytes[15] ^= 1;
    fs::set_permissions(&damaged, fs::Permissions::from_mode(0o644)).expect("a mode");
    fs::write(&damaged, bytes).expect("written");
    // A pack in which one object is the difference to another.
    let history = s.repo("history");
    write(&history, "long", lines(&[]).repeat(20));
    s.commit_all(&history, "long");
    write(&history, "long", lines(&[]).repeat(20) + "one more\n");
    s.commit_all(&history, "longer");
    s.git(&history, &["repack", "-adq", "--depth=10", "--window=10"]);
    let source = packs(&history, "pack").pop_first().expect("a pack");
    let differences = p.join(".git/objects/pack").join(source.file_name().expect("a name"));
    for extension in ["idx", "pack"] {
        fs::copy(source.with_extension(extension), differences.with_extension(extension)).expect("copied");
    }
    let stay = BTreeSet::from([kept, listed, large, damaged, differences]);
    let known = objects(&s, &p);
    // Where git has an index over several packs nothing is touched.
    fs::write(p.join(".git/objects/pack/multi-pack-index"), "").expect("written");
    write(&p, "a", "loose work\n");
    s.isolate(&p, "first");
    let before = packs(&p, "pack");
    assert!(before.is_superset(&plain) && before.is_superset(&stay));
    fs::remove_file(p.join(".git/objects/pack/multi-pack-index")).expect("removed");
    write(&p, "a", "other loose work\n");
    s.isolate(&p, "second");
    let after = packs(&p, "pack");
    assert!(after.is_superset(&stay), "{after:?}");
    assert!(after.is_disjoint(&plain), "{after:?}");
    assert_eq!(after.len(), stay.len() + 2, "one of many, one of the isolation: {after:?}");
    assert!(objects(&s, &p).is_superset(&known));
    let indexes: BTreeSet<PathBuf> = packs(&p, "idx").into_iter().map(|index| index.with_extension("pack")).collect();
    assert_eq!(indexes, after);
}

#[test]
fn packs_are_put_together_beside_a_gc_and_other_jobs() {
    let s = Sandbox::new();
    let main = s.repo("main");
    let worktrees = ["one", "two"].map(|name| {
        let worktree = s.path(name);
        s.git(&main, &["worktree", "add", "-q", text(&worktree)]);
        worktree
    });
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let agents: Vec<_> = worktrees
            .iter()
            .map(|worktree| {
                let (s, agent) = (&s, worktree.file_name().expect("a name").to_str().expect("UTF-8"));
                scope.spawn(move || {
                    for round in 0..50 {
                        write(worktree, "a", lines(&[(3, &format!("{agent} {round}"))]));
                        record(s, worktree, agent);
                    }
                })
            })
            .collect();
        let gc = scope.spawn(|| {
            let mut runs = 0;
            while !over.load(Ordering::Relaxed) {
                let mut gc: Command = s.command("git");
                let output = gc.arg("-C").arg(&main).args(["gc", "--quiet", "--prune=now"]).output().expect("git runs");
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                runs += 1;
                // Time for packs to become many.
                std::thread::sleep(std::time::Duration::from_millis(700));
            }
            runs
        });
        let ended: Vec<bool> = agents.into_iter().map(|agent| agent.join().is_ok()).collect();
        over.store(true, Ordering::Relaxed);
        assert!(gc.join().expect("gc works") > 0);
        assert_eq!(ended, [true, true]);
    });
    s.git(&main, &["fsck", "--full", "--strict"]);
    assert_eq!(packs(&main, "keep"), BTreeSet::new());
    for agent in ["one", "two"] {
        let run = s.isofold(["-C", text(&main), "patch", "show", agent]);
        assert!(run.code == 0 && run.stdout.contains(&format!("+{agent} 49\n")), "{run:?}");
    }
}
