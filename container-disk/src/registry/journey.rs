//! One transfer on its way: does what `mirror.rs` decides. It waits, counts, and writes the one line of a switch.

use super::counters::count;
use super::mirror::{Step, Walk};
use super::repository::Repository;
use crate::{Digest, Result};
use fetch::retry::jitter;
use fetch::{Fault, GOOD_PROGRESS};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A way over the mirrors of one repository.
pub(super) struct Journey {
    repository: Arc<Repository>,
    walk: Walk,
    /// What is on its way, for people.
    what: String,
    /// Since when the one is asked that is asked now.
    since: Instant,
}

impl Journey {
    /// `about` is the blob or document, whose bytes some mirror may have given wrongly before.
    pub(super) fn new(repository: &Arc<Repository>, what: String, about: Option<&Digest>) -> Journey {
        let mut walk = Walk::new(repository.mirrors.len());
        for (mirror, doubt) in about.map_or(vec![], |digest| repository.doubts.about(digest)) {
            match doubt {
                Some(reason) => walk.without(mirror, reason),
                None => walk.last(mirror),
            }
        }
        Journey { repository: Arc::clone(repository), walk, what, since: Instant::now() }
    }

    /// Leaves out those that are not asked for such things.
    pub(super) fn only(mut self, asks: impl Fn(usize) -> bool) -> Journey {
        for mirror in (0..self.repository.mirrors.len()).filter(|mirror| !asks(*mirror)) {
            self.walk.leave_out(mirror);
        }
        self
    }

    /// Who is asked first.
    pub(super) async fn start(&mut self) -> Result<usize> {
        let step = self.walk.start(&self.well());
        self.go(step).await
    }

    /// The one that was asked came to nothing, at byte `at`, after so many new bytes; who is asked next.
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
                tracing::warn!(what = self.what, from, to, at, pause, reason, "another registry carries on");
            }
            (Step::Ask(_, pause), _) => {
                count(&counters.retries);
                tracing::debug!(what = self.what, at, ?pause, reason, "a request is repeated");
            }
            (Step::GiveUp, _) => {}
        }
        self.go(step).await
    }

    /// Whether the rate is too low here and better elsewhere.
    pub(super) fn may_leave(&self) -> bool {
        self.walk.has_others(&self.well())
    }

    /// A byte came from the one that is asked.
    pub(super) fn well_done(&self) {
        if let Some(mirror) = self.walk.at().and_then(|at| self.repository.mirrors.get(at)) {
            mirror.server.state(|state| state.well(self.since));
        }
    }

    /// This one is asked after all others.
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
                Err(walk.verdict(&self.what, decides))
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
