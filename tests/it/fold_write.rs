//! What a fold writes: every kind of change, and everything that may stand in its way.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Run, Sandbox, entry, lines, listing, next_second, raw_name, read, write};

/// A Parent and its Child.
struct Pair {
    s: Sandbox,
    p: PathBuf,
    c: PathBuf,
}

impl Pair {
    /// The Parent is prepared before it is isolated.
    fn of(prepare: impl FnOnce(&Sandbox, &Path)) -> Self {
        let s = Sandbox::new();
        let p = s.repo("parent");
        prepare(&s, &p);
        let c = s.isolate(&p, "c");
        Self { s, p, c }
    }

    /// Prepared and committed.
    fn committed(prepare: impl FnOnce(&Path)) -> Self {
        Self::of(|s, p| {
            prepare(p);
            s.commit_all(p, "prepared");
        })
    }

    /// A fold that has to land, and to leave only `left` in the status.
    #[track_caller]
    fn fold(&self, left: &str) -> Run {
        let run = self.s.try_fold(&self.p, &self.c, &[]).expect("integrated", 0);
        assert_ne!(run.last()["landing"], "nothing", "{run:?}");
        self.s.settled(&self.p, left);
        run
    }

    /// A fold that has to conflict at `path` and to change nothing.
    #[track_caller]
    fn conflict(&self, path: &str, kind: &str) {
        let before = (self.s.state(&self.p), self.s.state(&self.c));
        let run = self.s.try_fold(&self.p, &self.c, &[]).expect("conflict", 1);
        let last = run.last();
        let found = last["conflicts"].as_array().expect("a list");
        assert!(found.iter().any(|c| c["path"] == path && c["kind"] == kind), "{found:?}");
        assert_eq!((self.s.state(&self.p), self.s.state(&self.c)), before);
        self.s.try_fold(&self.p, &self.c, &["--dry-run"]).expect("conflict", 1);
    }
}

const IN_THE_WAY: &str = "file in the way";

fn chmod(directory: &Path, path: &str, mode: u32) {
    fs::set_permissions(directory.join(path), fs::Permissions::from_mode(mode)).expect("chmod");
}

fn gone(directory: &Path, path: impl AsRef<Path>) {
    fs::remove_file(directory.join(path)).expect("removed");
}

fn link(directory: &Path, target: &str, path: &str) {
    let full = directory.join(path);
    fs::create_dir_all(full.parent().expect("a parent")).expect("directories");
    symlink(target, full).expect("a link");
}

fn not_folded(run: &Run) -> Vec<(String, String)> {
    let last = run.last();
    let text = |v: &Value| v.as_str().expect("text").to_owned();
    last["not_folded"].as_array().expect("a list").iter().map(|n| (text(&n["path"]), text(&n["why"]))).collect()
}

#[test]
fn only_the_mode_changes() {
    let t = Pair::committed(|p| {
        write(p, "run", "#!/bin/sh\n");
        write(p, "stop", "#!/bin/sh\n");
        chmod(p, "stop", 0o755);
    });
    chmod(&t.c, "run", 0o755);
    chmod(&t.c, "stop", 0o644);
    let run = t.fold("");
    assert_eq!(run.last()["changed"], json!(["run", "stop"]));
    assert_eq!(entry(&t.p.join("run")), Some(('x', b"#!/bin/sh\n".to_vec())));
    assert_eq!(entry(&t.p.join("stop")), Some(('-', b"#!/bin/sh\n".to_vec())));
}

#[test]
fn one_side_changes_the_mode_the_other_the_text() {
    let t = Pair::committed(|p| write(p, "run", lines(&[])));
    chmod(&t.p, "run", 0o755);
    write(&t.c, "run", lines(&[(3, "c")]));
    t.fold("");
    assert_eq!(entry(&t.p.join("run")), Some(('x', lines(&[(3, "c")]).into_bytes())));
}

#[test]
fn file_modes_that_git_ignores_do_not_count() {
    let t = Pair::of(|s, p| s.git(p, &["config", "core.fileMode", "false"]).clear());
    chmod(&t.p, "a", 0o755);
    write(&t.c, "a", lines(&[(3, "c")]));
    let run = t.s.try_fold(&t.p, &t.c, &[]).expect("integrated", 0);
    assert_eq!(run.last()["changed"], json!(["a"]));
    assert_eq!(read(&t.p, "a"), Some(lines(&[(3, "c")])));
    assert_eq!(t.s.git(&t.p, &["status", "--porcelain"]), "");
}

#[test]
fn links_come_change_and_go() {
    let t = Pair::committed(|p| {
        link(p, "a", "stays");
        link(p, "a", "moves");
        link(p, "a", "goes");
        link(p, "a", "becomes-file");
        write(p, "becomes-link", "text\n");
        link(p, "dir", "to-dir");
    });
    for path in ["moves", "goes", "becomes-file", "becomes-link"] {
        gone(&t.c, path);
    }
    link(&t.c, "b", "moves");
    link(&t.c, "/nowhere/at all", "deep/comes");
    write(&t.c, "becomes-file", "a file\n");
    link(&t.c, "dir/c", "becomes-link");
    t.fold("");
    assert_eq!(entry(&t.p.join("moves")), Some(('l', b"b".to_vec())));
    assert_eq!(entry(&t.p.join("deep/comes")), Some(('l', b"/nowhere/at all".to_vec())));
    assert_eq!(entry(&t.p.join("becomes-file")), Some(('-', b"a file\n".to_vec())));
    assert_eq!(entry(&t.p.join("becomes-link")), Some(('l', b"dir/c".to_vec())));
    assert_eq!(entry(&t.p.join("goes")), None);
    // What links led to is untouched.
    assert_eq!((read(&t.p, "a"), read(&t.p, "dir/c").as_deref()), (Some(lines(&[])), Some("c\n")));
}

#[test]
fn a_link_to_a_directory_and_a_directory_change_places() {
    let t = Pair::committed(|p| {
        link(p, "dir", "was-link");
        write(p, "was-dir/x", "x\n");
        write(p, "was-dir/y/z", "z\n");
    });
    gone(&t.c, "was-link");
    write(&t.c, "was-link/c", "own\n");
    fs::remove_dir_all(t.c.join("was-dir")).expect("removed");
    link(&t.c, "dir", "was-dir");
    t.fold("");
    assert_eq!(read(&t.p, "was-link/c").as_deref(), Some("own\n"));
    assert_eq!(read(&t.p, "dir/c").as_deref(), Some("c\n"), "never written through the link");
    assert_eq!(entry(&t.p.join("was-dir")), Some(('l', b"dir".to_vec())));
}

#[test]
fn files_and_directories_change_places() {
    let t = Pair::committed(|p| {
        write(p, "f", "file\n");
        write(p, "d/e/f/g", "deep\n");
        write(p, "d/h", "h\n");
        write(p, "d/e/i", "i\n");
    });
    gone(&t.c, "f");
    write(&t.c, "f/one", "1\n");
    write(&t.c, "f/two/three", "3\n");
    fs::remove_dir_all(t.c.join("d")).expect("removed");
    write(&t.c, "d", "now a file\n");
    t.fold("");
    assert_eq!(read(&t.p, "f/two/three").as_deref(), Some("3\n"));
    assert_eq!(read(&t.p, "d").as_deref(), Some("now a file\n"));
    // And back.
    gone(&t.c, "d");
    write(&t.c, "d/e", "e is a file now\n");
    fs::remove_dir_all(t.c.join("f")).expect("removed");
    write(&t.c, "f", "file again\n");
    t.fold("");
    assert_eq!(read(&t.p, "d/e").as_deref(), Some("e is a file now\n"));
    assert_eq!(read(&t.p, "f").as_deref(), Some("file again\n"));
}

#[test]
fn deletions_take_empty_directories_and_no_others() {
    let t = Pair::committed(|p| {
        write(p, "deep/one/two/file", "1\n");
        write(p, "deep/one/file", "2\n");
        write(p, "keeps/x/file", "3\n");
        write(p, "holds/file", "4\n");
    });
    write(&t.p, "keeps/x/build.log", "ignored\n");
    fs::create_dir_all(t.p.join("holds/empty")).expect("a directory");
    for path in ["deep", "keeps", "holds"] {
        fs::remove_dir_all(t.c.join(path)).expect("removed");
    }
    t.fold("");
    assert!(!t.p.join("deep").exists());
    assert_eq!(read(&t.p, "keeps/x/build.log").as_deref(), Some("ignored\n"));
    assert!(!t.p.join("keeps/x/file").exists());
    assert!(t.p.join("holds/empty").is_dir() && !t.p.join("holds/file").exists());
}

#[test]
fn files_that_do_not_differ_are_not_touched() {
    let t = Pair::of(|_, p| {
        write(p, "mine", "mine\n");
        write(p, "x.log", "ignored\n");
    });
    write(&t.p, "b", lines(&[(3, "p")]));
    write(&t.c, "a", lines(&[(3, "c")]));
    write(&t.c, "new/file", "n\n");
    let rows = |text: &str| {
        let own = |l: &&str| !l.starts_with("a ") && !l.starts_with("new");
        text.lines().filter(own).map(str::to_owned).collect::<Vec<_>>()
    };
    let before = rows(&listing(&t.p));
    let run = t.fold("");
    assert_eq!(rows(&listing(&t.p)), before);
    assert_eq!(run.last()["changed"], json!(["a", "new/file"]));
}

#[test]
fn nothing_of_ours_is_left_behind() {
    let t = Pair::of(|_, _| {});
    write(&t.c, "a", lines(&[(3, "c")]));
    t.fold("");
    let names = |directory: &Path| -> Vec<String> {
        let read = fs::read_dir(directory).expect("readable");
        let mut names: Vec<String> =
            read.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&t.p), [".git", ".gitignore", "a", "b", "dir"]);
    let strange: Vec<String> =
        names(&t.p.join(".git")).into_iter().filter(|n| n.contains("stage") || n.contains(".lock")).collect();
    assert!(strange.is_empty(), "{strange:?}");
    assert_eq!(t.s.git(&t.p, &["count-objects", "-v"]).lines().find(|l| l.starts_with("garbage")), Some("garbage: 0"));
}

// What stands in the way.

#[test]
fn an_ignored_file_in_the_way() {
    let t = Pair::of(|_, _| {});
    write(&t.p, "x.log", "the Parent's\n");
    write(&t.c, "x.log", "the Child's\n");
    t.s.git(&t.c, &["add", "-f", "x.log"]);
    t.conflict("x.log", IN_THE_WAY);
    t.s.git(&t.c, &["commit", "-q", "-m", "x"]);
    t.conflict("x.log", IN_THE_WAY);
}

#[test]
fn a_left_out_file_in_the_way() {
    let t = Pair::of(|_, p| write(p, ".env", "SECRET=1\n"));
    write(&t.c, ".env", "SECRET=2\n");
    t.conflict(".env", IN_THE_WAY);
}

#[test]
fn an_untracked_file_in_the_way_is_the_parents_loose_work() {
    let t = Pair::of(|_, _| {});
    write(&t.p, "new", "the Parent's\n");
    write(&t.c, "new", "the Child's\n");
    t.conflict("new", "contents");
}

#[test]
fn the_same_content_in_the_way_is_fine() {
    let t = Pair::of(|_, p| write(p, ".env", "SECRET=1\n"));
    write(&t.p, "x.log", "same\n");
    write(&t.c, "x.log", "same\n");
    write(&t.c, ".env", "SECRET=1\n");
    write(&t.c, "a", lines(&[(3, "c")]));
    t.s.git(&t.c, &["add", "-f", "x.log"]);
    let ours = |l: &&str| l.starts_with("x.log") || l.starts_with(".env");
    let rows = |text: String| text.lines().filter(ours).map(str::to_owned).collect::<Vec<_>>();
    let before = rows(listing(&t.p));
    assert_eq!(before.len(), 2);
    t.fold("");
    assert_eq!(rows(listing(&t.p)), before, "not even rewritten");
}

#[test]
fn the_same_content_with_another_mode_in_the_way() {
    let t = Pair::of(|_, _| {});
    write(&t.p, "x.log", "same\n");
    write(&t.c, "x.log", "same\n");
    chmod(&t.c, "x.log", 0o755);
    t.s.git(&t.c, &["add", "-f", "x.log"]);
    t.conflict("x.log", IN_THE_WAY);
}

#[test]
fn an_ignored_file_inside_a_directory_that_must_become_a_file() {
    let t = Pair::of(|_, _| {});
    write(&t.p, "dir/sub/build.log", "ignored\n");
    fs::remove_dir_all(t.c.join("dir")).expect("removed");
    write(&t.c, "dir", "a file\n");
    t.conflict("dir/sub/build.log", IN_THE_WAY);
}

#[test]
fn an_ignored_directory_where_a_file_must_come() {
    let t = Pair::of(|_, _| {});
    write(&t.p, "ignored/deep/file", "ignored\n");
    write(&t.c, "ignored", "a file\n");
    t.s.git(&t.c, &["add", "-f", "ignored"]);
    t.conflict("ignored/deep/file", IN_THE_WAY);
}

#[test]
fn empty_directories_make_room_for_a_file() {
    let t = Pair::of(|_, _| {});
    fs::create_dir_all(t.p.join("ignored/deep/er")).expect("directories");
    fs::create_dir_all(t.p.join("ignored/wide")).expect("directories");
    write(&t.c, "ignored", "a file\n");
    t.s.git(&t.c, &["add", "-f", "ignored"]);
    t.fold("");
    assert_eq!(read(&t.p, "ignored").as_deref(), Some("a file\n"));
}

#[test]
fn a_file_where_a_directory_must_come() {
    let t = Pair::of(|_, _| {});
    write(&t.p, "out.log", "ignored\n");
    write(&t.c, "out.log/x", "x\n");
    t.s.git(&t.c, &["add", "-f", "out.log/x"]);
    t.conflict("out.log", IN_THE_WAY);
}

#[test]
fn an_ignored_link_where_a_directory_must_come() {
    let t = Pair::of(|_, _| {});
    fs::create_dir(t.s.path("outside")).expect("a directory");
    link(&t.p, t.s.path("outside").to_str().expect("UTF-8"), "out.log");
    write(&t.c, "out.log/x", "x\n");
    t.s.git(&t.c, &["add", "-f", "out.log/x"]);
    t.conflict("out.log", IN_THE_WAY);
    assert_eq!(fs::read_dir(t.s.path("outside")).expect("readable").count(), 0, "never written through the link");
}

#[test]
fn a_fifo_in_the_way() {
    let t = Pair::of(|_, _| {});
    let made = t.s.command("mkfifo").arg(t.p.join("x.log")).status().expect("mkfifo runs");
    assert!(made.success());
    write(&t.c, "x.log", "x\n");
    t.s.git(&t.c, &["add", "-f", "x.log"]);
    t.conflict("x.log", IN_THE_WAY);
}

// Flags and the index.

#[test]
fn flags_of_entries_are_kept() {
    for (flag, tag) in [("--skip-worktree", "S "), ("--assume-unchanged", "h ")] {
        let t = Pair::of(|_, _| {});
        t.s.git(&t.p, &["update-index", flag, "a", "b"]);
        write(&t.c, "a", lines(&[(3, "c")]));
        t.fold("");
        assert_eq!(read(&t.p, "a"), Some(lines(&[(3, "c")])), "{flag}");
        let rows = t.s.git(&t.p, &["ls-files", "-v"]);
        assert!(rows.contains(&format!("{tag}a")) && rows.contains(&format!("{tag}b")), "{flag}: {rows}");
        assert!(rows.contains("H dir/c"));
    }
}

#[test]
fn an_edited_flagged_file_is_not_overwritten() {
    for flag in ["--skip-worktree", "--assume-unchanged"] {
        for same_size in [false, true] {
            let t = Pair::of(|_, _| {});
            t.s.git(&t.p, &["update-index", flag, "a"]);
            write(&t.p, "a", lines(&[(3, if same_size { "L3" } else { "local setting" })]));
            write(&t.c, "a", lines(&[(9, "c")]));
            t.conflict("a", IN_THE_WAY);
            gone(&t.c, "a");
            t.conflict("a", IN_THE_WAY);
        }
    }
}

#[test]
fn an_edited_flagged_file_stays_when_the_child_leaves_it_alone() {
    for flag in ["--skip-worktree", "--assume-unchanged"] {
        let t = Pair::of(|_, _| {});
        t.s.git(&t.p, &["update-index", flag, "a"]);
        write(&t.p, "a", lines(&[(3, "local setting")]));
        write(&t.c, "b", lines(&[(9, "c")]));
        let run = t.s.try_fold(&t.p, &t.c, &[]).expect("integrated", 0);
        assert_eq!(read(&t.p, "a"), Some(lines(&[(3, "local setting")])), "{flag}");
        assert_eq!(read(&t.p, "b"), Some(lines(&[(9, "c")])));
        assert_eq!(not_folded(&run), [("a".to_owned(), format!("edited, but marked {}", &flag[2..]))]);
        assert_eq!(t.s.git(&t.p, &["status", "--porcelain"]), "");
        assert_eq!(t.s.git(&t.p, &["show", "HEAD:a"]), lines(&[]).trim_end());
    }
}

#[test]
fn the_childs_edit_of_a_flagged_file_is_named() {
    let t = Pair::of(|s, p| s.git(p, &["update-index", "--skip-worktree", "a"]).clear());
    write(&t.c, "a", lines(&[(3, "not seen")]));
    write(&t.c, "b", lines(&[(9, "c")]));
    let run = t.fold("");
    assert_eq!(not_folded(&run), [("a".to_owned(), "edited, but marked skip-worktree".to_owned())]);
    assert_eq!(read(&t.p, "a"), Some(lines(&[])));
}

#[test]
fn a_sparse_parent_gets_no_files_outside_its_cone() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    write(&p, "other/o", lines(&[]));
    write(&p, "other/gone", "gone\n");
    s.commit_all(&p, "other");
    s.git(&p, &["sparse-checkout", "set", "dir"]);
    assert!(!p.join("other").exists());
    let c = s.isolate(&p, "c");
    assert!(!c.join("other").exists());
    s.git(&c, &["sparse-checkout", "disable"]);
    write(&c, "other/o", lines(&[(3, "c")]));
    gone(&c, "other/gone");
    write(&c, "dir/c", "in the cone\n");
    assert!(!p.join("other").exists(), "the Child's setting is its own");
    assert_eq!(s.fold(&p, &c), "fast-forward");
    assert!(!p.join("other").exists());
    assert_eq!(read(&p, "dir/c").as_deref(), Some("in the cone\n"));
    assert_eq!(s.git(&p, &["write-tree"]), s.git(&p, &["rev-parse", "HEAD^{tree}"]));
    assert_eq!(s.git(&p, &["status", "--porcelain"]), "");
    assert_eq!(s.git(&p, &["ls-files", "-v", "other"]), "S other/o");
    assert_eq!(s.git(&p, &["show", "HEAD:other/o"]), lines(&[(3, "c")]).trim_end());
}

#[test]
fn a_sparse_child_deletes_nothing_outside_its_cone() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    write(&p, "other/o", lines(&[]));
    s.commit_all(&p, "other");
    let c = s.isolate(&p, "c");
    // git keeps files on the disk whose stat data it has not compared yet.
    s.git(&c, &["update-index", "-q", "--refresh"]);
    s.git(&c, &["sparse-checkout", "set", "dir"]);
    assert!(!c.join("other").exists());
    assert_eq!(s.fold(&p, &c), "nothing");
    write(&c, "dir/c", "in the cone\n");
    s.fold(&p, &c);
    assert_eq!(read(&p, "other/o"), Some(lines(&[])));
    s.settled(&p, "");
}

#[test]
fn intent_to_add_on_both_sides() {
    let t = Pair::of(|s, p| {
        write(p, "mine", "mine\n");
        s.git(p, &["add", "-N", "mine"]);
    });
    write(&t.c, "theirs", "theirs\n");
    t.s.git(&t.c, &["add", "-N", "theirs"]);
    write(&t.c, "mine", "mine, edited\n");
    t.fold("");
    assert_eq!(
        (read(&t.p, "mine").as_deref(), read(&t.p, "theirs").as_deref()),
        (Some("mine, edited\n"), Some("theirs\n"))
    );
}

#[test]
fn staged_work_on_both_sides() {
    let t = Pair::of(|s, p| {
        write(p, "a", lines(&[(3, "staged")]));
        write(p, "mine", "staged\n");
        s.git(p, &["add", "a", "mine"]);
        write(p, "a", lines(&[(3, "staged"), (5, "and not")]));
    });
    write(&t.c, "b", lines(&[(3, "c staged")]));
    write(&t.c, "theirs", "staged\n");
    t.s.git(&t.c, &["add", "-A"]);
    write(&t.c, "b", lines(&[(3, "c staged"), (5, "and not")]));
    t.fold("");
    assert_eq!(read(&t.p, "a"), Some(lines(&[(3, "staged"), (5, "and not")])));
    assert_eq!(read(&t.p, "b"), Some(lines(&[(3, "c staged"), (5, "and not")])));
}

#[test]
fn a_staged_removal_counts_where_the_path_is_gone_or_ignored() {
    let t = Pair::of(|s, p| {
        write(p, "kept.log", "tracked though ignored\n");
        write(p, "here", "here\n");
        s.git(p, &["add", "-f", "kept.log", "here"]);
        s.git(p, &["commit", "-q", "-m", "kept"]);
    });
    t.s.git(&t.c, &["rm", "-q", "--cached", "kept.log", "here"]);
    t.s.git(&t.c, &["rm", "-q", "b"]);
    t.fold("");
    assert_eq!(t.s.git(&t.p, &["ls-files"]), ".gitignore\na\ndir/c\nhere");
    assert!(!t.p.join("b").exists() && !t.p.join("kept.log").exists());
}

#[test]
fn a_tracked_file_that_is_ignored_is_still_folded() {
    let t = Pair::of(|s, p| {
        write(p, "kept.log", "tracked though ignored\n");
        s.git(p, &["add", "-f", "kept.log"]);
        s.git(p, &["commit", "-q", "-m", "kept"]);
    });
    write(&t.c, "kept.log", "edited\n");
    write(&t.c, "other.log", "ignored\n");
    t.fold("");
    assert_eq!((read(&t.p, "kept.log").as_deref(), read(&t.p, "other.log")), (Some("edited\n"), None));
}

// As git checks out.

#[test]
fn line_endings_and_idents_are_written_as_git_checks_them_out() {
    let t = Pair::committed(|p| {
        write(p, ".gitattributes", "*.txt text eol=crlf\n*.id ident\n*.bin -text\n");
        write(p, "one.txt", "1\r\n2\r\n");
        write(p, "stays.txt", "1\r\n2\r\n");
        write(p, "x.id", "$Id$\nx\n");
        write(p, "x.bin", "1\r\n2\n");
    });
    write(&t.c, "one.txt", "1\r\n2\r\n3\r\n");
    write(&t.c, "deep/new.txt", "new\r\n");
    write(&t.c, "x.id", "$Id$\nxy\n");
    write(&t.c, "x.bin", "1\r\n2\n3\r");
    let run = t.fold("");
    assert_eq!(run.last()["changed"], json!(["deep/new.txt", "one.txt", "x.bin", "x.id"]));
    assert_eq!(read(&t.p, "one.txt").as_deref(), Some("1\r\n2\r\n3\r\n"));
    assert_eq!(read(&t.p, "deep/new.txt").as_deref(), Some("new\r\n"));
    assert_eq!(t.s.git(&t.p, &["cat-file", "-p", "HEAD:one.txt"]), "1\n2\n3");
    assert!(read(&t.p, "x.id").expect("there").starts_with("$Id: "));
    // An expanded ident is no edit of the Parent's.
    write(&t.c, "x.id", "$Id$\nxyz\n");
    t.fold("");
    assert!(read(&t.p, "x.id").expect("there").ends_with("xyz\n"));
}

#[test]
fn attributes_that_come_with_the_fold_count() {
    let t = Pair::committed(|p| write(p, "old.txt", "1\n2\n"));
    write(&t.c, "sub/.gitattributes", "*.txt eol=crlf\n");
    write(&t.c, "sub/new.txt", "1\r\n2\r\n");
    write(&t.c, "old.txt", "1\n2\n3\n");
    t.fold("");
    assert_eq!(read(&t.p, "sub/new.txt").as_deref(), Some("1\r\n2\r\n"));
    assert_eq!(read(&t.p, "old.txt").as_deref(), Some("1\n2\n3\n"));
}

#[test]
fn a_filter_driver_cleans_and_smudges() {
    let rot = |text: &str| -> String {
        let turn = |c: char| match c {
            'a'..='m' => (c as u8 + 13) as char,
            'n'..='z' => (c as u8 - 13) as char,
            _ => c,
        };
        text.chars().map(turn).collect()
    };
    let t = Pair::of(|s, p| {
        s.git(p, &["config", "filter.rot13.clean", "tr a-z n-za-m"]);
        s.git(p, &["config", "filter.rot13.smudge", "tr a-z n-za-m"]);
        s.git(p, &["config", "filter.rot13.required", "true"]);
        write(p, ".gitattributes", "*.rot filter=rot13\n");
        write(p, "x.rot", "hello\n");
        write(p, "dirty.rot", "clean\n");
        s.commit_all(p, "rot");
        write(p, "dirty.rot", "dirty\n");
    });
    assert_eq!(t.s.git(&t.p, &["cat-file", "-p", "HEAD:x.rot"]), rot("hello"));
    write(&t.c, "x.rot", "hello world\n");
    write(&t.c, "new.rot", "new\n");
    t.fold("");
    assert_eq!(read(&t.p, "x.rot").as_deref(), Some("hello world\n"));
    assert_eq!(read(&t.p, "new.rot").as_deref(), Some("new\n"));
    assert_eq!(read(&t.p, "dirty.rot").as_deref(), Some("dirty\n"));
    assert_eq!(t.s.git(&t.p, &["cat-file", "-p", "HEAD:new.rot"]), rot("new"));
    // Folded over: what stands there is known by what git would store for it.
    next_second();
    t.s.git(&t.p, &["update-index", "--refresh", "-q"]);
    write(&t.c, "dirty.rot", "dirty and more\n");
    gone(&t.c, "x.rot");
    t.fold("");
    assert_eq!((read(&t.p, "dirty.rot").as_deref(), read(&t.p, "x.rot")), (Some("dirty and more\n"), None));
}

#[test]
fn filtered_files_may_have_any_name() {
    let names = [
        &b"\"quoted.txt"[..],
        b"\"both\".txt",
        b"new\nline.txt",
        b"back\\slash.txt",
        b"r\r.txt",
        b"\xff.txt",
        b" .txt",
        b"cr\r",
    ];
    let t = Pair::committed(|p| {
        write(p, ".gitattributes", "*.txt text eol=crlf\ncr* text eol=crlf\n");
        for name in names {
            write(p, raw_name(name), "1\r\n2\r\n");
        }
    });
    for (n, name) in names.iter().enumerate() {
        match n % 2 {
            0 => gone(&t.c, raw_name(name)),
            _ => write(&t.c, raw_name(name), "1\r\n2\r\n3\r\n"),
        }
    }
    t.fold("");
}

#[test]
fn a_smudge_filter_that_fails_leaves_the_parent_as_it_was() {
    let t = Pair::of(|s, p| {
        s.git(p, &["config", "filter.bad.clean", "cat"]);
        s.git(p, &["config", "filter.bad.smudge", "false"]);
        s.git(p, &["config", "filter.bad.required", "true"]);
        write(p, ".gitattributes", "*.bad filter=bad\n");
        s.commit_all(p, "bad");
    });
    write(&t.c, "a", lines(&[(3, "c")]));
    write(&t.c, "x.bad", "x\n");
    let before = t.s.state(&t.p);
    t.s.try_fold(&t.p, &t.c, &[]).expect("failed", 3);
    assert_eq!(t.s.state(&t.p), before);
}

#[test]
fn crlf_with_autocrlf() {
    let t = Pair::of(|s, p| {
        s.git(p, &["config", "core.autocrlf", "true"]);
        write(p, "w", lines(&[]).replace('\n', "\r\n"));
        s.commit_all(p, "crlf");
    });
    assert_eq!(t.s.git(&t.p, &["cat-file", "-p", "HEAD:w"]), lines(&[]).trim_end());
    write(&t.c, "w", lines(&[(3, "c")]).replace('\n', "\r\n"));
    write(&t.c, "new", "1\r\n2\r\n");
    write(&t.p, "w", lines(&[(15, "p")]).replace('\n', "\r\n"));
    t.fold_ignoring_endings();
    assert_eq!(read(&t.p, "w"), Some(lines(&[(3, "c"), (15, "p")]).replace('\n', "\r\n")));
    assert_eq!(read(&t.p, "new").as_deref(), Some("1\r\n2\r\n"));
    assert_eq!(t.s.git(&t.p, &["cat-file", "-p", "HEAD:new"]), "1\n2");
}

impl Pair {
    /// A fold in a repository with files that a fresh checkout would give other line endings.
    #[track_caller]
    fn fold_ignoring_endings(&self) {
        self.s.try_fold(&self.p, &self.c, &[]).expect("integrated", 0);
        assert_eq!(self.s.git(&self.p, &["status", "--porcelain"]), "");
        assert_eq!(self.s.git(&self.p, &["write-tree"]), self.s.git(&self.p, &["rev-parse", "HEAD^{tree}"]));
    }
}

// What is folded and what is not.

#[test]
fn a_new_ignore_rule_does_not_take_a_file_of_the_base_out() {
    let t = Pair::of(|_, p| {
        write(p, "notes.txt", "given untracked\n");
        write(p, "gone.txt", "given untracked\n");
    });
    write(&t.c, ".gitignore", "*.log\nignored/\n*.txt\n");
    write(&t.c, "notes.txt", "edited\n");
    write(&t.c, "own.txt", "new, and ignored by the new rule\n");
    gone(&t.c, "gone.txt");
    t.fold("");
    assert_eq!(read(&t.p, "notes.txt").as_deref(), Some("edited\n"));
    assert_eq!((read(&t.p, "gone.txt"), read(&t.p, "own.txt")), (None, None));
    // And the next time too.
    write(&t.c, "notes.txt", "edited again\n");
    t.fold("");
    assert_eq!(read(&t.p, "notes.txt").as_deref(), Some("edited again\n"));
}

#[test]
fn a_new_excluded_path_of_the_child_is_folded_and_named() {
    let t = Pair::of(|_, _| {});
    write(&t.c, "service/.env", "PORT=1\n");
    write(&t.c, "a", lines(&[(3, "c")]));
    let run = t.fold("");
    assert_eq!(run.last()["excluded_but_folded"], json!(["service/.env"]));
    assert_eq!(read(&t.p, "service/.env").as_deref(), Some("PORT=1\n"));
}

#[test]
fn a_left_out_file_never_enters_history() {
    let t = Pair::of(|_, p| {
        write(p, ".env", "SECRET=1\n");
        write(p, "deep/.env.local", "SECRET=2\n");
        write(p, "a", lines(&[(3, "dirty")]));
    });
    write(&t.c, "b", lines(&[(3, "c")]));
    let run = t.fold("?? .env\n?? deep/");
    assert_eq!(run.last()["left_out"], json!([".env", "deep/.env.local"]));
    let text = |path| read(&t.p, path);
    assert_eq!((text(".env").as_deref(), text("deep/.env.local").as_deref()), (Some("SECRET=1\n"), Some("SECRET=2\n")));
    // Not in any object either, reachable or not.
    let objects = t.s.git(&t.p, &["cat-file", "--batch-all-objects", "--batch-check"]);
    let secret = t.s.git(&t.p, &["hash-object", ".env"]);
    assert!(!objects.contains(&secret));
}

#[test]
fn a_tracked_excluded_file_is_folded_like_any_other() {
    let t = Pair::committed(|p| write(p, ".env", "PORT=1\n"));
    assert_eq!(read(&t.c, ".env").as_deref(), Some("PORT=1\n"));
    write(&t.c, ".env", "PORT=2\n");
    write(&t.p, "a", lines(&[(3, "p")]));
    let run = t.fold("");
    assert_eq!(read(&t.p, ".env").as_deref(), Some("PORT=2\n"));
    assert_eq!((&run.last()["left_out"], &run.last()["excluded_but_folded"]), (&json!([]), &json!([])));
}

#[test]
fn nested_repositories_are_named_and_not_staged() {
    for born in [false, true] {
        for in_child in [false, true] {
            let t = Pair::of(|_, _| {});
            let side = if in_child { &t.c } else { &t.p };
            let nested = side.join("deep/nested");
            fs::create_dir_all(&nested).expect("a directory");
            t.s.git(&nested, &["init", "-q"]);
            write(&nested, "inner", "inner\n");
            if born {
                t.s.git(&nested, &["config", "user.name", "N"]);
                t.s.git(&nested, &["config", "user.email", "n@example.test"]);
                t.s.commit_all(&nested, "inner");
            }
            write(&t.c, "a", lines(&[(3, "c")]));
            write(&t.c, "deep/beside", "beside\n");
            let left = if in_child { "" } else { "?? deep/nested/" };
            let run = t.fold(left);
            let expected = [("deep/nested".to_owned(), "nested repository".to_owned())];
            assert_eq!(not_folded(&run), expected, "born {born}, in the Child {in_child}");
            assert!(!t.s.git(&t.p, &["ls-tree", "-r", "--name-only", "HEAD"]).contains("nested"));
            assert_eq!(read(side, "deep/nested/inner").as_deref(), Some("inner\n"));
            assert_eq!(read(&t.p, "deep/beside").as_deref(), Some("beside\n"));
        }
    }
}

#[test]
fn worktrees_inside_the_parent_and_our_own_notes_are_no_part_of_it() {
    let t = Pair::of(|s, p| {
        s.git(p, &["worktree", "add", "-q", "-b", "inner", "trees/inner"]);
        write(&p.join("trees/inner"), "a", lines(&[(3, "of the inner one")]));
        write(p, ".isofold/notes", "notes\n");
    });
    assert!(!t.c.join("trees/inner").exists() && !t.c.join(".isofold").exists());
    write(&t.c, ".isofold/own", "own\n");
    write(&t.c, "a", lines(&[(3, "c")]));
    let run = t.fold("?? .isofold/\n?? trees/");
    assert!(not_folded(&run).is_empty());
    assert_eq!(read(&t.p, "trees/inner/a"), Some(lines(&[(3, "of the inner one")])));
    assert_eq!(t.s.git(&t.p, &["ls-files"]), ".gitignore\na\nb\ndir/c");
    assert_eq!(read(&t.p, ".isofold/own"), None);
}

#[test]
fn a_changed_options_file_is_named() {
    let t = Pair::of(|_, _| {});
    write(&t.c, "isolationOptions.toml", "exclude = []\n");
    assert_eq!(t.fold("").last()["options_changed"], true);
    write(&t.c, "a", lines(&[(3, "c")]));
    assert_eq!(t.fold("").last()["options_changed"], false);
}

#[test]
fn a_great_many_left_out_files() {
    let t = Pair::of(|_, p| {
        write(p, "isolationOptions.toml", "exclude = [\"cache\"]\n");
        write(p, "cache/tracked", "tracked\n");
    });
    t.s.commit_all(&t.p, "cache");
    let long = "a-name-of-some-length".repeat(8);
    for n in 0..20_000 {
        write(&t.p, format!("cache/d{}/{long}-{n}", n % 50), "x");
    }
    write(&t.p, "cache/tracked", "edited\n");
    write(&t.c, "a", lines(&[(3, "c")]));
    let run = t.s.try_fold(&t.p, &t.c, &[]).expect("integrated", 0);
    assert_eq!(run.last()["left_out"].as_array().expect("a list").len(), 20_000);
    assert_eq!(t.s.git(&t.p, &["status", "--porcelain", "-uno"]), "");
    assert_eq!(t.s.git(&t.p, &["show", "HEAD:cache/tracked"]), "edited");
}

// Names, sizes, numbers.

#[test]
fn names_of_every_kind() {
    let names: Vec<PathBuf> = vec![
        raw_name(b"not-utf8-\xff\xfe"),
        raw_name(b"dir-\xc3\x28/file \xf0"),
        "new\nline".into(),
        "tab\there".into(),
        "quote\"and'".into(),
        " leading and trailing ".into(),
        "back\\slash".into(),
        ":(exclude)magic".into(),
        "-dash".into(),
        "star*[x]?".into(),
        "!bang".into(),
        "#hash".into(),
        "umlaut-ü".into(),
    ];
    let t = Pair::committed(|p| {
        for name in &names {
            write(p, name, "one\n");
        }
    });
    for (n, name) in names.iter().enumerate() {
        match n % 3 {
            0 => gone(&t.c, name),
            _ => write(&t.c, name, "two\n"),
        }
    }
    t.fold("");
}

#[test]
fn contents_of_every_kind() {
    let t = Pair::committed(|p| {
        write(p, "empty", "");
        write(p, "fills", "");
        write(p, "empties", "text\n");
        write(p, "open-end", "no newline");
        write(p, "binary", [0, 159, 146, 150, 10, 13, 0]);
    });
    write(&t.c, "new-empty", "");
    write(&t.c, "fills", "text\n");
    write(&t.c, "empties", "");
    write(&t.c, "open-end", "no newline still");
    write(&t.c, "binary", [0, 159, 10, 13, 13, 10, 255]);
    let mut state = 1_u64;
    let huge: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_le_bytes()[7]
    })
    .take(40 << 20)
    .collect();
    write(&t.c, "huge", &huge);
    t.fold("");
    assert_eq!(read(&t.p, "open-end").as_deref(), Some("no newline still"));
    assert_eq!(entry(&t.p.join("new-empty")), Some(('-', Vec::new())));
    assert!(entry(&t.p.join("huge")).is_some_and(|(_, content)| content == huge));
}

#[test]
fn hundreds_of_files() {
    let t = Pair::committed(|p| {
        for n in 0..300 {
            write(p, format!("d{}/f{n}", n % 7), format!("{n}\n"));
        }
    });
    for n in 0..300 {
        let path = format!("d{}/f{n}", n % 7);
        match n % 4 {
            0 => gone(&t.c, &path),
            1 => write(&t.c, &path, "changed\n"),
            2 => write(&t.c, format!("new{}/g{n}", n % 5), "new\n"),
            _ => chmod(&t.c, &path, 0o755),
        }
    }
    let run = t.fold("");
    assert_eq!(run.last()["files"], 300);
}

#[test]
fn the_first_status_after_a_fold_hashes_nothing() {
    let t = Pair::of(|_, _| {});
    next_second();
    write(&t.c, "a", lines(&[(3, "c")]));
    t.fold("");
    // `diff-files` trusts stat data alone and names what it would have to look at.
    assert_eq!(t.s.git(&t.p, &["diff-files", "--name-only"]), "");
}

#[test]
fn a_directory_that_became_a_file_merges_beside_other_work() {
    for (id, back) in [("to-file", false), ("to-directory", true)] {
        let s = Sandbox::new();
        let p = s.repo("parent");
        write(&p, "d/one", "1\n");
        write(&p, "d/e/two", "2\n");
        write(&p, "f", "file\n");
        s.commit_all(&p, "more");
        let c = s.isolate(&p, id);
        if back {
            std::fs::remove_file(c.join("f")).expect("removed");
            write(&c, "f/x/y", "below\n");
        } else {
            std::fs::remove_dir_all(c.join("d")).expect("removed");
            write(&c, "d", "a file\n");
        }
        write(&p, "a", lines(&[(1, "parent")]));
        assert_eq!(s.fold(&p, &c), "merge");
        let wanted = s.git(&c, &["ls-files", "-co", "--exclude-standard"]);
        let wanted: Vec<&str> = wanted.lines().filter(|path| c.join(path).is_file()).collect();
        let got = s.git(&p, &["ls-tree", "-r", "--name-only", "HEAD"]);
        let (mut wanted, mut got): (Vec<&str>, Vec<&str>) = (wanted, got.lines().collect());
        wanted.sort_unstable();
        got.sort_unstable();
        assert_eq!(got, wanted);
        assert_eq!(s.git(&p, &["status", "--porcelain"]), "");
    }
}

#[test]
fn an_edit_between_the_plan_and_the_swap_is_kept() {
    let s = Sandbox::new();
    let p = s.repo("parent");
    write(&p, ".gitattributes", "*.x filter=race\n");
    write(&p, "one.x", "one\n");
    write(&p, "two", "two\n");
    s.commit_all(&p, "filtered");
    let c = s.isolate(&p, "c");
    write(&c, "one.x", "from the Child\n");
    write(&c, "two", "from the Child\n");
    // A smudge filter runs while the new files are staged: after the plan looked, before the swap.
    let edit = format!("sh -c 'cat; echo late >>{}'", p.join("two").display());
    s.git(&p, &["config", "filter.race.smudge", &edit]);
    let head = s.git(&p, &["rev-parse", "HEAD"]);
    let run = s.try_fold(&p, &c, &[]).expect("conflict", 1);
    assert_eq!(run.last()["conflicts"][0]["path"], "two");
    assert_eq!(run.last()["conflicts"][0]["kind"], "changed meanwhile");
    assert_eq!(read(&p, "two").as_deref(), Some("two\nlate\n"));
    assert_eq!(read(&p, "one.x").as_deref(), Some("one\n"));
    assert_eq!(s.git(&p, &["rev-parse", "HEAD"]), head);
}
