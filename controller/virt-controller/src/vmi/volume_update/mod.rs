//! Update of the volumes of a VM whose guest runs (`updateVolumesStrategy: Migration`): a live migration copies each disk into the PVC
//! that the VM names now.
//!
//! ```text
//!  a claimName of the template changes ─► status.volumeUpdateState of the VM ─► VolumesChange=True ─► a migration
//!     │ refused: RestartRequired             │                                                          │
//!     │ a PVC is missing: VolumesChange=False│                              the guest has arrived ◄─────┤
//!     │                                      │                      (spec.volumes of the VMI, and no record)
//!     │                                      ├─ all names are back: VolumesChangeCancellation, the migration is deleted
//!     └──────────────────────────────────────┴─ the VMI has ended first: ManualRecoveryRequired, and no start
//! ```
//!
//! The PVC has the annotation `copied-into-by` from the hand-over until the guest has arrived, and no VM starts on it.
//!
//! | file | content |
//! |---|---|
//! | `begin` | reasons against an update |
//! | `destinations` | the PVCs that the disks are copied into: their UIDs, and other VMs that name them |
//!
//! **Guarantees.** The record with both names is written before a migration is created, and the VMI keeps the PVCs that its guest runs
//! on until it has arrived on the others. So a VM does not start on a disk that was copied in part. Where the VMI ends before its update was
//! recorded, the record is written with its end: a VM does not start on a PVC that its disk was not copied into.
//! A disk is copied into the PVC that had the name when the update began, and into none that another VM or VMI names.
//! **Caveats.** A VM that is changed while it is stopped starts on the PVC that it names.
//! **Assumptions.** From the hand-over on `status.migratedVolumes` of the VMI decides ([`super::moved_claims`]), whatever the VM says.
//! **Absent.** A change of the volume mode.

mod begin;
mod destinations;

pub(crate) use begin::too_small;
pub(crate) use destinations::other_user;

use super::{claim_info, phase, vm_of};
use crate::template;
use api::vm::{
    self, PrintableStatus, UpdateVolumesStrategy, VirtualMachine, VolumeMigrationState, VolumeUpdateState,
};
use api::vmi::{ClaimInfo, ConditionType, MigratedVolume, VirtualMachineInstance, Volume};
use cluster_model::claim_moves::{ChangedClaim, changed_claims};
use cluster_model::conditions;
use cluster_model::objects::{PersistentVolumeClaim, World, claim_of};

/// Reason of the condition `VolumesChange` of an update that was taken back.
pub(crate) const CANCELLED: &str = "VolumesChangeCancellation";
/// Message of the condition of an update that is under way, as upstream has it.
pub(crate) const UNDERWAY: &str = "migrate volumes";
/// Message about a VM that must not start, as upstream has it, and what to do.
const ENDED: &str = "VMI was removed or was final during the volume migration: name the PVCs that the volumes had before \
                     (status.volumeUpdateState.volumeMigrationState.migratedVolumes), and the VM starts on those; or, to start it on the \
                     new PVCs with what they have, remove updateVolumesStrategy";
/// Reason of `RestartRequired` as upstream has it.
const RESTART_REQUIRED: &str = "RestartRequired";
/// Reason of `RestartRequired` where another VM or VMI names the PVC.
const PVC_IN_USE: &str = super::disk_conflict::REASON;
/// Longest chain of live migrations between the recorded source of a volume and its present one.
const MAX_MOVES: usize = 64;
/// Message of `RestartRequired` of other changes.
const OTHER_CHANGE: &str = "a non-live-updatable field was changed in the template spec";

/// Update of the volumes of a VM.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum VolumeUpdate {
    None,
    /// The update does not begin, or does not go on, for this reason.
    Refused(String),
    /// Another VM or VMI names a PVC: the update stays refused until the VM is changed, also where the other one is gone meanwhile.
    PvcInUse(String),
    /// The update begins later.
    Waits(String),
    /// The disks are copied by the next live migration.
    Underway(Vec<MigratedVolume>),
    /// The VM names the PVCs again that its guest runs on.
    Cancelled,
    /// The VMI ended before its guest arrived on the PVCs that the VM names for these volumes.
    Broken(Vec<MigratedVolume>),
}

/// The volumes that an update has recorded in its VM.
pub(crate) fn recorded(vm: &VirtualMachine) -> &[MigratedVolume] {
    let update = vm.status.as_ref().and_then(|status| status.volume_update_state.as_ref());
    let state = update.and_then(|update| update.volume_migration_state.as_ref());
    state.map_or(&[], |state| &state.migrated_volumes)
}

/// The same with the PVCs that a live migration has copied the sources into meanwhile.
pub(crate) fn recorded_now(world: &World, vm: &VirtualMachine) -> Vec<MigratedVolume> {
    let namespace = vm.metadata.namespace.as_deref().unwrap_or_default();
    let mut volumes = recorded(vm).to_vec();
    for volume in &mut volumes {
        for _ in 0..MAX_MOVES {
            let source = volume.source().and_then(|name| world.pvcs.get(namespace, name));
            let next = source.and_then(|source| {
                let next = source.moved_to().filter(|next| Some(*next) != volume.destination())?;
                world.pvcs.get(namespace, next).filter(|next| next.moved_from() == volume.source())
            });
            let Some(next) = next else { break };
            let name = next.meta.name.clone().unwrap_or_default();
            volume.source_pvc_info = Some(claim_info(world, &name, next, &ClaimInfo::default()));
        }
    }
    volumes
}

/// The update of a VM's volumes, by its spec, its record and its VMI.
pub(crate) fn find(world: &World, vm: &VirtualMachine, vmi: Option<&VirtualMachineInstance>) -> VolumeUpdate {
    if vm.spec.update_volumes_strategy != Some(UpdateVolumesStrategy::Migration) {
        return VolumeUpdate::None;
    }
    let recorded = recorded_now(world, vm);
    let Some(vmi) = vmi.filter(|vmi| !phase(vmi).is_final()) else {
        return after_end(world, vm, vmi, recorded);
    };
    let changed = changed(world, vm, vmi);
    if changed.is_empty() {
        return match !recorded.is_empty() && has_sources(vm, &recorded) {
            true => VolumeUpdate::Cancelled,
            false => VolumeUpdate::None,
        };
    }
    if recorded.is_empty() {
        return match kept_refusal(vm) {
            Some(message) => VolumeUpdate::PvcInUse(message),
            None => begin::begin(world, vm, vmi, changed),
        };
    }
    if !is_same(&changed, &recorded) {
        return VolumeUpdate::Refused(vm::ONLY_REVERTED.to_owned());
    }
    match destinations::made_anew(world, vm, &recorded) {
        Some(message) => VolumeUpdate::Refused(message),
        None => VolumeUpdate::Underway(recorded),
    }
}

/// The update of a VM whose VMI has ended or is gone. `ended`: the VMI, where it exists.
fn after_end(
    world: &World,
    vm: &VirtualMachine,
    ended: Option<&VirtualMachineInstance>,
    recorded: Vec<MigratedVolume>,
) -> VolumeUpdate {
    if recorded.is_empty() {
        let left = ended.map(|vmi| left_behind(world, vm, vmi)).unwrap_or_default();
        return if left.is_empty() { VolumeUpdate::None } else { VolumeUpdate::Broken(left) };
    }
    match has_sources(vm, &recorded) || have_arrived(world, vm, ended, &recorded) {
        true => VolumeUpdate::None,
        false => VolumeUpdate::Broken(recorded),
    }
}

/// Volumes whose disk is on another PVC than the VM names, when the guest has just ended. A VM that is known to be stopped was changed for
/// its next start.
fn left_behind(world: &World, vm: &VirtualMachine, ended: &VirtualMachineInstance) -> Vec<MigratedVolume> {
    let status = vm.status.as_ref();
    if status.is_some_and(|status| status.printable_status == Some(PrintableStatus::Stopped)) {
        return Vec::new();
    }
    let namespace = ended.metadata.namespace.as_deref().unwrap_or_default();
    let has_arrived = |changed: &ChangedClaim<'_>| {
        let mut unsettled = ended.status.iter().flat_map(|status| &status.migrated_volumes);
        unsettled.any(|one| one.volume_name == changed.volume && one.has_destination(&ended.spec.volumes))
    };
    let is_left = |changed: &ChangedClaim<'_>| {
        world.pvcs.get(namespace, changed.source).is_some() && !changed.is_read_only && !has_arrived(changed)
    };
    let left = changed_claims(vm, ended).into_iter().filter(is_left);
    left.map(|changed| migrated(world, ended, changed)).collect()
}

/// The message of an update that was refused for the PVC of another VM or VMI, where the VM has not been changed since.
fn kept_refusal(vm: &VirtualMachine) -> Option<String> {
    let status = vm.status.as_ref().filter(|status| status.desired_generation == vm.metadata.generation)?;
    let said = conditions::find(&status.conditions, &vm::ConditionType::RestartRequired)?;
    let is_kept = said.status == "True" && said.reason.as_deref() == Some(PVC_IN_USE);
    said.message.clone().filter(|_| is_kept)
}

/// The migrations of a VMI copy these disks into the PVCs that its VM names.
pub(crate) fn of_vmi(world: &World, vmi: &VirtualMachineInstance) -> Vec<MigratedVolume> {
    let Some(vm) = vm_of(world, vmi).filter(|vm| !recorded(vm).is_empty()) else { return Vec::new() };
    match find(world, vm, Some(vmi)) {
        VolumeUpdate::Underway(volumes) => volumes,
        _ => Vec::new(),
    }
}

/// Records the update in its VM, or removes the record of one that has ended.
pub(crate) fn record(
    world: &World,
    next: &mut VirtualMachine,
    update: &VolumeUpdate,
    vmi: Option<&VirtualMachineInstance>,
) {
    let volumes = match update {
        VolumeUpdate::Underway(volumes) | VolumeUpdate::Broken(volumes) => volumes.clone(),
        VolumeUpdate::Refused(_) | VolumeUpdate::PvcInUse(_) => return,
        // Its VMI says so first, and the migration is deleted by that.
        VolumeUpdate::Cancelled if !vmi.is_some_and(is_cancelled) => return,
        VolumeUpdate::None | VolumeUpdate::Waits(_) | VolumeUpdate::Cancelled => Vec::new(),
    };
    destinations::note(world, next, &volumes);
    let status = next.status.get_or_insert_default();
    status.volume_update_state = (!volumes.is_empty()).then(|| VolumeUpdateState {
        volume_migration_state: Some(VolumeMigrationState {
            migrated_volumes: volumes,
            ..VolumeMigrationState::default()
        }),
        ..VolumeUpdateState::default()
    });
}

/// Reason and message of a VM that needs a restart for what its template says.
pub(crate) fn restart_reason(
    vm: &VirtualMachine,
    vmi: &VirtualMachineInstance,
    update: &VolumeUpdate,
) -> Option<(&'static str, String)> {
    match update {
        VolumeUpdate::Refused(message) => Some((RESTART_REQUIRED, message.clone())),
        VolumeUpdate::PvcInUse(message) => Some((PVC_IN_USE, message.clone())),
        VolumeUpdate::Waits(_) | VolumeUpdate::Underway(_) => None,
        VolumeUpdate::None | VolumeUpdate::Cancelled | VolumeUpdate::Broken(_) => {
            template::is_outdated(vm, vmi).then(|| (RESTART_REQUIRED, OTHER_CHANGE.to_owned()))
        }
    }
}

/// The reason why a VM does not start.
pub(crate) fn block(update: &VolumeUpdate) -> Option<&'static str> {
    matches!(update, VolumeUpdate::Broken(_)).then_some(ENDED)
}

/// True for a VMI whose update was taken back, by its own status.
pub(crate) fn is_cancelled(vmi: &VirtualMachineInstance) -> bool {
    let said = vmi.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let said = conditions::find(said, &ConditionType::VolumesChange);
    said.is_some_and(|said| said.status == "False" && said.reason.as_deref() == Some(CANCELLED))
}

/// The VM with the sources of these volumes, where it has their destinations.
pub(crate) fn before(
    vm: &VirtualMachine,
    vmi: &VirtualMachineInstance,
    volumes: &[MigratedVolume],
) -> VirtualMachine {
    let mut vm = vm.clone();
    let own = vm.spec.template.iter_mut().flat_map(|template| &mut template.spec.volumes);
    for volume in own {
        let migrated = volumes.iter().find(|migrated| migrated.volume_name == volume.name);
        let is_destination = |one: &&MigratedVolume| claim_of(volume) == one.destination();
        if migrated.filter(is_destination).is_some()
            && let Some(old) = vmi.spec.volumes.iter().find(|old| old.name == volume.name)
        {
            volume.clone_from(old);
        }
    }
    vm
}

/// Volumes of the VM, as it names them, that are the destinations of these.
pub(crate) fn destinations(vm: &VirtualMachine, volumes: &[MigratedVolume]) -> Vec<Volume> {
    let own = vm.spec.template.iter().flat_map(|template| &template.spec.volumes);
    let is_destination = |volume: &&Volume| {
        volumes.iter().any(|one| one.volume_name == volume.name && claim_of(volume) == one.destination())
    };
    own.filter(is_destination).cloned().collect()
}

/// Volumes of an update that has not arrived, recorded or not.
pub(super) fn open_changes(
    world: &World,
    vm: &VirtualMachine,
    vmi: &VirtualMachineInstance,
) -> Vec<MigratedVolume> {
    let recorded = recorded_now(world, vm);
    let is_wanted = vm.spec.update_volumes_strategy == Some(UpdateVolumesStrategy::Migration);
    if recorded.is_empty() && is_wanted { changed(world, vm, vmi) } else { recorded }
}

/// Volumes that the VM has on other PVCs than its VMI.
fn changed(world: &World, vm: &VirtualMachine, vmi: &VirtualMachineInstance) -> Vec<MigratedVolume> {
    changed_claims(vm, vmi).into_iter().map(|changed| migrated(world, vmi, changed)).collect()
}

fn migrated(world: &World, vmi: &VirtualMachineInstance, changed: ChangedClaim<'_>) -> MigratedVolume {
    let namespace = vmi.metadata.namespace.as_deref().unwrap_or_default();
    let info = |name: &str| {
        let claim: Option<&PersistentVolumeClaim> = world.pvcs.get(namespace, name);
        let unknown = || ClaimInfo { claim_name: Some(name.to_owned()), ..ClaimInfo::default() };
        claim.map_or_else(unknown, |claim| claim_info(world, name, claim, &ClaimInfo::default()))
    };
    MigratedVolume {
        volume_name: changed.volume.to_owned(),
        source_pvc_info: Some(info(changed.source)),
        destination_pvc_info: Some(info(changed.destination)),
        ..MigratedVolume::default()
    }
}

/// True if both are of the same volumes and PVCs.
fn is_same(one: &[MigratedVolume], other: &[MigratedVolume]) -> bool {
    let names = |volumes: &[MigratedVolume]| {
        let mut names: Vec<_> = volumes
            .iter()
            .map(|volume| {
                let text = |name: Option<&str>| name.unwrap_or_default().to_owned();
                (volume.volume_name.clone(), text(volume.source()), text(volume.destination()))
            })
            .collect();
        names.sort_unstable();
        names
    };
    names(one) == names(other)
}

/// True if the VM names the sources of all these volumes.
fn has_sources(vm: &VirtualMachine, volumes: &[MigratedVolume]) -> bool {
    let own: Vec<&Volume> = vm.spec.template.iter().flat_map(|template| &template.spec.volumes).collect();
    volumes.iter().all(|volume| {
        let own = own.iter().find(|own| own.name == volume.volume_name);
        own.is_none_or(|own| claim_of(own) == volume.source())
    })
}

/// True if the guest has run on the destinations: by the last state of its VMI, or by what its arrival has written at the sources. A PVC
/// that was created anew under the name is not the one.
fn have_arrived(
    world: &World,
    vm: &VirtualMachine,
    vmi: Option<&VirtualMachineInstance>,
    recorded: &[MigratedVolume],
) -> bool {
    let namespace = vm.metadata.namespace.as_deref().unwrap_or_default();
    recorded.iter().all(|volume| {
        let source = volume.source().and_then(|name| world.pvcs.get(namespace, name));
        let is_there = vmi.is_some_and(|vmi| volume.has_destination(&vmi.spec.volumes))
            || source
                .is_some_and(|claim| claim.moved_to().is_some() && claim.moved_to() == volume.destination());
        is_there && destinations::is_the_recorded(world, vm, volume)
    })
}
