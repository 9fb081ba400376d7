//! Rules about the VMI: its phase and its conditions.

use super::finding::RuleContext;
use super::{Finding, Quote, advice, migration, volume_patch};
use crate::virt::json::{self, Condition, condition, conditions, list, moment, text};
use cluster_model::conditions::{SYNC_FAILED, UNHEARD};
use cluster_model::objects::Kind;
use jiff::Timestamp;
use serde_json::Value;

const VMI: Kind = Kind::VirtualMachineInstance;

/// Time since which the VMI is in its phase.
fn in_phase(vmi: &Value, phase: &str) -> Option<Timestamp> {
    let entries = list(vmi, "/status/phaseTransitionTimestamps");
    entries
        .filter(|entry| text(entry, "/phase") == Some(phase))
        .filter_map(|entry| moment(entry, "/phaseTransitionTimestamp"))
        .max()
}

pub(super) fn node<'a>(context: &RuleContext<'a>) -> &'a str {
    let of_vmi = context.vmi().and_then(|vmi| text(vmi, "/status/nodeName"));
    of_vmi.or(context.pod.and_then(|pod| text(pod, "/spec/nodeName"))).unwrap_or("(unknown)")
}

/// Component that set the condition Synchronized: one reason is virt-handler's, all others are
/// virt-controller's.
fn teller(said: &Condition<'_>) -> &'static str {
    match said.reason {
        SYNC_FAILED => "virt-handler, ",
        _ => "virt-controller, ",
    }
}

pub(super) fn look_at_handler(node: &str) -> String {
    format!(
        "see whether virt-handler runs there: \
         kubectl get pods -A -l kubevirt.io=virt-handler --field-selector spec.nodeName={node}"
    )
}

/// The node of the VMI is unresponsive.
pub(super) fn is_unheard(context: &RuleContext<'_>) -> Option<Finding> {
    let vmi = context.vmi()?;
    let said = condition(vmi, "Synchronized", "False").filter(|said| said.reason == UNHEARD)?;
    let node = node(context);
    let finding = Finding::new(format!("VM {} waits for node {node}, which is unresponsive", context.name))
        .since(said.since)
        .quote([context.quote("virt-controller, ", &said, VMI)])
        .quote(context.node_trouble().map(|(_, quote)| quote));
    Some(
        finding
            .advise(format!(
                "bring node {node} back, or make sure that it is off, and delete it from the cluster"
            ))
            .advise(look_at_handler(node)),
    )
}

/// The VMI is being stopped.
pub(super) fn is_deleted(context: &RuleContext<'_>) -> Option<Finding> {
    let vmi = context.vmi()?;
    let since = moment(vmi, "/metadata/deletionTimestamp")?;
    if let Some(stands) = is_unheard(context).or_else(|| super::undeletable::is_undeletable(context)) {
        return Some(stands);
    }
    if matches!(context.phase(), "Succeeded" | "Failed") {
        let finding = match context.pod {
            Some(pod) => {
                let name = json::name(pod);
                Finding::new(format!("VMI {} has ended, and waits for its pod {name} to go", context.name))
                    .quote_event(context.warning(Kind::Pod, name, &[]))
                    .advise(format!(
                        "see what the kubelet waits for: kubectl describe pod {name} -n {}",
                        context.facts.namespace
                    ))
            }
            None => {
                let held: Vec<&str> =
                    list(vmi, "/metadata/finalizers").filter_map(|finalizer| finalizer.as_str()).collect();
                Finding::new(format!("VMI {} has ended, and waits for: {}", context.name, held.join(", ")))
            }
        };
        return Some(finding.since(Some(since)));
    }
    let grace = vmi.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_u64).unwrap_or(30);
    Some(
        Finding::new(format!(
            "VMI {} is being stopped: the guest has {grace} s to shut down, then it is powered off",
            context.name
        ))
        .since(Some(since))
        .quote_event(context.warning(VMI, context.name, &[]))
        .advise("look what the guest waits for, on its console")
        .advise(format!("or power it off now: $virt stop {} --force --grace-period=0", context.name)),
    )
}

pub(super) fn is_paused(context: &RuleContext<'_>) -> Option<Finding> {
    let paused = condition(context.vmi()?, "Paused", "True")?;
    let finding = Finding::new(format!("VM {} is paused: its vCPUs stand still", context.name))
        .since(paused.since)
        .quote([context.quote("virt-handler, ", &paused, VMI)]);
    Some(match paused.reason {
        "PausedIOError" => finding
            .advise("look at the storage below its PVCs: is a volume full, or is the storage gone?")
            .advise(format!("once that is fixed: $virt unpause vm {}", context.name)),
        "PausedByDiskPressure" => finding.advise(format!(
            "make room on the disk of node {}, or delete VMs there that are not needed; then the VM goes on by itself",
            node(context)
        )),
        _ => finding.advise(format!("let it go on: $virt unpause vm {}", context.name)),
    })
}

pub(super) fn runs(context: &RuleContext<'_>) -> Option<Finding> {
    let vmi = context.vmi()?;
    if context.phase() != "Running" {
        return None;
    }
    let since = in_phase(vmi, "Running");
    let node = node(context);
    if let Some((name, quote)) = context.node_trouble() {
        return Some(
            Finding::new(format!(
                "VM {} was running on node {name} at the last report, and the node is not ready",
                context.name
            ))
            .since(since)
            .quote([quote])
            .advise(look_at_handler(node)),
        );
    }
    let troubled = |kind: &str| condition(vmi, kind, "False");
    if let Some(said) = troubled("Synchronized") {
        return Some(
            Finding::new(format!("VM {} runs, and a change of it could not be carried out", context.name))
                .since(said.since)
                .quote([context.quote(teller(&said), &said, VMI)])
                .quote_event(context.warning(VMI, context.name, &["SyncFailed"])),
        );
    }
    if let Some(ready) = troubled("Ready") {
        return Some(
            Finding::new(format!("VM {} is running but not Ready: Services leave it out", context.name))
                .since(ready.since)
                .quote([context.quote("", &ready, VMI)])
                .quote_event(context.warning_of_pods())
                .advise("look at its readinessProbe, and at the guest on its console"),
        );
    }
    if let Some(finding) = needs_recovery(context).or_else(|| moves_volumes(context, vmi)) {
        return Some(finding);
    }
    let volumes: Vec<&str> = list(vmi, "/status/volumeStatus")
        .filter(|volume| volume.get("hotplugVolume").is_some_and(Value::is_object))
        .filter(|volume| !matches!(text(volume, "/phase"), Some("Ready") | None))
        .filter_map(|volume| text(volume, "/name"))
        .collect();
    let required = condition(context.vm().unwrap_or(&Value::Null), "RestartRequired", "True");
    let waits = match (volumes.as_slice(), required) {
        ([], None) => "waits for nothing".to_owned(),
        ([], Some(_)) => "changes of it wait for a restart".to_owned(),
        (names, None) => format!("waits for hotplugged volumes: {}", names.join(", ")),
        (names, Some(_)) => {
            format!("waits for hotplugged volumes: {}; other changes wait for a restart", names.join(", "))
        }
    };
    let end = migration::last_end(context);
    let last = end.as_ref().map_or_else(String::new, |end| format!("; its last migration {}", end.word()));
    let failed = end.and_then(migration::MigrationEnd::failure);
    let finding = Finding::new(format!("VM {} runs on node {node}, and {waits}{last}", context.name));
    let finding = finding.since(since).quote(failed);
    let Some(required) = required else { return Some(finding) };
    let finding = finding.quote([context.quote("virt-controller, ", &required, Kind::VirtualMachine)]);
    let restart = format!("$virt restart {}", context.name);
    if !volume_patch::is_refused(context) {
        let what = "a change of its spec holds from the next start on";
        return Some(finding.advise(format!("{what}: {restart}")));
    }
    let back = "a restart is refused while volumes name other PVCs than their disks are on; to write the PVCs of the \
                disks into them";
    let anew =
        format!("or, to start on the PVCs that it names with what they have, run this, and then {restart}");
    let advice = [volume_patch::of_disks(context, back), volume_patch::without_strategy(context, &anew)];
    Some(advice.into_iter().flatten().fold(finding, Finding::advise))
}

/// The guest runs, and the VM would not start again: a volume names a PVC that its disk is not on.
fn needs_recovery(context: &RuleContext<'_>) -> Option<Finding> {
    let said = condition(context.vm()?, "ManualRecoveryRequired", "True")?;
    let finding = Finding::new(format!(
        "VM {} runs on node {}, and could not start again: a volume names a PVC that its disk is not on",
        context.name,
        node(context)
    ))
    .since(said.since)
    .quote([context.quote("virt-controller, ", &said, Kind::VirtualMachine)]);
    let what = "do not restart it: that is refused, and the guest runs on meanwhile. To write the PVCs of its disks into the volumes";
    let otherwise =
        || format!("{what}, follow the message, which names both PVCs: kubectl edit vm {}", context.name);
    Some(finding.advise(volume_patch::of_disks(context, what).unwrap_or_else(otherwise)))
}

/// The disks of the VM go to other PVCs with the next migration (`updateVolumesStrategy: Migration`).
fn moves_volumes(context: &RuleContext<'_>, vmi: &Value) -> Option<Finding> {
    let said = conditions(vmi).find(|said| said.kind == "VolumesChange")?;
    if said.reason == "VolumesChangeCancellation" {
        return None;
    }
    let goes_on = said.status == "True";
    let what = if goes_on { "virt-controller to create a migration" } else { "their PVCs" };
    let finding =
        Finding::new(format!("VM {} runs, and the move of its volumes waits for {what}", context.name))
            .since(said.since)
            .quote([context.quote("virt-controller, ", &said, VMI)])
            .quote(migration::last_failure(context).filter(|_| goes_on));
    let finding = match goes_on {
        true => finding
            .advise("after a failure the next migration comes after a pause; it doubles with each failure"),
        false => finding.advise("create the PVC that the message names"),
    };
    Some(finding.advise(migration::cancel_update(context)))
}

pub(super) fn has_ended(context: &RuleContext<'_>) -> Option<Finding> {
    let vmi = context.vmi()?;
    let phase = context.phase();
    let says = match phase {
        "Succeeded" => format!("VM {} has been shut down", context.name),
        "Failed" => format!("VM {} has failed", context.name),
        _ => return None,
    };
    let says = match context.vm().map(|_| context.strategy()) {
        Some("Always") => format!("{says}, and waits for virt-controller to start it again"),
        Some("RerunOnFailure") if phase == "Failed" => {
            format!("{says}, and waits for virt-controller to start it again")
        }
        _ => says,
    };
    let mut finding = Finding::new(says).since(in_phase(vmi, phase));
    if phase == "Failed" {
        let reason = text(vmi, "/status/reason").unwrap_or_default();
        let said = condition(vmi, "Synchronized", "False");
        finding = finding
            .quote([Quote::new(format!("status.reason of VMI {}", context.name), reason)])
            .quote_event(context.warning(VMI, context.name, &[]))
            // The reason why it did not start stays in the condition.
            .quote(said.map(|said| context.quote(teller(&said), &said, VMI)))
            .quote(context.pod.and_then(super::pod::end))
            .quote_event(context.warning_of_pods());
        if let Some(pod) = context.pod {
            let name = json::name(pod);
            finding = finding.advise(format!(
                "read what the launcher says: kubectl logs {name} -n {} -c compute",
                context.facts.namespace
            ));
        }
        finding = advice::of_sidecar(context, finding);
    }
    Some(match context.strategy() {
        "Manual" | "Halted" => finding.advise(format!("start it: $virt start {}", context.name)),
        _ => finding,
    })
}

/// virt-controller or virt-handler failed in the next action for the VMI.
pub(super) fn is_not_synchronized(context: &RuleContext<'_>) -> Option<Finding> {
    let vmi = context.vmi()?;
    let said = condition(vmi, "Synchronized", "False")?;
    let (who, what) = match context.phase() {
        "Scheduled" => ("virt-handler", "to start the guest"),
        _ => ("virt-controller", "to create its launcher pod"),
    };
    let finding = Finding::new(format!("VM {} waits for {who} {what}, which has failed", context.name))
        .since(said.since)
        .quote([context.quote(&format!("{who}, "), &said, VMI)])
        .quote_event(context.warning(VMI, context.name, &[]));
    let words = said.message_or_reason().to_lowercase();
    let missing = advice::missing(context, &words);
    Some(if let Some(missing) = missing {
        finding.advise(missing)
    } else if words.contains("exceeded quota") {
        finding.advise("make room in the quota: kubectl describe resourcequota")
    } else if words.contains("podsecurity") || words.contains("privileged namespace") {
        finding.advise("permit such pods in the namespace: its label pod-security.kubernetes.io/enforce")
    } else {
        finding.advise("fix the cause in the message above; it is tried again by itself")
    })
}

/// The pod runs, and virt-handler is to start the guest.
pub(super) fn is_handed_over(context: &RuleContext<'_>) -> Option<Finding> {
    let vmi = context.vmi()?;
    let node = node(context);
    let finding = match context.phase() {
        "Scheduled" => Finding::new(format!(
            "VM {} waits for virt-handler on node {node} to start the guest",
            context.name
        ))
        .since(in_phase(vmi, "Scheduled")),
        "Scheduling" if context.pod.is_some() => {
            Finding::new(format!("VM {} waits for virt-controller to hand it to node {node}", context.name))
                .since(in_phase(vmi, "Scheduling"))
        }
        _ => return None,
    };
    let finding = finding
        .quote_event(context.warning(VMI, context.name, &[]))
        .quote(context.node_trouble().map(|(_, quote)| quote));
    Some(finding.advise(look_at_handler(node)))
}

/// The VMI exists, and its pod does not.
pub(super) fn has_no_pod(context: &RuleContext<'_>) -> Option<Finding> {
    let vmi = context.vmi()?;
    let says = match context.phase() {
        "Scheduling" | "Scheduled" => {
            format!("VM {} waits for virt-controller to see that its launcher pod is gone", context.name)
        }
        "WaitingForSync" => format!("VM {} waits for the VMI that migrates into it", context.name),
        "Unknown" => format!("VM {}: the state of the guest is unknown", context.name),
        _ => format!("VM {} waits for virt-controller to create its launcher pod", context.name),
    };
    let since = in_phase(vmi, context.phase()).or_else(|| moment(vmi, "/metadata/creationTimestamp"));
    let said = ["Provisioning", "DataVolumesReady", "PodScheduled"].iter().find_map(|kind| {
        let status = if *kind == "Provisioning" { "True" } else { "False" };
        condition(vmi, kind, status)
    });
    Some(
        Finding::new(says)
            .since(since)
            .quote(said.map(|said| context.quote("virt-controller, ", &said, VMI)))
            .quote_event(context.warning(VMI, context.name, &[]))
            .advise("see whether virt-controller runs: kubectl get pods -A -l kubevirt.io=virt-controller"),
    )
}
