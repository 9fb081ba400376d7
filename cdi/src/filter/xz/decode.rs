//! One block through liblzma, as a small stream of its own.

use super::broken;
use super::container::STREAM_HEADER;
use crate::filter::lanes::Codec;
use std::io;
use xz2::stream::{Action, Error, Status, Stream};

/// liblzma's state for the present block.
#[derive(Default)]
pub(super) struct Decoder {
    stream: Option<Stream>,
    at: u64,
    ended: bool,
}

impl Codec for Decoder {
    fn start(&mut self, at: u64, memory: u64) -> io::Result<()> {
        // The dictionary of the previous block is freed before the new one is allocated.
        self.stream = None;
        self.at = at;
        self.ended = false;
        self.stream = Some(Stream::new_stream_decoder(memory, 0).map_err(|e| describe(e, at))?);
        Ok(())
    }

    fn step(&mut self, packed: &[u8], plain: &mut [u8]) -> io::Result<(usize, usize)> {
        let Some(stream) = self.stream.as_mut().filter(|_| !self.ended) else { return Ok((0, 0)) };
        let (taken, made) = (stream.total_in(), stream.total_out());
        let status = stream.process(packed, plain, Action::Run);
        let (taken, made) = (stream.total_in() - taken, stream.total_out() - made);
        match status {
            Ok(Status::StreamEnd) => self.ended = true,
            Ok(Status::Ok | Status::GetCheck | Status::MemNeeded) => {}
            Err(e) => return Err(describe(e, self.place())),
        }
        Ok((taken as usize, made as usize))
    }

    fn end(&mut self, left: bool) -> io::Result<()> {
        // Frees the dictionary while this worker waits.
        let stream = self.stream.take();
        match (self.ended, stream) {
            (true, Some(_)) if !left => Ok(()),
            _ => Err(broken(self.at, "a block's LZMA2 data does not end where its chunks do")),
        }
    }
}

impl Decoder {
    /// The approximate position of liblzma in the file. It got the stream header in front of the block.
    fn place(&self) -> u64 {
        let fed = self.stream.as_ref().map_or(0, Stream::total_in);
        self.at + fed.saturating_sub(STREAM_HEADER as u64)
    }
}

fn describe(e: Error, at: u64) -> io::Error {
    match e {
        Error::Data => {
            broken(at, "the block is broken before here: its data or its integrity check is wrong")
        }
        Error::Options => broken(at, "the block uses filter options that liblzma does not know"),
        Error::Mem | Error::MemLimit => broken(at, "the block needs more memory than its header says"),
        other => broken(at, format_args!("liblzma refuses the block: {other}")),
    }
}
