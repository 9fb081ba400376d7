//! VMIs: one run of a VM each, from its object to its pod, until virt-handler has it; and its end.
//!
//! ```text
//!            needs are there            pod runs: hand-over          virt-handler
//! Pending ─────────────────► Scheduling ──────────────► Scheduled ──────────► Running ──► Succeeded, Failed
//!    │  pod is made             │ pod is lost, ended        │ pod is lost         │             │
//!    ▼                          ▼                           ▼                     ▼             ▼
//!  Failed (deleted,          Failed                      Failed                Failed     pod down: finalizers go
//!  volume failed)
//! ```
//!
//! **Design.** [`decide`] is read from top to bottom:
//!
//! ```text
//!  World, name ─► VmiReconcile ─► reconcile: pending, scheduling, handed_over or migrating ─► ready, eviction, volumes ─► end ─► Outcome ─► Plan
//!                 (one input value)         (by the phase)                          (what the phase leads to)
//! ```
//!
//! A step is a function of a [`VmiReconcile`] that returns an [`Outcome`]: changes of the VMI, steps before and after it is written,
//! events. No step changes its input. [`Outcome::plan`] writes phase, conditions and finalizers in one request.
//!
//! | file | content |
//! |---|---|
//! | `pending`, `needs`, `waiting` | until the pod is made: PVCs and their content, conditions of a VMI that waits |
//! | `disk_conflict`, `state` | another VMI with the same PVC; the PVC of EFI variables and TPM |
//! | `scheduling`, `pod_state`, `claimed`, `networks`, `vsock` | until the hand-over: the pod, devices of ResourceClaims, networks of Multus, the CID |
//! | `handed_over`, `migrating` | while virt-handler has the VMI; while its guest migrates to another node |
//! | `moved_claims` | PVCs whose disks a live migration copies into new ones |
//! | `launcher_pod` | the launcher pod as a value, for the start and for live migrations |
//! | `ready`, `eviction`, `volumes`, `outdated` | conditions Ready and EvictionRequested, status of PVCs, label of an older launcher |
//! | `end`, `name_conflict` | deletion of the pods and of the finalizer; a pod of another owner with the launcher's name |
//! | `outcome` | the result of steps, and the plan that follows from it |
//!
//! **Guarantees.** Never two pods for one attempt (their name follows from the uid and the attempt), and one that may run
//! the guest ([`LauncherPods`]). A phase changes only as `Phase::may_become` permits. A pod of which a container has ended before the
//! hand-over has ended as a whole: the kubelet does not start that container again, and the guest needs it. A VMI that waits has the
//! cause in a condition, in the words of the scheduler, the kubelet or the API server.
//! **Assumptions.** From `Scheduled` on, only virt-handler reports `Running` and the end; only a pod that is gone,
//! or over for [`PATIENCE`] without a report of virt-handler, ends a VMI from here: as its launcher left it to the kubelet, where it did.
//! **Caveats.** A pod on a node that is lost is gone only when the node is back, or the pod is deleted by force. Until then
//! the VMI stays, and says what it waits for, so that no second VMI writes to its disk.

mod claimed;
mod copied_claims;
mod disk_conflict;
mod end;
#[cfg(test)]
mod ending_tests;
mod eviction;
mod handed_over;
pub(crate) mod launcher_pod;
pub(crate) mod migrating;
mod moved_claims;
mod name_conflict;
#[cfg(test)]
mod name_conflict_tests;
mod needs;
mod networks;
mod outcome;
mod outdated;
mod pending;
pub(crate) mod pod_state;
#[cfg(test)]
mod pod_tests;
mod ready;
mod scheduling;
mod state;
#[cfg(test)]
mod tests;
pub(crate) mod volume_update;
mod volumes;
mod volumes_change;
mod vsock;
mod waiting;
#[cfg(test)]
mod waiting_tests;

pub(crate) use copied_claims::{CopiedClaim, copied_claims, copied_without_update, unmovable_stopped};
pub(crate) use moved_claims::{abandon, free};
pub(crate) use needs::wait_for_disks;
pub(crate) use outdated::is_outdated;
pub(crate) use state::keeps_state;
pub(crate) use volumes::claim_info;

use api::machine::Machine;
use api::vm::VirtualMachine;
use api::vmi::{ConditionType, Phase, VirtualMachineInstance};
use cluster_model::conditions;
use cluster_model::config::Config;
use cluster_model::objects::{
    FINALIZER, IndexKey, Key, Kind, LauncherPods, Pod, World, is_waiting, key, owner,
};
use cluster_model::plan::Plan;
use jiff::{SignedDuration, Timestamp};
use outcome::{Change, Outcome};

/// Label of a VMI with the name of its node, by which virt-handler finds it.
pub(crate) const NODE: &str = "kubevirt.io/nodeName";
/// Label of a VMI with the name of the node that it migrates to, by which that virt-handler finds it.
pub(crate) const MIGRATION_TARGET: &str = "kubevirt.io/migrationTargetNodeName";
/// The time that virt-handler has to report the end of a VMI whose pod is over.
pub(crate) const PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// The phase of a VMI.
pub(crate) fn phase(vmi: &VirtualMachineInstance) -> Phase {
    vmi.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default()
}

/// A VMI with all its defaults. The webhook fills them in; where it was not installed they are the same, in memory only.
fn with_defaults(vmi: &VirtualMachineInstance, config: &Config) -> VirtualMachineInstance {
    let mut whole = vmi.clone();
    let name = whole.metadata.name.clone().unwrap_or_default();
    api::defaults::apply(&mut whole, &config.defaults_context(api::uuid::of_vm(&name)));
    whole
}

/// A VMI with all its defaults, and its checked spec, a `Machine`, by the settings of the cluster. `None` if no pod is made of it.
pub(crate) fn checked(
    world: &World,
    vmi: &VirtualMachineInstance,
    config: &Config,
) -> Option<(VirtualMachineInstance, Machine)> {
    let whole = with_defaults(vmi, config);
    let machine = Machine::check(&whole, world.permissions()?).ok()?;
    Some((whole, machine))
}

/// True where a plan for a waiting VMI is being carried out that may create its launcher pod.
pub(crate) fn may_get_pod(world: &World, vmi: &VirtualMachineInstance) -> bool {
    is_waiting(vmi)
        && world.busy.contains(&key_of(vmi))
        && matches!(needs::find(world, vmi), needs::DiskNeeds::There(_))
}

/// The VM of a VMI, where it exists.
pub(crate) fn vm_of<'a>(world: &'a World, vmi: &VirtualMachineInstance) -> Option<&'a VirtualMachine> {
    let owner = owner::controller(&vmi.metadata).filter(|owner| owner.kind == Kind::VirtualMachine.name())?;
    let vm = world.vms.get(vmi.metadata.namespace.as_deref().unwrap_or_default(), &owner.name)?;
    (vm.metadata.uid.as_deref() == Some(owner.uid.as_str())).then_some(vm)
}

/// The uid of the VM of a VMI, where it exists.
pub(crate) fn vm_uid<'a>(world: &'a World, vmi: &VirtualMachineInstance) -> Option<&'a str> {
    vm_of(world, vmi)?.metadata.uid.as_deref()
}

/// The pods that a VMI owns, of all its attempts.
pub(crate) fn pods_of<'a>(
    world: &'a World,
    vmi: &'a VirtualMachineInstance,
) -> impl Iterator<Item = &'a Pod> {
    let owned = vmi.metadata.uid.clone().map(IndexKey::Owner);
    let owned = owned.into_iter().flat_map(move |mark| world.indexed_by(&mark));
    let owned = owned.filter(|key| key.kind == Kind::Pod);
    let pods = owned.filter_map(|key| world.pods.get(&key.namespace, &key.name));
    pods.filter(|pod| pod.meta.namespace == vmi.metadata.namespace)
}

/// The plan for a VMI.
pub(crate) fn decide(world: &World, namespace: &str, name: &str, now: Timestamp) -> Plan {
    let Some(vmi) = world.vmis.get(namespace, name) else { return Plan::default() };
    let input = VmiReconcile::new(world, vmi, now);
    reconcile(&input).plan(&input)
}

/// The VMI as the decision on it makes it. Its written status may be older than its pods.
pub(crate) fn observed(
    world: &World,
    vmi: &VirtualMachineInstance,
    now: Timestamp,
) -> VirtualMachineInstance {
    let input = VmiReconcile::new(world, vmi, now);
    reconcile(&input).apply(&input)
}

/// The steps for a VMI: the one of its phase, and those that follow from the phase that this leads to.
fn reconcile(input: &VmiReconcile<'_>) -> Outcome {
    let outcome = match &input.phase {
        Phase::Scheduling => scheduling::scheduling(input),
        Phase::Scheduled | Phase::Running | Phase::Unknown => migrating::migrating(input)
            .unwrap_or_else(|| handed_over::handed_over(input).change(Change::NoMigrationTarget)),
        Phase::Succeeded | Phase::Failed => Outcome::default(),
        _ => pending::pending(input),
    };
    let next = outcome.apply(input);
    let next_phase = phase(&next);
    let outcome = outcome.and(migrating::end_with(input, &next));
    // The guest may have arrived in another pod.
    let pod = match node_of(&next) == node_of(input.vmi) {
        true => input.pod,
        false => input.world.active_pod(&next),
    };
    let outcome = outcome.and(ready::ready_condition(pod, &next_phase)).and(eviction::eviction(input));
    let outcome = match input.phase.is_final() {
        true => outcome,
        false => outcome
            .and(volumes::volumes(input))
            .and(copied_claims::refusal(input))
            .and(volumes_change::volumes_change(input)),
    };
    let next = outcome.apply(input);
    let outcome = outcome.and(moved_claims::settle(input, &next));
    let next = outcome.apply(input);
    outcome.and(end::end(input, &next))
}

/// The node of a VMI's guest.
fn node_of(vmi: &VirtualMachineInstance) -> Option<&str> {
    vmi.status.as_ref()?.node_name.as_deref()
}

/// The input: one VMI, and its pods.
struct VmiReconcile<'a> {
    world: &'a World,
    now: Timestamp,
    vmi: &'a VirtualMachineInstance,
    phase: Phase,
    /// Names, owner and labels of the VMI's launcher pods.
    own_pods: Option<LauncherPods>,
    /// Of these, the pod that may run the guest.
    pod: Option<&'a Pod>,
}

impl<'a> VmiReconcile<'a> {
    fn new(world: &'a World, vmi: &'a VirtualMachineInstance, now: Timestamp) -> VmiReconcile<'a> {
        let own_pods = LauncherPods::for_vmi(vmi);
        let pod = own_pods.as_ref().and_then(|own| own.active(world.launcher_pods(own), |pod| &pod.meta));
        VmiReconcile { world, now, vmi, phase: phase(vmi), own_pods, pod }
    }

    fn is_deleted(&self) -> bool {
        self.vmi.metadata.deletion_timestamp.is_some()
    }

    fn has_finalizer(&self) -> bool {
        self.vmi.metadata.finalizers.iter().any(|name| name == FINALIZER)
    }

    /// The conditions as they were written last.
    fn conditions(&self) -> &'a [api::vmi::Condition] {
        self.vmi.status.as_ref().map_or(&[][..], |status| &status.conditions)
    }

    /// True where a condition was not `False` until now. Events are sent where trouble begins only: the message of a kubelet that tries
    /// again and again differs each time, and is repeated in the condition alone.
    fn is_news(&self, kind: &ConditionType) -> bool {
        conditions::find(self.conditions(), kind).is_none_or(|said| said.status != "False")
    }
}

/// The key of the VMI.
fn key_of(vmi: &VirtualMachineInstance) -> Key {
    key(Kind::VirtualMachineInstance, &vmi.metadata)
}
