//! Which process made something, so that a later one can tell whether it still lives.

use serde::{Deserialize, Serialize};

/// A process, named so that a reused pid or a reboot does not pass for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(crate) pid: u32,
    /// Start time in clock ticks since boot; 0 where the system does not tell.
    pub(crate) started: u64,
    /// The kernel's boot id; empty where the system does not tell.
    pub(crate) boot: String,
}

impl Owner {
    /// This process.
    pub(crate) fn this() -> Self {
        let pid = std::process::id();
        Self { pid, started: start_time(pid).unwrap_or(0), boot: boot_id() }
    }

    /// Whether the process still runs; where the system does not tell, it is taken to.
    pub(crate) fn lives(&self) -> bool {
        if !self.boot.is_empty() && self.boot != boot_id() {
            return false;
        }
        match start_time(self.pid) {
            Some(started) => self.started == 0 || started == self.started,
            None => !cfg!(target_os = "linux"),
        }
    }
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Field 22 of `/proc/<pid>/stat`, counted after the command name, which may hold anything.
fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after_name = &stat[stat.rfind(')')? + 1..];
    after_name.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_others_do_not() {
        let this = Owner::this();
        assert!(this.lives());
        assert!(!Owner { started: this.started + 1, ..this.clone() }.lives());
        assert!(!Owner { boot: "another boot".to_owned(), ..this }.lives());
    }
}
