//! Independent units of a compressed stream, decoded in parallel and passed on in order. Size and zeros: the
//! codec's.
//!
//! ```text
//!            splitter thread                    worker threads                 the reader
//!  input ─► Tape: walks the container ─► lane 3 ░░░            ░ packed chunks
//!           without decoding it,         lane 2 ░░░░░ ─codec─► ▓▓▓   plain chunks wait
//!           one lane per unit            lane 1 ░░ ────codec─► ▓ ──────────────────────► read(): the head lane
//! ```
//!
//! A unit's size need not be known beforehand: its chunks flow while its end is being searched. The head lane
//! passes its output on at once; lanes behind it decode ahead as far as memory allows. So a stream of one
//! unit is a plain pipeline of three threads, and a stream of many uses all workers.
//!
//! **Memory.** Everything is counted: packed chunks, plain chunks, and the memory of running codecs. The
//! rules are in `shared.rs`. In short, the head lane can always go on, and every other thread waits when the
//! bound is reached. Units whose codec does not fit next to the others wait until they are the head. So there
//! are fewer in parallel, but never a deadlock.
//!
//! **Confinement.** Both kinds of threads give up all rights but memory and open descriptors
//! ([`guard::confine::parser`]), so the input must have been opened before.
//!
//! **Failure.** Bytes decoded before an error are passed on first, then the error, once, and no read after it
//! ever reports the end. Threads end by themselves when the reader is dropped, at the latest after the
//! input's read they are in.

mod shared;
mod tape;
#[cfg(test)]
mod tests;
mod worker;

pub(super) use tape::Tape;

use super::holes::HoleRead;
use super::{Boundary, OnBoundary, Opened, StagedBudget};
use crate::{Error, Result};
use guard::confine::parser;
use shared::{Chunk, Next, Shared};
use std::io::{self, Read};
use std::sync::Arc;
use std::thread;

/// Bytes of each packed and plain chunk.
const CHUNK: usize = 256 << 10;

/// Least memory of the lanes besides the codecs: input chunks, and the head lane's output.
pub(super) const BUFFERS: u64 = ((shared::LEAST_PACKED + shared::HEAD_PLAIN + 2) * CHUNK) as u64;

/// The reason why a thread stops.
pub(super) enum Stop {
    /// The reader was dropped, or another thread has failed.
    Gone,
    Error(io::Error),
}

impl From<io::Error> for Stop {
    fn from(e: io::Error) -> Self {
        Stop::Error(e)
    }
}

/// A part of the stream that can be decoded by itself.
pub(super) struct Unit {
    /// Offset in the compressed stream.
    pub(super) at: u64,
    /// Memory of its codec.
    pub(super) memory: u64,
    /// Packed bytes worth reading ahead while it is alone: to reach the next unit, if that is near enough.
    pub(super) ahead: u64,
    /// State for a decoder that enters here.
    pub(super) boundary: Vec<u8>,
}

/// Packed bytes read ahead of a unit whose end is not known.
pub(super) const AHEAD: u64 = 8 << 20;

/// The splitter of a format: parses a container and cuts it into units.
pub(super) trait Split: Send + 'static {
    /// Parses all of the input: `tape.begin(..)`, pass the unit's bytes, `tape.end(..)`, and so on.
    fn split(&mut self, tape: &mut Tape) -> Result<(), Stop>;
}

/// The decoder of a format: decodes units, one after the other. Each worker has its own.
pub(super) trait Codec: Send + 'static {
    /// Starts a unit at this offset of the compressed stream. `memory`: its need, as the splitter stated it.
    fn start(&mut self, at: u64, memory: u64) -> io::Result<()>;

    /// Decodes some bytes. Returns the bytes taken and made; both are 0 only if the codec needs more input.
    fn step(&mut self, packed: &[u8], plain: &mut [u8]) -> io::Result<(usize, usize)>;

    /// Ends a unit after its last byte. Fails if the bytes were not one complete unit; `left`: the codec did
    /// not take all.
    fn end(&mut self, left: bool) -> io::Result<()>;
}

/// Starts the threads. `extra`: bound for memory besides the head's codec, however large the budget is.
pub(super) fn open<S: Split, C: Codec>(
    name: &'static str,
    input: Box<dyn Read + Send>,
    mut splitter: S,
    codec: impl Fn() -> C + Send + Sync + 'static,
    (room, extra): (StagedBudget, u64),
    from: &Boundary,
    on_boundary: Option<OnBoundary>,
) -> Result<Opened> {
    let shared = Arc::new(Shared::new(room.at_first, extra));
    let start_worker = {
        let shared = shared.clone();
        let codec = Arc::new(codec);
        move || {
            let (shared, codec) = (shared.clone(), codec.clone());
            let thread = thread::Builder::new().name(format!("{name}-decode"));
            thread.spawn(move || {
                parser();
                worker::run(&shared, codec());
            })
        }
    };
    let no_thread = |e| Error::failed(format!("cannot start the threads of {name}")).because(e);
    start_worker().map_err(no_thread)?;
    let more_workers = room.budget.threads.saturating_sub(1);
    let mut tape = Tape::new(input, from.input, shared.clone(), more_workers, Box::new(start_worker));
    thread::Builder::new()
        .name(format!("{name}-split"))
        .spawn(move || {
            parser();
            let guard = shared::Guard::new(tape.shared());
            let result = splitter.split(&mut tape);
            tape.finish(result);
            guard.calm();
        })
        .map_err(no_thread)?;
    let allow = {
        let shared = shared.clone();
        Box::new(move |memory| shared.allow(memory))
    };
    let reader = Lanes {
        shared,
        chunk: None,
        handed: from.output,
        entered: from.output,
        on_boundary,
        state: State::Running,
    };
    Ok(Opened { reader: Box::new(reader), allow: Some(allow) })
}

/// The reader's side of the lanes.
struct Lanes {
    shared: Arc<Shared>,
    chunk: Option<(Chunk, usize)>,
    handed: u64,
    entered: u64,
    on_boundary: Option<OnBoundary>,
    state: State,
}

enum State {
    Running,
    Ended,
    Failed,
}

impl HoleRead for Lanes {}

impl Read for Lanes {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some((chunk, at)) = &mut self.chunk {
                let bytes = &chunk.bytes()[*at..];
                let n = bytes.len().min(out.len());
                out[..n].copy_from_slice(&bytes[..n]);
                *at += n;
                self.handed += n as u64;
                if n > 0 {
                    return Ok(n);
                }
                self.chunk = None;
            }
            match self.state {
                State::Running => self.next()?,
                State::Ended => return Ok(0),
                State::Failed => return Err(io::Error::other("the stream has already failed")),
            }
        }
    }
}

impl Lanes {
    fn next(&mut self) -> io::Result<()> {
        match self.shared.next_plain() {
            Next::Chunk(chunk) => self.chunk = Some((chunk, 0)),
            // All bytes before it were returned by earlier reads: this one has copied nothing yet.
            Next::Unit { input, state } => {
                if let Some(on_boundary) = self.on_boundary.as_ref().filter(|_| self.handed > self.entered) {
                    on_boundary(Boundary { input, output: self.handed, state });
                }
            }
            Next::End => self.state = State::Ended,
            Next::Failed(e) => {
                self.state = State::Failed;
                return Err(e);
            }
        }
        Ok(())
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.shared.leave();
    }
}
