//! What one process a job costs: `cargo bench --bench start [-- --rounds N]`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench talks to a person")]

mod common;

use std::process::{Command, Stdio};

use common::{Arguments, time};

fn main() {
    let rounds = Arguments::read().rounds.max(2) * 40;
    let isofold = env!("CARGO_BIN_EXE_isofold");
    let id = "github:owner/repo#9";
    let cases: [(&str, &str, &[&str]); 4] = [
        ("isofold branch-name-of ID", isofold, &["branch-name-of", id]),
        ("branch-name-of ID", env!("CARGO_BIN_EXE_branch-name-of"), &[id]),
        ("isofold --version --json", isofold, &["--version", "--json"]),
        ("true", "true", &[]),
    ];
    println!("a whole process in milliseconds, {rounds} of each: median wall time (99 %), median CPU time (99 %)");
    for (name, program, args) in cases {
        let run = || {
            let status = Command::new(program).args(args).stdout(Stdio::null()).status().expect("it runs");
            assert!(status.success());
        };
        let samples: Vec<_> = (0..rounds).map(|_| time(run)).collect();
        let sorted = |of: fn(&common::Sample) -> f64| {
            let mut all: Vec<f64> = samples.iter().map(|sample| of(sample) * 1000.0).collect();
            all.sort_by(f64::total_cmp);
            (all[rounds / 2], all[rounds * 99 / 100])
        };
        let (wall, cpu) = (sorted(|sample| sample.wall), sorted(|sample| sample.cpu));
        println!("{name:28} {:7.2} ({:.2}) {:7.2} ({:.2})", wall.0, wall.1, cpu.0, cpu.1);
    }
}
