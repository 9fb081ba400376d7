//! Open connections, and the choice of the one to close when there are too many.
//!
//! ```text
//!  accepted ─► unproven ──── a request answered with success ────► idle ◄──┐
//!                 │                                                 │      │
//!                 └──────────── a request ──────────► waiting ─► working ──┘
//!                                                     (for the client)
//! ```
//!
//! No address has a limit of its own: behind a Service, a proxy or konnectivity, all API servers may share
//! one address. An address may have every connection while no other address needs one. When there is one too
//! many, a connection is closed:
//!
//! 1. of the address that has the most connections,
//! 2. in it the oldest unproven one (no handshake, no request, a request that never ends) that is older than
//!    [`YOUNG`]; else the one that has been idle longest; else one that waits for its client; else a young one;
//! 3. never one that works on a request, and never the new one while another can be closed.
//!
//! So a client that floods the server closes its own connections first, and an API server behind the same
//! address keeps the connection that it uses. An idle connection carries no request when it is closed: the
//! client connects again.
//!
//! No socket and no clock: callers pass the time.

use super::Peer;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Age from which a new connection counts as unproven in the choice above.
const YOUNG: Duration = Duration::from_secs(1);

/// Time limits of a client.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// From the start of a connection until its first request.
    pub first: Duration,
    /// Between two requests of a connection. An API server closes a connection that was unused for 90 s. It
    /// must close first: a request that is sent while the server closes is lost.
    pub idle: Duration,
    /// Until the client has read an answer.
    pub taking: Duration,
}

#[derive(Debug)]
pub(super) struct Connections {
    most: usize,
    next: u64,
    connections: HashMap<u64, Connection>,
    peers: HashMap<Peer, Queues>,
    /// Number of connections of each address.
    crowds: BTreeSet<(usize, Peer)>,
}

#[derive(Debug)]
struct Connection {
    peer: Peer,
    /// Time of the accept; for a proven connection, start of its idle or waiting time.
    since: Instant,
    /// True once a request was answered with success.
    proven: bool,
    /// Requests that wait for the client.
    waiting: usize,
    /// Requests that are being worked on.
    working: usize,
    /// Answers that the client is reading, and the start of each.
    taking: Vec<(u64, Instant)>,
    leave: Arc<Notify>,
}

/// Connections of one address, and those of them that may be closed, by state and age.
#[derive(Debug, Default)]
struct Queues {
    count: usize,
    unproven: BTreeSet<(Instant, u64)>,
    idle: BTreeSet<(Instant, u64)>,
    waiting: BTreeSet<(Instant, u64)>,
}

/// A connection that was admitted.
#[derive(Clone, Debug)]
pub(super) struct Admitted {
    pub(super) id: u64,
    /// Notified when the connection must close.
    pub(super) leave: Arc<Notify>,
}

impl Connections {
    pub(super) fn new(most: usize) -> Connections {
        Connections {
            most,
            next: 0,
            connections: HashMap::new(),
            peers: HashMap::new(),
            crowds: BTreeSet::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }

    /// Admits a new connection. The flag is true if another was closed for it. `None` if all others are
    /// working.
    pub(super) fn enter(&mut self, peer: Peer, now: Instant) -> Option<(Admitted, bool)> {
        let full = self.connections.len() >= self.most;
        if full && !self.close_one(now) {
            return None;
        }
        self.next += 1;
        let (id, leave) = (self.next, Arc::new(Notify::new()));
        let connection = Connection {
            peer,
            since: now,
            proven: false,
            waiting: 0,
            working: 0,
            taking: Vec::new(),
            leave: Arc::clone(&leave),
        };
        self.connections.insert(id, connection);
        self.count(peer, |count| count + 1);
        self.queue(id, true);
        Some((Admitted { id, leave }, full))
    }

    /// Removes a connection that has ended, or was told to.
    pub(super) fn left(&mut self, id: u64) {
        self.queue(id, false);
        if let Some(connection) = self.connections.remove(&id) {
            self.count(connection.peer, |count| count - 1);
        }
    }

    /// Closes the connection that is least needed. Returns false if all of them are needed.
    pub(super) fn close_one(&mut self, now: Instant) -> bool {
        let Some(id) = self.spare(now) else { return false };
        if let Some(connection) = self.connections.get(&id) {
            connection.leave.notify_one();
        }
        self.left(id);
        true
    }

    /// Begins work on a request.
    pub(super) fn begins(&mut self, id: u64, now: Instant) {
        self.change(id, now, |connection| connection.working += 1);
    }

    /// The request waits for its body.
    pub(super) fn mark_waiting(&mut self, id: u64, now: Instant) {
        self.change(id, now, |connection| {
            connection.working = connection.working.saturating_sub(1);
            connection.waiting += 1;
        });
    }

    /// The request's body has come, or will not come.
    pub(super) fn works(&mut self, id: u64, now: Instant) {
        self.change(id, now, |connection| {
            connection.working += 1;
            connection.waiting = connection.waiting.saturating_sub(1);
        });
    }

    /// The request is answered, and the answer waits for the client.
    pub(super) fn answers(&mut self, id: u64, request: u64, success: bool, now: Instant) {
        self.change(id, now, |connection| {
            connection.working = connection.working.saturating_sub(1);
            connection.waiting += 1;
            connection.proven |= success;
            connection.taking.push((request, now));
        });
    }

    /// The request is over. `works`: it was still being worked on.
    pub(super) fn end_request(&mut self, id: u64, request: u64, works: bool, now: Instant) {
        self.change(id, now, |connection| {
            let count = if works { &mut connection.working } else { &mut connection.waiting };
            *count = count.saturating_sub(1);
            connection.taking.retain(|(other, _)| *other != request);
        });
    }

    /// Time of the next check of the client's time limits; `None` if the client has exceeded one.
    pub(super) fn due(&self, id: u64, patience: &Patience, now: Instant) -> Option<Instant> {
        // A connection that was told to close needs no second notice.
        let Some(connection) = self.connections.get(&id) else { return Some(now + patience.idle) };
        let due = match connection.taking.iter().map(|(_, since)| *since).min() {
            Some(since) => since + patience.taking,
            None if connection.working + connection.waiting > 0 => return Some(now + patience.taking),
            None if connection.proven => connection.since + patience.idle,
            None => connection.since + patience.first,
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

    fn change(&mut self, id: u64, now: Instant, change: impl FnOnce(&mut Connection)) {
        self.queue(id, false);
        if let Some(connection) = self.connections.get_mut(&id) {
            change(connection);
            // The age of an unproven connection is kept, so that a request that never ends does not make it
            // young again.
            if connection.proven {
                connection.since = now;
            }
        }
        self.queue(id, true);
    }

    /// Adds a connection to the queue of its state, or removes it from there.
    fn queue(&mut self, id: u64, there: bool) {
        let Some(connection) = self.connections.get(&id) else { return };
        let Some(queues) = self.peers.get_mut(&connection.peer) else { return };
        let queue = match (connection.proven, connection.working, connection.waiting) {
            (_, 1.., _) => return,
            (false, ..) => &mut queues.unproven,
            (true, _, 1..) => &mut queues.waiting,
            (true, ..) => &mut queues.idle,
        };
        if there {
            queue.insert((connection.since, id));
        } else {
            queue.remove(&(connection.since, id));
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

    fn enter(connections: &mut Connections, number: u8, now: Instant) -> u64 {
        connections.enter(peer(number), now).expect("a place").0.id
    }

    /// A request that is answered with success and read.
    fn proves(connections: &mut Connections, id: u64, now: Instant) {
        connections.begins(id, now);
        connections.answers(id, id, true, now);
        connections.end_request(id, id, false, now);
    }

    #[test]
    fn whoever_has_most_connections_makes_room() {
        let (now, mut connections) = (Instant::now(), Connections::new(5));
        let quiet = enter(&mut connections, 1, now);
        let many: Vec<u64> = (0..4).map(|_| enter(&mut connections, 2, now)).collect();
        // The oldest of them, whichever address the new one has.
        for (comes, goes) in [(3, many[0]), (2, many[1])] {
            enter(&mut connections, comes, now);
            assert!(
                !connections.connections.contains_key(&goes) && connections.connections.contains_key(&quiet),
                "{comes}"
            );
        }
        assert_eq!(connections.len(), 5);
    }

    #[test]
    fn behind_one_address_those_go_first_that_prove_nothing() {
        let (begin, mut connections) = (Instant::now(), Connections::new(4));
        let server = enter(&mut connections, 1, begin);
        proves(&mut connections, server, begin);
        let busy = enter(&mut connections, 1, begin);
        connections.begins(busy, begin);
        let (silent, slow) = (enter(&mut connections, 1, begin), enter(&mut connections, 1, begin));
        connections.begins(slow, begin);
        connections.mark_waiting(slow, begin);
        let now = begin + YOUNG;
        let mut gone = Vec::new();
        let mut kept = vec![server, silent, slow];
        for _ in 0..3 {
            // Each new one proves itself, as an API server does.
            let new = enter(&mut connections, 1, now);
            proves(&mut connections, new, now);
            let goes = kept.iter().position(|id| !connections.connections.contains_key(id));
            gone.extend(goes.map(|at| kept.remove(at)));
        }
        assert_eq!(gone, [silent, slow, server]);
        assert!(connections.connections.contains_key(&busy), "what is worked on stays");
    }

    #[test]
    fn a_request_that_never_ends_makes_nobody_young_again() {
        let begin = Instant::now();
        let mut connections = Connections::new(2);
        let old = enter(&mut connections, 1, begin);
        let new = enter(&mut connections, 1, begin + YOUNG);
        connections.begins(old, begin + 2 * YOUNG);
        connections.mark_waiting(old, begin + 2 * YOUNG);
        assert!(connections.close_one(begin + 3 * YOUNG));
        assert!(!connections.connections.contains_key(&old) && connections.connections.contains_key(&new));
    }

    #[test]
    fn a_handshake_is_not_cut_off_by_the_next() {
        let (now, mut connections) = (Instant::now(), Connections::new(3));
        for _ in 0..2 {
            let id = enter(&mut connections, 1, now);
            proves(&mut connections, id, now);
        }
        let first = enter(&mut connections, 1, now);
        let second = enter(&mut connections, 1, now);
        assert!(
            connections.connections.contains_key(&first) && connections.connections.contains_key(&second)
        );
    }

    #[test]
    fn while_all_are_worked_on_nobody_comes() {
        let (now, mut connections) = (Instant::now(), Connections::new(1));
        let (admitted, evicted) = connections.enter(peer(1), now).unwrap();
        assert!(!evicted);
        connections.begins(admitted.id, now);
        assert!(connections.enter(peer(2), now).is_none());
        connections.answers(admitted.id, 1, false, now);
        assert!(connections.enter(peer(2), now).is_some_and(|(_, evicted)| evicted));
        // Events after the notice to close change nothing.
        connections.end_request(admitted.id, 1, false, now);
        connections.left(admitted.id);
        assert_eq!(connections.len(), 1);
    }

    #[test]
    fn a_client_has_so_much_time_and_no_more() {
        let seconds = Duration::from_secs;
        let patience = Patience { first: seconds(10), idle: seconds(120), taking: seconds(20) };
        let (begin, mut connections) = (Instant::now(), Connections::new(9));
        let id = enter(&mut connections, 1, begin);
        let due = |connections: &Connections, after| connections.due(id, &patience, begin + seconds(after));
        assert_eq!(due(&connections, 0), Some(begin + seconds(10)));
        assert_eq!(due(&connections, 10), None);
        connections.begins(id, begin);
        assert!(due(&connections, 50).is_some(), "we work on it");
        connections.answers(id, 7, true, begin + seconds(50));
        assert_eq!(due(&connections, 60), Some(begin + seconds(70)));
        assert_eq!(due(&connections, 70), None, "nobody takes the answer");
        connections.end_request(id, 7, false, begin + seconds(60));
        assert_eq!(due(&connections, 100), Some(begin + seconds(180)));
        assert_eq!(due(&connections, 180), None);
    }

    proptest! {
        /// Compares the choice with a linear search, and the counters with the list.
        #[test]
        fn who_goes_is_as_the_words_say(acts in prop::collection::vec((0_u8..6, 0_u8..3, 0_usize..8, 0_u64..900), 0..120)) {
            let begin = Instant::now();
            let (mut now, mut connections) = (begin, Connections::new(6));
            for (act, from, at, pause) in acts {
                now += Duration::from_millis(pause);
                let mut ids: Vec<u64> = connections.connections.keys().copied().collect();
                ids.sort_unstable();
                let id = ids.get(at % ids.len().max(1)).copied().unwrap_or_default();
                let state = connections.connections.get(&id).map(|connection| (connection.working, connection.waiting));
                match (act, state) {
                    (0 | 1, _) => {
                        let expected = (ids.len() >= 6).then(|| searched(&connections, now));
                        match (expected, connections.enter(peer(from), now)) {
                            (None, Some((_, false))) => {}
                            (Some(Some(goes)), Some((_, true))) => prop_assert!(!connections.connections.contains_key(&goes)),
                            (Some(None), None) => {}
                            (expected, is) => prop_assert!(false, "{expected:?}, {is:?}"),
                        }
                    }
                    (2, Some((0, 0))) => connections.begins(id, now),
                    (3, Some((1, 0))) => connections.mark_waiting(id, now),
                    (3, Some((0, 1))) => connections.works(id, now),
                    (4, Some((1, 0))) => connections.answers(id, id, from == 0, now),
                    (5, Some((working, waiting))) if working + waiting > 0 => {
                        connections.end_request(id, id, working > 0, now);
                    }
                    (5, Some(_)) => connections.left(id),
                    _ => {}
                }
                let counted: usize = connections.crowds.iter().map(|(count, _)| count).sum();
                prop_assert_eq!(counted, connections.len());
                prop_assert!(connections.len() <= 6 && connections.peers.len() == connections.crowds.len());
                let queued: usize = connections.peers.values().map(|all| all.unproven.len() + all.idle.len() + all.waiting.len()).sum();
                let spare = connections.connections.values().filter(|connection| connection.working == 0).count();
                prop_assert_eq!(queued, spare);
            }
        }
    }

    /// The rule of the module's header, by a search over all connections.
    fn searched(connections: &Connections, now: Instant) -> Option<u64> {
        let crowd = |peer: Peer| {
            connections.connections.values().filter(|connection| connection.peer == peer).count()
        };
        let rank = |connection: &Connection| match (connection.proven, connection.waiting) {
            (false, _) if now.duration_since(connection.since) >= YOUNG => 0,
            (true, 0) => 1,
            (true, _) => 2,
            (false, _) => 3,
        };
        let can_go = connections.connections.iter().filter(|(_, connection)| connection.working == 0);
        let key = |(id, connection): &(&u64, &Connection)| {
            (
                std::cmp::Reverse((crowd(connection.peer), connection.peer)),
                rank(connection),
                connection.since,
                **id,
            )
        };
        can_go.min_by_key(key).map(|(id, _)| *id)
    }
}
