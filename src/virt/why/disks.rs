//! Rules about PVCs and the DataVolumes that fill them. They apply before the pod exists: afterwards the
//! scheduler or the kubelet waits for the volume, and reports it.

use super::finding::RuleContext;
use super::{Finding, Volume};
use crate::virt::json::{self, Condition, condition, conditions, list, moment, phase, text};
use cluster_model::objects::Kind;
use serde_json::Value;

pub(super) fn wait(context: &RuleContext<'_>) -> Option<Finding> {
    if context.pod.is_some() {
        return None;
    }
    // Faults that need a person come before waits that end by themselves.
    let rules: [fn(&RuleContext<'_>, &Volume) -> Option<Finding>; 4] =
        [has_failed, is_absent, is_filled, is_unbound];
    rules.iter().find_map(|rule| context.facts.volumes.iter().find_map(|volume| rule(context, volume)))
}

/// The condition with a message that explains the state of a DataVolume.
pub(super) fn explaining_condition(data_volume: &Value) -> Option<Condition<'_>> {
    let running = condition(data_volume, "Running", "False");
    let bound = condition(data_volume, "Bound", "False");
    [running, bound].into_iter().flatten().chain(conditions(data_volume)).find(|one| !one.message.is_empty())
}

fn with_quotes(finding: Finding, context: &RuleContext<'_>, volume: &Volume) -> Finding {
    let said = volume.data_volume.as_ref().and_then(explaining_condition);
    let warning = |kind: Kind| context.warning(kind, &volume.claim, &[]);
    finding
        .quote(said.map(|said| said.quote("", Kind::DataVolume, &volume.claim)))
        .quote_event(warning(Kind::DataVolume))
        .quote_event(warning(Kind::PersistentVolumeClaim))
}

fn has_failed(context: &RuleContext<'_>, volume: &Volume) -> Option<Finding> {
    let name = &volume.claim;
    if volume.pvc.as_ref().is_some_and(|pvc| phase(pvc) == "Lost") {
        let says = format!("VM {} waits for PVC {name}, whose volume is lost", context.name);
        let finding = Finding::new(says).advise("restore the volume from a backup, or name another PVC");
        return Some(with_quotes(finding, context, volume));
    }
    let data_volume = volume.data_volume.as_ref().filter(|data_volume| phase(data_volume) == "Failed")?;
    let since = conditions(data_volume).filter_map(|condition| condition.since).max();
    let finding = Finding::new(format!("VM {} waits for DataVolume {name}, which has failed", context.name))
        .since(since);
    Some(with_quotes(finding, context, volume).advise(format!(
        "fix the cause of the failure, then delete it, so that it is filled anew: kubectl delete datavolume {name} -n {}",
        context.facts.namespace
    )))
}

fn is_absent(context: &RuleContext<'_>, volume: &Volume) -> Option<Finding> {
    let name = &volume.claim;
    if !volume.is_known || volume.pvc.is_some() || volume.data_volume.is_some() {
        return None;
    }
    let templates = context.vm().into_iter().flat_map(|vm| list(vm, "/spec/dataVolumeTemplates"));
    let is_ours = templates.into_iter().any(|template| json::name(template) == name);
    let reasons = ["FailedDataVolumeCreate", "UnauthorizedDataVolumeCreate"];
    if is_ours {
        return Some(
            Finding::new(format!(
                "VM {} waits for virt-controller to create DataVolume {name}",
                context.name
            ))
            .quote_event(context.warning(Kind::VirtualMachine, context.name, &reasons))
            .advise("see whether CDI is installed: kubectl get crd datavolumes.cdi.kubevirt.io"),
        );
    }
    let kind = if volume.is_data_volume { Kind::DataVolume } else { Kind::PersistentVolumeClaim };
    let waits = context.vmi().and_then(|vmi| condition(vmi, "Synchronized", "False"));
    Some(
        Finding::new(format!("VM {} waits for {kind} {name}, which does not exist", context.name))
            .since(waits.and_then(|waits| waits.since))
            .quote(
                waits.map(|waits| context.quote("virt-controller, ", &waits, Kind::VirtualMachineInstance)),
            )
            .advise(format!(
                "create it in namespace {}, or name another one in volume {}",
                context.facts.namespace, volume.name
            )),
    )
}

fn is_filled(context: &RuleContext<'_>, volume: &Volume) -> Option<Finding> {
    let name = &volume.claim;
    let data_volume = volume.data_volume.as_ref()?;
    let (what, advice) = filling(data_volume, name, &context.facts.namespace)?;
    let since = condition(data_volume, "Running", "True").and_then(|running| running.since);
    let since = since.or_else(|| moment(data_volume, "/metadata/creationTimestamp"));
    let finding =
        Finding::new(format!("VM {} waits for DataVolume {name}, {what}", context.name)).since(since);
    Some(with_quotes(finding, context, volume).advise(advice))
}

/// State of a DataVolume as a clause behind a comma, with advice; `None` if it is filled.
pub(super) fn filling(data_volume: &Value, name: &str, namespace: &str) -> Option<(String, String)> {
    let phase = phase(data_volume);
    let progress = text(data_volume, "/status/progress").filter(|progress| *progress != "N/A");
    let how = progress.map_or_else(String::new, |progress| format!(", {progress}"));
    let watch = format!("watch it: kubectl get datavolume {name} -n {namespace} -w");
    Some(match phase {
        "Succeeded" => return None,
        "" => ("which has no phase yet".to_owned(), "see whether CDI runs: kubectl get cdi".to_owned()),
        "UploadScheduled" | "UploadReady" => (
            "which waits for an upload".to_owned(),
            format!("upload its disk: virtctl image-upload dv {name} -n {namespace} --image-path FILE"),
        ),
        "WaitForFirstConsumer" | "PendingPopulation" => (
            format!("whose volume is bound when the first pod uses it ({phase})"),
            "to have it bound at once, annotate it with cdi.kubevirt.io/storage.bind.immediate.requested"
                .to_owned(),
        ),
        "Paused" => ("which is paused".to_owned(), watch),
        phase => (format!("which is being filled ({phase}{how})"), watch),
    })
}

/// An unbound PVC is a reason only if a warning or the VM's status says so: many are bound when their first
/// pod uses them.
fn is_unbound(context: &RuleContext<'_>, volume: &Volume) -> Option<Finding> {
    let name = &volume.claim;
    let pvc = volume.pvc.as_ref().filter(|pvc| phase(pvc) == "Pending")?;
    let warning = context.warning(Kind::PersistentVolumeClaim, name, &[]);
    let printed = context.vm().and_then(|vm| text(vm, "/status/printableStatus"));
    if warning.is_none() && printed != Some("WaitingForVolumeBinding") {
        return None;
    }
    let class = text(pvc, "/spec/storageClassName")
        .map_or_else(|| "without a storage class".to_owned(), |class| format!("of storage class {class}"));
    Some(
        Finding::new(format!("VM {} waits for PVC {name} {class}, which is not bound", context.name))
            .since(moment(pvc, "/metadata/creationTimestamp"))
            .quote_event(warning)
            .advise("compare the PVC with what can be had: kubectl get storageclass,pv"),
    )
}
