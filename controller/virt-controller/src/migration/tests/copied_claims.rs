//! PVCs that one node can use: their disks are copied into new PVCs, and nothing is lost whatever is killed.

use super::*;
use cluster_model::claim_moves::{MOVED_TO, MOVING_TO, RECOVERY};
use cluster_model::objects::names;
use cluster_model::plan::Step;
use jiff::SignedDuration;

/// A bound PVC that one node can use.
pub(super) fn disk(sim: &mut Sim, name: &str, owners: &Value) -> Key {
    let meta = json!({"namespace": "n", "name": name, "ownerReferences": owners});
    let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "local", "volumeMode": "Filesystem",
        "resources": {"requests": {"storage": "1Gi"}}});
    let status = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}});
    sim.put(Kind::PersistentVolumeClaim, json!({"metadata": meta, "spec": spec, "status": status}))
}

pub(super) fn on_disk(mut object: Value, name: &str) -> Value {
    let spec = if object["spec"]["template"].is_object() {
        &mut object["spec"]["template"]["spec"]
    } else {
        &mut object["spec"]
    };
    spec["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": name}}]);
    object
}

/// virt-handler reports the size of the disk.
pub(super) fn sized(sim: &mut Sim, vmi: &Key) {
    let mut list = sim.get(vmi)["status"]["volumeStatus"].as_array().cloned().unwrap_or_default();
    list.iter_mut().for_each(|one| one["size"] = json!(1_000_000));
    sim.change(vmi, json!({"status": {"volumeStatus": list}}));
    sim.settle();
}

/// A VMI without a VM that runs on the PVC `disk`, and its migration.
pub(super) fn on_one_node() -> (Sim, Key, Key, Key) {
    let mut sim = Sim::new();
    let old = disk(&mut sim, "disk", &json!([]));
    let vmi = sim.put(Kind::VirtualMachineInstance, on_disk(vmi("web"), "disk"));
    sim.boot(&vmi);
    sized(&mut sim, &vmi);
    let key = migration(&mut sim, "move", &vmi, &json!({}));
    (sim, vmi, key, old)
}

/// A VM that runs on the PVC `disk`, which a DataVolume of its template owns.
pub(super) fn of_vm(change: impl FnOnce(&mut Sim, &mut Value)) -> (Sim, Key, Key, Key) {
    let mut sim = Sim::new();
    let mut object = crate::sim::vm_with_disk("web", "Always", crate::sim::blank());
    change(&mut sim, &mut object);
    let vm = sim.put(Kind::VirtualMachine, object);
    let owner = |kind: &str, key: &Key, uid: String| {
        json!([{"apiVersion": "kubevirt.io/v1", "kind": kind, "name": key.name, "uid": uid,
        "controller": true, "blockOwnerDeletion": true}])
    };
    let data = json!({"namespace": "n", "name": "data", "ownerReferences": owner("VirtualMachine", &vm, sim.uid(&vm))});
    let data = sim.put(
        Kind::DataVolume,
        json!({"metadata": data, "spec": crate::sim::blank(), "status": {"phase": "Succeeded"}}),
    );
    let uid = sim.uid(&data);
    let mut owners = owner("DataVolume", &data, uid);
    owners[0]["apiVersion"] = json!("cdi.kubevirt.io/v1beta1");
    let old = disk(&mut sim, "data", &owners);
    sim.settle();
    let vmi = Key::new(Kind::VirtualMachineInstance, "n", "web");
    sim.boot(&vmi);
    sized(&mut sim, &vmi);
    (sim, vm, vmi, old)
}

/// The guest has ended, and so have all pods.
pub(super) fn end(sim: &mut Sim, vmi: &Key) {
    sim.agent_says(vmi, "Succeeded");
    for pod in sim.keys(Kind::Pod) {
        sim.pod_ends(&pod, "Succeeded", 0);
    }
    sim.settle();
    for pod in sim.keys(Kind::Pod) {
        sim.vanish(&pod);
    }
    sim.settle();
}

fn new_claim(sim: &Sim, migration: &Key, old: &Key) -> Key {
    Key::new(Kind::PersistentVolumeClaim, "n", names::moved(&old.name, &sim.uid(migration)))
}

pub(super) fn note<'a>(sim: &'a Sim, claim: &Key, name: &str) -> &'a str {
    sim.get(claim)["metadata"]["annotations"][name].as_str().unwrap_or_default()
}

/// The PVC that an object or a pod has for the disk `root`.
#[track_caller]
pub(super) fn used(sim: &Sim, key: &Key) -> String {
    let object = sim.get(key);
    let spec = if object["spec"]["template"].is_object() {
        &object["spec"]["template"]["spec"]
    } else {
        &object["spec"]
    };
    let volumes = spec["volumes"].as_array().cloned().unwrap_or_default();
    let own = volumes.into_iter().find(|volume| volume["name"] == "root").unwrap_or_default();
    let name =
        own["persistentVolumeClaim"]["claimName"].as_str().or_else(|| own["dataVolume"]["name"].as_str());
    name.unwrap_or_default().to_owned()
}

/// The new PVC has a volume, and the VMI is handed over.
pub(super) fn bind_and_hand_over(sim: &mut Sim, migration: &Key, old: &Key) -> Key {
    let new = new_claim(sim, migration, old);
    sim.bind(&new);
    hand_over(sim, migration);
    new
}

#[test]
fn a_guest_moves_to_a_new_pvc_and_the_old_one_is_kept_and_never_started_from_again() {
    let (mut sim, vmi, key, old) = on_one_node();
    let new = new_claim(&sim, &key, &old);
    let (source, target) = (sim.pod_of(&vmi).unwrap(), target(&sim, &key).unwrap());
    assert_eq!((used(&sim, &source), used(&sim, &target)), ("disk".to_owned(), new.name.clone()));
    let object = sim.get(&new).clone();
    assert_eq!(object["spec"], sim.get(&old)["spec"]);
    assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], sim.uid(&key));
    sim.pod_runs(&target, "node2");
    sim.settle();
    assert_eq!(waits_for(&sim, &key), format!("PVC {} for the disk root has no volume yet", new.name));
    rests(&mut sim);
    assert_eq!(note(&sim, &old, MOVING_TO), "", "the guest cannot leave yet");
    sim.bind(&new);
    sim.settle();
    assert_eq!((sim.phase(&key), note(&sim, &old, MOVING_TO)), ("PreparingTarget", new.name.as_str()));
    assert!(
        sim.get(&new)["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty),
        "nothing takes it away"
    );
    let migrated = &sim.get(&vmi)["status"]["migratedVolumes"][0];
    let claims = ["sourcePVCInfo", "destinationPVCInfo"].map(|info| migrated[info]["claimName"].clone());
    assert_eq!((&migrated["volumeName"], claims), (&json!("root"), [json!("disk"), json!(new.name)]));
    rests(&mut sim);
    assert_eq!(used(&sim, &vmi), "disk");
    arrive(&mut sim, &vmi);
    assert_eq!((sim.phase(&key), used(&sim, &vmi)), ("Succeeded", new.name.clone()));
    assert_eq!((note(&sim, &old, MOVING_TO), note(&sim, &old, MOVED_TO)), ("", new.name.as_str()));
    assert!(sim.get(&vmi)["status"]["migratedVolumes"].is_null());
    assert_eq!(told(&sim, "VolumesMoved").len(), 1);
    rests(&mut sim);
    // Neither the end of the migration nor that of the VMI takes anything away.
    sim.delete(&key);
    sim.settle();
    sim.delete(&vmi);
    end(&mut sim, &vmi);
    assert!(!sim.objects.contains_key(&vmi));
    assert!(sim.objects.contains_key(&old) && sim.objects.contains_key(&new));
    let late = sim.put(Kind::VirtualMachineInstance, on_disk(crate::sim::vmi("late"), "disk"));
    sim.settle();
    assert_eq!(sim.pod_of(&late), None);
    let (status, reason, message) = sim.condition(&late, "Synchronized").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", RECOVERY));
    assert!(message.contains("PVC n/disk") && message.contains(&new.name), "{message}");
    rests(&mut sim);
    // A person takes the old content.
    sim.change(&old, json!({"metadata": {"annotations": {MOVED_TO: null}}}));
    sim.settle();
    assert!(sim.pod_of(&late).is_some());
    let next = sim.put(Kind::VirtualMachineInstance, on_disk(crate::sim::vmi("next"), &new.name));
    sim.settle();
    assert!(sim.pod_of(&next).is_some());
}

#[test]
fn a_migration_that_fails_takes_its_new_pvc_along_and_frees_the_old_one() {
    for until in ["claims", "pod", "handed over", "cancelled", "stopped"] {
        let (mut sim, vmi, key, old) = on_one_node();
        let new = new_claim(&sim, &key, &old);
        match until {
            "claims" => sim.delete(&key),
            "pod" => {
                let pod = target(&sim, &key).unwrap();
                sim.pod_ends(&pod, "Failed", 1);
            }
            _ => {
                bind_and_hand_over(&mut sim, &key, &old);
                assert_eq!(note(&sim, &old, MOVING_TO), new.name);
                let failed = json!({"completed": true, "failed": true, "failureReason": "x", "endTimestamp": "2027-01-01T00:00:09Z"});
                match until {
                    "handed over" => report(&mut sim, &vmi, &failed),
                    "cancelled" => {
                        sim.delete(&key);
                        sim.settle();
                        assert_eq!(note(&sim, &old, MOVING_TO), new.name, "the source has the last word");
                        report(&mut sim, &vmi, &failed);
                    }
                    _ => {
                        sim.delete(&vmi);
                        end(&mut sim, &vmi);
                    }
                }
            }
        }
        sim.settle();
        assert_eq!((note(&sim, &old, MOVING_TO), note(&sim, &old, MOVED_TO)), ("", ""), "{until}");
        assert!(!sim.objects.contains_key(&new), "{until}: {:?}", sim.objects.get(&new));
        assert_eq!(sim.objects.contains_key(&vmi), until != "stopped", "{until}");
        if until != "stopped" {
            assert_eq!(used(&sim, &vmi), "disk", "{until}");
            assert!(sim.get(&vmi)["status"]["migratedVolumes"].is_null(), "{until}");
            let is_going = |pod: &Key| crate::sim::is_going(sim.get(pod));
            let going: Vec<Key> = sim.keys(Kind::Pod).into_iter().filter(is_going).collect();
            going.iter().for_each(|pod| sim.vanish(pod));
            let next = migration(&mut sim, "next", &vmi, &json!({}));
            let new = bind_and_hand_over(&mut sim, &next, &old);
            arrive(&mut sim, &vmi);
            assert_eq!((used(&sim, &vmi), sim.phase(&next)), (new.name, "Succeeded"), "{until}");
        }
    }
}

#[test]
fn the_vm_gets_the_new_name_without_a_restart_and_a_tool_that_writes_the_old_one_is_answered() {
    let (mut sim, vm, vmi, old) = of_vm(|_, _| {});
    let written = sim.get(&vm)["spec"].clone();
    let uid = sim.uid(&vmi);
    let key = migration(&mut sim, "move", &vmi, &json!({}));
    let new = bind_and_hand_over(&mut sim, &key, &old);
    let owner = &sim.get(&new)["metadata"]["ownerReferences"];
    assert_eq!((&owner[0]["kind"], &owner[0]["uid"]), (&json!("VirtualMachine"), &json!(sim.uid(&vm))));
    assert_eq!(sim.condition(&vm, RECOVERY), None);
    let warnings = sim.warnings.len();
    arrive(&mut sim, &vmi);
    assert_eq!((used(&sim, &vmi), used(&sim, &vm)), (new.name.clone(), new.name.clone()));
    assert!(sim.get(&vm)["spec"]["dataVolumeTemplates"].as_array().is_none_or(Vec::is_empty));
    assert!(sim.get(&vmi)["status"]["migratedVolumes"].is_null());
    assert_eq!((sim.condition(&vm, "RestartRequired"), sim.condition(&vm, RECOVERY)), (None, None));
    assert_eq!((sim.uid(&vmi), sim.warnings.len()), (uid, warnings), "{:?}", sim.told);
    assert!(sim.objects.contains_key(&old), "it goes with the VM");
    rests(&mut sim);
    // GitOps.
    sim.change(&vm, json!({"spec": null}));
    sim.change(&vm, json!({"spec": written}));
    sim.settle();
    assert_eq!(
        (used(&sim, &vm), used(&sim, &vmi)),
        ("data".to_owned(), new.name.clone()),
        "it is not fought"
    );
    assert_eq!(sim.condition(&vm, "RestartRequired").unwrap().0, "True");
    let (_, reason, message) = sim.condition(&vm, RECOVERY).unwrap();
    assert!(reason == RECOVERY && message.contains("PVC n/data") && message.contains(&new.name), "{message}");
    assert_eq!(told(&sim, RECOVERY).len(), 1);
    rests(&mut sim);
    sim.agent_says(&vmi, "Succeeded");
    for pod in sim.keys(Kind::Pod) {
        sim.pod_ends(&pod, "Succeeded", 0);
    }
    sim.settle();
    assert!(!sim.objects.contains_key(&vmi), "it is not started on the old disk");
    rests(&mut sim);
    // Nor on a new one in its place.
    for kind in [Kind::DataVolume, Kind::PersistentVolumeClaim] {
        let data = Key { kind, ..old.clone() };
        sim.delete(&data);
        sim.vanish(&data);
    }
    sim.settle();
    assert!(!sim.objects.contains_key(&vmi) && !sim.objects.contains_key(&old), "{:?}", sim.objects.keys());
    let (_, _, message) = sim.condition(&vm, RECOVERY).unwrap();
    assert!(message.contains("DataVolume n/data") && message.contains(&new.name), "{message}");
    rests(&mut sim);
    let volumes = json!([{"name": "root", "persistentVolumeClaim": {"claimName": new.name}}]);
    sim.change(&vm, json!({"spec": {"template": {"spec": {"volumes": volumes}}}}));
    sim.settle();
    assert!(sim.objects.contains_key(&vmi), "{}", sim.get(&vm));
    assert_eq!(used(&sim, &vmi), new.name);
    assert_eq!(sim.condition(&vm, RECOVERY), None);
    // All goes with the VM.
    sim.delete(&vm);
    sim.settle();
    for pod in sim.keys(Kind::Pod) {
        sim.vanish(&pod);
    }
    sim.settle();
    assert_eq!(sim.keys(Kind::PersistentVolumeClaim), [], "{:?}", sim.objects.keys());
}

/// The VM was changed before, so that a restart is due.
#[test]
fn a_restart_that_is_due_stays_so() {
    let (mut sim, vm, vmi, old) = of_vm(|_, _| {});
    sim.change(&vm, json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 7}}}}));
    sim.settle();
    assert_eq!(sim.condition(&vm, "RestartRequired").unwrap().0, "True");
    let key = migration(&mut sim, "move", &vmi, &json!({}));
    let new = bind_and_hand_over(&mut sim, &key, &old);
    arrive(&mut sim, &vmi);
    assert_eq!(used(&sim, &vm), new.name);
    assert_eq!(sim.condition(&vm, "RestartRequired").unwrap().0, "True");
}

/// Decides on all objects in turn. The program is killed before its step of this number.
fn killed(sim: &mut Sim, left: &mut usize) {
    for _ in 0..30 {
        let before = sim.writes;
        for key in sim.objects.keys().cloned().collect::<Vec<_>>() {
            if !sim.objects.contains_key(&key) {
                continue;
            }
            let mut plan = crate::decide(&sim.world, &key, sim.now);
            plan.steps.retain(|step| !matches!(step, Step::RecordEvent(_)));
            if plan.steps.len() > *left {
                plan.steps.truncate(*left);
                sim.apply(plan);
                *left = 0;
                return;
            }
            *left -= plan.steps.len();
            sim.apply(plan);
        }
        if sim.writes == before {
            return;
        }
    }
}

#[test]
fn a_virt_controller_that_is_killed_at_any_line_ends_in_one_of_two_truths() {
    for arrives in [true, false] {
        for step in 0..60 {
            let (mut sim, vm, vmi, old) = of_vm(|_, _| {});
            let object =
                json!({"metadata": {"namespace": "n", "name": "move"}, "spec": {"vmiName": vmi.name}});
            let key = sim.put(Kind::VirtualMachineInstanceMigration, object);
            let new = new_claim(&sim, &key, &old);
            let mut left = step;
            // What others do, each when the controller rests or was killed.
            killed(&mut sim, &mut left);
            sim.settle();
            sim.bind(&new);
            let pod = target(&sim, &key).expect("a target pod");
            sim.pod_runs(&pod, "node2");
            killed(&mut sim, &mut left);
            sim.settle();
            assert_eq!(note(&sim, &old, MOVING_TO), new.name, "{arrives} {step}: before the guest may leave");
            let time = "2027-01-01T00:00:09Z";
            let state = match arrives {
                true => json!({"targetNodeDomainReadyTimestamp": time, "endTimestamp": time}),
                false => {
                    json!({"completed": true, "failed": true, "failureReason": "x", "endTimestamp": time})
                }
            };
            sim.change(&vmi, json!({"status": {"migrationState": state}}));
            killed(&mut sim, &mut left);
            // The guest ends where it is, while nobody decides.
            if step % 2 == 1 {
                sim.agent_says(&vmi, "Succeeded");
                for pod in sim.keys(Kind::Pod) {
                    sim.pod_ends(&pod, "Succeeded", 0);
                }
            }
            sim.settle();
            let truth = if arrives { &new } else { &old };
            assert_eq!(used(&sim, &vm), truth.name, "{arrives} {step}");
            assert!(sim.objects.contains_key(truth), "{arrives} {step}");
            assert_eq!(
                note(&sim, &old, MOVED_TO),
                if arrives { new.name.as_str() } else { "" },
                "{arrives} {step}"
            );
            assert_eq!(note(&sim, &old, MOVING_TO), "", "{arrives} {step}");
            assert_eq!(sim.objects.contains_key(&new), arrives, "{arrives} {step}");
            // The next VMI starts there.
            if let Some(next) = sim.objects.get(&vmi).map(|_| used(&sim, &vmi)) {
                assert_eq!(next, truth.name, "{arrives} {step}");
            }
            assert_eq!(sim.condition(&vm, RECOVERY), None, "{arrives} {step}");
            assert_eq!(sim.condition(&vm, "RestartRequired"), None, "{arrives} {step}");
        }
    }
}

#[test]
fn a_target_that_is_lost_frees_the_old_pvc_only_when_its_source_has_reported_that_the_guest_stayed() {
    let (mut sim, vmi, key, old) = on_one_node();
    let new = bind_and_hand_over(&mut sim, &key, &old);
    report(
        &mut sim,
        &vmi,
        &json!({"targetNodeAddress": "192.0.2.2", "startTimestamp": "2027-01-01T00:00:00Z"}),
    );
    let pod = target(&sim, &key).unwrap();
    sim.pod_ends(&pod, "Failed", 1);
    sim.settle();
    let state = sim.get(&vmi)["status"]["migrationState"].clone();
    assert_eq!((&state["abortRequested"], &state["completed"]), (&json!(true), &Value::Null), "{state}");
    assert_eq!((note(&sim, &old, MOVING_TO), sim.phase(&key)), (new.name.as_str(), "Running"));
    rests(&mut sim);
    let end = json!({"completed": true, "failed": true, "endTimestamp": "2027-01-01T00:00:09Z"});
    report(&mut sim, &vmi, &end);
    assert_eq!((note(&sim, &old, MOVING_TO), sim.phase(&key)), ("", "Failed"));
    assert!(!sim.objects.contains_key(&new));
    assert!(
        told(&sim, "FailedMigration").iter().any(|message| message.contains("target pod shutdown")),
        "{:?}",
        sim.told
    );
}

#[test]
fn a_guest_of_which_nobody_knows_is_left_to_a_person() {
    use api::launcher::{Ending, Life, MIGRATED, NOT_RECEIVED};
    let ending =
        |reason: &str| Some(Ending { life: Life::Failed, reason: Some(reason.into()), message: None });
    let held = Some("2027-01-01T00:00:08Z");
    for (target_end, detected, expected) in [
        (None, None, "unknown"),
        (ending(""), None, "moved"),
        (ending(NOT_RECEIVED), None, "stayed"),
        // It was held at the target, and ended before its release.
        (ending(NOT_RECEIVED), held, "stayed"),
    ] {
        let (mut sim, vmi, key, old) = on_one_node();
        let new = bind_and_hand_over(&mut sim, &key, &old);
        let (source, target) = (sim.pod_of(&vmi).unwrap(), target(&sim, &key).unwrap());
        report(
            &mut sim,
            &vmi,
            &json!({"targetNodeAddress": "192.0.2.2", "targetNodeDomainDetected": detected.map(|_| true)}),
        );
        sim.launcher_ends(&source, "Succeeded", 0, ending(MIGRATED));
        sim.launcher_ends(&target, "Failed", 1, target_end);
        let end = json!({"endTimestamp": "2027-01-01T00:00:09Z", "targetNodeDomainReadyTimestamp": detected});
        report(&mut sim, &vmi, &end);
        sim.settle();
        sim.now += SignedDuration::from_secs(600);
        sim.settle();
        assert_eq!(sim.phase(&vmi), "Failed", "{expected}");
        let (moving, moved) = (note(&sim, &old, MOVING_TO), note(&sim, &old, MOVED_TO));
        match expected {
            "unknown" => {
                assert_eq!((moving, moved), (new.name.as_str(), ""));
                assert!(told(&sim, RECOVERY)[0].contains("PVC n/disk"), "{:?}", sim.told);
            }
            "moved" => assert_eq!((moving, moved), ("", new.name.as_str())),
            _ => assert_eq!((moving, moved), ("", "")),
        }
        assert_eq!(sim.objects.contains_key(&new), expected != "stayed", "{expected}");
        assert_eq!(
            used(&sim, &vmi),
            if expected == "moved" { new.name.as_str() } else { "disk" },
            "{expected}"
        );
        rests(&mut sim);
        sim.delete(&vmi);
        sim.settle();
        assert!(!sim.objects.contains_key(&vmi), "{expected}");
        let next = sim.put(Kind::VirtualMachineInstance, on_disk(crate::sim::vmi("next"), "disk"));
        sim.settle();
        assert_eq!(sim.pod_of(&next).is_some(), expected == "stayed", "{expected}");
    }
}

#[test]
fn a_new_pvc_that_is_refused_or_is_anothers_is_reported() {
    use cluster_model::objects::{Attempt, Failure};
    let mut sim = Sim::new();
    let old = disk(&mut sim, "disk", &json!([]));
    let vmi = sim.put(Kind::VirtualMachineInstance, on_disk(vmi("web"), "disk"));
    sim.boot(&vmi);
    sized(&mut sim, &vmi);
    let object = json!({"metadata": {"namespace": "n", "name": "move", "finalizers": ["kubevirt.io/migrationJobFinalize"]},
        "spec": {"vmiName": "web"}});
    let key = sim.put(Kind::VirtualMachineInstanceMigration, object);
    let retry = sim.now + SignedDuration::from_secs(60);
    let about = Attempt::Make(Kind::PersistentVolumeClaim);
    let message = "exceeded quota: disks".to_owned();
    sim.world.failures.insert(key.clone(), Failure { about, message, times: 1, retry });
    sim.settle();
    assert_eq!(waits_for(&sim, &key), "a PVC for the target pod cannot be created: exceeded quota: disks");
    assert_eq!(sim.condition(&key, "migrationRejectedByResourceQuota").unwrap().0, "True");
    assert!(!sim.objects.contains_key(&new_claim(&sim, &key, &old)));
    sim.world.failures.clear();
    let new = new_claim(&sim, &key, &old);
    sim.put(
        Kind::PersistentVolumeClaim,
        json!({"metadata": {"namespace": "n", "name": new.name}, "spec": {}}),
    );
    sim.settle();
    assert_eq!(sim.phase(&key), "Failed");
    assert!(
        told(&sim, "FailedMigration")[0].contains("was not created for this migration"),
        "{:?}",
        sim.told
    );
    assert!(sim.objects.contains_key(&new), "it is another's");
}

#[test]
fn a_pvc_that_a_migration_fills_takes_no_other_guest() {
    let (mut sim, _, key, old) = on_one_node();
    let new = bind_and_hand_over(&mut sim, &key, &old);
    let other = sim.put(Kind::VirtualMachineInstance, on_disk(vmi("other"), &new.name));
    sim.settle();
    assert_eq!(sim.pod_of(&other), None);
    let (_, _, message) = sim.condition(&other, "DataVolumesReady").unwrap();
    assert!(message.contains("live migration of another VMI"), "{message}");
}

#[test]
fn disks_that_cannot_be_copied_refuse_the_migration() {
    for (change, expected) in [
        (json!({"shareable": true}), "only disks that are a PVC of their own"),
        (json!({"disk": {"readonly": true, "bus": "virtio"}}), "only disks that are a PVC of their own"),
    ] {
        let mut sim = Sim::new();
        disk(&mut sim, "disk", &json!([]));
        let mut object = on_disk(vmi("web"), "disk");
        let mut one = json!({"name": "root", "disk": {}});
        cluster_model::plan::merge(&mut one, &change);
        object["spec"]["domain"]["devices"]["disks"] = json!([one]);
        let vmi = sim.put(Kind::VirtualMachineInstance, object);
        sim.settle();
        assert!(sim.pod_of(&vmi).is_some(), "{}", sim.get(&vmi));
        sim.boot(&vmi);
        // virt-handler repeats it in the condition LiveMigratable.
        let why = |sim: &Sim| {
            let noted = &sim.get(&vmi)["metadata"]["annotations"][cluster_model::claim_moves::NOT_COPIED];
            noted.as_str().unwrap_or_default().to_owned()
        };
        assert!(why(&sim).contains(expected), "{}", why(&sim));
        let key = migration(&mut sim, "move", &vmi, &json!({}));
        assert_eq!(sim.phase(&key), "Failed", "{change}");
        assert!(told(&sim, "FailedMigration")[0].contains(expected), "{:?}", sim.told);
    }
    let mut sim = Sim::new();
    disk(&mut sim, "disk", &json!([]));
    let vmi = sim.put(Kind::VirtualMachineInstance, on_disk(vmi("web"), "disk"));
    sim.boot(&vmi);
    let notes = |sim: &Sim| sim.get(&vmi)["metadata"]["annotations"].clone();
    assert!(
        notes(&sim).to_string().contains("has not reported the size of the disk root"),
        "{}",
        notes(&sim)
    );
    sized(&mut sim, &vmi);
    assert!(!notes(&sim).to_string().contains("the size"), "{}", notes(&sim));
    let (mut sim, _, vmi, _) = of_vm(|sim, vm| {
        let pool = sim.put(
            Kind::VirtualMachinePool,
            json!({"metadata": {"namespace": "n", "name": "pool"}, "spec": {"paused": true}}),
        );
        vm["metadata"]["ownerReferences"] = json!([{"apiVersion": "pool.kubevirt.io/v1beta1", "kind": "VirtualMachinePool",
            "name": "pool", "uid": sim.uid(&pool), "controller": true}]);
    });
    let key = migration(&mut sim, "move", &vmi, &json!({}));
    assert_eq!(sim.phase(&key), "Failed");
    assert!(told(&sim, "FailedMigration")[0].contains("VirtualMachinePool"), "{:?}", sim.told);
}
