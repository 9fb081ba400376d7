//! Counting of bytes for other threads. Size and zeros: unchanged.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A count of bytes, shared with the progress display.
#[derive(Debug, Clone, Default)]
pub struct Count(Arc<AtomicU64>);

impl Count {
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds to the count.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
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
    }
}
