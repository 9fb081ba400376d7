//! Sizes that follow from the options, checked against the limits of QEMU.

use super::{Compression, Options};
use crate::{Codec, Error, ErrorKind, Format, Result};

/// Maximum size of the L1 table in QEMU.
const MAX_L1_BYTES: u64 = 32 << 20;
/// Maximum size of the refcount table in QEMU.
const MAX_REFCOUNT_TABLE_BYTES: u64 = 8 << 20;
/// The entry of an uncompressed cluster has bits 9 to 55 for its offset.
const PLAIN_OFFSET_BITS: u32 = 56;

/// Sizes, all in range: no later arithmetic on them can overflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Geometry {
    /// The disk's size, a multiple of the sector size.
    pub virtual_size: u64,
    pub cluster_bits: u32,
    /// Bytes of the guest's disk that one L2 table maps.
    pub region: u64,
    pub l1_entries: u64,
    pub l1_clusters: u64,
    /// Sufficient for a disk without zeros and without compression.
    pub refcount_table_clusters: u64,
}

impl Geometry {
    pub(super) fn new(options: &Options) -> Result<Self> {
        let cluster_bits = options.cluster_bits;
        if !(9..=21).contains(&cluster_bits) {
            return Err(refuse(
                ErrorKind::Unsupported,
                format!("cluster_bits is {cluster_bits}; choose 9 to 21"),
            ));
        }
        if let Some(Compression { codec, level }) = options.compress {
            let name = match codec {
                Codec::Deflate => "zlib",
                Codec::Zstd => "zstd",
            };
            let max = Compression::max_level(codec);
            if !(1..=max).contains(&level) {
                let what = format!("the {name} compression level is {level}; choose 1 to {max}");
                return Err(refuse(ErrorKind::Unsupported, what));
            }
        }
        let size = options.virtual_size;
        let too_large = || {
            let what = format!(
                "a virtual size of {size} bytes needs larger tables than QEMU opens at clusters of {} bytes; \
                 choose larger clusters (up to 2 MiB)",
                1u64 << cluster_bits
            );
            refuse(ErrorKind::TooLarge, what)
        };
        let virtual_size = size.checked_next_multiple_of(512).ok_or_else(too_large)?;
        let region = 1u64 << (2 * cluster_bits - 3);
        // An empty disk has a table too, since QEMU counts its cluster.
        let l1_entries = virtual_size.div_ceil(region).max(1);
        if l1_entries > MAX_L1_BYTES / 8 {
            return Err(too_large());
        }
        let cluster = 1u64 << cluster_bits;
        let l1_clusters = (l1_entries * 8).div_ceil(cluster);
        let data_clusters = virtual_size.div_ceil(cluster);
        let fixed = 1 + l1_clusters + l1_entries + data_clusters;
        let refcount_table_clusters = refcount_table(cluster, fixed);
        // Twice the sum leaves space for the refcount blocks, which are few.
        let longest_file = (fixed + refcount_table_clusters) * 2 * cluster;
        let longest_possible = 1 << sectors_shift(cluster_bits).min(PLAIN_OFFSET_BITS);
        if refcount_table_clusters * cluster > MAX_REFCOUNT_TABLE_BYTES || longest_file > longest_possible {
            return Err(too_large());
        }
        Ok(Geometry { virtual_size, cluster_bits, region, l1_entries, l1_clusters, refcount_table_clusters })
    }

    pub(super) fn cluster(&self) -> u64 {
        1 << self.cluster_bits
    }

    /// Number of host clusters that one refcount block counts (16 bits each).
    pub(super) fn counts_per_block(&self) -> u64 {
        self.cluster() / 2
    }
}

/// Number of clusters of a refcount table that is sufficient for `others` clusters, the refcount blocks and
/// itself.
fn refcount_table(cluster: u64, others: u64) -> u64 {
    let mut table = 1;
    loop {
        let blocks = (others + table).div_ceil(cluster / 2 - 1);
        let needed = (blocks * 8).div_ceil(cluster);
        if needed <= table {
            return table;
        }
        table = needed;
    }
}

/// Bit position of the sector count in a compressed cluster's entry. The bits below it are the offset.
pub(super) fn sectors_shift(cluster_bits: u32) -> u32 {
    62 - (cluster_bits - 8)
}

pub(super) fn refuse(kind: ErrorKind, what: String) -> Error {
    Error::new(kind, Format::Qcow2, what)
}
