//! Pods that have the launcher pod's name but were not created by virt-controller.
//!
//! An admission policy lets only virt-controller create pods of such names, but one may be older than the policy. It blocks the creation
//! of the launcher pod, which is reported as every creation that fails (FailedCreate). It also delays the deletion of a VMI, since it is
//! not known whether it uses the disks of the VMI; that is reported here (PodNameTaken).

use super::VmiReconcile;
use super::outcome::Outcome;
use api::vmi::ConditionType;
use cluster_model::conditions;
use cluster_model::objects::Pod;
use jiff::SignedDuration;

/// The reason of the condition, and of the event.
const REASON: &str = "PodNameTaken";
/// Pause until the VMI is decided on again: the watch of launcher pods does not report the end of a pod without their labels.
const LOOKS_AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// Reports which pod of another owner a deleted VMI waits for, and what would end the wait. This is written before that pod is deleted: a
/// policy refuses us the deletion of a pod without the labels of a launcher.
pub(super) fn name_conflict(input: &VmiReconcile<'_>, left: &[&Pod]) -> Outcome {
    let is_foreign = |pod: &&&Pod| input.own_pods.as_ref().is_some_and(|own| !own.contains(&pod.meta));
    let Some(foreign) = left.iter().find(is_foreign).filter(|_| input.is_deleted()) else {
        return match is_reported(input) {
            true => Outcome::default().no_condition(ConditionType::Synchronized),
            false => Outcome::default(),
        };
    };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (namespace, name) = (text(&foreign.meta.namespace), text(&foreign.meta.name));
    let message = format!(
        "pod {namespace}/{name} has the name of the launcher pod and was not created for this VMI. It may use the \
         disks of the VMI, so the VMI stays until that pod is gone. Delete it (kubectl delete pod --namespace \
         {namespace} {name}); if it stays, check its finalizers and its node"
    );
    let outcome = Outcome::default().condition(ConditionType::Synchronized, "False", REASON, &message);
    let outcome = match is_reported(input) {
        true => outcome,
        false => outcome.event(true, REASON, message),
    };
    input.now.checked_add(LOOKS_AGAIN).ok().into_iter().fold(outcome, Outcome::retry_at)
}

/// True where the condition was written before.
fn is_reported(input: &VmiReconcile<'_>) -> bool {
    let said = conditions::find(input.conditions(), &ConditionType::Synchronized);
    said.is_some_and(|said| said.reason.as_deref() == Some(REASON))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide;
    use crate::sim::controller::Controller;
    use crate::sim::{Sim, vm, vmi};
    use cluster_model::objects::{Key, Kind, LauncherAttempt, names};
    use cluster_model::plan::Step;
    use serde_json::{Value, json};

    const HELD: &str = "example.org/held";

    /// Pod of that name on a node, with a finalizer that keeps it.
    fn stranger(sim: &mut Sim, vmi: &Key, owners: &Value) -> Key {
        let uid = sim.uid(vmi);
        sim.put(
            Kind::Pod,
            json!({
                "metadata": {
                    "namespace": "n", "name": names::pod(&vmi.name, &uid, LauncherAttempt::Start), "finalizers": [HELD],
                    "ownerReferences": owners,
                },
                "spec": {"nodeName": "node1"},
            }),
        )
    }

    fn let_go(sim: &mut Sim, pod: &Key) {
        sim.change(pod, json!({"metadata": {"finalizers": []}}));
        sim.vanish(pod);
    }

    #[test]
    fn a_deleted_vmi_says_which_strangers_pod_it_waits_for() {
        let mut sim = Sim::new();
        let of = sim.put(Kind::VirtualMachine, vm("web", "Always"));
        sim.settle();
        let key = Key::new(Kind::VirtualMachineInstance, "n", "web");
        sim.boot(&key);
        let pod = sim.pod_of(&key).unwrap();
        sim.agent_says(&key, "Succeeded");
        sim.delete(&key);
        sim.pod_ends(&pod, "Succeeded", 0);
        sim.vanish(&pod);
        let strange = stranger(&mut sim, &key, &json!([]));
        sim.told.clear();
        let steps = decide(&sim.world, &key, sim.now).steps;
        assert!(
            matches!(&steps[..], [Step::Patch { .. }, Step::RecordEvent(_), Step::Delete { key, .. }] if *key == strange),
            "it is said though its deletion may be refused: {steps:?}"
        );
        sim.settle();
        let (status, reason, message) = sim.condition(&key, "Synchronized").unwrap();
        assert_eq!((status.as_str(), reason.as_str()), ("False", REASON));
        assert!(
            message.starts_with(&format!("pod n/{} has the name of the launcher pod", strange.name)),
            "{message}"
        );
        let hint = format!("(kubectl delete pod --namespace n {})", strange.name);
        assert!(message.contains(&hint), "{message}");
        assert_eq!(sim.condition(&of, "Synchronized").unwrap().2, message, "its VM says it too");
        assert_eq!(sim.told, [(REASON.to_owned(), message)], "once");
        assert!(!sim.get(&strange)["metadata"]["deletionTimestamp"].is_null());
        // Nobody may hear of its end.
        let again = decide(&sim.world, &key, sim.now).again.unwrap();
        assert_eq!(again.duration_since(sim.now), LOOKS_AGAIN);
        let old = sim.get(&key)["metadata"]["uid"].clone();
        let_go(&mut sim, &strange);
        sim.settle();
        assert_ne!(sim.get(&key)["metadata"]["uid"], old, "the next run has begun");
        assert_eq!(sim.condition(&of, "Synchronized"), None);
    }

    #[test]
    fn a_vmi_that_waits_for_its_own_pod_does_not_call_it_a_strangers() {
        let mut sim = Sim::new();
        let key = sim.put(Kind::VirtualMachineInstance, vmi("web"));
        sim.boot(&key);
        sim.agent_says(&key, "Succeeded");
        sim.delete(&key);
        sim.settle();
        assert!(sim.pod_of(&key).is_some(), "it waits for its pod");
        assert_eq!(sim.condition(&key, "Synchronized"), None);
        assert!(!sim.reasons().iter().any(|reason| reason == REASON), "{:?}", sim.reasons());
    }

    /// By the loop itself: the API server knows of it, whether or not a watch tells.
    #[test]
    fn a_vmi_whose_pod_cannot_be_made_for_a_strangers_says_so_in_the_next_round() {
        let other = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "x", "controller": true}]);
        for owners in [json!([]), other] {
            let mut sim = Sim::new();
            let key = sim.put(Kind::VirtualMachineInstance, vmi("web"));
            let settings = crate::sim::kubevirt(json!({}));
            sim.put(Kind::KubeVirt, settings);
            let strange = stranger(&mut sim, &key, &owners);
            let mut controller = Controller::start(&mut sim, 1);
            let mut tick = 0;
            while controller.tick(&mut sim, tick) && tick < 100 {
                tick += 1;
            }
            let (status, reason, message) = sim.condition(&key, "Synchronized").unwrap();
            assert_eq!((status.as_str(), reason.as_str()), ("False", "FailedCreate"), "{message}");
            assert!(
                message.contains(&strange.name) && message.contains("another program or user: delete it"),
                "{message}"
            );
            assert_eq!(sim.get(&key)["status"]["phase"], "Pending");
        }
    }
}
