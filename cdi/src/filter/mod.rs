//! Filters between a source's bytes and the disk image: compressions and archives. Each is a `Read → Read` in
//! its own file, with a memory bound.
//!
//! ```text
//!  source ─► verify ─► progress ─► [ layer ─► limit ]* ─► the disk image's bytes
//!                                    │
//!            detect(head) names it, need(head) gives its memory, open() decodes it; stack repeats this until no layer is left
//! ```
//!
//! | layer | file | size | zeros | memory | threads | can be entered at |
//! |---|---|---|---|---|---|---|
//! | gzip | `gzip/` | grows, up to 1032 × | as stored | 32 KiB | one | each member, and in long ones every few MiB |
//! | xz | `xz/` | grows, up to 7090 × | as stored | dictionary, for each block in flight | one per block | each block, each stream |
//! | zstd | `zstd/` | grows, up to 2¹⁵ × | as stored | window, for each frame in flight | one per frame | each frame |
//! | tar | `tar/` | one file of it; sparse ones grow | holes are skipped, or become zeros | none | none | nowhere |
//! | none | `plain.rs` | unchanged | as stored | none | none | anywhere |
//!
//! | helper | file | purpose |
//! |---|---|---|
//! | stack | `stack.rs` | removes layers by detection, at most [`stack::DEPTH`] |
//! | lanes | `lanes/` | independent units decoded in parallel, passed on in order, under one memory bound |
//! | read_ahead | `read_ahead.rs` | runs a reader on its own thread with bounded, recycled buffers |
//! | limit | `limit.rs` | ends a decompression bomb |
//! | holes | `holes.rs` | readers that can skip zeros |
//! | validating_reader | `validating_reader.rs` | checks an image file that goes through as it is |
//! | verify | `verify.rs` | compares the digest of all bytes at the end |
//! | progress | `progress.rs` | counts bytes for other threads |
//!
//! Every decoder guarantees: a read of 0 bytes means that the input was complete and every checksum in it was
//! right. Input that is broken or cut short is a `Refused` error with the layer and the offset in its bytes.
//! Memory stays under the budget: first fewer units are decoded in parallel, then the input is refused with
//! the memory that it needs.
//!
//! `convert::facts` puts the filters on a source while it inspects it. The module opens no file and does not
//! know the target.

pub mod detect;
mod gzip;
pub mod holes;
mod lanes;
pub mod limit;
mod marks;
mod name_check;
pub(crate) mod plain;
pub mod progress;
pub mod read_ahead;
pub mod stack;
mod state;
mod tar;
pub(crate) mod unpacking;
pub(crate) mod validating_reader;
pub mod verify;
mod xz;
mod zstd;

pub(crate) use detect::mistaken_for;
pub use detect::{detect, refused_layer};
pub use name_check::refuse_raw;
pub(crate) use tar::looks_like_tar;

use crate::{Detail, Error, Result};
use holes::HoleRead;
use std::fmt;
use std::io::{self, Read};
use std::sync::{Arc, OnceLock};

/// A layer around the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// RFC 1952, all members.
    Gzip,
    /// The .xz container, all streams, blocks in parallel.
    Xz,
    /// RFC 8878, all frames; skippable ones too.
    Zstd,
    /// An archive with one disk in it.
    Tar,
}

impl Layer {
    /// The usual name of the format.
    pub fn name(self) -> &'static str {
        match self {
            Layer::Gzip => "gzip",
            Layer::Xz => "xz",
            Layer::Zstd => "zstd",
            Layer::Tar => "tar",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A position where a compressed stream can be entered again: everything before it has been decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Boundary {
    /// Offset in the compressed bytes.
    pub input: u64,
    /// Offset in the decoded bytes.
    pub output: u64,
    /// State of the decoder (for xz: the stream header and the sums for the index; for gzip inside a member: the
    /// last 32 KiB). Opaque.
    #[serde(with = "state")]
    pub state: Vec<u8>,
}

/// Most bytes of states that are kept in memory for a journal.
pub(crate) const STATES: usize = 1 << 20;

/// A callback for each boundary that the decoder has passed (its output up to there has been returned).
pub type OnBoundary = Arc<dyn Fn(Boundary) + Send + Sync>;

/// Memory that the decoder of a layer needs, read from the first bytes of the layer: the least, and the amount per thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Least memory for decoding in bytes (xz dictionary, zstd window).
    pub least: u64,
    /// Bytes that each further block in parallel adds; 0 if the layer cannot be decoded in parallel.
    pub per_thread: u64,
}

impl Need {
    /// The memory that the layer can use, if the bound allows it: one unit more than there are threads, since
    /// one waits to be read while all work, and no less than 96 MiB.
    pub fn wanted(&self, threads: usize) -> u64 {
        if self.per_thread == 0 {
            return self.least;
        }
        let units = self.per_thread.saturating_mul(threads as u64 + 1);
        self.least.saturating_add(units.max(AHEAD))
    }
}

/// Bytes by which parallel decoding may run ahead. Measured with blocks of 3 MiB: with half of it, decoders
/// waited for a target that takes its bytes in bursts, and the whole was slower by two thirds; with twice as
/// much it was no faster.
const AHEAD: u64 = 96 << 20;

/// The resources of a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The most units decoded at the same time; 0 counts as 1.
    pub threads: usize,
    /// Bytes for everything the decoder holds: dictionaries, windows, buffers.
    pub memory: u64,
    /// Memory that `--memory` covers besides `memory`; used to compute the value that an error recommends.
    pub beside: u64,
}

/// The needs of the layer that begins with `head`. [`HEAD`] bytes of it are always enough. A head that is too
/// short is refused, since the input ends inside its first header.
pub fn need(layer: Layer, head: &[u8]) -> Result<Need> {
    match layer {
        Layer::Gzip => Ok(gzip::NEED),
        Layer::Xz => xz::need(head),
        Layer::Zstd => zstd::need(head),
        Layer::Tar => Ok(Need { least: 0, per_thread: 0 }),
    }
}

/// Bytes from the front that suffice to detect the layer and its needs, and later the disk's format.
pub const HEAD: usize = disk_format::Format::HEAD;

/// Decodes one layer.
///
/// With `from`, `input` is already at `from.input` and decoding enters there; the first byte that comes out
/// is the one at `from.output`. Boundaries are reported in order, each from inside a `read` of the returned
/// reader and only when every byte before it has been returned by an earlier `read`.
///
/// gzip, xz and zstd decode on their own threads, which end by themselves once the reader is dropped. Tar
/// decodes inside `read`.
pub fn open(
    layer: Layer,
    input: Box<dyn Read + Send>,
    budget: Budget,
    from: Option<Boundary>,
    on_boundary: Option<OnBoundary>,
) -> Result<Box<dyn Read + Send>> {
    Ok(open_growing(layer, input, StagedBudget { budget, at_first: budget.memory }, from, on_boundary)?
        .reader)
}

/// The disk in an archive, or the file of this path. `found` receives the path of the disk, unless it has one.
pub(crate) fn open_archive(
    input: Box<dyn Read + Send>,
    path: Option<&str>,
    found: &Arc<OnceLock<String>>,
) -> Box<dyn HoleRead + Send> {
    let tar = match path {
        Some(path) => tar::Tar::member(input, path),
        None => tar::Tar::new(input),
    };
    Box::new(tar.telling(found.clone()))
}

/// Error for a path in an archive, where the source is not an archive.
pub(crate) fn no_archive(name: &str, path: &str) -> Error {
    let what = format!("{name} is not an archive, in which {path:?} could be a disk; leave out --path");
    Error::new(crate::ErrorKind::Usage, what)
}

/// A budget of which only a part is free at first.
#[derive(Clone, Copy)]
struct StagedBudget {
    budget: Budget,
    /// The bound on memory until [`Opened::allow`] raises it.
    at_first: u64,
}

/// A decoder whose memory bound may be raised later.
struct Opened {
    reader: Box<dyn HoleRead + Send>,
    /// Sets the bound; `None` if the decoder cannot use more.
    allow: Option<Box<dyn Fn(u64) + Send>>,
}

fn open_growing(
    layer: Layer,
    input: Box<dyn Read + Send>,
    room: StagedBudget,
    from: Option<Boundary>,
    on_boundary: Option<OnBoundary>,
) -> Result<Opened> {
    let from = from.unwrap_or_default();
    match layer {
        Layer::Gzip => gzip::open(input, room.budget, &from, on_boundary),
        Layer::Xz => xz::open(input, room, &from, on_boundary),
        Layer::Zstd => zstd::open(input, room, &from, on_boundary),
        Layer::Tar if from.input != 0 => {
            Err(Error::failed("tar: an archive cannot be entered in its middle"))
        }
        Layer::Tar => Ok(Opened { reader: Box::new(tar::Tar::new(input)), allow: None }),
    }
}

/// The error for invalid input, with the offset in the layer's own bytes.
fn refused(layer: Layer, at: u64, what: impl fmt::Display) -> io::Error {
    refusal(layer, at, what).into()
}

fn refusal(layer: Layer, at: u64, what: impl fmt::Display) -> Error {
    let of = if layer == Layer::Tar { "the archive" } else { "the compressed bytes" };
    Error::of_bytes(format!("{layer}: {what} (at offset {at} of {of})"))
}

/// The error for a state of the decoder, as a journal has it, that cannot be read.
fn unreadable_notes(layer: Layer, from: &Boundary) -> Error {
    let at = from.input;
    Error::refused(format!(
        "{layer}: the journal's notes for entering at offset {at} cannot be read; --no-resume begins anew"
    ))
}

/// The error for input that ends too early.
fn truncated(layer: Layer, at: u64, inside: impl fmt::Display) -> io::Error {
    refused(layer, at, format_args!("the input ends inside {inside}; it is truncated"))
}

/// The error for a unit that needs more than the budget.
fn too_much_memory(layer: Layer, at: u64, what: &str, need: u64, budget: Budget) -> io::Error {
    let allow = need.saturating_add(budget.beside).div_ceil(1 << 20);
    let what = format!(
        "this {layer} needs {} MiB for its {what}; allow it with --memory {allow}M",
        need.div_ceil(1 << 20)
    );
    refusal(layer, at, what).with_detail(Detail::Memory(allow.saturating_mul(1 << 20))).into()
}
