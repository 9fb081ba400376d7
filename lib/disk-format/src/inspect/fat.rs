//! FAT12, FAT16 and FAT32: the boot sector, and (in [`tree`]) enough to read small directories.

mod tree;

pub(crate) use tree::FatTree;

use super::field::{Fields, text};
use super::filesystem::{Filesystem, Inside};
use super::peek::Area;
use super::{boot, seed};

/// The fields of a boot sector that are used here, in bytes and clusters.
pub(crate) struct Bpb {
    sector: u64,
    cluster: u64,
    fat: u64,
    root: Root,
    data: u64,
    clusters: u64,
    width: Width,
    size: u64,
    boot: Vec<u8>,
}

/// Width of an entry in the allocation table, in bits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Width {
    Twelve,
    Sixteen,
    ThirtyTwo,
}

/// Position of the root directory.
#[derive(Clone, Copy)]
enum Root {
    /// An area outside of the clusters.
    Fixed { at: u64, len: u64 },
    /// A chain of clusters, like any other directory.
    Cluster(u32),
}

impl Bpb {
    /// Reads the boot sector of an area. `None` if it is not FAT. FAT has no reliable magic, so every field
    /// must be plausible.
    pub(crate) fn read(area: Area<'_>) -> Option<Bpb> {
        let s = area.get(0, 512)?;
        let (sector, per_cluster) = (u64::from(s.le16(11)?), u64::from(s.byte(13)?));
        let (reserved, fats) = (u64::from(s.le16(14)?), u64::from(s.byte(16)?));
        let jump = matches!(s.byte(0)?, 0xeb | 0xe9);
        let media = s.byte(21)?;
        let plausible = jump
            && s.has(510, &[0x55, 0xaa])
            && matches!(sector, 512 | 1024 | 2048 | 4096)
            && per_cluster.is_power_of_two()
            && reserved > 0
            && matches!(fats, 1 | 2)
            && (media == 0xf0 || media >= 0xf8);
        if !plausible {
            return None;
        }
        let either = |short: u16, long: u32| if short != 0 { u64::from(short) } else { u64::from(long) };
        let sectors = either(s.le16(19)?, s.le32(32)?);
        let fat_sectors = either(s.le16(22)?, s.le32(36)?);
        let root_bytes = u64::from(s.le16(17)?) * 32;
        let root_at = (reserved + fats * fat_sectors) * sector;
        let data = root_at + root_bytes.div_ceil(sector) * sector;
        let size = sectors * sector;
        let cluster = per_cluster * sector;
        let clusters = size.checked_sub(data)? / cluster;
        let wide = s.le16(22)? == 0;
        let width = match clusters {
            _ if wide => Width::ThirtyTwo,
            ..4085 => Width::Twelve,
            _ => Width::Sixteen,
        };
        if fat_sectors == 0 || clusters == 0 || (root_bytes == 0) != wide {
            return None;
        }
        let root =
            if wide { Root::Cluster(s.le32(44)?) } else { Root::Fixed { at: root_at, len: root_bytes } };
        Some(Bpb { sector, cluster, fat: reserved * sector, root, data, clusters, width, size, boot: s })
    }

    /// Size of the filesystem in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Free bytes, from the FSInfo sector of FAT32, which drivers may leave outdated.
    fn free(&self, area: Area<'_>) -> Option<u64> {
        if self.width != Width::ThirtyTwo {
            return None;
        }
        let info = area.get(u64::from(self.boot.le16(48)?) * self.sector, 512)?;
        let clusters = u64::from(info.le32(488)?);
        let told = info.has(0, b"RRaA") && info.has(484, b"rrAa") && clusters <= self.clusters;
        told.then(|| clusters * self.cluster)
    }
}

pub(crate) fn filesystem(area: Area<'_>) -> Option<Filesystem> {
    let bpb = Bpb::read(area)?;
    let (version, fields) = match bpb.width {
        Width::Twelve => ("FAT12", 36),
        Width::Sixteen => ("FAT16", 36),
        Width::ThirtyTwo => ("FAT32", 64),
    };
    // A serial number and a label are present only after this signature.
    let extended = bpb.boot.byte(fields + 2)? == 0x29;
    let serial = extended.then(|| bpb.boot.le32(fields + 3)).flatten().filter(|&n| n != 0);
    let boot_label = bpb.boot.get(fields + 7..fields + 18).filter(|_| extended).and_then(text);
    let (size, free) = (bpb.size, bpb.free(area));
    let tree = FatTree::new(area, bpb);
    let label = tree.label().or(boot_label).filter(|label| label != "NO NAME");
    Some(Filesystem {
        kind: "vfat",
        version: Some(version.into()),
        uuid: serial.map(|n| format!("{:04X}-{:04X}", n >> 16, n & 0xffff)),
        size: Some(size),
        free,
        inside: Inside::Files { uefi: boot::programs(&tree), seed: seed::seed(label.as_deref(), &tree) },
        label,
    })
}
