//! The launcher pod of a VMI. Pure: the same VMI and the same surroundings give the same pod, byte for byte.
//!
//! ```text
//!  pod virt-launcher-NAME-xxxxx            one for all the life of a VMI; its name follows from the uid
//!  └─ container compute: virt-launcher run --once, uid 107
//!       /var/run/kubevirt-private          emptyDir `private`
//!         root/                            the launcher's files: overlays, empty disks, seeds, logs, console
//!         cache/                           libvirt's capabilities of this node: virt-handler puts them there
//!         vmi-disks/VOLUME/                a claim with a file system, or the folder of a hostDisk
//!         config-map/, secret/, sysprep/, downwardapi/, service-account/
//!                                          VOLUME/: files that become an ISO image
//!         vm-state/                        the PVC in which EFI variables and the TPM outlive the VMI
//!         named/SECRET/                    secrets that are named without a volume (cloud-init, keys)
//!       /var/run/kubevirt/sockets          emptyDir `sockets`: launcher-sock, which virt-handler speaks to
//!       /var/run/kubevirt-image-volume/    disk_I: the image of volume I of the spec, only read
//!       /var/run/kubevirt-kernel-boot      the image of a kernel
//!       /dev/VOLUME                        a claim that is a device
//!  └─ container volumeVOLUME, one per image, only where images cannot be mounted: see `beside`
//!  └─ container virtiofs-NAME, one per file system: see `virtiofs`
//!  └─ container hook-sidecar-N, one per entry of the annotation: see `hooks`
//!  └─ container guest-console-log, unless it is turned off: see `log`
//! ```
//!
//! Networks of Multus are annotations: see `networks`.
//!
//! virt-handler reads from the pod itself the places of its files, so only this folder decides them. The
//! pod's volumes have the names of the VMI's volumes. If one of those is called `private` or `sockets`, ours
//! gets another name.
//!
//! containerDisks are image volumes of Kubernetes, which the kubelet and the runtime have to support. If a
//! schedulable node does not, the API server drops the field, or the settings turn them off, a container of
//! each image runs beside.

mod debug;
mod hooks;
mod image_containers;
mod labels;
mod limits;
mod log;
mod migration_target;
mod networks;
mod placement;
mod ports;
mod probes;
mod resources;
#[cfg(test)]
mod tests;
mod virtiofs;
mod volumes;

pub(crate) use debug::keeps_failed_pod;
pub(crate) use labels::MEMORY_OVERHEAD;
pub(crate) use limits::AutomaticLimits;
pub(crate) use log::NAME as LOG;
pub(crate) use migration_target::MigrationTarget;
pub(crate) use networks::on_networks;
pub(crate) use placement::{placement, selectors};
pub(crate) use resources::{guest_memory, overhead};

use api::machine::resource_claim::Source;
use api::machine::{Machine, ResourceClaim, Volume};
use api::vmi::VirtualMachineInstance;
use cluster_model::config::Config;
use cluster_model::launcher::{ASKED_IMAGE, CAPABILITIES, USER};
use cluster_model::objects::{ClusterFacts, Kind, PersistentVolumeClaim, names, owner};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Default termination grace period of a VMI, in seconds.
const GRACE: i64 = 30;
/// Additional seconds of the pod's grace period, for an orderly end of the launcher.
const GRACE_BEYOND: i64 = 30;
/// The file in which the launcher leaves how its VMI ended.
const TERMINATION: &str = "/dev/termination-log";
/// The launcher's program in its image.
const PROGRAM: &str = "/usr/bin/virt-launcher";

/// Input of a launcher pod beside the VMI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings<'a> {
    /// The settings of the cluster.
    pub(crate) config: &'a Config,
    /// Facts about the cluster.
    pub(crate) facts: &'a ClusterFacts,
    /// Image volumes work: the server keeps them, and each node that may get the pod can mount them.
    pub(crate) image_volumes: bool,
    /// The PVCs that the VMI names, by their names.
    pub(crate) claims: &'a BTreeMap<String, PersistentVolumeClaim>,
    /// The PVC in which EFI variables and the TPM outlive the VMI.
    pub(crate) state: Option<&'a str>,
    /// The limits that the pod gets by itself.
    pub(crate) limits: AutomaticLimits,
    /// The migration whose guest the pod receives. `None` for the start of the VMI.
    pub(crate) receives: Option<MigrationTarget<'a>>,
}

/// The pod of a VMI. `vmi` is complete (its defaults are filled in), and `machine` is its checked spec.
pub(crate) fn pod(vmi: &VirtualMachineInstance, machine: &Machine, around: &Surroundings<'_>) -> Value {
    let meta = &vmi.metadata;
    let uid = meta.uid.clone().unwrap_or_default();
    let volumes = volumes::volumes(vmi, machine, around);
    let mut spec = placement(vmi, machine, around.config);
    spec.extend(host(vmi, machine));
    let mut containers = vec![compute(vmi, machine, around, &volumes)];
    let log = log::container(vmi, machine, around, &volumes.private);
    let (mut before, beside) = volumes.beside.containers(around);
    containers.extend(beside);
    containers.extend(volumes.virtiofs);
    containers.extend(volumes.hooks);
    containers.extend(log);
    resources::unlimit_disk(&mut containers);
    if resources::is_guaranteed(vmi) {
        containers.iter_mut().skip(1).chain(&mut before).for_each(resources::guarantee);
    }
    insert_unless_empty(&mut spec, "initContainers", Value::Array(before));
    insert_unless_empty(&mut spec, "containers", Value::Array(containers));
    insert_unless_empty(&mut spec, "volumes", Value::Array(volumes.volumes));
    insert_unless_empty(&mut spec, "securityContext", security(around.config));
    let mut secrets = around.config.image_pull_secrets.clone();
    for name in volumes.pull_secrets {
        let secret = json!({"name": name});
        if !secrets.contains(&secret) {
            secrets.push(secret);
        }
    }
    insert_unless_empty(&mut spec, "imagePullSecrets", Value::Array(secrets));
    let mut annotations = labels::annotations(vmi, machine, around.config);
    annotations.insert(ASKED_IMAGE.to_owned(), around.facts.launcher_image.clone());
    let mut labels = labels::labels(meta, machine);
    if let Some(target) = &around.receives {
        target.mark(&mut labels, &mut annotations);
        target.place(&mut spec, &uid);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": names::pod(&machine.name, &uid, migration_target::attempt(around)),
            "namespace": machine.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner::reference(Kind::VirtualMachineInstance, meta)],
        },
        "spec": spec,
    })
}

/// Message about a container that can never have the files of a PVC, because the PVC is a device. A pod that
/// mounts one as files would wait for ever.
pub(crate) fn without_files(
    machine: &Machine,
    claims: &BTreeMap<String, PersistentVolumeClaim>,
) -> Option<String> {
    virtiofs::without_files(machine, claims).or_else(|| hooks::without_files(machine, claims))
}

/// Path of the launcher's socket in its pod.
fn socket() -> String {
    format!("{}/launcher-sock", volumes::SOCKETS)
}

/// Termination grace period of a VMI's pod, in seconds.
pub(crate) fn grace(vmi: &VirtualMachineInstance) -> i64 {
    let own = vmi.spec.termination_grace_period_seconds.unwrap_or(GRACE);
    own.clamp(0, i64::from(u32::MAX)) + GRACE_BEYOND
}

/// Identity of the pod in the cluster, and its grace period.
fn host(vmi: &VirtualMachineInstance, machine: &Machine) -> Map<String, Value> {
    let mut spec = Map::new();
    insert_unless_empty(&mut spec, "hostname", json!(machine.hostname));
    insert_unless_empty(&mut spec, "subdomain", json!(machine.subdomain));
    insert_unless_empty(&mut spec, "restartPolicy", json!("Never"));
    insert_unless_empty(&mut spec, "automountServiceAccountToken", json!(false));
    insert_unless_empty(&mut spec, "enableServiceLinks", json!(false));
    insert_unless_empty(&mut spec, "terminationGracePeriodSeconds", json!(grace(vmi)));
    insert_unless_empty(&mut spec, "readinessGates", json!([{"conditionType": UNPAUSED}]));
    insert_unless_empty(&mut spec, "dnsPolicy", json!(vmi.spec.dns_policy));
    insert_unless_empty(&mut spec, "dnsConfig", json!(vmi.spec.dns_config));
    insert_unless_empty(
        &mut spec,
        "resourceClaims",
        machine.resource_claims.iter().map(resource_claim).collect(),
    );
    // A service account that a volume names belongs to the pod, so the token is bound to this pod. No other
    // token is mounted.
    let disks = machine.disks.iter().map(|disk| &disk.volume);
    let volumes = disks.chain(machine.filesystems.iter().map(|filesystem| &filesystem.volume));
    let account = volumes.into_iter().find_map(|volume| match volume {
        Volume::ServiceAccount { name } => Some(name.clone()),
        _ => None,
    });
    insert_unless_empty(
        &mut spec,
        "serviceAccountName",
        json!(account.or_else(|| vmi.spec.service_account_name.clone())),
    );
    spec
}

fn resource_claim(ResourceClaim { name, source }: &ResourceClaim) -> Value {
    match source {
        Source::Existing(claim) => json!({"name": name, "resourceClaimName": claim}),
        Source::Template(template) => json!({"name": name, "resourceClaimTemplateName": template}),
    }
}

/// The condition of a pod that its VMI is not paused.
pub(crate) const UNPAUSED: &str = "kubevirt.io/virtual-machine-unpaused";

fn security(config: &Config) -> Value {
    let mut context = Map::new();
    insert_unless_empty(&mut context, "runAsUser", json!(USER));
    insert_unless_empty(&mut context, "runAsGroup", json!(USER));
    insert_unless_empty(&mut context, "fsGroup", json!(USER));
    insert_unless_empty(&mut context, "runAsNonRoot", json!(true));
    insert_unless_empty(&mut context, "seccompProfile", json!(config.seccomp));
    if let Some(kind) = &config.selinux_type {
        insert_unless_empty(&mut context, "seLinuxOptions", json!({"type": kind}));
    }
    Value::Object(context)
}

/// Restricted security context of our containers. `add`: further capabilities.
fn narrow(add: &[&str]) -> Value {
    let mut capabilities = json!({"drop": ["ALL"]});
    if !add.is_empty() {
        capabilities["add"] = json!(add);
    }
    json!({
        "runAsUser": USER,
        "runAsGroup": USER,
        "runAsNonRoot": true,
        "allowPrivilegeEscalation": false,
        "capabilities": capabilities,
    })
}

fn compute(
    vmi: &VirtualMachineInstance,
    machine: &Machine,
    around: &Surroundings<'_>,
    volumes: &volumes::Volumes,
) -> Value {
    let mut container = Map::new();
    insert_unless_empty(&mut container, "name", json!("compute"));
    insert_unless_empty(&mut container, "image", json!(around.facts.launcher_image));
    insert_unless_empty(&mut container, "imagePullPolicy", json!(around.config.image_pull_policy));
    let (root, cache) = (format!("{}/root", volumes::PRIVATE), format!("{}/cache", volumes::PRIVATE));
    let socket = socket();
    let mut command = vec![PROGRAM, "run", "--root", &root, "--socket", &socket, "--cache", &cache, "--once"];
    command.extend(["--termination-log", TERMINATION]);
    let receive = around.receives.as_ref().map(|target| target.socket(&socket));
    command.extend(receive.iter().flat_map(|path| ["--receive", path.as_str()]));
    command.extend(debug::flags(&vmi.metadata));
    insert_unless_empty(&mut container, "command", json!(command));
    insert_unless_empty(
        &mut container,
        "env",
        Value::Array(debug::environment(&vmi.metadata, around.config)),
    );
    insert_unless_empty(&mut container, "ports", Value::Array(ports::ports(machine)));
    // The VMI's end is read from this file, so it must not contain a log.
    insert_unless_empty(&mut container, "terminationMessagePath", json!(TERMINATION));
    insert_unless_empty(&mut container, "terminationMessagePolicy", json!("File"));
    insert_unless_empty(&mut container, "resources", resources::resources(vmi, machine, around));
    insert_unless_empty(&mut container, "securityContext", narrow(&CAPABILITIES));
    insert_unless_empty(&mut container, "volumeMounts", Value::Array(volumes.mounts.clone()));
    insert_unless_empty(&mut container, "volumeDevices", Value::Array(volumes.devices.clone()));
    insert_unless_empty(&mut container, "livenessProbe", probes::probe(vmi.spec.liveness_probe.as_ref()));
    insert_unless_empty(&mut container, "readinessProbe", probes::probe(vmi.spec.readiness_probe.as_ref()));
    Value::Object(container)
}

/// Puts a field in, unless there is nothing to say.
fn insert_unless_empty(fields: &mut Map<String, Value>, name: &str, value: Value) {
    let nothing = match &value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    if !nothing {
        fields.insert(name.to_owned(), value);
    }
}
