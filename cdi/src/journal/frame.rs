//! Framing of the journal: one record is one line, `LENGTH CRC32 JSON\n`, both numbers as eight hexadecimal
//! digits, so `cat` shows a journal.

use crate::{Error, Result};
use serde::Serialize;

/// Bytes of the two numbers, each with the space behind it.
const HEAD: usize = 18;
/// Longest record: a longer one was not written by this program.
const MAX: usize = 4 << 20;

pub(super) fn encode(record: &impl Serialize) -> Result<Vec<u8>> {
    let body =
        serde_json::to_vec(record).map_err(|e| Error::failed("cannot write a journal record").because(e))?;
    if body.len() > MAX {
        return Err(Error::failed(format!(
            "a journal record of {} bytes is over the limit of {MAX}",
            body.len()
        )));
    }
    let mut line = format!("{:08x} {:08x} ", body.len(), crc32fast::hash(&body)).into_bytes();
    line.extend_from_slice(&body);
    line.push(b'\n');
    Ok(line)
}

/// The complete records from the front; ends at the first that is torn.
pub(super) struct Records<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Records<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Records { bytes, at: 0 }
    }

    /// The end of the last complete record.
    pub(super) fn end(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let head = rest.get(..HEAD)?;
        let len = number(&head[..9])?;
        let crc = number(&head[9..])?;
        if len > MAX {
            return None;
        }
        let line = rest.get(HEAD..HEAD + len + 1)?;
        let (body, newline) = line.split_at(len);
        if newline != b"\n" || crc32fast::hash(body) as usize != crc {
            return None;
        }
        self.at += HEAD + len + 1;
        Some(body)
    }
}

/// Parses eight digits and a space. Strictly, so that a record has one form only.
fn number(text: &[u8]) -> Option<usize> {
    let (digits, space) = text.split_at(8);
    let strict = space == b" " && digits.iter().all(|d| matches!(d, b'0'..=b'9' | b'a'..=b'f'));
    let number = strict.then(|| std::str::from_utf8(digits).ok()).flatten()?;
    usize::from_str_radix(number, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_its_own_and_stops_at_a_tear() {
        let records = ["first", "second \n line", ""];
        let whole: Vec<u8> = records.iter().flat_map(|r| encode(r).unwrap()).collect();
        let starts: Vec<usize> = records
            .iter()
            .scan(0, |at, r| {
                *at += encode(r).unwrap().len();
                Some(*at)
            })
            .collect();
        for cut in 0..=whole.len() {
            let mut read = Records::new(&whole[..cut]);
            let n = starts.iter().filter(|&&s| s <= cut).count();
            assert_eq!(read.by_ref().count(), n, "cut at {cut}");
            assert_eq!(read.end(), if n == 0 { 0 } else { starts[n - 1] });
        }
        for at in 0..whole.len() {
            let mut bad = whole.clone();
            bad[at] ^= 1;
            let n = starts.iter().filter(|&&s| s <= at).count();
            assert_eq!(Records::new(&bad).count(), n, "flipped a bit at {at}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let mut read = Records::new(&bytes);
            read.by_ref().for_each(drop);
            prop_assert!(read.end() <= bytes.len());
        }
    }

    #[test]
    fn a_record_is_written_up_to_the_limit_and_no_longer_one_is_read() {
        // Two bytes are its quotes.
        let whole = encode(&"x".repeat(MAX - 2)).unwrap();
        assert_eq!(Records::new(&whole).next().map(<[u8]>::len), Some(MAX));
        let e = encode(&"x".repeat(MAX - 1)).unwrap_err();
        assert!(e.to_string().contains("is over the limit"), "{e}");
        let body = vec![b'x'; MAX + 1];
        let mut line = format!("{:08x} {:08x} ", body.len(), crc32fast::hash(&body)).into_bytes();
        line.extend_from_slice(&body);
        line.push(b'\n');
        assert_eq!(Records::new(&line).next(), None);
    }

    #[test]
    fn a_number_has_one_form_only() {
        assert_eq!(number(b"0000abcd "), Some(0xabcd));
        for odd in [b"0000ABCD ", b"+000abcd ", b"0000abcdx", b"    abcd "] {
            assert_eq!(number(odd), None, "{odd:?}");
        }
    }
}
