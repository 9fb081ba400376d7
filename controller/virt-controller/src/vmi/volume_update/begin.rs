//! Reasons against an update of volumes.

use super::{OTHER_CHANGE, VolumeUpdate, before, destinations, phase};
use crate::template;
use crate::vmi::copied_claims::owner_with_template;
use crate::vmi::migrating;
use api::machine::is_of_one_node;
use api::vm::VirtualMachine;
use api::vmi::{ClaimInfo, ConditionType, Disk, MigratedVolume, Phase, VirtualMachineInstance, Volume};
use cluster_model::claim_moves::{ClaimReference, is_read_only, moved_message};
use cluster_model::conditions;
use cluster_model::objects::{World, claim_of, claims_of};

/// Begins an update, unless there is a reason against it.
pub(super) fn begin(
    world: &World,
    vm: &VirtualMachine,
    vmi: &VirtualMachineInstance,
    changed: Vec<MigratedVolume>,
) -> VolumeUpdate {
    let refused = |message: &str| VolumeUpdate::Refused(message.to_owned());
    if world.config().is_staged || template::is_outdated(&before(vm, vmi, &changed), vmi) {
        return refused(OTHER_CHANGE);
    }
    if let Some((kind, name)) = owner_with_template(world, vmi) {
        return VolumeUpdate::Refused(format!(
            "cannot migrate the volumes: the VM belongs to the {} {name}, whose template has the names of the PVCs; change its template",
            kind.name()
        ));
    }
    if phase(vmi) != Phase::Running || vmi.metadata.deletion_timestamp.is_some() {
        return VolumeUpdate::Waits("the volumes are migrated when the VMI is Running".to_owned());
    }
    // The disks get other PVCs by it, from which the update begins.
    let is_moving = vmi.status.as_ref().is_some_and(|status| !status.migrated_volumes.is_empty());
    if is_moving || migrating::unfinished(vmi).is_some() {
        return VolumeUpdate::Waits(
            "the volumes are migrated when the migration of the VMI has ended".to_owned(),
        );
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
        if let Some(other) = destinations::other_user(world, vm, name) {
            return VolumeUpdate::PvcInUse(format!(
                "cannot migrate the volume {}: {other}. Name a PVC that only this VM has. To overwrite the disk, remove PVC {name} from the \
                 other one, name PVC {} here, and then PVC {name} again",
                volume.volume_name,
                volume.source().unwrap_or_default()
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
        if let Some(message) = moved_message(claim, ClaimReference::of_vm(vm, name)).filter(|_| !is_own) {
            return VolumeUpdate::Refused(format!(
                "cannot migrate the volume {}: {message}",
                volume.volume_name
            ));
        }
        if let Some(message) = too_small(world, vmi, volume) {
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

/// The message about a destination that is smaller than the disk, where both sizes are known. A disk that is larger than its own PVC lies on
/// storage that does not enforce capacities.
pub(crate) fn too_small(
    world: &World,
    vmi: &VirtualMachineInstance,
    volume: &MigratedVolume,
) -> Option<String> {
    let namespace = vmi.metadata.namespace.as_deref().unwrap_or_default();
    let name = volume.destination()?;
    let capacity = |name: &str| {
        let claim = world.pvcs.get(namespace, name).filter(|claim| claim.is_bound())?;
        claim.status.capacity.get("storage")?.bytes()
    };
    let has = capacity(name)?;
    let mut known = vmi.status.as_ref()?.volume_status.iter();
    let disk = known
        .find(|known| known.name == volume.volume_name)?
        .size
        .and_then(|size| u64::try_from(size).ok())?;
    let of_source = volume.source().and_then(capacity).unwrap_or(u64::MAX);
    (has < disk && has < of_source).then(|| {
        format!(
            "PVC {name} has {has} bytes, and the disk of the guest {disk}: name a PVC that is at least as large"
        )
    })
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
        ("read-only", names(&|name| is_read_only(vmi, name))),
    ];
    let said: Vec<String> = lists
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!(" {what}: [{}]", names.join(" ")))
        .collect();
    (!said.is_empty()).then(|| format!("invalid volumes to update with migration:{}", said.join(",")))
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
