//! Digests of blobs: `sha256:HEX` and `sha512:HEX`, and readers and writers that compute them as bytes pass.

use crate::{Error, Result};
use sha2::Digest as _;
use sha2::digest::common::hazmat::SerializableState;
use sha2::{Sha256, Sha512};
use std::fmt;
use std::io::{self, Write};
use std::str::FromStr;

/// The digest of a blob, with its algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Digest {
    Sha256([u8; 32]),
    Sha512([u8; 64]),
}

impl Digest {
    /// The SHA-256 digest of bytes in memory.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest::Sha256(Sha256::digest(bytes).into())
    }

    /// The name of the algorithm, as in the text form.
    pub fn algorithm(&self) -> &'static str {
        match self {
            Digest::Sha256(_) => "sha256",
            Digest::Sha512(_) => "sha512",
        }
    }

    /// The hexadecimal digits without the algorithm.
    pub fn hex(&self) -> String {
        let bytes: &[u8] = match self {
            Digest::Sha256(bytes) => bytes,
            Digest::Sha512(bytes) => bytes,
        };
        hex::encode(bytes)
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (algorithm, hex) = text.split_once(':').unwrap_or(("", text));
        let digest = match (algorithm, hex.len()) {
            ("sha256", 64) => bytes(hex).map(Digest::Sha256),
            ("sha512", 128) => bytes(hex).map(Digest::Sha512),
            _ => None,
        };
        digest.ok_or_else(|| {
            let what = "is neither sha256: with 64 nor sha512: with 128 lower-case hex digits";
            Error::refused(format!("the digest {text:?} {what}"))
        })
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm(), self.hex())
    }
}

fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut out = [0; N];
    let is_lower = !text.bytes().any(|digit| digit.is_ascii_uppercase());
    (is_lower && hex::decode_to_slice(text, &mut out).is_ok()).then_some(out)
}

/// A hash that is being computed, with the algorithm of a digest.
#[derive(Clone)]
pub enum Hasher {
    Sha256(Sha256),
    Sha512(Box<Sha512>),
}

impl Hasher {
    /// A SHA-256 hash, the algorithm of all new blobs.
    pub fn new() -> Hasher {
        Hasher::Sha256(Sha256::new())
    }

    /// A hash with the algorithm of `digest`.
    pub fn like(digest: &Digest) -> Hasher {
        match digest {
            Digest::Sha256(_) => Hasher::new(),
            Digest::Sha512(_) => Hasher::Sha512(Box::default()),
        }
    }

    /// Adds bytes to the hash.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Sha256(hash) => hash.update(bytes),
            Hasher::Sha512(hash) => hash.update(bytes),
        }
    }

    /// The internal state in hex, for [`Hasher::restored`].
    pub(crate) fn state(&self) -> String {
        match self {
            Hasher::Sha256(hash) => hex::encode(hash.serialize()),
            Hasher::Sha512(hash) => hex::encode(hash.serialize()),
        }
    }

    /// A hash that continues from a saved `state`, with the algorithm of `digest`. `None` if the state is not
    /// valid.
    pub(crate) fn restored(digest: &Digest, state: &str) -> Option<Hasher> {
        fn from<H: SerializableState>(bytes: &[u8]) -> Option<H> {
            H::deserialize(bytes.try_into().ok()?).ok()
        }
        let bytes = hex::decode(state).ok()?;
        match digest {
            Digest::Sha256(_) => from(&bytes).map(Hasher::Sha256),
            Digest::Sha512(_) => from(&bytes).map(|hash| Hasher::Sha512(Box::new(hash))),
        }
    }

    /// The digest of all bytes.
    pub fn finish(self) -> Digest {
        match self {
            Hasher::Sha256(hash) => Digest::Sha256(hash.finalize().into()),
            Hasher::Sha512(hash) => Digest::Sha512(hash.finalize().into()),
        }
    }
}

impl Default for Hasher {
    fn default() -> Self {
        Hasher::new()
    }
}

/// A writer that counts and hashes the bytes that pass through it.
pub struct HashingWriter<W> {
    inner: W,
    hash: Hasher,
    size: u64,
}

impl<W: Write> HashingWriter<W> {
    /// Wraps `inner`, with SHA-256.
    pub fn new(inner: W) -> Self {
        HashingWriter { inner, hash: Hasher::new(), size: 0 }
    }

    /// The digest of the bytes so far.
    pub fn digest(&self) -> Digest {
        self.hash.clone().finish()
    }

    /// The inner writer, and the digest and size of the bytes that passed.
    pub fn finish(self) -> (W, Digest, u64) {
        (self.inner, self.hash.finish(), self.size)
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let n = self.inner.write(data)?;
        self.hash.update(&data[..n]);
        self.size += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    const ABC: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn digests_are_read_as_they_are_written_and_nothing_else() {
        assert_eq!(ABC.parse::<Digest>().unwrap(), Digest::of(b"abc"));
        assert_eq!(Digest::of(b"abc").to_string(), ABC);
        let long = format!("sha512:{}", "0a".repeat(64));
        assert_eq!(long.parse::<Digest>().unwrap().to_string(), long);
        for bad in
            [&ABC[7..], &ABC.to_uppercase(), &ABC[..70], "sha256:", "md5:0123", "", &ABC.replace('b', "g")]
        {
            assert_eq!(bad.parse::<Digest>().unwrap_err().kind(), ErrorKind::Refused, "{bad}");
        }
    }

    #[test]
    fn a_writer_tells_digest_and_size() {
        let mut transfer_counts = HashingWriter::new(Vec::new());
        transfer_counts.write_all(b"abc").unwrap();
        assert_eq!(transfer_counts.finish(), (b"abc".to_vec(), Digest::of(b"abc"), 3));
    }
}
