//! Random work in captured worktrees: the patch is what git makes of it, `git apply --index` takes it on a
//! fresh checkout of the base, and landing it gives the same files.
//!
//! `ISOFOLD_FUZZ_ROUNDS` says how many changes, `ISOFOLD_FUZZ_SEED` the first seed. A failure names the
//! seed that shows it alone, with rounds of 1.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use isofold::{CaptureCommand, CaptureOutcome, CaptureRequest, Control, PatchLanding, Patches};

use crate::support::random::{Random, seeds};
use crate::support::snapshots::{by_git, git, hermetic, say};
use crate::support::{Sandbox, write};

#[derive(Debug, Clone, PartialEq)]
enum Node {
    File(Vec<u8>, bool),
    Link(Vec<u8>),
    Pointer(u8),
}

type Model = BTreeMap<Vec<u8>, Node>;

const NAMES: [&[u8]; 20] = [
    b"a",
    b"b",
    b"c.txt",
    b"d",
    b"x y",
    b" lead",
    b"trail ",
    b"q\"uote",
    b"t\tab",
    b"\xe9\xff",
    "ü".as_bytes(),
    b"-dash",
    b"new\nline",
    b"a.b",
    b"it's",
    b"back\\slash",
    b"b => c",
    b"{x}",
    b"w.x",
    b"z",
];
const DIRECTORIES: [&[u8]; 7] = [b"", b"", b"", b"d/", b"e f/", b"d/e/", b"\xe9\xff/"];

fn path(random: &mut Random) -> Vec<u8> {
    [DIRECTORIES[random.below(DIRECTORIES.len())], NAMES[random.below(NAMES.len())]].concat()
}

fn line(random: &mut Random) -> Vec<u8> {
    match random.below(9) {
        0 => b"".to_vec(),
        1 => b" ".to_vec(),
        2 => b"\t".to_vec(),
        3 => b"-- a/x".to_vec(),
        4 => b"diff --git a/x b/x".to_vec(),
        5 => b"caf\xe9 \x80".to_vec(),
        6 => vec![b'y'; 1 + random.below(200)],
        _ => format!("line {}", random.below(40)).into_bytes(),
    }
}

fn content(random: &mut Random) -> Vec<u8> {
    let mut text = Vec::new();
    match random.below(8) {
        0 => {}
        1 => text.extend((0..=random.below(3000)).map(|_| random.byte())),
        kind => {
            let end: &[u8] = if kind == 2 { b"\r\n" } else { b"\n" };
            for _ in 0..=random.below(60) {
                text.extend(line(random));
                text.extend(if kind == 3 && random.one_in(2) { &b"\r\n"[..] } else { end });
            }
            if random.one_in(4) {
                text.pop();
            }
            if random.one_in(12) {
                text.push(0);
            }
        }
    }
    text
}

/// The same content, changed a little.
fn edited(random: &mut Random, content: &[u8]) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = content.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    for _ in 0..=random.below(4) {
        let at = random.below(lines.len() + 1);
        match random.below(4) {
            0 if at < lines.len() => drop(lines.remove(at)),
            1 if at < lines.len() => lines[at] = [line(random), b"\n".to_vec()].concat(),
            2 if !lines.is_empty() => {
                let last = lines.len() - 1;
                if lines[last].ends_with(b"\n") {
                    lines[last].pop();
                }
            }
            _ => lines.insert(at, [line(random), b"\n".to_vec()].concat()),
        }
    }
    lines.concat()
}

/// Makes room for `path`: what stands above it or below it goes.
fn clear(model: &mut Model, path: &[u8]) {
    let below = [path, b"/"].concat();
    model.retain(|known, _| !known.starts_with(&below) && !path.starts_with(&[known.as_slice(), b"/"].concat()));
}

fn set(model: &mut Model, path: Vec<u8>, node: Node) {
    clear(model, &path);
    model.insert(path, node);
}

fn start(random: &mut Random) -> Model {
    let mut model = Model::new();
    for _ in 0..4 + random.below(12) {
        let path = path(random);
        let node = match random.below(12) {
            0 => Node::Link(NAMES[random.below(NAMES.len())].to_vec()),
            1 => Node::Pointer(1),
            _ => Node::File(content(random), random.one_in(5)),
        };
        set(&mut model, path, node);
    }
    model
}

fn change(random: &mut Random, model: &mut Model) {
    let known: Vec<Vec<u8>> = model.keys().cloned().collect();
    let some = known.get(random.below(known.len().max(1))).cloned();
    match (random.below(12), some) {
        (0..=2, Some(at)) => {
            if let Some(Node::File(bytes, mode)) = model.get(&at).cloned() {
                model.insert(at, Node::File(edited(random, &bytes), mode));
            }
        }
        (3, Some(at)) => drop(model.remove(&at)),
        (4 | 5, Some(at)) => {
            // A rename, with an edit or without.
            if let Some(node) = model.remove(&at) {
                let node = match node {
                    Node::File(bytes, mode) if random.one_in(2) => Node::File(edited(random, &bytes), mode),
                    node => node,
                };
                set(model, path(random), node);
            }
        }
        (6, Some(at)) => {
            if let Some(Node::File(_, mode)) = model.get_mut(&at) {
                *mode = !*mode;
            }
        }
        (7, Some(at)) => {
            let node = if random.one_in(2) { Node::Link(b"a".to_vec()) } else { Node::File(content(random), false) };
            set(model, at, node);
        }
        (8, Some(at)) => {
            // A copy.
            let node = model[&at].clone();
            set(model, path(random), node);
        }
        (9, Some(at)) if matches!(model[&at], Node::Pointer(_)) => drop(model.insert(at, Node::Pointer(2))),
        _ => {
            let node = Node::File(content(random), random.one_in(6));
            set(model, path(random), node);
        }
    }
}

fn pointer(number: u8) -> String {
    format!("{number}").repeat(40)
}

/// Single quotes for the shell, whatever the bytes.
fn quoted(bytes: &[u8]) -> Vec<u8> {
    let mut text = b"'".to_vec();
    for byte in bytes {
        if *byte == b'\'' {
            text.extend(b"'\\''");
        } else {
            text.push(*byte);
        }
    }
    text.push(b'\'');
    text
}

/// Shell commands that make `to` of `from`.
fn steps(script: &mut Vec<u8>, pool: &Path, count: &mut usize, from: &Model, to: &Model) {
    for path in from.keys().filter(|path| from.get(*path) != to.get(*path)) {
        if matches!(from[path], Node::Pointer(_)) {
            script.extend([b"git rm -q --cached -- ", quoted(path).as_slice(), b"\n"].concat());
        }
        script.extend([b"rm -rf -- ", quoted(path).as_slice(), b"\n"].concat());
        if let Some(parent) = Path::new(OsStr::from_bytes(path)).parent().filter(|p| !p.as_os_str().is_empty()) {
            let parent = quoted(parent.as_os_str().as_bytes());
            script.extend([b"rmdir -p -- ", parent.as_slice(), b" 2>/dev/null\n"].concat());
        }
    }
    for (path, node) in to.iter().filter(|(path, node)| from.get(*path) != Some(*node)) {
        let name = quoted(path);
        if let Some(parent) = Path::new(OsStr::from_bytes(path)).parent().filter(|p| !p.as_os_str().is_empty()) {
            script.extend([b"mkdir -p -- ", quoted(parent.as_os_str().as_bytes()).as_slice(), b"\n"].concat());
        }
        match node {
            Node::File(bytes, executable) => {
                *count += 1;
                let source = pool.join(count.to_string());
                fs::write(&source, bytes).expect("written");
                let mode = if *executable { "755" } else { "644" };
                fs::set_permissions(&source, fs::Permissions::from_mode(0o644)).expect("set");
                script.extend([b"cp -- ", source.as_os_str().as_bytes(), b" ", &name, b"\n"].concat());
                script.extend([b"chmod ", mode.as_bytes(), b" -- ", &name, b"\n"].concat());
            }
            Node::Link(target) => {
                script.extend([b"ln -s -- ", quoted(target).as_slice(), b" ", &name, b"\n"].concat());
            }
            Node::Pointer(number) => {
                let id = pointer(*number);
                script.extend([b"mkdir -p -- ", name.as_slice(), b"\n"].concat());
                let entry = [b"160000,", id.as_bytes(), b",", path.as_slice()].concat();
                let entry = quoted(&entry);
                script.extend([b"git update-index --add --cacheinfo ", entry.as_slice(), b"\n"].concat());
            }
        }
    }
}

/// Writes a model to a directory that has none of it, and stages it.
fn fill(repo: &Path, model: &Model) {
    for (path, node) in model {
        let full = repo.join(OsStr::from_bytes(path));
        fs::create_dir_all(full.parent().expect("a parent")).expect("made");
        match node {
            Node::File(bytes, executable) => {
                fs::write(&full, bytes).expect("written");
                let mode = if *executable { 0o755 } else { 0o644 };
                fs::set_permissions(&full, fs::Permissions::from_mode(mode)).expect("set");
            }
            Node::Link(target) => symlink(OsStr::from_bytes(target), &full).expect("linked"),
            Node::Pointer(_) => fs::create_dir_all(&full).expect("made"),
        }
    }
    must(git(repo, &["add", "-A"]));
    for (path, node) in model {
        if let Node::Pointer(number) = node {
            let mut entry = format!("160000,{},", pointer(*number)).into_bytes();
            entry.extend(path);
            let mut index = git(repo, &["update-index", "--add", "--cacheinfo"]);
            index.arg(OsStr::from_bytes(&entry));
            must(index);
        }
    }
    must(git(repo, &["commit", "-q", "--allow-empty", "-m", "base"]));
}

fn must(mut command: std::process::Command) -> String {
    let output = command.output().expect("git runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// What a user may have set that must not show in a patch.
const CONFIGS: [(&str, &str); 12] = [
    ("diff.noprefix", "true"),
    ("diff.mnemonicPrefix", "true"),
    ("color.diff", "always"),
    ("color.ui", "always"),
    ("diff.external", "false"),
    ("diff.renames", "copies"),
    ("diff.suppressBlankEmpty", "true"),
    ("diff.context", "0"),
    ("diff.algorithm", "histogram"),
    ("core.quotePath", "false"),
    ("diff.orderFile", "/dev/null"),
    ("apply.whitespace", "fix"),
];

struct Case {
    repo: PathBuf,
    fresh: PathBuf,
    pool: PathBuf,
}

/// One repository with a base of its own.
fn case(s: &Sandbox, name: &str, random: &mut Random, model: &Model) -> Case {
    let repo = s.path(name);
    let (fresh, pool) = (s.path(&format!("{name}-fresh")), s.path(&format!("{name}-pool")));
    fs::create_dir_all(&repo).expect("made");
    fs::create_dir_all(&pool).expect("made");
    must(git(&repo, &["init", "-q", "-b", "main"]));
    for (key, value) in [("user.name", "Test"), ("user.email", "test@example.test"), ("core.autocrlf", "false")] {
        must(git(&repo, &["config", key, value]));
    }
    fill(&repo, model);
    if random.one_in(3) {
        let (key, value) = CONFIGS[random.below(CONFIGS.len() - 1)];
        must(git(&repo, &["config", key, value]));
    }
    let place = fresh.to_str().expect("UTF-8").to_owned();
    must(git(&repo, &["worktree", "add", "-q", "--detach", &place]));
    Case { repo, fresh, pool }
}

/// One change: captured, applied, landed; what is wrong.
fn round(case: &Case, base: &Model, random: &mut Random, number: u64) -> Result<usize, String> {
    let mut middle = base.clone();
    for _ in 0..random.below(4) {
        change(random, &mut middle);
    }
    let mut end = middle.clone();
    for _ in 0..=random.below(5) {
        change(random, &mut end);
    }
    let pool = case.pool.join(number.to_string());
    fs::create_dir_all(&pool).expect("made");
    let mut script = b"set -e\n".to_vec();
    // rmdir -p stops at the first directory that is not empty.
    script.clear();
    let mut count = 0;
    steps(&mut script, &pool, &mut count, base, &middle);
    match random.below(6) {
        0 => script.extend(b"git add -A && git commit -qm work\n"),
        1 => script.extend(b"git add -A && git commit -qm work && git reset -q --soft HEAD~\n"),
        2 => script.extend(b"git add -A && git commit -qm work && git reset -q HEAD~\n"),
        3 => script.extend(b"git add -A\n"),
        _ => {}
    }
    steps(&mut script, &pool, &mut count, &middle, &end);
    // What git makes of it, without leaving objects.
    let tree = pool.join("tree");
    let objects = pool.join("objects");
    fs::create_dir_all(&objects).expect("made");
    let oracle = format!(
        "o=$(git rev-parse --path-format=absolute --git-path objects); cp -p \"$(git rev-parse --git-path index)\" {0}/index; \
         export GIT_INDEX_FILE={0}/index GIT_OBJECT_DIRECTORY={1} GIT_ALTERNATE_OBJECT_DIRECTORIES=$o; \
         git add -A && git write-tree > {2}\n",
        pool.display(),
        objects.display(),
        tree.display()
    );
    script.extend(oracle.as_bytes());
    let file = pool.join("script");
    fs::write(&file, &script).expect("written");
    let command = CaptureCommand::Argv(vec!["sh".into(), file.into()]);
    let mut request = CaptureRequest::new(&case.repo, command);
    request.output = Some(pool.clone());
    let captured = match isofold::capture(&request, None, &Control::new()) {
        CaptureOutcome::Captured(captured) => captured,
        other => return Err(format!("{other:?}\n{}", script.escape_ascii())),
    };
    let told = || format!("{:?}\n{}", captured.result, String::from_utf8_lossy(&script));
    let wanted = fs::read_to_string(&tree).unwrap_or_default().trim().to_owned();
    if wanted.is_empty() {
        return Err(format!("the script failed: {}", told()));
    }
    let patch = fs::read(&captured.patch).expect("a patch");
    // git applies it to a fresh checkout of the base.
    must(git(&case.fresh, &["reset", "-q", "--hard", "main"]));
    must(git(&case.fresh, &["clean", "-qfdx"]));
    if !patch.is_empty() {
        let mut apply = git(&case.fresh, &["apply", "--index"]);
        let output = apply.arg(&captured.patch).output().expect("git runs");
        if !output.status.success() {
            return Err(format!("git apply: {}\n{}", String::from_utf8_lossy(&output.stderr), told()));
        }
    }
    let applied = must(git(&case.fresh, &["write-tree"]));
    if applied != wanted {
        return Err(format!("applied {applied}, git says {wanted}\n{}", told()));
    }
    // It lands in the main checkout, whose index stays.
    let store = case.repo.join(".isofold/patches/fuzz");
    fs::create_dir_all(&store).expect("made");
    fs::write(store.join("base"), format!("{}\n", captured.base)).expect("written");
    fs::write(store.join("changes.patch"), &patch).expect("written");
    let index = fs::read(case.repo.join(".git/index")).expect("an index");
    let land = || Patches::of(&case.repo).and_then(|patches| patches.land("fuzz", false, &Control::new()));
    let landing = land();
    let landed = match &landing {
        Ok(PatchLanding::Landed(_)) if !patch.is_empty() => true,
        Ok(PatchLanding::Nothing) => patch.is_empty() || only_pointers(&patch),
        _ => false,
    };
    if !landed {
        return Err(format!("landing: {landing:?}\n{}", told()));
    }
    if fs::read(case.repo.join(".git/index")).expect("an index") != index {
        return Err(format!("the index changed\n{}", told()));
    }
    // What stands below a submodule that is in the index still, git does not see.
    let kept = pointers(git(&case.fresh, &["ls-tree", "-r", "-z", &wanted]));
    for path in pointers(git(&case.repo, &["ls-files", "-s", "-z"])).iter().filter(|path| !kept.contains(path)) {
        let mut forget = git(&case.repo, &["update-index", "--force-remove", "--"]);
        forget.arg(OsStr::from_bytes(path));
        must(forget);
    }
    let there = by_git(&case.repo, &[".isofold"])?;
    fs::write(case.repo.join(".git/index"), &index).expect("written");
    if files(&case.repo, &there) != files(&case.fresh, &wanted) {
        let diff = must(git(&case.fresh, &["diff-tree", "-r", &wanted, &there]));
        return Err(format!("landed {there}, wanted {wanted}: {diff}\n{}", told()));
    }
    // A second time there is nothing to do.
    match land() {
        Ok(PatchLanding::Nothing) => {}
        other => return Err(format!("landing again: {other:?}\n{}", told())),
    }
    // git cleans no submodule.
    for path in pointers(git(&case.repo, &["ls-files", "-s", "-z"])) {
        let directory = case.repo.join(OsStr::from_bytes(&path));
        if directory.is_dir() {
            fs::remove_dir_all(&directory).expect("removed");
            fs::create_dir(&directory).expect("made");
        }
    }
    must(git(&case.repo, &["reset", "-q", "--hard", "main"]));
    must(git(&case.repo, &["clean", "-qfdx", "-e", ".isofold"]));
    fs::remove_dir_all(&pool).expect("removed");
    Ok(captured.files)
}

/// Whether a patch moves nothing but submodules, which working files can't show.
fn only_pointers(patch: &[u8]) -> bool {
    let text = String::from_utf8_lossy(patch);
    text.split("diff --git ").skip(1).all(|part| part.lines().any(|line| line.contains("160000")))
}

/// The submodules that git lists.
fn pointers(mut list: std::process::Command) -> Vec<Vec<u8>> {
    let listed = list.output().expect("git runs").stdout;
    let lines = listed.split(|b| *b == 0).filter(|line| line.starts_with(b"160000"));
    lines.filter_map(|line| Some(line[line.iter().position(|b| *b == b'\t')? + 1..].to_vec())).collect()
}

/// A tree without submodule pointers.
fn files(repo: &Path, tree: &str) -> String {
    let listed = must(git(repo, &["ls-tree", "-r", tree]));
    let mut text = String::new();
    for line in listed.lines().filter(|line| !line.starts_with("160000")) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Round after round, `per_base` of them on one base.
fn rounds(seeds: std::ops::Range<u64>, per_base: u64, start: impl Fn(&mut Random) -> Model) {
    let s = Sandbox::in_memory();
    let (mut rounds, mut paths) = (0, 0);
    let mut wrong = Vec::new();
    let mut case_of: Option<(u64, Case, Model)> = None;
    for seed in seeds {
        let group = seed / per_base;
        if case_of.as_ref().is_none_or(|(known, _, _)| *known != group) {
            if let Some((_, old, _)) = case_of.take() {
                for directory in [&old.repo, &old.fresh, &old.pool] {
                    fs::remove_dir_all(directory).expect("removed");
                }
            }
            let mut random = Random::new(group.wrapping_mul(7919));
            let model = start(&mut random);
            let case = case(&s, &format!("repo-{group}-{seed}"), &mut random, &model);
            case_of = Some((group, case, model));
        }
        let Some((_, case, model)) = &case_of else { unreachable!("just made") };
        match round(case, model, &mut Random::new(seed), seed) {
            Ok(files) => paths += files,
            Err(why) => {
                wrong.push(format!("ISOFOLD_FUZZ_SEED={seed}\n{why}"));
                // The next one starts afresh.
                case_of = None;
            }
        }
        rounds += 1;
    }
    say!("{rounds} changes, {paths} paths, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{} of {rounds}: {}", wrong.len(), wrong[..wrong.len().min(4)].join("\n\n"));
}

#[test]
fn random_work_round_trips() {
    hermetic("capture_fuzz::random_work_round_trips", false, &[], || rounds(seeds(32), 8, start));
}

/// `ISOFOLD_FUZZ_TREE` names a directory of real files; without it the sources of this crate serve.
#[test]
fn random_work_on_real_files_round_trips() {
    let given = std::env::var("ISOFOLD_FUZZ_TREE").ok();
    let tree = given.map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), PathBuf::from);
    let more = [("ISOFOLD_FUZZ_TREE", tree.to_str().expect("UTF-8"))];
    hermetic("capture_fuzz::random_work_on_real_files_round_trips", false, &more, || {
        let mut model = Model::new();
        load(&tree, &tree, &mut model);
        assert!(model.len() > 20, "{} files in {}", model.len(), tree.display());
        rounds(seeds(6), u64::MAX, |_| model.clone());
    });
}

/// The files and links below a directory, without any `.git` and what git would ignore.
fn load(root: &Path, directory: &Path, model: &mut Model) {
    for entry in fs::read_dir(directory).expect("readable") {
        let path = entry.expect("an entry").path();
        let meta = path.symlink_metadata().expect("a stat");
        let name = path.strip_prefix(root).expect("inside").as_os_str().as_bytes().to_vec();
        if path.file_name().is_some_and(|name| name == ".git" || name == ".gitignore" || name == ".gitattributes") {
            continue;
        }
        if meta.is_dir() {
            load(root, &path, model);
        } else if meta.is_symlink() {
            let target = fs::read_link(&path).expect("a target");
            model.insert(name, Node::Link(target.as_os_str().as_bytes().to_vec()));
        } else if meta.is_file() {
            let executable = meta.permissions().mode() & 0o100 != 0;
            model.insert(name, Node::File(fs::read(&path).expect("readable"), executable));
        }
    }
}

#[test]
fn a_user_s_diff_settings_do_not_show() {
    let s = Sandbox::new();
    let repo = s.repo("repo");
    write(&repo, "bin", b"one\0two");
    s.commit_all(&repo, "binary");
    let patch = |name: &str| {
        let command = "sed -i 's/l3$/three/' a; git mv b 'c d'; printf '\\0x' > bin; echo new > new; chmod +x dir/c";
        let out = s.path(name);
        fs::create_dir(&out).expect("made");
        let run = s.isofold([
            "capture",
            "--repo-path",
            repo.to_str().expect("UTF-8"),
            "--output",
            out.to_str().expect("UTF-8"),
            "--command",
            command,
        ]);
        let run = run.expect("captured", 0);
        fs::read(run.last()["patch"].as_str().expect("a path")).expect("a patch")
    };
    let plain = patch("plain");
    for (key, value) in CONFIGS {
        s.git(&repo, &["config", key, value]);
    }
    s.git(&repo, &["config", "diff.x.textconv", "tr a-z A-Z <"]);
    s.git(&repo, &["config", "diff.x.command", "false"]);
    write(&repo, ".git/info/attributes", "* diff=x\n");
    assert_eq!(patch("settings").escape_ascii().to_string(), plain.escape_ascii().to_string());
}
