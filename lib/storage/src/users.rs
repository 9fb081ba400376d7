//! The users of the bytes of a storage, by whichever name they have it: QEMU locks the file that it opened, and that lock is
//! none of the loop device over the file.
//!
//! ```text
//!  names of a storage                                        users of a name
//!   below   its own parts: disk, backing file                 locks       /proc/locks, by the inode of the file or node
//!   itself                                                    mounts      mountinfo        ┐ of the device itself and of
//!   above   partitions, loop devices, maps, and so on;        swap        /proc/swaps      ├ what lies on it, for a writer
//!           those that share bytes with it                    RAID        holders in /sys  ┘
//! ```
//!
//! **Only loop devices are opened,** for reading, to know their files ([`crate::loop_devices`]). All else is read from the lists of
//! the kernel. A program that may not open them, as a confined one, knows their files by the paths that are listed. So it may
//! ask, too, and no question disturbs a user.
//!
//! | access | in its way |
//! |---|---|
//! | a reader | a QEMU that writes (its lock of the write or resize permission); a program that has locked the disk for itself with `flock` |
//! | a guest that shares what it writes | what is in the way of a guest that writes, but for a QEMU that writes and permits other programs to write |
//! | a guest that writes | what is in the way of a reader; a QEMU that permits no other program to write; a lock of bytes that QEMU does not lock; a use by the kernel: a mount, swap space, RAID, a loop device over the file |
//! | another writer | what is in the way of a guest that writes; every other lock of a range of bytes, as that of a QEMU that only reads |
//!
//! A lock that goes within half a second does not count, nor one of this process or of an ancestor, as the program `flock` is
//! ([`crate::processes`]). A loop device over a device, a map of the device mapper, and an array that waits for its first
//! write (as udev starts those that guests have made), write nothing by themselves: their own users count. Not found are: the
//! lock of a device's node in another /dev (a container's own), a `flock` of a process that this one cannot see (another PID
//! namespace), a loop device that may not be opened here and whose file has no path here any more, and users on another host. On
//! btrfs a file and its snapshot in another subvolume may have one number in the list of locks: below or above a device, one
//! counts as the other.

use crate::FileId;
use crate::file_id::Location;
use crate::file_users::{LINGERS, attached_loop_device};
use crate::kernel_lists::{self, belongs, is_mapped, mounts_and_swap, upper_devices, with_partitions};
use crate::lock_list::{self, HeldLock, Inode};
use crate::loop_devices::{self, Backing};
use crate::parts::{Part, Storage};
use rustix::fs::{major, minor};
use std::fs;
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::time::Instant;

/// Offsets of QEMU's locks on an image that it writes to, or may resize: each permission has a byte from 100
/// on; write is the second, resize the fourth.
pub const QEMU_WRITES: [u64; 2] = [101, 103];

/// Offset of the lock of a QEMU that permits no other program to write.
const QEMU_FORBIDS_WRITES: u64 = 201;
/// Offsets of all locks of QEMU: the permissions that it uses, and those that it does not share.
const QEMU_LOCKS: [RangeInclusive<u64>; 2] = [100..=104, 200..=204];

/// The use of a disk that is intended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Reads,
    /// A guest that writes. As for QEMU, a QEMU that reads and permits writers (`shareable`) is not in its way.
    GuestWrites,
    /// A guest that writes to a disk that it shares with other guests. A QEMU that permits writers is not in its way.
    SharedGuestWrites,
    /// A program that writes without QEMU's locks.
    Writes,
}

/// A name of the bytes of a storage.
#[derive(Debug, Clone)]
pub(crate) struct Name {
    pub(crate) location: Location,
    relation: Relation,
    shown: String,
    inodes: Vec<Inode>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Itself,
    Below,
    Above,
    /// A device that is neither below nor above, and has bytes in common: a second loop device over the same bytes of a file.
    Beside,
}

impl Storage {
    /// A use that is in the way of this access, by another program or by the kernel, as a sentence: "a running QEMU writes to it".
    /// "It" is this storage. `None` if no use is in the way. A lock is waited for, up to half a second, since it may go.
    pub fn user(&self, access: Access) -> Option<String> {
        let names = self.names();
        if access != Access::Reads
            && let Some(user) = names.iter().find_map(Name::used_by_kernel)
        {
            return Some(user);
        }
        let begun = Instant::now();
        loop {
            let user = locked(&names, &lock_list::read(), access)?;
            if begun.elapsed() > LINGERS {
                return Some(user);
            }
            std::thread::sleep(LINGERS / 50);
        }
    }

    /// All names under which bytes of this storage can be read and written here.
    pub(crate) fn names(&self) -> Vec<Name> {
        let mut names: Vec<Name> = self.own_parts().map(|part| self.own_name(part)).collect();
        let mut open: Vec<Location> = names.iter().map(|name| name.location).collect();
        let loops = loop_devices::attached();
        while let Some(location) = open.pop() {
            for rdev in above(location, &loops) {
                let upper = Location::Device(rdev);
                if names.iter().any(|name| name.location == upper) {
                    continue;
                }
                let storage = Storage::of_device(rdev);
                if !self.shares_bytes(&storage) {
                    continue;
                }
                let is_above =
                    self.own_parts().filter(|part| part.is_itself).any(|part| storage.has(part.location));
                let relation = if is_above { Relation::Above } else { Relation::Beside };
                let (shown, inodes) = (kernel_lists::name(rdev), node_of(rdev).into_iter().collect());
                names.push(Name { location: upper, relation, shown, inodes });
                open.push(upper);
            }
        }
        names
    }

    fn own_name(&self, part: &Part) -> Name {
        let relation = if part.is_itself { Relation::Itself } else { Relation::Below };
        let mut inodes: Vec<Inode> = match part.location {
            Location::Device(rdev) => node_of(rdev).into_iter().collect(),
            Location::File(file) => vec![listed(file, part.mount)],
        };
        // Where a file system has several numbers, two files may be one in the list. QEMU asks for its own file.
        inodes.retain(|inode| !part.is_itself || part.location.is_listed_as(*inode));
        if let (Relation::Itself, Some(node)) = (relation, self.node) {
            let node = listed(node, None);
            inodes.extend((!inodes.contains(&node)).then_some(node));
        }
        Name { location: part.location, relation, shown: part.name.clone(), inodes }
    }

    fn has(&self, location: Location) -> bool {
        self.own_parts().any(|part| part.location == location)
    }
}

impl Name {
    /// The use of this name by the kernel itself, as a sentence: a device is mounted, swap space or part of a RAID, or a loop
    /// device lies over a file. Storage below is left out: the device below a file is mounted in any case, and the file
    /// below a loop device has that device over it.
    fn used_by_kernel(&self) -> Option<String> {
        match (self.location, self.relation) {
            (_, Relation::Below) => None,
            (Location::File(file), _) => attached_loop_device(file),
            (Location::Device(rdev), _) => {
                let raid = upper_devices(rdev).into_iter().find(|&upper| !is_mapped(upper));
                mounts_and_swap(rdev).into_iter().next().or_else(|| raid.map(|upper| belongs(rdev, upper)))
            }
        }
    }

    /// "it", or the other name.
    fn described(&self) -> String {
        self.other().unwrap_or_else(|| "it".to_owned())
    }

    /// "/dev/loop0, which lies on it"; `None` for the storage itself.
    pub(crate) fn other(&self) -> Option<String> {
        let place = match self.relation {
            Relation::Itself => return None,
            Relation::Below => "on which it lies",
            Relation::Above => "which lies on it",
            Relation::Beside => "which has bytes in common with it",
        };
        Some(format!("{}, {place}", self.shown))
    }
}

impl Location {
    /// True if the numbers are those that `stat` reports.
    fn is_listed_as(self, inode: Inode) -> bool {
        match self {
            Location::Device(_) => true,
            Location::File(file) => inode == listed(file, None),
        }
    }
}

/// A user of one of these names by its lock, as a sentence.
fn locked(names: &[Name], locks: &[HeldLock], access: Access) -> Option<String> {
    names.iter().find_map(|name| {
        let mut own = locks.iter().filter(|lock| name.inodes.contains(&lock.inode));
        own.find_map(|lock| conflict(lock, access).map(|who| format!("{who} {}", name.described())))
    })
}

/// The subject and the verb of the sentence about a lock that is in the way.
fn conflict(lock: &HeldLock, access: Access) -> Option<String> {
    if lock.is_flock {
        let is_alone = lock.is_exclusive && lock.is_of_another_process();
        let by = lock.pid.map_or(String::new(), |pid| format!(" (process {pid})"));
        return is_alone.then(|| format!("another program{by} has locked"));
    }
    let may_write = access == Access::SharedGuestWrites && is_of_qemu(lock);
    if !may_write && QEMU_WRITES.iter().any(|&byte| lock.covers(byte)) {
        return Some("a running QEMU writes to".to_owned());
    }
    let is_in_the_way = match access {
        Access::Reads => false,
        Access::GuestWrites | Access::SharedGuestWrites if lock.covers(QEMU_FORBIDS_WRITES) => {
            return Some("a running QEMU permits no other program to write to".to_owned());
        }
        Access::GuestWrites | Access::SharedGuestWrites => !is_of_qemu(lock),
        Access::Writes => true,
    };
    is_in_the_way.then(|| "a running QEMU or another process has opened and locked".to_owned())
}

/// True for a lock of QEMU's bytes alone.
fn is_of_qemu(lock: &HeldLock) -> bool {
    QEMU_LOCKS.iter().any(|bytes| lock.lies_in(bytes))
}

/// True if these locks of one open file are those of a QEMU that has it open, and permits other programs to write.
pub(crate) fn permits_writers(locks: &[HeldLock]) -> bool {
    locks.iter().any(is_of_qemu) && !locks.iter().any(|lock| conflict(lock, Access::GuestWrites).is_some())
}

/// True if these locks of one open file forbid what a guest does that shares its disk.
pub(crate) fn forbids_sharing(locks: &[HeldLock]) -> bool {
    locks.iter().any(|lock| conflict(lock, Access::SharedGuestWrites).is_some())
}

/// The devices directly above a location.
fn above(location: Location, loops: &[(u64, Backing)]) -> Vec<u64> {
    let mut found: Vec<u64> = loop_devices::over(loops, location).collect();
    if let Location::Device(rdev) = location {
        found.extend(with_partitions(rdev).split_off(1));
        found.extend(upper_devices(rdev));
    }
    found
}

/// The node of a device in this /dev.
fn node_of(rdev: u64) -> Option<Inode> {
    let meta = fs::metadata(kernel_lists::name(rdev)).ok()?;
    let is_node = meta.file_type().is_block_device() && meta.rdev() == rdev;
    is_node.then(|| listed(FileId::of_metadata(&meta), None))
}

/// A file as the list of locks has it. `mount`: the mount that it is on.
fn listed(file: FileId, mount: Option<u64>) -> Inode {
    let mounted = mount.and_then(kernel_lists::mount).map(|mount| mount.dev);
    Inode { dev: mounted.unwrap_or((major(file.dev()), minor(file.dev()))), ino: file.ino() }
}

#[cfg(test)]
mod tests;
