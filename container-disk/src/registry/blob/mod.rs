//! Reading a blob, wherever it is to be had, and going on elsewhere in the middle of it.
//!
//! ```text
//!   Blob ── up to 4 MiB ──► whole, digest checked, then handed out                       small()
//!     ├── stream(from) ──► Ordered: pieces of 2 MiB, several under way, in order         ordered.rs
//!     │                      └─ from 0: size and digest are checked at the end
//!     └── read_at() ─────► RemoteAt: ranges, and a small cache                           read_at.rs
//!                               │
//!                               ▼
//!                    bring(range): exactly these bytes, from one mirror after another    transfer.rs, source.rs
//! ```
//!
//! **Guarantees.** Bytes come in order, each once. What one mirror has given is not asked for again: the next one is
//! asked from that byte on. A large blob whose digest is wrong ends in a refusal that names who gave it, never in a
//! clean end; what was handed out cannot be taken back, so the reader must drop it, and may read anew: who is to blame
//! is asked last, or not at all (`doubt.rs`).

mod ordered;
mod read_at;
mod source;
mod transfer;

use super::repository::Repository;
use crate::checked::Checked;
use crate::manifest::{self, Descriptor};
use crate::place::{Blob, Named, Reading};
use crate::{Digest, Error, Result};
use disk_format::ReadAt;
use fetch::ordered::Ordered;
use fetch::runtime;
use ordered::Pieces;
use source::Source;
use std::io::{self, Cursor, Read};
use std::sync::Arc;

/// Up to this size a blob is held until its digest is known to be right.
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
        // What is small is handed out when it is known to be right.
        Ok(match from {
            0 if *size > SMALL => Box::new(Checked::new(reading, name.clone(), *digest, *size)),
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
            return Ok(Box::new(Named { inner, name: source.name.clone(), expected: source.digest }));
        }
        // Each reading has its own list of who gave what.
        let source = Arc::new(Source::new(&source.repository, source.digest, source.size));
        if from == 0 && self.is_elsewhere() {
            source.begins_elsewhere();
        }
        let ordered = Ordered::new(Arc::clone(&source), from, Pieces::new()).begin()?;
        Ok(Box::new(Large { ordered, source }))
    }

    fn read_at(&self) -> Option<Arc<dyn ReadAt>> {
        if self.0.size <= SMALL {
            // What is wrong with it shows when it is read as a stream; here it is only not to be had.
            return Some(Arc::new(runtime().ok()?.block_on(transfer::small(&self.0)).ok()?));
        }
        let at = read_at::RemoteAt::new(Arc::clone(&self.0));
        at.knows_ranges().then(|| Arc::new(at) as Arc<dyn ReadAt>)
    }

    fn is_elsewhere(&self) -> bool {
        let doubts = self.0.repository.doubts.about(&self.0.digest);
        let proven = doubts.iter().filter(|(_, reason)| reason.is_some()).count();
        !doubts.is_empty() && proven < self.0.repository.mirrors.len()
    }
}

/// A reading of a large blob, which knows who gave what.
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
    fn wrong(&mut self, actual: &Digest) -> Error {
        let Source { name, digest, .. } = &*self.source;
        self.source.blame(&format!("{name} has the digest {actual}, not {digest}"))
    }
}
