//! PVCs of a VMI that a live migration moves into new ones (`migration::copied_claims`): those that no other node can use at the same
//! time, whose disks it copies, and that of EFI variables and the TPM, whose content is part of the guest.
//!
//! The reason why one cannot be copied is written into an annotation of the VMI, from which virt-handler takes it into the condition
//! `LiveMigratable`: so drains, workload updates and users hear it before a migration is created.

use super::outcome::{Change, Outcome};
use super::volume_update;
use super::{VmiReconcile, checked, phase, state, vm_of};
use api::machine::{Disk, Volume, is_of_one_node};
use api::vmi::{MigratedVolume, Phase, VirtualMachineInstance};
use cluster_model::objects::{Kind, PersistentVolumeClaim, World, claims_of, owner};

/// A disk that is copied, and its PVC.
pub(crate) struct CopiedClaim<'a> {
    pub(crate) volume: String,
    pub(crate) source: &'a PersistentVolumeClaim,
    /// The PVC that the VM names, where its volumes are migrated. Unset: a new one.
    pub(crate) destination: Option<String>,
    /// True for the PVC of EFI variables and the TPM, which no volume names.
    pub(crate) is_state: bool,
}

/// The disks of a VMI that are copied into new PVCs, or the reason why one cannot be.
pub(crate) fn copied_claims<'a>(
    world: &'a World,
    vmi: &VirtualMachineInstance,
) -> Result<Vec<CopiedClaim<'a>>, String> {
    copied(world, vmi, &volume_update::of_vmi(world, vmi))
}

/// The same for a migration that leaves the update of the volumes to a later one.
pub(crate) fn copied_without_update<'a>(
    world: &'a World,
    vmi: &VirtualMachineInstance,
) -> Result<Vec<CopiedClaim<'a>>, String> {
    copied(world, vmi, &[])
}

/// `updates`: volumes with PVCs that the VM names.
fn copied<'a>(
    world: &'a World,
    vmi: &VirtualMachineInstance,
    updates: &[MigratedVolume],
) -> Result<Vec<CopiedClaim<'a>>, String> {
    let used = claims_of(vmi);
    let namespace = vmi.metadata.namespace.as_deref().unwrap_or_default();
    let of_one_node = |name: &str| {
        let claim = world.pvcs.get(namespace, name);
        claim.filter(|claim| is_of_one_node(&claim.spec.access_modes))
    };
    let state = state::find(world, vmi);
    if updates.is_empty() && state.is_none() && !used.iter().any(|name| of_one_node(name).is_some()) {
        return Ok(Vec::new());
    }
    // Faults of the spec are told where the pod is created.
    let Some((_, machine)) = checked(world, vmi, world.config()) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for disk in &machine.disks {
        let (Volume::Claim { name, .. } | Volume::DataVolume { name } | Volume::Ephemeral { claim: name }) =
            &disk.volume
        else {
            continue;
        };
        let update =
            updates.iter().find(|update| update.volume_name == disk.name && update.source() == Some(name));
        let destination = update.and_then(|update| update.destination()).map(str::to_owned);
        let source = match &destination {
            Some(_) => world.pvcs.get(namespace, name),
            None => of_one_node(name),
        };
        let Some(source) = source else { continue };
        if let Some(why) = unmovable(disk, name, &used) {
            return Err(why);
        }
        let status = vmi.status.as_ref();
        let known =
            status.and_then(|status| status.volume_status.iter().find(|known| known.name == disk.name));
        if phase(vmi) == Phase::Running && known.is_none_or(|known| known.size.is_none()) {
            return Err(format!(
                "virt-handler has not reported the size of the disk {} on PVC {name}: if its launcher is older than live migration \
                 with ReadWriteOnce, restart the VM once",
                disk.name
            ));
        }
        found.push(CopiedClaim { volume: disk.name.clone(), source, destination, is_state: false });
    }
    if let (Some(first), Some((kind, _))) = (found.first(), owner_with_template(world, vmi)) {
        return Err(format!(
            "it is of a {}, whose template has the name of PVC {}",
            kind.name(),
            first.source.meta.name.as_deref().unwrap_or_default()
        ));
    }
    found.extend(state.map(|source| moved_state(vmi, source)).transpose()?);
    Ok(found)
}

/// The reason why the disk on a PVC that one node can use at a time is not copied into a new one. `used`: the PVCs of the VMI.
fn unmovable(disk: &Disk, claim: &str, used: &[String]) -> Option<String> {
    let is_shared = || used.iter().filter(|one| *one == claim).count() > 1;
    let why = disk.unmovable_reason().or_else(|| is_shared().then_some("is not the only volume on it"))?;
    let name = &disk.name;
    Some(format!(
        "the disk {name} on PVC {claim} {why}, and the PVC is not shared (ReadWriteMany): only disks that are a PVC of their own, and \
         that the guest may write to, are copied"
    ))
}

/// The reason why no disk of a stopped VM can be moved to another node, by its PVCs. PVCs that do not exist yet are not judged. `vmi`: the
/// VMI of its start.
pub(crate) fn unmovable_stopped(world: &World, vmi: &VirtualMachineInstance) -> Option<String> {
    let namespace = vmi.metadata.namespace.as_deref().unwrap_or_default();
    let used = claims_of(vmi);
    let known: Option<Vec<&PersistentVolumeClaim>> =
        used.iter().map(|name| world.pvcs.get(namespace, name)).collect();
    if known.is_some_and(|known| known.iter().all(|claim| !is_of_one_node(&claim.spec.access_modes))) {
        return Some(
            "no PVC of the VM is of one node alone: the VM can start on any node as it is".to_owned(),
        );
    }
    let (_, machine) = checked(world, vmi, world.config())?;
    machine.disks.iter().find_map(|disk| {
        let (Volume::Claim { name, .. } | Volume::DataVolume { name } | Volume::Ephemeral { claim: name }) =
            &disk.volume
        else {
            return None;
        };
        let claim = world.pvcs.get(namespace, name)?;
        is_of_one_node(&claim.spec.access_modes).then(|| unmovable(disk, name, &used))?
    })
}

/// The PVC of EFI variables and the TPM, whose content goes with the guest's memory, shared or not. No volume has its name.
fn moved_state<'a>(
    vmi: &VirtualMachineInstance,
    source: &'a PersistentVolumeClaim,
) -> Result<CopiedClaim<'a>, String> {
    let volume = source.meta.name.clone().unwrap_or_default();
    match vmi.spec.volumes.iter().any(|one| one.name == volume) {
        true => Err(format!(
            "the volume {volume} has the name of the PVC that keeps EFI variables and TPM: rename it"
        )),
        false => Ok(CopiedClaim { volume, source, destination: None, is_state: true }),
    }
}

/// The reason for virt-handler why a PVC cannot be copied.
pub(super) fn refusal(input: &VmiReconcile<'_>) -> Outcome {
    Outcome::default().change(Change::NotCopied(copied_claims(input.world, input.vmi).err()))
}

/// Kind and name of the object whose template has the names of a VMI's PVCs, beside its VM: the next guest of it would not know the new
/// ones.
pub(super) fn owner_with_template<'a>(
    world: &'a World,
    vmi: &'a VirtualMachineInstance,
) -> Option<(Kind, &'a str)> {
    let of_vm = vm_of(world, vmi).and_then(|vm| owner::controller(&vm.metadata));
    let owner = of_vm.or_else(|| owner::controller(&vmi.metadata))?;
    let kinds = [Kind::VirtualMachinePool, Kind::VirtualMachineInstanceReplicaSet];
    let kind = kinds.into_iter().find(|kind| owner.kind == kind.name())?;
    Some((kind, &owner.name))
}
