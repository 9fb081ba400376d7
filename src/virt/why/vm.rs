//! Rules about a VM without a VMI, and about one that is being deleted.

use super::finding::Seen;
use super::see::{condition, list, moment, text};
use super::{Finding, advice};
use crate::virt::object::Kind;
use jiff::Timestamp;
use serde_json::Value;

pub(super) const LOOK_AT_CONTROLLER: &str =
    "see whether virt-controller runs: kubectl get pods -A -l kubevirt.io=virt-controller";

pub(super) fn is_deleted(seen: &Seen<'_>) -> Option<Finding> {
    let vm = seen.vm()?;
    let since = moment(vm, "/metadata/deletionTimestamp")?;
    let finalizers: Vec<&str> =
        list(vm, "/metadata/finalizers").filter_map(|finalizer| finalizer.as_str()).collect();
    let says = match (seen.vmi(), finalizers.as_slice()) {
        (Some(_), _) => format!("VM {} is being deleted, and its VMI has to stop first", seen.name),
        (None, []) => format!("VM {} is being deleted", seen.name),
        (None, names) => format!("VM {} is being deleted, and waits for: {}", seen.name, names.join(", ")),
    };
    let finding = Finding::new(says).since(Some(since));
    let of_vmi = super::vmi::is_deleted(seen).or_else(|| super::vmi::is_unheard(seen));
    let finding = match of_vmi.or_else(|| super::kept::is_kept(seen)) {
        Some(of_vmi) => Finding {
            says: format!("{}: {}", finding.says, of_vmi.says),
            words: of_vmi.words,
            advice: of_vmi.advice,
            ..finding
        },
        None => finding,
    };
    Some(match finding.advice.is_empty() {
        true => finding.advise(LOOK_AT_CONTROLLER),
        false => finding,
    })
}

pub(super) fn is_new(seen: &Seen<'_>) -> Option<Finding> {
    let vm = seen.vm()?;
    let is_new = vm.get("status").and_then(Value::as_object).is_none_or(serde_json::Map::is_empty);
    is_new.then(|| {
        Finding::new(format!("VM {} waits for virt-controller, which has not looked at it yet", seen.name))
            .since(moment(vm, "/metadata/creationTimestamp"))
            .told(seen.warning(Kind::VirtualMachine, seen.name, &[]))
            .advise(LOOK_AT_CONTROLLER)
    })
}

/// The VM fails to start again and again, and waits for the next attempt.
pub(super) fn fails_again(seen: &Seen<'_>) -> Option<Finding> {
    let vm = seen.vm()?;
    let count = vm.pointer("/status/startFailure/consecutiveFailCount").and_then(Value::as_u64)?;
    if count == 0 || !matches!(seen.strategy(), "Always" | "RerunOnFailure" | "Once") {
        return None;
    }
    let next = moment(vm, "/status/startFailure/retryAfterTimestamp");
    let when = match next {
        Some(next) if next > seen.now => format!("; the next try comes in {}", until(seen.now, next)),
        _ => String::new(),
    };
    let times = if count == 1 { "once".to_owned() } else { format!("{count} times in a row") };
    let finding = Finding::new(format!("VM {} has failed to start {times}{when}", seen.name))
        .told(seen.warning(Kind::VirtualMachineInstance, seen.name, &[]))
        .told(seen.warning_of_pods());
    Some(
        advice::of_sidecar(seen, finding)
            .advise("read on what it failed: the events below are of all tries")
            .advise(format!(
                "to try at once, once that is mended: $virt stop {0}, then $virt start {0}",
                seen.name
            )),
    )
}

fn until(now: Timestamp, then: Timestamp) -> String {
    super::see::age(then, now)
}

/// The VM is off by its run strategy.
pub(super) fn is_off(seen: &Seen<'_>) -> Option<Finding> {
    let vm = seen.vm()?;
    let asks_for_start =
        list(vm, "/status/stateChangeRequests").any(|request| text(request, "/action") == Some("Start"));
    let is_stopped = text(vm, "/status/printableStatus") == Some("Stopped");
    let strategy = seen.strategy();
    let why = match strategy {
        _ if asks_for_start => return None,
        "Halted" => "its run strategy is Halted",
        "Manual" => "its run strategy is Manual, and nobody has started it",
        "Once" if is_stopped => "its run strategy is Once, and it has run once",
        "RerunOnFailure" if is_stopped => {
            "its run strategy is RerunOnFailure, and its guest has shut down without a failure"
        }
        _ => return None,
    };
    let since = condition(vm, "Ready", "False").and_then(|ready| ready.since);
    let finding = Finding::new(format!("VM {} is off: {why}", seen.name)).since(since);
    Some(match strategy {
        "Once" => finding.advise("to run it again, change spec.runStrategy"),
        _ => finding.advise(format!("start it: $virt start {}", seen.name)),
    })
}

/// virt-controller failed in an action for the VM.
pub(super) fn has_failure(seen: &Seen<'_>) -> Option<Finding> {
    let vm = seen.vm()?;
    let failure = condition(vm, "Failure", "True")?;
    let finding = Finding::new(format!("VM {} cannot be started", seen.name))
        .since(failure.since)
        .said(format!("virt-controller, {} of VM {}", failure.shown(), seen.name), failure.words())
        .told(seen.warning(Kind::VirtualMachine, seen.name, &[]));
    Some(advice::of_revision(vm, finding))
}

/// The VM has all it needs, and the VMI does not exist yet.
pub(super) fn starts(seen: &Seen<'_>) -> Option<Finding> {
    let vm = seen.vm()?;
    let ready = condition(vm, "Ready", "False");
    Some(
        Finding::new(format!("VM {} waits for virt-controller to create its VMI", seen.name))
            .since(ready.and_then(|ready| ready.since))
            .told(seen.warning(Kind::VirtualMachine, seen.name, &[]))
            .advise(LOOK_AT_CONTROLLER),
    )
}
