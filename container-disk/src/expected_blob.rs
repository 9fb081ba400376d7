//! Digest and size that a descriptor lists for a blob. Every sink verifies them.

use crate::digest::Hasher;
use crate::manifest::{self, Descriptor};
use crate::{Digest, Error, Result};

/// The expected digest and size of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExpectedBlob {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
}

impl ExpectedBlob {
    /// The values of a descriptor. `name` is the place, for messages.
    pub(crate) fn from_descriptor(name: &str, descriptor: &Descriptor) -> Result<ExpectedBlob> {
        Ok(ExpectedBlob { digest: descriptor.digest.parse()?, size: manifest::size(name, descriptor.size)? })
    }

    /// A hash with the expected digest's algorithm, or SHA-256 if none is known.
    pub(crate) fn hasher(promised: Option<&ExpectedBlob>) -> Hasher {
        promised.map_or_else(Hasher::new, |promised| Hasher::like(&promised.digest))
    }

    /// Fails if the blob has grown beyond its expected size.
    pub(crate) fn allow(&self, size: u64) -> Result<()> {
        if size <= self.size {
            return Ok(());
        }
        Err(Error::refused(format!("the blob {} is longer than its {} bytes", self.digest, self.size)))
    }

    /// Fails unless the complete blob has the expected size and digest.
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
