//! The fixed parts of the .xz container: stream header and footer, block header, variable-length integers.

use super::broken;
use crate::filter::{Layer, truncated};
use std::io;

pub(super) const STREAM_HEADER: usize = 12;
const MAGIC: [u8; 6] = [0xfd, b'7', b'z', b'X', b'Z', 0];
const LZMA2: u64 = 0x21;

/// The fields of a stream header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamFlags {
    /// The twelve bytes of the header, with its checksum.
    pub(super) header: [u8; STREAM_HEADER],
    /// Bytes of the integrity check behind each block.
    pub(super) check: u64,
}

pub(super) fn stream_header(header: &[u8; STREAM_HEADER], at: u64) -> io::Result<StreamFlags> {
    let [m0, m1, m2, m3, m4, m5, f0, f1, crc @ ..] = *header;
    if [m0, m1, m2, m3, m4, m5] != MAGIC {
        return Err(broken(at, "what follows is neither an xz stream nor padding"));
    }
    if crc32fast::hash(&[f0, f1]) != u32::from_le_bytes(crc) {
        return Err(broken(at + 8, "the CRC-32 of the stream header is wrong"));
    }
    let check = match (f0, f1) {
        (0, 0) => 0,
        (0, 1) => 4,
        (0, 4) => 8,
        (0, 10) => 32,
        _ => {
            let what = format!(
                "the stream flags are {f0:02x} {f1:02x}; known are the checks none, crc32, crc64 and sha256"
            );
            return Err(broken(at + 6, what));
        }
    };
    Ok(StreamFlags { header: *header, check })
}

/// The footer of a stream whose index is `index_size` bytes long.
pub(super) fn footer(flags: &StreamFlags, index_size: u64) -> Option<[u8; 12]> {
    let backward = u32::try_from(index_size / 4).ok()?.checked_sub(1)?;
    let mut body = [0; 6];
    body[..4].copy_from_slice(&backward.to_le_bytes());
    body[4..].copy_from_slice(&flags.header[6..8]);
    let mut footer = [0; 12];
    footer[..4].copy_from_slice(&crc32fast::hash(&body).to_le_bytes());
    footer[4..10].copy_from_slice(&body);
    footer[10..].copy_from_slice(b"YZ");
    Some(footer)
}

/// The fields of a block header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockHeader {
    /// Bytes of compressed data, if stated.
    pub(super) packed: Option<u64>,
    /// Bytes of uncompressed data, if stated.
    pub(super) plain: Option<u64>,
    /// Bytes of the LZMA2 dictionary.
    pub(super) dictionary: u64,
}

/// Parses a complete header; its first byte, the size, is not 0.
pub(super) fn block_header(header: &[u8], at: u64) -> io::Result<BlockHeader> {
    let Some((fields, crc)) = header.split_last_chunk::<4>() else {
        return Err(truncated(Layer::Xz, at, "a block header"));
    };
    if crc32fast::hash(fields) != u32::from_le_bytes(*crc) {
        return Err(broken(at, "the CRC-32 of a block header is wrong"));
    }
    let mut fields = Fields { rest: fields.get(1..).unwrap_or(&[]), at };
    let flags = fields.byte()?;
    if flags & 0x3c != 0 {
        return Err(broken(
            at + 1,
            format_args!("the block flags are {flags:#04x}, bits 2 to 5 are reserved"),
        ));
    }
    let packed = if flags & 0x40 != 0 { Some(fields.number()?) } else { None };
    let plain = if flags & 0x80 != 0 { Some(fields.number()?) } else { None };
    if packed == Some(0) {
        return Err(broken(at, "a block header states a compressed size of 0"));
    }
    let mut dictionary = None;
    for last in (0..=flags & 3).rev().map(|left| left == 0) {
        let (id, size) = (fields.number()?, fields.number()?);
        let properties = fields.bytes(size)?;
        dictionary = match (id, properties, last) {
            (LZMA2, &[bits @ 0..=40], true) => Some(dictionary_size(bits)),
            // Delta and the branch filters of the processors; liblzma checks their properties.
            (3..=0x0b, _, false) => None,
            _ => {
                let what = format_args!(
                    "a block uses filter {id:#x} with properties {properties:02x?}, which is not known"
                );
                return Err(broken(at, what));
            }
        };
    }
    if fields.rest.iter().any(|&b| b != 0) {
        return Err(broken(at, "a block header has bytes other than 0 as padding"));
    }
    match dictionary {
        Some(dictionary) => Ok(BlockHeader { packed, plain, dictionary }),
        None => Err(broken(at, "a block header names no LZMA2 filter")),
    }
}

fn dictionary_size(bits: u8) -> u64 {
    match bits {
        40 => u64::from(u32::MAX),
        _ => (2 | u64::from(bits & 1)) << (bits / 2 + 11),
    }
}

struct Fields<'a> {
    rest: &'a [u8],
    at: u64,
}

impl<'a> Fields<'a> {
    fn byte(&mut self) -> io::Result<u8> {
        match self.rest.split_first() {
            Some((&byte, rest)) => {
                self.rest = rest;
                Ok(byte)
            }
            None => Err(broken(self.at, "a block header is too small for its fields")),
        }
    }

    fn number(&mut self) -> io::Result<u64> {
        let mut number = Number::default();
        loop {
            let byte = self.byte()?;
            if let Some(value) = number.push(byte).map_err(|what| broken(self.at, what))? {
                return Ok(value);
            }
        }
    }

    fn bytes(&mut self, n: u64) -> io::Result<&'a [u8]> {
        match usize::try_from(n).ok().and_then(|n| self.rest.split_at_checked(n)) {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(bytes)
            }
            None => Err(broken(self.at, "a block header is too small for its fields")),
        }
    }
}

/// A variable-length integer that arrives byte by byte: seven bits each, lowest first, at most nine bytes.
#[derive(Default)]
pub(super) struct Number {
    value: u64,
    bytes: u32,
}

impl Number {
    pub(super) fn push(&mut self, byte: u8) -> Result<Option<u64>, &'static str> {
        if self.bytes == 9 {
            return Err("a number is longer than 63 bits");
        }
        self.value |= u64::from(byte & 0x7f) << (7 * self.bytes);
        self.bytes += 1;
        match byte {
            0 if self.bytes > 1 => Err("a number ends in a zero byte"),
            0..=0x7f => Ok(Some(self.value)),
            _ => Ok(None),
        }
    }

    /// Appends the bytes of a number.
    pub(super) fn write(mut value: u64, out: &mut Vec<u8>) {
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }
}
