//! What all transfers of a [`super::Registries`] came to, for `--json` and for progress.

use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts as they grow.
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

/// The counts at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// How often another registry carried on.
    pub switches: u64,
    /// How often the same one was asked again.
    pub retries: u64,
    /// Bytes of blobs that came.
    pub received: u64,
    /// Bytes of blobs that went.
    pub sent: u64,
    /// Blobs that were there already.
    pub skipped: u64,
    /// Blobs that were mounted from another repository.
    pub mounted: u64,
    /// Uploads that broke and went on at the byte.
    pub resumed: u64,
}

impl Counters {
    /// How they stand.
    pub fn now(&self) -> Counted {
        Counted {
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

/// One more of something.
pub(super) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

/// So much more of something.
pub(super) fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Relaxed);
}
