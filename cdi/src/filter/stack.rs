//! Removal of layer after layer, until none is left: `disk.tar.gz`, `disk.qcow2.xz`, `disk.img.tar.zst`.
//!
//! Threads: gzip, xz and zstd have their own. If the outermost layer is gzip, tar or none, the source is read
//! ahead on one more thread, so that fetching and hashing overlap with the rest.
//!
//! Memory: each layer first gets its least need. When all layers are known, the parallel ones get the rest of
//! the budget, as far as they can use it.

use super::holes::{Dense, HoleRead};
use super::limit::{self, Limited};
use super::read_ahead::{ReadAhead, Shape};
use super::{Boundary, Budget, HEAD, Layer, Need, OnBoundary, Opened, StagedBudget};
use super::{detect, need, open_archive, open_growing, refused_layer};
use crate::{Error, Result};
use fetch::Decoded;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The most layers around a disk.
pub const DEPTH: usize = 4;
/// The most bytes of holes in a compressed file of an archive: no compressor writes any, and a decoder reads
/// them zero by zero.
const PACKED_HOLES: u64 = 64 << 20;

/// Options for the removal of layers.
#[derive(Clone)]
pub struct Options {
    /// Budget for all layers together.
    pub budget: Budget,
    /// Limit of the output of each layer, in bytes.
    pub limit: u64,
    /// Callback for boundaries; called for a single layer only, because an inner one could not be entered in
    /// its middle.
    pub on_boundary: Option<OnBoundary>,
    /// Counts the output of decompression.
    pub decoded: Decoded,
}

/// The layers of compression and archives around a disk, and a reader of the disk inside them.
pub struct Stack {
    /// Layers from the outermost to the innermost.
    pub layers: Vec<Layer>,
    /// Needs of each layer.
    pub needs: Vec<Need>,
    /// Path of the disk in the outermost archive, unless it was named.
    pub member: Option<String>,
    /// The bytes inside. Their head can be inspected before they are read.
    pub reader: Peeked,
}

/// Removes the layers of `input`, which is at the beginning of the source.
pub fn stack(input: Box<dyn Read + Send>, options: &Options) -> Result<Stack> {
    readable(peel(input, options, |head, _| detect(head), None)?)
}

/// Removes the layers of `input` as [`stack`] does. The disk is the file `path` of the outermost archive. A disk that
/// `is_raw` by the word of its user is not looked into: its guest may have written what looks like a layer.
pub(crate) fn stack_of_member(
    input: Box<dyn Read + Send>,
    options: &Options,
    path: Option<&str>,
    is_raw: bool,
) -> Result<Stack> {
    let is_disk = |layers: &[Layer]| is_raw && (path.is_none() || layers.contains(&Layer::Tar));
    let stack = peel(input, options, |head, layers| detect(head).filter(|_| !is_disk(layers)), path)?;
    if is_raw { Ok(stack) } else { readable(stack) }
}

/// As [`stack`], for an archive that is kept as it is: only compressions are removed.
pub fn stack_of_archive(input: Box<dyn Read + Send>, options: &Options) -> Result<Stack> {
    readable(peel(input, options, |head, _| detect(head).filter(|&layer| layer != Layer::Tar), None)?)
}

/// Refuses a disk in a compression or an archive that is recognised and not read.
fn readable(stack: Stack) -> Result<Stack> {
    match refused_layer(stack.reader.head()) {
        Some(what) => Err(Error::of_bytes(what)),
        None => Ok(stack),
    }
}

fn peel(
    input: Box<dyn Read + Send>,
    options: &Options,
    next_layer: impl Fn(&[u8], &[Layer]) -> Option<Layer>,
    mut path: Option<&str>,
) -> Result<Stack> {
    let mut reader = Peeked::new(Box::new(Dense(input)), HEAD)?;
    let (mut layers, mut needs, mut growing) = (Vec::new(), Vec::new(), Vec::new());
    let mut budget = options.budget;
    let (sole, member) = (Arc::new(AtomicBool::new(false)), Arc::new(OnceLock::new()));
    let on_boundary = options.on_boundary.clone().map(|f| only_if(&sole, f));
    let mut next = next_layer(reader.head(), &layers);
    if !matches!(next, Some(Layer::Xz | Layer::Zstd)) {
        spend(&mut budget, Shape::DEFAULT.memory());
        reader = Peeked::new(Box::new(ReadAhead::new("source", reader, Shape::DEFAULT)?), HEAD)?;
    }
    while let Some(layer) = next {
        if layers.len() == DEPTH {
            let what = format!(
                "the disk is wrapped in more than {DEPTH} layers ({}); unpack it first",
                list(&layers)
            );
            return Err(Error::of_bytes(what));
        }
        if reader.holes() > PACKED_HOLES {
            let what = format!(
                "the {layer} in the archive is a file with holes, {} bytes of them; unpack it first",
                reader.holes()
            );
            return Err(Error::of_bytes(what));
        }
        let need = need(layer, reader.head())?;
        let room = StagedBudget { budget, at_first: need.least };
        let marks = on_boundary.clone().filter(|_| layers.is_empty());
        let Opened { reader: inner, allow } = match layer {
            Layer::Tar => {
                Opened { reader: open_archive(Box::new(reader), path.take(), &member), allow: None }
            }
            _ => open_growing(layer, Box::new(reader), room, None, marks)?,
        };
        growing.extend(allow.map(|allow| (allow, need)));
        spend(&mut budget, need.least);
        let limited = Limited::new(inner, layer, options.limit, 0).counting(&options.decoded);
        reader = Peeked::new(Box::new(limited), HEAD)?;
        if reader.size().is_some_and(|size| size > options.limit) {
            return Err(limit::refusal(layer, "would pass", options.limit));
        }
        layers.push(layer);
        needs.push(need);
        next = next_layer(reader.head(), &layers);
    }
    let share = budget.memory / growing.len().max(1) as u64;
    for (allow, need) in growing {
        allow(need.wanted(options.budget.threads).min(need.least.saturating_add(share)));
    }
    sole.store(layers.len() == 1, Ordering::Relaxed);
    Ok(Stack { layers, needs, member: member.get().cloned(), reader })
}

/// Enters a source with the only layer `layer` again. `input` is at `from.input`.
pub fn resume(
    layer: Layer,
    input: Box<dyn Read + Send>,
    options: &Options,
    from: Boundary,
) -> Result<Box<dyn Read + Send>> {
    let mut budget = options.budget;
    let input: Box<dyn Read + Send> = match layer {
        Layer::Xz | Layer::Zstd => input,
        Layer::Gzip | Layer::Tar => {
            spend(&mut budget, Shape::DEFAULT.memory());
            Box::new(ReadAhead::new("source", input, Shape::DEFAULT)?)
        }
    };
    let output = from.output;
    let inner = super::open(layer, input, budget, Some(from), options.on_boundary.clone())?;
    Ok(Box::new(Limited::new(inner, layer, options.limit, output).counting(&options.decoded)))
}

/// A reader that was read ahead by some bytes, which it returns first.
pub struct Peeked {
    head: Vec<u8>,
    given: usize,
    rest: Box<dyn HoleRead + Send>,
}

impl Peeked {
    /// Reads up to `want` bytes.
    pub fn new(mut rest: Box<dyn HoleRead + Send>, want: usize) -> Result<Self> {
        let mut head = Vec::with_capacity(want);
        rest.by_ref()
            .take(want as u64)
            .read_to_end(&mut head)
            .map_err(|e| Error::reading("cannot read the beginning of the disk", e))?;
        Ok(Peeked { head, given: 0, rest })
    }

    /// The first bytes; fewer than requested only if there are no more.
    pub fn head(&self) -> &[u8] {
        &self.head
    }
}

impl Read for Peeked {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = &self.head[self.given..];
        if left.is_empty() {
            return self.rest.read(out);
        }
        let n = left.len().min(out.len());
        out[..n].copy_from_slice(&left[..n]);
        self.given += n;
        Ok(n)
    }
}

impl HoleRead for Peeked {
    fn skip_hole(&mut self, unit: u64, most: u64) -> io::Result<u64> {
        if self.given < self.head.len() { Ok(0) } else { self.rest.skip_hole(unit, most) }
    }

    fn size(&self) -> Option<u64> {
        self.rest.size()
    }

    fn holes(&self) -> u64 {
        self.rest.holes()
    }
}

fn spend(budget: &mut Budget, bytes: u64) {
    let bytes = bytes.min(budget.memory);
    budget.memory -= bytes;
    budget.beside = budget.beside.saturating_add(bytes);
}

fn only_if(sole: &Arc<AtomicBool>, f: OnBoundary) -> OnBoundary {
    let sole = sole.clone();
    Arc::new(move |boundary| {
        if sole.load(Ordering::Relaxed) {
            f(boundary);
        }
    })
}

fn list(layers: &[Layer]) -> String {
    layers.iter().map(|layer| layer.name()).collect::<Vec<_>>().join(", ")
}
