//! The record of a file in its folder, with Rock Ridge's fields.

use super::time::Time;
use super::{BLOCK, Extent, both16, both32};

/// Longest record: its length has one byte, and is even.
const LONGEST: usize = 254;
const FOLDER: u8 = 2;
const NAME_GOES_ON: u8 = 1;

/// A record without Rock Ridge's fields.
pub(super) struct Record<'a> {
    pub(super) id: &'a [u8],
    pub(super) extent: Extent,
    pub(super) is_folder: bool,
    pub(super) time: &'a Time,
}

impl Record<'_> {
    /// Length without further fields.
    fn bare(&self) -> usize {
        (33 + self.id.len()).next_multiple_of(2)
    }

    /// The record with these fields at its end.
    pub(super) fn bytes(&self, fields: &[u8]) -> Vec<u8> {
        let length = (self.bare() + fields.len()).next_multiple_of(2);
        debug_assert!(length <= LONGEST, "a record of {length} bytes");
        let mut bytes = Vec::with_capacity(length);
        bytes.extend([length as u8, 0]);
        bytes.extend(both32(self.extent.block));
        bytes.extend(both32(self.extent.size));
        bytes.extend(self.time.short());
        bytes.extend([if self.is_folder { FOLDER } else { 0 }, 0, 0]);
        bytes.extend(both16(1));
        bytes.push(self.id.len() as u8);
        bytes.extend(self.id);
        bytes.resize(self.bare(), 0);
        bytes.extend(fields);
        bytes.resize(length, 0);
        bytes
    }
}

/// The records of a folder.
pub(super) struct Folder {
    /// Records; none crosses a block boundary.
    pub(super) records: Vec<u8>,
    /// Fields that did not fit into the records, in the blocks that follow.
    pub(super) spill: Vec<u8>,
    /// First block of `spill`.
    spill_at: u32,
}

impl Folder {
    pub(super) fn new(spill_at: u32) -> Folder {
        Folder { records: Vec::new(), spill: Vec::new(), spill_at }
    }

    /// Adds a record. If it has no room for `name`, that goes to the spill.
    pub(super) fn add(&mut self, record: &Record<'_>, fields: &[u8], name: &[u8]) {
        let inline = [fields, name].concat();
        let bytes = if record.bare() + inline.len() <= LONGEST {
            record.bytes(&inline)
        } else {
            room(&mut self.spill, name.len());
            let block = self.spill_at + (self.spill.len() / BLOCK) as u32;
            let pointer = continued(block, (self.spill.len() % BLOCK) as u32, name.len() as u32);
            self.spill.extend(name);
            record.bytes(&[fields, &pointer].concat())
        };
        room(&mut self.records, bytes.len());
        self.records.extend(bytes);
    }

    /// The records and their spill, as whole blocks.
    pub(super) fn into_blocks(mut self) -> Vec<u8> {
        fill(&mut self.records);
        self.records.extend(self.spill);
        self.records
    }
}

/// Goes on to the next block if this many bytes do not fit into the current one.
fn room(bytes: &mut Vec<u8>, size: usize) {
    if bytes.len() % BLOCK + size > BLOCK {
        fill(bytes);
    }
}

/// Fills the block with zeros.
pub(super) fn fill(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
}

/// SP and ER: the announcement of Rock Ridge.
pub(super) fn introduction() -> Vec<u8> {
    let whose = b"RRIP_1991A";
    let mut bytes = vec![b'S', b'P', 7, 1, 0xbe, 0xef, 0];
    bytes.extend([b'E', b'R', (8 + whose.len()) as u8, 1, whose.len() as u8, 0, 0, 1]);
    bytes.extend(whose);
    bytes
}

/// PX and TF: mode, links, owner (root), and times.
pub(super) fn attributes(mode: u32, links: u32, time: &Time) -> Vec<u8> {
    let mut bytes = vec![b'P', b'X', 36, 1];
    for number in [mode, links, 0, 0] {
        bytes.extend(both32(number));
    }
    // Times of the last change, the last read, and the last change of attributes.
    bytes.extend([b'T', b'F', 26, 1, 2 | 4 | 8]);
    for _ in 0..3 {
        bytes.extend(time.short());
    }
    bytes
}

/// NM: the name, in as many pieces as necessary.
pub(super) fn name(name: &str) -> Vec<u8> {
    let mut pieces = name.as_bytes().chunks(250).peekable();
    let mut bytes = Vec::new();
    while let Some(piece) = pieces.next() {
        let flags = if pieces.peek().is_some() { NAME_GOES_ON } else { 0 };
        bytes.extend([b'N', b'M', (5 + piece.len()) as u8, 1, flags]);
        bytes.extend(piece);
    }
    bytes
}

/// CE: the position of more fields.
fn continued(block: u32, offset: u32, size: u32) -> Vec<u8> {
    let mut bytes = vec![b'C', b'E', 28, 1];
    for number in [block, offset, size] {
        bytes.extend(both32(number));
    }
    bytes
}
