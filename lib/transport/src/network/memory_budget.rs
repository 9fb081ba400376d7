//! Memory budget of all requests, and the choice of the request to cut when memory runs out.
//!
//! ```text
//!  begins ─► working ─► arriving (its body, charged as it comes) ─► working ─► leaving (its answer) ─► ends
//!                          └──────────── may be cut ───────────────────────────────┘
//! ```
//!
//! A request is charged for the bytes that it holds, not for those that it announces: a thousand clients that
//! announce 8 MiB and send nothing hold nothing. No address has a limit of its own (see
//! [`super::connections`]). If further bytes do not fit, requests are cut that hold memory for longer than
//! needed: first those of the address that has held most (bytes times time), and of them the one that has
//! held most. The time that a body needs at [`PACE`] is not counted. So a body that comes at least that fast
//! counts by its bytes alone, and many small, ever new requests do not push it out, while a slow body holds
//! its bytes for seconds. A request that is being worked on is not cut, since work cannot be interrupted.
//!
//! No body and no clock: callers pass the time.

use super::Peer;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Fixed charge of every request, for its head and our state. It bounds the number of requests.
pub(super) const BASE: usize = 4 << 10;

/// Minimum age of a request in the order of cutting, so that of two new requests the larger one is cut first.
const LEAST: Duration = Duration::from_millis(50);

/// Expected pace of a body from its beginning, in bytes a second. An API server is much faster.
const PACE: u64 = 2 << 20;

/// Memory budget of all requests.
#[derive(Debug)]
pub(super) struct MemoryBudget {
    most: usize,
    held: usize,
    next: u64,
    shares: HashMap<u64, Share>,
}

/// Memory of one request.
#[derive(Debug)]
struct Share {
    peer: Peer,
    began: Instant,
    bytes: usize,
    phase: Phase,
    cut: Arc<Notify>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The body is arriving.
    Arriving,
    /// The request is being worked on.
    Working,
    /// The client is reading the answer.
    Leaving,
}

impl MemoryBudget {
    pub(super) fn new(most: usize) -> MemoryBudget {
        MemoryBudget { most, held: 0, next: 0, shares: HashMap::new() }
    }

    /// Bytes that all requests hold.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Begins a request with this many bytes; `cut` is notified when it is cut. Returns `None` if there is no
    /// room, and the number of requests that were cut for it.
    pub(super) fn begin(
        &mut self,
        peer: Peer,
        bytes: usize,
        cut: Arc<Notify>,
        now: Instant,
    ) -> (Option<u64>, usize) {
        self.next += 1;
        let id = self.next;
        let share = Share { peer, began: now, bytes: 0, phase: Phase::Arriving, cut };
        self.shares.insert(id, share);
        let (fits, cut) = self.set_bytes(id, bytes, now);
        self.enters(id, Phase::Working);
        (fits.then_some(id), cut)
    }

    /// Changes the bytes of a request. Returns false if that is not permitted, and the number of requests
    /// that were cut, including itself.
    pub(super) fn set_bytes(&mut self, id: u64, bytes: usize, now: Instant) -> (bool, usize) {
        let Some(share) = self.shares.get_mut(&id) else { return (false, 0) };
        let before = std::mem::replace(&mut share.bytes, bytes);
        self.held = self.held - before + bytes;
        if self.held <= self.most {
            return (true, 0);
        }
        let mut cut = 0;
        for other in self.costliest(now) {
            if self.held <= self.most || other == id {
                break;
            }
            self.cut(other);
            cut += 1;
        }
        let fits = self.held <= self.most;
        if !fits {
            self.end(id);
            cut += 1;
        }
        (fits, cut)
    }

    /// Changes the phase of a request. Returns false if the request was cut.
    pub(super) fn enters(&mut self, id: u64, phase: Phase) -> bool {
        let share = self.shares.get_mut(&id);
        share.map(|share| share.phase = phase).is_some()
    }

    /// Begins the sending of its answer; `cut` is notified when that is cut.
    pub(super) fn leaves(&mut self, id: u64, cut: Arc<Notify>) {
        if let Some(share) = self.shares.get_mut(&id) {
            (share.phase, share.cut) = (Phase::Leaving, cut);
        }
    }

    /// Ends a request, and returns its bytes to the budget.
    pub(super) fn end(&mut self, id: u64) {
        if let Some(share) = self.shares.remove(&id) {
            self.held -= share.bytes;
        }
    }

    fn cut(&mut self, id: u64) {
        if let Some(share) = self.shares.get(&id) {
            share.cut.notify_one();
        }
        self.end(id);
    }

    /// Requests that may be cut, the costliest first.
    fn costliest(&self, now: Instant) -> Vec<u64> {
        let mut peers: HashMap<Peer, u128> = HashMap::new();
        let mut all = Vec::new();
        for (id, share) in self.shares.iter().filter(|(_, share)| share.phase != Phase::Working) {
            let kept = share.late(now) + LEAST;
            let cost = (share.bytes as u128).saturating_mul(kept.as_micros());
            let sum = peers.entry(share.peer).or_default();
            *sum = sum.saturating_add(cost);
            all.push((share.peer, cost, *id));
        }
        let sum = |peer: &Peer| peers.get(peer).copied().unwrap_or_default();
        // Of two with the same cost, the older one.
        all.sort_unstable_by_key(|(peer, cost, id)| (Reverse((sum(peer), *peer, *cost)), *id));
        all.into_iter().map(|(_, _, id)| id).collect()
    }
}

impl Share {
    /// Time for which the request has held its bytes beyond the time that they need to arrive.
    fn late(&self, now: Instant) -> Duration {
        let since = now.saturating_duration_since(self.began);
        match self.phase {
            Phase::Arriving => since.saturating_sub(Duration::from_secs_f64(self.bytes as f64 / PACE as f64)),
            Phase::Working | Phase::Leaving => since,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KIB: usize = 1 << 10;

    fn peer(number: u8) -> Peer {
        Peer::of(std::net::IpAddr::from([10, 0, 0, number]))
    }

    /// A request with this much of its body.
    fn arrives(room: &mut MemoryBudget, number: u8, bytes: usize, now: Instant) -> u64 {
        let id = room.begin(peer(number), BASE, Arc::default(), now).0.expect("room");
        room.enters(id, Phase::Arriving);
        assert!(room.set_bytes(id, BASE + bytes, now).0, "room for the body");
        id
    }

    fn all(room: &MemoryBudget) -> Vec<u64> {
        let mut all: Vec<u64> = room.shares.keys().copied().collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn bodies_that_trickle_give_way_to_one_that_comes() {
        let begin = Instant::now();
        let mut room = MemoryBudget::new(1000 * KIB);
        // They fill almost all of it, from one address or from many.
        let slow: Vec<u64> = (0..10).map(|one| arrives(&mut room, one % 3, 95 * KIB, begin)).collect();
        let now = begin + Duration::from_secs(2);
        let review = arrives(&mut room, 9, 500 * KIB, now + Duration::from_millis(20));
        assert!(all(&room).contains(&review));
        assert_eq!(slow.iter().filter(|id| room.shares.contains_key(id)).count(), 5);
        // The same, if all come from the address of the API server.
        let review = arrives(&mut room, 0, 400 * KIB, now + Duration::from_millis(40));
        assert!(all(&room).contains(&review));
    }

    #[test]
    fn many_small_ones_of_one_address_do_not_push_out_a_large_one_of_another() {
        let begin = Instant::now();
        let mut room = MemoryBudget::new(1000 * KIB);
        let review = arrives(&mut room, 1, 300 * KIB, begin);
        let now = begin + Duration::from_millis(50);
        // Requests begin anew all the time: none is old.
        for _ in 0..300 {
            arrives(&mut room, 2, 8 * KIB, now);
            assert!(room.held() <= 1000 * KIB);
        }
        assert!(all(&room).contains(&review));
    }

    /// The same while the large body is still arriving, at the pace of a slow network, and each small request
    /// ends after 5 ms.
    #[test]
    fn small_ones_that_are_renewed_all_the_time_do_not_push_out_one_that_comes() {
        let begin = Instant::now();
        let mut room = MemoryBudget::new(1000 * KIB);
        let review = room.begin(peer(1), BASE, Arc::default(), begin).0.unwrap();
        room.enters(review, Phase::Arriving);
        let mut small = std::collections::VecDeque::new();
        for ms in 1..=140 {
            let now = begin + Duration::from_millis(ms);
            for _ in 0..30 {
                small.push_back(arrives(&mut room, 2, 8 * KIB, now));
            }
            while small.len() > 150 {
                room.end(small.pop_front().unwrap());
            }
            let came = ms as usize * 300 * KIB / 140;
            assert!(room.set_bytes(review, BASE + came, now).0, "it was refused after {ms} ms");
        }
        assert!(room.enters(review, Phase::Working), "it was cut");
    }

    /// A client that sends fast and then stops is not spared: the pace since the beginning counts.
    #[test]
    fn a_body_that_came_fast_and_then_trickles_is_cut_before_one_that_comes() {
        let begin = Instant::now();
        let mut room = MemoryBudget::new(1000 * KIB);
        let slow: Vec<u64> = (0..9).map(|one| arrives(&mut room, one, 100 * KIB, begin)).collect();
        let now = begin + Duration::from_millis(400);
        let review = arrives(&mut room, 9, 300 * KIB, now);
        assert!(all(&room).contains(&review));
        assert_eq!(slow.iter().filter(|id| room.shares.contains_key(id)).count(), 6);
    }

    #[test]
    fn what_is_worked_on_stays_and_whoever_asks_too_much_is_told_so() {
        let now = Instant::now();
        let mut room = MemoryBudget::new(20 * KIB);
        let worked = arrives(&mut room, 1, 8 * KIB, now);
        room.enters(worked, Phase::Working);
        let new = room.begin(peer(2), BASE, Arc::default(), now).0.unwrap();
        room.enters(new, Phase::Arriving);
        assert_eq!(room.set_bytes(new, BASE + 64 * KIB, now), (false, 1));
        assert_eq!(room.set_bytes(new, BASE, now), (false, 0), "it is not cut twice");
        assert_eq!(all(&room), [worked]);
        assert!(!room.enters(new, Phase::Working), "it was cut");
        assert_eq!(room.held(), BASE + 8 * KIB);
        // An answer that the client does not read is cut like a body.
        room.leaves(worked, Arc::default());
        let told = Arc::new(Notify::new());
        let other = room.begin(peer(3), BASE, Arc::clone(&told), now).0.unwrap();
        assert_eq!(room.set_bytes(other, 16 * KIB, now), (true, 1));
        assert_eq!(all(&room), [other]);
    }

    #[tokio::test]
    async fn what_is_cut_is_told() {
        let now = Instant::now();
        let mut room = MemoryBudget::new(BASE * 3);
        let told = Arc::new(Notify::new());
        let old = room.begin(peer(1), BASE, Arc::clone(&told), now).0.unwrap();
        room.enters(old, Phase::Arriving);
        let later = now + Duration::from_secs(1);
        let new = room.begin(peer(2), BASE, Arc::default(), later).0.unwrap();
        assert_eq!(room.set_bytes(new, BASE * 3, later), (true, 1));
        told.notified().await;
    }

    proptest! {
        #[test]
        fn no_more_is_held_than_there_is(acts in prop::collection::vec((0_u8..5, 0_u8..3, 0_usize..9, 1_usize..30, 0_u64..50), 0..200)) {
            let mut now = Instant::now();
            let mut room = MemoryBudget::new(64 * KIB);
            for (act, from, at, size, pause) in acts {
                now += Duration::from_millis(pause);
                let ids = all(&room);
                let id = ids.get(at % ids.len().max(1)).copied().unwrap_or_default();
                let working = |room: &MemoryBudget| all(room).into_iter().filter(|id| room.shares[id].phase == Phase::Working).collect::<Vec<_>>();
                let before = working(&room);
                match act {
                    0 => drop(room.begin(peer(from), BASE, Arc::default(), now)),
                    1 => drop(room.enters(id, Phase::Arriving)),
                    2 => drop(room.set_bytes(id, BASE + size * KIB, now)),
                    3 if from == 0 => drop(room.enters(id, Phase::Working)),
                    3 => room.leaves(id, Arc::default()),
                    _ => room.end(id),
                }
                let sum: usize = room.shares.values().map(|share| share.bytes).sum();
                prop_assert_eq!(sum, room.held());
                prop_assert!(room.held() <= 64 * KIB);
                if act == 0 || act == 2 {
                    // The request itself may be refused; no other request that is being worked on is cut.
                    let after = working(&room);
                    prop_assert!(before.iter().all(|one| after.contains(one) || (act == 2 && *one == id)));
                }
            }
        }
    }
}
