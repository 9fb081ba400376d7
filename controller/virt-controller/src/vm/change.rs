//! Requests to start and stop, and when they are done.

use api::vm::{RunStrategy, StateChange, StateChangeRequest, VirtualMachine};
use api::vmi::{Phase, VirtualMachineInstance};

/// The first request, if it is for this action. Later requests wait their turn.
pub(super) fn wanted<'a>(vm: &'a VirtualMachine, action: &StateChange) -> Option<&'a StateChangeRequest> {
    let first = vm.status.as_ref()?.state_change_requests.first()?;
    (first.action == *action).then_some(first)
}

/// A VMI is to be stopped.
pub(super) fn stops(vm: &VirtualMachine, vmi: &VirtualMachineInstance) -> bool {
    wanted(vm, &StateChange::Stop).is_some_and(|request| is_meant(request, vmi))
}

fn is_meant(request: &StateChangeRequest, vmi: &VirtualMachineInstance) -> bool {
    request.uid.as_deref().is_none_or(|uid| uid.is_empty() || vmi.metadata.uid.as_deref() == Some(uid))
}

/// Removes requests that are done, and records those that must not be lost.
pub(super) fn done(vm: &mut VirtualMachine, strategy: &RunStrategy, vmi: Option<&VirtualMachineInstance>) {
    let status = vm.status.get_or_insert_default();
    let requests = &mut status.state_change_requests;
    while let Some(first) = requests.first() {
        let is_done = match first.action {
            StateChange::Start => {
                // A VMI that has ended is not the one of the request.
                vmi.is_some_and(|vmi| {
                    !super::super::vmi::phase(vmi).is_final() && vmi.metadata.deletion_timestamp.is_none()
                }) || matches!(strategy, RunStrategy::Always | RunStrategy::Once)
            }
            StateChange::Stop => vmi.is_none_or(|vmi| !is_meant(first, vmi)),
            StateChange::Other(_) => true,
        };
        if !is_done {
            break;
        }
        requests.remove(0);
    }
    // The VMI that failed is deleted, and a note records that it is to run again.
    let failed = vmi.is_some_and(|vmi| super::super::vmi::phase(vmi) == Phase::Failed);
    let stopped = requests.first().is_some_and(|first| first.action == StateChange::Stop);
    if *strategy == RunStrategy::RerunOnFailure && failed && requests.is_empty() && !stopped {
        requests.push(StateChangeRequest { action: StateChange::Start, ..StateChangeRequest::default() });
    }
}
