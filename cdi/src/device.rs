//! The version of a block device by the kernel's counters: another one after each write of this node.
//!
//! Not counted are writes of another node to a device that both use, and writes to the disk below a partition
//! or a logical volume that go past it.

use crate::sys;
use rustix::fs::{fstat, major, minor};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

const DEVICES: &str = "/sys/dev/block";

/// Fields of a device's `stat`: sectors that were written, and discarded. Requests are left out: a flush is one
/// for some drivers, and writes nothing.
const WRITES: [usize; 2] = [6, 13];

/// A version of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceVersion {
    /// Number of the disk since the boot. Kernels before 5.15 have none.
    pub sequence: Option<String>,
    /// Sectors that were written and discarded.
    pub writes: String,
}

/// The version of an open device; `None` if the kernel does not count its writes. Writes that are in the page
/// cache alone reach the device first, so that they count from now on.
pub fn version(device: impl AsFd) -> Option<DeviceVersion> {
    if let Err(e) = sys::pages_written(device.as_fd()) {
        tracing::debug!("writes to a device may count later: {e}");
    }
    let number = fstat(device).ok()?.st_rdev;
    if of_disk(number, "queue/iostats").is_some_and(|counts| counts == "0") {
        return None;
    }
    let writes = counts(&read(folder(number).join("stat"))?)?;
    Some(DeviceVersion { sequence: sequence(number), writes })
}

/// Number since the boot of the disk that is this device, or has this partition.
pub(crate) fn sequence(number: u64) -> Option<String> {
    of_disk(number, "diskseq")
}

/// The text of a file that a device has, or the disk of a partition.
fn of_disk(number: u64, name: &str) -> Option<String> {
    let folder = folder(number);
    read(folder.join(name)).or_else(|| read(folder.join("..").join(name)))
}

fn folder(number: u64) -> PathBuf {
    Path::new(DEVICES).join(format!("{}:{}", major(number), minor(number)))
}

fn read(path: PathBuf) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn counts(stat: &str) -> Option<String> {
    let all: Vec<u64> = stat.split_whitespace().map_while(|count| count.parse().ok()).collect();
    let writes: Option<Vec<String>> = WRITES.iter().map(|&at| all.get(at).map(u64::to_string)).collect();
    writes.map(|writes| writes.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_devices_counters_those_of_writes_count() {
        let before = "  100 1 2 3  20 0 160 5  0 6 7  1 0 8 9  0 0";
        let read_more = "  999 5 9 9  20 3 160 6  1 9 9  1 7 8 9  2 2";
        assert_eq!(counts(before), Some("160,8".to_owned()));
        assert_eq!(counts(read_more), counts(before));
        let flushed = "  100 1 2 3  21 0 160 5  0 6 7  1 0 8 9  1 9";
        assert_eq!(counts(flushed), counts(before), "some drivers count a flush as a write of nothing");
        for more in ["100 1 2 3 21 0 168 5 0 6 7 1 0 8 9", "100 1 2 3 20 0 160 5 0 6 7 1 0 9 9"] {
            assert!(counts(more).is_some() && counts(more) != counts(before), "{more}");
        }
        for odd in ["", "1 2 3", "a b c d e f g h i j k l m n"] {
            assert_eq!(counts(odd), None, "{odd}");
        }
    }
}
