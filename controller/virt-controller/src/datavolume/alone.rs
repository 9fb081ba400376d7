//! A PVC that is filled without a DataVolume: it takes an upload (`virtctl image-upload pvc`), or is filled in the place of one
//! with a `dataSourceRef` (`populator`). It is looked at as the DataVolume that would have made it, and its annotations are the
//! status.
//!
//! ```text
//!  PVC, annotated cdi.kubevirt.io/storage.upload.target ──volume()──► DataVolume with source.upload ──► Round ──► Status
//!        ▲                                                                                                         │
//!        └──────────────────────────────────────── notes::whole_round ──────────────────────────────────────────────┘
//! ```
//!
//! A pod that failed, a PVC that waits: the annotations say so by the words that a DataVolume's condition `Running` has.

use super::notes::{MESSAGE, REASON, RESTARTS, RUNNING, SINCE};
use super::words::{self, Words};
use super::{NOT_SERVED, WAITS};
use api::datavolume::{Condition, ConditionType, ContentType, DataVolume, Phase, Source, Spec, Status};
use api::meta::{Empty, ObjectMeta};
use cluster_model::objects::{PersistentVolumeClaim, Work};
use cluster_model::uploads::{CONTENT_TYPE, POD_PHASE, POD_READY};

/// Where a PVC asks for all blocks to be allocated.
pub(super) use api::cdi::annotations::PREALLOCATION_REQUESTED as PREALLOCATION;

/// The DataVolume that would have made a PVC which takes an upload.
pub(super) fn volume(claim: &PersistentVolumeClaim) -> DataVolume {
    of_source(claim, Source { upload: Some(Empty::default()), ..Source::default() }, Work::Upload)
}

/// The DataVolume that would have made a PVC which is filled from a source.
pub(super) fn of_source(claim: &PersistentVolumeClaim, source: Source, work: Work) -> DataVolume {
    let ObjectMeta { name, namespace, uid, annotations, .. } = claim.meta.clone();
    let note = |name: &str| annotations.get(name).map(String::as_str);
    let words = if source.pvc.is_some() { &words::CLONE } else { words::of(work) };
    DataVolume {
        spec: Spec {
            source: Some(source),
            pvc: Some(claim.spec.clone()),
            content_type: note(CONTENT_TYPE).map(ContentType::from),
            preallocation: note(PREALLOCATION).map(|text| text == "true"),
            ..Spec::default()
        },
        status: Some(status(note, words)),
        metadata: ObjectMeta {
            name,
            namespace,
            uid,
            annotations: annotations.clone(),
            ..ObjectMeta::default()
        },
        ..DataVolume::default()
    }
}

/// What the annotations say.
fn status<'a>(note: impl Fn(&str) -> Option<&'a str>, words: &Words) -> Status {
    let text = |name: &str| note(name).map(str::to_owned).filter(|text| !text.is_empty());
    let running = note(RUNNING).map(|is| Condition {
        r#type: ConditionType::Running,
        status: if is == "true" { "True" } else { "False" }.to_owned(),
        reason: text(REASON),
        message: text(MESSAGE),
        last_transition_time: text(SINCE),
        last_heartbeat_time: text(SINCE),
        ..Condition::default()
    });
    let phase = match (note(POD_PHASE), note(REASON)) {
        (Some("Succeeded"), _) => Phase::Succeeded,
        (Some("Failed"), _) | (_, Some(NOT_SERVED)) => Phase::Failed,
        _ if note(POD_READY) == Some("true") => Phase::UploadReady,
        (Some("Running"), _) => words.broke.clone(),
        (Some("Pending"), _) => words.scheduled.0.clone(),
        (_, Some(WAITS)) => Phase::WaitForFirstConsumer,
        _ if running.is_some() => Phase::Pending,
        _ => Phase::default(),
    };
    Status {
        phase: Some(phase),
        restart_count: note(RESTARTS).and_then(|text| text.parse().ok()),
        conditions: running.into_iter().collect(),
        ..Status::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a round makes of a PVC is read again by the next one.
    #[test]
    fn what_is_noted_is_remembered() {
        for phase in [
            Phase::Pending,
            Phase::WaitForFirstConsumer,
            Phase::UploadScheduled,
            Phase::UploadReady,
            Phase::Succeeded,
            Phase::Failed,
        ] {
            let reason = match phase {
                Phase::Failed => NOT_SERVED,
                Phase::WaitForFirstConsumer => WAITS,
                _ => "Word",
            };
            let said = Condition {
                r#type: ConditionType::Running,
                status: "False".to_owned(),
                reason: Some(reason.to_owned()),
                message: Some("A sentence.".to_owned()),
                last_heartbeat_time: Some("2026-01-01T00:00:00Z".to_owned()),
                last_transition_time: Some("2026-01-01T00:00:00Z".to_owned()),
                ..Condition::default()
            };
            let wanted = Status { phase: Some(phase.clone()), conditions: vec![said], ..Status::default() };
            let mut claim = PersistentVolumeClaim::default();
            let mut plan = cluster_model::plan::Plan::default();
            super::super::notes::whole_round(&claim, &wanted, None, (Work::Upload, true), &mut plan);
            let [cluster_model::plan::Step::Patch { change, .. }] = &plan.steps[..] else {
                panic!("{plan:?}")
            };
            for (name, value) in change["metadata"]["annotations"].as_object().unwrap() {
                claim.meta.annotations.insert(name.clone(), value.as_str().unwrap().to_owned());
            }
            let read = volume(&claim).status.unwrap();
            assert_eq!((read.phase, &read.conditions), (Some(phase), &wanted.conditions));
            plan = cluster_model::plan::Plan::default();
            super::super::notes::whole_round(&claim, &wanted, None, (Work::Upload, true), &mut plan);
            assert!(plan.is_empty(), "{plan:?}");
        }
    }
}
