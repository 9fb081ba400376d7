//! Labels and annotations that are passed on to a created object: from a VMI to its launcher pod, and from a
//! template to its DataVolume.
//!
//! Annotations are passed on as in KubeVirt, since addresses (kube-ovn, Calico), sidecars and monitors depend
//! on them, except a deny list (`NEVER`): virt-controller creates the pod, and has more rights than the
//! author of the VMI. It has annotations that change the confinement of a pod, its networks in other
//! namespaces, the content of its sidecars, the commands run in it, and those read by a container runtime.
//!
//! A cluster whose tenants may create VMIs and no pods has the strict policy ([`AnnotationPolicy::Strict`]):
//! only an allow-list (`PASSED`) is passed on, since a deny list cannot know the annotations of that
//! cluster's webhooks and plugins.
//!
//! Labels are passed on, since Services and policies select pods by them. Those of Kubernetes' own domains
//! are not, because its programs identify their own pods by them.
//!
//! The same lists apply to the DataVolumes of a VM's templates: their annotations reach the pods that fill
//! them.
//!
//! **Guarantees.** Omitted keys are reported: by the webhook when the object is written, by an event when the
//! pod is created ([`left_out`]). The hooks of backup programs are set by virt-controller itself, and run a
//! program of the launcher image.

use crate::objects::MIGRATION_JOB;
use api::kubevirt::AnnotationPolicy;
use api::meta::ObjectMeta;
use api::vmi::VirtualMachineInstance;
use std::collections::BTreeMap;

/// Labels by which our programs find VMIs.
pub const RESERVED: [&str; 6] = [
    "kubevirt.io/created-by",
    MIGRATION_JOB,
    "kubevirt.io/nodeName",
    "kubevirt.io/migrationTargetNodeName",
    "kubevirt.io/schedulable",
    "kubevirt.io/install-strategy",
];

/// Annotation that ends the fencing of a VMI, honoured because its writer may change the object. It is never
/// passed on from another object, whose author may lack that right.
pub const FENCING: &str = "kubevirt.io/fencing";
/// Annotation of a VMI without a guest, which an offline migration moves the disks of a stopped VM by: the UID of that migration. It is never
/// passed on.
pub const OFFLINE_MIGRATION: &str = "coracle.io/offline-migration";
/// Message of the event `Stopped` of such a VMI.
pub const CARRIER_STOPPED: &str = "The VirtualMachineInstance without a guest was stopped.";

/// True for a VMI without a guest that is deleted: its end is not a crash.
pub fn is_stopped_carrier(vmi: &VirtualMachineInstance) -> bool {
    vmi.metadata.deletion_timestamp.is_some() && vmi.metadata.annotations.contains_key(OFFLINE_MIGRATION)
}
/// Annotation of a VM or a VMI that its pool or its replica set has chosen for deletion, because there are too many: the
/// UID of that owner.
pub const SCALE_IN: &str = "kubevirt.io/scale-in";
/// Annotations that tools keep about the object itself, as in KubeVirt. They are not passed on, and their
/// omission is not reported.
const NOTES: [&str; 5] = [
    "kubectl.kubernetes.io/",
    "kubevirt.io/storage-observed-api-version",
    "kubevirt.io/latest-observed-api-version",
    SCALE_IN,
    OFFLINE_MIGRATION,
];
/// Prefixes of annotations that never reach a pod, compared without case.
const NEVER: [&str; 61] = [
    // Confinement of a pod.
    "container.apparmor.security.beta.kubernetes.io/",
    "container.seccomp.security.alpha.kubernetes.io/",
    "seccomp.security.alpha.kubernetes.io/",
    "security.alpha.kubernetes.io/",
    "openshift.io/scc",
    "openshift.io/required-scc",
    // Internal annotations of the kubelet for static pods and their mirrors.
    "kubernetes.io/config.",
    // Networks of any namespace, and the status by Multus, which is trusted.
    "k8s.v1.cni.cncf.io/",
    "kubernetes.v1.cni.cncf.io/",
    "v1.multus-cni.io/",
    "danm.k8s.io/",
    "networking.gke.io/",
    // Content of sidecars: volumes, images, whole containers.
    "sidecar.istio.io/userVolume",
    "sidecar.istio.io/proxyImage",
    "sidecar.istio.io/bootstrapOverride",
    "proxy.istio.io/overrides",
    "inject.istio.io/templates",
    "config.linkerd.io/proxy-image",
    "config.linkerd.io/init-image",
    "config.linkerd.io/debug-image",
    "vault.hashicorp.com/agent-image",
    "vault.hashicorp.com/agent-json-patch",
    "vault.hashicorp.com/agent-init-json-patch",
    "vault.hashicorp.com/agent-run-as-",
    "vault.hashicorp.com/agent-set-security-context",
    "vault.hashicorp.com/agent-share-process-namespace",
    "vault.hashicorp.com/agent-copy-volume-mounts",
    "vault.hashicorp.com/agent-inject-command-",
    "vault.hashicorp.com/agent-extra-secret",
    "consul.hashicorp.com/consul-sidecar-user-volume",
    "dapr.io/sidecar-image",
    "dapr.io/volume-mounts",
    "dapr.io/run-as-",
    "appmesh.k8s.aws/",
    "admission.datadoghq.com/",
    // Commands that a backup program runs in the pod, or images that it adds to it.
    "pre.hook.backup.velero.io/",
    "post.hook.backup.velero.io/",
    "init.hook.restore.velero.io/",
    "post.hook.restore.velero.io/",
    FENCING,
    // Container runtimes and their shims.
    "io.kubernetes.",
    "io.containerd.",
    "io.containers.",
    "io.katacontainers.",
    "io.podman.",
    "io.microsoft.",
    "com.github.containers.",
    "dev.gvisor.",
    "run.oci.",
    "org.opencontainers.",
    "org.systemd.",
    "org.criu.",
    "module.wasm.",
    "krun.",
    "target.workload.openshift.io/",
    "resources.workload.openshift.io/",
    "rdt.resources.beta.kubernetes.io/",
    "blockio.resources.beta.kubernetes.io/",
    // Runtimes whose pods are VMs.
    "kubernetes.io/target-runtime",
    "Virtlet",
    "coracle.",
];
/// Domains, including subdomains, whose annotations never reach a pod: CRI-O, NRI plugins, CDI devices.
const NEVER_OF: [&str; 7] = [
    "crio.io",
    "cri-o.io",
    "nri.io",
    "nri.containerd.io",
    "noderesource.dev",
    "cdi.k8s.io",
    "cri-resource-manager.intel.com",
];
/// Annotations that the strict policy passes on to the pod, in addition to those of our own domains. They do
/// nothing inside a pod. An entry that ends with a slash is a prefix.
const PASSED: [&str; 14] = [
    // Eviction and rescheduling of pods.
    "descheduler.alpha.kubernetes.io/evict",
    "descheduler.alpha.kubernetes.io/prefer-no-eviction",
    "descheduler.alpha.kubernetes.io/request-evict-only",
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes",
    "karpenter.sh/do-not-disrupt",
    // Injection of a sidecar, and its traffic.
    "sidecar.istio.io/inject",
    "traffic.sidecar.istio.io/",
    "linkerd.io/inject",
    // Bandwidth.
    "kubernetes.io/ingress-bandwidth",
    "kubernetes.io/egress-bandwidth",
    // Volumes to back up.
    "backup.velero.io/backup-volumes",
    "backup.velero.io/backup-volumes-excludes",
    // Metrics.
    "prometheus.io/",
];

/// The labels and annotations of a VMI that its pod does not get.
pub fn left_out(meta: &ObjectMeta, policy: AnnotationPolicy) -> OmittedKeys<'_> {
    let labels = meta.labels.keys().map(String::as_str);
    let annotations = meta.annotations.keys().map(String::as_str);
    OmittedKeys {
        labels: labels.filter(|key| !is_users(key) && !RESERVED.contains(key)).collect(),
        annotations: annotations.filter(|key| !is_passed(key, policy) && !is_note(key)).collect(),
    }
}

/// The labels and annotations of a template that its DataVolume gets. The pods that fill it get them, too.
pub fn of_disk(
    template: &ObjectMeta,
    policy: AnnotationPolicy,
) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let (mut labels, mut annotations) = (template.labels.clone(), template.annotations.clone());
    labels.retain(|key, _| is_disks_label(key));
    annotations.retain(|key, _| is_disks_note(key, policy));
    (labels, annotations)
}

/// The labels and annotations of a template that its DataVolume does not get.
pub fn left_out_of_disk(template: &ObjectMeta, policy: AnnotationPolicy) -> OmittedKeys<'_> {
    let labels = template.labels.keys().map(String::as_str);
    let annotations = template.annotations.keys().map(String::as_str);
    OmittedKeys {
        labels: labels.filter(|key| !is_disks_label(key)).collect(),
        annotations: annotations.filter(|key| !is_disks_note(key, policy) && !is_note(key)).collect(),
    }
}

/// Keys that are not passed on from a VMI to its pod, or from a template to its DataVolume.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct OmittedKeys<'a> {
    pub labels: Vec<&'a str>,
    pub annotations: Vec<&'a str>,
}

/// True if an annotation is passed on to the pod.
pub fn is_passed(key: &str, policy: AnnotationPolicy) -> bool {
    let is_listed =
        || PASSED.iter().any(|passed| key == *passed || passed.ends_with('/') && key.starts_with(passed));
    !is_never(key) && !is_note(key) && (policy == AnnotationPolicy::Pass || is_ours(key) || is_listed())
}

/// True for an annotation on the deny list. The API server accepts annotation keys in either case.
fn is_never(key: &str) -> bool {
    let begins = |start: &str| key.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start));
    let domain = key.split_once('/').map_or(key, |(domain, _)| domain);
    let is_of = |of: &str| {
        let head = domain.len().checked_sub(of.len()).and_then(|at| domain.split_at_checked(at));
        head.is_some_and(|(head, tail)| {
            tail.eq_ignore_ascii_case(of) && (head.is_empty() || head.ends_with('.'))
        })
    };
    NEVER.into_iter().any(begins) || NEVER_OF.into_iter().any(is_of)
}

fn is_note(key: &str) -> bool {
    NOTES.iter().any(|note| key.starts_with(note))
}

fn is_disks_label(key: &str) -> bool {
    is_users(key) && !RESERVED.contains(&key)
}

/// True if a DataVolume gets the annotation of its template. A clone token is left out: CDI trusts it, and
/// only virt-api may write it after an access review.
fn is_disks_note(key: &str, policy: AnnotationPolicy) -> bool {
    is_passed(key, policy) && !(key.starts_with("cdi.kubevirt.io/") && key.ends_with("clone.token"))
}

/// True for a label that is not in a domain of Kubernetes.
pub fn is_users(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let is_of = |of: &str| domain == of || domain.strip_suffix(of).is_some_and(|rest| rest.ends_with('.'));
    domain == "app.kubernetes.io" || !["kubernetes.io", "k8s.io"].into_iter().any(is_of)
}

/// True for a key in one of our domains.
fn is_ours(key: &str) -> bool {
    key.split_once('/').is_some_and(|(domain, _)| domain == "kubevirt.io" || domain.ends_with(".kubevirt.io"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(keys: &[&str]) -> ObjectMeta {
        let map: BTreeMap<String, String> =
            keys.iter().map(|key| ((*key).to_owned(), "a".to_owned())).collect();
        ObjectMeta { labels: map.clone(), annotations: map, ..ObjectMeta::default() }
    }

    const POLICIES: [AnnotationPolicy; 2] = [AnnotationPolicy::Pass, AnnotationPolicy::Strict];

    #[test]
    fn what_confines_a_pod_or_reaches_out_of_it_is_not_said_by_an_annotation() {
        for key in [
            "container.apparmor.security.beta.kubernetes.io/compute",
            "seccomp.security.alpha.kubernetes.io/pod",
            "container.seccomp.security.alpha.kubernetes.io/compute",
            "k8s.v1.cni.cncf.io/networks",
            "k8s.v1.cni.cncf.io/network-status",
            "v1.multus-cni.io/default-network",
            "sidecar.istio.io/userVolume",
            "sidecar.istio.io/userVolumeMount",
            "sidecar.istio.io/proxyImage",
            "proxy.istio.io/overrides",
            "vault.hashicorp.com/agent-json-patch",
            "pre.hook.backup.velero.io/command",
            "io.kubernetes.cri-o.userns-mode",
            "IO.Kubernetes.CRI-O.Devices",
            "cpu-load-balancing.crio.io",
            "cpu-shared.crio.io/compute",
            "devices.nri.io/container.compute",
            "balloon.balloons.resource-policy.nri.io/pod",
            "ulimits.nri.containerd.io/container.compute",
            "mounts.noderesource.dev/pod",
            "cdi.k8s.io/gpu",
            "io.katacontainers.config.hypervisor.kernel_params",
            "io.containerd.runc.v2.anything",
            "run.oci.keep_original_groups",
            "org.systemd.property.DevicePolicy",
            "dev.gvisor.flag.network",
            "openshift.io/scc",
            "kubernetes.io/config.mirror",
            "kubernetes.io/target-runtime",
            "VirtletVCPUCount",
            "virtletcpumodel",
            "coracle.example/memory",
            "kubevirt.io/fencing",
            "KubeVirt.io/fencing",
        ] {
            for policy in POLICIES {
                assert!(!is_passed(key, policy), "{key}");
                assert_eq!(left_out(&meta(&[key]), policy).annotations, [key]);
                assert!(!is_disks_note(key, policy), "{key}");
            }
        }
        for key in [
            "descheduler.alpha.kubernetes.io/evict",
            "sidecar.istio.io/inject",
            "prometheus.io/port",
            "kubevirt.io/anything",
            "vm.kubevirt.io/os",
        ] {
            for policy in POLICIES {
                assert!(is_passed(key, policy), "{key}");
                assert_eq!(left_out(&meta(&[key]), policy).annotations, [""; 0]);
            }
        }
    }

    #[test]
    fn only_the_strict_policy_keeps_back_what_is_not_listed() {
        for key in [
            "anything",
            "a",
            "kubernetes.io/test",
            "ovn.kubernetes.io/mac_address",
            "cni.projectcalico.org/ipAddrs",
            "ipam.cilium.io/ip-pool",
            "proxy.istio.io/config",
            "ad.datadoghq.com/tags",
            "vault.hashicorp.com/role",
            "notkubevirt.io/a",
            "kubevirt.io.evil.example/a",
            "notcrio.io/a",
            "prometheus.io",
            "ünïcode",
        ] {
            assert!(is_passed(key, AnnotationPolicy::Pass), "{key}");
            assert!(!is_passed(key, AnnotationPolicy::Strict), "{key}");
            assert_eq!(left_out(&meta(&[key]), AnnotationPolicy::Strict).annotations, [key]);
        }
    }

    #[test]
    fn the_document_has_the_lists() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metadata.md");
        let text = std::fs::read_to_string(file).unwrap();
        let text = text.split_once("## Of a DataVolume").unwrap().0;
        let (never, strict) = text.split_once("## The strict policy").unwrap();
        for start in NEVER {
            let shown = if start == FENCING { format!("`{start}`") } else { format!("`{start}*`") };
            assert!(never.contains(&shown), "{file}: {shown}");
        }
        for domain in NEVER_OF {
            assert!(never.contains(&format!("`*.{domain}`")), "{file}: {domain}");
        }
        for passed in PASSED {
            let shown = if passed.ends_with('/') { format!("`{passed}*`") } else { format!("`{passed}`") };
            assert!(strict.contains(&shown) && !never.contains(&shown), "{file}: {shown}");
        }
    }

    #[test]
    fn labels_are_the_users_but_for_those_of_kubernetes() {
        let left = |key: &str| !left_out(&meta(&[key]), AnnotationPolicy::Pass).labels.is_empty();
        for key in
            ["app", "app.kubernetes.io/name", "kubevirt.io/domain", "example.com/tier", "mykubernetes.io/a"]
        {
            assert!(!left(key), "{key}");
        }
        for key in [
            "batch.kubernetes.io/job-name",
            "kubernetes.io/hostname",
            "a.k8s.io/b",
            "apps.kubernetes.io/pod-index",
        ] {
            assert!(left(key), "{key}");
        }
    }

    #[test]
    fn what_tools_note_for_themselves_is_nobodys_business() {
        for note in
            ["kubectl.kubernetes.io/last-applied-configuration", "kubevirt.io/latest-observed-api-version"]
        {
            for policy in POLICIES {
                assert!(!is_passed(note, policy) && left_out(&meta(&[note]), policy).annotations.is_empty());
            }
        }
    }
}
