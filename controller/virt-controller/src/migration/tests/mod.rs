//! Stories of single migrations. The test plays the scheduler, the kubelet and both virt-handlers.

mod attacks;
mod copied_claims;
mod end;
mod failures;
mod offline;
mod old_claims;
mod policies;
mod queue;
mod refusals;
mod scheduling;
mod state;
mod update_guards;
mod volume_updates;

use crate::sim::{Sim, vmi};
use cluster_model::objects::{Key, Kind, MIGRATION_JOB};
use serde_json::{Value, json};

/// A VMI that runs on node1.
fn running(sim: &mut Sim, name: &str) -> Key {
    let key = sim.put(Kind::VirtualMachineInstance, vmi(name));
    sim.boot(&key);
    key
}

/// A VMI that was handed over to node1, and does not run yet.
fn scheduled(sim: &mut Sim, name: &str) -> Key {
    let key = sim.put(Kind::VirtualMachineInstance, vmi(name));
    sim.settle();
    let pod = sim.pod_of(&key).unwrap();
    sim.pod_runs(&pod, "node1");
    sim.settle();
    key
}

/// A migration of a VMI, as a client without a webhook writes it.
fn migration(sim: &mut Sim, name: &str, vmi: &Key, more: &Value) -> Key {
    let mut object = json!({"metadata": {"namespace": "n", "name": name}, "spec": {"vmiName": vmi.name}});
    cluster_model::plan::merge(&mut object, more);
    let key = sim.put(Kind::VirtualMachineInstanceMigration, object);
    sim.settle();
    key
}

/// A VMI and its migration.
fn begin() -> (Sim, Key, Key) {
    let mut sim = Sim::new();
    let vmi = running(&mut sim, "web");
    let key = migration(&mut sim, "move", &vmi, &json!({}));
    (sim, vmi, key)
}

/// The target pod of a migration.
fn target(sim: &Sim, migration: &Key) -> Option<Key> {
    let uid = sim.uid(migration);
    let is_its = |key: &&Key| sim.get(key)["metadata"]["labels"][MIGRATION_JOB] == uid;
    sim.keys(Kind::Pod).iter().find(is_its).cloned()
}

/// The target pod runs, and the VMI is handed over.
fn hand_over(sim: &mut Sim, migration: &Key) -> Key {
    let pod = target(sim, migration).expect("a target pod");
    sim.pod_runs(&pod, "node2");
    sim.settle();
    pod
}

/// The virt-handlers write the state of the migration.
fn report(sim: &mut Sim, vmi: &Key, state: &Value) {
    sim.change(vmi, json!({"status": {"migrationState": state}}));
    sim.settle();
}

/// The VMI was handed over, and the guest is being copied.
fn under_way() -> (Sim, Key, Key, Key) {
    let (mut sim, vmi, key) = begin();
    let pod = hand_over(&mut sim, &key);
    report(
        &mut sim,
        &vmi,
        &json!({"targetNodeAddress": "192.0.2.2", "startTimestamp": "2027-01-01T00:00:00Z"}),
    );
    assert_eq!(sim.phase(&key), "Running");
    (sim, vmi, key, pod)
}

/// The target has the guest, and the source reported its end.
fn arrive(sim: &mut Sim, vmi: &Key) {
    let time = "2027-01-01T00:00:09Z";
    report(sim, vmi, &json!({"targetNodeDomainReadyTimestamp": time, "endTimestamp": time}));
}

/// Messages of the events with a reason.
fn told(sim: &Sim, reason: &str) -> Vec<String> {
    let told = sim.told.iter().filter(|(one, _)| one == reason);
    told.map(|(_, message)| message.clone()).collect()
}

/// The reason why a migration waits.
fn waits_for(sim: &Sim, key: &Key) -> String {
    let reason = &sim.get(key)["metadata"]["annotations"][cluster_model::objects::PENDING_REASON];
    reason.as_str().unwrap_or_default().to_owned()
}

/// Phases of a migration, in the order of their times.
fn history(sim: &Sim, key: &Key) -> Vec<String> {
    let times = sim.get(key)["status"]["phaseTransitionTimestamps"].as_array().cloned().unwrap_or_default();
    times.iter().map(|entry| entry["phase"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Nothing is written where nothing has changed.
fn rests(sim: &mut Sim) {
    let writes = sim.writes;
    sim.settle();
    assert_eq!(sim.writes, writes, "it rests");
}

#[test]
fn a_migration_goes_through_its_phases_once_each_as_its_pod_and_its_vmi_do() {
    let (mut sim, vmi, key) = begin();
    let meta = sim.get(&key)["metadata"].clone();
    assert_eq!(meta["finalizers"], json!(["kubevirt.io/migrationJobFinalize"]));
    assert_eq!(meta["labels"], json!({"kubevirt.io/vmi-name": "web"}));
    let source = sim.pod_of(&vmi).unwrap();
    for (change, expected) in [
        (Value::Null, "Scheduling"),
        (json!({}), "PreparingTarget"),
        (json!({"sourceCertificate": "0a"}), "PreparingTarget"),
        (json!({"targetNodeAddress": "192.0.2.2"}), "TargetReady"),
        (json!({"startTimestamp": "2027-01-01T00:00:00Z"}), "Running"),
        (json!({"targetNodeDomainReadyTimestamp": "2027-01-01T00:00:09Z"}), "Running"),
        (json!({"endTimestamp": "2027-01-01T00:00:09Z"}), "Succeeded"),
    ] {
        match (expected, change.as_object().is_some_and(serde_json::Map::is_empty)) {
            ("Scheduling", _) => {}
            (_, true) => drop(hand_over(&mut sim, &key)),
            _ => report(&mut sim, &vmi, &change),
        }
        assert_eq!(sim.phase(&key), expected, "{change}");
        rests(&mut sim);
    }
    let way =
        ["Pending", "Scheduling", "Scheduled", "PreparingTarget", "TargetReady", "Running", "Succeeded"];
    assert_eq!(history(&sim, &key), way);
    let object = sim.get(&key);
    assert_eq!(object["status"]["migrationState"], sim.get(&vmi)["status"]["migrationState"]);
    assert!(object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty), "{object}");
    let moved = sim.get(&vmi);
    assert_eq!(
        (&moved["status"]["nodeName"], &moved["status"]["phase"]),
        (&json!("node2"), &json!("Running"))
    );
    assert_eq!(moved["metadata"]["labels"]["kubevirt.io/nodeName"], "node2");
    assert!(moved["metadata"]["labels"]["kubevirt.io/migrationTargetNodeName"].is_null());
    assert_eq!(moved["status"]["migrationState"]["sourcePod"], source.name);
    for (reason, message) in [
        ("SuccessfulCreate", format!("Created migration target pod {}", target(&sim, &key).unwrap().name)),
        ("SuccessfulHandOver", "Migration target pod is ready for preparation by virt-handler.".to_owned()),
        ("Migrated", "The VirtualMachineInstance migrated to node node2.".to_owned()),
        ("SuccessfulMigration", "Source node reported migration succeeded".to_owned()),
    ] {
        let count = told(&sim, reason).into_iter().filter(|said| *said == message).count();
        assert_eq!(count, 1, "{reason}: {:?}", told(&sim, reason));
    }
}

#[test]
fn the_hand_over_is_one_patch_that_leaves_nothing_of_an_older_migration() {
    let (mut sim, vmi, key) = begin();
    let old = json!({"migrationUid": "old", "completed": true, "failed": true, "failureReason": "x", "abortRequested": true});
    sim.change(&vmi, json!({"status": {"migrationState": old}}));
    let source = sim.pod_of(&vmi).unwrap();
    let pod = target(&sim, &key).unwrap();
    sim.pod_runs(&pod, "node2");
    // The phase, then the hand-over.
    for _ in 0..2 {
        assert_eq!(sim.get(&vmi)["status"]["migrationState"]["migrationUid"], "old");
        let plan = crate::decide(&sim.world, &key, sim.now);
        sim.apply(plan);
    }
    let object = sim.get(&vmi);
    let mut state = object["status"]["migrationState"].clone();
    let settings = state["migrationConfiguration"].take();
    let (source_uid, target_uid) = (sim.uid(&source), sim.uid(&pod));
    assert_eq!(
        state,
        json!({
            "migrationUid": sim.uid(&key), "sourceNode": "node1", "sourcePod": source.name, "targetNode": "node2",
            "targetPod": pod.name, "migrationConfiguration": null,
        })
    );
    assert_eq!((&settings["progressTimeout"], &settings["allowPostCopy"]), (&json!(150), &json!(false)));
    assert_eq!(object["status"]["activePods"], json!({source_uid: "node1", target_uid: "node2"}));
    assert_eq!(object["metadata"]["labels"]["kubevirt.io/migrationTargetNodeName"], "node2");
    assert_eq!(object["status"]["nodeName"], "node1");
}

#[test]
fn the_target_pod_is_the_launcher_pod_of_the_vmi_with_what_a_migration_adds() {
    let mut sim = Sim::new();
    let mut object = vmi("web");
    object["spec"]["nodeSelector"] = json!({"disk": "fast"});
    let term = json!({"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"});
    object["spec"]["affinity"] =
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    let vmi = sim.put(Kind::VirtualMachineInstance, object);
    sim.boot(&vmi);
    let spec = json!({"spec": {"addedNodeSelector": {"disk": "slow", "zone": "a"}}});
    let key = migration(&mut sim, "move", &vmi, &spec);
    let (source, target) = (sim.get(&sim.pod_of(&vmi).unwrap()), sim.get(&target(&sim, &key).unwrap()));
    let (uid, migration) = (sim.uid(&vmi), sim.uid(&key));
    let mut expected = json!({"metadata": source["metadata"], "spec": source["spec"]});
    for name in ["uid", "resourceVersion", "creationTimestamp", "generation", "name"] {
        expected["metadata"][name] = target["metadata"][name].clone();
    }
    expected["metadata"]["labels"]["kubevirt.io/migrationJobUID"] = json!(migration);
    expected["metadata"]["annotations"]["kubevirt.io/migrationJobName"] = json!("move");
    expected["spec"]["nodeSelector"]["zone"] = json!("a");
    expected["spec"].as_object_mut().unwrap().remove("nodeName");
    let away = json!({"labelSelector": {"matchLabels": {"kubevirt.io/created-by": uid}}, "topologyKey": "kubernetes.io/hostname"});
    expected["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!([term, away]);
    let command = expected["spec"]["containers"][0]["command"].as_array_mut().unwrap();
    let at = command.iter().position(|word| word == "--termination-log").unwrap() + 2;
    let socket = format!("/var/run/kubevirt/sockets/migration-{migration}-libvirt");
    command.splice(at..at, [json!("--receive"), json!(socket)]);
    assert_eq!(json!({"metadata": target["metadata"], "spec": target["spec"]}), expected);
    assert_ne!(target["metadata"]["name"], source["metadata"]["name"]);
}

#[test]
fn a_migration_that_goes_on_holds_up_no_reader_of_its_vmi() {
    let (mut sim, vmi, _, _) = under_way();
    let progress = |percent: i64| json!({"progress": {"percent": percent}});
    for percent in [10, 50, 90] {
        let writes = sim.writes;
        report(&mut sim, &vmi, &progress(percent));
        assert_eq!(sim.writes, writes, "progress is read in the VMI alone");
    }
}
