//! Output that joins small adjacent writes, and names the part of the file in errors.

use super::write_at::WriteAt;
use crate::{Error, Format, Result};

/// Bytes that are collected before they are written.
const COLLECT: usize = 1 << 20;
/// Size from which a write is not copied into the buffer.
const LARGE: usize = 256 << 10;
/// Granularity of holes in files.
const PAGE: usize = 4 << 10;

pub(super) struct Output<W> {
    to: W,
    pending: Vec<u8>,
    pending_at: u64,
}

impl<W: WriteAt> Output<W> {
    pub(super) fn new(to: W) -> Self {
        Output { to, pending: Vec::new(), pending_at: 0 }
    }

    /// Writes the guest's data. Small adjacent pieces are joined.
    pub(super) fn data(&mut self, bytes: &[u8], at: u64) -> Result<()> {
        let follows = self.pending_at + self.pending.len() as u64 == at;
        if !follows || bytes.len() >= LARGE || self.pending.len() + bytes.len() > COLLECT {
            self.flush()?;
        }
        if bytes.len() >= LARGE {
            return self.write_data(bytes, at);
        }
        if self.pending.is_empty() {
            self.pending_at = at;
            self.pending.reserve_exact(COLLECT);
        }
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes zeros after data. Short ones are joined.
    pub(super) fn pad(&mut self, len: u64, at: u64) -> Result<()> {
        const ZEROS: [u8; 4096] = [0; 4096];
        match ZEROS.get(..len as usize) {
            Some(zeros) => self.data(zeros, at),
            None => self.zero("padding", len, at),
        }
    }

    pub(super) fn write(&mut self, what: &str, bytes: &[u8], at: u64) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.to.write_all_at(bytes, at).map_err(|e| failed(what, at, e))
    }

    fn write_data(&mut self, bytes: &[u8], at: u64) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.to.write_data_at(bytes, at).map_err(|e| failed("data", at, e))
    }

    /// Writes a table. The zeros at its end are left to the target, which may know that they exist already.
    pub(super) fn table(&mut self, what: &str, bytes: &[u8], at: u64) -> Result<()> {
        let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |i| i + 1);
        let used = used.next_multiple_of(PAGE).min(bytes.len());
        self.write(what, &bytes[..used], at)?;
        self.zero(what, (bytes.len() - used) as u64, at + used as u64)
    }

    pub(super) fn zero(&mut self, what: &str, len: u64, at: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        self.to.zero_at(len, at).map_err(|e| failed(what, at, e))
    }

    pub(super) fn flush(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        let result = self.write_data(&pending, self.pending_at);
        self.pending = pending;
        self.pending.clear();
        result
    }

    pub(super) fn into_inner(self) -> W {
        self.to
    }
}

fn failed(what: &str, at: u64, e: std::io::Error) -> Error {
    Error::io(Format::Qcow2, format!("cannot write {what}"), at, e)
}
