//! The version of a disk, the same for the next pod that serves it.
//!
//! | disk | changes with | |
//! |---|---|---|
//! | a file | inode, size, time of the last change of its bytes | owner and mode are left out: the kubelet sets them at each mount |
//! | a block device | boot, number, sequence number, size, writes of this node | by the kernel's counters |
//! | a device without counters | each process | the clone begins anew |
//! | a device that several nodes may write to | also each process | another node may write between two pods, which no counter of this node shows |
//!
//! While a file is served its other times count too (`FileSource::unchanged`). The counters are read in
//! `cdi::device`.

use cdi::source::{FileSource, Source as _};
use cdi::{Error, Result, device};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// The kernel's file with an ID of its boot.
pub(super) const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// True if the path is a block device.
pub(super) fn is_device(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_block_device())
}

/// The version of the open disk, which has this path. `is_shared`: several nodes may write to it.
pub(super) fn of(path: &Path, source: &FileSource, is_shared: bool) -> Result<String> {
    let found =
        fs::symlink_metadata(path).map_err(|e| Error::io(format!("cannot examine {}", path.display()), e))?;
    if !found.file_type().is_block_device() {
        let (seconds, nanos) = (found.mtime(), found.mtime_nsec());
        return Ok(format!("file:{}:{}:{seconds}.{nanos:09}", found.ino(), found.len()));
    }
    let size = source.facts().size.unwrap_or(0);
    let (major, minor) = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
    let state = state(written(source), is_shared);
    Ok(format!("device:{major}:{minor}:{size}:{state}"))
}

/// The state of a device by its counters, and by this process where the counters do not show all writes.
fn state(written: Option<String>, is_shared: bool) -> String {
    match written {
        Some(written) if !is_shared => written,
        Some(written) => format!("{written} {}", process()),
        None => format!("unknown {}", process()),
    }
}

/// A hash of the version, which does not reveal the times of the disk.
pub(super) fn digest(version: &str) -> String {
    hex::encode(Sha256::digest(version))
}

fn written(source: &FileSource) -> Option<String> {
    let boot = fs::read_to_string(BOOT).ok()?;
    let version = device::version(source.file()?)?;
    Some(format!("{}:{}:{}", boot.trim(), version.sequence?, version.writes))
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
    fn a_file_has_another_version_when_its_bytes_change_and_not_when_its_mode_does() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk.img");
        let version =
            || of(&path, &FileSource::open_itself(&path).expect("a file"), false).expect("a version");
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

    /// The next pod is another process. Another node may have written to the device between the two.
    #[test]
    fn a_device_of_several_nodes_has_another_version_in_each_process() {
        let written = || Some("boot:7:160,8".to_owned());
        assert_eq!(state(written(), false), "boot:7:160,8");
        assert_eq!(state(written(), true), format!("boot:7:160,8 {}", process()));
        assert_ne!(state(written(), true), state(Some("boot:7:168,8".to_owned()), true));
        assert!(state(None, false).ends_with(process()));
    }
}
