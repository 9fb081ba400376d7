//! Start, stop and restart of a VM: from the VM and its VMI as they are to the changes that are to be
//! written. Pure.
//!
//! ```text
//!                  start                              stop                        restart
//! Always           409                                spec: Halted                Stop, Start
//! Once             409                                spec: Halted                409
//! Halted           spec: Always; paused: Start        Stop, with shorter grace    409
//! Manual           Start; after an end: Stop, Start   Stop                        Stop, Start
//! RerunOnFailure   the same; after a failure: 409     Stop                        Stop, Start
//! ```
//!
//! `Start` and `Stop` in the table are requests in `status.stateChangeRequests`, which virt-controller
//! executes; `spec:` is a change of the run strategy. Each of them also ends the back-off after failed starts
//! (`status.startFailure`).

mod restart;
mod start;
mod stop;

pub(crate) use restart::{RestartOptions, restart};
pub(crate) use start::{StartOptions, start};
pub(crate) use stop::{StopOptions, stop};

use crate::refusal::{Refusal, Result, Subject};
use api::vm::{
    ConditionType, RunStrategy, StateChange, StateChangeRequest, UpdateVolumesStrategy, VirtualMachine,
};
use api::vmi::{Phase, VirtualMachineInstance};
use cluster_model::claim_moves::{ChangedClaim, changed_claims};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Reason of upstream against a VM whose condition gives none.
const FAILED: &str = "Volume migration failed, leaving some volumes pointing to non-consistent targets; manual intervention is needed to \
                      reassign them to their original volumes.";
/// Reason against a VM whose volumes are being migrated.
const COPYING: &str = "the disks are being copied to other PVCs (status.volumeUpdateState). Wait until that has ended, or name the PVCs that the \
                       volumes had before";
/// Characters of a reason that a condition gives.
const MAX_REASON: usize = 1024;

/// Changes to write, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Changes {
    /// A change of the VMI's grace period.
    pub(crate) grace: Option<Grace>,
    /// A merge patch of the VM's spec.
    pub(crate) spec: Option<Value>,
    /// A merge patch of the VM's status.
    pub(crate) status: Option<Value>,
}

/// A change of a grace period, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grace {
    pub(crate) seconds: i64,
    pub(crate) before: Option<i64>,
}

fn subject(vm: &VirtualMachine) -> Subject<'_> {
    Subject { kind: "virtualmachine", name: vm.metadata.name.as_deref().unwrap_or_default() }
}

fn phase(vmi: &VirtualMachineInstance) -> Phase {
    vmi.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default()
}

fn is_final(vmi: &VirtualMachineInstance) -> bool {
    phase(vmi).is_final()
}

/// A merge patch that starts or stops the VM, through the field that its spec uses.
fn runs(vm: &VirtualMachine, is_to_run: bool) -> Value {
    match vm.spec.running {
        Some(_) => json!({"spec": {"running": is_to_run}}),
        None => json!({"spec": {"runStrategy": if is_to_run { "Always" } else { "Halted" }}}),
    }
}

/// A request to start.
fn to_start(is_paused: bool) -> StateChangeRequest {
    let mut data = BTreeMap::new();
    if is_paused {
        data.insert("paused".to_owned(), "true".to_owned());
    }
    StateChangeRequest { action: StateChange::Start, data, ..StateChangeRequest::default() }
}

/// A request to stop this VMI.
fn to_stop(vmi: &VirtualMachineInstance) -> StateChangeRequest {
    let uid = vmi.metadata.uid.clone();
    StateChangeRequest { action: StateChange::Stop, uid, ..StateChangeRequest::default() }
}

/// A merge patch with these requests for virt-controller. It fails if other requests are pending, except for
/// a single stop, which does not wait.
fn requests(vm: &VirtualMachine, wanted: &[StateChangeRequest]) -> Result<Value> {
    let pending =
        vm.status.as_ref().map(|status| status.state_change_requests.as_slice()).unwrap_or_default();
    let is_lone_stop = matches!(wanted, [only] if only.action == StateChange::Stop);
    if !pending.is_empty() && !is_lone_stop {
        return Err(Refusal::internal("unable to complete request: stop/start already underway"));
    }
    let wanted: Vec<Value> = wanted.iter().map(api::wire::Wire::write).collect();
    Ok(json!({"status": {"stateChangeRequests": wanted, "startFailure": null}}))
}

/// A merge patch that ends the back-off after failed starts; `None` without one.
fn without_failures(vm: &VirtualMachine) -> Option<Value> {
    vm.status.as_ref()?.start_failure.as_ref()?;
    Some(json!({"status": {"startFailure": null}}))
}

/// Refuses a VM whose volumes are being migrated, or need recovery. The first words are upstream's.
fn needs_recovery(vm: &VirtualMachine) -> Result<()> {
    let conditions = vm.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let find = |kind: &str| {
        let mut all = conditions.iter();
        all.find(|condition| condition.status == "True" && condition.r#type.as_str() == kind)
    };
    if let Some(said) = find(ConditionType::ManualRecoveryRequired.as_str()) {
        return Err(recovery(
            vm,
            said.message.as_deref().filter(|message| !message.is_empty()).unwrap_or(FAILED),
        ));
    }
    match find("VolumesChange") {
        Some(_) => Err(recovery(vm, COPYING)),
        None => Ok(()),
    }
}

/// Refuses to end the run of a VM that would not start again: the disk of its guest is not on the PVC that the VM names.
fn leaves_its_disk(vm: &VirtualMachine, vmi: &VirtualMachineInstance) -> Result<()> {
    let migrates = vm.spec.update_volumes_strategy == Some(UpdateVolumesStrategy::Migration);
    let changed = changed_claims(vm, vmi).into_iter().find(|changed| !changed.is_read_only);
    let Some(changed) = changed.filter(|_| migrates && phase(vmi) == Phase::Running) else { return Ok(()) };
    let ChangedClaim { volume, source, destination, .. } = changed;
    Err(recovery(
        vm,
        &format!(
            "the disk {volume} of the guest is on PVC {source}, and was not copied into PVC {destination}, which the VM names. Name PVC {source}, \
             or, to start on PVC {destination} with what it has, remove updateVolumesStrategy"
        ),
    ))
}

fn recovery(vm: &VirtualMachine, why: &str) -> Refusal {
    let why: String = why.chars().take(MAX_REASON).collect();
    Refusal::conflict(subject(vm), &format!("VM recovery required: {why}"))
}

fn strategy_name(strategy: &RunStrategy) -> &str {
    match strategy {
        RunStrategy::Always => "Always",
        RunStrategy::Halted => "Halted",
        RunStrategy::Manual => "Manual",
        RunStrategy::RerunOnFailure => "RerunOnFailure",
        RunStrategy::Once => "Once",
        RunStrategy::WaitAsReceiver => "WaitAsReceiver",
        RunStrategy::Other(word) => word,
    }
}

#[cfg(test)]
mod tests;
