//! Loop devices, and the file or device that each one lies over.
//!
//! | the node of a loop device | the backing file is known by | found |
//! |---|---|---|
//! | can be opened for reading: by root, by the group `disk` | its numbers, which the kernel tells of an open device (`LOOP_GET_STATUS64`) | always: also a file whose name was deleted, or that was attached in another mount namespace |
//! | cannot: by other users, by a confined program, in a container without the node | the path that the kernel lists in /sys | while the file has that path here |
//!
//! **A listed path may lead to another file by now.** The kernel lists paths without links, and adds " (deleted)" to that of a
//! file whose name was deleted. So a path that leads through a link, and one with these words at its end, are not believed by
//! themselves: a user could give the name to a file of others. A file of another mount namespace that has the path
//! here is taken for the backing file.
//!
//! An open for reading wakes no udev and takes no claim.

use crate::file_id::{FileId, Location};
use crate::kernel_lists::{block_devices, name, sys_block, without_deleted};
use rustix::fs::{OFlags, major};
use rustix::ioctl::{Getter, Opcode, ioctl};
use std::ffi::OsString;
use std::fs::{self, Metadata, OpenOptions};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Major number of loop devices.
const MAJOR: u32 = 7;
/// `LOOP_GET_STATUS64`
const GET_STATUS: Opcode = 0x4c05;

/// `struct loop_info64` of the kernel.
#[repr(C)]
struct Status {
    /// Number of the file system that the backing file is on, as `stat` reports it.
    device: u64,
    inode: u64,
    /// Number of a backing device; 0 for a file.
    backing_device: u64,
    _rest: [u64; 26],
}

/// The file or device below a loop device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Backing {
    pub(crate) location: Location,
    /// The path by which the kernel lists it.
    pub(crate) path: PathBuf,
    /// True if the path leads to it here.
    pub(crate) is_at_path: bool,
}

impl Backing {
    /// `told`: the location as the kernel tells it of the open device, if that could be asked.
    fn of(told: Option<Location>, path: PathBuf) -> Option<Backing> {
        let found = fs::metadata(&path).ok().map(|meta| Location::of(&meta));
        let location = told.or_else(|| found.filter(|_| is_believed(&path)))?;
        Some(Backing { location, is_at_path: found == Some(location), path })
    }
}

/// The loop devices that are attached, each with what it lies over, if that is found.
pub(crate) fn attached() -> Vec<(u64, Backing)> {
    let loops = block_devices().into_iter().filter(|&rdev| major(rdev) == MAJOR);
    loops.filter_map(|rdev| Some((rdev, backing(rdev)?))).collect()
}

/// The loop devices over this file or device.
pub(crate) fn over(attached: &[(u64, Backing)], location: Location) -> impl Iterator<Item = u64> {
    attached.iter().filter(move |(_, backing)| backing.location == location).map(|(rdev, _)| *rdev)
}

/// The file or device below a loop device. `None` for other devices, for one that is not attached, and if it is not found.
pub(crate) fn backing(rdev: u64) -> Option<Backing> {
    let path = listed_path(&sys_block(rdev))?;
    Backing::of(told_location(rdev), path)
}

/// The path that the kernel lists. `folder`: that of the device in /sys.
fn listed_path(folder: &Path) -> Option<PathBuf> {
    let mut path = fs::read(folder.join("loop/backing_file")).ok()?;
    path.pop_if(|last| *last == b'\n');
    Some(OsString::from_vec(path).into())
}

/// True if no user can have given this listed path to another file without a mount.
fn is_believed(path: &Path) -> bool {
    let is_deleted = without_deleted(path.as_os_str().as_bytes()).is_some();
    !is_deleted && path.canonicalize().is_ok_and(|real| real == path)
}

/// The location of the backing file, as the kernel tells it of the open device. `None` if the device cannot be opened here.
#[allow(unsafe_code)] // an ioctl
fn told_location(rdev: u64) -> Option<Location> {
    let path = PathBuf::from(name(rdev));
    let is_device = |meta: Metadata| Location::of(&meta) == Location::Device(rdev);
    // An open of anything else under this name may have effects.
    if !fs::metadata(&path).is_ok_and(is_device) {
        return None;
    }
    let flags = OFlags::NONBLOCK.bits() as i32;
    let device = OpenOptions::new().read(true).custom_flags(flags).open(&path).ok()?;
    if !device.metadata().is_ok_and(is_device) {
        return None;
    }
    // SAFETY: this ioctl writes a `struct loop_info64`, which `Status` is in size and layout.
    let status = unsafe { ioctl(&device, Getter::<GET_STATUS, Status>::new()) }.ok()?;
    Some(match status.backing_device {
        0 => Location::File(FileId::new(status.device, status.inode)),
        rdev => Location::Device(rdev),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::tests::loop_device::Loop;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    /// A new folder, by its path without links.
    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        (folder, path)
    }

    fn location(path: &Path) -> Location {
        Location::of(&fs::metadata(path).unwrap())
    }

    /// A bind mount gives a file a second path, as a hard link does.
    #[test]
    fn a_loop_device_is_found_by_every_path_of_its_file() {
        let (_folder, at) = folder();
        fs::write(at.join("disk.img"), "disk").unwrap();
        fs::write(at.join("other.img"), "disk").unwrap();
        fs::hard_link(at.join("disk.img"), at.join("bound.img")).unwrap();
        assert_eq!(Backing::of(None, at.join("gone.img")), None);
        let attached = [(7, Backing::of(None, at.join("bound.img")).unwrap())];
        let device = |name: &str| over(&attached, location(&at.join(name))).next();
        assert_eq!([device("bound.img"), device("disk.img"), device("other.img")], [Some(7), Some(7), None]);
    }

    #[test]
    fn a_listed_path_is_believed_only_while_no_other_file_can_have_got_it() {
        let (_folder, at) = folder();
        fs::create_dir(at.join("real")).unwrap();
        fs::write(at.join("real/disk"), "of others").unwrap();
        symlink("real", at.join("linked")).unwrap();
        symlink("real/disk", at.join("disk")).unwrap();
        symlink("real/disk", at.join("gone (deleted)")).unwrap();
        fs::hard_link(at.join("real/disk"), at.join("real/gone (deleted)")).unwrap();
        let path = at.join("real/disk");
        let others = location(&path);
        assert_eq!(Backing::of(None, path.clone()).unwrap().location, others);
        for planted in ["disk", "linked/disk", "gone (deleted)", "real/gone (deleted)"] {
            assert_eq!(Backing::of(None, at.join(planted)), None, "{planted}");
        }
        // The kernel has told which file it is.
        let told = Location::File(FileId::new(1, 2));
        for planted in ["disk", "gone (deleted)", "real/gone (deleted)"] {
            let found = Backing::of(Some(told), at.join(planted)).unwrap();
            assert_eq!((found.location, found.is_at_path), (told, false), "{planted}");
        }
        assert!(Backing::of(Some(others), path).unwrap().is_at_path);
    }

    #[test]
    fn the_status_of_a_device_has_the_size_that_the_kernel_writes() {
        assert_eq!(size_of::<Status>(), 232);
    }

    #[test]
    fn an_open_device_tells_its_file_after_that_has_lost_its_name() {
        let (_folder, at) = folder();
        let (path, other) = (at.join("disk"), at.join("other"));
        fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
        fs::write(&other, "of others").unwrap();
        let Some(first) = Loop::over(&path, &[]) else { return };
        let Some(second) = Loop::over(&first.0, &[]) else { return };
        let [file, device] = [&path, &first.0].map(|path| location(path));
        let [lower, upper] = [&first.0, &second.0].map(|node| fs::metadata(node).unwrap().rdev());
        assert_eq!([told_location(lower), told_location(upper)], [Some(file), Some(device)]);
        assert!(backing(lower).unwrap().is_at_path);
        fs::hard_link(&path, at.join("kept")).unwrap();
        fs::remove_file(&path).unwrap();
        symlink(&other, at.join("disk (deleted)")).unwrap();
        let found = backing(lower).unwrap();
        assert_eq!((found.location, found.is_at_path), (location(&at.join("kept")), false));
        assert!(found.path.ends_with("disk (deleted)"), "{found:?}");
        let attached = attached();
        assert!(over(&attached, file).any(|rdev| rdev == lower));
        assert_eq!(over(&attached, location(&other)).next(), None);
    }
}
