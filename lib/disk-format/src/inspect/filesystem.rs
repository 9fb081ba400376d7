//! The content of a partition (or of a disk without partitions), recognised by its signature.
//!
//! Kinds have the names of `blkid`, which users know. There is one file per family: `ext` and `fat` also read
//! directories, [`native`] has Linux' other filesystems, [`windows`] Microsoft's, and [`member`] parts of
//! something larger (LUKS, LVM, RAID, ZFS, swap).

mod member;
mod native;
mod windows;

use super::peek::{Area, Missing};
use super::seed::Seed;
use super::system::System;
use super::{ext, fat, iso, udf};

/// The content of a partition or disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A filesystem, or another structure with a signature.
    Known(Box<Filesystem>),
    /// Zeros at the positions of all signatures.
    Blank,
    /// Data without a known signature.
    Unknown,
    /// The content could not be read, with the reason.
    Unread(String),
}

/// A filesystem, or another structure with a signature.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filesystem {
    /// The kind by `blkid`'s name: `ext4`, `vfat`, `crypto_LUKS` …
    pub kind: &'static str,
    /// A version or variant, if the kind has one.
    pub version: Option<String>,
    pub label: Option<String>,
    /// UUID or serial number.
    pub uuid: Option<String>,
    /// Size in bytes, from its header.
    pub size: Option<u64>,
    /// Free bytes, if the header has them.
    pub free: Option<u64>,
    /// Facts from its directories.
    pub inside: Inside,
}

/// Facts from the directories of a filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Inside {
    /// The kind has no directories, or they are not read.
    #[default]
    NotLookedInto,
    /// A Linux root filesystem, or one that could be.
    System(System),
    /// UEFI boot programs in `EFI/BOOT`, and a cloud-init seed.
    Files {
        /// CPU architectures with a boot program.
        uefi: Vec<&'static str>,
        /// The cloud-init seed, if the filesystem is one.
        seed: Option<Seed>,
    },
}

type Probe = fn(Area<'_>) -> Option<Filesystem>;

/// Probes for signatures in the first 8 KiB, the most reliable first.
const NEAR: &[Probe] = &[
    member::luks,
    member::lvm,
    member::raid_front,
    member::bcache,
    member::swap_4k,
    windows::bitlocker,
    windows::ntfs,
    windows::exfat,
    windows::refs,
    native::xfs,
    native::squashfs,
    native::erofs,
    native::f2fs,
    native::bcachefs,
    native::apfs,
    native::hfsplus,
    native::cramfs,
    ext::filesystem,
    fat::filesystem,
];

/// Probes for signatures further in. Each needs a read of its own.
const FAR: &[Probe] = &[
    iso::filesystem,
    udf::filesystem,
    native::btrfs,
    native::jfs,
    native::reiserfs,
    member::zfs,
    member::swap_large,
    member::raid_end,
];

/// Size of the beginning that the near probes read.
const NEAR_BYTES: usize = 8 << 10;

/// Recognises the content of an area.
pub(crate) fn content(area: Area<'_>) -> Content {
    // One read serves all near probes. If it fails, a shorter one may still succeed.
    let front = area.up_to(0, NEAR_BYTES);
    area.peek.take_missing();
    if let Some(found) = NEAR.iter().chain(FAR).find_map(|probe| probe(area)) {
        return Content::Known(Box::new(found));
    }
    match (area.peek.take_missing(), front) {
        (Some(Missing::PastEnd) | None, Some(front)) if front.iter().all(|&b| b == 0) => Content::Blank,
        (Some(Missing::PastEnd) | None, Some(_)) => Content::Unknown,
        (why, _) => Content::Unread(why.unwrap_or(Missing::PastEnd).to_string()),
    }
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Missing::PastEnd => f.write_str("it lies past the end of the disk"),
            Missing::Unread => f.write_str("it lies past the part of the disk that was read"),
            Missing::Budget => f.write_str("the limit of bytes to read for this disk is reached"),
            Missing::Failed(why) => write!(f, "the read failed: {why}"),
        }
    }
}
