//! A migration without a target pod: refusals, reasons to wait, and the creation of the pod.

use super::copied_claims::TargetClaims;
use super::obstacle::{Obstacle, obstacle};
use super::outcome::{Change, Outcome, waits_for};
use super::{MigrationReconcile, copied_claims, queue};
use crate::pod::MigrationTarget;
use crate::vm;
use crate::vmi::launcher_pod::{self, NO_SETTINGS, Refusal};
use api::migration::{ConditionType, Phase};
use api::vmi::VirtualMachineInstance;
use cluster_model::objects::{Attempt, Kind};
use cluster_model::plan::Step;
use jiff::SignedDuration;

/// Pause until a migration that waits for others is looked at again. The end of one of them is told at once.
const LOOKS_AGAIN: SignedDuration = SignedDuration::from_secs(60);
/// The same where the plan of another migration is being carried out.
const LOOKS_SOON: SignedDuration = SignedDuration::from_secs(1);

/// The step of a migration that has no target pod yet.
pub(super) fn pending(input: &MigrationReconcile<'_>, vmi: &VirtualMachineInstance) -> Outcome {
    let outcome = Outcome::default().phase(Phase::Pending).and(source_pod(input, vmi));
    // The pod was created, and the status was not written: the answer was lost, or the program ended.
    if input.pod.is_some() {
        return outcome.change(Change::WaitsFor(None)).phase(Phase::Scheduling);
    }
    // The finalizer is written before the pod is created.
    if !input.has_finalizer() {
        return outcome;
    }
    match obstacle(input.world, input.migration, vmi) {
        Some(Obstacle::Refused(message)) => return outcome.require_unchanged_vmi(vmi).fail(&message),
        Some(Obstacle::Waits(message)) => return outcome.wait(input, &message),
        None => {}
    }
    if let Some(message) = queue::queued(input, vmi) {
        let is_busy = input.world.busy.iter().any(|key| key.kind == Kind::VirtualMachineInstanceMigration);
        let pause = if is_busy { LOOKS_SOON } else { LOOKS_AGAIN };
        let again = input.now.checked_add(pause).unwrap_or(input.now);
        return outcome.wait(input, &message).retry_at(again);
    }
    outcome.and(create(input, vmi))
}

/// Creates the target pod, unless it was refused a moment ago.
fn create(input: &MigrationReconcile<'_>, vmi: &VirtualMachineInstance) -> Outcome {
    let meta = &input.migration.metadata;
    let target = MigrationTarget {
        uid: meta.uid.as_deref().unwrap_or_default(),
        name: meta.name.as_deref().unwrap_or_default(),
        added_node_selector: &input.migration.spec.added_node_selector,
    };
    let (whole, left) = match copied_claims::target_claims(input, vmi) {
        TargetClaims::Ready(whole, left) => (whole, left),
        TargetClaims::Missing(missing) => return create_claims(input, vmi, missing),
        TargetClaims::Waits(message) => {
            let again = input.now.checked_add(LOOKS_AGAIN).unwrap_or(input.now);
            return Outcome::default().wait(input, &message).retry_at(again);
        }
        TargetClaims::Refused(message) => {
            return Outcome::default().require_unchanged_vmi(vmi).fail(&message);
        }
    };
    let mut whole = whole;
    vm::prepare_target(input.world, &mut whole);
    let (name, create) = match launcher_pod::target_pod(input.world, &whole, target) {
        Ok(created) => created,
        Err(Refusal { reason: NO_SETTINGS, message }) => {
            let again = input.now.checked_add(LOOKS_AGAIN).unwrap_or(input.now);
            return Outcome::default().wait(input, &message).retry_at(again);
        }
        Err(Refusal { message, .. }) => {
            let message = format!("Migration failed because the target pod cannot be created: {message}");
            return Outcome::default().require_unchanged_vmi(vmi).fail(&message);
        }
    };
    if let Some(waits) = wait_after_failure(input, vmi) {
        return waits;
    }
    let without = left.map(|why| format!(", without the update of the volumes: {why}")).unwrap_or_default();
    Outcome::default()
        // A virt-controller whose Lease another one has taken over creates no pod for a migration that has gone on.
        .require_unchanged(input)
        .before_write(create)
        .change(Change::WaitsFor(None))
        .phase(Phase::Scheduling)
        .event(false, "SuccessfulCreate", format!("Created migration target pod {name}{without}"))
}

/// Creates the PVCs of the target pod. It is created when they are known.
fn create_claims(
    input: &MigrationReconcile<'_>,
    vmi: &VirtualMachineInstance,
    missing: Vec<(String, Step)>,
) -> Outcome {
    if let Some(waits) = wait_after_failure(input, vmi) {
        return waits;
    }
    let outcome = Outcome::default().require_unchanged(input).change(Change::WaitsFor(None));
    missing.into_iter().fold(outcome, |outcome, (name, create)| {
        let message = format!("Created PVC {name} for the target pod");
        outcome.before_write(create).event(false, "SuccessfulCreate", message)
    })
}

/// The pod could not be created the last time: that is written first, and tried again after a pause, since quotas are raised and webhooks
/// come back. `None` where the next try is due.
fn wait_after_failure(input: &MigrationReconcile<'_>, vmi: &VirtualMachineInstance) -> Option<Outcome> {
    let failure = input.world.failures.get(&input.key())?;
    let (what, begin) = match failure.about {
        Attempt::Make(Kind::Pod) => ("pod", "the target pod"),
        Attempt::Make(Kind::PersistentVolumeClaim) => ("PVC", "a PVC for the target pod"),
        _ => return None,
    };
    let message = format!("{begin} cannot be created: {}", failure.message);
    let mut waits = Outcome::default().change(Change::WaitsFor(Some(message.clone())));
    if failure.message.contains("exceeded quota") {
        waits = waits.change(Change::Condition(ConditionType::RejectedByResourceQuota));
    }
    let is_news = waits_for(input) != Some(&message);
    let is_written = waits.apply(input) == *input.migration;
    if is_written && failure.retry <= input.now {
        return None;
    }
    let waits = waits.retry_at(failure.retry);
    Some(match is_news {
        true => {
            waits.event_of_vmi(vmi, "FailedCreate", format!("Error creating {what}: {}", failure.message))
        }
        false => waits,
    })
}

/// The pod that runs the guest, for readers of a migration that waits.
fn source_pod(input: &MigrationReconcile<'_>, vmi: &VirtualMachineInstance) -> Outcome {
    let pod = input.world.active_pod(vmi).and_then(|pod| pod.meta.name.clone());
    pod.into_iter().fold(Outcome::default(), |outcome, name| outcome.change(Change::SourcePod(name)))
}
