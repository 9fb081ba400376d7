//! The spec of a VM when a VMI of it was started.

use super::links;
use crate::sum_rule::SumRule;
use crate::vmi::TEMPLATE_SUM;
use api::vm::VirtualMachine;
use api::vmi::VirtualMachineInstance;
use api::wire::Wire;
use cluster_model::objects::names::fnv;
use cluster_model::objects::{Kind, REVISION, owner};
use cluster_model::plan::{Plan, Step};
use serde_json::{Value, json};

/// The VM's generation at the start, on the VMI.
pub(super) const GENERATION: &str = "kubevirt.io/vm-generation";
/// The rule of the sum of a template.
const RULE: SumRule = SumRule(1);

/// The name of a revision.
pub(super) fn name(uid: &str, generation: i64) -> String {
    format!("{REVISION}{uid}-{generation}")
}

/// A name that only a revision of this VM has: a status may be forged, and names which revision is deleted.
pub(super) fn is_of(vm: &VirtualMachine, revision: &str) -> bool {
    let uid = vm.metadata.uid.as_deref().filter(|uid| !uid.is_empty());
    let rest = uid.and_then(|uid| revision.strip_prefix(REVISION)?.strip_prefix(uid)?.strip_prefix('-'));
    rest.is_some_and(|generation| generation.parse::<i64>().is_ok())
}

/// Checksum of the settings that a restart would change.
pub(crate) fn of_template(vm: &VirtualMachine) -> String {
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
        interface.state = interface.state.take().filter(|state| !links::is_live(state));
    }
    let named = super::sizes::restart_key(vm);
    RULE.note(&format!("{:016x}", fnv(&format!("{}{named}", template.write()))))
}

/// The sum of a VMI, if it is of the rule of today.
fn recorded_sum(vmi: &VirtualMachineInstance) -> Option<&String> {
    vmi.metadata.annotations.get(TEMPLATE_SUM).filter(|noted| RULE.read(noted).is_some())
}

/// True if a VMI is known to be of another template than its VM has.
pub(crate) fn is_outdated(vm: &VirtualMachine, vmi: &VirtualMachineInstance) -> bool {
    recorded_sum(vmi).is_some_and(|noted| *noted != of_template(vm))
}

/// Notes the sum on a VMI that has none, or one of another rule.
pub(super) fn note(vm: &VirtualMachine, vmi: &VirtualMachineInstance, plan: &mut Plan) {
    let has_ended = crate::vmi::phase(vmi).is_final() || vmi.metadata.deletion_timestamp.is_some();
    let is_deleted =
        |step: &Step| matches!(step, Step::Delete { key, .. } if key.kind == Kind::VirtualMachineInstance);
    if has_ended
        || plan.steps.iter().any(is_deleted)
        || vm.metadata.deletion_timestamp.is_some()
        || recorded_sum(vmi).is_some()
    {
        return;
    }
    let mut next = vmi.clone();
    next.metadata.annotations.insert(TEMPLATE_SUM.to_owned(), of_template(vm));
    plan.update(Kind::VirtualMachineInstance, &vmi.metadata, &vmi.write(), &next.write(), false);
}

/// The revision as an object.
pub(super) fn object(vm: &VirtualMachine, generation: i64) -> Value {
    let uid = vm.metadata.uid.clone().unwrap_or_default();
    json!({
        "apiVersion": Kind::ControllerRevision.api_version(),
        "kind": Kind::ControllerRevision.name(),
        "metadata": {
            "name": name(&uid, generation),
            "namespace": vm.metadata.namespace,
            "ownerReferences": [owner::reference(Kind::VirtualMachine, &vm.metadata)],
        },
        "data": {"spec": vm.spec.write()},
        "revision": generation,
    })
}
