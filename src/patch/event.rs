//! The events that agent tools hand to their hooks, in the shapes of docs/agents.md.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// The agent and the directory of the file that an edit was about; `None` for any other event.
pub(crate) fn edit(event: &[u8]) -> Option<(String, PathBuf)> {
    let event: Value = serde_json::from_slice(event).ok()?;
    let agent = text(&event, &["agent_id", "agentId"])?;
    let input = ["tool_input", "toolInput", "toolArgs"].iter().find_map(|name| event.get(*name))?;
    // Some tools hand their arguments on as text.
    let parsed: Value;
    let input = match input {
        Value::String(inner) => {
            parsed = serde_json::from_str(inner).ok()?;
            &parsed
        }
        input => input,
    };
    let file = text(input, &["file_path", "filePath", "notebook_path", "path"])?;
    let file = match text(&event, &["cwd"]) {
        Some(cwd) => Path::new(&cwd).join(file),
        None => PathBuf::from(file),
    };
    if !file.is_absolute() {
        return None;
    }
    // The file may be gone, and its directory too.
    let directory = file.ancestors().skip(1).find(|above| above.is_dir())?;
    Some((agent, directory.to_owned()))
}

/// What a hook that makes or removes a worktree is told: the name, or the path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Worktree {
    pub(crate) name: Option<String>,
    pub(crate) path: Option<PathBuf>,
    pub(crate) cwd: Option<PathBuf>,
}

/// The one JSON value: an object, or just the name.
pub(crate) fn worktree(event: &[u8]) -> Option<Worktree> {
    let event: Value = serde_json::from_slice(event).ok()?;
    if let Value::String(name) = event {
        return Some(Worktree { name: Some(name), path: None, cwd: None });
    }
    let name = text(&event, &["name", "worktree_name"]);
    let path = text(&event, &["worktree_path", "worktreePath", "path"]).map(PathBuf::from);
    let cwd = text(&event, &["cwd"]).map(PathBuf::from);
    event.is_object().then_some(Worktree { name, path, cwd })
}

fn text(object: &Value, names: &[&str]) -> Option<String> {
    let found = names.iter().find_map(|name| object.get(*name).and_then(Value::as_str));
    found.filter(|text| !text.is_empty()).map(str::to_owned)
}
