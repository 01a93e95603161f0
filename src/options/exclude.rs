//! Exclude patterns: which untracked paths isolate leaves out.
//!
//! Only `*` and `**` are special; a pattern without `/` matches the last segment of a path at any
//! depth, one with `/` the whole path from the root. `globset` does the matching; this file
//! translates into its language and says which patterns can match nothing.

use std::ffi::OsStr;
use std::path::Path;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

/// Why a pattern is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "isolationOptions \"exclude\" pattern \"{}\" can match nothing; {}.",
    super::plain(pattern),
    super::plain(hint)
)]
pub struct PatternError {
    /// The pattern as it was given.
    pub pattern: String,
    /// What to write instead.
    pub hint: String,
}

/// A compiled list of exclude patterns.
///
/// ```
/// use isofold::options::Excludes;
/// use std::path::Path;
///
/// let excludes = Excludes::new([".env", "secrets/**"]).unwrap();
/// assert!(excludes.matches(Path::new("packages/api/.env"), false));
/// assert!(!excludes.matches(Path::new("secrets"), true));
/// assert!(excludes.covers(Path::new("secrets/deep/key"), false));
/// ```
#[derive(Debug, Clone)]
pub struct Excludes {
    patterns: Vec<String>,
    /// Patterns for a file's or a directory's last segment, and those for directories alone.
    name: [GlobSet; 2],
    /// The same two for whole paths.
    path: [GlobSet; 2],
}

impl Excludes {
    /// Compiles `patterns`; an empty list excludes nothing.
    ///
    /// # Errors
    /// [`PatternError`] for a pattern that can match nothing (`/x`, `./x`, `x//y`, `..`).
    pub fn new<S: AsRef<str>>(patterns: impl IntoIterator<Item = S>) -> Result<Self, PatternError> {
        let patterns: Vec<String> = patterns.into_iter().map(|p| p.as_ref().to_owned()).collect();
        let mut name = [GlobSetBuilder::new(), GlobSetBuilder::new()];
        let mut path = [GlobSetBuilder::new(), GlobSetBuilder::new()];
        for pattern in &patterns {
            check(pattern)?;
            let only_directories = usize::from(pattern.ends_with('/'));
            let body = pattern.trim_end_matches('/');
            let builders = if body.contains('/') { &mut path } else { &mut name };
            for glob in translate(body) {
                let glob = GlobBuilder::new(&glob)
                    .literal_separator(true)
                    .backslash_escape(true)
                    .build()
                    .map_err(|e| PatternError { pattern: pattern.clone(), hint: e.kind().to_string() })?;
                builders[only_directories].add(glob);
            }
        }
        let build = |builder: GlobSetBuilder| {
            builder.build().map_err(|e| PatternError { pattern: patterns.join(", "), hint: e.kind().to_string() })
        };
        let [name_any, name_directory] = name;
        let [path_any, path_directory] = path;
        let (name, path) = ([build(name_any)?, build(name_directory)?], [build(path_any)?, build(path_directory)?]);
        Ok(Self { patterns, name, path })
    }

    /// The patterns as they were given.
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// Whether there is no pattern at all.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether a pattern matches `path` (relative to the root) itself.
    pub fn matches(&self, path: &Path, is_directory: bool) -> bool {
        if self.is_empty() {
            return false;
        }
        let last = path.file_name().unwrap_or_else(|| OsStr::new(""));
        let hit = |set: &GlobSet, text: &OsStr| !set.is_empty() && set.is_match(text);
        hit(&self.name[0], last)
            || hit(&self.path[0], path.as_os_str())
            || (is_directory && (hit(&self.name[1], last) || hit(&self.path[1], path.as_os_str())))
    }

    /// Whether a pattern matches `path` or a directory above it.
    pub fn covers(&self, path: &Path, is_directory: bool) -> bool {
        if self.is_empty() {
            return false;
        }
        self.matches(path, is_directory)
            || path
                .ancestors()
                .skip(1)
                .take_while(|above| !above.as_os_str().is_empty())
                .any(|above| self.matches(above, true))
    }
}

/// Refuses patterns that no relative path can ever match.
fn check(pattern: &str) -> Result<(), PatternError> {
    let refuse = |hint: String| Err(PatternError { pattern: pattern.to_owned(), hint });
    let trimmed = pattern.trim_start_matches('/');
    if trimmed.is_empty() {
        return refuse("name a path below the root, without a leading \"/\"".to_owned());
    }
    if trimmed.len() != pattern.len() {
        return refuse(format!("patterns start at the root already: write \"{trimmed}\""));
    }
    let body = pattern.strip_suffix('/').unwrap_or(pattern);
    if body.split('/').any(str::is_empty) {
        let parts: Vec<&str> = pattern.split('/').filter(|p| !p.is_empty()).collect();
        let tail = if pattern.ends_with('/') { "/" } else { "" };
        return refuse(format!("write \"{}{tail}\"", parts.join("/")));
    }
    if body.split('/').any(|part| part == "." || part == "..") {
        let parts: Vec<&str> = pattern.split('/').filter(|p| *p != "." && *p != "..").collect();
        let instead = parts.join("/");
        return if instead.is_empty() || instead == "/" {
            refuse("\".\" and \"..\" are no names below the root".to_owned())
        } else {
            refuse(format!("paths have no \".\" or \"..\" segments: write \"{instead}\""))
        };
    }
    if pattern.contains('\0') {
        return refuse("a path holds no NUL byte".to_owned());
    }
    Ok(())
}

/// The globs (in globset's language) that together mean `pattern`: a `**` that is not a whole
/// segment means a run that may cross `/`, which globset only knows for whole segments.
fn translate(pattern: &str) -> Vec<String> {
    let mut globs = vec![String::new()];
    let mut push = |text: &str| globs.iter_mut().for_each(|g| g.push_str(text));
    let mut inner_runs = 0;
    let chars: Vec<char> = pattern.chars().collect();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        if c == '*' {
            let from = at;
            while at < chars.len() && chars[at] == '*' {
                at += 1;
            }
            let whole_segment = (from == 0 || chars[from - 1] == '/') && (at == chars.len() || chars[at] == '/');
            match at - from {
                1 => push("*"),
                _ if whole_segment => push("**"),
                _ => {
                    inner_runs += 1;
                    push("\u{0}");
                }
            }
            continue;
        }
        match c {
            '?' | '[' | ']' | '{' | '}' | '\\' | '!' | ',' | '^' | '-' => {
                push("\\");
                push(c.encode_utf8(&mut [0; 4]));
            }
            _ => push(c.encode_utf8(&mut [0; 4])),
        }
        at += 1;
    }
    for _ in 0..inner_runs {
        globs =
            globs.into_iter().flat_map(|g| [g.replacen('\u{0}', "*", 1), g.replacen('\u{0}', "*/**/*", 1)]).collect();
    }
    globs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(pattern: &str, path: &str) -> bool {
        Excludes::new([pattern]).expect("compiles").matches(Path::new(path), false)
    }

    #[test]
    fn inner_double_stars_cross_segments() {
        assert!(hit("a**b", "ab") && hit("a**b", "axb") && hit("a**b/c", "ax/y/zb/c"));
        assert!(!hit("a*b/c", "ax/yb/c"));
        assert!(hit("x/a**", "x/a/b/c") && hit("x/a**", "x/ab"));
    }

    #[test]
    fn a_final_slash_means_a_directory_at_any_depth() {
        let excludes = Excludes::new(["x/", "p/q/"]).expect("compiles");
        assert!(excludes.matches(Path::new("d/x"), true) && !excludes.matches(Path::new("d/x"), false));
        assert!(excludes.covers(Path::new("d/x/file"), false) && !excludes.covers(Path::new("d/xy/file"), false));
        assert!(excludes.matches(Path::new("p/q"), true) && !excludes.matches(Path::new("d/p/q"), true));
    }

    #[test]
    fn names_that_are_not_utf8_match() {
        use std::os::unix::ffi::OsStrExt;
        let name = Path::new(OsStr::from_bytes(b"dir/\xff.pem"));
        assert!(Excludes::new(["*.pem"]).expect("compiles").matches(name, false));
    }

    #[test]
    fn patterns_that_match_nothing_are_refused_with_a_hint() {
        for (pattern, hint) in [
            ("/x", "write \"x\""),
            ("./x", "write \"x\""),
            ("x//y", "write \"x/y\""),
            ("x//", "write \"x/\""),
            ("a/../b", "write \"a/b\""),
            ("..", "no names below the root"),
            ("/", "name a path below the root"),
        ] {
            let error = Excludes::new([pattern]).expect_err(pattern).to_string();
            assert!(error.contains(hint) && error.contains(pattern), "{pattern}: {error}");
        }
    }
}
