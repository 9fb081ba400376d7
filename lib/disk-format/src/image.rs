//! The two ways to read an image: by its tables (bytes at any offset), or in file order (a stream).

use crate::{Error, ErrorKind, Extent, Format, ReadAt, Result, Window, qcow2, raw};
use std::ops::Range;

/// Limits for a reader.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum virtual size in bytes.
    pub max_size: u64,
    /// Maximum memory for tables and extents of one window, in bytes. Also limits the memory of a stream
    /// reader.
    pub table_memory: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { max_size: 64 << 40, table_memory: 8 << 20 }
    }
}

/// An image whose bytes can be read at any offset.
pub trait Image: Send + Sync {
    /// The format of the image.
    fn format(&self) -> Format;

    /// The guest's size of the disk in bytes.
    fn virtual_size(&self) -> u64;

    /// The extents of the guest's disk from `from` on, which must be 0 or a multiple of the cluster size.
    /// This reads tables, but no data. Every extent has been checked: it lies inside the file, outside of the
    /// metadata, and is aligned.
    fn window(&self, from: u64) -> Result<Window>;

    /// Facts for messages, as name and value in a fixed order: version, cluster size, compression, snapshots
    /// …
    fn facts(&self) -> Vec<(&'static str, String)>;
}

/// The result of one more piece of the file.
#[derive(Debug, Default)]
pub struct Pushed {
    /// Ranges that are known now. `Zero` extents are returned as soon as their table is read. `Raw` and
    /// `Packed` extents are returned only when all their bytes lie inside the pushed piece.
    pub extents: Vec<Extent>,
    /// Ranges of the file (inside the piece) whose meaning is unknown so far. The caller must keep them
    /// readable at the same offsets.
    pub spool: Vec<Range<u64>>,
    /// Offset in the file from which bytes must be pushed again, at the beginning of the next piece. At most
    /// `lookback()` bytes before the end of the piece.
    pub keep_from: u64,
}

/// Position of a stream reader between two pieces, from which another reader can continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamPosition {
    /// Number of first bytes of the file that the other reader must be given: header and leading tables.
    pub front: u64,
    /// Offset in the file before which all data has been returned.
    pub at: u64,
    /// Known data after `at`: guest offset, length, offset in the file.
    pub pending: Vec<(u64, u64, u64)>,
}

impl StreamPosition {
    /// Maximum number of entries in `pending`. With more, no position is returned.
    pub const MOST: usize = 2048;
    /// Maximum value of `front`.
    pub const FRONT: u64 = 8 << 20;
}

/// An image whose file is read once, in order.
pub trait StreamImage: Send {
    /// The format of the image.
    fn format(&self) -> Format;

    /// The guest's size of the disk. `None` while it is unknown (a raw disk before its end).
    fn virtual_size(&self) -> Option<u64>;

    /// Maximum number of bytes that may have to be pushed again. A piece must be longer than this, unless it
    /// is the last.
    fn lookback(&self) -> usize;

    /// Adds the bytes `base ..` of the file. The first piece starts at 0, each further one at the last
    /// `keep_from`. `last` is true for the end of the file, and `keep_from` is then the end.
    fn push(&mut self, base: u64, piece: &[u8], last: bool) -> Result<Pushed>;

    /// Maximum number of bytes from `base`, the last `keep_from`, that may be given to [`StreamImage::skip`]
    /// instead of [`StreamImage::push`] if they are zeros. 0 if the image needs to see them.
    fn skippable(&self, base: u64) -> u64 {
        let _wants_all = base;
        0
    }

    /// Skips the bytes `base .. base + len` of the file, which are zeros that were not read. Returns their
    /// extents. The next piece begins after them.
    fn skip(&mut self, base: u64, len: u64) -> Result<Vec<Extent>> {
        let what = format!("{len} zeros at byte {base} cannot be skipped");
        Err(Error::new(ErrorKind::Io, self.format(), what))
    }

    /// Number of first bytes that contain the tables ([`StreamPosition::front`]). `None` before the header has been
    /// read.
    fn front(&self) -> Option<u64> {
        None
    }

    /// The position after a push. `None` if another reader could not continue from it without the bytes
    /// before.
    fn position(&self) -> Option<StreamPosition> {
        None
    }

    /// Continues from the position of another reader. This reader must be new, with only the first
    /// [`StreamPosition::front`] bytes pushed. The next piece begins at the position or before it.
    fn resume_from(&mut self, position: &StreamPosition) -> Result<()> {
        let what = format!("a reader of this format cannot continue from byte {}", position.at);
        Err(Error::new(ErrorKind::Io, self.format(), what))
    }

    /// Resolves data after the last piece that could not be resolved in order. `spool` has the spooled ranges
    /// at their own offsets, and the file's size. Called until it returns `None`.
    fn leftover(&mut self, spool: &dyn ReadAt) -> Result<Option<Vec<Extent>>>;
}

/// Opens an image of a known format. A format that is recognised but not supported is refused by its name.
pub fn open(format: Format, bytes: std::sync::Arc<dyn ReadAt>, limits: Limits) -> Result<Box<dyn Image>> {
    match format {
        Format::Raw | Format::Iso => Ok(Box::new(raw::RawImage::new(format, bytes.size(), limits)?)),
        Format::Qcow2 => Ok(Box::new(qcow2::Qcow2::open(bytes, limits)?)),
        other => Err(unsupported(other)),
    }
}

/// Starts reading an image of a known format that arrives as a stream.
pub fn stream(format: Format, limits: Limits) -> Result<Box<dyn StreamImage>> {
    match format {
        Format::Raw | Format::Iso => Ok(Box::new(raw::RawStream::new(format, limits))),
        Format::Qcow2 => Ok(Box::new(qcow2::Qcow2Stream::new(limits))),
        other => Err(unsupported(other)),
    }
}

/// Words about a format that [`Format::is_read`] does not name.
pub const UNREAD: &str = "this format is recognised but cannot be read yet";

fn unsupported(format: Format) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format,
        format!("{UNREAD}; {}", format.remedy(&format!("IN.{format}"), "OUT.qcow2", &[])),
    )
}
