//! A place that keeps images: the two small traits that stores, archives and registries share.

use crate::manifest::{Descriptor, Document};
use crate::{Digest, Error, Result};
use disk_format::ReadAt;
use std::io::{self, Read, Write};
use std::sync::Arc;

/// Which document of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Which {
    /// By a name that may move.
    Tag(String),
    /// By what it is.
    Digest(Digest),
}

/// Images can be read from here.
pub trait Place: Send + Sync {
    /// What a person calls it: `docker://h/r`, `oci:DIR`.
    fn name(&self) -> &str;

    /// A manifest or an index. One asked for by digest has that digest.
    fn document(&self, which: &Which) -> Result<Document>;

    /// A blob (a config or a layer) that a manifest of this place promises.
    fn blob(&self, descriptor: &Descriptor) -> Result<Arc<dyn Blob>>;
}

/// A blob that exists and may be read.
pub trait Blob: Send + Sync {
    /// Its size, as its descriptor promises.
    fn size(&self) -> u64;

    /// Its bytes from an offset on; from 0, size and digest are checked, and a reader of all bytes sees a refusal at
    /// their end where they differ. What breaks inside is gone on with at the byte, from another mirror if need be.
    fn stream(&self, from: u64) -> Result<Box<dyn Read + Send>>;

    /// The same without a check of the digest, for a caller who computes the digest anyway.
    fn reading(&self, from: u64) -> Result<Box<dyn Reading>> {
        Ok(Box::new(Plain(self.stream(from)?)))
    }

    /// Its bytes at any offset, where the place can do that. No digest is checked.
    fn read_at(&self) -> Option<Arc<dyn ReadAt>>;

    /// Whether a reading of it came to its end and was refused, and another one would bring its bytes from elsewhere.
    fn is_elsewhere(&self) -> bool {
        false
    }
}

/// One reading of a blob whose digest the caller computes.
pub trait Reading: Read + Send {
    /// All bytes were read from the first one on, and this is what they hash to, which is not what was promised: the
    /// refusal. A place that knows who gave the bytes says so in it, and asks others first from now on.
    fn wrong(&mut self, actual: &Digest) -> Error;
}

impl<R: Reading + ?Sized> Reading for Box<R> {
    fn wrong(&mut self, actual: &Digest) -> Error {
        (**self).wrong(actual)
    }
}

/// Bytes of a place that knows nothing else of them.
struct Plain(Box<dyn Read + Send>);

impl Read for Plain {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out)
    }
}

impl Reading for Plain {
    fn wrong(&mut self, actual: &Digest) -> Error {
        Error::refused(format!("a blob has the digest {actual}, which is not the promised one"))
    }
}

/// A reading of bytes that have a name.
pub struct Named<R> {
    pub(crate) inner: R,
    pub(crate) name: String,
    pub(crate) expected: Digest,
}

impl<R: Read> Read for Named<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.inner.read(out)
    }
}

impl<R: Read + Send> Reading for Named<R> {
    fn wrong(&mut self, actual: &Digest) -> Error {
        Error::refused(format!("{} has the digest {actual}, not {}", self.name, self.expected))
    }
}

/// Images can be written here.
pub trait Sink: Send + Sync {
    /// Whether it has a blob of this digest and size already. May also bring it here cheaply (a mount from another
    /// repository of the same registry).
    fn has(&self, descriptor: &Descriptor) -> Result<bool>;

    /// Begins a blob whose digest is known (`Some`: a copy) or only at its end (`None`: a build).
    fn begin(&self, promised: Option<&Descriptor>) -> Result<Box<dyn BlobWriter + '_>>;

    /// The same for a blob whose digest is known, going on where an earlier attempt was cut short: how many of its
    /// bytes are here already, and a writer for the rest. A place that keeps no half blobs begins at 0.
    fn resume(&self, promised: &Descriptor) -> Result<(u64, Box<dyn BlobWriter + '_>)> {
        Ok((0, self.begin(Some(promised))?))
    }

    /// Stores a document, whose blobs are all here, and gives it a tag.
    fn put(&self, document: &Document, tag: Option<&str>) -> Result<()>;

    /// What was written, to be read, where that is possible before it has a name.
    fn as_place(&self) -> Option<&dyn Place> {
        None
    }

    /// All images are put. Where the whole is one file, only now it gets its name; elsewhere nothing is left to do.
    fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// A blob on its way. Dropped without [`BlobWriter::finish`], nothing of it remains but what [`Sink::resume`] goes on
/// with.
pub trait BlobWriter: Write + Send {
    /// All bytes are written: waits until they have arrived. What fails here may still be gone on with.
    fn arrive(&mut self) -> Result<()> {
        Ok(())
    }

    /// All bytes are written: what they hash to, by the algorithm of what was promised.
    fn digest(&mut self) -> Result<Digest>;

    /// After an error, the byte from which it may be gone on with, if whoever writes can give the bytes again from
    /// there; `None` when it is over. What is written next begins at that byte.
    fn rewind(&mut self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// What was written is wrong: nothing of it is kept, not even for another attempt.
    fn spoil(&mut self) {}

    /// All bytes are written: checks what was promised, makes the blob durable under its digest.
    fn finish(self: Box<Self>) -> Result<(Digest, u64)>;
}
