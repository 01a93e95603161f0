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

/// A path on a line of its own, byte for byte.
pub(crate) fn path(path: &std::path::Path) {
    use std::os::unix::ffi::OsStrExt;
    bytes(&[path.as_os_str().as_bytes(), b"\n"].concat());
}

/// When there are colours on stdout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum When {
    /// On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`
    #[default]
    Auto,
    Always,
    Never,
}

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paint(bool);

impl Paint {
    pub(crate) fn new(when: When) -> Self {
        Self(match when {
            When::Always => true,
            When::Never => false,
            When::Auto => {
                let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
                set("NO_COLOR").is_none() && set("TERM").is_none_or(|t| t != "dumb") && std::io::stdout().is_terminal()
            }
        })
    }

    pub(crate) fn bold(self, text: &str) -> String {
        if self.0 { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Rows in aligned columns, the first row a heading. Control characters in cells are shown as `?`.
pub(crate) fn table<const N: usize>(rows: &[[String; N]], paint: Paint) {
    let clean = |cell: &String| -> String { cell.chars().map(|c| if c.is_control() { '?' } else { c }).collect() };
    let rows: Vec<[String; N]> = rows.iter().map(|row| row.each_ref().map(clean)).collect();
    let mut widths = [0; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for (at, row) in rows.iter().enumerate() {
        let mut text = String::new();
        for (cell, width) in row.iter().zip(widths) {
            text.push_str(cell);
            text.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
        }
        let text = text.trim_end();
        line(&if at == 0 { paint.bold(text) } else { text.to_owned() });
    }
}
