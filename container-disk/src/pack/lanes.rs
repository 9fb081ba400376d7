//! Compression of pieces on several threads, with the results in order.
//!
//! Piece `i` goes to lane `i mod n` and its result comes back from there, so the order is kept without
//! sorting. Each lane holds at most two pieces; adding a third waits for the first. A lane's thread cannot
//! open files or sockets ([`guard::confine::parser`]). A piece is one buffer: it goes in plain and comes back
//! compressed, and the lane keeps the plain buffer for the result of the next piece.

use super::packer::{Compression, Packer};
use crate::{Error, Result};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// The compressing threads of a layer.
pub(super) struct Lanes {
    lanes: Vec<Lane>,
    /// Number of pieces added.
    brought: usize,
    /// Number of results taken.
    taken: usize,
}

struct Lane {
    to: SyncSender<Vec<u8>>,
    from: Receiver<io::Result<Vec<u8>>>,
}

/// Pieces per lane, besides the buffer that it keeps.
pub(super) const DEPTH: usize = 2;

impl Lanes {
    pub(super) fn new(compression: Compression, count: usize) -> Result<Lanes> {
        let lanes = (0..count.max(1)).map(|_| lane(compression)).collect::<Result<_>>()?;
        Ok(Lanes { lanes, brought: 0, taken: 0 })
    }

    /// True if a result must be taken before another piece is added.
    pub(super) fn is_full(&self) -> bool {
        self.brought - self.taken >= self.lanes.len() * DEPTH
    }

    pub(super) fn bring(&mut self, plain: Vec<u8>) -> Result<()> {
        let lane = &self.lanes[self.brought % self.lanes.len()];
        self.brought += 1;
        lane.to.send(plain).map_err(|_| ended())
    }

    /// The next compressed piece; `None` after the last one.
    pub(super) fn take(&mut self) -> Result<Option<Vec<u8>>> {
        if self.taken == self.brought {
            return Ok(None);
        }
        let lane = &self.lanes[self.taken % self.lanes.len()];
        self.taken += 1;
        let packed = lane.from.recv().map_err(|_| ended())?;
        packed.map(Some).map_err(|e| Error::io("cannot compress the layer", e))
    }
}

fn lane(compression: Compression) -> Result<Lane> {
    let (to, pieces) = sync_channel::<Vec<u8>>(DEPTH);
    let (back, from) = sync_channel(DEPTH);
    let work = move || {
        guard::confine::parser();
        let mut packer = Packer::new(compression);
        let mut spare = Vec::new();
        for plain in pieces {
            let done = packer.pack(&plain, &mut spare);
            if back.send(done.map(|()| std::mem::replace(&mut spare, plain))).is_err() {
                return;
            }
        }
    };
    let started = thread::Builder::new().name("pack".into()).spawn(work);
    started.map_err(|e| Error::io("cannot start a compressing thread", e))?;
    Ok(Lane { to, from })
}

fn ended() -> Error {
    Error::failed("a compressing thread ended too early; this is a bug, please report it")
}
