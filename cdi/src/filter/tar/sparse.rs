//! Where the data of a file is, and where its holes are.

use crate::filter::{Layer, refused};
use std::io;
use std::ops::Range;

/// Offset and length, as archives write them.
pub(super) type Segments = Vec<(u64, u64)>;

/// Segments of one file, at most: their memory is 16 MiB then.
pub(super) const MOST: usize = 1 << 20;

/// A checked map: segments in order, without overlap, inside the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Map {
    segments: Vec<Range<u64>>,
    size: u64,
}

impl Map {
    /// A file without holes.
    pub(super) fn whole(size: u64) -> Self {
        Map { segments: std::iter::once(0..size).collect(), size }
    }

    /// `stored`: the bytes of data that the archive holds for it.
    pub(super) fn new(segments: &[(u64, u64)], size: u64, stored: u64, at: u64) -> io::Result<Self> {
        let broken =
            |what: String| refused(Layer::Tar, at, format_args!("the sparse map here is broken: {what}"));
        let mut checked = Vec::with_capacity(segments.len());
        let (mut end, mut sum) = (0, 0u64);
        for &(offset, len) in segments {
            let next = offset.checked_add(len).filter(|&next| next <= size && offset >= end);
            let Some(next) = next else {
                let what =
                    format!("{len} bytes at {offset} overlap others or pass the file's size of {size}");
                return Err(broken(what));
            };
            // Cannot overflow: segments do not overlap and lie inside `size`.
            sum += len;
            end = next;
            if len > 0 {
                checked.push(offset..next);
            }
        }
        if sum != stored {
            return Err(broken(format!("it tells of {sum} bytes, the archive holds {stored}")));
        }
        Ok(Map { segments: checked, size })
    }

    pub(super) fn segments(&self) -> &[Range<u64>] {
        &self.segments
    }

    /// The file's size with its holes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }
}
