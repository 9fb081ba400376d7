//! Export of a disk as a containerDisk to a registry, without temporary files.
//!
//! ```text
//!  api::job::Export ──prepare──(ready: confine the program)──► Prepared ──run──► Exported
//!
//!  disk ──1 measure─► layout of the qcow2                      where its zeros are, and so all tables      run/two_passes.rs
//!   (read  2 name──► tar ─► zstd ─► SHA-256                    digest and size of the layer; sent nowhere  sinks.rs
//!   three  ─────────── HEAD blob: the registry has it? ──────► then no byte is sent
//!   times) 3 send──► tar ─► zstd ─► registry                   with the digest promised
//!                    config, manifest, tag                     the tag last
//! ```
//!
//! **Cost.** The disk is read three times (a raw one twice: it needs no layout), and packed twice. A spool
//! would need once the disk's space, and its bytes written. Without the digest the registry could not be
//! asked for the layer before it is sent. A registry that needs the digest first (`upload = "whole"`) would
//! need a spool all the same. Holes of a file are not read at all.
//! **Resumption.** The same disk and options give the same digests. So the next pod after a killed one sends
//! no blob that the registry has; if it has the layer, only config and manifest are sent. After a broken
//! connection the same pod goes on at its byte ([`container_disk::registry`]). A layer that was cut short by
//! the end of its pod is sent anew: the usual registry drops its partial upload.
//! **Guarantees.** The disk is raw, whatever its first bytes are. So a guest that writes the header of a
//! qcow2 with a backing file gets no access to that file. Such a disk is not written into an image as raw,
//! since other programs would detect the qcow2. A disk that is changed between two readings ends the run, and
//! no image gets the tag.

mod sinks;

use crate::convert::{self, Request};
use crate::filter::mistaken_for;
use crate::import;
use crate::permissions::Permissions;
use crate::plan::{ConvertOptions, Output};
use crate::run::watch::{Phase, Watch};
use crate::source::{FileSource, Options, Source as _, SourceSpec, image::architecture};
use crate::target::{Destination, LayerTarget, Target, mistaken};
use crate::{Error, Result};
use api::job::Export;
use api::job::export::{Compression, Format as JobFormat};
use container_disk::Name;
use container_disk::image::{self, Recipe, hints};
use container_disk::manifest::descriptor;
use container_disk::open::Places;
use container_disk::pack::{self, Layer};
use container_disk::place::Sink;
use container_disk::registry::UPLOAD_MEMORY;
use disk_format::{Format, ReadAt as _};
use serde::Serialize;
use sinks::{Hashed, Promised};
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Memory for packing the layer.
const PACKING: u64 = 28 << 20;
/// Threads that read the disk for the packing; more would take memory and be no faster.
const CARRIERS: usize = 2;

/// An export that has been planned.
pub struct Prepared {
    request: Request,
    plan: convert::Prepared,
    name: Name,
    places: Arc<Places>,
    pack: pack::Options,
    recipe: Recipe,
}

/// The result of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// Name of the image.
    pub name: String,
    /// Digest of the manifest.
    pub digest: String,
    /// Bytes of the disk.
    pub size: u64,
    /// Bytes of the layer.
    pub layer: u64,
    /// True if the registry had the layer, and no byte of it was sent.
    pub was_there: bool,
}

/// Progress of an export, for other threads.
#[derive(Debug, Default)]
pub struct Steps {
    is_measured: AtomicBool,
    sends: AtomicBool,
}

/// Opens the disk of a job and plans. `convert_options`: options that are not part of the job. `ready` is called when
/// all paths of the job are known and none is open yet, so that a program can confine itself.
pub fn prepare(
    job: &Export,
    places: Arc<Places>,
    convert_options: ConvertOptions,
    watch: &Watch,
    ready: impl FnOnce(&Permissions) -> Result<()>,
) -> Result<Prepared> {
    let (name, places) = import::image(&job.target, places)?;
    if !matches!(&name, Name::Registry(remote) if remote.digest.is_none()) {
        let what = format!(
            "{name}: an image gets a tag, and its digest follows from its bytes; leave the digest out"
        );
        return Err(Error::refused(what));
    }
    let options = Options { places: Arc::clone(&places), ..Options::default() };
    let source = SourceSpec::Path(job.disk.path().clone());
    ready(&Permissions::new().source(&source, &options)?.goal(&name, &places)?)?;
    let threads = convert_options.threads;
    let beside = vec![("packing", PACKING), ("sending", UPLOAD_MEMORY)];
    let convert_options = ConvertOptions { beside, threads: threads.min(CARRIERS), ..convert_options };
    let output = output(job)?;
    let target = Destination::Image(name.to_string());
    let request = Request {
        // The guest's bytes, whatever format they look like.
        source_format: Some(Format::Raw),
        output,
        ..Request::new(source, target, options, convert_options)
    };
    let plan = convert::prepare(request.clone(), watch)?;
    let arch = job.target.architecture.as_deref().unwrap_or_else(|| architecture());
    let env = hints(&job.labels);
    let recipe = Recipe { labels: job.labels.clone(), env, ..Recipe::new(arch, vec![]) };
    let compression = match job.layer {
        Compression::Zstd => pack::Compression::Zstd,
        Compression::Gzip => pack::Compression::Gzip,
        Compression::None => pack::Compression::None,
    };
    let pack = pack::Options { compression, created: 0, threads, memory: PACKING as usize };
    Ok(Prepared { request, plan, name, places, pack, recipe })
}

/// The format of the disk in the layer.
fn output(job: &Export) -> Result<Output> {
    let head = head(job.disk.path())?;
    let qcow2 = Output::Qcow2 { cluster_bits: 16, compress: None };
    match (job.format, mistaken_for(&head)) {
        (Some(JobFormat::Qcow2), _) => Ok(qcow2),
        (Some(JobFormat::Raw), None) => Ok(Output::Raw),
        // The layer would be refused at its end.
        (Some(JobFormat::Raw), Some(form)) => Err(mistaken(&form)),
        (None, None) if Format::probe(&head) == Format::Iso => Ok(Output::Raw),
        (None, _) => Ok(qcow2),
    }
}

/// The first bytes of a disk.
fn head(path: &Path) -> Result<Vec<u8>> {
    let source = FileSource::open(path)?;
    let Some(bytes) = source.read_at() else {
        return Err(Error::refused(format!("{} is neither a file nor a block device", path.display())));
    };
    let mut head = vec![0; bytes.size().min(Format::HEAD as u64) as usize];
    bytes
        .read_exact_at(&mut head, 0)
        .map_err(|e| Error::io(format!("cannot read the first bytes of {}", path.display()), e))?;
    Ok(head)
}

impl Prepared {
    /// The plan as text.
    pub fn plan_text(&self) -> String {
        self.plan.plan_text()
    }

    /// Makes and sends the image.
    pub fn run(self, watch: &Watch, steps: &Steps) -> Result<Exported> {
        let Prepared { request, plan, name, places, pack, mut recipe } = self;
        let inputs = plan.inputs()?;
        let (layer, report) = layer(plan, &Hashed, &pack, watch)?;
        steps.is_measured.store(true, Relaxed);
        let goal = places.goal(&name, &inputs)?;
        let promised = descriptor(layer.compression.media_type(), &layer.digest, layer.size)?;
        let was_there = goal.sink.has(&promised)?;
        if !was_there {
            let plan = convert::prepare(request, watch)?;
            steps.sends.store(true, Relaxed);
            let sink = Promised { sink: &*goal.sink, promised, digest: layer.digest, size: layer.size };
            let (sent, _) = self::layer(plan, &sink, &pack, watch)?;
            if sent != layer {
                return Err(Error::failed(CHANGED));
            }
        }
        let size = layer.size;
        recipe.layers = vec![layer];
        let document = image::write(&*goal.sink, &recipe, &[])?;
        goal.sink.put(&document, goal.tag.as_deref())?;
        goal.sink.close()?;
        let (name, digest) = (name.to_string(), document.digest.to_string());
        Ok(Exported { name, digest, size: report.virtual_size, layer: size, was_there })
    }
}

/// Message for a second reading that gave other bytes. A device gives no other sign of a change.
const CHANGED: &str = "the disk was changed between its readings: nothing may write to it meanwhile";

/// Packs the disk into a layer, through a sink.
fn layer(
    plan: convert::Prepared,
    sink: &dyn Sink,
    options: &pack::Options,
    watch: &Watch,
) -> Result<(Layer, convert::Report)> {
    // No spool is needed, since the size of the layer's file is known.
    let folder = std::env::temp_dir();
    let made = RefCell::default();
    let is_raw = plan.writes_raw();
    let target = || -> Box<dyn Target> {
        let target = LayerTarget::new(sink, *options, folder.clone()).for_raw_disk(is_raw);
        *made.borrow_mut() = target.made();
        Box::new(target)
    };
    let report = plan.run_into(target, &folder, watch)?;
    let layer = made.into_inner().get().cloned();
    Ok((layer.ok_or_else(|| Error::failed("the disk is read and has no layer"))?, report))
}

impl Steps {
    /// Bytes read so far, and in all (0: not known yet); true if only the last requests are left.
    pub fn progress(&self, watch: &Watch) -> (u64, u64, bool) {
        let (done, disk) = watch.progress();
        let sends = self.sends.load(Relaxed);
        let before = match (watch.phase(), sends) {
            (Phase::Opening, _) => return (0, 0, false),
            (Phase::Measuring, _) => 0,
            (Phase::Finishing, true) => return (0, 0, true),
            // The layer has its digest, and the registry is asked for it.
            (Phase::Finishing, false) => return (0, 0, self.is_measured.load(Relaxed)),
            (_, false) => 1,
            (_, true) => 2,
        };
        (disk.saturating_mul(before).saturating_add(done), disk.saturating_mul(3), false)
    }
}

impl Exported {
    /// The result in one line of text.
    pub fn sentence(&self) -> String {
        let size = crate::size::human(self.layer);
        let sent = if self.was_there { "was there already" } else { "is sent" };
        format!("{}: {}, its layer of {size} {sent}", self.name, self.digest)
    }
}

#[cfg(test)]
mod tests;
