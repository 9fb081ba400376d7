//! A qcow2 image that arrives once, in file order.

use crate::image::{Limits, Pushed, StreamImage};
use crate::{Error, Extent, Format, Kind, ReadAt, Result};

/// A qcow2 image that arrives once, in file order.
pub struct Qcow2Stream {}

impl Qcow2Stream {
    /// Nothing is known before the first piece.
    pub fn new(_limits: Limits) -> Self {
        Qcow2Stream {}
    }
}

impl StreamImage for Qcow2Stream {
    fn format(&self) -> Format {
        Format::Qcow2
    }
    fn virtual_size(&self) -> Option<u64> {
        None
    }
    fn lookback(&self) -> usize {
        0
    }
    fn push(&mut self, _base: u64, _piece: &[u8], _last: bool) -> Result<Pushed> {
        Err(Error::new(Kind::Unsupported, Format::Qcow2, "not written yet"))
    }
    fn leftover(&mut self, _spool: &dyn ReadAt) -> Result<Option<Vec<Extent>>> {
        Ok(None)
    }
}
