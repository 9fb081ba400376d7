//! Sinks for a layer: one that only hashes, and one that announces a known digest.

use super::CHANGED;
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

/// A sink for one blob whose digest is known. Other bytes than those mean that the disk was changed since its
/// digest was computed.
pub(super) struct Promised<'a> {
    pub(super) sink: &'a dyn Sink,
    pub(super) promised: Descriptor,
    pub(super) digest: Digest,
    pub(super) size: u64,
}

struct Compared<'a> {
    writer: Box<dyn BlobWriter + 'a>,
    digest: Digest,
    size: u64,
    written: u64,
}

impl Sink for Promised<'_> {
    fn has(&self, descriptor: &Descriptor) -> Result<bool> {
        self.sink.has(descriptor)
    }

    fn begin(&self, promised: Option<&Descriptor>) -> Result<Box<dyn BlobWriter + '_>> {
        let writer = self.sink.begin(Some(promised.unwrap_or(&self.promised)))?;
        if promised.is_some() {
            return Ok(writer);
        }
        Ok(Box::new(Compared { writer, digest: self.digest, size: self.size, written: 0 }))
    }

    fn put(&self, document: &Document, tag: Option<&str>) -> Result<()> {
        self.sink.put(document, tag)
    }
}

impl Write for Compared<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let after = self.written.saturating_add(bytes.len() as u64);
        if after > self.size {
            return Err(Error::failed(CHANGED).into());
        }
        let n = self.writer.write(bytes)?;
        self.written += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl BlobWriter for Compared<'_> {
    fn arrive(&mut self) -> Result<()> {
        self.writer.arrive()
    }

    fn digest(&mut self) -> Result<Digest> {
        self.writer.digest()
    }

    fn rewind(&mut self) -> Result<Option<u64>> {
        let at = self.writer.rewind()?;
        self.written = at.unwrap_or(self.written);
        Ok(at)
    }

    fn spoil(&mut self) {
        self.writer.spoil();
    }

    fn finish(mut self: Box<Self>) -> Result<(Digest, u64)> {
        if self.written != self.size || self.writer.digest()? != self.digest {
            self.writer.spoil();
            return Err(Error::failed(CHANGED));
        }
        self.writer.finish()
    }
}
