//! Progress of an upload's target by its status and annotations. Pure.

use super::annotations::{POD_PHASE, POD_READY, RUNNING_MESSAGE, RUNNING_REASON};
use crate::virt::json::{Condition, annotation, annotation_text, conditions, phase};
use cluster_model::objects::Kind;
use serde_json::Value;

/// Progress of the target of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// The upload pod is ready.
    Ready,
    /// The target is not ready, for this reason.
    Waits(String),
    /// The disk is complete.
    Done,
    /// The target cannot be filled, for this reason.
    Failed(String),
}

/// Phases in which a volume is bound once a pod uses it.
pub(super) const UNBOUND: [&str; 2] = ["WaitForFirstConsumer", "PendingPopulation"];
/// Maximum number of conditions in a message.
const MOST_CONDITIONS: usize = 8;

impl Stage {
    /// The stage of an object of this kind.
    pub(super) fn of(kind: Kind, object: &Value) -> Stage {
        match kind {
            Kind::DataVolume => Stage::of_data_volume(object),
            _ => Stage::of_claim(object),
        }
    }

    fn of_data_volume(data_volume: &Value) -> Stage {
        match phase(data_volume) {
            "UploadReady" => Stage::Ready,
            "Succeeded" => Stage::Done,
            "Failed" => Stage::Failed(describe_data_volume(data_volume)),
            _ => Stage::Waits(describe_data_volume(data_volume)),
        }
    }

    fn of_claim(pvc: &Value) -> Stage {
        if annotation(pvc, POD_PHASE) == Some("Succeeded") {
            return Stage::Done;
        }
        // The values that Go parses as true.
        let is_ready = |text: &str| ["1", "t", "T", "true", "TRUE", "True"].contains(&text);
        match annotation(pvc, POD_READY).is_some_and(is_ready) {
            true => Stage::Ready,
            false => Stage::Waits(describe_claim(pvc)),
        }
    }
}

/// Phase of a PVC and of its worker pod, with the reason.
pub(super) fn describe_claim(pvc: &Value) -> String {
    let mut told = match phase(pvc) {
        "" => "PVC without a phase yet".to_owned(),
        phase => format!("PVC in phase {phase}"),
    };
    if let Some(phase) = annotation_text(pvc, POD_PHASE) {
        told += &format!("; worker pod in phase {phase}");
    }
    match (annotation_text(pvc, RUNNING_REASON), annotation_text(pvc, RUNNING_MESSAGE)) {
        (Some(reason), Some(message)) => told += &format!(" ({reason}): {message}"),
        (Some(only), None) | (None, Some(only)) => told += &format!(": {only}"),
        (None, None) => {}
    }
    printable::line(&told)
}

/// Phase of a DataVolume, and its conditions that are not True.
fn describe_data_volume(data_volume: &Value) -> String {
    let mut told = match phase(data_volume) {
        "" => "DataVolume is new, and has no phase yet".to_owned(),
        phase => format!("DataVolume in phase {phase}"),
    };
    let fails = conditions(data_volume).filter(|one| one.status != "True").take(MOST_CONDITIONS);
    let mut said = Vec::new();
    for Condition { kind, status, reason, message, .. } in fails {
        // Several conditions may have the same reason, which is reported once.
        if (reason, message) == ("", "") || said.contains(&(reason, message)) {
            continue;
        }
        said.push((reason, message));
        told += &format!("; {kind} {status}");
        if !reason.is_empty() {
            told += &format!(" ({reason})");
        }
        if !message.is_empty() {
            told += &format!(": {message}");
        }
    }
    printable::line(&told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_data_volume_says_its_phase_and_what_does_not_hold() {
        let stage = |status: Value| Stage::of(Kind::DataVolume, &json!({"status": status}));
        assert_eq!(stage(json!({"phase": "UploadReady"})), Stage::Ready);
        assert_eq!(stage(json!({"phase": "Succeeded"})), Stage::Done);
        let conditions = json!([
            {"type": "Ready", "status": "False"},
            {"type": "Bound", "status": "False", "reason": "Pending", "message": "PVC d Pending"},
            {"type": "Running", "status": "True", "reason": "Pod is running"},
            {"type": "Transferring", "status": "False", "reason": "Pending", "message": "PVC d Pending"},
        ]);
        let wanted = "DataVolume in phase Pending; Bound False (Pending): PVC d Pending".to_owned();
        assert_eq!(stage(json!({"phase": "Pending", "conditions": conditions})), Stage::Waits(wanted));
        let failed = Stage::Failed("DataVolume in phase Failed".to_owned());
        assert_eq!(stage(json!({"phase": "Failed"})), failed);
        assert!(matches!(stage(Value::Null), Stage::Waits(told) if told.contains("no phase yet")));
    }

    #[test]
    fn a_pvc_says_what_its_pod_waits_for() {
        let stage = |annotations: Value| {
            let pvc = json!({"metadata": {"annotations": annotations}, "status": {"phase": "Bound"}});
            Stage::of(Kind::PersistentVolumeClaim, &pvc)
        };
        assert_eq!(stage(json!({POD_READY: "true"})), Stage::Ready);
        assert_eq!(stage(json!({POD_READY: "1"})), Stage::Ready);
        assert_eq!(stage(json!({POD_READY: "true", POD_PHASE: "Succeeded"})), Stage::Done);
        assert_eq!(stage(json!({POD_READY: "false"})), Stage::Waits("PVC in phase Bound".to_owned()));
        let waits = json!({
            POD_PHASE: "Pending", RUNNING_REASON: "ContainerCreating", RUNNING_MESSAGE: "pulling\u{1b}[2J",
        });
        let wanted = "PVC in phase Bound; worker pod in phase Pending (ContainerCreating): pulling [2J";
        assert_eq!(stage(waits), Stage::Waits(wanted.to_owned()));
    }
}
