//! Compares the digest of all bytes at their end. Size and zeros: unchanged.
//!
//! It hashes inside `read`, so it costs nothing extra where that read runs on a thread of its own: `convert::facts` puts
//! it directly on the source, and [`super::stack`] reads the source on the splitter's thread or on one that runs ahead.
//! The digest is over the source's own bytes, before decompression. It is only compared once everything has been
//! read: whoever stops early has checked nothing.

use crate::{Error, Result};
use sha2::Digest as _;
use sha2::{Sha256, Sha512};
use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

/// What the bytes should hash to: `sha256:HEX`, `sha512:HEX`, or bare hex, whose length tells which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Digest {
    /// SHA-256.
    Sha256([u8; 32]),
    /// SHA-512.
    Sha512([u8; 64]),
}

impl Digest {
    /// The name of the algorithm.
    pub fn algorithm(&self) -> &'static str {
        match self {
            Digest::Sha256(_) => "sha256",
            Digest::Sha512(_) => "sha512",
        }
    }

    fn hex(&self) -> String {
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
        let (algorithm, hex) = match text.split_once(':') {
            Some((algorithm, hex)) => (Some(algorithm.to_ascii_lowercase()), hex),
            None => (None, text),
        };
        let digest = match (algorithm.as_deref(), hex.len()) {
            (None | Some("sha256"), 64) => bytes(hex).map(Digest::Sha256),
            (None | Some("sha512"), 128) => bytes(hex).map(Digest::Sha512),
            _ => None,
        };
        digest.ok_or_else(|| {
            let what = format!(
                "the checksum {text:?} is neither sha256:HEX with 64 hex digits nor sha512:HEX with 128"
            );
            Error::new(crate::ErrorKind::Usage, what)
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
    hex::decode_to_slice(text, &mut out).ok().map(|()| out)
}

/// A reader that ends with an error if its bytes were not the expected ones.
pub struct Verify<R> {
    inner: R,
    expected: Digest,
    state: State,
}

enum State {
    Sha256(Sha256),
    Sha512(Box<Sha512>),
    Right,
    Wrong(Digest),
}

impl<R: Read> Verify<R> {
    /// Expects the bytes of `inner` to have this digest.
    pub fn new(inner: R, expected: Digest) -> Self {
        let state = match expected {
            Digest::Sha256(_) => State::Sha256(Sha256::new()),
            Digest::Sha512(_) => State::Sha512(Box::default()),
        };
        Verify { inner, expected, state }
    }

    fn compare(&mut self) -> io::Result<usize> {
        let actual = match &mut self.state {
            State::Sha256(hash) => Digest::Sha256(hash.finalize_reset().into()),
            State::Sha512(hash) => Digest::Sha512(hash.finalize_reset().into()),
            State::Right => self.expected,
            State::Wrong(actual) => *actual,
        };
        if actual == self.expected {
            self.state = State::Right;
            return Ok(0);
        }
        self.state = State::Wrong(actual);
        let (name, actual, expected) = (actual.algorithm(), actual.hex(), self.expected.hex());
        Err(Error::of_bytes(format!("checksum mismatch: {name} is {actual}, expected {expected}")).into())
    }
}

impl<R: Read> Read for Verify<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let n = match self.state {
            State::Right | State::Wrong(_) => 0,
            _ => self.inner.read(out)?,
        };
        match &mut self.state {
            _ if n == 0 => return self.compare(),
            State::Sha256(hash) => hash.update(&out[..n]),
            State::Sha512(hash) => hash.update(&out[..n]),
            State::Right | State::Wrong(_) => {}
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    const ABC_256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const ABC_512: &str = "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f";

    fn check(bytes: &[u8], digest: &str) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        Verify::new(bytes, digest.parse()?).read_to_end(&mut out).map_err(|e| Error::io("reading", e))?;
        Ok(out)
    }

    #[test]
    fn the_right_bytes_pass_under_every_spelling() {
        let spellings = [
            ABC_256.to_owned(),
            format!("sha256:{ABC_256}"),
            format!("SHA256:{}", ABC_256.to_uppercase()),
            ABC_512.to_owned(),
            format!("sha512:{ABC_512}"),
        ];
        for spelling in spellings {
            assert_eq!(check(b"abc", &spelling).unwrap(), b"abc", "{spelling}");
        }
        let digest: Digest = ABC_256.parse().unwrap();
        assert_eq!(digest.to_string(), format!("sha256:{ABC_256}"));
    }

    #[test]
    fn other_bytes_are_refused_again_and_again() {
        for bytes in [&b"abd"[..], b"ab", b"abc\0", b""] {
            let mut reader = Verify::new(bytes, ABC_256.parse().unwrap());
            for _ in 0..3 {
                let e = Error::io("reading", reader.read_to_end(&mut Vec::new()).unwrap_err());
                assert_eq!(e.kind(), ErrorKind::Refused);
                let sentence = e.to_string();
                assert!(sentence.starts_with("checksum mismatch: sha256 is "), "{sentence}");
                assert!(sentence.ends_with(&format!(", expected {ABC_256}")), "{sentence}");
            }
        }
    }

    #[test]
    fn what_is_no_digest_is_a_usage_error() {
        let bad =
            ["", "abc", "sha256:", "md5:900150983cd24fb0d6963f7d28e17f72", &format!("sha512:{ABC_256}")];
        for text in bad.into_iter().chain([&*ABC_256.replace('b', "g"), &*format!("+{}", &ABC_256[1..])]) {
            assert_eq!(text.parse::<Digest>().unwrap_err().kind(), ErrorKind::Usage, "{text}");
        }
    }
}
