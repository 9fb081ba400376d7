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
    let labels = with_defaults(claim, said.labels);
    let whole = |annotations, labels| json!({"metadata": {"annotations": annotations, "labels": labels}});
    let (is, should) = (whole(&claim.meta.annotations, &claim.meta.labels), whole(&should, &labels));
    plan.update(Kind::PersistentVolumeClaim, &claim.meta, &is, &should, false);
    plan
}

/// Writes the instance type and preference of an image that the PVC has none of: on a PVC without a DataVolume.
pub(super) fn of_image(claim: &PersistentVolumeClaim, labels: &BTreeMap<String, String>) -> Plan {
    let mut plan = Plan::default();
    let whole = |labels| json!({"metadata": {"labels": labels}});
    let (is, should) = (whole(&claim.meta.labels), whole(&with_defaults(claim, labels)));
    plan.update(Kind::PersistentVolumeClaim, &claim.meta, &is, &should, false);
    plan
}

/// The labels of a PVC, and those of an image that name defaults of VMs.
fn with_defaults(
    claim: &PersistentVolumeClaim,
    of_image: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut labels = claim.meta.labels.clone();
    for (name, value) in of_image.iter().filter(|(name, value)| names_a_default(name, value)) {
        labels.entry(name.clone()).or_insert_with(|| value.clone());
    }
    labels
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

#[cfg(test)]
mod tests {
    use super::*;
    use cluster_model::objects::StoredObject as _;
    use cluster_model::plan::Step;
    use serde_json::Value;

    /// cdi-uploadproxy and upstream's clients go by this annotation, and a VMI does not start on a disk without `Succeeded`.
    #[test]
    fn the_phase_of_the_pod_is_told_in_the_words_of_upstream() {
        let pod = |name: &str, state: &str| {
            let container = json!({"name": name, "state": {state: {}}});
            Pod::parse(json!({"metadata": {"name": "p"}, "status": {"containerStatuses": [container]}}))
                .unwrap()
        };
        let (import, upload) = (Work::Import, Work::Upload);
        let (runs, waits) = (pod(import.container(), "running"), pod(import.container(), "waiting"));
        let other = pod(upload.container(), "running");
        for (is, pod, work, expected) in [
            (Phase::Succeeded, None, import, Some("Succeeded")),
            (Phase::Failed, None, import, Some("Failed")),
            (Phase::Failed, None, upload, None),
            (Phase::UploadReady, None, upload, Some("Running")),
            (Phase::ImportInProgress, None, import, Some("Running")),
            (Phase::CloneInProgress, None, import, Some("Running")),
            (Phase::ImportScheduled, None, import, Some("Pending")),
            (Phase::ImportScheduled, Some(&waits), import, Some("Pending")),
            (Phase::ImportScheduled, Some(&other), import, Some("Pending")),
            (Phase::ImportScheduled, Some(&runs), import, Some("Running")),
            (Phase::CloneScheduled, Some(&runs), import, Some("Running")),
            (Phase::UploadScheduled, Some(&other), upload, Some("Running")),
            (Phase::Pending, Some(&runs), import, None),
            (Phase::WaitForFirstConsumer, None, import, None),
        ] {
            let status = Status { phase: Some(is.clone()), ..Status::default() };
            assert_eq!(phase(&status, pod, work), expected, "{is} {work:?}");
        }
    }

    /// The annotations of a PVC that has one phase, when its request has another.
    fn written(claim: &Value, is: Phase, which: (Work, bool)) -> Value {
        let meta = json!({"namespace": "n", "name": "disk", "uid": "u", "annotations": claim});
        let claim = PersistentVolumeClaim::parse(json!({"metadata": meta, "spec": {}})).unwrap();
        let status = Status { phase: Some(is), restart_count: Some(2), ..Status::default() };
        match of_status(&claim, &status, None, which).steps.first() {
            Some(Step::Patch { change, .. }) => change["metadata"]["annotations"].clone(),
            _ => Value::Null,
        }
    }

    #[test]
    fn a_disk_that_is_whole_stays_so_and_is_marked_for_a_backup() {
        let (import, upload) = ((Work::Import, false), (Work::Upload, false));
        let done = written(&json!({}), Phase::Succeeded, upload);
        assert_eq!((&done[POD_PHASE], &done[RESTARTS]), (&json!("Succeeded"), &json!("2")));
        assert_eq!((&done[POPULATED_FOR], &done[POD_NAME]), (&json!("disk"), &json!("cdi-upload-disk")));
        assert_eq!(done[POD_READY], "false");
        assert_eq!(written(&json!({}), Phase::Succeeded, (Work::Upload, true))[POPULATED_FOR], Value::Null);
        assert_eq!(written(&json!({}), Phase::ImportInProgress, import)[POPULATED_FOR], Value::Null);
        assert_eq!(written(&json!({}), Phase::ImportInProgress, import)[POD_NAME], Value::Null);
        assert_eq!(written(&json!({}), Phase::UploadReady, upload)[POD_READY], "true");
        let ready = |phase: &str| json!({POD_PHASE: phase, POD_READY: "false"});
        assert_eq!(written(&ready("Succeeded"), Phase::Pending, import), Value::Null, "nothing is written");
        let earlier = written(&ready("Running"), Phase::Pending, import);
        assert!(earlier.get(POD_PHASE).is_some_and(Value::is_null), "that of an earlier pod goes: {earlier}");
    }

    /// A client that waits for an import reads these, and a VM its defaults.
    #[test]
    fn an_import_is_noted_with_its_restarts_and_the_defaults_of_its_image() {
        const SIZE: &str = "instancetype.kubevirt.io/default-instancetype";
        let labels = BTreeMap::from([
            (SIZE.to_owned(), "u1".to_owned()),
            ("kubevirt.io/a".to_owned(), "b".to_owned()),
        ]);
        for (phase, has, is_marked, size) in [
            ("Running", json!({}), false, json!("u1")),
            ("Succeeded", json!({}), true, json!("u1")),
            ("Succeeded", json!({SIZE: "own"}), true, Value::Null),
        ] {
            let meta = json!({"namespace": "n", "name": "disk", "uid": "u", "labels": has});
            let claim = PersistentVolumeClaim::parse(json!({"metadata": meta, "spec": {}})).unwrap();
            let plan = of_import(&claim, &ImportState { phase, restarts: Some(2), labels: &labels });
            let [Step::Patch { change, .. }] = &plan.steps[..] else { panic!("{plan:?}") };
            let notes = &change["metadata"]["annotations"];
            assert_eq!((&notes[POD_PHASE], &notes[RESTARTS]), (&json!(phase), &json!("2")));
            assert_eq!(notes[POPULATED_FOR] == "disk", is_marked, "{phase}");
            let labels = &change["metadata"]["labels"];
            assert_eq!((&labels[SIZE], &labels["kubevirt.io/a"]), (&size, &Value::Null), "{phase}");
        }
    }

    #[test]
    fn the_condition_of_an_upload_is_told_as_upstream_tells_it() {
        for (is, is_standalone) in [("True", true), ("False", false)] {
            let said = |kind, status: &str| Condition {
                r#type: kind,
                status: status.to_owned(),
                reason: Some("Reason".to_owned()),
                message: Some("m".to_owned()),
                last_check_time: Some("2027-01-01T00:00:00Z".to_owned()),
                ..Condition::default()
            };
            let conditions = vec![said(ConditionType::Bound, "Unknown"), said(ConditionType::Running, is)];
            let status = Status { conditions, ..Status::default() };
            let meta = json!({"namespace": "n", "name": "disk", "uid": "u"});
            let claim = PersistentVolumeClaim::parse(json!({"metadata": meta, "spec": {}})).unwrap();
            let plan = of_status(&claim, &status, None, (Work::Upload, is_standalone));
            let [Step::Patch { change, .. }] = &plan.steps[..] else { panic!("{plan:?}") };
            let notes = &change["metadata"]["annotations"];
            assert_eq!(notes[RUNNING], if is == "True" { "true" } else { "false" });
            assert_eq!((&notes[REASON], &notes[MESSAGE]), (&json!("Reason"), &json!("m")));
            assert_eq!(notes[SINCE].is_string(), is_standalone, "{is}");
        }
    }

    /// The author of an image chooses the labels.
    #[test]
    fn only_labels_that_name_a_default_come_from_an_image() {
        let long = "x".repeat(63);
        for (name, value, expected) in [
            ("instancetype.kubevirt.io/default-instancetype", "u1.small", true),
            ("instancetype.kubevirt.io/default-instancetype-kind", "VirtualMachineInstancetype", true),
            ("instancetype.kubevirt.io/default-preference", "a", true),
            ("instancetype.kubevirt.io/default-preference-kind", &long, true),
            ("instancetype.kubevirt.io/default-preference", &format!("{long}x"), false),
            ("instancetype.kubevirt.io/default-preference", "", false),
            ("instancetype.kubevirt.io/default-preference", "-a", false),
            ("instancetype.kubevirt.io/default-preference", "a.", false),
            ("instancetype.kubevirt.io/default-preference", "a/b", false),
            ("instancetype.kubevirt.io/default-other", "a", false),
            ("kubevirt.io/nodeName", "a", false),
        ] {
            assert_eq!(names_a_default(name, value), expected, "{name} {value}");
        }
    }
}
