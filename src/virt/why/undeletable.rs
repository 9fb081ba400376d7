//! Rule about a VMI or a pod that cannot be deleted: the API server refuses virt-controller's request.

use super::Finding;
use super::finding::RuleContext;
use crate::virt::json::{Condition, condition};
use cluster_model::conditions::KEPT;
use cluster_model::objects::Kind;

/// Finding for a failed deletion: of a pod by a condition of the VMI, or of the VMI by a condition of the VM.
pub(super) fn is_undeletable(context: &RuleContext<'_>) -> Option<Finding> {
    let vmi = context.vmi()?;
    let is_kept = |said: &Condition<'_>| said.reason == KEPT;
    let of_pod = || condition(vmi, "Synchronized", "False").filter(is_kept);
    let of_vmi = || context.vm().and_then(|vm| condition(vm, "Failure", "True")).filter(is_kept);
    let (said, of, what) = of_pod()
        .map(|said| (said, Kind::VirtualMachineInstance, "the launcher pod of VMI"))
        .or_else(|| of_vmi().map(|said| (said, Kind::VirtualMachine, "VMI")))?;
    Some(
        Finding::new(format!("virt-controller cannot delete {what} {}, and tries again", context.name))
            .since(said.since)
            .quote([context.quote("virt-controller, ", &said, of)])
            .advise("look at the admission policy or webhook in the message above"),
    )
}
