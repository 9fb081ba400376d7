//! Fields of a VMI's spec that do not change the domain: they belong to the pod, the scheduler or the
//! cluster. A program that starts a VMI without those reports such fields.

use crate::vmi::Spec;
use crate::wire::{Path, Wire};
use serde_json::Value;
use std::fmt;

/// Owner of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Placement of the VMI.
    Scheduler,
    /// Configuration of the launcher pod.
    Pod,
    /// Handling of the VMI by the cluster.
    Cluster,
    /// Input of the defaults.
    Defaults,
    /// Restatement of a fixed property of the device.
    Device,
}

impl Whose {
    /// Name of the owner, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Whose::Scheduler => "the scheduler",
            Whose::Pod => "the pod",
            Whose::Cluster => "the cluster",
            Whose::Defaults => "the defaults",
            Whose::Device => "the device",
        }
    }
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Paths of the fields below the spec; `[]` stands for each entry of a list.
pub const LEFT: &[(&str, Whose)] = &[
    ("priorityClassName", Whose::Pod),
    ("nodeSelector", Whose::Scheduler),
    ("affinity", Whose::Scheduler),
    ("schedulerName", Whose::Scheduler),
    ("serviceAccountName", Whose::Pod),
    ("tolerations", Whose::Scheduler),
    ("topologySpreadConstraints", Whose::Scheduler),
    ("evictionStrategy", Whose::Cluster),
    ("livenessProbe", Whose::Pod),
    ("readinessProbe", Whose::Pod),
    ("dnsPolicy", Whose::Pod),
    ("dnsConfig", Whose::Pod),
    ("domain.resources.overcommitGuestOverhead", Whose::Pod),
    ("domain.memory.reservedOverhead.addedOverhead", Whose::Pod),
    ("domain.devices.autoattachPodInterface", Whose::Defaults),
    ("domain.devices.autoattachInputDevice", Whose::Defaults),
    ("domain.devices.disks[].cdrom.readonly", Whose::Device),
    ("volumes[].persistentVolumeClaim.hotpluggable", Whose::Cluster),
    ("volumes[].dataVolume.hotpluggable", Whose::Cluster),
    ("volumes[].ephemeral.persistentVolumeClaim.hotpluggable", Whose::Cluster),
    ("volumes[].ephemeral.persistentVolumeClaim.readOnly", Whose::Pod),
];

/// Paths of the set fields of `spec` that do not change the domain, with their owners. `at`: path of `spec`.
pub fn left(spec: &Spec, at: &Path) -> Vec<(Path, Whose)> {
    let spec = spec.write();
    let mut found = Vec::new();
    for (field, whose) in LEFT {
        let mut places = vec![(at.clone(), &spec)];
        for step in field.split('.') {
            places = places.into_iter().flat_map(|(path, value)| below(&path, value, step)).collect();
        }
        found.extend(places.into_iter().map(|(path, _)| (path, *whose)));
    }
    found
}

/// Values at one step below a value; each entry, if the step is a list.
fn below<'a>(at: &Path, value: &'a Value, step: &str) -> Vec<(Path, &'a Value)> {
    let name = step.trim_end_matches("[]");
    let Some(value) = value.get(name) else { return Vec::new() };
    let path = at.child(name);
    match value {
        Value::Array(entries) if name != step => {
            entries.iter().enumerate().map(|(i, entry)| (path.index(i), entry)).collect()
        }
        value => vec![(path, value)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_said_is_found_with_its_place() {
        let spec = json!({
            "nodeSelector": {"disk": "fast"},
            "volumes": [{"name": "a"}, {"name": "b", "dataVolume": {"name": "b", "hotpluggable": true}}],
        });
        let spec: Spec = serde_json::from_value(spec).unwrap();
        let found = left(&spec, &Path::of("spec.template.spec"));
        let texts: Vec<String> = found.iter().map(|(path, whose)| format!("{path}: {whose}")).collect();
        assert_eq!(
            texts,
            [
                "spec.template.spec.nodeSelector: the scheduler",
                "spec.template.spec.volumes[1].dataVolume.hotpluggable: the cluster",
            ]
        );
    }
}
