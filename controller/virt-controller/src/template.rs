//! The template of a VM: its sum, by which a VMI is known to be of it, and the names in it.

use crate::sum_rule::SumRule;
use api::instancetype::{Matcher, Role};
use api::vm::{DataVolumeTemplate, VirtualMachine};
use api::vmi::{InterfaceState, MigratedVolume, VirtualMachineInstance};
use api::wire::Wire;
use cluster_model::objects::names::fnv;

/// Annotation of a VMI: the sum at the start. A generation also rises when only the run strategy changes.
pub(crate) const SUM: &str = "kubevirt.io/vm-template-sum";
/// The rule of the sum.
const RULE: SumRule = SumRule(1);

/// Checksum of the settings that a restart would change.
pub(crate) fn sum(vm: &VirtualMachine) -> String {
    let mut template = vm.spec.template.clone().unwrap_or_default();
    // Nor does it change the guest of which state of its pool the VM is.
    if let Some(metadata) = &mut template.metadata {
        metadata.labels.remove(api::pool::REVISION);
    }
    // The defaults add a missing uuid, which is not a change.
    let firmware = template.spec.domain.firmware.get_or_insert_default();
    if firmware.uuid.as_deref().unwrap_or_default().is_empty() {
        firmware.uuid = Some(api::uuid::of_vm(vm.metadata.name.as_deref().unwrap_or_default()));
    }
    // Links go down and up while a guest runs.
    for interface in &mut template.spec.domain.devices.interfaces {
        interface.state = interface.state.take().filter(|state| !is_live(state));
    }
    let named = restart_key(vm);
    RULE.note(&format!("{:016x}", fnv(&format!("{}{named}", template.write()))))
}

/// The sum of a VMI, if it is of the rule of today.
pub(crate) fn recorded_sum(vmi: &VirtualMachineInstance) -> Option<&String> {
    vmi.metadata.annotations.get(SUM).filter(|noted| RULE.read(noted).is_some())
}

/// True if a VMI is known to be of another template than its VM has.
pub(crate) fn is_outdated(vm: &VirtualMachine, vmi: &VirtualMachineInstance) -> bool {
    recorded_sum(vmi).is_some_and(|noted| *noted != sum(vm))
}

/// Parts of the instance type and the preference that a restart would change, beside the template; empty if the VM names neither.
fn restart_key(vm: &VirtualMachine) -> String {
    let matchers = Role::ALL.into_iter().filter_map(|role| Matcher::from_spec(&vm.spec, role));
    let said = matchers.map(|matcher| {
        let kind = matcher.matched().map_or(matcher.kind, |kind| kind.kind());
        format!("{} {kind} {} {}", matcher.role.field(), matcher.name, matcher.revision_name)
    });
    said.collect::<Vec<_>>().join(",")
}

/// True for a state that an interface can be given while its guest runs.
pub(crate) fn is_live(state: &InterfaceState) -> bool {
    match state {
        InterfaceState::Up | InterfaceState::Down => true,
        // One that is to go, goes with the next start.
        InterfaceState::Absent | InterfaceState::Other(_) => false,
    }
}

/// The name of the DataVolume that a template makes.
pub(crate) fn data_volume_name(template: &DataVolumeTemplate) -> Option<&str> {
    template.metadata.as_ref()?.name.as_deref()
}

/// Gives the volumes of a VM their new PVCs. A DataVolume is not created again for an old one; one that exists stays.
pub(crate) fn replace_claims(vm: &mut VirtualMachine, migrated: &[MigratedVolume]) {
    let Some(template) = &mut vm.spec.template else { return };
    for volume in migrated {
        if volume.replace_claim(&mut template.spec.volumes) {
            vm.spec.data_volume_templates.retain(|template| data_volume_name(template) != volume.source());
        }
    }
}
