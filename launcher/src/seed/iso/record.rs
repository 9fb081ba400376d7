//! One record of a folder, and Rock Ridge's fields in it.

use super::time::Time;
use super::{BLOCK, Extent, both16, both32};

/// A record has one byte for its length, which is even.
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
    /// The length without further fields.
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
    /// The records; none crosses from one block into the next.
    pub(super) records: Vec<u8>,
    /// The fields that did not fit into them, in blocks that follow.
    pub(super) spill: Vec<u8>,
    /// The first block of `spill`.
    spill_at: u32,
}

impl Folder {
    pub(super) fn new(spill_at: u32) -> Folder {
        Folder { records: Vec::new(), spill: Vec::new(), spill_at }
    }

    /// Adds a record. Where it has no room for `name`, that goes to the spill.
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

    /// Whole blocks: the records and their spill.
    pub(super) fn whole(mut self) -> Vec<u8> {
        fill(&mut self.records);
        self.records.extend(self.spill);
        self.records
    }
}

/// Goes on to the next block where so many bytes do not fit into this one.
fn room(bytes: &mut Vec<u8>, size: usize) {
    if bytes.len() % BLOCK + size > BLOCK {
        fill(bytes);
    }
}

/// Zeros up to the end of the block.
pub(super) fn fill(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
}

/// SP and ER: Rock Ridge's own announcement.
pub(super) fn introduction() -> Vec<u8> {
    let whose = b"RRIP_1991A";
    let mut bytes = vec![b'S', b'P', 7, 1, 0xbe, 0xef, 0];
    bytes.extend([b'E', b'R', (8 + whose.len()) as u8, 1, whose.len() as u8, 0, 0, 1]);
    bytes.extend(whose);
    bytes
}

/// PX and TF: mode, links, owner (root), and when.
pub(super) fn attributes(mode: u32, links: u32, time: &Time) -> Vec<u8> {
    let mut bytes = vec![b'P', b'X', 36, 1];
    for number in [mode, links, 0, 0] {
        bytes.extend(both32(number));
    }
    // Changed, read, and its attributes changed.
    bytes.extend([b'T', b'F', 26, 1, 2 | 4 | 8]);
    for _ in 0..3 {
        bytes.extend(time.short());
    }
    bytes
}

/// NM: the name, in as many pieces as it takes.
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

/// CE: more fields, elsewhere.
fn continued(block: u32, offset: u32, size: u32) -> Vec<u8> {
    let mut bytes = vec![b'C', b'E', 28, 1];
    for number in [block, offset, size] {
        bytes.extend(both32(number));
    }
    bytes
}
