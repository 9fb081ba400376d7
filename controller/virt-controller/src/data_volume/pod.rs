//! The worker pod of a DataVolume, and what it has in common with export pods and source pods ([`worker`]). Pure: the same DataVolume gives the
//! same pod, byte for byte.
//!
//! ```text
//!  pod importer-NAME or cdi-upload-NAME, owned by the PVC, restartPolicy Never: virt-controller makes the next one
//!  └─ container: cdi-worker import or upload, uid 107, CDI_JOB says what
//!       /data or /dev/cdi-block-volume     the PVC
//!       /etc/cdi/secrets/NAME              Secrets that the source names
//!       /etc/cdi/certs/NAME                ConfigMaps with certificates
//!       /image                             the image, where the node pulls it: an image volume
//!       /etc/tls                           of an upload and of a clone: its certificate, and the authorities of the other end
//!       /etc/permit                        of an import onto a device: the annotation with its permit
//!       /tmp                               an emptyDir
//! ```

use super::base_pod::{self, BasePod};
use super::claim::RequestedClaim;
use super::registries::RegistrySettings;
use super::settings;
use api::data_volume::DataVolume;
use api::job::{self, Files, Import, References, Refusal, Source, Target};
use api::machine::Machine;
use api::vmi::VirtualMachineInstance;
use cluster_model::conditions::stamp;
use cluster_model::config::Config;
use cluster_model::objects::{Kind, PersistentVolumeClaim, Work, World, names, owner};
use cluster_model::uploads::{CLIENT_NAME, TLS_FOLDER};
use cluster_model::worker::{
    CERTIFICATES, DEVICE, DISK, FOLDER, IMAGE, PERMIT, PERMIT_ENVIRONMENT, PERMIT_FOLDER, PORT, SECRETS,
};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::PathBuf;

/// The volume of the PVC.
const DATA: &str = "cdi-data-vol";
/// Room for clusters of a qcow2 that arrive before their tables: usually none. In a file system they wait beside the disk.
const SPOOL: &str = "1Gi";
/// The file with the permit, in its volume.
const PERMIT_FILE: &str = "permit";

/// The input of a worker pod beside the DataVolume.
#[derive(Clone, Debug)]
pub(super) struct WorkerInput<'a> {
    /// The settings of the cluster.
    pub(super) config: &'a Config,
    pub(super) world: &'a World,
    /// The PVC as it is.
    pub(super) claim: &'a PersistentVolumeClaim,
    /// The VMI that waits for the disk, and its checked spec: the volume is created on a node where the VMI
    /// can run.
    pub(super) consumer: Option<(&'a VirtualMachineInstance, &'a Machine)>,
    /// Number of earlier pods that did not complete their work.
    pub(super) attempt: i64,
    /// Work of the pod. For an upload also the end of the wait for a client, before its certificate ends.
    pub(super) work: Work,
    pub(super) deadline: Option<Timestamp>,
    /// Settings of registries for the pod.
    pub(super) told: &'a RegistrySettings,
    /// The address of the source pod of a clone.
    pub(super) clone: Option<job::Clone>,
}

/// Worker pod that fills the PVC.
pub(super) fn pod(
    volume: &DataVolume,
    wanted: &RequestedClaim<'_>,
    around: &WorkerInput<'_>,
) -> Result<Value, Refusal<Infallible>> {
    let is_block = wanted.spec.is_block();
    let target = PathBuf::from(if is_block { DEVICE } else { DISK });
    let target = if is_block { Target::Device(target) } else { Target::File(target) };
    let mut mounted = MountedObjects::default();
    let mut job = match &around.clone {
        Some(source) => Import {
            source: Source::Clone(source.clone()),
            target,
            size: wanted.grows,
            preallocate: volume.spec.preallocation == Some(true),
        },
        None => imported(volume, wanted, target, &mut mounted)?,
    };
    job.preallocate = settings::preallocates(volume, &around.world.disk_settings().imports);
    if let Source::Registry(registry) = &mut job.source {
        around.told.apply_to_job(registry);
    }
    let meta = &around.claim.meta;
    let name = around.work.pod(meta.name.as_deref().unwrap_or_default());
    let (mut volumes, mut mounts) = (Vec::new(), Vec::new());
    mounted.add(&mut volumes, &mut mounts);
    let tls = |secret: String, serves: bool| Tls {
        secret,
        serves,
        client: serves.then_some(CLIENT_NAME),
        deadline: around.deadline,
    };
    let tls = match around.work {
        Work::Upload => Some(tls(name.clone(), true)),
        _ => around
            .clone
            .as_ref()
            .map(|_| tls(names::clone_client(meta.uid.as_deref().unwrap_or_default()), false)),
    };
    let labels = match around.work {
        Work::Upload => super::upload::labels(meta),
        Work::Import | Work::Export | Work::Serve => {
            [("prometheus.cdi.kubevirt.io".to_owned(), json!("true"))].into_iter().collect()
        }
    };
    let mut pod = worker(Part {
        world: around.world,
        work: around.work,
        name: &name,
        claim: around.claim,
        // A job is made of texts and numbers alone.
        job: serde_json::to_string(&job).unwrap_or_default(),
        is_block,
        attempt: around.attempt,
        labels,
        volumes,
        mounts,
        tls,
    });
    let said = &volume.spec;
    for (field, value) in
        [("priorityClassName", &said.priority_class_name), ("serviceAccountName", &said.service_account_name)]
    {
        if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
            pod["spec"][field] = json!(value);
        }
    }
    place_near_consumer(&mut pod["spec"], around);
    around.told.apply_to_pod(&mut pod);
    mounted.pull(&mut pod["spec"], volume);
    Ok(pod)
}

/// The job of a disk that comes from elsewhere than a PVC.
fn imported(
    volume: &DataVolume,
    wanted: &RequestedClaim<'_>,
    target: Target,
    mounted: &mut MountedObjects,
) -> Result<Import, Refusal<Infallible>> {
    let mut job = Import::from_data_volume(volume, target, mounted)?;
    if wanted.disk.is_some() {
        job.size = wanted.disk;
    } else if volume.spec.source.as_ref().is_none_or(|source| source.blank.is_none()) {
        job.size = None;
    }
    Ok(job)
}

/// The parts of a worker pod.
pub(crate) struct Part<'a> {
    /// The cluster's objects, with its settings.
    pub(crate) world: &'a World,
    pub(crate) work: Work,
    pub(crate) name: &'a str,
    /// The PVC, which owns the pod. It is mounted read-only for an export and for the source pod of a clone.
    pub(crate) claim: &'a PersistentVolumeClaim,
    pub(crate) job: String,
    pub(crate) is_block: bool,
    pub(crate) attempt: i64,
    /// Labels in addition to those of all workers.
    pub(crate) labels: Map<String, Value>,
    /// Volumes and mounts in addition to those of all workers.
    pub(crate) volumes: Vec<Value>,
    pub(crate) mounts: Vec<Value>,
    pub(crate) tls: Option<Tls>,
}

/// The certificate of a worker.
pub(crate) struct Tls {
    /// The Secret with the certificate, its key, and the CA certificates for the peer.
    pub(crate) secret: String,
    /// The worker is a server. It is ready when it answers.
    pub(crate) serves: bool,
    /// The only client of an upload server; other servers have it in their job.
    pub(crate) client: Option<&'static str>,
    /// Time at which the server stops; `None` if it has no deadline.
    pub(crate) deadline: Option<Timestamp>,
}

/// Worker pod with a job and a PVC, for all kinds of work.
pub(crate) fn worker(part: Part<'_>) -> Value {
    let Part { world, work, name, claim, job, is_block, attempt, labels, volumes: more, mut mounts, tls } =
        part;
    let meta = &claim.meta;
    let is_read = matches!(work, Work::Export | Work::Serve);
    let spool = if is_block && !is_read { SPOOL } else { "16Mi" };
    let mut of_claim = json!({"claimName": meta.name});
    if is_read {
        of_claim["readOnly"] = json!(true);
    }
    let mut volumes = vec![
        json!({"name": DATA, "persistentVolumeClaim": of_claim}),
        json!({"name": "tmp", "emptyDir": {"sizeLimit": spool}}),
    ];
    volumes.extend(more);
    let mut first = vec![json!({"name": "tmp", "mountPath": "/tmp"})];
    if !is_block {
        let mut mount = json!({"name": DATA, "mountPath": FOLDER});
        if is_read {
            mount["readOnly"] = json!(true);
        }
        first.push(mount);
    }
    first.append(&mut mounts);
    let env = vec![json!({"name": "CDI_JOB", "value": job}), json!({"name": "OWNER_UID", "value": meta.uid})];
    let mut container = base_pod::container(world, work.container(), work.verb(), env);
    container["volumeMounts"] = json!(first);
    if let Some(tls) = tls {
        shows_itself(&mut container, &mut volumes, &tls);
    }
    if is_block {
        container["volumeDevices"] = json!([{"name": DATA, "devicePath": DEVICE}]);
    }
    // The Secret of an upload is deleted with the complete disk, and a pod that is created later does not start.
    if is_block && work == Work::Import {
        needs_permit(&mut container, &mut volumes);
    }
    base_pod::pod(BasePod {
        world,
        name,
        namespace: meta.namespace.as_deref(),
        owner: owner::reference(Kind::PersistentVolumeClaim, meta),
        work: work.label(),
        fetches: work == Work::Import,
        attempt,
        labels,
        container,
        volumes,
    })
}

/// A worker that writes only after virt-controller has seen the pod, and has permitted it: a pod whose creation was delayed may find a
/// complete disk that a VMI uses.
fn needs_permit(container: &mut Value, volumes: &mut Vec<Value>) {
    let (folder, volume) = PERMIT_FOLDER;
    let (file, uid) = PERMIT_ENVIRONMENT;
    let annotation = json!({"fieldPath": format!("metadata.annotations['{PERMIT}']")});
    volumes.push(
        json!({"name": volume, "downwardAPI": {"items": [{"path": PERMIT_FILE, "fieldRef": annotation}]}}),
    );
    add(container, "volumeMounts", json!({"name": volume, "mountPath": folder, "readOnly": true}));
    add(container, "env", json!({"name": file, "value": format!("{folder}/{PERMIT_FILE}")}));
    add(container, "env", json!({"name": uid, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}));
}

/// Adds an entry to a list of a container.
fn add(container: &mut Value, list: &str, entry: Value) {
    if let Some(list) = container[list].as_array_mut() {
        list.push(entry);
    }
}

/// Gives a worker its certificate, from a Secret. A server also gets the name of its only client and its deadline, if there are any. It is
/// ready when it answers.
fn shows_itself(container: &mut Value, volumes: &mut Vec<Value>, tls: &Tls) {
    const VOLUME: &str = "tls-config";
    volumes.push(json!({"name": VOLUME, "secret": {"secretName": tls.secret}}));
    add(container, "volumeMounts", json!({"name": VOLUME, "mountPath": TLS_FOLDER, "readOnly": true}));
    if !tls.serves {
        return;
    }
    let file = |name: &str| format!("{TLS_FOLDER}/{name}");
    for (name, of) in
        [("TLS_KEY_FILE", "tls.key"), ("TLS_CERT_FILE", "tls.crt"), ("CLIENT_CERT_FILE", "ca.crt")]
    {
        add(container, "env", json!({"name": name, "value": file(of)}));
    }
    if let Some(client) = tls.client {
        add(container, "env", json!({"name": "CLIENT_NAME", "value": client}));
    }
    if let Some(time) = tls.deadline {
        add(container, "env", json!({"name": "DEADLINE", "value": stamp(time)}));
    }
    container["readinessProbe"] = json!({
        "httpGet": {"scheme": "HTTPS", "path": "/healthz", "port": PORT},
        "periodSeconds": 2,
    });
}

/// Places the pod where its consumer can run, since the volume is made there. Settings of the VMI take precedence over those of the
/// cluster for worker pods.
fn place_near_consumer(spec: &mut Value, around: &WorkerInput<'_>) {
    let Some((vmi, machine)) = around.consumer else { return };
    let wanted = crate::pod::placement(vmi, machine, around.config);
    for field in ["affinity", "schedulerName", "topologySpreadConstraints"] {
        if let Some(value) = wanted.get(field) {
            spec[field] = value.clone();
        }
    }
    for (label, value) in wanted.get("nodeSelector").and_then(Value::as_object).into_iter().flatten() {
        spec["nodeSelector"][label] = value.clone();
    }
    if let Some(more) = wanted.get("tolerations").and_then(Value::as_array) {
        let mut all = spec["tolerations"].as_array().cloned().unwrap_or_default();
        all.extend(more.iter().cloned());
        spec["tolerations"] = json!(all);
    }
}

/// The Secrets and ConfigMaps that a source names, each mounted in a folder of its name; and the image that the node pulls.
#[derive(Default)]
pub(crate) struct MountedObjects {
    secrets: BTreeSet<String>,
    certificates: BTreeSet<String>,
    image: Option<String>,
    /// With which the node pulls it.
    pull_secret: Option<String>,
}

impl References for MountedObjects {
    type Error = Infallible;

    fn secret(&mut self, name: &str) -> Result<Files, Infallible> {
        self.secrets.insert(name.to_owned());
        Ok(Files::Folder(PathBuf::from(SECRETS).join(name)))
    }

    fn config_map(&mut self, name: &str) -> Result<PathBuf, Infallible> {
        self.certificates.insert(name.to_owned());
        Ok(PathBuf::from(CERTIFICATES).join(name))
    }

    fn image(&mut self, reference: &str, pull_secret: Option<&str>) -> Option<PathBuf> {
        (self.image, self.pull_secret) = (Some(reference.to_owned()), pull_secret.map(str::to_owned));
        Some(PathBuf::from(IMAGE.0))
    }
}

impl MountedObjects {
    /// Settings that the node needs to pull the image: the Secret and the architecture. The kubelet takes the
    /// variant of its own architecture.
    fn pull(&self, spec: &mut Value, volume: &DataVolume) {
        if let Some(name) = &self.pull_secret {
            let mut secrets = spec["imagePullSecrets"].as_array().cloned().unwrap_or_default();
            secrets.push(json!({"name": name}));
            spec["imagePullSecrets"] = json!(secrets);
        }
        let registry = volume.spec.source.as_ref().and_then(|source| source.registry.as_ref());
        if let (Some(_), Some(architecture)) = (&self.image, registry.and_then(|one| one.architecture())) {
            spec["nodeSelector"]["kubernetes.io/arch"] = json!(architecture);
        }
    }

    /// Adds the volumes and mounts to those of a pod.
    pub(crate) fn add(&self, volumes: &mut Vec<Value>, mounts: &mut Vec<Value>) {
        if let Some(reference) = &self.image {
            let (folder, volume) = IMAGE;
            volumes.push(json!({"name": volume, "image": {"reference": reference}}));
            mounts.push(json!({"name": volume, "mountPath": folder, "readOnly": true}));
        }
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
