//! A reference line behind a real sshd.

use std::fs;

use crate::support::host::text;
use crate::support::lines::{TOKEN, VARIABLE};
use crate::support::servers::Server;
use crate::support::{Sandbox, read, write};

/// A line of one file behind an sshd, and its URL; `None` without one.
fn served_by_ssh(sandbox: &Sandbox) -> Option<(String, Server)> {
    let bare = sandbox.served("line", |work| {
        write(work, "a", "one\n");
        sandbox.commit_all(work, "first");
    });
    sandbox.talkative();
    let server = sandbox.ssh_host()?;
    Some((format!("ssh://127.0.0.1:{}{}", server.port, text(&bare)), server))
}

#[test]
fn a_line_is_cloned_by_ssh_as_the_machine_is_configured() {
    let sandbox = Sandbox::new();
    let Some((remote, _server)) = served_by_ssh(&sandbox) else { return };
    let run = sandbox.materialize(&remote, "main", Some(TOKEN));
    assert_eq!(run.code, 0, "{run:?}\n{}", fs::read_to_string(sandbox.path("secret/ssh/log")).unwrap_or_default());
    assert_eq!(read(&sandbox.copy(), "a").as_deref(), Some("one\n"));
    assert_eq!(sandbox.told(), [""; 0]);
    // ssh has no use for the token, and does not get it.
    let seen = read(&sandbox.path("secret/ssh"), "seen").expect("an environment");
    assert!(seen.contains("LC_ALL=C\n") && !seen.contains(&format!("{VARIABLE}=")), "{seen}");
    let (code, said) = sandbox.acting_git(&sandbox.copy(), None, &["fetch", "-q", "origin"]);
    assert_eq!((code, said.as_str()), (0, ""));
}

#[test]
fn nobody_is_asked_whether_a_host_is_trusted() {
    let sandbox = Sandbox::new();
    let Some((remote, _server)) = served_by_ssh(&sandbox) else { return };
    fs::write(sandbox.path("secret/ssh/known"), "").expect("written");
    let run = sandbox.materialize(&remote, "main", Some(TOKEN));
    let words = format!("error: cannot reach {remote}: ");
    assert!(
        run.code == 1 && run.stderr.starts_with(&words) && run.stderr.contains("Host key verification failed"),
        "{run:?}"
    );
}
