//! Bytes of a qcow2 file that are not of its disk: internal snapshots, old content of clusters that read as zeros, clusters that were
//! freed and not emptied, saved memory of a VM. Whoever has the file can read them.
//!
//! The file is marked in units, those of metadata and of the disk's extents; all others must be holes or zeros. A unit is a sector,
//! which a compressed cluster may share with the next one. Of a file so large that the marks would not fit their memory, a unit is
//! larger, and one that is used in part alone counts as left over.

use super::header::{Header, Parsed};
use super::image::Qcow2;
use crate::{Error, Format, Image as _, Limits, ReadAt, Result};
use std::ops::Range;

const SECTOR: u64 = 512;
/// Memory of the marks, in bytes: of each sector of 128 GiB.
const MARKS: u64 = 32 << 20;
/// Bytes that are read at once.
const CHUNK: u64 = 1 << 20;

/// The first bytes that are found in a file, and are not of its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leftover {
    /// The image has this number of internal snapshots.
    Snapshots(u32),
    /// The byte at this offset of the file is neither zero nor part of the disk.
    Bytes(u64),
}

impl std::fmt::Display for Leftover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Leftover::Snapshots(1) => write!(f, "it has an internal snapshot"),
            Leftover::Snapshots(count) => write!(f, "it has {count} internal snapshots"),
            Leftover::Bytes(at) => write!(f, "it has bytes that are not of the disk, at {at:#x}"),
        }
    }
}

/// Snapshots by the first bytes of an image.
pub fn snapshots_of(head: &[u8]) -> Option<Leftover> {
    match Header::parse(head, false, Limits { max_size: u64::MAX, ..Limits::default() }) {
        Ok(Parsed::Done(header)) if header.snapshots > 0 => Some(Leftover::Snapshots(header.snapshots)),
        _ => None,
    }
}

impl Qcow2 {
    /// Bytes of the file that are not of the disk. Everything that is not known to be of the disk is read until the first of them.
    pub fn leftover(&self) -> Result<Option<Leftover>> {
        let header = self.header();
        if header.snapshots > 0 {
            return Ok(Some(Leftover::Snapshots(header.snapshots)));
        }
        let mut used = Used::new(self.bytes().size());
        self.metadata().for_each(|range| used.mark(range));
        let mut from = Some(0).filter(|_| self.virtual_size() > 0);
        while let Some(guest) = from {
            let window = self.window(guest)?;
            window.extents.iter().filter_map(crate::Extent::file_range).for_each(|range| used.mark(range));
            from = window.next.filter(|&next| next > guest);
        }
        used.first_of_others(self.bytes()).map(|found| found.map(Leftover::Bytes))
    }
}

/// Marks of the units of a file that are used.
struct Used {
    size: u64,
    unit: u64,
    marks: Vec<u8>,
}

impl Used {
    fn new(size: u64) -> Used {
        let mut unit = SECTOR;
        while size.div_ceil(unit) > MARKS * 8 {
            unit *= 2;
        }
        Used { size, unit, marks: vec![0; size.div_ceil(unit).div_ceil(8) as usize] }
    }

    fn mark(&mut self, range: Range<u64>) {
        let end = range.end.min(self.size);
        let (first, behind) = match (self.unit, end == self.size) {
            (SECTOR, _) => (range.start / SECTOR, end.div_ceil(SECTOR)),
            (unit, true) => (range.start.div_ceil(unit), end.div_ceil(unit)),
            (unit, false) => (range.start.div_ceil(unit), end / unit),
        };
        let mut at = first;
        while at < behind {
            let byte = (at / 8) as usize;
            if at.is_multiple_of(8) && behind - at >= 8 {
                self.marks[byte] = 0xff;
                at += 8;
            } else {
                self.marks[byte] |= 1 << (at % 8);
                at += 1;
            }
        }
    }

    /// True, and the end of the units of this kind that follow.
    fn run(&self, from: u64) -> (bool, u64) {
        let units = self.size.div_ceil(self.unit);
        let is_used = |at: u64| self.marks[(at / 8) as usize] & (1 << (at % 8)) != 0;
        let kind = is_used(from);
        let whole = if kind { 0xff } else { 0 };
        let mut at = from + 1;
        while at < units {
            if at.is_multiple_of(8) && units - at >= 8 && self.marks[(at / 8) as usize] == whole {
                at += 8;
            } else if is_used(at) == kind {
                at += 1;
            } else {
                break;
            }
        }
        (kind, at)
    }

    /// Offset of the first byte outside of the marks that is not zero.
    fn first_of_others(&self, bytes: &dyn ReadAt) -> Result<Option<u64>> {
        let (units, mut at, mut buffer) = (self.size.div_ceil(self.unit), 0, vec![]);
        while at < units {
            let (is_used, behind) = self.run(at);
            let mut range = at * self.unit..(behind * self.unit).min(self.size);
            at = behind;
            while !is_used && !range.is_empty() {
                buffer.resize((range.end - range.start).min(CHUNK) as usize, 0);
                bytes.read_exact_at(&mut buffer, range.start).map_err(|e| {
                    Error::io(
                        Format::Qcow2,
                        "a part of the file that is not of the disk cannot be read",
                        range.start,
                        e,
                    )
                })?;
                if let Some(found) = buffer.iter().position(|&byte| byte != 0) {
                    return Ok(Some(range.start + found as u64));
                }
                range.start += buffer.len() as u64;
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_at::FileAt;
    use std::fs::File;
    use std::path::Path;
    use std::process::Command;
    use std::sync::Arc;

    fn tool(program: &str, arguments: &[&str]) {
        let out = Command::new(program).args(arguments).output().unwrap();
        assert!(out.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    }

    fn leftover(path: &Path) -> Option<Leftover> {
        let file = File::open(path).unwrap();
        let size = file.metadata().unwrap().len();
        Qcow2::open(Arc::new(FileAt::new(file, size)), Limits::default()).unwrap().leftover().unwrap()
    }

    /// They were published with the disk.
    #[test]
    fn deleted_data_and_snapshots_are_left_over() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("s.qcow2");
        let name = path.to_str().unwrap();
        for options in
            ["compat=1.1", "compat=0.10", "cluster_size=512", "extended_l2=on", "preallocation=metadata"]
        {
            tool("qemu-img", &["create", "-q", "-f", "qcow2", "-o", options, name, "8M"]);
            tool("qemu-io", &["-c", "write -P 0x53 1M 64k", "-c", "write -P 1 5M 3k", name]);
            assert_eq!(leftover(&path), None, "{options}");
        }
        // The file system punches holes by -u alone, and keeps the bytes otherwise.
        tool("qemu-img", &["create", "-q", "-f", "qcow2", name, "8M"]);
        tool("qemu-io", &["-c", "write -P 0x53 1M 64k", name]);
        tool("qemu-img", &["snapshot", "-c", "before", name]);
        assert_eq!(leftover(&path), Some(Leftover::Snapshots(1)));
        assert_eq!(snapshots_of(&std::fs::read(&path).unwrap()[..4096]), Some(Leftover::Snapshots(1)));
        tool("qemu-img", &["snapshot", "-d", "before", name]);

        // A cluster that reads as zeros, and keeps its place in the file.
        tool("qemu-img", &["create", "-q", "-f", "qcow2", name, "8M"]);
        tool("qemu-io", &["-c", "write -P 0x53 1M 64k", name]);
        let mut bytes = std::fs::read(&path).unwrap();
        let entry =
            |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap()) as usize & 0xff_ffff_fe00;
        let l2 = entry(entry(40)) + 16 * 8;
        let data = entry(l2);
        assert_eq!(bytes[data], 0x53);
        bytes[l2 + 7] |= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(leftover(&path), Some(Leftover::Bytes(data as u64)));
        bytes[data..data + 65536].fill(0);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(leftover(&path), None);
        // A cluster that nothing refers to.
        bytes.resize(bytes.len() + 65536, 7);
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(leftover(&path), Some(Leftover::Bytes(bytes.len() as u64 - 65536)));
    }

    #[test]
    fn a_compressed_image_is_of_its_disk_alone() {
        let place = tempfile::tempdir().unwrap();
        let (raw, path) = (place.path().join("d.raw"), place.path().join("c.qcow2"));
        let text: Vec<u8> = (0..3_000_000_u32).map(|i| (i / 7 % 251) as u8).collect();
        std::fs::write(&raw, text).unwrap();
        let (from, to) = (raw.to_str().unwrap(), path.to_str().unwrap());
        tool("qemu-img", &["convert", "-c", "-f", "raw", "-O", "qcow2", from, to]);
        assert_eq!(leftover(&path), None);
    }

    #[test]
    fn a_unit_of_a_large_file_that_is_used_in_part_counts_as_left_over() {
        let mut used = Used { size: 10_000, unit: 4096, marks: vec![0; 1] };
        used.mark(0..4096);
        used.mark(4096..5000);
        used.mark(8192..10_000);
        assert_eq!(used.run(0), (true, 1));
        assert_eq!(used.run(1), (false, 2));
        assert_eq!(used.run(2), (true, 3));
        assert_eq!(Used::new(1 << 40).unit, 4096);
    }
}
