//! Hardware of a VM whose template of the VMI was changed: it stays where the template sets none, and the rest is completed.
//!
//! The webhook of virt-api completes a VM when a user writes it, and is not asked about changes by virt-controller. A VM that
//! virt-controller left incomplete would become another one with the next write of a user, a label for example, and its guest would
//! be restarted for that.

use api::defaults;
use api::instancetype::{Matcher, Role, at_write};
use api::vm::{Spec, VirtualMachine};
use cluster_model::instancetypes::{SizeSpecs, find};
use cluster_model::objects::World;

/// Annotation of a VMI with the version of its PCI topology.
const PCI_TOPOLOGY: &str = "kubevirt.io/pci-topology-version";

/// Sets the hardware of a changed VM. `vm`: the VM before.
pub(super) fn complete(world: &World, vm: &VirtualMachine, next: &mut VirtualMachine) {
    let (before, now) = (preference(&vm.spec), preference(&next.spec));
    // What the preference of the VM gave was written into it, and stays if the preference has changed since.
    if before != now {
        prefer(world, next);
    }
    keep(vm, next);
    prefer(world, next);
    let uuid = api::uuid::of_vm(next.metadata.name.as_deref().unwrap_or_default());
    defaults::apply_to_vm(next, &world.config().defaults_context(uuid));
}

/// Keeps the hardware of the VM before, by which the guest knows its computer, where none is set.
fn keep(vm: &VirtualMachine, next: &mut VirtualMachine) {
    let (Some(old), Some(new)) = (&vm.spec.template, &mut next.spec.template) else { return };
    if let Some(known) = &old.spec.domain.firmware {
        let firmware = new.spec.domain.firmware.get_or_insert_default();
        for (new, old) in [(&mut firmware.uuid, &known.uuid), (&mut firmware.serial, &known.serial)] {
            if is_set(old) {
                new.clone_from(old);
            }
        }
    }
    if !is_set(&new.spec.architecture) {
        new.spec.architecture.clone_from(&old.spec.architecture);
    }
    let machine = &mut new.spec.domain.machine;
    if machine.as_ref().is_none_or(|machine| machine.r#type.is_empty()) {
        machine.clone_from(&old.spec.domain.machine);
    }
    let topology = old.metadata.as_ref().and_then(|metadata| metadata.annotations.get(PCI_TOPOLOGY));
    if let Some(topology) = topology {
        let annotations = &mut new.metadata.get_or_insert_default().annotations;
        annotations.entry(PCI_TOPOLOGY.to_owned()).or_insert_with(|| topology.clone());
    }
}

/// Sets what the preference of a VM gives when the VM is written, as the webhook does.
fn prefer(world: &World, vm: &mut VirtualMachine) {
    let namespace = vm.metadata.namespace.clone().unwrap_or_default();
    if let Some(matcher) = Matcher::from_spec(&vm.spec, Role::Preference)
        && matcher.infer_from_volume.is_empty()
        && matcher.revision_name.is_empty()
        && let Ok(kind) = matcher.matched()
        && let Some(live) = find(world, kind, &namespace, matcher.name)
    {
        let mut given = SizeSpecs::default();
        if given.set(Role::Preference, live.spec).is_ok()
            && let Some(preference) = &given.preference
        {
            at_write(vm, preference);
        }
    }
}

/// Kind and name of the preference.
fn preference(spec: &Spec) -> Option<(&str, &str)> {
    let matcher = Matcher::from_spec(spec, Role::Preference)?;
    let kind = matcher.matched().map_or(matcher.kind, |kind| kind.kind());
    Some((kind, matcher.name))
}

fn is_set(text: &Option<String>) -> bool {
    text.as_deref().is_some_and(|text| !text.is_empty())
}
