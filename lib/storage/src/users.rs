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
//! **Nothing is opened,** so that a confined program may ask, and no question disturbs a user.
//!
//! | access | in its way |
//! |---|---|
//! | a reader | a QEMU that writes (its lock of the write or resize permission), a program that has locked the disk for itself with `flock` |
//! | a guest that writes | the same, a QEMU that shares the disk with no writer, a lock of a range that is none of QEMU's, a mount, swap space, RAID, a loop device that is attached to a file |
//! | another writer | the same, and every other lock of a range |
//!
//! A lock that goes within half a second does not count, nor one of this process or its parent. A loop device over a device,
//! a map of the device mapper, and an array that waits for its first write (as udev starts those that guests have made), write
//! nothing by themselves: their own users count. Not found are: the lock of a device's
//! node in another /dev (a container's own), a `flock` of a process that this one cannot see (another PID namespace),
//! a loop device attached by a path of another mount namespace, and users on another host. On btrfs a file and its snapshot in another
//! subvolume may have one number in the list of locks: below or above a device, one counts as the other.

use crate::FileId;
use crate::file_users::LINGERS;
use crate::kernel_lists::{
    self, belongs, is_mapped, loop_devices, mounts_and_swap, upper_devices, with_partitions,
};
use crate::lock_list::{self, HeldLock, Inode};
use crate::parts::{Location, Part, Storage};
use rustix::fs::{major, minor};
use std::fs;
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::PathBuf;
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
    /// Another device over bytes of the same file or disk.
    Beside,
}

impl Storage {
    /// The user whose use conflicts with this access, as a sentence; `None` if there is none. "It" is the storage.
    pub fn user(&self, access: Access) -> Option<String> {
        let names = self.names();
        let kernel =
            (access != Access::Reads).then(|| names.iter().find_map(|name| self.used_by_kernel(name)));
        if let Some(user) = kernel.flatten() {
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
        // Most files have no device over them.
        let loops: Vec<(u64, Option<Location>)> =
            loop_devices().into_iter().map(|(rdev, path)| (rdev, located(&path))).collect();
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

    /// The use by the kernel itself of a name that is no part below: a file lies on a mounted device by nature.
    fn used_by_kernel(&self, name: &Name) -> Option<String> {
        match (name.location, name.relation) {
            (_, Relation::Below) => None,
            (Location::File(file), _) => {
                let devices = loop_devices().into_iter();
                let mut over = devices.filter(|(_, path)| located(path) == Some(Location::File(file)));
                over.next().map(|(rdev, _)| {
                    format!("the loop device {} is attached to it", kernel_lists::name(rdev))
                })
            }
            (Location::Device(rdev), _) => {
                let raid = upper_devices(rdev).into_iter().find(|&upper| !is_mapped(upper));
                mounts_and_swap(rdev).into_iter().next().or_else(|| raid.map(|upper| belongs(rdev, upper)))
            }
        }
    }
}

impl Name {
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
    if QEMU_WRITES.iter().any(|&byte| lock.covers(byte)) {
        return Some("a running QEMU writes to".to_owned());
    }
    let is_in_the_way = match access {
        Access::Reads => false,
        Access::GuestWrites if lock.covers(QEMU_FORBIDS_WRITES) => {
            return Some("a running QEMU permits no other program to write to".to_owned());
        }
        Access::GuestWrites => !is_of_qemu(lock),
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

/// The devices directly above a location.
fn above(location: Location, loops: &[(u64, Option<Location>)]) -> Vec<u64> {
    let over = loops.iter().filter(|(_, backing)| *backing == Some(location)).map(|(rdev, _)| *rdev);
    let mut found: Vec<u64> = over.collect();
    if let Location::Device(rdev) = location {
        found.extend(with_partitions(rdev).split_off(1));
        found.extend(upper_devices(rdev));
    }
    found
}

fn located(path: &PathBuf) -> Option<Location> {
    Some(Location::of(&fs::metadata(path).ok()?))
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
