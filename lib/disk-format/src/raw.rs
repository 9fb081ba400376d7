//! Raw disks, and ISO images, which are raw disks with a separate name. The file is the disk.

use crate::image::{Image, Limits, Pushed, StreamImage};
use crate::{Data, Error, ErrorKind, Extent, Format, ReadAt, Result, Window};

/// A raw disk whose size is known.
#[derive(Debug)]
pub struct RawImage {
    format: Format,
    size: u64,
}

impl RawImage {
    /// A raw disk. Fails if it is larger than the limit.
    pub fn new(format: Format, size: u64, limits: Limits) -> Result<Self> {
        check_size(format, size, limits)?;
        Ok(RawImage { format, size })
    }
}

impl Image for RawImage {
    fn format(&self) -> Format {
        self.format
    }
    fn virtual_size(&self) -> u64 {
        self.size
    }
    fn window(&self, from: u64) -> Result<Window> {
        let len = self.size.saturating_sub(from);
        let extents =
            if len == 0 { vec![] } else { vec![Extent { guest: from, len, data: Data::Raw { at: from } }] };
        Ok(Window { extents, next: None })
    }
    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![]
    }
}

/// A raw disk that is read once, in order. Its size is known at its end.
#[derive(Debug)]
pub struct RawStream {
    format: Format,
    limits: Limits,
    size: Option<u64>,
}

impl RawStream {
    /// A reader for any stream. Only the size limit can refuse it.
    pub fn new(format: Format, limits: Limits) -> Self {
        RawStream { format, limits, size: None }
    }
}

impl StreamImage for RawStream {
    fn format(&self) -> Format {
        self.format
    }
    fn virtual_size(&self) -> Option<u64> {
        self.size
    }
    fn lookback(&self) -> usize {
        0
    }
    fn push(&mut self, base: u64, piece: &[u8], last: bool) -> Result<Pushed> {
        let len = piece.len() as u64;
        let end = base + len;
        check_size(self.format, end, self.limits)?;
        if last {
            self.size = Some(end);
        }
        let extents =
            if len == 0 { vec![] } else { vec![Extent { guest: base, len, data: Data::Raw { at: base } }] };
        Ok(Pushed { extents, spool: vec![], keep_from: end })
    }
    fn skippable(&self, base: u64) -> u64 {
        u64::MAX - base
    }
    fn skip(&mut self, base: u64, len: u64) -> Result<Vec<Extent>> {
        check_size(self.format, base.saturating_add(len), self.limits)?;
        Ok(if len == 0 { vec![] } else { vec![Extent { guest: base, len, data: Data::Zero }] })
    }
    fn leftover(&mut self, _spool: &dyn ReadAt) -> Result<Option<Vec<Extent>>> {
        Ok(None)
    }
}

fn check_size(format: Format, size: u64, limits: Limits) -> Result<()> {
    if size <= limits.max_size {
        return Ok(());
    }
    let what = format!("the disk is larger than the limit of {} bytes", limits.max_size);
    Err(Error::new(ErrorKind::TooLarge, format, what))
}
