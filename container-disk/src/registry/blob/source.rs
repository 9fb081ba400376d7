//! The mirrors of one blob: facts learned during a read, and the requests to them.

use super::transfer::bring;
use crate::registry::counters::count;
use crate::registry::mirror_session::MirrorSession;
use crate::registry::repository::Repository;
use crate::registry::server_connection::{RequestTarget, ServerRequest};
use crate::{Digest, Error, Result};
use fetch::Fetched;
use fetch::RateJudge;
use fetch::Resolved;
use fetch::authorize::Scopes;
use fetch::{ContentRange, Expect, Part, PartSink, Ranged};
use fetch::{Fault, FaultKind};
use reqwest::header::RANGE;
use reqwest::{Method, StatusCode};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// A read of a blob, with what was learned of its mirrors.
pub(super) struct Source {
    pub(super) repository: Arc<Repository>,
    pub(super) digest: Digest,
    pub(super) size: u64,
    /// The blob's name for messages.
    pub(super) name: String,
    /// The target of the last redirect, by mirror.
    resolved: Vec<Resolved>,
    /// Mirrors that sent bytes, with the first offset of each.
    givers: Mutex<BTreeMap<usize, u64>>,
    /// Mirrors that were too slow. They are asked last for the rest of this read.
    slow: Mutex<Vec<usize>>,
    /// A mirror answered a range request with the whole blob.
    pub(super) no_ranges: AtomicBool,
    /// Monitor of the combined rate of all requests, for the case that every mirror is too slow.
    pub(super) rate: Option<Arc<RateJudge>>,
}

impl Source {
    pub(super) fn new(repository: &Arc<Repository>, digest: Digest, size: u64) -> Source {
        Source {
            repository: Arc::clone(repository),
            digest,
            size,
            name: format!("{}: blob {digest}", repository.name),
            resolved: repository.mirrors.iter().map(|_| Resolved::default()).collect(),
            givers: Mutex::default(),
            slow: Mutex::default(),
            no_ranges: AtomicBool::new(false),
            rate: repository.terms.least_rate.map(|least| Arc::new(RateJudge::new(least))),
        }
    }

    /// Handles a complete read with the wrong digest: records the mirrors that sent bytes, and returns the
    /// error.
    pub(super) fn blame(&self, why: &str) -> Error {
        let givers = self.givers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut givers: Vec<(u64, usize)> = givers.iter().map(|(mirror, first)| (*first, *mirror)).collect();
        givers.sort_unstable();
        let list =
            givers.iter().map(|(first, mirror)| format!("{} (from byte {first})", self.address(*mirror)));
        let what = format!("{why}; it came from {}", list.collect::<Vec<_>>().join(" and "));
        let mirrors: Vec<usize> = givers.iter().map(|(_, mirror)| *mirror).collect();
        self.repository.suspects.blame(&self.digest, &mirrors, &what);
        if let [alone] = mirrors[..]
            && let Some(mirror) = self.repository.mirrors.get(alone)
        {
            let fault = Fault::from_kind(FaultKind::Wrong, what.clone());
            mirror.server.state(|state| state.failed(&fault, Instant::now()));
        }
        Error::refused(format!(
            "{what}; the bytes are discarded, and the next attempt asks other mirrors first"
        ))
    }

    /// Reports the change of mirror after a read that ended with wrong bytes, like any other change.
    pub(super) fn begins_elsewhere(&self) {
        let suspects = self.repository.suspects.of_blob(&self.digest);
        let from: Vec<&str> = suspects.iter().map(|(mirror, _)| self.address(*mirror)).collect();
        let from = from.join(" and ");
        count(&self.repository.counters.switches);
        tracing::warn!(
            what = self.name,
            from,
            at = 0,
            reason = "wrong bytes",
            "the transfer continues from another registry"
        );
    }

    /// Records that a mirror has sent bytes, starting at offset `at`.
    pub(super) fn gives(&self, mirror: usize, at: u64) {
        let mut givers = self.givers.lock().unwrap_or_else(PoisonError::into_inner);
        givers.entry(mirror).and_modify(|first| *first = (*first).min(at)).or_insert(at);
    }

    /// Records that a mirror was too slow.
    pub(super) fn mark_slow(&self, mirror: usize) {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner).push(mirror);
    }

    /// A new session over the mirrors, with the slow ones last.
    pub(super) fn mirror_session(&self) -> MirrorSession {
        let mut mirror_session = MirrorSession::new(&self.repository, self.name.clone(), Some(&self.digest));
        for mirror in self.slow.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            mirror_session.last(*mirror);
        }
        mirror_session
    }

    /// The address of a mirror, for messages.
    pub(super) fn address(&self, mirror: usize) -> &str {
        self.repository.mirrors.get(mirror).map_or("", |mirror| &mirror.server.address)
    }

    /// Sends a request to the mirror, or to the target of its last redirect.
    pub(super) async fn ask(&self, index: usize, range: Option<Range<u64>>) -> Result<Fetched, Fault> {
        let mirror = self.repository.mirrors.get(index);
        let mirror = mirror.ok_or_else(|| {
            Fault::from_kind(FaultKind::Odd, "the mirror does not exist; this is a bug, please report it")
        })?;
        let path = mirror.path(&format!("blobs/{}", self.digest));
        let scopes = Scopes::pull(&mirror.repository);
        let idle = self.repository.terms.idle;
        let mut ask =
            ServerRequest::new(Method::GET, RequestTarget::Path(&path), &scopes, &[200, 206, 416], idle);
        ask.resolved = self.resolved.get(index);
        if let Some(range) = range.filter(|range| !range.is_empty()) {
            ask = ask.header(RANGE, &format!("bytes={}-{}", range.start, range.end - 1))?;
        }
        mirror.server.request(ask).await
    }

    /// Checks that the response is for the requested range. Returns the number of bytes in it before the
    /// range.
    pub(super) fn check_head(
        &self,
        answer: &Fetched,
        range: Range<u64>,
        expect: Expect,
        name: &str,
    ) -> Result<u64, Fault> {
        let size = self.size;
        let wrong = |what: &str| {
            Fault::from_kind(FaultKind::Wrong, format!("{name} {what}, not the {size} promised"))
        };
        let odd = |what: &str| Fault::from_kind(FaultKind::Odd, format!("{name}: {what}"));
        let response = &answer.response;
        if response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
            return Err(wrong(&format!("has no byte {}", range.start)));
        }
        if response.status() == StatusCode::PARTIAL_CONTENT {
            let ContentRange { start, total, .. } = ContentRange::parse(response.headers())
                .ok_or_else(|| odd("the partial response has no valid Content-Range"))?;
            return match total {
                _ if start != range.start => Err(odd(&format!(
                    "byte {} was requested, but the response starts at byte {start}",
                    range.start
                ))),
                Some(total) if total != size => Err(wrong(&format!("has {total} bytes"))),
                _ => Ok(0),
            };
        }
        match response.content_length() {
            Some(length) if length != size => Err(wrong(&format!("has {length} bytes"))),
            _ if expect == Expect::Anything || range == (0..size) => Ok(range.start),
            _ => {
                self.no_ranges.store(true, Relaxed);
                let what = "the server does not support ranges";
                Err(Fault::from_kind(FaultKind::NoRanges, format!("{name}: {what}")))
            }
        }
    }
}

impl Ranged for Source {
    fn name(&self) -> &str {
        &self.name
    }

    fn size(&self) -> u64 {
        self.size
    }

    async fn transfer<S: PartSink>(&self, part: Part, sink: &mut S) -> Result<()> {
        bring(self, part, sink).await
    }

    fn comes_whole(&self) -> bool {
        self.no_ranges.load(Relaxed)
    }
}
