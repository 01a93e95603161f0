//! git's glob matching, byte for byte (wildmatch.c): what `fnmatch` and the glob crates decide
//! differently is decided git's way.

/// How a pattern is matched.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flags {
    /// `*`, `?` and classes don't match `/`; `**` as a whole segment does.
    pub(super) pathname: bool,
    /// ASCII letters match in either case.
    pub(super) casefold: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Match {
    Yes,
    No,
    /// No other split of this `*` can match.
    AbortAll,
    /// Only a `**` further left can still match.
    AbortToStarStar,
}

/// Whether the whole of `text` matches `pattern`.
pub(super) fn matches(pattern: &[u8], text: &[u8], flags: Flags) -> bool {
    walk(pattern, text, flags) == Match::Yes
}

fn special(byte: u8) -> bool {
    matches!(byte, b'*' | b'?' | b'[' | b'\\')
}

/// The end of a pattern or text reads as NUL, as in the original.
fn at(bytes: &[u8], index: usize) -> u8 {
    bytes.get(index).copied().unwrap_or(0)
}

fn walk(pattern: &[u8], text: &[u8], flags: Flags) -> Match {
    let fold = |byte: u8| if flags.casefold { byte.to_ascii_lowercase() } else { byte };
    let (mut p, mut t) = (0, 0);
    while p < pattern.len() {
        let p_byte = fold(pattern[p]);
        if t >= text.len() && p_byte != b'*' {
            return Match::AbortAll;
        }
        let t_byte = fold(at(text, t));
        match p_byte {
            b'\\' => {
                p += 1;
                if at(pattern, p) != t_byte {
                    return Match::No;
                }
            }
            b'?' => {
                if flags.pathname && t_byte == b'/' {
                    return Match::No;
                }
            }
            b'*' => match star(pattern, p, text, t, flags) {
                Star::Done(result) => return result,
                Star::NextDirectory { pattern: next, text: slash } => (p, t) = (next, slash),
            },
            b'[' => match class(pattern, p, t_byte, flags) {
                Some((matched, end)) => {
                    if !matched || (flags.pathname && t_byte == b'/') {
                        return Match::No;
                    }
                    p = end;
                }
                None => return Match::AbortAll,
            },
            _ => {
                if p_byte != t_byte {
                    return Match::No;
                }
            }
        }
        p += 1;
        t += 1;
    }
    if t < text.len() { Match::No } else { Match::Yes }
}

enum Star {
    Done(Match),
    /// `*/`: on at the next slash of the text.
    NextDirectory {
        pattern: usize,
        text: usize,
    },
}

fn star(pattern: &[u8], start: usize, text: &[u8], mut t: usize, flags: Flags) -> Star {
    let fold = |byte: u8| if flags.casefold { byte.to_ascii_lowercase() } else { byte };
    let mut p = start + 1;
    let mut match_slash = !flags.pathname;
    if at(pattern, p) == b'*' {
        while at(pattern, p) == b'*' {
            p += 1;
        }
        if flags.pathname {
            let opens = start == 0 || pattern[start - 1] == b'/';
            let next = at(pattern, p);
            let closes = p >= pattern.len() || next == b'/' || (next == b'\\' && at(pattern, p + 1) == b'/');
            if opens && closes {
                // `**/` may also match nothing at all.
                if next == b'/' && walk(&pattern[p + 1..], &text[t..], flags) == Match::Yes {
                    return Star::Done(Match::Yes);
                }
                match_slash = true;
            }
        }
    }
    if p >= pattern.len() {
        let slash_left = text[t..].contains(&b'/');
        return Star::Done(if !match_slash && slash_left { Match::AbortToStarStar } else { Match::Yes });
    }
    if !match_slash && pattern[p] == b'/' {
        return match text[t..].iter().position(|b| *b == b'/') {
            Some(slash) => Star::NextDirectory { pattern: p, text: t + slash },
            None => Star::Done(Match::AbortAll),
        };
    }
    while t < text.len() {
        if !special(pattern[p]) {
            let wanted = fold(pattern[p]);
            while t < text.len() && (match_slash || text[t] != b'/') && fold(text[t]) != wanted {
                t += 1;
            }
            if t >= text.len() || fold(text[t]) != wanted {
                return Star::Done(if match_slash { Match::AbortAll } else { Match::AbortToStarStar });
            }
        }
        match walk(&pattern[p..], &text[t..], flags) {
            Match::No if !match_slash && text[t] == b'/' => return Star::Done(Match::AbortToStarStar),
            Match::No => {}
            Match::AbortToStarStar if match_slash => {}
            other => return Star::Done(other),
        }
        t += 1;
    }
    Star::Done(Match::AbortAll)
}

/// Whether the class that opens at `start` holds `byte`, and where it ends; `None` for one that
/// never closes or names an unknown class of characters.
fn class(pattern: &[u8], start: usize, byte: u8, flags: Flags) -> Option<(bool, usize)> {
    let mut p = start + 1;
    let negated = matches!(at(pattern, p), b'!' | b'^');
    if negated {
        p += 1;
    }
    let mut matched = false;
    let mut previous = 0;
    let mut current = at(pattern, p);
    loop {
        if p >= pattern.len() {
            return None;
        }
        if current == b'\\' {
            p += 1;
            current = at(pattern, p);
            if p >= pattern.len() {
                return None;
            }
            matched |= byte == current;
        } else if current == b'-' && previous != 0 && p + 1 < pattern.len() && pattern[p + 1] != b']' {
            p += 1;
            current = at(pattern, p);
            if current == b'\\' {
                p += 1;
                current = at(pattern, p);
                if p >= pattern.len() {
                    return None;
                }
            }
            let range = previous..=current;
            matched |= range.contains(&byte)
                || (flags.casefold && byte.is_ascii_lowercase() && range.contains(&byte.to_ascii_uppercase()));
            current = 0;
        } else if current == b'[' && at(pattern, p + 1) == b':' {
            let name_at = p + 2;
            let close = pattern[name_at..].iter().position(|b| *b == b']')? + name_at;
            if close == name_at || pattern[close - 1] != b':' {
                // No `:]`: an ordinary `[`.
                matched |= byte == b'[';
            } else {
                matched |= named(&pattern[name_at..close - 1], byte, flags)?;
                p = close;
                current = 0;
            }
        } else {
            matched |= byte == current;
        }
        previous = current;
        p += 1;
        current = at(pattern, p);
        if current == b']' && p < pattern.len() {
            return Some((matched != negated, p));
        }
    }
}

fn named(name: &[u8], byte: u8, flags: Flags) -> Option<bool> {
    Some(match name {
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"alpha" => byte.is_ascii_alphabetic(),
        b"blank" => matches!(byte, b' ' | b'\t'),
        b"cntrl" => byte.is_ascii_control(),
        b"digit" => byte.is_ascii_digit(),
        b"graph" => byte.is_ascii_graphic(),
        b"lower" => byte.is_ascii_lowercase(),
        b"print" => byte.is_ascii_graphic() || byte == b' ',
        b"punct" => byte.is_ascii_punctuation(),
        // git's own table: neither the vertical tab nor the form feed.
        b"space" => matches!(byte, b' ' | b'\t' | b'\n' | b'\r'),
        b"upper" => byte.is_ascii_uppercase() || (flags.casefold && byte.is_ascii_lowercase()),
        b"xdigit" => byte.is_ascii_hexdigit(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_that_glob_crates_decide_differently() {
        let path = Flags { pathname: true, casefold: false };
        for (pattern, text, wanted) in [
            ("**/bar", "foo/q/bar", true),
            ("**/bar", "bar", true),
            ("foo/**", "foo/a/b", true),
            ("foo/**", "foo", false),
            ("a**b", "a/b", false),
            ("*/b", "a/b", true),
            ("*/b", "a/c/b", false),
            ("[[:alpha:]]", "x", true),
            ("[[:nope:]]", "x", false),
            ("[a-", "a", false),
            ("[]-a]", "]", true),
            ("[!a]", "/", false),
            ("\\*", "*", true),
            ("a\\", "a\\", false),
            ("*.c", "x.c", true),
            ("**", "a/b", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes(), path), wanted, "{pattern} {text}");
        }
        assert!(matches(b"FOO*", b"foobar", Flags { pathname: false, casefold: true }));
    }
}
