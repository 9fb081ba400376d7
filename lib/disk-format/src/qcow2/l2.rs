//! Decoding of an L2 entry, which describes a guest cluster. Pure.

use super::header::Header;
use crate::{ErrorKind, Result};

const OFFSET: u64 = 0x00ff_ffff_ffff_fe00;
const COPIED: u64 = 1 << 63;
const COMPRESSED: u64 = 1 << 62;
const ZERO: u64 = 1;
const SECTOR: u64 = 512;

/// Number of subclusters per cluster with extended entries.
pub(super) const SUBCLUSTERS: u32 = 32;

/// The content of an entry, before its position is compared with the file and the metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cluster {
    /// A cluster of zeros.
    Zero,
    /// An uncompressed cluster at `at`.
    Raw { at: u64 },
    /// A cluster at `at` of which only the subclusters with a bit in `present` have data.
    Parts { at: u64, present: u32 },
    /// A compressed cluster: at most `size` bytes from `at`.
    Packed { at: u64, size: u32 },
}

/// Decodes an entry. `bitmap` is the second half of an extended one.
pub(super) fn decode(header: &Header, entry: u64, bitmap: u64) -> Result<Cluster, (ErrorKind, String)> {
    if entry & COMPRESSED != 0 {
        return packed(header, entry, bitmap);
    }
    let offset = entry & OFFSET;
    let zero_flag = if header.version >= 3 && !header.extended_l2 { ZERO } else { 0 };
    let reserved = entry & !(OFFSET | COPIED | zero_flag);
    if reserved != 0 {
        return Err((ErrorKind::Malformed, format!("the reserved bits {reserved:#x} are set")));
    }
    if !offset.is_multiple_of(header.cluster_size()) {
        let size = header.cluster_size();
        return Err((
            ErrorKind::Malformed,
            format!("{offset:#x} is not a multiple of the cluster size {size}"),
        ));
    }
    if header.extended_l2 {
        return parts(offset, bitmap);
    }
    Ok(if offset == 0 || entry & zero_flag != 0 { Cluster::Zero } else { Cluster::Raw { at: offset } })
}

fn parts(at: u64, bitmap: u64) -> Result<Cluster, (ErrorKind, String)> {
    let (zero, present) = ((bitmap >> 32) as u32, bitmap as u32);
    if zero & present != 0 {
        let both = zero & present;
        return Err((
            ErrorKind::Malformed,
            format!("the subclusters {both:#010x} are marked both zero and present"),
        ));
    }
    match (at, present) {
        (_, 0) => Ok(Cluster::Zero),
        (0, _) => Err((
            ErrorKind::Malformed,
            format!("the subclusters {present:#010x} are present, but the entry has no cluster"),
        )),
        (_, u32::MAX) => Ok(Cluster::Raw { at }),
        _ => Ok(Cluster::Parts { at, present }),
    }
}

fn packed(header: &Header, entry: u64, bitmap: u64) -> Result<Cluster, (ErrorKind, String)> {
    if bitmap != 0 {
        return Err((ErrorKind::Malformed, format!("a compressed cluster has the subclusters {bitmap:#x}")));
    }
    // Bits 61 down: the number of additional sectors, in cluster_bits - 8 bits. The rest is the offset.
    let offset_bits = 62 - (header.cluster_bits - 8);
    let at = entry & ((1 << offset_bits) - 1);
    let further = (entry & !(COPIED | COMPRESSED)) >> offset_bits;
    let size = (further + 1) * SECTOR - at % SECTOR;
    if at >= 1 << 56 {
        return Err((
            ErrorKind::Malformed,
            format!("the compressed data at {at:#x} is beyond the largest possible offset"),
        ));
    }
    // At most two clusters, so it fits.
    let size = u32::try_from(size)
        .map_err(|_| (ErrorKind::Malformed, format!("{size} bytes of compressed data")))?;
    Ok(Cluster::Packed { at, size })
}
