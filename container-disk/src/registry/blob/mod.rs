//! Reads of a blob from any mirror that has it, with a change of mirror in the middle if necessary.
//!
//! ```text
//!   Blob ── up to 4 MiB ──► complete, digest verified, then returned                    small()
//!     ├── stream(from) ──► Ordered: pieces of 2 MiB, several requests at once, in order  ordered.rs
//!     │                      └─ from 0: size and digest are verified at the end
//!     └── read_at() ─────► RemoteAt: ranges, and a small cache                           read_at.rs
//!                               │
//!                               ▼
//!                    bring(range): exactly these bytes, from one mirror after another    transfer.rs, source.rs
//! ```
//!
//! **Guarantees.** Bytes come in order, each once. Bytes from one mirror are not requested again: the next
//! mirror is asked for the rest. A large blob with a wrong digest ends in an error that names the mirrors
//! that sent it, never in a clean end. Bytes that were returned before cannot be taken back, so the reader
//! must discard them, and may read again: the suspect mirror is then asked last, or not at all
//! (`suspect_mirrors.rs`).

mod ordered;
mod read_at;
mod source;
mod transfer;

use super::repository::Repository;
use crate::manifest::{self, Descriptor};
use crate::place::{Blob, NamedReader, Reading};
use crate::verifying_reader::VerifyingReader;
use crate::{Digest, Error, Result};
use disk_format::ReadAt;
use fetch::ordered::Ordered;
use fetch::runtime;
use ordered::Pieces;
use source::Source;
use std::io::{self, Cursor, Read};
use std::sync::Arc;

/// Size up to which a blob is held in memory until its digest is verified.
const SMALL: u64 = 4 << 20;

/// A blob of a repository.
pub(super) struct RemoteBlob(Arc<Source>);

impl RemoteBlob {
    pub(super) fn new(repository: &Arc<Repository>, descriptor: &Descriptor) -> Result<RemoteBlob> {
        let digest: Digest = descriptor.digest.parse()?;
        let size = manifest::size(&repository.name, descriptor.size)?;
        Ok(RemoteBlob(Arc::new(Source::new(repository, digest, size))))
    }
}

impl Blob for RemoteBlob {
    fn size(&self) -> u64 {
        self.0.size
    }

    fn stream(&self, from: u64) -> Result<Box<dyn Read + Send>> {
        let Source { name, digest, size, .. } = &*self.0;
        let reading = self.reading(from)?;
        // A small blob was verified before its bytes are returned.
        Ok(match from {
            0 if *size > SMALL => Box::new(VerifyingReader::new(reading, name.clone(), *digest, *size)),
            _ => Box::new(reading),
        })
    }

    fn reading(&self, from: u64) -> Result<Box<dyn Reading>> {
        let source = &self.0;
        if from > source.size {
            let what = format!("{} has {} bytes; there is no byte {from}", source.name, source.size);
            return Err(Error::usage(what));
        }
        if source.size <= SMALL {
            let mut inner = Cursor::new(runtime()?.block_on(transfer::small(source))?);
            inner.set_position(from);
            return Ok(Box::new(NamedReader { inner, name: source.name.clone(), expected: source.digest }));
        }
        // Each read has its own list of mirrors that sent bytes.
        let source = Arc::new(Source::new(&source.repository, source.digest, source.size));
        if from == 0 && self.is_elsewhere() {
            source.begins_elsewhere();
        }
        let ordered = Ordered::new(Arc::clone(&source), from, Pieces::new()).begin()?;
        Ok(Box::new(Large { ordered, source }))
    }

    fn read_at(&self) -> Option<Arc<dyn ReadAt>> {
        if self.0.size <= SMALL {
            // The error shows when the blob is read as a stream. Here it only is not available.
            return Some(Arc::new(runtime().ok()?.block_on(transfer::small(&self.0)).ok()?));
        }
        let at = read_at::RemoteAt::new(Arc::clone(&self.0));
        at.knows_ranges().then(|| Arc::new(at) as Arc<dyn ReadAt>)
    }

    fn is_elsewhere(&self) -> bool {
        let suspects = self.0.repository.suspects.of_blob(&self.0.digest);
        let proven = suspects.iter().filter(|(_, reason)| reason.is_some()).count();
        !suspects.is_empty() && proven < self.0.repository.mirrors.len()
    }
}

/// A read of a large blob, with a record of the mirrors that sent it.
struct Large {
    ordered: Ordered<Source, Pieces>,
    source: Arc<Source>,
}

impl Read for Large {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.ordered.read(out).map_err(|e| Error::io(format!("cannot read {}", self.source.name), e).into())
    }
}

impl Reading for Large {
    fn digest_mismatch(&mut self, actual: &Digest) -> Error {
        let Source { name, digest, .. } = &*self.source;
        self.source.blame(&format!("{name} has the digest {actual}, not {digest}"))
    }
}
