//! The storage below a file or a device, down to the last device, to ensure that a disk is not read from
//! where it is written.
//!
//! ```text
//!  partition ─► its disk              device mapper, RAID ─► slaves
//!  loop device ─► its backing file    file ─► the device of its file system
//! ```
//!
//! All of it is read from /sys/dev/block and the list of mounts, but for the backing files of loop devices
//! ([`crate::loop_devices`]). Two disks on one device (partitions, logical volumes, files of one file system) lie beside each
//! other. A disk lies in another one if it is part of the other's storage. Disks served by a program (nbd, FUSE) are not
//! detected: qemu-nbd holds QEMU's locks, which sources check.

use crate::FileId;
use crate::file_id::Location;
use crate::kernel_lists::{self, name, number};
use crate::loop_devices;
use rustix::fs::{AtFlags, CWD, StatxFlags};
use std::fs::{self, File, Metadata};
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// The most parts: more than any stack of devices has.
const MOST: usize = 1024;
/// Unit of sizes in /sys.
const SECTOR: u64 = 512;

/// A file or a device, and all storage that its bytes are in.
#[derive(Debug)]
pub struct Storage {
    pub(crate) parts: Vec<Part>,
    /// The node by which a device was named.
    pub(crate) node: Option<FileId>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) location: Location,
    /// Bytes of the location, if they are known.
    span: Option<Range<u64>>,
    /// True for the file or device itself.
    pub(crate) is_itself: bool,
    /// True for storage that also holds other files: the folders of a file, the device of its file system, and all
    /// below that.
    pub(crate) is_around: bool,
    /// The mount that a file is on.
    pub(crate) mount: Option<u64>,
    pub(crate) name: String,
}

impl Storage {
    /// The storage of an open file or device.
    pub fn of(file: impl AsFd, name: &str) -> io::Result<Storage> {
        let copy = File::from(file.as_fd().try_clone_to_owned()?);
        let mount = mount_of(&copy, Path::new(""), AtFlags::EMPTY_PATH);
        Ok(Storage::walk(&copy.metadata()?, mount, name, true))
    }

    /// The storage of the device with this number.
    pub(crate) fn of_device(rdev: u64) -> Storage {
        Storage::below(Part {
            location: Location::Device(rdev),
            span: Some(0..u64::MAX),
            is_itself: true,
            is_around: false,
            mount: None,
            name: name(rdev),
        })
    }

    /// The storage of the file or device with this path.
    pub fn of_path(path: &Path) -> io::Result<Storage> {
        let mount = mount_of(CWD, path, AtFlags::empty());
        Ok(Storage::walk(&fs::metadata(path)?, mount, &path.display().to_string(), true))
    }

    /// The storage of files that will be made in this folder: the storage below it. The folder itself may be
    /// read, as an image in a folder is.
    pub fn of_new_file(folder: &Path) -> io::Result<Storage> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let mount = mount_of(CWD, folder, AtFlags::empty());
        let mut storage = Storage::walk(&fs::metadata(folder)?, mount, &folder.display().to_string(), false);
        storage.parts.drain(..1);
        Ok(storage)
    }

    fn walk(meta: &Metadata, mount: Option<u64>, name: &str, is_itself: bool) -> Storage {
        let storage = Storage::below(Part {
            location: Location::of(meta),
            span: is_itself.then_some(0..u64::MAX),
            is_itself,
            is_around: false,
            mount,
            name: name.to_owned(),
        });
        let node = meta.file_type().is_block_device().then(|| FileId::of_metadata(meta));
        Storage { node, ..storage }
    }

    fn below(first: Part) -> Storage {
        let mut parts = vec![];
        let mut open = vec![first];
        while let Some(part) = open.pop() {
            if parts.len() < MOST && !parts.contains(&part) {
                open.extend(part.beneath());
                parts.push(part);
            }
        }
        Storage { parts, node: None }
    }

    /// The file or device itself, and the storage below whose bytes are its own: for a file, the file alone.
    pub(crate) fn own_parts(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(|part| !part.is_around)
    }

    /// True if a write to one changes bytes of the other. File systems are left out: a file lies beside the others
    /// of its device.
    pub fn shares_bytes(&self, other: &Storage) -> bool {
        self.own_parts().any(|part| other.own_parts().any(|theirs| part.overlaps(theirs)))
    }

    /// The overlap of this storage, which is read, with that of a target, as a sentence; `None` if writing
    /// the target changes nothing of the source.
    pub fn shared_with(&self, target: &Storage) -> Option<String> {
        let (read, written) = self
            .parts
            .iter()
            .flat_map(|read| target.parts.iter().map(move |written| (read, written)))
            .find(|(read, written)| read.overlaps(written))?;
        Some(match (read.is_itself, written.is_itself) {
            (true, true) => format!("{} and {} are the same device", written.name, read.name),
            (true, false) => {
                format!("the target lies on the device or file that is to be read, {}", read.name)
            }
            (false, true) => format!("what is to be read lies on the target {}", written.name),
            (false, false) => format!("both lie in the same bytes of {}", written.name),
        })
    }
}

impl Part {
    /// True if both are in the same bytes. Two disks of which neither is in the other's storage may share a
    /// device, each in its own bytes.
    fn overlaps(&self, other: &Part) -> bool {
        self.location == other.location
            && match (&self.span, &other.span) {
                (Some(a), Some(b)) => a.start < b.end && b.start < a.end,
                _ => self.is_itself || other.is_itself,
            }
    }

    /// The next parts below.
    fn beneath(&self) -> Vec<Part> {
        match self.location {
            Location::Device(rdev) => self.beneath_device(rdev, &kernel_lists::sys_block(rdev)),
            Location::File(file) => {
                let has_device = kernel_lists::sys_block(file.dev()).exists();
                let device = if has_device { Some(file.dev()) } else { device_of_mount(self.mount) };
                let around = |rdev| Part { is_around: true, ..self.device(rdev, None) };
                device.map(around).into_iter().collect()
            }
        }
    }

    /// `folder`: that of the device in /sys.
    fn beneath_device(&self, rdev: u64, folder: &Path) -> Vec<Part> {
        let mut all = vec![];
        if folder.join("partition").exists()
            && let Some(disk) = fs::canonicalize(folder).ok().and_then(|folder| number(folder.parent()?))
        {
            let start = sectors(&folder.join("start"));
            all.push(self.device(disk, self.moved(start, sectors(&folder.join("size")))));
        }
        for slave in fs::read_dir(folder.join("slaves")).into_iter().flatten().flatten() {
            all.extend(number(&slave.path()).map(|rdev| self.device(rdev, None)));
        }
        all.extend(self.backing(rdev, folder));
        all
    }

    /// The backing file of a loop device, and the folders that contain it: an image may be a folder. A file whose name is gone
    /// is in none.
    fn backing(&self, rdev: u64, folder: &Path) -> Vec<Part> {
        let Some(backing) = loop_devices::backing(rdev) else { return vec![] };
        let bytes = |name: &str| {
            let text = fs::read_to_string(folder.join("loop").join(name)).ok()?;
            text.trim().parse::<u64>().ok()
        };
        let size = bytes("sizelimit").filter(|&size| size > 0).or_else(|| sectors(&folder.join("size")));
        let span = self.moved(bytes("offset"), size);
        let part = |path: &Path, location: Location| Part {
            location,
            span: None,
            is_itself: false,
            is_around: true,
            mount: None,
            name: path.display().to_string(),
        };
        let (path, is_around) = (&backing.path, self.is_around);
        if !backing.is_at_path {
            return vec![Part { span, is_around, ..part(path, backing.location) }];
        }
        let mount = mount_of(CWD, path, AtFlags::empty());
        let mut all = vec![Part { span, is_around, mount, ..part(path, backing.location) }];
        for folder in path.ancestors().skip(1) {
            all.extend(fs::metadata(folder).ok().map(|meta| part(folder, Location::of(&meta))));
        }
        all
    }

    fn device(&self, rdev: u64, span: Option<Range<u64>>) -> Part {
        let (location, is_around) = (Location::Device(rdev), self.is_around);
        Part { location, span, is_itself: false, is_around, mount: None, name: name(rdev) }
    }

    /// The range of this part's bytes in a location where it begins at `start` and has `size` bytes.
    fn moved(&self, start: Option<u64>, size: Option<u64>) -> Option<Range<u64>> {
        let (span, start, size) = (self.span.as_ref()?, start?, size?);
        Some(start.saturating_add(span.start.min(size))..start.saturating_add(span.end.min(size)))
    }
}

fn sectors(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse::<u64>().ok()?.checked_mul(SECTOR)
}

/// The ID of the mount that a file is on; kernels before 5.8 do not report it.
fn mount_of(folder: impl AsFd, path: &Path, flags: AtFlags) -> Option<u64> {
    let told = rustix::fs::statx(folder, path, flags, StatxFlags::MNT_ID).ok()?;
    (told.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(told.stx_mnt_id)
}

/// The device of a file system that has a number of its own, as btrfs has.
fn device_of_mount(mount: Option<u64>) -> Option<u64> {
    kernel_lists::mount(mount?)?.device()
}

#[cfg(test)]
mod tests;
