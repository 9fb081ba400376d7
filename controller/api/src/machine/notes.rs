//! What is accepted and may surprise: warnings for who writes a spec, in a cluster and on a person's own computer.

use crate::machine::guest_memory;
use crate::vmi::Spec;
use crate::wire::Path;

/// The warnings for `spec`, which stands at `at`: the field, and a sentence about it.
pub fn notes(spec: &Spec, at: &Path) -> Vec<(Path, String)> {
    let domain_at = at.child("domain");
    let mut notes = Vec::new();
    for (i, disk) in spec.domain.devices.disks.iter().enumerate() {
        if disk.cdrom.as_ref().is_some_and(|cdrom| cdrom.readonly == Some(false)) {
            let at = domain_at.child("devices").child("disks").index(i).child("cdrom").child("readonly");
            notes.push((at, "false has no effect: a CD-ROM drive only reads".to_owned()));
        }
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
        notes(&spec, &Path::of("spec")).into_iter().map(|(at, note)| format!("{at}: {note}")).collect()
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
