//! Transfer of a range: from one mirror after another, to the reader's sink.

use super::source::Source;
use crate::Result;
use crate::digest::Hasher;
use crate::registry::counters::add;
use crate::registry::mirror_session::MirrorSession;
use crate::registry::rate::Rate;
use bytes::{Buf, Bytes};
use fetch::retry::seconds;
use fetch::{Expect, Part, PartSink, Permit};
use fetch::{Fault, FaultKind};
use fetch::{NextPiece, Silence};
use std::time::Instant;

/// Fetches a part, from one mirror after another.
pub(super) async fn bring(source: &Source, part: Part, sink: &mut impl PartSink) -> Result<()> {
    let Part { range, expect, share } = part;
    let share = share as u64;
    let mirror_session = source.mirror_session();
    let mut transfer =
        Transfer { source, mirror_session, at: range.start, end: range.end, expect, share, sink };
    let mut mirror = transfer.mirror_session.start().await?;
    loop {
        let before = transfer.at;
        let Err(fault) = transfer.from(mirror).await else { return Ok(()) };
        if fault.kind == FaultKind::NoRanges && expect == Expect::Probe {
            return Err(fault.error);
        }
        if fault.kind == FaultKind::Slow {
            source.mark_slow(mirror);
        }
        mirror = transfer.mirror_session.failed(fault, transfer.at, transfer.at - before).await?;
    }
}

/// Fetches a small blob. Bytes with a wrong digest are discarded, and the next mirror is asked.
pub(super) async fn small(source: &Source) -> Result<Vec<u8>> {
    let mut all = Collect(Vec::new());
    let (mirror_session, sink) = (source.mirror_session(), &mut all);
    let mut transfer = Transfer {
        source,
        mirror_session,
        at: 0,
        end: source.size,
        expect: Expect::Anything,
        share: 1,
        sink,
    };
    let mut mirror = transfer.mirror_session.start().await?;
    loop {
        (transfer.at, transfer.sink.0) = (0, Vec::new());
        let came = transfer.from(mirror).await;
        let Err(fault) = came.and_then(|()| right(source, mirror, &transfer.sink.0)) else {
            return Ok(all.0);
        };
        mirror = transfer.mirror_session.failed(fault, 0, 0).await?;
    }
}

fn right(source: &Source, mirror: usize, bytes: &[u8]) -> Result<(), Fault> {
    let mut hash = Hasher::like(&source.digest);
    hash.update(bytes);
    let actual = hash.finish();
    if actual == source.digest {
        return Ok(());
    }
    let what = format!("{} has the digest {actual} at {}", source.name, source.address(mirror));
    source.repository.suspects.blame(&source.digest, &[mirror], &what);
    Err(Fault::from_kind(FaultKind::Wrong, what))
}

struct Transfer<'a, S> {
    source: &'a Source,
    mirror_session: MirrorSession,
    /// Offset of the next byte.
    at: u64,
    end: u64,
    expect: Expect,
    share: u64,
    sink: &'a mut S,
}

impl<S: PartSink> Transfer<'_, S> {
    /// Sends one request to one mirror and passes its bytes on.
    async fn from(&mut self, mirror: usize) -> Result<(), Fault> {
        let ranged = self.expect != Expect::Anything || self.at > 0;
        let mut answer = self.source.ask(mirror, ranged.then_some(self.at..self.end)).await?;
        let name = format!("{} from {}", self.source.name, self.source.address(mirror));
        let mut skip = self.source.check_head(&answer, self.at..self.end, self.expect, &name)?;
        let terms = &self.source.repository.terms;
        let mut rate = Rate::new(terms.min_rate / self.share.max(1), terms.patience);
        // The rate must also be checked while no bytes come.
        let mut silence =
            Silence::in_steps(terms.idle, terms.patience).with_rate_judge(self.source.rate.clone());
        let mut first = true;
        loop {
            let (since, at) = (Instant::now(), self.at);
            let wanted = || format!("bytes from {at} on");
            let mut bytes = match silence.piece(&mut answer.response, &name, wanted).await? {
                NextPiece::Bytes(bytes) => bytes,
                NextPiece::Nothing(_) => Bytes::new(),
                NextPiece::End if at == self.end => return Ok(()),
                NextPiece::End => {
                    let what = format!("{name}: the response ended at byte {at} instead of {}", self.end);
                    return Err(Fault::from_kind(FaultKind::Cut, what));
                }
            };
            let slow = rate.add(since.elapsed(), bytes.len() as u64);
            let passed = skip.min(bytes.len() as u64);
            bytes.advance(passed as usize);
            skip -= passed;
            if !bytes.is_empty() {
                let after = self.at.checked_add(bytes.len() as u64).filter(|after| *after <= self.end);
                let Some(after) = after else {
                    let what = format!("{name} is longer than the {} bytes promised", self.end);
                    return Err(Fault::from_kind(FaultKind::Wrong, what));
                };
                if std::mem::take(&mut first) {
                    self.mirror_session.well_done();
                    self.source.gives(mirror, self.at);
                }
                add(&self.source.repository.counters.received, bytes.len() as u64);
                self.at = after;
                self.sink.take(bytes, &mut None).await;
            }
            if let Some(rate) = slow.filter(|_| self.at < self.end && self.mirror_session.may_leave()) {
                let (least, patience) = (terms.min_rate, seconds(terms.patience));
                let what = format!("{name}: {rate} bytes per second for {patience} s, min-rate is {least}");
                return Err(Fault::from_kind(FaultKind::Slow, what));
            }
        }
    }
}

/// A sink in memory. A transfer never exceeds the expected size.
struct Collect(Vec<u8>);

impl PartSink for Collect {
    const READER_WAITS: bool = true;

    async fn take(&mut self, bytes: Bytes, _: &mut Option<Permit<'_>>) {
        self.0.extend_from_slice(&bytes);
    }
}
