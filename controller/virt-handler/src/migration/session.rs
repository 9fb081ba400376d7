//! Counters, failures and log lines of one side of a migration.

use crate::error::Error;
use serve::transport::LogLimiter;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Source or target of a migration. Its end is logged on drop.
#[derive(Debug)]
pub(super) struct Session {
    /// Name in log lines: `migration UID, target`.
    name: String,
    /// Bytes from the pod to the other node.
    pub(super) sent: AtomicU64,
    /// Bytes from the other node to the pod.
    pub(super) received: AtomicU64,
    failure: Mutex<Option<String>>,
    refusals: Mutex<LogLimiter>,
}

impl Session {
    /// Begins, and logs it. `place`: addresses or paths that it listens on.
    pub(super) fn begin(name: String, place: &str) -> Session {
        tracing::info!("{name}: listens on {place}");
        Session {
            name,
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            failure: Mutex::default(),
            refusals: Mutex::default(),
        }
    }

    /// Counts a connection that is not part of the migration.
    pub(super) fn refuse(&self, why: &str) {
        if let Some(count) = lock(&self.refusals).add(Instant::now()) {
            tracing::warn!("{}: refused a connection ({count} since the last message): {why}", self.name);
        }
    }

    /// Records the failure of a stream of the migration.
    pub(super) fn fail(&self, error: &Error) {
        let why = error.chain();
        if let Some(count) = lock(&self.refusals).add(Instant::now()) {
            tracing::warn!("{}: a stream failed ({count} since the last message): {why}", self.name);
        }
        lock(&self.failure).get_or_insert(why);
    }

    /// First failure of a stream.
    pub(super) fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }

    pub(super) fn bytes_sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(super) fn bytes_received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let (sent, received) = (self.bytes_sent(), self.bytes_received());
        tracing::info!("{}: ended, {sent} bytes sent, {received} bytes received", self.name);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
