//! The bytes of an upload, readable from any offset if their source allows it.
//!
//! ```text
//!  source ─► a thread reads pieces of 256 KiB ─► a channel of four ─► the body of a request
//!  a browser ─► its request bodies (browser) ─────────────┘
//! ```
//!
//! The thread waits while the server is slow, and ends with its request. A failed source stays failed:
//! readers of web servers have retries of their own.

use super::browser::{BrowserUpload, Piece};
use super::dense::{dense, refusal, undisguised};
use super::params::size_for;
use crate::error::{Error, ErrorKind, Result};
use crate::vm_disk;
use cdi::inspect::{InspectOptions, inspect};
use cdi::source::{self, FileSource, Options, Source, SourceSpec, SparseFile};
use disk_format::qcow2::write::Dense;
use disk_format::{Format, ReadAt as _};
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
    /// Failure of the latest request's reader. An earlier reader may still fail unnoticed.
    fault: Mutex<Fault>,
}

/// Source of the bytes.
enum Origin {
    /// Source that this computer reads; `dense` leaves out the holes of a sparse disk.
    Read { source: Arc<dyn Source>, dense: Option<Arc<Dense<SparseFile>>>, raw: RawDisk },
    /// A browser sends them.
    Browser(Arc<BrowserUpload>),
}

/// Knowledge of a source that its first bytes do not give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RawDisk {
    /// The first bytes tell the format.
    Unknown,
    /// A raw disk of a VM, by its record. It begins as one.
    Plain,
    /// A raw disk of a VM that begins as another format: it is sent as `dense` alone.
    Disguised,
}

type Fault = Arc<Mutex<Option<Error>>>;

/// Form in which bytes are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Unchanged, with holes as zeros.
    Whole,
    /// Without the holes of a sparse disk, if it has any: for our own server.
    WithoutHoles,
}

/// Guard of the bytes of one request. When it is dropped, no further byte is sent.
pub(super) struct Flow {
    is_over: Arc<AtomicBool>,
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
    }
}

impl Bytes {
    /// Opens a disk, by the rule of all names, or an archive: a path, `-` for standard input, or a URL.
    pub(crate) async fn open(path: &str, is_archive: bool) -> Result<Bytes> {
        let path = path.to_owned();
        // Opening a source may send requests, and these block.
        let opened = tokio::task::spawn_blocking(move || {
            let options = Options::default();
            let named = match is_archive && path != "-" && !path.contains("://") {
                true => SourceSpec::Path(PathBuf::from(path)),
                false => SourceSpec::resolve(&path, &options)?,
            };
            let is_raw = !is_archive && vm_disk::format_of(&named)?.is_some();
            Ok(match &named {
                SourceSpec::Path(path) => {
                    let file = FileSource::open(path)?;
                    let disguised = if is_raw { undisguised(&file)? } else { None };
                    let raw = match &disguised {
                        _ if !is_raw => RawDisk::Unknown,
                        None => RawDisk::Plain,
                        Some(_) => RawDisk::Disguised,
                    };
                    let dense =
                        if is_archive { None } else { disguised.or_else(|| dense(&file)).map(Arc::new) };
                    Origin::Read { source: Arc::new(file), dense, raw }
                }
                SourceSpec::Stdin if is_raw => {
                    let what =
                        "standard input is a raw disk of a VM, whose first bytes may be those of its guest";
                    return Err(Error::refused(what).with_hint("name the file by its path"));
                }
                _ => Origin::Read {
                    source: source::open(&named, &options)?,
                    dense: None,
                    raw: RawDisk::Unknown,
                },
            })
        });
        let origin = opened.await.map_err(|e| Error::failed("cannot open the source").because(e))?;
        origin.map(Bytes::of)
    }

    /// The bytes of a browser.
    pub(crate) fn from_browser(browser: Arc<BrowserUpload>) -> Bytes {
        Bytes::of(Origin::Browser(browser))
    }

    fn of(origin: Origin) -> Bytes {
        Bytes { origin, sent: Arc::default(), fault: Mutex::default() }
    }

    /// Their number, if known.
    pub(crate) fn size(&self) -> Option<u64> {
        match &self.origin {
            Origin::Read { source, .. } => source.facts().size,
            Origin::Browser(browser) => Some(browser.size()),
        }
    }

    /// Their number in this form, if known.
    pub(super) fn length(&self, form: Form) -> Option<u64> {
        self.dense(form).map_or_else(|| self.size(), |dense| Some(dense.size()))
    }

    fn dense(&self, form: Form) -> Option<&Arc<Dense<SparseFile>>> {
        match &self.origin {
            Origin::Read { dense, .. } if form == Form::WithoutHoles => dense.as_ref(),
            _ => None,
        }
    }

    /// Size of a volume for the disk, if it can be known in advance. Fails if the disk would be refused.
    pub(super) async fn volume_size(&self) -> Result<Option<String>> {
        let Origin::Read { source, raw, .. } = &self.origin else { return Ok(None) };
        if !source.facts().seekable {
            return Ok(None);
        }
        let source = Arc::clone(source);
        let source_format = (*raw != RawDisk::Unknown).then_some(Format::Raw);
        let options = InspectOptions { source_format, ..InspectOptions::default() };
        let seen = tokio::task::spawn_blocking(move || inspect(&*source, options)).await;
        let report = seen.map_err(|e| Error::failed("cannot look at the source").because(e))??;
        match &report.refused {
            Some(why) => {
                let what = format!("the size of the disk in {} is not known: {why}", self.name());
                Err(Error::new(ErrorKind::Usage, what)
                    .with_hint("--size sets the size of the volume, for a CDI that reads such a disk"))
            }
            None => Ok(report.virtual_size.map(size_for)),
        }
    }

    /// The current offset in the disk, updated while bytes are sent.
    pub(crate) fn sent(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.sent)
    }

    /// Name of the source, for messages.
    pub(super) fn name(&self) -> &str {
        match &self.origin {
            Origin::Read { source, .. } => &source.facts().name,
            Origin::Browser(browser) => browser.name(),
        }
    }

    /// True if they can be read again from any offset.
    pub(super) fn is_repeatable(&self) -> bool {
        match &self.origin {
            Origin::Read { source, .. } => source.facts().seekable,
            Origin::Browser(_) => true,
        }
    }

    /// Waits until bytes are available: a browser may be away.
    pub(super) async fn wait_for_bytes(&self) {
        if let Origin::Browser(browser) = &self.origin {
            browser.wait_for_request().await;
        }
    }

    /// True if an attempt failed because the browser has stopped sending.
    pub(super) fn are_away(&self) -> bool {
        matches!(&self.origin, Origin::Browser(browser) if browser.has_left())
    }

    /// Failure of the source, if any.
    pub(super) fn fault(&self) -> Option<Error> {
        let of_last = Arc::clone(&locked(&self.fault));
        locked(&of_last).take()
    }

    /// Fails if the source changed while it was read.
    pub(super) fn unchanged(&self) -> Result<()> {
        match &self.origin {
            Origin::Read { source, .. } => Ok(source.unchanged()?),
            // A browser itself refuses to read a file that has changed since it was chosen.
            Origin::Browser(_) => Ok(()),
        }
    }

    /// The bytes in this form from this offset on, as the body of a request.
    pub(super) fn body(&self, form: Form, from: u64) -> Result<(reqwest::Body, Flow)> {
        // A changed source is another disk, which must not be continued in the middle.
        self.unchanged()?;
        if form == Form::Whole && matches!(self.origin, Origin::Read { raw: RawDisk::Disguised, .. }) {
            return Err(refusal(self.name()));
        }
        let received = match &self.origin {
            Origin::Read { source, .. } => self.read(Arc::clone(source), form, from)?,
            Origin::Browser(browser) => browser.pieces(from),
        };
        let dense = self.dense(form).cloned();
        let disk = move |at: u64| dense.as_ref().map_or(at, |dense| dense.disk_before(at));
        self.sent.store(disk(from), Relaxed);
        let is_over = Arc::new(AtomicBool::new(false));
        let flow = Flow { is_over: Arc::clone(&is_over) };
        Ok((reqwest::Body::wrap_stream(counted(received, Arc::clone(&self.sent), from, disk, is_over)), flow))
    }

    /// The pieces of a source, read in a thread.
    fn read(&self, source: Arc<dyn Source>, form: Form, from: u64) -> Result<Receiver<Piece>> {
        let (pieces, received) = channel(PIECES);
        let fault = Fault::default();
        *locked(&self.fault) = Arc::clone(&fault);
        let length = self.length(form).map(|length| length.saturating_sub(from));
        let dense = self.dense(form).cloned();
        let reader = move || {
            let bytes = match dense {
                Some(dense) => Ok(Box::new(InOrder { dense, at: from }) as Box<dyn Read + Send>),
                // Some sources cannot open a stream at their end.
                None if length == Some(0) => Ok(Box::new(io::empty()) as Box<dyn Read + Send>),
                None => source.stream(from).map_err(Error::from),
            };
            if let Err(e) = bytes.and_then(|bytes| pump(&*source, bytes, length, &pieces)) {
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

/// The pieces from this offset on. `sent` is updated to the end of each, as an offset in the disk.
fn counted(
    received: Receiver<Piece>,
    sent: Arc<AtomicU64>,
    from: u64,
    disk: impl Fn(u64) -> u64 + Send + 'static,
    is_over: Arc<AtomicBool>,
) -> impl futures_util::Stream<Item = Piece> + Send + 'static {
    stream::unfold((received, from, disk), move |(mut received, mut at, disk)| {
        let (sent, is_over) = (Arc::clone(&sent), Arc::clone(&is_over));
        async move {
            let piece = received.recv().await?;
            let piece = match piece {
                _ if is_over.load(Relaxed) => Err(io::Error::other("the request is over")),
                Ok(bytes) => {
                    at = at.saturating_add(bytes.len() as u64);
                    sent.store(disk(at), Relaxed);
                    Ok(bytes)
                }
                Err(e) => Err(e),
            };
            Some((piece, (received, at, disk)))
        }
    })
}

/// Reader of a sparse disk without its holes, from an offset on.
struct InOrder {
    dense: Arc<Dense<SparseFile>>,
    at: u64,
}

impl Read for InOrder {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.dense.size().saturating_sub(self.at);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        self.dense.read_exact_at(&mut buf[..count], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Reads until the end, or until the receiver is dropped. If the source was changed meanwhile, the last piece is
/// not sent: a server that has all bytes would count them as a whole disk.
fn pump(
    source: &dyn Source,
    mut reader: impl Read,
    length: Option<u64>,
    pieces: &Sender<Piece>,
) -> Result<()> {
    let name = &source.facts().name;
    let mut left = length.unwrap_or(u64::MAX);
    while left > 0 {
        let mut piece = vec![0; PIECE.min(left) as usize];
        let count = match reader.read(&mut piece) {
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Error::io(format!("cannot read {name}"), e)),
        };
        match (count, length) {
            (0, None) => return Ok(source.unchanged()?),
            (0, Some(_)) => {
                return Err(Error::failed(format!("{name} ended {left} bytes too early: it was changed")));
            }
            _ => {}
        }
        left = left.saturating_sub(count as u64);
        piece.truncate(count);
        if left == 0 {
            source.unchanged()?;
        }
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
    use std::os::unix::fs::FileExt as _;

    fn pieces(source: &dyn Source, from: u64, length: Option<u64>) -> (Result<()>, Vec<u8>) {
        let (send, mut receive) = channel(1000);
        let done = pump(source, source.stream(from).unwrap(), length, &send);
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
        let bytes = wait(Bytes::open(path, false)).unwrap();
        assert_eq!((bytes.size(), bytes.is_repeatable()), (Some(600_000), true));
        let Origin::Read { source, .. } = &bytes.origin else { panic!("it is a file") };
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
    fn the_last_bytes_of_a_file_that_changes_meanwhile_are_not_sent() {
        let size = 4 << 20;
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![7; size]).unwrap();
        for from in [0, size as u64 - 1] {
            let bytes = wait(Bytes::open(file.path().to_str().unwrap(), false)).unwrap();
            let Origin::Read { source, .. } = &bytes.origin else { panic!("it is a file") };
            // Times have the resolution of a clock tick.
            thread::sleep(std::time::Duration::from_millis(20));
            let mut pieces = bytes.read(Arc::clone(source), Form::Whole, 0).unwrap();
            let first = pieces.blocking_recv().unwrap().unwrap();
            file.as_file().write_all_at(b"other", from).unwrap();
            let mut sent = first.len();
            let end = loop {
                match pieces.blocking_recv() {
                    Some(Ok(piece)) => sent += piece.len(),
                    end => break end,
                }
            };
            assert!(matches!(end, Some(Err(_))) && sent < size, "{sent} of {size} bytes were sent");
            let said = bytes.fault().unwrap().to_string();
            assert!(said.contains("was changed while it was read"), "{said}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_told_before_anything_else() {
        let error = wait(Bytes::open("/none.img", false)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("/none.img"), "{error}");
        let error = wait(Bytes::open("ftp://h/d.img", false)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Usage);
    }
}
