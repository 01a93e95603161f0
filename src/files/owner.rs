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

    /// A short name of the process for the names of directories and files that it makes.
    pub(crate) fn tag(&self) -> String {
        format!("{}-{}-{}", self.pid, self.started, short(&self.boot))
    }

    /// Whether the owner that a name tells of (`<prefix><tag>-…`) is gone. A name without a tag tells of
    /// nobody.
    pub(crate) fn of_name_is_dead(name: &str, prefix: &str) -> bool {
        let Some(rest) = name.strip_prefix(prefix) else { return false };
        let mut parts = rest.split('-');
        let (Some(pid), Some(started), Some(boot), Some(_)) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return false;
        };
        let (Ok(pid), Ok(started)) = (pid.parse(), started.parse()) else { return false };
        let now = boot_id();
        let other_boot = !boot.is_empty() && !now.is_empty() && boot != short(&now);
        other_boot || !Self { pid, started, boot: now }.lives()
    }

    /// The process with this id; `None` where there is none, or the system does not tell.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        start_time(pid).map(|started| Self { pid, started, boot: boot_id() })
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

fn short(boot: &str) -> &str {
    boot.get(..8).unwrap_or(boot)
}

/// When a process started, in seconds since 1970, as far as the system tells.
pub(crate) fn running_since(pid: u32) -> Option<u64> {
    // Linux counts these ticks a hundred to the second on every platform.
    let started = start_time(pid)? / 100;
    let boot = std::fs::read_to_string("/proc/stat").ok()?;
    let boot = boot.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse::<u64>().ok()?;
    Some(boot + started)
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
        assert!(!Owner { boot: "another boot".to_owned(), ..this.clone() }.lives());
        let dead = |tag: &str| Owner::of_name_is_dead(&format!("x-{tag}-1"), "x-");
        assert!(!dead(&this.tag()));
        assert!(dead(&Owner { started: this.started + 1, ..this.clone() }.tag()));
        assert!(dead(&Owner { boot: "anotherboot".to_owned(), ..this }.tag()));
        assert!(!dead("old"), "a name of another form tells of nobody");
    }
}
