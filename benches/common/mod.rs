//! What the benches share: file systems to run on, trees to run on, interleaved timing, tables.
#![allow(dead_code, reason = "each bench uses its part")]

pub(crate) mod least;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// Arguments after `--`: the parts to run (none: all), `--rounds N`, `--fs a,b`.
pub(crate) struct Arguments {
    pub(crate) parts: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) systems: Vec<String>,
}

impl Arguments {
    pub(crate) fn read() -> Self {
        let mut parsed = Self { parts: Vec::new(), rounds: 7, systems: Vec::new() };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--rounds" => parsed.rounds = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(parsed.rounds),
                "--fs" => parsed.systems = arguments.next().unwrap_or_default().split(',').map(str::to_owned).collect(),
                // cargo's own.
                "--bench" => {}
                part => parsed.parts.push(part.to_owned()),
            }
        }
        parsed
    }

    pub(crate) fn wants(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|p| p == part)
    }
}

/// A fresh file system of one kind, or a directory of the machine's own.
pub(crate) struct System {
    pub(crate) name: String,
    pub(crate) root: PathBuf,
    image: Option<PathBuf>,
    _directory: tempfile::TempDir,
}

impl Drop for System {
    fn drop(&mut self) {
        if self.image.is_some() {
            let _ = Command::new("umount").arg("-l").arg(&self.root).status();
        }
    }
}

/// The file systems asked for: fresh ones when root, else what the machine has.
pub(crate) fn systems(arguments: &Arguments) -> Vec<System> {
    let root = rustix::process::geteuid().is_root();
    let all = ["tmpfs", "ext4", "btrfs", "xfs"];
    let wanted = all.iter().filter(|n| arguments.systems.is_empty() || arguments.systems.iter().any(|s| s == **n));
    let made: Vec<System> = wanted.filter_map(|name| if root { mounted(name) } else { None }).collect();
    if !made.is_empty() {
        return made;
    }
    eprintln!("not root: only the file system of the temporary directory is measured");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let root = directory.path().canonicalize().expect("a path");
    vec![System { name: "default".to_owned(), root, image: None, _directory: directory }]
}

fn mounted(name: &str) -> Option<System> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let root = directory.path().canonicalize().expect("a path").join("mount");
    fs::create_dir(&root).expect("a mount point");
    let image = directory.path().join("image");
    let quiet =
        |command: &mut Command| command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success());
    let ok = if name == "tmpfs" {
        quiet(Command::new("mount").args(["-t", "tmpfs", "-o", "size=6g", "tmpfs"]).arg(&root))
    } else {
        let file = fs::File::create(&image).expect("an image");
        file.set_len(8 << 30).expect("room for the image");
        quiet(Command::new(format!("mkfs.{name}")).arg(&image))
            && quiet(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&root))
    };
    if !ok {
        eprintln!("{name}: no fresh file system can be mounted here; left out");
        return None;
    }
    Some(System { name: name.to_owned(), root, image: Some(image), _directory: directory })
}

/// Runs a command, which has to succeed.
pub(crate) fn run(directory: &Path, program: &str, arguments: &[&str]) -> String {
    let output = command(directory, program).args(arguments).output().expect("it starts");
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// A command with a plain git environment.
pub(crate) fn command(directory: &Path, program: &str) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(directory)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("HOME", "/nonexistent")
        .env("LC_ALL", "C")
        .stdin(Stdio::null());
    command
}

/// The program under test, built with the bench profile.
pub(crate) const ISOFOLD: &str = env!("CARGO_BIN_EXE_isofold");

/// Deterministic numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }

    /// Text of `size` bytes in lines.
    pub(crate) fn text(&mut self, size: usize) -> Vec<u8> {
        (0..size)
            .map(|at| if at % 40 == 39 { b'\n' } else { b'a' + u8::try_from(self.below(26)).unwrap_or(0) })
            .collect()
    }
}

/// Writes `count` small files (0.5 to 8 KB) in directories of ten, ten directories to a directory.
pub(crate) fn small_files(root: &Path, count: usize, seed: u64) {
    let mut random = Random::new(seed);
    for number in 0..count {
        let directory = root.join(format!("d{}/e{}", number / 100, number / 10 % 10));
        if number % 10 == 0 {
            fs::create_dir_all(&directory).expect("a directory");
        }
        let size = 512 + usize::try_from(random.below(7_500)).unwrap_or(0);
        fs::write(directory.join(format!("f{}.txt", number % 10)), random.text(size)).expect("a file");
    }
}

/// A repository with an identity.
pub(crate) fn init(root: &Path) {
    fs::create_dir_all(root).expect("a directory");
    run(root, "git", &["init", "-q", "-b", "main"]);
    run(root, "git", &["config", "user.name", "Bench"]);
    run(root, "git", &["config", "user.email", "bench@example.test"]);
    run(root, "git", &["config", "gc.auto", "0"]);
}

/// Commits everything and waits until no stat data is racy.
pub(crate) fn commit(root: &Path) {
    run(root, "git", &["add", "-A"]);
    run(root, "git", &["commit", "-q", "-m", "start"]);
    run(root, "git", &["repack", "-adq"]);
    settle();
    run(root, "git", &["status", "--porcelain"]);
}

/// Lets a whole second pass.
pub(crate) fn settle() {
    std::thread::sleep(Duration::from_millis(1_100));
}

/// Wall and CPU seconds of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) wall: f64,
    pub(crate) cpu: f64,
}

/// Times `work`, with the CPU time of every process it waited for.
pub(crate) fn time(work: impl FnOnce()) -> Sample {
    let cpu = || {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("usage");
        let microseconds = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        Duration::from_micros(u64::try_from(microseconds).unwrap_or(0)).as_secs_f64()
    };
    let (before, since) = (cpu(), Instant::now());
    work();
    Sample { wall: since.elapsed().as_secs_f64(), cpu: cpu() - before }
}

/// One thing that is measured; the first contestant of a contest is ours.
pub(crate) struct Contestant<'a> {
    pub(crate) name: &'a str,
    pub(crate) prepare: Box<dyn FnMut() + 'a>,
    pub(crate) work: Box<dyn FnMut() + 'a>,
    pub(crate) clean: Box<dyn FnMut() + 'a>,
}

/// Runs the contestants round by round and returns ratios of ours to each of the others.
pub(crate) fn contest(title: &str, rounds: usize, contestants: &mut [Contestant<'_>], report: &mut Report) {
    let mut samples: Vec<Vec<Sample>> = contestants.iter().map(|_| Vec::new()).collect();
    for round in 0..=rounds {
        // Each round starts with another one.
        for offset in 0..contestants.len() {
            let number = (round + offset) % contestants.len();
            let contestant = &mut contestants[number];
            (contestant.prepare)();
            let sample = time(|| (contestant.work)());
            (contestant.clean)();
            // The first round warms the caches.
            if round > 0 {
                samples[number].push(sample);
            }
        }
    }
    for number in 1..contestants.len() {
        let ratio = |of: fn(&Sample) -> f64| -> [f64; 3] {
            let pairs = samples[0].iter().zip(&samples[number]);
            let mut ratios: Vec<f64> = pairs.map(|(ours, theirs)| of(ours) / of(theirs).max(1e-6)).collect();
            ratios.sort_by(f64::total_cmp);
            [median_of(&samples[0], of) / median_of(&samples[number], of), ratios[0], ratios[ratios.len() - 1]]
        };
        let (wall, cpu) = (ratio(|s| s.wall), ratio(|s| s.cpu));
        let (ours, theirs) = (median_of(&samples[0], |s| s.wall), median_of(&samples[number], |s| s.wall));
        report.row(title, contestants[number].name, wall, cpu, ours, theirs);
    }
}

fn median_of(samples: &[Sample], of: impl Fn(&Sample) -> f64) -> f64 {
    let mut values: Vec<f64> = samples.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Collects rows; prints a table as it goes and JSON at the end.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<serde_json::Value>,
    facts: BTreeMap<String, serde_json::Value>,
}

impl Report {
    fn row(&mut self, title: &str, against: &str, wall: [f64; 3], cpu: [f64; 3], ours: f64, theirs: f64) {
        if self.rows.is_empty() {
            println!(
                "{:<28} {:<22} {:>22} {:>22} {:>9} {:>9}",
                "scenario", "against", "wall (min-max)", "cpu (min-max)", "ours ms", "theirs ms"
            );
        }
        let cell = |r: [f64; 3]| format!("{:.2} ({:.2}-{:.2})", r[0], r[1], r[2]);
        let (ours, theirs) = (ours * 1e3, theirs * 1e3);
        println!("{title:<28} {against:<22} {:>22} {:>22} {ours:>9.0} {theirs:>9.0}", cell(wall), cell(cpu));
        self.rows.push(serde_json::json!({
            "scenario": title, "against": against,
            "wall": {"median": wall[0], "min": wall[1], "max": wall[2]},
            "cpu": {"median": cpu[0], "min": cpu[1], "max": cpu[2]},
            "ours_ms": ours, "theirs_ms": theirs,
        }));
    }

    /// A figure that is not a ratio of two contestants.
    pub(crate) fn fact(&mut self, name: &str, value: f64) {
        println!("{name:<51} {value:.2}");
        self.facts.insert(name.to_owned(), value.into());
    }

    pub(crate) fn finish(self) {
        println!("{}", serde_json::json!({"rows": self.rows, "facts": self.facts}));
    }
}
