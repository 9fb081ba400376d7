//! Labels and annotations of the pod: ours, and those of the VMI that may go there ([`cluster_model::metadata`]).

use api::machine::{Binding, Machine};
use api::meta::ObjectMeta;
use api::vmi::VirtualMachineInstance;
use cluster_model::config::Config;
use cluster_model::metadata::{RESERVED, is_passed, is_users};
use cluster_model::objects::{FOUND_BY, LAUNCHER, names};
use serde_json::json;
use std::collections::BTreeMap;

/// The annotation, of a VMI or of the KubeVirt object, without which backup programs freeze the guest.
const NO_HOOKS: &str = cluster_model::config::NO_BACKUP_HOOKS;

/// The bridge of a guest behind the pod's address; virt-handler makes it.
const BRIDGE: &str = "k6t-eth0";

/// Labels of the launcher pod.
pub(super) fn labels(meta: &ObjectMeta, machine: &Machine) -> BTreeMap<String, String> {
    let mut labels = meta.labels.clone();
    labels.retain(|key, _| is_users(key) && !RESERVED.contains(&key.as_str()));
    let values = [
        LAUNCHER.1.to_owned(),
        meta.uid.clone().unwrap_or_default(),
        names::vmi_id(&machine.name),
        machine.hostname.clone(),
    ];
    // Newer versions of Istio read the label only.
    if machine.mesh {
        labels.insert("sidecar.istio.io/inject".to_owned(), "true".to_owned());
    }
    labels.extend(FOUND_BY.map(str::to_owned).into_iter().zip(values));
    labels
}

/// The note of the bytes that the pod requests beside the guest's memory.
pub(crate) const MEMORY_OVERHEAD: &str = "kubevirt.io/memory-overhead-bytes";

/// Notes on the pod.
pub(super) fn annotations(
    vmi: &VirtualMachineInstance,
    machine: &Machine,
    config: &Config,
) -> BTreeMap<String, String> {
    let mut notes = vmi.metadata.annotations.clone();
    notes.retain(|key, _| is_passed(key, config.annotations));
    notes.extend(super::networks::annotations(machine));
    let mut note = |key: &str, value: String| notes.insert(key.to_owned(), value);
    note("kubevirt.io/domain", machine.name.clone());
    note("kubectl.kubernetes.io/default-container", "compute".to_owned());
    note("kubevirt.io/migrationTransportUnix", "true".to_owned());
    // The descheduler requests evictions, which virt-api may postpone, instead of deleting the pod.
    note("descheduler.alpha.kubernetes.io/request-evict-only", String::new());
    if vmi.metadata.annotations.get(NO_HOOKS).is_none_or(|skip| skip != "true") && !config.no_backup_hooks {
        for (hook, verb) in [("pre", "freeze"), ("post", "thaw")] {
            note(&format!("{hook}.hook.backup.velero.io/container"), "compute".to_owned());
            let command = json!([super::PROGRAM, verb, "--socket", super::socket()]);
            note(&format!("{hook}.hook.backup.velero.io/command"), command.to_string());
        }
        note("pre.hook.backup.velero.io/timeout", "60s".to_owned());
    }
    // A mesh takes what the guest sends by the bridge that virt-handler makes for it.
    if machine.interfaces.iter().any(|interface| interface.binding == Binding::Masquerade) {
        for key in ["traffic.sidecar.istio.io/kubevirtInterfaces", "istio.io/reroute-virtual-interfaces"] {
            note(key, BRIDGE.to_owned());
        }
    }
    let overhead = super::overhead(machine, config, super::resources::extra_memory(vmi));
    note(MEMORY_OVERHEAD, overhead.to_string());
    notes
}

#[cfg(test)]
mod tests {
    use super::super::tests::render;
    use serde_json::json;

    /// `virtctl expose` computes the value from the name of the VM.
    #[test]
    fn a_pod_has_the_label_by_which_a_service_selects_it() {
        for (name, expected) in
            [("web".to_owned(), "web".to_owned()), ("a".repeat(64), format!("{}-0098ba82", "a".repeat(54)))]
        {
            let pod = render(json!({"metadata": {"name": name}}), json!({}), true);
            assert_eq!(pod["metadata"]["labels"]["vmi.kubevirt.io/id"], expected);
        }
    }

    #[test]
    fn who_asks_for_the_sidecar_of_a_mesh_gets_its_label() {
        let label = |said: &str| {
            let meta = json!({"annotations": {"sidecar.istio.io/inject": said}});
            let pod = render(json!({"metadata": meta}), json!({}), true);
            pod["metadata"]["labels"]["sidecar.istio.io/inject"].clone()
        };
        assert_eq!((label("true"), label("True")), (json!("true"), json!("true")));
        assert!(label("false").is_null() && label("").is_null());
    }
}
