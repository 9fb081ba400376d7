//! Bounded reading: the examination of a disk costs at most [`BYTES`] and [`READS`], whatever the disk
//! contains.
//!
//! Pages are read once and kept. A parser requests bytes and gets them or `None`. The reason of a `None` is
//! recorded here, so that parsers need no error handling and the caller can still report the reason.

use crate::ReadAt;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;

/// Limit of bytes that are read from one disk.
pub const BYTES: u64 = 4 << 20;
/// Limit of reads from one disk.
pub const READS: u64 = 256;

const PAGE: u64 = 4096;

/// Reason for missing bytes, in order of increasing importance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Missing {
    /// Past the end of the disk or partition.
    PastEnd,
    /// On the disk, but not in the readable part (the beginning of a stream).
    Unread,
    /// The limit of bytes or reads is reached.
    Budget,
    Failed(String),
}

/// A reader of one disk, with its limits.
pub(crate) struct Peek<'a> {
    disk: &'a dyn ReadAt,
    size: Option<u64>,
    pages: RefCell<BTreeMap<u64, Vec<u8>>>,
    reads: Cell<u64>,
    bytes: Cell<u64>,
    missing: RefCell<Option<Missing>>,
}

impl<'a> Peek<'a> {
    /// A reader of a disk. `size` is that of the whole disk, if known; `disk` may be only its beginning.
    pub(crate) fn new(disk: &'a dyn ReadAt, size: Option<u64>) -> Self {
        Peek {
            disk,
            size,
            pages: RefCell::default(),
            reads: Cell::new(0),
            bytes: Cell::new(0),
            missing: RefCell::new(None),
        }
    }

    pub(crate) fn size(&self) -> Option<u64> {
        self.size
    }

    /// The whole disk as an area.
    pub(crate) fn whole(&self) -> Area<'_> {
        Area { peek: self, start: 0, len: self.size.unwrap_or(u64::MAX) }
    }

    /// A part of the disk, truncated at the disk's end.
    pub(crate) fn area(&self, start: u64, len: u64) -> Area<'_> {
        let end = self.size.unwrap_or(u64::MAX);
        Area { peek: self, start, len: len.min(end.saturating_sub(start)) }
    }

    /// Number of reads and of bytes so far.
    pub(crate) fn cost(&self) -> (u64, u64) {
        (self.reads.get(), self.bytes.get())
    }

    /// The most important reason of a `None` since the last call.
    pub(crate) fn take_missing(&self) -> Option<Missing> {
        self.missing.borrow_mut().take()
    }

    /// Reads `len` bytes at `at`. Records the reason if it returns `None`.
    pub(crate) fn get(&self, at: u64, len: usize) -> Option<Vec<u8>> {
        let end = at.checked_add(len as u64).filter(|&end| end <= self.size.unwrap_or(u64::MAX));
        let Some(end) = end else { return self.none(Missing::PastEnd) };
        if len as u64 > BYTES {
            return self.none(Missing::Budget);
        }
        let (first, last) = (at / PAGE, end.div_ceil(PAGE));
        let mut from = first;
        while from < last {
            if self.pages.borrow().contains_key(&from) {
                from += 1;
                continue;
            }
            let run = (from..last).take_while(|p| !self.pages.borrow().contains_key(p)).count() as u64;
            if let Err(why) = self.fetch(from, run) {
                return self.none(why);
            }
            from += run;
        }
        let mut out = Vec::with_capacity(len);
        let pages = self.pages.borrow();
        for page in first..last {
            let bytes = pages.get(&page)?;
            let start = page * PAGE;
            let lo = at.saturating_sub(start) as usize;
            let hi = (end - start).min(PAGE) as usize;
            let Some(part) = bytes.get(lo..hi) else {
                drop(pages);
                return self.none(Missing::Unread);
            };
            out.extend_from_slice(part);
        }
        Some(out)
    }

    /// Reads `run` pages from page `from` on with one read. The last page of the disk may be short.
    fn fetch(&self, from: u64, run: u64) -> Result<(), Missing> {
        let start = from.checked_mul(PAGE).ok_or(Missing::PastEnd)?;
        let readable = self.disk.size().min(self.size.unwrap_or(u64::MAX));
        let end = start.saturating_add(run * PAGE).min(readable);
        let len = end.saturating_sub(start);
        if len == 0 {
            return Err(Missing::Unread);
        }
        if self.reads.get() >= READS || self.bytes.get() + len > BYTES {
            return Err(Missing::Budget);
        }
        self.reads.set(self.reads.get() + 1);
        self.bytes.set(self.bytes.get() + len);
        let mut buf = vec![0; len as usize];
        self.disk.read_exact_at(&mut buf, start).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => Missing::Unread,
            _ => Missing::Failed(e.to_string()),
        })?;
        let mut pages = self.pages.borrow_mut();
        for (page, bytes) in (from..).zip(buf.chunks(PAGE as usize)) {
            pages.insert(page, bytes.to_vec());
        }
        Ok(())
    }

    fn none<T>(&self, why: Missing) -> Option<T> {
        let mut missing = self.missing.borrow_mut();
        *missing = missing.take().max(Some(why));
        None
    }
}

/// A partition, or the whole disk. Offsets are relative to its start, and no byte outside of it can be read.
#[derive(Clone, Copy)]
pub(crate) struct Area<'a> {
    pub(crate) peek: &'a Peek<'a>,
    start: u64,
    len: u64,
}

impl Area<'_> {
    /// Length in bytes. `u64::MAX` if it is unknown.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The part from offset `at` on.
    pub(crate) fn from(&self, at: u64) -> Self {
        Area { peek: self.peek, start: self.start.saturating_add(at), len: self.len.saturating_sub(at) }
    }

    /// Reads `len` bytes at `at` of this area.
    pub(crate) fn get(&self, at: u64, len: usize) -> Option<Vec<u8>> {
        let inside = at.checked_add(len as u64).is_some_and(|end| end <= self.len);
        match self.start.checked_add(at) {
            Some(at) if inside => self.peek.get(at, len),
            _ => self.peek.none(Missing::PastEnd),
        }
    }

    /// Reads up to `len` bytes at `at`, as many as the area has.
    pub(crate) fn up_to(&self, at: u64, len: usize) -> Option<Vec<u8>> {
        let left = usize::try_from(self.len.saturating_sub(at)).unwrap_or(usize::MAX);
        let known = usize::try_from(self.peek.disk.size().saturating_sub(self.start.saturating_add(at)));
        let cut = if self.peek.size.is_none() { known.unwrap_or(usize::MAX) } else { usize::MAX };
        self.get(at, len.min(left).min(cut))
    }
}
