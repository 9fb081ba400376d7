//! Sinks for a layer: one that only hashes, and one that announces a known digest.

use container_disk::digest::HashingWriter;
use container_disk::manifest::{Descriptor, Document};
use container_disk::place::{BlobWriter, Sink};
use container_disk::{Digest, Error, Result};
use std::io::{self, Write};

/// A sink that hashes blobs and keeps none.
pub(super) struct Hashed;

struct Hashing(HashingWriter<io::Sink>);

impl Sink for Hashed {
    fn has(&self, _: &Descriptor) -> Result<bool> {
        Ok(false)
    }

    fn begin(&self, _: Option<&Descriptor>) -> Result<Box<dyn BlobWriter + '_>> {
        Ok(Box::new(Hashing(HashingWriter::new(io::sink()))))
    }

    fn put(&self, _: &Document, _: Option<&str>) -> Result<()> {
        Err(Error::failed("nothing is kept here, and no image either"))
    }
}

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BlobWriter for Hashing {
    fn digest(&mut self) -> Result<Digest> {
        Ok(self.0.digest())
    }

    fn finish(self: Box<Self>) -> Result<(Digest, u64)> {
        let (_, digest, size) = self.0.finish();
        Ok((digest, size))
    }
}

/// A sink for one blob whose digest is known.
pub(super) struct Promised<'a> {
    pub(super) sink: &'a dyn Sink,
    pub(super) promised: Descriptor,
}

impl Sink for Promised<'_> {
    fn has(&self, descriptor: &Descriptor) -> Result<bool> {
        self.sink.has(descriptor)
    }

    fn begin(&self, promised: Option<&Descriptor>) -> Result<Box<dyn BlobWriter + '_>> {
        self.sink.begin(Some(promised.unwrap_or(&self.promised)))
    }

    fn put(&self, document: &Document, tag: Option<&str>) -> Result<()> {
        self.sink.put(document, tag)
    }
}
