//! Tar headers for writing. They are plain ustar if possible. Sizes from 8 GiB on, long names and dates after
//! 2242 are written in a PAX header before it. Sparse members are not written, since container runtimes
//! refuse them.

/// Size of a tar block, in bytes.
pub const BLOCK: usize = 512;
/// The end mark of a tar.
pub(crate) const END: [u8; 2 * BLOCK] = [0; 2 * BLOCK];

/// The largest number that 11 octal digits hold.
const OCTAL_11: u64 = (1 << 33) - 1;

/// A file, or a folder (its name ends with a slash).
#[derive(Clone, Copy)]
pub(crate) struct Item<'a> {
    pub(crate) name: &'a str,
    pub(crate) size: u64,
    pub(crate) mode: u32,
    pub(crate) mtime: u64,
    /// ID and name, for both user and group.
    pub(crate) owner: (u32, &'a str),
}

/// The header of an item, with a PAX header before it if necessary.
pub(crate) fn head(item: &Item<'_>) -> Vec<u8> {
    let mut records = String::new();
    if item.mtime > OCTAL_11 {
        record(&mut records, "mtime", &item.mtime.to_string());
    }
    if !is_short(item.name) {
        record(&mut records, "path", item.name);
    }
    if item.size > OCTAL_11 {
        record(&mut records, "size", &item.size.to_string());
    }
    let mut out = Vec::with_capacity(3 * BLOCK);
    if !records.is_empty() {
        let size = records.len() as u64;
        let extended = Item { name: "PaxHeader", size, mode: 0o644, mtime: 0, owner: (0, "") };
        out.extend_from_slice(&block(&extended, b'x', size));
        out.extend_from_slice(records.as_bytes());
        out.resize(out.len() + rest(size), 0);
    }
    let kind = if item.name.ends_with('/') { b'5' } else { b'0' };
    let size = if item.size > OCTAL_11 { 0 } else { item.size };
    out.extend_from_slice(&block(item, kind, size));
    out
}

/// The header of a file whose size was not known when space for it was left. One block, with large sizes in base 256. A name that
/// does not fit there takes a PAX header, and two blocks more.
pub(crate) fn patched(item: &Item<'_>) -> Vec<u8> {
    if !is_short(item.name) {
        return head(item);
    }
    let mut out = block(item, b'0', item.size.min(OCTAL_11));
    if item.size > OCTAL_11 {
        out[124..136].fill(0);
        out[124] = 0x80;
        out[128..136].copy_from_slice(&item.size.to_be_bytes());
        sum(&mut out);
    }
    out.to_vec()
}

/// True for a name that fits into a header of one block.
fn is_short(name: &str) -> bool {
    name.len() <= 100 && name.is_ascii()
}

/// Number of zeros that fill the last block of a file.
pub(crate) fn rest(size: u64) -> usize {
    let over = (size % BLOCK as u64) as usize;
    if over == 0 { 0 } else { BLOCK - over }
}

fn block(item: &Item<'_>, kind: u8, size: u64) -> [u8; BLOCK] {
    let mut out = [0; BLOCK];
    // If the name does not fit, the PAX record has the full name and this one is only informative.
    let name: Vec<u8> = item.name.bytes().map(|b| if b.is_ascii() { b } else { b'_' }).take(100).collect();
    put(&mut out, 0, &name);
    octal(&mut out[100..108], u64::from(item.mode));
    octal(&mut out[108..116], u64::from(item.owner.0));
    octal(&mut out[116..124], u64::from(item.owner.0));
    octal(&mut out[124..136], size);
    octal(&mut out[136..148], item.mtime.min(OCTAL_11));
    out[156] = kind;
    put(&mut out, 257, b"ustar\x0000");
    put(&mut out, 265, item.owner.1.as_bytes());
    put(&mut out, 297, item.owner.1.as_bytes());
    octal(&mut out[329..337], 0);
    octal(&mut out[337..345], 0);
    sum(&mut out);
    out
}

fn put(out: &mut [u8; BLOCK], at: usize, bytes: &[u8]) {
    out[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Writes digits with leading zeros and a NUL.
fn octal(field: &mut [u8], mut value: u64) {
    let digits = field.len() - 1;
    for digit in field[..digits].iter_mut().rev() {
        *digit = b'0' + (value & 7) as u8;
        value >>= 3;
    }
}

fn sum(out: &mut [u8; BLOCK]) {
    out[148..156].fill(b' ');
    let sum = out.iter().map(|&b| u64::from(b)).sum();
    octal(&mut out[148..155], sum);
}

/// Appends `LENGTH key=value\n`. The length includes its own digits.
fn record(out: &mut String, key: &str, value: &str) {
    let without = key.len() + value.len() + 3;
    let mut len = without + 1;
    while len != without + len.to_string().len() {
        len += 1;
    }
    out.push_str(&format!("{len} {key}={value}\n"));
}
