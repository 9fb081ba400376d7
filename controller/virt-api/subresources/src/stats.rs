//! `stats`: resource usage of a VMI since its start, for users who may view it. Pure.
//!
//! A launcher is under a tenant's control: no more entries are passed on than a VMI can have, and only valid
//! names.

use api::launcher::Stats;
use api::vmi::VirtualMachineInstance;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Maximum number of disks, and of interfaces, of a VMI.
const MOST: usize = 256;
/// Maximum length of a device's name on its host.
const LONGEST: usize = 32;

/// The response. Disks have the names of their volumes if the status of the VMI has them. Interfaces have the
/// names in the pod.
pub(crate) fn of(vmi: &VirtualMachineInstance, stats: Stats) -> Value {
    let status = vmi.status.as_ref();
    let volumes = status.map(|status| status.volume_status.as_slice()).unwrap_or_default();
    let volume = |device: &str| {
        let found = volumes.iter().find(|volume| volume.target == device);
        found.map_or(device, |volume| volume.name.as_str()).to_owned()
    };
    let meta = &vmi.metadata;
    json!({
        "apiVersion": "subresources.kubevirt.io/v1",
        "kind": "VirtualMachineInstanceStats",
        "metadata": {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid},
        "cpuNanoseconds": stats.cpu_ns,
        "memory": known(json!(stats.memory)),
        "disks": named(bounded(stats.disks), volume),
        "interfaces": named(bounded(stats.interfaces), str::to_owned),
    })
}

/// The fields without unknown values.
fn known(mut fields: Value) -> Value {
    if let Some(fields) = fields.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    fields
}

fn bounded<T>(all: BTreeMap<String, T>) -> impl Iterator<Item = (String, T)> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name.len() <= LONGEST
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    all.into_iter().filter(move |(name, _)| is_name(name)).take(MOST)
}

fn named<T: serde::Serialize>(
    all: impl Iterator<Item = (String, T)>,
    name: impl Fn(&str) -> String,
) -> Map<String, Value> {
    all.map(|(device, stats)| (name(&device), json!(stats))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::launcher::{DiskStats, InterfaceStats, MemoryStats};

    fn vmi() -> VirtualMachineInstance {
        api::wire::read(json!({
            "metadata": {"namespace": "n", "name": "web", "uid": "u"},
            "spec": {"domain": {"devices": {}}},
            "status": {"volumeStatus": [{"name": "root", "target": "vda"}, {"name": "later"}]},
        }))
        .unwrap()
    }

    #[test]
    fn disks_have_the_names_of_their_volumes() {
        let disk = DiskStats { read_bytes: 7, ..DiskStats::default() };
        let stats = Stats {
            cpu_ns: 5,
            memory: MemoryStats { domain: 9, resident: Some(8), ..MemoryStats::default() },
            disks: ["vda", "vdb"].map(|name| (name.to_owned(), disk)).into(),
            interfaces: [("tap0".to_owned(), InterfaceStats::default())].into(),
            ..Stats::default()
        };
        let told = of(&vmi(), stats);
        assert_eq!(told["metadata"], json!({"namespace": "n", "name": "web", "uid": "u"}));
        assert_eq!(
            (&told["cpuNanoseconds"], &told["memory"]),
            (&json!(5), &json!({"domain": 9, "resident": 8}))
        );
        assert_eq!(
            (&told["disks"]["root"]["readBytes"], &told["disks"]["vdb"]["readBytes"]),
            (&json!(7), &json!(7))
        );
        assert_eq!(told["disks"].as_object().unwrap().len(), 2);
        assert_eq!(told["interfaces"]["tap0"]["sentBytes"], json!(0));
    }

    #[test]
    fn a_launcher_that_says_much_is_told_in_part() {
        let many = (0..5000).map(|n| (format!("vd{n}"), DiskStats::default()));
        let strange = [("a b".to_owned(), DiskStats::default()), ("a".repeat(99), DiskStats::default())];
        let stats = Stats { disks: many.chain(strange).collect(), ..Stats::default() };
        let told = of(&vmi(), stats);
        let names: Vec<&String> = told["disks"].as_object().unwrap().keys().collect();
        assert_eq!(names.len(), MOST);
        assert!(names.iter().all(|name| name.starts_with("vd")));
    }
}
