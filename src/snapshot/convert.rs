//! Line endings: what git stores of a text file, as convert.c has it.
//!
//! All else that git converts (filters, encodings, `ident`) is left to git.

use super::attributes::{Attributes, Value};
use crate::git::settings::Content;

/// How a file's line endings are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endings {
    /// As they are.
    Kept,
    /// CRLF becomes LF.
    Text,
    /// CRLF becomes LF in what looks like text, unless the index has CRLF there.
    Auto,
}

/// What becomes of a file's line endings; `None` where git has to convert it, or refuses what can't be
/// undone (`core.safecrlf`).
pub(super) fn endings(attributes: &mut Attributes<'_>, path: &[u8], settings: &Content) -> Option<Endings> {
    let unsaid = if settings.autocrlf { Endings::Auto } else { Endings::Kept };
    let found = if attributes.silent(path) {
        unsaid
    } else {
        let names: [&[u8]; 6] = [b"text", b"crlf", b"eol", b"ident", b"filter", b"working-tree-encoding"];
        let [text, crlf, eol, ident, filter, encoding] = attributes.of(path, names);
        let filtered = matches!(&filter, Value::Text(name) if settings.filters.contains(name));
        let encoded = match &encoding {
            Value::Unspecified => false,
            Value::Text(name) => {
                let plain =
                    name.is_empty() || name.eq_ignore_ascii_case(b"utf-8") || name.eq_ignore_ascii_case(b"utf8");
                !plain
            }
            // git stops at these.
            Value::Set | Value::Unset => true,
        };
        if filtered || encoded || ident == Value::Set {
            return None;
        }
        said(&text).or_else(|| said(&crlf)).map_or_else(
            || if is_eol(&eol) { Endings::Text } else { unsaid },
            |found| if found == Endings::Auto || !is_eol(&eol) { found } else { with_eol(found) },
        )
    };
    (found == Endings::Kept || !settings.safecrlf).then_some(found)
}

/// What `text`, or its older name `crlf`, says.
fn said(value: &Value) -> Option<Endings> {
    match value {
        Value::Set => Some(Endings::Text),
        Value::Unset => Some(Endings::Kept),
        Value::Text(text) if text == b"input" => Some(Endings::Text),
        Value::Text(text) if text == b"auto" => Some(Endings::Auto),
        Value::Text(_) | Value::Unspecified => None,
    }
}

fn is_eol(value: &Value) -> bool {
    matches!(value, Value::Text(text) if text == b"lf" || text == b"crlf")
}

/// `eol` makes a text of all but what is no text.
fn with_eol(found: Endings) -> Endings {
    if found == Endings::Kept { Endings::Kept } else { Endings::Text }
}

/// What is in a file, counted piece by piece.
#[derive(Debug, Default)]
pub(super) struct Census {
    pub(super) crlf: u64,
    lone_cr: u64,
    nul: bool,
    printable: u64,
    nonprintable: u64,
    /// The last piece ended in a CR.
    pending: bool,
    last: u8,
}

impl Census {
    pub(super) fn count(&mut self, piece: &[u8]) {
        for &byte in piece {
            if self.pending {
                self.pending = false;
                if byte == b'\n' {
                    self.crlf += 1;
                    continue;
                }
                self.lone_cr += 1;
            }
            match byte {
                b'\r' => self.pending = true,
                b'\n' => {}
                0x08 | b'\t' | 0x1b | 0x0c => self.printable += 1,
                0 => {
                    self.nul = true;
                    self.nonprintable += 1;
                }
                0..32 | 127 => self.nonprintable += 1,
                _ => self.printable += 1,
            }
        }
        self.last = piece.last().copied().unwrap_or(self.last);
    }

    /// Ends the count.
    pub(super) fn finish(mut self) -> Self {
        self.lone_cr += u64::from(self.pending);
        self.pending = false;
        // An end-of-file mark of old at the end does not count.
        if self.last == 0x1a {
            self.nonprintable = self.nonprintable.saturating_sub(1);
        }
        self
    }

    pub(super) fn is_binary(&self) -> bool {
        self.lone_cr > 0 || self.nul || (self.printable >> 7) < self.nonprintable
    }

    fn of(content: &[u8]) -> Self {
        let mut census = Self::default();
        census.count(content);
        census.finish()
    }

    /// Whether line endings are converted. `index` tells whether the index has CRLF there.
    pub(super) fn converts(&self, endings: Endings, index: impl FnOnce() -> bool) -> bool {
        match endings {
            Endings::Kept => false,
            _ if self.crlf == 0 => false,
            Endings::Text => true,
            Endings::Auto => !self.is_binary() && !index(),
        }
    }
}

/// Whether a blob of the index keeps git from converting the file: it is text with CRLF.
pub(super) fn has_crlf(blob: &[u8]) -> bool {
    if !blob.contains(&b'\r') {
        return false;
    }
    let census = Census::of(blob);
    !census.is_binary() && census.crlf > 0
}

/// What git stores of `content`, where that is something else.
pub(super) fn stored(content: &[u8], endings: Endings, index: impl FnOnce() -> bool) -> Option<Vec<u8>> {
    if endings == Endings::Kept || !content.contains(&b'\r') {
        return None;
    }
    let census = Census::of(content);
    census.converts(endings, index).then(|| {
        let mut strip = Strip::default();
        let mut stored = Vec::with_capacity(content.len());
        strip.piece(content, &mut stored);
        strip.finish(&mut stored);
        stored
    })
}

/// Turns CRLF into LF piece by piece.
#[derive(Debug, Default)]
pub(super) struct Strip {
    pending: bool,
}

impl Strip {
    pub(super) fn piece(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        for &byte in piece {
            if std::mem::take(&mut self.pending) && byte != b'\n' {
                out.push(b'\r');
            }
            if byte == b'\r' {
                self.pending = true;
            } else {
                out.push(byte);
            }
        }
    }

    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.pending) {
            out.push(b'\r');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_counted_and_stripped_like_the_whole() {
        let text = b"a\r\nb\r\r\nc\n\r\0\x1a\r";
        for at in 0..=text.len() {
            let (one, two) = text.split_at(at);
            let mut census = Census::default();
            census.count(one);
            census.count(two);
            let census = census.finish();
            assert_eq!((census.crlf, census.lone_cr, census.nul), (2, 3, true), "{at}");
            let (mut strip, mut out) = (Strip::default(), Vec::new());
            strip.piece(one, &mut out);
            strip.piece(two, &mut out);
            strip.finish(&mut out);
            assert_eq!(out, b"a\nb\r\nc\n\r\0\x1a\r", "{at}");
        }
    }
}
