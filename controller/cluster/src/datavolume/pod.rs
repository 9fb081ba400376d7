//! The worker pod of a DataVolume. Pure: the same DataVolume gives the same pod, byte for byte.
//!
//! ```text
//!  pod importer-NAME or cdi-upload-NAME, owned by the PVC, restartPolicy Never: virt-controller makes the next one
//!  └─ container: cdi-worker import or upload, uid 107, CDI_JOB says what
//!       /data or /dev/cdi-block-volume     the PVC
//!       /etc/cdi/secrets/NAME              Secrets that the source names
//!       /etc/cdi/certs/NAME                ConfigMaps with certificates
//!       /etc/tls                           of an upload: its certificate, and the authorities of its clients
//!       /tmp                               an emptyDir
//! ```

use super::claim::Wanted;
use api::datavolume::DataVolume;
use api::job::{Files, Import, References, Refusal, Target};
use api::machine::Machine;
use api::vmi::VirtualMachineInstance;
use jiff::Timestamp;
use kubernetes::conditions::stamp;
use kubernetes::config::Config;
use kubernetes::launcher::USER;
use kubernetes::objects::{ClusterFacts, Kind, PersistentVolumeClaim, Work, owner};
use kubernetes::uploads::{CLIENT_NAME, TLS_FOLDER};
use kubernetes::worker::{APP, ATTEMPT, CERTIFICATES, DEVICE, DISK, FOLDER, PORT, SECRETS, WORK, WORKER};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::PathBuf;

/// The volume of the PVC.
const DATA: &str = "cdi-data-vol";
/// Room for clusters of a qcow2 that arrive before their tables: usually none. In a file system they wait beside the disk.
const SPOOL: &str = "1Gi";
/// Memory that a worker holds for every input but one that itself demands more.
const MEMORY: &str = "128Mi";

/// What a worker's pod depends on beside the DataVolume.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around<'a> {
    /// The settings of the cluster.
    pub(super) config: &'a Config,
    /// What is known of the cluster.
    pub(super) facts: &'a ClusterFacts,
    /// The PVC as it is.
    pub(super) claim: &'a PersistentVolumeClaim,
    /// The VMI that waits for the disk, and what the check made of it: the volume is made where that can run.
    pub(super) consumer: Option<(&'a VirtualMachineInstance, &'a Machine)>,
    /// Pods before this one that did not end their work.
    pub(super) attempt: i64,
    /// What the pod does. Of an upload: until when it waits for one, before its certificate ends.
    pub(super) work: Work,
    pub(super) deadline: Option<Timestamp>,
}

/// The pod.
pub(super) fn pod(
    volume: &DataVolume,
    wanted: &Wanted<'_>,
    around: &Around<'_>,
) -> Result<Value, Refusal<Infallible>> {
    let is_block = wanted.spec.is_block();
    let target = PathBuf::from(if is_block { DEVICE } else { DISK });
    let target = if is_block { Target::Device(target) } else { Target::File(target) };
    let mut mounted = Mounted::default();
    let mut job = Import::of(volume, target, &mut mounted)?;
    if wanted.disk.is_some() {
        job.size = wanted.disk;
    } else if volume.spec.source.as_ref().is_none_or(|source| source.blank.is_none()) {
        job.size = None;
    }
    let meta = &around.claim.meta;
    let name = around.work.pod(meta.name.as_deref().unwrap_or_default());
    let mut volumes = vec![
        json!({"name": DATA, "persistentVolumeClaim": {"claimName": meta.name}}),
        json!({"name": "tmp", "emptyDir": {"sizeLimit": if is_block { SPOOL } else { "16Mi" }}}),
    ];
    let mut mounts = vec![json!({"name": "tmp", "mountPath": "/tmp"})];
    if !is_block {
        mounts.push(json!({"name": DATA, "mountPath": FOLDER}));
    }
    mounted.add(&mut volumes, &mut mounts);
    let mut container = json!({
        "name": around.work.container(),
        "image": around.facts.worker_image,
        "args": [around.work.verb()],
        "env": [
            // A job is made of texts and numbers alone.
            {"name": "CDI_JOB", "value": serde_json::to_string(&job).unwrap_or_default()},
            {"name": "OWNER_UID", "value": meta.uid},
            {"name": "MEMORY_LIMIT", "valueFrom": {"resourceFieldRef": {
                "containerName": around.work.container(), "resource": "limits.memory"}}},
        ],
        "ports": [{"name": "metrics", "containerPort": PORT, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "100m", "memory": "60M"}, "limits": {"memory": MEMORY}},
        "securityContext": {
            "runAsUser": USER,
            "runAsGroup": USER,
            "runAsNonRoot": true,
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    });
    if let Some(policy) = &around.config.image_pull_policy {
        container["imagePullPolicy"] = json!(policy);
    }
    if around.work == Work::Upload {
        serve(&mut container, &mut volumes, &name, around.deadline);
    }
    if is_block {
        container["volumeDevices"] = json!([{"name": DATA, "devicePath": DEVICE}]);
    }
    let mut spec = json!({
        "restartPolicy": "Never",
        "enableServiceLinks": false,
        "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": 10,
        "securityContext": {
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            // A volume with a million files is not walked for a group that it has.
            "fsGroupChangePolicy": "OnRootMismatch",
            "runAsNonRoot": true,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": volumes,
    });
    let said = &volume.spec;
    for (field, value) in
        [("priorityClassName", &said.priority_class_name), ("serviceAccountName", &said.service_account_name)]
    {
        if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
            spec[field] = json!(value);
        }
    }
    if !around.config.image_pull_secrets.is_empty() {
        spec["imagePullSecrets"] = json!(around.config.image_pull_secrets);
    }
    place(&mut spec, around);
    let mut labels = match around.work {
        Work::Import => json!({"prometheus.cdi.kubevirt.io": "true"}),
        Work::Upload => json!(super::upload::labels(meta)),
    };
    for (label, value) in [
        WORKER,
        APP,
        (WORK.0, around.work.label()),
        ("app.kubernetes.io/managed-by", "cdi-controller"),
        ("app.kubernetes.io/component", "storage"),
    ] {
        labels[label] = json!(value);
    }
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": meta.namespace,
            "labels": labels,
            "annotations": {
                ATTEMPT: around.attempt.to_string(),
                // A mesh's sidecar outlives the work, and the pod would never end.
                "sidecar.istio.io/inject": "false",
                "linkerd.io/inject": "disabled",
            },
            "ownerReferences": [owner::reference(Kind::PersistentVolumeClaim, meta)],
        },
        "spec": spec,
    }))
}

/// What an upload server needs beside: its certificate, in the Secret of its own name, and whom it serves until when. It is ready
/// when it answers.
fn serve(container: &mut Value, volumes: &mut Vec<Value>, name: &str, deadline: Option<Timestamp>) {
    const VOLUME: &str = "tls-config";
    volumes.push(json!({"name": VOLUME, "secret": {"secretName": name}}));
    container["readinessProbe"] = json!({
        "httpGet": {"scheme": "HTTPS", "path": "/healthz", "port": PORT},
        "periodSeconds": 2,
    });
    let file = |name: &str| format!("{TLS_FOLDER}/{name}");
    let mut env = vec![
        json!({"name": "TLS_KEY_FILE", "value": file("tls.key")}),
        json!({"name": "TLS_CERT_FILE", "value": file("tls.crt")}),
        json!({"name": "CLIENT_CERT_FILE", "value": file("ca.crt")}),
        json!({"name": "CLIENT_NAME", "value": CLIENT_NAME}),
    ];
    env.extend(deadline.map(|time| json!({"name": "DEADLINE", "value": stamp(time)})));
    for (list, more) in [
        ("env", env),
        ("volumeMounts", vec![json!({"name": VOLUME, "mountPath": TLS_FOLDER, "readOnly": true})]),
    ] {
        if let Some(list) = container[list].as_array_mut() {
            list.extend(more);
        }
    }
}

/// Where the consumer can run, its volume is made.
fn place(spec: &mut Value, around: &Around<'_>) {
    spec["nodeSelector"] = json!({"kubernetes.io/os": "linux"});
    let Some((vmi, machine)) = around.consumer else { return };
    let wanted = crate::pod::placement(vmi, machine, around.config);
    for field in ["nodeSelector", "affinity", "schedulerName", "tolerations", "topologySpreadConstraints"] {
        if let Some(value) = wanted.get(field) {
            spec[field] = value.clone();
        }
    }
}

/// The Secrets and ConfigMaps that a source names, each mounted in a folder of its name.
#[derive(Default)]
struct Mounted {
    secrets: BTreeSet<String>,
    certificates: BTreeSet<String>,
}

impl References for Mounted {
    type Error = Infallible;

    fn secret(&mut self, name: &str) -> Result<Files, Infallible> {
        self.secrets.insert(name.to_owned());
        Ok(Files::Folder(PathBuf::from(SECRETS).join(name)))
    }

    fn config_map(&mut self, name: &str) -> Result<PathBuf, Infallible> {
        self.certificates.insert(name.to_owned());
        Ok(PathBuf::from(CERTIFICATES).join(name))
    }
}

impl Mounted {
    fn add(&self, volumes: &mut Vec<Value>, mounts: &mut Vec<Value>) {
        for (number, name) in self.secrets.iter().enumerate() {
            let volume = format!("cdi-secret-vol-{number}");
            volumes.push(json!({"name": volume, "secret": {"secretName": name}}));
            mounts.push(json!({"name": volume, "mountPath": format!("{SECRETS}/{name}"), "readOnly": true}));
        }
        for (number, name) in self.certificates.iter().enumerate() {
            let volume = format!("cdi-cert-vol-{number}");
            volumes.push(json!({"name": volume, "configMap": {"name": name}}));
            mounts.push(
                json!({"name": volume, "mountPath": format!("{CERTIFICATES}/{name}"), "readOnly": true}),
            );
        }
    }
}
