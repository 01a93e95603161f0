//! The address of a remote: whether it holds credentials, and who would get a token.

use std::net::IpAddr;

use super::ReferenceError;

/// An address without credentials in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Remote {
    text: String,
    /// Scheme and authority where it is asked by http.
    web: Option<(String, String)>,
}

impl Remote {
    pub(super) fn new(text: String) -> Result<Self, ReferenceError> {
        let Some((scheme, authority)) = authority(&text) else {
            // `host:path`, or a path; before a path's first slash there is no password.
            let head = text.split('/').next().unwrap_or_default();
            return match head.rsplit_once('@') {
                Some((user, _)) if user.contains(':') => Err(ReferenceError::Credentials),
                _ => Ok(Self { text, web: None }),
            };
        };
        let web = ["http", "https", "ftp", "ftps"].contains(&scheme.as_str());
        let decoded = authority.to_ascii_lowercase().replace("%3a", ":").replace("%40", "@");
        if let Some((user, _)) = decoded.rsplit_once('@')
            && (web || user.contains(':'))
        {
            return Err(ReferenceError::Credentials);
        }
        let asked = scheme == "http" || scheme == "https";
        if asked && !is_plain(authority) {
            return Err(ReferenceError::Host);
        }
        let web = asked.then(|| (scheme, authority.to_ascii_lowercase()));
        Ok(Self { text, web })
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// `scheme://host[:port]` where it is asked by http.
    pub(super) fn site(&self) -> Option<String> {
        self.web.as_ref().map(|(scheme, authority)| format!("{scheme}://{authority}"))
    }

    /// Refuses plain http off this machine.
    pub(super) fn may_have_a_token(&self) -> Result<(), ReferenceError> {
        match &self.web {
            Some((scheme, authority)) if scheme == "http" && !is_loopback(host_of(authority)) => {
                Err(ReferenceError::Unencrypted(authority.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Whether another spelling of an address means this one: a final `/` or `.git` says nothing.
    pub(super) fn is_spelled(&self, other: &str) -> bool {
        spelling(&self.text) == spelling(other)
    }
}

/// An address for a message, without what may be credentials in it.
pub(super) fn without_credentials(text: &str) -> String {
    let start = match (text.find("://"), text.split('/').next()) {
        (Some(at), _) => at + 3,
        (None, Some(head)) if head.split('@').next().is_some_and(|user| user.contains(':')) => 0,
        _ => return text.to_owned(),
    };
    let end = text[start..].find('/').map_or(text.len(), |at| start + at);
    match text[start..end].rfind('@') {
        Some(at) if text[start..start + at].contains(':') || text.starts_with("http") || text.starts_with("ftp") => {
            format!("{}***{}", &text[..start], &text[start + at..])
        }
        _ => text.to_owned(),
    }
}

fn spelling(text: &str) -> &str {
    let text = text.trim_end_matches('/');
    text.strip_suffix(".git").unwrap_or(text).trim_end_matches('/')
}

/// The scheme in lower case and the authority of an address that has them.
fn authority(text: &str) -> Option<(String, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    if scheme.contains('/') {
        return None;
    }
    // `helper::scheme://…`
    let scheme = scheme.rsplit("::").next().unwrap_or(scheme).to_ascii_lowercase();
    Some((scheme, rest.split(['/', '?', '#']).next().unwrap_or_default()))
}

/// Whether every reader takes the authority for the same host and port.
fn is_plain(authority: &str) -> bool {
    let host = host_of(authority);
    let port = &authority[host.len()..];
    let plain = match host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)),
    };
    plain
        && (port.is_empty() || port.strip_prefix(':').is_some_and(|number| number.parse::<u16>().is_ok_and(|n| n > 0)))
}

fn host_of(authority: &str) -> &str {
    match authority.rfind(']') {
        Some(end) => &authority[..=end],
        None => authority.split(':').next().unwrap_or_default(),
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(text: &str) -> Result<Remote, ReferenceError> {
        Remote::new(text.to_owned())
    }

    #[test]
    fn credentials_in_an_address_are_refused_and_not_repeated() {
        for text in [
            "https://user:secret@example.test/r",
            "https://secret@example.test/r",
            "HTTPS://secret@example.test",
            "http://x:secret@localhost:80/r",
            "https://a@b:secret@example.test/",
            "https://user%3Asecret%40example.test/r",
            "ssh://git:secret@example.test/r",
            "git:secret@example.test:r",
            "https::https://u:secret@example.test/r",
            "ftp://secret@example.test/",
            "svn+ssh://u:secret@h/r",
        ] {
            let error = new(text).expect_err(text);
            assert!(matches!(error, ReferenceError::Credentials), "{text}: {error}");
            assert!(!error.to_string().contains("secret"));
        }
        for text in ["git@example.test:owner/r.git", "ssh://git@example.test/r", "/a@b/c:d@e", "host:a/b@c:d", "../r"] {
            assert_eq!(new(text).expect(text).site(), None);
        }
    }

    #[test]
    fn the_site_is_scheme_host_and_port() {
        for (text, site) in [
            ("https://Example.test/r.git", "https://example.test"),
            ("https://example.test:8443/r", "https://example.test:8443"),
            ("HTTP://127.0.0.1:80/a@b", "http://127.0.0.1:80"),
            ("https://[::1]:443/r", "https://[::1]:443"),
            ("https://h?x", "https://h"),
        ] {
            assert_eq!(new(text).expect(text).site().as_deref(), Some(site));
        }
        for text in [
            "https://",
            "https:///r",
            "https://a*/r",
            "https://a\\b/r",
            "https://h:x/r",
            "https://h:0/r",
            "https://[::1/r",
            "https://h h/",
        ] {
            assert!(matches!(new(text), Err(ReferenceError::Host)), "{text}");
        }
    }

    #[test]
    fn plain_http_stays_on_the_machine() {
        for text in [
            "http://localhost/r",
            "http://LOCALHOST:8080/r",
            "http://127.9.9.9/r",
            "http://[::1]:1/r",
            "ssh://h/r",
            "https://h/r",
        ] {
            assert!(new(text).expect(text).may_have_a_token().is_ok(), "{text}");
        }
        for text in [
            "http://example.test/r",
            "http://localhost.example.test/r",
            "http://128.0.0.1/",
            "http://[::2]/",
            "http://127.1/",
        ] {
            let error = new(text).expect(text).may_have_a_token().expect_err(text);
            assert!(error.to_string().starts_with("\"credentialEnv\" is refused for http://"), "{error}");
        }
    }

    #[test]
    fn a_final_slash_or_git_is_spelling() {
        let remote = new("https://h/r.git").expect("an address");
        for other in ["https://h/r", "https://h/r/", "https://h/r.git/", "https://h/r.git"] {
            assert!(remote.is_spelled(other), "{other}");
        }
        for other in ["https://h/rx", "https://h/R", "https://h/", "http://h/r", "https://h/r.gitt"] {
            assert!(!remote.is_spelled(other), "{other}");
        }
    }

    #[test]
    fn addresses_of_others_are_shown_without_credentials() {
        for (text, shown) in [
            ("https://u:p@h/r", "https://***@h/r"),
            ("https://tok@h/r", "https://***@h/r"),
            ("ssh://git@h/r", "ssh://git@h/r"),
            ("ssh://git:p@h/r", "ssh://***@h/r"),
            ("git@h:r", "git@h:r"),
            ("git:p@h:r", "***@h:r"),
            ("/a/b@c", "/a/b@c"),
            ("https://h/a@b", "https://h/a@b"),
        ] {
            assert_eq!(without_credentials(text), shown);
        }
    }
}
