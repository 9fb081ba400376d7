//! Parts of an upload that an import does not have: a certificate, a Service by which cdi-uploadproxy reaches the pod, and a client
//! that the pod waits for.
//!
//! ```text
//!  authorities there and spread? ──no──► waits, with that reason
//!        │ yes: from, until
//!        ▼
//!  Secret (certificate until then) ─► Service, headless ─► pod, DEADLINE a little earlier ─► ready ─► UploadReady
//!        ▲                                                    │ deadline, killed, evicted         │ the disk is whole
//!        └───────────────── with another key ◄────────────────┘                                   ▼
//!                                                                        Service, Secret and pod are deleted, the pod last
//! ```
//!
//! **Guarantees.** A Service and a Secret of that name that are not of this PVC are neither changed nor
//! deleted, and no pod is created beside them. A pod whose Secret was deleted before it could begin is
//! followed by another ([`STUCK`]). Each pod has a certificate of its own, which is not used by another. An
//! upload that failed leaves nothing, and the next one may come: no failure of an upload ends its DataVolume.
//! **Caveats.** Service and Secret are written and not watched: a Service that another client deletes is
//! missing until the next pod.

use super::claim_annotations::running;
use super::fill::scheduled;
use super::outcome::Outcome;
use super::request::Request;
use super::status;
use crate::certificates::uploads::{self, Span};
use api::data_volume::{ConditionType, ContentType, Phase};
use api::job::{Report, Stage};
use api::meta::ObjectMeta;
use cluster_model::issue::{Holder, PodCertificateIssue};
use cluster_model::objects::{Key, Kind, PersistentVolumeClaim, Pod, Work, World, owner};
use cluster_model::plan::Plan;
use cluster_model::uploads::{SERVICE_LABEL, TARGET_LABEL};
use cluster_model::worker::{APP, PORT, WORK};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

/// The longest time that a pod waits for an upload.
const LONGEST: SignedDuration = SignedDuration::from_hours(12);
/// The time before the end of its certificate at which a pod ends, so that the next one gets a new certificate.
const EARLIER: SignedDuration = SignedDuration::from_mins(5);
/// Pause until authorities that do not exist yet are looked for again.
const LOOK: SignedDuration = SignedDuration::from_secs(15);

/// The time that a pod waits for its Secret, where that was deleted, until another pod takes its place.
const STUCK: SignedDuration = SignedDuration::from_mins(2);

/// The time at which another pod takes the place of one that cannot start without its Secret.
pub(super) fn replacement_time(world: &World, pod: &Pod) -> Option<Timestamp> {
    let warning = world.warning(pod).filter(|warning| warning.reason == "FailedMount")?;
    // The kubelet's words: `MountVolume.SetUp failed for volume "tls" : secret "NAME" not found`.
    let secret = format!("secret \"{}\" not found", pod.meta.name.as_deref().unwrap_or_default());
    let made: Timestamp = pod.meta.creation_timestamp.as_ref()?.parse().ok()?;
    warning.message.contains(&secret).then(|| made.checked_add(STUCK).unwrap_or(made))
}

/// The time until which a pod waits for an upload.
pub(super) fn deadline(span: &Span, now: Timestamp) -> Timestamp {
    now.checked_add(LONGEST).unwrap_or(span.until).min(serving_until(span))
}

/// The time until which a pod can serve with its certificate.
pub(super) fn serving_until(span: &Span) -> Timestamp {
    span.until.checked_sub(EARLIER).unwrap_or(span.until)
}

/// The labels of a pod, its Service and its Secret.
pub(super) fn labels(claim: &ObjectMeta) -> Map<String, Value> {
    let labels = [
        (APP.0, json!(APP.1)),
        (WORK.0, json!(Work::Upload.label())),
        ("app.kubernetes.io/managed-by", json!("cdi-controller")),
        ("app.kubernetes.io/component", json!("storage")),
        (TARGET_LABEL, json!(claim.uid)),
        (SERVICE_LABEL, json!(name(claim))),
    ];
    labels.into_iter().map(|(label, value)| (label.to_owned(), value)).collect()
}

/// Makes the Secret and the Service of a pod, before the pod itself.
pub(super) fn create_secret_and_service(
    claim: &PersistentVolumeClaim,
    span: &Span,
    installation: &str,
) -> Plan {
    let mut plan = Plan::default();
    let meta = &claim.meta;
    let (name, namespace) = (name(meta), meta.namespace.clone().unwrap_or_default());
    plan.issue_for_pod(PodCertificateIssue {
        key: Key::new(Kind::Secret, &*namespace, &*name),
        installation: installation.to_owned(),
        owner: owner::reference(Kind::PersistentVolumeClaim, meta),
        labels: labels(meta),
        holder: Holder::Server(vec![
            format!("{name}.{namespace}.svc"),
            format!("{name}.{namespace}"),
            name.clone(),
        ]),
        from: span.from,
        until: span.until,
    });
    let service = json!({
        "apiVersion": Kind::Service.api_version(),
        "kind": Kind::Service.name(),
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels(meta),
            "ownerReferences": [owner::reference(Kind::PersistentVolumeClaim, meta)],
        },
        "spec": {
            "clusterIP": "None",
            // The proxy asks first whether the pod is ready; a connection in flight outlives a probe that failed.
            "publishNotReadyAddresses": true,
            "selector": {SERVICE_LABEL: name},
            "ports": [{"name": "upload", "port": PORT, "targetPort": PORT, "protocol": "TCP"}],
        },
    });
    plan.create(Key::new(Kind::Service, namespace, name), service);
    plan
}

/// Deletes the Secret and the Service of a pod. The pod itself is deleted last: while it exists, all of this is done again.
pub(super) fn take_away(claim: &PersistentVolumeClaim) -> Plan {
    let mut plan = Plan::default();
    let (name, namespace) = (name(&claim.meta), claim.meta.namespace.clone().unwrap_or_default());
    for kind in [Kind::Service, Kind::Secret] {
        plan.delete_of(Key::new(kind, &*namespace, &*name), &claim.meta);
    }
    plan
}

fn name(claim: &ObjectMeta) -> String {
    Work::Upload.pod(claim.name.as_deref().unwrap_or_default())
}

/// The validity of a certificate that is made now; an outcome with the reason where none can be made yet.
pub(super) fn certified(request: &Request<'_>, claim: &PersistentVolumeClaim) -> Result<Span, Box<Outcome>> {
    let span = match request.work {
        Work::Upload => uploads::certificate_span(request.world, request.now),
        Work::Import | Work::Export | Work::Serve => uploads::ready_for_clone(request.world, request.now),
    };
    // A pod whose deadline has passed before it starts would be made again and again.
    span.filter(|span| deadline(span, request.now) > request.now).ok_or_else(|| {
        let pod = if request.work == Work::Upload { "upload pod" } else { "source pod" };
        let message = format!(
            "the {pod} of PVC {} waits for the authorities of its certificate, which virt-controller creates in the \
             namespace {}",
            super::claim_name(claim),
            request.world.facts.namespace
        );
        let again = request.now.checked_add(LOOK).unwrap_or(request.now);
        let outcome = Outcome::default().wait("CertificatesPending", &message);
        Box::new(outcome.phase(Phase::Pending).retry_at(again))
    })
}

/// The pod runs: it waits for a client, or receives the disk from one.
pub(super) fn receives(
    request: &Request<'_>,
    claim: &PersistentVolumeClaim,
    pod: Option<&Pod>,
    report: Option<&Report>,
) -> Outcome {
    let container = pod.and_then(|pod| pod.container(Work::Upload.container()));
    let is_ready = container.is_some_and(|container| container.ready);
    let moving = report.filter(|report| !matches!(report.stage, Stage::Preparing | Stage::Waiting));
    // The last upload failed, or its connection broke. The pod takes another one.
    let failed = report.filter(|report| report.stage == Stage::Waiting && !report.reason.is_empty());
    let why = failed.map(|report| report.message.as_str()).unwrap_or_default();
    let mut outcome = Outcome::default()
        .condition(ConditionType::Running, "True", "Pod is running", why)
        .progress(moving.map_or_else(|| status::UNKNOWN.to_owned(), status::progress));
    let before = running(&request.status).and_then(|running| running.message.clone());
    let now = Some(status::clean_message(why)).filter(|now| !now.is_empty());
    if let Some(why) = now.filter(|now| failed.is_some() && Some(now) != before.as_ref()) {
        outcome = outcome.event(true, request.terms().failed, format!("the upload failed: {why}"));
    }
    if !is_ready {
        let message = "the upload pod runs, and is not ready yet";
        return outcome
            .condition(ConditionType::Ready, "False", "Pending", message)
            .condition(ConditionType::Transferring, "False", "Starting", message)
            .and(scheduled(request, claim));
    }
    let outcome = match moving {
        Some(report) => {
            let (word, message) = status::transfer(report);
            outcome
                .condition(ConditionType::Ready, "False", "TransferRunning", "Upload is running")
                .condition(ConditionType::Transferring, "True", word, &message)
        }
        None => {
            let waits = format!("waits for an upload: {}", upload_command(request, claim));
            let message = match failed {
                Some(report) => format!("{}; {waits}", report.message),
                None => waits,
            };
            outcome.condition(ConditionType::Ready, "False", "WaitsForUpload", &message).condition(
                ConditionType::Transferring,
                "False",
                "Waiting",
                &message,
            )
        }
    };
    let message = format!("Upload into {} ready", super::claim_name(claim));
    outcome.enter_phase(Phase::UploadReady, false, "UploadReady", message)
}

/// The command that uploads a file into this PVC.
fn upload_command(request: &Request<'_>, claim: &PersistentVolumeClaim) -> String {
    let kind = if request.is_standalone() { "pvc" } else { "dv" };
    let namespace = claim.meta.namespace.as_deref().unwrap_or_default();
    let is_archive = request.volume.spec.content_type == Some(ContentType::Archive);
    let path = if is_archive { "--archive-path" } else { "--image-path" };
    format!("virtctl image-upload {kind} {} -n {namespace} {path} FILE", super::claim_name(claim))
}
