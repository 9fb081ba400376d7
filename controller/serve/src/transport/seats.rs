//! The open connections, and which of them is closed when there are too many.
//!
//! ```text
//!  accepted ─► unproven ──── a request answered with success ────► idle ◄──┐
//!                 │                                                 │      │
//!                 └──────────── a request ──────────► waiting ─► working ──┘
//!                                                     (for the client)
//! ```
//!
//! No address has a limit of its own: behind a service, a proxy or konnectivity all API servers may come from one. An
//! address may have every connection while nobody else wants one. When one too many comes, one is closed:
//!
//! 1. of the address that has the most of them,
//! 2. in it the oldest that has proved nothing (no handshake, no request, a request that never ends) for longer than
//!    [`YOUNG`]; else the one that has been idle longest; else one that waits for its client; else a young one;
//! 3. never one whose request is being worked on, and never the new one while another can go.
//!
//! So whoever floods us closes his own connections first, and an API server behind the same address keeps the one that it
//! uses. One that is idle has nothing under way when it is closed: the client dials again.
//!
//! No socket and no clock: whoever calls says what time it is.

use super::Peer;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// How long a new connection may take before it counts as one that proves nothing.
const YOUNG: Duration = Duration::from_secs(1);

/// How long a client may keep a connection waiting.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// From its beginning until its first request has come.
    pub first: Duration,
    /// Between two requests. An API server closes by itself what it has not used for 90 s. It must be the one that closes:
    /// a request that is on its way when we close is lost.
    pub idle: Duration,
    /// Until an answer has been taken.
    pub taking: Duration,
}

/// All connections.
#[derive(Debug)]
pub(super) struct Seats {
    most: usize,
    next: u64,
    seats: HashMap<u64, Seat>,
    peers: HashMap<Peer, Queues>,
    /// How many connections each address has.
    crowds: BTreeSet<(usize, Peer)>,
}

#[derive(Debug)]
struct Seat {
    peer: Peer,
    /// When it came; for one that has proved itself, since when it is idle or waits.
    since: Instant,
    /// A request of it was answered with success.
    proven: bool,
    /// Requests that wait for the client.
    waiting: usize,
    /// Requests that are worked on.
    working: usize,
    /// Answers that are being taken, and since when.
    taking: Vec<(u64, Instant)>,
    leave: Arc<Notify>,
}

/// The connections of one address, and those of them that may be closed, by what they are and since when.
#[derive(Debug, Default)]
struct Queues {
    count: usize,
    unproven: BTreeSet<(Instant, u64)>,
    idle: BTreeSet<(Instant, u64)>,
    waiting: BTreeSet<(Instant, u64)>,
}

/// A connection that has its place among the others.
#[derive(Clone, Debug)]
pub(super) struct Seated {
    pub(super) id: u64,
    /// It is told here that it has to go.
    pub(super) leave: Arc<Notify>,
}

impl Seats {
    pub(super) fn new(most: usize) -> Seats {
        Seats { most, next: 0, seats: HashMap::new(), peers: HashMap::new(), crowds: BTreeSet::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.seats.len()
    }

    /// A new connection, and whether another had to go for it. Nothing, while all others are worked on.
    pub(super) fn enter(&mut self, peer: Peer, now: Instant) -> Option<(Seated, bool)> {
        let full = self.seats.len() >= self.most;
        if full && !self.close_one(now) {
            return None;
        }
        self.next += 1;
        let (id, leave) = (self.next, Arc::new(Notify::new()));
        let seat = Seat {
            peer,
            since: now,
            proven: false,
            waiting: 0,
            working: 0,
            taking: Vec::new(),
            leave: Arc::clone(&leave),
        };
        self.seats.insert(id, seat);
        self.count(peer, |count| count + 1);
        self.queue(id, true);
        Some((Seated { id, leave }, full))
    }

    /// A connection has ended, or has been told to.
    pub(super) fn left(&mut self, id: u64) {
        self.queue(id, false);
        if let Some(seat) = self.seats.remove(&id) {
            self.count(seat.peer, |count| count - 1);
        }
    }

    /// Closes the connection that can be spared best. Whether there is one.
    pub(super) fn close_one(&mut self, now: Instant) -> bool {
        let Some(id) = self.spare(now) else { return false };
        if let Some(seat) = self.seats.get(&id) {
            seat.leave.notify_one();
        }
        self.left(id);
        true
    }

    /// A request begins, and is worked on.
    pub(super) fn begins(&mut self, id: u64, now: Instant) {
        self.change(id, now, |seat| seat.working += 1);
    }

    /// A request that was worked on waits for its body.
    pub(super) fn waits(&mut self, id: u64, now: Instant) {
        self.change(id, now, |seat| {
            seat.working = seat.working.saturating_sub(1);
            seat.waiting += 1;
        });
    }

    /// Its body has come, or will not.
    pub(super) fn works(&mut self, id: u64, now: Instant) {
        self.change(id, now, |seat| {
            seat.working += 1;
            seat.waiting = seat.waiting.saturating_sub(1);
        });
    }

    /// It has an answer, which now waits for the client.
    pub(super) fn answers(&mut self, id: u64, request: u64, success: bool, now: Instant) {
        self.change(id, now, |seat| {
            seat.working = seat.working.saturating_sub(1);
            seat.waiting += 1;
            seat.proven |= success;
            seat.taking.push((request, now));
        });
    }

    /// It is over: in `works`, it was being worked on.
    pub(super) fn ends(&mut self, id: u64, request: u64, works: bool, now: Instant) {
        self.change(id, now, |seat| {
            let count = if works { &mut seat.working } else { &mut seat.waiting };
            *count = count.saturating_sub(1);
            seat.taking.retain(|(other, _)| *other != request);
        });
    }

    /// When it is to be asked again whether the client has kept this connection waiting too long; nothing, if it has.
    pub(super) fn due(&self, id: u64, patience: &Patience, now: Instant) -> Option<Instant> {
        // One that was told to go needs no further word.
        let Some(seat) = self.seats.get(&id) else { return Some(now + patience.idle) };
        let due = match seat.taking.iter().map(|(_, since)| *since).min() {
            Some(since) => since + patience.taking,
            None if seat.working + seat.waiting > 0 => return Some(now + patience.taking),
            None if seat.proven => seat.since + patience.idle,
            None => seat.since + patience.first,
        };
        (due > now).then_some(due)
    }

    fn spare(&self, now: Instant) -> Option<u64> {
        self.crowds.iter().rev().find_map(|(_, peer)| {
            let queues = self.peers.get(peer)?;
            let oldest = queues.unproven.first();
            let stale = oldest.filter(|(since, _)| now.saturating_duration_since(*since) >= YOUNG);
            let spare = stale.or(queues.idle.first()).or(queues.waiting.first()).or(oldest);
            spare.map(|(_, id)| *id)
        })
    }

    fn change(&mut self, id: u64, now: Instant, change: impl FnOnce(&mut Seat)) {
        self.queue(id, false);
        if let Some(seat) = self.seats.get_mut(&id) {
            change(seat);
            // How long one that proves nothing has been here is not forgotten for a request that never ends.
            if seat.proven {
                seat.since = now;
            }
        }
        self.queue(id, true);
    }

    /// Puts a connection where it can be found when one is to be spared, or takes it away from there.
    fn queue(&mut self, id: u64, there: bool) {
        let Some(seat) = self.seats.get(&id) else { return };
        let Some(queues) = self.peers.get_mut(&seat.peer) else { return };
        let queue = match (seat.proven, seat.working, seat.waiting) {
            (_, 1.., _) => return,
            (false, ..) => &mut queues.unproven,
            (true, _, 1..) => &mut queues.waiting,
            (true, ..) => &mut queues.idle,
        };
        if there {
            queue.insert((seat.since, id));
        } else {
            queue.remove(&(seat.since, id));
        }
    }

    fn count(&mut self, peer: Peer, change: impl FnOnce(usize) -> usize) {
        let queues = self.peers.entry(peer).or_default();
        self.crowds.remove(&(queues.count, peer));
        queues.count = change(queues.count);
        if queues.count == 0 {
            self.peers.remove(&peer);
        } else {
            self.crowds.insert((queues.count, peer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn peer(number: u8) -> Peer {
        Peer::of(std::net::IpAddr::from([10, 0, 0, number]))
    }

    fn enter(seats: &mut Seats, number: u8, now: Instant) -> u64 {
        seats.enter(peer(number), now).expect("a place").0.id
    }

    /// A request that is answered with success and taken.
    fn proves(seats: &mut Seats, id: u64, now: Instant) {
        seats.begins(id, now);
        seats.answers(id, id, true, now);
        seats.ends(id, id, false, now);
    }

    #[test]
    fn whoever_has_most_connections_makes_room() {
        let (now, mut seats) = (Instant::now(), Seats::new(5));
        let quiet = enter(&mut seats, 1, now);
        let many: Vec<u64> = (0..4).map(|_| enter(&mut seats, 2, now)).collect();
        // The oldest of them; and again, whoever comes.
        for (comes, goes) in [(3, many[0]), (2, many[1])] {
            enter(&mut seats, comes, now);
            assert!(!seats.seats.contains_key(&goes) && seats.seats.contains_key(&quiet), "{comes}");
        }
        assert_eq!(seats.len(), 5);
    }

    #[test]
    fn behind_one_address_those_go_first_that_prove_nothing() {
        let (begin, mut seats) = (Instant::now(), Seats::new(4));
        let server = enter(&mut seats, 1, begin);
        proves(&mut seats, server, begin);
        let busy = enter(&mut seats, 1, begin);
        seats.begins(busy, begin);
        let (silent, slow) = (enter(&mut seats, 1, begin), enter(&mut seats, 1, begin));
        seats.begins(slow, begin);
        seats.waits(slow, begin);
        let now = begin + YOUNG;
        let mut gone = Vec::new();
        let mut kept = vec![server, silent, slow];
        for _ in 0..3 {
            // Each newcomer proves itself, as an API server does.
            let new = enter(&mut seats, 1, now);
            proves(&mut seats, new, now);
            let goes = kept.iter().position(|id| !seats.seats.contains_key(id));
            gone.extend(goes.map(|at| kept.remove(at)));
        }
        assert_eq!(gone, [silent, slow, server]);
        assert!(seats.seats.contains_key(&busy), "what is worked on stays");
    }

    #[test]
    fn a_request_that_never_ends_makes_nobody_young_again() {
        let begin = Instant::now();
        let mut seats = Seats::new(2);
        let old = enter(&mut seats, 1, begin);
        let new = enter(&mut seats, 1, begin + YOUNG);
        seats.begins(old, begin + 2 * YOUNG);
        seats.waits(old, begin + 2 * YOUNG);
        assert!(seats.close_one(begin + 3 * YOUNG));
        assert!(!seats.seats.contains_key(&old) && seats.seats.contains_key(&new));
    }

    #[test]
    fn a_handshake_is_not_cut_off_by_the_next() {
        let (now, mut seats) = (Instant::now(), Seats::new(3));
        for _ in 0..2 {
            let id = enter(&mut seats, 1, now);
            proves(&mut seats, id, now);
        }
        let first = enter(&mut seats, 1, now);
        let second = enter(&mut seats, 1, now);
        assert!(seats.seats.contains_key(&first) && seats.seats.contains_key(&second));
    }

    #[test]
    fn while_all_are_worked_on_nobody_comes() {
        let (now, mut seats) = (Instant::now(), Seats::new(1));
        let (seated, evicted) = seats.enter(peer(1), now).unwrap();
        assert!(!evicted);
        seats.begins(seated.id, now);
        assert!(seats.enter(peer(2), now).is_none());
        seats.answers(seated.id, 1, false, now);
        assert!(seats.enter(peer(2), now).is_some_and(|(_, evicted)| evicted));
        // What is over after it was told to go changes nothing.
        seats.ends(seated.id, 1, false, now);
        seats.left(seated.id);
        assert_eq!(seats.len(), 1);
    }

    #[test]
    fn a_client_has_so_much_time_and_no_more() {
        let seconds = Duration::from_secs;
        let patience = Patience { first: seconds(10), idle: seconds(120), taking: seconds(20) };
        let (begin, mut seats) = (Instant::now(), Seats::new(9));
        let id = enter(&mut seats, 1, begin);
        let due = |seats: &Seats, after| seats.due(id, &patience, begin + seconds(after));
        assert_eq!(due(&seats, 0), Some(begin + seconds(10)));
        assert_eq!(due(&seats, 10), None);
        seats.begins(id, begin);
        assert!(due(&seats, 50).is_some(), "we work on it");
        seats.answers(id, 7, true, begin + seconds(50));
        assert_eq!(due(&seats, 60), Some(begin + seconds(70)));
        assert_eq!(due(&seats, 70), None, "nobody takes the answer");
        seats.ends(id, 7, false, begin + seconds(60));
        assert_eq!(due(&seats, 100), Some(begin + seconds(180)));
        assert_eq!(due(&seats, 180), None);
    }

    proptest! {
        /// Against a list that is searched: the same connection goes, and the books are right.
        #[test]
        fn who_goes_is_as_the_words_say(acts in prop::collection::vec((0_u8..6, 0_u8..3, 0_usize..8, 0_u64..900), 0..120)) {
            let begin = Instant::now();
            let (mut now, mut seats) = (begin, Seats::new(6));
            for (act, from, at, pause) in acts {
                now += Duration::from_millis(pause);
                let mut ids: Vec<u64> = seats.seats.keys().copied().collect();
                ids.sort_unstable();
                let id = ids.get(at % ids.len().max(1)).copied().unwrap_or_default();
                let state = seats.seats.get(&id).map(|seat| (seat.working, seat.waiting));
                match (act, state) {
                    (0 | 1, _) => {
                        let expected = (ids.len() >= 6).then(|| searched(&seats, now));
                        match (expected, seats.enter(peer(from), now)) {
                            (None, Some((_, false))) => {}
                            (Some(Some(goes)), Some((_, true))) => prop_assert!(!seats.seats.contains_key(&goes)),
                            (Some(None), None) => {}
                            (expected, is) => prop_assert!(false, "{expected:?}, {is:?}"),
                        }
                    }
                    (2, Some((0, 0))) => seats.begins(id, now),
                    (3, Some((1, 0))) => seats.waits(id, now),
                    (3, Some((0, 1))) => seats.works(id, now),
                    (4, Some((1, 0))) => seats.answers(id, id, from == 0, now),
                    (5, Some((working, waiting))) if working + waiting > 0 => {
                        seats.ends(id, id, working > 0, now);
                    }
                    (5, Some(_)) => seats.left(id),
                    _ => {}
                }
                let counted: usize = seats.crowds.iter().map(|(count, _)| count).sum();
                prop_assert_eq!(counted, seats.len());
                prop_assert!(seats.len() <= 6 && seats.peers.len() == seats.crowds.len());
                let queued: usize = seats.peers.values().map(|all| all.unproven.len() + all.idle.len() + all.waiting.len()).sum();
                let spare = seats.seats.values().filter(|seat| seat.working == 0).count();
                prop_assert_eq!(queued, spare);
            }
        }
    }

    /// The rule of the header, by looking at every connection.
    fn searched(seats: &Seats, now: Instant) -> Option<u64> {
        let crowd = |peer: Peer| seats.seats.values().filter(|seat| seat.peer == peer).count();
        let rank = |seat: &Seat| match (seat.proven, seat.waiting) {
            (false, _) if now.duration_since(seat.since) >= YOUNG => 0,
            (true, 0) => 1,
            (true, _) => 2,
            (false, _) => 3,
        };
        let can_go = seats.seats.iter().filter(|(_, seat)| seat.working == 0);
        let key = |(id, seat): &(&u64, &Seat)| {
            (std::cmp::Reverse((crowd(seat.peer), seat.peer)), rank(seat), seat.since, **id)
        };
        can_go.min_by_key(key).map(|(id, _)| *id)
    }
}
