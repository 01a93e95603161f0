//! `isofold saved`, `isofold prune`, and what a removal saves of repositories inside a Child.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::host::{same, text};
use crate::support::{Run, Sandbox, lines, read, write};

fn at<'a>(directory: &'a Path, args: &[&'a str]) -> Vec<&'a str> {
    [&["-C", text(directory)], args].concat()
}

fn saved(sandbox: &Sandbox, directory: &Path, args: &[&str]) -> Run {
    sandbox.isofold(at(directory, &[&["saved"], args].concat()))
}

fn prune(sandbox: &Sandbox, directory: &Path, args: &[&str]) -> Value {
    let run = sandbox.isofold(at(directory, &[&["prune", "--json"], args].concat()));
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");
    run.last()
}

fn remove(sandbox: &Sandbox, child: &Path, more: &[&str]) -> Run {
    sandbox.isofold(["remove", "--child", text(child)].iter().chain(more))
}

/// A Parent, with the work of a Child that was removed saved in it; the saved name.
fn with_saved(sandbox: &Sandbox) -> (PathBuf, String) {
    let parent = sandbox.repo("parent");
    let child = sandbox.isolate(&parent, "child");
    write(&child, "b", lines(&[(7, "work")]));
    let run = remove(sandbox, &child, &["--force"]).expect("removed", 0);
    let name = run.last()["saved"][0].as_str().expect("a ref").to_owned();
    (parent, name.trim_start_matches("refs/isofold/saved/").to_owned())
}

#[test]
fn what_is_saved_is_listed_restored_and_dropped() {
    let sandbox = Sandbox::new();
    let (parent, name) = with_saved(&sandbox);
    let id = sandbox.git(&parent, &["rev-parse", &format!("refs/isofold/saved/{name}")]);
    // From any directory of it.
    let run = saved(&sandbox, &parent.join("dir"), &["list", "--json"]);
    let row = &run.last()["saved"][0];
    assert_eq!((run.code, &run.last()["version"]), (0, &json!(1)));
    assert_eq!((&row["name"], &row["id"], &row["kind"]), (&json!(name), &json!(id), &json!("commit")));
    assert_eq!(row["subject"], "isofold: loose work of child, saved at its removal");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    assert!(row["saved"].as_u64().is_some_and(|when| when <= now && when + 600 > now), "{row}");
    let run = saved(&sandbox, &parent, &["list"]);
    assert_eq!(run.stdout, format!("{name}  {}  isofold: loose work of child, saved at its removal\n", &id[..8]));

    let run = saved(&sandbox, &parent, &["restore", &name]);
    assert_eq!((run.code, run.stdout), (0, format!("restored/{name}\n")));
    assert_eq!(sandbox.git(&parent, &["rev-parse", &format!("restored/{name}")]), id);
    // Once more is fine, and by its full name too; over another commit it is not.
    assert_eq!(saved(&sandbox, &parent, &["restore", &format!("refs/isofold/saved/{name}")]).code, 0);
    sandbox.git(&parent, &["branch", "-f", &format!("restored/{name}"), "main"]);
    let run = saved(&sandbox, &parent, &["restore", &name]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("exists already"), "{run:?}");

    let run = saved(&sandbox, &parent, &["drop", &name]);
    assert_eq!((run.code, run.stdout), (0, format!("Dropped {name} (was {id}).\n")));
    assert_eq!(sandbox.git(&parent, &["for-each-ref", "refs/isofold/saved"]), "");
    assert!(!parent.join(format!(".git/logs/refs/isofold/saved/{name}")).exists());
    for verb in ["drop", "restore"] {
        let run = saved(&sandbox, &parent, &[verb, &name]);
        assert_eq!(run.code, 1);
        assert!(run.stderr.contains("nothing is saved under the name"), "{run:?}");
    }
    assert_eq!(saved(&sandbox, &parent, &["list"]).stdout, "Nothing is saved.\n");
    assert_eq!(saved(&sandbox, &parent, &["list", "--json"]).last(), json!({"version": 1, "saved": []}));
    assert_eq!(saved(&sandbox, &sandbox.path("home"), &["list"]).code, 1);
    assert_eq!(saved(&sandbox, &parent, &["forget"]).code, 2);
    assert_eq!(sandbox.git(&parent, &["status", "--porcelain"]), "");
}

#[test]
fn content_of_a_file_can_be_printed_but_is_no_branch() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    write(&parent, "late", "late\n");
    let blob = sandbox.git(&parent, &["hash-object", "-w", "late"]);
    sandbox.git(&parent, &["update-ref", "refs/isofold/saved/late-a-123", &blob]);
    let run = saved(&sandbox, &parent, &["restore", "late-a-123"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains(&format!("git cat-file blob {blob}")), "{run:?}");
    assert!(saved(&sandbox, &parent, &["list"]).stdout.contains("content of a file"));
    assert_eq!(saved(&sandbox, &parent, &["drop", "late-a-123"]).code, 0);
}

#[test]
fn what_is_saved_in_a_submodule_is_listed_with_all() {
    let sandbox = Sandbox::new();
    let inner = sandbox.repo("inner");
    let parent = sandbox.repo("parent");
    sandbox.git(&parent, &["-c", "protocol.file.allow=always", "submodule", "add", "-q", text(&inner), "deps/sub"]);
    sandbox.commit_all(&parent, "submodule");
    let child = sandbox.isolate(&parent, "child");
    write(&child.join("deps/sub"), "a", "work\n");
    sandbox.git(&child.join("deps/sub"), &["-c", "user.name=T", "-c", "user.email=t@t", "commit", "-qam", "own"]);
    let run = remove(&sandbox, &child, &["--force"]).expect("removed", 0);
    let names: Vec<&str> = run.last()["saved"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|n| n.as_str().expect("text").to_owned().leak() as &str)
        .collect();
    let name = names.iter().find(|name| name.starts_with("deps/sub:")).expect("one in the submodule");
    let name = name.replace("refs/isofold/saved/", "");
    let all = saved(&sandbox, &parent, &["list", "--all", "--json"]).last();
    assert!(all["saved"].as_array().expect("a list").iter().any(|row| row["name"] == json!(name)), "{all} {name}");
    assert!(!saved(&sandbox, &parent, &["list"]).stdout.contains("deps/sub:"));
    assert_eq!(saved(&sandbox, &parent, &["restore", &name]).code, 0);
    let branch = format!("restored/{}", name.trim_start_matches("deps/sub:"));
    assert_eq!(sandbox.git(&parent.join("deps/sub"), &["log", "-1", "--format=%s", &branch]), "own");
    assert_eq!(saved(&sandbox, &parent, &["drop", &name]).code, 0);
}

#[test]
fn prune_takes_base_entries_of_children_that_are_gone() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let kept = sandbox.isolate(&parent, "kept");
    let gone = sandbox.isolate(&parent, "gone");
    let locked = sandbox.isolate(&parent, "locked");
    sandbox.git(&parent, &["worktree", "lock", text(&locked)]);
    for child in [&gone, &locked] {
        fs::remove_dir_all(child).expect("removed");
    }
    let nothing = json!({"version": 1, "dry_run": false, "recovered": [], "bases": [], "saved": [], "sessions": [], "patches": []});
    // Still registered: it may be on a volume that is not mounted now.
    assert_eq!(prune(&sandbox, &parent, &[]), nothing);
    let bases = || sandbox.git(&parent, &["for-each-ref", "refs/isofold/base"]).lines().count();
    assert_eq!(bases(), 3);
    let dry = prune(&sandbox, &parent, &["--dry-run", "--older-than", "1"]);
    assert_eq!(dry["bases"].as_array().map(Vec::len), Some(0), "not old yet: {dry}");
    sandbox.git(&parent, &["worktree", "prune", "--expire=now"]);
    let dry = prune(&sandbox, &parent, &["--dry-run"]);
    assert_eq!((&dry["dry_run"], &dry["bases"][0]["gone"]), (&json!(true), &json!(text(&gone))));
    assert_eq!(bases(), 3);
    assert_eq!(prune(&sandbox, &kept, &[])["bases"].as_array().map(Vec::len), Some(1));
    assert_eq!(bases(), 2);
    assert_eq!(prune(&sandbox, &parent, &[]), nothing);
    let run = sandbox.isofold(at(&parent, &["prune"]));
    assert_eq!(run.stdout, "Nothing to prune.\n");
    write(&kept, "b", "work\n");
    sandbox.fold(&parent, &kept);
}

#[test]
fn prune_takes_saved_commits_only_by_age() {
    let sandbox = Sandbox::new();
    let (parent, name) = with_saved(&sandbox);
    let reference = format!("refs/isofold/saved/{name}");
    let there = || sandbox.try_git(&parent, &["rev-parse", "-q", "--verify", &reference]).0 == 0;
    prune(&sandbox, &parent, &[]);
    prune(&sandbox, &parent, &["--older-than", "1"]);
    assert!(there());
    // As if saved ten days ago: its log says when.
    let log = parent.join(".git/logs").join(&reference);
    let line = fs::read_to_string(&log).expect("a log");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    let (who, rest) = line.split_once("> ").expect("a line of a log");
    let (_, zone) = rest.split_once(' ').expect("a time");
    fs::write(&log, format!("{who}> {} {zone}", now - 10 * 86_400)).expect("written");
    assert_eq!(prune(&sandbox, &parent, &["--older-than", "11"])["saved"], json!([]));
    assert_eq!(prune(&sandbox, &parent, &["--older-than", "9", "--dry-run"])["saved"][0]["ref"], json!(reference));
    assert!(there());
    // Packed refs have no date of their own, but the log stays.
    sandbox.git(&parent, &["pack-refs", "--all"]);
    assert_eq!(prune(&sandbox, &parent, &["--older-than", "9"])["saved"][0]["ref"], json!(reference));
    assert!(!there());
    assert!(!parent.join(".git/packed-refs.lock").exists());
    for bad in [&["--older-than", "x"][..], &["--older-than"], &["--bogus"]] {
        assert_eq!(sandbox.isofold(at(&parent, &[&["prune"], bad].concat())).code, 2);
    }
    assert_eq!(sandbox.isofold(at(&sandbox.path("home"), &["prune"])).code, 1);
}

#[test]
fn prune_takes_strays_of_dead_processes_and_no_others() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let git = parent.join(".git");
    // No process has so high a number.
    for name in ["isofold-entry-4999999-1-abcdef01-0", "isofold-objects-4999999-1-abcdef01-Xy", "isofold-objects-old"] {
        write(&git, format!("{name}/objects/x"), "x");
    }
    write(&git, "isofold/bases/.isofold-4999999-1-abcdef01-q", "half");
    write(&git, "isofold/bases/other", "not ours");
    // What keeps a pack from gc goes with the quarantine that it names, and no other does.
    let keeps = ["4999999-1-abcdef01-Xy", "4999999-1-abcdef01-gone", "old"].map(|name| {
        write(&git, format!("objects/pack/pack-{name}.keep"), format!("isofold-objects-{name}\n"));
        git.join(format!("objects/pack/pack-{name}.keep"))
    });
    write(&git, "objects/pack/pack-user.keep", "the user's\n");
    let head = sandbox.git(&parent, &["rev-parse", "HEAD"]);
    sandbox.git(&parent, &["update-ref", "refs/isofold/base/fresh", &head]);
    sandbox.git(&parent, &["update-ref", "refs/isofold/base/stray", &head]);
    let old = std::time::SystemTime::now() - std::time::Duration::from_hours(3);
    fs::File::open(git.join("refs/isofold/base/stray")).and_then(|file| file.set_modified(old)).expect("a time");
    let pruned = prune(&sandbox, &parent, &[]);
    assert_eq!(pruned["recovered"].as_array().map(Vec::len), Some(3), "{pruned}");
    assert_eq!(pruned["bases"], json!([{"name": "stray", "gone": ""}]));
    assert!(git.join("isofold-objects-old").exists() && git.join("isofold/bases/other").exists());
    assert_eq!(keeps.map(|keep| keep.exists()), [false, false, true]);
    assert!(git.join("objects/pack/pack-user.keep").exists());
    assert_eq!(
        sandbox.git(&parent, &["for-each-ref", "--format=%(refname)", "refs/isofold/base"]),
        "refs/isofold/base/fresh"
    );
}

#[test]
fn repositories_inside_a_child_keep_their_work() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    for place in ["parent/nested", "parent/ignored/nested"] {
        sandbox.repo(place);
    }
    // Untouched copies of the Parent's, and clones of what exists elsewhere, hold nothing.
    let child = sandbox.isolate(&parent, "untouched");
    sandbox.git(&child, &["clone", "-q", text(&parent), "ignored/clone"]);
    remove(&sandbox, &child, &[]).expect("removed", 0);
    assert!(parent.join("nested/a").exists());

    let child = sandbox.isolate(&parent, "touched");
    write(&child.join("nested"), "own", "own\n");
    sandbox.commit_all(&child.join("nested"), "commit of its own");
    write(&child.join("ignored/nested"), "loose", "loose\n");
    let fresh = sandbox.empty_repo("touched/ignored/deeper/fresh");
    write(&fresh, "x", "x\n");
    sandbox.commit_all(&fresh, "first");
    let report = sandbox.unchanged(&parent, "refused", 1, || remove(&sandbox, &child, &[]));
    for words in ["nested: commits", "ignored/nested: loose work", "ignored/deeper/fresh: commits", "--force"] {
        assert!(report.contains(words), "{report}");
    }
    let run = remove(&sandbox, &child, &["--force"]).expect("removed", 0);
    let names: Vec<String> =
        run.last()["saved"].as_array().expect("a list").iter().map(|n| n.as_str().expect("text").to_owned()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    let mut subjects: Vec<String> =
        names.iter().map(|name| sandbox.git(&parent, &["log", "-1", "--format=%s", name])).collect();
    subjects.sort();
    assert_eq!(subjects, ["commit of its own", "first", "isofold: loose work of touched, saved at its removal"]);
    for (name, subject) in
        names.iter().zip(names.iter().map(|n| sandbox.git(&parent, &["log", "-1", "--format=%s", n])))
    {
        let file = match subject.as_str() {
            "commit of its own" => "own",
            "first" => "x",
            _ => "loose",
        };
        assert_eq!(sandbox.git(&parent, &["show", &format!("{name}:{file}")]), file);
    }
    assert!(!child.exists());
    assert_eq!(sandbox.try_git(&parent, &["fsck", "--no-progress", "--no-dangling"]), (0, String::new()));
}

#[test]
fn worktrees_inside_a_child_keep_their_work() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let child = sandbox.isolate(&parent, "child");
    let inner = child.join("ignored/inner");
    sandbox.git(&child, &["worktree", "add", "-q", "--detach", text(&inner)]);
    write(&inner, "b", lines(&[(2, "inner")]));
    let report = sandbox.unchanged(&parent, "refused", 1, || remove(&sandbox, &child, &[]));
    assert!(report.contains(text(&inner)), "{report}");
    let run = remove(&sandbox, &child, &["--force"]).expect("removed", 0);
    let name = run.last()["saved"][0].as_str().expect("a ref").to_owned();
    assert_eq!(sandbox.git(&parent, &["show", &format!("{name}:b")]) + "\n", lines(&[(2, "inner")]));
    assert_eq!(sandbox.git(&parent, &["worktree", "list"]).lines().count(), 1);
}

/// A Parent, and a Child as a removal leaves it that was killed, or held up by who writes there.
fn half_removed(sandbox: &Sandbox) -> (PathBuf, PathBuf) {
    let parent = sandbox.repo("parent");
    let child = sandbox.isolate(&parent, "child");
    let record = parent.join(".git/worktrees/child/isofold.toml");
    let ready = fs::read_to_string(&record).expect("a record");
    fs::write(&record, ready.replace("\"ready\"", "\"removing\"")).expect("written");
    fs::remove_dir_all(child.join("dir")).expect("it was there");
    (parent, child)
}

#[test]
fn what_was_written_into_a_half_removed_child_is_not_lost() {
    let sandbox = Sandbox::new();
    let (parent, child) = half_removed(&sandbox);
    // What came since is nobody's to throw away unasked.
    write(&child, "late", "late\n");
    assert!(remove(&sandbox, &child, &[]).expect("refused", 1).report().contains("was written there since"));
    let pruned = prune(&sandbox, &parent, &[]);
    assert_eq!(pruned["recovered"][0]["kind"], "left", "{pruned}");
    assert_eq!(read(&child, "late").as_deref(), Some("late\n"));
    let run = remove(&sandbox, &child, &["--force"]).expect("removed", 0);
    let name = run.last()["saved"][0].as_str().expect("a ref").to_owned();
    assert_eq!(sandbox.git(&parent, &["show", &format!("{name}:late")]), "late");
    same(&sandbox.git(&parent, &["worktree", "list"]).lines().count().to_string(), "1", "entries");
}

#[test]
fn a_half_done_removal_is_finished_by_the_next_command() {
    let sandbox = Sandbox::new();
    let (parent, child) = half_removed(&sandbox);
    sandbox.try_isolate("other", &parent, &sandbox.path("other"), &[]).expect("isolated", 0);
    assert!(!child.exists());
    assert_eq!(sandbox.git(&parent, &["worktree", "list"]).lines().count(), 2);
}

#[test]
fn prune_takes_sessions_without_work_and_patches_only_by_age() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    let start = |name: &str| {
        let run = sandbox.isofold(at(&parent, &["session", "start", "--name", name, "--json"]));
        assert_eq!(run.code, 0, "{run:?}");
        PathBuf::from(run.last()["worktree"].as_str().expect("a path"))
    };
    let (empty, busy) = (start("empty"), start("busy"));
    write(&busy, "new", "work\n");
    let run = sandbox.isofold(at(&parent, &["patch", "record", "--agent", "one", "--worktree", text(&busy)]));
    assert_eq!(run.code, 0, "{run:?}");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    for young in [&[][..], &["--older-than", "1"]] {
        let pruned = prune(&sandbox, &parent, young);
        assert_eq!((&pruned["sessions"], &pruned["patches"]), (&json!([]), &json!([])), "{young:?}");
    }
    let dry = prune(&sandbox, &parent, &["--older-than", "0", "--dry-run"]);
    assert_eq!((&dry["sessions"], &dry["patches"]), (&json!(["empty"]), &json!(["one"])), "{dry}");
    assert!(empty.exists());
    let pruned = prune(&sandbox, &parent, &["--older-than", "0"]);
    assert_eq!((&pruned["sessions"], &pruned["patches"]), (&json!(["empty"]), &json!(["one"])), "{pruned}");
    assert!(!empty.exists() && !parent.join(".isofold/patches/one/changes.patch").exists());
    assert_eq!(read(&busy, "new").as_deref(), Some("work\n"));
}
