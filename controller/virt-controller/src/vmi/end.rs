//! The end of a VMI: its pods go first, then the finalizers, so that nothing writes to its disks any more when it is gone.

use super::name_conflict::name_conflict;
use super::outcome::{Change, Outcome};
use super::{VmiReconcile, key_of};
use crate::pod;
use api::launcher::{Ending, Life};
use api::vmi::{ConditionType, Phase, VirtualMachineInstance};
use cluster_model::conditions::{KEPT, SYNC_FAILED, is_unsynchronized};
use cluster_model::objects::{Attempt, Failure, Key, Kind, LauncherPods, Pod, World, is_revision, owner};
use cluster_model::plan::Step;

/// The VMI has ended as its launcher left it to the kubelet. A launcher is a tenant's, and can lie about its own VMI alone. Condition and
/// event are those that virt-handler would write.
pub(super) fn ended_as(ending: &Ending) -> Outcome {
    if ending.life == Life::Succeeded {
        let outcome = Outcome::default().event(false, "Stopped", "The VirtualMachineInstance was shut down.");
        return outcome.phase(Phase::Succeeded);
    }
    let why = ending.message.as_deref().or(ending.reason.as_deref());
    let why = why.unwrap_or("the launcher gave no reason");
    Outcome::default()
        .event(true, "Stopped", format!("The VirtualMachineInstance crashed: {why}"))
        .condition(ConditionType::Synchronized, "False", SYNC_FAILED, why)
        .phase(Phase::Failed)
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
    let is_kept = *next_phase == Phase::Failed && !input.is_deleted() && pod::keeps(&vmi.metadata);
    for pod in left.iter().filter(|pod| !pod.is_going() && !is_kept) {
        outcome = outcome.and(delete_pod(input, pod));
    }
    if !left.is_empty() || !input.is_deleted() {
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
        outcome = outcome.first(Step::Delete { key, uid: String::new() });
    }
    outcome.change(Change::Release { keeps_of_vm: is_looked_after(world, vmi) })
}

/// Deletes a pod, with an event where it was made for this VMI.
pub(super) fn delete_pod(input: &VmiReconcile<'_>, pod: &Pod) -> Outcome {
    let name = pod.meta.name.as_deref().unwrap_or_default();
    let is_own = input.own_pods.as_ref().is_some_and(|own| own.has(&pod.meta));
    let mut outcome = Outcome::default();
    if let Some(failed) = undeleted(input) {
        if is_own {
            let message = format!("Failed to delete virtual machine pod {name}: {}", failed.message);
            outcome = report_undeleted(input, &message);
        }
        if failed.retry > input.now {
            return outcome.again(failed.retry);
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

/// True where the VM of a VMI exists, and has to see the end of the VMI before it may go.
fn is_looked_after(world: &World, vmi: &VirtualMachineInstance) -> bool {
    owner::controller(&vmi.metadata).filter(|owner| owner.kind == "VirtualMachine").is_some_and(|owner| {
        let vm = world.vms.get(vmi.metadata.namespace.as_deref().unwrap_or_default(), &owner.name);
        vm.is_some_and(|vm| vm.metadata.uid.as_deref() == Some(owner.uid.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use crate::sim::{Sim, vmi};
    use cluster_model::objects::{Key, Kind};
    use serde_json::json;

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
}
