//! A process of a pod, held: should its number be given to another, nothing here leads to that one.

use super::beneath::Folder;
use crate::node::error::{Error, Result};
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// The longest list of groups that is read.
const LONGEST: u64 = 64 << 10;

/// A process of a pod.
#[derive(Debug)]
pub struct Process {
    /// `/proc/PID`, which dies with the process.
    folder: OwnedFd,
    shown: PathBuf,
}

impl Process {
    /// A process, whosever it is.
    pub fn of(process: u32) -> Result<Process> {
        let shown = PathBuf::from(format!("/proc/{process}"));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(CWD, &shown, flags, Mode::empty())
            .map_err(|e| Error::io(format!("the process {process} is not there any more"), e))?;
        Ok(Process { folder, shown })
    }

    /// A process that belongs to a pod, as the kernel's groups have it; a number that was given to another is refused.
    pub fn of_pod(process: u32, uid: &str) -> Result<Process> {
        let held = Process::of(process)?;
        let mut groups = String::new();
        let read = held.open("cgroup", OFlags::RDONLY).and_then(|fd| {
            let read = File::from(fd).take(LONGEST).read_to_string(&mut groups);
            read.map_err(|e| Error::io(format!("cannot see whose the process {process} is"), e))
        });
        read?;
        match is_of(&groups, uid) {
            true => Ok(held),
            false => Err(Error::failed(format!("the process {process} does not belong to the pod {uid}"))),
        }
    }

    /// The root that it sees, and nothing of what is mounted in it.
    pub fn image(&self) -> Result<Folder> {
        let fd = self.open("root", OFlags::PATH | OFlags::DIRECTORY)?;
        Ok(Folder::unmixed(fd, self.shown.join("root")))
    }

    /// The mounts that it sees.
    pub fn mounts(&self) -> Result<OwnedFd> {
        self.open("ns/mnt", OFlags::RDONLY)
    }

    fn open(&self, name: &str, flags: OFlags) -> Result<OwnedFd> {
        openat(&self.folder, name, flags | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| Error::io(format!("cannot open {}", self.shown.join(name).display()), e))
    }
}

/// These groups are of a pod. Their names hold its uid, with `_` for `-` where systemd makes them.
fn is_of(groups: &str, uid: &str) -> bool {
    let other = uid.replace('-', "_");
    let names = [format!("pod{uid}"), format!("pod{other}")];
    let part = |part: &str| {
        let part = part.strip_suffix(".slice").unwrap_or(part);
        names.iter().any(|name| part == name || part.ends_with(&format!("-{name}")))
    };
    groups.lines().any(|line| line.splitn(3, ':').nth(2).is_some_and(|path| path.split('/').any(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_a_process_is_the_kernels_groups_say() {
        let uid = "5d307ca9-b3ef-428c-8861-06e72d69f223";
        let of = |groups: &str| is_of(groups, uid);
        assert!(of("4:memory:/node1/kubepods/burstable/pod5d307ca9-b3ef-428c-8861-06e72d69f223/0123abcd\n"));
        assert!(of(
            "0::/../../kubepods-burstable-pod5d307ca9_b3ef_428c_8861_06e72d69f223.slice/cri-containerd-0.scope"
        ));
        assert!(!of("0::/user.slice/5d307ca9-b3ef-428c-8861-06e72d69f223"));
        assert!(!of("0::/kubepods/pod5d307ca9-b3ef-428c-8861-06e72d69f2234/x"));
        // A name of a container's own choosing must not pass for it.
        assert!(!of("1:name=/pod5d307ca9-b3ef-428c-8861-06e72d69f223:/other"));
        assert!(!of(""));
    }

    #[test]
    fn our_own_process_is_of_no_pod() {
        let said = Process::of_pod(std::process::id(), "5d307ca9-b3ef-428c-8861-06e72d69f223").unwrap_err();
        assert!(said.to_string().contains("does not belong"), "{said}");
        assert!(Process::of(std::process::id()).unwrap().mounts().is_ok());
    }
}
