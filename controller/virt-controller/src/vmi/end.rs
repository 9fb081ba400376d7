//! The end of a VMI: its pods go first, then the finalizers, so that nothing writes to its disks any more when it is gone.

use super::Round;
use crate::pod;
use api::launcher::{Ending, Life};
use api::vmi::{ConditionType, Phase, VirtualMachineInstance};
use cluster_model::conditions::{self, KEPT, SYNC_FAILED, is_unsynchronized};
use cluster_model::objects::{
    Attempt, FINALIZER, Failure, Key, Kind, LauncherPods, OF_VM, Pod, World, is_revision, key, owner,
};
use cluster_model::plan::Step;

impl<'a> Round<'a> {
    /// The VMI has ended as its launcher left it to the kubelet. A launcher is a tenant's, and can lie about its own VMI alone. What
    /// is said is what virt-handler would say.
    pub(super) fn ended_as(&mut self, ending: &Ending) {
        if ending.life == Life::Succeeded {
            self.tell(false, "Stopped", "The VirtualMachineInstance was shut down.");
            return self.set_phase(Phase::Succeeded);
        }
        let why = ending.message.as_deref().or(ending.reason.as_deref());
        let why = why.unwrap_or("the launcher gave no reason");
        self.tell(true, "Stopped", format!("The VirtualMachineInstance crashed: {why}"));
        self.say(ConditionType::Synchronized, "False", SYNC_FAILED, why);
        self.set_phase(Phase::Failed);
    }

    /// Of one that has ended the pods go, and what held it.
    pub(super) fn end(&mut self) {
        self.forget_kept();
        if super::phase(&self.next).is_final() {
            self.ended();
        }
    }

    fn ended(&mut self) {
        // One whose launcher has ended may have others that run: those end only with the pod. One without an owner goes with
        // nobody else.
        let any = self.of.clone().map(LauncherPods::any);
        let pods = any.as_ref().map(|any| self.world.launcher_pods(any)).unwrap_or_default();
        let is_left =
            |pod: &Pod| !pod.has_ended() || owner::controller(&pod.meta).is_none() && self.is_deleted();
        let left: Vec<&Pod> = pods.iter().copied().filter(|pod| is_left(pod)).collect();
        self.say_strangers(&left);
        // Whoever looks for a fault keeps the launcher of a VMI that has failed; not beyond the VMI itself.
        let is_kept =
            super::phase(&self.next) == Phase::Failed && !self.is_deleted() && pod::keeps(&self.vmi.metadata);
        for pod in left.iter().filter(|pod| !pod.is_going() && !is_kept) {
            self.delete_pod(pod);
        }
        if !left.is_empty() || !self.is_deleted() {
            return;
        }
        let is_held = self.has_finalizer();
        if pods.is_empty()
            && self.phase.is_final()
            && is_held
            && let Some(any) = any
        {
            self.are_absent(&any);
        }
        // What its VM left behind (`--cascade=orphan`): nobody else knows any more which revision was its own.
        let status =
            self.vmi.status.as_ref().filter(|_| is_held && self.vmi.metadata.owner_references.is_empty());
        if let Some(name) = status.and_then(|status| status.virtual_machine_revision_name.clone())
            && is_revision(&name)
        {
            let namespace = self.vmi.metadata.namespace.clone().unwrap_or_default();
            let key = Key { kind: Kind::ControllerRevision, namespace, name };
            self.before.push(Step::Delete { key, uid: String::new() });
        }
        let keeps = is_looked_after(self.world, self.vmi);
        self.next.metadata.finalizers.retain(|finalizer| match finalizer.as_str() {
            FINALIZER => false,
            OF_VM => keeps,
            _ => true,
        });
    }

    /// Deletes a pod, and says so of one that was made for this VMI.
    pub(super) fn delete_pod(&mut self, pod: &Pod) {
        let name = pod.meta.name.as_deref().unwrap_or_default();
        let is_own = self.of.as_ref().is_some_and(|of| of.has(&pod.meta));
        if let Some(failed) = self.kept() {
            if is_own {
                self.say_kept(&format!("Failed to delete virtual machine pod {name}: {}", failed.message));
            }
            if failed.retry > self.now {
                return self.after.look_again(failed.retry);
            }
        }
        self.after.delete(key(Kind::Pod, &pod.meta), &pod.meta);
        if is_own {
            self.tell(false, "SuccessfulDelete", format!("Deleted virtual machine pod {name}"));
        }
    }

    /// Says that a pod could not be deleted; an event where that begins.
    fn say_kept(&mut self, message: &str) {
        let list = self.vmi.status.as_ref().map_or(&[][..], |status| &status.conditions);
        if !is_unsynchronized(list, &[KEPT]) {
            self.tell(true, KEPT, message);
        }
        self.say(ConditionType::Synchronized, "False", KEPT, message);
    }

    /// Takes back that a pod could not be deleted.
    fn forget_kept(&mut self) {
        if self.kept().is_none() && is_unsynchronized(&self.status().conditions, &[KEPT]) {
            conditions::drop(&mut self.status().conditions, &ConditionType::Synchronized);
        }
    }

    /// Nothing is wrong with the start of its pod. That one could not be deleted stays until [`Self::forget_kept`].
    pub(super) fn forget_trouble(&mut self) {
        if !is_unsynchronized(&self.status().conditions, &[KEPT]) {
            conditions::drop(&mut self.status().conditions, &ConditionType::Synchronized);
        }
    }

    /// A pod could not be deleted.
    fn kept(&self) -> Option<&'a Failure> {
        let failed = self.world.failures.get(&key(Kind::VirtualMachineInstance, &self.vmi.metadata));
        failed.filter(|failed| failed.about == Attempt::Delete(Kind::Pod))
    }
}

/// The VM that a VMI is a run of is there, and has to look at it before it may go.
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
