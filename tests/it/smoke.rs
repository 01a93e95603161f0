//! The main job, once through.

use crate::support::{Sandbox, lines, listing, next_second, read, write};

#[test]
fn isolate_edit_fold_remove() {
    let sandbox = Sandbox::new();
    let parent = sandbox.repo("parent");
    write(&parent, "a", lines(&[(3, "dirty")]));
    write(&parent, "new", "untracked\n");
    write(&parent, "build.log", "ignored\n");
    write(&parent, ".env", "SECRET=1\n");
    next_second();
    let before = sandbox.state(&parent);

    let child = sandbox.isolate(&parent, "child");
    assert!(!child.join(".env").exists());
    assert_eq!(read(&child, "build.log").as_deref(), Some("ignored\n"));
    let without_env: String =
        listing(&parent).lines().filter(|l| !l.starts_with(".env ")).fold(String::new(), |t, l| t + l + "\n");
    assert_eq!(listing(&child).replace(".git ", ""), without_env);
    let kept = |text: &str| {
        text.lines().filter(|l| l.starts_with("new") || l.contains(" file ")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(kept(&sandbox.state(&parent)), kept(&before));

    write(&child, "b", lines(&[(7, "work")]));
    assert_eq!(sandbox.fold(&parent, &child), "fast-forward");
    assert_eq!(read(&parent, "b"), Some(lines(&[(7, "work")])));
    assert_eq!(sandbox.git(&parent, &["status", "--porcelain"]), "?? .env");
    assert_eq!(
        sandbox.git(&parent, &["log", "--format=%s"]),
        "Integration of work\nUncommitted work before: Integration of work\nstart"
    );
    let run = sandbox.isofold([std::ffi::OsStr::new("remove"), "--child".as_ref(), child.as_os_str()]);
    run.expect("removed", 0);
    assert!(!child.exists());
    assert_eq!(sandbox.git(&parent, &["worktree", "list"]).lines().count(), 1);
}
