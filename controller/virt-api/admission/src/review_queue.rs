//! Queue of reviews that need requests to the API server before they are answered.
//!
//! ```text
//!  review ─► a place ([`crate::namespaces`], [`crate::waiting`]) ─► a turn ─► its requests ─► answer
//!              └─ none: refused at once         at most [`AT_ONCE`] ──┘
//! ```
//!
//! A review may be forged by any client that reaches the port. So that a flood of reviews does not flood the
//! API server, [`AT_ONCE`] are processed at a time and [`WAITING`] wait. Beyond that, one of the address with
//! most reviews is refused at once. Reviews of all users come from the API server's address: therefore the
//! namespaces of an address share its places, and take turns.

use super::namespaces::{Namespaces, Share};
use super::waiting::{Waiting, WaitingPlace};
use cluster_client::error::{Error, ErrorKind, Result};
use serve::transport::Peer;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Time-out of a review, from its arrival to its answer. The API server waits 10 s.
const PATIENCE: Duration = Duration::from_secs(8);
/// Maximum number of reviews processed at the same time.
pub(super) const AT_ONCE: usize = 8;
/// Maximum number of reviews that wait or are being processed.
pub(super) const WAITING: usize = 128;

/// The reviews that wait, and those whose requests are being made.
pub(super) struct ReviewQueue {
    patience: Duration,
    waiting: Waiting,
    namespaces: Namespaces,
    working: Semaphore,
}

impl ReviewQueue {
    pub(super) fn new() -> ReviewQueue {
        ReviewQueue {
            patience: PATIENCE,
            waiting: Waiting::new(WAITING),
            namespaces: Namespaces::new(WAITING),
            working: Semaphore::new(AT_ONCE),
        }
    }

    /// The result of `work`, which begins when it is its turn. `doing` describes it in errors. `work` should be
    /// on the heap: the future of this function holds it several times.
    pub(super) async fn run<T>(
        &self,
        peer: Peer,
        namespace: &str,
        doing: &str,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let refused = |why: String| {
            Err(Error::new(ErrorKind::Unreachable, format!("cannot {doing}: {why}; try again")))
        };
        let is_full = || refused(format!("{WAITING} other reviews wait for the API server"));
        let Some(share) = self.namespaces.enter(peer, namespace) else {
            return refused(format!(
                "too many other reviews of the namespace {namespace} wait for the API server"
            ));
        };
        let Some(place) = self.waiting.enter(peer) else { return is_full() };
        let in_turn = async {
            let _works = self.turn(&share, &place).await?;
            work.await
        };
        tokio::select! {
            done = tokio::time::timeout(self.patience, in_turn) => done.unwrap_or_else(|_| {
                refused(format!("the API server did not answer within {} s", self.patience.as_secs()))
            }),
            () = place.wait_until_taken() => is_full(),
        }
    }

    /// Waits until the review may start. The next one starts without waiting for the end of this one.
    async fn turn(&self, share: &Share<'_>, place: &WaitingPlace<'_>) -> Result<SemaphorePermit<'_>> {
        let _of_namespace = share.wait_for_turn().await;
        let _of_address = place.wait_for_turn().await;
        let works = self.working.acquire().await;
        works.map_err(|e| Error::setup("reviews are not processed any more", e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evictions::tests::peer;

    #[tokio::test]
    async fn a_review_whose_requests_take_too_long_is_refused_and_says_what_it_did() {
        let queue = ReviewQueue { patience: Duration::from_millis(50), ..ReviewQueue::new() };
        let never = std::future::pending::<Result<()>>();
        let error = queue.run(peer(1), "n", "read the VMI", never).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot read the VMI: the API server did not answer within 0 s; try again"
        );
        assert_eq!(queue.run(peer(1), "n", "read the VMI", async { Ok(7) }).await.unwrap(), 7);
    }
}
