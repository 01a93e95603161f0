//! A reference line behind real web servers on loopback: what becomes of it in every way that a network
//! can fail, and that the token is nowhere afterwards.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::host::{Running, text, wait_for};
use crate::support::lines::{TOKEN, VARIABLE, Watched, all_gone, forms};
use crate::support::random::number;
use crate::support::servers::{Host, Responder, Server, cut_off, response};
use crate::support::snapshots::say;
use crate::support::{Run, Sandbox, read, write};

/// A sandbox with a talkative machine and a host of `srv/line.git`, and the line's address.
fn line(make: impl FnOnce(&Sandbox, &Path), host: Host<'_>) -> Option<(Sandbox, Server, String)> {
    let sandbox = Sandbox::new();
    sandbox.served("line", |work| make(&sandbox, work));
    let server = sandbox.git_host(host)?;
    sandbox.talkative();
    let scheme = if host.plain { "http" } else { "https" };
    let remote = format!("{scheme}://localhost:{}/git/line.git", server.port);
    Some((sandbox, server, remote))
}

const WITH_TOKEN: Host<'_> = Host { token: Some(TOKEN), expired: false, plain: false };

/// Two branches, a tag, a file with a filter.
fn two_branches(sandbox: &Sandbox, work: &Path) {
    write(work, "a", "one\n");
    write(work, ".gitattributes", "a filter=tell\n");
    sandbox.commit_all(work, "first");
    sandbox.git(work, &["tag", "v1"]);
    sandbox.git(work, &["branch", "other"]);
    write(work, "b", "two\n");
    sandbox.commit_all(work, "second");
}

#[track_caller]
fn fails(run: &Run, words: &str) {
    assert_eq!(run.code, 1, "{run:?}");
    let report = run.stderr.strip_prefix("error: ").and_then(|line| line.strip_suffix('\n')).unwrap_or_default();
    assert!(!report.is_empty() && !report.contains(char::is_control), "{run:?}");
    assert!(report.contains(words), "{words:?} is not in {report:?}");
}

#[test]
fn a_line_is_cloned_pushed_and_fetched_with_the_token() {
    let Some((sandbox, _server, remote)) = line(two_branches, WITH_TOKEN) else { return };
    // However well a helper of the machine fits, it is not asked.
    let helper = text(&sandbox.path("tools/helper")).to_owned();
    for fits in [remote.as_str(), remote.trim_end_matches("/git/line.git")] {
        sandbox.git(&sandbox.path("home"), &["config", "--global", &format!("credential.{fits}.helper"), &helper]);
    }
    sandbox.git(&sandbox.path("home"), &["config", "--global", "credential.useHttpPath", "true"]);
    let run = sandbox.materialize(&remote, "main", Some(TOKEN));
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{run:?}");
    let copy = sandbox.copy();
    // The filter ran, without the token; no helper, no prompt, no hook, no trace did.
    assert_eq!(sandbox.told(), ["filter"]);
    let seen = read(&sandbox.path("told"), "filter").expect("an environment");
    assert!(
        seen.contains("\nLC_ALL=C\n") && !seen.contains(VARIABLE.to_owned().as_str())
            || !seen.contains(&format!("\n{VARIABLE}=")),
        "{seen}"
    );
    assert!(seen.contains("GIT_AUTHOR_NAME=Line Bot"), "{seen}");
    assert_eq!(read(&copy, "b").as_deref(), Some("two\n"));
    assert_eq!(fs::read_dir(sandbox.path("made")).expect("readable").count(), 1);
    let refs = sandbox.git(&copy, &["for-each-ref", "--format=%(refname)"]);
    assert_eq!(refs, "refs/heads/main\nrefs/remotes/origin/HEAD\nrefs/remotes/origin/main");
    assert_eq!(sandbox.git(&copy, &["config", "remote.origin.url"]), remote);
    assert_eq!(sandbox.git(&copy, &["status", "--porcelain=v2", "--branch"]).lines().count(), 4);
    assert_eq!(sandbox.git(&copy, &["status", "--porcelain"]), "");
    sandbox.git(&copy, &["fsck"]);

    // A real git pushes and fetches with what `env` prints.
    write(&copy, "c", "three\n");
    let (code, said) = sandbox.acting_git(&copy, None, &["add", "c"]);
    assert_eq!(code, 0, "{said}");
    let (code, said) = sandbox.acting_git(&copy, None, &["commit", "-q", "-m", "third"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(
        sandbox.git(&copy, &["log", "-1", "--format=%an %ae %cn %ce"]),
        "Line Bot bot@line.test Line Bot bot@line.test"
    );
    let (code, said) = sandbox.acting_git(&copy, None, &["push", "-q", "origin", "main"]);
    assert!(code != 0 && said.contains("told us to quit"), "{code} {said}");
    let (code, said) = sandbox.acting_git(&copy, Some(TOKEN), &["push", "-q", "origin", "main"]);
    assert_eq!((code, said.as_str()), (0, ""));
    let bare = sandbox.path("srv/line.git");
    assert_eq!(sandbox.git(&bare, &["rev-parse", "main"]), sandbox.git(&copy, &["rev-parse", "main"]));
    sandbox.git(&bare, &["update-ref", "refs/heads/main", "main~1"]);
    let (code, said) = sandbox.acting_git(&copy, Some(TOKEN), &["fetch", "-q", "origin"]);
    assert_eq!((code, said.as_str()), (0, ""));
    assert_eq!(sandbox.git(&copy, &["rev-parse", "origin/main"]), sandbox.git(&copy, &["rev-parse", "main~1"]));
    let (code, said) = sandbox.acting_git(&copy, Some("wrong"), &["fetch", "-q", "origin"]);
    assert!(code != 0 && said.contains("Authentication failed"), "{code} {said}");
    // The hooks were those of the tests' own git and of the server.
    assert_eq!(sandbox.told(), ["filter", "hook"]);
    sandbox.no_token_lies_around();
}

#[test]
fn a_wrong_token_and_none_at_all() {
    let Some((sandbox, server, remote)) = line(two_branches, Host { token: Some("another"), ..WITH_TOKEN }) else {
        return;
    };
    let run = sandbox.materialize(&remote, "main", Some(TOKEN));
    fails(&run, &format!("cannot reach {remote}: Authentication failed for '{remote}"));
    for token in [None, Some("")] {
        let run = sandbox.materialize(&remote, "main", token);
        let why = format!("it wants credentials, and the environment variable {VARIABLE} is not set");
        fails(&run, &format!("cannot reach {remote}: {why}"));
    }
    assert_eq!(sandbox.told(), [""; 0]);
    drop(server);
    fails(&sandbox.materialize(&remote, "main", Some(TOKEN)), &format!("cannot reach {remote}: unable to access"));
}

#[test]
fn an_expired_certificate_and_an_unknown_authority() {
    let Some((sandbox, _server, remote)) = line(two_branches, Host { expired: true, ..WITH_TOKEN }) else { return };
    fails(&sandbox.materialize(&remote, "main", Some(TOKEN)), "certificate");
    let good = sandbox.git_host(WITH_TOKEN).expect("a host");
    let remote = format!("https://localhost:{}/git/line.git", good.port);
    sandbox.git(&sandbox.path("home"), &["config", "--global", "http.sslCAInfo", "/dev/null"]);
    fails(&sandbox.materialize(&remote, "main", Some(TOKEN)), &format!("cannot reach {remote}: "));
    assert_eq!(sandbox.told(), [""; 0]);
}

#[test]
fn a_branch_that_is_not_there() {
    let Some((sandbox, _server, remote)) = line(two_branches, WITH_TOKEN) else { return };
    for branch in ["maim", "v1", "mai", "refs/heads/main"] {
        let run = sandbox.materialize(&remote, branch, Some(TOKEN));
        assert_eq!(run.stderr, format!("error: {remote} has no branch \"{branch}\". It has: main, other\n"));
    }
    let empty = remote.replace("line.git", "empty.git");
    sandbox.git(&sandbox.path("srv"), &["init", "-q", "--bare", "empty.git"]);
    let run = sandbox.materialize(&empty, "main", Some(TOKEN));
    assert_eq!(run.stderr, format!("error: {empty} has no branch \"main\". It has no branches\n"));
    let none = remote.replace("line.git", "none.git");
    fails(&sandbox.materialize(&none, "main", Some(TOKEN)), &format!("cannot reach {none}: "));
}

#[test]
fn a_connection_that_breaks_off() {
    let noise = |sandbox: &Sandbox, work: &Path| {
        fs::write(work.join("noise"), noise(3 << 20)).expect("a file");
        sandbox.commit_all(work, "noise");
    };
    let Some((sandbox, server, remote)) = line(noise, WITH_TOKEN) else { return };
    let through = |after: u64| {
        let port = cut_off(server.port, after);
        remote.replace(&format!(":{}/", server.port), &format!(":{port}/"))
    };
    // In the handshake, and in the middle of the objects.
    for after in [100, 1 << 20] {
        let remote = through(after);
        fails(&sandbox.materialize(&remote, "main", Some(TOKEN)), &format!("cannot reach {remote}: "));
    }
    let whole = through(u64::MAX);
    assert_eq!(sandbox.materialize(&whole, "main", Some(TOKEN)).code, 0);
}

/// Bytes that nothing compresses.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..bytes / 8).flat_map(|_| next()).collect()
}

#[test]
fn two_hundred_megabytes() {
    let big = |sandbox: &Sandbox, work: &Path| {
        let part = noise(4 << 20);
        for name in ["x", "y"] {
            let mut file = fs::File::create(work.join(name)).expect("a file");
            file.write_all(name.as_bytes()).expect("written");
            // Further apart than anything that compresses looks back.
            for _ in 0..25 {
                file.write_all(&part).expect("written");
            }
        }
        for (key, value) in [("core.compression", "0"), ("core.bigFileThreshold", "1m")] {
            sandbox.git(work, &["config", key, value]);
        }
        sandbox.commit_all(work, "big");
        fs::remove_file(work.join("x")).expect("removed");
        fs::remove_file(work.join("y")).expect("removed");
    };
    let Some((sandbox, _server, remote)) = line(big, WITH_TOKEN) else { return };
    // Interrupted, and at the clock, in the middle of it.
    let room = || {
        let rooms = fs::read_dir(sandbox.path("made")).into_iter().flatten().flatten();
        rooms.map(|room| room.path().join("copy/.git/objects/pack")).any(|pack| {
            let packs = fs::read_dir(pack).into_iter().flatten().flatten();
            packs.map(|file| file.metadata().map_or(0, |meta| meta.len())).sum::<u64>() > 8 << 20
        })
    };
    let mut took = Vec::new();
    for round in 0..number("ISOFOLD_STOP_ROUNDS", 2) {
        let running = Watched::start(sandbox.materializing(&remote, "main", Some(TOKEN)));
        wait_for("the objects", room);
        let since = Instant::now();
        Running::signal_to(running.pid(), if round % 2 == 0 { "INT" } else { "TERM" });
        let (run, ended) = running.finish_at(&sandbox);
        took.push(ended - since);
        assert_eq!((run.code, run.stderr.as_str()), (1, "error: Interrupted; no copy was made.\n"), "{run:?}");
        sandbox.nothing_was_made();
        all_gone(&sandbox.path("made"));
    }
    took.sort();
    let (median, longest) = (took[took.len() / 2], took[took.len() - 1]);
    say!("{} stops, removal of what was made included: median {median:?}, longest {longest:?}", took.len());
    assert!(longest < Duration::from_secs(1), "it took {longest:?} to stop");
    let mut command = sandbox.materializing(&remote, "main", Some(TOKEN));
    command.args(["--json", "--duration-ms", "400"]);
    let run = Watched::start(command).finish(&sandbox);
    assert_eq!(run.stdout, "{\"kind\":\"failed\",\"reason\":\"The clock fired; no copy was made.\"}\n", "{run:?}");
    assert_eq!(run.code, 1);
    sandbox.nothing_was_made();
    all_gone(&sandbox.path("made"));
    // What a killed one leaves is taken away by the next.
    let running = Watched::start(sandbox.materializing(&remote, "main", Some(TOKEN)));
    wait_for("the objects", room);
    Running::signal_to(running.pid(), "KILL");
    drop(running.finish(&sandbox));
    assert_eq!(fs::read_dir(sandbox.path("made")).expect("left").count(), 1);
    assert_eq!(sandbox.materialize(&remote, "main", Some(TOKEN)).code, 0);
    let left: Vec<_> = fs::read_dir(sandbox.path("made")).expect("made").flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["copy"]);
    let size = |name: &str| fs::metadata(sandbox.copy().join(name)).expect("a file").len();
    assert_eq!((size("x"), size("y")), ((100 << 20) + 1, (100 << 20) + 1));
}

#[test]
fn a_redirect_gives_the_token_to_nobody_else() {
    // Before the token is asked for, and after it was given; to another name, and to another port.
    for (asks_first, host) in [(false, "localhost"), (true, "localhost"), (false, "127.0.0.1"), (true, "127.0.0.1")] {
        let sandbox = Sandbox::new();
        sandbox.talkative();
        let wants = |_: &str| response("401 Unauthorized", &["WWW-Authenticate: Basic realm=\"git\""], "");
        let other = Responder::start(wants);
        let to = format!("http://{host}:{}", other.port);
        let answer = move |head: &str| {
            let path = head.split(' ').nth(1).unwrap_or("/").to_owned();
            if asks_first && !head.to_ascii_lowercase().contains("authorization: basic") {
                return response("401 Unauthorized", &["WWW-Authenticate: Basic realm=\"git\""], "");
            }
            response("302 Found", &[&format!("Location: {to}{path}")], "")
        };
        let first = Responder::start(answer);
        let remote = format!("http://127.0.0.1:{}/r.git", first.port);
        fails(&sandbox.materialize(&remote, "main", Some(TOKEN)), &format!("cannot reach {remote}: "));
        let heads = other.heads();
        assert!(!heads.is_empty(), "nobody followed to {host}");
        assert!(!heads.concat().to_ascii_lowercase().contains("authorization"), "{heads:?}");
        // The one whose token it is was asked, and got it.
        assert_eq!(first.heads().concat().contains("Authorization: Basic"), asks_first);
        assert_eq!(sandbox.told(), [""; 0]);
    }
}

#[test]
fn what_a_server_repeats_is_not_passed_on() {
    let sandbox = Sandbox::new();
    sandbox.talkative();
    let repeat = |head: &str| {
        let given = head.lines().find(|line| line.to_ascii_lowercase().starts_with("authorization: basic"));
        match given {
            None => response("401 Unauthorized", &["WWW-Authenticate: Basic realm=\"git\""], ""),
            Some(given) => {
                let body = format!("no: {given}\nyour token {TOKEN} is bad\u{1b}[31m\n");
                response("403 Forbidden", &["Content-Type: text/plain"], &body)
            }
        }
    };
    let server = Responder::start(repeat);
    let remote = format!("http://localhost:{}/r.git", server.port);
    let run = sandbox.materialize(&remote, "main", Some(TOKEN));
    fails(&run, "your token *** is bad");
    assert!(server.heads().concat().contains("Authorization: Basic"));
}

#[test]
fn a_submodule_elsewhere_gets_nothing() {
    let sandbox = Sandbox::new();
    let wants = |_: &str| response("401 Unauthorized", &["WWW-Authenticate: Basic realm=\"git\""], "");
    let other = Responder::start(wants);
    sandbox.served("line", |work| {
        two_branches(&sandbox, work);
        let address = format!("http://127.0.0.1:{}/sub.git", other.port);
        write(work, ".gitmodules", format!("[submodule \"sub\"]\n\tpath = sub\n\turl = {address}\n"));
        let id = sandbox.git(work, &["rev-parse", "HEAD"]);
        sandbox.git(work, &["add", ".gitmodules"]);
        sandbox.git(work, &["update-index", "--add", "--cacheinfo", &format!("160000,{id},sub")]);
        sandbox.git(work, &["commit", "-q", "-m", "sub"]);
    });
    let Some(server) = sandbox.git_host(Host { plain: true, ..WITH_TOKEN }) else { return };
    sandbox.talkative();
    sandbox.git(&sandbox.path("home"), &["config", "--global", "submodule.recurse", "true"]);
    let remote = format!("http://127.0.0.1:{}/git/line.git", server.port);
    assert_eq!(sandbox.materialize(&remote, "main", Some(TOKEN)).code, 0);
    assert!(other.heads().is_empty(), "a submodule was asked for");
    let (code, said) = sandbox.acting_git(&sandbox.copy(), Some(TOKEN), &["submodule", "update", "--init"]);
    assert!(code != 0 && said.contains("into submodule path"), "{code} {said}");
    let heads = other.heads();
    assert!(!heads.is_empty() && forms().iter().all(|form| !heads.concat().contains(form)), "{heads:?}");
    sandbox.no_token_lies_around();
}

#[test]
fn an_open_line_needs_no_token() {
    let Some((sandbox, _server, remote)) = line(two_branches, Host { token: None, ..WITH_TOKEN }) else { return };
    assert_eq!(sandbox.materialize(&remote, "other", None).code, 0);
    assert_eq!(sandbox.git(&sandbox.copy(), &["symbolic-ref", "HEAD"]), "refs/heads/other");
    // And it is not made twice.
    let before = sandbox.state(&sandbox.copy());
    let run = Watched::start(sandbox.materializing(&remote, "other", None)).finish(&sandbox);
    let copy = sandbox.copy();
    assert_eq!(
        run.stderr,
        format!("error: {} exists already; isofold makes a copy only where nothing is\n", text(&copy))
    );
    assert_eq!(sandbox.state(&copy), before);
}
