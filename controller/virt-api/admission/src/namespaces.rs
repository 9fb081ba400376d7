//! Fair sharing between the namespaces of one client address: places, and turns.
//!
//! ```text
//!  address ─┬─ namespace a: a a a a a a   at most as many as the address has free places
//!           └─ namespace b: b             one review of each namespace waits in the line of the address
//! ```
//!
//! **Guarantees.** However many namespaces fill the places of an address, one place is left for a further
//! namespace: if N of them take all they can, each has one part of N + 1, and that many are free. A review
//! waits for one of each other namespace, and for earlier ones of its own.
//! **Caveats.** A forged review may name any namespace. It counts for the address that it comes from, and
//! takes nothing from other addresses ([`crate::waiting`] shares between addresses).

use serve::transport::Peer;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Mutex as Line, MutexGuard as First};

/// A namespace, for one client address.
type Of = (Peer, String);

/// The namespaces that have places, by address.
pub(super) struct Namespaces {
    /// Number of places of an address.
    most: usize,
    taken: Mutex<BTreeMap<Of, NamespaceUse>>,
}

#[derive(Default)]
struct NamespaceUse {
    count: usize,
    /// The line shared by the reviews of this namespace.
    line: Arc<Line<()>>,
}

/// A place of a namespace, released on drop.
pub(super) struct Share<'n> {
    all: &'n Namespaces,
    of: Of,
    line: Arc<Line<()>>,
}

impl Namespaces {
    pub(super) fn new(most: usize) -> Namespaces {
        Namespaces { most, taken: Mutex::default() }
    }

    /// Takes a place if the address has more free ones than this namespace has taken.
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

    fn taken(&self) -> MutexGuard<'_, BTreeMap<Of, NamespaceUse>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share<'_> {
    /// Waits until this review is the first of its namespace, which it stays until the guard is dropped.
    pub(super) async fn wait_for_turn(&self) -> First<'_, ()> {
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
