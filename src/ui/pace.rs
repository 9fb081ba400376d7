//! Rate of a phase, and the time that is left of it. Pure: the caller says what time it is.

use super::Step;
use cdi::size::human;
use std::collections::VecDeque;
use std::time::Duration;

/// Time over which a rate is measured, at most.
const SPAN: Duration = Duration::from_secs(10);
/// Time over which a rate is measured, at least: over less, one burst would look like terabytes a second.
const LEAST: Duration = Duration::from_secs(1);

/// The latest samples of a phase. The first one is its base: what an earlier run has done counts for no rate.
#[derive(Debug, Default)]
pub(super) struct Pace {
    phase: &'static str,
    samples: VecDeque<Sample>,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Duration,
    done: u64,
    moved: u64,
}

/// Rate and time left, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tempo {
    /// Bytes a second that were moved.
    pub(super) rate: Option<u64>,
    /// Seconds until the phase ends.
    pub(super) left: Option<u64>,
}

impl Pace {
    /// Takes a sample. `at`: time since any fixed moment; `moved`: bytes that this run has moved.
    pub(super) fn sample(&mut self, at: Duration, step: Step, moved: u64) -> Tempo {
        let Step { phase, done, total } = step;
        let is_back = self.samples.back().is_some_and(|last| done < last.done || moved < last.moved);
        if self.phase != phase || is_back {
            self.phase = phase;
            self.samples.clear();
        }
        // The first one that is kept is at the beginning of the span, or before it.
        while self.samples.get(1).is_some_and(|next| at.saturating_sub(next.at) >= SPAN) {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { at, done, moved });
        let Some(first) = self.samples.front() else { return Tempo::default() };
        let time = at.saturating_sub(first.at);
        if time < LEAST {
            return Tempo::default();
        }
        let per_second = |bytes: u64| (bytes as f64 / time.as_secs_f64()) as u64;
        let progress = per_second(done - first.done);
        Tempo {
            rate: Some(per_second(moved - first.moved)).filter(|&rate| rate > 0),
            left: total.saturating_sub(done).checked_div(progress).filter(|_| total > 0),
        }
    }
}

impl Tempo {
    /// The rate: "12.5 MiB/s"; empty if unknown.
    pub(super) fn rate(self) -> String {
        self.rate.map_or_else(String::new, |rate| format!("{}/s", human(rate)))
    }

    /// The time left: "90 s left"; empty if unknown.
    pub(super) fn left(self) -> String {
        self.left.map_or_else(String::new, |left| format!("{left} s left"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn step(done: u64, total: u64) -> Step {
        Step { phase: "converting", done, total }
    }

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn what_was_there_before_counts_for_no_rate() {
        let mut pace = Pace::default();
        // An earlier run has done 900 MiB.
        assert_eq!(pace.sample(at(0), step(900 * MIB, 1000 * MIB), 0), Tempo::default());
        assert_eq!(pace.sample(at(999), step(909 * MIB, 1000 * MIB), 9 * MIB), Tempo::default(), "too short");
        let tempo = pace.sample(at(2000), step(920 * MIB, 1000 * MIB), 20 * MIB);
        assert_eq!((tempo.rate().as_str(), tempo.left().as_str()), ("10 MiB/s", "8 s left"));
    }

    #[test]
    fn holes_that_are_passed_over_are_not_moved() {
        let mut pace = Pace::default();
        pace.sample(at(0), step(0, 1 << 50), 0);
        let tempo = pace.sample(at(1000), step(60 << 40, 1 << 50), MIB);
        assert_eq!((tempo.rate, tempo.left), (Some(MIB), Some(16)));
        // Nothing but holes: no rate at all.
        let mut pace = Pace::default();
        pace.sample(at(0), step(0, 100), 0);
        assert_eq!(pace.sample(at(1000), step(50, 100), 0), Tempo { rate: None, left: Some(1) });
    }

    #[test]
    fn a_new_phase_and_a_step_back_begin_anew() {
        let mut pace = Pace::default();
        pace.sample(at(0), step(0, 100), 0);
        let other = Step { phase: "verifying", done: 50, total: 100 };
        assert_eq!(pace.sample(at(5000), other, 50), Tempo::default());
        assert_eq!(
            pace.sample(at(7000), Step { done: 40, ..other }, 40),
            Tempo::default(),
            "a blob comes again"
        );
        assert_eq!(pace.sample(at(9000), Step { done: 60, ..other }, 60).rate, Some(10));
    }

    #[test]
    fn only_the_last_seconds_count() {
        let mut pace = Pace::default();
        pace.sample(at(0), step(0, 0), 0);
        pace.sample(at(100), step(1 << 40, 0), 1 << 40);
        let tempo = (2..=20).map(|second| {
            let done = (1 << 40) + second * 100;
            pace.sample(at(second * 1000), step(done, 0), done)
        });
        assert_eq!(tempo.last(), Some(Tempo { rate: Some(100), left: None }));
        assert!(pace.samples.len() <= 12, "{}", pace.samples.len());
    }
}
