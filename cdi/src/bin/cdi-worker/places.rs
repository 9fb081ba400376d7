//! The places for connections, of which strangers have a small part: who shows no certificate cannot keep out who does.
//!
//! ```text
//!  accepted ─► Shaking 32 ──TLS──┬─► Known 24       none is free: the new one is closed
//!      oldest gives way          └─► Stranger 8     oldest gives way, and none lives longer than 60 s
//! ```
//!
//! Nobody waits for a place: the kubelet's probe and whoever reads the report are strangers, come with a new connection each
//! time, and are answered long before so many others have come behind them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// What is known of the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The handshake is under way.
    Shaking,
    /// It has not shown the certificate that is needed.
    Stranger,
    /// It has.
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

/// The place of a connection, by kind and age.
type Key = (Kind, u64);

/// The places for connections.
#[derive(Clone, Default)]
pub(crate) struct Places(Arc<Mutex<Taken>>);

/// Those that are taken. A connection whose sender goes has to end.
#[derive(Default)]
struct Taken {
    next: u64,
    all: BTreeMap<Key, oneshot::Sender<()>>,
}

/// A place of a connection; it is free again when this goes.
pub(crate) struct Place {
    key: Key,
    places: Places,
}

/// Comes to its end, with whatever, when the place is given to another connection.
pub(crate) type GivesWay = oneshot::Receiver<()>;

impl Places {
    /// Connections that are open.
    pub(crate) fn open(&self) -> usize {
        self.taken().all.len()
    }

    /// The place of a new connection; where there is none, the oldest whose handshake is under way gives way.
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
    /// Puts a connection behind the others of its kind, whose oldest gives way where there are too many.
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
    /// The handshake is over, and this is known of the other end. `false`: the connection has no place any more.
    pub(crate) fn becomes(&mut self, kind: Kind) -> bool {
        let mut taken = self.places.taken();
        if kind == Kind::Known && taken.count(kind) >= kind.most() {
            return false;
        }
        // One that gave way meanwhile has none.
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
