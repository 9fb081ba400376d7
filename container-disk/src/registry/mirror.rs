//! Which registry next. Pure: what is known goes in, what happened goes in, what to do comes out.
//!
//! ```text
//!   State, one per server, shared by all transfers          Walk, one per transfer
//!
//!     well ──failed──► down until …, doubling                 first that is well, by priority
//!      ▲                 │ time is up                            │ failed
//!      │                 ▼                                       ├─ cut short, once, after good progress: the same again
//!      └──a byte came── half-open: one may try                   ├─ 429: the same again after its Retry-After
//!                                                                ├─ another that has not been asked this round
//!                                                                ├─ a pause, and the next round of those that may recover
//!                                                                └─ give up, with everybody's reason
//! ```
//!
//! One that is down is still asked when nobody else is left: a late answer is better than none.

use crate::{Error, ErrorKind};
use fetch::retry::Backoff;
use fetch::{Fault, Why};
use std::time::{Duration, Instant};

/// How often those that may recover are asked, without a new byte between.
const ROUNDS: u32 = 5;

/// A server that asks for a shorter pause than this gets it; a longer one only when nobody else is there.
const SHORT_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How long a server that failed is left alone, at first and at most.
const FIRST_REST: Duration = Duration::from_secs(10);
const LONGEST_REST: Duration = Duration::from_secs(300);

/// What everybody knows of one server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    down: Option<Down>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Down {
    since: Instant,
    until: Instant,
    times: u32,
    /// Somebody is trying it, until then.
    trial: Option<Instant>,
}

impl State {
    /// It was left for a reason of its own.
    pub(super) fn failed(&mut self, fault: &Fault, now: Instant) {
        if !fault.why.of_the_server() {
            return;
        }
        let times = self.down.as_ref().map_or(0, |down| down.times);
        let rest = FIRST_REST.saturating_mul(1 << times.min(10)).min(LONGEST_REST);
        let rest = fault.retry_after.map_or(rest, |asked| asked.clamp(rest.min(asked), LONGEST_REST));
        self.down = Some(Down { since: now, until: now + rest, times: times + 1, trial: None });
    }

    /// It has given a byte, to a request that began then. One that began before it went down says nothing.
    pub(super) fn well(&mut self, began: Instant) {
        if self.down.as_ref().is_some_and(|down| down.since <= began) {
            self.down = None;
        }
    }

    /// Whether it is asked before those that are down. One that was down long enough is half open.
    pub(super) fn is_well(&self, now: Instant) -> bool {
        let open = |down: &Down| now >= down.until && down.trial.is_none_or(|until| now >= until);
        self.down.as_ref().is_none_or(open)
    }

    /// It is asked. If it was half open, others see it as down for as long as that may take.
    pub(super) fn chosen(&mut self, now: Instant) {
        if let Some(down) = &mut self.down {
            down.trial = Some(now + FIRST_REST);
        }
    }
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Ask this one, after a pause.
    Ask(usize, Duration),
    /// Nobody is left.
    GiveUp,
}

/// One transfer's way from mirror to mirror.
#[derive(Debug)]
pub(super) struct Walk {
    rungs: Vec<Rung>,
    at: Option<usize>,
    round: u32,
}

#[derive(Debug, Default)]
struct Rung {
    /// Asked after all others: it has given wrong or slow bytes of this before.
    last: bool,
    /// Not asked any more.
    out: bool,
    asked: bool,
    /// Its Retry-After was obeyed, or its connection opened again, since it was chosen.
    forgiven: bool,
    /// The pause it asked for.
    asked_for: Duration,
    reason: Option<Error>,
}

impl Walk {
    /// A way over so many mirrors, in order of priority.
    pub(super) fn new(mirrors: usize) -> Walk {
        Walk { rungs: (0..mirrors).map(|_| Rung::default()).collect(), at: None, round: 0 }
    }

    /// This one is asked last.
    pub(super) fn last(&mut self, mirror: usize) {
        if let Some(rung) = self.rungs.get_mut(mirror) {
            rung.last = true;
        }
    }

    /// This one is not asked at all, and there is nothing to say about it.
    pub(super) fn leave_out(&mut self, mirror: usize) {
        if let Some(rung) = self.rungs.get_mut(mirror) {
            rung.out = true;
        }
    }

    /// This one is not asked, for this reason.
    pub(super) fn without(&mut self, mirror: usize, reason: Error) {
        if let Some(rung) = self.rungs.get_mut(mirror) {
            (rung.out, rung.reason) = (true, Some(reason));
        }
    }

    /// Who is asked first. `well` tells of each mirror whether it is.
    pub(super) fn start(&mut self, well: &[bool]) -> Step {
        self.choose(well, Duration::ZERO)
    }

    /// The one asked last came to nothing; `progress` is whether it gave a good part before.
    pub(super) fn failed(&mut self, fault: Fault, progress: bool, well: &[bool]) -> Step {
        let Some(at) = self.at else { return Step::GiveUp };
        if progress {
            self.round = 0;
            for rung in &mut self.rungs {
                rung.asked = false;
            }
        }
        let others = self.has_others(well);
        let rung = &mut self.rungs[at];
        rung.asked = true;
        let again = match fault.why {
            Why::Cut if progress && (!rung.forgiven || !others) => Some(Duration::ZERO),
            Why::Busy if !rung.forgiven => {
                let asked = fault.retry_after.unwrap_or(Duration::from_secs(1));
                let most = if others { SHORT_PAUSE } else { LONGEST_PAUSE };
                (asked <= most).then_some(asked)
            }
            _ => None,
        };
        let too_long = fault.why == Why::Busy && fault.retry_after.is_some_and(|asked| asked > LONGEST_PAUSE);
        rung.out = rung.out || !fault.why.passes() || fault.why == Why::Slow || too_long;
        rung.asked_for = fault.retry_after.unwrap_or_default();
        rung.reason = Some(fault.error);
        if let Some(pause) = again {
            rung.forgiven = true;
            return Step::Ask(at, pause);
        }
        self.choose(well, Duration::ZERO)
    }

    /// Whether a slow one may be left: somebody else must be there.
    pub(super) fn has_others(&self, well: &[bool]) -> bool {
        let mut rungs = self.rungs.iter().zip(well).enumerate();
        rungs.any(|(i, (rung, well))| Some(i) != self.at && !rung.out && !rung.last && !rung.asked && *well)
    }

    /// The one asked now.
    pub(super) fn at(&self) -> Option<usize> {
        self.at
    }

    /// Why nobody gave `what`, each with its own reason. The kind is that of the one that decides, where there is one; else the
    /// strongest wins: other credentials, then another name, then other bytes, then another time.
    pub(super) fn verdict(self, what: &str, decides: Option<usize>) -> Error {
        let decided = decides.and_then(|at| self.rungs.get(at)?.reason.as_ref()).map(Error::kind);
        let mut reasons: Vec<Error> = self.rungs.into_iter().filter_map(|rung| rung.reason).collect();
        if reasons.len() == 1 {
            return reasons.remove(0);
        }
        let strength = |kind: ErrorKind| match kind {
            ErrorKind::Auth => 4,
            ErrorKind::NotFound => 3,
            ErrorKind::Refused | ErrorKind::Changed => 2,
            ErrorKind::Usage => 1,
            ErrorKind::Failed => 0,
        };
        let strongest = reasons.iter().map(Error::kind).max_by_key(|kind| strength(*kind));
        let kind = decided.or(strongest).unwrap_or(ErrorKind::Failed);
        let list: Vec<String> = reasons.iter().map(Error::chain).collect();
        Error::new(kind, format!("{what}: no registry could give it: {}", list.join("; ")))
    }

    fn choose(&mut self, well: &[bool], pause: Duration) -> Step {
        let open = self.rungs.iter().zip(well).enumerate().filter(|(_, (rung, _))| !rung.out && !rung.asked);
        if let Some((i, _)) = open.min_by_key(|(i, (rung, well))| (rung.last, !**well, *i)) {
            self.at = Some(i);
            self.rungs[i].forgiven = false;
            let asked_for = if pause > Duration::ZERO { self.rungs[i].asked_for } else { Duration::ZERO };
            return Step::Ask(i, pause.max(asked_for));
        }
        self.round += 1;
        if self.round >= ROUNDS || self.rungs.iter().all(|rung| rung.out) {
            return Step::GiveUp;
        }
        for rung in &mut self.rungs {
            rung.asked = false;
        }
        self.choose(well, ROUND.pause(self.round))
    }
}

/// Between rounds. Whoever waits takes a random part more.
const ROUND: Backoff = Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(32) };

#[cfg(test)]
mod tests;
