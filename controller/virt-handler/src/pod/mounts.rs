//! A file that one container sees, shown in another or in the same: on no list of mounts but that one's.
//!
//! ```text
//!  a thread of its own ─► into the mounts of SOURCE ─► a copy of the mount of its file, which is nowhere yet
//!                      ─► into the mounts of TARGET ─► the copy is put over its file
//! ```
//!
//! The node itself sees nothing of it, so nothing is left on it: the mount ends with the last process of the target,
//! whether or not anybody of us still runs. Both files are held before; no name is looked up twice. What is shown is the
//! file that was held, also when its name leads to another since: whoever can change the folder it came from cannot
//! change what the launcher and its QEMU open.
#![allow(unsafe_code)] // mount_setattr and unshare, which no crate here has as safe calls
#![expect(clippy::disallowed_methods, reason = "all of it is work of virt_handler::blocking")]

use super::beneath::{Access, Held};
use super::process::Process;
use crate::error::{Error, Result};
use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::thread;

/// Shows the file `source`, of a container that `from` is in, over the file `target` in the container that `into` is in.
pub fn show(source: &Held, from: &Process, target: &Held, into: &Process, access: Access) -> Result<()> {
    put(source, from, target, into, &Attributes::of_file(access))
}

/// Shows the node of a device that we have, in the same way. Which devices the container may open, its group says.
pub fn show_device(source: &Held, target: &Held, into: &Process) -> Result<()> {
    put(source, &Process::of(std::process::id())?, target, into, &Attributes::of_device())
}

fn put(source: &Held, from: &Process, target: &Held, into: &Process, attributes: &Attributes) -> Result<()> {
    let (from, into) = (from.mounts()?, into.mounts()?);
    let cannot = |e: Errno| {
        let what = format!("cannot show {} as {}", source.shown().display(), target.shown().display());
        Error::io(what, e)
    };
    let work = || {
        // SAFETY: what is shared no more is the root and the folder that this thread works in, and it looks up no name.
        unsafe { unshare_unsafe(UnshareFlags::FS) }?;
        move_into_link_name_space(from.as_fd(), Some(LinkNameSpaceType::Mount))?;
        let mount = copy(source, attributes)?;
        move_into_link_name_space(into.as_fd(), Some(LinkNameSpaceType::Mount))?;
        let both = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(&mount, "", target.fd(), "", both)
    };
    // A thread that went into a container never does anything else.
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("pod-mounts".into()).spawn_scoped(scope, work);
        let thread = thread.map_err(|e| Error::io("cannot begin a thread for the pod's mounts", e))?;
        let done = thread.join().map_err(|_| Error::failed("virt-handler has a fault in a pod's mounts"))?;
        done.map_err(cannot)
    })
}

/// What is held, once more in a mount that is nowhere and permits devices, also where its own does not (`nodev`). It must be in
/// the mounts of this process.
pub(super) fn permitting_devices(node: &Held) -> Result<OwnedFd> {
    copy(node, &Attributes::of_device())
        .map_err(|e| Error::io(format!("cannot reach the device {}", node.shown().display()), e))
}

/// A copy of the mount of what is held, which is nowhere yet.
fn copy(source: &Held, attributes: &Attributes) -> rustix::io::Result<OwnedFd> {
    let copy =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let mount = open_tree(source.fd(), "", copy)?;
    narrow(&mount, attributes)?;
    Ok(mount)
}

/// What `mount_setattr` is told, as the kernel has it.
#[repr(C)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    users: u64,
}

/// The process has the mounts of this one: it is in no container, and what it is shown everybody would be.
pub fn are_ours(process: &Process) -> Result<bool> {
    let cannot = |e| Error::io("cannot tell whose mounts a pod's process sees", e);
    let number = |mounts: &OwnedFd| fstat(mounts).map(|found| (found.st_dev, found.st_ino)).map_err(cannot);
    Ok(number(&process.mounts()?)? == number(&Process::of(std::process::id())?.mounts()?)?)
}

impl Attributes {
    const RDONLY: u64 = 0x1;
    const NOSUID: u64 = 0x2;
    const NODEV: u64 = 0x4;
    const NOEXEC: u64 = 0x8;

    /// Neither executed nor taken for a device, and not written unless it may be.
    fn of_file(access: Access) -> Attributes {
        let only_read = if access == Access::Read { Attributes::RDONLY } else { 0 };
        let set = only_read | Attributes::NOSUID | Attributes::NODEV | Attributes::NOEXEC;
        Attributes { set, clear: 0, propagation: 0, users: 0 }
    }

    /// A device, also where the file system that its node lies on is mounted without devices.
    fn of_device() -> Attributes {
        let set = Attributes::NOSUID | Attributes::NOEXEC;
        Attributes { set, clear: Attributes::NODEV, propagation: 0, users: 0 }
    }
}

fn narrow(mount: &OwnedFd, attributes: &Attributes) -> rustix::io::Result<()> {
    // SAFETY: the kernel reads as many bytes as it is told, which is all of them; the name is empty and ends.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            std::ptr::from_ref(attributes),
            size_of::<Attributes>(),
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
    }
}

#[cfg(test)]
#[path = "mounts_tests.rs"]
mod tests;
