//! PVCs whose disks a live migration copies: the guest's PVCs change with its node, in the same write.
//!
//! | the migration | the old PVC | the new PVC | `spec.volumes` |
//! |---|---|---|---|
//! | goes on | `moving-to` | label of the migration | the old PVC |
//! | the guest has arrived | `moved-to` | no label | the new PVC |
//! | the guest has stayed | no annotation | deleted | the old PVC |
//! | the result is not known | `moving-to`, and an event for people | no label | the old PVC |
//!
//! `status.migratedVolumes` of the VMI stays until all of that is written; then its VM has the new names, too (`vm::moved`). Until then
//! the VMI is not let go.
//!
//! **Guarantees.** The annotation of an arrival is written before the VMI is, and nothing of a failure before the VMI has failed: a
//! virt-controller that is killed between two writes finds what is left to do in the VMI.

use super::outcome::{Change, Outcome};
use super::{VmiReconcile, key_of, vm_of, vm_uid, volume_update};
use crate::template;
use api::vmi::{MigratedVolume, VirtualMachineInstance};
use cluster_model::claim_moves::{
    self, COPIED_INTO, ClaimReference, MOVED_TO, MOVING_BY, MOVING_TO, RECOVERY,
};
use cluster_model::objects::{
    Attempt, Key, Kind, MIGRATION_JOB, MIGRATION_NAME, PersistentVolumeClaim, World, key,
};
use cluster_model::plan::Step;
use serde_json::{Map, Value, json};

/// Event of a VMI whose guest runs on other PVCs now.
const MOVED: &str = "VolumesMoved";

/// Event of a VMI whose new PVC cannot be deleted.
const NOT_DELETED: &str = "FailedDelete";

/// Volumes of a VMI that migrate, or have migrated, and are not settled.
pub(super) fn migrated(vmi: &VirtualMachineInstance) -> &[MigratedVolume] {
    vmi.status.as_ref().map_or(&[], |status| &status.migrated_volumes)
}

/// The guest runs on the new PVCs.
pub(super) fn arrive(input: &VmiReconcile<'_>) -> Outcome {
    let world = input.world;
    let mut outcome = Outcome::default();
    for volume in migrated(input.vmi) {
        let (Some(source), Some(target)) =
            (claim(input, volume.source()), claim(input, volume.destination()))
        else {
            continue;
        };
        // A PVC that is gone has nothing to protect.
        if world.pvcs.get(&source.namespace, &source.name).is_some() {
            let arrived = json!({MOVING_TO: null, MOVING_BY: null, MOVED_TO: target.name});
            outcome = outcome.before_write(annotate(&source, &arrived));
        }
        outcome = keep(world, &target).into_iter().fold(outcome, Outcome::before_write);
        outcome = settle_named(input, &source, &target).into_iter().fold(outcome, Outcome::before_write);
        let message = format!(
            "The disk {} is on PVC {} now. PVC {} is kept as it was: delete it when it is not needed (kubectl delete pvc -n {} {}), which waits \
             until the launcher pod of the source is gone",
            volume.volume_name, target.name, source.name, source.namespace, source.name
        );
        outcome = outcome.event(false, MOVED, message);
    }
    if migrated(input.vmi).is_empty() {
        return outcome;
    }
    // The VM gets the same names, which a restart would not change. The PVCs of an update that follows
    // this migration are no change, either.
    if let Some(vm) = vm_of(input.world, input.vmi) {
        let mut left = volume_update::open_changes(world, vm, input.vmi);
        left.retain(|volume| migrated(input.vmi).iter().all(|one| one.destination() != volume.destination()));
        let mut next = volume_update::before(vm, input.vmi, &left);
        let is_known =
            !template::is_outdated(&volume_update::before(&next, input.vmi, migrated(input.vmi)), input.vmi);
        template::replace_claims(&mut next, migrated(input.vmi));
        outcome = match is_known {
            true => outcome.change(Change::TemplateSum(template::sum(&next))),
            false => outcome,
        };
    }
    // A VM that names a DataVolume has it in its VMI, too.
    let vm = vm_of(input.world, input.vmi);
    let own = vm.map(|vm| volume_update::destinations(vm, migrated(input.vmi))).unwrap_or_default();
    outcome.change(Change::ReplaceClaims(own))
}

/// A PVC that the VM itself has named is whole from the arrival on, and says whose disk it has.
fn settle_named(input: &VmiReconcile<'_>, source: &Key, target: &Key) -> Option<Step> {
    let pvcs = &input.world.pvcs;
    let claim = pvcs.get(&target.namespace, &target.name).filter(|claim| claim.moved_by().is_none())?;
    let mut changes = Map::new();
    if let Some(source) = pvcs.get(&source.namespace, &source.name) {
        for (name, value) in claim_moves::origin_notes(source, vm_uid(input.world, input.vmi)) {
            if claim.meta.annotations.get(name).map(String::as_str) != value {
                changes.insert(name.to_owned(), json!(value));
            }
        }
    }
    if claim.copied_into_by().is_some() {
        changes.insert(COPIED_INTO.to_owned(), Value::Null);
    }
    (!changes.is_empty()).then(|| annotate(target, &Value::Object(changes)))
}

/// No program knows whether the guest has run on the new PVCs: a person decides.
pub(super) fn lose(input: &VmiReconcile<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    for volume in migrated(input.vmi) {
        let source = claim(input, volume.source());
        let source = source.and_then(|key| input.world.pvcs.get(&key.namespace, &key.name));
        let message = source.and_then(|claim| {
            let name = claim.meta.name.as_deref().unwrap_or_default();
            claim_moves::moved_message(claim, ClaimReference::of_vmi(input.vmi, name))
        });
        outcome =
            message.into_iter().fold(outcome, |outcome, message| outcome.event(true, RECOVERY, message));
        let target = claim(input, volume.destination()).and_then(|target| keep(input.world, &target));
        outcome = target.into_iter().fold(outcome, Outcome::before_write);
    }
    match migrated(input.vmi).is_empty() {
        true => outcome,
        false => outcome.change(Change::NoMigratedVolumes),
    }
}

/// Removes the label by which a new PVC may be deleted.
fn keep(world: &World, target: &Key) -> Option<Step> {
    world.pvcs.get(&target.namespace, &target.name)?.moved_by()?;
    let metadata = json!({"labels": {MIGRATION_JOB: null}, "annotations": {MIGRATION_NAME: null}});
    Some(patch(target, json!({"metadata": metadata})))
}

/// Settles the PVCs of a migration that has ended, by the VMI as it will be.
pub(super) fn settle(input: &VmiReconcile<'_>, next: &VirtualMachineInstance) -> Outcome {
    let outcome = Outcome::default();
    let state = next.status.as_ref().and_then(|status| status.migration_state.as_ref());
    let has_ended = state.is_none_or(|state| state.completed == Some(true));
    if migrated(next).is_empty() || !has_ended {
        return outcome;
    }
    if migrated(next).iter().any(|volume| volume.has_destination(&next.spec.volumes)) {
        // Its VM settles it (`vm::moved`).
        return match vm_of(input.world, input.vmi) {
            Some(_) => outcome,
            None => outcome.change(Change::NoMigratedVolumes),
        };
    }
    let (mut steps, mut left) = (Vec::new(), Vec::new());
    for volume in migrated(next) {
        let (Some(source), Some(target)) =
            (claim(input, volume.source()), claim(input, volume.destination()))
        else {
            continue;
        };
        steps.extend(free(input.world, &source, &target.name));
        let made = input.world.pvcs.get(&target.namespace, &target.name);
        left.extend(
            made.filter(|claim| claim.moved_by().is_some()).and_then(|claim| Some((target, delete(claim)?))),
        );
    }
    // What cannot be deleted must not keep the VMI from ending.
    let failure = input.world.failures.get(&key_of(input.vmi));
    let refused = failure.filter(|failure| failure.about == Attempt::Delete(Kind::PersistentVolumeClaim));
    if let Some(failure) = refused.filter(|_| steps.is_empty()) {
        let outcome = left.into_iter().fold(outcome, |outcome, (Key { namespace, name, .. }, _)| {
            let message = format!(
                "PVC {name}, which a live migration that failed has made, cannot be deleted: {}; delete it when that is mended \
                 (kubectl delete pvc -n {namespace} {name})",
                failure.message
            );
            outcome.event(true, NOT_DELETED, message)
        });
        return outcome.change(Change::NoMigratedVolumes);
    }
    steps.extend(left.into_iter().map(|(_, delete)| delete));
    match steps.is_empty() {
        true => outcome.change(Change::NoMigratedVolumes),
        false => steps.into_iter().fold(outcome, Outcome::after_write),
    }
}

/// Deletes a new PVC, and lets the old one be used.
pub(crate) fn abandon(world: &World, target: &PersistentVolumeClaim) -> Vec<Step> {
    let namespace = target.meta.namespace.clone().unwrap_or_default();
    let source = target.moved_from().map(|name| Key::new(Kind::PersistentVolumeClaim, namespace, name));
    let name = target.meta.name.as_deref().unwrap_or_default();
    source.and_then(|source| free(world, &source, name)).into_iter().chain(delete(target)).collect()
}

/// Removes the annotations of an old PVC that lead to a new one, and that are the same as at the decision: another migration may have
/// written its own meanwhile.
pub(crate) fn free(world: &World, source: &Key, target: &str) -> Option<Step> {
    let claim = world.pvcs.get(&source.namespace, &source.name)?;
    let is_its = [claim.moving_to(), claim.moved_to()].contains(&Some(target));
    let change = json!({"metadata": {"annotations": {MOVING_TO: null, MOVING_BY: null, MOVED_TO: null}}});
    let version = claim.meta.resource_version.clone().unwrap_or_default();
    is_its.then(|| Step::Patch { key: source.clone(), version, change, part: None })
}

/// Deletes a new PVC that is the same as at the decision: not one that the guest has arrived on meanwhile.
fn delete(claim: &PersistentVolumeClaim) -> Option<Step> {
    if claim.meta.deletion_timestamp.is_some() {
        return None;
    }
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (uid, version) = (text(&claim.meta.uid), text(&claim.meta.resource_version));
    Some(Step::Delete { key: key(Kind::PersistentVolumeClaim, &claim.meta), uid, version })
}

fn claim(input: &VmiReconcile<'_>, name: Option<&str>) -> Option<Key> {
    let namespace = input.vmi.metadata.namespace.clone()?;
    Some(Key::new(Kind::PersistentVolumeClaim, namespace, name?))
}

fn annotate(claim: &Key, annotations: &Value) -> Step {
    patch(claim, json!({"metadata": {"annotations": annotations}}))
}

/// Changes fields of a PVC that no other program writes.
fn patch(claim: &Key, change: Value) -> Step {
    Step::Patch { key: claim.clone(), version: String::new(), change, part: None }
}
