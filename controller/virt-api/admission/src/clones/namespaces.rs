//! How the namespaces of one address share its places, and how they take turns.
//!
//! ```text
//!  address ─┬─ namespace a: a a a a a a   no more of a wait than places of the address are free
//!           └─ namespace b: b             of each namespace one stands in the line of the address
//! ```
//!
//! **Guarantees.** However many namespaces fill the places of an address, one place is left for a namespace that has none: of N that
//! take all they get, each has one part of N + 1, and that many are free. A review waits for one of each other namespace, and for
//! those of its own that came before it.
//! **Caveats.** Whoever makes reviews up makes namespaces up, too. These are namespaces of the address that they come from, and take
//! nothing from those of another one ([`crate::waiting`] shares between addresses).

use serve::transport::Peer;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Mutex as Line, MutexGuard as First};

/// A namespace, as this address asks about it.
type Of = (Peer, String);

/// The namespaces that have places.
pub(super) struct Namespaces {
    /// The places of an address.
    most: usize,
    taken: Mutex<BTreeMap<Of, Taken>>,
}

#[derive(Default)]
struct Taken {
    count: usize,
    /// That of all of this namespace.
    line: Arc<Line<()>>,
}

/// One place of a namespace; it is free again when this goes.
pub(super) struct Share<'n> {
    all: &'n Namespaces,
    of: Of,
    line: Arc<Line<()>>,
}

impl Namespaces {
    pub(super) fn new(most: usize) -> Namespaces {
        Namespaces { most, taken: Mutex::default() }
    }

    /// A place, where the address has more free ones than this namespace has taken.
    pub(super) fn enter(&self, peer: Peer, namespace: &str) -> Option<Share<'_>> {
        let mut all = self.taken();
        let of_peer = all.iter().filter(|((other, _), _)| *other == peer);
        let free = self.most.saturating_sub(of_peer.map(|(_, taken)| taken.count).sum());
        let of = (peer, namespace.to_owned());
        if all.get(&of).map_or(0, |taken| taken.count) >= free {
            return None;
        }
        let taken = all.entry(of.clone()).or_default();
        taken.count = taken.count.saturating_add(1);
        let line = Arc::clone(&taken.line);
        Some(Share { all: self, of, line })
    }

    fn taken(&self) -> MutexGuard<'_, BTreeMap<Of, Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share<'_> {
    /// Waits until this one is the first of its namespace, and is that until the value goes.
    pub(super) async fn is_first(&self) -> First<'_, ()> {
        self.line.lock().await
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        let mut all = self.all.taken();
        let Some(taken) = all.get_mut(&self.of) else { return };
        taken.count = taken.count.saturating_sub(1);
        if taken.count == 0 {
            all.remove(&self.of);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evictions::tests::peer;

    #[test]
    fn however_many_namespaces_wait_the_next_one_has_a_place() {
        const MOST: usize = 24;
        let all = Namespaces::new(MOST);
        let mut shares = Vec::new();
        for namespace in ["a", "b", "c"] {
            let before = shares.len();
            while let Some(share) = all.enter(peer(1), namespace) {
                shares.push(share);
            }
            assert!(shares.len() > before, "{namespace} has places");
        }
        assert!(shares.len() < MOST, "{}", shares.len());
        assert!(all.enter(peer(2), "a").is_some(), "another address has its own");
        drop(shares);
        assert!(all.taken().is_empty());
    }
}
