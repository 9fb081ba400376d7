//! Examination of a disk: partitions, filesystems, labels, boot firmware, operating system.
//!
//! ```text
//!   disk (ReadAt) ─► peek: bounded, pages kept ─┬─► partition, gpt ─► each partition ─► filesystem ─► ext, fat: directories
//!                                               ├─► iso, udf ─► El Torito, directories ─► media, seed
//!                                               └─► boot: the hints put together
//!   header of an image file ─► outside: names of other files
//! ```
//!
//! **Owns** the meaning of the structures that guests and installers write at known positions. **Promises**:
//! [`inspect`] never fails and never panics. It reads at most [`BYTES`] with at most [`READS`] reads, whatever
//! the disk contains, and all text in the result is safe to print. Parts that could not be read are reported,
//! never guessed. A wrong checksum is a finding, not an error. **Does not**: follow links, mount, decrypt,
//! assemble arrays, or write.

mod boot;
mod ext;
mod fat;
mod field;
mod filesystem;
mod gpt;
mod iso;
mod kind_name;
mod media;
mod outside;
mod partition;
mod peek;
mod seed;
mod system;
mod tree;
mod udf;

pub use boot::Boot;
pub use filesystem::{Content, Filesystem, Inside};
pub use iso::{BootEntry, Optical, Platform};
pub use media::Medium;
pub use outside::{Reference, ReferenceKind, outside};
pub use partition::{MOST_PARTITIONS, Partition, PartitionTable, TableKind};
pub use peek::{BYTES, READS};
pub use seed::Seed;
pub use system::{Os, System};
pub use udf::Udf;

use crate::ReadAt;
use peek::Peek;

/// Facts about a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskFacts {
    /// The partition table. Hybrid ISO images have one too.
    pub table: Option<PartitionTable>,
    /// Content of the disk itself, without a partition table.
    pub whole: Content,
    /// Facts about an optical disc image.
    pub optical: Option<Optical>,
    /// Firmware that could boot the disk.
    pub boot: Boot,
    /// Number of reads that this took.
    pub reads: u64,
    /// Number of bytes that were read.
    pub bytes: u64,
}

/// Examines a disk that can be read completely.
pub fn inspect(disk: &dyn ReadAt) -> DiskFacts {
    inspect_partial(disk, Some(disk.size()))
}

/// Examines a disk of which perhaps only the beginning can be read. `size` is that of the whole disk, if
/// known. A read past the readable part (the end of `disk`, or `UnexpectedEof`) is recorded, and the
/// examination goes on.
pub fn inspect_partial(disk: &dyn ReadAt, size: Option<u64>) -> DiskFacts {
    let peek = Peek::new(disk, size);
    let whole = peek.whole();
    let front = whole.up_to(0, 8192).unwrap_or_default();
    let optical = iso::optical(whole);
    let mut table = table(&peek, &front);
    let mut on_disk = Content::Unknown;
    if table.as_ref().is_none_or(|t| t.kind == TableKind::Mbr && t.partitions.is_empty()) {
        on_disk = filesystem::content(whole);
        // The boot sector of a filesystem looks like an MBR without partitions.
        let known = matches!(on_disk, Content::Known(_));
        table = table.filter(|t| !t.problems.is_empty() || (t.id.is_some() && !known));
    }
    if let Some(table) = &mut table {
        table.check(peek.size(), optical.is_some());
        for partition in &mut table.partitions {
            partition.content = filesystem::content(peek.area(partition.start, partition.size));
        }
    }
    let boot = boot::boot(&front, table.as_ref(), &on_disk, optical.as_ref());
    let (reads, bytes) = peek.cost();
    DiskFacts { table, whole: on_disk, optical, boot, reads, bytes }
}

/// Reads the partition table of a disk. As in Linux, a GPT is used if the MBR announces it, or if there is no
/// MBR.
fn table(peek: &Peek<'_>, front: &[u8]) -> Option<PartitionTable> {
    let mbr = front.get(..512).and_then(partition::mbr);
    let signature = [512, 4096].iter().any(|&at| front.get(at..at + 8) == Some(gpt::SIGNATURE));
    let protective = mbr.as_ref().is_some_and(partition::Mbr::protective);
    let own = mbr.as_ref().filter(|m| m.primaries().next().is_some());
    match (protective, signature, own) {
        (true, _, own) => match (gpt::gpt(peek), own) {
            (Some(mut table), Some(own)) => {
                table.kind = TableKind::Hybrid;
                table.problem(hybrid(own));
                Some(table)
            }
            (Some(table), None) => Some(table),
            (None, _) => {
                let mut table = mbr?.table(peek);
                table.problem("the MBR announces a GPT, but there is none".into());
                Some(table)
            }
        },
        (false, true, None) => {
            let mut table = gpt::gpt(peek)?;
            table.problem("there is no protective MBR, so most systems ignore this GPT".into());
            Some(table)
        }
        (false, true, Some(own)) => {
            let mut table = own.table(peek);
            table.problem("there is a GPT too, but the MBR does not announce it".into());
            Some(table)
        }
        (false, false, _) => mbr.map(|m| m.table(peek)),
    }
}

fn hybrid(mbr: &partition::Mbr) -> String {
    let numbers: Vec<String> = mbr.primaries().map(|(n, e)| format!("{n} (type {:02x})", e.kind)).collect();
    format!("the MBR names partitions of its own: {}", numbers.join(", "))
}

#[cfg(test)]
mod tests;
