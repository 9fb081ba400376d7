//! Microsoft's filesystems, without FAT.

use super::super::field::{Fields, utf16le};
use super::super::peek::Area;
use super::Filesystem;

pub(super) fn bitlocker(area: Area<'_>) -> Option<Filesystem> {
    let s = area.get(0, 512)?;
    s.has(3, b"-FVE-FS-").then(|| Filesystem { kind: "BitLocker", ..Filesystem::default() })
}

pub(super) fn refs(area: Area<'_>) -> Option<Filesystem> {
    let s = area.get(0, 512)?;
    if !s.has(3, b"ReFS\0\0\0\0") {
        return None;
    }
    let size = s.le64(24)?.checked_mul(u64::from(s.le32(32)?));
    let uuid = Some(format!("{:016X}", s.le64(56)?));
    Some(Filesystem { kind: "ReFS", uuid, size, ..Filesystem::default() })
}

pub(super) fn ntfs(area: Area<'_>) -> Option<Filesystem> {
    let s = area.get(0, 512)?;
    if !s.has(3, b"NTFS    ") {
        return None;
    }
    let sector = u64::from(s.le16(11)?);
    Some(Filesystem {
        kind: "ntfs",
        label: ntfs_label(area, &s),
        uuid: Some(format!("{:016X}", s.le64(72)?)),
        size: s.le64(40)?.checked_mul(sector),
        ..Filesystem::default()
    })
}

/// The label: attribute 0x60 of file record 3 (`$Volume`).
fn ntfs_label(area: Area<'_>, boot: &[u8]) -> Option<String> {
    let sector = u64::from(boot.le16(11)?);
    let per_cluster = u64::from(boot.byte(13)?);
    // A value above 128 is a negative shift, for clusters larger than 64 KiB.
    let sectors = if per_cluster > 128 { 1u64.checked_shl(256 - per_cluster as u32)? } else { per_cluster };
    let cluster = sectors.checked_mul(sector)?;
    let record = match boot.byte(64)? as i8 {
        n @ 1.. => u64::from(n.unsigned_abs()).checked_mul(cluster)?,
        n => 1u64.checked_shl(u32::from(n.unsigned_abs()))?,
    };
    if !(512..=4096).contains(&record) {
        return None;
    }
    let at = boot.le64(48)?.checked_mul(cluster)?.checked_add(3 * record)?;
    let mut file = area.get(at, record as usize)?;
    if !file.has(0, b"FILE") {
        return None;
    }
    // The last two bytes of each sector were replaced by a sequence number when the record was written.
    let (fixups, count) = (usize::from(file.le16(4)?), usize::from(file.le16(6)?));
    for i in 1..count.min(9) {
        let two: [u8; 2] = file.array(fixups + 2 * i)?;
        file.get_mut(i * 512 - 2..i * 512)?.copy_from_slice(&two);
    }
    let mut at = usize::from(file.le16(20)?);
    for _ in 0..32 {
        let (kind, len) = (file.le32(at)?, file.le32(at + 4)? as usize);
        if kind == 0x60 && file.byte(at + 8)? == 0 {
            let (size, from) = (file.le32(at + 16)? as usize, usize::from(file.le16(at + 20)?));
            return utf16le(file.get(at + from..(at + from).checked_add(size)?)?);
        }
        if kind == u32::MAX || len < 16 {
            return None;
        }
        at = at.checked_add(len)?;
    }
    None
}

pub(super) fn exfat(area: Area<'_>) -> Option<Filesystem> {
    let s = area.get(0, 512)?;
    if !s.has(3, b"EXFAT   ") {
        return None;
    }
    let sector_shift = u32::from(s.byte(108)?);
    if !(9..=12).contains(&sector_shift) {
        return None;
    }
    let serial = s.le32(100)?;
    Some(Filesystem {
        kind: "exfat",
        label: exfat_label(area, &s, sector_shift),
        uuid: Some(format!("{:04X}-{:04X}", serial >> 16, serial & 0xffff)),
        size: s.le64(72)?.checked_mul(1 << sector_shift),
        ..Filesystem::default()
    })
}

/// The label: entry 0x83, among the first ones of the root folder.
fn exfat_label(area: Area<'_>, boot: &[u8], sector_shift: u32) -> Option<String> {
    let (heap, root) = (u64::from(boot.le32(88)?), u64::from(boot.le32(96)?));
    let cluster_shift = sector_shift + u32::from(boot.byte(109)?);
    if cluster_shift > 25 {
        return None;
    }
    let at = (heap << sector_shift).checked_add(root.checked_sub(2)? << cluster_shift)?;
    let entries = area.get(at, 512)?;
    let label = entries.chunks_exact(32).take_while(|e| e[0] != 0).find(|e| e[0] == 0x83)?;
    utf16le(label.get(2..2 + 2 * usize::from(label[1]).min(11))?)
}
