//! A stand-in for QEMU, for tests.

use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A program with the name of QEMU that runs until it is ended.
pub(crate) struct Qemu(Child);

impl Qemu {
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// `guest`: name of the VM that it runs.
    pub(crate) fn start(folder: &Path, guest: &str) -> Qemu {
        let program = folder.join("qemu-system-none");
        // Written by `cp`: a child that another test forks would keep a copy of ours open, and busy.
        assert!(Command::new("cp").arg("/bin/sh").arg(&program).status().unwrap().success());
        let mut command = Command::new(&program);
        let name = format!("guest={guest},debug-threads=on");
        command.args(["-c", "read line", "-name", &name]);
        let qemu = Qemu(command.stdin(Stdio::piped()).spawn().unwrap());
        // A new program has its arguments a moment after its parent goes on.
        let arguments = || std::fs::read_to_string(format!("/proc/{}/cmdline", qemu.id())).unwrap();
        while !arguments().contains(&name) {
            std::thread::yield_now();
        }
        qemu
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}
