//! What is printed: results on stdout, words for a person on stderr.
#![allow(clippy::print_stderr, reason = "this is where the program talks to a person")]

use std::io::{IsTerminal, Write};

/// One line on stdout. A reader that went away is no failure of ours.
pub(crate) fn line(text: &str) {
    self::text(&format!("{text}\n"));
}

/// Text on stdout.
pub(crate) fn text(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// `error:` and, after a blank line, `hint:`.
pub(crate) fn error(what: &str, hint: Option<&str>) {
    eprintln!("error: {what}");
    if let Some(hint) = hint {
        eprintln!("\nhint: {hint}");
    }
}

/// A line for a person, where one is watching.
pub(crate) fn tell(text: &str) {
    if std::io::stderr().is_terminal() {
        eprintln!("{text}");
    }
}
