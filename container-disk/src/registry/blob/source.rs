//! Exactly the bytes of a range, from one mirror after another.

use crate::registry::counters::add;
use crate::registry::fault::{Fault, Why};
use crate::registry::journey::Journey;
use crate::registry::line::{Answer, Ask, Where};
use crate::registry::location::Location;
use crate::registry::rate::Rate;
use crate::registry::repository::{Mirror, Repository};
use crate::registry::retry::{self, seconds, within};
use crate::registry::token::Scopes;
use crate::{Digest, Error, Result};
use bytes::Bytes;
use reqwest::header::{CONTENT_RANGE, RANGE};
use reqwest::{Method, StatusCode};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One reading of a blob.
pub(super) struct Source {
    pub(super) repository: Arc<Repository>,
    pub(super) digest: Digest,
    pub(super) size: u64,
    /// For people.
    pub(super) name: String,
    /// Where redirects led, by mirror; asked first, until that refuses (links to object stores expire).
    resolved: Mutex<BTreeMap<usize, Location>>,
    /// Who gave bytes, and the first of them.
    givers: Mutex<BTreeMap<usize, u64>>,
    /// Who was left because of its rate: asked last for the rest of this reading.
    slow: Mutex<Vec<usize>>,
    /// Somebody answered a range with everything.
    pub(super) no_ranges: AtomicBool,
}

/// What is expected of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect {
    /// Just this range, or an end at once if it sends everything.
    Probe,
    /// Just this range. Who sends everything instead is not the one.
    Piece,
    /// If it sends everything, what comes before is passed over.
    Anything,
}

/// Takes bytes as they come.
pub(super) trait Sink: Send {
    /// Takes some; false when nobody wants more.
    fn take(&mut self, bytes: Bytes) -> impl Future<Output = bool> + Send;
}

impl Source {
    pub(super) fn new(repository: &Arc<Repository>, digest: Digest, size: u64) -> Source {
        Source {
            repository: Arc::clone(repository),
            digest,
            size,
            name: format!("{}: blob {digest}", repository.name),
            resolved: Mutex::default(),
            givers: Mutex::default(),
            slow: Mutex::default(),
            no_ranges: AtomicBool::new(false),
        }
    }

    /// Brings `range`. `share` is how many such are under way at once, and share the rate.
    pub(super) async fn range(
        &self,
        range: Range<u64>,
        expect: Expect,
        share: u64,
        sink: &mut impl Sink,
    ) -> Result<()> {
        let mut journey = self.journey();
        let mut mirror = journey.start().await?;
        let mut at = range.start;
        loop {
            let before = at;
            let Err(fault) = self.once(mirror, &mut at, range.end, expect, share, sink, &journey).await
            else {
                return Ok(());
            };
            if fault.why == Why::NoRanges && expect == Expect::Probe {
                return Err(fault.error);
            }
            if fault.why == Why::Slow {
                self.slow.lock().unwrap_or_else(PoisonError::into_inner).push(mirror);
            }
            mirror = journey.failed(fault, at, at - before).await?;
        }
    }

    /// All of a small blob, whose digest is right.
    pub(super) async fn small(&self) -> Result<Vec<u8>> {
        let mut journey = self.journey();
        let mut mirror = journey.start().await?;
        loop {
            let mut all = Collect(Vec::new());
            let end = self.size;
            let mut fault =
                match self.once(mirror, &mut 0, end, Expect::Anything, 1, &mut all, &journey).await {
                    Ok(()) => None,
                    Err(fault) => Some(fault),
                };
            if fault.is_none() {
                let mut hash = crate::digest::Hasher::like(&self.digest);
                hash.update(&all.0);
                let actual = hash.finish();
                if actual == self.digest {
                    return Ok(all.0);
                }
                let address = self.mirror(mirror).map_or("", |mirror| &mirror.line.address);
                let what = format!("{} has the digest {actual} at {address}", self.name);
                self.repository.doubts.blame(&self.digest, &[mirror], &what);
                fault = Some(Fault::because(Why::Wrong, what));
            }
            if let Some(fault) = fault {
                mirror = journey.failed(fault, 0, 0).await?;
            }
        }
    }

    /// All bytes have come, and they are not those that were promised: notes who gave them, and says so.
    pub(super) fn blame(&self, why: &str) -> Error {
        let givers = self.givers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut by_place: Vec<(u64, usize)> =
            givers.iter().map(|(mirror, first)| (*first, *mirror)).collect();
        by_place.sort_unstable();
        let list: Vec<String> = by_place
            .iter()
            .filter_map(|(first, mirror)| {
                Some(format!("{} (from byte {first})", self.mirror(*mirror)?.line.address))
            })
            .collect();
        let what = format!("{why}; it came from {}", list.join(" and "));
        let mirrors: Vec<usize> = by_place.iter().map(|(_, mirror)| *mirror).collect();
        self.repository.doubts.blame(&self.digest, &mirrors, &what);
        for mirror in mirrors.iter().filter_map(|mirror| self.mirror(*mirror)) {
            let fault = Fault::because(Why::Wrong, what.clone());
            mirror.line.state(|state| state.failed(&fault, Instant::now()));
        }
        Error::refused(format!("{what}; what was read of it is of no use, another try asks others first"))
    }

    fn journey(&self) -> Journey {
        let mut journey = Journey::new(&self.repository, self.name.clone(), Some(&self.digest));
        for mirror in self.slow.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            journey.last(*mirror);
        }
        journey
    }

    fn mirror(&self, mirror: usize) -> Option<&Mirror> {
        self.repository.mirrors.get(mirror)
    }

    /// One request to one mirror. `at` moves with the bytes.
    #[expect(clippy::too_many_arguments, reason = "all of it is one request")]
    async fn once(
        &self,
        index: usize,
        at: &mut u64,
        end: u64,
        expect: Expect,
        share: u64,
        sink: &mut impl Sink,
        journey: &Journey,
    ) -> Result<(), Fault> {
        let Some(mirror) = self.mirror(index) else { return Err(Fault::because(Why::Odd, "no such mirror")) };
        let ranged = expect != Expect::Anything || *at > 0;
        let mut answer = self.ask(index, mirror, ranged.then_some(*at..end)).await?;
        let name = format!("{} from {}", self.name, mirror.line.address);
        let mut skip = self.check_head(&answer, *at, end, expect, &name)?;
        let (idle, mut silent) = (self.repository.terms.idle, Duration::ZERO);
        let mut rate =
            Rate::new(self.repository.terms.min_rate / share.max(1), self.repository.terms.patience);
        let mut first = true;
        loop {
            let since = Instant::now();
            let patient = idle.min(self.repository.terms.patience);
            let (new, slow) = match within(patient, answer.response.chunk()).await {
                Some(Ok(Some(mut bytes))) => {
                    silent = Duration::ZERO;
                    let slow = rate.add(since.elapsed(), bytes.len() as u64);
                    let passed = skip.min(bytes.len() as u64);
                    skip -= passed;
                    bytes.advance_by(passed);
                    (Some(bytes), slow)
                }
                Some(Ok(None)) if *at == end => return Ok(()),
                Some(Ok(None)) => {
                    return Err(Fault::because(
                        Why::Cut,
                        format!("{name}: it ended at byte {at}, before {end}"),
                    ));
                }
                Some(Err(e)) => {
                    let what = format!("{name}: the connection broke at byte {at}");
                    return Err(Fault::new(Why::Cut, Error::failed(what).because(e.without_url())));
                }
                None => {
                    silent += patient;
                    if silent >= idle {
                        return Err(retry::silent(&name, &format!("byte {at}"), idle));
                    }
                    (None, rate.add(patient, 0))
                }
            };
            if let Some(bytes) = new.filter(|bytes| !bytes.is_empty()) {
                let after = at.checked_add(bytes.len() as u64).filter(|after| *after <= end);
                let Some(after) = after else {
                    return Err(Fault::because(
                        Why::Wrong,
                        format!("{name} is longer than the {end} bytes promised"),
                    ));
                };
                if std::mem::take(&mut first) {
                    journey.well_done();
                    let mut givers = self.givers.lock().unwrap_or_else(PoisonError::into_inner);
                    givers.entry(index).and_modify(|first| *first = (*first).min(*at)).or_insert(*at);
                }
                add(&self.repository.counters.received, bytes.len() as u64);
                *at = after;
                if !sink.take(bytes).await {
                    return Ok(());
                }
            }
            if let Some(rate) = slow.filter(|_| *at < end && journey.may_leave()) {
                let (least, patience) = (self.repository.terms.min_rate, self.repository.terms.patience);
                let what = format!(
                    "{name}: {rate} bytes per second for {} s, under the {least} of min-rate",
                    seconds(patience)
                );
                return Err(Fault::because(Why::Slow, what));
            }
        }
    }

    /// Asks where the last redirect led, or the mirror itself.
    async fn ask(&self, index: usize, mirror: &Mirror, range: Option<Range<u64>>) -> Result<Answer, Fault> {
        let known = self.resolved.lock().unwrap_or_else(PoisonError::into_inner).get(&index).cloned();
        if let Some(location) = known {
            let answer = self.send(mirror, Where::Known(&location), range.as_ref()).await;
            if answer.is_ok() {
                return answer;
            }
            // Perhaps the link has expired: the mirror gives a new one.
            self.resolved.lock().unwrap_or_else(PoisonError::into_inner).remove(&index);
        }
        let path = mirror.path(&format!("blobs/{}", self.digest));
        let answer = self.send(mirror, Where::Path(&path), range.as_ref()).await?;
        if answer.redirected {
            let location = answer.location.clone();
            self.resolved.lock().unwrap_or_else(PoisonError::into_inner).insert(index, location);
        }
        Ok(answer)
    }

    async fn send(
        &self,
        mirror: &Mirror,
        to: Where<'_>,
        range: Option<&Range<u64>>,
    ) -> Result<Answer, Fault> {
        let scopes = Scopes::pull(&mirror.repository);
        let mut ask = Ask::new(Method::GET, to, &scopes, &[200, 206, 416], self.repository.terms.idle);
        if let Some(range) = range.filter(|range| !range.is_empty()) {
            ask = ask.header(RANGE, &format!("bytes={}-{}", range.start, range.end - 1))?;
        }
        mirror.line.request(ask).await
    }

    /// Whether the body is what was asked for, and how much of it comes before.
    fn check_head(
        &self,
        answer: &Answer,
        at: u64,
        end: u64,
        expect: Expect,
        name: &str,
    ) -> Result<u64, Fault> {
        let wrong = |what: String| {
            Fault::because(Why::Wrong, format!("{name} {what}, not the {} promised", self.size))
        };
        let response = &answer.response;
        if response.status() == StatusCode::PARTIAL_CONTENT {
            let header = response.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
            let (start, total) = header.and_then(content_range).ok_or_else(|| {
                Fault::because(Why::Odd, format!("{name}: the answer does not say which range it is"))
            })?;
            if start != at {
                return Err(Fault::because(
                    Why::Odd,
                    format!("{name}: byte {at} was asked for, byte {start} came"),
                ));
            }
            return match total {
                Some(total) if total != self.size => Err(wrong(format!("has {total} bytes"))),
                _ => Ok(0),
            };
        }
        if response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
            return Err(wrong(format!("has no byte {at}")));
        }
        match response.content_length() {
            Some(length) if length != self.size => return Err(wrong(format!("has {length} bytes"))),
            _ => {}
        }
        if expect != Expect::Anything && (at > 0 || end < self.size) {
            self.no_ranges.store(true, Relaxed);
            return Err(Fault::because(Why::NoRanges, format!("{name}: the server does not support ranges")));
        }
        Ok(at)
    }
}

/// Cuts off the front.
trait AdvanceBy {
    fn advance_by(&mut self, n: u64);
}

impl AdvanceBy for Bytes {
    fn advance_by(&mut self, n: u64) {
        let n = usize::try_from(n).unwrap_or(usize::MAX).min(self.len());
        drop(self.split_to(n));
    }
}

/// Everything in memory; `once` gives no more than was promised.
struct Collect(Vec<u8>);

impl Sink for Collect {
    async fn take(&mut self, bytes: Bytes) -> bool {
        self.0.extend_from_slice(&bytes);
        true
    }
}

/// `bytes 0-99/1000`: the first, and the total where it is told.
fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    let total = if total == "*" { None } else { Some(total.parse().ok()?) };
    (first <= last).then_some((first, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges_are_read_and_odd_ones_are_not() {
        for (text, found) in [
            ("bytes 0-99/1000", Some((0, Some(1000)))),
            ("bytes 5-5/*", Some((5, None))),
            ("bytes 9-5/10", None),
            ("bytes */10", None),
            ("items 0-1/2", None),
            ("bytes 0-99999999999999999999/1", None),
            ("", None),
        ] {
            assert_eq!(content_range(text), found, "{text}");
        }
    }
}
