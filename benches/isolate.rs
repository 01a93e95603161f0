//! `cargo bench --bench isolate [-- tracked node big status remove scale parallel] [--rounds N] [--fs a,b]`
//!
//! Isolation against `cp -a --reflink=auto` of the same files, and against the usual way: `git
//! worktree add`, delete everything, copy each root entry, prune what is excluded; and against the
//! least calls that a copy takes. Every scenario is checked before it is timed.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table")]

mod common;

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};

use common::{
    Arguments, Contestant, ISOFOLD, Report, command, commit, contest, init, least, run, small_files, systems, time,
};

fn main() {
    let words: Vec<String> = std::env::args().collect();
    if let [_, least::ARGUMENT, source, target] = words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return least::run(Path::new(source), Path::new(target));
    }
    let arguments = Arguments::read();
    let mut report = Report::default();
    for system in systems(&arguments) {
        for (part, make) in [("tracked", tracked as fn(&Path)), ("node", node), ("big", big)] {
            let with_status = part == "tracked" && arguments.wants("status");
            let removed = part != "big" && arguments.wants("remove");
            let at_once = part == "tracked" && arguments.wants("parallel");
            if !arguments.wants(part) && !with_status && !removed && !at_once {
                continue;
            }
            let parent = system.root.join(part);
            make(&parent);
            check(&parent);
            if arguments.wants(part) {
                compare(&format!("{part} {}", system.name), &parent, arguments.rounds, false, &mut report);
            }
            if with_status {
                compare(&format!("{part}+status {}", system.name), &parent, arguments.rounds, true, &mut report);
            }
            if removed {
                removal(&format!("remove {part} {}", system.name), &parent, arguments.rounds, &mut report);
            }
            if at_once {
                for count in [5, 20] {
                    parallel(&format!("{count} at once {}", system.name), &parent, count, &mut report);
                }
            }
            fs::remove_dir_all(&parent).expect("removed");
        }
        if arguments.wants("scale") {
            scale(&system.name, &system.root, &mut report);
        }
    }
    report.finish();
}

/// 20,000 small tracked files.
fn tracked(parent: &Path) {
    init(parent);
    small_files(parent, 20_000, 1);
    fs::write(parent.join(".env"), "SECRET=1\n").expect("written");
    fs::write(parent.join(".gitignore"), ".env\n").expect("written");
    commit(parent);
}

/// 12,000 files of an ignored `node_modules`, and a little that is tracked.
fn node(parent: &Path) {
    init(parent);
    small_files(&parent.join("src"), 100, 2);
    fs::write(parent.join(".gitignore"), "node_modules/\n").expect("written");
    commit(parent);
    let modules = parent.join("node_modules");
    small_files(&modules, 12_000, 3);
    fs::create_dir(modules.join(".bin")).expect("made");
    for number in 0..100 {
        let target = format!("../d{number}/e0/f0.txt");
        std::os::unix::fs::symlink(target, modules.join(format!(".bin/tool{number}"))).expect("linked");
    }
}

/// 50 files of 8 MiB, untracked and ignored.
fn big(parent: &Path) {
    init(parent);
    fs::write(parent.join(".gitignore"), "*.bin\n").expect("written");
    commit(parent);
    let mut random = common::Random::new(4);
    let block = random.text(1 << 20);
    for number in 0..50 {
        let content: Vec<u8> = (0..8).flat_map(|_| block.iter().copied()).collect();
        fs::write(parent.join(format!("{number}.bin")), content).expect("written");
    }
    run(parent, "sync", &[]);
}

fn isolate(parent: &Path, child: &Path, id: &str) {
    let (parent, child) = (parent.to_str().expect("UTF-8"), child.to_str().expect("UTF-8"));
    run(Path::new("/"), ISOFOLD, &["isolate", "--id", id, "--parent", parent, "--child", child]);
}

/// A wrong result is no result: the Child is the Parent but for what is excluded.
fn check(parent: &Path) {
    let child = parent.with_extension("check");
    isolate(parent, &child, "check");
    let left = command(parent, "diff")
        .args(["-r", "--no-dereference", "--exclude=.git", "--exclude=.env"])
        .args([parent, &child])
        .output()
        .expect("diff runs");
    assert!(left.status.success(), "{}", String::from_utf8_lossy(&left.stdout));
    assert!(!child.join(".env").exists());
    assert_eq!(run(&child, "git", &["status", "--porcelain"]), "");
    remove(parent, &child);
}

fn remove(parent: &Path, child: &Path) {
    let _ = fs::remove_dir_all(child);
    let _ = fs::remove_dir_all(parent.join(".git/isofold"));
    run(parent, "git", &["worktree", "prune"]);
    let _ = command(parent, "git").args(["branch", "-qD", "issue/bench", "issue/check", "usual"]).output();
}

fn compare(title: &str, parent: &Path, rounds: usize, status: bool, report: &mut Report) {
    let child = parent.with_extension("child");
    let entries: Vec<PathBuf> = fs::read_dir(parent)
        .expect("readable")
        .map(|e| e.expect("readable").path())
        .filter(|p| p.file_name().is_some_and(|n| n != ".git"))
        .collect();
    let look = || {
        if status {
            run(&child, "git", &["status", "--porcelain"]);
        }
    };
    let nothing = || Box::new(|| {}) as Box<dyn FnMut()>;
    let clean = || {
        let child = child.clone();
        let parent = parent.to_owned();
        Box::new(move || remove(&parent, &child)) as Box<dyn FnMut()>
    };
    let mut contestants = vec![
        Contestant {
            name: "isofold",
            prepare: nothing(),
            work: Box::new(|| {
                isolate(parent, &child, "bench");
                look();
            }),
            clean: clean(),
        },
        Contestant {
            name: "usual way",
            prepare: nothing(),
            work: Box::new(|| {
                usual(parent, &child, &entries);
                look();
            }),
            clean: clean(),
        },
    ];
    if !status {
        contestants.push(Contestant {
            name: "cp -a --reflink=auto",
            prepare: nothing(),
            work: Box::new(|| {
                fs::create_dir(&child).expect("made");
                let mut copy = command(parent, "cp");
                let done = copy.args(["-a", "--reflink=auto", "-t"]).arg(&child).args(&entries).status();
                assert!(done.is_ok_and(|s| s.success()));
            }),
            clean: clean(),
        });
        contestants.push(Contestant {
            name: "the least",
            prepare: nothing(),
            work: Box::new(|| {
                let this = std::env::current_exe().expect("this program");
                let mut copy = command(parent, this.to_str().expect("UTF-8"));
                assert!(copy.arg(least::ARGUMENT).args([parent, &child]).status().is_ok_and(|s| s.success()));
            }),
            clean: clean(),
        });
    }
    contest(title, rounds, &mut contestants, report);
}

/// Removal of a Child against that of the same tree, nothing asked.
fn removal(title: &str, parent: &Path, rounds: usize, report: &mut Report) {
    let child = parent.with_extension("child");
    let prepare = || {
        let (parent, child) = (parent.to_owned(), child.clone());
        Box::new(move || isolate(&parent, &child, "bench")) as Box<dyn FnMut()>
    };
    let clean = || {
        let (parent, child) = (parent.to_owned(), child.clone());
        Box::new(move || remove(&parent, &child)) as Box<dyn FnMut()>
    };
    let place = child.to_str().expect("UTF-8");
    let mut contestants = vec![
        Contestant {
            name: "isofold remove",
            prepare: prepare(),
            work: Box::new(|| drop(run(Path::new("/"), ISOFOLD, &["remove", "--child", place]))),
            clean: clean(),
        },
        Contestant {
            name: "rm -rf",
            prepare: prepare(),
            work: Box::new(|| drop(run(Path::new("/"), "rm", &["-rf", place]))),
            clean: clean(),
        },
    ];
    contest(title, rounds, &mut contestants, report);
}

/// What tools without isofold do.
fn usual(parent: &Path, child: &Path, entries: &[PathBuf]) {
    run(parent, "git", &["worktree", "add", "-q", "-b", "usual", child.to_str().expect("UTF-8")]);
    for entry in fs::read_dir(child).expect("readable") {
        let path = entry.expect("readable").path();
        if path.file_name().is_some_and(|n| n != ".git") {
            run(child, "rm", &["-rf", path.to_str().expect("UTF-8")]);
        }
    }
    for entry in entries {
        let target = child.to_str().expect("UTF-8");
        run(parent, "cp", &["-R", "-P", "--reflink=auto", entry.to_str().expect("UTF-8"), target]);
    }
    run(child, "find", &[".", "-name", ".env", "-not", "-path", "./.git", "-delete"]);
}

/// Many isolations at once against as many copies at once.
fn parallel(title: &str, parent: &Path, count: usize, report: &mut Report) {
    let round = Cell::new(0);
    let children: Vec<PathBuf> = (0..count).map(|n| parent.with_extension(format!("many{n}"))).collect();
    let clean = || {
        let (children, parent) = (children.clone(), parent.to_owned());
        Box::new(move || {
            for child in &children {
                remove(&parent, child);
            }
            let branches = run(&parent, "git", &["for-each-ref", "--format=%(refname)", "refs/heads/issue/"]);
            for branch in branches.lines() {
                run(&parent, "git", &["update-ref", "-d", branch]);
            }
        }) as Box<dyn FnMut()>
    };
    let nothing = || Box::new(|| {}) as Box<dyn FnMut()>;
    let mut contestants = [
        Contestant {
            name: "isofold",
            prepare: nothing(),
            work: Box::new(|| {
                round.set(round.get() + 1);
                let all = children.iter().enumerate().map(|(n, child)| {
                    let id = format!("many-{}-{n}", round.get());
                    let mut job = command(parent, ISOFOLD);
                    job.args(["isolate", "--id", &id, "--parent"]).arg(parent).arg("--child").arg(child);
                    job.stdout(std::process::Stdio::null()).spawn().expect("it starts")
                });
                let all: Vec<_> = all.collect();
                for mut job in all {
                    assert!(job.wait().expect("it ends").success());
                }
            }),
            clean: clean(),
        },
        Contestant {
            name: "as many cp -a",
            prepare: nothing(),
            work: Box::new(|| {
                let all = children.iter().map(|child| {
                    fs::create_dir(child).expect("made");
                    let mut job = command(parent, "sh");
                    job.arg("-c").arg("exec cp -a --reflink=auto -t \"$0\" d* .gitignore").arg(child);
                    job.spawn().expect("it starts")
                });
                let all: Vec<_> = all.collect();
                for mut job in all {
                    assert!(job.wait().expect("it ends").success());
                }
            }),
            clean: clean(),
        },
    ];
    contest(title, 3, &mut contestants, report);
}

/// Cost per file of 100,000 files to that of 10,000.
fn scale(name: &str, root: &Path, report: &mut Report) {
    let mut costs = Vec::new();
    for count in [10_000_u32, 100_000] {
        let parent = root.join(format!("scale{count}"));
        init(&parent);
        small_files(&parent, count as usize, 5);
        commit(&parent);
        let child = parent.with_extension("child");
        let mut best = f64::MAX;
        for round in 0..4 {
            let sample = time(|| isolate(&parent, &child, "bench"));
            remove(&parent, &child);
            if round > 0 {
                best = best.min(sample.cpu / f64::from(count));
            }
        }
        costs.push(best);
        fs::remove_dir_all(&parent).expect("removed");
    }
    report.fact(&format!("cpu per file, 100k to 10k files, {name}"), costs[1] / costs[0]);
}
