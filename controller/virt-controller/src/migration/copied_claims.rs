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
//! PVCs that the VM names (`volume_update`) are used in place of new ones: they get no owner, and are never deleted. A VMI that must leave
//! its node does not wait for them: it leaves with the PVCs that it has, and a later migration takes the update along. From the creation of
//! the target pod on its volumes say which.
//!
//! **Guarantees.** The steps of the hand-over come before the VMI is written, and each requires that its PVC is unchanged: a PVC that
//! is being deleted takes no guest.

use super::MigrationReconcile;
use super::automatic::{VOLUME_UPDATE, leaves};
use super::obstacle::Obstacle;
use super::outcome::Outcome;
use crate::vmi::volume_update::VolumeUpdate;
use crate::vmi::{self, CopiedClaim, claim_info};
use api::migration::Phase;
use api::vmi::{ClaimInfo, MigratedVolume, VirtualMachineInstance};
use cluster_model::claim_moves::{self, COPIED_INTO, ClaimReference, MOVING_BY, MOVING_TO};
use cluster_model::objects::{Key, Kind, PersistentVolumeClaim, Pod, World, claim_of, key, owner};
use cluster_model::plan::Step;
use serde_json::{Value, json};

/// PVCs of the target pod.
pub(super) enum TargetClaims {
    /// All exist. The VMI as the target has it, and the reason why it leaves the update of its volumes to a later migration.
    Ready(Box<VirtualMachineInstance>, Option<String>),
    /// PVCs that are missing: their names, and the steps that create them.
    Missing(Vec<(String, Step)>),
    Refused(String),
    Waits(String),
}

/// The PVCs of the target pod of a migration.
pub(super) fn target_claims(input: &MigrationReconcile<'_>, vmi: &VirtualMachineInstance) -> TargetClaims {
    let (mut migrated, mut absent) = (Vec::new(), Vec::new());
    if let Some(refused) = without_purpose(input, vmi) {
        return refused;
    }
    let left = left_for_later(input.world, vmi);
    let found = match &left {
        Some(_) => vmi::copied_without_update(input.world, vmi),
        None => vmi::copied_claims(input.world, vmi),
    };
    let found = match found {
        Ok(found) => found,
        Err(message) => return TargetClaims::Refused(refusal(&message)),
    };
    let is_named = found.iter().any(|copied| copied.destination.is_some());
    for CopiedClaim { volume, source, destination, is_state } in found {
        let Some(target) = target(input, source, destination.as_deref()) else { continue };
        let is_other = |new: &str| new != target.name;
        if source.moved_to().is_some() || source.moving_to().is_some_and(is_other) {
            let name = source.meta.name.as_deref().unwrap_or_default();
            let message = claim_moves::moved_message(source, ClaimReference::of_vmi(vmi, name));
            return TargetClaims::Refused(message.unwrap_or_default());
        }
        if let Some(message) = destination.as_deref().and_then(|name| other_user(input.world, vmi, name)) {
            return TargetClaims::Waits(message);
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
                let state_of = vmi.metadata.name.as_deref().filter(|_| is_state);
                let object = claim_moves::object(&input.migration.metadata, source, &target, vm, state_of);
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
        None => TargetClaims::Ready(Box::new(target), left),
    }
}

/// The reason why a migration of the VMI waits for PVCs that its VM names.
pub(super) fn wait_for_named(world: &World, vmi: &VirtualMachineInstance) -> Option<String> {
    if leaves(world, vmi).is_some() { None } else { unusable_named(world, vmi) }
}

/// The reason why a VMI that must leave its node leaves the update of its volumes to a later migration: a PVC that its VM names cannot be
/// used yet.
fn left_for_later(world: &World, vmi: &VirtualMachineInstance) -> Option<String> {
    leaves(world, vmi)?;
    let namespace = vmi.metadata.namespace.as_deref().unwrap_or_default();
    let unbound = || {
        let volumes = vmi::volume_update::of_vmi(world, vmi);
        let mut names = volumes.iter().filter_map(MigratedVolume::destination);
        let name =
            names.find(|name| world.pvcs.get(namespace, name).is_none_or(|claim| !claim.is_bound()))?;
        Some(format!("PVC {name} has no volume yet"))
    };
    unusable_named(world, vmi).or_else(unbound)
}

/// The end of a migration that was created for an update of volumes, where there is none.
fn without_purpose(input: &MigrationReconcile<'_>, vmi: &VirtualMachineInstance) -> Option<TargetClaims> {
    let is_for_update = input.migration.metadata.labels.contains_key(VOLUME_UPDATE);
    if !is_for_update || leaves(input.world, vmi).is_some() {
        return None;
    }
    let vm = vmi::vm_of(input.world, vmi)?;
    match vmi::volume_update::find(input.world, vm, Some(vmi)) {
        VolumeUpdate::Underway(_) => None,
        // It is deleted when the VMI says so.
        VolumeUpdate::Cancelled => {
            Some(TargetClaims::Waits("the update of the volumes is taken back".to_owned()))
        }
        VolumeUpdate::Refused(message) | VolumeUpdate::PvcInUse(message) => {
            Some(TargetClaims::Refused(refusal(&message)))
        }
        VolumeUpdate::None | VolumeUpdate::Waits(_) | VolumeUpdate::Broken(_) => Some(TargetClaims::Refused(
            refusal("the update of the volumes that this migration was created for has ended"),
        )),
    }
}

/// Message about another VM or VMI that names the PVC which a disk of this one is copied into. From the begin of the copy on nothing else
/// starts on that PVC.
fn other_user(world: &World, vmi: &VirtualMachineInstance, name: &str) -> Option<String> {
    let vm = vmi::vm_of(world, vmi)?;
    let claim = world.pvcs.get(vmi.metadata.namespace.as_deref().unwrap_or_default(), name);
    let is_begun = claim.is_some_and(|claim| claim.is_copied_for(vm.metadata.uid.as_deref()));
    if is_begun { None } else { vmi::volume_update::other_user(world, vm, name) }
}

/// The reason why a PVC that the VM names cannot be used yet.
fn unusable_named(world: &World, vmi: &VirtualMachineInstance) -> Option<String> {
    let volumes = vmi::volume_update::of_vmi(world, vmi);
    let namespace = vmi.metadata.namespace.as_deref().unwrap_or_default();
    for volume in &volumes {
        let name = volume.destination()?;
        if world.pvcs.get(namespace, name).is_none() {
            return Some(missing(name, &volume.volume_name));
        }
        if let Some(message) = other_user(world, vmi, name) {
            return Some(message);
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

/// Steps before the hand-over, and the volumes that are copied. `pod`: the target pod.
pub(super) fn hand_over(
    input: &MigrationReconcile<'_>,
    vmi: &VirtualMachineInstance,
    pod: &Pod,
) -> Result<(Vec<Step>, Vec<MigratedVolume>), Obstacle> {
    let (mut steps, mut migrated, mut is_named) = (Vec::new(), Vec::new(), false);
    let updates = vmi::volume_update::of_vmi(input.world, vmi);
    let is_taken = |volume: &MigratedVolume| pod.claims.iter().any(|name| volume.destination() == Some(name));
    let found = match updates.iter().all(is_taken) {
        true => vmi::copied_claims(input.world, vmi),
        false => vmi::copied_without_update(input.world, vmi),
    };
    let found = found.map_err(|message| Obstacle::Refused(refusal(&message)))?;
    for CopiedClaim { volume, source, destination, .. } in found {
        let Some(target) = target(input, source, destination.as_deref()) else { continue };
        let Some(claim) = input.world.pvcs.get(&target.namespace, &target.name) else {
            let message =
                format!("PVC {target} for the disk {volume} does not exist any more", target = target.name);
            return Err(Obstacle::Refused(message));
        };
        if let Some(message) = unusable(input, claim, destination.is_some()) {
            return Err(Obstacle::Refused(message));
        }
        if let Some(message) = destination.as_deref().and_then(|name| other_user(input.world, vmi, name)) {
            return Err(Obstacle::Waits(message));
        }
        if !claim.is_bound() {
            return Err(Obstacle::Waits(format!(
                "PVC {} for the disk {volume} has no volume yet",
                target.name
            )));
        }
        let copied = migrated_volume(input.world, volume, source, claim);
        let is_too_small = || vmi::volume_update::too_small(input.world, vmi, &copied);
        if let Some(message) = destination.as_ref().and_then(|_| is_too_small()) {
            return Err(Obstacle::Refused(refusal(&message)));
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
        migrated.push(copied);
    }
    let whole = with_destinations(vmi, &migrated);
    let mut new = migrated.iter().filter_map(MigratedVolume::destination);
    let missing = new.find(|name| pod.claims.iter().all(|claim| claim != name));
    if let Some(name) = missing.or_else(|| claim_without_volume(&whole, pod)) {
        return Err(Obstacle::Refused(format!(
            "Migration failed because the target pod was created before the volumes of the VMI were changed: it does not have PVC {name}"
        )));
    }
    let wait = || vmi::wait_for_disks(input.world, &whole);
    match is_named.then(wait).flatten() {
        Some(message) => Err(Obstacle::Waits(message)),
        None => Ok((steps, migrated)),
    }
}

/// PVC of a disk that the target pod does not have.
fn claim_without_volume<'a>(vmi: &'a VirtualMachineInstance, pod: &Pod) -> Option<&'a str> {
    let disks = &vmi.spec.domain.devices.disks;
    let volumes = vmi.spec.volumes.iter().filter(|volume| disks.iter().any(|disk| disk.name == volume.name));
    volumes.filter_map(claim_of).find(|name| pod.claims.iter().all(|claim| claim != name))
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
    let volumes = vm.map(|vm| vmi::volume_update::recorded_now(input.world, vm)).unwrap_or_default();
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
