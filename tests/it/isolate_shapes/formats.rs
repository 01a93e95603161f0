//! Shapes of the repository: where its parts are, and in which form.

use std::fs;
use std::os::unix::fs::symlink;

use super::{Ends, Row, dirty, loosen, row, run_all};
use crate::support::host::text;
use crate::support::{Sandbox, write};

/// A clone of a fresh repository with a few commits, with these arguments.
fn clone(sandbox: &Sandbox, args: &[&str]) -> std::path::PathBuf {
    let origin = sandbox.repo("origin");
    for number in 0..3 {
        write(&origin, "b", format!("{number}\n"));
        sandbox.commit_all(&origin, "more");
    }
    sandbox.git(&origin, &["config", "uploadpack.allowFilter", "true"]);
    let parent = sandbox.path("parent");
    let url = format!("file://{}", text(&origin));
    let url = if args.iter().any(|arg| arg.starts_with("--shared") || arg.starts_with("--local")) {
        text(&origin).to_owned()
    } else {
        url
    };
    let all = [&["clone", "-q"][..], args, &[url.as_str(), text(&parent)]].concat();
    sandbox.git(&sandbox.path(""), &all);
    identify(sandbox, &parent);
    parent
}

fn identify(sandbox: &Sandbox, repo: &std::path::Path) {
    sandbox.git(repo, &["config", "user.name", "Test"]);
    sandbox.git(repo, &["config", "user.email", "test@example.test"]);
}

/// A repository made with these arguments of `git init`.
fn init(sandbox: &Sandbox, args: &[&str]) -> std::path::PathBuf {
    let parent = sandbox.path("parent");
    let all = [&["init", "-q", "-b", "main"][..], args, &[text(&parent)]].concat();
    sandbox.git(&sandbox.path(""), &all);
    identify(sandbox, &parent);
    write(&parent, "b", "b\n");
    write(&parent, "a", "a\n");
    write(&parent, ".gitignore", "*.log\nignored/\n");
    sandbox.commit_all(&parent, "start");
    loosen(sandbox, &parent);
    parent
}

/// The same, with settings of `git config`.
fn configured(sandbox: &Sandbox, settings: &[(&str, &str)]) -> std::path::PathBuf {
    let parent = dirty(sandbox, "parent");
    for (key, value) in settings {
        sandbox.git(&parent, &["config", key, value]);
    }
    parent
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("a plain repository", Ends::Folds(""), |s| dirty(s, "parent")),
        row("a linked worktree", Ends::Folds(""), |s| {
            let main = s.repo("main");
            let parent = s.path("parent");
            s.git(&main, &["worktree", "add", "-q", "-b", "topic", text(&parent)]);
            loosen(s, &parent);
            parent
        }),
        row("a linked worktree whose links are relative", Ends::Folds(""), |s| {
            let main = s.repo("main");
            let parent = s.path("parent");
            s.git(&main, &["worktree", "add", "-q", "-b", "topic", text(&parent)]);
            write(&parent, ".git", "gitdir: ../main/.git/worktrees/parent\n");
            loosen(s, &parent);
            parent
        }),
        row("a worktree of a bare repository", Ends::Folds(""), |s| {
            let main = s.repo("main");
            let (bare, parent) = (s.path("bare.git"), s.path("parent"));
            s.git(&s.path(""), &["clone", "-q", "--bare", text(&main), text(&bare)]);
            identify(s, &bare);
            s.git(&bare, &["worktree", "add", "-q", "-b", "topic", text(&parent)]);
            loosen(s, &parent);
            parent
        }),
        row("a worktree beside a hidden bare repository", Ends::Folds(""), |s| {
            // project/.bare, project/.git leads there, project/parent is a worktree.
            let main = s.repo("main");
            let bare = s.path("project/.bare");
            s.git(&s.path(""), &["clone", "-q", "--bare", text(&main), text(&bare)]);
            identify(s, &bare);
            write(&s.path("project"), ".git", "gitdir: ./.bare\n");
            let parent = s.path("project/parent");
            s.git(&bare, &["worktree", "add", "-q", "-b", "topic", text(&parent)]);
            loosen(s, &parent);
            parent
        }),
        row("a bare repository", Ends::Fails(&["bare repository", "worktrees"]), |s| {
            let main = s.repo("main");
            let bare = s.path("bare.git");
            s.git(&s.path(""), &["clone", "-q", "--bare", text(&main), text(&bare)]);
            bare
        }),
        row("no repository", Ends::Fails(&["not a git repository", "git init"]), |s| {
            let parent = s.path("parent");
            write(&parent, "a", "a\n");
            parent
        }),
        row("a subdirectory of a repository", Ends::Invalid(&["only a subdirectory", "name its root"]), |s| {
            dirty(s, "parent").join("dir")
        }),
        row("a separate git directory", Ends::Folds(""), |s| {
            let git_dir = s.path("apart.git");
            init(s, &["--separate-git-dir", text(&git_dir)])
        }),
        row("a .git that is a link", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            fs::rename(parent.join(".git"), s.path("apart.git")).expect("moved");
            symlink(s.path("apart.git"), parent.join(".git")).expect("a link");
            parent
        }),
        row("core.worktree that names itself", Ends::Folds(""), |s| {
            let place = s.path("parent");
            configured(s, &[("core.worktree", text(&place))])
        }),
        row("core.worktree that leads elsewhere", Ends::Invalid(&["name its root"]), |s| {
            let place = s.path("elsewhere");
            fs::create_dir(&place).expect("a directory");
            configured(s, &[("core.worktree", text(&place))])
        }),
        row("a Child of a Child", Ends::Folds(""), |s| {
            let first = dirty(s, "first");
            let parent = s.isolate(&first, "parent");
            write(&parent, "b", "b, changed in the Child\n");
            parent
        }),
        row("a submodule's checkout", Ends::Folds(""), |s| {
            let inner = s.repo("inner");
            let outer = s.repo("outer");
            s.git(&outer, &["-c", "protocol.file.allow=always", "submodule", "add", "-q", text(&inner), "sub"]);
            s.commit_all(&outer, "submodule");
            let parent = outer.join("sub");
            identify(s, &parent);
            loosen(s, &parent);
            parent
        }),
        row("a symbolic link to the Parent", Ends::Folds(""), |s| {
            let real = dirty(s, "real");
            let parent = s.path("parent");
            symlink(real, &parent).expect("a link");
            parent
        }),
        row("alternates", Ends::Folds(""), |s| clone(s, &["--shared"])),
        row("alternates by a relative path", Ends::Folds(""), |s| {
            let parent = clone(s, &["--shared"]);
            write(&parent, ".git/objects/info/alternates", "../../../origin/.git/objects\n");
            parent
        }),
        row("a shallow clone", Ends::Folds(""), |s| clone(s, &["--depth=1"])),
        row("a shallow clone of two commits", Ends::Folds(""), |s| clone(s, &["--depth=2"])),
        row("a single-branch clone without tags", Ends::Folds(""), |s| clone(s, &["--single-branch", "--no-tags"])),
        row("a partial clone without blobs", Ends::Folds(""), |s| clone(s, &["--filter=blob:none"])),
        row("a partial clone without trees", Ends::Folds(""), |s| clone(s, &["--filter=tree:0"])),
        row("extensions.partialClone", Ends::Fails(&["partial clone", "extensions.partialClone", "--refetch"]), |s| {
            let parent = clone(s, &["--filter=blob:none"]);
            s.git(&parent, &["config", "core.repositoryFormatVersion", "1"]);
            s.git(&parent, &["config", "extensions.partialClone", "origin"]);
            parent
        }),
        row("SHA-256 objects", Ends::Fails(&["SHA-256", "extensions.objectFormat"]), |s| {
            init(s, &["--object-format=sha256"])
        }),
        row("SHA-1 objects said outright", Ends::Folds(""), |s| {
            configured(s, &[("core.repositoryFormatVersion", "1"), ("extensions.objectFormat", "sha1")])
        }),
        row("reftable refs", Ends::Fails(&["reftable", "extensions.refStorage", "git refs migrate"]), |s| {
            init(s, &["--ref-format=reftable"])
        }),
        row("refs as files said outright", Ends::Fails(&["extensions.refStorage"]), |s| {
            configured(s, &[("core.repositoryFormatVersion", "1"), ("extensions.refStorage", "files")])
        }),
        row("extensions.relativeWorktrees", Ends::Fails(&["extensions.relativeWorktrees"]), |s| {
            configured(s, &[("core.repositoryFormatVersion", "1"), ("extensions.relativeWorktrees", "true")])
        }),
        row("an extension that nobody knows", Ends::Fails(&["fancy"]), |s| {
            configured(s, &[("core.repositoryFormatVersion", "1"), ("extensions.fancy", "true")])
        }),
        row("a repository format of the future", Ends::Fails(&["version"]), |s| {
            configured(s, &[("core.repositoryFormatVersion", "99")])
        }),
        row("extensions.preciousObjects", Ends::Folds(""), |s| {
            configured(s, &[("core.repositoryFormatVersion", "1"), ("extensions.preciousObjects", "true")])
        }),
        row("extensions.worktreeConfig", Ends::Folds(""), |s| {
            let parent = configured(s, &[("extensions.worktreeConfig", "true")]);
            s.git(&parent, &["config", "--worktree", "core.excludesFile", text(&s.path("only-here"))]);
            write(&s.path(""), "only-here", "untracked\n");
            parent
        })
        .look(|s, _, _, child| {
            assert_eq!(s.git(child, &["config", "core.excludesFile"]), text(&s.path("only-here")));
        }),
        row("extensions.worktreeConfig and a bare main repository", Ends::Folds(""), |s| {
            let main = s.repo("main");
            let (bare, parent) = (s.path("bare.git"), s.path("parent"));
            s.git(&s.path(""), &["clone", "-q", "--bare", text(&main), text(&bare)]);
            identify(s, &bare);
            s.git(&bare, &["config", "extensions.worktreeConfig", "true"]);
            s.git(&bare, &["config", "--unset", "core.bare"]);
            write(&bare, "config.worktree", "[core]\n\tbare = true\n");
            s.git(&bare, &["worktree", "add", "-q", "-b", "topic", text(&parent)]);
            loosen(s, &parent);
            parent
        }),
        row("a configuration that includes others", Ends::Folds(""), |s| {
            let parent = configured(s, &[("include.path", "more")]);
            write(&parent, ".git/more", "[core]\n\tfileMode = false\n[user]\n\tname = Included\n");
            parent
        }),
        row("hooks in a relative core.hooksPath, all failing", Ends::Folds(""), |s| {
            let parent = configured(s, &[("core.hooksPath", "hooks")]);
            fail_all_hooks(&parent.join("hooks"));
            s.git(&parent, &["config", "core.hooksPath", "/nowhere"]);
            s.commit_all(&parent, "hooks");
            s.git(&parent, &["config", "core.hooksPath", "hooks"]);
            parent
        }),
        row("hooks in the git directory, all failing", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            fail_all_hooks(&parent.join(".git/hooks"));
            parent
        }),
        row("refs all packed", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            s.git(&parent, &["tag", "v1"]);
            s.git(&parent, &["branch", "issue/shape"]);
            s.git(&parent, &["pack-refs", "--all"]);
            parent
        }),
        row("one pack with bitmap, commit graph and multi-pack index", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            s.git(&parent, &["repack", "-adqb"]);
            s.git(&parent, &["commit-graph", "write", "--reachable"]);
            s.git(&parent, &["multi-pack-index", "write"]);
            parent
        }),
        row("replaced objects", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            s.git(&parent, &["stash", "-q", "-u"]);
            write(&parent, "b", "second\n");
            s.git(&parent, &["commit", "-qam", "second"]);
            s.git(&parent, &["replace", "--graft", "HEAD"]);
            s.git(&parent, &["stash", "pop", "-q", "--index"]);
            parent
        }),
        row("a HEAD that is a link", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            fs::remove_file(parent.join(".git/HEAD")).expect("it was there");
            symlink("refs/heads/main", parent.join(".git/HEAD")).expect("a link");
            parent
        }),
        row("a repository shared by a group", Ends::Folds(""), |s| {
            configured(s, &[("core.sharedRepository", "group"), ("receive.denyNonFastforwards", "true")])
        }),
        row("logAllRefUpdates off", Ends::Folds(""), |s| configured(s, &[("core.logAllRefUpdates", "false")])),
        row("a template's clutter in the git directory", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            for name in ["worktrees/half/HEAD", "worktrees/empty/locked", "branches/x", "isofold/other"] {
                write(&parent, format!(".git/{name}"), "");
            }
            parent
        }),
        row("a branch issue in the way", Ends::Fails(&["refs/heads/issue", "rename or delete"]), |s| {
            let parent = dirty(s, "parent");
            s.git(&parent, &["branch", "issue"]);
            parent
        }),
        row("a git directory without the right to write", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            for path in ["", "objects", "worktrees"] {
                let place = parent.join(".git").join(path);
                fs::create_dir_all(&place).expect("a directory");
                fs::set_permissions(&place, std::os::unix::fs::PermissionsExt::from_mode(0o555)).expect("a mode");
            }
            parent
        })
        .unprivileged(Ends::Fails(&["Permission denied"])),
    ]
}

fn fail_all_hooks(hooks: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    for name in ["post-checkout", "reference-transaction", "post-index-change", "pre-commit", "post-commit"] {
        write(hooks, name, "#!/bin/sh\nexit 1\n");
        fs::set_permissions(hooks.join(name), fs::Permissions::from_mode(0o755)).expect("a mode");
    }
}

#[test]
fn formats() {
    run_all(&rows());
}
