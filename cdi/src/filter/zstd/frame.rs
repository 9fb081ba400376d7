//! The fixed parts of a Zstandard frame (RFC 8878): frame header, block header.

use super::broken;
use std::io;

/// The fields of a frame header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    /// Bytes of history that must be kept.
    pub(super) window: u64,
    /// Uncompressed bytes of the frame, if stated.
    pub(super) content: Option<u64>,
    /// True if four bytes of checksum follow the last block.
    pub(super) checksum: bool,
}

/// Bytes of the header (without the magic) that begins with this descriptor.
pub(super) fn size(descriptor: u8) -> usize {
    1 + usize::from(!single(descriptor)) + dictionary_bytes(descriptor) + content_bytes(descriptor)
}

/// Parses a header without its magic; the frame begins at `at`.
pub(super) fn parse(header: &[u8], at: u64) -> io::Result<Frame> {
    let small = || broken(at, "a frame header is too small for its fields");
    let (&descriptor, rest) = header.split_first().ok_or_else(small)?;
    if descriptor & 0x08 != 0 {
        let what = format_args!("the frame descriptor is {descriptor:#04x}, bit 3 is reserved");
        return Err(broken(at + 4, what));
    }
    let (window_byte, rest) = rest.split_at_checked(usize::from(!single(descriptor))).ok_or_else(small)?;
    let (dictionary, rest) = rest.split_at_checked(dictionary_bytes(descriptor)).ok_or_else(small)?;
    let dictionary = little_endian(dictionary);
    if dictionary != 0 {
        let what = format_args!(
            "a frame was made with dictionary {dictionary}, which is not in the stream; pack it without"
        );
        return Err(broken(at, what));
    }
    let content = match rest.get(..content_bytes(descriptor)).ok_or_else(small)? {
        [] => None,
        // Two bytes count from 256, because one byte reaches up to there.
        two @ [_, _] => Some(little_endian(two) + 256),
        field => Some(little_endian(field)),
    };
    let window = match (window_byte, content) {
        (&[byte], _) => {
            let base = 1u64 << (10 + (byte >> 3));
            base + base / 8 * u64::from(byte & 7)
        }
        (_, Some(content)) => content,
        (_, None) => return Err(small()),
    };
    Ok(Frame { window, content, checksum: descriptor & 0x04 != 0 })
}

/// The fields of a block header.
pub(super) struct Block {
    /// Bytes of the block behind its header.
    pub(super) packed: u64,
    pub(super) last: bool,
}

pub(super) fn block(header: [u8; 3], at: u64) -> io::Result<Block> {
    let [a, b, c] = header;
    let header = u32::from_le_bytes([a, b, c, 0]);
    let size = u64::from(header >> 3);
    let packed = match header >> 1 & 3 {
        0 | 2 => size,
        1 => 1,
        _ => return Err(broken(at, "a block is of type 3, which is reserved")),
    };
    // No block is larger, packed or not.
    if size > 128 << 10 {
        return Err(broken(at, format_args!("a block states a size of {size}, at most 131072 is allowed")));
    }
    Ok(Block { packed, last: header & 1 != 0 })
}

fn single(descriptor: u8) -> bool {
    descriptor & 0x20 != 0
}

fn dictionary_bytes(descriptor: u8) -> usize {
    [0, 1, 2, 4][usize::from(descriptor & 3)]
}

fn content_bytes(descriptor: u8) -> usize {
    match descriptor >> 6 {
        0 => usize::from(single(descriptor)),
        1 => 2,
        2 => 4,
        _ => 8,
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}
