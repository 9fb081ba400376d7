//! The end of a run of a VM: when its VMI is let go, and what becomes of it where the VM goes.

use super::{FINALIZER, ORPHAN, revision};
use crate::sim::{Sim, vm, vmi};
use cluster_model::objects::{Key, Kind, OF_VM, owner};
use cluster_model::plan::merge;
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
