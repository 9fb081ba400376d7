//! Writer for `oci-archive:FILE[:TAG]`.

use super::growing::{Growing, Growth};
use super::oci::path;
use crate::background_hash::BackgroundHash;
use crate::expected_blob::ExpectedBlob;
use crate::layout::index::{INDEX, Index};
use crate::layout::{LAYOUT_VERSION, OCI_LAYOUT, needs};
use crate::manifest::{self, Descriptor, Document};
use crate::place::{BlobWriter, Sink};
use crate::{Digest, Error, Result};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A new OCI image layout in a tar file. `close` replaces an older file of the same name.
pub struct OciArchiveSink {
    name: String,
    file: Growing,
    state: Mutex<SinkState>,
}

struct SinkState {
    blobs: BTreeMap<Digest, u64>,
    index: Index,
}

impl OciArchiveSink {
    /// Creates `FILE.partial`. `close` renames it to `FILE`.
    pub fn create(file: &Path) -> Result<OciArchiveSink> {
        let state = Mutex::new(SinkState { blobs: BTreeMap::new(), index: Index::new() });
        let name = format!("oci-archive:{}", file.display());
        let file = Growing::create(file)?;
        file.add("blobs/", b"")?;
        file.add("blobs/sha256/", b"")?;
        Ok(OciArchiveSink { name, file, state })
    }

    fn state(&self) -> MutexGuard<'_, SinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for OciArchiveSink {
    fn has(&self, descriptor: &Descriptor) -> Result<bool> {
        let size = manifest::size(&self.name, descriptor.size)?;
        Ok(self.state().blobs.get(&descriptor.digest.parse()?) == Some(&size))
    }

    fn begin(&self, promised: Option<&Descriptor>) -> Result<Box<dyn BlobWriter + '_>> {
        let promised = promised.map(|d| ExpectedBlob::from_descriptor(&self.name, d)).transpose()?;
        let hash = BackgroundHash::new(ExpectedBlob::hasher(promised.as_ref()));
        let name = path(&promised.as_ref().map_or(Digest::of(&[]), |promised| promised.digest));
        Ok(Box::new(Blob { sink: self, growth: self.file.begin(&name)?, hash, promised }))
    }

    fn put(&self, document: &Document, tag: Option<&str>) -> Result<()> {
        let is_here = {
            let state = self.state();
            for (digest, size) in needs(document) {
                let here = state.blobs.get(&digest.parse()?);
                if here.is_none_or(|here| i64::try_from(*here) != Ok(size)) {
                    let what = format!(
                        "{} needs the blob {digest}, but {} does not contain it",
                        document.digest, self.name
                    );
                    return Err(Error::failed(what));
                }
            }
            state.blobs.contains_key(&document.digest)
        };
        if !is_here {
            let mut blob = self.begin(Some(&document.descriptor()?))?;
            blob.write_all(&document.bytes)
                .map_err(|e| Error::io(format!("cannot write {}", self.name), e))?;
            blob.finish()?;
        }
        if let Some(tag) = tag {
            self.state().index.set(tag, document);
        }
        Ok(())
    }

    fn close(&self) -> Result<()> {
        let index = self.state().index.bytes();
        self.file.close(&[(INDEX, &index), (OCI_LAYOUT, LAYOUT_VERSION)])
    }
}

/// A blob that is being written into the archive.
struct Blob<'a> {
    sink: &'a OciArchiveSink,
    growth: Growth<'a>,
    hash: BackgroundHash,
    promised: Option<ExpectedBlob>,
}

impl Write for Blob<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(promised) = &self.promised {
            promised.allow(self.growth.size().saturating_add(bytes.len() as u64))?;
        }
        self.growth.write(bytes)?;
        self.hash.update(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BlobWriter for Blob<'_> {
    fn digest(&mut self) -> Result<Digest> {
        self.hash.digest()
    }

    fn finish(self: Box<Self>) -> Result<(Digest, u64)> {
        let Blob { sink, growth, hash, promised } = *self;
        let (digest, size) = (hash.finish()?, growth.size());
        if let Some(promised) = &promised {
            promised.check(&digest, size)?;
        }
        // A blob that was added twice is stored once.
        if sink.state().blobs.insert(digest, size).is_none() {
            growth.finish(&path(&digest), digest)?;
        }
        Ok((digest, size))
    }
}
