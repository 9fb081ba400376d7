//! Offline migrations: the disks of a stopped VM go to another node, and no guest runs meanwhile.

use super::copied_claims::{disk, end, note, sized, used};
use super::*;
use cluster_model::claim_moves::MOVED_TO;
use cluster_model::objects::names;
use cluster_model::plan::Step;
use jiff::SignedDuration;

const OFFLINE: &str = cluster_model::metadata::OFFLINE_MIGRATION;

/// A VM with this run strategy on the PVC `data`, and an offline migration of it.
fn stopped(strategy: &str, change: impl FnOnce(&mut Value)) -> (Sim, Key, Key, Key) {
    stopped_in(Sim::new(), strategy, change)
}

/// The same in a cluster with other objects.
fn stopped_in(mut sim: Sim, strategy: &str, change: impl FnOnce(&mut Value)) -> (Sim, Key, Key, Key) {
    disk(&mut sim, "data", &json!([]));
    let mut object = crate::sim::vm("web", strategy);
    let spec = &mut object["spec"]["template"]["spec"];
    spec["volumes"] = json!([
        {"name": "root", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "seed", "cloudInitNoCloud": {"userData": "#"}},
    ]);
    spec["domain"]["devices"]["disks"] = json!([
        {"name": "root", "bootOrder": 1, "disk": {"bus": "sata"}}, {"name": "seed", "cdrom": {"bus": "sata"}},
    ]);
    spec["domain"]["memory"]["guest"] = json!("64Gi");
    change(&mut object);
    let vm = sim.put(Kind::VirtualMachine, object);
    sim.settle();
    let vmi = Key::new(Kind::VirtualMachineInstance, "n", "web");
    let key = migration(&mut sim, "move", &vmi, &json!({"spec": {"offline": true}}));
    (sim, vm, vmi, key)
}

/// The carrier runs. virt-handler has not reported its disks yet.
fn boots(sim: &mut Sim, vmi: &Key, key: &Key) {
    sim.boot(vmi);
    assert_eq!(waits_for(sim, key), "virt-handler has not reported yet which disks can be moved");
}

/// The carrier runs, and its disk is being copied.
fn copied(sim: &mut Sim, vmi: &Key, key: &Key) -> Key {
    boots(sim, vmi, key);
    sized(sim, vmi);
    let new = Key::new(Kind::PersistentVolumeClaim, "n", names::moved("data", &sim.uid(key)));
    sim.bind(&new);
    hand_over(sim, key);
    report(sim, vmi, &json!({"targetNodeAddress": "192.0.2.2", "startTimestamp": "2027-01-01T00:00:00Z"}));
    new
}

#[test]
fn the_disk_of_a_stopped_vm_moves_and_no_guest_runs() {
    let (mut sim, vm, vmi, key) = stopped("Halted", |_| {});
    let carrier = sim.get(&vmi).clone();
    assert_eq!(carrier["metadata"]["annotations"][OFFLINE], sim.uid(&key));
    assert_eq!(carrier["spec"]["startStrategy"], "Paused");
    let names: Vec<_> =
        carrier["spec"]["volumes"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["root", "nothing-to-boot"]);
    let disks = &carrier["spec"]["domain"]["devices"]["disks"];
    assert_eq!((&disks[0]["bootOrder"], &disks[1]["bootOrder"]), (&Value::Null, &json!(1)));
    assert_eq!(carrier["spec"]["domain"]["memory"]["guest"], "64Mi");
    assert_eq!(sim.get(&vm)["status"]["printableStatus"], "Migrating");
    let new = copied(&mut sim, &vmi, &key);
    let cordoned = |pod: &Key| sim.get(pod)["spec"]["tolerations"].to_string().contains("unschedulable");
    let target = target(&sim, &key).unwrap();
    let source = sim.keys(Kind::Pod).into_iter().find(|pod| *pod != target).unwrap();
    assert_eq!((cordoned(&source), cordoned(&target)), (true, false));
    arrive(&mut sim, &vmi);
    assert_eq!((sim.phase(&key), used(&sim, &vm)), ("Succeeded", new.name.clone()));
    end(&mut sim, &vmi);
    assert!(!sim.objects.contains_key(&vmi), "the carrier stays");
    assert_eq!(note(&sim, &Key::new(Kind::PersistentVolumeClaim, "n", "data"), MOVED_TO), new.name);
    assert_eq!(sim.get(&vm)["status"]["printableStatus"], "Stopped");
    assert_eq!(sim.get(&vm)["spec"]["runStrategy"], "Halted");
    rests(&mut sim);
    sim.change(&vm, json!({"spec": {"runStrategy": "Always"}}));
    sim.settle();
    assert_eq!(
        (used(&sim, &vmi), &sim.get(&vmi)["metadata"]["annotations"][OFFLINE]),
        (new.name, &Value::Null)
    );
    assert_eq!(sim.get(&vmi)["spec"]["domain"]["memory"]["guest"], "64Gi");
}

#[test]
fn a_vm_that_is_to_run_starts_when_its_disk_has_moved_and_not_before() {
    let (mut sim, vm, vmi, key) = stopped("Halted", |_| {});
    let uid = sim.uid(&vmi);
    sim.change(&vm, json!({"spec": {"runStrategy": "Always"}}));
    let new = copied(&mut sim, &vmi, &key);
    assert_eq!(sim.uid(&vmi), uid);
    arrive(&mut sim, &vmi);
    // The pods first: else those of the next VMI would end.
    for pod in sim.keys(Kind::Pod) {
        sim.pod_ends(&pod, "Succeeded", 0);
    }
    sim.agent_says(&vmi, "Succeeded");
    sim.settle();
    assert_ne!(sim.uid(&vmi), uid);
    assert_eq!(
        (used(&sim, &vmi), &sim.get(&vmi)["metadata"]["annotations"][OFFLINE]),
        (new.name, &Value::Null)
    );
}

#[test]
fn a_migration_that_is_cancelled_leaves_the_vm_as_it_was() {
    let (mut sim, vm, vmi, key) = stopped("Halted", |_| {});
    sim.boot(&vmi);
    sim.delete(&key);
    sim.settle();
    assert!(sim.get(&vmi)["metadata"]["deletionTimestamp"].is_string(), "the carrier stays");
    end(&mut sim, &vmi);
    assert!(!sim.objects.contains_key(&vmi));
    assert_eq!(used(&sim, &vm), "data");
    assert_eq!(sim.get(&vm)["status"]["printableStatus"], "Stopped");
    let old = Key::new(Kind::PersistentVolumeClaim, "n", "data");
    assert!(note(&sim, &old, MOVED_TO).is_empty());
}

/// Once and RerunOnFailure know their first start by the status of the VM.
#[test]
fn a_carrier_is_no_run_of_its_vm() {
    let (mut sim, vm, vmi, key) = stopped("Manual", |_| {});
    copied(&mut sim, &vmi, &key);
    arrive(&mut sim, &vmi);
    assert_eq!(sim.get(&vm)["status"]["created"], Value::Null);
    assert_eq!(sim.condition(&vm, "Ready").unwrap().0, "False");
    end(&mut sim, &vmi);
    assert!(!sim.objects.contains_key(&vmi));
    assert_eq!(sim.keys(Kind::ControllerRevision), []);
}

/// As the migration of a running VM.
#[test]
fn a_disk_that_cannot_be_copied_is_told_and_the_vm_stays_as_it_was() {
    let (mut sim, vm, vmi, key) = stopped("Halted", |_| {});
    boots(&mut sim, &vmi, &key);
    let why = json!([{"type": "LiveMigratable", "status": "False", "reason": "DisksNotLiveMigratable", "message": "why"}]);
    sim.change(&vmi, json!({"status": {"conditions": why}}));
    sized(&mut sim, &vmi);
    assert_eq!(sim.phase(&key), "Pending");
    sim.now += SignedDuration::from_secs(31);
    sim.settle();
    assert_eq!(
        told(&sim, "FailedMigration"),
        ["Cannot migrate VMI, Reason: DisksNotLiveMigratable, Message: why"]
    );
    end(&mut sim, &vmi);
    assert_eq!((sim.phase(&key), used(&sim, &vm).as_str()), ("Failed", "data"));
    assert!(!sim.objects.contains_key(&vmi));
}

#[test]
fn a_vm_that_runs_or_is_about_to_is_not_moved_offline() {
    let (sim, _, vmi, key) = stopped("Always", |_| {});
    assert_eq!(sim.get(&vmi)["metadata"]["annotations"][OFFLINE], Value::Null);
    assert_eq!(sim.phase(&key), "Failed");
    assert_eq!(
        told(&sim, "FailedMigration"),
        [
            "Migration failed because VM web runs: remove spec.offline to migrate it with its guest, or stop it"
        ]
    );
}

#[test]
fn a_vm_without_disks_of_one_node_is_not_moved() {
    let mut sim = Sim::new();
    let vm = sim.put(Kind::VirtualMachine, crate::sim::vm("web", "Halted"));
    let vmi = Key::new(Kind::VirtualMachineInstance, "n", "web");
    let key = migration(&mut sim, "move", &vmi, &json!({"spec": {"offline": true}}));
    assert!(!sim.objects.contains_key(&vmi), "a carrier was made");
    assert_eq!(sim.phase(&key), "Failed");
    assert_eq!(
        told(&sim, "FailedMigration"),
        [
            "Migration failed because the disks of VM n/web do not move without its guest: no PVC of the VM is of one node alone: \
             the VM can start on any node as it is"
        ]
    );
    assert_eq!(sim.get(&vm)["status"]["printableStatus"], "Stopped");
}

#[test]
fn a_vm_that_is_not_there_is_told() {
    let mut sim = Sim::new();
    let vmi = Key::new(Kind::VirtualMachineInstance, "n", "web");
    let key = migration(&mut sim, "move", &vmi, &json!({"spec": {"offline": true}}));
    assert_eq!(told(&sim, "FailedMigration"), ["Migration failed because VM n/web does not exist"]);
    assert!(!sim.objects.contains_key(&key));
}

/// A VMI that has ended and stays makes room.
#[test]
fn the_vmi_of_the_last_run_makes_room() {
    let mut sim = Sim::new();
    disk(&mut sim, "data", &json!([]));
    let vm = sim.put(Kind::VirtualMachine, copied_claims::on_disk(crate::sim::vm("web", "Once"), "data"));
    sim.settle();
    let vmi = Key::new(Kind::VirtualMachineInstance, "n", "web");
    sim.boot(&vmi);
    end(&mut sim, &vmi);
    let run = sim.uid(&vmi);
    let key = migration(&mut sim, "move", &vmi, &json!({"spec": {"offline": true}}));
    assert_ne!(sim.uid(&vmi), run);
    let new = copied(&mut sim, &vmi, &key);
    arrive(&mut sim, &vmi);
    end(&mut sim, &vmi);
    assert!(!sim.objects.contains_key(&vmi), "a VM that ran once runs again");
    assert_eq!(used(&sim, &vm), new.name);
}

#[test]
fn a_template_cannot_pose_as_a_carrier() {
    let mut sim = Sim::new();
    let mut object = crate::sim::vm("web", "Always");
    object["spec"]["template"]["metadata"]["annotations"][OFFLINE] = json!("u");
    sim.put(Kind::VirtualMachine, object);
    sim.settle();
    let vmi = Key::new(Kind::VirtualMachineInstance, "n", "web");
    assert_eq!(sim.get(&vmi)["metadata"]["annotations"][OFFLINE], Value::Null);
}

/// What holds a VM to its node beside its PVCs is told before anything is created, whether its spec says it or its preference.
#[test]
fn a_vm_that_something_else_holds_to_its_node_is_refused_at_once() {
    type Case = (fn(&mut Value), &'static str);
    let cases: [Case; 5] = [
        (
            |object| {
                object["spec"]["template"]["spec"]["domain"]["devices"]["disks"][0] =
                    json!({"name": "root", "cdrom": {"bus": "sata"}})
            },
            "the disk root on PVC data is a CD-ROM, and the PVC is not shared (ReadWriteMany)",
        ),
        (
            |object| {
                cluster_model::plan::merge(
                    &mut object["spec"],
                    &json!({"preference": {"name": "sealed", "kind": "VirtualMachinePreference"}}),
                )
            },
            "EFI variables and a TPM that are kept",
        ),
        (
            |object| {
                object["spec"]["template"]["spec"]["domain"]["devices"]["tpm"] = json!({"persistent": true})
            },
            "EFI variables and a TPM that are kept",
        ),
        (
            |object| {
                let spec = &mut object["spec"]["template"]["spec"];
                spec["volumes"][1] = json!({"name": "seed", "hostDisk": {"path": "/d/disk.img", "type": "DiskOrCreate", "capacity": "1Mi"}});
                spec["domain"]["devices"]["disks"][1] = json!({"name": "seed", "disk": {"bus": "sata"}});
            },
            "the volume seed is a hostDisk that is not shared",
        ),
        (
            |object| {
                let listed = json!([{"image": "r/hook:1", "pvc": {"name": "data", "volumePath": "/v", "sharedComputePath": "/v"}}]);
                object["spec"]["template"]["metadata"]["annotations"] =
                    json!({"hooks.kubevirt.io/hookSidecars": listed.to_string()});
            },
            "a hook sidecar has PVC data",
        ),
    ];
    for (change, expected) in cases {
        let mut sim = Sim::new();
        let sealed = json!({"devices": {"preferredTPM": {"persistent": true}}});
        sim.put(
            Kind::VirtualMachinePreference,
            json!({"metadata": {"namespace": "n", "name": "sealed"}, "spec": sealed}),
        );
        let (sim, _, vmi, key) = stopped_in(sim, "Halted", change);
        assert_eq!(sim.phase(&key), "Failed", "{expected}");
        assert!(told(&sim, "FailedMigration")[0].contains(expected), "{:?}", sim.told);
        assert!(!sim.objects.contains_key(&vmi), "{expected}: a carrier was made");
    }
}

/// The carrier runs at the PVCs; the new ones come where the VM can run.
#[test]
fn the_target_is_a_node_that_the_vm_itself_may_run_on() {
    let (mut sim, _, vmi, key) = stopped("Halted", |object| {
        let spec = &mut object["spec"]["template"]["spec"];
        spec["nodeSelector"] = json!({"zone": "b"});
        spec["domain"]["cpu"] = json!({"model": "Skylake", "dedicatedCpuPlacement": true});
        spec["domain"]["memory"] = json!({"guest": "3Gi"});
    });
    assert!(sim.get(&vmi)["spec"]["nodeSelector"].is_null());
    copied(&mut sim, &vmi, &key);
    let selector = |pod: &Key| sim.get(pod)["spec"]["nodeSelector"].clone();
    let target = target(&sim, &key).unwrap();
    let source = sim.keys(Kind::Pod).into_iter().find(|pod| *pod != target).unwrap();
    assert_eq!((&selector(&source)["zone"], &selector(&source)["cpumanager"]), (&Value::Null, &Value::Null));
    assert_eq!((&selector(&target)["zone"], &selector(&target)["cpumanager"]), (&json!("b"), &json!("true")));
    let memory = |pod: &Key| {
        let said = sim.get(pod)["spec"]["containers"][0]["resources"]["requests"]["memory"].clone();
        said.as_str().and_then(|said| said.parse::<u64>().ok()).unwrap() >> 30
    };
    assert_eq!((memory(&source), memory(&target)), (0, 3));
    for pod in [&source, &target] {
        assert_eq!(
            selector(pod)["cpu-model.node.kubevirt.io/Skylake"],
            "true",
            "both ends have the model of the VM"
        );
    }
}

/// A VM is not kept from its own start for ever.
#[test]
fn a_carrier_that_does_not_start_ends_its_migration() {
    let (mut sim, vm, vmi, key) = stopped("Halted", |_| {});
    let message = "no node has the PVC";
    let pod = sim.pod_of(&vmi).unwrap();
    let unscheduled =
        json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message});
    sim.pod_says(&pod, unscheduled);
    sim.settle();
    assert_eq!(sim.phase(&key), "Pending");
    assert!(waits_for(&sim, &key).ends_with(message), "{}", waits_for(&sim, &key));
    sim.advance(301);
    sim.settle();
    assert_eq!(sim.phase(&key), "Failed");
    let said = told(&sim, "FailedMigration");
    assert!(said[0].contains("did not start within 300 s") && said[0].ends_with(message), "{said:?}");
    assert!(!sim.objects.contains_key(&vmi));
    assert_eq!(sim.get(&vm)["status"]["printableStatus"], "Stopped");
}

/// A virt-controller that stood still creates no carrier for a migration that has ended meanwhile.
#[test]
fn the_migration_is_looked_at_again_before_its_carrier_is_created() {
    let mut sim = Sim::new();
    disk(&mut sim, "data", &json!([]));
    let vm = copied_claims::on_disk(crate::sim::vm("web", "Halted"), "data");
    sim.put(Kind::VirtualMachine, vm);
    sim.settle();
    let spec = json!({"vmiName": "web", "offline": true});
    sim.put(
        Kind::VirtualMachineInstanceMigration,
        json!({"metadata": {"namespace": "n", "name": "move"}, "spec": spec}),
    );
    let plan = crate::vm::decide(&sim.world, "n", "web", sim.now);
    let at = |is: fn(&Step) -> bool| plan.steps.iter().position(is);
    let creates =
        at(|step| matches!(step, Step::Create { key, .. } if key.kind == Kind::VirtualMachineInstance));
    assert!(creates.is_some() && at(Step::is_requirement) < creates, "{:?}", plan.steps);
}
