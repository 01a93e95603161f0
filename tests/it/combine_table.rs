//! Merges written down by hand, each answered by git and by every engine.
#![allow(clippy::print_stdout, reason = "figures for docs/measurements.md")]

use std::path::Path;

use isofold::MergeEngine;
use isofold::testing_combine::merge_commits;

use crate::support::histories::{empty_repo, import, oracle, parse, wrong};
use crate::support::{Sandbox, write};

/// Name, base, ours, theirs; the operations are those of `histories::edit`.
const THREE: &[(&str, &str, &str, &str)] = &[
    // Contents.
    ("one side changes", "new a; new b", "ed a 3 X", ""),
    ("different files", "new a; new b", "ed a 3 X", "ed b 3 Y"),
    ("far lines", "new a", "ed a 3 X", "ed a 15 Y"),
    ("same line", "new a", "ed a 3 X", "ed a 3 Y"),
    ("same line, same text", "new a", "ed a 3 X", "ed a 3 X"),
    ("same and more", "new a", "ed a 3 X; ed a 10 Z", "ed a 3 X; ed a 17 W"),
    ("adjacent lines", "new a", "ed a 3 X", "ed a 4 Y"),
    ("one line between", "new a", "ed a 3 X", "ed a 5 Y"),
    ("two lines between", "new a", "ed a 3 X", "ed a 6 Y"),
    ("insert at the same place", "new a", "ins a 3 X", "ins a 3 Y"),
    ("insert the same at the same place", "new a", "ins a 3 X", "ins a 3 X"),
    ("insert beside an edit", "new a", "ins a 3 X", "ed a 3 Y"),
    ("insert one away", "new a", "ins a 3 X", "ed a 4 Y"),
    ("delete against edit", "new a", "del a 3 4", "ed a 5 Y"),
    ("delete beside edit", "new a", "del a 3 4", "ed a 7 Y"),
    ("delete overlapping", "new a", "del a 3 4", "del a 5 4"),
    ("delete the same", "new a", "del a 3 4", "del a 3 4"),
    ("top and bottom", "new a", "ins a 0 X", "ins a 20 Y"),
    ("both append", "new a", "ins a 20 X", "ins a 20 Y"),
    ("repetitive text", "put a x\nx\nx\ny\nx\nx\nx\n", "ins a 3 x", "ins a 4 y"),
    ("braces", "put a f {\n  a\n}\n\ng {\n  b\n}\n", "ins a 4 }", "ins a 4 h {"),
    ("moved block against edit", "new a", "del a 2 4; ins a 10 moved", "ed a 3 Y"),
    (
        "move a function down",
        "put a f(\n 1\n)\n\ng(\n 2\n)\n\nh(\n 3\n)\n",
        "put a g(\n 2\n)\n\nf(\n 1\n)\n\nh(\n 3\n)\n",
        "put a f(\n 1\n)\n\ng(\n 2\n)\n\nh(\n 4\n)\n",
    ),
    // Ends of lines and of files.
    ("crlf against edit", "new a", "crlf a", "ed a 3 Y"),
    ("crlf on both", "new a", "crlf a", "crlf a"),
    ("crlf text, far lines", "new a; crlf a", "ed a 3 X", "ed a 15 Y"),
    ("no final newline", "new a; chop a", "ed a 3 X", "ed a 15 Y"),
    ("final newline dropped", "new a", "chop a", "ed a 3 Y"),
    ("final newline dropped, last line edited", "new a", "chop a", "ed a 19 Y"),
    ("final newline added against append", "new a; chop a", "ed a 19 last", "ed a 3 Y"),
    ("final newline dropped on both", "new a", "chop a", "chop a; ed a 2 Y"),
    ("emptied against edit", "new a", "put a ", "ed a 3 Y"),
    ("emptied on both", "new a; new b", "put a ; ed b 1 X", "put a ; ed b 15 Y"),
    ("empty filled on both", "put a ; new b", "put a one\n", "put a two\n"),
    ("empty filled alike", "put a ; new b", "put a one\n; ed b 1 X", "put a one\n"),
    ("empty file added on both", "new b", "put a ", "put a ; ed b 1 X"),
    ("empty file renamed", "put a ; new b", "mv a c", "ed b 1 X"),
    ("empty file renamed and filled", "put a ; new b", "mv a c", "put a text\n"),
    ("empty added against full", "new b", "put a ", "put a text\n"),
    ("binary on both", "put a a\0b\n", "put a a\0c\n", "put a a\0d\n"),
    ("binary on one", "put a a\0b\n; new b", "put a a\0c\n", "ed b 1 X"),
    ("text turned binary", "new a", "put a a\0c\n", "ed a 1 X"),
    // Delete and add.
    ("modify/delete", "new a; new b", "ed a 3 X", "rm a"),
    ("delete/modify", "new a; new b", "rm a", "ed a 3 X"),
    ("delete on both", "new a; new b", "rm a", "rm a; ed b 1 X"),
    ("delete on both, add like it", "new a; new b", "rm a", "mv a c"),
    ("add/add the same", "new b", "new a", "new a; ed b 1 X"),
    ("add/add different", "new b", "new a", "new a other"),
    ("add/add similar", "new b", "new a; ed a 3 X", "new a; ed a 15 Y"),
    ("add/add other mode", "new b", "new a", "new a; x a"),
    ("add/add file and link", "new b", "new a", "ln a b"),
    ("add/add in new directory", "new b", "new d/a; new d/c", "new d/a; new d/e"),
    ("empty side", "new a; new b", "rm a; rm b", "ed a 1 X"),
    ("all gone on both", "new a", "rm a", "rm a; new z"),
    // Renames.
    ("rename against edit", "new a; new b", "mv a c", "ed a 3 X"),
    ("rename and edit against edit", "new a; new b", "mv a c; ed c 10 Y", "ed a 3 X"),
    ("rename and edit the same line", "new a; new b", "mv a c; ed c 3 Y", "ed a 3 X"),
    ("rename against other file", "new a; new b", "mv a c", "ed b 3 X"),
    ("rename against delete", "new a; new b", "mv a c", "rm a"),
    ("rename on both alike", "new a; new b", "mv a c", "mv a c; ed b 1 X"),
    ("rename on both alike with edits", "new a; new b", "mv a c; ed c 1 X", "mv a c; ed c 15 Y"),
    ("rename to two names", "new a; new b", "mv a c", "mv a d"),
    ("rename to two names with edits", "new a; new b", "mv a c; ed c 1 X", "mv a d; ed d 15 Y"),
    ("two renamed to one name", "new a; new b", "mv a c", "mv b c"),
    ("rename onto an added file", "new a; new b", "mv a c", "new c other"),
    ("rename onto the same added file", "new a; new b", "mv a c", "new c a"),
    ("swapped names", "new a; new b", "mv a t; mv b a; mv t b", "ed a 3 X"),
    ("swapped names, plain edit elsewhere", "new a; new b; new c", "mv a t; mv b a; mv t b", "ed c 3 X"),
    ("rotated names", "new a; new b; new c", "mv a t; mv b a; mv c b; mv t c", "ed b 3 X"),
    ("rename chain", "new a; new b", "mv a c; mv b a", "ed b 3 X"),
    ("rename and new file in its place", "new a; new b", "mv a c; new a other", "ed a 3 X"),
    ("rename into directory", "new a; new b", "mv a d/a", "ed a 3 X"),
    ("rename out of directory", "new d/a; new b", "mv d/a a", "ed d/a 3 X"),
    ("rename to below its own name", "new a; new b", "mv a t; mv t a/a", "ed a 3 X"),
    ("rename, half rewritten", "new a; new b", "mv a c; del c 0 9", "ed a 15 X"),
    ("rename, mostly rewritten", "new a; new b", "mv a c; del c 0 14", "ed a 15 X"),
    ("small file renamed and edited", "put a one\ntwo\n; new b", "put c one\nthree\n; rm a", "put a one\ntwo\nfour\n"),
    ("copy against edit", "new a; new b", "cp a c", "ed a 3 X"),
    ("rename and mode", "new a; new b", "mv a c", "x a"),
    ("rename of one of two equals", "new a same; new b same; new z", "mv a c", "ed b 3 X"),
    ("equals renamed apart", "new a same; new b same; new z", "mv a c; mv b d", "ed b 3 X; ed a 15 Y"),
    ("renamed link", "ln a x; new b", "mv a c", "ln a y"),
    ("renamed submodule", "sub s 1; new b", "mv s t", "sub s 2"),
    // Directories.
    ("directory renamed, file added", "new d/a; new d/b; new d/c; new z", "mv d e", "new d/n"),
    ("directory renamed, file edited", "new d/a; new d/b; new z", "mv d e", "ed d/a 3 X"),
    ("directory renamed, file deleted", "new d/a; new d/b; new z", "mv d e", "rm d/a"),
    ("directory renamed, other edited", "new d/a; new d/b; new z", "mv d e", "ed z 3 X"),
    ("directory renamed on both alike", "new d/a; new d/b; new z", "mv d e", "mv d e; new e/n"),
    ("directory renamed apart", "new d/a; new d/b; new z", "mv d e", "mv d f; new f/n"),
    ("directory renamed in part, file added", "new d/a; new d/b; new d/c; new z", "mv d/a e/a; mv d/b e/b", "new d/n"),
    ("directory split evenly, file added", "new d/a; new d/b; new z", "mv d/a e/a; mv d/b f/b", "new d/n"),
    (
        "directory split by majority, file added",
        "new d/a; new d/b; new d/c",
        "mv d/a e/a; mv d/b e/b; mv d/c f/c",
        "new d/n",
    ),
    ("directory renamed and refilled, file added", "new d/a; new d/b", "mv d e; new d/other", "new d/n"),
    ("nested directory renamed, file added", "new d/i/a; new d/i/b; new d/c", "mv d/i d/j", "new d/i/n"),
    ("outer directory renamed, file added inside", "new d/i/a; new d/i/b; new d/c", "mv d e", "new d/i/n"),
    ("directory moved up, file added", "new d/i/a; new d/i/b; new d/c", "mv d/i i", "new d/i/n"),
    ("directory into the other's renamed one", "new d/a; new d/b; new e/c; new e/f", "mv d e/d", "mv e d/e"),
    ("file renamed into a renamed directory", "new d/a; new d/b; new z", "mv d e", "mv z d/z"),
    ("directory emptied, file added", "new d/a; new d/b; new z", "rm d", "new d/n"),
    ("directory merged into another, file added", "new d/a; new d/b; new e/c", "mv d/a e/a; mv d/b e/b", "new d/n"),
    ("added where the directory went", "new d/a; new d/b; new z", "mv d e", "new e/n"),
    ("added in both places", "new d/a; new d/b; new z", "mv d e", "new d/n; new e/n other"),
    ("directory renamed, subdirectory added", "new d/a; new d/b; new z", "mv d e", "new d/s/n; new d/s/m"),
    ("root files moved below, file added", "new a; new b; new c", "mv a d/a; mv b d/b; mv c d/c", "new n"),
    // Files and directories in each other's place.
    ("file to directory", "new a; new b", "rm a; new a/x", "ed b 1 X"),
    ("file to directory against edit", "new a; new b", "rm a; new a/x", "ed a 1 X"),
    ("file against directory, both new", "new b", "new a", "new a/x"),
    ("directory to file against add below", "new x/a; new b", "rm x; new x", "new x/b"),
    ("directory to file against edit below", "new x/a; new b", "rm x; new x", "ed x/a 3 X"),
    ("directory to file against delete below", "new x/a; new x/c; new b", "rm x; new x", "rm x/a"),
    ("directory to file on both", "new x/a; new b", "rm x; new x", "rm x; new x; ed b 1 X"),
    ("file to directory on both", "new a; new b", "rm a; new a/x", "rm a; new a/y"),
    ("file renamed below its own name on both", "new a; new b", "mv a t; mv t a/x", "mv a t; mv t a/y"),
    ("link to directory against add", "ln l b; new b", "rm l; new l/x", "ln l c"),
    ("renamed to where a directory comes", "new a; new b", "mv a x", "new x/n"),
    ("submodule against directory", "new b", "sub s 1", "new s/x"),
    ("submodule against file", "new b", "sub s 1", "new s"),
    // Modes, links, submodules.
    ("mode against edit", "new a", "x a", "ed a 3 X"),
    ("mode and edit against edit", "new a", "x a; ed a 3 X", "ed a 15 Y"),
    ("mode on both alike", "new a; new b", "x a", "x a; ed b 1 X"),
    ("mode against delete", "new a; new b", "x a", "rm a"),
    ("mode off against edit", "new a; x a", "nx a", "ed a 3 X"),
    ("mode against link", "new a; new b", "x a", "ln a b"),
    ("file to link against edit", "new a; new b", "ln a b", "ed a 3 X"),
    ("file to link on both alike", "new a; new b", "ln a b", "ln a b; ed b 1 X"),
    ("file to link on both", "new a; new b", "ln a b", "ln a c"),
    ("file to link alone", "new a; new b", "ln a b", "ed b 1 X"),
    ("link on both", "ln a x; new b", "ln a y", "ln a z"),
    ("link on both alike", "ln a x; new b", "ln a y", "ln a y; ed b 1 X"),
    ("link against delete", "ln a x; new b", "ln a y", "rm a"),
    ("link to file against link", "ln a x; new b", "new a", "ln a y"),
    ("submodule on one side", "sub s 1; new b", "sub s 2", "ed b 1 X"),
    ("submodule on both alike", "sub s 1; new b", "sub s 2", "sub s 2; ed b 1 X"),
    ("submodule on both", "sub s 1; new b", "sub s 2", "sub s 3"),
    ("submodule against delete", "sub s 1; new b", "sub s 2", "rm s"),
    ("submodule added on both", "new b", "sub s 2", "sub s 3"),
    ("submodule to file", "sub s 1; new b", "new s", "sub s 2"),
    ("submodule removed, other edited", "sub s 1; new b", "rm s", "ed b 1 X"),
];

/// Name, settings, history; the last two commits are merged. `@NAME PARENT…: OPERATIONS`.
const HISTORIES: &[(&str, &[&str], &str)] = &[
    (
        "criss-cross, agreed",
        &[],
        "@O: new a; new b\n@A O: ed a 3 X\n@B O: ed b 3 Y\n@C A B: ed b 3 Y; ed a 10 c\n@D B A: ed a 3 X; ed b 10 d",
    ),
    (
        "criss-cross, settled apart",
        &[],
        "@O: new a\n@A O: ed a 3 X\n@B O: ed a 3 Y\n@C A B: ed a 3 X\n@D B A: ed a 3 Y",
    ),
    (
        "criss-cross, one moved on",
        &[],
        "@O: new a\n@A O: ed a 3 X\n@B O: ed a 3 Y\n@C A B: ed a 3 Z\n@D B A: ed a 3 Z; ed a 15 W",
    ),
    (
        "criss-cross with a rename",
        &[],
        "@O: new a; new b\n@A O: mv a c\n@B O: ed a 3 Y\n@C A B: ed c 3 Y; ed c 10 Q\n@D B A: mv a c; ed c 15 W",
    ),
    (
        "criss-cross, conflicting bases, same end",
        &[],
        "@O: new a; new b\n@A O: ed a 3 X\n@B O: ed a 3 Y\n@C A B: ed a 3 Z; ed b 1 c\n@D B A: ed a 3 Z; ed b 15 d",
    ),
    (
        "criss-cross, modify/delete base",
        &[],
        "@O: new a; new b\n@A O: ed a 3 X\n@B O: rm a\n@C A B: ed b 1 c\n@D B A: ed b 15 d",
    ),
    (
        "criss-cross, file and directory",
        &[],
        "@O: new b\n@A O: new a\n@B O: new a/x\n@C A B: ed b 1 c\n@D B A: ed b 15 d",
    ),
    (
        "one merged the other",
        &[],
        "@O: new a\n@A O: ed a 3 X\n@B O: ed a 15 Y\n@C A B: ed a 15 Y; ed a 8 c\n@D B: ed a 17 d",
    ),
    ("one holds the other", &[], "@O: new a\n@A O: ed a 3 X\n@B A: ed a 15 Y"),
    ("no common commit, different files", &[], "@A: new a\n@B: new b\n@C A: new c\n@D B: new d"),
    ("no common commit, same file", &[], "@A: new a\n@B: new a other\n@C A: new c\n@D B: new d"),
    ("reverted on one side", &[], "@O: new a\n@A O: ed a 3 X\n@R A: put a gone\n@B A: ed a 15 Y"),
    (
        "octopus base",
        &[],
        "@O: new a; new b\n@P O: ed a 1 p\n@Q O: ed a 10 q\n@R O: ed b 5 r\n@C P Q R: ed a 10 q; ed b 5 r; ed a 15 c\n@D R Q P: ed a 10 q; ed a 1 p; ed b 15 d",
    ),
    (
        "three best bases",
        &[],
        "@O: new a; new b; new c\n@P O: ed a 1 p\n@Q O: ed b 1 q\n@R O: ed c 1 r\n@C P Q R: ed b 1 q; ed c 1 r; ed a 15 c\n@D R P Q: ed a 1 p; ed b 1 q; ed b 15 d",
    ),
    (
        "merge=union, same line",
        &[],
        "@O: put .gitattributes *.u merge=union\n; new a.u\n@A O: ed a.u 3 X\n@B O: ed a.u 3 Y",
    ),
    (
        "merge=union, both append",
        &[],
        "@O: put .gitattributes *.u merge=union\n; new a.u\n@A O: ins a.u 20 X\n@B O: ins a.u 20 Y",
    ),
    (
        "merge=union, far lines",
        &[],
        "@O: put .gitattributes *.u merge=union\n; new a.u\n@A O: ed a.u 3 X\n@B O: ed a.u 15 Y",
    ),
    (
        "merge=union below",
        &[],
        "@O: put d/.gitattributes *.u merge=union\n; new d/a.u; new a.u\n@A O: ed d/a.u 3 X\n@B O: ed d/a.u 3 Y",
    ),
    (
        "merge=union, rename",
        &[],
        "@O: put .gitattributes *.u merge=union\n; new a.u\n@A O: mv a.u b.u; ed b.u 3 X\n@B O: ed a.u 3 Y",
    ),
    ("merge=binary", &[], "@O: put .gitattributes *.b merge=binary\n; new a.b\n@A O: ed a.b 3 X\n@B O: ed a.b 15 Y"),
    ("binary macro", &[], "@O: put .gitattributes *.b binary\n; new a.b\n@A O: ed a.b 3 X\n@B O: ed a.b 15 Y"),
    ("-merge", &[], "@O: put .gitattributes *.b -merge\n; new a.b\n@A O: ed a.b 3 X\n@B O: ed a.b 15 Y"),
    (
        "merge=text forced",
        &[],
        "@O: put .gitattributes *.b merge\n; put a.b a\0b\n\n\n\nc\n\n@A O: put a.b z\0b\n\n\n\nc\n\n@B O: put a.b a\0b\n\n\n\nd\n",
    ),
    (
        "merge=ours without driver",
        &[],
        "@O: put .gitattributes *.o merge=ours\n; new a.o\n@A O: ed a.o 3 X\n@B O: ed a.o 15 Y",
    ),
    (
        "merge=ours without driver, same line",
        &[],
        "@O: put .gitattributes *.o merge=ours\n; new a.o\n@A O: ed a.o 3 X\n@B O: ed a.o 3 Y",
    ),
    (
        "merge=ours with driver",
        &["merge.ours.driver=true"],
        "@O: put .gitattributes *.o merge=ours\n; new a.o\n@A O: ed a.o 3 X\n@B O: ed a.o 3 Y",
    ),
    (
        "merge=theirs with driver",
        &["merge.theirs.driver=cp %B %A"],
        "@O: put .gitattributes *.o merge=theirs\n; new a.o\n@A O: ed a.o 3 X\n@B O: ed a.o 3 Y",
    ),
    (
        "driver that fails",
        &["merge.no.driver=false"],
        "@O: put .gitattributes *.o merge=no\n; new a.o\n@A O: ed a.o 3 X\n@B O: ed a.o 15 Y",
    ),
    (
        "driver, one side only",
        &["merge.no.driver=false"],
        "@O: put .gitattributes *.o merge=no\n; new a.o; new b\n@A O: ed a.o 3 X\n@B O: ed b 15 Y",
    ),
    (
        "attribute added by ours",
        &[],
        "@O: new a.u\n@A O: put .gitattributes *.u merge=union\n; ed a.u 3 X\n@B O: ed a.u 3 Y",
    ),
    (
        "attribute added by theirs",
        &[],
        "@O: new a.u\n@A O: ed a.u 3 X\n@B O: put .gitattributes *.u merge=union\n; ed a.u 3 Y",
    ),
    ("merge.default=union", &["merge.default=union"], "@O: new a\n@A O: ed a 3 X\n@B O: ed a 3 Y"),
    ("merge.default=binary", &["merge.default=binary"], "@O: new a\n@A O: ed a 3 X\n@B O: ed a 15 Y"),
    (
        "renormalize, crlf against edit",
        &["merge.renormalize=true"],
        "@O: put .gitattributes * text=auto\n; new a; crlf a\n@A O: put .gitattributes * text=auto\n; new a\n@B O: ed a 3 Y",
    ),
    (
        "renormalize, crlf against delete",
        &["merge.renormalize=true"],
        "@O: put .gitattributes * text=auto\n; new a; crlf a; new b\n@A O: new a\n@B O: rm a",
    ),
    (
        "no renormalize, crlf against delete",
        &[],
        "@O: put .gitattributes * text=auto\n; new a; crlf a; new b\n@A O: new a\n@B O: rm a",
    ),
    (
        "renormalize, eol=crlf",
        &["merge.renormalize=true"],
        "@O: put .gitattributes * text eol=crlf\n; new a\n@A O: ed a 3 X\n@B O: ed a 15 Y",
    ),
    (
        "few kinds of lines, a conflict by histogram alone",
        &[],
        "@O: put a c\ne\ne\na\nb\ne\nc\nd\n\n@A O: put a c\ne\ne\nc\nd\ne\na\nb\ne\nc\nd\nc\nd\n\n@B O: put a c\nd\ne\ne\ne\na\nb\ne\na\nb\ne\nc\nd\n",
    ),
    ("diff3 markers", &["merge.conflictStyle=diff3"], "@O: new a\n@A O: ed a 3 X\n@B O: ed a 3 Y"),
    (
        "working-tree-encoding",
        &[],
        "@O: put .gitattributes *.w working-tree-encoding=UTF-16\n; new a.w\n@A O: ed a.w 3 X\n@B O: ed a.w 15 Y",
    ),
];

/// What the answers came to.
#[derive(Default)]
struct Count {
    clean: usize,
    builtin_clean: usize,
    wrong: Vec<String>,
}

impl Count {
    fn case(&mut self, s: &Sandbox, repo: &Path, name: &str, ours: &str, theirs: &str, unrelated: bool) {
        // Where git refuses histories without a common commit, only our own engine is asked.
        let git = if unrelated { None } else { oracle(s, repo, ours, theirs) };
        self.clean += usize::from(git.is_some());
        for engine in [MergeEngine::Auto, MergeEngine::Git, MergeEngine::Builtin] {
            if unrelated && engine != MergeEngine::Builtin {
                continue;
            }
            let merge = match merge_commits(repo, ours, theirs, engine, false) {
                Ok(merge) => merge,
                Err(error) => {
                    self.wrong.push(format!("{name}, {engine:?}: {error}"));
                    continue;
                }
            };
            let mut problem = wrong(git.as_deref(), &merge);
            if engine == MergeEngine::Builtin {
                self.builtin_clean += usize::from(merge.result.is_ok());
            } else if git.is_some() && merge.result.is_err() {
                problem = Some("conflict where git is clean");
            }
            if let Some(problem) = problem {
                self.wrong.push(format!("{name}, {engine:?}, by {}: {problem}", merge.engine));
            }
        }
    }
}

#[test]
fn every_engine_answers_as_git_or_conflicts() {
    let s = Sandbox::new();
    let repo = empty_repo(&s, "three");
    let mut commits = Vec::new();
    for (_, base, ours, theirs) in THREE {
        let first = commits.len();
        for mut commit in parse(&format!("@O: {base}\n@A O: {ours}\n@B O: {theirs}")) {
            commit.parents.iter_mut().for_each(|parent| *parent += first);
            commits.push(commit);
        }
    }
    let ids = import(&s, &repo, &commits);
    let mut count = Count::default();
    for ((name, ..), ids) in THREE.iter().zip(ids.chunks(3)) {
        count.case(&s, &repo, name, &ids[1], &ids[2], false);
        count.case(&s, &repo, name, &ids[2], &ids[1], false);
    }
    for (number, (name, settings, history)) in HISTORIES.iter().enumerate() {
        let repo = empty_repo(&s, &format!("r{number}"));
        for setting in *settings {
            let (key, value) = setting.split_once('=').expect("a setting");
            s.git(&repo, &["config", key, value]);
        }
        let commits = parse(history);
        let ids = import(&s, &repo, &commits);
        let last = ids.len() - 1;
        for (ours, theirs) in [(last - 1, last), (last, last - 1)] {
            // git reads attributes from the work tree.
            for path in ["d/.gitattributes", ".gitattributes"] {
                let _ = std::fs::remove_file(repo.join(path));
                if let Some((_, content)) = commits[ours].tree.get(path) {
                    write(&repo, path, content);
                }
            }
            let unrelated = commits.iter().filter(|commit| commit.parents.is_empty()).count() > 1;
            count.case(&s, &repo, name, &ids[ours], &ids[theirs], unrelated);
        }
    }
    let Count { clean, builtin_clean, wrong } = count;
    assert!(wrong.is_empty(), "{wrong:#?}");
    let cases = THREE.len() + HISTORIES.len();
    println!("{cases} cases both ways: git clean {clean}, builtin clean {builtin_clean}");
    // Both kinds of answer have to be there for the table to mean something.
    assert!(cases >= 110 && clean > 100 && 2 * cases - clean > 80, "git: {clean} clean of {}", 2 * cases);
    assert!(builtin_clean > 80, "builtin: {builtin_clean} clean of {clean}");
}

/// Old repositories hold trees with modes that git writes no more: it writes them anew where it merges.
#[test]
fn a_tree_with_an_old_mode_is_merged_as_git_does() {
    let s = Sandbox::new();
    let repo = empty_repo(&s, "r");
    let mktree = |entries: &str| {
        let list = s.path("list");
        std::fs::write(&list, entries).expect("written");
        let mut git = s.command("git");
        git.arg("-C").arg(&repo).arg("mktree").stdin(std::fs::File::open(&list).expect("a file"));
        String::from_utf8(git.output().expect("git runs").stdout).expect("an id").trim().to_owned()
    };
    let blob = |text: &str| {
        write(&repo, "content", text);
        s.git(&repo, &["hash-object", "-w", "content"])
    };
    let commit = |one: &str, two: &str, parents: &[&str]| {
        let (old, one, two) = (blob("old\n"), blob(one), blob(two));
        let inner = mktree(&format!("100664 blob {old}\told\n100644 blob {one}\tone\n100644 blob {two}\ttwo\n"));
        assert!(s.git(&repo, &["cat-file", "tree", &inner]).contains("100664"), "the mode is there");
        let tree = mktree(&format!("040000 tree {inner}\td\n"));
        let mut arguments = vec!["-c", "user.name=T", "-c", "user.email=t@example.test", "commit-tree", "-m", "m"];
        arguments.extend(parents.iter().flat_map(|parent| ["-p", *parent]));
        arguments.push(&tree);
        s.git(&repo, &arguments)
    };
    let base = commit("1\n", "2\n", &[]);
    let (ours, theirs) = (commit("ours\n", "2\n", &[&base]), commit("1\n", "theirs\n", &[&base]));
    let git = oracle(&s, &repo, &ours, &theirs);
    assert!(git.is_some());
    for engine in [MergeEngine::Auto, MergeEngine::Git] {
        let merge = merge_commits(&repo, &ours, &theirs, engine, false).expect("an answer");
        assert_eq!((wrong(git.as_deref(), &merge), merge.engine), (None, "git"), "{engine:?}");
    }
}
