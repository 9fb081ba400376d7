//! Retry of failed work, with growing pauses.

use std::time::Duration;
use tokio::time::Instant;

/// First and longest pause before a retry.
const AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(10));

/// Time of the next retry; each pause is longer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Retry {
    pub(super) at: Option<Instant>,
    pause: Option<Duration>,
}

impl Retry {
    pub(super) fn postpone(&mut self, now: Instant) {
        let pause = self.pause.map_or(AGAIN.0, |pause| (pause * 2).min(AGAIN.1));
        (self.at, self.pause) = (Some(now + pause), Some(pause));
    }

    pub(super) fn forget(&mut self) {
        (self.at, self.pause) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_anew() {
        let mut retry = Retry::default();
        let pauses = |retry: &mut Retry| {
            let before = Instant::now();
            retry.postpone(before);
            let pause = retry.pause.unwrap();
            assert!(retry.at.unwrap() >= before + pause);
            pause.as_millis()
        };
        let all: Vec<u128> = (0..10).map(|_| pauses(&mut retry)).collect();
        assert_eq!(all, [50, 100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        retry.forget();
        assert_eq!((retry.at, pauses(&mut retry)), (None, 50));
    }
}
