//! Rules about a VM without a VMI, and about one that is being deleted.

use super::finding::RuleContext;
use super::{Finding, advice, migration, volume_patch};
use crate::virt::json::{age, condition, list, moment, text};
use cluster_model::objects::Kind;
use serde_json::Value;

pub(super) const LOOK_AT_CONTROLLER: &str =
    "see whether virt-controller runs: kubectl get pods -A -l kubevirt.io=virt-controller";

pub(super) fn is_deleted(context: &RuleContext<'_>) -> Option<Finding> {
    let vm = context.vm()?;
    let since = moment(vm, "/metadata/deletionTimestamp")?;
    let finalizers: Vec<&str> =
        list(vm, "/metadata/finalizers").filter_map(|finalizer| finalizer.as_str()).collect();
    let says = match (context.vmi(), finalizers.as_slice()) {
        (Some(_), _) => format!("VM {} is being deleted, and its VMI has to stop first", context.name),
        (None, []) => format!("VM {} is being deleted", context.name),
        (None, names) => format!("VM {} is being deleted, and waits for: {}", context.name, names.join(", ")),
    };
    let finding = Finding::new(says).since(Some(since));
    let of_vmi = super::vmi::is_deleted(context).or_else(|| super::vmi::is_unheard(context));
    let finding = match of_vmi.or_else(|| super::undeletable::is_undeletable(context)) {
        Some(of_vmi) => Finding {
            says: format!("{}: {}", finding.says, of_vmi.says),
            quotes: of_vmi.quotes,
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

pub(super) fn is_new(context: &RuleContext<'_>) -> Option<Finding> {
    let vm = context.vm()?;
    let is_new = vm.get("status").and_then(Value::as_object).is_none_or(serde_json::Map::is_empty);
    is_new.then(|| {
        Finding::new(format!("VM {} waits for virt-controller, which has not looked at it yet", context.name))
            .since(moment(vm, "/metadata/creationTimestamp"))
            .quote_event(context.warning(Kind::VirtualMachine, context.name, &[]))
            .advise(LOOK_AT_CONTROLLER)
    })
}

/// A volume of the VM names a PVC that its disk is not on, or not whole.
pub(super) fn needs_recovery(context: &RuleContext<'_>) -> Option<Finding> {
    let said = condition(context.vm()?, "ManualRecoveryRequired", "True")?;
    let finding = Finding::new(format!(
        "VM {} does not start: a volume names a PVC that its disk is not on",
        context.name
    ))
    .since(said.since)
    .quote([context.quote("virt-controller, ", &said, Kind::VirtualMachine)]);
    let patch = volume_patch::of_disks(context, "to write the PVCs of its disks into the volumes");
    let by_hand = || format!("name the PVC of the message in the volume: kubectl edit vm {}", context.name);
    Some(finding.advise(patch.unwrap_or_else(by_hand)))
}

/// The VM fails to start again and again, and waits for the next attempt.
pub(super) fn fails_again(context: &RuleContext<'_>) -> Option<Finding> {
    let vm = context.vm()?;
    let count = vm.pointer("/status/startFailure/consecutiveFailCount").and_then(Value::as_u64)?;
    if count == 0 || !matches!(context.strategy(), "Always" | "RerunOnFailure" | "Once") {
        return None;
    }
    let next = moment(vm, "/status/startFailure/retryAfterTimestamp");
    let when = match next {
        Some(next) if next > context.now => format!("; the next try comes in {}", age(next, context.now)),
        _ => String::new(),
    };
    let times = if count == 1 { "once".to_owned() } else { format!("{count} times in a row") };
    let finding = Finding::new(format!("VM {} has failed to start {times}{when}", context.name))
        .quote_event(context.warning(Kind::VirtualMachineInstance, context.name, &[]))
        .quote_event(context.warning_of_pods());
    Some(
        advice::of_sidecar(context, finding)
            .advise("read on what it failed: the events below are of all tries")
            .advise(format!(
                "to try at once, once that is fixed: $virt stop {0}, then $virt start {0}",
                context.name
            )),
    )
}

/// The VM is off by its run strategy.
pub(super) fn is_off(context: &RuleContext<'_>) -> Option<Finding> {
    let vm = context.vm()?;
    let asks_for_start =
        list(vm, "/status/stateChangeRequests").any(|request| text(request, "/action") == Some("Start"));
    let is_stopped = text(vm, "/status/printableStatus") == Some("Stopped");
    let strategy = context.strategy();
    let why = match strategy {
        _ if asks_for_start => return None,
        "Halted" => "its run strategy is Halted",
        "Manual" => "its run strategy is Manual, and it has not been started",
        "Once" if is_stopped => "its run strategy is Once, and it has run once",
        "RerunOnFailure" if is_stopped => {
            "its run strategy is RerunOnFailure, and its guest has shut down without a failure"
        }
        _ => return None,
    };
    let since = condition(vm, "Ready", "False").and_then(|ready| ready.since);
    let end = migration::last_offline_end(context);
    let last = end.as_ref().map_or_else(String::new, |end| format!("; its offline migration {}", end.word()));
    let failed = end.and_then(migration::MigrationEnd::failure);
    let finding = Finding::new(format!("VM {} is off: {why}{last}", context.name)).since(since).quote(failed);
    Some(match strategy {
        "Once" => finding.advise("to run it again, change spec.runStrategy"),
        _ => finding.advise(format!("start it: $virt start {}", context.name)),
    })
}

/// virt-controller failed in an action for the VM.
pub(super) fn has_failure(context: &RuleContext<'_>) -> Option<Finding> {
    let vm = context.vm()?;
    let failure = condition(vm, "Failure", "True")?;
    let finding = Finding::new(format!("VM {} cannot be started", context.name))
        .since(failure.since)
        .quote([context.quote("virt-controller, ", &failure, Kind::VirtualMachine)])
        .quote_event(context.warning(Kind::VirtualMachine, context.name, &[]));
    Some(advice::of_revision(vm, finding))
}

/// The VM has all it needs, and the VMI does not exist yet.
pub(super) fn starts(context: &RuleContext<'_>) -> Option<Finding> {
    let vm = context.vm()?;
    let ready = condition(vm, "Ready", "False");
    Some(
        Finding::new(format!("VM {} waits for virt-controller to create its VMI", context.name))
            .since(ready.and_then(|ready| ready.since))
            .quote_event(context.warning(Kind::VirtualMachine, context.name, &[]))
            .advise(LOOK_AT_CONTROLLER),
    )
}
