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
    let pods = LauncherPods::for_vmi(vmi).map(LauncherPods::any);
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
    let vmis = world.indexed_by(&mark).filter(|key| key.kind == Kind::VirtualMachineInstance);
    vmis.filter_map(move |key| world.vmis.get(&key.namespace, &key.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Sim;
    use cluster_model::uploads::POD_PHASE;
    use serde_json::json;

    /// A worker that begins under a guest writes over its disk; one that waits for a VMI that waits for it never begins.
    #[test]
    fn a_vmi_uses_a_disk_or_waits_for_it_by_its_phase_and_its_launcher_pod() {
        const NONE: Option<&str> = None;
        const LIVES: Option<&str> = Some("Running");
        const OVER: Option<&str> = Some("Succeeded");
        for (phase, pod, is_busy, more, (waits, uses)) in [
            ("", NONE, false, "", (true, false)),
            ("Pending", NONE, false, "", (true, false)),
            ("Pending", NONE, true, "", (true, true)),
            ("Pending", NONE, true, "half", (true, false)),
            ("Pending", LIVES, false, "", (false, true)),
            ("Pending", OVER, false, "", (true, false)),
            ("Pending", NONE, false, "going", (false, false)),
            ("Scheduling", NONE, false, "", (false, true)),
            ("Running", LIVES, false, "", (false, true)),
            ("Running", OVER, false, "", (false, true)),
            ("Failed", LIVES, false, "", (false, true)),
            ("Failed", OVER, false, "", (false, false)),
            ("Succeeded", NONE, false, "", (false, false)),
            ("Succeeded", NONE, true, "", (false, false)),
        ] {
            let mut sim = Sim::new();
            let meta = json!({"namespace": "n", "name": "disk"});
            let claim = json!({"metadata": meta, "spec": {}, "status": {"phase": "Bound"}});
            let claim = sim.put(Kind::PersistentVolumeClaim, claim);
            let mut object = crate::sim::vmi("web");
            object["spec"]["volumes"] =
                json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]);
            let vmi = sim.put(Kind::VirtualMachineInstance, object);
            if let Some(phase) = pod {
                sim.settle();
                let pod = sim.pod_of(&vmi).unwrap();
                sim.change(&pod, json!({"status": {"phase": phase}}));
            }
            match more {
                "half" => sim.change(&claim, json!({"metadata": {"annotations": {POD_PHASE: "Running"}}})),
                "going" => sim.delete(&vmi),
                _ => {}
            }
            if is_busy {
                sim.world.busy.insert(vmi.clone());
            }
            // In the picture alone: not every phase may follow the one before.
            let mut object = sim.get(&vmi).clone();
            object["status"] = json!({"phase": phase});
            sim.world.put(Kind::VirtualMachineInstance, object, sim.now);
            let claim = sim.world.pvcs.get("n", "disk").unwrap();
            let is = (consumer(&sim.world, claim).is_some(), user(&sim.world, claim).is_some());
            assert_eq!(is, (waits, uses), "{phase} {pod:?} {is_busy} {more}");
        }
    }
}
