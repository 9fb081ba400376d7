//! Loop devices for tests, where this host permits them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A loop device that is detached when it is dropped.
pub struct Loop(pub PathBuf);

impl Loop {
    /// A device over this file. `None`, with the reason printed, where loop devices cannot be made.
    pub fn over(file: &Path, flags: &[&str]) -> Option<Loop> {
        match Command::new("losetup").args(["--find", "--show"]).args(flags).arg(file).output() {
            Ok(output) if output.status.success() => {
                Some(Loop(PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())))
            }
            why => {
                eprintln!("skipped: no loop device: {why:?}");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        Command::new("losetup").arg("--detach").arg(&self.0).status().unwrap();
    }
}
