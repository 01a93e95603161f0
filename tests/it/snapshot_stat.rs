//! When a snapshot believes stat data, field by field. The index is made to lie: it names a content that
//! the file never had (`lie`), or has one field of the stat data another way (`field`), so one rule alone
//! decides what the tree has. git is asked about the same index.

use crate::snapshot_table::Want::{Git, Here, Scan, There};
use crate::snapshot_table::{Case, run, shell};
use crate::support::snapshots::hermetic;

#[rustfmt::skip]
const CASES: &[Case] = &[
    // All as it was: the index is believed, even where it lies.
    ("stat data that proves", Here, "w a 1; git add a; old; lie 1 2"),
    ("stat data that proves, of a link", Here, "ln -s 1 a; touch -h -d '2020-01-01 00:00:01' a; git add a; lie 1 2"),
    ("stat data without nanoseconds proves", Here, "w a 1; git add a; old; lie 1 2; poke 'substr($_, 16, 4) = pack \"N\", 0'; poke 'substr($_, 24, 4) = pack \"N\", 0'"),
    // One field says something else. Where second and size stay git's own build has a say.
    ("another second of modification", Here, "w a 1; git add a; old; lie 1 2; field 20"),
    ("other nanoseconds of modification", There, "w a 1; touch -d '2020-01-01 00:00:01.5' a; git add a; lie 1 2; field 24"),
    ("another second of change", There, "w a 1; git add a; old; lie 1 2; field 12"),
    ("other nanoseconds of change", There, "w a 1; git add a; old; lie 1 2; field 16"),
    ("another device proves nothing against it", Here, "w a 1; git add a; old; lie 1 2; field 28"),
    ("another inode", There, "w a 1; git add a; old; lie 1 2; field 32"),
    ("another owner", There, "w a 1; git add a; old; lie 1 2; field 40"),
    ("another group", There, "w a 1; git add a; old; lie 1 2; field 44"),
    ("another size", Here, "w a 11; git add a; old; lie 11 22; field 48"),
    // Racy entries: the index was written in the second of the file, or before.
    ("the index is of the second of the file", There, "w a 1; git add a; old; lie 1 2; touch -d '2020-01-01 00:00:01' .git/index"),
    ("the index is half a second younger than the file", There, "w a 1; git add a; old; lie 1 2; touch -d '2020-01-01 00:00:01.5' .git/index"),
    ("the index is a second younger than the file", Here, "w a 1; git add a; old; lie 1 2; touch -d '2020-01-01 00:00:02' .git/index"),
    ("the index is older than the file", There, "w a 1; git add a; old; lie 1 2; touch -d '2019-01-01' .git/index"),
    ("an entry smudged by git, and an empty file", Here, "w a ''; git add a; old; lie '' x"),
    ("an empty file of which nothing is hidden", Here, "w a ''; git add a; old"),
    // The kind and the mode have to fit, whatever the stat data say.
    ("a file where the index has a link", There, "w a 1; git add a; old; poke 'substr($_, 36, 4) = pack \"N\", 0120000'"),
    ("a link where the index has an executable", There, "ln -s 1 a; touch -h -d '2020-01-01 00:00:01' a; git add a; poke 'substr($_, 36, 4) = pack \"N\", 0100755'"),
    ("an executable where the index has none", There, "w a 1; chmod +x a; git add a; old; poke 'substr($_, 36, 4) = pack \"N\", 0100644'"),
    ("only meant to be added, whatever the stat data say", Here, "w a ''; git add -N a; old; honest a"),
    // Kinds and modes of what is read.
    ("a new file, executable for others only", Scan, "w a; chmod 0655 a"),
    ("core.fileMode off: a file in place of a link", Here, "git config core.fileMode false; ln -s x a; c; rm a; w a longer; chmod +x a"),
    // What a scan leaves to git by its name or its kind.
    ("a tracked directory with a backslash", Git, "git config core.protectNTFS false; w 'a\\b/x' x; c; w 'a\\b/x' changed"),
    ("a directory in place of tracked attributes", Git, "w .gitattributes '* text\\n'; c; rm .gitattributes; w .gitattributes/x; w a '1\\r\\n'"),
    ("a submodule that is not checked out", Here, "sub n; git add n 2>/dev/null; git commit -qm c; rm -rf n; mkdir n"),
];

#[test]
fn every_field_decides_as_git_has_it() {
    hermetic("snapshot_stat::every_field_decides_as_git_has_it", false, &[], || run(&shell(CASES)));
}
