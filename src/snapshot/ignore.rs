//! git's ignore rules, to the letter: gitignore(5) as dir.c carries it out.
//!
//! Libraries that read `.gitignore` files agree with git in most cases; a snapshot needs all of them.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::wildmatch::{Flags, matches};

/// One line of an ignore file.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "git's own flags of a pattern")]
pub(super) struct Pattern {
    text: Vec<u8>,
    negative: bool,
    only_directories: bool,
    /// Without a `/`: matches the last segment at any depth.
    name_only: bool,
    /// `*` and then a literal.
    ends_with: bool,
    /// How many bytes at the start hold no wildcard.
    literal: usize,
}

impl Pattern {
    pub(super) fn parse(line: &[u8]) -> Self {
        let (negative, mut text) = match line.strip_prefix(b"!") {
            Some(rest) => (true, rest),
            None => (false, line),
        };
        let only_directories = text.ends_with(b"/");
        if only_directories {
            text = &text[..text.len() - 1];
        }
        let wild = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
        Self {
            negative,
            only_directories,
            name_only: !text.contains(&b'/'),
            ends_with: text.first() == Some(&b'*') && !text[1..].iter().any(wild),
            literal: text.iter().position(wild).unwrap_or(text.len()),
            text: text.to_vec(),
        }
    }

    pub(super) fn matches(&self, base: &[u8], path: &[u8], directory: bool, casefold: bool) -> bool {
        if self.only_directories && !directory {
            return false;
        }
        let same = |a: &[u8], b: &[u8]| if casefold { a.eq_ignore_ascii_case(b) } else { a == b };
        let flags = |pathname| Flags { pathname, casefold };
        if self.name_only {
            let name = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
            return if self.literal == self.text.len() {
                same(&self.text, name)
            } else if self.ends_with {
                let tail = &self.text[1..];
                name.len() >= tail.len() && same(tail, &name[name.len() - tail.len()..])
            } else {
                matches(&self.text, name, flags(false))
            };
        }
        let (mut pattern, mut literal) = (self.text.as_slice(), self.literal);
        if let Some(rest) = pattern.strip_prefix(b"/") {
            (pattern, literal) = (rest, literal - 1);
        }
        // Below its own directory only.
        let Some(mut name) = path.get(base.len()..).filter(|_| same(&path[..base.len()], base)) else { return false };
        if !base.is_empty() {
            let Some(rest) = name.strip_prefix(b"/") else { return false };
            name = rest;
        }
        if literal > name.len() || !same(&pattern[..literal], &name[..literal]) {
            return false;
        }
        // What is left is matched on its own: `foo**/x` may cross directories after the literal.
        (pattern, name) = (&pattern[literal..], &name[literal..]);
        if pattern.is_empty() && name.is_empty() {
            return true;
        }
        matches(pattern, name, flags(true))
    }
}

/// The patterns of one ignore file, for paths below `base`.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    base: Vec<u8>,
    list: Vec<Pattern>,
}

impl Patterns {
    /// Parses an ignore file.
    pub(super) fn parse(base: &[u8], text: &[u8]) -> Self {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let mut list = Vec::new();
        for line in text.split(|b| *b == b'\n') {
            // A NUL ends what git reads of a line.
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let line = line.split(|b| *b == 0).next().unwrap_or(line);
            list.push(Pattern::parse(trimmed(line)));
        }
        Self { base: base.to_vec(), list }
    }

    fn verdict(&self, path: &[u8], directory: bool, casefold: bool) -> Option<bool> {
        let found = self.list.iter().rev().find(|p| p.matches(&self.base, path, directory, casefold));
        found.map(|pattern| !pattern.negative)
    }
}

/// The rules of one file in the syntax of gitignore(5), for paths from its own directory on, that say
/// what is meant instead of what is ignored.
#[derive(Debug)]
pub(crate) struct PathRules(Patterns);

impl PathRules {
    /// Parses the text of the file.
    pub(crate) fn parse(text: &[u8]) -> Self {
        Self(Patterns::parse(b"", text))
    }

    /// Whether the rules mean `path`, itself or by a directory above it.
    pub(crate) fn matches(&self, path: &[u8], directory: bool) -> bool {
        let above = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| (&path[..at], true));
        above.chain([(path, directory)]).any(|(path, directory)| self.0.verdict(path, directory, false) == Some(true))
    }
}

/// What `info/sparse-checkout` has on the disk.
#[derive(Debug)]
pub(crate) struct SparseRules {
    patterns: Patterns,
    casefold: bool,
}

impl SparseRules {
    /// Parses the text of the file; the patterns of cones mean the same when they are read one by one.
    pub(crate) fn parse(text: &[u8], casefold: bool) -> Self {
        Self { patterns: Patterns::parse(b"", text), casefold }
    }

    /// Whether the checkout has the file `path`: the last rule about it decides, else one about the nearest
    /// directory above it.
    pub(crate) fn has(&self, path: &[u8]) -> bool {
        let slashes = path.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
        let mut levels = std::iter::once((path, false)).chain(slashes.map(|(at, _)| (&path[..at], true)));
        levels.find_map(|(path, directory)| self.patterns.verdict(path, directory, self.casefold)).unwrap_or(false)
    }
}

/// Without trailing spaces that no backslash protects.
fn trimmed(line: &[u8]) -> &[u8] {
    let mut spaces_from = None;
    let mut at = 0;
    while at < line.len() {
        match line[at] {
            b' ' => {
                spaces_from.get_or_insert(at);
            }
            b'\\' => {
                at += 1;
                if at >= line.len() {
                    return line;
                }
                spaces_from = None;
            }
            _ => spaces_from = None,
        }
        at += 1;
    }
    &line[..spaces_from.unwrap_or(line.len())]
}

/// The rules that hold in one directory: its own file's, and those above.
#[derive(Debug)]
pub(super) struct Level {
    own: Option<Patterns>,
    above: Option<Arc<Level>>,
}

impl Level {
    /// The rules of a directory whose own ignore file holds `text`.
    pub(super) fn new(above: Option<Arc<Level>>, directory: &[u8], text: Option<&[u8]>) -> Arc<Self> {
        match (text, above) {
            (None, Some(above)) => above,
            (text, above) => Arc::new(Self { own: text.map(|text| Patterns::parse(directory, text)), above }),
        }
    }
}

/// The rules of a repository outside its directories.
#[derive(Debug, Default)]
pub(super) struct Ignore {
    /// `info/exclude`, then `core.excludesFile`: the first that decides wins.
    files: Vec<Patterns>,
    casefold: bool,
}

impl Ignore {
    /// Reads the files that are there.
    pub(super) fn new(files: &[&Path], casefold: bool) -> Self {
        let read = |path: &&Path| fs::read(path).ok().map(|text| Patterns::parse(b"", &text));
        Self { files: files.iter().filter_map(read).collect(), casefold }
    }

    /// Whether a rule excludes `path`, whose directory has the rules `level` and is itself not
    /// ignored.
    pub(super) fn is_ignored(&self, level: &Level, path: &[u8], directory: bool) -> bool {
        let mut at = Some(level);
        while let Some(level) = at {
            if let Some(verdict) = level.own.as_ref().and_then(|own| own.verdict(path, directory, self.casefold)) {
                return verdict;
            }
            at = level.above.as_deref();
        }
        self.files.iter().find_map(|file| file.verdict(path, directory, self.casefold)).unwrap_or(false)
    }
}
