//! Places of waiting reviews. If all are taken, the newest review of the address with most places is evicted,
//! as for connections ([`serve::transport`]).
//!
//! An address has no limit of its own, since all API servers may share one behind a Service. Addresses that
//! fill all places cannot keep out one that has fewer. Nor do they come first: one review of each address is
//! in line, and its others wait for it ([`WaitingPlace::wait_for_turn`]).

use serve::transport::Peer;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Mutex as Line, MutexGuard as First, Notify};

/// The places of waiting reviews, at most `most` of them.
pub(super) struct Waiting {
    most: usize,
    taken: Mutex<Occupancy>,
}

#[derive(Default)]
struct Occupancy {
    next: u64,
    /// Places by number; the oldest one has the lowest.
    places: BTreeMap<u64, Taker>,
}

struct Taker {
    peer: Peer,
    gone: Arc<Notify>,
    /// The line shared by the reviews of this address.
    line: Arc<Line<()>>,
}

/// A place, released on drop.
pub(super) struct WaitingPlace<'w> {
    waiting: &'w Waiting,
    id: u64,
    gone: Arc<Notify>,
    line: Arc<Line<()>>,
}

impl Waiting {
    pub(super) fn new(most: usize) -> Waiting {
        Waiting { most, taken: Mutex::default() }
    }

    /// Takes a place if one is free, or if another address has at least two more than this one.
    pub(super) fn enter(&self, peer: Peer) -> Option<WaitingPlace<'_>> {
        let mut taken = self.taken();
        if taken.places.len() >= self.most {
            let other = taken.gives_way_to(peer).and_then(|id| taken.places.remove(&id))?;
            other.gone.notify_one();
        }
        taken.next += 1;
        let (id, gone, line) = (taken.next, Arc::new(Notify::new()), taken.line_of(peer));
        let taker = Taker { peer, gone: Arc::clone(&gone), line: Arc::clone(&line) };
        taken.places.insert(id, taker);
        Some(WaitingPlace { waiting: self, id, gone, line })
    }

    fn taken(&self) -> MutexGuard<'_, Occupancy> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Occupancy {
    /// The line of this address. It is dropped with its last place.
    fn line_of(&self, peer: Peer) -> Arc<Line<()>> {
        let other = self.places.values().find(|taker| taker.peer == peer);
        other.map_or_else(Arc::default, |taker| Arc::clone(&taker.line))
    }

    /// The review that is evicted so that this address gets its place: the newest one of the address with
    /// most places. `None` if no address has at least two more than this one.
    fn gives_way_to(&self, peer: Peer) -> Option<u64> {
        let mut counts: HashMap<Peer, usize> = HashMap::new();
        for taker in self.places.values() {
            *counts.entry(taker.peer).or_default() += 1;
        }
        let own = counts.get(&peer).copied().unwrap_or_default();
        let (crowd, count) = counts.into_iter().max_by_key(|(peer, count)| (*count, *peer))?;
        // With a difference of one, two addresses would evict each other for ever.
        if count < own + 2 {
            return None;
        }
        let newest = self.places.iter().rev().find(|(_, taker)| taker.peer == crowd);
        newest.map(|(id, _)| *id)
    }
}

impl WaitingPlace<'_> {
    /// Waits until the place was given to another address.
    pub(super) async fn wait_until_taken(&self) {
        self.gone.notified().await;
    }

    /// Waits until this review is the first of its address, which it stays until the guard is dropped.
    pub(super) async fn wait_for_turn(&self) -> First<'_, ()> {
        self.line.lock().await
    }
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        self.waiting.taken().places.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    fn peer(number: u8) -> Peer {
        Peer::of([10, 0, 0, number].into())
    }

    /// Indexes of the places that were given to other addresses.
    fn gone(places: &[WaitingPlace<'_>]) -> Vec<usize> {
        let is_gone =
            |(at, place): (usize, &WaitingPlace<'_>)| place.wait_until_taken().now_or_never().map(|()| at);
        places.iter().enumerate().filter_map(is_gone).collect()
    }

    #[test]
    fn the_address_that_has_most_gives_way_and_its_newest_first() {
        let waiting = Waiting::new(8);
        let all =
            |number, count| (0..count).map(|_| waiting.enter(peer(number)).unwrap()).collect::<Vec<_>>();
        let crowd = all(1, 8);
        assert!(waiting.enter(peer(1)).is_none(), "nobody gives way to himself");
        let others = all(2, 4);
        assert_eq!(gone(&crowd), [4, 5, 6, 7]);
        assert!(waiting.enter(peer(2)).is_none(), "half is his share of two");
        let third = all(3, 2);
        assert_eq!((gone(&crowd).len(), gone(&others).len()), (1, 1));
        // Any address may take a free place.
        drop((others, third));
        all(1, 5);
        drop(crowd);
        assert!(waiting.taken().places.is_empty());
    }

    #[test]
    fn addresses_that_have_one_each_keep_it() {
        let waiting = Waiting::new(4);
        let _all: Vec<_> = (0..4).map(|number| waiting.enter(peer(number)).unwrap()).collect();
        assert!(waiting.enter(peer(9)).is_none());
    }
}
