//! Directories of UDF on ordinary partitions (type 1 maps), as discs and Windows' installers have them.

use super::super::field::Fields;
use super::super::peek::{Area, Peek};
use super::super::tree::{Entry, MOST_DIR, Tree};
use super::{cs0, tagged};

const FILE_SET: u16 = 256;
const FILE_ID: u16 = 257;
const FILE_ENTRY: u16 = 261;
const EXTENDED_FILE_ENTRY: u16 = 266;
const DIRECTORY: u8 = 4;
const ORDINARY: u8 = 5;
/// Limit of allocation descriptors that are followed for one file.
const MOST_EXTENTS: usize = 64;

/// Layout of a volume: its partitions and file set.
pub(crate) struct VolumeLayout {
    block: u64,
    /// The first sector of each partition, by reference number.
    partitions: Vec<u32>,
    file_set: Node,
}

/// The address of a file entry: block and partition.
#[derive(Clone, Copy)]
pub(crate) struct Node {
    block: u32,
    partition: u16,
}

impl VolumeLayout {
    /// The layout from a logical volume descriptor and the partitions (number, first sector).
    pub(super) fn new(logical: &[u8], known: &[(u16, u32)]) -> Option<VolumeLayout> {
        let block = logical.le32(212).filter(|b| b.is_power_of_two() && (512..=4096).contains(b))?;
        let maps = logical.le32(268)?.min(4);
        let mut partitions = vec![];
        let mut at = 440;
        for _ in 0..maps {
            // A type 1 map has six bytes: the number of the volume and of the partition. Other types map
            // blocks indirectly.
            if !logical.has(at, &[1, 6]) {
                return None;
            }
            let number = logical.le16(at + 4)?;
            partitions.push(known.iter().find(|(n, _)| *n == number)?.1);
            at += 6;
        }
        let file_set = long_address(logical, 248)?;
        Some(VolumeLayout { block: u64::from(block), partitions, file_set })
    }

    /// The directories, beginning at the file set's root.
    pub(crate) fn tree<'a, 'p>(&'p self, area: Area<'a>) -> Option<UdfTree<'a, 'p>> {
        let mut tree = UdfTree { area, place: self, root: self.file_set };
        let set = tree.descriptor(self.file_set).filter(|d| d.le16(0) == Some(FILE_SET))?;
        tree.root = long_address(&set, 400)?;
        Some(tree)
    }
}

/// A UDF volume whose files are found by path.
pub(crate) struct UdfTree<'a, 'p> {
    area: Area<'a>,
    place: &'p VolumeLayout,
    root: Node,
}

/// An address with its partition: length, block, partition.
fn long_address(bytes: &[u8], at: usize) -> Option<Node> {
    Some(Node { block: bytes.le32(at + 4)?, partition: bytes.le16(at + 8)? })
}

impl UdfTree<'_, '_> {
    fn offset(&self, node: Node) -> Option<u64> {
        let first = *self.place.partitions.get(usize::from(node.partition))?;
        Some((u64::from(first) + u64::from(node.block)) * self.place.block)
    }

    fn descriptor(&self, node: Node) -> Option<Vec<u8>> {
        tagged(self.area.get(self.offset(node)?, self.place.block as usize)?, u64::from(node.block))
    }

    /// Reads the first `most` bytes of a file with this type.
    fn bytes(&self, node: Node, kind: u8, most: u64) -> Option<Vec<u8>> {
        let entry = self.descriptor(node)?;
        let fixed = match entry.le16(0)? {
            FILE_ENTRY => 176,
            EXTENDED_FILE_ENTRY => 216,
            _ => return None,
        };
        if entry.byte(16 + 11)? != kind {
            return None;
        }
        let size = entry.le64(56)?.min(most) as usize;
        let (attributes, len) = (entry.le32(fixed - 8)? as usize, entry.le32(fixed - 4)? as usize);
        let from = fixed.checked_add(attributes)?;
        let allocation = entry.get(from..from.checked_add(len)?)?;
        let step = match entry.le16(16 + 18)? & 7 {
            0 => 8,
            1 => 16,
            3 => return allocation.get(..size.min(allocation.len())).map(<[u8]>::to_vec),
            _ => return None,
        };
        let mut out = vec![];
        for address in allocation.chunks_exact(step).take(MOST_EXTENTS) {
            // The two highest bits: 0 is recorded data. Others read as zeros or continue in another
            // descriptor.
            let len = address.le32(0)?;
            if out.len() >= size || len == 0 || len >> 30 != 0 {
                break;
            }
            let partition = if step == 16 { address.le16(8)? } else { node.partition };
            let at = self.offset(Node { block: address.le32(4)?, partition })?;
            out.extend(self.area.get(at, (len as usize).min(size - out.len()))?);
        }
        Some(out)
    }
}

impl Tree for UdfTree<'_, '_> {
    type Node = Node;

    fn peek(&self) -> &Peek<'_> {
        self.area.peek
    }

    fn root(&self) -> Option<Node> {
        Some(self.root)
    }

    fn list(&self, dir: &Node) -> Option<Vec<Entry<Node>>> {
        let bytes = self.bytes(*dir, DIRECTORY, MOST_DIR)?;
        let mut found = vec![];
        let mut at = 0;
        while bytes.le16(at) == Some(FILE_ID) {
            let (flags, name_len, extra) = (bytes.byte(at + 18)?, bytes.byte(at + 19)?, bytes.le16(at + 36)?);
            let from = at + 38 + usize::from(extra);
            let end = from + usize::from(name_len);
            // Deleted entries and the parent are skipped.
            if flags & 0b1100 == 0
                && let Some(name) = bytes.get(from..end).and_then(cs0)
            {
                found.push(Entry { name, node: long_address(&bytes, at + 20)? });
            }
            at = end.next_multiple_of(4);
        }
        Some(found)
    }

    fn read(&self, file: &Node, most: usize) -> Option<Vec<u8>> {
        self.bytes(*file, ORDINARY, most as u64)
    }

    fn exact(&self) -> bool {
        false
    }
}
