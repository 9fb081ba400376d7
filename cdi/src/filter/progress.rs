//! Counting of bytes for other threads. Size and zeros: unchanged.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A count of bytes, shared with the progress display.
#[derive(Debug, Clone, Default)]
pub struct Count {
    counted: Arc<AtomicU64>,
    /// Bytes before the place where this run begins.
    before: u64,
}

impl Count {
    /// A count that begins behind the bytes of an earlier run.
    pub fn after(before: u64) -> Count {
        Count { counted: Arc::default(), before }
    }

    /// The position: bytes of this run and of those before it.
    pub fn position(&self) -> u64 {
        self.before.saturating_add(self.get())
    }

    /// Bytes of this run.
    pub fn get(&self) -> u64 {
        self.counted.load(Ordering::Relaxed)
    }

    /// Adds to the count.
    pub fn add(&self, n: u64) {
        self.counted.fetch_add(n, Ordering::Relaxed);
    }
}

/// A reader whose bytes are counted.
pub struct CountingReader<R> {
    inner: R,
    count: Count,
}

impl<R: Read> CountingReader<R> {
    /// Adds the read bytes to `count`.
    pub fn new(inner: R, count: Count) -> Self {
        CountingReader { inner, count }
    }
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(out)?;
        self.count.add(n as u64);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_was_read_and_no_more() {
        let count = Count::default();
        let mut reader = CountingReader::new(io::Cursor::new(vec![1; 100]), count.clone());
        assert_eq!(reader.read(&mut [0; 30]).unwrap(), 30);
        assert_eq!(count.get(), 30);
        assert_eq!(reader.read_to_end(&mut Vec::new()).unwrap(), 70);
        assert_eq!(count.get(), 100);
        let later = Count::after(70);
        later.add(30);
        assert_eq!((later.position(), later.get()), (100, 30), "an earlier run has read the rest");
    }
}
