//! A DEFLATE encoder (RFC 1951) for clusters of disks: the whole input in memory, no match farther back than 4 KiB.
//!
//! ```text
//!   input ─Matcher─► matches ─parse─► tokens, counted in chunks ─split─► blocks ─huffman, block─► bits
//! ```
//!
//! **Why our own.** qcow2's "zlib" clusters are for a window of 4 KiB (QEMU: `inflateInit2(-12)`), so a distance over
//! 4096 must never occur; no symbol for one is ever given a code. Encoders whose window can be limited were made for
//! streams and 32 KiB; this one has the input at hand and small tables, and is nearly three times as fast as zlib at its
//! default level, with less output (`qcow2/write/README.md` has the table).
//! **Pure**: the output depends on the input and the level alone. Anyone in this crate may call it.

mod bits;
mod block;
mod huffman;
mod level;
mod matcher;
mod parse;
mod ring;
mod split;
mod tables;
mod token;

use bits::BitWriter;
use matcher::Matcher;
use parse::Choice;
use ring::{Ring, SEGMENT};
use token::Parse;

/// A compressor with its tables, for one thread.
pub(crate) struct Encoder {
    choice: Choice,
    matcher: Matcher,
    ring: Ring,
    parse: Parse,
}

impl Encoder {
    /// Levels are 1 (fast) to 9 (small); others count as the nearest.
    pub(crate) fn new(level: u8) -> Self {
        Encoder {
            choice: level::choice(level),
            matcher: Matcher::new(),
            ring: Ring::new(),
            parse: Parse::new(),
        }
    }

    /// Compresses `input` into `out`, which is resized as needed. `false`, and `out` of no meaning: the result would
    /// be longer than `limit`.
    pub(crate) fn encode(&mut self, input: &[u8], limit: usize, out: &mut Vec<u8>) -> bool {
        out.resize(limit + BitWriter::SLACK, 0);
        match self.encode_into(input, out) {
            Some(len) => {
                out.truncate(len);
                true
            }
            None => false,
        }
    }

    fn encode_into(&mut self, input: &[u8], out: &mut [u8]) -> Option<usize> {
        let mut bits = BitWriter::new(out);
        self.matcher.reset();
        let mut from = 0;
        loop {
            let to = (from + SEGMENT).min(input.len());
            self.ring.push(from, &input[from..to]);
            self.parse.begin(from);
            parse::parse(&mut self.matcher, self.choice, &self.ring, input, from, to, &mut self.parse);
            split::join(&mut self.parse.chunks);
            let Parse { tokens, chunks, .. } = &self.parse;
            let mut token = 0;
            for chunk in chunks {
                let last = chunk.input_end == input.len();
                let tokens = &tokens[token..chunk.tokens_end];
                if !block::write(
                    &mut bits,
                    last,
                    tokens,
                    &input[from..chunk.input_end],
                    chunk.histogram.clone(),
                ) {
                    return None;
                }
                (token, from) = (chunk.tokens_end, chunk.input_end);
            }
            if to == input.len() {
                return Some(bits.finish());
            }
        }
    }
}

#[cfg(test)]
mod tests;
