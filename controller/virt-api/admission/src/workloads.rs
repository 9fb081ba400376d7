//! Remaining VMs, VMIs, pools and replica sets, listed before a KubeVirt object that blocks uninstallation is
//! deleted. For a CDI object, DataVolumes are listed.
//!
//! A review may be forged by any client that reaches the port. So that a flood of reviews of deletions
//! neither floods the API server with lists nor fills the memory with waiting reviews, the lists are made for
//! one review at a time, [`PAUSE`] apart, and a review that finds [`WAITING`] others before it is refused at
//! once: the object stays.

use cluster_client::error::{Error, ErrorKind, Result};
use cluster_client::has_any;
use cluster_model::objects::Kind;
use cluster_model::webhooks::Question;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, Semaphore};

/// Time-out of a review's wait for its turn.
const PATIENCE: Duration = Duration::from_secs(5);
/// Minimum time between two reviews.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum number of waiting reviews.
const WAITING: usize = 8;
/// Kinds that block the deletion of a CDI object, with their names in messages.
const DISKS: &[Workload] = &[(Kind::DataVolume, "DataVolumes")];
/// Kinds that block the deletion of a KubeVirt object, with their names in messages.
const WORKLOADS: &[Workload] = &[
    (Kind::VirtualMachine, "Virtual Machines"),
    (Kind::VirtualMachineInstance, "Virtual Machine Instances"),
    (Kind::VirtualMachineInstanceReplicaSet, "Virtual Machine Instance Replica Sets"),
    (Kind::VirtualMachinePool, "Virtual Machine Pools"),
    // The kind's definition is deleted with the installation, and the PVC of each object with it.
    (Kind::DataVolume, "Data Volumes"),
];

type Workload = (Kind, &'static str);

/// Lists the objects that keep an installation from being removed.
pub(super) struct Workloads {
    client: kube::Client,
    waiting: Semaphore,
    last: Mutex<Option<Instant>>,
}

impl Workloads {
    pub(super) fn new(client: kube::Client) -> Workloads {
        Workloads { client, waiting: Semaphore::new(WAITING), last: Mutex::new(None) }
    }

    /// A kind with remaining objects.
    pub(super) async fn left(&self, question: Question) -> Result<Option<&'static str>> {
        let Ok(_waits) = self.waiting.try_acquire() else {
            let what = format!(
                "cannot list workloads: {WAITING} deletions of KubeVirt objects are being processed already; \
                 try again"
            );
            return Err(Error::new(ErrorKind::Unreachable, what));
        };
        let turn = tokio::time::timeout(PATIENCE, self.last.lock()).await;
        let mut last = turn.map_err(|_| {
            let what = "cannot list workloads: other reviews before this one had no answer within 5 s";
            Error::new(ErrorKind::Unreachable, what)
        })?;
        if let Some(last) = *last {
            tokio::time::sleep_until((last + PAUSE).into()).await;
        }
        *last = Some(Instant::now());
        let kinds = if question == Question::CdiRemoval { DISKS } else { WORKLOADS };
        self.list(kinds).await
    }

    async fn list(&self, kinds: &[Workload]) -> Result<Option<&'static str>> {
        for (kind, name) in kinds {
            if has_any(&self.client, *kind).await? {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::evictions::tests::peer;
    use crate::live::Live;
    use crate::routes::Routes;
    use cluster_model::webhooks::{WEBHOOKS, Webhook};
    use kit::ApiServer;
    use serde_json::json;
    use serve::health::Health;
    use std::sync::Arc;

    /// A review of the deletion of an installation that is to stay while it has workloads.
    pub(crate) fn deletion() -> String {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
                "uid": "1", "operation": "DELETE", "name": "kubevirt", "userInfo": {"username": "somebody"},
                "oldObject": {"spec": {"uninstallStrategy": "BlockUninstallIfWorkloadsExist"}},
            },
        });
        review.to_string()
    }

    #[tokio::test]
    async fn a_flood_of_deletions_is_no_flood_of_lists() {
        let server = ApiServer::default();
        let workloads = Workloads::new(server.client());
        let asked =
            futures_util::future::join_all((0..100).map(|_| workloads.left(Question::KubeVirtRemoval))).await;
        let answered = asked.iter().filter(|left| matches!(left, Ok(None))).count();
        assert_eq!(answered, WAITING);
        let refused = asked.into_iter().filter_map(Result::err);
        assert!(refused.into_iter().all(|error| error.to_string().contains("are being processed already")));
        assert_eq!(server.count(), WAITING * WORKLOADS.len());
        assert_eq!(workloads.left(Question::KubeVirtRemoval).await.unwrap(), None);
    }

    #[tokio::test]
    async fn deletions_are_looked_into_one_after_the_other_and_not_too_often() {
        let server = ApiServer::default();
        let workloads = Workloads::new(server.client());
        let all = async || {
            let began = Instant::now();
            let asked =
                futures_util::future::join_all((0..3).map(|_| workloads.left(Question::KubeVirtRemoval)))
                    .await;
            assert!(asked.iter().all(|left| matches!(left, Ok(None))), "{asked:?}");
            began.elapsed()
        };
        // The pause limits the rate if the API server is fast, …
        let time = all().await;
        assert!(time >= 2 * PAUSE, "all after {time:?}");
        // … and if it is slower than the pause, lists do not overlap.
        server.delay_by(PAUSE);
        all().await;
        assert_eq!(server.most_at_once(), 1);
    }

    /// The author of a forged review chooses its content and its path.
    #[tokio::test]
    async fn nothing_is_asked_for_but_for_the_deletion_of_what_is_to_stay() {
        let server = ApiServer::default();
        let live = Arc::new(Live::new("kubevirt", Arc::default()));
        let routes = Routes::new(live, Health::default(), server.client(), server.client());
        for hook in WEBHOOKS.iter().filter(|hook| hook.path != "/kubevirt-validate-delete") {
            routes.answer_to(hook, peer(1), deletion(), false).await;
            assert_eq!(server.count(), 0, "{}", hook.path);
        }
        let hook = Webhook::find_by_path("/kubevirt-validate-delete").unwrap();
        let goes = deletion().replace("BlockUninstallIfWorkloadsExist", "RemoveWorkloads");
        routes.answer_to(hook, peer(1), goes, false).await;
        assert_eq!(server.count(), 0);
        routes.answer_to(hook, peer(1), deletion(), false).await;
        assert_eq!(server.count(), WORKLOADS.len());
    }

    /// DataVolumes block the deletion of a CDI object, and VMs do not.
    #[tokio::test]
    async fn a_cdi_object_asks_for_data_volumes_alone() {
        let server = ApiServer::default();
        let live = Arc::new(Live::new("kubevirt", Arc::default()));
        let routes = Routes::new(live, Health::default(), server.client(), server.client());
        let hook = Webhook::find_by_path("/cdi-validate").unwrap();
        let mut review: serde_json::Value = serde_json::from_str(&deletion()).unwrap();
        review["request"]["oldObject"]["status"] = json!({"phase": "Deployed"});
        routes.answer_to(hook, peer(1), review.to_string(), false).await;
        assert_eq!(server.count(), DISKS.len());
    }

    #[tokio::test]
    async fn a_deletion_that_is_not_looked_into_is_refused_and_not_let_through() {
        let server = ApiServer::default();
        let live = Arc::new(Live::new("kubevirt", Arc::default()));
        let routes = Routes::new(live, Health::default(), server.client(), server.client());
        let hook = Webhook::find_by_path("/kubevirt-validate-delete").unwrap();
        let answers = (0..50).map(|_| routes.answer_to(hook, peer(1), deletion(), false));
        let mut allowed = 0;
        for answer in futures_util::future::join_all(answers).await {
            let said: serde_json::Value = serde_json::from_slice(answer.body()).unwrap();
            match said["response"]["allowed"].as_bool().unwrap() {
                true => allowed += 1,
                false => assert!(said.to_string().contains("are being processed already"), "{said}"),
            }
        }
        assert_eq!(allowed, WAITING);
    }
}
