//! Choice of the next mirror. Pure: it takes the known facts and the last result, and returns the next step.
//!
//! ```text
//!   State, one per server, shared by all transfers          Walk, one per transfer
//!
//!     well ──failed──► down until …, doubling                 the first that is well, by priority
//!      ▲                 │ time is up                            │ failed
//!      │                 ▼                                       ├─ cut short, once, after good progress: the same again
//!      └──a byte came── half-open: one transfer may try          ├─ 429: the same again after its Retry-After
//!                                                                ├─ another that has not been asked this round
//!                                                                ├─ a pause, and the next round of those that may recover
//!                                                                └─ give up, with the reasons of all
//! ```
//!
//! A mirror that is down is still asked if no other is left: a late answer is better than none.

use crate::{Error, ErrorKind};
use fetch::retry::Backoff;
use fetch::{Fault, FaultKind};
use std::time::{Duration, Instant};

/// Number of rounds over the recoverable mirrors without a new byte in between.
const ROUNDS: u32 = 5;

/// Longest Retry-After that is waited for while other mirrors are available.
const SHORT_PAUSE: Duration = Duration::from_secs(5);
/// Longest Retry-After that is waited for without another mirror.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Time that a failed server is not used after its first failure. It doubles with each further one.
const FIRST_REST: Duration = Duration::from_secs(10);
/// Upper limit of that time.
const LONGEST_REST: Duration = Duration::from_secs(300);

/// The health of one server, shared by all transfers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    down: Option<Down>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Down {
    since: Instant,
    until: Instant,
    times: u32,
    /// End of the time in which a single transfer tries the server.
    trial: Option<Instant>,
}

impl State {
    /// Records a failure, if it was caused by the server.
    pub(super) fn failed(&mut self, fault: &Fault, now: Instant) {
        if !fault.kind.concerns_server() {
            return;
        }
        let times = self.down.as_ref().map_or(0, |down| down.times);
        let rest = FIRST_REST.saturating_mul(1 << times.min(10)).min(LONGEST_REST);
        let rest = fault.retry_after.map_or(rest, |asked| asked.clamp(rest.min(asked), LONGEST_REST));
        self.down = Some(Down { since: now, until: now + rest, times: times + 1, trial: None });
    }

    /// Records a byte for a request that began at `began`. A request from before the failure proves nothing.
    pub(super) fn well(&mut self, began: Instant) {
        if self.down.as_ref().is_some_and(|down| down.since <= began) {
            self.down = None;
        }
    }

    /// True if the server is preferred over those that are down. After its time is up it is half-open.
    pub(super) fn is_well(&self, now: Instant) -> bool {
        let open = |down: &Down| now >= down.until && down.trial.is_none_or(|until| now >= until);
        self.down.as_ref().is_none_or(open)
    }

    /// Records that the server is used. A half-open server counts as down for other transfers while it is
    /// tried.
    pub(super) fn chosen(&mut self, now: Instant) {
        if let Some(down) = &mut self.down {
            down.trial = Some(now + FIRST_REST);
        }
    }
}

/// The next step of a transfer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Ask this mirror after a pause.
    Ask(usize, Duration),
    /// No mirror is left.
    GiveUp,
}

/// The order in which one transfer asks the mirrors.
#[derive(Debug)]
pub(super) struct Walk {
    rungs: Vec<Rung>,
    at: Option<usize>,
    round: u32,
}

#[derive(Debug, Default)]
struct Rung {
    /// Asked after all others, since it sent wrong or slow bytes of this blob before.
    last: bool,
    /// Not asked any more.
    out: bool,
    asked: bool,
    /// Set after a Retry-After was obeyed, or the connection reopened, since the mirror was chosen.
    forgiven: bool,
    /// The pause that it requested.
    asked_for: Duration,
    reason: Option<Error>,
}

impl Walk {
    /// A walk over `mirrors` mirrors, in order of priority.
    pub(super) fn new(mirrors: usize) -> Walk {
        Walk { rungs: (0..mirrors).map(|_| Rung::default()).collect(), at: None, round: 0 }
    }

    /// Moves a mirror to the end of the order.
    pub(super) fn last(&mut self, mirror: usize) {
        if let Some(rung) = self.rungs.get_mut(mirror) {
            rung.last = true;
        }
    }

    /// Leaves out a mirror without a reason for the final error.
    pub(super) fn leave_out(&mut self, mirror: usize) {
        if let Some(rung) = self.rungs.get_mut(mirror) {
            rung.out = true;
        }
    }

    /// Leaves out a mirror, with a reason for the final error.
    pub(super) fn without(&mut self, mirror: usize, reason: Error) {
        if let Some(rung) = self.rungs.get_mut(mirror) {
            (rung.out, rung.reason) = (true, Some(reason));
        }
    }

    /// Chooses the first mirror. `well` has the health of each.
    pub(super) fn start(&mut self, well: &[bool]) -> Step {
        self.choose(well, Duration::ZERO)
    }

    /// Records a failure of the current mirror. `progress` is true if it sent a good part before.
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
        let again = match fault.kind {
            FaultKind::Cut if progress && (!rung.forgiven || !others) => Some(Duration::ZERO),
            FaultKind::Busy if !rung.forgiven => {
                let asked = fault.retry_after.unwrap_or(Duration::from_secs(1));
                let most = if others { SHORT_PAUSE } else { LONGEST_PAUSE };
                (asked <= most).then_some(asked)
            }
            _ => None,
        };
        let too_long =
            fault.kind == FaultKind::Busy && fault.retry_after.is_some_and(|asked| asked > LONGEST_PAUSE);
        rung.out = rung.out || !fault.kind.is_transient() || fault.kind == FaultKind::Slow || too_long;
        rung.asked_for = fault.retry_after.unwrap_or_default();
        rung.reason = Some(fault.error);
        if let Some(pause) = again {
            rung.forgiven = true;
            return Step::Ask(at, pause);
        }
        self.choose(well, Duration::ZERO)
    }

    /// True if there is another mirror to replace a slow one.
    pub(super) fn has_others(&self, well: &[bool]) -> bool {
        let mut rungs = self.rungs.iter().zip(well).enumerate();
        rungs.any(|(i, (rung, well))| Some(i) != self.at && !rung.out && !rung.last && !rung.asked && *well)
    }

    /// The mirror that is used now.
    pub(super) fn at(&self) -> Option<usize> {
        self.at
    }

    /// The final error for `what`, with the reason of each mirror. Its kind is that of mirror `decides`, if
    /// given. Otherwise the strongest kind is used: wrong credentials, then a missing name, then wrong bytes,
    /// then other failures.
    ///
    /// A name is missing only if the `origin` says so, or every mirror that was asked. A mirror may be behind the
    /// origin: while the origin fails, its 404 proves nothing.
    pub(super) fn verdict(self, what: &str, decides: Option<usize>, origin: Option<usize>) -> Error {
        let kind_of = |at: Option<usize>| Some(self.rungs.get(at?)?.reason.as_ref()?.kind());
        let (decided, of_origin) = (kind_of(decides), kind_of(origin));
        let mut reasons: Vec<Error> = self.rungs.into_iter().filter_map(|rung| rung.reason).collect();
        if reasons.len() == 1 {
            return reasons.remove(0);
        }
        let is_missing = of_origin == Some(ErrorKind::NotFound)
            || reasons.iter().all(|reason| reason.kind() == ErrorKind::NotFound);
        let strength = |kind: ErrorKind| match kind {
            ErrorKind::Auth => 4,
            ErrorKind::NotFound => 3,
            ErrorKind::Refused | ErrorKind::Changed => 2,
            ErrorKind::Usage => 1,
            ErrorKind::Failed => 0,
        };
        let kinds = reasons.iter().map(Error::kind).map(|kind| match kind {
            ErrorKind::NotFound if !is_missing => ErrorKind::Failed,
            kind => kind,
        });
        let strongest = kinds.max_by_key(|kind| strength(*kind));
        let kind = decided.or(strongest).unwrap_or(ErrorKind::Failed);
        let list: Vec<String> = reasons.iter().map(Error::chain).collect();
        Error::new(kind, format!("{what}: no registry could provide it: {}", list.join("; ")))
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

/// Pause between rounds. The caller adds a random part.
const ROUND: Backoff = Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(32) };

#[cfg(test)]
mod tests;
