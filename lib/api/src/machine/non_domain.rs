//! Fields of a VMI's spec that do not change the domain: they belong to the pod, the scheduler or the
//! cluster. A program that starts a VMI without those reports such fields.

use crate::vmi::Spec;
use crate::wire::{Path, Wire};
use serde_json::Value;
use std::fmt;

/// Owner of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldOwner {
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

impl FieldOwner {
    /// Name of the owner, for messages.
    pub fn name(self) -> &'static str {
        match self {
            FieldOwner::Scheduler => "the scheduler",
            FieldOwner::Pod => "the pod",
            FieldOwner::Cluster => "the cluster",
            FieldOwner::Defaults => "the defaults",
            FieldOwner::Device => "the device",
        }
    }
}

impl fmt::Display for FieldOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Paths of the fields below the spec; `[]` stands for each entry of a list.
pub const NON_DOMAIN_FIELDS: &[(&str, FieldOwner)] = &[
    ("priorityClassName", FieldOwner::Pod),
    ("nodeSelector", FieldOwner::Scheduler),
    ("affinity", FieldOwner::Scheduler),
    ("schedulerName", FieldOwner::Scheduler),
    ("serviceAccountName", FieldOwner::Pod),
    ("tolerations", FieldOwner::Scheduler),
    ("topologySpreadConstraints", FieldOwner::Scheduler),
    ("evictionStrategy", FieldOwner::Cluster),
    ("livenessProbe", FieldOwner::Pod),
    ("readinessProbe", FieldOwner::Pod),
    ("dnsPolicy", FieldOwner::Pod),
    ("dnsConfig", FieldOwner::Pod),
    ("domain.resources.overcommitGuestOverhead", FieldOwner::Pod),
    ("domain.memory.reservedOverhead.addedOverhead", FieldOwner::Pod),
    ("domain.devices.autoattachPodInterface", FieldOwner::Defaults),
    ("domain.devices.autoattachInputDevice", FieldOwner::Defaults),
    ("domain.devices.disks[].cdrom.readonly", FieldOwner::Device),
    ("volumes[].persistentVolumeClaim.hotpluggable", FieldOwner::Cluster),
    ("volumes[].dataVolume.hotpluggable", FieldOwner::Cluster),
    ("volumes[].ephemeral.persistentVolumeClaim.hotpluggable", FieldOwner::Cluster),
    ("volumes[].ephemeral.persistentVolumeClaim.readOnly", FieldOwner::Pod),
];

/// Paths of the set fields of `spec` that do not change the domain, with their owners. `at`: path of `spec`.
pub fn non_domain_fields(spec: &Spec, at: &Path) -> Vec<(Path, FieldOwner)> {
    let spec = spec.write();
    let mut found = Vec::new();
    for (field, whose) in NON_DOMAIN_FIELDS {
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
        let found = non_domain_fields(&spec, &Path::of("spec.template.spec"));
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
