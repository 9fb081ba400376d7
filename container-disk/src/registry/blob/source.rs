//! Where one blob comes from: what was learned of the mirrors on the way, and the requests to them.

use super::transfer::bring;
use crate::registry::counters::count;
use crate::registry::journey::Journey;
use crate::registry::repository::Repository;
use crate::registry::server_connection::{Ask, Where};
use crate::{Digest, Error, Result};
use fetch::Fetched;
use fetch::RateJudge;
use fetch::Resolved;
use fetch::authorize::Scopes;
use fetch::{ContentRange, Expect, Part, PartSink, Ranged};
use fetch::{Fault, Why};
use reqwest::header::RANGE;
use reqwest::{Method, StatusCode};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// One reading of a blob.
pub(super) struct Source {
    pub(super) repository: Arc<Repository>,
    pub(super) digest: Digest,
    pub(super) size: u64,
    /// For people.
    pub(super) name: String,
    /// Where redirects led, by mirror.
    resolved: Vec<Resolved>,
    /// Who gave bytes, and the first of them.
    givers: Mutex<BTreeMap<usize, u64>>,
    /// Who was left because of its rate: asked last for the rest of this reading.
    slow: Mutex<Vec<usize>>,
    /// Somebody answered a range with everything.
    pub(super) no_ranges: AtomicBool,
    /// Judges the rate of all its requests together, where none is too slow for the mirrors there are.
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

    /// All bytes have come, and they are not those that were promised: notes who gave them, and says so.
    pub(super) fn blame(&self, why: &str) -> Error {
        let givers = self.givers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut givers: Vec<(u64, usize)> = givers.iter().map(|(mirror, first)| (*first, *mirror)).collect();
        givers.sort_unstable();
        let list =
            givers.iter().map(|(first, mirror)| format!("{} (from byte {first})", self.address(*mirror)));
        let what = format!("{why}; it came from {}", list.collect::<Vec<_>>().join(" and "));
        let mirrors: Vec<usize> = givers.iter().map(|(_, mirror)| *mirror).collect();
        self.repository.doubts.blame(&self.digest, &mirrors, &what);
        if let [alone] = mirrors[..]
            && let Some(mirror) = self.repository.mirrors.get(alone)
        {
            let fault = Fault::because(Why::Wrong, what.clone());
            mirror.server.state(|state| state.failed(&fault, Instant::now()));
        }
        Error::refused(format!("{what}; what was read of it is of no use, another try asks others first"))
    }

    /// After a reading that ended with wrong bytes: others are asked first now, which is a switch like any other.
    pub(super) fn begins_elsewhere(&self) {
        let doubts = self.repository.doubts.about(&self.digest);
        let from: Vec<&str> = doubts.iter().map(|(mirror, _)| self.address(*mirror)).collect();
        let from = from.join(" and ");
        count(&self.repository.counters.switches);
        tracing::warn!(what = self.name, from, at = 0, reason = "wrong bytes", "another registry carries on");
    }

    /// This mirror has given bytes, the first of them at `at`.
    pub(super) fn gives(&self, mirror: usize, at: u64) {
        let mut givers = self.givers.lock().unwrap_or_else(PoisonError::into_inner);
        givers.entry(mirror).and_modify(|first| *first = (*first).min(at)).or_insert(at);
    }

    /// This mirror was left because of its rate.
    pub(super) fn is_slow(&self, mirror: usize) {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner).push(mirror);
    }

    /// A way over the mirrors.
    pub(super) fn journey(&self) -> Journey {
        let mut journey = Journey::new(&self.repository, self.name.clone(), Some(&self.digest));
        for mirror in self.slow.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            journey.last(*mirror);
        }
        journey
    }

    /// What a mirror is called.
    pub(super) fn address(&self, mirror: usize) -> &str {
        self.repository.mirrors.get(mirror).map_or("", |mirror| &mirror.server.address)
    }

    /// Asks where the last redirect led, or the mirror itself.
    pub(super) async fn ask(&self, index: usize, range: Option<Range<u64>>) -> Result<Fetched, Fault> {
        let mirror = self.repository.mirrors.get(index);
        let mirror = mirror.ok_or_else(|| Fault::because(Why::Odd, "there is no such mirror"))?;
        let path = mirror.path(&format!("blobs/{}", self.digest));
        let scopes = Scopes::pull(&mirror.repository);
        let idle = self.repository.terms.idle;
        let mut ask = Ask::new(Method::GET, Where::Path(&path), &scopes, &[200, 206, 416], idle);
        ask.resolved = self.resolved.get(index);
        if let Some(range) = range.filter(|range| !range.is_empty()) {
            ask = ask.header(RANGE, &format!("bytes={}-{}", range.start, range.end - 1))?;
        }
        mirror.server.request(ask).await
    }

    /// Whether the body is what was asked for, and how much of it comes before.
    pub(super) fn check_head(
        &self,
        answer: &Fetched,
        range: Range<u64>,
        expect: Expect,
        name: &str,
    ) -> Result<u64, Fault> {
        let size = self.size;
        let wrong =
            |what: &str| Fault::because(Why::Wrong, format!("{name} {what}, not the {size} promised"));
        let odd = |what: &str| Fault::because(Why::Odd, format!("{name}: {what}"));
        let response = &answer.response;
        if response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
            return Err(wrong(&format!("has no byte {}", range.start)));
        }
        if response.status() == StatusCode::PARTIAL_CONTENT {
            let ContentRange { start, total, .. } = ContentRange::of(response.headers())
                .ok_or_else(|| odd("the answer does not say which range it is"))?;
            return match total {
                _ if start != range.start => Err(odd(&format!("not byte {} came, but {start}", range.start))),
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
                Err(Fault::because(Why::NoRanges, format!("{name}: {what}")))
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
