//! What the configuration and the attributes files outside a work tree say of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use git2::ErrorCode;

use super::repository::Repo;
use super::{Act, GitError, show};

/// Removes keys from a configuration file.
pub(crate) fn drop_settings(file: &Path, keys: &[&str]) -> Result<(), GitError> {
    let act = || format!("cannot change {}", show(file));
    let mut config = git2::Config::open(file).act(act)?;
    for key in keys {
        match config.remove(key) {
            Err(error) if error.code() != ErrorCode::NotFound => return Err(error).act(act),
            _ => {}
        }
    }
    Ok(())
}

/// Files of ignore rules beyond the directories' own, the first that decides wins. `None` where the
/// environment names configuration that the library does not read.
pub(crate) fn ignore_files(repo: &Repo) -> Result<Option<Vec<PathBuf>>, GitError> {
    let outside = ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"];
    let outside = outside.iter().any(|name| std::env::var_os(name).is_some());
    let mut files = vec![repo.common_dir().join("info/exclude")];
    let act = || "cannot read the configuration core.excludesFile".to_owned();
    let config = repo.library().config().act(act)?;
    match config.get_path("core.excludesFile") {
        Ok(path) if path.as_os_str().is_empty() => {}
        Ok(path) => files.push(repo.work_dir().join(path)),
        Err(error) if error.code() == ErrorCode::NotFound => {
            files.extend(home_file("ignore"));
        }
        Err(error) => return Err(error).act(act),
    }
    let only_system =
        std::env::var_os("GIT_CONFIG_GLOBAL").is_none() && std::env::var_os("GIT_CONFIG_SYSTEM").is_none();
    // The variable that switches the system-wide file off changes nothing where that says nothing.
    let mut plain = !outside || (only_system && !system_decides());
    // git stops at one that it can open but not read; and the library does not know such conditions.
    plain &= !files.iter().any(|file| file.is_dir());
    plain &= config.entries(Some("^includeif\\.hasconfig:")).act(act)?.next().is_none();
    Ok(plain.then_some(files))
}

/// Whether no setting and no attributes file outside the work tree makes git convert content on its
/// way in or out (gitattributes(5)). Attributes files inside the work tree are the caller's to look for.
pub(crate) fn plain_content(repo: &Repo) -> Result<bool, GitError> {
    let outside = ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"];
    if outside.iter().any(|name| std::env::var_os(name).is_some()) {
        return Ok(false);
    }
    let act = || "cannot read the configuration".to_owned();
    let config = repo.library().config().act(act)?.snapshot().act(act)?;
    let keys = ["core.autocrlf", "core.eol", "core.attributesFile", "core.symlinks", "core.checkRoundtripEncoding"];
    for key in keys {
        match config.get_entry(key) {
            Err(error) if error.code() == ErrorCode::NotFound => {}
            Err(error) => return Err(error).act(act),
            Ok(entry) if key == "core.autocrlf" && entry.value().is_ok_and(|v| v == "false") => {}
            Ok(entry) if key == "core.symlinks" && entry.value().is_ok_and(|v| v == "true") => {}
            Ok(_) => return Ok(false),
        }
    }
    let mut files = vec![repo.common_dir().join("info/attributes")];
    files.extend(home_file("attributes"));
    Ok(files.iter().all(|file| fs::symlink_metadata(file).is_err()) && !has_system_attributes())
}

/// A user's file of git's, where no setting names another (gitignore(5), gitattributes(5)).
fn home_file(name: &str) -> Option<PathBuf> {
    let home = std::env::var_os("XDG_CONFIG_HOME").filter(|v| !v.is_empty()).map(PathBuf::from);
    let home = home.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config")))?;
    Some(home.join("git").join(name))
}

/// Whether git is told not to read the configuration of the whole machine; the library reads it.
fn without_system() -> bool {
    let value = std::env::var("GIT_CONFIG_NOSYSTEM").unwrap_or_default().to_ascii_lowercase();
    !["", "0", "false", "no", "off"].contains(&value.as_str())
}

/// Whether there are attributes for the whole machine. A git of another prefix has them elsewhere, so
/// which of them counts is git's to say.
fn has_system_attributes() -> bool {
    let files = ["/etc/gitattributes", "/usr/local/etc/gitattributes", "/opt/homebrew/etc/gitattributes"];
    files.iter().any(|file| fs::symlink_metadata(file).is_ok())
}

/// What decides, beside the attributes files of a work tree, how content becomes a blob.
#[derive(Debug, Clone)]
pub(crate) struct Content {
    /// `core.autocrlf`, as `true` or `input`.
    pub(crate) autocrlf: bool,
    /// `core.safecrlf` is `true`.
    pub(crate) safecrlf: bool,
    /// The names of configured filters.
    pub(crate) filters: BTreeSet<Vec<u8>>,
    /// `info/attributes`, which comes before all other attributes files.
    pub(crate) info: PathBuf,
    /// `core.attributesFile`, which comes after them.
    pub(crate) global: Option<PathBuf>,
}

/// Reads how content becomes a blob; `None` where only git knows.
pub(crate) fn content(repo: &Repo) -> Result<Option<Content>, GitError> {
    let outside = ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"].iter().any(|name| std::env::var_os(name).is_some());
    if outside || has_system_attributes() {
        return Ok(None);
    }
    let act = || "cannot read the configuration".to_owned();
    let config = repo.library().config().act(act)?.snapshot().act(act)?;
    // What names are refused, and where attributes are read from, is git's to say then.
    let counts = |level: git2::ConfigLevel| level != git2::ConfigLevel::System || !without_system();
    let is_set = |key: &str| match config.get_entry(key) {
        Ok(entry) => counts(entry.level()),
        Err(error) => error.code() != ErrorCode::NotFound,
    };
    if ["core.protectHFS", "core.protectNTFS", "attr.tree"].into_iter().any(is_set) {
        return Ok(None);
    }
    // A boolean, or the word that stands for `with`; git refuses all else.
    let read = |key: &str, default: bool, word: Option<(&str, bool)>| match config.get_string(key) {
        _ if !is_set(key) => Some(default),
        Ok(value) if word.is_some_and(|(word, _)| value.eq_ignore_ascii_case(word)) => word.map(|(_, with)| with),
        _ => config.get_bool(key).ok(),
    };
    let symlinks = read("core.symlinks", true, None);
    let autocrlf = read("core.autocrlf", false, Some(("input", true)));
    let safecrlf = read("core.safecrlf", false, Some(("warn", false)));
    let (Some(true), Some(autocrlf), Some(safecrlf)) = (symlinks, autocrlf, safecrlf) else { return Ok(None) };
    let mut filters = BTreeSet::new();
    let mut entries = config.entries(Some("^filter\\.")).act(act)?;
    while let Some(entry) = entries.next() {
        let entry = entry.act(act)?;
        if !counts(entry.level()) {
            continue;
        }
        let name = &entry.name_bytes()["filter.".len()..];
        if let Some(dot) = name.iter().rposition(|b| *b == b'.') {
            filters.insert(name[..dot].to_vec());
        }
    }
    let global = match config.get_path("core.attributesFile") {
        _ if !is_set("core.attributesFile") => home_file("attributes"),
        Ok(path) if path.as_os_str().is_empty() => None,
        Ok(path) => Some(repo.work_dir().join(path)),
        Err(_) => return Ok(None),
    };
    let info = repo.common_dir().join("info/attributes");
    Ok(Some(Content { autocrlf, safecrlf, filters, info, global }))
}

/// Whether the system-wide configuration has a setting that a snapshot goes by.
fn system_decides() -> bool {
    let Ok(path) = git2::Config::find_system() else { return false };
    let read = || -> Result<bool, git2::Error> {
        let config = git2::Config::open(&path)?;
        let keys = "^(include\\.|includeif\\.|core\\.(excludesfile|ignorecase|filemode|sparsecheckout)$)";
        let mut found = config.entries(Some(keys))?;
        Ok(found.next().is_some())
    };
    read().unwrap_or(true)
}

/// Whether a setting or an attribute makes git merge the contents of `paths` in its own way (a merge
/// driver, `union`, `binary`, renormalizing), or may do so where the library can't see it.
pub(crate) fn merges_specially<'a>(repo: &Repo, paths: impl IntoIterator<Item = &'a [u8]>) -> Result<bool, GitError> {
    let unread = ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"].iter().filter_map(std::env::var_os);
    if unread.map(PathBuf::from).any(|file| fs::metadata(file).is_ok_and(|meta| meta.is_file())) {
        return Ok(true);
    }
    if repo.config_bool("merge.renormalize", false)? {
        return Ok(true);
    }
    let act = || "cannot read the configuration merge.default".to_owned();
    match repo.library().config().act(act)?.snapshot().act(act)?.get_entry("merge.default") {
        Err(error) if error.code() == ErrorCode::NotFound => {}
        Err(error) => return Err(error).act(act),
        Ok(_) => return Ok(true),
    }
    for path in paths {
        let path = crate::files::as_path(path);
        let found = repo.library().get_attr_bytes(path, "merge", git2::AttrCheckFlags::FILE_THEN_INDEX);
        if found.act(|| format!("cannot read the attributes of {}", show(path)))?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
