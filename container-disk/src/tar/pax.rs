//! The records of a PAX extended header: `LENGTH KEY=VALUE\n`. Records about a member's type, data or owner
//! are read, and unknown ones of that kind are refused. Others are ignored. Errors are reasons for a message.

use super::header::Segments;

/// The fields of the extended header before a member.
#[derive(Debug, Default)]
pub(super) struct Pax {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) uid: Option<u64>,
    pub(super) gid: Option<u64>,
    pub(super) sparse: Sparse,
}

/// GNU.sparse.* records of all versions.
#[derive(Debug, Default)]
pub(super) struct Sparse {
    pub(super) seen: bool,
    pub(super) major: Option<u64>,
    pub(super) minor: Option<u64>,
    pub(super) name: Option<Vec<u8>>,
    pub(super) real_size: Option<u64>,
    pub(super) blocks: Option<u64>,
    /// The map in versions 0.0 and 0.1.
    pub(super) map: Option<Segments>,
    /// An offset (version 0.0) whose length has not been read yet.
    half: Option<u64>,
}

impl Pax {
    /// Parses the records before one member.
    pub(super) fn parse(records: &[u8]) -> Result<Pax, String> {
        let mut pax = Pax::default();
        each(records, |key, value| pax.record(key, value))?;
        match pax.sparse.half {
            Some(_) => Err(broken("a sparse offset has no length")),
            None => Ok(pax),
        }
    }

    fn record(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let not_understood = || broken(&format!("the value of {} is not supported", escaped_key(key)));
        let number = || number(value).ok_or_else(not_understood);
        let text = || text(value).ok_or_else(not_understood);
        let sparse = &mut self.sparse;
        match key {
            b"path" => once(&mut self.path, text()?, key)?,
            b"linkpath" => once(&mut self.link, text()?, key)?,
            b"size" => once(&mut self.size, number()?, key)?,
            b"uid" => once(&mut self.uid, number()?, key)?,
            b"gid" => once(&mut self.gid, number()?, key)?,
            b"GNU.sparse.major" => once(&mut sparse.major, number()?, key)?,
            b"GNU.sparse.minor" => once(&mut sparse.minor, number()?, key)?,
            b"GNU.sparse.name" => once(&mut sparse.name, text()?, key)?,
            b"GNU.sparse.size" | b"GNU.sparse.realsize" => once(&mut sparse.real_size, number()?, key)?,
            b"GNU.sparse.numblocks" => once(&mut sparse.blocks, number()?, key)?,
            b"GNU.sparse.offset" if sparse.half.is_none() => sparse.half = Some(number()?),
            b"GNU.sparse.numbytes" => {
                let offset = sparse.half.take().ok_or_else(not_understood)?;
                sparse.map.get_or_insert_default().push((offset, number()?));
            }
            b"GNU.sparse.map" => once(&mut sparse.map, map(value).ok_or_else(not_understood)?, key)?,
            _ if moves(key) => {
                let what = format!("{} makes overlay file systems show another file", escaped_key(key));
                return Err(broken(&what));
            }
            _ if matters(key) => return Err(not_understood()),
            _ => return Ok(()),
        }
        sparse.seen |= key.starts_with(b"GNU.sparse.");
        Ok(())
    }
}

/// Checks the records for all following members. Records that would change them are refused.
pub(super) fn check_global(records: &[u8]) -> Result<(), String> {
    each(records, |key, _| match matters(key) {
        true => Err(broken(&format!("it sets {} for all files, which is not supported", escaped_key(key)))),
        false => Ok(()),
    })
}

fn each(mut records: &[u8], mut f: impl FnMut(&[u8], &[u8]) -> Result<(), String>) -> Result<(), String> {
    while !records.is_empty() {
        let space = records.iter().take(20).position(|&b| b == b' ');
        let length = space.and_then(|space| number(&records[..space])).and_then(|n| usize::try_from(n).ok());
        let (Some(space), Some(length)) = (space, length) else {
            return Err(broken("a record does not begin with its length"));
        };
        let record = match records.get(space + 1..length) {
            Some([record @ .., b'\n']) => record,
            _ => return Err(broken("a record does not have the length that it states")),
        };
        records = &records[length..];
        let Some(equals) = record.iter().position(|&b| b == b'=') else {
            return Err(broken("a record has no '='"));
        };
        f(&record[..equals], &record[equals + 1..])?;
    }
    Ok(())
}

/// True if a record changes a member's type, data or owner.
fn matters(key: &[u8]) -> bool {
    match key {
        b"path" | b"linkpath" | b"size" | b"uid" | b"gid" => true,
        // Sparse members of star and Solaris.
        b"SCHILY.realsize" | b"SUN.holesdata" => true,
        // Label and number of a volume are metadata. Other keys continue a member from another volume.
        b"GNU.volume.label" | b"GNU.volume.minor" => false,
        key => key.starts_with(b"GNU.sparse.") || key.starts_with(b"GNU.volume.") || moves(key),
    }
}

/// True for an attribute of overlay file systems that hides files below or shows others. Some attributes do
/// neither, and get into archives by accident.
fn moves(key: &[u8]) -> bool {
    const NOTES: [&[u8]; 6] = [b"origin", b"impure", b"nlink", b"upper", b"uuid", b"protattr"];
    let attribute = key.strip_prefix(b"SCHILY.xattr.");
    let named = attribute.and_then(|name| {
        name.strip_prefix(b"trusted.overlay.").or_else(|| name.strip_prefix(b"user.overlay."))
    });
    named.is_some_and(|name| !NOTES.contains(&name))
}

fn once<T>(field: &mut Option<T>, value: T, key: &[u8]) -> Result<(), String> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(broken(&format!("it has {} twice", escaped_key(key)))),
    }
}

fn text(value: &[u8]) -> Option<Vec<u8>> {
    (!value.is_empty() && !value.contains(&0)).then(|| value.to_vec())
}

/// Parses a sparse map: `OFFSET,LENGTH,OFFSET,LENGTH…`.
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

/// Parses a number of decimal digits only, of at most 63 bits.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value: i64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    u64::try_from(value).ok()
}

/// A key as escaped text for a message.
fn escaped_key(key: &[u8]) -> String {
    let key: String = String::from_utf8_lossy(key).chars().take(100).collect();
    key.escape_debug().to_string()
}

fn broken(what: &str) -> String {
    format!("a PAX header here is broken: {what}")
}
