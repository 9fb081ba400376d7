//! What is known of a VMI's PVCs, for whoever makes their disks and for people.

use super::Round;
use api::vmi::{ClaimInfo, VolumeStatus};
use cluster_model::config::imports;
use cluster_model::objects::{PersistentVolumeClaim, World, claim_of};

impl Round<'_> {
    /// Repeats what its claims are like. What others say of its volumes stays.
    pub(super) fn say_volumes(&mut self) {
        let namespace = self.vmi.metadata.namespace.as_deref().unwrap_or_default();
        let world = self.world;
        for volume in &self.vmi.spec.volumes {
            let Some(name) = claim_of(volume) else { continue };
            let Some(claim) = world.pvcs.get(namespace, name) else { continue };
            self.say_volume(&volume.name, name, claim);
        }
        // As upstream: under the name of the PVC.
        if let Some(claim) = super::state::of(world, self.vmi)
            && let Some(name) = &claim.meta.name
        {
            self.say_volume(name, name, claim);
        }
    }

    fn say_volume(&mut self, volume: &str, name: &str, claim: &PersistentVolumeClaim) {
        let list = &mut self.next.status.get_or_insert_default().volume_status;
        let at = match list.iter().position(|known| known.name == volume) {
            Some(at) => at,
            None => {
                list.push(VolumeStatus { name: volume.to_owned(), ..VolumeStatus::default() });
                list.len() - 1
            }
        };
        let known = list[at].persistent_volume_claim_info.get_or_insert_default();
        *known = info(name, claim, known, overhead(self.world, claim));
        list.sort_by(|one, other| one.name.cmp(&other.name));
    }
}

/// The part of its file system that a PVC keeps for itself, where the settings of the cluster say one: `0.06`.
fn overhead(world: &World, claim: &PersistentVolumeClaim) -> Option<String> {
    if claim.spec.volume_mode.as_deref() == Some("Block") {
        return None;
    }
    let thousandths = imports::overhead(world, claim.spec.storage_class_name.as_deref())?;
    Some((f64::from(thousandths) / 1000.0).to_string())
}

fn info(
    name: &str,
    claim: &PersistentVolumeClaim,
    known: &ClaimInfo,
    filesystem_overhead: Option<String>,
) -> ClaimInfo {
    ClaimInfo {
        filesystem_overhead,
        claim_name: Some(name.to_owned()),
        access_modes: claim.spec.access_modes.clone(),
        volume_mode: Some(claim.spec.volume_mode.clone().unwrap_or_else(|| "Filesystem".to_owned())),
        capacity: claim.status.capacity.clone(),
        requests: claim.spec.resources.as_ref().map(|wanted| wanted.requests.clone()).unwrap_or_default(),
        preallocated: claim.is_preallocated().then_some(true),
        ..known.clone()
    }
}
