//! VMIs that use the disk: one that waits for it determines where the volume is made, and under one that runs nothing is written.
//!
//! | VMI | no launcher pod, or one that has ended | a launcher pod that has not ended |
//! |---|---|---|
//! | waits (no phase, Pending) | consumer; user while a plan for it may create its pod | user: its pod is made before its phase says so |
//! | Scheduling … Running | user | user |
//! | Succeeded, Failed | neither | user |

use api::vmi::VirtualMachineInstance;
use cluster_model::objects::{IndexKey, Kind, LauncherPods, PersistentVolumeClaim, World};

/// The VMI that waits for the disk of a PVC, where there is one.
pub(super) fn consumer<'a>(
    world: &'a World,
    claim: &PersistentVolumeClaim,
) -> Option<&'a VirtualMachineInstance> {
    vmis(world, claim).find(|vmi| {
        vmi.metadata.deletion_timestamp.is_none()
            && cluster_model::objects::is_waiting(vmi)
            && !has_launcher(world, vmi)
    })
}

/// Name of a VMI that may write to the disk of a PVC: one that is past waiting, or has a launcher pod, or may be about to get one.
pub(crate) fn user(world: &World, claim: &PersistentVolumeClaim) -> Option<String> {
    let is_at_work = |vmi: &_| !cluster_model::objects::is_waiting(vmi) && !crate::vmi::phase(vmi).is_final();
    let is_user =
        |vmi: &_| is_at_work(vmi) || has_launcher(world, vmi) || crate::vmi::may_get_pod(world, vmi);
    let vmi = vmis(world, claim).find(|vmi| is_user(vmi))?;
    vmi.metadata.name.clone()
}

/// True where a VMI has a launcher pod that has not ended, whatever its phase is.
fn has_launcher(world: &World, vmi: &VirtualMachineInstance) -> bool {
    let pods = LauncherPods::of(vmi).map(LauncherPods::any);
    let pods = pods.as_ref().map(|pods| world.launcher_pods(pods)).unwrap_or_default();
    pods.iter().any(|pod| !pod.has_ended())
}

/// The VMIs that use a PVC.
fn vmis<'a>(
    world: &'a World,
    claim: &PersistentVolumeClaim,
) -> impl Iterator<Item = &'a VirtualMachineInstance> + use<'a> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let mark = IndexKey::PersistentVolumeClaim(text(&claim.meta.namespace), text(&claim.meta.name));
    let vmis = world.marked(&mark).filter(|key| key.kind == Kind::VirtualMachineInstance);
    vmis.filter_map(move |key| world.vmis.get(&key.namespace, &key.name))
}
