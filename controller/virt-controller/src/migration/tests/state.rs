//! The PVC of EFI variables and the TPM: it changes with the guest's node, and a VM never starts without its state.

use super::copied_claims::{end, note};
use super::*;
use cluster_model::claim_moves::{MOVED_FROM, MOVED_TO, MOVING_TO};
use cluster_model::objects::names;

/// A VM that keeps a TPM and runs, and the PVC of its state.
fn sealed() -> (Sim, Key, Key, Key) {
    let mut sim = Sim::new();
    let meta =
        json!({"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}});
    sim.put(Kind::StorageClass, json!({"metadata": meta, "provisioner": "p"}));
    let mut object = crate::sim::vm("web", "Always");
    object["spec"]["template"]["spec"]["domain"]["devices"]["tpm"] = json!({"persistent": true});
    let vm = sim.put(Kind::VirtualMachine, object);
    sim.settle();
    let vmi = Key::new(Kind::VirtualMachineInstance, "n", "web");
    let state = Key::new(Kind::PersistentVolumeClaim, "n", names::state("web", &sim.uid(&vm)));
    sim.bind(&state);
    sim.boot(&vmi);
    (sim, vm, vmi, state)
}

/// The PVC that a pod mounts for the state.
#[track_caller]
fn mounted(sim: &Sim, pod: &Key) -> Key {
    let pod = sim.get(pod);
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    let volume = volumes.iter().find(|volume| volume["name"] == "vm-state").expect("vm-state");
    Key::new(Kind::PersistentVolumeClaim, "n", volume["persistentVolumeClaim"]["claimName"].as_str().unwrap())
}

/// A migration that is handed over, and the new PVC.
fn moving(sim: &mut Sim, vmi: &Key, state: &Key) -> (Key, Key) {
    let key = migration(sim, "move", vmi, &json!({}));
    let new = Key::new(Kind::PersistentVolumeClaim, "n", names::moved(&state.name, &sim.uid(&key)));
    sim.bind(&new);
    hand_over(sim, &key);
    assert_eq!((sim.phase(&key), note(sim, state, MOVING_TO)), ("PreparingTarget", new.name.as_str()));
    (key, new)
}

/// The guest ends, and the VM starts again.
fn again(sim: &mut Sim, vmi: &Key) {
    end(sim, vmi);
    sim.advance(600);
    sim.settle();
}

#[test]
fn a_state_moves_into_a_new_pvc_and_the_next_guest_has_that_one() {
    let (mut sim, vm, vmi, state) = sealed();
    let (key, new) = moving(&mut sim, &vmi, &state);
    let pods = [sim.pod_of(&vmi).unwrap(), target(&sim, &key).unwrap()];
    assert_eq!(pods.map(|pod| mounted(&sim, &pod)), [state.clone(), new.clone()]);
    let object = sim.get(&new).clone();
    assert_eq!(object["metadata"]["labels"]["persistent-state-for"], "web");
    assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], sim.uid(&vm));
    let told = sim.get(&vmi)["status"]["migratedVolumes"].clone();
    assert_eq!(told[0]["volumeName"], json!(state.name));
    arrive(&mut sim, &vmi);
    assert_eq!((sim.phase(&key), note(&sim, &state, MOVED_TO)), ("Succeeded", new.name.as_str()));
    assert_eq!(note(&sim, &state, MOVING_TO), "");
    let status = &sim.get(&vmi)["status"];
    assert!(status["migratedVolumes"].is_null(), "{status}");
    let names: Vec<&Value> =
        status["volumeStatus"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert!(names.contains(&&json!(new.name)) && !names.contains(&&json!(state.name)), "{names:?}");
    assert_eq!(sim.get(&new)["metadata"]["labels"]["persistent-state-for"], "web");
    rests(&mut sim);
    // Another node, and the next guest.
    for next in [false, true] {
        if next {
            // Whether or not the first PVC is still there.
            sim.delete(&state);
            sim.vanish(&state);
        }
        again(&mut sim, &vmi);
        let pod = sim.pod_of(&vmi).unwrap_or_else(|| panic!("{}", sim.get(&vmi)));
        assert_eq!(mounted(&sim, &pod), new);
        sim.boot(&vmi);
    }
}

/// Upstream's older name, without the label.
#[test]
fn a_state_of_an_older_kubevirt_is_found_after_its_move() {
    let (mut sim, vm, vmi, state) = sealed();
    end(&mut sim, &vmi);
    sim.vanish(&state);
    let older = Key::new(Kind::PersistentVolumeClaim, "n", "persistent-state-for-web");
    let spec = json!({"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem", "resources": {"requests": {"storage": "10Mi"}}});
    sim.put(
        Kind::PersistentVolumeClaim,
        json!({"metadata": {"namespace": "n", "name": older.name}, "spec": spec}),
    );
    sim.bind(&older);
    sim.advance(600);
    sim.boot(&vmi);
    let (_, new) = moving(&mut sim, &vmi, &older);
    arrive(&mut sim, &vmi);
    assert_eq!(sim.get(&new)["metadata"]["labels"]["persistent-state-for"], "web");
    again(&mut sim, &vmi);
    assert_eq!(mounted(&sim, &sim.pod_of(&vmi).unwrap()), new);
    assert!(sim.objects.contains_key(&vm));
}

#[test]
fn a_migration_that_fails_leaves_the_state_where_it_was() {
    for deleted in [false, true] {
        let (mut sim, _, vmi, state) = sealed();
        let (key, new) = moving(&mut sim, &vmi, &state);
        if deleted {
            sim.delete(&key);
            sim.settle();
            assert!(sim.objects.contains_key(&new), "the source has the last word");
        }
        let time = "2027-01-01T00:00:09Z";
        report(
            &mut sim,
            &vmi,
            &json!({"completed": true, "failed": true, "failureReason": "x", "endTimestamp": time}),
        );
        sim.settle();
        assert_eq!((note(&sim, &state, MOVING_TO), note(&sim, &state, MOVED_TO)), ("", ""));
        assert!(!sim.objects.contains_key(&new), "{deleted}");
        assert!(sim.get(&vmi)["status"]["migratedVolumes"].is_null());
        again(&mut sim, &vmi);
        assert_eq!(mounted(&sim, &sim.pod_of(&vmi).unwrap()), state);
    }
}

/// While nobody knows where the guest has written, and where its PVC is gone, the VM waits in place of beginning with nothing.
#[test]
fn a_vm_whose_state_is_not_known_waits_and_says_what_to_do() {
    let (mut sim, _, vmi, state) = sealed();
    sim.change(&state, json!({"metadata": {"annotations": {MOVING_TO: "new"}}}));
    again(&mut sim, &vmi);
    for (notes, said) in [
        (json!({MOVING_TO: "new"}), "has ended without a result"),
        (json!({MOVING_TO: null, MOVED_TO: "new"}), "remove its annotation coracle.io/moved-to"),
    ] {
        sim.change(&state, json!({"metadata": {"annotations": notes}}));
        sim.advance(600);
        sim.settle();
        assert_eq!(sim.pod_of(&vmi), None, "{said}");
        let (_, reason, message) = sim.condition(&vmi, "Synchronized").unwrap();
        assert_eq!(reason, "FailedBackendStorageCreate");
        assert!(message.contains(said) && message.contains(&state.name), "{message}");
        let claims = sim.keys(Kind::PersistentVolumeClaim);
        assert_eq!(claims, std::slice::from_ref(&state), "no other one is made");
    }
    sim.change(&state, json!({"metadata": {"annotations": {MOVED_TO: null}}}));
    sim.advance(600);
    sim.settle();
    assert_eq!(mounted(&sim, &sim.pod_of(&vmi).unwrap()), state);
}

#[test]
fn a_volume_with_the_name_of_the_pvc_refuses_the_migration() {
    let (mut sim, _, vmi, state) = sealed();
    let mut volumes = sim.get(&vmi)["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    volumes.push(json!({"name": state.name, "emptyDisk": {"capacity": "1Mi"}}));
    sim.change(&vmi, json!({"spec": {"volumes": volumes}}));
    sim.settle();
    let key = migration(&mut sim, "move", &vmi, &json!({}));
    assert_eq!(sim.phase(&key), "Failed");
    assert!(told(&sim, "FailedMigration")[0].contains("rename it"), "{:?}", sim.told);
}

/// Two migrations, the second without a known result: the PVC that it copied into stays, and nothing is known to have run on it.
#[test]
fn a_pvc_that_a_state_did_not_move_to_is_not_taken_for_it() {
    for left in ["a-first", "z-last"] {
        let (mut sim, vm, vmi, state) = sealed();
        let (_, moved) = moving(&mut sim, &vmi, &state);
        arrive(&mut sim, &vmi);
        let mut copy = sim.get(&moved).clone();
        copy["metadata"] = json!({
            "namespace": "n", "name": left, "labels": copy["metadata"]["labels"],
            "ownerReferences": copy["metadata"]["ownerReferences"], "annotations": {MOVED_FROM: moved.name},
        });
        let copy = sim.put(Kind::PersistentVolumeClaim, copy);
        again(&mut sim, &vmi);
        assert_eq!(mounted(&sim, &sim.pod_of(&vmi).unwrap()), moved, "{left}");
        // A person has found that the guest ran there.
        sim.change(&moved, json!({"metadata": {"annotations": {MOVED_TO: left}}}));
        sim.boot(&vmi);
        again(&mut sim, &vmi);
        assert_eq!(mounted(&sim, &sim.pod_of(&vmi).unwrap()), copy, "{left}");
        assert!(sim.objects.contains_key(&vm));
    }
}
