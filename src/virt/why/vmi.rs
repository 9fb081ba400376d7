//! Rules about the VMI: its phase and its conditions.

use super::finding::Seen;
use super::see::{Condition, condition, list, moment, text};
use super::{Finding, advice};
use crate::virt::object::Kind;
use jiff::Timestamp;
use serde_json::Value;

/// Time since which the VMI is in its phase.
fn in_phase(vmi: &Value, phase: &str) -> Option<Timestamp> {
    let entries = list(vmi, "/status/phaseTransitionTimestamps");
    entries
        .filter(|entry| text(entry, "/phase") == Some(phase))
        .filter_map(|entry| moment(entry, "/phaseTransitionTimestamp"))
        .max()
}

fn node<'a>(seen: &Seen<'a>) -> &'a str {
    let of_vmi = seen.vmi().and_then(|vmi| text(vmi, "/status/nodeName"));
    of_vmi.or(seen.pod.and_then(|pod| text(pod, "/spec/nodeName"))).unwrap_or("(unknown)")
}

/// Component that set the condition Synchronized: one reason is virt-handler's, all others are
/// virt-controller's.
fn teller(said: &Condition<'_>) -> &'static str {
    match said.reason {
        "Synchronizing with the Domain failed." => "virt-handler",
        _ => "virt-controller",
    }
}

fn look_at_handler(node: &str) -> String {
    format!(
        "see whether virt-handler runs there: \
         kubectl get pods -A -l kubevirt.io=virt-handler --field-selector spec.nodeName={node}"
    )
}

/// The node of the VMI is unresponsive.
pub(super) fn is_unheard(seen: &Seen<'_>) -> Option<Finding> {
    let vmi = seen.vmi()?;
    let said = condition(vmi, "Synchronized", "False").filter(|said| said.reason == "NodeUnresponsive")?;
    let node = node(seen);
    let finding = Finding::new(format!("VM {} waits for node {node}, of which nothing is heard", seen.name))
        .since(said.since)
        .said(format!("virt-controller, {} of VMI {}", said.shown(), seen.name), said.words());
    let finding = match seen.node_trouble() {
        Some((name, words)) => finding.said(format!("condition Ready of Node {name}"), &words),
        None => finding,
    };
    Some(
        finding
            .advise(format!(
                "bring node {node} back, or make sure that it is off, and delete it from the cluster"
            ))
            .advise(look_at_handler(node)),
    )
}

/// The VMI is being stopped.
pub(super) fn is_deleted(seen: &Seen<'_>) -> Option<Finding> {
    let vmi = seen.vmi()?;
    let since = moment(vmi, "/metadata/deletionTimestamp")?;
    if let Some(stands) = is_unheard(seen).or_else(|| super::kept::is_kept(seen)) {
        return Some(stands);
    }
    if matches!(seen.phase(), "Succeeded" | "Failed") {
        let finding = match seen.pod {
            Some(pod) => {
                let name = super::see::name(pod);
                Finding::new(format!("VMI {} has ended, and waits for its pod {name} to go", seen.name))
                    .told(seen.warning(Kind::Pod, name, &[]))
                    .advise(format!(
                        "see what the kubelet waits for: kubectl describe pod {name} -n {}",
                        seen.facts.namespace
                    ))
            }
            None => {
                let held: Vec<&str> =
                    list(vmi, "/metadata/finalizers").filter_map(|finalizer| finalizer.as_str()).collect();
                Finding::new(format!("VMI {} has ended, and waits for: {}", seen.name, held.join(", ")))
            }
        };
        return Some(finding.since(Some(since)));
    }
    let grace = vmi.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_u64).unwrap_or(30);
    Some(
        Finding::new(format!(
            "VMI {} is being stopped: the guest has {grace} s to shut down, then it is powered off",
            seen.name
        ))
        .since(Some(since))
        .told(seen.warning(Kind::VirtualMachineInstance, seen.name, &[]))
        .advise("look what the guest waits for, on its console")
        .advise(format!("or power it off now: $virt stop {} --force --grace-period=0", seen.name)),
    )
}

/// The VMI migrates to another node.
pub(super) fn migrates(seen: &Seen<'_>) -> Option<Finding> {
    let state = seen.vmi()?.pointer("/status/migrationState").filter(|state| state.is_object())?;
    if state.get("completed").and_then(Value::as_bool) == Some(true) {
        return None;
    }
    let target = text(state, "/targetNode").unwrap_or("another node");
    Some(
        Finding::new(format!("VM {} runs, and migrates from node {} to {target}", seen.name, node(seen)))
            .since(moment(state, "/startTimestamp"))
            .told(seen.warning(Kind::VirtualMachineInstance, seen.name, &[]))
            .told(seen.warning(Kind::Migration, text(state, "/migrationUid").unwrap_or_default(), &[]))
            .advise(format!("to cancel that: $virt migrate-cancel {}", seen.name)),
    )
}

pub(super) fn is_paused(seen: &Seen<'_>) -> Option<Finding> {
    let paused = condition(seen.vmi()?, "Paused", "True")?;
    let finding = Finding::new(format!("VM {} is paused: its vCPUs stand still", seen.name))
        .since(paused.since)
        .said(format!("virt-handler, {} of VMI {}", paused.shown(), seen.name), paused.words());
    Some(match paused.reason {
        "PausedIOError" => finding
            .advise("look at the storage below its PVCs: is a volume full, or is the storage gone?")
            .advise(format!("once that is mended: $virt unpause vm {}", seen.name)),
        _ => finding.advise(format!("let it go on: $virt unpause vm {}", seen.name)),
    })
}

pub(super) fn runs(seen: &Seen<'_>) -> Option<Finding> {
    let vmi = seen.vmi()?;
    if seen.phase() != "Running" {
        return None;
    }
    let since = in_phase(vmi, "Running");
    let node = node(seen);
    if let Some((name, words)) = seen.node_trouble() {
        return Some(
            Finding::new(format!(
                "VM {} ran on node {name} when it was last heard of, and the node is not ready",
                seen.name
            ))
            .since(since)
            .said(format!("condition Ready of Node {name}"), &words)
            .advise(look_at_handler(node)),
        );
    }
    let troubled = |kind: &str| condition(vmi, kind, "False");
    if let Some(said) = troubled("Synchronized") {
        return Some(
            Finding::new(format!("VM {} runs, and a change of it could not be carried out", seen.name))
                .since(said.since)
                .said(format!("{}, {} of VMI {}", teller(&said), said.shown(), seen.name), said.words())
                .told(seen.warning(Kind::VirtualMachineInstance, seen.name, &["SyncFailed"])),
        );
    }
    if let Some(ready) = troubled("Ready") {
        return Some(
            Finding::new(format!(
                "VM {} runs, and is not ready: nobody is led to it by a Service",
                seen.name
            ))
            .since(ready.since)
            .said(format!("{} of VMI {}", ready.shown(), seen.name), ready.words())
            .told(seen.warning_of_pods())
            .advise("look at its readinessProbe, and at the guest on its console"),
        );
    }
    let volumes: Vec<&str> = list(vmi, "/status/volumeStatus")
        .filter(|volume| volume.get("hotplugVolume").is_some_and(Value::is_object))
        .filter(|volume| !matches!(text(volume, "/phase"), Some("Ready") | None))
        .filter_map(|volume| text(volume, "/name"))
        .collect();
    let required = condition(seen.vm().unwrap_or(&Value::Null), "RestartRequired", "True");
    let waits = match (volumes.as_slice(), required) {
        ([], None) => "waits for nothing".to_owned(),
        ([], Some(_)) => "changes of it wait for a restart".to_owned(),
        (names, None) => format!("waits for hotplugged volumes: {}", names.join(", ")),
        (names, Some(_)) => {
            format!("waits for hotplugged volumes: {}; other changes wait for a restart", names.join(", "))
        }
    };
    let finding = Finding::new(format!("VM {} runs on node {node}, and {waits}", seen.name)).since(since);
    Some(match required {
        Some(required) => finding
            .said(format!("virt-controller, {} of VM {}", required.shown(), seen.name), required.words())
            .advise(format!(
                "a change of its spec holds from the next start on: $virt restart {}",
                seen.name
            )),
        None => finding,
    })
}

pub(super) fn has_ended(seen: &Seen<'_>) -> Option<Finding> {
    let vmi = seen.vmi()?;
    let phase = seen.phase();
    let says = match phase {
        "Succeeded" => format!("VM {} has been shut down", seen.name),
        "Failed" => format!("VM {} has failed", seen.name),
        _ => return None,
    };
    let says = match seen.vm().map(|_| seen.strategy()) {
        Some("Always") => format!("{says}, and waits for virt-controller to start it again"),
        Some("RerunOnFailure") if phase == "Failed" => {
            format!("{says}, and waits for virt-controller to start it again")
        }
        _ => says,
    };
    let mut finding = Finding::new(says).since(in_phase(vmi, phase));
    if phase == "Failed" {
        let reason = text(vmi, "/status/reason").unwrap_or_default();
        finding = finding.said(format!("status.reason of VMI {}", seen.name), reason).told(seen.warning(
            Kind::VirtualMachineInstance,
            seen.name,
            &[],
        ));
        // The reason why it did not start stays in the condition.
        if let Some(said) = condition(vmi, "Synchronized", "False") {
            let who = format!("{}, {} of VMI {}", teller(&said), said.shown(), seen.name);
            finding = finding.said(who, said.words());
        }
        if let Some(words) = seen.pod.and_then(super::pod::end) {
            finding = finding.said(words.who, &words.text);
        }
        finding = finding.told(seen.warning_of_pods());
        if let Some(pod) = seen.pod {
            let name = super::see::name(pod);
            finding = finding.advise(format!(
                "read what the launcher says: kubectl logs {name} -n {} -c compute",
                seen.facts.namespace
            ));
        }
        finding = advice::of_sidecar(seen, finding);
    }
    Some(match seen.strategy() {
        "Manual" | "Halted" => finding.advise(format!("start it: $virt start {}", seen.name)),
        _ => finding,
    })
}

/// virt-controller or virt-handler failed in the next action for the VMI.
pub(super) fn is_not_synchronized(seen: &Seen<'_>) -> Option<Finding> {
    let vmi = seen.vmi()?;
    let said = condition(vmi, "Synchronized", "False")?;
    let (who, what) = match seen.phase() {
        "Scheduled" => ("virt-handler", "to start the guest"),
        _ => ("virt-controller", "to create its launcher pod"),
    };
    let finding = Finding::new(format!("VM {} waits for {who} {what}, which has failed", seen.name))
        .since(said.since)
        .said(format!("{who}, {} of VMI {}", said.shown(), seen.name), said.words())
        .told(seen.warning(Kind::VirtualMachineInstance, seen.name, &[]));
    let words = said.words().to_lowercase();
    let missing = advice::missing(seen, &words);
    Some(if let Some(missing) = missing {
        finding.advise(missing)
    } else if words.contains("exceeded quota") {
        finding.advise("make room in the quota: kubectl describe resourcequota")
    } else if words.contains("podsecurity") || words.contains("privileged namespace") {
        finding.advise("permit such pods in the namespace: its label pod-security.kubernetes.io/enforce")
    } else {
        finding.advise("mend what the sentence above says; it is tried again by itself")
    })
}

/// The pod runs, and virt-handler is to start the guest.
pub(super) fn is_handed_over(seen: &Seen<'_>) -> Option<Finding> {
    let vmi = seen.vmi()?;
    let node = node(seen);
    let finding = match seen.phase() {
        "Scheduled" => {
            Finding::new(format!("VM {} waits for virt-handler on node {node} to start the guest", seen.name))
                .since(in_phase(vmi, "Scheduled"))
        }
        "Scheduling" if seen.pod.is_some() => {
            Finding::new(format!("VM {} waits for virt-controller to hand it to node {node}", seen.name))
                .since(in_phase(vmi, "Scheduling"))
        }
        _ => return None,
    };
    let finding = finding.told(seen.warning(Kind::VirtualMachineInstance, seen.name, &[]));
    let finding = match seen.node_trouble() {
        Some((name, words)) => finding.said(format!("condition Ready of Node {name}"), &words),
        None => finding,
    };
    Some(finding.advise(look_at_handler(node)))
}

/// The VMI exists, and its pod does not.
pub(super) fn has_no_pod(seen: &Seen<'_>) -> Option<Finding> {
    let vmi = seen.vmi()?;
    let says = match seen.phase() {
        "Scheduling" | "Scheduled" => {
            format!("VM {} waits for virt-controller to see that its launcher pod is gone", seen.name)
        }
        "WaitingForSync" => format!("VM {} waits for the VMI that migrates into it", seen.name),
        "Unknown" => format!("VM {} waits: nobody can tell how its guest is", seen.name),
        _ => format!("VM {} waits for virt-controller to create its launcher pod", seen.name),
    };
    let since = in_phase(vmi, seen.phase()).or_else(|| moment(vmi, "/metadata/creationTimestamp"));
    let said = ["Provisioning", "DataVolumesReady", "PodScheduled"].iter().find_map(|kind| {
        let status = if *kind == "Provisioning" { "True" } else { "False" };
        condition(vmi, kind, status)
    });
    let finding = Finding::new(says).since(since);
    let finding = match said {
        Some(said) => {
            finding.said(format!("virt-controller, {} of VMI {}", said.shown(), seen.name), said.words())
        }
        None => finding,
    };
    Some(
        finding
            .told(seen.warning(Kind::VirtualMachineInstance, seen.name, &[]))
            .advise("see whether virt-controller runs: kubectl get pods -A -l kubevirt.io=virt-controller"),
    )
}
