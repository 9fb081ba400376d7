//! Filesystems of Linux and Apple that are recognised only by their superblock.

use super::super::field::{Fields, text, utf16le, uuid};
use super::super::peek::Area;
use super::Filesystem;

/// The block size for a shift, from 512 bytes to 64 KiB.
fn block(shift: u32) -> Option<u64> {
    (9..=16).contains(&shift).then(|| 1 << shift)
}

pub(super) fn xfs(area: Area<'_>) -> Option<Filesystem> {
    let s = area.get(0, 512)?;
    if !s.has(0, b"XFSB") {
        return None;
    }
    let block = u64::from(s.be32(4)?);
    let version = s.be16(100)? & 0xf;
    Some(Filesystem {
        kind: "xfs",
        version: Some(version.to_string()),
        label: text(s.get(108..120)?),
        uuid: uuid(s.array(32)?),
        size: s.be64(8)?.checked_mul(block),
        free: s.be64(144)?.checked_mul(block),
        ..Filesystem::default()
    })
}

pub(super) fn btrfs(area: Area<'_>) -> Option<Filesystem> {
    let s = area.get(0x1_0000, 4096)?;
    if !s.has(0x40, b"_BHRfS_M") {
        return None;
    }
    let (total, used, devices) = (s.le64(0x70)?, s.le64(0x78)?, s.le64(0x88)?);
    Some(Filesystem {
        kind: "btrfs",
        version: (devices > 1).then(|| format!("one of {devices} devices")),
        label: text(s.get(0x12b..0x22b)?),
        uuid: uuid(s.array(0x20)?),
        size: Some(total),
        free: total.checked_sub(used),
        ..Filesystem::default()
    })
}

pub(super) fn squashfs(area: Area<'_>) -> Option<Filesystem> {
    let s = area.get(0, 96)?;
    if !s.has(0, b"hsqs") {
        return None;
    }
    let packer = match s.le16(20)? {
        1 => "gzip",
        2 => "lzma",
        3 => "lzo",
        4 => "xz",
        5 => "lz4",
        6 => "zstd",
        _ => "unknown compression",
    };
    Some(Filesystem {
        kind: "squashfs",
        version: Some(format!("{}.{}, {packer}", s.le16(28)?, s.le16(30)?)),
        size: Some(s.le64(40)?),
        free: Some(0),
        ..Filesystem::default()
    })
}

pub(super) fn erofs(area: Area<'_>) -> Option<Filesystem> {
    let s = area.get(1024, 128)?;
    if s.le32(0)? != 0xe0f5_e1e2 {
        return None;
    }
    Some(Filesystem {
        kind: "erofs",
        label: text(s.get(64..80)?),
        uuid: uuid(s.array(48)?),
        size: block(u32::from(s.byte(12)?)).and_then(|b| b.checked_mul(u64::from(s.le32(36)?))),
        free: Some(0),
        ..Filesystem::default()
    })
}

pub(super) fn f2fs(area: Area<'_>) -> Option<Filesystem> {
    let s = area.get(1024, 1152)?;
    if s.le32(0)? != 0xf2f5_2010 {
        return None;
    }
    Some(Filesystem {
        kind: "f2fs",
        version: Some(format!("{}.{}", s.le16(4)?, s.le16(6)?)),
        label: utf16le(s.get(124..1124)?),
        uuid: uuid(s.array(108)?),
        size: block(s.le32(16)?).and_then(|b| b.checked_mul(s.le64(36)?)),
        ..Filesystem::default()
    })
}

pub(super) fn bcachefs(area: Area<'_>) -> Option<Filesystem> {
    const MAGIC: [u8; 16] =
        [0xc6, 0x85, 0x73, 0xf6, 0x66, 0xce, 0x90, 0xa9, 0xd9, 0x6a, 0x60, 0xcf, 0x80, 0x3d, 0xf7, 0xef];
    let s = area.get(4096, 128)?;
    if !s.has(24, &MAGIC) {
        return None;
    }
    Some(Filesystem {
        kind: "bcachefs",
        label: text(s.get(72..104)?),
        uuid: uuid(s.array(56)?),
        ..Filesystem::default()
    })
}

pub(super) fn jfs(area: Area<'_>) -> Option<Filesystem> {
    let s = area.get(0x8000, 184)?;
    if !s.has(0, b"JFS1") {
        return None;
    }
    // The size is in hardware blocks, which are 512 bytes on all emulated devices.
    Some(Filesystem {
        kind: "jfs",
        label: text(s.get(152..168)?),
        uuid: uuid(s.array(136)?),
        size: s.le64(8)?.checked_mul(512),
        ..Filesystem::default()
    })
}

pub(super) fn reiserfs(area: Area<'_>) -> Option<Filesystem> {
    let s = area.get(0x1_0000, 128)?;
    if !s.has(52, b"ReIsErFs") && !s.has(52, b"ReIsEr2Fs") && !s.has(52, b"ReIsEr3Fs") {
        return None;
    }
    let block = u64::from(s.le16(44)?);
    Some(Filesystem {
        kind: "reiserfs",
        label: text(s.get(100..116)?),
        uuid: uuid(s.array(84)?),
        size: u64::from(s.le32(0)?).checked_mul(block),
        free: u64::from(s.le32(4)?).checked_mul(block),
        ..Filesystem::default()
    })
}

pub(super) fn apfs(area: Area<'_>) -> Option<Filesystem> {
    let s = area.get(0, 128)?;
    if !s.has(32, b"NXSB") {
        return None;
    }
    let size = s.le64(40)?.checked_mul(u64::from(s.le32(36)?));
    Some(Filesystem { kind: "apfs", uuid: uuid(s.array(72)?), size, ..Filesystem::default() })
}

pub(super) fn hfsplus(area: Area<'_>) -> Option<Filesystem> {
    let s = area.get(1024, 64)?;
    // The version is part of the signature, since two letters alone occur in any data.
    if !(s.has(0, b"H+\0\x04") || s.has(0, b"HX\0\x05")) {
        return None;
    }
    let block = u64::from(s.be32(40)?);
    Some(Filesystem {
        kind: "hfsplus",
        size: u64::from(s.be32(44)?).checked_mul(block),
        free: u64::from(s.be32(48)?).checked_mul(block),
        ..Filesystem::default()
    })
}

pub(super) fn cramfs(area: Area<'_>) -> Option<Filesystem> {
    let s = area.get(0, 64)?;
    if !s.has(16, b"Compressed ROMFS") {
        return None;
    }
    let size = Some(u64::from(s.le32(4)?));
    Some(Filesystem {
        kind: "cramfs",
        label: text(s.get(48..64)?),
        size,
        free: Some(0),
        ..Filesystem::default()
    })
}
