//! UDF: the volume's label and version, and (in [`tree`]) directories.
//!
//! ```text
//!   sector 256: anchor ──► volume descriptors ──► logical volume ──► file set ──► root directory
//! ```

mod tree;

pub(crate) use tree::VolumeLayout;

use super::field::{Fields, harmless};
use super::filesystem::Filesystem;
use super::peek::Area;

/// Facts about a UDF volume.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Udf {
    pub label: Option<String>,
    /// Required UDF revision, such as `1.02`.
    pub version: Option<String>,
}

/// A UDF volume and the position of its directories.
pub(crate) struct Volume {
    pub(crate) facts: Udf,
    /// `None` if the layout is not supported (a virtual or metadata partition).
    pub(crate) tree: Option<VolumeLayout>,
}

const ANCHOR: u16 = 2;
const PARTITION: u16 = 5;
const LOGICAL_VOLUME: u16 = 6;
const TERMINATOR: u16 = 8;
/// Limit of volume descriptors that are read.
const MOST_DESCRIPTORS: u32 = 16;

/// Reads the volume in an area. `None` if there is not one.
pub(crate) fn volume(area: Area<'_>) -> Option<Volume> {
    // UDF's descriptors follow those of ISO 9660, one per 2 KiB (or per sector, if sectors are larger).
    let marks = (16..32).map_while(|sector| area.get(sector * 2048, 6));
    let mut marks = marks.take_while(|m| {
        [b"CD001", b"BEA01", b"NSR02", b"NSR03", b"BOOT2", b"TEA01"].iter().any(|id| m.has(1, *id))
    });
    marks.find(|m| m.has(1, b"NSR0"))?;
    // Discs have sectors of 2 KiB, disks have their own sector size.
    [2048u64, 512, 4096].into_iter().find_map(|sector| described(area, sector))
}

fn described(area: Area<'_>, sector: u64) -> Option<Volume> {
    let anchor = descriptor(area, 256, sector).filter(|d| d.le16(0) == Some(ANCHOR))?;
    let (len, first) = (anchor.le32(16)?, anchor.le32(20)?);
    let count = (u64::from(len) / sector).min(u64::from(MOST_DESCRIPTORS)) as u32;
    let (mut logical, mut partitions) = (None, vec![]);
    for n in 0..count {
        let Some(d) = descriptor(area, u64::from(first) + u64::from(n), sector) else { continue };
        match d.le16(0)? {
            PARTITION => partitions.push((d.le16(22)?, d.le32(188)?)),
            LOGICAL_VOLUME => logical = Some(d),
            TERMINATOR => break,
            _ => {}
        }
    }
    let logical = logical?;
    // The suffix of the domain has the revision as binary-coded decimals.
    let revision = logical.le16(216 + 24)?;
    let facts = Udf {
        label: dstring(logical.get(84..212)?),
        version: Some(format!("{:x}.{:02x}", revision >> 8, revision & 0xff)),
    };
    Some(Volume { facts, tree: VolumeLayout::new(&logical, &partitions) })
}

/// The volume as a filesystem, for partitions.
pub(crate) fn filesystem(area: Area<'_>) -> Option<Filesystem> {
    let volume = volume(area)?;
    Some(Filesystem {
        kind: "udf",
        version: volume.facts.version,
        label: volume.facts.label,
        ..Filesystem::default()
    })
}

/// Reads the descriptor in a sector, if its tag is valid: the checksum and its own position.
fn descriptor(area: Area<'_>, lba: u64, sector: u64) -> Option<Vec<u8>> {
    tagged(area.get(lba.checked_mul(sector)?, 512)?, lba)
}

fn tagged(bytes: Vec<u8>, place: u64) -> Option<Vec<u8>> {
    let sum = bytes
        .get(..16)?
        .iter()
        .enumerate()
        .filter(|(i, _)| *i != 4)
        .fold(0u8, |sum, (_, &b)| sum.wrapping_add(b));
    (sum == bytes[4] && u64::from(bytes.le32(12)?) == place).then_some(bytes)
}

/// Text in a field of fixed length, whose last byte has the used length.
fn dstring(field: &[u8]) -> Option<String> {
    let (&len, chars) = field.split_last()?;
    harmless(&cs0(chars.get(..usize::from(len))?)?)
}

/// Text in UDF's encoding: the first byte has the number of bits per character.
fn cs0(bytes: &[u8]) -> Option<String> {
    match bytes.split_first()? {
        (8 | 254, chars) => Some(chars.iter().map(|&b| char::from(b)).collect()),
        (16 | 255, chars) => {
            let units = chars.chunks_exact(2).map(|c| u16::from_be_bytes([c[0], c[1]]));
            Some(char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
        }
        _ => None,
    }
}
