//! A qcow2 for a target that takes bytes in order, without a temporary file: the disk is read twice.
//!
//! ```text
//!  first   clusters ─► Writer ─► Measured   keeps header and tables, drops the guest's bytes ─► Layout
//!  second  clusters ─► Writer ─► Woven ───► target: before each cluster the tables that lie there
//!                                  └ a table that differs now: the disk was changed, and nothing is kept
//! ```
//!
//! The layout of a qcow2 depends only on the zeros of the disk, as long as its clusters are not compressed.
//! So the first reading determines every table, and the size of the file, which a tar header needs first. The
//! file is the same, byte for byte, as one that was written by offset.
//!
//! **Memory.** Tables are kept as differences of their words, packed: some 40 bytes for 512 MiB of data in
//! one piece. A guest can scatter its clusters so that they take more; beyond [`LARGEST`] the conversion
//! fails.

use crate::target::Target;
use crate::{Error, Result};
use disk_format::qcow2::write::WriteAt;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most bytes of packed tables.
pub(crate) const LARGEST: u64 = 8 << 20;
/// The largest table that is written at once: an L1 of a disk of 16 TiB has 256 KiB.
const TABLE: usize = 8 << 20;
/// Fast compression: it only saves memory.
const LEVEL: i32 = 1;

/// The layout of the qcow2, found by the first reading of the disk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Bytes of the file.
    pub(crate) size: u64,
    /// Header and tables, by their offsets in the file.
    tables: BTreeMap<u64, Packed>,
}

/// A table of the qcow2, packed with zstd as the differences between its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Packed {
    len: usize,
    bytes: Vec<u8>,
}

impl Packed {
    fn of(table: &[u8]) -> io::Result<Packed> {
        if table.len() > TABLE {
            return Err(Error::refused(format!("a table of {} bytes is not kept", table.len())).into());
        }
        Ok(Packed { len: table.len(), bytes: zstd::bulk::compress(&differences(table), LEVEL)? })
    }

    fn table(&self) -> io::Result<Vec<u8>> {
        Ok(sums(&zstd::bulk::decompress(&self.bytes, self.len)?))
    }
}

/// Replaces each word by its difference to the one before: entries of clusters that follow one another become
/// the same word.
fn differences(table: &[u8]) -> Vec<u8> {
    let mut before = 0;
    words(table, |word| {
        let difference = word.wrapping_sub(before);
        before = word;
        difference
    })
}

fn sums(differences: &[u8]) -> Vec<u8> {
    let mut sum: u64 = 0;
    words(differences, |difference| {
        sum = sum.wrapping_add(difference);
        sum
    })
}

/// The same bytes with each whole word replaced.
fn words(bytes: &[u8], mut of: impl FnMut(u64) -> u64) -> Vec<u8> {
    let (whole, rest) = bytes.as_chunks::<8>();
    let mut out = Vec::with_capacity(bytes.len());
    for word in whole {
        out.extend_from_slice(&of(u64::from_be_bytes(*word)).to_be_bytes());
    }
    out.extend_from_slice(rest);
    out
}

/// The target of the first reading.
#[derive(Default)]
pub(crate) struct Measured {
    kept: Mutex<(Layout, u64)>,
}

impl Measured {
    /// The layout of a file of this size.
    pub(crate) fn layout(self, size: u64) -> Layout {
        let (layout, _) = self.kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        Layout { size, ..layout }
    }
}

impl WriteAt for Measured {
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let packed = Packed::of(buf)?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.1 += packed.bytes.len() as u64;
        if kept.1 > LARGEST {
            let what = format!(
                "the tables of a qcow2 of this disk take more than {} MiB, since its data is scattered; write it raw",
                LARGEST >> 20
            );
            return Err(Error::refused(what).with_hint("--format raw").into());
        }
        kept.0.tables.insert(offset, packed);
        Ok(())
    }

    fn write_data_at(&self, _buf: &[u8], _offset: u64) -> io::Result<()> {
        Ok(())
    }

    fn zero_at(&self, _len: u64, _offset: u64) -> io::Result<()> {
        Ok(())
    }
}

/// The target of the second reading, in front of one that takes bytes in order.
pub(crate) struct Woven<'a> {
    target: &'a dyn Target,
    layout: &'a Layout,
    /// The next byte of the file.
    at: Mutex<u64>,
}

impl<'a> Woven<'a> {
    /// A target to which only the size of the file was announced yet.
    pub(crate) fn new(target: &'a dyn Target, layout: &'a Layout) -> Result<Woven<'a>> {
        target.announce(layout.size)?;
        Ok(Woven { target, layout, at: Mutex::new(0) })
    }

    /// Writes the rest, once all clusters came and the writer states this size of the file.
    pub(crate) fn finish(&self, size: u64) -> Result<()> {
        if size != self.layout.size {
            return Err(changed());
        }
        let mut at = self.at();
        self.fill(&mut at, size)
    }

    fn at(&self) -> MutexGuard<'_, u64> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the tables, and zeros between them, up to this offset.
    fn fill(&self, at: &mut u64, to: u64) -> Result<()> {
        while *at < to {
            let next = self.layout.tables.range(*at..to).next();
            let begins = next.map_or(to, |(&offset, _)| offset);
            if begins > *at {
                self.target.zero(*at, begins - *at)?;
                *at = begins;
                continue;
            }
            let Some((_, packed)) = next else { break };
            let table = packed.table().map_err(|e| Error::io("cannot unpack a table of the qcow2", e))?;
            self.target.write(*at, &table)?;
            *at += table.len() as u64;
        }
        Ok(())
    }
}

impl WriteAt for Woven<'_> {
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        match self.layout.tables.get(&offset) {
            Some(packed) if packed.table()? == buf => Ok(()),
            _ => Err(changed().into()),
        }
    }

    fn write_data_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut at = self.at();
        if offset < *at {
            return Err(changed().into());
        }
        self.fill(&mut at, offset)?;
        // A table that reaches into a cluster is not one of this disk.
        if offset != *at {
            return Err(changed().into());
        }
        self.target.write(offset, buf)?;
        *at += buf.len() as u64;
        Ok(())
    }

    fn zero_at(&self, _len: u64, _offset: u64) -> io::Result<()> {
        Ok(())
    }
}

fn changed() -> Error {
    Error::failed("the disk was changed between its two readings: nothing may write to it meanwhile")
        .of_another_version()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::memory_targets::InOrder;
    use disk_format::qcow2::write::{Options, Packed as Cluster, Writer};
    use proptest::prelude::*;

    const CLUSTER: usize = 4096;

    /// Writes a disk whose clusters hold their numbers, or nothing. Gives the size of the file.
    fn write(to: impl WriteAt, disk: &[bool]) -> disk_format::Result<u64> {
        let options = Options { cluster_bits: 12, ..Options::new((disk.len() * CLUSTER) as u64) };
        let mut writer = Writer::create(to, options)?;
        let mut packer = writer.packer();
        for (number, &is_data) in disk.iter().enumerate() {
            let bytes = if is_data { [number as u8 | 1; CLUSTER] } else { [0; CLUSTER] };
            match packer.pack(&bytes, &mut Vec::new())? {
                Cluster::Plain => writer.append_plain((number * CLUSTER) as u64, &bytes)?,
                Cluster::Zero => {}
                Cluster::Compressed => unreachable!("nothing is compressed"),
            }
        }
        Ok(writer.finish()?.file_size)
    }

    fn measured(disk: &[bool]) -> Layout {
        let measured = Measured::default();
        let size = write(&measured, disk).unwrap();
        measured.layout(size)
    }

    fn woven(disk: &[bool], layout: &Layout) -> Result<Vec<u8>> {
        let target = InOrder::default();
        let woven = Woven::new(&target, layout)?;
        let size = write(&woven, disk)?;
        woven.finish(size)?;
        Ok(target.bytes.into_inner().unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_file_is_the_same_as_one_that_is_written_by_offset(runs in prop::collection::vec((any::<bool>(), 1..1500_usize), 1..8)) {
            let disk: Vec<bool> = runs.iter().flat_map(|&(is, count)| std::iter::repeat_n(is, count)).collect();
            let by_offset = Mutex::new(Vec::new());
            let size = write(&by_offset, &disk).unwrap();
            let mut by_offset = by_offset.into_inner().unwrap();
            by_offset.resize(size as usize, 0);
            prop_assert!(woven(&disk, &measured(&disk)).unwrap() == by_offset);
        }
    }

    #[test]
    fn a_disk_that_is_changed_between_its_readings_is_noticed() {
        let before: Vec<bool> = (0..3000).map(|number| number % 7 < 3).collect();
        let layout = measured(&before);
        for number in [0, 3, 1499, 2999] {
            let mut after = before.clone();
            after[number] = !after[number];
            let e = woven(&after, &layout).unwrap_err();
            assert!(e.chain().contains("was changed between its two readings"), "{}", e.chain());
        }
        assert!(woven(&before, &layout).is_ok());
    }

    #[test]
    fn tables_of_data_in_one_piece_take_next_to_nothing() {
        let layout = measured(&vec![true; 20_000]);
        let kept: usize = layout.tables.values().map(|packed| packed.bytes.len()).sum();
        let tables: usize = layout.tables.values().map(|packed| packed.len).sum();
        assert!(kept * 20 < tables, "{kept} of {tables}");
    }

    #[test]
    fn a_table_of_any_length_comes_back_as_it_was() {
        for len in [0, 7, 8, 104, 4096, 4101] {
            let table: Vec<u8> = (0..len).map(|i| (i * i % 251) as u8).collect();
            assert_eq!(Packed::of(&table).unwrap().table().unwrap(), table);
        }
        assert!(Packed::of(&vec![0; TABLE]).is_ok() && Packed::of(&vec![0; TABLE + 1]).is_err());
    }

    #[test]
    fn scattered_tables_are_refused_where_they_fill_the_memory() {
        let measured = Measured::default();
        // Bytes that do not get smaller.
        let mut state = 1_u64;
        let mut word = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u8
        };
        let table: Vec<u8> = (0..1 << 20).map(|_| word()).collect();
        let refused = (0..9).find_map(|number| measured.write_all_at(&table, number << 20).err());
        let e = refused.unwrap();
        assert!(e.to_string().contains("take more than 8 MiB"), "{e}");
    }

    #[test]
    fn a_second_reading_that_is_another_one_is_noticed_at_each_call() {
        let disk = vec![true; 100];
        let layout = measured(&disk);
        let (&last, packed) = layout.tables.last_key_value().unwrap();
        let table = packed.table().unwrap();
        let target = InOrder::default();
        let woven = Woven::new(&target, &layout).unwrap();
        assert_eq!(*target.announced.lock().unwrap(), Some(layout.size));
        // The same table, then one with another byte, and one where there was none.
        woven.write_all_at(&table, last).unwrap();
        let mut other = table.clone();
        other[0] ^= 1;
        for (bytes, at) in [(&other, last), (&table, last + 512)] {
            assert!(woven.write_all_at(bytes, at).is_err());
        }
        // A cluster inside a table, and one where there is one already.
        let cluster = [1; CLUSTER];
        assert!(Woven::new(&InOrder::default(), &layout).unwrap().write_data_at(&cluster, 8).is_err());
        let data = (0..).map(|at| at * CLUSTER as u64).find(|at| !layout.tables.contains_key(at)).unwrap();
        woven.write_data_at(&cluster, data).unwrap();
        assert!(woven.write_data_at(&cluster, data).is_err());
        assert!(woven.finish(layout.size + 512).is_err());
        woven.finish(layout.size).unwrap();
        assert_eq!(target.bytes.lock().unwrap().len() as u64, layout.size);
    }
}
