//! Limits of a migration. Pure: time and progress in, the next step out.
//!
//! ```text
//!  time is over ──► post-copy, if it may ──► no further look
//!               ──► a pause, if it may   ──► twice the time
//!               ──► abort
//!  less and less remains? not for so long ──► abort
//! ```

use api::launcher::{MigrationLimits, MigrationMode, MigrationProgress};
use std::time::Duration;

/// The unit of sizes in the time limit: a gigabyte, as upstream counts it.
const GIGABYTE: u64 = 1_000_000_000;

/// Monitor of a migration.
#[derive(Debug)]
pub(super) struct Monitor {
    limits: MigrationLimits,
    /// Bytes of the guest's memory.
    memory: u64,
    mode: MigrationMode,
    is_downtime_set: bool,
    /// Factor of the time limit.
    factor: u32,
    /// The fewest bytes that remained, and the time when that was seen first.
    least: Option<(u64, Duration)>,
}

/// Next step of a migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Wait,
    Downtime(Duration),
    PostCopy,
    Pause,
    Abort(String),
}

impl Monitor {
    pub(super) fn new(limits: MigrationLimits, memory: u64) -> Monitor {
        Monitor {
            limits,
            memory,
            mode: MigrationMode::PreCopy,
            is_downtime_set: false,
            factor: 1,
            least: None,
        }
    }

    pub(super) fn mode(&self) -> MigrationMode {
        self.mode
    }

    /// The next step, after this time. Each is carried out once.
    pub(super) fn step(&mut self, elapsed: Duration, progress: &MigrationProgress) -> Step {
        if self.mode == MigrationMode::PostCopy {
            return Step::Wait;
        }
        if !self.is_downtime_set && self.limits.downtime_ms > 0 {
            self.is_downtime_set = true;
            return Step::Downtime(Duration::from_millis(self.limits.downtime_ms));
        }
        let is_over = self.time(progress).is_some_and(|limit| elapsed > limit);
        if is_over && self.limits.post_copy {
            self.mode = MigrationMode::PostCopy;
            return Step::PostCopy;
        }
        if is_over && self.limits.allow_pause && self.mode == MigrationMode::PreCopy {
            (self.mode, self.factor) = (MigrationMode::Paused, self.factor * 2);
            return Step::Pause;
        }
        if let Some(why) = self.stalled(elapsed, progress) {
            return Step::Abort(why);
        }
        match self.time(progress) {
            Some(limit) if is_over => Step::Abort(format!(
                "it was not done within {} s: {} of {} bytes remain, and the guest writes {} bytes in each second",
                limit.as_secs(),
                progress.remaining,
                progress.total,
                progress.dirty_bytes_per_second
            )),
            _ => Step::Wait,
        }
    }

    /// Records that a step could not be carried out. Later steps do without post-copy, or without a pause, if that was the step.
    pub(super) fn failed(&mut self, step: &Step) {
        match step {
            Step::PostCopy => self.limits.post_copy = false,
            Step::Pause => self.limits.allow_pause = false,
            Step::Wait | Step::Downtime(_) | Step::Abort(_) => return,
        }
        self.mode = MigrationMode::PreCopy;
    }

    /// Time limit, by what is to be copied.
    fn time(&self, progress: &MigrationProgress) -> Option<Duration> {
        let size = progress.total.max(self.memory).div_ceil(GIGABYTE);
        let seconds = self.limits.completion_seconds_per_gib.checked_mul(size)?;
        (seconds > 0).then(|| Duration::from_secs(seconds).saturating_mul(self.factor))
    }

    fn stalled(&mut self, elapsed: Duration, progress: &MigrationProgress) -> Option<String> {
        let seconds = self.limits.progress_seconds;
        let (least, since) = match self.least {
            // Before the first pass nothing remains.
            None | Some((0, _)) => *self.least.insert((progress.remaining, elapsed)),
            Some((least, _)) if progress.remaining < least => {
                *self.least.insert((progress.remaining, elapsed))
            }
            Some(known) => known,
        };
        let is_stalled = seconds > 0 && elapsed.saturating_sub(since) > Duration::from_secs(seconds);
        is_stalled.then(|| {
            format!(
                "there was no progress for {seconds} s: {least} bytes remained at best, and the guest writes {} bytes in each second",
                progress.dirty_bytes_per_second
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> MigrationLimits {
        MigrationLimits {
            completion_seconds_per_gib: 150,
            progress_seconds: 100,
            ..MigrationLimits::default()
        }
    }

    fn left(remaining: u64) -> MigrationProgress {
        MigrationProgress {
            total: 2 * GIGABYTE,
            remaining,
            dirty_bytes_per_second: 7,
            ..MigrationProgress::default()
        }
    }

    fn after(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_time_limit_goes_by_the_size_and_is_followed_by_the_means_in_order() {
        let fresh = |limits: MigrationLimits| Monitor::new(limits, GIGABYTE);
        let mut monitor = fresh(limits());
        assert_eq!(monitor.step(after(300), &left(50)), Step::Wait);
        let Step::Abort(why) = monitor.step(after(301), &left(40)) else { panic!("it goes on") };
        assert!(why.starts_with("it was not done within 300 s: 40 of 2000000000 bytes remain"), "{why}");

        let mut monitor = fresh(MigrationLimits { post_copy: true, allow_pause: true, ..limits() });
        assert_eq!(monitor.step(after(301), &left(40)), Step::PostCopy);
        assert_eq!(monitor.mode(), MigrationMode::PostCopy);
        assert_eq!(monitor.step(after(9000), &left(40)), Step::Wait, "its guest runs at the target");

        let mut monitor = fresh(MigrationLimits { post_copy: true, allow_pause: true, ..limits() });
        let step = monitor.step(after(301), &left(40));
        monitor.failed(&step);
        assert_eq!(monitor.step(after(301), &left(40)), Step::Pause, "no userfaultfd here");
        assert_eq!(monitor.mode(), MigrationMode::Paused);
        assert_eq!(monitor.step(after(302), &left(30)), Step::Wait);
        assert!(matches!(monitor.step(after(601), &left(20)), Step::Abort(_)));
    }

    #[test]
    fn a_migration_without_progress_ends() {
        let mut monitor =
            Monitor::new(MigrationLimits { completion_seconds_per_gib: 0, ..limits() }, GIGABYTE);
        assert_eq!(monitor.step(after(0), &left(0)), Step::Wait);
        assert_eq!(monitor.step(after(90), &left(500)), Step::Wait);
        assert_eq!(monitor.step(after(150), &left(400)), Step::Wait);
        assert_eq!(monitor.step(after(250), &left(900)), Step::Wait);
        let Step::Abort(why) = monitor.step(after(251), &left(400)) else { panic!("it goes on") };
        assert!(why.starts_with("there was no progress for 100 s: 400 bytes remained at best"), "{why}");
    }

    #[test]
    fn without_limits_it_goes_on_for_ever() {
        let mut monitor = Monitor::new(MigrationLimits::default(), u64::MAX);
        assert_eq!(monitor.step(after(u64::MAX / 2), &left(1)), Step::Wait);
        let mut monitor = Monitor::new(MigrationLimits { downtime_ms: 30, ..MigrationLimits::default() }, 0);
        assert_eq!(monitor.step(after(0), &left(1)), Step::Downtime(Duration::from_millis(30)));
        assert_eq!(monitor.step(after(1), &left(1)), Step::Wait, "once");
    }
}
