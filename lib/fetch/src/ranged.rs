//! Files whose bytes can be requested from any offset, and the receivers of the bytes.

use crate::{Permit, Result, runtime};
use bytes::Bytes;
use std::ops::Range;

/// A file of known size whose bytes can be requested from any offset. The implementation chooses the servers,
/// checks the bytes and handles broken connections.
pub trait Ranged: Send + Sync + 'static {
    /// The name for messages.
    fn name(&self) -> &str;

    fn size(&self) -> u64;

    /// The first bytes, as far as they are here already.
    fn head(&self) -> Bytes {
        Bytes::new()
    }

    /// Sends exactly the bytes of a part (not empty, inside the file) to `sink`, in order.
    fn transfer<S: PartSink>(&self, part: Part, sink: &mut S) -> impl Future<Output = Result<()>> + Send;

    /// True if ranges were requested and no server supports them: the file comes in one answer, or not at
    /// all.
    fn comes_whole(&self) -> bool {
        false
    }
}

/// A part of a file.
#[derive(Debug, Clone)]
pub struct Part {
    /// Offsets of the part.
    pub range: Range<u64>,
    pub expect: Expect,
    /// The number of parts under way at once, which share the rate.
    pub share: usize,
}

/// The expected form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Just this range; the transfer ends at once if the server sends the whole file.
    Probe,
    /// Just this range. A server that sends the whole file is not used.
    Piece,
    /// If the server sends the whole file, the bytes before the range are skipped.
    Anything,
}

/// A receiver of bytes as they come.
pub trait PartSink: Send + Sync {
    /// True if a reader is blocked while the transfer waits for its permit: that time counts for the
    /// concurrency limit. False for a transfer that reads ahead.
    const READER_WAITS: bool;

    /// Takes the next bytes. It may wait for room, and then gives the permit up: a transfer whose reader has
    /// paused must not keep others from the network.
    fn take(&mut self, bytes: Bytes, permit: &mut Option<Permit<'_>>) -> impl Future<Output = ()> + Send;
}

/// Runs a transfer on the calling thread.
pub(crate) fn on_this_thread(file: &impl Ranged, range: Range<u64>, sink: &mut impl PartSink) -> Result<()> {
    let part = Part { range, expect: Expect::Piece, share: 1 };
    runtime()?.block_on(file.transfer(part, sink))
}
