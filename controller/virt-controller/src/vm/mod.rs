//! VMs: their VMIs, and their status.
//!
//! ```text
//! spec.runStrategy ─┐
//! change requests ──┼─► strategy: Act ─► VMI made, deleted, or left
//! the VMI ──────────┘        │
//!                            └─► status: printableStatus, conditions, start failures, requests that are done
//! ```
//!
//! **Flow.** The VM is completed (finalizer, firmware uuid), its instance type and preference are found (sizes), its
//! DataVolumes are made, its run strategy says what becomes of the VMI, and its status says what is seen.
//! **Guarantees.** The VMI has the VM's name, so there is never more than one. A VMI is deleted by its
//! uid. A request is taken off the list only when what it asks for is seen to be done, or when the VM is halted: it does not start for
//! what was asked before.
//! **Assumptions.** Only the API server of KubeVirt writes change requests.
//! **Caveats.** `status.runStrategy` says under which strategy a VMI was last seen: by it `Once` and
//! `RerunOnFailure` know their first start. A VMI that comes and goes unseen would be started again. A plan that
//! breaks off when a VMI was let go and its revision was not, leaves that one until the VM goes: the other way
//! round a late plan would take the revision of the next VMI, which has the same name.

mod carrier;
mod change;
mod disks;
mod failure;
mod links;
mod moved;
mod observed;
mod printable;
#[cfg(test)]
mod rename_tests;
pub(crate) mod revision;
#[cfg(test)]
mod run_end_tests;
pub(crate) mod sizes;
#[cfg(test)]
mod sizes_tests;
mod status;
mod strategy;
#[cfg(test)]
mod tests;
mod trouble;
#[cfg(test)]
mod trouble_tests;

pub(crate) use carrier::{
    migration_of as carried_by, prepare_target, refusal as carrier_refusal, wait_reason as carrier_wait,
};
pub(crate) use observed::observed;
pub(crate) use sizes::expanded_now;

use crate::template;
use crate::vmi::volume_update;
use api::vm::{RunStrategy, VirtualMachine};
use api::vmi::VirtualMachineInstance;
use api::wire::Wire;
use cluster_model::metadata::{FENCING, OFFLINE_MIGRATION, RESERVED};
use cluster_model::objects::{Attempt, Failure, Key, Kind, OF_VM, World, key, owner};
use cluster_model::plan::{Plan, Step};
use jiff::Timestamp;
use serde_json::json;
use strategy::Act;
use trouble::VmProblem;

/// The finalizer that we take off a VM when its VMI is gone.
const FINALIZER: &str = "kubevirt.io/virtualMachineControllerFinalize";
/// Finalizer of the garbage collector for a deletion that keeps the VM's objects.
const ORPHAN: &str = "orphan";

/// Plan for a VM.
pub(crate) fn decide(world: &World, namespace: &str, name: &str, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let Some(vm) = world.vms.get(namespace, name) else { return plan };
    let found = world.vmis.get(namespace, name);
    let vmi = found.filter(|vmi| is_of(vm, vmi));
    let run = carrier::run_of(vmi);
    let failed = world.failures.get(&key(Kind::VirtualMachine, &vm.metadata));
    let mut next = vm.clone();

    if vm.metadata.deletion_timestamp.is_some() {
        delete(vm, (vmi, found), &mut next, (failed, now), &mut plan);
    } else {
        complete(&mut next);
        let sizes = sizes::resolve(world, &mut next, vmi.is_some(), now);
        let strategy = vm.run_strategy();
        failure::count(&mut next, run, now);
        change::forget_if_halted(&mut next, &strategy);
        vmi.into_iter().for_each(|vmi| moved::take(&mut next, vmi));
        let update = volume_update::find(world, &next, run);
        volume_update::record(world, &mut next, &update, run);
        let disks = disks::find(world, &next, vmi).unless_broken(&update);
        let act = strategy::decide(&next, &strategy, run, now);
        let act = carrier::decide(world, vm, vmi, &act).unwrap_or(act);
        if disks.carried {
            // The end of a migration whose finalizer was removed is told to nobody.
            plan.look_again(now.checked_add(carrier::LOOKS_AGAIN).unwrap_or(now));
        }
        // Another owner's VMI has the name.
        let taken = found
            .filter(|_| matches!(act, Act::Start { .. }))
            .map(|_| {
                format!(
                    "the VirtualMachineInstance {name} exists already and does not belong to this VirtualMachine: \
                     delete it, or give this VirtualMachine another name"
                )
            });
        if matches!(act, Act::Start { .. } | Act::Wait { .. }) || vmi.is_some() || disks::at_once(vm) {
            let policy = world.config().annotations;
            disks::make(vm, &disks, policy, failed, now, &mut plan);
        }
        if let Ok(sizes) = &sizes {
            sizes.record(&mut next, failed, now, &mut plan);
        }
        // Inferred names are written first, because the VMI is created from them.
        let is_sized = sizes.as_ref().is_ok_and(|sizes| !sizes.is_inferred);
        match act {
            Act::Start { .. } if taken.is_some() || !is_sized => {}
            Act::Carry if !is_sized => {}
            Act::Start { .. } if disks.blocks().is_some() => {}
            Act::Start { paused } => match retry(failed, now) {
                Some(later) => plan.look_again(later),
                None => {
                    let expanded = sizes.as_ref().ok().and_then(|sizes| sizes.expanded.as_ref());
                    start(world, vm, expanded.unwrap_or(vm), paused, &mut plan);
                }
            },
            Act::Carry => match retry(failed, now) {
                Some(later) => plan.look_again(later),
                None => {
                    let expanded = sizes.as_ref().ok().and_then(|sizes| sizes.expanded.as_ref());
                    carrier::create(world, vm, expanded.unwrap_or(vm), &disks, &mut plan);
                }
            },
            Act::Wait { until } => plan.look_again(until),
            Act::Stop => stop(vm, vmi, (failed, now), &mut plan),
            Act::Run => next.spec.run_strategy = Some(RunStrategy::Always),
            Act::Leave => {}
        }
        if next.spec.run_strategy != vm.spec.run_strategy {
            next.spec.running = None;
        }
        change::remove_done(&mut next, &strategy, run);
        let trouble = taken.as_deref().map(|why| VmProblem::new("FailedCreate", why));
        let of_sizes = sizes.as_ref().err().map(|problem| VmProblem::new(problem.reason, &problem.message));
        let trouble = trouble.or(of_sizes).or(disks.denied());
        let trouble = trouble.or(failed.map(|failed| VmProblem::from_failure(failed, disks.next_missing())));
        status::write(&mut next, &strategy, run, (&disks, &update), trouble, now);
        trouble.into_iter().for_each(|trouble| trouble.record_event(vm, &next, &mut plan));
    }
    let made = std::mem::take(&mut plan.steps);
    plan.update(Kind::VirtualMachine, &vm.metadata, &vm.write(), &next.write(), true);
    // A status that records an object (a counted failure) must be written before the object is deleted. A
    // creation may come first, since the created object is visible, and so does what it depends on.
    let (first, last): (Vec<_>, Vec<_>) = made.into_iter().partition(|step| {
        matches!(step, Step::Create { .. } | Step::RecordEvent(_)) || step.is_requirement()
    });
    let patches = std::mem::replace(&mut plan.steps, first);
    plan.steps.extend(patches);
    plan.steps.extend(last);
    // One plan writes a VMI once.
    if let Some(vmi) = vmi
        && !moved::settle(vm, vmi, &mut plan)
    {
        if run.is_some() {
            links::sync_states(vm, vmi, &mut plan);
            revision::note(vm, vmi, &mut plan);
        }
        release_vmi(vm, vmi, &mut plan);
    }
    plan
}

/// Time of the next attempt to create the VMI, where the last one failed.
fn retry(failed: Option<&Failure>, now: Timestamp) -> Option<Timestamp> {
    let failed =
        failed.filter(|failed| failed.about != Attempt::Make(Kind::DataVolume) && failed.retry > now);
    failed.map(|failed| failed.retry)
}

/// True if the VM is the controller of the VMI.
pub(crate) fn is_of(vm: &VirtualMachine, vmi: &VirtualMachineInstance) -> bool {
    owner::controller(&vmi.metadata)
        .is_some_and(|owner| Some(owner.uid.as_str()) == vm.metadata.uid.as_deref())
}

/// Adds the fields that a VM has by default.
fn complete(vm: &mut VirtualMachine) {
    if !vm.metadata.finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        vm.metadata.finalizers.push(FINALIZER.to_owned());
    }
    // The webhook gives each new VM a uuid. An older VM has the uuid of its name permanently.
    let name = vm.metadata.name.clone().unwrap_or_default();
    if let Some(template) = &mut vm.spec.template {
        let firmware = template.spec.domain.firmware.get_or_insert_default();
        if firmware.uuid.as_deref().unwrap_or_default().is_empty() {
            firmware.uuid = Some(api::uuid::of_vm(&name));
        }
    }
}

/// `found`: the object with the name of its VMI, also of another owner.
fn delete(
    vm: &VirtualMachine,
    (vmi, found): (Option<&VirtualMachineInstance>, Option<&VirtualMachineInstance>),
    next: &mut VirtualMachine,
    (failed, now): (Option<&Failure>, Timestamp),
    plan: &mut Plan,
) {
    let orphaned = vm.metadata.finalizers.iter().any(|finalizer| finalizer == ORPHAN);
    match vmi {
        Some(there) if !orphaned => {
            let kept = failed.filter(|failed| matches!(failed.about, Attempt::Delete(_)));
            let trouble = kept.map(|failed| VmProblem::from_failure(failed, None));
            status::terminating(next, there, trouble, now);
            trouble.into_iter().for_each(|trouble| trouble.record_event(vm, next, plan));
            stop(vm, vmi, (failed, now), plan);
        }
        // Without our finalizer the VM may be gone at once, and its status with it, so no status is written.
        _ => {
            next.metadata.finalizers.retain(|finalizer| finalizer != FINALIZER);
            // What stays must not wait for a VM that is gone.
            if let Some(vmi) = vmi.or(found).filter(|_| orphaned) {
                let mut free = vmi.clone();
                free.metadata.finalizers.retain(|finalizer| finalizer != OF_VM);
                plan.update(Kind::VirtualMachineInstance, &vmi.metadata, &vmi.write(), &free.write(), false);
            }
        }
    }
}

/// `expanded`: the VM with the values of its instance type and its preference.
fn start(world: &World, vm: &VirtualMachine, expanded: &VirtualMachine, paused: bool, plan: &mut Plan) {
    let Some(mut vmi) = api::defaults::vmi_of(expanded) else { return };
    sizes::annotate(vm, &mut vmi);
    let uid = vm.metadata.uid.clone().unwrap_or_default();
    let name = vm.metadata.name.clone().unwrap_or_default();
    let generation = vm.metadata.generation.unwrap_or_default();
    if let Some(firmware) = Some(vmi.spec.domain.firmware.get_or_insert_default())
        && firmware.uuid.as_deref().unwrap_or_default().is_empty()
    {
        firmware.uuid = Some(api::uuid::of_vm(&name));
    }
    if paused {
        vmi.spec.start_strategy = Some(api::vmi::StartStrategy::Paused);
    }
    // Complete as the webhook would make it: then the status may already say of which revision it is. Presets that contradict
    // each other are for the webhook to refuse.
    let presets = world.presets.in_namespace(vm.metadata.namespace.as_deref().unwrap_or_default());
    drop(api::preset::apply(presets, &mut vmi));
    api::defaults::apply(&mut vmi, &world.config().defaults_context(api::uuid::of_vm(&name)));
    let revision = revision::name(&uid, generation);
    vmi.status.get_or_insert_default().virtual_machine_revision_name = Some(revision.clone());
    let meta = &mut vmi.metadata;
    meta.annotations.remove(FENCING);
    meta.annotations.remove(OFFLINE_MIGRATION);
    // Our programs find VMIs by these labels, and trust their values.
    meta.labels.retain(|key, _| !RESERVED.contains(&key.as_str()));
    meta.annotations.insert(revision::GENERATION.to_owned(), generation.to_string());
    meta.annotations.insert(template::SUM.to_owned(), template::sum(vm));
    meta.finalizers.push(OF_VM.to_owned());
    let mut object = vmi.write();
    object["metadata"]["ownerReferences"] = json!([owner::reference(Kind::VirtualMachine, &vm.metadata)]);
    let namespace = vm.metadata.namespace.clone().unwrap_or_default();
    plan.create(
        Key::new(Kind::ControllerRevision, namespace.clone(), revision),
        revision::object(vm, generation),
    );
    plan.create(Key::new(Kind::VirtualMachineInstance, namespace, name.clone()), object);
    let message = format!("Started the virtual machine by creating the new virtual machine instance {name}");
    plan.record_event(Kind::VirtualMachine, &vm.metadata, false, "SuccessfulCreate", message);
}

fn stop(
    vm: &VirtualMachine,
    vmi: Option<&VirtualMachineInstance>,
    (failed, now): (Option<&Failure>, Timestamp),
    plan: &mut Plan,
) {
    let Some(vmi) = vmi.filter(|vmi| vmi.metadata.deletion_timestamp.is_none()) else { return };
    let kept = failed.filter(|failed| matches!(failed.about, Attempt::Delete(_)) && failed.retry > now);
    if let Some(failed) = kept {
        return plan.look_again(failed.retry);
    }
    plan.delete(key(Kind::VirtualMachineInstance, &vmi.metadata), &vmi.metadata);
    let name = vmi.metadata.name.as_deref().unwrap_or_default();
    let message = format!("Stopped the virtual machine by deleting the virtual machine instance {name}");
    plan.record_event(Kind::VirtualMachine, &vm.metadata, false, "SuccessfulDelete", message);
}

/// Releases a VMI that has ended and whose end was recorded.
fn release_vmi(vm: &VirtualMachine, vmi: &VirtualMachineInstance, plan: &mut Plan) {
    let holds = vmi.metadata.finalizers.iter().any(|finalizer| finalizer == OF_VM);
    if !holds || vmi.metadata.deletion_timestamp.is_none() || !super::vmi::phase(vmi).is_final() {
        return;
    }
    let mut free = vmi.clone();
    free.metadata.finalizers.retain(|finalizer| finalizer != OF_VM);
    plan.update(Kind::VirtualMachineInstance, &vmi.metadata, &vmi.write(), &free.write(), false);
    if let Some(revision) =
        vmi.status.as_ref().and_then(|status| status.virtual_machine_revision_name.clone())
        && revision::is_of(vm, &revision)
    {
        let namespace = vmi.metadata.namespace.clone().unwrap_or_default();
        plan.steps.push(Step::Delete {
            key: Key::new(Kind::ControllerRevision, namespace, revision),
            uid: String::new(),
            version: String::new(),
        });
    }
}
