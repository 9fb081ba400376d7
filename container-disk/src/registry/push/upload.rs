//! The upload of a blob from a plain thread.
//!
//! ```text
//!   write ─► hash, blocks of 256 KiB ─► recent ─► pump: sends all new bytes, by the upload method
//!                                                  │ an error; "method not supported" selects the next method
//!                                                  ▼
//!           recover: a pause (mirror.rs); asks for the registry's offset ─► `recent` has the rest: resume there
//!                                                                        └─► it has not: `lost`, until rewind()
//! ```

use super::feed::feed;
use super::recent::Recent;
use super::session::Session;
use crate::digest::Hasher;
use crate::manifest::{self, Descriptor};
use crate::place::BlobWriter;
use crate::registry::config::{CHUNK, LARGEST_CHUNK, UploadMethod};
use crate::registry::counters::{add, count};
use crate::registry::mirror_session::MirrorSession;
use crate::registry::repository::Repository;
use crate::{Digest, Error, Result};
use bytes::{Bytes, BytesMut};
use fetch::retry::{seconds, within};
use fetch::runtime;
use fetch::{Fault, FaultKind};
use reqwest::Body;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinHandle;

const BLOCK: usize = 256 << 10;

/// Number of sent bytes that are kept. It is more than socket buffers hold, so that older bytes have arrived.
const KEPT: u64 = 8 << 20;

/// Memory of one upload: the kept bytes, and the buffers of the client and its connection.
pub const MEMORY: u64 = KEPT + (4 << 20);

/// Timeout of requests that cancel an upload.
const LAST_WORD: Duration = Duration::from_secs(5);

/// Status codes of registries that do not support an upload method.
const OTHER_METHOD: [u16; 6] = [400, 405, 411, 413, 415, 501];

/// A blob that is being uploaded.
pub(crate) struct Upload {
    repository: Arc<Repository>,
    mirror_session: MirrorSession,
    name: String,
    promised: Option<(Digest, u64)>,
    hash: Hasher,
    /// Number of bytes in the hash.
    hashed: u64,
    /// Offset of the next byte that is written.
    written: u64,
    block: BytesMut,
    recent: Recent,
    /// Number of bytes that were sent to the registry.
    given: u64,
    /// The largest value of `given` so far, to detect progress.
    furthest: u64,
    session: Option<Session>,
    upload_method: UploadMethod,
    stream: Option<Stream>,
    lost: Option<u64>,
}

/// A request whose body is being written.
struct Stream {
    feed: Sender<Option<Bytes>>,
    answer: JoinHandle<Result<Session, Fault>>,
}

impl Upload {
    pub(crate) fn begin(repository: &Arc<Repository>, promised: Option<&Descriptor>) -> Result<Upload> {
        let (index, _) = repository.origin()?;
        let promised = match promised {
            None => None,
            Some(d) => Some((d.digest.parse::<Digest>()?, manifest::size(&repository.name, d.size)?)),
        };
        let name = match &promised {
            Some((digest, _)) => format!("{}: blob {digest}", repository.name),
            None => format!("{}: a new blob", repository.name),
        };
        let upload_method = repository.upload_method();
        if upload_method == UploadMethod::Whole && promised.is_none() {
            return Err(spool(&name));
        }
        let mut mirror_session =
            MirrorSession::new(repository, name.clone(), None).only(|mirror| mirror == index);
        runtime()?.block_on(mirror_session.start())?;
        let mut upload = Upload {
            repository: Arc::clone(repository),
            mirror_session,
            name,
            hash: promised.as_ref().map_or_else(Hasher::new, |(digest, _)| Hasher::like(digest)),
            promised,
            hashed: 0,
            written: 0,
            block: BytesMut::with_capacity(BLOCK),
            recent: Recent::at(0),
            given: 0,
            furthest: 0,
            session: None,
            upload_method,
            stream: None,
            lost: None,
        };
        upload.open()?;
        Ok(upload)
    }

    /// Starts an upload at the registry, and tries again after errors that may pass.
    fn open(&mut self) -> Result<()> {
        let runtime = runtime()?;
        loop {
            let repository = Arc::clone(&self.repository);
            let (_, origin) = repository.origin()?;
            match runtime.block_on(Session::open(&repository, origin)) {
                Ok(session) => {
                    self.upload_method =
                        chunks_of(self.upload_method, session.least, &origin.server.address)?;
                    self.session = Some(session);
                    self.given = 0;
                    return Ok(());
                }
                Err(fault) => runtime.block_on(self.mirror_session.failed(fault, 0, 0))?,
            };
        }
    }

    /// Sends the bytes that were not sent yet. `last` is true at the end of the blob.
    fn pump(&mut self, last: bool) -> Result<()> {
        loop {
            let waiting = self.recent.end().saturating_sub(self.given);
            let done = match self.upload_method {
                UploadMethod::Chunks(size) if waiting >= size || last && waiting > 0 => {
                    self.chunk(size.min(waiting))
                }
                UploadMethod::Stream | UploadMethod::Whole if waiting > 0 => self.feed(),
                UploadMethod::Whole if last && self.stream.is_none() && self.session.is_some() => {
                    self.start()
                }
                UploadMethod::Stream | UploadMethod::Whole if last => match self.stream.take() {
                    Some(stream) => self.end(stream),
                    None => return Ok(()),
                },
                UploadMethod::Chunks(_) | UploadMethod::Stream | UploadMethod::Whole => return Ok(()),
            };
            if let Err(fault) = done {
                self.recover(fault)?;
            }
            let kept = if matches!(self.upload_method, UploadMethod::Chunks(_)) { 0 } else { KEPT };
            self.recent.trim(kept, self.given);
        }
    }

    fn chunk(&mut self, size: u64) -> Result<(), Fault> {
        let bytes = Bytes::from(self.recent.copy(self.given, size));
        let n = bytes.len() as u64;
        let Some(session) = &mut self.session else { return Err(gone(&self.name)) };
        let runtime = runtime().map_err(|e| Fault::new(FaultKind::Odd, e))?;
        runtime.block_on(session.chunk(self.given, bytes))?;
        self.moved(n);
        Ok(())
    }

    fn feed(&mut self) -> Result<(), Fault> {
        if self.stream.is_none() {
            self.start()?;
        }
        let Some(mut stream) = self.stream.take() else { return Err(gone(&self.name)) };
        let block = self.recent.block(self.given, u64::MAX);
        let n = block.len() as u64;
        self.send_block(&mut stream, Some(block))?;
        self.stream = Some(stream);
        self.moved(n);
        Ok(())
    }

    /// Starts the request for the following bytes.
    fn start(&mut self) -> Result<(), Fault> {
        let Some(session) = self.session.clone() else { return Err(gone(&self.name)) };
        let runtime = runtime().map_err(|e| Fault::new(FaultKind::Odd, e))?;
        let left = self.promised.as_ref().map(|(_, size)| size.saturating_sub(self.given));
        let (tx, body) = feed(left);
        let (body, whole) = (Body::wrap(body), self.upload_method == UploadMethod::Whole);
        let digest = self.promised.as_ref().map(|(digest, _)| *digest);
        let answer = runtime.spawn(async move {
            match digest.filter(|_| whole) {
                Some(digest) => session.whole(digest, body).await,
                None => session.stream(body).await,
            }
        });
        self.stream = Some(Stream { feed: tx, answer });
        Ok(())
    }

    /// Ends the body and reads the response.
    fn end(&mut self, mut stream: Stream) -> Result<(), Fault> {
        if self.promised.is_none() {
            self.send_block(&mut stream, None)?;
        }
        let time = self.repository.terms.idle.saturating_mul(10);
        self.session = Some(self.answer(stream, time)?);
        if self.upload_method == UploadMethod::Whole {
            self.session = None;
        }
        Ok(())
    }

    /// Sends one block into the body, or its end. A response that comes earlier ends the request, since the
    /// registry may no longer read the body.
    fn send_block(&self, stream: &mut Stream, word: Option<Bytes>) -> Result<(), Fault> {
        let runtime = runtime().map_err(|e| Fault::new(FaultKind::Odd, e))?;
        let idle = self.repository.terms.idle;
        let Stream { feed, answer } = stream;
        let taken = async {
            tokio::select! {
                answer = &mut *answer => Err(Some(answer)),
                sent = feed.send(word) => sent.map_err(|_| None),
            }
        };
        let answered = match runtime.block_on(within(idle, taken)) {
            Some(Ok(())) => return Ok(()),
            Some(Err(Some(answered))) => Some(answered),
            Some(Err(None)) => runtime.block_on(within(idle, &mut *answer)),
            None => {
                answer.abort();
                let what = format!("{}: the registry accepted no byte for {} s", self.name, seconds(idle));
                return Err(Fault::from_kind(FaultKind::Silent, what));
            }
        };
        match answered {
            Some(Ok(Err(fault))) => Err(fault),
            _ => {
                let what = format!("{}: the registry answered before the blob was sent", self.name);
                Err(Fault::from_kind(FaultKind::Odd, what))
            }
        }
    }

    fn answer(&self, mut stream: Stream, time: Duration) -> Result<Session, Fault> {
        let runtime = runtime().map_err(|e| Fault::new(FaultKind::Odd, e))?;
        match runtime.block_on(within(time, &mut stream.answer)) {
            Some(Ok(answer)) => answer,
            Some(Err(e)) => Err(Fault::new(
                FaultKind::Odd,
                Error::failed(format!(
                    "{}: the task of the request failed; this is a bug, please report it",
                    self.name
                ))
                .because(e),
            )),
            None => {
                stream.answer.abort();
                let what = format!(
                    "{}: all bytes are sent, but no response came for {} s",
                    self.name,
                    seconds(time)
                );
                Err(Fault::from_kind(FaultKind::Silent, what))
            }
        }
    }

    /// Handles an error: finds the position to resume from, and checks that its bytes are still kept.
    fn recover(&mut self, fault: Fault) -> Result<()> {
        let runtime = runtime()?;
        self.stream = None;
        let why = fault.error.chain();
        let new = self.given.saturating_sub(self.furthest);
        self.furthest = self.furthest.max(self.given);
        let other = fault.status.is_some_and(|status| OTHER_METHOD.contains(&status));
        match self.upload_method {
            UploadMethod::Stream if other => return self.change(UploadMethod::Chunks(CHUNK), &fault),
            UploadMethod::Chunks(_) if other && self.given == 0 => {
                return self.change(UploadMethod::Whole, &fault);
            }
            _ => {}
        }
        let mut fault = fault;
        let at = loop {
            runtime.block_on(self.mirror_session.failed(fault, self.given, new))?;
            let Some(session) = self.session.as_mut().filter(|_| self.upload_method != UploadMethod::Whole)
            else {
                break 0;
            };
            match runtime.block_on(session.offset()) {
                Ok(at) => break at,
                // The registry no longer knows the upload.
                Err(fault) if fault.kind == FaultKind::Missing => break 0,
                Err(another) => fault = another,
            }
        };
        if at == 0 {
            let session = self.session.take();
            runtime.block_on(cancel(session));
            self.open()?;
        }
        tracing::info!(name = self.name, at, "an upload is resumed");
        count(&self.repository.counters.resumed);
        self.on_from(at, why)
    }

    /// Switches to another upload method, for this blob from its start and for all later ones.
    fn change(&mut self, upload_method: UploadMethod, fault: &Fault) -> Result<()> {
        tracing::info!(name = self.name, to = ?upload_method, error = %fault.error, "the registry rejected the upload method; another one is used");
        runtime()?.block_on(cancel(self.session.take()));
        self.repository.set_upload_method(upload_method);
        if upload_method == UploadMethod::Whole && self.promised.is_none() {
            return Err(spool(&self.name));
        }
        (self.upload_method, self.furthest) = (upload_method, 0);
        self.open()?;
        self.on_from(0, fault.error.chain())
    }

    /// Continues at `at`. `why` is the error that interrupted the upload.
    fn on_from(&mut self, at: u64, why: String) -> Result<()> {
        self.given = at;
        if self.recent.covers(at) {
            return Ok(());
        }
        self.lost = Some(at);
        let what = "the upload was interrupted, and the registry lost bytes that are no longer kept here";
        let what = format!("{}: {what}; it has {at} bytes, and the rest must be sent again", self.name);
        Err(Error::failed(what).because(why))
    }

    fn moved(&mut self, n: u64) {
        self.given += n;
        add(&self.repository.counters.sent, n);
    }

    fn flush_block(&mut self) {
        if !self.block.is_empty() {
            let block = std::mem::replace(&mut self.block, BytesMut::with_capacity(BLOCK));
            self.recent.push(block.freeze());
        }
    }

    /// Verifies size and digest before the registry stores the blob under its name.
    fn check(&self) -> Result<Digest> {
        let actual = self.hash.clone().finish();
        match &self.promised {
            Some((_, size)) if self.hashed != *size => Err(Error::refused(format!(
                "{} ends after {} of the {size} bytes promised",
                self.name, self.hashed
            ))),
            Some((digest, _)) if actual != *digest => {
                Err(Error::refused(format!("{} has the digest {actual}; the upload is discarded", self.name)))
            }
            _ => Ok(actual),
        }
    }

    fn commit(&mut self, digest: &Digest) -> Result<()> {
        let runtime = runtime()?;
        let Some(session) = self.session.clone() else { return Ok(()) };
        let mut tried = false;
        loop {
            let fault = match runtime.block_on(session.commit(digest)) {
                Ok(()) => return Ok(()),
                Err(fault) => fault,
            };
            // The response to an earlier attempt was lost. The upload is gone because it is complete.
            if tried && fault.kind == FaultKind::Missing && runtime.block_on(self.is_there(digest)) {
                return Ok(());
            }
            tried = true;
            runtime.block_on(self.mirror_session.failed(fault, self.given, 0))?;
        }
    }

    async fn is_there(&self, digest: &Digest) -> bool {
        let Ok((_, origin)) = self.repository.origin() else { return false };
        let there = super::head(&self.repository, origin, digest, self.hashed).await;
        there.unwrap_or(false)
    }
}

impl Write for Upload {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if let Some(at) = self.lost {
            let what = format!(
                "{}: the upload was interrupted at byte {at}; resume from there or start again",
                self.name
            );
            return Err(Error::failed(what).into());
        }
        let n = data.len().min(BLOCK - self.block.len());
        let data = &data[..n];
        let after = self.written + n as u64;
        if let Some((_, size)) = self.promised.filter(|(_, size)| after > *size) {
            return Err(
                Error::refused(format!("{} is longer than the {size} bytes promised", self.name)).into()
            );
        }
        // Bytes that are written again are in the hash already.
        let known = self.hashed.saturating_sub(self.written).min(n as u64) as usize;
        self.hash.update(&data[known..]);
        self.hashed = self.hashed.max(after);
        self.written = after;
        self.block.extend_from_slice(data);
        if self.block.len() == BLOCK {
            self.flush_block();
            self.pump(false)?;
        }
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl BlobWriter for Upload {
    fn digest(&mut self) -> Result<Digest> {
        Ok(self.hash.clone().finish())
    }

    fn arrive(&mut self) -> Result<()> {
        self.flush_block();
        self.check()?;
        self.pump(true)
    }

    fn rewind(&mut self) -> Result<Option<u64>> {
        let at = self.lost.take();
        if let Some(at) = at {
            self.block.clear();
            (self.recent, self.written, self.given) = (Recent::at(at), at, at);
        }
        Ok(at)
    }

    fn finish(mut self: Box<Self>) -> Result<(Digest, u64)> {
        self.flush_block();
        let digest = self.check()?;
        self.pump(true)?;
        self.commit(&digest)?;
        // Nothing is left to cancel.
        self.session = None;
        Ok((digest, self.hashed))
    }
}

impl Drop for Upload {
    /// Cancels the upload. A body that may end now is ended properly. A registry whose connection is cut in
    /// the middle may still be processing it when the cancellation arrives.
    fn drop(&mut self) {
        let Ok(runtime) = runtime() else { return };
        let mut session = self.session.take();
        if let Some(mut stream) = self.stream.take() {
            let ends = match &self.promised {
                Some((_, size)) => self.given == *size,
                None => runtime
                    .block_on(within(LAST_WORD, stream.feed.send(None)))
                    .is_some_and(|sent| sent.is_ok()),
            };
            let mut answer =
                if ends { runtime.block_on(within(LAST_WORD, &mut stream.answer)) } else { None };
            if answer.is_none() {
                stream.answer.abort();
                // The connection is closed only when this is over.
                answer = runtime.block_on(within(LAST_WORD, &mut stream.answer));
            }
            if let Some(Ok(Ok(moved))) = answer {
                session = Some(moved);
            }
        }
        runtime.block_on(cancel(session));
    }
}

async fn cancel(session: Option<Session>) {
    if let Some(session) = session {
        session.cancel().await;
    }
}

/// Adjusts the chunk size to the registry's minimum. Fails if that is more than an upload may hold in memory.
fn chunks_of(upload_method: UploadMethod, least: u64, address: &str) -> Result<UploadMethod> {
    match upload_method {
        UploadMethod::Chunks(_) if least > LARGEST_CHUNK => {
            let most = LARGEST_CHUNK >> 20;
            let what = format!(
                "{address} requires chunks of at least {least} bytes, but at most {most} MiB are held in memory"
            );
            Err(Error::refused(format!("{what}; set upload = \"stream\" or \"whole\" in registries.toml")))
        }
        UploadMethod::Chunks(size) => Ok(UploadMethod::Chunks(size.max(least))),
        UploadMethod::Stream | UploadMethod::Whole => Ok(upload_method),
    }
}

fn spool(name: &str) -> Error {
    let hint = "the registry accepts only whole blobs (upload = \"whole\"), so the digest must be known first; spool the blob";
    Error::usage(format!("{name}: {hint}"))
}

fn gone(name: &str) -> Fault {
    Fault::from_kind(FaultKind::Odd, format!("{name}: the upload has ended already"))
}
