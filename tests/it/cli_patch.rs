//! `isofold patch` and `isofold hook patch` through the program.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::host::{same, text};
use crate::support::{Run, Sandbox, lines, read, with_git, write};

/// A main checkout and a linked worktree of it.
fn pair(s: &Sandbox) -> (PathBuf, PathBuf) {
    let main = s.repo("main");
    let worktree = s.path("worktree");
    s.git(&main, &["worktree", "add", "-q", text(&worktree)]);
    (main, worktree)
}

fn patch(s: &Sandbox, directory: &Path, args: &[&str]) -> Run {
    s.isofold(["-C", text(directory), "patch"].iter().chain(args))
}

#[track_caller]
fn done(s: &Sandbox, directory: &Path, args: &[&str]) -> String {
    let run = patch(s, directory, args);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}: {run:?}");
    run.stdout
}

/// A patch command that has to fail and to change nothing; what it says.
#[track_caller]
fn fails(s: &Sandbox, repo: &Path, directory: &Path, args: &[&str], code: i32) -> String {
    let before = s.everything(repo);
    let run = patch(s, directory, args);
    assert_eq!((run.code, run.stdout.as_str()), (code, ""), "{args:?}: {run:?}");
    same(&s.everything(repo), &before, &run.stderr);
    run.stderr
}

fn record(s: &Sandbox, worktree: &Path) -> String {
    done(s, worktree, &["record", "--agent", "ag"])
}

fn stored(main: &Path) -> PathBuf {
    main.join(".isofold/patches/ag")
}

#[test]
fn the_work_outlives_the_worktree() {
    let s = Sandbox::new();
    let (main, worktree) = pair(&s);
    let base = s.git(&main, &["rev-parse", "HEAD"]);
    record(&s, &worktree);
    write(&worktree, "a", lines(&[(3, "three")]));
    s.commit_all(&worktree, "committed");
    write(&worktree, "new dir/new", "new\n");
    fs::remove_file(worktree.join("b")).expect("removed");
    write(&worktree, "staged.log", "ignored, but staged\n");
    s.git(&worktree, &["add", "-f", "staged.log"]);
    let index = fs::read(main.join(".git/worktrees/worktree/index")).expect("an index");
    let status = s.git(&main, &["status", "--porcelain"]);
    let said = record(&s, &worktree.join("new dir"));
    assert_eq!(said, format!("ag: 4 files since {}: {}\n", &base[..8], stored(&main).join("changes.patch").display()));
    assert_eq!(fs::read(main.join(".git/worktrees/worktree/index")).expect("an index"), index);
    assert_eq!(s.git(&main, &["status", "--porcelain"]), status);
    assert_eq!(read(&stored(&main), "base"), Some(format!("{base}\n")));
    assert!(
        read(&main, ".git/info/exclude")
            .is_some_and(|text| text.lines().filter(|line| *line == ".isofold/").count() == 1)
    );
    let mode = fs::metadata(stored(&main)).expect("a stat").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    // Nothing new: nothing is written.
    assert!(record(&s, &worktree).contains("(as before)"));
    // Everything of the worktree goes, and what only it reached with it.
    s.git(&main, &["worktree", "remove", "--force", text(&worktree)]);
    s.git(&main, &["branch", "-D", "worktree"]);
    s.git(&main, &["gc", "-q", "--prune=now"]);
    let listed: Value = serde_json::from_str(&done(&s, &main, &["list", "--json"])).expect("JSON");
    assert_eq!(listed["version"], 1);
    let entry = &listed["patches"][0];
    assert_eq!((&entry["agent"], &entry["base"], &entry["files"]), (&json!("ag"), &json!(base), &json!(4)));
    let bytes = done(&s, &main, &["show", "ag"]);
    assert_eq!((entry["bytes"].as_u64(), entry["age_seconds"].is_u64()), (Some(bytes.len() as u64), true));
    let row = done(&s, &main.join("dir"), &["list"]);
    assert!(row.starts_with(&format!("ag  {}  4 files  ", &base[..8])) && row.trim_end().ends_with(" ago"), "{row}");
    // Landing writes working files; the index stays.
    let before = fs::read(main.join(".git/index")).expect("an index");
    let said = done(&s, &main.join("dir"), &["land", "ag"]);
    assert_eq!(said, format!("ag: 4 files in {}\n  a\n  b\n  new dir/new\n  staged.log\n", main.display()));
    assert_eq!(fs::read(main.join(".git/index")).expect("an index"), before);
    assert_eq!(s.git(&main, &["status", "--porcelain"]), " M a\n D b\n?? \"new dir/\"");
    assert_eq!(done(&s, &main, &["land", "ag"]), "nothing to do\n");
    assert_eq!(done(&s, &main, &["land", "--3way", "ag"]), "nothing to do\n");
    // Dropped, it is gone with what was kept for it.
    assert_eq!(done(&s, &main, &["drop", "ag"]), "ag: dropped\n");
    assert_eq!(s.git(&main, &["for-each-ref", "refs/isofold"]), "");
    assert_eq!(done(&s, &main, &["list"]), "");
    assert!(!stored(&main).exists());
}

#[test]
fn the_base_stays_and_the_patch_grows() {
    let s = Sandbox::new();
    let (main, worktree) = pair(&s);
    let base = s.git(&main, &["rev-parse", "HEAD"]);
    assert!(record(&s, &worktree).starts_with("ag: 0 files"));
    assert_eq!(done(&s, &main, &["show", "ag"]), "");
    assert_eq!(done(&s, &main, &["land", "ag"]), "nothing to do\n");
    for number in 1..4 {
        write(&worktree, format!("n{number}"), "new\n");
        s.commit_all(&worktree, "step");
        assert!(record(&s, &worktree).starts_with(&format!("ag: {number} file")), "{number}");
    }
    assert_eq!(read(&stored(&main), "base"), Some(format!("{base}\n")));
    // Work that is taken back is no work.
    s.git(&worktree, &["reset", "-q", "--hard", &base]);
    assert!(record(&s, &worktree).starts_with("ag: 0 files"));
}

#[test]
fn exit_codes() {
    let s = Sandbox::new();
    let (main, worktree) = pair(&s);
    let outside = s.path("outside");
    fs::create_dir(&outside).expect("made");
    // 2: usage.
    let long = "a".repeat(129);
    for agent in ["", ".a", "a/b", "a b", "é", &long] {
        let words = fails(&s, &main, &worktree, &["record", "--agent", agent], 2);
        assert!(words.contains("is no name of an agent"), "{words}");
        fails(&s, &main, &main, &["land", agent], 2);
        fails(&s, &main, &main, &["show", agent], 2);
        fails(&s, &main, &main, &["drop", agent], 2);
    }
    for args in
        [&["record"][..], &["land"], &["show"], &["nope"], &[], &["list", "x"], &["record", "--agent", "a", "--nope"]]
    {
        fails(&s, &main, &main, args, 2);
    }
    // 1: no patch, not a repository, not a linked worktree, git's faults.
    for args in [["land", "ag"], ["show", "ag"], ["drop", "ag"]] {
        assert!(fails(&s, &main, &main, &args, 1).contains("there is no patch of ag"));
        assert!(fails(&s, &main, &outside, &args, 1).contains("not a git repository"));
    }
    fails(&s, &main, &outside, &["list"], 1);
    fails(&s, &main, &outside, &["record", "--agent", "ag"], 1);
    assert!(fails(&s, &main, &main, &["record", "--agent", "ag"], 1).contains("is the main checkout"));
    fails(&s, &main, &main, &["record", "--agent", "ag", "--worktree", "/no/such/place"], 1);
    // 0 from anywhere in the repository, and by name.
    done(&s, &main, &["record", "--agent", "ag", "--worktree", text(&worktree.join("dir"))]);
    for directory in [&main, &main.join("dir"), &worktree, &worktree.join("dir")] {
        assert!(done(&s, directory, &["list"]).starts_with("ag "));
        done(&s, directory, &["show", "ag"]);
    }
    // 1: it does not apply, in git's words.
    write(&worktree, "a", lines(&[(3, "theirs")]));
    record(&s, &worktree);
    write(&main, "a", lines(&[(3, "ours")]));
    let words = fails(&s, &main, &main, &["land", "ag"], 1);
    assert!(words.contains("error: patch failed: a:1\nerror: a: patch does not apply\n"), "{words}");
    assert!(words.contains("--3way"), "{words}");
}

#[test]
fn landing_keeps_what_the_user_staged_and_edited() {
    let s = Sandbox::new();
    let (main, worktree) = pair(&s);
    write(&worktree, "a", lines(&[(15, "theirs")]));
    write(&worktree, "run.sh", "#!/bin/sh\n");
    fs::set_permissions(worktree.join("run.sh"), fs::Permissions::from_mode(0o755)).expect("set");
    symlink("a", worktree.join("link")).expect("linked");
    record(&s, &worktree);
    write(&main, "a", lines(&[(1, "staged")]));
    write(&main, "b", lines(&[(1, "staged")]));
    s.git(&main, &["add", "-A"]);
    write(&main, "a", lines(&[(1, "staged"), (6, "loose")]));
    let index = fs::read(main.join(".git/index")).expect("an index");
    done(&s, &main, &["land", "ag"]);
    assert_eq!(fs::read(main.join(".git/index")).expect("an index"), index);
    assert_eq!(read(&main, "a"), Some(lines(&[(1, "staged"), (6, "loose"), (15, "theirs")])));
    assert_eq!(fs::read_link(main.join("link")).expect("a link"), Path::new("a"));
    assert_eq!(fs::metadata(main.join("run.sh")).expect("a stat").permissions().mode() & 0o111, 0o111);
    // Edited since, within what the patch gives for context: it is there already.
    write(&main, "a", lines(&[(1, "staged"), (6, "loose"), (13, "near"), (15, "theirs"), (17, "near")]));
    assert_eq!(done(&s, &main, &["land", "ag"]), "nothing to do\n");
}

#[test]
fn landing_is_all_or_nothing_and_overwrites_nothing() {
    let s = Sandbox::new();
    let (main, worktree) = pair(&s);
    write(&worktree, "a", lines(&[(3, "theirs")]));
    write(&worktree, "new", "theirs\n");
    record(&s, &worktree);
    // Untracked and ignored files of the same name, a link, a directory: in the way.
    write(&main, "new", "mine\n");
    assert!(fails(&s, &main, &main, &["land", "ag"], 1).contains("new: already exists in working directory"));
    fs::remove_file(main.join("new")).expect("removed");
    symlink("/etc/passwd", main.join("new")).expect("linked");
    fails(&s, &main, &main, &["land", "ag"], 1);
    fs::remove_file(main.join("new")).expect("removed");
    write(&main, "new/inside", "mine\n");
    fails(&s, &main, &main, &["land", "ag"], 1);
    fs::remove_dir_all(main.join("new")).expect("removed");
    // A directory of the path is a link that leads outside.
    write(&worktree, "dir/c", "theirs\n");
    record(&s, &worktree);
    fs::rename(main.join("dir"), s.path("dir-outside")).expect("moved");
    symlink(s.path("dir-outside"), main.join("dir")).expect("linked");
    fails(&s, &main, &main, &["land", "ag"], 1);
    assert_eq!(read(&s.path("dir-outside"), "c").as_deref(), Some("c\n"));
}

#[test]
fn three_way_merges_and_leaves_markers() {
    let s = Sandbox::new();
    let main = s.repo("main");
    write(&main, "logo", b"one\0");
    write(&main, "gone", "kept by one side\n");
    s.commit_all(&main, "more");
    let worktree = s.path("worktree");
    s.git(&main, &["worktree", "add", "-q", text(&worktree)]);
    write(&worktree, "a", lines(&[(3, "theirs")]));
    write(&worktree, "b", lines(&[(3, "theirs")]));
    write(&worktree, "logo", b"theirs\0");
    write(&worktree, "gone", "theirs\n");
    record(&s, &worktree);
    s.git(&main, &["worktree", "remove", "--force", text(&worktree)]);
    s.git(&main, &["gc", "-q", "--prune=now"]);
    // The checkout moved on: what merges, merges.
    write(&main, "b", lines(&[(16, "ours")]));
    write(&main, "a", lines(&[(3, "ours")]));
    write(&main, "logo", b"ours\0");
    fs::remove_file(main.join("gone")).expect("removed");
    s.commit_all(&main, "ours");
    write(&main, "b", lines(&[(16, "ours"), (19, "loose")]));
    let index = fs::read(main.join(".git/index")).expect("an index");
    assert_eq!(patch(&s, &main, &["land", "ag"]).code, 1);
    let run = patch(&s, &main, &["land", "--3way", "ag"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert_eq!(fs::read(main.join(".git/index")).expect("an index"), index);
    let text_of_a = read(&main, "a").expect("a file");
    assert!(text_of_a.contains("<<<<<<< yours\nours\n=======\ntheirs\n>>>>>>> ag\n"), "{text_of_a}");
    assert_eq!(read(&main, "b"), Some(lines(&[(3, "theirs"), (16, "ours"), (19, "loose")])));
    // Binaries stay ours, and it is said where theirs is.
    assert_eq!(fs::read(main.join("logo")).expect("a file"), b"ours\0");
    assert!(run.stdout.contains("git show 'refs/isofold/patch/ag:logo'"), "{run:?}");
    assert_eq!(s.git(&main, &["show", "refs/isofold/patch/ag:logo"]), "theirs\0");
    for path in ["a", "logo", "gone"] {
        assert!(run.stdout.contains(&format!("conflict: {path} (")), "{path}: {run:?}");
    }
    assert!(run.stderr.contains("3 conflicts are left"), "{run:?}");
    // Not again over the markers; a second time after they were settled in the agent's favour.
    assert!(fails(&s, &main, &main, &["land", "--3way", "ag"], 1).contains("markers of an earlier landing"));
    write(&main, "a", lines(&[(3, "theirs")]));
    write(&main, "logo", b"theirs\0");
    write(&main, "gone", "theirs\n");
    assert_eq!(done(&s, &main, &["land", "--3way", "ag"]), "nothing to do\n");
    assert_eq!(done(&s, &main, &["land", "ag"]), "nothing to do\n");
}

#[test]
fn repetitive_text_and_modes_land_once() {
    let s = Sandbox::new();
    let (main, worktree) = pair(&s);
    write(&worktree, "a", "x\n".repeat(40));
    s.commit_all(&worktree, "repetitive");
    s.git(&main, &["merge", "-q", "--ff-only", "worktree"]);
    // git can't tell by the patch whether it is there.
    write(&worktree, "a", "x\n".repeat(39));
    fs::set_permissions(worktree.join("b"), fs::Permissions::from_mode(0o755)).expect("set");
    record(&s, &worktree);
    done(&s, &main, &["land", "ag"]);
    assert_eq!(read(&main, "a"), Some("x\n".repeat(39)));
    assert_eq!(done(&s, &main, &["land", "ag"]), "nothing to do\n");
    assert_eq!(read(&main, "a"), Some("x\n".repeat(39)));
}

#[test]
fn a_patch_lands_without_any_object() {
    let s = Sandbox::new();
    let (main, worktree) = pair(&s);
    write(&worktree, "bin", b"\0\x01\x02".repeat(400));
    write(&worktree, "a", lines(&[(3, "theirs")]));
    record(&s, &worktree);
    // Somebody removed the ref and pruned: the base is HEAD of no branch either.
    s.git(&main, &["update-ref", "-d", "refs/isofold/patch/ag"]);
    s.git(&main, &["commit", "-q", "--amend", "-m", "another"]);
    s.git(&main, &["worktree", "remove", "--force", text(&worktree)]);
    s.git(&main, &["branch", "-D", "worktree"]);
    s.git(&main, &["reflog", "expire", "--expire=now", "--all"]);
    s.git(&main, &["gc", "-q", "--prune=now"]);
    let words = fails(&s, &main, &main, &["land", "--3way", "ag"], 1);
    assert!(words.contains("is no longer in the repository"), "{words}");
    done(&s, &main, &["land", "ag"]);
    assert_eq!(fs::read(main.join("bin")).expect("a file"), b"\0\x01\x02".repeat(400));
    assert_eq!(done(&s, &main, &["land", "ag"]), "nothing to do\n");
}

#[test]
fn children_are_recorded_from_what_they_were_given() {
    let s = Sandbox::new();
    let main = s.repo("main");
    write(&main, "a", lines(&[(1, "dirty")]));
    write(&main, "untracked", "u\n");
    let child = s.isolate(&main, "child");
    write(&child, "a", lines(&[(1, "dirty"), (15, "work")]));
    write(&child, "new", "new\n");
    // A new rule does not take away what the base holds.
    write(&child, ".gitignore", "*.log\nignored/\nuntracked\n");
    assert!(record(&s, &child).starts_with("ag: 3 files"));
    s.isofold(["remove", "--force", "--child", text(&child)]).expect("removed", 0);
    s.git(&main, &["gc", "-q", "--prune=now"]);
    done(&s, &main, &["land", "ag"]);
    assert_eq!(read(&main, "a"), Some(lines(&[(1, "dirty"), (15, "work")])));
    assert_eq!((read(&main, "untracked").as_deref(), read(&main, "new").as_deref()), (Some("u\n"), Some("new\n")));
}

#[test]
fn line_endings_are_those_of_the_checkout() {
    let s = Sandbox::new();
    let main = s.repo("main");
    s.git(&main, &["config", "core.autocrlf", "true"]);
    write(&main, "keep.dat", "1\n2\n");
    write(&main, ".gitattributes", "*.dat -text\n");
    s.commit_all(&main, "attributes");
    s.git(&main, &["rm", "-rq", "--cached", "."]);
    s.git(&main, &["reset", "-q", "--hard"]);
    let worktree = s.path("worktree");
    s.git(&main, &["worktree", "add", "-q", text(&worktree)]);
    let crlf = |replaced: &[(usize, &str)]| lines(replaced).replace('\n', "\r\n");
    assert_eq!(read(&main, "a"), Some(crlf(&[])));
    write(&worktree, "a", crlf(&[(3, "three")]));
    write(&worktree, "sub/n.txt", "x\r\ny\r\n");
    write(&worktree, "sub/.gitattributes", "*.sh eol=lf\n");
    write(&worktree, "sub/n.sh", "x\ny\n");
    write(&worktree, "keep.dat", "1\n2\r\n");
    record(&s, &worktree);
    done(&s, &main, &["land", "ag"]);
    for path in ["a", "sub/n.txt", "sub/.gitattributes", "sub/n.sh", "keep.dat"] {
        let with = |root: &Path| fs::read(root.join(path)).expect("a file").escape_ascii().to_string();
        let (ours, theirs) = (with(&main), with(&worktree));
        assert_eq!(ours.replace("\\r", ""), theirs.replace("\\r", ""), "{path}");
        // What is new beside new attributes git apply writes without them.
        let exact = ["a", "sub/n.txt", "keep.dat"].contains(&path);
        assert!(!exact || ours == theirs, "{path}: {ours} {theirs}");
    }
    assert_eq!(done(&s, &main, &["land", "ag"]), "nothing to do\n");
}

#[test]
fn a_full_disk_changes_nothing() {
    let s = Sandbox::new();
    let Some(disk) = s.small_disk("disk", 24 * 1024) else { return };
    let main = disk.path().join("main");
    s.git(&s.path(""), &["clone", "-q", "--no-hardlinks", text(&s.repo("origin")), text(&main)]);
    let worktree = s.path("worktree");
    s.git(&main, &["worktree", "add", "-q", text(&worktree)]);
    write(&worktree, "a", lines(&[(3, "theirs")]));
    record(&s, &worktree);
    let old = fs::read(stored(&main).join("changes.patch")).expect("a patch");
    // No room for the next patch: the old one stays.
    let fill = |size: usize| {
        let mut state = 1_u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            u8::try_from(state >> 24).expect("a byte")
        };
        (0..size).map(|_| noise()).collect::<Vec<u8>>()
    };
    write(&worktree, "large", fill(30 << 20));
    let run = patch(&s, &worktree, &["record", "--agent", "ag"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert_eq!(fs::read(stored(&main).join("changes.patch")).expect("a patch"), old);
    assert!(done(&s, &main, &["list"]).starts_with("ag "));
    // No room to land.
    write(&worktree, "large", fill(2 << 20));
    record(&s, &worktree);
    let free = rustix::fs::statvfs(&main).map(|stat| stat.f_bavail * stat.f_frsize).expect("a number");
    write(&main, "ignored/ballast", fill(usize::try_from(free).expect("fits") - (64 << 10)));
    let status = s.git(&main, &["status", "--porcelain"]);
    let run = patch(&s, &main, &["land", "ag"]);
    assert!(run.code == 1 && run.stdout.is_empty(), "{run:?}");
    assert_eq!((s.git(&main, &["status", "--porcelain"]), read(&main, "a")), (status, Some(lines(&[]))));
    fs::remove_file(main.join("ignored/ballast")).expect("removed");
    done(&s, &main, &["land", "ag"]);
}

#[test]
fn the_middle_of_a_merge_is_recorded() {
    let s = Sandbox::new();
    let (main, worktree) = pair(&s);
    record(&s, &worktree);
    write(&main, "a", lines(&[(3, "ours")]));
    s.commit_all(&main, "ours");
    write(&worktree, "a", lines(&[(3, "theirs")]));
    s.commit_all(&worktree, "theirs");
    assert_eq!(s.try_git(&worktree, &["merge", "-q", "main"]).0, 1);
    write(&worktree, "new", "new\n");
    let index = fs::read(main.join(".git/worktrees/worktree/index")).expect("an index");
    assert!(record(&s, &worktree).starts_with("ag: 2 files"));
    assert_eq!(fs::read(main.join(".git/worktrees/worktree/index")).expect("an index"), index);
    assert!(done(&s, &main, &["show", "ag"]).contains("+<<<<<<< HEAD\n"));
}

#[test]
fn bare_repositories_keep_patches_too() {
    let s = Sandbox::new();
    let origin = s.repo("origin");
    let bare = s.path("bare.git");
    s.git(&origin, &["clone", "-q", "--bare", text(&origin), text(&bare)]);
    let worktree = s.path("worktree");
    s.git(&bare, &["worktree", "add", "-q", text(&worktree)]);
    write(&worktree, "new", "new\n");
    record(&s, &worktree);
    assert!(bare.join("isofold/patches/ag/changes.patch").exists());
    assert!(done(&s, &worktree, &["list"]).starts_with("ag "));
    let run = patch(&s, &worktree, &["land", "ag"]);
    assert!(run.code == 1 && run.stderr.contains("bare repository"), "{run:?}");
}

#[test]
fn many_records_at_once() {
    let s = Sandbox::in_memory();
    let (main, worktree) = pair(&s);
    let second = s.path("second");
    s.git(&main, &["worktree", "add", "-q", text(&second)]);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (s, worktree, second) = (&s, &worktree, &second);
            scope.spawn(move || {
                for round in 0..6 {
                    write(worktree, format!("w{number}"), format!("{round}\n"));
                    record(s, worktree);
                    write(second, format!("s{number}"), format!("{round}\n"));
                    done(s, second, &["record", "--agent", &format!("second{number}")]);
                }
            });
        }
    });
    record(&s, &worktree);
    done(&s, &main, &["land", "ag"]);
    for number in 0..4 {
        assert_eq!(read(&main, format!("w{number}")).as_deref(), Some("5\n"));
    }
    assert_eq!(done(&s, &main, &["list"]).lines().count(), 5);
    assert_eq!(s.try_git(&main, &["fsck", "--no-progress", "--no-dangling"]), (0, String::new()));
}

/// An event on the stdin of a hook; it never says a word.
#[track_caller]
fn hook(s: &Sandbox, directory: &Path, event: &[u8]) {
    let mut program = s.program();
    program.current_dir(directory).args(["hook", "patch"]);
    let mut child =
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("isofold runs");
    child.stdin.take().expect("a pipe").write_all(event).expect("written");
    let output = child.wait_with_output().expect("an end");
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(), "{output:?}");
}

/// An event as an agent tool sends it, with these places in it.
fn event(name: &str, cwd: &Path, file: &Path) -> Vec<u8> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/hook-events").join(name);
    let text = fs::read_to_string(&place).unwrap_or_else(|e| panic!("{}: {e}", place.display()));
    text.replace("@CWD@", text_of(cwd)).replace("@FILE@", text_of(file)).into_bytes()
}

fn text_of(path: &Path) -> &str {
    text(path)
}

#[test]
fn events_of_agent_tools_are_recorded() {
    let s = Sandbox::new();
    let (main, worktree) = pair(&s);
    write(&worktree, "a", lines(&[(3, "edited")]));
    for (name, agent) in [
        ("claude-code-edit.json", Some("a1b2c3d4e5f60718")),
        ("claude-code-write.json", Some("a9f8e7d6")),
        ("camel-case-edit.json", Some("call_7Hq2")),
        ("camel-case-arguments-as-text.json", Some("reviewer-2")),
        // No subagent at work, or no file named.
        ("claude-code-main-thread.json", None),
        ("claude-code-bash.json", None),
        ("vscode-post-tool-use.json", None),
        ("copilot-cli-edit.json", None),
        ("gemini-cli-write-file.json", None),
        ("cursor-after-file-edit.json", None),
    ] {
        hook(&s, &s.path(""), &event(name, &worktree, &worktree.join("a")));
        let store = main.join(".isofold/patches");
        let found = fs::read_dir(&store).map_or(0, Iterator::count);
        match agent {
            Some(agent) => {
                let text = read(&store, format!("{agent}/changes.patch")).unwrap_or_else(|| panic!("{name}: no patch"));
                assert!(text.contains("+edited\n"), "{name}: {text}");
                done(&s, &main, &["drop", agent]);
            }
            None => assert_eq!(found, 0, "{name}"),
        }
    }
    // A relative path is one of the event's directory, and a file that is gone is an edit too.
    fs::remove_file(worktree.join("dir/c")).expect("removed");
    let event = json!({"agentId": "rel", "cwd": worktree.join("dir"), "tool_input": {"filePath": "c"}});
    hook(&s, &main, event.to_string().as_bytes());
    assert!(done(&s, &main, &["show", "rel"]).contains("deleted file mode"));
}

#[test]
fn other_events_do_nothing_and_never_fail() {
    let s = Sandbox::new();
    let (main, worktree) = pair(&s);
    let before = s.everything(&main);
    let input = json!({"file_path": worktree.join("a")});
    for event in [
        String::new(),
        "no JSON".to_owned(),
        "[]".to_owned(),
        "null".to_owned(),
        json!({"tool_input": input}).to_string(),
        json!({"agent_id": "", "tool_input": input}).to_string(),
        json!({"agent_id": 7, "tool_input": input}).to_string(),
        json!({"agent_id": "../x", "tool_input": input}).to_string(),
        json!({"agent_id": "a", "tool_input": {"command": "ls"}}).to_string(),
        json!({"agent_id": "a", "tool_input": null}).to_string(),
        json!({"agent_id": "a", "tool_input": {"file_path": "relative"}}).to_string(),
        // The main checkout, and no repository at all.
        json!({"agent_id": "a", "tool_input": {"file_path": main.join("a")}}).to_string(),
        json!({"agent_id": "a", "tool_input": {"file_path": s.path("home/x")}}).to_string(),
        json!({"agent_id": "a", "tool_input": {"file_path": "/no/such/place/x"}}).to_string(),
        "[".repeat(100_000),
    ] {
        hook(&s, &s.path(""), event.as_bytes());
        same(&s.everything(&main), &before, &event[..event.len().min(100)]);
    }
    // Nor does a store that can't be written, or an argument too many.
    write(&main, ".isofold", "a file\n");
    hook(&s, &main, json!({"agent_id": "a", "tool_input": input}).to_string().as_bytes());
    assert_eq!(s.isofold(["hook", "patch", "--nope"]).code, 0);
    assert_eq!(s.isofold(["-C", "/no/such/place", "hook", "patch"]).code, 0);
}

/// Runs a hook with an event; code, stdout, stderr.
fn worktree_hook(s: &Sandbox, directory: &Path, what: &str, event: &str) -> Run {
    let input = s.path("event");
    fs::write(&input, event).expect("written");
    let mut program = s.program();
    program.current_dir(directory).args(["hook", what]).stdin(fs::File::open(&input).expect("opened"));
    Run::of_command(&mut program)
}

#[test]
fn worktrees_for_agent_tools() {
    let s = Sandbox::new();
    let main = s.repo("main");
    write(&main, "a", lines(&[(1, "dirty")]));
    write(&main, ".env", "SECRET=1\n");
    let status = s.git(&main, &["status", "--porcelain"]);
    let event = String::from_utf8(self::event("claude-code-worktree-create.json", &main, &main)).expect("UTF-8");
    let run = worktree_hook(&s, &s.path(""), "worktree-create", &event);
    let worktree = main.join(".worktrees/isofold-bold-oak-a3f2");
    assert_eq!((run.code, run.stdout.as_str()), (0, format!("{}\n", worktree.display()).as_str()), "{run:?}");
    assert_eq!(s.git(&worktree, &["branch", "--show-current"]), "isofold/bold-oak-a3f2");
    assert_eq!(read(&worktree, "a"), Some(lines(&[(1, "dirty")])));
    assert!(!worktree.join(".env").exists());
    // Hidden, and its owner's alone.
    assert_eq!(s.git(&main, &["status", "--porcelain"]), status);
    assert!(read(&main, ".git/info/exclude").is_some_and(|text| text.lines().any(|line| line == ".worktrees/")));
    let mode = fs::metadata(main.join(".worktrees")).expect("a stat").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    // The same name again is refused; a second one does not hold the first.
    let run = worktree_hook(&s, &main, "worktree-create", &event);
    assert!(run.code == 1 && run.stdout.is_empty() && run.stderr.contains("already"), "{run:?}");
    let run = worktree_hook(&s, &main, "worktree-create", "\"second\"");
    let second = main.join(".worktrees/isofold-second");
    assert_eq!((run.code, run.stdout), (0, format!("{}\n", second.display())));
    assert!(!second.join(".worktrees/isofold-bold-oak-a3f2").exists());
    let run = worktree_hook(&s, &main, "worktree-create", "{}");
    assert_eq!(run.code, 0, "{run:?}");
    let run = worktree_hook(&s, &main, "worktree-remove", &json!({"worktree_path": run.stdout.trim_end()}).to_string());
    assert_eq!(run.code, 0, "{run:?}");
    // Untouched, it goes with its branch; with work, the work is saved.
    let run = worktree_hook(&s, &main, "worktree-remove", "{\"name\":\"second\"}");
    assert_eq!((run.code, run.stdout, run.stderr.as_str()), (0, format!("{}\n", second.display()), ""));
    assert_eq!(s.try_git(&main, &["rev-parse", "-q", "--verify", "isofold/second"]).0, 1);
    write(&worktree, "work", "work\n");
    s.commit_all(&worktree, "work");
    write(&worktree, "loose", "loose\n");
    let event = String::from_utf8(self::event("claude-code-worktree-remove.json", &main, &worktree)).expect("UTF-8");
    let run = worktree_hook(&s, &main, "worktree-remove", &event);
    assert_eq!((run.code, run.stdout), (0, format!("{}\n", worktree.display())));
    assert!(!worktree.exists() && run.stderr.contains("refs/isofold/saved/"), "{}", run.stderr);
    let saved = s.git(&main, &["for-each-ref", "--format=%(refname)", "refs/isofold/saved"]);
    for path in ["work", "loose"] {
        let holds = |name: &str| s.try_git(&main, &["show", &format!("{name}:{path}")]) == (0, path.to_owned());
        assert!(saved.lines().any(holds), "{path} is in none of {saved}");
    }
    assert_eq!(s.git(&main, &["status", "--porcelain"]), status);
    // Gone already, and other usage.
    for (what, event) in [
        ("worktree-remove", event.as_str()),
        ("worktree-create", "no JSON"),
        ("worktree-create", "{\"name\":\"../x\"}"),
        ("worktree-create", "{\"name\":\"a..b\"}"),
        ("worktree-remove", "{}"),
        ("worktree-remove", &json!({"worktree_path": main}).to_string()),
    ] {
        let run = worktree_hook(&s, &main, what, event);
        assert!(run.code == 2 && run.stdout.is_empty() && !run.stderr.is_empty(), "{event}: {run:?}");
    }
    assert_eq!(worktree_hook(&s, &s.path(""), "worktree-create", "\"x\"").code, 1);
}

#[test]
fn a_patch_of_changed_lines_is_checked_without_a_second_git() {
    let s = Sandbox::new();
    let (main, worktree) = pair(&s);
    let log = s.path("log");
    let log_all = format!("#!/bin/sh\necho \" $* \" >>{}\nexec GIT \"$@\"\n", text(&log));
    let forge = "#!/bin/sh\nGIT \"$@\" | sed 's/^+three$/+four/'\n".to_owned();
    let record = |name: &str, script: &str| {
        let mut command = s.command(env!("CARGO_BIN_EXE_isofold"));
        command.args(["-C", text(&worktree), "patch", "record", "--agent", "ag"]);
        command.env("PATH", with_git(&s, name, script)).output().expect("it runs")
    };
    let began = |word: &str| {
        let log = fs::read_to_string(&log).unwrap_or_default();
        log.lines().filter(|line| line.contains(&format!(" {word} "))).count()
    };
    write(&worktree, "a", lines(&[(3, "three"), (15, "fifteen")]));
    write(&worktree, "b", "no end");
    assert!(record("logging", &log_all).status.success());
    assert_eq!((began("diff-tree"), began("apply")), (1, 0));
    // More than lines is git's to apply.
    write(&worktree, "new", "new\n");
    assert!(record("logging", &log_all).status.success());
    assert_eq!((began("diff-tree"), began("apply")), (2, 1));
    // A patch that makes something else is not handed out, whoever finds it.
    let kept = read(&stored(&main), "changes.patch");
    for more_than_lines in [true, false] {
        if more_than_lines {
            write(&worktree, "newer", "newer\n");
        } else {
            fs::remove_file(worktree.join("new")).expect("removed");
            fs::remove_file(worktree.join("newer")).expect("removed");
        }
        let output = record("forging", &forge);
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && words.contains("does not reproduce the snapshot"), "{words}");
        assert_eq!(read(&stored(&main), "changes.patch"), kept);
    }
}
