//! A DEFLATE encoder (RFC 1951) for clusters of disks. The whole input is in memory, and matches reach back
//! at most 4 KiB.
//!
//! ```text
//!   input ─Matcher─► matches ─parse─► tokens, counted in chunks ─split─► blocks ─huffman, block─► bits
//! ```
//!
//! **Reason for an own encoder.** qcow2's "zlib" clusters have a window of 4 KiB (QEMU: `inflateInit2(-12)`),
//! so a distance over 4096 must never occur. This encoder has no codes for such distances. Other encoders
//! with a configurable window were made for streams and 32 KiB. This one has the whole input and small
//! tables, and is nearly three times as fast as zlib at its default level, with less output
//! (`qcow2/write/README.md` has the table).
//! **Pure**: the output depends only on the input and the level.

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

/// An encoder with its tables, for one thread.
pub(crate) struct Encoder {
    choice: Choice,
    matcher: Matcher,
    ring: Ring,
    parse: Parse,
}

impl Encoder {
    /// An encoder for a level from 1 (fast) to 9 (small). Other values count as the nearest level.
    pub(crate) fn new(level: u8) -> Self {
        Encoder {
            choice: level::choice(level),
            matcher: Matcher::new(),
            ring: Ring::new(),
            parse: Parse::new(),
        }
    }

    /// Compresses `input` into `out`, which is resized. Returns `false` if the result would be longer than
    /// `limit`; the content of `out` is undefined then.
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
