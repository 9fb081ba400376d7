//! Output of the parser: literals and matches, and the frequencies of symbols.

use super::tables::{DISTANCE_SYMBOLS, LITLEN_SYMBOLS, distance_symbol, length_symbol};

/// A literal byte, or a match with its distance in the high bits and its length in the low bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token(u32);

impl Token {
    #[inline(always)]
    pub(super) fn literal(byte: u8) -> Self {
        Token(u32::from(byte))
    }

    #[inline(always)]
    pub(super) fn copy(len: usize, distance: usize) -> Self {
        Token((distance as u32) << 16 | len as u32)
    }

    /// The literal byte; `None` for a match.
    #[inline(always)]
    pub(super) fn as_literal(self) -> Option<u8> {
        if self.0 < 1 << 16 { Some(self.0 as u8) } else { None }
    }

    #[inline(always)]
    pub(super) fn len(self) -> usize {
        (self.0 & 0xffff) as usize
    }

    #[inline(always)]
    pub(super) fn distance(self) -> usize {
        (self.0 >> 16) as usize
    }
}

/// Frequencies of the symbols. The arrays have powers of two as sizes; the additional entries stay 0.
#[derive(Clone)]
pub(super) struct Histogram {
    pub litlen: [u32; 512],
    pub distance: [u32; 32],
}

impl Histogram {
    pub(super) const EMPTY: Histogram = Histogram { litlen: [0; 512], distance: [0; 32] };

    pub(super) fn add(&mut self, other: &Histogram) {
        self.litlen.iter_mut().zip(&other.litlen).take(LITLEN_SYMBOLS).for_each(|(a, b)| *a += b);
        self.distance.iter_mut().zip(&other.distance).take(DISTANCE_SYMBOLS).for_each(|(a, b)| *a += b);
    }
}

/// A section of input whose tokens are counted together.
#[derive(Clone)]
pub(super) struct Chunk {
    /// End of its tokens in the parse.
    pub tokens_end: usize,
    /// End of its input.
    pub input_end: usize,
    pub histogram: Histogram,
}

/// The tokens of one segment of the input, divided into chunks.
pub(super) struct Parse {
    pub tokens: Vec<Token>,
    pub chunks: Vec<Chunk>,
    current: Histogram,
    chunk_end: usize,
}

/// Size of a chunk: small enough to find changes of the content, large enough for useful frequencies.
const CHUNK: usize = 4096;

impl Parse {
    pub(super) fn new() -> Self {
        Parse { tokens: Vec::new(), chunks: Vec::new(), current: Histogram::EMPTY, chunk_end: 0 }
    }

    /// Starts a new segment at offset `input`, and removes the previous one.
    pub(super) fn begin(&mut self, input: usize) {
        self.tokens.clear();
        self.chunks.clear();
        self.current = Histogram::EMPTY;
        self.chunk_end = input + CHUNK;
    }

    #[inline(always)]
    pub(super) fn literal(&mut self, byte: u8) {
        self.current.litlen[usize::from(byte)] += 1;
        self.tokens.push(Token::literal(byte));
    }

    #[inline(always)]
    pub(super) fn copy(&mut self, len: usize, distance: usize) {
        self.current.litlen[length_symbol(len) & 511] += 1;
        self.current.distance[distance_symbol(distance) & 31] += 1;
        self.tokens.push(Token::copy(len, distance));
    }

    /// Ends the current chunk if the input up to `input` completes it. Called after each token.
    #[inline(always)]
    pub(super) fn reached(&mut self, input: usize) {
        if input >= self.chunk_end {
            self.end_chunk(input);
        }
    }

    /// Ends the segment at offset `input`.
    pub(super) fn end(&mut self, input: usize) {
        if self.chunks.last().is_none_or(|chunk| chunk.tokens_end < self.tokens.len()) {
            self.end_chunk(input);
        }
    }

    #[cold]
    fn end_chunk(&mut self, input: usize) {
        let histogram = std::mem::replace(&mut self.current, Histogram::EMPTY);
        self.chunks.push(Chunk { tokens_end: self.tokens.len(), input_end: input, histogram });
        self.chunk_end = input + CHUNK;
    }
}
