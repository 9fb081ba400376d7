//! The records of a PAX extended header: `LENGTH KEY=VALUE\n`, of which only those that say where data is matter here.

use super::sparse::Segments;
use crate::filter::{Layer, refused};
use std::io;

/// What the extended headers before an entry say.
#[derive(Default)]
pub(super) struct Pax {
    pub(super) path: Option<String>,
    pub(super) size: Option<u64>,
    pub(super) sparse: Sparse,
}

/// GNU.sparse.*, in all versions.
#[derive(Default)]
pub(super) struct Sparse {
    pub(super) seen: bool,
    pub(super) major: Option<u64>,
    pub(super) minor: Option<u64>,
    pub(super) name: Option<String>,
    pub(super) real_size: Option<u64>,
    pub(super) blocks: Option<u64>,
    /// Versions 0.0 and 0.1 keep the map here.
    pub(super) map: Segments,
    /// An offset (0.0) whose length has not come yet.
    half: Option<u64>,
}

impl Pax {
    /// Takes the records of one header; later ones win. `global`: they would hold for all entries that follow, which is
    /// refused for what says where data is.
    pub(super) fn read(&mut self, mut records: &[u8], global: bool, at: u64) -> io::Result<()> {
        let broken =
            |what: &str| refused(Layer::Tar, at, format_args!("a PAX header here is broken: {what}"));
        while !records.is_empty() {
            let space = records.iter().take(20).position(|&b| b == b' ');
            let length =
                space.and_then(|space| number(&records[..space])).and_then(|n| usize::try_from(n).ok());
            let (Some(space), Some(length)) = (space, length) else {
                return Err(broken("a record does not begin with its length"));
            };
            let record = match records.get(space + 1..length) {
                Some([record @ .., b'\n']) => record,
                _ => return Err(broken("a record is not as long as it says")),
            };
            records = &records[length..];
            let Some(equals) = record.iter().position(|&b| b == b'=') else {
                return Err(broken("a record has no '='"));
            };
            let (key, value) = (&record[..equals], &record[equals + 1..]);
            if global && matters(key) {
                let key = shown(key);
                return Err(broken(&format!("it sets {key} for all files, which is not supported")));
            }
            if self.record(key, value).is_none() {
                let key = shown(key);
                return Err(broken(&format!("the value of {key} is not understood")));
            }
        }
        match self.sparse.half {
            Some(_) => Err(broken("a sparse offset has no length")),
            None => Ok(()),
        }
    }

    fn record(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let text = || String::from_utf8_lossy(value).into_owned();
        let sparse = &mut self.sparse;
        match key {
            b"path" => self.path = Some(text()),
            b"size" => self.size = Some(number(value)?),
            b"GNU.sparse.major" => sparse.major = Some(number(value)?),
            b"GNU.sparse.minor" => sparse.minor = Some(number(value)?),
            b"GNU.sparse.name" => sparse.name = Some(text()),
            b"GNU.sparse.size" | b"GNU.sparse.realsize" => sparse.real_size = Some(number(value)?),
            b"GNU.sparse.numblocks" => sparse.blocks = Some(number(value)?),
            b"GNU.sparse.offset" if sparse.half.is_none() => sparse.half = Some(number(value)?),
            b"GNU.sparse.numbytes" => sparse.map.push((sparse.half.take()?, number(value)?)),
            b"GNU.sparse.map" => sparse.map = map(value)?,
            // Anything else that would change where data is.
            _ if matters(key) => return None,
            _ => return Some(()),
        }
        sparse.seen |= key.starts_with(b"GNU.sparse.");
        Some(())
    }
}

fn matters(key: &[u8]) -> bool {
    // SCHILY.realsize is star's way to say that an entry is sparse.
    matches!(key, b"path" | b"size" | b"SCHILY.realsize") || key.starts_with(b"GNU.sparse.")
}

/// A key as text without what could steer a terminal.
fn shown(key: &[u8]) -> String {
    let key: String = String::from_utf8_lossy(key).chars().take(100).collect();
    key.escape_debug().to_string()
}

/// `OFFSET,LENGTH,OFFSET,LENGTH…`
fn map(value: &[u8]) -> Option<Segments> {
    if value.is_empty() {
        return Some(Vec::new());
    }
    let mut numbers = value.split(|&b| b == b',').map(number);
    let mut map = Vec::new();
    while let Some(offset) = numbers.next() {
        map.push((offset?, numbers.next()??));
    }
    Some(map)
}

/// Decimal digits and nothing else, at most 63 bits.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (value <= i64::MAX as u64).then_some(value)
}
