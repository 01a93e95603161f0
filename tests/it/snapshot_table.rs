//! The snapshot against `git add -A --sparse && git write-tree`, case by case. Each case names the
//! rule it tests; a recipe is a few lines of shell in a repository with one commit.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::support::snapshots::{compare, hermetic, isolated, say};
use crate::support::{Sandbox, write};

/// What a case has to give.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Want {
    /// git's tree, by the scan.
    Scan,
    /// git's tree, by git: the scan must not try.
    Git,
    /// git's tree, by the scan, all of it stored in process.
    Here,
    /// git's tree: the scan finds what git stores.
    There,
    /// git's tree without these paths, which are named; `-path` is left out without a word.
    Less(&'static str),
    /// A refusal with these words, where git itself fails or would lose something.
    Refuse(&'static str),
}
use Want::{Git, Here, Less, Refuse, Scan, There};

pub(crate) type Case = (&'static str, Want, &'static str);

/// What every recipe can use: `w PATH [CONTENT]` writes a file, `i LINE…` the root's `.gitignore`,
/// `c` commits everything, `old` makes every file old and the index clean, so that stat data decides.
/// `poke PERL` edits the index file (in `$_`, its first entry begins at byte 12), `field AT` one number of it;
/// `lie OLD NEW` has it name the content NEW, `honest PATH` gives the first entry the stat data of a file.
const PRELUDE: &str = r#"set -e
w() { case $1 in */*) mkdir -p "${1%/*}";; esac; printf '%b' "${2-$1}" >"$1"; }
i() { printf '%s\n' "$@" >.gitignore; }
c() { git add -A && git commit -qm c; }
old() { find . -name .git -prune -o -type f -exec touch -d '2020-01-01 00:00:01' {} +; git update-index -q --refresh || true; }
poke() { perl -0777 -i -pe "$1; substr(\$_, -20) = ''" .git/index; perl -e "print pack 'H*', '$(sha1sum <.git/index)'" | head -c 20 >>.git/index; }
field() { poke "substr(\$_, $1, 4) = pack 'N', 1 ^ unpack 'N', substr \$_, $1, 4"; }
lie() { set -- $(printf %s "$1" | git hash-object --stdin) $(printf %s "$2" | git hash-object -w --stdin); poke "substr(\$_, index(\$_, pack 'H*', '$1'), 20) = pack 'H*', '$2'"; }
honest() { poke "substr(\$_, 12, 40) = pack 'N10', (map { \$_, 0 } (stat '$1')[10, 9]), (stat _)[0, 1], 0100644, (stat _)[4, 5, 7]"; }
sub() { git init -q -b main "$1" && git -C "$1" commit -q --allow-empty -m s; }
export GIT_AUTHOR_NAME=T GIT_AUTHOR_EMAIL=t@example.test GIT_COMMITTER_NAME=T GIT_COMMITTER_EMAIL=t@example.test
export GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'
"#;

/// Files that every ignore case has, beside its own ignore files.
const TREE: [&str; 38] = [
    "a",
    "b",
    "ab",
    "abc",
    "a b",
    "a ",
    "#a",
    "!a",
    "aa",
    "a*",
    "[a]",
    "a.log",
    "b.log",
    "A",
    "a\t",
    "-",
    "]",
    "\u{b}",
    "\u{c}",
    "é",
    "x/a",
    "x/b",
    "x/a.log",
    "x/y/a",
    "x/y/b",
    "x/y/z/a",
    "x/y/z/b.log",
    "a.d/a",
    "a.d/b",
    "bar",
    "foo/bar",
    "foo/q/bar",
    "fooq/bar",
    "x/foo/bar",
    "foo/q/r/bar",
    "build/a",
    "x/build/a",
    "x/y/build/b",
];

/// The root's `.gitignore`, for [`TREE`].
#[rustfmt::skip]
const IGNORE: &[(&str, &str)] = &[
    ("a name matches at any depth", "a\n"),
    ("a name matches a directory", "build\n"),
    ("a slash in front anchors", "/a\n"),
    ("a slash in front anchors a directory", "/build\n"),
    ("a slash in the middle anchors", "x/a\n"),
    ("a slash in the middle does not match deeper", "y/a\n"),
    ("a slash at the end: only directories", "a/\n"),
    ("a slash at the end: directories at any depth", "build/\n"),
    ("anchored directory", "/build/\n"),
    ("two slashes at the end", "build//\n"),
    ("two slashes in front", "//a\n"),
    ("two slashes in the middle", "x//a\n"),
    ("only a slash", "/\n"),
    ("only two slashes", "//\n"),
    ("a star matches within a name", "*.log\n"),
    ("a star alone", "*\n"),
    ("a star alone, directories", "*/\n"),
    ("slash star", "/*\n"),
    ("slash star slash", "/*/\n"),
    ("star slash star", "*/*\n"),
    ("a star does not cross a slash", "x/*b\n"),
    ("a star in the middle", "a*c\n"),
    ("a star at both ends", "*b*\n"),
    ("a star and a literal, by the end", "*b\n"),
    ("a star and an escaped literal", "*\\b\n"),
    ("two stars in a name", "a**\n"),
    ("two stars before a name without slash", "**b\n"),
    ("two stars alone", "**\n"),
    ("two stars slash", "**/\n"),
    ("slash two stars", "/**\n"),
    ("leading two stars", "**/a\n"),
    ("leading two stars and a path", "**/y/a\n"),
    ("trailing two stars", "x/**\n"),
    ("trailing two stars of a name", "x/y**\n"),
    ("two stars in the middle match nothing too", "x/**/a\n"),
    ("two stars in the middle, twice", "x/**/**/a\n"),
    ("two stars after a literal, prefix cut off", "foo**/bar\n"),
    ("two stars before a literal", "**foo/bar\n"),
    ("three stars", "x/***/a\n"),
    ("two stars and an escaped slash", "x/**\\/a\n"),
    ("two stars, directories only", "x/**/\n"),
    ("star and two stars", "*/**/b\n"),
    ("a star before two stars", "*a**/b\n"),
    ("a question mark", "a?\n"),
    ("a question mark is no slash", "x?a\n"),
    ("a question mark in a path is no slash", "/x?a\n"),
    ("a star before a question mark does not cross a slash", "x/*?log\n"),
    ("three question marks", "???\n"),
    ("a question mark counts bytes", "?\n"),
    ("two bytes of one letter", "??\n"),
    ("a class", "[ab]\n"),
    ("a class in a path", "x/[ab]\n"),
    ("a class is no slash", "x[/]a\n"),
    ("a negated class is no slash", "x[!b]a\n"),
    ("a negated class", "[!a]\n"),
    ("a negated class with a caret", "[^a]\n"),
    ("a range", "[a-b]\n"),
    ("a range backwards", "[b-a]\n"),
    ("a range up to the bracket", "[a-]\n"),
    ("a dash in front", "[-a]\n"),
    ("a bracket first in a class", "[]a]\n"),
    ("a bracket first in a negated class", "[!]a]\n"),
    ("a class that never closes", "[ab\n"),
    ("a class that never closes after a name", "a[\n"),
    ("an escape in a class", "[\\]]\n"),
    ("an escape that ends in a class", "[\\\n"),
    ("an escaped range end", "[a-\\b]\n"),
    ("an escaped range end, and what lies between", "[a-\\c]\n"),
    ("a range after a range", "[a-b-c]\n"),
    ("alnum", "[[:alnum:]]\n"),
    ("alpha", "[[:alpha:]]*\n"),
    ("blank", "?[[:blank:]]\n"),
    ("cntrl", "[[:cntrl:]]\n"),
    ("digit", "[[:digit:]]\n"),
    ("graph", "[[:graph:]]\n"),
    ("lower", "[[:lower:]]\n"),
    ("print", "a[[:print:]]\n"),
    ("punct", "[[:punct:]]\n"),
    ("space has no vertical tab and form feed", "[[:space:]]\n"),
    ("space at the end", "a[[:space:]]\n"),
    ("upper", "[[:upper:]]\n"),
    ("xdigit", "[[:xdigit:]][[:xdigit:]]\n"),
    ("an unknown class of characters", "[[:nope:]]\n"),
    ("an unknown class of characters spoils the others", "[[:nope:]a]\n"),
    ("a dash after a class of characters is no range", "[[:digit:]-a]\n"),
    ("an empty class of characters", "[[::]]\n"),
    ("a class of characters that does not close", "[[:alpha]\n"),
    ("a class of characters among others", "[[:digit:]ab]\n"),
    ("an escaped star", "a\\*\n"),
    ("an escaped class", "\\[a]\n"),
    ("an escaped letter", "\\a\n"),
    ("a backslash at the end", "a\\\n"),
    ("two backslashes at the end", "a\\\\\n"),
    ("an escaped hash", "\\#a\n"),
    ("a comment", "#a\na.log\n"),
    ("a hash later in the line", "a#\n"),
    ("an escaped exclamation mark", "\\!a\n"),
    ("a blank line", "\n\na\n"),
    ("a line of spaces", "   \na\n"),
    ("spaces in front count", " a\n"),
    ("trailing spaces do not count", "a   \n"),
    ("an escaped trailing space", "a\\ \n"),
    ("an escaped trailing space and more", "a\\   \n"),
    ("a space in the middle", "a b\n"),
    ("a trailing tab counts", "a\t\n"),
    ("a trailing space after a backslash pair", "a\\\\ \n"),
    ("a trailing slash and a space", "build/ \n"),
    ("no newline at the end", "b\na"),
    ("carriage returns", "a\r\nb\r\n"),
    ("a carriage return at the end of the file", "a\r"),
    ("two carriage returns", "a\r\r\n"),
    ("a carriage return alone", "\r\na\r\n"),
    ("a space before a carriage return", "a \r\n"),
    ("a carriage return in the middle", "a\rb\na\n"),
    ("a byte order mark", "\u{feff}a\n"),
    ("a byte order mark before a comment", "\u{feff}#a\na.log\n"),
    ("a byte order mark in the second line", "b\n\u{feff}a\n"),
    ("a NUL ends a line", "a\0b\nb\n"),
    ("a NUL first", "\0a\nb\n"),
    ("a NUL after spaces", "a  \0b\n"),
    ("negation brings a file back", "*.log\n!a.log\n"),
    ("the last that matches decides", "!a\na\n"),
    ("negation of nothing", "!zzz\n"),
    ("negation alone", "!\na\n"),
    ("negation of a slash", "!/\na\n"),
    ("double negation is a name", "!!a\n"),
    ("nothing comes back below an excluded directory", "x/\n!x/a\n"),
    ("a directory comes back, its files with it", "x/\n!x/\n"),
    ("contents excluded, one comes back", "x/*\n!x/a\n"),
    ("everything but one path", "/*\n!/x\n/x/*\n!/x/y\n"),
    ("everything but directories", "*\n!*/\n!*.log\n"),
    ("negated directory pattern leaves files", "a\n!a/\n"),
    ("two stars and negation", "x/**\n!x/y/\n!x/y/a\n"),
    ("case counts", "A\n"),
    ("bytes that are not UTF-8 letters", "\u{e9}\n"),
    ("a pattern longer than any path", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/b\n"),
    ("a dot in front", "./a\n"),
    ("two dots", "../a\nx/../a\n"),
    ("an escaped slash in front", "\\/a\n"),
    ("an escaped first letter in a path", "\\x/a\n"),
    ("a class as first letter of a path", "[x]/a\n"),
    ("a literal that is the whole path, with wildcard next", "x/a*\n"),
    ("the ignore file ignores itself", ".gitignore\na\n"),
];

/// An ignore file in a directory (its path), for [`TREE`].
#[rustfmt::skip]
const NESTED_IGNORE: &[(&str, &str, &str, &str)] = &[
    ("a deeper file counts below it", "x/.gitignore", "a\n", ""),
    ("a deeper file anchors at its directory", "x/.gitignore", "/a\n", ""),
    ("a deeper file with a path", "x/.gitignore", "y/a\n", ""),
    ("a deeper file with two stars", "x/.gitignore", "**/a\n", ""),
    ("a deeper file with a star", "x/.gitignore", "*\n", ""),
    ("a deeper file, directories", "x/.gitignore", "y/\n", ""),
    ("a deeper file overrules the root's", "x/.gitignore", "!a\n", "a\n"),
    ("a deeper negation that negates nothing there", "x/.gitignore", "!a.log\n", "*.log\n"),
    ("the root's negation loses against a deeper rule", "x/.gitignore", "a\n", "!a\n"),
    ("an ignore file below an excluded directory is not read", "x/.gitignore", "!*\n", "x/\n"),
    ("three levels", "x/y/.gitignore", "!a\n", "a\n"),
    ("info/exclude", ".git/info/exclude", "*.log\n", ""),
    ("info/exclude anchors at the root", ".git/info/exclude", "/a\n", ""),
    ("info/exclude loses against the root's file", ".git/info/exclude", "a\n", "!a\n"),
    ("info/exclude negates nothing of the root's", ".git/info/exclude", "!a\n", "a\n"),
    ("an empty ignore file", "x/.gitignore", "", "a\n"),
];

#[rustfmt::skip]
const CASES: &[Case] = &[
    // Ignore files that are not plain files.
    ("a symlinked .gitignore is not followed", Scan, "w rules a; ln -s rules .gitignore; w a"),
    ("a symlinked deeper .gitignore is not followed", Scan, "w d/rules a; ln -s rules d/.gitignore; w d/a"),
    ("a .gitignore that links to nothing", Scan, "ln -s nowhere .gitignore; w a"),
    ("a .gitignore that is a directory", Scan, "w .gitignore/a; w a"),
    ("a symlinked info/exclude is followed", Scan, "w rules a; rm -f .git/info/exclude; ln -s ../../rules .git/info/exclude; w a; w b"),
    ("a huge .gitignore", Scan, "{ seq 1 20000 | sed 's/^/no/'; echo a; } >.gitignore; w a; w b"),
    ("a huge line", Scan, "{ printf '%070000d' 0; echo; echo a; } >.gitignore; w a; w b"),
    ("many levels", Scan, "p=d; for n in 1 2 3 4 5 6 7 8 9; do w $p/.gitignore \"a$n\\n\"; w $p/a1; w $p/a9; p=$p/d; done"),
    ("a directory rule does not match a link to one", Scan, "i d/; w e/a; ln -s e d"),
    ("a plain rule matches a link", Scan, "i d; w e/a; ln -s e d"),
    ("a rule about what is below a link", Scan, "i d/a; w e/a; ln -s e d"),
    ("a class that never closes is no literal", Scan, "i '[ab'; w '[ab'; w a"),
    ("two stars go on where a star stops at a slash", Scan, "i '**/a*b'; w p/ax/ab; w p/ax/b"),
    // Where the other rules come from.
    ("core.excludesFile, absolute", Scan, "w .git/ex a; git config core.excludesFile $PWD/.git/ex; w a; w b"),
    ("core.excludesFile, relative to the root", Scan, "w ex a; git config core.excludesFile ex; w a; w b"),
    ("core.excludesFile in the home", Scan, "mkdir -p ~/x; printf home-a >~/x/ex; git config core.excludesFile '~/x/ex'; w home-a; w b"),
    ("core.excludesFile through a link", Scan, "w .git/ex a; ln -s ex .git/exl; git config core.excludesFile $PWD/.git/exl; w a; w b"),
    ("core.excludesFile is empty", Scan, "git config core.excludesFile ''; w a"),
    ("core.excludesFile is not there", Scan, "git config core.excludesFile /nowhere/at/all; w a"),
    ("core.excludesFile is a directory", Refuse("cannot use"), "git config core.excludesFile $PWD/.git; w a"),
    ("core.excludesFile loses against info/exclude", Scan, "w .git/ex a; git config core.excludesFile $PWD/.git/ex; echo '!a' >.git/info/exclude; w a; w b"),
    ("core.excludesFile twice: the last counts", Scan, "w .git/e1 a; w .git/e2 b; git config core.excludesFile $PWD/.git/e1; git config --add core.excludesFile $PWD/.git/e2; w a; w b"),
    ("core.excludesFile by an include", Scan, "w .git/ex a; printf '[core]\\n\\texcludesFile = %s/.git/ex\\n' $PWD >.git/more; git config include.path more; w a; w b"),
    ("core.excludesFile by a condition on the directory", Scan, "w .git/ex a; printf '[core]\\n\\texcludesFile = %s/.git/ex\\n' $PWD >.git/more; git config includeIf.gitdir:$PWD/.git.path more; w a; w b"),
    ("core.excludesFile by a condition on the branch", Scan, "w .git/ex a; printf '[core]\\n\\texcludesFile = %s/.git/ex\\n' $PWD >.git/more; git config includeIf.onbranch:main.path more; w a; w b"),
    ("core.excludesFile by a condition on a remote", Git, "w .git/ex a; printf '[core]\\n\\texcludesFile = %s/.git/ex\\n' $PWD >.git/more; git config remote.o.url http://x.test/y; git config 'includeIf.hasconfig:remote.*.url:http://x.test/**.path' more; w a; w b"),
    ("core.excludesFile in config.worktree", Scan, "w .git/ex a; git config extensions.worktreeConfig true; git config --worktree core.excludesFile $PWD/.git/ex; w a; w b"),
    ("no info directory", Scan, "rm -rf .git/info; w a"),
    ("core.ignoreCase: rules in either case", Git, "git config core.ignoreCase true; i '*.LOG' /X; w a.log; w x/a; w B.Log; w keep"),
    ("core.ignoreCase: nothing new but ignored files", Scan, "i '*.LOG' /X; c; git config core.ignoreCase true; w a.log; w x/a; w B.Log"),
    ("core.ignoreCase: letters beside a wildcard", Scan, "i 'A?B'; c; git config core.ignoreCase true; w axb"),
    ("core.ignoreCase: a range of capitals", Scan, "i '[C-D]'; c; git config core.ignoreCase true; w c"),
    ("core.ignoreCase: a class of capitals", Scan, "i '[[:upper:]]'; c; git config core.ignoreCase true; w z"),
    ("core.ignoreCase: a name that is tracked in another case", Git, "w foo; c; git config core.ignoreCase true; w FOO other"),
    ("core.ignoreCase: renamed in case only", Git, "w foo; c; git config core.ignoreCase true; mv foo FOO"),
    ("core.ignoreCase: directory in another case", Git, "w d/foo; c; git config core.ignoreCase true; w D/bar"),
    // Tracked files and rules.
    ("a tracked file that is ignored, changed", Scan, "w a.log; c; i '*.log'; w a.log changed; w b.log"),
    ("a tracked file that is ignored, gone", Scan, "w a.log; c; i '*.log'; rm a.log"),
    ("tracked files in an ignored directory", Scan, "w d/a; w d/b; c; i d/; w d/a changed; rm d/b; w d/new; w d/e/new"),
    ("tracked files deep in an ignored directory", Scan, "w d/e/a; c; i d/; w d/e/a changed; w d/e/b; w d/f/c"),
    ("an ignore file inside an ignored directory with tracked files", Scan, "w d/a; w d/.gitignore '!*\\n'; c; i d/; w d/new"),
    ("tracked files only in a sub-directory of an ignored one", Scan, "w d/e/a; c; i 'd/*'; w d/e/b; w d/f"),
    ("force-added and staged only", Scan, "i '*.log'; w a.log; git add -f a.log; w b.log"),
    ("force-added, then gone", Scan, "i '*.log'; w a.log; git add -f a.log; rm a.log"),
    ("a directory rule and a tracked file of that name", Scan, "w d; c; i d/; w d changed"),
    ("a tracked file became an ignored directory", Scan, "w d; c; i d/; rm d; w d/a"),
    ("a tracked file became a directory with ignored files", Scan, "w d; c; i '*.log'; rm d; w d/a.log; w d/b"),
    // Content and stat data.
    ("nothing changed", Scan, "w a; w d/b; c"),
    ("nothing changed, stat data old", Scan, "w a; w d/b; c; old"),
    ("changed, another size", Scan, "w a; c; old; w a longer"),
    ("changed, same size, same time", Scan, "w a 1; c; old; w a 2; touch -d '2020-01-01 00:00:01' a"),
    ("racy: changed in the second of the index, same size", Scan, "w a 1; git add a; w a 2"),
    ("racy: emptied", Scan, "w a 1; git add a; : >a"),
    ("racy entry smudged by git, then emptied", Scan, "w a 1; w b; git add a; w a 2; git add b; : >a"),
    ("touched, same content", Scan, "w a; c; old; touch a"),
    ("replaced by another file, same content", Scan, "w a; c; old; cp a b; mv b a"),
    ("stat data all wrong", Scan, "w a; w b; c; touch -d '2001-01-01' a b"),
    ("a file from before 1970", Scan, "w a 1; touch -d '1960-01-01' a; git add a; w a 2; touch -d '1960-01-01' a"),
    ("a file from the future", Scan, "w a 1; touch -d '2100-01-01' a; git add a; w a 2; touch -d '2100-01-01' a"),
    ("an index from the future", Scan, "w a 1; c; old; touch -d '2100-01-01' .git/index; w a 2"),
    ("core.trustctime off", Scan, "git config core.trustctime false; w a 1; c; old; w a 2; touch -d '2020-01-01 00:00:01' a"),
    ("core.trustctime off, touched", Scan, "git config core.trustctime false; w a 1; c; old; cp -p a b; mv b a"),
    ("core.checkStat minimal", Scan, "git config core.checkStat minimal; w a 1; c; old; w a 2"),
    ("core.checkStat minimal, another inode", Scan, "git config core.checkStat minimal; w a 1; c; old; cp -p a b; mv b a; w a 22"),
    ("emptied", Scan, "w a; c; old; : >a"),
    ("filled", Scan, "w a ''; c; old; w a x"),
    ("an empty file, untouched", Scan, "w a ''; c; old"),
    ("executable bit set", Scan, "w a; c; old; chmod +x a"),
    ("executable bit cleared", Scan, "w a; chmod +x a; c; old; chmod -x a"),
    ("executable for others only", Scan, "w a; c; old; chmod 0655 a"),
    ("executable for the owner only", Scan, "w a; c; old; chmod 0700 a"),
    ("a new executable", Scan, "w a; chmod +x a"),
    ("core.fileMode off: bit set", Scan, "git config core.fileMode false; w a; c; old; chmod +x a"),
    ("core.fileMode off: bit kept from the index", Scan, "w a; chmod +x a; c; git config core.fileMode false; chmod -x a; w a changed"),
    ("core.fileMode off: new executable", Scan, "git config core.fileMode false; w a; chmod +x a"),
    ("core.fileMode off: staged executable", Scan, "git config core.fileMode false; w a; git add a; git update-index --chmod=+x a; w a changed"),
    ("core.fileMode off: a link", Scan, "git config core.fileMode false; ln -s x a; c; ln -sf y a"),
    ("core.fileMode off: link to file", Scan, "git config core.fileMode false; ln -s x a; c; rm a; w a; chmod +x a"),
    ("core.symlinks off: a link as a file", Scan, "ln -s x a; c; git config core.symlinks false; rm a; printf y >a"),
    ("core.symlinks off: a file of the link's text", Scan, "ln -s x a; c; old; git config core.symlinks false; rm a; printf x >a"),
    ("core.symlinks off: new link", Scan, "git config core.symlinks false; ln -s x a"),
    ("a link changed", Scan, "ln -s x a; c; ln -sf y a"),
    ("a link to a directory", Scan, "w d/x; ln -s d a"),
    ("a link to nothing", Scan, "ln -s nowhere a"),
    ("a link to itself", Scan, "ln -s a a"),
    ("a link outside", Scan, "ln -s /etc/passwd a"),
    ("a tracked link, untouched", Scan, "ln -s x a; c"),
    ("a hard link", Scan, "w a; c; ln a b"),
    ("a big file", Scan, "head -c 3000000 /dev/zero >a"),
    ("core.bigFileThreshold", Scan, "git config core.bigFileThreshold 1k; head -c 30000 /dev/zero >a; c; w a 1"),
    ("core.ignoreStat", Scan, "git config core.ignoreStat true; w a 1; c; w a 2"),
    // Gone, and kinds that change.
    ("gone", Scan, "w a; w b; c; rm a"),
    ("everything gone", Scan, "w a; w b; c; rm -f * .gitignore"),
    ("a directory gone", Scan, "w d/a; w d/e/b; w f; c; rm -r d"),
    ("an empty directory stays", Scan, "w d/a; c; rm d/a"),
    ("a new empty directory", Scan, "mkdir d; w a"),
    ("file to link", Scan, "w a; c; rm a; ln -s x a"),
    ("file to link of the same text", Scan, "w a x; c; old; rm a; ln -s x a"),
    ("link to file", Scan, "ln -s x a; c; rm a; w a"),
    ("file to directory", Scan, "w a; c; rm a; w a/b"),
    ("file to empty directory", Scan, "w a; w b; c; rm a; mkdir a"),
    ("link to directory", Scan, "ln -s x a; c; rm a; w a/b"),
    ("directory to file", Scan, "w a/b; w a/c/d; c; rm -r a; w a"),
    ("directory to link", Scan, "w a/b; c; rm -r a; ln -s x a"),
    ("directory to link to a directory with the same file", Scan, "w a/b; c; mv a z; ln -s z a"),
    ("deep parent became a link", Scan, "w a/b/c/d; c; mv a/b z; ln -s ../z a/b; w z/c/d changed"),
    ("a parent became a link to itself", Git, "w a/b; c; rm -r a; ln -s a a"),
    ("a parent became an ignored link to itself: what is below stays", Git, "w a/b; c; i a; rm -r a; ln -s a a"),
    ("a deep parent became an ignored link to itself", Git, "w a/b/c/d; c; i b; rm -r a/b; ln -s b a/b"),
    ("a parent became a link to nothing, ignored", Scan, "w a/b; c; i a; rm -r a; ln -s nowhere a"),
    ("directory to an ignored file", Scan, "w a/b; c; i a; rm -r a; w a"),
    ("directory to FIFO", Scan, "w a/b; w c; c; rm -r a; mkfifo a"),
    ("file to FIFO", Refuse("a"), "w a; c; rm a; mkfifo a"),
    ("file to socket", Refuse("a"), "w a; c; rm a; perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local=>\"a\",Listen=>1)'"),
    ("names that sort around a slash", Scan, "w a.b; w a/b; w a0; w a-b; c; rm -r a; w a; rm a.b; w a.b/c"),
    ("a file and a directory swap", Scan, "w a; w b/c; c; mv a t; mv b a; mv t b"),
    ("directory to file beside longer names", Scan, "w d/x; w d.x; w d-x; w d0; c; rm -r d; w d"),
    ("a rename", Scan, "w a; c; mv a b"),
    ("a directory renamed", Scan, "w a/b; w a/c; c; mv a z"),
    // Flags.
    ("skip-worktree: gone", Scan, "w a; w b; c; git update-index --skip-worktree a; rm a"),
    ("skip-worktree: changed", Scan, "w a; w b; c; git update-index --skip-worktree a; w a changed"),
    ("skip-worktree: the directory is gone", Scan, "w d/a; w b; c; git update-index --skip-worktree d/a; rm -r d; w n"),
    ("skip-worktree: a directory in place", Git, "w a; w b; c; git update-index --skip-worktree a; rm a; w a/x"),
    ("skip-worktree: a file in place of the directory", Git, "w d/a; w b; c; git update-index --skip-worktree d/a; rm -r d; w d"),
    ("skip-worktree: a link in place of the directory", Git, "w d/a; w b; c; git update-index --skip-worktree d/a; rm -r d; ln -s b d"),
    ("skip-worktree: an ignored file in place of the directory", Scan, "w d/a; w b; c; i d; c; git update-index --skip-worktree d/a; rm -r d; w d"),
    ("skip-worktree: an empty directory in place", Scan, "w a; w b; c; git update-index --skip-worktree a; rm a; mkdir a"),
    ("skip-worktree: a FIFO in place", Scan, "w a; w b; c; git update-index --skip-worktree a; rm a; mkfifo a"),
    ("skip-worktree .gitignore: read from the index", Git, "i a; c; git update-index --skip-worktree .gitignore; rm .gitignore; w a; w b"),
    ("skip-worktree .gitignore, still on the disk", Git, "i a; c; git update-index --skip-worktree .gitignore; i b; w a; w b"),
    ("assume-unchanged: gone", Scan, "w a; w b; c; git update-index --assume-unchanged a; rm a"),
    ("assume-unchanged: changed", Scan, "w a; w b; c; git update-index --assume-unchanged a; w a changed"),
    ("assume-unchanged: mode", Scan, "w a; w b; c; git update-index --assume-unchanged a; chmod +x a"),
    ("assume-unchanged: a directory in place", Git, "w a; w b; c; git update-index --assume-unchanged a; rm a; w a/x"),
    ("assume-unchanged: an empty directory in place", Scan, "w a; w b; c; git update-index --assume-unchanged a; rm a; mkdir a"),
    ("assume-unchanged: a link in place", Scan, "w a; w b; c; git update-index --assume-unchanged a; ln -sf b a"),
    ("assume-unchanged: a file in place of the directory", Git, "w d/a; w b; c; git update-index --assume-unchanged d/a; rm -r d; w d"),
    ("assume-unchanged: the directory is gone", Scan, "w d/a; w b; c; git update-index --assume-unchanged d/a; rm -r d"),
    ("assume-unchanged .gitignore, gone", Scan, "i a; c; git update-index --assume-unchanged .gitignore; rm .gitignore; w a; w b"),
    ("intent to add", Scan, "w a; w b; git add -N a"),
    ("intent to add, gone", Scan, "w a; w b; git add -N a; rm a"),
    ("intent to add, then ignored", Scan, "w a; w b; git add -N a; i a"),
    ("intent to add in an ignored directory", Scan, "i d/; w d/a; w d/b; git add -N -f d/a"),
    ("intent to add, empty file", Scan, "w a ''; git add -N a; old"),
    ("intent to add, now a directory", Scan, "w a; git add -N a; rm a; w a/b"),
    ("intent to add, only entry", Scan, "w a; git add -N a; rm a"),
    ("sparse checkout, cone", Git, "w a; w d/b; w e/c; c; git sparse-checkout set --cone --no-sparse-index d; w d/b changed; w d/n"),
    ("sparse checkout, edits outside", Git, "w a; w d/b; w e/c; c; git sparse-checkout set --cone --no-sparse-index d; w e/c changed; w e/n"),
    ("sparse checkout, no cone", Git, "w a; w d/b; w e/c; c; git sparse-checkout set --no-cone /d/ '!/e/'; w a back; w n"),
    ("sparse checkout, ignore file outside the cone", Git, "w e/.gitignore n; w e/c; w d/b; c; git sparse-checkout set --cone --no-sparse-index d; w e/n; w e/m"),
    ("sparse index", Refuse("sparse index"), "w a; w d/b; w e/c; c; git sparse-checkout set --cone --sparse-index d"),
    // Staged, and not on the disk as staged.
    ("staged addition", Scan, "w a; git add a"),
    ("staged addition, changed again", Scan, "w a; git add a; w a more"),
    ("staged addition, gone", Scan, "w a; git add a; rm a"),
    ("staged change, changed back", Scan, "w a; c; w a 2; git add a; w a"),
    ("staged removal", Scan, "w a; w b; c; git rm -q a"),
    ("staged removal, file still there", Scan, "w a; w b; c; git rm -q --cached a"),
    ("staged removal, file still there and ignored", Scan, "w a; w b; c; i a; git rm -q --cached a"),
    ("staged removal of a directory that is still there", Scan, "w d/a; w d/b; w c; c; git rm -qr --cached d; w d/a changed"),
    ("staged rename", Scan, "w a; c; git mv a b"),
    ("staged rename of a directory, then edits", Scan, "w a/b; w a/c; c; git mv a z; w z/b changed; w a/b back"),
    ("staged mode that an old file does not have", Scan, "w a; c; old; git update-index --chmod=+x a"),
    ("staged mode", Scan, "w a; c; git update-index --chmod=+x a"),
    ("unmerged entries", Refuse("unmerged"), "w a; c; git checkout -qb o; w a o; c; git checkout -q main; w a m; c; git merge -q o >/dev/null || true"),
    ("unmerged, file gone", Refuse("unmerged"), "w a; c; git checkout -qb o; w a o; c; git checkout -q main; git rm -q a; git commit -qm r; git merge -q o >/dev/null || true"),
    // Repositories inside.
    ("a nested repository", Less("n"), "sub n; w n/a; w b"),
    ("a nested repository without commits", Less("n"), "git init -q n; w n/a; w b"),
    ("a nested repository deep down", Less("d/e/n"), "sub d/e/n; w d/e/n/a; w d/b"),
    ("a nested repository, ignored", Scan, "i n/; sub n; w n/a"),
    ("a nested repository in a nested repository", Less("n"), "sub n; sub n/m; w b"),
    ("a nested repository in an ignored directory with tracked files", Scan, "w d/a; c; i d/; sub d/n; w d/n/b"),
    ("a nested repository in tracked directory", Less("d/n"), "w d/a; c; sub d/n; w d/n/b"),
    ("a repository around tracked files", Scan, "w d/a; c; git init -q d; w d/a changed; w d/b"),
    ("a repository around files that were tracked and are gone", Scan, "w d/a; c; git init -q d; rm d/a; w d/b"),
    ("a tracked file became a repository: a pointer, as git has it", Git, "w n; w b; c; rm n; sub n"),
    ("a tracked file became a repository without commits", Refuse("n"), "w n; w b; c; rm n; git init -q n"),
    ("a bare repository inside", Scan, "git init -q --bare n.git; w b"),
    ("an empty .git directory", Scan, "mkdir -p n/.git; w n/a; w b"),
    ("a .git directory without HEAD", Scan, "sub n; rm n/.git/HEAD; w n/a"),
    ("a .git directory with a bad HEAD", Scan, "sub n; printf 'nonsense\\n' >n/.git/HEAD; w n/a"),
    ("a .git directory with a HEAD as long as an id", Scan, "sub n; printf '%040d\n' 0 | tr 0 z >n/.git/HEAD; w n/a"),
    ("a .git directory with an empty HEAD", Scan, "sub n; : >n/.git/HEAD; w n/a"),
    ("a .git directory with a HEAD out of refs", Scan, "sub n; printf 'ref: nowhere\\n' >n/.git/HEAD; w n/a"),
    ("a .git directory with a detached HEAD", Less("n"), "sub n; git -C n checkout -q --detach; w n/a"),
    ("a .git directory with a linked HEAD", Less("n"), "sub n; rm n/.git/HEAD; ln -s refs/heads/main n/.git/HEAD; w n/a"),
    ("a .git directory with a HEAD linked elsewhere", Scan, "sub n; rm n/.git/HEAD; ln -s ../x n/.git/HEAD; w n/a"),
    ("a .git directory without objects", Scan, "sub n; rm -rf n/.git/objects; w n/a"),
    ("a .git directory without refs", Scan, "sub n; rm -rf n/.git/refs; w n/a"),
    ("a .git directory with a linked objects directory", Less("n"), "sub n; mv n/.git/objects o.tmp; mv o.tmp .git/o2; ln -s ../../.git/o2 n/.git/objects; w n/a"),
    ("a .git link to a git directory", Less("n"), "sub n; mv n/.git .git/other; ln -s ../.git/other n/.git; w n/a"),
    ("a .git link to nothing", Scan, "mkdir n; ln -s nowhere n/.git; w n/a"),
    ("a .git file pointing nowhere", Scan, "w n/.git 'gitdir: /nowhere\\n'; w n/a"),
    ("a .git file that is too large", Scan, "sub n; mv n/.git .git/other; { echo 'gitdir: ../.git/other'; yes '' | head -c 1100000; } >n/.git; w n/a"),
    ("a .git file of nonsense", Scan, "w n/.git nonsense; w n/a"),
    ("an empty .git file", Scan, "w n/.git ''; w n/a"),
    ("a .git file without a space", Scan, "sub n; mv n/.git .git/other; printf 'gitdir:../.git/other\\n' >n/.git; w n/a"),
    ("a .git file that points to a repository", Less("n"), "sub n; mv n/.git .git/other; printf 'gitdir: ../.git/other\\n' >n/.git; w n/a"),
    ("a .git file with a line break too many", Less("n"), "sub n; mv n/.git .git/other; printf 'gitdir: ../.git/other\\r\\n\\n' >n/.git; w n/a"),
    ("a .git file with a space too many", Scan, "sub n; mv n/.git .git/other; printf 'gitdir: ../.git/other \\n' >n/.git; w n/a"),
    ("a .git file that points to a directory that is none", Scan, "mkdir -p o; : >o/HEAD; w n/.git 'gitdir: ../o\\n'; w n/a"),
    ("a .git file through a link", Less("n"), "sub n; mv n/.git .git/other; printf 'gitdir: %s/.git/other\\n' \"$PWD\" >.git/file; ln -s ../.git/file n/.git; w n/a"),
    ("a .git FIFO", Scan, "mkdir n; mkfifo n/.git; w n/a"),
    ("another worktree inside", Less("-wt"), "w a; c; git worktree add -q -b w wt; w wt/new; w b"),
    ("another worktree inside an ignored directory", Scan, "i t/; w a; c; git worktree add -q -b w t/wt; w t/wt/new"),
    ("a worktree whose registration is gone", Scan, "w a; c; git worktree add -q -b w wt; rm -r .git/worktrees; w b"),
    ("a worktree of another repository", Less("wt"), "z=../$(basename $PWD).z; git init -q --bare $z; git -C $z worktree add -q --orphan -b w \"$PWD/wt\"; w wt/new; w b"),
    (".isofold stays out", Less("-.isofold"), "w .isofold/patches/a; w b"),
    (".isofold with tracked files: only those", Less("-.isofold/new"), "w .isofold/a; c; w .isofold/a changed; w .isofold/new"),
    (".isofold further down is a name like others", Scan, "w d/.isofold/a; w b"),
    (".isofold as a file", Less("-.isofold"), "w .isofold; w b"),
    // Submodules.
    ("a submodule, checked out, clean", Scan, "sub .git/s; git -c protocol.file.allow=always submodule -q add ./.git/s sm; c; w a"),
    ("a submodule with another HEAD", Scan, "sub .git/s; git -c protocol.file.allow=always submodule -q add ./.git/s sm; c; git -C sm commit -q --allow-empty -m more"),
    ("a submodule with loose work", Scan, "sub .git/s; git -c protocol.file.allow=always submodule -q add ./.git/s sm; c; w sm/new"),
    ("a submodule that is not checked out", Scan, "sub .git/s; git -c protocol.file.allow=always submodule -q add ./.git/s sm; c; git submodule -q deinit -f sm"),
    ("a submodule that is not checked out, files in its place", Scan, "sub .git/s; git -c protocol.file.allow=always submodule -q add ./.git/s sm; c; git submodule -q deinit -f sm; w sm/a; w b"),
    ("a submodule whose directory is gone", Scan, "sub .git/s; git -c protocol.file.allow=always submodule -q add ./.git/s sm; c; rm -r sm"),
    ("a submodule that became a file", Git, "sub .git/s; git -c protocol.file.allow=always submodule -q add ./.git/s sm; c; rm -rf sm; w sm"),
    ("a submodule that became a link", Git, "sub .git/s; git -c protocol.file.allow=always submodule -q add ./.git/s sm; c; rm -rf sm; ln -s a sm"),
    ("a submodule with ignore=all", Scan, "sub .git/s; git -c protocol.file.allow=always submodule -q add ./.git/s sm; git config -f .gitmodules submodule.sm.ignore all; c; git -C sm commit -q --allow-empty -m more"),
    ("a submodule with ignore=all in the configuration", Scan, "sub .git/s; git -c protocol.file.allow=always submodule -q add ./.git/s sm; c; git config submodule.sm.ignore all; git -C sm commit -q --allow-empty -m more"),
    ("diff.ignoreSubmodules", Scan, "sub .git/s; git -c protocol.file.allow=always submodule -q add ./.git/s sm; c; git config diff.ignoreSubmodules all; git -C sm commit -q --allow-empty -m more"),
    ("a submodule that was taken out of the index and is still there", Less("sm"), "sub .git/s; git -c protocol.file.allow=always submodule -q add ./.git/s sm; c; git rm -q --cached sm"),
    ("a submodule whose .git file leads nowhere", Refuse("not a git repository"), "sub .git/s; git -c protocol.file.allow=always submodule -q add ./.git/s sm; c; rm -r .git/modules; w b"),
    ("a submodule whose .git directory is empty", Refuse("not recognized"), "sub n; git add n 2>/dev/null; git commit -qm c; rm -rf n/.git; mkdir n/.git; w b"),
    ("a gitlink without .gitmodules", Scan, "sub n; git add n 2>/dev/null; git commit -qm c; git -C n commit -q --allow-empty -m more; w b"),
    ("a gitlink whose repository lost its HEAD", Scan, "sub n; git add n 2>/dev/null; git commit -qm c; git -C n checkout -q --orphan none; w b"),
    ("a gitlink with a .git link", Scan, "sub n; git add n 2>/dev/null; git commit -qm c; git -C n commit -q --allow-empty -m more; mv n/.git .git/other; ln -s ../.git/other n/.git"),
    ("a gitlink, skip-worktree, another HEAD", Scan, "sub n; git add n 2>/dev/null; git commit -qm c; git update-index --skip-worktree n; git -C n commit -q --allow-empty -m more; w b"),
    ("a gitlink, assume-unchanged, another HEAD", Scan, "sub n; git add n 2>/dev/null; git commit -qm c; git update-index --assume-unchanged n; git -C n commit -q --allow-empty -m more; w b"),
    ("a gitlink, intent to add", Scan, "sub n; git add -N n 2>/dev/null; w b"),
    ("a gitlink staged, not committed", Scan, "sub n; git add n 2>/dev/null; w b"),
    ("a gitlink below an ignored directory", Scan, "i d/; sub d/n; git add -f d/n 2>/dev/null; git commit -qm c; git -C d/n commit -q --allow-empty -m more; w d/b"),
    // Special files and names.
    ("an untracked FIFO", Scan, "mkfifo f; w a"),
    ("an untracked socket", Scan, "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local=>\"s\",Listen=>1)'; w a"),
    ("a directory with nothing but a FIFO", Scan, "mkdir d; mkfifo d/f; w a"),
    ("a name with a newline", Scan, "w \"$(printf 'a\\nb')\""),
    ("a name with quotes", Scan, "w '\"a\"'; w \"'b'\""),
    ("a name with a backslash", Git, "w 'a\\b' x"),
    ("a tracked name with a backslash", Git, "git config core.protectNTFS false; w 'a\\b' x; c; w 'a\\b' y"),
    ("a name with a tab and a bell", Scan, "w \"$(printf 'a\\tb\\007')\""),
    ("a name that is not UTF-8", Scan, "w \"$(printf 'caf\\351')\"; w \"$(printf '\\377\\376')\""),
    ("an ignored name that is not UTF-8", Scan, "printf 'caf\\351\\n' >.gitignore; w \"$(printf 'caf\\351')\"; w \"$(printf 'caf\\352')\""),
    ("a name with a dash", Scan, "w ./-a; w ./--b"),
    ("names with pathspec magic", Scan, "w ':a'; w ':(top)b'; w ':/c'; w '*'; w 'a[b]'"),
    ("a name with spaces around", Scan, "w ' a '; w '  '"),
    ("a long name", Scan, "w $(printf '%0250d' 0)"),
    ("a long path", Scan, "p=$(printf '%0200d' 0); w $p/$p/$p/$p/$p/a; w b"),
    ("a path longer than the index' length field", Scan, "p=$(printf '%0200d' 0); (mkdir -p $p/$p/$p/$p/$p/$p/$p/$p/$p/$p; cd $p/$p/$p/$p/$p; cd $p/$p/$p/$p/$p; for n in 1 2 3 4 5 6 7 8 9 10; do mkdir $p; cd $p; done; echo x >f); w b"),
    (".GIT is refused", Refuse(".GIT"), "w .GIT/a; w b"),
    (".Git as a file is refused", Refuse(".Git"), "w d/.Git; w b"),
    (".GIT ignored", Git, "i .GIT; w d/.GIT; w b"),
    ("git~1 is refused", Refuse("git~1"), "w git~1; w b"),
    (".git with a space is refused", Refuse(".git "), "w '.git /a'; w b"),
    (".git with a dot is refused", Refuse(".git."), "w d/.git./a; w b"),
    (".git with a stream is refused", Refuse(".git:x"), "w .git:x; w b"),
    ("names that only look like .git", Git, "w .git-a; w .git_b; w .gitx; w git; w .git.x; w 'git~2'; w '.git~1'"),
    (".git with a joiner, HFS not protected", Git, "w \"$(printf '.g\\342\\200\\214it')\"; w b"),
    (".git with a joiner, HFS protected", Refuse("git"), "git config core.protectHFS true; w \"$(printf '.g\\342\\200\\214it')\"; w b"),
    ("a joiner before .git, HFS protected", Refuse("git"), "git config core.protectHFS true; w \"$(printf '\\342\\200\\214.git')\"; w b"),
    ("git~1, NTFS not protected", Git, "git config core.protectNTFS false; w git~1; w 'a\\b' x"),
    ("a .gitmodules link is refused", Refuse(".gitmodules"), "ln -s x .gitmodules; w b"),
    ("a tracked .gitmodules became a link", Git, "w .gitmodules ''; c; rm .gitmodules; ln -s x .gitmodules; w b"),
    (".GITMODULES as a link is refused", Refuse("GITMODULES"), "ln -s x .GITMODULES; w b"),
    ("a .gitmodules file", Scan, "w .gitmodules ''; w b"),
    ("a .gitmodules file, changed", Scan, "w .gitmodules ''; c; w .gitmodules '# x\\n'; w b"),
    ("links named .gitattributes and .mailmap", Scan, "ln -s x .mailmap; w b"),
    ("a tracked git~1, changed", Git, "git config core.protectNTFS false; w git~1; c; git config --unset core.protectNTFS; w git~1 changed; w b"),
    // Content that git converts.
    ("text=auto", Scan, "w .gitattributes '* text=auto\\n'; w a '1\\r\\n2\\r\\n'; w b '1\\n'; w c '\\000\\r\\n'"),
    ("text=auto, already CRLF in the index", Scan, "w a '1\\r\\n2\\r\\n'; c; w .gitattributes '* text=auto\\n'; w a '1\\r\\n2\\r\\n3\\r\\n'"),
    ("text=auto, CRLF in the index, renamed", Scan, "w a '1\\r\\n2\\r\\n'; c; w .gitattributes '* text=auto\\n'; mv a b"),
    ("text", Scan, "w .gitattributes '*.t text\\n'; w a.t '1\\r\\n'; w b '1\\r\\n'"),
    ("text on CRLF in the index, touched", Scan, "w a '1\\r\\n'; c; old; w .gitattributes '* text\\n'; touch a"),
    ("text on CRLF in the index, untouched", Scan, "w a '1\\r\\n'; c; old; w .gitattributes '* text\\n'"),
    ("eol=crlf", Scan, "w .gitattributes '* eol=crlf\\n'; w a '1\\r\\n2\\n'"),
    ("binary", Scan, "w .gitattributes '* text=auto\\n*.b binary\\n'; w a.b '1\\r\\n'; w a '1\\r\\n'"),
    ("core.autocrlf", Scan, "git config core.autocrlf true; w a '1\\r\\n2\\r\\n'; w b '1\\n2\\r\\n'"),
    ("core.autocrlf=input", Scan, "git config core.autocrlf input; w a '1\\r\\n2\\r\\n'"),
    ("core.safecrlf", Refuse("CRLF"), "git config core.autocrlf true; git config core.safecrlf true; w a '1\\n2\\r\\n'"),
    ("ident", Scan, "w .gitattributes '* ident\\n'; w a '$Id: 0123 $\\n'"),
    ("working-tree-encoding", Scan, "w .gitattributes '*.u working-tree-encoding=UTF-16LE\\n'; printf 'a\\000b\\000' >a.u"),
    ("working-tree-encoding that does not fit", Refuse("a.u"), "w .gitattributes '*.u working-tree-encoding=UTF-16\\n'; printf 'abc' >a.u"),
    ("a filter", Scan, "w .gitattributes '*.f filter=up\\n'; git config filter.up.clean 'tr a-z A-Z'; w a.f hello; w b"),
    ("a filter on a tracked file", Scan, "w a.f hello; c; w .gitattributes '*.f filter=up\\n'; git config filter.up.clean 'tr a-z A-Z'; w a.f hello2"),
    ("a filter that fails", Scan, "w .gitattributes '*.f filter=up\\n'; git config filter.up.clean false; w a.f hello"),
    ("a required filter that fails", Refuse("a.f"), "w .gitattributes '*.f filter=up\\n'; git config filter.up.clean false; git config filter.up.required true; w a.f hello"),
    ("a macro", Scan, "w .gitattributes '[attr]t text\\n*.t t\\n'; w a.t '1\\r\\n'"),
    ("a quoted attribute pattern", Scan, "w .gitattributes '\"a b\" text\\n'; w 'a b' '1\\r\\n'"),
    ("deeper attributes", Scan, "w .gitattributes '* text\\n'; w d/.gitattributes '* -text\\n'; w a '1\\r\\n'; w d/a '1\\r\\n'"),
    ("info/attributes", Scan, "mkdir -p .git/info; echo '* text' >.git/info/attributes; w a '1\\r\\n'"),
    ("core.attributesFile", Scan, "echo '* text' >.git/at; git config core.attributesFile $PWD/.git/at; w a '1\\r\\n'"),
    ("attributes gone from the disk", Git, "w .gitattributes '* text\\n'; w a 1; c; rm .gitattributes; w a '1\\r\\n'; w ./-b '1\\r\\n'"),
    ("deeper attributes gone from the disk", Git, "w d/.gitattributes '* text\\n'; w d/a 1; w d/-b; c; rm d/.gitattributes; w d/a '1\\r\\n'; w d/-b '1\\r\\n'"),
    ("attributes gone with their directory", Scan, "w d/.gitattributes '* text\\n'; w d/a 1; c; rm -r d; w b"),
    ("attributes assumed unchanged and gone", Scan, "w .gitattributes '* text\\n'; c; git update-index --assume-unchanged .gitattributes; rm .gitattributes; w a '1\\r\\n'"),
    ("attributes, skip-worktree and gone", Scan, "w .gitattributes '* text\\n'; c; git update-index --skip-worktree .gitattributes; rm .gitattributes; w a '1\\r\\n'"),
    ("symlinked attributes", Scan, "w at '* text\\n'; ln -s at .gitattributes; w a '1\\r\\n'"),
    ("attributes replaced by a link", Git, "w .gitattributes '* text\\n'; c; mv .gitattributes at; ln -s at .gitattributes; w a '1\\r\\n'; w ./-b '1\\r\\n'"),
    ("attributes new and untracked", Scan, "w a '1\\r\\n'; c; w .gitattributes '* text\\n'; w a '2\\r\\n'; w b '2\\r\\n'"),
    ("attributes ignored", Scan, "i .gitattributes; w .gitattributes '* text\\n'; w a '1\\r\\n'"),
    // Formats of the index.
    ("no index file", Scan, "w a; c; rm .git/index"),
    ("no index file, ignored files", Scan, "w a.log; c; i '*.log'; rm .git/index"),
    ("an empty index", Scan, "w a; c; git read-tree --empty"),
    ("an index of zero bytes", Refuse("damaged"), "w a; c; : >.git/index"),
    ("index version 3", Scan, "w a; w b; w d/c; c; git update-index --skip-worktree b; git update-index --index-version 3; w a 2; w n"),
    ("index version 4", Scan, "w a; w ab; w abc/d; w abc/e; c; git update-index --index-version 4; old; w ab 2; rm abc/d; w abc/f"),
    ("index version 4, nothing changed", Scan, "w a; w ab; w abc/d; c; git update-index --index-version 4; old"),
    ("split index", Refuse("split index"), "w a; c; git update-index --split-index"),
    ("untracked cache", Scan, "w a; w d/b; c; git update-index --force-untracked-cache; git status -s; w n; w d/n; i n; w d/m"),
    ("a configured fsmonitor is not asked", Scan, "w a; c; git config core.fsmonitor 'sh -c \"touch .git/asked\"'; w a 2; w n"),
    ("an fsmonitor in the index is not believed", Scan, "w a 1; w b; c; git config core.fsmonitor 'printf \"t\\\\0\"; :'; git config core.fsmonitorHookVersion 2; git status -s; git update-index --fsmonitor || true; git status -s; w a 2"),
    ("index.skipHash", Scan, "git config index.skipHash true; w a; c; w a 2; w n"),
    ("index.threads and its extensions", Scan, "git config index.threads 2; w a; c; w a 2; w n"),
    ("resolved conflicts in the index", Scan, "w a; c; git checkout -qb o; w a o; c; git checkout -q main; w a m; c; git merge -q o >/dev/null || true; w a r; git add a; w n"),
    ("a damaged index", Refuse("index"), "w a; c; printf x >.git/index"),
    ("an index that is cut off", Refuse("index"), "w a; w b; c; head -c 90 .git/index >.git/i2; mv .git/i2 .git/index"),
    ("an unborn branch", Scan, "git checkout -q --orphan o; w a"),
    ("a detached HEAD", Scan, "git checkout -q --detach; w a"),
    ("a linked worktree", Scan, "w a; c; git worktree add -q -b w ../$(basename $PWD).wt; echo a2 >../$(basename $PWD).wt/a; w b"),
    ("worktree configuration", Scan, "git config extensions.worktreeConfig true; git config --worktree core.fileMode false; w a; c; chmod +x a"),
    ("relative core.worktree", Scan, "git config core.worktree ..; w a"),
    ("a cached tree that is right", Scan, "w a; w d/b; c; old; git write-tree"),
    ("a cached tree that is partly invalid", Scan, "w a; w d/b; w e/c; c; w d/b 2; git add d/b; old"),
    ("a git directory in another place", Scan, "mv .git ../$(basename $PWD).gd; printf 'gitdir: %s.gd\\n' \"$PWD\" >.git; git config core.worktree $PWD; w a; w d/b"),
    ("add.ignoreErrors in the configuration", Scan, "git config add.ignoreErrors true; w a"),
    ("status.showUntrackedFiles in the configuration", Scan, "git config status.showUntrackedFiles no; w a; w d/b"),
    ("a user's hooks stay out", Scan, "mkdir -p .git/hooks; printf '#!/bin/sh\\ntouch hooked\\n' >.git/hooks/post-index-change; chmod +x .git/hooks/post-index-change; w a; c; w a 2"),
];

/// Where file modes are in force.
#[rustfmt::skip]
const MODES: &[Case] = &[
    ("an unreadable .gitignore", Refuse(".gitignore"), "i a; chmod 0 .gitignore; w a; w b"),
    ("an unreadable .gitignore that is ignored itself", Scan, "echo .gitignore >.git/info/exclude; i a; chmod 0 .gitignore; w a; w b"),
    ("an unreadable tracked .gitignore, unchanged", Scan, "git config core.trustctime false; i a; c; old; chmod 0 .gitignore; w a; w b"),
    ("an unreadable tracked .gitignore, its time of change another", Refuse(".gitignore"), "i a; c; old; sleep 1.1; chmod 0 .gitignore; w a; w b"),
    ("an unreadable new file", Refuse("a"), "w a; chmod 0 a; w b"),
    ("an unreadable ignored file", Scan, "i a; w a; chmod 0 a; w b"),
    ("an unreadable tracked file, changed", Refuse("a"), "w a; c; w a changed; chmod 0 a"),
    ("an unreadable new directory", Scan, "w d/a; chmod 0 d; w b"),
    ("an unreadable ignored directory", Scan, "i d/; w d/a; chmod 0 d; w b"),
    ("an unreadable directory with tracked files", Refuse("d"), "w d/a; c; chmod 0 d; w b"),
    ("a directory that can be listed only", Refuse("d"), "w d/a; w b; chmod 0444 d"),
    ("a directory that can be entered only", Refuse("d"), "w d/a; c; chmod 0111 d; w b"),
    ("a new directory that can be entered only", Scan, "w d/a; chmod 0111 d; w b"),
    ("an unreadable core.excludesFile", Scan, "w .git/ex a; chmod 0 .git/ex; git config core.excludesFile $PWD/.git/ex; w a; w b"),
    ("an unreadable info/exclude", Scan, "w .git/info/exclude a; chmod 0 .git/info/exclude; w a; w b"),
    ("an unreadable .git file", Less("n"), "w n/.git 'gitdir: ../x\\n'; chmod 0 n/.git; w n/a; w b"),
    ("a read-only directory", Scan, "w d/a; chmod 0555 d; w b"),
    ("an unreadable file that is skip-worktree", Scan, "w a; c; old; git update-index --skip-worktree a; w a 2; chmod 0 a; w b"),
    ("a write-only file", Refuse("a"), "w a; chmod 0200 a; w b"),
];

fn prepare(template: &Path, place: &Path, recipe: &str) {
    let copied = Command::new("cp").arg("-a").arg(template).arg(place).status().expect("cp runs");
    assert!(copied.success());
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{PRELUDE}{recipe}")).current_dir(place).stdin(Stdio::null());
    let output = shell.output().expect("sh runs");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{recipe}: {words}");
}

/// What is wrong with a case.
fn judge(place: &Path, want: Want) -> Result<(), String> {
    match want {
        Scan | Git | Here | There => {
            let taken = compare(place, &[])?;
            let stored = match want {
                Here => Some(false),
                There => Some(true),
                _ => None,
            };
            if taken.by_git != matches!(want, Git) || stored.is_some_and(|stored| stored != taken.stored_by_git) {
                return Err(format!("by git: {}, stored by git: {}", taken.by_git, taken.stored_by_git));
            }
            isolated(place, &place.with_extension("child")).map(|_| ())
        }
        Less(paths) => {
            let silent: Vec<&str> = paths.split(' ').map(|path| path.trim_start_matches('-')).collect();
            let named: Vec<Vec<u8>> =
                paths.split(' ').filter(|path| !path.starts_with('-')).map(|path| path.as_bytes().to_vec()).collect();
            let taken = compare(place, &silent)?;
            if taken.by_git || taken.not_folded != named {
                return Err(format!("by git: {}, named: {:?}", taken.by_git, taken.not_folded));
            }
            isolated(place, &place.with_extension("child")).map(|_| ())
        }
        Refuse(words) => match isofold::testing::snapshot_tree(place, false) {
            Ok(taken) => Err(format!("not refused: {taken:?}")),
            Err(report) if report.contains(words) && report.lines().count() == 1 => Ok(()),
            Err(report) => Err(format!("refused in other words: {report}")),
        },
    }
}

/// Runs cases in a few threads; all that fail are named.
pub(crate) fn run(cases: &[(String, Want, Recipe)]) {
    let s = Sandbox::in_memory();
    let template = s.path("template");
    fs::create_dir(&template).expect("a directory");
    let made = "git init -q -b main . && git config user.name T && git config user.email t@example.test && \
                rm -f .git/hooks/* && git commit -q --allow-empty -m start";
    assert!(Command::new("sh").args(["-c", made]).current_dir(&template).status().expect("sh runs").success());
    let wanted = std::env::var("ISOFOLD_CASE").ok();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some((name, want, recipe)) = cases.get(number) else { break };
                    if wanted.as_ref().is_some_and(|wanted| !name.contains(wanted.as_str())) {
                        continue;
                    }
                    let place = s.path(&format!("case-{number}"));
                    let judged = std::panic::catch_unwind(|| {
                        match recipe {
                            Recipe::Shell(recipe) => prepare(&template, &place, recipe),
                            Recipe::Rules(files) => {
                                prepare(&template, &place, "mkdir -p .git/info");
                                for path in TREE {
                                    write(&place, path, path);
                                }
                                for (path, rules) in files {
                                    write(&place, path, rules);
                                }
                            }
                        }
                        judge(&place, *want)
                    });
                    let judged = judged.unwrap_or_else(|_| Err("the recipe failed".to_owned()));
                    if let Err(why) = judged {
                        let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                        failed.push(format!("{name}: {why}"));
                    }
                    // Some cases take rights away from directories.
                    let _ = Command::new("chmod").args(["-R", "u+rwX"]).arg(&place).stderr(Stdio::null()).status();
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    say!("{} cases", cases.len());
    assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
}

pub(crate) enum Recipe {
    Shell(&'static str),
    Rules(Vec<(&'static str, &'static str)>),
}

pub(crate) fn shell(cases: &[Case]) -> Vec<(String, Want, Recipe)> {
    cases.iter().map(|(name, want, recipe)| ((*name).to_owned(), *want, Recipe::Shell(recipe))).collect()
}

#[test]
fn every_case_is_gits_tree_or_a_refusal() {
    hermetic("snapshot_table::every_case_is_gits_tree_or_a_refusal", false, &[], || {
        let mut cases = shell(CASES);
        for (name, rules) in IGNORE {
            // The tree has names with backslashes in it, which only git judges, unless they are ignored.
            cases.push((format!("rule: {name}"), Scan, Recipe::Rules(vec![(".gitignore", rules)])));
        }
        for (name, path, rules, root) in NESTED_IGNORE {
            cases.push((format!("rule: {name}"), Scan, Recipe::Rules(vec![(".gitignore", root), (path, rules)])));
        }
        assert!(cases.len() >= 250, "{} cases", cases.len());
        run(&cases);
    });
}

#[test]
fn cases_where_file_modes_are_in_force() {
    hermetic("snapshot_table::cases_where_file_modes_are_in_force", true, &[], || run(&shell(MODES)));
}
