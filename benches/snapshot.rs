//! `cargo bench --bench snapshot -- [20k] [100k] [--rounds N] [--fs a,b]`
//!
//! A snapshot against `git add -A` and `git write-tree` on a copied index: nothing changed, all stat
//! data stale, 100 files changed, 3,000 new files (ours synced, git's as it does by itself and synced).
//! The peak of memory is a fact of its own: ours as a ratio to git's.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its table")]

mod common;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{
    Arguments, Contestant, Random, Report, command, commit, contest, init, run, settle, small_files, systems,
};
use nix::sys::resource::{UsageWho, getrusage};

/// Arguments that make this program one side of a contest.
const OURS: &str = "--take-snapshot";
const PEAK: &str = "--peak-of";

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(word) if word == OURS => {
            let directory = PathBuf::from(arguments.next().expect("a directory"));
            println!("{}", isofold::testing::snapshot_tree(&directory, true).expect("a snapshot").tree);
        }
        Some(word) if word == PEAK => {
            let program = arguments.next().expect("a program");
            assert!(Command::new(program).args(arguments).status().expect("it starts").success());
            println!("{}", getrusage(UsageWho::RUSAGE_CHILDREN).expect("usage").max_rss());
        }
        _ => bench(),
    }
}

fn bench() {
    let arguments = Arguments::read();
    let mut report = Report::default();
    for (part, count) in [("20k", 20_000), ("100k", 100_000)] {
        if !arguments.wants(part) {
            continue;
        }
        for system in systems(&arguments) {
            let repo = Repo::new(system.root.join("repo"), count);
            repo.contests(&format!("{part} {}", system.name), arguments.rounds, &mut report);
        }
    }
    report.finish();
}

/// A repository, and the packs that it has of itself.
struct Repo {
    root: PathBuf,
    count: usize,
    packs: Vec<PathBuf>,
}

impl Repo {
    fn new(root: PathBuf, count: usize) -> Self {
        init(&root);
        small_files(&root, count, 1);
        commit(&root);
        let packs = files_in(&root.join(".git/objects/pack"));
        Self { root, count, packs }
    }

    fn contests(&self, title: &str, rounds: usize, report: &mut Report) {
        let nothing = |_: u64| {};
        self.contest(&format!("unchanged {title}"), rounds, &nothing, report);
        self.memory(&format!("unchanged {title}"), report);
        self.contest(&format!("100 changed {title}"), rounds, &|round| self.edit(round), report);
        run(&self.root, "git", &["checkout", "-q", "--", "."]);
        self.contest(&format!("3,000 new {title}"), rounds, &|round| self.add(round), report);
        self.memory(&format!("3,000 new {title}"), report);
        fs::remove_dir_all(self.root.join("new")).expect("removed");
        // The index stays as it is: every entry is older than its file.
        settle();
        for entry in walk(&self.root) {
            let file = fs::File::open(entry).expect("a file");
            file.set_modified(std::time::SystemTime::now()).expect("a new time");
        }
        settle();
        self.contest(&format!("stale {title}"), rounds, &nothing, report);
        self.memory(&format!("stale {title}"), report);
    }

    fn contest(&self, title: &str, rounds: usize, change: &dyn Fn(u64), report: &mut Report) {
        let round = std::cell::Cell::new(0);
        let prepare = || {
            round.set(round.get() + 1);
            change(round.get());
            self.copy_index();
        };
        prepare();
        assert_eq!(self.ours(), self.git(&[]), "{title}: the same tree");
        self.clean();
        let synced = ["-c", "core.fsync=objects", "-c", "core.fsyncMethod=fsync"];
        let mut contestants = vec![
            self.contestant("isofold", &prepare, Box::new(|| drop(self.ours()))),
            self.contestant("git add, write-tree", &prepare, Box::new(|| drop(self.git(&[])))),
        ];
        if title.contains("new") {
            contestants.push(self.contestant("the same, synced", &prepare, Box::new(|| drop(self.git(&synced)))));
        }
        contest(title, rounds, &mut contestants, report);
    }

    fn contestant<'a>(&'a self, name: &'a str, prepare: &'a dyn Fn(), work: Box<dyn FnMut() + 'a>) -> Contestant<'a> {
        Contestant { name, prepare: Box::new(prepare), work, clean: Box::new(|| self.clean()) }
    }

    fn index_copy(&self) -> PathBuf {
        self.root.join(".git/index.copy")
    }

    fn copy_index(&self) {
        let copy = self.index_copy();
        run(&self.root, "cp", &["-p", ".git/index", copy.to_str().expect("UTF-8")]);
    }

    fn ours(&self) -> String {
        let output = self.our_command(&[]).output().expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn our_command(&self, before: &[&OsStr]) -> Command {
        let this = std::env::current_exe().expect("this program");
        let mut command = command(&self.root, this.to_str().expect("UTF-8"));
        // Configuration that only git reads would leave all to git.
        command.env_remove("GIT_CONFIG_GLOBAL");
        command.args(before).arg(OURS).arg(&self.root);
        command
    }

    fn git_command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = command(&self.root, program);
        command.env("GIT_INDEX_FILE", self.index_copy()).args(arguments);
        command
    }

    fn git(&self, settings: &[&str]) -> String {
        let add = [settings, &["add", "-A"]].concat();
        assert!(self.git_command("git", &add).status().expect("it starts").success());
        let tree = self.git_command("git", &["write-tree"]).output().expect("it starts");
        assert!(tree.status.success());
        String::from_utf8_lossy(&tree.stdout).trim().to_owned()
    }

    /// The peak of our memory as a ratio to that of git.
    fn memory(&self, title: &str, report: &mut Report) {
        let this = std::env::current_exe().expect("this program");
        let peak = |command: &mut Command| {
            let output = command.output().expect("it starts");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.lines().last().and_then(|line| line.trim().parse::<f64>().ok()).expect("a number")
        };
        self.copy_index();
        let ours = peak(self.our_command(&[OsStr::new(PEAK), this.as_os_str()]).env("MALLOC_ARENA_MAX", "8"));
        self.clean();
        let git = peak(&mut self.git_command(this.to_str().expect("UTF-8"), &[PEAK, "git", "add", "-A"]));
        self.clean();
        report.fact(&format!("peak memory, {title}, ours MB"), ours / 1024.0);
        report.fact(&format!("peak memory, {title}, to git's"), ours / git);
    }

    /// Objects of the last contestant are gone: the next one writes its own.
    fn clean(&self) {
        let objects = self.root.join(".git/objects");
        for file in files_in(&objects.join("pack")).into_iter().filter(|file| !self.packs.contains(file)) {
            fs::remove_file(file).expect("removed");
        }
        for directory in fs::read_dir(&objects).expect("readable").map(|entry| entry.expect("an entry").path()) {
            if directory.file_name().is_some_and(|name| name.len() == 2) {
                fs::remove_dir_all(directory).expect("removed");
            }
        }
    }

    fn edit(&self, round: u64) {
        for number in 0..100 {
            let number = number * (self.count / 100) + 7;
            let path = format!("d{}/e{}/f{}.txt", number / 100, number / 10 % 10, number % 10);
            fs::write(self.root.join(path), format!("round {round} of file {number}\n")).expect("written");
        }
    }

    fn add(&self, round: u64) {
        let mut random = Random::new(1_000_003 * round);
        for number in 0..3_000 {
            let directory = self.root.join(format!("new/e{}", number / 20));
            fs::create_dir_all(&directory).expect("a directory");
            let size = 512 + usize::try_from(random.below(7_500)).unwrap_or(0);
            fs::write(directory.join(format!("f{number}.txt")), random.text(size)).expect("written");
        }
    }
}

fn files_in(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).expect("readable").map(|entry| entry.expect("an entry").path()).collect()
}

/// Every file of the work tree.
fn walk(root: &Path) -> Vec<PathBuf> {
    let tree = walkdir::WalkDir::new(root).into_iter().filter_entry(|entry| entry.file_name() != ".git");
    tree.map(|entry| entry.expect("an entry"))
        .filter(|e| e.file_type().is_file())
        .map(walkdir::DirEntry::into_path)
        .collect()
}
