//! A VMI without a pod: its requirements are checked, and the pod is created.

use super::launcher_pod::{self, Refusal};
use super::needs::{self, DiskNeeds};
use super::outcome::{Change, Outcome};
use super::scheduling::{pod_ended, repeated};
use super::waiting::{
    data_is_there, forget_waiting, wait, wait_for_claim, wait_for_data, waits_after_failure,
};
use super::{VmiReconcile, disk_conflict, pod_state, state};
use crate::tsc;
use api::vmi::{ConditionType, Phase};
use cluster_model::claim_moves::RECOVERY;
use cluster_model::config::Config;
use cluster_model::metadata::{OmittedKeys, left_out};
use cluster_model::objects::PersistentVolumeClaim;
use std::collections::BTreeMap;

/// The step of a VMI that is not scheduled yet.
pub(super) fn pending(input: &VmiReconcile<'_>) -> Outcome {
    if input.is_deleted() {
        return Outcome::default().fail("Deleted");
    }
    if let Some(pod) = input.pod {
        if pod_state::is_over(pod) || pod.is_going() {
            return pod_ended(pod);
        }
        // The pod was made, and the status was not written: of another writer, or since the answer was lost.
        return forget_waiting().and(data_is_there(input)).and(take_pod(input));
    }
    match needs::find(input.world, input.vmi) {
        DiskNeeds::Failed { volume, message } => Outcome::default()
            .condition(ConditionType::DataVolumesReady, "False", "NotAllDVsReady", &message)
            .event(true, "FailedDataVolumeImport", format!("DataVolume {volume} import failed: {message}"))
            .fail("FailedDataVolumeImport"),
        DiskNeeds::Missing { message } => wait_for_claim(input, &message),
        DiskNeeds::Moved { message } => wait(input, RECOVERY, &message),
        DiskNeeds::Filling { message } | DiskNeeds::BeingRead { message } => wait_for_data(&message),
        // The finalizer that keeps a VMI until its pod is gone is written before the pod is made, also without a webhook.
        DiskNeeds::There(_) if !input.has_finalizer() => {
            data_is_there(input).change(Change::Hold).phase(Phase::Pending)
        }
        DiskNeeds::There(claims) => data_is_there(input).and(make_pod(input, &claims)),
    }
}

/// Creates the pod, unless there is a reason against it.
fn make_pod(input: &VmiReconcile<'_>, claims: &BTreeMap<String, PersistentVolumeClaim>) -> Outcome {
    let VmiReconcile { world, vmi, .. } = *input;
    let config = world.config();
    let (whole, machine) = match launcher_pod::checked(world, vmi, claims) {
        Ok(checked) => checked,
        Err(Refusal { reason, message }) => return wait(input, reason, &message),
    };
    if machine.cpu.wants_invariant_tsc() && machine.cpu.tsc.is_none() && !config.use_emulation {
        return choose_frequency(input, config);
    }
    let (state, make_state) = match state::state(input, &machine, config) {
        Ok(state) => state,
        Err(waits) => return waits,
    };
    let rivals = match disk_conflict::rivals_for_disks(input) {
        Ok(rivals) => rivals,
        Err(waits) => return waits,
    };
    if let Some(waits) = waits_after_failure(input, &machine) {
        return waits;
    }
    let (name, create) = launcher_pod::creation(world, (&whole, &machine), claims, state.as_deref(), None);
    let outcome = forget_waiting().require_no_pod_of(&machine.namespace, rivals);
    make_state
        .into_iter()
        .chain([create])
        .fold(outcome, Outcome::before_write)
        .event(false, "SuccessfulCreate", format!("Created virtual machine pod {name}"))
        .and(report_left_out(input, config))
        .and(take_pod(input))
}

/// Chooses the frequency of the guest's time stamp counter. It is written first; the pod then asks for a node that supports it.
fn choose_frequency(input: &VmiReconcile<'_>, config: &Config) -> Outcome {
    let Some(hertz) = tsc::of_cluster(input.world, config) else {
        let message = "the CPU feature invtsc needs a node with a time stamp counter of constant frequency, and no \
                       schedulable node has the label for it (cpu-timer.node.kubevirt.io/tsc-frequency): remove the \
                       feature, or set developerConfiguration.minimumClusterTSCFrequency in the KubeVirt object";
        return wait(input, "NoTSCFrequency", message);
    };
    Outcome::default().change(Change::TscFrequency(i64::try_from(hertz).ok())).phase(Phase::Pending)
}

/// An event about labels and annotations that the pod does not get. The webhook's warning does not reach the author of a template, or
/// the user of another tool.
fn report_left_out(input: &VmiReconcile<'_>, config: &Config) -> Outcome {
    let OmittedKeys { labels, annotations } = left_out(&input.vmi.metadata, config.annotations);
    let left: Vec<&str> = labels.into_iter().chain(annotations).collect();
    if left.is_empty() {
        return Outcome::default();
    }
    let message = format!("Labels and annotations that its pod does not get: {}", left.join(", "));
    Outcome::default().event(false, "NotPassedOn", message)
}

/// Outcome when the pod exists, or is created by this plan: the VMI waits for it now.
fn take_pod(input: &VmiReconcile<'_>) -> Outcome {
    let outcome =
        Outcome::default().change(Change::Hold).phase(Phase::Scheduling).change(Change::NoDeviceStatus);
    match input.pod {
        Some(pod) => outcome.and(repeated(input, pod)),
        None => outcome,
    }
}
