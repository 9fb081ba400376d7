//! Positions of data and holes in a sparse file, from each kind of sparse member.

use super::fault::Fault;
use super::header::{Header, Segments, more_sparse};
use super::pax::{self, Sparse};
use super::quoted;
use super::read::Archive;
use super::write::BLOCK;
use std::ops::Range;

/// Limit of segments per file. They take up to 16 MiB of memory.
const MOST: usize = 1 << 20;

/// A checked map: segments in order, without overlap, inside the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    segments: Vec<Range<u64>>,
    size: u64,
}

impl Map {
    /// The map of a file without holes.
    pub fn whole(size: u64) -> Self {
        Map { segments: std::iter::once(0..size).collect(), size }
    }

    /// Checks a map. `stored` is the number of data bytes in the archive, and `at` the map's offset for
    /// messages.
    fn new(segments: &[(u64, u64)], size: u64, stored: u64, at: u64) -> Result<Self, Fault> {
        let broken = |what: String| Fault::refused(at, format!("the sparse map here is broken: {what}"));
        let mut checked = Vec::with_capacity(segments.len());
        let (mut end, mut sum) = (0, 0u64);
        for &(offset, len) in segments {
            let next = offset.checked_add(len).filter(|&next| next <= size && offset >= end);
            let Some(next) = next else {
                let what =
                    format!("{len} bytes at {offset} overlap others or pass the file's size of {size}");
                return Err(broken(what));
            };
            // No overflow: segments do not overlap and lie inside `size`.
            sum += len;
            end = next;
            if len > 0 {
                checked.push(offset..next);
            }
        }
        if sum != stored {
            return Err(broken(format!("its segments have {sum} bytes, but the archive holds {stored}")));
        }
        Ok(Map { segments: checked, size })
    }

    /// The ranges of the file that have data, in the order of the data in the archive.
    pub fn segments(&self) -> &[Range<u64>] {
        &self.segments
    }

    /// The file's size including its holes.
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl Archive {
    /// Reads the map of a member of GNU's type `S`.
    pub(super) fn old_sparse(&mut self, header: &Header<'_>, size: u64, at: u64) -> Result<Map, Fault> {
        let (mut segments, mut more, real_size) =
            header.sparse().map_err(|what| Fault::Refused { at, what })?;
        while more {
            let at = self.offset();
            let block = self.block()?.ok_or_else(|| self.truncated("a sparse map"))?;
            let (further, and_more) = more_sparse(&block).map_err(|what| Fault::Refused { at, what })?;
            // An empty block may be the last one, but not one of many.
            if segments.len() + further.len() > MOST || (and_more && further.is_empty()) {
                return Err(too_many(at));
            }
            segments.extend(further);
            more = and_more;
        }
        self.begin(size)?;
        Map::new(&segments, real_size, size, at)
    }

    /// Reads the map of a member with GNU.sparse records.
    pub(super) fn pax_sparse(
        &mut self,
        sparse: Sparse,
        size: u64,
        name: &str,
        at: u64,
    ) -> Result<Map, Fault> {
        let unknown =
            |what: &str| Fault::refused(at, format!("{} is a sparse file (PAX), but {what}", quoted(name)));
        let real_size = sparse.real_size.ok_or_else(|| unknown("its real size is missing"))?;
        self.begin(size)?;
        let segments = match (sparse.major, sparse.minor) {
            (Some(1), Some(0)) if sparse.map.is_none() => self.leading_map(at)?,
            (None, None) | (Some(0), Some(0 | 1)) => {
                let map = sparse.map.unwrap_or_default();
                if sparse.blocks != Some(map.len() as u64) {
                    return Err(unknown("its map does not have the stated number of entries"));
                }
                map
            }
            _ => return Err(unknown("its map has an unknown version")),
        };
        Map::new(&segments, real_size, self.left(), at)
    }

    /// Reads the map of version 1.0: decimal lines in front of the data, padded to whole blocks.
    fn leading_map(&mut self, at: u64) -> Result<Segments, Fault> {
        let mut lines = Lines { block: [0; BLOCK], pos: BLOCK, at };
        let count = lines.number(self)?;
        let count = usize::try_from(count).ok().filter(|&count| count <= MOST).ok_or_else(|| too_many(at))?;
        let mut segments = Vec::new();
        for _ in 0..count {
            segments.push((lines.number(self)?, lines.number(self)?));
        }
        Ok(segments)
    }
}

/// Decimal lines in whole blocks of a member's data.
struct Lines {
    block: [u8; BLOCK],
    pos: usize,
    at: u64,
}

impl Lines {
    fn number(&mut self, archive: &mut Archive) -> Result<u64, Fault> {
        let broken = || Fault::refused(self.at, "the sparse map here is broken: a line is not a number");
        let mut line = Vec::new();
        loop {
            if self.pos == BLOCK {
                let block = archive.peek(BLOCK)?;
                self.block = block.try_into().map_err(|_| broken())?;
                self.pos = 0;
            }
            let byte = self.block[self.pos];
            self.pos += 1;
            match byte {
                b'\n' => return pax::number(&line).ok_or_else(broken),
                _ if line.len() == 20 => return Err(broken()),
                _ => line.push(byte),
            }
        }
    }
}

fn too_many(at: u64) -> Fault {
    Fault::refused(at, format!("the sparse map here is broken: more than {MOST} entries, or endless"))
}
