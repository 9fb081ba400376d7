//! Labels and annotations of the pod: ours, and those of the VMI that may go there ([`kubernetes::metadata`]).

use api::machine::Machine;
use api::meta::ObjectMeta;
use api::vmi::VirtualMachineInstance;
use kubernetes::config::Config;
use kubernetes::metadata::{RESERVED, is_passed, is_users};
use kubernetes::objects::{FOUND_BY, LAUNCHER, names};
use std::collections::BTreeMap;

/// What the pod is found by.
pub(super) fn labels(meta: &ObjectMeta, machine: &Machine) -> BTreeMap<String, String> {
    let mut labels = meta.labels.clone();
    labels.retain(|key, _| is_users(key) && !RESERVED.contains(&key.as_str()));
    let values = [
        LAUNCHER.1.to_owned(),
        meta.uid.clone().unwrap_or_default(),
        names::label(&machine.name),
        machine.hostname.clone(),
    ];
    labels.extend(FOUND_BY.map(str::to_owned).into_iter().zip(values));
    labels
}

/// Notes on the pod.
pub(super) fn annotations(
    vmi: &VirtualMachineInstance,
    machine: &Machine,
    config: &Config,
) -> BTreeMap<String, String> {
    let mut notes = vmi.metadata.annotations.clone();
    notes.retain(|key, _| is_passed(key));
    notes.extend(super::networks::annotations(machine));
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
