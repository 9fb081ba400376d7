//! The splitter's cursor in the compressed stream. Bytes that it reads or skips go to the open unit, if there
//! is one. They are not copied: a unit gets slices of the chunks that were read.

use super::shared::{Chunk, Shared, Slice};
use super::{Stop, Unit};
use std::io::{self, Read};
use std::sync::Arc;
use std::thread::JoinHandle;

type StartWorker = Box<dyn Fn() -> io::Result<JoinHandle<()>> + Send>;

pub(in super::super) struct Tape {
    input: Box<dyn Read + Send>,
    shared: Arc<Shared>,
    start_worker: StartWorker,
    workers_left: usize,
    chunk: Option<Arc<Chunk>>,
    pos: usize,
    /// Start of the open unit's bytes in this chunk.
    unit: Option<usize>,
    /// Offset of `chunk[pos]` in the compressed stream.
    offset: u64,
    ended: bool,
    /// A read error that came after some bytes.
    error: Option<io::Error>,
}

impl Tape {
    pub(super) fn new(
        input: Box<dyn Read + Send>,
        offset: u64,
        shared: Arc<Shared>,
        workers: usize,
        start_worker: StartWorker,
    ) -> Self {
        Tape {
            input,
            shared,
            start_worker,
            workers_left: workers,
            chunk: None,
            pos: 0,
            unit: None,
            offset,
            ended: false,
            error: None,
        }
    }

    pub(super) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Offset of the next byte in the compressed stream.
    pub(in super::super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next byte; `None` at the end of the input.
    pub(in super::super) fn byte(&mut self) -> Result<Option<u8>, Stop> {
        let byte = self.peek()?;
        if byte.is_some() {
            self.step(1);
        }
        Ok(byte)
    }

    /// The next byte, which stays the next one.
    pub(in super::super) fn peek(&mut self) -> Result<Option<u8>, Stop> {
        Ok(self.rest()?.first().copied())
    }

    /// Fills `out`. Returns fewer bytes only at the end of the input.
    pub(in super::super) fn take(&mut self, out: &mut [u8]) -> Result<usize, Stop> {
        let mut done = 0;
        while done < out.len() {
            let rest = self.rest()?;
            let n = rest.len().min(out.len() - done);
            if n == 0 {
                break;
            }
            out[done..done + n].copy_from_slice(&rest[..n]);
            self.step(n);
            done += n;
        }
        Ok(done)
    }

    /// Skips `n` bytes; `false` if the input ends before.
    pub(in super::super) fn pass(&mut self, mut n: u64) -> Result<bool, Stop> {
        while n > 0 {
            let step = self.rest()?.len().min(usize::try_from(n).unwrap_or(usize::MAX));
            if step == 0 {
                return Ok(false);
            }
            self.step(step);
            n -= step as u64;
        }
        Ok(true)
    }

    /// Opens a unit, which gets all bytes from here on. The codec gets `before` first: bytes of the unit that
    /// were read already.
    pub(in super::super) fn begin(&mut self, unit: Unit, before: Vec<u8>) -> Result<(), Stop> {
        let more = self.shared.begin(unit)?;
        if more && self.workers_left > 0 {
            self.workers_left -= 1;
            // The first worker exists; without this one there is only less in parallel.
            if let Err(e) = (self.start_worker)() {
                tracing::warn!("cannot start one more decoding thread: {e}");
            }
        }
        if !before.is_empty() {
            self.shared.pass(Slice::of(before))?;
        }
        self.unit = Some(self.pos);
        Ok(())
    }

    /// Ends the open unit. The codec gets its bytes and then `after`: an end of the stream that the unit itself does not have,
    /// such as the index and the footer of xz.
    pub(in super::super) fn end(&mut self, after: Vec<u8>) -> Result<(), Stop> {
        self.flush()?;
        self.unit = None;
        if !after.is_empty() {
            self.shared.pass(Slice::of(after))?;
        }
        self.shared.close(true);
        Ok(())
    }

    pub(super) fn finish(&mut self, result: Result<(), Stop>) {
        // The bytes of an unfinished unit are decoded as far as they go.
        if self.unit.is_some() {
            let _ = self.flush();
        }
        self.chunk = None;
        match result {
            Ok(()) => self.shared.finish(Ok(())),
            Err(Stop::Error(e)) => self.shared.finish(Err(e)),
            // Another thread has reported its error to the reader, or the reader is gone.
            Err(Stop::Gone) => self.shared.finish(Ok(())),
        }
    }

    fn step(&mut self, n: usize) {
        self.pos += n;
        self.offset += n as u64;
    }

    /// The buffered bytes; at least one unless the input has ended.
    fn rest(&mut self) -> Result<&[u8], Stop> {
        let len = self.chunk.as_ref().map_or(0, |chunk| chunk.bytes().len());
        if self.pos == len && !self.ended {
            self.refill()?;
        }
        Ok(self.chunk.as_ref().map_or(&[], |chunk| &chunk.bytes()[self.pos..]))
    }

    fn refill(&mut self) -> Result<(), Stop> {
        self.flush()?;
        self.chunk = None;
        self.pos = 0;
        if self.unit.is_some() {
            self.unit = Some(0);
        }
        if let Some(e) = self.error.take() {
            return Err(Stop::Error(e));
        }
        let mut chunk = self.shared.packed_chunk()?;
        while !chunk.room().is_empty() {
            match self.input.read(chunk.room()) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(n) => chunk.grow(n),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if chunk.bytes().is_empty() => return Err(Stop::Error(e)),
                Err(e) => {
                    self.error = Some(e);
                    break;
                }
            }
        }
        self.chunk = Some(Arc::new(chunk));
        Ok(())
    }

    /// Gives the passed bytes of this chunk to the open unit.
    fn flush(&mut self) -> Result<(), Stop> {
        if let (Some(from), Some(chunk)) = (self.unit, &self.chunk)
            && self.pos > from
        {
            self.shared.pass(Slice::new(chunk.clone(), from..self.pos))?;
            self.unit = Some(self.pos);
        }
        Ok(())
    }
}
