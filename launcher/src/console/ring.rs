//! Ring buffer of the line's last bytes, each with its offset in the whole output.

#[derive(Debug)]
pub(super) struct Ring {
    bytes: Box<[u8]>,
    /// Number of bytes of the whole output.
    head: u64,
}

impl Ring {
    pub(super) fn new(size: usize) -> Ring {
        Ring { bytes: vec![0; size].into(), head: 0 }
    }

    /// The number of bytes in the ring.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Offset after the last byte.
    pub(super) fn head(&self) -> u64 {
        self.head
    }

    /// Offset of the oldest byte in the ring.
    pub(super) fn oldest(&self) -> u64 {
        self.head.saturating_sub(self.bytes.len() as u64)
    }

    /// Offset of the oldest byte after `more` bytes were added.
    pub(super) fn oldest_after(&self, more: usize) -> u64 {
        (self.head + more as u64).saturating_sub(self.bytes.len() as u64)
    }

    /// Adds bytes in place of the oldest; not more at once than the ring has room for.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.len() <= self.bytes.len(), "more than the ring holds");
        let at = self.index(self.head);
        let first = bytes.len().min(self.bytes.len() - at);
        self.bytes[at..at + first].copy_from_slice(&bytes[..first]);
        self.bytes[..bytes.len() - first].copy_from_slice(&bytes[first..]);
        self.head += bytes.len() as u64;
    }

    /// Copies at most `most` bytes from `place` on, which must still be in the ring. Returns the offset after
    /// them.
    pub(super) fn copy(&self, place: u64, most: usize, to: &mut Vec<u8>) -> u64 {
        debug_assert!(place >= self.oldest() && place <= self.head, "a place outside of the ring");
        let size = usize::try_from(self.head - place).unwrap_or(most).min(most);
        let at = self.index(place);
        let first = size.min(self.bytes.len() - at);
        to.extend_from_slice(&self.bytes[at..at + first]);
        to.extend_from_slice(&self.bytes[..size - first]);
        place + size as u64
    }

    fn index(&self, place: u64) -> usize {
        (place % self.bytes.len() as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::Ring;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_ring_holds_the_end_of_the_output(writes in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..16), 0..40), most in 1usize..40) {
            let mut ring = Ring::new(16);
            let mut all: Vec<u8> = Vec::new();
            for bytes in &writes {
                ring.write(bytes);
                all.extend(bytes);
            }
            prop_assert_eq!(ring.head(), all.len() as u64);
            let mut copied = Vec::new();
            let mut place = ring.oldest();
            while place < ring.head() {
                place = ring.copy(place, most, &mut copied);
            }
            prop_assert_eq!(&copied[..], &all[all.len().saturating_sub(16)..]);
        }
    }
}
