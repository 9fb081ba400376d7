//! Rules about PVCs and the DataVolumes that fill them. They apply before the pod exists: afterwards the
//! scheduler or the kubelet waits for the volume, and reports it.

use super::finding::Seen;
use super::see::{Condition, condition, conditions, list, moment, text};
use super::{Finding, Volume};
use crate::virt::object::Kind;
use serde_json::Value;

pub(super) fn wait(seen: &Seen<'_>) -> Option<Finding> {
    if seen.pod.is_some() {
        return None;
    }
    // Faults that need a person come before waits that end by themselves.
    let rules: [fn(&Seen<'_>, &Volume) -> Option<Finding>; 4] =
        [has_failed, is_absent, is_filled, is_unbound];
    rules.iter().find_map(|rule| seen.facts.volumes.iter().find_map(|volume| rule(seen, volume)))
}

pub(super) fn phase(object: &Value) -> &str {
    text(object, "/status/phase").unwrap_or_default()
}

/// The condition with a message that explains the state of a DataVolume.
pub(super) fn said(data_volume: &Value) -> Option<Condition<'_>> {
    let running = condition(data_volume, "Running", "False");
    let bound = condition(data_volume, "Bound", "False");
    [running, bound].into_iter().flatten().chain(conditions(data_volume)).find(|one| !one.message.is_empty())
}

fn with_words(finding: Finding, seen: &Seen<'_>, volume: &Volume) -> Finding {
    let words = volume.data_volume.as_ref().and_then(said);
    let finding = match words {
        Some(words) => {
            finding.said(format!("{} of DataVolume {}", words.shown(), volume.claim), words.words())
        }
        None => finding,
    };
    finding.told(seen.warning(Kind::DataVolume, &volume.claim, &[])).told(seen.warning(
        Kind::PersistentVolumeClaim,
        &volume.claim,
        &[],
    ))
}

fn has_failed(seen: &Seen<'_>, volume: &Volume) -> Option<Finding> {
    let name = &volume.claim;
    if volume.pvc.as_ref().is_some_and(|pvc| phase(pvc) == "Lost") {
        let says = format!("VM {} waits for PVC {name}, whose volume is lost", seen.name);
        let finding = Finding::new(says).advise("restore the volume from a backup, or name another PVC");
        return Some(with_words(finding, seen, volume));
    }
    let data_volume = volume.data_volume.as_ref().filter(|data_volume| phase(data_volume) == "Failed")?;
    let since = conditions(data_volume).filter_map(|condition| condition.since).max();
    let finding =
        Finding::new(format!("VM {} waits for DataVolume {name}, which has failed", seen.name)).since(since);
    Some(with_words(finding, seen, volume).advise(format!(
        "mend what it failed on, then delete it, so that it is filled anew: kubectl delete datavolume {name} -n {}",
        seen.facts.namespace
    )))
}

fn is_absent(seen: &Seen<'_>, volume: &Volume) -> Option<Finding> {
    let name = &volume.claim;
    if !volume.is_known || volume.pvc.is_some() || volume.data_volume.is_some() {
        return None;
    }
    let templates = seen.vm().into_iter().flat_map(|vm| list(vm, "/spec/dataVolumeTemplates"));
    let is_ours = templates.into_iter().any(|template| super::see::name(template) == name);
    let reasons = ["FailedDataVolumeCreate", "UnauthorizedDataVolumeCreate"];
    if is_ours {
        return Some(
            Finding::new(format!("VM {} waits for virt-controller to create DataVolume {name}", seen.name))
                .told(seen.warning(Kind::VirtualMachine, seen.name, &reasons))
                .advise("see whether CDI is installed: kubectl get crd datavolumes.cdi.kubevirt.io"),
        );
    }
    let kind = if volume.is_data_volume { Kind::DataVolume } else { Kind::PersistentVolumeClaim };
    let waits = seen.vmi().and_then(|vmi| condition(vmi, "Synchronized", "False"));
    let finding = Finding::new(format!("VM {} waits for {kind} {name}, which does not exist", seen.name))
        .since(waits.and_then(|waits| waits.since))
        .advise(format!(
            "create it in namespace {}, or name another one in volume {}",
            seen.facts.namespace, volume.name
        ));
    Some(match waits {
        Some(waits) => {
            finding.said(format!("virt-controller, {} of VMI {}", waits.shown(), seen.name), waits.words())
        }
        None => finding,
    })
}

fn is_filled(seen: &Seen<'_>, volume: &Volume) -> Option<Finding> {
    let name = &volume.claim;
    let data_volume = volume.data_volume.as_ref()?;
    let (what, advice) = filling(data_volume, name, &seen.facts.namespace)?;
    let since = condition(data_volume, "Running", "True").and_then(|running| running.since);
    let since = since.or_else(|| moment(data_volume, "/metadata/creationTimestamp"));
    let finding = Finding::new(format!("VM {} waits for DataVolume {name}, {what}", seen.name)).since(since);
    Some(with_words(finding, seen, volume).advise(advice))
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
fn is_unbound(seen: &Seen<'_>, volume: &Volume) -> Option<Finding> {
    let name = &volume.claim;
    let pvc = volume.pvc.as_ref().filter(|pvc| phase(pvc) == "Pending")?;
    let warning = seen.warning(Kind::PersistentVolumeClaim, name, &[]);
    let printed = seen.vm().and_then(|vm| text(vm, "/status/printableStatus"));
    if warning.is_none() && printed != Some("WaitingForVolumeBinding") {
        return None;
    }
    let class = text(pvc, "/spec/storageClassName")
        .map_or_else(|| "without a storage class".to_owned(), |class| format!("of storage class {class}"));
    Some(
        Finding::new(format!("VM {} waits for PVC {name} {class}, which is not bound", seen.name))
            .since(moment(pvc, "/metadata/creationTimestamp"))
            .told(warning)
            .advise("compare the PVC with what can be had: kubectl get storageclass,pv"),
    )
}
