//! The header, parsed and checked before any of its values is used. Pure. Every error names its field.

use super::extensions::{self, Extensions};
use super::refuse;
use crate::{Codec, ErrorKind, Limits, Result};
use std::ops::Range;

const MAGIC: u32 = 0x5146_49fb;
const V2_LENGTH: u32 = 72;
const V3_LENGTH: u32 = 104;
/// Limits of QEMU: 32 MiB of L1 table, 8 MiB of refcount table, 65,536 snapshots.
const MAX_L1_ENTRIES: u32 = 4 << 20;
const MAX_REFCOUNT_TABLE: u64 = 8 << 20;
const MAX_SNAPSHOTS: u32 = 65_536;
/// Size of the fixed part of a snapshot's entry.
pub(super) const SNAPSHOT_ENTRY: u64 = 40;

const DIRTY: u64 = 1 << 0;
const CORRUPT: u64 = 1 << 1;
const DATA_FILE: u64 = 1 << 2;
const COMPRESSION: u64 = 1 << 3;
const EXTENDED_L2: u64 = 1 << 4;

const BITMAPS: u64 = 1 << 0;
const RAW_DATA_FILE: u64 = 1 << 1;

/// A table of 64-bit entries in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) offset: u64,
    pub(super) entries: u32,
}

impl Table {
    /// The bytes of the table. Parsing has checked that this does not overflow.
    pub(super) fn range(&self) -> Range<u64> {
        self.offset..self.offset + u64::from(self.entries) * 8
    }
}

/// The values of a checked header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) version: u32,
    pub(super) cluster_bits: u32,
    pub(super) size: u64,
    pub(super) l1: Table,
    pub(super) refcounts: Table,
    pub(super) refcount_bits: u32,
    pub(super) snapshots: u32,
    pub(super) snapshots_offset: u64,
    pub(super) codec: Codec,
    pub(super) extended_l2: bool,
    pub(super) dirty: bool,
    pub(super) lazy_refcounts: bool,
    pub(super) bitmaps: bool,
}

/// Result of parsing the beginning of the file.
#[derive(Debug)]
pub(super) enum Parsed {
    Done(Box<Header>),
    /// Number of bytes from the beginning of the file that are needed (at most one cluster).
    Need(usize),
}

impl Header {
    pub(super) fn cluster_size(&self) -> u64 {
        1 << self.cluster_bits
    }

    /// Size of an L2 entry in bytes.
    pub(super) fn entry_bytes(&self) -> u64 {
        if self.extended_l2 { 16 } else { 8 }
    }

    /// An L2 table maps `1 << table_bits` bytes of the guest's disk.
    pub(super) fn table_bits(&self) -> u32 {
        2 * self.cluster_bits - self.entry_bytes().trailing_zeros()
    }

    /// Clusters of metadata that the header lists, with their names for messages.
    pub(super) fn fixed(&self) -> [(Range<u64>, &'static str); 4] {
        let whole = |range: Range<u64>| range.start..range.end.next_multiple_of(self.cluster_size());
        let snapshots =
            self.snapshots_offset..self.snapshots_offset + u64::from(self.snapshots) * SNAPSHOT_ENTRY;
        [
            (0..self.cluster_size(), "the header"),
            (whole(self.l1.range()), "the L1 table"),
            (whole(self.refcounts.range()), "the refcount table"),
            (whole(snapshots), "the snapshot table"),
        ]
    }

    /// Facts for messages, in a fixed order.
    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let yes_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        vec![
            ("version", self.version.to_string()),
            ("cluster size", self.cluster_size().to_string()),
            ("compression", self.codec.name().to_owned()),
            ("extended L2", yes_no(self.extended_l2)),
            ("refcount bits", self.refcount_bits.to_string()),
            ("lazy refcounts", yes_no(self.lazy_refcounts)),
            ("dirty", yes_no(self.dirty)),
            ("snapshots", self.snapshots.to_string()),
            ("bitmaps", yes_no(self.bitmaps)),
        ]
    }

    /// Parses the beginning of the file. `whole` is true if `head` is the complete file.
    pub(super) fn parse(head: &[u8], whole: bool, limits: Limits) -> Result<Parsed> {
        let fields = Fields { head };
        if let Some(need) = fields.missing(V2_LENGTH, whole)? {
            return Ok(Parsed::Need(need));
        }
        if fields.u32(0) != MAGIC {
            return Err(refuse(
                ErrorKind::Malformed,
                0,
                format!("the magic is {:#010x}, not QFI\\xfb", fields.u32(0)),
            ));
        }
        let version = fields.u32(4);
        if !(2..=3).contains(&version) {
            return Err(refuse(
                ErrorKind::Unsupported,
                4,
                format!("version is {version}, only 2 and 3 are supported"),
            ));
        }
        let cluster_bits = fields.u32(20);
        if !(9..=21).contains(&cluster_bits) {
            let what =
                format!("cluster_bits is {cluster_bits}, only 9 to 21 (512 bytes to 2 MiB) are allowed");
            return Err(refuse(ErrorKind::Malformed, 20, what));
        }
        let cluster_size = 1_u32 << cluster_bits;
        let length = if version == 2 {
            V2_LENGTH
        } else {
            if let Some(need) = fields.missing(V3_LENGTH, whole)? {
                return Ok(Parsed::Need(need));
            }
            fields.u32(100)
        };
        if version == 3 && (length < V3_LENGTH || length > cluster_size || length % 8 != 0) {
            let what = format!(
                "header_length is {length}, a multiple of 8 from {V3_LENGTH} to {cluster_size} is allowed"
            );
            return Err(refuse(ErrorKind::Malformed, 100, what));
        }
        if let Some(need) = fields.missing(length, whole)? {
            return Ok(Parsed::Need(need));
        }
        // The backing file's name follows the extensions and ends them. It is only needed for the message.
        let end = match (fields.u64(8), fields.u32(16)) {
            (offset, len) if (u64::from(length)..u64::from(cluster_size)).contains(&offset) => {
                let name_end = offset.saturating_add(u64::from(len.min(1023))).min(u64::from(cluster_size));
                if !whole && (head.len() as u64) < name_end {
                    return Ok(Parsed::Need(name_end as usize));
                }
                offset as u32
            }
            _ => cluster_size,
        };
        match extensions::walk(head, length as usize, end as usize, whole)? {
            Extensions::Need(need) => Ok(Parsed::Need(need)),
            Extensions::Done(features) => {
                let header = fields.header(version, cluster_bits, length, &features, limits)?;
                Ok(Parsed::Done(Box::new(header)))
            }
        }
    }
}

/// Big-endian fields at fixed offsets. Callers use [`Fields::missing`] first; a field out of reach reads as
/// 0.
struct Fields<'a> {
    head: &'a [u8],
}

impl Fields<'_> {
    fn missing(&self, length: u32, whole: bool) -> Result<Option<usize>> {
        match usize::try_from(length) {
            Ok(need) if self.head.len() >= need => Ok(None),
            Ok(need) if !whole => Ok(Some(need)),
            _ => {
                let what = format!(
                    "the header is cut short: it needs {length} bytes, the file has {}",
                    self.head.len()
                );
                Err(refuse(ErrorKind::Truncated, self.head.len() as u64, what))
            }
        }
    }

    fn u32(&self, at: usize) -> u32 {
        self.head.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_be_bytes)
    }

    fn u64(&self, at: usize) -> u64 {
        self.head.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_be_bytes)
    }

    fn header(
        &self,
        version: u32,
        cluster_bits: u32,
        length: u32,
        names: &extensions::FeatureNames,
        limits: Limits,
    ) -> Result<Header> {
        let v3 = version == 3;
        let incompatible = if v3 { self.u64(72) } else { 0 };
        let autoclear = if v3 { self.u64(88) } else { 0 };
        self.refuse_features(incompatible, names)?;
        if autoclear & RAW_DATA_FILE != 0 {
            let what = "autoclear_features has bit 1 (raw external data) set, but the image has no data file";
            return Err(refuse(ErrorKind::Malformed, 88, what));
        }
        self.refuse_outside(cluster_bits)?;
        self.refuse_encryption()?;
        let extended_l2 = incompatible & EXTENDED_L2 != 0;
        if extended_l2 && cluster_bits < 14 {
            let what = format!("cluster_bits is {cluster_bits}, extended L2 entries need at least 14");
            return Err(refuse(ErrorKind::Malformed, 20, what));
        }
        let refcount_order = if v3 { self.u32(96) } else { 4 };
        if refcount_order > 6 {
            let what = format!("refcount_order is {refcount_order}, at most 6 (64 bits) is allowed");
            return Err(refuse(ErrorKind::Malformed, 96, what));
        }
        let header = Header {
            version,
            cluster_bits,
            size: self.size(limits)?,
            l1: self.l1(cluster_bits)?,
            refcounts: self.refcounts(cluster_bits)?,
            refcount_bits: 1 << refcount_order,
            snapshots: self.u32(60),
            snapshots_offset: self.snapshots(cluster_bits)?,
            codec: self.codec(incompatible, length)?,
            extended_l2,
            dirty: incompatible & DIRTY != 0,
            lazy_refcounts: v3 && self.u64(80) & 1 != 0,
            bitmaps: autoclear & BITMAPS != 0,
        };
        let needed = header.size.div_ceil(1 << header.table_bits());
        if u64::from(header.l1.entries) < needed {
            let what =
                format!("l1_size is {}, a disk of {} bytes needs {needed}", header.l1.entries, header.size);
            return Err(refuse(ErrorKind::Malformed, 36, what));
        }
        refuse_overlap(&header)?;
        Ok(header)
    }

    fn refuse_features(&self, bits: u64, names: &extensions::FeatureNames) -> Result<()> {
        if bits & CORRUPT != 0 {
            let what = "incompatible_features has bit 1 set: QEMU marked this image corrupt; \
                        repair it first: qemu-img check -r all";
            return Err(refuse(ErrorKind::Malformed, 72, what));
        }
        if bits & DATA_FILE != 0 {
            let name = self.data_file();
            let what =
                format!("the data is in another file{name}, and files outside of the image are not opened");
            return Err(refuse(ErrorKind::Outside, 72, what));
        }
        let unknown = bits & !(DIRTY | CORRUPT | DATA_FILE | COMPRESSION | EXTENDED_L2);
        if unknown == 0 {
            return Ok(());
        }
        let bit = unknown.trailing_zeros();
        let name = names.incompatible(bit).map(|name| format!(" ({name})")).unwrap_or_default();
        let what = format!("incompatible_features has the unknown bit {bit}{name} set ({bits:#x})");
        Err(refuse(ErrorKind::Unsupported, 72, what))
    }

    fn refuse_outside(&self, cluster_bits: u32) -> Result<()> {
        let (offset, len) = (self.u64(8), self.u32(16));
        if offset == 0 {
            return Ok(());
        }
        if offset >= 1 << cluster_bits {
            let what = format!("backing_file_offset is {offset:#x}, past the first cluster");
            return Err(refuse(ErrorKind::Malformed, 8, what));
        }
        let end = offset.saturating_add(u64::from(len));
        let bytes = usize::try_from(offset).ok().zip(usize::try_from(end).ok());
        let name =
            bytes.and_then(|(from, to)| self.head.get(from..to.min(self.head.len()))).unwrap_or_default();
        let what = format!(
            "it is an overlay over the backing file \"{}\", and files outside of the image are not opened; \
             if you made the overlay yourself, flatten it: qemu-img convert -O qcow2 IN OUT; a disk from another source could \
             copy any file of this host into the result",
            extensions::printable_name(name)
        );
        Err(refuse(ErrorKind::Outside, 8, what))
    }

    fn data_file(&self) -> String {
        extensions::data_file(self.head, self.u32(100) as usize)
            .map(|name| format!(" (\"{}\")", extensions::printable_name(name)))
            .unwrap_or_default()
    }

    fn refuse_encryption(&self) -> Result<()> {
        let what = match self.u32(32) {
            0 => return Ok(()),
            1 => "crypt_method is 1: the image is encrypted (AES); decrypt it first with qemu-img convert"
                .to_owned(),
            2 => "crypt_method is 2: the image is encrypted (LUKS); decrypt it first with qemu-img convert"
                .to_owned(),
            n => format!("crypt_method is {n}, which is unknown"),
        };
        Err(refuse(ErrorKind::Unsupported, 32, what))
    }

    fn size(&self, limits: Limits) -> Result<u64> {
        let size = self.u64(24);
        if size > limits.max_size {
            let what =
                format!("the virtual size is {size} bytes, over the limit of {} bytes", limits.max_size);
            return Err(refuse(ErrorKind::TooLarge, 24, what));
        }
        if !size.is_multiple_of(512) {
            let what = format!("the virtual size is {size} bytes, not a multiple of 512");
            return Err(refuse(ErrorKind::Malformed, 24, what));
        }
        Ok(size)
    }

    fn l1(&self, cluster_bits: u32) -> Result<Table> {
        let table = Table { offset: self.u64(40), entries: self.u32(36) };
        if table.entries > MAX_L1_ENTRIES {
            let what = format!("l1_size is {}, at most {MAX_L1_ENTRIES} is allowed", table.entries);
            return Err(refuse(ErrorKind::TooLarge, 36, what));
        }
        self.placed("l1_table_offset", 40, table.offset, u64::from(table.entries) * 8, cluster_bits)?;
        Ok(table)
    }

    fn refcounts(&self, cluster_bits: u32) -> Result<Table> {
        let clusters = self.u32(56);
        let bytes = u64::from(clusters) << cluster_bits;
        if clusters == 0 {
            return Err(refuse(
                ErrorKind::Malformed,
                56,
                "refcount_table_clusters is 0, there must be a table",
            ));
        }
        if bytes > MAX_REFCOUNT_TABLE {
            let what =
                format!("refcount_table_clusters is {clusters}, at most 8 MiB of refcount table is allowed");
            return Err(refuse(ErrorKind::TooLarge, 56, what));
        }
        let offset = self.u64(48);
        self.placed("refcount_table_offset", 48, offset, bytes, cluster_bits)?;
        Ok(Table { offset, entries: (bytes / 8) as u32 })
    }

    fn snapshots(&self, cluster_bits: u32) -> Result<u64> {
        let (count, offset) = (self.u32(60), self.u64(64));
        if count > MAX_SNAPSHOTS {
            let what = format!("nb_snapshots is {count}, at most {MAX_SNAPSHOTS} is allowed");
            return Err(refuse(ErrorKind::TooLarge, 60, what));
        }
        self.placed("snapshots_offset", 64, offset, u64::from(count) * SNAPSHOT_ENTRY, cluster_bits)?;
        Ok(offset)
    }

    /// Checks the position of a table: aligned to a cluster, after the header, and in the range of offsets.
    fn placed(&self, field: &str, at: u64, offset: u64, len: u64, cluster_bits: u32) -> Result<()> {
        let cluster = 1_u64 << cluster_bits;
        let fault = match () {
            () if !offset.is_multiple_of(cluster) => format!("not a multiple of the cluster size {cluster}"),
            () if offset == 0 && len > 0 => "inside the header".to_owned(),
            () if offset >= 1 << 56 || len >= 1 << 56 => "beyond the largest possible offset".to_owned(),
            () => return Ok(()),
        };
        Err(refuse(ErrorKind::Malformed, at, format!("{field} is {offset:#x}, {fault}")))
    }

    fn codec(&self, incompatible: u64, length: u32) -> Result<Codec> {
        let kind = if length > V3_LENGTH { self.head.get(104).copied().unwrap_or(0) } else { 0 };
        let fault = match (kind, incompatible & COMPRESSION != 0) {
            (0, false) => return Ok(Codec::Deflate),
            (1, true) => return Ok(Codec::Zstd),
            (0, true) => "zlib, but incompatible_features has bit 3 (compression type) set",
            (1, false) => "zstd, but incompatible_features has bit 3 (compression type) not set",
            _ => {
                return Err(refuse(
                    ErrorKind::Unsupported,
                    104,
                    format!("compression_type is {kind}, only 0 (zlib) and 1 (zstd) are supported"),
                ));
            }
        };
        Err(refuse(ErrorKind::Malformed, 104, format!("compression_type is {kind}: {fault}")))
    }
}

/// Fails if two of the tables that the header lists share a cluster.
fn refuse_overlap(header: &Header) -> Result<()> {
    let fields = [0, 40, 48, 64];
    let fixed = header.fixed();
    for (i, (a, a_name)) in fixed.iter().enumerate() {
        for ((b, b_name), field) in fixed.iter().zip(fields).take(i) {
            if a.start.max(b.start) < a.end.min(b.end) {
                let field = fields[i].max(field);
                return Err(refuse(
                    ErrorKind::Malformed,
                    field,
                    format!("{a_name} at {:#x} overlaps {b_name} at {:#x}", a.start, b.start),
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
