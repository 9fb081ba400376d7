//! The first cluster of a qcow2 file.

use super::geometry::{Geometry, refuse};
use super::{Backing, Options};
use crate::{Codec, ErrorKind, Result};

/// Header of version 3 with the compression type, padded to eight bytes.
const HEADER_LENGTH: u32 = 112;
const INCOMPATIBLE_COMPRESSION_TYPE: u64 = 1 << 3;
const EXTENSION_BACKING_FORMAT: u32 = 0xe279_2aca;
const EXTENSION_FEATURE_NAMES: u32 = 0x6803_f857;
const MAX_BACKING_NAME: usize = 1023;

/// The header and its extensions, without padding. Fails if it does not fit, before anything is written.
pub(super) fn encode(
    options: &Options,
    geometry: &Geometry,
    l1_at: u64,
    refcount_table_at: u64,
) -> Result<Vec<u8>> {
    let zstd = matches!(options.compress, Some(c) if c.codec == Codec::Zstd);
    let mut extensions = Vec::new();
    if let Some(backing) = &options.backing {
        check_backing(backing)?;
        extension(&mut extensions, EXTENSION_BACKING_FORMAT, backing.format.as_bytes());
    }
    if zstd {
        // An old QEMU without zstd then reports the feature's name instead of a bit number.
        let mut feature = [0; 48];
        feature[1] = INCOMPATIBLE_COMPRESSION_TYPE.trailing_zeros() as u8;
        feature[2..18].copy_from_slice(b"compression type");
        extension(&mut extensions, EXTENSION_FEATURE_NAMES, &feature);
    }
    extension(&mut extensions, 0, &[]);

    let name = options.backing.as_ref().map_or("", |b| b.name.as_str());
    let name_at = if name.is_empty() { 0 } else { u64::from(HEADER_LENGTH) + extensions.len() as u64 };

    let mut header = Vec::with_capacity(512);
    header.extend(b"QFI\xfb");
    header.extend(3u32.to_be_bytes());
    header.extend(name_at.to_be_bytes());
    header.extend((name.len() as u32).to_be_bytes());
    header.extend(geometry.cluster_bits.to_be_bytes());
    header.extend(geometry.virtual_size.to_be_bytes());
    header.extend(0u32.to_be_bytes()); // no encryption
    header.extend((geometry.l1_entries as u32).to_be_bytes());
    header.extend(l1_at.to_be_bytes());
    header.extend(refcount_table_at.to_be_bytes());
    header.extend((geometry.refcount_table_clusters as u32).to_be_bytes());
    header.extend(0u32.to_be_bytes()); // no snapshots
    header.extend(0u64.to_be_bytes());
    header.extend(if zstd { INCOMPATIBLE_COMPRESSION_TYPE } else { 0 }.to_be_bytes());
    header.extend(0u64.to_be_bytes()); // compatible features
    header.extend(0u64.to_be_bytes()); // autoclear features
    header.extend(4u32.to_be_bytes()); // refcounts of 2^4 bits
    header.extend(HEADER_LENGTH.to_be_bytes());
    header.extend([u8::from(zstd), 0, 0, 0, 0, 0, 0, 0]);
    header.extend(extensions);
    header.extend(name.as_bytes());

    let cluster = geometry.cluster();
    if header.len() as u64 > cluster {
        let what = format!(
            "the header with its backing file name takes {} bytes, more than a cluster of {cluster}; \
             choose larger clusters or a shorter name",
            header.len()
        );
        return Err(refuse(ErrorKind::Unsupported, what));
    }
    Ok(header)
}

fn check_backing(backing: &Backing) -> Result<()> {
    let (name, format) = (&backing.name, &backing.format);
    if name.is_empty() || name.len() > MAX_BACKING_NAME || name.contains('\0') {
        let what = format!(
            "the backing file name has {} bytes; it must have 1 to {MAX_BACKING_NAME}, none of them NUL",
            name.len()
        );
        return Err(refuse(ErrorKind::Unsupported, what));
    }
    // QEMU keeps the format name in a buffer of 16 bytes.
    if !(1..16).contains(&format.len()) || !format.bytes().all(|b| b.is_ascii_graphic()) {
        let what =
            format!("the backing format is {format:?}; it must be a format's name, such as raw or qcow2");
        return Err(refuse(ErrorKind::Unsupported, what));
    }
    Ok(())
}

fn extension(to: &mut Vec<u8>, kind: u32, bytes: &[u8]) {
    to.extend(kind.to_be_bytes());
    to.extend((bytes.len() as u32).to_be_bytes());
    to.extend(bytes);
    to.resize(to.len().next_multiple_of(8), 0);
}
