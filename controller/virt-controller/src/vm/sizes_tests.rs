//! Instance types and preferences of VMs, as stories.

// A `json!` reads better where it is handed over than behind a `&`.
#![allow(clippy::needless_pass_by_value)]

use crate::sim::Sim;
use cluster_model::objects::{Key, Kind};
use serde_json::{Value, json};

const INSTANCETYPE: &str = "instancetype.kubevirt.io/default-instancetype";
const PREFERENCE: &str = "instancetype.kubevirt.io/default-preference";

fn vm(spec: Value) -> Value {
    let mut vm = crate::sim::vm("web", "Always");
    let domain = &mut vm["spec"]["template"]["spec"]["domain"];
    domain.as_object_mut().unwrap().remove("memory");
    domain["devices"] = json!({"autoattachPodInterface": false});
    cluster_model::plan::merge(&mut vm, &json!({"spec": spec}));
    vm
}

fn size(sim: &mut Sim, name: &str, memory: &str) -> Key {
    let spec = json!({"cpu": {"guest": 2}, "memory": {"guest": memory}});
    let object = json!({"metadata": {"name": name}, "spec": spec});
    sim.put(Kind::VirtualMachineClusterInstancetype, object)
}

fn system(sim: &mut Sim, name: &str, spec: Value) -> Key {
    let object = json!({"metadata": {"namespace": "n", "name": name}, "spec": spec});
    sim.put(Kind::VirtualMachinePreference, object)
}

fn vmi() -> Key {
    Key::new(Kind::VirtualMachineInstance, "n", "web")
}

/// The revisions of instance types and preferences.
fn revisions(sim: &Sim) -> Vec<String> {
    let keys = sim.keys(Kind::ControllerRevision).into_iter();
    keys.map(|key| key.name).filter(|name| !name.starts_with("revision-start-vm-")).collect()
}

fn failure(sim: &Sim, vm: &Key) -> Option<(String, String)> {
    sim.condition(vm, "Failure").map(|(_, reason, message)| (reason, message))
}

#[test]
fn a_vmi_is_made_with_the_values_of_both() {
    let mut sim = Sim::new();
    size(&mut sim, "small", "256Mi");
    let cores = json!({"cpu": {"preferredCPUTopology": "cores"}, "devices": {"preferredDiskBus": "scsi"}});
    system(&mut sim, "linux", cores);
    let spec = json!({
        "instancetype": {"name": "small"},
        "preference": {"name": "linux", "kind": "VirtualMachinePreference"},
    });
    let vm = sim.put(Kind::VirtualMachine, vm(spec));
    sim.settle();
    let run = sim.get(&vmi()).clone();
    let cpu = &run["spec"]["domain"]["cpu"];
    assert_eq!((&cpu["cores"], &cpu["sockets"]), (&json!(2), &json!(1)));
    assert_eq!(run["spec"]["domain"]["memory"]["guest"], "256Mi");
    assert_eq!(run["spec"]["domain"]["devices"]["disks"][0]["disk"]["bus"], "scsi");
    let annotations = &run["metadata"]["annotations"];
    assert_eq!(annotations["kubevirt.io/cluster-instancetype-name"], "small");
    assert_eq!(annotations["kubevirt.io/preference-name"], "linux");
    let spec = &sim.get(&vm)["spec"];
    assert!(spec["template"]["spec"]["domain"]["memory"].is_null(), "the VM keeps what somebody wrote");
    let status = &sim.get(&vm)["status"];
    let named = revisions(&sim);
    assert_eq!(named.len(), 2);
    for (field, kind, name) in [
        ("instancetypeRef", "VirtualMachineClusterInstancetype", "small"),
        ("preferenceRef", "VirtualMachinePreference", "linux"),
    ] {
        let said = &status[field];
        assert_eq!((&said["kind"], &said["name"]), (&json!(kind), &json!(name)));
        let revision = said["controllerRevisionRef"]["name"].as_str().unwrap().to_owned();
        assert!(revision.starts_with(&format!("web-{name}-v1beta1-uid-")), "{revision}");
        let kept = sim.get(&Key::new(Kind::ControllerRevision, "n", revision));
        assert_eq!(kept["data"]["metadata"]["name"], name);
        assert_eq!(kept["metadata"]["ownerReferences"][0]["name"], "web");
    }
    // What is as it should be is not written again.
    let writes = sim.writes;
    sim.advance(60);
    sim.settle();
    assert_eq!(sim.writes, writes);
}

#[test]
fn an_instance_type_that_is_changed_or_gone_changes_no_vm_that_uses_it() {
    let mut sim = Sim::new();
    let small = size(&mut sim, "small", "256Mi");
    let vm = sim.put(Kind::VirtualMachine, vm(json!({"instancetype": {"name": "small"}})));
    sim.settle();
    sim.boot(&vmi());
    sim.change(&small, json!({"spec": {"memory": {"guest": "512Mi"}}}));
    sim.settle();
    assert_eq!(sim.condition(&vm, "RestartRequired"), None);
    sim.delete(&small);
    let again = |sim: &mut Sim| {
        let pod = sim.pod_of(&vmi()).unwrap();
        sim.agent_says(&vmi(), "Succeeded");
        sim.pod_ends(&pod, "Succeeded", 0);
        sim.settle();
    };
    again(&mut sim);
    assert_eq!(sim.get(&vmi())["spec"]["domain"]["memory"]["guest"], "256Mi");
    assert_eq!((revisions(&sim).len(), failure(&sim, &vm)), (1, None));
    // Another one takes effect with a restart.
    size(&mut sim, "large", "1Gi");
    sim.boot(&vmi());
    sim.change(&vm, json!({"spec": {"instancetype": {"name": "large"}}}));
    sim.settle();
    assert_eq!(sim.condition(&vm, "RestartRequired").unwrap().0, "True");
    assert_eq!(sim.get(&vm)["status"]["instancetypeRef"]["name"], "large");
    again(&mut sim);
    assert_eq!(sim.get(&vmi())["spec"]["domain"]["memory"]["guest"], "1Gi");
    assert_eq!(sim.condition(&vm, "RestartRequired"), None);
    // Without one, nothing is said of one.
    let own = json!({"memory": {"guest": "64Mi"}});
    sim.change(&vm, json!({"spec": {"instancetype": null, "template": {"spec": {"domain": own}}}}));
    sim.settle();
    assert!(sim.get(&vm)["status"]["instancetypeRef"].is_null());
}

#[test]
fn what_is_missing_is_told_and_waited_for() {
    let mut sim = Sim::new();
    let spec = json!({"instancetype": {"name": "small"}, "preference": {"name": "linux", "kind": "virtualmachinepreference"}});
    let vm = sim.put(Kind::VirtualMachine, vm(spec));
    sim.settle();
    assert!(!sim.objects.contains_key(&vmi()));
    let missing = |reason: &str, message: &str| Some((reason.to_owned(), message.to_owned()));
    assert_eq!(
        failure(&sim, &vm),
        missing(
            "FailedFindInstancetype",
            "virtualmachineclusterinstancetypes.instancetype.kubevirt.io \"small\" not found"
        )
    );
    let small = size(&mut sim, "small", "256Mi");
    assert!(sim.world.dependents(&small).contains(&vm), "it is looked at again when it comes");
    sim.settle();
    assert_eq!(
        failure(&sim, &vm),
        missing(
            "FailedFindPreference",
            "virtualmachinepreferences.instancetype.kubevirt.io \"linux\" not found"
        )
    );
    system(&mut sim, "linux", json!({}));
    sim.settle();
    assert_eq!(failure(&sim, &vm), None);
    assert!(sim.objects.contains_key(&vmi()));
}

#[test]
fn what_does_not_fit_is_not_started() {
    let mut sim = Sim::new();
    size(&mut sim, "small", "256Mi");
    let both = json!({"instancetype": {"name": "small"}, "template": {"spec": {"domain": {"memory": {"guest": "1Gi"}}}}});
    let key = sim.put(Kind::VirtualMachine, vm(both));
    sim.settle();
    let (reason, message) = failure(&sim, &key).unwrap();
    assert_eq!(reason, "FailedCreate");
    assert_eq!(
        message,
        "VM field(s) spec.template.spec.domain.memory.guest conflicts with selected instance type"
    );
    assert!(!sim.objects.contains_key(&vmi()) && revisions(&sim).is_empty());

    let mut sim = Sim::new();
    size(&mut sim, "small", "256Mi");
    system(&mut sim, "huge", json!({"requirements": {"memory": {"guest": "8Gi"}}}));
    let spec = json!({"instancetype": {"name": "small"}, "preference": {"name": "huge", "kind": "VirtualMachinePreference"}});
    let key = sim.put(Kind::VirtualMachine, vm(spec));
    sim.settle();
    assert_eq!(
        failure(&sim, &key).unwrap().1,
        "failure checking preference requirements: insufficient Memory resources of 256Mi provided by instance type, \
         preference requires 8Gi"
    );
    assert!(!sim.objects.contains_key(&vmi()));
}

#[test]
fn a_revision_of_somebody_is_used_where_it_is_one() {
    let mut sim = Sim::new();
    let metadata = |kind: &str| json!({"namespace": "n", "name": "kept", "labels": {"instancetype.kubevirt.io/object-kind": kind}});
    let kind = "VirtualMachineInstancetype";
    let spec = json!({"cpu": {"guest": 1}, "memory": {"guest": "96Mi"}});
    let data = json!({"apiVersion": "instancetype.kubevirt.io/v1beta1", "kind": kind, "spec": spec});
    sim.put(Kind::ControllerRevision, json!({"metadata": metadata(kind), "data": data, "revision": 0}));
    let named = json!({"instancetype": {"name": "gone", "kind": kind, "revisionName": "kept"}});
    let key = sim.put(Kind::VirtualMachine, vm(named));
    sim.settle();
    assert_eq!(sim.get(&vmi())["spec"]["domain"]["memory"]["guest"], "96Mi");
    assert_eq!(sim.get(&key)["status"]["instancetypeRef"]["controllerRevisionRef"]["name"], "kept");

    let mut sim = Sim::new();
    let named = json!({"instancetype": {"name": "gone", "revisionName": "kept"}});
    let key = sim.put(Kind::VirtualMachine, vm(named));
    sim.settle();
    assert!(failure(&sim, &key).unwrap().1.starts_with("controllerrevisions.apps \"kept\" not found"));
    assert!(!sim.objects.contains_key(&vmi()));
}

/// The garbage collector is slower than whoever makes the VM again.
#[test]
fn a_revision_of_a_vm_that_is_gone_is_waited_for() {
    let mut sim = Sim::new();
    let small = size(&mut sim, "small", "256Mi");
    let uid = sim.uid(&small);
    let old = json!({"namespace": "n", "name": "web", "uid": "old"});
    let kind = api::instancetype::MatcherKind::parse(api::instancetype::Role::Instancetype, "").unwrap();
    let live = cluster_model::instancetypes::find(&sim.world, kind, "n", "small").unwrap();
    let left = sim.put(Kind::ControllerRevision, live.revision(&api::wire::read(old).unwrap()));
    assert_eq!(left.name, format!("web-small-v1beta1-{uid}-1"));
    let key = sim.put(Kind::VirtualMachine, vm(json!({"instancetype": {"name": "small"}})));
    sim.settle();
    assert!(failure(&sim, &key).unwrap().1.contains("still exists from a VM that is gone"));
    assert!(sim.world.dependents(&left).contains(&key), "it is looked at again when that goes");
    sim.vanish(&left);
    sim.settle();
    assert_eq!((failure(&sim, &key), revisions(&sim)), (None, vec![left.name]));
    assert!(sim.objects.contains_key(&vmi()));
}

#[test]
fn names_are_inferred_from_the_labels_of_a_volume() {
    let claim = |labels: Value| json!({"metadata": {"namespace": "n", "name": "root", "labels": labels}, "status": {"phase": "Bound"}});
    let volumes = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "root"}}]);
    let of = |policy: Value, domain: Value| {
        let inferred = json!({"inferFromVolume": "root", "inferFromVolumeFailurePolicy": policy});
        vm(json!({
            "instancetype": inferred, "preference": inferred,
            "template": {"spec": {"volumes": volumes, "domain": domain}},
        }))
    };
    // It comes after the VM.
    let mut sim = Sim::new();
    size(&mut sim, "small", "256Mi");
    system(&mut sim, "linux", json!({}));
    let key = sim.put(Kind::VirtualMachine, of(json!("Reject"), json!({})));
    sim.settle();
    assert_eq!(
        failure(&sim, &key).unwrap().1,
        "persistentvolumeclaims \"root\" not found; asked for by spec.instancetype.inferFromVolume: root"
    );
    let labels = json!({
        INSTANCETYPE: "small", PREFERENCE: "linux", (format!("{PREFERENCE}-kind")): "virtualmachinepreference",
    });
    sim.put(Kind::PersistentVolumeClaim, claim(labels));
    sim.settle();
    let spec = sim.get(&key)["spec"].clone();
    assert_eq!(spec["instancetype"], json!({"name": "small", "kind": "VirtualMachineClusterInstancetype"}));
    assert_eq!(spec["preference"], json!({"name": "linux", "kind": "VirtualMachinePreference"}));
    assert_eq!(sim.get(&vmi())["spec"]["domain"]["memory"]["guest"], "256Mi");
    assert_eq!(
        sim.get(&vmi())["metadata"]["annotations"]["kubevirt.io/vm-generation"],
        sim.get(&key)["metadata"]["generation"].to_string(),
        "the names were written before"
    );
    // A volume that names none: refused, or left to what the VM says.
    for (policy, runs) in [("Reject", false), ("Ignore", true)] {
        let mut sim = Sim::new();
        sim.put(Kind::PersistentVolumeClaim, claim(json!({})));
        let own = json!({"memory": {"guest": "64Mi"}});
        let key = sim.put(Kind::VirtualMachine, of(json!(policy), own));
        sim.settle();
        assert_eq!(sim.objects.contains_key(&vmi()), runs, "{policy}");
        assert_eq!(sim.get(&key)["spec"]["instancetype"].is_null(), runs, "{policy}");
        let told = failure(&sim, &key).map(|(_, message)| message);
        let wanted = format!(
            "unable to find required {INSTANCETYPE} label on the volume; asked for by spec.instancetype.inferFromVolume: root"
        );
        assert_eq!(told, (!runs).then_some(wanted), "{policy}");
    }
    // Where one is found, the memory for the other case goes.
    let mut sim = Sim::new();
    size(&mut sim, "small", "256Mi");
    sim.put(Kind::PersistentVolumeClaim, claim(json!({INSTANCETYPE: "small"})));
    sim.put(Kind::VirtualMachine, of(json!("Ignore"), json!({"memory": {"guest": "64Mi"}})));
    sim.settle();
    assert_eq!(sim.get(&vmi())["spec"]["domain"]["memory"]["guest"], "256Mi");
}

/// The label comes to the source of the clone last of all, and the DataVolume is no template of the VM.
#[test]
fn a_label_that_comes_to_the_source_of_a_clone_is_seen() {
    let claim = |name: &str, labels: Value| json!({"metadata": {"namespace": "n", "name": name, "labels": labels}, "status": {"phase": "Bound"}});
    let sources = [
        json!({"source": {"pvc": {"name": "golden"}}}),
        json!({"sourceRef": {"kind": "DataSource", "name": "newest"}}),
    ];
    for source in sources {
        let mut sim = Sim::new();
        size(&mut sim, "small", "256Mi");
        let mut spec = source.clone();
        spec["storage"] = json!({"resources": {"requests": {"storage": "16Mi"}}});
        sim.put(Kind::DataSource, json!({"metadata": {"namespace": "n", "name": "newest"}, "spec": {"source": {"pvc": {"name": "golden"}}}}));
        let golden = sim.put(Kind::PersistentVolumeClaim, claim("golden", json!({})));
        sim.put(Kind::DataVolume, json!({"metadata": {"namespace": "n", "name": "root"}, "spec": spec}));
        let key = sim.put(
            Kind::VirtualMachine,
            vm(json!({
                "instancetype": {"inferFromVolume": "root"},
                "template": {"spec": {"volumes": [{"name": "root", "dataVolume": {"name": "root"}}]}},
            })),
        );
        sim.settle();
        assert!(failure(&sim, &key).is_some(), "{source}");
        // Nothing else may wake it: a clone that is whole is written no more.
        assert!(sim.world.dependents(&golden).contains(&key), "{source}");
        sim.change(&golden, json!({"metadata": {"labels": {INSTANCETYPE: "small"}}}));
        sim.settle();
        assert_eq!(failure(&sim, &key), None, "{source}");
        assert_eq!(sim.get(&key)["spec"]["instancetype"]["name"], "small", "{source}");
    }
}

fn policy(sim: &mut Sim, word: &str) {
    let spec = json!({"configuration": {"instancetype": {"referencePolicy": word}}});
    let meta = json!({"namespace": "kubevirt", "name": "kubevirt"});
    sim.world.put(Kind::KubeVirt, json!({"metadata": meta, "spec": spec}), sim.now);
}

/// What names an instance type and uses none yet has its values instead; what uses one keeps it, unless all are replaced.
#[test]
fn a_policy_replaces_names_by_their_values() {
    for (word, old, new) in [("reference", true, true), ("expand", true, false), ("expandAll", false, false)]
    {
        let mut sim = Sim::new();
        size(&mut sim, "small", "256Mi");
        let named = json!({"instancetype": {"name": "small"}, "runStrategy": "Halted"});
        let before = sim.put(Kind::VirtualMachine, vm(named.clone()));
        sim.settle();
        policy(&mut sim, word);
        let mut after = vm(named);
        after["metadata"]["name"] = json!("later");
        let after = sim.put(Kind::VirtualMachine, after);
        sim.settle();
        for (key, is_named) in [(before, old), (after, new)] {
            let object = sim.get(&key);
            let memory = &object["spec"]["template"]["spec"]["domain"]["memory"]["guest"];
            assert_eq!(object["spec"]["instancetype"]["name"] == "small", is_named, "{word} {key}");
            assert_eq!(*memory == "256Mi", !is_named, "{word} {key}");
            assert_eq!(object["status"]["instancetypeRef"].is_object(), is_named, "{word} {key}");
        }
    }
}

#[test]
fn a_vm_that_is_to_have_the_values_is_written_before_it_starts_and_not_while_it_runs() {
    let mut sim = Sim::new();
    size(&mut sim, "small", "256Mi");
    let web = sim.put(Kind::VirtualMachine, vm(json!({"instancetype": {"name": "small"}})));
    sim.settle();
    policy(&mut sim, "expandAll");
    sim.settle();
    assert_eq!(sim.get(&web)["spec"]["instancetype"]["name"], "small");
    assert_eq!(sim.condition(&web, "RestartRequired"), None);
    sim.delete(&web);
    let mut next = vm(json!({"instancetype": {"name": "small"}}));
    next["metadata"]["name"] = json!("next");
    let next = sim.put(Kind::VirtualMachine, next);
    sim.settle();
    assert!(sim.get(&next)["spec"]["instancetype"].is_null());
    let run = Key::new(Kind::VirtualMachineInstance, "n", "next");
    assert_eq!(sim.get(&run)["spec"]["domain"]["memory"]["guest"], "256Mi");
    assert_eq!(sim.condition(&next, "RestartRequired"), None);
}

/// A VM that named it would not find it, for ever.
#[test]
fn a_revision_of_somebody_else_under_the_name_is_not_taken_for_ours() {
    let (mut sim, mut ours) = (Sim::new(), Sim::new());
    for sim in [&mut sim, &mut ours] {
        size(sim, "small", "256Mi");
    }
    let stopped = || vm(json!({"instancetype": {"name": "small"}, "runStrategy": "Halted"}));
    let key = ours.put(Kind::VirtualMachine, stopped());
    ours.settle();
    let name = revisions(&ours).remove(0);
    let planted = json!({"metadata": {"namespace": "n", "name": name}, "data": {}, "revision": 1});
    let planted = sim.put(Kind::ControllerRevision, planted);
    assert_eq!(sim.put(Kind::VirtualMachine, stopped()), key);
    let plan = crate::decide(&sim.world, &key, sim.now);
    let (about, error) = crate::sim::door::carry_out(&mut sim, plan).failed.unwrap();
    assert!(
        error.to_string().contains(&name) && error.to_string().contains("another program or user"),
        "{error}"
    );
    assert!(about.is_some(), "it is said of the VM");
    let named =
        |sim: &Sim| sim.get(&key)["status"]["instancetypeRef"]["controllerRevisionRef"]["name"].clone();
    assert_eq!((named(&sim), &sim.get(&planted)["data"]), (Value::Null, &json!({})));
    sim.vanish(&planted);
    sim.settle();
    assert_eq!(named(&sim), name.as_str());
}
