//! Read-ahead on a second thread. One core reads and hashes while another decodes. The thread holds at most
//! 1.5 MiB, ends when the reader is dropped, and cannot open files or sockets ([`guard::confine::parser`]).
//!
//! The thread starts after the first [`BEGINNING`] bytes. A program that only needs the first bytes of a
//! layer reads no more than those.

use crate::{Error, Result};
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

const PIECE: usize = 256 << 10;
const PIECES: usize = 4;

/// Bytes that are read on the caller's thread.
const BEGINNING: u64 = 256 << 10;

/// Reader with a few pieces read in advance.
pub(crate) enum ReadAhead {
    Beginning(io::Take<Box<dyn Read + Send>>),
    Running(Running),
    /// The end or an error was reported. Every further read returns 0 bytes.
    Ended,
}

/// The receiving side of the thread that reads pieces.
pub(crate) struct Running {
    full: Receiver<io::Result<Vec<u8>>>,
    empty: SyncSender<Vec<u8>>,
    piece: Vec<u8>,
    at: usize,
    ended: bool,
}

impl ReadAhead {
    pub(crate) fn new(inner: impl Read + Send + 'static) -> ReadAhead {
        let inner: Box<dyn Read + Send> = Box::new(inner);
        ReadAhead::Beginning(inner.take(BEGINNING))
    }
}

impl Read for ReadAhead {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if let ReadAhead::Beginning(beginning) = self {
            let read = beginning.read(out);
            if !matches!(read, Ok(0)) || beginning.limit() > 0 || out.is_empty() {
                if read.is_err() {
                    *self = ReadAhead::Ended;
                }
                return read;
            }
            if let ReadAhead::Beginning(beginning) = std::mem::replace(self, ReadAhead::Ended) {
                *self = ReadAhead::Running(Running::start(beginning.into_inner())?);
            }
        }
        match self {
            ReadAhead::Running(running) => running.read(out),
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
            let ended = "the read-ahead thread ended too early; this is a bug, please report it";
            let next = next.map_err(|_| io::Error::from(Error::failed(ended)))?;
            // An error is returned once. Later reads report the end, and never bytes that follow the error.
            self.ended = true;
            let next = next?;
            self.ended = next.is_empty();
            let old = std::mem::replace(&mut self.piece, next);
            self.at = 0;
            // The thread may have ended already. It needs no more buffers then.
            let _ = self.empty.try_send(old);
        }
        let n = out.len().min(self.piece.len() - self.at);
        out[..n].copy_from_slice(&self.piece[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// Sends pieces until the end of `inner`. An empty piece marks the end.
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

/// Fills a piece, or stops at the end. An error discards the bytes before it in the same piece. The read
/// fails anyway.
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
        ReadAhead::new(io::Cursor::new(bytes.clone())).read_to_end(&mut out).unwrap();
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
            let mut ahead = ReadAhead::new(io::Cursor::new(vec![7; len]).chain(Bad));
            let e = ahead.read_to_end(&mut vec![]).unwrap_err();
            assert_eq!(Error::io("reading", e).to_string(), "a wrong digest");
            assert_eq!(ahead.read(&mut [0]).unwrap(), 0);
        }
    }
}
