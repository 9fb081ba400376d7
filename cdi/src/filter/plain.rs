//! Bytes without a layer around them, which can be entered anywhere. Size and zeros: unchanged.

use super::holes::HoleRead;
use super::marks::Marks;
use super::{Boundary, OnBoundary};
use std::io::{self, Read};

/// Bytes between two reported boundaries.
const APART: u64 = 1 << 20;

/// A reader that reports boundaries on its way.
pub(crate) struct Plain<R> {
    inner: R,
    at: u64,
    told: u64,
    marks: Marks,
}

impl<R: Read> Plain<R> {
    /// `inner` is at this byte of the source.
    pub(crate) fn new(inner: R, at: u64, on_boundary: OnBoundary) -> Plain<R> {
        Plain { inner, at, told: at, marks: Marks::new(on_boundary, at) }
    }
}

impl<R: Read> Read for Plain<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        // The bytes of the previous read have been used by now.
        if self.at - self.told >= APART {
            self.told = self.at;
            self.marks.put(Boundary { input: self.at, output: self.at, state: Vec::new() });
            self.marks.passed(self.at);
        }
        let n = self.inner.read(out)?;
        self.at = self.at.saturating_add(n as u64);
        Ok(n)
    }
}

impl<R: Read> HoleRead for Plain<R> {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn a_place_is_told_when_the_bytes_before_it_were_taken() {
        let told: Arc<Mutex<Vec<u64>>> = Arc::default();
        let list = Arc::clone(&told);
        let note: OnBoundary = Arc::new(move |boundary| list.lock().unwrap().push(boundary.input));
        let mut reader = Plain::new(io::repeat(0).take(4 * APART), 5, note);
        let mut taken = 5;
        loop {
            let n = reader.read(&mut vec![0; 300_000]).unwrap();
            assert!(told.lock().unwrap().iter().all(|&at| at <= taken));
            taken += n as u64;
            if n == 0 {
                break;
            }
        }
        assert!(told.lock().unwrap().len() >= 3, "{told:?}");
    }
}
