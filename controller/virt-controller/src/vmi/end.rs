//! The end of a VMI: its pods go first, then the finalizers, so that nothing writes to its disks any more when it is gone.

use super::moved_claims::migrated;
use super::name_conflict::name_conflict;
use super::outcome::{Change, Outcome};
use super::{VmiReconcile, key_of, vm_of};
use crate::pod;
use api::launcher::{Ending, Life, may_have_left};
use api::vmi::{ConditionType, Phase, VirtualMachineInstance};
use cluster_model::conditions::{KEPT, SYNC_FAILED, is_unsynchronized};
use cluster_model::metadata::{CARRIER_STOPPED, is_stopped_carrier};
use cluster_model::objects::{Attempt, Failure, Key, Kind, LauncherPods, Pod, is_revision, owner};
use cluster_model::plan::Step;

/// End of a guest that left its launcher, and whose migration has failed.
const LOST: &str = "the guest left its launcher by a live migration and did not arrive: the launcher pod on the target node is down";

/// The VMI has ended as its launcher left it to the kubelet. A launcher is a tenant's, and can lie about its own VMI alone. Condition and
/// event are those that virt-handler would write.
pub(super) fn ended_as(vmi: &VirtualMachineInstance, ending: &Ending) -> Outcome {
    if ending.reason.as_deref().is_some_and(may_have_left) {
        return ended_as(vmi, &Ending::failed(LOST));
    }
    if ending.life == Life::Succeeded {
        let outcome = Outcome::default().event(false, "Stopped", "The VirtualMachineInstance was shut down.");
        return outcome.phase(Phase::Succeeded);
    }
    let why = ending.message.as_deref().or(ending.reason.as_deref());
    let why = why.unwrap_or("the launcher gave no reason");
    let outcome = match is_stopped_carrier(vmi) {
        true => Outcome::default().event(false, "Stopped", CARRIER_STOPPED),
        false => {
            Outcome::default().event(true, "Stopped", format!("The VirtualMachineInstance crashed: {why}"))
        }
    };
    outcome.condition(ConditionType::Synchronized, "False", SYNC_FAILED, why).phase(Phase::Failed)
}

/// The end of a VMI that is to be `next`: its pods are deleted, and then its finalizers.
pub(super) fn end(input: &VmiReconcile<'_>, next: &VirtualMachineInstance) -> Outcome {
    let list = next.status.as_ref().map_or(&[][..], |status| &status.conditions);
    // A pod could not be deleted before, and is now.
    let outcome = match undeleted(input).is_none() && is_unsynchronized(list, &[KEPT]) {
        true => Outcome::default().no_condition(ConditionType::Synchronized),
        false => Outcome::default(),
    };
    match super::phase(next) {
        phase if phase.is_final() => outcome.and(ended(input, &phase)),
        _ => outcome,
    }
}

fn ended(input: &VmiReconcile<'_>, next_phase: &Phase) -> Outcome {
    let VmiReconcile { world, vmi, .. } = *input;
    // A pod whose launcher has ended may have containers that run, which end only with the pod. A pod without an owner is not
    // deleted with its VMI.
    let any = input.own_pods.clone().map(LauncherPods::any);
    let pods = any.as_ref().map(|any| world.launcher_pods(any)).unwrap_or_default();
    let is_left =
        |pod: &Pod| !pod.has_ended() || owner::controller(&pod.meta).is_none() && input.is_deleted();
    let left: Vec<&Pod> = pods.iter().copied().filter(|pod| is_left(pod)).collect();
    let mut outcome = name_conflict(input, &left);
    // The launcher of a VMI that has failed is kept for debugging where an annotation asks for it, as long as the VMI exists.
    let is_kept = *next_phase == Phase::Failed && !input.is_deleted() && pod::keeps_failed_pod(&vmi.metadata);
    for pod in left.iter().filter(|pod| !pod.is_going() && !is_kept) {
        outcome = outcome.and(delete_pod(input, pod));
    }
    // What became of its PVCs is written before it goes.
    if !left.is_empty() || !input.is_deleted() || !migrated(input.vmi).is_empty() {
        return outcome;
    }
    let is_held = input.has_finalizer();
    if pods.is_empty()
        && input.phase.is_final()
        && is_held
        && let Some(any) = any
    {
        outcome = outcome.require_absent(&any);
    }
    // The VM was deleted with `--cascade=orphan`: only the VMI has the name of its revision.
    let status = vmi.status.as_ref().filter(|_| is_held && vmi.metadata.owner_references.is_empty());
    if let Some(name) = status.and_then(|status| status.virtual_machine_revision_name.clone())
        && is_revision(&name)
    {
        let namespace = vmi.metadata.namespace.clone().unwrap_or_default();
        let key = Key { kind: Kind::ControllerRevision, namespace, name };
        outcome = outcome.before_write(Step::Delete { key, uid: String::new(), version: String::new() });
    }
    outcome.change(Change::Release { keeps_of_vm: vm_of(world, vmi).is_some() })
}

/// Deletes a pod, with an event where it was made for this VMI.
pub(super) fn delete_pod(input: &VmiReconcile<'_>, pod: &Pod) -> Outcome {
    let name = pod.meta.name.as_deref().unwrap_or_default();
    let is_own = input.own_pods.as_ref().is_some_and(|own| own.contains(&pod.meta));
    let mut outcome = Outcome::default();
    if let Some(failed) = undeleted(input) {
        if is_own {
            let message = format!("Failed to delete virtual machine pod {name}: {}", failed.message);
            outcome = report_undeleted(input, &message);
        }
        if failed.retry > input.now {
            return outcome.retry_at(failed.retry);
        }
    }
    let outcome = outcome.delete(pod);
    match is_own {
        true => outcome.event(false, "SuccessfulDelete", format!("Deleted virtual machine pod {name}")),
        false => outcome,
    }
}

/// Says that a pod could not be deleted; an event where that begins.
fn report_undeleted(input: &VmiReconcile<'_>, message: &str) -> Outcome {
    let outcome = Outcome::default().condition(ConditionType::Synchronized, "False", KEPT, message);
    match is_unsynchronized(input.conditions(), &[KEPT]) {
        true => outcome,
        false => outcome.event(true, KEPT, message),
    }
}

/// Removes the condition of a failed creation of the pod. The condition of a pod that could not be deleted
/// stays until [`end`] removes it.
pub(super) fn forget_trouble(input: &VmiReconcile<'_>) -> Outcome {
    match is_unsynchronized(input.conditions(), &[KEPT]) {
        true => Outcome::default(),
        false => Outcome::default().no_condition(ConditionType::Synchronized),
    }
}

/// The failure of the last deletion of a pod.
fn undeleted<'a>(input: &VmiReconcile<'a>) -> Option<&'a Failure> {
    let failed = input.world.failures.get(&key_of(input.vmi));
    failed.filter(|failed| failed.about == Attempt::Delete(Kind::Pod))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Sim, vmi};
    use cluster_model::objects::{FINALIZER, OF_VM};
    use cluster_model::plan::Plan;
    use serde_json::{Value, json};

    /// The launcher has ended, and the container of its log, which waits for its first word, has not.
    fn launcher_ends(sim: &mut Sim, pod: &Key) {
        let ended = json!({"exitCode": 1, "reason": "Error", "message": "no disk", "finishedAt": sim.now.to_string()});
        let compute = json!({"name": "compute", "ready": false, "state": {"terminated": ended}});
        let log = json!({"name": "guest-console-log", "ready": true, "state": {"running": {}}});
        let status = json!({"phase": "Running", "containerStatuses": [compute, log]});
        sim.change(pod, json!({"spec": {"nodeName": "node1"}, "status": status}));
    }

    #[test]
    fn a_launcher_that_fails_at_once_ends_its_vmi_though_its_log_waits() {
        let mut sim = Sim::new();
        let key = sim.put(Kind::VirtualMachineInstance, vmi("web"));
        sim.settle();
        let pod = sim.pod_of(&key).unwrap();
        launcher_ends(&mut sim, &pod);
        sim.settle();
        assert_eq!(sim.get(&key)["status"]["phase"], "Failed");
        let (_, _, said) = sim.condition(&key, "Synchronized").unwrap();
        assert!(said.contains("container compute ended with exit code 1: no disk"), "{said}");
        assert!(sim.get(&pod)["metadata"]["deletionTimestamp"].is_string(), "nobody else ends the log");
        assert!(sim.reasons().iter().any(|reason| reason == "SuccessfulDelete"));
    }

    #[test]
    fn a_launcher_that_has_failed_stays_where_somebody_looks_for_why() {
        let mut sim = Sim::new();
        let mut object = vmi("web");
        object["metadata"]["annotations"] = json!({"kubevirt.io/keep-launcher-alive-after-failure": "true"});
        let key = sim.put(Kind::VirtualMachineInstance, object);
        sim.boot(&key);
        let pod = sim.pod_of(&key).unwrap();
        sim.agent_says(&key, "Failed");
        sim.settle();
        assert!(sim.get(&pod)["metadata"]["deletionTimestamp"].is_null());
        sim.delete(&key);
        sim.settle();
        assert!(sim.get(&pod)["metadata"]["deletionTimestamp"].is_string(), "with its VMI it goes");
    }

    /// The launcher's files are of use where it failed, and nowhere else.
    #[test]
    fn a_launcher_whose_guest_was_shut_down_is_not_kept() {
        let mut sim = Sim::new();
        let mut object = vmi("web");
        object["metadata"]["annotations"] = json!({"kubevirt.io/keep-launcher-alive-after-failure": "true"});
        let key = sim.put(Kind::VirtualMachineInstance, object);
        sim.boot(&key);
        let pod = sim.pod_of(&key).unwrap();
        sim.agent_says(&key, "Succeeded");
        sim.settle();
        assert!(sim.get(&pod)["metadata"]["deletionTimestamp"].is_string());
    }

    /// A pod that has ended holds no disk, and goes with its owner.
    #[test]
    fn a_vmi_does_not_wait_for_a_pod_that_has_ended_and_is_its_own() {
        let mut sim = Sim::new();
        let key = sim.put(Kind::VirtualMachineInstance, vmi("web"));
        sim.boot(&key);
        let pod = sim.pod_of(&key).unwrap();
        sim.pod_ends(&pod, "Succeeded", 0);
        sim.agent_says(&key, "Succeeded");
        sim.delete(&key);
        let plan = crate::decide(&sim.world, &key, sim.now);
        let deletes = |step: &Step| matches!(step, Step::Delete { key, .. } if *key == pod);
        assert!(!plan.steps.iter().any(deletes), "{plan:?}");
        sim.apply(plan);
        assert!(!sim.objects.contains_key(&key));
    }

    /// Where its owner was taken from it, nothing else deletes it.
    #[test]
    fn a_pod_without_an_owner_is_deleted_before_its_vmi_goes() {
        let mut sim = Sim::new();
        let key = sim.put(Kind::VirtualMachineInstance, vmi("web"));
        sim.boot(&key);
        let pod = sim.pod_of(&key).unwrap();
        sim.pod_ends(&pod, "Succeeded", 0);
        sim.change(&pod, json!({"metadata": {"ownerReferences": null}}));
        sim.agent_says(&key, "Succeeded");
        let deletes = |step: &Step| matches!(step, Step::Delete { key, .. } if *key == pod);
        let plan = crate::decide(&sim.world, &key, sim.now);
        assert!(!plan.steps.iter().any(deletes), "its log is of use while its VMI is there: {plan:?}");
        sim.delete(&key);
        let plan = crate::decide(&sim.world, &key, sim.now);
        assert!(plan.steps.iter().any(deletes), "{plan:?}");
        sim.settle();
        assert!(!sim.objects.contains_key(&pod) && !sim.objects.contains_key(&key));
    }

    #[test]
    fn a_failed_deletion_is_said_until_the_pod_can_be_deleted() {
        let mut sim = Sim::new();
        let key = sim.put(Kind::VirtualMachineInstance, vmi("web"));
        sim.boot(&key);
        let mut said = sim.get(&key)["status"]["conditions"].as_array().unwrap().clone();
        said.push(json!({"type": "Synchronized", "status": "False", "reason": KEPT, "message": "m"}));
        sim.change(&key, json!({"status": {"conditions": said}}));
        let retry = sim.now + jiff::SignedDuration::from_secs(60);
        let about = Attempt::Delete(Kind::Pod);
        sim.world.failures.insert(key.clone(), Failure { about, message: "m".to_owned(), times: 1, retry });
        sim.settle();
        assert_eq!(sim.condition(&key, "Synchronized").unwrap().1, KEPT);
        sim.world.failures.clear();
        sim.settle();
        assert_eq!(sim.condition(&key, "Synchronized"), None);
    }

    /// A VMI that has ended and whose pods are gone, with this metadata.
    fn over(sim: &mut Sim, meta: &Value) -> Key {
        let mut object = vmi("web");
        cluster_model::plan::merge(&mut object["metadata"], meta);
        object["status"] = json!({"phase": "Succeeded", "virtualMachineRevisionName": REVISION});
        sim.put(Kind::VirtualMachineInstance, object)
    }

    const REVISION: &str = "revision-start-vm-u-1";

    /// The World may lag behind: a pod that it does not know may still write to the disks.
    #[test]
    fn the_server_is_asked_for_the_pods_of_a_vmi_before_it_goes() {
        let asks = |plan: &Plan| plan.steps.iter().any(|step| matches!(step, Step::RequireAbsent { .. }));
        let mut sim = Sim::new();
        let key = over(&mut sim, &json!({}));
        sim.settle();
        assert_eq!(sim.get(&key)["metadata"]["finalizers"], json!([FINALIZER]), "it is not deleted yet");
        sim.delete(&key);
        let plan = crate::decide(&sim.world, &key, sim.now);
        assert!(matches!(plan.steps[0], Step::RequireAbsent { .. }), "{plan:?}");
        sim.apply(plan);
        assert!(!sim.objects.contains_key(&key));
        // Another program holds it.
        let key = over(&mut sim, &json!({"finalizers": ["example.org/x"]}));
        sim.delete(&key);
        sim.settle();
        let plan = crate::decide(&sim.world, &key, sim.now);
        assert!(!asks(&plan), "there is nothing to do: {plan:?}");
        // It never had a pod.
        let key =
            sim.put(Kind::VirtualMachineInstance, json!({"metadata": vmi("b")["metadata"], "spec": {}}));
        sim.delete(&key);
        let plan = crate::decide(&sim.world, &key, sim.now);
        assert!(!asks(&plan), "{plan:?}");
        sim.apply(plan);
        assert!(!sim.objects.contains_key(&key));
    }

    /// `kubectl delete vm --cascade=orphan`, and later the VMI.
    #[test]
    fn a_vmi_without_its_vm_takes_the_revision_along() {
        let owner = json!([{"apiVersion": "a/v1", "kind": "A", "name": "a", "uid": "a", "controller": true}]);
        for (meta, stays) in [
            (json!({}), false),
            (json!({"ownerReferences": owner}), true),
            (json!({"finalizers": ["example.org/x"]}), true),
        ] {
            let mut sim = Sim::new();
            let revision = json!({"metadata": {"namespace": "n", "name": REVISION}});
            let revision = sim.put(Kind::ControllerRevision, revision);
            let key = over(&mut sim, &meta);
            sim.delete(&key);
            sim.settle();
            assert_eq!(sim.objects.contains_key(&revision), stays, "{meta}");
        }
    }

    /// Else the VMI stays for ever, and so does the name of the VM.
    #[test]
    fn a_vmi_waits_for_its_vm_only_where_that_is_there() {
        for (kind, is_other, waits) in [
            ("VirtualMachine", false, true),
            ("VirtualMachine", true, false),
            ("VirtualMachineInstanceReplicaSet", false, false),
        ] {
            let mut sim = Sim::new();
            let of = sim.put(Kind::VirtualMachine, crate::sim::vm("web", "Halted"));
            let uid = if is_other { json!("gone") } else { sim.get(&of)["metadata"]["uid"].clone() };
            let owner = json!([{"apiVersion": "kubevirt.io/v1", "kind": kind, "name": "web", "uid": uid, "controller": true}]);
            let meta = json!({"ownerReferences": owner, "finalizers": [FINALIZER, OF_VM]});
            let key = over(&mut sim, &meta);
            sim.delete(&key);
            let plan = crate::decide(&sim.world, &key, sim.now);
            sim.apply(plan);
            assert_eq!(sim.objects.contains_key(&key), waits, "{kind} {is_other}");
        }
    }

    #[test]
    fn a_pod_that_could_not_be_deleted_is_deleted_when_its_time_has_come() {
        let delete = Attempt::Delete(Kind::Pod);
        for (about, seconds, deletes) in
            [(delete, 60, false), (delete, 0, true), (Attempt::Make(Kind::Pod), 60, true)]
        {
            let mut sim = Sim::new();
            let key = sim.put(Kind::VirtualMachineInstance, vmi("web"));
            sim.boot(&key);
            let pod = sim.pod_of(&key).unwrap();
            sim.agent_says(&key, "Failed");
            let retry = sim.now + jiff::SignedDuration::from_secs(seconds);
            let failure = Failure { about, message: "m".to_owned(), times: 1, retry };
            sim.world.failures.insert(key.clone(), failure);
            let plan = crate::decide(&sim.world, &key, sim.now);
            assert_eq!(plan.again, (!deletes).then_some(retry));
            sim.apply(plan);
            assert_eq!(sim.get(&pod)["metadata"]["deletionTimestamp"].is_string(), deletes, "{seconds}");
            let is_said = sim.reasons().contains(&KEPT.to_owned());
            assert_eq!(sim.warnings.contains(&KEPT.to_owned()), is_said);
            assert!(!sim.warnings.contains(&"SuccessfulDelete".to_owned()), "{:?}", sim.warnings);
        }
    }

    /// The API server refuses a new finalizer of an object that is being deleted, and with it all else that is written.
    #[test]
    fn a_vmi_is_held_beside_others_and_not_when_it_goes() {
        for (is_going, expected) in
            [(false, json!(["example.org/x", FINALIZER])), (true, json!(["example.org/x"]))]
        {
            let mut sim = Sim::new();
            let key = sim.put(Kind::VirtualMachineInstance, vmi("web"));
            sim.boot(&key);
            if is_going {
                sim.delete(&key);
            }
            sim.change(&key, json!({"metadata": {"finalizers": ["example.org/x"]}}));
            sim.settle();
            assert_eq!(sim.get(&key)["metadata"]["finalizers"], expected, "{is_going}");
        }
        let mut sim = Sim::new();
        let mut object = vmi("web");
        object["metadata"]["finalizers"] = json!(["example.org/x"]);
        let key = sim.put(Kind::VirtualMachineInstance, object);
        sim.round();
        let held = &sim.get(&key)["metadata"]["finalizers"];
        assert_eq!((held, sim.pod_of(&key)), (&json!(["example.org/x", FINALIZER]), None), "before its pod");
        assert_eq!(sim.get(&key)["status"]["phase"], "Pending");
    }

    /// A policy refuses us that deletion: what the VMI waits for is said, and not that it failed.
    #[test]
    fn of_a_pod_that_is_not_its_own_a_vmi_says_whose_name_it_has() {
        const TAKEN: &str = "PodNameTaken";
        let mut sim = Sim::new();
        let key = over(&mut sim, &json!({"finalizers": [FINALIZER, "example.org/x"]}));
        let uid = sim.get(&key)["metadata"]["uid"].as_str().unwrap().to_owned();
        let start = cluster_model::objects::LauncherAttempt::Start;
        let name = cluster_model::objects::names::pod("web", &uid, start);
        let meta = json!({"namespace": "n", "name": name});
        let foreign = sim.put(Kind::Pod, json!({"metadata": meta, "spec": {"nodeName": "a"}}));
        let retry = sim.now + jiff::SignedDuration::from_secs(60);
        let about = Attempt::Delete(Kind::Pod);
        sim.world.failures.insert(key.clone(), Failure { about, message: "m".to_owned(), times: 1, retry });
        sim.settle();
        assert_eq!(sim.condition(&key, "Synchronized"), None, "it is not to go");
        sim.delete(&key);
        sim.settle();
        assert_eq!(sim.condition(&key, "Synchronized").unwrap().1, TAKEN);
        assert!(sim.warnings.contains(&TAKEN.to_owned()), "{:?}", sim.told);
        assert!(!sim.reasons().contains(&KEPT.to_owned()), "{:?}", sim.reasons());
        sim.vanish(&foreign);
        sim.settle();
        assert_eq!(sim.condition(&key, "Synchronized"), None, "another program holds it now");
    }
}
