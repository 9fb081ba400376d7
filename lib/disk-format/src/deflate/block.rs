//! Encoding of a block in the shortest of the three ways.

use super::bits::BitWriter;
use super::huffman;
use super::tables::*;
use super::token::{Histogram, Token};

const STORED: u32 = 0;
const FIXED: u32 = 1;
const DYNAMIC: u32 = 2;
const MAX_STORED: usize = 65_535;

/// Code lengths for literals, match lengths and distances.
struct Codes {
    litlen_lengths: [u8; 288],
    distance_lengths: [u8; 32],
}

/// Writes a block of `tokens`, which encode `input`, in the shortest of the three encodings. `false` if it
/// does not fit.
pub(super) fn write(
    out: &mut BitWriter<'_>,
    last: bool,
    tokens: &[Token],
    input: &[u8],
    mut counts: Histogram,
) -> bool {
    counts.litlen[END_OF_BLOCK] = 1;
    let dynamic = Codes::best(&counts);
    let header = Header::new(&dynamic);
    let dynamic_bits = 3 + header.bits + dynamic.bits(&counts);
    let fixed = Codes::fixed();
    let fixed_bits = 3 + fixed.bits(&counts);
    let pieces = input.len().div_ceil(MAX_STORED).max(1);
    let first_padding = (8 - (out.bit_in_byte() + 3) % 8) % 8;
    let stored_bits = 8 * input.len() as u64 + 40 * pieces as u64 - 5 + u64::from(first_padding);

    let smallest = dynamic_bits.min(fixed_bits).min(stored_bits);
    if out.room() < smallest {
        return false;
    }
    if smallest == stored_bits {
        write_stored(out, last, input);
        return true;
    }
    let (kind, codes) = if smallest == dynamic_bits { (DYNAMIC, &dynamic) } else { (FIXED, &fixed) };
    out.add(kind << 1 | u32::from(last), 3);
    if kind == DYNAMIC {
        header.write(out);
    }
    codes.write(out, tokens);
    true
}

fn write_stored(out: &mut BitWriter<'_>, last: bool, input: &[u8]) {
    let mut rest = input;
    loop {
        let (now, later) = rest.split_at(rest.len().min(MAX_STORED));
        out.add(STORED << 1 | u32::from(last && later.is_empty()), 3);
        let len = now.len() as u16;
        out.bytes(&len.to_le_bytes());
        out.bytes(&(!len).to_le_bytes());
        out.bytes(now);
        rest = later;
        if rest.is_empty() {
            return;
        }
    }
}

impl Codes {
    fn best(counts: &Histogram) -> Self {
        let mut codes = Codes { litlen_lengths: [0; 288], distance_lengths: [0; 32] };
        let litlen = &mut codes.litlen_lengths[..LITLEN_SYMBOLS];
        huffman::lengths(&counts.litlen[..LITLEN_SYMBOLS], MAX_CODE_LENGTH, litlen);
        let distance = &mut codes.distance_lengths[..DISTANCE_SYMBOLS];
        huffman::lengths(&counts.distance[..DISTANCE_SYMBOLS], MAX_CODE_LENGTH, distance);
        codes
    }

    fn fixed() -> Self {
        let mut litlen_lengths = [8; 288];
        litlen_lengths[144..256].fill(9);
        litlen_lengths[256..280].fill(7);
        // Distances over 4096 have no code here either.
        let mut distance_lengths = [0; 32];
        distance_lengths[..DISTANCE_SYMBOLS].fill(5);
        Codes { litlen_lengths, distance_lengths }
    }

    /// Number of bits for the tokens and the end of the block.
    fn bits(&self, counts: &Histogram) -> u64 {
        let litlen = (0..LITLEN_SYMBOLS).map(|symbol| {
            u64::from(counts.litlen[symbol])
                * u64::from(u32::from(self.litlen_lengths[symbol]) + litlen_extra_bits(symbol))
        });
        let distance = (0..DISTANCE_SYMBOLS).map(|symbol| {
            u64::from(counts.distance[symbol])
                * u64::from(u32::from(self.distance_lengths[symbol]) + distance_extra_bits(symbol))
        });
        litlen.sum::<u64>() + distance.sum::<u64>()
    }

    /// Writes the tokens and the end of the block.
    fn write(&self, out: &mut BitWriter<'_>, tokens: &[Token]) {
        let (mut codes, mut distance_codes) = ([0u16; 288], [0u16; 32]);
        huffman::codes(&self.litlen_lengths, &mut codes);
        huffman::codes(&self.distance_lengths, &mut distance_codes);
        // Each entry has the bits above their count: literals, match lengths with their extra bits,
        // distances.
        let mut literals = [0u32; 256];
        let mut lengths = [0u32; 256];
        let mut distances = [0u32; 32];
        for (symbol, literal) in literals.iter_mut().enumerate() {
            *literal = u32::from(codes[symbol]) << 5 | u32::from(self.litlen_lengths[symbol]);
        }
        for (i, length) in lengths.iter_mut().enumerate() {
            let symbol = length_symbol(i + MIN_MATCH);
            let (extra, extra_bits) = length_extra(i + MIN_MATCH);
            let code_bits = u32::from(self.litlen_lengths[symbol]);
            *length = (u32::from(codes[symbol]) | extra << code_bits) << 5 | (code_bits + extra_bits);
        }
        for (symbol, distance) in distances.iter_mut().enumerate() {
            *distance = u32::from(distance_codes[symbol]) << 5 | u32::from(self.distance_lengths[symbol]);
        }
        for &token in tokens {
            match token.as_literal() {
                Some(byte) => {
                    let literal = literals[usize::from(byte)];
                    out.add(literal >> 5, literal & 31);
                }
                None => {
                    let length = lengths[(token.len() - MIN_MATCH) & 255];
                    out.add(length >> 5, length & 31);
                    let distance = distances[distance_symbol(token.distance()) & 31];
                    out.add(distance >> 5, distance & 31);
                    let (extra, extra_bits) = distance_extra(token.distance());
                    out.add(extra, extra_bits);
                }
            }
            out.flush();
        }
        out.add(u32::from(codes[END_OF_BLOCK]), u32::from(self.litlen_lengths[END_OF_BLOCK]));
        out.flush();
    }
}

/// The header of a block with dynamic codes: the code lengths, run-length encoded, and a code for those.
struct Header {
    litlen_count: usize,
    distance_count: usize,
    /// Symbols of the code length code, each with its extra bits.
    symbols: Vec<(u8, u8)>,
    lengths: [u8; 19],
    codes: [u16; 19],
    /// Number of lengths of the code length code that are stored.
    stored: usize,
    bits: u64,
}

impl Header {
    fn new(codes: &Codes) -> Self {
        let used = |lengths: &[u8]| lengths.iter().rposition(|&len| len > 0).map_or(0, |i| i + 1);
        let litlen_count = used(&codes.litlen_lengths[..LITLEN_SYMBOLS]).max(257);
        let distance_count = used(&codes.distance_lengths[..DISTANCE_SYMBOLS]).max(1);
        let mut all = [0; LITLEN_SYMBOLS + DISTANCE_SYMBOLS];
        all[..litlen_count].copy_from_slice(&codes.litlen_lengths[..litlen_count]);
        all[litlen_count..litlen_count + distance_count]
            .copy_from_slice(&codes.distance_lengths[..distance_count]);
        let symbols = run_lengths(&all[..litlen_count + distance_count]);

        let mut frequencies = [0; 19];
        symbols.iter().for_each(|&(symbol, _)| frequencies[usize::from(symbol)] += 1);
        let mut lengths = [0; 19];
        huffman::lengths(&frequencies, 7, &mut lengths);
        let mut own_codes = [0; 19];
        huffman::codes(&lengths, &mut own_codes);
        let stored =
            CODE_LENGTH_ORDER.iter().rposition(|&symbol| lengths[symbol] > 0).map_or(4, |i| (i + 1).max(4));
        let of_symbols: u64 =
            (0..19).map(|s| u64::from(frequencies[s]) * u64::from(lengths[s] + run_bits(s as u8))).sum();
        let bits = 14 + 3 * stored as u64 + of_symbols;
        Header { litlen_count, distance_count, symbols, lengths, codes: own_codes, stored, bits }
    }

    fn write(&self, out: &mut BitWriter<'_>) {
        out.add((self.litlen_count - 257) as u32, 5);
        out.add((self.distance_count - 1) as u32, 5);
        out.add((self.stored - 4) as u32, 4);
        out.flush();
        for &symbol in &CODE_LENGTH_ORDER[..self.stored] {
            out.add(u32::from(self.lengths[symbol]), 3);
            out.flush();
        }
        for &(symbol, extra) in &self.symbols {
            let i = usize::from(symbol);
            out.add(u32::from(self.codes[i]), u32::from(self.lengths[i]));
            out.add(u32::from(extra), u32::from(run_bits(symbol)));
            out.flush();
        }
    }
}

/// Number of extra bits after a symbol of the code length code.
fn run_bits(symbol: u8) -> u8 {
    match symbol {
        16 => 2,
        17 => 3,
        18 => 7,
        _ => 0,
    }
}

/// Code lengths as symbols with extra bits. Symbol 16 repeats the last length 3 to 6 times; 17 and 18 stand
/// for 3 to 10 and 11 to 138 zeros.
fn run_lengths(lengths: &[u8]) -> Vec<(u8, u8)> {
    let mut symbols = Vec::with_capacity(lengths.len());
    for run in lengths.chunk_by(|a, b| a == b) {
        let (len, mut left) = (run[0], run.len());
        if len > 0 {
            symbols.push((len, 0));
            left -= 1;
        }
        while left >= 3 {
            let (symbol, n) = match (len, left) {
                (0, 11..) => (18, left.min(138)),
                (0, _) => (17, left),
                _ => (16, left.min(6)),
            };
            symbols.push((symbol, (n - if symbol == 18 { 11 } else { 3 }) as u8));
            left -= n;
        }
        symbols.extend(std::iter::repeat_n((len, 0), left));
    }
    symbols
}
