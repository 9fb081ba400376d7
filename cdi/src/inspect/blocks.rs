//! Few and small reads: blocks that are fetched once, and a count of the fetched bytes.

use super::ReadCost;
use disk_format::ReadAt;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a block: the neighbours of a superblock or of an inode are needed next.
const BLOCK: u64 = 16 << 10;
/// The most blocks that are kept; beyond it all are dropped, which a bounded inspection never reaches.
const MOST: usize = 512;
/// Longer reads are not kept: they are data, and not needed again.
const LONG: usize = 256 << 10;

/// A reader that counts its reads.
pub(super) struct Meter {
    bytes: Arc<dyn ReadAt>,
    requests: AtomicU64,
    read: AtomicU64,
}

impl Meter {
    pub(super) fn new(bytes: Arc<dyn ReadAt>) -> Self {
        Meter { bytes, requests: AtomicU64::new(0), read: AtomicU64::new(0) }
    }

    /// Counts bytes that were read in another way.
    pub(super) fn add(&self, bytes: u64) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> ReadCost {
        ReadCost { requests: self.requests.load(Ordering::Relaxed), bytes: self.read.load(Ordering::Relaxed) }
    }
}

impl ReadAt for Meter {
    fn size(&self) -> u64 {
        self.bytes.size()
    }
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.add(buf.len() as u64);
        self.bytes.read_exact_at(buf, offset)
    }
}

/// A reader that keeps blocks.
pub(super) struct Blocks {
    bytes: Arc<Meter>,
    kept: Mutex<BTreeMap<u64, Vec<u8>>>,
}

impl Blocks {
    pub(super) fn new(bytes: Arc<Meter>) -> Self {
        Blocks { bytes, kept: Mutex::default() }
    }
}

impl ReadAt for Blocks {
    fn size(&self) -> u64 {
        self.bytes.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64).filter(|&end| end <= self.size());
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        if buf.len() > LONG {
            return self.bytes.read_exact_at(buf, offset);
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let range = offset / BLOCK..end.div_ceil(BLOCK);
        let missing = |kept: &BTreeMap<_, _>, block: u64| !kept.contains_key(&block);
        if let Some(first) = range.clone().find(|&b| missing(&kept, b)) {
            // From the first missing one to the last in one read, even if some between them are kept.
            let last = range.clone().rfind(|&b| missing(&kept, b)).unwrap_or(first);
            let start = first * BLOCK;
            let len = ((last + 1) * BLOCK).min(self.size()) - start;
            let mut fetched = vec![0; len as usize];
            self.bytes.read_exact_at(&mut fetched, start)?;
            if kept.len() > MOST {
                kept.retain(|block, _| range.contains(block));
            }
            for (block, bytes) in (first..).zip(fetched.chunks(BLOCK as usize)) {
                kept.insert(block, bytes.to_vec());
            }
        }
        let mut done = 0;
        for block in range {
            let bytes = kept.get(&block).ok_or(io::ErrorKind::UnexpectedEof)?;
            let from = (offset + done as u64 - block * BLOCK) as usize;
            let part = bytes.get(from..).unwrap_or_default();
            let len = part.len().min(buf.len() - done);
            buf[done..done + len].copy_from_slice(&part[..len]);
            done += len;
        }
        Ok(())
    }
}
