//! A PVC that is filled without a DataVolume: it is the target of an upload (`virtctl image-upload pvc`), or is filled in the place of
//! one with a `dataSourceRef` (`populator`). It is read as the DataVolume that would have made it, and its annotations are the
//! status.
//!
//! ```text
//!  PVC, annotated cdi.kubevirt.io/storage.upload.target ──uploaded()──► DataVolume with source.upload ──► Request ──► Status
//!        ▲                                                                                                             │
//!        └──────────────────────────────── claim_annotations::of_status ◄──────────────────────────────────────────────┘
//! ```
//!
//! The reason and message of a pod that failed, or of a PVC that waits, are those of a DataVolume's condition `Running`.

use super::claim_annotations::{MESSAGE, REASON, RESTARTS, RUNNING, SINCE};
use super::terms::{self, Terms};
use super::{NOT_SERVED, WAITS};
use api::data_volume::{Condition, ConditionType, ContentType, DataVolume, Phase, Source, Spec, Status};
use api::meta::{Empty, ObjectMeta};
use cluster_model::objects::{PersistentVolumeClaim, Work};
use cluster_model::uploads::{CONTENT_TYPE, POD_PHASE, POD_READY};

/// Annotation of a PVC whose blocks are all to be allocated.
pub(super) use api::cdi::annotations::PREALLOCATION_REQUESTED as PREALLOCATION;

/// The DataVolume that would have made the target of an upload.
pub(super) fn uploaded(claim: &PersistentVolumeClaim) -> DataVolume {
    with_source(claim, Source { upload: Some(Empty::default()), ..Source::default() }, Work::Upload)
}

/// The DataVolume that would have made a PVC which is filled from this source.
pub(super) fn with_source(claim: &PersistentVolumeClaim, source: Source, work: Work) -> DataVolume {
    let ObjectMeta { name, namespace, uid, annotations, .. } = claim.meta.clone();
    let note = |name: &str| annotations.get(name).map(String::as_str);
    let terms = if source.pvc.is_some() { &terms::CLONE } else { terms::of_work(work) };
    DataVolume {
        spec: Spec {
            source: Some(source),
            pvc: Some(claim.spec.clone()),
            content_type: note(CONTENT_TYPE).map(ContentType::from),
            preallocation: note(PREALLOCATION).map(|text| text == "true"),
            ..Spec::default()
        },
        status: Some(status(note, terms)),
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

/// The status that the annotations hold.
fn status<'a>(note: impl Fn(&str) -> Option<&'a str>, terms: &Terms) -> Status {
    let text = |name: &str| note(name).map(str::to_owned).filter(|text| !text.is_empty());
    let running = note(RUNNING).map(|is| Condition {
        r#type: ConditionType::Running,
        status: if is == "true" { "True" } else { "False" }.to_owned(),
        reason: text(REASON),
        message: text(MESSAGE),
        last_transition_time: text(SINCE),
        last_check_time: text(SINCE),
        ..Condition::default()
    });
    let phase = match (note(POD_PHASE), note(REASON)) {
        (Some("Succeeded"), _) => Phase::Succeeded,
        (Some("Failed"), _) | (_, Some(NOT_SERVED)) => Phase::Failed,
        _ if note(POD_READY) == Some("true") => Phase::UploadReady,
        (Some("Running"), _) => terms.broken.clone(),
        (Some("Pending"), _) => terms.scheduled.0.clone(),
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

    /// The next decision reads from the PVC what this one wrote.
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
                last_check_time: Some("2026-01-01T00:00:00Z".to_owned()),
                last_transition_time: Some("2026-01-01T00:00:00Z".to_owned()),
                ..Condition::default()
            };
            let wanted = Status { phase: Some(phase.clone()), conditions: vec![said], ..Status::default() };
            let mut claim = PersistentVolumeClaim::default();
            let written = |claim: &PersistentVolumeClaim| {
                crate::data_volume::claim_annotations::of_status(claim, &wanted, None, (Work::Upload, true))
            };
            let plan = written(&claim);
            let [cluster_model::plan::Step::Patch { change, .. }] = &plan.steps[..] else {
                panic!("{plan:?}")
            };
            for (name, value) in change["metadata"]["annotations"].as_object().unwrap() {
                claim.meta.annotations.insert(name.clone(), value.as_str().unwrap().to_owned());
            }
            let read = uploaded(&claim).status.unwrap();
            assert_eq!((read.phase, &read.conditions), (Some(phase), &wanted.conditions));
            let plan = written(&claim);
            assert!(plan.is_empty(), "{plan:?}");
        }
    }

    /// A disk that is whole and is not read as such is written again.
    #[test]
    fn the_phase_is_that_of_the_annotations() {
        for (pod, ready, reason, running, expected) in [
            ("Succeeded", "false", "Completed", "false", Phase::Succeeded),
            ("Failed", "false", "Error", "false", Phase::Failed),
            ("", "false", NOT_SERVED, "false", Phase::Failed),
            ("Running", "true", "Pod is running", "true", Phase::UploadReady),
            ("Running", "false", "Error", "false", Phase::UploadScheduled),
            ("Pending", "false", "Pending", "false", Phase::UploadScheduled),
            ("", "false", WAITS, "false", Phase::WaitForFirstConsumer),
            ("", "false", "Pending", "false", Phase::Pending),
            ("", "", "", "", Phase::default()),
        ] {
            let mut claim = PersistentVolumeClaim::default();
            let notes = [(POD_PHASE, pod), (POD_READY, ready), (REASON, reason), (RUNNING, running)];
            for (name, value) in notes.into_iter().filter(|(_, value)| !value.is_empty()) {
                claim.meta.annotations.insert(name.to_owned(), value.to_owned());
            }
            let status = uploaded(&claim).status.unwrap();
            assert_eq!(status.phase, Some(expected), "{pod} {reason}");
            let is = status.conditions.first().map(|said| said.status.as_str());
            assert_eq!(is, (!running.is_empty()).then_some(if running == "true" { "True" } else { "False" }));
        }
    }

    #[test]
    fn what_the_annotations_ask_for_is_asked_for() {
        let mut claim = PersistentVolumeClaim::default();
        let plain = uploaded(&claim);
        assert_eq!((plain.spec.content_type, plain.spec.preallocation), (None, None));
        claim.meta.name = Some("disk".to_owned());
        for (name, value) in [(CONTENT_TYPE, "archive"), (PREALLOCATION, "true"), (RESTARTS, "3")] {
            claim.meta.annotations.insert(name.to_owned(), value.to_owned());
        }
        let volume = uploaded(&claim);
        assert_eq!(volume.metadata.name.as_deref(), Some("disk"));
        assert!(volume.spec.source.is_some_and(|source| source.upload.is_some() && source.pvc.is_none()));
        assert_eq!(volume.spec.content_type, Some(ContentType::Archive));
        assert_eq!((volume.spec.preallocation, volume.status.unwrap().restart_count), (Some(true), Some(3)));
        claim.meta.annotations.insert(PREALLOCATION.to_owned(), "no".to_owned());
        assert_eq!(uploaded(&claim).spec.preallocation, Some(false));
    }
}
