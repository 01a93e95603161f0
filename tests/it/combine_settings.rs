//! Settings: the user's change neither what a merge comes to nor what is told of it, the repository's do,
//! and merge drivers run wherever they are set.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Sandbox, lines, read, write};

/// A Parent that renamed the directory `d` to `e` and edited what it renamed, two more files too, and a
/// file with a name that git would quote; and a Child that works under the old names.
fn pair(s: &Sandbox) -> (PathBuf, PathBuf) {
    let p = s.repo("parent");
    for (directory, names) in [("d", &["one", "two", "three"][..]), ("f", &["four", "five"])] {
        for name in names {
            write(&p, format!("{directory}/{name}"), lines(&[(0, name), (19, name)]));
        }
    }
    write(&p, "ä \"b\"\t", lines(&[]));
    s.commit_all(&p, "more");
    let c = s.isolate(&p, "child");
    s.git(&p, &["mv", "d", "e"]);
    s.git(&p, &["mv", "f/four", "f/cuatro"]);
    s.git(&p, &["mv", "f/five", "f/cinco"]);
    for (name, was) in [("f/cuatro", "four"), ("f/cinco", "five")] {
        write(&p, name, lines(&[(0, was), (3, "parent"), (19, was)]));
        write(&c, format!("f/{was}"), lines(&[(0, was), (15, "child"), (19, was)]));
    }
    write(&c, "d/new", "new\n");
    (p, c)
}

/// What a dry run says, but for the time that it took.
fn foretold(s: &Sandbox, p: &Path, c: &Path, more: &[&str]) -> Value {
    let mut last = s.try_fold(p, c, &[&["--dry-run"], more].concat()).last();
    for time in ["elapsed_ms", "phases_ms"] {
        last.as_object_mut().expect("an object").remove(time);
    }
    last
}

#[test]
fn settings_of_the_user_change_nothing() {
    let s = Sandbox::new();
    let (p, c) = pair(&s);
    let plain = foretold(&s, &p, &c, &[]);
    assert_eq!(plain["outcome"], "conflict", "{plain}");
    let conflicts = plain["conflicts"].as_array().expect("a list");
    assert_eq!((conflicts.len(), &conflicts[0]["kind"]), (1, &json!("directory rename suggested")), "{plain}");
    // The name that git quotes comes as it is, but for what no terminal should see.
    let quoted = "ä \"b\"\t";
    write(&p, quoted, lines(&[(3, "parent")]));
    write(&c, quoted, lines(&[(3, "child")]));
    let plain = foretold(&s, &p, &c, &[]);
    let paths: Vec<&Value> = plain["conflicts"].as_array().expect("a list").iter().map(|c| &c["path"]).collect();
    assert_eq!(paths, [&json!("e/new"), &json!("ä \"b\"?")], "{plain}");
    let settings = [
        "merge.renames=false",
        "diff.renames=false",
        "merge.renameLimit=1",
        "diff.renameLimit=1",
        "merge.directoryRenames=true",
        "merge.directoryRenames=false",
        "merge.conflictStyle=diff3",
        "merge.verbosity=5",
        "merge.verbosity=0",
        "diff.algorithm=none of these",
        "core.quotePath=false",
        "core.commentChar=x",
        "color.ui=always",
        "i18n.logOutputEncoding=UTF-16",
        "i18n.commitEncoding=UTF-16",
        "core.abbrev=4",
        "diff.external=false",
        "diff.noprefix=true",
        "log.showSignature=true",
        "merge.guitool=false",
        "core.pager=false",
    ];
    for setting in settings {
        let (key, value) = setting.split_once('=').expect("a setting");
        s.git(&p, &["config", "--global", key, value]);
        for engine in ["auto", "git"] {
            assert_eq!(foretold(&s, &p, &c, &["--merge-engine", engine]), plain, "{setting}, {engine}");
        }
        s.git(&p, &["config", "--global", "--unset", key]);
    }
}

#[test]
fn settings_of_the_repository_count_as_for_git() {
    let s = Sandbox::new();
    let (p, c) = pair(&s);
    s.commit_all(&p, "parent");
    s.commit_all(&c, "child");
    let head = |directory: &Path| s.git(directory, &["rev-parse", "HEAD"]);
    let (ours, theirs) = (head(&p), head(&c));
    // What some of them come to differs between versions of git: it is asked.
    let cases: [(&[&str], Option<&str>); 7] = [
        (&[], None),
        (&["merge.directoryRenames=true"], Some("e/new")),
        (&["merge.directoryRenames=false"], Some("d/new")),
        (&["merge.directoryRenames=false", "merge.renames=false"], Some("d/new")),
        (&["merge.directoryRenames=false", "diff.renames=false"], Some("d/new")),
        (&["merge.directoryRenames=false", "diff.renames=false", "merge.renames=true"], Some("d/new")),
        (&["merge.directoryRenames=false", "merge.renameLimit=1"], Some("d/new")),
    ];
    let mut outcomes = std::collections::BTreeSet::new();
    // What the user says about the same is not asked.
    for setting in ["merge.renames", "merge.directoryRenames"] {
        s.git(&p, &["config", "--global", setting, "true"]);
    }
    for (settings, place) in cases {
        for setting in settings {
            let (key, value) = setting.split_once('=').expect("a setting");
            s.git(&p, &["config", key, value]);
        }
        // git itself, without a user.
        let mut git = s.command("git");
        git.env("HOME", "/nonexistent").arg("-C").arg(&p).args(["merge-tree", "--write-tree", &ours, &theirs]);
        let output = git.output().expect("git runs");
        let tree = String::from_utf8_lossy(&output.stdout).lines().next().expect("a tree").to_owned();
        let last = foretold(&s, &p, &c, &[]);
        outcomes.insert(last["outcome"].to_string());
        if output.status.code() == Some(0) {
            assert_eq!(last["outcome"], "integrated", "{settings:?}: {last}");
            let changed = s.git(&p, &["diff-tree", "-r", "--name-only", &ours, &tree]);
            assert_eq!(last["changed"], json!(changed.lines().collect::<Vec<_>>()), "{settings:?}: {last}");
            assert!(changed.lines().any(|path| Some(path) == place), "{settings:?}: {changed}");
        } else {
            assert_eq!(last["outcome"], "conflict", "{settings:?}: {last}");
        }
        for setting in settings {
            s.git(&p, &["config", "--unset", setting.split_once('=').expect("a setting").0]);
        }
    }
    assert_eq!(outcomes.len(), 2, "{outcomes:?}");
    s.git(&p, &["config", "merge.directoryRenames", "true"]);
    s.try_fold(&p, &c, &[]).expect("integrated", 0);
    assert_eq!(read(&p, "e/new").as_deref(), Some("new\n"));
    assert_eq!(read(&p, "f/cuatro"), Some(lines(&[(0, "four"), (3, "parent"), (15, "child"), (19, "four")])));
    s.settled(&p, "");
}

#[test]
fn merge_drivers_run_wherever_they_are_set() {
    for scope in ["--local", "--global"] {
        let s = Sandbox::new();
        let p = s.repo("parent");
        write(&p, ".gitattributes", "*.sum merge=sum\n");
        write(&p, "a.sum", "1\n");
        s.commit_all(&p, "more");
        let c = s.isolate(&p, "child");
        write(&p, "a.sum", "3\n");
        write(&c, "a.sum", "6\n");
        let report = s.try_fold(&p, &c, &[]).expect("conflict", 1).report();
        assert!(report.contains("a.sum"), "{report}");
        // Ours and theirs less the base.
        let driver = "echo $(($(cat %A) + $(cat %B) - $(cat %O))) > %A";
        s.git(&p, &["config", scope, "merge.sum.driver", driver]);
        // The library runs no driver, and says so.
        let run = s.try_fold(&p, &c, &["--merge-engine", "builtin"]).expect("conflict", 1);
        assert_eq!(run.last()["conflicts"][0]["kind"], "needs git", "{run:?}");
        let run = s.try_fold(&p, &c, &[]).expect("integrated", 0);
        assert_eq!(run.last()["engine"], "git");
        assert_eq!(read(&p, "a.sum").as_deref(), Some("8\n"));
        s.settled(&p, "");
    }
}
