//! A section of bytes that can be read at any offset, and a reader that reads them in order.

use crate::Error;
use disk_format::ReadAt;
use std::io::{self, Read};
use std::sync::Arc;

/// `size` bytes from offset `from` on.
pub(crate) struct Section {
    of: Arc<dyn ReadAt>,
    from: u64,
    size: u64,
}

impl Section {
    /// Fails if the section does not lie inside `of`. `name` is for the message.
    pub(crate) fn new(name: &str, of: Arc<dyn ReadAt>, from: u64, size: u64) -> crate::Result<Section> {
        if from.checked_add(size).is_none_or(|end| end > of.size()) {
            let what = format!("{name} ends after the {} bytes of its file, which is truncated", of.size());
            return Err(Error::refused(what));
        }
        Ok(Section { of, from, size })
    }
}

impl ReadAt for Section {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.of.read_exact_at(buf, self.from + offset)
    }
}

/// Reads bytes in order, from an offset on.
pub(crate) struct Cursor {
    of: Arc<dyn ReadAt>,
    at: u64,
}

impl Cursor {
    pub(crate) fn new(of: Arc<dyn ReadAt>, at: u64) -> Self {
        Cursor { of, at }
    }
}

impl Read for Cursor {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = self.of.size().saturating_sub(self.at);
        let n = usize::try_from(left).unwrap_or(usize::MAX).min(out.len());
        self.of.read_exact_at(&mut out[..n], self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes() -> Arc<dyn ReadAt> {
        Arc::new(b"0123456789".to_vec())
    }

    #[test]
    fn a_section_shows_its_bytes_and_no_other() {
        let section = Section::new("x", bytes(), 2, 5).unwrap();
        let mut all = vec![];
        Cursor::new(Arc::new(section), 1).read_to_end(&mut all).unwrap();
        assert_eq!(all, b"3456");
        let section = Section::new("x", bytes(), 2, 5).unwrap();
        let e = section.read_exact_at(&mut [0; 2], 4).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_section_past_the_end_is_refused() {
        for (from, size) in [(0, 11), (10, 1), (11, 0), (u64::MAX, 2)] {
            assert!(Section::new("x", bytes(), from, size).is_err(), "{from} {size}");
        }
    }
}
