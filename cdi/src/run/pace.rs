//! The times of marks: a pure function of elapsed times and bytes.
//!
//! | mark | due |
//! |---|---|
//! | the first | after half a second, or 32 MiB of data, whichever is first |
//! | each next | as soon as marks cost less than 2 % of the time, at the latest after 5 s |
//!
//! A run that is killed every other second still comes to its end. The cost of a mark is not all the time it
//! takes:
//!
//! | part of a mark | cost |
//! |---|---|
//! | the sync of the data | little: the data must be written in any case, and workers go on meanwhile; but devices are faster with long writes |
//! | the record in the journal | all of it, up to half a second: a flush for the journal alone |
//! | workers that had to wait for its end | all of it |

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(500);
const FIRST_BYTES: u64 = 32 << 20;
const SOONEST: Duration = Duration::from_millis(100);
const LATEST: Duration = Duration::from_secs(5);
/// The longest pause because of a record's cost: two flushes a second are cheap for a device, and a killed
/// run loses the data since the last one.
const RECORDS: Duration = Duration::from_millis(500);
/// The ratio of the pause to the duration of a record: records take 2 % of the time.
const SHARE: u32 = 50;
/// The ratio of the pause to the duration of the data's sync.
const SYNCS: u32 = 4;

/// Durations of a mark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Took {
    /// Time to make the data durable.
    pub sync: Duration,
    /// Time to make the record in the journal durable.
    pub record: Duration,
}

/// The pace of a run's marks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// The time between marks, if a test sets it.
    fixed: Option<Duration>,
    wait: Duration,
    /// The number of bytes after which a mark is due regardless of the time.
    bytes: u64,
}

impl Pace {
    /// `fixed`: the time between marks, whatever they cost.
    pub(crate) fn new(fixed: Option<Duration>) -> Pace {
        let bytes = if fixed.is_some() { u64::MAX } else { FIRST_BYTES };
        Pace { fixed, wait: fixed.unwrap_or(FIRST), bytes }
    }

    /// The time until the next mark is due, counted from the last one.
    pub(crate) fn wait(&self) -> Duration {
        self.wait
    }

    /// True if a mark is due. `since`, `bytes`: time and data after the last one, or after the beginning.
    pub(crate) fn is_due(&self, since: Duration, bytes: u64) -> bool {
        since >= self.wait || bytes >= self.bytes
    }

    /// Adapts to a mark that was made. `held_up`: workers had to wait for its end.
    pub(crate) fn marked(&mut self, took: Took, held_up: bool) {
        self.bytes = u64::MAX;
        let record = took.record.saturating_mul(SHARE).min(RECORDS);
        let sync = took.sync.saturating_mul(SYNCS);
        let all = if held_up { (took.sync + took.record).saturating_mul(SHARE) } else { Duration::ZERO };
        self.wait = self.fixed.unwrap_or(record.max(sync).max(all).clamp(SOONEST, LATEST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn after(sync: u64, record: u64, held_up: bool) -> Duration {
        let mut pace = Pace::new(None);
        pace.marked(Took { sync: ms(sync), record: ms(record) }, held_up);
        pace.wait()
    }

    #[test]
    fn the_first_mark_comes_with_time_or_with_bytes() {
        let pace = Pace::new(None);
        assert!(!pace.is_due(ms(499), (32 << 20) - 1));
        assert!(pace.is_due(ms(500), 0) && pace.is_due(ms(0), 32 << 20));
        let mut pace = pace;
        pace.marked(Took::default(), false);
        assert!(!pace.is_due(ms(99), u64::MAX - 1), "later ones do not come with bytes");
        assert!(pace.is_due(ms(100), 0));
    }

    #[test]
    fn the_pause_is_what_a_mark_costs_times_fifty() {
        assert_eq!(after(0, 0, false), ms(100));
        assert_eq!(after(1, 4, false), ms(200));
        assert_eq!(after(40, 4, false), ms(200), "what is written in any case counts little");
        assert_eq!(after(300, 4, false), ms(1200), "unless the device is slow");
        assert_eq!(after(0, 400, false), ms(500));
        assert_eq!(after(10, 10, true), ms(1000), "workers have waited");
        assert_eq!(after(10_000, 10_000, true), ms(5000));
        assert_eq!(after(u64::MAX / 1000, 0, false), ms(5000));
    }

    #[test]
    fn a_fixed_pace_stays() {
        let mut pace = Pace::new(Some(ms(7)));
        assert!(!pace.is_due(ms(6), u64::MAX - 1) && pace.is_due(ms(7), 0));
        pace.marked(Took { sync: ms(900), record: ms(900) }, true);
        assert_eq!(pace.wait(), ms(7));
    }
}
