//! The number of requests in flight: it grows while that brings more bytes, and shrinks otherwise.
//!
//! Every quarter of a second the rate is compared with the one before the last change. The limit grows only
//! while readers spend time waiting for a permit, or for the next byte of a stream.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};

const WINDOW: Duration = Duration::from_millis(250);
const START: usize = 2;

/// The limit of requests in flight, and the measurements that move it.
pub struct Concurrency {
    slots: Semaphore,
    limit: AtomicUsize,
    bytes: AtomicU64,
    /// Nanoseconds that readers waited in this window.
    waited: AtomicU64,
    began: Instant,
    /// End of this window, in nanoseconds since `began`.
    window_end: AtomicU64,
    state: Mutex<State>,
}

struct State {
    climb: Climb,
    window_start: Instant,
    /// Slots to remove as soon as their holders are done.
    owed: usize,
}

impl Concurrency {
    /// A limit that never exceeds `most`.
    pub fn new(most: usize) -> Concurrency {
        let climb = Climb::new(most.clamp(1, 64));
        let (limit, began) = (climb.limit, Instant::now());
        Concurrency {
            slots: Semaphore::new(limit),
            limit: AtomicUsize::new(limit),
            bytes: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            began,
            window_end: AtomicU64::new(0),
            state: Mutex::new(State { climb, window_start: began, owed: 0 }),
        }
    }

    /// The number of requests that may run at the same time now.
    pub fn limit(&self) -> usize {
        self.limit.load(Relaxed)
    }

    /// Waits for a slot; also returns how long that took.
    pub async fn enter(&self) -> (Permit<'_>, Duration) {
        if let Ok(slot) = self.slots.try_acquire() {
            return (Permit { of: self, slot: Some(slot) }, Duration::ZERO);
        }
        let since = Instant::now();
        // The semaphore is never closed.
        let slot = self.slots.acquire().await.ok();
        (Permit { of: self, slot }, since.elapsed())
    }

    /// Counts received bytes, and adapts the limit at the end of a measuring window.
    pub fn received(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
        let now = self.began.elapsed().as_nanos() as u64;
        if now >= self.window_end.load(Relaxed) {
            self.end_window();
        }
    }

    /// Counts time that a reader waited for the network.
    pub fn hungry(&self, waited: Duration) {
        self.waited.fetch_add(waited.as_nanos() as u64, Relaxed);
    }

    /// The server reported overload (429 or 503): the limit is halved.
    pub fn overloaded(&self) {
        let Ok(mut state) = self.state.lock() else { return };
        state.climb.overloaded();
        self.apply(&mut state);
    }

    fn end_window(&self) {
        // Another thread may be ending the window; then it counts these bytes too.
        let Ok(mut state) = self.state.try_lock() else { return };
        let elapsed = state.window_start.elapsed();
        let bytes = self.bytes.swap(0, Relaxed);
        let waited = Duration::from_nanos(self.waited.swap(0, Relaxed));
        // The first window has no beginning, and a pause of the caller says nothing about the network.
        if elapsed < WINDOW * 4 && self.window_end.load(Relaxed) != 0 {
            let rate = bytes as f64 / elapsed.as_secs_f64().max(0.001);
            state.climb.window(rate, waited > elapsed / 10);
            self.apply(&mut state);
        }
        state.window_start = Instant::now();
        let end = self.began.elapsed() + WINDOW;
        self.window_end.store(end.as_nanos() as u64, Relaxed);
    }

    fn apply(&self, state: &mut State) {
        let (old, new) = (self.limit.load(Relaxed), state.climb.limit);
        if new > old {
            let repaid = state.owed.min(new - old);
            state.owed -= repaid;
            self.slots.add_permits(new - old - repaid);
        } else if new < old {
            let free = self.slots.forget_permits(old - new);
            state.owed += old - new - free;
        }
        if new != old {
            tracing::debug!(old, new, "requests in flight");
            self.limit.store(new, Relaxed);
        }
    }

    fn repay(&self) -> bool {
        let Ok(mut state) = self.state.lock() else { return false };
        let owes = state.owed > 0;
        state.owed = state.owed.saturating_sub(1);
        owes
    }
}

/// The right to have a request in flight; given back on drop.
pub struct Permit<'a> {
    of: &'a Concurrency,
    slot: Option<SemaphorePermit<'a>>,
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take()
            && self.of.repay()
        {
            slot.forget();
        }
    }
}

/// The decision, without clocks: given the rate of each window, it moves the limit.
struct Climb {
    limit: usize,
    most: usize,
    /// Limit and rate before the change that is being tried.
    before: Option<(usize, f64)>,
    /// Windows to skip after a change, since connections must open first.
    settle: u32,
    /// Windows until the next trial, and their number after a failed one.
    hold: u32,
    patience: u32,
    /// Doubling until the first failure, single steps afterwards.
    fast: bool,
    up_next: bool,
    /// Windows in a row in which no reader waited.
    sated: u32,
}

const PATIENCE: u32 = 4;
const MOST_PATIENCE: u32 = 64;

impl Climb {
    fn new(most: usize) -> Climb {
        Climb {
            limit: START.min(most),
            most,
            before: None,
            settle: 0,
            hold: 0,
            patience: PATIENCE,
            fast: true,
            up_next: true,
            sated: 0,
        }
    }

    fn window(&mut self, rate: f64, hungry: bool) {
        if self.settle > 0 {
            self.settle -= 1;
            return;
        }
        if let Some((old, old_rate)) = self.before.take() {
            self.judge(old, old_rate, rate);
        }
        self.sated = if hungry { 0 } else { self.sated + 1 };
        if !hungry {
            // The caller is the bottleneck, so fewer connections suffice.
            if self.sated >= PATIENCE && self.limit > 1 {
                self.sated = 0;
                self.set(self.limit - 1);
            }
        } else if self.hold > 0 {
            self.hold -= 1;
        } else if self.settle == 0 {
            self.try_another(rate);
        }
    }

    fn overloaded(&mut self) {
        self.before = None;
        self.fast = false;
        self.patience = MOST_PATIENCE / 2;
        self.hold = self.patience;
        self.set((self.limit / 2).max(1));
    }

    fn judge(&mut self, old: usize, old_rate: f64, rate: f64) {
        let ratio = self.limit as f64 / old as f64;
        // More requests must bring a good part of the possible gain; fewer must cost nothing.
        let good = if ratio > 1.0 { rate >= old_rate * (0.7 + 0.3 * ratio) } else { rate >= old_rate * 0.97 };
        if good {
            self.patience = PATIENCE;
            self.hold = if ratio > 1.0 { 0 } else { PATIENCE };
        } else {
            self.set(old);
            self.fast = false;
            self.up_next = ratio < 1.0;
            self.hold = self.patience;
            self.patience = (self.patience * 2).min(MOST_PATIENCE);
        }
    }

    fn try_another(&mut self, rate: f64) {
        let up = self.up_next || self.limit == 1;
        let next = match (up, self.fast) {
            (true, true) => (self.limit * 2).min(self.most),
            (true, false) => (self.limit + 1).min(self.most),
            (false, _) => self.limit - 1,
        };
        if next == self.limit {
            self.up_next = false;
            self.hold = self.patience;
            return;
        }
        self.before = Some((self.limit, rate));
        self.set(next);
    }

    fn set(&mut self, limit: usize) {
        if limit != self.limit {
            self.limit = limit;
            self.settle = 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limits over `windows` windows against a network that gives `rate(limit)`.
    fn limits(climb: &mut Climb, windows: usize, rate: impl Fn(usize) -> f64, hungry: bool) -> Vec<usize> {
        (0..windows)
            .map(|_| {
                climb.window(rate(climb.limit), hungry);
                climb.limit
            })
            .collect()
    }

    #[test]
    fn connections_that_are_slow_one_by_one_go_to_the_most_quickly() {
        let mut climb = Climb::new(8);
        let seen = limits(&mut climb, 100, |n| n as f64 * 20.0, true);
        assert_eq!(seen[2], 8, "{seen:?}");
        let at_most = seen.iter().filter(|n| **n == 8).count();
        assert!(at_most > 80, "and stays there but for short trials: {seen:?}");
    }

    #[test]
    fn a_link_that_one_connection_fills_ends_with_one() {
        let mut climb = Climb::new(8);
        let seen = limits(&mut climb, 100, |_| 1000.0, true);
        assert!(seen[40..].iter().filter(|n| **n == 1).count() > 40, "{seen:?}");
        assert!(seen.iter().all(|n| *n <= 4), "{seen:?}");
    }

    #[test]
    fn a_link_that_three_fill_stays_near_three() {
        let mut climb = Climb::new(8);
        let seen = limits(&mut climb, 200, |n| n.min(3) as f64, true);
        assert!(seen[30..].iter().all(|n| (2..=4).contains(n)), "{seen:?}");
        assert!(seen[30..].iter().filter(|n| **n == 3).count() > 100, "{seen:?}");
    }

    #[test]
    fn a_slow_caller_needs_few_and_a_hungry_one_gets_more_again() {
        let mut climb = Climb::new(8);
        limits(&mut climb, 20, |n| n as f64, true);
        assert_eq!(limits(&mut climb, 60, |_| 1.0, false).last(), Some(&1));
        assert_eq!(limits(&mut climb, 100, |n| n as f64, true).iter().max(), Some(&8));
    }

    #[test]
    fn an_overloaded_server_gets_half_for_a_while() {
        let mut climb = Climb::new(8);
        limits(&mut climb, 20, |n| n as f64, true);
        let before = climb.limit;
        climb.overloaded();
        assert_eq!(climb.limit, before / 2);
        assert!(limits(&mut climb, 20, |n| n as f64, true).iter().all(|n| *n <= before / 2));
    }

    #[tokio::test]
    async fn slots_follow_the_limit() {
        let all = Concurrency::new(8);
        let ((a, _), (b, _)) = (all.enter().await, all.enter().await);
        assert_eq!(all.slots.available_permits(), 0);
        all.overloaded();
        drop(a);
        assert_eq!(all.slots.available_permits(), 0, "the slot is taken away when its holder is done");
        drop(b);
        assert_eq!((all.slots.available_permits(), all.limit()), (1, 1));
    }
}
