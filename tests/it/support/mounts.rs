//! Fresh file systems, mounted for one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use super::host::{is_root, skipped};
use super::{Run, Sandbox};

/// A mounted file system, unmounted with the value, also when the test panics.
pub(crate) struct Mounted {
    place: PathBuf,
    // Holds the image, and the mount point where that is not the test's own.
    _directory: TempDir,
}

impl Mounted {
    pub(crate) fn path(&self) -> &Path {
        &self.place
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        for _ in 0..20 {
            if run("umount", &[self.place.as_os_str()]).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        // Somebody still holds it; it goes when they let go.
        let _ = run("umount", &["--lazy".as_ref(), self.place.as_os_str()]);
    }
}

/// A fresh file system of a kind that `mkfs` or the kernel knows; `None`, said on stderr, where
/// mounting is not allowed.
pub(crate) fn mounted(kind: &str) -> Option<Mounted> {
    mounted_at(kind, None)
}

/// The same, over the existing directory `place`.
pub(crate) fn mounted_at(kind: &str, place: Option<&Path>) -> Option<Mounted> {
    if !is_root() {
        skipped(&format!("a fresh {kind} needs root"));
        return None;
    }
    let directory = tempfile::Builder::new().prefix("isofold-mount-").tempdir_in(roomy()).expect("a directory");
    let place = place.map_or_else(|| directory.path().join("mount"), Path::to_owned);
    fs::create_dir_all(&place).expect("a mount point");
    let mounted = if kind == "tmpfs" {
        run("mount", &["-t".as_ref(), "tmpfs".as_ref(), "tmpfs".as_ref(), place.as_os_str()])
    } else {
        let image = directory.path().join("image");
        fs::File::create(&image).and_then(|file| file.set_len(2 << 30)).expect("an image");
        run(&format!("mkfs.{kind}"), &["-q".as_ref(), image.as_os_str()])
            .and_then(|()| run("mount", &["-o".as_ref(), "loop".as_ref(), image.as_os_str(), place.as_os_str()]))
    };
    match mounted {
        Ok(()) => Some(Mounted { place, _directory: directory }),
        Err(why) => {
            skipped(&format!("no fresh {kind} can be mounted here: {why}"));
            None
        }
    }
}

/// A sandbox on a fresh file system.
pub(crate) fn sandbox_on(kind: &str) -> Option<(Mounted, Sandbox)> {
    let disk = mounted(kind)?;
    let sandbox = Sandbox::inside(disk.path());
    Some((disk, sandbox))
}

/// An isolation under strace.
pub(crate) struct Traced {
    pub(crate) run: Run,
    pub(crate) log: String,
}

impl Sandbox {
    /// Runs an isolation, which has to succeed, under strace; `None`, said on stderr, without strace.
    pub(crate) fn traced(&self, options: &[&str], parent: &Path, child: &Path) -> Option<Traced> {
        if Command::new("strace").arg("-V").output().is_err() {
            skipped("strace is not installed");
            return None;
        }
        let log = self.path("strace.log");
        let mut command = self.command("strace");
        command.args(["-f", "-qq"]).args(options).arg("-o").arg(&log).arg(self.program().get_program());
        command.args(["isolate", "--detach", "--parent"]).arg(parent).arg("--child").arg(child);
        let run = Run::of(&command.output().expect("strace runs")).expect("isolated", 0);
        Some(Traced { run, log: fs::read_to_string(&log).expect("a log") })
    }
}

/// Memory where there is plenty of it: images there are fast and gone with the machine.
fn roomy() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let free = rustix::fs::statvfs(memory).map_or(0, |s| s.f_bavail.saturating_mul(s.f_frsize));
    if free > 4 << 30 { memory.to_owned() } else { std::env::temp_dir() }
}

fn run(program: &str, args: &[&std::ffi::OsStr]) -> Result<(), String> {
    match Command::new(program).args(args).env("LC_ALL", "C").output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("{program}: {error}")),
    }
}
