//! One header block: fields, checksum, numbers.

use super::write::BLOCK;

/// A header block whose checksum is right.
pub(super) struct Header<'a>(&'a [u8; BLOCK]);

impl<'a> Header<'a> {
    /// The reason is for a message.
    pub(super) fn parse(block: &'a [u8; BLOCK]) -> Result<Self, &'static str> {
        let header = Header(block);
        let told = header.number(148, 8)?;
        // Some old writers summed signed bytes.
        let plain = |at: usize| if (148..156).contains(&at) { b' ' } else { block[at] };
        let unsigned: u64 = (0..BLOCK).map(|at| u64::from(plain(at))).sum();
        let signed: i64 = (0..BLOCK).map(|at| i64::from(plain(at).cast_signed())).sum();
        if told == unsigned || i64::try_from(told) == Ok(signed) {
            Ok(header)
        } else {
            Err("a header whose checksum is wrong")
        }
    }

    /// The type flag.
    pub(super) fn kind(&self) -> u8 {
        self.0[156]
    }

    /// The name, with the prefix of ustar.
    pub(super) fn name(&self) -> Vec<u8> {
        let name = self.text(0, 100);
        let prefix = if &self.0[257..263] == b"ustar\0" { self.text(345, 155) } else { &[] };
        if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
    }

    pub(super) fn link(&self) -> Vec<u8> {
        self.text(157, 100).to_vec()
    }

    pub(super) fn mode(&self) -> Result<u64, &'static str> {
        self.number(100, 8)
    }

    pub(super) fn uid(&self) -> Result<u64, &'static str> {
        self.number(108, 8)
    }

    pub(super) fn gid(&self) -> Result<u64, &'static str> {
        self.number(116, 8)
    }

    pub(super) fn size(&self) -> Result<u64, &'static str> {
        self.number(124, 12)
    }

    fn text(&self, at: usize, len: usize) -> &'a [u8] {
        let field = &self.0[at..at + len];
        &field[..field.iter().position(|&b| b == 0).unwrap_or(len)]
    }

    /// Octal digits with blanks around them, or base 256.
    fn number(&self, at: usize, len: usize) -> Result<u64, &'static str> {
        const BAD: &str = "a header with a field that is not a number";
        let field = &self.0[at..at + len];
        if field[0] & 0x80 != 0 {
            if field[0] != 0x80 {
                return Err("a header with a negative or enormous number");
            }
            let (high, low) = field[1..].split_at((len - 1).saturating_sub(8));
            if high.iter().any(|&b| b != 0) {
                return Err("a header with an enormous number");
            }
            return Ok(low.iter().fold(0, |n, &b| n << 8 | u64::from(b)));
        }
        let text = std::str::from_utf8(field).map_err(|_| BAD)?;
        let text = text.trim_matches(|c| c == ' ' || c == '\0');
        if text.is_empty() {
            return Ok(0);
        }
        if !text.bytes().all(|b| (b'0'..=b'7').contains(&b)) {
            return Err(BAD);
        }
        u64::from_str_radix(text, 8).map_err(|_| BAD)
    }
}

/// Whether bytes begin like a tar.
pub(crate) fn looks_like_tar(head: &[u8]) -> bool {
    match head.first_chunk::<BLOCK>() {
        Some(block) if block.iter().all(|&b| b == 0) => true,
        Some(block) => Header::parse(block).is_ok(),
        None => false,
    }
}
