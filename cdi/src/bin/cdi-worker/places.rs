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
    Shaking,
    /// Without the required certificate.
    Stranger,
    /// With the required certificate.
    Known,
}

impl Kind {
    /// The most connections at once.
    const fn most(self) -> usize {
        match self {
            Kind::Shaking => 32,
            Kind::Stranger => 8,
            Kind::Known => 24,
        }
    }
}

/// The key of a connection, by kind and age.
type Key = (Kind, u64);

/// The limits for connections.
#[derive(Clone, Default)]
pub(crate) struct Places(Arc<Mutex<Taken>>);

/// The open connections. A connection ends when its sender is dropped.
#[derive(Default)]
struct Taken {
    next: u64,
    all: BTreeMap<Key, oneshot::Sender<()>>,
}

/// The slot of a connection; it is free again when this is dropped.
pub(crate) struct Place {
    key: Key,
    places: Places,
}

/// Resolves, with an error, when the connection is evicted.
pub(crate) type GivesWay = oneshot::Receiver<()>;

impl Places {
    /// The number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.taken().all.len()
    }

    /// A slot for a new connection; if there is none, the oldest connection in its handshake is evicted.
    pub(crate) fn enter(&self) -> (Place, GivesWay) {
        let (ends, gives_way) = oneshot::channel();
        let key = self.taken().put(Kind::Shaking, ends);
        (Place { key, places: self.clone() }, gives_way)
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Adds a connection as the newest of its kind, whose oldest is evicted if there are too many.
    fn put(&mut self, kind: Kind, ends: oneshot::Sender<()>) -> Key {
        if self.count(kind) >= kind.most() {
            let oldest = self.all.range((kind, 0)..).next().map(|(&key, _)| key);
            oldest.and_then(|key| self.all.remove(&key));
        }
        let key = (kind, self.next);
        self.next = self.next.saturating_add(1);
        self.all.insert(key, ends);
        key
    }

    fn count(&self, kind: Kind) -> usize {
        self.all.range((kind, 0)..=(kind, u64::MAX)).count()
    }
}

impl Place {
    /// Sets the kind after the handshake. `false`: there is no slot for the connection any more.
    pub(crate) fn becomes(&mut self, kind: Kind) -> bool {
        let mut taken = self.places.taken();
        if kind == Kind::Known && taken.count(kind) >= kind.most() {
            return false;
        }
        // A connection that was evicted in the meantime has none.
        let Some(ends) = taken.all.remove(&self.key) else { return false };
        self.key = taken.put(kind, ends);
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().all.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot::error::TryRecvError;

    fn has_to_end(gives_way: &mut GivesWay) -> bool {
        gives_way.try_recv() == Err(TryRecvError::Closed)
    }

    fn several(places: &Places, kind: Kind) -> Vec<(Place, GivesWay)> {
        let one = |_| {
            let (mut place, gives_way) = places.enter();
            assert!(kind == Kind::Shaking || place.becomes(kind));
            (place, gives_way)
        };
        (0..kind.most()).map(one).collect()
    }

    #[test]
    fn the_oldest_stranger_gives_way_and_nobody_else() {
        let places = Places::default();
        let mut known = several(&places, Kind::Known);
        let mut strangers = several(&places, Kind::Stranger);
        let mut shaking = several(&places, Kind::Shaking);
        assert_eq!(places.open(), 64);
        let (mut place, _gives_way) = places.enter();
        assert!(has_to_end(&mut shaking[0].1) && !has_to_end(&mut shaking[1].1));
        assert!(!shaking[0].0.becomes(Kind::Known), "it has given way");
        assert!(place.becomes(Kind::Stranger));
        assert!(has_to_end(&mut strangers[0].1));
        assert!(strangers[1..].iter_mut().all(|(_, gives_way)| !has_to_end(gives_way)));
        assert!(known.iter_mut().all(|(_, gives_way)| !has_to_end(gives_way)));
        // Of the known ones the new one goes, and the others stay.
        let (mut late, _gives_way) = places.enter();
        assert!(!late.becomes(Kind::Known));
        assert!(known.iter_mut().all(|(_, gives_way)| !has_to_end(gives_way)));
        known.pop();
        assert!(late.becomes(Kind::Known));
        drop((place, late, known, strangers, shaking));
        assert_eq!(places.open(), 0);
    }
}
