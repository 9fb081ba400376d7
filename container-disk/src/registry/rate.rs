//! Check of a transfer's rate. Only time spent waiting for the network counts, so that a slow reader is not
//! blamed on a mirror.

use std::time::Duration;

/// The rate of one connection, measured in periods.
#[derive(Debug)]
pub(super) struct Rate {
    least: u64,
    patience: Duration,
    waited: Duration,
    bytes: u64,
}

impl Rate {
    /// Expects `least` bytes per second in each period of `patience`.
    pub(super) fn new(least: u64, patience: Duration) -> Rate {
        Rate { least, patience, waited: Duration::ZERO, bytes: 0 }
    }

    /// Adds bytes and the time spent waiting for them. Returns the rate at the end of a period if it is too
    /// low.
    pub(super) fn add(&mut self, waited: Duration, bytes: u64) -> Option<u64> {
        self.waited = self.waited.saturating_add(waited);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.waited < self.patience {
            return None;
        }
        let rate = (self.bytes as f64 / self.waited.as_secs_f64()) as u64;
        (self.waited, self.bytes) = (Duration::ZERO, 0);
        (rate < self.least).then_some(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_too_low_after_the_whole_patience_and_not_before() {
        let second = Duration::from_secs(1);
        let mut rate = Rate::new(1000, 3 * second);
        assert_eq!(rate.add(second, 0), None);
        assert_eq!(rate.add(second, 900), None);
        assert_eq!(rate.add(second, 600), Some(500));
        assert_eq!(rate.add(2 * second, 0), None, "a new time begins");
        assert_eq!(rate.add(second, 3000), None, "just enough");
        for _ in 0..100 {
            assert_eq!(rate.add(Duration::ZERO, 1), None, "a slow reader does not wait for the network");
        }
        assert_eq!(Rate::new(0, second).add(60 * second, 0), None, "nothing is expected");
    }
}
