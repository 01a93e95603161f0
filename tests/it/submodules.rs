//! Submodules that are checked out: in the Child, through a fold, and when the Child goes.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::host::{same, text};
use crate::support::{Run, Sandbox, lines, listing, next_second, raw_name, read, write};

/// What git says about a work tree and every submodule in it.
fn status(sandbox: &Sandbox, directory: &Path) -> String {
    let all = ["--no-optional-locks", "status", "--porcelain=v2", "--ignored", "--ignore-submodules=none"];
    let mut said = sandbox.git(directory, &all);
    for inner in ["sub", "sub/deep/inner", "old"] {
        let inner = directory.join(inner);
        if inner.join(".git").exists() {
            said += "\n--\n";
            said += &sandbox.git(&inner, &["--no-optional-locks", "status", "--porcelain=v2", "--branch", "--ignored"]);
            said += &sandbox.git(&inner, &["rev-parse", "HEAD"]);
            said += &sandbox.git(&inner, &["ls-files", "-s"]);
        }
    }
    said
}

/// A sandbox whose git lets submodules be cloned from paths and has an identity everywhere.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let settings = "[protocol \"file\"]\n\tallow = always\n[user]\n\tname = Test\n\temail = test@example.test\n";
    write(&sandbox.path("home"), ".gitconfig", settings);
    sandbox
}

/// A module to the byte. Git renews the times of objects that it would write again.
fn bytes(module: &Path) -> String {
    let untimed = |row: &str| {
        let fields: Vec<&str> = row.split(' ').collect();
        [&fields[..2], &fields[3..]].concat().join(" ")
    };
    listing(module).lines().map(untimed).collect::<Vec<_>>().join("\n")
}

fn add(sandbox: &Sandbox, repo: &Path, origin: &Path, at: &str) {
    sandbox.git(repo, &["submodule", "--quiet", "add", text(origin), at]);
    sandbox.commit_all(repo, &format!("add {at}"));
}

/// `parent` with the submodule `sub`, which has the submodule `deep/inner`; all checked out.
fn nested(sandbox: &Sandbox) -> PathBuf {
    let inner = sandbox.repo("origin-inner");
    let sub = sandbox.repo("origin-sub");
    add(sandbox, &sub, &inner, "deep/inner");
    let parent = sandbox.repo("parent");
    add(sandbox, &parent, &sub, "sub");
    sandbox.git(&parent, &["submodule", "--quiet", "update", "--init", "--recursive"]);
    parent
}

/// `parent` with the submodule `sub` alone.
fn single(sandbox: &Sandbox) -> PathBuf {
    let sub = sandbox.repo("origin-sub");
    let parent = sandbox.repo("parent");
    add(sandbox, &parent, &sub, "sub");
    parent
}

fn head(sandbox: &Sandbox, directory: &Path) -> String {
    sandbox.git(directory, &["rev-parse", "HEAD"])
}

#[track_caller]
fn sound(sandbox: &Sandbox, directory: &Path) {
    let (code, said) = sandbox.try_git(directory, &["fsck", "--no-progress", "--no-dangling"]);
    assert_eq!((code, said.as_str()), (0, ""), "fsck in {}", directory.display());
}

fn remove(sandbox: &Sandbox, child: &Path, more: &[&str]) -> Run {
    sandbox.isofold(["remove", "--child", text(child)].iter().chain(more))
}

/// The refs that a removal saved: submodule path, ref.
fn saved(run: &Run) -> Vec<(String, String)> {
    let list = run.last()["saved"].as_array().expect("a list").clone();
    let split = |name: &Value| {
        let name = name.as_str().expect("text");
        let (path, name) = name.split_once(':').unwrap_or(("", name));
        (path.to_owned(), name.to_owned())
    };
    list.iter().map(split).collect()
}

#[test]
fn a_child_has_the_submodules_of_its_parent_and_leaves_theirs_alone() {
    let sandbox = sandbox();
    let parent = nested(&sandbox);
    let modules = parent.join(".git/modules");
    // Dirty on both levels: edited, staged, untracked, deleted.
    write(&parent, "sub/a", lines(&[(3, "edited")]));
    write(&parent, "sub/staged", "staged\n");
    sandbox.git(&parent.join("sub"), &["add", "staged"]);
    write(&parent, "sub/loose", "loose\n");
    fs::remove_file(parent.join("sub/deep/inner/b")).expect("a file");
    write(&parent, "sub/deep/inner/x.log", "ignored\n");
    let (before, kept) = (listing(&modules), bytes(&modules));
    let child = sandbox.isolate(&parent, "child");
    assert_eq!(status(&sandbox, &child), status(&sandbox, &parent));
    same(&listing(&modules), &before, "the modules");
    let files = |root: &Path| {
        let rows = listing(&root.join("sub"));
        let kept = |row: &&str| !row.starts_with("deep/inner/.git ") && !row.starts_with(".git ");
        rows.lines().filter(kept).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(files(&child), files(&parent));

    // Git works in there: it commits to the Child's own repository.
    let admin = parent.join(".git/worktrees/child");
    for inner in ["sub/deep/inner", "sub"] {
        let inner = child.join(inner);
        let own = PathBuf::from(sandbox.git(&inner, &["rev-parse", "--absolute-git-dir"]));
        assert!(own.starts_with(admin.join("modules")), "{}", own.display());
        assert_eq!(sandbox.git(&inner, &["rev-parse", "--show-toplevel"]), text(&inner));
        sandbox.commit_all(&inner, "work in the Child");
        assert_eq!(sandbox.git(&inner, &["log", "-1", "--format=%s"]), "work in the Child");
        assert_eq!(sandbox.git(&inner, &["status", "--porcelain"]), "");
        sound(&sandbox, &inner);
    }
    same(&bytes(&modules), &kept, "the modules");
    assert_ne!(head(&sandbox, &child.join("sub")), head(&sandbox, &parent.join("sub")));
    assert_eq!(sandbox.git(&child, &["submodule", "status"]).chars().next(), Some('+'));
    // Only where the work tree is differs in the configuration.
    let settings = |git_dir: &Path| {
        let listed = sandbox.git(git_dir, &["config", "--file", "config", "--list"]);
        let mut rows: Vec<String> =
            listed.lines().filter(|row| !row.starts_with("core.worktree=")).map(str::to_owned).collect();
        rows.sort();
        rows
    };
    for name in ["sub", "sub/modules/deep/inner"] {
        assert_eq!(settings(&admin.join("modules").join(name)), settings(&modules.join(name)));
    }
}

#[test]
fn a_submodule_is_warm_in_the_child() {
    let sandbox = sandbox();
    let parent = single(&sandbox);
    next_second();
    sandbox.git(&parent.join("sub"), &["update-index", "-q", "--really-refresh"]);
    next_second();
    sandbox.git(&parent.join("sub"), &["status"]);
    write(&parent, "sub/b", lines(&[(0, "edited")]));
    let child = sandbox.isolate(&parent, "child");
    let debug = sandbox.git(&child.join("sub"), &["ls-files", "--debug", "a", "b"]);
    let inode = fs::metadata(child.join("sub/a")).expect("a stat").ino() & 0xffff_ffff;
    assert!(debug.contains(&format!("ino: {inode}\t")) || debug.contains(&format!("ino: {inode}\n")), "{debug}");
    assert!(debug.contains("ino: 0"), "the edited file is not proven: {debug}");
    assert_eq!(sandbox.git(&child.join("sub"), &["diff-files", "--name-only"]), "b");
}

#[test]
fn a_branch_stays_a_branch_and_a_detached_head_detached() {
    let sandbox = sandbox();
    let parent = single(&sandbox);
    let sub = parent.join("sub");
    for (at, checkout) in [&["checkout", "-q", "-b", "topic"][..], &["checkout", "-q", "--detach"]].iter().enumerate() {
        sandbox.git(&sub, checkout);
        write(&sub, "a", format!("work {at}\n"));
        sandbox.commit_all(&sub, "work");
        let child = sandbox.isolate(&parent, &format!("child{at}"));
        let name = |directory: &Path| sandbox.try_git(directory, &["symbolic-ref", "HEAD"]);
        assert_eq!(name(&child.join("sub")), name(&sub));
        assert_eq!(status(&sandbox, &child), status(&sandbox, &parent));
        assert_eq!(sandbox.git(&child.join("sub"), &["for-each-ref"]), sandbox.git(&sub, &["for-each-ref"]));
    }
}

#[test]
fn what_is_not_checked_out_stays_so() {
    let sandbox = sandbox();
    let origin = nested(&sandbox);
    let parent = sandbox.path("clone");
    sandbox.git(&sandbox.path("."), &["clone", "-q", text(&origin), text(&parent)]);
    let child = sandbox.isolate(&parent, "child");
    assert_eq!(fs::read_dir(child.join("sub")).expect("a directory").count(), 0);
    assert!(!parent.join(".git/worktrees/child/modules").exists());
    assert_eq!(status(&sandbox, &child), status(&sandbox, &parent));
    // One level checked out, the other not.
    sandbox.git(&parent, &["submodule", "--quiet", "update", "--init"]);
    let child = sandbox.isolate(&parent, "child2");
    assert_eq!(fs::read_dir(child.join("sub/deep/inner")).expect("a directory").count(), 0);
    assert_eq!(status(&sandbox, &child), status(&sandbox, &parent));
    // Git brings it in, for the Child alone.
    let before = listing(&parent.join(".git/modules"));
    sandbox.git(&child, &["submodule", "--quiet", "update", "--init", "--recursive"]);
    assert!(child.join("sub/deep/inner/a").exists());
    same(&listing(&parent.join(".git/modules")), &before, "the modules");
    // What came from a remote is no work of the Child.
    remove(&sandbox, &child, &[]).expect("removed", 0);
}

/// `parent/old` keeps its repository in its own `.git` directory, as old versions of git made it.
fn old_style(sandbox: &Sandbox) -> PathBuf {
    let origin = sandbox.repo("origin-old");
    let parent = sandbox.repo("parent");
    sandbox.git(&parent, &["clone", "-q", text(&origin), "old"]);
    add(sandbox, &parent, &origin, "old");
    assert!(parent.join("old/.git").is_dir());
    parent
}

#[test]
fn an_old_style_git_directory_is_copied() {
    let sandbox = sandbox();
    let parent = old_style(&sandbox);
    write(&parent, "old/a", lines(&[(1, "dirty")]));
    let before = listing(&parent.join("old/.git"));
    let child = sandbox.isolate(&parent, "child");
    assert!(child.join("old/.git").is_dir());
    assert_eq!(status(&sandbox, &child), status(&sandbox, &parent));
    sandbox.commit_all(&child.join("old"), "work");
    sandbox.commit_all(&child, "move the pointer");
    same(&listing(&parent.join("old/.git")), &before, "the git directory");
    // A fold brings the commit along from there too, and so does a removal.
    let tip = head(&sandbox, &child.join("old"));
    sandbox.git(&parent.join("old"), &["checkout", "-q", "a"]);
    sandbox.fold(&parent, &child);
    assert_eq!(sandbox.git(&parent.join("old"), &["cat-file", "-t", &tip]), "commit");
    write(&child, "old/b", "more\n");
    sandbox.commit_all(&child.join("old"), "more");
    let tip = head(&sandbox, &child.join("old"));
    let report = remove(&sandbox, &child, &[]).expect("refused", 1).report();
    assert!(report.contains("old"), "{report}");
    sandbox.git(&child, &["checkout", "-q", "HEAD", "--", "."]);
    let run = remove(&sandbox, &child, &["--force"]).expect("removed", 0);
    let refs = saved(&run);
    let (_, name) = refs.iter().find(|(path, _)| path == "old").expect("saved");
    assert_eq!(sandbox.git(&parent.join("old"), &["rev-parse", name]), tip);
    sound(&sandbox, &parent.join("old"));
}

#[test]
fn two_children_do_not_meet() {
    let sandbox = sandbox();
    let parent = nested(&sandbox);
    let (one, two) = (sandbox.isolate(&parent, "one"), sandbox.isolate(&parent, "two"));
    let before = (status(&sandbox, &two), listing(&parent.join(".git/worktrees/two/modules")));
    write(&one, "sub/deep/inner/a", "one\n");
    sandbox.commit_all(&one.join("sub/deep/inner"), "one");
    sandbox.commit_all(&one.join("sub"), "one");
    assert_eq!((status(&sandbox, &two), listing(&parent.join(".git/worktrees/two/modules"))), before);
}

#[test]
fn names_and_places_need_not_be_plain() {
    let sandbox = sandbox();
    let origin = sandbox.repo("origin-sub");
    let parent = sandbox.repo("parent");
    let add = ["submodule", "--quiet", "add", "--name", "libs/one", text(&origin), "at/a \"place\""];
    sandbox.git(&parent, &add);
    sandbox.commit_all(&parent, "add");
    let at = parent.join("at/a \"place\"");
    // Its work tree stands in its own config.worktree then.
    sandbox.git(&at, &["sparse-checkout", "set", "dir"]);
    sandbox.git(&at, &["pack-refs", "--all"]);
    fs::set_permissions(at.join(".git"), fs::Permissions::from_mode(0o444)).expect("a mode");
    let child = sandbox.path("x").with_file_name(raw_name(b"ch\xffld \\\"x"));
    sandbox.try_isolate("x", &parent, &child, &[]).expect("isolated", 0);
    let inner = child.join("at/a \"place\"");
    assert_eq!(sandbox.git(&inner, &["status", "--porcelain"]), sandbox.git(&at, &["status", "--porcelain"]));
    assert_eq!(sandbox.git(&inner, &["ls-files", "-t"]), sandbox.git(&at, &["ls-files", "-t"]));
    let module = parent.join(".git/worktrees");
    let admin = fs::read_dir(&module).expect("entries").next().expect("one").expect("readable").path();
    assert!(admin.join("modules/libs/one/HEAD").exists());
    write(&inner, "dir/c", "work\n");
    sandbox.commit_all(&inner, "work");
    let tip = head(&sandbox, &inner);
    sandbox.try_fold(&parent, &child, &[]).expect("integrated", 0);
    sandbox.git(&parent, &["submodule", "--quiet", "update"]);
    assert_eq!(head(&sandbox, &at), tip);
    // Not checked out in the Parent any more, but its repository is still there to take commits.
    sandbox.git(&parent, &["submodule", "--quiet", "deinit", "--force", "--all"]);
    write(&inner, "dir/c", "more\n");
    sandbox.commit_all(&inner, "more");
    sandbox.try_fold(&parent, &child, &[]).expect("integrated", 0);
    sandbox.git(&parent, &["submodule", "--quiet", "update", "--init"]);
    assert_eq!(head(&sandbox, &at), head(&sandbox, &inner));
}

#[test]
fn a_long_line_of_children_borrows_from_the_first_parent() {
    let sandbox = sandbox();
    let parent = single(&sandbox);
    let mut last = parent.clone();
    for generation in 0..8 {
        let child = sandbox.isolate(&last, &format!("child{generation}"));
        write(&child, "sub/a", format!("{generation}\n"));
        sandbox.commit_all(&child.join("sub"), "work");
        last = child;
    }
    sound(&sandbox, &last.join("sub"));
    assert_eq!(sandbox.git(&last.join("sub"), &["rev-list", "--count", "HEAD"]), "9");
    let run = sandbox.try_fold(&parent, &last, &[]).expect("integrated", 0);
    assert_eq!(run.last()["changed"], json!(["sub"]));
    sandbox.git(&parent, &["submodule", "--quiet", "update"]);
    assert_eq!(read(&parent, "sub/a").as_deref(), Some("7\n"));
    sound(&sandbox, &parent.join("sub"));
}

#[test]
fn what_a_submodule_tracks_is_never_left_out() {
    let sandbox = sandbox();
    let origin = sandbox.repo("origin-sub");
    write(&origin, ".env", "tracked there\n");
    write(&origin, "conf/.env.test", "tracked there\n");
    sandbox.commit_all(&origin, "settings");
    let parent = sandbox.repo("parent");
    add(&sandbox, &parent, &origin, "sub");
    write(&parent, "sub/dir/.env", "a secret\n");
    write(&parent, "options.toml", "exclude = [\".env\", \".env.*\", \"sub/conf/**\"]\n");
    let child = sandbox.path("child");
    let options = parent.join("options.toml");
    let run = sandbox.try_isolate("x", &parent, &child, &["--options", text(&options)]).expect("isolated", 0);
    assert_eq!(run.last()["left_out"], json!(["sub/dir/.env"]));
    assert_eq!(read(&child, "sub/.env").as_deref(), Some("tracked there\n"));
    assert_eq!(sandbox.git(&child.join("sub"), &["status", "--porcelain"]), "");
    // Not even a pattern for all of it takes its repository away.
    write(&parent, "options.toml", "exclude = [\"sub/**\"]\n");
    let child = sandbox.path("child2");
    sandbox.try_isolate("y", &parent, &child, &["--options", text(&options)]).expect("isolated", 0);
    assert_eq!(sandbox.git(&child.join("sub"), &["status", "--porcelain"]), "");
}

#[test]
fn a_fold_brings_the_commits_of_a_moved_pointer() {
    let sandbox = sandbox();
    let parent = nested(&sandbox);
    let child = sandbox.isolate(&parent, "child");
    write(&child, "sub/deep/inner/a", "inner work\n");
    sandbox.commit_all(&child.join("sub/deep/inner"), "inner work");
    sandbox.commit_all(&child.join("sub"), "first");
    sandbox.commit_all(&child, "point to the first");
    let first = head(&sandbox, &child.join("sub"));
    // Its place in the history is taken by another, as an amended commit's is.
    sandbox.git(&child.join("sub"), &["commit", "-q", "--amend", "-m", "second"]);
    let (sub, inner) = (head(&sandbox, &child.join("sub")), head(&sandbox, &child.join("sub/deep/inner")));
    let files = listing(&parent.join("sub"));
    let before = listing(&parent.join(".git/modules"));
    // A dry run brings nothing.
    let run = sandbox.try_fold(&parent, &child, &["--dry-run"]).expect("integrated", 0);
    assert_eq!(run.last()["changed"], json!(["sub"]));
    same(&listing(&parent.join(".git/modules")), &before, "the modules");

    sandbox.fold(&parent, &child);
    assert_eq!(sandbox.git(&parent, &["rev-parse", "HEAD:sub"]), sub);
    assert_eq!(listing(&parent.join("sub")), files, "the submodule's files are as git merge leaves them");
    for commit in [&first, &sub] {
        assert_eq!(sandbox.git(&parent.join("sub"), &["cat-file", "-t", commit]), "commit");
    }
    // Kept by refs: no gc takes them.
    for module in ["sub", "sub/modules/deep/inner"] {
        let module = parent.join(".git/modules").join(module);
        sandbox.git(&module, &["--work-tree=.", "reflog", "expire", "--expire=now", "--all"]);
        sandbox.git(&module, &["--work-tree=.", "gc", "-q", "--prune=now"]);
    }
    remove(&sandbox, &child, &[]).expect("removed", 0);
    // Offline: the origins are of no help.
    fs::rename(sandbox.path("origin-sub"), sandbox.path("moved")).expect("a rename");
    fs::rename(sandbox.path("origin-inner"), sandbox.path("moved-too")).expect("a rename");
    sandbox.git(&parent, &["submodule", "--quiet", "update", "--recursive"]);
    assert_eq!(head(&sandbox, &parent.join("sub")), sub);
    assert_eq!(head(&sandbox, &parent.join("sub/deep/inner")), inner);
    assert_eq!(sandbox.git(&parent.join("sub"), &["log", "-1", "--format=%s"]), "second");
    assert_eq!(read(&parent, "sub/deep/inner/a").as_deref(), Some("inner work\n"));
    assert_eq!(sandbox.git(&parent, &["status", "--porcelain"]), "");
    for place in ["sub", "sub/deep/inner", "."] {
        sound(&sandbox, &parent.join(place));
    }
}

#[test]
fn a_fold_that_brings_nothing_new_writes_nothing_to_the_module() {
    let sandbox = sandbox();
    let parent = single(&sandbox);
    let origin = sandbox.path("origin-sub");
    write(&origin, "a", "published\n");
    sandbox.commit_all(&origin, "published");
    sandbox.git(&parent.join("sub"), &["fetch", "-q"]);
    let child = sandbox.isolate(&parent, "child");
    sandbox.git(&child.join("sub"), &["checkout", "-q", "origin/main"]);
    let before = listing(&parent.join(".git/modules"));
    sandbox.fold(&parent, &child);
    same(&listing(&parent.join(".git/modules")), &before, "the modules");
    assert_eq!(sandbox.git(&parent, &["rev-parse", "HEAD:sub"]), head(&sandbox, &origin));
}

#[test]
fn a_fold_that_fails_late_takes_the_refs_back() {
    let sandbox = sandbox();
    let parent = single(&sandbox);
    let child = sandbox.isolate(&parent, "child");
    write(&child, "sub/a", "work\n");
    sandbox.commit_all(&child.join("sub"), "work");
    sandbox.commit_all(&child, "pointer");
    // The branch's reflog can't be written: HEAD does not move.
    let log = parent.join(".git/logs/refs/heads/main");
    fs::rename(&log, sandbox.path("log")).expect("a rename");
    write(&log, "in-the-way", "");
    let module = parent.join(".git/modules/sub");
    let before = (sandbox.git(&module, &["for-each-ref"]), head(&sandbox, &parent), listing(&parent));
    sandbox.try_fold(&parent, &child, &[]).expect("failed", 3);
    assert_eq!((sandbox.git(&module, &["for-each-ref"]), head(&sandbox, &parent), listing(&parent)), before);
    fs::remove_dir_all(&log).expect("a directory");
    sandbox.fold(&parent, &child);
    assert!(sandbox.git(&module, &["for-each-ref"]).contains(&head(&sandbox, &child.join("sub"))));
}

#[test]
fn a_submodule_that_is_a_worktree_of_another_clone_keeps_its_work() {
    let sandbox = sandbox();
    let origin = sandbox.repo("origin-sub");
    let parent = sandbox.repo("parent");
    add(&sandbox, &parent, &origin, "sub");
    sandbox.git(&parent, &["submodule", "--quiet", "deinit", "sub"]);
    let child = sandbox.isolate(&parent, "child");
    fs::remove_dir(child.join("sub")).expect("a directory");
    sandbox.git(&origin, &["worktree", "add", "-q", "--detach", text(&child.join("sub"))]);
    write(&child, "sub/a", "loose\n");
    let report = sandbox.unchanged(&parent, "refused", 1, || remove(&sandbox, &child, &[]));
    assert!(report.contains("sub: loose work"), "{report}");
    let refs = saved(&remove(&sandbox, &child, &["--force"]).expect("removed", 0));
    assert_eq!((refs.len(), refs[0].0.as_str()), (1, "sub"), "{refs:?}");
    assert_eq!(sandbox.git(&origin, &["show", &format!("{}:a", refs[0].1)]), "loose");
}

#[test]
fn a_pointer_that_the_parent_has_no_repository_for_is_a_conflict() {
    let sandbox = sandbox();
    let origin = sandbox.repo("origin-sub");
    let parent = sandbox.repo("parent");
    let child = sandbox.isolate(&parent, "child");
    add(&sandbox, &child, &origin, "sub");
    let mut conflicts = Value::Null;
    sandbox.unchanged(&parent, "conflict", 1, || {
        let run = sandbox.try_fold(&parent, &child, &[]);
        conflicts = run.last()["conflicts"].clone();
        run
    });
    assert_eq!((&conflicts[0]["path"], &conflicts[0]["kind"]), (&json!("sub"), &json!("submodule")), "{conflicts}");
    // Nor where neither side has the commit.
    let parent = {
        add(&sandbox, &parent, &origin, "sub");
        parent
    };
    let child = sandbox.isolate(&parent, "child2");
    let nobody = "0123456789012345678901234567890123456789";
    sandbox.git(&child, &["update-index", "--cacheinfo", &format!("160000,{nobody},sub")]);
    sandbox.git(&child, &["commit", "-q", "-m", "to nowhere"]);
    fs::remove_dir_all(child.join("sub")).expect("a directory");
    fs::create_dir(child.join("sub")).expect("a directory");
    sandbox.unchanged(&parent, "conflict", 1, || sandbox.try_fold(&parent, &child, &[]));
}

#[test]
fn pointers_that_both_moved_are_gits_to_judge() {
    let sandbox = sandbox();
    let parent = single(&sandbox);
    let child = sandbox.isolate(&parent, "child");
    write(&parent, "sub/a", "parent\n");
    sandbox.commit_all(&parent.join("sub"), "parent's");
    sandbox.commit_all(&parent, "parent's pointer");
    // The Child's goes on from the Parent's: with both at hand git takes the later one.
    sandbox.git(&child.join("sub"), &["fetch", "-q", text(&parent.join("sub")), "HEAD"]);
    sandbox.git(&child.join("sub"), &["checkout", "-q", "FETCH_HEAD"]);
    write(&child, "sub/b", "child\n");
    sandbox.commit_all(&child.join("sub"), "child's");
    sandbox.commit_all(&child, "child's pointer");
    let judge = || {
        let ends = [head(&sandbox, &parent), head(&sandbox, &child)];
        sandbox.try_git(&parent, &["merge-tree", "--write-tree", &ends[0], &ends[1]]).0
    };
    // Git in the Parent does not see the Child's commit, and calls it a conflict.
    assert_eq!(judge(), 1);
    let report = sandbox.unchanged(&parent, "conflict", 1, || sandbox.try_fold(&parent, &child, &[]));
    assert!(report.contains("sub"), "{report}");
    sandbox.git(&parent.join("sub"), &["fetch", "-q", text(&child.join("sub")), "HEAD"]);
    assert_eq!(judge(), 0);
    sandbox.fold(&parent, &child);
    assert_eq!(sandbox.git(&parent, &["rev-parse", "HEAD:sub"]), head(&sandbox, &child.join("sub")));
    // Ways that part are a conflict in any case.
    let other = sandbox.isolate(&parent, "other");
    sandbox.git(&parent, &["submodule", "--quiet", "update"]);
    for (side, content) in [(&parent, "one\n"), (&other, "two\n")] {
        write(side, "sub/dir/c", content);
        sandbox.commit_all(&side.join("sub"), content.trim());
        sandbox.commit_all(side, "pointer");
    }
    sandbox.unchanged(&parent, "conflict", 1, || sandbox.try_fold(&parent, &other, &[]));
}

#[test]
fn loose_work_in_submodules_is_named_on_either_side() {
    let sandbox = sandbox();
    let parent = nested(&sandbox);
    let child = sandbox.isolate(&parent, "child");
    let named = || {
        let run = sandbox.try_fold(&parent, &child, &["--dry-run"]).expect("integrated", 0);
        run.last()["not_folded"].clone()
    };
    assert_eq!(named(), json!([]));
    let expected = json!([{"path": "sub", "why": "loose work in a submodule"}]);
    for side in [&parent, &child] {
        for (at, how) in [("sub/new", "untracked"), ("sub/deep/inner/a", "edited below")] {
            let was = read(side, at);
            write(side, at, "loose\n");
            assert_eq!(named(), expected, "{how} in {}", side.display());
            match was {
                Some(content) => write(side, at, content),
                None => fs::remove_file(side.join(at)).expect("a file"),
            }
        }
        assert_eq!(named(), json!([]));
    }
}

#[test]
fn a_removal_refuses_and_with_force_saves_what_submodules_hold() {
    let sandbox = sandbox();
    let parent = nested(&sandbox);
    let child = sandbox.isolate(&parent, "child");
    // A branch that nothing points to, a stash, loose work, on two levels.
    let (sub, inner) = (child.join("sub"), child.join("sub/deep/inner"));
    sandbox.git(&inner, &["checkout", "-q", "-b", "side"]);
    write(&inner, "a", "on a branch\n");
    sandbox.commit_all(&inner, "on a branch");
    let branch = head(&sandbox, &inner);
    sandbox.git(&inner, &["checkout", "-q", "--detach", "HEAD^"]);
    write(&sub, "b", "stashed\n");
    sandbox.git(&sub, &["stash", "-q"]);
    let stash = sandbox.git(&sub, &["rev-parse", "refs/stash"]);
    assert_eq!(sandbox.git(&child, &["status", "--porcelain", "--ignore-submodules=none"]), "");
    let before = bytes(&parent.join(".git/modules"));
    let report = sandbox.unchanged(&parent, "refused", 1, || remove(&sandbox, &child, &[]));
    for word in ["sub: commits", "sub/deep/inner: commits", "--force"] {
        assert!(report.contains(word), "{report}");
    }
    write(&sub, "new", "loose\n");
    write(&sub, "a", lines(&[(4, "loose")]));
    let report = sandbox.unchanged(&parent, "refused", 1, || remove(&sandbox, &child, &[]));
    assert!(report.contains("sub: loose work"), "{report}");
    same(&bytes(&parent.join(".git/modules")), &before, "the modules");

    let pointed = head(&sandbox, &sub);
    let run = remove(&sandbox, &child, &["--force"]).expect("removed", 0);
    assert!(!child.exists() && !parent.join(".git/worktrees").exists());
    let refs = saved(&run);
    assert_eq!(refs.len(), 3, "{refs:?}");
    let tips: Vec<(&str, String)> = refs
        .iter()
        .map(|(path, name)| {
            assert!(name.starts_with("refs/isofold/saved/child-"), "{name}");
            (path.as_str(), sandbox.git(&parent.join(path), &["rev-parse", name]))
        })
        .collect();
    assert!(tips.contains(&("sub/deep/inner", branch)), "{tips:?}");
    assert!(tips.contains(&("sub", stash.clone())), "{tips:?}");
    let loose = &tips.iter().find(|(path, id)| *path == "sub" && *id != stash).expect("loose work").1;
    let there = parent.join("sub");
    assert_eq!(sandbox.git(&there, &["show", &format!("{loose}:new")]), "loose");
    assert_eq!(sandbox.git(&there, &["show", &format!("{loose}:a")]) + "\n", lines(&[(4, "loose")]));
    assert_eq!(sandbox.git(&there, &["rev-parse", &format!("{loose}^")]), pointed);
    for place in ["sub", "sub/deep/inner", "."] {
        sound(&sandbox, &parent.join(place));
        sandbox.git(&parent.join(place), &["gc", "-q", "--prune=now"]);
    }
    assert_eq!(sandbox.git(&there, &["cat-file", "-t", loose]), "commit");
    assert_eq!(sandbox.git(&parent, &["status", "--porcelain"]), "");
}

#[test]
fn an_untouched_child_of_a_dirty_parent_goes_without_force() {
    let sandbox = sandbox();
    let parent = nested(&sandbox);
    write(&parent, "sub/a", "dirty\n");
    write(&parent, "sub/deep/inner/new", "dirty\n");
    write(&parent, "sub/deep/inner/b", "committed, not pushed\n");
    sandbox.git(&parent.join("sub/deep/inner"), &["commit", "-q", "-am", "ahead"]);
    let child = sandbox.isolate(&parent, "child");
    let before = bytes(&parent.join(".git/modules"));
    let run = remove(&sandbox, &child, &[]).expect("removed", 0);
    assert_eq!(run.last()["saved"], json!([]));
    same(&bytes(&parent.join(".git/modules")), &before, "the modules");
}

#[test]
fn without_a_place_to_save_to_a_removal_refuses() {
    let sandbox = sandbox();
    let origin = sandbox.repo("origin-sub");
    let parent = sandbox.repo("parent");
    let child = sandbox.isolate(&parent, "child");
    add(&sandbox, &child, &origin, "sub");
    write(&child, "sub/a", "work\n");
    sandbox.commit_all(&child.join("sub"), "work");
    sandbox.commit_all(&child, "pointer");
    for more in [&[][..], &["--force"]] {
        let report = sandbox.unchanged(&parent, "refused", 1, || remove(&sandbox, &child, more));
        assert!(report.contains("sub: commits of its own"), "{report}");
    }
    // Pushed, it is no longer the Child's alone.
    sandbox.git(&child.join("sub"), &["push", "-q", "origin", "HEAD:refs/heads/topic"]);
    remove(&sandbox, &child, &[]).expect("removed", 0);
}

#[test]
fn a_child_of_a_child_and_a_linked_worktree_have_them_too() {
    let sandbox = sandbox();
    let parent = nested(&sandbox);
    let child = sandbox.isolate(&parent, "child");
    write(&child, "sub/deep/inner/a", "child\n");
    sandbox.commit_all(&child.join("sub/deep/inner"), "child");
    write(&child, "sub/b", "staged\n");
    sandbox.git(&child.join("sub"), &["add", "-A"]);
    let before = listing(&parent.join(".git/worktrees/child/modules"));
    let grandchild = sandbox.isolate(&child, "grandchild");
    assert_eq!(status(&sandbox, &grandchild), status(&sandbox, &child));
    same(&listing(&parent.join(".git/worktrees/child/modules")), &before, "the modules");
    write(&grandchild, "sub/deep/inner/b", "grandchild\n");
    sandbox.commit_all(&grandchild.join("sub/deep/inner"), "grandchild");
    sandbox.commit_all(&grandchild.join("sub"), "grandchild");
    // Folded into the Child, its commits are in the Child's repositories and nowhere else.
    let tip = head(&sandbox, &grandchild.join("sub"));
    sandbox.git(&child.join("sub"), &["reset", "-q", "--hard"]);
    sandbox.git(&child, &["submodule", "--quiet", "update"]);
    sandbox.fold(&child, &grandchild);
    assert_eq!(sandbox.git(&child.join("sub"), &["cat-file", "-t", &tip]), "commit");
    assert_ne!(sandbox.try_git(&parent.join("sub"), &["cat-file", "-e", &tip]).0, 0);
    // The grandchild does not need the Child.
    remove(&sandbox, &child, &["--force"]).expect("removed", 0);
    for inner in ["sub", "sub/deep/inner"] {
        sound(&sandbox, &grandchild.join(inner));
        sandbox.git(&grandchild.join(inner), &["status"]);
    }
    // A worktree that git made keeps its repositories to itself.
    let linked = sandbox.path("linked");
    sandbox.git(&parent, &["worktree", "add", "-q", "--detach", text(&linked)]);
    sandbox.git(&linked, &["submodule", "--quiet", "update", "--init", "--recursive"]);
    let child = sandbox.isolate(&linked, "child3");
    assert_eq!(status(&sandbox, &child), status(&sandbox, &linked));
    sandbox.git(&parent, &["worktree", "remove", "--force", text(&linked)]);
    sound(&sandbox, &child.join("sub"));
}

#[test]
fn a_child_that_somebody_deleted_is_replaced_and_its_commits_saved() {
    let sandbox = sandbox();
    let parent = single(&sandbox);
    let child = sandbox.isolate(&parent, "child");
    write(&child, "sub/a", "work\n");
    sandbox.commit_all(&child.join("sub"), "work");
    let tip = head(&sandbox, &child.join("sub"));
    fs::remove_dir_all(&child).expect("a directory");
    let run = sandbox.try_isolate("child", &parent, &child, &[]).expect("isolated", 0);
    let refs = saved(&run);
    assert_eq!((refs.len(), refs[0].0.as_str()), (1, "sub"), "{refs:?}");
    assert_eq!(sandbox.git(&parent.join("sub"), &["rev-parse", &refs[0].1]), tip);
    sound(&sandbox, &parent.join("sub"));
}

#[test]
fn a_failure_leaves_nothing() {
    let sandbox = sandbox();
    let parent = nested(&sandbox);
    // An index that can't be copied ends the isolation after the submodules were given theirs.
    let blocked = sandbox.path("blocked");
    write(&sandbox.path("."), "blocked/file", "");
    sandbox.git(&parent, &["worktree", "add", "-q", "-b", "issue/taken", text(&sandbox.path("other"))]);
    sandbox.unchanged(&parent, "failed", 1, || sandbox.try_isolate("taken", &parent, &blocked.join("child"), &[]));
    fs::write(parent.join(".git/modules/sub/modules/deep/inner/config"), "[broken\n").expect("a file");
    let before = sandbox.everything(&sandbox.path("home"));
    let run = sandbox.try_isolate("x", &parent, &sandbox.path("child"), &[]).expect("failed", 1);
    assert!(run.report().contains("inner"), "{run:?}");
    assert_eq!(sandbox.everything(&sandbox.path("home")), before);
}

#[test]
fn a_fold_starts_nothing_that_a_submodule_names() {
    let sandbox = sandbox();
    let parent = single(&sandbox);
    let child = sandbox.isolate(&parent, "child");
    let sprung = sandbox.path("sprung");
    let trap = format!("sh -c 'touch {}; cat'", text(&sprung));
    let sub = child.join("sub");
    for key in ["filter.evil.clean", "filter.evil.smudge", "core.fsmonitor"] {
        sandbox.git(&sub, &["config", key, &trap]);
    }
    write(&sub, ".gitattributes", "* filter=evil\n");
    write(&sub, "a", lines(&[(3, "loose in the submodule")]));
    write(&child, "a", lines(&[(3, "child")]));
    let run = sandbox.try_fold(&parent, &child, &[]).expect("integrated", 0);
    assert!(!sprung.exists(), "a program that the submodule names was started");
    let named = &run.last()["not_folded"][0];
    assert_eq!(named["path"], "sub", "{run:?}");
    assert!(named["why"].as_str().is_some_and(|why| why.contains("names programs")), "{run:?}");
}
