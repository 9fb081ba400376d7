//! A VMI that virt-handler has: its pod and its node are followed, and it is ended where virt-handler does not do that in time.

use super::end::{delete_pod, ended_as};
use super::networks::interfaces;
use super::outcome::{Change, Outcome};
use super::scheduling::{assign, pod_ended, pod_is_gone};
use super::vsock::cid;
use super::{PATIENCE, VmiReconcile, pod_state};
use crate::pod;
use api::vmi::ConditionType;
use cluster_model::conditions::{self, UNHEARD, is_unsynchronized, stamp};
use cluster_model::objects::{Kind, Pod, key};
use cluster_model::plan::Step;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// The step of a VMI that virt-handler has.
pub(super) fn handed_over(input: &VmiReconcile<'_>) -> Outcome {
    let Some(pod) = input.pod else {
        let outcome = pod_is_gone(input);
        return match input.world.ending(input.vmi) {
            Some(ending) => outcome.and(ended_as(input.vmi, ending)),
            None => outcome.fail("PodNotExists"),
        };
    };
    let placed = pod.node.as_ref().map(|node| assign(input, pod, node)).unwrap_or_default();
    let outcome =
        Outcome::default().change(Change::Hold).and(placed).and(cid(input)).and(interfaces(input, pod));
    if pod_state::is_over(pod) {
        let since = input.world.over_since(pod).unwrap_or(input.now);
        return match (since.checked_add(PATIENCE), pod.ending()) {
            // The pod may be removed at any moment, so virt-handler is not waited for.
            (_, Some(ending)) if pod.is_going() => outcome.and(ended_as(input.vmi, &ending)),
            (Ok(until), _) if until > input.now => outcome.retry_at(until),
            (_, Some(ending)) => outcome.and(ended_as(input.vmi, &ending)),
            (_, None) => outcome.and(pod_ended(pod)),
        };
    }
    outcome.and(node(input, pod)).and(end_late(input, pod)).and(unpaused(input, pod))
}

/// Reports a node whose virt-handler is silent, and what would help. Other reports about the node are virt-handler's.
fn node(input: &VmiReconcile<'_>, pod: &Pod) -> Outcome {
    let Some(name) = pod.node.as_deref() else { return Outcome::default() };
    let until = crate::node::heard_until(input.world, name);
    if until.is_some_and(|until| until <= input.now) {
        let message = format!(
            "{}. The VMI may still run, so its disks are not given to another until its pod is gone: when the node \
             is back, or is deleted, or has the taint node.kubernetes.io/out-of-service",
            crate::node::silence_message(name)
        );
        return Outcome::default().condition(ConditionType::Synchronized, "False", UNHEARD, &message);
    }
    let outcome = match is_unsynchronized(input.conditions(), &[UNHEARD]) {
        true => Outcome::default().no_condition(ConditionType::Synchronized),
        false => Outcome::default(),
    };
    until.into_iter().fold(outcome, Outcome::retry_at)
}

/// Deletes the pod of a deleted VMI that virt-handler does not end in time: the kubelet ends it then.
fn end_late(input: &VmiReconcile<'_>, pod: &Pod) -> Outcome {
    let since = input.vmi.metadata.deletion_timestamp.as_deref().and_then(|since| since.parse().ok());
    let since: Option<Timestamp> = since.filter(|_| !pod.is_going());
    let Some(since) = since else { return Outcome::default() };
    match since.checked_add(SignedDuration::from_secs(pod::grace(input.vmi))) {
        Ok(until) if until > input.now => Outcome::default().retry_at(until),
        _ => delete_pod(input, pod),
    }
}

/// Writes the readiness gate of the pod: Services leave a paused VMI out, since its pod is not ready then.
pub(super) fn unpaused(input: &VmiReconcile<'_>, pod: &Pod) -> Outcome {
    let status =
        if conditions::is_true(input.conditions(), &ConditionType::Paused) { "False" } else { "True" };
    if pod.is_going() || pod.condition(pod::UNPAUSED).is_some_and(|condition| condition.status == status) {
        return Outcome::default();
    }
    let (reason, message) = match status {
        "True" => ("NotPaused", "the virtual machine is not paused"),
        _ => ("Paused", "the virtual machine is paused"),
    };
    let change = json!({"status": {"conditions": [{
        "type": pod::UNPAUSED,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": stamp(input.now),
    }]}});
    Outcome::default().after_write(Step::Patch {
        key: key(Kind::Pod, &pod.meta),
        version: String::new(),
        change,
        part: Some("status"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Sim, vmi};
    use cluster_model::objects::Key;
    use cluster_model::plan::Plan;
    use serde_json::Value;

    fn running(sim: &mut Sim) -> (Key, Key) {
        let key = sim.put(Kind::VirtualMachineInstance, vmi("web"));
        sim.boot(&key);
        let pod = sim.pod_of(&key).unwrap();
        (key, pod)
    }

    fn decide(sim: &Sim, key: &Key) -> Plan {
        crate::decide(&sim.world, key, sim.now)
    }

    fn beat(time: &str) -> Value {
        json!({"metadata": {"name": "node1", "annotations": {"kubevirt.io/heartbeat": time}}})
    }

    fn deletes(plan: &Plan) -> bool {
        plan.steps.iter().any(|step| matches!(step, Step::Delete { .. }))
    }

    /// A VMI that is not looked at again runs in the status for ever, and its VM is never started anew.
    #[test]
    fn a_vmi_whose_pod_is_over_is_looked_at_again_when_virt_handler_has_had_its_time() {
        let mut sim = Sim::new();
        let (key, pod) = running(&mut sim);
        sim.pod_ends(&pod, "Failed", 1);
        let until = sim.now + PATIENCE;
        sim.advance(59);
        let plan = decide(&sim, &key);
        assert_eq!((plan.steps.is_empty(), plan.again), (true, Some(until)), "{plan:?}");
        sim.advance(1);
        let plan = decide(&sim, &key);
        sim.apply(plan);
        assert_eq!(sim.get(&key)["status"]["phase"], "Failed");
    }

    #[test]
    fn a_deleted_vmi_is_looked_at_again_when_its_grace_has_passed() {
        let mut sim = Sim::new();
        // The silence of its node comes later.
        sim.put(Kind::Node, beat("1"));
        let (key, pod) = running(&mut sim);
        sim.delete(&key);
        let until = sim.now + SignedDuration::from_secs(60);
        let plan = decide(&sim, &key);
        assert_eq!((deletes(&plan), plan.again), (false, Some(until)), "{plan:?}");
        sim.advance(60);
        let plan = decide(&sim, &key);
        assert!(deletes(&plan), "{plan:?}");
        sim.delete(&pod);
        assert!(!deletes(&decide(&sim, &key)), "the kubelet ends it already");
    }

    #[test]
    fn the_silence_of_a_node_is_said_when_it_is_long_enough() {
        let mut sim = Sim::new();
        sim.put(Kind::Node, beat("1"));
        let (key, _) = running(&mut sim);
        let until = sim.now + crate::node::SILENCE;
        let plan = decide(&sim, &key);
        assert_eq!((plan.steps.is_empty(), plan.again), (true, Some(until)), "{plan:?}");
        sim.now = until;
        sim.settle();
        assert_eq!(sim.condition(&key, "Synchronized").unwrap().1, UNHEARD);
        sim.put(Kind::Node, beat("2"));
        sim.settle();
        assert_eq!(sim.condition(&key, "Synchronized"), None);
        // What virt-handler says is not taken back.
        let mut said = sim.get(&key)["status"]["conditions"].as_array().unwrap().clone();
        said.push(json!({"type": "Synchronized", "status": "False", "reason": "x", "message": "y"}));
        sim.change(&key, json!({"status": {"conditions": said}}));
        sim.settle();
        assert_eq!(sim.condition(&key, "Synchronized").unwrap().1, "x");
    }

    /// A Service has no VMI whose gate is missing or says otherwise, and one that is paused answers nobody.
    #[test]
    fn the_readiness_gate_of_the_pod_says_whether_the_vmi_is_paused() {
        let gate = |status: &str| json!({"type": pod::UNPAUSED, "status": status});
        let paused = json!([{"type": "Paused", "status": "True"}]);
        for (conditions, gate, is_going, written) in [
            (json!([]), Value::Null, false, Some(("True", "NotPaused"))),
            (json!([]), gate("True"), false, None),
            (json!([]), gate("False"), false, Some(("True", "NotPaused"))),
            (paused.clone(), gate("True"), false, Some(("False", "Paused"))),
            (paused.clone(), gate("False"), false, None),
            (paused, gate("True"), true, None),
        ] {
            let mut sim = Sim::new();
            let (key, pod) = running(&mut sim);
            sim.change(&key, json!({"status": {"conditions": conditions}}));
            let gates = if gate.is_null() { json!([]) } else { json!([gate]) };
            sim.change(&pod, json!({"status": {"conditions": gates}}));
            if is_going {
                sim.delete(&pod);
            }
            let plan = decide(&sim, &key);
            let step = plan.steps.iter().find_map(|step| match step {
                Step::Patch { key, change, .. } if *key == pod => Some(&change["status"]["conditions"][0]),
                _ => None,
            });
            let is = step.map(|said| (said["status"].as_str().unwrap(), said["reason"].as_str().unwrap()));
            assert_eq!(is, written, "{conditions} {gate} {is_going}");
        }
    }

    /// A VMI with VSOCK, which has this CID already.
    fn with_cid(sim: &mut Sim, name: &str, cid: &Value) -> Key {
        let open = json!({"configuration": {"developerConfiguration": {"featureGates": ["VSOCK"]}}});
        let settings = json!({"metadata": {"namespace": "kubevirt", "name": "kubevirt"}, "spec": open});
        sim.world.put(Kind::KubeVirt, settings, sim.now);
        let mut object = vmi(name);
        object["spec"]["domain"]["devices"]["autoattachVSOCK"] = json!(true);
        object["status"] = json!({"VSOCKCID": cid});
        sim.put(Kind::VirtualMachineInstance, object)
    }

    /// Hands the VMI over, and gives its CID.
    fn cid_of(sim: &mut Sim, key: &Key) -> u64 {
        sim.settle();
        let pod = sim.pod_of(key).unwrap();
        sim.pod_runs(&pod, "node1");
        sim.settle();
        sim.get(key)["status"]["VSOCKCID"].as_u64().unwrap()
    }

    /// Another VMI may have the CID by the time at which virt-handler begins.
    #[test]
    fn a_cid_that_was_taken_from_a_vmi_is_given_again_before_virt_handler_begins() {
        let mut sim = Sim::new();
        let key = with_cid(&mut sim, "web", &Value::Null);
        let cid = cid_of(&mut sim, &key);
        sim.change(&key, json!({"status": {"VSOCKCID": null}}));
        sim.settle();
        assert_eq!(sim.get(&key)["status"]["VSOCKCID"], cid);
    }

    /// The kernel of a node refuses a CID that another guest has.
    #[test]
    fn a_cid_is_kept_where_it_is_in_range_and_no_other_guest_has_it() {
        for (cid, other, is_kept) in
            [(77, None, true), (77, Some("Running"), false), (77, Some("Failed"), true), (2, None, false)]
        {
            let mut sim = Sim::new();
            if let Some(phase) = other {
                let key = with_cid(&mut sim, "other", &json!(77));
                let mut object = sim.get(&key).clone();
                object["status"]["phase"] = json!(phase);
                sim.world.put(Kind::VirtualMachineInstance, object, sim.now);
                sim.objects.remove(&key);
            }
            let key = with_cid(&mut sim, "web", &json!(cid));
            assert_eq!(cid_of(&mut sim, &key) == cid, is_kept, "{cid} {other:?}");
        }
    }
}
