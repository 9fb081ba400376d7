//! Counters, failures and log lines of one side of a migration.

use crate::error::Error;
use serve::transport::LogLimiter;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::watch;

/// Source or target of a migration. Its end is logged on drop.
#[derive(Debug)]
pub(super) struct Session {
    /// Name in log lines: `migration UID, target`.
    name: String,
    bytes: Arc<StreamBytes>,
    findings: watch::Sender<Findings>,
    refusals: Mutex<Refusals>,
}

/// Bytes of all streams of one side of a migration.
#[derive(Debug, Default)]
pub struct StreamBytes {
    /// Bytes from the pod to the other node.
    pub(super) sent: AtomicU64,
    /// Bytes from the other node to the pod.
    pub(super) received: AtomicU64,
}

/// Findings of one side of a migration about its connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// First failure, as a sentence.
    pub failure: Option<String>,
    /// True if no stream can begin any more, since the other side did not come in time.
    pub is_closed: bool,
}

/// Connections that were refused.
#[derive(Debug, Default)]
struct Refusals {
    log: LogLimiter,
    count: u64,
    /// Reason of the last one.
    last: String,
}

impl StreamBytes {
    /// Bytes from the pod to the other node.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Bytes from the other node to the pod.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Session {
    /// Begins, and logs it. `place`: addresses or paths that it listens on.
    pub(super) fn begin(name: String, place: &str) -> Session {
        tracing::info!("{name}: listens on {place}");
        Session {
            name,
            bytes: Arc::default(),
            findings: watch::Sender::default(),
            refusals: Mutex::default(),
        }
    }

    /// Counts a connection that is not part of the migration.
    pub(super) fn refuse(&self, why: &str) {
        let mut refusals = lock(&self.refusals);
        refusals.count = refusals.count.saturating_add(1);
        why.clone_into(&mut refusals.last);
        if let Some(count) = refusals.log.add(Instant::now()) {
            tracing::warn!("{}: refused a connection ({count} since the last message): {why}", self.name);
        }
    }

    /// Refused connections so far, as the end of a sentence; empty if there were none.
    pub(super) fn refused(&self) -> String {
        let refusals = lock(&self.refusals);
        match refusals.count {
            0 => String::new(),
            count => format!("; connections refused: {count}, the last one because {}", refusals.last),
        }
    }

    /// Records the failure of a stream of the migration.
    pub(super) fn fail(&self, error: &Error) {
        let why = error.chain();
        if let Some(count) = lock(&self.refusals).log.add(Instant::now()) {
            tracing::warn!("{}: a stream failed ({count} since the last message): {why}", self.name);
        }
        self.findings.send_if_modified(|findings| {
            let is_first = findings.failure.is_none();
            findings.failure.get_or_insert(why);
            is_first
        });
    }

    /// Records that no stream can begin any more.
    pub(super) fn close(&self, why: String) {
        tracing::warn!("{}: {why}", self.name);
        self.findings.send_replace(Findings { failure: Some(why), is_closed: true });
    }

    pub(super) fn findings(&self) -> watch::Receiver<Findings> {
        self.findings.subscribe()
    }

    pub(super) fn bytes(&self) -> &Arc<StreamBytes> {
        &self.bytes
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let (sent, received) = (self.bytes.sent(), self.bytes.received());
        tracing::info!("{}: ended, {sent} bytes sent, {received} bytes received", self.name);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
