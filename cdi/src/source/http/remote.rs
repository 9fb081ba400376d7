//! A remote file that is read in ranges. Every range is checked to be the requested bytes, of the version
//! that was opened. A broken transfer continues at the byte where it broke.
//!
//! Each answer must itself prove the version, by the strong validator of the first one. An `If-Range` in the
//! request proves nothing: a proxy that does not know it sends the present version.

use super::remote_file::RemoteFile;
use bytes::Bytes;
use fetch::{
    Attempts, ContentRange, Error, Fault, FaultKind, GOOD_PROGRESS, Part, PartSink, Permit, Ranged, Result,
    Validators, ordered::MOST_HELD, ordered::Window,
};
use reqwest::header::HeaderValue;
use reqwest::{Response, StatusCode};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// The memory of all queues of a reader together.
const BUDGET: u64 = 16 * MIB;
/// Length of a segment when there is only one at a time.
const LONG: u64 = 16 * MIB;

/// One version of one file.
pub(super) struct Remote {
    pub(super) remote_file: RemoteFile,
    pub(super) size: u64,
    /// The first bytes, which came with the first answer.
    pub(super) head: Bytes,
    validators: Validators,
    if_range: Option<HeaderValue>,
}

impl Remote {
    pub(super) fn new(remote_file: RemoteFile, validators: Validators, size: u64, head: Bytes) -> Remote {
        let if_range = validators.if_range();
        Remote { remote_file, size, head, validators, if_range }
    }

    /// Sends exactly the bytes up to `end` to `sink`; the transfer may have had failures already.
    pub(super) async fn resume<S: PartSink>(
        &self,
        at: &mut u64,
        end: u64,
        sink: &mut S,
        mut attempts: Attempts,
    ) -> Result<()> {
        let (permit, waited) = self.remote_file.concurrency.enter().await;
        if S::READER_WAITS {
            self.remote_file.concurrency.hungry(waited);
        }
        let mut permit = Some(permit);
        while *at < end {
            if let Err(fault) = self.attempt(at, end, sink, &mut attempts, &mut permit).await {
                attempts.pause(*at, fault).await?;
            }
        }
        Ok(())
    }

    async fn attempt(
        &self,
        at: &mut u64,
        end: u64,
        sink: &mut impl PartSink,
        attempts: &mut Attempts,
        permit: &mut Option<Permit<'_>>,
    ) -> Result<(), Fault> {
        let response =
            self.remote_file.get(Some(*at..end), self.if_range.as_ref(), &mut attempts.silence).await?;
        let end_of_answer = self.check(&response, *at..end)?.min(end);
        let (asked, given) = (end - *at, end_of_answer - *at);
        self.body(response, at, end_of_answer, sink, attempts, permit).await?;
        if given < asked.min(GOOD_PROGRESS) {
            // A few bytes for each answer could go on for years.
            let what = format!("the server gives {given} bytes for a request of {asked}");
            return Err(Fault::new(FaultKind::Cut, self.remote_file.failed(what)));
        }
        Ok(())
    }

    /// Pumps a checked body into the sink up to `end`.
    pub(super) async fn body(
        &self,
        mut response: Response,
        at: &mut u64,
        end: u64,
        sink: &mut impl PartSink,
        attempts: &mut Attempts,
        permit: &mut Option<Permit<'_>>,
    ) -> Result<(), Fault> {
        let start = *at;
        while *at < end {
            let here = *at;
            let wanted = || format!("bytes {here}-{}", end - 1);
            let Some(mut bytes) =
                self.remote_file.chunk(&mut response, &mut attempts.silence, wanted).await?
            else {
                let (promised, sent) = (end - start, here - start);
                let what =
                    format!("the server promised {promised} bytes from byte {start} and sent only {sent}");
                return Err(Fault::new(FaultKind::Cut, self.remote_file.failed(what)));
            };
            self.remote_file.concurrency.received(bytes.len());
            bytes.truncate(usize::try_from(end - here).unwrap_or(usize::MAX));
            *at += bytes.len() as u64;
            sink.take(bytes, permit).await;
        }
        // The end of a chunked body is a piece of its own; once it is read, the connection can be used again.
        let _ = tokio::time::timeout(Duration::from_millis(20), response.chunk()).await;
        Ok(())
    }

    /// The end of the bytes that the answer promises, if it is an answer to the request.
    fn check(&self, response: &Response, asked: Range<u64>) -> Result<u64, Fault> {
        let (first, last) = (asked.start, asked.end - 1);
        let headers = response.headers();
        let partial = response.status() == StatusCode::PARTIAL_CONTENT;
        let range = ContentRange::parse(headers);
        let size = match response.status() {
            StatusCode::PARTIAL_CONTENT => range.and_then(|r| r.total),
            StatusCode::RANGE_NOT_SATISFIABLE => ContentRange::unsatisfied(headers),
            _ => response.content_length(),
        };
        // The headers of a 416 do not describe the file.
        let now = if response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
            Validators::with_size(size)
        } else {
            Validators::new(headers, size)
        };
        if let Some(difference) = self.validators.difference(&now) {
            return Err(self.changed(&difference));
        }
        if partial && !self.validators.agrees(&now) {
            let what = format!(
                "the answer for bytes {first}-{last} repeats neither the strong ETag nor the date (Last-Modified, before \
                 Date) of the first one, as behind a proxy that leaves them out, so nothing shows that it is of the same \
                 version; read the file in one request: curl -fL URL | coracle convert - TARGET"
            );
            return Err(Error::refused(format!("{}: {what}", self.remote_file.name())).into());
        }
        match range {
            Some(range) if partial && range.start == first => Ok(range.end),
            _ if partial => {
                let sent = headers.get("content-range").map(|v| String::from_utf8_lossy(v.as_bytes()));
                let sent = sent.map_or_else(|| "nothing".into(), |sent| printable::text(&sent, 80));
                let what = format!(
                    "asked for bytes {first}-{last}, but the server says Content-Range: {sent}; it cannot be trusted \
                     with ranges"
                );
                Err(self.remote_file.failed(what).into())
            }
            _ => {
                let status = response.status();
                let what = format!("asked for bytes {first}-{last}, but the server answered {status}");
                // Some caches do this for a moment. The version is still the same, so another request is
                // safe.
                Err(Fault::new(FaultKind::Broken, self.remote_file.failed(what)))
            }
        }
    }

    fn changed(&self, difference: &str) -> Fault {
        let what = format!(
            "{}: the file changed while it was read ({difference}); nothing of the two versions was mixed; start again",
            self.remote_file.name()
        );
        Fault::from_kind(FaultKind::Changed, what)
    }
}

impl Ranged for Remote {
    fn name(&self) -> &str {
        self.remote_file.name()
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn head(&self) -> Bytes {
        self.head.clone()
    }

    async fn transfer<S: PartSink>(&self, part: Part, sink: &mut S) -> Result<()> {
        let mut at = part.range.start;
        let attempts = self.remote_file.attempts(at);
        self.resume(&mut at, part.range.end, sink, attempts).await
    }
}

/// A window of as many segments as requests may be in flight, and one more that waits its turn. With one
/// request at a time segments are long, as good as one response; with several they are short, so that all fit
/// the memory bound.
pub(super) struct RemoteWindow(pub(super) Arc<Remote>);

impl Window for RemoteWindow {
    fn next(&mut self, under_way: usize, held: u64) -> Option<u64> {
        let limit = self.width();
        let several = (BUDGET / (limit as u64 + 1)).clamp(MIB, MOST_HELD);
        (under_way <= limit && held < BUDGET).then_some(if limit == 1 { LONG } else { several })
    }

    fn width(&self) -> usize {
        self.0.remote_file.concurrency.limit()
    }

    fn waited(&mut self, time: Duration, _: bool) {
        self.0.remote_file.concurrency.hungry(time);
    }
}
