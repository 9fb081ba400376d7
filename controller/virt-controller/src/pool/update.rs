//! VMs of an older template, and VMIs of an older VM.
//!
//! ```text
//!              unmanaged    opportunistic    proactive
//! VM older     left         patched          patched; deleted, where its DataVolumes are others and it has a VMI (unless
//!                                            scaleInStrategy.unmanaged forbids it)
//! VMI older    left         left             restarted, within maxUnavailable; its label alone, where only that is older
//! ```
//!
//! A VM or a VMI without sums, or with sums of another rule, counts as one of the present template, and gets its sums.
//!
//! A VMI is restarted as `virtctl restart` does it, by requests to its VM. One that would not be started again is left.

use super::template::{Sums, revisions};
use super::{AT_ONCE, Pool, selection};
use crate::template;
use crate::vm::is_of;
use crate::vmi::phase;
use api::pool::{REVISION, max_unavailable};
use api::vm::{RunStrategy, StateChange, StateChangeRequest, VirtualMachine};
use api::vmi::{self, VirtualMachineInstance};
use api::wire::Wire;
use cluster_model::objects::{Kind, StoredObject as _, World, key};
use cluster_model::plan::Plan;

/// Updates VMs of an older template. `ours` includes VMs that are being deleted.
pub(super) fn update(world: &World, pool: &Pool<'_>, ours: &[&VirtualMachine], plan: &mut Plan) {
    let strategy = pool.spec.update_strategy.clone().unwrap_or_default();
    if strategy.unmanaged.is_some() {
        return;
    }
    let is_proactive = strategy.opportunistic.is_none();
    let deletes = pool.spec.scale_in_strategy.as_ref().is_none_or(|strategy| strategy.unmanaged.is_none());
    let policy = strategy.proactive.and_then(|proactive| proactive.selection_policy);
    let alive: Vec<&VirtualMachine> =
        ours.iter().copied().filter(|vm| vm.metadata.deletion_timestamp.is_none()).collect();
    let unavailable = ours.iter().filter(|vm| is_unavailable(world, vm)).count();
    let most = max_unavailable(pool.spec.max_unavailable.as_ref(), pool.wanted).unwrap_or(1);
    let mut room = most.saturating_sub(unavailable);
    // True if the VMI may be replaced now. A VMI that is not serving may always be.
    let mut may = |vmi: &VirtualMachineInstance| {
        let serves = is_ready(vmi);
        let is_permitted = !serves || room > 0;
        room -= usize::from(serves && is_permitted);
        is_permitted
    };
    let mut done = UpdateCounts { plan, changed: 0, left: revisions(ours) };
    let current = pool.template.revision(ours);
    let outdated =
        |vm: &VirtualMachine| Sums::from_vm(vm).is_some_and(|sums| sums.all != pool.template.sums.all);
    if alive.iter().any(|vm| outdated(vm)) {
        pool.template.create_revision(&current, &pool.object.object, done.plan);
    }
    for vm in selection::select(policy.as_ref(), &pool.template, &alive) {
        if done.changed >= AT_ONCE {
            break;
        }
        let Some(number) = pool.template.number(vm) else { continue };
        if pool.template.lacks_checksums(vm) {
            let next = pool.template.with_checksums(vm);
            done.plan.update(Kind::VirtualMachine, &vm.metadata, &vm.write(), &next.write(), true);
            done.changed += 1;
            continue;
        }
        let vmi = run_of(world, vm).filter(|vmi| vmi.metadata.deletion_timestamp.is_none());
        let keeps_disks = Sums::from_vm(vm).is_none_or(|sums| sums.disks == pool.template.sums.disks);
        if let Some(vmi) = vmi.filter(|_| is_proactive && deletes && !keeps_disks) {
            if may(vmi) {
                pool.delete(vm, done.plan);
                done.uncount_revision(vm);
            }
            continue;
        }
        if outdated(vm) {
            let next = pool.template.updated(world, vm, number, &current);
            done.plan.update(Kind::VirtualMachine, &vm.metadata, &vm.write(), &next.write(), true);
            done.record_event(pool, "SuccessfulUpdate", format!("Updated VM {}", name(vm)));
            done.uncount_revision(vm);
            continue;
        }
        let Some(vmi) = vmi.filter(|_| is_proactive) else { continue };
        if phase(vmi).is_final() || !restarts(vm) {
            continue;
        }
        if template::is_outdated(vm, vmi) {
            if may(vmi) {
                restart(vm, vmi, done.plan);
                done.record_event(
                    pool,
                    "SuccessfulDelete",
                    format!("Restarted VM {} to update its VMI", name(vm)),
                );
                done.changed += 1;
            }
        } else if let Some(label) = vm.metadata.labels.get(REVISION)
            && vmi.metadata.labels.get(REVISION) != Some(label)
        {
            let mut next = vmi.clone();
            next.metadata.labels.insert(REVISION.to_owned(), label.clone());
            let kind = Kind::VirtualMachineInstance;
            done.plan.update(kind, &vmi.metadata, &vmi.write(), &next.write(), false);
            done.changed += 1;
        }
    }
    let unnamed = done.left.into_iter().filter(|(name, count)| *count == 0 && *name != current);
    unnamed.for_each(|(name, _)| pool.template.drop(name, done.plan));
}

/// Progress of this update.
struct UpdateCounts<'a, 'b> {
    plan: &'a mut Plan,
    changed: usize,
    /// Number of VMs that still name each ControllerRevision.
    left: std::collections::BTreeMap<&'b str, usize>,
}

impl UpdateCounts<'_, '_> {
    fn record_event(&mut self, pool: &Pool<'_>, reason: &'static str, message: String) {
        self.plan.record_event(Kind::VirtualMachinePool, pool.object.meta(), false, reason, message);
    }

    /// A VM does not name its ControllerRevision any more.
    fn uncount_revision(&mut self, vm: &VirtualMachine) {
        self.changed += 1;
        if let Some(count) =
            vm.metadata.labels.get(REVISION).and_then(|name| self.left.get_mut(name.as_str()))
        {
            *count = count.saturating_sub(1);
        }
    }
}

/// The VMI of a VM.
fn run_of<'a>(world: &'a World, vm: &VirtualMachine) -> Option<&'a VirtualMachineInstance> {
    let at = key(Kind::VirtualMachine, &vm.metadata);
    world.vmis.get(&at.namespace, &at.name).filter(|vmi| is_of(vm, vmi))
}

fn is_ready(vmi: &VirtualMachineInstance) -> bool {
    let conditions = vmi.status.as_ref().map_or(&[][..], |status| &status.conditions);
    vmi.metadata.deletion_timestamp.is_none()
        && cluster_model::conditions::is_true(conditions, &vmi::ConditionType::Ready)
}

/// True if the VM's VMI is stopped and is started again, without a pending request.
fn restarts(vm: &VirtualMachine) -> bool {
    let strategy = vm.run_strategy();
    matches!(strategy, RunStrategy::Always | RunStrategy::RerunOnFailure | RunStrategy::Manual)
        && !is_asked(vm)
}

fn is_asked(vm: &VirtualMachine) -> bool {
    vm.status.as_ref().is_some_and(|status| !status.state_change_requests.is_empty())
}

fn restart(vm: &VirtualMachine, vmi: &VirtualMachineInstance, plan: &mut Plan) {
    let stop = StateChangeRequest {
        action: StateChange::Stop,
        uid: vmi.metadata.uid.clone(),
        ..StateChangeRequest::default()
    };
    let start = StateChangeRequest { action: StateChange::Start, ..StateChangeRequest::default() };
    let mut next = vm.clone();
    next.status.get_or_insert_default().state_change_requests = vec![stop, start];
    plan.update(Kind::VirtualMachine, &vm.metadata, &vm.write(), &next.write(), true);
}

/// True if the VM should be running but is not serving, or will stop serving in a moment.
fn is_unavailable(world: &World, vm: &VirtualMachine) -> bool {
    vm.metadata.deletion_timestamp.is_some()
        || is_asked(vm)
        || match run_of(world, vm) {
            Some(vmi) => !is_ready(vmi),
            None => matches!(vm.run_strategy(), RunStrategy::Always | RunStrategy::RerunOnFailure),
        }
}

fn name(vm: &VirtualMachine) -> String {
    let at = key(Kind::VirtualMachine, &vm.metadata);
    format!("{}/{}", at.namespace, at.name)
}
