//! PVCs that no other node can use at the same time: their disks are copied into new PVCs with the guest's memory.
//!
//! ```text
//!  before the target pod    the new PVCs are created, owned by the migration
//!  hand-over                they get their lasting owner; the old ones get `moving-to` and `moving-by`; the VMI
//!                           `status.migratedVolumes`
//!  from then on             `vmi::moved_claims` decides by the status of the VMI
//!  failure before           the new PVCs are deleted, and the annotation is removed
//! ```
//!
//! PVCs that the VM names (`volume_update`) are used in place of new ones: they get no owner, and are never deleted.
//!
//! **Guarantees.** The steps of the hand-over come before the VMI is written, and each requires that its PVC is unchanged: a PVC that
//! is being deleted takes no guest.

use super::MigrationReconcile;
use super::obstacle::Obstacle;
use super::outcome::Outcome;
use crate::vmi::{self, CopiedClaim, claim_info};
use api::migration::Phase;
use api::vmi::{ClaimInfo, MigratedVolume, VirtualMachineInstance};
use cluster_model::claim_moves::{self, COPIED_INTO, MOVING_BY, MOVING_TO};
use cluster_model::objects::{Key, Kind, PersistentVolumeClaim, World, key, owner};
use cluster_model::plan::Step;
use serde_json::{Value, json};

/// PVCs of the target pod.
pub(super) enum TargetClaims {
    /// All exist. The VMI as the target has it.
    Ready(Box<VirtualMachineInstance>),
    /// PVCs that are missing: their names, and the steps that create them.
    Missing(Vec<(String, Step)>),
    Refused(String),
    Waits(String),
}

/// The PVCs of the target pod of a migration.
pub(super) fn target_claims(input: &MigrationReconcile<'_>, vmi: &VirtualMachineInstance) -> TargetClaims {
    let (mut migrated, mut absent) = (Vec::new(), Vec::new());
    let found = match vmi::copied_claims(input.world, vmi) {
        Ok(found) => found,
        Err(message) => return TargetClaims::Refused(refusal(&message)),
    };
    let is_named = found.iter().any(|copied| copied.destination.is_some());
    for CopiedClaim { volume, source, destination } in found {
        let Some(target) = target(input, source, destination.as_deref()) else { continue };
        let is_other = |new: &str| new != target.name;
        if source.moved_to().is_some() || source.moving_to().is_some_and(is_other) {
            return TargetClaims::Refused(claim_moves::moved_message(source).unwrap_or_default());
        }
        match input.world.pvcs.get(&target.namespace, &target.name) {
            Some(claim) => match unusable(input, claim, destination.is_some()) {
                Some(message) => return TargetClaims::Refused(message),
                None => migrated.push(migrated_volume(input.world, volume, source, claim)),
            },
            None if destination.is_some() => {
                return TargetClaims::Waits(missing(&target.name, &volume));
            }
            None => {
                let vm = vmi::vm_uid(input.world, vmi);
                let object = claim_moves::object(&input.migration.metadata, source, &target, vm);
                absent.push((target.name.clone(), Step::Create { key: target, object }));
            }
        }
    }
    if !absent.is_empty() {
        return TargetClaims::Missing(absent);
    }
    let target = with_destinations(vmi, &migrated);
    match is_named.then(|| vmi::wait_for_disks(input.world, &target)).flatten() {
        Some(message) => TargetClaims::Waits(message),
        None => TargetClaims::Ready(Box::new(target)),
    }
}

/// The reason why a migration of the VMI waits for PVCs that its VM names.
pub(super) fn wait_for_named(world: &World, vmi: &VirtualMachineInstance) -> Option<String> {
    let volumes = vmi::volume_update::of_vmi(world, vmi);
    let namespace = vmi.metadata.namespace.as_deref().unwrap_or_default();
    for volume in &volumes {
        let name = volume.destination()?;
        if world.pvcs.get(namespace, name).is_none() {
            return Some(missing(name, &volume.volume_name));
        }
    }
    (!volumes.is_empty()).then(|| vmi::wait_for_disks(world, &with_destinations(vmi, &volumes))).flatten()
}

fn missing(claim: &str, volume: &str) -> String {
    format!("PVC {claim} for the disk {volume} does not exist")
}

/// The VMI as the target has it.
fn with_destinations(vmi: &VirtualMachineInstance, migrated: &[MigratedVolume]) -> VirtualMachineInstance {
    let mut target = vmi.clone();
    for volume in migrated {
        volume.replace_claim(&mut target.spec.volumes);
    }
    target
}

/// The PVC that the disk of another one is copied into.
fn target(
    input: &MigrationReconcile<'_>,
    source: &PersistentVolumeClaim,
    named: Option<&str>,
) -> Option<Key> {
    match named {
        Some(name) => Some(Key::new(Kind::PersistentVolumeClaim, source.meta.namespace.clone()?, name)),
        None => claim_moves::target(&input.migration.metadata, source),
    }
}

/// Steps before the hand-over, and the volumes that are copied.
pub(super) fn hand_over(
    input: &MigrationReconcile<'_>,
    vmi: &VirtualMachineInstance,
) -> Result<(Vec<Step>, Vec<MigratedVolume>), Obstacle> {
    let (mut steps, mut migrated, mut is_named) = (Vec::new(), Vec::new(), false);
    let found =
        vmi::copied_claims(input.world, vmi).map_err(|message| Obstacle::Refused(refusal(&message)))?;
    for CopiedClaim { volume, source, destination } in found {
        let Some(target) = target(input, source, destination.as_deref()) else { continue };
        let Some(claim) = input.world.pvcs.get(&target.namespace, &target.name) else {
            let message =
                format!("PVC {target} for the disk {volume} does not exist any more", target = target.name);
            return Err(Obstacle::Refused(message));
        };
        if let Some(message) = unusable(input, claim, destination.is_some()) {
            return Err(Obstacle::Refused(message));
        }
        if !claim.is_bound() {
            return Err(Obstacle::Waits(format!(
                "PVC {} for the disk {volume} has no volume yet",
                target.name
            )));
        }
        if destination.is_some() {
            // Of two VMs that name the PVC, one writes this first.
            let vm = vmi::vm_uid(input.world, vmi);
            if !claim.is_copied_for(vm) {
                steps.push(annotate(claim, &json!({COPIED_INTO: vm})));
            }
        } else {
            steps.extend(own(claim, claim_moves::lasting_owner(input.world, source).as_ref()));
        }
        let uid = input.migration.metadata.uid.as_deref();
        if source.moving_to() != Some(&target.name) || source.moving_by() != uid {
            steps.push(annotate(source, &json!({MOVING_TO: target.name, MOVING_BY: uid})));
        }
        is_named |= destination.is_some();
        migrated.push(migrated_volume(input.world, volume, source, claim));
    }
    let wait = || vmi::wait_for_disks(input.world, &with_destinations(vmi, &migrated));
    match is_named.then(wait).flatten() {
        Some(message) => Err(Obstacle::Waits(message)),
        None => Ok((steps, migrated)),
    }
}

/// Deletes the new PVCs of a migration that was not handed over, and lets the old ones be used. `None` where there are none.
pub(super) fn give_up(input: &MigrationReconcile<'_>) -> Option<Outcome> {
    let uid = input.migration.metadata.uid.as_deref()?;
    let steps: Vec<Step> = claim_moves::targets_of(input.world, uid)
        .flat_map(|claim| vmi::abandon(input.world, claim))
        .chain(unused_moves(input))
        .collect();
    (!steps.is_empty()).then(|| steps.into_iter().fold(Outcome::default(), Outcome::after_write))
}

/// Steps that free the sources of an update of volumes whose hand-over this migration has written in part. The annotations of another
/// migration of the VMI stay: its result may not be known.
fn unused_moves(input: &MigrationReconcile<'_>) -> Vec<Step> {
    let uid = input.migration.metadata.uid.as_deref();
    let is_handed_over = |vmi: &VirtualMachineInstance| {
        vmi.status.as_ref().is_some_and(|status| !status.migrated_volumes.is_empty())
    };
    let Some(vmi) = input.vmi.filter(|vmi| !is_handed_over(vmi)) else { return Vec::new() };
    let vm = vmi::vm_of(input.world, vmi);
    let volumes = vm.map(vmi::volume_update::recorded).unwrap_or_default();
    let namespace = vmi.metadata.namespace.as_deref().unwrap_or_default();
    let free = |volume: &MigratedVolume| {
        let (source, destination) = (volume.source()?, volume.destination()?);
        let claim = input.world.pvcs.get(namespace, source)?;
        let is_own =
            claim.moving_to() == Some(destination) && claim.moving_by() == uid && claim.moved_to().is_none();
        let key = Key::new(Kind::PersistentVolumeClaim, namespace, source);
        is_own.then(|| vmi::free(input.world, &key, destination)).flatten()
    };
    volumes.iter().filter_map(free).collect()
}

/// True if the VMI was handed over to this migration at some time.
pub(super) fn was_handed_over(input: &MigrationReconcile<'_>) -> bool {
    let status = input.migration.status.as_ref();
    let mut steps = status.into_iter().flat_map(|status| &status.phase_transition_timestamps);
    steps.any(|step| step.phase == Some(Phase::PreparingTarget))
}

/// The failure of a migration whose VMI has a disk that cannot be copied.
fn refusal(message: &str) -> String {
    format!("Cannot migrate VMI: {message}")
}

/// The reason why a PVC with the name of a new one is not used.
fn unusable(input: &MigrationReconcile<'_>, claim: &PersistentVolumeClaim, is_named: bool) -> Option<String> {
    let name = claim.meta.name.as_deref().unwrap_or_default();
    if !is_named && claim.moved_by() != input.migration.metadata.uid.as_deref() {
        return Some(format!(
            "Cannot migrate VMI: PVC {name} exists, and was not created for this migration: delete it"
        ));
    }
    let is_going = claim.meta.deletion_timestamp.is_some();
    is_going.then(|| format!("Cannot migrate VMI: PVC {name}, which a disk is copied into, is being deleted"))
}

fn migrated_volume(
    world: &World,
    volume_name: String,
    source: &PersistentVolumeClaim,
    target: &PersistentVolumeClaim,
) -> MigratedVolume {
    let info = |claim: &PersistentVolumeClaim| {
        let name = claim.meta.name.as_deref().unwrap_or_default();
        Some(claim_info(world, name, claim, &ClaimInfo::default()))
    };
    MigratedVolume {
        volume_name,
        source_pvc_info: info(source),
        destination_pvc_info: info(target),
        ..MigratedVolume::default()
    }
}

/// Gives a new PVC its lasting owner in place of the migration. A PVC that was deleted with the migration meanwhile is another
/// version.
fn own(claim: &PersistentVolumeClaim, wanted: Option<&api::meta::OwnerReference>) -> Option<Step> {
    if owner::controller(&claim.meta) == wanted {
        return None;
    }
    let owners = wanted.map_or(Value::Null, |owner| json!([api::wire::Wire::write(owner)]));
    Some(patch(claim, json!({"metadata": {"ownerReferences": owners}})))
}

fn annotate(claim: &PersistentVolumeClaim, annotations: &Value) -> Step {
    patch(claim, json!({"metadata": {"annotations": annotations}}))
}

/// Changes a PVC that is the same as at the decision.
fn patch(claim: &PersistentVolumeClaim, change: Value) -> Step {
    let version = claim.meta.resource_version.clone().unwrap_or_default();
    let key: Key = key(Kind::PersistentVolumeClaim, &claim.meta);
    Step::Patch { key, version, change, part: None }
}
