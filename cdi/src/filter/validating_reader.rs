//! Checks of an image file that passes unchanged.

use super::holes::HoleRead;
use crate::{Error, Result};
use disk_format::Limits;
use disk_format::validate::{Validator, Verdict};
use std::io::{self, Read};

/// A reader that returns the same bytes, and an error before their end if they are not a valid image.
pub(crate) struct ValidatingReader<R> {
    inner: R,
    name: String,
    judge: Option<Validator>,
}

impl<R: Read> ValidatingReader<R> {
    pub(crate) fn new(inner: R, name: &str, limits: Limits) -> Self {
        ValidatingReader { inner, name: name.to_owned(), judge: Some(Validator::new(limits)) }
    }

    fn judge(&mut self, bytes: &[u8]) -> Result<()> {
        let refused = |e: disk_format::Error| Error::from(e);
        if !bytes.is_empty() {
            return self.judge.as_mut().map_or(Ok(()), |judge| judge.push(bytes)).map_err(refused);
        }
        match self.judge.take().map(Validator::finish).transpose().map_err(refused)? {
            Some(Verdict::Unknown(format)) => Err(Error::refused(format!(
                "{}: the tables of this {} come too late in the stream to be checked; give it as a file, or let it be \
                 written anew: --format qcow2",
                self.name,
                format.name()
            ))),
            Some(Verdict::Sound(_)) | None => Ok(()),
        }
    }
}

impl<R: Read> Read for ValidatingReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let n = self.inner.read(out)?;
        self.judge(&out[..n]).map_err(io::Error::other)?;
        Ok(n)
    }
}

// Zeros are checked like all other bytes, so none are skipped.
impl<R: Read> HoleRead for ValidatingReader<R> {}
