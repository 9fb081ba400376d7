//! How often a program asks the API server: as often as it has to, or at the rate that the KubeVirt object says.
//!
//! ```text
//!  request ─► of a Lease? ─► yes: at once        (who cannot renew it in time loses it, and all begins anew)
//!                └► no: a turn in the line, in the order they came ─► the API server
//! ```
//!
//! A rate is changed while requests wait. One that waits too long fails as if the API server had not answered, and is tried
//! again by whoever asked; a line tells, once in a while, that requests wait.

use super::bucket::Bucket;
use http::{Request, Response};
use kube::client::Body;
use kubernetes::config::program::Rate;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep_until};
use tower_service::Service;

/// The longest time between two requests: a rate that is next to nothing.
const RAREST: Duration = Duration::from_secs(60);
/// A request that waits so long is worth a line; one such line in so long.
const TOLD: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// The group of leases, which are renewed in time, whatever else is asked.
const LEASES: &str = "coordination.k8s.io";

/// The pace of a client.
#[derive(Debug)]
pub struct Pace {
    rate: watch::Sender<Option<Rate>>,
    /// The first of the line waits inside.
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    /// The bucket, and the rate that it was made for.
    bucket: Option<(Bucket, Rate)>,
    told: Option<Instant>,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { rate: watch::Sender::new(None), line: Mutex::default() }
    }
}

impl Pace {
    /// The rate from now on, for those that wait too.
    pub fn set(&self, rate: Option<Rate>) {
        self.rate.send_if_modified(|now| std::mem::replace(now, rate) != rate);
    }

    /// Waits until a request may be sent.
    pub async fn turn(&self) {
        if self.rate.borrow().is_none() {
            return;
        }
        let came = Instant::now();
        let mut rates = self.rate.subscribe();
        let mut line = self.line.lock().await;
        loop {
            let rate = *rates.borrow_and_update();
            let Some(rate) = rate else {
                line.bucket = None;
                return;
            };
            let now = Instant::now();
            if now - came >= TOLD.0 && line.told.is_none_or(|told| now - told >= TOLD.1) {
                line.told = Some(now);
                tracing::warn!(
                    "requests to the API server wait: the KubeVirt object lets {} be sent each second",
                    rate.qps
                );
            }
            match line.take(rate, now) {
                Ok(()) => return,
                Err(then) => tokio::select! {
                    () = sleep_until(then) => {}
                    // The sender is here: it does not go.
                    _ = rates.changed() => {}
                },
            }
        }
    }
}

impl Line {
    fn take(&mut self, rate: Rate, now: Instant) -> Result<(), Instant> {
        let is_another = self.bucket.as_ref().is_none_or(|(_, made_for)| *made_for != rate);
        if is_another {
            let every = Duration::try_from_secs_f64(1.0 / rate.qps).unwrap_or(RAREST).min(RAREST);
            self.bucket = Some((Bucket::new(rate.burst, every, now), rate));
        }
        self.bucket.as_mut().map_or(Ok(()), |(bucket, _)| bucket.take(now))
    }
}

/// A client that keeps a pace.
pub fn paced(client: kube::Client, pace: Arc<Pace>) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    kube::Client::new(Paced { client, pace }, namespace)
}

struct Paced {
    client: kube::Client,
    pace: Arc<Pace>,
}

impl Service<Request<Body>> for Paced {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, kube::Error>> + Send>>;

    /// It waits where it knows which request it is.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (client, pace) = (self.client.clone(), Arc::clone(&self.pace));
        Box::pin(async move {
            if request.uri().path().split('/').nth(2) != Some(LEASES) {
                pace.turn().await;
            }
            client.send(request).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;
    use futures_util::future::join_all;

    fn rate(burst: u32, qps: f64) -> Option<Rate> {
        Some(Rate { burst, qps })
    }

    /// How long so many turns take.
    async fn turns(pace: &Pace, count: usize) -> Duration {
        let began = Instant::now();
        join_all((0..count).map(|_| pace.turn())).await;
        began.elapsed()
    }

    #[tokio::test]
    async fn requests_come_at_the_rate_that_is_said() {
        let pace = Pace::default();
        pace.set(rate(3, 20.0));
        let took = turns(&pace, 7).await;
        assert!(
            took >= Duration::from_millis(190),
            "three at once, and four in a fifth of a second: {took:?}"
        );
        pace.set(rate(1, 0.000_001));
        pace.set(None);
        let free = tokio::time::timeout(Duration::from_secs(10), turns(&pace, 1000)).await;
        assert!(free.is_ok(), "nothing is said");
    }

    #[tokio::test]
    async fn who_waits_sees_another_rate() {
        for other in [rate(1, 1000.0), None] {
            let pace = Pace::default();
            pace.set(rate(1, 0.000_001));
            pace.turn().await;
            let mut waits = Box::pin(pace.turn());
            assert!(waits.as_mut().now_or_never().is_none());
            pace.set(other);
            assert!(tokio::time::timeout(Duration::from_secs(10), waits).await.is_ok(), "{other:?}");
        }
    }

    #[test]
    fn a_rate_of_next_to_nothing_is_once_a_minute() {
        let (mut line, now) = (Line::default(), Instant::now());
        let next_to_nothing = Rate { burst: 1, qps: f64::MIN_POSITIVE };
        assert_eq!(line.take(next_to_nothing, now), Ok(()));
        assert_eq!(line.take(next_to_nothing, now), Err(now + RAREST));
        assert_eq!(line.take(Rate { burst: 1, qps: 1.0 }, now), Ok(()), "another rate, another bucket");
    }

    #[tokio::test]
    async fn a_client_keeps_its_pace_but_for_leases() {
        let server = kit::Asked::begin().await;
        let pace = Arc::new(Pace::default());
        pace.set(rate(1, 0.000_001));
        let client = paced(server.client.clone(), Arc::clone(&pace));
        let ask = |path: &str| {
            let request = Request::get(path).body(Vec::new()).unwrap();
            let client = client.clone();
            let asked = async move { drop(client.request_text(request).await) };
            tokio::time::timeout(Duration::from_millis(300), asked)
        };
        assert!(ask("/api/v1/nodes/a").await.is_ok(), "the first has a turn");
        assert!(ask("/api/v1/nodes/a").await.is_err(), "the second waits");
        let lease = "/apis/coordination.k8s.io/v1/namespaces/kubevirt/leases/a";
        assert!(ask(lease).await.is_ok() && ask(lease).await.is_ok(), "leases do not");
    }
}
