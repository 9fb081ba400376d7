//! Facts → [`Plan`]: how the bytes will flow, what memory and extra disk they can need, and why. Pure: no
//! I/O, no clock. [`crate::convert`] gathers the facts and carries out the plan; all choices are made here.
//!
//! A plan takes the opened source ([`SourceAccess`]) and keeps it in its [`Flow`]. So it can only be carried out with
//! that source, read as planned. `S` is a source read by offset, `T` one read in order. The plan looks at
//! neither, and tests use `()`.
//!
//! | source | layers | needs all bytes in order | target | flow |
//! |---|---|---|---|---|
//! | seekable | none | no | any order | [`Flow::Tables`] |
//! | seekable | none | no | guest order | [`Flow::TablesInOrder`] |
//! | anything else | | | any order | [`Flow::Stream`] |
//! | anything else, raw, size not needed | | | guest order | [`Flow::StreamInOrder`] |
//! | anything else | | | guest order | [`Flow::SpoolThenOrder`] |

use crate::filter::Layer;
use crate::journal::Mode;
use crate::run::two_passes;
use crate::size::human;
use crate::source;
use crate::target::Destination;
use crate::{Detail, Error, ErrorKind, Result};
use disk_format::validate::Validator;
use disk_format::{Codec, Format};

mod facts;
mod options;

pub use facts::{Facts, KeptImage};
pub use options::ConvertOptions;

/// The format that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The guest's bytes without a header.
    Raw,
    /// A qcow2 image of version 3.
    Qcow2 {
        /// Size of a cluster as a power of two.
        cluster_bits: u32,
        /// Compression and its level.
        compress: Option<(Codec, u8)>,
    },
}

/// The way in which a source was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceAccess<S = (), T = ()> {
    /// The source is read by offset.
    Seek(S),
    /// The source is read in order.
    Stream(T),
}

/// The way of the bytes, with the source that they flow from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow<S = (), T = ()> {
    /// The image's tables first, then its data in file order, each byte written where it belongs.
    Tables(S),
    /// The image's tables first, then its data in the guest's order, since the target is written front to back.
    TablesInOrder(S),
    /// Converted while it arrives.
    Stream(T),
    /// Converted while it arrives, already in the guest's order.
    StreamInOrder(T),
    /// The disk is assembled in a spool, then written front to back.
    SpoolThenOrder(T),
}

impl<S, T> Flow<S, T> {
    /// The flow without its source.
    pub fn kind(&self) -> Flow {
        match self {
            Flow::Tables(_) => Flow::Tables(()),
            Flow::TablesInOrder(_) => Flow::TablesInOrder(()),
            Flow::Stream(_) => Flow::Stream(()),
            Flow::StreamInOrder(_) => Flow::StreamInOrder(()),
            Flow::SpoolThenOrder(_) => Flow::SpoolThenOrder(()),
        }
    }

    /// A word for logs, journals and JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Flow::Tables(_) => "tables",
            Flow::TablesInOrder(_) => "tables-in-order",
            Flow::Stream(_) => "stream",
            Flow::StreamInOrder(_) => "stream-in-order",
            Flow::SpoolThenOrder(_) => "spool-then-order",
        }
    }

    /// True if the source is read by offset.
    pub fn seeks(&self) -> bool {
        matches!(self, Flow::Tables(_) | Flow::TablesInOrder(_))
    }

    /// True if the target is written front to back.
    pub fn in_order(&self) -> bool {
        matches!(self, Flow::TablesInOrder(_) | Flow::StreamInOrder(_))
    }
}

/// The way to continue a run that was cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumeCommand {
    SameCommand,
    /// The same command with `--resume`, and why the user must say so.
    WithResume(&'static str),
}

/// Every decision of a conversion, and the facts that it follows from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan<S = (), T = ()> {
    pub facts: Facts,
    pub flow: Flow<S, T>,
    /// The size of the written disk, if known before it is read.
    pub size: Option<u64>,
    /// Threads that decode and write.
    pub workers: usize,
    /// Requests in flight; 0 for local sources.
    pub readers: usize,
    /// The number of buffers.
    pub buffers: usize,
    /// Bytes of one read.
    pub piece: u64,
    /// Ranges this close are read as one.
    pub gap: u64,
    /// Memory by purpose, and how much at most.
    pub memory: Vec<(&'static str, u64)>,
    /// The most a spool beside the target can hold; `None` without a spool.
    pub spool: Option<u64>,
    /// The way to continue a run that is cut short, or why that is impossible.
    pub resume: std::result::Result<ResumeCommand, &'static str>,
    /// The reasons for the decisions, as sentences.
    pub reasons: Vec<String>,
}

/// Bytes of the program itself and its stacks, for the account: 9 MiB in a release build, 14 in a build for
/// tests.
const PROGRAM: u64 = 14 << 20;
const TABLES: u64 = 8 << 20;
/// Disks consist of whole sectors.
const SECTOR: u64 = 512;

/// Makes the plan for an opened source. The error states what is missing.
pub fn plan<S, T>(
    facts: Facts,
    access: SourceAccess<S, T>,
    convert_options: &ConvertOptions,
) -> Result<Plan<S, T>> {
    let flow = flow(&facts, access);
    let kind = flow.kind();
    let size = size(&facts, convert_options)?;
    let resources = resources(&facts, convert_options, kind)?;
    let mut reasons = vec![why(kind, &facts, convert_options)];
    let spool = spool(&facts, convert_options, kind);
    match (kind, spool) {
        (Flow::SpoolThenOrder(()), Some(most)) => {
            reasons.push(format!("the whole disk waits in a spool, at most {}", human(most)));
        }
        (_, Some(most)) if layer_waits(&facts, kind) => reasons.push(format!(
            "a layer begins with the size of its file, which is known only at the end of this source: it waits in a spool in \
             the store's folder, at most {}",
            human(most)
        )),
        (_, Some(most)) => {
            let place = match facts.target {
                Destination::Device(_) => "among the temporary files",
                _ => "beside the target",
            };
            reasons.push(format!(
                "clusters that arrive before their table wait in a spool {place}: usually none, at most {}",
                human(most)
            ));
        }
        _ => {}
    }
    if reads_twice(&facts, kind) {
        let why = "the disk is read twice: first to find its zeros, by which all tables are known; nothing waits in a spool";
        reasons.push(why.to_owned());
    }
    reasons.extend(facts.leftover_warning());
    if let (Some(bytes), Some(size), None, 0) =
        (facts.virtual_size, size, convert_options.resize, convert_options.growth)
        && size > bytes
    {
        reasons.push(format!(
            "the disk has {bytes} bytes, and disks are of whole sectors: {} zeros follow, as QEMU reads it",
            size - bytes
        ));
    }
    let resume = resume(&facts, convert_options, kind);
    Ok(Plan {
        gap: if facts.source.remote { 256 << 10 } else { 64 << 10 },
        facts,
        flow,
        size,
        workers: resources.workers,
        readers: resources.readers,
        buffers: resources.buffers,
        piece: resources.piece,
        memory: resources.account,
        spool,
        resume,
        reasons,
    })
}

/// True if a source that has no layers may be read by offset.
pub(crate) fn may_seek(source: &source::SourceFacts, convert_options: &ConvertOptions) -> bool {
    source.seekable && convert_options.checksum.is_none()
}

/// True if a source that cannot seek may be entered again; a checksum needs all its bytes.
pub(crate) fn may_reenter(source: &source::SourceFacts, convert_options: &ConvertOptions) -> bool {
    source.reentry && convert_options.checksum.is_none()
}

fn flow<S, T>(facts: &Facts, access: SourceAccess<S, T>) -> Flow<S, T> {
    let raw = matches!(facts.format, Format::Raw | Format::Iso);
    let front_to_back =
        matches!(facts.target, Destination::Stdout | Destination::Image(_)) || facts.output != Output::Raw;
    let needs_size = facts.output != Output::Raw && facts.virtual_size.is_none();
    match (access, front_to_back) {
        (SourceAccess::Seek(seek), false) => Flow::Tables(seek),
        (SourceAccess::Seek(seek), true) => Flow::TablesInOrder(seek),
        (SourceAccess::Stream(stream), false) => Flow::Stream(stream),
        (SourceAccess::Stream(stream), true) if raw && !needs_size => Flow::StreamInOrder(stream),
        (SourceAccess::Stream(stream), true) => Flow::SpoolThenOrder(stream),
    }
}

fn why(flow: Flow, facts: &Facts, convert_options: &ConvertOptions) -> String {
    let streamed = || match () {
        () if !facts.layers.is_empty() => "the disk is inside a compressed stream",
        () if convert_options.checksum.is_some() => "the checksum is of all bytes in order",
        () => "the source cannot be read by offset",
    };
    match flow {
        Flow::Tables(()) => "the source can be read by offset: its tables first, then each byte once, straight to its place".into(),
        Flow::TablesInOrder(()) => "the source can be read by offset: its tables first, then its data front to back, as the target wants it".into(),
        Flow::Stream(()) => format!("{}: it is converted while it arrives", streamed()),
        Flow::StreamInOrder(()) => format!("{}: it is converted while it arrives, front to back", streamed()),
        Flow::SpoolThenOrder(()) => format!(
            "{}, and the target is written front to back: the disk is put together first, then written",
            streamed()
        ),
    }
}

/// True if a transfer that was cut short would give a shorter disk without an error: a raw disk outside an
/// archive and without a checksum, whose source does not mark its end. Members of a gzip, frames of zstd and
/// streams of xz follow one another, so a cut between two of them leaves a valid file.
pub(crate) fn has_unknown_length(
    facts: &Facts,
    convert_options: &ConvertOptions,
    marks_its_end: bool,
) -> bool {
    let is_raw = matches!(facts.format, Format::Raw | Format::Iso) && facts.kept.is_none();
    let is_archived = facts.layers.iter().any(|&(layer, _)| layer == Layer::Tar);
    is_raw && !is_archived && !marks_its_end && convert_options.checksum.is_none()
}

/// The size of a disk of these bytes: whole sectors, as QEMU reads a raw file. An image file that is kept as
/// it is keeps its size, and so does a file beside the disk.
pub(crate) fn in_sectors(facts: &Facts, bytes: u64) -> Result<u64> {
    if facts.kept.is_some() || facts.source.plain {
        return Ok(bytes);
    }
    let whole = bytes.checked_next_multiple_of(SECTOR);
    whole.ok_or_else(|| Error::refused(format!("{}: no disk has {bytes} bytes", facts.source.name)))
}

/// The size of the target, checked against every bound that is known now.
fn size(facts: &Facts, convert_options: &ConvertOptions) -> Result<Option<u64>> {
    let name = &facts.source.name;
    match (facts.virtual_size, facts.format) {
        (Some(0), Format::Raw) => return Err(empty(name)),
        (Some(0), _) => return Err(Error::refused(format!("{name}: by its header the disk has 0 bytes"))),
        _ => {}
    }
    let disk = facts.virtual_size.map(|bytes| in_sectors(facts, bytes)).transpose()?;
    if let Some(disk) = disk.filter(|&d| d > convert_options.max_size) {
        let (size, max) = (human(disk), human(convert_options.max_size));
        return Err(Error::refused(format!(
            "{name}: the disk is {size}, more than the limit of {max}; allow it with --max-size {disk}"
        )));
    }
    let size = match disk {
        Some(disk) => Some(target_size(facts, convert_options, disk)?),
        None => convert_options.resize.map(|wish| in_sectors(facts, wish)).transpose()?,
    };
    if let (Some(room), Some(size), Output::Raw) = (facts.room, size, facts.output)
        && size > room
    {
        let device = &facts.target;
        let what = format!("{device} is too small: the disk has {size} bytes, the device {room}");
        return Err(Error::refused(what).with_detail(Detail::TooLarge { disk: size, room }));
    }
    Ok(size)
}

/// The size of the target for a disk of so many bytes: whole sectors, and no less than requested. The growth is that of the whole
/// sectors, as QEMU counts it.
pub(crate) fn target_size(facts: &Facts, convert_options: &ConvertOptions, bytes: u64) -> Result<u64> {
    let disk = in_sectors(facts, bytes)?;
    if let Some(wish) = convert_options.resize {
        let size = in_sectors(facts, wish)?;
        if size < disk {
            let (wished, hint) = (human(wish), "shrink the file systems and the disk inside a guest first");
            let sentence = format!("--resize {wished} is smaller than the disk ({disk} bytes); {hint}");
            let detail = Detail::TooLarge { disk, room: wish };
            return Err(Error::new(ErrorKind::Usage, sentence).with_detail(detail));
        }
        return Ok(size);
    }
    let too_large = || {
        let growth = human(convert_options.growth);
        Error::new(ErrorKind::Usage, format!("--resize +{growth}: no disk is so large"))
    };
    in_sectors(facts, disk.checked_add(convert_options.growth).ok_or_else(too_large)?)
}

/// The refusal of a source without a byte: the program that should send it has failed, and an empty file
/// would look like a disk.
pub fn empty(name: &str) -> Error {
    Error::refused(format!(
        "{name} is empty: there is no disk in it; check the program or the server that it comes from"
    ))
}

struct Resources {
    workers: usize,
    readers: usize,
    buffers: usize,
    piece: u64,
    account: Vec<(&'static str, u64)>,
}

/// Divides the memory bound: as many workers as fit, and the rest for the layers.
fn resources(facts: &Facts, convert_options: &ConvertOptions, flow: Flow) -> Result<Resources> {
    let least: u64 = facts.layers.iter().map(|(_, need)| need.least).sum();
    let mut workers = convert_options.threads.max(1);
    loop {
        let (readers, buffers, piece, account) = buffers(facts, convert_options, flow, workers);
        let own: u64 = account.iter().map(|(_, bytes)| bytes).sum();
        if own + least <= convert_options.memory {
            let layers = convert_options.memory - own;
            let wanted: u64 = facts.layers.iter().map(|(_, n)| n.wanted(convert_options.threads)).sum();
            let mut account = account;
            if !facts.layers.is_empty() {
                account.push(("decompression", wanted.min(layers)));
            }
            return Ok(Resources { workers, readers, buffers, piece, account });
        }
        if workers == 1 {
            let need = own + least;
            let what = match facts.layers.iter().max_by_key(|(_, n)| n.least) {
                Some((layer, n)) if n.least > 8 << 20 => {
                    format!("{} of it for the {} dictionary or window", human(n.least), layer.name())
                }
                _ => "for its buffers".into(),
            };
            let allow = need.div_ceil(1 << 20);
            let sentence = format!(
                "{}: this needs {} of memory ({what}), the bound is {}; allow it with --memory {allow}M",
                facts.source.name,
                human(need),
                human(convert_options.memory),
            );
            return Err(Error::refused(sentence).with_detail(Detail::Memory(allow.saturating_mul(1 << 20))));
        }
        workers /= 2;
    }
}

type Buffers = (usize, usize, u64, Vec<(&'static str, u64)>);

fn buffers(facts: &Facts, convert_options: &ConvertOptions, flow: Flow, workers: usize) -> Buffers {
    let remote = facts.source.remote && flow.seeks();
    // In order, received bytes wait twice: for their turn to be packed and for their turn to be written.
    let most = if flow.in_order() { 3 } else { usize::MAX };
    let readers = if remote { convert_options.connections.clamp(1, most) } else { 0 };
    let piece: u64 = match flow {
        Flow::Tables(()) if remote => 2 << 20,
        Flow::TablesInOrder(()) | Flow::StreamInOrder(()) => 2 << 20,
        _ => 1 << 20,
    };
    let buffers = readers + 2 * workers + 1;
    let mut account =
        vec![("program", PROGRAM), ("buffers", buffers as u64 * piece), ("workers", workers as u64 * piece)];
    account.extend(convert_options.beside.iter().filter(|(_, bytes)| *bytes > 0));
    if facts.format == Format::Qcow2 {
        account.push(("tables", TABLES));
    }
    if reads_twice(facts, flow) {
        account.push(("tables of the qcow2", two_passes::LARGEST));
    }
    if facts.kept.is_some() && !flow.seeks() {
        account.push(("checking the image", Validator::MEMORY));
    }
    if flow.in_order() || flow == Flow::SpoolThenOrder(()) {
        account.push(("ordering", buffers as u64 * piece));
    }
    if let Output::Qcow2 { compress: Some((codec, level)), .. } = facts.output {
        let each = if codec == Codec::Zstd && level > 12 { 32 << 20 } else { 2 << 20 };
        account.push(("compression", workers as u64 * each));
    }
    if facts.source.remote && !flow.seeks() {
        account.push(("requests in flight", 24 << 20));
    }
    (readers, buffers, piece, account)
}

fn spool(facts: &Facts, convert_options: &ConvertOptions, flow: Flow) -> Option<u64> {
    let disk = facts.virtual_size.unwrap_or(convert_options.max_size);
    // Data and tables of an image. One with deleted snapshots can be larger, and then fails with a message about that.
    let image = disk.saturating_add(disk / 64).saturating_add(64 << 20);
    match flow {
        Flow::Stream(()) | Flow::SpoolThenOrder(()) if facts.format == Format::Qcow2 => Some(image),
        Flow::SpoolThenOrder(()) => Some(disk),
        _ if layer_waits(facts, flow) => Some(image),
        _ => None,
    }
}

/// True if the file of a layer waits until it is complete, since its size is known only then.
fn layer_waits(facts: &Facts, flow: Flow) -> bool {
    matches!(facts.target, Destination::Image(_))
        && (facts.output != Output::Raw || facts.virtual_size.is_none())
        && !reads_twice(facts, flow)
}

/// True if a first reading finds all tables of the qcow2 in a layer: a local disk whose clusters are not
/// compressed.
pub(crate) fn reads_twice(facts: &Facts, flow: Flow) -> bool {
    let is_plain_qcow2 = matches!(facts.output, Output::Qcow2 { compress: None, .. });
    let is_layer = matches!(facts.target, Destination::Image(_));
    flow == Flow::TablesInOrder(()) && is_plain_qcow2 && is_layer && !facts.source.remote
}

fn resume(
    facts: &Facts,
    convert_options: &ConvertOptions,
    flow: Flow,
) -> std::result::Result<ResumeCommand, &'static str> {
    check_resumable(facts, convert_options, flow)?;
    match &facts.source.identity {
        // All bytes are hashed, those of the earlier run by the hash state that it left.
        _ if convert_options.checksum.is_some() => Ok(ResumeCommand::SameCommand),
        Some(identity) if identity.is_proof() => Ok(ResumeCommand::SameCommand),
        Some(_) => Ok(ResumeCommand::WithResume(
            "the web server gives no strong ETag, so nothing proves that the source is unchanged",
        )),
        None => Err("nothing shows later that the source is still the same"),
    }
}

/// True if a later run can begin in the middle.
fn check_resumable(
    facts: &Facts,
    convert_options: &ConvertOptions,
    flow: Flow,
) -> std::result::Result<(), &'static str> {
    match facts.target {
        Destination::File(_) => {}
        Destination::Device(_) if convert_options.journals.is_some() => {}
        _ => return Err("only a file target keeps a journal"),
    }
    if convert_options.resume == Mode::Never {
        return Err("--no-resume was given");
    }
    let is_in_layer =
        may_reenter(&facts.source, convert_options) && facts.layers.is_empty() && facts.kept.is_none();
    match flow {
        Flow::Tables(()) => Ok(()),
        Flow::Stream(()) if facts.source.reentry && !facts.layers.is_empty() => {
            Err("the disk in the layer is compressed itself")
        }
        Flow::Stream(()) if !facts.source.seekable && !is_in_layer => {
            Err("the source cannot be entered again in the middle")
        }
        Flow::Stream(()) if convert_options.verify => {
            Err("--verify of a stream compares all of it, from the first byte")
        }
        Flow::Stream(()) if facts.kept.is_some() => {
            Err("an image file that is kept as it is is checked from its first byte on")
        }
        Flow::Stream(()) if facts.layers.len() > 1 => {
            Err("only one layer of compression can be entered again")
        }
        Flow::Stream(()) if facts.layers.iter().any(|(l, _)| *l == Layer::Tar) => {
            Err("an archive cannot be entered again in the middle")
        }
        Flow::Stream(()) => Ok(()),
        Flow::TablesInOrder(()) | Flow::StreamInOrder(()) | Flow::SpoolThenOrder(()) => {
            Err("a target that is written front to back cannot be resumed; a later run begins anew")
        }
    }
}

impl<S, T> Plan<S, T> {
    /// The bound on memory: the sum of the account.
    pub fn memory_total(&self) -> u64 {
        self.memory.iter().map(|(_, bytes)| bytes).sum()
    }

    /// A text that must be equal for an earlier run to be continued.
    pub fn fingerprint(&self) -> String {
        format!(
            "{} {} {:?} {:?} piece={} gap={} tables={TABLES} layers={:?}",
            self.flow.name(),
            self.facts.format,
            self.size,
            self.facts.output,
            self.piece,
            self.gap,
            self.facts.layers.iter().map(|(l, _)| *l).collect::<Vec<_>>()
        )
    }

    /// Places at which a later run enters the compressed stream again, as a sentence. `None` for a source that it enters
    /// anywhere, or not at all.
    pub(crate) fn entry(&self) -> Option<&'static str> {
        match self.facts.layers[..] {
            _ if self.resume.is_err() => None,
            [(Layer::Gzip, _)] => {
                Some("a gzip is entered again at the end of a deflate block, some MiB apart")
            }
            [(Layer::Xz, _)] => Some(
                "an xz is entered again at the start of a block, and `xz -T1` makes one block of a whole file",
            ),
            [(Layer::Zstd, _)] => Some(
                "a zstd is entered again at the start of a frame, and `zstd` makes one frame of a whole file",
            ),
            _ => None,
        }
    }

    /// Splits the plan into the flow, which is carried out, and the rest, which is still read meanwhile.
    pub(crate) fn begin(self) -> (Flow<S, T>, Plan) {
        let Plan { facts, flow, size, workers, readers, buffers, piece, gap, memory, spool, resume, reasons } =
            self;
        let kind = flow.kind();
        let rest = Plan {
            facts,
            flow: kind,
            size,
            workers,
            readers,
            buffers,
            piece,
            gap,
            memory,
            spool,
            resume,
            reasons,
        };
        (flow, rest)
    }
}

#[cfg(test)]
mod tests;
