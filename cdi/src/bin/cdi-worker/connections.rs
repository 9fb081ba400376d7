//! Limits for connections. Clients without the required certificate have a small share, so that they cannot
//! keep others out.
//!
//! ```text
//!  accepted ─► Handshaking 32 ──TLS──┬─► Authenticated 24   full: the new one is closed
//!      oldest is evicted             └─► Anonymous 8        oldest is evicted, and none lives longer than 60 s
//! ```
//!
//! No connection waits for a slot. The kubelet's probe and readers of the report have no certificate; they
//! use a new connection each time, and are answered long before so many others have come behind them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The authentication of a connection's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The TLS handshake is in progress.
    Handshaking,
    /// Without the required certificate.
    Anonymous,
    /// With the required certificate.
    Authenticated,
}

impl Kind {
    /// The most connections at once.
    const fn most(self) -> usize {
        match self {
            Kind::Handshaking => 32,
            Kind::Anonymous => 8,
            Kind::Authenticated => 24,
        }
    }
}

/// The key of a connection, by kind and age.
type Key = (Kind, u64);

/// The limits for connections.
#[derive(Clone, Default)]
pub(crate) struct Connections(Arc<Mutex<OpenConnections>>);

/// The open connections. A connection ends when its sender is dropped.
#[derive(Default)]
struct OpenConnections {
    next: u64,
    all: BTreeMap<Key, oneshot::Sender<()>>,
}

/// The slot of a connection; it is free again when this is dropped.
pub(crate) struct ConnectionSlot {
    key: Key,
    connections: Connections,
}

/// Resolves, with an error, when the connection is evicted.
pub(crate) type Eviction = oneshot::Receiver<()>;

impl Connections {
    /// The number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.lock().all.len()
    }

    /// A slot for a new connection; if all are taken, the oldest connection in its handshake is evicted.
    pub(crate) fn enter(&self) -> (ConnectionSlot, Eviction) {
        let (sender, evicted) = oneshot::channel();
        let key = self.lock().put(Kind::Handshaking, sender);
        (ConnectionSlot { key, connections: self.clone() }, evicted)
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenConnections {
    /// Adds a connection as the newest of its kind, whose oldest is evicted if there are too many.
    fn put(&mut self, kind: Kind, sender: oneshot::Sender<()>) -> Key {
        if self.count(kind) >= kind.most() {
            let oldest = self.all.range((kind, 0)..).next().map(|(&key, _)| key);
            oldest.and_then(|key| self.all.remove(&key));
        }
        let key = (kind, self.next);
        self.next = self.next.saturating_add(1);
        self.all.insert(key, sender);
        key
    }

    fn count(&self, kind: Kind) -> usize {
        self.all.range((kind, 0)..=(kind, u64::MAX)).count()
    }
}

impl ConnectionSlot {
    /// Sets the kind after the handshake. `false`: the slot of the connection was given away.
    pub(crate) fn becomes(&mut self, kind: Kind) -> bool {
        let mut open = self.connections.lock();
        if kind == Kind::Authenticated && open.count(kind) >= kind.most() {
            return false;
        }
        // A connection that was evicted in the meantime has none.
        let Some(sender) = open.all.remove(&self.key) else { return false };
        self.key = open.put(kind, sender);
        true
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.lock().all.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot::error::TryRecvError;

    fn has_to_end(evicted: &mut Eviction) -> bool {
        evicted.try_recv() == Err(TryRecvError::Closed)
    }

    fn several(connections: &Connections, kind: Kind) -> Vec<(ConnectionSlot, Eviction)> {
        let one = |_| {
            let (mut slot, evicted) = connections.enter();
            assert!(kind == Kind::Handshaking || slot.becomes(kind));
            (slot, evicted)
        };
        (0..kind.most()).map(one).collect()
    }

    #[test]
    fn only_the_oldest_anonymous_connection_is_evicted() {
        let connections = Connections::default();
        let mut authenticated = several(&connections, Kind::Authenticated);
        let mut anonymous = several(&connections, Kind::Anonymous);
        let mut handshaking = several(&connections, Kind::Handshaking);
        assert_eq!(connections.open(), 64);
        let (mut slot, _evicted) = connections.enter();
        assert!(has_to_end(&mut handshaking[0].1) && !has_to_end(&mut handshaking[1].1));
        assert!(!handshaking[0].0.becomes(Kind::Authenticated), "it was evicted");
        assert!(slot.becomes(Kind::Anonymous));
        assert!(has_to_end(&mut anonymous[0].1));
        assert!(anonymous[1..].iter_mut().all(|(_, evicted)| !has_to_end(evicted)));
        assert!(authenticated.iter_mut().all(|(_, evicted)| !has_to_end(evicted)));
        // Of the authenticated ones the new one is closed, and the others stay.
        let (mut late, _evicted) = connections.enter();
        assert!(!late.becomes(Kind::Authenticated));
        assert!(authenticated.iter_mut().all(|(_, evicted)| !has_to_end(evicted)));
        authenticated.pop();
        assert!(late.becomes(Kind::Authenticated));
        drop((slot, late, authenticated, anonymous, handshaking));
        assert_eq!(connections.open(), 0);
    }
}
