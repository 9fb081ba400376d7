//! A file whose bytes can be asked for from any offset, and what takes them.

use crate::{Permit, Result, runtime};
use bytes::Bytes;
use std::ops::Range;

/// A file of known size whose bytes can be asked for from any offset. Which servers they come from, how they are checked
/// and what happens when a connection breaks is its own affair.
pub trait Ranged: Send + Sync + 'static {
    /// The name for people.
    fn name(&self) -> &str;

    /// Its size.
    fn size(&self) -> u64;

    /// Its first bytes, as far as they are here already.
    fn head(&self) -> Bytes {
        Bytes::new()
    }

    /// Sends exactly the bytes of a part (not empty, inside the file) to `sink`, in order.
    fn transfer<S: PartSink>(&self, part: Part, sink: &mut S) -> impl Future<Output = Result<()>> + Send;

    /// Ranges were asked for and nobody serves them: all of it comes in one answer, or not at all.
    fn comes_whole(&self) -> bool {
        false
    }
}

/// A part of a file.
#[derive(Debug, Clone)]
pub struct Part {
    /// Its bytes.
    pub range: Range<u64>,
    /// What is expected of a server.
    pub expect: Expect,
    /// How many parts are under way at once, and share the rate.
    pub share: usize,
}

/// What is expected of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Just this range, or an end at once if it sends everything.
    Probe,
    /// Just this range. Who sends everything instead is not the one.
    Piece,
    /// If it sends everything, what comes before is passed over.
    Anything,
}

/// Takes bytes as they come.
pub trait PartSink: Send + Sync {
    /// Whether somebody waits from the first moment; a transfer ahead of its reader waits for its turn for nothing.
    const SOMEONE_WAITS: bool;

    /// Takes the next bytes. It may wait for room, and then gives the permit up: a transfer that nobody reads must not
    /// keep others from the network.
    fn take(&mut self, bytes: Bytes, permit: &mut Option<Permit<'_>>) -> impl Future<Output = ()> + Send;
}

/// Runs a transfer on the calling thread.
pub(crate) fn on_this_thread(file: &impl Ranged, range: Range<u64>, sink: &mut impl PartSink) -> Result<()> {
    let part = Part { range, expect: Expect::Piece, share: 1 };
    runtime()?.block_on(file.transfer(part, sink))
}
