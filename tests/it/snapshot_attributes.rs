//! Random attributes, settings and contents: what a snapshot stores is what git stores.
//!
//! `ISOFOLD_FUZZ_ROUNDS` and `ISOFOLD_FUZZ_SEED` as in `snapshot_fuzz`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::support::random::{Random, seeds};
use crate::support::snapshots::{compare, git, hermetic, say};
use crate::support::{Sandbox, write};

const FILES: [&str; 12] = ["a", "b", "A", "a.t", "b.t", "a b", "d/a", "d/b.t", "d/e/a", "d/e/a b", "é", "x.bin"];

const PATTERNS: [&str; 40] = [
    "*",
    "*",
    "a",
    "b",
    "A",
    "*.t",
    "a*",
    "/a",
    "/*",
    "d/a",
    "d/*",
    "d/**",
    "**/a",
    "d/",
    "e/a",
    "/d/e/*",
    "*.bin",
    "?",
    "[ab]",
    "\"a b\"",
    "\"a\\040b\"",
    "\"\\303\\251\"",
    "\"a",
    "\"a\\q\"",
    "\"*\"",
    "\"a b\"x",
    "!a",
    "\\!a",
    "#a",
    "a\\",
    "**",
    "d/**/a",
    "[attr]m",
    "[attr]n",
    "[attr]binary",
    "[attr] m",
    "[attr]-m",
    "\"[attr]m\"",
    "é",
    "\u{feff}*",
];

const ATTRIBUTES: [&str; 52] = [
    "text",
    "text",
    "-text",
    "!text",
    "text=auto",
    "text=auto",
    "text=auto",
    "text=input",
    "text=x",
    "text=",
    "crlf",
    "-crlf",
    "!crlf",
    "crlf=input",
    "crlf=auto",
    "crlf=x",
    "eol=lf",
    "eol=crlf",
    "eol=x",
    "eol",
    "-eol",
    "!eol",
    "binary",
    "-binary",
    "!binary",
    "binary=x",
    "m",
    "-m",
    "!m",
    "m=1",
    "n",
    "-n",
    "!n",
    "diff",
    "-diff",
    "filter=none",
    "-filter",
    "filter",
    "-ident",
    "working-tree-encoding=UTF-8",
    "working-tree-encoding=utf8",
    "working-tree-encoding=",
    "text=auto=x",
    "te,xt",
    "-",
    "!",
    "=x",
    "builtin_x",
    "-text=x",
    "!m=1",
    "--text",
    "ident=x",
];

/// Seldom, since git does all of it then.
const CONVERTED: [&str; 5] =
    ["ident", "filter=up", "working-tree-encoding=UTF-16", "working-tree-encoding", "-working-tree-encoding"];

const SETTINGS: [&str; 12] = [
    "autocrlf = true",
    "autocrlf = true",
    "autocrlf = input",
    "autocrlf = INPUT",
    "autocrlf = false",
    "autocrlf",
    "eol = crlf",
    "eol = lf",
    "safecrlf = false",
    "safecrlf = warn",
    "safecrlf = true",
    "ignoreCase = true",
];

fn attributes(random: &mut Random) -> String {
    let mut text = String::new();
    if random.one_in(12) {
        text.push('\u{feff}');
    }
    for _ in 0..=random.below(4) {
        if random.one_in(8) {
            text.push_str(random.pick(&[" ", "\t", "# x", "\0"]));
        }
        text.push_str(random.pick(&PATTERNS));
        for _ in 0..=random.below(3) {
            text.push_str(random.pick(&[" ", " ", " ", "\t", "  "]));
            let seldom = random.one_in(60);
            text.push_str(if seldom { random.pick(&CONVERTED) } else { random.pick(&ATTRIBUTES) });
        }
        if random.one_in(60) {
            let length = random.below(30) + 2020;
            let _ = write!(text, " {:x<length$}", "");
        }
        text.push_str(random.pick(&["\n", "\n", "\n", "\n", "\r\n", " \n", "\0x\n"]));
    }
    text
}

fn content(random: &mut Random) -> Vec<u8> {
    let pieces: [&[u8]; 14] = [
        b"one\r\n",
        b"two\r\n",
        b"three\n",
        b"four\n",
        b"x",
        b"\r",
        b"\r\r\n",
        b"\0",
        b"\x7f\x01\x02",
        b"\x1a",
        b"\x08\t\x1b\x0c",
        b"\xff\xfe",
        b"\n",
        b"\r\n",
    ];
    if random.one_in(200) {
        // Past the size that is read in one piece; ends of pieces fall into ends of lines.
        let line = [b"0123456789abcd\r\n".as_slice(), b"0123456789abc\r\n", b"0123456789\n"][random.below(3)];
        let mut text = line.repeat(4_400_000 / line.len());
        if random.one_in(3) {
            text.push(b'\r');
        }
        return text;
    }
    let mut text = Vec::new();
    for _ in 0..random.below(6) {
        // Mostly what text is made of.
        let piece = if random.one_in(3) { pieces[random.below(pieces.len())] } else { pieces[random.below(4)] };
        text.extend_from_slice(piece);
    }
    if random.one_in(8) {
        // A share of odd bytes that is about what git takes for binary.
        text.extend(std::iter::repeat_n(b'y', 120 + random.below(16)));
        text.extend_from_slice(random.pick(&[&b"\x01"[..], b"\x01\x02", b"\x7f", b"\x1a"]));
    }
    text
}

/// One repository; what is wrong with it, and whether git stored it.
fn one(repo: &Path, seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed.wrapping_mul(2_654_435_761));
    let mut report = String::new();
    for item in fs::read_dir(repo).expect("readable") {
        let path = item.expect("an entry").path();
        if path.file_name().is_some_and(|name| name == ".git") {
            continue;
        }
        let directory = path.symlink_metadata().expect("a stat").is_dir();
        if directory { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }.expect("removed");
    }
    for old in ["index", "info/attributes", "more"] {
        let _ = fs::remove_file(repo.join(".git").join(old));
    }
    let plain = "[core]\n\trepositoryFormatVersion = 0\n\tbare = false\n[user]\n\tname = T\n\temail = t@example.test\n";
    write(repo, ".git/config", plain);
    let tracked_attributes = random.one_in(3).then(|| attributes(&mut random));
    if let Some(text) = &tracked_attributes {
        write(repo, "d/.gitattributes", text);
    }
    for file in FILES {
        if random.one_in(2) {
            write(repo, file, content(&mut random));
        }
    }
    // Into the index as it is.
    write(repo, ".git/info/attributes", "* -text -ident -filter -working-tree-encoding\n");
    let add = git(repo, &["add", "-A"]).output().expect("git runs");
    assert!(add.status.success(), "{}", String::from_utf8_lossy(&add.stderr));
    fs::remove_file(repo.join(".git/info/attributes")).expect("removed");

    let mut config = format!("{plain}[filter \"up\"]\n\tclean = tr a-z A-Z\n[core]\n");
    for _ in 0..random.below(3) {
        let _ = writeln!(config, "\t{}", random.pick(&SETTINGS));
    }
    let places = [(".gitattributes", 2), (".git/info/attributes", 5), ("d/e/.gitattributes", 4), (".git/more", 5)];
    for (place, seldom) in places {
        if random.one_in(seldom) {
            let text = attributes(&mut random);
            let _ = writeln!(report, "{place}: {}", text.escape_debug());
            write(repo, place, text);
            if place == ".git/more" {
                let _ = writeln!(config, "\tattributesFile = {}", repo.join(place).display());
            }
        }
    }
    let _ = writeln!(report, "{}", &config[plain.len()..]);
    write(repo, ".git/config", config);
    if let Some(text) = &tracked_attributes {
        let _ = writeln!(report, "d/.gitattributes: {}", text.escape_debug());
        match random.below(5) {
            0 => {
                let flag = random.pick(&["--skip-worktree", "--assume-unchanged"]);
                let flagged = git(repo, &["update-index", flag, "d/.gitattributes"]).status().expect("git runs");
                assert!(flagged.success());
                fs::remove_file(repo.join("d/.gitattributes")).expect("removed");
                let _ = writeln!(report, "d/.gitattributes {flag} and gone");
            }
            1 => write(repo, "d/.gitattributes", attributes(&mut random)),
            _ => {}
        }
    }
    for file in FILES {
        match random.below(4) {
            0 | 1 => {
                let content = content(&mut random);
                if content.len() < 1000 {
                    let _ = writeln!(report, "{file}: {}", content.escape_ascii());
                }
                write(repo, file, content);
            }
            2 => _ = fs::remove_file(repo.join(file)),
            _ => {}
        }
    }
    match compare(repo, &[]) {
        Ok(_) => Ok(()),
        // Both refuse: what can't be undone, an encoding that does not fit.
        Err(why) if why.starts_with("refused: ") => Ok(()),
        Err(why) => Err(format!("{report}{why}")),
    }
}

#[test]
fn random_attributes_store_what_git_stores() {
    hermetic("snapshot_attributes::random_attributes_store_what_git_stores", false, &[], || {
        let s = Sandbox::in_memory();
        let repo = s.path("repo");
        fs::create_dir(&repo).expect("a directory");
        assert!(git(&repo, &["init", "-q", "-b", "main"]).status().expect("git runs").success());
        let (mut rounds, mut wrong) = (0, Vec::new());
        for seed in seeds(300) {
            if let Err(why) = one(&repo, seed) {
                wrong.push(format!("ISOFOLD_FUZZ_SEED={seed}\n{why}"));
            }
            rounds += 1;
        }
        say!("{rounds} sets of attributes, {} different", wrong.len());
        assert!(wrong.is_empty(), "{} of {rounds}: {}", wrong.len(), wrong[..wrong.len().min(5)].join("\n\n"));
    });
}
