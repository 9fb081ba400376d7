//! Parsing of a header block: 512 bytes with a checksum and fields. Errors are reasons for a message.

use super::quoted;
use super::write::BLOCK;

/// Offset and length of the data segments of a sparse file, as the archive has them.
pub(super) type Segments = Vec<(u64, u64)>;

/// A header with a valid checksum and a known flavour.
pub(super) struct Header<'a> {
    block: &'a [u8; BLOCK],
    flavour: Flavour,
}

/// Layout of the fields beyond v7.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flavour {
    V7,
    Ustar,
    Gnu,
}

/// True if the bytes look like the beginning of a tar, valid or not: by the magic, or (v7 has none) by a
/// valid checksum over a header with a plausible name and size.
pub fn looks_like_tar(head: &[u8]) -> bool {
    let Some(block) = head.first_chunk::<BLOCK>() else { return false };
    let printable = |name: &[u8]| {
        let name = std::str::from_utf8(name).unwrap_or_default();
        !name.is_empty() && !name.chars().any(char::is_control)
    };
    block[257..].starts_with(b"ustar")
        || (checksum_is_right(block)
            && printable(until_zero(&block[..100]))
            && number(block, "size", 124, 12).is_ok())
}

/// True if the bytes begin with a valid header, or with an empty block, as an empty archive does.
pub(crate) fn begins_as_tar(head: &[u8]) -> bool {
    head.first_chunk::<BLOCK>().is_some_and(|block| *block == [0; BLOCK] || Header::parse(block).is_ok())
}

impl<'a> Header<'a> {
    /// Parses a block that is not all zeros.
    pub(super) fn parse(block: &'a [u8; BLOCK]) -> Result<Self, String> {
        if !checksum_is_right(block) {
            return Err(broken("its checksum is wrong"));
        }
        let flavour = match &block[257..265] {
            b"ustar  \0" => {
                // Go treats a field that is not a valid time as the prefix of a long name.
                for (what, from) in [("access time", 345), ("change time", 357)] {
                    if block[from] != 0 {
                        number(block, what, from, 12)?;
                    }
                }
                Flavour::Gnu
            }
            [b'u', b's', b't', b'a', b'r', 0, ..] => {
                // star has times at the position where others have the end of the name's prefix.
                if block.ends_with(b"tar\0") && !block[345..476].contains(&0) {
                    return Err(broken("programs differ in the length of its name prefix (star)"));
                }
                Flavour::Ustar
            }
            // Programs differ in whether such a header has a name prefix.
            [b'u', b's', b't', b'a', b'r', ..] => return Err(broken("its magic is unknown")),
            _ => Flavour::V7,
        };
        Ok(Header { block, flavour })
    }

    /// The type flag of the member.
    pub(super) fn kind(&self) -> u8 {
        self.block[156]
    }

    pub(super) fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// The name, with the prefix of ustar. GNU has times in that place.
    pub(super) fn name(&self) -> Vec<u8> {
        let name = until_zero(&self.block[..100]);
        match until_zero(&self.block[345..500]) {
            prefix if self.flavour == Flavour::Ustar && !prefix.is_empty() => [prefix, b"/", name].concat(),
            _ => name.to_vec(),
        }
    }

    pub(super) fn link(&self) -> Vec<u8> {
        until_zero(&self.block[157..257]).to_vec()
    }

    pub(super) fn mode(&self) -> Result<u64, String> {
        number(self.block, "mode", 100, 8)
    }

    pub(super) fn uid(&self) -> Result<u64, String> {
        number(self.block, "uid", 108, 8)
    }

    pub(super) fn gid(&self) -> Result<u64, String> {
        number(self.block, "gid", 116, 8)
    }

    pub(super) fn size(&self) -> Result<u64, String> {
        number(self.block, "size", 124, 12)
    }

    /// The old GNU sparse fields: up to four segments, a flag for continuation blocks, and the real size.
    pub(super) fn sparse(&self) -> Result<(Segments, bool, u64), String> {
        let segments = segments(self.block, 386, 4)?;
        Ok((segments, self.block[482] != 0, number(self.block, "real size", 483, 12)?))
    }
}

/// The 21 segments of a continuation block, and a flag for another one. The block has no checksum.
pub(super) fn more_sparse(block: &[u8; BLOCK]) -> Result<(Segments, bool), String> {
    Ok((segments(block, 0, 21)?, block[504] != 0))
}

fn segments(block: &[u8; BLOCK], from: usize, count: usize) -> Result<Segments, String> {
    let mut segments = Vec::new();
    for field in (from..).step_by(24).take(count) {
        // An empty entry ends the list.
        if block[field] == 0 && block[field + 12] == 0 {
            break;
        }
        segments.push((
            number(block, "sparse offset", field, 12)?,
            number(block, "sparse length", field + 12, 12)?,
        ));
    }
    Ok(segments)
}

/// Parses an octal number, or a binary one if the first byte is 0x80.
fn number(block: &[u8; BLOCK], what: &str, from: usize, len: usize) -> Result<u64, String> {
    let field = &block[from..from + len];
    let value = match field {
        [0x80, binary @ ..] => {
            binary.iter().try_fold(0u64, |value, &byte| value.checked_mul(256)?.checked_add(u64::from(byte)))
        }
        _ => octal(field),
    };
    // All numbers in an archive fit into 63 bits.
    value.filter(|&value| i64::try_from(value).is_ok()).ok_or_else(|| {
        broken(&format!("its {what} field {} is not a number", quoted(&String::from_utf8_lossy(field))))
    })
}

/// Sums all bytes, with the checksum field itself as spaces. Some old programs summed signed bytes.
fn checksum_is_right(block: &[u8; BLOCK]) -> bool {
    let plain = |at: usize| if (148..156).contains(&at) { b' ' } else { block[at] };
    let unsigned: i64 = (0..BLOCK).map(|at| i64::from(plain(at))).sum();
    let signed: i64 = (0..BLOCK).map(|at| i64::from(plain(at).cast_signed())).sum();
    octal(&block[148..156])
        .and_then(|told| i64::try_from(told).ok())
        .is_some_and(|told| told == unsigned || told == signed)
}

/// Parses blanks, octal digits, then only blanks and NULs. An empty field is 0.
fn octal(field: &[u8]) -> Option<u64> {
    let start = field.iter().position(|&b| b != b' ').unwrap_or(field.len());
    let field = &field[start..];
    let end = field.iter().position(|b| !(b'0'..=b'7').contains(b)).unwrap_or(field.len());
    let (digits, rest) = field.split_at(end);
    if !rest.iter().all(|&b| b == 0 || b == b' ') {
        return None;
    }
    digits.iter().try_fold(0u64, |value, &digit| value.checked_mul(8)?.checked_add(u64::from(digit - b'0')))
}

/// The bytes up to the first NUL.
pub(super) fn until_zero(field: &[u8]) -> &[u8] {
    &field[..field.iter().position(|&b| b == 0).unwrap_or(field.len())]
}

fn broken(what: &str) -> String {
    format!("the header here is broken: {what}")
}
