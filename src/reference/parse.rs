//! Reading a reference: every key is known and has a value that makes sense, or nothing is read.

use std::path::PathBuf;

use serde_json::{Map, Value};

use super::Reference;
use super::remote::Remote;
use crate::git::{one_line, remote::is_branch_name, show};

const KEYS: [&str; 4] = ["remote", "branch", "credentialEnv", "author"];

/// Why a reference can't be read. No message repeats what may be a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReferenceError {
    /// A key that a reference does not have.
    #[error("unknown key \"{}\" — a git reference has remote, branch, credentialEnv, author", one_line(.0))]
    UnknownKey(String),
    /// A key that a reference must have.
    #[error("missing \"{0}\" — a git reference has remote, branch")]
    Missing(&'static str),
    /// Another type, or blank.
    #[error("\"{0}\" must be a non-empty string")]
    NotAString(&'static str),
    /// Another type, or an unknown key in it.
    #[error("\"author\" must be {{ name, email }}")]
    Author,
    /// A line break, or another character that no such value has.
    #[error("\"{0}\" must not hold control characters")]
    Control(&'static str),
    /// Not a table of keys at all.
    #[error("a git reference is a table with remote, branch, credentialEnv, author")]
    NotATable,
    /// What is no name of a variable can't hold a token.
    #[error("\"credentialEnv\" must be the name of an environment variable: letters, digits and _, no digit first")]
    CredentialEnv,
    /// What no branch can be called.
    #[error("\"branch\" can't be the name of a branch: {}", one_line(.0))]
    Branch(String),
    /// A user or password stands in the address.
    #[error(
        "\"remote\" has credentials in it; leave them out, and name the environment variable that holds the token in \"credentialEnv\""
    )]
    Credentials,
    /// The host can't be told for sure, so nobody knows who would get the token.
    #[error("\"remote\" is no address with a plain host name and port")]
    Host,
    /// A token would travel unencrypted.
    #[error("\"credentialEnv\" is refused for http://{0}: anybody on the way could read the token; use https://")]
    Unencrypted(String),
    /// Neither TOML nor JSON.
    #[error("the reference can't be parsed: {0}")]
    Syntax(String),
    /// The file can't be read.
    #[error("the reference file {} can't be read: {source}", show(path))]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

pub(super) fn json(text: &str) -> Result<Value, ReferenceError> {
    serde_json::from_str(text).map_err(|error| {
        // The parser's words can repeat a value.
        ReferenceError::Syntax(format!("no JSON at line {}, column {}", error.line(), error.column()))
    })
}

pub(super) fn toml(text: &str) -> Result<Value, ReferenceError> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let start = error.span().map_or(0, |span| span.start).min(text.len());
        let line = text.get(..start).unwrap_or_default().matches('\n').count() + 1;
        ReferenceError::Syntax(format!("no TOML at line {line}"))
    })?;
    serde_json::to_value(table).map_err(|_| ReferenceError::NotATable)
}

pub(super) fn read(value: &Value) -> Result<Reference, ReferenceError> {
    let table = value.as_object().ok_or(ReferenceError::NotATable)?;
    if let Some(key) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(ReferenceError::UnknownKey(key.clone()));
    }
    if let Some(key) = ["remote", "branch"].into_iter().find(|key| !table.contains_key(*key)) {
        return Err(ReferenceError::Missing(key));
    }
    let required = |key| text(table.get(key), key);
    let (remote, branch) = (required("remote")?, required("branch")?);
    let credential_env = table.get("credentialEnv").map(|value| text(Some(value), "credentialEnv")).transpose()?;
    let author = table.get("author").map(author).transpose()?;
    if !is_branch_name(&branch) {
        return Err(ReferenceError::Branch(branch));
    }
    let remote = Remote::new(remote)?;
    if let Some(variable) = &credential_env {
        let head = |c: char| c.is_ascii_alphabetic() || c == '_';
        if !variable.starts_with(head) || !variable.chars().all(|c| head(c) || c.is_ascii_digit()) {
            return Err(ReferenceError::CredentialEnv);
        }
        remote.may_have_a_token()?;
    }
    Ok(Reference::new(remote, branch, credential_env, author))
}

fn author(value: &Value) -> Result<(String, String), ReferenceError> {
    let known = |table: &Map<String, Value>| table.keys().all(|key| key == "name" || key == "email");
    let table = value.as_object().filter(|table| known(table)).ok_or(ReferenceError::Author)?;
    Ok((text(table.get("name"), "author.name")?, text(table.get("email"), "author.email")?))
}

fn text(value: Option<&Value>, key: &'static str) -> Result<String, ReferenceError> {
    let text = value.and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let text = text.ok_or(ReferenceError::NotAString(key))?;
    if text.contains(char::is_control) {
        return Err(ReferenceError::Control(key));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error(value: &Value) -> String {
        read(value).expect_err(&value.to_string()).to_string()
    }

    fn with(more: &Value) -> Value {
        let mut value = json!({"remote": "https://example.test/r.git", "branch": "main"});
        value.as_object_mut().expect("a table").extend(more.as_object().expect("a table").clone());
        value
    }

    #[test]
    fn messages_are_those_of_the_contract() {
        let known = "a git reference has remote, branch, credentialEnv, author";
        assert_eq!(error(&with(&json!({"remot": 1}))), format!("unknown key \"remot\" — {known}"));
        assert_eq!(error(&with(&json!({"Branch": "x"}))), format!("unknown key \"Branch\" — {known}"));
        assert_eq!(error(&json!({})), "missing \"remote\" — a git reference has remote, branch");
        assert_eq!(error(&json!({"remote": "/r"})), "missing \"branch\" — a git reference has remote, branch");
        for key in ["remote", "branch", "credentialEnv"] {
            for value in [json!(1), json!(null), json!(""), json!(" \t"), json!([]), json!({"a": 1}), json!(true)] {
                assert_eq!(error(&with(&json!({key: value}))), format!("\"{key}\" must be a non-empty string"));
            }
        }
        for author in [json!("A <a@b>"), json!(null), json!([]), json!({"name": "A", "email": "a@b", "x": 1})] {
            assert_eq!(error(&with(&json!({"author": author}))), "\"author\" must be { name, email }");
        }
        for name in [json!(""), json!("  "), json!(3), json!(null)] {
            let author = json!({"author": {"name": name, "email": "a@b"}});
            assert_eq!(error(&with(&author)), "\"author.name\" must be a non-empty string");
        }
        let author = json!({"author": {"name": "A"}});
        assert_eq!(error(&with(&author)), "\"author.email\" must be a non-empty string");
        for value in [json!([]), json!("x"), json!(1), json!(null)] {
            assert_eq!(error(&value), format!("a git reference is a table with {}", &known[20..]));
        }
    }

    #[test]
    fn no_variable_name_is_code() {
        for name in ["A}; touch x; {", "A B", "1A", "A-B", "$A", "A}", "A\u{e9}", "A=B", "A/B", "`id`", "*"] {
            let message = error(&with(&json!({"credentialEnv": name})));
            assert!(message.starts_with("\"credentialEnv\" must be the name of"), "{message}");
            assert!(!message.contains(name) || name == "*", "{message}");
        }
        for name in ["A", "_", "a1", "GIT_TOKEN"] {
            let reference = read(&with(&json!({"credentialEnv": name}))).expect(name);
            assert_eq!(reference.credential_env(), Some(name));
        }
    }

    #[test]
    fn both_kinds_of_text_and_both_kinds_of_value() {
        let text = "remote = \"/r\"\nbranch = \"b\"\n[author]\nname = \"N\"\nemail = \"n@x\"\n";
        let table: toml::Table = text.parse().expect("TOML");
        let value = json!({"remote": "/r", "branch": "b", "author": {"name": "N", "email": "n@x"}});
        let all = [
            Reference::from_text(text),
            Reference::from_text(&format!(" {value}")),
            Reference::from_value(&table),
            Reference::from_value(&value),
        ];
        for reference in all {
            let reference = reference.expect("reads");
            assert_eq!(reference.summary(), "/r (b)");
            assert_eq!(reference.author(), Some(("N", "n@x")));
        }
        for (text, message) in [
            ("remote = \"https://u:secret@x/\"\nbranch = \n", "the reference can't be parsed: no TOML at line 2"),
            ("{\"remote\": \"secret\",}", "the reference can't be parsed: no JSON at line 1, column 21"),
        ] {
            assert_eq!(Reference::from_text(text).expect_err(text).to_string(), message);
        }
    }

    #[test]
    fn control_characters_and_odd_branches() {
        for key in ["remote", "branch", "credentialEnv"] {
            let message = error(&with(&json!({key: "a\nb"})));
            assert_eq!(message, format!("\"{key}\" must not hold control characters"));
        }
        assert!(error(&with(&json!({"author": {"name": "a\u{0}b", "email": "x"}}))).contains("author.name"));
        for branch in ["-x", "a..b", "a b", "a~1", "x.lock", "/a", "HEAD"] {
            assert!(error(&with(&json!({"branch": branch}))).starts_with("\"branch\" can't be"), "{branch}");
        }
    }
}
