//! Who makes a commit.

use git2::Signature;

use super::config::Settings;
use super::program::Git;
use super::repository::Repo;
use super::{Act, GitError};
use crate::control::Control;

/// Author and committer of the commits that reach history.
pub(crate) struct Identity {
    pub(crate) author: Signature<'static>,
    pub(crate) committer: Signature<'static>,
}

impl Identity {
    /// The identity of whoever runs this process, exactly as `git commit` in `repo` would take it:
    /// the author of a reference, `GIT_*` variables, then the configuration. `Ok(Err(words))` where git
    /// finds none.
    pub(crate) fn of_user(repo: &Repo, control: &Control) -> Result<Result<Self, String>, GitError> {
        if let Some(known) = Self::plain(repo, control)? {
            return Ok(Ok(known));
        }
        let git = repo.git();
        let author = match ident(&git, "GIT_AUTHOR_IDENT", control)? {
            Ok(author) => author,
            Err(words) => return Ok(Err(words)),
        };
        Ok(ident(&git, "GIT_COMMITTER_IDENT", control)?.map(|committer| Self { author, committer }))
    }

    /// The identity where names and addresses are plainly said, by variables or the configuration;
    /// what git has to work out (a date given, an address made of the host's name) is left to git.
    fn plain(repo: &Repo, control: &Control) -> Result<Option<Self>, GitError> {
        let Settings { config, whole } = Settings::of(repo)?;
        let dated = ["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"].iter().any(|name| std::env::var_os(name).is_some());
        if !whole || dated {
            return Ok(None);
        }
        let given = control.environment();
        let author = given.as_ref().and_then(|environment| environment.author.as_ref());
        let said = |role: &str, what: &str| -> Option<String> {
            let given = author.map(|(name, email)| if what == "name" { name } else { email }.clone());
            let variable =
                given.or_else(|| std::env::var(format!("GIT_{}_{}", role.to_uppercase(), what.to_uppercase())).ok());
            let value = variable.or_else(|| config.get_string(&format!("{role}.{what}")).ok());
            let value = value.or_else(|| config.get_string(&format!("user.{what}")).ok())?;
            // git strips these from the ends.
            let crud = |c: char| c.is_control() || " .,:;<>\"\\'".contains(c);
            let plain = !value.is_empty() && !value.starts_with(crud) && !value.ends_with(crud);
            (plain && !value.contains(['<', '>', '\n'])).then_some(value)
        };
        let sign = |role: &str| -> Option<Signature<'static>> {
            Signature::now(&said(role, "name")?, &said(role, "email")?).ok()
        };
        Ok(sign("author").zip(sign("committer")).map(|(author, committer)| Self { author, committer }))
    }

    /// The identity of commits that stay hidden under `refs/isofold/`.
    pub(crate) fn of_isofold() -> Result<Self, GitError> {
        let own = || Signature::now("isofold", "isofold@localhost").act(|| "cannot make a signature".to_owned());
        Ok(Self { author: own()?, committer: own()? })
    }
}

/// One identity as `git var` prints it: `NAME <EMAIL> SECONDS ZONE`.
fn ident(git: &Git, variable: &str, control: &Control) -> Result<Result<Signature<'static>, String>, GitError> {
    let finished = git.run(["var", variable], None, control)?;
    if finished.code != Some(0) {
        return match finished.failure() {
            // Before its last words git explains how to set one.
            GitError::Program { words, .. } => {
                Ok(Err(words.rsplit_once("fatal: ").map_or(words.clone(), |(_, last)| last.to_owned())))
            }
            other => Err(other),
        };
    }
    let text = String::from_utf8_lossy(&finished.stdout).into_owned();
    let parsed = parse(text.trim_end());
    match parsed {
        Some(signature) => signature.act(|| "cannot make a signature".to_owned()).map(Ok),
        None => Ok(Err(format!("git var {variable} printed {text:?}"))),
    }
}

fn parse(text: &str) -> Option<Result<Signature<'static>, git2::Error>> {
    let (name, rest) = text.rsplit_once(" <")?;
    let (email, when) = rest.rsplit_once("> ")?;
    let (seconds, zone) = when.split_once(' ')?;
    let zone: i32 = zone.parse().ok()?;
    let minutes = zone / 100 * 60 + zone % 100;
    Some(Signature::new(name, email, &git2::Time::new(seconds.parse().ok()?, minutes)))
}
