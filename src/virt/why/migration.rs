//! Rules about the live migration of the VMI: what it waits for, and how far it is.
//!
//! ```text
//!  VirtualMachineInstanceMigration: phase, conditions ─┐
//!  status.migrationState of the VMI: nodes, progress ──┼─► Finding
//!  the target pod: scheduler and kubelet ──────────────┘
//! ```

use super::finding::RuleContext;
use super::vmi::{look_at_handler, node};
use super::{Finding, Quote, pod, volume_patch};
use crate::virt::json::{annotation_text, condition, list, moment, name, phase, text};
use api::migration::Phase;
use api::quantity::Quantity;
use cdi::size::human;
use cluster_model::objects::{Kind, MIGRATION_JOB, PENDING_REASON};
use jiff::Timestamp;
use serde_json::Value;

const KIND: Kind = Kind::VirtualMachineInstanceMigration;
/// Label of the migrations of an update of volumes.
const VOLUME_UPDATE: &str = "kubevirt.io/volume-update-migration";
/// Reason of a migration that was cancelled before its guest was sent, as virt-controller writes it.
const CANCELED: &str = "Migration failed due to being canceled";

/// Conditions of a migration that waits, with the cause and advice.
const BLOCKED: [(&str, &str, &str); 3] = [
    (
        "migrationRejectedByResourceQuota",
        "room in a ResourceQuota of the namespace, for its target pod",
        "free what other pods use, or raise the quota: kubectl describe resourcequota",
    ),
    ("migrationBlockedByBackup", "the end of a backup of the VM", ""),
    ("migrationBlockedByUtilityVolumes", "utility volumes of the VMI to be detached", ""),
];

/// The VMI migrates to another node, or is to.
pub(super) fn migrates(context: &RuleContext<'_>) -> Option<Finding> {
    let vmi = context.vmi()?;
    if matches!(context.phase(), "Succeeded" | "Failed") {
        return None;
    }
    let state = vmi.pointer("/status/migrationState").filter(|state| state.is_object());
    let active = context.facts.migrations.iter().find(|one| !Phase::from(phase(one)).is_final());
    let Some(migration) = active else { return unfinished(context, state?) };
    // A state that is left over from an earlier migration says nothing about this one.
    let uid = text(migration, "/metadata/uid");
    let state = state.filter(|state| text(state, "/migrationUid") == uid).unwrap_or(&Value::Null);
    if is(state, "/completed") {
        return None;
    }
    let about = Migration { context, migration, state };
    let finding = about.finding();
    let finding = finding.quote_event(context.warning(KIND, name(migration), &[]));
    // A warning of an earlier migration does not explain this one.
    let begin = moment(migration, "/metadata/creationTimestamp");
    let warning = context.warning(Kind::VirtualMachineInstance, context.name, &[]);
    Some(finding.quote_event(warning.filter(|event| event.when.is_none() || event.when >= begin)))
}

/// An offline migration whose VMI without a guest does not exist yet.
pub(super) fn waits_offline(context: &RuleContext<'_>) -> Option<Finding> {
    let is_waiting = |one: &&Value| is(one, "/spec/offline") && !Phase::from(phase(one)).is_final();
    let migration = context.facts.migrations.iter().find(is_waiting)?;
    let finding = Migration { context, migration, state: &Value::Null }.finding();
    Some(finding.quote_event(context.warning(KIND, name(migration), &[])))
}

/// End of a migration that did not succeed.
pub(super) enum MigrationEnd {
    /// The reason.
    Failed(Quote),
    Cancelled,
}

impl MigrationEnd {
    pub(super) fn word(&self) -> &'static str {
        match self {
            MigrationEnd::Failed(_) => "failed",
            MigrationEnd::Cancelled => "was cancelled",
        }
    }

    /// The reason, of one that was not cancelled.
    pub(super) fn failure(self) -> Option<Quote> {
        match self {
            MigrationEnd::Failed(quote) => Some(quote),
            MigrationEnd::Cancelled => None,
        }
    }
}

/// End of the last migration, if that did not succeed.
pub(super) fn last_end(context: &RuleContext<'_>) -> Option<MigrationEnd> {
    let end = |kind: Kind, object: &Value| {
        let state = object.pointer("/status/migrationState").unwrap_or(&Value::Null);
        let reason = text(state, "/failureReason").unwrap_or("no reason is known");
        let aborts = is(state, "/abortRequested") && text(state, "/abortStatus") != Some("Failed");
        if aborts || text(state, "/abortStatus") == Some("Succeeded") || reason == CANCELED {
            return MigrationEnd::Cancelled;
        }
        let source = format!("status.migrationState.failureReason of {kind} {}", name(object));
        MigrationEnd::Failed(Quote::new(source, reason))
    };
    // The state of the VMI is that of the last one that was handed over.
    if let Some(migration) = context.facts.migrations.first() {
        let has_failed = Phase::from(phase(migration)) == Phase::Failed;
        return has_failed.then(|| end(KIND, migration));
    }
    let vmi = context.vmi()?;
    is(vmi, "/status/migrationState/failed").then(|| end(Kind::VirtualMachineInstance, vmi))
}

/// Reason of the last migration, if that failed and was not cancelled.
pub(super) fn last_failure(context: &RuleContext<'_>) -> Option<Quote> {
    last_end(context)?.failure()
}

/// End of the last migration of a VM that is off, if that moved its disks and did not succeed.
pub(super) fn last_offline_end(context: &RuleContext<'_>) -> Option<MigrationEnd> {
    let last = context.facts.migrations.first()?;
    if is(last, "/spec/offline") { last_end(context) } else { None }
}

/// Advice to take an update of the volumes back.
pub(super) fn cancel_update(context: &RuleContext<'_>) -> String {
    let what = "to take the update of the volumes back, name the PVCs of before in the VM. Its migration ends by that; if the migration \
                is cancelled alone, another one begins";
    volume_patch::of_disks(context, what).unwrap_or_else(|| what.to_owned())
}

/// A migration in the status of the VMI, whose own object has gone or cannot be read.
fn unfinished(context: &RuleContext<'_>, state: &Value) -> Option<Finding> {
    if is(state, "/completed") {
        return None;
    }
    let migration = &Value::Null;
    let finding = Migration { context, migration, state }.running();
    Some(finding.quote_event(context.warning(Kind::VirtualMachineInstance, context.name, &[])))
}

/// A migration that has not ended.
#[derive(Clone, Copy)]
struct Migration<'c, 'a> {
    context: &'c RuleContext<'a>,
    migration: &'a Value,
    /// `status.migrationState` of the VMI, if it is about this migration.
    state: &'a Value,
}

impl Migration<'_, '_> {
    fn finding(&self) -> Finding {
        let deleted = moment(self.migration, "/metadata/deletionTimestamp");
        if deleted.is_some() || is(self.state, "/abortRequested") {
            let says = format!("{} {} is being cancelled", self.subject(), name(self.migration));
            return Finding::new(says).since(deleted);
        }
        let (source, target) = (node(self.context), self.target());
        match Phase::from(phase(self.migration)) {
            Phase::Running => self.running(),
            Phase::Scheduled => self.waits(format!("virt-controller to hand the VMI over to {target}")),
            Phase::PreparingTarget => self
                .waits(format!("virt-handler to prepare {target}"))
                .advise(look_at_handler(text(self.state, "/targetNode").unwrap_or("NODE"))),
            Phase::TargetReady => self
                .waits(match self.is_offline() {
                    true => format!("virt-handler on node {source} to send the disks to {target}"),
                    false => format!("virt-handler on node {source} to send the guest to {target}"),
                })
                .advise(look_at_handler(source)),
            Phase::Scheduling => self.target_pod(),
            Phase::Pending
            | Phase::Succeeded
            | Phase::Failed
            | Phase::WaitingForSync
            | Phase::Synchronizing
            | Phase::Other(_) => self.pending(),
        }
    }

    /// The migration has no target pod yet.
    fn pending(&self) -> Finding {
        let blocked = BLOCKED.iter().find_map(|(kind, cause, advice)| {
            Some((condition(self.migration, kind, "True")?, cause, advice))
        });
        if let Some((said, cause, advice)) = blocked {
            let finding = self.waits(cause).since(said.since);
            let finding = finding.quote([said.quote("virt-controller, ", KIND, name(self.migration))]);
            return if advice.is_empty() { finding } else { finding.advise(*advice) };
        }
        if phase(self.migration).is_empty() {
            let advice =
                "see whether virt-controller runs: kubectl get pods -A -l kubevirt.io=virt-controller";
            return self.waits("virt-controller, which has not looked at it yet").advise(advice);
        }
        let finding = match self.pending_reason() {
            Some(quote) => self.waits("virt-controller, which has not created its target pod").quote([quote]),
            None => self.waits("its turn"),
        };
        finding.advise("see which migrations go on: kubectl get vmim -A")
    }

    fn pending_reason(&self) -> Option<Quote> {
        let source =
            format!("virt-controller, annotation {PENDING_REASON} of {KIND} {}", name(self.migration));
        annotation_text(self.migration, PENDING_REASON).map(|text| Quote::new(source, text))
    }

    /// The target pod does not run yet: the scheduler or the kubelet says why.
    fn target_pod(&self) -> Finding {
        let Some(target) = self.pod() else {
            return self.waits("its target pod").quote(self.pending_reason());
        };
        let RuleContext { facts, now, name: vm, .. } = *self.context;
        let of_target = RuleContext { facts, now, name: vm, pod: Some(target) };
        let rules = [pod::has_ended, pod::is_not_scheduled, pod::container_waits, pod::begins];
        let Some(found) = rules.iter().find_map(|rule| rule(&of_target)) else {
            return self.waits(format!("virt-controller to see that its target pod {} runs", name(target)));
        };
        let added = self.added_labels().filter(|_| text(target, "/spec/nodeName").is_none());
        let cause = found.says.strip_prefix(&format!("VM {vm} waits for ")).map(str::to_owned);
        let cause = cause.unwrap_or_else(|| format!("its target pod {}", name(target)));
        let advice = found.advice;
        let finding = self.waits(cause).since(found.since).quote(found.quotes);
        // The advice about the cause comes before that to cancel.
        let added = added.into_iter().collect();
        Finding { advice: [added, advice, finding.advice].concat(), ..finding }
    }

    /// Advice about the labels of `addedNodeSelector`, which the target node must have beside those that the VM asks for.
    fn added_labels(&self) -> Option<String> {
        let labels = self.migration.pointer("/spec/addedNodeSelector")?.as_object()?;
        let labels: Vec<String> = labels
            .iter()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        let labels = labels.join(",");
        (!labels.is_empty()).then(|| {
            format!("spec.addedNodeSelector of the migration asks for a node with {labels}: kubectl get nodes -l '{labels}'")
        })
    }

    /// The guest is being copied.
    fn running(&self) -> Finding {
        let context = self.context;
        let target = text(self.state, "/targetNode").unwrap_or("another node");
        let goes = if self.is_offline() { "is off, and its disks move" } else { "runs, and migrates" };
        let says = format!("VM {} {goes} from node {} to {target}", context.name, node(context));
        let progress = self.progress();
        let says = if progress.is_empty() { says } else { format!("{says}: {}", progress.join(", ")) };
        Finding::new(says).since(moment(self.state, "/startTimestamp").or(self.since())).advise(self.cancel())
    }

    /// Numbers of a migration that runs, as its source has told them last.
    fn progress(&self) -> Vec<String> {
        let number = |field: &str| self.state.pointer("/progress")?.get(field)?.as_u64();
        let rate = |bytes: u64| format!("{}/s", human(bytes));
        let sent = number("percent").map(|percent| match number("totalBytes") {
            Some(total) => format!("{percent}% of {} sent", human(total)),
            None => format!("{percent}% sent"),
        });
        let left = number("remainingBytes").map(|bytes| format!("{} remain", human(bytes)));
        let speed = number("bytesPerSecond").map(rate);
        let dirty = number("dirtyBytesPerSecond").filter(|bytes| *bytes > 0);
        let dirty = dirty.map(|bytes| format!("the guest writes {}", rate(bytes)));
        let mode = match text(self.state, "/mode") {
            Some("PostCopy") => Some("post-copy: the guest runs on the target already".to_owned()),
            Some("Paused") => Some("the guest is paused until all is sent".to_owned()),
            _ => None,
        };
        let limit = text(self.state, "/migrationConfiguration/bandwidthPerMigration");
        let limit = limit.and_then(|limit| Quantity::parse(limit).ok()?.bytes()).filter(|bytes| *bytes > 0);
        let limit = limit.map(|bytes| format!("at most {}", rate(bytes)));
        let policy =
            text(self.state, "/migrationPolicyName").map(|name| format!("by MigrationPolicy {name}"));
        [sent, left, speed, dirty, mode, limit, policy].into_iter().flatten().collect()
    }

    fn waits(&self, cause: impl AsRef<str>) -> Finding {
        let says = format!("{} {} waits for {}", self.subject(), name(self.migration), cause.as_ref());
        Finding::new(says).since(self.since()).advise(self.cancel())
    }

    fn is_offline(&self) -> bool {
        is(self.migration, "/spec/offline") || self.context.facts.has_carrier()
    }

    /// Beginning of a sentence about the migration.
    fn subject(&self) -> String {
        match self.is_offline() {
            true => format!("VM {} is off, and its offline migration", self.context.name),
            false => format!("VM {} runs, and its migration", self.context.name),
        }
    }

    /// Start of the present phase, or of the migration.
    fn since(&self) -> Option<Timestamp> {
        let entries = list(self.migration, "/status/phaseTransitionTimestamps");
        let of_phase = entries
            .filter(|entry| text(entry, "/phase") == Some(phase(self.migration)))
            .filter_map(|entry| moment(entry, "/phaseTransitionTimestamp"));
        of_phase.max().or(moment(self.migration, "/metadata/creationTimestamp"))
    }

    fn cancel(&self) -> String {
        let labels = self.migration.pointer("/metadata/labels");
        if labels.is_some_and(|labels| labels.get(VOLUME_UPDATE).is_some()) {
            return cancel_update(self.context);
        }
        format!("to cancel the migration: $virt migrate-cancel {}", self.context.name)
    }

    fn target(&self) -> String {
        let of_pod = || text(self.pod()?, "/spec/nodeName");
        let node = text(self.state, "/targetNode").or_else(of_pod);
        node.map_or_else(|| "the target node".to_owned(), |node| format!("node {node}"))
    }

    fn pod(&self) -> Option<&Value> {
        let uid = text(self.migration, "/metadata/uid")?;
        let job =
            |pod: &Value| pod.pointer("/metadata/labels")?.get(MIGRATION_JOB)?.as_str().map(str::to_owned);
        self.context.facts.pods.iter().find(|pod| job(pod).as_deref() == Some(uid))
    }
}

fn is(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_bool) == Some(true)
}
