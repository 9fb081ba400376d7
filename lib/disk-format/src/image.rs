//! The two ways through an image: by its tables (seekable bytes), or as the bytes arrive (a stream).

use crate::{Error, ErrorKind, Extent, Format, ReadAt, Result, Window, qcow2, raw};
use std::ops::Range;

/// What a reader may use and must refuse.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The largest virtual size that is accepted.
    pub max_size: u64,
    /// Bytes that tables and extents of one window may take in memory. Also bounds what a stream reader keeps.
    pub table_memory: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { max_size: 64 << 40, table_memory: 8 << 20 }
    }
}

/// An image whose bytes can be read at any offset.
pub trait Image: Send + Sync {
    /// Which format it is.
    fn format(&self) -> Format;

    /// The size the guest sees.
    fn virtual_size(&self) -> u64;

    /// What the guest's disk holds from `from` on (a multiple of the cluster size, or 0): tables are read, data is
    /// not. Every extent has been checked: it lies inside the file, outside the metadata, and is aligned.
    fn window(&self, from: u64) -> Result<Window>;

    /// Facts for people, as name and value in a fixed order: version, cluster size, compression, snapshots …
    fn facts(&self) -> Vec<(&'static str, String)>;
}

/// What a [`StreamImage`] learnt from one more piece of the file.
#[derive(Debug, Default)]
pub struct Pushed {
    /// Ranges now known. `Zero` extents are emitted as soon as a table tells them; `Raw` and `Packed` ones only when
    /// their bytes lie wholly inside the piece that was pushed.
    pub extents: Vec<Extent>,
    /// Ranges of the file (inside the piece) whose meaning is not known yet: the caller must keep them where they
    /// can be read again at the same offsets.
    pub spool: Vec<Range<u64>>,
    /// Bytes from this file offset on must be pushed again, at the front of the next piece. At most `lookback()`
    /// bytes before the end of the piece.
    pub keep_from: u64,
}

/// Where the reader of a stream stands between two pieces, so that another one can go on from there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Bytes of the file that the other reader is pushed first: header and tables that lie in front.
    pub front: u64,
    /// Everything before this offset of the file is told.
    pub at: u64,
    /// Data behind it that is known, as it lies in the file: guest offset, bytes, offset in the file.
    pub pending: Vec<(u64, u64, u64)>,
}

impl Standing {
    /// Known data, at most: more of it is too much to be kept.
    pub const MOST: usize = 2048;
    /// The most bytes in front.
    pub const FRONT: u64 = 8 << 20;
}

/// An image that arrives once, in file order.
pub trait StreamImage: Send {
    /// Which format it is.
    fn format(&self) -> Format;

    /// The size the guest sees; `None` while it is not known (raw, before the end).
    fn virtual_size(&self) -> Option<u64>;

    /// The most bytes that may be asked for again; a piece must be longer than this, unless it is the last.
    fn lookback(&self) -> usize;

    /// The bytes `base ..` of the file. The first piece starts at 0, each further one at the last `keep_from`.
    /// `last`: nothing follows; `keep_from` is then the end.
    fn push(&mut self, base: u64, piece: &[u8], last: bool) -> Result<Pushed>;

    /// The most bytes from `base`, the last `keep_from`, on that may be given to [`StreamImage::skip`] instead of
    /// [`StreamImage::push`] if they are zeros. 0: the image needs to see them.
    fn skippable(&self, base: u64) -> u64 {
        let _wants_all = base;
        0
    }

    /// Passes over the bytes `base .. base + len` of the file, which are zeros that were not read. Returns their extents for the
    /// guest; the next piece begins behind them.
    fn skip(&mut self, base: u64, len: u64) -> Result<Vec<Extent>> {
        let what = format!("{len} zeros at byte {base} cannot be passed over");
        Err(Error::new(ErrorKind::Io, self.format(), what))
    }

    /// Bytes in front by which its tables are known ([`Standing::front`]); `None` before its header has come.
    fn front(&self) -> Option<u64> {
        None
    }

    /// Where it stands after a push; `None` where another reader could not go on without the bytes between.
    fn standing(&self) -> Option<Standing> {
        None
    }

    /// A new reader, which was pushed the first [`Standing::front`] bytes, goes on where another one stood: the next piece begins
    /// there or before.
    fn go_on(&mut self, standing: &Standing) -> Result<()> {
        let what = format!("nobody has told that byte {} can be gone on from", standing.at);
        Err(Error::new(ErrorKind::Io, self.format(), what))
    }

    /// After the last piece: what could not be resolved while it passed, to be read from the spooled ranges
    /// (`spool` holds them at their own offsets, and its size is the file's). Called until it returns `None`.
    fn leftover(&mut self, spool: &dyn ReadAt) -> Result<Option<Vec<Extent>>>;
}

/// Opens an image of a known format. A format that is recognised but not read is refused by name.
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

fn unsupported(format: Format) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format,
        format!(
            "this format is recognised but cannot be read yet; convert it first: qemu-img convert -O qcow2 IN.{format} OUT.qcow2"
        ),
    )
}
