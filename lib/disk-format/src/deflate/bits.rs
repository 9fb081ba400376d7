//! A writer of bits into bytes, least significant bit first.

/// A bit writer into a buffer. The caller must check [`BitWriter::room`] before it adds bits.
pub(super) struct BitWriter<'a> {
    out: &'a mut [u8],
    at: usize,
    bits: u64,
    count: u32,
}

impl<'a> BitWriter<'a> {
    /// A flush always stores eight bytes, so the last eight bytes of the buffer do not count as room.
    pub(super) const SLACK: usize = 8;

    pub(super) fn new(out: &'a mut [u8]) -> Self {
        BitWriter { out, at: 0, bits: 0, count: 0 }
    }

    /// Number of bits that still fit.
    pub(super) fn room(&self) -> u64 {
        (self.out.len().saturating_sub(Self::SLACK + self.at) as u64 * 8)
            .saturating_sub(u64::from(self.count))
    }

    /// Position of the next bit in its byte.
    pub(super) fn bit_in_byte(&self) -> u32 {
        self.count % 8
    }

    /// Adds bits. At most 56 bits may be added before a [`BitWriter::flush`].
    #[inline(always)]
    pub(super) fn add(&mut self, bits: u32, count: u32) {
        debug_assert!(self.count + count < 64 && (count == 32 || bits >> count == 0));
        self.bits |= u64::from(bits) << self.count;
        self.count += count;
    }

    /// Stores all whole bytes. At most seven bits remain.
    #[inline(always)]
    pub(super) fn flush(&mut self) {
        if let Some(to) = self.out.get_mut(self.at..).and_then(<[u8]>::first_chunk_mut) {
            *to = self.bits.to_le_bytes();
        }
        let bytes = self.count / 8;
        self.at += bytes as usize;
        self.bits >>= bytes * 8;
        self.count %= 8;
    }

    /// Pads the current byte with zeros, then stores `bytes` unchanged.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.count = self.count.next_multiple_of(8);
        self.flush();
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    /// Pads the last byte with zeros and returns the number of bytes.
    pub(super) fn finish(mut self) -> usize {
        self.count = self.count.next_multiple_of(8);
        self.flush();
        self.at
    }
}
