//! VMs, as stories; and what each run strategy makes of each VMI, as a table.

// A `json!` reads better where it is handed over than behind a `&`.
#![allow(clippy::needless_pass_by_value)]

mod foreign_disks;
mod halted;
mod kept;

use crate::sim::{Sim, blank, replica_set, vm, vm_with_disk};
use cluster_model::metadata::RESERVED;
use cluster_model::objects::{Key, Kind};
use serde_json::{Value, json};

fn begin(strategy: &str) -> (Sim, Key, Key) {
    let mut sim = Sim::new();
    let vm = sim.put(Kind::VirtualMachine, vm("web", strategy));
    sim.settle();
    (sim, vm, Key::new(Kind::VirtualMachineInstance, "n", "web"))
}

fn word(sim: &Sim, vm: &Key) -> String {
    sim.get(vm)["status"]["printableStatus"].as_str().unwrap_or_default().to_owned()
}

fn ask(sim: &mut Sim, vm: &Key, requests: Value) {
    sim.change(vm, json!({"status": {"stateChangeRequests": requests}}));
    sim.settle();
}

/// Ends the VMI as virt-handler would, and its pod with it.
fn end(sim: &mut Sim, vmi: &Key, phase: &str) {
    let pod = sim.pod_of(vmi);
    sim.agent_says(vmi, phase);
    // The pod goes first: else a new VMI may be there before.
    if let Some(pod) = pod {
        sim.pod_ends(&pod, if phase == "Failed" { "Failed" } else { "Succeeded" }, 0);
    }
    sim.settle();
}

#[test]
fn a_vm_that_always_runs_runs_again() {
    let (mut sim, vm, vmi) = begin("Always");
    assert_eq!(word(&sim, &vm), "Starting");
    sim.boot(&vmi);
    let status = sim.get(&vm)["status"].clone();
    assert_eq!(
        (&status["created"], &status["ready"], &status["printableStatus"]),
        (&json!(true), &json!(true), &json!("Running"))
    );
    assert_eq!(sim.condition(&vm, "Ready").unwrap().0, "True");
    let first = sim.get(&vmi)["metadata"]["uid"].clone();
    end(&mut sim, &vmi, "Succeeded");
    assert_ne!(sim.get(&vmi)["metadata"]["uid"], first);
    assert_eq!(
        sim.get(&vmi)["status"]["virtualMachineRevisionName"],
        sim.objects.keys().find(|key| key.kind == Kind::ControllerRevision).unwrap().name.as_str()
    );
    assert_eq!(
        sim.objects.keys().filter(|key| key.kind == Kind::ControllerRevision).count(),
        1,
        "an old one goes"
    );
    assert_eq!(sim.warnings, [""; 0]);
}

#[test]
fn what_each_strategy_makes_of_each_end() {
    // Whether there is a VMI after: none at first, one that succeeded, one that failed after it ran.
    for (strategy, expected) in [
        ("Always", [true, true, true]),
        ("RerunOnFailure", [true, false, true]),
        ("Manual", [false, false, false]),
        ("Halted", [false, false, false]),
        ("Once", [true, false, false]),
    ] {
        let (sim, ..) = begin(strategy);
        let runs = |sim: &Sim| {
            sim.objects.iter().any(|(key, object)| {
                key.kind == Kind::VirtualMachineInstance
                    && !["Succeeded", "Failed"]
                        .contains(&object["status"]["phase"].as_str().unwrap_or_default())
            })
        };
        assert_eq!(runs(&sim), expected[0], "{strategy} at first");
        for (phase, expected) in ["Succeeded", "Failed"].into_iter().zip(&expected[1..]) {
            let (mut sim, vm, vmi) = begin(strategy);
            if strategy == "Manual" {
                ask(&mut sim, &vm, json!([{"action": "Start"}]));
            }
            if !runs(&sim) {
                continue;
            }
            sim.boot(&vmi);
            end(&mut sim, &vmi, phase);
            assert_eq!(runs(&sim), *expected, "{strategy} after {phase}");
            if !expected {
                assert_eq!(word(&sim, &vm), "Stopped", "{strategy} after {phase}");
            }
        }
    }
}

#[test]
fn requests_are_done_in_order_and_taken_off() {
    let (mut sim, vm, vmi) = begin("Manual");
    assert_eq!(word(&sim, &vm), "Stopped");
    ask(&mut sim, &vm, json!([{"action": "Start"}]));
    sim.boot(&vmi);
    assert_eq!(word(&sim, &vm), "Running");
    let requests = |sim: &Sim| sim.get(&vm)["status"]["stateChangeRequests"].as_array().map_or(0, Vec::len);
    assert_eq!(requests(&sim), 0);
    let uid = sim.get(&vmi)["metadata"]["uid"].clone();
    ask(&mut sim, &vm, json!([{"action": "Stop", "uid": "another"}]));
    assert_eq!((word(&sim, &vm).as_str(), requests(&sim)), ("Running", 0), "what is not meant is left");
    ask(&mut sim, &vm, json!([{"action": "Stop", "uid": uid}, {"action": "Start"}]));
    assert_eq!((word(&sim, &vm).as_str(), requests(&sim)), ("Stopping", 2));
    end(&mut sim, &vmi, "Succeeded");
    assert_ne!(sim.get(&vmi)["metadata"]["uid"], uid);
    assert_eq!((word(&sim, &vm).as_str(), requests(&sim)), ("Starting", 0));
    sim.boot(&vmi);
    let uid = sim.get(&vmi)["metadata"]["uid"].clone();
    ask(&mut sim, &vm, json!([{"action": "Stop", "uid": uid}]));
    end(&mut sim, &vmi, "Succeeded");
    assert_eq!((word(&sim, &vm).as_str(), requests(&sim)), ("Stopped", 0));
    assert!(!sim.objects.contains_key(&vmi));
}

#[test]
fn a_start_of_a_halted_vm_sets_it_to_run_always() {
    let (mut sim, vm, vmi) = begin("Halted");
    ask(&mut sim, &vm, json!([{"action": "Start", "data": {"paused": "true"}}]));
    assert_eq!(sim.get(&vm)["spec"]["runStrategy"], "Always");
    assert_eq!(sim.get(&vmi)["spec"]["startStrategy"], "Paused");
    sim.boot(&vmi);
    sim.change(&vm, json!({"spec": {"runStrategy": "Halted"}}));
    sim.settle();
    assert_eq!(word(&sim, &vm), "Stopping");
}

#[test]
fn starts_that_fail_wait_longer_each_time() {
    let (mut sim, vm, vmi) = begin("Always");
    for (count, least) in [(1, 10), (2, 40)] {
        sim.settle();
        let pod = sim.pod_of(&vmi).unwrap();
        let begun = sim.now;
        sim.pod_ends(&pod, "Failed", 1);
        sim.settle();
        assert!(!sim.objects.contains_key(&vmi), "it waits");
        let failure = sim.get(&vm)["status"]["startFailure"].clone();
        assert_eq!(failure["consecutiveFailCount"], count);
        let retry: jiff::Timestamp = failure["retryAfterTimestamp"].as_str().unwrap().parse().unwrap();
        assert!(retry.duration_since(begun).as_secs() >= least);
        assert_eq!(word(&sim, &vm), "CrashLoopBackOff");
        let plan = crate::decide(&sim.world, &vm, sim.now);
        assert_eq!((plan.is_empty(), plan.again), (true, Some(retry)));
        sim.now = retry;
        sim.settle();
        assert!(sim.objects.contains_key(&vmi));
    }
    sim.boot(&vmi);
    assert!(sim.get(&vm)["status"]["startFailure"].is_null(), "it has run");
}

#[test]
fn a_change_of_the_template_needs_a_restart() {
    let (mut sim, vm, vmi) = begin("Always");
    sim.boot(&vmi);
    sim.change(&vm, json!({"spec": {"runStrategy": "RerunOnFailure"}}));
    sim.settle();
    assert_eq!(sim.condition(&vm, "RestartRequired"), None);
    sim.change(&vm, json!({"spec": {"template": {"spec": {"domain": {"memory": {"guest": "256Mi"}}}}}}));
    sim.settle();
    assert_eq!(sim.condition(&vm, "RestartRequired").unwrap().0, "True");
    sim.change(&vm, json!({"spec": {"template": {"spec": {"domain": {"memory": {"guest": "128Mi"}}}}}}));
    sim.settle();
    assert_eq!(sim.condition(&vm, "RestartRequired"), None);
}

#[test]
fn the_state_of_a_link_reaches_the_vmi_that_runs_and_needs_no_restart() {
    let mut sim = Sim::new();
    let mut object = vm("web", "Always");
    let interfaces =
        json!([{"name": "default", "masquerade": {}}, {"name": "lan", "bridge": {}, "state": "down"}]);
    let spec = &mut object["spec"]["template"]["spec"];
    spec["domain"]["devices"]["interfaces"] = interfaces.clone();
    spec["networks"] =
        json!([{"name": "default", "pod": {}}, {"name": "lan", "multus": {"networkName": "lan"}}]);
    let vm = sim.put(Kind::VirtualMachine, object);
    sim.settle();
    let vmi = Key { kind: Kind::VirtualMachineInstance, ..vm.clone() };
    sim.boot(&vmi);
    let states = |sim: &Sim| {
        let list = sim.get(&vmi)["spec"]["domain"]["devices"]["interfaces"].clone();
        [list[0]["state"].clone(), list[1]["state"].clone()]
    };
    assert_eq!(states(&sim), [Value::Null, json!("down")]);
    let change = |sim: &mut Sim, first: &str, second: &str| {
        let mut changed = interfaces.clone();
        (changed[0]["state"], changed[1]["state"]) = (json!(first), json!(second));
        let devices = json!({"interfaces": changed});
        sim.change(&vm, json!({"spec": {"template": {"spec": {"domain": {"devices": devices}}}}}));
        sim.settle();
    };
    change(&mut sim, "down", "up");
    assert_eq!(states(&sim), [json!("down"), json!("up")]);
    assert_eq!(sim.condition(&vm, "RestartRequired"), None);
    // An interface that is to go, goes with the next start.
    change(&mut sim, "up", "absent");
    assert_eq!(states(&sim), [json!("up"), json!("up")]);
    assert_eq!(sim.condition(&vm, "RestartRequired").unwrap().0, "True");
}

#[test]
fn a_vm_goes_after_its_vmi_and_an_orphan_stays() {
    let (mut sim, vm, vmi) = begin("Always");
    sim.boot(&vmi);
    sim.delete(&vm);
    sim.settle();
    assert_eq!(word(&sim, &vm), "Terminating");
    assert!(!sim.get(&vmi)["metadata"]["deletionTimestamp"].is_null());
    // Why its VMI does not go is said where people look.
    let mut said = sim.get(&vmi)["status"]["conditions"].as_array().unwrap().clone();
    said.push(
        json!({"type": "Paused", "status": "True", "reason": "PausedByUser", "message": "stands still"}),
    );
    sim.change(&vmi, json!({"status": {"conditions": said}}));
    sim.settle();
    let paused = ("True".to_owned(), "PausedByUser".to_owned(), "stands still".to_owned());
    assert_eq!(sim.condition(&vm, "Paused"), Some(paused));
    end(&mut sim, &vmi, "Succeeded");
    assert!(!sim.objects.contains_key(&vm) && !sim.objects.contains_key(&vmi));

    let (mut sim, vm, vmi) = begin("Always");
    sim.boot(&vmi);
    let mut finalizers = sim.get(&vm)["metadata"]["finalizers"].as_array().unwrap().clone();
    finalizers.push(json!("orphan"));
    sim.change(&vm, json!({"metadata": {"finalizers": finalizers}}));
    sim.delete(&vm);
    sim.settle();
    assert!(sim.get(&vmi)["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(
        sim.get(&vmi)["metadata"]["finalizers"],
        json!(["kubevirt.io/foregroundDeleteVirtualMachine"])
    );
    assert_eq!(sim.get(&vm)["metadata"]["finalizers"], json!(["orphan"]));
}

/// A status that was forged before a policy stood names whose revision is deleted.
#[test]
fn the_revision_that_goes_with_a_run_is_one_of_its_own_vm() {
    let (mut sim, _, vmi) = begin("Halted");
    let other = sim.put(
        Kind::ControllerRevision,
        json!({"metadata": {"namespace": "n", "name": "revision-start-vm-other-1"}, "revision": 1}),
    );
    let vm = sim.put(Kind::VirtualMachine, vm("db", "Always"));
    sim.settle();
    let vmi = Key { name: "db".into(), ..vmi };
    sim.boot(&vmi);
    sim.change(&vmi, json!({"status": {"virtualMachineRevisionName": other.name}}));
    sim.change(&vm, json!({"spec": {"runStrategy": "Halted"}}));
    sim.settle();
    end(&mut sim, &vmi, "Succeeded");
    assert!(!sim.objects.contains_key(&vmi) && sim.objects.contains_key(&other));
}

#[test]
fn disks_are_made_and_waited_for() {
    let mut sim = Sim::new();
    let vm = sim.put(Kind::VirtualMachine, vm_with_disk("web", "Always", blank()));
    sim.settle();
    let data = Key::new(Kind::DataVolume, "n", "data");
    let vmi = Key::new(Kind::VirtualMachineInstance, "n", "web");
    assert_eq!(sim.get(&data)["metadata"]["ownerReferences"][0]["name"], "web");
    assert_eq!(word(&sim, &vm), "Provisioning");
    assert!(!sim.objects.contains_key(&vmi));
    sim.bind(&Key::new(Kind::PersistentVolumeClaim, "n", "data"));
    sim.change(&data, json!({"status": {"phase": "Failed"}}));
    sim.settle();
    assert_eq!(word(&sim, &vm), "DataVolumeError");
    sim.change(&data, json!({"status": {"phase": "Succeeded"}}));
    sim.boot(&vmi);
    assert_eq!(word(&sim, &vm), "Running");
}

/// No webhook was asked, or it was of an older version: nobody's claim is copied with our rights.
#[test]
fn a_disk_that_is_somebody_elses_claim_is_not_made() {
    for source in [
        json!({"pvc": {"dataSourceRef": {"kind": "a", "name": "b", "namespace": "victim"}}}),
        json!({"storage": {"dataSourceRef": {"kind": "a", "name": "b", "namespace": "victim"}}}),
    ] {
        let mut sim = Sim::new();
        let mut object = vm("web", "Always");
        object["spec"]["dataVolumeTemplates"] = json!([{"metadata": {"name": "data"}, "spec": source}]);
        object["spec"]["template"]["spec"]["volumes"] =
            json!([{"name": "root", "dataVolume": {"name": "data"}}]);
        let vm = sim.put(Kind::VirtualMachine, object);
        sim.settle();
        assert!(!sim.objects.contains_key(&Key::new(Kind::DataVolume, "n", "data")), "{source}");
        assert!(!sim.objects.contains_key(&Key::new(Kind::VirtualMachineInstance, "n", "web")), "{source}");
        let status = sim.get(&vm)["status"].to_string();
        assert!(status.contains("is not created"), "{source}: {status}");
        assert!(status.contains("is not checked for this field"), "{source}: {status}");
    }
}

#[test]
fn an_old_vm_has_the_uuid_of_its_name() {
    let (sim, vm, vmi) = begin("Always");
    let uuid = api::uuid::of_vm("web");
    assert_eq!(sim.get(&vm).pointer("/spec/template/spec/domain/firmware/uuid"), Some(&json!(uuid)));
    assert_eq!(sim.get(&vmi).pointer("/spec/domain/firmware/uuid"), Some(&json!(uuid)));
}

#[test]
fn what_goes_wrong_has_a_word() {
    for (kind, reason, expected) in [
        ("Synchronized", "ErrImagePull", "ErrImagePull"),
        ("Synchronized", "ImagePullBackOff", "ImagePullBackOff"),
    ] {
        let (mut sim, vm, vmi) = begin("Always");
        let pod = sim.pod_of(&vmi).unwrap();
        let waiting = json!({"reason": reason, "message": "manifest unknown"});
        sim.change(
            &pod,
            json!({"status": {"containerStatuses": [{"name": "compute", "state": {"waiting": waiting}}]}}),
        );
        sim.settle();
        assert_eq!(word(&sim, &vm), expected);
        assert_eq!(sim.condition(&vm, kind).unwrap().2, "manifest unknown");
    }
    let (mut sim, vm, vmi) = begin("Always");
    let pod = sim.pod_of(&vmi).unwrap();
    sim.change(&pod, json!({"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}}));
    sim.settle();
    assert_eq!(word(&sim, &vm), "ErrorUnschedulable");
}

#[test]
fn a_replica_set_keeps_its_number() {
    let mut sim = Sim::new();
    let mut template = crate::sim::vmi("x");
    template = json!({"metadata": {"labels": {"app": "web"}}, "spec": template["spec"].take()});
    let set = sim.put(
        Kind::VirtualMachineInstanceReplicaSet,
        json!({
            "metadata": {"namespace": "n", "name": "web"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template},
        }),
    );
    let count = |sim: &Sim| sim.objects.keys().filter(|key| key.kind == Kind::VirtualMachineInstance).count();
    sim.settle();
    assert_eq!(count(&sim), 3);
    assert_eq!(sim.get(&set)["status"]["replicas"], 3);
    assert_eq!(sim.get(&set)["status"]["labelSelector"], "app=web");
    let first = Key::new(Kind::VirtualMachineInstance, "n", "web-0");
    sim.boot(&first);
    assert_eq!(sim.get(&set)["status"]["readyReplicas"], 1);
    // Paused: a failed one is not replaced. Then one that serves is the last to go.
    sim.change(&set, json!({"spec": {"paused": true, "replicas": 1}}));
    sim.settle();
    assert_eq!((count(&sim), sim.condition(&set, "ReplicaPaused").unwrap().0), (3, "True".to_owned()));
    sim.change(&set, json!({"spec": {"paused": false}}));
    sim.settle();
    for key in sim.objects.keys().filter(|key| key.kind == Kind::Pod).cloned().collect::<Vec<_>>() {
        if !sim.get(&key)["metadata"]["deletionTimestamp"].is_null() {
            sim.vanish(&key);
        }
    }
    sim.settle();
    assert_eq!(count(&sim), 1);
    assert!(sim.objects.contains_key(&first));
    assert_eq!(sim.condition(&set, "ReplicaPaused"), None);
    let uid = sim.get(&first)["metadata"]["uid"].clone();
    end(&mut sim, &first, "Failed");
    assert_eq!(sim.get(&first)["metadata"]["uid"], uid, "one that fails at once keeps its place for a while");
    sim.advance(11);
    sim.settle();
    assert_eq!(count(&sim), 1, "one that has ended is replaced");
    assert!(
        sim.objects
            .keys()
            .all(|key| key.kind != Kind::VirtualMachineInstance || sim.get(key)["metadata"]["uid"] != uid)
    );
}

#[test]
fn a_name_that_somebody_elses_vmi_has_is_told_and_waited_for() {
    let mut sim = Sim::new();
    let other = sim.put(Kind::VirtualMachineInstance, crate::sim::vmi("web"));
    sim.settle();
    let vm = sim.put(Kind::VirtualMachine, vm("web", "Always"));
    sim.settle();
    let (status, reason, said) = sim.condition(&vm, "Failure").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("True", "FailedCreate"));
    assert!(said.contains("does not belong to this VirtualMachine"), "{said}");
    let writes = sim.writes;
    sim.advance(60);
    sim.settle();
    assert_eq!(sim.writes, writes, "said once");
    let uid = sim.get(&other)["metadata"]["uid"].clone();
    sim.delete(&other);
    let pod = sim.pod_of(&other).unwrap();
    sim.settle();
    sim.vanish(&pod);
    sim.settle();
    assert_ne!(sim.get(&other)["metadata"]["uid"], uid, "the VM has its own now");
    assert_eq!(sim.condition(&vm, "Failure"), None);
}

#[test]
fn the_settings_object_is_made_and_told_of() {
    let mut sim = Sim::empty();
    let plan = crate::kubevirt::create_if_missing(&sim.world);
    sim.apply(plan);
    let key = Key::new(Kind::KubeVirt, "kubevirt", "kubevirt");
    sim.settle();
    assert_eq!(sim.get(&key)["status"]["phase"], "Deployed");
    assert_eq!(sim.condition(&key, "Available").unwrap().0, "True");
    assert!(crate::kubevirt::create_if_missing(&sim.world).is_empty());
}

/// A DataVolume's annotations reach the pods that fill it, which whoever makes VMs may not make.
#[test]
fn a_disk_of_a_template_gets_what_a_pod_may_get_and_the_rest_is_told() {
    let mut sim = Sim::new();
    let mut object = vm("web", "Always");
    object["spec"]["dataVolumeTemplates"] = json!([{
        "metadata": {
            "name": "data",
            "annotations": {
                "cdi.kubevirt.io/storage.bind.immediate.requested": "true", "sidecar.istio.io/inject": "false",
                "cdi.kubevirt.io/storage.clone.token": "a", "cdi.kubevirt.io/storage.extended.clone.token": "a",
                "k8s.v1.cni.cncf.io/networks": "kube-system/a", "v1.multus-cni.io/default-network": "kube-system/a",
                "kubevirt.io/fencing": "off",
            },
            "labels": {"app": "web", "batch.kubernetes.io/job-name": "a", "kubevirt.io/nodeName": "a"},
        },
        "spec": blank(),
    }]);
    let vm = sim.put(Kind::VirtualMachine, object);
    sim.settle();
    let meta = sim.get(&Key::new(Kind::DataVolume, "n", "data"))["metadata"].clone();
    let passed = json!({"cdi.kubevirt.io/storage.bind.immediate.requested": "true", "sidecar.istio.io/inject": "false"});
    assert_eq!(meta["annotations"], passed);
    let uid = sim.get(&vm)["metadata"]["uid"].clone();
    assert_eq!(meta["labels"], json!({"app": "web", "kubevirt.io/created-by": uid}));
    let told = sim.told.iter().filter(|(reason, _)| reason == "NotPassedOn").map(|(_, said)| said.as_str());
    let told = told.collect::<Vec<_>>().join("\n");
    for key in [
        "k8s.v1.cni.cncf.io/networks",
        "storage.clone.token",
        "batch.kubernetes.io/job-name",
        "kubevirt.io/fencing",
    ] {
        assert!(told.contains("DataVolume data") && told.contains(key), "{key}: {told}");
    }
}

/// The VMI of who may not write the word that ends fencing has it not by way of a template.
#[test]
fn the_word_that_ends_fencing_does_not_come_from_a_template() {
    let template =
        json!({"template": {"metadata": {"annotations": {"kubevirt.io/fencing": "off", "mine": "a"}}}});
    for (kind, mut object) in [
        (Kind::VirtualMachine, vm("web", "Always")),
        (Kind::VirtualMachineInstanceReplicaSet, replica_set("flock", 1)),
    ] {
        let mut sim = Sim::new();
        cluster_model::plan::merge(&mut object["spec"], &template);
        sim.put(kind, object);
        sim.settle();
        let made = sim.keys(Kind::VirtualMachineInstance).remove(0);
        let notes = &sim.get(&made)["metadata"]["annotations"];
        assert_eq!((&notes["mine"], &notes["kubevirt.io/fencing"]), (&json!("a"), &json!(null)), "{kind:?}");
    }
}

/// virt-handler takes a VMI with the label of its node for its own, and virt-controller's VMIs may have it.
#[test]
fn labels_that_our_programs_go_by_do_not_come_from_a_template() {
    let labels: std::collections::BTreeMap<_, _> = RESERVED.into_iter().map(|key| (key, "forged")).collect();
    let template = json!({"template": {"metadata": {"labels": labels}}});
    let mut of_pool = vm("web", "Always")["spec"].clone();
    cluster_model::plan::merge(&mut of_pool, &template);
    let made = json!({"metadata": {"labels": {"app": "web"}}, "spec": of_pool});
    let selector = json!({"matchLabels": {"app": "web"}});
    let pool = json!({
        "metadata": {"namespace": "n", "name": "pool"},
        "spec": {"replicas": 1, "selector": selector, "virtualMachineTemplate": made},
    });
    for (kind, mut object) in [
        (Kind::VirtualMachine, vm("web", "Always")),
        (Kind::VirtualMachineInstanceReplicaSet, replica_set("flock", 1)),
        (Kind::VirtualMachinePool, pool),
    ] {
        let mut sim = Sim::new();
        if kind != Kind::VirtualMachinePool {
            cluster_model::plan::merge(&mut object["spec"], &template);
        }
        sim.put(kind, object);
        sim.settle();
        let made = sim.keys(Kind::VirtualMachineInstance).remove(0);
        let labels = sim.get(&made)["metadata"]["labels"].to_string();
        assert!(!labels.contains("forged"), "{kind:?}: {labels}");
    }
}

/// The VMI of a VM is complete when it is made, so that the webhook would come too late.
#[test]
fn a_vmi_of_a_vm_gets_the_presets_of_its_labels() {
    let mut sim = Sim::new();
    for (name, app, model) in [("ours", "web", "Nehalem"), ("other", "db", "Haswell")] {
        let spec = json!({"selector": {"matchLabels": {"app": app}}, "domain": {"cpu": {"model": model}}});
        let object = json!({"metadata": {"namespace": "n", "name": name}, "spec": spec});
        sim.put(Kind::VirtualMachineInstancePreset, object);
    }
    let vm = sim.put(Kind::VirtualMachine, vm("web", "Always"));
    sim.settle();
    let made = sim.get(&Key::new(Kind::VirtualMachineInstance, "n", "web"));
    assert_eq!(made["spec"]["domain"]["cpu"]["model"], "Nehalem");
    assert_eq!(made["metadata"]["annotations"]["virtualmachinepreset.kubevirt.io/ours"], "kubevirt.io/v1");
    assert!(sim.get(&vm)["spec"]["template"]["spec"]["domain"]["cpu"].is_null(), "the VM stays as it is");
    assert_eq!(sim.condition(&vm, "RestartRequired"), None);
}

/// The VM comes from another cluster, whose nodes call the machine type otherwise.
#[test]
fn a_machine_type_of_a_distribution_becomes_what_the_cluster_says() {
    let mut sim = Sim::empty();
    let notes = json!({"kubevirt.io/machine-types": "pc-q35-rhel9.4.0=pc-q35-8.2"});
    let meta = json!({"namespace": "kubevirt", "name": "kubevirt", "annotations": notes});
    sim.world.put(Kind::KubeVirt, json!({"metadata": meta, "spec": {}}), sim.now);
    let mut object = vm("web", "Always");
    object["spec"]["template"]["spec"]["domain"]["machine"] = json!({"type": "pc-q35-rhel9.4.0"});
    let vm = sim.put(Kind::VirtualMachine, object);
    sim.settle();
    let key = Key::new(Kind::VirtualMachineInstance, "n", "web");
    assert_eq!(sim.get(&key)["spec"]["domain"]["machine"]["type"], "pc-q35-8.2");
    let pod = sim.pod_of(&key).unwrap();
    assert_eq!(sim.get(&pod)["spec"]["nodeSelector"]["machine-type.node.kubevirt.io/pc-q35-8.2"], "true");
    let written = &sim.get(&vm)["spec"]["template"]["spec"]["domain"]["machine"]["type"];
    assert_eq!(written, "pc-q35-rhel9.4.0", "the VM can go back");
    assert_eq!(sim.condition(&vm, "RestartRequired"), None);
}
