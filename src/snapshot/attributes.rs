//! git's attributes, to the letter: gitattributes(5) as attr.c carries it out, as far as they decide
//! how content becomes a blob.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use super::ignore::Pattern;
use crate::files::{as_path, join};
use crate::git::Oid;
use crate::git::index_file::IndexFile;

/// Longer lines are passed over.
const LINE_LIMIT: usize = 2048;
/// Larger files are passed over.
const FILE_LIMIT: u64 = 100 * 1024 * 1024;
const MACRO: &[u8] = b"[attr]";
const BLANK: &[u8] = b" \t\r\n";
/// What git knows without any file.
const BUILTIN: &[u8] = b"[attr]binary -diff -merge -text\n";

/// What a line says of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Set,
    Unset,
    /// As if no line had said anything.
    Unspecified,
    Text(Vec<u8>),
}

type State = (Vec<u8>, Value);

#[derive(Debug)]
enum Line {
    Macro { name: Vec<u8>, states: Vec<State> },
    Pattern { pattern: Pattern, states: Vec<State> },
}

/// The lines of one attributes file.
#[derive(Debug, Default)]
struct Rules {
    base: Vec<u8>,
    lines: Vec<Line>,
}

impl Rules {
    /// A file on the disk; only some may define macros.
    fn of_file(base: &[u8], text: &[u8], macros: bool) -> Self {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let lines = text.split(|b| *b == b'\n').map(|line| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            line.split(|b| *b == 0).next().unwrap_or(line)
        });
        Self { base: base.to_vec(), lines: lines.filter_map(|line| parse(line, macros)).collect() }
    }

    /// A blob of the index: git reads it as one string, and knows no byte order mark there.
    fn of_blob(base: &[u8], text: &[u8], macros: bool) -> Self {
        let text = text.split(|b| *b == 0).next().unwrap_or(text);
        let lines = text.split(|b| *b == b'\n').filter_map(|line| parse(line, macros)).collect();
        Self { base: base.to_vec(), lines }
    }
}

/// The part of `text` up to the first byte of `set`, and the rest.
fn until<'t>(text: &'t [u8], set: &[u8]) -> (&'t [u8], &'t [u8]) {
    text.split_at(text.iter().position(|b| set.contains(b)).unwrap_or(text.len()))
}

fn skip_blank(text: &[u8]) -> &[u8] {
    let blank = text.iter().take_while(|b| BLANK.contains(b)).count();
    &text[blank..]
}

/// One line; `None` for one that says nothing, or that git passes over.
fn parse(line: &[u8], macros: bool) -> Option<Line> {
    let start = skip_blank(line);
    if start.is_empty() || start[0] == b'#' || line.len() >= LINE_LIMIT {
        return None;
    }
    let (name, rest) = unquoted(start).unwrap_or_else(|| {
        let (name, rest) = until(start, BLANK);
        (name.to_vec(), rest)
    });
    let is_macro = name.len() > MACRO.len() && name.starts_with(MACRO);
    if is_macro && !macros {
        return None;
    }
    let mut states = Vec::new();
    let mut rest = skip_blank(rest);
    while !rest.is_empty() {
        let (word, after) = until(rest, BLANK);
        states.push(state(word)?);
        rest = skip_blank(after);
    }
    if is_macro {
        let name = until(skip_blank(&name[MACRO.len()..]), BLANK).0.to_vec();
        return is_name(&name).then_some(Line::Macro { name, states });
    }
    let name = name.split(|b| *b == 0).next().unwrap_or_default();
    // git does not take negative patterns here.
    (name.first() != Some(&b'!')).then(|| Line::Pattern { pattern: Pattern::parse(name), states })
}

/// `text`, `-text`, `!text`, `text=value`; `None` spoils the line.
fn state(word: &[u8]) -> Option<State> {
    let (mut name, value) = match word.iter().position(|b| *b == b'=') {
        Some(at) => (&word[..at], Value::Text(word[at + 1..].to_vec())),
        None => (word, Value::Set),
    };
    let value = match word[0] {
        b'-' => Value::Unset,
        b'!' => Value::Unspecified,
        _ => value,
    };
    if matches!(word[0], b'-' | b'!') {
        name = name.get(1..)?;
    }
    (is_name(name) && !name.starts_with(b"builtin_")).then(|| (name.to_vec(), value))
}

fn is_name(name: &[u8]) -> bool {
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || b"-_.".contains(b);
    name.first().is_some_and(|first| *first != b'-') && name.iter().all(allowed)
}

/// A name in double quotes, as git writes it, and what follows; `None` where it is none.
fn unquoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut name = Vec::new();
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'"' => return Some((name, rest)),
            b'\\' => {
                let (&escaped, after) = rest.split_first()?;
                rest = after;
                name.push(match escaped {
                    b'a' => 0x07,
                    b'b' => 0x08,
                    b'f' => 0x0c,
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'v' => 0x0b,
                    b'\\' | b'"' => escaped,
                    b'0'..=b'3' => {
                        let digits = rest.get(..2).filter(|d| d.iter().all(|d| (b'0'..=b'7').contains(d)))?;
                        rest = &rest[2..];
                        (escaped - b'0') << 6 | (digits[0] - b'0') << 3 | (digits[1] - b'0')
                    }
                    _ => return None,
                });
            }
            byte => name.push(byte),
        }
    }
}

/// The rules of one directory and of those above.
#[derive(Debug)]
struct Level {
    own: Rules,
    above: Option<Arc<Level>>,
}

/// The attributes of the files of one work tree.
pub(super) struct Attributes<'a> {
    root: &'a Path,
    index: &'a IndexFile,
    read: &'a dyn Fn(Oid) -> Option<Vec<u8>>,
    casefold: bool,
    info: Option<Rules>,
    global: Option<Rules>,
    builtin: Rules,
    levels: HashMap<Vec<u8>, Option<Arc<Level>>>,
    macros: HashMap<Vec<u8>, Vec<State>>,
}

impl<'a> Attributes<'a> {
    /// The attributes under `root`. `read` gives a blob of the index; `info` and `global` are the files
    /// outside the work tree, the first before all others, the second after.
    pub(super) fn new(
        root: &'a Path,
        index: &'a IndexFile,
        read: &'a dyn Fn(Oid) -> Option<Vec<u8>>,
        casefold: bool,
        info: &Path,
        global: Option<&Path>,
    ) -> Self {
        let outside = |path: &Path| Some(Rules::of_file(b"", &text_of(path, false)?, true));
        let mut this = Self {
            root,
            index,
            read,
            casefold,
            info: outside(info),
            global: global.and_then(outside),
            builtin: Rules::of_file(b"", BUILTIN, true),
            levels: HashMap::new(),
            macros: HashMap::new(),
        };
        let top = this.level(b"");
        let mut macros = HashMap::new();
        for rules in this.files(top.as_deref()) {
            for line in rules.lines.iter().rev() {
                if let Line::Macro { name, states } = line {
                    macros.entry(name.clone()).or_insert_with(|| states.clone());
                }
            }
        }
        this.macros = macros;
        this
    }

    fn level(&mut self, directory: &[u8]) -> Option<Arc<Level>> {
        if let Some(known) = self.levels.get(directory) {
            return known.clone();
        }
        let above = match directory.iter().rposition(|b| *b == b'/') {
            Some(at) => self.level(&directory[..at]),
            None if directory.is_empty() => None,
            None => self.level(b""),
        };
        let path = join(directory, b".gitattributes");
        let macros = directory.is_empty();
        let own = match text_of(&self.root.join(as_path(&path)), true) {
            Some(text) => Some(Rules::of_file(directory, &text, macros)),
            None => self
                .index
                .find(&path)
                .and_then(|entry| (self.read)(entry.id))
                .map(|text| Rules::of_blob(directory, &text, macros)),
        };
        let level = match own {
            Some(own) => Some(Arc::new(Level { own, above })),
            None => above,
        };
        self.levels.insert(directory.to_vec(), level.clone());
        level
    }

    /// The files that count where `level` does, the first that says something decides.
    fn files<'s>(&'s self, level: Option<&'s Level>) -> impl Iterator<Item = &'s Rules> {
        let levels = std::iter::successors(level, |level| level.above.as_deref()).map(|level| &level.own);
        self.info.iter().chain(levels).chain(&self.global).chain([&self.builtin])
    }

    /// Whether no file has anything to say of files in the directory of `path`.
    pub(super) fn silent(&mut self, path: &[u8]) -> bool {
        let level = self.level(directory_of(path));
        self.files(level.as_deref()).take_while(|rules| !std::ptr::eq(*rules, &raw const self.builtin)).next().is_none()
    }

    /// What the files say of the attributes `names` of a file.
    pub(super) fn of<const N: usize>(&mut self, path: &[u8], names: [&[u8]; N]) -> [Value; N] {
        let level = self.level(directory_of(path));
        let mut known: HashMap<&[u8], &Value> = HashMap::new();
        for rules in self.files(level.as_deref()) {
            for line in rules.lines.iter().rev() {
                if let Line::Pattern { pattern, states } = line
                    && pattern.matches(&rules.base, path, false, self.casefold)
                {
                    self.fill(&mut known, states);
                }
            }
        }
        names.map(|name| known.get(name).map_or(Value::Unspecified, |value| (*value).clone()))
    }

    fn fill<'s>(&'s self, known: &mut HashMap<&'s [u8], &'s Value>, states: &'s [State]) {
        for (name, value) in states.iter().rev() {
            if known.contains_key(name.as_slice()) {
                continue;
            }
            known.insert(name, value);
            if *value == Value::Set
                && let Some(states) = self.macros.get(name)
            {
                self.fill(known, states);
            }
        }
    }
}

/// Whether an attributes file lies beside or above one of the paths, tracked or not.
pub(crate) fn attributes_above<'p>(root: &Path, paths: impl Iterator<Item = &'p [u8]>) -> bool {
    let mut directories = BTreeSet::new();
    for path in paths {
        for above in as_path(path).ancestors().skip(1) {
            if !directories.insert(above.to_owned()) {
                break;
            }
        }
    }
    directories.iter().any(|directory| std::fs::symlink_metadata(root.join(directory).join(".gitattributes")).is_ok())
}

fn directory_of(path: &[u8]) -> &[u8] {
    path.iter().rposition(|b| *b == b'/').map_or(&[], |at| &path[..at])
}

/// The text of an attributes file; nothing in one that can be opened and not read, as a directory.
fn text_of(path: &Path, inside: bool) -> Option<Vec<u8>> {
    let flags = if inside { rustix::fs::OFlags::NOFOLLOW } else { rustix::fs::OFlags::empty() };
    let flags = (flags | rustix::fs::OFlags::NONBLOCK).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    let meta = file.metadata().ok()?;
    if meta.len() >= FILE_LIMIT && meta.is_file() {
        return None;
    }
    let mut text = Vec::new();
    if meta.is_file() && file.take(FILE_LIMIT).read_to_end(&mut text).is_err() {
        text.clear();
    }
    Some(text)
}
