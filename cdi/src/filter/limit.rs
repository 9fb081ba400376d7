//! Limit for decompression bombs: an error as soon as more bytes come out than are allowed, or a header
//! announces more. Size and zeros: unchanged.

use super::Layer;
use super::holes::HoleRead;
use crate::Error;
use fetch::Decoded;
use std::io::{self, Read};

/// A reader with a limit for the number of its bytes.
pub struct Limited<R> {
    inner: R,
    layer: Layer,
    limit: u64,
    left: u64,
    /// True once the limit is exceeded: a later read must not look like a successful end.
    passed: bool,
    decoded: Decoded,
}

impl<R: Read> Limited<R> {
    /// `layer` is named in the error; `passed` bytes of the limit are used up already (decoding was entered
    /// there).
    pub fn new(inner: R, layer: Layer, limit: u64, passed: u64) -> Self {
        let left = limit.saturating_sub(passed);
        Limited { inner, layer, limit, left, passed: false, decoded: Decoded::default() }
    }

    /// Adds the output of a compression to `decoded`; an archive only passes on what it has taken.
    pub fn counting(self, decoded: &Decoded) -> Self {
        match self.layer {
            Layer::Tar => self,
            Layer::Gzip | Layer::Xz | Layer::Zstd => Limited { decoded: decoded.clone(), ..self },
        }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !out.is_empty() {
            // Exactly the limit is allowed: only a further byte is too much.
            self.passed = self.passed || self.inner.read(&mut [0])? > 0;
            return if self.passed { Err(self.refusal()) } else { Ok(0) };
        }
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(out.len());
        let n = self.inner.read(&mut out[..most])?;
        self.left -= n as u64;
        self.decoded.add(n as u64);
        Ok(n)
    }
}

impl<R: HoleRead> HoleRead for Limited<R> {
    fn skip_hole(&mut self, unit: u64, most: u64) -> io::Result<u64> {
        let skipped = self.inner.skip_hole(unit, most.min(self.left))?;
        self.left = self.left.saturating_sub(skipped);
        Ok(skipped)
    }

    fn size(&self) -> Option<u64> {
        self.inner.size()
    }

    fn holes(&self) -> u64 {
        self.inner.holes()
    }
}

impl<R> Limited<R> {
    fn refusal(&self) -> io::Error {
        refusal(self.layer, "passed", self.limit).into()
    }
}

/// The error for a layer that gives more bytes than `limit`.
pub(super) fn refusal(layer: Layer, verb: &str, limit: u64) -> Error {
    let limit = size(limit);
    Error::of_bytes(format!(
        "decompression ({layer}) {verb} {limit}, the limit; if the disk is really that large, raise it with --max-size"
    ))
}

/// A size as text: exact, in the largest unit that keeps it exact.
fn size(bytes: u64) -> String {
    let unit = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match unit.into_iter().find(|(bits, _)| bytes > 0 && bytes.trailing_zeros() >= *bits) {
        Some((bits, name)) => format!("{} {name}", bytes >> bits),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn read(bytes: usize, limit: u64, passed: u64) -> Result<usize, Error> {
        let input = io::Cursor::new(vec![7; bytes]);
        let mut out = Vec::new();
        Limited::new(input, Layer::Gzip, limit, passed)
            .read_to_end(&mut out)
            .map_err(|e| Error::io("reading", e))
    }

    #[test]
    fn exactly_the_limit_is_allowed_and_one_byte_more_is_refused() {
        assert_eq!(read(4096, 4096, 0).unwrap(), 4096);
        assert_eq!(read(0, 0, 0).unwrap(), 0);
        assert_eq!(read(96, 4096, 4000).unwrap(), 96);
        for e in [read(4097, 4096, 0).unwrap_err(), read(97, 4096, 4000).unwrap_err()] {
            assert_eq!(e.kind(), ErrorKind::Refused);
            assert!(e.to_string().starts_with("decompression (gzip) passed 4 KiB, the limit"), "{e}");
        }
    }

    #[test]
    fn what_passed_the_limit_does_not_end_well_afterwards() {
        let mut limited = Limited::new(io::Cursor::new([7; 11]), Layer::Gzip, 10, 0);
        assert_eq!(limited.read(&mut [0; 100]).unwrap(), 10);
        for _ in 0..3 {
            limited.read(&mut [0; 100]).unwrap_err();
        }
    }

    #[test]
    fn sizes_are_exact() {
        assert_eq!(size(20 << 30), "20 GiB");
        assert_eq!(size(3 << 19), "1536 KiB");
        assert_eq!(size(1001), "1001 bytes");
        assert_eq!(size(0), "0 bytes");
    }
}
