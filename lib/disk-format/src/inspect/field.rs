//! Numbers and text from bytes that may be too short or hostile. Every access is checked, and all text is
//! safe to print.

/// Maximum number of characters of a label or a name.
const LONGEST: usize = 256;

/// Fields of a structure on disk. Each is `None` if the bytes end before it.
pub(crate) trait Fields {
    /// `N` bytes at `at`.
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]>;
    /// True if the bytes at `at` are `magic`.
    fn has(&self, at: usize, magic: &[u8]) -> bool;

    /// Reads one byte at `at`.
    fn byte(&self, at: usize) -> Option<u8> {
        self.array::<1>(at).map(|[b]| b)
    }
    /// Reads a little-endian 16-bit number.
    fn le16(&self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_le_bytes)
    }
    /// Reads a little-endian 32-bit number.
    fn le32(&self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes)
    }
    /// Reads a little-endian 64-bit number.
    fn le64(&self, at: usize) -> Option<u64> {
        self.array(at).map(u64::from_le_bytes)
    }
    /// Reads a big-endian 16-bit number.
    fn be16(&self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_be_bytes)
    }
    /// Reads a big-endian 32-bit number.
    fn be32(&self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_be_bytes)
    }
    /// Reads a big-endian 64-bit number.
    fn be64(&self, at: usize) -> Option<u64> {
        self.array(at).map(u64::from_be_bytes)
    }
}

impl Fields for [u8] {
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.get(at..at.checked_add(N)?)?.try_into().ok()
    }
    fn has(&self, at: usize, magic: &[u8]) -> bool {
        at.checked_add(magic.len()).and_then(|end| self.get(at..end)) == Some(magic)
    }
}

/// Printable text from bytes, up to the first NUL (see [`harmless`]).
pub(crate) fn text(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    harmless(&String::from_utf8_lossy(&bytes[..end]))
}

/// Printable text from little-endian UTF-16.
pub(crate) fn utf16le(bytes: &[u8]) -> Option<String> {
    utf16(bytes.chunks_exact(2).map(|c| u16::from_le_bytes([c[0], c[1]])))
}

/// Printable text from big-endian UTF-16.
pub(crate) fn utf16be(bytes: &[u8]) -> Option<String> {
    utf16(bytes.chunks_exact(2).map(|c| u16::from_be_bytes([c[0], c[1]])))
}

fn utf16(units: impl Iterator<Item = u16>) -> Option<String> {
    let chars = char::decode_utf16(units.take_while(|&u| u != 0));
    harmless(&chars.map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect::<String>())
}

/// Text that is safe to print, without blanks at its ends. `None` if it is empty.
pub(crate) fn harmless(text: &str) -> Option<String> {
    let plain = printable::text(text.trim(), LONGEST);
    let plain = plain.trim();
    (!plain.is_empty()).then(|| plain.to_owned())
}

/// A UUID in big-endian byte order. `None` for all zeros.
pub(crate) fn uuid(bytes: [u8; 16]) -> Option<String> {
    if bytes == [0; 16] {
        return None;
    }
    let hex =
        |range: std::ops::Range<usize>| bytes[range].iter().map(|b| format!("{b:02x}")).collect::<String>();
    Some(format!("{}-{}-{}-{}-{}", hex(0..4), hex(4..6), hex(6..8), hex(8..10), hex(10..16)))
}

/// A GUID in Microsoft's byte order: the first three groups are little-endian.
pub(crate) fn guid(mut bytes: [u8; 16]) -> Option<String> {
    bytes[0..4].reverse();
    bytes[4..6].reverse();
    bytes[6..8].reverse();
    uuid(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_steer_a_terminal() {
        assert_eq!(text(b"root\0junk"), Some("root".into()));
        assert_eq!(text(b"  cidata   "), Some("cidata".into()));
        assert_eq!(text(b"a\x1b[31mb"), Some("a [31mb".into()));
        assert_eq!(harmless("abc\u{202e}def"), Some("abc def".into()));
        assert_eq!(harmless("abc\u{200b}def\u{feff}"), Some("abc def".into()), "what is not seen");
        assert_eq!(text(b"   \0"), None);
        assert_eq!(harmless("\u{202e} \u{7}"), None);
        assert_eq!(harmless(&"x".repeat(300)).map(|long| long.len()), Some(258), "… takes three bytes");
    }

    #[test]
    fn fields_end_where_the_bytes_end() {
        let b: &[u8] = &[1, 2, 3];
        assert_eq!(b.le16(1), Some(0x0302));
        assert_eq!(b.le16(2), None);
        assert_eq!(b.be32(usize::MAX), None);
        assert!(!b.has(usize::MAX, b"x"));
    }

    #[test]
    fn guids_turn_their_first_groups() {
        let esp =
            [0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b];
        assert_eq!(guid(esp), Some("c12a7328-f81f-11d2-ba4b-00a0c93ec93b".into()));
        assert_eq!(guid([0; 16]), None);
    }
}
