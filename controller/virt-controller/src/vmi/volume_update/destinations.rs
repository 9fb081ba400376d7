//! PVCs that an update of volumes copies disks into. A name alone does not say which PVC that is, nor whose disk it has.

use api::vm::VirtualMachine;
use api::vmi::MigratedVolume;
use cluster_model::claim_moves::DESTINATION_UIDS;
use cluster_model::objects::{IndexKey, Kind, PersistentVolumeClaim, World};

/// Message about another VM or VMI that names a PVC.
pub(crate) fn other_user(world: &World, vm: &VirtualMachine, claim: &str) -> Option<String> {
    let namespace = vm.metadata.namespace.clone().unwrap_or_default();
    let users = || {
        let all = world.indexed_by(&IndexKey::PersistentVolumeClaim(namespace.clone(), claim.to_owned()));
        // The VMI of a VM has its name.
        all.filter(|user| Some(&user.name) != vm.metadata.name.as_ref())
    };
    let of = |kind| users().find(|user| user.kind == kind);
    let (kind, other) = match of(Kind::VirtualMachine) {
        Some(other) => ("VM", other),
        None => ("VMI", of(Kind::VirtualMachineInstance)?),
    };
    Some(format!("PVC {claim} is a disk of {kind} {}, too, and would be overwritten", other.name))
}

/// Writes down which PVCs the disks of a VM are copied into. Those of an update that was begun before stay.
pub(super) fn note(world: &World, next: &mut VirtualMachine, volumes: &[MigratedVolume]) {
    let is_begun =
        !super::recorded(next).is_empty() && next.metadata.annotations.contains_key(DESTINATION_UIDS);
    if is_begun && !volumes.is_empty() {
        return;
    }
    let known = volumes.iter().filter_map(|volume| {
        let uid = destination(world, next, volume)?.meta.uid.as_ref()?;
        Some(format!("{}={uid}", volume.volume_name))
    });
    let known = known.collect::<Vec<_>>().join(",");
    match known.is_empty() {
        true => drop(next.metadata.annotations.remove(DESTINATION_UIDS)),
        false => drop(next.metadata.annotations.insert(DESTINATION_UIDS.to_owned(), known)),
    }
}

/// Message about a PVC that was created anew since the update began.
pub(super) fn made_anew(world: &World, vm: &VirtualMachine, volumes: &[MigratedVolume]) -> Option<String> {
    let is_other = |volume: &&MigratedVolume| {
        destination(world, vm, volume).is_some() && !is_the_recorded(world, vm, volume)
    };
    let volume = volumes.iter().find(is_other)?;
    let namespace = vm.metadata.namespace.as_deref().unwrap_or_default();
    let [source, new] = [volume.source(), volume.destination()].map(Option::unwrap_or_default);
    Some(format!(
        "cannot migrate the volume {}: PVC {namespace}/{new} was created anew since the update began, and what it has would be overwritten. \
         Name PVC {source}, and then PVC {new} again",
        volume.volume_name
    ))
}

/// True if the destination of a volume is the PVC that had its name when the update began. Updates of earlier versions did not write that
/// down.
pub(super) fn is_the_recorded(world: &World, vm: &VirtualMachine, volume: &MigratedVolume) -> bool {
    let noted = vm.metadata.annotations.get(DESTINATION_UIDS);
    let mut noted = noted.iter().flat_map(|noted| noted.split(',')).filter_map(|one| one.split_once('='));
    let noted = noted.find(|(name, _)| *name == volume.volume_name).map(|(_, uid)| uid);
    let uid = || destination(world, vm, volume).and_then(|claim| claim.meta.uid.as_deref());
    noted.is_none_or(|noted| uid() == Some(noted))
}

fn destination<'a>(
    world: &'a World,
    vm: &VirtualMachine,
    volume: &MigratedVolume,
) -> Option<&'a PersistentVolumeClaim> {
    world.pvcs.get(vm.metadata.namespace.as_deref().unwrap_or_default(), volume.destination()?)
}
