//! State for entering a member in its middle, between two deflate blocks.
//!
//! ```text
//!  version │ bits before the block in its first byte │ CRC-32 │ size │ window
//!     1    │                  1                      │   4    │  8   │ at most 32 KiB
//! ```
//!
//! CRC and size are those of the member's bytes before this point. The member's trailer is compared with the sums of
//! all its bytes, so those that an earlier run has decoded are still checked.

use super::inflate::WINDOW;

/// A point between two deflate blocks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AccessPoint {
    /// Low bits of the first byte that belong to the block before: 0 to 7.
    pub(super) skip: u8,
    pub(super) crc: u32,
    pub(super) size: u64,
    /// The bytes that the next block may refer to.
    pub(super) window: Vec<u8>,
}

impl AccessPoint {
    const VERSION: u8 = 1;

    pub(super) fn parse(state: &[u8]) -> Option<Self> {
        let (&[version, skip], rest) = state.split_first_chunk()?;
        let (&crc, rest) = rest.split_first_chunk()?;
        let (&size, window) = rest.split_first_chunk()?;
        let (crc, size) = (u32::from_le_bytes(crc), u64::from_le_bytes(size));
        let is_sound =
            version == Self::VERSION && skip < 8 && window.len() <= WINDOW && window.len() as u64 <= size;
        is_sound.then(|| AccessPoint { skip, crc, size, window: window.to_vec() })
    }

    pub(super) fn write(&self) -> Vec<u8> {
        let mut state = Vec::with_capacity(14 + self.window.len());
        state.extend([Self::VERSION, self.skip]);
        state.extend(self.crc.to_le_bytes());
        state.extend(self.size.to_le_bytes());
        state.extend(&self.window);
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_state_that_was_written_is_parsed() {
        let point = AccessPoint { skip: 7, crc: 0x0102_0304, size: 5 << 32, window: vec![9; WINDOW] };
        let state = point.write();
        assert_eq!(AccessPoint::parse(&state), Some(point));
        assert_eq!(AccessPoint::parse(&state[..13]), None, "cut short");
        assert_eq!(AccessPoint::parse(&[&state[..], &[0]].concat()), None, "a window that is too long");
        for (at, value) in [(0, 0), (0, 2), (1, 8)] {
            let mut odd = state.clone();
            odd[at] = value;
            assert_eq!(AccessPoint::parse(&odd), None, "byte {at} is {value}");
        }
        let short = AccessPoint { skip: 0, crc: 0, size: 3, window: vec![1; 4] };
        assert_eq!(AccessPoint::parse(&short.write()), None, "more bytes than came before");
    }
}
