//! A qcow2 image that arrives once, in file order.
//!
//! ```text
//!                 ┌─ header, L1, refcount table ──► parsed, and gone
//!   next byte ────┼─ an L2 table, L1 known ───────► zeros told at once; its data: Pending
//!   of the file   ├─ data that is Pending ────────► told, as an extent inside this piece
//!                 ├─ a refcount block ────────────► skipped
//!                 └─ anything else ───────────────► spooled: data before its table, snapshots, garbage
//!   after the end: tables and data that were spooled are told from the spool   (leftover.rs)
//! ```
//!
//! Every cluster is told exactly once: when an L2 table is caught, each of its entries lies either ahead (it becomes
//! pending) or behind (then it must have been spooled, and is told at the end). Bytes that have gone by as something
//! else are refused; in a sound image nothing is stored twice under one offset.
//!
//! **Zeros that nobody gave** ([`StreamImage::skip`]) are passed over where all tables are known and nothing that they name lies
//! there: an archive's sparse file may have more of them than anyone could read.
//!
//! **Another reader** can go on ([`Standing`]) where every table lies before what it describes and no data is compressed, as our
//! writer and `qemu-img convert` have it: nothing is spooled then, and what is pending is known by a few extents.
//!
//! **Memory** is bounded by [`Limits::table_memory`]. A table for which there is no room is spooled, so its data is
//! unknown and is spooled too. Should there be too many spooled ranges to remember, all that follows is spooled.

mod body;
mod leftover;
mod pending;
mod spooled;
mod standing;
mod tables;

use super::header::{Header, Parsed};
use super::refuse;
use crate::image::{Limits, Pushed, Standing, StreamImage};
use crate::{Error, ErrorKind, Extent, Format, ReadAt, Result};
use body::Body;

/// Before the header is known: the longest compressed cluster there can be.
const LOOKBACK: usize = 4 << 20;

/// A qcow2 image that arrives once, in file order.
pub struct Qcow2Stream {
    limits: Limits,
    body: Option<Box<Body>>,
}

impl Qcow2Stream {
    /// Nothing is known before the first piece.
    pub fn new(limits: Limits) -> Self {
        Qcow2Stream { limits, body: None }
    }

    /// The body, once the header has come whole.
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

    /// Smaller once the header is known: two clusters, the longest that compressed data can be.
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
            _ => return Err(misused(format!("{len} zeros at byte {base} cannot be passed over"))),
        }
        Ok(vec![])
    }

    fn front(&self) -> Option<u64> {
        self.body.as_ref().map(|body| body.front())
    }

    fn standing(&self) -> Option<Standing> {
        self.body.as_ref()?.standing()
    }

    fn go_on(&mut self, standing: &Standing) -> Result<()> {
        match &mut self.body {
            Some(body) => body.go_on(standing),
            None => Err(misused("no header was pushed before it is to go on".to_owned())),
        }
    }

    fn leftover(&mut self, spool: &dyn ReadAt) -> Result<Option<Vec<Extent>>> {
        match &mut self.body {
            Some(body) => body.leftover(spool),
            None => Err(misused("leftover before the last piece".to_owned())),
        }
    }
}

/// The caller broke the protocol of [`StreamImage`].
fn misused(what: String) -> Error {
    Error::new(ErrorKind::Io, Format::Qcow2, what)
}

/// Data whose bytes were told as something else, or never came.
fn gone(extent: &Extent, at: u64) -> Error {
    let what = format!(
        "the data of guest offset {:#x} overlaps other data or metadata of the image, whose bytes have gone by; \
         read it from a file or a server that can seek",
        extent.guest
    );
    refuse(ErrorKind::Malformed, at, what)
}
