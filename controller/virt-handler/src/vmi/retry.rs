//! Retry of failed work, with growing pauses.

use std::time::Duration;
use tokio::time::Instant;

/// First and longest pause before a retry.
const AGAIN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(10));

/// Time of the next retry; each pause is longer.
#[derive(Debug, Default)]
pub(super) struct Retry {
    pub(super) at: Option<Instant>,
    pause: Option<Duration>,
}

impl Retry {
    pub(super) fn later(&mut self) {
        let pause = self.pause.map_or(AGAIN.0, |pause| (pause * 2).min(AGAIN.1));
        (self.at, self.pause) = (Some(Instant::now() + pause), Some(pause));
    }

    pub(super) fn forget(&mut self) {
        (self.at, self.pause) = (None, None);
    }
}
