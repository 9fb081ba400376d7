//! The volume descriptors at the beginning of the image.

use super::record::Record;
use super::time::Time;
use super::tree::Tree;
use super::{BLOCK, Extent, both16, both32};

const PRIMARY: u8 = 1;
const SUPPLEMENTARY: u8 = 2;
const END: u8 = 255;
/// Joliet, third level: UTF-16.
const JOLIET: &[u8] = b"%/E";
/// The application that made the image.
const APPLICATION: &str = "CORACLE";

/// Contents of a descriptor.
pub(super) struct Head<'a> {
    pub(super) tree: &'a Tree,
    pub(super) label: &'a str,
    /// The size of the image.
    pub(super) blocks: u32,
    pub(super) time: &'a Time,
}

/// The descriptor of a tree, whose two path tables are here.
pub(super) fn volume(head: &Head<'_>, least_first: Extent, most_first: Extent) -> Vec<u8> {
    let is_joliet = head.tree.is_joliet;
    let mut out = begin(if is_joliet { SUPPLEMENTARY } else { PRIMARY });
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    let text = |size: usize, text: &str| if is_joliet { wide(size, text) } else { narrow(size, text) };

    put(8, &text(32, "LINUX"));
    put(40, &text(32, head.label));
    put(80, &both32(head.blocks));
    if is_joliet {
        put(88, JOLIET);
    }
    put(120, &both16(1));
    put(124, &both16(1));
    put(128, &both16(BLOCK as u16));
    put(132, &both32(least_first.size));
    put(140, &least_first.block.to_le_bytes());
    put(148, &most_first.block.to_be_bytes());
    let root = Record { id: &[0], extent: head.tree.root(), is_folder: true, time: head.time };
    put(156, &root.bytes(&[]));
    for (at, size) in [(190, 128), (318, 128), (446, 128), (702, 37), (739, 37), (776, 37)] {
        put(at, &text(size, ""));
    }
    put(574, &text(128, APPLICATION));
    // Dates of creation and change; it never expires and was always effective.
    put(813, &head.time.long());
    put(830, &head.time.long());
    for at in [847, 864] {
        put(at, b"0000000000000000\0");
    }
    put(881, &[1]);
    out
}

/// The descriptor that ends the list.
pub(super) fn end() -> Vec<u8> {
    begin(END)
}

fn begin(kind: u8) -> Vec<u8> {
    let mut out = vec![0; BLOCK];
    out[0] = kind;
    out[1..7].copy_from_slice(b"CD001\x01");
    out
}

/// A text of a fixed length, filled with spaces.
fn narrow(size: usize, text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(size, b' ');
    bytes
}

/// The text in UTF-16; a longer one is cut.
fn wide(size: usize, text: &str) -> Vec<u8> {
    let units = text.encode_utf16().chain(std::iter::repeat(u16::from(b' ')));
    let mut bytes: Vec<u8> = units.take(size / 2).flat_map(u16::to_be_bytes).collect();
    bytes.resize(size, 0);
    bytes
}
