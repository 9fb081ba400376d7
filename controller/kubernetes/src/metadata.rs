//! The labels and annotations that go on from an object to what is made from it: from a VMI to its launcher pod, and from a
//! template to its DataVolume.
//!
//! virt-controller makes the pod, and may more than whoever made the VMI: who may make VMIs and no pods must not
//! say by an annotation what only who makes pods may say. So annotations go by a list (`PASSED`), which holds those that
//! are about the life of the pod, and not about what is in it or what confines it. Never among them: AppArmor and seccomp
//! profiles, network attachments (`k8s.v1.cni.cncf.io/networks` reaches other namespaces; networks are said in the spec),
//! volumes and images of sidecars, commands that a backup program runs in the pod.
//!
//! Labels go, since services and policies select pods by them; only those of Kubernetes' own domains do not, by which its
//! programs know their own pods.
//!
//! The same list is for the DataVolumes of a VM's templates: what is said of one reaches the pods that fill it.
//!
//! **Guarantees.** What is left out is told: by the webhook when the object is written, by an event when the pod is made
//! ([`left_out`]). The hooks of backup programs are made by virt-controller itself, and run a program of the launcher's.

use api::meta::ObjectMeta;
use std::collections::BTreeMap;

/// Labels by which our programs find VMIs.
pub const RESERVED: [&str; 6] = [
    "kubevirt.io/created-by",
    "kubevirt.io/migrationJobUID",
    "kubevirt.io/nodeName",
    "kubevirt.io/migrationTargetNodeName",
    "kubevirt.io/schedulable",
    "kubevirt.io/install-strategy",
];

/// What ends the fencing of an object that says so, where who may end it changes the object. Nobody has it by way of another
/// object: it would be written by who may not.
pub const FENCING: &str = "kubevirt.io/fencing";
/// What tools note for themselves: it is left out, and nobody has to know.
const NOTES: [&str; 1] = ["kubectl.kubernetes.io/"];
/// Annotations that go to the pod beside those of our own domains, by which nothing is done in a pod; those that end with a slash stand for all that begin like that.
const PASSED: [&str; 14] = [
    // Who moves pods, and when.
    "descheduler.alpha.kubernetes.io/evict",
    "descheduler.alpha.kubernetes.io/prefer-no-eviction",
    "descheduler.alpha.kubernetes.io/request-evict-only",
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes",
    "karpenter.sh/do-not-disrupt",
    // Whether a sidecar comes, and which traffic it takes.
    "sidecar.istio.io/inject",
    "traffic.sidecar.istio.io/",
    "linkerd.io/inject",
    // How much traffic.
    "kubernetes.io/ingress-bandwidth",
    "kubernetes.io/egress-bandwidth",
    // Which volumes are saved.
    "backup.velero.io/backup-volumes",
    "backup.velero.io/backup-volumes-excludes",
    // What is measured.
    "prometheus.io/",
];

/// The labels and annotations of a VMI that its pod does not get, though somebody wrote them for it.
pub fn left_out(meta: &ObjectMeta) -> LeftOut<'_> {
    let said = |key: &&str| !NOTES.iter().any(|note| key.starts_with(note));
    let labels = meta.labels.keys().map(String::as_str);
    let annotations = meta.annotations.keys().map(String::as_str);
    LeftOut {
        labels: labels.filter(|key| !is_users(key) && !RESERVED.contains(key)).collect(),
        annotations: annotations.filter(|key| !is_passed(key)).filter(said).collect(),
    }
}

/// The labels and annotations of a template that its DataVolume gets; what fills a DataVolume are pods, which get them, too.
pub fn of_disk(template: &ObjectMeta) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let of = |keys: &BTreeMap<String, String>, gets: fn(&str) -> bool| {
        keys.iter().filter(|(key, _)| gets(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    (of(&template.labels, is_disks_label), of(&template.annotations, is_disks_note))
}

/// The labels and annotations of a template that its DataVolume does not get.
pub fn left_out_of_disk(template: &ObjectMeta) -> LeftOut<'_> {
    let said = |key: &&str| !NOTES.iter().any(|note| key.starts_with(note));
    let labels = template.labels.keys().map(String::as_str);
    let annotations = template.annotations.keys().map(String::as_str);
    LeftOut {
        labels: labels.filter(|key| !is_disks_label(key)).collect(),
        annotations: annotations.filter(|key| !is_disks_note(key)).filter(said).collect(),
    }
}

/// What a pod does not get of its VMI, or a DataVolume of its template.
#[derive(Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct LeftOut<'a> {
    pub labels: Vec<&'a str>,
    pub annotations: Vec<&'a str>,
}

/// An annotation that goes on to the pod.
pub fn is_passed(key: &str) -> bool {
    is_ours(key) && key != FENCING
        || PASSED.iter().any(|passed| key == *passed || passed.ends_with('/') && key.starts_with(passed))
}

fn is_disks_label(key: &str) -> bool {
    is_users(key) && !RESERVED.contains(&key)
}

/// CDI believes a token that somebody may clone: it is written by who was asked whether they may.
fn is_disks_note(key: &str) -> bool {
    is_passed(key) && !(key.starts_with("cdi.kubevirt.io/") && key.ends_with("clone.token"))
}

/// A label that users give to what is theirs.
pub fn is_users(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let is_of = |of: &str| domain == of || domain.strip_suffix(of).is_some_and(|rest| rest.ends_with('.'));
    domain == "app.kubernetes.io" || !["kubernetes.io", "k8s.io"].into_iter().any(is_of)
}

/// One of our domains.
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

    #[test]
    fn what_confines_a_pod_or_reaches_out_of_it_is_not_said_by_an_annotation() {
        for key in [
            "container.apparmor.security.beta.kubernetes.io/compute",
            "seccomp.security.alpha.kubernetes.io/pod",
            "container.seccomp.security.alpha.kubernetes.io/compute",
            "k8s.v1.cni.cncf.io/networks",
            "k8s.v1.cni.cncf.io/resource-name",
            "v1.multus-cni.io/default-network",
            "sidecar.istio.io/userVolume",
            "sidecar.istio.io/proxyImage",
            "pre.hook.backup.velero.io/command",
            "io.kubernetes.cri-o.userns-mode",
            "openshift.io/scc",
            "io.containerd.runc.v2.anything",
            "notkubevirt.io/a",
            "kubevirt.io.evil.example/a",
            "prometheus.io",
            "anything",
            "kubevirt.io/fencing",
        ] {
            assert!(!is_passed(key), "{key}");
            assert_eq!(left_out(&meta(&[key])).annotations, [key]);
        }
        for key in [
            "descheduler.alpha.kubernetes.io/evict",
            "sidecar.istio.io/inject",
            "prometheus.io/port",
            "kubevirt.io/anything",
            "vm.kubevirt.io/os",
        ] {
            assert!(is_passed(key), "{key}");
            assert_eq!(left_out(&meta(&[key])).annotations, [""; 0]);
        }
    }

    #[test]
    fn the_document_has_the_list() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metadata.md");
        let text = std::fs::read_to_string(file).unwrap();
        let (list, never) = text.split_once("Never on it:").unwrap();
        for passed in PASSED {
            let shown = if passed.ends_with('/') { format!("`{passed}*`") } else { format!("`{passed}`") };
            assert!(list.contains(&shown) && !never.contains(&shown), "{file}: {shown}");
        }
    }

    #[test]
    fn labels_are_the_users_but_for_those_of_kubernetes() {
        let left = |key: &str| !left_out(&meta(&[key])).labels.is_empty();
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
        let note = "kubectl.kubernetes.io/last-applied-configuration";
        assert!(!is_passed(note) && left_out(&meta(&[note])).annotations.is_empty());
    }
}
