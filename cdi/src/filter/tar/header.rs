//! One header block: 512 bytes, its checksum, its fields.

use super::candidate::quoted;
use super::sparse::Segments;
use crate::filter::{Layer, refused};
use std::io;

pub(super) const BLOCK: usize = 512;

/// A header whose checksum is right.
pub(super) struct Header {
    block: [u8; BLOCK],
    at: u64,
}

/// How the fields beyond v7 are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flavour {
    V7,
    Ustar,
    Gnu,
}

/// Whether these first bytes of a file are an archive's: by the magic, or (v7 has none) by a right checksum over a
/// header with a sane name and size.
pub(in super::super) fn looks_like_tar(head: &[u8]) -> bool {
    let Some((block, _)) = head.split_first_chunk::<BLOCK>() else { return false };
    let header = Header { block: *block, at: 0 };
    let printable = |name: &str| !name.is_empty() && !name.chars().any(|c| c.is_control() || c == '\u{fffd}');
    block.get(257..262) == Some(b"ustar")
        || (header.checksum_is_right() && printable(&text(&block[..100])) && header.size().is_ok())
}

impl Header {
    /// `block` is not all zeros.
    pub(super) fn parse(block: [u8; BLOCK], at: u64) -> io::Result<Self> {
        let header = Header { block, at };
        match header.checksum_is_right() {
            true => Ok(header),
            false => Err(header.broken("its checksum is wrong")),
        }
    }

    pub(super) fn type_flag(&self) -> u8 {
        self.block[156]
    }

    pub(super) fn flavour(&self) -> Flavour {
        match &self.block[257..265] {
            b"ustar  \0" => Flavour::Gnu,
            magic if magic.starts_with(b"ustar") => Flavour::Ustar,
            _ => Flavour::V7,
        }
    }

    pub(super) fn name(&self) -> String {
        let name = text(&self.block[..100]);
        // GNU keeps times where ustar keeps the front of a long name.
        match self.flavour() {
            Flavour::Ustar if self.block[345] != 0 => format!("{}/{name}", text(&self.block[345..500])),
            _ => name,
        }
    }

    pub(super) fn size(&self) -> io::Result<u64> {
        self.number("size", 124, 12)
    }

    /// The old GNU sparse fields: up to four segments as offset and length, whether more follow, and the real size.
    pub(super) fn sparse(&self) -> io::Result<(Segments, bool, u64)> {
        let segments = self.segments(386, 4)?;
        Ok((segments, self.block[482] != 0, self.number("real size", 483, 12)?))
    }

    /// The 21 segments of a block that continues them; this has no checksum of its own.
    pub(super) fn more_sparse(block: [u8; BLOCK], at: u64) -> io::Result<(Segments, bool)> {
        let header = Header { block, at };
        Ok((header.segments(0, 21)?, block[504] != 0))
    }

    fn segments(&self, from: usize, count: usize) -> io::Result<Segments> {
        let mut segments = Vec::new();
        for field in (from..).step_by(24).take(count) {
            // An empty entry ends the list.
            if self.block[field] == 0 && self.block[field + 12] == 0 {
                break;
            }
            segments.push((
                self.number("sparse offset", field, 12)?,
                self.number("sparse length", field + 12, 12)?,
            ));
        }
        Ok(segments)
    }

    /// An octal number, or (where the first byte is 0x80) a binary one.
    fn number(&self, what: &str, from: usize, len: usize) -> io::Result<u64> {
        let field = &self.block[from..from + len];
        let value = match field {
            [0x80, binary @ ..] => binary.iter().try_fold(0u64, |value, &byte| {
                value.checked_mul(256).and_then(|value| value.checked_add(u64::from(byte)))
            }),
            _ => octal(field),
        };
        // Everything that is counted in an archive fits 63 bits; sums cannot overflow unnoticed then.
        value.filter(|&value| value <= i64::MAX as u64).ok_or_else(|| {
            self.broken(&format!("its {what} field {} is no number", quoted(&String::from_utf8_lossy(field))))
        })
    }

    /// The sum of all bytes with the checksum's own as spaces; some old programs summed signed bytes.
    fn checksum_is_right(&self) -> bool {
        let byte = |i: usize| if (148..156).contains(&i) { b' ' } else { self.block[i] };
        let unsigned: i64 = (0..BLOCK).map(|i| i64::from(byte(i))).sum();
        let signed: i64 = (0..BLOCK).map(|i| i64::from(byte(i) as i8)).sum();
        octal(&self.block[148..156])
            .and_then(|stored| i64::try_from(stored).ok())
            .is_some_and(|stored| stored == unsigned || stored == signed)
    }

    pub(super) fn broken(&self, what: &str) -> io::Error {
        refused(Layer::Tar, self.at, format_args!("the header here is broken: {what}"))
    }
}

/// Spaces, octal digits, then only spaces and NULs. An empty field is 0.
fn octal(field: &[u8]) -> Option<u64> {
    let field = field.trim_ascii_start();
    let end = field.iter().position(|b| !(b'0'..=b'7').contains(b)).unwrap_or(field.len());
    let (digits, rest) = field.split_at(end);
    if !rest.iter().all(|&b| b == 0 || b == b' ') {
        return None;
    }
    digits.iter().try_fold(0u64, |value, &digit| value.checked_mul(8)?.checked_add(u64::from(digit - b'0')))
}

/// Up to the first NUL.
pub(super) fn text(field: &[u8]) -> String {
    let end = field.iter().position(|&b| b == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}
