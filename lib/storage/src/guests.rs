//! Finds the QEMU process that uses a disk, by its open files. QEMU itself locks its images; this finds the name of its VM.

use crate::file_id::Location;
use crate::lock_list::of_open_file;
use crate::parts::Storage;
use crate::users::{Access, Name, forbids_sharing, permits_writers};
use std::fs;
use std::path::Path;

/// Beginnings of the names of QEMU's programs, of which the kernel tells 15 bytes.
const PROGRAMS: [&str; 2] = ["qemu-system", "qemu-kvm"];

/// A process that uses a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    pub pid: u32,
    /// Name of the VM that it runs, from libvirt or from its caller.
    pub vm: Option<String>,
    /// The other name by which it has the disk.
    by: Option<String>,
}

impl std::fmt::Display for Guest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.vm {
            Some(vm) => write!(f, "the VM {} (process {})", shown(vm), self.pid)?,
            None => write!(f, "the QEMU process {}", self.pid)?,
        }
        match &self.by {
            Some(by) => write!(f, " as {by}"),
            None => Ok(()),
        }
    }
}

/// A VM by its name in libvirt, NAMESPACE_NAME: the VMs of a computer without a cluster are in the namespace `default`, which
/// their user has not named. Programs other than ours may give any name.
fn shown(vm: &str) -> &str {
    vm.strip_prefix("default_").unwrap_or(vm)
}

impl Storage {
    /// A QEMU process whose use of these bytes conflicts with ours, by whichever name: any that has them open if we write, one
    /// that writes if we only read. For a guest that writes, one that reads and permits writers is left out; for one that shares
    /// its disk, each that permits writers. `own`: our own VM, which a new launcher takes over. Processes that this user may not inspect are skipped.
    pub fn guest(&self, access: Access, own: &str) -> Option<Guest> {
        let names = self.names();
        for entry in fs::read_dir("/proc").ok()?.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let process = entry.path();
            if !is_qemu(pid) {
                continue;
            }
            let Some(name) = opened(&process, &names, access) else { continue };
            let vm = vm_of(&process);
            if vm.as_deref() != Some(own) {
                return Some(Guest { pid, vm, by: name.other() });
            }
        }
        None
    }
}

/// True if the process with this ID has the name of a QEMU that runs VMs, as its distribution calls it.
pub fn is_qemu(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| is_qemu_program(&name))
}

/// The program of a wrapper may begin with a dot.
fn is_qemu_program(name: &str) -> bool {
    let name = name.strip_prefix('.').unwrap_or(name);
    PROGRAMS.iter().any(|program| name.starts_with(program))
}

/// The name by which a process has bytes open.
fn opened<'a>(process: &Path, names: &'a [Name], access: Access) -> Option<&'a Name> {
    let files = fs::read_dir(process.join("fd")).ok()?.flatten();
    files.map(|entry| entry.path()).find_map(|file| {
        // Two device nodes of one block device are one disk.
        let location = Location::of(&fs::metadata(&file).ok()?);
        let name = names.iter().find(|name| name.location == location)?;
        let info = process.join("fdinfo").join(file.file_name()?);
        is_in_the_way(access, &fs::read_to_string(info).unwrap_or_default()).then_some(name)
    })
}

/// `info`: the text about the open file in /proc. An unknown use is in the way of a writer.
fn is_in_the_way(access: Access, info: &str) -> bool {
    match access {
        Access::Reads => writes(info),
        Access::GuestWrites => writes(info) || !permits_writers(&of_open_file(info)),
        // Where a file system has no locks, a guest that shares the disk has none either.
        Access::SharedGuestWrites => forbids_sharing(&of_open_file(info)),
        Access::Writes => true,
    }
}

fn writes(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    #[test]
    fn qemu_has_the_name_that_its_distribution_gives_it() {
        for name in ["qemu-system-x86", "qemu-kvm", ".qemu-system-x8", ".qemu-kvm"] {
            assert!(is_qemu_program(name), "{name}");
        }
        for name in ["qemu-img", "kvm", "..qemu-kvm", "", "."] {
            assert!(!is_qemu_program(name), "{name}");
        }
    }

    #[test]
    fn a_vm_is_told_by_the_name_that_its_user_gave_it() {
        for (vm, said) in [
            ("default_web", "the VM web (process 7)"),
            ("blue_web", "the VM blue_web (process 7)"),
            ("win 11", "the VM win 11 (process 7)"),
        ] {
            assert_eq!(Guest { pid: 7, vm: Some(vm.into()), by: None }.to_string(), said);
        }
    }

    #[test]
    fn a_guest_is_found_by_each_name_of_qemu() {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("disk");
        fs::write(&disk, "disk").unwrap();
        for (name, is_guest) in
            [("qemu-system-any", true), ("qemu-kvm", true), (".qemu-kvm", true), ("other", false)]
        {
            let program = folder.path().join(name);
            symlink("/bin/sleep", &program).unwrap();
            let mut process =
                Command::new(&program).arg("60").stdin(fs::File::open(&disk).unwrap()).spawn().unwrap();
            // It gets its name a moment after it was started.
            let comm = format!("/proc/{}/comm", process.id());
            while fs::read_to_string(&comm).unwrap().trim_end() != name {
                std::thread::yield_now();
            }
            let found = Storage::of_path(&disk).unwrap().guest(Access::Writes, "another");
            process.kill().unwrap();
            process.wait().unwrap();
            assert_eq!(found.map(|guest| guest.pid), is_guest.then_some(process.id()), "{name}");
        }
    }
}
