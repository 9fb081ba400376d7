//! QEMU's locks on a disk, checked from the node.
//!
//! QEMU locks bytes of each image that it opens (open file description locks) as long as it lives. The locks
//! survive the end of virt-launcher or virt-handler, and disappear with QEMU. A lock belongs to the inode. A
//! file of a volume has the same inode for all containers of a node. A block device has one inode for each of
//! its nodes, so all launchers on this node get the same node of the device
//! ([`crate::pod::PodFolder::block_device`]).
//!
//! ```text
//!  byte 101   locked by each QEMU that writes
//!  byte 201   locked by each QEMU that permits no other to write (no `shareable`)
//! ```
//!
//! QEMU itself refuses a disk with conflicting locks, but then its VMI has failed. So virt-handler checks
//! first, and the VMI waits.
#![allow(unsafe_code)] // F_OFD_GETLK, which rustix does not have

use crate::error::{Error, Result};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;

/// Locked by each QEMU that writes.
const WRITES: libc::off_t = 101;
/// Locked by each QEMU that permits no other to write.
const FORBIDS_WRITES: libc::off_t = 201;

/// Use of a disk by a VMI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiskAccess {
    pub(super) writes: bool,
    pub(super) is_shareable: bool,
}

/// Refuses a disk for now if a QEMU on this node uses it in a way that conflicts with `access`.
pub(super) fn refuse_in_use(file: &File, shown: &Path, access: DiskAccess) -> Result<()> {
    let shown = shown.display();
    let is_locked =
        |byte| is_locked(file, byte).map_err(|e| Error::io(format!("cannot read the locks of {shown}"), e));
    let what = match access {
        DiskAccess { is_shareable: false, .. } if is_locked(WRITES)? => "writes to it",
        DiskAccess { writes: true, .. } if is_locked(FORBIDS_WRITES)? => {
            "has it and permits no other VMI to write to it"
        }
        _ => return Ok(()),
    };
    Err(Error::failed(format!(
        "{shown} is the disk of another VMI on this node, whose QEMU {what}: this VMI starts when that one has ended; disks that \
         guests share must have shareable: true in both VMIs"
    )))
}

/// True if another open file description has locked the byte.
fn is_locked(file: &File, byte: libc::off_t) -> io::Result<bool> {
    let mut lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open, and the kernel reads and writes one `flock`.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut lock) };
    match done {
        0 => Ok(lock.l_type != libc::F_UNLCK as libc::c_short),
        // A file system without locks: QEMU cannot lock there either.
        _ => match io::Error::last_os_error() {
            e if e.raw_os_error() == Some(libc::ENOSYS) || e.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                Ok(false)
            }
            e => Err(e),
        },
    }
}
