//! Update of the volumes of a VM whose guest runs (`updateVolumesStrategy: Migration`): a live migration copies each disk into the PVC
//! that the VM names now.
//!
//! ```text
//!  a claimName of the template changes ─► status.volumeUpdateState of the VM ─► VolumesChange=True ─► a migration
//!     │ refused: RestartRequired             │                                                          │
//!     │ a PVC is missing: VolumesChange=False│                              the guest has arrived ◄─────┤
//!                                            │                      (spec.volumes of the VMI, and no record)
//!                                            ├─ all names are back: VolumesChangeCancellation, the migration is deleted
//!                                            └─ the VMI has ended first: ManualRecoveryRequired, and no start
//! ```
//!
//! The PVC has the annotation `copied-into-by` from the hand-over until the guest has arrived, and no VM starts on it.
//!
//! **Guarantees.** The record with both names is written before a migration is created, and the VMI keeps the PVCs that its guest runs
//! on until it has arrived on the others. So a VM does not start on a disk that was copied in part.
//! **Assumptions.** From the hand-over on `status.migratedVolumes` of the VMI decides ([`super::moved_claims`]), whatever the VM says.
//! **Absent.** A change of the volume mode.

use super::{claim_info, phase, vm_of};
use crate::template;
use api::machine::is_of_one_node;
use api::vm::{UpdateVolumesStrategy, VirtualMachine, VolumeMigrationState, VolumeUpdateState};
use api::vmi::{ClaimInfo, ConditionType, Disk, MigratedVolume, Phase, VirtualMachineInstance, Volume};
use cluster_model::claim_moves::moved_message;
use cluster_model::conditions;
use cluster_model::objects::{PersistentVolumeClaim, World, claim_of, claims_of};

/// Reason of the condition `VolumesChange` of an update that was taken back.
pub(crate) const CANCELLED: &str = "VolumesChangeCancellation";
/// Message of the condition of an update that is under way, as upstream has it.
pub(crate) const UNDERWAY: &str = "migrate volumes";
/// Message about a VM that must not start, as upstream has it, and what to do.
const ENDED: &str = "VMI was removed or was final during the volume migration: name the PVCs that the volumes had before \
                     (status.volumeUpdateState.volumeMigrationState.migratedVolumes), and the VM starts on those";
/// Message of `RestartRequired` of other changes.
const OTHER_CHANGE: &str = "a non-live-updatable field was changed in the template spec";

/// Update of the volumes of a VM.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum VolumeUpdate {
    None,
    /// The VM gets its volumes with the next start, for this reason.
    Refused(String),
    /// The update begins later.
    Waits(String),
    /// The disks are copied by the next live migration.
    Underway(Vec<MigratedVolume>),
    /// The VM names the PVCs again that its guest runs on.
    Cancelled,
    /// The VMI ended before its guest arrived.
    Broken,
}

/// The volumes that an update has recorded in its VM.
pub(crate) fn recorded(vm: &VirtualMachine) -> &[MigratedVolume] {
    let update = vm.status.as_ref().and_then(|status| status.volume_update_state.as_ref());
    let state = update.and_then(|update| update.volume_migration_state.as_ref());
    state.map_or(&[], |state| &state.migrated_volumes)
}

/// The update of a VM's volumes, by its spec, its record and its VMI.
pub(crate) fn find(world: &World, vm: &VirtualMachine, vmi: Option<&VirtualMachineInstance>) -> VolumeUpdate {
    if vm.spec.update_volumes_strategy != Some(UpdateVolumesStrategy::Migration) {
        return VolumeUpdate::None;
    }
    let recorded = recorded(vm);
    let Some(vmi) = vmi.filter(|vmi| !phase(vmi).is_final()) else {
        return match recorded.is_empty() || has_sources(vm, recorded) || have_arrived(world, vm, vmi) {
            true => VolumeUpdate::None,
            false => VolumeUpdate::Broken,
        };
    };
    let changed = changed(world, vm, vmi);
    if changed.is_empty() {
        return match !recorded.is_empty() && has_sources(vm, recorded) {
            true => VolumeUpdate::Cancelled,
            false => VolumeUpdate::None,
        };
    }
    if !recorded.is_empty() {
        return match is_same(&changed, recorded) {
            true => VolumeUpdate::Underway(recorded.to_vec()),
            false => VolumeUpdate::Refused(api::vm::ONLY_REVERTED.to_owned()),
        };
    }
    begin(world, vm, vmi, changed)
}

/// The migrations of a VMI copy these disks into the PVCs that its VM names.
pub(crate) fn of_vmi(world: &World, vmi: &VirtualMachineInstance) -> Vec<MigratedVolume> {
    let Some(vm) = vm_of(world, vmi).filter(|vm| !recorded(vm).is_empty()) else { return Vec::new() };
    match find(world, vm, Some(vmi)) {
        VolumeUpdate::Underway(volumes) => volumes,
        _ => Vec::new(),
    }
}

/// Records the update in the status of its VM, or removes the record of one that has ended.
pub(crate) fn record(next: &mut VirtualMachine, update: &VolumeUpdate, vmi: Option<&VirtualMachineInstance>) {
    let volumes = match update {
        VolumeUpdate::Underway(volumes) => volumes.clone(),
        VolumeUpdate::Refused(_) | VolumeUpdate::Broken => return,
        // Its VMI says so first, and the migration is deleted by that.
        VolumeUpdate::Cancelled if !vmi.is_some_and(is_cancelled) => return,
        VolumeUpdate::None | VolumeUpdate::Waits(_) | VolumeUpdate::Cancelled => Vec::new(),
    };
    let status = next.status.get_or_insert_default();
    status.volume_update_state = (!volumes.is_empty()).then(|| VolumeUpdateState {
        volume_migration_state: Some(VolumeMigrationState {
            migrated_volumes: volumes,
            ..VolumeMigrationState::default()
        }),
        ..VolumeUpdateState::default()
    });
}

/// The reason why a VM needs a restart for what its template says.
pub(crate) fn restart_message(
    vm: &VirtualMachine,
    vmi: &VirtualMachineInstance,
    update: &VolumeUpdate,
) -> Option<String> {
    match update {
        VolumeUpdate::Refused(message) => Some(message.clone()),
        VolumeUpdate::Waits(_) | VolumeUpdate::Underway(_) => None,
        VolumeUpdate::None | VolumeUpdate::Cancelled | VolumeUpdate::Broken => {
            template::is_outdated(vm, vmi).then(|| OTHER_CHANGE.to_owned())
        }
    }
}

/// The reason why a VM does not start.
pub(crate) fn block(update: &VolumeUpdate) -> Option<&'static str> {
    (*update == VolumeUpdate::Broken).then_some(ENDED)
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

/// Begins an update, unless there is a reason against it.
fn begin(
    world: &World,
    vm: &VirtualMachine,
    vmi: &VirtualMachineInstance,
    changed: Vec<MigratedVolume>,
) -> VolumeUpdate {
    let refused = |message: &str| VolumeUpdate::Refused(message.to_owned());
    if world.config().is_staged || template::is_outdated(&before(vm, vmi, &changed), vmi) {
        return refused(OTHER_CHANGE);
    }
    if phase(vmi) != Phase::Running || vmi.metadata.deletion_timestamp.is_some() {
        return VolumeUpdate::Waits("the volumes are migrated when the VMI is Running".to_owned());
    }
    if let Some(message) = invalid(vmi, &changed) {
        return VolumeUpdate::Refused(message);
    }
    let namespace = vmi.metadata.namespace.as_deref().unwrap_or_default();
    let used = claims_of(vmi);
    for (at, volume) in changed.iter().enumerate() {
        let name = volume.destination().unwrap_or_default();
        if used.iter().any(|used| used == name)
            || changed[..at].iter().any(|one| one.destination() == Some(name))
        {
            return VolumeUpdate::Refused(format!(
                "cannot migrate the volumes: PVC {name}, the destination of the volume {}, is the PVC of another volume, too",
                volume.volume_name
            ));
        }
        let Some(claim) = world.pvcs.get(namespace, name) else {
            return VolumeUpdate::Waits(format!("One of the destination volumes doesn't exist: {name}"));
        };
        if claim.moved_by().is_some() {
            return VolumeUpdate::Refused(format!(
                "cannot migrate the volume {}: PVC {name} was made by a live migration that has not ended",
                volume.volume_name
            ));
        }
        let is_own = claim.is_copied_for(vm.metadata.uid.as_deref());
        if let Some(message) = moved_message(claim).filter(|_| !is_own) {
            return VolumeUpdate::Refused(format!(
                "cannot migrate the volume {}: {message}",
                volume.volume_name
            ));
        }
        let mode = |info: Option<&ClaimInfo>| info.and_then(|info| info.volume_mode.clone());
        let modes = [&volume.source_pvc_info, &volume.destination_pvc_info].map(|info| mode(info.as_ref()));
        if modes[0] != modes[1] {
            let [source, destination] = modes.map(Option::unwrap_or_default);
            return VolumeUpdate::Refused(format!(
                "cannot migrate the volume {}: the volume mode of PVC {name} is {destination}, and that of its source {source}: a \
                 change of the mode is not supported",
                volume.volume_name
            ));
        }
    }
    let said = vmi.status.as_ref().map_or(&[][..], |status| &status.conditions);
    if let Some(said) =
        conditions::find(said, &ConditionType::LiveMigratable).filter(|said| said.status == "False")
    {
        let message = said.message.as_deref().unwrap_or_default();
        return VolumeUpdate::Refused(format!(
            "cannot migrate the volumes as the VMI isn't migratable: {message}"
        ));
    }
    let is_left_out = |volume: &&Volume| {
        let claim = claim_of(volume).and_then(|name| world.pvcs.get(namespace, name));
        claim.is_some_and(|claim| is_of_one_node(&claim.spec.access_modes))
            && changed.iter().all(|changed| changed.volume_name != volume.name)
    };
    if let Some(volume) = vmi.spec.volumes.iter().find(is_left_out) {
        return VolumeUpdate::Refused(format!(
            "cannot migrate the VM. The volume {} is RWO and not included in the migration volumes",
            volume.name
        ));
    }
    VolumeUpdate::Underway(changed)
}

/// Volumes that cannot be copied, in upstream's words.
fn invalid(vmi: &VirtualMachineInstance, changed: &[MigratedVolume]) -> Option<String> {
    let devices = &vmi.spec.domain.devices;
    let names = |is_invalid: &dyn Fn(&str) -> bool| -> Vec<&str> {
        changed.iter().map(|volume| volume.volume_name.as_str()).filter(|name| is_invalid(name)).collect()
    };
    let disk =
        |name: &str, is: fn(&Disk) -> bool| devices.disks.iter().any(|disk| disk.name == name && is(disk));
    let lists = [
        ("filesystems", names(&|name| devices.filesystems.iter().any(|one| one.name == name))),
        ("shareable", names(&|name| disk(name, |disk| disk.shareable == Some(true)))),
        ("luns", names(&|name| disk(name, |disk| disk.lun.is_some()))),
        ("read-only", names(&|name| disk(name, is_read))),
    ];
    let said: Vec<String> = lists
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!(" {what}: [{}]", names.join(" ")))
        .collect();
    (!said.is_empty()).then(|| format!("invalid volumes to update with migration:{}", said.join(",")))
}

/// True for a disk that the guest does not write to.
fn is_read(disk: &Disk) -> bool {
    disk.cdrom.is_some() || disk.disk.as_ref().is_some_and(|target| target.readonly == Some(true))
}

/// Volumes that the VM has on other PVCs than its VMI.
fn changed(world: &World, vm: &VirtualMachine, vmi: &VirtualMachineInstance) -> Vec<MigratedVolume> {
    let namespace = vmi.metadata.namespace.as_deref().unwrap_or_default();
    let info = |name: &str| {
        let claim: Option<&PersistentVolumeClaim> = world.pvcs.get(namespace, name);
        let unknown = || ClaimInfo { claim_name: Some(name.to_owned()), ..ClaimInfo::default() };
        claim.map_or_else(unknown, |claim| claim_info(world, name, claim, &ClaimInfo::default()))
    };
    let own = vm.spec.template.iter().flat_map(|template| &template.spec.volumes);
    own.filter_map(|volume| {
        let running = vmi.spec.volumes.iter().find(|running| running.name == volume.name)?;
        let (source, destination) = (writable_claim(running)?, writable_claim(volume)?);
        (source != destination).then(|| MigratedVolume {
            volume_name: volume.name.clone(),
            source_pvc_info: Some(info(source)),
            destination_pvc_info: Some(info(destination)),
            ..MigratedVolume::default()
        })
    })
    .collect()
}

/// Name of the PVC that a guest writes to through a volume. An overlay (`ephemeral`) has none.
fn writable_claim(volume: &Volume) -> Option<&str> {
    claim_of(volume).filter(|_| volume.ephemeral.is_none())
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

/// True if the guest has run on the destinations: by the last state of its VMI, or by what its arrival has written at the sources.
fn have_arrived(world: &World, vm: &VirtualMachine, vmi: Option<&VirtualMachineInstance>) -> bool {
    let namespace = vm.metadata.namespace.as_deref().unwrap_or_default();
    recorded(vm).iter().all(|volume| {
        let source = volume.source().and_then(|name| world.pvcs.get(namespace, name));
        vmi.is_some_and(|vmi| volume.has_destination(&vmi.spec.volumes))
            || source
                .is_some_and(|claim| claim.moved_to().is_some() && claim.moved_to() == volume.destination())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn volumes_that_are_shared_or_passed_through_are_named_by_their_kind() {
        let devices = json!({
            "disks": [{"name": "a", "disk": {}, "shareable": true}, {"name": "b", "lun": {}}, {"name": "c", "disk": {}}],
            "filesystems": [{"name": "d", "virtiofs": {}}],
        });
        let vmi = json!({"metadata": {"name": "web"}, "spec": {"domain": {"devices": devices}}});
        let vmi: VirtualMachineInstance = api::wire::read(vmi).unwrap();
        for (names, expected) in [
            (
                &["a", "b", "d"][..],
                Some("invalid volumes to update with migration: filesystems: [d], shareable: [a], luns: [b]"),
            ),
            (&["b", "c"], Some("invalid volumes to update with migration: luns: [b]")),
            (&["c"], None),
        ] {
            let of =
                |name: &&str| MigratedVolume { volume_name: (*name).to_owned(), ..MigratedVolume::default() };
            let changed: Vec<MigratedVolume> = names.iter().map(of).collect();
            assert_eq!(invalid(&vmi, &changed).as_deref(), expected);
        }
    }
}
