//! A reading of a blob that is only whole where its bytes are the promised ones.

use crate::Error;
use crate::digest::{Digest, Hasher};
use crate::place::Reading;
use std::io::{self, Read};

/// A reader that ends with a refusal unless its bytes have exactly the promised size and digest. It never passes on
/// more bytes than were promised.
pub(crate) struct Checked<R> {
    inner: R,
    name: String,
    expected: Digest,
    left: u64,
    size: u64,
    hash: Option<Hasher>,
}

impl<R: Reading> Checked<R> {
    /// `name` is for the message: "layer 1 of docker://h/r:t".
    pub(crate) fn new(inner: R, name: impl Into<String>, expected: Digest, size: u64) -> Self {
        let hash = Some(Hasher::like(&expected));
        Checked { inner, name: name.into(), expected, left: size, size, hash }
    }

    fn end(&mut self) -> io::Result<usize> {
        let Some(hash) = self.hash.take() else { return Ok(0) };
        let mut more = [0];
        if self.inner.read(&mut more)? > 0 {
            let what = format!("{} is longer than the {} bytes its manifest promises", self.name, self.size);
            return Err(Error::refused(what).into());
        }
        let actual = hash.finish();
        if actual != self.expected {
            return Err(self.inner.wrong(&actual).into());
        }
        Ok(0)
    }
}

impl<R: Reading> Read for Checked<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        if self.left == 0 {
            return self.end();
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(out.len());
        let n = self.inner.read(&mut out[..most])?;
        if n == 0 {
            let (got, size) = (self.size - self.left, self.size);
            let what = format!("{} ends after {got} of the {size} bytes its manifest promises", self.name);
            return Err(Error::refused(what).into());
        }
        self.left -= n as u64;
        if let Some(hash) = &mut self.hash {
            hash.update(&out[..n]);
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Named;
    use crate::{ErrorKind, Result};

    const ABC: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn check(bytes: &[u8], digest: &str, size: u64) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let expected = digest.parse()?;
        let named = Named { inner: bytes, name: "the blob".into(), expected };
        let mut checked = Checked::new(named, "the blob", expected, size);
        checked.read_to_end(&mut out).map_err(|e| Error::io("reading", e))?;
        Ok(out)
    }

    #[test]
    fn only_the_promised_bytes_pass_to_the_end() {
        assert_eq!(check(b"abc", ABC, 3).unwrap(), b"abc");
        for (bytes, size, why) in [
            (&b"abd"[..], 3, "has the digest"),
            (b"ab", 3, "ends after 2 of the 3"),
            (b"abcd", 3, "longer than the 3"),
        ] {
            let e = check(bytes, ABC, size).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Refused);
            assert!(e.to_string().contains(why), "{e}");
        }
    }
}
