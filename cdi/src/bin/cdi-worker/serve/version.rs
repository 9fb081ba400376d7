//! The version of a disk, the same for the next pod that serves it.
//!
//! | disk | changes with | |
//! |---|---|---|
//! | a file | inode, size, time of the last change of its bytes | owner and mode are left out: the kubelet sets them at each mount |
//! | a block device | boot, number, sequence number, size, writes of this node | by the kernel's counters |
//! | a device without counters | each time it is opened | the clone begins anew |
//!
//! While a file is served its other times count too (`FileSource::unchanged`).

use cdi::source::{FileSource, Source as _};
use cdi::{Error, Result};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// The kernel's files about devices and its boot.
pub(super) const FACTS: [&str; 3] = [DEVICES, "/sys/devices", BOOT];
const DEVICES: &str = "/sys/dev/block";
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// Fields of a device's `stat` that grow with writes and discards: requests and sectors of both.
const WRITES: [usize; 4] = [4, 6, 11, 13];

/// True if the path is a block device.
pub(super) fn is_device(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_block_device())
}

/// The version of the open disk, which has this path.
pub(super) fn of(path: &Path, source: &FileSource) -> Result<String> {
    let found =
        fs::symlink_metadata(path).map_err(|e| Error::io(format!("cannot examine {}", path.display()), e))?;
    if !found.file_type().is_block_device() {
        let (seconds, nanos) = (found.mtime(), found.mtime_nsec());
        return Ok(format!("file:{}:{}:{seconds}.{nanos:09}", found.ino(), found.len()));
    }
    let size = source.facts().size.unwrap_or(0);
    let (major, minor) = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
    let folder = Path::new(DEVICES).join(format!("{major}:{minor}"));
    let state = written(&folder).unwrap_or_else(|| format!("unknown {}", process()));
    Ok(format!("device:{major}:{minor}:{size}:{state}"))
}

/// A hash of the version, which does not reveal the times of the disk.
pub(super) fn digest(version: &str) -> String {
    hex::encode(Sha256::digest(version))
}

fn written(folder: &Path) -> Option<String> {
    let read = |path: PathBuf| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let boot = read(BOOT.into())?;
    // A partition has the number of its disk.
    let used = read(folder.join("diskseq")).or_else(|| read(folder.join("../diskseq")))?;
    let writes = counts(&read(folder.join("stat"))?)?;
    Some(format!("{boot}:{used}:{writes}"))
}

fn counts(stat: &str) -> Option<String> {
    let all: Vec<u64> = stat.split_whitespace().map_while(|count| count.parse().ok()).collect();
    let writes: Option<Vec<String>> = WRITES.iter().map(|&at| all.get(at).map(u64::to_string)).collect();
    writes.map(|writes| writes.join(","))
}

/// An ID that no other process of this program has.
fn process() -> &'static str {
    static PROCESS: OnceLock<String> = OnceLock::new();
    PROCESS.get_or_init(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        format!("{}:{}", std::process::id(), now.as_nanos())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_devices_counters_those_of_writes_count() {
        let before = "  100 1 2 3  20 0 160 5  0 6 7  1 0 8 9  0 0";
        let read_more = "  999 5 9 9  20 3 160 6  1 9 9  1 7 8 9  2 2";
        assert_eq!(counts(before), Some("20,160,1,8".to_owned()));
        assert_eq!(counts(read_more), counts(before));
        for more in ["100 1 2 3 21 0 160 5 0 6 7 1 0 8 9", "100 1 2 3 20 0 160 5 0 6 7 1 0 9 9"] {
            assert!(counts(more).is_some() && counts(more) != counts(before), "{more}");
        }
        for odd in ["", "1 2 3", "a b c d e f g h i j k l m n"] {
            assert_eq!(counts(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_file_has_another_version_when_its_bytes_change_and_not_when_its_mode_does() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk.img");
        let version = || of(&path, &FileSource::open_itself(&path).expect("a file")).expect("a version");
        let set = |bytes: &[u8], seconds: u64| {
            fs::write(&path, bytes).expect("it can be written");
            let file = fs::File::options().write(true).open(&path).expect("a file");
            file.set_modified(UNIX_EPOCH + std::time::Duration::from_secs(seconds)).expect("a time");
        };
        set(b"one", 1000);
        let first = version();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("a mode");
        assert_eq!(version(), first);
        set(b"two", 1001);
        let second = version();
        assert_ne!(second, first);
        set(b"longer", 1001);
        assert_ne!(version(), second);
        assert_eq!(digest(&first).len(), 64);
    }
}
