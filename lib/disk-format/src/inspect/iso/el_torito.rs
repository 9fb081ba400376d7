//! El Torito: the boot entries of an optical disc.

use super::super::boot;
use super::super::fat::{Bpb, FatTree};
use super::super::field::Fields;
use super::super::peek::Area;
use super::SECTOR;

/// Firmware of a boot entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    Bios,
    PowerPc,
    Mac,
    Uefi,
    /// An unknown platform, by its number.
    Other(u8),
}

/// A boot entry of an optical disc.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootEntry {
    /// Firmware of the entry.
    pub platform: Platform,
    /// True if the entry may be booted. Other entries only appear in a menu.
    pub bootable: bool,
    /// Medium that the firmware emulates: `none`, `floppy`, `hard disk`.
    pub emulation: &'static str,
    /// Offset of the boot image in bytes.
    pub offset: u64,
    /// Bytes that the firmware loads. For UEFI the size of a FAT image.
    pub size: u64,
    /// CPU architectures with a boot program in the FAT image of a UEFI entry.
    pub architectures: Vec<&'static str>,
}

/// Reads the entries of the catalogue at sector `lba`, at most those of one sector. A catalogue with an
/// invalid validation entry has none.
pub(super) fn catalogue(area: Area<'_>, lba: u32) -> Vec<BootEntry> {
    let Some(table) = area.get(u64::from(lba) * SECTOR, SECTOR as usize) else { return vec![] };
    let mut records = table.chunks_exact(32);
    let Some(platform) = records.next().and_then(validated) else { return vec![] };
    let mut found: Vec<BootEntry> =
        records.next().and_then(|r| entry(area, platform, r)).into_iter().collect();
    while let Some(header) = records.next().filter(|r| matches!(r[0], 0x90 | 0x91)) {
        let platform = self::platform(header[1]);
        for _ in 0..header.le16(2).unwrap_or(0) {
            let Some(record) = records.next() else { return found };
            found.extend(entry(area, platform, record));
            // Bit 5 of the media type: the entry continues in records of kind 0x44, each with the same flag.
            let mut more = record[1] & 0x20 != 0;
            while more {
                more = records.next().is_some_and(|r| r[0] == 0x44 && r[1] & 0x20 != 0);
            }
        }
        if header[0] == 0x91 {
            break;
        }
    }
    found
}

fn platform(id: u8) -> Platform {
    match id {
        0 => Platform::Bios,
        1 => Platform::PowerPc,
        2 => Platform::Mac,
        0xef => Platform::Uefi,
        other => Platform::Other(other),
    }
}

/// The platform of a validation entry, if its key bytes and checksum are valid.
fn validated(record: &[u8]) -> Option<Platform> {
    let sum = record.chunks_exact(2).fold(0u16, |sum, w| sum.wrapping_add(u16::from_le_bytes([w[0], w[1]])));
    (record[0] == 1 && record.has(30, &[0x55, 0xaa]) && sum == 0).then(|| platform(record[1]))
}

fn entry(area: Area<'_>, platform: Platform, record: &[u8]) -> Option<BootEntry> {
    let bootable = match record[0] {
        0x88 => true,
        0x00 => false,
        _ => return None,
    };
    let emulation = match record[1] & 0xf {
        0 => "none",
        1..=3 => "floppy",
        4 => "hard disk",
        _ => "unknown",
    };
    let (lba, sectors) = (record.le32(8)?, record.le16(6)?);
    if lba == 0 {
        return None;
    }
    let offset = u64::from(lba) * SECTOR;
    let mut found = BootEntry {
        platform,
        bootable,
        emulation,
        offset,
        size: u64::from(sectors) * 512,
        architectures: vec![],
    };
    if platform == Platform::Uefi {
        // The count of sectors is often 0 or 1, since images outgrew its 16 bits. The FAT image has its own
        // size.
        let image = area.from(offset);
        if let Some(bpb) = Bpb::read(image) {
            found.size = found.size.max(bpb.size());
            found.architectures = boot::programs(&FatTree::new(image, bpb));
        }
    }
    Some(found)
}
