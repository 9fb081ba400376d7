//! Finds the QEMU process that uses a disk. QEMU itself locks its images; this finds the holder of the lock.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A process that uses a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) pid: u32,
    /// Name of the VM that it runs, from libvirt or from its caller.
    pub(super) vm: Option<String>,
}

impl std::fmt::Display for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.vm {
            Some(vm) => write!(f, "the VM {vm} (process {})", self.pid),
            None => write!(f, "the QEMU process {}", self.pid),
        }
    }
}

/// A QEMU process whose use of `path` conflicts with ours: any that has it open if we write, one that writes
/// if we only read. `own`: our own VM, which a new launcher takes over. Processes that this user may not
/// inspect are skipped.
pub(super) fn in_the_way(path: &Path, we_write: bool, own: &str) -> Option<User> {
    let wanted = identity(path)?;
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let process = entry.path();
        let is_qemu =
            fs::read_to_string(process.join("comm")).is_ok_and(|comm| comm.starts_with("qemu-system"));
        if !is_qemu || !has_open(&process, wanted, we_write) {
            continue;
        }
        let vm = vm_of(&process);
        if vm.as_deref() != Some(own) {
            return Some(User { pid, vm });
        }
    }
    None
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = fs::metadata(path).ok()?;
    // Two device nodes of one block device are one disk.
    Some(if found.file_type().is_block_device() {
        (u64::MAX, found.rdev())
    } else {
        (found.dev(), found.ino())
    })
}

fn has_open(process: &Path, wanted: (u64, u64), any: bool) -> bool {
    let Ok(entries) = fs::read_dir(process.join("fd")) else { return false };
    entries
        .flatten()
        .any(|entry| identity(&entry.path()) == Some(wanted) && (any || writes(process, &entry.path())))
}

fn writes(process: &Path, fd: &Path) -> bool {
    let info: PathBuf = process.join("fdinfo").join(fd.file_name().unwrap_or_default());
    let Ok(text) = fs::read_to_string(info) else { return false };
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags & 0o3 != 0)
}

/// Name of the VM in the argument `-name guest=NAME,…`.
fn vm_of(process: &Path) -> Option<String> {
    let line = fs::read(process.join("cmdline")).ok()?;
    let text = String::from_utf8_lossy(&line);
    let mut words = text.split('\0').skip_while(|word| *word != "-name").skip(1);
    let first = words.next()?.split(',').next()?;
    Some(first.strip_prefix("guest=").unwrap_or(first).to_owned())
}
