//! Updates of volumes that would overwrite another disk, or start a guest without its own.

use super::copied_claims::{bind_and_hand_over, disk, end, note, of_vm, on_disk, sized, used};
use super::volume_updates::{claim, migratable, name, on_data, only, open, recorded, restart};
use super::*;
use cluster_model::claim_moves::{
    MOVED_FROM, MOVED_FROM_UID, MOVED_TO, MOVED_VM, ORIGIN, ORIGIN_UID, RECOVERY,
};

/// The volumes of a VM, as its template has them.
fn volumes(sim: &Sim, vm: &Key) -> Value {
    sim.get(vm)["spec"]["template"]["spec"]["volumes"][0].clone()
}

/// A PVC that is deleted, and created again under its name.
fn make_anew(sim: &mut Sim, key: &Key) {
    sim.delete(key);
    sim.vanish(key);
    disk(sim, &key.name, &json!([]));
}

/// The guest can be on both nodes at once.
fn share(sim: &mut Sim, claims: &[&Key]) {
    for claim in claims {
        sim.change(claim, json!({"spec": {"accessModes": ["ReadWriteMany"]}}));
    }
    sim.settle();
}

#[test]
fn a_pvc_that_another_vm_or_vmi_names_is_not_overwritten() {
    for (kind, short) in [(Kind::VirtualMachine, "VM"), (Kind::VirtualMachineInstance, "VMI")] {
        let (mut sim, vm, vmi, _) = on_data();
        let other = match kind {
            Kind::VirtualMachine => crate::sim::vm("db", "Halted"),
            _ => crate::sim::vmi("db"),
        };
        let other = sim.put(kind, on_disk(other, "new"));
        if kind == Kind::VirtualMachineInstance {
            sim.boot(&other);
        }
        let written = volumes(&sim, &vm);
        name(&mut sim, &vm, &claim("new"));
        assert_eq!((open(&sim), recorded(&sim, &vm)), (vec![], json!([null, null])));
        let message = restart(&sim, &vm).unwrap();
        let expected = format!("PVC new is a disk of {} db, too", short);
        assert!(message.contains(&expected) && message.contains("PVC data"), "{message}");
        assert_eq!(sim.get(&vmi)["status"]["migratedVolumes"], Value::Null);
        rests(&mut sim);
        // The other one is gone, perhaps for a moment only: the disk is not overwritten behind its back.
        sim.delete(&other);
        if let Some(pod) = sim.keys(Kind::Pod).into_iter().find(|pod| sim.pod_of(&vmi).as_ref() != Some(pod))
        {
            sim.agent_says(&other, "Succeeded");
            sim.pod_ends(&pod, "Succeeded", 0);
            sim.settle();
            sim.vanish(&pod);
        }
        sim.advance(600);
        sim.settle();
        assert!(!sim.objects.contains_key(&other));
        assert_eq!((open(&sim), restart(&sim, &vm)), (vec![], Some(message)), "{kind:?}");
        name(&mut sim, &vm, &written);
        assert_eq!(restart(&sim, &vm), None);
        name(&mut sim, &vm, &claim("new"));
        assert_eq!((restart(&sim, &vm), recorded(&sim, &vm)), (None, json!(["data", "new"])));
        drop(only(&sim));
    }
}

#[test]
fn nothing_is_copied_into_a_pvc_that_another_vm_has_named_meanwhile() {
    let (mut sim, vm, vmi, _) = on_data();
    name(&mut sim, &vm, &claim("new"));
    let key = only(&sim);
    let other = sim.put(Kind::VirtualMachine, on_disk(crate::sim::vm("db", "Halted"), "new"));
    hand_over(&mut sim, &key);
    assert!(waits_for(&sim, &key).contains("PVC new is a disk of VM db, too"), "{}", waits_for(&sim, &key));
    assert!(sim.get(&vmi)["status"]["migratedVolumes"].is_null());
    rests(&mut sim);
    sim.delete(&other);
    sim.settle();
    sim.advance(60);
    sim.settle();
    assert_eq!(sim.phase(&key), "PreparingTarget");
    arrive(&mut sim, &vmi);
    assert_eq!(used(&sim, &vmi), "new");
}

#[test]
fn a_pvc_that_is_made_anew_under_the_name_is_not_overwritten() {
    let (mut sim, vm, vmi, new) = on_data();
    let written = volumes(&sim, &vm);
    name(&mut sim, &vm, &claim("new"));
    let key = only(&sim);
    make_anew(&mut sim, &new);
    hand_over(&mut sim, &key);
    assert!(sim.get(&vmi)["status"]["migratedVolumes"].is_null(), "{}", sim.get(&vmi)["status"]);
    let message = restart(&sim, &vm).unwrap();
    assert!(message.contains("PVC n/new was created anew") && message.contains("PVC data"), "{message}");
    rests(&mut sim);
    name(&mut sim, &vm, &written);
    assert_eq!((open(&sim), restart(&sim, &vm)), (vec![], None));
    sim.keys(Kind::Pod)
        .into_iter()
        .filter(|pod| crate::sim::is_going(sim.get(pod)))
        .collect::<Vec<_>>()
        .iter()
        .for_each(|pod| sim.vanish(pod));
    sim.advance(60);
    name(&mut sim, &vm, &claim("new"));
    let key = only(&sim);
    hand_over(&mut sim, &key);
    arrive(&mut sim, &vmi);
    assert_eq!((used(&sim, &vmi), restart(&sim, &vm)), ("new".to_owned(), None));
}

/// The guest has arrived, and its VMI has ended before its VM has settled the update.
#[test]
fn a_vm_starts_on_the_pvc_that_its_disk_was_copied_into_and_on_no_other_of_the_name() {
    for is_anew in [false, true] {
        let (mut sim, vm, vmi, new) = on_data();
        name(&mut sim, &vm, &claim("new"));
        end(&mut sim, &vmi);
        assert!(!sim.objects.contains_key(&vmi) && sim.condition(&vm, RECOVERY).is_some());
        if is_anew {
            make_anew(&mut sim, &new);
        }
        let old = Key::new(Kind::PersistentVolumeClaim, "n", "data");
        sim.change(&old, json!({"metadata": {"annotations": {MOVED_TO: "new"}}}));
        sim.settle();
        assert_eq!(sim.objects.contains_key(&vmi), !is_anew, "{}", sim.get(&vm)["status"]);
        assert_eq!(sim.condition(&vm, RECOVERY).is_some(), is_anew);
    }
}

#[test]
fn a_vm_whose_guest_ends_before_its_update_begins_does_not_start_without_its_disk() {
    for (case, back) in
        [("missing", true), ("missing", false), ("refused", true), ("late", true), ("late", false)]
    {
        let (mut sim, vm, vmi, new) = on_data();
        let written = volumes(&sim, &vm);
        match case {
            "missing" => {
                sim.delete(&new);
                sim.vanish(&new);
                name(&mut sim, &vm, &claim("new"));
            }
            "refused" => {
                sim.change(&new, json!({"spec": {"volumeMode": "Block"}}));
                name(&mut sim, &vm, &claim("new"));
            }
            // The VM is changed when its guest has just ended.
            _ => {
                sim.agent_says(&vmi, "Succeeded");
                let spec = json!({"updateVolumesStrategy": "Migration", "template": {"spec": {"volumes": [
                    {"name": "root", "persistentVolumeClaim": {"claimName": "new"}}]}}});
                sim.change(&vm, json!({"spec": spec}));
            }
        }
        assert_eq!(open(&sim), []);
        end(&mut sim, &vmi);
        assert!(!sim.objects.contains_key(&vmi), "{case}: {}", sim.get(&vmi));
        let (status, reason, message) = sim.condition(&vm, RECOVERY).unwrap();
        assert_eq!((status.as_str(), reason.as_str()), ("True", RECOVERY), "{case}");
        assert!(message.contains("updateVolumesStrategy"), "{message}");
        assert_eq!(recorded(&sim, &vm), json!(["data", "new"]), "{case}");
        disk(&mut sim, "new", &json!([]));
        sim.advance(600);
        sim.settle();
        assert!(!sim.objects.contains_key(&vmi), "{case}");
        rests(&mut sim);
        match back {
            true => name(&mut sim, &vm, &written),
            false => {
                sim.change(&vm, json!({"spec": {"updateVolumesStrategy": null}}));
                sim.settle();
            }
        }
        assert_eq!(used(&sim, &vmi), if back { "data" } else { "new" }, "{case}");
        assert_eq!(
            (sim.condition(&vm, RECOVERY), recorded(&sim, &vm)),
            (None, json!([null, null])),
            "{case}"
        );
    }
}

/// The next start has what the VM says, where nothing of the guest is left behind.
#[test]
fn a_vm_that_was_changed_while_it_was_stopped_starts_on_the_new_pvc_and_so_does_one_with_another_cd_rom() {
    let (mut sim, vm, vmi, _) = on_data();
    sim.change(&vm, json!({"spec": {"running": null, "runStrategy": "Manual"}}));
    end(&mut sim, &vmi);
    assert_eq!(sim.phase(&vmi), "Succeeded");
    name(&mut sim, &vm, &claim("new"));
    assert_eq!(sim.condition(&vm, RECOVERY), None);
    sim.change(&vm, json!({"spec": {"runStrategy": "Always"}}));
    sim.settle();
    assert!(sim.objects.contains_key(&vmi), "{}", sim.get(&vm));
    assert_eq!(used(&sim, &vmi), "new");

    let (mut sim, vm, vmi, _) = of_vm(|_, object| {
        object["spec"]["template"]["spec"]["domain"]["devices"]["disks"][0] =
            json!({"name": "root", "cdrom": {}});
    });
    disk(&mut sim, "new", &json!([]));
    migratable(&mut sim, &vmi);
    name(&mut sim, &vm, &claim("new"));
    assert!(restart(&sim, &vm).unwrap().contains("read-only"));
    end(&mut sim, &vmi);
    // The pod of the next VMI has ended with the others.
    sim.advance(60);
    sim.settle();
    assert!(sim.objects.contains_key(&vmi), "{}", sim.get(&vm));
    assert_eq!(used(&sim, &vmi), "new");
}

#[test]
fn the_new_pvc_says_whose_disk_it_has() {
    let (mut sim, vm, vmi, new) = on_data();
    let old = Key::new(Kind::PersistentVolumeClaim, "n", "data");
    let written = volumes(&sim, &vm);
    let (uid, of) = (sim.uid(&old), sim.uid(&vm));
    let notes = |sim: &Sim| {
        [MOVED_FROM, ORIGIN, MOVED_FROM_UID, ORIGIN_UID, MOVED_VM].map(|one| note(sim, &new, one).to_owned())
    };
    name(&mut sim, &vm, &claim("new"));
    let key = only(&sim);
    hand_over(&mut sim, &key);
    assert_eq!(notes(&sim), [const { String::new() }; 5], "half a disk is not the guest's");
    arrive(&mut sim, &vmi);
    assert_eq!(notes(&sim), ["data", "data", &uid, &uid, &of]);
    rests(&mut sim);
    // A manifest makes a PVC of the old name, and the VM has it again.
    make_anew(&mut sim, &old);
    sim.change(
        &vm,
        json!({"spec": {"updateVolumesStrategy": null, "template": {"spec": {"volumes": [written]}}}}),
    );
    end(&mut sim, &vmi);
    assert!(!sim.objects.contains_key(&vmi), "{}", sim.get(&vmi));
    let (_, _, message) = sim.condition(&vm, RECOVERY).unwrap();
    assert!(message.contains("n/data into PVC new"), "{message}");
}

#[test]
fn an_update_of_a_vm_of_a_pool_is_refused_by_the_name_of_the_pool() {
    let (mut sim, vm, vmi, old) = of_vm(|_, object| {
        let owner = json!({"apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool", "name": "webs",
            "uid": "of-webs", "controller": true});
        object["metadata"]["ownerReferences"] = json!([owner]);
    });
    let new = disk(&mut sim, "new", &json!([]));
    share(&mut sim, &[&old, &new]);
    migratable(&mut sim, &vmi);
    name(&mut sim, &vm, &claim("new"));
    assert_eq!((open(&sim), recorded(&sim, &vm)), (vec![], json!([null, null])));
    let message = restart(&sim, &vm).unwrap();
    assert!(message.contains("VirtualMachinePool webs"), "{message}");
    rests(&mut sim);
}

/// An update whose PVC is not filled kept its VMI on the node.
#[test]
fn a_drain_goes_on_with_the_pvcs_that_the_guest_has_and_the_update_follows() {
    for is_shared in [false, true] {
        let (mut sim, vm, vmi, old) = of_vm(|_, object| {
            object["spec"]["template"]["spec"]["evictionStrategy"] = json!("LiveMigrate");
        });
        let new = disk(&mut sim, "new", &json!([]));
        if is_shared {
            share(&mut sim, &[&old]);
        }
        let data = json!({"metadata": {"namespace": "n", "name": "new"}, "spec": crate::sim::blank(), "status": {"phase": "ImportInProgress"}});
        let data = sim.put(Kind::DataVolume, data);
        migratable(&mut sim, &vmi);
        name(&mut sim, &vm, &claim("new"));
        let key = only(&sim);
        assert!(
            waits_for(&sim, &key).contains("DataVolume new is not filled yet"),
            "{}",
            waits_for(&sim, &key)
        );
        sim.change(&vmi, json!({"status": {"evacuationNodeName": "node1"}}));
        sim.advance(60);
        sim.settle();
        let pod = target(&sim, &key).expect("a target pod");
        assert!(
            told(&sim, "SuccessfulCreate")
                .iter()
                .any(|said| said.contains("DataVolume new is not filled yet"))
        );
        let moved = used(&sim, &pod);
        assert_eq!((moved == "data", moved.starts_with("data-moved-")), (is_shared, !is_shared), "{moved}");
        if !is_shared {
            sim.bind(&Key::new(Kind::PersistentVolumeClaim, "n", &moved));
        }
        // It is filled when the pod has the other PVC already.
        sim.change(&data, json!({"status": {"phase": "Succeeded"}}));
        hand_over(&mut sim, &key);
        arrive(&mut sim, &vmi);
        assert_eq!((sim.phase(&key), used(&sim, &vmi)), ("Succeeded", moved.clone()));
        assert_eq!((recorded(&sim, &vm), used(&sim, &vm)), (json!([moved, "new"]), "new".to_owned()));
        assert_eq!(restart(&sim, &vm), None);
        let left: Vec<Key> = sim.keys(Kind::Pod).into_iter().filter(|one| *one != pod).collect();
        for one in left {
            sim.pod_ends(&one, "Succeeded", 0);
            sim.vanish(&one);
        }
        sim.change(&vmi, json!({"status": {"evacuationNodeName": null}}));
        sized(&mut sim, &vmi);
        sim.advance(60);
        sim.settle();
        let next = only(&sim);
        let pod = target(&sim, &next).expect("a target pod");
        assert_eq!(used(&sim, &pod), "new");
        sim.pod_runs(&pod, "node1");
        sim.settle();
        arrive(&mut sim, &vmi);
        assert_eq!((sim.phase(&next), used(&sim, &vmi)), ("Succeeded", "new".to_owned()));
        assert_eq!((recorded(&sim, &vm), restart(&sim, &vm)), (json!([null, null]), None));
        assert_eq!(note(&sim, &new, ORIGIN), "data");
    }
}

/// The update is refused when its target pod has the new PVC already.
#[test]
fn a_guest_does_not_go_to_a_pod_with_other_pvcs() {
    let (mut sim, vm, vmi, new) = on_data();
    let old = Key::new(Kind::PersistentVolumeClaim, "n", "data");
    disk(&mut sim, "third", &json!([]));
    share(&mut sim, &[&old, &new]);
    name(&mut sim, &vm, &claim("new"));
    let key = only(&sim);
    assert_eq!(used(&sim, &target(&sim, &key).unwrap()), "new");
    name(&mut sim, &vm, &claim("third"));
    hand_over(&mut sim, &key);
    assert!(
        !["PreparingTarget", "Running"].contains(&sim.phase(&key)),
        "the pod has PVC new, and the VMI PVC data"
    );
    assert_eq!(used(&sim, &vmi), "data");
}

/// Its record would have the PVC of before, from which nothing can be copied any more.
#[test]
fn an_update_during_a_migration_begins_from_the_pvc_that_the_guest_arrives_on() {
    let (mut sim, vm, vmi, _) = on_data();
    let key = migration(&mut sim, "move", &vmi, &json!({}));
    let old = Key::new(Kind::PersistentVolumeClaim, "n", "data");
    let moved = bind_and_hand_over(&mut sim, &key, &old);
    name(&mut sim, &vm, &claim("new"));
    assert_eq!(recorded(&sim, &vm), json!([null, null]));
    let (status, _, message) = sim.condition(&vmi, "VolumesChange").unwrap();
    let waits = "the volumes are migrated when the migration of the VMI has ended";
    assert_eq!((status.as_str(), message.as_str()), ("False", waits));
    report(
        &mut sim,
        &vmi,
        &json!({"targetNodeAddress": "192.0.2.2", "startTimestamp": "2027-01-01T00:00:00Z"}),
    );
    arrive(&mut sim, &vmi);
    assert_eq!((sim.phase(&key), used(&sim, &vmi)), ("Succeeded", moved.name.clone()));
    assert_eq!(recorded(&sim, &vm), json!([moved.name, "new"]));
    only(&sim);
}
