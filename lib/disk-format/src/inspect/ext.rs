//! ext2, ext3 and ext4: the superblock, and (in [`tree`]) enough to find a file by its path.

mod tree;

pub(crate) use tree::ExtTree;

use super::field::{Fields, text, uuid};
use super::filesystem::{Filesystem, Inside};
use super::peek::Area;
use super::system;

/// The fields of a superblock that are used here.
pub(crate) struct Super {
    block: u64,
    first_block: u64,
    blocks: u64,
    free: u64,
    inodes: u32,
    inodes_per_group: u32,
    inode_size: u64,
    descriptor: u64,
    compat: u32,
    incompat: u32,
    ro_compat: u32,
    bytes: Vec<u8>,
}

const HAS_JOURNAL: u32 = 0x4;
const JOURNAL_DEVICE: u32 = 0x8;
const META_BG: u32 = 0x10;
const BITS_64: u32 = 0x80;
/// Features of ext3. Any further one makes it ext4.
const EXT3_INCOMPAT: u32 = 0x2 | 0x4 | META_BG;
const EXT3_RO_COMPAT: u32 = 0x1 | 0x2 | 0x4;

impl Super {
    /// Reads the superblock of an area. `None` if there is not one, or if its numbers are invalid.
    pub(crate) fn read(area: Area<'_>) -> Option<Super> {
        let s = area.get(1024, 1024)?;
        if s.le16(56)? != 0xef53 {
            return None;
        }
        let shift = s.le32(24).filter(|&n| n <= 6)?;
        let incompat = s.le32(96)?;
        let wide = incompat & BITS_64 != 0;
        let high = |at| if wide { s.le32(at).map(u64::from) } else { Some(0) };
        let old = s.le32(76)? == 0;
        let inode_size = if old { 128 } else { u64::from(s.le16(88)?) };
        let descriptor = if wide { u64::from(s.le16(254)?) } else { 32 };
        let block = 1024 << shift;
        if !(128..=block).contains(&inode_size) || !(32..=1024).contains(&descriptor) {
            return None;
        }
        Some(Super {
            block,
            first_block: u64::from(s.le32(20)?),
            blocks: u64::from(s.le32(4)?) | high(336)? << 32,
            free: u64::from(s.le32(12)?) | high(344)? << 32,
            inodes: s.le32(0)?,
            inodes_per_group: s.le32(40).filter(|&n| n > 0)?,
            inode_size,
            descriptor,
            compat: s.le32(92)?,
            incompat,
            ro_compat: s.le32(100)?,
            bytes: s,
        })
    }

    fn kind(&self) -> &'static str {
        match () {
            () if self.incompat & JOURNAL_DEVICE != 0 => "jbd",
            () if self.incompat & !EXT3_INCOMPAT != 0 || self.ro_compat & !EXT3_RO_COMPAT != 0 => "ext4",
            () if self.compat & HAS_JOURNAL != 0 => "ext3",
            () => "ext2",
        }
    }
}

pub(crate) fn filesystem(area: Area<'_>) -> Option<Filesystem> {
    let s = Super::read(area)?;
    let kind = s.kind();
    let mut found = Filesystem {
        kind,
        label: text(s.bytes.get(120..136)?),
        uuid: uuid(s.bytes.array(104)?),
        size: s.blocks.checked_mul(s.block),
        free: s.free.checked_mul(s.block),
        ..Filesystem::default()
    };
    if kind != "jbd" && s.incompat & META_BG == 0 {
        found.inside = Inside::System(system::system(&ExtTree::new(area, s)));
    }
    Some(found)
}
