//! Warnings for the author of a spec: accepted fields with a surprising effect, in a cluster and on a laptop.

use crate::machine::check::{MOST_MEMORY, MOST_VCPUS};
use crate::machine::machine_type_map::MachineTypeMap;
use crate::machine::{guest_memory, topology};
use crate::vmi::Spec;
use crate::wire::Path;

/// Warnings for `spec`, whose path is `at`: the field, and a sentence about it.
pub fn warnings(spec: &Spec, at: &Path, machine_type_map: &MachineTypeMap) -> Vec<(Path, String)> {
    let domain_at = at.child("domain");
    let mut notes = Vec::new();
    for (i, disk) in spec.domain.devices.disks.iter().enumerate() {
        if disk.cdrom.as_ref().is_some_and(|cdrom| cdrom.readonly == Some(false)) {
            let at = domain_at.child("devices").child("disks").index(i).child("cdrom").child("readonly");
            notes.push((at, "false has no effect: a CD-ROM drive only reads".to_owned()));
        }
    }
    if let Some(name) = spec.domain.machine.as_ref().map(|machine| machine.r#type.as_str())
        && let Some(own) = machine_type_map.of_distribution(name)
    {
        let why = if machine_type_map.mapped(name).is_some() {
            "as this cluster says"
        } else {
            "which is nearest to it"
        };
        // The warning repeats a bounded part of the name.
        let name: String = name.chars().take(64).collect();
        let note = format!("{name} is a machine type of another distribution; the guest has {own}, {why}");
        notes.push((domain_at.child("machine").child("type"), note));
    }
    let (sockets, cores, threads) = topology(&spec.domain);
    if sockets.checked_mul(cores).and_then(|n| n.checked_mul(threads)).is_none_or(|n| n > MOST_VCPUS) {
        let note = format!(
            "{sockets} sockets of {cores} cores of {threads} threads are more than {MOST_VCPUS} vCPUs: \
                            no node starts it"
        );
        notes.push((domain_at.child("cpu"), note));
    }
    if let Some((field, guest)) = guest_memory(&spec.domain)
        && guest.bytes().is_some_and(|bytes| bytes > MOST_MEMORY)
    {
        notes.push((domain_at.child(field), format!("{guest} is more than 4Pi: no node starts it")));
    }
    let limit = spec.domain.resources.as_ref().and_then(|resources| resources.limits.get("memory"));
    if let (Some(limit), Some((field, guest))) = (limit, guest_memory(&spec.domain))
        && limit.nanos() > 0
        && guest.nanos() > limit.nanos()
    {
        let limit_at = domain_at.child("resources").child("limits").child("memory");
        let note = format!(
            "the guest has {guest}, more than {limit_at} {limit}: a pod that uses more than its limit is killed"
        );
        notes.push((domain_at.child(field), note));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn told(domain: &Value) -> Vec<String> {
        let spec: Spec = crate::wire::read(json!({"domain": domain})).unwrap();
        warnings(&spec, &Path::of("spec"), &MachineTypeMap::default())
            .into_iter()
            .map(|(at, note)| format!("{at}: {note}"))
            .collect()
    }

    #[test]
    fn more_than_a_domain_can_have_is_noted() {
        assert_eq!(told(&json!({"cpu": {"cores": 255}, "memory": {"guest": "4Pi"}})), [""; 0]);
        assert_eq!(
            told(&json!({"cpu": {"sockets": 1_000_000}, "memory": {"guest": "1Ei"}})),
            [
                "spec.domain.cpu: 1000000 sockets of 1 cores of 1 threads are more than 255 vCPUs: no node starts it",
                "spec.domain.memory.guest: 1Ei is more than 4Pi: no node starts it",
            ]
        );
        let most = u32::MAX;
        assert_eq!(told(&json!({"cpu": {"sockets": most, "cores": most, "threads": most}})).len(), 1);
    }

    #[test]
    fn a_drive_that_is_to_write_is_noted() {
        let disks = |readonly: &Value| json!({"devices": {"disks": [{"name": "a", "cdrom": {"readonly": readonly}}]}});
        assert_eq!(
            told(&disks(&json!(false))),
            ["spec.domain.devices.disks[0].cdrom.readonly: false has no effect: a CD-ROM drive only reads"]
        );
        assert_eq!(told(&disks(&json!(true))), [""; 0]);
        assert_eq!(told(&disks(&Value::Null)), [""; 0]);
    }

    #[test]
    fn a_machine_type_of_a_distribution_is_noted() {
        let machine = |name: &str| told(&json!({"machine": {"type": name}}));
        assert_eq!(
            machine("pc-q35-rhel8.6.0"),
            [
                "spec.domain.machine.type: pc-q35-rhel8.6.0 is a machine type of another distribution; the guest has \
                 pc-q35-6.2, which is nearest to it"
            ]
        );
        assert_eq!(machine("pc-q35-7.2"), [""; 0]);
    }

    #[test]
    fn memory_above_the_limit_of_the_pod_is_noted() {
        let domain =
            |guest: &str| json!({"memory": {"guest": guest}, "resources": {"limits": {"memory": "1Gi"}}});
        assert_eq!(
            told(&domain("2Gi")),
            [
                "spec.domain.memory.guest: the guest has 2Gi, more than spec.domain.resources.limits.memory 1Gi: a pod \
              that uses more than its limit is killed"
            ]
        );
        assert_eq!(told(&domain("1024Mi")), [""; 0]);
    }
}
