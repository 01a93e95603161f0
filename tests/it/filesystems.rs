//! Isolate, fold and remove on fresh btrfs, XFS, ext4 and tmpfs, and from one to another. Needs root;
//! without it each test says so and passes, but for `CI=true`.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use isofold::{Control, IsolateOutcome, IsolateRequest, IsolationBackend, Strategy};
use rustix::fs::{AtFlags, CWD, SeekFrom, Timespec, Timestamps, XattrFlags};

use crate::support::host::{is_root, skipped, text};
use crate::support::mounts::{mounted, mounted_at, sandbox_on};
use crate::support::{Run, Sandbox, listing, next_second, raw_name, read, write};

/// Whether files can share their blocks there.
fn clones(kind: &str) -> bool {
    matches!(kind, "btrfs" | "xfs")
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
}

/// Gives a file, link or directory a time with nanoseconds.
fn date(path: &Path, nanoseconds: i64) {
    let time = Timespec { tv_sec: 1_100_000_000, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("a time");
}

/// Sets an attribute; whether the file system takes it.
fn set_xattr(path: &Path, name: &str, value: &[u8]) -> bool {
    rustix::fs::setxattr(path, name, value, XattrFlags::empty()).is_ok()
}

fn xattr(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 64 * 1024];
    let length = rustix::fs::getxattr(path, name, &mut value[..]).ok()?;
    value.truncate(length);
    Some(value)
}

/// Bytes that no file system can compress or deduplicate.
fn noise(size: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

/// Names that a shell, a parser or a decoder trips over.
fn odd_names() -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> =
        ["new\nline", "tab\there", "\"double\"", "it's", "back\\slash", "-rf", " space ", "*", "é\u{301}"]
            .map(PathBuf::from)
            .to_vec();
    names.push(raw_name(b"caf\xe9"));
    names.push(raw_name(b"\xff\xfe"));
    names
}

const BIG: usize = 8 * 1024 * 1024;
const LEVELS: usize = 120;

/// A Parent of every shape that a file system may treat differently. Returns whether it took extended
/// attributes.
fn shapes(sandbox: &Sandbox, parent: &Path) -> bool {
    write(parent, ".gitignore", "ignored/\n");
    write(parent, "tracked", "tracked\n");
    write(parent, "script", "#!/bin/sh\n");
    chmod(&parent.join("script"), 0o755);
    write(parent, "tracked.bin", noise(300_000));
    for name in odd_names() {
        write(parent, name, "odd\n");
    }
    let deep: PathBuf = (0..LEVELS).map(|level| format!("level{level}")).collect();
    write(parent, deep.join("bottom"), "deep\n");
    symlink("tracked", parent.join("link")).expect("a link");
    symlink("nowhere\n/at all", parent.join("dangling")).expect("a link");
    write(parent, "one/name", "one inode\n");
    fs::hard_link(parent.join("one/name"), parent.join("one/another")).expect("a hard link");
    sandbox.commit_all(parent, "shapes");

    let ignored = parent.join("ignored");
    write(&ignored, "big.bin", noise(BIG));
    for (name, size) in [("empty", 0), ("tiny", 1), ("2k", 2048), ("over-2k", 2049), ("32k", 32 * 1024)] {
        write(&ignored, name, noise(size));
    }
    write(&ignored, "over-32k", noise(32 * 1024 + 1));
    write(&ignored, "over-64k", noise(64 * 1024 + 1));
    for mode in [0o644, 0o755, 0o600, 0o444, 0o400, 0o000, 0o4755, 0o2755, 0o6711, 0o1644] {
        let file = ignored.join(format!("file-{mode:o}"));
        write(&ignored, &file, "mode\n");
        let directory = ignored.join(format!("dir-{mode:o}"));
        write(&directory, "inside", "mode\n");
        set_xattr(&file, "user.kept", b"with any mode");
        date(&file, 123_456_789);
        date(&directory.join("inside"), 1);
        date(&directory, 999_999_999);
        chmod(&file, mode);
        chmod(&directory, if mode & 0o700 == 0 { mode | 0o500 } else { mode | 0o100 });
    }
    chmod(&parent.join("one"), 0o1777);
    symlink("../tracked", ignored.join("link")).expect("a link");
    date(&ignored.join("link"), 42);
    let mut took = true;
    for path in ["tracked", "tracked.bin", "ignored/big.bin", "ignored/empty", "ignored", "one"] {
        took &= set_xattr(&parent.join(path), "user.note", path.as_bytes());
    }
    took &= set_xattr(&parent.join("tracked"), "user.empty", b"");
    took &= set_xattr(&parent.join("tracked"), "user.bytes", b"a\0b\xff");
    for number in 0..30 {
        // More names than a small buffer holds.
        took &= set_xattr(&ignored.join("tiny"), &format!("user.{}.{number}", "long".repeat(12)), b"x");
    }
    date(&parent.join("tracked"), 7);
    date(&parent.join("tracked.bin"), 999_999_999);
    date(&ignored, 3);
    next_second();
    sandbox.git(parent, &["status", "--porcelain"]);
    took
}

/// Asserts that every attribute of the Parent's shapes is in the Child.
fn same_xattrs(parent: &Path, child: &Path) {
    let mut names = vec![("tracked", "user.empty".to_owned()), ("tracked", "user.bytes".to_owned())];
    for path in ["tracked", "tracked.bin", "ignored/big.bin", "ignored/empty", "ignored", "one"] {
        names.push((path, "user.note".to_owned()));
    }
    for path in ["ignored/file-444", "ignored/file-0", "ignored/file-4755"] {
        names.push((path, "user.kept".to_owned()));
    }
    names.extend((0..30).map(|number| ("ignored/tiny", format!("user.{}.{number}", "long".repeat(12)))));
    for (path, name) in names {
        let expected = xattr(&parent.join(path), &name);
        assert!(expected.is_some(), "{path} {name}");
        assert_eq!(xattr(&child.join(path), &name), expected, "{path} {name}");
    }
}

/// The count in a field of the last line.
fn count(run: &Run, field: &str) -> u64 {
    run.last()[field].as_u64().unwrap_or_else(|| panic!("no {field} in {run:?}"))
}

/// Changes of every kind in the Child, folded into the Parent, and the Child removed.
fn work_and_fold(sandbox: &Sandbox, parent: &Path, child: &Path) {
    write(child, "tracked", "changed in the Child\n");
    write(child, "new/file", "new\n");
    fs::remove_file(child.join("it's")).expect("it was there");
    chmod(&child.join("tracked.bin"), 0o755);
    fs::remove_file(child.join("link")).expect("it was there");
    symlink("script", child.join("link")).expect("a link");
    write(child, raw_name(b"caf\xe9"), "odd, changed\n");
    let before = listing(&parent.join("ignored"));
    let run = sandbox.try_fold(parent, child, &[]).expect("integrated", 0);
    assert_eq!(count(&run, "files"), 6);
    assert_eq!(read(parent, "tracked").as_deref(), Some("changed in the Child\n"));
    assert_eq!(read(parent, raw_name(b"caf\xe9")).as_deref(), Some("odd, changed\n"));
    assert!(!parent.join("it's").exists());
    assert_eq!(fs::read_link(parent.join("link")).expect("a link"), Path::new("script"));
    assert_eq!(listing(&parent.join("ignored")), before);
    sandbox.settled(parent, "");
    let run = sandbox.isofold(["remove", "--child", text(child)]);
    assert_eq!((run.code, run.outcome().as_str()), (0, "removed"), "{run:?}");
    assert!(!child.exists());
    assert_eq!(sandbox.git(parent, &["worktree", "list", "--porcelain"]).matches("worktree ").count(), 1);
}

/// Whether the file shares all of its blocks with another, by what the kernel says.
fn shares_extents(path: &Path) -> bool {
    let output = Command::new("filefrag").arg("-v").arg(path).output().expect("filefrag runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows: Vec<&str> =
        text.lines().filter(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit())).collect();
    assert!(output.status.success() && !rows.is_empty(), "{text}");
    rows.iter().all(|row| row.contains("shared"))
}

/// Runs an isolation under strace and takes its Child away again; how often a clone was tried, and how
/// many files were cloned.
fn clone_attempts(sandbox: &Sandbox, parent: &Path, child: &Path) -> Option<(u64, u64)> {
    let traced = sandbox.traced(&["-e", "trace=ioctl"], parent, child)?;
    sandbox.git(parent, &["worktree", "remove", "--force", text(child)]);
    let attempts = traced.log.lines().filter(|line| line.contains("FICLONE") && !line.contains("resumed>")).count();
    Some((attempts as u64, count(&traced.run, "cloned")))
}

/// Everything on one file system of its own.
fn once_through(kind: &str) {
    let Some((_disk, sandbox)) = sandbox_on(kind) else { return };
    let parent = sandbox.empty_repo("parent");
    let took_xattrs = shapes(&sandbox, &parent);
    assert!(took_xattrs || kind == "tmpfs", "{kind} has extended attributes");
    let index = |repo: &Path| fs::read(repo.join(".git/index")).expect("an index");
    let before = (listing(&parent), index(&parent));
    let child = sandbox.path("child");
    let run = sandbox.try_isolate("work", &parent, &child, &[]).expect("isolated", 0);
    assert_eq!(listing(&child), listing(&parent));
    assert_eq!(sandbox.git(&child, &["status", "--porcelain=v2"]), "");
    if took_xattrs {
        same_xattrs(&parent, &child);
    }
    assert_eq!(count(&run, "xattrs_refused"), 0);

    // Hard links are inodes of their own, here and towards the Parent.
    let (one, another) = (child.join("one/name"), child.join("one/another"));
    let inode = |path: &Path| fs::metadata(path).expect("a stat").ino();
    assert_eq!(fs::metadata(&one).expect("a stat").nlink(), 1);
    assert_ne!(inode(&one), inode(&another));
    assert_ne!(inode(&one), inode(&parent.join("one/name")));

    assert_eq!(count(&run, "cloned") + count(&run, "copied"), count(&run, "files"));
    for path in ["ignored/big.bin", "tracked.bin"] {
        assert_eq!(shares_extents_where_told(kind, &child.join(path)), clones(kind), "{path}");
    }
    assert_eq!(count(&run, "cloned") >= 2, clones(kind), "{run:?}");
    if let Some((attempts, cloned)) = clone_attempts(&sandbox, &parent, &sandbox.path("traced")) {
        assert_eq!(attempts, cloned, "an attempt for each file that is cloned, and no other");
    }
    assert_eq!((listing(&parent), index(&parent)), before, "the Parent is what it was");

    work_and_fold(&sandbox, &parent, &child);
}

/// tmpfs can't say where a file's blocks are.
fn shares_extents_where_told(kind: &str, path: &Path) -> bool {
    kind != "tmpfs" && shares_extents(path)
}

#[test]
fn once_through_on_btrfs() {
    once_through("btrfs");
}

#[test]
fn once_through_on_xfs() {
    once_through("xfs");
}

#[test]
fn once_through_on_ext4() {
    once_through("ext4");
}

#[test]
fn once_through_on_tmpfs() {
    once_through("tmpfs");
}

/// The Child on another file system than the Parent.
fn across(from: &str, to: &str) {
    let Some((_disk, sandbox)) = sandbox_on(from) else { return };
    let Some(other) = mounted(to) else { return };
    let parent = sandbox.empty_repo("parent");
    let took_xattrs = shapes(&sandbox, &parent);
    let child = other.path().join("above/child");
    let run = sandbox.try_isolate("work", &parent, &child, &[]).expect("isolated", 0);
    assert_eq!(listing(&child), listing(&parent));
    assert_eq!(sandbox.git(&child, &["status", "--porcelain=v2"]), "");
    assert_eq!((count(&run, "cloned"), count(&run, "copied")), (0, count(&run, "files")));
    if took_xattrs && set_xattr(other.path(), "user.probe", b"") {
        same_xattrs(&parent, &child);
        assert_eq!(count(&run, "xattrs_refused"), 0);
    }
    if let Some((attempts, _)) = clone_attempts(&sandbox, &parent, &other.path().join("traced")) {
        assert_eq!(attempts, u64::from(clones(to)), "one attempt says it all");
    }
    work_and_fold(&sandbox, &parent, &child);
}

#[test]
fn from_btrfs_to_ext4() {
    across("btrfs", "ext4");
}

#[test]
fn from_ext4_to_btrfs() {
    across("ext4", "btrfs");
}

#[test]
fn from_xfs_to_tmpfs() {
    across("xfs", "tmpfs");
}

#[test]
fn from_tmpfs_to_xfs() {
    across("tmpfs", "xfs");
}

#[test]
fn from_one_btrfs_to_another() {
    across("btrfs", "btrfs");
}

#[test]
fn another_subvolume_of_the_same_btrfs_is_cloned_into() {
    let Some((disk, sandbox)) = sandbox_on("btrfs") else { return };
    let subvolume = disk.path().join("other");
    btrfs_subvolume(&subvolume);
    let parent = sandbox.empty_repo("parent");
    shapes(&sandbox, &parent);
    let child = subvolume.join("child");
    let run = sandbox.try_isolate("work", &parent, &child, &[]).expect("isolated", 0);
    let device = |path: &Path| fs::metadata(path).expect("a stat").dev();
    assert_ne!(device(&parent), device(&child), "two devices by stat");
    assert_eq!(listing(&child), listing(&parent));
    same_xattrs(&parent, &child);
    assert!(count(&run, "cloned") >= 2, "{run:?}");
    assert!(shares_extents(&child.join("ignored/big.bin")));
    work_and_fold(&sandbox, &parent, &child);
}

fn btrfs_subvolume(path: &Path) {
    let output = Command::new("btrfs").args(["subvolume", "create"]).arg(path).output().expect("btrfs runs");
    assert!(output.status.success(), "{output:?}");
}

/// A Parent with another file system inside: `inside/` holds tracked files.
fn with_something_inside(kind: &str, sandbox: &Sandbox, parent: &Path, child: &Path) {
    let inside = parent.join("inside");
    assert_ne!(fs::metadata(parent).expect("a stat").dev(), fs::metadata(&inside).expect("a stat").dev());
    write(parent, "outside", "outside\n");
    write(parent, "inside/changed", "before\n");
    write(parent, "inside/a/gone", "gone\n");
    write(parent, "inside/deeper/kept", noise(200_000));
    sandbox.commit_all(parent, "start");
    write(parent, "inside/deeper/loose", "loose\n");
    next_second();
    sandbox.git(parent, &["status", "--porcelain"]);
    let run = sandbox.try_isolate("work", parent, child, &[]).expect("isolated", 0);
    assert_eq!(listing(child), listing(parent));
    assert_eq!(count(&run, "files"), 5);
    assert_eq!(clones(kind), count(&run, "cloned") > 0, "{run:?}");
    let status = |place: &Path| sandbox.git(place, &["status", "--porcelain=v2"]);
    assert_eq!(status(child), status(parent));

    write(child, "outside", "outside, changed\n");
    write(child, "inside/changed", "after\n");
    chmod(&child.join("inside/changed"), 0o755);
    fs::remove_file(child.join("inside/a/gone")).expect("it was there");
    write(child, "inside/new/file", "new\n");
    symlink("changed", child.join("inside/link")).expect("a link");
    // An ignored file in the way is refused there as anywhere.
    sandbox.git(child, &["add", "inside/new/file"]);
    write(parent, "inside/new/file", "in the way\n");
    write(parent, ".git/info/exclude", "inside/new/\n");
    let before = sandbox.state(parent);
    sandbox.try_fold(parent, child, &[]).expect("conflict", 1);
    assert_eq!(sandbox.state(parent), before);
    fs::remove_dir_all(parent.join("inside/new")).expect("it was there");
    write(parent, ".git/info/exclude", "");
    sandbox.try_fold(parent, child, &[]).expect("integrated", 0);
    assert_eq!(read(parent, "inside/changed").as_deref(), Some("after\n"));
    assert_eq!(read(parent, "inside/new/file").as_deref(), Some("new\n"));
    assert_eq!(read(parent, "inside/link").as_deref(), Some("after\n"));
    assert!(!parent.join("inside/a").exists());
    sandbox.settled(parent, "");
    let left: Vec<_> = fs::read_dir(&inside).expect("readable").map(|e| e.expect("an entry").file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("isofold")), "{left:?}");
    let run = sandbox.isofold(["remove", "--child", text(child)]);
    assert_eq!((run.code, run.outcome().as_str()), (0, "removed"), "{run:?}");
}

#[test]
fn a_mount_inside_the_parent_is_copied_and_folded_into() {
    let Some((_disk, sandbox)) = sandbox_on("ext4") else { return };
    let parent = sandbox.empty_repo("parent");
    let Some(_inner) = mounted_at("tmpfs", Some(&parent.join("inside"))) else { return };
    with_something_inside("ext4", &sandbox, &parent, &sandbox.path("child"));
}

#[test]
fn an_xfs_inside_a_btrfs_is_copied_and_folded_into() {
    let Some((_disk, sandbox)) = sandbox_on("btrfs") else { return };
    let parent = sandbox.empty_repo("parent");
    let Some(_inner) = mounted_at("xfs", Some(&parent.join("inside"))) else { return };
    with_something_inside("ext4", &sandbox, &parent, &sandbox.path("child"));
}

#[test]
fn a_subvolume_inside_the_parent_is_cloned_and_folded_into() {
    let Some((_disk, sandbox)) = sandbox_on("btrfs") else { return };
    let parent = sandbox.empty_repo("parent");
    btrfs_subvolume(&parent.join("inside"));
    let child = sandbox.path("child");
    with_something_inside("btrfs", &sandbox, &parent, &child);
}

#[test]
fn a_bind_mount_inside_the_parent_is_folded_into() {
    let Some((_disk, sandbox)) = sandbox_on("ext4") else { return };
    let parent = sandbox.repo("parent");
    let aside = sandbox.path("aside");
    write(&aside, "changed", "before\n");
    write(&aside, "gone", "gone\n");
    fs::create_dir(parent.join("inside")).expect("a mount point");
    let bound = Bind::new(&aside, &parent.join("inside"));
    sandbox.commit_all(&parent, "bound");
    let child = sandbox.isolate(&parent, "child");
    write(&child, "inside/changed", "after\n");
    write(&child, "inside/new", "new\n");
    fs::remove_file(child.join("inside/gone")).expect("it was there");
    write(&child, "a", "changed too\n");
    // The same device, and yet nothing can be renamed from one to the other.
    sandbox.fold(&parent, &child);
    assert_eq!(read(&aside, "changed").as_deref(), Some("after\n"));
    assert_eq!(read(&aside, "new").as_deref(), Some("new\n"));
    assert!(!aside.join("gone").exists());
    sandbox.settled(&parent, "");
    drop(bound);
}

#[test]
fn what_is_mounted_in_a_child_is_not_removed() {
    let Some((_disk, sandbox)) = sandbox_on("ext4") else { return };
    let parent = sandbox.repo("parent");
    let child = sandbox.isolate(&parent, "child");
    let precious = sandbox.path("precious");
    write(&precious, "file", "precious\n");
    let place = child.join("ignored/with space\nand line");
    fs::create_dir_all(&place).expect("a mount point");
    let bound = Bind::new(&precious, &place);
    for force in [&["--force"][..], &[]] {
        let run = sandbox.isofold(["remove", "--child", text(&child)].iter().chain(force));
        assert_eq!((run.code, run.outcome().as_str()), (1, "refused"), "{run:?}");
        assert!(run.report().contains("unmount it first"), "{run:?}");
        assert_eq!(read(&precious, "file").as_deref(), Some("precious\n"));
        assert!(child.join("a").exists());
    }
    drop(bound);
    let run = sandbox.isofold(["remove", "--child", text(&child)]);
    assert_eq!((run.code, run.outcome().as_str()), (0, "removed"), "{run:?}");
    assert_eq!(read(&precious, "file").as_deref(), Some("precious\n"));
}

/// A bind mount, unmounted with the value.
struct Bind(PathBuf);

impl Bind {
    fn new(from: &Path, to: &Path) -> Self {
        let output = Command::new("mount").arg("--bind").args([from, to]).output().expect("mount runs");
        assert!(output.status.success(), "{output:?}");
        Self(to.to_owned())
    }
}

impl Drop for Bind {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// The length of a file, and all of its pages that are not only zeros.
fn content(path: &Path) -> (u64, BTreeMap<u64, Vec<u8>>) {
    use std::os::unix::fs::FileExt;
    const PAGE: u64 = 4096;
    let file = fs::File::open(path).expect("a file");
    let length = file.metadata().expect("a stat").len();
    let mut pages = BTreeMap::new();
    let mut at = 0;
    while let Ok(start) = rustix::fs::seek(&file, SeekFrom::Data(at)) {
        at = rustix::fs::seek(&file, SeekFrom::Hole(start)).expect("an end");
        for page in start / PAGE..at.div_ceil(PAGE) {
            let mut bytes = [0; 4096].to_vec();
            let got = file.read_at(&mut bytes, page * PAGE).expect("content");
            bytes.truncate(got);
            if bytes.iter().any(|byte| *byte != 0) {
                pages.insert(page, bytes);
            }
        }
    }
    (length, pages)
}

/// A hole of a gigabyte, at the end and in the middle.
fn holes(from: &str, to: &str) {
    use std::os::unix::fs::FileExt;
    let Some((_disk, sandbox)) = sandbox_on(from) else { return };
    let Some(other) = (if from == to { Some(None) } else { mounted(to).map(Some) }) else { return };
    let parent = sandbox.empty_repo("parent");
    write(&parent, ".gitignore", "ignored/\n");
    sandbox.commit_all(&parent, "start");
    write(&parent, "ignored/end", noise(100_000));
    write(&parent, "ignored/middle", noise(100_000));
    write(&parent, "ignored/nothing", "");
    let open = |name: &str| fs::File::options().write(true).open(parent.join(name)).expect("a file");
    open("ignored/end").set_len(1 << 30).expect("a hole");
    assert_eq!(content(&parent.join("ignored/end")).1.len(), 25, "what is compared");
    open("ignored/middle").write_all_at(b"after the hole", 1 << 30).expect("written");
    open("ignored/nothing").set_len(1 << 30).expect("a hole");
    let child = other.as_ref().map_or_else(|| sandbox.path("child"), |other| other.path().join("child"));
    sandbox.try_isolate("holes", &parent, &child, &[]).expect("isolated", 0);
    for name in ["ignored/end", "ignored/middle", "ignored/nothing"] {
        let (source, copy) = (parent.join(name), child.join(name));
        assert!(content(&copy) == content(&source), "{from} to {to}: {name}");
        let meta = fs::metadata(&copy).expect("a stat");
        assert!(meta.blocks() * 512 < 2 << 20, "{from} to {to}: {name} takes {} bytes", meta.blocks() * 512);
    }
}

#[test]
fn holes_stay_holes_on_btrfs() {
    holes("btrfs", "btrfs");
}

#[test]
fn holes_stay_holes_on_xfs() {
    holes("xfs", "xfs");
}

#[test]
fn holes_stay_holes_on_ext4() {
    holes("ext4", "ext4");
}

#[test]
fn holes_stay_holes_on_tmpfs() {
    holes("tmpfs", "tmpfs");
}

#[test]
fn holes_stay_holes_across() {
    holes("xfs", "ext4");
    holes("tmpfs", "btrfs");
}

#[test]
fn a_hundred_thousand_files_in_one_directory() {
    let Some((_disk, sandbox)) = sandbox_on("tmpfs") else { return };
    let parent = sandbox.repo("parent");
    let ignored = parent.join("ignored");
    fs::create_dir(&ignored).expect("a directory");
    for number in 0..100_000 {
        fs::write(ignored.join(number.to_string()), b"x").expect("a file");
    }
    let child = sandbox.path("child");
    let run = sandbox.try_isolate("many", &parent, &child, &[]).expect("isolated", 0);
    assert_eq!(count(&run, "files"), 100_004);
    assert_eq!(fs::read_dir(child.join("ignored")).expect("readable").count(), 100_000);
    let run = sandbox.isofold(["remove", "--child", text(&child)]);
    assert_eq!(run.outcome(), "removed", "{run:?}");
}

#[test]
fn the_umask_changes_no_mode() {
    let sandbox = Sandbox::new();
    let parent = sandbox.empty_repo("parent");
    shapes(&sandbox, &parent);
    for umask in ["077", "000", "777"] {
        let child = sandbox.path(&format!("child-{umask}"));
        let mut command = sandbox.command("sh");
        command.args(["-c", &format!("umask {umask}; exec \"$0\" \"$@\"")]).arg(sandbox.program().get_program());
        command.args(["isolate", "--detach", "--parent"]).arg(&parent).arg("--child").arg(&child);
        let output = command.output().expect("sh runs");
        if umask == "777" && !is_root() {
            continue;
        }
        assert!(output.status.success(), "{output:?}");
        assert_eq!(listing(&child), listing(&parent), "umask {umask}");
    }
}

#[test]
fn a_default_acl_changes_no_mode() {
    for kind in ["ext4", "btrfs", "xfs"] {
        let Some((_disk, sandbox)) = sandbox_on(kind) else { return };
        if Command::new("setfacl").arg("--version").output().is_err() {
            skipped("setfacl is not installed");
            return;
        }
        let parent = sandbox.empty_repo("parent");
        shapes(&sandbox, &parent);
        let above = sandbox.path("above");
        fs::create_dir(&above).expect("a directory");
        let output = sandbox.command("setfacl").args(["-d", "-m", "u:nobody:rwx,g::r,o::-"]).arg(&above).output();
        assert!(output.expect("setfacl runs").status.success());
        let child = above.join("child");
        sandbox.try_isolate("acl", &parent, &child, &[]).expect("isolated", 0);
        assert_eq!(listing(&child), listing(&parent), "{kind}");
        work_and_fold(&sandbox, &parent, &child);
    }
}

#[test]
fn attributes_that_the_other_side_refuses_are_counted() {
    // ext4 has one block for them; btrfs and XFS have more.
    let Some((_disk, sandbox)) = sandbox_on("xfs") else { return };
    let Some(other) = mounted("ext4") else { return };
    let parent = sandbox.repo("parent");
    write(&parent, "ignored/file", "content\n");
    let file = parent.join("ignored/file");
    assert!(set_xattr(&file, "user.large", &noise(20_000)) && set_xattr(&file, "user.small", b"small"));
    let child = other.path().join("child");
    let run = sandbox.try_isolate("work", &parent, &child, &[]).expect("isolated", 0);
    assert_eq!(count(&run, "xattrs_refused"), 1);
    assert_eq!(xattr(&child.join("ignored/file"), "user.small").as_deref(), Some(&b"small"[..]));
    assert_eq!(listing(&child), listing(&parent));
}

#[test]
fn attributes_travel_without_privileges_too() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    for (name, mode) in [("read-only", 0o444), ("writable", 0o644), ("private", 0o400)] {
        let file = parent.join("ignored").join(name);
        write(&parent, &file, "content\n");
        if !set_xattr(&file, "user.note", name.as_bytes()) {
            skipped("the temporary directory has no extended attributes");
            return;
        }
        chmod(&file, mode);
    }
    sandbox.give_all_away();
    let child = sandbox.path("child");
    let mut command = sandbox.unprivileged();
    command.args(["isolate", "--id", "w", "--parent"]).arg(&parent).arg("--child").arg(&child);
    let output = command.output().expect("isofold runs");
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"xattrs_refused\":0"), "{output:?}");
    for name in ["read-only", "writable", "private"] {
        let copy = child.join("ignored").join(name);
        assert_eq!(xattr(&copy, "user.note").as_deref(), Some(name.as_bytes()));
    }
    assert_eq!(listing(&child), listing(&parent));
}

#[test]
fn somebody_elses_setuid_is_not_made_ours() {
    if !is_root() {
        skipped("a file of another user needs root");
        return;
    }
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    for (name, mode) in [("theirs", 0o6755), ("ours", 0o6755)] {
        write(&parent, format!("ignored/{name}"), "#!/bin/sh\n");
        let file = parent.join("ignored").join(name);
        if name == "theirs" {
            sandbox.give_away(&file);
        }
        chmod(&file, mode);
    }
    let child = sandbox.isolate(&parent, "child");
    let mode = |name: &str| fs::metadata(child.join("ignored").join(name)).expect("a stat").mode() & 0o7777;
    assert_eq!((mode("theirs"), mode("ours")), (0o755, 0o6755));
}

#[test]
fn the_counters_agree_with_the_result() {
    let sandbox = Sandbox::new();
    let parent = sandbox.empty_repo("parent");
    shapes(&sandbox, &parent);
    let control = Control::new();
    let request = IsolateRequest::detached(&parent, sandbox.path("child"));
    let IsolateOutcome::Isolated(isolation) = Strategy::new().isolator().isolate(&request, &control) else {
        panic!("not isolated");
    };
    let progress = control.progress();
    assert_eq!(progress.files(), isolation.files + isolation.links);
    assert_eq!(progress.bytes_cloned() + progress.bytes_copied(), isolation.bytes);
    assert_eq!(progress.bytes_cloned() > 0, isolation.cloned > 0);
}

#[test]
fn few_system_calls_for_a_small_file() {
    const FILES: u32 = 4_000;
    let Some((_disk, sandbox)) = sandbox_on("ext4") else { return };
    let parent = sandbox.empty_repo("parent");
    for number in 0..FILES {
        write(&parent, format!("d{}/{number}", number / 100), format!("{number}\n").repeat(100));
    }
    sandbox.commit_all(&parent, "start");
    next_second();
    sandbox.git(&parent, &["status", "--porcelain"]);
    // Without the check for a closed descriptor that the standard library makes in test builds.
    let Some(traced) = sandbox.traced(&["-c", "-e", "trace=!fcntl"], &parent, &sandbox.path("child")) else { return };
    let total = traced.log.lines().find(|line| line.ends_with(" total")).unwrap_or_else(|| panic!("{}", traced.log));
    let calls: u32 = total.split_whitespace().nth(3).and_then(|n| n.parse().ok()).expect("a number of calls");
    assert!(calls >= 8 * FILES, "all is counted: {total}");
    assert!(calls <= 14 * FILES, "{calls} system calls for {FILES} files:\n{}", traced.log);
}
