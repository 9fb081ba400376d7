//! What the PVC says of the pod that fills it: upstream's clients, and cdi-uploadproxy, look there.
//!
//! ```text
//!  import   storage.pod.phase, .restarts
//!  upload   these, storage.pod.ready, storage.uploadPodName, storage.condition.running (.reason, .message)
//!           without a DataVolume also storage.condition.running.since: this is all the memory there is (alone.rs)
//! ```
//!
//! `storage.pod.phase` becomes `Succeeded` when the disk is whole, whatever phases its pods had: one that made room for the
//! next ends well too.

use api::cdi::annotations::{POD_NAME, POD_PHASE, POD_READY};
pub(super) use api::cdi::annotations::{
    POD_RESTARTS as RESTARTS, RUNNING, RUNNING_MESSAGE as MESSAGE, RUNNING_REASON as REASON,
};
use api::datavolume::{Condition, ConditionType, Phase, Status};
use kubernetes::objects::{Kind, PersistentVolumeClaim, Pod, Work};
use kubernetes::plan::Plan;
use std::collections::BTreeMap;

/// When that was said, of a PVC without a DataVolume.
pub(super) const SINCE: &str = "cdi.kubevirt.io/storage.condition.running.since";

/// Notes what the pod of an import does.
pub(super) fn import(claim: &PersistentVolumeClaim, phase: &str, restarts: Option<i64>, plan: &mut Plan) {
    let mut should = claim.meta.annotations.clone();
    should.insert(POD_PHASE.to_owned(), phase.to_owned());
    should.insert(RESTARTS.to_owned(), restarts.unwrap_or(0).to_string());
    write(claim, &should, plan);
}

/// Notes how it is with an upload. `pod` is the one that there is.
pub(super) fn upload(
    claim: &PersistentVolumeClaim,
    status: &Status,
    pod: Option<&Pod>,
    is_alone: bool,
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
    say(POD_READY, if status.phase == Some(Phase::UploadReady) { "true" } else { "false" });
    match phase(status, pod) {
        Some(phase) => {
            say(POD_PHASE, phase);
            say(POD_NAME, &Work::Upload.pod(claim.meta.name.as_deref().unwrap_or_default()));
            say(RESTARTS, &status.restart_count.unwrap_or(0).to_string());
        }
        // What was said of an earlier pod; that a disk is whole is never taken back.
        None if !claim.is_filled() => drop(should.remove(POD_PHASE)),
        None => {}
    }
    write(claim, &should, plan);
}

/// The condition that the notes of an upload repeat.
pub(super) fn running(status: &Status) -> Option<&Condition> {
    status.conditions.iter().find(|said| said.r#type == ConditionType::Running)
}

/// The phase of the pod; nothing before there is one.
fn phase(status: &Status, pod: Option<&Pod>) -> Option<&'static str> {
    let runs = || {
        let container = pod.and_then(|pod| pod.container(Work::Upload.container()));
        container.is_some_and(|container| container.running)
    };
    match status.phase {
        Some(Phase::Succeeded) => Some("Succeeded"),
        Some(Phase::UploadReady) => Some("Running"),
        Some(Phase::UploadScheduled) => Some(if runs() { "Running" } else { "Pending" }),
        _ => None,
    }
}

/// Writes the annotations of a PVC that differ.
pub(crate) fn write(claim: &PersistentVolumeClaim, annotations: &BTreeMap<String, String>, plan: &mut Plan) {
    let whole = |annotations| serde_json::json!({"metadata": {"annotations": annotations}});
    let (is, should) = (whole(&claim.meta.annotations), whole(annotations));
    plan.update(Kind::PersistentVolumeClaim, &claim.meta, &is, &should, false);
}
