//! A transfer from the mirrors of a repository. It carries out the decisions of `mirror.rs`: sends
//! requests, waits, counts, and logs each change of mirror.

use super::counters::count;
use super::mirror::{Step, Walk};
use super::repository::Repository;
use crate::{Digest, Result};
use fetch::retry::jitter;
use fetch::{Fault, GOOD_PROGRESS};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A transfer, with the mirror that is currently used.
pub(super) struct MirrorSession {
    repository: Arc<Repository>,
    walk: Walk,
    /// Name of the blob or document, for messages.
    what: String,
    /// Time at which the current mirror was chosen.
    since: Instant,
}

impl MirrorSession {
    /// Starts a session. `about` is the digest of the blob, for which some mirrors may be suspected.
    pub(super) fn new(repository: &Arc<Repository>, what: String, about: Option<&Digest>) -> MirrorSession {
        let mut walk = Walk::new(repository.mirrors.len());
        for (mirror, doubt) in about.map_or(vec![], |digest| repository.suspects.of_blob(digest)) {
            match doubt {
                Some(reason) => walk.without(mirror, reason),
                None => walk.last(mirror),
            }
        }
        MirrorSession { repository: Arc::clone(repository), walk, what, since: Instant::now() }
    }

    /// Leaves out the mirrors for which `asks` is false.
    pub(super) fn only(mut self, asks: impl Fn(usize) -> bool) -> MirrorSession {
        for mirror in (0..self.repository.mirrors.len()).filter(|mirror| !asks(*mirror)) {
            self.walk.leave_out(mirror);
        }
        self
    }

    /// Chooses the first mirror.
    pub(super) async fn start(&mut self) -> Result<usize> {
        let step = self.walk.start(&self.well());
        self.go(step).await
    }

    /// Records a failure of the current mirror at byte `at`, after `new` new bytes, and chooses the next
    /// mirror.
    pub(super) async fn failed(&mut self, fault: Fault, at: u64, new: u64) -> Result<usize> {
        let before = self.walk.at();
        let reason = fault.error.chain();
        if let Some(mirror) = before.and_then(|before| self.repository.mirrors.get(before)) {
            mirror.server.state(|state| state.failed(&fault, Instant::now()));
        }
        let step = self.walk.failed(fault, new >= GOOD_PROGRESS, &self.well());
        let counters = &self.repository.counters;
        match (&step, before) {
            (Step::Ask(next, pause), Some(before)) if *next != before => {
                count(&counters.switches);
                let (from, to) = (self.address(before), self.address(*next));
                let pause = (!pause.is_zero()).then(|| tracing::field::debug(pause));
                tracing::warn!(
                    what = self.what,
                    from,
                    to,
                    at,
                    pause,
                    reason,
                    "the transfer continues from another registry"
                );
            }
            (Step::Ask(_, pause), _) => {
                count(&counters.retries);
                tracing::debug!(what = self.what, at, ?pause, reason, "a request to a registry is repeated");
            }
            (Step::GiveUp, _) => {}
        }
        self.go(step).await
    }

    /// True if there is another healthy mirror to replace a slow one.
    pub(super) fn may_leave(&self) -> bool {
        self.walk.has_others(&self.well())
    }

    /// Records that the current mirror has sent a byte.
    pub(super) fn well_done(&self) {
        if let Some(mirror) = self.walk.at().and_then(|at| self.repository.mirrors.get(at)) {
            mirror.server.state(|state| state.well(self.since));
        }
    }

    /// Moves a mirror to the end of the order.
    pub(super) fn last(&mut self, mirror: usize) {
        self.walk.last(mirror);
    }

    async fn go(&mut self, step: Step) -> Result<usize> {
        match step {
            Step::Ask(next, pause) => {
                if pause > Duration::ZERO {
                    tokio::time::sleep(jitter(pause)).await;
                }
                self.since = Instant::now();
                if let Some(mirror) = self.repository.mirrors.get(next) {
                    mirror.server.state(|state| state.chosen(Instant::now()));
                }
                Ok(next)
            }
            Step::GiveUp => {
                let walk = std::mem::replace(&mut self.walk, Walk::new(0));
                let decides = self.repository.mirrors.iter().position(|mirror| mirror.server.decides());
                let origin = self.repository.mirrors.iter().position(|mirror| mirror.origin);
                Err(walk.verdict(&self.what, decides, origin))
            }
        }
    }

    fn well(&self) -> Vec<bool> {
        let now = Instant::now();
        self.repository.mirrors.iter().map(|mirror| mirror.server.state(|state| state.is_well(now))).collect()
    }

    fn address(&self, mirror: usize) -> &str {
        self.repository.mirrors.get(mirror).map_or("", |mirror| &mirror.server.address)
    }
}
