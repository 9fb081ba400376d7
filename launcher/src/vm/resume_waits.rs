//! Waits before a VM that a full disk paused is resumed. Pure.
//!
//! The free space of a file system can be read. That of a block device on thin storage, or below a quota, cannot:
//! there only the guest tells, which is paused again at its next write. So each resumption doubles the wait, until
//! the guest has run for a while.

use std::time::Duration;
use tokio::time::Instant;

/// Wait after the first pause.
const FIRST: Duration = Duration::from_secs(5);
/// Longest wait. A guest that has run for as long had room.
const LONGEST: Duration = Duration::from_secs(300);

/// Waits of one life of a VM.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResumeWaits {
    next: Duration,
    /// Time of the last resumption, until the next pause.
    resumed: Option<Instant>,
}

impl Default for ResumeWaits {
    fn default() -> ResumeWaits {
        ResumeWaits { next: FIRST, resumed: None }
    }
}

impl ResumeWaits {
    /// Wait after a pause. A pause may be reported several times.
    pub(super) fn paused(&mut self, now: Instant) -> Duration {
        if self.resumed.take().is_some_and(|resumed| now.duration_since(resumed) >= LONGEST) {
            self.next = FIRST;
        }
        self.next
    }

    /// Records a resumption after a pause by a full disk.
    pub(super) fn resumed(&mut self, now: Instant) {
        (self.next, self.resumed) = ((self.next * 2).min(LONGEST), Some(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_while_each_resumption_is_in_vain_and_begin_anew_after_a_long_run() {
        let (mut waits, mut now) = (ResumeWaits::default(), Instant::now());
        let mut seconds = |runs: u64| {
            let wait = waits.paused(now);
            assert_eq!(waits.paused(now), wait, "told twice");
            now += wait;
            waits.resumed(now);
            now += Duration::from_secs(runs);
            wait.as_secs()
        };
        let vain: Vec<u64> = [0, 1, 30, 299, 0, 0, 0, 299].into_iter().map(&mut seconds).collect();
        assert_eq!(vain, [5, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!([seconds(300), seconds(0), seconds(0)], [300, 5, 10]);
    }
}
