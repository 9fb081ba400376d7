//! Inspection of a disk, without converting it: format, sizes, content, references.
//!
//! ```text
//!              ┌─ seekable ─► blocks (few, kept) ─► format ─► Image ─► GuestView ─┐
//!   source ────┤                                                                  ├─► disk_format::inspect ─► Report
//!              └─ compressed, or a stream ─► front: the first MiB, decoded ───────┘        text(&Report)
//! ```
//!
//! **Guarantees**: of a source that can seek only the tables are read. Of a compressed source or a stream
//! only the front is decoded, unless a digest was requested. Files that an image refers to are named and
//! never opened. An image that `convert` refuses is reported too, with the refusal in [`Report::refused`]. An
//! `Err` means that it could not be inspected, or that it is empty: a source without a byte is refused, as in
//! `convert`. The library prints nothing. Code that parses foreign bytes runs on a thread that can open
//! nothing.
//!
//! The JSON of a [`Report`] is described in `docs/reference/inspect-json.md`.

mod blocks;
mod digest;
mod disk;
mod front;
mod image;
mod report;
mod text;
mod usage;

pub use image::inspect_image;
pub use report::*;
pub use text::text;

use crate::filter::{self, unpacking};
use crate::source::Source;
use crate::source::fetched::Fetched;
use crate::source::sequential::Sequential;
use crate::{Error, Result, plan};
use blocks::{Blocks, Meter};
use container_disk::run_confined;
use disk_format::inspect::{inspect_partial, outside};
use disk_format::qcow2::snapshots_of;
use disk_format::{ErrorKind, Format, GuestView, Image, Limits, PrefixView, ReadAt, qcow2};
use front::Front;
use std::sync::Arc;

/// Options for an inspection.
#[derive(Debug, Clone, Copy)]
pub struct InspectOptions<'a> {
    /// Count data and zeros by reading all tables.
    pub usage: bool,
    /// Compute the SHA-256 of the file, which reads all of it.
    pub digest: bool,
    /// The largest virtual size that is not refused.
    pub max_size: u64,
    /// Memory for decoding a compressed source.
    pub memory: u64,
    /// Bytes that are decoded of a compressed source, or read of a stream.
    pub front: usize,
    /// Path of the disk in an archive. All before it is read, which of a large archive is much.
    pub path: Option<&'a str>,
    /// Format of the source, if its first bytes do not tell it: they may be those of a guest.
    pub source_format: Option<Format>,
}

impl Default for InspectOptions<'_> {
    fn default() -> Self {
        InspectOptions {
            usage: false,
            digest: false,
            max_size: Limits::default().max_size,
            memory: 256 << 20,
            front: 8 << 20,
            path: None,
            source_format: None,
        }
    }
}

impl InspectOptions<'_> {
    /// Format by the first bytes, unless it is given.
    fn format(&self, head: &[u8]) -> Format {
        self.source_format.unwrap_or_else(|| Format::probe(head))
    }

    /// True if the first bytes are those of a layer around the disk.
    fn is_layered(&self, head: &[u8]) -> bool {
        self.source_format != Some(Format::Raw) && front::is_layered(head)
    }
}

/// Bytes of the file's front that are read first: enough to detect format, layers and the references of a
/// header.
const HEAD: usize = 64 << 10;

/// Memory of tables that suffices for every common image, so that a window fetches little: an L1 table of 3
/// TiB and more.
const SMALL: usize = 256 << 10;

/// Reports the format of a source, its partitions and their content. Fails if the source changes meanwhile.
pub fn inspect(source: &dyn Source, options: InspectOptions<'_>) -> Result<Report> {
    let facts = source.facts();
    let mut report = Report::new(&facts.name, facts.size);
    report.allocated = usage::allocated(facts);
    let looked = match source.read_at() {
        Some(bytes) => seekable(source, bytes, options, &mut report),
        None => streamed(source, options, &mut report),
    };
    looked.map_err(|e| e.of(&facts.name))?;
    source.unchanged()?;
    Ok(report)
}

/// Inspects the first bytes of a file of this size, if only these are available.
pub fn inspect_front(name: &str, size: u64, front: Vec<u8>) -> Result<Report> {
    let mut report = Report::new(name, Some(size));
    let whole = u64::try_from(front.len()).is_ok_and(|length| length >= size);
    let options = InspectOptions { front: front.len(), ..InspectOptions::default() };
    report.read = ReadCost { requests: 1, bytes: front.len() as u64 };
    run_confined(|| front_only(front, whole, options, &mut report))?.map_err(|e| e.of(name))?;
    Ok(report)
}

/// Inspects a source whose bytes can be read at any offset.
fn seekable(
    source: &dyn Source,
    bytes: Arc<dyn ReadAt>,
    options: InspectOptions<'_>,
    report: &mut Report,
) -> Result<()> {
    let bytes: Arc<dyn ReadAt> = match source.facts().remote {
        true => Arc::new(Fetched::new(bytes)?),
        false => bytes,
    };
    let meter = Arc::new(Meter::new(bytes));
    run_confined(|| look(source, &meter, options, report))??;
    if options.digest {
        let reader = source.stream(0)?;
        let (digest, read) = digest::of(&[], reader, &source.facts().name)?;
        report.digest = Some(digest);
        meter.add(read);
    }
    report.read = meter.read();
    Ok(())
}

fn look(
    source: &dyn Source,
    meter: &Arc<Meter>,
    options: InspectOptions<'_>,
    report: &mut Report,
) -> Result<()> {
    let blocks: Arc<dyn ReadAt> = Arc::new(Blocks::new(meter.clone()));
    let size = blocks.size();
    if size == 0 {
        return Err(plan::empty(&source.facts().name));
    }
    let mut head = vec![0; size.min(HEAD as u64) as usize];
    let cannot = |e| Error::io(format!("cannot read the beginning of {}", source.facts().name), e);
    blocks.read_exact_at(&mut head, 0).map_err(cannot)?;
    if options.is_layered(&head) {
        let file = Sequential::new(meter.clone());
        layered(Front::decode(Box::new(file), true, options)?, options, report)?;
    } else if let Some(path) = options.path {
        return Err(filter::no_archive(&source.facts().name, path));
    } else {
        let format = options.format(&head);
        describe_header(format, &head, report);
        let place = unpacking::Place { name: &report.name, layers: &[], member: None };
        report.refused = unpacking::unread(format, place).map(|e| e.to_string());
        let limits = Limits { max_size: options.max_size, ..Limits::default() };
        if let Some(image) = accepted(open(format, &blocks, limits), report)? {
            report.virtual_size = Some(image.virtual_size());
            report.facts = image.facts().into_iter().map(|(name, value)| (name.to_string(), value)).collect();
            if format == Format::Qcow2 && snapshots_of(&head).is_some() {
                let names = qcow2::Qcow2::open(blocks.clone(), limits).and_then(|image| image.snapshots());
                let names = accepted(names, report)?.map(|names| names.join(", "));
                report.facts.extend(names.map(|names| ("snapshot names".to_owned(), names)));
            }
            let guest = GuestView::new(image, blocks);
            report.disk = Some((&inspect_partial(&guest, Some(guest.size()))).into());
            if options.usage {
                let usage = usage::count(source, format, meter.clone(), limits);
                report.usage = accepted(usage, report)?.flatten();
                if report.usage.is_none() && report.refused.is_none() {
                    report.note("a raw disk has no tables, and nothing tells its holes: usage is not known");
                }
            }
        }
    }
    Ok(())
}

/// Inspects a source that comes once, in order.
fn streamed(source: &dyn Source, options: InspectOptions<'_>, report: &mut Report) -> Result<()> {
    let name = source.facts().name.as_str();
    let mut stream = source.stream(0)?;
    let (head, whole) = front::read_up_to(&mut stream, options.front)
        .map_err(|e| Error::io(format!("cannot read the beginning of {name}"), e))?;
    let mut read = head.len() as u64;
    if whole {
        report.size = Some(read);
    }
    if options.digest {
        let (digest, rest) = digest::of(&head, stream, name)?;
        report.digest = Some(digest);
        read += rest;
        report.size = Some(read);
    }
    report.read = ReadCost { requests: 1, bytes: read };
    run_confined(|| front_only(head, whole, options, report))?
}

fn front_only(head: Vec<u8>, whole: bool, options: InspectOptions<'_>, report: &mut Report) -> Result<()> {
    if options.is_layered(&head) {
        layered(Front::decode(Box::new(std::io::Cursor::new(head)), whole, options)?, options, report)?;
    } else {
        let size = report.size;
        layered(Front::plain(head, whole), options, report)?;
        if report.format == Format::Raw.name() || report.format == Format::Iso.name() {
            report.virtual_size = size;
        }
    }
    Ok(())
}

/// Inspects the front of a disk, of which nothing more was read.
fn layered(front: Front, options: InspectOptions<'_>, report: &mut Report) -> Result<()> {
    report.layers = front.layers.iter().map(|layer| layer.name()).collect();
    report.member = front.member.map(|path| printable::line(&path));
    // The end of an archive says that no other disk is in it; one with two is refused there.
    let may_have_another = front.layers.contains(&filter::Layer::Tar)
        && options.path.is_none()
        && !front.whole
        && front.refused.is_none();
    report.refused = front.refused;
    if let Some(path) = options.path {
        if !front.layers.contains(&filter::Layer::Tar) {
            return Err(filter::no_archive(&report.name, path));
        }
        if front.bytes.is_empty() && report.refused.is_none() {
            let what =
                format!("{path:?} does not begin in the first bytes of {}, which is a stream", report.name);
            return Err(Error::refused(what).with_hint("inspect a file of it"));
        }
    }
    if front.bytes.is_empty() && report.refused.is_some() {
        return Ok(());
    }
    if front.bytes.is_empty() && front.whole {
        return Err(plan::empty(&report.name));
    }
    let format = options.format(&front.bytes);
    describe_header(format, &front.bytes, report);
    let member = options.path.or(report.member.as_deref());
    let place = unpacking::Place { name: &report.name, layers: &front.layers, member };
    if let Some(e) = unpacking::unread(format, place) {
        report.refused.get_or_insert(e.to_string());
    }
    let limits = Limits { max_size: options.max_size, ..Limits::default() };
    let seen = front.bytes.len().min(options.front) as u64;
    match PrefixView::new(format, front.bytes, front.whole, limits) {
        Ok(view) => {
            report.virtual_size = view.virtual_size();
            report.disk = Some((&inspect_partial(&view, view.virtual_size())).into());
        }
        Err(e) => report.refuse(&e),
    }
    if !front.whole {
        let unpacked = if report.layers.is_empty() { "" } else { "unpacked " };
        report.note(&format!(
            "only the first {} of the {unpacked}disk were looked at",
            crate::size::human(seen)
        ));
    }
    if may_have_another {
        report.note(
            "the archive was not read to its end and may hold another disk, which convert refuses without --path",
        );
    }
    if options.usage {
        report.note("usage is not counted: the whole disk would have to be unpacked; convert it first");
    }
    Ok(())
}

/// Reports the header's own values; also for an image that is refused afterwards.
fn describe_header(format: Format, head: &[u8], report: &mut Report) {
    report.format = format.name();
    let refers = if format == Format::Raw { vec![] } else { outside(head) };
    report.refers_outside = refers.into_iter().map(Into::into).collect();
    report.virtual_size = match (format, head.get(24..32).and_then(|b| b.try_into().ok())) {
        (Format::Qcow2, Some(size)) => Some(u64::from_be_bytes(size)),
        _ => None,
    };
}

/// Opens an image with small windows, so that each fetches little; an image with larger tables gets the full
/// limit.
fn open(format: Format, bytes: &Arc<dyn ReadAt>, limits: Limits) -> disk_format::Result<Box<dyn Image>> {
    let small = Limits { table_memory: SMALL, ..limits };
    match (format, disk_format::open(format, bytes.clone(), small)) {
        (Format::Qcow2, Err(e)) if e.kind() == ErrorKind::TooLarge => {
            qcow2::Qcow2::open(bytes.clone(), limits).map(|image| Box::new(image) as Box<dyn Image>)
        }
        (_, opened) => opened,
    }
}

/// A refused image is a finding; one that could not be read is an error.
fn accepted<T>(opened: disk_format::Result<T>, report: &mut Report) -> Result<Option<T>> {
    match opened {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.kind() == ErrorKind::Io => Err(e.into()),
        Err(e) => {
            report.refuse(&e);
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests;
