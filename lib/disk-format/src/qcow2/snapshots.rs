//! Internal snapshots. They are never read as disks, but their table must be valid in a valid image.

use super::header::{Header, SNAPSHOT_ENTRY};
use super::refuse;
use crate::{Error, ErrorKind, Format, ReadAt, Result};

const MAX_EXTRA: u32 = 1024;
const MAX_L1_ENTRIES: u32 = 4 << 20;
/// Maximum size of the snapshot table in QEMU.
const MAX_TABLE: u64 = 64 << 20;

/// Walks the snapshot table with a small buffer. Its length is limited, and nothing in it is followed.
pub(super) fn check(header: &Header, bytes: &dyn ReadAt) -> Result<()> {
    let mut reader = Reader { bytes, at: header.snapshots_offset, buffer: vec![], start: 0 };
    for i in 0..header.snapshots {
        let at = reader.at;
        let fixed: [u8; SNAPSHOT_ENTRY as usize] = reader.take(i)?;
        let u16 = |from: usize| u64::from(u16::from_be_bytes([fixed[from], fixed[from + 1]]));
        let u32 = |from: usize| fixed[from..from + 4].try_into().map_or(0, u32::from_be_bytes);
        let l1_offset = fixed[..8].try_into().map_or(0, u64::from_be_bytes);
        let (l1_entries, extra) = (u32(8), u32(36));
        let fail = |field: u64, what: String| {
            Err(refuse(ErrorKind::Malformed, at + field, format!("snapshot {i}: {what}")))
        };
        if extra > MAX_EXTRA {
            return fail(36, format!("extra_data_size is {extra}, at most {MAX_EXTRA} is allowed"));
        }
        if l1_entries > MAX_L1_ENTRIES {
            return fail(8, format!("l1_size is {l1_entries}, at most {MAX_L1_ENTRIES} is allowed"));
        }
        let end = l1_offset.checked_add(u64::from(l1_entries) * 8).filter(|&end| end <= bytes.size());
        if l1_offset % header.cluster_size() != 0 || end.is_none() {
            return fail(0, format!("its L1 table at {l1_offset:#x} is not on a cluster inside the file"));
        }
        let entry = SNAPSHOT_ENTRY + u64::from(extra) + u16(12) + u16(14);
        reader.at = at + entry.next_multiple_of(8);
        if reader.at - header.snapshots_offset > MAX_TABLE {
            return Err(refuse(ErrorKind::TooLarge, at, "the snapshot table is larger than 64 MiB"));
        }
        if at + entry > bytes.size() {
            return Err(refuse(
                ErrorKind::Truncated,
                at,
                format!("snapshot {i} reaches past the end of the file"),
            ));
        }
    }
    Ok(())
}

/// Most names that are returned, and the longest one in bytes.
const NAMES: u32 = 64;
const NAME: u16 = 256;

/// Names of the first snapshots, printable. The table was checked.
pub(super) fn names(header: &Header, bytes: &dyn ReadAt) -> Result<Vec<String>> {
    let (mut names, mut at) = (vec![], header.snapshots_offset);
    for _ in 0..header.snapshots.min(NAMES) {
        let read = |buffer: &mut [u8], at: u64| {
            bytes
                .read_exact_at(buffer, at)
                .map_err(|e| Error::io(Format::Qcow2, "the snapshot table cannot be read", at, e))
        };
        let mut fixed = [0; SNAPSHOT_ENTRY as usize];
        read(&mut fixed, at)?;
        let u16 = |from: usize| u16::from_be_bytes([fixed[from], fixed[from + 1]]);
        let extra = fixed[36..40].try_into().map_or(0, u32::from_be_bytes);
        let begin = at + SNAPSHOT_ENTRY + u64::from(extra) + u64::from(u16(12));
        let mut name = vec![0; usize::from(u16(14).min(NAME))];
        read(&mut name, begin)?;
        names.push(printable::line(&String::from_utf8_lossy(&name)));
        at = (begin + u64::from(u16(14))).next_multiple_of(8);
    }
    Ok(names)
}

struct Reader<'a> {
    bytes: &'a dyn ReadAt,
    at: u64,
    buffer: Vec<u8>,
    /// Offset of `buffer` in the file.
    start: u64,
}

impl Reader<'_> {
    const CHUNK: u64 = 64 << 10;

    fn take<const N: usize>(&mut self, nth: u32) -> Result<[u8; N]> {
        if self.at < self.start || self.at + N as u64 > self.start + self.buffer.len() as u64 {
            let there = self.bytes.size().saturating_sub(self.at).min(Self::CHUNK);
            if there < N as u64 {
                let what = format!("snapshot {nth} reaches past the end of the file");
                return Err(refuse(ErrorKind::Truncated, self.at, what));
            }
            self.buffer.resize(there as usize, 0);
            self.start = self.at;
            self.bytes
                .read_exact_at(&mut self.buffer, self.at)
                .map_err(|e| Error::io(Format::Qcow2, "the snapshot table cannot be read", self.at, e))?;
        }
        let from = (self.at - self.start) as usize;
        Ok(self.buffer[from..from + N].try_into().unwrap_or([0; N]))
    }
}
