//! The clients of a stream of the VM (serial console or screen): many read, one types. Pure.
//!
//! ```text
//!  Read                      Write                    Take                     Alone
//!  + a reader                + the typist, if there   + the typist; the one    + the typist; all that came to type
//!                              is none (else Busy)      before stays a reader    before are closed, readers stay
//! ```
//!
//! Upstream's clients assume one session of a VMI: each is [`Mode::Alone`], and closes the one before it. Our
//! clients choose a mode, and share the stream.

use crate::error::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::convert::Infallible;
use tokio::sync::oneshot;

/// Access mode of a client, and its effect on the clients before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Read. Typed bytes are dropped.
    Read,
    /// Read and type, unless another client types already.
    Write,
    /// Read and type, in place of the client that types now, which becomes a reader.
    Take,
    /// Read and type; every other client that came to type is closed.
    Alone,
}

impl Mode {
    /// True for a mode that types.
    pub fn types(self) -> bool {
        self != Mode::Read
    }
}

/// The seats of a stream.
#[derive(Debug)]
pub(crate) struct Seats {
    /// Name of the stream in messages.
    of: &'static str,
    most: usize,
    next: u64,
    taken: BTreeMap<u64, SeatHolder>,
    typist: Option<u64>,
}

#[derive(Debug)]
struct SeatHolder {
    types: bool,
    /// Dropped with the seat.
    _stays: oneshot::Sender<Infallible>,
}

/// Resolves when another client takes the seat.
pub(crate) type Gone = oneshot::Receiver<Infallible>;

/// A client that has taken a seat.
#[derive(Debug)]
pub(crate) struct Entered {
    pub(crate) id: u64,
    pub(crate) gone: Gone,
    /// Seats that were taken from other clients.
    pub(crate) closed: Vec<u64>,
    /// True if another client typed until now.
    pub(crate) replaced: bool,
}

impl Seats {
    /// `most` seats of a stream.
    pub(crate) fn new(of: &'static str, most: usize) -> Seats {
        Seats { of, most, next: 0, taken: BTreeMap::new(), typist: None }
    }

    /// Takes a seat, or returns the reason of a refusal.
    pub(crate) fn enter(&mut self, mode: Mode) -> Result<Entered> {
        let closed: Vec<u64> = match mode {
            Mode::Alone => self.taken.iter().filter(|(_, one)| one.types).map(|(id, _)| *id).collect(),
            Mode::Read | Mode::Write | Mode::Take => Vec::new(),
        };
        if self.taken.len().saturating_sub(closed.len()) >= self.most {
            let what = format!("this {} has {} clients already; end one of them", self.of, self.most);
            return Err(Error::new(ErrorKind::Busy, what));
        }
        if mode == Mode::Write && self.typist.is_some() {
            let what = format!("another client types on this {}", self.of);
            return Err(Error::new(ErrorKind::Busy, what));
        }
        for id in &closed {
            self.taken.remove(id);
        }
        let id = self.next;
        self.next += 1;
        let (stays, gone) = oneshot::channel();
        self.taken.insert(id, SeatHolder { types: mode.types(), _stays: stays });
        let replaced = mode.types() && self.typist.replace(id).is_some();
        Ok(Entered { id, gone, closed, replaced })
    }

    /// Frees the seat of a client.
    pub(crate) fn leave(&mut self, id: u64) {
        self.taken.remove(&id);
        if self.typist == Some(id) {
            self.typist = None;
        }
    }

    /// The client that types.
    pub(crate) fn typist(&self) -> Option<u64> {
        self.typist
    }

    /// Number of seats in use.
    pub(crate) fn count(&self) -> usize {
        self.taken.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot::error::TryRecvError;

    fn is_gone(entered: &mut Entered) -> bool {
        entered.gone.try_recv() == Err(TryRecvError::Closed)
    }

    #[test]
    fn one_types_and_the_others_read() {
        let mut seats = Seats::new("screen", 3);
        let mut first = seats.enter(Mode::Write).unwrap();
        let busy = seats.enter(Mode::Write).unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::Busy);
        assert!(busy.to_string().contains("another client types on this screen"), "{busy}");
        let reader = seats.enter(Mode::Read).unwrap();
        assert!(!reader.replaced && seats.typist() == Some(first.id));
        let taker = seats.enter(Mode::Take).unwrap();
        assert!(taker.replaced && seats.typist() == Some(taker.id) && !is_gone(&mut first));
        let full = seats.enter(Mode::Read).unwrap_err();
        assert!(full.to_string().contains("this screen has 3 clients already"), "{full}");
        seats.leave(taker.id);
        assert_eq!((seats.typist(), seats.count()), (None, 2));
        seats.enter(Mode::Write).unwrap();
    }

    #[test]
    fn a_client_that_wants_to_be_alone_closes_those_that_came_to_type_and_no_reader() {
        let mut seats = Seats::new("console", 3);
        let (mut reader, mut former) = (seats.enter(Mode::Read).unwrap(), seats.enter(Mode::Write).unwrap());
        let mut typist = seats.enter(Mode::Take).unwrap();
        // Its own seat is one of those that become free.
        let mut alone = seats.enter(Mode::Alone).unwrap();
        assert_eq!((alone.closed.as_slice(), alone.replaced), ([former.id, typist.id].as_slice(), true));
        assert!(is_gone(&mut former) && is_gone(&mut typist) && !is_gone(&mut reader));
        let next = seats.enter(Mode::Alone).unwrap();
        assert_eq!(next.closed, [alone.id]);
        assert!(is_gone(&mut alone) && !is_gone(&mut reader));
        // A client that is gone leaves later, and takes nothing along.
        seats.leave(alone.id);
        assert_eq!((seats.typist(), seats.count()), (Some(next.id), 2));
    }

    #[test]
    fn a_stream_full_of_readers_closes_nobody_for_a_client_that_finds_no_seat() {
        let mut seats = Seats::new("console", 1);
        let mut reader = seats.enter(Mode::Read).unwrap();
        assert_eq!(seats.enter(Mode::Alone).unwrap_err().kind(), ErrorKind::Busy);
        assert!(!is_gone(&mut reader));
    }
}
