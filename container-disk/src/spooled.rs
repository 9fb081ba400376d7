//! A sink for registries that require a blob's digest before its first byte. A new blob is buffered in an
//! anonymous file until its digest is known. A copied blob, whose digest is known, is passed on directly.

use crate::digest::HashingWriter;
use crate::manifest::{Descriptor, Document, IMAGE_LAYER_MEDIA_TYPE, descriptor};
use crate::place::{BlobWriter, Sink};
use crate::{AnonymousFile, Digest, Error, Result, anonymous_file};
use std::fs;
use std::io::{self, Seek, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// A sink that buffers new blobs.
pub(crate) struct Spooled {
    sink: Arc<dyn Sink>,
    folder: PathBuf,
}

impl Spooled {
    /// Buffers in `folder`, which is created if it does not exist.
    pub(crate) fn new(sink: Arc<dyn Sink>, folder: PathBuf) -> Spooled {
        Spooled { sink, folder }
    }
}

struct Writer<'a> {
    sink: &'a dyn Sink,
    spool: HashingWriter<AnonymousFile>,
}

impl Sink for Spooled {
    fn has(&self, descriptor: &Descriptor) -> Result<bool> {
        self.sink.has(descriptor)
    }

    fn begin(&self, promised: Option<&Descriptor>) -> Result<Box<dyn BlobWriter + '_>> {
        if promised.is_some() {
            return self.sink.begin(promised);
        }
        let cannot = |e| Error::io(format!("cannot create a spool file in {}", self.folder.display()), e);
        fs::create_dir_all(&self.folder).map_err(cannot)?;
        let file = anonymous_file(&self.folder).map_err(cannot)?;
        Ok(Box::new(Writer { sink: &*self.sink, spool: HashingWriter::new(file) }))
    }

    fn resume(&self, promised: &Descriptor) -> Result<(u64, Box<dyn BlobWriter + '_>)> {
        self.sink.resume(promised)
    }

    fn put(&self, document: &Document, tag: Option<&str>) -> Result<()> {
        self.sink.put(document, tag)
    }

    fn close(&self) -> Result<()> {
        self.sink.close()
    }
}

impl Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.spool.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.spool.flush()
    }
}

impl BlobWriter for Writer<'_> {
    fn digest(&mut self) -> Result<Digest> {
        Ok(self.spool.digest())
    }

    fn finish(self: Box<Self>) -> Result<(Digest, u64)> {
        let (file, digest, size) = self.spool.finish();
        let mut file = &*file;
        let cannot = |e| Error::io("cannot read the spool file of a blob", e);
        file.rewind().map_err(cannot)?;
        let promised = descriptor(IMAGE_LAYER_MEDIA_TYPE, &digest, size)?;
        if !self.sink.has(&promised)? {
            let mut writer = self.sink.begin(Some(&promised))?;
            io::copy(&mut file, &mut writer)
                .map_err(|e| Error::io(format!("cannot upload the blob {digest}"), e))?;
            writer.finish()?;
        }
        Ok((digest, size))
    }
}
