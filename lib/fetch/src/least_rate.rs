//! The rate below which a transfer is given up. The idle timeout alone would let a server send one byte a
//! minute for years.
//!
//! All requests of a transfer count together, and only the time in which at least one of them waits for its
//! server. So neither a slow disk nor a pause before the next attempt counts against it.
//!
//! Bytes count as they come, or as a decoder makes them, whichever are more: the zeros of a disk are
//! compressed to next to nothing.

use crate::retry::seconds;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A rate, and the time over which it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeastRate {
    /// Bytes per second, at least.
    pub bytes: u64,
    /// Waiting time after which the rate is checked; then the next period begins.
    pub over: Duration,
}

/// The usual measuring time: a network may be away for a minute or two.
pub const OVER: Duration = Duration::from_secs(5 * 60);

/// The least rate in worker pods. A slower source brings no disk within a month.
pub const WORKER_RATE: LeastRate = LeastRate { bytes: 4 << 10, over: OVER };

/// A count of the bytes that decoders made of a transfer. Its copies share the count.
#[derive(Debug, Clone, Default)]
pub struct Decoded(Arc<AtomicU64>);

impl Decoded {
    /// Bytes that decoders have made so far.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Adds to the count.
    pub fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Relaxed);
    }

    /// Sets the count to this number of bytes.
    pub fn set(&self, bytes: u64) {
        self.0.store(bytes, Relaxed);
    }
}

/// The rate check of one transfer, for all its requests.
#[derive(Debug)]
pub struct RateJudge {
    least: LeastRate,
    silence: Duration,
    decoded: Decoded,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Requests that wait now, and the start of the time that is not counted yet.
    waiting: usize,
    since: Instant,
    waited: Duration,
    came: u64,
    /// The decoders' count when the period began.
    decoded: u64,
}

/// A guard: one request waits as long as it lives.
#[derive(Debug)]
pub struct WaitGuard<'a>(&'a RateJudge);

impl RateJudge {
    /// A check of a transfer that has not begun to wait.
    pub fn new(least: LeastRate) -> RateJudge {
        let state = State { waiting: 0, since: Instant::now(), waited: Duration::ZERO, came: 0, decoded: 0 };
        let (silence, decoded) = (Duration::ZERO, Decoded::default());
        RateJudge { least, silence, decoded, state: Mutex::new(state) }
    }

    /// Tolerates a silence of this length: as much waiting does not count against the rate.
    pub fn tolerates(self, silence: Duration) -> RateJudge {
        RateJudge { silence, ..self }
    }

    /// Counts also the bytes that a decoder makes of the transfer.
    pub fn counts(mut self, decoded: Decoded) -> RateJudge {
        self.state.get_mut().unwrap_or_else(PoisonError::into_inner).decoded = decoded.get();
        RateJudge { decoded, ..self }
    }

    /// A request begins to wait; the guard ends the wait.
    pub fn waits(&self) -> WaitGuard<'_> {
        let mut state = self.state();
        state.count();
        state.waiting += 1;
        WaitGuard(self)
    }

    /// Counts received bytes. Returns a message if too few came in the whole period.
    pub fn came(&self, bytes: usize) -> Option<String> {
        let LeastRate { bytes: least, over } = self.least;
        let mut state = self.state();
        state.count();
        state.came = state.came.saturating_add(bytes as u64);
        if state.waited < over.saturating_add(self.silence) {
            return None;
        }
        let State { waited, came, decoded: before, .. } = *state;
        let decoded = self.decoded.get();
        (state.waited, state.came, state.decoded) = (Duration::ZERO, 0, decoded);
        let most = came.max(decoded.saturating_sub(before));
        let wanted = u128::from(least).saturating_mul(waited.saturating_sub(self.silence).as_millis());
        let is_slow = u128::from(most).saturating_mul(1000) < wanted;
        is_slow.then(|| {
            format!(
                "only {came} bytes came in {} s of waiting, less than the least rate of {least} bytes per second",
                seconds(Duration::from_secs(waited.as_secs().max(1)))
            )
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Adds the time since the last call, if a request was waiting.
    fn count(&mut self) {
        let now = Instant::now();
        if self.waiting > 0 {
            self.waited = self.waited.saturating_add(now.saturating_duration_since(self.since));
        }
        self.since = now;
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.count();
        state.waiting = state.waiting.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_millis(30);

    /// Waits as requests do; longer than it was asked for does not matter.
    fn waits(judge: &RateJudge) {
        let one = judge.waits();
        let other = judge.waits();
        std::thread::sleep(MOMENT);
        drop(one);
        drop(other);
    }

    #[test]
    fn a_rate_is_judged_after_the_whole_time_of_waiting_over_all_requests() {
        let judge = RateJudge::new(LeastRate { bytes: 1000, over: MOMENT });
        assert_eq!(judge.came(0), None, "nobody has waited");
        std::thread::sleep(2 * MOMENT);
        assert_eq!(judge.came(0), None, "a pause is not waiting");
        waits(&judge);
        let slow = judge.came(1).expect("1 byte in 30 ms is too slow");
        assert!(
            slow.starts_with("only 1 bytes came in 1 s of waiting, less than the least rate of 1000"),
            "{slow}"
        );
        assert_eq!(judge.came(0), None, "a new time begins");
        waits(&judge);
        assert_eq!(judge.came(1 << 20), None, "it is quick enough");
        let patient = RateJudge::new(LeastRate { bytes: 1000, over: Duration::from_secs(600) });
        waits(&patient);
        assert_eq!(patient.came(1), None, "the time is not over");
    }

    #[test]
    fn what_a_decoder_makes_of_few_bytes_counts() {
        let decoded = Decoded::default();
        decoded.add(7 << 20);
        let judge = RateJudge::new(LeastRate { bytes: 1 << 10, over: MOMENT }).counts(decoded.clone());
        waits(&judge);
        assert!(judge.came(1).is_some(), "all of it was made before");
        waits(&judge);
        decoded.add(7 << 20);
        assert_eq!(judge.came(1), None);
        waits(&judge);
        assert!(judge.came(1).is_some(), "the decoder made nothing more");
    }

    #[test]
    fn a_silence_that_is_tolerated_does_not_count() {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let judge = RateJudge::new(WORKER_RATE).tolerates(minutes(10));
        let waited_for = |bytes, waited| {
            judge.state().waited = waited;
            judge.came(bytes)
        };
        assert_eq!(waited_for(1, minutes(10)), None, "a silence, and bytes come again");
        let enough = WORKER_RATE.bytes as usize * 60 * 5;
        assert_eq!(waited_for(enough, minutes(15)), None, "enough in the five minutes beside it");
        assert!(waited_for(enough - 1, minutes(15)).is_some());
    }

    #[test]
    fn two_requests_that_wait_at_once_wait_once() {
        let judge = RateJudge::new(LeastRate { bytes: 1, over: Duration::MAX });
        let since = Instant::now();
        waits(&judge);
        let taken = since.elapsed();
        let waited = judge.state().waited;
        assert!(MOMENT <= waited && waited <= taken, "{waited:?} of {taken:?}");
    }
}
