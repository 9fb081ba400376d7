//! What lies in a partition (or on a disk without partitions), told by its signature.
//!
//! Kinds carry the names that `blkid` gives them, because people know those. One file per family: `ext` and `fat`
//! also read directories, [`native`] are Linux' other filesystems, [`windows`] Microsoft's, [`member`] what is a part
//! of something larger (LUKS, LVM, RAID, ZFS, swap).

mod member;
mod native;
mod windows;

use super::peek::{Area, Missing};
use super::seed::Seed;
use super::system::System;
use super::{ext, fat, iso, udf};

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A filesystem, or another thing with a signature.
    Known(Box<Filesystem>),
    /// Zeros wherever a signature could be.
    Blank,
    /// Nothing that is known here.
    Unknown,
    /// It could not be looked at, and why.
    Unread(String),
}

/// A filesystem, or another thing with a signature.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filesystem {
    /// The name that `blkid` uses: `ext4`, `vfat`, `crypto_LUKS` …
    pub kind: &'static str,
    /// A version or variant, where the kind has such.
    pub version: Option<String>,
    /// Its label.
    pub label: Option<String>,
    /// Its UUID or serial number.
    pub uuid: Option<String>,
    /// Its size in bytes, as its own header says.
    pub size: Option<u64>,
    /// How much of that is free, where the header tells.
    pub free: Option<u64>,
    /// What was found by reading its directories.
    pub inside: Inside,
}

/// What the directories of a filesystem tell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Inside {
    /// Nobody looked: this kind has no directories, or they are not read here.
    #[default]
    NotLookedInto,
    /// A Linux root filesystem, or at least something that could be one.
    System(System),
    /// Programs for UEFI in `EFI/BOOT`, as architectures; and the seed of cloud-init, if it is one.
    Files {
        /// CPU architectures with a boot program.
        uefi: Vec<&'static str>,
        /// The seed it is.
        seed: Option<Seed>,
    },
}

type Probe = fn(Area<'_>) -> Option<Filesystem>;

/// Signatures in the first 8 KiB, the most certain first.
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

/// Signatures further in, each a read of its own.
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

/// The part of the front in which signatures lie.
const NEAR_BYTES: usize = 8 << 10;

/// Says what lies in an area.
pub(crate) fn content(area: Area<'_>) -> Content {
    // One read for all the near signatures. Where it fails, a part of it may still be there.
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
            Missing::Budget => f.write_str("this look has read as much as it may"),
            Missing::Failed(why) => write!(f, "the read failed: {why}"),
        }
    }
}
