//! Shapes of the ground: file systems, from one to another, and who owns what.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use super::{Ends, Row, dirty, row, run, run_all};
use crate::support::host::{is_root, skipped, text};
use crate::support::mounts::{Mounted, mounted};
use crate::support::{Sandbox, write};

/// The rows of this file. Those named after file systems get a fresh one each.
pub(super) fn rows() -> Vec<Row> {
    let mut all = owners();
    all.extend(GROUNDS.iter().map(|ground| row(ground.name, Ends::Folds(""), |s| dirty(s, "parent"))));
    all
}

/// Where the Parent is and, where that is another place, the Child.
struct Ground {
    name: &'static str,
    parent: &'static str,
    child: Option<&'static str>,
}

const fn ground(name: &'static str, parent: &'static str, child: Option<&'static str>) -> Ground {
    Ground { name, parent, child }
}

const GROUNDS: &[Ground] = &[
    ground("on btrfs", "btrfs", None),
    ground("on XFS", "xfs", None),
    ground("on ext4", "ext4", None),
    ground("on tmpfs", "tmpfs", None),
    ground("on an overlay", "overlay", None),
    ground("from btrfs to tmpfs", "btrfs", Some("tmpfs")),
    ground("from ext4 to XFS", "ext4", Some("xfs")),
    ground("from an overlay to btrfs", "overlay", Some("btrfs")),
];

/// Root may look at what belongs to others, and others may not.
fn owners() -> Vec<Row> {
    vec![
        row("a repository of another user", Ends::Fails(&["another user", "safe.directory"]), |s| {
            let parent = dirty(s, "parent");
            if is_root() {
                s.give_away(&parent);
            } else {
                skipped("a repository of another user needs root");
            }
            parent
        })
        // Given away, it is that user's own.
        .unprivileged(Ends::Folds("")),
        row("a repository of another user that git was told to trust", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            write(&s.path("home"), ".gitconfig", format!("[safe]\n\tdirectory = {}\n", text(&parent)));
            if is_root() {
                s.give_away(&parent);
            }
            parent
        }),
    ]
}

#[test]
fn owners_of_every_kind() {
    if is_root() {
        run_all(&owners());
    } else {
        skipped("repositories of other users need root");
    }
}

/// An overlay over two directories of a tmpfs.
struct Overlay {
    place: std::path::PathBuf,
    _below: Mounted,
}

impl Drop for Overlay {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.place).status();
    }
}

/// What holds a file system mounted.
enum Held {
    Plain(Mounted),
    Overlay(Overlay),
}

impl Held {
    fn path(&self) -> &Path {
        match self {
            Self::Plain(mounted) => mounted.path(),
            Self::Overlay(overlay) => &overlay.place,
        }
    }
}

fn fresh(kind: &str) -> Option<Held> {
    let held = if kind == "overlay" {
        let below = mounted("tmpfs")?;
        let at = |name: &str| below.path().join(name);
        for name in ["lower", "upper", "work", "merged"] {
            fs::create_dir(at(name)).expect("a directory");
        }
        let options =
            format!("lowerdir={},upperdir={},workdir={}", text(&at("lower")), text(&at("upper")), text(&at("work")));
        let place = at("merged");
        let done = Command::new("mount").args(["-t", "overlay", "overlay", "-o", &options]).arg(&place).output();
        if !done.as_ref().is_ok_and(|output| output.status.success()) {
            skipped(&format!("no overlay can be mounted here: {done:?}"));
            return None;
        }
        Held::Overlay(Overlay { place, _below: below })
    } else {
        Held::Plain(mounted(kind)?)
    };
    // Users without privileges have to get there.
    for above in held.path().ancestors().take_while(|above| above.starts_with("/dev/shm") || above.starts_with("/tmp"))
    {
        let own = fs::metadata(above).is_ok_and(|meta| meta.uid() == 0 && meta.permissions().mode() & 0o1000 == 0);
        if own && above.to_string_lossy().contains("isofold-mount-") {
            fs::set_permissions(above, fs::Permissions::from_mode(0o777)).expect("a mode");
        }
    }
    Some(held)
}

#[test]
fn file_systems_of_every_kind() {
    let mut failed = Vec::new();
    for ground in GROUNDS {
        for lowered in if is_root() { &[false, true][..] } else { &[false] } {
            let Some(parent) = fresh(ground.parent) else { return };
            let child = ground.child.map(fresh);
            if matches!(child, Some(None)) {
                return;
            }
            let child = child.flatten();
            let shape = row(ground.name, Ends::Folds(""), |s| dirty(s, "parent"));
            let ran = std::panic::catch_unwind(|| {
                let sandbox = Sandbox::inside(parent.path());
                run(&shape, &sandbox, child.as_ref().map(Held::path), *lowered);
            });
            if ran.is_err() {
                failed.push(format!("{} {}", ground.name, if *lowered { "without privileges" } else { "" }));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
