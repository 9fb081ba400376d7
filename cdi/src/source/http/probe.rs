//! The first request: one GET that finds out the size, the support of ranges and the version, and brings the
//! first bytes.
//!
//! Ranges are used only if the answer has a strong validator, since two ranges could otherwise be of two
//! files of equal size. Any other file is requested once more, as a whole, and comes as one response. So does
//! a file that was written a moment ago on a server that gives no strong ETag.

use super::encoding::{self, Encoding};
use super::remote::Remote;
use super::remote_file::RemoteFile;
use super::whole::{Begun, Whole};
use bytes::{Bytes, BytesMut};
use fetch::{Attempts, ContentRange, Error, Fault, FaultKind, PartSink, Permit, Result, Validators};
use reqwest::header::{self, HeaderMap};
use reqwest::{Response, StatusCode};
use std::sync::Arc;

/// Length of the first request. Enough for the headers and first tables of any format, little enough to cost
/// nothing beside the round trip.
const HEAD: u64 = 256 << 10;
/// Bytes that are read of a response that will be streamed later: enough to tell a web page.
const PEEK: usize = 1 << 10;

/// The result of the probe.
pub(super) struct Probed {
    pub(super) body: Body,
    pub(super) encoding: Encoding,
    pub(super) validators: Validators,
}

/// The way to read the bytes.
pub(super) enum Body {
    /// By requests for ranges of the file.
    Ranged(Arc<Remote>),
    /// As one response; with its length, if the server states it.
    Whole(Box<Whole>, Option<u64>),
}

/// Probes the server, with repetitions where they may help.
pub(super) async fn probe(remote_file: RemoteFile) -> Result<Probed> {
    let mut attempts = remote_file.attempts(0);
    let mut ranges = true;
    let response = loop {
        match first_answer(&remote_file, &mut ranges, &mut attempts).await {
            Ok(answer) => break answer,
            Err(fault) => attempts.pause(0, fault).await?,
        }
    };
    let facts = AnswerFacts::of(&remote_file, &response)?;
    let (facts, head, body) = match facts.size {
        Some(size) if facts.ranges => {
            let mut remote = Remote::new(remote_file, facts.validators.clone(), size, Bytes::new());
            remote.head = first_bytes(&remote, response, attempts).await?;
            (facts, remote.head.clone(), Body::Ranged(Arc::new(remote)))
        }
        _ => {
            let (facts, begun) = begin(&remote_file, facts, response, attempts).await?;
            let (head, size) = (begun.head.clone(), facts.size);
            let whole = Whole::new(remote_file, facts.validators.clone(), size, begun);
            (facts, head, Body::Whole(Box::new(whole), size))
        }
    };
    let AnswerFacts { headers, encoding, validators, .. } = facts;
    let found = Probed { body, encoding, validators };
    if is_web_page(&headers, &encoding.first_bytes(&head)) {
        let what = "the server sent a web page, not a disk: open the link in a browser to see what it says; \
                    check the link, or log in";
        return Err(Error::refused(format!("{}: {what}", found.name())));
    }
    Ok(found)
}

impl Probed {
    fn name(&self) -> &str {
        match &self.body {
            Body::Ranged(remote) => remote.remote_file.name(),
            Body::Whole(whole, _) => whole.name(),
        }
    }
}

/// Facts about the file by the headers of an answer.
struct AnswerFacts {
    headers: HeaderMap,
    encoding: Encoding,
    size: Option<u64>,
    /// True if the server supports ranges.
    ranges: bool,
    validators: Validators,
}

impl AnswerFacts {
    fn of(remote_file: &RemoteFile, response: &Response) -> Result<AnswerFacts> {
        let headers = response.headers().clone();
        let encoding = encoding::parse(&headers)
            .map_err(|what| Error::refused(format!("{}: {what}", remote_file.name())))?;
        let size = match response.status() {
            StatusCode::PARTIAL_CONTENT => ContentRange::parse(&headers).and_then(|range| range.total),
            StatusCode::RANGE_NOT_SATISFIABLE => Some(0),
            _ => response.content_length(),
        };
        if let Some(size) = size.filter(|size| i64::try_from(*size).is_err()) {
            let what = format!(
                "{}: the server says that the file has {size} bytes, which no disk has",
                remote_file.name()
            );
            return Err(Error::refused(what));
        }
        // An empty file has no bytes that could be of another version.
        let ranges = response.status() == StatusCode::PARTIAL_CONTENT || size == Some(0);
        let validators = Validators::new(&headers, size);
        Ok(AnswerFacts { headers, encoding, size, ranges, validators })
    }
}

/// The first answer that can be used: 206 from byte 0 with a size and a strong validator, 200, or 416 of an
/// empty file.
async fn first_answer(
    remote_file: &RemoteFile,
    ranges: &mut bool,
    attempts: &mut Attempts,
) -> Result<Response, Fault> {
    loop {
        let range = ranges.then_some(0..HEAD);
        let response = remote_file.get(range, None, &mut attempts.silence).await?;
        let headers = response.headers();
        let usable = match response.status() {
            StatusCode::PARTIAL_CONTENT => {
                let placed = ContentRange::parse(headers)
                    .is_some_and(|range| range.start == 0 && range.total.is_some());
                placed && Validators::new(headers, None).are_strong()
            }
            StatusCode::RANGE_NOT_SATISFIABLE => ContentRange::unsatisfied(headers) == Some(0),
            _ => true,
        };
        if usable {
            return Ok(response);
        }
        if !*ranges {
            let what = format!("the server answered {} to a request for the whole file", response.status());
            return Err(remote_file.failed(what).into());
        }
        // A range without its position or its version is of no use.
        *ranges = false;
    }
}

/// The bytes that came with a 206; if the connection breaks, the missing ones are requested.
async fn first_bytes(remote: &Remote, response: Response, mut attempts: Attempts) -> Result<Bytes> {
    let promised = ContentRange::parse(response.headers()).map_or(0, |range| range.end);
    let (mut at, end) = (0, promised.min(HEAD));
    let mut head = Gather(BytesMut::with_capacity(usize::try_from(end).unwrap_or_default()));
    if let Err(fault) = remote.body(response, &mut at, end, &mut head, &mut attempts, &mut None).await {
        attempts.pause(at, fault).await?;
        remote.resume(&mut at, end, &mut head, attempts).await?;
    }
    Ok(head.0.freeze())
}

/// Reads the beginning of a whole response; if that fails, requests it again. The facts are those of the
/// answer that is read, since the first one may have been of another version.
async fn begin(
    remote_file: &RemoteFile,
    mut facts: AnswerFacts,
    mut response: Response,
    mut attempts: Attempts,
) -> Result<(AnswerFacts, Begun)> {
    loop {
        match peek(remote_file, &mut response, &mut attempts).await {
            Ok(head) => {
                let begun = Begun { head, response, size: facts.size };
                return Ok((facts, begun));
            }
            Err(fault) => attempts.pause(0, fault).await?,
        }
        response = loop {
            match remote_file.get(None, None, &mut attempts.silence).await {
                Ok(response) => break response,
                Err(fault) => attempts.pause(0, fault).await?,
            }
        };
        facts = AnswerFacts::of(remote_file, &response)?;
    }
}

async fn peek(
    remote_file: &RemoteFile,
    response: &mut Response,
    attempts: &mut Attempts,
) -> Result<Bytes, Fault> {
    let mut head = BytesMut::new();
    while head.len() < PEEK {
        let wanted = || "the first bytes".to_owned();
        match remote_file.chunk(response, &mut attempts.silence, wanted).await? {
            Some(bytes) => head.extend_from_slice(&bytes),
            None => break,
        }
    }
    if response.status() != StatusCode::OK {
        let what = format!("the server answered {}", response.status());
        return Err(Fault::new(FaultKind::Broken, remote_file.failed(what)));
    }
    Ok(head.freeze())
}

fn is_web_page(headers: &HeaderMap, first: &[u8]) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let page = kind.eq_ignore_ascii_case("text/html") || kind.eq_ignore_ascii_case("application/xhtml+xml");
    let first = first.strip_prefix(b"\xef\xbb\xbf").unwrap_or(first);
    let first = first.trim_ascii_start();
    let says = |tag: &[u8]| first.get(..tag.len()).is_some_and(|start| start.eq_ignore_ascii_case(tag));
    page && says(b"<") || says(b"<!doctype html") || says(b"<html")
}

struct Gather(BytesMut);

impl PartSink for Gather {
    const READER_WAITS: bool = true;

    async fn take(&mut self, bytes: Bytes, _: &mut Option<Permit<'_>>) {
        self.0.extend_from_slice(&bytes);
    }
}
