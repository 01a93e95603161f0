//! Shapes of the checkout: its index, its HEAD, what git is in the middle of, what is in it beside files.

use std::fs;

use super::{Ends, Row, dirty, loosen, row, run_all};
use crate::support::host::text;
use crate::support::{Sandbox, lines, next_second, read, write};

/// Two branches that both changed `a`, the first checked out.
fn two_branches(sandbox: &Sandbox) -> std::path::PathBuf {
    let parent = sandbox.repo("parent");
    sandbox.git(&parent, &["checkout", "-q", "-b", "other"]);
    write(&parent, "a", lines(&[(0, "other")]));
    sandbox.commit_all(&parent, "other");
    write(&parent, "dir/c", "other\n");
    sandbox.commit_all(&parent, "more");
    sandbox.git(&parent, &["checkout", "-q", "main"]);
    write(&parent, "a", lines(&[(0, "main")]));
    sandbox.commit_all(&parent, "main");
    parent
}

/// A sparse checkout of `dir` only, with an edit in it.
fn sparse(sandbox: &Sandbox, args: &[&str]) -> std::path::PathBuf {
    let parent = sandbox.repo("parent");
    write(&parent, "out/of/cone", "x\n");
    write(&parent, "dir/more", "x\n");
    sandbox.commit_all(&parent, "directories");
    sandbox.git(&parent, &[&["sparse-checkout", "set"][..], args].concat());
    write(&parent, "dir/c", "edited\n");
    write(&parent, "dir/new", "new\n");
    parent
}

fn with_submodule(sandbox: &Sandbox) -> std::path::PathBuf {
    let inner = sandbox.repo("inner");
    let parent = sandbox.repo("parent");
    sandbox.git(&parent, &["-c", "protocol.file.allow=always", "submodule", "add", "-q", text(&inner), "sub"]);
    sandbox.commit_all(&parent, "submodule");
    parent
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("a detached HEAD", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            s.git(&parent, &["checkout", "-q", "--detach"]);
            parent
        }),
        row("a branch with a long and odd name", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            s.git(&parent, &["checkout", "-q", "-b", "wörk/x@a-b_c.d,e=f/9'"]);
            parent
        }),
        row("an unborn branch", Ends::Folds(""), |s| {
            let parent = s.empty_repo("parent");
            write(&parent, "b", "b\n");
            parent
        }),
        row("an unborn branch with staged files", Ends::Folds(""), |s| {
            let parent = s.empty_repo("parent");
            write(&parent, "b", "b\n");
            write(&parent, "dir/c", "c\n");
            s.git(&parent, &["add", "-A"]);
            write(&parent, "b", "b, changed\n");
            parent
        }),
        row("an orphan branch beside a history", Ends::Folds(""), |s| {
            let parent = s.repo("parent");
            s.git(&parent, &["checkout", "-q", "--orphan", "fresh"]);
            parent
        }),
        row("nothing but an empty commit", Ends::Folds(""), |s| {
            let parent = s.empty_repo("parent");
            s.git(&parent, &["commit", "-q", "--allow-empty", "-m", "nothing"]);
            parent
        }),
        row("no index file", Ends::Folds(""), |s| {
            let parent = s.repo("parent");
            fs::remove_file(parent.join(".git/index")).expect("it was there");
            parent
        }),
        row("sparse in cones", Ends::Folds(""), |s| sparse(s, &["dir"])).look(|s, _, parent, child| {
            assert!(!child.join("out").exists());
            let list = |at| s.git(at, &["sparse-checkout", "list"]);
            assert_eq!(list(child), list(parent));
        }),
        // With a rule for what the fold brings: else it would stay off the disk.
        row("sparse without cones", Ends::Folds(""), |s| sparse(s, &["--no-cone", "/dir/*", "!/dir/more", "/new*"]))
            .look(|_, _, _, child| {
                assert!(child.join("dir/c").exists() && !child.join("dir/more").exists() && !child.join("a").exists());
            }),
        row("a sparse index", Ends::Fails(&["sparse index", "git sparse-checkout"]), |s| {
            sparse(s, &["--cone", "--sparse-index", "dir"])
        }),
        row("a split index", Ends::Fails(&["split index", "git update-index --no-split-index"]), |s| {
            let parent = dirty(s, "parent");
            s.git(&parent, &["update-index", "--split-index"]);
            parent
        }),
        row("index version 2", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            s.git(&parent, &["update-index", "--index-version", "2"]);
            parent
        }),
        row("index version 3", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            // A flag beyond the first sixteen makes it so.
            s.git(&parent, &["update-index", "--skip-worktree", "dir/c"]);
            s.git(&parent, &["update-index", "--index-version", "3"]);
            parent
        }),
        row("index version 4", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            s.git(&parent, &["update-index", "--index-version", "4"]);
            parent
        }),
        row("an index with an untracked cache", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            s.git(&parent, &["config", "core.untrackedCache", "true"]);
            s.git(&parent, &["update-index", "--force-untracked-cache"]);
            s.git(&parent, &["status"]);
            parent
        }),
        row("an index without a checksum", Ends::Folds(""), |s| {
            let parent = s.repo("parent");
            s.git(&parent, &["config", "index.skipHash", "true"]);
            loosen(s, &parent);
            s.git(&parent, &["update-index", "--force-write-index"]);
            parent
        }),
        row("feature.manyFiles", Ends::Folds(""), |s| {
            let parent = s.repo("parent");
            s.git(&parent, &["config", "feature.manyFiles", "true"]);
            loosen(s, &parent);
            s.git(&parent, &["update-index", "--force-write-index"]);
            parent
        }),
        row("an index with end-of-entries and offsets", Ends::Folds(""), |s| {
            let parent = s.repo("parent");
            s.git(&parent, &["config", "index.threads", "2"]);
            loosen(s, &parent);
            s.git(&parent, &["update-index", "--force-write-index"]);
            parent
        }),
        row("an fsmonitor hook that fails", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            s.git(&parent, &["config", "core.fsmonitor", "/bin/false"]);
            s.git(&parent, &["update-index", "--fsmonitor"]);
            parent
        }),
        row("skip-worktree and assume-unchanged", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            s.git(&parent, &["update-index", "--skip-worktree", "dir/c"]);
            s.git(&parent, &["update-index", "--assume-unchanged", ".gitignore"]);
            write(&parent, "dir/c", "not to be seen\n");
            parent
        }),
        row("intent to add", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            s.git(&parent, &["add", "-N", "untracked"]);
            parent
        }),
        row("staged removals, renames and modes", Ends::Folds(""), |s| {
            let parent = s.repo("parent");
            s.git(&parent, &["rm", "-q", "a"]);
            s.git(&parent, &["mv", "dir/c", "dir/d"]);
            s.git(&parent, &["update-index", "--chmod=+x", "b"]);
            fs::set_permissions(parent.join("b"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
            s.git(&parent, &["rm", "-q", "--cached", ".gitignore"]);
            parent
        }),
        row("an index locked by another git", Ends::FoldFails(&["index.lock"]), |s| {
            let parent = dirty(s, "parent");
            write(&parent, ".git/index.lock", "");
            parent
        }),
        row("configuration and packed refs locked by another git", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            write(&parent, ".git/config.lock", "");
            write(&parent, ".git/packed-refs.lock", "");
            parent
        }),
        row("in the middle of a merge without conflicts", Ends::FoldFails(&["a merge"]), |s| {
            let parent = s.repo("parent");
            s.git(&parent, &["checkout", "-q", "-b", "other"]);
            write(&parent, "dir/c", "other\n");
            s.commit_all(&parent, "other");
            s.git(&parent, &["checkout", "-q", "main"]);
            s.git(&parent, &["merge", "-q", "--no-ff", "--no-commit", "other"]);
            parent
        }),
        row("in the middle of a merge with conflicts", Ends::Fails(&["unmerged", "(a)"]), |s| {
            let parent = two_branches(s);
            assert_ne!(s.try_git(&parent, &["merge", "-q", "other"]).0, 0);
            parent
        }),
        row("in the middle of a rebase", Ends::FoldFails(&["a rebase"]), |s| {
            let parent = two_branches(s);
            s.git(&parent, &["-c", "sequence.editor=sed -i 1ibreak", "rebase", "-q", "-i", "HEAD~1"]);
            parent
        }),
        row("in the middle of a cherry-pick", Ends::FoldFails(&["a cherry-pick"]), |s| {
            let parent = two_branches(s);
            assert_ne!(s.try_git(&parent, &["cherry-pick", "other~1"]).0, 0);
            write(&parent, "a", lines(&[(0, "resolved")]));
            s.git(&parent, &["add", "a"]);
            parent
        }),
        row("in the middle of a revert", Ends::FoldFails(&["a revert"]), |s| {
            let parent = two_branches(s);
            s.git(&parent, &["revert", "--no-commit", "HEAD"]);
            parent
        }),
        row("in the middle of a bisect", Ends::FoldFails(&["a bisect"]), |s| {
            let parent = two_branches(s);
            s.git(&parent, &["bisect", "start", "other", "other~2"]);
            parent
        }),
        row("a stash", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            s.git(&parent, &["stash", "-q"]);
            write(&parent, "a", lines(&[(4, "after")]));
            parent
        }),
        row("a submodule that is checked out and dirty", Ends::Folds(" M sub"), |s| {
            let parent = with_submodule(s);
            write(&parent, "sub/a", "dirty\n");
            parent
        }),
        row("a submodule that is not checked out", Ends::Folds(""), |s| {
            let parent = with_submodule(s);
            s.git(&parent, &["submodule", "deinit", "-q", "-f", "sub"]);
            parent
        }),
        row("a submodule with its git directory inside", Ends::Folds(""), |s| {
            let parent = with_submodule(s);
            fs::remove_file(parent.join("sub/.git")).expect("it was there");
            fs::rename(parent.join(".git/modules/sub"), parent.join("sub/.git")).expect("moved");
            s.git(&parent, &["config", "--file", "sub/.git/config", "--unset", "core.worktree"]);
            parent
        }),
        row("a submodule that .gitmodules does not know", Ends::Folds(""), |s| {
            let parent = s.repo("parent");
            let inner = s.repo("parent/embedded");
            s.git(&parent, &["-c", "advice.addEmbeddedRepo=false", "add", "embedded"]);
            s.git(&parent, &["commit", "-qm", "embedded"]);
            assert!(inner.join(".git").is_dir());
            parent
        }),
        row("a nested repository", Ends::Folds("?? nested/"), |s| {
            let parent = dirty(s, "parent");
            s.repo("parent/nested");
            parent
        })
        .look(|s, _, parent, child| {
            let head = |at: &std::path::Path| s.git(&at.join("nested"), &["rev-parse", "HEAD", "--show-toplevel"]);
            assert_eq!(head(child).lines().next(), head(parent).lines().next());
            assert!(head(child).ends_with("the child/nested"));
        }),
        row("a nested repository without commits", Ends::Folds("?? nested/"), |s| {
            let parent = dirty(s, "parent");
            let nested = s.empty_repo("parent/nested");
            write(&nested, "x", "x\n");
            parent
        }),
        row("an ignored nested repository", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            s.repo("parent/ignored/nested");
            parent
        })
        .look(|s, _, _, child| assert_eq!(s.git(&child.join("ignored/nested"), &["status", "--porcelain"]), "")),
        row("a bare repository among the files", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            s.git(&parent, &["init", "-q", "--bare", "fixture.git"]);
            parent
        }),
        row("worktrees of this repository inside it", Ends::Folds("?? .claude/worktrees/y/\n?? .worktrees/x/"), |s| {
            let parent = s.repo("parent");
            for place in [".worktrees/x", ".claude/worktrees/y"] {
                s.git(&parent, &["worktree", "add", "-q", "--detach", place]);
            }
            write(&parent, ".claude/settings", "kept\n");
            parent
        })
        .not_shared(&["?? .worktrees/x/", "?? .claude/worktrees/y/"])
        .look(|_, _, _, child| {
            assert_eq!(read(child, ".claude/settings").as_deref(), Some("kept\n"));
            assert!(!child.join(".claude/worktrees/y").exists() && !child.join(".worktrees/x").exists());
        }),
        row("a Parent that changed within this second", Ends::Folds(""), |s| {
            let parent = s.repo("parent");
            next_second();
            write(&parent, "a", lines(&[(0, "same")]));
            s.git(&parent, &["add", "a"]);
            // As long as before, in the same second.
            write(&parent, "a", lines(&[(0, "time")]));
            parent
        }),
    ]
}

#[test]
fn checkouts() {
    run_all(&rows());
}
