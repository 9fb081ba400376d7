//! A remote source for threads that are confined and cannot connect: another thread reads for them.
//!
//! ```text
//!  a parser's thread ── (offset, length) ──► fetching thread ──► the source
//!  (opens nothing)   ◄────── bytes ─────────
//! ```
//!
//! For tables, which are read one after the other. Data goes through the engine's own readers.

use crate::{Error, Result};
use disk_format::ReadAt;
use std::io;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// A source for confined threads. The fetching thread ends when this is dropped.
pub(crate) struct Fetched {
    size: u64,
    asks: Mutex<Sender<Ask>>,
}

struct Ask {
    offset: u64,
    len: usize,
    answer: SyncSender<io::Result<Vec<u8>>>,
}

impl Fetched {
    /// Starts the fetching thread, which has the rights of the calling one.
    pub(crate) fn new(bytes: Arc<dyn ReadAt>) -> Result<Fetched> {
        let size = bytes.size();
        let (asks, asked) = channel();
        thread::Builder::new()
            .name("fetch".into())
            .spawn(move || answer(&*bytes, &asked))
            .map_err(|e| Error::failed("cannot start the thread that fetches tables").because(e))?;
        Ok(Fetched { size, asks: Mutex::new(asks) })
    }
}

impl ReadAt for Fetched {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        // A range past the end is refused here, before a buffer is allocated for it.
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (answer, back) = sync_channel(1);
        let ask = Ask { offset, len: buf.len(), answer };
        let sent = self.asks.lock().unwrap_or_else(PoisonError::into_inner).send(ask);
        let ended =
            || Error::failed("the thread that fetches tables has ended; this is a fault of the program");
        let bytes = match sent {
            Ok(()) => back.recv().map_err(|_| io::Error::from(ended()))??,
            Err(_) => return Err(ended().into()),
        };
        buf.copy_from_slice(&bytes);
        Ok(())
    }
}

fn answer(bytes: &dyn ReadAt, asked: &Receiver<Ask>) {
    for Ask { offset, len, answer } in asked {
        let mut buf = vec![0; len];
        let read = bytes.read_exact_at(&mut buf, offset).map(|()| buf);
        // The reader may have ended in the meantime.
        let _nobody = answer.send(read);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens a file for each read, as a source that connects anew does.
    struct Opens(std::path::PathBuf);

    impl ReadAt for Opens {
        fn size(&self) -> u64 {
            10
        }

        fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
            use std::os::unix::fs::FileExt;
            std::fs::File::open(&self.0)?.read_exact_at(buf, offset)
        }
    }

    #[test]
    fn a_thread_that_can_open_nothing_reads_a_source_that_must_be_opened() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"0123456789").unwrap();
        let source = Arc::new(Opens(file.path().to_owned()));
        let fetched = Fetched::new(source.clone()).unwrap();
        let mut buf = [0; 4];
        guard::confine::run_confined(|| {
            let offered = guard::confine::offered();
            if offered.seccomp.in_force {
                source.read_exact_at(&mut buf, 0).unwrap_err();
            }
            fetched.read_exact_at(&mut buf, 3).unwrap();
            assert_eq!(
                fetched.read_exact_at(&mut [0; 4], 8).unwrap_err().kind(),
                io::ErrorKind::UnexpectedEof
            );
            assert!(fetched.read_exact_at(&mut [0; 4], u64::MAX).is_err());
        })
        .unwrap();
        assert_eq!(&buf, b"3456");
        std::fs::remove_file(file.path()).unwrap();
        assert_eq!(fetched.read_exact_at(&mut buf, 0).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
