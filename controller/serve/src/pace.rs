//! Rate limiter for requests to the API server: unlimited, or at the rate of the KubeVirt object.
//!
//! ```text
//!  request ─► of a Lease, for a node's heartbeat, or of the KubeVirt object? ─► yes: at once
//!                └► no: a line for each client: one of each in turn, in the order they came ─► the API server
//! ```
//!
//! Lease renewals, heartbeats and reads of the KubeVirt object bypass the limiter: a late renewal or
//! heartbeat would lose the Lease or the node's readiness, and without the KubeVirt object a program would
//! not learn of a new rate. All other requests are queued per client and served round-robin, so one client
//! cannot delay the others by more than one request. A client is the user on whose behalf a program sends a
//! request ([`on_behalf_of`]), or the namespace of the requested object. A request that would wait too long
//! fails at once, as if the API server had not answered, and is retried by its sender; so does one that has
//! waited too long. The rate may change while requests wait. Waiting requests are logged from time to time.

use super::bucket::Bucket;
use cluster_client::error::RateLimited;
use cluster_client::metrics;
use cluster_model::config::program::Rate;
use http::{Request, Response};
use kube::client::Body;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tower_service::Service;

/// Longest time between two requests: the lowest rate.
const RAREST: Duration = Duration::from_secs(1);
/// Longest wait of a request. It is less than senders wait for an answer.
const LONGEST: Duration = Duration::from_secs(4);
/// Error of a request that would wait too long.
const LATE: RateLimited = RateLimited(LONGEST);
/// Maximum number of waiting requests.
const MOST: usize = 10_000;
/// Time between two log lines about waiting requests.
const TOLD: Duration = Duration::from_secs(60);
/// API group of Leases, which are renewed in time at any rate.
const LEASES: &str = "coordination.k8s.io";
/// Resource of the KubeVirt object, which sets the rate.
const KUBEVIRTS: &str = "kubevirts";
/// Characters of a client's name that identify it.
const NAME: usize = 128;

tokio::task_local! {
    /// Queue of the client on whose behalf a task sends requests.
    static CLIENT: String;
}

/// Runs `does` on behalf of a user: its requests to the API server wait in the queue of that user. All
/// ServiceAccounts of a namespace share one queue, since any user who may write there can create more of
/// them.
pub async fn on_behalf_of<T>(user: &str, does: impl Future<Output = T>) -> T {
    let account = user.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':'));
    let line =
        account.map_or_else(|| format!("user {}", short(user)), |(namespace, _)| of_namespace(namespace));
    CLIENT.scope(line, does).await
}

fn of_namespace(namespace: &str) -> String {
    format!("namespace {}", short(namespace))
}

fn short(name: &str) -> String {
    name.chars().take(NAME).collect()
}

/// Rate limiter of a Kubernetes client.
#[derive(Debug, Default)]
pub struct Pace(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    rate: watch::Sender<Option<Rate>>,
    line: Mutex<Line>,
}

impl Default for Inner {
    fn default() -> Self {
        Inner { rate: watch::Sender::new(None), line: Mutex::default() }
    }
}

#[derive(Debug, Default)]
struct Line {
    /// Bucket, and the rate that it was made for.
    bucket: Option<(Bucket, Rate)>,
    /// Waiting requests by client; no queue is empty.
    waiting: BTreeMap<String, VecDeque<oneshot::Sender<()>>>,
    count: usize,
    /// Client of the last request that was let through.
    last: String,
    /// True while a task serves the queues.
    is_served: bool,
    told: Option<Instant>,
}

impl Pace {
    /// Sets the rate, also for waiting requests.
    pub fn set(&self, rate: Option<Rate>) {
        self.0.rate.send_if_modified(|now| std::mem::replace(now, rate) != rate);
    }

    /// Waits until a request of this client may be sent.
    pub async fn turn(&self, client: &str) -> Result<(), RateLimited> {
        let Some(rate) = *self.0.rate.borrow() else { return Ok(()) };
        let (turn, comes) = oneshot::channel();
        {
            let mut line = self.0.line();
            if line.count == 0 && line.take(rate, Instant::now()).is_ok() {
                return Ok(());
            }
            if line.comes_after(client, rate) > LONGEST || line.count >= MOST {
                return Err(LATE);
            }
            line.join(client, turn);
            if !line.is_served {
                line.is_served = true;
                tokio::spawn(Arc::clone(&self.0).serve());
            }
        }
        match timeout(LONGEST, comes).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(LATE),
        }
    }
}

impl Inner {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves the queues as long as requests wait.
    async fn serve(self: Arc<Self>) {
        let mut rates = self.rate.subscribe();
        loop {
            let rate = *rates.borrow_and_update();
            let then = {
                let mut line = self.line();
                let then = line.give(rate, Instant::now());
                line.is_served = then.is_some();
                then
            };
            let Some(then) = then else { return };
            tokio::select! {
                () = sleep_until(then) => {}
                // The sender is a field of `self`, so this cannot fail.
                _ = rates.changed() => {}
            }
        }
    }
}

impl Line {
    fn take(&mut self, rate: Rate, now: Instant) -> Result<(), Instant> {
        let is_another = self.bucket.as_ref().is_none_or(|(_, made_for)| *made_for != rate);
        if is_another {
            self.bucket = Some((Bucket::new(rate.burst, every(rate), now), rate));
        }
        self.bucket.as_mut().map_or(Ok(()), |(bucket, _)| bucket.take(now))
    }

    /// Time that a further request of a client would wait: behind its own requests, and as many of each other
    /// client.
    fn comes_after(&self, client: &str, rate: Rate) -> Duration {
        let own = self.waiting.get(client).map_or(0, VecDeque::len);
        let others = self.waiting.iter().filter(|(name, _)| *name != client);
        let before = others.map(|(_, queue)| queue.len().min(own + 1)).sum::<usize>() + own + 1;
        every(rate).saturating_mul(u32::try_from(before).unwrap_or(u32::MAX))
    }

    fn join(&mut self, client: &str, turn: oneshot::Sender<()>) {
        self.waiting.entry(client.to_owned()).or_default().push_back(turn);
        self.count += 1;
    }

    /// Lets through as many requests as the rate permits now. Returns the time of the next one; `None` if no
    /// request waits.
    fn give(&mut self, rate: Option<Rate>, now: Instant) -> Option<Instant> {
        loop {
            let before = self.last.clone();
            let turn = self.next()?;
            let Some(rate) = rate else {
                self.bucket = None;
                // A request that has timed out takes no turn.
                let _ = turn.1.send(());
                continue;
            };
            if turn.1.is_closed() {
                continue;
            }
            match self.take(rate, now) {
                Ok(()) => {
                    let _ = turn.1.send(());
                }
                Err(then) => {
                    // The request was not let through: it stays the first of its queue.
                    self.last = before;
                    self.waiting.entry(turn.0).or_default().push_front(turn.1);
                    self.count += 1;
                    self.tell(rate, now);
                    return Some(then);
                }
            }
        }
    }

    /// Takes the oldest request of the next client in round-robin order.
    fn next(&mut self) -> Option<(String, oneshot::Sender<()>)> {
        let behind = self.waiting.range::<String, _>((Excluded(&self.last), Unbounded)).next();
        let client = behind.or_else(|| self.waiting.iter().next())?.0.clone();
        let queue = self.waiting.get_mut(&client)?;
        let turn = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&client);
        }
        let turn = turn?;
        self.count = self.count.saturating_sub(1);
        self.last.clone_from(&client);
        Some((client, turn))
    }

    fn tell(&mut self, rate: Rate, now: Instant) {
        if self.told.is_none_or(|told| now.saturating_duration_since(told) >= TOLD) {
            self.told = Some(now);
            tracing::warn!(
                "requests to the API server are delayed: the KubeVirt object limits them to {} per second",
                rate.qps
            );
        }
    }
}

/// Time between two requests at this rate.
fn every(rate: Rate) -> Duration {
    Duration::try_from_secs_f64(1.0 / rate.qps).unwrap_or(RAREST).min(RAREST)
}

/// Limits the rate of a Kubernetes client.
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

    /// Always ready: only `call` knows which request waits.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (client, pace) = (self.client.clone(), Arc::clone(&self.pace));
        Box::pin(async move {
            if let Some(line) = line_of(request.uri().path()) {
                let whose = CLIENT.try_with(Clone::clone).unwrap_or(line);
                let began = Instant::now();
                let turn = pace.turn(&whose).await;
                let (verb, path) = (request.method().as_str(), request.uri().path());
                metrics::record_rate_limit_wait(verb, path, began.elapsed().as_secs_f64());
                turn.map_err(|late| kube::Error::Service(Box::new(late)))?;
            }
            client.send(request).await
        })
    }
}

/// Queue of a request: the namespace of the requested object. `None` for requests that bypass the limiter:
/// Lease renewals, a node's heartbeat (and the read of the node before it), and reads of the KubeVirt object.
fn line_of(path: &str) -> Option<String> {
    let steps: Vec<&str> = path.split('/').skip(1).collect();
    match steps.as_slice() {
        ["apis", LEASES, ..] => None,
        ["api", "v1", "nodes", _] => None,
        ["apis", _, _, KUBEVIRTS] | ["apis", _, _, "namespaces", _, KUBEVIRTS] => None,
        ["api", _, "namespaces", namespace, _, ..] | ["apis", _, _, "namespaces", namespace, _, ..] => {
            Some(of_namespace(namespace))
        }
        _ => Some(String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster_client::watch::follow;
    use cluster_model::objects::{Key, Kind, WatchTarget};
    use futures_util::FutureExt as _;
    use futures_util::future::join_all;
    use std::collections::BTreeSet;

    fn rate(burst: u32, qps: f64) -> Option<Rate> {
        Some(Rate { burst, qps })
    }

    /// Duration of this many requests.
    async fn turns(pace: &Pace, count: usize) -> Duration {
        let began = Instant::now();
        let all = join_all((0..count).map(|_| pace.turn("a"))).await;
        assert!(all.iter().all(Result::is_ok), "{all:?}");
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
        pace.set(rate(1, 1.0));
        pace.set(None);
        let free = timeout(Duration::from_secs(10), turns(&pace, 1000)).await;
        assert!(free.is_ok(), "nothing is said");
    }

    #[tokio::test]
    async fn who_waits_sees_another_rate() {
        for other in [rate(1, 1000.0), None] {
            let pace = Pace::default();
            pace.set(rate(1, 1.0));
            assert_eq!(pace.turn("a").await, Ok(()));
            let mut waits: Vec<_> = (0..3).map(|_| Box::pin(pace.turn("a"))).collect();
            assert!(waits.iter_mut().all(|turn| turn.as_mut().now_or_never().is_none()));
            pace.set(other);
            let began = Instant::now();
            assert_eq!(join_all(waits).await, [Ok(()); 3], "{other:?}");
            assert!(began.elapsed() < Duration::from_secs(2), "{other:?}");
        }
    }

    #[tokio::test]
    async fn a_request_whose_turn_would_come_too_late_is_refused_at_once() {
        let pace = Pace::default();
        pace.set(rate(1, 1.0));
        assert_eq!(pace.turn("a").await, Ok(()));
        let mut in_time: Vec<_> = (0..4).map(|_| Box::pin(pace.turn("a"))).collect();
        assert!(in_time.iter_mut().all(|turn| turn.as_mut().now_or_never().is_none()));
        assert_eq!(pace.turn("a").now_or_never(), Some(Err(LATE)));
        drop(in_time);
        assert!(LATE.to_string().contains("within 4 seconds"));
        // At ten in a second this many come within the limit.
        pace.set(rate(1, 10.0));
        assert_eq!(pace.turn("a").await, Ok(()));
        let all: Vec<_> = (0..100).map(|_| Box::pin(pace.turn("a"))).collect();
        let refused =
            all.into_iter().filter_map(|turn| turn.now_or_never()).filter(|now| *now == Err(LATE)).count();
        assert!(refused >= 50, "{refused}");
    }

    /// A client with many requests is one of two that are served in turn.
    #[test]
    fn turns_go_round_among_clients() {
        let (mut line, now) = (Line::default(), Instant::now());
        let mut comes = Vec::new();
        for client in ["a", "a", "a", "a", "b", "b"] {
            let (turn, come) = oneshot::channel();
            line.join(client, turn);
            comes.push((client, come));
        }
        let each = every(Rate { burst: 1, qps: 1.0 });
        assert_eq!(line.comes_after("c", Rate { burst: 1, qps: 1.0 }), each * 3, "one of each, and its own");
        assert_eq!(line.comes_after("a", Rate { burst: 1, qps: 1.0 }), each * 7);
        assert!(line.give(rate(4, 1.0), now).is_some());
        let had: Vec<&str> =
            comes.iter_mut().filter_map(|(client, come)| come.try_recv().ok().map(|()| *client)).collect();
        assert_eq!(had, ["a", "a", "b", "b"]);
        // A request that has timed out takes no turn of another.
        drop(comes);
        assert_eq!(line.give(rate(4, 1.0), now), None);
        assert_eq!((line.count, line.waiting.len()), (0, 0));
    }

    /// One request at a time, as the task serves them.
    #[test]
    fn every_client_has_its_turn_where_they_come_one_by_one() {
        let (mut line, began, once_a_second) = (Line::default(), Instant::now(), rate(1, 1.0));
        let mut comes = Vec::new();
        for client in ["a", "a", "b", "b"] {
            let (turn, come) = oneshot::channel();
            line.join(client, turn);
            comes.push((client, come));
        }
        let mut had = Vec::new();
        for second in 0..4 {
            line.give(once_a_second, began + Duration::from_secs(second));
            had.extend(comes.extract_if(.., |(_, come)| come.try_recv().is_ok()).map(|(client, _)| client));
        }
        assert_eq!(had, ["a", "b", "a", "b"]);
    }

    #[tokio::test]
    async fn service_accounts_of_a_namespace_are_one_client() {
        let line = |user: &'static str| on_behalf_of(user, async { CLIENT.with(Clone::clone) });
        assert_eq!(line("system:serviceaccount:n:a").await, line("system:serviceaccount:n:b").await);
        assert_eq!(Some(line("system:serviceaccount:n:a").await), line_of("/api/v1/namespaces/n/pods/a"));
        assert_eq!(line("jane").await, "user jane");
    }

    #[test]
    fn a_rate_of_next_to_nothing_is_once_a_second() {
        let (mut line, now) = (Line::default(), Instant::now());
        let next_to_nothing = Rate { burst: 1, qps: f64::MIN_POSITIVE };
        assert_eq!(line.take(next_to_nothing, now), Ok(()));
        assert_eq!(line.take(next_to_nothing, now), Err(now + RAREST));
        assert_eq!(line.take(Rate { burst: 1, qps: 2.0 }, now), Ok(()), "another rate, another bucket");
    }

    #[test]
    fn leases_heartbeats_and_the_kubevirt_object_wait_in_no_line() {
        assert_eq!(line_of("/apis/coordination.k8s.io/v1/namespaces/kubevirt/leases/a"), None);
        assert_eq!(line_of("/api/v1/nodes/a"), None);
        assert_eq!(line_of("/api/v1/nodes").as_deref(), Some(""), "all nodes are no heartbeat");
        assert_eq!(line_of(&Kind::KubeVirt.collection("")), None);
        assert_eq!(line_of(&Kind::KubeVirt.collection("kubevirt")), None);
        let namesake = Key::new(Kind::VirtualMachine, "n", KUBEVIRTS).path();
        assert_eq!(line_of(&namesake).as_deref(), Some("namespace n"), "a tenant's object of that name");
        assert_eq!(line_of("/api/v1/namespaces/n/pods/a").as_deref(), Some("namespace n"));
        let vmis = "/apis/kubevirt.io/v1/namespaces/n/virtualmachineinstances";
        assert_eq!(line_of(vmis).as_deref(), Some("namespace n"));
        assert_eq!(line_of("/apis/authorization.k8s.io/v1/subjectaccessreviews").as_deref(), Some(""));
    }

    #[tokio::test]
    async fn a_client_keeps_its_pace_but_for_leases() {
        let server = kit::ApiServer::default();
        let pace = Arc::new(Pace::default());
        pace.set(rate(1, 1.0));
        let client = paced(server.client(), Arc::clone(&pace));
        let ask = |path: &str| timeout(Duration::from_millis(300), sent(&client, Request::get(path)));
        assert!(ask("/api/v1/nodes").await.is_ok(), "the first has a turn");
        assert!(ask("/api/v1/nodes").await.is_err(), "the second waits");
        let lease = "/apis/coordination.k8s.io/v1/namespaces/kubevirt/leases/a";
        assert!(ask(lease).await.is_ok() && ask(lease).await.is_ok(), "leases do not");
    }

    /// A heartbeat reads the node, and then patches it: both bypass the limiter.
    #[tokio::test]
    async fn a_heartbeat_is_sent_at_once_while_many_namespaces_wait() {
        let server = kit::ApiServer::default();
        let pace = Arc::new(Pace::default());
        pace.set(rate(1, 5.0));
        let client = paced(server.client(), Arc::clone(&pace));
        let mut others = tokio::task::JoinSet::new();
        for number in 0..30 {
            let (client, pods) = (client.clone(), format!("/api/v1/namespaces/n{number}/pods/a"));
            others.spawn(async move { sent(&client, Request::get(pods)).await });
        }
        let wait = async {
            while pace.0.line().count < 15 {
                tokio::task::yield_now().await;
            }
        };
        assert!(timeout(Duration::from_secs(3), wait).await.is_ok(), "they wait");
        for request in [Request::get("/api/v1/nodes/a"), Request::patch("/api/v1/nodes/a")] {
            let beat = timeout(Duration::from_millis(300), sent(&client, request)).await;
            assert!(matches!(beat, Ok(true)), "it waits for no turn");
        }
        assert!(pace.0.line().count > 10, "others wait still");
    }

    /// A watch that fails in the limiter is retried from its last version, without a new list.
    #[tokio::test]
    async fn a_watch_whose_turn_did_not_come_takes_no_other_list() {
        let server = kit::ApiServer::default();
        server.delay_by(Duration::from_millis(300));
        let pace = Arc::new(Pace::default());
        pace.set(rate(1, 1.0));
        let client = paced(server.client(), Arc::clone(&pace));
        let (to, mut seen) = tokio::sync::mpsc::channel(1);
        let follows = tokio::spawn(follow(client, WatchTarget::all(Kind::Pod, None), to));
        let asked = |verb: &'static str| BTreeSet::from([(Kind::Pod, None, verb)]);
        server.until_used(&asked("list")).await;
        let mut others = ["a", "b", "c", "d"].map(|client| Box::pin(pace.turn(client)));
        assert!(others.iter_mut().all(|turn| turn.as_mut().now_or_never().is_none()), "the line is full");
        assert!(seen.recv().await.is_some());
        let watch = asked("watch");
        let late = timeout(Duration::from_millis(200), server.until_used(&watch)).await;
        assert!(late.is_err(), "its turn would come too late");
        pace.set(None);
        server.until_used(&watch).await;
        assert_eq!(server.count(), 2, "one list, and one watch");
        follows.abort();
    }

    /// True if the request was sent, whatever the answer.
    async fn sent(client: &kube::Client, request: http::request::Builder) -> bool {
        let answer = client.request_text(request.body(Vec::new()).unwrap()).await;
        !matches!(answer, Err(kube::Error::Service(_)))
    }
}
