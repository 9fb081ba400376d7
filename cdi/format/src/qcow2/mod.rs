//! qcow2, versions 2 and 3.

pub mod write;

use crate::image::{Image, Limits, Pushed, StreamImage};
use crate::{Error, Extent, Format, Kind, ReadAt, Result, Window};
use std::sync::Arc;

/// A qcow2 image whose bytes can be read at any offset.
pub struct Qcow2 {}

impl Qcow2 {
    /// Reads and checks the header and the L1 table.
    pub fn open(_bytes: Arc<dyn ReadAt>, _limits: Limits) -> Result<Self> {
        Err(Error::new(Kind::Unsupported, Format::Qcow2, "not written yet"))
    }
}

impl Image for Qcow2 {
    fn format(&self) -> Format {
        Format::Qcow2
    }
    fn virtual_size(&self) -> u64 {
        0
    }
    fn window(&self, _from: u64) -> Result<Window> {
        Err(Error::new(Kind::Unsupported, Format::Qcow2, "not written yet"))
    }
    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![]
    }
}

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
