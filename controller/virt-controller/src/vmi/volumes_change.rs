//! The condition `VolumesChange`: the migration of a VM's volumes (`volume_update`), as its VMI tells it.

use super::outcome::Outcome;
use super::volume_update::{self, CANCELLED, UNDERWAY, VolumeUpdate};
use super::{VmiReconcile, vm_of};
use api::vmi::ConditionType;

/// The condition of a VMI whose volumes are migrated, or are to be. That of an update that was taken back stays until the next one.
pub(super) fn volumes_change(input: &VmiReconcile<'_>) -> Outcome {
    let VmiReconcile { world, vmi, .. } = *input;
    let (outcome, kind) = (Outcome::default(), ConditionType::VolumesChange);
    let vm = vm_of(world, vmi);
    let is_recorded = vm.is_some_and(|vm| !volume_update::recorded(vm).is_empty());
    match vm.map_or(VolumeUpdate::None, |vm| volume_update::find(world, vm, Some(vmi))) {
        VolumeUpdate::Underway(_) if is_recorded => outcome.condition(kind, "True", "", UNDERWAY),
        VolumeUpdate::Waits(message) => outcome.condition(kind, "False", "", &message),
        VolumeUpdate::Cancelled => {
            outcome.condition(kind, "False", CANCELLED, "the volumes are on the PVCs that the VM names again")
        }
        // Half of an update was taken back: the other half is not.
        VolumeUpdate::Refused(_) | VolumeUpdate::PvcInUse(_) if is_recorded => outcome,
        VolumeUpdate::None if volume_update::is_cancelled(vmi) => outcome,
        _ => outcome.no_condition(kind),
    }
}
