//! The configuration as git reads it: also where the environment names other files for the machine's or
//! the user's settings, which the library does not know.

use std::fs;
use std::path::{Path, PathBuf};

use git2::{Config, ConfigLevel, ErrorCode};

use super::repository::Repo;
use super::{Act, GitError};

/// The configuration of a repository.
pub(super) struct Settings {
    pub(super) config: Config,
    /// Whether it may hold settings that count for git alone: the library does not know every condition
    /// of an include, or can't read a file that git can.
    pub(super) whole: bool,
}

/// Whether git is told to leave the configuration of the whole machine out; the library reads it.
fn without_system() -> bool {
    let value = std::env::var("GIT_CONFIG_NOSYSTEM").unwrap_or_default().to_ascii_lowercase();
    !["", "0", "false", "no", "off"].contains(&value.as_str())
}

/// Whether the configuration of the whole machine has what anybody asks [`Settings`] for. Its filters count
/// even where it is left out: a filter too many only makes git store a file.
fn system_decides() -> bool {
    let Ok(path) = Config::find_system() else { return false };
    let read = || -> Result<bool, git2::Error> {
        let config = Config::open(&path)?;
        let sections = "^(attr|author|committer|core|extensions|include|includeif|merge|user)\\.";
        let mut found = config.entries(Some(sections))?;
        Ok(found.next().is_some())
    };
    read().unwrap_or(true)
}

impl Settings {
    /// Reads it (git(1), `GIT_CONFIG_GLOBAL`, `GIT_CONFIG_SYSTEM`, `GIT_CONFIG_NOSYSTEM`).
    pub(super) fn of(repo: &Repo) -> Result<Self, GitError> {
        let act = || "cannot read the configuration".to_owned();
        let given = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let (system, global) = (given("GIT_CONFIG_SYSTEM"), given("GIT_CONFIG_GLOBAL"));
        let own = repo.library().config().act(act)?;
        let conditions = |config: &Config, kind: &str| -> Result<bool, GitError> {
            Ok(config.entries(Some(&format!("^includeif\\.{kind}"))).act(act)?.next().is_some())
        };
        if system.is_none() && global.is_none() && (!without_system() || !system_decides()) {
            let whole = !conditions(&own, "hasconfig:")?;
            return Ok(Self { config: own, whole });
        }
        let mut files = Vec::new();
        if !without_system() {
            files.push((system.or_else(|| Config::find_system().ok()), ConfigLevel::System));
        }
        if let Some(file) = global {
            files.push((Some(file), ConfigLevel::Global));
        } else {
            files.push((Config::find_xdg().ok(), ConfigLevel::XDG));
            files.push((Config::find_global().ok(), ConfigLevel::Global));
        }
        files.push((Some(repo.common_dir().join("config")), ConfigLevel::Local));
        if own.get_bool("extensions.worktreeConfig").unwrap_or(false) {
            files.push((Some(repo.git_dir().join("config.worktree")), ConfigLevel::Worktree));
        }
        let mut config = Config::new().act(act)?;
        let mut whole = true;
        for (file, level) in files {
            match file.as_deref().map(kind_of) {
                Some(Kind::File) => match config.add_file(&file.unwrap_or_default(), level, true) {
                    // It may not be read: git has its own rules for that.
                    Err(error) if error.code() == ErrorCode::NotFound => whole = false,
                    added => added.act(act)?,
                },
                Some(Kind::Empty) | None => {}
                Some(Kind::Other) => whole = false,
            }
        }
        // Read like this a file's conditions are not looked at.
        whole = whole && !conditions(&config, "")?;
        Ok(Self { config, whole })
    }
}

enum Kind {
    File,
    /// Nothing is there, or nothing in it.
    Empty,
    Other,
}

fn kind_of(file: &Path) -> Kind {
    match fs::metadata(file) {
        _ if file == Path::new("/dev/null") || file.as_os_str().is_empty() => Kind::Empty,
        // From where git looks is not from where we do.
        _ if file.is_relative() => Kind::Other,
        Ok(meta) if meta.is_file() => Kind::File,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Kind::Empty,
        _ => Kind::Other,
    }
}
