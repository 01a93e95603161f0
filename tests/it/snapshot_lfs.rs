//! git-lfs: pointers in history, contents in the directories; without the program what git does
//! without it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::host::{skipped, text};
use crate::support::{Run, Sandbox, job, read, write};

const POINTER: &str = "version https://git-lfs.github.com/spec/v1\n";

/// A repository in which git-lfs has `*.bin`; `None`, said on stderr, without git-lfs.
fn tracked(s: &Sandbox) -> Option<PathBuf> {
    if Command::new("git-lfs").arg("version").output().is_err() {
        skipped("git-lfs is not installed");
        return None;
    }
    let parent = s.empty_repo("parent");
    s.git(&parent, &["lfs", "install", "--local"]);
    s.git(&parent, &["lfs", "track", "*.bin"]);
    write(&parent, "old.bin", "old content\n");
    write(&parent, "plain", "plain\n");
    s.commit_all(&parent, "start");
    assert!(s.git(&parent, &["show", "HEAD:old.bin"]).starts_with(POINTER));
    Some(parent)
}

/// PATH with git and nothing else.
fn only_git(s: &Sandbox) -> PathBuf {
    let bin = s.path("only-git");
    fs::create_dir_all(&bin).expect("a directory");
    let found = s.command("sh").args(["-c", "command -v git"]).output().expect("sh runs");
    let git = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    if !bin.join("git").exists() {
        symlink(git, bin.join("git")).expect("linked");
    }
    bin
}

fn without_lfs(s: &Sandbox, parent: &Path, child: &Path) -> Run {
    let mut fold = s.program();
    fold.args(job("fold", "work", parent, child, &[])).env("PATH", only_git(s));
    Run::of_command(&mut fold)
}

#[test]
fn history_holds_pointers_and_directories_the_content() {
    let s = Sandbox::new();
    let Some(parent) = tracked(&s) else { return };
    write(&parent, "loose.bin", "loose in the Parent\n");
    let child = s.isolate(&parent, "child");
    assert_eq!(read(&child, "old.bin").as_deref(), Some("old content\n"));
    assert_eq!(read(&child, "loose.bin").as_deref(), Some("loose in the Parent\n"));
    assert_eq!(s.git(&child, &["status", "--porcelain"]), "?? loose.bin");
    write(&child, "old.bin", "changed content\n");
    write(&child, "d/new.bin", "new content\n");
    write(&child, "plain", "plain, changed\n");
    s.fold(&parent, &child);
    for (path, content) in
        [("old.bin", "changed content\n"), ("d/new.bin", "new content\n"), ("loose.bin", "loose in the Parent\n")]
    {
        assert_eq!(read(&parent, path).as_deref(), Some(content), "{path}");
        assert!(s.git(&parent, &["show", &format!("HEAD:{path}")]).starts_with(POINTER), "{path}");
    }
    assert_eq!(s.git(&parent, &["show", "HEAD:plain"]), "plain, changed");
    assert_eq!(s.git(&parent, &["status", "--porcelain"]), "");
    assert_eq!(s.git(&parent, &["lfs", "fsck"]), "Git LFS fsck OK");
    // And again, with nothing new.
    assert_eq!(s.fold(&parent, &child), "nothing");
}

#[test]
fn without_the_program_a_required_filter_is_a_refusal() {
    let s = Sandbox::new();
    let Some(parent) = tracked(&s) else { return };
    let child = s.isolate(&parent, "child");
    write(&child, "new.bin", "new content\n");
    let before = s.state(&parent);
    let run = without_lfs(&s, &parent, &child).expect("failed", 3);
    assert!(run.report().contains("git-lfs"), "{run:?}");
    assert_eq!(s.state(&parent), before);
    // Isolating needs the program too: the base is a snapshot.
    write(&parent, "loose.bin", "loose\n");
    let mut isolate = s.program();
    let other = s.path("other");
    isolate.args(job("isolate", "other", &parent, &other, &[])).env("PATH", only_git(&s));
    let run = Run::of_command(&mut isolate).expect("failed", 1);
    assert!(run.report().contains("git-lfs") && !other.exists(), "{run:?}");
    // Without the protocol of its own git names the file.
    s.git(&parent, &["config", "--unset", "filter.lfs.process"]);
    let run = without_lfs(&s, &parent, &child).expect("failed", 3);
    assert!(run.report().contains("clean filter"), "{run:?}");
}

#[test]
fn without_the_program_content_is_stored_raw_where_git_does() {
    let s = Sandbox::new();
    let Some(parent) = tracked(&s) else { return };
    for required in [true, false] {
        // Not required, then not even configured. With the protocol of its own git would fail at once.
        if required {
            s.git(&parent, &["config", "filter.lfs.required", "false"]);
            s.git(&parent, &["config", "--unset", "filter.lfs.process"]);
        } else {
            s.git(&parent, &["config", "--remove-section", "filter.lfs"]);
        }
        let name = format!("child-{required}");
        let child = s.isolate(&parent, &name);
        let file = format!("{name}.bin");
        write(&child, &file, "raw content\n");
        without_lfs(&s, &parent, &child).expect("integrated", 0);
        assert_eq!(s.git(&parent, &["show", &format!("HEAD:{file}")]), "raw content", "{}", text(&parent));
        assert_eq!(read(&parent, &file).as_deref(), Some("raw content\n"));
    }
}
