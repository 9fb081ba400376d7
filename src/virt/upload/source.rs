//! The bytes of an upload, from any offset where their source can do that.
//!
//! ```text
//!  source ─► a thread reads pieces of 256 KiB ─► a channel of four ─► the body of a request
//!  a browser ─► what it hands in (handed) ───────────────┘
//! ```
//!
//! The thread waits where the server is slow, and ends with its request. A source that fails does so for good: what reads
//! from web servers tries again itself.

use super::handed::{Handed, Piece};
use cdi::source::{self, Named, Options, Source};
use cdi::{Error, Result};
use futures_util::stream;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use tokio::sync::mpsc::{Receiver, Sender, channel};

const PIECE: u64 = 256 << 10;
const PIECES: usize = 4;

/// The bytes of an upload.
pub(crate) struct Bytes {
    origin: Origin,
    sent: Arc<AtomicU64>,
    /// Of the request that was made last: an earlier one may fail when nobody waits for it any more.
    fault: Mutex<Fault>,
}

/// Where the bytes are.
enum Origin {
    /// This computer reads them.
    Read(Arc<dyn Source>),
    /// A browser has them.
    Handed(Arc<Handed>),
}

type Fault = Arc<Mutex<Option<Error>>>;

/// The bytes on their way in one request. When it is dropped, no further byte goes out.
pub(super) struct Flow {
    is_over: Arc<AtomicBool>,
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
    }
}

impl Bytes {
    /// Opens a file by its path, `-`, or what an address or a name with a scheme leads to.
    pub(crate) async fn open(path: &str) -> Result<Bytes> {
        let path = path.to_owned();
        // To open a source may take requests, and those block.
        let opened = tokio::task::spawn_blocking(move || {
            let options = Options::default();
            let named = match path == "-" || path.contains("://") {
                true => Named::of(&path, &options)?,
                false => Named::Path(PathBuf::from(path)),
            };
            source::open(&named, &options)
        });
        let source = opened.await.map_err(|e| Error::failed("cannot open the source").because(e))??;
        Ok(Bytes::of(Origin::Read(source)))
    }

    /// What somebody hands in.
    pub(crate) fn handed(handed: Arc<Handed>) -> Bytes {
        Bytes::of(Origin::Handed(handed))
    }

    fn of(origin: Origin) -> Bytes {
        Bytes { origin, sent: Arc::default(), fault: Mutex::default() }
    }

    /// Their number, where it is known.
    pub(crate) fn size(&self) -> Option<u64> {
        match &self.origin {
            Origin::Read(source) => source.facts().size,
            Origin::Handed(handed) => Some(handed.size()),
        }
    }

    /// The last offset that was sent, as it changes.
    pub(crate) fn sent(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.sent)
    }

    /// Where they come from, for people.
    pub(super) fn name(&self) -> &str {
        match &self.origin {
            Origin::Read(source) => &source.facts().name,
            Origin::Handed(handed) => handed.name(),
        }
    }

    /// Whether they can be read again, and from any offset.
    pub(super) fn is_repeatable(&self) -> bool {
        match &self.origin {
            Origin::Read(source) => source.facts().seekable,
            Origin::Handed(_) => true,
        }
    }

    /// Waits until they can be had: a browser may be away.
    pub(super) async fn are_there(&self) {
        if let Origin::Handed(handed) = &self.origin {
            handed.held().await;
        }
    }

    /// An attempt broke off because nobody hands them in any more.
    pub(super) fn are_away(&self) -> bool {
        matches!(&self.origin, Origin::Handed(handed) if handed.is_left())
    }

    /// Why the source failed, where it did.
    pub(super) fn fault(&self) -> Option<Error> {
        let of_last = Arc::clone(&locked(&self.fault));
        locked(&of_last).take()
    }

    /// An error, if the source was changed while it was read.
    pub(super) fn unchanged(&self) -> Result<()> {
        match &self.origin {
            Origin::Read(source) => source.unchanged(),
            // A browser reads no file that has changed since it was chosen.
            Origin::Handed(_) => Ok(()),
        }
    }

    /// The bytes from this offset on, as the body of a request.
    pub(super) fn body(&self, from: u64) -> Result<(reqwest::Body, Flow)> {
        let received = match &self.origin {
            Origin::Read(source) => self.read(Arc::clone(source), from)?,
            Origin::Handed(handed) => handed.pieces(from),
        };
        self.sent.store(from, Relaxed);
        let is_over = Arc::new(AtomicBool::new(false));
        let flow = Flow { is_over: Arc::clone(&is_over) };
        Ok((reqwest::Body::wrap_stream(counted(received, Arc::clone(&self.sent), is_over)), flow))
    }

    /// The pieces of a source, read by a thread.
    fn read(&self, source: Arc<dyn Source>, from: u64) -> Result<Receiver<Piece>> {
        let (pieces, received) = channel(PIECES);
        let fault = Fault::default();
        *locked(&self.fault) = Arc::clone(&fault);
        let length = self.size().map(|size| size.saturating_sub(from));
        let reader = move || {
            if let Err(e) = pump(&*source, from, length, &pieces) {
                *locked(&fault) = Some(e);
                let _ = pieces.blocking_send(Err(io::Error::other("the source failed")));
            }
        };
        let started = thread::Builder::new().name("source".to_owned()).spawn(reader);
        started.map_err(|e| Error::io("cannot start to read the source", e))?;
        Ok(received)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn counted(
    received: Receiver<Piece>,
    sent: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
) -> impl futures_util::Stream<Item = Piece> + Send + 'static {
    stream::unfold((received, sent, is_over), |(mut received, sent, is_over)| async move {
        let piece = received.recv().await?;
        let piece = match piece {
            _ if is_over.load(Relaxed) => Err(io::Error::other("the request is over")),
            Ok(bytes) => {
                sent.fetch_add(bytes.len() as u64, Relaxed);
                Ok(bytes)
            }
            Err(e) => Err(e),
        };
        Some((piece, (received, sent, is_over)))
    })
}

/// Reads until the end, or until nobody wants more.
fn pump(source: &dyn Source, from: u64, length: Option<u64>, pieces: &Sender<Piece>) -> Result<()> {
    let name = &source.facts().name;
    let mut left = length.unwrap_or(u64::MAX);
    if left == 0 {
        return Ok(());
    }
    let mut reader = source.stream(from)?;
    while left > 0 {
        let mut piece = vec![0; PIECE.min(left) as usize];
        let count = match reader.read(&mut piece) {
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Error::io(format!("cannot read {name}"), e)),
        };
        match (count, length) {
            (0, None) => return Ok(()),
            (0, Some(_)) => {
                return Err(Error::failed(format!("{name} ended {left} bytes too early: it was changed")));
            }
            _ => {}
        }
        left = left.saturating_sub(count as u64);
        piece.truncate(count);
        if pieces.blocking_send(Ok(piece.into())).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::virt::wait;
    use std::io::Write as _;

    fn pieces(source: &dyn Source, from: u64, length: Option<u64>) -> (Result<()>, Vec<u8>) {
        let (send, mut receive) = channel(1000);
        let done = pump(source, from, length, &send);
        drop(send);
        let mut all = Vec::new();
        while let Some(piece) = receive.blocking_recv() {
            all.extend(piece.unwrap());
        }
        (done, all)
    }

    #[test]
    fn bytes_come_from_any_offset_and_a_file_that_shrinks_is_told() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let content: Vec<u8> = (0..600_000_u32).map(|i| (i % 251) as u8).collect();
        file.write_all(&content).unwrap();
        let path = file.path().to_str().unwrap();
        let bytes = wait(Bytes::open(path)).unwrap();
        assert_eq!((bytes.size(), bytes.is_repeatable()), (Some(600_000), true));
        let Origin::Read(source) = &bytes.origin else { panic!("it is a file") };
        for from in [0, 1, 300_000, 599_999, 600_000] {
            let (done, all) = pieces(&**source, from, Some(600_000 - from));
            done.unwrap();
            assert!(all == content[from as usize..], "{from}");
        }
        file.as_file().set_len(10).unwrap();
        let (done, all) = pieces(&**source, 0, Some(600_000));
        assert!(all.len() <= 10 && done.is_err());
        let said = bytes.unchanged().unwrap_err().to_string();
        assert!(said.contains("it had 600000 bytes and now has 10"), "{said}");
    }

    #[test]
    fn a_file_that_is_not_there_is_told_before_anything_else() {
        let error = wait(Bytes::open("/none.img")).err().unwrap();
        assert_eq!(error.kind(), cdi::ErrorKind::NotFound);
        assert!(error.to_string().contains("/none.img"), "{error}");
        let error = wait(Bytes::open("ftp://h/d.img")).err().unwrap();
        assert_eq!(error.kind(), cdi::ErrorKind::Usage);
    }
}
