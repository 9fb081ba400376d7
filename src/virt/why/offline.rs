//! Rules about an offline migration: the VM is off, and its disks move by a VMI without a guest.

use super::finding::RuleContext;
use super::vm::LOOK_AT_CONTROLLER;
use super::{Finding, migration, vmi};
use crate::virt::json::moment;

/// The VMI without a guest exists. Its state is not that of the VM.
pub(super) fn moves(context: &RuleContext<'_>) -> Option<Finding> {
    let vmi = context.vmi().filter(|_| context.facts.has_carrier())?;
    let goes_on = || vmi::is_unheard(context).or_else(|| migration::migrates(context));
    Some(goes_on().unwrap_or_else(|| {
        let end = migration::last_end(context);
        let end = end.as_ref().map_or("has ended", |end| end.word());
        let says = format!(
            "VM {} is off: its offline migration {end}, and the VMI without a guest is being removed",
            context.name
        );
        let finding = Finding::new(says).since(moment(vmi, "/metadata/deletionTimestamp"));
        finding.quote(migration::last_failure(context)).advise(LOOK_AT_CONTROLLER)
    }))
}

/// An offline migration has not begun yet.
pub(super) fn waits(context: &RuleContext<'_>) -> Option<Finding> {
    context.vm()?;
    migration::waits_offline(context)
}
