//! A reader for a qcow2 image whose file is read once, in order.
//!
//! ```text
//!                 ┌─ header, L1, refcount table ──► parsed, not kept
//!   next byte ────┼─ an L2 table, L1 known ───────► zeros returned at once; its data: Pending
//!   of the file   ├─ data that is Pending ────────► returned, as an extent inside this piece
//!                 ├─ a refcount block ────────────► skipped
//!                 └─ anything else ───────────────► spooled: data before its table, snapshots, garbage
//!   after the end: spooled tables and data are returned from the spool   (leftover.rs)
//! ```
//!
//! Every cluster is returned exactly once. When an L2 table is read, the data of each entry lies either ahead
//! (it becomes pending) or behind (then it must have been spooled, and is returned at the end). An image is
//! refused if an entry refers to bytes that passed as something else. A valid image never stores two things
//! at one offset.
//!
//! **Unread zeros** ([`StreamImage::skip`]) are skipped if all tables are known and refer to nothing in that
//! range. A sparse file in an archive may have more zeros than could be read.
//!
//! **Another reader** can continue ([`StreamPosition`]) if every table lies before its data and no data is
//! compressed, as in images of our writer and of `qemu-img convert`. Nothing is spooled then, and a few
//! extents describe the pending data.
//!
//! **Memory** is bounded by [`Limits::table_memory`]. A table that does not fit is spooled, and its data,
//! which is then unknown, too. If there are too many spooled ranges to list, all further data is spooled.

mod body;
mod leftover;
mod pending;
mod position;
mod spooled;
mod tables;

use super::header::{Header, Parsed};
use super::refuse;
use crate::image::{Limits, Pushed, StreamImage, StreamPosition};
use crate::{Error, ErrorKind, Extent, Format, ReadAt, Result};
use body::Body;

/// The lookback before the header is known: the largest possible compressed cluster.
const LOOKBACK: usize = 4 << 20;

/// A reader for a qcow2 image whose file is read once, in order.
pub struct Qcow2Stream {
    limits: Limits,
    body: Option<Box<Body>>,
}

impl Qcow2Stream {
    /// A reader before its first piece.
    pub fn new(limits: Limits) -> Self {
        Qcow2Stream { limits, body: None }
    }

    /// The body, once the header is complete.
    fn body(&mut self, base: u64, piece: &[u8], last: bool) -> Result<Option<&mut Body>> {
        if self.body.is_none() {
            if base != 0 {
                return Err(misused(format!("the first piece starts at {base}, not at 0")));
            }
            match Header::parse(piece, last, self.limits)? {
                Parsed::Need(_) => return Ok(None),
                Parsed::Done(header) => self.body = Some(Box::new(Body::new(*header, self.limits))),
            }
        }
        Ok(self.body.as_deref_mut())
    }
}

impl StreamImage for Qcow2Stream {
    fn format(&self) -> Format {
        Format::Qcow2
    }

    fn virtual_size(&self) -> Option<u64> {
        self.body.as_ref().map(|body| body.header().size)
    }

    /// Smaller once the header is known: two clusters, the largest size of compressed data.
    fn lookback(&self) -> usize {
        self.body.as_ref().map_or(LOOKBACK, |body| 2 << body.header().cluster_bits)
    }

    fn push(&mut self, base: u64, piece: &[u8], last: bool) -> Result<Pushed> {
        match self.body(base, piece, last)? {
            Some(body) => body.push(base, piece, last),
            None => Ok(Pushed::default()),
        }
    }

    fn skippable(&self, base: u64) -> u64 {
        self.body.as_ref().map_or(0, |body| body.skippable(base))
    }

    fn skip(&mut self, base: u64, len: u64) -> Result<Vec<Extent>> {
        match &mut self.body {
            Some(body) if len <= body.skippable(base) => body.skip(len),
            _ => return Err(misused(format!("{len} zeros at byte {base} cannot be skipped"))),
        }
        Ok(vec![])
    }

    fn front(&self) -> Option<u64> {
        self.body.as_ref().map(|body| body.front())
    }

    fn position(&self) -> Option<StreamPosition> {
        self.body.as_ref()?.position()
    }

    fn resume_from(&mut self, position: &StreamPosition) -> Result<()> {
        match &mut self.body {
            Some(body) => body.resume_from(position),
            None => Err(misused("the header must be pushed before `go_on`".to_owned())),
        }
    }

    fn leftover(&mut self, spool: &dyn ReadAt) -> Result<Option<Vec<Extent>>> {
        match &mut self.body {
            Some(body) => body.leftover(spool),
            None => Err(misused("`leftover` was called before the last piece".to_owned())),
        }
    }
}

/// The error for a caller that violates the protocol of [`StreamImage`].
fn misused(what: String) -> Error {
    Error::new(ErrorKind::Io, Format::Qcow2, what)
}

/// The error for data whose bytes passed as something else, or never came.
fn gone(extent: &Extent, at: u64) -> Error {
    let what = format!(
        "the data of guest offset {:#x} overlaps other data or metadata that was already read from the stream; \
             read the image from a file or a server that can seek",
        extent.guest
    );
    refuse(ErrorKind::Malformed, at, what)
}
