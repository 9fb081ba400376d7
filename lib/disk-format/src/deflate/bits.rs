//! Bits into bytes, least significant first.

/// Writes into a buffer whose room the caller has checked: [`BitWriter::room`] before, then as many bits.
pub(super) struct BitWriter<'a> {
    out: &'a mut [u8],
    at: usize,
    bits: u64,
    count: u32,
}

impl<'a> BitWriter<'a> {
    /// A flush stores eight bytes whatever their number, so the buffer's last eight bytes are never counted on.
    pub(super) const SLACK: usize = 8;

    pub(super) fn new(out: &'a mut [u8]) -> Self {
        BitWriter { out, at: 0, bits: 0, count: 0 }
    }

    /// How many bits still fit.
    pub(super) fn room(&self) -> u64 {
        (self.out.len().saturating_sub(Self::SLACK + self.at) as u64 * 8)
            .saturating_sub(u64::from(self.count))
    }

    /// Where in its byte the next bit goes.
    pub(super) fn bit_in_byte(&self) -> u32 {
        self.count % 8
    }

    /// Adds up to 56 bits in all before a [`BitWriter::flush`].
    #[inline(always)]
    pub(super) fn add(&mut self, bits: u32, count: u32) {
        debug_assert!(self.count + count < 64 && (count == 32 || bits >> count == 0));
        self.bits |= u64::from(bits) << self.count;
        self.count += count;
    }

    /// Stores whole bytes; at most seven bits stay behind.
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

    /// Fills up the byte with zeros and stores bytes as they are.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.count = self.count.next_multiple_of(8);
        self.flush();
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    /// How many bytes there are, the last one filled up with zeros.
    pub(super) fn finish(mut self) -> usize {
        self.count = self.count.next_multiple_of(8);
        self.flush();
        self.at
    }
}
