//! The time in which the holder of a Lease may act.

use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Time without renewal after which the holder stops acting. It is shorter than the time for which others leave it the Lease.
pub(crate) const LATE: Duration = Duration::from_secs(10);

/// Time since the last renewal of a Lease, by a clock that goes on while the computer is suspended. Its clones are the same
/// tenure.
#[derive(Clone, Debug, Default)]
pub struct Tenure {
    /// Milliseconds since the boot of the computer; 0 before the first renewal.
    renewed: Arc<AtomicU64>,
}

impl Tenure {
    /// Records a renewal that was asked for at this time: the Lease counts from the request.
    pub(crate) fn renew(&self, asked: SinceBoot) {
        self.renewed.store(asked.0, Ordering::Release);
    }

    /// True while no other replica can hold the Lease.
    pub fn is_valid(&self) -> bool {
        let renewed = self.renewed.load(Ordering::Acquire);
        renewed != 0 && SinceBoot::now().0.saturating_sub(renewed) < LATE.as_millis() as u64
    }
}

/// Milliseconds since the boot of the computer, suspended time included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SinceBoot(u64);

impl SinceBoot {
    pub(crate) fn now() -> SinceBoot {
        let now = clock_gettime(ClockId::Boottime);
        let milliseconds = now.tv_sec.unsigned_abs() * 1000 + now.tv_nsec.unsigned_abs() / 1_000_000;
        SinceBoot(milliseconds.max(1))
    }

    pub(crate) fn elapsed(self) -> Duration {
        Duration::from_millis(SinceBoot::now().0.saturating_sub(self.0))
    }

    #[cfg(test)]
    pub(crate) fn ago(time: Duration) -> SinceBoot {
        SinceBoot(SinceBoot::now().0.saturating_sub(time.as_millis() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenure_ends_without_a_renewal() {
        let tenure = Tenure::default();
        assert!(!tenure.is_valid(), "it was never acquired");
        for (age, holds) in [(0, true), (9, true), (10, false), (60, false)] {
            tenure.renew(SinceBoot::ago(Duration::from_secs(age)));
            assert_eq!(tenure.clone().is_valid(), holds, "{age} s");
        }
    }
}
