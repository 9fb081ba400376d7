//! Pools: so many VMs of one template, each with a number and with disks of its own.
//!
//! ```text
//! spec.virtualMachineTemplate ─ template ─► VM NAME-0, NAME-1, …   its sums: which state of the template a VM has
//!            │                                   │
//!            │    too few: made; too many: selection says which go
//!            └─ older sums: update ─► VM patched, or deleted where its disks are others ─► its VMI deleted, made anew
//! ```
//!
//! **Flow.** VMs whose labels the selector does not take any more are let go. Then the number is made right; only when it is, VMs
//! of an older template are updated. What fails to start is replaced (`autohealing`).
//! **Guarantees.** A VM is named after a free number: with an old picture the same name is made again, and the server says that
//! it is there. A VM that is being deleted keeps its place until it is gone. `maxUnavailable` counts VMIs as they are, so that a
//! VMI that was just deleted counts. A VM is deleted only if it has not changed since the decision: one that its user has
//! just taken out is kept. The number is counted at the API server, and the choice is in the VM before it is deleted
//! (`scale_in`). The answer to a deletion is in the World before the next decision, and the server is asked about a deletion
//! whose answer was lost, so that no other VM is chosen in its place. A pool that is paused makes, updates and deletes nothing;
//! which VMs are its own it decides as ever, as upstream's does: one that the selector does not take is let go. A pool whose
//! spec cannot be done says so and does nothing. A ControllerRevision is deleted only where it is the pool's own.
//! **Assumptions.** Its VMs are those that it owns; one that merely has the labels is left alone.
//! **Caveats.** That the pool has not changed is asked once, before the first of up to `AT_ONCE` deletions: a larger
//! `replicas`, or a pause, in the second after that keeps none of them. The next plan makes the number right. The
//! ControllerRevisions are for people: no decision reads them. One whose deletion fails stays until the pool goes.

mod autohealing;
mod hardware;
mod metadata;
mod selection;
mod template;
#[cfg(test)]
mod tests;
mod update;

pub(crate) use autohealing::observe;

use super::replicas::{AT_ONCE, condition, set_count, text_of};
use super::scale_in::{self, ScaleIn, released};
use api::fault::Fault;
use api::pool::{self, SelectionPolicy, Spec, VirtualMachinePool, max_unavailable};
use api::vm::{ConditionType, VirtualMachine};
use api::wire::{self, Wire};
use cluster_model::conditions::status_of;
use cluster_model::objects::{
    Failure, Key, Kind, LauncherPods, Plain, StoredObject as _, World, claims_of, key,
};
use cluster_model::plan::{Plan, Step};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeSet;
use template::Template;

/// Reason and message of a problem.
type PoolProblem = (&'static str, String);

/// Input of a pool's reconciliation.
struct Pool<'a> {
    object: &'a Plain,
    spec: Spec,
    template: Template,
    wanted: usize,
    /// A VM could not be changed, and the next try is not due.
    is_held: bool,
}

/// Plan for a pool.
pub(crate) fn decide(world: &World, namespace: &str, name: &str, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let Some(object) = world.pools.get(namespace, name) else { return plan };
    let Some(uid) = object.meta().uid.as_deref() else { return plan };
    // Foreground deletion waits for the VMs, which the garbage collector deletes.
    if object.meta().deletion_timestamp.is_some() {
        return plan;
    }
    let failed = world.failures.get(&key(Kind::VirtualMachinePool, object.meta()));
    let mut unread = Vec::new();
    let read = wire::read_in_part::<VirtualMachinePool>(object.object.clone(), &mut unread);
    let spec = read.map(|pool| pool.spec).unwrap_or_default();
    unread.retain(|fault| fault.field.starts_with("spec"));
    let paused = spec.paused.unwrap_or(false);
    let (ours, strangers): (Vec<&VirtualMachine>, Vec<_>) = world.vms_of(namespace, uid).partition(|vm| {
        // One that is leaving anyway is still counted.
        vm.metadata.deletion_timestamp.is_some() || spec.selector.matches(&vm.metadata.labels)
    });
    let mut trouble = None;
    let held = scale_in::held_until(failed, now);
    match Pool::parse(object, spec, unread, held.is_some()) {
        Err(why) => trouble = Some(why),
        Ok(pool) => {
            held.into_iter().for_each(|until| plan.look_again(until));
            for vm in strangers.iter().take(AT_ONCE).filter(|_| held.is_none()) {
                release_vm(vm, uid, &mut plan);
            }
            match paused {
                true => pool.rules_of_scale_in().keep(&ours, &mut plan),
                false => trouble = pool.scale(world, &ours, failed, now, &mut plan),
            }
        }
    }
    let refused = failed.map(|failed| (scale_in::reason(failed, "FailedScaleOut"), failed.message.clone()));
    let trouble = refused.or(trouble);
    write_status(object, &ours, paused, trouble, now, &mut plan);
    plan
}

impl<'a> Pool<'a> {
    /// A pool that can be looked after, or why it cannot.
    /// `unread`: fields of its spec that cannot be read. The remaining spec is not the requested one.
    fn parse(
        object: &'a Plain,
        spec: Spec,
        unread: Vec<Fault>,
        is_held: bool,
    ) -> Result<Pool<'a>, PoolProblem> {
        let invalid = |why: String| ("InvalidSpec", why);
        if let Some(fault) = unread.into_iter().chain(pool::faults(&spec)).next() {
            return Err(invalid(fault.to_string()));
        }
        let Some(made) = &spec.virtual_machine_template else {
            return Err(invalid("spec.virtualMachineTemplate: missing virtual machine template.".to_owned()));
        };
        let labels = made.metadata.as_ref().map(|metadata| metadata.labels.clone()).unwrap_or_default();
        if spec.selector.is_empty() || !spec.selector.matches(&labels) {
            return Err(invalid("spec.selector: selector does not match labels.".to_owned()));
        }
        let template = Template::new(object.meta(), made.clone(), spec.name_generation.clone());
        let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or_default();
        Ok(Pool { object, spec, template, wanted, is_held })
    }

    /// Brings the VMs to their number and to their template.
    fn scale(
        &self,
        world: &World,
        ours: &[&VirtualMachine],
        failed: Option<&Failure>,
        now: Timestamp,
        plan: &mut Plan,
    ) -> Option<PoolProblem> {
        let (alive, going): (Vec<&VirtualMachine>, Vec<_>) =
            ours.iter().copied().partition(|vm| vm.metadata.deletion_timestamp.is_none());
        if let Some(healing) = &self.spec.autohealing {
            let ill = autohealing::vms_to_replace(world, &alive, healing, now, plan);
            // The default is one, because the disks of a VM are deleted with it.
            let said = self.spec.max_unavailable.as_ref();
            let most = said.and_then(|said| max_unavailable(Some(said), self.wanted)).unwrap_or(1);
            // A VM that is gone and not made anew yet is on its way, too.
            let on_way = going.len().max(self.wanted.saturating_sub(alive.len()));
            let healed = autohealing::healed(ill, &alive, healing, (most, on_way), now, plan);
            if !healed.is_empty() {
                for vm in healed {
                    require_unchanged(world, vm, plan);
                    self.delete(vm, plan);
                }
                return None;
            }
        }
        let strategy = self.spec.scale_in_strategy.clone().unwrap_or_default();
        let deletes = strategy.unmanaged.is_none() && strategy.opportunistic.is_none();
        if alive.len() > self.wanted && deletes {
            let policy = strategy.proactive.and_then(|proactive| proactive.selection_policy);
            return self.scale_in(policy.as_ref(), &alive, plan);
        }
        self.rules_of_scale_in().keep(ours, plan);
        let missing = self.wanted.saturating_sub(alive.len() + going.len());
        if missing == 0 {
            update::update(world, self, ours, plan);
            return None;
        }
        match failed.filter(|failed| failed.retry > now) {
            Some(failed) => plan.look_again(failed.retry),
            None => self.scale_out(world, ours, missing, plan),
        }
        None
    }

    fn scale_out(&self, world: &World, ours: &[&VirtualMachine], missing: usize, plan: &mut Plan) {
        let meta = self.object.meta();
        let namespace = meta.namespace.clone().unwrap_or_default();
        let taken: BTreeSet<&str> =
            world.vms.in_namespace(&namespace).filter_map(|vm| vm.metadata.name.as_deref()).collect();
        let revision = self.template.revision(ours);
        // VMs are created before others are changed: a refusal of a change does not hold that up.
        let changes = std::mem::take(&mut plan.steps);
        self.template.create_revision(&revision, &self.object.object, plan);
        let free = (0..).filter(|number| !taken.contains(self.template.name(*number).as_str()));
        for number in free.take(missing.min(AT_ONCE)) {
            let vm = self.template.vm(number, &revision);
            let name = self.template.name(number);
            let message = format!("Created VM {namespace}/{name}");
            plan.create(Key::new(Kind::VirtualMachine, &*namespace, name), vm.write());
            plan.record_event(Kind::VirtualMachinePool, meta, false, "SuccessfulCreate", message);
        }
        plan.steps.extend(changes);
    }

    fn scale_in(
        &self,
        policy: Option<&SelectionPolicy>,
        alive: &[&VirtualMachine],
        plan: &mut Plan,
    ) -> Option<PoolProblem> {
        let selected = selection::select(policy, &self.template, alive);
        let (excess, count) = (alive.len() - self.wanted, selected.len());
        for vm in self.rules_of_scale_in().choose(alive, selected, plan) {
            self.delete(vm, plan);
        }
        (count < excess).then(|| {
            let why = format!(
                "{excess} VMs are to be deleted, and spec.scaleInStrategy.proactive.selectionPolicy.selectors matches only {count}: \
                 change the selectors, or spec.replicas"
            );
            (scale_in::REASON, why)
        })
    }

    fn rules_of_scale_in(&self) -> ScaleIn<'_> {
        ScaleIn {
            owner: (Kind::VirtualMachinePool, self.object),
            kind: Kind::VirtualMachine,
            selector: &self.spec.selector,
            wanted: self.wanted,
            is_held: self.is_held,
        }
    }

    /// Deletes a VM, if it has not changed since the decision, nor the pool before the first deletion of the plan.
    fn delete(&self, vm: &VirtualMachine, plan: &mut Plan) {
        let at = key(Kind::VirtualMachine, &vm.metadata);
        let message = format!(
            "Deleted VM {}/{} with uid {} from pool",
            at.namespace,
            at.name,
            vm.metadata.uid.as_deref().unwrap_or_default()
        );
        plan.require_unchanged(Kind::VirtualMachinePool, self.object.meta());
        plan.delete_unchanged(at, &vm.metadata);
        plan.record_event(Kind::VirtualMachinePool, self.object.meta(), false, "SuccessfulDelete", message);
    }
}

/// Requires that a VM, its VMI, its launcher pods and its disks are still as they were seen, by changes that change nothing: what has
/// begun to run meanwhile is not replaced. The watch of one of these kinds may be silent while the others are not.
fn require_unchanged(world: &World, vm: &VirtualMachine, plan: &mut Plan) {
    let at = key(Kind::VirtualMachineInstance, &vm.metadata);
    plan.require_unchanged(Kind::VirtualMachine, &vm.metadata);
    let Some(vmi) = world.vmis.get(&at.namespace, &at.name) else {
        return plan.steps.push(Step::RequireAbsent { key: at, of: None });
    };
    plan.require_unchanged(Kind::VirtualMachineInstance, &vmi.metadata);
    if let Some(own) = LauncherPods::for_vmi(vmi) {
        let pods = world.launcher_pods(&own);
        pods.iter().for_each(|pod| plan.require_unchanged(Kind::Pod, &pod.meta));
        if pods.is_empty() {
            plan.steps.extend(own.keys().map(|key| Step::RequireAbsent { key, of: Some(own.clone()) }));
        }
    }
    for name in claims_of(vmi) {
        let volume = world.data_volumes.get(&at.namespace, &name).map(|volume| &volume.metadata);
        match world.pvcs.get(&at.namespace, &name) {
            Some(claim) => plan.require_unchanged(Kind::PersistentVolumeClaim, &claim.meta),
            None => {
                let key = Key::new(Kind::PersistentVolumeClaim, &*at.namespace, name);
                plan.steps.push(Step::RequireAbsent { key, of: None });
            }
        }
        volume.into_iter().for_each(|meta| plan.require_unchanged(Kind::DataVolume, meta));
    }
}

/// A VM leaves the pool, and stays.
fn release_vm(vm: &VirtualMachine, uid: &str, plan: &mut Plan) {
    let mut free = vm.clone();
    free.metadata = released(&vm.metadata, uid);
    plan.update(Kind::VirtualMachine, &vm.metadata, &vm.write(), &free.write(), true);
}

/// True if the VM has a VMI that is ready.
fn is_ready(vm: &VirtualMachine) -> bool {
    vm.metadata.deletion_timestamp.is_none()
        && vm.status.as_ref().is_some_and(|status| {
            let ready = status.conditions.iter().find(|condition| condition.r#type == ConditionType::Ready);
            ready.is_some_and(|ready| ready.status == "True")
        })
}

/// Status before all steps, so that an event about a pause is sent once.
fn write_status(
    object: &Plain,
    ours: &[&VirtualMachine],
    paused: bool,
    trouble: Option<PoolProblem>,
    now: Timestamp,
    plan: &mut Plan,
) {
    let mut next = object.object.clone();
    let has = |kind: &str| {
        let conditions = object.object["status"]["conditions"].as_array();
        conditions.is_some_and(|list| list.iter().any(|one| one["type"] == kind))
    };
    let (was_paused, was_in_trouble) = (has("ReplicaPaused"), has("ReplicaFailure"));
    let status = status_of(&mut next);
    set_count(status, "replicas", ours.len());
    set_count(status, "readyReplicas", ours.iter().filter(|vm| is_ready(vm)).count());
    if let Some(selector) = text_of(&object.object["spec"]["selector"]) {
        status["labelSelector"] = Value::from(selector);
    }
    condition(
        status,
        pool::ConditionType::ReplicaPaused,
        paused.then_some(("SuccessfulPaused", "Pool controller is paused")),
        now,
    );
    let said = trouble.as_ref().map(|(reason, message)| (*reason, message.as_str()));
    condition(status, pool::ConditionType::ReplicaFailure, said, now);

    let done = std::mem::take(&mut plan.steps);
    plan.update(Kind::VirtualMachinePool, object.meta(), &object.object, &next, true);
    let mut tell = |warning, reason, message: &str| {
        plan.record_event(Kind::VirtualMachinePool, object.meta(), warning, reason, message);
    };
    match (was_paused, paused) {
        (false, true) => tell(false, "SuccessfulPaused", "Pool is paused"),
        (true, false) => tell(false, "SuccessfulResume", "Pool is unpaused"),
        _ => {}
    }
    if let Some((reason, message)) = trouble.filter(|_| !was_in_trouble) {
        tell(true, reason, &message);
    }
    plan.steps.extend(done);
}
