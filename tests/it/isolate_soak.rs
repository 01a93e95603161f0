//! Soak: many isolations and removals at once, killed at random moments, then recovered. Nothing of a
//! killed one may stay, nothing of the Parent may change.
//!
//! `ISOFOLD_SOAK_ROUNDS` and `ISOFOLD_SOAK_SEED` make it longer or another one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::host::{note, same, text};
use crate::support::mounts::sandbox_on;
use crate::support::{Sandbox, lines, next_second, write};

const AT_ONCE: usize = 20;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text:?}")))
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }
}

/// One process of a round: when it is killed, if at all.
struct Job {
    process: std::process::Child,
    kill: Option<Instant>,
}

/// Waits for all and kills those whose time has come; which of them ended by themselves with 0.
fn run_out(mut jobs: Vec<Job>) -> Vec<bool> {
    let mut ended: Vec<Option<bool>> = vec![None; jobs.len()];
    while ended.iter().any(Option::is_none) {
        for (job, ended) in jobs.iter_mut().zip(&mut ended) {
            if ended.is_some() {
                continue;
            }
            if let Some(status) = job.process.try_wait().expect("a status") {
                *ended = Some(status.success());
            } else if job.kill.is_some_and(|at| Instant::now() >= at) {
                job.process.kill().expect("killed");
                job.kill = None;
            }
        }
        std::thread::sleep(Duration::from_micros(300));
    }
    ended.into_iter().map(|ended| ended == Some(true)).collect()
}

/// A Parent with loose work of every kind.
fn parent(sandbox: &Sandbox) -> PathBuf {
    let parent = sandbox.repo("parent");
    for number in 0..150 {
        write(&parent, format!("many/{}/{number}", number % 7), format!("{number}\n"));
    }
    sandbox.commit_all(&parent, "many");
    write(&parent, "a", lines(&[(0, "dirty")]));
    write(&parent, "staged", "staged\n");
    sandbox.git(&parent, &["add", "staged"]);
    write(&parent, "loose", "loose\n");
    write(&parent, "ignored/deep/er/file", "ignored\n");
    next_second();
    sandbox.git(&parent, &["status"]);
    parent
}

/// What may not change in the Parent, whatever happens to its Children.
fn parents_own(sandbox: &Sandbox, parent: &Path) -> String {
    let mut text = crate::support::listing(parent);
    text.push_str(&crate::support::hash(&fs::read(parent.join(".git/index")).expect("an index")));
    text.push_str(&fs::read_to_string(parent.join(".git/HEAD")).expect("HEAD"));
    text.push_str(&crate::support::hash(&fs::read(parent.join(".git/config")).expect("a configuration")));
    text.push_str(&sandbox.git(parent, &["rev-parse", "HEAD", "refs/heads/main"]));
    text.push_str(&sandbox.git(parent, &["--no-optional-locks", "status", "--porcelain=v2"]));
    text
}

/// Nothing but what belongs to the complete Children is in the git directory or beside the Parent.
fn only_complete(sandbox: &Sandbox, parent: &Path, homes: &Path, complete: &BTreeSet<String>, what: &str) {
    let git = parent.join(".git");
    let names = |directory: &Path| -> BTreeSet<String> {
        let entries = fs::read_dir(directory).into_iter().flatten();
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    };
    let listed = sandbox.git(parent, &["worktree", "list", "--porcelain"]);
    assert!(!listed.contains("\nlocked"), "{what}: {listed}");
    assert!(!listed.contains("\nprunable"), "{what}: {listed}");
    assert_eq!(listed.matches("worktree ").count(), complete.len() + 1, "{what}: {listed}");
    assert_eq!(names(&git.join("worktrees")).len(), complete.len(), "{what}");
    let ours: Vec<String> = names(&git).into_iter().filter(|name| name.starts_with("isofold-")).collect();
    assert_eq!(ours, Vec::<String>::new(), "{what}");
    let mut standing = BTreeSet::new();
    for home in names(homes) {
        let inside = names(&homes.join(&home));
        // A directory above a Child goes with it.
        standing.extend(inside.is_empty().then(|| format!("{home}/")));
        standing.extend(inside.into_iter().map(|name| format!("{home}/{name}")));
    }
    assert_eq!(standing, *complete, "{what}: directories");
    let bases = sandbox.git(parent, &["for-each-ref", "--format=%(refname)", "refs/isofold/base"]);
    let bases: BTreeSet<String> =
        bases.lines().map(|name| name.trim_start_matches("refs/isofold/base/").to_owned() + ".toml").collect();
    assert_eq!(names(&git.join("isofold/bases")), bases, "{what}: base entries and their refs");
    assert_eq!(bases.len(), complete.len(), "{what}: base entries");
    let (code, report) = sandbox.try_git(parent, &["fsck", "--no-progress", "--no-dangling"]);
    assert_eq!((code, report.as_str()), (0, ""), "{what}: fsck");
}

fn soak(sandbox: &Sandbox, seed: u64, rounds: u64) {
    let parent = parent(sandbox);
    let homes = sandbox.path("homes");
    fs::create_dir(&homes).expect("a directory");
    let before = parents_own(sandbox, &parent);
    let mut random = Random(seed | 1);
    let (mut killed, mut survived) = (0, 0);
    // How long one takes here decides when it is killed.
    let since = Instant::now();
    let probe = sandbox.isolate(&parent, "probe");
    let usual = since.elapsed() * 6;
    sandbox.isofold(["remove", "--child", text(&probe)]).expect("removed", 0);
    sandbox.git(&parent, &["branch", "-D", "issue/probe"]);
    for round in 0..rounds {
        let what = format!("seed {seed} round {round}");
        let child = |number: usize| homes.join(format!("home{number}")).join("child");
        let branches = |sandbox: &Sandbox| -> BTreeSet<String> {
            let text = sandbox.git(&parent, &["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
            text.lines().map(str::to_owned).collect()
        };
        let had = branches(sandbox);
        let mut doomed = [false; AT_ONCE];
        let jobs = (0..AT_ONCE).map(|number| {
            let mut command = sandbox.program();
            let detach = random.below(4) == 0;
            command.args(["isolate", "--id", &format!("agent-{number}")]);
            command.args(if detach { &["--detach"][..] } else { &[] });
            command.arg("--parent").arg(&parent).arg("--child").arg(child(number));
            command.stdout(Stdio::null()).stderr(Stdio::null());
            doomed[number] = random.below(3) > 0;
            let after = usual.mul_f64(f64::from(u32::try_from(random.below(1000)).expect("small")) / 1000.0);
            Job { process: command.spawn().expect("it starts"), kill: doomed[number].then(|| Instant::now() + after) }
        });
        let ended = run_out(jobs.collect());
        for (number, ended) in ended.iter().enumerate() {
            assert!(*ended || doomed[number], "{what}: {number} failed beside the others");
        }
        // The next isolation of that Parent clears up; so does prune.
        if random.below(2) == 0 {
            let extra = sandbox.path("extra");
            sandbox.try_isolate("extra", &parent, &extra, &["--detach"]).expect("isolated", 0);
            sandbox.isofold(["remove", "--child", text(&extra)]).expect("removed", 0);
        }
        let pruned = sandbox.isofold(["-C", text(&parent), "prune", "--json"]);
        assert_eq!(pruned.code, 0, "{what}: {pruned:?}");
        let complete: BTreeSet<String> =
            (0..AT_ONCE).filter(|n| child(*n).exists()).map(|n| format!("home{n}/child")).collect();
        for (number, ended) in ended.iter().enumerate() {
            assert!(!ended || child(number).exists(), "{what}: {number} was isolated and is gone");
            *(if *ended { &mut survived } else { &mut killed }) += 1;
        }
        only_complete(sandbox, &parent, &homes, &complete, &what);
        same(&parents_own(sandbox, &parent), &before, &what);
        let held: BTreeSet<String> = complete
            .iter()
            .filter_map(|name| {
                let (code, branch) = sandbox.try_git(&homes.join(name), &["symbolic-ref", "--short", "HEAD"]);
                (code == 0).then_some(branch)
            })
            .collect();
        assert_eq!(branches(sandbox), had.union(&held).cloned().collect(), "{what}: branches");
        // A complete Child is just that; some get a commit that a branch keeps.
        for name in &complete {
            let child = homes.join(name);
            assert_eq!(
                sandbox.git(&child, &["status", "--porcelain=v1"]),
                sandbox.git(&parent, &["--no-optional-locks", "status", "--porcelain=v1"]),
                "{what}: {name}"
            );
            if random.below(4) == 0 {
                write(&child, "b", format!("{what} {name}\n"));
                sandbox.commit_all(&child, "work");
            }
        }
        // Now they go, and are killed at that too.
        let going: Vec<&String> = complete.iter().collect();
        let jobs = going.iter().map(|name| {
            let mut command = sandbox.program();
            command.args(["remove", "--force", "--child"]).arg(homes.join(name));
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let after = usual.mul_f64(f64::from(u32::try_from(random.below(1000)).expect("small")) / 1000.0);
            let kill = (random.below(2) == 0).then(|| Instant::now() + after);
            Job { process: command.spawn().expect("it starts"), kill }
        });
        let _ = run_out(jobs.collect());
        let pruned = sandbox.isofold(["-C", text(&parent), "prune", "--json"]);
        assert_eq!(pruned.code, 0, "{what}: {pruned:?}");
        for name in going {
            let child = homes.join(name);
            if child.exists() {
                // Killed before it began: still whole.
                sandbox.isofold(["remove", "--force", "--child", text(&child)]).expect("removed", 0);
            }
            let _ = fs::remove_dir(child.parent().expect("a parent"));
        }
        only_complete(sandbox, &parent, &homes, &BTreeSet::new(), &what);
        same(&parents_own(sandbox, &parent), &before, &what);
    }
    note(&format!("soak: {rounds} rounds, seed {seed}: {survived} isolated, {killed} killed"));
    assert!(rounds < 3 || (killed > 0 && survived > 0), "the kills come at the wrong time");
}

#[test]
fn soak_on_tmpfs() {
    let sandbox = Sandbox::in_memory();
    soak(&sandbox, number("ISOFOLD_SOAK_SEED", 7), number("ISOFOLD_SOAK_ROUNDS", 2));
}

#[test]
fn soak_on_btrfs() {
    let Some((_disk, sandbox)) = sandbox_on("btrfs") else { return };
    soak(&sandbox, number("ISOFOLD_SOAK_SEED", 7) + 1, number("ISOFOLD_SOAK_ROUNDS", 1));
}
