//! A fold is killed at every named point, in every kind of fold, and settled again: all old or all new. So are
//! a session that is kept and a patch that lands: they write with the same writer.
#![allow(clippy::print_stdout, reason = "a table of what came out is part of the test")]

use std::collections::BTreeMap;

use isofold::testing::{CRASH_POINTS, RECOVERY_CRASH_POINTS};

use crate::support::crash::{Scenario, Stand};
use crate::support::host::{same, skipped};

/// Whether the program under test can be killed at named points.
fn has_points() -> bool {
    let has = cfg!(debug_assertions) && std::env::var_os("ISOFOLD_TEST_PROGRAM").is_none();
    if !has {
        skipped("named crash points are only in builds with debug assertions");
    }
    has
}

/// Old and new, as a job that nobody kills leaves them.
fn both_ends(stand: &Stand) -> (String, String) {
    let old = stand.state();
    assert!(stand.job().output().expect("isofold runs").status.success());
    let new = stand.state();
    assert_ne!(old, new);
    assert!(!new.contains("left over"), "{new}");
    stand.reset();
    (old, new)
}

#[track_caller]
fn judge(stand: &Stand, (old, new): &(String, String), what: &str) -> &'static str {
    let now = stand.state();
    // The one that it is nearer to is the one that it has to be.
    let like = |state: &str| state.lines().filter(|line| now.contains(line)).count();
    let (end, state) = if like(new) > like(old) { ("new", new) } else { ("old", old) };
    same(&now, state, what);
    end
}

/// Kills at each point; what came of it, by point.
fn kill_everywhere(scenario: Scenario) -> BTreeMap<String, &'static str> {
    let stand = Stand::of(scenario);
    let ends = both_ends(&stand);
    let mut row = BTreeMap::new();
    // Of what is done for each file, the second one too.
    let often = ["deleted", "directory-removed", "directory-made", "added", "replaced"];
    let again = often.iter().map(|name| format!("{name}:2"));
    for point in CRASH_POINTS.iter().map(|name| (*name).to_owned()).chain(again) {
        if stand.killed_at(stand.job(), &point) {
            let run = stand.recovered();
            let end = judge(&stand, &ends, &format!("{scenario:?}, killed at {point}, {run:?}"));
            stand.done_again(&ends.1);
            stand.user_can_commit();
            row.insert(point, end);
        }
        stand.reset();
    }
    row
}

#[test]
fn killed_at_every_point() {
    if !has_points() {
        return;
    }
    let rows: Vec<_> = std::thread::scope(|scope| {
        let threads = Scenario::ALL.map(|scenario| (scenario, scope.spawn(move || kill_everywhere(scenario))));
        threads.into_iter().map(|(scenario, row)| (scenario, row.join().expect("no mixed state"))).collect()
    });
    let name = |scenario: &Scenario| format!("{scenario:?}");
    let head: Vec<String> = rows.iter().map(|(scenario, _)| format!("{:>15}", name(scenario))).collect();
    println!("{:<20}{}", "point", head.concat());
    let points: std::collections::BTreeSet<&String> = rows.iter().flat_map(|(_, row)| row.keys()).collect();
    for point in &points {
        let cells = rows.iter().map(|(_, row)| format!("{:>15}", row.get(*point).unwrap_or(&"-")));
        println!("{point:<20}{}", cells.collect::<String>());
    }
    for point in CRASH_POINTS {
        assert!(rows.iter().any(|(_, row)| row.contains_key(*point)), "no fold passes {point}");
    }
    // The commit point is where the one becomes the other.
    for (scenario, row) in &rows {
        assert_eq!((row["synced"], row["ref-moved"]), ("old", "new"), "{scenario:?}");
    }
}

#[test]
fn killed_while_it_recovers() {
    if !has_points() {
        return;
    }
    let all = std::env::var_os("ISOFOLD_CRASH_ALL").is_some();
    let scenarios = if all { &Scenario::ALL[..] } else { &[Scenario::Merge, Scenario::TypeChanges] };
    let mut killed = 0;
    std::thread::scope(|scope| {
        let threads = scenarios.iter().map(|scenario| {
            scope.spawn(move || {
                let stand = Stand::of(*scenario);
                let ends = both_ends(&stand);
                let mut killed = 0;
                for first in ["branch-locked", "added", "swapped", "ref-moved", "done-recorded"] {
                    for second in RECOVERY_CRASH_POINTS {
                        if !stand.killed_at(stand.job(), first) {
                            stand.reset();
                            continue;
                        }
                        let twice = stand.killed_at(stand.recover(), second);
                        stand.recovered();
                        judge(&stand, &ends, &format!("{scenario:?}, killed at {first}, then at {second}"));
                        stand.user_can_commit();
                        killed += usize::from(twice);
                        stand.reset();
                    }
                }
                killed
            })
        });
        for thread in threads.collect::<Vec<_>>() {
            killed += thread.join().expect("no mixed state");
        }
    });
    println!("{killed} recoveries were killed");
    assert!(killed >= 20 * scenarios.len(), "{killed}");
}
