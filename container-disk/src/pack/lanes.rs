//! Pieces packed on several threads, handed on in order.
//!
//! Piece `i` goes to lane `i mod n` and comes back from there, so nothing is ever out of order and nobody has to sort.
//! Each lane holds at most two pieces; who brings a third waits for the first. A lane's thread can open nothing
//! ([`guard::confine::parser`]).

use super::packer::{Compression, Packer};
use crate::{Error, Result};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// A piece of tar, and what it becomes. Both buffers are used again.
#[derive(Default)]
pub(super) struct Piece {
    pub(super) plain: Vec<u8>,
    pub(super) packed: Vec<u8>,
}

/// The lanes.
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    /// Pieces brought, and pieces taken out.
    brought: usize,
    taken: usize,
}

struct Lane {
    to: SyncSender<Piece>,
    from: Receiver<io::Result<Piece>>,
}

/// Pieces in one lane.
pub(super) const DEPTH: usize = 2;

impl Lanes {
    pub(super) fn new(compression: Compression, count: usize) -> Result<Lanes> {
        let lanes = (0..count.max(1)).map(|_| lane(compression)).collect::<Result<_>>()?;
        Ok(Lanes { lanes, brought: 0, taken: 0 })
    }

    /// Whether a piece must be taken out before another is brought.
    pub(super) fn is_full(&self) -> bool {
        self.brought - self.taken >= self.lanes.len() * DEPTH
    }

    pub(super) fn bring(&mut self, piece: Piece) -> Result<()> {
        let lane = &self.lanes[self.brought % self.lanes.len()];
        self.brought += 1;
        lane.to.send(piece).map_err(|_| ended())
    }

    /// The next packed piece; `None` when all are out.
    pub(super) fn take(&mut self) -> Result<Option<Piece>> {
        if self.taken == self.brought {
            return Ok(None);
        }
        let lane = &self.lanes[self.taken % self.lanes.len()];
        self.taken += 1;
        let piece = lane.from.recv().map_err(|_| ended())?;
        piece.map(Some).map_err(|e| Error::io("cannot compress the layer", e))
    }
}

fn lane(compression: Compression) -> Result<Lane> {
    let (to, pieces) = sync_channel::<Piece>(DEPTH);
    let (back, from) = sync_channel(DEPTH);
    let work = move || {
        guard::confine::parser();
        let mut packer = Packer::new(compression);
        for mut piece in pieces {
            let packed = packer.pack(&piece.plain, &mut piece.packed);
            if back.send(packed.map(|()| piece)).is_err() {
                return;
            }
        }
    };
    let started = thread::Builder::new().name("pack".into()).spawn(work);
    started.map_err(|e| Error::io("cannot start a thread that compresses", e))?;
    Ok(Lane { to, from })
}

fn ended() -> Error {
    Error::failed("a thread that compresses has ended before its work; this is a fault of the program")
}
