//! What the configuration and the attributes files outside a work tree say of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use git2::ErrorCode;

use super::config::Settings;
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

/// Files of ignore rules beyond the directories' own, the first that decides wins. `None` where only git
/// knows them.
pub(crate) fn ignore_files(repo: &Repo) -> Result<Option<Vec<PathBuf>>, GitError> {
    let Settings { config, whole } = Settings::of(repo)?;
    let mut files = vec![repo.common_dir().join("info/exclude")];
    match config.get_path("core.excludesFile") {
        Ok(path) if path.as_os_str().is_empty() => {}
        Ok(path) => files.push(repo.work_dir().join(path)),
        Err(error) if error.code() == ErrorCode::NotFound => {
            files.extend(home_file("ignore"));
        }
        Err(error) => return Err(error).act(|| "cannot read the configuration core.excludesFile".to_owned()),
    }
    // git stops at one that it can open but not read.
    let plain = whole && !files.iter().any(|file| file.is_dir());
    Ok(plain.then_some(files))
}

/// Whether no setting and no attributes file outside the work tree makes git convert content on its
/// way in or out (gitattributes(5)). Attributes files inside the work tree are the caller's to look for.
pub(crate) fn plain_content(repo: &Repo) -> Result<bool, GitError> {
    let act = || "cannot read the configuration".to_owned();
    let Settings { config, whole } = Settings::of(repo)?;
    if !whole {
        return Ok(false);
    }
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
    let act = || "cannot read the configuration".to_owned();
    let Settings { config, whole } = Settings::of(repo)?;
    if !whole || has_system_attributes() {
        return Ok(None);
    }
    // What names are refused, and where attributes are read from, is git's to say then.
    let is_set = |key: &str| config.get_entry(key).err().is_none_or(|error| error.code() != ErrorCode::NotFound);
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

/// Whether a setting or an attribute makes git merge the contents of `paths` in its own way (a merge
/// driver, `union`, `binary`, renormalizing), or may do so where the library can't see it.
pub(crate) fn merges_specially<'a>(repo: &Repo, paths: impl IntoIterator<Item = &'a [u8]>) -> Result<bool, GitError> {
    let act = || "cannot read the configuration of merges".to_owned();
    let Settings { config, whole } = Settings::of(repo)?;
    if !whole || repo.config_bool("merge.renormalize", false)? {
        return Ok(true);
    }
    match config.get_entry("merge.default") {
        Err(error) if error.code() == ErrorCode::NotFound => {}
        Err(error) => return Err(error).act(act),
        Ok(_) => return Ok(true),
    }
    // The library goes by its own view of the configuration.
    let file = |config: &git2::Config| config.get_string("core.attributesFile").ok();
    if file(&config) != file(&repo.library().config().act(act)?) {
        return Ok(true);
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
