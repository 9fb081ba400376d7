//! The order of an upgrade: virt-handler first, then virt-controller, then virt-api, as KubeVirt's operator has it.
//!
//! An administrator who applies newer manifests changes all components at once. A new virt-controller is not
//! ready before virt-handler is of its version on every node. Until then the Deployment keeps the old pods,
//! one of which leads. (virt-api waits in the same way for a virt-controller that is not older than itself:
//! package `admission`.) So no component meets one that is older than it has to support.
//!
//! ```text
//!  apply ─► virt-handler, node by node ─► virt-controller is ready ─► it acts, and writes status.operatorVersion ─► virt-api is ready
//! ```
//!
//! **Guarantees.** A new installation, or one of the same version, does not wait. The wait is bounded: the
//! new virt-controller goes on after [`PATIENCE`] without progress (a node that is down holds a DaemonSet
//! up), after [`MOST`] in all, and if no other virt-controller is ready.

use crate::installation;
use crate::run::ControlLoop;
use cluster_client::watch::follow;
use cluster_model::objects::{ClusterFacts, Home, Kind, Plain, Program, World, followed_by};
use jiff::Timestamp;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Longest time without progress of virt-handler.
const PATIENCE: Duration = Duration::from_secs(180);
/// Longest wait in all.
const MOST: Duration = Duration::from_secs(1800);
/// Capacity of the channel of watch events.
const WAITING: usize = 64;
/// The component that comes before.
const BEFORE: [&str; 1] = ["virt-handler"];
/// Name of virt-controller's Deployment.
const OWN: &str = "virt-controller";

/// Returns when it is virt-controller's turn.
pub(crate) async fn wait_for_turn(client: &kube::Client, namespace: &str) {
    let home = Home { namespace: namespace.to_owned(), ..Home::default() };
    let of_installation = [Kind::KubeVirt, Kind::Deployment, Kind::DaemonSet];
    let watched = followed_by(Program::Controller, &home);
    let watched: Vec<_> = watched.into_iter().filter(|which| of_installation.contains(&which.kind)).collect();
    let (to, mut seen) = mpsc::channel(WAITING);
    let mut tasks = JoinSet::new();
    for which in &watched {
        tasks.spawn(follow(client.clone(), which.clone(), to.clone()));
    }
    drop(to);
    let facts = ClusterFacts { namespace: namespace.to_owned(), ..ClusterFacts::default() };
    let mut control = ControlLoop::new(facts);
    let began = Instant::now();
    let (mut said, mut since): (Option<String>, Instant) = (None, began);
    loop {
        tokio::select! {
            event = seen.recv() => match event {
                Some(event) => control.handle_watch(event, Timestamp::now()),
                None => return,
            },
            () = sleep_until((since + PATIENCE).min(began + MOST)) => {
                tracing::warn!("virt-controller starts before virt-handler is of its version on all nodes");
                return;
            }
        }
        if !control.has_listed_all(watched.len()) {
            continue;
        }
        let Some(why) = why_wait(&control.world) else { return };
        if said.as_ref() != Some(&why) {
            tracing::info!("virt-controller waits: {why}");
            (said, since) = (Some(why), Instant::now());
        }
    }
}

/// Reason for a starting virt-controller to wait; `None` if it may go on.
fn why_wait(world: &World) -> Option<String> {
    let home = &world.facts.namespace;
    let own = world.deployments.get(home, OWN)?;
    let target = own.version()?;
    let is_ours = |object: &&Plain| object.meta.namespace.as_deref() == Some(home);
    let settings = world.kubevirts.all().find(is_ours)?;
    let observed = settings.object["status"]["observedKubeVirtVersion"].as_str().unwrap_or_default();
    // Without another ready virt-controller no replica would lead.
    if observed.is_empty() || observed == target || own.answering == 0 {
        return None;
    }
    world.daemon_sets.get(home, BEFORE[0])?;
    installation::unready_components(world, &[], &BEFORE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// An installation whose KubeVirt object has observed a version, with the pods of virt-controller that are ready, and virt-handler.
    fn world(observed: &str, ready: u64, (version, updated): (&str, u64)) -> World {
        let facts = ClusterFacts { namespace: "kubevirt".into(), ..ClusterFacts::default() };
        let mut world = World::new(facts);
        let mut put = |kind: Kind, name: &str, version: &str, status: Value| {
            let notes = json!({cluster_model::versions::VERSION: version});
            let meta =
                json!({"namespace": "kubevirt", "name": name, "annotations": notes, "resourceVersion": "1"});
            let object = json!({"metadata": meta, "spec": {"replicas": 2}, "status": status});
            world.put(kind, object, Timestamp::UNIX_EPOCH);
        };
        put(Kind::KubeVirt, "kubevirt", "", json!({"observedKubeVirtVersion": observed}));
        put(Kind::Deployment, "virt-controller", "2.0.0", json!({"replicas": 3, "readyReplicas": ready}));
        let nodes = json!({
            "desiredNumberScheduled": 2, "currentNumberScheduled": 2, "updatedNumberScheduled": updated, "numberReady": 2,
        });
        put(Kind::DaemonSet, "virt-handler", version, nodes);
        world
    }

    #[test]
    fn virt_controller_waits_in_an_upgrade_until_virt_handler_is_everywhere() {
        let why = why_wait(&world("1.0.0", 2, ("1.0.0", 2))).unwrap();
        assert_eq!(why, "virt-handler is of version 1.0.0, not 2.0.0");
        assert_eq!(why_wait(&world("1.0.0", 2, ("2.0.0", 1))).unwrap(), "virt-handler: 1 of 2 are ready");
        assert_eq!(why_wait(&world("1.0.0", 2, ("2.0.0", 2))), None, "it is everywhere");
    }

    #[test]
    fn virt_controller_waits_for_nothing_where_nobody_else_acts_or_nothing_is_replaced() {
        for (observed, ready) in [("", 2), ("2.0.0", 2), ("1.0.0", 0)] {
            assert_eq!(why_wait(&world(observed, ready, ("1.0.0", 0))), None, "{observed:?} {ready}");
        }
        assert_eq!(why_wait(&World::default()), None, "it runs outside of a cluster");
    }
}
