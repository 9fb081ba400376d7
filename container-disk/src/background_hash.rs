//! A hash that is computed on a second thread: one core hashes while another produces the bytes. It buffers
//! at most [`PIECES`] pieces, 1 MiB together. Input that fits into one piece is hashed at the end, without a
//! thread.

use crate::digest::Hasher;
use crate::{Digest, Error, Result};
use std::mem;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

const PIECE: usize = 256 << 10;
const PIECES: usize = 4;

/// A hash that is being computed.
pub(crate) struct BackgroundHash {
    hash: Hasher,
    piece: Vec<u8>,
    running: Option<Running>,
}

struct Running {
    full: SyncSender<Vec<u8>>,
    empty: Receiver<Vec<u8>>,
    thread: JoinHandle<Hasher>,
    pieces: usize,
}

impl BackgroundHash {
    pub(crate) fn new(hash: Hasher) -> Self {
        BackgroundHash { hash, piece: Vec::new(), running: None }
    }

    /// Adds bytes. Blocks while all pieces wait for the hashing thread.
    pub(crate) fn update(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let n = bytes.len().min(PIECE - self.piece.len());
            self.piece.extend_from_slice(&bytes[..n]);
            bytes = &bytes[n..];
            if self.piece.len() == PIECE {
                self.hand_over()?;
            }
        }
        Ok(())
    }

    fn hand_over(&mut self) -> Result<()> {
        let running = match &mut self.running {
            Some(running) => running,
            None => self.running.insert(start(mem::take(&mut self.hash))?),
        };
        let next = if running.pieces < PIECES {
            running.pieces += 1;
            Vec::with_capacity(PIECE)
        } else {
            running.empty.recv().map_err(|_| ended())?
        };
        let full = mem::replace(&mut self.piece, next);
        running.full.send(full).map_err(|_| ended())
    }

    /// The digest of all bytes so far. Blocks until the hashing thread has caught up.
    pub(crate) fn digest(&mut self) -> Result<Digest> {
        if let Some(Running { full, empty, thread, .. }) = self.running.take() {
            drop((full, empty));
            self.hash = thread.join().map_err(|_| ended())?;
        }
        self.hash.update(&self.piece);
        self.piece.clear();
        Ok(self.hash.clone().finish())
    }

    /// The digest of all bytes.
    pub(crate) fn finish(mut self) -> Result<Digest> {
        self.digest()
    }
}

fn start(mut hash: Hasher) -> Result<Running> {
    let (full, to_hash) = sync_channel::<Vec<u8>>(PIECES);
    let (back, empty) = sync_channel(PIECES);
    let work = move || {
        guard::confine::parser();
        for mut piece in to_hash {
            hash.update(&piece);
            piece.clear();
            // The receiver is gone once the last piece is handed over.
            let _ = back.send(piece);
        }
        hash
    };
    let thread = thread::Builder::new().name("hash".into()).spawn(work);
    let thread = thread.map_err(|e| Error::io("cannot start the hashing thread", e))?;
    Ok(Running { full, empty, thread, pieces: 1 })
}

fn ended() -> Error {
    Error::failed("the hashing thread ended too early; this is a bug, please report it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_all_bytes_however_they_come() {
        let bytes: Vec<u8> = (0..3_000_001u32).map(|i| (i ^ (i >> 8)) as u8).collect();
        for (len, step) in [(0, 1), (1, 1), (PIECE, PIECE), (PIECE + 1, 7), (bytes.len(), 100_003)] {
            let mut aside = BackgroundHash::new(Hasher::new());
            for piece in bytes[..len].chunks(step) {
                aside.update(piece).unwrap();
            }
            assert_eq!(aside.digest().unwrap(), Digest::of(&bytes[..len]), "{len} by {step}");
            aside.update(b"more").unwrap();
            let more = [&bytes[..len], b"more"].concat();
            assert_eq!(aside.finish().unwrap(), Digest::of(&more), "{len} by {step}, and more");
        }
    }
}
