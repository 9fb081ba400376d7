//! The kernel's claim of a block device: one open file at a time has it, and a mount, swap space, a map, RAID, and a claim of
//! the disk of a partition or of a partition of the disk, are in its way. Another open of the device is not.

use crate::kernel_lists::{device_holders, is_mapped, upper_devices, with_partitions};
use crate::users::Access;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// Time to wait for udev, which opens a device for a moment after it was made or closed; a real user keeps it
/// open.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// The result of a claim.
#[derive(Debug)]
pub enum Claim {
    /// The claim lasts until the file is closed.
    Taken(File),
    /// The user of the device, as a sentence.
    InUse(String),
}

/// Opens a block device, and claims it.
pub fn claim_device(path: &Path, access: Access) -> io::Result<Claim> {
    let rdev = std::fs::metadata(path)?.rdev();
    let patience = Instant::now() + PATIENCE;
    let writes = access != Access::Reads;
    let mut options = OpenOptions::new();
    options.read(true).write(writes).custom_flags(OFlags::EXCL.bits() as i32);
    loop {
        let opened = options.open(path);
        let busy = opened.as_ref().err().and_then(Errno::from_io_error) == Some(Errno::BUSY);
        if !busy {
            return opened.map(Claim::Taken);
        }
        let holders = device_holders(rdev);
        if !holders.is_empty() {
            return Ok(Claim::InUse(holders.join(", ")));
        }
        // It may be udev, for a moment.
        if Instant::now() > patience {
            return Ok(Claim::InUse("another process has it open for itself".to_owned()));
        }
        std::thread::sleep(PATIENCE / 60);
    }
}

/// True if maps of the device mapper, or arrays that wait for their first write, have the device or its partitions, and nothing
/// else of the kernel. The host makes them by itself of volume groups, partitions and arrays that a guest has made, and they write
/// nothing until they are used.
pub fn is_only_mapped(path: &Path) -> io::Result<bool> {
    let rdev = std::fs::metadata(path)?.rdev();
    let uppers: Vec<u64> = with_partitions(rdev).into_iter().flat_map(upper_devices).collect();
    Ok(!uppers.is_empty() && uppers.into_iter().all(is_mapped))
}
