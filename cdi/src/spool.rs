//! Ranges of a stream that wait on disk for the tables that give their place; bounded, in an anonymous file.
//!
//! They are kept in a sparse file at the offsets they had in the stream, and read again when the tables have
//! come. The file has no name from the start (or from the next moment, where the file system cannot do that),
//! so nothing is left behind however the run ends.

use crate::size::Human;
use crate::{Error, Result, sys, zeros};
use container_disk::{AnonymousFile, anonymous_file};
use disk_format::ReadAt;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Disk space is taken in blocks; every range is charged whole ones. This also bounds the list of ranges: at
/// most `max / BLOCK` of them, at some 50 bytes of memory each.
const BLOCK: u64 = 4096;

/// A bounded file for ranges of a stream.
#[derive(Debug)]
pub struct Spool {
    file: AnonymousFile,
    folder: PathBuf,
    max: u64,
    kept: Mutex<KeptRanges>,
}

#[derive(Debug, Default)]
struct KeptRanges {
    /// Begin and end of each range; they neither overlap nor touch.
    ranges: BTreeMap<u64, u64>,
    /// Disk space of the ranges, in whole blocks.
    taken: u64,
    /// The end of the file.
    end: u64,
}

/// A view of the spool as the file it holds ranges of.
#[derive(Debug)]
pub struct Spooled<'a> {
    spool: &'a Spool,
    size: u64,
}

impl Spool {
    /// A spool in `folder` (that of the target, or for temporary files) that may take up to `max` bytes on
    /// disk.
    pub fn beside(folder: &Path, max: u64) -> Result<Self> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let file = anonymous_file(folder)
            .map_err(|e| Error::io(format!("cannot make a temporary file in {}", folder.display()), e))?;
        Ok(Spool { file, folder: folder.to_owned(), max, kept: Mutex::default() })
    }

    /// Keeps bytes that were at `offset` of the stream. A range may be given only once.
    pub fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut kept = self.kept();
        let end = offset
            .checked_add(bytes.len() as u64)
            .ok_or_else(|| Error::refused("a stream of over 2^64 bytes"))?;
        kept.add(offset, end, self.max)?;
        let is_longer = end > kept.end;
        kept.end = kept.end.max(end);
        let put = match zeros::is_zero(bytes) {
            // Zeros stay a hole, which the file may end with.
            true if is_longer => self.file.set_len(end),
            true => Ok(()),
            false => self.file.write_all_at(bytes, offset),
        };
        put.map_err(|e| {
            let what =
                format!("cannot keep {} of the stream in {}", Human(kept.taken), self.folder.display());
            Error::io(what, e)
        })
    }

    /// The most that was kept at any time, as it counts against the bound.
    pub fn peak(&self) -> u64 {
        // No space is given back before the end.
        self.kept().taken
    }

    /// Fails if the read bytes may not be the kept ones. Called after the last read.
    pub(crate) fn check_written_back(&self) -> Result<()> {
        match self.is_empty() {
            true => Ok(()),
            false => sys::written_back(self.file.as_fd()).map_err(|e| lost(&self.folder, e)),
        }
    }

    /// True if no range had to be kept.
    pub fn is_empty(&self) -> bool {
        self.kept().ranges.is_empty()
    }

    /// The kept ranges as parts of a file of `size` bytes. Reading anything else is an error.
    pub fn of_size(&self, size: u64) -> Spooled<'_> {
        Spooled { spool: self, size }
    }

    fn kept(&self) -> MutexGuard<'_, KeptRanges> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error for lost bytes of a temporary file in this folder.
pub(crate) fn lost(folder: &Path, e: io::Error) -> Error {
    let what = format!(
        "a part of the disk was lost in a temporary file in {}: look at the device",
        folder.display()
    );
    Error::failed(what).because(e)
}

impl KeptRanges {
    fn add(&mut self, from: u64, to: u64, max: u64) -> Result<()> {
        let before = self.ranges.range(..=from).next_back().map(|(&a, &b)| (a, b));
        let after = self.ranges.range(from..).next().map(|(&a, &b)| (a, b));
        if before.is_some_and(|(_, end)| end > from) || after.is_some_and(|(start, _)| start < to) {
            return Err(Error::failed(format!("bytes {from} to {to} of the stream are kept twice")));
        }
        let before = before.filter(|&(_, end)| end == from);
        let after = after.filter(|&(start, _)| start == to);
        let whole = (before.map_or(from, |b| b.0), after.map_or(to, |a| a.1));
        let less = before.map_or(0, |b| blocks(b.0, b.1)) + after.map_or(0, |a| blocks(a.0, a.1));
        let taken = (self.taken - less).saturating_add(blocks(whole.0, whole.1));
        if taken > max {
            let what = format!(
                "the image's tables come so late in the stream that {} ({taken} bytes) of data would have to wait on \
                 disk for them, and {} ({max} bytes) are allowed; convert it from a file or a server instead",
                Human(taken),
                Human(max),
            );
            return Err(Error::refused(what));
        }
        self.taken = taken;
        if let Some((start, _)) = after {
            self.ranges.remove(&start);
        }
        self.ranges.insert(whole.0, whole.1);
        Ok(())
    }

    fn holds(&self, from: u64, to: u64) -> bool {
        from == to || self.ranges.range(..=from).next_back().is_some_and(|(_, &end)| end >= to)
    }
}

/// The disk space of a range.
fn blocks(from: u64, to: u64) -> u64 {
    (to.div_ceil(BLOCK) - from / BLOCK).saturating_mul(BLOCK)
}

impl ReadAt for Spooled<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64).filter(|&end| end <= self.size);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        if !self.spool.kept().holds(offset, end) {
            let what = format!(
                "the reader of the image needs bytes {offset} to {end} of the stream again, which are not kept"
            );
            return Err(Error::failed(what).into());
        }
        self.spool.file.read_exact_at(buf, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use proptest::prelude::*;

    #[test]
    fn keeps_what_it_was_given_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::beside(folder.path(), 1 << 20).unwrap();
        assert!(spool.is_empty());
        spool.put(5 << 40, b"far").unwrap();
        spool.put(10, b"near").unwrap();
        spool.put(14, b"er").unwrap();
        let file = spool.of_size(6 << 40);
        assert_eq!(file.size(), 6 << 40);
        let mut buf = [0; 6];
        file.read_exact_at(&mut buf, 10).unwrap();
        assert_eq!(&buf, b"nearer");
        file.read_exact_at(&mut buf[..3], 5 << 40).unwrap();
        assert_eq!(&buf[..3], b"far");
        for (at, len) in [(9, 2), (15, 2), (0, 1), ((5 << 40) - 1, 4), (5 << 40, 4)] {
            let e = Error::io("x", file.read_exact_at(&mut buf[..len], at).unwrap_err());
            assert!(e.to_string().contains("which are not kept"), "{at}: {e}");
        }
        let past = spool.of_size(12).read_exact_at(&mut buf[..4], 10).unwrap_err();
        assert_eq!(past.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(spool.peak(), 2 * BLOCK);
        assert!(spool.put(12, b"x").unwrap_err().to_string().contains("twice"));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "it has no name");
    }

    #[test]
    fn zeros_take_no_room_and_are_read_like_all_else() {
        use std::os::unix::fs::MetadataExt as _;
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::beside(folder.path(), 64 << 20).unwrap();
        spool.put(0, &[1; 4096]).unwrap();
        spool.put(8 << 20, &vec![0; 8 << 20]).unwrap();
        spool.put(4 << 20, &vec![0; 1 << 20]).unwrap();
        assert!(spool.file.metadata().unwrap().blocks() < 1024, "{:?}", spool.file.metadata());
        assert_eq!(spool.peak(), (9 << 20) + 4096, "they count against the bound");
        let file = spool.of_size(16 << 20);
        for at in [8 << 20, (16 << 20) - 7, 4 << 20] {
            let mut buf = [9; 7];
            file.read_exact_at(&mut buf, at).unwrap();
            assert_eq!(buf, [0; 7], "{at}");
        }
    }

    #[test]
    fn the_bound_holds() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::beside(folder.path(), 3 * BLOCK).unwrap();
        spool.put(0, &[1; 4096]).unwrap();
        spool.put(8192, &[1; 1]).unwrap();
        spool.put(4096, &[1; 4096]).unwrap();
        let e = spool.put(1 << 30, &[1]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Refused);
        assert!(e.to_string().contains("12 KiB (12288 bytes) are allowed"), "{e}");
        assert_eq!(spool.peak(), 3 * BLOCK);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let e = Spool::beside(Path::new("/nonexistent/folder"), 1).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotFound);
        assert!(e.to_string().contains("/nonexistent/folder"), "{e}");
    }

    proptest! {
        #[test]
        fn ranges_behave_like_a_set(adds in prop::collection::vec((0u64..60, 1u64..9), 0..30)) {
            let mut kept = KeptRanges::default();
            let mut model = [false; 80];
            for (from, len) in adds {
                let new = &mut model[from as usize..(from + len) as usize];
                let twice = new.iter().any(|&b| b);
                if !twice {
                    new.fill(true);
                }
                prop_assert_eq!(kept.add(from, from + len, u64::MAX).is_err(), twice);
            }
            for from in 0..79usize {
                for to in from + 1..80 {
                    prop_assert_eq!(kept.holds(from as u64, to as u64), model[from..to].iter().all(|&b| b));
                }
            }
        }
    }
}
