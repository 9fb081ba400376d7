//! Progress of reading an image: a place that counts the bytes of its blobs.

use crate::manifest::{Descriptor, Document};
use crate::place::{Blob, Place, Reading, Reference};
use crate::{Digest, Error, Result};
use disk_format::ReadAt;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of a running transfer.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes of all blobs.
    pub total: AtomicU64,
    /// Bytes that are transferred or existed already.
    pub done: AtomicU64,
    /// Bytes among the `done` ones that existed already.
    pub there: AtomicU64,
}

/// A place that adds each opened blob's size to the total, and each byte read to the done ones.
pub struct CountingPlace<'a> {
    place: &'a dyn Place,
    progress: Arc<Progress>,
}

impl<'a> CountingPlace<'a> {
    /// Wraps `place`, and counts into `progress`.
    pub fn new(place: &'a dyn Place, progress: Arc<Progress>) -> CountingPlace<'a> {
        CountingPlace { place, progress }
    }
}

impl Place for CountingPlace<'_> {
    fn name(&self) -> &str {
        self.place.name()
    }

    fn document(&self, reference: &Reference) -> Result<Document> {
        self.place.document(reference)
    }

    fn blob(&self, descriptor: &Descriptor) -> Result<Arc<dyn Blob>> {
        let blob = self.place.blob(descriptor)?;
        self.progress.total.fetch_add(blob.size(), Relaxed);
        Ok(Arc::new(CountingBlob { blob, progress: self.progress.clone() }))
    }
}

struct CountingBlob {
    blob: Arc<dyn Blob>,
    progress: Arc<Progress>,
}

struct Reader<R: ?Sized> {
    progress: Arc<Progress>,
    inner: Box<R>,
}

impl Blob for CountingBlob {
    fn size(&self) -> u64 {
        self.blob.size()
    }

    fn stream(&self, from: u64) -> Result<Box<dyn Read + Send>> {
        Ok(Box::new(Reader { inner: self.blob.stream(from)?, progress: self.progress.clone() }))
    }

    fn reading(&self, from: u64) -> Result<Box<dyn Reading>> {
        Ok(Box::new(Reader { inner: self.blob.reading(from)?, progress: self.progress.clone() }))
    }

    fn read_at(&self) -> Option<Arc<dyn ReadAt>> {
        self.blob.read_at()
    }

    fn is_elsewhere(&self) -> bool {
        self.blob.is_elsewhere()
    }
}

impl<R: Read + ?Sized> Read for Reader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(out)?;
        self.progress.done.fetch_add(n as u64, Relaxed);
        Ok(n)
    }
}

impl<R: Reading + ?Sized> Reading for Reader<R> {
    fn digest_mismatch(&mut self, actual: &Digest) -> Error {
        self.inner.digest_mismatch(actual)
    }
}
