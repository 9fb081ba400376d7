//! Pools, as stories.

// A `json!` reads better where it is handed over than behind a `&`.
#![allow(clippy::needless_pass_by_value)]

mod counted;
mod healed;
mod kept;
mod leader;
mod scale_in;
mod sums;
mod template;

use super::metadata::{KEYS, SUMS};
use super::template::Template;
use super::{autohealing, metadata, selection};
use crate::sim::{Sim, blank, vm};
use api::meta::ObjectMeta;
use api::pool::{Autohealing, REVISION, SelectionPolicy};
use api::vm::VirtualMachine;
use api::wire::{self, Wire};
use cluster_model::metadata::FENCING;
use cluster_model::objects::{Key, Kind};
use cluster_model::plan::{Plan, Step, merge};
use jiff::SignedDuration;
use serde_json::{Value, json};

fn pool(replicas: u8, strategy: &str) -> Value {
    json!({
        "metadata": {"namespace": "n", "name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "virtualMachineTemplate": {
                "metadata": {"labels": {"app": "web"}},
                "spec": vm("web", strategy)["spec"],
            },
        },
    })
}

fn begin(replicas: u8, strategy: &str, change: Value) -> (Sim, Key) {
    let mut sim = Sim::new();
    let mut object = pool(replicas, strategy);
    merge(&mut object["spec"], &change);
    let key = sim.put(Kind::VirtualMachinePool, object);
    sim.settle();
    (sim, key)
}

fn names(sim: &Sim) -> Vec<String> {
    sim.keys(Kind::VirtualMachine).into_iter().map(|key| key.name).collect()
}

fn vm_key(number: usize) -> Key {
    Key::new(Kind::VirtualMachine, "n", format!("web-{number}"))
}

fn run_key(number: usize) -> Key {
    Key::new(Kind::VirtualMachineInstance, "n", format!("web-{number}"))
}

/// Runs all VMIs of a pool.
fn boot(sim: &mut Sim, count: usize) {
    (0..count).for_each(|number| sim.boot(&run_key(number)));
}

fn going(sim: &Sim) -> Vec<Key> {
    let vmis = sim.keys(Kind::VirtualMachineInstance).into_iter();
    vmis.filter(|key| !sim.get(key)["metadata"]["deletionTimestamp"].is_null()).collect()
}

/// A VMI that was told to end has ended; the next one runs.
fn ends(sim: &mut Sim, vmi: &Key) {
    let pod = sim.pod_of(vmi).expect("a pod");
    sim.agent_says(vmi, "Succeeded");
    sim.pod_ends(&pod, "Succeeded", 0);
    sim.settle();
    sim.boot(vmi);
}

fn grown() -> Value {
    json!({"spec": {"virtualMachineTemplate": {"spec": {"template": {"spec": {
        "domain": {"memory": {"guest": "256Mi"}},
    }}}}}})
}

fn guest(sim: &Sim, key: &Key) -> Value {
    let object = sim.get(key);
    let spec =
        if key.kind == Kind::VirtualMachine { &object["spec"]["template"]["spec"] } else { &object["spec"] };
    spec["domain"]["memory"]["guest"].clone()
}

#[test]
fn a_pool_keeps_its_number_and_its_vms_have_numbers() {
    let (mut sim, key) = begin(3, "Halted", json!({}));
    assert_eq!(names(&sim), ["web-0", "web-1", "web-2"]);
    let status = &sim.get(&key)["status"];
    assert_eq!((&status["replicas"], &status["labelSelector"]), (&json!(3), &json!("app=web")));
    let made = sim.get(&vm_key(1));
    assert_eq!(made["metadata"]["labels"], json!({"app": "web", REVISION: "web-1"}));
    assert_eq!(made["spec"]["template"]["metadata"]["labels"][REVISION], "web-1");
    assert_eq!(made["metadata"]["ownerReferences"][0]["kind"], "VirtualMachinePool");
    let policy =
        json!({"scaleInStrategy": {"proactive": {"selectionPolicy": {"sortPolicy": "DescendingOrder"}}}});
    sim.change(&key, json!({"spec": {"replicas": 14}}));
    sim.settle();
    assert_eq!(names(&sim).len(), 14);
    // A generation that rises for another number is no other state of the template.
    assert_eq!(sim.get(&vm_key(13))["metadata"]["labels"][REVISION], "web-1");
    assert_eq!(sim.keys(Kind::ControllerRevision).len(), 1);
    sim.change(&key, json!({"spec": policy}));
    sim.change(&key, json!({"spec": {"replicas": 2}}));
    sim.settle();
    assert_eq!(names(&sim), ["web-0", "web-1"]);
    let told = sim.reasons();
    assert_eq!(told.iter().filter(|reason| *reason == "SuccessfulCreate").count(), 14);
    assert_eq!(told.iter().filter(|reason| *reason == "SuccessfulDelete").count(), 12);
    assert_eq!(sim.warnings, [""; 0]);
}

#[test]
fn a_few_are_made_at_a_time() {
    let mut sim = Sim::new();
    let key = sim.put(Kind::VirtualMachinePool, pool(50, "Halted"));
    let plan = crate::decide(&sim.world, &key, sim.now);
    sim.apply(plan);
    assert_eq!(names(&sim).len(), super::AT_ONCE);
}

#[test]
fn a_vm_that_is_being_deleted_keeps_its_place() {
    let (mut sim, key) = begin(1, "Always", json!({}));
    boot(&mut sim, 1);
    sim.delete(&vm_key(0));
    sim.settle();
    assert_eq!(names(&sim), ["web-0"], "its guest may still run");
    assert_eq!(sim.get(&key)["status"]["replicas"], 1);
}

#[test]
fn what_is_outdated_is_restarted_within_the_bound() {
    let (mut sim, key) = begin(3, "Always", json!({"maxUnavailable": 1}));
    boot(&mut sim, 3);
    assert_eq!(sim.get(&key)["status"]["readyReplicas"], 3);
    let uuid =
        |sim: &Sim| sim.get(&vm_key(0))["spec"]["template"]["spec"]["domain"]["firmware"]["uuid"].clone();
    let before = uuid(&sim);
    sim.change(&key, grown());
    sim.settle();
    for number in 0..3 {
        assert_eq!(guest(&sim, &vm_key(number)), "256Mi");
    }
    assert!(before.is_string());
    assert_eq!(uuid(&sim), before, "the guest knows its computer");
    for _ in 0..3 {
        let one = going(&sim);
        assert_eq!(one.len(), 1, "{one:?}");
        ends(&mut sim, &one[0]);
    }
    assert_eq!(going(&sim), []);
    for number in 0..3 {
        assert_eq!(guest(&sim, &run_key(number)), "256Mi");
        assert_eq!(sim.get(&run_key(number))["metadata"]["labels"][REVISION], "web-2");
    }
    let revisions = sim.keys(Kind::ControllerRevision).into_iter().filter(|key| key.name.starts_with("web-"));
    assert_eq!(revisions.map(|key| key.name).collect::<Vec<_>>(), ["web-2"]);
}

#[test]
fn a_strategy_says_what_becomes_of_vms_of_an_older_template() {
    for (strategy, vm, vmis) in
        [("unmanaged", "128Mi", 0), ("opportunistic", "256Mi", 0), ("proactive", "256Mi", 2)]
    {
        let (mut sim, key) = begin(2, "Always", json!({"updateStrategy": {strategy: {}}}));
        boot(&mut sim, 2);
        sim.change(&key, grown());
        sim.settle();
        assert_eq!(guest(&sim, &vm_key(0)), vm, "{strategy}");
        assert_eq!(going(&sim).len(), vmis, "{strategy}");
    }
}

/// A VM that somebody starts and stops is asked for a restart, and not just stopped.
#[test]
fn a_vm_of_another_strategy_runs_again_too() {
    let (mut sim, key) = begin(1, "Manual", json!({}));
    sim.change(&vm_key(0), json!({"status": {"stateChangeRequests": [{"action": "Start"}]}}));
    boot(&mut sim, 1);
    sim.change(&key, grown());
    sim.settle();
    assert_eq!(going(&sim), [run_key(0)]);
    ends(&mut sim, &run_key(0));
    assert_eq!(guest(&sim, &run_key(0)), "256Mi");
}

#[test]
fn what_changes_no_guest_restarts_none() {
    let (mut sim, key) = begin(2, "Always", json!({}));
    boot(&mut sim, 2);
    sim.change(
        &key,
        json!({"spec": {"virtualMachineTemplate": {"spec": {"runStrategy": "RerunOnFailure"}}}}),
    );
    sim.settle();
    assert_eq!(sim.get(&vm_key(0))["spec"]["runStrategy"], "RerunOnFailure");
    assert_eq!(going(&sim), []);
    assert_eq!(sim.get(&run_key(0))["metadata"]["labels"][REVISION], "web-2");
    assert_eq!(sim.condition(&vm_key(0), "RestartRequired"), None);
}

#[test]
fn a_vm_with_other_disks_is_made_anew() {
    let (mut sim, key) = begin(1, "Always", json!({}));
    boot(&mut sim, 1);
    let disk = json!({"metadata": {"name": "data"}, "spec": blank()});
    sim.change(&key, json!({"spec": {"virtualMachineTemplate": {"spec": {"dataVolumeTemplates": [disk]}}}}));
    sim.settle();
    assert!(!sim.get(&vm_key(0))["metadata"]["deletionTimestamp"].is_null());
}

#[test]
fn a_vm_with_other_labels_leaves_the_pool() {
    let (mut sim, key) = begin(2, "Halted", json!({}));
    sim.change(&vm_key(1), json!({"metadata": {"labels": {"app": "mine"}}}));
    sim.settle();
    assert!(sim.get(&vm_key(1))["metadata"]["ownerReferences"].is_null());
    assert_eq!(names(&sim), ["web-0", "web-1", "web-2"]);
    assert_eq!(sim.get(&key)["status"]["replicas"], 2);
}

/// Whose a VM is does not wait for the end of a pause, and its place stays free until then.
#[test]
fn a_vm_with_other_labels_leaves_a_paused_pool_too() {
    let (mut sim, key) = begin(2, "Halted", json!({}));
    sim.change(&key, json!({"spec": {"paused": true}}));
    sim.change(&vm_key(1), json!({"metadata": {"labels": {"app": "mine"}}}));
    sim.settle();
    assert!(sim.get(&vm_key(1))["metadata"]["ownerReferences"].is_null());
    assert_eq!(names(&sim), ["web-0", "web-1"]);
    assert_eq!(sim.get(&key)["status"]["replicas"], 1);
    sim.change(&key, json!({"spec": {"paused": false}}));
    sim.settle();
    assert_eq!(names(&sim), ["web-0", "web-1", "web-2"]);
}

/// Who may look at a pool knows its uid, and may write any owner to his own VM.
#[test]
fn a_vm_of_another_namespace_is_none_of_its_own() {
    let (mut sim, key) = begin(2, "Halted", json!({}));
    let mut foreign = sim.get(&vm_key(0)).clone();
    foreign["metadata"] = json!({
        "namespace": "b", "name": "web-7", "labels": foreign["metadata"]["labels"],
        "ownerReferences": foreign["metadata"]["ownerReferences"],
        // It stays while it is being deleted, whatever its owner is.
        "finalizers": ["example.com/held"],
    });
    let foreign = sim.put(Kind::VirtualMachine, foreign);
    let before = sim.get(&foreign)["spec"].clone();
    sim.change(&key, json!({"spec": {"virtualMachineTemplate": {"spec": {"template": {"spec": {"domain": {"cpu": {"cores": 2}}}}}}}}));
    sim.settle();
    let own: Vec<String> = sim
        .keys(Kind::VirtualMachine)
        .into_iter()
        .filter(|key| key.namespace == "n")
        .map(|key| key.name)
        .collect();
    assert_eq!(own, ["web-0", "web-1"]);
    assert_eq!(sim.get(&key)["status"]["replicas"], 2);
    assert_eq!(sim.get(&foreign)["spec"], before, "it does not learn the template");
}

#[test]
fn a_pool_that_is_paused_does_nothing() {
    let (mut sim, key) = begin(1, "Halted", json!({"paused": true}));
    assert_eq!(names(&sim), [""; 0]);
    assert_eq!(
        sim.condition(&key, "ReplicaPaused"),
        Some(("True".into(), "SuccessfulPaused".into(), "Pool controller is paused".into()))
    );
    sim.change(&key, json!({"spec": {"paused": false}}));
    sim.settle();
    assert_eq!((names(&sim), sim.condition(&key, "ReplicaPaused")), (vec!["web-0".to_owned()], None));
    sim.advance(60);
    sim.settle();
    let told = sim.reasons();
    for reason in ["SuccessfulPaused", "SuccessfulResume"] {
        assert_eq!(told.iter().filter(|told| *told == reason).count(), 1, "{reason}");
    }
}

/// Where no webhook stood, nothing is done either, and people are told why.
#[test]
fn a_spec_that_cannot_be_done_is_told_and_nothing_is_done() {
    for (change, field) in [
        (json!({"scaleInStrategy": {"proactive": {"statePreservation": "Offline"}}}), "statePreservation"),
        (json!({"selector": {"matchLabels": {"app": "other"}}}), "spec.selector"),
        (json!({"selector": {"matchLabels": null}}), "spec.selector"),
        (json!({"virtualMachineTemplate": null}), "spec.virtualMachineTemplate"),
        (json!({"autohealing": {"minFailingToStartDuration": "9999999h"}}), "minFailingToStartDuration"),
        (json!({"paused": "yes"}), "spec.paused"),
    ] {
        let (sim, key) = begin(1, "Halted", change.clone());
        let (status, reason, said) = sim.condition(&key, "ReplicaFailure").unwrap();
        assert_eq!((status.as_str(), reason.as_str()), ("True", "InvalidSpec"), "{change}");
        assert!(said.contains(field), "{said}");
        assert_eq!(names(&sim), [""; 0], "{change}");
    }
}

#[test]
fn selectors_that_take_too_few_are_told() {
    let selectors = json!({"labelSelector": {"matchLabels": {"app": "nobody"}}});
    let policy = json!({"scaleInStrategy": {"proactive": {"selectionPolicy": {"selectors": selectors}}}});
    let (mut sim, key) = begin(2, "Halted", policy);
    sim.change(&key, json!({"spec": {"replicas": 1}}));
    sim.settle();
    assert_eq!(names(&sim).len(), 2);
    assert_eq!(sim.condition(&key, "ReplicaFailure").unwrap().1, "FailedScaleIn");
}

/// A label is a tenant's: what it names is deleted only where it is the pool's.
#[test]
fn nobody_elses_revision_is_deleted_by_a_forged_label() {
    let (mut sim, key) = begin(1, "Halted", json!({}));
    let theirs = sim.put(
        Kind::ControllerRevision,
        json!({"metadata": {"namespace": "n", "name": "theirs"}, "revision": 1}),
    );
    sim.change(&vm_key(0), json!({"metadata": {"labels": {REVISION: "theirs"}}}));
    sim.change(&key, grown());
    sim.settle();
    assert_eq!(sim.get(&vm_key(0))["metadata"]["labels"][REVISION], "web-2");
    assert!(sim.objects.contains_key(&theirs));
}

fn template(spec: Value) -> Template {
    let made = wire::read(json!({"metadata": {"labels": {"app": "web"}}, "spec": spec})).unwrap();
    let names = json!({"appendIndexToConfigMapRefs": true, "appendIndexToSecretRefs": true});
    let meta = wire::read(json!({"namespace": "n", "name": "web", "uid": "1", "generation": 1})).unwrap();
    Template::new(&meta, made, Some(wire::read(names).unwrap()))
}

#[test]
fn what_a_vm_has_for_itself_has_its_number() {
    let volumes = json!([
        {"name": "a", "dataVolume": {"name": "data"}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "shared"}},
        {"name": "d", "configMap": {"name": "map"}},
        {"name": "e", "secret": {"secretName": "secret"}},
        {"name": "f", "cloudInitNoCloud": {"secretRef": {"name": "user"}, "networkDataSecretRef": {"name": "net"}}},
        {"name": "g", "sysprep": {"secret": {"name": "sysprep"}}},
    ]);
    let spec = json!({
        "dataVolumeTemplates": [{"metadata": {"name": "data"}, "spec": {}}],
        "template": {"spec": {"domain": {"devices": {}}, "volumes": volumes}},
    });
    let made = template(spec).vm(7, "web-1").write();
    assert_eq!(made["metadata"]["name"], "web-7");
    assert_eq!(made["spec"]["dataVolumeTemplates"][0]["metadata"]["name"], "data-7");
    let volumes = &made["spec"]["template"]["spec"]["volumes"];
    for (pointer, expected) in [
        ("/0/dataVolume/name", "data-7"),
        ("/1/persistentVolumeClaim/claimName", "data-7"),
        ("/2/persistentVolumeClaim/claimName", "shared"),
        ("/3/configMap/name", "map-7"),
        ("/4/secret/secretName", "secret-7"),
        ("/5/cloudInitNoCloud/secretRef/name", "user-7"),
        ("/5/cloudInitNoCloud/networkDataSecretRef/name", "net-7"),
        ("/6/sysprep/secret/name", "sysprep-7"),
    ] {
        assert_eq!(volumes.pointer(pointer), Some(&json!(expected)), "{pointer}");
    }
}

/// Who may not end the fencing of a VM does not end it by way of a pool; and an update does not take back what who may has said.
#[test]
fn the_word_that_ends_fencing_does_not_come_from_a_pool() {
    let note = json!({"annotations": {FENCING: "off"}});
    let change =
        json!({"virtualMachineTemplate": {"metadata": note, "spec": {"template": {"metadata": note}}}});
    let (mut sim, key) = begin(1, "Halted", change);
    let made = sim.get(&vm_key(0));
    assert!(made["metadata"]["annotations"][FENCING].is_null(), "{made}");
    assert!(made["spec"]["template"]["metadata"]["annotations"][FENCING].is_null(), "{made}");
    sim.change(&vm_key(0), json!({"metadata": {"annotations": {FENCING: "off"}}}));
    sim.change(&key, grown());
    sim.settle();
    assert_eq!(guest(&sim, &vm_key(0)), "256Mi");
    assert_eq!(sim.get(&vm_key(0))["metadata"]["annotations"][FENCING], "off");
}

/// Other programs mark VMs too: who backs them up, who may see them.
#[test]
fn what_others_wrote_on_a_vm_outlives_another_template() {
    let of_pool =
        json!({"metadata": {"labels": {"tier": "a"}, "annotations": {"note": "old", "owner": "us"}}});
    let (mut sim, key) = begin(1, "Halted", json!({"virtualMachineTemplate": of_pool}));
    let mine = json!({
        "labels": {"backup": "nightly", "app.kubernetes.io/name": "web"},
        "annotations": {"example.com/seen": "today", "note": "mine"},
    });
    sim.change(&vm_key(0), json!({"metadata": mine}));
    sim.settle();
    let change = json!({"labels": {"tier": null}, "annotations": {"note": "new", "owner": null}});
    sim.change(&key, json!({"spec": {"virtualMachineTemplate": {"metadata": change}}}));
    sim.settle();
    let metadata = &sim.get(&vm_key(0))["metadata"];
    let labels =
        json!({"app": "web", "backup": "nightly", "app.kubernetes.io/name": "web", REVISION: "web-2"});
    assert_eq!(metadata["labels"], labels);
    let annotations = &metadata["annotations"];
    assert_eq!(annotations["example.com/seen"], "today");
    assert_eq!((&annotations["note"], &annotations["owner"]), (&json!("new"), &Value::Null));
    // What the template gives later, and takes back, is the template's.
    sim.change(
        &key,
        json!({"spec": {"virtualMachineTemplate": {"metadata": {"labels": {"backup": "weekly"}}}}}),
    );
    sim.settle();
    assert_eq!(sim.get(&vm_key(0))["metadata"]["labels"]["backup"], "weekly");
    sim.change(&key, json!({"spec": {"virtualMachineTemplate": {"metadata": {"labels": {"backup": null}}}}}));
    sim.settle();
    assert_eq!(sim.get(&vm_key(0))["metadata"]["labels"]["backup"], Value::Null);
}

/// The note on a VM is a tenant's to forge: it breaks nothing, and ends no fencing.
#[test]
fn a_forged_note_takes_away_only_what_its_author_could() {
    for forged in ["", "[1]", "{\"labels\": 1}", "{\"annotations\": [1, null]}"] {
        let mut metadata = metadata_of(json!({"labels": {"a": "b"}, "annotations": {KEYS: forged}}));
        metadata::update(&mut metadata, metadata_of(json!({"labels": {"app": "web"}})));
        assert_eq!(metadata.write()["labels"], json!({"a": "b", "app": "web"}), "{forged}");
    }
    let forged = json!({"annotations": [FENCING, SUMS, KEYS]}).to_string();
    let was = json!({"annotations": {KEYS: forged, FENCING: "off", SUMS: "a.b.c"}});
    let mut metadata = metadata_of(was.clone());
    metadata::update(&mut metadata, ObjectMeta::default());
    assert_eq!(metadata.write()["annotations"], was["annotations"]);
}

fn metadata_of(written: Value) -> ObjectMeta {
    wire::read(written).unwrap()
}

fn made(number: usize, time: &str, change: Value) -> VirtualMachine {
    let mut object = vm(&format!("web-{number}"), "Always");
    object["metadata"]["creationTimestamp"] = json!(time);
    merge(&mut object, &change);
    wire::read(object).unwrap()
}

#[test]
fn a_policy_says_which_vms_come_first() {
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    let zone = json!({"spec": {"template": {"spec": {"nodeSelector": {"zone": "a"}}}}});
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let vms = [made(10, early, json!({})), made(2, late, zone), made(1, early, ready)];
    let all: Vec<&VirtualMachine> = vms.iter().collect();
    let rule = json!([{"key": "zone", "operator": "In", "values": ["a"]}]);
    let template = template(json!({}));
    for (policy, expected) in [
        (json!({"sortPolicy": "AscendingOrder"}), &["web-1", "web-2", "web-10"][..]),
        (json!({"sortPolicy": "DescendingOrder"}), &["web-10", "web-2", "web-1"]),
        (json!({"sortPolicy": "Oldest"}), &["web-1", "web-10", "web-2"]),
        (json!({"sortPolicy": "Newest"}), &["web-2", "web-10", "web-1"]),
        (json!({"selectors": {"nodeSelectorRequirementMatcher": rule}}), &["web-2"]),
        (
            json!({"sortPolicy": "AscendingOrder", "selectors": {"labelSelector": {"matchLabels": {"app": "web-1"}}}}),
            &["web-1"],
        ),
    ] {
        let read: SelectionPolicy = wire::read(policy.clone()).unwrap();
        let chosen = selection::select(Some(&read), &template, &all);
        let names: Vec<&str> = chosen.iter().filter_map(|vm| vm.metadata.name.as_deref()).collect();
        assert_eq!(names, expected, "{policy}");
    }
    let last = selection::select(None, &template, &all).pop().unwrap();
    assert_eq!(last.metadata.name.as_deref(), Some("web-1"), "one that serves goes last");
}

/// The kubelet says of the launcher pod of a VM that it does not start.
fn fails_to_start(sim: &mut Sim, number: usize, word: &str) {
    let pod = sim.pod_of(&run_key(number)).expect("a pod");
    match word {
        "ImagePullBackOff" => {
            let waiting = json!({"reason": word, "message": "Back-off"});
            let containers = json!([{"name": "compute", "state": {"waiting": waiting}}]);
            sim.change(&pod, json!({"status": {"phase": "Pending", "containerStatuses": containers}}));
        }
        "ErrorUnschedulable" => {
            sim.pod_says(&pod, json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}));
        }
        _ => {}
    }
}

/// A virt-controller has seen for so long what the VMs do now.
fn sees(sim: &mut Sim, seconds: u64) {
    for key in sim.keys(Kind::VirtualMachine) {
        drop(autohealing::observe(&mut sim.world, &key.namespace, &key.name, sim.now));
    }
    sim.world.uptime += std::time::Duration::from_secs(seconds);
}

#[test]
fn what_fails_to_start_is_replaced_when_it_has_failed_long_enough() {
    // Since when it is not ready says nothing: it may have been stopped.
    let status = |word, failures: i64, since: Option<&'static str>| (word, failures, since);
    let (long, short, later) =
        (Some("2027-01-15T07:50:00Z"), Some("2027-01-15T07:57:00Z"), Some("2030-01-01T00:50:00Z"));
    let (minutes, less) = (10 * 60, json!({"minFailingToStartDuration": "1m"}));
    for (said, seen, healing, is_ill, again, writes) in [
        (status("Starting", 3, None), minutes, json!({}), true, None, false),
        (status("Starting", 2, None), minutes, json!({}), false, None, false),
        (status("Starting", 2, long), minutes, json!({}), false, None, true),
        (status("ErrorUnschedulable", 0, long), minutes, json!({}), false, None, true),
        (status("Starting", 2, None), minutes, json!({"startUpFailureThreshold": 2}), true, None, false),
        (status("ImagePullBackOff", 0, long), minutes, json!({}), true, None, false),
        (status("ImagePullBackOff", 0, None), minutes, json!({}), false, Some(5 * 60), true),
        (status("ImagePullBackOff", 0, Some("never")), minutes, json!({}), false, Some(5 * 60), true),
        (status("ImagePullBackOff", 0, later), minutes, json!({}), false, Some(5 * 60), true),
        (status("ImagePullBackOff", 0, short), minutes, json!({}), false, Some(2 * 60), false),
        (status("ImagePullBackOff", 0, short), minutes, less.clone(), true, None, false),
        // The note may be of another leader, or of before a jump of the clock.
        (status("ImagePullBackOff", 0, long), 0, json!({}), false, Some(5 * 60), false),
        (status("ImagePullBackOff", 0, long), 3 * 60, json!({}), false, Some(2 * 60), false),
        (status("ImagePullBackOff", 0, short), 30, less, false, Some(30), false),
    ] {
        let (mut sim, _) = begin(1, "Always", json!({}));
        let (word, failures, since) = said;
        fails_to_start(&mut sim, 0, word);
        sim.settle();
        sim.change(
            &vm_key(0),
            json!({
                "metadata": {"annotations": {api::pool::FAILING_SINCE: since}},
                "status": {"startFailure": {"consecutiveFailCount": failures}},
            }),
        );
        assert_eq!(sim.get(&vm_key(0))["status"]["printableStatus"], word);
        sees(&mut sim, seen);
        let vm = sim.world.vms.get("n", "web-0").unwrap();
        let healing: Autohealing = wire::read(healing).unwrap();
        let mut plan = Plan::default();
        let ill = autohealing::vms_to_replace(&sim.world, &[vm], &healing, sim.now, &mut plan);
        assert_eq!(ill.len(), usize::from(is_ill), "{said:?} {seen}");
        let again = again.map(|seconds| sim.now.checked_add(SignedDuration::from_secs(seconds)).unwrap());
        assert_eq!((plan.again, !plan.steps.is_empty()), (again, writes), "{said:?} {seen}");
    }
}

/// Whoever fills the nodes has no disk deleted by it, and whoever breaks a registry not all of them at once.
#[test]
fn what_fails_everywhere_takes_the_disks_of_one_vm_after_the_other() {
    for (word, most, deleted) in [
        ("ErrorUnschedulable", Value::Null, 0),
        ("ImagePullBackOff", Value::Null, 1),
        ("ImagePullBackOff", json!(3), 3),
    ] {
        let (mut sim, key) = begin(10, "Always", json!({"autohealing": {}, "maxUnavailable": most}));
        (0..10).for_each(|number| fails_to_start(&mut sim, number, word));
        sim.settle();
        sees(&mut sim, 20 * 60);
        sim.settle();
        sim.advance(20 * 60);
        let gone = |sim: &Sim, now| {
            let plan = super::decide(&sim.world, "n", "web", now);
            let keys = plan.steps.iter().filter_map(|step| match step {
                Step::Delete { key, .. } => Some(key.name.clone()),
                _ => None,
            });
            (keys.collect::<Vec<_>>(), plan.again)
        };
        let (names, _) = gone(&sim, sim.now);
        assert_eq!(names.len(), deleted, "{word}: {names:?}");
        // The VM that was made anew is not ready yet.
        if deleted == 1 {
            let plan = crate::decide(&sim.world, &key, sim.now);
            sim.apply(plan);
            assert_eq!(gone(&sim, sim.now).0, [""; 0], "the first is on its way");
            sim.settle();
            assert_eq!(sim.get(&vm_key(0))["metadata"]["deletionTimestamp"], Value::Null);
            let (names, again) = gone(&sim, sim.now);
            assert!(names.is_empty() && again.is_some(), "{names:?}");
            let after = sim.now.checked_add(SignedDuration::from_secs(6 * 60)).unwrap();
            assert_eq!(gone(&sim, after).0, ["web-1"]);
        }
    }
}

#[test]
fn the_sums_of_a_vm_are_those_of_its_template() {
    let (sim, _) = begin(1, "Halted", json!({}));
    let said = sim.get(&vm_key(0))["metadata"]["annotations"][SUMS].as_str().unwrap().to_owned();
    assert_eq!(said.split('.').map(str::len).collect::<Vec<_>>(), [16, 16, 16, 16]);
}
