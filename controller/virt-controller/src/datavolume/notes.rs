//! What the PVC says of the pod that fills it: upstream's clients, and cdi-uploadproxy, look there.
//!
//! ```text
//!  import   storage.pod.phase, .restarts
//!  upload   these, storage.pod.ready, storage.uploadPodName, storage.condition.running (.reason, .message)
//!           these of an import, too, that is without a DataVolume
//!           without a DataVolume also storage.condition.running.since: this is all the memory there is (alone.rs)
//! ```
//!
//! `storage.pod.phase` becomes `Succeeded` when the disk is whole, whatever phases its pods had: one that made room for the
//! next ends well too.

use api::cdi::annotations::{POD_NAME, POD_PHASE, POD_READY, POPULATED_FOR, POPULATOR_PROGRESS};
pub(super) use api::cdi::annotations::{
    POD_RESTARTS as RESTARTS, RUNNING, RUNNING_MESSAGE as MESSAGE, RUNNING_REASON as REASON,
};
use api::datavolume::{Condition, ConditionType, Phase, Status};
use api::instancetype::DEFAULTS;
use cluster_model::objects::{Kind, PersistentVolumeClaim, Pod, Work};
use cluster_model::plan::Plan;
use serde_json::json;
use std::collections::BTreeMap;

/// When that was said, of a PVC without a DataVolume.
pub(super) const SINCE: &str = "cdi.kubevirt.io/storage.condition.running.since";

/// What there is to say of an import.
pub(super) struct Import<'a> {
    pub(super) phase: &'a str,
    pub(super) restarts: Option<i64>,
    /// What the image names for its VMs, when it is whole.
    pub(super) labels: &'a BTreeMap<String, String>,
}

/// Notes what the pod of an import does, and which instance type and preference its image names: where the PVC names none.
pub(super) fn import(claim: &PersistentVolumeClaim, said: &Import<'_>, plan: &mut Plan) {
    let mut should = claim.meta.annotations.clone();
    should.insert(POD_PHASE.to_owned(), said.phase.to_owned());
    should.insert(RESTARTS.to_owned(), said.restarts.unwrap_or(0).to_string());
    if said.phase == "Succeeded" {
        whole(claim, &mut should);
    }
    let mut labels = claim.meta.labels.clone();
    for (name, value) in said.labels.iter().filter(|(name, value)| names_a_default(name, value)) {
        labels.entry(name.clone()).or_insert_with(|| value.clone());
    }
    let whole = |annotations, labels| json!({"metadata": {"annotations": annotations, "labels": labels}});
    let (is, should) = (whole(&claim.meta.annotations, &claim.meta.labels), whole(&should, &labels));
    plan.update(Kind::PersistentVolumeClaim, &claim.meta, &is, &should, false);
}

/// The author of an image says it, by the words of a worker that reads the image: no other label, and none that would be refused.
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

/// Notes all that there is to say of a round: of an upload, and of a PVC without a DataVolume. `pod` is the one that there is.
pub(super) fn whole_round(
    claim: &PersistentVolumeClaim,
    status: &Status,
    pod: Option<&Pod>,
    (work, is_alone): (Work, bool),
    plan: &mut Plan,
) {
    let mut should = claim.meta.annotations.clone();
    let mut say = |name: &str, text: &str| drop(should.insert(name.to_owned(), text.to_owned()));
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    if let Some(said) = running(status) {
        say(RUNNING, if said.status == "True" { "true" } else { "false" });
        say(REASON, &text(&said.reason));
        say(MESSAGE, &text(&said.message));
        if is_alone {
            say(SINCE, &text(&said.last_heartbeat_time));
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
        // What was said of an earlier pod; that a disk is whole is never taken back.
        None if !claim.is_filled() => drop(should.remove(POD_PHASE)),
        None => {}
    }
    if status.phase == Some(Phase::Succeeded) && !is_alone {
        whole(claim, &mut should);
    }
    write(claim, &should, plan);
}

/// A backup brings this back, and the DataVolume of the name takes the PVC again (`adopt`).
fn whole(claim: &PersistentVolumeClaim, annotations: &mut BTreeMap<String, String>) {
    annotations.insert(POPULATED_FOR.to_owned(), claim.meta.name.clone().unwrap_or_default());
}

/// The condition that the notes of an upload repeat.
pub(super) fn running(status: &Status) -> Option<&Condition> {
    status.conditions.iter().find(|said| said.r#type == ConditionType::Running)
}

/// The phase of the pod; nothing before there is one.
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
pub(crate) fn write(claim: &PersistentVolumeClaim, annotations: &BTreeMap<String, String>, plan: &mut Plan) {
    let whole = |annotations| json!({"metadata": {"annotations": annotations}});
    let (is, should) = (whole(&claim.meta.annotations), whole(annotations));
    plan.update(Kind::PersistentVolumeClaim, &claim.meta, &is, &should, false);
}
