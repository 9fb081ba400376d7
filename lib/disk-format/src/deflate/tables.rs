//! Constants of DEFLATE (RFC 1951): symbols of lengths and distances, and their extra bits.

pub(super) const MIN_MATCH: usize = 3;
pub(super) const MAX_MATCH: usize = 258;

/// Number of literal/length symbols: literals 0 to 255, the end of a block, 29 lengths.
pub(super) const LITLEN_SYMBOLS: usize = 286;
/// Number of distance symbols. Distances up to 4096 need 24 of the 30.
pub(super) const DISTANCE_SYMBOLS: usize = 24;
pub(super) const END_OF_BLOCK: usize = 256;
/// Maximum length of a code for a literal, length or distance.
pub(super) const MAX_CODE_LENGTH: u8 = 15;

/// The order in which the lengths of the code length code are stored.
pub(super) const CODE_LENGTH_ORDER: [usize; 19] =
    [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// The symbol of each match length from 3, minus 257.
static LENGTH_SLOT: [u8; 256] = length_slots();
/// The first length and the number of extra bits of each length symbol.
static LENGTH_BASE: [(u16, u8); 29] = length_bases();

/// The literal/length symbol of a match length.
#[inline(always)]
pub(super) fn length_symbol(len: usize) -> usize {
    257 + LENGTH_SLOT[(len - MIN_MATCH) & 255] as usize
}

/// The extra bits of a match length, and their number.
#[inline(always)]
pub(super) fn length_extra(len: usize) -> (u32, u32) {
    let (base, bits) = LENGTH_BASE[LENGTH_SLOT[(len - MIN_MATCH) & 255] as usize];
    (len as u32 - u32::from(base), u32::from(bits))
}

/// The symbol of a distance (1 to 4096).
#[inline(always)]
pub(super) fn distance_symbol(distance: usize) -> usize {
    let d = distance as u32 - 1;
    if d < 4 {
        return d as usize;
    }
    let top = d.ilog2();
    (2 * top + (d >> (top - 1) & 1)) as usize
}

/// The extra bits of a distance, and their number.
#[inline(always)]
pub(super) fn distance_extra(distance: usize) -> (u32, u32) {
    let d = distance as u32 - 1;
    if d < 4 {
        return (0, 0);
    }
    let bits = d.ilog2() - 1;
    (d & ((1 << bits) - 1), bits)
}

/// Number of extra bits of a literal/length symbol.
pub(super) fn litlen_extra_bits(symbol: usize) -> u32 {
    match symbol.checked_sub(257) {
        Some(slot) => u32::from(LENGTH_BASE[slot].1),
        None => 0,
    }
}

/// Number of extra bits of a distance symbol.
pub(super) fn distance_extra_bits(symbol: usize) -> u32 {
    (symbol as u32 / 2).saturating_sub(1)
}

const fn length_bases() -> [(u16, u8); 29] {
    let mut table = [(0, 0); 29];
    let (mut slot, mut base) = (0, 3);
    while slot < 28 {
        let bits = if slot < 8 { 0 } else { slot as u8 / 4 - 1 };
        table[slot] = (base, bits);
        base += 1 << bits;
        slot += 1;
    }
    table[28] = (258, 0); // The longest match has its own symbol.
    table
}

const fn length_slots() -> [u8; 256] {
    let bases = length_bases();
    let mut table = [0; 256];
    let mut len = 3;
    while len <= 258 {
        let mut slot = 28;
        while bases[slot].0 as usize > len {
            slot -= 1;
        }
        table[len - 3] = slot as u8;
        len += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_as_the_rfc_lists_them() {
        for (len, symbol, extra) in [
            (3, 257, (0, 0)),
            (10, 264, (0, 0)),
            (11, 265, (0, 1)),
            (12, 265, (1, 1)),
            (130, 280, (15, 4)),
            (131, 281, (0, 5)),
            (257, 284, (30, 5)),
            (258, 285, (0, 0)),
        ] {
            assert_eq!((length_symbol(len), length_extra(len)), (symbol, extra), "length {len}");
            assert_eq!(litlen_extra_bits(symbol), extra.1);
        }
    }

    #[test]
    fn distances_as_the_rfc_lists_them() {
        for (distance, symbol, extra) in [
            (1, 0, (0, 0)),
            (4, 3, (0, 0)),
            (5, 4, (0, 1)),
            (6, 4, (1, 1)),
            (7, 5, (0, 1)),
            (256, 15, (63, 6)),
            (257, 16, (0, 7)),
            (4096, 23, (1023, 10)),
        ] {
            assert_eq!(
                (distance_symbol(distance), distance_extra(distance)),
                (symbol, extra),
                "distance {distance}"
            );
            assert_eq!(distance_extra_bits(symbol), extra.1);
        }
    }
}
