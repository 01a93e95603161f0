//! What git finds in the repository while it merges it does not write again. A gc that takes it away
//! afterwards must not take it from the result.

use isofold::MergeEngine;
use isofold::testing_combine::merge_commits;

use crate::support::Sandbox;
use crate::support::histories::{empty_repo, import, parse};

/// Name and history; the last two commits are merged, and git does it cleanly.
const CASES: &[(&str, &str)] = &[
    ("same file", "@O: new a; new b\n@A O: ed a 3 X\n@B O: ed a 15 Y"),
    ("deep", "@O: new d/e/f/a; new d/b; new c\n@A O: ed d/e/f/a 3 X; ed c 3 X\n@B O: ed d/e/f/a 15 Y; new d/e/n"),
    ("renamed and edited", "@O: new d/a; new e/b\n@A O: mv d/a e/c\n@B O: ed d/a 3 X"),
    (
        "directory renamed, its files edited",
        "@O: new d/a; new d/b; new d/s/c; new z\n@A O: mv d e/x\n@B O: ed d/a 3 X; ed d/s/c 15 Y; ed z 3 X",
    ),
    (
        "criss-cross",
        "@O: new a; new d/b\n@A O: ed a 3 X\n@B O: ed d/b 3 Y\n@C A B: ed d/b 3 Y; ed a 10 c\n@D B A: ed a 3 X; ed a 15 d",
    ),
];

#[test]
fn the_result_outlives_what_git_found() {
    let s = Sandbox::new();
    for (number, (name, history)) in CASES.iter().enumerate() {
        let repo = empty_repo(&s, &format!("r{number}"));
        let ids = import(&s, &repo, &parse(history));
        let (ours, theirs) = (&ids[ids.len() - 2], &ids[ids.len() - 1]);
        // Trees and blobs of the same merge, that nothing names.
        let strays = s.git(&repo, &["merge-tree", "--write-tree", ours, theirs]);
        let merge = merge_commits(&repo, ours, theirs, MergeEngine::Git, true);
        let merge = merge.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((merge.result.as_ref(), merge.engine), (Ok(&strays), "git"), "{name}");
        let loose = || s.git(&repo, &["count-objects"]);
        let before = loose();
        s.git(&repo, &["prune", "--expire=now"]);
        assert_ne!(before, loose(), "{name}: there were strays");
        s.git(&repo, &["rev-list", "--objects", "--quiet", &strays]);
        let (code, said) = s.try_git(&repo, &["fsck", "--connectivity-only", &strays]);
        assert_eq!(code, 0, "{name}: {said}");
    }
}
