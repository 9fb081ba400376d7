//! Grace period of a guest's shutdown. Pure.
//!
//! The grace period counts from the first request that reached the guest, by the monotonic clock, which is
//! never set. A later request can bring the end nearer, but never puts it off.

use std::time::Duration;
use tokio::time::Instant;

/// Longest grace period in seconds, so that no time overflows.
const LONGEST: u64 = 1 << 30;

/// Grace period of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grace {
    since: Instant,
    seconds: u64,
    /// True after a request has reached the guest.
    reached: bool,
    /// Time of the next forced end, after the first one.
    again: Option<Instant>,
}

impl Grace {
    /// Starts a request at this time, with the grace period of those before it.
    pub(super) fn begin(before: Option<Grace>, seconds: u64, now: Instant) -> Grace {
        let grace = before.unwrap_or(Grace { since: now, seconds, reached: false, again: None });
        Grace { seconds: grace.seconds.min(seconds), ..grace }
    }

    /// Records that a request has reached the guest. The first one counts, however long the hypervisor took.
    pub(super) fn reached(self, now: Instant) -> Grace {
        match self.reached {
            true => self,
            false => Grace { since: now, reached: true, ..self },
        }
    }

    /// Records that a request has failed. Returns `None` unless one before it has reached the guest.
    pub(super) fn failed(self) -> Option<Grace> {
        self.reached.then_some(self)
    }

    /// Records that the period is over. A forced end may fail, so it is due again at this time.
    pub(super) fn over(self, again: Instant) -> Grace {
        Grace { again: Some(again), ..self }
    }

    /// The grace period in seconds.
    pub(super) fn seconds(self) -> u64 {
        self.seconds
    }

    /// Time at which the domain is destroyed.
    pub(super) fn end(self) -> Instant {
        self.again.unwrap_or(self.since + Duration::from_secs(self.seconds.min(LONGEST)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_request_that_reached_the_guest_is_counted_from() {
        let now = Instant::now();
        let after = |seconds: u64| now + Duration::from_secs(seconds);
        let asked = Grace::begin(None, 30, now);
        assert_eq!(asked.end(), after(30), "a hypervisor that does not answer holds nothing up");
        let asked = asked.reached(after(4));
        assert_eq!(asked.end(), after(34));
        let again = Grace::begin(Some(asked), 30, after(10)).reached(after(11));
        assert_eq!(again.end(), after(34), "the same request again changes nothing");
    }

    #[test]
    fn a_later_request_brings_the_end_nearer_and_never_puts_it_off() {
        let now = Instant::now();
        let after = |seconds: u64| now + Duration::from_secs(seconds);
        let asked = Grace::begin(None, 30, now).reached(now);
        for (seconds, end) in [(600, 30), (30, 30), (29, 29), (5, 5), (0, 0)] {
            let again = Grace::begin(Some(asked), seconds, after(10)).reached(after(10));
            assert_eq!((again.end(), again.seconds()), (after(end), seconds.min(30)), "{seconds}");
        }
    }

    #[test]
    fn a_request_that_failed_is_not_counted_from_and_takes_no_other_back() {
        let now = Instant::now();
        assert_eq!(Grace::begin(None, 30, now).failed(), None);
        let asked = Grace::begin(None, 30, now).reached(now);
        assert_eq!(Grace::begin(Some(asked), 30, now).failed(), Some(asked));
    }

    #[test]
    fn a_grace_period_without_an_end_overflows_nothing() {
        let now = Instant::now();
        assert!(Grace::begin(None, u64::MAX, now).end() > now);
    }
}
