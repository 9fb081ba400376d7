//! Counters of all transfers of a [`super::Registries`], for `--json` and for the progress display.

use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters that are updated during transfers.
#[derive(Debug, Default)]
pub struct Counters {
    pub(super) switches: AtomicU64,
    pub(super) retries: AtomicU64,
    pub(super) received: AtomicU64,
    pub(super) sent: AtomicU64,
    pub(super) skipped: AtomicU64,
    pub(super) mounted: AtomicU64,
    pub(super) resumed: AtomicU64,
}

/// Values of the counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TransferCounts {
    /// Number of changes to another registry.
    pub switches: u64,
    /// Number of requests that were repeated at the same registry.
    pub retries: u64,
    /// Bytes of blobs that were received.
    pub received: u64,
    /// Bytes of blobs that were sent.
    pub sent: u64,
    /// Number of blobs that existed already.
    pub skipped: u64,
    /// Number of blobs that were mounted from another repository.
    pub mounted: u64,
    /// Number of uploads that were interrupted and resumed.
    pub resumed: u64,
}

impl Counters {
    /// The values at this moment.
    pub fn now(&self) -> TransferCounts {
        TransferCounts {
            switches: self.switches.load(Relaxed),
            retries: self.retries.load(Relaxed),
            received: self.received.load(Relaxed),
            sent: self.sent.load(Relaxed),
            skipped: self.skipped.load(Relaxed),
            mounted: self.mounted.load(Relaxed),
            resumed: self.resumed.load(Relaxed),
        }
    }
}

/// Adds one to a counter.
pub(super) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

/// Adds `more` to a counter.
pub(super) fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Relaxed);
}
