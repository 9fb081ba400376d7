//! Partition tables: MBR with logical partitions, GPT ([`gpt`](super::gpt)), and hybrids of both.

use super::field::Fields;
use super::filesystem::Content;
use super::kind_name;
use super::peek::Peek;

/// Limit of partitions that are listed. Further ones are only counted.
pub const MOST_PARTITIONS: usize = 128;

/// Kind of a partition table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableKind {
    /// The PC's table in the first sector.
    Mbr,
    /// The table of UEFI.
    Gpt,
    /// A GPT whose MBR has further partitions besides the protective one.
    Hybrid,
}

/// A partition table and its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionTable {
    pub kind: TableKind,
    /// The GPT's disk GUID, or the MBR's 32-bit signature in hexadecimal.
    pub id: Option<String>,
    /// Bytes per sector in the table.
    pub sector: u32,
    /// The partitions in the order of their numbers.
    pub partitions: Vec<Partition>,
    /// Number of partitions that are not listed.
    pub more: u64,
    /// Defects of the table, one sentence each.
    pub problems: Vec<String>,
}

/// A partition of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// Number of the partition in the guest (`vda1` is 1; logical ones begin at 5).
    pub number: u32,
    /// Offset on the disk, in bytes.
    pub start: u64,
    /// Size of the partition, in bytes.
    pub size: u64,
    /// The GPT type GUID, or the MBR type as two hexadecimal digits.
    pub type_id: String,
    /// Name of that type.
    pub type_name: Option<&'static str>,
    /// Name from the GPT.
    pub name: Option<String>,
    /// GUID of this partition from the GPT.
    pub uuid: Option<String>,
    /// The active flag of an MBR, or the GPT attribute that means the same for a BIOS.
    pub active: bool,
    pub content: Content,
}

/// An MBR: the four entries, some of them empty.
pub(crate) struct Mbr {
    pub(crate) signature: u32,
    pub(crate) entries: [Entry; 4],
}

/// An entry of an MBR or of an extended boot record, in sectors.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) active: bool,
    pub(crate) kind: u8,
    pub(crate) start: u32,
    pub(crate) sectors: u32,
}

impl Entry {
    fn empty(self) -> bool {
        self.kind == 0 || self.sectors == 0
    }
    fn extended(self) -> bool {
        matches!(self.kind, 0x05 | 0x0f | 0x85) && !self.empty()
    }
    pub(crate) fn protective(self) -> bool {
        self.kind == 0xee
    }
}

/// Parses the MBR in `sector`. `None` if it is not one. A filesystem's boot sector also ends in 55 AA.
pub(crate) fn mbr(sector: &[u8]) -> Option<Mbr> {
    if !sector.has(510, &[0x55, 0xaa]) {
        return None;
    }
    let mut entries = [Entry { active: false, kind: 0, start: 0, sectors: 0 }; 4];
    for (i, entry) in entries.iter_mut().enumerate() {
        let at = 446 + 16 * i;
        let flag = sector.byte(at)?;
        if flag & 0x7f != 0 {
            return None;
        }
        let (kind, start, sectors) = (sector.byte(at + 4)?, sector.le32(at + 8)?, sector.le32(at + 12)?);
        *entry = Entry { active: flag == 0x80, kind, start, sectors };
    }
    Some(Mbr { signature: sector.le32(440)?, entries })
}

impl Mbr {
    /// True if the MBR protects a GPT.
    pub(crate) fn protective(&self) -> bool {
        self.entries.iter().any(|e| e.protective())
    }

    /// The used entries that are neither protective nor extended, with their numbers.
    pub(crate) fn primaries(&self) -> impl Iterator<Item = (u32, Entry)> {
        (1..).zip(self.entries).filter(|(_, e)| !e.empty() && !e.protective() && !e.extended())
    }

    /// The table of this MBR, with the logical partitions of its extended one.
    pub(crate) fn table(&self, peek: &Peek<'_>) -> PartitionTable {
        let id = (self.signature != 0).then(|| format!("{:08x}", self.signature));
        let mut table = PartitionTable {
            kind: TableKind::Mbr,
            id,
            sector: 512,
            partitions: vec![],
            more: 0,
            problems: vec![],
        };
        for (number, entry) in self.primaries() {
            table.add(mbr_partition(number, 0, entry));
        }
        if let Some(container) = self.entries.iter().copied().find(|e| e.extended()) {
            table.logical(peek, container);
        }
        table
    }
}

fn mbr_partition(number: u32, base: u64, entry: Entry) -> Partition {
    Partition {
        number,
        start: (base + u64::from(entry.start)) * 512,
        size: u64::from(entry.sectors) * 512,
        type_id: format!("{:02x}", entry.kind),
        type_name: kind_name::mbr(entry.kind),
        name: None,
        uuid: None,
        active: entry.active,
        content: Content::Unknown,
    }
}

impl PartitionTable {
    /// Adds a partition to the list, or counts it if the list is full.
    pub(crate) fn add(&mut self, partition: Partition) {
        if self.partitions.len() < MOST_PARTITIONS {
            self.partitions.push(partition);
        } else {
            self.more += 1;
        }
    }

    /// Adds problems for impossible partitions: past the end of the disk, or overlapping. Hybrid disc images
    /// are exempt from the latter, since their partitions cover the disc on purpose.
    pub(crate) fn check(&mut self, disk: Option<u64>, disc: bool) {
        let ends: Vec<_> =
            self.partitions.iter().map(|p| (p.number, p.start, p.start.saturating_add(p.size))).collect();
        for (i, &(number, start, end)) in ends.iter().enumerate() {
            if disk.is_some_and(|size| end > size) {
                self.problem(format!("partition {number} reaches past the end of the disk"));
            }
            let over = ends[..i].iter().find(|(_, s, e)| *s < end && start < *e);
            if let Some((other, ..)) = over.filter(|_| !disc) {
                self.problem(format!("partition {number} overlaps partition {other}"));
            }
        }
    }

    /// Adds a problem. Only the first few are kept, since a hostile table may have any number.
    pub(crate) fn problem(&mut self, what: String) {
        if self.problems.len() < 16 {
            self.problems.push(what);
        }
    }

    /// Follows the chain of extended boot records. It may only go forward, so it ends.
    fn logical(&mut self, peek: &Peek<'_>, container: Entry) {
        let base = u64::from(container.start);
        let (mut at, mut number) = (base, 5);
        while self.partitions.len() < MOST_PARTITIONS {
            let Some(record) = peek.get(at * 512, 512).as_deref().and_then(mbr) else {
                self.problem(format!("the extended boot record at sector {at} cannot be read"));
                return;
            };
            if !record.entries[0].empty() && !record.entries[0].extended() {
                self.add(mbr_partition(number, at, record.entries[0]));
                number += 1;
            }
            let next = record.entries[1];
            if !next.extended() {
                return;
            }
            let next = base + u64::from(next.start);
            if next <= at {
                self.problem(format!("the extended boot record at sector {at} points back to sector {next}"));
                return;
            }
            at = next;
        }
        self.problem(format!("more than {MOST_PARTITIONS} partitions; the rest is not listed"));
    }
}
