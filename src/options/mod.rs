//! `isolationOptions`: what a repository (or a host) asks of isolation.

mod exclude;

use std::path::{Path, PathBuf};

pub use exclude::{Excludes, PatternError};

/// The file at the Parent's root that options are read from.
pub const OPTIONS_FILE: &str = "isolationOptions.toml";

/// What is left out where nobody says otherwise.
pub const DEFAULT_EXCLUDES: [&str; 2] = [".env", ".env.*"];

/// Options of isolation and fold.
///
/// ```
/// use isofold::IsolationOptions;
///
/// let options = IsolationOptions::from_toml("exclude = [\"*.pem\"]", None).unwrap();
/// assert_eq!(options.excludes().patterns(), ["*.pem"]);
/// assert_eq!(IsolationOptions::default().excludes().patterns(), [".env", ".env.*"]);
/// let error = IsolationOptions::from_toml("keep = 1", None).unwrap_err();
/// assert_eq!(error.to_string(), "isolationOptions \"keep\" is not one isofold reads (known: exclude).");
/// ```
#[derive(Debug, Clone)]
pub struct IsolationOptions {
    excludes: Excludes,
}

impl Default for IsolationOptions {
    /// The default exclude list, [`DEFAULT_EXCLUDES`].
    fn default() -> Self {
        let excludes = Excludes::new(DEFAULT_EXCLUDES).expect("the default patterns compile");
        Self { excludes }
    }
}

/// Why options can't be used. `Display` is the message of the contract, with file and line where
/// there is one.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// A key that isofold does not know.
    #[error("{}isolationOptions \"{}\" is not one isofold reads (known: exclude).", place(.at.as_ref()), plain(key))]
    UnknownKey {
        /// The key.
        key: String,
        /// Where it stands.
        at: Option<Place>,
    },
    /// `exclude` is not a list of non-empty strings.
    #[error("{}isolationOptions \"exclude\" must be a list of non-empty path patterns.", place(.at.as_ref()))]
    NotAList {
        /// Where it stands.
        at: Option<Place>,
    },
    /// A pattern that can match nothing.
    #[error("{}{source}", place(.at.as_ref()))]
    Pattern {
        /// Which one, and what to write instead.
        source: PatternError,
        /// Where it stands.
        at: Option<Place>,
    },
    /// Neither TOML nor JSON.
    #[error("{}isolationOptions can't be parsed: {why}.", place(.at.as_ref()))]
    Syntax {
        /// The parser's words, on one line.
        why: String,
        /// Where it stands.
        at: Option<Place>,
    },
    /// The file can't be read.
    #[error("isolationOptions file {} can't be read: {source}.", plain(path.to_string_lossy()))]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// A file and, where known, a line (from 1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: Option<usize>,
}

/// Text for a message of one line: control characters as `?`.
fn plain(text: impl AsRef<str>) -> String {
    text.as_ref().chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn place(at: Option<&Place>) -> String {
    match at {
        Some(Place { file, line: Some(line) }) => format!("{}:{line}: ", plain(file.to_string_lossy())),
        Some(Place { file, line: None }) => format!("{}: ", plain(file.to_string_lossy())),
        None => String::new(),
    }
}

impl IsolationOptions {
    /// Options with this exclude list in place of the default.
    ///
    /// # Errors
    /// [`OptionsError::NotAList`] for a blank pattern, [`OptionsError::Pattern`] for one that can
    /// match nothing.
    pub fn with_excludes<S: AsRef<str>>(patterns: impl IntoIterator<Item = S>) -> Result<Self, OptionsError> {
        let patterns: Vec<String> = patterns.into_iter().map(|p| p.as_ref().to_owned()).collect();
        if patterns.iter().any(|p| p.trim().is_empty()) {
            return Err(OptionsError::NotAList { at: None });
        }
        let excludes = Excludes::new(patterns).map_err(|source| OptionsError::Pattern { source, at: None })?;
        Ok(Self { excludes })
    }

    /// The compiled exclude list.
    pub fn excludes(&self) -> &Excludes {
        &self.excludes
    }

    /// Reads TOML text; `file` is named in messages.
    ///
    /// # Errors
    /// [`OptionsError`] with the line of the offending key.
    pub fn from_toml(text: &str, file: Option<&Path>) -> Result<Self, OptionsError> {
        let line_at = |offset: usize| text[..offset.min(text.len())].matches('\n').count() + 1;
        let at = |line: Option<usize>| file.map(|file| Place { file: file.to_owned(), line });
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| OptionsError::Syntax {
            why: one_line(e.message()),
            at: at(e.span().map(|span| line_at(span.start))),
        })?;
        let value = serde_json::to_value(&table)
            .map_err(|e| OptionsError::Syntax { why: one_line(&e.to_string()), at: at(None) })?;
        Self::from_value(&value, |key| at(line_of_key(text, key, '=')))
    }

    /// Reads JSON text: the object itself, or `workLine.isolationOptions` of it.
    ///
    /// # Errors
    /// As [`Self::from_toml`].
    pub fn from_json(text: &str, file: Option<&Path>) -> Result<Self, OptionsError> {
        let at = |line: Option<usize>| file.map(|file| Place { file: file.to_owned(), line });
        let value: serde_json::Value = serde_json::from_str(text).map_err(|e| {
            let why = e.to_string();
            let why = why.rsplit_once(" at line ").map_or(why.as_str(), |(why, _)| why);
            OptionsError::Syntax { why: one_line(why), at: at(Some(e.line())) }
        })?;
        let inner = match value.get("workLine") {
            Some(work_line) => work_line.get("isolationOptions").cloned().unwrap_or_else(|| serde_json::json!({})),
            None => value,
        };
        Self::from_value(&inner, |key| at(line_of_key(text, key, ':')))
    }

    /// Reads a parsed value, as a host that has its own configuration file holds it.
    ///
    /// # Errors
    /// As [`Self::from_toml`], without places.
    pub fn from_json_value(value: &serde_json::Value) -> Result<Self, OptionsError> {
        Self::from_value(value, |_| None)
    }

    /// Reads `path`: JSON where the name ends in `.json` or the text starts with `{`, else TOML.
    ///
    /// # Errors
    /// [`OptionsError`], [`OptionsError::Read`] where there is no such file.
    pub fn from_file(path: &Path) -> Result<Self, OptionsError> {
        let read = |source| OptionsError::Read { path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(read)?;
        if path.extension().is_some_and(|e| e == "json") || text.trim_start().starts_with('{') {
            Self::from_json(&text, Some(path))
        } else {
            Self::from_toml(&text, Some(path))
        }
    }

    /// The options of the Parent at `root`: its [`OPTIONS_FILE`], or the defaults without one.
    ///
    /// # Errors
    /// As [`Self::from_file`].
    pub fn of_parent(root: &Path) -> Result<Self, OptionsError> {
        let path = root.join(OPTIONS_FILE);
        match Self::from_file(&path) {
            Err(OptionsError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                Ok(Self::default())
            }
            other => other,
        }
    }

    fn from_value(value: &serde_json::Value, at: impl Fn(Option<&str>) -> Option<Place>) -> Result<Self, OptionsError> {
        let Some(object) = value.as_object() else {
            return Err(OptionsError::Syntax { why: "a table of options is expected".to_owned(), at: at(None) });
        };
        if let Some(key) = object.keys().find(|key| *key != "exclude") {
            return Err(OptionsError::UnknownKey { key: key.clone(), at: at(Some(key)) });
        }
        let Some(exclude) = object.get("exclude") else {
            return Ok(Self::default());
        };
        let here = || at(Some("exclude"));
        let patterns: Option<Vec<&str>> = exclude
            .as_array()
            .and_then(|list| list.iter().map(|item| item.as_str().filter(|text| !text.trim().is_empty())).collect());
        let patterns = patterns.ok_or_else(|| OptionsError::NotAList { at: here() })?;
        let excludes = Excludes::new(patterns).map_err(|source| OptionsError::Pattern { source, at: here() })?;
        Ok(Self { excludes })
    }
}

/// The first line that starts (TOML) or holds (JSON) `key` before `mark`.
fn line_of_key(text: &str, key: Option<&str>, mark: char) -> Option<usize> {
    let key = key?;
    let found = |line: &str| {
        let quoted = format!("\"{key}\"");
        [key, quoted.as_str()].iter().any(|name| {
            line.find(name).is_some_and(|start| {
                let after = line[start + name.len()..].trim_start();
                let before = line[..start].trim_matches(['{', ',', ' ', '\t', '[', '"']);
                (before.is_empty() || mark == ':') && (after.starts_with(mark) || after.starts_with([']', '.', '"']))
            })
        })
    };
    text.lines().position(found).map(|index| index + 1)
}

fn one_line(text: &str) -> String {
    plain(text.split_whitespace().collect::<Vec<_>>().join(" ").trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toml_error(text: &str) -> String {
        IsolationOptions::from_toml(text, Some(Path::new("isolationOptions.toml"))).expect_err(text).to_string()
    }

    #[test]
    fn messages_name_file_line_and_key() {
        assert_eq!(
            toml_error("\nexclude = []\nfoo = 1\n"),
            "isolationOptions.toml:3: isolationOptions \"foo\" is not one isofold reads (known: exclude)."
        );
        for text in ["exclude = 1", "exclude = [1]", "exclude = [\"\"]", "exclude = [\" \"]", "exclude = \"x\""] {
            assert_eq!(
                toml_error(text),
                "isolationOptions.toml:1: isolationOptions \"exclude\" must be a list of non-empty path patterns."
            );
        }
        assert!(toml_error("# c\nexclude = [\n").starts_with("isolationOptions.toml:"));
        assert!(toml_error("exclude = [\"/x\"]").contains("isolationOptions.toml:1: "));
    }

    #[test]
    fn json_is_the_object_or_a_host_file() {
        let plain = IsolationOptions::from_json(r#"{"exclude":["a"]}"#, None).expect("reads");
        assert_eq!(plain.excludes().patterns(), ["a"]);
        let host = r#"{"workLine":{"isolationOptions":{"exclude":[]},"other":1}}"#;
        assert!(IsolationOptions::from_json(host, None).expect("reads").excludes().is_empty());
        let error = IsolationOptions::from_json("{\n \"exclude\": 3}", Some(Path::new("o.json"))).expect_err("refused");
        assert!(error.to_string().starts_with("o.json:2: isolationOptions \"exclude\" must be"));
    }
}
