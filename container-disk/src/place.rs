//! The traits for places that keep images: reading (`Place`) and writing (`Sink`). Stores, archives and
//! registries implement them.

use crate::manifest::{Descriptor, Document};
use crate::{Digest, Error, Result};
use disk_format::ReadAt;
use std::io::{self, Read, Write};
use std::sync::Arc;

/// Reference of a document in a repository.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reference {
    /// A tag, which may move to another document.
    Tag(String),
    /// The digest of the document.
    Digest(Digest),
}

/// A place from which images can be read.
pub trait Place: Send + Sync {
    /// The name for messages: `docker://h/r`, `oci:DIR`.
    fn name(&self) -> &str;

    /// Reads a manifest or an index. With a reference by digest, the document's digest is verified.
    fn document(&self, reference: &Reference) -> Result<Document>;

    /// Opens a blob (a config or a layer) that a manifest of this place lists.
    fn blob(&self, descriptor: &Descriptor) -> Result<Arc<dyn Blob>>;
}

/// A blob that exists and can be read.
pub trait Blob: Send + Sync {
    /// The size in the blob's descriptor, in bytes.
    fn size(&self) -> u64;

    /// Reads the bytes from an offset on. From 0, size and digest are verified, and a mismatch is an error at
    /// the end of the stream. A transfer that breaks is resumed at the same byte, from another mirror if
    /// necessary.
    fn stream(&self, from: u64) -> Result<Box<dyn Read + Send>>;

    /// Like `stream`, without verifying the digest, for a caller that computes the digest anyway.
    fn reading(&self, from: u64) -> Result<Box<dyn Reading>> {
        Ok(Box::new(Plain(self.stream(from)?)))
    }

    /// The bytes at any offset, if the place supports that. No digest is verified.
    fn read_at(&self) -> Option<Arc<dyn ReadAt>>;

    /// True if an earlier read ended with a wrong digest, and the next one would use another mirror.
    fn is_elsewhere(&self) -> bool {
        false
    }
}

/// A read of a blob whose digest the caller verifies.
pub trait Reading: Read + Send {
    /// The error to return when all bytes from the first one on have the digest `actual` instead of the
    /// expected one. A place with several mirrors names the ones that sent the bytes, and asks other mirrors
    /// first from now on.
    fn digest_mismatch(&mut self, actual: &Digest) -> Error;
}

impl<R: Reading + ?Sized> Reading for Box<R> {
    fn digest_mismatch(&mut self, actual: &Digest) -> Error {
        (**self).digest_mismatch(actual)
    }
}

/// A reader of a place that keeps no record of the origin of bytes.
struct Plain(Box<dyn Read + Send>);

impl Read for Plain {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out)
    }
}

impl Reading for Plain {
    fn digest_mismatch(&mut self, actual: &Digest) -> Error {
        Error::refused(format!("a blob has the digest {actual}, which differs from its descriptor"))
    }
}

/// A reader with a name and an expected digest, for the error message.
pub struct NamedReader<R> {
    pub(crate) inner: R,
    pub(crate) name: String,
    pub(crate) expected: Digest,
}

impl<R: Read> Read for NamedReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.inner.read(out)
    }
}

impl<R: Read + Send> Reading for NamedReader<R> {
    fn digest_mismatch(&mut self, actual: &Digest) -> Error {
        Error::refused(format!("{} has the digest {actual}, not {}", self.name, self.expected))
    }
}

/// A place to which images can be written.
pub trait Sink: Send + Sync {
    /// True if the sink has a blob of this digest and size already. A folder reads all of its bytes, so that a
    /// changed blob is written again. A registry may also mount the blob from another of its repositories.
    fn has(&self, descriptor: &Descriptor) -> Result<bool>;

    /// Starts a blob. `promised` is its descriptor, if known (a copy). The digest of a new blob is known only
    /// at its end.
    fn begin(&self, promised: Option<&Descriptor>) -> Result<Box<dyn BlobWriter + '_>>;

    /// Resumes a blob of an earlier attempt. Returns the number of bytes that the sink has, and a writer for
    /// the rest. A sink without partial blobs starts at 0.
    fn resume(&self, promised: &Descriptor) -> Result<(u64, Box<dyn BlobWriter + '_>)> {
        Ok((0, self.begin(Some(promised))?))
    }

    /// Stores a document and sets a tag on it. All its blobs must be in the sink already.
    fn put(&self, document: &Document, tag: Option<&str>) -> Result<()>;

    /// Locks the sink, and waits while another process has its lock: for a tag whose new document depends on
    /// the present one. A registry has no lock, and an archive no second writer.
    fn lock(&self) -> Result<SinkLock> {
        Ok(SinkLock::default())
    }

    /// The sink as a place, if the written images can be read before they have a name.
    fn as_place(&self) -> Option<&dyn Place> {
        None
    }

    /// Completes the sink after the last image. An archive gets its file name now; other sinks have nothing
    /// left to do.
    fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// The lock of a sink, until it is dropped.
#[derive(Default)]
pub struct SinkLock {
    _lock: Option<Box<dyn Send>>,
}

impl SinkLock {
    /// Of a lock that ends when it is dropped.
    pub(crate) fn by(lock: impl Send + 'static) -> SinkLock {
        SinkLock { _lock: Some(Box::new(lock)) }
    }
}

/// A blob that is being written. Dropping it without [`BlobWriter::finish`] keeps only the partial blob that
/// [`Sink::resume`] continues.
pub trait BlobWriter: Write + Send {
    /// Waits until all written bytes have arrived. After an error here the upload may still be resumed.
    fn arrive(&mut self) -> Result<()> {
        Ok(())
    }

    /// The digest of all written bytes, with the algorithm of the expected digest.
    fn digest(&mut self) -> Result<Digest>;

    /// After an error, returns the position from which the caller must write the bytes again. `None` if the
    /// blob cannot be resumed.
    fn rewind(&mut self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Marks the written bytes as wrong. Nothing of them is kept, not even for another attempt.
    fn spoil(&mut self) {}

    /// Verifies size and digest, and makes the blob durable under its digest.
    fn finish(self: Box<Self>) -> Result<(Digest, u64)>;
}
