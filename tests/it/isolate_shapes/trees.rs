//! Shapes of the files: names, kinds, rights, attributes, how many and how deep.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, XattrFlags};

use super::{Ends, Row, dirty, row, run_all};
use crate::support::host::{skipped, text};
use crate::support::{lines, raw_name, read, write};

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
}

/// Commits what is there but for loose work, and makes some loose work.
fn committed(sandbox: &crate::support::Sandbox, parent: &Path) -> PathBuf {
    sandbox.commit_all(parent, "more");
    write(parent, "a", lines(&[(1, "dirty")]));
    parent.to_owned()
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        row("names that a shell, a parser or a decoder trips over", Ends::Folds(""), |s| {
            let parent = s.repo("parent");
            for name in
                ["new\nline", "tab\t", "\"double\"", "it's", "back\\slash", "-rf", " space ", "*", ":(top)x", "%00"]
            {
                write(&parent, name, "odd\n");
                write(&parent, format!("loose {name}/{name}"), "odd\n");
            }
            write(&parent, raw_name(b"caf\xe9"), "not UTF-8\n");
            committed(s, &parent)
        }),
        row("names that differ in case, or in how an accent is written", Ends::Folds(""), |s| {
            let parent = s.repo("parent");
            for name in ["README", "readme", "ReadMe/x", "\u{e9}", "e\u{301}"] {
                write(&parent, name, format!("{name}\n"));
            }
            committed(s, &parent)
        }),
        row("names of 255 bytes", Ends::Folds(""), |s| {
            let parent = s.repo("parent");
            write(&parent, "n".repeat(255), "long\n");
            write(&parent, format!("{}/{}", "d".repeat(255), "f".repeat(255)), "long\n");
            committed(s, &parent)
        }),
        row("a hundred and fifty levels", Ends::Folds(""), |s| {
            let parent = s.repo("parent");
            let deep: PathBuf = (0..150).map(|level| format!("level{level}")).collect();
            write(&parent, deep.join("bottom"), "deep\n");
            write(&parent, Path::new("ignored").join(&deep).join("bottom"), "deep\n");
            committed(s, &parent)
        }),
        row("thousands of files in one directory", Ends::Folds(""), |s| {
            let parent = s.repo("parent");
            let count: usize = std::env::var("ISOFOLD_SHAPES_FILES").ok().and_then(|n| n.parse().ok()).unwrap_or(3_000);
            for number in 0..count {
                fs::write(parent.join("dir").join(format!("f{number}")), "x\n").expect("written");
            }
            committed(s, &parent)
        }),
        row("directories without the right to write", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            write(&parent, "ignored/store/one/file", "x\n");
            write(&parent, "loose/store/file", "x\n");
            for path in ["ignored/store/one", "ignored/store", "loose/store"] {
                chmod(&parent.join(path), 0o555);
            }
            parent
        }),
        row("files without any right", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            write(&parent, "ignored/closed", "x\n");
            chmod(&parent.join("ignored/closed"), 0o000);
            parent
        }),
        row("a directory without any right", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            write(&parent, "ignored/closed/file", "x\n");
            chmod(&parent.join("ignored/closed"), 0o000);
            parent
        })
        .unprivileged(Ends::Fails(&["ignored/closed", "permission denied", "isolationOptions.toml"])),
        row("FIFOs and sockets", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            for name in ["pipe", "ignored/pipe"] {
                rustix::fs::mknodat(CWD, parent.join(name), FileType::Fifo, Mode::from_raw_mode(0o644), 0)
                    .expect("made");
            }
            // Its path has to be short.
            let socket = std::os::unix::net::UnixListener::bind(parent.join("socket"));
            drop(socket.expect("a socket"));
            parent
        })
        .look(|_, run, _, child| {
            assert_eq!(run.last()["skipped"], serde_json::json!(["ignored/pipe", "pipe", "socket"]));
            assert!(!child.join("pipe").exists() && !child.join("socket").exists());
        }),
        row("hard links, within and to a store outside", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            write(&s.path("store"), "blob", "stored\n");
            fs::create_dir_all(parent.join("ignored/modules")).expect("a directory");
            fs::hard_link(s.path("store/blob"), parent.join("ignored/modules/blob")).expect("linked");
            fs::hard_link(parent.join("b"), parent.join("b2")).expect("linked");
            parent
        })
        .look(|s, _, _, child| {
            write(child, "ignored/modules/blob", "changed\n");
            assert_eq!(read(&s.path("store"), "blob").as_deref(), Some("stored\n"));
            assert_eq!(fs::metadata(child.join("b2")).expect("a stat").nlink(), 1);
        }),
        row("holes, and an untracked file of 40 MiB", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            for name in ["sparse", "ignored/sparse"] {
                let file = fs::File::create(parent.join(name)).expect("made");
                file.set_len(40 << 20).expect("grown");
            }
            parent
        })
        .look(|_, run, _, child| {
            assert_eq!(run.last()["base_omitted"], serde_json::json!(["sparse"]));
            assert!(fs::metadata(child.join("sparse")).expect("a stat").blocks() < 1024);
        }),
        row("extended attributes", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            for path in ["a", "dir", "ignored"] {
                if rustix::fs::setxattr(parent.join(path), "user.note", b"kept", XattrFlags::empty()).is_err() {
                    skipped("no user.* attributes here");
                }
            }
            parent
        })
        .look(|_, _, parent, child| {
            let mut value = [0; 8];
            let had = rustix::fs::getxattr(parent.join("a"), "user.note", &mut value[..]).is_ok();
            assert_eq!(rustix::fs::getxattr(child.join("a"), "user.note", &mut value[..]).is_ok(), had);
        }),
        row("ACLs", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            for (acl, path) in [("u:nobody:rw", "a"), ("d:u:nobody:rwx", "dir"), ("g:nogroup:r", "ignored/deep/file")] {
                let set = Command::new("setfacl").args(["-m", acl]).arg(parent.join(path)).status();
                if !set.is_ok_and(|status| status.success()) {
                    skipped("no ACLs here");
                }
            }
            s.git(&parent, &["status"]);
            parent
        }),
        row("setuid, setgid and sticky", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            for (path, mode) in [("a", 0o4755), ("staged", 0o2755), ("ignored", 0o3777), ("dir", 0o1777)] {
                chmod(&parent.join(path), mode);
            }
            s.git(&parent, &["status"]);
            parent
        }),
        row("links of every kind", Ends::Folds(""), |s| {
            let parent = s.repo("parent");
            write(&s.path("outside"), "file", "outside\n");
            write(&parent, "dir/inner", "x\n");
            for (target, link) in [
                ("a", "file"),
                ("dir", "directory"),
                ("nowhere", "dangling"),
                ("self", "self"),
                ("../parent/a", "round about"),
                ("../outside/file", "up"),
                ("/nowhere/at/all", "absolute"),
            ] {
                symlink(target, parent.join(link)).expect("a link");
            }
            fs::create_dir(parent.join("ignored")).expect("a directory");
            symlink(s.path("outside"), parent.join("ignored/node_modules")).expect("a link");
            symlink(parent.join("a"), parent.join("ignored/into the parent")).expect("a link");
            symlink("../dir/../a", parent.join("ignored/inside")).expect("a link");
            committed(s, &parent)
        })
        .look(|_, run, parent, child| {
            let outside = &run.last()["points_outside"];
            let first = outside["first"].as_array().expect("a list");
            let named = |path: &str| first.iter().find(|row| row["path"] == path);
            for (path, into) in [
                ("up", "elsewhere"),
                ("absolute", "elsewhere"),
                ("ignored/node_modules", "elsewhere"),
                ("ignored/into the parent", "parent"),
                ("round about", "parent"),
            ] {
                assert_eq!(
                    named(path).map(|row| row["into"].as_str().unwrap_or_default()),
                    Some(into),
                    "{path}: {outside}"
                );
            }
            assert_eq!((&outside["total"], &outside["into_parent"]), (&5.into(), &2.into()), "{outside}");
            assert_eq!(named("up").expect("named")["target"], "../outside/file");
            assert_eq!(named("ignored/into the parent").expect("named")["target"], text(&parent.join("a")));
            for link in ["up", "ignored/node_modules", "ignored/inside", "dangling", "self"] {
                assert_eq!(fs::read_link(child.join(link)).ok(), fs::read_link(parent.join(link)).ok(), "{link}");
            }
        }),
        row("a Python virtual environment", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            let here = text(&parent).to_owned();
            write(
                &parent,
                "ignored/venv/pyvenv.cfg",
                format!("home = /usr/bin\ncommand = python3 -m venv {here}/ignored/venv\n"),
            );
            write(&parent, "ignored/venv/bin/pip", format!("#!{here}/ignored/venv/bin/python\nimport pip\n"));
            write(
                &parent,
                "ignored/venv/bin/long",
                format!("#!/bin/sh\n'''exec' \"{here}/x y/python\" \"$0\" \"$@\"\n"),
            );
            write(&parent, "ignored/venv/bin/own", "#!/usr/bin/env python3\n");
            symlink("/usr/bin/python3", parent.join("ignored/venv/bin/python")).expect("a link");
            parent
        })
        .look(|_, run, _, _| {
            let outside = run.last()["points_outside"].clone();
            assert_eq!((&outside["total"], &outside["into_parent"]), (&2.into(), &1.into()), "{outside}");
            assert_eq!(outside["first"][0]["path"], "ignored/venv/bin/pip");
            assert_eq!(outside["first"][1]["path"], "ignored/venv/bin/python");
        }),
        row("hundreds of links that lead out", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            for number in 0..250 {
                symlink("/nowhere", parent.join(format!("ignored/{number}"))).expect("a link");
            }
            parent
        })
        .look(|_, run, _, _| {
            let outside = run.last()["points_outside"].clone();
            assert_eq!(outside["total"], 250);
            assert_eq!(outside["first"].as_array().map(Vec::len), Some(100));
        }),
        row("empty directories", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            fs::create_dir_all(parent.join("empty/er")).expect("directories");
            parent
        })
        .look(|_, _, _, child| assert!(child.join("empty/er").is_dir())),
        row("files where directories were, and the other way round", Ends::Folds(""), |s| {
            let parent = s.repo("parent");
            fs::remove_file(parent.join("a")).expect("it was there");
            write(&parent, "a/now/a/directory", "x\n");
            fs::remove_dir_all(parent.join("dir")).expect("it was there");
            write(&parent, "dir", "a file\n");
            parent
        }),
        row("a tracked file that became a FIFO", Ends::FoldFails(&["a"]), |s| {
            let parent = s.repo("parent");
            fs::remove_file(parent.join("a")).expect("it was there");
            rustix::fs::mknodat(CWD, parent.join("a"), FileType::Fifo, Mode::from_raw_mode(0o644), 0).expect("made");
            parent
        })
        .not_shared(&[" M a", " D a"]),
        row("line endings, filters, encodings and idents", Ends::Folds(""), |s| {
            let parent = s.repo("parent");
            s.git(&parent, &["config", "filter.up.clean", "tr a-z A-Z"]);
            s.git(&parent, &["config", "filter.up.smudge", "tr A-Z a-z"]);
            write(
                &parent,
                ".gitattributes",
                "*.up filter=up\n*.crlf text eol=crlf\n*.u16 text working-tree-encoding=UTF-16LE\n*.id ident\n",
            );
            write(&parent, "x.up", "up\n");
            write(&parent, "x.crlf", "one\r\ntwo\r\n");
            write(&parent, "x.u16", "o\0n\0e\0\n\0");
            write(&parent, "x.id", "$Id$\n");
            s.commit_all(&parent, "converted");
            for path in ["x.up", "x.crlf", "x.u16", "x.id"] {
                fs::remove_file(parent.join(path)).expect("it was there");
            }
            s.git(&parent, &["checkout", "-q", "--", "."]);
            write(&parent, "x.crlf", "one\r\ntwo\r\nthree\r\n");
            parent
        }),
        row("core.autocrlf, core.fileMode and core.ignoreCase against the grain", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            for (key, value) in [("core.autocrlf", "input"), ("core.fileMode", "false"), ("core.ignoreCase", "true")] {
                s.git(&parent, &["config", key, value]);
            }
            chmod(&parent.join("b"), 0o755);
            parent
        }),
        row("ignore rules at every place", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            write(&parent, ".git/info/exclude", "by-exclude\n");
            write(&s.path(""), "global", "by-global\n");
            s.git(&parent, &["config", "core.excludesFile", text(&s.path("global"))]);
            write(&parent, "dir/.gitignore", "*\n!kept\n");
            for path in ["by-exclude", "by-global", "dir/gone", "dir/kept"] {
                write(&parent, path, "x\n");
            }
            parent
        }),
        row("secrets, and tracked files where a pattern matches", Ends::Folds("?? .env\n?? dir/.env.local"), |s| {
            let parent = s.repo("parent");
            write(&parent, ".env.example", "tracked\n");
            s.commit_all(&parent, "example");
            write(&parent, ".env", "SECRET=1\n");
            write(&parent, "dir/.env.local", "SECRET=1\n");
            parent
        })
        .not_shared(&["?? .env", "?? dir/.env.local"])
        .look(|_, run, _, child| {
            assert_eq!(run.last()["left_out"], serde_json::json!([".env", "dir/.env.local"]));
            assert!(child.join(".env.example").exists() && !child.join(".env").exists());
        }),
        row("a directory .isofold of its own", Ends::Folds(""), |s| {
            let parent = dirty(s, "parent");
            write(&parent, ".git/info/exclude", ".isofold/\n");
            write(&parent, ".isofold/patches/a/changes.patch", "x\n");
            parent
        })
        .look(|_, _, _, child| assert!(!child.join(".isofold").exists())),
    ]
}

#[test]
fn trees() {
    run_all(&rows());
}
