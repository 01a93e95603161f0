//! Who still holds files of a worktree after the command was ended: processes that left its group.

use std::fs;
use std::path::Path;

use super::Survivor;

/// Processes that work in `root` or have a file of it open. Only Linux tells.
pub(super) fn survivors(root: &Path) -> Vec<Survivor> {
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if pid == std::process::id() || !holds(&process.path(), root) {
            continue;
        }
        let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default().trim().to_owned();
        found.push(Survivor { pid, name });
    }
    found.sort_by_key(|survivor| survivor.pid);
    found
}

fn holds(process: &Path, root: &Path) -> bool {
    let inside = |link: &Path| fs::read_link(link).is_ok_and(|target| target.starts_with(root));
    if inside(&process.join("cwd")) || inside(&process.join("exe")) {
        return true;
    }
    fs::read_dir(process.join("fd")).into_iter().flatten().flatten().any(|fd| inside(&fd.path()))
}
