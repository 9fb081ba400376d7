//! A VMI whose pod is made: the pod is followed until it runs, and the VMI is handed over to virt-handler on the pod's node.

use super::claimed::{tell_devices, unallocated};
use super::disk_conflict::{self, HandOver};
use super::end::{delete_pod, forget_trouble};
use super::needs::{self, DiskNeeds};
use super::networks::{interfaces, unattached};
use super::outcome::{Change, NodeAssignment, Outcome};
use super::vsock::cid;
use super::{VmiReconcile, is_outdated, pod_state};
use crate::pod;
use api::vmi::{ConditionType, Phase};
use cluster_model::objects::Pod;

/// Reason of a VMI with dedicated CPUs whose pod is not of the QoS class that has them.
const NOT_GUARANTEED: &str = "FailedGuaranteeResources";

/// The step of a VMI whose pod does not run yet.
pub(super) fn scheduling(input: &VmiReconcile<'_>) -> Outcome {
    let Some(pod) = input.pod else { return pod_is_gone(input).fail("PodNotExists") };
    let outcome =
        Outcome::default().change(Change::Hold).and(repeated(input, pod)).and(interfaces(input, pod));
    if pod_state::is_over(pod) || pod_state::ended_container(pod).is_some() || pod.is_going() {
        return outcome.and(pod_ended(pod));
    }
    if input.is_deleted() {
        return outcome.and(delete_pod(input, pod));
    }
    match &pod.node {
        Some(node) if pod_state::is_up(pod) && lacks_cpus(input, pod).is_none() => {
            let namespace = pod.meta.namespace.as_deref().unwrap_or_default();
            match disk_conflict::at_hand_over(input, pod) {
                HandOver::Free(rivals) => {
                    let next = tell_devices(input, pod, node).unwrap_or_else(|| hand_over(input, pod, node));
                    outcome.and(next.require_no_pod_of(namespace, rivals))
                }
                // `repeated` has the reason.
                HandOver::HeldUp { .. } => outcome,
                HandOver::Lost { message } => outcome.and(disk_conflict::give_way(&message)),
            }
        }
        _ => outcome,
    }
}

/// Reason of a VMI whose disks are not those that its pod was created for.
const DISKS_CHANGED: &str = "DisksChanged";

/// The hand-over, unless a disk was replaced while the pod waited for a node: no finalizer keeps a PVC before its pod has a
/// node, and the guest would begin on an empty disk.
fn hand_over(input: &VmiReconcile<'_>, pod: &Pod, node: &str) -> Outcome {
    let changed = match needs::find(input.world, input.vmi) {
        // `repeated` has the reason.
        DiskNeeds::There(claims) if needs::unknown_volume(input.world, &claims).is_some() => {
            return Outcome::default();
        }
        DiskNeeds::There(_) => None,
        // `repeated` has the reason.
        DiskNeeds::BeingRead { .. } => return Outcome::default(),
        DiskNeeds::Missing { message }
        | DiskNeeds::Moved { message }
        | DiskNeeds::Filling { message }
        | DiskNeeds::Failed { message, .. } => Some(message),
    };
    if let Some(message) = changed {
        return Outcome::default()
            .condition(ConditionType::Synchronized, "False", DISKS_CHANGED, &message)
            .event(true, DISKS_CHANGED, format!("The disks changed before the guest began: {message}"))
            .fail(DISKS_CHANGED);
    }
    assign(input, pod, node).and(cid(input)).phase(Phase::Scheduled)
}

/// Reason of a VMI whose launcher pod runs, and whose PVC has a volume that is not known yet.
const VOLUME_UNKNOWN: &str = "PvcVolumeUnknown";

/// Reason and message of a VMI whose launcher pod runs and whose disk is waited for: it is read meanwhile, or its volume is not known yet.
fn disk_awaited(input: &VmiReconcile<'_>, pod: &Pod) -> Option<(String, String)> {
    if !pod_state::is_up(pod) {
        return None;
    }
    match needs::find(input.world, input.vmi) {
        DiskNeeds::BeingRead { message } => Some((disk_conflict::REASON.to_owned(), message)),
        DiskNeeds::There(claims) => {
            Some((VOLUME_UNKNOWN.to_owned(), needs::unknown_volume(input.world, &claims)?))
        }
        _ => None,
    }
}

/// Requires that the API server confirms that the guest's pod is gone. The World alone does not prove it, since its pods may be older than
/// its VMIs.
pub(super) fn pod_is_gone(input: &VmiReconcile<'_>) -> Outcome {
    input.own_pods.iter().fold(Outcome::default(), Outcome::require_guest_absent)
}

/// The pod has ended, and the VMI with it.
pub(super) fn pod_ended(pod: &Pod) -> Outcome {
    let (reason, message) = pod_state::end_reason(pod);
    Outcome::default().condition(ConditionType::Synchronized, "False", &reason, &message).fail(&reason)
}

/// Node and pod of the VMI. They are written at each decision, since another client may have written them while no webhook was
/// installed.
pub(super) fn assign(input: &VmiReconcile<'_>, pod: &Pod, node: &str) -> Outcome {
    let own = input.own_pods.as_ref().map(|own| input.world.launcher_pods(own)).unwrap_or_default();
    let overhead = pod.meta.annotations.get(pod::MEMORY_OVERHEAD);
    Outcome::default().change(Change::Place(Box::new(NodeAssignment {
        node: node.to_owned(),
        pod: pod.meta.uid.clone().unwrap_or_default(),
        own_pods: own.iter().filter(|pod| !pod.is_over()).filter_map(|pod| pod.meta.uid.clone()).collect(),
        qos: pod.qos.clone(),
        image: pod.image.clone(),
        is_outdated: is_outdated(pod, &input.world.facts.launcher_image),
        memory_overhead: overhead.and_then(|text| text.parse().ok()),
    })))
}

/// Message about a VMI with dedicated CPUs whose pod is not of the class `Guaranteed`. Such a pod was changed
/// after its creation, usually by the webhook of a service mesh.
fn lacks_cpus(input: &VmiReconcile<'_>, pod: &Pod) -> Option<String> {
    let cpu = input.vmi.spec.domain.cpu.as_ref();
    cpu.filter(|cpu| cpu.dedicated_cpu_placement == Some(true))?;
    let class = pod.qos.as_deref().filter(|class| *class != "Guaranteed")?;
    Some(format!(
        "the launcher pod is {class}, not Guaranteed, and so has no dedicated CPUs: a container of it has no limits \
         that equal its requests. A webhook may have added it: exclude this pod from the webhook, or give that \
         container limits"
    ))
}

/// Repeats reasons and messages of the scheduler, the kubelet and the runtime about the pod.
pub(super) fn repeated(input: &VmiReconcile<'_>, pod: &Pod) -> Outcome {
    let outcome = match pod.unscheduled() {
        Some(condition) => {
            let reason = condition.reason.as_deref().unwrap_or_default();
            let message = condition.message.as_deref().unwrap_or_default();
            let outcome = Outcome::default().condition(ConditionType::PodScheduled, "False", reason, message);
            match input.is_news(&ConditionType::PodScheduled) {
                true => outcome.event(true, "FailedScheduling", message),
                false => outcome,
            }
        }
        None => Outcome::default().no_condition(ConditionType::PodScheduled),
    };
    let warned = || {
        let warning = input.world.warning(pod).filter(|_| !pod_state::is_up(pod))?;
        Some((warning.reason.clone(), warning.message.clone()))
    };
    let lacks = || Some((NOT_GUARANTEED.to_owned(), lacks_cpus(input, pod)?));
    let trouble = pod_state::start_failure(pod).or_else(warned).or_else(lacks);
    let trouble = trouble.or_else(|| unallocated(input, pod)).or_else(|| unattached(input, pod));
    let trouble = trouble.or_else(|| disk_conflict::held_up(input, pod)).or_else(|| disk_awaited(input, pod));
    let Some((reason, message)) = trouble else { return outcome.and(forget_trouble(input)) };
    let outcome = outcome.condition(ConditionType::Synchronized, "False", &reason, &message);
    match input.is_news(&ConditionType::Synchronized) {
        true if reason == NOT_GUARANTEED => outcome.event(true, NOT_GUARANTEED, message),
        // The volume is known a moment later.
        true if reason == VOLUME_UNKNOWN => outcome,
        true if reason == disk_conflict::REASON => outcome.event(true, disk_conflict::REASON, message),
        true => outcome.event(true, "FailedStart", format!("{reason}: {message}")),
        false => outcome,
    }
}
