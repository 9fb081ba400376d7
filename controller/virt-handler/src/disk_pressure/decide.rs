//! Decision on the VMIs that are paused and resumed for the disk of the node. Pure.
//!
//! ```text
//!  bytes left   room                              short                          the kubelet evicts
//!               ──────────────────────────────────┼──────────────────────────────┼────────► 0
//!                                                 threshold + slack              threshold
//!  looks each   2 s … 50 ms, by the distance      100 ms
//!  short ends                 ◄── at threshold + 2 × slack: paused VMIs are resumed
//! ```
//!
//! A VMI is paused if its disks have grown by more than its allowance since the node became short of disk.
//! The allowances of all VMIs together, paused ones included, are a quarter of the slack. So a guest that writes
//! a log runs on where another one fills the disk. Each VMI that comes makes the allowances smaller, but those
//! before it may have used their larger ones. So once all VMIs together have used the quarter, no VMI has an
//! allowance, and they do not come to the threshold, whatever the order in which they come and write.

use crate::growing_disks::Vcpus;
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum slack, which large file systems have.
const SLACK: u64 = 1 << 30;
/// Divisor of the size of a small file system: the quotient is its slack.
const PART: u64 = 20;
/// Divisor of the slack: the quotient is what all VMIs together may still write.
const SHARE: u64 = 4;
/// Bytes per second that guests of a node write at most. The interval of looks follows from it.
const FASTEST: u64 = 2 << 30;
/// The shortest and the longest interval of looks while there is room.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// The interval of looks at a node that is short of disk and has VMIs that run.
const SHORT: Duration = Duration::from_millis(100);
/// The same where no VMI runs.
const STILL: Duration = Duration::from_secs(1);

/// Room of the file system with the pods of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DiskSpace {
    /// Bytes that are left, as the kubelet counts them.
    pub(super) available: u64,
    /// Bytes of the file system.
    pub(super) capacity: u64,
    /// Bytes below which the kubelet evicts.
    pub(super) threshold: u64,
}

impl DiskSpace {
    /// Bytes above the threshold at which guests are paused already.
    fn slack(self) -> u64 {
        (self.capacity / PART).min(SLACK)
    }

    /// Bytes left, less those at which guests are paused.
    fn distance(self) -> i128 {
        i128::from(self.available) - i128::from(self.threshold) - i128::from(self.slack())
    }

    /// Bytes left at which paused VMIs are resumed.
    fn enough(self) -> u64 {
        self.threshold.saturating_add(self.slack().saturating_mul(2))
    }
}

/// A VMI whose disks grow on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Growing {
    /// UID of the VMI.
    pub(super) uid: String,
    /// State of its vCPUs.
    pub(super) vcpus: Vcpus,
    /// Bytes of the node's disk that its disks take. Unset: not measured.
    pub(super) taken: Option<u64>,
}

/// Requests to launchers, by UIDs of their VMIs, and the time until the next look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) pause: Vec<String>,
    pub(super) resume: Vec<String>,
    pub(super) after: Duration,
}

/// State that is kept between two looks.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    is_short: bool,
    /// Bytes that the disks of each VMI took at the last look before the node became short of disk, by UID.
    before: BTreeMap<String, u64>,
    /// Bytes of its allowance that each VMI has used since then, by UID.
    used: BTreeMap<String, u64>,
}

impl Pressure {
    /// The decision of one look.
    pub(super) fn step(&mut self, room: DiskSpace, vmis: &[Growing]) -> Decision {
        self.is_short = room.distance() <= 0 || self.is_short && room.available < room.enough();
        let running: Vec<&Growing> = vmis.iter().filter(|vmi| vmi.vcpus == Vcpus::Running).collect();
        let uids = |all: Vec<&Growing>| all.into_iter().map(|vmi| vmi.uid.clone()).collect();
        if !self.is_short {
            self.before = vmis.iter().filter_map(|vmi| Some((vmi.uid.clone(), vmi.taken?))).collect();
            self.used.clear();
            let paused = vmis.iter().filter(|vmi| vmi.vcpus == Vcpus::PausedForDisk).collect();
            return Decision { pause: Vec::new(), resume: uids(paused), after: interval(room) };
        }
        let allowance = self.allowance(room, vmis);
        let grown = |vmi: &&Growing| self.grown(vmi).is_some_and(|grown| grown > allowance);
        let after = if running.is_empty() { STILL } else { SHORT };
        // The gap between the limits of pausing and resuming is left to running VMIs.
        let pause =
            if room.distance() <= 0 { running.into_iter().filter(grown).collect() } else { Vec::new() };
        Decision { pause: uids(pause), resume: Vec::new(), after }
    }

    /// Bytes by which the disks of a VMI may have grown.
    fn allowance(&mut self, room: DiskSpace, vmis: &[Growing]) -> u64 {
        let is_there = |uid: &String| vmis.iter().any(|vmi| vmi.uid == *uid);
        self.before.retain(|uid, _| is_there(uid));
        self.used.retain(|uid, _| is_there(uid));
        let all = room.slack() / SHARE;
        // A paused VMI has used its allowance: another one does not get it.
        let allowance = all / u64::try_from(vmis.len()).unwrap_or(u64::MAX).max(1);
        for vmi in vmis {
            if let Some(taken) = vmi.taken {
                self.before.entry(vmi.uid.clone()).or_insert(taken);
            }
            let grown = self.grown(vmi).unwrap_or_default();
            let used = self.used.entry(vmi.uid.clone()).or_default();
            *used = grown.min(allowance).max(*used);
        }
        if self.used.values().sum::<u64>() > all { 0 } else { allowance }
    }

    /// Bytes by which the disks of a VMI have grown since the node became short of disk, if they are measured.
    fn grown(&self, vmi: &Growing) -> Option<u64> {
        Some(vmi.taken?.saturating_sub(*self.before.get(&vmi.uid)?))
    }
}

/// Time in which even the fastest guests cannot use up the room.
fn interval(room: DiskSpace) -> Duration {
    let bytes = u64::try_from(room.distance()).unwrap_or(0);
    let millis = bytes / (FASTEST / 1000);
    Duration::from_millis(millis).clamp(INTERVALS.0, INTERVALS.1)
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
