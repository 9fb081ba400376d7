//! Fake container for tests: a process with its own root and mount namespace.

use super::{Folder, Process};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A process with a folder as its root.
pub(crate) struct Container {
    pub(crate) place: tempfile::TempDir,
    child: Child,
}

impl Container {
    pub(crate) fn new(more: &str) -> Container {
        let place = tempfile::tempdir().unwrap();
        // Copied by another process: a file that this process has open for writing is inherited by child
        // processes that are forked meanwhile, and cannot be executed (ETXTBSY).
        let copied = Command::new("cp").arg("/bin/busybox").arg(place.path()).status().unwrap();
        assert!(copied.success());
        fs::create_dir(place.path().join("disks")).unwrap();
        let root = format!("--root={}", place.path().display());
        let script = format!("{more} echo ready; exec /busybox sleep 600");
        let child = Command::new("unshare")
            .args(["--mount", &root, "/busybox", "sh", "-c", &script])
            .stdout(Stdio::piped())
            .spawn();
        let mut container = Container { place, child: child.unwrap() };
        let mut line = String::new();
        let out = container.child.stdout.as_mut().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
        assert_eq!(line, "ready\n");
        container
    }

    pub(crate) fn process(&self) -> Process {
        Process::of(self.child.id()).unwrap()
    }

    pub(crate) fn root(&self) -> Folder {
        self.process().root().unwrap()
    }

    pub(crate) fn run(&self, script: &str) -> String {
        let id = self.child.id().to_string();
        let words = ["--mount", "--root", "-t", &id, "/busybox", "sh", "-c", script];
        let done = Command::new("nsenter").args(words).output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr))
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        drop((self.child.kill(), self.child.wait()));
    }
}

/// Mount namespaces need root.
pub(crate) fn may_mount() -> bool {
    rustix::process::geteuid().is_root() && Path::new("/bin/busybox").exists()
}
