//! Log of connections that could not be accepted: one line a second, with their number. Pure: callers pass
//! the time.

use crate::bucket::Bucket;
use std::time::Duration;
use tokio::time::Instant;

/// Time between two log lines.
const EVERY: Duration = Duration::from_secs(1);

/// Counter of failures that were not logged yet.
#[derive(Debug)]
pub(super) struct AcceptFailures {
    lines: Bucket,
    untold: u64,
}

impl AcceptFailures {
    pub(super) fn new(now: Instant) -> AcceptFailures {
        AcceptFailures { lines: Bucket::new(1, EVERY, now), untold: 0 }
    }

    /// Counts a failure. Returns the number of failures if a log line is due.
    pub(super) fn add(&mut self, now: Instant) -> Option<u64> {
        self.untold += 1;
        self.lines.take(now).is_ok().then(|| std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_is_counted_and_one_line_a_second_is_written() {
        let begin = Instant::now();
        let mut missed = AcceptFailures::new(begin);
        let step = |number: u32| begin + Duration::from_millis(10) * number;
        let told: Vec<_> = (0..=300).filter_map(|number| missed.add(step(number))).collect();
        assert_eq!(told, [1, 100, 100, 100]);
        // The last failures are logged with the next one.
        assert_eq!((0..5).filter_map(|_| missed.add(step(301))).count(), 0);
        assert_eq!(missed.add(step(9000)), Some(6));
    }
}
