//! Old PVCs of guests that have left them, and VMIs that end behind their guests.

use super::copied_claims::{bind_and_hand_over, disk, end, note, on_disk, on_one_node, sized};
use super::*;
use cluster_model::claim_moves::{MOVED_FROM_UID, MOVING_TO, RECOVERY};

/// The user deletes the old PVC as the event says, and a tool that has its manifest creates it again, empty.
#[test]
fn a_pvc_that_is_created_again_under_the_old_name_is_no_disk_of_its_vm() {
    let mut sim = Sim::new();
    let old = disk(&mut sim, "disk", &json!([]));
    let vm = sim.put(Kind::VirtualMachine, on_disk(crate::sim::vm("web", "Always"), "disk"));
    let written = sim.get(&vm)["spec"]["template"]["spec"]["volumes"].clone();
    sim.settle();
    let vmi = Key::new(Kind::VirtualMachineInstance, "n", "web");
    sim.boot(&vmi);
    sized(&mut sim, &vmi);
    let key = migration(&mut sim, "move", &vmi, &json!({}));
    let new = bind_and_hand_over(&mut sim, &key, &old);
    arrive(&mut sim, &vmi);
    sim.delete(&old);
    sim.vanish(&old);
    disk(&mut sim, "disk", &json!([]));
    sim.change(&vm, json!({"spec": {"template": {"spec": {"volumes": written}}}}));
    end(&mut sim, &vmi);
    assert!(!sim.objects.contains_key(&vmi));
    let (_, reason, message) = sim.condition(&vm, RECOVERY).unwrap();
    assert!(reason == RECOVERY && message.contains("PVC n/disk") && message.contains(&new.name), "{message}");
    rests(&mut sim);
    // Another VM may have it, and this one too where the copy is gone.
    let other = sim.put(Kind::VirtualMachine, on_disk(crate::sim::vm("other", "Always"), "disk"));
    sim.settle();
    assert!(
        sim.objects.contains_key(&Key::new(Kind::VirtualMachineInstance, "n", "other")),
        "{}",
        sim.get(&other)
    );
    sim.delete(&other);
    sim.settle();
    // The former PVC itself may be used where a person has removed its annotation.
    let former = json!({MOVED_FROM_UID: sim.uid(&old)});
    sim.change(&new, json!({"metadata": {"annotations": former}}));
    sim.settle();
    assert!(sim.condition(&vm, RECOVERY).is_none(), "{}", sim.get(&vm));
}

/// A virt-handler that began anew has taken the end of the source for the end of the VMI.
#[test]
fn both_pvcs_stay_where_a_vmi_is_ended_behind_its_guest() {
    use api::launcher::{Ending, Life, MIGRATED};
    let (mut sim, vmi, key, old) = on_one_node();
    let new = bind_and_hand_over(&mut sim, &key, &old);
    let source = sim.pod_of(&vmi).unwrap();
    report(
        &mut sim,
        &vmi,
        &json!({"targetNodeAddress": "192.0.2.2", "startTimestamp": "2027-01-01T00:00:00Z"}),
    );
    let left = Ending { life: Life::Succeeded, reason: Some(MIGRATED.into()), message: None };
    sim.launcher_ends(&source, "Succeeded", 0, Some(left));
    sim.agent_says(&vmi, "Succeeded");
    sim.settle();
    assert_eq!(note(&sim, &old, MOVING_TO), new.name);
    assert!(sim.objects.contains_key(&new) && told(&sim, RECOVERY).len() == 1, "{:?}", sim.told);
}

/// A policy of the cluster protects PVCs.
#[test]
fn a_new_pvc_that_cannot_be_deleted_keeps_no_vmi_from_ending() {
    use cluster_model::objects::{Attempt, Failure};
    let (mut sim, vmi, key, old) = on_one_node();
    let new = bind_and_hand_over(&mut sim, &key, &old);
    let end_of = json!({"completed": true, "failed": true, "failureReason": "x", "endTimestamp": "2027-01-01T00:00:09Z"});
    let (about, message) = (Attempt::Delete(Kind::PersistentVolumeClaim), "denied by policy".to_owned());
    let retry = sim.now + jiff::SignedDuration::from_secs(60);
    sim.world.failures.insert(vmi.clone(), Failure { about, message, times: 1, retry });
    sim.change(&vmi, json!({"status": {"migrationState": end_of}}));
    let mut plan = crate::decide(&sim.world, &vmi, sim.now);
    plan.steps.retain(|step| step.attempt() != Some(Attempt::Delete(Kind::PersistentVolumeClaim)));
    sim.apply(plan);
    sim.settle();
    assert!(sim.get(&vmi)["status"]["migratedVolumes"].is_null());
    assert_eq!((note(&sim, &old, MOVING_TO), sim.objects.contains_key(&new)), ("", true));
    let told = told(&sim, "FailedDelete");
    assert!(
        told.len() == 1 && told[0].contains(&new.name) && told[0].contains("denied by policy"),
        "{told:?}"
    );
    rests(&mut sim);
    sim.delete(&vmi);
    end(&mut sim, &vmi);
    assert!(!sim.objects.contains_key(&vmi));
}
