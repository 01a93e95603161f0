//! What a remote has, a copy of one of its branches, and what such a copy says of itself.

use std::ffi::OsString;
use std::path::Path;

use git2::{ConfigLevel, ErrorCode};

use super::program::{Finished, Git, transport};
use super::repository::Repo;
use super::{Act, GitError, one_line};
use crate::control::Control;

/// What a network operation came to: git's words where it failed.
type Answer<T> = Result<Result<T, String>, GitError>;

/// Whether `name` can be the name of a branch.
pub(crate) fn is_branch_name(name: &str) -> bool {
    git2::Branch::name_is_valid(name).unwrap_or(false)
}

/// The branches of a remote, in its own order; with `only` that one or none.
pub(crate) fn branches(remote: &str, only: Option<&str>, control: &Control) -> Answer<Vec<String>> {
    let mut args = words(&["ls-remote", "--heads", "--", remote]);
    let only = only.map(|branch| format!("refs/heads/{branch}"));
    args.extend(only.iter().map(OsString::from));
    let finished = transport(&args, &|_| (), control)?;
    if finished.code != Some(0) {
        return Ok(Err(why(&finished)));
    }
    let text = String::from_utf8_lossy(&finished.stdout);
    let names = text.lines().filter_map(|line| line.split_once('\t')).map(|(_, name)| name);
    // A pattern matches the end of a name, too.
    let names = names.filter(|name| only.as_ref().is_none_or(|only| name == only));
    Ok(Ok(names.filter_map(|name| name.strip_prefix("refs/heads/")).map(str::to_owned).collect()))
}

/// Clones one branch, without tags, submodules or files, into `directory`, which does not exist yet.
pub(crate) fn clone(
    remote: &str,
    branch: &str,
    directory: &Path,
    watch: &dyn Fn(&str),
    control: &Control,
) -> Answer<()> {
    // By the transport even where the remote is a directory: a copy shares nothing with it.
    let mut args = words(&["clone", "--no-local", "--no-checkout", "--single-branch", "--no-tags"]);
    args.extend(words(&["--no-recurse-submodules", "--progress", "--origin", "origin", "--branch", branch, "--"]));
    args.extend([remote.into(), directory.into()]);
    let finished = transport(&args, watch, control)?;
    Ok(if finished.code == Some(0) { Ok(()) } else { Err(why(&finished)) })
}

/// Brings the files of HEAD into a clone that has none yet. Filters run here, so the token is out of
/// their reach.
pub(crate) fn check_out(directory: &Path, control: &Control) -> Result<(), GitError> {
    let git = Git::new(&directory.join(".git"), directory);
    let args = ["read-tree", "--reset", "-u", "--no-recurse-submodules", "HEAD"];
    git.run(args, None, control)?.success().map(drop)
}

fn words(args: &[&str]) -> Vec<OsString> {
    args.iter().map(OsString::from).collect()
}

/// Why a transport failed, without what it said of its progress.
fn why(finished: &Finished) -> String {
    let text = String::from_utf8_lossy(&finished.stderr);
    let progress = |line: &str| {
        line.starts_with("Cloning into ") || line.contains("% (") || line.starts_with("remote: Enumerating objects")
    };
    let lines: Vec<&str> = text.split(['\r', '\n']).map(str::trim).filter(|line| !progress(line)).collect();
    let words = one_line(&lines.join("\n"));
    let words = words.strip_prefix("fatal: ").unwrap_or(&words);
    match (words, finished.code) {
        ("", Some(code)) => format!("git ended with exit code {code}"),
        ("", None) => "git was killed by a signal".to_owned(),
        (words, _) => words.to_owned(),
    }
}

impl Repo {
    /// The address of the remote `origin` as the repository's own configuration spells it.
    pub(crate) fn origin(&self) -> Result<Option<String>, GitError> {
        let act = || "cannot read the configuration of the remote".to_owned();
        let config = self.library().config().act(act)?;
        let config = config.open_level(ConfigLevel::Local).act(act)?;
        let mut entries = match config.multivar("remote.origin.url", None) {
            Err(error) if error.code() == ErrorCode::NotFound => return Ok(None),
            other => other.act(act)?,
        };
        // git fetches from the first.
        let Some(first) = entries.next() else { return Ok(None) };
        let first = first.act(act)?;
        Ok(Some(String::from_utf8_lossy(first.value_bytes()).into_owned()))
    }
}
