//! The identity of a block device, to be kept in a record. A path of a device (`/dev/sdb`, `/dev/loop0`) leads to another one after
//! a reboot, or after another disk was attached.
//!
//! | device | known by |
//! |---|---|
//! | disk | the names of its hardware: WWID, serial number |
//! | map of the device mapper, RAID | its uuid |
//! | partition | that of its disk, and where it begins there |
//! | loop device | its backing file, and where it begins there; over another device: that of this device |
//! | any other | its size |

use crate::file_id::{FileId, LastingFileId, Location};
use crate::kernel_lists::{number, sys_block};
use crate::loop_devices;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// Files of a device in /sys with the names by which its hardware or its maker knows it.
const NAMES: [(&str, &str); 6] = [
    ("wwid", "wwid"),
    ("wwid", "device/wwid"),
    ("serial", "serial"),
    ("serial", "device/serial"),
    ("dm", "dm/uuid"),
    ("md", "md/uuid"),
];
/// Unit of sizes in /sys.
const SECTOR: u64 = 512;
/// The longest name that is recorded, in bytes.
const LONGEST: usize = 256;
/// The most devices that lie over each other.
const DEEPEST: usize = 16;

/// The identity of a block device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceId {
    /// Size in bytes.
    size: u64,
    /// Names of the disk that the device is, or lies in.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    names: BTreeMap<String, String>,
    /// The file below a loop device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backing: Option<BackingFile>,
    /// Position in the disk or file of these names, in bytes.
    #[serde(default)]
    start: u64,
}

/// The file below a loop device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackingFile {
    /// Path by which the kernel listed it.
    pub path: PathBuf,
    /// The file.
    pub id: LastingFileId,
    /// Its size in bytes.
    pub size: u64,
}

impl DeviceId {
    /// The identity of the block device at this path, which is not opened. `None` if the path leads to nothing, or to something
    /// else.
    pub fn of_path(path: &Path) -> io::Result<Option<DeviceId>> {
        match fs::metadata(path) {
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(e) => Err(e),
            Ok(facts) => Ok(facts.file_type().is_block_device().then(|| DeviceId::of(facts.rdev()))),
        }
    }

    /// The identity of the device with this number.
    fn of(rdev: u64) -> DeviceId {
        let size = bytes(&sys_block(rdev).join("size"));
        let mut id = DeviceId { size, names: BTreeMap::new(), backing: None, start: 0 };
        id.fill(rdev, DEEPEST);
        id
    }

    /// Adds the names of this device, or of the one that it lies in.
    fn fill(&mut self, rdev: u64, depth: usize) {
        let folder = sys_block(rdev);
        if depth == 0 {
            return;
        }
        if folder.join("partition").exists() {
            self.start = self.start.saturating_add(bytes(&folder.join("start")));
            if let Some(disk) = fs::canonicalize(&folder).ok().and_then(|folder| number(folder.parent()?)) {
                self.fill(disk, depth - 1);
            }
            return;
        }
        if let Some(backing) = loop_devices::backing(rdev) {
            let offset = fs::read_to_string(folder.join("loop/offset")).ok();
            let offset = offset.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0);
            self.start = self.start.saturating_add(offset);
            match backing.location {
                Location::Device(below) => self.fill(below, depth - 1),
                Location::File(file) => self.backing = BackingFile::of(&backing.path, file),
            }
            return;
        }
        for (kind, file) in NAMES {
            let name = fs::read_to_string(folder.join(file)).unwrap_or_default();
            let name = name.trim();
            if !name.is_empty() && name.len() <= LONGEST {
                self.names.entry(kind.to_owned()).or_insert_with(|| name.to_owned());
            }
        }
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The file below a loop device.
    pub fn backing(&self) -> Option<&BackingFile> {
        self.backing.as_ref()
    }

    /// True if something but its size tells it from other devices.
    pub fn is_named(&self) -> bool {
        self.backing.is_some() || !self.names.is_empty()
    }

    /// True if both have bytes in common by their names: one is the other, a partition of it, or the disk that it lies in.
    pub fn shares_bytes(&self, other: &DeviceId) -> bool {
        let end = |id: &DeviceId| id.start.saturating_add(id.size);
        self.is_in_disk_of(other) && self.start < end(other) && other.start < end(self)
    }

    /// True if both lie in one disk or one backing file by their names, wherever in it.
    fn is_in_disk_of(&self, other: &DeviceId) -> bool {
        match (&self.backing, &other.backing) {
            (Some(own), Some(theirs)) => own.id.may_be(&theirs.id),
            (None, None) => {
                let mut common =
                    self.names.iter().filter_map(|(kind, name)| Some((name, other.names.get(kind)?)));
                let mut is_any = false;
                let is_equal = common.all(|(own, theirs)| {
                    is_any = true;
                    own == theirs
                });
                is_any && is_equal
            }
            _ => false,
        }
    }

    /// True if this may be the device that was recorded as `known`. One with names is known by them, and may have been made
    /// larger; another one by its size.
    pub fn may_be(&self, known: &DeviceId) -> bool {
        match known.is_named() {
            true => self.is_in_disk_of(known) && self.start == known.start,
            false => self.size == known.size,
        }
    }
}

impl BackingFile {
    /// The file at the listed path, if it is the one below the device.
    fn of(path: &Path, below: FileId) -> Option<BackingFile> {
        // An open of anything but a file may have an effect.
        if !fs::metadata(path).is_ok_and(|facts| facts.is_file() && FileId::of_metadata(&facts) == below) {
            return None;
        }
        let file = File::open(path).ok()?;
        let facts = file.metadata().ok()?;
        if FileId::of_metadata(&facts) != below {
            return None;
        }
        Some(BackingFile { path: path.to_owned(), id: LastingFileId::of(&file).ok()?, size: facts.len() })
    }
}

/// A number of sectors in a file of /sys, in bytes.
fn bytes(file: &Path) -> u64 {
    let sectors = fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<u64>().ok());
    sectors.unwrap_or(0).saturating_mul(SECTOR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::tests::loop_device::Loop;

    fn id(names: &[(&str, &str)], size: u64, start: u64) -> DeviceId {
        let names = names.iter().map(|(kind, name)| ((*kind).to_owned(), (*name).to_owned())).collect();
        DeviceId { size, names, backing: None, start }
    }

    #[test]
    fn a_device_is_known_by_its_names_and_without_any_by_its_size() {
        let known = id(&[("wwid", "naa.5"), ("serial", "S1")], 100, 0);
        assert!(id(&[("wwid", "naa.5"), ("serial", "S1")], 200, 0).may_be(&known), "it was made larger");
        assert!(id(&[("serial", "S1")], 100, 0).may_be(&known));
        for other in [
            id(&[("wwid", "naa.6"), ("serial", "S1")], 100, 0),
            id(&[], 100, 0),
            id(&[("dm", "LVM-1")], 100, 0),
            id(&[("wwid", "naa.5")], 100, 512),
        ] {
            assert!(!other.may_be(&known), "{other:?}");
        }
        let nameless = id(&[], 100, 0);
        assert!(id(&[("serial", "S1")], 100, 0).may_be(&nameless) && !id(&[], 200, 0).may_be(&nameless));
        assert!(id(&[("serial", "S1")], 50, 10).shares_bytes(&known), "a partition of it");
        assert!(!id(&[("serial", "S1")], 50, 100).shares_bytes(&known) && !nameless.shares_bytes(&nameless));
        let text = serde_json::to_string(&known).unwrap();
        assert_eq!(serde_json::from_str::<DeviceId>(&text).unwrap(), known);
    }

    #[test]
    fn a_loop_device_is_known_by_its_file_and_not_by_its_path() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(DeviceId::of_path(&folder.path().join("none")).unwrap(), None);
        assert_eq!(DeviceId::of_path(folder.path()).unwrap(), None);
        let file = |name: &str| {
            let path = folder.path().canonicalize().unwrap().join(name);
            File::create(&path).unwrap().set_len(1 << 20).unwrap();
            path
        };
        let (one, two) = (file("one.img"), file("two.img"));
        let (Some(first), Some(again), Some(other)) =
            (Loop::over(&one, &[]), Loop::over(&one, &[]), Loop::over(&two, &[]))
        else {
            return;
        };
        let [first, again, other] =
            [&first, &again, &other].map(|device| DeviceId::of_path(&device.0).unwrap().unwrap());
        assert_eq!((first.size(), first.backing().unwrap().path.as_path()), (1 << 20, one.as_path()));
        assert!(first.may_be(&again) && !other.may_be(&first), "{other:?}");
    }
}
