//! Directories of FAT: short names, long names, and the chains of clusters.

use super::super::field::{Fields, text};
use super::super::peek::{Area, Peek};
use super::super::tree::{Entry, MOST_DIR, Tree};
use super::{Bpb, Root, Width};

/// A FAT filesystem whose files are found by path.
pub(crate) struct FatTree<'a> {
    area: Area<'a>,
    bpb: Bpb,
}

/// A file or a directory.
#[derive(Clone)]
pub(crate) enum Node {
    Root,
    Dir { cluster: u32 },
    File { cluster: u32, size: u32 },
}

const VOLUME: u8 = 0x08;
const DIRECTORY: u8 = 0x10;
const LONG_NAME: u8 = 0x0f;
/// Limit of clusters in a chain.
const MOST_LINKS: usize = 512;

impl<'a> FatTree<'a> {
    pub(crate) fn new(area: Area<'a>, bpb: Bpb) -> Self {
        FatTree { area, bpb }
    }

    /// The label in the root directory. The boot sector's label is often outdated.
    pub(crate) fn label(&self) -> Option<String> {
        let root = self.root_bytes()?;
        let mut entries = root.chunks_exact(32).take_while(|e| e[0] != 0).filter(|e| e[0] != 0xe5);
        let label = entries.find(|e| e[11] & (VOLUME | LONG_NAME) == VOLUME)?;
        text(&label[..11])
    }

    fn root_bytes(&self) -> Option<Vec<u8>> {
        match self.bpb.root {
            Root::Fixed { at, len } => self.area.get(at, len.min(MOST_DIR) as usize),
            Root::Cluster(first) => self.chain(first, MOST_DIR, true),
        }
    }

    /// Reads a chain of clusters: up to `most` bytes, and a directory only up to its end mark.
    fn chain(&self, first: u32, most: u64, directory: bool) -> Option<Vec<u8>> {
        let mut out = vec![];
        let mut cluster = first;
        for _ in 0..MOST_LINKS {
            let left = most - out.len() as u64;
            let index = u64::from(cluster).checked_sub(2).filter(|&i| i < self.bpb.clusters);
            let Some(index) = index.filter(|_| left > 0) else { break };
            let at = self.bpb.data.checked_add(index * self.bpb.cluster)?;
            let bytes = self.area.get(at, self.bpb.cluster.min(left) as usize)?;
            let ended = directory && bytes.chunks_exact(32).any(|e| e[0] == 0);
            out.extend(bytes);
            if ended {
                break;
            }
            cluster = self.next(cluster)?;
        }
        Some(out)
    }

    /// The cluster after this one. Values from `0x0FFFFFF8` on (or their shorter forms) end the chain, since
    /// they are not valid cluster numbers of this disk.
    fn next(&self, cluster: u32) -> Option<u32> {
        let n = u64::from(cluster);
        Some(match self.bpb.width {
            Width::Twelve => {
                let pair = self.area.get(self.bpb.fat + n + n / 2, 2)?.le16(0)?;
                u32::from(if n % 2 == 0 { pair & 0xfff } else { pair >> 4 })
            }
            Width::Sixteen => u32::from(self.area.get(self.bpb.fat + 2 * n, 2)?.le16(0)?),
            Width::ThirtyTwo => self.area.get(self.bpb.fat + 4 * n, 4)?.le32(0)? & 0x0fff_ffff,
        })
    }
}

impl Tree for FatTree<'_> {
    type Node = Node;

    fn peek(&self) -> &Peek<'_> {
        self.area.peek
    }

    fn root(&self) -> Option<Node> {
        Some(Node::Root)
    }

    fn list(&self, dir: &Node) -> Option<Vec<Entry<Node>>> {
        let bytes = match dir {
            Node::Root => self.root_bytes()?,
            Node::Dir { cluster } => self.chain(*cluster, MOST_DIR, true)?,
            Node::File { .. } => return None,
        };
        let mut found = vec![];
        let mut long = LongName::default();
        for entry in bytes.chunks_exact(32) {
            match (entry[0], entry[11]) {
                (0, _) => break,
                (0xe5, _) => long = LongName::default(),
                (_, LONG_NAME) => long.piece(entry),
                (_, flags) if flags & VOLUME != 0 => long = LongName::default(),
                (_, flags) => {
                    let name = std::mem::take(&mut long).name(entry).unwrap_or_else(|| short_name(entry));
                    let low = entry.le16(26)?;
                    let high = if self.bpb.width == Width::ThirtyTwo { entry.le16(20)? } else { 0 };
                    let cluster = u32::from(high) << 16 | u32::from(low);
                    let node = match flags & DIRECTORY {
                        0 => Node::File { cluster, size: entry.le32(28)? },
                        _ => Node::Dir { cluster },
                    };
                    found.push(Entry { name, node });
                }
            }
        }
        Some(found)
    }

    fn read(&self, file: &Node, most: usize) -> Option<Vec<u8>> {
        let Node::File { cluster, size } = *file else { return None };
        self.chain(cluster, u64::from(size).min(most as u64), false)
    }

    fn exact(&self) -> bool {
        false
    }
}

/// The pieces of a long name, which precede its entry in reverse order.
#[derive(Default)]
struct LongName {
    units: Vec<u16>,
    checksum: u8,
}

impl LongName {
    fn piece(&mut self, entry: &[u8]) {
        // A name has at most 20 pieces of 13 characters.
        if entry[0] & 0x40 != 0 || self.checksum != entry[13] || self.units.len() >= 20 * 13 {
            *self = LongName { units: vec![], checksum: entry[13] };
        }
        let chars = [&entry[1..11], &entry[14..26], &entry[28..32]];
        let piece =
            chars.iter().flat_map(|part| part.chunks_exact(2)).map(|c| u16::from_le_bytes([c[0], c[1]]));
        self.units.splice(0..0, piece);
    }

    /// The name, if the pieces' checksum matches this entry.
    fn name(self, entry: &[u8]) -> Option<String> {
        let sum = entry[..11].iter().fold(0u8, |sum, &b| sum.rotate_right(1).wrapping_add(b));
        if self.units.is_empty() || sum != self.checksum {
            return None;
        }
        let end = self.units.iter().position(|&u| u == 0).unwrap_or(self.units.len());
        Some(String::from_utf16_lossy(&self.units[..end]))
    }
}

fn short_name(entry: &[u8]) -> String {
    let part = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_string();
    match (part(&entry[..8]), part(&entry[8..11])) {
        (base, ext) if ext.is_empty() => base,
        (base, ext) => format!("{base}.{ext}"),
    }
}
