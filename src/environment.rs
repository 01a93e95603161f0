//! What a reference gives to every git of this process: whose commits it makes, and how it asks for a
//! token. Only names are kept here; a token stays in the variable that holds it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};

/// The user that goes with a token.
const USER: &str = "x-access-token";

/// The environment of one reference.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Environment {
    /// Name and address of author and committer.
    pub(crate) author: Option<(String, String)>,
    pub(crate) credential: Option<Credential>,
}

/// Where a token is, and who may have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Credential {
    /// The name of the variable.
    pub(crate) variable: String,
    /// `scheme://host[:port]` of a remote that is asked by http; no other kind has use for a token.
    pub(crate) site: Option<String>,
}

impl Environment {
    /// The variables, without any token. `entries` is how many configuration entries
    /// (`GIT_CONFIG_COUNT`) are there already.
    pub(crate) fn variables(&self, entries: usize) -> Vec<(String, String)> {
        let mut all = Vec::new();
        if let Some((name, email)) = &self.author {
            for role in ["AUTHOR", "COMMITTER"] {
                all.push((format!("GIT_{role}_NAME"), name.clone()));
                all.push((format!("GIT_{role}_EMAIL"), email.clone()));
            }
        }
        if let Some(Credential { variable, site }) = &self.credential {
            // An empty helper makes git forget all that the machine configured.
            let mut settings = vec![("credential.helper".to_owned(), String::new())];
            if let Some(site) = site {
                settings.push((format!("credential.{site}.helper"), helper(variable)));
            }
            all.push(("GIT_TERMINAL_PROMPT".to_owned(), "0".to_owned()));
            all.push(("GIT_CONFIG_COUNT".to_owned(), (entries + settings.len()).to_string()));
            for (number, (key, value)) in (entries..).zip(settings) {
                all.push((format!("GIT_CONFIG_KEY_{number}"), key));
                all.push((format!("GIT_CONFIG_VALUE_{number}"), value));
            }
        }
        all
    }

    /// The variable with the token and what it holds, for a transport that has use for it.
    pub(crate) fn token(&self) -> Option<(&str, OsString)> {
        let credential = self.credential.as_ref().filter(|c| c.site.is_some())?;
        let value = std::env::var_os(&credential.variable).filter(|value| !value.is_empty())?;
        Some((&credential.variable, value))
    }

    /// Text of others, a server's for one, without the token in any of the forms it travels in.
    pub(crate) fn redacted(&self, text: &str) -> String {
        let value = self.credential.as_ref().and_then(|c| std::env::var_os(&c.variable));
        match value.filter(|value| !value.is_empty()) {
            Some(token) => redact(text, &token.to_string_lossy()),
            None => text.to_owned(),
        }
    }
}

/// A credential helper that reads the token when it is asked for one. All of it is built into the
/// shell: the token is no argument of any process. Without a token git gives up at once, instead of
/// asking whoever else might know.
fn helper(variable: &str) -> String {
    format!(
        "!f() {{ test \"$1\" = get || exit 0; test -n \"${{{variable}}}\" || {{ echo quit=1; exit 0; }}; \
         printf 'username={USER}\\npassword=%s\\n' \"${{{variable}}}\"; }}; f"
    )
}

fn redact(text: &str, token: &str) -> String {
    let percent = |upper: bool| -> String {
        let encode = |byte: u8| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            byte if upper => format!("%{byte:02X}"),
            byte => format!("%{byte:02x}"),
        };
        token.bytes().map(encode).collect()
    };
    let mut forms = vec![token.to_owned(), percent(true), percent(false)];
    for letters in [&alphabet::STANDARD, &alphabet::URL_SAFE] {
        let base64 = GeneralPurpose::new(letters, NO_PAD);
        forms.extend([base64.encode(format!("{USER}:{token}")), base64.encode(token)]);
    }
    forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
    forms.into_iter().fold(text.to_owned(), |text, form| text.replace(&form, "***"))
}

#[derive(Default)]
struct InForce {
    environment: Option<Arc<Environment>>,
    tokens: BTreeSet<String>,
}

static IN_FORCE: RwLock<InForce> = RwLock::new(InForce { environment: None, tokens: BTreeSet::new() });

/// The environment that every git of this process gets, unless its job has one of its own.
pub(crate) fn in_force() -> Option<Arc<Environment>> {
    IN_FORCE.read().unwrap_or_else(PoisonError::into_inner).environment.clone()
}

/// Lays an environment on every git of this process from now on.
pub(crate) fn put_in_force(environment: Arc<Environment>) {
    IN_FORCE.write().unwrap_or_else(PoisonError::into_inner).environment = Some(environment);
}

/// From now on no process but a transport inherits this variable.
pub(crate) fn withhold(variable: &str) {
    IN_FORCE.write().unwrap_or_else(PoisonError::into_inner).tokens.insert(variable.to_owned());
}

/// The variables that no process but a transport inherits.
pub(crate) fn withheld() -> Vec<String> {
    IN_FORCE.read().unwrap_or_else(PoisonError::into_inner).tokens.iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_follow_those_that_are_there() {
        let site = Some("https://example.test".to_owned());
        let credential = Some(Credential { variable: "A_TOKEN".to_owned(), site });
        let environment = Environment { author: Some(("N".to_owned(), "n@x".to_owned())), credential };
        let all = environment.variables(3);
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "GIT_AUTHOR_NAME",
                "GIT_AUTHOR_EMAIL",
                "GIT_COMMITTER_NAME",
                "GIT_COMMITTER_EMAIL",
                "GIT_TERMINAL_PROMPT",
                "GIT_CONFIG_COUNT",
                "GIT_CONFIG_KEY_3",
                "GIT_CONFIG_VALUE_3",
                "GIT_CONFIG_KEY_4",
                "GIT_CONFIG_VALUE_4"
            ]
        );
        assert_eq!(all[5].1, "5");
        assert_eq!((all[6].1.as_str(), all[7].1.as_str()), ("credential.helper", ""));
        assert_eq!(all[8].1, "credential.https://example.test.helper");
    }

    #[test]
    fn a_token_is_taken_out_in_every_form() {
        let token = "s3cr/t+tok~en?";
        let basic = base64::engine::general_purpose::STANDARD.encode(format!("{USER}:{token}"));
        let plain = base64::engine::general_purpose::URL_SAFE.encode(token);
        let text = format!("a {token} b s3cr%2Ft%2Btok~en%3F c s3cr%2ft%2btok~en%3f d {basic} e {plain}");
        let clean = redact(&text, token);
        assert!(clean.starts_with("a *** b *** c *** d ***"), "{clean}");
        assert!(!clean.contains("s3cr") && !clean.contains(&plain[..12]), "{clean}");
    }
}
