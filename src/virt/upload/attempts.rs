//! Counters of failed attempts and of new tokens. Pure.
//!
//! ```text
//!  failed ─► one attempt less; the full number again when the server has new bytes
//!  401    ─► the end at the first attempt; later a new token, three times between two bytes of progress
//! ```

use std::time::Duration;

/// Maximum number of new tokens without one new byte.
const REFRESHES: u32 = 3;
/// Pause after the first failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Counters of an upload's attempts.
#[derive(Debug)]
pub(super) struct Attempts {
    most: u32,
    failures: u32,
    refreshes: u32,
    /// Number of bytes that the server has.
    reached: u64,
    /// Number of times the server lost bytes.
    losses: u32,
}

impl Attempts {
    /// Counters for at most so many attempts without progress.
    pub(super) fn new(most: u32) -> Attempts {
        Attempts { most, failures: 0, refreshes: 0, reached: 0, losses: 0 }
    }

    /// Notes the number of bytes that the server has.
    pub(super) fn reached(&mut self, bytes: u64) {
        if bytes > self.reached {
            (self.failures, self.refreshes) = (0, 0);
        } else if bytes < self.reached {
            self.losses += 1;
        }
        self.reached = bytes;
    }

    /// Notes a failed attempt. Returns the pause before the next one; `None` after the last. Losses are
    /// counted too, so that a server which loses its bytes again and again ends the upload.
    pub(super) fn failed(&mut self) -> Option<Duration> {
        self.failures += 1;
        let doubled = FIRST_PAUSE.saturating_mul(1 << (self.failures - 1).min(8));
        (self.failures < self.most && self.losses < self.most.max(1)).then(|| doubled.min(LONGEST_PAUSE))
    }

    /// Number of failed attempts since the last new byte.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Notes a refused token. True if a new one may be requested.
    pub(super) fn refused(&mut self) -> bool {
        let is_first = self.failures == 0 && self.refreshes == 0 && self.reached == 0 && self.losses == 0;
        self.refreshes += 1;
        !is_first && self.refreshes <= REFRESHES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_counted_and_begin_anew_with_a_new_byte() {
        let mut attempts = Attempts::new(3);
        assert_eq!(attempts.failed(), Some(FIRST_PAUSE));
        assert_eq!(attempts.failed(), Some(FIRST_PAUSE * 2));
        attempts.reached(0);
        assert_eq!(attempts.failed(), None);
        assert_eq!(attempts.failures(), 3);

        let mut attempts = Attempts::new(2);
        for bytes in 1..100 {
            assert!(attempts.failed().is_some());
            attempts.reached(bytes);
        }
        assert!(attempts.failed().is_some() && attempts.failed().is_none());
        assert_eq!(Attempts::new(1).failed(), None);
    }

    #[test]
    fn a_server_that_loses_everything_each_time_is_given_up() {
        let mut attempts = Attempts::new(3);
        let mut rounds = 0;
        loop {
            attempts.reached(1000);
            if attempts.failed().is_none() {
                break;
            }
            attempts.reached(0);
            rounds += 1;
        }
        assert_eq!(rounds, 3);
    }

    #[test]
    fn the_pause_grows_and_has_an_end() {
        let mut attempts = Attempts::new(u32::MAX);
        let pauses: Vec<_> = (0..100).filter_map(|_| attempts.failed()).collect();
        assert!(pauses.is_sorted() && pauses.last() == Some(&LONGEST_PAUSE));
    }

    #[test]
    fn a_token_that_is_refused_at_once_is_not_asked_for_again() {
        assert!(!Attempts::new(5).refused());
        let mut attempts = Attempts::new(5);
        attempts.failed();
        assert_eq!([(); 4].map(|()| attempts.refused()), [true, true, true, false]);
        attempts.reached(1);
        assert!(attempts.refused());
    }
}
