//! What a descriptor promises of a blob that is on its way: every place that takes one holds it to that.

use crate::digest::Hasher;
use crate::manifest::{self, Descriptor};
use crate::{Digest, Error, Result};

/// A digest and a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Promise {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
}

impl Promise {
    /// `name` is for messages: who reads the descriptor.
    pub(crate) fn of(name: &str, descriptor: &Descriptor) -> Result<Promise> {
        Ok(Promise { digest: descriptor.digest.parse()?, size: manifest::size(name, descriptor.size)? })
    }

    /// A hash of the algorithm that is promised, or the usual one.
    pub(crate) fn hasher(promised: Option<&Promise>) -> Hasher {
        promised.map_or_else(Hasher::new, |promised| Hasher::like(&promised.digest))
    }

    /// So many bytes are not more than promised.
    pub(crate) fn allow(&self, size: u64) -> Result<()> {
        if size <= self.size {
            return Ok(());
        }
        Err(Error::refused(format!("the blob {} is longer than its {} bytes", self.digest, self.size)))
    }

    /// That is all of it, and it is kept.
    pub(crate) fn check(&self, digest: &Digest, size: u64) -> Result<()> {
        if size != self.size {
            let what = format!("the blob {} ends after {size} of its {} bytes", self.digest, self.size);
            return Err(Error::refused(what));
        }
        if *digest != self.digest {
            let what = format!("the bytes of the blob {} have the digest {digest}", self.digest);
            return Err(Error::refused(what));
        }
        Ok(())
    }
}
