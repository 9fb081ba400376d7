//! One answer: what a good server would say, then spoiled as the behaviour tells.

use super::{Behaviour, Request, Shared, Stream, lock};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::borrow::Cow;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// Answers; tells whether the connection may go on.
pub(super) fn respond(shared: &Shared, stream: &mut dyn Stream, request: &Request) -> io::Result<bool> {
    let number = shared.served.fetch_add(1, SeqCst);
    let counted = InFlight::new(shared);
    lock(&shared.requests).push(request.clone());
    let behaviour = lock(&shared.behaviour).clone();
    std::thread::sleep(behaviour.latency);
    if number < behaviour.mute {
        hang(shared);
        return Ok(false);
    }
    if let Some((_, status, to)) = behaviour.redirects.iter().find(|(path, ..)| *path == request.path) {
        return short(stream, *status, &format!("Location: {to}\r\n"));
    }
    if let Some(answer) = refusal(shared, &behaviour, request) {
        return short(stream, answer.0, &answer.1);
    }
    let mut answer = Answer::plan(shared, &behaviour, request, number);
    answer.spoil(&behaviour, number);
    stream.write_all(answer.head.as_bytes())?;
    answer.body(shared, &behaviour, stream, counted)
}

fn refusal(shared: &Shared, behaviour: &Behaviour, request: &Request) -> Option<(u16, String)> {
    if let Some((user, password)) = &behaviour.basic {
        let given = request.header("authorization").and_then(|v| v.strip_prefix("Basic "));
        if given.and_then(|given| STANDARD.decode(given).ok()).as_deref()
            != Some(format!("{user}:{password}").as_bytes())
        {
            return Some((401, "WWW-Authenticate: Basic realm=\"disks\"\r\n".into()));
        }
    }
    if let Some((name, value)) = &behaviour.wanted_header
        && request.header(name) != Some(value)
    {
        return Some((403, String::new()));
    }
    let fail = behaviour.fail.as_ref()?;
    let number = shared.failed.fetch_add(1, SeqCst);
    if number < fail.skip || number - fail.skip >= fail.times {
        return None;
    }
    let retry_after = fail.retry_after.as_ref().map(|v| format!("Retry-After: {v}\r\n"));
    Some((fail.status, retry_after.unwrap_or_default()))
}

struct Answer<'a> {
    bytes: Cow<'a, [u8]>,
    range: Range<usize>,
    head: String,
    chunked: bool,
    keep: bool,
}

impl<'a> Answer<'a> {
    fn plan(shared: &'a Shared, behaviour: &'a Behaviour, request: &Request, number: u32) -> Answer<'a> {
        let change = behaviour.change.as_ref().filter(|change| number >= change.after_requests);
        let (bytes, etag, modified) = match change {
            Some(change) => (&change.bytes, &change.etag, &change.last_modified),
            None => {
                let own = behaviour.files.iter().find(|(path, _)| *path == request.path);
                let bytes = own.map_or(&shared.bytes, |(_, bytes)| bytes);
                (bytes, &behaviour.etag, &behaviour.last_modified)
            }
        };
        let bytes: Cow<'_, [u8]> = if behaviour.gzip { gzip(bytes).into() } else { bytes.into() };
        let size = bytes.len() as u64;
        let known = |v: &str| Some(v) == etag.as_deref() || Some(v) == modified.as_deref();
        let same = behaviour.ignore_if_range || request.header("if-range").is_none_or(known);
        let in_time =
            number >= behaviour.ranges_from && behaviour.no_ranges_from.is_none_or(|from| number < from);
        let ranges = behaviour.ranges && same && in_time;
        let mut head = String::new();
        let mut status = "200 OK";
        let mut part = 0..bytes.len();
        if let Some(range) = request.range(size).filter(|_| ranges) {
            if range.start >= size {
                status = "416 Range Not Satisfiable";
                head += &format!("Content-Range: bytes */{size}\r\n");
                part = 0..0;
            } else {
                let longest = behaviour.longest_range.unwrap_or(u64::MAX);
                let end = range.end.min(range.start.saturating_add(longest));
                status = "206 Partial Content";
                let (first, last) =
                    (range.start as i64 + behaviour.range_lie, end as i64 - 1 + behaviour.range_lie);
                let total = behaviour.total_lie.unwrap_or(size);
                let claimed = behaviour.claimed_range.as_ref().filter(|(from, _)| number >= *from);
                let said = claimed.map_or(format!("bytes {first}-{last}/{total}"), |(_, said)| said.clone());
                head += &format!("Content-Range: {said}\r\n");
                part = range.start as usize..end as usize;
            }
        }
        for (name, value) in [("ETag", etag), ("Last-Modified", modified), ("Date", &behaviour.date)] {
            head += &value.as_ref().map(|v| format!("{name}: {v}\r\n")).unwrap_or_default();
        }
        let head = format!("HTTP/1.1 {status}\r\nContent-Type: {}\r\n{head}", behaviour.content_type);
        Answer { bytes, range: part, head, chunked: false, keep: true }
    }

    fn spoil(&mut self, behaviour: &Behaviour, number: u32) {
        if behaviour.gzip {
            self.head += "Content-Encoding: gzip\r\n";
        }
        if let Some((from, claimed)) = &behaviour.claimed_encoding
            && number >= *from
        {
            self.head += &format!("Content-Encoding: {claimed}\r\n");
        }
        if behaviour.until_close {
            self.keep = false;
            self.head += "Connection: close\r\n";
        } else if behaviour.chunked {
            self.chunked = true;
            self.head += "Transfer-Encoding: chunked\r\n";
        } else {
            let length = self.range.len() as i64 + behaviour.length_lie;
            self.keep = behaviour.length_lie == 0;
            self.head += &format!("Content-Length: {}\r\n", length.max(0));
        }
        self.head += "\r\n";
    }

    fn body(
        &self,
        shared: &Shared,
        behaviour: &Behaviour,
        stream: &mut dyn Stream,
        counted: InFlight<'_>,
    ) -> io::Result<bool> {
        let mut counted = Some(counted);
        let body = &self.bytes[self.range.clone()];
        let spoil = behaviour.drop_after.or(behaviour.stall_after);
        let spoil = spoil.filter(|spoil| (body.len() as u64) > spoil.bytes).filter(|spoil| {
            let number = shared.spoiled.fetch_add(1, SeqCst);
            number >= spoil.skip && number - spoil.skip < spoil.times
        });
        let good = spoil.map_or(body.len(), |spoil| spoil.bytes as usize);
        // Without a rate the body goes out in large pieces; with one, smoothly.
        let piece = if behaviour.rate.is_some() { 16 << 10 } else { 256 << 10 };
        let since = Instant::now();
        let mut sent = 0u64;
        for piece in body[..good].chunks(piece) {
            sent += piece.len() as u64;
            if sent as usize == good && spoil.is_none() {
                // The client may ask the next thing as soon as it has the last byte.
                counted.take();
            }
            if self.chunked {
                write!(stream, "{:x}\r\n", piece.len())?;
                stream.write_all(piece)?;
                stream.write_all(b"\r\n")?;
            } else {
                stream.write_all(piece)?;
            }
            shared.sent.fetch_add(piece.len() as u64, SeqCst);
            if let Some(rate) = behaviour.rate {
                let due = Duration::from_secs_f64(sent as f64 / rate as f64);
                while !shared.hurry.load(SeqCst) && since.elapsed() < due {
                    std::thread::sleep(due.saturating_sub(since.elapsed()).min(Duration::from_millis(20)));
                }
            }
        }
        stream.flush()?;
        if spoil.is_some() {
            if behaviour.drop_after.is_none() {
                hang(shared);
            }
            return Ok(false);
        }
        if self.chunked {
            stream.write_all(b"0\r\n\r\n")?;
        }
        Ok(self.keep)
    }
}

/// An answer without a body.
fn short(stream: &mut dyn Stream, status: u16, headers: &str) -> io::Result<bool> {
    // 204 and 304 have no length.
    let length = if matches!(status, 204 | 304) { "" } else { "Content-Length: 0\r\n" };
    write!(stream, "HTTP/1.1 {status} So\r\n{length}{headers}\r\n")?;
    Ok(true)
}

/// Says nothing until the server stops.
fn hang(shared: &Shared) {
    while !shared.stop.load(SeqCst) {
        std::thread::sleep(Duration::from_millis(10));
    }
}

struct InFlight<'a>(&'a Shared);

impl<'a> InFlight<'a> {
    fn new(shared: &'a Shared) -> InFlight<'a> {
        let now = shared.in_flight.fetch_add(1, SeqCst) + 1;
        shared.peak.fetch_max(now, SeqCst);
        InFlight(shared)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, SeqCst);
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(vec![], Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory takes everything")
}
