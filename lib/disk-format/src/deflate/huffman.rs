//! Prefix codes: code lengths from frequencies, codes from code lengths.

use super::tables::MAX_CODE_LENGTH;

/// Upper limit for the number of symbols in DEFLATE's codes.
const MOST: usize = 288;

/// Assigns each symbol with a frequency a code length of at most `limit`, and 0 to all others. The code is
/// always complete: if fewer than two symbols occur, the first ones get codes too, as some decoders require.
pub(super) fn lengths(frequencies: &[u32], limit: u8, lengths: &mut [u8]) {
    lengths.fill(0);
    // A node has its frequency above its symbol, so that sorting orders by both.
    let mut leaves = [0u64; MOST];
    let mut used = 0;
    let mut add = |symbol: usize, frequency: u32| {
        leaves[used] = u64::from(frequency) << 16 | symbol as u64;
        used += 1;
        used
    };
    let mut symbols = 0;
    for (symbol, &frequency) in frequencies.iter().enumerate().filter(|(_, f)| **f > 0) {
        symbols = add(symbol, frequency);
    }
    for symbol in (0..2).filter(|&symbol| frequencies[symbol] == 0) {
        if symbols < 2 {
            symbols = add(symbol, 1);
        }
    }
    let leaves = &mut leaves[..symbols];
    loop {
        leaves.sort_unstable();
        let mut depths = [0u32; MOST];
        let deepest = depths_of(leaves, &mut depths);
        if deepest <= u32::from(limit) {
            for (leaf, depth) in leaves.iter().zip(depths) {
                lengths[(leaf & 0xffff) as usize] = depth as u8;
            }
            return;
        }
        // Flatter frequencies give a flatter tree. In the end all leaves are equal, and the tree fits. This
        // is rarely needed.
        for leaf in leaves.iter_mut() {
            *leaf = ((*leaf >> 16) / 2 + 1) << 16 | (*leaf & 0xffff);
        }
    }
}

/// The depth of each leaf in the Huffman tree, and the greatest depth. Leaves must be sorted. Inner nodes are
/// made in rising order too, so the two lightest nodes are always at the heads of two queues.
fn depths_of(leaves: &[u64], depths: &mut [u32; MOST]) -> u32 {
    let n = leaves.len();
    let mut weights = [0u64; MOST];
    let mut parents = [0u16; 2 * MOST]; // of leaves, then of inner nodes
    let (mut leaf, mut inner) = (0, 0);
    for made in 0..n - 1 {
        let mut weight = 0;
        for _ in 0..2 {
            if leaf < n && (inner == made || leaves[leaf] >> 16 <= weights[inner]) {
                weight += leaves[leaf] >> 16;
                parents[leaf] = made as u16;
                leaf += 1;
            } else {
                weight += weights[inner];
                parents[n + inner] = made as u16;
                inner += 1;
            }
        }
        weights[made] = weight;
    }
    let mut inner_depths = [0u32; MOST];
    for node in (0..n - 2).rev() {
        inner_depths[node] = inner_depths[usize::from(parents[n + node])] + 1;
    }
    let mut deepest = 0;
    for leaf in 0..n {
        depths[leaf] = inner_depths[usize::from(parents[leaf])] + 1;
        deepest = deepest.max(depths[leaf]);
    }
    deepest
}

/// The canonical codes for the code lengths, with reversed bits, as DEFLATE stores them.
pub(super) fn codes(lengths: &[u8], codes: &mut [u16]) {
    let mut next = [0u16; MAX_CODE_LENGTH as usize + 2];
    for &len in lengths.iter().filter(|len| **len > 0) {
        next[usize::from(len) + 1] += 1;
    }
    for len in 1..next.len() {
        next[len] = (next[len] + next[len - 1]) << 1;
    }
    for (code, &len) in codes.iter_mut().zip(lengths) {
        if len > 0 {
            // `next[len]` has counted the shorter codes, so it is the first code of this length.
            *code = next[usize::from(len)].reverse_bits() >> (16 - len);
            next[usize::from(len)] += 1;
        }
    }
}
