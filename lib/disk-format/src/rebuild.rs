//! Rebuilding a whole disk in memory, from an image or from a stream. For tests, and for small disks.
//!
//! Both functions require that every byte of the disk is returned exactly once. Callers that write to a block
//! device rely on that.

use crate::image::Pushed;
use crate::{Data, Error, ErrorKind, Extent, Format, Image, ReadAt, Result, StreamImage, Unpacker};
use std::io;
use std::ops::Range;

/// Marker in the message of all errors that no image can cause: a reader has violated its contract.
pub const WRONG: &str = "the reader is wrong";

const SECTOR: u64 = 512;

/// Rebuilds the disk window by window. `most` limits its size.
pub fn from_image(image: &dyn Image, bytes: &dyn ReadAt, most: u64) -> Result<Vec<u8>> {
    let mut canvas = Canvas::new(image.format(), image.virtual_size(), most)?;
    let mut from = 0;
    loop {
        let window = image.window(from)?;
        let mut at = from;
        for extent in &window.extents {
            if extent.guest != at {
                return Err(
                    canvas.fault(format!("the window at {from:#x} has a gap or an overlap at {at:#x}"))
                );
            }
            at = extent.end();
            canvas.draw(extent, bytes)?;
        }
        match window.next {
            Some(next) if next > from && next == at => from = next,
            Some(next) => {
                return Err(canvas.fault(format!("the window at {from:#x} names {next:#x} as the next")));
            }
            None => return canvas.finish(),
        }
    }
}

/// Rebuilds the disk from a file that is pushed in pieces. `piece` returns the number of new bytes of the
/// next one (at least 1). Only spooled ranges can be read again afterwards.
pub fn from_stream(
    stream: &mut dyn StreamImage,
    file: &[u8],
    mut piece: impl FnMut() -> usize,
    most: u64,
) -> Result<Vec<u8>> {
    let mut canvas = None;
    let mut spool = Spool { file, ranges: vec![] };
    let (mut base, mut end) = (0, 0);
    loop {
        end = file.len().min(end + piece().max(1));
        let last = end == file.len();
        let Pushed { extents, spool: ranges, keep_from } =
            stream.push(base as u64, &file[base..end], last)?;
        for extent in &extents {
            let canvas = canvas_of(&mut canvas, stream, file, most)?;
            let outside = |r: Range<u64>| r.start < base as u64 || r.end > end as u64;
            if extent.file_range().is_some_and(outside) {
                return Err(canvas.fault(format!("{extent:?} lies outside the piece {base:#x}..{end:#x}")));
            }
            canvas.draw(extent, &file)?;
        }
        ranges.into_iter().for_each(|range| spool.add(range));
        let keep = usize::try_from(keep_from).unwrap_or(usize::MAX);
        if keep < base || keep > end || (last && keep != end) {
            let canvas = canvas_of(&mut canvas, stream, file, most)?;
            return Err(
                canvas.fault(format!("keep_from {keep:#x} lies outside the piece {base:#x}..{end:#x}"))
            );
        }
        base = keep;
        if last {
            break;
        }
    }
    canvas_of(&mut canvas, stream, file, most)?;
    while let Some(extents) = stream.leftover(&spool)? {
        let canvas = canvas_of(&mut canvas, stream, file, most)?;
        extents.iter().try_for_each(|extent| canvas.draw(extent, &spool))?;
    }
    canvas.map_or_else(|| Ok(vec![]), Canvas::finish)
}

/// The file, limited to the ranges that were spooled.
struct Spool<'a> {
    file: &'a [u8],
    ranges: Vec<Range<u64>>,
}

impl Spool<'_> {
    fn add(&mut self, range: Range<u64>) {
        match self.ranges.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.ranges.push(range),
        }
    }
}

impl ReadAt for Spool<'_> {
    fn size(&self) -> u64 {
        self.file.len() as u64
    }
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let (mut at, end) = (offset, offset + buf.len() as u64);
        while at < end {
            let range = self.ranges.iter().find(|r| r.contains(&at));
            at = range.ok_or_else(|| io::Error::other(format!("{at:#x} was not spooled")))?.end;
        }
        self.file.read_exact_at(buf, offset)
    }
}

/// The canvas, made when the size is known. A format that does not have it is as large as its file.
fn canvas_of<'a>(
    canvas: &'a mut Option<Canvas>,
    stream: &dyn StreamImage,
    file: &[u8],
    most: u64,
) -> Result<&'a mut Canvas> {
    let ready = match canvas.take() {
        Some(canvas) => canvas,
        None => Canvas::new(stream.format(), stream.virtual_size().unwrap_or(file.len() as u64), most)?,
    };
    Ok(canvas.insert(ready))
}

struct Canvas {
    format: Format,
    disk: Vec<u8>,
    told: Vec<bool>,
    unpacker: Unpacker,
    packed: Vec<u8>,
    unpacked: Vec<u8>,
}

impl Canvas {
    fn new(format: Format, size: u64, most: u64) -> Result<Self> {
        let len = usize::try_from(size).ok().filter(|_| size <= most).ok_or_else(|| {
            Error::new(
                ErrorKind::TooLarge,
                format,
                format!("a disk of {size} bytes is too large to rebuild in memory"),
            )
        })?;
        let (disk, told) = (vec![0; len], vec![false; len.div_ceil(SECTOR as usize)]);
        Ok(Canvas { format, disk, told, unpacker: Unpacker::default(), packed: vec![], unpacked: vec![] })
    }

    fn fault(&self, what: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::Io, self.format, format!("{WRONG}: {what}"))
    }

    fn draw(&mut self, extent: &Extent, bytes: &dyn ReadAt) -> Result<()> {
        let size = self.disk.len() as u64;
        let end = extent.guest.checked_add(extent.len).filter(|&end| end <= size && extent.len > 0);
        let end = end.ok_or_else(|| self.fault(format!("{extent:?} leaves the disk of {size} bytes")))?;
        if !extent.guest.is_multiple_of(SECTOR) || (!end.is_multiple_of(SECTOR) && end != size) {
            return Err(self.fault(format!("{extent:?} is not aligned to sectors")));
        }
        for sector in (extent.guest / SECTOR) as usize..end.div_ceil(SECTOR) as usize {
            if std::mem::replace(&mut self.told[sector], true) {
                return Err(self.fault(format!("{extent:?} was returned before")));
            }
        }
        let out = &mut self.disk[extent.guest as usize..end as usize];
        let failed = |at, e| Error::io(self.format, "the data cannot be read", at, e);
        match extent.data {
            Data::Zero => Ok(()),
            Data::Raw { at } => bytes.read_exact_at(out, at).map_err(|e| failed(at, e)),
            Data::Packed { at, size, codec, unpacked } => {
                self.packed.resize(size as usize, 0);
                self.unpacked.resize(unpacked as usize, 0);
                bytes.read_exact_at(&mut self.packed, at).map_err(|e| failed(at, e))?;
                self.unpacker.unpack(codec, &self.packed, &mut self.unpacked).map_err(|e| failed(at, e))?;
                out.copy_from_slice(&self.unpacked[..out.len()]);
                Ok(())
            }
        }
    }

    fn finish(self) -> Result<Vec<u8>> {
        match self.told.iter().position(|told| !told) {
            None => Ok(self.disk),
            Some(sector) => Err(self.fault(format!("sector {sector} was never returned"))),
        }
    }
}
