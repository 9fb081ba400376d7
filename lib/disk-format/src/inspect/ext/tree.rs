//! Inodes, their blocks, and directories, which are read linearly (hash trees are laid out so that this
//! works).

use super::super::field::Fields;
use super::super::peek::{Area, Peek};
use super::super::tree::{Entry, MOST_DIR, Tree};
use super::Super;

/// An ext filesystem whose files are found by path.
pub(crate) struct ExtTree<'a> {
    area: Area<'a>,
    superblock: Super,
}

const ROOT: u32 = 2;
const DIRECTORY: u16 = 0x4000;
const ORDINARY: u16 = 0x8000;
const USES_EXTENTS: u32 = 0x8_0000;
const INLINE_DATA: u32 = 0x1000_0000;
const ENCRYPTED: u32 = 0x800;
/// Maximum depth of an extent tree, from the format.
const DEEPEST: u16 = 5;
/// Limit of blocks with pointers or extents that are read for one file.
const MOST_NODES: u32 = 32;

/// A run of contiguous blocks of a file.
struct Run {
    logical: u64,
    physical: u64,
    blocks: u64,
}

impl<'a> ExtTree<'a> {
    pub(crate) fn new(area: Area<'a>, superblock: Super) -> Self {
        ExtTree { area, superblock }
    }

    fn inode(&self, number: u32) -> Option<Vec<u8>> {
        let s = &self.superblock;
        let index = number.checked_sub(1).filter(|_| number <= s.inodes)?;
        let (group, index) = (u64::from(index / s.inodes_per_group), u64::from(index % s.inodes_per_group));
        let at = (s.first_block + 1) * s.block + group * s.descriptor;
        let descriptor = self.area.get(at, s.descriptor as usize)?;
        let high = if s.descriptor >= 64 { descriptor.le32(40)? } else { 0 };
        let table = u64::from(descriptor.le32(8)?) | u64::from(high) << 32;
        let at = table.checked_mul(s.block)?.checked_add(index * s.inode_size)?;
        self.area.get(at, 128)
    }

    /// Reads the first `most` bytes of an inode with this type.
    fn bytes(&self, number: u32, kind: u16, most: u64) -> Option<Vec<u8>> {
        let inode = self.inode(number)?;
        let (mode, flags) = (inode.le16(0)?, inode.le32(32)?);
        if mode & 0xf000 != kind || flags & (INLINE_DATA | ENCRYPTED) != 0 {
            return None;
        }
        let size = u64::from(inode.le32(4)?) | u64::from(inode.le32(108)?) << 32;
        let size = size.min(most);
        let block = self.superblock.block;
        let pointers = inode.get(40..100)?;
        let mut runs = vec![];
        let mut nodes = 0;
        let wanted = size.div_ceil(block);
        if flags & USES_EXTENTS != 0 {
            self.extents(pointers, DEEPEST, wanted, &mut nodes, &mut runs)?;
        } else {
            self.pointers(pointers, wanted, &mut nodes, &mut runs)?;
        }
        let mut out = vec![0; size as usize];
        for run in runs {
            let from = run.logical.checked_mul(block)?;
            let len = run.blocks.checked_mul(block)?.min(size.saturating_sub(from)) as usize;
            if len > 0 {
                let bytes = self.area.get(run.physical.checked_mul(block)?, len)?;
                out[from as usize..from as usize + len].copy_from_slice(&bytes);
            }
        }
        Some(out)
    }

    /// Collects the runs of an extent tree that begin before block `wanted`.
    fn extents(
        &self,
        node: &[u8],
        depth: u16,
        wanted: u64,
        nodes: &mut u32,
        runs: &mut Vec<Run>,
    ) -> Option<()> {
        let (entries, level) = (node.le16(2)?, node.le16(6)?);
        if node.le16(0)? != 0xf30a || level > depth {
            return None;
        }
        for i in 0..usize::from(entries) {
            let at = 12 + 12 * i;
            let logical = u64::from(node.le32(at)?);
            if logical >= wanted {
                break;
            }
            if level == 0 {
                // A length above 32768 marks a preallocated extent, which reads as zeros.
                let blocks = node.le16(at + 4)?;
                if blocks <= 0x8000 {
                    let physical = u64::from(node.le16(at + 6)?) << 32 | u64::from(node.le32(at + 8)?);
                    runs.push(Run { logical, physical, blocks: u64::from(blocks) });
                }
            } else {
                let child = u64::from(node.le16(at + 8)?) << 32 | u64::from(node.le32(at + 4)?);
                let child = self.node(child, nodes)?;
                self.extents(&child, level - 1, wanted, nodes, runs)?;
            }
        }
        Some(())
    }

    /// Collects runs from the old block map: twelve direct blocks, one indirect, one double indirect.
    fn pointers(&self, inode: &[u8], wanted: u64, nodes: &mut u32, runs: &mut Vec<Run>) -> Option<()> {
        let mut logical = 0;
        direct(inode.get(..48)?, wanted, &mut logical, runs);
        if logical < wanted {
            let single = self.node(u64::from(inode.le32(48)?), nodes)?;
            direct(&single, wanted, &mut logical, runs);
        }
        if logical < wanted {
            let double = self.node(u64::from(inode.le32(52)?), nodes)?;
            for pointer in double.chunks_exact(4) {
                if logical >= wanted {
                    break;
                }
                let single = self.node(u64::from(pointer.le32(0)?), nodes)?;
                direct(&single, wanted, &mut logical, runs);
            }
        }
        Some(())
    }

    /// Reads a block of extents or pointers. Their number is limited for each file.
    fn node(&self, block: u64, nodes: &mut u32) -> Option<Vec<u8>> {
        *nodes += 1;
        let size = self.superblock.block;
        if *nodes > MOST_NODES || block == 0 {
            return None;
        }
        self.area.get(block.checked_mul(size)?, size as usize)
    }
}

/// Adds the block numbers in `list` as runs. 0 is a hole.
fn direct(list: &[u8], wanted: u64, logical: &mut u64, runs: &mut Vec<Run>) {
    for pointer in list.chunks_exact(4) {
        if *logical >= wanted {
            return;
        }
        let physical = u64::from(pointer.le32(0).unwrap_or(0));
        match runs.last_mut() {
            _ if physical == 0 => {}
            Some(run) if run.physical + run.blocks == physical && run.logical + run.blocks == *logical => {
                run.blocks += 1
            }
            _ => runs.push(Run { logical: *logical, physical, blocks: 1 }),
        }
        *logical += 1;
    }
}

impl Tree for ExtTree<'_> {
    type Node = u32;

    fn peek(&self) -> &Peek<'_> {
        self.area.peek
    }

    fn root(&self) -> Option<u32> {
        Some(ROOT)
    }

    fn list(&self, dir: &u32) -> Option<Vec<Entry<u32>>> {
        let bytes = self.bytes(*dir, DIRECTORY, MOST_DIR)?;
        let mut found = vec![];
        for block in bytes.chunks(self.superblock.block as usize) {
            let mut at = 0;
            while let (Some(node), Some(len)) = (block.le32(at), block.le16(at + 4)) {
                // In blocks of 64 KiB, 65535 or 0 stands for the whole block.
                let len = if len == 0 || len == u16::MAX { block.len() } else { usize::from(len) };
                let name = block.byte(at + 6).and_then(|n| block.get(at + 8..at + 8 + usize::from(n)));
                if let (true, Some(name)) = (node != 0, name) {
                    found.push(Entry { name: String::from_utf8_lossy(name).into_owned(), node });
                }
                if len < 8 {
                    break;
                }
                at += len;
            }
        }
        Some(found)
    }

    fn read(&self, file: &u32, most: usize) -> Option<Vec<u8>> {
        self.bytes(*file, ORDINARY, most as u64)
    }

    fn exact(&self) -> bool {
        true
    }
}
