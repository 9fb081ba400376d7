//! Loop devices for tests, where this host permits them.

#![allow(clippy::print_stderr)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A loop device that is detached when it is dropped.
pub struct Loop(pub PathBuf);

impl Loop {
    /// A device over this file. `None`, with the reason printed, where loop devices cannot be made.
    pub fn over(file: &Path, flags: &[&str]) -> Option<Loop> {
        match Command::new("losetup").args(["--find", "--show"]).args(flags).arg(file).output() {
            Ok(output) if output.status.success() => {
                Some(Loop(PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim())))
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
        Command::new("losetup").arg("--detach").arg(&self.0).status().expect("losetup");
    }
}

/// Two partitions of a loop device, which are removed when they are dropped.
pub struct Partitions {
    disk: PathBuf,
    pub nodes: [PathBuf; 2],
}

impl Partitions {
    /// Two partitions of so many bytes each. `None`, with the reason printed, where a loop device can have none.
    pub fn of(disk: &Loop, bytes: u64) -> Option<Partitions> {
        let Loop(disk) = disk;
        let (name, sectors) = (disk.display(), bytes / 512);
        let table = format!(
            "printf ',{sectors}\\n,{sectors}\\n' | sfdisk -q --no-reread {name}; partx --update {name}"
        );
        let made = Command::new("sh").args(["-c", &table]).output();
        let nodes = [1, 2].map(|number| PathBuf::from(format!("{name}p{number}")));
        let partitions = Partitions { disk: disk.clone(), nodes };
        if partitions.nodes.iter().all(|node| std::fs::File::open(node).is_ok()) {
            return Some(partitions);
        }
        eprintln!("skipped: no partition of a loop device: {made:?}");
        None
    }
}

impl Drop for Partitions {
    fn drop(&mut self) {
        // There may be none.
        let _ = Command::new("partx").arg("--delete").arg(&self.disk).output();
    }
}
