//! VMIs, as stories.

use crate::sim::{Sim, vmi};
use cluster_model::objects::{Attempt, Failure, Key, Kind};
use serde_json::{Value, json};

pub(super) fn begin() -> (Sim, Key) {
    let mut sim = Sim::new();
    let key = sim.put(Kind::VirtualMachineInstance, vmi("web"));
    (sim, key)
}

pub(super) fn phase(sim: &Sim, key: &Key) -> String {
    sim.get(key)["status"]["phase"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_vmi_goes_from_its_object_to_running_with_few_writes() {
    let (mut sim, key) = begin();
    sim.settle();
    assert_eq!(phase(&sim, &key), "Scheduling");
    let pod = sim.pod_of(&key).unwrap();
    assert_eq!(sim.get(&pod)["metadata"]["labels"]["app"], "web");
    sim.pod_runs(&pod, "node1");
    sim.settle();
    assert_eq!(phase(&sim, &key), "Scheduled");
    let object = sim.get(&key);
    assert_eq!(object["status"]["nodeName"], "node1");
    assert_eq!(object["metadata"]["labels"]["kubevirt.io/nodeName"], "node1");
    assert_eq!(object["status"]["activePods"][sim.get(&pod)["metadata"]["uid"].as_str().unwrap()], "node1");
    assert_eq!(object["status"]["runtimeUser"], 107);
    assert_eq!(sim.condition(&key, "Ready").unwrap().1, "GuestNotRunning");
    sim.agent_says(&key, "Running");
    sim.settle();
    assert_eq!(sim.condition(&key, "Ready").unwrap().0, "True");
    assert_eq!(sim.reasons(), ["SuccessfulCreate"]);
    // The pod, three times the VMI, once the pod's condition.
    assert_eq!(sim.writes, 5);
}

/// Made past the webhook, a VMI without it could be deleted, and made again, while its pod begins to run.
#[test]
fn what_keeps_a_vmi_is_there_before_its_pod() {
    let mut sim = Sim::new();
    let mut object = vmi("web");
    object["metadata"].as_object_mut().unwrap().remove("finalizers");
    let key = sim.put(Kind::VirtualMachineInstance, object);
    sim.round();
    assert_eq!(sim.get(&key)["metadata"]["finalizers"], json!([cluster_model::objects::FINALIZER]));
    assert!(sim.pod_of(&key).is_none());
    sim.settle();
    assert!(sim.pod_of(&key).is_some());
}

#[test]
fn a_device_has_no_files_to_share_and_it_is_said() {
    for (mode, made) in [("Block", false), ("Filesystem", true)] {
        let mut sim = Sim::new();
        let meta = json!({"namespace": "n", "name": "disk"});
        let claim = json!({"metadata": meta, "spec": {"volumeMode": mode}, "status": {"phase": "Bound"}});
        sim.put(Kind::PersistentVolumeClaim, claim);
        let mut object = vmi("web");
        object["spec"]["domain"]["devices"]["disks"] = json!([]);
        object["spec"]["domain"]["devices"]["filesystems"] = json!([{"name": "root", "virtiofs": {}}]);
        object["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]);
        let key = sim.put(Kind::VirtualMachineInstance, object);
        sim.settle();
        assert_eq!(sim.pod_of(&key).is_some(), made, "{mode}");
        if !made {
            let (_, reason, message) = sim.condition(&key, "Synchronized").unwrap();
            assert_eq!(reason, "InvalidSpec");
            assert!(message.contains("filesystems[0]: PVC n/disk is a block device"), "{message}");
        }
    }
}

#[test]
fn what_a_pod_does_not_get_is_told_when_it_is_made() {
    let mut sim = Sim::new();
    let mut object = vmi("web");
    object["metadata"]["annotations"] =
        json!({"k8s.v1.cni.cncf.io/networks": "other/net", "vm.kubevirt.io/os": "a"});
    let key = sim.put(Kind::VirtualMachineInstance, object);
    sim.settle();
    assert_eq!(sim.reasons(), ["SuccessfulCreate", "NotPassedOn"]);
    let pod = sim.get(&sim.pod_of(&key).unwrap());
    assert!(pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"].is_null());
    assert_eq!(pod["metadata"]["annotations"]["vm.kubevirt.io/os"], "a");
}

#[test]
fn what_the_scheduler_and_the_kubelet_say_is_repeated() {
    let (mut sim, key) = begin();
    sim.settle();
    let pod = sim.pod_of(&key).unwrap();
    let message = "0/1 nodes are available: 1 Insufficient memory.";
    sim.change(
        &pod,
        json!({"status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        ]}}),
    );
    sim.settle();
    let said = sim.condition(&key, "PodScheduled").unwrap();
    assert_eq!(said, ("False".into(), "Unschedulable".into(), message.into()));
    let error =
        json!({"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": "conflict"});
    sim.change(&pod, json!({"status": {"conditions": [error]}}));
    sim.settle();
    assert_eq!(sim.condition(&key, "PodScheduled"), None, "the scheduler tries again at once");
    sim.change(&pod, json!({"status": {
        "conditions": [{"type": "PodScheduled", "status": "True"}],
        "containerStatuses": [{"name": "compute", "state": {"waiting": {"reason": "ErrImagePull", "message": "manifest unknown"}}}],
    }}));
    sim.settle();
    assert_eq!(sim.condition(&key, "PodScheduled"), None);
    let said = sim.condition(&key, "Synchronized").unwrap();
    assert_eq!(said, ("False".into(), "ErrImagePull".into(), "manifest unknown".into()));
    sim.change(&pod, json!({"status": {
        "containerStatuses": [{"name": "compute", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off"}}}],
    }}));
    sim.settle();
    assert_eq!(sim.condition(&key, "Synchronized").unwrap().1, "ImagePullBackOff");
    assert_eq!(
        sim.reasons(),
        ["SuccessfulCreate", "FailedScheduling", "FailedStart"],
        "once, where it begins"
    );
    assert_eq!(sim.told[2].1, "ErrImagePull: manifest unknown");
    sim.pod_runs(&pod, "node1");
    sim.settle();
    assert_eq!(sim.condition(&key, "Synchronized"), None);
}

#[test]
fn what_the_kubelet_says_in_events_alone_is_repeated_too() {
    let (mut sim, key) = begin();
    sim.settle();
    let pod = sim.pod_of(&key).unwrap();
    let mut event = json!({
        "metadata": {"namespace": "n", "name": format!("{}.17", pod.name)},
        "involvedObject": {"namespace": "n", "name": pod.name, "uid": "of an older pod"},
        "reason": "FailedMount", "message": "secret \"keys\" not found",
    });
    assert!(!sim.world.put(Kind::Event, event.clone(), sim.now));
    event["involvedObject"]["uid"] = sim.get(&pod)["metadata"]["uid"].clone();
    assert!(
        sim.world.put(Kind::Event, event.clone(), sim.now) && !sim.world.put(Kind::Event, event, sim.now)
    );
    let touched = sim.world.dependents(&Key::new(Kind::Event, "n", format!("{}.17", pod.name)));
    assert_eq!(touched, std::slice::from_ref(&key));
    sim.settle();
    assert_eq!(sim.condition(&key, "Synchronized").unwrap().2, "secret \"keys\" not found");
    sim.pod_runs(&pod, "node1");
    sim.settle();
    assert_eq!(sim.condition(&key, "Synchronized"), None);
}

#[test]
fn a_claim_that_is_not_there_is_waited_for_by_name() {
    let mut sim = Sim::new();
    let mut object = vmi("web");
    object["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "data"}}]);
    let key = sim.put(Kind::VirtualMachineInstance, object);
    sim.settle();
    assert_eq!(phase(&sim, &key), "Pending");
    let message = "PVC n/data does not exist, waiting for it to appear";
    assert_eq!(
        sim.condition(&key, "Synchronized").unwrap(),
        ("False".into(), "FailedPvcNotFound".into(), message.into())
    );
    assert_eq!(sim.condition(&key, "PodScheduled").unwrap().2, message);
    assert_eq!(sim.reasons(), ["FailedPvcNotFound"]);
    sim.put(Kind::PersistentVolumeClaim, json!({
        "metadata": {"namespace": "n", "name": "data"}, "spec": {"volumeMode": "Block"}, "status": {"phase": "Bound"},
    }));
    sim.settle();
    assert_eq!(phase(&sim, &key), "Scheduling");
    let pod = sim.pod_of(&key).unwrap();
    assert_eq!(
        sim.get(&pod).pointer("/spec/containers/0/volumeDevices"),
        Some(&json!([{"name": "root", "devicePath": "/dev/root"}]))
    );
    assert_eq!(sim.condition(&key, "Synchronized"), None);
    let volume = |sim: &Sim| sim.get(&key)["status"]["volumeStatus"][0].clone();
    assert_eq!(
        volume(&sim),
        json!({"name": "root", "target": "", "persistentVolumeClaimInfo": {"claimName": "data", "volumeMode": "Block"}})
    );
    // What virt-handler says beside stays.
    sim.change(&key, json!({"status": {"volumeStatus": [{"name": "root", "target": "vda"}]}}));
    sim.change(
        &Key::new(Kind::PersistentVolumeClaim, "n", "data"),
        json!({"spec": {"resources": {"requests": {"storage": "1Gi"}}}, "status": {"capacity": {"storage": "2Gi"}}}),
    );
    sim.settle();
    let info = volume(&sim)["persistentVolumeClaimInfo"].clone();
    assert_eq!((volume(&sim)["target"].as_str(), &info["requests"]["storage"]), (Some("vda"), &json!("1Gi")));
    assert_eq!(info["capacity"]["storage"], "2Gi");
    // virt-handler makes disks by it, in file systems alone.
    let said = json!({"filesystemOverhead": {"global": "0.1"}});
    sim.world.put(Kind::CDIConfig, json!({"metadata": {"name": "config"}, "spec": said}), sim.now);
    let overhead_in = |sim: &mut Sim, mode: &str| {
        let pvc = Key::new(Kind::PersistentVolumeClaim, "n", "data");
        sim.change(&pvc, json!({"spec": {"volumeMode": mode}}));
        sim.settle();
        volume(sim)["persistentVolumeClaimInfo"]["filesystemOverhead"].clone()
    };
    assert_eq!(overhead_in(&mut sim, "Filesystem"), "0.1");
    assert_eq!(overhead_in(&mut sim, "Block"), Value::Null);
}

#[test]
fn a_deleted_vmi_whose_virt_handler_does_nothing_is_ended_by_the_kubelet() {
    let (mut sim, key) = begin();
    sim.boot(&key);
    let pod = sim.pod_of(&key).unwrap();
    sim.delete(&key);
    sim.advance(59);
    sim.settle();
    assert!(sim.get(&pod)["metadata"]["deletionTimestamp"].is_null(), "virt-handler has its time");
    sim.advance(1);
    sim.settle();
    assert!(!sim.get(&pod)["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(phase(&sim, &key), "Running", "it may still run");
    sim.vanish(&pod);
    sim.settle();
    assert!(!sim.objects.contains_key(&key));
}

#[test]
fn a_vmi_ends_with_its_pod() {
    for (at, expected) in
        [("Scheduling", "PodNotExists"), ("Scheduled", "PodNotExists"), ("Running", "PodNotExists")]
    {
        let (mut sim, key) = begin();
        sim.settle();
        let pod = sim.pod_of(&key).unwrap();
        if at != "Scheduling" {
            sim.pod_runs(&pod, "node1");
            sim.settle();
        }
        if at == "Running" {
            sim.agent_says(&key, at);
            sim.settle();
        }
        assert_eq!(phase(&sim, &key), at);
        sim.vanish(&pod);
        sim.settle();
        assert_eq!(
            (phase(&sim, &key).as_str(), sim.get(&key)["status"]["reason"].as_str()),
            ("Failed", Some(expected))
        );
        assert!(sim.pod_of(&key).is_none(), "no second pod for one life");
    }
}

#[test]
fn a_pod_that_is_missing_only_from_the_picture_is_not_believed_to_be() {
    let (mut sim, key) = begin();
    sim.settle();
    let pod = sim.pod_of(&key).unwrap();
    sim.world.remove(&pod);
    sim.round();
    assert_eq!(phase(&sim, &key), "Scheduling");
}

#[test]
fn how_a_vmi_ended_is_the_agents_word_for_a_minute() {
    let (mut sim, key) = begin();
    sim.boot(&key);
    let pod = sim.pod_of(&key).unwrap();
    sim.pod_ends(&pod, "Failed", 137);
    sim.settle();
    assert_eq!(phase(&sim, &key), "Running");
    sim.advance(61);
    sim.settle();
    assert_eq!(phase(&sim, &key), "Failed");
    assert!(sim.condition(&key, "Synchronized").unwrap().2.contains("exit code 137"));
}

#[test]
fn what_is_deleted_goes_when_nothing_of_it_runs() {
    let (mut sim, key) = begin();
    sim.boot(&key);
    sim.delete(&key);
    sim.settle();
    assert_eq!(phase(&sim, &key), "Running", "virt-handler shuts it down");
    sim.agent_says(&key, "Succeeded");
    sim.settle();
    let pod = sim.pod_of(&key).unwrap();
    assert!(!sim.get(&pod)["metadata"]["deletionTimestamp"].is_null());
    assert!(sim.objects.contains_key(&key), "the pod is still up");
    sim.pod_ends(&pod, "Succeeded", 0);
    sim.settle();
    assert!(sim.objects.is_empty(), "{:?}", sim.objects.keys());
}

#[test]
fn what_is_deleted_before_it_runs_takes_its_pod_along() {
    let (mut sim, key) = begin();
    sim.settle();
    sim.delete(&key);
    sim.settle();
    assert!(sim.objects.is_empty(), "a pod without a node has no kubelet that must agree");

    let (mut sim, key) = begin();
    sim.settle();
    let pod = sim.pod_of(&key).unwrap();
    sim.change(&pod, json!({"spec": {"nodeName": "node1"}}));
    sim.delete(&key);
    sim.settle();
    assert_eq!(phase(&sim, &key), "Failed");
    sim.vanish(&pod);
    sim.settle();
    assert!(sim.objects.is_empty());
}

#[test]
fn a_pod_that_the_server_refuses_is_told_of_and_tried_again() {
    let (mut sim, key) = begin();
    let retry = sim.now.checked_add(jiff::SignedDuration::from_secs(5)).unwrap();
    let message = "pods \"x\" is forbidden: violates PodSecurity \"restricted:latest\"".to_owned();
    sim.world
        .failures
        .insert(key.clone(), Failure { about: Attempt::Make(Kind::Pod), message, times: 1, retry });
    sim.settle();
    let (_, reason, said) = sim.condition(&key, "Synchronized").unwrap();
    assert_eq!(reason, "FailedCreate");
    assert!(
        said.starts_with("failed to create pod for vmi n/web, it needs a privileged namespace to run: "),
        "{said}"
    );
    assert_eq!((sim.pod_of(&key), sim.writes), (None, 1));
    sim.advance(6);
    sim.settle();
    assert!(sim.pod_of(&key).is_some());
    assert_eq!(sim.condition(&key, "Synchronized"), None);
}

#[test]
fn a_paused_vmi_leaves_its_services() {
    let (mut sim, key) = begin();
    sim.boot(&key);
    let pod = sim.pod_of(&key).unwrap();
    let unpaused = |sim: &Sim| sim.condition(&pod, crate::pod::UNPAUSED).unwrap().0;
    assert_eq!(unpaused(&sim), "True");
    let mut list: Vec<Value> = sim.get(&key)["status"]["conditions"].as_array().unwrap().clone();
    list.push(json!({"type": "Paused", "status": "True", "reason": "PausedByUser"}));
    sim.change(&key, json!({"status": {"conditions": list}}));
    sim.settle();
    assert_eq!(unpaused(&sim), "False");
    assert!(sim.condition(&key, "Paused").is_some(), "others' conditions stay");
}

#[test]
fn images_are_mounted_where_all_that_may_get_the_pod_can() {
    let node = |name: &str, kubelet: &str, schedulable: &str| {
        json!({
            "metadata": {"name": name, "labels": {"kubevirt.io/schedulable": schedulable}},
            "status": {"nodeInfo": {"kubeletVersion": kubelet, "containerRuntimeVersion": "containerd://2.1.4"}},
        })
    };
    let settings = |gates: Value| {
        json!({
            "metadata": {"namespace": "kubevirt", "name": "kubevirt"},
            "spec": {"configuration": {"developerConfiguration": {"disabledFeatureGates": gates}}},
        })
    };
    for (keeps, old_node, gates, mounted) in [
        (true, "false", json!([]), true),
        (true, "true", json!([]), false),
        (false, "false", json!([]), false),
        (true, "false", json!(["ImageVolume"]), false),
    ] {
        let (mut sim, key) = begin();
        sim.world.facts.image_volumes = keeps;
        sim.put(Kind::Node, node("new", "v1.34.0", "true"));
        sim.put(Kind::Node, node("old", "v1.32.0", old_node));
        sim.put(Kind::KubeVirt, settings(gates));
        sim.settle();
        let pod = sim.get(&sim.pod_of(&key).unwrap()).clone();
        let images =
            pod["spec"]["volumes"].as_array().unwrap().iter().filter(|volume| volume["image"].is_object());
        let containers = pod["spec"]["containers"].as_array().unwrap().len();
        // The launcher, what shows its log, and what holds an image out.
        assert_eq!((images.count(), containers), if mounted { (1, 2) } else { (0, 3) });
    }
}

#[test]
fn a_vmi_that_ended_takes_the_containers_beside_it_along() {
    let (mut sim, key) = begin();
    sim.world.facts.image_volumes = false;
    sim.boot(&key);
    let pod = sim.pod_of(&key).unwrap();
    sim.change(
        &pod,
        json!({"status": {"containerStatuses": [
            {"name": "compute", "state": {"terminated": {"exitCode": 0, "finishedAt": sim.now.to_string()}}},
            {"name": "volumeroot", "ready": true, "state": {"running": {}}},
        ]}}),
    );
    sim.agent_says(&key, "Succeeded");
    sim.settle();
    assert!(!sim.get(&pod)["metadata"]["deletionTimestamp"].is_null(), "nobody else would end them");
    sim.delete(&key);
    sim.settle();
    assert!(sim.objects.contains_key(&key), "something of it runs");
    sim.pod_ends(&pod, "Succeeded", 0);
    sim.settle();
    assert!(!sim.objects.contains_key(&key));
}

pub(super) fn reference(uid: &Value) -> Value {
    json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "web", "uid": uid, "controller": true,
    })
}

#[test]
fn without_settings_nothing_is_made_and_it_is_said_why() {
    let mut sim = Sim::empty();
    let key = sim.put(Kind::VirtualMachineInstance, vmi("web"));
    // Settings of somebody else's namespace say nothing.
    let gates = json!({"configuration": {"developerConfiguration": {"featureGates": ["HostDisk"]}}});
    let meta = |namespace: &str| json!({"namespace": namespace, "name": "kubevirt"});
    sim.world.put(Kind::KubeVirt, json!({"metadata": meta("a-tenants"), "spec": gates}), sim.now);
    sim.settle();
    assert_eq!(phase(&sim, &key), "Pending");
    let (_, reason, said) = sim.condition(&key, "Synchronized").unwrap();
    assert_eq!(reason, "KubeVirtNotFound");
    assert!(said.contains("no KubeVirt object in the namespace kubevirt"), "{said}");
    assert_eq!((sim.reasons(), sim.pod_of(&key)), (vec!["KubeVirtNotFound".to_owned()], None));
    let settings = Key::new(Kind::KubeVirt, "kubevirt", "kubevirt");
    sim.world.put(Kind::KubeVirt, json!({"metadata": meta("kubevirt"), "spec": {}}), sim.now);
    assert!(sim.world.dependents(&settings).contains(&key), "it waits for them");
    sim.settle();
    assert!(sim.pod_of(&key).is_some());
    assert_eq!(sim.condition(&key, "Synchronized"), None);
}

#[test]
fn a_gate_that_is_shut_holds_where_no_webhook_stands() {
    let mut sim = Sim::new();
    let mut object = vmi("web");
    object["spec"]["volumes"] =
        json!([{"name": "root", "hostDisk": {"path": "/var/lib/disks/n/a.img", "type": "Disk"}}]);
    let key = sim.put(Kind::VirtualMachineInstance, object);
    sim.settle();
    let (_, reason, said) = sim.condition(&key, "Synchronized").unwrap();
    assert_eq!(reason, "InvalidSpec");
    assert!(said.contains("HostDisk feature gate is not enabled"), "{said}");
    assert_eq!(sim.pod_of(&key), None);
    let open = json!({"configuration": {"developerConfiguration": {"featureGates": ["HostDisk"]}}});
    let permitting = |folders: &str| {
        let annotations = json!({api::machine::host_folders::HOST_DISK_FOLDERS: folders});
        let meta = json!({"namespace": "kubevirt", "name": "kubevirt", "annotations": annotations});
        json!({"metadata": meta, "spec": open})
    };
    for folders in ["", "/srv", "/", "/var/lib", "/var/lib/disks/n"] {
        sim.world.put(Kind::KubeVirt, permitting(folders), sim.now);
        sim.settle();
        let (_, reason, said) = sim.condition(&key, "Synchronized").unwrap();
        assert_eq!((reason.as_str(), sim.pod_of(&key)), ("InvalidSpec", None), "{folders}");
        assert!(said.contains("/var/lib/disks/n/a.img is not in a folder that the annotation"), "{said}");
    }
    sim.world.put(Kind::KubeVirt, permitting("/srv,/var/lib/disks"), sim.now);
    sim.settle();
    assert!(sim.pod_of(&key).is_some(), "whoever opens it lets it begin");
}

#[test]
fn a_device_that_is_not_permitted_makes_no_pod_where_no_webhook_stands() {
    let mut sim = Sim::new();
    let mut object = vmi("web");
    object["spec"]["domain"]["devices"]["gpus"] = json!([{"name": "g", "deviceName": "v.io/gpu"}]);
    let key = sim.put(Kind::VirtualMachineInstance, object);
    sim.settle();
    let (_, reason, said) = sim.condition(&key, "Synchronized").unwrap();
    assert_eq!(reason, "InvalidSpec");
    assert!(said.contains("GPU v.io/gpu is not permitted in permittedHostDevices configuration"), "{said}");
    assert_eq!(sim.pod_of(&key), None);
    let rules = json!([{"pciVendorSelector": "10de:1eb8", "resourceName": "v.io/gpu"}]);
    let permits = json!({"configuration": {"permittedHostDevices": {"pciHostDevices": rules}}});
    sim.world.put(
        Kind::KubeVirt,
        json!({"metadata": {"namespace": "kubevirt", "name": "kubevirt"}, "spec": permits}),
        sim.now,
    );
    sim.settle();
    let pod = sim.get(&sim.pod_of(&key).unwrap());
    assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"]["v.io/gpu"], "1");
}

#[test]
fn a_forged_place_is_put_right_by_what_the_pod_says() {
    let (mut sim, key) = begin();
    sim.boot(&key);
    let right = sim.get(&key)["status"].clone();
    let pod = sim.uid(&sim.pod_of(&key).unwrap());
    assert_eq!(right["launcherContainerImageVersion"], "registry.example/virt-launcher:1");
    let note = |pod: &Value| pod["metadata"]["annotations"]["kubevirt.io/memory-overhead-bytes"].clone();
    let overhead = note(sim.get(&sim.pod_of(&key).unwrap()));
    assert!(overhead.is_string() && right["memory"]["memoryOverhead"] == overhead, "{right}");
    sim.change(
        &key,
        json!({
            "metadata": {"labels": {"kubevirt.io/nodeName": "node9"}, "finalizers": []},
            "status": {
                "nodeName": "node9", "launcherContainerImageVersion": "evil:1", "qosClass": "Guaranteed",
                "activePods": {pod: "node9", "other": "node9"},
            },
        }),
    );
    sim.settle();
    for field in ["nodeName", "activePods", "launcherContainerImageVersion", "qosClass"] {
        assert_eq!(sim.get(&key)["status"][field], right[field], "{field}");
    }
    assert_eq!(sim.get(&key)["metadata"]["labels"]["kubevirt.io/nodeName"], "node1");
    let held = sim.get(&key)["metadata"]["finalizers"].as_array().unwrap();
    assert!(held.contains(&json!("kubevirt.io/foregroundDeleteVirtualMachine")), "nobody else ends it first");
}

#[test]
fn a_forged_status_takes_nobody_elses_revision_away() {
    let (mut sim, key) = begin();
    sim.boot(&key);
    let others = Key::new(Kind::ControllerRevision, "n", "database-6d4cf56db6");
    sim.put(Kind::ControllerRevision, json!({"metadata": {"namespace": "n", "name": others.name}}));
    sim.change(&key, json!({"status": {"virtualMachineRevisionName": others.name}}));
    let pod = sim.pod_of(&key).unwrap();
    sim.agent_says(&key, "Succeeded");
    sim.delete(&key);
    sim.settle();
    sim.pod_ends(&pod, "Succeeded", 0);
    sim.settle();
    assert!(!sim.objects.contains_key(&key) && sim.objects.contains_key(&others));
}

#[test]
fn cpus_of_its_own_are_those_of_a_guaranteed_pod() {
    let mut sim = Sim::new();
    let mut object = vmi("web");
    object["spec"]["domain"]["cpu"] = json!({"dedicatedCpuPlacement": true});
    let key = sim.put(Kind::VirtualMachineInstance, object);
    sim.settle();
    let pod = sim.pod_of(&key).unwrap();
    sim.pod_runs(&pod, "node1");
    sim.settle();
    assert_eq!(phase(&sim, &key), "Scheduling", "it is not handed over");
    let (status, reason, said) = sim.condition(&key, "Synchronized").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "FailedGuaranteeResources"));
    assert!(said.contains("is Burstable, not Guaranteed"), "{said}");
    assert_eq!(sim.reasons(), ["SuccessfulCreate", "FailedGuaranteeResources"], "it is told once");
    sim.change(&pod, json!({"status": {"qosClass": "Guaranteed"}}));
    sim.settle();
    assert_eq!(phase(&sim, &key), "Scheduled");
    assert_eq!(sim.condition(&key, "Synchronized"), None);
}
