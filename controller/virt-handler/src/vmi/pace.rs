//! Rate limits of a keeper, whatever its launcher and its guest do.
//!
//! | operation | burst | then |
//! |---|---|---|
//! | writes of the status | 8 | one a second, of the newest state; states in between are skipped. The final status is written at once |
//! | events | 16 | one every 10 s; the next one gives the number of skipped ones. The event of the end is recorded at once |
//! | states from the launcher | 64 | read ten times a second, each time the newest of those that came |
//! | queries of the guest agent | 1 | one every 5 s |
//!
//! A normal start takes four writes.

use serve::bucket::Bucket;
use std::time::Duration;
use tokio::time::Instant;

/// Rate limits of a keeper.
#[derive(Debug)]
pub(super) struct Pace {
    pub(super) writes: Bucket,
    pub(super) events: Bucket,
    pub(super) states: Bucket,
    pub(super) questions: Bucket,
    /// Earliest time of the next write.
    pub(super) write_at: Option<Instant>,
    /// Time until which the launcher's states are not read.
    pub(super) listen_at: Option<Instant>,
    /// Number of events that were skipped.
    pub(super) untold: u32,
}

/// Most states that are read at once.
pub(super) const AT_ONCE: usize = 16;

impl Default for Pace {
    fn default() -> Pace {
        let now = Instant::now();
        let bucket = |most, millis| Bucket::new(most, Duration::from_millis(millis), now);
        Pace {
            writes: bucket(8, 1000),
            events: bucket(16, 10_000),
            states: bucket(64, 100),
            questions: bucket(1, 5000),
            write_at: None,
            listen_at: None,
            untold: 0,
        }
    }
}

impl Pace {
    /// True if the status may be written now. `last`: it is the final one.
    pub(super) fn try_write(&mut self, last: bool) -> bool {
        let taken = self.writes.take(Instant::now());
        self.write_at = taken.err().filter(|_| !last);
        self.write_at.is_none()
    }

    /// Counts a state from the launcher: reading the next one may be delayed.
    pub(super) fn count_state(&mut self) {
        self.listen_at = self.states.take(Instant::now()).err();
    }

    /// Number of skipped events, if an event may be recorded now.
    pub(super) fn try_record_event(&mut self, last: bool) -> Option<u32> {
        match self.events.take(Instant::now()) {
            Err(_) if !last => {
                self.untold = self.untold.saturating_add(1);
                None
            }
            _ => Some(std::mem::take(&mut self.untold)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pace whose buckets are not refilled during a test.
    fn pace(writes: u32, events: u32, states: u32) -> Pace {
        let bucket = |most| Bucket::new(most, Duration::from_secs(3600), Instant::now());
        Pace { writes: bucket(writes), events: bucket(events), states: bucket(states), ..Pace::default() }
    }

    #[test]
    fn the_final_status_is_written_whatever_was_written_before() {
        let mut pace = pace(2, 1, 1);
        assert!(pace.try_write(false) && pace.try_write(false));
        assert!(!pace.try_write(false) && pace.write_at.is_some_and(|at| at > Instant::now()));
        assert!(pace.try_write(true) && pace.write_at.is_none());
    }

    #[test]
    fn skipped_events_are_counted_once() {
        let mut pace = pace(1, 2, 1);
        let events: Vec<Option<u32>> = (0..5).map(|_| pace.try_record_event(false)).collect();
        assert_eq!(events, [Some(0), Some(0), None, None, None]);
        assert_eq!((pace.try_record_event(true), pace.try_record_event(true)), (Some(3), Some(0)));
    }

    #[test]
    fn states_past_the_burst_are_read_later() {
        let mut pace = pace(1, 1, 1);
        pace.count_state();
        assert_eq!(pace.listen_at, None);
        pace.count_state();
        assert!(pace.listen_at.is_some_and(|at| at > Instant::now()));
    }
}
