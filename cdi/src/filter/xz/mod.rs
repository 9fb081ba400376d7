//! The .xz container: all streams, padding between them, all integrity checks; blocks in parallel. Size:
//! grows, up to some 7000 times. Zeros: as stored.
//!
//! ```text
//!  stream header │ block │ block │ … │ index │ footer │ zeros │ stream header │ …
//!                  └──── a unit ────┘
//! ```
//!
//! The splitter parses the container itself. A block's end is found even if its header does not state the
//! size, because its LZMA2 data is made of chunks that state theirs. So every block is a unit for
//! [`super::lanes`], and a position where decoding can be entered. Each block is given to liblzma as a small
//! stream (`container.rs`: the stream header before it, and a generated index and footer behind it), so that
//! liblzma performs all its checks. The stream's own index and footer are compared with the blocks
//! (`index.rs`).

mod container;
mod decode;
mod index;
mod split;

use super::lanes;
use super::{Boundary, Layer, Need, OnBoundary, Opened, StagedBudget, refused, truncated, unreadable_notes};
use crate::{Error, Result};
use std::io::{self, Read};

/// Memory of liblzma for a block besides the dictionary.
const CODEC: u64 = 512 << 10;

pub(super) fn open(
    input: Box<dyn Read + Send>,
    room: StagedBudget,
    from: &Boundary,
    on_boundary: Option<OnBoundary>,
) -> Result<Opened> {
    let resume = match from.state.as_slice() {
        [] => None,
        state => Some(split::Resume::parse(state).ok_or_else(|| unreadable_notes(Layer::Xz, from))?),
    };
    lanes::open(
        "xz",
        input,
        split::Splitter::new(room.budget, resume),
        decode::Decoder::default,
        (room, u64::MAX),
        from,
        on_boundary,
    )
}

/// The first block's header states the dictionary, and perhaps both sizes.
pub(super) fn need(head: &[u8]) -> Result<Need> {
    let short = || Error::io("xz", truncated(Layer::Xz, head.len() as u64, "the first headers"));
    let (stream, rest) = head.split_first_chunk::<{ container::STREAM_HEADER }>().ok_or_else(short)?;
    container::stream_header(stream, 0).map_err(|e| Error::io("xz", e))?;
    let at = container::STREAM_HEADER as u64;
    let least = |dictionary| dictionary + CODEC + lanes::BUFFERS;
    match *rest.first().ok_or_else(short)? {
        // An index: the stream has no block.
        0 => Ok(Need { least: least(0), per_thread: 0 }),
        size => {
            let header = rest.get(..(usize::from(size) + 1) * 4).ok_or_else(short)?;
            let block = container::block_header(header, at).map_err(|e| Error::io("xz", e))?;
            // A typical encoder (`xz -T0`) makes blocks of three dictionaries and packs them to a half.
            let plain = block.plain.unwrap_or(block.dictionary.saturating_mul(3));
            let packed = block.packed.unwrap_or(plain / 2);
            let per_thread =
                block.dictionary.saturating_add(CODEC).saturating_add(plain).saturating_add(packed);
            Ok(Need { least: least(block.dictionary), per_thread })
        }
    }
}

fn broken(at: u64, what: impl std::fmt::Display) -> io::Error {
    refused(Layer::Xz, at, what)
}
