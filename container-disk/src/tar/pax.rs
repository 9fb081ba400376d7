//! The records of a PAX header: `LENGTH key=value\n`.

/// What such a header says about the next member.
#[derive(Default)]
pub(super) struct Pax {
    pub(super) path: Option<Vec<u8>>,
    pub(super) link: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
    pub(super) uid: Option<u64>,
    pub(super) gid: Option<u64>,
}

impl Pax {
    /// The reason of a refusal is for a message.
    pub(super) fn parse(mut bytes: &[u8]) -> Result<Pax, String> {
        let mut pax = Pax::default();
        while !bytes.is_empty() {
            let (key, value, rest) = record(bytes).ok_or("a PAX header that is broken")?;
            bytes = rest;
            match key {
                b"path" => once(&mut pax.path, text(value)?, key)?,
                b"linkpath" => once(&mut pax.link, text(value)?, key)?,
                b"size" => once(&mut pax.size, number(value)?, key)?,
                b"uid" => once(&mut pax.uid, number(value)?, key)?,
                b"gid" => once(&mut pax.gid, number(value)?, key)?,
                key if key.starts_with(b"GNU.sparse.") => {
                    return Err("a sparse member, which container runtimes refuse".into());
                }
                _ => {}
            }
        }
        Ok(pax)
    }

    /// Whether it says anything that we go by.
    pub(super) fn says_nothing(&self) -> bool {
        matches!(self, Pax { path: None, link: None, size: None, uid: None, gid: None })
    }
}

fn once<T>(field: &mut Option<T>, value: T, key: &[u8]) -> Result<(), String> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("a PAX header that tells its {} twice", String::from_utf8_lossy(key))),
    }
}

fn text(value: &[u8]) -> Result<Vec<u8>, &'static str> {
    if value.is_empty() || value.contains(&0) {
        Err("a PAX header with a bad name")
    } else {
        Ok(value.to_vec())
    }
}

fn number(value: &[u8]) -> Result<u64, &'static str> {
    let text = std::str::from_utf8(value).ok().filter(|t| t.bytes().all(|b| b.is_ascii_digit()));
    text.and_then(|t| t.parse().ok()).ok_or("a PAX header with a bad number")
}

/// Key, value and the bytes after the record.
fn record(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let blank = bytes.iter().take(12).position(|&b| b == b' ')?;
    let digits =
        std::str::from_utf8(&bytes[..blank]).ok().filter(|t| t.bytes().all(|b| b.is_ascii_digit()))?;
    let len: usize = digits.parse().ok()?;
    let (record, rest) = bytes.split_at_checked(len)?;
    let record = record.get(blank + 1..)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|&b| b == b'=')?;
    Some((&record[..equals], &record[equals + 1..], rest))
}
