//! A blob on its way up, from a plain thread.
//!
//! ```text
//!   write ─► hash, blocks of 256 KiB ─► recent ─► pump: what the registry was not given yet, in its manner
//!                                                  │ a fault; "not in this manner" is answered by the next manner
//!                                                  ▼
//!              mend: a pause (mirror.rs); how much has the registry? ─► recent has the rest: on from there
//!                                                                   └─► it has not: `lost`, until resume()
//! ```

use super::feed::feed;
use super::recent::Recent;
use super::session::Session;
use crate::digest::Hasher;
use crate::manifest::{self, Descriptor};
use crate::place::BlobWriter;
use crate::registry::config::{CHUNK, LARGEST_CHUNK, Manner};
use crate::registry::counters::{add, count};
use crate::registry::journey::Journey;
use crate::registry::repository::Repository;
use crate::{Digest, Error, Result};
use bytes::{Bytes, BytesMut};
use fetch::retry::{seconds, within};
use fetch::runtime;
use fetch::{Fault, Why};
use reqwest::Body;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinHandle;

const BLOCK: usize = 256 << 10;

/// How much of what went out last is kept. It is more than sockets hold, so that the rest has arrived.
const KEPT: u64 = 8 << 20;

/// What one upload takes of the memory: what is kept, and what the client and its connection hold on the way.
pub const MEMORY: u64 = KEPT + (4 << 20);

/// How long a registry may take for what is only given up.
const LAST_WORD: Duration = Duration::from_secs(5);

/// Answers that mean "not in this manner".
const OTHER_MANNER: [u16; 6] = [400, 405, 411, 413, 415, 501];

/// A blob on its way up.
pub(crate) struct Upload {
    repository: Arc<Repository>,
    journey: Journey,
    name: String,
    promised: Option<(Digest, u64)>,
    hash: Hasher,
    /// How much of the blob is in the hash.
    hashed: u64,
    /// Where the next byte that is written belongs.
    written: u64,
    block: BytesMut,
    recent: Recent,
    /// How much of it the registry was given.
    given: u64,
    /// Up to where it once was, for counting.
    furthest: u64,
    session: Option<Session>,
    manner: Manner,
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
        let manner = repository.manner();
        if manner == Manner::Whole && promised.is_none() {
            return Err(spool(&name));
        }
        let mut journey = Journey::new(repository, name.clone(), None).only(|mirror| mirror == index);
        runtime()?.block_on(journey.start())?;
        let mut upload = Upload {
            repository: Arc::clone(repository),
            journey,
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
            manner,
            stream: None,
            lost: None,
        };
        upload.open()?;
        Ok(upload)
    }

    /// Begins an upload at the registry, again if need be.
    fn open(&mut self) -> Result<()> {
        let runtime = runtime()?;
        loop {
            let repository = Arc::clone(&self.repository);
            let (_, origin) = repository.origin()?;
            match runtime.block_on(Session::open(&repository, origin)) {
                Ok(session) => {
                    self.manner = chunks_of(self.manner, session.least, &origin.server.address)?;
                    self.session = Some(session);
                    self.given = 0;
                    return Ok(());
                }
                Err(fault) => runtime.block_on(self.journey.failed(fault, 0, 0))?,
            };
        }
    }

    /// Gives the registry what it has not been given; `last` is whether all of it is here.
    fn pump(&mut self, last: bool) -> Result<()> {
        loop {
            let waiting = self.recent.end().saturating_sub(self.given);
            let done = match self.manner {
                Manner::Chunks(size) if waiting >= size || last && waiting > 0 => {
                    self.chunk(size.min(waiting))
                }
                Manner::Stream | Manner::Whole if waiting > 0 => self.feed(),
                Manner::Whole if last && self.stream.is_none() && self.session.is_some() => self.start(),
                Manner::Stream | Manner::Whole if last => match self.stream.take() {
                    Some(stream) => self.end(stream),
                    None => return Ok(()),
                },
                Manner::Chunks(_) | Manner::Stream | Manner::Whole => return Ok(()),
            };
            if let Err(fault) = done {
                self.mend(fault)?;
            }
            let kept = if matches!(self.manner, Manner::Chunks(_)) { 0 } else { KEPT };
            self.recent.trim(kept, self.given);
        }
    }

    fn chunk(&mut self, size: u64) -> Result<(), Fault> {
        let bytes = Bytes::from(self.recent.copy(self.given, size));
        let n = bytes.len() as u64;
        let Some(session) = &mut self.session else { return Err(gone(&self.name)) };
        let runtime = runtime().map_err(|e| Fault::new(Why::Odd, e))?;
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
        self.say(&mut stream, Some(block))?;
        self.stream = Some(stream);
        self.moved(n);
        Ok(())
    }

    /// Opens the request that the bytes go into.
    fn start(&mut self) -> Result<(), Fault> {
        let Some(session) = self.session.clone() else { return Err(gone(&self.name)) };
        let runtime = runtime().map_err(|e| Fault::new(Why::Odd, e))?;
        let left = self.promised.as_ref().map(|(_, size)| size.saturating_sub(self.given));
        let (tx, body) = feed(left);
        let (body, whole) = (Body::wrap(body), self.manner == Manner::Whole);
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

    /// The end of the body, and its answer.
    fn end(&mut self, mut stream: Stream) -> Result<(), Fault> {
        if self.promised.is_none() {
            self.say(&mut stream, None)?;
        }
        let time = self.repository.terms.idle.saturating_mul(10);
        self.session = Some(self.answer(stream, time)?);
        if self.manner == Manner::Whole {
            self.session = None;
        }
        Ok(())
    }

    /// Puts one word into the body. An answer that comes before its end ends it: nobody may be taking the rest.
    fn say(&self, stream: &mut Stream, word: Option<Bytes>) -> Result<(), Fault> {
        let runtime = runtime().map_err(|e| Fault::new(Why::Odd, e))?;
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
                let what = format!("{}: no byte was taken for {} s", self.name, seconds(idle));
                return Err(Fault::because(Why::Silent, what));
            }
        };
        match answered {
            Some(Ok(Err(fault))) => Err(fault),
            _ => {
                let what = format!("{}: it was answered before it was sent", self.name);
                Err(Fault::because(Why::Odd, what))
            }
        }
    }

    fn answer(&self, mut stream: Stream, time: Duration) -> Result<Session, Fault> {
        let runtime = runtime().map_err(|e| Fault::new(Why::Odd, e))?;
        match runtime.block_on(within(time, &mut stream.answer)) {
            Some(Ok(answer)) => answer,
            Some(Err(e)) => {
                Err(Fault::new(Why::Odd, Error::failed(format!("{}: lost its way", self.name)).because(e)))
            }
            None => {
                stream.answer.abort();
                let what = format!("{}: all is sent, and no answer came for {} s", self.name, seconds(time));
                Err(Fault::because(Why::Silent, what))
            }
        }
    }

    /// Something broke: finds the byte to go on from, and whether it is still here.
    fn mend(&mut self, fault: Fault) -> Result<()> {
        let runtime = runtime()?;
        self.stream = None;
        let why = fault.error.chain();
        let new = self.given.saturating_sub(self.furthest);
        self.furthest = self.furthest.max(self.given);
        let other = fault.status.is_some_and(|status| OTHER_MANNER.contains(&status));
        match self.manner {
            Manner::Stream if other => return self.change(Manner::Chunks(CHUNK), &fault),
            Manner::Chunks(_) if other && self.given == 0 => return self.change(Manner::Whole, &fault),
            _ => {}
        }
        let mut fault = fault;
        let at = loop {
            runtime.block_on(self.journey.failed(fault, self.given, new))?;
            let Some(session) = self.session.as_mut().filter(|_| self.manner != Manner::Whole) else {
                break 0;
            };
            match runtime.block_on(session.offset()) {
                Ok(at) => break at,
                // It has forgotten all of it.
                Err(fault) if fault.why == Why::Missing => break 0,
                Err(another) => fault = another,
            }
        };
        if at == 0 {
            let session = self.session.take();
            runtime.block_on(cancel(session));
            self.open()?;
        }
        tracing::info!(name = self.name, at, "an upload goes on");
        count(&self.repository.counters.resumed);
        self.on_from(at, why)
    }

    /// The registry does not take it in this manner: begins anew in another one, which later blobs begin with.
    fn change(&mut self, manner: Manner, fault: &Fault) -> Result<()> {
        tracing::info!(name = self.name, to = ?manner, error = %fault.error, "blobs are sent in another manner");
        runtime()?.block_on(cancel(self.session.take()));
        self.repository.set_manner(manner);
        if manner == Manner::Whole && self.promised.is_none() {
            return Err(spool(&self.name));
        }
        (self.manner, self.furthest) = (manner, 0);
        self.open()?;
        self.on_from(0, fault.error.chain())
    }

    /// `why` it does not go on where it was.
    fn on_from(&mut self, at: u64, why: String) -> Result<()> {
        self.given = at;
        if self.recent.covers(at) {
            return Ok(());
        }
        self.lost = Some(at);
        let what = "the upload broke, and the registry has fewer bytes than could be kept here";
        let what = format!("{}: {what}; it has {at}, and needs those after them again", self.name);
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

    /// What was promised must be what was written, before the registry gives it its name.
    fn check(&self) -> Result<Digest> {
        let actual = self.hash.clone().finish();
        match &self.promised {
            Some((_, size)) if self.hashed != *size => Err(Error::refused(format!(
                "{} ends after {} of the {size} bytes promised",
                self.name, self.hashed
            ))),
            Some((digest, _)) if actual != *digest => {
                Err(Error::refused(format!("{} has the digest {actual}; nothing of it is kept", self.name)))
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
            // An answer that was lost: the upload is gone because it is done.
            if tried && fault.why == Why::Missing && runtime.block_on(self.is_there(digest)) {
                return Ok(());
            }
            tried = true;
            runtime.block_on(self.journey.failed(fault, self.given, 0))?;
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
            let what =
                format!("{}: it was lost at byte {at}; begin again from there (resume) or anew", self.name);
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
        // What was written before, and is written again, is in the hash already.
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
        // There is nothing left to be given up.
        self.session = None;
        Ok((digest, self.hashed))
    }
}

impl Drop for Upload {
    /// Nothing of it remains. A body that may end now is ended, as a registry that is cut off in the middle may still
    /// be busy with it when it is told to forget it.
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
                // Only when this is over is the connection closed.
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

/// Chunks are at least as long as the registry wants them, and no longer than we can hold.
fn chunks_of(manner: Manner, least: u64, address: &str) -> Result<Manner> {
    match manner {
        Manner::Chunks(_) if least > LARGEST_CHUNK => {
            let most = LARGEST_CHUNK >> 20;
            let what = format!(
                "{address} wants chunks of {least} bytes, and no more than {most} MiB are held at once"
            );
            Err(Error::refused(format!("{what}; set upload = \"stream\" or \"whole\" in registries.toml")))
        }
        Manner::Chunks(size) => Ok(Manner::Chunks(size.max(least))),
        Manner::Stream | Manner::Whole => Ok(manner),
    }
}

fn spool(name: &str) -> Error {
    let hint = "the registry takes only whole blobs (upload = \"whole\"), so the digest must be known first; spool it";
    Error::usage(format!("{name}: {hint}"))
}

fn gone(name: &str) -> Fault {
    Fault::because(Why::Odd, format!("{name}: there is no upload any more"))
}
