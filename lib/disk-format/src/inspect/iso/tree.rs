//! Directories of ISO 9660, with the names of Rock Ridge or Joliet if present.

use super::super::field::Fields;
use super::super::peek::{Area, Peek};
use super::super::tree::{Entry, MOST_DIR, Tree};

/// An ISO 9660 volume whose files are found by path.
pub(crate) struct IsoTree<'a> {
    area: Area<'a>,
    block: u64,
    root: Node,
    joliet: bool,
    rock_ridge: bool,
}

/// Position and size of a file or a directory.
#[derive(Clone)]
pub(crate) struct Node {
    at: u64,
    size: u32,
    dir: bool,
}

impl<'a> IsoTree<'a> {
    /// The directories of a volume descriptor.
    pub(crate) fn new(area: Area<'a>, descriptor: &[u8], joliet: bool) -> Option<Self> {
        let block =
            u64::from(descriptor.le16(128).filter(|b| b.is_power_of_two() && (512..=4096).contains(b))?);
        let root = node(descriptor.get(156..190)?, block)?;
        // The first record of the root shows whether Rock Ridge is used: it then has fields after its name.
        let first = area.get(root.at, 255.min(root.size as usize));
        let rock_ridge = !joliet
            && first.as_deref().and_then(system_use).is_some_and(|fields| {
                fields.has(0, b"SP") || FieldsOf(fields).any(|f| matches!(&f[..2], b"RR" | b"PX" | b"NM"))
            });
        Some(IsoTree { area, block, root, joliet, rock_ridge })
    }

    pub(crate) fn rock_ridge(&self) -> bool {
        self.rock_ridge
    }

    fn name(&self, record: &[u8]) -> Option<String> {
        let id = record.get(33..33 + usize::from(record.byte(32)?))?;
        if matches!(id, [0] | [1]) {
            return None;
        }
        if self.rock_ridge
            && let Some(name) = system_use(record).and_then(alternate_name)
        {
            return Some(name);
        }
        let name = if self.joliet {
            let units = id.chunks_exact(2).map(|c| u16::from_be_bytes([c[0], c[1]]));
            char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
        } else {
            String::from_utf8_lossy(id).into_owned()
        };
        let name = name.split(';').next().unwrap_or_default();
        Some(name.strip_suffix('.').unwrap_or(name).to_string())
    }
}

impl Tree for IsoTree<'_> {
    type Node = Node;

    fn peek(&self) -> &Peek<'_> {
        self.area.peek
    }

    fn root(&self) -> Option<Node> {
        Some(self.root.clone())
    }

    fn list(&self, dir: &Node) -> Option<Vec<Entry<Node>>> {
        if !dir.dir {
            return None;
        }
        let bytes = self.area.get(dir.at, u64::from(dir.size).min(MOST_DIR) as usize)?;
        let mut found = vec![];
        // A record never crosses a block. A length of 0 means that the rest of the block is empty.
        for block in bytes.chunks(self.block as usize) {
            let mut at = 0;
            while let Some(record) =
                block.byte(at).filter(|&len| len > 33).and_then(|n| block.get(at..at + usize::from(n)))
            {
                if let (Some(name), Some(node)) = (self.name(record), node(record, self.block)) {
                    found.push(Entry { name, node });
                }
                at += record.len();
            }
        }
        Some(found)
    }

    fn read(&self, file: &Node, most: usize) -> Option<Vec<u8>> {
        if file.dir {
            return None;
        }
        self.area.get(file.at, most.min(file.size as usize))
    }

    fn exact(&self) -> bool {
        false
    }
}

fn node(record: &[u8], block: u64) -> Option<Node> {
    let at = (u64::from(record.le32(2)?) + u64::from(record.byte(1)?)) * block;
    Some(Node { at, size: record.le32(10)?, dir: record.byte(25)? & 2 != 0 })
}

/// The system use area of a record, after the name.
fn system_use(record: &[u8]) -> Option<&[u8]> {
    let (len, name) = (usize::from(record.byte(0)?), usize::from(record.byte(32)?));
    let from = 33 + name + (name + 1) % 2;
    record.get(from..len)
}

/// The fields of a system use area: two letters, a length, a version, data.
struct FieldsOf<'a>(&'a [u8]);

impl<'a> Iterator for FieldsOf<'a> {
    type Item = &'a [u8];
    fn next(&mut self) -> Option<&'a [u8]> {
        let len = usize::from(self.0.byte(2).filter(|&n| n >= 4)?);
        let field = self.0.get(..len)?;
        self.0 = &self.0[len..];
        Some(field)
    }
}

/// The name from Rock Ridge, which may be divided into several fields.
fn alternate_name(fields: &[u8]) -> Option<String> {
    let pieces: Vec<u8> = FieldsOf(fields)
        .filter(|f| f.starts_with(b"NM") && f.len() > 5)
        .flat_map(|f| f[5..].iter().copied())
        .collect();
    (!pieces.is_empty()).then(|| String::from_utf8_lossy(&pieces).into_owned())
}
