//! A reader on a thread of its own, a few pieces ahead: one core reads and hashes while another decodes. Holds at most
//! 1.5 MiB. Ends by itself once it is dropped. The thread can open nothing ([`guard::confine::parser`]).
//!
//! The thread starts behind the first [`BEGINNING`]: a program that only looks at what a layer begins with reads no more
//! than it looks at.

use crate::{Error, Result};
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

const PIECE: usize = 256 << 10;
const PIECES: usize = 4;

/// Bytes that are read without a thread.
const BEGINNING: u64 = 256 << 10;

/// The reader.
pub(crate) enum Ahead {
    Beginning(io::Take<Box<dyn Read + Send>>),
    Running(Running),
    /// An error was told.
    Ended,
}

/// The end of the thread that reads pieces.
pub(crate) struct Running {
    full: Receiver<io::Result<Vec<u8>>>,
    empty: SyncSender<Vec<u8>>,
    piece: Vec<u8>,
    at: usize,
    ended: bool,
}

impl Ahead {
    pub(crate) fn new(inner: impl Read + Send + 'static) -> Ahead {
        let inner: Box<dyn Read + Send> = Box::new(inner);
        Ahead::Beginning(inner.take(BEGINNING))
    }
}

impl Read for Ahead {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if let Ahead::Beginning(beginning) = self {
            let read = beginning.read(out);
            if !matches!(read, Ok(0)) || beginning.limit() > 0 || out.is_empty() {
                if read.is_err() {
                    *self = Ahead::Ended;
                }
                return read;
            }
            if let Ahead::Beginning(beginning) = std::mem::replace(self, Ahead::Ended) {
                *self = Ahead::Running(Running::start(beginning.into_inner())?);
            }
        }
        match self {
            Ahead::Running(running) => running.read(out),
            _ => Ok(0),
        }
    }
}

impl Running {
    fn start(inner: Box<dyn Read + Send>) -> Result<Running> {
        let (to, full) = sync_channel(PIECES);
        let (empty, from) = sync_channel(PIECES + 2);
        let started = thread::Builder::new().name("read".into()).spawn(move || {
            guard::confine::parser();
            run(inner, &to, &from);
        });
        started.map_err(|e| Error::io("cannot start a thread that reads", e))?;
        Ok(Running { full, empty, piece: Vec::new(), at: 0, ended: false })
    }

    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.piece.len() && !self.ended {
            let next = self.full.recv();
            let ended = "the thread that reads has ended before its work; this is a fault of the program";
            let next = next.map_err(|_| io::Error::from(Error::failed(ended)))?;
            // An error is told once; who reads on sees an end, never bytes after it.
            self.ended = true;
            let next = next?;
            self.ended = next.is_empty();
            let old = std::mem::replace(&mut self.piece, next);
            self.at = 0;
            // The thread may have ended already, and needs no more pieces then.
            let _ = self.empty.try_send(old);
        }
        let n = out.len().min(self.piece.len() - self.at);
        out[..n].copy_from_slice(&self.piece[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// Sends pieces; an empty one is the end.
fn run(mut inner: impl Read, to: &SyncSender<io::Result<Vec<u8>>>, from: &Receiver<Vec<u8>>) {
    loop {
        let mut piece = from.try_recv().unwrap_or_default();
        let filled = fill(&mut inner, &mut piece);
        let last = !matches!(&filled, Ok(n) if *n > 0);
        if to.send(filled.map(|_| piece)).is_err() || last {
            return;
        }
    }
}

/// Fills a piece, or stops at the end. An error hides the bytes before it in the same piece, which nobody misses.
fn fill(inner: &mut impl Read, piece: &mut Vec<u8>) -> io::Result<usize> {
    piece.clear();
    piece.reserve_exact(PIECE);
    inner.take(PIECE as u64).read_to_end(piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_come_out_in_order() {
        let bytes: Vec<u8> = (0..3_000_001u32).map(|i| (i ^ (i >> 8)) as u8).collect();
        let mut out = vec![];
        Ahead::new(io::Cursor::new(bytes.clone())).read_to_end(&mut out).unwrap();
        assert!(out == bytes);
    }

    #[test]
    fn an_error_comes_through_as_it_is_and_nothing_after_it() {
        struct Bad;
        impl Read for Bad {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(Error::refused("a wrong digest").into())
            }
        }
        for len in [3, BEGINNING as usize, BEGINNING as usize + 3] {
            let mut ahead = Ahead::new(io::Cursor::new(vec![7; len]).chain(Bad));
            let e = ahead.read_to_end(&mut vec![]).unwrap_err();
            assert_eq!(Error::io("reading", e).to_string(), "a wrong digest");
            assert_eq!(ahead.read(&mut [0]).unwrap(), 0);
        }
    }
}
