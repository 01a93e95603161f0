//! Checks a patch that only changes lines, without starting git.
//!
//! Strict: each hunk has to stand where it says and to find what it says, and nothing may be left over. `git
//! apply` forgives more, so what passes here passes there.

use super::Change;
use crate::git::tree::{Item, MODE_EXECUTABLE, MODE_FILE, hash_blob};
use crate::git::{GitError, Oid};

/// Whether `patch` makes the new side of every change of its old one. `false` says nothing against the patch:
/// git has to judge what more than lines changes, and names that a patch has to quote.
pub(super) fn reproduces(
    changes: &[Change],
    patch: &[u8],
    read: impl Fn(Oid) -> Result<Vec<u8>, GitError>,
) -> Result<bool, GitError> {
    let mut lines = Lines(patch);
    for change in changes {
        let Some((old, new)) = plain(change) else { return Ok(false) };
        if !header(&mut lines, &change.path, old, new) {
            return Ok(false);
        }
        match patched(&read(old.id)?, &mut lines) {
            Some(content) if hash_blob(&content)? == new.id => {}
            _ => return Ok(false),
        }
    }
    Ok(lines.0.is_empty())
}

/// Both sides, where only the content of a file changes and its name stands in a patch as it is.
fn plain(change: &Change) -> Option<(Item, Item)> {
    let (old, new) = change.old.zip(change.new)?;
    let quoted = |b: &u8| !b.is_ascii_graphic() || matches!(b, b'"' | b'\\');
    let file = old.mode == new.mode && matches!(old.mode, MODE_FILE | MODE_EXECUTABLE);
    (file && !change.path.iter().any(quoted)).then_some((old, new))
}

/// What is left of a patch.
struct Lines<'a>(&'a [u8]);

impl<'a> Lines<'a> {
    /// The next line with its end; empty when there is none.
    fn next(&mut self) -> &'a [u8] {
        let (line, rest) = first(self.0);
        self.0 = rest;
        line
    }

    fn take(&mut self, wanted: &[u8]) -> bool {
        self.next() == wanted
    }
}

/// The first line with its end, and what follows.
fn first(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(memchr::memchr(b'\n', text).map_or(text.len(), |end| end + 1))
}

fn header(lines: &mut Lines<'_>, path: &[u8], old: Item, new: Item) -> bool {
    let with = |parts: &[&[u8]]| [parts.concat(), b"\n".to_vec()].concat();
    lines.take(&with(&[b"diff --git a/", path, b" b/", path]))
        && lines.take(format!("index {}..{} {:o}\n", old.id, new.id, old.mode).as_bytes())
        && lines.take(&with(&[b"--- a/", path]))
        && lines.take(&with(&[b"+++ b/", path]))
}

/// The content that the hunks up to the next file make of `old`; `None` where they do not fit.
fn patched(old: &[u8], lines: &mut Lines<'_>) -> Option<Vec<u8>> {
    let mut new = Vec::with_capacity(old.len() + lines.0.len());
    let (mut left, mut at_old, mut at_new) = (old, 0, 0);
    while lines.0.starts_with(b"@@ ") {
        let [from, to] = ranges(lines.next())?;
        while at_old < from.0 {
            let (line, rest) = first(left);
            if line.is_empty() {
                return None;
            }
            new.extend_from_slice(line);
            (left, at_old, at_new) = (rest, at_old + 1, at_new + 1);
        }
        if at_old != from.0 || at_new != to.0 {
            return None;
        }
        let end = (at_old + from.1, at_new + to.1);
        while (at_old, at_new) != end {
            let line = lines.next();
            let (sign, mut text) = line.split_first()?;
            // The line before has no end.
            if lines.0.starts_with(b"\\") {
                lines.next();
                text = text.strip_suffix(b"\n")?;
            }
            if matches!(sign, b' ' | b'-') {
                let (line, rest) = first(left);
                if line != text {
                    return None;
                }
                (left, at_old) = (rest, at_old + 1);
            }
            if matches!(sign, b' ' | b'+') {
                new.extend_from_slice(text);
                at_new += 1;
            }
            if !matches!(sign, b' ' | b'-' | b'+') || at_old > end.0 || at_new > end.1 {
                return None;
            }
        }
    }
    new.extend_from_slice(left);
    Some(new)
}

/// The two ranges of `@@ -1,3 +1,4 @@`: lines before them, and in them.
fn ranges(line: &[u8]) -> Option<[(usize, usize); 2]> {
    let text = std::str::from_utf8(line.split(|b| *b == b'@').nth(2)?).ok()?;
    let (from, to) = text.trim().strip_prefix('-')?.split_once(" +")?;
    let range = |text: &str| -> Option<(usize, usize)> {
        let (start, count) = text.split_once(',').unwrap_or((text, "1"));
        let (start, count): (usize, usize) = (start.parse().ok()?, count.parse().ok()?);
        // An empty range names the line before it.
        Some((if count == 0 { start } else { start.checked_sub(1)? }, count))
    };
    Some([range(from)?, range(to)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the hunks make of the text, and whether they are all of the patch.
    fn made(old: &str, patch: &str) -> Option<String> {
        let mut lines = Lines(patch.as_bytes());
        let new = patched(old.as_bytes(), &mut lines)?;
        lines.0.is_empty().then(|| String::from_utf8(new).expect("text"))
    }

    #[test]
    fn hunks_are_applied_where_they_stand() {
        for (old, patch, new) in [
            ("1\n2\n3\n", "@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n", "1\ntwo\n3\n"),
            ("1\n2\n", "@@ -0,0 +1 @@\n+0\n", "0\n1\n2\n"),
            ("1\n2\n", "@@ -2,0 +3,2 @@ fn f() {\n+3\n+4\n", "1\n2\n3\n4\n"),
            ("1\n2\n", "@@ -1,2 +0,0 @@\n-1\n-2\n", ""),
            ("", "@@ -0,0 +1 @@\n+1\n\\ No newline at end of file\n", "1"),
            ("1", "@@ -1 +1 @@\n-1\n\\ No newline at end of file\n+1\n", "1\n"),
            ("1\n2", "@@ -1,2 +1,2 @@\n-1\n+one\n 2\n\\ No newline at end of file\n", "one\n2"),
            ("a\nb\nc\nd\n", "@@ -1 +1,2 @@\n a\n+A\n@@ -4 +5 @@\n-d\n+D\n", "a\nA\nb\nc\nD\n"),
            ("x\r\n", "@@ -1 +1 @@\n-x\r\n+y\r\n", "y\r\n"),
            ("@@ -1 +1 @@\n", "@@ -1 +1 @@\n-@@ -1 +1 @@\n+\n", "\n"),
        ] {
            assert_eq!(made(old, patch).as_deref(), Some(new), "{patch}");
        }
    }

    #[test]
    fn what_does_not_fit_is_not_applied() {
        for (old, patch) in [
            // Another line, another place, beyond the end.
            ("1\n2\n", "@@ -1,2 +1,2 @@\n 1\n-two\n+2\n"),
            ("0\n1\n", "@@ -1 +1 @@\n-1\n+one\n"),
            ("1\n", "@@ -3 +3 @@\n-3\n+three\n"),
            // Places that contradict each other, counts that do.
            ("1\n2\n", "@@ -2 +1 @@\n-2\n+two\n"),
            ("1\n2\n", "@@ -1,2 +1,2 @@\n 1\n 2\n+3\n"),
            ("1\n2\n", "@@ -1,2 +1,2 @@\n 1\n"),
            ("1\n2\n", "@@ -1,2 +1 @@\n 1\n 2\n"),
            // An end where there is none, none where there is one.
            ("1", "@@ -1 +1 @@\n-1\n+2\n"),
            ("1\n", "@@ -1 +1 @@\n-1\n\\ No newline at end of file\n+2\n"),
            // No hunk.
            ("1\n", "@@ -1 @@\n-1\n"),
            ("1\n", "@@ -0 +1 @@\n-1\n+2\n"),
            ("1\n", "@@ -1 +1 @@\n*1\n"),
            ("1\n", "GIT binary patch\n"),
        ] {
            assert_eq!(made(old, patch), None, "{patch}");
        }
    }

    #[test]
    fn only_what_is_all_of_the_changes_passes() {
        let id = |content: &str| hash_blob(content.as_bytes()).expect("an id");
        let item = |mode, content| Some(Item { mode, id: id(content) });
        let change = |path: &str, old, new| Change { path: path.into(), old, new };
        let (a, b) = ("1\n", "2\n");
        let read = |wanted| Ok(if wanted == id(a) { a.into() } else { b.into() });
        let section = |path: &str, mode| {
            let (old, new) = (id(a), id(b));
            format!(
                "diff --git a/{path} b/{path}\nindex {old}..{new} {mode:o}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-1\n+2\n"
            )
        };
        let check = |changes: &[Change], patch: String| reproduces(changes, patch.as_bytes(), read).expect("read");
        let edit = |path| change(path, item(MODE_FILE, a), item(MODE_FILE, b));
        let both = section("x", MODE_FILE) + &section("y", MODE_FILE);
        assert!(check(&[edit("x")], section("x", MODE_FILE)));
        assert!(check(&[edit("x"), edit("y")], both.clone()));
        // One too many, one too few, another name, another order, another result.
        assert!(!check(&[edit("x")], both.clone()));
        assert!(!check(&[edit("x"), edit("y")], section("x", MODE_FILE)));
        assert!(!check(&[edit("z")], section("x", MODE_FILE)));
        assert!(!check(&[edit("y"), edit("x")], both));
        assert!(!check(&[edit("x")], section("x", MODE_FILE).replace("+2", "+3")));
        assert!(!check(&[edit("x")], section("x", MODE_EXECUTABLE)));
        // git's to judge.
        let mode = change("x", item(MODE_FILE, a), item(MODE_EXECUTABLE, b));
        assert!(!check(&[mode], section("x", MODE_FILE)));
        assert!(!check(&[change("x", None, item(MODE_FILE, b))], section("x", MODE_FILE)));
        assert!(!check(&[edit("x y")], section("x y", MODE_FILE)));
    }
}
