//! Requests to start and stop, when they are done, and when they do not count any more.

use api::vm::{RunStrategy, StateChange, StateChangeRequest, VirtualMachine};
use api::vmi::{Phase, VirtualMachineInstance};

/// The first request, if it is for this action. Later requests wait their turn.
pub(super) fn next_request<'a>(
    vm: &'a VirtualMachine,
    action: &StateChange,
) -> Option<&'a StateChangeRequest> {
    let first = vm.status.as_ref()?.state_change_requests.first()?;
    (first.action == *action).then_some(first)
}

/// True if a request of the VM asks to stop this VMI.
pub(super) fn is_stop_requested(vm: &VirtualMachine, vmi: &VirtualMachineInstance) -> bool {
    next_request(vm, &StateChange::Stop).is_some_and(|request| is_meant(request, vmi))
}

fn is_meant(request: &StateChangeRequest, vmi: &VirtualMachineInstance) -> bool {
    request.uid.as_deref().is_none_or(|uid| uid.is_empty() || vmi.metadata.uid.as_deref() == Some(uid))
}

/// True if the request is to start the VM with its vCPUs stopped.
pub(super) fn is_paused(request: &StateChangeRequest) -> bool {
    request.data.get("paused").is_some_and(|paused| paused == "true")
}

/// Removes from a halted VM what was meant for its run strategy before: failed starts, and requests to start. Of a VM that is halted
/// virt-api requests a start only with its vCPUs stopped; any other start sets the run strategy. Under `Always` and `Once` it requests
/// no such start, so one that is found then is of the halted VM.
pub(super) fn forget_if_halted(vm: &mut VirtualMachine, strategy: &RunStrategy) {
    let Some(status) = vm.status.as_mut().filter(|_| *strategy == RunStrategy::Halted) else { return };
    status.start_failure = None;
    let had_requests = match &status.run_strategy {
        Some(last) => matches!(last, RunStrategy::Manual | RunStrategy::RerunOnFailure),
        // A VM with `RerunOnFailure` that has had no VMI, or one that virt-controller has not seen yet.
        None => status.printable_status.is_some(),
    };
    status
        .state_change_requests
        .retain(|request| request.action != StateChange::Start || is_paused(request) && !had_requests);
}

/// Removes requests that are done, and records those that must not be lost.
pub(super) fn remove_done(
    vm: &mut VirtualMachine,
    strategy: &RunStrategy,
    vmi: Option<&VirtualMachineInstance>,
) {
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
    if *strategy == RunStrategy::RerunOnFailure && failed && requests.is_empty() {
        requests.push(StateChangeRequest { action: StateChange::Start, ..StateChangeRequest::default() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A request that is taken off too early is lost, and one that stays stops the VM again.
    #[test]
    fn a_request_stays_until_what_it_asks_for_is_seen() {
        let (start, stop) = (json!({"action": "Start"}), json!({"action": "Stop", "uid": "a"}));
        let none = Value::Null;
        let phase = |phase: &str| json!({"uid": "a", "phase": phase});
        let (runs, other) = (phase("Running"), json!({"uid": "b", "phase": "Running"}));
        let going = json!({"uid": "a", "phase": "Running", "going": "2027-01-01T00:00:00Z"});
        for (requests, strategy, vmi, left) in [
            (json!([start]), "Manual", &none, "Start"),
            (json!([start]), "RerunOnFailure", &none, "Start"),
            (json!([start]), "Halted", &none, "Start"),
            (json!([start]), "Always", &none, ""),
            (json!([start]), "Once", &none, ""),
            (json!([start]), "Manual", &runs, ""),
            (json!([start]), "Manual", &going, "Start"),
            (json!([start]), "Manual", &phase("Succeeded"), "Start"),
            (json!([start]), "Manual", &phase("Failed"), "Start"),
            (json!([stop]), "Manual", &none, ""),
            (json!([stop]), "Manual", &runs, "Stop"),
            (json!([stop]), "Manual", &other, ""),
            (json!([{"action": "Stop"}]), "Manual", &other, "Stop"),
            (json!([{"action": "Stop", "uid": ""}]), "Manual", &other, "Stop"),
            (json!([{"action": "Jump"}, stop]), "Manual", &runs, "Stop"),
            (json!([stop, start]), "Manual", &runs, "Stop Start"),
            (json!([stop, start]), "Manual", &none, "Start"),
            // The VMI that failed is deleted, and its VM is to run again.
            (json!([]), "RerunOnFailure", &phase("Failed"), "Start"),
            (json!([]), "RerunOnFailure", &phase("Succeeded"), ""),
            (json!([]), "Always", &phase("Failed"), ""),
            (json!([stop]), "RerunOnFailure", &phase("Failed"), "Stop"),
        ] {
            let status = json!({"stateChangeRequests": requests});
            let mut vm = api::wire::read(json!({"metadata": {}, "status": status})).unwrap();
            let meta = json!({"uid": vmi["uid"], "deletionTimestamp": vmi["going"]});
            let object = json!({"metadata": meta, "status": {"phase": vmi["phase"]}});
            let object = (!vmi.is_null()).then(|| api::wire::read(object).unwrap());
            remove_done(&mut vm, &RunStrategy::from(strategy), object.as_ref());
            let is: Vec<String> = vm
                .status
                .iter()
                .flat_map(|status| &status.state_change_requests)
                .map(|request| request.action.to_string())
                .collect();
            assert_eq!(is.join(" "), left, "{requests} {strategy} {vmi}");
        }
    }
}
