//! The eviction of a launcher pod: the pod and its VMI as the API server has them now, the decision
//! ([`super::rules::eviction`]), and the node that the VMI must leave, which is written before the answer.
//!
//! ```text
//!  review ─► a turn ─► get the pod ─► get its VMI ─► judge ─┬─ yes, or 429 ───────────────────────────► answer
//!                 ▲                                         └─ 429 and a node ─► patch of the VMI ─┬─► answer
//!                 └───────────────────────── conflict: the VMI was changed ◄───────────────────────┘
//! ```
//!
//! **Guarantees.** If pod or VMI cannot be read, the eviction is deferred, not permitted: a protected guest
//! is not shut down. A patch has one field, and the version of the VMI that was read. A dry run patches
//! nothing.
//!
//! A review may be forged by any client that reaches the port. So that a flood of reviews of evictions does
//! not flood the API server, [`AT_ONCE`] are processed at a time and start [`PAUSE`] apart. [`WAITING`] wait.
//! Beyond that, one of the address with most reviews is deferred at once ([`super::waiting`]), since clients
//! of the Eviction API retry. Addresses take turns, however many reviews of one wait. A waiting review keeps
//! only the fields for its decision.

use super::rules::eviction::{Evicted, deferred_unread, is_dry, pod_of, vmi_of};
use super::rules::{AdmissionResponse, Request, RequestContext, judge};
use super::waiting::{Waiting, WaitingPlace};
use api::vmi::VirtualMachineInstance;
use cluster_client::error::{Error, ErrorKind, Result};
use cluster_client::{Server, Writer};
use cluster_model::objects::{Key, Kind, Pod, StoredObject as _, key};
use cluster_model::subresources::EVACUATION;
use cluster_model::webhooks::Webhook;
use serde_json::json;
use serve::transport::Peer;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Time-out of a review, from its arrival to its answer. The API server waits 10 s.
const PATIENCE: Duration = Duration::from_secs(8);
/// Minimum time between the starts of two reviews.
const PAUSE: Duration = Duration::from_millis(10);
/// Maximum number of reviews processed at the same time.
const AT_ONCE: usize = 8;
/// Maximum number of reviews that wait or are being processed: a drain evicts all pods of its node at once.
const WAITING: usize = 128;
/// Number of attempts when the VMI is changed meanwhile.
const TRIES: usize = 4;
/// Name of virt-api in managed fields.
const COMPONENT: &str = "virt-api";

/// Reviewer of evictions of launcher pods.
pub(super) struct Evictions {
    server: Writer,
    patience: Duration,
    waiting: Waiting,
    working: Semaphore,
    /// Earliest start of the next review.
    next: Mutex<Instant>,
}

impl Evictions {
    pub(super) fn new(client: kube::Client) -> Evictions {
        Evictions {
            server: Writer::new(client, COMPONENT),
            patience: PATIENCE,
            waiting: Waiting::new(WAITING),
            working: Semaphore::new(AT_ONCE),
            next: Mutex::new(Instant::now()),
        }
    }

    /// The answer to the review of an eviction.
    pub(super) async fn answer(
        &self,
        hook: &Webhook,
        request: &Request,
        context: RequestContext,
        peer: Peer,
    ) -> AdmissionResponse {
        let Some(pod) = pod_of(request) else { return judge(hook, request, &context) };
        let is_full = || deferred_unread(request, &format!("{WAITING} other evictions are being processed"));
        let Some(place) = self.waiting.enter(peer) else { return is_full() };
        let decided = tokio::time::timeout(self.patience, self.decided(hook, request, context, &pod, &place));
        let decided = tokio::select! {
            decided = decided => decided,
            () = place.wait_until_taken() => return is_full(),
        };
        match decided {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                tracing::warn!("{}: {}", hook.name, error.chain());
                deferred_unread(request, &error.chain())
            }
            Err(_) => {
                let why = format!("the API server did not answer within {} s", self.patience.as_secs());
                deferred_unread(request, &why)
            }
        }
    }

    async fn decided(
        &self,
        hook: &Webhook,
        request: &Request,
        mut context: RequestContext,
        pod: &Key,
        place: &WaitingPlace<'_>,
    ) -> Result<AdmissionResponse> {
        let _works = self.turn(place).await?;
        for _ in 0..TRIES {
            let evicted = self.look(pod).await?;
            let vmi = evicted.vmi.as_ref().map(|vmi| vmi.metadata.clone());
            context.evicted = Some(evicted);
            let answer = judge(hook, request, &context);
            let node = answer.later.as_ref().and_then(|later| later.evacuates.as_ref());
            let (Some(node), Some(vmi)) = (node.filter(|_| !is_dry(request)), vmi) else {
                return Ok(answer);
            };
            let change = json!({
                "metadata": {"resourceVersion": vmi.resource_version}, "status": {EVACUATION: node},
            });
            match self.server.patch(&key(Kind::VirtualMachineInstance, &vmi), &change, None).await {
                Ok(_) => return Ok(answer),
                Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Gone) => {}
                Err(error) => return Err(error),
            }
        }
        let what = format!("the VMI of {pod} was changed by others {TRIES} times meanwhile");
        Err(Error::new(ErrorKind::Conflict, what))
    }

    /// Waits until the review may start.
    async fn turn(&self, place: &WaitingPlace<'_>) -> Result<tokio::sync::SemaphorePermit<'_>> {
        let _first = place.wait_for_turn().await;
        let works = self.working.acquire().await;
        let works = works.map_err(|e| Error::setup("evictions are not processed any more", e))?;
        let begins = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let begins = (*next).max(Instant::now());
            *next = begins + PAUSE;
            begins
        };
        tokio::time::sleep_until(begins).await;
        Ok(works)
    }

    /// Reads the pod and its VMI. A missing one needs no protection.
    async fn look(&self, pod: &Key) -> Result<Evicted> {
        let found = self.server.find(pod).await?.map(|object| {
            let why = format!("{pod} cannot be read as a pod");
            Pod::parse(object).ok_or_else(|| Error::new(ErrorKind::Refused, why))
        });
        let pod = found.transpose()?;
        let Some(key) = pod.as_ref().and_then(vmi_of) else { return Ok(Evicted { pod, vmi: None }) };
        let vmi = self.server.find(&key).await?.map(|object| {
            // Fields that cannot be read are of no use for the decision.
            let vmi = api::wire::read_in_part::<VirtualMachineInstance>(object, &mut Vec::new());
            vmi.ok_or_else(|| Error::new(ErrorKind::Refused, format!("{key} cannot be read as a VMI")))
        });
        Ok(Evicted { pod, vmi: vmi.transpose()? })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::live::Live;
    use crate::routes::Routes;
    use cluster_model::objects::{LauncherAttempt, Plain, names};
    use kit::ApiServer;
    use serde_json::Value;
    use serve::health::Health;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const TRIGGERED: &str = "Eviction triggered evacuation of VMI \"n/web\"";

    fn hook() -> &'static Webhook {
        Webhook::find_by_path("/pod-eviction-validate").unwrap()
    }

    fn name() -> String {
        names::pod("web", "1", LauncherAttempt::Start)
    }

    /// A launcher pod and its VMI, each with its path.
    pub(crate) fn objects(strategy: &str) -> [(String, Value); 2] {
        let owner = json!({
            "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "web", "uid": "1",
            "controller": true,
        });
        let pod = json!({
            "metadata": {"namespace": "n", "name": name(), "uid": "p", "ownerReferences": [owner]},
            "spec": {"nodeName": "node1"}, "status": {"phase": "Running"},
        });
        let vmi = json!({
            "metadata": {"namespace": "n", "name": "web", "uid": "1", "resourceVersion": "5"},
            "spec": {"evictionStrategy": strategy},
            "status": {"phase": "Running", "nodeName": "node1", "activePods": {"p": "node1"}},
        });
        let path = |kind, name: &str| Key::new(kind, "n", name).path();
        [(path(Kind::Pod, &name()), pod), (path(Kind::VirtualMachineInstance, "web"), vmi)]
    }

    /// The review of the eviction of that pod.
    pub(crate) fn eviction(is_dry: bool) -> String {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
                "uid": "1", "operation": "CREATE", "namespace": "n", "name": name(), "kind": {"kind": "Eviction"},
                "dryRun": is_dry, "object": {}, "userInfo": {"username": "somebody"},
            },
        });
        review.to_string()
    }

    fn request(is_dry: bool) -> Request {
        Request::read(eviction(is_dry).as_bytes()).unwrap()
    }

    fn context() -> RequestContext {
        RequestContext::new("kubevirt", Some(&Plain::default()))
    }

    /// A server with these objects.
    fn server_with(objects: impl IntoIterator<Item = (String, Value)>) -> ApiServer {
        let server = ApiServer::default();
        objects.into_iter().for_each(|(path, object)| server.put(&path, object));
        server
    }

    fn evictions_with(objects: impl IntoIterator<Item = (String, Value)>) -> Evictions {
        Evictions::new(server_with(objects).client())
    }

    async fn message(evictions: &Evictions, is_dry: bool) -> Option<String> {
        message_to(evictions, is_dry, peer(1)).await
    }

    pub(crate) fn peer(number: u8) -> Peer {
        Peer::of([10, 0, 0, number].into())
    }

    async fn message_to(evictions: &Evictions, is_dry: bool, peer: Peer) -> Option<String> {
        let answer = evictions.answer(hook(), &request(is_dry), context(), peer).await;
        assert_eq!(answer.faults, []);
        answer.later.map(|later| later.message)
    }

    fn evacuated(server: &ApiServer) -> Value {
        let [_, (vmi, _)] = objects("");
        server.object(&vmi).unwrap()["status"][EVACUATION].clone()
    }

    #[tokio::test]
    async fn an_eviction_marks_the_vmi_once_and_a_dry_run_never() {
        let server = server_with(objects("External"));
        let evictions = Evictions::new(server.client());
        assert_eq!(message(&evictions, true).await.as_deref(), Some(TRIGGERED));
        assert_eq!(evacuated(&server), json!(null), "it was tried out");
        assert_eq!(message(&evictions, false).await.as_deref(), Some(TRIGGERED));
        assert_eq!(evacuated(&server), "node1");
        let again = message(&evictions, false).await.unwrap();
        assert_eq!(again, format!("Evacuation in progress: {TRIGGERED}"));
        for (strategy, is_let_through) in [("LiveMigrate", false), ("None", true)] {
            let server = server_with(objects(strategy));
            let evictions = Evictions::new(server.client());
            assert_eq!(message(&evictions, false).await.is_none(), is_let_through, "{strategy}");
            assert_eq!(evacuated(&server), json!(null), "{strategy}");
        }
    }

    #[tokio::test]
    async fn a_vmi_that_others_change_meanwhile_is_looked_at_again() {
        let meddled = |times: usize| {
            let server = server_with(objects("External"));
            let [_, (vmi, _)] = objects("");
            let conflict = kit::failure(409, "Conflict", "the object has been modified");
            (0..times).for_each(|_| server.answers_once(&format!("PATCH {vmi}"), 409, &*conflict));
            server
        };
        let server = meddled(TRIES - 1);
        assert_eq!(message(&Evictions::new(server.client()), false).await.as_deref(), Some(TRIGGERED));
        assert_eq!(evacuated(&server), "node1");
        let server = meddled(TRIES);
        let why = message(&Evictions::new(server.client()), false).await.unwrap();
        assert!(why.contains("changed by others"), "{why}");
        assert_eq!(evacuated(&server), json!(null));
    }

    #[tokio::test]
    async fn what_is_not_there_is_let_through_and_what_cannot_be_looked_at_is_not() {
        let [pod, vmi] = objects("LiveMigrate");
        assert_eq!(message(&evictions_with([]), false).await, None, "no pod");
        assert_eq!(message(&evictions_with([pod.clone()]), false).await, None, "no VMI");
        let broken = server_with([pod, vmi]);
        broken.fails(Some(http::StatusCode::SERVICE_UNAVAILABLE));
        let why = message(&Evictions::new(broken.client()), false).await.unwrap();
        assert!(why.contains("the API server fails in this test; try again"), "{why}");
    }

    #[tokio::test]
    async fn a_flood_of_evictions_is_no_flood_at_the_api_server() {
        let server = server_with(objects("None"));
        server.delay_by(Duration::from_millis(20));
        let evictions = Evictions::new(server.client());
        let all = futures_util::future::join_all((0..1000).map(|_| message(&evictions, false))).await;
        let through = all.iter().filter(|message| message.is_none()).count();
        assert_eq!(through, WAITING);
        let put_off = all.into_iter().flatten();
        assert!(put_off.into_iter().all(|why| why.contains("other evictions are being processed")));
        assert_eq!(server.count(), 2 * WAITING);
        assert!(server.most_at_once() <= AT_ONCE);
    }

    /// The API server does not answer in this test, so no review ends.
    #[tokio::test]
    async fn forged_reviews_do_not_put_off_those_of_the_api_server() {
        let never = Duration::from_secs(86_400);
        let server = server_with(objects("None"));
        server.delay_by(never);
        let evictions = Evictions { patience: never, ..Evictions::new(server.client()) };
        let asks = |number: u8| Box::pin(message_to(&evictions, false, peer(number)));
        let mut forged: Vec<_> = (0..WAITING).map(|at| asks(2 + u8::try_from(at % 4).unwrap())).collect();
        for review in &mut forged {
            assert!(futures_util::poll!(review).is_pending());
        }
        let mut honest: Vec<_> = (0..WAITING / 5).map(|_| asks(1)).collect();
        for review in &mut honest {
            assert!(futures_util::poll!(review).is_pending(), "it has a place");
        }
        let mut put_off = 0;
        for review in &mut forged {
            if let std::task::Poll::Ready(why) = futures_util::poll!(review) {
                assert!(why.unwrap().contains("other evictions are being processed"));
                put_off += 1;
            }
        }
        assert_eq!(put_off, honest.len());
    }

    #[tokio::test]
    async fn reviews_of_one_address_do_not_wait_for_all_that_another_sent_before() {
        const FORGED: usize = 100;
        let evictions = Evictions { patience: Duration::from_secs(600), ..evictions_with([]) };
        let (done, before) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let forged = futures_util::future::join_all((0..FORGED).map(|_| async {
            message_to(&evictions, false, peer(2)).await;
            done.fetch_add(1, Ordering::SeqCst);
        }));
        // These reviews arrive when all others have their places.
        let honest = futures_util::future::join_all((0..5).map(|_| async {
            message_to(&evictions, false, peer(1)).await;
            before.fetch_max(done.load(Ordering::SeqCst), Ordering::SeqCst);
        }));
        futures_util::future::join(forged, honest).await;
        let before = before.load(Ordering::SeqCst);
        assert!(before <= 2 * AT_ONCE + 5, "{before} of {FORGED} forged ones were answered before");
    }

    #[tokio::test]
    async fn the_api_server_that_asks_has_its_answer_before_it_gives_up() {
        let server = server_with(objects("None"));
        server.delay_by(Duration::from_secs(600));
        let evictions = Evictions { patience: Duration::from_millis(100), ..Evictions::new(server.client()) };
        let why = message(&evictions, false).await.unwrap();
        assert!(why.contains("the API server did not answer within"), "{why}");
    }

    /// Through HTTP, as the API server does.
    #[tokio::test]
    async fn an_eviction_is_answered_with_429_and_its_words() {
        let server = server_with(objects("External"));
        let live = Arc::new(Live::new("kubevirt", Arc::default()));
        let routes = Routes::new(live, Health::default(), server.client(), server.client());
        for expected in [TRIGGERED.to_owned(), format!("Evacuation in progress: {TRIGGERED}")] {
            let answer = routes.answer_to(hook(), peer(1), eviction(false), false).await;
            let said: Value = serde_json::from_slice(answer.body()).unwrap();
            let status = &said["response"]["status"];
            assert_eq!((&said["response"]["allowed"], &status["code"]), (&json!(false), &json!(429)));
            assert_eq!(status["message"], expected);
        }
    }
}
