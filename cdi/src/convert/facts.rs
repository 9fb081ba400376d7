//! Facts for the plan: opens the source, removes the layers around the disk, reads the first header.
//!
//! The calling thread opens the source. Code that parses its bytes runs on a confined thread, which can open
//! nothing.

use super::boundaries::Boundaries;
use super::{Keep, Request};
use crate::filter::holes::{Dense, HoleRead};
use crate::filter::plain::Plain;
use crate::filter::progress::{Count, CountingReader};
use crate::filter::read_ahead::{ReadAhead, Shape};
use crate::filter::stack::{self, Stack};
use crate::filter::validating_reader::ValidatingReader;
use crate::filter::verify::{SumAt, Sums, Verify};
use crate::filter::{self, Boundary, Budget, unpacking};
use crate::journal::Tables;
use crate::plan::{self, Facts, Flow, KeptImage, SourceAccess};
use crate::run::holes::Sparse;
use crate::run::stream::digest_of;
use crate::source::Source;
use crate::source::fetched::Fetched;
use crate::source::sequential::Sequential;
use crate::{Error, ErrorKind, Result};
use container_disk::run_confined;
use disk_format::qcow2::{Leftover, Qcow2, snapshots_of};
use disk_format::{Format, Image, Limits, ReadAt, StreamPosition};
use std::io::Read;
use std::sync::Arc;

/// A source that is read by offset.
pub(crate) struct Seek {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) bytes: Arc<dyn ReadAt>,
    pub(crate) image: Box<dyn Image>,
}

/// A source that is read in order, decoded.
pub(crate) struct Stream {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) reader: Box<dyn HoleRead + Send>,
    /// Bytes taken from the source.
    pub(crate) counted: Count,
    /// Boundaries where it could be entered again.
    pub(crate) boundaries: Boundaries,
    /// Sums of the source's bytes, if a checksum is expected.
    pub(crate) sums: Sums,
    /// Position in the decoded bytes where it begins.
    pub(crate) from: u64,
    /// For an image with tables that is resumed: its first bytes, and the state of its reader.
    pub(crate) position: Option<(Vec<u8>, Tables)>,
}

impl Flow<Seek, Stream> {
    pub(super) fn source(&self) -> &Arc<dyn Source> {
        match self {
            Flow::Tables(Seek { source, .. }) | Flow::TablesInOrder(Seek { source, .. }) => source,
            Flow::Stream(stream) | Flow::StreamInOrder(stream) | Flow::SpoolThenOrder(stream) => {
                &stream.source
            }
        }
    }
}

/// Enters a stream of one layer, or of none, at the position of an earlier run. The sums are those at that
/// position or a little before it, and at one behind it, if a checksum is expected. `tables`: those of an
/// image with tables.
pub(super) fn enter_at(
    request: &Request,
    opened: &Facts,
    source: &Arc<dyn Source>,
    boundary: &Boundary,
    (sum, behind): (Option<&SumAt>, Option<&SumAt>),
    tables: Option<&Tables>,
) -> Result<Stream> {
    let layer = match opened.layers[..] {
        [] => None,
        [(layer, _)] => Some(layer),
        _ => return Err(Error::failed("only a stream with one layer can be entered in the middle")),
    };
    let (sums, boundaries) = (Sums::default(), Boundaries::default());
    let position = match tables {
        Some(tables) => Some((front(request, source, layer, tables)?, tables.clone())),
        None => None,
    };
    if source.facts().reentry {
        let counted = Count::after(boundary.output);
        let input = CountingReader::new(source.enter(boundary, boundaries.note())?, counted.clone());
        let reader = Box::new(ReadAhead::new("source", input, Shape::DEFAULT)?);
        let (source, from) = (source.clone(), boundary.output);
        return Ok(Stream { source, reader, counted, boundaries, sums, from, position });
    }
    let begin = match (&request.convert_options.checksum, sum) {
        (None, _) => boundary.input,
        (Some(_), Some(sum)) if sum.at <= boundary.input => sum.at,
        (Some(_), _) => return Err(Error::failed("the journal has no sum of what was read before")),
    };
    let counted = Count::after(begin);
    let mut input: Box<dyn Read + Send> =
        Box::new(CountingReader::new(source.stream(begin)?, counted.clone()));
    if let (Some(checksum), Some(sum)) = (request.convert_options.checksum, sum) {
        input = Box::new(Verify::after(input, checksum, sum)?.knowing(behind).noting(&sums));
    }
    let peeling = peeling(request, &boundaries);
    let name = &opened.source.name;
    let reader = run_confined(|| {
        let between = boundary.input - begin;
        let skipped = std::io::copy(&mut input.by_ref().take(between), &mut std::io::sink());
        let skipped = skipped.map_err(|e| Error::reading("cannot read what an earlier run has read", e))?;
        if skipped < between {
            return Err(
                Error::of_bytes("the source ends before the place where the earlier run stood").of(name)
            );
        }
        match layer {
            Some(layer) => {
                let inside = stack::resume(layer, input, &peeling, boundary.clone())?;
                Ok(Box::new(Dense(inside)) as Box<dyn HoleRead + Send>)
            }
            None => {
                let ahead = ReadAhead::new("source", input, Shape::DEFAULT)?;
                Ok(Box::new(Plain::new(ahead, boundary.output, boundaries.note()))
                    as Box<dyn HoleRead + Send>)
            }
        }
    })??;
    let (source, from) = (source.clone(), boundary.output);
    Ok(Stream { source, reader, counted, boundaries, sums, from, position })
}

/// Compressed bytes behind the tables of an image that a decoder may need before it returns the last of them.
const BEHIND: u64 = 1 << 20;

/// The first bytes of an image, which hold its tables. This reading ends behind them, so no checksum covers
/// it: a digest shows that they are the bytes that the first run read and hashed with all the rest.
fn front(
    request: &Request,
    source: &Arc<dyn Source>,
    layer: Option<filter::Layer>,
    tables: &Tables,
) -> Result<Vec<u8>> {
    let (name, bytes) = (&source.facts().name, tables.front.min(StreamPosition::FRONT));
    let input: Box<dyn Read + Send> = match source.read_at() {
        Some(at) => {
            let at: Arc<dyn ReadAt> = if source.facts().remote { Arc::new(Fetched::new(at)?) } else { at };
            Box::new(Sequential::new(at).take(bytes + bytes / 64 + BEHIND))
        }
        None => source.stream(0)?,
    };
    let options = stack::Options { on_boundary: None, ..peeling(request, &Boundaries::default()) };
    let mut front = Vec::new();
    let read = run_confined(|| -> Result<usize> {
        let mut image = match layer {
            Some(layer) => stack::resume(layer, input, &options, Boundary::default())?,
            None => input,
        };
        let read = image.by_ref().take(bytes).read_to_end(&mut front);
        read.map_err(|e| Error::reading("cannot read the tables in front of the disk", e))
    })?;
    let other = match read {
        Ok(_) if front.len() as u64 == tables.front && digest_of(&front) == tables.digest => {
            return Ok(front);
        }
        Ok(_) => None,
        // Bytes of another version of the source make no sense.
        Err(e) if e.kind() == ErrorKind::Refused => Some(e),
        Err(e) => return Err(e),
    };
    let what = format!(
        "the first {bytes} bytes of {name} are not those that an earlier run has read; it is read again from its start"
    );
    let error = Error::failed(what).of_another_version();
    Err(match other {
        Some(cause) => error.because(cause),
        None => error,
    })
}

/// Gathers the facts. `room`: the bytes of a target that is a device.
pub(super) fn gather(
    request: &Request,
    source: &Arc<dyn Source>,
    room: Option<u64>,
) -> Result<(Facts, SourceAccess<Seek, Stream>)> {
    let name = source.facts().name.clone();
    let seek = source.read_at().filter(|_| plan::may_seek(source.facts(), &request.convert_options));
    let opened = match seek {
        Some(bytes) => {
            let head = head_of(&*bytes, &name)?;
            let is_plain = looks_raw(request) && member(request).is_none();
            if is_plain || filter::detect(&head).is_none() {
                by_offset(request, source, bytes, &head)?
            } else {
                by_stream(request, source)?
            }
        }
        None => by_stream(request, source)?,
    };
    let Opened { access, layers, format, virtual_size, guest_size, leftover, is_kept } = opened;
    let kept = is_kept.then_some(KeptImage { format, virtual_size: guest_size });
    let output = match request.keep {
        Keep::UnlessRaw(output) if format == Format::Raw || leftover.is_some() => output,
        _ => request.output,
    };
    let format = if kept.is_some() { Format::Raw } else { format };
    let (source, target) = (source.facts().clone(), request.target.clone());
    Ok((Facts { source, layers, format, kept, leftover, virtual_size, target, room, output }, access))
}

/// Findings in the first bytes and the tables of a source.
struct Looked {
    format: Format,
    /// The size that its guest sees.
    guest_size: u64,
    image: Box<dyn Image>,
    /// Bytes of the file that are not of the disk, if the file may be kept.
    leftover: Option<Leftover>,
    is_kept: bool,
}

/// True if an image file is kept in which these bytes are not of the disk.
fn keeps(request: &Request, leftover: Option<Leftover>) -> bool {
    leftover.is_none() || request.keep == Keep::Yes
}

/// The format of the disk, the size that its guest sees, and its tables.
fn look(request: &Request, name: &str, bytes: Arc<dyn ReadAt>, head: &[u8]) -> Result<Looked> {
    let format = request.source_format.unwrap_or_else(|| Format::probe(head));
    unpacking::unread(format, unpacking::Place { name, layers: &[], member: None }).map_or(Ok(()), Err)?;
    let image = disk_format::open(format, bytes.clone(), limits(request))?;
    let guest_size = image.virtual_size();
    refuse_named(request, format, name, (&[], 0), None)?;
    let mut looked = Looked { format, guest_size, image, leftover: None, is_kept: false };
    if !may_keep(request, format) {
        return Ok(looked);
    }
    if format == Format::Qcow2 {
        looked.leftover = Qcow2::open(bytes.clone(), limits(request))?.leftover()?;
    }
    if keeps(request, looked.leftover) {
        // It refers to no other file, and its tables are valid; from here on it is only bytes.
        walk(&*looked.image)?;
        looked.image = disk_format::open(Format::Raw, bytes, limits(request))?;
        looked.is_kept = true;
    }
    Ok(looked)
}

/// An opened source.
struct Opened {
    access: SourceAccess<Seek, Stream>,
    layers: Vec<(filter::Layer, filter::Need)>,
    format: Format,
    /// The size of the disk that is read, if known; of an image file that is kept, the file's.
    virtual_size: Option<u64>,
    /// The size that the guest sees, if a header states it.
    guest_size: Option<u64>,
    /// Bytes of an image file that are not of its disk, as far as that is known.
    leftover: Option<Leftover>,
    /// True if the image file is kept.
    is_kept: bool,
}

fn by_offset(
    request: &Request,
    source: &Arc<dyn Source>,
    bytes: Arc<dyn ReadAt>,
    head: &[u8],
) -> Result<Opened> {
    if !looks_raw(request) {
        refuse_unreadable(&source.facts().name, head)?;
    }
    if let Some(path) = member(request) {
        return Err(filter::no_archive(&source.facts().name, path));
    }
    let tables: Arc<dyn ReadAt> = match source.facts().remote {
        true => Arc::new(Fetched::new(bytes.clone())?),
        false => bytes.clone(),
    };
    let Looked { format, guest_size, mut image, leftover, is_kept } =
        run_confined(|| look(request, &source.facts().name, tables, head))??;
    if matches!(format, Format::Raw | Format::Iso) && source.data_map().is_some() {
        let (holes, size) = (source.clone(), bytes.size());
        image = Box::new(Sparse::new(format, size, move || {
            holes.data_map().unwrap_or_else(|| Box::new(std::iter::once(0..size)))
        }));
    }
    let virtual_size = Some(image.virtual_size());
    let access = SourceAccess::Seek(Seek { source: source.clone(), bytes, image });
    let guest_size = Some(guest_size);
    Ok(Opened { access, layers: vec![], format, virtual_size, guest_size, leftover, is_kept })
}

fn by_stream(request: &Request, source: &Arc<dyn Source>) -> Result<Opened> {
    let boundaries = Boundaries::default();
    let stream = match plan::may_reenter(source.facts(), &request.convert_options) {
        true => source.stream_noting(boundaries.note())?,
        false => source.stream(0)?,
    };
    run_confined(|| peel(request, source, stream, boundaries))?
}

/// Removes the layers, and detects the format inside.
fn peel(
    request: &Request,
    source: &Arc<dyn Source>,
    stream: Box<dyn Read + Send>,
    boundaries: Boundaries,
) -> Result<Opened> {
    let facts = source.facts();
    let (counted, sums) = (Count::default(), Sums::default());
    let stream = CountingReader::new(stream, counted.clone());
    let input: Box<dyn Read + Send> = match &request.convert_options.checksum {
        Some(checksum) => Box::new(Verify::new(stream, *checksum).noting(&sums)),
        None => Box::new(stream),
    };
    let path = member(request);
    let Stack { layers, needs, member, reader } =
        stack::stack_of_member(input, &peeling(request, &boundaries), path, looks_raw(request))?;
    if let Some(path) = path.filter(|_| !layers.contains(&filter::Layer::Tar)) {
        return Err(filter::no_archive(&facts.name, path));
    }
    let head = reader.head();
    let format = request.source_format.unwrap_or_else(|| Format::probe(head));
    let place = unpacking::Place { name: &facts.name, layers: &layers, member: path.or(member.as_deref()) };
    unpacking::unread(format, place).map_or(Ok(()), Err)?;
    refuse_named(request, format, &facts.name, (&layers, source.undone()), path.or(member.as_deref()))?;
    let layers: Vec<_> = layers.into_iter().zip(needs).collect();
    let guest_size = match format {
        Format::Raw | Format::Iso => None,
        // A separate reader parses the head only.
        _ => {
            let mut image = disk_format::stream(format, limits(request))?;
            image.push(0, head, false)?;
            image.virtual_size()
        }
    };
    // Of a stream the header alone is known before its bytes are passed on.
    let leftover = snapshots_of(head).filter(|_| format == Format::Qcow2 && may_keep(request, format));
    let is_kept = may_keep(request, format) && keeps(request, leftover);
    let size = guest_size.filter(|_| !is_kept);
    // Bytes that pass unchanged: the header of a file in an archive states their number before the first of
    // them has come.
    let told = if layers.is_empty() { facts.size } else { reader.size() };
    let virtual_size =
        size.or_else(|| told.filter(|_| is_kept || matches!(format, Format::Raw | Format::Iso)));
    let name = &facts.name;
    let reader: Box<dyn HoleRead + Send> = match is_kept {
        true => Box::new(ValidatingReader::new(reader, name, limits(request))),
        // Other streams are read by offset, or cannot be entered again.
        false if layers.is_empty() && request.convert_options.checksum.is_some() => {
            Box::new(Plain::new(reader, 0, boundaries.note()))
        }
        false => Box::new(reader),
    };
    let source = source.clone();
    let stream = Stream { source, reader, counted, boundaries, sums, from: 0, position: None };
    let access = SourceAccess::Stream(stream);
    Ok(Opened { access, layers, format, virtual_size, guest_size, leftover, is_kept })
}

/// Reads all tables of an image; they are checked as they are read.
fn walk(image: &dyn Image) -> Result<()> {
    let mut from = Some(0).filter(|_| image.virtual_size() > 0);
    while let Some(guest) = from {
        from = image.window(guest)?.next.filter(|&next| next > guest);
    }
    Ok(())
}

/// The budget of the layers; the rest of the bound is for buffers, and the plan checks the sum.
fn peeling(request: &Request, boundaries: &Boundaries) -> stack::Options {
    let convert_options = &request.convert_options;
    let beside = (48 << 20).min(convert_options.memory / 2);
    let budget = Budget { threads: convert_options.threads, memory: convert_options.memory - beside, beside };
    // An image of the largest disk is a little larger than the disk.
    let limit =
        convert_options.max_size.saturating_add(convert_options.max_size / 64).saturating_add(64 << 20);
    let decoded = request.options.decoded.clone();
    stack::Options { budget, limit, on_boundary: Some(boundaries.note()), decoded }
}

/// Limits that a reader must enforce.
pub(super) fn limits(request: &Request) -> Limits {
    Limits { max_size: request.convert_options.max_size, ..Limits::default() }
}

/// True if a file of this format may pass unchanged.
fn may_keep(request: &Request, format: Format) -> bool {
    request.keep != Keep::No && !matches!(format, Format::Raw | Format::Iso)
}

/// Path of the disk in an archive. That in an image was looked up when the image was opened.
fn member(request: &Request) -> Option<&str> {
    request.options.image.path.as_deref().filter(|_| request.source.image().is_none())
}

fn looks_raw(request: &Request) -> bool {
    request.source_format == Some(Format::Raw)
}

/// Refuses a raw disk whose name promises another format, unless the user has said what it is.
fn refuse_named(
    request: &Request,
    format: Format,
    name: &str,
    (layers, undone): (&[filter::Layer], usize),
    member: Option<&str>,
) -> Result<()> {
    // A disk of an image is named by its image, or by its path in it, which its author has chosen.
    let is_named_by_author = request.source.image().is_some() || request.options.is_named_by_author;
    if format != Format::Raw || request.source_format.is_some() || is_named_by_author {
        return Ok(());
    }
    match filter::refuse_raw(name, layers, undone, member) {
        None => Ok(()),
        // The sentence names the member alone.
        Some(what) if layers.contains(&filter::Layer::Tar) => Err(Error::refused(what).nameless()),
        Some(what) => Err(Error::refused(what)),
    }
}

fn refuse_unreadable(name: &str, head: &[u8]) -> Result<()> {
    match filter::refused_layer(head) {
        Some(what) => Err(Error::refused(format!("{name}: {what}"))),
        None => Ok(()),
    }
}

fn head_of(bytes: &dyn ReadAt, name: &str) -> Result<Vec<u8>> {
    let len = bytes.size().min(Format::HEAD as u64) as usize;
    let mut head = vec![0; len];
    bytes
        .read_exact_at(&mut head, 0)
        .map_err(|e| Error::io(format!("cannot read the first bytes of {name}"), e))?;
    Ok(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::SourceFacts;

    /// A registry that may give other bytes each time.
    struct Given(SourceFacts, Vec<u8>);

    impl Source for Given {
        fn facts(&self) -> &SourceFacts {
            &self.0
        }
        fn read_at(&self) -> Option<Arc<dyn ReadAt>> {
            None
        }
        fn stream(&self, _: u64) -> Result<Box<dyn Read + Send>> {
            Ok(Box::new(std::io::Cursor::new(self.1.clone())))
        }
    }

    fn request() -> Request {
        let source = crate::source::SourceSpec::Stdin;
        let convert_options = plan::ConvertOptions::with_threads(1);
        Request::new(
            source,
            crate::target::Destination::Null,
            crate::source::Options::default(),
            convert_options,
        )
    }

    fn given(bytes: &[u8]) -> Arc<dyn Source> {
        let facts = SourceFacts {
            name: "docker://h/os:1".into(),
            size: None,
            seekable: false,
            remote: false,
            plain: false,
            reentry: true,
            identity: None,
        };
        Arc::new(Given(facts, bytes.to_vec()))
    }

    #[test]
    fn tables_that_are_asked_for_once_more_are_those_that_the_first_run_has_read() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|i| (i % 251) as u8).collect();
        let position = StreamPosition { front: 100_000, at: 150_000, pending: vec![] };
        let tables = Tables::new(position, digest_of(&bytes[..100_000]));
        let front = |source: &Arc<dyn Source>, tables: &Tables| front(&request(), source, None, tables);
        assert_eq!(front(&given(&bytes), &tables).unwrap(), &bytes[..100_000]);
        let mut behind = bytes.clone();
        behind[100_000] ^= 1;
        assert!(front(&given(&behind), &tables).is_ok(), "the rest is hashed where it is read");
        for at in [0, 50_000, 99_999] {
            let mut lied = bytes.clone();
            lied[at] ^= 1;
            let e = front(&given(&lied), &tables).unwrap_err();
            assert!(!e.may_go_on() && e.kind() == ErrorKind::Failed, "all is read anew: {e}");
            assert!(e.to_string().contains("not those that an earlier run has read"), "{e}");
        }
        assert!(front(&given(&bytes[..99_999]), &tables).is_err(), "fewer bytes");
        let long = Tables { front: u64::MAX, ..tables };
        assert!(front(&given(&bytes), &long).is_err(), "a journal that makes no sense");
    }
    /// A file that counts the bytes that are read of it.
    struct Counted(Vec<u8>, std::sync::atomic::AtomicU64);

    impl ReadAt for Counted {
        fn size(&self) -> u64 {
            self.0.len() as u64
        }
        fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<()> {
            self.1.fetch_add(buf.len() as u64, std::sync::atomic::Ordering::Relaxed);
            self.0.read_exact_at(buf, offset)
        }
    }

    struct Seekable(SourceFacts, Arc<Counted>);

    impl Source for Seekable {
        fn facts(&self) -> &SourceFacts {
            &self.0
        }
        fn read_at(&self) -> Option<Arc<dyn ReadAt>> {
            Some(self.1.clone())
        }
        fn stream(&self, _: u64) -> Result<Box<dyn Read + Send>> {
            Err(Error::failed("a stream would run ahead"))
        }
    }

    fn packed(layer: filter::Layer, bytes: &[u8]) -> Vec<u8> {
        use std::io::Write as _;
        match layer {
            filter::Layer::Zstd => zstd::encode_all(bytes, 1).unwrap(),
            filter::Layer::Gzip => {
                let mut gzip = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
                gzip.write_all(bytes).unwrap();
                gzip.finish().unwrap()
            }
            _ => {
                let mut xz = xz2::write::XzEncoder::new(vec![], 0);
                xz.write_all(bytes).unwrap();
                xz.finish().unwrap()
            }
        }
    }

    #[test]
    fn tables_in_a_compressed_stream_are_read_once_more_and_little_behind_them() {
        let mut dice = 7_u64;
        let mut noise = || {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (dice >> 56) as u8
        };
        let bytes: Vec<u8> = (0..12 << 20).map(|_| noise()).collect();
        let position = StreamPosition { front: 300_000, at: 1 << 20, pending: vec![] };
        let tables = Tables::new(position, digest_of(&bytes[..300_000]));
        for layer in [filter::Layer::Gzip, filter::Layer::Xz, filter::Layer::Zstd] {
            let read = |file: Vec<u8>| {
                let counted = Arc::new(Counted(file, Default::default()));
                let facts = given(&[]).facts().clone();
                let source: Arc<dyn Source> = Arc::new(Seekable(facts, counted.clone()));
                let read = front(&request(), &source, Some(layer), &tables);
                (read, counted.1.load(std::sync::atomic::Ordering::Relaxed))
            };
            let file = packed(layer, &bytes);
            let (same, cost) = read(file.clone());
            assert_eq!(same.unwrap(), &bytes[..300_000], "{layer}");
            assert!(cost < 4 << 20, "{layer}: {cost} bytes were read");
            let mut lied = file.clone();
            lied[100_000] ^= 1;
            for other in [lied, file[..100_000].to_vec(), packed(layer, &bytes[1..])] {
                let e = read(other).0.unwrap_err();
                assert!(!e.may_go_on() && e.kind() == ErrorKind::Failed, "{layer}: {e}");
                assert!(e.to_string().contains("not those that an earlier run has read"), "{layer}: {e}");
            }
        }
    }
}
