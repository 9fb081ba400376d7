//! The state of a VMI's PVCs in its status, for virt-handler, which makes their disks, and for users.

use super::VmiReconcile;
use super::outcome::{Change, Outcome};
use api::vmi::{ClaimInfo, VolumeStatus};
use cluster_model::objects::{PersistentVolumeClaim, World, claim_of};
use cluster_model::state::STATE_FOR;

/// The state of the PVCs of a VMI. Other entries of its volumes stay.
pub(super) fn volumes(input: &VmiReconcile<'_>) -> Outcome {
    let VmiReconcile { world, vmi, .. } = *input;
    let namespace = vmi.metadata.namespace.as_deref().unwrap_or_default();
    let mut list = vmi.status.as_ref().map(|status| status.volume_status.clone()).unwrap_or_default();
    for volume in &vmi.spec.volumes {
        let Some(name) = claim_of(volume) else { continue };
        let Some(claim) = world.pvcs.get(namespace, name) else { continue };
        set_claim(&mut list, world, &volume.name, name, claim);
    }
    // The PVC of its state has an entry under the name of the PVC, as upstream has it.
    if let Some(claim) = super::state::find(world, vmi)
        && let Some(name) = &claim.meta.name
    {
        let is_volume =
            |known: &VolumeStatus| vmi.spec.volumes.iter().any(|volume| volume.name == known.name);
        list.retain(|known| is_volume(known) || known.name == *name || !known.name.starts_with(STATE_FOR));
        set_claim(&mut list, world, name, name, claim);
    }
    Outcome::default().change(Change::Volumes(list))
}

/// Sets the entry of a volume whose PVC is `claim`, of this name.
fn set_claim(
    list: &mut Vec<VolumeStatus>,
    world: &World,
    volume: &str,
    name: &str,
    claim: &PersistentVolumeClaim,
) {
    let at = match list.iter().position(|known| known.name == volume) {
        Some(at) => at,
        None => {
            list.push(VolumeStatus { name: volume.to_owned(), ..VolumeStatus::default() });
            list.len() - 1
        }
    };
    let known = list[at].persistent_volume_claim_info.get_or_insert_default();
    *known = claim_info(world, name, claim, known);
    list.sort_by(|one, other| one.name.cmp(&other.name));
}

/// The part of its file system that a PVC keeps for itself, where the settings of the cluster say one: `0.06`.
fn overhead(world: &World, claim: &PersistentVolumeClaim) -> Option<String> {
    if claim.spec.volume_mode.as_deref() == Some("Block") {
        return None;
    }
    let thousandths = world.disk_settings().overhead(claim.spec.storage_class_name.as_deref())?;
    Some((f64::from(thousandths) / 1000.0).to_string())
}

/// Facts about a PVC for the status of a VMI.
pub(crate) fn claim_info(
    world: &World,
    name: &str,
    claim: &PersistentVolumeClaim,
    known: &ClaimInfo,
) -> ClaimInfo {
    ClaimInfo {
        filesystem_overhead: overhead(world, claim),
        claim_name: Some(name.to_owned()),
        access_modes: claim.spec.access_modes.clone(),
        volume_mode: Some(claim.spec.volume_mode.clone().unwrap_or_else(|| "Filesystem".to_owned())),
        capacity: claim.status.capacity.clone(),
        requests: claim.spec.resources.as_ref().map(|wanted| wanted.requests.clone()).unwrap_or_default(),
        preallocated: claim.is_preallocated().then_some(true),
        ..known.clone()
    }
}
