//! Parts of something larger: encrypted containers, volume groups, arrays, pools, swap space.

use super::super::field::{Fields, harmless, text, uuid};
use super::super::peek::Area;
use super::Filesystem;

pub(super) fn luks(area: Area<'_>) -> Option<Filesystem> {
    let s = area.get(0, 256)?;
    if !s.has(0, b"LUKS\xba\xbe") {
        return None;
    }
    let version = s.be16(6)?;
    Some(Filesystem {
        kind: "crypto_LUKS",
        version: Some(version.to_string()),
        label: if version == 2 { text(s.get(24..72)?) } else { None },
        uuid: text(s.get(168..208)?),
        ..Filesystem::default()
    })
}

pub(super) fn lvm(area: Area<'_>) -> Option<Filesystem> {
    let s = area.up_to(0, 2048)?;
    // The label may be in any of the first four sectors. Tools write it to the second.
    let label = s.chunks_exact(512).find(|l| l.has(0, b"LABELONE") && l.has(24, b"LVM2 001"))?;
    let header = label.le32(20)? as usize;
    let id = text(label.get(header..header.checked_add(32)?)?)?;
    let cut = [0, 6, 10, 14, 18, 22, 26, 32];
    let uuid = cut.windows(2).map(|w| id.get(w[0]..w[1])).collect::<Option<Vec<_>>>();
    Some(Filesystem {
        kind: "LVM2_member",
        uuid: uuid.map(|parts| parts.join("-")),
        size: label.le64(header.checked_add(32)?),
        ..Filesystem::default()
    })
}

/// The v1 superblock of Linux software RAID at the beginning: 1.1 in the first sector, 1.2 at 4 KiB.
pub(super) fn raid_front(area: Area<'_>) -> Option<Filesystem> {
    raid_v1(area, 0, "1.1").or_else(|| raid_v1(area, 4096, "1.2"))
}

/// The superblocks at the end: 1.0 and 0.90. With these the beginning often looks like the content of the
/// array.
pub(super) fn raid_end(area: Area<'_>) -> Option<Filesystem> {
    if area.len() == u64::MAX {
        return None;
    }
    let last = (area.len() / 512).checked_sub(16)? & !7;
    raid_v1(area, last.checked_mul(512)?, "1.0").or_else(|| raid_v0(area))
}

fn raid_v1(area: Area<'_>, at: u64, version: &str) -> Option<Filesystem> {
    let s = area.get(at, 256)?;
    if s.le32(0)? != 0xa92b_4efc || s.le32(4)? != 1 {
        return None;
    }
    let level = s.le32(72)? as i32;
    Some(Filesystem {
        kind: "linux_raid_member",
        version: Some(raid_version(version, level, s.le32(92)?)),
        label: text(s.get(32..64)?),
        uuid: uuid(s.array(16)?),
        size: s.le64(80)?.checked_mul(512),
        ..Filesystem::default()
    })
}

fn raid_v0(area: Area<'_>) -> Option<Filesystem> {
    let at = (area.len() & !0xffff).checked_sub(0x1_0000)?;
    let s = area.get(at, 256)?;
    if s.le32(0)? != 0xa92b_4efc || s.le32(4)? != 0 {
        return None;
    }
    let mut id = [0; 16];
    for (i, word) in [5, 13, 14, 15].into_iter().enumerate() {
        id[4 * i..4 * i + 4].copy_from_slice(&s.le32(4 * word)?.to_be_bytes());
    }
    Some(Filesystem {
        kind: "linux_raid_member",
        version: Some(raid_version("0.90", s.le32(28)? as i32, s.le32(40)?)),
        uuid: uuid(id),
        size: u64::from(s.le32(32)?).checked_mul(1024),
        ..Filesystem::default()
    })
}

fn raid_version(version: &str, level: i32, disks: u32) -> String {
    match level {
        -1 => format!("{version}, linear, {disks} disks"),
        level => format!("{version}, RAID{level}, {disks} disks"),
    }
}

pub(super) fn bcache(area: Area<'_>) -> Option<Filesystem> {
    const MAGIC: [u8; 16] =
        [0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d, 0x81];
    let s = area.get(4096, 128)?;
    if !s.has(24, &MAGIC) {
        return None;
    }
    Some(Filesystem {
        kind: "bcache",
        label: text(s.get(72..104)?),
        uuid: uuid(s.array(40)?),
        ..Filesystem::default()
    })
}

/// Swap space with the page size of most CPUs.
pub(super) fn swap_4k(area: Area<'_>) -> Option<Filesystem> {
    swap(area, 4096)
}

/// Swap space of CPUs with larger pages.
pub(super) fn swap_large(area: Area<'_>) -> Option<Filesystem> {
    [8192, 16384, 32768, 65536].into_iter().find_map(|page| swap(area, page))
}

fn swap(area: Area<'_>, page: u64) -> Option<Filesystem> {
    let magic = area.get(page - 10, 10)?;
    let version = match &*magic {
        b"SWAP-SPACE" => {
            return Some(Filesystem { kind: "swap", version: Some("0".into()), ..Filesystem::default() });
        }
        b"SWAPSPACE2" => "1",
        // A guest was suspended to this swap space, which holds its memory.
        b"S1SUSPEND\0" | b"S2SUSPEND\0" | b"ULSUSPEND\0" => "suspended",
        _ => return None,
    };
    let s = area.get(1024, 64)?;
    Some(Filesystem {
        kind: "swap",
        version: Some(version.into()),
        label: text(s.get(28..44)?),
        uuid: uuid(s.array(12)?),
        size: (u64::from(s.le32(4)?) + 1).checked_mul(page),
        ..Filesystem::default()
    })
}

/// A device of a ZFS pool, described by the name/value list in its first label.
pub(super) fn zfs(area: Area<'_>) -> Option<Filesystem> {
    let list = area.get(16 << 10, 4096)?;
    // XDR encoding, either byte order of the host; version 0; unique names.
    if list.byte(0)? != 1 || !list.has(4, &[0, 0, 0, 0, 0, 0, 0, 1]) {
        return None;
    }
    let (mut at, mut name, mut pool, mut version) = (12, None, None, None);
    for _ in 0..32 {
        let Some(size) = list.be32(at).map(|n| n as usize).filter(|&n| n >= 20) else { break };
        let key_len = list.be32(at + 8)? as usize;
        let key = list.get(at + 12..(at + 12).checked_add(key_len)?)?;
        // The key is padded to four bytes. Type and count follow, then the value.
        let value = (at + 12).checked_add(key_len.checked_next_multiple_of(4)?)? + 8;
        match key {
            b"version" => version = list.be64(value),
            b"name" => {
                let len = list.be32(value)? as usize;
                name = list.get(value + 4..(value + 4).checked_add(len)?).and_then(text);
            }
            b"pool_guid" => pool = list.be64(value),
            _ => {}
        }
        match at.checked_add(size) {
            Some(next) if next < list.len() => at = next,
            _ => break,
        }
    }
    pool.or(version)?;
    Some(Filesystem {
        kind: "zfs_member",
        version: version.map(|v| v.to_string()),
        label: name.as_deref().and_then(harmless),
        uuid: pool.map(|p| p.to_string()),
        ..Filesystem::default()
    })
}
