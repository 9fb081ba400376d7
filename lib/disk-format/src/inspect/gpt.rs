//! The GUID partition table: header and entries with their checksums, and the backup if the primary table is
//! broken.

use super::field::{Fields, guid, utf16le};
use super::filesystem::Content;
use super::kind_name;
use super::partition::{Partition, PartitionTable, TableKind};
use super::peek::Peek;

pub(crate) const SIGNATURE: &[u8] = b"EFI PART";
/// Limit of bytes of entries that are read and checked. The standard table has 16 KiB.
const MOST_ENTRY_BYTES: u64 = 256 << 10;

/// The fields of a header that are used here.
struct Header {
    sector: u32,
    lba: u64,
    alternate: u64,
    disk: [u8; 16],
    entries: u64,
    count: u32,
    entry_size: u32,
    entries_crc: u32,
}

/// Reads the GPT of a disk. `None` if there is not one. Defects are listed in the table's problems.
pub(crate) fn gpt(peek: &Peek<'_>) -> Option<PartitionTable> {
    let mut problems = vec![];
    for sector in [512u32, 4096] {
        let at = u64::from(sector);
        match peek.get(at, 512).as_deref().map(|bytes| header(bytes, sector, 1)) {
            Some(Ok(primary)) => return Some(table(peek, &primary, problems)),
            Some(Err(Some(why))) => problems.push(format!("the primary table is broken: {why}")),
            _ => {}
        }
    }
    // The primary table is lost. A backup in the last sector proves that the disk had a GPT.
    for sector in [512u32, 4096] {
        let size = peek.size()?;
        let at = (size / u64::from(sector)).checked_sub(1).filter(|&lba| lba > 1)? * u64::from(sector);
        if let Some(Ok(backup)) =
            peek.get(at, 512).as_deref().map(|b| header(b, sector, at / u64::from(sector)))
        {
            if problems.is_empty() {
                problems.push("there is no primary table; this is the backup at the end of the disk".into());
            } else {
                problems.push("this is the backup at the end of the disk".into());
            }
            return Some(table(peek, &backup, problems));
        }
    }
    (!problems.is_empty()).then(|| PartitionTable {
        kind: TableKind::Gpt,
        id: None,
        sector: 512,
        partitions: vec![],
        more: 0,
        problems,
    })
}

/// Reads a header. `Err(None)`: no signature. `Err(Some(why))`: a signature, but an invalid header.
fn header(bytes: &[u8], sector: u32, lba: u64) -> Result<Header, Option<String>> {
    if !bytes.has(0, SIGNATURE) {
        return Err(None);
    }
    let short = || Some("its header is cut off".to_string());
    let size = bytes.le32(12).ok_or_else(short)?;
    let Some(covered) = usize::try_from(size).ok().filter(|&n| n >= 92).and_then(|n| bytes.get(..n)) else {
        return Err(Some(format!("its header size is {size}, between 92 and 512 is allowed")));
    };
    let mut zeroed = covered.to_vec();
    zeroed[16..20].fill(0);
    let (stated, true_crc) = (bytes.le32(16).ok_or_else(short)?, libdeflater::crc32(&zeroed));
    if stated != true_crc {
        return Err(Some(format!("its header checksum is {stated:08x}, the header's is {true_crc:08x}")));
    }
    let found = bytes.le64(24).ok_or_else(short)?;
    if found != lba {
        return Err(Some(format!("its own position is sector {found}, but it was found in sector {lba}")));
    }
    let entry_size = bytes.le32(84).ok_or_else(short)?;
    if !(128..=4096).contains(&entry_size) || !entry_size.is_power_of_two() {
        return Err(Some(format!(
            "its entry size is {entry_size}, a power of two from 128 to 4096 is allowed"
        )));
    }
    Ok(Header {
        sector,
        lba,
        alternate: bytes.le64(32).ok_or_else(short)?,
        disk: bytes.array(56).ok_or_else(short)?,
        entries: bytes.le64(72).ok_or_else(short)?,
        count: bytes.le32(80).ok_or_else(short)?,
        entry_size,
        entries_crc: bytes.le32(88).ok_or_else(short)?,
    })
}

fn table(peek: &Peek<'_>, header: &Header, problems: Vec<String>) -> PartitionTable {
    let mut table = PartitionTable {
        kind: TableKind::Gpt,
        id: guid(header.disk),
        sector: header.sector,
        partitions: vec![],
        more: 0,
        problems,
    };
    let sector = u64::from(header.sector);
    if let (1, Some(size)) = (header.lba, peek.size())
        && header.alternate != (size / sector).saturating_sub(1)
    {
        table.problem(format!(
            "the backup table should be in sector {}, which is not the last of the disk: the disk was resized",
            header.alternate
        ));
    }
    let bytes = u64::from(header.count) * u64::from(header.entry_size);
    let read = bytes.min(MOST_ENTRY_BYTES);
    let entries = header.entries.checked_mul(sector).and_then(|at| peek.get(at, read as usize));
    let Some(entries) = entries else {
        table.problem(format!("its entries (at sector {}) cannot be read", header.entries));
        return table;
    };
    if read < bytes {
        table.problem(format!(
            "it has room for {} entries; only the first {read} bytes of them were read",
            header.count
        ));
    } else if libdeflater::crc32(&entries) != header.entries_crc {
        table.problem("the checksum of its entries is wrong".into());
    }
    for (number, entry) in (1..).zip(entries.chunks_exact(header.entry_size as usize)) {
        if let Some(partition) = partition(&mut table, number, entry, sector) {
            table.add(partition);
        }
    }
    table
}

/// Reads one entry. `None` if it is empty or invalid; the latter adds a problem to the table.
fn partition(table: &mut PartitionTable, number: u32, entry: &[u8], sector: u64) -> Option<Partition> {
    let type_id = guid(entry.array(0)?)?;
    let (first, last) = (entry.le64(32)?, entry.le64(40)?);
    let sectors = last.checked_sub(first).and_then(|n| n.checked_add(1));
    let (start, size) = (first.checked_mul(sector), sectors.and_then(|n| n.checked_mul(sector)));
    let (Some(start), Some(size)) = (start, size) else {
        table.problem(format!("partition {number} goes from sector {first} to sector {last}"));
        return None;
    };
    Some(Partition {
        number,
        start,
        size,
        type_name: kind_name::gpt(&type_id),
        type_id,
        name: utf16le(entry.get(56..128)?),
        uuid: guid(entry.array(16)?),
        active: entry.le64(48)? & 0b100 != 0,
        content: Content::Unknown,
    })
}
