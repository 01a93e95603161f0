//! The npm package in `node/`: its own tests, its example, its types and its contents.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use isofold::options::Excludes;
use serde_json::{Value, json};

use crate::support::host::skipped;
use crate::support::{Sandbox, lines, write};

fn package() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("node")
}

/// `ISOFOLD_TEST_NODE`, or the node on PATH; `None`, said on stderr, where that is none of 20 or newer.
fn node() -> Option<PathBuf> {
    let named = std::env::var_os("ISOFOLD_TEST_NODE").map(PathBuf::from);
    let node = named.unwrap_or_else(|| PathBuf::from("node"));
    let version = Command::new(&node).arg("--version").output().ok();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let major = version.trim().trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_some_and(|major| major >= 20) {
        return Some(node);
    }
    skipped(&format!("the npm package needs node 20 or newer, not {version:?}"));
    None
}

fn program() -> OsString {
    std::env::var_os("ISOFOLD_TEST_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_isofold").into())
}

/// Node in the sandbox, with its temporary files there.
fn command(sandbox: &Sandbox, node: &Path) -> Command {
    let mut command = sandbox.command(node);
    command.env("TMPDIR", sandbox.path("home")).env_remove("ISOFOLD_BIN").env_remove("NODE_OPTIONS");
    command.current_dir(package());
    command
}

#[track_caller]
fn succeeded(output: &Output) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let failed: Vec<&str> = stdout.split("\nnot ok ").skip(1).map(|part| part.get(..1500).unwrap_or(part)).collect();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{}{stderr}", failed.join("\n"), if failed.is_empty() { &stdout } else { "" });
    stdout
}

/// How many tests a run of node's test runner counts under `name`.
fn counted(tap: &str, name: &str) -> usize {
    let line = tap.lines().rev().find_map(|line| line.strip_prefix(&format!("# {name} ")));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or_else(|| panic!("no count of {name}: {tap}"))
}

#[test]
fn the_contract_suite_of_the_package_passes() {
    let Some(node) = node() else { return };
    let sandbox = Sandbox::in_memory();
    let mut files: Vec<PathBuf> = fs::read_dir(package().join("test"))
        .expect("tests")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.to_string_lossy().ends_with(".test.mjs"))
        .collect();
    files.sort();
    let mut suite = command(&sandbox, &node);
    suite.args(["--test", "--test-reporter=tap"]).args(&files).env("ISOFOLD_BIN", program());
    let tap = succeeded(&suite.output().expect("node runs"));
    assert!(counted(&tap, "tests") >= 110, "{} tests", counted(&tap, "tests"));
    assert_eq!((counted(&tap, "skipped"), counted(&tap, "todo")), (0, 0));
    let _ = writeln!(std::io::stderr(), "node: {} tests passed", counted(&tap, "pass"));
}

#[test]
fn without_the_binary_the_package_can_be_imported_and_says_what_is_missing() {
    let Some(node) = node() else { return };
    let sandbox = Sandbox::new();
    let which = sandbox.command("sh").args(["-c", "command -v \"$0\""]).arg(&node).output().expect("sh runs");
    let node = PathBuf::from(String::from_utf8_lossy(&which.stdout).trim());
    let mut suite = command(&sandbox, &node);
    suite.args(["--test", "--test-reporter=tap", "test/missing.test.mjs"]).env("PATH", sandbox.path("home"));
    assert_eq!(counted(&succeeded(&suite.output().expect("node runs")), "pass"), 4);
}

#[test]
fn a_host_in_node_keeps_its_line_through_kills() {
    let Some(node) = node() else { return };
    let sandbox = Sandbox::in_memory();
    let mut host = command(&sandbox, &node);
    host.args(["examples/host.mjs", "--check"]).env("ISOFOLD_BIN", program());
    let output = succeeded(&host.output().expect("node runs"));
    assert!(output.lines().filter(|line| line.starts_with("ok: ")).count() >= 6, "{output}");
    assert!(output.contains("ok: in peace; 1 run of the host"), "{output}");
}

#[test]
fn only_what_is_needed_is_packed() {
    let Some(_) = node() else { return };
    let sandbox = Sandbox::new();
    let mut npm = command(&sandbox, Path::new("npm"));
    let Ok(output) = npm.args(["pack", "--dry-run", "--json", "--ignore-scripts"]).output() else {
        return skipped("npm is needed to see what would be packed");
    };
    let listed: Value = serde_json::from_str(&succeeded(&output)).expect("JSON");
    // A list of packages, or an object of them where npm is newer.
    let one =
        listed.as_array().and_then(|all| all.first()).or_else(|| listed.as_object().and_then(|o| o.values().next()));
    let files = one.expect("a package")["files"].as_array().expect("files").clone();
    let mut names: Vec<String> = files.iter().map(|file| file["path"].as_str().expect("a path").to_owned()).collect();
    names.sort();
    let mut wanted: Vec<String> =
        ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "index.d.ts", "index.js", "package.json"]
            .map(str::to_owned)
            .into();
    let sources = fs::read_dir(package().join("lib")).expect("sources");
    wanted.extend(sources.map(|entry| format!("lib/{}", entry.expect("an entry").file_name().display())));
    wanted.sort();
    assert_eq!(names, wanted);
    assert!(
        names
            .iter()
            .filter(|name| name.starts_with("lib/"))
            .all(|name| Path::new(name).extension().is_some_and(|e| e == "js")),
        "{names:?}"
    );
}

#[test]
fn the_manifests_and_licences_agree() {
    let manifest: Value =
        serde_json::from_str(&fs::read_to_string(package().join("package.json")).expect("a manifest")).expect("JSON");
    assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(manifest["license"], env!("CARGO_PKG_LICENSE"));
    assert_eq!(manifest["engines"], json!({"node": ">=20"}));
    let exports = manifest["exports"].as_object().expect("exports");
    assert_eq!(exports.keys().collect::<Vec<_>>(), ["."]);
    let conditions: Vec<&String> = exports["."].as_object().expect("conditions").keys().collect();
    assert_eq!(conditions, ["types", "import"]);
    assert!(["dependencies", "peerDependencies", "optionalDependencies"].iter().all(|kind| manifest[kind].is_null()));
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let read = |directory: &Path| fs::read(directory.join(name)).expect("a licence");
        assert!(read(&package()) == read(Path::new(env!("CARGO_MANIFEST_DIR"))), "{name} differs");
    }
}

/// Packages of the registry in a directory of the sandbox; `None`, said on stderr, where they can't be had.
fn installed(sandbox: &Sandbox, packages: &[&str]) -> Option<PathBuf> {
    let directory = sandbox.path("packages");
    fs::create_dir(&directory).expect("a directory");
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", "--prefix"]).arg(&directory);
    let output = npm.args(packages).current_dir(&directory).output();
    match output {
        Ok(output) if output.status.success() => Some(directory),
        Ok(output) => {
            skipped(&format!("npm gave no {packages:?}: {}", String::from_utf8_lossy(&output.stderr)));
            None
        }
        Err(error) => {
            skipped(&format!("npm is needed for {packages:?}: {error}"));
            None
        }
    }
}

#[test]
fn the_types_compile_under_strict() {
    let Some(node) = node() else { return };
    let sandbox = Sandbox::new();
    let Some(directory) = installed(&sandbox, &["typescript"]) else { return };
    std::os::unix::fs::symlink(package(), directory.join("node_modules/isofold")).expect("a link");
    write(&directory, "package.json", "{\"type\": \"module\"}");
    fs::copy(package().join("test/types/consumer.ts"), directory.join("consumer.ts")).expect("a copy");
    let mut tsc = command(&sandbox, &node);
    tsc.arg(directory.join("node_modules/typescript/bin/tsc"));
    tsc.args(["--strict", "--noEmit", "--target", "es2022", "--lib", "es2022", "--module", "nodenext", "--types", ""]);
    succeeded(&tsc.arg("consumer.ts").current_dir(&directory).output().expect("node runs"));
}

#[test]
fn a_full_validator_agrees_about_the_schema_of_the_lines() {
    let Some(node) = node() else { return };
    let sandbox = Sandbox::new();
    let Some(directory) = installed(&sandbox, &["ajv@8"]) else { return };
    let parent = sandbox.repo("parent");
    let child = sandbox.path("child");
    let mut printed = sandbox.try_isolate("w", &parent, &child, &["--context", "k"]).lines();
    printed.extend(sandbox.try_isolate("w", &parent, &sandbox.path("other"), &[]).expect("failed", 1).lines());
    printed.extend(sandbox.try_isolate("", &parent, &child, &[]).expect("invalid-invocation", 2).lines());
    write(&parent, "a", lines(&[(1, "parent")]));
    write(&child, "a", lines(&[(1, "child")]));
    printed.extend(sandbox.try_fold(&parent, &child, &[]).expect("conflict", 1).lines());
    write(&child, "a", lines(&[]));
    write(&child, "b", "b\n");
    printed.extend(sandbox.try_fold(&parent, &child, &["--dry-run"]).expect("integrated", 0).lines());
    printed.extend(sandbox.isofold(["remove", "--child", child.to_str().expect("UTF-8")]).expect("refused", 1).lines());
    printed.extend(sandbox.isofold(["--version", "--json"]).lines());
    write(&directory, "lines.json", serde_json::to_string(&printed).expect("JSON"));
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/protocol.schema.json");
    write(
        &directory,
        "check.mjs",
        "import { readFileSync } from 'node:fs';
        import Ajv from 'ajv/dist/2020.js';
        const read = (path) => JSON.parse(readFileSync(path, 'utf8'));
        const validate = new Ajv.default({ allErrors: true, strict: false }).compile(read(process.argv[2]));
        const lines = read(process.argv[3]);
        const right = (line) => validate(line) || (console.error(line, validate.errors), false);
        const wrong = (line) => !validate({ ...line, outcome: 'done', phase: 'done', event: 'done' });
        console.log(lines.filter(right).length, lines.filter(wrong).length);",
    );
    let mut check = command(&sandbox, &node);
    check.args(["check.mjs".as_ref(), schema.as_os_str(), "lines.json".as_ref()]).current_dir(&directory);
    let counts = succeeded(&check.output().expect("node runs"));
    assert_eq!(counts.trim(), format!("{0} {0}", printed.len()));
}

/// Random numbers that are the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % sides
    }

    /// A short text of these pieces.
    fn text(&mut self, pieces: &[&str]) -> String {
        (0..=self.roll(6)).map(|_| pieces[self.roll(pieces.len())]).collect()
    }
}

#[test]
fn patterns_mean_the_same_in_both_languages() {
    let Some(node) = node() else { return };
    let sandbox = Sandbox::new();
    let seed = std::env::var("ISOFOLD_PATTERN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(9);
    let mut dice = Dice(seed);
    let mut cases = Vec::new();
    while cases.len() < 4000 {
        let pattern = dice.text(&["a", "b", "*", "**", "/", "/", "**/", "/**", ".", "[a]", "ä", "\\", "?", " "]);
        let path = dice.text(&["a", "b", "ab", "/", "/", ".", "a/b", "[a]", "ä", "\\", "\n", " "]);
        let plain = path.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
        let directory = pattern.ends_with('/');
        if let (true, false, Ok(excludes)) = (plain, pattern.trim().is_empty(), Excludes::new([&pattern])) {
            cases.push(json!([pattern, path, excludes.matches(Path::new(&path), directory)]));
        }
    }
    let hits = cases.iter().filter(|case| case[2] == true).count();
    assert!(hits > 400, "{hits} of the patterns match");
    write(&sandbox.path("home"), "cases.json", serde_json::to_string(&cases).expect("JSON"));
    let script = "const { isExcluded } = await import('./index.js');
        const { readFileSync } = await import('node:fs');
        const cases = JSON.parse(readFileSync(process.argv[1], 'utf8'));
        const wrong = cases.filter(([pattern, path, hit]) => isExcluded(path, [pattern]) !== hit);
        console.log(JSON.stringify(wrong.slice(0, 20)));";
    let mut compare = command(&sandbox, &node);
    compare.args(["--input-type=module", "-e", script]).arg(sandbox.path("home/cases.json"));
    assert_eq!(succeeded(&compare.output().expect("node runs")).trim(), "[]", "seed {seed}");
}
