//! What is printed: results on stdout, words for a person on stderr.
#![allow(clippy::print_stderr, reason = "this is where the program talks to a person")]

use std::io::{IsTerminal, Write};

/// One line on stdout. A reader that went away is no failure of ours.
pub(crate) fn line(text: &str) {
    self::text(&format!("{text}\n"));
}

/// Text on stdout.
pub(crate) fn text(text: &str) {
    bytes(text.as_bytes());
}

/// Bytes on stdout.
pub(crate) fn bytes(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

/// `warning:` for a person.
pub(crate) fn warn(what: &str) {
    eprintln!("warning: {what}");
}

/// A path for a line: without control characters.
pub(crate) fn plain(path: &std::path::Path) -> String {
    path.to_string_lossy().chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// A number and what it counts.
pub(crate) fn count(number: usize, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

/// A size in bytes, for a person.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let Some((unit, name)) = UNITS.into_iter().find(|(unit, _)| bytes >= *unit) else {
        return format!("{bytes} B");
    };
    // Two parts, so that no number is too large for tenths.
    format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit)
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
