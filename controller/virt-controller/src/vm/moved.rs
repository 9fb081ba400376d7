//! PVCs that a VM has since a live migration copied its disks into them: the VM gets the names that its VMI has.
//!
//! ```text
//!  VMI: volume on NEW, status.migratedVolumes  ─►  VM: template on NEW, no dataVolumeTemplate of OLD  ─►  VMI: no migratedVolumes
//! ```
//!
//! **Guarantees.** The names are written once, while the VMI has `status.migratedVolumes`. A tool that writes the old name back later is
//! not fought: the VM says that its PVC has moved, and does not start on it ([`super::disks`]).

use crate::template::replace_claims;
use api::vm::VirtualMachine;
use api::vmi::{MigratedVolume, VirtualMachineInstance};
use api::wire::Wire;
use cluster_model::objects::{Kind, claim_of};
use cluster_model::plan::{Plan, Step};

/// Volumes of a VMI that are on their new PVCs, and that its VM may not have yet.
fn arrived(vmi: &VirtualMachineInstance) -> impl Iterator<Item = &MigratedVolume> {
    let all = vmi.status.iter().flat_map(|status| &status.migrated_volumes);
    all.filter(|volume| volume.has_destination(&vmi.spec.volumes))
}

/// Gives the VM the PVCs of its VMI.
pub(super) fn take(next: &mut VirtualMachine, vmi: &VirtualMachineInstance) {
    let arrived: Vec<MigratedVolume> = arrived(vmi).cloned().collect();
    replace_claims(next, &arrived);
}

/// Removes `status.migratedVolumes` of a VMI whose VM has the new names, or is being deleted. Returns true where it is removed.
pub(super) fn settle(vm: &VirtualMachine, vmi: &VirtualMachineInstance, plan: &mut Plan) -> bool {
    let has_source = |volume: &MigratedVolume| {
        let volumes = vm.spec.template.iter().flat_map(|template| &template.spec.volumes);
        let own = volumes.into_iter().find(|own| own.name == volume.volume_name);
        own.and_then(claim_of).is_some() && own.and_then(claim_of) == volume.source()
    };
    // A deletion makes it another version.
    let is_deleted =
        |step: &Step| matches!(step, Step::Delete { key, .. } if key.kind == Kind::VirtualMachineInstance);
    if plan.steps.iter().any(is_deleted) {
        return false;
    }
    let is_written = vm.metadata.deletion_timestamp.is_some() || !arrived(vmi).any(has_source);
    if !is_written || arrived(vmi).next().is_none() {
        return false;
    }
    let mut next = vmi.clone();
    next.status.iter_mut().for_each(|status| status.migrated_volumes.clear());
    plan.update(Kind::VirtualMachineInstance, &vmi.metadata, &vmi.write(), &next.write(), false);
    true
}
