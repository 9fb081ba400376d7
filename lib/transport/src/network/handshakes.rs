//! Connections of clients that are not known yet, for servers that speak another protocol than HTTP.

use super::Peer;
use super::connections::{Admitted, Connections};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Open handshakes of a server, a limited number of them. One too many closes another, by the rule for
/// connections of HTTP: the oldest of the address that has most. So a flood closes its own handshakes first.
#[derive(Debug)]
pub struct Handshakes(Mutex<Connections>);

impl Handshakes {
    /// At most so many handshakes at once.
    pub fn new(most: usize) -> Arc<Handshakes> {
        Arc::new(Handshakes(Mutex::new(Connections::new(most))))
    }

    /// Admits a connection from this address. `None` if no other one can be closed for it.
    pub fn enter(self: &Arc<Handshakes>, address: IpAddr) -> Option<Handshake> {
        let (admitted, _) = self.connections().enter(Peer::of(address), Instant::now())?;
        Some(Handshake { all: Arc::clone(self), admitted })
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Place of one handshake, which is free again on drop.
#[derive(Debug)]
pub struct Handshake {
    all: Arc<Handshakes>,
    admitted: Admitted,
}

impl Handshake {
    /// Waits until another handshake needs this place: the connection must be closed.
    pub async fn evicted(&self) {
        self.admitted.leave.notified().await;
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.all.connections().left(self.admitted.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    #[tokio::test]
    async fn a_flood_of_one_address_closes_its_own_handshakes() {
        let (quiet, flood) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        let handshakes = Handshakes::new(2);
        let first = handshakes.enter(quiet).unwrap();
        let mut last = handshakes.enter(flood).unwrap();
        for _ in 0..100 {
            let next = handshakes.enter(flood).unwrap();
            assert!(last.evicted().now_or_never().is_some() && first.evicted().now_or_never().is_none());
            last = next;
        }
        drop(last);
        let second = handshakes.enter(quiet).unwrap();
        assert!(first.evicted().now_or_never().is_none() && second.evicted().now_or_never().is_none());
        // Places of handshakes that have ended are free.
        drop((first, second));
        let both = [handshakes.enter(flood).unwrap(), handshakes.enter(flood).unwrap()];
        assert!(both.iter().all(|handshake| handshake.evicted().now_or_never().is_none()));
    }
}
