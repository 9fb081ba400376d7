//! One frame through libzstd.

use super::{CODEC, broken};
use crate::filter::lanes::Codec;
use std::io;
use zstd::zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, get_error_name};

/// A context above this size is freed between frames. A smaller one is kept, since a new one is costly for
/// small frames.
const KEEP: u64 = 8 << 20;

/// libzstd's state for the present frame.
#[derive(Default)]
pub(super) struct Decoder {
    context: Option<DCtx<'static>>,
    memory: u64,
    at: u64,
    taken: u64,
    ended: bool,
}

impl Codec for Decoder {
    fn start(&mut self, at: u64, memory: u64) -> io::Result<()> {
        if self.memory > KEEP {
            self.context = None;
        }
        (self.at, self.taken, self.ended, self.memory) = (at, 0, false, memory);
        let context = self.context.get_or_insert_with(DCtx::create);
        context.init().map_err(|e| describe(e, at))?;
        // Rounded up: the splitter has already compared the exact window with the budget.
        let window = memory.saturating_sub(CODEC).max(1 << 10);
        let log = window.checked_next_power_of_two().map_or(u64::BITS, u64::trailing_zeros);
        if log > MAX_LOG {
            return Err(broken(
                at,
                format_args!("a window of {window} bytes is more than libzstd can use (2 GiB)"),
            ));
        }
        context.set_parameter(DParameter::WindowLogMax(log)).map_err(|e| describe(e, at))?;
        Ok(())
    }

    fn step(&mut self, packed: &[u8], plain: &mut [u8]) -> io::Result<(usize, usize)> {
        let Some(context) = self.context.as_mut().filter(|_| !self.ended) else { return Ok((0, 0)) };
        let mut input = InBuffer::around(packed);
        let mut output = OutBuffer::around(plain);
        let hint = context
            .decompress_stream(&mut output, &mut input)
            .map_err(|e| describe(e, self.at + self.taken))?;
        let (taken, made) = (input.pos, output.pos());
        self.taken += taken as u64;
        self.ended = hint == 0;
        Ok((taken, made))
    }

    fn end(&mut self, left: bool) -> io::Result<()> {
        if self.memory > KEEP {
            self.context = None;
        }
        match self.ended && !left {
            true => Ok(()),
            false => Err(broken(self.at, "a frame does not end where its blocks do")),
        }
    }
}

#[cfg(target_pointer_width = "64")]
const MAX_LOG: u32 = 31;
#[cfg(not(target_pointer_width = "64"))]
const MAX_LOG: u32 = 30;

fn describe(code: usize, at: u64) -> io::Error {
    broken(at, format_args!("libzstd refuses the frame near here: {}", get_error_name(code)))
}
