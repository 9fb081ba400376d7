//! Volumes of a VM that its guest takes along to other PVCs (`updateVolumesStrategy: Migration`).

use super::copied_claims::{disk, end, note, of_vm, used};
use super::*;
use cluster_model::claim_moves::{COPIED_INTO, MOVED_TO, MOVING_BY, MOVING_TO, RECOVERY};

/// A VM that runs on the PVC `data`, and the PVC `new`.
pub(super) fn on_data() -> (Sim, Key, Key, Key) {
    let (mut sim, vm, vmi, _) = of_vm(|_, _| {});
    let new = disk(&mut sim, "new", &json!([]));
    migratable(&mut sim, &vmi);
    (sim, vm, vmi, new)
}

/// virt-handler finds that the guest can migrate.
pub(super) fn migratable(sim: &mut Sim, vmi: &Key) {
    let mut conditions = sim.get(vmi)["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.push(json!({"type": "LiveMigratable", "status": "True"}));
    sim.change(vmi, json!({"status": {"conditions": conditions}}));
    sim.settle();
}

/// The VM names another PVC, or a DataVolume.
pub(super) fn name(sim: &mut Sim, vm: &Key, volume: &Value) {
    let mut volume = volume.clone();
    volume["name"] = json!("root");
    let spec = json!({"updateVolumesStrategy": "Migration", "template": {"spec": {"volumes": [volume]}}});
    sim.change(vm, json!({"spec": spec}));
    sim.settle();
}

pub(super) fn claim(name: &str) -> Value {
    json!({"persistentVolumeClaim": {"claimName": name}})
}

pub(super) fn recorded(sim: &Sim, vm: &Key) -> Value {
    let volumes = &sim.get(vm)["status"]["volumeUpdateState"]["volumeMigrationState"]["migratedVolumes"];
    let names = ["sourcePVCInfo", "destinationPVCInfo"].map(|info| volumes[0][info]["claimName"].clone());
    json!(names)
}

/// The migrations that have not ended.
pub(super) fn open(sim: &Sim) -> Vec<Key> {
    let all = sim.keys(Kind::VirtualMachineInstanceMigration).into_iter();
    all.filter(|key| !matches!(sim.phase(key), "Succeeded" | "Failed")).collect()
}

#[track_caller]
pub(super) fn only(sim: &Sim) -> Key {
    let all = open(sim);
    assert_eq!(all.len(), 1, "{all:?}");
    all[0].clone()
}

pub(super) fn restart(sim: &Sim, vm: &Key) -> Option<String> {
    sim.condition(vm, "RestartRequired").map(|(_, _, message)| message)
}

#[test]
fn a_guest_takes_its_disk_along_to_the_pvc_that_its_vm_names() {
    let (mut sim, vm, vmi, _) = on_data();
    // A DataVolume, and then a PVC: what the VM says stays as it says it.
    sim.put(
        Kind::DataVolume,
        json!({"metadata": {"namespace": "n", "name": "new"}, "spec": crate::sim::blank(), "status": {"phase": "Succeeded"}}),
    );
    disk(&mut sim, "last", &json!([]));
    let (mut old, mut source) = ("data", sim.pod_of(&vmi).unwrap());
    for (volume, new, node) in
        [(json!({"dataVolume": {"name": "new"}}), "new", "node2"), (claim("last"), "last", "node1")]
    {
        name(&mut sim, &vm, &volume);
        assert_eq!(recorded(&sim, &vm), json!([old, new]));
        let (status, _, message) = sim.condition(&vmi, "VolumesChange").unwrap();
        assert_eq!((status.as_str(), message.as_str()), ("True", "migrate volumes"));
        assert_eq!(sim.condition(&vm, "VolumesChange").unwrap().0, "True", "its VM says so");
        assert_eq!((restart(&sim, &vm), sim.condition(&vm, RECOVERY)), (None, None));
        let key = only(&sim);
        let labels = &sim.get(&key)["metadata"]["labels"];
        assert_eq!(labels["kubevirt.io/volume-update-migration"], "web");
        let pod = target(&sim, &key).unwrap();
        assert_eq!((used(&sim, &pod), used(&sim, &vmi)), (new.to_owned(), old.to_owned()));
        rests(&mut sim);
        sim.pod_runs(&pod, node);
        sim.settle();
        let old_claim = Key::new(Kind::PersistentVolumeClaim, "n", old);
        assert_eq!(note(&sim, &old_claim, MOVING_TO), new);
        arrive(&mut sim, &vmi);
        assert_eq!(
            (sim.phase(&key), used(&sim, &vmi), used(&sim, &vm)),
            ("Succeeded", new.to_owned(), new.to_owned())
        );
        assert!(sim.get(&vm)["status"]["volumeUpdateState"].is_null());
        assert!(sim.get(&vmi)["status"]["migratedVolumes"].is_null());
        assert_eq!((sim.condition(&vmi, "VolumesChange"), restart(&sim, &vm)), (None, None));
        assert_eq!(note(&sim, &old_claim, MOVED_TO), new, "it is kept");
        assert!(sim.objects.contains_key(&Key::new(Kind::PersistentVolumeClaim, "n", new)));
        rests(&mut sim);
        sim.pod_ends(&source, "Succeeded", 0);
        sim.settle();
        sim.vanish(&source);
        (old, source) = (new, pod);
    }
    // The first one has the content of before.
    name(&mut sim, &vm, &claim("data"));
    assert!(restart(&sim, &vm).unwrap().contains("PVC n/data"), "{:?}", restart(&sim, &vm));
    assert_eq!(open(&sim), []);
    rests(&mut sim);
}

/// The disk has 2 GiB, and so has its PVC.
#[test]
fn an_update_to_a_pvc_that_is_smaller_than_the_disk_is_refused_before_a_migration() {
    const GIB: u64 = 1 << 30;
    for (own, new, is_refused) in
        [("2Gi", "1Gi", true), ("2Gi", "2Gi", false), ("2Gi", "3Gi", false), ("512Mi", "1Gi", false)]
    {
        let (mut sim, vm, vmi, _) = on_data();
        for (claim, capacity) in [("data", own), ("new", new)] {
            let key = Key::new(Kind::PersistentVolumeClaim, "n", claim);
            sim.change(&key, json!({"status": {"phase": "Bound", "capacity": {"storage": capacity}}}));
        }
        let mut status = sim.get(&vmi)["status"]["volumeStatus"].clone();
        status.as_array_mut().unwrap().iter_mut().for_each(|volume| volume["size"] = json!(2 * GIB));
        sim.change(&vmi, json!({"status": {"volumeStatus": status}}));
        name(&mut sim, &vm, &claim("new"));
        let expected = format!(
            "cannot migrate the volume root: PVC new has {GIB} bytes, and the disk of the guest {}: name a PVC that is at least as large",
            2 * GIB
        );
        assert_eq!(restart(&sim, &vm), is_refused.then_some(expected), "{own} {new}");
        assert_eq!(open(&sim).is_empty(), is_refused, "{own} {new}");
    }
}

/// A PVC that gets its volume with the target pod has a size only then.
#[test]
fn a_migration_to_a_pvc_that_turns_out_to_be_too_small_is_not_handed_over() {
    let (mut sim, vm, vmi, new) = on_data();
    let old = Key::new(Kind::PersistentVolumeClaim, "n", "data");
    sim.change(&old, json!({"status": {"phase": "Bound", "capacity": {"storage": "2Gi"}}}));
    sim.change(&new, json!({"status": {"phase": "Pending", "capacity": null}}));
    let mut status = sim.get(&vmi)["status"]["volumeStatus"].clone();
    status.as_array_mut().unwrap().iter_mut().for_each(|volume| volume["size"] = json!(2_u64 << 30));
    sim.change(&vmi, json!({"status": {"volumeStatus": status}}));
    name(&mut sim, &vm, &claim("new"));
    let key = only(&sim);
    let pod = target(&sim, &key).unwrap();
    sim.change(&new, json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}));
    sim.pod_runs(&pod, "node2");
    sim.settle();
    assert_eq!(sim.phase(&key), "Failed");
    let said = told(&sim, "FailedMigration");
    assert!(said[0].starts_with("Cannot migrate VMI: PVC new has 1073741824 bytes"), "{said:?}");
}

#[test]
fn an_update_waits_for_a_pvc_that_is_missing_is_not_filled_or_has_another_vmi() {
    let (mut sim, vm, vmi, _) = on_data();
    name(&mut sim, &vm, &claim("late"));
    let (status, _, message) = sim.condition(&vmi, "VolumesChange").unwrap();
    assert_eq!(
        (status.as_str(), message.as_str()),
        ("False", "One of the destination volumes doesn't exist: late")
    );
    assert_eq!((open(&sim), restart(&sim, &vm)), (vec![], None));
    rests(&mut sim);
    let late = json!({"metadata": {"namespace": "n", "name": "late"}, "spec": crate::sim::blank(), "status": {"phase": "ImportInProgress"}});
    let data = sim.put(Kind::DataVolume, late);
    disk(&mut sim, "late", &json!([]));
    sim.settle();
    let key = only(&sim);
    assert!(
        waits_for(&sim, &key).starts_with("DataVolume late is not filled yet"),
        "{}",
        waits_for(&sim, &key)
    );
    assert_eq!(target(&sim, &key), None);
    let mut other = crate::sim::vmi("other");
    other["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "late"}}]);
    let other = sim.put(Kind::VirtualMachineInstance, other);
    sim.settle();
    sim.change(&data, json!({"status": {"phase": "Succeeded"}}));
    sim.advance(60);
    sim.boot(&other);
    sim.settle();
    assert!(
        waits_for(&sim, &key).starts_with("PVC late is a disk of VMI other"),
        "{}",
        waits_for(&sim, &key)
    );
    assert_eq!(target(&sim, &key), None);
    sim.delete(&other);
    sim.agent_says(&other, "Succeeded");
    let pod = sim.pod_of(&other).unwrap();
    sim.pod_ends(&pod, "Succeeded", 0);
    sim.settle();
    sim.vanish(&pod);
    sim.advance(60);
    sim.settle();
    // From the hand-over on no other VMI begins on it.
    hand_over(&mut sim, &key);
    assert_eq!(sim.phase(&key), "PreparingTarget");
    let mut late = crate::sim::vmi("third");
    late["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "late"}}]);
    let third = sim.put(Kind::VirtualMachineInstance, late);
    sim.settle();
    assert_eq!(
        (sim.pod_of(&third), sim.condition(&third, "Synchronized").unwrap().1),
        (None, RECOVERY.to_owned())
    );
    arrive(&mut sim, &vmi);
    assert_eq!(used(&sim, &vmi), "late");
}

#[test]
fn what_cannot_be_migrated_waits_for_a_restart_with_its_reason() {
    let (mut sim, vm, vmi, _) = on_data();
    sim.change(&vm, json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 7}}}}));
    name(&mut sim, &vm, &claim("new"));
    let expected = Some("a non-live-updatable field was changed in the template spec");
    assert_eq!((restart(&sim, &vm).as_deref(), open(&sim)), (expected, vec![]));
    assert!(sim.get(&vm)["status"]["volumeUpdateState"].is_null());
    assert_eq!(sim.condition(&vmi, "VolumesChange"), None);
    rests(&mut sim);
    // Without the strategy, or by the settings of the cluster.
    for is_staged in [true, false] {
        let (mut sim, vm, _, _) = on_data();
        if is_staged {
            let meta = json!({"namespace": "kubevirt", "name": "kubevirt"});
            let stage = json!({"configuration": {"vmRolloutStrategy": "Stage"}});
            sim.world.put(Kind::KubeVirt, json!({"metadata": meta, "spec": stage}), sim.now);
            name(&mut sim, &vm, &claim("new"));
        } else {
            let volumes = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "new"}}]);
            sim.change(&vm, json!({"spec": {"template": {"spec": {"volumes": volumes}}}}));
            sim.settle();
        }
        assert!(restart(&sim, &vm).is_some() && open(&sim).is_empty(), "{is_staged}");
    }
    let (mut sim, vm, vmi, new) = on_data();
    sim.change(&new, json!({"spec": {"volumeMode": "Block"}}));
    name(&mut sim, &vm, &claim("new"));
    assert!(restart(&sim, &vm).unwrap().contains("a change of the mode is not supported"));
    sim.change(&new, json!({"spec": {"volumeMode": "Filesystem"}}));
    let said =
        json!([{"type": "LiveMigratable", "status": "False", "reason": "x", "message": "it has a GPU"}]);
    sim.change(&vmi, json!({"status": {"conditions": said}}));
    sim.settle();
    assert_eq!(
        restart(&sim, &vm).as_deref(),
        Some("cannot migrate the volumes as the VMI isn't migratable: it has a GPU")
    );
    rests(&mut sim);
}

#[test]
fn an_update_that_is_taken_back_ends_with_its_migration() {
    for is_handed_over in [false, true] {
        let (mut sim, vm, vmi, new) = on_data();
        let written = sim.get(&vm)["spec"]["template"]["spec"]["volumes"][0].clone();
        name(&mut sim, &vm, &claim("new"));
        let key = only(&sim);
        if is_handed_over {
            hand_over(&mut sim, &key);
        }
        name(&mut sim, &vm, &written);
        if is_handed_over {
            report(
                &mut sim,
                &vmi,
                &json!({"completed": true, "failed": true, "failureReason": "x", "endTimestamp": "2027-01-01T00:00:09Z"}),
            );
        }
        assert_eq!(open(&sim), [], "{is_handed_over}");
        let (status, reason, _) = sim.condition(&vmi, "VolumesChange").unwrap();
        assert_eq!((status.as_str(), reason.as_str()), ("False", "VolumesChangeCancellation"));
        assert!(sim.get(&vm)["status"]["volumeUpdateState"].is_null());
        assert_eq!((used(&sim, &vmi), restart(&sim, &vm)), ("data".to_owned(), None));
        assert!(sim.objects.contains_key(&new), "it is the user's");
        let old = Key::new(Kind::PersistentVolumeClaim, "n", "data");
        assert_eq!((note(&sim, &old, MOVING_TO), note(&sim, &old, MOVED_TO)), ("", ""));
        rests(&mut sim);
        let is_going = |pod: &Key| crate::sim::is_going(sim.get(pod));
        let going: Vec<Key> = sim.keys(Kind::Pod).into_iter().filter(is_going).collect();
        going.iter().for_each(|pod| sim.vanish(pod));
        sim.advance(60);
        // Once more, and this time to its end.
        name(&mut sim, &vm, &claim("new"));
        let key = only(&sim);
        hand_over(&mut sim, &key);
        arrive(&mut sim, &vmi);
        assert_eq!((used(&sim, &vmi), sim.phase(&key)), ("new".to_owned(), "Succeeded"));
    }
}

/// The VM says the old PVC again when the guest has just left it.
#[test]
fn an_update_that_is_taken_back_too_late_has_happened() {
    let (mut sim, vm, vmi, _) = on_data();
    let written = sim.get(&vm)["spec"]["template"]["spec"]["volumes"][0].clone();
    name(&mut sim, &vm, &claim("new"));
    let key = only(&sim);
    hand_over(&mut sim, &key);
    name(&mut sim, &vm, &written);
    arrive(&mut sim, &vmi);
    assert_eq!((used(&sim, &vmi), used(&sim, &vm)), ("new".to_owned(), "new".to_owned()));
    assert!(sim.get(&vm)["status"]["volumeUpdateState"].is_null());
    rests(&mut sim);
}

#[test]
fn half_of_an_update_is_not_taken_back() {
    let (mut sim, vm, vmi, _) = on_data();
    disk(&mut sim, "third", &json!([]));
    name(&mut sim, &vm, &claim("new"));
    name(&mut sim, &vm, &claim("third"));
    assert_eq!(restart(&sim, &vm).as_deref(), Some(api::vm::ONLY_REVERTED));
    assert_eq!(recorded(&sim, &vm), json!(["data", "new"]));
    assert_eq!(sim.condition(&vmi, "VolumesChange").unwrap().0, "True");
    rests(&mut sim);
}

#[test]
fn a_vm_whose_guest_ends_in_the_update_does_not_start_on_half_a_disk() {
    for way in ["back", "strategy"] {
        let (mut sim, vm, vmi, _) = on_data();
        let written = sim.get(&vm)["spec"]["template"]["spec"]["volumes"][0].clone();
        name(&mut sim, &vm, &claim("new"));
        let key = only(&sim);
        hand_over(&mut sim, &key);
        end(&mut sim, &vmi);
        assert!(!sim.objects.contains_key(&vmi), "{way}: {}", sim.get(&vmi));
        let (status, reason, message) = sim.condition(&vm, RECOVERY).unwrap();
        assert_eq!((status.as_str(), reason.as_str()), ("True", RECOVERY));
        assert!(message.contains("PVC n/new") && message.contains(COPIED_INTO), "{message}");
        assert_eq!(recorded(&sim, &vm), json!(["data", "new"]));
        rests(&mut sim);
        let expected = match way {
            "back" => {
                name(&mut sim, &vm, &written);
                "data"
            }
            _ => {
                sim.change(&vm, json!({"spec": {"updateVolumesStrategy": null}}));
                sim.settle();
                assert!(!sim.objects.contains_key(&vmi), "it is half a disk");
                let (_, _, message) = sim.condition(&vm, RECOVERY).unwrap();
                assert!(message.contains("PVC n/new") && message.contains(COPIED_INTO), "{message}");
                let new = Key::new(Kind::PersistentVolumeClaim, "n", "new");
                sim.change(&new, json!({"metadata": {"annotations": {COPIED_INTO: null}}}));
                sim.settle();
                "new"
            }
        };
        assert!(sim.objects.contains_key(&vmi), "{way}: {}", sim.get(&vm));
        assert_eq!((used(&sim, &vmi), sim.condition(&vm, RECOVERY)), (expected.to_owned(), None), "{way}");
        assert!(sim.get(&vm)["status"]["volumeUpdateState"].is_null());
    }
}

/// Both are decided before either is seen.
#[test]
fn of_two_vms_that_name_one_pvc_one_copies_its_disk_into_it() {
    let (mut sim, _, vmi, new) = on_data();
    let uid = sim.uid(&Key::new(Kind::VirtualMachine, "n", "web"));
    name(&mut sim, &Key::new(Kind::VirtualMachine, "n", "web"), &claim("new"));
    let key = only(&sim);
    let pod = target(&sim, &key).unwrap();
    sim.pod_runs(&pod, "node2");
    let plan = |sim: &Sim| crate::decide(&sim.world, &key, sim.now);
    // Its turn to hand over: the PVC is required as it was.
    for _ in 0..3 {
        let plan = plan(&sim);
        let is_mark = |step: &cluster_model::plan::Step| matches!(step, cluster_model::plan::Step::Patch { key, version, .. } if *key == new && !version.is_empty());
        if plan.steps.iter().any(is_mark) {
            break;
        }
        sim.apply(plan);
    }
    // Another VM was first.
    sim.change(&new, json!({"metadata": {"annotations": {COPIED_INTO: "another"}}}));
    sim.settle();
    assert!(
        waits_for(&sim, &key).contains("copies another disk into PVC n/new"),
        "{}",
        waits_for(&sim, &key)
    );
    assert!(sim.get(&vmi)["status"]["migratedVolumes"].is_null());
    sim.change(&new, json!({"metadata": {"annotations": {COPIED_INTO: null}}}));
    sim.advance(60);
    sim.settle();
    assert_eq!((sim.phase(&key), note(&sim, &new, COPIED_INTO)), ("PreparingTarget", uid.as_str()));
    arrive(&mut sim, &vmi);
    assert_eq!((used(&sim, &vmi), note(&sim, &new, COPIED_INTO)), ("new".to_owned(), ""));
}

/// A failed migration is followed by another one, later.
#[test]
fn an_update_is_tried_again_after_a_failure() {
    let (mut sim, vm, vmi, new) = on_data();
    name(&mut sim, &vm, &claim("new"));
    let first = only(&sim);
    hand_over(&mut sim, &first);
    report(
        &mut sim,
        &vmi,
        &json!({"completed": true, "failed": true, "failureReason": "x", "endTimestamp": "2027-01-01T00:00:09Z"}),
    );
    assert_eq!((sim.phase(&first), open(&sim)), ("Failed", vec![]));
    assert!(sim.objects.contains_key(&new), "the PVC of the user stays");
    assert_eq!(recorded(&sim, &vm), json!(["data", "new"]));
    let is_going = |pod: &Key| crate::sim::is_going(sim.get(pod));
    let going: Vec<Key> = sim.keys(Kind::Pod).into_iter().filter(is_going).collect();
    going.iter().for_each(|pod| sim.vanish(pod));
    sim.advance(60);
    sim.settle();
    let second = only(&sim);
    hand_over(&mut sim, &second);
    arrive(&mut sim, &vmi);
    assert_eq!((used(&sim, &vmi), sim.phase(&second)), ("new".to_owned(), "Succeeded"));
}

/// virt-controller ends between the steps of a hand-over and the write of the VMI.
#[test]
fn a_hand_over_that_was_written_in_part_frees_the_old_pvc_when_its_migration_ends() {
    let (mut sim, vm, _, _) = on_data();
    name(&mut sim, &vm, &claim("new"));
    let key = only(&sim);
    let old = Key::new(Kind::PersistentVolumeClaim, "n", "data");
    let uid = sim.get(&key)["metadata"]["uid"].clone();
    sim.change(&old, json!({"metadata": {"annotations": {MOVING_TO: "new", MOVING_BY: uid}}}));
    // An earlier migration that has failed leaves what this one has written.
    let ended = json!({"metadata": {"namespace": "n", "name": "earlier"}, "spec": {"vmiName": "web"}, "status": {"phase": "Failed"}});
    sim.put(Kind::VirtualMachineInstanceMigration, ended);
    sim.settle();
    assert_eq!(note(&sim, &old, MOVING_TO), "new");
    sim.delete(&key);
    sim.settle();
    assert_eq!(note(&sim, &old, MOVING_TO), "");
}

/// An earlier attempt, whose hand-over was never begun, took the mark away, and the VM started on the PVC of before.
#[test]
fn a_pvc_whose_result_nobody_knows_is_freed_by_no_other_migration() {
    use api::launcher::{Ending, Life, MIGRATED};
    let (mut sim, vm, vmi, _) = on_data();
    sim.change(&vm, json!({"spec": {"running": null, "runStrategy": "Manual"}}));
    name(&mut sim, &vm, &claim("new"));
    let key = only(&sim);
    hand_over(&mut sim, &key);
    let old = Key::new(Kind::PersistentVolumeClaim, "n", "data");
    assert_eq!(note(&sim, &old, MOVING_BY), sim.get(&key)["metadata"]["uid"].as_str().unwrap());
    let source = sim.pod_of(&vmi).unwrap();
    let target = target(&sim, &key).unwrap();
    report(
        &mut sim,
        &vmi,
        &json!({"targetNodeAddress": "192.0.2.2", "endTimestamp": "2027-01-01T00:00:09Z"}),
    );
    let left = Some(Ending { life: Life::Failed, reason: Some(MIGRATED.into()), message: None });
    sim.launcher_ends(&source, "Succeeded", 0, left);
    sim.launcher_ends(&target, "Failed", 1, None);
    sim.settle();
    sim.advance(600);
    sim.settle();
    assert_eq!((sim.phase(&key), note(&sim, &old, MOVING_TO)), ("Failed", "new"));
    let ended = json!({"metadata": {"namespace": "n", "name": "earlier"}, "spec": {"vmiName": "web"}, "status": {
        "phase": "Failed", "migrationState": {"failureReason": "no node"},
    }});
    sim.put(Kind::VirtualMachineInstanceMigration, ended);
    sim.settle();
    assert_eq!(note(&sim, &old, MOVING_TO), "new");
    name(&mut sim, &vm, &claim("data"));
    sim.vanish(&source);
    sim.change(&vm, json!({"spec": {"runStrategy": "Always"}}));
    sim.settle();
    assert_eq!(sim.condition(&vm, RECOVERY).unwrap().0, "True");
    assert!(!sim.objects.contains_key(&vmi), "it is not started");
}

/// Updates that waited for their PVCs kept all others of the cluster waiting.
#[test]
fn an_update_that_waits_for_its_pvc_takes_no_place_of_other_migrations() {
    let (mut sim, vm, _, _) = on_data();
    queue::limit(&mut sim, 1, 9);
    let data = json!({"metadata": {"namespace": "n", "name": "new"}, "spec": crate::sim::blank(), "status": {"phase": "ImportInProgress"}});
    sim.put(Kind::DataVolume, data);
    name(&mut sim, &vm, &claim("new"));
    let key = only(&sim);
    assert!(waits_for(&sim, &key).contains("DataVolume new is not filled yet"), "{}", waits_for(&sim, &key));
    let next = running(&mut sim, "next");
    let other = migration(&mut sim, "other", &next, &json!({}));
    assert!(target(&sim, &other).is_some(), "{}", waits_for(&sim, &other));
}
