//! Labels and annotations of the pod: the instance's, and ours. The hooks of backup programs are not among them: the
//! launcher has no program yet that freezes a guest, and a hook that fails spoils the backup.

use crate::cluster::config::Config;
use crate::names;
use api::machine::Machine;
use api::meta::ObjectMeta;
use api::vmi::VirtualMachineInstance;
use std::collections::BTreeMap;

/// What kubectl notes for itself.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// What the pod is found by.
pub(super) fn labels(meta: &ObjectMeta, machine: &Machine) -> BTreeMap<String, String> {
    let mut labels = meta.labels.clone();
    // These two say where a machine runs, and are written on the instance alone.
    labels.remove("kubevirt.io/nodeName");
    labels.remove("kubevirt.io/migrationTargetNodeName");
    let ours = [
        ("kubevirt.io", "virt-launcher".to_owned()),
        ("kubevirt.io/created-by", meta.uid.clone().unwrap_or_default()),
        ("vmi.kubevirt.io/id", names::label(&machine.name)),
        ("vm.kubevirt.io/name", machine.hostname.clone()),
    ];
    labels.extend(ours.map(|(key, value)| (key.to_owned(), value)));
    labels
}

/// Notes on the pod.
pub(super) fn annotations(
    vmi: &VirtualMachineInstance,
    machine: &Machine,
    config: &Config,
) -> BTreeMap<String, String> {
    let mut notes = vmi.metadata.annotations.clone();
    notes.remove(LAST_APPLIED);
    let mut note = |key: &str, value: String| notes.insert(key.to_owned(), value);
    note("kubevirt.io/domain", machine.name.clone());
    note("kubectl.kubernetes.io/default-container", "compute".to_owned());
    note("kubevirt.io/migrationTransportUnix", "true".to_owned());
    note(
        "kubevirt.io/memory-overhead-bytes",
        super::overhead(machine, config, super::resources::beyond(vmi)).to_string(),
    );
    notes
}
