//! Reasons why fields of a VMI's spec are refused by name, for the answer and for docs/reference/vmi.md. The
//! check of the field ([`Fault::not_yet`]) does not have the reason. Fields with upstream's own message keep
//! that message.

use crate::fault::Fault;
use crate::wire::Path;

/// Refused fields below the spec, with `[]` for each entry of a list, and the reason for each.
pub const REFUSED: &[(&str, &str)] = &[
    ("utilityVolumes[]", "a running VMI takes no volumes, and only a running one has a use for these"),
    ("domain.firmware.acpi.slicNameRef", "the table of a licence is not passed on yet"),
    ("domain.firmware.acpi.msdmNameRef", "the table of a licence is not passed on yet"),
    (
        "domain.devices.disks[].changedBlockTracking",
        "there are no incremental backups yet that would read it",
    ),
    (
        "domain.devices.disks[].lun.reservation",
        "it needs a privileged helper on each node, which is not installed",
    ),
    ("domain.devices.watchdog.diag288", "it is a device of s390x, and guests are x86_64; use i6300esb"),
    ("domain.devices.interfaces[].slirp", "KubeVirt has given it up; use masquerade"),
    ("domain.devices.interfaces[].macvtap", "KubeVirt has given it up; use bridge with a Multus network"),
    ("domain.devices.interfaces[].passt", "KubeVirt has given it up; use masquerade"),
    (
        "domain.launchSecurity",
        "encrypted guests need processors with SEV, SEV-SNP or TDX, and are not tested on any yet",
    ),
    ("volumes[].memoryDump", "a memory dump is part of snapshots, which do not exist yet; remove the volume"),
    ("networks[].resourceClaim", "networks by dynamic resource allocation are not connected yet; use multus"),
];

/// Adds the reason to each fault whose message is only that the field is not supported yet. `at`: path of the
/// spec.
pub(super) fn explain(faults: &mut [Fault], at: &Path) {
    let spec = format!("{at}.");
    for fault in faults {
        if fault.hint.is_none() && *fault == Fault::not_yet(&fault.field) {
            let field = fault.field.strip_prefix(&spec).map(bare);
            fault.hint = field.as_deref().and_then(entry).map(|(_, why)| (*why).to_owned());
        }
    }
}

/// The entry of a field in the notation of [`REFUSED`], or of the field that contains it.
pub fn entry(field: &str) -> Option<&'static (&'static str, &'static str)> {
    let holds = |part: &str| {
        field.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    REFUSED.iter().find(|(part, _)| holds(part))
}

/// The path with `[]` for each index: `volumes[1].name` as `volumes[].name`.
pub fn bare(field: &str) -> String {
    let mut parts = field.split('[');
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        result.push_str("[]");
        result.push_str(part.split_once(']').map_or("", |(_, rest)| rest));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Reason;

    #[test]
    fn a_refused_field_is_told_why_wherever_its_spec_stands() {
        let at = Path::of("spec.template.spec");
        let mut faults = vec![
            Fault::not_yet("spec.template.spec.volumes[3].memoryDump.claimName"),
            Fault::not_yet("spec.template.spec.utilityVolumes[0]").hint("kept"),
            Fault::new("spec.template.spec.volumes[3].memoryDump", Reason::Invalid, "is wrong"),
            Fault::not_yet("spec.volumes[3].memoryDump"),
        ];
        explain(&mut faults, &at);
        let hints: Vec<_> = faults.iter().map(|fault| fault.hint.as_deref()).collect();
        let (_, why) = entry("volumes[].memoryDump").unwrap();
        assert_eq!(hints, [Some(*why), Some("kept"), None, None]);
    }

    #[test]
    fn an_entry_of_a_list_is_any_entry() {
        assert_eq!(bare("volumes[1].a[22].b"), "volumes[].a[].b");
        assert_eq!(bare("volumes[].a"), "volumes[].a");
        assert_eq!(bare("domain"), "domain");
        assert_eq!(entry("domain.launchSecurityX"), None);
    }
}
