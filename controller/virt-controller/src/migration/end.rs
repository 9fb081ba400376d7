//! A migration that has ended: its target pod, its finalizer, and older migrations of the same VMI.

use super::outcome::{Change, Outcome};
use super::{MigrationReconcile, copied_claims, offline, phase};
use crate::vmi::{self, migrating};
use api::migration::{Phase, VirtualMachineInstanceMigration};
use api::vmi::VirtualMachineInstance;
use cluster_model::objects::{Kind, LauncherPods, Pod, World, key};
use cluster_model::plan::{Plan, Step};

/// Ended migrations of a VMI that are kept. Older ones are deleted, with their pods.
const KEPT: usize = 5;

/// The step of a migration that has ended.
pub(super) fn end(input: &MigrationReconcile<'_>) -> Outcome {
    let Some(vmi) = input.vmi else { return without_vmi(input) };
    let outcome = match input.state {
        // virt-handler may write more of its end.
        Some(state) => Outcome::default().change(Change::State(Box::new(state.clone()))),
        None => Outcome::default(),
    };
    // Behind a hand-over the VMI settles its PVCs. A VMI without this state may be the next one of that name.
    let is_open =
        input.phase == Phase::Failed && input.state.is_none() && !copied_claims::was_handed_over(input);
    let claims = copied_claims::give_up(input).filter(|_| is_open);
    let has_claims = claims.is_some();
    // It may have been handed over since.
    let outcome =
        claims.into_iter().fold(outcome, |outcome, claims| outcome.require_unchanged_vmi(vmi).and(claims));
    match left_target(input, vmi) {
        Some(pod) if may_delete(input) => {
            let name = pod.meta.name.as_deref().unwrap_or_default();
            let message = format!("Deleted migration target pod {name}");
            outcome.require_unchanged_vmi(vmi).delete(pod).event(false, "SuccessfulDelete", message)
        }
        // The source is asked to abort the migration first.
        Some(_) => outcome,
        None if has_claims => outcome,
        None if is_too_old(input) => outcome.change(Change::Release).and(delete(input, vmi)),
        None => outcome.change(Change::Release),
    }
}

/// A migration whose VMI is gone: it has no pod, and is deleted, as upstream does; an offline one whose VM exists stays.
fn without_vmi(input: &MigrationReconcile<'_>) -> Outcome {
    let is_absent = Step::RequireAbsent { key: input.vmi_key(), of: None };
    let outcome = Outcome::default().before_write(is_absent);
    // A VMI that had been handed over has settled its PVCs before it went; where its finalizers were removed by force, nothing is known.
    let claims = copied_claims::give_up(input).filter(|_| !copied_claims::was_handed_over(input));
    match claims {
        Some(claims) => outcome.and(claims),
        None if offline::stays(input) && !is_too_old(input) => outcome.change(Change::Release),
        None => outcome.change(Change::Release).after_write(deletion(input)),
    }
}

/// The target pod of a migration that has failed, where it runs still. A migration whose object was ended too early may have
/// succeeded.
fn left_target<'a>(input: &MigrationReconcile<'a>, vmi: &VirtualMachineInstance) -> Option<&'a Pod> {
    let has_arrived =
        input.state.is_some_and(|state| state.completed == Some(true) && state.failed != Some(true));
    let pod = input.pod.filter(|_| input.phase == Phase::Failed && !has_arrived);
    pod.filter(|pod| !pod.is_over() && !pod.is_going() && !is_guests(vmi, pod))
}

/// True if no guest can come to the target pod any more.
fn may_delete(input: &MigrationReconcile<'_>) -> bool {
    input.state.is_none_or(|state| state.completed == Some(true))
}

/// True for the pod that runs the guest, by the status of the VMI.
fn is_guests(vmi: &VirtualMachineInstance, pod: &Pod) -> bool {
    let uid = pod.meta.uid.as_deref().unwrap_or_default();
    LauncherPods::for_vmi(vmi).is_some_and(|pods| pods.is_guests(uid))
}

/// True if enough newer migrations of the VMI have ended.
fn is_too_old(input: &MigrationReconcile<'_>) -> bool {
    let age = |migration: &VirtualMachineInstanceMigration| {
        let meta = &migration.metadata;
        (meta.creation_timestamp.clone(), meta.uid.clone())
    };
    let own = age(input.migration);
    input.siblings().filter(|other| phase(other).is_final() && age(other) > own).count() >= KEPT
}

/// Deletes the migration with the source pod that its guest has left, or with the target pod that it did not come to.
fn delete(input: &MigrationReconcile<'_>, vmi: &VirtualMachineInstance) -> Outcome {
    let state = input.migration.status.as_ref().and_then(|status| status.migration_state.as_ref());
    let source = state.and_then(|state| state.source_pod.as_ref());
    let pod = match input.phase {
        Phase::Succeeded => source
            .and_then(|name| vmi::pods_of(input.world, vmi).find(|pod| pod.meta.name.as_ref() == Some(name))),
        _ => input.pod,
    };
    let is_needed = |pod: &Pod| {
        let current = migrating::unfinished(vmi);
        is_guests(vmi, pod)
            || current.is_some_and(|state| [&state.source_pod, &state.target_pod].contains(&&pod.meta.name))
    };
    let pod = pod.filter(|pod| pod.is_over() && !pod.is_going() && !is_needed(pod));
    let outcome = Outcome::default();
    let outcome =
        pod.into_iter().fold(outcome, |outcome, pod| outcome.require_unchanged_vmi(vmi).delete(pod));
    outcome.after_write(deletion(input))
}

fn deletion(input: &MigrationReconcile<'_>) -> Step {
    let uid = input.migration.metadata.uid.clone().unwrap_or_default();
    Step::Delete { key: input.key(), uid, version: String::new() }
}

/// Deletes the target pods of a VMI whose migrations are gone: their finalizer was taken from them.
pub(crate) fn delete_strays(world: &World, namespace: &str, name: &str) -> Plan {
    let mut plan = Plan::default();
    let Some(vmi) = world.vmis.get(namespace, name) else { return plan };
    for pod in migrating::stray_targets(world, vmi) {
        // It may have been handed over since.
        plan.require_unchanged(Kind::VirtualMachineInstance, &vmi.metadata);
        plan.delete(key(Kind::Pod, &pod.meta), &pod.meta);
    }
    plan
}
