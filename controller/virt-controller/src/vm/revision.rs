//! The spec of a VM when a VMI of it was started.

use crate::template::{SUM, recorded_sum, sum};
use api::vm::VirtualMachine;
use api::vmi::VirtualMachineInstance;
use api::wire::Wire;
use cluster_model::objects::{Kind, REVISION, owner};
use cluster_model::plan::{Plan, Step};
use serde_json::{Value, json};

/// The VM's generation at the start, on the VMI.
pub(super) const GENERATION: &str = "kubevirt.io/vm-generation";

/// The name of a revision.
pub(super) fn name(uid: &str, generation: i64) -> String {
    format!("{REVISION}{uid}-{generation}")
}

/// True for a name that only a revision of this VM has. The status names the revision that is deleted, and may be forged.
pub(super) fn is_of(vm: &VirtualMachine, revision: &str) -> bool {
    let uid = vm.metadata.uid.as_deref().filter(|uid| !uid.is_empty());
    let rest = uid.and_then(|uid| revision.strip_prefix(REVISION)?.strip_prefix(uid)?.strip_prefix('-'));
    rest.is_some_and(|generation| generation.parse::<i64>().is_ok())
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
    next.metadata.annotations.insert(SUM.to_owned(), sum(vm));
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
