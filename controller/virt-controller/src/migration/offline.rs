//! Offline migrations: the PVCs of a stopped VM go to another node, by a VMI without a guest ([`crate::vm`], carriers).
//!
//! ```text
//!  no VMI: waits for the carrier ─► carrier: as any other migration ─► Succeeded or Failed: the carrier goes
//!  VMI of a run ─► Failed
//! ```

use super::outcome::Outcome;
use super::{CANCELED, MigrationReconcile};
use crate::vm;
use crate::vmi::{self, copied_claims};
use api::migration::Phase;
use api::vmi::{ConditionType, Phase as VmiPhase, VirtualMachineInstance};
use cluster_model::conditions;
use cluster_model::plan::Step;
use jiff::{SignedDuration, Timestamp};

/// Time for virt-handler to report the disks of a carrier.
const SETTLES: SignedDuration = SignedDuration::from_secs(30);

/// Time for a carrier to start.
const STARTS: SignedDuration = SignedDuration::from_secs(300);

/// The step of an offline migration whose VM has no VMI; `None` where the migration is of another kind, or has begun.
pub(super) fn without_vmi(input: &MigrationReconcile<'_>) -> Option<Outcome> {
    let is_waiting = matches!(input.phase.as_str(), "" | "Pending");
    if !is_offline(input) || !is_waiting {
        return None;
    }
    let is_absent = Step::RequireAbsent { key: input.vmi_key(), of: None };
    let fail = |message: &str| Some(Outcome::default().before_write(is_absent.clone()).fail(message));
    if input.is_deleted() {
        return fail(CANCELED);
    }
    let (namespace, name) = (input.vmi_key().namespace, &input.migration.spec.vmi_name);
    let vm = input.world.vms.get(&namespace, name).filter(|vm| vm.metadata.deletion_timestamp.is_none());
    let Some(vm) = vm else {
        return fail(&format!("Migration failed because VM {namespace}/{name} does not exist"));
    };
    if let Some(why) = vm::carrier_refusal(input.world, &vm::expanded_now(input.world, vm)) {
        return fail(&format!(
            "Migration failed because the disks of VM {namespace}/{name} do not move without its guest: {why}"
        ));
    }
    let outcome = Outcome::default().change(super::outcome::Change::Hold).phase(Phase::Pending);
    Some(outcome.wait(input, &vm::carrier_wait(input.world, vm, input.now)))
}

/// The outcome of an offline migration that finds another VMI than its carrier, or nothing to move, and of another migration that finds a carrier.
pub(super) fn mismatch(input: &MigrationReconcile<'_>, vmi: &VirtualMachineInstance) -> Option<Outcome> {
    let carried = vm::carried_by(vmi);
    let is_own = carried.is_some() && carried == input.migration.metadata.uid.as_deref();
    let fail = |message: &str| Some(Outcome::default().require_unchanged_vmi(vmi).fail(message));
    let wait = |message: &str| Some(Outcome::default().phase(Phase::Pending).wait(input, message));
    let name = &input.migration.spec.vmi_name;
    match (is_offline(input), carried) {
        (true, Some(_)) if is_own => match start(input, vmi) {
            Some(CarrierStart::Goes(message, until)) => wait(&message).map(|wait| wait.retry_at(until)),
            Some(CarrierStart::Late(message)) => fail(&message),
            None => match settles(input, vmi) {
                Some(until) => wait("virt-handler has not reported yet which disks can be moved")
                    .map(|wait| wait.retry_at(until)),
                None => nothing_to_move(input, vmi).and_then(fail),
            },
        },
        (false, None) => None,
        (_, Some(_)) => wait("an offline migration of the VM has not ended"),
        (true, None) if vmi::phase(vmi).is_final() => wait("the VMI of the last run is being removed"),
        (true, None) => fail(&format!(
            "Migration failed because VM {name} runs: remove spec.offline to migrate it with its guest, or stop it"
        )),
    }
}

/// State of a carrier that does not run yet.
enum CarrierStart {
    /// Message, and the time at which it is late.
    Goes(String, Timestamp),
    /// The message of the failure.
    Late(String),
}

/// The state of a carrier that does not run yet: a VM is not kept from its own start for ever.
fn start(input: &MigrationReconcile<'_>, vmi: &VirtualMachineInstance) -> Option<CarrierStart> {
    let phase = vmi::phase(vmi);
    if phase == VmiPhase::Running || phase.is_final() {
        return None;
    }
    let created = vmi.metadata.creation_timestamp.as_deref().and_then(|time| time.parse::<Timestamp>().ok());
    let until = created.unwrap_or(input.now).checked_add(STARTS).ok()?;
    let about = [ConditionType::Synchronized, ConditionType::DataVolumesReady, ConditionType::PodScheduled];
    let said = vmi.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let said = about.iter().filter_map(|about| conditions::find(said, about));
    let why = said.filter(|said| said.status == "False").find_map(|said| said.message.as_deref());
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    Some(if until > input.now {
        CarrierStart::Goes(format!("the VMI without a guest that moves the disks starts{why}"), until)
    } else {
        let limit = STARTS.as_secs();
        CarrierStart::Late(format!(
            "Migration failed because the VMI without a guest that moves the disks did not start within {limit} s{why}"
        ))
    })
}

/// The time until which a carrier that runs is not refused for its disks: virt-handler reports their sizes a moment later.
fn settles(input: &MigrationReconcile<'_>, vmi: &VirtualMachineInstance) -> Option<Timestamp> {
    let status = vmi.status.as_ref()?;
    let is_refused = conditions::find(&status.conditions, &ConditionType::LiveMigratable)
        .is_some_and(|said| said.status == "False");
    if !is_refused && copied_claims(input.world, vmi).is_ok() {
        return None;
    }
    let mut times = status.phase_transition_timestamps.iter();
    let begin =
        times.find(|time| time.phase == Some(VmiPhase::Running))?.phase_transition_timestamp.as_deref()?;
    let until = begin.parse::<Timestamp>().ok()?.checked_add(SETTLES).ok()?;
    (until > input.now).then_some(until)
}

/// True for a migration whose object stays when its VMI has gone: the VM has it as a record.
pub(super) fn stays(input: &MigrationReconcile<'_>) -> bool {
    let (namespace, name) = (input.vmi_key().namespace, &input.migration.spec.vmi_name);
    is_offline(input) && input.world.vms.get(&namespace, name).is_some()
}

fn is_offline(input: &MigrationReconcile<'_>) -> bool {
    input.migration.spec.offline == Some(true)
}

/// The message where no disk of the carrier is on one node alone.
fn nothing_to_move(input: &MigrationReconcile<'_>, vmi: &VirtualMachineInstance) -> Option<&'static str> {
    let found = copied_claims(input.world, vmi).is_ok_and(|found| found.is_empty());
    (found && vmi::phase(vmi) == VmiPhase::Running)
        .then_some("Migration failed because no PVC of the VM is of one node alone: the VM can start on any node as it is")
}
