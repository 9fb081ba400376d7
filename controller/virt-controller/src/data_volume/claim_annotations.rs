//! Annotations of the PVC about the pod that fills it, which upstream's clients and cdi-uploadproxy read.
//!
//! ```text
//!  import   storage.pod.phase, .restarts
//!  upload   the same, and storage.pod.ready, storage.uploadPodName, storage.condition.running (.reason, .message)
//!           an import without a DataVolume has them too
//!           without a DataVolume also storage.condition.running.since: there is no other record (standalone_claim.rs)
//! ```
//!
//! `storage.pod.phase` becomes `Succeeded` when the disk is complete, regardless of the phases of its pods: a
//! pod that was replaced counts as successful too.

use api::cdi::annotations::{POD_NAME, POD_PHASE, POD_READY, POPULATED_FOR, POPULATOR_PROGRESS};
pub(super) use api::cdi::annotations::{
    POD_RESTARTS as RESTARTS, RUNNING, RUNNING_MESSAGE as MESSAGE, RUNNING_REASON as REASON,
};
use api::data_volume::{Condition, ConditionType, Phase, Status};
use api::instancetype::DEFAULTS;
use cluster_model::objects::{Kind, PersistentVolumeClaim, Pod, Work};
use cluster_model::plan::Plan;
use serde_json::json;
use std::collections::BTreeMap;

/// Annotation of a PVC without a DataVolume: the time of the condition Running.
pub(super) const SINCE: &str = "cdi.kubevirt.io/storage.condition.running.since";

/// State of an import.
pub(super) struct ImportState<'a> {
    pub(super) phase: &'a str,
    pub(super) restarts: Option<i64>,
    /// Labels of the image for its VMs, when the disk is complete.
    pub(super) labels: &'a BTreeMap<String, String>,
}

/// Writes the state of an import, and the image's instance type and preference if the PVC has none.
pub(super) fn of_import(claim: &PersistentVolumeClaim, said: &ImportState<'_>) -> Plan {
    let mut plan = Plan::default();
    let mut should = claim.meta.annotations.clone();
    should.insert(POD_PHASE.to_owned(), said.phase.to_owned());
    should.insert(RESTARTS.to_owned(), said.restarts.unwrap_or(0).to_string());
    if said.phase == "Succeeded" {
        mark_complete(claim, &mut should);
    }
    let mut labels = claim.meta.labels.clone();
    for (name, value) in said.labels.iter().filter(|(name, value)| names_a_default(name, value)) {
        labels.entry(name.clone()).or_insert_with(|| value.clone());
    }
    let whole = |annotations, labels| json!({"metadata": {"annotations": annotations, "labels": labels}});
    let (is, should) = (whole(&claim.meta.annotations, &claim.meta.labels), whole(&should, &labels));
    plan.update(Kind::PersistentVolumeClaim, &claim.meta, &is, &should, false);
    plan
}

/// True for a label that names a default of VMs. The author of the image chose it, so other labels are not
/// copied, nor those that the API server would refuse.
fn names_a_default(name: &str, value: &str) -> bool {
    let is_word = |text: &str| {
        let (first, last) = (text.chars().next(), text.chars().next_back());
        let is_end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        let is_inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        text.len() <= 63 && is_end(first) && is_end(last) && text.chars().all(is_inside)
    };
    let known = ["instancetype", "instancetype-kind", "preference", "preference-kind"];
    name.strip_prefix(DEFAULTS).is_some_and(|rest| known.contains(&rest)) && is_word(value)
}

/// Repeats a status: of an upload, and of a PVC without a DataVolume. `pod`: the worker pod, where there is one.
pub(super) fn of_status(
    claim: &PersistentVolumeClaim,
    status: &Status,
    pod: Option<&Pod>,
    (work, is_standalone): (Work, bool),
) -> Plan {
    let mut should = claim.meta.annotations.clone();
    let mut say = |name: &str, text: &str| drop(should.insert(name.to_owned(), text.to_owned()));
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    if let Some(said) = running(status) {
        say(RUNNING, if said.status == "True" { "true" } else { "false" });
        say(REASON, &text(&said.reason));
        say(MESSAGE, &text(&said.message));
        if is_standalone {
            say(SINCE, &text(&said.last_check_time));
        }
    }
    if claim.target().is_some() {
        say(POPULATOR_PROGRESS, &text(&status.progress));
    }
    say(POD_READY, if status.phase == Some(Phase::UploadReady) { "true" } else { "false" });
    match phase(status, pod, work) {
        Some(phase) => {
            should.insert(POD_PHASE.to_owned(), phase.to_owned());
            should.insert(RESTARTS.to_owned(), status.restart_count.unwrap_or(0).to_string());
            if work == Work::Upload {
                let name = work.pod(claim.meta.name.as_deref().unwrap_or_default());
                should.insert(POD_NAME.to_owned(), name);
            }
        }
        // The phase was that of an earlier pod. A complete disk stays complete.
        None if !claim.is_filled() => drop(should.remove(POD_PHASE)),
        None => {}
    }
    if status.phase == Some(Phase::Succeeded) && !is_standalone {
        mark_complete(claim, &mut should);
    }
    write(claim, &should)
}

/// Marks a PVC as complete: a backup restores the annotation, and the DataVolume of that name takes the PVC again (`adopt`).
fn mark_complete(claim: &PersistentVolumeClaim, annotations: &mut BTreeMap<String, String>) {
    annotations.insert(POPULATED_FOR.to_owned(), claim.meta.name.clone().unwrap_or_default());
}

/// The condition Running, which the annotations repeat.
pub(super) fn running(status: &Status) -> Option<&Condition> {
    status.conditions.iter().find(|said| said.r#type == ConditionType::Running)
}

/// The phase of the pod; `None` before there is one.
fn phase(status: &Status, pod: Option<&Pod>, work: Work) -> Option<&'static str> {
    let runs = || {
        let container = pod.and_then(|pod| pod.container(work.container()));
        container.is_some_and(|container| container.running)
    };
    match status.phase {
        Some(Phase::Succeeded) => Some("Succeeded"),
        Some(Phase::Failed) if work == Work::Import => Some("Failed"),
        Some(Phase::UploadReady | Phase::ImportInProgress | Phase::CloneInProgress) => Some("Running"),
        Some(Phase::UploadScheduled | Phase::ImportScheduled | Phase::CloneScheduled) => {
            Some(if runs() { "Running" } else { "Pending" })
        }
        _ => None,
    }
}

/// Writes the annotations of a PVC that differ.
pub(crate) fn write(claim: &PersistentVolumeClaim, annotations: &BTreeMap<String, String>) -> Plan {
    let mut plan = Plan::default();
    let whole = |annotations| json!({"metadata": {"annotations": annotations}});
    let (is, should) = (whole(&claim.meta.annotations), whole(annotations));
    plan.update(Kind::PersistentVolumeClaim, &claim.meta, &is, &should, false);
    plan
}
