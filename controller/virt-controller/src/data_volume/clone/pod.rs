//! The source pod of a copy. Pure: the same clone gives the same pod, byte for byte.
//!
//! ```text
//!  pod clone-source-UID, owned by the PVC that is cloned, restartPolicy Never: virt-controller makes the next one
//!  └─ container: cdi-worker serve, uid 107, CDI_JOB says what and to whom
//!       /data or /dev/cdi-block-volume     the PVC, to be read
//!       /etc/tls                           its certificate, and the authorities of its client
//! ```
//!
//! The pod is in the namespace of the source: nothing that the DataVolume says of its own worker pod (a service account, a priority
//! class) is meant for it.

use super::super::pod::{Part, Tls, worker};
use api::job::{Serve, Target};
use api::meta::ObjectMeta;
use cluster_model::clones::{TARGET, TARGET_LABEL};
use cluster_model::objects::{PersistentVolumeClaim, Work, World, names};
use cluster_model::uploads::SERVICE_LABEL;
use cluster_model::worker::{APP, DEVICE, DISK, WORK};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// The input of a source pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourcePodInput<'a> {
    pub(super) world: &'a World,
    /// The PVC that is cloned.
    pub(super) source: &'a PersistentVolumeClaim,
    /// The PVC of the clone.
    pub(super) target: &'a ObjectMeta,
    /// Number of earlier pods that did not complete their work.
    pub(super) attempt: i64,
    /// Until when it serves, before its certificate ends.
    pub(super) deadline: Timestamp,
}

/// The labels of a source pod, of its Service, and of the Secrets of both ends.
pub(super) fn labels(target: &str, name: &str) -> Map<String, Value> {
    let labels = [
        (APP.0, APP.1),
        (WORK.0, Work::Serve.label()),
        ("app.kubernetes.io/managed-by", "cdi-controller"),
        ("app.kubernetes.io/component", "storage"),
        (TARGET_LABEL, target),
        (SERVICE_LABEL, name),
    ];
    labels.into_iter().map(|(label, value)| (label.to_owned(), json!(value))).collect()
}

/// The pod of this name.
pub(super) fn pod(name: &str, around: &SourcePodInput<'_>) -> Value {
    let is_block = around.source.is_block();
    let disk = match is_block {
        true => Target::Device(PathBuf::from(DEVICE)),
        false => Target::File(PathBuf::from(DISK)),
    };
    let uid = around.target.uid.as_deref().unwrap_or_default();
    let client = names::clone_client(uid);
    let job = Serve { disk, client, is_shared: around.source.is_shared_device() };
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let target = format!("{}/{}", text(&around.target.namespace), text(&around.target.name));
    let mut pod = worker(Part {
        world: around.world,
        work: Work::Serve,
        name,
        claim: around.source,
        // A job is made of texts alone.
        job: serde_json::to_string(&job).unwrap_or_default(),
        is_block,
        attempt: around.attempt,
        labels: labels(uid, name),
        volumes: Vec::new(),
        mounts: Vec::new(),
        tls: Some(Tls {
            secret: name.to_owned(),
            serves: true,
            client: None,
            deadline: Some(around.deadline),
        }),
    });
    pod["metadata"]["annotations"][TARGET] = json!(target);
    pod["metadata"]["labels"]["prometheus.cdi.kubevirt.io"] = json!("true");
    pod
}
