//! Bind mounts of a file from one container into another or the same. They are visible in the target's mount
//! namespace only.
//!
//! ```text
//!  a thread of its own ─► into the mounts of SOURCE ─► a copy of the mount of its file, which is nowhere yet
//!                      ─► into the mounts of TARGET ─► the copy is put over its file
//! ```
//!
//! The node's mount namespace is unchanged, so nothing is left on the node: the mount ends with the last
//! process of the target, whether or not virt-handler still runs. Both files are held before; no path is
//! resolved twice. The mounted file is the held one, even if its path has changed since: a tenant that can
//! change the source folder cannot change which file the launcher and its QEMU open.
#![allow(unsafe_code)] // mount_setattr and unshare, which no crate here has as safe calls
#![expect(clippy::disallowed_methods, reason = "all of it is work of virt_handler::blocking")]

use super::confined::{Access, PathHandle};
use super::process::Process;
use crate::error::{Error, Result};
use rustix::fs::fstat;
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, move_mount, open_tree};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::thread;

/// Mounts the file `source`, from the container of `from`, over the file `target` in the container of `into`.
pub fn show(
    source: &PathHandle,
    from: &Process,
    target: &PathHandle,
    into: &Process,
    access: Access,
) -> Result<()> {
    bind_mount(source, from, target, into, &Attributes::of_file(access))
}

/// Mounts a device node of virt-handler in the same way. The container's cgroup decides which devices it may
/// open.
pub fn show_device(source: &PathHandle, target: &PathHandle, into: &Process) -> Result<()> {
    bind_mount(source, &Process::of(std::process::id())?, target, into, &Attributes::of_device())
}

fn bind_mount(
    source: &PathHandle,
    from: &Process,
    target: &PathHandle,
    into: &Process,
    attributes: &Attributes,
) -> Result<()> {
    let (from, into) = (from.mounts()?, into.mounts()?);
    let cannot = |e: Errno| {
        let what = format!(
            "cannot mount {} on {}",
            source.display_path().display(),
            target.display_path().display()
        );
        Error::io(what, e)
    };
    let work = || {
        // SAFETY: only the root and the working directory become unshared, and this thread resolves no path.
        unsafe { unshare_unsafe(UnshareFlags::FS) }?;
        move_into_link_name_space(from.as_fd(), Some(LinkNameSpaceType::Mount))?;
        let mount = copy(source, attributes)?;
        move_into_link_name_space(into.as_fd(), Some(LinkNameSpaceType::Mount))?;
        let both = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(&mount, "", target.fd(), "", both)
    };
    // A thread that has entered a container does nothing else afterwards.
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("pod-mounts".into()).spawn_scoped(scope, work);
        let thread = thread.map_err(|e| Error::io("cannot start a thread for the pod's mounts", e))?;
        let done =
            thread.join().map_err(|_| Error::failed("bug in virt-handler: panic in a pod's mounts"))?;
        done.map_err(cannot)
    })
}

/// Detached mount of a held device node that permits devices, even if its own mount does not (`nodev`). The
/// node must be in the mount namespace of this process.
pub(super) fn permitting_devices(node: &PathHandle) -> Result<OwnedFd> {
    copy(node, &Attributes::of_device())
        .map_err(|e| Error::io(format!("cannot reach the device {}", node.display_path().display()), e))
}

/// Detached copy of the mount of a held entry.
fn copy(source: &PathHandle, attributes: &Attributes) -> rustix::io::Result<OwnedFd> {
    let copy =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let mount = open_tree(source.fd(), "", copy)?;
    narrow(&mount, attributes)?;
    Ok(mount)
}

/// Arguments of `mount_setattr`, in the kernel's layout.
#[repr(C)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    users: u64,
}

/// True if the process is in our mount namespace. Then it is not in a container, and a mount for it would be
/// visible everywhere.
pub fn are_ours(process: &Process) -> Result<bool> {
    let cannot = |e| Error::io("cannot compare the mount namespace of a pod's process", e);
    let number = |mounts: &OwnedFd| fstat(mounts).map(|found| (found.st_dev, found.st_ino)).map_err(cannot);
    Ok(number(&process.mounts()?)? == number(&Process::of(std::process::id())?.mounts()?)?)
}

impl Attributes {
    const RDONLY: u64 = 0x1;
    const NOSUID: u64 = 0x2;
    const NODEV: u64 = 0x4;
    const NOEXEC: u64 = 0x8;

    /// Attributes of a file: no execution, no devices, and read-only unless it may be written.
    fn of_file(access: Access) -> Attributes {
        let only_read = if access == Access::Read { Attributes::RDONLY } else { 0 };
        let set = only_read | Attributes::NOSUID | Attributes::NODEV | Attributes::NOEXEC;
        Attributes { set, clear: 0, propagation: 0, users: 0 }
    }

    /// Attributes of a device, even if the file system of its node is mounted without devices.
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
