//! Polls: one request each to a server that a DataImportCron names, for the digest of its image.
//!
//! ```text
//!  decisions ──question──► waiting (one for each DataImportCron) ──► a few at once, fewer of one namespace ──► request
//!                                                                                                              │
//!  World::polls ◄── digest, or one of few reasons ◄────────────────────────────────────────────────────────────┘
//! ```
//!
//! **Requests by virt-controller** instead of pods: an image that is polled each hour in a hundred namespaces
//! would cost 2,400 pods a day. So a user who may write a DataImportCron chooses the server that
//! virt-controller connects to, and virt-controller may reach servers that the pods of that namespace may
//! not. Therefore:
//!
//! - A request is a `HEAD`, or a `GET` of one byte if that is not served. The only bodies that are read are those
//!   of a token and of a manifest without a digest, which are hashed and parsed, and bounded.
//! - It has no login, no header of the tenant's and no certificate. If one is needed, no request is sent, and the
//!   DataImportCron says so: virt-controller has no right to Secrets and ConfigMaps of tenants.
//! - The addresses of the node, of its link and of metadata services are not connected to, regardless of names,
//!   redirects and token servers ([`fetch::Addresses::Remote`]); `--poll-any-address` is for a registry on the
//!   node itself.
//! - No text of the server is published, only a digest of fixed form, or a reason of [`NoAnswer`].
//!
//! **Bounds.** [`AT_ONCE`] requests, [`OF_NAMESPACE`] of one namespace, and [`ALL`] as the time limit of each
//! with its redirects and tokens; the next one a minute later at the earliest (`data_import_cron::when`). A
//! server that hangs delays only its own namespace. The next request is one of the namespace that was served
//! longest ago, so a namespace with many requests waits for the others.
//! **Caveats.** Reasons reveal if a server answers at an address inside the cluster. A NetworkPolicy for
//! virt-controller can limit those that it may reach.

mod request;
#[cfg(test)]
mod tests;

use crate::data_import_cron::Question;
use cluster_model::objects::Key;
use cluster_model::polls::NoAnswer;
use fetch::{Addresses, Connect, Connector, Location, Unchecked};
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Number of concurrent requests.
const AT_ONCE: usize = 8;
/// Number of concurrent requests of one namespace.
const OF_NAMESPACE: usize = 2;
/// The longest time of one poll.
const ALL: Duration = Duration::from_secs(30);
/// Longest time without a byte, and to connect.
const IDLE: Duration = Duration::from_secs(15);
const CONNECT: Duration = Duration::from_secs(10);

/// Result of a poll: key and uid of the DataImportCron, and the answer.
pub(crate) struct PollResult {
    pub(crate) key: Key,
    pub(crate) uid: String,
    pub(crate) at: Timestamp,
    pub(crate) answer: Answer,
}

/// A digest, or the reason without one and the pause that the server asked for.
pub(crate) type Answer = Result<String, (NoAnswer, Option<SignedDuration>)>;

/// Running and waiting requests.
pub(crate) struct Polls {
    connector: Arc<Connector>,
    waiting: VecDeque<(Key, String, Question)>,
    /// By key, the uid.
    running: BTreeMap<Key, String>,
    of_namespace: BTreeMap<String, usize>,
    /// Turn in which each namespace was served last; absent if the namespace has no waiting requests.
    served: BTreeMap<String, u64>,
    turn: u64,
    tasks: JoinSet<PollResult>,
    by_task: BTreeMap<tokio::task::Id, Key>,
    /// Longest time without a byte of an answer.
    idle: Duration,
}

impl Polls {
    /// Polls without requests. The system's CAs are read here.
    pub(crate) fn new(addresses: Addresses) -> fetch::Result<Polls> {
        let connector = Arc::new(Connector::new(Connect {
            ca: Vec::new(),
            identity: None,
            is_private: false,
            unchecked: Unchecked::None,
            timeout: CONNECT,
            addresses,
            kept: 1,
            hint: "install the system's CA certificates",
        }));
        // The trust store is read here, where nothing waits, because it takes milliseconds.
        for scheme in ["https", "http"] {
            if let Some(place) = Location::base(scheme, "registry.example") {
                connector.get(&place, true)?;
            }
        }
        Ok(Polls {
            connector,
            waiting: VecDeque::new(),
            running: BTreeMap::new(),
            of_namespace: BTreeMap::new(),
            served: BTreeMap::new(),
            turn: 0,
            tasks: JoinSet::new(),
            by_task: BTreeMap::new(),
            idle: IDLE,
        })
    }

    /// Takes a question; one of a DataImportCron takes the place of its last, in the line too.
    pub(crate) fn ask(&mut self, key: Key, uid: String, question: Question) {
        if self.running.get(&key) == Some(&uid) {
            return;
        }
        match self.waiting.iter_mut().find(|(other, ..)| *other == key) {
            Some(waiting) => *waiting = (key, uid, question),
            None => self.waiting.push_back((key, uid, question)),
        }
    }

    /// Starts the requests that may start now.
    pub(crate) fn start_due(&mut self) {
        while self.running.len() < AT_ONCE {
            let Some((key, uid, question)) = self.take_next() else { return };
            *self.of_namespace.entry(key.namespace.clone()).or_default() += 1;
            self.running.insert(key.clone(), uid.clone());
            let (connector, idle) = (Arc::clone(&self.connector), self.idle);
            let whose = key.clone();
            let task = self.tasks.spawn(async move {
                let answer = tokio::time::timeout(ALL, request::ask(&connector, &question, idle)).await;
                let answer = answer.unwrap_or(Err((NoAnswer::Silent, None)));
                PollResult { key, uid, at: Timestamp::now(), answer }
            });
            self.by_task.insert(task.id(), whose);
        }
    }

    /// Next question within the bounds: the oldest of the namespace that was served longest ago.
    fn take_next(&mut self) -> Option<(Key, String, Question)> {
        let of = |key: &Key| self.of_namespace.get(&key.namespace).copied().unwrap_or(0);
        let may_begin = |key: &Key| of(key) < OF_NAMESPACE && !self.running.contains_key(key);
        let served = |key: &Key| self.served.get(&key.namespace).copied().unwrap_or(0);
        let all = self.waiting.iter().enumerate().filter(|(_, (key, ..))| may_begin(key));
        // `min_by_key` returns the first of several equal ones.
        let next = all.min_by_key(|(_, (key, ..))| served(key)).map(|(at, _)| at)?;
        let taken = self.waiting.remove(next)?;
        self.turn = self.turn.saturating_add(1);
        self.served.insert(taken.0.namespace.clone(), self.turn);
        if self.waiting.is_empty() {
            self.served.clear();
        }
        Some(taken)
    }

    /// True if requests are running.
    pub(crate) fn are_running(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Result of the next request that ends; `None` for a request that panicked.
    pub(crate) async fn next(&mut self) -> Option<PollResult> {
        let (id, told) = match self.tasks.join_next_with_id().await? {
            Ok((id, told)) => (id, Some(told)),
            Err(error) => {
                tracing::error!("the task of a poll panicked: {error}");
                (error.id(), None)
            }
        };
        if let Some(key) = self.by_task.remove(&id) {
            self.running.remove(&key);
            if let Some(count) = self.of_namespace.get_mut(&key.namespace) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.of_namespace.remove(&key.namespace);
                }
            }
        }
        told
    }
}
