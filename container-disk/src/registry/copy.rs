//! Copy of an image from one place to another, byte for byte, without a temporary copy.
//!
//! ```text
//!   tag ─► document ── an index: its manifests, or the one for `arch`
//!              │        a manifest: itself
//!              ▼
//!   blobs, each once, several at a time:  to.has? ─► skip, mount │ to.resume ─► from.blob ─► finish
//!              │                                                     ▲ partial blobs of an earlier run are resumed,
//!              │                                                     │ broken uploads are resumed at their byte,
//!              ▼                                                     └ wrong bytes are fetched from another mirror
//!   documents, leaves first, the tag last
//! ```
//!
//! Documents are copied unchanged and so keep their digests. The tag is set last: an interrupted copy leaves
//! only blobs without a name.

use crate::image::{self, contents::Contents};
use crate::locate;
use crate::manifest::{self, Content, Descriptor, Document};
use crate::place::{Blob, BlobWriter, Place, Reference, Sink};
pub use crate::progress::Progress;
use crate::{Digest, Error, ErrorKind, Result};
use std::io::{Read, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Maximum number of attempts for a blob that ends with a wrong digest.
const TRIES: u32 = 5;

/// Options of a copy.
#[derive(Debug, Clone)]
pub struct Options {
    /// Copies only the image for this architecture. Unset: all images.
    pub arch: Option<String>,
    /// Number of blobs that are copied at the same time.
    pub parallel: usize,
    /// Sets the tag only on images that can be used ([`locate::judge`]). Needs a sink that can be read: the
    /// store.
    pub judge: bool,
}

/// The result of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Digest of the document that the tag refers to now.
    pub digest: Digest,
    /// Number of blobs that were transferred.
    pub moved: usize,
    /// Number of blobs that existed already or were mounted.
    pub there: usize,
    /// Number of bytes that were transferred.
    pub bytes: u64,
    /// Bytes of partial blobs that an earlier copy had left, and this one went on from; 0 if there were none.
    pub resumed_at: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options { arch: None, parallel: 3, judge: false }
    }
}

/// Copies an image, or all images of an index, and sets a tag on it.
pub fn copy(
    from: &dyn Place,
    reference: &Reference,
    to: &dyn Sink,
    tag: Option<&str>,
    options: &Options,
    progress: &Progress,
) -> Result<Copied> {
    let named = from.document(reference)?;
    let (top, index) = match &options.arch {
        Some(arch) if matches!(named.content, Content::Index(_)) => {
            (image::choose::below(from, named.clone(), arch)?, Some(named))
        }
        _ => (named, None),
    };
    let Contents { documents, blobs } = Contents::below(from, top)?;
    let work = Work { from, to, progress, counts: Counts::default() };
    let sizes = blobs.iter().filter_map(|blob| u64::try_from(blob.size).ok());
    progress.total.store(sizes.fold(0, u64::saturating_add), Relaxed);
    work.blobs(&blobs, options.parallel)?;
    if let Some(place) = to.as_place().filter(|_| options.judge) {
        let place = &Copy { place, name: from.name() };
        for document in &documents {
            if let Content::Manifest(manifest) = &document.parse(from.name())?.content {
                locate::judge(place, manifest)?;
            }
        }
    }
    let Some((top, leaves)) = documents.split_last() else {
        return Err(Error::refused(format!("{} has no document", from.name())));
    };
    for document in leaves {
        to.put(&document.parse(from.name())?, None)?;
    }
    let top = top.parse(from.name())?;
    // By it the store finds the image of a name by digest.
    if let (Some(index), Some(_), Reference::Digest(_)) = (index, to.as_place(), reference) {
        keep(to, &index)?;
    }
    to.put(&top, tag)?;
    let Counts { moved, there, bytes, resumed } = work.counts;
    let (moved, there, bytes) = (moved.into_inner(), there.into_inner(), bytes.into_inner());
    Ok(Copied { digest: top.digest, moved, there, bytes, resumed_at: resumed.into_inner() })
}

/// Writes the bytes of an index, some of whose images may be missing.
fn keep(to: &dyn Sink, index: &Document) -> Result<()> {
    let descriptor = index.descriptor()?;
    if to.has(&descriptor)? {
        return Ok(());
    }
    let mut blob = to.begin(Some(&descriptor))?;
    blob.write_all(&index.bytes).map_err(|e| Error::io("cannot keep an index", e))?;
    blob.finish().map(drop)
}

/// The copied image under the name of its source, which is the name that the user knows.
struct Copy<'a> {
    place: &'a dyn Place,
    name: &'a str,
}

impl Place for Copy<'_> {
    fn name(&self) -> &str {
        self.name
    }

    fn document(&self, reference: &Reference) -> Result<Document> {
        self.place.document(reference)
    }

    fn blob(&self, descriptor: &Descriptor) -> Result<Arc<dyn Blob>> {
        self.place.blob(descriptor)
    }
}

#[derive(Default)]
struct Counts {
    moved: AtomicUsize,
    there: AtomicUsize,
    bytes: AtomicU64,
    resumed: AtomicU64,
}

struct Work<'a> {
    from: &'a dyn Place,
    to: &'a dyn Sink,
    progress: &'a Progress,
    counts: Counts,
}

impl Work<'_> {
    /// Copies all blobs. The first failure stops the others at their next piece.
    fn blobs(&self, blobs: &[Descriptor], parallel: usize) -> Result<()> {
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let failed: Mutex<Option<Error>> = Mutex::new(None);
        let run = || {
            while let Some(blob) = blobs.get(next.fetch_add(1, Relaxed)).filter(|_| !stop.load(Relaxed)) {
                if let Err(e) = self.blob(blob, &stop) {
                    stop.store(true, Relaxed);
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..parallel.clamp(1, blobs.len().max(1)) {
                // If no more threads can be started, fewer copy. This thread takes part too.
                if thread::Builder::new().spawn_scoped(scope, run).is_err() {
                    break;
                }
            }
            run();
        });
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }

    fn blob(&self, descriptor: &Descriptor, stop: &AtomicBool) -> Result<()> {
        if self.to.has(descriptor)? {
            let size = manifest::size(self.from.name(), descriptor.size)?;
            self.progress.there.fetch_add(size, Relaxed);
            self.progress.done.fetch_add(size, Relaxed);
            self.counts.there.fetch_add(1, Relaxed);
            return Ok(());
        }
        let blob = self.from.blob(descriptor)?;
        for left in (0..TRIES).rev() {
            let (mut have, mut done) = (0, 0);
            let e = match self.once(&*blob, descriptor, stop, (&mut have, &mut done)) {
                Ok(()) => {
                    // A later attempt finds what this copy has left.
                    if left == TRIES - 1 {
                        self.counts.resumed.fetch_add(have, Relaxed);
                    }
                    self.counts.moved.fetch_add(1, Relaxed);
                    return Ok(());
                }
                // The source records which mirrors sent the wrong bytes. Another one may have the right ones.
                Err(Broken::Reading(e))
                    if left > 0 && e.kind() == ErrorKind::Refused && blob.is_elsewhere() =>
                {
                    e
                }
                Err(Broken::GoneOnWith(e)) if left > 0 => e,
                Err(Broken::Reading(e) | Broken::Writing(e) | Broken::GoneOnWith(e)) => return Err(e),
            };
            tracing::info!(blob = descriptor.digest, error = %e, "a blob is fetched again");
            self.progress.done.fetch_sub(done, Relaxed);
            self.progress.there.fetch_sub(have, Relaxed);
        }
        Ok(())
    }

    /// Tries to copy the blob once. Sets `there` to the number of bytes that the sink had, and `done` to the position reached.
    fn once(
        &self,
        blob: &dyn Blob,
        descriptor: &Descriptor,
        stop: &AtomicBool,
        (there, done): (&mut u64, &mut u64),
    ) -> Result<(), Broken> {
        let (have, mut writer) = self.to.resume(descriptor).map_err(Broken::Writing)?;
        if have > 0 {
            tracing::info!(
                blob = descriptor.digest,
                at = have,
                "a partial blob of an earlier run is resumed"
            );
        }
        self.progress.there.fetch_add(have, Relaxed);
        self.progress.done.fetch_add(have, Relaxed);
        (*there, *done) = (have, have);
        let came = self.rest(blob, descriptor, &mut *writer, have, done, stop);
        if let Err(Broken::Reading(e)) = &came
            && (*done == 0 || e.kind() == ErrorKind::Refused)
        {
            writer.spoil();
        }
        came?;
        writer.finish().map(drop).map_err(|e| match have {
            0 => Broken::Writing(e),
            _ => Broken::GoneOnWith(e),
        })
    }

    /// Copies the bytes after the first `have`. `done` is set to the position reached.
    fn rest(
        &self,
        blob: &dyn Blob,
        descriptor: &Descriptor,
        writer: &mut dyn BlobWriter,
        have: u64,
        done: &mut u64,
        stop: &AtomicBool,
    ) -> Result<(), Broken> {
        let mut reader = blob.reading(have).map_err(Broken::Reading)?;
        let mut is_whole = have == 0;
        let mut buf = vec![0; 256 << 10];
        let mut at = have;
        loop {
            if stop.load(Relaxed) {
                return Err(Broken::Writing(Error::failed("stopped, because another blob failed")));
            }
            let n = reader.read(&mut buf).map_err(|e| {
                let what = format!("cannot read the blob {} of {}", descriptor.digest, self.from.name());
                Broken::Reading(Error::io(what, e))
            })?;
            if n == 0 && is_whole && at == blob.size() {
                // The writer's digest serves both for storing and for verifying the read.
                let actual = writer.digest().map_err(Broken::Writing)?;
                if actual.to_string() != descriptor.digest {
                    return Err(Broken::Reading(reader.digest_mismatch(&actual)));
                }
            }
            let written = match n {
                0 => writer.arrive(),
                n => write(writer, &buf[..n]),
            };
            match written {
                Ok(()) if n == 0 => return Ok(()),
                Ok(()) => {}
                Err(e) => {
                    at = again(writer, e)?;
                    reader = blob.reading(at).map_err(Broken::Reading)?;
                    is_whole = at == 0;
                    continue;
                }
            }
            at += n as u64;
            self.counts.bytes.fetch_add(n as u64, Relaxed);
            self.progress.done.fetch_add(at.saturating_sub(*done), Relaxed);
            *done = at.max(*done);
        }
    }
}

enum Broken {
    Reading(Error),
    Writing(Error),
    /// The partial blob of an earlier run and the rest do not match. Nothing of them is kept.
    GoneOnWith(Error),
}

fn write(writer: &mut dyn BlobWriter, data: &[u8]) -> Result<()> {
    writer.write_all(data).map_err(|e| Error::io("cannot write a blob", e))
}

/// Returns the position to resume from, or the error itself if the writer cannot resume.
fn again(writer: &mut dyn BlobWriter, e: Error) -> Result<u64, Broken> {
    match writer.rewind() {
        Ok(Some(at)) => {
            tracing::warn!(at, error = %e, "an upload was interrupted and is resumed");
            Ok(at)
        }
        Ok(None) => Err(Broken::Writing(e)),
        Err(e) => Err(Broken::Writing(e)),
    }
}
