//! The end of a run of a VM: when its VMI is let go, and what becomes of it where the VM goes.

use super::{FINALIZER, ORPHAN, revision};
use crate::sim::{Sim, vm, vmi};
use cluster_model::objects::{Attempt, Failure, Key, Kind, OF_VM, owner};
use cluster_model::plan::{Step, merge};
use serde_json::{Value, json};

const HELD: &str = "example.org/x";

/// A VM, and the VMI of its name. `is_own`: the VM's.
fn begin(strategy: &str, is_own: bool, change: &Value) -> (Sim, Key, Key) {
    let mut sim = Sim::new();
    let mut object = vm("web", strategy);
    object["metadata"]["finalizers"] = json!([FINALIZER]);
    let of = sim.put(Kind::VirtualMachine, object);
    let reference = owner::reference(Kind::VirtualMachine, &sim.world.vms.get("n", "web").unwrap().metadata);
    let mut object = vmi("web");
    object["metadata"]["finalizers"] = json!([OF_VM, HELD]);
    if is_own {
        object["metadata"]["ownerReferences"] = json!([reference]);
    }
    merge(&mut object, change);
    let key = sim.put(Kind::VirtualMachineInstance, object);
    (sim, of, key)
}

fn decide(sim: &mut Sim, key: &Key) {
    let plan = crate::decide(&sim.world, key, sim.now);
    sim.apply(plan);
}

/// One that is let go too early is made again under the feet of its guest; one that is not let go stays for ever.
#[test]
fn a_vmi_is_let_go_when_it_is_deleted_and_has_ended() {
    for (is_going, phase, is_let_go) in [
        (true, "Succeeded", true),
        (true, "Failed", true),
        (true, "Running", false),
        (false, "Succeeded", false),
    ] {
        let going = is_going.then_some("2027-01-01T00:00:00Z");
        let change = json!({"metadata": {"deletionTimestamp": going}, "status": {"phase": phase}});
        let (mut sim, of, key) = begin("Manual", true, &change);
        let uid = sim.get(&of)["metadata"]["uid"].as_str().unwrap().to_owned();
        let name = format!("revision-start-vm-{uid}-1");
        let meta = json!({"namespace": "n", "name": name});
        let revision = sim.put(Kind::ControllerRevision, json!({"metadata": meta}));
        sim.change(&key, json!({"status": {"virtualMachineRevisionName": name}}));
        decide(&mut sim, &of);
        let held = if is_let_go { json!([HELD]) } else { json!([OF_VM, HELD]) };
        assert_eq!(sim.get(&key)["metadata"]["finalizers"], held, "{is_going} {phase}");
        assert_eq!(sim.objects.contains_key(&revision), !is_let_go, "{is_going} {phase}");
    }
}

/// `kubectl delete vm --cascade=orphan`: the garbage collector takes the owner from the VMI, before or after.
#[test]
fn a_vmi_that_outlives_its_vm_does_not_wait_for_it() {
    for (is_orphaned, is_own, held, is_going) in [
        (true, true, json!([HELD]), false),
        (true, false, json!([HELD]), false),
        (false, false, json!([OF_VM, HELD]), false),
        (false, true, json!([OF_VM, HELD]), true),
    ] {
        let (mut sim, of, key) = begin("Manual", is_own, &json!({"status": {"phase": "Running"}}));
        if is_orphaned {
            sim.change(&of, json!({"metadata": {"finalizers": [FINALIZER, ORPHAN]}}));
        }
        sim.delete(&of);
        decide(&mut sim, &of);
        assert_eq!(sim.get(&key)["metadata"]["finalizers"], held, "{is_orphaned} {is_own}");
        assert_eq!(sim.get(&key)["metadata"]["deletionTimestamp"].is_string(), is_going);
        let left = sim.objects.get(&of).map(|of| of["metadata"]["finalizers"].clone());
        let expected = match (is_orphaned, is_own) {
            (true, _) => Some(json!([ORPHAN])),
            (false, true) => Some(json!([FINALIZER])),
            (false, false) => None,
        };
        assert_eq!(left, expected, "{is_orphaned} {is_own}");
    }
}

#[test]
fn a_vm_gets_what_it_lacks_and_keeps_what_it_has() {
    for (has, expected) in [
        (json!({}), json!(api::uuid::of_vm("web"))),
        (json!({"uuid": ""}), json!(api::uuid::of_vm("web"))),
        (
            json!({"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"}),
            json!("5d307ca9-b3ef-428c-8861-06e72d69f223"),
        ),
    ] {
        let mut sim = Sim::new();
        let mut object = vm("web", "Halted");
        object["metadata"]["finalizers"] = json!([HELD]);
        object["spec"]["template"]["spec"]["domain"]["firmware"] = has;
        let of = sim.put(Kind::VirtualMachine, object);
        sim.settle();
        assert_eq!(sim.get(&of)["metadata"]["finalizers"], json!([HELD, FINALIZER]));
        assert_eq!(sim.get(&of).pointer("/spec/template/spec/domain/firmware/uuid"), Some(&expected));
    }
}

/// A revision that is deleted for another VM is gone from that one.
#[test]
fn a_name_is_of_a_revision_of_its_own_vm_alone() {
    for (uid, name, expected) in [
        (json!("u1"), "revision-start-vm-u1-7", true),
        (json!("u1"), "revision-start-vm-u1-12-7", false),
        (json!("u1"), "revision-start-vm-u12-7", false),
        (json!("u1"), "revision-start-vm-u1-", false),
        (json!("u1"), "revision-start-vm-u1", false),
        (json!("u1"), "u1-7", false),
        (json!(""), "revision-start-vm--7", false),
        (json!(null), "revision-start-vm--7", false),
    ] {
        let vm = api::wire::read(json!({"metadata": {"uid": uid}})).unwrap();
        assert_eq!(revision::is_of(&vm, name), expected, "{uid} {name}");
    }
}

/// The VMI of another owner is neither stopped with the VM of its name, nor replaced.
#[test]
fn a_vmi_of_another_owner_is_let_be() {
    let owner = json!([{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceReplicaSet",
        "name": "web", "uid": "s", "controller": true}]);
    for strategy in ["Halted", "Always"] {
        let change = json!({"metadata": {"ownerReferences": owner}, "status": {"phase": "Running"}});
        let (mut sim, of, key) = begin(strategy, false, &change);
        let before = sim.get(&key).clone();
        let plan = crate::decide(&sim.world, &of, sim.now);
        let makes = |step: &Step| matches!(step, Step::Create { .. });
        assert!(!plan.steps.iter().any(makes), "{strategy}: {plan:?}");
        sim.apply(plan);
        assert_eq!(*sim.get(&key), before, "{strategy}");
    }
}

#[test]
fn a_vm_that_goes_tells_of_a_failed_deletion_and_of_nothing_older() {
    for (about, is_told) in [
        (Attempt::Delete(Kind::VirtualMachineInstance), true),
        (Attempt::Make(Kind::VirtualMachineInstance), false),
    ] {
        let (mut sim, of, _) = begin("Manual", true, &json!({"status": {"phase": "Running"}}));
        let retry = sim.now;
        let failure = Failure { about, message: "m".to_owned(), times: 1, retry };
        sim.world.failures.insert(of.clone(), failure);
        sim.delete(&of);
        decide(&mut sim, &of);
        assert_eq!(sim.condition(&of, "Failure").is_some(), is_told, "{about:?}");
    }
}

/// A guest that nobody asked to pause would stand still, and be said to run.
#[test]
fn a_vm_starts_its_vmi_paused_only_where_it_is_asked_to() {
    for (data, expected) in [
        (json!({}), Value::Null),
        (json!({"paused": "false"}), Value::Null),
        (json!({"paused": "true"}), json!("Paused")),
    ] {
        let mut sim = Sim::new();
        let of = sim.put(Kind::VirtualMachine, vm("web", "Manual"));
        sim.change(&of, json!({"status": {"stateChangeRequests": [{"action": "Start", "data": data}]}}));
        decide(&mut sim, &of);
        let key = Key::new(Kind::VirtualMachineInstance, "n", "web");
        assert_eq!(sim.get(&key)["spec"]["startStrategy"], expected, "{data}");
    }
}

/// `kubectl get dv` before the next start shows what a restart would need.
#[test]
fn a_disk_that_is_missing_under_a_vmi_is_made_though_it_waits_for_a_start() {
    for is_running in [false, true] {
        let (mut sim, of, key) = begin("Manual", true, &json!({"status": {"phase": "Running"}}));
        if !is_running {
            sim.change(&key, json!({"metadata": {"finalizers": []}}));
            sim.vanish(&key);
        }
        let template = json!([{"metadata": {"name": "data"}, "spec": {"source": {"blank": {}}}}]);
        let notes = json!({"kubevirt.io/immediate-data-volume-creation": "false"});
        sim.change(
            &of,
            json!({"metadata": {"annotations": notes}, "spec": {"dataVolumeTemplates": template}}),
        );
        decide(&mut sim, &of);
        assert_eq!(sim.keys(Kind::DataVolume).len(), usize::from(is_running));
    }
}

#[test]
fn a_vmi_that_could_not_be_deleted_is_deleted_when_its_time_has_come() {
    let delete = Attempt::Delete(Kind::VirtualMachineInstance);
    for (about, seconds, is_deleted) in
        [(delete, 60, false), (delete, 0, true), (Attempt::Make(Kind::VirtualMachineInstance), 60, true)]
    {
        let (mut sim, of, key) = begin("Halted", true, &json!({"status": {"phase": "Running"}}));
        let retry = sim.now + jiff::SignedDuration::from_secs(seconds);
        let failure = Failure { about, message: "m".to_owned(), times: 1, retry };
        sim.world.failures.insert(of.clone(), failure);
        let plan = crate::decide(&sim.world, &of, sim.now);
        assert_eq!(plan.again, (!is_deleted).then_some(retry), "{about:?}");
        sim.apply(plan);
        assert_eq!(
            sim.get(&key)["metadata"]["deletionTimestamp"].is_string(),
            is_deleted,
            "{about:?} {seconds}"
        );
        assert_eq!(sim.reasons().contains(&"SuccessfulDelete".to_owned()), is_deleted, "{:?}", sim.told);
    }
}

#[test]
fn a_vmi_that_is_held_by_others_alone_takes_no_revision_along() {
    let meta = json!({"deletionTimestamp": "2027-01-01T00:00:00Z", "finalizers": [HELD]});
    let (mut sim, of, key) =
        begin("Manual", true, &json!({"metadata": meta, "status": {"phase": "Succeeded"}}));
    let uid = sim.get(&of)["metadata"]["uid"].as_str().unwrap().to_owned();
    let name = format!("revision-start-vm-{uid}-1");
    sim.change(&key, json!({"status": {"virtualMachineRevisionName": name}}));
    let plan = crate::decide(&sim.world, &of, sim.now);
    assert!(!plan.steps.iter().any(|step| matches!(step, Step::Delete { .. })), "{plan:?}");
}

/// A guest whose uuid changes under it has another serial number for its licences.
#[test]
fn another_uuid_needs_a_restart_and_that_of_the_name_is_the_default() {
    let sum = |firmware: Value| {
        let mut object = vm("web", "Always");
        object["spec"]["template"]["spec"]["domain"]["firmware"] = firmware;
        crate::template::sum(&api::wire::read(object).unwrap())
    };
    let uuid = |uuid: &str| sum(json!({"uuid": uuid}));
    assert_eq!(sum(json!(null)), uuid(&api::uuid::of_vm("web")));
    assert_ne!(sum(json!(null)), uuid("5d307ca9-b3ef-428c-8861-06e72d69f223"));
}

#[test]
fn a_vm_that_starts_says_so_and_its_vmi_has_the_labels_of_its_template() {
    let mut sim = Sim::new();
    let of = sim.put(Kind::VirtualMachine, vm("web", "Always"));
    decide(&mut sim, &of);
    assert_eq!(sim.get(&of)["status"]["printableStatus"], "Starting");
    assert_eq!(sim.reasons(), ["SuccessfulCreate"]);
    let key = Key::new(Kind::VirtualMachineInstance, "n", "web");
    assert_eq!(sim.get(&key)["metadata"]["labels"]["app"], "web");
}

/// `Once` and `RerunOnFailure` start a VM once, and remember it by the VMI that they saw.
#[test]
fn a_first_start_that_was_refused_is_not_the_first_and_one_that_was_seen_is() {
    for strategy in ["Once", "RerunOnFailure"] {
        let mut sim = Sim::new();
        let of = sim.put(Kind::VirtualMachine, vm("web", strategy));
        let key = Key::new(Kind::VirtualMachineInstance, "n", "web");
        let retry = sim.now + jiff::SignedDuration::from_secs(60);
        let about = Attempt::Make(Kind::VirtualMachineInstance);
        sim.world.failures.insert(of.clone(), Failure { about, message: "m".to_owned(), times: 1, retry });
        sim.settle();
        assert!(!sim.objects.contains_key(&key), "{strategy}");
        assert_eq!(sim.told, [("FailedCreate".to_owned(), "m".to_owned())]);
        assert_eq!(sim.warnings, ["FailedCreate"]);
        sim.now = retry;
        sim.settle();
        assert!(sim.objects.contains_key(&key), "{strategy}: it was never started");
        // It was deleted while virt-controller was away.
        sim.change(&key, json!({"metadata": {"finalizers": []}}));
        sim.vanish(&key);
        sim.world.failures.clear();
        sim.settle();
        assert!(!sim.objects.contains_key(&key), "{strategy}: it was started");
    }
}

#[test]
fn the_status_says_of_which_generation_the_guest_is() {
    let (mut sim, of, key) = begin("Manual", true, &json!({"status": {"phase": "Running"}}));
    let generations = |sim: &Sim| {
        let status = &sim.get(&of)["status"];
        (status["desiredGeneration"].clone(), status["observedGeneration"].clone())
    };
    decide(&mut sim, &of);
    let now = sim.get(&of)["metadata"]["generation"].as_i64().unwrap();
    assert_eq!(generations(&sim).1, generations(&sim).0, "a VMI that does not say it");
    sim.change(
        &key,
        json!({"metadata": {"annotations": {"kubevirt.io/vm-generation": (now - 1).to_string()}}}),
    );
    decide(&mut sim, &of);
    let now = sim.get(&of)["metadata"]["generation"].as_i64().unwrap();
    let (desired, observed) = generations(&sim);
    assert!(desired == json!(now) && observed.as_i64().unwrap() < now, "{desired} {observed}");
}

/// Switched off and on again, it is a first start.
#[test]
fn a_vm_that_was_halted_in_between_starts_once_more() {
    let mut sim = Sim::new();
    let of = sim.put(Kind::VirtualMachine, vm("web", "Once"));
    let key = Key::new(Kind::VirtualMachineInstance, "n", "web");
    sim.settle();
    sim.change(&key, json!({"metadata": {"finalizers": []}}));
    sim.vanish(&key);
    for (strategy, is_there) in [("Once", false), ("Halted", false), ("Once", true)] {
        sim.change(&of, json!({"spec": {"runStrategy": strategy}}));
        sim.settle();
        assert_eq!(sim.objects.contains_key(&key), is_there, "{strategy}");
    }
}

/// What has ended is not restarted: the next start has the template of then.
#[test]
fn a_vmi_that_has_ended_needs_no_restart() {
    let mut sim = Sim::new();
    let of = sim.put(Kind::VirtualMachine, vm("web", "Manual"));
    sim.change(&of, json!({"status": {"stateChangeRequests": [{"action": "Start"}]}}));
    sim.settle();
    let key = Key::new(Kind::VirtualMachineInstance, "n", "web");
    sim.boot(&key);
    sim.change(&of, json!({"spec": {"template": {"spec": {"domain": {"memory": {"guest": "256Mi"}}}}}}));
    sim.settle();
    assert_eq!(sim.condition(&of, "RestartRequired").unwrap().0, "True");
    sim.agent_says(&key, "Succeeded");
    sim.settle();
    assert!(sim.objects.contains_key(&key));
    assert_eq!(sim.condition(&of, "RestartRequired"), None);
}
