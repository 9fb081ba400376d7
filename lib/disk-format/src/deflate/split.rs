//! Division into blocks: neighbouring chunks share a block, unless separate codes make the output shorter.

use super::tables::{DISTANCE_SYMBOLS, LITLEN_SYMBOLS};
use super::token::{Chunk, Histogram};

/// Estimated size of a block's header in bits: a fixed part, and a part for each symbol that occurs.
const HEADER: f32 = 150.0;
const HEADER_PER_SYMBOL: f32 = 3.0;

/// Joins chunks into blocks, from left to right.
pub(super) fn join(chunks: &mut Vec<Chunk>) {
    let mut blocks = 0; // chunks[..blocks] are final, chunks[blocks] is growing
    let mut cost = match chunks.first() {
        Some(first) => estimate(&first.histogram),
        None => return,
    };
    for next in 1..chunks.len() {
        let mut joined = chunks[blocks].histogram.clone();
        joined.add(&chunks[next].histogram);
        let next_cost = estimate(&chunks[next].histogram);
        let joined_cost = estimate(&joined);
        if joined_cost <= cost + next_cost {
            let Chunk { tokens_end, input_end, .. } = chunks[next];
            chunks[blocks] = Chunk { tokens_end, input_end, histogram: joined };
            cost = joined_cost;
        } else {
            blocks += 1;
            chunks.swap(blocks, next);
            cost = next_cost;
        }
    }
    chunks.truncate(blocks + 1);
}

/// Estimated bits of a block: the entropy of its symbols, and its header.
fn estimate(histogram: &Histogram) -> f32 {
    let (litlen, a) = entropy(&histogram.litlen[..LITLEN_SYMBOLS]);
    let (distance, b) = entropy(&histogram.distance[..DISTANCE_SYMBOLS]);
    litlen + distance + HEADER + HEADER_PER_SYMBOL * (a + b) as f32
}

/// The entropy in bits, and the number of symbols that occur.
fn entropy(frequencies: &[u32]) -> (f32, u32) {
    let (mut total, mut sum, mut used) = (0, 0.0, 0);
    for &f in frequencies.iter().filter(|f| **f > 0) {
        total += f;
        sum += weighted_log2(f);
        used += 1;
    }
    (weighted_log2(total) - sum, used)
}

/// `f * log2(f)`, with a logarithm that is exact to a thousandth, and the same on every host.
fn weighted_log2(f: u32) -> f32 {
    if f == 0 {
        return 0.0;
    }
    let bits = (f as f32).to_bits();
    let exponent = (bits >> 23) as f32 - 127.0;
    let m = f32::from_bits(bits & 0x007f_ffff | 0x3f80_0000); // 1 to 2
    // Exact at 1 and 2, and fitted in between.
    let x = m - 1.0;
    let log = exponent + x * (1.0 + (1.0 - x) * (0.4427 + x * (0.0944 * x - 0.2584)));
    f as f32 * log
}
